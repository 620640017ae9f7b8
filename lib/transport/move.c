/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPs leave a transport and arrive at another one.
 */
#include "base/mark.h"
#include "transport/cc/cc_priv.h"
#include "transport/core/copy_priv.h"
#include "transport/core/held_priv.h"
#include "transport/core/local_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"
#include "transport/move.h"
#include "transport/path/path_priv.h"
#include "transport/req/scoreboard_priv.h"
#include "transport/rx_priv.h"

/* What a QP may have borrowed when it moves: items of these pools. Of packets beyond a gap it may have several. */
enum { MOVED_POOLS = TP_POOL_REORDERS + 1 };

struct qp_move {
	struct qp *qp;
	struct transport *to;
	struct share *share;
	bool left, arrived;
	uint64_t left_ns, arrived_ns;
	uint32_t need_pkts, nb_pkts;         /* packets beyond a gap: how many it needs, and has reserved */
	bool need[MOVED_POOLS];
	void *items[MOVED_POOLS];            /* reserved, and not used yet */
	struct tp_reorder_pkt *pkts[TP_SACK_SPAN];
	struct tp_held_list held;            /* by the former engine */
};

static struct pool *
pool_of(struct transport *tp, enum tp_pool id)
{
	switch (id) {
	case TP_POOL_INFLIGHT:
		return &tp->inflight_blocks;
	case TP_POOL_READS:
		return &tp->read_blocks;
	case TP_POOL_SGES:
		return &tp->sge_blocks;
	case TP_POOL_SCOREBOARDS:
		return &tp->scoreboards;
	case TP_POOL_REORDERS:
		return &tp->reorders;
	default:
		return &tp->reorder_pkts;
	}
}

struct qp_move *
qp_move_create(struct qp *qp, struct transport *to, struct share *share)
{
	struct qp_move *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->qp = qp;
	m->to = to;
	m->share = share != NULL ? share : &to->own_share;
	return m;
}

/* ---- What the pools have lent ---- */
int
qp_move_reserve(struct qp_move *m)
{
	for (unsigned int i = 0; i < MOVED_POOLS; i++) {
		if (!m->need[i] || m->items[i] != NULL)
			continue;
		m->items[i] = share_lend(m->to, m->share, i, pool_of(m->to, i));
		if (m->items[i] == NULL)
			return ENOMEM;
	}
	for (; m->nb_pkts < m->need_pkts; m->nb_pkts++) {
		m->pkts[m->nb_pkts] = share_lend(m->to, m->share, TP_POOL_REORDER_PKTS, &m->to->reorder_pkts);
		if (m->pkts[m->nb_pkts] == NULL)
			return ENOMEM;
	}
	return 0;
}

/* Give back what was reserved and is not needed. */
static void
give_back(struct qp_move *m)
{
	for (unsigned int i = 0; i < MOVED_POOLS; i++)
		if (m->items[i] != NULL)
			share_return(m->to, m->share, i, pool_of(m->to, i), m->items[i]);
	while (m->nb_pkts > 0)
		share_return(m->to, m->share, TP_POOL_REORDER_PKTS, &m->to->reorder_pkts, m->pkts[--m->nb_pkts]);
	memset(m->items, 0, sizeof(m->items));
}

static void
look_what_is_lent(struct qp_move *m)
{
	const struct qp *qp = m->qp;

	m->need[TP_POOL_INFLIGHT] = qp->req.inflight != qp->own_inflight;
	m->need[TP_POOL_READS] = qp->resp.reads != NULL;
	m->need[TP_POOL_SGES] = qp->rcv.rwqe.valid && qp->rcv.rwqe.borrowed;
	m->need[TP_POOL_SCOREBOARDS] = qp->req.scoreboard != NULL;
	m->need[TP_POOL_REORDERS] = qp->rcv.reorder != NULL;
	m->need_pkts = qp->rcv.reorder != NULL ? qp->rcv.reorder->nb : 0;
}

static bool
is_reserved(const struct qp_move *m)
{
	for (unsigned int i = 0; i < MOVED_POOLS; i++)
		if (m->need[i] && m->items[i] == NULL)
			return false;
	return m->nb_pkts >= m->need_pkts;
}

/* Copy an item to the one that was reserved for it, and give it back. @return the new one; NULL: the QP has none. */
static void *
take_along(struct qp_move *m, struct transport *from, enum tp_pool id, const void *item)
{
	struct pool *pool = pool_of(from, id);
	void *to = m->items[id];

	if (!m->need[id])
		return NULL;
	memcpy(to, item, pool->item_bytes);
	share_give(from, m->qp, id, pool, (void *)(uintptr_t)item);
	m->items[id] = NULL;
	return to;
}

/* Packets beyond a gap: the list names them by their numbers in the pool, and they point into themselves. */
static void
take_along_reorder(struct qp_move *m, struct transport *from)
{
	struct tp_reorder *r = take_along(m, from, TP_POOL_REORDERS, m->qp->rcv.reorder);

	m->qp->rcv.reorder = r;
	for (uint32_t i = 0; r != NULL && i < TP_SACK_SPAN; i++) {
		uint32_t psn = wire_psn_add(r->base, i);
		struct tp_reorder_pkt *old, *new;

		if (!sack_bit(r->map, psn))
			continue;
		old = pool_item(&from->reorder_pkts, struct tp_reorder_pkt, r->held[psn % TP_SACK_SPAN]);
		new = m->pkts[--m->nb_pkts];
		*new = *old;
		new->p.bthp = new->bytes;
		new->p.payload = new->bytes + new->p.op->hdr_bytes;
		r->held[psn % TP_SACK_SPAN] = (uint16_t)pool_index(&m->to->reorder_pkts, struct tp_reorder_pkt, new);
		share_give(from, m->qp, TP_POOL_REORDER_PKTS, &from->reorder_pkts, old);
	}
}

static void
take_all_along(struct qp_move *m, struct transport *from)
{
	struct qp *qp = m->qp;
	void *to;

	if ((to = take_along(m, from, TP_POOL_INFLIGHT, qp->req.inflight)) != NULL)
		qp->req.inflight = to;
	if ((to = take_along(m, from, TP_POOL_SGES, qp->rcv.rwqe.sge)) != NULL)
		qp->rcv.rwqe.sge = to;
	qp->resp.reads = take_along(m, from, TP_POOL_READS, qp->resp.reads);
	qp->req.scoreboard = take_along(m, from, TP_POOL_SCOREBOARDS, qp->req.scoreboard);
	take_along_reorder(m, from);
}

/* ---- Leaving ---- */
int
qp_move_check(struct qp_move *m, struct transport *from, uint64_t now_ns)
{
	struct qp *qp = m->qp;

	UROCE_ASSERT(qp->tp == from && !m->left);
	from->now_ns = RTE_MAX(from->now_ns, now_ns);
	if (from->locals != NULL && from->locals->n != 0)
		rx_local(from);
	copy_rest(from, qp);
	if (qp->copy != NULL) {
		MARK("a QP that copies can't move");
		return EBUSY;
	}
	look_what_is_lent(m);
	return is_reserved(m) ? 0 : EAGAIN;
}

void
qp_move_leave(struct qp_move *m, struct transport *from)
{
	struct qp *qp = m->qp;

	UROCE_ASSERT(is_reserved(m));
	take_all_along(m, from);
	qp_unlist(from, qp);
	cc_stop(from, qp);
	share_leave(qp);
	qp->share = NULL;
	from->nb_qps--;
	m->left = true;
	m->left_ns = from->now_ns;
	__atomic_store_n(&qp->tp, NULL, __ATOMIC_RELEASE);
}

/* ---- Arriving ---- */
bool
qp_move_may_arrive(const struct qp_move *m, uint64_t now_ns)
{
	return now_ns >= m->left_ns;
}

void
qp_move_arrive(struct qp_move *m, uint64_t now_ns)
{
	struct transport *to = m->to;
	struct qp *qp = m->qp;

	UROCE_ASSERT(m->left && !m->arrived);
	to->now_ns = RTE_MAX(to->now_ns, now_ns);
	share_enter(to, qp, m->share);
	to->nb_qps++;
	path_follow_mtu(to, qp);
	__atomic_store_n(&qp->tp, to, __ATOMIC_RELEASE);
	if (qp->loss.deadline_ns != 0)
		wheel_add(&to->wheel, &qp->loss.timer, qp->loss.deadline_ns);
	/* For what it owes its peer. And doorbells that rang meanwhile were for nobody: look at the SQ, and at the RQ if the QP flushes. */
	if (qp->state != UROCE_QPS_RESET)
		qp_activate(to, qp);
	to->counters.qps_arrived++;
	m->arrived = true;
	m->arrived_ns = to->now_ns;
}

static void
receive(struct transport *to, struct tp_held_list *l)
{
	for (uint32_t i = 0; i < l->n; i++) {
		struct rte_mbuf *m = l->e[i].m;

		if (transport_rx(to, l->e[i].port, &m, 1, l->e[i].trusted, to->now_ns) != 0)
			rte_pktmbuf_free(m);
	}
	l->n = 0;
}

void
qp_move_take_held(struct qp_move *m, struct transport *from)
{
	m->held = from->held;
	from->held.n = 0;
}

void
qp_move_run_held(struct qp_move *m, uint64_t now_ns)
{
	m->to->now_ns = RTE_MAX(m->to->now_ns, now_ns);
	receive(m->to, &m->held);
	receive(m->to, &m->to->held);
}

void
transport_held_forward(struct transport *tp)
{
	held_forward(tp);
}

bool
qp_is_at(const struct qp *qp, const struct transport *tp)
{
	return qp_transport(qp) == tp;
}

int
qp_engine_now(const struct qp *qp)
{
	const struct transport *tp = qp_transport(qp);

	return tp != NULL ? (int)tp->c.engine : -1;
}

uint64_t
qp_move_pause(const struct qp_move *m)
{
	return m->arrived ? m->arrived_ns - m->left_ns : 0;
}

void
qp_move_destroy(struct qp_move *m)
{
	if (m == NULL)
		return;
	UROCE_ASSERT(m->left == m->arrived);
	give_back(m);
	held_drop(&m->held);
	free(m);
}
