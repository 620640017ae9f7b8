/* SPDX-License-Identifier: BSD-3-Clause */
/* The requester of a foreign end: one request per READ whatever its length, go back N, a timer per QP. */
#include <string.h>

#include "foreign.h"
#include "ring/wqe.h"

enum { TRIES = 7, GAP_NS = 1000, CREDITS_INVALID = 31 };

static uint32_t
first_psn(const struct sim_qp *q, uint32_t i)
{
	return i == 0 ? q->attr.sq_psn : wire_psn_add(q->ops[i - 1].last_psn, 1);
}

/* Answered by a response of its own, and counted as an outstanding READ. */
static bool
wants_response(const struct sim_op *op)
{
	return op_brings(op) || op->opcode == UROCE_WR_ATOMIC_WRITE || op->opcode == UROCE_WR_FLUSH;
}

void
foreign_req_begin(struct foreign *f)
{
	uint32_t psn = f->q->attr.sq_psn;

	f->req = (struct foreign_requester){ .una = psn, .next = psn, .sent = psn };
}

/* ---- What is complete ---- */

static void
set_timer(struct sim_world *w, struct foreign *f)
{
	struct foreign_requester *r = &f->req;
	uint64_t ns = UINT64_C(4096) << f->q->attr.timeout;

	ns = ns < f->h.timeout_min_ns ? f->h.timeout_min_ns : ns;
	r->timer_at = r->una == r->sent || f->q->attr.timeout == 0 ? 0 : w->now_ns + ns;
	if (r->timer_at != 0)
		foreign_run_at(w, f, r->timer_at);
}

static void
go_back(struct sim_world *w, struct foreign *f)
{
	f->req.next = f->req.una;
	f->req.cur = f->req.tail;
	foreign_run_at(w, f, w->now_ns + GAP_NS);
}

static void
fail(struct sim_world *w, struct foreign *f, uint8_t status)
{
	if (f->req.tail == f->q->nb_posted)
		return;
	foreign_sent(w, f, f->req.tail++, status);
	foreign_error(w, f);
}

static void
progress(struct sim_world *w, struct foreign *f)
{
	struct foreign_requester *r = &f->req;

	r->tries = r->rnr_tries = 0;
	r->went_back = false;
	if (wire_psn_diff(r->next, r->una) < 0) {
		r->next = r->una;
		r->cur = r->tail;
	}
	set_timer(w, f);
	foreign_run_at(w, f, w->now_ns + GAP_NS);
}

/* All up to @p psn is acknowledged. @return false: a response is missing before that, or is @p psn itself. */
static bool
acked(struct sim_world *w, struct foreign *f, uint32_t psn)
{
	struct foreign_requester *r = &f->req;
	bool moved = false, free = true;

	while (r->tail < f->q->nb_posted && wire_psn_diff(psn, r->una) >= 0 && wire_psn_diff(r->una, r->sent) < 0) {
		const struct sim_op *op = &f->q->ops[r->tail];

		if (wants_response(op)) {
			free = false;
			break;
		}
		moved = true;
		if (wire_psn_diff(psn, op->last_psn) < 0) {
			r->una = wire_psn_add(psn, 1);
			break;
		}
		r->una = wire_psn_add(op->last_psn, 1);
		foreign_sent(w, f, r->tail++, UROCE_WC_SUCCESS);
	}
	if (moved)
		progress(w, f);
	return free;
}

/* An answer has come without another before it: that one was lost (9.7.5.2.8). */
static void
implied_nak(struct sim_world *w, struct foreign *f)
{
	if (f->req.went_back && !f->h.replays_each_implied)
		return;
	f->req.went_back = true;
	go_back(w, f);
}

static void
note_credits(struct foreign *f, uint8_t syndrome, uint32_t upto)
{
	static const uint16_t credits_of[] = { 0,  1,  2,  3,  4,   6,   8,   12,  16,  24,  32,   48,   64,   96,   128,  192,
					       256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768 };
	uint32_t n = 0, i;

	f->req.credits = (syndrome & 0x1f) != CREDITS_INVALID;
	if (!f->req.credits)
		return;
	for (i = 0; i < f->q->nb_posted && wire_psn_diff(f->q->ops[i].last_psn, upto) <= 0; i++)
		n += op_consumes(&f->q->ops[i]);
	n += credits_of[syndrome & 0x1f];
	if ((int32_t)(n - f->req.credit_limit) > 0)
		f->req.credit_limit = n;
}

/* ---- What comes ---- */

/* A response for the oldest operation, with the PSN that is due. */
static void
response(struct sim_world *w, struct foreign *f, const struct wire_pkt *p)
{
	struct foreign_requester *r = &f->req;
	const struct sim_op *op = &f->q->ops[r->tail];
	uint32_t off = ((r->una - first_psn(f->q, r->tail)) & WIRE_PSN_MASK) << foreign_mtu_shift(f), want, mtu = 1u << foreign_mtu_shift(f);
	bool last = r->una == op->last_psn;
	uint64_t old;

	if (op_atomic(op) != ((p->op->flags & WIRE_F_ATOMICACKETH) != 0)) {
		sim_fail(w, "QP %u: gets %s for operation %u", f->q->id, p->op->name, r->tail);
		return;
	}
	if (op_atomic(op)) {
		old = wire_get64(p->bthp + p->op->off_atomicacketh);
		foreign_scatter(op->pieces, op->nsge, 0, (const uint8_t *)&old, sizeof(old));
	} else {
		want = op->opcode != UROCE_WR_RDMA_READ ? 0 : op->len - off < mtu ? op->len - off : mtu;
		if (p->payload_bytes != want || ((p->op->flags & WIRE_F_END) != 0) != last)
			sim_fail(w, "QP %u: %s of PSN %u with %u bytes, READ %u is due with %u, %s", f->q->id, p->op->name,
				 p->bth.psn, p->payload_bytes, r->tail, want, last ? "the last" : "not the last");
		if (w->failed)
			return;
		foreign_scatter(op->pieces, op->nsge, off, p->payload, want);
	}
	r->una = wire_psn_add(r->una, 1);
	if (last)
		foreign_sent(w, f, r->tail++, UROCE_WC_SUCCESS);
	progress(w, f);
}

static void
rnr(struct sim_world *w, struct foreign *f, uint8_t code)
{
	struct foreign_requester *r = &f->req;

	if (w->now_ns < r->rnr_until)
		return;
	if (f->q->attr.rnr_retry < 7 && r->rnr_tries++ >= f->q->attr.rnr_retry) {
		fail(w, f, UROCE_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	r->tries = 0;
	r->timer_at = 0;
	r->rnr_until = w->now_ns + wire_rnr_timer_ns(code);
	go_back(w, f);
	foreign_run_at(w, f, r->rnr_until);
}

static void
nak(struct sim_world *w, struct foreign *f, uint32_t psn, uint8_t syndrome)
{
	static const uint8_t status[] = { UROCE_WC_SUCCESS, UROCE_WC_REM_INV_REQ_ERR, UROCE_WC_REM_ACCESS_ERR,
					  UROCE_WC_REM_OP_ERR };

	if (psn != f->req.una && !acked(w, f, wire_psn_add(psn, WIRE_PSN_MASK))) {
		implied_nak(w, f);
		return;
	}
	if (WIRE_AETH_TYPE(syndrome) == WIRE_AETH_RNR_NAK)
		rnr(w, f, syndrome & 0x1f);
	else if (syndrome == WIRE_NAK_PSN_SEQ)
		go_back(w, f);
	else if (syndrome <= WIRE_NAK_REM_OP)
		fail(w, f, status[syndrome & 3]);
	else
		sim_fail(w, "QP %u: gets NAK 0x%02x", f->q->id, syndrome);
}

void
foreign_req_rx(struct sim_world *w, struct foreign *f, const struct wire_pkt *p)
{
	struct foreign_requester *r = &f->req;
	uint8_t syndrome = p->op->flags & WIRE_F_AETH ? p->bthp[p->op->off_aeth] : 0;
	uint32_t psn = p->bth.psn;

	if (wire_psn_diff(psn, r->sent) > 0 || wire_psn_diff(psn, r->una) < 0 || r->una == r->sent ||
	    qp_state(f->q->qp) != UROCE_QPS_RTS)
		return;
	if (WIRE_AETH_TYPE(syndrome) != WIRE_AETH_ACK) {
		nak(w, f, psn, syndrome);
		return;
	}
	if (psn == r->sent)
		return;
	if (WIRE_OPCODE_OP(p->bth.opcode) == WIRE_OP_ACK) {
		if (!acked(w, f, psn))
			implied_nak(w, f);
		else
			note_credits(f, syndrome, psn);
		return;
	}
	if (psn != r->una && !acked(w, f, wire_psn_add(psn, WIRE_PSN_MASK))) {
		implied_nak(w, f);
		return;
	}
	if (p->op->flags & WIRE_F_AETH)
		note_credits(f, syndrome, psn);
	if (psn == r->una && r->tail < f->q->nb_posted && wants_response(&f->q->ops[r->tail]))
		response(w, f, p);
	else
		sim_fail(w, "QP %u: gets %s of PSN %u for what isn't a READ or atomic", f->q->id, p->op->name, psn);
}

/* ---- What is sent ---- */

static uint8_t
data_opcode(const struct sim_op *op, bool first, bool last)
{
	bool write = op_one_sided(op);

	if (!last)
		return write ? (first ? WIRE_OP_WRITE_FIRST : WIRE_OP_WRITE_MIDDLE) : (first ? WIRE_OP_SEND_FIRST : WIRE_OP_SEND_MIDDLE);
	switch (op->opcode) {
	case UROCE_WR_RDMA_WRITE:
		return first ? WIRE_OP_WRITE_ONLY : WIRE_OP_WRITE_LAST;
	case UROCE_WR_RDMA_WRITE_WITH_IMM:
		return first ? WIRE_OP_WRITE_ONLY_IMM : WIRE_OP_WRITE_LAST_IMM;
	case UROCE_WR_SEND_WITH_IMM:
		return first ? WIRE_OP_SEND_ONLY_IMM : WIRE_OP_SEND_LAST_IMM;
	case UROCE_WR_SEND_WITH_INV:
		return first ? WIRE_OP_SEND_ONLY_INV : WIRE_OP_SEND_LAST_INV;
	default:
		return first ? WIRE_OP_SEND_ONLY : WIRE_OP_SEND_LAST;
	}
}

/* A packet of a SEND or WRITE. @return PSNs. */
static uint32_t
send_data(struct sim_world *w, struct foreign *f, const struct sim_op *op, const struct ring_sq_wqe *e, bool asks)
{
	static uint8_t payload[WIRE_MAX_MTU];
	uint32_t nth = (f->req.next - first_psn(f->q, f->req.cur)) & WIRE_PSN_MASK, mtu = 1u << foreign_mtu_shift(f);
	uint32_t off = nth << foreign_mtu_shift(f), len = op->len - off < mtu ? op->len - off : mtu;
	bool last = f->req.next == op->last_psn;
	struct foreign_packet p = { .op = data_opcode(op, nth == 0, last), .psn = f->req.next, .payload = payload,
				    .payload_bytes = len, .srqn = op->srqn };
	const struct wire_opcode *o = &wire_opcodes[p.op];

	op_data(op, off, len, payload);
	if (o->flags & WIRE_F_RETH)
		wire_put_reth(p.hdr + o->off_reth - WIRE_BTH_BYTES, wqe_get_remote_addr(e), wqe_get_rkey(e), op->len);
	if (o->flags & WIRE_F_IMM)
		memcpy(p.hdr + o->off_imm - WIRE_BTH_BYTES, &op->imm, sizeof(op->imm));
	if (o->flags & WIRE_F_IETH)
		wire_put32(p.hdr + o->off_ieth - WIRE_BTH_BYTES, op->imm);
	p.solicited = last && (op->flags & UROCE_SEND_SOLICITED) && op_consumes(op);
	p.ackreq = asks || (last && !f->h.ackreq_last_only) || (!last && nth % f->h.ackreq_every == f->h.ackreq_every - 1);
	foreign_send(w, f, &p);
	return 1;
}

/* A request that is one packet. @return PSNs that it takes. */
static uint32_t
send_request(struct sim_world *w, struct foreign *f, const struct sim_op *op, const struct ring_sq_wqe *e)
{
	uint32_t nth = (f->req.next - first_psn(f->q, f->req.cur)) & WIRE_PSN_MASK, off;
	struct foreign_packet p = { .op = WIRE_OP_READ_REQUEST, .ackreq = true, .srqn = op->srqn };
	const struct wire_opcode *o;
	uint64_t word;

	if (op->opcode == UROCE_WR_RDMA_READ && f->h.read_whole_again)
		nth = 0;
	off = nth << foreign_mtu_shift(f);
	p.psn = wire_psn_add(first_psn(f->q, f->req.cur), nth);
	if (op_atomic(op)) {
		struct ring_atomic a = wqe_get_atomic(e);
		bool swap = op->opcode == UROCE_WR_ATOMIC_CMP_AND_SWP;

		p.op = swap ? WIRE_OP_CMP_SWAP : WIRE_OP_FETCH_ADD;
		o = &wire_opcodes[p.op];
		wire_put_atomiceth(p.hdr + o->off_atomiceth - WIRE_BTH_BYTES, wqe_get_remote_addr(e), wqe_get_rkey(e),
				   swap ? a.swap : a.compare_add, swap ? a.compare_add : 0);
	} else if (op->opcode == UROCE_WR_FLUSH) {
		struct ring_flush fl = wqe_get_flush(e);

		p.op = WIRE_OP_FLUSH;
		o = &wire_opcodes[p.op];
		wire_put_feth(p.hdr + o->off_feth - WIRE_BTH_BYTES, fl.type, fl.level);
		wire_put_reth(p.hdr + o->off_reth - WIRE_BTH_BYTES, wqe_get_remote_addr(e), wqe_get_rkey(e), fl.length);
	} else {
		p.op = op->opcode == UROCE_WR_ATOMIC_WRITE ? WIRE_OP_ATOMIC_WRITE : WIRE_OP_READ_REQUEST;
		o = &wire_opcodes[p.op];
		wire_put_reth(p.hdr + o->off_reth - WIRE_BTH_BYTES, wqe_get_remote_addr(e) + off, wqe_get_rkey(e), op->len - off);
	}
	if (op->opcode == UROCE_WR_ATOMIC_WRITE) {
		op_data(op, 0, sizeof(word), (uint8_t *)&word);
		p.payload = (const uint8_t *)&word;
		p.payload_bytes = sizeof(word);
	}
	foreign_send(w, f, &p);
	return ((op->last_psn - f->req.next) & WIRE_PSN_MASK) + 1;
}

/* May the operation begin? Fences, READs and atomics that are out, credits. */
static bool
may_begin(const struct foreign *f, const struct sim_op *op)
{
	uint32_t i, out = 0, in_flight = 0;

	for (i = f->req.tail; i < f->req.cur; i++) {
		out += wants_response(&f->q->ops[i]);
		in_flight += op_consumes(&f->q->ops[i]);
	}
	if ((op->flags & UROCE_SEND_FENCE) && out != 0)
		return false;
	if (wants_response(op) && out >= f->q->attr.max_rd_atomic)
		return false;
	/* 9.7.7.2.5: without credits one at a time, to hear of new ones. */
	return !f->h.obeys_credits || !f->req.credits || !op_consumes(op) || in_flight == 0 ||
	       (int32_t)(op->consume - f->req.credit_limit) <= 0;
}

/* Does the packet at next bring its sender to a halt? Then it must bring an answer. */
static bool
is_last_for_now(const struct foreign *f, const struct sim_op *op)
{
	uint32_t next = wire_psn_add(f->req.next, 1);

	if (wire_psn_diff(next, f->req.una) >= (int32_t)f->h.window)
		return true;
	return f->req.next == op->last_psn && (f->req.cur + 1 == f->q->nb_posted || f->h.obeys_credits ||
	       (f->q->ops[f->req.cur + 1].flags & UROCE_SEND_FENCE) || wants_response(&f->q->ops[f->req.cur + 1]));
}

static void
send_some(struct sim_world *w, struct foreign *f)
{
	struct foreign_requester *r = &f->req;
	struct sim_qp *q = f->q;
	uint32_t n;

	for (n = 0; n < f->h.burst && !w->failed; n++) {
		const struct sim_op *op = &q->ops[r->cur];
		const struct ring_sq_wqe *e = ring_slot(&q->sq, q->sq_base + r->cur);

		if (r->cur == q->nb_posted || wire_psn_diff(r->next, r->una) >= (int32_t)f->h.window ||
		    (r->next == first_psn(q, r->cur) && !may_begin(f, op)))
			return;
		r->next = wire_psn_add(r->next, wants_response(op) ? send_request(w, f, op, e) :
								     send_data(w, f, op, e, is_last_for_now(f, op)));
		if (wire_psn_diff(r->next, r->sent) > 0)
			r->sent = r->next;
		if (wire_psn_diff(r->next, op->last_psn) > 0)
			r->cur++;
		if (r->timer_at == 0)
			set_timer(w, f);
	}
	foreign_run_at(w, f, w->now_ns + GAP_NS);
}

void
foreign_req_turn(struct sim_world *w, struct foreign *f)
{
	struct foreign_requester *r = &f->req;

	if (w->now_ns < r->rnr_until) {
		foreign_run_at(w, f, r->rnr_until);
		return;
	}
	if (r->timer_at != 0 && w->now_ns >= r->timer_at) {
		r->timer_at = 0;
		if (r->tries++ == TRIES) {
			fail(w, f, UROCE_WC_RETRY_EXC_ERR);
			return;
		}
		r->went_back = false;
		r->next = r->una;
		r->cur = r->tail;
		set_timer(w, f);
	}
	send_some(w, f);
	if (r->timer_at != 0)
		foreign_run_at(w, f, r->timer_at);
}
