/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requester: fetches and checks WQEs, cuts messages into packets and sends them, also again.
 */
#include "transport/cc/cc.h"
#include "transport/req/selective.h"

#define SVC(s) (1 << (WIRE_##s >> 5))

const struct tp_req_op tp_req_ops[UROCE_WR_OPS] = {
	[UROCE_WR_RDMA_WRITE] = { SVC(RC) | SVC(UC), UROCE_WC_RDMA_WRITE, TP_REQ_DATA, WIRE_OP_WRITE_FIRST,
				  WIRE_OP_WRITE_MIDDLE, WIRE_OP_WRITE_LAST, WIRE_OP_WRITE_ONLY },
	[UROCE_WR_RDMA_WRITE_WITH_IMM] = { SVC(RC) | SVC(UC), UROCE_WC_RDMA_WRITE, TP_REQ_DATA, WIRE_OP_WRITE_FIRST,
					   WIRE_OP_WRITE_MIDDLE, WIRE_OP_WRITE_LAST_IMM, WIRE_OP_WRITE_ONLY_IMM, 1 },
	[UROCE_WR_SEND] = { SVC(RC) | SVC(UC) | SVC(UD), UROCE_WC_SEND, TP_REQ_DATA, WIRE_OP_SEND_FIRST,
			    WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_LAST, WIRE_OP_SEND_ONLY, 1 },
	[UROCE_WR_SEND_WITH_IMM] = { SVC(RC) | SVC(UC) | SVC(UD), UROCE_WC_SEND, TP_REQ_DATA, WIRE_OP_SEND_FIRST,
				     WIRE_OP_SEND_MIDDLE, WIRE_OP_SEND_LAST_IMM, WIRE_OP_SEND_ONLY_IMM, 1 },
	[UROCE_WR_RDMA_READ] = { SVC(RC), UROCE_WC_RDMA_READ, TP_REQ_READ, WIRE_OP_READ_REQUEST, WIRE_OP_READ_REQUEST,
				 WIRE_OP_READ_REQUEST, WIRE_OP_READ_REQUEST },
	[UROCE_WR_ATOMIC_CMP_AND_SWP] = { SVC(RC), UROCE_WC_COMP_SWAP, TP_REQ_ATOMIC, WIRE_OP_CMP_SWAP,
					  WIRE_OP_CMP_SWAP, WIRE_OP_CMP_SWAP, WIRE_OP_CMP_SWAP },
	[UROCE_WR_ATOMIC_FETCH_AND_ADD] = { SVC(RC), UROCE_WC_FETCH_ADD, TP_REQ_ATOMIC, WIRE_OP_FETCH_ADD,
					    WIRE_OP_FETCH_ADD, WIRE_OP_FETCH_ADD, WIRE_OP_FETCH_ADD },
	[UROCE_WR_LOCAL_INV] = { SVC(RC) | SVC(UC), UROCE_WC_LOCAL_INV, TP_REQ_LOCAL, 0, 0, 0, 0 },
	[UROCE_WR_BIND_MW] = { SVC(RC) | SVC(UC), UROCE_WC_BIND_MW, TP_REQ_LOCAL, 0, 0, 0, 0 },
	[UROCE_WR_SEND_WITH_INV] = { SVC(RC), UROCE_WC_SEND, TP_REQ_DATA, WIRE_OP_SEND_FIRST, WIRE_OP_SEND_MIDDLE,
				     WIRE_OP_SEND_LAST_INV, WIRE_OP_SEND_ONLY_INV, 1 },
	[UROCE_WR_FLUSH] = { SVC(RC), UROCE_WC_FLUSH, TP_REQ_PLACE, WIRE_OP_FLUSH, WIRE_OP_FLUSH, WIRE_OP_FLUSH,
			     WIRE_OP_FLUSH },
	[UROCE_WR_ATOMIC_WRITE] = { SVC(RC), UROCE_WC_ATOMIC_WRITE, TP_REQ_PLACE, WIRE_OP_ATOMIC_WRITE,
				    WIRE_OP_ATOMIC_WRITE, WIRE_OP_ATOMIC_WRITE, WIRE_OP_ATOMIC_WRITE },
};

enum { ATOMIC_BYTES = 8 };

/* Receives that the peer needs for a message. */
static inline uint32_t
recvs_of(const struct tp_swqe *w)
{
	return tp_req_ops[w->opcode].recvs;
}

/* ---- Fetching ---- */
/* Check the SGEs of a message of several packets or with a response: a bad one is found before it begins. */
static uint8_t
check_sges(struct transport *tp, const struct qp *qp, struct tp_swqe *w, const struct ring_sge *sge, uint32_t access)
{
	for (uint32_t i = 0; i < w->nb_sge; i++) {
		struct ring_sge s = sge_snapshot(&sge[i]);

		if (s.length == 0)
			continue;
		if (mr_check(tp->c.sh.mrs, s.lkey, qp->pd, access, s.addr, s.length) == NULL)
			return wqe_error(w, UROCE_WC_LOC_PROT_ERR, lkey_verr(tp, s.lkey, qp->pd, s.addr, s.length));
	}
	return 0;
}

/* FLUSH has no data, but operands. @return as check_wqe(). */
static uint8_t
check_flush(struct tp_swqe *w, const struct ring_sq_wqe *slot, uint16_t count)
{
	const struct ring_flush *f = (const void *)(slot + 1);
	uint8_t type = *(const volatile uint8_t *)&f->type, level = *(const volatile uint8_t *)&f->level;

	if (count != 0 || (w->flags & UROCE_SEND_INLINE))
		return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES);
	if (type == 0 || (type & ~UROCE_FLUSH_TYPES) != 0 || level > UROCE_FLUSH_MR)
		return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_FLUSH);
	if (*(const volatile uint32_t *)&f->length > UROCE_MAX_MSG_BYTES)
		return wqe_error(w, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH);
	return 0;
}

/* @return 0, or the status with which the WQE completes once it is the oldest. */
static uint8_t
check_wqe(struct transport *tp, const struct qp *qp, struct tp_swqe *w, const struct ring_sq_wqe *slot, uint16_t count)
{
	const struct ring_sge *sge = slot_sges(slot, w->opcode);
	const struct tp_req_op *op;
	uint64_t length = 0;

	if (w->opcode >= UROCE_WR_OPS || (tp_req_ops[w->opcode].services & 1 << (qp->service >> 5)) == 0)
		return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_OPCODE);
	op = &tp_req_ops[w->opcode];
	/* Has neither data nor PSNs. */
	if (unlikely(op->kind == TP_REQ_LOCAL))
		return count == 0 ? 0 : wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES);
	/* It would wait for ever for one of no places. */
	if (unlikely(op->kind != TP_REQ_DATA && qp->req.max_rd == 0))
		return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_NO_RD_ATOMIC);
	if (w->flags & UROCE_SEND_INLINE) {
		if ((op->kind != TP_REQ_DATA && op->kind != TP_REQ_PLACE) || count > qp->req.max_inline)
			return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES);
		w->length = count;
	} else {
		if (count > qp->req.max_send_sge)
			return wqe_error(w, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES);
		w->nb_sge = (uint8_t)count;
		for (uint32_t i = 0; i < count; i++)
			length += *(const volatile uint32_t *)&sge[i].length;
		if (length > UROCE_MAX_MSG_BYTES)
			return wqe_error(w, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH);
		w->length = (uint32_t)length;
	}
	if (unlikely(op->kind == TP_REQ_ATOMIC || op->kind == TP_REQ_PLACE)) {
		if (w->opcode == UROCE_WR_FLUSH)
			return check_flush(w, slot, count);
		if (w->length != ATOMIC_BYTES)
			return wqe_error(w, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH);
	}
	if (qp->service == WIRE_UD && w->length > UINT32_C(1) << qp->path.mtu_shift)
		return wqe_error(w, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH);
	if (op->kind == TP_REQ_READ || op->kind == TP_REQ_ATOMIC)
		return check_sges(tp, qp, w, sge, UROCE_ACCESS_LOCAL_WRITE);
	if (w->nb_sge > 0 && w->length > UINT32_C(1) << qp->path.mtu_shift)
		return check_sges(tp, qp, w, sge, 0);
	return 0;
}

/* A busy QP whose own window is full gets a large one, if there is one left. */
static bool
inflight_borrow(struct transport *tp, struct qp *qp)
{
	struct tp_swqe *big;

	if (qp->req.inflight != qp->own_inflight || UINT32_C(1) << qp->req.sq.order <= TP_INFLIGHT_OWN || tp->nb_inflight_blocks == 0)
		return false;
	big = tp->inflight_blocks[--tp->nb_inflight_blocks];
	for (uint32_t c = qp->req.sq_tail; c != qp->req.sq.counter; c++)
		big[c & (TP_INFLIGHT_MAX - 1)] = *qp_inflight(qp, c);
	qp->req.inflight = big;
	qp->req.inflight_mask = TP_INFLIGHT_MAX - 1;
	return true;
}

void
inflight_return(struct transport *tp, struct qp *qp)
{
	if (qp->req.inflight == qp->own_inflight || qp->req.sq_tail != qp->req.sq.counter)
		return;
	tp->inflight_blocks[tp->nb_inflight_blocks++] = qp->req.inflight;
	qp->req.inflight = qp->own_inflight;
	qp->req.inflight_mask = TP_INFLIGHT_OWN - 1;
}

/* Take the next posted WQE. @return false: none, or no room in flight. */
static bool
fetch(struct transport *tp, struct qp *qp)
{
	struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, qp->req.sq.counter);
	union ring_sq_ctl ctl = { .word = atomic_load_explicit(&slot->ctl, memory_order_acquire) };
	struct tp_swqe *w;
	uint32_t packets = 1;

	if (ctl.phase != ring_phase(qp->req.sq.counter, qp->req.sq.order))
		return false;
	if (unlikely(qp->req.sq.counter - qp->req.sq_tail > qp->req.inflight_mask) && !inflight_borrow(tp, qp)) {
		qp->req.blocked = true;
		return false;
	}
	w = qp_inflight(qp, qp->req.sq.counter);
	w->wr_id = slot->wr_id;
	w->opcode = ctl.opcode;
	w->flags = ctl.flags;
	w->nb_sge = 0;
	w->length = 0;
	w->status = 0;
	w->verr = 0;
	if (likely(check_wqe(tp, qp, w, slot, ctl.count) == 0)) {
		if (unlikely(tp_req_ops[w->opcode].kind == TP_REQ_LOCAL))
			packets = 0;
		else if (tp_req_ops[w->opcode].kind != TP_REQ_ATOMIC)
			packets = wire_packets(w->length, qp->path.mtu_shift);
	}
	w->first_psn = qp->req.psn_next;
	w->last_psn = wire_psn_add(w->first_psn, packets - 1);
	qp->req.psn_next = wire_psn_add(w->last_psn, 1);
	if (likely(w->status == 0))
		qp->req.recvs_next += recvs_of(w);
	w->recvs = qp->req.recvs_next;
	qp->req.sq.counter++;
	rte_prefetch0(ring_slot(&qp->req.sq, qp->req.sq.counter));
	return true;
}

void
requester_unfetch(struct qp *qp)
{
	while (qp->req.sq.counter != qp->req.sq_tail) {
		struct tp_swqe *w = qp_inflight(qp, qp->req.sq.counter - 1);

		if (wire_psn_diff(w->first_psn, qp->req.psn_max) < 0)
			return;
		qp->req.sq.counter--;
		qp->req.psn_next = w->first_psn;
		/* Not by what it needs itself: that counts if it was found bad only when it was to be sent. */
		qp->req.recvs_next = qp->req.sq.counter == qp->req.sq_tail ? qp->req.recvs_done :
								 qp_inflight(qp, qp->req.sq.counter - 1)->recvs;
	}
}

/* ---- Sending ---- */
uint8_t
requester_gather(struct transport *tp, const struct qp *qp, struct tp_swqe *w, const struct ring_sq_wqe *slot,
		 uint32_t off, uint8_t *dst, uint32_t len)
{
	const struct ring_sge *sge = slot_sges(slot, w->opcode);

	if (w->flags & UROCE_SEND_INLINE) {
		memcpy(dst, (const uint8_t *)sge + off, len);
		return 0;
	}
	for (uint32_t i = 0; len > 0; i++) {
		struct ring_sge s;
		struct mr *mr;
		uint32_t n;

		/* Only a client that shortens a posted SGE gets here with i out of range. */
		if (unlikely(i == w->nb_sge))
			return wqe_error(w, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH);
		s = sge_snapshot(&sge[i]);
		if (off >= s.length) {
			off -= s.length;
			continue;
		}
		n = RTE_MIN(len, s.length - off);
		mr = mr_check(tp->c.sh.mrs, s.lkey, qp->pd, 0, s.addr + off, n);
		if (unlikely(mr == NULL))
			return wqe_error(w, UROCE_WC_LOC_PROT_ERR, TP_VERR_LKEY);
		if (unlikely(mr_read(mr, s.addr + off, dst, n) != 0))
			return wqe_error(w, UROCE_WC_LOC_PROT_ERR, TP_VERR_FAULT);
		dst += n;
		len -= n;
		off = 0;
	}
	return 0;
}

/* A packet that is sent for the first time and will be answered: the answer tells the round trip. */
static inline void
time_rtt(const struct transport *tp, struct qp *qp)
{
	if (tp->now_ns < qp->loss.rtt_next_ns || qp->req.psn_cur != qp->req.psn_max)
		return;
	qp->loss.rtt_timing = true;
	qp->loss.rtt_next_ns = UINT64_MAX;
	qp->loss.rtt_psn = qp->req.psn_cur;
	qp->loss.rtt_sent_ns = tp->now_ns;
}

void
requester_sent(struct transport *tp, struct qp *qp, const struct tp_swqe *w, uint32_t psns)
{
	uint32_t last = wire_psn_add(qp->req.psn_cur, psns - 1);

	if (unlikely(wire_psn_diff(qp->req.psn_cur, qp->req.psn_max) < 0))
		tp->counters.retransmitted_packets++;
	qp->req.psn_cur = wire_psn_add(last, 1);
	if (wire_psn_diff(qp->req.psn_cur, qp->req.psn_max) > 0)
		qp->req.psn_max = qp->req.psn_cur;
	if (last == w->last_psn)
		qp->req.sq_cur++;
}

/*
 * 9.7.7.2.5: with no receives left at the peer one request more may be sent; its answer tells of new ones. (It may also be an
 * RNR NAK.) It asks for an answer as every last packet does, and is repeated as any other, so that waiting for
 * credits always ends.
 */
static __rte_noinline bool
must_wait_for_credits(struct transport *tp, struct qp *qp, const struct tp_swqe *w)
{
	if (recvs_of(w) == 0 || w->recvs - qp->req.recvs_done <= 1)
		return false;
	tp->counters.rc_credit_waits += !qp->req.out_of_credits;
	qp->req.out_of_credits = true;
	qp->req.blocked = true;
	return true;
}

/* @return packets sent: 0 if the packet has to wait or the WQE turned out bad. */
static __rte_always_inline uint32_t
send_data(struct transport *tp, struct qp *qp, struct tp_swqe *w)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, qp->req.sq_cur);
	const struct tp_req_op *op = &tp_req_ops[w->opcode];
	uint32_t nth = (qp->req.psn_cur - w->first_psn) & WIRE_PSN_MASK;
	uint32_t off = nth << qp->path.mtu_shift;
	uint32_t len = RTE_MIN(w->length - off, UINT32_C(1) << qp->path.mtu_shift);
	bool last = qp->req.psn_cur == w->last_psn;
	uint8_t wire_op = nth == 0 ? (last ? op->only : op->first) : (last ? op->last : op->middle);
	struct wire_bth b = { .dqpn = qp->path.dest_qpn, .psn = qp->req.psn_cur, .pkey = qp->path.pkey,
			      .migreq = qp->path.mig == TP_MIG_MIGRATED };
	struct tp_out o;

	if (qp->service == WIRE_RC) {
		int32_t on_the_way = wire_psn_diff(qp->req.psn_cur, qp->req.psn_una);

		if (unlikely((int32_t)(w->recvs - qp->req.recvs_limit) > 1) && nth == 0 && must_wait_for_credits(tp, qp, w))
			return 0;
		if (unlikely(on_the_way >= qp->loss.cwnd)) {
			qp->req.blocked = true;
			return 0;
		}
		/* The packet that fills the window needs an answer for it to open again. */
		b.ackreq = last || (qp->req.psn_cur & qp->loss.ackreq_mask) == qp->loss.ackreq_mask ||
			   on_the_way == qp->loss.cwnd - 1;
	}
	b.opcode = wire_op | qp->prefix;
	b.solicited = last && (w->flags & UROCE_SEND_SOLICITED) != 0;
	if (!tp_begin(tp, qp, b.opcode, &o))
		return 0;
	if (unlikely(qp->prefix == WIRE_XRC))
		xrc_put_eth(o.bth + o.op->off_xrceth, slot);
	if (o.op->flags & WIRE_F_RETH)
		wire_put_reth(o.bth + o.op->off_reth, slot->remote_addr, slot->rkey, w->length);
	if (o.op->flags & WIRE_F_IMM)
		memcpy(o.bth + o.op->off_imm, &slot->imm, WIRE_IMM_BYTES);
	if (unlikely(o.op->flags & WIRE_F_IETH))
		wire_put32(o.bth + o.op->off_ieth, slot->imm);
	if (len > 0 && unlikely(requester_gather(tp, qp, w, slot, off, tp_payload(&o), len) != 0)) {
		tp_mbuf_put(tp, o.m);
		return 0;
	}
	tp_finish(tp, qp, &o, &b, len);
	if (b.ackreq)
		time_rtt(tp, qp);
	requester_sent(tp, qp, w, 1);
	return 1;
}

/* One READ request, for packets nth to nth + packets - 1 of the message. @return false: not now. */
static inline bool
put_read(struct transport *tp, struct qp *qp, const struct tp_swqe *w, const struct ring_sq_wqe *slot, uint32_t nth,
	 uint32_t packets)
{
	uint32_t off = nth << qp->path.mtu_shift;
	uint32_t len = RTE_MIN(w->length - off, packets << qp->path.mtu_shift);
	struct wire_bth b = { .opcode = WIRE_OP_READ_REQUEST | qp->prefix, .dqpn = qp->path.dest_qpn,
			      .psn = wire_psn_add(w->first_psn, nth), .pkey = qp->path.pkey,
			      .migreq = qp->path.mig == TP_MIG_MIGRATED, .ackreq = true };
	struct tp_out o;

	if (!tp_begin(tp, qp, b.opcode, &o))
		return false;
	if (unlikely(qp->prefix == WIRE_XRC))
		xrc_put_eth(o.bth + o.op->off_xrceth, slot);
	wire_put_reth(o.bth + o.op->off_reth, slot->remote_addr + off, slot->rkey, len);
	tp_finish(tp, qp, &o, &b, 0);
	return true;
}

/*
 * One READ request asks for at most a chunk, so that responses too stay inside the window. Chunks always begin and
 * end at the same PSNs, also when asked for again: responders know a duplicate by its bounds.
 */
static uint32_t
send_read(struct transport *tp, struct qp *qp, struct tp_swqe *w)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, qp->req.sq_cur);
	uint32_t nth = (qp->req.psn_cur - w->first_psn) & WIRE_PSN_MASK;
	uint32_t last = RTE_MIN(nth | (TP_READ_CHUNK_PACKETS - 1), (w->last_psn - w->first_psn) & WIRE_PSN_MASK);
	uint32_t packets = last - nth + 1;

	if (qp->req.rd_out >= qp->req.max_rd ||
	    (qp->req.psn_cur != qp->req.psn_una &&
	     wire_psn_diff(wire_psn_add(qp->req.psn_cur, packets), qp->req.psn_una) > qp->loss.cwnd)) {
		qp->req.blocked = true;
		return 0;
	}
	if (!put_read(tp, qp, w, slot, nth, packets))
		return 0;
	qp->req.rd_out++;
	time_rtt(tp, qp);
	requester_sent(tp, qp, w, packets);
	return 1;
}

static uint32_t
send_atomic(struct transport *tp, struct qp *qp, struct tp_swqe *w)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, qp->req.sq_cur);
	const struct ring_atomic *a = (const void *)(slot + 1);
	bool swap = w->opcode == UROCE_WR_ATOMIC_CMP_AND_SWP;
	struct wire_bth b = { .opcode = tp_req_ops[w->opcode].only | qp->prefix, .dqpn = qp->path.dest_qpn, .psn = qp->req.psn_cur,
			      .pkey = qp->path.pkey, .migreq = qp->path.mig == TP_MIG_MIGRATED, .ackreq = true };
	struct tp_out o;

	if (qp->req.rd_out >= qp->req.max_rd || wire_psn_diff(qp->req.psn_cur, qp->req.psn_una) >= qp->loss.cwnd) {
		qp->req.blocked = true;
		return 0;
	}
	if (!tp_begin(tp, qp, b.opcode, &o))
		return 0;
	if (unlikely(qp->prefix == WIRE_XRC))
		xrc_put_eth(o.bth + o.op->off_xrceth, slot);
	/* On the wire fetch-add has its operand where compare-swap has the swap value. */
	wire_put_atomiceth(o.bth + o.op->off_atomiceth, slot->remote_addr, slot->rkey, swap ? a->swap : a->compare_add,
			   swap ? a->compare_add : 0);
	tp_finish(tp, qp, &o, &b, 0);
	qp->req.rd_out++;
	time_rtt(tp, qp);
	requester_sent(tp, qp, w, 1);
	return 1;
}

/* ATOMIC_WRITE and FLUSH (annex A19): answered by a READ response of no bytes, with the resources of a READ. */
static uint32_t
send_place(struct transport *tp, struct qp *qp, struct tp_swqe *w)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, qp->req.sq_cur);
	const struct ring_flush *f = (const void *)(slot + 1);
	uint32_t len = w->opcode == UROCE_WR_FLUSH ? 0 : ATOMIC_BYTES;
	struct wire_bth b = { .opcode = tp_req_ops[w->opcode].only | qp->prefix, .dqpn = qp->path.dest_qpn, .psn = qp->req.psn_cur,
			      .pkey = qp->path.pkey, .migreq = qp->path.mig == TP_MIG_MIGRATED, .ackreq = true };
	struct tp_out o;

	if (qp->req.rd_out >= qp->req.max_rd || wire_psn_diff(qp->req.psn_cur, qp->req.psn_una) >= qp->loss.cwnd) {
		qp->req.blocked = true;
		return 0;
	}
	if (!tp_begin(tp, qp, b.opcode, &o))
		return 0;
	if (unlikely(qp->prefix == WIRE_XRC))
		xrc_put_eth(o.bth + o.op->off_xrceth, slot);
	wire_put_reth(o.bth + o.op->off_reth, slot->remote_addr, slot->rkey, len != 0 ? len : f->length);
	if (len == 0)
		wire_put_feth(o.bth + o.op->off_feth, f->type, f->level);
	if (len != 0 && requester_gather(tp, qp, w, slot, 0, tp_payload(&o), len) != 0) {
		tp_mbuf_put(tp, o.m);
		return 0;
	}
	tp_finish(tp, qp, &o, &b, len);
	qp->req.rd_out++;
	time_rtt(tp, qp);
	requester_sent(tp, qp, w, 1);
	return 1;
}

/* A WQE that is bad completes when all before it have. @return true if it did. */
static bool
bad_wqe(struct transport *tp, struct qp *qp, const struct tp_swqe *w)
{
	if (qp->req.sq_cur != qp->req.sq_tail) {
		qp->req.blocked = true;
		return false;
	}
	tp->counters.req_local_errors++;
	completer_fail_head(tp, qp, w->status, w->verr);
	return true;
}

/* UC and UD: sent is done. */
static inline void
complete_unacknowledged(struct transport *tp, struct qp *qp)
{
	qp->req.psn_una = qp->req.psn_cur;
	while (qp->req.sq_tail != qp->req.sq_cur)
		completer_head(tp, qp);
}

static __rte_always_inline uint32_t
send_next(struct transport *tp, struct qp *qp, struct tp_swqe *w)
{
	if (unlikely(qp->service == WIRE_UD))
		return ud_send(tp, qp, w);
	if (tp_req_ops[w->opcode].kind == TP_REQ_DATA)
		return send_data(tp, qp, w);
	if (tp_req_ops[w->opcode].kind == TP_REQ_READ)
		return send_read(tp, qp, w);
	if (unlikely(tp_req_ops[w->opcode].kind == TP_REQ_LOCAL))
		return local_run(tp, qp, w);
	if (unlikely(tp_req_ops[w->opcode].kind == TP_REQ_PLACE))
		return send_place(tp, qp, w);
	return send_atomic(tp, qp, w);
}

/* The same for those who are in no hurry: requester_run() has the only copy in line. */
static __rte_noinline uint32_t
send_one(struct transport *tp, struct qp *qp, struct tp_swqe *w)
{
	return send_next(tp, qp, w);
}

/*
 * The next packet of a QP under congestion control, if it is time. While no round trip is being measured, a packet asks
 * for its answer as if it filled the window: a slow QP would else learn nothing for many round trips.
 */
static __rte_noinline uint32_t
send_paced(struct transport *tp, struct qp *qp, struct tp_swqe *w)
{
	int32_t on_the_way = wire_psn_diff(qp->req.psn_cur, qp->req.psn_una);
	uint64_t bytes = tp->counters.tx_bytes;
	uint8_t kind = tp_req_ops[w->opcode].kind;
	uint32_t psn = qp->req.psn_cur, n;
	uint16_t window = qp->loss.cwnd;

	if (!cc_may_send(tp, qp)) {
		qp->req.blocked = true;
		return 0;
	}
	if (kind == TP_REQ_DATA && !qp->loss.rtt_timing && on_the_way < window)
		qp->loss.cwnd = (uint16_t)(on_the_way + 1);
	n = send_one(tp, qp, w);
	qp->loss.cwnd = window;
	if (n == 0)
		return 0;
	bytes = tp->counters.tx_bytes - bytes;
	if (kind == TP_REQ_READ && qp->req.cc->ops->paces_reads)
		bytes += (uint64_t)((qp->req.psn_cur - psn) & WIRE_PSN_MASK) << qp->path.mtu_shift;
	cc_sent(tp, qp->req.cc, (uint32_t)bytes);
	return n;
}

uint32_t
requester_run(struct transport *tp, struct qp *qp, uint32_t budget)
{
	uint32_t work = 0, n;

	qp->req.blocked = qp->loss.rnr_wait;
	if (unlikely(selective_pending(qp)) && !qp->req.blocked)
		work = selective_resend(tp, qp, budget);
	while (work < budget && !qp->req.blocked && qp_sends(qp)) {
		struct tp_swqe *w;

		if (qp->req.sq_cur == qp->req.sq.counter && (qp->state != UROCE_QPS_RTS || !fetch(tp, qp)))
			break;
		w = qp_inflight(qp, qp->req.sq_cur);
		if (unlikely(w->status != 0)) {
			work += bad_wqe(tp, qp, w);
			continue;
		}
		/* 10.8.3.3: a fenced WQE waits for READs and atomics before it. */
		if (unlikely((w->flags & UROCE_SEND_FENCE) && qp->req.rd_out != 0 && qp->req.psn_cur == w->first_psn)) {
			qp->req.blocked = true;
			break;
		}
		n = unlikely(qp->req.cc != NULL) ? send_paced(tp, qp, w) : send_next(tp, qp, w);
		work += n;
		if (unlikely(n == 0)) {
			if (w->status != 0)
				continue;
			break;
		}
		if (qp->service != WIRE_RC)
			complete_unacknowledged(tp, qp);
	}
	if (qp->service == WIRE_RC && work != 0)
		completer_arm(tp, qp);
	if (unlikely(qp->state == UROCE_QPS_SQD))
		qp_check_drained(tp, qp);
	return work;
}

void
requester_rewind(struct transport *tp, struct qp *qp)
{
	selective_forget(tp, qp);
	qp->req.sq_cur = qp->req.sq_tail;
	qp->req.psn_cur = qp->req.psn_una;
	qp->req.rd_out = 0;
	rtt_untime(qp);
	qp_activate(tp, qp);
}

void
requester_probe(struct transport *tp, struct qp *qp)
{
	struct tp_swqe *w = qp_inflight(qp, qp->req.sq_tail);
	uint32_t sq_cur = qp->req.sq_cur, psn_cur = qp->req.psn_cur;
	uint16_t window = qp->loss.cwnd;
	uint8_t rd_out = qp->req.rd_out;

	/* What fills the window asks for an answer. */
	qp->loss.cwnd = 1;
	rtt_untime(qp);
	qp->req.rd_out = 0;
	qp->req.sq_cur = qp->req.sq_tail;
	qp->req.psn_cur = qp->req.psn_una;
	if (w->status == 0)
		send_one(tp, qp, w);
	qp->loss.cwnd = window;
	/* Its memory has gone: it fails when its turn comes. */
	if (unlikely(w->status != 0)) {
		requester_rewind(tp, qp);
		return;
	}
	qp->req.sq_cur = sq_cur;
	qp->req.psn_cur = psn_cur;
	qp->req.rd_out = rd_out;
	if (qp->req.scoreboard != NULL)
		selective_probed(qp);
}

uint32_t
requester_send_again(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t psn)
{
	struct tp_swqe *w = qp_inflight(qp, counter);
	uint32_t sq_cur = qp->req.sq_cur, psn_cur = qp->req.psn_cur, n = 0;
	uint16_t window = qp->loss.cwnd;
	uint8_t reads = qp->req.rd_out;

	/* Always inside the window: it was sent before. A packet asks for an answer as if it filled it. */
	qp->loss.cwnd = (uint16_t)(tp_req_ops[w->opcode].kind == TP_REQ_DATA ? wire_psn_diff(psn, qp->req.psn_una) + 1 :
									  2 * TP_CWND_MAX);
	qp->req.rd_out = 0;
	qp->req.sq_cur = counter;
	qp->req.psn_cur = psn;
	if (w->status == 0)
		n = unlikely(qp->req.cc != NULL) ? send_paced(tp, qp, w) : send_one(tp, qp, w);
	qp->req.psn_cur = psn_cur;
	qp->req.sq_cur = sq_cur;
	qp->req.rd_out = reads;
	qp->loss.cwnd = window;
	/* Its memory has gone: it fails when its turn comes. */
	if (unlikely(w->status != 0))
		requester_rewind(tp, qp);
	return n;
}

uint32_t
requester_read_again(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t psn, uint32_t packets)
{
	const struct tp_swqe *w = qp_inflight(qp, counter);
	uint64_t bytes = tp->counters.tx_bytes;

	if (unlikely(qp->req.cc != NULL) && !cc_may_send(tp, qp)) {
		qp->req.blocked = true;
		return 0;
	}
	if (!put_read(tp, qp, w, ring_slot(&qp->req.sq, counter), (psn - w->first_psn) & WIRE_PSN_MASK, packets))
		return 0;
	tp->counters.retransmitted_packets++;
	if (unlikely(qp->req.cc != NULL)) {
		bytes = tp->counters.tx_bytes - bytes;
		if (qp->req.cc->ops->paces_reads)
			bytes += (uint64_t)packets << qp->path.mtu_shift;
		cc_sent(tp, qp->req.cc, (uint32_t)bytes);
	}
	return 1;
}

bool
requester_pending(const struct qp *qp)
{
	if (!qp_sends(qp) || qp->req.blocked)
		return false;
	return qp->req.sq_cur != qp->req.sq.counter || selective_pending(qp) ||
	       (qp->state == UROCE_QPS_RTS && ring_sq_ready(&qp->req.sq, qp->req.sq.counter));
}
