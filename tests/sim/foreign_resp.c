/* SPDX-License-Identifier: BSD-3-Clause */
/* The responder of a foreign end: executes requests in order, and answers in that order, at its own pace. */
#include <string.h>

#include "foreign.h"

enum { GAP_NS = 1000, CREDITS_INVALID = 31, REPEAT_ROOM = FOREIGN_ANSWERS / 2 };

void
foreign_resp_begin(struct foreign *f)
{
	memset(&f->resp, 0, sizeof(f->resp));
	f->resp.epsn = f->q->attr.rq_psn;
}

/* ---- Answers ---- */

static struct foreign_answer *
answer_at(struct foreign_responder *s, uint32_t i)
{
	return &s->answers[(s->first_answer + i) % FOREIGN_ANSWERS];
}

/* @return the new last answer, or NULL: too many wait. */
static struct foreign_answer *
answer_add(struct sim_world *w, struct foreign *f, enum foreign_kind kind, uint32_t psn, bool again)
{
	struct foreign_responder *s = &f->resp;
	uint64_t ns = rng_below(&f->rng, (again ? f->h.dup_ns : f->h.answer_ns) + 1);
	struct foreign_answer *a;

	if (s->nb_answers == FOREIGN_ANSWERS)
		return NULL;
	a = answer_at(s, s->nb_answers++);
	*a = (struct foreign_answer){ .kind = kind, .psn = psn, .again = again, .at = w->now_ns + ns };
	foreign_run_at(w, f, a->at);
	return a;
}

static uint8_t
credit_code(struct foreign *f)
{
	static const uint16_t credits_of[] = { 0,  1,  2,  3,  4,   6,   8,   12,  16,  24,  32,   48,   64,   96,   128,  192,
					       256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768 };
	uint32_t has = f->q->rq->nb_posted - f->resp.taken;
	uint8_t code = CREDITS_INVALID - 1;

	if (f->h.credits == FOREIGN_UNLIMITED || (f->h.credits == FOREIGN_MOODY && rng_one_in(&f->rng, 4)))
		return CREDITS_INVALID;
	if (f->h.credits == FOREIGN_NONE)
		return 0;
	while (credits_of[code] > has)
		code--;
	return f->h.credits == FOREIGN_MOODY ? (uint8_t)rng_below(&f->rng, code + 1u) : code;
}

/* ACK what is before epsn: with the last answer that waits, if that is such an ACK and it needn't be one for each. */
static void
acknowledge(struct sim_world *w, struct foreign *f, uint32_t psn, bool again)
{
	struct foreign_responder *s = &f->resp;
	struct foreign_answer *last = s->nb_answers == 0 ? NULL : answer_at(s, s->nb_answers - 1);

	s->unacked = 0;
	if (!f->h.ack_each && last != NULL && last->kind == FOREIGN_ACK && wire_psn_diff(psn, last->psn) >= 0)
		last->psn = psn;
	else
		answer_add(w, f, FOREIGN_ACK, psn, again);
}

static void
nak(struct sim_world *w, struct foreign *f, uint8_t syndrome)
{
	struct foreign_answer *a = answer_add(w, f, FOREIGN_NAK, f->resp.epsn, false);

	if (a != NULL)
		a->syndrome = syndrome;
}

/* It can't be executed, ever. */
static void
refuse(struct sim_world *w, struct foreign *f, uint8_t syndrome)
{
	f->resp.refused = true;
	nak(w, f, syndrome);
}

/* ---- Memory ---- */

/* @return the bytes that a key opens, or NULL. */
static uint8_t *
opens(const struct foreign *f, uint32_t rkey, uint64_t va, uint32_t len, uint32_t access)
{
	const struct sim_qp *q = f->q;
	const struct sim_mr *m = access == UROCE_ACCESS_REMOTE_ATOMIC ? &q->ep->atomic_mr : &q->target_mr;

	if ((q->attr.qp_access_flags & access) == 0 || m->mr == NULL || rkey != m->key || va < m->iova || va - m->iova > m->len ||
	    len > m->len - (va - m->iova))
		return NULL;
	return m->base + (va - m->iova);
}

/* Bytes of a receive before the piece that can't be written. */
static uint32_t
room(const struct sim_recv *r)
{
	return r->plant == SIM_PLANT_RECV_LKEY ? r->len - r->pieces[r->nsge - 1].len : r->len;
}

/* @return the NAK, or 0. */
static uint8_t
place_in_receive(struct sim_world *w, struct foreign *f, const struct wire_pkt *p)
{
	const struct sim_recv *r = &f->q->rq->recvs[f->resp.taken - 1];
	uint32_t off = f->resp.off, len = p->payload_bytes;

	if (off + len > r->len) {
		foreign_received(w, f, UROCE_WC_LOC_LEN_ERR, NULL, 0);
		return f->h.refuses_with_op ? WIRE_NAK_REM_OP : WIRE_NAK_INV_REQ;
	}
	if (off + len > room(r)) {
		foreign_received(w, f, UROCE_WC_LOC_PROT_ERR, NULL, 0);
		return WIRE_NAK_REM_OP;
	}
	foreign_scatter(r->pieces, r->nsge, off, p->payload, len);
	return 0;
}

/* ---- Execution ---- */

/* The order of packets in messages, and their lengths (9.6, 9.7.4.1): whoever breaks it isn't a good peer. */
static bool
well_formed(struct sim_world *w, const struct foreign *f, const struct wire_pkt *p)
{
	uint32_t flags = p->op->flags, mtu = 1u << foreign_mtu_shift(f);
	bool begins = f->resp.msg == FOREIGN_BETWEEN, data = (flags & (WIRE_F_SEND | WIRE_F_WRITE)) != 0;

	if (begins != ((flags & WIRE_F_START) != 0) ||
	    (!begins && ((flags & WIRE_F_SEND) != 0) != (f->resp.msg == FOREIGN_IN_SEND)) ||
	    (data && !(flags & WIRE_F_END) && p->payload_bytes != mtu) || p->payload_bytes > mtu ||
	    (data && (flags & WIRE_F_END) && !begins && p->payload_bytes == 0)) {
		sim_fail(w, "QP %u: sends %s of PSN %u, %u bytes, out of place", f->q->peer->id, p->op->name, p->bth.psn,
			 p->payload_bytes);
		return false;
	}
	return true;
}

static void
executed(struct sim_world *w, struct foreign *f, const struct wire_pkt *p)
{
	struct foreign_responder *s = &f->resp;
	bool asks = p->bth.ackreq;

	s->epsn = wire_psn_add(s->epsn, 1);
	s->unacked++;
	s->off += p->payload_bytes;
	if (p->op->flags & WIRE_F_END) {
		s->msg = FOREIGN_BETWEEN;
		s->msn = wire_psn_add(s->msn, 1);
	} else {
		s->msg = p->op->flags & WIRE_F_SEND ? FOREIGN_IN_SEND : FOREIGN_IN_WRITE;
	}
	if (asks || (f->h.ack_unasked != 0 && s->unacked >= f->h.ack_unasked))
		acknowledge(w, f, wire_psn_add(s->epsn, WIRE_PSN_MASK), false);
}

static void
rnr_nak(struct sim_world *w, struct foreign *f)
{
	nak(w, f, (uint8_t)(WIRE_AETH_RNR_NAK | f->q->attr.min_rnr_timer));
}

static bool
take_receive(struct sim_world *w, struct foreign *f)
{
	if (f->resp.taken == f->q->rq->nb_posted) {
		if (!f->resp.rnr_sent)
			rnr_nak(w, f);
		f->resp.rnr_sent = true;
		f->resp.nak_sent = !f->h.nak_after_rnr;
		return false;
	}
	f->resp.taken++;
	return true;
}

static void
data_request(struct sim_world *w, struct foreign *f, const struct wire_pkt *p)
{
	const uint8_t *reth = p->bthp + p->op->off_reth;
	struct foreign_responder *s = &f->resp;
	uint32_t flags = p->op->flags;
	uint8_t *to, syndrome;

	if ((flags & WIRE_F_RQ) && !take_receive(w, f))
		return;
	if (flags & WIRE_F_START)
		s->off = 0;
	if (flags & WIRE_F_SEND) {
		syndrome = place_in_receive(w, f, p);
		if (syndrome != 0) {
			refuse(w, f, syndrome);
			return;
		}
	} else {
		if (flags & WIRE_F_RETH) {
			s->left = wire_get32(reth + 12);
			to = s->left == 0 ? f->q->target_mr.base :
					    opens(f, wire_get32(reth + 8), wire_get64(reth), s->left, UROCE_ACCESS_REMOTE_WRITE);
			if (to == NULL) {
				refuse(w, f, WIRE_NAK_REM_ACCESS);
				return;
			}
			s->target_off = (uint32_t)(to - f->q->target_mr.base);
		}
		if (flags & WIRE_F_END ? p->payload_bytes != s->left : p->payload_bytes >= s->left)
			sim_fail(w, "QP %u: a WRITE ends with %u bytes, not %u", f->q->peer->id, p->payload_bytes, s->left);
		if (w->failed)
			return;
		if (f->q->target_mr.mr == NULL && p->payload_bytes != 0) {
			refuse(w, f, WIRE_NAK_REM_ACCESS);
			return;
		}
		memcpy(f->q->target_mr.base + s->target_off, p->payload, p->payload_bytes);
		s->target_off += p->payload_bytes;
		s->left -= p->payload_bytes;
	}
	if ((flags & WIRE_F_END) && (flags & (WIRE_F_SEND | WIRE_F_IMM)))
		foreign_received(w, f, UROCE_WC_SUCCESS, p, s->off + p->payload_bytes);
	executed(w, f, p);
}

static void
result_add(struct sim_world *w, struct foreign *f, const struct foreign_result *r)
{
	struct foreign_responder *s = &f->resp;
	struct foreign_answer *a;
	uint32_t i, out = 0;

	/* C9-95: it has agreed to so many. Of those whose answers are on their way it may know already. */
	for (i = 0; i < s->nb_answers; i++)
		out += answer_at(s, i)->kind >= FOREIGN_READ && !answer_at(s, i)->again && answer_at(s, i)->psn == answer_at(s, i)->first_psn;
	if (out >= f->q->attr.max_dest_rd_atomic)
		sim_fail(w, "QP %u: has %u READs and atomics out, %u are allowed", f->q->peer->id, out + 1, f->q->attr.max_dest_rd_atomic);
	s->results[s->nb_results++ % FOREIGN_RESULTS] = *r;
	s->epsn = wire_psn_add(r->last_psn, 1);
	s->msn = wire_psn_add(s->msn, 1);
	s->unacked = 0;
	a = answer_add(w, f, r->kind, r->psn, false);
	if (a == NULL)
		return;
	a->res = *r;
	a->first_psn = r->psn;
	a->end_psn = r->last_psn;
}

static void
atomic_request(struct sim_world *w, struct foreign *f, const struct wire_pkt *p)
{
	const uint8_t *eth = p->bthp + p->op->off_atomiceth;
	uint64_t va = wire_get64(eth), swap_add = wire_get64(eth + 12), compare = wire_get64(eth + 20), now;
	struct foreign_result r = { .kind = FOREIGN_ATOMIC, .psn = p->bth.psn, .last_psn = p->bth.psn, .used = true };
	uint8_t *word;

	if (va & 7) {
		refuse(w, f, WIRE_NAK_INV_REQ);
		return;
	}
	word = opens(f, wire_get32(eth + 8), va, sizeof(now), UROCE_ACCESS_REMOTE_ATOMIC);
	if (word == NULL) {
		refuse(w, f, WIRE_NAK_REM_ACCESS);
		return;
	}
	memcpy(&r.old, word, sizeof(r.old));
	if (WIRE_OPCODE_OP(p->bth.opcode) == WIRE_OP_CMP_SWAP)
		now = r.old == compare ? swap_add : r.old;
	else
		now = r.old + swap_add;
	memcpy(word, &now, sizeof(now));
	result_add(w, f, &r);
}

/* READ, ATOMIC_WRITE, FLUSH. */
static void
reth_request(struct sim_world *w, struct foreign *f, const struct wire_pkt *p)
{
	const uint8_t *reth = p->bthp + p->op->off_reth;
	struct foreign_result r = { .kind = FOREIGN_PLACED, .psn = p->bth.psn, .last_psn = p->bth.psn, .va = wire_get64(reth),
				    .rkey = wire_get32(reth + 8), .len = wire_get32(reth + 12), .used = true };
	bool read = (p->op->flags & WIRE_F_READ) != 0, flush = (p->op->flags & WIRE_F_FETH) != 0, ok;
	const uint8_t *at = NULL;

	if (read) {
		r.kind = FOREIGN_READ;
		r.last_psn = wire_psn_add(r.psn, wire_packets(r.len, foreign_mtu_shift(f)) - 1);
		at = opens(f, r.rkey, r.va, r.len, UROCE_ACCESS_REMOTE_READ);
		ok = r.len == 0 || at != NULL;
		r.off = at == NULL ? 0 : (uint32_t)(at - f->q->target_mr.base);
	} else if (flush) {
		bool whole = wire_feth_level(p->bthp + p->op->off_feth) == UROCE_FLUSH_MR;

		if (whole)
			r.va = f->q->target_mr.iova;
		ok = opens(f, r.rkey, r.va, whole ? 0 : r.len, UROCE_ACCESS_FLUSH_GLOBAL) != NULL;
	} else if ((r.va & 7) != 0 || r.len != 8 || p->payload_bytes != 8) {
		refuse(w, f, WIRE_NAK_INV_REQ);
		return;
	} else {
		uint8_t *to = opens(f, r.rkey, r.va, r.len, UROCE_ACCESS_REMOTE_WRITE);

		ok = to != NULL;
		if (ok)
			memcpy(to, p->payload, 8);
	}
	if (ok)
		result_add(w, f, &r);
	else
		refuse(w, f, WIRE_NAK_REM_ACCESS);
}

/* ---- What comes ---- */

/* It was executed before: the same answer, and nothing else. */
static void
duplicate(struct sim_world *w, struct foreign *f, const struct wire_pkt *p)
{
	struct foreign_responder *s = &f->resp;
	const uint8_t *reth = p->bthp + p->op->off_reth;
	uint32_t psn = p->bth.psn, upto = wire_psn_add(s->epsn, WIRE_PSN_MASK), n, i, off;
	struct foreign_result *r = NULL;
	struct foreign_answer *a;

	n = s->nb_results < FOREIGN_RESULTS ? s->nb_results : FOREIGN_RESULTS;
	if (p->op->flags & (WIRE_F_SEND | WIRE_F_WRITE)) {
		for (i = 1; i <= n && !f->h.dup_ack_latest; i++) {
			r = &s->results[(s->nb_results - i) % FOREIGN_RESULTS];
			if (wire_psn_diff(r->psn, psn) > 0)
				upto = wire_psn_add(r->psn, WIRE_PSN_MASK);
		}
		acknowledge(w, f, upto, true);
		return;
	}
	for (i = 1; i <= n && r == NULL; i++) {
		r = &s->results[(s->nb_results - i) % FOREIGN_RESULTS];
		if (wire_psn_diff(psn, r->psn) < 0 || wire_psn_diff(psn, r->last_psn) > 0)
			r = NULL;
	}
	/* Of a former connection, or older than what must be remembered (C9-105). */
	if (r == NULL || r->kind != (p->op->flags & WIRE_F_ATOMIC ? FOREIGN_ATOMIC : p->op->flags & WIRE_F_READ ? FOREIGN_READ : FOREIGN_PLACED))
		return;
	a = NULL;
	if (r->kind != FOREIGN_READ) {
		a = answer_add(w, f, r->kind, r->psn, true);
	} else {
		off = ((psn - r->psn) & WIRE_PSN_MASK) << foreign_mtu_shift(f);
		if (wire_get64(reth) != r->va + off || wire_get32(reth + 8) != r->rkey || wire_get32(reth + 12) > r->len - off)
			sim_fail(w, "QP %u: asks again for other memory than it did, PSN %u", f->q->peer->id, psn);
		a = answer_add(w, f, FOREIGN_READ, psn, true);
	}
	if (a == NULL)
		return;
	a->res = *r;
	a->first_psn = psn;
	a->end_psn = r->kind != FOREIGN_READ ? r->psn : wire_psn_add(psn, wire_packets(wire_get32(reth + 12), foreign_mtu_shift(f)) - 1);
}

/* Something before it is missing. */
static void
beyond(struct sim_world *w, struct foreign *f)
{
	struct foreign_responder *s = &f->resp;

	if (s->rnr_sent && f->h.rnr_again != 0 && s->nb_answers < REPEAT_ROOM && rng_one_in(&f->rng, f->h.rnr_again)) {
		rnr_nak(w, f);
		return;
	}
	if (s->rnr_sent && !f->h.nak_after_rnr)
		return;
	/* Answers to requests need their room. */
	if (s->nak_sent && f->h.nak_each && s->nb_answers < REPEAT_ROOM) {
		nak(w, f, WIRE_NAK_PSN_SEQ);
		return;
	}
	if (s->nak_sent && (s->nak_repeated || f->h.nak_again == 0 || !rng_one_in(&f->rng, f->h.nak_again)))
		return;
	s->nak_repeated = s->nak_sent;
	s->nak_sent = true;
	nak(w, f, WIRE_NAK_PSN_SEQ);
}

void
foreign_resp_rx(struct sim_world *w, struct foreign *f, const struct wire_pkt *p)
{
	struct foreign_responder *s = &f->resp;
	int32_t diff = wire_psn_diff(p->bth.psn, s->epsn);

	if (s->refused)
		return;
	if (diff < 0) {
		duplicate(w, f, p);
		return;
	}
	if (diff > 0) {
		beyond(w, f);
		return;
	}
	if (!well_formed(w, f, p))
		return;
	s->nak_sent = s->nak_repeated = s->rnr_sent = false;
	if (p->op->flags & (WIRE_F_SEND | WIRE_F_WRITE))
		data_request(w, f, p);
	else if (p->op->flags & WIRE_F_ATOMIC)
		atomic_request(w, f, p);
	else
		reth_request(w, f, p);
}

/* ---- What is sent ---- */

/* A packet of an answer. @return true if it was the last. */
static bool
send_answer(struct sim_world *w, struct foreign *f, struct foreign_answer *a)
{
	uint32_t shift = foreign_mtu_shift(f), nth = (a->psn - a->res.psn) & WIRE_PSN_MASK, off = nth << shift;
	bool first = a->psn == a->first_psn, last = a->kind != FOREIGN_READ || a->psn == a->end_psn;
	struct foreign_packet p = { .psn = a->psn };
	const struct wire_opcode *o;

	switch (a->kind) {
	case FOREIGN_READ:
		p.op = first ? (last ? WIRE_OP_READ_RESP_ONLY : WIRE_OP_READ_RESP_FIRST) :
			       (last ? WIRE_OP_READ_RESP_LAST : WIRE_OP_READ_RESP_MIDDLE);
		/* The region may have gone (9.7.4.1.5); a duplicate is left without an answer (C9-105). */
		if (f->q->target_mr.mr == NULL && a->res.len != 0) {
			if (!a->again) {
				f->resp.nb_answers = 1;
				f->resp.epsn = a->psn;
				refuse(w, f, WIRE_NAK_REM_ACCESS);
			}
			return true;
		}
		p.payload = f->q->target_mr.base + a->res.off + off;
		p.payload_bytes = a->res.len - off < 1u << shift ? a->res.len - off : 1u << shift;
		break;
	case FOREIGN_ATOMIC:
		p.op = WIRE_OP_ATOMIC_ACK;
		break;
	case FOREIGN_PLACED:
		p.op = WIRE_OP_READ_RESP_ONLY;
		break;
	default:
		p.op = WIRE_OP_ACK;
		break;
	}
	o = &wire_opcodes[p.op];
	if (o->flags & WIRE_F_AETH)
		wire_put_aeth(p.hdr + o->off_aeth - WIRE_BTH_BYTES,
			      a->kind == FOREIGN_NAK ? a->syndrome : (uint8_t)(WIRE_AETH_ACK | credit_code(f)), f->resp.msn);
	if (o->flags & WIRE_F_ATOMICACKETH)
		wire_put64(p.hdr + o->off_atomicacketh - WIRE_BTH_BYTES, a->res.old);
	foreign_send(w, f, &p);
	a->psn = wire_psn_add(a->psn, 1);
	if (last && a->kind == FOREIGN_READ && !a->again && f->h.ack_read) {
		struct foreign_packet ack = { .op = WIRE_OP_ACK, .psn = a->end_psn };

		wire_put_aeth(ack.hdr, (uint8_t)(WIRE_AETH_ACK | credit_code(f)), f->resp.msn);
		foreign_send(w, f, &ack);
	}
	return last;
}

void
foreign_resp_turn(struct sim_world *w, struct foreign *f)
{
	struct foreign_responder *s = &f->resp;
	uint32_t n;

	for (n = 0; n < f->h.answers_per_turn && s->nb_answers != 0 && !w->failed; n++) {
		struct foreign_answer *a = answer_at(s, 0);
		bool fatal = a->kind == FOREIGN_NAK && a->syndrome > WIRE_NAK_PSN_SEQ;

		if (a->at > w->now_ns) {
			foreign_run_at(w, f, a->at);
			return;
		}
		if (!send_answer(w, f, a))
			continue;
		s->first_answer = (s->first_answer + 1) % FOREIGN_ANSWERS;
		s->nb_answers--;
		if (fatal) {
			foreign_error(w, f);
			return;
		}
	}
	if (s->nb_answers != 0)
		foreign_run_at(w, f, w->now_ns + GAP_NS);
}
