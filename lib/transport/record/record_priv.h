/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What writing, checking and reading records have in common. Owns nothing. Called while the engine is stopped.
 */
#ifndef UROCE_TP_RECORD_H
#define UROCE_TP_RECORD_H

#include "transport/core/qp_states_priv.h"
#include "transport/record/record.h"

/** Where the parts of a QP's record are. */
struct qp_record_parts {
	const struct qp_record_wqe *wqes; /**< all in flight: in the record, or in `fetched` */
	uint32_t nb_wqes;
	const struct qp_record_res *res;
	const struct qp_record_read *reads;
	const struct qp_record_sge *sges;
	const struct qp_record_kept *kept;
	struct qp_record_wqe fetched[TP_INFLIGHT_MAX];
};

/**
 * Check a QP's record, and whether @p p fits it.
 * @param parts  Gets where its parts are.
 * @return NULL, or what is wrong (static string).
 */
const char *qp_record_check(struct transport *tp, const struct qp_record *r, uint32_t room, const struct qp_params *p,
			    struct qp_record_parts *parts);
/**
 * Fetch the WQEs in flight of which the record has only the oldest one. What the record says of the SQ was checked.
 * @return NULL, or what is wrong: the program has changed its SQ.
 */
const char *qp_record_fetch(struct transport *tp, const struct qp_record *r, const struct qp_params *p, struct qp_record_parts *parts);

/**
 * Get a record that this version reads.
 * @param made  Gets what is to be freed afterwards, or NULL.
 * @return @p r, or the same as this version writes it, if the version before has written it; NULL: no memory.
 */
const struct qp_record *qp_record_renew(const struct qp_record *r, uint32_t room, void **made);

/** @return whether responses of result @p i are still to be built from memory. */
static inline bool
read_pending(const struct qp *qp, uint32_t i)
{
	const struct tp_res *r = &qp->resp.res[i];

	return (qp->resp.pending >> i & 1) != 0 && !r->atomic && !r->placed;
}

/* ---- qp_save.c: parts of a record, for journals too ---- */
/** @return a WQE in flight as a record has it. */
static inline struct qp_record_wqe
record_wqe(const struct tp_swqe *w)
{
	return (struct qp_record_wqe){ .wr_id = w->wr_id, .first_psn = w->first_psn, .last_psn = w->last_psn, .length = w->length, .recvs = w->recvs,
				       .opcode = w->opcode, .flags = w->flags, .nb_sge = w->nb_sge, .status = w->status, .verr = w->verr };
}

/** Write what seldom changes: attributes, path and alternate path. */
void record_cold(const struct qp *qp, struct qp_record *r);
/** Write the members that are copied as they are, and the numbers that say which QP it is. */
static inline void
record_members(const struct qp *qp, struct qp_record *to)
{
#define SAVE(name, member) to->name = qp->member;
	QP_RECORD_U64(SAVE)
	QP_RECORD_U32(SAVE)
	QP_RECORD_U16(SAVE)
	QP_RECORD_U8(SAVE)
	QP_RECORD_BOOL(SAVE)
#undef SAVE
	to->qpn = qp->qpn;
	to->type = qp->type;
	to->sq_order = (uint8_t)qp->req.sq.order;
	to->rq_order = (uint8_t)qp->rcv.rq.order;
}
/** @return whether a receive is being filled. An XRC SRQ that is destroyed has taken its receives with it. */
static inline bool
record_receives(const struct qp *qp)
{
	return qp->rcv.rwqe.valid && !(qp->rcv.srq != NULL && qp->rcv.srq->gone);
}
/** @return qp_record.srqn. */
static inline uint32_t
record_srqn(const struct qp *qp)
{
	return qp->type == UROCE_QPT_XRC_RECV && qp->rcv.srq != NULL && !qp->rcv.srq->gone ? qp->rcv.srq->srqn : 0;
}
/** @return a result of a READ or atomic as a record has it. */
static inline struct qp_record_res
record_res(const struct tp_res *s)
{
	return (struct qp_record_res){ .value = s->old, .psn = s->psn, .used = s->used, .atomic = s->atomic, .replay = s->replay, .placed = s->placed };
}

/** Write READs, SGEs and what is kept to @p at, and how many to @p r. @return the end. */
void *record_parts(const struct qp *qp, struct qp_record *r, void *at);

/* ---- ah.c: addresses of a path ---- */
struct record_addr record_addr_of(const struct wire_addr *a);
bool record_addr_ok(const struct record_addr *r);
/** @param r  Was found right. */
struct wire_addr record_addr_get(const struct record_addr *r);

/** Tell the caller of a public function what was wrong. @return @p rc. */
static inline int
refused(const char **why, const char *text, int rc)
{
	if (why != NULL)
		*why = text;
	return rc;
}

#endif /* UROCE_TP_RECORD_H */
