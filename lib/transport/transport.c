/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creation of a transport, and passing received packets to their QPs. turn.c has the rest of a turn.
 */
#include "transport/cc/cc_priv.h"
#include "transport/core/async_priv.h"
#include "transport/core/checks_priv.h"
#include "transport/core/cq_priv.h"
#include "transport/core/event_log_priv.h"
#include "transport/core/invariants_priv.h"
#include "transport/core/mcast_priv.h"
#include "transport/core/qp_table_priv.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"
#include "transport/core/time_wait_priv.h"
#include "transport/core/tx_priv.h"
#include "transport/flush_priv.h"
#include "transport/path/path_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/requester_priv.h"
#include "transport/req/sack_priv.h"
#include "transport/req/scoreboard_priv.h"
#include "transport/req/send_queue_priv.h"
#include "transport/resp/resp_priv.h"
#include "transport/svc/svc_priv.h"

/* Items that are never lent are never touched, so they cost only address space. @return 0 or ENOMEM. */
static int
pools_create(struct transport *tp)
{
	const struct tp_pool_sizes *n = &tp->c.pools;

	if (pool_init(&tp->inflight_blocks, TP_INFLIGHT_MAX * sizeof(struct tp_swqe), n->inflight_blocks) != 0 ||
	    pool_init(&tp->read_blocks, UROCE_MAX_RD_ATOMIC * sizeof(struct tp_read), n->read_blocks) != 0 ||
	    pool_init(&tp->sge_blocks, UROCE_MAX_SGE * sizeof(struct ring_sge), n->sge_blocks) != 0 ||
	    pool_init(&tp->scoreboards, sizeof(struct tp_scoreboard), n->scoreboards) != 0 ||
	    pool_init(&tp->reorders, sizeof(struct tp_reorder), n->reorders) != 0 ||
	    pool_init(&tp->reorder_pkts, sizeof(struct tp_reorder_pkt), n->reorder_pkts) != 0)
		return ENOMEM;
	return 0;
}

/* What the caller has left at 0. */
static void
pools_default(struct tp_pool_sizes *n)
{
	n->inflight_blocks = n->inflight_blocks != 0 ? n->inflight_blocks : TP_INFLIGHT_BLOCKS;
	n->read_blocks = n->read_blocks != 0 ? n->read_blocks : TP_READ_BLOCKS;
	n->sge_blocks = n->sge_blocks != 0 ? n->sge_blocks : TP_SGE_BLOCKS;
	n->scoreboards = n->scoreboards != 0 ? n->scoreboards : TP_SCOREBOARDS;
	n->reorders = n->reorders != 0 ? n->reorders : TP_SCOREBOARDS;
	n->reorder_pkts = n->reorder_pkts != 0 ? n->reorder_pkts : TP_REORDER_PKTS;
}

static void
pools_destroy(struct transport *tp)
{
	pool_fini(&tp->inflight_blocks);
	pool_fini(&tp->read_blocks);
	pool_fini(&tp->sge_blocks);
	pool_fini(&tp->scoreboards);
	pool_fini(&tp->reorders);
	pool_fini(&tp->reorder_pkts);
}

struct transport *
transport_create(const struct transport_config *c)
{
	struct transport *tp;

	if (c->engine >= UROCE_MAX_ENGINES || c->nb_ports == 0 || c->nb_ports > UROCE_MAX_PORTS || c->sh.mrs == NULL ||
	    c->sh.qps == NULL || c->sh.pool == NULL) {
		errno = EINVAL;
		return NULL;
	}
	tp = calloc(1, sizeof(*tp) + c->nb_ports * sizeof(tp->tx[0]));
	if (tp == NULL)
		return NULL;
	tp->c = *c;
	pools_default(&tp->c.pools);
	if (pools_create(tp) != 0 || diag_create(tp) != 0) {
		pools_destroy(tp);
		diag_destroy(tp);
		free(tp);
		errno = ENOMEM;
		return NULL;
	}
	for (uint16_t i = 0; i < c->nb_ports; i++) {
		static const uint16_t none[UROCE_MAX_PKEYS];

		if (memcmp(c->ports[i].pkeys, none, sizeof(none)) == 0)
			tp->c.ports[i].pkeys[0] = WIRE_PKEY_DEFAULT;
	}
	shares_init(tp);
	TAILQ_INIT(&tp->replies);
	wheel_init(&tp->wheel, 0);
	tp->deferred_next_ns = tp->owed_next_ns = UINT64_MAX;
	TAILQ_INIT(&tp->owed);
	return tp;
}

void
transport_destroy(struct transport *tp)
{
	if (tp == NULL)
		return;
	for (uint16_t i = 0; i < tp->c.nb_ports; i++)
		rte_pktmbuf_free_bulk(tp->tx[i].pkts, tp->tx[i].n);
	rte_pktmbuf_free_bulk(tp->loop.pkts, tp->loop.n);
	rte_pktmbuf_free_bulk(tp->mbufs, tp->nb_mbufs);
	pools_destroy(tp);
	diag_destroy(tp);
	free(tp);
}

struct tp_txvec *
transport_tx(struct transport *tp, uint16_t port)
{
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
qp_doorbell(struct transport *tp, struct qp *qp)
{
	qp_activate(tp, qp);
}

/* ---- RX ---- */
static inline uint64_t *
verdict_counter(struct tp_counters *c, enum wire_verdict v)
{
	switch (v) {
	case WIRE_TRUNCATED:
		return &c->rx_truncated;
	case WIRE_BAD_IP:
		return &c->rx_bad_ip;
	case WIRE_BAD_UDP_SUM:
		return &c->rx_bad_udp_sum;
	case WIRE_BAD_OPCODE:
		return &c->rx_bad_opcode;
	case WIRE_BAD_TVER:
		return &c->rx_bad_tver;
	case WIRE_BAD_ICRC:
		return &c->rx_icrc_encapsulated;
	default:
		return &c->rx_bad_length;
	}
}

/* A CNP belongs to no service and has no PSN. It counts only if it came from the peer (A17.9.3). */
static void
rx_cnp(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	tp->counters.rx_cnp++;
	if (!qp_sends(qp) || !pkey_match(p->bth.pkey, qp->path.pkey) || port != qp->path.port || qp->service == WIRE_UD ||
	    !qp_address_match(qp, p)) {
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
	if (!pkey_match(p->bth.pkey, qp->path.pkey) || port != qp->path.port || !qp_address_match(qp, p)) {
		tp->counters.rx_sack_ignored++;
		return;
	}
	if (p->ecn == CC_TCLASS_CE)
		cc_marked_rx(tp, qp);
	sack_rx(tp, qp, p);
}

/* Make the checks that need nothing but the QP, then pass the packet to requester or responder. */
static __rte_always_inline void
rx_to_qp(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
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
	if (unlikely(p->ecn == CC_TCLASS_CE))
		cc_marked_rx(tp, qp);
	if (response) {
		completer_rx(tp, qp, p);
		return;
	}
	if (unlikely(qp->service == WIRE_UD)) {
		ud_rx(tp, qp, p);
		return;
	}
	if (unlikely(qp->state == UROCE_QPS_RTR && !qp->rcv.comm_est)) {
		qp->rcv.comm_est = true;
		tp_event(tp, UROCE_EVENT_COMM_EST, qp->cookie, qp->owner);
	}
	if (likely(qp->service == WIRE_RC))
		responder_rx(tp, qp, p);
	else
		uc_rx(tp, qp, p);
}

static __rte_noinline void
to_qp(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p)
{
	rx_to_qp(tp, qp, port, p);
}

/* A received packet in a batch. */
struct rx_slot {
	struct wire_pkt p;
	struct qp *qp; /* NULL: none, or the packet is bad */
	bool good;     /* the packet itself is valid */
};

/*
 * A valid packet for a number that no QP has. A CNP may well arrive after its QP has finished its work and is
 * destroyed.
 */
static void
rx_no_qp(struct transport *tp, uint16_t port, const struct wire_pkt *p)
{
	if (p->bth.dqpn == WIRE_QPN_GSI && tp->c.mad != NULL) {
		gsi_rx(tp, port, p);
	} else if (p->bth.dqpn == WIRE_QPN_MULTICAST) {
		mcast_rx(tp, port, p, to_qp);
	} else if (p->op->flags & WIRE_F_CNP) {
		tp->counters.rx_cnp++;
		tp->counters.rp_cnp_ignored++;
	} else if (!time_wait_rx(qp_table_time_wait(tp->c.sh.qps), tp, port, p)) {
		tp->counters.rx_unknown_qp++;
	}
}

/* Parse a packet and find its QP. @return false: it isn't RoCE. */
static inline bool
rx_parse(struct transport *tp, uint16_t port, struct rte_mbuf *m, bool trusted, struct rx_slot *s)
{
	/* If the QP may be another engine's, find the QP before checking the ICRC: the other engine checks it. */
	bool peek = tp->c.handoff != NULL && !trusted;
	enum wire_verdict v;

	s->qp = NULL;
	s->good = false;
	if (unlikely(m->nb_segs != 1)) {
		tp->counters.rx_multi_segment++;
		return true;
	}
	v = wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, !trusted && !peek, &s->p);
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
	s->qp = qp_table_get(tp->c.sh.qps, s->p.bth.dqpn);
	if (peek && (s->qp == NULL || s->qp->tp == tp) &&
	    wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, true, &s->p) != WIRE_OK) {
		tp->counters.rx_icrc_encapsulated++;
		s->qp = NULL;
		return true;
	}
	s->good = true;
	rte_prefetch0(s->qp);
	return true;
}

/* @return true if the packet was handed to another engine. */
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
	tp->counters.rx_handoff++;
	tp->c.handoff(tp->c.arg, qp->tp->c.engine, port, m, trusted);
	return true;
}

/* @return the number of packets that aren't RoCE; they are moved to the front. */
static uint16_t
rx_batch(struct transport *tp, uint16_t port, struct rte_mbuf **pkts, uint16_t n, bool trusted)
{
	struct rx_slot slots[TP_RX_BATCH];
	struct rte_mbuf *done[TP_RX_BATCH];
	uint16_t nb_done = 0, left = 0;
	bool roce;

	UROCE_ASSERT(n <= TP_RX_BATCH);
	for (uint16_t i = 0; i < n; i++) {
		if (i + 2 < n)
			rte_prefetch0(rte_pktmbuf_mtod(pkts[i + 2], void *));
		roce = rx_parse(tp, port, pkts[i], trusted, &slots[nb_done]);
		if (likely(roce))
			done[nb_done++] = pkts[i];
		else
			pkts[left++] = pkts[i];
	}
	for (uint16_t i = 0; i < nb_done; i++) {
		struct qp *qp = slots[i].qp;

		if (unlikely(qp == NULL)) {
			if (slots[i].good)
				rx_no_qp(tp, trusted ? done[i]->port : port, &slots[i].p);
			continue;
		}
		if (likely(qp->tp == tp))
			rx_to_qp(tp, qp, trusted ? done[i]->port : port, &slots[i].p);
		else if (rx_handoff(tp, port, done[i], trusted, qp))
			done[i] = NULL;
	}
	rte_pktmbuf_free_bulk(done, nb_done);
	return left;
}

uint16_t
transport_rx(struct transport *tp, uint16_t port, struct rte_mbuf **pkts, uint16_t n, bool trusted, uint64_t now_ns)
{
	uint16_t left = 0;

	UROCE_ASSERT(port < tp->c.nb_ports && now_ns >= tp->now_ns);
	tp->now_ns = now_ns;
	for (uint16_t done = 0; done < n; done += TP_RX_BATCH) {
		uint16_t batch = RTE_MIN(n - done, TP_RX_BATCH);
		uint16_t not_roce = rx_batch(tp, port, pkts + done, batch, trusted);

		memmove(pkts + left, pkts + done, not_roce * sizeof(pkts[0]));
		left += not_roce;
	}
	return left;
}
