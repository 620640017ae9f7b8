/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What records of a checkpoint say of queues may be old: here it is brought up to date from the engines' journals, and where they have nothing, from the memory that programs and
 * daemon share.
 *
 * Owns nothing. Called by: the functions that restore CQs, SRQs and QPs, after a crash. Thread: control.
 */
#ifndef UROCE_AFTER_CRASH_PRIV_H
#define UROCE_AFTER_CRASH_PRIV_H

#include "control/core/old_journals_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "transport/journal/journal.h"

struct obj_qp;
struct obj_srq;

/** A record that was brought up to date. */
union after_crash_record {
	struct cq_record cq;
	struct srq_record srq;
	struct {
		struct qp_record fixed;
		struct qp_record_res res[UROCE_MAX_RD_ATOMIC];
	} qp;
	uint8_t space[JOURNAL_QP_BYTES];
};

/**
 * @param old  The CQ was being resized: the ring that it had before, else NULL. What the program hasn't polled is found in both.
 * @param p  With the CQ's ring and shared words.
 * @param in_ring  Receives the counter from which on completions are in that ring, if there is an old one.
 * @return true: @p to is what holds; else the record is damaged, and its reader says how.
 */
bool after_crash_cq(struct control *c, const struct obj_cq *cq, const struct cq_record *from, uint32_t room, const struct cq_params *old,
		    const struct cq_params *p, struct cq_record *to, uint32_t *in_ring);
bool after_crash_srq(struct control *c, const struct obj_srq *srq, const struct srq_record *from, uint32_t room, const struct srq_params *p, struct srq_record *to);
/**
 * @param qp  With its CQs; NULL: an XRC target.
 * @param p  With its rings.
 * @param done  Set if the daemon before has changed the QP's state by a request that it hasn't answered, which comes again.
 * @param lost  Set if the QP can't go on: then it is in ERR, and flushes what is posted. If it is set before, what the journal says was refused.
 */
bool after_crash_qp(struct control *c, const struct obj_qp *qp, const struct qp_record *from, uint32_t room, const struct qp_params *p,
		    union after_crash_record *to, bool *done, bool *lost);
/** Tell the log and the program that a QP can't go on. */
void after_crash_tell(struct session *s, const char *type, uint32_t qpn, uint64_t cookie);

#endif /* UROCE_AFTER_CRASH_PRIV_H */
