/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast groups: who is in them, who sends to them, and that each member gets one copy (10.5.2). */
#include <string.h>

#include "sim.h"

enum { STREAM_MCAST_GROUPS = 5, TURNS_PER_CHANGE = 64 };

static void
make_group(struct sim_world *w, uint32_t number)
{
	struct sim_group *g = &w->groups[number];
	static const uint8_t ip6[4] = { 0xff, 0x0e }, ip4[4] = { 0xff, 0xff, 239 };

	g->ip6 = rng_one_in(&w->mcast_rng, 2);
	if (g->ip6)
		memcpy(g->gid.raw, ip6, 2);
	else
		memcpy(g->gid.raw + 10, ip4, 3);
	g->gid.raw[15] = (uint8_t)number;
}

/* The group's address as the sender's network layer has it (RFC 1112, 6.4; RFC 2464, 7). */
static void
make_path(const struct sim_group *g, const struct tp_path *own, struct tp_path *path)
{
	static const uint8_t mac4[] = { 0x01, 0x00, 0x5e }, mac6[] = { 0x33, 0x33 };

	*path = *own;
	path->multicast = true;
	path->loopback = false;
	memset(path->addr.dip, 0, sizeof(path->addr.dip));
	memcpy(path->addr.dip, gid_ip(&g->gid), gid_ip_bytes(&g->gid));
	memset(path->addr.dmac, 0, sizeof(path->addr.dmac));
	memcpy(path->addr.dmac, g->ip6 ? mac6 : mac4, g->ip6 ? sizeof(mac6) : sizeof(mac4));
	path->addr.dmac[5] = g->gid.raw[15];
}

static bool
join(struct sim_qp *q, uint32_t group)
{
	q->groups[group].ever = q->groups[group].now = true;
	return mcast_attach(q->ep->sh.mcasts, q->port, &q->ep->w->groups[group].gid, q->qpn) == 0;
}

static void
leave(struct sim_qp *q, uint32_t group)
{
	struct sim_member *m = &q->groups[group];

	if (!m->now)
		return;
	m->now = false;
	m->left_ns = q->ep->w->now_ns;
	if (mcast_detach(q->ep->sh.mcasts, q->port, &q->ep->w->groups[group].gid, q->qpn) != 0)
		sim_fail(q->ep->w, "QP %u isn't in its group", q->id);
}

bool
mcast_make(struct sim_world *w)
{
	struct rng *r = &w->mcast_rng;
	uint32_t i, g;

	if ((w->cfg.faults & SIM_F_MCAST) == 0)
		return true;
	*r = rng_stream(w->cfg.seed, STREAM_MCAST_GROUPS);
	w->nb_groups = (uint32_t)rng_between(r, 1, SIM_MAX_GROUPS);
	for (g = 1; g <= w->nb_groups; g++)
		make_group(w, g);
	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		for (g = 1; g <= w->nb_groups && q->params.type == UROCE_QPT_UD; g++) {
			if (!rng_one_in(r, 3) && !join(q, g))
				return false;
			if (w->groups[g].ip6 != (q->path.addr.ip_version == 6) || rng_one_in(r, 4))
				continue;
			make_path(&w->groups[g], &q->path, &q->groups[g].path);
			if (ah_create(q->ep->sh.ahs, SIM_PD, &q->groups[g].path, &q->groups[g].ah) != 0)
				return false;
		}
	}
	return true;
}

void
mcast_leave(struct sim_qp *q)
{
	uint32_t g;

	for (g = 1; g <= q->ep->w->nb_groups; g++)
		leave(q, g);
}

/* Some come and go; others stay, so that it can be told what they must get. */
static bool
fickle(const struct sim_qp *q)
{
	return (q->id ^ q->ep->w->cfg.seed) % 4 == 0;
}

bool
mcast_steady(const struct sim_qp *q)
{
	return q->ep->w->nb_groups == 0 || !fickle(q);
}

void
mcast_turn(struct sim_world *w, struct sim_ep *ep)
{
	uint32_t i, g;

	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->ep != ep || q->qp == NULL || q->params.type != UROCE_QPT_UD || !fickle(q) ||
		    !rng_one_in(&w->mcast_rng, TURNS_PER_CHANGE))
			continue;
		g = (uint32_t)rng_between(&w->mcast_rng, 1, w->nb_groups);
		sim_trace(w, "QP %u %s group %u", q->id, q->groups[g].now ? "leaves" : "joins", g);
		if (q->groups[g].now)
			leave(q, g);
		else if (!join(q, g))
			sim_fail(w, "QP %u can't join a group", q->id);
	}
}

/* All that are in it, or were, receive already. */
static bool
group_is_up(const struct sim_world *w, uint32_t group)
{
	uint32_t i;

	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		const struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->groups[group].ever &&
		    (q->qp == NULL || qp_state(q->qp) < UROCE_QPS_RTR || qp_state(q->qp) > UROCE_QPS_SQE))
			return false;
	}
	return true;
}

bool
mcast_choose(struct sim_world *w, struct sim_qp *q, struct sim_op *op)
{
	uint32_t g;

	if (w->nb_groups == 0 || q->params.type != UROCE_QPT_UD || rng_one_in(&q->rng, 2))
		return false;
	g = (uint32_t)rng_between(&q->rng, 1, w->nb_groups);
	if (q->groups[g].ah == 0 || !group_is_up(w, g))
		return false;
	op->group = g;
	op->qkey = rng_one_in(&q->rng, 4) ? q->attr.qkey ^ 0x33333333 : q->attr.qkey; /* setup.c: the other one */
	return true;
}

uint32_t
mcast_mtu(const struct sim_world *w, uint32_t group)
{
	uint32_t mtu = 4096, i;

	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		const struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		/* Any of them may come to be in it. */
		if (q->params.type == UROCE_QPT_UD && (q->groups[group].ever || fickle(q)) && q->mtu < mtu)
			mtu = q->mtu;
	}
	return mtu;
}

uint32_t
mcast_group_of(const struct sim_world *w, const uint8_t *grh)
{
	uint32_t g;

	for (g = 1; g <= w->nb_groups; g++) {
		const struct sim_group *x = &w->groups[g];

		if (x->ip6 ? grh[0] >> 4 == 6 && gid_equal(gid_at(grh + 24), &x->gid) :
			     grh[0] == 0 && memcmp(grh + 36, gid_ip(&x->gid), 4) == 0)
			return g;
	}
	return 0;
}

bool
op_reaches(const struct sim_op *op, const struct sim_qp *q)
{
	const struct sim_member *m = &q->groups[op->group];

	if (!pkeys_meet(op->pkey, q->pkey))
		return false;
	if (op->group == 0)
		return op->to == q;
	/* What is sent after a member has left doesn't get there. */
	return m->ever && op->qkey == q->attr.qkey && (m->now || op->posted_ns <= m->left_ns);
}

void
mcast_world_end(struct sim_world *w)
{
	uint32_t i;

	for (i = 0; i < w->cfg.nb_eps; i++)
		if (mcast_table_attached(w->eps[i].sh.mcasts) != 0 || mcast_table_groups(w->eps[i].sh.mcasts) != 0)
			sim_fail(w, "endpoint %u: members of groups are left", i);
}
