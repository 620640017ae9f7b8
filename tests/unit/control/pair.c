/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "pair.h"

void
pair_queues(struct pair *t)
{
	struct ctl_req q = peer_req(CTL_CQ_CREATE);
	struct ctl_rsp r;
	int fd = -1, i;

	t->pd = peer_pd(t->p.sock);
	q.cq_create.cqe = 64;
	peer_must(t->p.sock, &q, &r, &fd);
	t->cq = r.cq_create;
	peer_segment(&t->p, &t->cq.seg, fd);
	t->cq_ring = (struct ring){ .base = peer_area(&t->p, &t->cq.ring), RING_SIZE(t->cq.order, 5) };
	for (i = 0; i < 2; i++) {
		q = peer_req(CTL_QP_CREATE);
		q.qp_create = (struct ctl_qp_create_req){
			.type = UROCE_QPT_RC,
			.pd = t->pd,
			.send_cq = t->cq.handle,
			.recv_cq = t->cq.handle,
			.srq = UINT32_MAX,
			.cap = { 16, 16, 1, 1, 0 },
		};
		peer_must(t->p.sock, &q, &r, &fd);
		t->end[i].qp = r.qp_create;
		peer_segment(&t->p, &r.qp_create.seg, fd);
		t->end[i].sq = (struct ring){ .base = peer_area(&t->p, &r.qp_create.sq),
					      RING_SIZE(r.qp_create.sq_order, r.qp_create.sq_shift) };
		t->end[i].rq = (struct ring){ .base = peer_area(&t->p, &r.qp_create.rq),
					      RING_SIZE(r.qp_create.rq_order, r.qp_create.rq_shift) };
	}
}

int
pair_modify(struct pair *t, int i, uint32_t mask, const struct uroce_qp_attr *attr, struct ctl_rsp *r)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);

	q.qp_modify.handle = t->end[i].qp.handle;
	q.qp_modify.mask = mask;
	q.qp_modify.attr = *attr;
	return peer_call(t->p.sock, &q, NULL, 0, r, NULL, 0);
}

struct uroce_qp_attr
pair_rtr_attr(struct pair *t, int i, uint8_t last_byte)
{
	struct uroce_qp_attr a = {
		.qp_state = UROCE_QPS_RTR,
		.path_mtu = UROCE_MTU_1024,
		.dest_qp_num = t->end[!i].qp.qpn,
		.rq_psn = 100,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah = { .dgid = { [10] = 0xff, 0xff, 198, 18, 0, last_byte },
			.sgid_index = 1,
			.hop_limit = 64,
			.is_global = 1,
			.port_num = 1 },
	};

	return a;
}
#define INIT_MASK (UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS)
#define RTS_MASK \
	(UROCE_QP_STATE | UROCE_QP_SQ_PSN | UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | \
	 UROCE_QP_MAX_QP_RD_ATOMIC)

void
pair_init_qp(struct pair *t, int i)
{
	struct uroce_qp_attr a = {
		.qp_state = UROCE_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC,
	};
	struct ctl_rsp r;

	if (pair_modify(t, i, INIT_MASK, &a, &r) != 0)
		fail_msg("INIT: %s", r.message);
}

static void
connect_pair(struct pair *t)
{
	struct uroce_qp_attr a;
	struct ctl_rsp r;
	int i;

	for (i = 0; i < 2; i++) {
		pair_init_qp(t, i);
		a = pair_rtr_attr(t, i, 1);
		if (pair_modify(t, i, PAIR_RTR_MASK, &a, &r) != 0)
			fail_msg("RTR: %s", r.message);
		a = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_RTS,
					    .sq_psn = 100,
					    .timeout = 14,
					    .retry_cnt = 7,
					    .rnr_retry = 7,
					    .max_rd_atomic = 4 };
		if (pair_modify(t, i, RTS_MASK, &a, &r) != 0)
			fail_msg("RTS: %s", r.message);
	}
}

void
pair_memory(struct pair *t, uint32_t kind)
{
	uint8_t buf[CTL_REQ_BYTES + sizeof(struct ctl_seg)] = { 0 };
	struct ctl_req *q = (void *)buf;
	struct ctl_seg *seg = (void *)(buf + CTL_REQ_BYTES);
	struct ctl_rsp r;

	t->shared_fd = -1;
	if (kind == CTL_SEG_CONVERTED) {
		t->mem = mmap(NULL, 2 * PAIR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, t->p.mem_fd, 1 << 20);
	} else if (kind == CTL_SEG_SHARED) {
		t->shared_fd = memfd_create("test", MFD_CLOEXEC);
		assert_int_equal(ftruncate(t->shared_fd, 2 * PAIR_BYTES), 0);
		t->mem = mmap(NULL, 2 * PAIR_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, t->shared_fd, 0);
	} else {
		t->mem = mmap(NULL, 2 * PAIR_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	assert_ptr_not_equal(t->mem, MAP_FAILED);
	*q = peer_req(CTL_MR_REG);
	q->mr_reg = (struct ctl_mr_reg_req){
		.pd = t->pd,
		.addr = (uintptr_t)t->mem,
		.iova = (uintptr_t)t->mem,
		.length = 2 * PAIR_BYTES,
		.nb_segs = 1,
		.nb_in_msg = 1,
		.access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ |
			  UROCE_ACCESS_MW_BIND,
	};
	*seg = (struct ctl_seg){
		.va = (uintptr_t)t->mem,
		.length = 2 * PAIR_BYTES,
		.kind = kind,
		.offset = kind == CTL_SEG_CONVERTED ? 1 << 20 : 0,
		.map_start = (uintptr_t)t->mem,
		.map_end = (uintptr_t)t->mem + 2 * PAIR_BYTES,
	};
	assert_int_equal(peer_send(t->p.sock, buf, sizeof(buf), NULL, 0), 0);
	assert_true(peer_recv(t->p.sock, &r, NULL, 0));
	if (r.status != 0)
		fail_msg("MR of kind %u: %d, %s", kind, r.status, r.message);
	t->lkey = r.mr_reg.lkey;
	t->mr = r.mr_reg.handle;
}

void
pair_open(struct pair *t, uint32_t kind)
{
	memset(t, 0, sizeof(*t));
	peer_open(&t->p);
	pair_queues(t);
	pair_memory(t, kind);
	connect_pair(t);
}

void
pair_close(struct pair *t)
{
	peer_close(&t->p);
	munmap(t->mem, 2 * PAIR_BYTES);
	if (t->shared_fd >= 0)
		close(t->shared_fd);
	assert_true(daemon_wait_empty());
}

static void
ring_doorbell(struct pair *t, const struct end *e)
{
	uint64_t one = 1;

	if (ring_db_ring((void *)(t->p.db + e->qp.engine * t->p.dev.db_stride), e->qp.db_slot))
		assert_int_equal(write(t->p.kick_fd, &one, sizeof(one)), sizeof(one));
}

void
pair_post_with(struct pair *t, int i, uint8_t opcode, const uint8_t *from, uint32_t len, const uint8_t *to, uint32_t rkey)
{
	struct end *e = &t->end[i];
	struct ring_sq_wqe *w = ring_slot(&e->sq, e->sq.counter);
	struct ring_qp_shared *sh = peer_area(&t->p, &e->qp.shared);
	union ring_sq_ctl c = { .opcode = opcode, .flags = UROCE_SEND_SIGNALED, .count = 1 };

	w->wr_id = e->sq.counter;
	wqe_put_remote(w, (uintptr_t)to, rkey);
	*wqe_sges(w, opcode) = (struct ring_sge){ (uintptr_t)from, len, t->lkey };
	ring_sq_post(&e->sq, e->sq.counter++, w, c);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&sh->sq_watch) == 0)
		ring_doorbell(t, e);
}

void
pair_post(struct pair *t, int i, uint8_t opcode, const uint8_t *from, uint32_t len, const uint8_t *to)
{
	pair_post_with(t, i, opcode, from, len, to, t->lkey);
}

void
pair_post_recv(struct pair *t, int i, uint8_t *to, uint32_t len)
{
	struct end *e = &t->end[i];
	struct ring_rq_wqe *w = ring_slot(&e->rq, e->rq.counter);

	w->wr_id = 1000 + e->rq.counter;
	w->sge[0] = (struct ring_sge){ .addr = (uintptr_t)to, .length = len, .lkey = t->lkey };
	ring_rq_post(&e->rq, e->rq.counter++, w, 1);
}

bool
pair_poll(struct pair *t, struct ring_cqe *out)
{
	struct ring_cq_shared *sh = peer_area(&t->p, &t->cq.shared);
	union ring_cqe_ctl ctl;
	int i;

	for (i = 0; i < 50000; i++) {
		if (ring_cq_ready(&t->cq_ring, t->cq_ring.counter, &ctl)) {
			memcpy(out, ring_slot(&t->cq_ring, t->cq_ring.counter), sizeof(*out));
			atomic_store(&sh->cons, ++t->cq_ring.counter);
			return true;
		}
		usleep(100);
	}
	return false;
}

void
pair_post_local(struct pair *t, int i, uint8_t op, uint32_t key)
{
	struct end *e = &t->end[i];
	struct ring_sq_wqe *w = ring_slot(&e->sq, e->sq.counter);
	struct ring_qp_shared *sh = peer_area(&t->p, &e->qp.shared);
	union ring_sq_ctl c = { .opcode = op, .flags = UROCE_SEND_SIGNALED };

	w->wr_id = e->sq.counter;
	wqe_put_imm(w, key);
	wqe_put_remote(w, (uintptr_t)t->mem, key);
	wqe_put_bind(w, 2 * PAIR_BYTES, t->lkey, UROCE_ACCESS_REMOTE_WRITE);
	ring_sq_post(&e->sq, e->sq.counter++, w, c);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&sh->sq_watch) == 0)
		ring_doorbell(t, e);
}

