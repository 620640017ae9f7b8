/* SPDX-License-Identifier: BSD-3-Clause */
/* A session's memory, queues and QPs at work: messages through the whole daemon, and what befalls it when programs
 * misbehave. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon.h"

enum { BYTES = 64 << 10 };

/** One end of a connection. */
struct end {
	struct ctl_qp_create_rsp qp;
	struct ring sq, rq;
};

/** A session with two QPs that are connected to each other, one CQ, and memory of BYTES twice. */
struct pair {
	struct peer p;
	uint32_t pd;
	struct ctl_cq_create_rsp cq;
	struct ring cq_ring;
	struct end end[2];
	uint8_t *mem;  /**< 2 * BYTES */
	int shared_fd; /**< the memory's memfd, if it is shared */
	uint32_t lkey, mr;
};

static void
call(struct pair *t, struct ctl_req *q, struct ctl_rsp *r, int *fd)
{
	int rc = peer_call(t->p.sock, q, NULL, 0, r, fd, fd != NULL);

	if (rc != 0)
		fail_msg("request %u: %d, %s", q->op, rc, rc > 0 ? r->message : "connection ended");
}

static void
make_queues(struct pair *t)
{
	struct ctl_req q = peer_req(CTL_PD_ALLOC);
	struct ctl_rsp r;
	int fd = -1, i;

	call(t, &q, &r, NULL);
	t->pd = r.handle.handle;
	q = peer_req(CTL_CQ_CREATE);
	q.cq_create.cqe = 64;
	call(t, &q, &r, &fd);
	t->cq = r.cq_create;
	peer_segment(&t->p, &t->cq.seg, fd);
	t->cq_ring = (struct ring){ .base = peer_area(&t->p, &t->cq.ring), .order = t->cq.order, .shift = 5 };
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
		call(t, &q, &r, &fd);
		t->end[i].qp = r.qp_create;
		peer_segment(&t->p, &r.qp_create.seg, fd);
		t->end[i].sq = (struct ring){ .base = peer_area(&t->p, &r.qp_create.sq),
					      .order = r.qp_create.sq_order,
					      .shift = r.qp_create.sq_shift };
		t->end[i].rq = (struct ring){ .base = peer_area(&t->p, &r.qp_create.rq),
					      .order = r.qp_create.rq_order,
					      .shift = r.qp_create.rq_shift };
	}
}

static int
modify(struct pair *t, int i, uint32_t mask, const struct uroce_qp_attr *attr, struct ctl_rsp *r)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);

	q.qp_modify.handle = t->end[i].qp.handle;
	q.qp_modify.mask = mask;
	q.qp_modify.attr = *attr;
	return peer_call(t->p.sock, &q, NULL, 0, r, NULL, 0);
}

/** INIT, and the attributes for RTR towards @p last_byte of 198.18.0.x. */
static struct uroce_qp_attr
rtr_attr(struct pair *t, int i, uint8_t last_byte)
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
#define RTR_MASK \
	(UROCE_QP_STATE | UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN | \
	 UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER)
#define RTS_MASK \
	(UROCE_QP_STATE | UROCE_QP_SQ_PSN | UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | \
	 UROCE_QP_MAX_QP_RD_ATOMIC)

static void
init_qp(struct pair *t, int i)
{
	struct uroce_qp_attr a = {
		.qp_state = UROCE_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC,
	};
	struct ctl_rsp r;

	if (modify(t, i, INIT_MASK, &a, &r) != 0)
		fail_msg("INIT: %s", r.message);
}

static void
connect_pair(struct pair *t)
{
	struct uroce_qp_attr a;
	struct ctl_rsp r;
	int i;

	for (i = 0; i < 2; i++) {
		init_qp(t, i);
		a = rtr_attr(t, i, 1);
		if (modify(t, i, RTR_MASK, &a, &r) != 0)
			fail_msg("RTR: %s", r.message);
		a = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_RTS,
					    .sq_psn = 100,
					    .timeout = 14,
					    .retry_cnt = 7,
					    .rnr_retry = 7,
					    .max_rd_atomic = 4 };
		if (modify(t, i, RTS_MASK, &a, &r) != 0)
			fail_msg("RTS: %s", r.message);
	}
}

/** Memory in one of the three kinds, as a client would hand it over. */
static void
make_memory(struct pair *t, uint32_t kind)
{
	uint8_t buf[CTL_REQ_BYTES + sizeof(struct ctl_seg)] = { 0 };
	struct ctl_req *q = (void *)buf;
	struct ctl_seg *seg = (void *)(buf + CTL_REQ_BYTES);
	struct ctl_rsp r;

	t->shared_fd = -1;
	if (kind == CTL_SEG_CONVERTED) {
		t->mem = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, t->p.mem_fd, 1 << 20);
	} else if (kind == CTL_SEG_SHARED) {
		t->shared_fd = memfd_create("test", MFD_CLOEXEC);
		assert_int_equal(ftruncate(t->shared_fd, 2 * BYTES), 0);
		t->mem = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, t->shared_fd, 0);
	} else {
		t->mem = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	}
	assert_ptr_not_equal(t->mem, MAP_FAILED);
	*q = peer_req(CTL_MR_REG);
	q->mr_reg = (struct ctl_mr_reg_req){
		.pd = t->pd,
		.addr = (uintptr_t)t->mem,
		.iova = (uintptr_t)t->mem,
		.length = 2 * BYTES,
		.nb_segs = 1,
		.nb_in_msg = 1,
		.access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ |
			  UROCE_ACCESS_MW_BIND,
	};
	*seg = (struct ctl_seg){
		.va = (uintptr_t)t->mem,
		.length = 2 * BYTES,
		.kind = kind,
		.offset = kind == CTL_SEG_CONVERTED ? 1 << 20 : 0,
		.map_start = (uintptr_t)t->mem,
		.map_end = (uintptr_t)t->mem + 2 * BYTES,
	};
	assert_int_equal(peer_send(t->p.sock, buf, sizeof(buf), NULL, 0), 0);
	assert_true(peer_recv(t->p.sock, &r, NULL, 0));
	if (r.status != 0)
		fail_msg("MR of kind %u: %d, %s", kind, r.status, r.message);
	t->lkey = r.mr_reg.lkey;
	t->mr = r.mr_reg.handle;
}

static void
pair_open(struct pair *t, uint32_t kind)
{
	memset(t, 0, sizeof(*t));
	peer_open(&t->p);
	make_queues(t);
	make_memory(t, kind);
	connect_pair(t);
}

static void
pair_close(struct pair *t)
{
	peer_close(&t->p);
	munmap(t->mem, 2 * BYTES);
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

/** Post one WR of @p len bytes from @p from; RDMA goes to @p to with @p rkey. */
static void
post_with(struct pair *t, int i, uint8_t opcode, const uint8_t *from, uint32_t len, const uint8_t *to, uint32_t rkey)
{
	struct end *e = &t->end[i];
	struct ring_sq_wqe *w = ring_slot(&e->sq, e->sq.counter);
	struct ring_sge sge = { .addr = (uintptr_t)from, .length = len, .lkey = t->lkey };
	struct ring_qp_shared *sh = peer_area(&t->p, &e->qp.shared);
	union ring_sq_ctl c = { .opcode = opcode, .flags = UROCE_SEND_SIGNALED, .count = 1 };

	w->wr_id = e->sq.counter;
	w->remote_addr = (uintptr_t)to;
	w->rkey = rkey;
	memcpy(w + 1, &sge, sizeof(sge));
	c.phase = ring_phase(e->sq.counter, e->sq.order);
	atomic_store_explicit(&w->ctl, c.word, memory_order_release);
	e->sq.counter++;
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&sh->sq_watch) == 0)
		ring_doorbell(t, e);
}

static void
post_send(struct pair *t, int i, uint8_t opcode, const uint8_t *from, uint32_t len, const uint8_t *to)
{
	post_with(t, i, opcode, from, len, to, t->lkey);
}

static void
post_recv(struct pair *t, int i, uint8_t *to, uint32_t len)
{
	struct end *e = &t->end[i];
	struct ring_rq_wqe *w = ring_slot(&e->rq, e->rq.counter);
	union ring_rq_ctl c = { .num_sge = 1, .phase = ring_phase(e->rq.counter, e->rq.order) };

	w->wr_id = 1000 + e->rq.counter;
	w->sge[0] = (struct ring_sge){ .addr = (uintptr_t)to, .length = len, .lkey = t->lkey };
	atomic_store_explicit(&w->ctl, c.word, memory_order_release);
	e->rq.counter++;
}

/** Wait for a completion. @return false after 5 s. */
static bool
poll_cq(struct pair *t, struct ring_cqe *out)
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

static void
fill(uint8_t *p, uint8_t seed)
{
	int i;

	for (i = 0; i < BYTES; i++)
		p[i] = (uint8_t)(seed + i * 7);
}

static void
run_write_read_send(uint32_t kind)
{
	struct ring_cqe e;
	struct pair t;
	int i;

	pair_open(&t, kind);
	fill(t.mem, 1);
	post_send(&t, 0, UROCE_WR_RDMA_WRITE, t.mem, BYTES, t.mem + BYTES);
	assert_true(poll_cq(&t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(t.mem, t.mem + BYTES, BYTES);
	fill(t.mem + BYTES, 2);
	post_send(&t, 1, UROCE_WR_RDMA_READ, t.mem, BYTES, t.mem + BYTES);
	assert_true(poll_cq(&t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(t.mem, t.mem + BYTES, BYTES);
	fill(t.mem, 3);
	post_recv(&t, 1, t.mem + BYTES, BYTES);
	post_send(&t, 0, UROCE_WR_SEND, t.mem, BYTES, NULL);
	for (i = 0; i < 2; i++) {
		assert_true(poll_cq(&t, &e));
		assert_int_equal(e.status, UROCE_WC_SUCCESS);
	}
	assert_memory_equal(t.mem, t.mem + BYTES, BYTES);
	pair_close(&t);
}

static void
converted_memory_moves(void **state)
{
	run_write_read_send(CTL_SEG_CONVERTED);
}

/** An ordinary user's daemon can't open what programs have mapped. */
static void
skip_unless_privileged(void)
{
	struct peer p;

	peer_open(&p);
	peer_close(&p);
	assert_true(daemon_wait_empty());
	if (!p.dev.privileged)
		skip();
}

static void
shared_memory_moves(void **state)
{
	skip_unless_privileged();
	run_write_read_send(CTL_SEG_SHARED);
}

static void
remote_memory_moves(void **state)
{
	run_write_read_send(CTL_SEG_REMOTE);
}

/** Post a WR without SGEs. @p op BIND_MW: a window onto all the memory; LOCAL_INV. */
static void
post_local(struct pair *t, int i, uint8_t op, uint32_t key)
{
	struct end *e = &t->end[i];
	struct ring_sq_wqe *w = ring_slot(&e->sq, e->sq.counter);
	struct ring_bind b = { .length = 2 * BYTES, .lkey = t->lkey, .access = UROCE_ACCESS_REMOTE_WRITE };
	struct ring_qp_shared *sh = peer_area(&t->p, &e->qp.shared);
	union ring_sq_ctl c = { .opcode = op, .flags = UROCE_SEND_SIGNALED };

	w->wr_id = e->sq.counter;
	w->remote_addr = (uintptr_t)t->mem;
	w->rkey = w->imm = key;
	memcpy(w + 1, &b, sizeof(b));
	c.phase = ring_phase(e->sq.counter, e->sq.order);
	atomic_store_explicit(&w->ctl, c.word, memory_order_release);
	e->sq.counter++;
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&sh->sq_watch) == 0)
		ring_doorbell(t, e);
}

static int
handle_call(struct pair *t, uint32_t op, uint32_t handle)
{
	struct ctl_req q = peer_req(op);
	struct ctl_rsp r;

	q.handle.handle = handle;
	return peer_call(t->p.sock, &q, NULL, 0, &r, NULL, 0);
}

static void
windows_are_bound_and_hold_their_mr(void **state)
{
	struct ctl_req q = peer_req(CTL_MW_ALLOC);
	struct ctl_mw_alloc_rsp mw;
	uint32_t key;
	struct ring_cqe e;
	struct ctl_rsp r;
	struct pair t;

	pair_open(&t, CTL_SEG_CONVERTED);
	q.mw_alloc.pd = t.pd;
	q.mw_alloc.type = 3;
	assert_int_equal(peer_call(t.p.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	q.mw_alloc.type = 2;
	call(&t, &q, &r, NULL);
	mw = r.mw_alloc;
	key = mw.rkey ^ 0x55;
	post_local(&t, 1, UROCE_WR_BIND_MW, key);
	assert_true(poll_cq(&t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_int_equal(handle_call(&t, CTL_MR_DEREG, t.mr), EBUSY);
	fill(t.mem, 1);
	/* The end that bound it takes writes through it. */
	post_with(&t, 0, UROCE_WR_RDMA_WRITE, t.mem, BYTES, t.mem + BYTES, key);
	assert_true(poll_cq(&t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(t.mem, t.mem + BYTES, BYTES);
	post_local(&t, 1, UROCE_WR_LOCAL_INV, key);
	assert_true(poll_cq(&t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	/* A PD isn't freed before its windows. */
	assert_int_equal(handle_call(&t, CTL_PD_FREE, t.pd), EBUSY);
	assert_int_equal(handle_call(&t, CTL_MW_FREE, mw.handle), 0);
	assert_int_equal(handle_call(&t, CTL_MW_FREE, mw.handle), EINVAL);
	assert_int_equal(handle_call(&t, CTL_MR_DEREG, t.mr), 0);
	pair_close(&t);
	assert_int_equal(daemon_counts().mrs, 0);
}

static void
a_session_that_ends_with_bound_windows_leaves_nothing(void **state)
{
	struct ctl_req q = peer_req(CTL_MW_ALLOC);
	struct ring_cqe e;
	struct ctl_rsp r;
	struct pair t;
	int i;

	pair_open(&t, CTL_SEG_CONVERTED);
	q.mw_alloc.pd = t.pd;
	for (i = 0; i < 8; i++) {
		q.mw_alloc.type = 1 + i % 2;
		call(&t, &q, &r, NULL);
		post_local(&t, i / 4, UROCE_WR_BIND_MW, r.mw_alloc.rkey);
		assert_true(poll_cq(&t, &e));
		assert_int_equal(e.status, UROCE_WC_SUCCESS);
	}
	assert_int_equal(daemon_counts().mrs, 9);
	pair_close(&t);
	assert_int_equal(daemon_counts().mrs, 0);
}

/** Load the other family's address as the alternate path, or one that nobody has. */
static int
load_alternate(struct pair *t, int i, bool nobody, struct ctl_rsp *r)
{
	struct uroce_qp_attr a = {
		.path_mig_state = 1,
		.alt_timeout = 14,
		.alt_port_num = 1,
		.alt_ah = { .dgid = { 0xfd, 0, 0, 0x18, [15] = nobody ? 77 : 1 },
			    .sgid_index = 2,
			    .hop_limit = 64,
			    .is_global = 1,
			    .port_num = 1 },
	};

	return modify(t, i, UROCE_QP_ALT_PATH | UROCE_QP_PATH_MIG_STATE, &a, r);
}

static uint32_t
mig_state(struct pair *t, int i)
{
	struct ctl_req q = peer_req(CTL_QP_QUERY);
	struct ctl_rsp r;

	q.handle.handle = t->end[i].qp.handle;
	call(t, &q, &r, NULL);
	return r.qp_query.attr.path_mig_state;
}

static void
write_through(struct pair *t, int i, uint8_t seed)
{
	struct ring_cqe e;

	fill(t->mem, seed);
	post_send(t, i, UROCE_WR_RDMA_WRITE, t->mem, BYTES, t->mem + BYTES);
	assert_true(poll_cq(t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(t->mem, t->mem + BYTES, BYTES);
}

static void
a_connection_migrates_to_its_alternate_addresses(void **state)
{
	enum { MIGRATED, REARM, ARMED };
	struct uroce_qp_attr a = { .path_mig_state = MIGRATED };
	struct ctl_rsp r;
	struct pair t;

	pair_open(&t, CTL_SEG_CONVERTED);
	/* The reply waits; the message names the alternate address. */
	assert_int_equal(load_alternate(&t, 0, true, &r), ETIMEDOUT);
	assert_non_null(strstr(r.message, "fd00:18::4d"));
	for (int i = 0; i < 2; i++) {
		if (load_alternate(&t, i, false, &r) != 0)
			fail_msg("alternate path: %s", r.message);
		assert_int_equal(mig_state(&t, i), REARM);
	}
	write_through(&t, 0, 1);
	assert_int_equal(mig_state(&t, 0), ARMED);
	assert_int_equal(mig_state(&t, 1), ARMED);
	assert_int_equal(modify(&t, 0, UROCE_QP_PATH_MIG_STATE, &a, &r), 0);
	write_through(&t, 1, 2);
	assert_int_equal(mig_state(&t, 0), MIGRATED);
	assert_int_equal(mig_state(&t, 1), MIGRATED);
	pair_close(&t);
}

static void
a_peer_that_does_not_answer_is_a_timeout_with_its_address(void **state)
{
	struct uroce_qp_attr a;
	struct ctl_rsp r;
	struct pair t = { 0 };

	peer_open(&t.p);
	make_queues(&t);
	init_qp(&t, 0);
	a = rtr_attr(&t, 0, 77);
	assert_int_equal(modify(&t, 0, RTR_MASK, &a, &r), ETIMEDOUT);
	assert_non_null(strstr(r.message, "198.18.0.77"));
	/* Nothing has changed: another try, towards ourselves, is good. */
	a = rtr_attr(&t, 0, 1);
	assert_int_equal(modify(&t, 0, RTR_MASK, &a, &r), 0);
	a = rtr_attr(&t, 1, 1);
	a.ah.dgid[13] = 99; /* 198.99.0.1 */
	init_qp(&t, 1);
	assert_int_equal(modify(&t, 1, RTR_MASK, &a, &r), EHOSTUNREACH);
	a.ah.sgid_index = 9;
	assert_int_equal(modify(&t, 1, RTR_MASK, &a, &r), EINVAL);
	assert_non_null(strstr(r.message, "GID index 9"));
	peer_close(&t.p);
	assert_true(daemon_wait_empty());
}

static void
a_session_can_end_while_its_peer_is_being_looked_for(void **state)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);
	struct pair t = { 0 };

	peer_open(&t.p);
	make_queues(&t);
	init_qp(&t, 0);
	q.qp_modify.handle = t.end[0].qp.handle;
	q.qp_modify.mask = RTR_MASK;
	q.qp_modify.attr = rtr_attr(&t, 0, 78);
	assert_int_equal(peer_send(t.p.sock, &q, sizeof(q), NULL, 0), 0);
	usleep(50000);
	peer_close(&t.p);
	assert_true(daemon_wait_empty());
	/* Its resolution would have ended by now, and called back. */
	usleep(1500000);
	assert_int_equal(daemon_counts().control.sessions, 0);
}

static void
a_program_killed_in_mid_traffic_leaves_nothing(void **state)
{
	struct daemon_counts before, after;
	struct ring_cqe e;
	struct pair t;
	int status, i, k;
	pid_t pid;

	assert_true(daemon_wait_empty());
	before = daemon_counts();
	for (i = 0; i < 10; i++) {
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			pair_open(&t, i % 2 ? CTL_SEG_CONVERTED : CTL_SEG_REMOTE);
			for (k = 0;; k++) {
				post_send(&t, k & 1, k & 2 ? UROCE_WR_RDMA_WRITE : UROCE_WR_RDMA_READ, t.mem, BYTES,
					  t.mem + BYTES);
				if (k >= 8 && !poll_cq(&t, &e))
					_exit(1);
			}
		}
		for (k = 0; k < 10000 && daemon_counts().qps < 2; k++)
			usleep(1000);
		usleep(50000);
		/* Before anything is asserted: a child must not outlive the test. */
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_in_range(k, 0, 9999);
		assert_true(daemon_wait_empty());
	}
	after = daemon_counts();
	assert_int_equal(after.qps, before.qps);
	assert_int_equal(after.mrs, before.mrs);
	assert_int_equal(after.fds, before.fds);
	assert_memory_equal(&before.control, &after.control, sizeof(before.control));
}

static void
memory_taken_away_ends_its_session_only(void **state)
{
	struct ctl_rsp r;
	struct ring_cqe e;
	struct pair good, bad;
	struct ctl_req q = peer_req(CTL_PD_ALLOC);

	skip_unless_privileged();
	daemon_take_sigbus();
	pair_open(&good, CTL_SEG_CONVERTED);
	pair_open(&bad, CTL_SEG_SHARED);
	assert_int_equal(ftruncate(bad.shared_fd, 0), 0);
	post_send(&bad, 0, UROCE_WR_RDMA_WRITE, bad.mem, BYTES, bad.mem + BYTES);
	/* The daemon closes the connection. */
	assert_false(peer_recv(bad.p.sock, &r, NULL, 0));
	peer_close(&bad.p);
	munmap(bad.mem, 2 * BYTES);
	close(bad.shared_fd);
	/* The other one is served as before. */
	call(&good, &q, &r, NULL);
	fill(good.mem, 5);
	post_send(&good, 0, UROCE_WR_RDMA_WRITE, good.mem, BYTES, good.mem + BYTES);
	assert_true(poll_cq(&good, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(good.mem, good.mem + BYTES, BYTES);
	pair_close(&good);
}

static void
rings_scribbled_over_harm_only_their_session(void **state)
{
	struct ring_cqe e;
	struct pair good, bad;
	unsigned int seed = 3, i, k;

	pair_open(&good, CTL_SEG_CONVERTED);
	for (k = 0; k < 5; k++) {
		pair_open(&bad, CTL_SEG_REMOTE);
		for (i = 0; i < 20000; i++) {
			struct end *x = &bad.end[i & 1];
			uint8_t *areas[] = { peer_area(&bad.p, &x->qp.sq),     peer_area(&bad.p, &x->qp.rq),
					     peer_area(&bad.p, &x->qp.shared), peer_area(&bad.p, &bad.cq.shared),
					     peer_area(&bad.p, &bad.cq.ring),  bad.p.db };
			uint64_t bytes[] = { x->qp.sq.length,    x->qp.rq.length,    64, 128,
					     bad.cq.ring.length, bad.p.dev.db_stride };
			unsigned int a = rand_r(&seed) % 6;

			areas[a][rand_r(&seed) % bytes[a]] = (uint8_t)rand_r(&seed);
			if (i % 64 == 0)
				post_send(&bad, 0, (uint8_t)(rand_r(&seed) % 16), bad.mem, (uint32_t)rand_r(&seed),
					  bad.mem);
		}
		post_send(&good, 0, UROCE_WR_RDMA_WRITE, good.mem, BYTES, good.mem + BYTES);
		assert_true(poll_cq(&good, &e));
		assert_int_equal(e.status, UROCE_WC_SUCCESS);
		peer_close(&bad.p);
		munmap(bad.mem, 2 * BYTES);
	}
	pair_close(&good);
}

static int
setup(void **state)
{
	daemon_start("test_traffic", 100, 1000);
	return 0;
}

static int
teardown(void **state)
{
	daemon_stop();
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(converted_memory_moves),
		cmocka_unit_test(shared_memory_moves),
		cmocka_unit_test(remote_memory_moves),
		cmocka_unit_test(windows_are_bound_and_hold_their_mr),
		cmocka_unit_test(a_session_that_ends_with_bound_windows_leaves_nothing),
		cmocka_unit_test(a_connection_migrates_to_its_alternate_addresses),
		cmocka_unit_test(a_peer_that_does_not_answer_is_a_timeout_with_its_address),
		cmocka_unit_test(a_session_can_end_while_its_peer_is_being_looked_for),
		cmocka_unit_test(a_program_killed_in_mid_traffic_leaves_nothing),
		cmocka_unit_test(memory_taken_away_ends_its_session_only),
		cmocka_unit_test(rings_scribbled_over_harm_only_their_session),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
