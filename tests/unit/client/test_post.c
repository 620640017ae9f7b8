/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/verbs/{post,qp_wr,cq,cq_ex}.c against the engine's end of the rings, played here. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "verbs/client_priv.h"

enum { SQ_ORDER = 3, SQ_WR = 6, RQ_ORDER = 2, CQ_ORDER = 4, MAX_SGE = 4, MAX_INLINE = 48, QPN = 0x345678 };

/* A QP with one CQ, and the engine's view of both. */
struct bed {
	struct client_ctx ctx;
	struct client_cq cq;
	struct client_qp qp;
	struct ring_qp_shared qp_shared;
	struct ring_cq_shared cq_shared;
	struct ring_db *db;
	struct ring e_sq, e_rq, e_cq;
};

static unsigned int
log2_of(uint32_t n)
{
	return 31 - __builtin_clz(n);
}

static void
make_ring(struct ring *client, struct ring *engine, uint32_t order, uint32_t stride)
{
	size_t bytes = (size_t)stride << order;

	*client = (struct ring){ .base = aligned_alloc(64, (bytes + 63) & ~(size_t)63),
				 .order = order,
				 .shift = log2_of(stride) };
	assert_non_null(client->base);
	memset(client->base, 0, bytes);
	*engine = *client;
}

static void
bed_init(struct bed *b, enum ibv_qp_type type)
{
	struct ibv_qp *q = &b->qp.qp.qp_base;

	memset(b, 0, sizeof(*b));
	b->ctx.qps = calloc(CLIENT_QPN_SLOTS, sizeof(*b->ctx.qps));
	b->ctx.kick_fd = eventfd(0, EFD_NONBLOCK);
	b->db = calloc(1, sizeof(*b->db));
	assert_true(b->ctx.qps && b->db && b->ctx.kick_fd >= 0);
	make_ring(&b->qp.sq, &b->e_sq, SQ_ORDER, ring_sq_stride(MAX_SGE, MAX_INLINE));
	make_ring(&b->qp.rq, &b->e_rq, RQ_ORDER, ring_rq_stride(MAX_SGE));
	make_ring(&b->cq.ring, &b->e_cq, CQ_ORDER, sizeof(struct ring_cqe));
	b->cq.cq.context = &b->ctx.v.context;
	b->cq.shared = &b->cq_shared;
	q->context = &b->ctx.v.context;
	q->send_cq = q->recv_cq = &b->cq.cq;
	q->qp_num = QPN;
	q->qp_type = type;
	b->qp.ctx = &b->ctx;
	b->qp.shared = &b->qp_shared;
	b->qp.db = b->db;
	b->qp.db_slot = 4321;
	b->qp.type_bit = 1u << type;
	b->qp.cap = (struct uroce_qp_cap){ SQ_WR, 1 << RQ_ORDER, MAX_SGE, MAX_SGE, MAX_INLINE };
	b->qp.sq_max = SQ_WR;
	b->qp.rq_max = 1 << RQ_ORDER;
	b->ctx.qps[QPN & (CLIENT_QPN_SLOTS - 1)] = &b->qp;
	b->qp_shared.state = UROCE_QPS_RTS;
	b->qp_shared.sq_watch = 1;
	b->qp_shared.rq_watch = 1;
}

static void
bed_fini(struct bed *b)
{
	free(b->e_sq.base);
	free(b->e_rq.base);
	free(b->e_cq.base);
	free(b->ctx.qps);
	free(b->db);
	close(b->ctx.kick_fd);
}

/* The engine completes the WQE of @p counter. */
static void
complete(struct bed *b, uint32_t counter, uint64_t wr_id, bool is_recv)
{
	struct ring_cqe *e = ring_slot(&b->e_cq, b->e_cq.counter);
	union ring_cqe_ctl ctl = { 0 };

	e->wr_id = wr_id;
	e->byte_len = 11;
	e->imm = 0x01020304;
	e->qpn = QPN;
	e->status = is_recv ? UROCE_WC_SUCCESS : UROCE_WC_RETRY_EXC_ERR;
	e->src_qp = 0xabcdef;
	e->opcode = is_recv ? UROCE_WC_RECV : UROCE_WC_RDMA_WRITE;
	ctl.wqe_counter = counter;
	ctl.vendor_err = 9;
	ctl.wc_flags = UROCE_WC_WITH_IMM;
	ctl.is_recv = is_recv;
	ctl.phase = ring_phase(b->e_cq.counter, CQ_ORDER);
	atomic_store_explicit(&e->ctl, ctl.word, memory_order_release);
	b->e_cq.counter++;
}

static bool
kicked(struct bed *b)
{
	uint64_t n;

	return read(b->ctx.kick_fd, &n, sizeof(n)) == sizeof(n);
}

static bool
bell_rung(struct bed *b)
{
	return b->db->low[4321 >> 6] & UINT64_C(1) << (4321 & 63);
}

static struct ibv_send_wr
write_wr(struct ibv_sge *sge, int n)
{
	return (struct ibv_send_wr){
		.wr_id = 0x1122334455667788,
		.sg_list = sge,
		.num_sge = n,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = 0xdeadbeef000, .rkey = 0x77 },
	};
}

static void
a_write_fills_its_slot(void **state)
{
	struct ibv_sge sge[2] = { { 0x1000, 8, 1 }, { 0x2000, 16, 2 } };
	struct ibv_send_wr wr = write_wr(sge, 2), *bad;
	struct ring_sq_wqe *w;
	union ring_sq_ctl ctl;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	assert_false(ring_sq_ready(&b.e_sq, 0));
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_true(ring_sq_ready(&b.e_sq, 0));
	assert_false(ring_sq_ready(&b.e_sq, 1));
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	assert_true(w->wr_id == 0x1122334455667788);
	assert_true(w->remote_addr == 0xdeadbeef000);
	assert_int_equal(w->rkey, 0x77);
	assert_int_equal(ctl.opcode, UROCE_WR_RDMA_WRITE);
	assert_int_equal(ctl.flags, UROCE_SEND_SIGNALED);
	assert_int_equal(ctl.count, 2);
	assert_memory_equal(w + 1, sge, sizeof(sge));
	/* The engine was looking: nobody was woken. */
	assert_false(bell_rung(&b));
	assert_false(kicked(&b));
	bed_fini(&b);
}

static void
atomics_have_operands_before_their_sge(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = { .remote_addr = 64, .compare_add = 5, .swap = 6, .rkey = 7 },
	}, *bad;
	struct ring_sq_wqe *w;
	struct ring_atomic *a;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	w = ring_slot(&b.e_sq, 0);
	a = (struct ring_atomic *)(w + 1);
	assert_true(w->remote_addr == 64 && w->rkey == 7 && a->compare_add == 5 && a->swap == 6);
	assert_memory_equal(a + 1, &sge, sizeof(sge));
	bed_fini(&b);
}

/* man ibv_post_send, ibv_bind_mw: what is bound, with which rights, under which key. */
static void
binds_and_invalidations_fill_their_slots(void **state)
{
	struct ibv_pd pd, other;
	struct ibv_mr mr = { .pd = &pd, .lkey = 0x123 };
	struct ibv_mw mw = { .pd = &pd, .rkey = 0x4ff, .type = IBV_MW_TYPE_1 };
	struct ibv_mw_bind_info info = { .mr = &mr, .addr = 0x1000, .length = 50,
					 .mw_access_flags = IBV_ACCESS_REMOTE_READ };
	struct ibv_mw_bind bind = { .wr_id = 8, .send_flags = IBV_SEND_SIGNALED, .bind_info = info };
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = 0x456, .num_sge = 1 }, *bad;
	union ring_sq_ctl ctl;
	struct ring_sq_wqe *w;
	struct ring_bind *op;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	b.qp.qp.qp_base.pd = &pd;
	mw.context = b.qp.qp.qp_base.context = &b.ctx.v.context;
	b.ctx.v.context.ops.bind_mw = client_bind_mw;
	b.ctx.v.context.ops.post_send = client_post_send;
	assert_int_equal(ibv_bind_mw(&b.qp.qp.qp_base, &mw, &bind), 0);
	/* The 8 bits wrap, the index stays. */
	assert_int_equal(mw.rkey, 0x400);
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	op = (struct ring_bind *)(w + 1);
	assert_true(ctl.opcode == UROCE_WR_BIND_MW && ctl.count == 0 && ctl.flags == UROCE_SEND_SIGNALED);
	assert_true(w->wr_id == 8 && w->rkey == 0x400 && w->remote_addr == 0x1000);
	assert_true(op->length == 50 && op->lkey == 0x123 && op->access == UROCE_ACCESS_REMOTE_READ);
	/* Refused: rights that a type 1 window can't have, another PD; the key stays. */
	bind.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
	assert_int_equal(ibv_bind_mw(&b.qp.qp.qp_base, &mw, &bind), EINVAL);
	bind.bind_info = info;
	b.qp.qp.qp_base.pd = &other;
	assert_int_equal(ibv_bind_mw(&b.qp.qp.qp_base, &mw, &bind), EPERM);
	assert_int_equal(mw.rkey, 0x400);
	assert_false(ring_sq_ready(&b.e_sq, 1));
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	w = ring_slot(&b.e_sq, 1);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_LOCAL_INV && ctl.count == 0 && w->imm == 0x456);
	/* A type 2 window: its index, and any low byte; zero based too. */
	mw.type = IBV_MW_TYPE_2;
	info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED;
	wr = (struct ibv_send_wr){ .opcode = IBV_WR_BIND_MW, .bind_mw = { &mw, 0x4aa, info } };
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_int_equal(((struct ring_sq_wqe *)ring_slot(&b.e_sq, 2))->rkey, 0x4aa);
	assert_int_equal(mw.rkey, 0x400);
	wr.bind_mw.rkey = 0x5aa;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	wr.bind_mw.rkey = 0x4aa;
	wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_MW_BIND;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	wr.bind_mw.bind_info.mw_access_flags = 0;
	wr.bind_mw.bind_info.mr = NULL;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	wr.bind_mw.bind_info.mr = &mr;
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	bed_fini(&b);
}

static void
builders_bind_invalidate_and_write_atomically(void **state)
{
	struct ibv_mr mr = { .lkey = 0x123 };
	struct ibv_mw mw = { .rkey = 0x4ff, .type = IBV_MW_TYPE_2 };
	struct ibv_mw_bind_info info = { .mr = &mr, .addr = 0x1000, .length = 50, .mw_access_flags = 1 << 1 };
	struct ibv_qp_ex *q;
	union ring_sq_ctl ctl;
	struct ring_sq_wqe *w;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	q = &b.qp.qp;
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_UD, IBV_QP_EX_WITH_BIND_MW), EOPNOTSUPP);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_UC, IBV_QP_EX_WITH_SEND_WITH_INV), EOPNOTSUPP);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_RC,
						IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
							IBV_QP_EX_WITH_SEND_WITH_INV |
							IBV_QP_EX_WITH_ATOMIC_WRITE), 0);
	ibv_wr_start(q);
	ibv_wr_bind_mw(q, &mw, ibv_inc_rkey(mw.rkey), &info);
	ibv_wr_local_inv(q, 0x400);
	ibv_wr_send_inv(q, 0x77);
	ibv_wr_set_sge(q, 3, 0x1000, 5);
	ibv_wr_atomic_write(q, 0x88, 0x2000, "abcdefg");
	assert_int_equal(ibv_wr_complete(q), 0);
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_BIND_MW && ctl.count == 0 && w->rkey == 0x400);
	assert_int_equal(((struct ring_bind *)(w + 1))->access, UROCE_ACCESS_REMOTE_WRITE);
	w = ring_slot(&b.e_sq, 1);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_LOCAL_INV && w->imm == 0x400);
	w = ring_slot(&b.e_sq, 2);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_SEND_WITH_INV && ctl.count == 1 && w->imm == 0x77);
	w = ring_slot(&b.e_sq, 3);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_ATOMIC_WRITE && ctl.count == 8 && ctl.flags & UROCE_SEND_INLINE);
	assert_true(w->rkey == 0x88 && w->remote_addr == 0x2000);
	assert_string_equal((char *)(w + 1), "abcdefg");
	ibv_wr_start(q);
	ibv_wr_bind_mw(q, &mw, 0x500, &info);
	assert_int_equal(ibv_wr_complete(q), EINVAL);
	assert_false(ring_sq_ready(&b.e_sq, 4));
	bed_fini(&b);
}

/*
 * What a program sees that was built with headers of rdma-core 46 or later: FLUSH is bit 11 of the send operations, and
 * wr_flush is the member behind wr_atomic_write.
 */
static void
flush_is_where_later_headers_have_it(void **state)
{
	struct later {
		uint8_t before[offsetof(struct ibv_qp_ex, wr_atomic_write)];
		void (*wr_atomic_write)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, const void *value);
		void (*wr_flush)(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level);
	};
	enum { LATER_QP_EX_WITH_FLUSH = 1 << 11, LATER_WR_FLUSH = 14, LATER_FLUSH_GLOBAL = 1, LATER_FLUSH_MR = 1 };
	struct ibv_send_wr wr = { .opcode = (enum ibv_wr_opcode)LATER_WR_FLUSH }, *bad;
	const struct later *later;
	const struct ring_flush *f;
	struct ibv_qp_ex *q;
	union ring_sq_ctl ctl;
	struct ring_sq_wqe *w;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	q = &b.qp.qp;
	later = (const void *)q;
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_UC, LATER_QP_EX_WITH_FLUSH), EOPNOTSUPP);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_UD, LATER_QP_EX_WITH_FLUSH), EOPNOTSUPP);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_XRC_SEND, LATER_QP_EX_WITH_FLUSH), 0);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_RC, LATER_QP_EX_WITH_FLUSH), 0);
	ibv_wr_start(q);
	q->wr_id = 5;
	q->wr_flags = IBV_SEND_SIGNALED;
	later->wr_flush(q, 0x88, 0x2000, 4096, LATER_FLUSH_GLOBAL, 0);
	/* Of a whole MR the length is of no meaning. */
	later->wr_flush(q, 0x89, 0, SIZE_MAX, 3, LATER_FLUSH_MR);
	assert_int_equal(ibv_wr_complete(q), 0);
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	f = (const void *)(w + 1);
	assert_true(ctl.opcode == UROCE_WR_FLUSH && ctl.count == 0 && ctl.flags == UROCE_SEND_SIGNALED);
	assert_true(w->wr_id == 5 && w->rkey == 0x88 && w->remote_addr == 0x2000);
	assert_true(f->length == 4096 && f->type == UROCE_FLUSH_GLOBAL && f->level == UROCE_FLUSH_RANGE);
	w = ring_slot(&b.e_sq, 1);
	f = (const void *)(w + 1);
	assert_true(f->length == 0 && f->type == UROCE_FLUSH_TYPES && f->level == UROCE_FLUSH_MR);
	/* Nothing of it, or too much. */
	for (uint32_t i = 0; i < 4; i++) {
		ibv_wr_start(q);
		later->wr_flush(q, 0x88, 0x2000, i == 3 ? (size_t)1 << 32 : 8, i == 0 ? 0 : i == 1 ? 4 : 1, i == 2 ? 2 : 0);
		assert_int_equal(ibv_wr_complete(q), EINVAL);
	}
	/* struct ibv_send_wr has no way to ask for it. */
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	assert_false(ring_sq_ready(&b.e_sq, 2));
	bed_fini(&b);
}

static void
inline_data_is_gathered_into_the_slot(void **state)
{
	char x[] = "hello, ", y[] = "world";
	struct ibv_sge sge[2] = { { (uintptr_t)x, 7, 0 }, { (uintptr_t)y, 6, 0 } };
	struct ibv_send_wr wr = write_wr(sge, 2), *bad;
	struct ring_sq_wqe *w;
	union ring_sq_ctl ctl;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	wr.send_flags = IBV_SEND_INLINE;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	assert_int_equal(ctl.count, 13);
	assert_string_equal((char *)(w + 1), "hello, world");
	bed_fini(&b);
}

static void
ud_carries_its_address_handle(void **state)
{
	struct ibv_ah ah = { .handle = 17 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND,
				  .wr.ud = { .ah = &ah, .remote_qpn = 0x1234, .remote_qkey = 0x11111111 } },
			   *bad = NULL;
	struct ring_sq_wqe *w;
	struct bed b;

	bed_init(&b, IBV_QPT_UD);
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	w = ring_slot(&b.e_sq, 0);
	assert_true(w->remote_addr == (17 | UINT64_C(0x1234) << 32));
	assert_int_equal(w->rkey, 0x11111111);
	wr.wr.ud.ah = NULL;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	wr.wr.ud.ah = &ah;
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	bed_fini(&b);
}

/* Posts one good WR and @p wr behind it; the good one must stand. */
static void
assert_refused(struct ibv_send_wr *wr, int error)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr good = write_wr(&sge, 1), *bad = NULL;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	good.next = wr;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &good, &bad), error);
	assert_ptr_equal(bad, wr);
	assert_true(ring_sq_ready(&b.e_sq, 0));
	assert_false(ring_sq_ready(&b.e_sq, 1));
	assert_int_equal(b.qp.sq.counter, 1);
	bed_fini(&b);
}

static void
bad_work_requests_are_refused_where_they_stand(void **state)
{
	uint8_t buf[MAX_INLINE + 1] = { 0 };
	struct ibv_sge sge[MAX_SGE + 1] = { { (uintptr_t)buf, sizeof(buf), 1 } };
	struct ibv_send_wr wr = write_wr(sge, MAX_SGE + 1);

	assert_refused(&wr, EINVAL);
	wr.num_sge = -1;
	assert_refused(&wr, EINVAL);
	wr.num_sge = 1;
	wr.opcode = 77;
	assert_refused(&wr, EINVAL);
	wr.opcode = IBV_WR_TSO;
	assert_refused(&wr, EINVAL);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.send_flags = IBV_SEND_INLINE;
	sge[0].length = 4;
	assert_refused(&wr, EINVAL);
	wr.opcode = IBV_WR_RDMA_WRITE;
	sge[0].length = sizeof(buf);
	assert_refused(&wr, EINVAL);
	/* The sum of the lengths doesn't wrap. */
	sge[0].length = 4;
	sge[1] = (struct ibv_sge){ (uintptr_t)buf, UINT32_MAX - 2, 1 };
	wr.num_sge = 2;
	assert_refused(&wr, EINVAL);
}

static void
states_before_rts_refuse_and_later_ones_take(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	struct ibv_recv_wr rr = { .sg_list = &sge, .num_sge = 1 }, *bad_rr;
	struct bed b;

	for (uint32_t s = 0; s < UROCE_QPS_STATES; s++) {
		bed_init(&b, IBV_QPT_RC);
		b.qp_shared.state = s;
		bad = NULL;
		bad_rr = NULL;
		assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), s < UROCE_QPS_RTS ? EINVAL : 0);
		assert_ptr_equal(bad, s < UROCE_QPS_RTS ? &wr : NULL);
		assert_int_equal(client_post_recv(&b.qp.qp.qp_base, &rr, &bad_rr), s == UROCE_QPS_RESET ? EINVAL : 0);
		bed_fini(&b);
	}
}

static void
a_full_queue_is_enomem_until_completions_are_polled(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	struct ibv_wc wc[8];
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	for (uint32_t lap = 0; lap < 40; lap++) {
		for (int i = 0; i < SQ_WR; i++)
			assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
		assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), ENOMEM);
		/* A completion stands for all WQEs up to its own. */
		for (int i = 0; i < SQ_WR; i++)
			assert_true(ring_sq_ready(&b.e_sq, b.e_sq.counter++));
		complete(&b, b.e_sq.counter - 3, 1, false);
		assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), ENOMEM);
		assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 1);
		for (int i = 0; i < SQ_WR - 2; i++)
			assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
		assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), ENOMEM);
		for (int i = 0; i < SQ_WR - 2; i++)
			assert_true(ring_sq_ready(&b.e_sq, b.e_sq.counter++));
		assert_false(ring_sq_ready(&b.e_sq, b.e_sq.counter));
		complete(&b, b.e_sq.counter - 1, 2, false);
		assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 1);
	}
	bed_fini(&b);
}

static void
slots_are_counted_right_beyond_65536_work_requests(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	struct ibv_wc wc;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	for (uint32_t i = 0; i < 200000; i++) {
		assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
		complete(&b, i, i, false);
		assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 1);
		assert_true(wc.wr_id == i);
	}
	assert_int_equal(b.qp.sq_tail, 200000);
	bed_fini(&b);
}

static void
a_cold_engine_is_rung_and_a_sleeping_one_woken(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	b.qp_shared.sq_watch = 0;
	b.db->hot = 1;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_true(bell_rung(&b));
	assert_true(b.db->mid[4321 >> 12] & UINT64_C(1) << (4321 >> 6 & 63));
	assert_true(b.db->top & UINT64_C(1) << (4321 >> 12));
	assert_false(kicked(&b));
	b.db->hot = 0;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_true(kicked(&b));
	bed_fini(&b);
}

static void
receives_are_posted_and_freed_by_their_completions(void **state)
{
	struct ibv_sge sge[2] = { { 0x1000, 8, 1 }, { 0x3000, 9, 2 } };
	struct ibv_recv_wr wr = { .wr_id = 5, .sg_list = sge, .num_sge = 2 }, *bad;
	struct ring_rq_wqe *w;
	struct ibv_wc wc;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	for (int i = 0; i < 1 << RQ_ORDER; i++)
		assert_int_equal(client_post_recv(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_int_equal(client_post_recv(&b.qp.qp.qp_base, &wr, &bad), ENOMEM);
	assert_ptr_equal(bad, &wr);
	assert_true(ring_rq_ready(&b.e_rq, 0));
	w = ring_slot(&b.e_rq, 0);
	assert_true(w->wr_id == 5);
	assert_memory_equal(w->sge, sge, sizeof(sge));
	assert_false(bell_rung(&b));
	complete(&b, 0, 5, true);
	assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 1);
	/* A QP that flushes wants to be told. */
	b.qp_shared.rq_watch = 0;
	assert_int_equal(client_post_recv(&b.qp.qp.qp_base, &wr, &bad), 0);
	assert_true(bell_rung(&b));
	wr.num_sge = MAX_SGE + 1;
	complete(&b, 1, 5, true);
	assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 1);
	assert_int_equal(client_post_recv(&b.qp.qp.qp_base, &wr, &bad), EINVAL);
	bed_fini(&b);
}

static void
a_completion_has_every_field(void **state)
{
	struct ibv_wc wc;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	complete(&b, 0, 0x99, true);
	assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 0x99);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.vendor_err, 9);
	assert_int_equal(wc.byte_len, 11);
	assert_int_equal(wc.imm_data, 0x01020304);
	assert_int_equal(wc.qp_num, QPN);
	assert_int_equal(wc.src_qp, 0xabcdef);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(b.cq_shared.cons, 1);
	assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 0);
	bed_fini(&b);
}

static void
completions_of_a_destroyed_qp_are_skipped(void **state)
{
	struct ibv_wc wc[8];
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	complete(&b, 0, 1, false);
	complete(&b, 1, 2, false);
	client_cq_forget(&b.cq, &b.qp);
	complete(&b, 2, 3, false);
	assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 1);
	assert_int_equal(wc[0].wr_id, 3);
	/* And so are those of a QP that nobody knows. */
	complete(&b, 3, 4, false);
	b.ctx.qps[QPN & (CLIENT_QPN_SLOTS - 1)] = NULL;
	b.cq.last_qp = NULL;
	assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 0);
	assert_int_equal(b.cq_shared.cons, 4);
	bed_fini(&b);
}

static void
xrc_work_requests_name_their_srq(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	union ring_sq_ctl ctl;
	struct ibv_qp_ex *q;
	struct bed b;

	bed_init(&b, IBV_QPT_XRC_SEND);
	wr.qp_type.xrc.remote_srqn = 0xabcdef;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	ctl.word = ((struct ring_sq_wqe *)ring_slot(&b.e_sq, 0))->ctl;
	assert_int_equal(ctl.srqn, 0xabcdef);
	assert_int_equal(ctl.opcode, UROCE_WR_RDMA_WRITE);
	q = &b.qp.qp;
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_XRC_SEND,
						IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ |
							IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP),
			 0);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_XRC_RECV, IBV_QP_EX_WITH_SEND), EOPNOTSUPP);
	ibv_wr_start(q);
	ibv_wr_send(q);
	ibv_wr_set_xrc_srqn(q, 0x123456);
	ibv_wr_set_sge(q, 3, 0x1000, 5);
	ibv_wr_rdma_read(q, 7, 64);
	ibv_wr_set_sge(q, 3, 0x1000, 5);
	ibv_wr_set_xrc_srqn(q, 0x7);
	assert_int_equal(ibv_wr_complete(q), 0);
	ctl.word = ((struct ring_sq_wqe *)ring_slot(&b.e_sq, 1))->ctl;
	assert_true(ctl.srqn == 0x123456 && ctl.opcode == UROCE_WR_SEND && ctl.count == 1);
	ctl.word = ((struct ring_sq_wqe *)ring_slot(&b.e_sq, 2))->ctl;
	assert_int_equal(ctl.srqn, 0x7);
	/* Others don't have one. */
	b.qp.type_bit = 1u << IBV_QPT_RC;
	assert_int_equal(client_post_send(&b.qp.qp.qp_base, &wr, &bad), 0);
	ctl.word = ((struct ring_sq_wqe *)ring_slot(&b.e_sq, 3))->ctl;
	assert_int_equal(ctl.srqn, 0);
	bed_fini(&b);
}

/* The engine completes a receive of an XRC SRQ through a QP that this program doesn't have. */
static void
complete_xrc(struct bed *b, uint64_t wr_id, uint32_t srqn)
{
	struct ring_cqe *e = ring_slot(&b->e_cq, b->e_cq.counter);
	union ring_cqe_ctl ctl = { .xrc = 1, .is_recv = 1, .wqe_counter = (uint16_t)srqn };

	*e = (struct ring_cqe){ .wr_id = wr_id, .qpn = QPN + 1, .opcode = UROCE_WC_RECV };
	ctl.phase = ring_phase(b->e_cq.counter++, CQ_ORDER);
	atomic_store_explicit(&e->ctl, ctl.word, memory_order_release);
}

static void
receives_of_an_xrc_srq_come_by_any_qp_and_go_with_the_srq(void **state)
{
	struct ibv_wc wc[8];
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	complete_xrc(&b, 1, 0x50001);
	complete_xrc(&b, 2, 0x50002);
	assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 2);
	assert_true(wc[0].wr_id == 1 && wc[1].wr_id == 2);
	assert_int_equal(wc[0].qp_num, QPN + 1);
	/* What is in wqe_counter there is no counter. */
	assert_int_equal(b.qp.rq_tail, 0);
	complete_xrc(&b, 3, 0x50001);
	complete_xrc(&b, 4, 0x50002);
	complete(&b, 0, 5, true);
	client_cq_forget_srq(&b.cq, 0x50001);
	assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 2);
	assert_true(wc[0].wr_id == 4 && wc[1].wr_id == 5);
	bed_fini(&b);
}

static void
arming_for_solicited_does_not_narrow_arming_for_all(void **state)
{
	struct ibv_comp_channel ch = { 0 };
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	assert_int_equal(b.cq_shared.arm, RING_ARM_NONE);
	b.cq.cq.channel = &ch;
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 1), 0);
	assert_int_equal(b.cq_shared.arm, RING_ARM_SOLICITED);
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	assert_int_equal(b.cq_shared.arm, RING_ARM_ANY);
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 1), 0);
	assert_int_equal(b.cq_shared.arm, RING_ARM_ANY);
	bed_fini(&b);
}

/* What hardware does: a completion between the last poll and the arming isn't lost. */
static void
arming_with_a_completion_waiting_raises_the_event_at_once(void **state)
{
	struct client_channel ch = { 0 };
	struct ctl_comp_event ev;
	struct bed b;
	int fds[2];

	bed_init(&b, IBV_QPT_RC);
	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	ch.write_fd = fds[1];
	b.cq.cq.channel = &ch.channel;
	b.cq.cookie = 77;
	complete(&b, 0, 1, true);
	/* It is neither solicited nor an error. */
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 1), 0);
	assert_int_equal(b.cq_shared.arm, RING_ARM_SOLICITED);
	assert_int_equal(read(fds[0], &ev, sizeof(ev)), -1);
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	assert_int_equal(b.cq_shared.arm, RING_ARM_NONE);
	assert_int_equal(read(fds[0], &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.cookie, 77);
	/* It has been told of: not again, polled or not. */
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	assert_int_equal(b.cq_shared.arm, RING_ARM_ANY);
	assert_int_equal(read(fds[0], &ev, sizeof(ev)), -1);
	/* The engine's event told of the next one. */
	b.cq_shared.arm = RING_ARM_NONE;
	complete(&b, 0, 3, true);
	b.cq_shared.reported = 2;
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	assert_int_equal(b.cq_shared.arm, RING_ARM_ANY);
	b.cq_shared.arm = RING_ARM_NONE;
	/* Errors count as solicited. */
	complete(&b, 0, 2, false);
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 1), 0);
	assert_int_equal(b.cq_shared.arm, RING_ARM_NONE);
	assert_int_equal(read(fds[0], &ev, sizeof(ev)), sizeof(ev));
	close(fds[0]);
	close(fds[1]);
	bed_fini(&b);
}

static void
builders_publish_all_or_nothing(void **state)
{
	const uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	struct ibv_qp_ex *q;
	union ring_sq_ctl ctl;
	struct ring_sq_wqe *w;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	q = &b.qp.qp;
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_RC, ops), 0);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_RC, IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
	assert_int_equal(client_qp_set_builders(&b.qp, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_READ), EOPNOTSUPP);
	ibv_wr_start(q);
	q->wr_id = 1;
	q->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(q, 7, 64);
	ibv_wr_set_sge(q, 3, 0x1000, 5);
	q->wr_id = 2;
	ibv_wr_send(q);
	ibv_wr_set_inline_data(q, (void *)"abc", 4);
	assert_false(ring_sq_ready(&b.e_sq, 0));
	assert_int_equal(ibv_wr_complete(q), 0);
	assert_true(ring_sq_ready(&b.e_sq, 0) && ring_sq_ready(&b.e_sq, 1) && !ring_sq_ready(&b.e_sq, 2));
	w = ring_slot(&b.e_sq, 0);
	ctl.word = w->ctl;
	assert_true(w->wr_id == 1 && w->rkey == 7 && w->remote_addr == 64);
	assert_true(ctl.opcode == UROCE_WR_RDMA_WRITE && ctl.count == 1 && ctl.flags == UROCE_SEND_SIGNALED);
	w = ring_slot(&b.e_sq, 1);
	ctl.word = w->ctl;
	assert_true(ctl.opcode == UROCE_WR_SEND && ctl.count == 4 &&
		    ctl.flags == (UROCE_SEND_SIGNALED | UROCE_SEND_INLINE));
	assert_string_equal((char *)(w + 1), "abc");

	ibv_wr_start(q);
	ibv_wr_atomic_fetch_add(q, 7, 64, 1);
	ibv_wr_abort(q);
	assert_false(ring_sq_ready(&b.e_sq, 2));
	/* One bad one spoils the list. */
	ibv_wr_start(q);
	ibv_wr_send(q);
	ibv_wr_set_sge(q, 3, 0x1000, 5);
	ibv_wr_send(q);
	ibv_wr_set_sge_list(q, MAX_SGE + 1, (struct ibv_sge[MAX_SGE + 1]){ { 0 } });
	assert_int_equal(ibv_wr_complete(q), EINVAL);
	assert_false(ring_sq_ready(&b.e_sq, 2));
	ibv_wr_start(q);
	for (int i = 0; i < SQ_WR - 1; i++)
		ibv_wr_send(q);
	assert_int_equal(ibv_wr_complete(q), ENOMEM);
	assert_false(ring_sq_ready(&b.e_sq, 2));
	ibv_wr_start(q);
	for (int i = 0; i < SQ_WR - 2; i++)
		ibv_wr_send(q);
	assert_int_equal(ibv_wr_complete(q), 0);
	assert_true(ring_sq_ready(&b.e_sq, SQ_WR - 1));
	bed_fini(&b);
}

/* ---- a real engine thread on the other end ---- */

enum { RACE_WRS = 200000 };

static void *
race_engine(void *arg)
{
	struct bed *b = arg;

	for (uint32_t i = 0; i < RACE_WRS; i++) {
		struct ring_sq_wqe *w = ring_slot(&b->e_sq, i);

		while (!ring_sq_ready(&b->e_sq, i))
			sched_yield();
		if (w->wr_id != i || w->remote_addr != i * 3ull)
			return (void *)1;
		while (b->e_cq.counter - b->cq_shared.cons == 1u << CQ_ORDER)
			sched_yield();
		complete(b, i, i, false);
	}
	return NULL;
}

static void
posting_and_polling_race_with_an_engine(void **state)
{
	struct ibv_sge sge = { 0x1000, 8, 1 };
	struct ibv_send_wr wr = write_wr(&sge, 1), *bad;
	struct ibv_wc wc[4];
	uint32_t posted = 0, done = 0;
	struct bed b;
	pthread_t t;
	void *result;

	bed_init(&b, IBV_QPT_RC);
	assert_int_equal(pthread_create(&t, NULL, race_engine, &b), 0);
	while (done < RACE_WRS) {
		int n;

		wr.wr_id = posted;
		wr.wr.rdma.remote_addr = posted * 3ull;
		if (posted < RACE_WRS && !client_post_send(&b.qp.qp.qp_base, &wr, &bad))
			posted++;
		else
			sched_yield();
		n = client_poll_cq(&b.cq.cq, 4, wc);
		for (int i = 0; i < n; i++)
			assert_int_equal(wc[i].wr_id, done++);
	}
	pthread_join(t, &result);
	assert_null(result);
	bed_fini(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write_fills_its_slot),
		cmocka_unit_test(atomics_have_operands_before_their_sge),
		cmocka_unit_test(binds_and_invalidations_fill_their_slots),
		cmocka_unit_test(builders_bind_invalidate_and_write_atomically),
		cmocka_unit_test(flush_is_where_later_headers_have_it),
		cmocka_unit_test(inline_data_is_gathered_into_the_slot),
		cmocka_unit_test(ud_carries_its_address_handle),
		cmocka_unit_test(bad_work_requests_are_refused_where_they_stand),
		cmocka_unit_test(states_before_rts_refuse_and_later_ones_take),
		cmocka_unit_test(a_full_queue_is_enomem_until_completions_are_polled),
		cmocka_unit_test(slots_are_counted_right_beyond_65536_work_requests),
		cmocka_unit_test(a_cold_engine_is_rung_and_a_sleeping_one_woken),
		cmocka_unit_test(receives_are_posted_and_freed_by_their_completions),
		cmocka_unit_test(a_completion_has_every_field),
		cmocka_unit_test(completions_of_a_destroyed_qp_are_skipped),
		cmocka_unit_test(xrc_work_requests_name_their_srq),
		cmocka_unit_test(receives_of_an_xrc_srq_come_by_any_qp_and_go_with_the_srq),
		cmocka_unit_test(arming_for_solicited_does_not_narrow_arming_for_all),
		cmocka_unit_test(arming_with_a_completion_waiting_raises_the_event_at_once),
		cmocka_unit_test(builders_publish_all_or_nothing),
		cmocka_unit_test(posting_and_polling_race_with_an_engine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
