/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPs move from engine to engine while their programs use them: nothing is lost, and on a wire that keeps the order nothing comes out of it.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "path.h"

enum { MOVES = 300, PAUSES = 4096, MOVERS_NAP_US = 30, IDLE_NAP_US = 300 };

/** A thread that moves the QPs of two programs to and fro. */
struct mover {
	struct program *p[2];
	bool together;               /**< both in one move; they are at one engine */
	_Atomic bool end;
	_Atomic uint32_t moves, failed;
	uint64_t pauses[PAUSES];     /**< of the first moves, ns */
	uint32_t nb_pauses;
	pthread_t thread;
};

static void
move_some(struct mover *m, struct program *const *p, unsigned int n)
{
	struct host *h = p[0]->host;
	struct engine *from = p[0]->engine, *to = h->engines[from == h->engines[0]];
	struct engine_move qps[2];
	const struct engine_group g = { .qps = qps, .nb_qps = n };
	uint64_t ns;

	for (unsigned int i = 0; i < n; i++)
		qps[i] = (struct engine_move){ .qp = p[i]->qp, .home = p[i]->home, .session = p[i]->session, .slot = 0 };
	if (engine_move_qps(from, to, &g, &ns) != 0) {
		m->failed++;
		return;
	}
	for (unsigned int i = 0; i < n; i++)
		p[i]->engine = to;
	m->moves += n;
	if (m->nb_pauses < PAUSES)
		m->pauses[m->nb_pauses++] = ns;
}

static void
move_once(struct mover *m, struct program *p)
{
	move_some(m, &p, 1);
}

static void *
mover_run(void *arg)
{
	struct mover *m = arg;

	while (!m->end) {
		if (m->together)
			move_some(m, m->p, 2);
		else
			move_once(m, m->p[m->moves & 1]);
		nap_us(MOVERS_NAP_US);
	}
	return NULL;
}

/** Packets that came in another order than they were sent, or were dropped on the way. */
static uint64_t
disorder(const struct host *h)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < h->nb_engines; i++) {
		const struct tp_counters *c = transport_counters(engine_transport(h->engines[i]));

		n += c->out_of_sequence + c->packet_seq_err + c->implied_nak_seq_err + c->rx_held + c->rx_moving_dropped + c->rx_unknown_qp +
		     engine_stats(h->engines[i])->handoff_dropped;
	}
	return n;
}

/** QPs that have left before all that they had sent was acknowledged: their peers' engines didn't get their cores for too long. */
static uint64_t
undrained(const struct host *h)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < h->nb_engines; i++)
		n += transport_counters(engine_transport(h->engines[i]))->qps_undrained;
	return n;
}

static uint64_t
arrived(const struct host *h)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < h->nb_engines; i++)
		n += transport_counters(engine_transport(h->engines[i]))->qps_arrived;
	return n;
}

/** Programs that have nothing to do for a while ring when they post: at the engine where the QP is not. */
static void
doorbells_are_heard(struct program *a, struct program *b)
{
	for (uint64_t i = 0; i < 20; i++) {
		nap_us(IDLE_NAP_US);
		post_write(a, b, i, 0, 64);
		expect_success(a, i);
	}
}

static int
by_ns(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void
move_while_in_use(struct host *ha, struct host *hb, bool loopback, bool together)
{
	struct program a, b;
	struct mover m = { .p = { &a, &b }, .together = together };
	bool lanes = ha->number > 2;
	uint64_t late;

	program_up(&a, ha, 0);
	program_up(&b, hb, !together);
	program_connect(&a, &b, loopback);
	program_connect(&b, &a, loopback);
	assert_int_equal(pthread_create(&m.thread, NULL, mover_run, &m), 0);
	while (m.moves < MOVES && m.failed == 0) {
		writes_arrive(&a, &b);
		writes_arrive(&b, &a);
		memset(a.mem, 0, MEM_BYTES);
		memset(b.mem, 0, MEM_BYTES);
		doorbells_are_heard(&a, &b);
	}
	m.end = true;
	pthread_join(m.thread, NULL);
	assert_int_equal(m.failed, 0);
	assert_int_equal(arrived(ha) + (hb != ha ? arrived(hb) : 0), m.moves);
	late = undrained(ha) + (hb != ha ? undrained(hb) : 0);
	if (late == 0 || !lanes)
		assert_int_equal(disorder(ha) + disorder(hb), 0);
	qsort(m.pauses, m.nb_pauses, sizeof(m.pauses[0]), by_ns);
	print_message("%u moves, %u of them undrained; pauses: the shortest %lu ns, half of them at most %lu ns\n", m.moves, (unsigned int)late,
		      (unsigned long)m.pauses[0], (unsigned long)m.pauses[m.nb_pauses / 2]);
	program_down(&a);
	program_down(&b);
}

static void
qps_move_while_packets_cross_the_wire(void **state)
{
	struct host h[2];

	host_up(&h[0], 1, 2);
	host_up(&h[1], 2, 2);
	move_while_in_use(&h[0], &h[1], false, false);
	host_end(&h[0]);
	host_end(&h[1]);
}

/* What a QP sends from its new engine may overtake what it has sent from the old one, if that wasn't acknowledged. */
static void
qps_move_from_lane_to_lane(void **state)
{
	struct host h[2];

	host_up(&h[0], 3, 2);
	host_up(&h[1], 4, 2);
	move_while_in_use(&h[0], &h[1], false, false);
	host_end(&h[0]);
	host_end(&h[1]);
}

/* They meet at an engine, where their packets go by reference, and part again. */
static void
qps_of_one_host_meet_and_part(void **state)
{
	struct host h;

	host_up(&h, 1, 2);
	move_while_in_use(&h, &h, true, false);
	host_end(&h);
}

/* Their packets go by reference all the time; those under way when they leave are delivered before, or held. */
static void
qps_that_are_connected_move_together(void **state)
{
	struct host h;

	host_up(&h, 1, 2);
	move_while_in_use(&h, &h, true, true);
	host_end(&h);
}

static void
one_that_never_comes_home_is_destroyed(void **state)
{
	struct program a, b;
	struct mover m = { .moves = 0 };
	struct host h;

	host_up(&h, 1, 2);
	program_up(&a, &h, 0);
	program_up(&b, &h, 0);
	program_connect(&a, &b, true);
	program_connect(&b, &a, true);
	move_once(&m, &a);
	assert_int_equal(m.moves, 1);
	assert_ptr_equal(a.engine, h.engines[1]);
	assert_int_equal(qp_engine(a.qp), 1);
	doorbells_are_heard(&a, &b);
	/* Rung, and not heard any more. */
	for (int i = 0; i < 3; i++)
		ring_db_ring(a.db, 0);
	program_down(&a);
	program_down(&b);
	host_end(&h);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qps_move_while_packets_cross_the_wire),
		cmocka_unit_test(qps_move_from_lane_to_lane),
		cmocka_unit_test(qps_of_one_host_meet_and_part),
		cmocka_unit_test(qps_that_are_connected_move_together),
		cmocka_unit_test(one_that_never_comes_home_is_destroyed),
	};

	if (eal_up("test_engine_moves") != 0)
		return 1;
	wires_up();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
