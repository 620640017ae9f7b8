/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RC responder: executing READ, atomics, ATOMIC_WRITE and FLUSH, and remembering them so that duplicates are answered
 * without being executed again (C9-105, 9.4.4).
 */
#include "base/mark.h"
#include "transport/core/copy_priv.h"
#include "transport/core/journal_place_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"
#include "transport/resp/resp_priv.h"

/* ---- The room for results ---- */
static bool
res_any(const struct qp *qp)
{
	for (uint32_t i = 0; i < qp->resp.res_max; i++) {
		if (qp->resp.res[i].used)
			return true;
	}
	return false;
}

/* Move the results, with the responses that are still to be sent, into the longer array @p to, the oldest first. */
static void
res_move(struct qp *qp, struct tp_res *to)
{
	struct tp_read reads[UROCE_MAX_RD_ATOMIC];
	struct qp_responder *r = &qp->resp;
	uint64_t pending = 0;

	for (uint32_t i = 0, from = r->res_head; i < r->res_max; i++, from = from + 1 == r->res_max ? 0 : from + 1) {
		to[i] = r->res[from];
		pending |= (r->pending >> from & 1) << i;
		if (r->reads != NULL)
			reads[i] = r->reads[from];
	}
	if (r->reads != NULL)
		memcpy(r->reads, reads, r->res_max * sizeof(reads[0]));
	r->pending = pending;
	r->res_head = r->res_max;
}

/*
 * A smaller number limits what is accepted from now on, and the results stay where they are: duplicates of requests that
 * the peer was allowed to have outstanding before may still come.
 */
int
responder_set_rd_atomic(struct qp *qp, uint8_t n)
{
	struct tp_res *res = NULL;
	bool keep = res_any(qp);

	if (keep ? n > qp->resp.res_max : n != qp->resp.res_max) {
		if (n > 0 && (res = calloc(n, sizeof(*res))) == NULL)
			return ENOMEM;
		if (keep) {
			MARK("results move when max_dest_rd_atomic grows");
			res_move(qp, res);
		}
		free(qp->resp.res);
		qp->resp.res = res;
		qp->resp.res_max = n;
	}
	qp->resp.res_limit = n;
	return 0;
}

/* @return READs and atomics that were executed and not answered yet. */
static __rte_noinline uint32_t
res_unanswered(const struct qp *qp)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < qp->resp.res_max; i++)
		n += (qp->resp.pending >> i & 1) != 0 && !qp->resp.res[i].replay;
	return n;
}

/* ---- Execution ---- */
/*
 * @return the slot for a new READ or atomic, which is the oldest; NULL: the peer has more outstanding than allowed
 * (C9-95).
 */
static struct tp_res *
res_claim(struct transport *tp, struct qp *qp)
{
	struct tp_res *r;

	if (unlikely(qp->resp.res_max == 0))
		return NULL;
	r = &qp->resp.res[qp->resp.res_head];
	/* An unsent response to a duplicate is dropped: a peer that sends this request no longer waits for it. */
	if (unlikely((qp->resp.pending >> qp->resp.res_head & 1) && !r->replay) ||
	    (unlikely(qp->resp.res_limit < qp->resp.res_max) && res_unanswered(qp) >= qp->resp.res_limit)) {
		MARK("a peer has more READs and atomics outstanding than it may");
		tp->counters.resp_rd_atomic_exceeded++;
		return NULL;
	}
	return r;
}

/*
 * Get the QP a block for the READs that it is answering. With none left the peer gets an RNR NAK (a resource is not
 * ready, 9.9.3) and tries again.
 */
static bool
borrow_reads(struct transport *tp, struct qp *qp)
{
	if (likely(qp->resp.reads != NULL))
		return true;
	qp->resp.reads = share_take(tp, qp, TP_POOL_READS, &tp->read_blocks);
	MARK_IF(qp->resp.reads == NULL, "the pool of READ blocks is empty");
	tp->counters.read_no_places += qp->resp.reads == NULL;
	return qp->resp.reads != NULL;
}

/* Two READs with the same PSN and mark are most likely the same. Access is checked again anyway. */
static inline uint32_t
res_mark(uint64_t va, uint32_t rkey, uint32_t srqn)
{
	return (uint32_t)(((va + srqn) * UINT64_C(0x9e3779b97f4a7c15)) >> 32) ^ rkey;
}

/* @param packets  Of its response. */
static inline void
res_accept(struct transport *tp, struct qp *qp, struct tp_res *r, uint32_t packets, bool atomic, bool placed)
{
	r->word = tp_res_word(qp->rcv.epsn, atomic, placed);
	qp->resp.pending |= UINT64_C(1) << qp->resp.res_head;
	qp->resp.res_head = qp->resp.res_head + 1 == qp->resp.res_max ? 0 : qp->resp.res_head + 1;
	qp->rcv.epsn = wire_psn_add(qp->rcv.epsn, packets);
	/* The response acknowledges everything before it too (9.7.5.1.2). */
	if (likely(qp->rcv.nak_state == TP_NAK_NONE) || !responder_gap_remains(qp))
		qp->resp.reply = TP_REPLY_NONE;
	/* C9-148: once, when accepted. */
	qp->rcv.msn = wire_psn_add(qp->rcv.msn, 1);
	qp_reply_later(tp, qp);
}

/* What was asked for is done, and is answered by a READ response of no bytes. */
static void
res_accept_empty(struct transport *tp, struct qp *qp, struct tp_res *r)
{
	r->length = 0;
	res_accept(tp, qp, r, 1, false, true);
}

void
responder_read(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *reth = p->bthp + p->op->off_reth;
	uint64_t va = wire_get64(reth), at = va;
	uint32_t rkey = wire_get32(reth + 8), length = wire_get32(reth + 12);
	uint32_t srqn = likely(qp->prefix == WIRE_RC) ? 0 : qp->rcv.srq->srqn;
	struct tp_res *r = res_claim(tp, qp);

	tp->counters.rx_read_requests++;
	if (r == NULL || length > UROCE_MAX_MSG_BYTES) {
		responder_refuse(tp, qp, WIRE_NAK_INV_REQ, qp->rcv.epsn);
		return;
	}
	if (length > 0 && (!(qp->access & UROCE_ACCESS_REMOTE_READ) ||
			   key_opens(tp, qp, rkey, UROCE_ACCESS_REMOTE_READ, &at, length) == NULL)) {
		responder_refuse(tp, qp, WIRE_NAK_REM_ACCESS, qp->rcv.epsn);
		return;
	}
	/* Only a READ that is going to be answered takes a block. */
	if (unlikely(!borrow_reads(tp, qp))) {
		responder_not_ready(tp, qp);
		return;
	}
	qp->resp.reads[r - qp->resp.res] = (struct tp_read){ .va = va, .rkey = rkey, .cur = qp->rcv.epsn, .begins = true, .srqn = srqn };
	r->mark = res_mark(va, rkey, srqn);
	r->length = length;
	res_accept(tp, qp, r, wire_packets(length, qp->path.mtu_shift), false, false);
}

void
responder_atomic(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *eth = p->bthp + p->op->off_atomiceth;
	uint64_t va = wire_get64(eth), swap_add = wire_get64(eth + 12), compare = wire_get64(eth + 20), old;
	bool swap = WIRE_OPCODE_OP(p->bth.opcode) == WIRE_OP_CMP_SWAP;
	uint32_t rkey = wire_get32(eth + 8);
	struct mr *mr = NULL;
	struct tp_res *r;
	int rc;

	tp->counters.rx_atomic_requests++;
	r = res_claim(tp, qp);
	if (r == NULL || (va & 7) != 0) {
		responder_refuse(tp, qp, WIRE_NAK_INV_REQ, qp->rcv.epsn);
		return;
	}
	if (qp->access & UROCE_ACCESS_REMOTE_ATOMIC)
		mr = key_opens(tp, qp, rkey, UROCE_ACCESS_REMOTE_ATOMIC, &va, sizeof(uint64_t));
	if (mr == NULL)
		rc = EFAULT;
	else if (likely(qp->journal == NULL))
		rc = copy_atomic(tp, qp, mr, va, swap ? MR_CMP_SWAP : MR_FETCH_ADD, swap ? compare : swap_add, swap_add, &old);
	else
		rc = journal_atomic(tp, qp, p->bth.psn, mr, va, swap ? MR_CMP_SWAP : MR_FETCH_ADD, swap ? compare : swap_add, swap_add, &old);
	if (unlikely(rc == COPY_LATER)) {
		tp->counters.rx_atomic_requests--;
		return;
	}
	if (rc != 0) {
		responder_refuse(tp, qp, WIRE_NAK_REM_ACCESS, qp->rcv.epsn);
		return;
	}
	r->old = old;
	res_accept(tp, qp, r, 1, true, false);
}

/*
 * Annex A19: eight aligned bytes are stored at once, after everything before them. The request uses the resources of a
 * READ and is answered with an empty READ response. On mapped memory it is one store.
 */
void
responder_atomic_write(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *reth = p->bthp + p->op->off_reth;
	uint64_t va = wire_get64(reth);
	uint32_t rkey = wire_get32(reth + 8);
	struct tp_res *r = res_claim(tp, qp);
	struct mr *mr = NULL;
	int rc;

	tp->counters.rx_write_requests++;
	if (r == NULL || (va & 7) != 0 || wire_get32(reth + 12) != sizeof(uint64_t) ||
	    p->payload_bytes != sizeof(uint64_t)) {
		responder_refuse(tp, qp, WIRE_NAK_INV_REQ, qp->rcv.epsn);
		return;
	}
	if (qp->access & UROCE_ACCESS_REMOTE_WRITE)
		mr = key_opens(tp, qp, rkey, UROCE_ACCESS_REMOTE_WRITE, &va, sizeof(uint64_t));
	rc = mr == NULL ? EFAULT : journal_place(tp, qp, p->bth.psn, mr, va, p->payload, sizeof(uint64_t));
	if (unlikely(rc == COPY_LATER)) {
		tp->counters.rx_write_requests--;
		return;
	}
	if (rc != 0) {
		responder_refuse(tp, qp, WIRE_NAK_REM_ACCESS, qp->rcv.epsn);
		return;
	}
	res_accept_empty(tp, qp, r);
}

/*
 * Annex A19. WRITEs that came before are in memory already; what is left to do is that no CPU sees anything that
 * follows the FLUSH without that data. If a whole MR is flushed, address and length are ignored (as in Linux
 * rxe_resp.c). No MR of ours is persistent, so that type is never granted.
 */
void
responder_flush(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *reth = p->bthp + p->op->off_reth, *feth = p->bthp + p->op->off_feth;
	uint32_t rkey = wire_get32(reth + 8), length = wire_get32(reth + 12);
	uint8_t type = wire_feth_type(feth), level = wire_feth_level(feth);
	uint32_t access = (type & UROCE_FLUSH_GLOBAL ? UROCE_ACCESS_FLUSH_GLOBAL : 0) |
			  (type & UROCE_FLUSH_PERSISTENT ? UROCE_ACCESS_FLUSH_PERSISTENT : 0);
	struct tp_res *r = res_claim(tp, qp);
	const struct mr *mr;

	tp->counters.rx_flush_requests++;
	if (r == NULL || access == 0 || (type & ~UROCE_FLUSH_TYPES) != 0 || level > UROCE_FLUSH_MR ||
	    length > UROCE_MAX_MSG_BYTES) {
		responder_refuse(tp, qp, WIRE_NAK_INV_REQ, qp->rcv.epsn);
		return;
	}
	/* A memory window does not permit FLUSH. */
	mr = mr_get(tp->c.sh.mrs, rkey);
	if (mr != NULL && level == UROCE_FLUSH_MR)
		mr = mr_check(tp->c.sh.mrs, rkey, qp->pd, access, mr->iova, 0);
	else if (mr != NULL)
		mr = mr_check(tp->c.sh.mrs, rkey, qp->pd, access, wire_get64(reth), length);
	if (mr == NULL || (qp->access & access) != access) {
		responder_refuse(tp, qp, WIRE_NAK_REM_ACCESS, qp->rcv.epsn);
		return;
	}
	atomic_thread_fence(memory_order_seq_cst);
	res_accept_empty(tp, qp, r);
}

/* ---- Duplicates (C9-105): nothing is executed twice, errors are never NAKed ---- */
/* Search from the newest: after a wrap of the PSN an old one may have the same PSN. */
struct tp_res *
responder_res_find(struct qp *qp, uint32_t psn)
{
	uint32_t at = qp->resp.res_head;

	for (uint32_t i = 0; i < qp->resp.res_max; i++) {
		struct tp_res *r;

		at = (at == 0 ? qp->resp.res_max : at) - 1;
		r = &qp->resp.res[at];
		if (r->used && wire_psn_diff(psn, r->psn) >= 0 && wire_psn_diff(psn, res_last_psn(qp, r)) <= 0)
			return r;
	}
	return NULL;
}

/* Schedule packets nth to nth + n - 1 of a READ again, except those that will be sent anyway. */
static void
read_part_again(struct qp *qp, struct tp_res *r, const struct tp_read *again, uint32_t nth, uint32_t n)
{
	uint64_t bit = UINT64_C(1) << (r - qp->resp.res);
	struct tp_read *d = &qp->resp.reads[r - qp->resp.res];
	uint32_t bits = ((UINT32_C(1) << n) - 1) << nth, sent;

	if (qp->resp.pending & bit) {
		MARK("a part of a READ is asked for again while the READ is answered");
		sent = (d->cur - r->psn) & WIRE_PSN_MASK;
		d->again |= sent < TP_READ_CHUNK_PACKETS ? bits & ((UINT32_C(1) << sent) - 1) : bits;
		return;
	}
	*d = *again;
	d->again = bits;
	d->cur = wire_psn_add(res_last_psn(qp, r), 1);
	r->replay = true;
	qp->resp.pending |= bit;
}

/*
 * Answer a READ again: all of it, the rest, or, if the READ is no longer than a chunk, any part. When the response is
 * built, the memory is read again and the rkey checked again.
 */
bool
responder_read_again(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *reth = p->bthp + p->op->off_reth;
	struct tp_res *r = responder_res_find(qp, p->bth.psn);
	struct tp_read again = { .rkey = wire_get32(reth + 8), .cur = p->bth.psn, .begins = true,
				 .srqn = qp->prefix == WIRE_RC ? 0 : xrc_srqn(p) };
	uint32_t nth, len = wire_get32(reth + 12);
	struct tp_read *d;
	uint64_t bit, off;

	if (r == NULL || r->atomic || r->placed)
		return false;
	nth = (p->bth.psn - r->psn) & WIRE_PSN_MASK;
	off = (uint64_t)nth << qp->path.mtu_shift;
	again.va = wire_get64(reth) - off;
	if (res_mark(again.va, again.rkey, again.srqn) != r->mark || len > r->length - off) {
		MARK("a duplicate READ names other memory than the first");
		return false;
	}
	if (len < r->length - off && (len == 0 || (len & ((UINT32_C(1) << qp->path.mtu_shift) - 1)) != 0 ||
				      wire_packets(r->length, qp->path.mtu_shift) > TP_READ_CHUNK_PACKETS))
		return false;
	if (!borrow_reads(tp, qp))
		return false;
	if (len < r->length - off) {
		read_part_again(qp, r, &again, nth, len >> qp->path.mtu_shift);
		return true;
	}
	bit = UINT64_C(1) << (r - qp->resp.res);
	d = &qp->resp.reads[r - qp->resp.res];
	/* The responses still to be sent will answer it. */
	if ((qp->resp.pending & bit) && wire_psn_diff(d->cur, p->bth.psn) <= 0) {
		MARK("a READ is asked for again whose responses are still to be sent");
		return true;
	}
	/* If the response was never sent to its end, going back in it doesn't make it a replay. */
	r->replay |= (qp->resp.pending & bit) == 0;
	if ((qp->resp.pending & bit) && nth < TP_READ_CHUNK_PACKETS)
		again.again = d->again & ((UINT32_C(1) << nth) - 1);
	*d = again;
	qp->resp.pending |= bit;
	return true;
}
