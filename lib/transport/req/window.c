/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of a QP may be on its way: round trips as measured, and the window that losses and congestion control leave.
 */
#include "transport/cc/cc.h"
#include "transport/req/selective.h"

/* ---- Round trips ---- */
/* RFC 6298, section 2; early retransmission as in RFC 8985, section 7.2, after two round trips and what they vary. */
void
window_rtt(struct transport *tp, struct qp *qp)
{
	uint32_t rtt = (uint32_t)RTE_MIN(tp->now_ns - qp->rtt_sent_ns, (uint64_t)TP_RTT_MAX_NS), off;
	uint32_t acked = wire_psn_diff(qp->psn_una, qp->rtt_una) & WIRE_PSN_MASK;

	if (qp->rto_ns == 0) {
		qp->srtt_ns = rtt;
		qp->rttvar_ns = rtt / 2;
		qp->rtt_min_ns = qp->rtt_low_ns = rtt;
		qp->rtt_low_until_ns = tp->now_ns + TP_RTT_MIN_NS;
	} else {
		off = rtt > qp->srtt_ns ? rtt - qp->srtt_ns : qp->srtt_ns - rtt;
		qp->rttvar_ns += off / 4 - qp->rttvar_ns / 4;
		qp->srtt_ns += rtt / 8 - qp->srtt_ns / 8;
		qp->rtt_low_ns = RTE_MIN(qp->rtt_low_ns, rtt);
		qp->rtt_min_ns = RTE_MIN(qp->rtt_min_ns, rtt);
		if (unlikely(tp->now_ns >= qp->rtt_low_until_ns)) {
			qp->rtt_min_ns = qp->rtt_low_ns;
			qp->rtt_low_ns = rtt;
			qp->rtt_low_until_ns = tp->now_ns + TP_RTT_MIN_NS;
		}
	}
	qp->rto_ns = RTE_MAX(2 * qp->srtt_ns + 4 * qp->rttvar_ns, (uint32_t)TP_PROBE_MIN_NS);
	qp->rto_shift = 0;
	qp->probe = TP_PROBE_NONE;
	qp->rtt_timing = false;
	qp->rtt_next_ns = tp->now_ns + (qp->cc == NULL ? TP_RTT_EVERY_NS : 0);
	qp->rtt_una = qp->psn_una;
	if (unlikely(qp->cc != NULL) && qp->cc->ops->rtt != NULL) {
		qp->cc->ops->rtt(qp->cc, rtt, acked, tp->now_ns);
		window_update(qp);
	}
}

/* ---- The window ---- */
void
window_update(struct qp *qp)
{
	qp->window = unlikely(qp->cc != NULL) ? RTE_MIN(qp->loss_window, qp->cc->window) : qp->loss_window;
	if (unlikely(qp->board != NULL))
		qp->window = (uint16_t)RTE_MIN(qp->window + selective_off_the_way(qp), (uint32_t)TP_WINDOW_MAX);
}

/*
 * Round trips are this much longer than they were without queues, in quarters; 4: as short. The smoothed round trip falls
 * behind the shortest one when a way becomes longer and the shorter ones are forgotten.
 */
static inline uint32_t
queued(const struct qp *qp)
{
	if (qp->rtt_min_ns == 0)
		return 4;
	return (uint32_t)RTE_MAX(4 * (uint64_t)qp->srtt_ns / qp->rtt_min_ns, UINT64_C(4));
}

/*
 * Where packets get lost, a window that is larger than what the way itself holds does harm: go-back-N sends all of it
 * again. One that only just holds that is best; with selective repeat twice that, so that it never runs dry.
 */
static inline bool
may_grow(const struct qp *qp)
{
	if (likely(qp->lossy == 0))
		return true;
	/* Only what was measured of late says so. */
	return wire_psn_diff(qp->psn_una, qp->rtt_una) <= qp->loss_window && queued(qp) < (qp->sack_peer ? 8 : 5);
}

/* @return what the way itself holds, as far as round trips tell. */
static uint16_t
remember_loss(struct qp *qp)
{
	qp->lossy = TP_WINDOW_CALM;
	qp->ackreq_mask = TP_ACKREQ_LOSSY - 1;
	return (uint16_t)(4 * qp->loss_window / queued(qp));
}

/* Additive increase, multiplicative decrease: queues on the way and receive rings at its end are finite. */
void
window_grow(struct qp *qp)
{
	if (qp->loss_window < TP_WINDOW_MAX && may_grow(qp))
		qp->loss_window = (uint16_t)RTE_MIN(qp->loss_window + TP_WINDOW_STEP, (int)TP_WINDOW_MAX);
	if (unlikely(qp->lossy != 0) && --qp->lossy == 0)
		qp->ackreq_mask = TP_ACKREQ_PACKETS - 1;
	window_update(qp);
	qp->psn_grow = wire_psn_add(qp->psn_una, qp->window);
	/* Never so far behind that it would seem ahead. */
	if (wire_psn_diff(qp->psn_una, qp->psn_recover) >= 0)
		qp->psn_recover = qp->psn_una;
}

/* Once for all that was lost of what was on its way: to what the way holds, by half at most. */
void
window_loss(struct transport *tp, struct qp *qp, bool timeout)
{
	bool again = wire_psn_diff(qp->psn_una, qp->psn_recover) < 0;
	uint16_t held = remember_loss(qp);

	/* ACKs come in steps: a little more than what the way holds keeps it full. */
	held = RTE_MIN(held + held / 4, qp->loss_window);
	if (!again)
		qp->loss_window = RTE_MAX(held, qp->loss_window / 2);
	if (timeout || qp->loss_window < TP_WINDOW_MIN)
		qp->loss_window = TP_WINDOW_MIN;
	qp->psn_recover = qp->psn_max;
	qp->psn_grow = qp->psn_max;
	if (unlikely(qp->cc != NULL) && qp->cc->ops->loss != NULL && (timeout || !again))
		qp->cc->ops->loss(qp->cc, timeout, tp->now_ns);
	window_update(qp);
}

/*
 * Packets that are known to be lost one by one cost no more than themselves, and most often it wasn't congestion: the
 * window shrinks by what was lost.
 */
void
window_lost(struct transport *tp, struct qp *qp, uint32_t n)
{
	bool again = wire_psn_diff(qp->psn_una, qp->psn_recover) < 0;
	int32_t most = 2 * remember_loss(qp);

	most = RTE_MIN(qp->loss_window, most) - (int32_t)(TP_WINDOW_LOST * n);
	qp->loss_window = (uint16_t)RTE_MAX(most, (int32_t)TP_WINDOW_MIN);
	qp->psn_recover = qp->psn_max;
	qp->psn_grow = qp->psn_max;
	if (unlikely(qp->cc != NULL) && qp->cc->ops->loss != NULL && !again)
		qp->cc->ops->loss(qp->cc, false, tp->now_ns);
	window_update(qp);
}

void
window_new_path(struct qp *qp)
{
	window_update(qp);
	window_untime(qp);
	qp->lossy = 0;
	qp->ackreq_mask = TP_ACKREQ_PACKETS - 1;
	qp->rto_ns = 0;
	qp->rtt_min_ns = 0;
	qp->srtt_ns = 0;
	qp->rto_shift = 0;
	qp->probe = TP_PROBE_NONE;
	qp->probes = 0;
}

void
window_start(struct qp *qp)
{
	qp->sack_peer = false;
	qp->sack_offers = TP_SACK_OFFERS;
	qp->loss_window = TP_WINDOW_START;
	window_new_path(qp);
	qp->rtt_una = qp->psn_una;
	qp->psn_recover = qp->psn_una;
	qp->psn_grow = wire_psn_add(qp->psn_una, qp->window);
}
