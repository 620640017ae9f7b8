/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of QPs: made, moved through their states, posted to by lists of work requests and by builders. */
#include <fcntl.h>
#include <unistd.h>

#include "functions.h"

/* ---- QPs ---- */
FN(ibv_create_qp)
{
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp *q = ibv_create_qp(t->pd, &attr);

	OR_ERRNO(q);
	return ibv_destroy_qp(q);
}
FN(ibv_destroy_qp) { return call_ibv_create_qp(t); }
FN(ibv_create_qp_ex)
{
	struct ibv_qp *q = make_qp(t, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);

	OR_ERRNO(q);
	return ibv_destroy_qp(q);
}
FN(ibv_qp_to_qp_ex) { return x != NULL ? 0 : WRONG; }
FN(ibv_modify_qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = 5 };

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER);
}
FN(ibv_query_qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	NEED(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state == IBV_QPS_RTS && attr.dest_qp_num == peer->qp_num && init.send_cq == cq ? 0 : WRONG;
}
FN_WHY(ibv_modify_qp_rate_limit, "packets are paced by congestion control only; packet_pacing_caps are 0")
{
	struct ibv_qp_rate_limit_attr attr = { .rate_limit = 1000 };

	return ibv_modify_qp_rate_limit(qp, &attr);
}
FN(ibv_query_qp_data_in_order) { return ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0) >= 0 ? 0 : WRONG; }
FN(ibv_query_ece)
{
	struct ibv_ece ece;

	return ibv_query_ece(qp, &ece) == 0 && ece.vendor_id == 0 ? 0 : WRONG;
}
FN(ibv_set_ece)
{
	struct ibv_ece ece = { 0 };

	return ibv_set_ece(qp, &ece);
}
FN_WHY(ibv_open_qp, NULL)
{
	struct ibv_xrcd_init_attr xattr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(t->ctx, &xattr);
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd };
	struct ibv_qp_open_attr oattr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
					  .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV };
	struct ibv_qp *target, *opened;

	OR_ERRNO(xrcd);
	target = ibv_create_qp_ex(t->ctx, &attr);
	NEED(target != NULL);
	oattr.qp_num = target->qp_num;
	opened = ibv_open_qp(t->ctx, &oattr);
	OR_ERRNO(opened);
	NEED(opened->qp_num == target->qp_num && ibv_destroy_qp(opened) == 0 && ibv_destroy_qp(target) == 0);
	return ibv_close_xrcd(xrcd);
}
FN(ibv_is_qpt_supported) { return ibv_is_qpt_supported(0xffffffff, IBV_QPT_RC) ? 0 : WRONG; }
FN(ibv_post_recv)
{
	struct ibv_wc wc;

	vt_recv(t, peer, 2);
	vt_send(t, qp, IBV_WR_SEND, 1, 50, IBV_SEND_SIGNALED);
	for (int i = 0; i < 2; i++)
		NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return 0;
}

/* Finish a builder's list with one signalled WR of wr_id 7. */
static int
built(void)
{
	int rc = ibv_wr_complete(x);

	if (rc == 0)
		vt_expect(cq, 7, IBV_WC_SUCCESS);
	return vt_failed ? WRONG : rc;
}

static void
build(void)
{
	ibv_wr_start(x);
	x->wr_id = 7;
	x->wr_flags = IBV_SEND_SIGNALED;
}

static int
write_by(struct vt *t, void (*set)(struct vt *t))
{
	t->buf[0]++;
	build();
	ibv_wr_rdma_write(x, t->mr->rkey, (uintptr_t)t->buf + 1000);
	set(t);
	NEED(built() == 0);
	return t->buf[1000] == t->buf[0] ? 0 : WRONG;
}
static void set_sge(struct vt *t) { ibv_wr_set_sge(x, t->mr->lkey, (uintptr_t)t->buf, 8); }
static void
set_sge_list(struct vt *t)
{
	struct ibv_sge s[2] = { { (uintptr_t)t->buf, 8, t->mr->lkey }, { (uintptr_t)t->buf, 8, t->mr->lkey } };

	ibv_wr_set_sge_list(x, 2, s);
}
static void set_inline(struct vt *t) { ibv_wr_set_inline_data(x, t->buf, 8); }
static void
set_inline_list(struct vt *t)
{
	struct ibv_data_buf b[2] = { { t->buf, 8 }, { t->buf, 8 } };

	ibv_wr_set_inline_data_list(x, 2, b);
}
FN(ibv_wr_start) { return write_by(t, set_sge); }
FN(ibv_wr_complete) { return write_by(t, set_sge); }
FN(ibv_wr_rdma_write) { return write_by(t, set_sge); }
FN(ibv_wr_set_sge) { return write_by(t, set_sge); }
FN(ibv_wr_set_sge_list) { return write_by(t, set_sge_list); }
FN(ibv_wr_set_inline_data) { return write_by(t, set_inline); }
FN(ibv_wr_set_inline_data_list) { return write_by(t, set_inline_list); }
FN(ibv_wr_abort)
{
	t->buf[1000] = 0;
	t->buf[0] = 1;
	build();
	ibv_wr_rdma_write(x, t->mr->rkey, (uintptr_t)t->buf + 1000);
	set_sge(t);
	ibv_wr_abort(x);
	usleep(20000);
	NEED(t->buf[1000] == 0);
	return write_by(t, set_sge);
}
FN(ibv_wr_rdma_write_imm)
{
	struct ibv_wc wc;

	vt_recv(t, peer, 2);
	build();
	ibv_wr_rdma_write_imm(x, t->mr->rkey, (uintptr_t)t->buf + 1000, 5);
	set_sge(t);
	NEED(ibv_wr_complete(x) == 0);
	for (int i = 0; i < 2; i++)
		NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return 0;
}
FN(ibv_wr_rdma_read)
{
	t->buf[0]++;
	build();
	ibv_wr_rdma_read(x, t->mr->rkey, (uintptr_t)t->buf);
	ibv_wr_set_sge(x, t->mr->lkey, (uintptr_t)t->buf + 2000, 8);
	NEED(built() == 0);
	return t->buf[2000] == t->buf[0] ? 0 : WRONG;
}
FN(ibv_wr_atomic_fetch_add)
{
	*word = 5;
	build();
	ibv_wr_atomic_fetch_add(x, t->mr->rkey, (uintptr_t)word, 3);
	ibv_wr_set_sge(x, t->mr->lkey, (uintptr_t)t->buf, 8);
	NEED(built() == 0);
	return *word == 8 ? 0 : WRONG;
}
FN(ibv_wr_atomic_cmp_swp)
{
	*word = 5;
	build();
	ibv_wr_atomic_cmp_swp(x, t->mr->rkey, (uintptr_t)word, 5, 3);
	ibv_wr_set_sge(x, t->mr->lkey, (uintptr_t)t->buf, 8);
	NEED(built() == 0);
	return *word == 3 ? 0 : WRONG;
}
FN(ibv_wr_atomic_write)
{
	uint64_t value = 77;

	*word = 5;
	build();
	ibv_wr_atomic_write(x, t->mr->rkey, (uintptr_t)word, &value);
	NEED(built() == 0);
	return *word == 77 ? 0 : WRONG;
}
FN(ibv_wr_flush)
{
	int permitted = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL;
	struct ibv_qp_attr attr = { .qp_access_flags = permitted };
	struct ibv_mr *mr = ibv_reg_mr(t->pd, t->buf, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_FLUSH_GLOBAL);
	int rc;

	NEED(mr != NULL && ibv_modify_qp(peer, &attr, IBV_QP_ACCESS_FLAGS) == 0);
	build();
	ibv_wr_flush(x, mr->rkey, (uintptr_t)t->buf, 100, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	rc = built();
	NEED(ibv_dereg_mr(mr) == 0);
	return rc;
}
static int
send_by(struct vt *t, void (*op)(void))
{
	struct ibv_wc wc;

	vt_recv(t, peer, 2);
	build();
	op();
	set_sge(t);
	NEED(ibv_wr_complete(x) == 0);
	for (int i = 0; i < 2; i++)
		NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return 0;
}
static void op_send(void) { ibv_wr_send(x); }
static void op_send_imm(void) { ibv_wr_send_imm(x, 1); }
FN(ibv_wr_send) { return send_by(t, op_send); }
FN(ibv_wr_send_imm) { return send_by(t, op_send_imm); }
/* A window of peer's, bound there, used and invalidated by @invalidate. */
static int
window(struct vt *t, bool by_peer, bool by_builder)
{
	struct ibv_mw *mw = ibv_alloc_mw(t->pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = { t->mr, (uintptr_t)t->buf, 4096, IBV_ACCESS_REMOTE_WRITE };
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;
	uint32_t key;

	NEED(mw != NULL);
	key = ibv_inc_rkey(mw->rkey);
	if (by_builder) {
		build();
		ibv_wr_bind_mw(x, mw, key, &info);
		NEED(built() == 0);
		build();
		ibv_wr_local_inv(x, key);
		NEED(built() == 0);
	} else {
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = key;
		wr.bind_mw.bind_info = info;
		NEED(ibv_post_send(peer, &wr, &bad) == 0);
		vt_expect(cq, 7, IBV_WC_SUCCESS);
		vt_recv(t, peer, 2);
		build();
		ibv_wr_send_inv(x, key);
		set_sge(t);
		NEED(ibv_wr_complete(x) == 0);
		for (int i = 0; i < 2; i++)
			NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
	}
	(void)by_peer;
	return ibv_dealloc_mw(mw);
}
FN(ibv_wr_bind_mw) { return window(t, false, true); }
FN(ibv_wr_local_inv) { return window(t, false, true); }
FN(ibv_wr_send_inv) { return window(t, true, false); }
FN(ibv_wr_set_ud_addr)
{
	struct ibv_qp *q = make_qp(t, IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *y = q != NULL ? ibv_qp_to_qp_ex(q) : NULL;
	struct ibv_wc wc;

	NEED(y != NULL);
	vt_connect(t, q, q);
	vt_recv(t, q, 2);
	ibv_wr_start(y);
	y->wr_id = 1;
	y->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(y);
	ibv_wr_set_ud_addr(y, ah, q->qp_num, VT_QKEY);
	ibv_wr_set_sge(y, t->mr->lkey, (uintptr_t)t->buf, 8);
	NEED(ibv_wr_complete(y) == 0);
	for (int i = 0; i < 2; i++)
		NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
	return ibv_destroy_qp(q);
}
FN(ibv_wr_set_xrc_srqn)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_SEND, .send_cq = cq, .cap = { 4, 0, 1, 0, 0 }, .pd = t->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_qp *q = ibv_create_qp_ex(t->ctx, &attr);

	OR_ERRNO(q);
	NEED(ibv_qp_to_qp_ex(q) != NULL && ibv_qp_to_qp_ex(q)->wr_set_xrc_srqn != NULL);
	return ibv_destroy_qp(q);
}
FN_WHY(ibv_wr_send_tso, "refused by ibv_create_qp_ex(): max_tso is 0")
{
	return make_qp(t, IBV_QPT_UD, IBV_QP_EX_WITH_TSO) == NULL ? errno : WRONG;
}
