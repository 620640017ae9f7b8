/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs of programs that move between the engines of a daemon while the programs use and destroy them, or end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/core/control_priv.h"
#include "pair.h"

enum { ROUNDS = 60, IN_FLIGHT = 8 };

static void
write_through(struct pair *t, int i, uint8_t seed)
{
	struct ring_cqe e;

	for (int k = 0; k < PAIR_BYTES; k++)
		t->mem[k] = (uint8_t)(seed + k * 7);
	pair_post(t, i, UROCE_WR_RDMA_WRITE, t->mem, PAIR_BYTES, t->mem + PAIR_BYTES);
	assert_true(pair_poll(t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_int_equal(e.qpn, t->end[i].qp.qpn);
	assert_memory_equal(t->mem, t->mem + PAIR_BYTES, PAIR_BYTES);
}

static void
must_move(const struct pair *t, int i, unsigned int engine)
{
	struct control_moved moved;

	assert_int_equal(daemon_move(t->end[i].qp.qpn, engine, &moved), 0);
	assert_in_range(moved.qps, 0, 1);
}

/** With messages under way, and idle ones whose doorbells ring elsewhere. */
static void
qps_move_to_and_fro(void **state)
{
	const struct moves *n = &daemon_control()->moves;
	uint64_t before = n->done;
	struct ring_cqe e;
	struct pair t;

	pair_open(&t, CTL_SEG_CONVERTED);
	for (unsigned int k = 0; k < ROUNDS; k++) {
		for (int i = 0; i < IN_FLIGHT; i++)
			pair_post(&t, i & 1, i & 2 ? UROCE_WR_RDMA_READ : UROCE_WR_RDMA_WRITE, t.mem, PAIR_BYTES, t.mem + PAIR_BYTES);
		must_move(&t, 0, k & 1);
		must_move(&t, 1, k >> 1 & 1);
		for (int i = 0; i < IN_FLIGHT; i++) {
			assert_true(pair_poll(&t, &e));
			assert_int_equal(e.status, UROCE_WC_SUCCESS);
		}
		if (k % 8 == 0)
			usleep(2000);
		write_through(&t, 0, (uint8_t)k);
		write_through(&t, 1, (uint8_t)(k + 100));
	}
	assert_in_range(n->done - before, ROUNDS, 2 * ROUNDS);
	assert_true(n->longest_ns >= n->last_ns && n->last_ns > 0);
	pair_close(&t);
}

static void
requests_find_a_qp_that_has_moved(void **state)
{
	struct ctl_req q = peer_req(CTL_QP_QUERY);
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_ERR };
	struct ring_cqe e;
	struct ctl_rsp r;
	struct pair t;

	pair_open(&t, CTL_SEG_CONVERTED);
	for (int i = 0; i < 2; i++)
		must_move(&t, i, !t.end[i].qp.engine);
	q.handle.handle = t.end[0].qp.handle;
	peer_must(t.p.sock, &q, &r, NULL);
	assert_int_equal(r.qp_query.attr.qp_state, UROCE_QPS_RTS);
	pair_post_recv(&t, 0, t.mem, 64);
	assert_int_equal(pair_modify(&t, 0, UROCE_QP_STATE, &a, &r), 0);
	assert_true(pair_poll(&t, &e));
	assert_int_equal(e.status, UROCE_WC_WR_FLUSH_ERR);
	/* In ERR it flushes what is posted: this doorbell, too, is the other engine's. */
	usleep(2000);
	pair_post(&t, 0, UROCE_WR_RDMA_WRITE, t.mem, 64, t.mem + PAIR_BYTES);
	assert_true(pair_poll(&t, &e));
	assert_int_equal(e.status, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(peer_handle(t.p.sock, CTL_QP_DESTROY, t.end[0].qp.handle), 0);
	assert_int_equal(daemon_counts().qps, 1);
	pair_close(&t);
	assert_int_equal(daemon_counts().qps, 0);
}

/** Its program still has the doorbell. With meson's MALLOC_PERTURB_ an engine that looks at the QP's memory ends here. */
static void
doorbell_of_a_destroyed_qp_rings_for_nobody(void **state)
{
	const struct engine_stats *home;
	struct ctl_qp_create_rsp qp;
	uint64_t rung, one = 1;
	struct pair t;

	pair_open(&t, CTL_SEG_CONVERTED);
	qp = t.end[0].qp;
	home = engine_stats(daemon_control()->s.engines[qp.engine]);
	must_move(&t, 0, !qp.engine);
	/* The memory of the first is free when the second is destroyed, or soon after. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(peer_handle(t.p.sock, CTL_QP_DESTROY, t.end[i].qp.handle), 0);
		usleep(2000);
	}
	rung = home->turns;
	if (ring_db_ring((void *)(t.p.db + qp.engine * t.p.dev.db_stride), qp.db_slot))
		assert_int_equal(write(t.p.kick_fd, &one, sizeof(one)), sizeof(one));
	for (int ms = 0; home->turns < rung + 2 && ms < 1000; ms++)
		usleep(1000);
	assert_true(home->turns >= rung + 2);
	pair_close(&t);
}

static void
sessions_end_with_qps_elsewhere(void **state)
{
	struct daemon_counts before, after;

	assert_true(daemon_wait_empty());
	before = daemon_counts();
	for (unsigned int k = 0; k < 8; k++) {
		struct pair t;

		pair_open(&t, CTL_SEG_CONVERTED);
		for (int i = 0; i < 6; i++)
			pair_post(&t, i & 1, UROCE_WR_RDMA_WRITE, t.mem, PAIR_BYTES, t.mem + PAIR_BYTES);
		must_move(&t, 0, k & 1);
		if (k & 2)
			must_move(&t, 1, k >> 2 & 1);
		pair_close(&t);
	}
	after = daemon_counts();
	assert_int_equal(after.qps, before.qps);
	assert_int_equal(after.mrs, before.mrs);
	assert_memory_equal(&before.control, &after.control, sizeof(before.control));
}

static void
moves_to_no_engine_are_refused(void **state)
{
	struct control_moved moved;
	struct pair t;

	pair_open(&t, CTL_SEG_CONVERTED);
	assert_int_equal(daemon_move(t.end[0].qp.qpn, 2, &moved), EINVAL);
	assert_int_equal(daemon_move(t.end[0].qp.qpn ^ 0x800000, 0, &moved), ENOENT);
	/* It is there already. */
	assert_int_equal(daemon_move(t.end[0].qp.qpn, t.end[0].qp.engine, &moved), 0);
	assert_int_equal(moved.qps, 0);
	assert_int_equal(moved.pause_ns, 0);
	pair_close(&t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qps_move_to_and_fro),
		cmocka_unit_test(requests_find_a_qp_that_has_moved),
		cmocka_unit_test(doorbell_of_a_destroyed_qp_rings_for_nobody),
		cmocka_unit_test(sessions_end_with_qps_elsewhere),
		cmocka_unit_test(moves_to_no_engine_are_refused),
	};

	daemon_engines = 2;
	return DAEMON_TESTS(tests, 100, 1000, NULL);
}
