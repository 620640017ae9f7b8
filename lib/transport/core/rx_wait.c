/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mark.h"
#include "transport/core/brief_priv.h"
#include "transport/core/meter_priv.h"
#include "transport/core/rx_wait_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"

/* ---- Rounds of receiving ---- */
/* A share takes part in the round: it gets a quantum, unless it has some left. */
static void
round_join(struct transport *tp, struct share *s)
{
	if (s->rx_round == tp->rx_round.number)
		return;
	s->rx_round = tp->rx_round.number;
	s->rx_spent = false;
	s->deficit = s->deficit > 0 ? RTE_MIN(s->deficit, s->quantum) : s->deficit + s->quantum;
	tp->rx_round.receivers++;
}

/* Begin another round, if all that received something in the last one have used up what they had, or it has lasted long enough. */
static void
round_next(struct transport *tp)
{
	struct tp_rx_round *r = &tp->rx_round;

	if ((r->spent < r->receivers || r->receivers < r->receivers_before) && tp->now_ns - r->began_ns < TP_LIGHT_NS)
		return;
	r->receivers_before = r->receivers;
	r->receivers = r->spent = 0;
	r->began_ns = tp->now_ns;
	r->number++;
}

/* @return whether @p s, which has used up its deficit, has received so much more than others that its packets have to wait. */
static bool
is_ahead(struct transport *tp, struct share *s)
{
	round_join(tp, s);
	if (s->deficit > 0)
		return false;
	tp->rx_round.spent += !s->rx_spent;
	s->rx_spent = true;
	round_next(tp);
	round_join(tp, s);
	return s->deficit <= -TP_RX_LEAD * s->quantum;
}

void
rx_other_pays(struct transport *tp, struct share *s)
{
	if (tp->rx_share != NULL) {
		tp->rx_others_ns = tp->now_ns + TP_LIGHT_NS;
		meter_start(tp);
	}
	tp->rx_share = s;
	round_join(tp, s);
}

/* ---- Packets that wait ---- */
/* @return whether another share than @p s waits for a turn, or will soon want one again. Those that are only looked at don't count. */
static bool
others_want_turns(const struct transport *tp, const struct share *s)
{
	const struct share *first = TAILQ_FIRST(&tp->shares[SHARE_BACKLOG]);

	return (first != NULL && (first != s || TAILQ_NEXT(first, link) != NULL)) || turns_are_brief(tp, s);
}

bool
rx_must_wait(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	struct share *s = qp->share;

	if (rx_waits(qp))
		return true;
	if ((p->op->flags & RX_FREE) != 0)
		return false;
	/* A rate is for what is sent. */
	if (s->on == SHARE_LIMITED)
		return false;
	if (others_want_turns(tp, s))
		return true;
	if (tp->now_ns < tp->rx_others_ns)
		return is_ahead(tp, s);
	s->deficit = s->quantum;
	return false;
}

static struct tp_rx_wait *
last_of(struct transport *tp, const struct qp *qp)
{
	static_assert(TP_RX_WAITS < UINT16_MAX, "qp_sched.rx_wait");
	return rx_waits(qp) ? pool_item(&tp->rx_waits, struct tp_rx_wait, qp->sched.rx_wait - 1) : NULL;
}

bool
rx_wait_add(struct transport *tp, struct qp *qp, uint16_t port, struct rte_mbuf *m, const struct wire_pkt *p)
{
	struct tp_rx_wait *w = share_take(tp, qp, TP_POOL_RX_WAIT, &tp->rx_waits), *last = last_of(tp, qp);

	if (w == NULL) {
		MARK("a share has as many packets that wait for its turn as it may");
		return false;
	}
	w->p = *p;
	w->m = m;
	w->port = port;
	w->next = last != NULL ? last->next : w;
	if (last != NULL)
		last->next = w;
	qp->sched.rx_wait = (uint16_t)(pool_index(&tp->rx_waits, struct tp_rx_wait, w) + 1);
	tp->counters.rx_waited++;
	qp_activate(tp, qp);
	return true;
}

struct tp_rx_wait *
rx_wait_take(struct transport *tp, struct qp *qp)
{
	struct tp_rx_wait *last = last_of(tp, qp), *first;

	if (last == NULL)
		return NULL;
	first = last->next;
	last->next = first->next;
	if (first == last)
		qp->sched.rx_wait = 0;
	return first;
}

void
rx_wait_end(struct transport *tp, struct qp *qp, struct tp_rx_wait *w)
{
	rte_pktmbuf_free(w->m);
	share_give(tp, qp, TP_POOL_RX_WAIT, &tp->rx_waits, w);
}

void
rx_wait_drop(struct transport *tp, struct qp *qp)
{
	struct tp_rx_wait *w;

	while ((w = rx_wait_take(tp, qp)) != NULL)
		rx_wait_end(tp, qp, w);
}
