/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma-core's private symbol versions. Programs link libmlx5 and libefa (perftest, UCX, libfabric), whose imports must
 * be resolved for the program to start. None of our devices is theirs, so they are called only by mistake. Three are
 * real: a provider's constructor registers itself, ibv_devinfo and pyverbs ask for a GID's type, and the header of rdma-core 56
 * offers ibv_wr_opcode_str() to programs.
 */
#include "verbs/client_priv.h"

#include "verbs/private_names.h"

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

/* The alias refers to this and not to the function itself, because its symbol must be defined in this file. */
__attribute__((used)) static int
private_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, int *type)
{
	return client_query_gid_type(context, port, index, type);
}

__attribute__((used)) static const char *
private_opcode_str(unsigned int opcode)
{
	return client_wr_opcode_str(opcode);
}

/* bool verbs_allow_disassociate_destroy: whether a provider may ignore that its device was removed. */
__attribute__((used)) static bool private_flag;

#define ALIAS_(name, abi, type, target, at) \
	__asm__(".globl private_" #abi "_" #name "\n\t.type private_" #abi "_" #name ",@" #type \
		"\n\t.set private_" #abi "_" #name "," #target "\n\t.symver private_" #abi "_" #name "," #name \
		at "IBVERBS_PRIVATE_" #abi)
#define ALIAS(name, abi, type, target) ALIAS_(name, abi, type, target, "@")

#define STUB(name, node) ALIAS(name, node, function, private_stub);
/* `at`: "@@" makes its version of what programs call the default one, the only one that dlsym() finds. */
#define NODE(node, at) \
	PRIVATE_NAMES(STUB, node) \
	ALIAS_(ibv_query_gid_type, node, function, private_gid_type, at); \
	ALIAS_(ibv_wr_opcode_str, node, function, private_opcode_str, at); \
	ALIAS(verbs_register_driver_##node, node, function, private_register); \
	ALIAS(verbs_allow_disassociate_destroy, node, object, private_flag);

NODE(22, "@")
NODE(25, "@")
NODE(33, "@")
NODE(34, "@@")	/* that of rdma-core 44 and 56 */
NODE(57, "@")
NODE(59, "@")
NODE(64, "@")
NODE(65, "@")
