/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPs that move from one engine of their host to the other at random moments, alone or with all that share an SRQ or an XRC domain with them: with packets
 * in flight in both directions, between the packets of a message, while a loss is being repaired. It takes some turns, in which packets go on arriving at either engine and programs go on posting. Nothing
 * may come of it: the model makes no exceptions. What an engine sends may overtake what another one has sent (link.c), so before QPs leave they drain. Programs
 * do whatever they like meanwhile, and now and then the QPs stay after all.
 */
#include <stdlib.h>

#include "sim.h"
#include "transport/core/types_priv.h"

enum {
	STREAM_MOVES = 12288,
	TURNS = 20,      /* one turn in so many begins a move */
	TRIES = 3,       /* to reserve what the QP has borrowed */
	STAYS_ONE_IN = 16,
	MAX_QPS = 2 * SIM_MAX_CONNS,
};
#define DRAIN_LOOK_NS 100000 /* as often it is looked whether QPs have drained, if nothing else happens */

/* How far a move is. Between two steps there may be some turns; each step is in a turn of its engine, which ends with transport_run(). */
enum step { STEP_NONE = 0, STEP_DRAINS, STEP_LEFT, STEP_TAKEN, STEP_ARRIVED };

void
moves_init(struct sim_world *w, struct sim_ep *ep)
{
	ep->move.rng = rng_stream(w->cfg.seed, STREAM_MOVES + ep->id);
}

bool
moves_away(const struct sim_qp *q)
{
	return q->qp != NULL && q->foreign == NULL && q->qp->tp == NULL;
}

static bool
may_move(const struct sim_ep *ep, const struct sim_qp *q)
{
	return q->ep == ep && q->qp != NULL && q->foreign == NULL;
}

static struct sim_qp *
choose(struct sim_world *w, struct sim_ep *ep)
{
	uint32_t n = 2 * w->cfg.nb_conns, at = (uint32_t)rng_below(&ep->move.rng, n);

	for (uint32_t i = 0; i < n; i++, at = (at + 1) % n)
		if (may_move(ep, &w->conns[at / 2].qp[at & 1]))
			return &w->conns[at / 2].qp[at & 1];
	return NULL;
}

static bool
is_xrc_target(const struct sim_qp *q)
{
	return q->conn->xrc && q == &q->conn->qp[1];
}

/* @return whether the two have to be at one engine. */
static bool
go_together(const struct sim_qp *a, const struct sim_qp *b)
{
	if (a == b || a->ep != b->ep || a->foreign != NULL || b->foreign != NULL)
		return a == b;
	if (a->conn->xrc || b->conn->xrc)
		return is_xrc_target(a) && is_xrc_target(b);
	return a->rq == b->rq;
}

/* @return the share of the other engine that has the same number. */
static struct share *
other_share(const struct sim_engine *from, const struct sim_engine *to, const struct share *s)
{
	for (uint32_t i = 0; i < SIM_MAX_SHARES; i++)
		if (s != NULL && from->shares[i].share == s)
			return to->shares[i].share;
	return NULL;
}

/* Find all that moves with @p q. */
static void
find_group(struct sim_world *w, struct sim_ep *ep, struct sim_qp *q)
{
	struct sim_moving *v = &ep->move;

	v->nb_qps = v->nb_srqs = 0;
	for (uint32_t i = 0; i < 2 * w->cfg.nb_conns; i++) {
		struct sim_qp *other = &w->conns[i / 2].qp[i & 1];

		if (!go_together(q, other))
			continue;
		v->shares[v->nb_qps] = other_share(v->from, v->to, other->params.share);
		v->qps[v->nb_qps++] = other;
	}
	/* The SRQ of another domain stays: it has no QPs. */
	for (uint32_t i = 0; is_xrc_target(q) && i < ep->nb_xsrqs; i++)
		v->srqs[v->nb_srqs++] = &ep->xsrqs[i];
	if (!q->conn->xrc && q->rq != &q->own_rq)
		v->srqs[v->nb_srqs++] = q->rq;
}

/* ---- The steps ---- */
static struct qp_move *
begin(const struct sim_moving *v)
{
	struct qp_move *m = qp_move_create(v->to->tp, v->nb_qps, v->nb_srqs);

	if (m == NULL)
		abort();
	for (uint32_t i = 0; i < v->nb_srqs; i++)
		qp_move_add_srq(m, v->srqs[i]->srq);
	for (uint32_t i = 0; i < v->nb_qps; i++)
		if (v->qps[i]->qp != NULL)
			qp_move_add(m, v->qps[i]->qp, v->shares[i]);
	return m;
}

/* A pool may be too small to lend for so many. */
static bool
may_lack(const struct sim_world *w)
{
	const struct tp_pool_sizes *p = &w->cfg.pools;

	return p->inflight_blocks + p->read_blocks + p->scoreboards + p->reorders + p->reorder_pkts + p->sge_blocks != 0;
}

/* They don't leave. */
static void
stay(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_moving *v = &ep->move;

	qp_move_stay(v->m, v->from->tp, w->now_ns);
	qp_move_end(v->m);
	qp_move_destroy(v->m);
	v->m = NULL;
	v->step = STEP_NONE;
	sim_trace(w, "QP %u and %u others stay", v->qps[0]->id, v->nb_qps - 1);
	endpoint_end_turn(w, ep, v->from);
}

static void
leave(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_moving *v = &ep->move;
	int rc = EAGAIN;

	if (rng_one_in(&v->rng, STAYS_ONE_IN)) {
		stay(w, ep);
		return;
	}
	for (uint32_t i = 0; i < TRIES && rc == EAGAIN; i++) {
		rc = qp_move_check(v->m, v->from->tp, w->now_ns);
		if (rc == EAGAIN && qp_move_reserve(v->m) != 0)
			rc = ENOMEM;
	}
	if (rc != 0) {
		if (rc == EAGAIN || (rc == ENOMEM && !may_lack(w)))
			sim_fail(w, "QP %u can't move: %d", v->qps[0]->id, rc);
		stay(w, ep);
		return;
	}
	qp_move_leave(v->m, v->from->tp);
	sim_trace(w, "QP %u leaves engine %u with %u QPs and %u SRQs", v->qps[0]->id, (unsigned int)(v->from - ep->engines), v->nb_qps - 1, v->nb_srqs);
	for (uint16_t port = 0; port < ep->nb_ports; port++) {
		const struct tp_txvec *tx = transport_tx(v->from->tp, port);

		v->last[port] = tx->n != 0 ? tx->pkts[tx->n - 1] : NULL;
	}
	v->step = STEP_LEFT;
	v->turns = 1 + (uint32_t)rng_below(&v->rng, 3);
	endpoint_end_turn(w, ep, v->from);
}

static void
drain(struct sim_world *w, struct sim_ep *ep, struct sim_qp *q)
{
	struct sim_moving *v = &ep->move;

	v->from = &ep->engines[ep->engines[1].tp == q->tp];
	v->to = &ep->engines[v->from == &ep->engines[0]];
	find_group(w, ep, q);
	v->m = begin(v);
	v->step = STEP_DRAINS;
	sim_trace(w, "QP %u is about to leave engine %u", q->id, (unsigned int)(v->from - ep->engines));
	if (qp_move_drain(v->m, v->from->tp, w->now_ns))
		leave(w, ep);
}

/* @return whether the port has taken what they had built: that must leave their former engine first. */
static bool
port_is_sent(const struct sim_moving *v, uint16_t port)
{
	const struct tp_txvec *tx = transport_tx(v->from->tp, port);

	for (uint32_t i = 0; i < tx->n; i++)
		if (tx->pkts[i] == v->last[port])
			return false;
	return true;
}

static bool
is_sent(const struct sim_ep *ep)
{
	for (uint16_t port = 0; port < ep->nb_ports; port++)
		if (!port_is_sent(&ep->move, port))
			return false;
	return true;
}

/* The model looks at what arrives when it gets to the QP's engine. */
static void
note_held(struct sim_world *w, struct sim_ep *ep, const struct sim_moving *v, const struct tp_held_list *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		if (l->e[i].trusted)
			continue;
		tally_arrived(v->to, l->e[i].m);
		sent_arrives(w, ep->id, v->to->tp, l->e[i].m);
	}
}

/* What there is of a list, which has room for far more. */
static struct tp_held_list *
held_copy(const struct tp_held_list *l)
{
	size_t bytes = offsetof(struct tp_held_list, e) + l->n * sizeof(l->e[0]);
	struct tp_held_list *copy = malloc(bytes);

	if (copy == NULL)
		abort();
	memcpy(copy, l, bytes);
	return copy;
}

static void
arrive(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_moving *v = &ep->move;

	/* From now on their packets to QPs of this engine, and of those, may go by reference, and must not overtake frames. */
	endpoint_drain(w, ep, v->to);
	for (uint32_t i = 0; i < v->nb_qps; i++) {
		v->qps[i]->tp = v->to->tp;
		v->qps[i]->params.share = v->shares[i];
	}
	for (uint32_t i = 0; i < v->nb_srqs; i++)
		v->srqs[i]->tp = v->to->tp;
	qp_move_arrive(v->m, w->now_ns);
	note_held(w, ep, v, v->held);
	note_held(w, ep, v, v->to->tp->held);
	qp_move_run_held(v->m, w->now_ns);
	free(v->held);
	v->held = NULL;
	endpoint_end_turn(w, ep, v->to);
	sim_trace(w, "%u QPs arrive at engine %u, QP %u the first", v->nb_qps, (unsigned int)(v->to - ep->engines), v->qps[0]->id);
	w->stats.moves++;
}

static void
next_step(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_moving *v = &ep->move;

	switch ((enum step)v->step) {
	case STEP_LEFT:
		endpoint_drain(w, ep, v->from);
		v->held = held_copy(v->from->tp->held);
		qp_move_take_held(v->m, v->from->tp, w->now_ns);
		endpoint_end_turn(w, ep, v->from);
		v->step = STEP_TAKEN;
		break;
	case STEP_TAKEN:
		arrive(w, ep);
		v->step = STEP_ARRIVED;
		break;
	default:
		transport_held_forward(v->from->tp);
		qp_move_end(v->m);
		qp_move_destroy(v->m);
		v->m = NULL;
		v->step = STEP_NONE;
		break;
	}
	v->turns = (uint32_t)rng_below(&v->rng, 3);
}

/* ---- When ---- */
bool
moves_turn(struct sim_world *w, struct sim_ep *ep, uint64_t *next)
{
	struct sim_moving *v = &ep->move;
	struct sim_qp *q;

	if (v->step == STEP_NONE) {
		if ((w->cfg.faults & SIM_F_MOVES) == 0 || w->settled || ep->nb_engines == 1 || !rng_one_in(&v->rng, TURNS) || (q = choose(w, ep)) == NULL)
			return false;
		drain(w, ep, q);
		return true;
	}
	if (v->step == STEP_DRAINS) {
		/* It ends at the latest when they have waited long enough. */
		*next = RTE_MIN(*next, w->now_ns + DRAIN_LOOK_NS);
		if (!qp_move_drain(v->m, v->from->tp, w->now_ns))
			return false;
		leave(w, ep);
		return true;
	}
	if (w->late_all && v->step == STEP_TAKEN && w->now_ns < qp_move_arrives_ns(v->m)) {
		*next = RTE_MIN(*next, qp_move_arrives_ns(v->m));
		return false;
	}
	if (v->turns > 0)
		v->turns--;
	else if (v->step != STEP_LEFT || is_sent(ep))
		next_step(w, ep);
	return true;
}

bool
moves_under_way(const struct sim_ep *ep)
{
	return ep->move.step > STEP_DRAINS;
}

void
moves_stop(struct sim_world *w, struct sim_ep *ep)
{
	if (ep->move.step == STEP_DRAINS) {
		stay(w, ep);
		world_run_at(w, ep->id, w->now_ns);
	}
	moves_finish(w, ep);
}

void
moves_finish(struct sim_world *w, struct sim_ep *ep)
{
	bool moved = moves_under_way(ep);

	for (uint16_t port = 0; ep->move.step == STEP_LEFT && port < ep->nb_ports; port++)
		if (!port_is_sent(&ep->move, port))
			endpoint_flush(w, ep, ep->move.from, port);
	/* In place of the time that a QP lets pass before it arrives. */
	if (moved && ep->move.step != STEP_ARRIVED)
		link_join_lanes(w, ep->id);
	while (moves_under_way(ep))
		next_step(w, ep);
	if (moved)
		world_run_at(w, ep->id, w->now_ns);
}
