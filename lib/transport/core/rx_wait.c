/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mark.h"
#include "transport/core/rx_wait_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"

/* @return whether nobody but @p s wants turns, or has received anything lately. */
static bool
is_alone(const struct transport *tp, const struct share *s)
{
	return share_alone(tp, s) && tp->now_ns >= tp->rx_others_ns;
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
	if (!is_alone(tp, s))
		return true;
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
