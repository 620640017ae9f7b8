/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Passing received packets to their QPs. turn.c has the rest of a turn, create.c how a transport begins and ends.
 */
#include "transport/cc/cc_priv.h"
#include "transport/core/async_priv.h"
#include "transport/core/checks_priv.h"
#include "transport/core/copy_priv.h"
#include "transport/core/cq_priv.h"
#include "transport/core/event_log_priv.h"
#include "transport/core/held_priv.h"
#include "transport/core/invariants_priv.h"
#include "transport/core/mcast_priv.h"
#include "transport/core/meter_priv.h"
#include "transport/core/prefetch_priv.h"
#include "transport/core/qp_table_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/rx_wait_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"
#include "transport/core/time_wait_priv.h"
#include "transport/core/tx_priv.h"
#include "transport/flush_priv.h"
#include "transport/journal/journal_priv.h"
#include "transport/path/path_priv.h"
#include "transport/plan_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/requester_priv.h"
#include "transport/req/sack_priv.h"
#include "transport/req/scoreboard_priv.h"
#include "transport/req/send_queue_priv.h"
#include "transport/resp/resp_priv.h"
#include "transport/rx_priv.h"
#include "transport/svc/svc_priv.h"

struct tp_txvec *
transport_tx(struct transport *tp, uint16_t port)
{
	wire_seal_flush(&tp->sealer);
	return &tp->tx[port];
}

struct tp_txvec *
transport_loop(struct transport *tp)
{
	return &tp->loop;
}

const struct tp_counters *
transport_counters(const struct transport *tp)
{
	return &tp->counters;
}

const struct tp_violations *
transport_violations(const struct transport *tp, uint16_t port)
{
	return &tp->violations[port];
}

void
qp_doorbell_soon(const struct transport *tp, const struct qp *qp)
{
	if (unlikely(prefetch_pays(tp)))
		prefetch_turn(qp);
}

void
qp_doorbell(struct transport *tp, struct qp *qp)
{
	qp_activate(tp, qp);
}

/* ---- RX ---- */
/* A CNP belongs to no service and has no PSN. It counts only if it came from the peer (A17.9.3). */
static void
rx_cnp(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	tp->counters.rx_cnp++;
	if (!qp_sends(qp) || !pkey_match(p->bth.pkey, qp->path.pkey) || port != qp->path.port || qp->service == WIRE_UD ||
	    !qp_path_match(tp, qp, p)) {
		tp->counters.rp_cnp_ignored++;
		return;
	}
	cc_cnp_rx(tp, qp);
}

/* A SACK has the rules of an RC packet, but is neither request nor response (core/sack_format_priv.h). */
static void
rx_sack(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	if (!qp_sends(qp)) {
		tp->counters.rx_wrong_state++;
		return;
	}
	if (unlikely(qp->path.mig != TP_MIG_MIGRATED) && port == qp->path.port && !migration_rx(tp, qp, p))
		return;
	if (!pkey_match(p->bth.pkey, qp->path.pkey) || port != qp->path.port || !qp_path_match(tp, qp, p)) {
		tp->counters.rx_sack_ignored++;
		return;
	}
	if (p->ecn == CC_TCLASS_CE)
		cc_marked_rx(tp, qp);
	sack_rx(tp, qp, p);
}

/* A packet was executed, or has to wait for its copy. */
static __rte_noinline void
rx_executed(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	if (!copy_stalled(qp))
		copy_executed(tp, qp);
	else if (!qp->copy->in_reorder)
		copy_hold(tp, qp, port, p, true);
}

/* Pass a packet that belongs to the QP to requester or responder. */
static __rte_always_inline void
rx_admitted(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	if (p->op->flags & WIRE_F_RESPONSE) {
		completer_rx(tp, qp, p);
		return;
	}
	if (unlikely(qp->service == WIRE_UD)) {
		ud_rx(tp, qp, p);
		return;
	}
	/* Of RC, the packet that it begins with: others may be a stranger's, or of another connection. */
	if (unlikely(qp->state == UROCE_QPS_RTR && !qp->rcv.comm_est) && (qp->service != WIRE_RC || p->bth.psn == qp->rcv.epsn)) {
		qp->rcv.comm_est = true;
		qp_event(tp, UROCE_EVENT_COMM_EST, qp);
	}
	if (likely(qp->service == WIRE_RC))
		responder_rx(tp, qp, p);
	else
		uc_rx(tp, qp, p);
}

/* Make the checks that need nothing but the QP, then let it have the packet. */
static __rte_always_inline void
rx_execute(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	bool response = (p->op->flags & WIRE_F_RESPONSE) != 0;

	if (unlikely(WIRE_OPCODE_SERVICE(p->bth.opcode) != qp->prefix)) {
		if (p->op->flags & WIRE_F_CNP)
			rx_cnp(tp, qp, port, p);
		else if (p->op->flags & WIRE_F_SACK)
			rx_sack(tp, qp, port, p);
		else
			tp->counters.rx_wrong_service++;
		return;
	}
	if (unlikely(response ? !qp_sends(qp) : !qp_receives(qp))) {
		tp->counters.rx_wrong_state++;
		return;
	}
	if (unlikely(qp->path.mig != TP_MIG_MIGRATED) && port == qp->path.port && !migration_rx(tp, qp, p))
		return;
	if (unlikely(!pkey_match(p->bth.pkey, qp->path.pkey))) {
		count_bad_pkey(tp, port);
		return;
	}
	if (unlikely(port != qp->path.port || (qp->service != WIRE_UD && !qp_address_match(qp, p)))) {
		tp->counters.rx_bad_address++;
		return;
	}
	if (unlikely(!(qp->service != WIRE_UD ? vlan_match_at(tp, port, qp->path.vlan, p) : vlan_match(tp, port, p)))) {
		tp->counters.rx_bad_vlan++;
		return;
	}
	if (unlikely(p->ecn == CC_TCLASS_CE))
		cc_marked_rx(tp, qp);
	rx_admitted(tp, qp, p);
}

static __rte_noinline void
to_qp_again(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	rx_execute(tp, qp, port, p);
}

/* As rx_to_qp(), for a QP that has copies, or had some a moment ago. */
static __rte_noinline void
rx_copying(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	if (copy_stalled(qp)) {
		copy_hold(tp, qp, port, p, false);
		return;
	}
	to_qp_again(tp, qp, port, p);
	rx_executed(tp, qp, port, p);
}

static __rte_always_inline void
rx_to_qp(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	atomic_store_explicit(&tp->serving, qp, memory_order_relaxed);
	if (unlikely(qp->copy != NULL)) {
		rx_copying(tp, qp, port, p);
		return;
	}
	rx_execute(tp, qp, port, p);
	if (unlikely(qp->copy != NULL))
		rx_executed(tp, qp, port, p);
}

/* Charge @p s for a received packet, unless time is measured. @return what it costs. */
static __rte_always_inline uint32_t
rx_charge(struct transport *tp, struct share *s, const struct wire_pkt *p)
{
	uint32_t cost = p->payload_bytes + TP_COST_RX;

	if (p->op->flags & RX_FREE)
		return 0;
	if (likely(!meter_runs(tp)))
		share_charge_only(tp, s, cost);
	if (unlikely(tp->rx_share != s))
		rx_other_pays(tp, s);
	return cost;
}

uint32_t
rx_run_waiting(struct transport *tp, struct qp *qp, uint32_t budget)
{
	struct tp_rx_wait *w;
	uint32_t n = 0;

	while (n < budget && (w = rx_wait_take(tp, qp)) != NULL) {
		qp->sched.deficit -= (int32_t)rx_charge(tp, qp->share, &w->p);
		rx_to_qp(tp, qp, w->port, &w->p);
		if (unlikely(tp->journal != NULL))
			journal_stepped(tp, qp);
		rx_wait_end(tp, qp, w);
		n++;
	}
	return n;
}

void
rx_at_once(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	if (unlikely(rx_waits(qp)))
		rx_run_waiting(tp, qp, UINT32_MAX);
	rx_to_qp(tp, qp, port, p);
}

static __rte_noinline void
to_qp(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	struct meter m = { 0 };

	if (meter_runs(tp))
		meter_to(tp, &m, qp->share);
	rx_charge(tp, qp->share, p);
	rx_at_once(tp, qp, port, p);
	meter_to(tp, &m, NULL);
}

void
rx_catch_up(struct transport *tp, struct qp *qp)
{
	struct meter m = { 0 };

	if (likely(!rx_waits(qp)))
		return;
	if (meter_runs(tp))
		meter_to(tp, &m, qp->share);
	rx_run_waiting(tp, qp, UINT32_MAX);
	meter_to(tp, &m, NULL);
	transport_serves_nobody(tp);
	if (tp->nb_touched != 0)
		cq_flush_touched(tp);
}

/* Have a packet wait, if need be in the place of older ones of its QP. @return false: there is no room at all, and it is executed now. */
static __rte_noinline bool
rx_later(struct transport *tp, struct qp *qp, uint16_t port, struct rte_mbuf *m, const struct wire_pkt *p)
{
	if (!rx_must_wait(tp, qp, p))
		return false;
	while (!rx_wait_add(tp, qp, port, m, p))
		if (rx_run_waiting(tp, qp, 1) == 0)
			return false;
	return true;
}

/* What a received packet has waited for is there: go on with it and those behind it, until one has to wait again. */
static void
rx_resume(struct transport *tp, struct qp *qp)
{
	struct tp_copy_pkt *k;

	if (qp->copy->in_reorder) {
		qp->copy->in_reorder = false;
		responder_drain(tp, qp);
	}
	while (!copy_stalled(qp) && (k = copy_take(qp)) != NULL) {
		copy_execute(qp, &k->p);
		if (k->admitted)
			rx_admitted(tp, qp, &k->p);
		else
			to_qp_again(tp, qp, k->port, &k->p);
		if (copy_stalled(qp) && !qp->copy->in_reorder) {
			copy_untake(qp, k);
			return;
		}
		if (!copy_stalled(qp))
			copy_executed(tp, qp);
		copy_put(tp, qp, k);
	}
}

/* A copy for a QP has an end. */
static void
copied(struct transport *tp, struct qp *qp)
{
	journal_touch(qp);
	if (!copy_stalled(qp))
		rx_resume(tp, qp);
	if (qp->req.wait == REQ_WAIT_MEMORY)
		qp->req.wait = REQ_RUNS;
	qp_activate(tp, qp);
}

void
transport_copied(struct transport *tp, struct mem_job *job, uint64_t now_ns)
{
	struct qp *qp;

	tp->now_ns = RTE_MAX(tp->now_ns, now_ns);
	qp = copy_finish(tp, job);
	if (qp != NULL)
		copied(tp, qp);
}

struct qp *
transport_serving(const struct transport *tp)
{
	return atomic_load_explicit(&tp->serving, memory_order_relaxed);
}

void
transport_serves_nobody(struct transport *tp)
{
	atomic_store_explicit(&tp->serving, NULL, memory_order_relaxed);
}

uint32_t
transport_copies(const struct transport *tp)
{
	return tp->nb_copies;
}

void
rx_run_copies(struct transport *tp)
{
	struct qp *qp;

	if (tp->nb_blocked != 0 && tp->now_ns >= tp->blocked_next_ns) {
		for (uint32_t n = tp->nb_blocked; n > 0 && (qp = copy_unblock(tp)) != NULL; n--)
			copied(tp, qp);
		tp->blocked_next_ns = tp->now_ns + TP_COPY_RETRY_NS;
	}

	while ((qp = copy_overdue(tp)) != NULL)
		copied(tp, qp);
	while ((qp = copy_fresh(tp)) != NULL) {
		plan(tp, qp);
		copy_start(tp, qp);
	}
}

/* A received packet in a batch. */
struct rx_slot {
	struct wire_pkt p;
	struct qp *qp; /* NULL: none, or the packet is bad */
	bool good;     /* the packet itself is valid */
};

/* A CNP may well arrive after its QP has finished its work and is destroyed. */
void
rx_no_qp(struct transport *tp, uint16_t port, const struct wire_pkt *p)
{
	bool gsi = p->bth.dqpn == WIRE_QPN_GSI && tp->c.mad != NULL, group = p->bth.dqpn == WIRE_QPN_MULTICAST;

	if ((gsi || group) && !vlan_match(tp, port, p)) {
		tp->counters.rx_bad_vlan++;
	} else if (gsi) {
		gsi_rx(tp, port, p);
	} else if (group) {
		mcast_rx(tp, port, p, to_qp);
	} else if (p->op->flags & WIRE_F_CNP) {
		tp->counters.rx_cnp++;
		tp->counters.rp_cnp_ignored++;
	} else if (!time_wait_rx(qp_table_time_wait(tp->c.sh.qps), tp, port, p)) {
		tp->counters.rx_unknown_qp++;
	}
}

/* @return whether a packet's QP may be another engine's. Then the QP is found before the ICRC is checked: the other engine checks it. */
static inline bool
rx_peeks(const struct transport *tp, bool trusted)
{
	return tp->c.handoff != NULL && !trusted;
}

/* Parse a packet. @return false: it isn't RoCE. */
static inline bool
rx_parse(struct transport *tp, struct rte_mbuf *m, bool trusted, bool check_icrc, struct rx_slot *s)
{
	enum wire_verdict v;

	s->qp = NULL;
	s->good = false;
	if (unlikely(m->nb_segs != 1) && !tp_mbuf_join(m)) {
		tp->counters.rx_multi_segment++;
		return true;
	}
	v = wire_parse_cached(&tp->headers, rte_pktmbuf_mtod(m, uint8_t *), m->data_len, check_icrc, &s->p);
	if (unlikely(v == WIRE_NOT_ROCE)) {
		tp->counters.rx_not_roce++;
		return false;
	}
	tp->counters.rx_packets++;
	tp->counters.rx_bytes += m->data_len;
	if (unlikely(v != WIRE_OK)) {
		(*verdict_counter(&tp->counters, v))++;
		return true;
	}
	s->p.inside = trusted;
	s->good = true;
	return true;
}

/* Find the QP of a packet. */
static inline void
rx_find(struct transport *tp, bool trusted, struct rx_slot *s)
{
	if (unlikely(!s->good))
		return;
	s->qp = qp_table_find(tp->c.sh.qps, s->p.bth.dqpn);
	if (rx_peeks(tp, trusted) && (s->qp == NULL || qp_transport(s->qp) == tp) && !wire_icrc_ok(&s->p)) {
		tp->counters.rx_icrc_encapsulated++;
		s->qp = NULL;
		s->good = false;
	}
}

/* The same for all packets of a batch, whose QPs may have to be fetched from memory. */
static __rte_noinline void
rx_find_fetching(struct transport *tp, bool trusted, struct rx_slot *slots, uint16_t n)
{
	const struct qp *qp;

	for (uint16_t i = 0; i < n; i++)
		if (slots[i].good)
			qp_table_prefetch(tp->c.sh.qps, slots[i].p.bth.dqpn);
	for (uint16_t i = 0; i < n; i++) {
		qp = slots[i].good ? qp_table_guess(tp->c.sh.qps, slots[i].p.bth.dqpn) : NULL;
		if (qp != NULL)
			prefetch_receiver(qp, slots[i].p.op->flags);
	}
	for (uint16_t i = 0; i < n; i++) {
		rx_find(tp, trusted, &slots[i]);
		if (slots[i].qp != NULL && qp_transport(slots[i].qp) == tp)
			prefetch_referred(slots[i].qp, slots[i].p.op->flags);
	}
}

/* @return true if the packet was handed to another engine, or is held since its QP is on its way to one. */
static bool
rx_handoff(struct transport *tp, uint16_t port, struct rte_mbuf *m, bool trusted, const struct qp *qp)
{
	if (tp->c.handoff == NULL) {
		tp->counters.rx_handoff_dropped++;
		return false;
	}
	/* The other engine will count it as received. */
	tp->counters.rx_packets--;
	tp->counters.rx_bytes -= m->data_len;
	held_or_handoff(tp, qp, port, m, trusted);
	return true;
}

/* @return the number of packets that aren't RoCE; they are moved to the front. */
static uint16_t
rx_batch(struct transport *tp, uint16_t port, struct rte_mbuf **pkts, uint16_t n, bool trusted)
{
	struct rx_slot slots[TP_RX_BATCH];
	struct rte_mbuf *done[TP_RX_BATCH];
	bool fetches = prefetch_pays(tp), check_icrc = !trusted && !rx_peeks(tp, trusted), roce;
	uint16_t nb_done = 0, left = 0;
	struct meter m = { 0 };

	UROCE_ASSERT(n <= TP_RX_BATCH);
	for (uint16_t i = 0; i < n; i++) {
		if (i + 2 < n)
			rte_prefetch0(rte_pktmbuf_mtod(pkts[i + 2], void *));
		roce = rx_parse(tp, pkts[i], trusted, check_icrc, &slots[nb_done]);
		if (unlikely(!roce)) {
			pkts[left++] = pkts[i];
			continue;
		}
		if (likely(!fetches))
			rx_find(tp, trusted, &slots[nb_done]);
		done[nb_done++] = pkts[i];
	}
	if (unlikely(fetches))
		rx_find_fetching(tp, trusted, slots, nb_done);
	/* For a journal the packets of a batch are one step. */
	if (unlikely(tp->journal != NULL))
		journal_room(tp);
	for (uint16_t i = 0; i < nb_done; i++) {
		uint16_t from = trusted ? done[i]->port : port;
		struct qp *qp = slots[i].qp;

		if (meter_runs(tp))
			meter_to(tp, &m, qp != NULL && qp_transport(qp) == tp ? qp->share : NULL);
		if (unlikely(qp == NULL)) {
			if (slots[i].good)
				rx_no_qp(tp, from, &slots[i].p);
			continue;
		}
		if (unlikely(qp_transport(qp) != tp)) {
			if (rx_handoff(tp, from, done[i], trusted, qp))
				done[i] = NULL;
		} else if (unlikely(qp->share->deficit <= 0 || rx_waits(qp)) && rx_later(tp, qp, from, done[i], &slots[i].p)) {
			done[i] = NULL;
		} else {
			rx_charge(tp, qp->share, &slots[i].p);
			journal_touch(qp);
			rx_to_qp(tp, qp, from, &slots[i].p);
		}
	}
	meter_to(tp, &m, NULL);
	tp_mbufs_free(tp, done, nb_done);
	return left;
}

uint16_t
transport_rx(struct transport *tp, uint16_t port, struct rte_mbuf **pkts, uint16_t n, bool trusted, uint64_t now_ns)
{
	uint16_t left = 0;

	UROCE_ASSERT(port < tp->c.nb_ports && now_ns >= tp->now_ns);
	tp->now_ns = now_ns;
	for (uint16_t done = 0; done < n; done += tp->c.limits.rx_batch) {
		uint16_t batch = RTE_MIN(n - done, tp->c.limits.rx_batch);
		uint16_t not_roce = rx_batch(tp, port, pkts + done, batch, trusted);

		memmove(pkts + left, pkts + done, not_roce * sizeof(pkts[0]));
		left += not_roce;
	}
	return left;
}
