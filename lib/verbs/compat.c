/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What programs linked with libibverbs 1.0 (2006) need: functions that IBVERBS_1.1 redefined, whose pointers referred
 * to other structs than today. They exist so that such a program starts. It finds no device, so it never has an object
 * with which to call the others.
 */
#include "verbs/client_priv.h"

/* Functions that return a pointer or void, and those that return an errno value. */
__attribute__((used)) static void *
no_object(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

__attribute__((used)) static int
no_service(void)
{
	return EOPNOTSUPP;
}

__attribute__((used)) static void *
no_devices(int *num)
{
	if (num)
		*num = 0;
	client_complain("this program is linked with libibverbs 1.0 (2006), which uroce doesn't serve: link it again");
	errno = ENOSYS;
	return NULL;
}

__attribute__((used)) static void
no_driver(void)
{
}

#define OLD(name, function, version) \
	__asm__(".globl old_" #name "\n\t.type old_" #name ",@function\n\t.set old_" #name "," #function \
		"\n\t.symver old_" #name "," #name "@IBVERBS_" version)

OLD(ibv_get_device_list, no_devices, "1.0");
OLD(ibv_ack_async_event, no_service, "1.0");
OLD(ibv_ack_cq_events, no_service, "1.0");
OLD(ibv_alloc_pd, no_object, "1.0");
OLD(ibv_attach_mcast, no_service, "1.0");
OLD(ibv_close_device, no_service, "1.0");
OLD(ibv_create_ah, no_object, "1.0");
OLD(ibv_create_cq, no_object, "1.0");
OLD(ibv_create_qp, no_object, "1.0");
OLD(ibv_create_srq, no_object, "1.0");
OLD(ibv_dealloc_pd, no_service, "1.0");
OLD(ibv_dereg_mr, no_service, "1.0");
OLD(ibv_destroy_ah, no_service, "1.0");
OLD(ibv_destroy_cq, no_service, "1.0");
OLD(ibv_destroy_qp, no_service, "1.0");
OLD(ibv_destroy_srq, no_service, "1.0");
OLD(ibv_detach_mcast, no_service, "1.0");
OLD(ibv_free_device_list, no_service, "1.0");
OLD(ibv_get_async_event, no_service, "1.0");
OLD(ibv_get_cq_event, no_service, "1.0");
OLD(ibv_get_device_guid, no_object, "1.0");
OLD(ibv_get_device_name, no_object, "1.0");
OLD(ibv_modify_qp, no_service, "1.0");
OLD(ibv_modify_srq, no_service, "1.0");
OLD(ibv_open_device, no_object, "1.0");
OLD(ibv_query_device, no_service, "1.0");
OLD(ibv_query_gid, no_service, "1.0");
OLD(ibv_query_pkey, no_service, "1.0");
OLD(ibv_query_port, no_service, "1.0");
OLD(ibv_query_qp, no_service, "1.0");
OLD(ibv_query_srq, no_service, "1.0");
OLD(ibv_reg_mr, no_object, "1.0");
OLD(ibv_resize_cq, no_service, "1.0");

/* Providers older than 2010 register themselves with this function. */
OLD(ibv_register_driver, no_driver, "1.1");
