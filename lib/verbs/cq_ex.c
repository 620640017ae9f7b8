/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended CQs: ibv_start_poll() takes the CQ's lock, ibv_next_poll() moves on, readers read the current CQE,
 * ibv_end_poll() publishes what was consumed and releases the lock.
 */
#include "verbs/client_priv.h"

#include <time.h>

static struct client_cq *
ex(struct ibv_cq_ex *cq)
{
	return (struct client_cq *)cq;
}

static bool
advance(struct client_cq *cq)
{
	if (!client_cq_next(cq, &cq->cur, &cq->cur_ctl))
		return false;
	cq->ex.status = cq->cur.status;
	cq->ex.wr_id = cq->cur.wr_id;
	return true;
}

static int
ex_start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	struct client_cq *cq = ex(ibcq);

	if (attr->comp_mask)
		return EINVAL;
	client_cq_lock(cq);
	if (advance(cq))
		return 0;
	client_cq_publish(cq);
	client_cq_unlock(cq);
	return client_cq_empty(cq) ? EIO : ENOENT;
}

static int
ex_next_poll(struct ibv_cq_ex *ibcq)
{
	return advance(ex(ibcq)) ? 0 : ENOENT;
}

static void
ex_end_poll(struct ibv_cq_ex *ibcq)
{
	client_cq_publish(ex(ibcq));
	client_cq_unlock(ex(ibcq));
}

static enum ibv_wc_opcode
ex_opcode(struct ibv_cq_ex *cq)
{
	return ex(cq)->cur.opcode;
}

static uint32_t
ex_vendor_err(struct ibv_cq_ex *cq)
{
	return ex(cq)->cur_ctl.vendor_err;
}

static uint32_t
ex_byte_len(struct ibv_cq_ex *cq)
{
	return ex(cq)->cur.byte_len;
}

static __be32
ex_imm_data(struct ibv_cq_ex *cq)
{
	return ex(cq)->cur.imm;
}

static uint32_t
ex_qp_num(struct ibv_cq_ex *cq)
{
	return ex(cq)->cur.qpn;
}

static uint32_t
ex_src_qp(struct ibv_cq_ex *cq)
{
	return ex(cq)->cur.src_qp;
}

static unsigned int
ex_wc_flags(struct ibv_cq_ex *cq)
{
	return ex(cq)->cur_ctl.wc_flags;
}

static uint32_t
ex_slid(struct ibv_cq_ex *cq)
{
	return 0;
}

static uint8_t
ex_sl(struct ibv_cq_ex *cq)
{
	return ex(cq)->cur_ctl.sl;
}

static uint8_t
ex_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return 0;
}

/* CLOCK_MONOTONIC, ns. The slot is ours until ibv_end_poll(). */
static uint64_t
ex_completion_ts(struct ibv_cq_ex *ibcq)
{
	const struct client_cq *cq = ex(ibcq);

	return cq->stamps[(cq->ring.counter - 1) & cq->ring.mask];
}

static uint64_t
clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return ts.tv_sec * UINT64_C(1000000000) + ts.tv_nsec;
}

static uint64_t
ex_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
	return clock_ns(CLOCK_REALTIME) - (clock_ns(CLOCK_MONOTONIC) - ex_completion_ts(cq));
}

struct ibv_cq_ex *
client_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t times = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct client_cq *cq;

	/* There are no VLANs, flow tags or tag matching, and IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN is not supported. */
	if ((attr->wc_flags & ~(times | IBV_WC_STANDARD_FLAGS)) ||
	    (attr->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) ||
	    (flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		return client_null(EOPNOTSUPP);
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) && !client_is_parent_domain(attr->parent_domain))
		return client_null(EINVAL);
	cq = client_cq_new(context, attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain : NULL, attr->cqe,
			   attr->cq_context, attr->channel, attr->comp_vector, attr->wc_flags & times);
	if (!cq)
		return NULL;
	cq->extended = true;
	cq->single_threaded = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	cq->ex.start_poll = ex_start_poll;
	cq->ex.next_poll = ex_next_poll;
	cq->ex.end_poll = ex_end_poll;
	cq->ex.read_opcode = ex_opcode;
	cq->ex.read_vendor_err = ex_vendor_err;
	cq->ex.read_byte_len = ex_byte_len;
	cq->ex.read_imm_data = ex_imm_data;
	cq->ex.read_qp_num = ex_qp_num;
	cq->ex.read_src_qp = ex_src_qp;
	cq->ex.read_wc_flags = ex_wc_flags;
	cq->ex.read_slid = ex_slid;
	cq->ex.read_sl = ex_sl;
	cq->ex.read_dlid_path_bits = ex_dlid_path_bits;
	/* The other readers remain NULL: a program may only call those that its wc_flags requested. */
	if (cq->stamps) {
		cq->ex.read_completion_ts = ex_completion_ts;
		cq->ex.read_completion_wallclock_ns = ex_completion_wallclock_ns;
	}
	if (to_ctx(context)->faults)
		client_faults_cq(&cq->ex);
	return &cq->ex;
}
