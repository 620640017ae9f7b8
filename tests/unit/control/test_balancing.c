/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `balance = on` in a daemon: costs of QPs are seen, and the moves that follow from them are made while programs use the QPs. How busy the engines are is
 * made up: the test changes what the daemon remembers of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/loop_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/observe/inspect_priv.h"
#include "pair.h"

enum {
	PERCENT = BALANCE_ALL / 100,
	MANY = BALANCING_SLICE + 50, /* QPs of a session that take two looks */
	FEW = 20,
	PAIRS = 2,
};
#define NEVER (UINT64_MAX / 2)
#define CYCLES UINT64_C(1000000000000000) /* more than an engine has in all of the test */

static struct peer asker;

/** Have the control thread take a turn. */
static void
wake(void)
{
	(void)peer_pd(asker.sock);
}

/** Wait until all that follows from an interval that has ended is done. The next one ends when the test says so. */
static void
wait_done(void)
{
	struct control *c = daemon_control();
	bool done = false;

	for (int ms = 0; !done && ms < 5000; ms++) {
		control_lock(c);
		done = c->balancing.on && c->balancing.next_ns != 0 && !c->balancing.looking && c->balancing.next_move == c->balancing.nb_moves;
		if (c->balancing.next_ns != 0)
			c->balancing.next_ns = NEVER;
		control_unlock(c);
		usleep(done ? 0 : 1000);
	}
	assert_true(done);
}

static void
switch_to(bool on)
{
	struct control *c = daemon_control();

	control_lock(c);
	c->s.conf->balance = on;
	control_unlock(c);
	wake();
	if (on)
		wait_done();
}

/** An interval ends now, in which the engines were busy for @p busy0 and @p busy1 of BALANCE_ALL. */
static void
interval(uint64_t busy0, uint64_t busy1)
{
	struct control *c = daemon_control();
	const uint64_t busy[] = { busy0, busy1 };

	control_lock(c);
	for (unsigned int i = 0; i < 2; i++) {
		const struct engine_stats *s = engine_stats(c->s.engines[i]);

		c->balancing.busy_cycles[i] = counter_read(&s->busy_cycles) - CYCLES / BALANCE_ALL * busy[i];
		c->balancing.idle_cycles[i] = counter_read(&s->idle_cycles) - CYCLES / BALANCE_ALL * (BALANCE_ALL - busy[i]);
	}
	c->balancing.next_ns = 0;
	control_unlock(c);
	wake();
	wait_done();
}

/** @return the QP; to be used under control_lock() or while the daemon does nothing with it. */
static struct obj_qp *
find(uint32_t qpn)
{
	struct session *s;
	struct obj_qp *qp = inspect_find_one(daemon_control(), INSPECT_QP, qpn, &s);

	assert_non_null(qp);
	return qp;
}

static unsigned int
engine_of(uint32_t qpn)
{
	unsigned int engine;

	control_lock(daemon_control());
	engine = find(qpn)->engine;
	control_unlock(daemon_control());
	return engine;
}

/** Put it there, as if it had been there for long. */
static void
put_at(uint32_t qpn, unsigned int engine)
{
	struct control_moved moved;

	assert_int_equal(daemon_move(qpn, engine, &moved), 0);
	control_lock(daemon_control());
	find(qpn)->moved_ns = 0;
	control_unlock(daemon_control());
}

static void
write_through(struct pair *t, int i)
{
	struct ring_cqe e;

	memset(t->mem, i + 1, PAIR_BYTES);
	memset(t->mem + PAIR_BYTES, 0, PAIR_BYTES);
	pair_post(t, i, UROCE_WR_RDMA_WRITE, t->mem, PAIR_BYTES, t->mem + PAIR_BYTES);
	assert_true(pair_poll(t, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_memory_equal(t->mem, t->mem + PAIR_BYTES, PAIR_BYTES);
}

/** Each QP of the pairs sends as much, and receives as much. */
static void
use_all(struct pair *t)
{
	for (int k = 0; k < PAIRS; k++)
		for (int i = 0; i < 2; i++)
			write_through(&t[k], i);
}

static unsigned int
at_engine(const struct pair *t, unsigned int engine)
{
	unsigned int n = 0;

	for (int k = 0; k < PAIRS; k++)
		for (int i = 0; i < 2; i++)
			n += engine_of(t[k].end[i].qp.qpn) == engine;
	return n;
}

static void
open_all(struct pair *t, unsigned int engine)
{
	for (int k = 0; k < PAIRS; k++) {
		pair_open(&t[k], CTL_SEG_CONVERTED);
		for (int i = 0; i < 2; i++)
			put_at(t[k].end[i].qp.qpn, engine);
	}
	switch_to(true);
}

static void
close_all(struct pair *t)
{
	switch_to(false);
	for (int k = 0; k < PAIRS; k++) {
		peer_close(&t[k].p);
		munmap(t[k].mem, 2 * PAIR_BYTES);
	}
	assert_true(daemon_wait_empty());
}

static void
hot_engine_gives_qps_away_while_they_are_used(void **state)
{
	struct moves *n = &daemon_control()->moves;
	uint64_t done = n->done, balanced;
	struct pair t[PAIRS];

	open_all(t, 0);
	done = n->done;
	balanced = n->balanced;
	for (int i = 0; i < BALANCE_HOT_FOR; i++) {
		assert_int_equal(at_engine(t, 0), 2 * PAIRS);
		use_all(t);
		interval(BALANCE_ALL, 0);
	}
	assert_int_equal(at_engine(t, 0), PAIRS);
	assert_int_equal(n->balanced - balanced, PAIRS);
	assert_int_equal(n->done - done, PAIRS);
	use_all(t);
	/* They stay, whatever the engines have to do. */
	for (int i = 0; i < 2 * BALANCE_HOT_FOR; i++) {
		use_all(t);
		interval(0, BALANCE_ALL);
	}
	assert_int_equal(at_engine(t, 0), PAIRS);
	close_all(t);
}

static void
engine_with_little_to_do_is_left_without_busy_qps(void **state)
{
	struct pair t[PAIRS];

	open_all(t, 0);
	put_at(t[0].end[0].qp.qpn, 1);
	for (int i = 0; i < BALANCE_LITTLE_FOR; i++) {
		assert_int_equal(at_engine(t, 0), 2 * PAIRS - 1);
		use_all(t);
		interval(20 * PERCENT, 10 * PERCENT);
	}
	assert_int_equal(at_engine(t, 0), 2 * PAIRS);
	use_all(t);
	close_all(t);
}

/** Close a descriptor that a reply has brought: the first object in a segment brings it. */
static void
forget(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/** Two QPs of an SRQ, at engine 0. */
static void
open_group(struct pair *t, uint32_t *qpn)
{
	struct ctl_req q = peer_req(CTL_SRQ_CREATE);
	struct ctl_rsp r;
	uint32_t srq;
	int fd = -1;

	q.srq_create = (struct ctl_srq_create_req){ .pd = t->pd, .max_wr = 16, .max_sge = 1 };
	peer_must(t->p.sock, &q, &r, &fd);
	forget(&fd);
	srq = r.srq_create.handle;
	for (int i = 0; i < 2; i++) {
		q = peer_req(CTL_QP_CREATE);
		q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_RC, .pd = t->pd, .send_cq = t->cq.handle, .recv_cq = t->cq.handle,
							  .srq = srq, .cap = { 4, 0, 1, 0, 0 } };
		peer_must(t->p.sock, &q, &r, &fd);
		forget(&fd);
		qpn[i] = r.qp_create.qpn;
	}
	for (int i = 0; i < 2; i++)
		put_at(qpn[i], 0);
}

static void
pretend_cost(const uint32_t *qpn, uint64_t first, uint64_t second)
{
	control_lock(daemon_control());
	find(qpn[0])->cost_seen.bytes -= first;
	find(qpn[1])->cost_seen.bytes -= second;
	control_unlock(daemon_control());
}

/** QPs of an SRQ have one load, and none of them is planned with alone. */
static void
qps_of_an_srq_are_one_load(void **state)
{
	const struct balance_engine *e = &daemon_control()->balancing.policy.engines[0];
	struct obj_qp_load load;
	struct pair t[PAIRS];
	uint32_t qpn[2];

	open_all(t, 0);
	open_group(&t[0], qpn);
	interval(0, 0);
	/* Whichever comes first in a look stands for both. */
	pretend_cost(qpn, 1000, 500);
	control_lock(daemon_control());
	for (uint64_t look = daemon_control()->balancing.looks + 1; look < daemon_control()->balancing.looks + 3; look++) {
		assert_true(obj_qp_look(find(qpn[look & 1]), look, &load));
		assert_int_equal(load.nb_qps, 2);
		assert_false(obj_qp_look(find(qpn[!(look & 1)]), look, &load));
	}
	control_unlock(daemon_control());
	interval(0, 0);
	interval(0, 0);
	pretend_cost(qpn, 1000, 500);
	interval(0, 0);
	assert_int_equal(e->cost, 1500);
	assert_int_equal(e->movable_cost, 1500);
	assert_int_equal(e->n, 1);
	assert_int_equal(e->heaviest[0].nb_qps, 2);
	/* Together they have moved, and stay: the one that was named, and the other. */
	put_at(qpn[0], 1);
	put_at(qpn[0], 0);
	pretend_cost(qpn, 1000, 500);
	interval(0, 0);
	assert_int_equal(e->cost, 1500);
	assert_int_equal(e->movable_cost, 0);
	close_all(t);
}

static void
qps_of_an_srq_leave_a_hot_engine_together(void **state)
{
	struct moves *n = &daemon_control()->moves;
	uint64_t balanced = n->balanced;
	struct pair t[PAIRS];
	uint32_t qpn[2];

	open_all(t, 0);
	open_group(&t[0], qpn);
	for (int i = 0; i < BALANCE_HOT_FOR; i++) {
		assert_int_equal(engine_of(qpn[0]), 0);
		use_all(t);
		/* Each as much as each of the four others. */
		pretend_cost(qpn, 2 * PAIR_BYTES, 2 * PAIR_BYTES);
		interval(BALANCE_ALL, 0);
	}
	assert_int_equal(engine_of(qpn[0]), 1);
	assert_int_equal(engine_of(qpn[1]), 1);
	assert_int_equal(at_engine(t, 0), 2 * PAIRS - 1);
	assert_int_equal(n->balanced - balanced, 3);
	use_all(t);
	close_all(t);
}

static void
nothing_moves_if_it_is_off(void **state)
{
	uint64_t balanced = daemon_control()->moves.balanced;
	struct pair t[PAIRS];

	open_all(t, 0);
	switch_to(false);
	for (int i = 0; i < BALANCE_HOT_FOR + 1; i++) {
		use_all(t);
		control_lock(daemon_control());
		daemon_control()->balancing.next_ns = 0;
		control_unlock(daemon_control());
		wake();
	}
	assert_false(daemon_control()->balancing.on);
	assert_int_equal(daemon_control()->moves.balanced, balanced);
	assert_int_equal(at_engine(t, 0), 2 * PAIRS);
	close_all(t);
}

/** What a QP has cost before isn't taken for the cost of the first interval. */
static void
first_look_says_nothing(void **state)
{
	struct control *c = daemon_control();
	struct pair t[PAIRS];

	open_all(t, 0);
	switch_to(false);
	use_all(t);
	switch_to(true);
	interval(BALANCE_ALL, 0);
	assert_int_equal(c->balancing.policy.engines[0].cost, 0);
	use_all(t);
	interval(BALANCE_ALL, 0);
	assert_true(c->balancing.policy.engines[0].cost >= 2 * 2 * PAIRS * PAIR_BYTES);
	close_all(t);
}

/** Have the control thread make a move that was planned a moment ago. */
static void
make_planned(uint64_t session, uint32_t handle, unsigned int from)
{
	struct control *c = daemon_control();

	control_lock(c);
	assert_true(c->balancing.on && !c->balancing.looking);
	c->balancing.moves[0] = (struct balance_move){ .qp = { .session = session, .handle = handle }, .from = from, .to = 1 - from };
	c->balancing.nb_moves = 1;
	c->balancing.next_move = 0;
	control_unlock(c);
	wake();
	wait_done();
}

static uint64_t
session_of(uint32_t qpn)
{
	struct session *s;
	uint64_t id;

	control_lock(daemon_control());
	assert_non_null(inspect_find_one(daemon_control(), INSPECT_QP, qpn, &s));
	id = s->id;
	control_unlock(daemon_control());
	return id;
}

static void
planned_move_of_a_qp_that_is_gone_or_elsewhere_is_dropped(void **state)
{
	uint64_t balanced = daemon_control()->moves.balanced, session;
	struct pair t[PAIRS];
	const struct ctl_qp_create_rsp *qp = &t[0].end[0].qp;

	open_all(t, 0);
	session = session_of(qp->qpn);
	make_planned(session, qp->handle, 1);
	assert_int_equal(engine_of(qp->qpn), 0);
	make_planned(session, qp->handle, 0);
	assert_int_equal(engine_of(qp->qpn), 1);
	assert_int_equal(daemon_control()->moves.balanced, ++balanced);
	assert_int_equal(peer_handle(t[0].p.sock, CTL_QP_DESTROY, qp->handle), 0);
	make_planned(session, qp->handle, 1);
	make_planned(UINT64_MAX, qp->handle, 1);
	assert_int_equal(daemon_control()->moves.balanced, balanced);
	close_all(t);
}

/** Each QP counts once in each interval, though a turn looks at a part of them. */
static void
many_qps_are_looked_at_in_slices(void **state)
{
	struct control *c = daemon_control();
	struct session *s;
	struct peer p[2];
	uint64_t cost;

	for (int k = 0; k < 2; k++) {
		peer_open(&p[k]);
		for (int i = 0; i < (k == 0 ? MANY : FEW); i++)
			(void)peer_new_qp(&p[k], UROCE_QPT_RC);
	}
	switch_to(true);
	for (int k = 0; k < 3; k++) {
		control_lock(c);
		TAILQ_FOREACH(s, &c->sessions, link) {
			struct obj_qp *qp;

			for (uint32_t pos = 0; (qp = handles_next(&s->tab[OBJ_QP], &pos)) != NULL;)
				qp->cost_seen.bytes -= 1000;
		}
		control_unlock(c);
		interval(10 * PERCENT, 10 * PERCENT);
		cost = c->balancing.policy.engines[0].cost + c->balancing.policy.engines[1].cost;
		assert_int_equal(cost, (MANY + FEW) * 1000);
	}
	/* One turn is not enough. */
	control_lock(c);
	c->balancing.next_ns = 0;
	assert_true(balancing_poll(c, control_now_ns()) <= control_now_ns());
	assert_true(c->balancing.looking);
	control_unlock(c);
	switch_to(false);
	for (int k = 0; k < 2; k++)
		peer_close(&p[k]);
	assert_true(daemon_wait_empty());
}

static void
nothing_is_planned_while_the_daemon_hands_over(void **state)
{
	struct pair t[PAIRS];

	open_all(t, 0);
	assert_true(daemon_control()->balancing.on);
	daemon_hold();
	assert_false(daemon_control()->balancing.on);
	daemon_go_on();
	wake();
	assert_true(daemon_control()->balancing.on);
	close_all(t);
}

static void
begin(void)
{
	peer_open(&asker);
	daemon_kept_sessions = 1;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hot_engine_gives_qps_away_while_they_are_used),
		cmocka_unit_test(engine_with_little_to_do_is_left_without_busy_qps),
		cmocka_unit_test(qps_of_an_srq_are_one_load),
		cmocka_unit_test(qps_of_an_srq_leave_a_hot_engine_together),
		cmocka_unit_test(nothing_moves_if_it_is_off),
		cmocka_unit_test(first_look_says_nothing),
		cmocka_unit_test(planned_move_of_a_qp_that_is_gone_or_elsewhere_is_dropped),
		cmocka_unit_test(many_qps_are_looked_at_in_slices),
		cmocka_unit_test(nothing_is_planned_while_the_daemon_hands_over),
	};

	daemon_engines = 2;
	return DAEMON_TESTS(tests, 100, 1000, begin);
}
