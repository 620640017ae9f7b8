/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions of receives: each message once and in order, its bytes and those of the WRITEs before it in place. */
#include <inttypes.h>
#include <string.h>

#include "model.h"

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
	uint32_t i, placed = op->opcode == UROCE_WR_RDMA_WRITE_WITH_IMM ? 0 : op->len;
	uint8_t *want = scratch(0, placed + 1), *seen = scratch(1, placed + 1);

	op_data(op, 0, placed, want);
	gather(r->pieces, r->nsge, placed, seen);
	if (memcmp(want, seen, placed) != 0) {
		for (i = 0; want[i] == seen[i]; i++)
			;
		sim_fail(w, "QP %u: byte %u of %u of message %u is wrong", q->id, i, op->len, s);
	}
	/* Another one may have been placed there in a turn that didn't count. */
	if ((w->cfg.faults & SIM_F_CRASH) && (w->cfg.faults & (SIM_F_SRQ | SIM_F_XRC)) && q->ep->restarts != 0)
		placed = r->len;
	if (!around_is_clean(r->pieces, r->nsge, placed))
		sim_fail(w, "QP %u: message %u wrote beside its receive buffer", q->id, s);
}

/* @param xrq  XRC: the SRQ that received; messages of several are seen in the order of their CQs' polling. */
static uint32_t
next_message(const struct sim_qp *q, const struct sim_recvq *xrq)
{
	uint32_t s = xrq != NULL ? q->xsrq[xrq - q->ep->xsrqs].rx_op : q->rx_op;

	while (s < q->peer->nb_posted &&
	       !(op_consumes(&q->peer->ops[s]) && (xrq == NULL || q->peer->ops[s].srqn == xrq->srqn)))
		s++;
	return s;
}

static void
recv_ok(struct sim_world *w, struct sim_qp *q, const struct sim_recvq *xrq, const struct sim_recv *r,
	const struct ring_cqe *e, union ring_cqe_ctl ctl)
{
	uint32_t s = next_message(q, xrq), *rx_op = xrq != NULL ? &q->xsrq[xrq - q->ep->xsrqs].rx_op : &q->rx_op;
	const struct sim_op *op = &q->peer->ops[s];
	bool write = op->opcode == UROCE_WR_RDMA_WRITE_WITH_IMM, inv = op->opcode == UROCE_WR_SEND_WITH_INV;
	bool imm = write || op->opcode == UROCE_WR_SEND_WITH_IMM;
	bool must;

	if (xrq != NULL ? q->xsrq[xrq - q->ep->xsrqs].ended : q->rq_error || q->rq_flush)
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
	if (((ctl.wc_flags & UROCE_WC_WITH_IMM) != 0) != imm || ((ctl.wc_flags & UROCE_WC_WITH_INV) != 0) != inv ||
	    ((imm || inv) && e->imm != op->imm))
		sim_fail(w, "QP %u: message %u: immediate or invalidated key is wrong", q->id, s);
	if (ctl.solicited != ((op->flags & UROCE_SEND_SOLICITED) != 0))
		sim_fail(w, "QP %u: message %u: solicited bit is wrong", q->id, s);
	if (w->failed)
		return;
	check_message(w, q, r, op, s);
	check_visible(w, q->peer, *rx_op, s);
	windows_invalidated(q, op);
	*rx_op = s + 1;
	q->nb_messages++;
}

static void
recv_error(struct sim_world *w, struct sim_qp *q, const struct sim_recvq *xrq, const struct sim_recv *r, uint8_t status,
	   uint8_t vendor_err)
{
	uint32_t s = next_message(q, xrq);
	const struct sim_op *op = &q->peer->ops[s];
	bool possible = false, must;

	if (xrq != NULL)
		q->xsrq[xrq - q->ep->xsrqs].ended = true;
	if (status == UROCE_WC_WR_FLUSH_ERR) {
		possible = may_be_in_err(w, q);
		q->rq_flush = true;
		w->stats.flushed++;
	} else {
		if (q->rq_error || q->rq_flush)
			sim_fail(w, "QP %u: receive 0x%" PRIx64 " ends with status %u after an error", q->id, r->wr_id,
				 status);
		if (q->conn->type != UROCE_QPT_RC)
			possible = unreliable_recv_error_possible(q, r, status);
		else if (s < q->peer->nb_posted && status == UROCE_WC_LOC_LEN_ERR)
			possible = recv_too_small(op, r);
		else if (s < q->peer->nb_posted && status == UROCE_WC_LOC_PROT_ERR)
			possible = recv_bad_lkey(op, r, &must) || (q->local_dereg == &q->rq->mr && op->len != 0);
		else if (s < q->peer->nb_posted && status == UROCE_WC_REM_INV_REQ_ERR)
			possible = op->plant == SIM_PLANT_INV;
		q->rq_error = true;
		w->stats.errors++;
	}
	if (!possible)
		sim_fail(w, "QP %u: receive 0x%" PRIx64 " (plant %s) ends with status %u, vendor error %u", q->id,
			 r->wr_id, plant_name(r->plant), status, vendor_err);
}

void
recv_cqe(struct sim_world *w, struct sim_qp *q, const struct ring_cqe *e, union ring_cqe_ctl ctl)
{
	const struct sim_recv *r = recvq_complete(w, q, e, ctl.wqe_counter);
	const struct sim_recvq *xrq = q->conn->xrc ? xrc_recvq(q->ep, ctl.wqe_counter) : NULL;

	/* Of a QP that was reset only the buffer comes back. */
	if (r == NULL || q->abandoned)
		return;
	if (e->status != UROCE_WC_SUCCESS)
		recv_error(w, q, xrq, r, e->status, ctl.vendor_err);
	else if (q->conn->type == UROCE_QPT_RC)
		recv_ok(w, q, xrq, r, e, ctl);
	else
		unreliable_recv_ok(w, q, r, e, ctl);
}
