/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reorder buffers.
 */
#include "base/mark.h"
#include "transport/core/reorder_priv.h"
#include "transport/core/share_priv.h"

void
reorder_drop(struct transport *tp, struct qp *qp, uint32_t psn)
{
	struct tp_reorder *r = qp->rcv.reorder;

	sack_clear(r->map, psn);
	r->nb--;
	share_give(tp, qp, TP_POOL_REORDER_PKTS, &tp->reorder_pkts,
		   pool_item(&tp->reorder_pkts, struct tp_reorder_pkt, r->held[psn % TP_SACK_SPAN]));
}

/* Drop packets held before psn. They exist only if the gap turned out to be part of a READ's PSNs. */
static void
advance(struct transport *tp, struct qp *qp, uint32_t psn)
{
	struct tp_reorder *r = qp->rcv.reorder;

	for (uint32_t n = 0; n < TP_SACK_SPAN && r->base != psn && r->nb != 0; n++) {
		MARK_IF(sack_bit(r->map, r->base) && r->base == qp->rcv.epsn - 1, "a packet that was held lies before the expected one");
		if (sack_bit(r->map, r->base))
			reorder_drop(tp, qp, r->base);
		r->base = wire_psn_add(r->base, 1);
	}
	r->base = psn;
}

static struct tp_reorder *
borrow(struct transport *tp, struct qp *qp)
{
	struct tp_reorder *r = share_take(tp, qp, TP_POOL_REORDERS, &tp->reorders);

	if (r == NULL)
		return NULL;
	memset(r->map, 0, sizeof(r->map));
	r->nb = 0;
	r->base = qp->rcv.epsn;
	qp->rcv.reorder = r;
	return r;
}

static void
give_back(struct transport *tp, struct qp *qp)
{
	share_give(tp, qp, TP_POOL_REORDERS, &tp->reorders, qp->rcv.reorder);
	qp->rcv.reorder = NULL;
}

/*
 * A QP may hold as many packets as are left for others. So QPs that never fill their gaps, however many they are, can't
 * take all of the pool. What the QPs of a share hold together is limited too (share_priv.h).
 */
bool
reorder_hold(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t psn = p->bth.psn, bytes = p->op->hdr_bytes + p->payload_bytes;
	struct tp_reorder *r = qp->rcv.reorder;
	struct tp_reorder_pkt *h;

	if (wire_psn_diff(psn, qp->rcv.epsn) >= tp->c.limits.reorder_span || (r != NULL ? r->nb : 0) >= pool_left(&tp->reorder_pkts) ||
	    (r == NULL && (r = borrow(tp, qp)) == NULL))
		return false;
	h = share_take(tp, qp, TP_POOL_REORDER_PKTS, &tp->reorder_pkts);
	if (h == NULL) {
		MARK_UNIT("a share may hold no more packets beyond gaps", "unit/transport/limits");
		if (r->nb == 0)
			give_back(tp, qp);
		return false;
	}
	UROCE_ASSERT(wire_psn_diff(psn, qp->rcv.epsn) < TP_SACK_SPAN && bytes <= sizeof(h->bytes) && p->more == 0);
	r->held[psn % TP_SACK_SPAN] = (uint16_t)pool_index(&tp->reorder_pkts, struct tp_reorder_pkt, h);
	h->p = *p;
	memcpy(h->bytes, p->bthp, p->op->hdr_bytes);
	memcpy(h->bytes + p->op->hdr_bytes, p->payload, p->payload_bytes);
	h->p.l2 = h->p.l3 = NULL;
	h->p.bthp = h->bytes;
	h->p.payload = h->bytes + p->op->hdr_bytes;
	sack_set(r->map, psn);
	r->nb++;
	return true;
}

const struct wire_pkt *
reorder_next(struct transport *tp, struct qp *qp)
{
	struct tp_reorder *r = qp->rcv.reorder;
	uint32_t psn = qp->rcv.epsn;

	advance(tp, qp, psn);
	if (r->nb == 0) {
		give_back(tp, qp);
		return NULL;
	}
	if (!sack_bit(r->map, psn))
		return NULL;
	return &pool_item(&tp->reorder_pkts, struct tp_reorder_pkt, r->held[psn % TP_SACK_SPAN])->p;
}

void
reorder_return(struct transport *tp, struct qp *qp)
{
	if (qp->rcv.reorder == NULL)
		return;
	advance(tp, qp, wire_psn_add(qp->rcv.reorder->base, TP_SACK_SPAN));
	give_back(tp, qp);
}
