/* SPDX-License-Identifier: BSD-3-Clause */
/* A message to the peer and one back; the latency is that of the round trip. */
#include "workload.h"

static void
make(struct endpoint *ep, uint32_t slot, struct ibv_send_wr *wr)
{
	wr->imm_data = slot;
}

/** The operation ends when the response arrives, so the completion of the SEND is ignored. */
static void
sent(struct endpoint *ep, uint32_t slot, const struct ibv_wc *wc)
{
}

static void
received(struct endpoint *ep, uint32_t slot, const struct ibv_wc *wc)
{
	uint32_t which = wc->imm_data;

	if (which >= ep->lane->w->o.depth || (wc->wc_flags & IBV_WC_WITH_IMM) == 0)
		workload_fail(ep->lane->w, "%s QPN 0x%x: a message that isn't of ours arrived", ep->lane->host->name, wc->qp_num);
	else if (ep->active)
		flow_done(ep, which, 2 * (uint64_t)wc->byte_len);
	else
		flow_post(ep, which);
}

static const struct workload_ops pingpong_ops = {
	.name = "pingpong",
	.help = "SEND there and SEND back; latencies are round trips",
	.qp_type = IBV_QPT_RC,
	.opcode = IBV_WR_SEND_WITH_IMM,
	.receives = true,
	.both_post = true,
	.areas = 1,
	.size = 64,
	.depth = 1,
	.make = make,
	.sent = sent,
	.received = received,
};
WORKLOAD(pingpong_ops)
