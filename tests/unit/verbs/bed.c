/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "bed.h"

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
				 RING_SIZE(order, log2_of(stride)) };
	assert_non_null(client->base);
	memset(client->base, 0, bytes);
	*engine = *client;
}

void
bed_init(struct bed *b, enum ibv_qp_type type)
{
	struct ibv_qp *q = &b->qp.qp.qp_base;

	memset(b, 0, sizeof(*b));
	b->ctx.qps = calloc(CLIENT_QPN_SLOTS, sizeof(*b->ctx.qps));
	b->ctx.kick_fds[0] = eventfd(0, EFD_NONBLOCK);
	b->ctx.nb_kicks = 1;
	b->db = calloc(1, sizeof(*b->db));
	assert_true(b->ctx.qps && b->db && b->ctx.kick_fds[0] >= 0);
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

void
bed_fini(struct bed *b)
{
	free(b->e_sq.base);
	free(b->e_rq.base);
	free(b->e_cq.base);
	free(b->ctx.qps);
	free(b->db);
	close(b->ctx.kick_fds[0]);
}

void
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

bool
kicked(struct bed *b)
{
	uint64_t n;

	return read(b->ctx.kick_fds[0], &n, sizeof(n)) == sizeof(n);
}

bool
bell_rung(struct bed *b)
{
	return b->db->low[4321 >> 6] & UINT64_C(1) << (4321 & 63);
}

struct ibv_send_wr
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
