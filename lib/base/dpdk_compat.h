/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * DPDK 22.11 (Debian 12) to 25.11 from one source: what has changed its name or its type between these releases, under one name.
 * No other file asks for DPDK's version.
 */
#ifndef UROCE_BASE_DPDK_COMPAT_H
#define UROCE_BASE_DPDK_COMPAT_H

#include <rte_lcore.h>
#include <rte_telemetry.h>
#include <rte_thread.h>
#include <rte_version.h>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "uroce needs DPDK 22.11 or later: install libdpdk-dev of Debian 12 or later"
#endif

/* The names of telemetry's unsigned numbers since DPDK 23.03. */
#if RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0)
#define rte_tel_data_add_array_uint rte_tel_data_add_array_u64
#define rte_tel_data_add_dict_uint rte_tel_data_add_dict_u64
#define RTE_TEL_UINT_VAL RTE_TEL_U64_VAL
#endif

/** What the function of a thread returns: 0 */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
typedef uint32_t dpdk_thread_rc;
#else
typedef void *dpdk_thread_rc;
#endif

/**
 * Start a thread that runs where DPDK's own control threads run. rte_ctrl_thread_create(), which did that, is gone since
 * DPDK 24.11; rte_thread_create_control() has this form since 23.11.
 *
 * @param thread  set if it was started; for rte_thread_join()
 * @param name  fewer than RTE_THREAD_NAME_SIZE bytes
 * @param func  called in the new thread with @p arg
 * @return 0, or an errno value, negative or not
 */
static inline int
dpdk_control_thread(rte_thread_t *thread, const char *name, dpdk_thread_rc (*func)(void *), void *arg)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
	return rte_thread_create_control(thread, name, func, arg);
#else
	pthread_t id;
	int rc = rte_ctrl_thread_create(&id, name, NULL, func, arg);

	if (rc == 0)
		thread->opaque_id = (uintptr_t)id;
	return rc;
#endif
}

#endif
