/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Sending: mbufs, TX vectors, and what every packet needs (headers, padding, ICRC).
 *
 * Owns: the transport's cache of mbufs, and its TX vectors, which the engine empties. tp_begin() starts a packet, the
 * caller writes its extended headers and payload, tp_finish() puts it into its TX vector. Called by all who build
 * packets, on the engine's thread.
 */
#ifndef UROCE_TP_TX_H
#define UROCE_TP_TX_H

#include "base/mark.h"
#include "transport/core/local_priv.h"

/** Refill the cache from the mempool. @return an mbuf, or NULL (counted). */
struct rte_mbuf *tp_mbuf_refill(struct transport *tp);

/** @return an empty mbuf or NULL (counted). */
static inline struct rte_mbuf *
tp_mbuf(struct transport *tp)
{
	if (unlikely(tp->nb_mbufs == 0))
		return tp_mbuf_refill(tp);
	return tp->mbufs[--tp->nb_mbufs];
}

static inline void
tp_mbuf_put(struct transport *tp, struct rte_mbuf *m)
{
	if (tp->nb_mbufs < TP_MBUF_CACHE)
		tp->mbufs[tp->nb_mbufs++] = m;
	else
		rte_pktmbuf_free(m);
}

/** Give back received packets. Nearly all are in one buffer of the transport's own mempool. @param pkts  NULL: another one has it now. */
void tp_mbufs_free(struct transport *tp, struct rte_mbuf **pkts, uint16_t n);

/**
 * Some NICs fill only so much of a buffer as is a power of two, or a multiple of 1 KiB, and begin another one for the rest of a frame. Put
 * the rest into the first one. @return false: it has no room for that.
 */
bool tp_mbuf_join(struct rte_mbuf *m);

/** A packet being built. */
struct tp_out {
	struct rte_mbuf *m;
	struct tp_local *local; /**< instead of m and vec: it goes by reference */
	struct tp_txvec *vec;
	uint8_t *frame, *bth;
	const struct wire_opcode *op;
	uint32_t bytes;         /**< of the frame, once it is finished */
};

/** As tp_begin(), for a packet that goes into @p vec. */
static __rte_always_inline bool
tp_begin_at(struct transport *tp, struct tp_txvec *vec, const struct wire_tmpl *t, uint8_t opcode, struct tp_out *o)
{
	o->vec = vec;
	o->local = NULL;
	if (unlikely(o->vec->n >= tp->c.limits.tx_packets)) {
		MARK("a TX vector is full");
		tp->counters.tx_no_room++;
		return false;
	}
	o->m = tp_mbuf(tp);
	if (unlikely(o->m == NULL))
		return false;
	o->op = &wire_opcodes[opcode];
	o->frame = rte_pktmbuf_mtod(o->m, uint8_t *);
	o->bth = o->frame + t->bth_off;
	return true;
}

/** tp_begin() for a QP whose packets stay on this host, or are dropped. */
bool tp_begin_detour(struct transport *tp, const struct qp *qp, uint8_t opcode, struct tp_out *o);
/** tp_finish() for such a packet; m is NULL after if it was dropped. */
void tp_finish_detour(struct transport *tp, struct qp *qp, struct tp_out *o, struct wire_bth b, uint32_t payload_bytes);

/**
 * Begin a packet: reserve room in the TX vector and an mbuf.
 * @return false: there is none now; the caller keeps the work and tries again next turn.
 */
static inline bool
tp_begin(struct transport *tp, const struct qp *qp, uint8_t opcode, struct tp_out *o)
{
	if (unlikely(qp->path.detour))
		return tp_begin_detour(tp, qp, opcode, o);
	return tp_begin_at(tp, &tp->tx[qp->path.port], &qp->path.tmpl, opcode, o);
}

/** @return where the payload goes. */
static inline uint8_t *
tp_payload(const struct tp_out *o)
{
	return o->bth + o->op->hdr_bytes;
}

/** @return room for @p len bytes of payload, of a packet by reference as well; NULL: there is no mbuf for it (counted). */
static inline uint8_t *
tp_room(struct transport *tp, struct tp_out *o, uint32_t len)
{
	struct tp_local *l = o->local;
	uint8_t *room = tp_payload(o);

	if (l == NULL || len <= TP_LOCAL_ROOM)
		return room;
	l->m = tp_mbuf(tp);
	if (l->m == NULL)
		return NULL;
	room = rte_pktmbuf_mtod(l->m, uint8_t *);
	l->p.payload = room;
	return room;
}

/** Payload up to which the ICRC is computed later. More of it might have left the first-level cache some packets later. */
enum { TP_SEAL_LATER_BYTES = 256 };

/** As tp_finish(), for a packet that leaves by @p port, or stays on this host if @p loopback. */
static __rte_always_inline void
tp_finish_at(struct transport *tp, struct wire_tmpl *t, uint16_t port, bool loopback, struct tp_out *o,
	     struct wire_bth b, uint32_t payload_bytes)
{
	uint32_t pad = -payload_bytes & 3;
	uint8_t *end = tp_payload(o) + payload_bytes;
	uint16_t l4 = (uint16_t)(o->op->hdr_bytes + payload_bytes + pad + WIRE_ICRC_BYTES);

	wire_bth_set_pad(&b, pad);
	wire_put_bth(o->bth, &b);
	/* The pad, which has less than four bytes, and the first of the ICRC. */
	memset(end, 0, WIRE_ICRC_BYTES);
	wire_tmpl_write(t, o->frame, l4, 0);
	if (loopback)
		memset(end + pad, 0, WIRE_ICRC_BYTES);
	else if (payload_bytes <= TP_SEAL_LATER_BYTES)
		wire_seal_later(&tp->sealer, t, o->frame, l4);
	else
		wire_tmpl_seal(t, o->frame, l4);
	o->bytes = (uint32_t)t->bth_off + l4;
	o->m->data_len = (uint16_t)o->bytes;
	o->m->pkt_len = o->bytes;
	o->m->port = port;
	UROCE_ASSERT(o->vec->n < TP_TX_MAX);
	o->vec->pkts[o->vec->n++] = o->m;
	tp->counters.tx_packets++;
	tp->counters.tx_bytes += o->bytes;
}

/**
 * Finish a packet whose extended headers and payload are in place and put it into its TX vector.
 * @param b  its pad, 0, is filled in here.
 */
static inline void
tp_finish(struct transport *tp, struct qp *qp, struct tp_out *o, struct wire_bth b, uint32_t payload_bytes)
{
	if (unlikely(qp->path.detour))
		tp_finish_detour(tp, qp, o, b, payload_bytes);
	else
		tp_finish_at(tp, &qp->path.tmpl, qp->path.port, false, o, b, payload_bytes);
}

/** Give up a packet that was begun. */
static inline void
tp_cancel(struct transport *tp, struct tp_out *o)
{
	struct rte_mbuf *m = likely(o->local == NULL) ? o->m : o->local->m;

	if (likely(m != NULL))
		tp_mbuf_put(tp, m);
}

#endif /* UROCE_TP_TX_H */
