/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPs that move from one engine of their host to the other at random moments: with packets in flight in both directions, between the packets of a
 * message, while a loss is being repaired. It takes some turns, in which packets go on arriving at either engine and programs go on posting. Nothing
 * may come of it: the model makes no exceptions.
 */
#include <stdlib.h>

#include "sim.h"
#include "transport/core/types_priv.h"

enum {
	STREAM_MOVES = 12288,
	TURNS = 20,      /* one turn in so many begins a move */
	TRIES = 3,       /* to reserve what the QP has borrowed */
	MAX_QPS = 2 * SIM_MAX_CONNS,
};

/* How far a move is. Between two steps there may be some turns; each step is in a turn of its engine, which ends with transport_run(). */
enum step { STEP_NONE = 0, STEP_LEFT, STEP_TAKEN, STEP_ARRIVED };

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

/* An XRC domain stays at its engine. */
static bool
may_move(const struct sim_ep *ep, const struct sim_qp *q)
{
	return q->ep == ep && q->qp != NULL && q->foreign == NULL && q->rq == &q->own_rq && !q->conn->xrc;
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

/* @return the share of the other engine that has the same number. */
static struct share *
other_share(const struct sim_engine *from, const struct sim_engine *to, const struct share *s)
{
	for (uint32_t i = 0; i < SIM_MAX_SHARES; i++)
		if (s != NULL && from->shares[i].share == s)
			return to->shares[i].share;
	return NULL;
}

/* ---- The steps ---- */
static void
leave(struct sim_world *w, struct sim_ep *ep, struct sim_qp *q)
{
	struct sim_moving *v = &ep->move;
	struct tp_txvec *tx;
	int rc = EAGAIN;

	v->from = &ep->engines[ep->engines[1].tp == q->tp];
	v->to = &ep->engines[v->from == &ep->engines[0]];
	v->share = other_share(v->from, v->to, q->params.share);
	v->m = qp_move_create(q->qp, v->to->tp, v->share);
	if (v->m == NULL)
		abort();
	for (uint32_t i = 0; i < TRIES && rc == EAGAIN; i++) {
		rc = qp_move_check(v->m, v->from->tp, w->now_ns);
		if (rc == EAGAIN && qp_move_reserve(v->m) != 0)
			rc = ENOMEM;
	}
	if (rc != 0) {
		if (rc == EAGAIN || (rc == ENOMEM && w->cfg.pools.inflight_blocks + w->cfg.pools.read_blocks + w->cfg.pools.scoreboards +
							     w->cfg.pools.reorders + w->cfg.pools.reorder_pkts == 0))
			sim_fail(w, "QP %u can't move: %d", q->id, rc);
		qp_move_destroy(v->m);
		endpoint_end_turn(w, ep, v->from);
		return;
	}
	qp_move_leave(v->m, v->from->tp);
	sim_trace(w, "QP %u leaves engine %u", q->id, (unsigned int)(v->from - ep->engines));
	tx = transport_tx(v->from->tp, q->port);
	v->last = tx->n != 0 ? tx->pkts[tx->n - 1] : NULL;
	v->q = q;
	v->step = STEP_LEFT;
	v->turns = 1 + (uint32_t)rng_below(&v->rng, 3);
	endpoint_end_turn(w, ep, v->from);
}

/* What the QP has built must leave its former engine first. */
static bool
is_sent(const struct sim_moving *v)
{
	const struct tp_txvec *tx = transport_tx(v->from->tp, v->q->port);

	for (uint32_t i = 0; i < tx->n; i++)
		if (tx->pkts[i] == v->last)
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

static void
arrive(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_moving *v = &ep->move;

	/* From now on its packets to QPs of this engine, and theirs, may go by reference, and must not overtake frames. */
	endpoint_drain(w, ep, v->to);
	v->q->tp = v->to->tp;
	v->q->params.share = v->share;
	qp_move_arrive(v->m, w->now_ns);
	note_held(w, ep, v, v->held);
	note_held(w, ep, v, &v->to->tp->held);
	qp_move_run_held(v->m, w->now_ns);
	free(v->held);
	v->held = NULL;
	endpoint_end_turn(w, ep, v->to);
	sim_trace(w, "QP %u arrives at engine %u", v->q->id, (unsigned int)(v->to - ep->engines));
	w->stats.moves++;
}

static void
next_step(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_moving *v = &ep->move;

	switch ((enum step)v->step) {
	case STEP_LEFT:
		endpoint_drain(w, ep, v->from);
		v->held = malloc(sizeof(*v->held));
		if (v->held == NULL)
			abort();
		*v->held = v->from->tp->held;
		qp_move_take_held(v->m, v->from->tp);
		endpoint_end_turn(w, ep, v->from);
		v->step = STEP_TAKEN;
		break;
	case STEP_TAKEN:
		arrive(w, ep);
		v->step = STEP_ARRIVED;
		break;
	default:
		transport_held_forward(v->from->tp);
		qp_move_destroy(v->m);
		v->m = NULL;
		v->q = NULL;
		v->step = STEP_NONE;
		break;
	}
	v->turns = (uint32_t)rng_below(&v->rng, 3);
}

/* ---- When ---- */
bool
moves_turn(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_moving *v = &ep->move;
	struct sim_qp *q;

	if (v->step == STEP_NONE) {
		if ((w->cfg.faults & SIM_F_MOVES) && !w->settled && ep->nb_engines > 1 && rng_one_in(&v->rng, TURNS) && (q = choose(w, ep)) != NULL)
			leave(w, ep, q);
		return v->step != STEP_NONE;
	}
	if (v->turns > 0)
		v->turns--;
	else if (v->step != STEP_LEFT || is_sent(v))
		next_step(w, ep);
	return true;
}

void
moves_finish(struct sim_world *w, struct sim_ep *ep)
{
	bool moved = ep->move.step != STEP_NONE;

	if (ep->move.step == STEP_LEFT && !is_sent(&ep->move))
		endpoint_flush(w, ep, ep->move.from, ep->move.q->port);
	while (ep->move.step != STEP_NONE)
		next_step(w, ep);
	if (moved)
		world_run_at(w, ep->id, w->now_ns);
}
