/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an RC responder sends: READ and atomic responses in the order of the requests, ACKs and NAKs.
 */
#include "base/mark.h"
#include "transport/cc/cc_priv.h"
#include "transport/core/copy_priv.h"
#include "transport/core/lend_priv.h"
#include "transport/core/tx_priv.h"
#include "transport/resp/recv_priv.h"
#include "transport/resp/resp_priv.h"

static inline struct wire_bth
response_bth(const struct qp *qp, uint8_t opcode, uint32_t psn)
{
	return wire_bth_make(opcode | qp->prefix, qp->path.dest_qpn, psn, qp->path.pkey, qp->path.mig == TP_MIG_MIGRATED, false, false, qp->rcv.reply_mark);
}

/* The result of sending a response. */
enum sent { SENT_LATER = 0, SENT_PART, SENT_ALL, SENT_GONE /* the memory or its key is gone */ };

/* Check access again: what was permitted when the READ was accepted may no longer be. */
static inline struct mr *
read_opens(struct transport *tp, const struct qp *qp, const struct tp_read *d, uint64_t *va, uint32_t len)
{
	uint32_t pd = qp->pd;

	if (unlikely(qp->prefix != WIRE_RC) && !xrc_pd(tp, qp, d->srqn, &pd))
		return NULL;
	return mr_check_remote(tp->c.sh.mrs, d->rkey, pd, qp->qpn, UROCE_ACCESS_REMOTE_READ, va, len);
}

/*
 * Have fetched what a READ asks for from @p off on. Of what is fetched beyond the packet that is due, only what is permitted when its packet is due is
 * sent. @return false: there is no room for more.
 */
static bool
fetch_rest(struct tp_copy_job *job, const struct tp_res *r, const struct mr *mr, uint64_t va, uint32_t off)
{
	uint64_t room = mr->length - (va - mr->iova);

	return copy_add(job, r->psn, off, mr, va, (uint32_t)RTE_MIN((uint64_t)(r->length - off), room));
}

/* The same for the READs that came after it. */
static void
fetch_next(struct transport *tp, struct qp *qp, struct tp_copy_job *job, const struct tp_res *r)
{
	for (uint32_t n = 1; n < qp->resp.res_max; n++) {
		uint32_t i = (uint32_t)((r - qp->resp.res) + n) % qp->resp.res_max;
		const struct tp_res *next = &qp->resp.res[i];
		uint64_t va = qp->resp.reads[i].va;
		struct mr *mr;

		if ((qp->resp.pending >> i & 1) == 0 || next->atomic || next->placed || next->length == 0)
			return;
		mr = read_opens(tp, qp, &qp->resp.reads[i], &va, next->length);
		if (mr == NULL || mr->host != NULL || !fetch_rest(job, next, mr, va, 0))
			return;
	}
}

/* mr_read() for a region that isn't mapped in one piece. @return 0, EFAULT or COPY_LATER. */
static int
read_pieces(struct transport *tp, struct qp *qp, const struct tp_res *r, struct mr *mr, uint64_t va, uint32_t off, uint8_t *dst,
	    uint32_t len)
{
	struct tp_copy_job *job;
	int rc;

	if (tp->c.copy == NULL || !mr_is_remote(mr, va, len))
		return mr_read(mr, va, dst, len);
	rc = copy_fetched(qp, COPY_READ, r->psn, off, dst, len);
	if (rc != ENOENT)
		return rc;
	job = copy_begin(tp, qp, COPY_READ, r->psn);
	if (job == NULL)
		return COPY_LATER;
	if (fetch_rest(job, r, mr, va, off))
		fetch_next(tp, qp, job, r);
	return copy_fetch(tp, job);
}

static inline int
put_mapped(struct transport *tp, struct mr *mr, uint64_t va, struct tp_out *o, uint32_t len)
{
	if (likely(o->local == NULL))
		return mr_read(mr, va, tp_payload(o), len);
	tp->paid_bytes += len;
	o->local->p.payload = mr->host + (va - mr->iova);
	return 0;
}

static __rte_noinline int
put_pieces(struct transport *tp, struct qp *qp, const struct tp_res *r, struct mr *mr, uint64_t va, uint32_t off, struct tp_out *o,
	   uint32_t len)
{
	uint8_t *room = tp_room(tp, o, len);

	return room != NULL ? read_pieces(tp, qp, r, mr, va, off, room, len) : COPY_LATER;
}

/* @return how many PSNs the next packet of a READ's response has, @p most at most: several if it goes by reference and they are in one mapped piece. */
static __rte_noinline uint32_t
response_psns(struct transport *tp, struct qp *qp, const struct tp_res *r, const struct tp_read *d, uint32_t most)
{
	uint32_t n = RTE_MIN((uint32_t)wire_psn_diff(res_last_psn(qp, r), d->cur) + 1, most);
	uint32_t off = ((d->cur - r->psn) & WIRE_PSN_MASK) << qp->path.mtu_shift;
	uint64_t from = d->va + off;
	const struct mr *mr;

	if (n < 2 || d->again != 0 || !local_takes_several(tp, qp))
		return 1;
	mr = read_opens(tp, qp, d, &from, RTE_MIN(r->length - off, n << qp->path.mtu_shift));
	return mr != NULL && mr->host != NULL ? n : 1;
}

/*
 * Send one packet of a READ response: of what was requested again, else the next one. @p psns: how many PSNs it has. @p only, a constant: it is known to be the
 * whole response, and nothing was requested again.
 */
static __rte_always_inline enum sent
send_read_response(struct transport *tp, struct qp *qp, const struct tp_res *r, struct tp_read *d, uint8_t ack, uint32_t psns, bool only)
{
	uint32_t again = only ? 0 : d->again;
	uint32_t nth = only ? 0 : likely(again == 0) ? (d->cur - r->psn) & WIRE_PSN_MASK : (uint32_t)__builtin_ctz(again);
	uint32_t psn = wire_psn_add(r->psn, nth), off = nth << qp->path.mtu_shift, last_psn = only ? psn : res_last_psn(qp, r);
	uint32_t len = only ? r->length : RTE_MIN(r->length - off, psns << qp->path.mtu_shift);
	bool first = only || (likely(again == 0) ? d->begins : !d->run);
	bool last = only || (likely(again == 0) ? wire_psn_add(psn, psns - 1) == last_psn : (again >> nth & 2) == 0);
	uint8_t opcode = first ? (last ? WIRE_OP_READ_RESP_ONLY : WIRE_OP_READ_RESP_FIRST) :
			 last  ? WIRE_OP_READ_RESP_LAST :
				 WIRE_OP_READ_RESP_MIDDLE;
	struct wire_bth b = response_bth(qp, opcode, psn);
	struct tp_out o;
	struct mr *mr;
	int rc;

	if ((unlikely(qp->req.cc != NULL) && !cc_may_send(tp, qp)) || !tp_begin(tp, qp, b.opcode, &o))
		return SENT_LATER;
	if (len > 0) {
		uint64_t va = d->va + off;

		mr = read_opens(tp, qp, d, &va, len);
		rc = unlikely(mr == NULL)	? EFAULT :
		     likely(mr->host != NULL) ? put_mapped(tp, mr, va, &o, len) :
						put_pieces(tp, qp, r, mr, va, off, &o, len);
		if (unlikely(rc != 0)) {
			MARK_UNIT("the memory of a READ is gone when its response is built", "unit/transport/rc_loss");
			tp_cancel(tp, &o);
			return rc == COPY_LATER ? SENT_LATER : SENT_GONE;
		}
	}
	if (o.op->flags & WIRE_F_AETH)
		wire_put_aeth(o.bth + o.op->off_aeth, ack, qp->rcv.msn);
	if (unlikely(psns > 1)) {
		UROCE_ASSERT(o.local != NULL);
		o.local->p.more = (uint16_t)(psns - 1);
	}
	tp_finish(tp, qp, &o, b, len);
	if (unlikely(qp->req.cc != NULL))
		cc_sent(tp, qp->req.cc, o.bytes);
	if (unlikely(again != 0)) {
		d->again = again & (again - 1);
		d->run = !last;
		return d->again == 0 && wire_psn_diff(d->cur, last_psn) > 0 ? SENT_ALL : SENT_PART;
	}
	/* In this order: a whole word isn't loaded right after a part of it was stored (wire_bth_make()). */
	d->cur = wire_psn_add(only ? psn : d->cur, psns);
	d->begins = false;
	return last ? SENT_ALL : SENT_PART;
}

/* The same for one of several packets, or of what was requested again. @param psns  Gets how many PSNs it has, @p most at most. */
static __rte_noinline enum sent
send_read_part(struct transport *tp, struct qp *qp, const struct tp_res *r, struct tp_read *d, uint8_t ack, uint32_t most, uint32_t *psns)
{
	*psns = unlikely(qp->path.detour) ? response_psns(tp, qp, r, d, most) : 1;
	return send_read_response(tp, qp, r, d, ack, *psns, false);
}

static enum sent
send_atomic_response(struct transport *tp, struct qp *qp, const struct tp_res *r, uint8_t ack)
{
	struct wire_bth b = response_bth(qp, r->atomic ? WIRE_OP_ATOMIC_ACK : WIRE_OP_READ_RESP_ONLY, r->psn);
	struct tp_out o;

	if (!tp_begin(tp, qp, b.opcode, &o))
		return SENT_LATER;
	wire_put_aeth(o.bth + o.op->off_aeth, ack, qp->rcv.msn);
	if (r->atomic)
		wire_put64(o.bth + o.op->off_atomicacketh, r->old);
	tp_finish(tp, qp, &o, b, 0);
	return SENT_ALL;
}

static bool
send_reply(struct transport *tp, struct qp *qp, uint8_t ack)
{
	uint8_t syndrome = ack;
	uint32_t psn = qp->rcv.epsn;
	struct wire_bth b;
	struct tp_out o;

	switch (qp->resp.reply) {
	case TP_REPLY_ACK:
		psn = wire_psn_add(qp->rcv.epsn, WIRE_PSN_MASK);
		break;
	case TP_REPLY_DUP_ACK:
		psn = qp->resp.reply_psn;
		break;
	case TP_REPLY_NAK_SEQ:
		syndrome = WIRE_NAK_PSN_SEQ;
		break;
	case TP_REPLY_RNR:
		syndrome = WIRE_AETH_RNR_NAK | qp->rcv.min_rnr_timer;
		break;
	default:
		syndrome = qp->resp.syndrome;
		psn = qp->resp.reply_psn;
		break;
	}
	if (unlikely(qp->resp.reply == TP_REPLY_SACK)) {
		if (!sack_send(tp, qp))
			return false;
		qp->resp.reply = TP_REPLY_NONE;
		return true;
	}
	b = response_bth(qp, WIRE_OP_ACK, psn);
	if (!tp_begin(tp, qp, b.opcode, &o))
		return false;
	wire_put_aeth(o.bth + o.op->off_aeth, syndrome, qp->rcv.msn);
	tp_finish(tp, qp, &o, b, 0);
	tp->counters.acks_sent++;
	tp->counters.rnr_nak_sent += qp->resp.reply == TP_REPLY_RNR;
	qp->resp.reply = TP_REPLY_NONE;
	return true;
}

/* @return the pending response whose request came first. */
static inline uint32_t
oldest_pending(const struct qp *qp)
{
	uint64_t later = qp->resp.pending & ~((UINT64_C(1) << qp->resp.res_head) - 1);

	return (uint32_t)__builtin_ctzll(later != 0 ? later : qp->resp.pending);
}

uint32_t
responder_run(struct transport *tp, struct qp *qp, uint32_t budget)
{
	/* Receives are looked for once for all that is sent. */
	const uint8_t ack = WIRE_AETH_ACK | recv_credit_code(qp);
	uint32_t work = 0;

	while (qp->resp.pending != 0 && work < budget) {
		uint32_t i = oldest_pending(qp);
		struct tp_res *r = &qp->resp.res[i];
		uint32_t psns = 1;
		enum sent sent;

		if (r->atomic || r->placed) {
			sent = send_atomic_response(tp, qp, r, ack);
		} else if (r->length <= UINT32_C(1) << qp->path.mtu_shift && likely(qp->resp.reads[i].again == 0)) {
			sent = send_read_response(tp, qp, r, &qp->resp.reads[i], ack, 1, true);
		} else {
			uint32_t several; /* not psns itself, so that it can stay in a register */

			sent = send_read_part(tp, qp, r, &qp->resp.reads[i], ack, budget - work, &several);
			psns = several;
		}
		if (sent == SENT_LATER)
			return work;
		work += psns;
		if (sent == SENT_PART)
			continue;
		qp->resp.pending &= ~(UINT64_C(1) << i);
		/* If the memory of a first execution is gone, it is refused at this point; a replay is just dropped. */
		if (sent == SENT_GONE && r->replay) {
			MARK_UNIT("the memory of a READ that is answered again is gone", "unit/transport/rc_loss");
			tp->counters.rx_duplicate_dropped++;
		}
		else if (sent == SENT_GONE && qp->state != UROCE_QPS_ERR) {
			qp->resp.pending = 0;
			responder_refuse(tp, qp, WIRE_NAK_REM_ACCESS, qp->resp.reads[i].cur);
		}
	}
	if (qp->resp.pending == 0 && qp->resp.reply == TP_REPLY_FATAL && work >= budget)
		MARK_UNIT("a fatal NAK waits for the next turn", "unit/transport/limits");
	responder_return_reads(tp, qp);
	if (qp->resp.pending == 0 && qp->resp.reply != TP_REPLY_NONE && work < budget)
		work += send_reply(tp, qp, ack);
	return work;
}
