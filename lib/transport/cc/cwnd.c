/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Round trip measurement, and the congestion window that losses and congestion control leave.
 */
#include "base/mark.h"
#include "transport/cc/cc_priv.h"
#include "transport/cc/cwnd_priv.h"

/* ---- Round trips ---- */
/* RFC 6298, section 2; probe timeout as in RFC 8985, section 7.2: two round trips plus their variation. */
void
rtt_measured(struct transport *tp, struct qp *qp)
{
	uint32_t rtt = (uint32_t)RTE_MIN(tp->now_ns - qp->loss.rtt_sent_ns, (uint64_t)TP_RTT_MAX_NS), off;
	uint32_t acked = wire_psn_diff(qp->req.psn_una, qp->loss.rtt_una) & WIRE_PSN_MASK;

	if (qp->loss.pto_ns == 0) {
		qp->loss.srtt_ns = rtt;
		qp->loss.rttvar_ns = rtt / 2;
		qp->loss.rtt_min_ns = qp->loss.rtt_low_ns = rtt;
		qp->loss.rtt_low_until_ns = tp->now_ns + TP_RTT_MIN_NS;
	} else {
		off = rtt > qp->loss.srtt_ns ? rtt - qp->loss.srtt_ns : qp->loss.srtt_ns - rtt;
		qp->loss.rttvar_ns += off / 4 - qp->loss.rttvar_ns / 4;
		qp->loss.srtt_ns += rtt / 8 - qp->loss.srtt_ns / 8;
		qp->loss.rtt_low_ns = RTE_MIN(qp->loss.rtt_low_ns, rtt);
		qp->loss.rtt_min_ns = RTE_MIN(qp->loss.rtt_min_ns, rtt);
		if (unlikely(tp->now_ns >= qp->loss.rtt_low_until_ns)) {
			MARK("the shortest round trip is forgotten");
			qp->loss.rtt_min_ns = qp->loss.rtt_low_ns;
			qp->loss.rtt_low_ns = rtt;
			qp->loss.rtt_low_until_ns = tp->now_ns + TP_RTT_MIN_NS;
		}
	}
	qp->loss.pto_ns = RTE_MAX(2 * qp->loss.srtt_ns + 4 * qp->loss.rttvar_ns, (uint32_t)TP_PROBE_MIN_NS);
	qp->loss.pto_shift = 0;
	qp->loss.probe = TP_PROBE_NONE;
	qp->loss.rtt_timing = false;
	qp->loss.rtt_next_ns = tp->now_ns + (qp->req.cc == NULL ? TP_RTT_EVERY_NS : 0);
	qp->loss.rtt_una = qp->req.psn_una;
	if (unlikely(qp->req.cc != NULL) && qp->req.cc->ops->rtt != NULL) {
		qp->req.cc->ops->rtt(qp->req.cc, rtt, acked, tp->now_ns);
		cwnd_update(qp);
	}
}

/* ---- The window ---- */
void
cwnd_update(struct qp *qp)
{
	UROCE_ASSERT(qp->loss.loss_cwnd <= TP_CWND_MAX && (qp->req.cc == NULL || qp->req.cc->cwnd <= TP_CWND_MAX));
	qp->loss.cwnd = unlikely(qp->req.cc != NULL) ? RTE_MIN(qp->loss.loss_cwnd, qp->req.cc->cwnd) : qp->loss.loss_cwnd;
	qp->loss.cwnd = RTE_MIN(qp->loss.cwnd, qp->tp->c.limits.cwnd);
	if (unlikely(qp->loss.not_in_flight != 0))
		qp->loss.cwnd = (uint16_t)RTE_MIN(qp->loss.cwnd + qp->loss.not_in_flight, TP_CWND_MAX);
}

/*
 * @return how much longer round trips are than without queues, in quarters; 4: not longer. The smoothed round trip lags
 * behind the shortest one when the path becomes longer and the shorter round trips expire.
 */
static inline uint32_t
queued(const struct qp *qp)
{
	if (qp->loss.rtt_min_ns == 0)
		return 4;
	return (uint32_t)RTE_MAX(4 * (uint64_t)qp->loss.srtt_ns / qp->loss.rtt_min_ns, UINT64_C(4));
}

/*
 * On a path that loses packets, a window beyond the path's bandwidth-delay product (BDP) does harm, because go-back-N
 * resends all of it. The best window is one BDP; with selective repeat two, so that the path never runs empty.
 */
static inline bool
may_grow(const struct qp *qp)
{
	if (likely(qp->loss.lossy == 0))
		return true;
	/* The round trips tell only if they were measured recently. */
	return wire_psn_diff(qp->req.psn_una, qp->loss.rtt_una) <= qp->loss.loss_cwnd && queued(qp) < (qp->req.sack_peer ? 8 : 5);
}

/* Remember that packets get lost. @return the bandwidth-delay product in packets, judged by round trips. */
static uint16_t
remember_loss(struct qp *qp)
{
	qp->loss.lossy = TP_CWND_CALM;
	qp->loss.ackreq_mask = TP_ACKREQ_LOSSY - 1;
	return (uint16_t)(4 * qp->loss.loss_cwnd / queued(qp));
}

/* Additive increase, multiplicative decrease: queues on the path and the receiver's ring are finite. */
void
cwnd_grow(struct qp *qp)
{
	if (qp->loss.loss_cwnd < TP_CWND_MAX && may_grow(qp))
		qp->loss.loss_cwnd = (uint16_t)RTE_MIN(qp->loss.loss_cwnd + TP_CWND_STEP, (int)TP_CWND_MAX);
	if (unlikely(qp->loss.lossy != 0) && --qp->loss.lossy == 0) {
		MARK_UNIT("a QP forgets that packets were lost", "unit/transport/window");
		qp->loss.ackreq_mask = TP_ACKREQ_PACKETS - 1;
	}
	cwnd_update(qp);
	qp->loss.psn_grow = wire_psn_add(qp->req.psn_una, qp->loss.cwnd);
	/* Keep psn_recover close to psn_una: if it were half the PSN space behind it would compare as ahead. */
	if (wire_psn_diff(qp->req.psn_una, qp->loss.psn_recover) >= 0)
		qp->loss.psn_recover = qp->req.psn_una;
}

/*
 * Call once for all packets in flight that were lost: shrinks the window to the bandwidth-delay product, but at most by
 * half.
 */
void
cwnd_loss(struct transport *tp, struct qp *qp, bool timeout)
{
	bool again = wire_psn_diff(qp->req.psn_una, qp->loss.psn_recover) < 0;
	uint16_t held = remember_loss(qp);

	qp->diag.losses++;
	/* ACKs come in batches: a little more than the bandwidth-delay product keeps the path full. */
	held = RTE_MIN(held + held / 4, qp->loss.loss_cwnd);
	if (!again)
		qp->loss.loss_cwnd = RTE_MAX(held, qp->loss.loss_cwnd / 2);
	if (timeout || qp->loss.loss_cwnd < TP_CWND_MIN)
		qp->loss.loss_cwnd = TP_CWND_MIN;
	qp->loss.psn_recover = qp->req.psn_max;
	qp->loss.psn_grow = qp->req.psn_max;
	if (unlikely(qp->req.cc != NULL) && qp->req.cc->ops->loss != NULL && (timeout || !again))
		qp->req.cc->ops->loss(qp->req.cc, timeout, tp->now_ns);
	cwnd_update(qp);
}

/*
 * If it is known which packets were lost, they cost only their own retransmission, and most often the cause wasn't
 * congestion. So the window shrinks in proportion to the number of lost packets.
 */
void
cwnd_lost(struct transport *tp, struct qp *qp, uint32_t n)
{
	bool again = wire_psn_diff(qp->req.psn_una, qp->loss.psn_recover) < 0;
	int32_t most = 2 * remember_loss(qp);

	most = RTE_MIN(qp->loss.loss_cwnd, most) - (int32_t)(TP_CWND_LOST * n);
	qp->loss.loss_cwnd = (uint16_t)RTE_MAX(most, (int32_t)TP_CWND_MIN);
	qp->loss.psn_recover = qp->req.psn_max;
	qp->loss.psn_grow = qp->req.psn_max;
	if (unlikely(qp->req.cc != NULL) && qp->req.cc->ops->loss != NULL && !again)
		qp->req.cc->ops->loss(qp->req.cc, false, tp->now_ns);
	cwnd_update(qp);
}

void
cwnd_new_path(struct qp *qp)
{
	cwnd_update(qp);
	rtt_untime(qp);
	qp->loss.lossy = 0;
	qp->loss.ackreq_mask = TP_ACKREQ_PACKETS - 1;
	qp->loss.pto_ns = 0;
	qp->loss.rtt_min_ns = 0;
	qp->loss.srtt_ns = 0;
	qp->loss.pto_shift = 0;
	qp->loss.probe = TP_PROBE_NONE;
	qp->loss.probes = 0;
}

void
cwnd_start(struct qp *qp)
{
	qp->req.sack_peer = false;
	qp->req.sack_offers = TP_SACK_OFFERS;
	qp->loss.loss_cwnd = TP_CWND_START;
	cwnd_new_path(qp);
	qp->loss.rtt_una = qp->req.psn_una;
	qp->loss.psn_recover = qp->req.psn_una;
	qp->loss.psn_grow = wire_psn_add(qp->req.psn_una, qp->loss.cwnd);
}
