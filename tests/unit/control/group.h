/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * QPs of one session that are at one engine together, because they share an SRQ or an XRC domain (daemon.h), and programs that send them messages.
 */
#ifndef TEST_GROUP_H
#define TEST_GROUP_H

#include "daemon.h"
#include "pair.h"

enum {
	GROUP_MEMBERS = 4,      /**< QPs that receive from the SRQ */
	GROUP_SLOTS = 32,       /**< receives that are posted, */
	GROUP_MSG_BYTES = 2500, /**< of three packets each */
	GROUP_IN_FLIGHT = 3,    /**< messages of a sender */
	GROUP_XRC_SRQS = 2,
	GROUP_MEM_BYTES = (GROUP_XRC_SRQS * GROUP_SLOTS + GROUP_MEMBERS * GROUP_IN_FLIGHT) * GROUP_MSG_BYTES,
};

struct queue {
	struct ctl_srq_create_rsp made;
	struct ring ring;
};

/* Senders, each of which sends to one receiver; one CQ has the completions of all of them. */
struct group {
	struct peer p;
	uint32_t pd, lkey, xrcd;
	struct ctl_cq_create_rsp cq;
	struct ring cq_ring;
	struct queue srq[GROUP_XRC_SRQS];
	unsigned int nb_srqs;
	struct end send[GROUP_MEMBERS];
	struct ctl_qp_create_rsp recv[GROUP_MEMBERS];
	uint8_t *mem;          /* a slot for each receive of each SRQ, then one for each message of each sender */
	uint32_t sent[GROUP_MEMBERS], acked[GROUP_MEMBERS], came[GROUP_MEMBERS];
};

/* ---- In parts ---- */
/** Session, PD, CQ and memory. */
void group_begin(struct group *g);
/** @param file  Of the XRC domain; -1: one that is the session's own. */
void group_open_domain(struct group *g, int file);
/** One more SRQ. @param xrc  Of the domain. */
void group_new_srq(struct group *g, bool xrc);
/** @param type  UROCE_QPT_*. @param srq  Its handle, or UINT32_MAX. */
struct ctl_qp_create_rsp group_new_qp(struct group *g, uint32_t type, uint32_t srq);
void group_forget_memory(struct group *g);

/* ---- All of it ---- */
/** Connected, and with all receives posted. @param xrc  Targets of an XRC domain with GROUP_XRC_SRQS SRQs, not QPs of one SRQ. */
void group_open(struct group *g, bool xrc);
/** And wait until the daemon has no session. */
void group_close(struct group *g);

/* ---- Messages ---- */
/** Have each sender send as many as may be in flight, @p most in all. */
void group_fill(struct group *g, uint32_t most);
/** Wait for a completion. A message of each sender must come once, in the order in which they were sent, with all of its bytes. */
void group_take(struct group *g);
/** @return true if @p most messages of each sender have come and are acknowledged. */
bool group_done(const struct group *g, uint32_t most);

/** All that shares an SRQ or a domain, in all programs of @p c, is at @p engine, and the control thread knows it. */
void group_all_are_at(struct control *c, unsigned int engine);

#endif /* TEST_GROUP_H */
