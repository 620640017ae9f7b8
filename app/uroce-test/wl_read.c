/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA READ from another host. */
#include "workload.h"

static const struct workload_ops read_ops = {
	.name = "read",
	.help = "RDMA READ",
	.qp_type = IBV_QPT_RC,
	.opcode = IBV_WR_RDMA_READ,
	.reaches_memory = true,
	.areas = 1,
};
WORKLOAD(read_ops)
