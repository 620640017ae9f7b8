/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions of sends: in order, with the right contents, an error only with a cause. */
#include <inttypes.h>
#include <stdlib.h>

#include "model.h"

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
	windows_retire(q, op);
	/* An unreliable sender never hears of what is wrong at the other end. */
	if (op->plant != SIM_PLANT_NONE && (q->conn->type == UROCE_QPT_RC || plant_is_local(op->plant))) {
		sim_fail(w, "QP %u: send %u succeeds in spite of %s", q->id, i, plant_name(op->plant));
		return;
	}
	if (op->stale)
		sim_fail(w, "QP %u: send %u succeeds though its region was gone before", q->id, i);
	recv_bad_lkey(op, recv_of(q, op), &must);
	if (recv_too_small(op, recv_of(q, op)) || must)
		sim_fail(w, "QP %u: send %u succeeds though its receive is bad", q->id, i);
	paths_retired(w, q, op);
	keep_data(op);
	if (op->huge) {
		huge_check(w, q, op);
		return;
	}
	if (op->opcode == UROCE_WR_RDMA_READ)
		check_read(w, q, i);
	else if (op_atomic(op))
		gather(op->pieces, op->nsge, op->len, (uint8_t *)&op->old);
	else
		return;
	if (!around_is_clean(op->pieces, op->nsge, op->len))
		sim_fail(w, "QP %u: %u wrote beside its buffer", q->id, i);
}

static void
send_error(struct sim_world *w, struct sim_qp *q, uint32_t i, uint8_t status, uint8_t vendor_err)
{
	struct sim_op *op = &q->ops[i];

	op->retired = true;
	op->status = status;
	windows_retire(q, op);
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
	tally_error(q, status);
	q->sq_error = true;
	q->first_status = status;
	w->stats.errors++;
}

void
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
		qp_sqe_flushed(q);
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
	if (op_brings(op) && e->byte_len != op->len)
		sim_fail(w, "QP %u: send %u of %u bytes completes with byte_len %u", q->id, i, op->len, e->byte_len);
	retire_ok(w, q, i);
}
