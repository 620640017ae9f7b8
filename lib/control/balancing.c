/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `balance = on`: at the end of each interval, how busy the engines were and what each QP has cost; then the moves that core/balance.c plans. Looks and
 * moves are spread over turns, so that requests of programs are served between them.
 */
#include <stdio.h>

#include <rte_common.h>

#include "control/loop_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/observe/inspect_priv.h"

#define NS_PER_MS UINT64_C(1000000)

/** Put the loads since the last call into @p loads: an engine that has slept all the time has none. */
static void
measure_engines(struct control *c, uint32_t *loads)
{
	struct balancing *b = &c->balancing;

	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		const struct engine_stats *s = engine_stats(c->s.engines[i]);
		uint64_t busy = counter_read(&s->busy_cycles), idle = counter_read(&s->idle_cycles);
		uint64_t was_busy = busy - b->busy_cycles[i], all = was_busy + idle - b->idle_cycles[i];

		loads[i] = all != 0 ? (uint32_t)((double)was_busy * BALANCE_ALL / (double)all) : 0;
		b->busy_cycles[i] = busy;
		b->idle_cycles[i] = idle;
	}
}

/* ---- Looking ---- */
static void
begin_look(struct control *c, uint64_t now_ns)
{
	struct balancing *b = &c->balancing;
	uint32_t loads[UROCE_MAX_ENGINES];

	measure_engines(c, loads);
	if (b->planning)
		balance_begin(&b->policy, loads);
	b->looking = true;
	b->looks++;
	b->session = 0;
	b->pos = 0;
	b->nb_moves = b->next_move = 0;
	b->next_ns = now_ns + BALANCE_INTERVAL_MS * NS_PER_MS;
}

/** Look at a QP, with all that moves together with it; in one look once. */
static void
look_at(struct control *c, struct session *s, struct obj_qp *qp, uint64_t now_ns)
{
	struct balance_qp q = { .session = s->id, .handle = qp->obj.handle };
	struct obj_qp_load load;
	bool stays;

	if (!obj_qp_look(qp, c->balancing.looks, &load))
		return;
	q.cost = load.cost;
	q.nb_qps = load.nb_qps;
	stays = load.moved_ns != 0 && now_ns - load.moved_ns < BALANCE_STAY_MS * NS_PER_MS;
	balance_add(&c->balancing.policy, qp->engine, &q, !stays && load.may_move);
}

/** @return whether all QPs have been looked at. */
static bool
look(struct control *c, uint64_t now_ns)
{
	struct balancing *b = &c->balancing;
	uint32_t left = BALANCING_SLICE;
	struct session *s;
	struct obj_qp *qp;

	/* Sessions stand in the order of their numbers. That of the last slice may be gone. */
	TAILQ_FOREACH(s, &c->sessions, link) {
		if (s->id < b->session)
			continue;
		b->pos = s->id == b->session ? b->pos : 0;
		b->session = s->id;
		while ((qp = handles_next(&s->tab[OBJ_QP], &b->pos)) != NULL) {
			look_at(c, s, qp, now_ns);
			if (--left == 0)
				return false;
		}
	}
	return true;
}

/* ---- Moving ---- */
static void
log_move(const struct session *s, const struct obj_qp *qp, const struct balance_move *m, unsigned int qps, bool first)
{
	char others[64] = "";

	if (qps > 1)
		snprintf(others, sizeof(others), ", with %u of its %s,", qps - 1, qp->target != NULL ? "XRC domain" : "SRQ");
	rte_log(first ? RTE_LOG_NOTICE : RTE_LOG_DEBUG, control_logtype,
		"uroced: balance: QP %#x (%s pid %d)%s has moved from engine %u, which was busy for %u %%, to engine %u, %u %%%s\n", qp->qpn,
		s->program, (int)s->pid, others, m->from, m->from_load / (BALANCE_ALL / 100), m->to, m->to_load / (BALANCE_ALL / 100),
		first ? "; /uroce/move counts what else moves" : "");
}

/** Make a move that was planned, unless the QP is gone or elsewhere by now. Nobody has asked for it, so nobody's requests wait for its peer. */
static void
make_move(struct control *c, const struct balance_move *m)
{
	struct session *s = session_find(c, m->qp.session);
	struct obj_qp *qp = s != NULL ? handles_get(&s->tab[OBJ_QP], m->qp.handle) : NULL;
	struct control_moved moved;
	const char *why;

	if (qp == NULL || qp->engine != m->from || obj_qp_move(s, qp, m->to, true, &moved, &why) != 0)
		return;
	c->moves.balanced += moved.qps;
	log_move(s, qp, m, moved.qps, c->moves.balanced == moved.qps);
}

/* ---- All of it ---- */
static void
start(struct control *c, uint64_t now_ns)
{
	struct balancing *b = &c->balancing;

	b->on = true;
	b->planning = false;
	balance_init(&b->policy, c->s.nb_engines, c->s.conf->idle != ENGINE_IDLE_POLL);
	begin_look(c, now_ns);
}

uint64_t
balancing_poll(struct control *c, uint64_t now_ns)
{
	struct balancing *b = &c->balancing;

	if (!c->s.conf->balance || c->s.nb_engines < 2 || c->held_ns != 0) {
		b->on = false;
		return UINT64_MAX;
	}
	if (!b->on)
		start(c, now_ns);
	if (!b->looking && b->next_move == b->nb_moves && now_ns >= b->next_ns)
		begin_look(c, now_ns);
	if (b->looking) {
		if (look(c, now_ns)) {
			b->looking = false;
			b->nb_moves = b->planning ? balance_plan(&b->policy, b->moves) : 0;
			b->planning = true;
		}
	} else if (b->next_move < b->nb_moves) {
		make_move(c, &b->moves[b->next_move++]);
	}
	return b->looking || b->next_move < b->nb_moves ? now_ns : b->next_ns;
}

/* ---- A single move, wanted by the application ---- */
int
control_move_qp(struct control *c, uint32_t qpn, unsigned int engine, struct control_moved *out, const char **why)
{
	struct session *s;
	struct obj_qp *qp;
	int rc = ENOENT;

	control_lock(c);
	qp = inspect_find_one(c, INSPECT_QP, qpn, &s);
	if (qp != NULL)
		rc = obj_qp_move(s, qp, engine, false, out, why);
	else
		*why = "there is no such QP";
	control_unlock(c);
	return rc;
}
