/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receive WQEs of every QP type: taking, filling, completing and flushing them.
 */
#include "base/mark.h"
#include "transport/core/copy_priv.h"
#include "transport/core/cq_priv.h"
#include "transport/core/share_priv.h"
#include "transport/core/slot_priv.h"
#include "transport/core/srq_priv.h"
#include "transport/resp/recv_priv.h"

void
recv_drop(struct transport *tp, struct qp *qp)
{
	if (qp->rcv.rwqe.valid && unlikely(qp->rcv.rwqe.borrowed))
		share_give(tp, qp, TP_POOL_SGES, &tp->sge_blocks, (struct ring_sge *)(uintptr_t)qp->rcv.rwqe.sge);
	qp->rcv.rwqe.valid = false;
}

/*
 * Receives are posted in order: all before a posted one are posted too. The search goes in growing steps, and only when
 * few are known, because the program has just written those slots on another core. For an SRQ no credits are given, as
 * its receives belong to no QP (9.7.7.2).
 */
uint8_t
recv_credit_code(struct qp *qp)
{
	uint32_t seen = qp->rcv.rq_seen, step = 1;

	if (qp->rcv.rq.base == NULL)
		return WIRE_AETH_CREDITS_INVALID;
	if (unlikely(!qp->tp->c.ports[qp->path.port].features.credits))
		return WIRE_AETH_CREDITS_INVALID;
	if ((int32_t)(seen - qp->rcv.rq.counter) < 0)
		seen = qp->rcv.rq.counter;
	if (seen - qp->rcv.rq.counter < TP_CREDITS_ENOUGH) {
		while (seen + step - qp->rcv.rq.counter <= qp->rcv.rq.mask + 1 &&
		       ring_rq_ready(&qp->rcv.rq, seen + step - 1)) {
			seen += step;
			step *= 2;
		}
	}
	qp->rcv.rq_seen = seen;
	return wire_aeth_credit_code(seen - qp->rcv.rq.counter);
}

bool
recv_take(struct transport *tp, struct qp *qp)
{
	const struct ring_rq_wqe *slot;

	if (qp->rcv.rwqe.valid) {
		/* UC: the WQE was taken for a message that was abandoned. */
		qp->rcv.rwqe.sge_cur = 0;
		qp->rcv.rwqe.sge_off = 0;
		qp->rcv.rwqe.room = rwqe_room(&qp->rcv.rwqe);
		return true;
	}
	if (qp->rcv.srq != NULL)
		return srq_take(tp, qp, &qp->rcv.rwqe);
	if (qp->rcv.rq.base == NULL || !ring_rq_ready(&qp->rcv.rq, qp->rcv.rq.counter))
		return false;
	slot = ring_slot(&qp->rcv.rq, qp->rcv.rq.counter);
	rwqe_begin(&qp->rcv.rwqe, &qp->rcv.rq, qp->rcv.rq.counter, slot->sge, rwqe_nb_sge(slot, qp->attr.cap.max_recv_sge));
	qp->rcv.rq.counter++;
	return true;
}

uint8_t
recv_place(struct transport *tp, struct qp *qp, const uint8_t *data, uint32_t len, uint8_t *verr)
{
	struct tp_rwqe *w = &qp->rcv.rwqe;
	uint32_t pd = qp->rcv.srq != NULL ? qp->rcv.srq->pd : qp->pd, cur = w->sge_cur, off = w->sge_off, all = len;
	int rc;

	if (unlikely(len > w->room)) {
		*verr = TP_VERR_RECV_LENGTH;
		return UROCE_WC_LOC_LEN_ERR;
	}
	UROCE_ASSERT(len <= w->room);
	w->room -= len;
	while (len > 0) {
		struct ring_sge s;
		struct mr *mr;
		uint32_t n;

		/* Only a client that shortens a posted SGE gets here. */
		if (unlikely(w->sge_cur == w->nb_sge)) {
			MARK_UNIT("a program shortens an SGE of a receive that it had posted", "unit/transport/qp_idle");
			*verr = TP_VERR_RECV_LENGTH;
			return UROCE_WC_LOC_LEN_ERR;
		}
		s = wqe_get_sge(&w->sge[w->sge_cur]);
		n = likely(s.length > w->sge_off) ? RTE_MIN(len, s.length - w->sge_off) : 0;
		if (n > 0) {
			uint64_t va = s.addr + w->sge_off;

			mr = mr_check(tp->c.sh.mrs, s.lkey, pd, UROCE_ACCESS_LOCAL_WRITE, va, n);
			if (unlikely(mr == NULL)) {
				*verr = lkey_verr(tp, s.lkey, pd, va, n);
				return UROCE_WC_LOC_PROT_ERR;
			}
			rc = copy_place(tp, qp, mr, va, data, n);
			if (unlikely(rc == COPY_LATER)) {
				w->room += all;
				w->sge_cur = (uint16_t)cur;
				w->sge_off = off;
				return COPY_LATER;
			}
			if (unlikely(rc != 0)) {
				*verr = copy_verr(rc);
				return UROCE_WC_LOC_PROT_ERR;
			}
		}
		data += n;
		len -= n;
		w->sge_off += n;
		if (w->sge_off >= s.length) {
			w->sge_cur++;
			w->sge_off = 0;
		}
	}
	return UROCE_WC_SUCCESS;
}

/* @return the control word of the receive's CQE. The client identifies one of an XRC SRQ by that SRQ; the QP may be another program's. */
static inline union ring_cqe_ctl
recv_ctl(const struct qp *qp, uint8_t verr, uint8_t wc_flags, uint8_t sl, uint8_t pkey_index, bool solicited)
{
	bool xrc = unlikely(qp->type == UROCE_QPT_XRC_RECV);

	return ring_cqe_ctl_make(xrc ? (uint16_t)qp->rcv.srq->srqn : qp->rcv.rwqe.wqe_counter, verr, wc_flags, sl, pkey_index,
				 RING_CQE_IS_RECV | (solicited ? RING_CQE_SOLICITED : 0) | (xrc ? RING_CQE_XRC : 0));
}

void
recv_complete(struct transport *tp, struct qp *qp, uint8_t opcode, const struct wire_pkt *p)
{
	struct tp_cqe e = {
		.wr_id = qp->rcv.rwqe.wr_id,
		.byte_len = qp->rcv.length,
		.src_qp = qp->path.dest_qpn,
		.opcode = opcode,
	};
	uint8_t wc_flags = 0, sl = 0, pkey_index = 0;

	if (p->op->flags & WIRE_F_IMM) {
		memcpy(&e.imm, p->bthp + p->op->off_imm, sizeof(e.imm));
		wc_flags = UROCE_WC_WITH_IMM;
	}
	if (p->op->flags & WIRE_F_IETH) {
		e.imm = wire_get32(p->bthp + p->op->off_ieth);
		wc_flags = UROCE_WC_WITH_INV;
	}
	if (qp->service == WIRE_UD) {
		e.src_qp = wire_get24(p->bthp + p->op->off_deth + 5);
		wc_flags |= UROCE_WC_GRH;
		sl = p->ip_version == 4 ? TP_SL_IPV4 : TP_SL_IPV6;
		pkey_index = (uint8_t)qp->attr.pkey_index;
	}
	e.ctl = recv_ctl(qp, 0, wc_flags, sl, pkey_index, p->bth.solicited);
	recv_drop(tp, qp);
	cq_push(tp, qp->recv_cq, qp, &e);
}

void
recv_fail(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr)
{
	struct tp_cqe e = {
		.wr_id = qp->rcv.rwqe.wr_id,
		.status = status,
		.opcode = UROCE_WC_RECV,
		.ctl = recv_ctl(qp, verr, 0, 0, 0, false),
	};

	recv_drop(tp, qp);
	/* The SRQ's receives are gone with it, and its CQ may be gone too. */
	if (unlikely(qp->type == UROCE_QPT_XRC_RECV) && qp->rcv.srq->gone) {
		MARK_UNIT("a receive fails whose XRC SRQ is destroyed", "unit/transport/xrc");
		return;
	}
	cq_push(tp, qp->recv_cq, qp, &e);
}

bool
recv_flush_one(struct transport *tp, struct qp *qp)
{
	/* WQEs on an SRQ belong to no QP until they are taken (10.2.9.4). */
	if (!qp->rcv.rwqe.valid && (qp->rcv.srq != NULL || !recv_take(tp, qp)))
		return false;
	recv_fail(tp, qp, UROCE_WC_WR_FLUSH_ERR, TP_VERR_NONE);
	return true;
}
