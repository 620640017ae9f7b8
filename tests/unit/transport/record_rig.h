/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Ends of the pair that go on from the records of their QPs.
 */
#ifndef UROCE_TEST_RECORD_RIG_H
#define UROCE_TEST_RECORD_RIG_H

#include "rig.h"
#include "transport/core/types_priv.h"
#include "transport/record/record.h"

enum { ROOM = 64 * 1024 }; /* for a record */

static inline struct qp_record *
save_in(struct end *e, uint64_t *to)
{
	struct qp_record *r = (struct qp_record *)to;

	assert_int_equal(qp_save(e->host->tp, e->qp, r, ROOM), 0);
	return r;
}

static inline struct qp_params
params_of(const struct end *e)
{
	const struct qp *qp = e->qp;
	struct qp_params p = { .type = qp->type, .pd = qp->pd, .xrcd = qp->rcv.xrcd, .send_cq = qp->send_cq, .recv_cq = qp->recv_cq,
			       .srq = qp->rcv.srq, .sq_sig_all = qp->req.sig_all, .cap = qp->attr.cap, .sq = qp->req.sq, .rq = qp->rcv.rq,
			       .shared = qp->shared, .port = qp->path.port, .cookie = qp->cookie, .owner = qp->owner };

	if (qp->type == UROCE_QPT_XRC_RECV) {
		p.sq = (struct ring){ 0 };
		p.pd = 0;
		p.srq = NULL;
		p.recv_cq = NULL;
	}
	p.sq.counter = p.rq.counter = 0;
	return p;
}

static inline int
restore(struct end *e, const struct qp_params *p, const struct qp_record *r, const char **why)
{
	return qp_restore(e->host->tp, r, ROOM, p, e->host->pair->now, &e->qp, why);
}

/** Another QP in the place of this one, made from its record in @p memory. */
static inline void
replace(struct end *e, uint64_t *memory)
{
	struct qp_params p = params_of(e);
	struct qp_record *r = save_in(e, memory);
	uint32_t qpn = qp_num(e->qp);
	const char *why = "";

	qp_destroy(e->host->tp, e->qp);
	e->shared.sq_watch = 1;
	if (restore(e, &p, r, &why) != 0)
		fail_msg("%s", why);
	assert_int_equal(qp_num(e->qp), qpn);
	/* Where it sends nothing, its client rings the doorbell. */
	assert_int_equal(e->shared.sq_watch, qp_state(e->qp) == UROCE_QPS_RTS);
}

#endif /* UROCE_TEST_RECORD_RIG_H */
