/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA WRITE from one host to another. */
#include "workload.h"

static void
make(struct endpoint *ep, uint32_t slot, struct ibv_send_wr *wr)
{
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->wr.rdma.remote_addr = flow_remote(ep, slot);
	wr->wr.rdma.rkey = ep->rkey;
}

static const struct workload_ops write_ops = {
	.name = "write",
	.help = "RDMA WRITE",
	.qp_type = IBV_QPT_RC,
	.reaches_memory = true,
	.areas = 1,
	.make = make,
};
WORKLOAD(write_ops)
