/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mbufs from the mempool and back to it; packets that stay on this host, and those of a QP whose own address has gone or whose port's MTU
 * has become too small.
 */
#include "transport/core/tx_priv.h"

struct rte_mbuf *
tp_mbuf_refill(struct transport *tp)
{
	/*
	 * rte_pktmbuf_alloc_bulk() would reset more. An mbuf in a pool has one reference and is the only segment; its lengths are set when the packet is finished; other
	 * members mean something only with a flag.
	 */
	if (rte_mempool_get_bulk(tp->c.sh.pool, (void **)tp->mbufs, TP_MBUF_CACHE) == 0) {
		for (uint32_t i = 0; i < TP_MBUF_CACHE; i++) {
			tp->mbufs[i]->data_off = RTE_PKTMBUF_HEADROOM;
			tp->mbufs[i]->ol_flags = 0;
		}
		tp->nb_mbufs = TP_MBUF_CACHE - 1;
		return tp->mbufs[TP_MBUF_CACHE - 1];
	}
	/* The mempool has less than a cacheful left: take one mbuf. */
	tp->mbufs[0] = rte_pktmbuf_alloc(tp->c.sh.pool);
	if (tp->mbufs[0] == NULL)
		tp->counters.tx_no_mbuf++;
	return tp->mbufs[0];
}

void
tp_mbufs_free(struct transport *tp, struct rte_mbuf **pkts, uint16_t n)
{
	struct rte_mempool *pool = tp->c.sh.pool;
	unsigned int plain = 0;

	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = pkts[i];

		if (unlikely(m == NULL || m->pool != pool || m->next != NULL)) {
			rte_pktmbuf_free(m);
			continue;
		}
		m = rte_pktmbuf_prefree_seg(m);
		if (likely(m != NULL))
			pkts[plain++] = m;
	}
	if (plain > 0)
		rte_mempool_put_bulk(pool, (void **)pkts, plain);
}

/** A packet that nobody gets: its source is not an address of the port. For the QP it is lost. */
static bool
begin_lost(struct transport *tp, const struct qp *qp, uint8_t opcode, struct tp_out *o)
{
	o->vec = NULL;
	o->local = NULL;
	o->m = tp_mbuf(tp);
	if (unlikely(o->m == NULL))
		return false;
	o->op = &wire_opcodes[opcode];
	o->frame = rte_pktmbuf_mtod(o->m, uint8_t *);
	o->bth = o->frame + qp->path.tmpl.bth_off;
	return true;
}

bool
tp_begin_detour(struct transport *tp, const struct qp *qp, uint8_t opcode, struct tp_out *o)
{
	const struct wire_tmpl *t = &qp->path.tmpl;

	if (qp->path.detour & DETOUR_GONE)
		return begin_lost(tp, qp, opcode, o);
	if (qp->path.detour & DETOUR_MTU)
		return tp_begin_at(tp, &tp->tx[qp->path.port], t, opcode, o);
	if (!local_reaches(tp, qp))
		return tp_begin_at(tp, &tp->loop, t, opcode, o);
	o->m = NULL;
	o->vec = NULL;
	o->local = local_begin(tp, t);
	if (unlikely(o->local == NULL)) {
		MARK_UNIT("no more packets go by reference in a turn", "unit/transport/local");
		tp->counters.tx_no_room++;
		return false;
	}
	o->op = &wire_opcodes[opcode];
	o->frame = o->local->frame;
	o->bth = o->frame + t->bth_off;
	return true;
}

/** Give back the mbuf of a packet that is dropped. For the QP it was sent. */
static void
lose(struct transport *tp, const struct wire_tmpl *t, struct tp_out *o, uint32_t payload_bytes)
{
	o->bytes = t->bth_off + o->op->hdr_bytes + payload_bytes + (-payload_bytes & 3) + WIRE_ICRC_BYTES;
	tp_mbuf_put(tp, o->m);
	o->m = NULL;
}

/* A responder's PSNs, of the other direction, may be taken for a requester's, but never hide one. */
static void
note_too_long(struct qp *qp, uint32_t psn)
{
	struct qp_diagnosis *d = &qp->diag;
	uint32_t una = qp->req.psn_una;

	if (wire_psn_diff(psn, una) < 0 || (d->too_long && wire_psn_diff(d->too_long_psn, una) >= 0 && wire_psn_diff(psn, d->too_long_psn) >= 0))
		return;
	d->too_long = true;
	d->too_long_psn = psn;
}

void
tp_finish_detour(struct transport *tp, struct qp *qp, struct tp_out *o, struct wire_bth b, uint32_t payload_bytes)
{
	struct wire_tmpl *t = &qp->path.tmpl;
	uint32_t pad = -payload_bytes & 3;

	if (qp->path.detour & DETOUR_GONE) {
		tp->counters.tx_no_address++;
		lose(tp, t, o, payload_bytes);
		return;
	}
	if (qp->path.detour & DETOUR_MTU) {
		if (t->bth_off - t->l3_off + o->op->hdr_bytes + payload_bytes + pad + WIRE_ICRC_BYTES <= tp->c.ports[qp->path.port].ip_mtu) {
			tp_finish_at(tp, t, qp->path.port, false, o, b, payload_bytes);
			return;
		}
		tp->counters.tx_too_long++;
		note_too_long(qp, b.psn);
		lose(tp, t, o, payload_bytes);
		return;
	}
	if (o->local == NULL) {
		tp_finish_at(tp, t, qp->path.port, true, o, b, payload_bytes);
		return;
	}
	wire_bth_set_pad(&b, pad);
	o->bytes = local_bytes(t, o->op, o->local->p.more, payload_bytes);
	local_add(tp, o->local, qp, o->op, b, payload_bytes, o->bytes);
	tp->counters.tx_packets += 1u + o->local->p.more;
	tp->counters.tx_bytes += o->bytes;
	tp->counters.tx_by_reference += 1u + o->local->p.more;
}

bool
tp_mbuf_join(struct rte_mbuf *m)
{
	uint32_t rest = 0;

	/* Not pkt_len: that a driver calculated it right is not what memory safety should rest on. */
	for (const struct rte_mbuf *s = m->next; s != NULL; s = s->next)
		rest += s->data_len;
	if (rest > rte_pktmbuf_tailroom(m))
		return false;
	for (struct rte_mbuf *s = m->next, *next; s != NULL; s = next) {
		next = s->next;
		memcpy(rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len), rte_pktmbuf_mtod(s, const uint8_t *), s->data_len);
		m->data_len = (uint16_t)(m->data_len + s->data_len);
		rte_pktmbuf_free_seg(s);
	}
	m->next = NULL;
	m->nb_segs = 1;
	m->pkt_len = m->data_len;
	return true;
}
