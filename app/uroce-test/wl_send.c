/* SPDX-License-Identifier: BSD-3-Clause */
/* SEND, with a receive posted for every message. */
#include "workload.h"

static void
make(struct endpoint *ep, uint32_t slot, struct ibv_send_wr *wr)
{
	wr->opcode = IBV_WR_SEND;
}

static const struct workload_ops send_ops = {
	.name = "send",
	.help = "SEND into receives that are posted again at once",
	.qp_type = IBV_QPT_RC,
	.receives = true,
	.areas = 1,
	.make = make,
};
WORKLOAD(send_ops)
