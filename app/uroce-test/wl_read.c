/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA READ from another host. */
#include "workload.h"

static void
make(struct endpoint *ep, uint32_t slot, struct ibv_send_wr *wr)
{
	wr->opcode = IBV_WR_RDMA_READ;
	wr->wr.rdma.remote_addr = flow_remote(ep, slot);
	wr->wr.rdma.rkey = ep->rkey;
}

static const struct workload_ops read_ops = {
	.name = "read",
	.help = "RDMA READ",
	.qp_type = IBV_QPT_RC,
	.reaches_memory = true,
	.areas = 1,
	.make = make,
};
WORKLOAD(read_ops)
