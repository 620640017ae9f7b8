/* SPDX-License-Identifier: BSD-3-Clause */
/* XRC domains and targets: what programs share, who may have a part of it, and what is left when one of them ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/observe/inspect.h"
#include "daemon.h"

enum { BYTES = 4096, NO_FD = -1, EVENT_WAIT_MS = 5000 };

/** A program: a session with a PD, a CQ and memory. */
struct prog {
	struct peer p;
	uint32_t pd, xrcd, lkey;
	struct ctl_cq_create_rsp cq;
	struct ring cq_ring;
	struct ctl_srq_create_rsp srq;
	struct ring srq_ring;
	struct ctl_qp_create_rsp qp;
	struct ring sq;
	uint8_t *mem;
};

static char path[64], other_path[64];

static int
try(struct prog *g, struct ctl_req *q, struct ctl_rsp *r)
{
	return peer_call(g->p.sock, q, NULL, 0, r, NULL, 0);
}

static void
make_memory(struct prog *g)
{
	uint8_t buf[CTL_REQ_BYTES + sizeof(struct ctl_seg)] = { 0 };
	struct ctl_req *q = (void *)buf;
	struct ctl_seg *seg = (void *)(buf + CTL_REQ_BYTES);
	struct ctl_rsp r;

	g->mem = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, g->p.mem_fd, 1 << 20);
	assert_ptr_not_equal(g->mem, MAP_FAILED);
	*q = peer_req(CTL_MR_REG);
	q->mr_reg = (struct ctl_mr_reg_req){
		.pd = g->pd,
		.addr = (uintptr_t)g->mem,
		.iova = (uintptr_t)g->mem,
		.length = BYTES,
		.nb_segs = 1,
		.nb_in_msg = 1,
		.access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE,
	};
	*seg = (struct ctl_seg){ .va = (uintptr_t)g->mem, .length = BYTES, .kind = CTL_SEG_CONVERTED,
				 .offset = 1 << 20 };
	assert_int_equal(peer_send(g->p.sock, buf, sizeof(buf), NULL, 0), 0);
	assert_true(peer_recv(g->p.sock, &r, NULL, 0));
	assert_int_equal(r.status, 0);
	g->lkey = r.mr_reg.lkey;
}

static void
begin(struct prog *g)
{
	struct ctl_req q = peer_req(CTL_CQ_CREATE);
	struct ctl_rsp r;
	int fd = -1;

	memset(g, 0, sizeof(*g));
	peer_open(&g->p);
	g->pd = peer_pd(g->p.sock);
	q.cq_create.cqe = 16;
	peer_must(g->p.sock, &q, &r, &fd);
	g->cq = r.cq_create;
	peer_segment(&g->p, &g->cq.seg, fd);
	g->cq_ring = (struct ring){ .base = peer_area(&g->p, &g->cq.ring), RING_SIZE(g->cq.order, 5) };
	make_memory(g);
}

static void
end(struct prog *g)
{
	peer_close(&g->p);
	munmap(g->mem, BYTES);
}

static int
open_domain(struct prog *g, int fd, uint32_t oflags)
{
	struct ctl_req q = peer_req(CTL_XRCD_OPEN);
	struct ctl_rsp r;
	int rc;

	q.xrcd_open.oflags = oflags;
	rc = peer_call(g->p.sock, &q, &fd, fd >= 0, &r, NULL, 0);
	g->xrcd = r.handle.handle;
	return rc;
}

/** Through a file, which is opened anew. */
static int
open_domain_at(struct prog *g, const char *name, uint32_t oflags, int how)
{
	int fd = open(name, how | O_CLOEXEC), rc;

	assert_true(fd >= 0);
	rc = open_domain(g, fd, oflags);
	close(fd);
	return rc;
}

static int
try_srq(struct prog *g, uint32_t xrcd, uint32_t cq)
{
	struct ctl_req q = peer_req(CTL_SRQ_CREATE);
	struct ctl_rsp r;
	int fd = -1, rc;

	q.srq_create = (struct ctl_srq_create_req){ .pd = g->pd, .max_wr = 8, .max_sge = 1, .is_xrc = 1, .xrcd = xrcd,
						    .cq = cq, .cookie = 55 };
	rc = peer_call(g->p.sock, &q, NULL, 0, &r, &fd, 1);
	if (rc != 0)
		return rc;
	g->srq = r.srq_create;
	peer_segment(&g->p, &g->srq.seg, fd);
	g->srq_ring = (struct ring){ .base = peer_area(&g->p, &g->srq.ring), RING_SIZE(g->srq.order, g->srq.shift) };
	return 0;
}

static int
try_target(struct prog *g, uint32_t xrcd, uint64_t cookie)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	struct ctl_rsp r;
	int rc;

	q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_XRC_RECV, .xrcd = xrcd, .cookie = cookie };
	rc = try(g, &q, &r);
	g->qp = r.qp_create;
	return rc;
}

static int
try_open(struct prog *g, uint32_t qpn, uint32_t type, uint64_t cookie)
{
	struct ctl_req q = peer_req(CTL_QP_OPEN);
	struct ctl_rsp r;
	int rc;

	q.qp_open = (struct ctl_qp_open_req){ .xrcd = g->xrcd, .qpn = qpn, .type = type, .cookie = cookie };
	rc = try(g, &q, &r);
	g->qp = r.qp_create;
	return rc;
}

static void
make_initiator(struct prog *g)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	struct ctl_rsp r;
	int fd = -1;

	q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_XRC_SEND, .pd = g->pd, .send_cq = g->cq.handle,
						  .recv_cq = 12345, .srq = 12345, .cap = { 16, 1, 1, 1, 0 } };
	peer_must(g->p.sock, &q, &r, &fd);
	g->qp = r.qp_create;
	peer_segment(&g->p, &g->qp.seg, fd);
	g->sq = (struct ring){ .base = peer_area(&g->p, &g->qp.sq), RING_SIZE(g->qp.sq_order, g->qp.sq_shift) };
	assert_int_equal(g->qp.rq.length, 0);
}

static void
modify(struct prog *g, const struct uroce_qp_attr *attr, uint32_t mask)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);
	struct ctl_rsp r;

	q.qp_modify.handle = g->qp.handle;
	q.qp_modify.mask = mask | UROCE_QP_STATE;
	q.qp_modify.attr = *attr;
	peer_must(g->p.sock, &q, &r, NULL);
}

static void
to_init(struct prog *g)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_INIT, .port_num = 1,
				   .qp_access_flags = UROCE_ACCESS_REMOTE_WRITE };

	modify(g, &a, UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS);
}

static void
to_rts(struct prog *g, uint32_t peer_qpn, bool target)
{
	struct uroce_qp_attr a = {
		.qp_state = UROCE_QPS_RTR,
		.path_mtu = UROCE_MTU_1024,
		.dest_qp_num = peer_qpn,
		.rq_psn = 100,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah = { .dgid = { [10] = 0xff, 0xff, 198, 18, 0, 1 }, .sgid_index = 1, .hop_limit = 64, .is_global = 1,
			.port_num = 1 },
	};

	to_init(g);
	modify(g, &a, UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
			      (target ? UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER : 0));
	a = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_RTS, .sq_psn = 100, .timeout = 14, .retry_cnt = 7,
				    .rnr_retry = 7, .max_rd_atomic = 4 };
	modify(g, &a, UROCE_QP_SQ_PSN | UROCE_QP_TIMEOUT |
			      (target ? 0 : UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_MAX_QP_RD_ATOMIC));
}

static void
post_send(struct prog *g, uint32_t srqn, uint32_t len)
{
	struct ring_sq_wqe *w = ring_slot(&g->sq, g->sq.counter);
	struct ring_qp_shared *sh = peer_area(&g->p, &g->qp.shared);
	union ring_sq_ctl c = { .opcode = UROCE_WR_SEND, .flags = UROCE_SEND_SIGNALED, .count = 1, .srqn = srqn };
	uint64_t one = 1;

	w->wr_id = g->sq.counter;
	*wqe_sges(w, UROCE_WR_SEND) = (struct ring_sge){ (uintptr_t)g->mem, len, g->lkey };
	ring_sq_post(&g->sq, g->sq.counter++, w, c);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&sh->sq_watch) == 0 && ring_db_ring((void *)g->p.db, g->qp.db_slot))
		assert_int_equal(write(g->p.kick_fd, &one, sizeof(one)), sizeof(one));
}

static void
post_srq(struct prog *g, uint64_t id)
{
	struct ring_rq_wqe *w = ring_slot(&g->srq_ring, g->srq_ring.counter);

	w->wr_id = id;
	w->sge[0] = (struct ring_sge){ .addr = (uintptr_t)g->mem, .length = BYTES, .lkey = g->lkey };
	ring_rq_post(&g->srq_ring, g->srq_ring.counter++, w, 1);
}

static struct ring_cqe
expect_cqe(struct prog *g, enum uroce_wc_status status)
{
	struct ring_cq_shared *sh = peer_area(&g->p, &g->cq.shared);
	union ring_cqe_ctl ctl;
	struct ring_cqe e;

	for (int i = 0; i < 50000; i++) {
		if (ring_cq_ready(&g->cq_ring, g->cq_ring.counter, &ctl)) {
			memcpy(&e, ring_slot(&g->cq_ring, g->cq_ring.counter), sizeof(e));
			atomic_store(&sh->cons, ++g->cq_ring.counter);
			assert_int_equal(e.status, status);
			return e;
		}
		usleep(100);
	}
	fail_msg("no completion");
	return e;
}

static void
expect_event(struct prog *g, enum uroce_event type, uint64_t cookie)
{
	struct pollfd fd = { .fd = g->p.async_fd, .events = POLLIN };
	struct ctl_async_event ev;

	assert_int_equal(poll(&fd, 1, EVENT_WAIT_MS), 1);
	assert_int_equal(read(g->p.async_fd, &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.type, type);
	assert_int_equal(ev.cookie, cookie);
}

static void
a_file_has_one_domain_whoever_opens_it(void **state)
{
	struct daemon_counts before = daemon_counts();
	struct prog a, b;

	begin(&a);
	begin(&b);
	assert_int_equal(open_domain_at(&a, path, 0, O_RDONLY), EAGAIN);
	assert_int_equal(open_domain_at(&a, path, O_CREAT | O_EXCL, O_RDONLY), 0);
	assert_int_equal(open_domain_at(&b, path, O_CREAT | O_EXCL, O_RDONLY), EINVAL);
	/* Which needs a file that the program could open. */
	assert_int_equal(open_domain_at(&b, path, 0, O_PATH), EBADF);
	assert_int_equal(open_domain_at(&b, path, 0, O_WRONLY), 0);
	assert_int_equal(try_target(&a, a.xrcd, 1), 0);
	assert_int_equal(try_open(&b, a.qp.qpn, UROCE_QPT_XRC_RECV, 2), 0);
	assert_int_equal(b.qp.qpn, a.qp.qpn);
	end(&a);
	end(&b);
	assert_true(daemon_wait_empty());
	assert_int_equal(daemon_counts().fds, before.fds);
	assert_int_equal(daemon_counts().control.xrcds, 0);
	/* It went with the last of them. */
	begin(&a);
	assert_int_equal(open_domain_at(&a, path, 0, O_RDONLY), EAGAIN);
	end(&a);
	assert_true(daemon_wait_empty());
}

static void
domains_of_other_files_and_of_none_are_others(void **state)
{
	struct prog a, b;
	uint32_t qpn;

	begin(&a);
	begin(&b);
	assert_int_equal(open_domain_at(&a, path, O_CREAT, O_RDONLY), 0);
	assert_int_equal(try_target(&a, a.xrcd, 1), 0);
	qpn = a.qp.qpn;
	assert_int_equal(open_domain_at(&b, other_path, O_CREAT, O_RDONLY), 0);
	assert_int_equal(try_open(&b, qpn, UROCE_QPT_XRC_RECV, 2), EINVAL);
	assert_int_equal(open_domain(&b, NO_FD, O_CREAT), 0);
	assert_int_equal(try_open(&b, qpn, UROCE_QPT_XRC_RECV, 2), EINVAL);
	assert_int_equal(open_domain(&b, NO_FD, O_CREAT | O_EXCL), 0);
	assert_int_equal(open_domain_at(&b, path, O_CREAT, O_RDONLY), 0);
	assert_int_equal(try_open(&b, qpn, UROCE_QPT_RC, 2), EINVAL);
	assert_int_equal(try_open(&b, qpn + 1, UROCE_QPT_XRC_RECV, 2), EINVAL);
	assert_int_equal(try_open(&b, qpn, UROCE_QPT_XRC_RECV, 2), 0);
	end(&a);
	end(&b);
	assert_true(daemon_wait_empty());
}

static void
a_domain_in_use_is_not_closed(void **state)
{
	struct prog a;

	begin(&a);
	assert_int_equal(open_domain(&a, NO_FD, O_CREAT), 0);
	assert_int_equal(try_srq(&a, a.xrcd, a.cq.handle), 0);
	assert_int_equal(peer_handle(a.p.sock, CTL_XRCD_CLOSE, a.xrcd), EBUSY);
	assert_int_equal(peer_handle(a.p.sock, CTL_CQ_DESTROY, a.cq.handle), EBUSY);
	assert_int_equal(peer_handle(a.p.sock, CTL_PD_FREE, a.pd), EBUSY);
	assert_int_equal(peer_handle(a.p.sock, CTL_SRQ_DESTROY, a.srq.handle), 0);
	assert_int_equal(try_target(&a, a.xrcd, 1), 0);
	assert_int_equal(peer_handle(a.p.sock, CTL_XRCD_CLOSE, a.xrcd), EBUSY);
	assert_int_equal(peer_handle(a.p.sock, CTL_QP_DESTROY, a.qp.handle), 0);
	assert_int_equal(peer_handle(a.p.sock, CTL_XRCD_CLOSE, a.xrcd), 0);
	assert_int_equal(peer_handle(a.p.sock, CTL_XRCD_CLOSE, a.xrcd), EINVAL);
	assert_int_equal(peer_handle(a.p.sock, CTL_CQ_DESTROY, a.cq.handle), 0);
	end(&a);
	assert_true(daemon_wait_empty());
}

static void
parts_of_other_sessions_are_refused(void **state)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	struct prog a, b;
	struct ctl_rsp r;

	begin(&a);
	begin(&b);
	assert_int_equal(open_domain(&a, NO_FD, O_CREAT), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(open_domain(&b, NO_FD, O_CREAT), 0);
	assert_int_equal(try_target(&a, b.xrcd, 1), EINVAL);
	assert_int_equal(try_srq(&a, b.xrcd, a.cq.handle), EINVAL);
	assert_int_equal(try_srq(&a, a.xrcd, 77), EINVAL);
	assert_int_equal(peer_handle(a.p.sock, CTL_XRCD_CLOSE, b.xrcd), EINVAL);
	/* And an XRC SRQ is no QP's own. */
	assert_int_equal(try_srq(&a, a.xrcd, a.cq.handle), 0);
	q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_RC, .pd = a.pd, .send_cq = a.cq.handle,
						  .recv_cq = a.cq.handle, .srq = a.srq.handle, .cap = { 1, 1, 1, 1, 0 } };
	assert_int_equal(try(&a, &q, &r), EINVAL);
	end(&a);
	end(&b);
	assert_true(daemon_wait_empty());
}

static void
srq_numbers_are_24_bits_and_never_shared(void **state)
{
	struct prog a;
	uint32_t nums[20], i, k;

	begin(&a);
	assert_int_equal(open_domain(&a, NO_FD, O_CREAT), 0);
	for (i = 0; i < 20; i++) {
		assert_int_equal(try_srq(&a, a.xrcd, a.cq.handle), 0);
		nums[i] = a.srq.srqn;
		assert_in_range(nums[i], 1, 0xffffff);
		for (k = 0; k < i; k++)
			assert_int_not_equal(nums[k], nums[i]);
		/* One that was freed doesn't come back at once. */
		if (i < 10)
			assert_int_equal(peer_handle(a.p.sock, CTL_SRQ_DESTROY, a.srq.handle), 0);
	}
	end(&a);
	assert_true(daemon_wait_empty());
}

static void
a_target_lives_while_somebody_has_it_open(void **state)
{
	struct inspect_filter f = INSPECT_ALL;
	uint64_t numbers[4], sessions[4];
	struct prog a, b;
	uint32_t qpn;

	begin(&a);
	begin(&b);
	assert_int_equal(open_domain_at(&a, path, O_CREAT, O_RDONLY), 0);
	assert_int_equal(open_domain_at(&b, path, 0, O_RDONLY), 0);
	assert_int_equal(try_target(&a, a.xrcd, 1), 0);
	qpn = a.qp.qpn;
	to_init(&a);
	assert_int_equal(try_open(&b, qpn, UROCE_QPT_XRC_RECV, 2), 0);
	/* Both have it, and the list of QPs has it once; the list of one session, too. */
	assert_int_equal(inspect_list(daemon_control(), INSPECT_QP, &f, numbers, 4), 1);
	assert_int_equal(numbers[0], qpn);
	assert_int_equal(inspect_list(daemon_control(), INSPECT_SESSION, &f, sessions, 4), 2);
	for (int n = 0; n < 2; n++) {
		f.session = sessions[n];
		assert_int_equal(inspect_list(daemon_control(), INSPECT_QP, &f, numbers, 4), 1);
	}
	end(&a);
	while (daemon_counts().control.sessions > 1)
		usleep(1000);
	assert_int_equal(daemon_counts().qps, 1);
	modify(&b, &(struct uroce_qp_attr){ .qp_state = UROCE_QPS_ERR }, 0);
	assert_int_equal(peer_handle(b.p.sock, CTL_QP_DESTROY, b.qp.handle), 0);
	assert_int_equal(daemon_counts().qps, 0);
	assert_int_equal(try_open(&b, qpn, UROCE_QPT_XRC_RECV, 2), EINVAL);
	end(&b);
	assert_true(daemon_wait_empty());
}

/* a has the target, b an SRQ, c sends. */
static void
messages_reach_srqs_of_other_programs_and_events_all_that_have_the_target(void **state)
{
	struct prog a, b, c;
	struct ring_cqe e;

	begin(&a);
	begin(&b);
	begin(&c);
	assert_int_equal(open_domain_at(&a, path, O_CREAT, O_RDONLY), 0);
	assert_int_equal(open_domain_at(&b, path, O_CREAT, O_RDONLY), 0);
	assert_int_equal(try_target(&a, a.xrcd, 7), 0);
	assert_int_equal(try_open(&b, a.qp.qpn, UROCE_QPT_XRC_RECV, 8), 0);
	assert_int_equal(try_srq(&b, b.xrcd, b.cq.handle), 0);
	make_initiator(&c);
	to_rts(&c, a.qp.qpn, false);
	to_rts(&a, c.qp.qpn, true);
	memset(c.mem, 0x5a, BYTES);
	post_srq(&b, 70);
	post_srq(&b, 71);
	post_send(&c, b.srq.srqn, 3000);
	expect_cqe(&c, UROCE_WC_SUCCESS);
	e = expect_cqe(&b, UROCE_WC_SUCCESS);
	assert_int_equal(e.wr_id, 70);
	assert_int_equal(e.qpn, a.qp.qpn);
	assert_int_equal(e.byte_len, 3000);
	assert_memory_equal(b.mem, c.mem, 3000);
	/* The SRQ goes: what names it is an invalid request. */
	assert_int_equal(peer_handle(b.p.sock, CTL_SRQ_DESTROY, b.srq.handle), 0);
	post_send(&c, b.srq.srqn, 100);
	expect_cqe(&c, UROCE_WC_REM_INV_REQ_ERR);
	expect_event(&a, UROCE_EVENT_QP_REQ_ERR, 7);
	expect_event(&b, UROCE_EVENT_QP_REQ_ERR, 8);
	expect_event(&a, UROCE_EVENT_QP_LAST_WQE_REACHED, 7);
	expect_event(&b, UROCE_EVENT_QP_LAST_WQE_REACHED, 8);
	end(&b);
	end(&a);
	end(&c);
	assert_true(daemon_wait_empty());
	assert_int_equal(daemon_counts().qps, 0);
}

static void
a_program_that_ends_takes_its_srq_from_under_the_traffic(void **state)
{
	struct prog a, b, c;

	for (int round = 0; round < 10; round++) {
		begin(&a);
		begin(&b);
		begin(&c);
		assert_int_equal(open_domain_at(&a, path, O_CREAT, O_RDONLY), 0);
		assert_int_equal(open_domain_at(&b, path, O_CREAT, O_RDONLY), 0);
		assert_int_equal(try_target(&a, a.xrcd, 7), 0);
		assert_int_equal(try_srq(&b, b.xrcd, b.cq.handle), 0);
		make_initiator(&c);
		to_rts(&c, a.qp.qpn, false);
		to_rts(&a, c.qp.qpn, true);
		for (int i = 0; i < 8; i++)
			post_srq(&b, (uint64_t)i);
		for (int i = 0; i < 16; i++)
			post_send(&c, b.srq.srqn, BYTES);
		usleep((unsigned int)round * 20);
		end(&b);
		/* What didn't get through before is refused, the rest flushed. */
		for (int i = 0; i < 16; i++) {
			struct ring_cq_shared *sh = peer_area(&c.p, &c.cq.shared);
			union ring_cqe_ctl ctl;
			int k;

			for (k = 0; k < 50000 && !ring_cq_ready(&c.cq_ring, c.cq_ring.counter, &ctl); k++)
				usleep(100);
			assert_in_range(k, 0, 49999);
			atomic_store(&sh->cons, ++c.cq_ring.counter);
		}
		end(&c);
		end(&a);
		assert_true(daemon_wait_empty());
		assert_int_equal(daemon_counts().qps, 0);
		assert_int_equal(daemon_counts().mrs, 0);
	}
}

static int
setup(void **state)
{
	snprintf(path, sizeof(path), "/tmp/uroce-xrc-a.%d", (int)getpid());
	snprintf(other_path, sizeof(other_path), "/tmp/uroce-xrc-b.%d", (int)getpid());
	close(open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600));
	close(open(other_path, O_CREAT | O_RDWR | O_CLOEXEC, 0600));
	daemon_start("test_xrc", 100, 1000);
	return 0;
}

static int
teardown(void **state)
{
	daemon_stop();
	unlink(path);
	unlink(other_path);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_has_one_domain_whoever_opens_it),
		cmocka_unit_test(domains_of_other_files_and_of_none_are_others),
		cmocka_unit_test(a_domain_in_use_is_not_closed),
		cmocka_unit_test(parts_of_other_sessions_are_refused),
		cmocka_unit_test(srq_numbers_are_24_bits_and_never_shared),
		cmocka_unit_test(a_target_lives_while_somebody_has_it_open),
		cmocka_unit_test(messages_reach_srqs_of_other_programs_and_events_all_that_have_the_target),
		cmocka_unit_test(a_program_that_ends_takes_its_srq_from_under_the_traffic),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
