/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPs and SRQs leave a transport and arrive at another one.
 */
#include "base/mark.h"
#include "transport/cc/cc_priv.h"
#include "transport/core/copy_priv.h"
#include "transport/core/held_priv.h"
#include "transport/core/local_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/rx_wait_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"
#include "transport/core/srq_priv.h"
#include "transport/journal/journal_priv.h"
#include "transport/move.h"
#include "transport/path/path_priv.h"
#include "transport/req/requester_priv.h"
#include "transport/req/scoreboard_priv.h"
#include "transport/rx_priv.h"

/* What a QP may have borrowed when it moves: items of these pools. Of packets beyond a gap it may have several. */
enum { MOVED_POOLS = TP_POOL_REORDERS + 1 };

struct member {
	struct qp *qp;
	struct share *share;
	struct tp_journal_qp *journal;       /* that it had */
	struct tp_journal_qp *entry;         /* that it will have; reserved, and not used yet */
	bool journaled;                      /* it will have one */
	uint32_t need_pkts, nb_pkts;         /* packets beyond a gap: how many it needs, and has reserved */
	bool need[MOVED_POOLS];
	void *items[MOVED_POOLS];            /* reserved, and not used yet */
	struct tp_reorder_pkt *pkts[TP_SACK_SPAN];
};

struct qp_move {
	struct transport *to, *from;
	bool drains;                         /* the QPs send nothing new, since drain_ns */
	bool brief;                          /* they don't wait for longer than TP_DRAIN_MIN_NS */
	bool left, arrived;
	uint64_t drain_ns, left_ns, sent_ns, arrived_ns;
	struct tp_held_list *held;           /* by the former engine; empty until then */
	uint32_t nb_srqs, nb_qps;
	struct srq **srqs;
	struct member qps[];
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
qp_move_create(struct transport *to, uint32_t nb_qps, uint32_t nb_srqs)
{
	struct qp_move *m = calloc(1, sizeof(*m) + nb_qps * sizeof(m->qps[0]));

	if (m == NULL)
		return NULL;
	m->to = to;
	m->srqs = calloc(nb_srqs + 1, sizeof(struct srq *));
	m->held = held_create();
	if (m->srqs == NULL || m->held == NULL) {
		held_destroy(m->held);
		free(m->srqs);
		free(m);
		return NULL;
	}
	return m;
}

void
qp_move_add(struct qp_move *m, struct qp *qp, struct share *share)
{
	m->qps[m->nb_qps].qp = qp;
	m->qps[m->nb_qps].journaled = m->to->journal != NULL;
	m->qps[m->nb_qps++].share = share != NULL ? share : &m->to->own_share;
}

void
qp_move_add_srq(struct qp_move *m, struct srq *srq)
{
	m->srqs[m->nb_srqs++] = srq;
}

/* ---- What the pools have lent ---- */
static int
reserve(struct transport *to, struct member *b)
{
	for (unsigned int i = 0; i < MOVED_POOLS; i++) {
		if (!b->need[i] || b->items[i] != NULL)
			continue;
		b->items[i] = share_lend(to, b->share, i, pool_of(to, i));
		if (b->items[i] == NULL)
			return ENOMEM;
	}
	if (b->journaled && b->entry == NULL && (b->entry = journal_entry()) == NULL)
		return ENOMEM;
	for (; b->nb_pkts < b->need_pkts; b->nb_pkts++) {
		b->pkts[b->nb_pkts] = share_lend(to, b->share, TP_POOL_REORDER_PKTS, &to->reorder_pkts);
		if (b->pkts[b->nb_pkts] == NULL)
			return ENOMEM;
	}
	return 0;
}

int
qp_move_reserve(struct qp_move *m)
{
	int rc = 0;

	for (uint32_t i = 0; i < m->nb_qps && rc == 0; i++)
		rc = reserve(m->to, &m->qps[i]);
	return rc;
}

/* Give back what was reserved and is not needed. */
static void
give_back(struct transport *to, struct member *b)
{
	for (unsigned int i = 0; i < MOVED_POOLS; i++)
		if (b->items[i] != NULL)
			share_return(to, b->share, i, pool_of(to, i), b->items[i]);
	while (b->nb_pkts > 0)
		share_return(to, b->share, TP_POOL_REORDER_PKTS, &to->reorder_pkts, b->pkts[--b->nb_pkts]);
	memset(b->items, 0, sizeof(b->items));
	free(b->entry);
	b->entry = NULL;
}

static void
look_what_is_lent(struct member *b)
{
	const struct qp *qp = b->qp;

	b->need[TP_POOL_INFLIGHT] = qp->req.inflight != qp->own_inflight;
	b->need[TP_POOL_READS] = qp->resp.reads != NULL;
	b->need[TP_POOL_SGES] = qp->rcv.rwqe.valid && qp->rcv.rwqe.borrowed;
	b->need[TP_POOL_SCOREBOARDS] = qp->req.scoreboard != NULL;
	b->need[TP_POOL_REORDERS] = qp->rcv.reorder != NULL;
	b->need_pkts = qp->rcv.reorder != NULL ? qp->rcv.reorder->nb : 0;
}

static bool
is_reserved(const struct member *b)
{
	for (unsigned int i = 0; i < MOVED_POOLS; i++)
		if (b->need[i] && b->items[i] == NULL)
			return false;
	return b->nb_pkts >= b->need_pkts && (!b->journaled || b->entry != NULL);
}

/* Copy an item to the one that was reserved for it, and give it back. @return the new one; NULL: the QP has none. */
static void *
take_along(struct member *b, struct transport *from, enum tp_pool id, const void *item)
{
	struct pool *pool = pool_of(from, id);
	void *to = b->items[id];

	if (!b->need[id])
		return NULL;
	memcpy(to, item, pool->item_bytes);
	share_give(from, b->qp, id, pool, (void *)(uintptr_t)item);
	b->items[id] = NULL;
	return to;
}

/* Packets beyond a gap: the list names them by their numbers in the pool, and they point into themselves. */
static void
take_along_reorder(struct member *b, struct transport *from, struct transport *to)
{
	struct tp_reorder *r = take_along(b, from, TP_POOL_REORDERS, b->qp->rcv.reorder);

	b->qp->rcv.reorder = r;
	for (uint32_t i = 0; r != NULL && i < TP_SACK_SPAN; i++) {
		uint32_t psn = wire_psn_add(r->base, i);
		struct tp_reorder_pkt *old, *new;

		if (!sack_bit(r->map, psn))
			continue;
		old = pool_item(&from->reorder_pkts, struct tp_reorder_pkt, r->held[psn % TP_SACK_SPAN]);
		new = b->pkts[--b->nb_pkts];
		*new = *old;
		new->p.bthp = new->bytes;
		new->p.payload = new->bytes + new->p.op->hdr_bytes;
		r->held[psn % TP_SACK_SPAN] = (uint16_t)pool_index(&to->reorder_pkts, struct tp_reorder_pkt, new);
		share_give(from, b->qp, TP_POOL_REORDER_PKTS, &from->reorder_pkts, old);
	}
}

static void
take_all_along(struct member *b, struct transport *from, struct transport *to)
{
	struct qp *qp = b->qp;
	void *item;

	if ((item = take_along(b, from, TP_POOL_INFLIGHT, qp->req.inflight)) != NULL)
		qp->req.inflight = item;
	if ((item = take_along(b, from, TP_POOL_SGES, qp->rcv.rwqe.sge)) != NULL)
		qp->rcv.rwqe.sge = item;
	qp->resp.reads = take_along(b, from, TP_POOL_READS, qp->resp.reads);
	qp->req.scoreboard = take_along(b, from, TP_POOL_SCOREBOARDS, qp->req.scoreboard);
	take_along_reorder(b, from, to);
}

/* ---- Draining ---- */
void
qp_move_be_brief(struct qp_move *m)
{
	m->brief = true;
}

static void
begin_draining(struct qp_move *m, struct transport *from)
{
	m->drains = true;
	m->drain_ns = from->now_ns;
	for (uint32_t i = 0; i < m->nb_qps; i++) {
		struct qp *qp = m->qps[i].qp;

		UROCE_ASSERT(qp->tp == from && !qp->sched.drains);
		qp->sched.drains = true;
		qp->sched.asked = false;
		/* If it has to ask for an ACK, it needs a turn. */
		if (!requester_is_drained(qp))
			qp_activate(from, qp);
	}
}

/*
 * @return whether a QP has waited for ACKs for as long as it makes sense: an answer that is not there after some PTOs is lost, or the peer is gone. Where engines
 * wait for their cores, round trips and so PTOs are long.
 */
static bool
has_waited(const struct qp_move *m, const struct qp *qp, uint64_t ns)
{
	uint64_t most = qp->loss.pto_ns != 0 ? (uint64_t)TP_DRAIN_PTOS * qp->loss.pto_ns : TP_DRAIN_MAX_NS;

	most = RTE_MAX(most, (uint64_t)TP_DRAIN_MIN_NS);
	return ns >= RTE_MIN(most, m->brief ? (uint64_t)TP_DRAIN_MIN_NS : (uint64_t)TP_DRAIN_MAX_NS);
}

bool
qp_move_drain(struct qp_move *m, struct transport *from, uint64_t now_ns)
{
	UROCE_ASSERT(!m->left);
	from->now_ns = RTE_MAX(from->now_ns, now_ns);
	if (!m->drains)
		begin_draining(m, from);
	for (uint32_t i = 0; i < m->nb_qps; i++) {
		if (requester_is_drained(m->qps[i].qp) || has_waited(m, m->qps[i].qp, from->now_ns - m->drain_ns))
			continue;
		MARK("a QP that is about to move waits for ACKs");
		MARK_IF(i != 0, "QPs that are about to move wait for ACKs of another one");
		return false;
	}
	return true;
}

/* It begins to send again, here or at the new transport. */
static void
end_draining(struct qp *qp)
{
	qp->sched.drains = false;
	if (qp->req.wait == REQ_WAIT_MOVE)
		qp->req.wait = REQ_RUNS;
}

void
qp_move_stay(struct qp_move *m, struct transport *from, uint64_t now_ns)
{
	UROCE_ASSERT(!m->left);
	from->now_ns = RTE_MAX(from->now_ns, now_ns);
	for (uint32_t i = 0; i < m->nb_qps && m->drains; i++) {
		struct qp *qp = m->qps[i].qp;

		end_draining(qp);
		if (qp->state != UROCE_QPS_RESET)
			qp_activate(from, qp);
	}
	m->drains = false;
}

/* ---- Leaving ---- */
int
qp_move_check(struct qp_move *m, struct transport *from, uint64_t now_ns)
{
	int rc = 0;

	UROCE_ASSERT(!m->left);
	from->now_ns = RTE_MAX(from->now_ns, now_ns);
	/* Before any is looked at: packets for one of them change what it has borrowed. */
	for (uint32_t i = 0; i < m->nb_qps; i++) {
		if (rx_waits(m->qps[i].qp))
			MARK_UNIT("a QP moves that has packets which wait for its turn", "unit/transport/move_drain");
		rx_catch_up(from, m->qps[i].qp);
	}
	if (from->locals != NULL && from->locals->n != 0)
		rx_local(from);
	for (uint32_t i = 0; i < m->nb_qps; i++) {
		struct member *b = &m->qps[i];

		UROCE_ASSERT(b->qp->tp == from);
		copy_rest(from, b->qp);
		if (b->qp->copy != NULL) {
			MARK("a QP that copies can't move");
			MARK_IF(i != 0, "a QP that copies keeps others from moving");
			return EBUSY;
		}
		look_what_is_lent(b);
		if (!is_reserved(b))
			rc = EAGAIN;
	}
	return rc;
}

static void
leave(struct member *b, struct transport *from, struct transport *to)
{
	struct qp *qp = b->qp;

	UROCE_ASSERT(is_reserved(b) && !rx_waits(qp));
	/* Whatever it goes on receiving into goes with it; an XRC SRQ that is destroyed is received into no more. */
	UROCE_ASSERT(qp->rcv.srq == NULL || qp->rcv.srq->gone || qp->rcv.srq->tp == NULL);
	MARK_IF(!requester_is_drained(qp), "a QP moves though it waits for ACKs");
	from->counters.qps_undrained += !requester_is_drained(qp);
	end_draining(qp);
	take_all_along(b, from, to);
	b->journal = journal_depart(from, qp);
	qp_unlist(from, qp);
	cc_stop(from, qp);
	share_leave(qp);
	qp->share = NULL;
	from->nb_qps--;
	__atomic_store_n(&qp->tp, NULL, __ATOMIC_RELEASE);
}

void
qp_move_leave(struct qp_move *m, struct transport *from)
{
	for (uint32_t i = 0; i < m->nb_srqs; i++)
		srq_leave(m->srqs[i], from);
	for (uint32_t i = 0; i < m->nb_qps; i++)
		leave(&m->qps[i], from, m->to);
	journal_commit(from);
	m->from = from;
	m->left = true;
	m->left_ns = from->now_ns;
	MARK_IF(m->nb_srqs == 1 && m->nb_qps > 1 && m->srqs[0]->xrcd == 0, "an SRQ moves with several QPs");
	MARK_IF(m->nb_srqs > 1 && m->nb_qps > 1, "an XRC domain moves");
}

/* ---- Arriving ---- */
uint64_t
qp_move_arrives_ns(const struct qp_move *m)
{
	return m->sent_ns + TP_MOVE_QUIET_NS;
}

static void
arrive(struct member *b, struct transport *to)
{
	struct qp *qp = b->qp;

	share_enter(to, qp, b->share);
	to->nb_qps++;
	if (b->journaled) {
		journal_arrive(to, qp, b->entry, b->journal);
		b->entry = NULL;
	}
	path_follow_mtu(to, qp);
	__atomic_store_n(&qp->tp, to, __ATOMIC_RELEASE);
	if (qp->loss.deadline_ns != 0)
		wheel_add(&to->wheel, &qp->loss.timer, qp->loss.deadline_ns);
	/* For what it owes its peer. And doorbells that rang meanwhile were for nobody: look at the SQ, and at the RQ if the QP flushes. */
	if (qp->state != UROCE_QPS_RESET)
		qp_activate(to, qp);
	to->counters.qps_arrived++;
}

void
qp_move_arrive(struct qp_move *m, uint64_t now_ns)
{
	struct transport *to = m->to;

	UROCE_ASSERT(m->left && !m->arrived);
	to->now_ns = RTE_MAX(to->now_ns, now_ns);
	for (uint32_t i = 0; i < m->nb_srqs; i++)
		srq_arrive(m->srqs[i], to);
	for (uint32_t i = 0; i < m->nb_qps; i++)
		arrive(&m->qps[i], to);
	journal_commit(to);
	for (uint32_t i = 0; i < m->nb_srqs; i++)
		journal_srq_arrived(m->from, m->srqs[i]);
	for (uint32_t i = 0; i < m->nb_qps; i++)
		journal_arrived(m->qps[i].journal);
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
qp_move_take_held(struct qp_move *m, struct transport *from, uint64_t now_ns)
{
	struct tp_held_list *empty = m->held;

	UROCE_ASSERT(empty->n == 0);
	m->sent_ns = RTE_MAX(now_ns, m->left_ns);
	m->held = from->held;
	from->held = empty;
}

void
qp_move_run_held(struct qp_move *m, uint64_t now_ns)
{
	m->to->now_ns = RTE_MAX(m->to->now_ns, now_ns);
	receive(m->to, m->held);
	receive(m->to, m->to->held);
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
	return m->arrived ? m->arrived_ns - (m->drains ? m->drain_ns : m->left_ns) : 0;
}

void
qp_move_end(struct qp_move *m)
{
	UROCE_ASSERT(m->left == m->arrived && (m->left || !m->drains) && m->held->n == 0);
	for (uint32_t i = 0; i < m->nb_qps; i++)
		give_back(m->to, &m->qps[i]);
}

void
qp_move_destroy(struct qp_move *m)
{
	if (m == NULL)
		return;
	held_destroy(m->held);
	free(m->srqs);
	free(m);
}
