/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every attribute of every call that creates, modifies or queries something, through wrong values: a row of a table is a
 * member of what the call takes, what it is set to, and what the call must say. Everything else of the call is right, and
 * each table begins with the row in which nothing is wrong.
 */
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vt.h"

/* A wrong value of a member. */
struct bad {
	const char *what;
	size_t offset, bytes;
	uint64_t value;
	int err;
};
#define NOTHING { "nothing wrong", 0, 0, 0, 0 }
#define BAD(type, member, value, err) \
	{ #member " = " #value, offsetof(type, member), sizeof(((type *)0)->member), (uint64_t)(value), err }

static void
spoil(void *args, const struct bad *b)
{
	/* Little endian: the low bytes of the value are the member's. */
	memcpy((uint8_t *)args + b->offset, &b->value, b->bytes);
}

/* A call with these arguments; destroys what it made. @return 0 or the errno value. */
typedef int (*call_fn)(struct vt *t, void *args);

static void
walk(struct vt *t, const char *call, call_fn fn, const void *good, size_t bytes, const struct bad *rows, size_t n)
{
	uint8_t args[1024] __attribute__((aligned(16)));
	int err;

	for (size_t i = 0; i < n; i++) {
		memcpy(args, good, bytes);
		spoil(args, &rows[i]);
		errno = 0;
		err = fn(t, args);
		VT_CHECK(err == rows[i].err, "%s, %s: %s, not %s", call, rows[i].what, strerror(err),
			 strerror(rows[i].err));
	}
}
#define WALK(t, fn, good, rows) walk(t, #fn, fn, &(good), sizeof(good), rows, sizeof(rows) / sizeof((rows)[0]))

/* ---- CQs ---- */
struct cq_args {
	int cqe, vector;
};

static int
create_cq(struct vt *t, void *args)
{
	const struct cq_args *a = args;
	struct ibv_cq *cq = ibv_create_cq(t->ctx, a->cqe, NULL, NULL, a->vector);

	if (cq == NULL)
		return errno;
	VT_CHECK(cq->cqe >= a->cqe, "%d", cq->cqe);
	vt_destroy_cq(cq);
	return 0;
}

static int
resize_cq(struct vt *t, void *args)
{
	const struct cq_args *a = args;
	struct ibv_cq *cq = vt_cq(t, 16, NULL);
	int err = ibv_resize_cq(cq, a->cqe);

	VT_CHECK(cq->cqe >= (err == 0 ? a->cqe : 16), "%d", cq->cqe);
	vt_destroy_cq(cq);
	return err;
}

static int
create_cq_ex(struct vt *t, void *args)
{
	struct ibv_cq_ex *cq = ibv_create_cq_ex(t->ctx, args);

	if (cq == NULL)
		return errno;
	vt_destroy_cq(ibv_cq_ex_to_cq(cq));
	return 0;
}

static int
modify_cq(struct vt *t, void *args)
{
	struct ibv_cq *cq = vt_cq(t, 16, NULL);
	int err = ibv_modify_cq(cq, args);

	vt_destroy_cq(cq);
	return err;
}

static void
completion_queues(struct vt *t)
{
	static const struct bad create[] = {
		NOTHING,
		BAD(struct cq_args, cqe, 0, EINVAL),
		BAD(struct cq_args, cqe, -1, EINVAL),
		BAD(struct cq_args, cqe, 1 << 30, EINVAL),
		BAD(struct cq_args, vector, -1, EINVAL),
		BAD(struct cq_args, vector, 100000, EINVAL),
	};
	static const struct bad resize[] = {
		NOTHING,
		BAD(struct cq_args, cqe, 0, EINVAL),
		BAD(struct cq_args, cqe, -1, EINVAL),
		BAD(struct cq_args, cqe, 1 << 30, EINVAL),
		BAD(struct cq_args, cqe, 1, 0),
	};
	static const struct bad ex[] = {
		NOTHING,
		BAD(struct ibv_cq_init_attr_ex, cqe, 0, EINVAL),
		BAD(struct ibv_cq_init_attr_ex, cqe, 1 << 30, EINVAL),
		BAD(struct ibv_cq_init_attr_ex, comp_vector, 100000, EINVAL),
		BAD(struct ibv_cq_init_attr_ex, wc_flags, IBV_WC_EX_WITH_CVLAN, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, wc_flags, IBV_WC_EX_WITH_FLOW_TAG, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, wc_flags, IBV_WC_EX_WITH_TM_INFO, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, wc_flags, UINT64_C(1) << 63, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, comp_mask, 1 << 30, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, comp_mask, IBV_CQ_INIT_ATTR_MASK_PD, EINVAL),
		BAD(struct ibv_cq_init_attr_ex, flags, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, EOPNOTSUPP),
		BAD(struct ibv_cq_init_attr_ex, flags, 1u << 31, EOPNOTSUPP),
	};
	static const struct bad modify[] = {
		NOTHING,
		BAD(struct ibv_modify_cq_attr, attr_mask, 0, EINVAL),
		BAD(struct ibv_modify_cq_attr, attr_mask, 2, EOPNOTSUPP),
		BAD(struct ibv_modify_cq_attr, attr_mask, UINT32_MAX, EOPNOTSUPP),
	};
	struct cq_args args = { .cqe = 100 };
	struct ibv_cq_init_attr_ex args_ex = { .cqe = 100, .wc_flags = IBV_WC_STANDARD_FLAGS,
					       .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS };
	struct ibv_modify_cq_attr args_modify = { .attr_mask = IBV_CQ_ATTR_MODERATE,
						  .moderate = { .cq_count = 5, .cq_period = 5 } };

	WALK(t, create_cq, args, create);
	WALK(t, resize_cq, args, resize);
	WALK(t, create_cq_ex, args_ex, ex);
	WALK(t, modify_cq, args_modify, modify);
}

/* ---- Creating QPs ---- */
static struct ibv_cq *the_cq;

static int
create_qp(struct vt *t, void *args)
{
	struct ibv_qp *qp = ibv_create_qp(t->pd, args);

	if (qp == NULL)
		return errno;
	vt_destroy_qp(qp);
	return 0;
}

static int
create_qp_ex(struct vt *t, void *args)
{
	struct ibv_qp *qp = ibv_create_qp_ex(t->ctx, args);

	if (qp == NULL)
		return errno;
	VT_CHECK(ibv_qp_to_qp_ex(qp) != NULL, "no ibv_wr_*");
	vt_destroy_qp(qp);
	return 0;
}

static void
creating_qps(struct vt *t)
{
	typedef struct ibv_qp_init_attr init_t;
	typedef struct ibv_qp_init_attr_ex ex_t;
	static const struct bad rows[] = {
		NOTHING,
		BAD(init_t, send_cq, 0, EINVAL),
		BAD(init_t, recv_cq, 0, EINVAL),
		BAD(init_t, qp_type, 0, EOPNOTSUPP),
		BAD(init_t, qp_type, 5, EOPNOTSUPP),
		BAD(init_t, qp_type, IBV_QPT_RAW_PACKET, EOPNOTSUPP),
		BAD(init_t, qp_type, IBV_QPT_DRIVER, EOPNOTSUPP),
		BAD(init_t, qp_type, 1000, EOPNOTSUPP),
		BAD(init_t, cap.max_send_wr, 1 << 20, EINVAL),
		BAD(init_t, cap.max_send_wr, UINT32_MAX, EINVAL),
		BAD(init_t, cap.max_recv_wr, 1 << 20, EINVAL),
		BAD(init_t, cap.max_recv_wr, UINT32_MAX, EINVAL),
		BAD(init_t, cap.max_send_sge, 1000, EINVAL),
		BAD(init_t, cap.max_send_sge, UINT32_MAX, EINVAL),
		BAD(init_t, cap.max_recv_sge, 1000, EINVAL),
		BAD(init_t, cap.max_recv_sge, UINT32_MAX, EINVAL),
		BAD(init_t, cap.max_inline_data, 1 << 20, EINVAL),
		BAD(init_t, cap.max_inline_data, UINT32_MAX, EINVAL),
		/* Little is no mistake. */
		BAD(init_t, cap.max_send_wr, 0, 0),
		BAD(init_t, cap.max_recv_wr, 0, 0),
		BAD(init_t, cap.max_send_sge, 0, 0),
		BAD(init_t, cap.max_recv_sge, 0, 0),
		BAD(init_t, cap.max_inline_data, 0, 0),
	};
	static const struct bad ex_rows[] = {
		NOTHING,
		BAD(ex_t, pd, 0, EINVAL),
		BAD(ex_t, comp_mask, IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, EINVAL),
		BAD(ex_t, comp_mask, UINT32_MAX, EOPNOTSUPP),
		BAD(ex_t, comp_mask, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER, EOPNOTSUPP),
		BAD(ex_t, comp_mask, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE, EOPNOTSUPP),
		BAD(ex_t, comp_mask, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH, EOPNOTSUPP),
		BAD(ex_t, create_flags, IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, EOPNOTSUPP),
		BAD(ex_t, create_flags, IBV_QP_CREATE_SCATTER_FCS, EOPNOTSUPP),
		BAD(ex_t, create_flags, 1u << 31, EOPNOTSUPP),
		BAD(ex_t, send_ops_flags, IBV_QP_EX_WITH_TSO, EOPNOTSUPP),
		BAD(ex_t, send_ops_flags, UINT64_C(1) << 60, EOPNOTSUPP),
		BAD(ex_t, qp_type, 1000, EOPNOTSUPP),
		BAD(ex_t, send_cq, 0, EINVAL),
		BAD(ex_t, cap.max_send_wr, UINT32_MAX, EINVAL),
	};
	static const struct bad ud_rows[] = {
		NOTHING,
		BAD(ex_t, send_ops_flags, IBV_QP_EX_WITH_RDMA_WRITE, EOPNOTSUPP),
		BAD(ex_t, send_ops_flags, IBV_QP_EX_WITH_RDMA_READ, EOPNOTSUPP),
		BAD(ex_t, send_ops_flags, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, EOPNOTSUPP),
		BAD(ex_t, send_ops_flags, IBV_QP_EX_WITH_BIND_MW, EOPNOTSUPP),
		BAD(ex_t, send_ops_flags, IBV_QP_EX_WITH_SEND_WITH_INV, EOPNOTSUPP),
		BAD(ex_t, send_ops_flags, IBV_QP_EX_WITH_ATOMIC_WRITE, EOPNOTSUPP),
	};
	the_cq = vt_cq(t, 64, NULL);
	const struct ibv_qp_cap cap = { VT_DEPTH, VT_DEPTH, VT_SGES, VT_SGES, VT_INLINE_BYTES };
	init_t args = { .send_cq = the_cq, .recv_cq = the_cq, .cap = cap, .qp_type = IBV_QPT_RC };
	ex_t args_ex = {
		.send_cq = the_cq, .recv_cq = the_cq, .cap = cap, .qp_type = IBV_QPT_RC, .pd = t->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};

	WALK(t, create_qp, args, rows);
	WALK(t, create_qp_ex, args_ex, ex_rows);
	args_ex.qp_type = IBV_QPT_UD;
	WALK(t, create_qp_ex, args_ex, ud_rows);
	vt_destroy_cq(the_cq);
}

/* ---- Modifying QPs ---- */
struct modify_args {
	struct ibv_qp_attr attr;
	int mask;
};
static struct ibv_qp *the_qp;

static int
modify_qp(struct vt *t, void *args)
{
	struct modify_args *a = args;
	struct ibv_qp_attr before, after;
	struct ibv_qp_init_attr init;
	int err;

	/* The call doesn't write what lies between the members. */
	memset(&before, 0, sizeof(before));
	memset(&after, 0, sizeof(after));
	VT_OK(ibv_query_qp(the_qp, &before, IBV_QP_STATE, &init));
	err = ibv_modify_qp(the_qp, &a->attr, a->mask);
	VT_OK(ibv_query_qp(the_qp, &after, IBV_QP_STATE, &init));
	/* None of the attributes is modified (man ibv_modify_qp). */
	if (err != 0)
		VT_CHECK(memcmp(&before, &after, sizeof(before)) == 0 && the_qp->state == before.qp_state,
			 "a call that failed changed something");
	return err;
}

/* What the transition needs, each left out; what it doesn't have, each put in. */
static void
wrong_masks(struct vt *t, const struct ibv_qp_attr *attr, int mask, int allowed)
{
	struct modify_args a;
	int err;

	for (int bit = 1; bit > 0 && bit <= 1 << 30; bit <<= 1) {
		a = (struct modify_args){ *attr, mask };
		if (bit == IBV_QP_STATE || (allowed & bit))
			continue;
		a.mask ^= bit;
		err = modify_qp(t, &a);
		VT_CHECK(err == EINVAL, "to state %d %s 0x%x: %s", attr->qp_state, mask & bit ? "without" : "with", bit,
			 strerror(err));
	}
}

static void
modifying_an_rc_qp(struct vt *t)
{
	typedef struct modify_args m_t;
	static const struct bad to_init[] = {
		BAD(m_t, attr.qp_state, IBV_QPS_RTR, EINVAL),
		BAD(m_t, attr.qp_state, IBV_QPS_RTS, EINVAL),
		BAD(m_t, attr.qp_state, IBV_QPS_SQD, EINVAL),
		BAD(m_t, attr.qp_state, IBV_QPS_SQE, EINVAL),
		BAD(m_t, attr.qp_state, 7, EINVAL),
		BAD(m_t, attr.qp_state, -1, EINVAL),
		BAD(m_t, attr.pkey_index, 3, EINVAL),
		BAD(m_t, attr.pkey_index, 65535, EINVAL),
		BAD(m_t, attr.port_num, 0, EINVAL),
		BAD(m_t, attr.port_num, 2, EINVAL),
		BAD(m_t, attr.port_num, 255, EINVAL),
		BAD(m_t, attr.qp_access_flags, 1 << 30, EINVAL),
	};
	static const struct bad to_rtr[] = {
		BAD(m_t, attr.path_mtu, 0, EINVAL),
		BAD(m_t, attr.path_mtu, 6, EINVAL),
		BAD(m_t, attr.dest_qp_num, 1 << 24, EINVAL),
		BAD(m_t, attr.rq_psn, 1 << 24, EINVAL),
		BAD(m_t, attr.max_dest_rd_atomic, 65, EINVAL),
		BAD(m_t, attr.max_dest_rd_atomic, 255, EINVAL),
		BAD(m_t, attr.min_rnr_timer, 32, EINVAL),
		BAD(m_t, attr.min_rnr_timer, 255, EINVAL),
		BAD(m_t, attr.ah_attr.port_num, 0, EINVAL),
		BAD(m_t, attr.ah_attr.port_num, 2, EINVAL),
		BAD(m_t, attr.ah_attr.is_global, 0, EINVAL),
		BAD(m_t, attr.ah_attr.grh.sgid_index, 15, EINVAL),
		BAD(m_t, attr.ah_attr.grh.sgid_index, 255, EINVAL),
		BAD(m_t, attr.ah_attr.grh.dgid.raw[10], 0, EINVAL),
		BAD(m_t, attr.ah_attr.sl, 8, EINVAL),
	};
	static const struct bad to_rts[] = {
		BAD(m_t, attr.sq_psn, 1 << 24, EINVAL),
		BAD(m_t, attr.timeout, 32, EINVAL),
		BAD(m_t, attr.timeout, 255, EINVAL),
		BAD(m_t, attr.retry_cnt, 8, EINVAL),
		BAD(m_t, attr.rnr_retry, 8, EINVAL),
		BAD(m_t, attr.max_rd_atomic, 65, EINVAL),
		BAD(m_t, attr.max_rd_atomic, 255, EINVAL),
	};
	static const struct bad in_rts[] = {
		BAD(m_t, attr.qp_state, IBV_QPS_INIT, EINVAL),
		BAD(m_t, attr.qp_state, IBV_QPS_RTR, EINVAL),
		BAD(m_t, attr.qp_state, IBV_QPS_SQE, EINVAL),
		BAD(m_t, mask, IBV_QP_STATE | IBV_QP_PORT, EINVAL),
		BAD(m_t, mask, IBV_QP_STATE | IBV_QP_DEST_QPN, EINVAL),
		BAD(m_t, mask, IBV_QP_STATE | IBV_QP_CAP, EINVAL),
		BAD(m_t, mask, IBV_QP_STATE | IBV_QP_RATE_LIMIT, EINVAL),
		BAD(m_t, mask, IBV_QP_STATE | 1 << 30, EINVAL),
	};
	/* What the tables of the specification allow beside what they need. */
	const int init_may = 0;
	const int rtr_may = IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_ALT_PATH;
	const int rts_may = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_ALT_PATH |
			    IBV_QP_PATH_MIG_STATE;
	struct modify_args a;

	the_cq = vt_cq(t, 64, NULL);
	the_qp = vt_qp(t, IBV_QPT_RC, the_cq, the_cq);
	a.mask = vt_attr_init(the_qp, &a.attr);
	WALK(t, modify_qp, a, to_init);
	wrong_masks(t, &a.attr, a.mask, init_may);
	VT_OK(ibv_modify_qp(the_qp, &a.attr, a.mask));
	a.mask = vt_attr_rtr(t, the_qp, the_qp->qp_num, &a.attr);
	WALK(t, modify_qp, a, to_rtr);
	wrong_masks(t, &a.attr, a.mask, rtr_may);
	VT_OK(ibv_modify_qp(the_qp, &a.attr, a.mask));
	a.mask = vt_attr_rts(the_qp, &a.attr);
	WALK(t, modify_qp, a, to_rts);
	wrong_masks(t, &a.attr, a.mask, rts_may);
	VT_OK(ibv_modify_qp(the_qp, &a.attr, a.mask));
	a = (struct modify_args){ .attr = { .qp_state = IBV_QPS_RTS }, .mask = IBV_QP_STATE };
	WALK(t, modify_qp, a, in_rts);
	a = (struct modify_args){ .attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE },
				  .mask = IBV_QP_STATE | IBV_QP_CUR_STATE };
	VT_CHECK(modify_qp(t, &a) == EINVAL, "a current state that it isn't in");
	vt_destroy_qp(the_qp);
	vt_destroy_cq(the_cq);
}

static void
modifying_uc_and_ud_qps(struct vt *t)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UC, IBV_QPT_UD };
	int may[2][3] = {
		{ 0, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_ALT_PATH,
		  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE },
		{ 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY, IBV_QP_CUR_STATE | IBV_QP_QKEY },
	};
	struct modify_args a;

	the_cq = vt_cq(t, 64, NULL);
	for (int i = 0; i < 2; i++) {
		the_qp = vt_qp(t, types[i], the_cq, the_cq);
		a.mask = vt_attr_init(the_qp, &a.attr);
		wrong_masks(t, &a.attr, a.mask, may[i][0]);
		VT_OK(ibv_modify_qp(the_qp, &a.attr, a.mask));
		a.mask = vt_attr_rtr(t, the_qp, the_qp->qp_num, &a.attr);
		wrong_masks(t, &a.attr, a.mask, may[i][1]);
		VT_OK(ibv_modify_qp(the_qp, &a.attr, a.mask));
		a.mask = vt_attr_rts(the_qp, &a.attr);
		wrong_masks(t, &a.attr, a.mask, may[i][2]);
		VT_OK(ibv_modify_qp(the_qp, &a.attr, a.mask));
		vt_destroy_qp(the_qp);
	}
	vt_destroy_cq(the_cq);
}

/* ---- SRQs ---- */
static int
create_srq(struct vt *t, void *args)
{
	struct ibv_srq *srq = ibv_create_srq(t->pd, args);

	if (srq == NULL)
		return errno;
	VT_OK(ibv_destroy_srq(srq));
	return 0;
}

static int
create_srq_ex(struct vt *t, void *args)
{
	struct ibv_srq *srq = ibv_create_srq_ex(t->ctx, args);

	if (srq == NULL)
		return errno;
	VT_OK(ibv_destroy_srq(srq));
	return 0;
}

struct modify_srq_args {
	struct ibv_srq_attr attr;
	int mask;
};

static int
modify_srq(struct vt *t, void *args)
{
	struct modify_srq_args *a = args;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(t->pd, &init);
	struct ibv_srq_attr attr;
	int err;

	if (srq == NULL)
		vt_die("ibv_create_srq");
	err = ibv_modify_srq(srq, &a->attr, a->mask);
	VT_OK(ibv_query_srq(srq, &attr));
	if (err != 0)
		VT_CHECK(attr.srq_limit == 0 && attr.max_wr == init.attr.max_wr, "a call that failed changed something");
	VT_OK(ibv_destroy_srq(srq));
	return err;
}

static void
shared_receive_queues(struct vt *t)
{
	typedef struct ibv_srq_init_attr_ex ex_t;
	static const struct bad rows[] = {
		NOTHING,
		BAD(struct ibv_srq_init_attr, attr.max_wr, 0, EINVAL),
		BAD(struct ibv_srq_init_attr, attr.max_wr, 1 << 20, EINVAL),
		BAD(struct ibv_srq_init_attr, attr.max_wr, UINT32_MAX, EINVAL),
		BAD(struct ibv_srq_init_attr, attr.max_sge, 1000, EINVAL),
		BAD(struct ibv_srq_init_attr, attr.max_sge, UINT32_MAX, EINVAL),
		/* Not looked at when one is created (man ibv_create_srq). */
		BAD(struct ibv_srq_init_attr, attr.srq_limit, UINT32_MAX, 0),
	};
	static const struct bad ex[] = {
		NOTHING,
		BAD(ex_t, pd, 0, EINVAL),
		BAD(ex_t, srq_type, IBV_SRQT_TM, EOPNOTSUPP),
		BAD(ex_t, srq_type, 77, EOPNOTSUPP),
		BAD(ex_t, comp_mask, IBV_SRQ_INIT_ATTR_TYPE, EINVAL),
		BAD(ex_t, comp_mask, UINT32_MAX, EOPNOTSUPP),
		BAD(ex_t, attr.max_wr, UINT32_MAX, EINVAL),
		BAD(ex_t, attr.max_sge, UINT32_MAX, EINVAL),
	};
	static const struct bad modify[] = {
		NOTHING,
		BAD(struct modify_srq_args, attr.srq_limit, 17, EINVAL),
		BAD(struct modify_srq_args, attr.srq_limit, UINT32_MAX, EINVAL),
		BAD(struct modify_srq_args, mask, IBV_SRQ_LIMIT | 4, EINVAL),
		BAD(struct modify_srq_args, mask, 1 << 30, EINVAL),
	};
	struct ibv_srq_init_attr args = { .attr = { .max_wr = 16, .max_sge = 2 } };
	ex_t args_ex = { .attr = { .max_wr = 16, .max_sge = 2 }, .srq_type = IBV_SRQT_BASIC, .pd = t->pd,
			 .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE };
	struct modify_srq_args args_modify = { .attr = { .srq_limit = 5 }, .mask = IBV_SRQ_LIMIT };

	WALK(t, create_srq, args, rows);
	WALK(t, create_srq_ex, args_ex, ex);
	WALK(t, modify_srq, args_modify, modify);
}

/* ---- AHs ---- */
static int
create_ah(struct vt *t, void *args)
{
	struct ibv_ah *ah = ibv_create_ah(t->pd, args);

	if (ah == NULL)
		return errno;
	VT_OK(ibv_destroy_ah(ah));
	return 0;
}

static void
address_handles(struct vt *t)
{
	static const struct bad rows[] = {
		NOTHING,
		BAD(struct ibv_ah_attr, port_num, 0, EINVAL),
		BAD(struct ibv_ah_attr, port_num, 2, EINVAL),
		BAD(struct ibv_ah_attr, port_num, 255, EINVAL),
		BAD(struct ibv_ah_attr, is_global, 0, EINVAL),
		BAD(struct ibv_ah_attr, grh.sgid_index, 15, EINVAL),
		BAD(struct ibv_ah_attr, grh.sgid_index, 255, EINVAL),
		BAD(struct ibv_ah_attr, grh.dgid.raw[10], 0, EINVAL),
		BAD(struct ibv_ah_attr, sl, 8, EINVAL),
	};
	struct ibv_ah_attr attr;
	struct ibv_wc wc = { 0 };
	struct ibv_grh grh = { 0 };

	vt_ah_attr(t, &attr);
	WALK(t, create_ah, attr, rows);
	errno = 0;
	VT_CHECK(ibv_init_ah_from_wc(t->ctx, VT_PORT, &wc, &grh, &attr) == -1 && errno == EINVAL, "a completion without GRH");
	wc.wc_flags = IBV_WC_GRH;
	errno = 0;
	VT_CHECK(ibv_init_ah_from_wc(t->ctx, VT_PORT, &wc, &grh, &attr) == -1 && errno != 0, "a GRH that isn't to us");
	errno = 0;
	VT_CHECK(ibv_create_ah_from_wc(t->pd, &wc, &grh, VT_PORT) == NULL && errno != 0, "a GRH that isn't to us");
}

/* ---- Memory ---- */
struct mr_args {
	void *addr;
	size_t length;
	uint64_t iova;
	int access;
};

static int
reg_mr(struct vt *t, void *args)
{
	const struct mr_args *a = args;
	struct ibv_mr *mr = ibv_reg_mr(t->pd, a->addr, a->length, a->access);

	if (mr == NULL)
		return errno;
	VT_OK(ibv_dereg_mr(mr));
	return 0;
}

static int
reg_mr_iova(struct vt *t, void *args)
{
	const struct mr_args *a = args;
	struct ibv_mr *mr = ibv_reg_mr_iova(t->pd, a->addr, a->length, a->iova, a->access);

	if (mr == NULL)
		return errno;
	VT_OK(ibv_dereg_mr(mr));
	return 0;
}

static void
memory_regions(struct vt *t)
{
	static const struct bad rows[] = {
		NOTHING,
		BAD(struct mr_args, addr, 0, EFAULT),
		BAD(struct mr_args, addr, 0x1000, EFAULT),
		BAD(struct mr_args, addr, UINT64_MAX - 10, EINVAL),
		BAD(struct mr_args, addr, UINT64_C(1) << 63, EFAULT),
		BAD(struct mr_args, length, SIZE_MAX, EINVAL),
		BAD(struct mr_args, length, UINT64_C(1) << 46, EFAULT),
		BAD(struct mr_args, access, IBV_ACCESS_REMOTE_WRITE, EINVAL),
		BAD(struct mr_args, access, IBV_ACCESS_REMOTE_ATOMIC, EINVAL),
		BAD(struct mr_args, access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND, EOPNOTSUPP),
		/* Bits 8 and 9 are later headers' FLUSH_GLOBAL, which works, and FLUSH_PERSISTENT: there is no such memory. */
		BAD(struct mr_args, access, IBV_ACCESS_LOCAL_WRITE | 1 << 9, EOPNOTSUPP),
		BAD(struct mr_args, access, IBV_ACCESS_LOCAL_WRITE | 1 << 10, EINVAL),
		BAD(struct mr_args, access, 1u << 31, EINVAL),
		/* Hints may be ignored. */
		BAD(struct mr_args, access, IBV_ACCESS_RELAXED_ORDERING, 0),
		BAD(struct mr_args, access, IBV_ACCESS_HUGETLB, 0),
	};
	static const struct bad iova[] = {
		NOTHING,
		BAD(struct mr_args, iova, UINT64_MAX - 10, EINVAL),
		BAD(struct mr_args, iova, 0, 0),
	};
	struct mr_args args = { .addr = t->buf, .length = 4096, .iova = 12345, .access = IBV_ACCESS_LOCAL_WRITE };
	struct mr_args read_only = args;

	WALK(t, reg_mr, args, rows);
	WALK(t, reg_mr_iova, args, iova);
	for (int bit = 0; bit < 10; bit++) {
		args.access = IBV_ACCESS_LOCAL_WRITE | (IBV_ACCESS_OPTIONAL_FIRST << bit);
		VT_CHECK(reg_mr(t, &args) == 0, "the optional flag 0x%x isn't ignored", args.access);
	}
	read_only.addr = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	VT_CHECK(reg_mr(t, &read_only) == EFAULT, "local write to memory that the program can't write");
	read_only.access = 0;
	VT_CHECK(reg_mr(t, &read_only) == 0, "%s", strerror(errno));
	munmap(read_only.addr, 4096);
	VT_CHECK(reg_mr(t, &read_only) == EFAULT, "memory that is gone");
}

struct rereg_args {
	int flags;
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	int access;
};
static struct ibv_mr *the_mr;

static int
rereg_mr(struct vt *t, void *args)
{
	const struct rereg_args *a = args;
	struct ibv_mr before = *the_mr;
	int rc = ibv_rereg_mr(the_mr, a->flags, a->pd, a->addr, a->length, a->access);

	/* Old MR is valid (man ibv_rereg_mr). */
	if (rc == IBV_REREG_MR_ERR_INPUT)
		VT_CHECK(memcmp(&before, the_mr, sizeof(before)) == 0, "a call that failed changed something");
	else
		VT_CHECK(rc == 0, "%d", rc);
	return rc == 0 ? 0 : errno;
}

static void
reregistration(struct vt *t)
{
	static const struct bad rows[] = {
		NOTHING,
		BAD(struct rereg_args, flags, 0, EINVAL),
		BAD(struct rereg_args, flags, 8, EINVAL),
		BAD(struct rereg_args, flags, -1, EINVAL),
		BAD(struct rereg_args, pd, 0, EINVAL),
		BAD(struct rereg_args, addr, 0, EINVAL),
		BAD(struct rereg_args, addr, 0x1000, EFAULT),
		BAD(struct rereg_args, length, 0, EINVAL),
		BAD(struct rereg_args, length, SIZE_MAX, EINVAL),
		BAD(struct rereg_args, access, IBV_ACCESS_REMOTE_WRITE, EINVAL),
		BAD(struct rereg_args, access, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP),
		BAD(struct rereg_args, access, 1u << 31, EINVAL),
	};
	struct rereg_args args = {
		.flags = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS,
		.pd = t->pd, .addr = t->buf, .length = 4096, .access = IBV_ACCESS_LOCAL_WRITE,
	};

	the_mr = ibv_reg_mr(t->pd, t->buf, 8192, IBV_ACCESS_LOCAL_WRITE);
	if (the_mr == NULL)
		vt_die("ibv_reg_mr");
	WALK(t, rereg_mr, args, rows);
	VT_OK(ibv_dereg_mr(the_mr));
}

static void
memory_windows(struct vt *t)
{
	struct ibv_pd *other = ibv_alloc_pd(t->ctx);
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp *qp = vt_qp(t, IBV_QPT_RC, cq, cq);
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = t->mr, .addr = (uintptr_t)t->buf, .length = 100, .mw_access_flags = IBV_ACCESS_REMOTE_READ },
	};
	struct ibv_mw *mw;

	vt_connect(t, qp, qp);
	errno = 0;
	VT_CHECK(ibv_alloc_mw(t->pd, 0) == NULL && errno == EINVAL, "type 0: %s", strerror(errno));
	errno = 0;
	VT_CHECK(ibv_alloc_mw(t->pd, 3) == NULL && errno == EINVAL, "type 3: %s", strerror(errno));
	mw = ibv_alloc_mw(other, IBV_MW_TYPE_1);
	if (mw == NULL)
		vt_die("ibv_alloc_mw");
	VT_CHECK(ibv_bind_mw(qp, mw, &bind) == EPERM || ibv_bind_mw(qp, mw, &bind) == EINVAL, "a window of another PD");
	VT_CHECK(ibv_dealloc_pd(other) == EBUSY, "a PD with a window");
	VT_OK(ibv_dealloc_mw(mw));
	mw = ibv_alloc_mw(t->pd, IBV_MW_TYPE_1);
	if (mw == NULL)
		vt_die("ibv_alloc_mw");
	bind.bind_info.mw_access_flags = IBV_ACCESS_ON_DEMAND;
	VT_CHECK(ibv_bind_mw(qp, mw, &bind) == EINVAL, "an access that windows don't have");
	bind.bind_info.mw_access_flags = IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_READ;
	VT_CHECK(ibv_bind_mw(qp, mw, &bind) == EINVAL, "zero based, type 1");
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_READ;
	bind.bind_info.mr = NULL;
	VT_CHECK(ibv_bind_mw(qp, mw, &bind) == EINVAL, "no MR");
	bind.bind_info.mr = t->mr;
	VT_OK(ibv_bind_mw(qp, mw, &bind));
	vt_expect(cq, 0, IBV_WC_SUCCESS);
	VT_CHECK(ibv_rereg_mr(t->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) == IBV_REREG_MR_ERR_INPUT &&
		 errno == EBUSY, "an MR with a window: %s", strerror(errno));
	/* As programs do, although it says nothing. */
	bind.bind_info.mw_access_flags |= IBV_ACCESS_LOCAL_WRITE;
	VT_OK(ibv_bind_mw(qp, mw, &bind));
	vt_expect(cq, 0, IBV_WC_SUCCESS);
	VT_OK(ibv_dealloc_mw(mw));
	vt_destroy_qp(qp);
	vt_destroy_cq(cq);
	VT_OK(ibv_dealloc_pd(other));
}

/* ---- Queries ---- */
static void
queries(struct vt *t)
{
	struct ibv_query_device_ex_input in = { .comp_mask = 1 };
	struct ibv_gid_entry entry, entries[64];
	struct ibv_device_attr_ex dev;
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;
	ssize_t n;

	static const int ports[] = { 0, 2, 255 };
	for (unsigned int i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		VT_CHECK(ibv_query_port(t->ctx, ports[i], &port) == EINVAL, "port %d", ports[i]);
		errno = 0;
		VT_CHECK(ibv_query_gid(t->ctx, ports[i], 0, &gid) != 0 && errno == EINVAL, "port %d", ports[i]);
		errno = 0;
		VT_CHECK(ibv_query_pkey(t->ctx, ports[i], 0, &pkey) != 0 && errno == EINVAL, "port %d", ports[i]);
		VT_CHECK(ibv_get_pkey_index(t->ctx, ports[i], htobe16(0xffff)) == -1, "port %d", ports[i]);
		VT_CHECK(ibv_query_gid_ex(t->ctx, ports[i], 0, &entry, 0) == EINVAL, "port %d", ports[i]);
	}
	VT_OK(ibv_query_port(t->ctx, VT_PORT, &port));
	static const int indexes[] = { -1, 1000, INT32_MAX };
	for (unsigned int i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++) {
		errno = 0;
		VT_CHECK(ibv_query_gid(t->ctx, VT_PORT, indexes[i], &gid) != 0 && errno == EINVAL, "GID %d", indexes[i]);
		errno = 0;
		VT_CHECK(ibv_query_pkey(t->ctx, VT_PORT, indexes[i], &pkey) != 0 && errno == EINVAL, "P_Key %d", indexes[i]);
		VT_CHECK(ibv_query_gid_ex(t->ctx, VT_PORT, indexes[i], &entry, 0) == EINVAL, "GID %d", indexes[i]);
	}
	VT_CHECK(ibv_query_gid_ex(t->ctx, VT_PORT, port.gid_tbl_len - 1, &entry, 0) == ENODATA, "an unused GID");
	VT_CHECK(ibv_query_gid_ex(t->ctx, VT_PORT, 0, &entry, 1) == EOPNOTSUPP, "flags");
	VT_CHECK(ibv_query_gid_table(t->ctx, entries, 64, 1) == -EOPNOTSUPP, "flags");
	VT_CHECK(ibv_query_gid_table(t->ctx, entries, 0, 0) == -EINVAL, "no room");
	n = ibv_query_gid_table(t->ctx, entries, 64, 0);
	VT_CHECK(n > 1, "%zd GIDs", n);
	for (ssize_t i = 0; i < n; i++) {
		VT_OK(ibv_query_gid_ex(t->ctx, VT_PORT, entries[i].gid_index, &entry, 0));
		VT_CHECK(memcmp(&entry, &entries[i], sizeof(entry)) == 0 && entry.gid_type == IBV_GID_TYPE_ROCE_V2, "GID %u",
			 entries[i].gid_index);
	}
	VT_CHECK(ibv_get_pkey_index(t->ctx, VT_PORT, htobe16(0x1234)) == -1, "a P_Key that isn't there");
	VT_CHECK(ibv_query_device_ex(t->ctx, &in, &dev) == EINVAL, "comp_mask");
}

/* ---- What is in use can't go ---- */
static void
objects_in_use(struct vt *t)
{
	struct ibv_pd *pd = ibv_alloc_pd(t->ctx), *domain;
	struct ibv_srq_init_attr sattr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_parent_domain_init_attr pattr = { .pd = pd };
	struct ibv_td_init_attr tattr = { 0 };
	struct ibv_td *td = ibv_alloc_td(t->ctx, &tattr);
	struct ibv_qp_init_attr attr = { .send_cq = vt_cq(t, 4, NULL), .recv_cq = vt_cq(t, 4, NULL), .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = 1, .max_send_sge = 1 } };
	struct ibv_ah_attr av;
	struct ibv_srq *srq = ibv_create_srq(pd, &sattr);
	struct ibv_mr *mr = ibv_reg_mr(pd, t->buf, 100, 0);
	struct ibv_qp *qp;
	struct ibv_ah *ah;

	vt_ah_attr(t, &av);
	ah = ibv_create_ah(pd, &av);
	attr.srq = srq;
	qp = ibv_create_qp(pd, &attr);
	pattr.td = td;
	domain = ibv_alloc_parent_domain(t->ctx, &pattr);
	if (pd == NULL || srq == NULL || mr == NULL || ah == NULL || qp == NULL || td == NULL || domain == NULL)
		vt_die("creating");
	VT_CHECK(ibv_destroy_cq(attr.send_cq) == EBUSY && ibv_destroy_cq(attr.recv_cq) == EBUSY, "CQs of a QP");
	VT_CHECK(ibv_destroy_srq(srq) == EBUSY, "the SRQ of a QP");
	VT_CHECK(ibv_dealloc_pd(pd) == EBUSY, "a PD of everything");
	VT_CHECK(ibv_dealloc_td(td) == EBUSY, "a thread domain of a parent domain");
	vt_destroy_qp(qp);
	VT_CHECK(ibv_dealloc_pd(pd) == EBUSY, "a PD of an SRQ, an MR and an AH");
	VT_OK(ibv_destroy_srq(srq));
	VT_OK(ibv_dereg_mr(mr));
	VT_OK(ibv_destroy_ah(ah));
	VT_CHECK(ibv_dealloc_pd(pd) == EBUSY, "a PD of a parent domain");
	VT_OK(ibv_dealloc_pd(domain));
	VT_OK(ibv_dealloc_td(td));
	VT_OK(ibv_dealloc_pd(pd));
	vt_destroy_cq(attr.send_cq);
	vt_destroy_cq(attr.recv_cq);
	errno = 0;
	pattr = (struct ibv_parent_domain_init_attr){ .pd = NULL };
	VT_CHECK(ibv_alloc_parent_domain(t->ctx, &pattr) == NULL && errno == EINVAL, "no PD: %s", strerror(errno));
	pattr = (struct ibv_parent_domain_init_attr){ .pd = t->pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS };
	VT_CHECK(ibv_alloc_parent_domain(t->ctx, &pattr) == NULL && errno == EOPNOTSUPP, "allocators: %s", strerror(errno));
	tattr.comp_mask = 1;
	VT_CHECK(ibv_alloc_td(t->ctx, &tattr) == NULL && errno == EOPNOTSUPP, "%s", strerror(errno));
}

int
main(int argc, char **argv)
{
	static const struct vt_case cases[] = {
		VT_CASE(completion_queues), VT_CASE(creating_qps), VT_CASE(modifying_an_rc_qp),
		VT_CASE(modifying_uc_and_ud_qps), VT_CASE(shared_receive_queues), VT_CASE(address_handles),
		VT_CASE(memory_regions), VT_CASE(reregistration), VT_CASE(memory_windows), VT_CASE(queries),
		VT_CASE(objects_in_use),
	};

	return vt_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
