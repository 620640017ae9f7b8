/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What must come of the programs, from the specification and the man pages: completions in order with the right
 * contents, each message once, memory as if the operations of a QP had been done one after the other.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum { TAIL_CHECK_BYTES = 64 };

/* ---- Bytes ---- */

bool
op_writes(const struct sim_op *op)
{
	return (op->opcode == UROCE_WR_RDMA_WRITE || op->opcode == UROCE_WR_RDMA_WRITE_WITH_IMM) &&
	       op->plant == SIM_PLANT_NONE;
}

/* Bytes [off, off + len) of the message that an operation sends. */
void
op_data(const struct sim_op *op, uint32_t off, uint32_t len, uint8_t *dst)
{
	unsigned int i;
	uint32_t n;

	if (op->copy != NULL) {
		memcpy(dst, op->copy + off, len);
		return;
	}
	for (i = 0; i < op->nsge && len != 0; i++) {
		if (off >= op->pieces[i].len) {
			off -= op->pieces[i].len;
			continue;
		}
		n = op->pieces[i].len - off < len ? op->pieces[i].len - off : len;
		memcpy(dst, op->pieces[i].p + off, n);
		dst += n;
		len -= n;
		off = 0;
	}
}

/* Scratch memory, grown as needed and kept: seeds run one after the other. */
uint8_t *
scratch(unsigned int which, uint32_t bytes)
{
	static uint8_t *buf[2];
	static uint32_t size[2];

	if (bytes > size[which]) {
		size[which] = 2 * bytes;
		free(buf[which]);
		buf[which] = malloc(size[which]);
		if (buf[which] == NULL)
			abort();
	}
	return buf[which];
}

/* [off, off + len) of the area that q writes to at its peer, after all its operations below upto. */
static uint8_t *
target_after(const struct sim_qp *q, uint32_t upto, uint32_t off, uint32_t len)
{
	uint8_t *img = scratch(0, len + 1);
	uint32_t i, from, to;

	memset(img, 0, len);
	for (i = 0; i < upto; i++) {
		const struct sim_op *op = &q->ops[i];

		if (!op_writes(op) || op->target_off >= off + len || op->target_off + op->len <= off)
			continue;
		from = op->target_off > off ? op->target_off : off;
		to = op->target_off + op->len < off + len ? op->target_off + op->len : off + len;
		op_data(op, from - op->target_off, to - from, img + (from - off));
	}
	return img;
}

/* @return true if one of q's operations [from, to) puts val at off of its target area. */
bool
may_be_written(const struct sim_qp *q, uint32_t from, uint32_t to, uint32_t off, uint8_t val)
{
	uint8_t b = 0;

	for (; from < to; from++) {
		const struct sim_op *op = &q->ops[from];

		if (!op_writes(op) || off < op->target_off || off >= op->target_off + op->len)
			continue;
		op_data(op, off - op->target_off, 1, &b);
		if (b == val)
			return true;
	}
	return false;
}

/*
 * Compare bytes that were seen in q's target area at off with what its operations below upto make of it; those in
 * [upto, later) may have been at it too. @return the first wrong byte's offset in the message, or -1.
 */
int64_t
target_compare(const struct sim_qp *q, const uint8_t *seen, uint32_t off, uint32_t len, uint32_t upto, uint32_t later)
{
	const uint8_t *img = target_after(q, upto, off, len);
	uint32_t i;

	if (memcmp(img, seen, len) == 0)
		return -1;
	for (i = 0; i < len; i++)
		if (img[i] != seen[i] && !may_be_written(q, upto, later, off + i, seen[i]))
			return i;
	return -1;
}

void
gather(const struct sim_piece *pieces, unsigned int n, uint32_t len, uint8_t *dst)
{
	unsigned int i;
	uint32_t k;

	for (i = 0; i < n && len != 0; i++) {
		k = pieces[i].len < len ? pieces[i].len : len;
		memcpy(dst, pieces[i].p, k);
		dst += k;
		len -= k;
	}
}

bool
is_zero(const uint8_t *p, uint32_t len)
{
	while (len-- != 0)
		if (*p++ != 0)
			return false;
	return true;
}

/* Zeros before and behind each piece, and in what a message of len bytes leaves of the pieces. */
bool
around_is_clean(const struct sim_piece *pieces, unsigned int n, uint32_t len)
{
	uint32_t used, rest;
	unsigned int i;

	for (i = 0; i < n; i++) {
		used = pieces[i].len < len ? pieces[i].len : len;
		rest = pieces[i].len - used < TAIL_CHECK_BYTES ? pieces[i].len - used : TAIL_CHECK_BYTES;
		if (!is_zero(pieces[i].p - SIM_CANARY_BYTES, SIM_CANARY_BYTES) ||
		    !is_zero(pieces[i].p + pieces[i].len, SIM_CANARY_BYTES) ||
		    !is_zero(pieces[i].p + used, rest))
			return false;
		len -= used;
	}
	return true;
}

/* ---- Sends ---- */

/* READ data is what was there when the READ was due, or what unfenced later WRITEs have put there since. */
static void
check_read(struct sim_world *w, struct sim_qp *q, uint32_t i)
{
	struct sim_op *op = &q->ops[i];
	uint8_t *seen = scratch(1, op->len + 1);
	uint32_t later;
	int64_t bad;

	for (later = i + 1; later < q->nb_posted && !(q->ops[later].flags & UROCE_SEND_FENCE); later++)
		;
	gather(op->pieces, op->nsge, op->len, seen);
	bad = target_compare(q, seen, op->target_off, op->len, i, later);
	if (bad >= 0)
		sim_fail(w, "QP %u: READ %u of %u bytes at %u: byte %" PRId64 " is wrong", q->id, i, op->len,
			 op->target_off, bad);
}

/* The receive that a message takes, once it is posted. */
static const struct sim_recv *
recv_of(const struct sim_qp *q, const struct sim_op *op)
{
	const struct sim_recvq *rq = q->peer->rq;

	/* Of an SRQ, and of a queue that lost messages pass by, it can be any. */
	if (rq->srq != NULL || q->params.type != UROCE_QPT_RC)
		return NULL;
	return op_consumes(op) && op->consume < rq->nb_posted ? &rq->recvs[op->consume] : NULL;
}

/* Does a SEND find the receive that was made for it wrong? The bad lkey is the last SGE's. */
static bool
recv_too_small(const struct sim_op *op, const struct sim_recv *r)
{
	return op->opcode != UROCE_WR_RDMA_WRITE_WITH_IMM && r != NULL && op->len > r->len;
}

static bool
recv_bad_lkey(const struct sim_op *op, const struct sim_recv *r, bool *must)
{
	uint32_t good = 0;
	unsigned int i;

	*must = false;
	if (r == NULL || r->plant != SIM_PLANT_RECV_LKEY)
		return false;
	for (i = 0; i + 1 < r->nsge; i++)
		good += r->pieces[i].len;
	*must = op->opcode != UROCE_WR_RDMA_WRITE_WITH_IMM && op->len > good;
	return true;
}

/* The buffer that a READ filled is used again from now on. */
static void
keep_data(struct sim_op *op)
{
	if (!op->from_read)
		return;
	op->copy = malloc(op->len + 1);
	if (op->copy == NULL)
		abort();
	gather(op->pieces, op->nsge, op->len, op->copy);
}

static void
retire_ok(struct sim_world *w, struct sim_qp *q, uint32_t i)
{
	struct sim_op *op = &q->ops[i];
	bool must;

	op->retired = true;
	op->status = UROCE_WC_SUCCESS;
	/* An unreliable sender never hears of what is wrong at the other end. */
	if (op->plant != SIM_PLANT_NONE && (q->params.type == UROCE_QPT_RC || plant_is_local(op->plant))) {
		sim_fail(w, "QP %u: send %u succeeds in spite of %s", q->id, i, plant_name(op->plant));
		return;
	}
	if (op->stale)
		sim_fail(w, "QP %u: send %u succeeds though its region was gone before", q->id, i);
	recv_bad_lkey(op, recv_of(q, op), &must);
	if (recv_too_small(op, recv_of(q, op)) || must)
		sim_fail(w, "QP %u: send %u succeeds though its receive is bad", q->id, i);
	keep_data(op);
	if (op->opcode == UROCE_WR_RDMA_READ)
		check_read(w, q, i);
	else if (ring_op_has_operands(op->opcode))
		gather(op->pieces, op->nsge, op->len, (uint8_t *)&op->old);
	else
		return;
	if (!around_is_clean(op->pieces, op->nsge, op->len))
		sim_fail(w, "QP %u: %u wrote beside its buffer", q->id, i);
}

bool
qp_cq_dead(const struct sim_qp *q)
{
	return q->send_cq->dead || q->recv_cq->dead;
}

/* @return true if there is any reason for q to be in ERR. */
static bool
may_be_in_err(const struct sim_world *w, const struct sim_qp *q)
{
	const struct sim_qp *p = q->peer;

	if (q->local_dereg != NULL || qp_cq_dead(q))
		return true;
	/* Without a connection the two ends have nothing to do with each other. */
	if (q->params.type != UROCE_QPT_RC)
		return client_dead(q) || q->planted_local || (w->cfg.faults & SIM_F_PLANT_RECV);
	return client_dead(q) || w->cfg.harsh || q->planted_local || q->planted_remote || p->planted_remote ||
	       p->local_dereg != NULL || qp_cq_dead(p) || q->attr.rnr_retry < 7 || p->attr.rnr_retry < 7 ||
	       (w->cfg.faults & SIM_F_PLANT_RECV) || client_dead(p) || p->planted_local || q->target_mr.mr == NULL ||
	       p->target_mr.mr == NULL;
}

static bool
retries_may_run_out(const struct sim_world *w, const struct sim_qp *q, const struct sim_op *op)
{
	const struct sim_qp *p = q->peer;

	if (w->cfg.harsh)
		return true;
	/* On a good network the NAK arrives before the peer falls silent. */
	if (q->params.type != UROCE_QPT_RC)
		return false;
	if (w->cfg.lossless && p->attr.rnr_retry == 7 && !p->client_err && !p->planted_local && !p->planted_remote &&
	    !qp_cq_dead(p) && !(w->cfg.faults & (SIM_F_PLANT_RECV | SIM_F_DEREG)))
		return false;
	/* A READ that is asked for again is not refused if its region has gone meanwhile, but dropped (C9-105). */
	if (p->target_mr.mr == NULL && op->opcode == UROCE_WR_RDMA_READ)
		return true;
	return client_dead(p) || p->qp == NULL || qp_state(p->qp) == UROCE_QPS_ERR;
}

static bool
status_is_possible(const struct sim_world *w, const struct sim_qp *q, const struct sim_op *op, uint8_t status)
{
	const struct sim_recv *r = recv_of(q, op);
	const struct sim_recvq *rq = q->peer->rq;
	bool must, srq = rq->srq != NULL && (w->cfg.faults & SIM_F_PLANT_RECV),
		   reliable = q->params.type == UROCE_QPT_RC;

	switch (status) {
	case UROCE_WC_WR_FLUSH_ERR:
		return may_be_in_err(w, q);
	case UROCE_WC_LOC_LEN_ERR:
		return op->plant == SIM_PLANT_UD_LENGTH;
	case UROCE_WC_LOC_PROT_ERR:
		if (q->local_dereg == (op_brings(op) ? &q->dest_mr : &q->src_mr) ||
		    (op->from_read && q->local_dereg == &q->dest_mr))
			return op->len != 0 && !(op->flags & UROCE_SEND_INLINE);
		return op->plant == SIM_PLANT_LKEY || op->plant == SIM_PLANT_LKEY_STALE ||
		       op->plant == SIM_PLANT_LKEY_RANGE || op->plant == SIM_PLANT_LKEY_NOWRITE;
	case UROCE_WC_LOC_QP_OP_ERR:
		return op->plant == SIM_PLANT_OPCODE || op->plant == SIM_PLANT_SGES ||
		       op->plant == SIM_PLANT_INLINE || op->plant == SIM_PLANT_AH;
	case UROCE_WC_REM_ACCESS_ERR:
		if (!reliable)
			return false;
		return op->plant == SIM_PLANT_RKEY || op->plant == SIM_PLANT_RKEY_STALE ||
		       op->plant == SIM_PLANT_RKEY_RANGE || op->plant == SIM_PLANT_RKEY_ACCESS ||
		       op->plant == SIM_PLANT_RKEY_PD || op->plant == SIM_PLANT_QP_ACCESS ||
		       (q->peer->target_mr.mr == NULL && op->len != 0 && !ring_op_has_operands(op->opcode) &&
			op->opcode != UROCE_WR_SEND && op->opcode != UROCE_WR_SEND_WITH_IMM);
	case UROCE_WC_REM_INV_REQ_ERR:
		return reliable &&
		       (op->plant == SIM_PLANT_MISALIGNED || recv_too_small(op, r) || (srq && op_consumes(op)));
	case UROCE_WC_REM_OP_ERR:
		return recv_bad_lkey(op, r, &must) || (reliable && op_consumes(op) && op->len != 0 &&
						       (srq || q->peer->local_dereg == &rq->mr));
	case UROCE_WC_RETRY_EXC_ERR:
		return retries_may_run_out(w, q, op);
	case UROCE_WC_RNR_RETRY_EXC_ERR:
		return reliable && q->attr.rnr_retry < 7 && op_consumes(op);
	}
	return false;
}

static bool
wc_opcode_fits(const struct sim_op *op, uint8_t wc_opcode)
{
	switch (op->opcode) {
	case UROCE_WR_SEND:
	case UROCE_WR_SEND_WITH_IMM:
		return wc_opcode == UROCE_WC_SEND;
	case UROCE_WR_RDMA_WRITE:
	case UROCE_WR_RDMA_WRITE_WITH_IMM:
		return wc_opcode == UROCE_WC_RDMA_WRITE;
	case UROCE_WR_RDMA_READ:
		return wc_opcode == UROCE_WC_RDMA_READ;
	case UROCE_WR_ATOMIC_CMP_AND_SWP:
		return wc_opcode == UROCE_WC_COMP_SWAP;
	case UROCE_WR_ATOMIC_FETCH_AND_ADD:
		return wc_opcode == UROCE_WC_FETCH_ADD;
	}
	return false;
}

static void
send_error(struct sim_world *w, struct sim_qp *q, uint32_t i, uint8_t status, uint8_t vendor_err)
{
	struct sim_op *op = &q->ops[i];

	op->retired = true;
	op->status = status;
	keep_data(op);
	if (!status_is_possible(w, q, op, status))
		sim_fail(w, "QP %u: send %u (opcode %u, %u bytes, plant %s) ends with status %u, vendor error %u",
			 q->id, i, op->opcode, op->len, plant_name(op->plant), status, vendor_err);
	if (status == UROCE_WC_WR_FLUSH_ERR) {
		q->sq_flush = true;
		w->stats.flushed++;
		return;
	}
	if (q->sq_error || q->sq_flush)
		sim_fail(w, "QP %u: send %u ends with status %u after an error", q->id, i, status);
	q->sq_error = true;
	q->first_status = status;
	w->stats.errors++;
}

static void
send_cqe(struct sim_world *w, struct sim_qp *q, const struct ring_cqe *e, union ring_cqe_ctl ctl)
{
	uint32_t i = q->nb_retired + (uint16_t)(ctl.wqe_counter - q->sq_base - q->nb_retired), j;
	const struct sim_op *op = &q->ops[i];

	if (i >= q->nb_posted) {
		sim_fail(w, "QP %u: completion of send %u, posted are %u, complete %u", q->id, i, q->nb_posted,
			 q->nb_retired);
		return;
	}
	if (e->wr_id != op->wr_id)
		sim_fail(w, "QP %u: send %u completes with wr_id 0x%" PRIx64, q->id, i, e->wr_id);
	for (j = q->nb_retired; j < i; j++) {
		if ((q->ops[j].flags & UROCE_SEND_SIGNALED) || q->params.sq_sig_all || q->sq_error || q->sq_flush)
			sim_fail(w, "QP %u: send %u completes, but not %u before it", q->id, i, j);
		retire_ok(w, q, j);
	}
	q->nb_retired = i + 1;
	if (e->status != UROCE_WC_SUCCESS) {
		send_error(w, q, i, e->status, ctl.vendor_err);
		return;
	}
	if (q->sq_error || q->sq_flush)
		sim_fail(w, "QP %u: send %u succeeds after an error", q->id, i);
	if (q->sqd_waiting && q->drained && (int32_t)(q->send_cq->ring.counter - q->drained_at) >= 0 &&
	    qp_state(q->qp) == UROCE_QPS_SQD)
		sim_fail(w, "QP %u: send %u completes after the SQ was drained", q->id, i);
	if (!(op->flags & UROCE_SEND_SIGNALED) && !q->params.sq_sig_all)
		sim_fail(w, "QP %u: unsignalled send %u completes", q->id, i);
	if (!wc_opcode_fits(op, e->opcode) && op->plant != SIM_PLANT_OPCODE)
		sim_fail(w, "QP %u: send %u of opcode %u completes with opcode %u", q->id, i, op->opcode, e->opcode);
	if ((op->opcode == UROCE_WR_RDMA_READ || ring_op_has_operands(op->opcode)) && e->byte_len != op->len)
		sim_fail(w, "QP %u: send %u of %u bytes completes with byte_len %u", q->id, i, op->len, e->byte_len);
	retire_ok(w, q, i);
}

/* ---- Receives ---- */

/* The data of all WRITEs before and with message s is visible once s has arrived. */
static void
check_visible(struct sim_world *w, struct sim_qp *from, uint32_t first, uint32_t s)
{
	const struct sim_qp *q = from->peer;
	uint32_t i;
	int64_t bad;

	for (i = first; i <= s; i++) {
		const struct sim_op *op = &from->ops[i];

		if (!op_writes(op))
			continue;
		bad = target_compare(from, q->target_mr.base + op->target_off, op->target_off, op->len, s + 1,
				     from->nb_posted);
		if (bad >= 0)
			sim_fail(w, "QP %u: message %u is there, but byte %" PRId64 " of WRITE %u isn't", from->id, s,
				 bad, i);
	}
}

static void
check_message(struct sim_world *w, struct sim_qp *q, const struct sim_recv *r, const struct sim_op *op, uint32_t s)
{
	uint8_t *want = scratch(0, op->len + 1), *seen = scratch(1, op->len + 1);
	uint32_t i, placed = op->opcode == UROCE_WR_RDMA_WRITE_WITH_IMM ? 0 : op->len;

	op_data(op, 0, placed, want);
	gather(r->pieces, r->nsge, placed, seen);
	if (memcmp(want, seen, placed) != 0) {
		for (i = 0; want[i] == seen[i]; i++)
			;
		sim_fail(w, "QP %u: byte %u of %u of message %u is wrong", q->id, i, op->len, s);
	}
	if (!around_is_clean(r->pieces, r->nsge, placed))
		sim_fail(w, "QP %u: message %u wrote beside its receive buffer", q->id, s);
}

static uint32_t
next_message(const struct sim_qp *q)
{
	uint32_t s = q->rx_op;

	while (s < q->peer->nb_posted && !op_consumes(&q->peer->ops[s]))
		s++;
	return s;
}

static void
recv_ok(struct sim_world *w, struct sim_qp *q, const struct sim_recv *r, const struct ring_cqe *e,
	union ring_cqe_ctl ctl)
{
	uint32_t s = next_message(q);
	const struct sim_op *op = &q->peer->ops[s];
	bool write = op->opcode == UROCE_WR_RDMA_WRITE_WITH_IMM, imm = write || op->opcode == UROCE_WR_SEND_WITH_IMM;
	bool must;

	if (q->rq_error || q->rq_flush)
		sim_fail(w, "QP %u: a receive succeeds after an error", q->id);
	if (s >= q->peer->nb_posted) {
		sim_fail(w, "QP %u: a message arrives that wasn't sent", q->id);
		return;
	}
	recv_bad_lkey(op, r, &must);
	if (op->plant != SIM_PLANT_NONE || recv_too_small(op, r) || must)
		sim_fail(w, "QP %u: message %u arrives in spite of its error", q->id, s);
	if (e->opcode != (write ? UROCE_WC_RECV_RDMA_WITH_IMM : UROCE_WC_RECV))
		sim_fail(w, "QP %u: message %u of opcode %u arrives with opcode %u", q->id, s, op->opcode, e->opcode);
	if (e->byte_len != op->len)
		sim_fail(w, "QP %u: message %u of %u bytes arrives with byte_len %u", q->id, s, op->len, e->byte_len);
	if (((ctl.wc_flags & UROCE_WC_WITH_IMM) != 0) != imm || (imm && e->imm != op->imm))
		sim_fail(w, "QP %u: message %u: immediate is wrong", q->id, s);
	if (ctl.solicited != ((op->flags & UROCE_SEND_SOLICITED) != 0))
		sim_fail(w, "QP %u: message %u: solicited bit is wrong", q->id, s);
	if (w->failed)
		return;
	check_message(w, q, r, op, s);
	check_visible(w, q->peer, q->rx_op, s);
	q->rx_op = s + 1;
	q->nb_messages++;
}

static void
recv_error(struct sim_world *w, struct sim_qp *q, const struct sim_recv *r, uint8_t status, uint8_t vendor_err)
{
	uint32_t s = next_message(q);
	const struct sim_op *op = &q->peer->ops[s];
	bool possible = false, must;

	if (status == UROCE_WC_WR_FLUSH_ERR) {
		possible = may_be_in_err(w, q);
		q->rq_flush = true;
		w->stats.flushed++;
	} else {
		if (q->rq_error || q->rq_flush)
			sim_fail(w, "QP %u: receive 0x%" PRIx64 " ends with status %u after an error", q->id, r->wr_id,
				 status);
		if (q->params.type != UROCE_QPT_RC)
			possible = unreliable_recv_error_possible(q, r, status);
		else if (s < q->peer->nb_posted && status == UROCE_WC_LOC_LEN_ERR)
			possible = recv_too_small(op, r);
		else if (s < q->peer->nb_posted && status == UROCE_WC_LOC_PROT_ERR)
			possible = recv_bad_lkey(op, r, &must) || (q->local_dereg == &q->rq->mr && op->len != 0);
		q->rq_error = true;
		w->stats.errors++;
	}
	if (!possible)
		sim_fail(w, "QP %u: receive 0x%" PRIx64 " (plant %s) ends with status %u, vendor error %u", q->id,
			 r->wr_id, plant_name(r->plant), status, vendor_err);
}

static void
recv_cqe(struct sim_world *w, struct sim_qp *q, const struct ring_cqe *e, union ring_cqe_ctl ctl)
{
	const struct sim_recv *r = recvq_complete(w, q, e, ctl.wqe_counter);

	/* Of a QP that was reset only the buffer comes back. */
	if (r == NULL || q->abandoned)
		return;
	if (e->status != UROCE_WC_SUCCESS)
		recv_error(w, q, r, e->status, ctl.vendor_err);
	else if (q->params.type == UROCE_QPT_RC)
		recv_ok(w, q, r, e, ctl);
	else
		unreliable_recv_ok(w, q, r, e, ctl);
}

void
model_cqe(struct sim_world *w, struct sim_cq *c, const struct ring_cqe *e, union ring_cqe_ctl ctl)
{
	struct sim_ep *ep = c->ep;
	uint32_t i;

	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->ep != ep || q->qpn != e->qpn)
			continue;
		sim_trace(w, "QP %u: %s %u completes: status %u opcode %u byte_len %u", q->id,
			  ctl.is_recv ? "receive" : "send", ctl.wqe_counter, e->status, e->opcode, e->byte_len);
		if ((ctl.is_recv ? q->recv_cq : q->send_cq) != c)
			sim_fail(w, "QP %u: %s completes in another CQ", q->id, ctl.is_recv ? "receive" : "send");
		/* Programs skip what is left in the CQ of a QP that they have reset. */
		if ((!ctl.is_recv || q->rq == &q->own_rq) &&
		    (q->abandoned || e->wr_id >> SIM_WR_ID_ROUND_SHIFT != q->round))
			return;
		if (w->conns[i / 2].done)
			sim_fail(w, "QP %u: completion after its end", q->id);
		else if (ctl.is_recv)
			recv_cqe(w, q, e, ctl);
		else
			send_cqe(w, q, e, ctl);
		return;
	}
	sim_fail(w, "endpoint %u: completion of unknown QP 0x%06x", ep->id, e->qpn);
}

/* ---- Events ---- */

/* @return the counter of the CQE that will be written next. */
static uint32_t
cq_written(const struct sim_cq *c)
{
	union ring_cqe_ctl ctl;
	uint32_t n = c->ring.counter;

	while (n - c->ring.counter < 1u << c->ring.order && ring_cq_ready(&c->ring, n, &ctl))
		n++;
	return n;
}

void
model_event(struct sim_world *w, struct sim_qp *q, enum uroce_event type)
{
	if (q == NULL || type > UROCE_EVENT_GID_CHANGE) {
		sim_fail(w, "event %d without a QP", type);
		return;
	}
	sim_trace(w, "QP %u: event %d", q->id, type);
	q->events[type]++;
	switch (type) {
	case UROCE_EVENT_SQ_DRAINED:
		if (!q->sqd_waiting || q->drained)
			sim_fail(w, "QP %u: SQ drained, but nobody waits for that", q->id);
		q->drained = true;
		q->drained_at = cq_written(q->send_cq);
		break;
	case UROCE_EVENT_COMM_EST:
		if (q->events[type] > 1)
			sim_fail(w, "QP %u: communication established twice", q->id);
		break;
	case UROCE_EVENT_QP_LAST_WQE_REACHED:
		if (q->rq == &q->own_rq || q->events[type] > 1 || !(may_be_in_err(w, q) || q->finalized))
			sim_fail(w, "QP %u: last WQE reached, time %u", q->id, q->events[type]);
		break;
	case UROCE_EVENT_QP_FATAL:
	case UROCE_EVENT_QP_REQ_ERR:
	case UROCE_EVENT_QP_ACCESS_ERR:
		if (!may_be_in_err(w, q))
			sim_fail(w, "QP %u: event %d without a reason", q->id, type);
		break;
	default:
		sim_fail(w, "QP %u: unexpected event %d", q->id, type);
		break;
	}
}

/* Only a CQ whose every slot holds a completion that its client hasn't polled may overrun. */
void
model_cq_error(struct sim_world *w, struct sim_cq *c)
{
	uint32_t size = 1u << c->ring.order, n = 0;
	union ring_cqe_ctl ctl;

	sim_trace(w, "endpoint %u: a CQ of %u overruns", c->ep->id, size);
	while (n < size && ring_cq_ready(&c->ring, c->ring.counter + n, &ctl))
		n++;
	if (n != size)
		sim_fail(w, "endpoint %u: a CQ with %u of %u completions overruns", c->ep->id, n, size);
	if (c->dead)
		sim_fail(w, "endpoint %u: a CQ overruns twice", c->ep->id);
	c->dead = true;
}

/* ---- The end ---- */

static void
qp_end(struct sim_world *w, struct sim_qp *q)
{
	struct sim_qp *p = q->peer;
	uint32_t good = 0, i;
	int64_t bad;

	if (!is_zero(q->noaccess_mr.base, q->noaccess_mr.len) || !is_zero(q->other_pd_mr.base, q->other_pd_mr.len))
		sim_fail(w, "QP %u: the peer wrote where it may not", q->id);
	if (q->params.type != UROCE_QPT_RC) {
		unreliable_end(w, q);
		return;
	}
	for (i = 0; i < q->nb_posted; i++)
		if (q->ops[i].status == UROCE_WC_SUCCESS)
			good = i + 1;
	for (i = p->rx_op; i < good && !p->abandoned; i++)
		if (op_consumes(&q->ops[i]))
			sim_fail(w, "QP %u: message %u is acknowledged, but the peer hasn't got it", q->id, i);
	bad = target_compare(q, p->target_mr.base, 0, p->target_mr.len, good, q->nb_posted);
	if (bad >= 0)
		sim_fail(w, "QP %u: byte %" PRId64 " of its target area is wrong", q->id, bad);
}

void
model_conn_end(struct sim_world *w, struct sim_conn *c)
{
	qp_end(w, &c->qp[0]);
	qp_end(w, &c->qp[1]);
	sim_trace(w, "connection %u ends", c->id);
}

struct must_be_zero {
	const char *name;
	size_t offset;
};
#define Z(name) { #name, offsetof(struct tp_counters, name) }

static void
check_zero(struct sim_world *w, const struct must_be_zero *z, size_t n)
{
	const struct sim_engine *e;
	uint64_t value;
	uint32_t ep;
	size_t i;

	for (ep = 0; ep < w->cfg.nb_eps; ep++) {
		for (e = w->eps[ep].engines; e < w->eps[ep].engines + w->eps[ep].nb_engines; e++) {
			for (i = 0; i < n; i++) {
				memcpy(&value, (const char *)transport_counters(e->tp) + z[i].offset, sizeof(value));
				if (value != 0)
					sim_fail(w, "endpoint %u: counter %s is %" PRIu64 ", must be 0", ep, z[i].name,
						 value);
			}
		}
	}
}

/*
 * Reordered or repeated, but all there: NAKs are enough to get on. But for one case: of the packets that are sent again
 * behind a gap one overtakes another again; a responder asks once for a gap (9.7.5.2.8).
 */
static void
check_few_timeouts(struct sim_world *w)
{
	enum { NAKS_PER_TIMEOUT = 4, TIMEOUTS_FREE = 2 };
	uint64_t naks = 0, timeouts = 0;
	uint32_t ep, i;

	for (ep = 0; ep < w->cfg.nb_eps; ep++) {
		for (i = 0; i < w->eps[ep].nb_engines; i++) {
			const struct tp_counters *c = transport_counters(w->eps[ep].engines[i].tp);

			naks += c->packet_seq_err + c->implied_nak_seq_err;
			timeouts += c->local_ack_timeout_err;
		}
	}
	if (timeouts > TIMEOUTS_FREE + naks / NAKS_PER_TIMEOUT)
		sim_fail(w, "%" PRIu64 " ACK timeouts, %" PRIu64 " NAKs, though nothing was lost", timeouts, naks);
}

#define CHECK_ZERO(w, z) check_zero(w, z, sizeof(z) / sizeof((z)[0]))

static void
check_counters(struct sim_world *w)
{
	static const struct must_be_zero always[] = {
		Z(rx_multi_segment), Z(cq_events_lost), Z(rx_handoff_dropped), Z(rx_ud_length),
		Z(resp_rd_atomic_exceeded),
	};
	static const struct must_be_zero polled[] = { Z(cq_overrun) };
	static const struct must_be_zero reliable[] = { Z(rx_ud_no_wqe), Z(rx_uc_no_wqe), Z(rx_uc_gap), Z(rx_uc_rest),
							Z(rx_bad_qkey) };
	static const struct must_be_zero right_qkey[] = { Z(rx_bad_qkey) };
	static const struct must_be_zero one_engine[] = { Z(rx_handoff) };
	static const struct must_be_zero enough[] = { Z(tx_no_mbuf) };
	static const struct must_be_zero undamaged[] = {
		Z(rx_not_roce), Z(rx_truncated), Z(rx_bad_ip), Z(rx_bad_udp_sum), Z(rx_bad_opcode), Z(rx_bad_tver),
		Z(rx_bad_length), Z(rx_icrc_encapsulated), Z(rx_bad_pkey), Z(rx_wrong_service),
		Z(rx_bad_response),
	};
	static const struct must_be_zero nothing_lost[] = { Z(local_ack_timeout_err), Z(retry_exceeded_err) };
	static const struct must_be_zero same_peer[] = { Z(rx_bad_address) };
	static const struct must_be_zero clean[] = {
		Z(packet_seq_err), Z(implied_nak_seq_err), Z(duplicate_request), Z(rx_ghost_ack),
	};
	static const struct must_be_zero alive[] = {
		/* Behind an RNR NAK that an error has kept from being sent, packets are out of sequence too. */
		Z(out_of_sequence), Z(local_ack_timeout_err), Z(retry_exceeded_err), Z(retransmitted_packets),
		Z(req_cqe_error),   Z(resp_cqe_error),        Z(rx_unknown_qp),      Z(rx_wrong_state),
	};
	bool rnr = false;
	uint32_t ep, i;

	for (ep = 0; ep < w->cfg.nb_eps; ep++)
		for (i = 0; i < w->eps[ep].nb_engines; i++)
			rnr |= transport_counters(w->eps[ep].engines[i].tp)->rnr_nak_sent != 0 ||
			       transport_counters(w->eps[ep].engines[i].tp)->tail_loss_probes != 0;
	if (w->hostile)
		return;
	CHECK_ZERO(w, always);
	if (!(w->cfg.faults & SIM_F_CQ_SMALL))
		CHECK_ZERO(w, polled);
	if (!(w->cfg.faults & SIM_F_UNRELIABLE))
		CHECK_ZERO(w, reliable);
	if (!(w->cfg.faults & SIM_F_PLANT_REMOTE))
		CHECK_ZERO(w, right_qkey);
	if (!(w->cfg.faults & SIM_F_ENGINES))
		CHECK_ZERO(w, one_engine);
	if (!(w->cfg.faults & SIM_F_NO_MBUF))
		CHECK_ZERO(w, enough);
	if (!(w->cfg.faults & SIM_F_CORRUPT))
		CHECK_ZERO(w, undamaged);
	if (!(w->cfg.faults & (SIM_F_CORRUPT | SIM_F_RECONNECT)))
		CHECK_ZERO(w, same_peer);
	if (!(w->cfg.faults & (SIM_F_LOSE | SIM_F_ENDS | SIM_F_STALL | SIM_F_NO_MBUF | SIM_F_SLOW_TX)) &&
	    !w->cfg.harsh) {
		if ((w->cfg.faults & SIM_F_REORDER) && !w->cfg.reorder_once)
			check_few_timeouts(w);
		else
			CHECK_ZERO(w, nothing_lost);
	}
	/* Packets that are late, or of the connection before, look lost; what was sent again early may have been late only. */
	if ((w->cfg.faults & (SIM_F_LINK | SIM_F_STALL | SIM_F_NO_MBUF | SIM_F_SLOW_TX)) || rnr || w->cfg.harsh)
		return;
	CHECK_ZERO(w, clean);
	if (!(w->cfg.faults & SIM_F_ENDS))
		CHECK_ZERO(w, alive);
}

void
model_world_end(struct sim_world *w)
{
	uint32_t ep, i;

	check_counters(w);
	for (ep = 0; ep < w->cfg.nb_eps; ep++) {
		struct sim_ep *e = &w->eps[ep];

		atomics_check(w, ep);
		for (i = 0; i < e->nb_engines; i++)
			if (transport_next_timeout(e->engines[i].tp) != UINT64_MAX)
				sim_fail(w, "endpoint %u: a timer runs though no QP is left", ep);
		if (qp_table_count(e->qps) != 0)
			sim_fail(w, "endpoint %u: %u QPs left", ep, qp_table_count(e->qps));
		for (i = 0; i < e->nb_cqs; i++)
			if (cq_users(e->cqs[i].cq) != 0)
				sim_fail(w, "endpoint %u: a CQ is still in use", ep);
		for (i = 0; i < e->nb_srqs; i++)
			srq_check_end(w, &e->srqs[i]);
	}
}
