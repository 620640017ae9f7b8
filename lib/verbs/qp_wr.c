/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ibv_wr_*: building work requests in place. ibv_wr_start() takes the SQ's lock; each opcode function begins the next
 * slot, the setters fill it in; ibv_wr_complete() publishes all WRs or, if anything was wrong, none.
 *
 * Until then a slot's control word has phase 0, so engines don't consider it posted.
 */
#include "verbs/client_priv.h"

#include <stddef.h>

static struct client_qp *
to_builder(struct ibv_qp_ex *qp)
{
	return (struct client_qp *)qp;
}

/* Store the control word of the slot under construction, without its phase. */
static void
close_slot(struct client_qp *qp)
{
	if (qp->wr_cur)
		atomic_store_explicit(&qp->wr_cur->ctl, qp->wr_ctl.word, memory_order_relaxed);
	qp->wr_cur = NULL;
}

/* Begin a WR. @return its slot, or NULL if the list is in error. */
static struct ring_sq_wqe *
open_slot(struct ibv_qp_ex *ibqp, enum uroce_wr_op op, uint32_t imm_or_key)
{
	struct client_qp *qp = to_builder(ibqp);

	close_slot(qp);
	if (!qp->wr_err && !client_sq_room(qp, qp->wr_next))
		qp->wr_err = ENOMEM;
	if (qp->wr_err)
		return NULL;
	qp->wr_cur = ring_slot(&qp->sq, qp->wr_next++);
	qp->wr_ctl = (union ring_sq_ctl){ .opcode = op };
	qp->wr_ctl.flags = ibqp->wr_flags & (UROCE_SEND_FENCE | UROCE_SEND_SIGNALED | UROCE_SEND_SOLICITED);
	qp->wr_cur->wr_id = ibqp->wr_id;
	wqe_put_imm(qp->wr_cur, imm_or_key);
	return qp->wr_cur;
}

static void
wr_start(struct ibv_qp_ex *ibqp)
{
	struct client_qp *qp = to_builder(ibqp);

	client_lock(&qp->sq_lock);
	qp->wr_next = qp->sq.counter;
	qp->wr_cur = NULL;
	/* In RESET, INIT and RTR posting is an error; in SQE and ERR the WR is accepted and flushed. */
	qp->wr_err = atomic_load_explicit(&qp->shared->state, memory_order_relaxed) < UROCE_QPS_RTS ? EINVAL : 0;
}

static inline void
publish(struct client_qp *qp, uint32_t end)
{
	if (end == qp->sq.counter)
		return;
	for (uint32_t i = qp->sq.counter; i != end; i++) {
		struct ring_sq_wqe *w = ring_slot(&qp->sq, i);
		union ring_sq_ctl ctl = { .word = atomic_load_explicit(&w->ctl, memory_order_relaxed) };

		if (unlikely(client_bounces(qp->bounce)))
			client_bounce_send(qp, w, &ctl);
		ring_sq_post(&qp->sq, i, w, ctl);
	}
	qp->sq.counter = end;
	client_sq_ring(qp);
}

int
client_wr_complete(struct ibv_qp_ex *ibqp)
{
	struct client_qp *qp = to_builder(ibqp);
	int err = qp->wr_err;

	close_slot(qp);
	if (!err)
		publish(qp, qp->wr_next);
	client_unlock(&qp->sq_lock);
	return err;
}

void
client_wr_close(struct client_qp *qp)
{
	close_slot(qp);
}

void
client_wr_publish(struct client_qp *qp, uint32_t end)
{
	publish(qp, end);
}

static void
wr_abort(struct ibv_qp_ex *ibqp)
{
	struct client_qp *qp = to_builder(ibqp);

	close_slot(qp);
	client_unlock(&qp->sq_lock);
}

static void
wr_send(struct ibv_qp_ex *qp)
{
	open_slot(qp, UROCE_WR_SEND, 0);
}

static void
wr_send_imm(struct ibv_qp_ex *qp, __be32 imm)
{
	open_slot(qp, UROCE_WR_SEND_WITH_IMM, imm);
}

static void
wr_send_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	open_slot(qp, UROCE_WR_SEND_WITH_INV, rkey);
}

static void
wr_local_inv(struct ibv_qp_ex *qp, uint32_t rkey)
{
	open_slot(qp, UROCE_WR_LOCAL_INV, rkey);
}

static void
wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ring_sq_wqe *w = open_slot(qp, UROCE_WR_BIND_MW, 0);

	if (w && client_put_bind(w, mw, rkey, info))
		to_builder(qp)->wr_err = EINVAL;
}

static struct ring_sq_wqe *
open_rdma(struct ibv_qp_ex *qp, enum uroce_wr_op op, uint32_t rkey, uint64_t addr)
{
	struct ring_sq_wqe *w = open_slot(qp, op, 0);

	if (w)
		wqe_put_remote(w, addr, rkey);
	return w;
}

static void
wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	open_rdma(qp, UROCE_WR_RDMA_WRITE, rkey, addr);
}

static void
wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, __be32 imm)
{
	struct ring_sq_wqe *w = open_rdma(qp, UROCE_WR_RDMA_WRITE_WITH_IMM, rkey, addr);

	if (w)
		wqe_put_imm(w, imm);
}

static void
wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	open_rdma(qp, UROCE_WR_RDMA_READ, rkey, addr);
}

static void
wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	struct ring_sq_wqe *w = open_rdma(qp, UROCE_WR_ATOMIC_CMP_AND_SWP, rkey, addr);

	if (w)
		wqe_put_atomic(w, compare, swap);
}

static void
wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct ring_sq_wqe *w = open_rdma(qp, UROCE_WR_ATOMIC_FETCH_AND_ADD, rkey, addr);

	if (w)
		wqe_put_atomic(w, add, 0);
}

/* The eight bytes are copied here (man ibv_wr_atomic_write); every slot has room for them. */
static void
wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, const void *value)
{
	struct ring_sq_wqe *w = open_rdma(qp, UROCE_WR_ATOMIC_WRITE, rkey, addr);

	if (!w)
		return;
	memcpy(wqe_inline(w), value, sizeof(uint64_t));
	to_builder(qp)->wr_ctl.flags |= UROCE_SEND_INLINE;
	to_builder(qp)->wr_ctl.count = sizeof(uint64_t);
}

/* Wrong arguments of FLUSH are detected here and reported by ibv_wr_complete(), since this function returns nothing. */
static void
wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level)
{
	struct ring_sq_wqe *w = open_rdma(qp, UROCE_WR_FLUSH, rkey, addr);

	if (!w)
		return;
	if (level == UROCE_FLUSH_MR)
		len = 0;
	if (len > UROCE_MAX_MSG_BYTES || type == 0 || (type & ~UROCE_FLUSH_TYPES) != 0 || level > UROCE_FLUSH_MR) {
		to_builder(qp)->wr_err = EINVAL;
		return;
	}
	wqe_put_flush(w, (uint32_t)len, type, level);
}

static void
wr_set_ud_addr(struct ibv_qp_ex *ibqp, struct ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
	struct client_qp *qp = to_builder(ibqp);

	if (qp->wr_cur)
		wqe_put_ud(qp->wr_cur, ah->handle, remote_qpn, remote_qkey);
}

static void
wr_set_xrc_srqn(struct ibv_qp_ex *ibqp, uint32_t remote_srqn)
{
	struct client_qp *qp = to_builder(ibqp);

	if (qp->wr_cur)
		qp->wr_ctl.srqn = remote_srqn;
}

static void
wr_set_sge_list(struct ibv_qp_ex *ibqp, size_t n, const struct ibv_sge *list)
{
	struct client_qp *qp = to_builder(ibqp);

	if (!qp->wr_cur)
		return;
	if (n > qp->cap.max_send_sge) {
		qp->wr_err = EINVAL;
		return;
	}
	memcpy(wqe_sges(qp->wr_cur, qp->wr_ctl.opcode), list, n * sizeof(*list));
	qp->wr_ctl.count = n;
}

static void
wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(qp, 1, &sge);
}

static void
wr_set_inline_data_list(struct ibv_qp_ex *ibqp, size_t n, const struct ibv_data_buf *list)
{
	struct client_qp *qp = to_builder(ibqp);
	size_t sum = 0;

	if (!qp->wr_cur)
		return;
	for (size_t i = 0; i < n; i++) {
		if (list[i].length > qp->cap.max_inline_data - sum) {
			qp->wr_err = EINVAL;
			return;
		}
		memcpy(wqe_inline(qp->wr_cur) + sum, list[i].addr, list[i].length);
		sum += list[i].length;
	}
	qp->wr_ctl.flags |= UROCE_SEND_INLINE;
	qp->wr_ctl.count = sum;
}

static void
wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	struct ibv_data_buf buf = { addr, length };

	wr_set_inline_data_list(qp, 1, &buf);
}

/* What the headers of rdma-core 46 added; abi_check.c compares the values with those headers where they are installed. */
#ifndef UROCE_VERBS_H_HAS_FLUSH
#define IBV_WR_FLUSH 14
#define IBV_QP_EX_WITH_FLUSH (UINT64_C(1) << 11)
#endif

#define SAME_NUMBER(name, number, ...) _Static_assert(IBV_WR_##name == (number), "IBV_WR_" #name " has another number");
WR_OP_TABLE(SAME_NUMBER)
#undef SAME_NUMBER

/* The bits of enum ibv_qp_create_send_ops_flags that request each opcode. */
#define FLAG(name, number, ...) [number] = IBV_QP_EX_WITH_##name,
static const uint64_t send_op_flags[UROCE_WR_OPS] = { WR_OP_TABLE(FLAG) };
#undef FLAG

int
client_qp_set_builders(struct client_qp *qp, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_ex *q = &qp->qp;

	for (unsigned int op = 0; op < UROCE_WR_OPS; op++) {
		if (!(ops & send_op_flags[op]))
			continue;
		if (!(client_wr_types[op] & 1u << type))
			return EOPNOTSUPP;
		ops &= ~send_op_flags[op];
	}
	if (ops)
		return EOPNOTSUPP;
	qp->is_ex = true;
	q->wr_start = wr_start;
	q->wr_complete = client_wr_complete;
	q->wr_abort = wr_abort;
	q->wr_send = wr_send;
	q->wr_send_imm = wr_send_imm;
	q->wr_send_inv = wr_send_inv;
	q->wr_local_inv = wr_local_inv;
	q->wr_bind_mw = wr_bind_mw;
	q->wr_rdma_write = wr_rdma_write;
	q->wr_rdma_write_imm = wr_rdma_write_imm;
	q->wr_rdma_read = wr_rdma_read;
	q->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	q->wr_atomic_fetch_add = wr_atomic_fetch_add;
	q->wr_atomic_write = wr_atomic_write;
	qp->wr_flush = wr_flush;
	q->wr_set_ud_addr = wr_set_ud_addr;
	q->wr_set_xrc_srqn = wr_set_xrc_srqn;
	q->wr_set_sge = wr_set_sge;
	q->wr_set_sge_list = wr_set_sge_list;
	q->wr_set_inline_data = wr_set_inline_data;
	q->wr_set_inline_data_list = wr_set_inline_data_list;
	if (qp->ctx->faults)
		client_faults_builders(qp);
	return 0;
}

CLIENT_EXPORT struct ibv_qp_ex *
ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return to_qp(qp)->is_ex ? &to_qp(qp)->qp : NULL;
}
