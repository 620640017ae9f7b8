/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of the model share. It knows nothing of the transport's inside: what comes in are completions and
 * events, what it compares with are the programs' work requests.
 *
 *   model.c       completions, events and ends, handed to those who know
 *   sends.c, receives.c  completions of RC, and of UC's and UD's sends
 *   unreliable.c  receives of UC and UD
 *   causes.c      what may be the cause of an error
 *   bytes.c       what memory must hold
 *   atomics.c     that atomics happened once each, in some order
 *   counters.c    counters that must be zero
 *   tally.c       counters against what the network and the programs have seen
 *
 * Owns nothing but scratch memory. One thread.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "sim.h"

/* sends.c, receives.c, unreliable.c */
void send_cqe(struct sim_world *w, struct sim_qp *q, const struct ring_cqe *e, union ring_cqe_ctl ctl);
void recv_cqe(struct sim_world *w, struct sim_qp *q, const struct ring_cqe *e, union ring_cqe_ctl ctl);
void unreliable_recv_ok(struct sim_world *w, struct sim_qp *q, const struct sim_recv *r, const struct ring_cqe *e,
			union ring_cqe_ctl ctl);
bool unreliable_recv_error_possible(const struct sim_qp *q, const struct sim_recv *r, uint8_t status);
void unreliable_end(struct sim_world *w, struct sim_qp *q);

/* causes.c */
/** The receive that a message takes, once it is posted; NULL if that can't be known. */
const struct sim_recv *recv_of(const struct sim_qp *q, const struct sim_op *op);
/** Does a SEND find the receive that was made for it wrong? @p r may be NULL. */
bool recv_too_small(const struct sim_op *op, const struct sim_recv *r);
/** The bad lkey is the last SGE's. @param must  Gets whether the message reaches it. */
bool recv_bad_lkey(const struct sim_op *op, const struct sim_recv *r, bool *must);
/** Whether what @p q asks for may never come through, though nothing is wrong. */
bool answers_may_not_come(const struct sim_world *w, const struct sim_qp *q);
/** @return true if there is any reason for q to be in ERR. */
bool may_be_in_err(const struct sim_world *w, const struct sim_qp *q);
bool status_is_possible(const struct sim_world *w, const struct sim_qp *q, const struct sim_op *op, uint8_t status);
bool wc_opcode_fits(const struct sim_op *op, uint8_t wc_opcode);

/* bytes.c */
/** Scratch memory, grown as needed and kept: seeds run one after the other. @param which  0 or 1. */
uint8_t *scratch(unsigned int which, uint32_t bytes);
/** Bytes [off, off + len) of the message that an operation sends. */
void op_data(const struct sim_op *op, uint32_t off, uint32_t len, uint8_t *dst);
void gather(const struct sim_piece *pieces, unsigned int n, uint32_t len, uint8_t *dst);
bool is_zero(const uint8_t *p, uint32_t len);
/** Zeros before and behind each piece, and in what a message of len bytes leaves of the pieces. */
bool around_is_clean(const struct sim_piece *pieces, unsigned int n, uint32_t len);
bool op_writes(const struct sim_op *op);
/** @return true if one of q's operations [from, to) puts val at off of its target area. */
bool may_be_written(const struct sim_qp *q, uint32_t from, uint32_t to, uint32_t off, uint8_t val);
/**
 * Compare bytes that were seen in q's target area at off with what its operations below upto make of it; those in
 * [upto, later) may have been at it too. @return the first wrong byte's offset in the message, or -1.
 */
int64_t target_compare(const struct sim_qp *q, const uint8_t *seen, uint32_t off, uint32_t len, uint32_t upto,
		       uint32_t later);

/* atomics.c */
void atomics_check(struct sim_world *w, uint32_t ep);

/* counters.c */
void check_counters(struct sim_world *w);

/* tally.c */
void tally_error(struct sim_qp *q, uint8_t status);
void tally_check(struct sim_world *w);

#endif /* SIM_MODEL_H */
