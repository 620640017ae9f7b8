/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A transport with everything that packets and work requests can meet: pairs of QPs of all types, connected to each other
 * over a wire that the input holds, SRQs, XRC SRQs, memory regions and windows, address handles, groups.
 *
 * Owns: all of it, from world_begin() to world_end(), which checks that nothing is left. Both ends of a pair are in the
 * same transport: it doesn't know addresses. The ends are those of tests/unit/transport (pair.h). A packet that arrives
 * lies in memory of exactly its size. Thread: one.
 */
#ifndef UROCE_FUZZ_TP_WORLD_H
#define UROCE_FUZZ_TP_WORLD_H

#include "../unit/transport/pair.h"
#include "fuzz.h"
#include "mem/mw.h"
#include "transport/diag/diag.h"

enum {
	WORLD_PAIRS = 3,
	WORLD_ENDS = 2 * WORLD_PAIRS,
	WORLD_WIRE = 64,     /**< packets under way; further ones are lost */
	WORLD_AREA = 1 << 14, /**< bytes of memory that QPs may use */
	WORLD_MRS = 3,
	WORLD_WINDOWS = 2,
	WORLD_XSRQS = 2,
	WORLD_SRQN = 0x120005,
	WORLD_XRCD = 3,
	WORLD_QKEY = 0x11111,
	WORLD_DEPTH = 8,     /**< of queues */
	WORLD_SGES = 3,
	WORLD_INLINE = 64,
	WORLD_FRAME = WIRE_MAX_FRAME_BYTES,
};

struct world {
	struct pair pair;      /**< only what an end needs of one: its hosts, which are the same, and the time */
	struct transport *tp;
	struct shared sh;
	struct end *ends[WORLD_ENDS];
	struct uroce_qp_attr attr[WORLD_ENDS]; /**< what each was connected with */
	struct tp_path path[WORLD_ENDS];
	struct end_srq *srq;
	struct end_srq *xsrqs[WORLD_XSRQS];
	uint8_t *area;
	struct mr *mrs[WORLD_MRS]; /**< [0]: all of the area, [1]: its middle, in two pieces, [2]: read only */
	struct mw *windows[WORLD_WINDOWS];
	uint32_t ahs[4];       /**< to the other end, IPv4 and IPv6, to this host, to a group */
	struct rte_mbuf *wire[WORLD_WIRE];
	bool trusted[WORLD_WIRE];
	unsigned int nb_wire;
};

/** The pool; once. */
void world_prepare(void);
/** @param in  Chooses pools, features, congestion control. */
void world_begin(struct world *w, struct fuzz_in *in);
void world_end(struct world *w);

/** Make pair @p i, if it isn't there, in the way that @p in says, and connect it. */
void world_pair(struct world *w, unsigned int i, struct fuzz_in *in);
void world_unpair(struct world *w, unsigned int i);
/** Give MR @p i up and make it anew: with another key, or with the same. Not while a window is bound to it. */
void world_renew_mr(struct world *w, unsigned int i, bool same_key);
/** Give an XRC SRQ up and make it anew. */
void world_renew_xsrq(struct world *w, unsigned int i);
/** Modify an end to @p to with the attributes that it was connected with, if it can go there from where it is. */
void world_state(struct world *w, unsigned int i, enum uroce_qp_state to);

/** A turn; what is sent is on the wire after that. */
uint32_t world_turn(struct world *w);
/** @param copy  It stays on the wire and arrives again later. @param changes  Pairs of bytes: where, and what to change. */
void world_deliver(struct world *w, unsigned int i, bool copy, struct fuzz_in *changes, bool repair);
void world_lose(struct world *w, unsigned int i);
/** Deliver and turn until nothing moves, or for some hundred turns. */
void world_settle(struct world *w);
/** A frame arrives. */
void world_frame(struct world *w, const uint8_t *frame, size_t size, bool trusted);

/** An address in an area around that of the MRs; a few are outside. */
uint64_t world_address(struct world *w, struct fuzz_in *in);
/** A key: of an MR, a window, old, or any. */
uint32_t world_key(struct world *w, struct fuzz_in *in);

#endif /* UROCE_FUZZ_TP_WORLD_H */
