/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Devices of libibverbs.so.1 and opening them. Besides connection.h, this is what lib/uroce, whose devices belong to
 * stacks in the same process, needs of lib/verbs. Threads: any.
 */
#ifndef UROCE_VERBS_DEVICE_H
#define UROCE_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs/connection.h"

/**
 * A device that the daemon offers. It exists as long as the process: programs keep pointers after
 * ibv_free_device_list().
 */
struct client_device {
	struct ibv_device dev;
	/**
	 * rdma-core keeps a provider's ops pointer after struct ibv_device; libmlx5 and libefa compare it with their
	 * own to find out whether a device is theirs. So there must be something readable that matches none of them.
	 */
	const void *foreign_ops[8];
	bool used;
	uint32_t index; /**< the daemon's number for it */
	__be64 guid;
	char socket_path[108];
};

/** Fill in struct ibv_device. @param netdev  Kernel interface that the device shares, or "". */
void client_device_fill(struct client_device *d, const char *name, const char *netdev);
/**
 * Open @p d on a connection on which HELLO was sent.
 * @param sock  Owned by the context from now on, even if this fails.
 * @param wait  NULL, or as in struct client_ctx.
 * @return NULL with errno set.
 */
struct ibv_context *client_open_session(struct client_device *d, int sock, client_wait_fn wait);

#endif /* UROCE_VERBS_DEVICE_H */
