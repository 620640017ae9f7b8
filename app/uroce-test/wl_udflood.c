/* SPDX-License-Identifier: BSD-3-Clause */
/* UD datagrams as fast as possible: those for which no receive is posted are lost, and counted. */
#include <inttypes.h>
#include <stdio.h>

#include "workload.h"

enum { MIN_MTU = 256 };

static int
setup(struct workload *w, const struct call *c)
{
	struct ibv_port_attr port;
	uint32_t mtu = MIN_MTU;

	if (ibv_query_port(w->from->ctx, 1, &port) == 0)
		mtu = 128u << port.active_mtu;
	if (w->o.size > mtu) {
		workload_fail(w, "size: '%u': a datagram has at most %u bytes, the MTU of %s", w->o.size, mtu, w->from->name);
		return -1;
	}
	return 0;
}

static void
make(struct endpoint *ep, uint32_t slot, struct ibv_send_wr *wr)
{
	wr->wr.ud.ah = ep->ah;
	wr->wr.ud.remote_qpn = ep->remote_qpn;
	wr->wr.ud.remote_qkey = OBJECT_UD_QKEY;
}

static void
describe(const struct workload *w, char *text, size_t bytes)
{
	uint64_t received = 0, sent = 0;

	for (unsigned int i = 0; i < w->nb_lanes; i++)
		for (uint32_t k = 0; k < w->lanes[i]->nb_eps; k++) {
			received += atomic_load_explicit(&w->lanes[i]->eps[k].received, memory_order_relaxed);
			sent += atomic_load_explicit(&w->lanes[i]->eps[k].ops, memory_order_relaxed);
		}
	snprintf(text, bytes, "%" PRIu64 " arrived (%.2f %%)", received, sent > 0 ? 100 * (double)received / (double)sent : 0);
}

static const struct workload_ops udflood_ops = {
	.name = "udflood",
	.help = "UD datagrams as fast as they go; tells how many arrive",
	.qp_type = IBV_QPT_UD,
	.opcode = IBV_WR_SEND,
	.receives = true,
	.areas = 1,
	.size = 1024,
	.depth = 64,
	.setup = setup,
	.make = make,
	.describe = describe,
};
WORKLOAD(udflood_ops)
