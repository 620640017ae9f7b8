/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets by reference are delivered (core/local_priv.h).
 */
#include "base/mark.h"
#include "transport/core/meter_priv.h"
#include "transport/core/qp_table_priv.h"
#include "transport/core/rx_wait_priv.h"
#include "transport/core/tx_priv.h"
#include "transport/diag/diag.h"
#include "transport/journal/journal_priv.h"
#include "transport/rx_priv.h"

/* @return whether a packet that stands for several is what the QP expects next, and the QP does nothing that is done packet by packet. */
static bool
takes_whole(const struct qp *qp, const struct tp_local *l)
{
	if (l->mtu_shift != qp->path.mtu_shift || qp->copy != NULL || rx_waits(qp))
		return false;
	if (l->p.op->flags & WIRE_F_RESPONSE)
		return l->p.bth.psn == qp->req.psn_una && qp->req.scoreboard == NULL;
	return l->p.bth.psn == qp->rcv.epsn && qp->rcv.reorder == NULL;
}

/* @return whether it was executed; else nothing of it was done. */
static bool
rx_whole(struct transport *tp, struct qp *qp, const struct tp_local *l)
{
	uint64_t acks = tp->counters.acks_received;

	if (!takes_whole(qp, l))
		return false;
	tp->locals->whole = true;
	tp->locals->in_parts = false;
	rx_at_once(tp, qp, l->port, &l->p);
	tp->locals->whole = false;
	if (likely(!tp->locals->in_parts))
		return true;
	tp->counters.acks_received = acks;
	return false;
}

static __rte_noinline void
rx_several(struct transport *tp, struct qp *qp, const struct tp_local *l)
{
	struct local_part part;

	if (rx_whole(tp, qp, l))
		return;
	MARK("a packet by reference that stands for several is executed packet by packet");
	for (uint32_t i = 0; i <= l->p.more; i++) {
		local_part(l, i, &part);
		rx_at_once(tp, qp, l->port, &part.p);
	}
}

static inline void
rx_by_reference(struct transport *tp, struct qp *qp, const struct tp_local *l)
{
	if (unlikely(l->p.more != 0))
		rx_several(tp, qp, l);
	else
		rx_at_once(tp, qp, l->port, &l->p);
	if (unlikely(tp->journal != NULL))
		journal_stepped(tp, qp);
}

/* The same for a tap, which sees the frames that there would be. */
static __rte_noinline void
rx_shown(struct transport *tp, struct qp *qp, const struct tp_local *l)
{
	const struct tp_counters before = tp->counters;
	uint8_t frame[WIRE_MAX_FRAME_BYTES];
	void *seen[TP_CWND_MAX];

	UROCE_ASSERT(l->p.more < TP_CWND_MAX);
	for (uint32_t i = 0; i <= l->p.more; i++) {
		struct rte_mbuf m = { .buf_addr = frame, .nb_segs = 1, .port = l->port };

		m.pkt_len = m.data_len = (uint16_t)local_frame(l, i, frame);
		seen[i] = tp->tap->begin(tp->tap, l->port, &m, tp->now_ns);
	}
	rx_by_reference(tp, qp, l);
	for (uint32_t i = 0; i <= l->p.more; i++)
		if (seen[i] != NULL)
			tp->tap->end(tp->tap, seen[i], tp_drop_reason(&before, &tp->counters));
}

void
transport_set_tap(struct transport *tp, struct tp_tap *t)
{
	tp->tap = t;
}

void
rx_local(struct transport *tp)
{
	struct tp_locals *ls = tp->locals;
	struct meter m = { 0 };

	/* Whoever handles one of them may append others. */
	for (uint32_t i = 0; i < ls->n; i++) {
		struct tp_local *l = &ls->e[i];
		struct qp *qp = qp_table_find(tp->c.sh.qps, l->p.bth.dqpn);

		if (meter_runs(tp))
			meter_to(tp, &m, qp != NULL && qp_transport(qp) == tp ? qp->share : NULL);
		tp->counters.rx_packets += 1u + l->p.more;
		tp->counters.rx_bytes += l->bytes;
		if (likely(qp != NULL && qp_transport(qp) == tp && tp->tap == NULL))
			rx_by_reference(tp, qp, l);
		else if (qp != NULL && qp_transport(qp) == tp)
			rx_shown(tp, qp, l);
		else if (qp == NULL)
			rx_no_qp(tp, l->port, &l->p);
		else
			tp->counters.rx_unknown_qp++; /* its number is another engine's by now */
		if (unlikely(l->m != NULL))
			tp_mbuf_put(tp, l->m);
	}
	meter_to(tp, &m, NULL);
	ls->n = 0;
}
