/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ports whose MTU becomes smaller while QPs use them, and large enough again after a while, as when somebody sets that of the interface. What doesn't fit is dropped and
 * counted before it is on the wire. For everybody else it is lost, as while a link is down, and this takes no longer than that does.
 */
#include <inttypes.h>

#include <rte_ether.h>

#include "sim.h"
#include "transport/core/types_priv.h"
#include "transport/path/changes.h"

enum {
	STREAM_MTUS = 65536,
	HEADERS_BYTES = 100, /* more than any packet has around its payload */
};

void
mtus_init(struct sim_world *w, struct sim_ep *ep)
{
	ep->mtu.rng = rng_stream(w->cfg.seed, STREAM_MTUS + ep->id);
	ep->mtu.change_ns = rng_below(&ep->mtu.rng, w->cfg.partition_every_ns);
}

/* @param shift  log2 of the largest path MTU; 0: any. */
static void
set(struct sim_ep *ep, uint32_t shift)
{
	ep->mtu.ip_mtu = shift != 0 ? (1u << shift) + HEADERS_BYTES : 0;
	for (uint32_t i = 0; i < ep->nb_engines; i++)
		transport_set_mtu(ep->engines[i].tp, ep->mtu.port, ep->mtu.ip_mtu, (uint8_t)shift);
	for (uint32_t i = 0; i < ep->nb_engines; i++)
		transport_follow_mtu(ep->engines[i].tp, ep->mtu.port, 0, qp_table_slots(ep->sh.qps));
}

/* @return whether packets that were built before are still to be sent. */
static bool
is_sending(struct sim_ep *ep, uint16_t port)
{
	for (uint32_t i = 0; i < ep->nb_engines; i++)
		if (transport_tx(ep->engines[i].tp, port)->n != 0)
			return true;
	return false;
}

void
mtus_turn(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_mtu *m = &ep->mtu;

	if ((w->cfg.faults & SIM_F_PARTITION) == 0 || w->cfg.max_mtu == UROCE_MTU_256 || w->now_ns < m->change_ns)
		return;
	/* While the host had nothing to do, the MTU may have been small, and large enough again. Otherwise it would be small whenever a timer ends a long wait. */
	if (m->ip_mtu != 0 || w->now_ns - m->change_ns > w->cfg.partition_ns) {
		set(ep, 0);
		m->ended_ns = w->now_ns;
		m->change_ns = w->now_ns + rng_between(&m->rng, 1, w->cfg.partition_every_ns);
		return;
	}
	m->port = (uint16_t)rng_below(&m->rng, ep->nb_ports);
	if (is_sending(ep, m->port))
		return;
	set(ep, 7 + (uint32_t)rng_between(&m->rng, UROCE_MTU_256, w->cfg.max_mtu - 1));
	m->change_ns = w->now_ns + rng_between(&m->rng, 1, w->cfg.partition_ns);
	sim_trace(w, "endpoint %u: port %u has a smaller MTU for %" PRIu64 " us", ep->id, m->port, (m->change_ns - w->now_ns) / 1000);
}

void
mtus_check(struct sim_world *w, const struct sim_ep *ep, uint16_t port, const struct rte_mbuf *m)
{
	const struct sim_mtu *mtu = &ep->mtu;

	if (mtu->ip_mtu != 0 && port == mtu->port && m->pkt_len - RTE_ETHER_HDR_LEN > mtu->ip_mtu)
		sim_fail(w, "endpoint %u: a packet of %u bytes leaves by a port whose MTU is %u", ep->id, m->pkt_len - RTE_ETHER_HDR_LEN, mtu->ip_mtu);
}

bool
mtus_small_since(const struct sim_ep *ep, uint64_t ns)
{
	return ep->mtu.ip_mtu != 0 || ep->mtu.ended_ns >= ns;
}
