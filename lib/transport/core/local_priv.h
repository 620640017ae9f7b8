/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Packets between QPs of one engine, handed over by reference.
 *
 * What stays in the process needs no frame: the sender fills in the struct wire_pkt that parsing would yield, and its payload points into the
 * memory of the message. Responder and completer handle it as any other packet and copy the payload to where it belongs: once. There is no mbuf,
 * no ICRC, no IP or UDP length, and no wait for the next turn.
 *
 * A reference lives no longer than the turn in which it was made, because keys and memory are good until the engine's next quiescent state: rx_local()
 * (rx_priv.h) delivers all of them before transport_run() returns. So bytes are read after the WQE was looked at, and only for RC: there a WQE completes, and
 * its program may change the bytes, when the peer has acknowledged the packet, and thus has copied it. UC and UD complete WQEs as they are sent; their packets
 * have frames.
 *
 * A packet by reference may stand for several packets of a message, one after the other: its PSN is that of the first, wire_pkt.more says how many
 * follow, its opcode is what the message would have if all their payload were in one packet, and its payload is that of all, in one mapped piece. So a long message is copied in pieces that are
 * longer than the path MTU. A QP that can't take it as a whole gets it packet by packet (local_part()).
 *
 * Owns: the vector of these packets. Called by all who build packets (tx_priv.h), on the engine's thread.
 */
#ifndef UROCE_TP_LOCAL_H
#define UROCE_TP_LOCAL_H

#include "transport/core/held_priv.h"
#include "transport/core/qp_table_priv.h"

enum {
	TP_LOCAL_MAX = TP_TX_MAX,  /**< packets by reference that wait */
	TP_LOCAL_ROOM = 128,       /**< payload that is copied beside the headers, since it is small or in several pieces */
	TP_LOCAL_FRAME = sizeof(((struct wire_tmpl *)NULL)->hdr) + WIRE_BTH_BYTES + 4 + 28 + TP_LOCAL_ROOM, /**< the largest headers: XRCETH, AtomicETH */
};

/** A packet by reference. */
struct tp_local {
	struct wire_pkt p;
	struct rte_mbuf *m;        /**< holds the payload if it is neither in one piece nor small; or NULL */
	struct wire_tmpl *tmpl;    /**< the sender's */
	uint32_t bytes;            /**< that its frames would have */
	uint16_t port;
	uint8_t mtu_shift;         /**< of the sender's path */
	uint8_t frame[TP_LOCAL_FRAME]; /**< headers as in a frame, except for lengths and checksums */
};

/** Those that wait to be delivered, in order. */
struct tp_locals {
	uint32_t n;
	bool whole;                /**< a packet that stands for several is being executed */
	bool in_parts;             /**< it turned out that it can't be, and nothing has been done */
	struct tp_local e[TP_LOCAL_MAX];
};

/** @return whether packets of @p qp go by reference to a QP of the same engine. */
static inline bool
local_reaches(const struct transport *tp, const struct qp *qp)
{
	const struct qp *peer;

	if (tp->locals == NULL || qp->service != WIRE_RC)
		return false;
	peer = qp_table_find(tp->c.sh.qps, qp->path.dest_qpn);
	return peer != NULL && qp_transport(peer) == tp;
}

/** @return whether they may stand for several packets each. A journal has an entry for each packet. */
static inline bool
local_takes_several(const struct transport *tp, const struct qp *qp)
{
	return qp->path.detour == DETOUR_LOOPBACK && tp->journal == NULL && local_reaches(tp, qp);
}

/** @return the next free packet, with the headers of @p t; NULL: there is none. It waits for delivery when local_add() is called. */
static inline struct tp_local *
local_begin(struct transport *tp, const struct wire_tmpl *t)
{
	struct tp_local *l;

	if (unlikely(tp->locals->n >= tp->c.limits.local_packets))
		return NULL;
	l = &tp->locals->e[tp->locals->n];
	l->m = NULL;
	l->p.payload = NULL;
	l->p.more = 0;
	wire_tmpl_copy(t, l->frame);
	return l;
}

/** Have the packet that local_begin() returned delivered. All of its headers and its payload are in place. */
static inline void
local_add(struct transport *tp, struct tp_local *l, struct qp *qp, const struct wire_opcode *op, struct wire_bth b,
	  uint32_t payload_bytes, uint32_t bytes)
{
	struct wire_tmpl *t = &qp->path.tmpl;

	uint8_t *bth = l->frame + t->bth_off;

	l->p.bth.words[0] = b.words[0];
	l->p.bth.words[1] = b.words[1];
	l->p.op = op;
	l->p.l2 = l->frame;
	l->p.l3 = l->frame + t->l3_off;
	l->p.bthp = bth;
	if (l->p.payload == NULL)
		l->p.payload = bth + op->hdr_bytes;
	l->p.payload_bytes = payload_bytes;
	l->p.ip_version = t->ip_version;
	l->p.ecn = 0;
	l->p.sport = wire_get16(l->frame + t->l4_off);
	l->p.vlan_tci = 0;
	l->p.inside = true;
	l->port = qp->path.port;
	l->mtu_shift = qp->path.mtu_shift;
	l->tmpl = t;
	l->bytes = bytes;
	tp->locals->n++;
}

/** @return the bytes of the headers and ICRCs that @p more frames have beside those of the first, whose opcode would be @p op. */
uint32_t local_more_bytes(const struct wire_tmpl *t, const struct wire_opcode *op, uint32_t more);
/** @return the bytes that the frames of a packet with headers as in @p t, @p op and that much payload would have, if it stands for @p more after the first. */
static inline uint32_t
local_bytes(const struct wire_tmpl *t, const struct wire_opcode *op, uint32_t more, uint32_t payload_bytes)
{
	uint32_t bytes = (uint32_t)t->bth_off + op->hdr_bytes + payload_bytes + (-payload_bytes & 3) + WIRE_ICRC_BYTES;

	return likely(more == 0) ? bytes : bytes + local_more_bytes(t, op, more);
}

/** One of the packets that a packet by reference stands for. */
struct local_part {
	struct wire_pkt p;
	uint8_t frame[WIRE_MAX_HDR_BYTES]; /**< its headers */
};
/** Make packet @p nth of those that @p l stands for. @p part has pointers into itself and into @p l. */
void local_part(const struct tp_local *l, uint32_t nth, struct local_part *part);

/** Make the frame that packet @p nth of those that @p l stands for would have, in @p frame, with its ICRC. @return its bytes. */
uint32_t local_frame(const struct tp_local *l, uint32_t nth, uint8_t frame[WIRE_MAX_FRAME_BYTES]);

/**
 * @return true if a packet that stands for several is being executed. It has found memory that isn't mapped; nothing of it may be done, and it will be executed packet by
 * packet: each of them can wait for its copy.
 */
static inline bool
local_in_parts(const struct transport *tp)
{
	if (likely(tp->locals == NULL || !tp->locals->whole))
		return false;
	tp->locals->in_parts = true;
	return true;
}

/** Forget all of them: the transport is destroyed. */
void locals_drop(struct transport *tp);

#endif /* UROCE_TP_LOCAL_H */
