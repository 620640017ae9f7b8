/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrong values of what makes and modifies QPs. */
#include "bad_args.h"

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

void
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

void
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

void
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
