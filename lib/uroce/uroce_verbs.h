/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Verbs inside the process: rdma-core's <infiniband/verbs.h>, unchanged, whose functions are liburoce's here.
 *
 * The functions that this header and <infiniband/verbs.h> declare are called by the names that everybody knows; the compiler
 * gives them others (uroce_ibv_open_device and so on). So nothing in the process that uses rdma-core's libibverbs is affected, and
 * DPDK's PMDs for ConnectX do; a file that doesn't include this header has rdma-core's verbs as before.
 * Include it before, or in place of, <infiniband/verbs.h>.
 *
 * What is the same as in every verbs program: all functions, man pages, return values and errno; objects may be used by many
 * threads; post, poll and the rest of the data path take no system call and no lock that the stack holds.
 *
 * What is different, because the daemon's part is in the same process:
 *
 *  - Memory is used where it is, whatever its kind: the heap, stacks, EAL's memory (rte_malloc(), mempools), with hugepages or without. Nothing
 *    is converted, copied or mapped. It must stay mapped until ibv_dereg_mr() has returned.
 *  - A function that waits for the stack (everything that creates, changes, destroys or queries; ibv_get_cq_event();
 *    ibv_get_async_event()) drives meanwhile what nobody drives: engines and controls of all stacks of this process that no thread is in. So
 *    one thread may do everything. The other way round, what such a thread does between two calls must include
 *    uroce_engine_poll(), or no byte moves.
 *  - It must not be called from a signal handler, nor between uroce_shutdown() and the end of it.
 *  - ibv_get_device_list() lists the devices of all stacks of this process; their pointers are good until uroce_destroy().
 *
 * Connections are made by ibv_modify_qp() with numbers that the application exchanges; librdmacm isn't part of liburoce.
 */
#ifndef UROCE_VERBS_H
#define UROCE_VERBS_H

#include "uroce_verbs_names.h"

#include <infiniband/verbs.h>

#include "uroce.h"

#endif /* UROCE_VERBS_H */
