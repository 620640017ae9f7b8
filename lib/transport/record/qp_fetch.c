/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * WQEs in flight are fetched from the SQ of a program once more. A journal doesn't have them, as they don't change there until they are complete. They are believed no more than the
 * first time; if their packets aren't as many as they were, the record is refused.
 */
#include "base/mark.h"
#include "transport/record/record_priv.h"
#include "transport/req/send_queue_priv.h"

const char *
qp_record_fetch(struct transport *tp, const struct qp_record *r, const struct qp_params *p, struct qp_record_parts *parts)
{
	const struct qp_record_wqe *oldest = parts->wqes;
	uint32_t n = r->sq_counter - r->sq_tail;
	struct tp_swqe inflight[TP_INFLIGHT_MAX];
	/* As much of a QP as fetching needs. */
	struct qp qp = {
		.pd = p->pd,
		.service = qp_service(p->type),
		.path.mtu_shift = r->mtu_shift,
		.req = { .sq = p->sq, .inflight = inflight, .inflight_mask = TP_INFLIGHT_MAX - 1, .sq_tail = r->sq_tail,
			 .psn_next = wire_psn_add(oldest->last_psn & WIRE_PSN_MASK, 1), .recvs_next = oldest->recvs, .max_rd = r->attr.max_rd_atomic,
			 .psn_max = r->psn_max, .max_inline = (uint16_t)p->cap.max_inline_data, .max_send_sge = (uint8_t)p->cap.max_send_sge },
	};

	MARK("WQEs in flight are fetched once more");
	UROCE_ASSERT(p->sq.base != NULL && n <= TP_INFLIGHT_MAX);
	qp.req.sq.counter = r->sq_tail + 1;
	parts->fetched[0] = *oldest;
	for (uint32_t i = 1; i < n; i++) {
		if (!sq_fetch_again(tp, &qp))
			return "sq_counter: the SQ hasn't the WQEs any more that are in flight";
		parts->fetched[i] = record_wqe(qp_inflight(&qp, r->sq_tail + i));
	}
	parts->wqes = parts->fetched;
	parts->nb_wqes = n;
	return NULL;
}
