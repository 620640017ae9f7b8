/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of rare events, and the record of why QPs stopped or got stuck.
 */
#include "transport/core/event_log_priv.h"

struct tp_diag {
	uint32_t next; /* number of events so far; never reset */
	struct qp_event events[TP_EVENTS];
};

int
diag_create(struct transport *tp)
{
	/* Pages that no event has touched cost address space only. */
	tp->diag = calloc(1, sizeof(*tp->diag));
	return tp->diag != NULL ? 0 : ENOMEM;
}

void
diag_destroy(struct transport *tp)
{
	free(tp->diag);
}

uint8_t
diag_retries(const struct qp *qp)
{
	return (uint8_t)qp->diag.why_detail == TP_VERR_RNR ? qp->loss.rnr_retry : qp->loss.retry_cnt;
}

void
diag_note(struct transport *tp, const struct qp *qp, enum qp_event_kind kind, uint8_t a, uint16_t b, uint32_t psn)
{
	struct tp_diag *d = tp->diag;
	struct qp_event *last = &d->events[(d->next - 1) % TP_EVENTS];

	/* A repetition of the last event must not push out all others. */
	if (last->qpn == qp->qpn && last->kind == kind && kind != QP_EV_STATE && kind != QP_EV_ERROR) {
		last->count++;
		last->a = a;
		last->b = b;
		last->psn = psn;
		return;
	}
	d->events[d->next++ % TP_EVENTS] = (struct qp_event){ .ns = tp->now_ns, .qpn = qp->qpn, .psn = psn,
								.kind = (uint8_t)kind, .a = a, .b = b, .count = 1,
								.c = diag_retries(qp) };
}

uint32_t
qp_events(const struct transport *tp, uint32_t qpn, struct qp_event *out, uint32_t max)
{
	const struct tp_diag *d = tp->diag;
	uint32_t n = 0;

	/* Collect from the latest backwards, then reverse. */
	for (uint32_t i = 1; i <= TP_EVENTS && n < max; i++) {
		const struct qp_event *e = &d->events[(d->next - i) % TP_EVENTS];

		/* Entries from here on were never used. */
		if (e->count == 0)
			break;
		if (qpn == 0 || e->qpn == qpn)
			out[n++] = *e;
	}
	for (uint32_t i = 0; i < n / 2; i++) {
		struct qp_event t = out[i];

		out[i] = out[n - 1 - i];
		out[n - 1 - i] = t;
	}
	return n;
}

void
diag_stuck(struct qp *qp, uint64_t since_ns)
{
	if (qp->diag.stuck_ns != 0 && qp->diag.stuck_psn == qp->req.psn_una)
		return;
	qp->diag.stuck_ns = since_ns;
	qp->diag.stuck_psn = qp->req.psn_una;
}

void
diag_failed(struct transport *tp, struct qp *qp, struct tp_because because)
{
	qp->diag.why = because.why;
	qp->diag.why_detail = because.detail;
	qp->diag.why_psn = because.why == QP_WHY_REFUSED ? qp->resp.reply_psn : qp->req.psn_una;
	qp->diag.why_ns = tp->now_ns;
	diag_note(tp, qp, QP_EV_ERROR, because.why, because.detail, qp->diag.why_psn);
	if (tp->c.failed != NULL)
		tp->c.failed(tp->c.arg, qp);
}
