/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: every ibv_wr_* builder, lists that are given up, what queries say, what was asked for and granted. */
#include <pthread.h>
#include <sched.h>

#include "vt.h"

enum { HALF = VT_BUFFER_BYTES / 2 };

struct pair {
	struct ibv_cq *a_cq, *b_cq;
	struct ibv_qp *a, *b;
	struct ibv_qp_ex *x; /* of a */
};

static struct ibv_qp *
qp_ex(struct vt *t, enum ibv_qp_type type, struct ibv_cq *cq, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = type,
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = VT_DEPTH, .max_recv_wr = VT_DEPTH, .max_send_sge = VT_SGES, .max_recv_sge = VT_SGES,
			 .max_inline_data = VT_INLINE_BYTES },
		.pd = t->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(t->ctx, &attr);

	if (qp == NULL)
		vt_die("ibv_create_qp_ex");
	return qp;
}

static const uint64_t rc_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
	IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
	IBV_QP_EX_WITH_SEND_WITH_INV;

static void
pair_make(struct vt *t, struct pair *p)
{
	p->a_cq = vt_cq(t, 4 * VT_DEPTH, NULL);
	p->b_cq = vt_cq(t, 4 * VT_DEPTH, NULL);
	p->a = qp_ex(t, IBV_QPT_RC, p->a_cq, rc_ops);
	p->b = qp_ex(t, IBV_QPT_RC, p->b_cq, rc_ops);
	p->x = ibv_qp_to_qp_ex(p->a);
	vt_connect(t, p->a, p->b);
	vt_connect(t, p->b, p->a);
	for (int i = 0; i < VT_BUFFER_BYTES; i++)
		t->buf[i] = i < HALF ? (uint8_t)(i * 7 + 1) : 0;
}

static void
pair_unmake(struct pair *p)
{
	vt_destroy_qp(p->a);
	vt_destroy_qp(p->b);
	vt_destroy_cq(p->a_cq);
	vt_destroy_cq(p->b_cq);
}

static void
begin(struct pair *p, uint64_t wr_id)
{
	ibv_wr_start(p->x);
	p->x->wr_id = wr_id;
	p->x->wr_flags = IBV_SEND_SIGNALED;
}

/* One completion of this opcode. */
static void
done(struct pair *p, uint64_t wr_id, enum ibv_wc_opcode op)
{
	struct ibv_wc wc;

	VT_OK(ibv_wr_complete(p->x));
	if (!vt_poll(p->a_cq, &wc))
		return;
	VT_CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id && wc.opcode == op, "%s, wr_id %lu, opcode %d",
		 ibv_wc_status_str(wc.status), (unsigned long)wc.wr_id, wc.opcode);
}

static struct ibv_wc
received(struct pair *p, uint64_t wr_id, uint32_t bytes)
{
	struct ibv_wc wc = { 0 };

	if (vt_poll(p->b_cq, &wc))
		VT_CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id && wc.byte_len == bytes, "%s, wr_id %lu, %u bytes",
			 ibv_wc_status_str(wc.status), (unsigned long)wc.wr_id, wc.byte_len);
	return wc;
}

static void
every_builder_of_an_rc_qp(struct vt *t)
{
	uint64_t va = (uintptr_t)t->buf, there = va + HALF, *word = (void *)(t->buf + HALF + 1024), *old = (void *)(t->buf + 8);
	struct ibv_data_buf bufs[2] = { { t->buf + 40, 20 }, { t->buf + 90, 30 } };
	struct ibv_sge sges[2] = { { va + 100, 50, t->mr->lkey }, { va + 300, 70, t->mr->lkey } };
	struct ibv_mw_bind_info info = { t->mr, there, 4096, IBV_ACCESS_REMOTE_WRITE };
	struct ibv_mw *mw = ibv_alloc_mw(t->pd, IBV_MW_TYPE_2);
	struct ibv_wc wc;
	struct pair p;
	uint32_t key;

	if (mw == NULL)
		vt_die("ibv_alloc_mw");
	pair_make(t, &p);
	VT_CHECK(p.x != NULL, "ibv_qp_to_qp_ex");
	for (int i = 0; i < 8; i++)
		vt_recv(t, p.b, i);

	begin(&p, 10);
	ibv_wr_send(p.x);
	ibv_wr_set_sge(p.x, t->mr->lkey, va, 500);
	done(&p, 10, IBV_WC_SEND);
	received(&p, 0, 500);
	VT_CHECK(memcmp(t->buf, t->buf + HALF, 500) == 0, "other bytes");

	begin(&p, 11);
	ibv_wr_send_imm(p.x, htobe32(0x11223344));
	ibv_wr_set_sge_list(p.x, 2, sges);
	done(&p, 11, IBV_WC_SEND);
	wc = received(&p, 1, 120);
	VT_CHECK(wc.wc_flags == IBV_WC_WITH_IMM && wc.imm_data == htobe32(0x11223344), "immediate");
	VT_CHECK(memcmp(t->buf + 100, t->buf + HALF, 50) == 0 && memcmp(t->buf + 300, t->buf + HALF + 50, 70) == 0,
		 "other bytes");

	begin(&p, 12);
	ibv_wr_send(p.x);
	ibv_wr_set_inline_data_list(p.x, 2, bufs);
	done(&p, 12, IBV_WC_SEND);
	received(&p, 2, 50);
	VT_CHECK(memcmp(t->buf + 40, t->buf + HALF, 20) == 0 && memcmp(t->buf + 90, t->buf + HALF + 20, 30) == 0,
		 "other bytes");

	begin(&p, 13);
	ibv_wr_rdma_write(p.x, t->mr->rkey, there + 2000);
	ibv_wr_set_inline_data(p.x, t->buf + 77, 33);
	done(&p, 13, IBV_WC_RDMA_WRITE);
	VT_CHECK(memcmp(t->buf + 77, t->buf + HALF + 2000, 33) == 0, "other bytes");

	begin(&p, 14);
	ibv_wr_rdma_write_imm(p.x, t->mr->rkey, there + 3000, htobe32(5));
	ibv_wr_set_sge(p.x, t->mr->lkey, va + 9, 99);
	done(&p, 14, IBV_WC_RDMA_WRITE);
	wc = received(&p, 3, 99);
	VT_CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.imm_data == htobe32(5), "immediate");

	begin(&p, 15);
	ibv_wr_rdma_read(p.x, t->mr->rkey, va + 5000);
	ibv_wr_set_sge(p.x, t->mr->lkey, there + 5000, 1000);
	done(&p, 15, IBV_WC_RDMA_READ);
	VT_CHECK(memcmp(t->buf + 5000, t->buf + HALF + 5000, 1000) == 0, "other bytes");

	*word = 100;
	begin(&p, 16);
	ibv_wr_atomic_fetch_add(p.x, t->mr->rkey, (uintptr_t)word, 11);
	ibv_wr_set_sge(p.x, t->mr->lkey, (uintptr_t)old, 8);
	done(&p, 16, IBV_WC_FETCH_ADD);
	VT_CHECK(*word == 111 && *old == 100, "%lu, before %lu", (unsigned long)*word, (unsigned long)*old);
	begin(&p, 17);
	ibv_wr_atomic_cmp_swp(p.x, t->mr->rkey, (uintptr_t)word, 111, 7);
	ibv_wr_set_sge(p.x, t->mr->lkey, (uintptr_t)old, 8);
	done(&p, 17, IBV_WC_COMP_SWAP);
	VT_CHECK(*word == 7 && *old == 111, "%lu, before %lu", (unsigned long)*word, (unsigned long)*old);

	/* A window of a's QP: type 2 is bound to the QP that it was bound with, so a writes to itself through b's. */
	key = ibv_inc_rkey(mw->rkey);
	ibv_wr_start(ibv_qp_to_qp_ex(p.b));
	ibv_qp_to_qp_ex(p.b)->wr_id = 18;
	ibv_qp_to_qp_ex(p.b)->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(ibv_qp_to_qp_ex(p.b), mw, key, &info);
	VT_OK(ibv_wr_complete(ibv_qp_to_qp_ex(p.b)));
	vt_expect(p.b_cq, 18, IBV_WC_SUCCESS);
	begin(&p, 19);
	ibv_wr_rdma_write(p.x, key, there + 10);
	ibv_wr_set_sge(p.x, t->mr->lkey, va + 600, 60);
	done(&p, 19, IBV_WC_RDMA_WRITE);
	VT_CHECK(memcmp(t->buf + 600, t->buf + HALF + 10, 60) == 0, "other bytes");
	begin(&p, 20);
	ibv_wr_send_inv(p.x, key);
	ibv_wr_set_sge(p.x, t->mr->lkey, va, 10);
	done(&p, 20, IBV_WC_SEND);
	wc = received(&p, 4, 10);
	VT_CHECK(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == key, "flags 0x%x", wc.wc_flags);
	key = ibv_inc_rkey(key);
	begin(&p, 21);
	ibv_wr_bind_mw(p.x, mw, key, &info);
	done(&p, 21, IBV_WC_BIND_MW);
	begin(&p, 22);
	ibv_wr_local_inv(p.x, key);
	done(&p, 22, IBV_WC_LOCAL_INV);
	pair_unmake(&p);
	VT_OK(ibv_dealloc_mw(mw));
}

static void
a_list_of_builders_is_posted_at_once(struct vt *t)
{
	struct ibv_wc wc;
	struct pair p;

	pair_make(t, &p);
	begin(&p, 0);
	for (int i = 0; i < 10; i++) {
		p.x->wr_id = i;
		p.x->wr_flags = i == 9 ? IBV_SEND_SIGNALED : 0;
		ibv_wr_rdma_write(p.x, t->mr->rkey, (uintptr_t)t->buf + HALF + i * 100);
		ibv_wr_set_sge(p.x, t->mr->lkey, (uintptr_t)t->buf + i * 100, 100);
	}
	VT_CHECK(ibv_poll_cq(p.a_cq, 1, &wc) == 0 && t->buf[HALF] == 0, "posted before ibv_wr_complete()");
	done(&p, 9, IBV_WC_RDMA_WRITE);
	VT_CHECK(memcmp(t->buf, t->buf + HALF, 1000) == 0, "other bytes");
	VT_CHECK(ibv_poll_cq(p.a_cq, 1, &wc) == 0, "an unsignalled one completes");
	pair_unmake(&p);
}

static void
a_list_that_is_aborted_or_wrong_posts_nothing(struct vt *t)
{
	struct ibv_data_buf big = { t->buf, VT_BUFFER_BYTES };
	struct ibv_sge sges[40] = { { 0 } };
	struct ibv_wc wc;
	struct pair p;
	int rc;

	pair_make(t, &p);
	for (int i = 0; i < 3 * VT_DEPTH; i++) {
		begin(&p, 1);
		ibv_wr_rdma_write(p.x, t->mr->rkey, (uintptr_t)t->buf + HALF);
		ibv_wr_set_sge(p.x, t->mr->lkey, (uintptr_t)t->buf, 100);
		ibv_wr_abort(p.x);
	}
	begin(&p, 2);
	ibv_wr_rdma_write(p.x, t->mr->rkey, (uintptr_t)t->buf + HALF);
	ibv_wr_set_inline_data_list(p.x, 1, &big);
	VT_CHECK(ibv_wr_complete(p.x) == EINVAL, "too much inline data");
	begin(&p, 3);
	ibv_wr_rdma_write(p.x, t->mr->rkey, (uintptr_t)t->buf + HALF);
	ibv_wr_set_sge(p.x, t->mr->lkey, (uintptr_t)t->buf, 100);
	ibv_wr_send(p.x);
	ibv_wr_set_sge_list(p.x, 40, sges);
	VT_CHECK(ibv_wr_complete(p.x) == EINVAL, "too many SGEs");
	begin(&p, 4);
	for (int i = 0; i < 100000; i++) {
		ibv_wr_rdma_write(p.x, t->mr->rkey, (uintptr_t)t->buf + HALF);
		ibv_wr_set_sge(p.x, t->mr->lkey, (uintptr_t)t->buf, 100);
	}
	rc = ibv_wr_complete(p.x);
	VT_CHECK(rc == ENOMEM, "more than the queue takes: %s", strerror(rc));
	VT_CHECK(ibv_poll_cq(p.a_cq, 1, &wc) == 0 && t->buf[HALF] == 0, "something was posted");
	begin(&p, 5);
	ibv_wr_rdma_write(p.x, t->mr->rkey, (uintptr_t)t->buf + HALF);
	ibv_wr_set_sge(p.x, t->mr->lkey, (uintptr_t)t->buf, 100);
	done(&p, 5, IBV_WC_RDMA_WRITE);
	VT_CHECK(memcmp(t->buf, t->buf + HALF, 100) == 0 && t->buf[HALF + 100] == 0, "other bytes");
	pair_unmake(&p);
}

struct builder {
	struct pair *p;
	struct vt *t;
	unsigned int id;
};
enum { BUILDERS = 4, EACH = 400 };

static void *
build(void *arg)
{
	const struct builder *b = arg;
	struct ibv_qp_ex *x = b->p->x;
	uint64_t end = vt_now_ns() + VT_SECONDS * UINT64_C(1000000000);

	for (unsigned int i = 0; i < EACH && vt_now_ns() < end;) {
		ibv_wr_start(x);
		x->wr_id = b->id * EACH + i;
		x->wr_flags = IBV_SEND_SIGNALED;
		/* Each its own bytes: with another thread's setters in between they would be others. */
		ibv_wr_rdma_write(x, b->t->mr->rkey, (uintptr_t)b->t->buf + HALF + b->id * EACH + i);
		ibv_wr_set_sge(x, b->t->mr->lkey, (uintptr_t)b->t->buf + b->id * EACH + i, 1);
		if (i % 7 == 6 && (i / 7) % 2 && !(i & 1)) {
			ibv_wr_abort(x);
			ibv_wr_start(x);
			x->wr_id = b->id * EACH + i;
			x->wr_flags = IBV_SEND_SIGNALED;
			ibv_wr_rdma_write(x, b->t->mr->rkey, (uintptr_t)b->t->buf + HALF + b->id * EACH + i);
			ibv_wr_set_sge(x, b->t->mr->lkey, (uintptr_t)b->t->buf + b->id * EACH + i, 1);
		}
		if (ibv_wr_complete(x) == 0)
			i++;
		else
			sched_yield();
	}
	return NULL;
}

static void
several_threads_build_on_one_qp(struct vt *t)
{
	struct builder b[BUILDERS];
	pthread_t threads[BUILDERS];
	bool seen[BUILDERS * EACH] = { false };
	struct ibv_wc wc;
	struct pair p;

	pair_make(t, &p);
	for (unsigned int i = 0; i < BUILDERS; i++) {
		b[i] = (struct builder){ &p, t, i };
		pthread_create(&threads[i], NULL, build, &b[i]);
	}
	for (unsigned int i = 0; i < BUILDERS * EACH && vt_poll(p.a_cq, &wc); i++) {
		VT_CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id < BUILDERS * EACH && !seen[wc.wr_id], "%s, wr_id %lu",
			 ibv_wc_status_str(wc.status), (unsigned long)wc.wr_id);
		if (wc.wr_id < BUILDERS * EACH)
			seen[wc.wr_id] = true;
	}
	for (unsigned int i = 0; i < BUILDERS; i++)
		pthread_join(threads[i], NULL);
	VT_CHECK(memcmp(t->buf, t->buf + HALF, BUILDERS * EACH) == 0, "other bytes");
	pair_unmake(&p);
}

static void
builders_of_a_ud_qp(struct vt *t)
{
	struct ibv_cq *cq = vt_cq(t, 4 * VT_DEPTH, NULL);
	struct ibv_qp *qp = qp_ex(t, IBV_QPT_UD, cq, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);
	struct ibv_ah_attr attr;
	struct ibv_wc wc;
	struct ibv_ah *ah;

	vt_connect(t, qp, qp);
	vt_ah_attr(t, &attr);
	ah = ibv_create_ah(t->pd, &attr);
	if (ah == NULL)
		vt_die("ibv_create_ah");
	for (int i = 0; i < VT_BUFFER_BYTES; i++)
		t->buf[i] = i < HALF ? (uint8_t)(i * 7 + 1) : 0;
	vt_recv(t, qp, 1);
	ibv_wr_start(x);
	x->wr_id = 2;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_imm(x, htobe32(9));
	ibv_wr_set_ud_addr(x, ah, qp->qp_num, VT_QKEY);
	ibv_wr_set_sge(x, t->mr->lkey, (uintptr_t)t->buf, 200);
	VT_OK(ibv_wr_complete(x));
	for (int i = 0; i < 2 && vt_poll(cq, &wc); i++) {
		VT_CHECK(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
		if (wc.wr_id == 1)
			VT_CHECK(wc.byte_len == 240 && wc.imm_data == htobe32(9) && wc.src_qp == qp->qp_num &&
				 wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM), "%u bytes, flags 0x%x", wc.byte_len, wc.wc_flags);
	}
	VT_CHECK(memcmp(t->buf, t->buf + HALF + 40, 200) == 0, "other bytes");
	VT_OK(ibv_destroy_ah(ah));
	vt_destroy_qp(qp);
	vt_destroy_cq(cq);
}

/* A NIC's WQE has the address in it: what is posted goes out, although the AH is destroyed at once. */
static void
datagrams_outlive_their_ah(struct vt *t)
{
	enum { ROUNDS = 200, EACH_ROUND = 4 };
	struct ibv_cq *cq = vt_cq(t, VT_DEPTH, NULL);
	struct ibv_qp *qp = vt_qp(t, IBV_QPT_UD, cq, cq);
	struct ibv_sge sge = { (uintptr_t)t->buf, 8, t->mr->lkey };
	struct ibv_ah_attr attr;
	struct ibv_wc wc;

	vt_connect(t, qp, qp);
	vt_ah_attr(t, &attr);
	for (int i = 0; i < ROUNDS && !vt_failed; i++) {
		struct ibv_ah *ah = ibv_create_ah(t->pd, &attr);
		struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };

		if (ah == NULL)
			vt_die("ibv_create_ah");
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qp->qp_num;
		wr.wr.ud.remote_qkey = VT_QKEY;
		for (int k = 0; k < EACH_ROUND; k++)
			VT_OK(ibv_post_send(qp, &wr, &bad));
		VT_OK(ibv_destroy_ah(ah));
		for (int k = 0; k < EACH_ROUND && vt_poll(cq, &wc); k++)
			VT_CHECK(wc.status == IBV_WC_SUCCESS, "round %d: %s", i, ibv_wc_status_str(wc.status));
	}
	vt_destroy_qp(qp);
	vt_destroy_cq(cq);
}

/* The same from memory that isn't mapped, so that it has to be copied first, and with the QP destroyed at once as well. */
static void
datagrams_outlive_ah_and_qp(struct vt *t)
{
	enum { ROUNDS = 100, EACH_ROUND = 8, BYTES = 100 };
	struct ibv_cq *cq = vt_cq(t, VT_DEPTH, NULL);
	struct ibv_qp *to = vt_qp(t, IBV_QPT_UD, cq, cq);
	uint8_t *small = malloc(BYTES);
	struct ibv_mr *mr = small != NULL ? ibv_reg_mr(t->pd, small, BYTES, 0) : NULL;
	struct ibv_sge sge = { (uintptr_t)small, BYTES, mr != NULL ? mr->lkey : 0 };
	struct ibv_ah_attr attr;
	struct ibv_wc wc;

	if (mr == NULL)
		vt_die("ibv_reg_mr of malloc's memory");
	memset(small, 3, BYTES);
	vt_connect(t, to, to);
	vt_ah_attr(t, &attr);
	for (int i = 0; i < ROUNDS && !vt_failed; i++) {
		struct ibv_qp *from = vt_qp(t, IBV_QPT_UD, cq, cq);
		struct ibv_ah *ah = ibv_create_ah(t->pd, &attr);
		struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };

		if (ah == NULL)
			vt_die("ibv_create_ah");
		vt_connect(t, from, from);
		for (int k = 0; k < EACH_ROUND; k++)
			vt_recv(t, to, k);
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = to->qp_num;
		wr.wr.ud.remote_qkey = VT_QKEY;
		for (int k = 0; k < EACH_ROUND; k++)
			VT_OK(ibv_post_send(from, &wr, &bad));
		if (i % 2 == 0)
			VT_OK(ibv_destroy_ah(ah));
		vt_destroy_qp(from);
		if (i % 2 != 0)
			VT_OK(ibv_destroy_ah(ah));
		for (int k = 0; k < EACH_ROUND && vt_poll(cq, &wc); k++)
			VT_CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV, "round %d: %s", i, ibv_wc_status_str(wc.status));
	}
	VT_OK(ibv_dereg_mr(mr));
	free(small);
	vt_destroy_qp(to);
	vt_destroy_cq(cq);
}

/* What was set is what a query says, field by field. */
static void
compare(const struct ibv_qp_attr *got, const struct ibv_qp_attr *set, int mask)
{
#define SAME(bit, field) \
	if (mask & IBV_QP_##bit) \
		VT_CHECK(got->field == set->field, #field " %ld, not %ld", (long)got->field, (long)set->field)
	SAME(STATE, qp_state);
	SAME(STATE, qp_state);
	SAME(ACCESS_FLAGS, qp_access_flags);
	SAME(PKEY_INDEX, pkey_index);
	SAME(PORT, port_num);
	SAME(QKEY, qkey);
	SAME(PATH_MTU, path_mtu);
	SAME(TIMEOUT, timeout);
	SAME(RETRY_CNT, retry_cnt);
	SAME(RNR_RETRY, rnr_retry);
	SAME(RQ_PSN, rq_psn);
	SAME(SQ_PSN, sq_psn);
	SAME(MAX_QP_RD_ATOMIC, max_rd_atomic);
	SAME(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	SAME(MIN_RNR_TIMER, min_rnr_timer);
	SAME(DEST_QPN, dest_qp_num);
#undef SAME
	if (mask & IBV_QP_AV)
		VT_CHECK(memcmp(&got->ah_attr, &set->ah_attr, sizeof(got->ah_attr)) == 0, "ah_attr");
}

static void
a_query_is_true_in_every_field(struct vt *t)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	const int all = IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_AV | IBV_QP_PATH_MTU |
			IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER | IBV_QP_SQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_PATH_MIG_STATE | IBV_QP_CAP |
			IBV_QP_DEST_QPN | IBV_QP_STATE | IBV_QP_CUR_STATE;
	struct ibv_cq *scq = vt_cq(t, 64, NULL), *rcq = vt_cq(t, 64, NULL);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr, got;
	struct ibv_qp *qp;
	int context, mask;

	for (unsigned int i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct ibv_qp_init_attr want = {
			.qp_context = &context, .send_cq = scq, .recv_cq = rcq, .qp_type = types[i], .sq_sig_all = i & 1,
			.cap = { 20, 30, 3, 4, 50 },
		};
		struct ibv_qp_cap asked = want.cap;

		qp = ibv_create_qp(t->pd, &want);
		if (qp == NULL)
			vt_die("ibv_create_qp");
		VT_CHECK(want.cap.max_send_wr >= asked.max_send_wr && want.cap.max_recv_wr >= asked.max_recv_wr &&
			 want.cap.max_send_sge >= asked.max_send_sge && want.cap.max_recv_sge >= asked.max_recv_sge &&
			 want.cap.max_inline_data >= asked.max_inline_data, "less is granted than was asked for");
		VT_OK(ibv_query_qp(qp, &got, all, &init));
		VT_CHECK(got.qp_state == IBV_QPS_RESET && got.cur_qp_state == IBV_QPS_RESET, "state %d", got.qp_state);
		VT_CHECK(init.qp_context == &context && init.send_cq == scq && init.recv_cq == rcq && init.srq == NULL &&
			 init.qp_type == types[i] && init.sq_sig_all == want.sq_sig_all &&
			 memcmp(&init.cap, &want.cap, sizeof(init.cap)) == 0, "init_attr");
		VT_CHECK(memcmp(&got.cap, &want.cap, sizeof(got.cap)) == 0, "cap");
		mask = vt_attr_init(qp, &attr);
		VT_OK(ibv_modify_qp(qp, &attr, mask));
		VT_OK(ibv_query_qp(qp, &got, all, &init));
		compare(&got, &attr, mask);
		mask = vt_attr_rtr(t, qp, 0x123456, &attr);
		attr.rq_psn = 0xabcdef;
		if (types[i] != IBV_QPT_UD) {
			attr.ah_attr.grh.flow_label = 0x12345;
			attr.ah_attr.grh.traffic_class = 96;
			attr.ah_attr.grh.hop_limit = 33;
			attr.ah_attr.sl = 3;
		}
		VT_OK(ibv_modify_qp(qp, &attr, mask));
		VT_OK(ibv_query_qp(qp, &got, all, &init));
		compare(&got, &attr, mask);
		mask = vt_attr_rts(qp, &attr);
		attr.sq_psn = 0x765432;
		VT_OK(ibv_modify_qp(qp, &attr, mask));
		VT_OK(ibv_query_qp(qp, &got, all, &init));
		compare(&got, &attr, mask);
		VT_CHECK(got.cur_qp_state == IBV_QPS_RTS && qp->state == IBV_QPS_RTS, "state %d", got.cur_qp_state);
		VT_CHECK(got.sq_draining == 0, "draining");
		attr.qp_state = IBV_QPS_ERR;
		VT_OK(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
		VT_OK(ibv_query_qp(qp, &got, all, &init));
		VT_CHECK(got.qp_state == IBV_QPS_ERR, "state %d", got.qp_state);
		attr.qp_state = IBV_QPS_RESET;
		VT_OK(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
		VT_OK(ibv_query_qp(qp, &got, all, &init));
		VT_CHECK(got.qp_state == IBV_QPS_RESET, "state %d", got.qp_state);
		vt_destroy_qp(qp);
	}
	vt_destroy_cq(scq);
	vt_destroy_cq(rcq);
}

static void
sq_sig_all_signals_everything(struct vt *t)
{
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .cap = { 8, 1, 1, 1, 0 }, .sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(t->pd, &attr);

	if (qp == NULL)
		vt_die("ibv_create_qp");
	vt_connect(t, qp, qp);
	for (int i = 0; i < 5; i++)
		vt_send(t, qp, IBV_WR_RDMA_WRITE, i, 10, 0);
	for (int i = 0; i < 5; i++)
		vt_expect(cq, i, IBV_WC_SUCCESS);
	vt_destroy_qp(qp);
	vt_destroy_cq(cq);
}

static void
ece_and_rates_are_honest(struct vt *t)
{
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1000 };
	struct ibv_device_attr_ex dev;
	struct ibv_cq *cq = vt_cq(t, 64, NULL);
	struct ibv_qp *qp = vt_qp(t, IBV_QPT_RC, cq, cq);
	struct ibv_ece ece = { 1, 2, 3 };

	VT_OK(ibv_query_ece(qp, &ece));
	VT_CHECK(ece.vendor_id == 0 && ece.options == 0 && ece.comp_mask == 0, "options that nobody has");
	VT_OK(ibv_set_ece(qp, &ece));
	ece.vendor_id = 0x15b3;
	VT_CHECK(ibv_set_ece(qp, &ece) == EOPNOTSUPP, "another vendor's options");
	ece = (struct ibv_ece){ .comp_mask = 1 };
	VT_CHECK(ibv_set_ece(qp, &ece) == EINVAL || ibv_set_ece(qp, &ece) == EOPNOTSUPP, "comp_mask");
	vt_connect(t, qp, qp);
	VT_CHECK(ibv_modify_qp_rate_limit(qp, &rate) == EOPNOTSUPP, "a rate limit");
	VT_OK(ibv_query_device_ex(t->ctx, NULL, &dev));
	VT_CHECK(dev.packet_pacing_caps.qp_rate_limit_max == 0, "it is promised");
	vt_destroy_qp(qp);
	vt_destroy_cq(cq);
}

int
main(int argc, char **argv)
{
	static const struct vt_case cases[] = {
		VT_CASE(every_builder_of_an_rc_qp), VT_CASE(a_list_of_builders_is_posted_at_once),
		VT_CASE(a_list_that_is_aborted_or_wrong_posts_nothing), VT_CASE(several_threads_build_on_one_qp),
		VT_CASE(builders_of_a_ud_qp), VT_CASE(datagrams_outlive_their_ah),
		VT_CASE(datagrams_outlive_ah_and_qp),
		VT_CASE(a_query_is_true_in_every_field),
		VT_CASE(sq_sig_all_signals_everything), VT_CASE(ece_and_rates_are_honest),
	};

	return vt_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
