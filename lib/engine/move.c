/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * QPs that move from one engine to another, alone or with their SRQs, and doorbells of those that are elsewhere. docs/internals/moves.md has the whole of it.
 *
 * A QP keeps the doorbell that its client knows, which is one of the engine where it was created, its home. While the QP is elsewhere, its place in
 * the home's table of doorbells is empty, and a struct moved_qp is in another table beside it, so that no other doorbell pays for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/rcu.h"
#include "base/tsan.h"
#include "engine/engine_priv.h"

enum {
	MOVE_TRIES = 8,              /**< to leave, if copies are under way or more has to be reserved, */
	MOVE_TRIES_GROUP = 32,       /**< for several QPs: each may have borrowed something since the last time */
	MOVE_LOOKS = 3,              /**< so often the engine is asked whether QPs have drained, without a rest, */
	MOVE_LOOK_NS = 20000,        /**< and then after one that doubles each time: an engine that is asked doesn't yield its core, which the peer's may need */
	MOVE_LOOK_MAX_NS = 2000000,
	MOVE_SENT_NS = 1000000,      /**< how long a QP that has left waits until its port has taken what it has built */
};

/* A QP with a doorbell of an engine that isn't its own. */
struct moved_qp {
	struct engine_msg msg;       /* to its engine: the doorbell has rung */
	struct qp *qp;
	_Atomic uint32_t rung;       /* 1: the message is under way */
};

struct move {
	struct engine *from, *to;
	const struct engine_group *g;
	struct qp_move *m;
	struct moved_qp **spare;     /* for those that leave their home, by QP; NULL: not needed, or used */
	const struct rte_mbuf *last[UROCE_MAX_PORTS]; /* behind all that the QPs have built */
	uint64_t until_ns;
};

/* ---- Doorbells ---- */
/** [owner of the QP's engine] The doorbell has rung at its home. */
static int
rung_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct moved_qp *q = arg;

	atomic_exchange(&q->rung, 0);
	/* One that has left since looks at its SQ when it arrives. */
	if (qp_is_at(q->qp, e->tp))
		qp_doorbell(e->tp, q->qp);
	return 0;
}

bool
moved_ring(struct engine *e, struct engine_session *s, uint32_t slot)
{
	struct moved_qp *q = s->moved != NULL ? s->moved[slot] : NULL;
	struct engine *to;
	int at;

	if (q == NULL)
		return false;
	at = qp_engine_now(q->qp);
	/* One that is on its way looks at its SQ when it arrives. A message that is under way has not been seen yet. */
	if (at < 0 || atomic_exchange(&q->rung, 1) != 0)
		return true;
	to = e->peers[at];
	atomic_store_explicit(&q->msg.state, MSG_QUEUED, memory_order_relaxed);
	tsan_release(to->mailbox);
	if (rte_ring_enqueue(to->mailbox, &q->msg) != 0) {
		atomic_store(&q->rung, 0);
		ring_db_ring(s->db, slot); /* again in the next turn */
		return true;
	}
	e->handed_to |= UINT64_C(1) << at;
	return true;
}

/** [owner] The QP has left its home, or is back. @return the struct that is needed no more, or NULL. */
static struct moved_qp *
moved_set(struct engine_session *s, uint32_t slot, struct qp *here, struct moved_qp *elsewhere)
{
	struct moved_qp *was = s->moved != NULL ? s->moved[slot] : NULL;

	s->qps[slot] = here;
	if (s->moved != NULL)
		s->moved[slot] = elsewhere;
	return was;
}

/** For set_msg(). */
struct set {
	struct engine_session *s;
	uint32_t slot;
	struct moved_qp *q, *was; /**< of the slot; the one before it */
};

/** The QP of a slot isn't at home. */
static int
set_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct set *a = arg;

	a->was = moved_set(a->s, a->slot, NULL, a->q);
	return 0;
}

static int
nothing_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	return 0;
}

void
engine_session_forget_qp(struct engine *home, struct engine *at, struct engine_session *s, uint32_t slot)
{
	struct set a = { .s = s, .slot = slot };

	engine_call(home, set_msg, &a);
	/* Its message may still be in the other mailbox, before this one. */
	engine_call(at, nothing_msg, NULL);
	free(a.was);
}

struct table {
	struct engine_session *s;
	struct moved_qp **moved;
};

static int
table_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct table *t = arg;

	t->s->moved = t->moved;
	return 0;
}

/** @return false: no memory. */
static bool
has_table(struct engine *home, struct engine_session *s)
{
	struct table t = { .s = s };

	if (s->moved != NULL)
		return true;
	t.moved = calloc(s->max_slots, sizeof(*t.moved));
	if (t.moved == NULL)
		return false;
	engine_call(home, table_msg, &t);
	return true;
}

static struct moved_qp *
moved_new(struct qp *qp)
{
	struct moved_qp *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return NULL;
	q->qp = qp;
	q->msg = (struct engine_msg){ .fn = rung_msg, .arg = q };
	return q;
}

int
engine_session_set_elsewhere(struct engine *home, struct engine_session *s, uint32_t slot, struct qp *qp)
{
	struct set a = { .s = s, .slot = slot };

	if (slot >= s->max_slots)
		return EINVAL;
	if (!has_table(home, s) || (a.q = moved_new(qp)) == NULL)
		return ENOMEM;
	engine_call(home, set_msg, &a);
	return 0;
}

/* ---- The steps of a move ---- */
static int
reserve_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct move *v = arg;

	return qp_move_reserve(v->m);
}

/** [owner of from] Whether all can leave; then they do. @return also EINPROGRESS: they drain. */
static int
leave_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct move *v = arg;
	int rc;

	if (!qp_move_drain(v->m, e->tp, now_ns))
		return EINPROGRESS;
	io_tx(e, now_ns);
	rc = qp_move_check(v->m, e->tp, now_ns);
	if (rc != 0)
		return rc;
	qp_move_leave(v->m, e->tp);
	for (unsigned int i = 0; i < v->g->nb_qps; i++) {
		const struct engine_move *q = &v->g->qps[i];

		if (q->home != e)
			continue;
		moved_set(q->session, q->slot, NULL, v->spare[i]);
		v->spare[i] = NULL;
	}
	for (uint16_t p = 0; p < e->c.nb_ports; p++) {
		const struct tp_txvec *tx = transport_tx(e->tp, p);

		v->last[p] = tx->n != 0 ? tx->pkts[tx->n - 1] : NULL;
	}
	v->until_ns = now_ns + MOVE_SENT_NS;
	return 0;
}

/** [owner of from] They don't leave after all. */
static int
stay_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct move *v = arg;

	qp_move_stay(v->m, e->tp, now_ns);
	return 0;
}

/** @return whether the ports have taken what the QPs had built when they left. */
static bool
is_sent(const struct move *v, struct engine *e)
{
	for (uint16_t p = 0; p < e->c.nb_ports; p++) {
		const struct tp_txvec *tx = transport_tx(e->tp, p);

		for (uint16_t i = 0; i < tx->n && v->last[p] != NULL; i++)
			if (tx->pkts[i] == v->last[p])
				return false;
	}
	return true;
}

/** [owner of from] What other engines have handed over for the QPs is here: take it. */
static int
take_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct move *v = arg;

	if (!is_sent(v, e) && now_ns < v->until_ns)
		return EAGAIN;
	io_rx_inside(e, now_ns);
	qp_move_take_held(v->m, e->tp, now_ns);
	return 0;
}

/** [owner of to] */
static int
arrive_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct move *v = arg;

	if (now_ns < qp_move_arrives_ns(v->m))
		return EAGAIN;
	/* From now on packets of the QPs to others of this engine, and theirs to them, may go by reference, and must not overtake frames. */
	io_rx_inside(e, now_ns);
	qp_move_arrive(v->m, now_ns);
	for (unsigned int i = 0; i < v->g->nb_qps; i++) {
		const struct engine_move *q = &v->g->qps[i];

		if (q->home == e)
			v->spare[i] = moved_set(q->session, q->slot, q->qp, NULL);
	}
	qp_move_run_held(v->m, now_ns);
	return 0;
}

static int
forward_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	transport_held_forward(e->tp);
	if (e->handed_to != 0)
		io_handoff_done(e);
	return 0;
}

static int
end_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct move *v = arg;

	qp_move_end(v->m);
	return 0;
}

/* ---- All of it ---- */
static bool
prepare(struct move *v)
{
	const struct engine_group *g = v->g;

	v->m = qp_move_create(v->to->tp, g->nb_qps, g->nb_srqs);
	v->spare = calloc(g->nb_qps, sizeof(*v->spare));
	if (v->m == NULL || v->spare == NULL)
		return false;
	if (g->brief)
		qp_move_be_brief(v->m);
	for (unsigned int i = 0; i < g->nb_srqs; i++)
		qp_move_add_srq(v->m, g->srqs[i]);
	for (unsigned int i = 0; i < g->nb_qps; i++) {
		const struct engine_move *q = &g->qps[i];

		qp_move_add(v->m, q->qp, q->share);
		if (q->home != v->from)
			continue;
		v->spare[i] = moved_new(q->qp);
		if (v->spare[i] == NULL || !has_table(q->home, q->session))
			return false;
	}
	return true;
}

/** Between two of these messages the engine has turns: packets are received, and those that have to be sent again are. */
static int
drain_and_leave(struct move *v)
{
	long ns = MOVE_LOOK_NS;
	int rc;

	for (unsigned int i = 1; (rc = engine_call(v->from, leave_msg, v)) == EINPROGRESS; i++) {
		if (i < MOVE_LOOKS)
			continue;
		nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
		ns = RTE_MIN(2 * ns, (long)MOVE_LOOK_MAX_NS);
	}
	return rc;
}

static int
leave(struct move *v)
{
	unsigned int tries = v->g->nb_qps > 1 ? MOVE_TRIES_GROUP : MOVE_TRIES;
	int rc = EAGAIN;

	for (unsigned int i = 0; i < tries && (rc == EAGAIN || rc == EBUSY); i++) {
		rc = drain_and_leave(v);
		if (rc == EAGAIN && (rc = engine_call(v->to, reserve_msg, v)) == 0)
			rc = EAGAIN;
	}
	if (rc != 0)
		engine_call(v->from, stay_msg, v);
	return rc == EAGAIN ? EBUSY : rc;
}

/** @return 0 or an errno value; then nothing has changed. */
static int
move(struct move *v)
{
	int rc;

	/* If it sleeps, the QPs needn't wait for its waking up. */
	engine_call(v->to, nothing_msg, NULL);
	rc = leave(v);
	if (rc != 0)
		return rc;
	/* From here on it can't fail. */
	rcu_wait(v->from->c.sh.qsbr);
	while (engine_call(v->from, take_msg, v) == EAGAIN)
		;
	while (engine_call(v->to, arrive_msg, v) == EAGAIN)
		;
	for (unsigned int i = 0; i < UROCE_MAX_ENGINES; i++)
		if (v->from->peers[i] != NULL && v->from->peers[i] != v->to)
			engine_call(v->from->peers[i], forward_msg, NULL);
	return 0;
}

int
engine_move_qps(struct engine *from, struct engine *to, const struct engine_group *g, uint64_t *pause_ns)
{
	struct move v = { .from = from, .to = to, .g = g };
	int rc = ENOMEM;

	UROCE_ASSERT(g->nb_qps > 0 && g->nb_qps <= ENGINE_MOVE_MOST && g->nb_srqs <= ENGINE_MOVE_MOST && from != to);
	*pause_ns = 0;
	if (prepare(&v))
		rc = move(&v);
	if (rc == 0)
		*pause_ns = qp_move_pause(v.m);
	/* What has rung for a QP that is back at home has been passed on to its former engine before forward_msg(). */
	if (v.m != NULL)
		engine_call(to, end_msg, &v);
	qp_move_destroy(v.m);
	for (unsigned int i = 0; i < g->nb_qps && v.spare != NULL; i++)
		free(v.spare[i]);
	free(v.spare);
	return rc;
}
