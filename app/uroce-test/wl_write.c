/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA WRITE from one host to another. */
#include "workload.h"

static const struct workload_ops write_ops = {
	.name = "write",
	.help = "RDMA WRITE",
	.qp_type = IBV_QPT_RC,
	.opcode = IBV_WR_RDMA_WRITE,
	.reaches_memory = true,
	.areas = 1,
};
WORKLOAD(write_ops)
