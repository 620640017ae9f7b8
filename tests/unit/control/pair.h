/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two QPs of one session, connected to each other through the daemon (daemon.h), memory for their messages, and what it takes to post and
 * to poll without a library.
 */
#ifndef TEST_PAIR_H
#define TEST_PAIR_H

#include "daemon.h"

enum { PAIR_BYTES = 64 << 10 };

/** One end of a connection. */
struct end {
	struct ctl_qp_create_rsp qp;
	struct ring sq, rq;
};

/** A session with two QPs that are connected to each other, one CQ, and memory of PAIR_BYTES twice. */
struct pair {
	struct peer p;
	uint32_t pd;
	struct ctl_cq_create_rsp cq;
	struct ring cq_ring;
	struct end end[2];
	uint8_t *mem;  /**< 2 * PAIR_BYTES */
	int shared_fd; /**< the memory's memfd, if it is shared */
	uint32_t lkey, mr;
};

/* ---- In parts ---- */
/** PD, CQ and QPs in RESET; the peer is open. */
void pair_queues(struct pair *t);
/** Memory in one of the three kinds, as a client would hand it over. @param kind  CTL_SEG_* */
void pair_memory(struct pair *t, uint32_t kind);
/** @return what the daemon answers. */
int pair_modify(struct pair *t, int i, uint32_t mask, const struct uroce_qp_attr *attr, struct ctl_rsp *r);
#define PAIR_RTR_MASK \
	(UROCE_QP_STATE | UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN | \
	 UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER)
/** The attributes for RTR towards @p last_byte of 198.18.0.x. */
struct uroce_qp_attr pair_rtr_attr(struct pair *t, int i, uint8_t last_byte);
void pair_init_qp(struct pair *t, int i);

/* ---- All of it ---- */
void pair_open(struct pair *t, uint32_t kind);
/** And wait until the daemon has no session. */
void pair_close(struct pair *t);

/* ---- Work ---- */
/** Post one WR of @p len bytes from @p from; RDMA goes to @p to with @p rkey. */
void pair_post_with(struct pair *t, int i, uint8_t opcode, const uint8_t *from, uint32_t len, const uint8_t *to, uint32_t rkey);
/** The same with the rkey of the pair's memory. */
void pair_post(struct pair *t, int i, uint8_t opcode, const uint8_t *from, uint32_t len, const uint8_t *to);
/** Post a WR without SGEs. @param op  BIND_MW: a window onto all the memory; LOCAL_INV. */
void pair_post_local(struct pair *t, int i, uint8_t op, uint32_t key);
void pair_post_recv(struct pair *t, int i, uint8_t *to, uint32_t len);
/** Wait for a completion. @return false after 5 s. */
bool pair_poll(struct pair *t, struct ring_cqe *out);

#endif /* TEST_PAIR_H */
