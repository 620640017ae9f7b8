/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport's turn: timers, replies, the turns of shares and QPs, completion events.
 */
#include "transport/cc/cc_priv.h"
#include "transport/core/brief_priv.h"
#include "transport/core/charge_priv.h"
#include "transport/core/copy_priv.h"
#include "transport/core/cq_priv.h"
#include "transport/core/invariants_priv.h"
#include "transport/core/local_priv.h"
#include "transport/core/meter_priv.h"
#include "transport/core/prefetch_priv.h"
#include "transport/core/rx_wait_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"
#include "transport/flush_priv.h"
#include "transport/journal/journal_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/req_invariants_priv.h"
#include "transport/req/requester_priv.h"
#include "transport/req/send_queue_priv.h"
#include "transport/req/sge_priv.h"
#include "transport/resp/resp_priv.h"
#include "transport/rx_priv.h"
#include "transport/timers_priv.h"

/* What is left of a turn. */
struct turn {
	uint32_t work;  /* done so far */
	uint32_t looks; /* QPs that may still be looked at */
};

/* Why a share's turn has ended. */
enum served {
	SERVED_ALL,     /* its QPs have nothing to do, or wait for something themselves */
	SERVED_PART,    /* it has used up its deficit */
	SERVED_NO_ROOM, /* there is no room in the TX vector, or no mbuf */
	SERVED_LIMIT,   /* its rate doesn't let it go on */
	SERVED_BUDGET,  /* the turn of the transport is over */
};

/* ---- QPs ---- */
/*
 * Stop watching a QP that has been idle for a while. What its client posted before it could see that sq_watch is 0 is
 * found by the second look; for what it posts later it rings the doorbell.
 */
static void
qp_sleep(struct transport *tp, struct qp *qp)
{
	qp_watch(qp, false);
	atomic_thread_fence(memory_order_seq_cst);
	if (requester_pending(qp)) {
		qp_watch(qp, qp_does(qp, QP_FETCHES));
		return;
	}
	/* A timer that nobody needs any more would wake an engine that sleeps. */
	if (qp->loss.deadline_ns == 0)
		wheel_del(&tp->wheel, &qp->loss.timer);
	inflight_return(tp, qp);
	copy_rest(tp, qp);
	qp_deactivate(tp, qp);
}

/* Give a QP its part of a turn. */
static inline uint32_t
run_qp(struct transport *tp, struct qp *qp, uint32_t budget)
{
	uint32_t work = 0;

	if (unlikely(rx_waits(qp)))
		work += rx_run_waiting(tp, qp, budget);
	if (responder_busy(qp))
		work += responder_run(tp, qp, budget);
	if (qp_sends(qp))
		work += likely(!qp->sched.drains) ? requester_run(tp, qp, budget) : requester_drain(tp, qp, budget);
	if (unlikely(qp_does(qp, QP_FLUSHES_SQ | QP_FLUSHES_RQ)))
		work += qp_flush_run(tp, qp, budget);
	if (work != 0) {
		qp->sched.last_work_ns = tp->now_ns;
	} else if (!responder_busy(qp) &&
		   (!qp_does(qp, QP_FETCHES) || tp->c.no_watch || tp->now_ns - qp->sched.last_work_ns >= TP_WATCH_NS)) {
		qp_sleep(tp, qp);
	}
	qp_assert_invariants(qp);
	requester_assert_invariants(qp);
	return work;
}

/* ---- QPs of a share ---- */
/* Run a QP on its share's account. @return the work done. */
static inline uint32_t
visit(struct transport *tp, struct share *s, struct qp *qp, uint32_t budget)
{
	struct sent_before b = sent_before(tp, qp);
	uint32_t work;

	if (unlikely(s->nb_active > tp->c.limits.cached_qps))
		sq_prefetch_payload(tp, prefetch_next(s));
	atomic_store_explicit(&tp->serving, qp, memory_order_relaxed);
	work = run_qp(tp, qp, budget);
	if (unlikely(tp->journal != NULL) && work != 0)
		journal_stepped(tp, qp);
	charge_sent(tp, qp, &b);
	if (work != 0 && s->worker != qp) {
		s->worker = qp;
		s->worker_alone = 0;
	} else {
		s->worker_alone++;
	}
	return work;
}

/*
 * @return the QP of @p s whose turn it is. Those that have used up their deficits are passed over, unless the others have had nothing to do for
 * a while.
 */
static inline struct qp *
next_qp(struct share *s)
{
	struct qp *qp = TAILQ_FIRST(&s->active);

	while (s->nb_active > 1) {
		TAILQ_REMOVE(&s->active, qp, sched.active_link);
		TAILQ_INSERT_TAIL(&s->active, qp, sched.active_link);
		if (qp->sched.deficit > 0)
			return qp;
		qp->sched.deficit = RTE_MAX(qp->sched.deficit, -TP_DEBT_MAX) + TP_QP_QUANTUM;
		if (qp == s->worker && s->worker_alone >= s->nb_active - 1)
			return qp;
		qp = TAILQ_FIRST(&s->active);
	}
	qp->sched.deficit = TP_QP_QUANTUM;
	return qp;
}

/* ---- Shares ---- */
/* @return how many packets or WQEs a QP may send so that its share doesn't exceed @p deficit by much. */
static inline uint32_t
budget_for(const struct qp *qp, int64_t deficit, bool brief)
{
	/* With all it costs a packet can take as long as the payload of two. A brief turn counts on that. */
	uint64_t n = deficit <= 0 ? 0 : (uint64_t)deficit >> (qp->path.mtu_shift + brief);

	n += !brief || n == 0;
	return (uint32_t)RTE_MIN(n, (uint64_t)qp->tp->c.limits.qp_budget);
}

/* @return how many packets or WQEs a QP may send when no other share wants a turn. */
static inline uint32_t
budget_alone(const struct transport *tp, const struct qp *qp)
{
	return (uint32_t)tp->c.limits.qp_budget << qp->sched.small;
}

/* @return whether no port takes any more packets in this turn. */
static bool
ports_are_full(const struct transport *tp)
{
	for (uint16_t p = 0; p < tp->c.nb_ports; p++)
		if (tp->tx[p].n < tp->c.limits.tx_packets)
			return false;
	return true;
}

/* A QP had a turn in vain. @return whether others needn't be looked at: only those whose packets stay on this host can have room. */
static inline bool
looks_are_vain(const struct transport *tp, uint32_t *vain)
{
	return ports_are_full(tp) && ++*vain >= TP_VAIN_LOOKS;
}

/*
 * Looks at @p vain QPs have shown that there is no room. They are the first to get some. But if nobody has got any in this turn, others are looked at next
 * time: their packets may stay on this host.
 */
static void
look_again(struct share *s, uint32_t vain, bool worked)
{
	struct qp *qp;

	for (; worked && vain > 0 && (qp = TAILQ_LAST(&s->active, tp_qp_list)) != NULL; vain--) {
		TAILQ_REMOVE(&s->active, qp, sched.active_link);
		TAILQ_INSERT_HEAD(&s->active, qp, sched.active_link);
	}
}

/* The usual case: no other share wants a turn. It owes nothing for the time that nobody else wanted. */
static uint32_t
run_alone(struct transport *tp, struct share *s)
{
	uint32_t n = RTE_MIN(s->nb_active, (uint32_t)tp->c.limits.turn_qps), work = 0, vain = 0;
	bool brief = turns_are_brief(tp, s);
	uint64_t before = tp->cost;

	s->deficit = quantum_of(tp, s, brief);
	while (n-- > 0 && work < tp->c.limits.turn_budget && (!brief || s->deficit > 0)) {
		struct qp *qp = next_qp(s);
		uint32_t did = visit(tp, s, qp, brief ? budget_for(qp, s->deficit, true) : budget_alone(tp, qp));

		work += did;
		if (unlikely(did == 0) && looks_are_vain(tp, &vain)) {
			look_again(s, vain, work != 0);
			break;
		}
	}
	if (work == 0)
		note_idle(s);
	else if (tp->cost - before < TP_SHARE_QUANTUM)
		note_emptied(tp, s);
	owed_turn(tp, s, before, work != 0, work == 0);
	note_cut(tp, s, brief, tp->cost - before);
	s->deficit = s->quantum;
	s->no_room = false;
	return work;
}

static inline enum served
serve_qps(struct transport *tp, struct share *s, struct turn *t)
{
	bool no_room = false, worked = false, brief = turns_are_brief(tp, s);
	uint64_t before = tp->cost;
	uint32_t idle = 0;

	meter_settle(tp, s);
	s->deficit = RTE_MIN(s->deficit, quantum_of(tp, s, brief));
	while (s->nb_active != 0 && idle < s->nb_active) {
		struct qp *qp;
		uint32_t work;

		if (t->work >= tp->c.limits.turn_budget || t->looks == 0)
			return SERVED_BUDGET;
		t->looks--;
		if (s->deficit <= 0 && !owed_spend(s, quantum_of(tp, s, brief))) {
			note_cut(tp, s, brief, tp->cost - before);
			return SERVED_PART;
		}
		s->due_ns = unlikely(s->rate != NULL) ? share_rate_due(s, tp->now_ns) : 0;
		if (unlikely(s->due_ns != 0) && s->held[TP_POOL_RX_WAIT] == 0)
			return SERVED_LIMIT;
		qp = next_qp(s);
		work = budget_for(qp, s->deficit, brief);
		work = likely(s->due_ns == 0) ? visit(tp, s, qp, work) : rx_run_waiting(tp, qp, work);
		t->work += work;
		worked |= work != 0;
		if (work == 0 && qp->sched.on_active)
			no_room |= responder_busy(qp) || qp->req.wait == REQ_WAIT_TX;
		idle = work != 0 ? 0 : idle + qp->sched.on_active;
	}
	if (no_room)
		return SERVED_NO_ROOM;
	if (worked)
		note_emptied(tp, s);
	else
		note_idle(s);
	return SERVED_ALL;
}

/* Put a share that had its turn where it waits for the next one. */
static void
place(struct transport *tp, struct share *s, enum served served)
{
	if (s->on == SHARE_ASLEEP)
		return;
	s->no_room = served == SERVED_NO_ROOM;
	switch (served) {
	case SERVED_ALL:
		share_move(tp, s, SHARE_FRESH);
		break;
	case SERVED_PART:
		owed_round(s);
		s->deficit = RTE_MAX(s->deficit, (int64_t)-TP_DEBT_MAX) + quantum_of(tp, s, turns_are_brief(tp, s));
		s->stats.rounds++;
		tp->counters.share_rounds++;
		share_move(tp, s, SHARE_BACKLOG);
		break;
	case SERVED_NO_ROOM:
		share_move(tp, s, s->on == SHARE_FRESH ? SHARE_BACKLOG : SHARE_BLOCKED);
		break;
	case SERVED_LIMIT:
		s->stats.limited++;
		tp->counters.share_rate_waits++;
		tp->limited_next_ns = RTE_MIN(tp->limited_next_ns, s->due_ns);
		share_move(tp, s, SHARE_LIMITED);
		break;
	case SERVED_BUDGET:
		break;
	}
}

/* Give a share its turn, and put it where it waits for the next one. */
static enum served
serve(struct transport *tp, struct share *s, struct turn *t)
{
	uint64_t cost = tp->cost;
	uint32_t work = t->work;
	enum served served = serve_qps(tp, s, t);

	owed_turn(tp, s, cost, t->work != work || served == SERVED_NO_ROOM, served == SERVED_ALL);
	place(tp, s, served);
	return served;
}

/* Let those shares go on whose rates allow it now. */
static void
release_limited(struct transport *tp)
{
	struct share *s, *next;

	tp->limited_next_ns = UINT64_MAX;
	for (s = TAILQ_FIRST(&tp->shares[SHARE_LIMITED]); s != NULL; s = next) {
		next = TAILQ_NEXT(s, link);
		s->due_ns = share_rate_due(s, tp->now_ns);
		if (s->due_ns == 0)
			share_move(tp, s, SHARE_BACKLOG);
		else
			tp->limited_next_ns = RTE_MIN(tp->limited_next_ns, s->due_ns);
	}
}

/* Look at the shares that had nothing to do, each once. Half of the looks are for the others. */
static void
run_fresh(struct transport *tp, struct turn *t)
{
	struct share *s, *last = TAILQ_LAST(&tp->shares[SHARE_FRESH], tp_share_list);
	enum served served = SERVED_ALL;

	t->looks = tp->c.limits.turn_qps / 2u;
	while (last != NULL && served != SERVED_BUDGET) {
		s = TAILQ_FIRST(&tp->shares[SHARE_FRESH]);
		if (s == last)
			last = NULL;
		served = serve(tp, s, t);
	}
	t->looks += tp->c.limits.turn_qps / 2u;
}

/* Serve the others by turns. A brief turn is over when each had its turn, if somebody has sent something. */
static void
run_backlog(struct transport *tp, struct turn *t)
{
	struct share *s, *last = TAILQ_LAST(&tp->shares[SHARE_BACKLOG], tp_share_list);
	enum served served = SERVED_ALL;
	bool brief = false;

	while (served != SERVED_BUDGET && (s = TAILQ_FIRST(&tp->shares[SHARE_BACKLOG])) != NULL) {
		brief |= turns_are_brief(tp, s);
		served = serve(tp, s, t);
		if (brief && s == last && t->work > 0)
			break;
	}
	/*
	 * Who found no room is the first to get some. But if nobody found any in all of the turn, others are looked at next time: they
	 * may have something to send on another port.
	 */
	while ((s = TAILQ_LAST(&tp->shares[SHARE_BLOCKED], tp_share_list)) != NULL) {
		share_move(tp, s, SHARE_BACKLOG);
		if (t->work == 0 && t->looks == 0)
			continue;
		TAILQ_REMOVE(&tp->shares[SHARE_BACKLOG], s, link);
		TAILQ_INSERT_HEAD(&tp->shares[SHARE_BACKLOG], s, link);
	}
}

static uint32_t
run_shares(struct transport *tp)
{
	struct turn t = { 0 };
	struct share *s;

	if (unlikely(tp->now_ns >= tp->limited_next_ns))
		release_limited(tp);
	if (tp->nb_competing == 0)
		return 0;
	if (likely(tp->nb_competing == 1)) {
		s = TAILQ_FIRST(&tp->shares[SHARE_FRESH]);
		if (s == NULL)
			s = TAILQ_FIRST(&tp->shares[SHARE_BACKLOG]);
		if (likely(s->rate == NULL))
			return run_alone(tp, s);
	} else {
		meter_start(tp);
	}
	run_fresh(tp, &t);
	run_backlog(tp, &t);
	return t.work;
}

/* ---- Replies ---- */
/* @return true if a QP of @p s may send out of turn, and whether no other share wants a turn. */
static bool
may_send(const struct transport *tp, const struct share *s, bool *alone)
{
	*alone = share_alone(tp, s);
	return (*alone || s->deficit > 0) && share_rate_due(s, tp->now_ns) == 0;
}

/*
 * Answer READs and atomics at once, unless the share has used up its deficit while others want turns, or its rate doesn't let it. Then they are
 * sent in the share's turns.
 */
static __rte_noinline uint32_t
run_responses(struct transport *tp, struct qp *qp)
{
	struct share *s = qp->share;
	struct sent_before b = sent_before(tp, qp);
	uint32_t work;
	bool alone;

	if (!may_send(tp, s, &alone))
		return 0;
	work = responder_run(tp, qp, alone ? tp->c.limits.qp_budget : budget_for(qp, s->deficit, false));
	charge_sent(tp, qp, &b);
	qp->sched.deficit = RTE_MAX(qp->sched.deficit, -TP_DEBT_MAX);
	if (alone)
		s->deficit = s->quantum;
	return work;
}

static uint32_t
run_replies(struct transport *tp)
{
	struct meter m = { 0 };
	uint32_t work = 0;
	struct qp *qp;

	while ((qp = TAILQ_FIRST(&tp->replies)) != NULL) {
		bool responses = qp->resp.pending != 0;

		TAILQ_REMOVE(&tp->replies, qp, sched.reply_link);
		if (meter_runs(tp))
			meter_to(tp, &m, responses ? NULL : qp->share);
		/* An ACK or NAK is one packet for what was received, and nobody gains time by sending more of them. */
		if (likely(!responses))
			work += responder_run(tp, qp, 1);
		else
			work += run_responses(tp, qp);
		/* What exceeds the budget, or finds no room, is sent in the QP's turns. */
		qp->sched.on_reply = false;
		if (responder_busy(qp))
			qp_activate(tp, qp);
	}
	meter_to(tp, &m, NULL);
	return work;
}

/*
 * Deliver what goes by reference, and send the answers: a message between two QPs of this engine is over in one turn. What is left after
 * some rounds is delivered, but not answered before the next turn.
 */
static __rte_noinline uint32_t
run_locals(struct transport *tp)
{
	uint32_t work = 0;

	for (unsigned int i = 0; i < tp->c.limits.local_rounds && tp->locals->n != 0; i++) {
		rx_local(tp);
		work += run_replies(tp);
	}
	rx_local(tp);
	return work;
}

/* ---- A turn ---- */
void
transport_called(struct transport *tp, uint64_t now_ns)
{
	tp->now_ns = RTE_MAX(tp->now_ns, now_ns);
	note_light(tp, &tp->control, 0, TP_CALLED_NS);
}

void
qp_work_posted(struct transport *tp, struct qp *qp, uint32_t *budget, uint64_t now_ns)
{
	uint32_t work = 1;
	bool alone;

	tp->now_ns = RTE_MAX(tp->now_ns, now_ns);
	while (work != 0 && *budget != 0 && (requester_pending(qp) || qp_does(qp, QP_FLUSHES_SQ | QP_FLUSHES_RQ)) &&
	       may_send(tp, qp->share, &alone)) {
		uint32_t most = RTE_MIN(*budget, (uint32_t)tp->c.limits.qp_budget);

		qp_activate(tp, qp);
		work = visit(tp, qp->share, qp, alone ? most : RTE_MIN(most, budget_for(qp, qp->share->deficit, false)));
		*budget -= RTE_MIN(work, *budget);
	}
	atomic_store_explicit(&tp->serving, NULL, memory_order_relaxed);
}

uint32_t
qp_posted_next(const struct qp *qp)
{
	return qp->req.sq_cur;
}

bool
qp_posted_left(const struct qp *qp, uint32_t next)
{
	if (!qp_sends(qp) || qp->req.sq_cur - next > qp->req.sq.mask)
		return false;
	return qp->req.sq_cur != qp->req.sq.counter || ring_sq_ready(&qp->req.sq, qp->req.sq.counter);
}

uint32_t
transport_run(struct transport *tp, uint64_t now_ns)
{
	uint32_t work;

	UROCE_ASSERT(now_ns >= tp->now_ns);
	tp->now_ns = now_ns;
	tp->turn++;
	work = wheel_advance(&tp->wheel, now_ns, timer_fired, tp);
	if (unlikely((tp->nb_copies | tp->nb_blocked | tp->nb_fresh) != 0))
		rx_run_copies(tp);
	work += run_replies(tp);
	work += run_shares(tp);
	if (tp->locals != NULL && tp->locals->n != 0)
		work += run_locals(tp);
	journal_commit(tp);
	if (tp->nb_touched != 0)
		cq_flush_touched(tp);
	if (unlikely((tp->nb_deferred | tp->nb_owed) != 0))
		cq_run_deferred(tp);
	wire_seal_flush(&tp->sealer);
	atomic_store_explicit(&tp->serving, NULL, memory_order_relaxed);
	tp->idle = work == 0;
	return work;
}

bool
transport_untold(const struct transport *tp)
{
	return tp->nb_untold != 0;
}

void
transport_tell(struct transport *tp)
{
	cq_tell(tp);
}

/* Stop watching the QPs of a share that have nothing to do. */
static void
rest_share(struct transport *tp, struct share *s)
{
	struct qp *qp, *next;

	for (qp = TAILQ_FIRST(&s->active); qp != NULL; qp = next) {
		next = TAILQ_NEXT(qp, sched.active_link);
		if (!rx_waits(qp) && !responder_busy(qp) && !requester_pending(qp) && !qp_does(qp, QP_FLUSHES_SQ | QP_FLUSHES_RQ))
			qp_sleep(tp, qp);
	}
}

bool
transport_rest(struct transport *tp)
{
	struct share *s, *next;

	if (!TAILQ_EMPTY(&tp->replies))
		return false;
	for (unsigned int i = 0; i < SHARE_LISTS; i++) {
		for (s = TAILQ_FIRST(&tp->shares[i]); s != NULL; s = next) {
			next = TAILQ_NEXT(s, link);
			rest_share(tp, s);
		}
	}
	/* What rates hold back is due at a time that transport_next_timeout() knows. */
	return tp->nb_competing == 0;
}

uint64_t
transport_next_timeout(const struct transport *tp)
{
	uint64_t held = RTE_MIN(tp->deferred_next_ns, tp->owed_next_ns), timer = RTE_MIN(wheel_next(&tp->wheel), tp->limited_next_ns);
	uint64_t next = RTE_MIN(timer, held);

	if (!TAILQ_EMPTY(&tp->copies))
		next = RTE_MIN(next, TAILQ_FIRST(&tp->copies)->deadline_ns);
	if (tp->nb_blocked != 0)
		next = RTE_MIN(next, tp->blocked_next_ns);
	if (!TAILQ_EMPTY(&tp->replies) || tp->nb_fresh != 0 || (tp->nb_competing != 0 && !tp->idle))
		return tp->now_ns;
	if (tp->nb_competing != 0)
		return RTE_MIN(next, tp->now_ns + TP_POLL_NS);
	return next;
}
