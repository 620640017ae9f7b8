/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Congestion control of one QP: when it may send its next packet and how many may be in flight.
 *
 * Owns: struct cc, which a QP has if the algorithm of its port wants one; a QP of a port with `none` has no struct cc
 * and pays one branch per packet. Called by requester, responder and completer on the QP's engine.
 *
 * An algorithm is a struct cc_ops in a file of its own. It hears of packets sent, CNPs, round trips and losses, and
 * answers with a rate and a window; pacing and the rest is cc.c's.
 */
#ifndef UROCE_CC_H
#define UROCE_CC_H

#include "transport/core/types_priv.h"

enum {
	CC_CNP_INTERVAL_NS = 50000,    /**< between two CNPs of a QP (DCQCN, section 3.1) */
	CC_BURST_NS = 4096,            /**< what a paced QP was late may be made up for, up to this: wheel ticks are 1024 ns */
	CC_LINE_MBPS_UNKNOWN = 100000, /**< speed of a port whose driver doesn't say */
	CC_TCLASS_ECN = 3,
	CC_TCLASS_ECT0 = 2,            /**< RFC 3168, section 5 */
	CC_TCLASS_CE = 3,
	CC_CNP_TCLASS = 48 << 2 | CC_TCLASS_ECT0, /**< of CNPs: class selector 6, as ConnectX sends them */
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
	/** Time has passed; before each packet. */
	void (*advance)(struct cc *cc, uint64_t now_ns);
	void (*sent)(struct cc *cc, uint32_t bytes);
	void (*cnp)(struct cc *cc, uint64_t now_ns);
	/** A round trip, and packets acknowledged since the one before. */
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

/** The QP has got a path to its peer: its algorithm begins anew. @return 0 or ENOMEM. */
int cc_attach(struct transport *tp, struct qp *qp, const struct tp_path *path);
/** No timer of @p qp runs any more. */
void cc_stop(struct transport *tp, struct qp *qp);
/** @return @p tclass, which a user chose, with the ECN bits that packets of @p qp have. */
uint8_t cc_traffic_class(const struct qp *qp, uint8_t tclass);

/** May @p qp, which has a struct cc, send a packet now? If not, the wheel will wake it. */
bool cc_may_send(struct transport *tp, struct qp *qp);
/** It did. */
void cc_sent(struct transport *tp, struct cc *cc, uint32_t bytes);
/** A request of @p qp was sent, for @p read_psns packets of READ responses. */
static inline void
cc_sent_request(struct transport *tp, struct qp *qp, uint32_t bytes, uint32_t read_psns)
{
	if (qp->req.cc->ops->paces_reads)
		bytes += read_psns << qp->path.mtu_shift;
	cc_sent(tp, qp->req.cc, bytes);
}
/** The wheel's entry of a struct cc has fired. */
void cc_timer(struct transport *tp, struct wheel_entry *e);

/** Notification point: a packet for @p qp has met congestion. */
void cc_marked_rx(struct transport *tp, struct qp *qp);
/** Reaction point: a CNP for @p qp, admitted. */
void cc_cnp_rx(struct transport *tp, struct qp *qp);

#endif /* UROCE_CC_H */
