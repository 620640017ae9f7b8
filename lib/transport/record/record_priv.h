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
	const struct qp_record_wqe *wqes;
	const struct qp_record_res *res;
	const struct qp_record_read *reads;
	const struct qp_record_sge *sges;
};

/**
 * Check a QP's record, and whether @p p fits it.
 * @param parts  Gets where its parts are.
 * @return NULL, or what is wrong (static string).
 */
const char *qp_record_check(const struct transport *tp, const struct qp_record *r, uint32_t room, const struct qp_params *p,
			    struct qp_record_parts *parts);

/** @return whether responses of result @p i are still to be built from memory. */
static inline bool
read_pending(const struct qp *qp, uint32_t i)
{
	const struct tp_res *r = &qp->resp.res[i];

	return (qp->resp.pending >> i & 1) != 0 && !r->atomic && !r->placed;
}

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
