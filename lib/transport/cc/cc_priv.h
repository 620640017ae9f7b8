/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Congestion control of one QP: when it may send its next packet and how many may be in flight.
 *
 * Owns: struct cc. Only a QP whose port has an algorithm other than `none` has one; the others pay one branch per
 * packet. Called by requester, responder and completer on the QP's engine.
 *
 * An algorithm is a struct cc_ops in a file of its own. It is told of packets sent, CNPs, marks, round trips and losses, and
 * sets a rate and a congestion window. cc.c does the pacing and everything else.
 */
#ifndef UROCE_CC_H
#define UROCE_CC_H

#include "transport/core/types_priv.h"

enum {
	CC_CNP_INTERVAL_NS = 50000,    /**< between two CNPs of a QP (DCQCN, section 3.1) */
	CC_BURST_NS = 4096,            /**< how far a QP that is woken late may catch up; a wheel tick is 1024 ns */
	CC_LINE_MBPS_UNKNOWN = 100000, /**< speed of a port whose driver doesn't say */
	CC_TCLASS_ECN = 3,
	CC_TCLASS_ECT0 = 2,            /**< RFC 3168, section 5 */
	CC_TCLASS_CE = 3,
	CC_CNP_TCLASS = 48 << 2 | CC_TCLASS_ECT0, /**< traffic class of CNPs: class selector 6, as ConnectX sends them */
};

#define CC_STATE(NAME, name) struct name name;

struct cc {
	const struct cc_ops *ops;
	struct qp *qp;
	struct wheel_entry pace;     /**< wakes the QP at next_ns */
	uint64_t next_ns;            /**< when the next packet may be sent, if paced */
	double rate_bps;             /**< 0: not paced */
	double line_bps;             /**< speed of the port */
	uint16_t cwnd;               /**< packets that may be in flight, 1 to TP_CWND_MAX */
	enum tp_cc algorithm;
	union {
		CC_TABLE(CC_STATE)
	};
};
#undef CC_STATE

/** An algorithm. Functions that it doesn't need are NULL. */
struct cc_ops {
	const char *name;
	uint8_t services;  /**< bit 1 << (service >> 5) for each service it controls */
	bool paces_reads;  /**< the requester of a READ is charged for the response; else the responder is */
	void (*init)(struct cc *cc, uint64_t now_ns);
	/** Called before each packet: bring state that changes with time up to @p now_ns. */
	void (*advance)(struct cc *cc, uint64_t now_ns);
	void (*sent)(struct cc *cc, uint32_t bytes);
	void (*cnp)(struct cc *cc, uint64_t now_ns);
	/** A packet for the QP arrived marked: there is a queue on the way back. */
	void (*marked)(struct cc *cc, uint64_t now_ns);
	/** A round trip was measured; @p acked packets have been acknowledged since the measurement before. */
	void (*rtt)(struct cc *cc, uint64_t rtt_ns, uint32_t acked, uint64_t now_ns);
	void (*loss)(struct cc *cc, bool timeout, uint64_t now_ns);
};
extern const struct cc_ops cc_none;
#define CC_EXTERN(NAME, name) extern const struct cc_ops cc_##name;
CC_TABLE(CC_EXTERN)
#undef CC_EXTERN

static inline double
cc_clamp(double v, double lowest, double highest)
{
	return v < lowest ? lowest : v > highest ? highest : v;
}

/** Start the algorithm of @p path's port afresh: @p qp has got a new path. @return 0 or ENOMEM. */
int cc_attach(struct transport *tp, struct qp *qp, const struct tp_path *path);
/** Stop the pacing timer of @p qp. */
void cc_stop(struct transport *tp, struct qp *qp);
/** @return the user's traffic class @p tclass with the ECN bits that packets of @p qp carry. */
uint8_t cc_traffic_class(const struct qp *qp, uint8_t tclass);

/** @return whether @p qp, which has a struct cc, may send a packet now. If not, the pacing timer wakes it. */
bool cc_may_send(struct transport *tp, struct qp *qp);
/** A packet of @p bytes was sent: charge it to the rate. */
void cc_sent(struct transport *tp, struct cc *cc, uint32_t bytes);
/** A request was sent that asks for @p read_psns packets of READ response (0: it is no READ). */
static inline void
cc_sent_request(struct transport *tp, struct qp *qp, uint32_t bytes, uint32_t read_psns)
{
	if (qp->req.cc->ops->paces_reads)
		bytes += read_psns << qp->path.mtu_shift;
	cc_sent(tp, qp->req.cc, bytes);
}
/** The pacing timer has fired. */
void cc_timer(struct transport *tp, struct wheel_entry *e);

/** Notification point: a packet for @p qp arrived marked CE. Send a CNP unless one was sent just before. */
void cc_marked_rx(struct transport *tp, struct qp *qp);
/** Reaction point: a CNP for @p qp arrived and passed the checks. */
void cc_cnp_rx(struct transport *tp, struct qp *qp);

#endif /* UROCE_CC_H */
