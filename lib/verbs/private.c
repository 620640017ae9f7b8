/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma-core's private nodes. Programs link libmlx5 and libefa (perftest, UCX, libfabric), whose imports must be found
 * for the program to start; no device of ours is theirs, so nothing of it is ever called but by mistake. Two are real:
 * a provider's constructor registers itself, and ibv_devinfo and pyverbs ask for a GID's type.
 */
#include "verbs/client_priv.h"

#include <errno.h>

int client_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type);

__attribute__((used)) static long
private_stub(void)
{
	errno = EOPNOTSUPP;
	return EOPNOTSUPP;
}

__attribute__((used)) static void
private_register(const void *ops)
{
}

/* Not called directly by the alias: the symbol behind it must be of this file. */
__attribute__((used)) static int
private_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	return client_query_gid_type(context, port, index, type);
}

/* bool verbs_allow_disassociate_destroy: whether a provider may ignore that its device is gone. */
__attribute__((used)) static bool private_flag;

#define ALIAS_(name, abi, type, target) \
	__asm__(".globl private_" #abi "_" #name "\n\t.type private_" #abi "_" #name ",@" #type \
		"\n\t.set private_" #abi "_" #name "," #target "\n\t.symver private_" #abi "_" #name "," #name \
		"@IBVERBS_PRIVATE_" #abi)
#define ALIAS(name, abi, type, target) ALIAS_(name, abi, type, target)

#define STUB(name) ALIAS(name, 22, function, private_stub);
#include "verbs/private_names.h"
#undef STUB
ALIAS(ibv_query_gid_type, 22, function, private_gid_type);
ALIAS(verbs_register_driver_22, 22, function, private_register);
ALIAS(verbs_allow_disassociate_destroy, 22, object, private_flag);

#define STUB(name) ALIAS(name, 25, function, private_stub);
#include "verbs/private_names.h"
#undef STUB
ALIAS(ibv_query_gid_type, 25, function, private_gid_type);
ALIAS(verbs_register_driver_25, 25, function, private_register);
ALIAS(verbs_allow_disassociate_destroy, 25, object, private_flag);

#define STUB(name) ALIAS(name, 33, function, private_stub);
#include "verbs/private_names.h"
#undef STUB
ALIAS(ibv_query_gid_type, 33, function, private_gid_type);
ALIAS(verbs_register_driver_33, 33, function, private_register);
ALIAS(verbs_allow_disassociate_destroy, 33, object, private_flag);

#define STUB(name) ALIAS(name, 34, function, private_stub);
#include "verbs/private_names.h"
#undef STUB
ALIAS(ibv_query_gid_type, 34, function, private_gid_type);
ALIAS(verbs_register_driver_34, 34, function, private_register);
ALIAS(verbs_allow_disassociate_destroy, 34, object, private_flag);

#define STUB(name) ALIAS(name, 57, function, private_stub);
#include "verbs/private_names.h"
#undef STUB
ALIAS(ibv_query_gid_type, 57, function, private_gid_type);
ALIAS(verbs_register_driver_57, 57, function, private_register);
ALIAS(verbs_allow_disassociate_destroy, 57, object, private_flag);

#define STUB(name) ALIAS(name, 59, function, private_stub);
#include "verbs/private_names.h"
#undef STUB
ALIAS(ibv_query_gid_type, 59, function, private_gid_type);
ALIAS(verbs_register_driver_59, 59, function, private_register);
ALIAS(verbs_allow_disassociate_destroy, 59, object, private_flag);

#define STUB(name) ALIAS(name, 64, function, private_stub);
#include "verbs/private_names.h"
#undef STUB
ALIAS(ibv_query_gid_type, 64, function, private_gid_type);
ALIAS(verbs_register_driver_64, 64, function, private_register);
ALIAS(verbs_allow_disassociate_destroy, 64, object, private_flag);

#define STUB(name) ALIAS(name, 65, function, private_stub);
#include "verbs/private_names.h"
#undef STUB
ALIAS(ibv_query_gid_type, 65, function, private_gid_type);
ALIAS(verbs_register_driver_65, 65, function, private_register);
ALIAS(verbs_allow_disassociate_destroy, 65, object, private_flag);
