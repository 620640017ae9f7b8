/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Devices of libibverbs.so.1 and how one is opened: what lib/uroce, whose devices belong to stacks in the same process, needs
 * of lib/verbs beside connection.h. Threads: any.
 */
#ifndef UROCE_VERBS_DEVICE_H
#define UROCE_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs/connection.h"

/** A device that the daemon offers. Lives as long as the process: programs keep pointers beyond ibv_free_device_list().
 */
struct client_device {
	struct ibv_device dev;
	/**
	 * rdma-core keeps a provider's ops pointer behind struct ibv_device; libmlx5 and libefa compare it with their
	 * own to learn whether a device is theirs. It must be readable and match nobody.
	 */
	const void *foreign_ops[8];
	bool used;
	uint32_t index; /**< the daemon's number of it */
	__be64 guid;
	char socket_path[108];
};

/** Fill in what struct ibv_device says of a device. @param netdev  Kernel interface that it shares, or "". */
void client_device_fill(struct client_device *d, const char *name, const char *netdev);
/**
 * Open @p d on a connection where HELLO was said.
 * @param sock  Becomes the context's, also if this fails.
 * @param wait  NULL, or as in struct client_ctx.
 * @return NULL with errno set.
 */
struct ibv_context *client_open_session(struct client_device *d, int sock, client_wait_fn wait);

#endif /* UROCE_VERBS_DEVICE_H */
