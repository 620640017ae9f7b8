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

#include "pair.h"

static void
fill(uint8_t *p, uint8_t seed)
{
	int i;

	for (i = 0; i < PAIR_BYTES; i++)
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
	pair_post(&t, 0, UROCE_WR_RDMA_WRITE, t.mem, PAIR_BYTES, t.mem + PAIR_BYTES);
	assert_true(pair_poll(&t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(t.mem, t.mem + PAIR_BYTES, PAIR_BYTES);
	fill(t.mem + PAIR_BYTES, 2);
	pair_post(&t, 1, UROCE_WR_RDMA_READ, t.mem, PAIR_BYTES, t.mem + PAIR_BYTES);
	assert_true(pair_poll(&t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(t.mem, t.mem + PAIR_BYTES, PAIR_BYTES);
	fill(t.mem, 3);
	pair_post_recv(&t, 1, t.mem + PAIR_BYTES, PAIR_BYTES);
	pair_post(&t, 0, UROCE_WR_SEND, t.mem, PAIR_BYTES, NULL);
	for (i = 0; i < 2; i++) {
		assert_true(pair_poll(&t, &e));
		assert_int_equal(e.status, UROCE_WC_SUCCESS);
	}
	assert_memory_equal(t.mem, t.mem + PAIR_BYTES, PAIR_BYTES);
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
	peer_must(t.p.sock, &q, &r, NULL);
	mw = r.mw_alloc;
	key = mw.rkey ^ 0x55;
	pair_post_local(&t, 1, UROCE_WR_BIND_MW, key);
	assert_true(pair_poll(&t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_int_equal(peer_handle(t.p.sock, CTL_MR_DEREG, t.mr), EBUSY);
	fill(t.mem, 1);
	/* The end that bound it takes writes through it. */
	pair_post_with(&t, 0, UROCE_WR_RDMA_WRITE, t.mem, PAIR_BYTES, t.mem + PAIR_BYTES, key);
	assert_true(pair_poll(&t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(t.mem, t.mem + PAIR_BYTES, PAIR_BYTES);
	pair_post_local(&t, 1, UROCE_WR_LOCAL_INV, key);
	assert_true(pair_poll(&t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	/* A PD isn't freed before its windows. */
	assert_int_equal(peer_handle(t.p.sock, CTL_PD_FREE, t.pd), EBUSY);
	assert_int_equal(peer_handle(t.p.sock, CTL_MW_FREE, mw.handle), 0);
	assert_int_equal(peer_handle(t.p.sock, CTL_MW_FREE, mw.handle), EINVAL);
	assert_int_equal(peer_handle(t.p.sock, CTL_MR_DEREG, t.mr), 0);
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
		peer_must(t.p.sock, &q, &r, NULL);
		pair_post_local(&t, i / 4, UROCE_WR_BIND_MW, r.mw_alloc.rkey);
		assert_true(pair_poll(&t, &e));
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

	return pair_modify(t, i, UROCE_QP_ALT_PATH | UROCE_QP_PATH_MIG_STATE, &a, r);
}

static uint32_t
mig_state(struct pair *t, int i)
{
	struct ctl_req q = peer_req(CTL_QP_QUERY);
	struct ctl_rsp r;

	q.handle.handle = t->end[i].qp.handle;
	peer_must(t->p.sock, &q, &r, NULL);
	return r.qp_query.attr.path_mig_state;
}

static void
write_through(struct pair *t, int i, uint8_t seed)
{
	struct ring_cqe e;

	fill(t->mem, seed);
	pair_post(t, i, UROCE_WR_RDMA_WRITE, t->mem, PAIR_BYTES, t->mem + PAIR_BYTES);
	assert_true(pair_poll(t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(t->mem, t->mem + PAIR_BYTES, PAIR_BYTES);
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
	assert_int_equal(pair_modify(&t, 0, UROCE_QP_PATH_MIG_STATE, &a, &r), 0);
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
	pair_queues(&t);
	pair_init_qp(&t, 0);
	a = pair_rtr_attr(&t, 0, 77);
	assert_int_equal(pair_modify(&t, 0, PAIR_RTR_MASK, &a, &r), ETIMEDOUT);
	assert_non_null(strstr(r.message, "198.18.0.77"));
	/* Nothing has changed: another try, towards ourselves, is good. */
	a = pair_rtr_attr(&t, 0, 1);
	assert_int_equal(pair_modify(&t, 0, PAIR_RTR_MASK, &a, &r), 0);
	a = pair_rtr_attr(&t, 1, 1);
	a.ah.dgid[13] = 99; /* 198.99.0.1 */
	pair_init_qp(&t, 1);
	assert_int_equal(pair_modify(&t, 1, PAIR_RTR_MASK, &a, &r), EHOSTUNREACH);
	a.ah.sgid_index = 9;
	assert_int_equal(pair_modify(&t, 1, PAIR_RTR_MASK, &a, &r), EINVAL);
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
	pair_queues(&t);
	pair_init_qp(&t, 0);
	q.qp_modify.handle = t.end[0].qp.handle;
	q.qp_modify.mask = PAIR_RTR_MASK;
	q.qp_modify.attr = pair_rtr_attr(&t, 0, 78);
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
				pair_post(&t, k & 1, k & 2 ? UROCE_WR_RDMA_WRITE : UROCE_WR_RDMA_READ, t.mem, PAIR_BYTES,
					  t.mem + PAIR_BYTES);
				if (k >= 8 && !pair_poll(&t, &e))
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
	pair_post(&bad, 0, UROCE_WR_RDMA_WRITE, bad.mem, PAIR_BYTES, bad.mem + PAIR_BYTES);
	/* The daemon closes the connection. */
	assert_false(peer_recv(bad.p.sock, &r, NULL, 0));
	peer_close(&bad.p);
	munmap(bad.mem, 2 * PAIR_BYTES);
	close(bad.shared_fd);
	/* The other one is served as before. */
	peer_must(good.p.sock, &q, &r, NULL);
	fill(good.mem, 5);
	pair_post(&good, 0, UROCE_WR_RDMA_WRITE, good.mem, PAIR_BYTES, good.mem + PAIR_BYTES);
	assert_true(pair_poll(&good, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(good.mem, good.mem + PAIR_BYTES, PAIR_BYTES);
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
				pair_post(&bad, 0, (uint8_t)(rand_r(&seed) % 16), bad.mem, (uint32_t)rand_r(&seed),
					  bad.mem);
		}
		pair_post(&good, 0, UROCE_WR_RDMA_WRITE, good.mem, PAIR_BYTES, good.mem + PAIR_BYTES);
		assert_true(pair_poll(&good, &e));
		assert_int_equal(e.status, UROCE_WC_SUCCESS);
		peer_close(&bad.p);
		munmap(bad.mem, 2 * PAIR_BYTES);
	}
	pair_close(&good);
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

	return DAEMON_TESTS(tests, 100, 1000, NULL);
}
