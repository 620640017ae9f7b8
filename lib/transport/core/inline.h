/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What every packet goes through, inline for that: building one, reading a posted slot, checks of addresses, P_Keys and
 * states. Included by tp_internal.h; nobody else does.
 */
#ifndef UROCE_TP_INLINE_H
#define UROCE_TP_INLINE_H

#include "transport/core/internal.h"

/* ---- Sending ---- */
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

static inline struct tp_txvec *
tp_txvec_of(struct transport *tp, const struct qp *qp)
{
	return qp->path.loopback ? &tp->loop : &tp->tx[qp->path.port];
}

/** A packet being built. */
struct tp_out {
	struct rte_mbuf *m;
	struct tp_txvec *vec;
	uint8_t *frame, *bth;
	const struct wire_opcode *op;
};

/** Begin a packet that goes into @p vec, see tp_begin(). */
static __rte_always_inline bool
tp_begin_at(struct transport *tp, struct tp_txvec *vec, const struct wire_tmpl *t, uint8_t opcode, struct tp_out *o)
{
	o->vec = vec;
	if (unlikely(o->vec->n == TP_TX_MAX)) {
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

/**
 * Begin a packet: find room and an mbuf.
 * @return false: none now; the caller keeps the work and comes back next turn.
 */
static inline bool
tp_begin(struct transport *tp, const struct qp *qp, uint8_t opcode, struct tp_out *o)
{
	return tp_begin_at(tp, tp_txvec_of(tp, qp), &qp->path.tmpl, opcode, o);
}

/** Where the payload goes. */
static inline uint8_t *
tp_payload(const struct tp_out *o)
{
	return o->bth + o->op->hdr_bytes;
}

/** Finish a packet that leaves by @p port, or stays here if @p loopback, see tp_finish(). */
static __rte_always_inline void
tp_finish_at(struct transport *tp, struct wire_tmpl *t, uint16_t port, bool loopback, struct tp_out *o,
	     struct wire_bth *b, uint32_t payload_bytes)
{
	uint32_t pad = -payload_bytes & 3;
	uint8_t *end = tp_payload(o) + payload_bytes;
	uint16_t l4 = (uint16_t)(o->op->hdr_bytes + payload_bytes + pad + WIRE_ICRC_BYTES);

	b->pad = (uint8_t)pad;
	wire_put_bth(o->bth, b);
	memset(end, 0, pad + WIRE_ICRC_BYTES);
	wire_tmpl_write(t, o->frame, l4, 0);
	if (!loopback)
		wire_tmpl_seal(t, o->frame, l4);
	o->m->data_len = (uint16_t)(t->bth_off + l4);
	o->m->pkt_len = o->m->data_len;
	o->m->port = port;
	o->vec->pkts[o->vec->n++] = o->m;
	tp->counters.tx_packets++;
	tp->counters.tx_bytes += o->m->data_len;
}

/**
 * Finish a packet whose extended headers and payload are in place and put it into its TX vector.
 * @param b  pad is filled in here.
 */
static inline void
tp_finish(struct transport *tp, struct qp *qp, struct tp_out *o, struct wire_bth *b, uint32_t payload_bytes)
{
	tp_finish_at(tp, &qp->path.tmpl, qp->path.port, qp->path.loopback, o, b, payload_bytes);
}

/* ---- Posted slots ---- */
/** Read an SGE from a slot once: what is checked is what is used, whatever the client writes meanwhile. */
static inline struct ring_sge
sge_snapshot(const struct ring_sge *s)
{
	return (struct ring_sge){
		.addr = *(const volatile uint64_t *)&s->addr,
		.length = *(const volatile uint32_t *)&s->length,
		.lkey = *(const volatile uint32_t *)&s->lkey,
	};
}

/** The first SGE, or inline byte, of an SQ slot. */
static inline const struct ring_sge *
slot_sges(const struct ring_sq_wqe *slot, uint8_t opcode)
{
	const uint8_t *p = (const uint8_t *)(slot + 1);

	return (const void *)(p + (ring_op_has_operands(opcode) ? sizeof(struct ring_atomic) : 0));
}

/** Why mr_check() for writing refused an SGE. @return enum tp_vendor_err. */
static inline uint8_t
lkey_verr(const struct transport *tp, uint32_t lkey, uint32_t pd, uint64_t va, uint32_t len)
{
	return mr_check(tp->c.sh.mrs, lkey, pd, 0, va, len) != NULL ? TP_VERR_LACCESS : TP_VERR_LKEY;
}

static inline uint8_t
wqe_error(struct tp_swqe *w, uint8_t status, uint8_t verr)
{
	w->status = status;
	w->verr = verr;
	return status;
}

static inline struct tp_swqe *
qp_inflight(struct qp *qp, uint32_t counter)
{
	return &qp->req.inflight[counter & qp->req.inflight_mask];
}

/* ---- States and checks ---- */
static inline void
qp_set_state(struct qp *qp, enum uroce_qp_state s)
{
	qp->state = s;
	atomic_store_explicit(&qp->shared->state, s, memory_order_release);
}

/** From the peer's address to ours, as @p t, of what goes the other way, has them (9.6.1.1.1). */
static inline bool
address_match(const struct wire_tmpl *t, const struct wire_pkt *p)
{
	const uint8_t *ours = t->hdr + t->l3_off;

	if (p->ip_version != t->ip_version)
		return false;
	if (p->ip_version == 4)
		return memcmp(p->l3 + 12, ours + 16, 4) == 0 && memcmp(p->l3 + 16, ours + 12, 4) == 0;
	return memcmp(p->l3 + 8, ours + 24, 16) == 0 && memcmp(p->l3 + 24, ours + 8, 16) == 0;
}

static inline bool
qp_address_match(const struct qp *qp, const struct wire_pkt *p)
{
	return address_match(&qp->path.tmpl, p);
}

/** 10.9.3: equal but for the membership bit, not the invalid key, and not both limited members. */
static inline bool
pkey_match(uint16_t a, uint16_t b)
{
	return ((a ^ b) & 0x7fff) == 0 && (a & 0x7fff) != 0 && ((a | b) & 0x8000) != 0;
}

static inline void
count_bad_pkey(struct transport *tp, uint16_t port)
{
	tp->counters.rx_bad_pkey++;
	tp->violations[port].bad_pkey++;
}

static inline void
count_bad_qkey(struct transport *tp, uint16_t port)
{
	tp->counters.rx_bad_qkey++;
	tp->violations[port].bad_qkey++;
}

/** Requests are taken in these states, responses and sending in the others. */
static inline bool
qp_receives(const struct qp *qp)
{
	return qp->state >= UROCE_QPS_RTR && qp->state <= UROCE_QPS_SQE && qp->type != UROCE_QPT_XRC_SEND;
}
static inline bool
qp_sends(const struct qp *qp)
{
	return qp->state == UROCE_QPS_RTS || qp->state == UROCE_QPS_SQD;
}

#endif /* UROCE_TP_INLINE_H */
