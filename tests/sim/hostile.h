/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Peers and programs that do what they must not: packets that no good peer sends, rings full of garbage.
 *
 * Each endpoint gets a few victims, QPs that nobody else uses, in any state. hostile.c does to them whatever it likes;
 * bad.c has the single faults that must be answered or counted in one certain way, at victims and at the QPs of good
 * programs. What the good programs see of all that is the model's to say: nothing.
 *
 * Owns: struct hostile and all in it. One thread.
 */
#ifndef SIM_HOSTILE_H
#define SIM_HOSTILE_H

#include "sim.h"

enum {
	HOSTILE_PD = 99,
	HOSTILE_VICTIMS = 3,   /**< per endpoint */
	HOSTILE_AREA = 16384,  /**< bytes of the region that they use */
	HOSTILE_ORDER = 3,     /**< of their SQs, RQs and SRQ */
	HOSTILE_SGES = 4,
	HOSTILE_INLINE = 64,
	HOSTILE_MTU_CODE = UROCE_MTU_256,
	HOSTILE_MTU = 256,
	HOSTILE_RD = 4,
	HOSTILE_XRCD = 7,
	HOSTILE_XSRQS = 2,     /**< XRC SRQs per engine */
	HOSTILE_SRQN = 0x1000, /**< their numbers begin here; good programs' are small */
	FORGED_DATA = 40,
	HOSTILE_WINDOWS = 2,
};
#define HOSTILE_QKEY 0x22222222u

struct victim {
	struct sim_ep *ep;
	struct transport *tp;
	struct qp *qp;
	struct victim *peer;
	enum uroce_qp_type type;
	struct ring sq, rq;
	struct uroce_qp_attr attr;
	struct tp_path path;
	uint32_t ah;
	bool with_srq;
};

/** What the victims of an endpoint share. */
struct hostile_ep {
	struct victim victims[HOSTILE_VICTIMS];
	struct sim_cq cq;
	struct sim_mr area;
	struct mw *windows[HOSTILE_WINDOWS]; /**< of both types, over area */
	struct srq *srq[SIM_MAX_ENGINES];
	struct ring srq_ring[SIM_MAX_ENGINES];
	struct xsrq {
		struct srq *srq;
		struct ring ring;
		struct ring_srq_shared *shared;
	} xsrqs[SIM_MAX_ENGINES][HOSTILE_XSRQS];
};

struct hostile {
	struct rng rng;
	struct hostile_ep eps[SIM_MAX_EPS];
	bool destroyed;
};

/** A packet to be forged. */
struct forged {
	struct wire_addr from;  /**< the way from the pretended sender */
	struct wire_bth bth;
	uint8_t hdr[WIRE_BTH_BYTES + 64]; /**< extended headers where they belong behind the BTH */
	uint32_t payload_bytes;
	uint8_t data[FORGED_DATA]; /**< the payload begins with these */
	uint32_t data_bytes;
	bool bad_icrc;
};

/** Make it a SACK that is well formed; PSNs are the caller's. */
void forged_sack(struct rng *r, struct forged *f);
/** Make it an offer of selective repeat to @p qp, from where @p a says. */
void forged_offer(struct forged *f, const struct qp *qp, const struct uroce_qp_attr *a);
/** Give a packet to the transport @p tp at once. */
void forged_deliver(struct sim_world *w, struct transport *tp, const struct forged *f);
/** The way that the peer's packets take to us: @p path turned around. */
struct wire_addr way_back(const struct tp_path *path);
/** @return the number of an SRQ that an XRC victim may reach. */
uint32_t hostile_srqn(struct hostile *h, const struct victim *v);
/** Take a victim from wherever it is to RESET and on to @p to. */
void victim_to(struct sim_world *w, struct victim *v, enum uroce_qp_state to);
/** One fault, one counter. */
void bad_request(struct sim_world *w, struct hostile *h, struct victim *v);
void bad_packet_for(struct sim_world *w, struct hostile *h, struct sim_qp *q);

#endif /* SIM_HOSTILE_H */
