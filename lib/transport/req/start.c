/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start and the end of a connection for the requester: what of its state stays and what is reset.
 */
#include "base/assert.h"
#include "transport/core/sack_format_priv.h"
#include "transport/req/loss_priv.h"
#include "transport/req/requester_priv.h"

void
requester_reset(struct qp *qp)
{
	const struct qp_requester *r = &qp->req;

	UROCE_ASSERT(r->scoreboard == NULL && r->inflight == qp->own_inflight);
	qp->req = (struct qp_requester){
		.sq = r->sq,
		.inflight = r->inflight,
		.inflight_mask = r->inflight_mask,
		.sq_tail = r->sq.counter,
		.sq_cur = r->sq.counter,
		.max_inline = r->max_inline,
		.max_send_sge = r->max_send_sge,
		.sig_all = r->sig_all,
		.sack_nonce = (r->sack_nonce + 1) & SACK_NONCE_MASK,
		.cc = r->cc,
	};
	qp->loss = (struct qp_loss){ .timer = qp->loss.timer };
}

void
requester_start(struct qp *qp, uint32_t psn)
{
	const struct qp_requester *r = &qp->req;
	const struct qp_loss *l = &qp->loss;

	UROCE_ASSERT(r->scoreboard == NULL);
	qp->req = (struct qp_requester){
		.sq = r->sq,
		.inflight = r->inflight,
		.inflight_mask = r->inflight_mask,
		.sq_tail = r->sq.counter,
		.sq_cur = r->sq.counter,
		.psn_una = psn,
		.psn_cur = psn,
		.psn_max = psn,
		.psn_next = psn,
		.recvs_limit = TP_CREDITS_ANY,
		.max_inline = r->max_inline,
		.max_send_sge = r->max_send_sge,
		.max_rd = r->max_rd,
		.sig_all = r->sig_all,
		.sack_nonce = r->sack_nonce,
		.cc = r->cc,
	};
	qp->loss = (struct qp_loss){
		.retry_cnt = l->retry_cnt,
		.retry_left = l->retry_left,
		.rnr_retry = l->rnr_retry,
		.rnr_left = l->rnr_left,
		.timeout = l->timeout,
		.timer = l->timer,
	};
	qp->diag.stuck_ns = 0;
	cwnd_start(qp);
}
