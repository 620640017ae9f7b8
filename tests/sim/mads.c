/* SPDX-License-Identifier: BSD-3-Clause */
/* The GSI: MADs between QPs 1, which arrive as they were sent, with the addresses that they came from, and nothing else does. */
#include <string.h>

#include "sim.h"

enum { TURNS_PER_MAD = 24 };

/* What MAD number @p id consists of. */
static const uint8_t *
content(uint32_t id)
{
	return sim_pattern + id * 997;
}

/* @return what a receiver says the P_Key is: its own entry, as full member if it is that; 0: it isn't in the partition. */
static uint16_t
taken_as(const struct sim_ep *ep, uint16_t pkey)
{
	uint16_t found = 0;
	uint32_t i;

	for (i = 0; i < UROCE_MAX_PKEYS; i++)
		if (pkeys_meet(ep->pkeys[i], pkey) && ep->pkeys[i] > found)
			found = ep->pkeys[i];
	return found;
}

void
mads_turn(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_mad *s;
	uint8_t mad[TP_MAD_BYTES];
	struct uroce_ah_attr ah;
	struct tp_path path;
	struct rte_mbuf *m;
	uint16_t from_port;
	uint32_t bytes;

	if ((w->cfg.faults & SIM_F_GSI) == 0 || w->nb_mads == SIM_MAX_MADS || w->settled || !rng_one_in(&ep->rng, TURNS_PER_MAD))
		return;
	m = rte_pktmbuf_alloc(sim_pool);
	if (m == NULL)
		return;
	s = &w->mads[w->nb_mads];
	s->from = ep->id;
	s->to = (ep->id + 1 + (uint32_t)rng_below(&ep->rng, w->cfg.nb_eps - 1)) % w->cfg.nb_eps;
	do {
		s->pkey = ep->pkeys[rng_below(&ep->rng, UROCE_MAX_PKEYS)];
	} while (s->pkey == 0);
	from_port = ep->nb_ports > 1 ? (uint16_t)rng_below(&ep->rng, ep->nb_ports) : 0;
	s->port = w->eps[s->to].nb_ports > 1 ? (uint16_t)rng_below(&ep->rng, w->eps[s->to].nb_ports) : 0;
	path_make(ep, from_port, &w->eps[s->to], s->port, rng_one_in(&ep->rng, 2), &ep->rng, &path, &ah);
	s->addr = path.addr;
	memcpy(mad, content(w->nb_mads), sizeof(mad));
	memcpy(mad, &w->nb_mads, sizeof(w->nb_mads));
	bytes = gsi_build(rte_pktmbuf_mtod(m, uint8_t *), &path.addr, s->pkey, w->nb_mads, mad);
	m->data_len = (uint16_t)bytes;
	m->pkt_len = bytes;
	sim_trace(w, "endpoint %u sends MAD %u to endpoint %u", ep->id, w->nb_mads, s->to);
	w->nb_mads++;
	link_send(w, ep->id, from_port, -1, m);
}

static bool
is_gid(const struct gid *gid, const struct wire_addr *a, const uint8_t *ip)
{
	return gid_is_v4(gid) == (a->ip_version == 4) && memcmp(gid_ip(gid), ip, gid_ip_bytes(gid)) == 0;
}

void
mads_received(void *arg, const struct tp_mad *m)
{
	enum { ECN = 3 };
	struct sim_ep *ep = arg;
	struct sim_world *w = ep->w;
	const struct wire_addr *a;
	struct sim_mad *s;
	uint32_t id;

	if (ep->crash.killed || connect_takes(ep, m))
		return;
	memcpy(&id, m->data, sizeof(id));
	if (id >= w->nb_mads || memcmp(m->data + sizeof(id), content(id) + sizeof(id), TP_MAD_BYTES - sizeof(id)) != 0) {
		sim_fail(w, "endpoint %u: a MAD that nobody sent", ep->id);
		return;
	}
	s = &w->mads[id];
	a = &s->addr;
	if (s->to != ep->id || m->port != s->port || m->src_qpn != 1 || !is_gid(&m->sgid, a, a->sip) || !is_gid(&m->dgid, a, a->dip))
		sim_fail(w, "endpoint %u: MAD %u comes from somewhere else", ep->id, id);
	/* What the ICRC doesn't cover may be damaged. */
	if (!(w->cfg.faults & SIM_F_CORRUPT) &&
	    (memcmp(m->smac, a->smac, sizeof(m->smac)) != 0 || m->hop_limit != a->ttl ||
	     m->traffic_class != (a->traffic_class & ~ECN) || (a->ip_version == 6 && m->flow_label != a->flow_label)))
		sim_fail(w, "endpoint %u: MAD %u has come by another way", ep->id, id);
	if (m->pkey == 0 || m->pkey != taken_as(ep, s->pkey))
		sim_fail(w, "endpoint %u: MAD %u of P_Key 0x%04x is taken for one of 0x%04x", ep->id, id, s->pkey, m->pkey);
	if (++s->received > 1 && !(w->cfg.faults & SIM_F_DUP))
		sim_fail(w, "endpoint %u: MAD %u comes again", ep->id, id);
}

void
mads_end(struct sim_world *w)
{
	uint32_t i;

	for (i = 0; i < w->nb_mads && w->cfg.lossless; i++)
		if (w->mads[i].received == 0 && taken_as(&w->eps[w->mads[i].to], w->mads[i].pkey) != 0)
			sim_fail(w, "endpoint %u: MAD %u hasn't come", w->mads[i].to, i);
}
