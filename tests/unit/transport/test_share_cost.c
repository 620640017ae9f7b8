/* SPDX-License-Identifier: BSD-3-Clause */
/* What shares are charged with, to the byte, when rates let them go on, to the nanosecond, and what is counted of it. */
#include "share_rig.h"
#include "transport/core/local_priv.h"

enum {
	SLOW_BPS = 1000000,
	WATCHED_TURNS = TP_WATCH_NS / STEP_NS,
	COST_PACKET = 256, COST_WQE = 3072, COST_LOOK = 128, COST_COLD = 16, /* as measured: docs/internals/transport.md */
};

static struct flood *
add_pausing(struct bench *b, uint32_t bytes)
{
	struct flood *f = flood_add(b, 1, bytes, &(struct share_params){ 0 });

	f->pauses = true;
	return f;
}

/* What a share has used since @p before, which is set to now. */
static uint64_t
used_since(const struct bench *b, const struct flood *f, uint64_t *before)
{
	uint64_t now = look(b, f).stats.cost, used = now - *before;

	*before = now;
	return used;
}

/* ---- Costs ---- */
static void
a_message_costs_its_bytes_its_packet_and_its_work(void **state)
{
	uint64_t before = 0, bytes = 0, all;
	struct flood *f;
	struct bench b;

	bench_up(&b);
	f = add_pausing(&b, BIG);
	for (uint32_t n = 1; n <= 3; n++) {
		all = b.tp->cost;
		post(&b, f->ends[0], n * 1000);
		assert_int_equal(bench_turn(&b), 1);
		bytes = look(&b, f).stats.bytes - bytes;
		assert_in_range(bytes, n * 1000 + 1, n * 1000 + 100);
		assert_int_equal(used_since(&b, f, &before), bytes + COST_PACKET + COST_WQE + COST_LOOK);
		assert_int_equal(b.tp->cost - all, bytes + COST_PACKET + COST_WQE + COST_LOOK);
		assert_int_equal(look(&b, f).stats.packets, n);
		bytes = look(&b, f).stats.bytes;
	}
	assert_int_equal(b.tp->counters.tx_bytes, bytes);
	bench_down(&b);
}

/* A QP without work is looked at for a while. Then its program has to ring. */
static void
looks_cost_little_and_end(void **state)
{
	uint64_t before = 0;
	struct flood *f;
	struct bench b;

	bench_up(&b);
	f = add_pausing(&b, 8);
	post(&b, f->ends[0], 8);
	bench_turn(&b);
	used_since(&b, f, &before);
	for (uint32_t i = 0; i < WATCHED_TURNS; i++) {
		assert_int_equal(atomic_load(&f->ends[0]->shared.sq_watch), 1);
		bench_turn(&b);
		assert_int_equal(used_since(&b, f, &before), COST_LOOK);
	}
	assert_int_equal(atomic_load(&f->ends[0]->shared.sq_watch), 0);
	assert_int_equal(look(&b, f).active_qps, 0);
	assert_int_equal(b.tp->nb_competing, 0);
	bench_turn(&b);
	assert_int_equal(used_since(&b, f, &before), 0);
	bench_down(&b);
}

/* The more QPs take turns, the less of each is in the CPU's caches. */
static void
looks_cost_more_with_many_qps(void **state)
{
	struct bench b;

	bench_up(&b);
	flood_add(&b, MAX_ENDS, 8, &(struct share_params){ 0 })->pauses = true;
	bench_turn(&b);
	assert_int_equal(look(&b, &b.f[0]).stats.cost, MAX_ENDS * (COST_LOOK + MAX_ENDS / 2 * COST_COLD));
	bench_down(&b);
}

/* Its requester pays. There is no second copy for which the responder had to. */
static void
a_read_by_reference_is_paid_once(void **state)
{
	enum { BYTES = 8 * BIG };
	const struct conn_opts co = { .mtu = UROCE_MTU_4096 };
	uint8_t *buf = calloc(2, BYTES);
	struct end *e;
	struct share *s;
	struct bench b;
	struct mr *mr;

	bench_up(&b);
	b.tp->locals = calloc(1, sizeof(*b.tp->locals)); /* what by_reference makes */
	assert_int_equal(share_create(b.tp, &(struct share_params){ 0 }, &s), 0);
	e = end_new(&b.p->h[0], &(struct end_opts){ .share = s });
	end_to_rtr(e, e, &co);
	end_to_rts(e, &co);
	mr = host_mr(&b.p->h[0], buf, 2 * BYTES, ACCESS_ALL);
	end_send(e, &(struct wr){ .op = UROCE_WR_RDMA_READ, .sge = SGE(buf, BYTES, mr), .nb_sge = 1, .remote_addr = ADDR(buf) + BYTES, .rkey = mr->key });
	transport_run(b.tp, b.p->now);
	expect_cqe(&e->scq, 0, UROCE_WC_SUCCESS);
	assert_in_range(s->stats.cost, BYTES, 2 * BYTES);
	end_free(e);
	share_destroy(b.tp, s);
	mr_destroy(b.p->h[0].sh.mrs, mr);
	bench_down(&b);
	free(buf);
}

static void
everybody_begins_with_the_same(void **state)
{
	struct flood *f;
	struct bench b;

	bench_up(&b);
	assert_int_equal(b.tp->own_share.quantum, TP_SHARE_QUANTUM);
	f = add_pausing(&b, 8);
	assert_int_equal(f->share->quantum, TP_SHARE_QUANTUM);
	assert_int_equal(f->ends[0]->qp->sched.deficit, TP_QP_QUANTUM);
	assert_int_equal(share_set(b.tp, f->share, &(struct share_params){ .weight = 3 * SHARE_WEIGHT_USUAL }), 0);
	assert_int_equal(f->share->quantum, 3 * TP_SHARE_QUANTUM);
	bench_down(&b);
}

/* ---- Counters and views ---- */
static void
rounds_and_waits_are_counted(void **state)
{
	struct share_rate rate = { .bits = 1000 * (uint64_t)SLOW_BPS };
	uint64_t rounds = 0, limited = 0;
	struct bench b;

	bench_up(&b);
	flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	flood_add(&b, 1, BIG, &(struct share_params){ .rate = &rate });
	bench_run(&b, MANY);
	for (uint32_t i = 0; i < b.nb_floods; i++) {
		struct share_view v = look(&b, &b.f[i]);

		rounds += v.stats.rounds;
		limited += v.stats.limited;
	}
	assert_true(rounds > 10 && limited > 10);
	assert_int_equal(b.tp->counters.share_rounds, rounds);
	assert_int_equal(b.tp->counters.share_rate_waits, limited);
	bench_down(&b);
}

static void
one_that_is_alone_waits_for_no_turn(void **state)
{
	struct bench b;

	bench_up(&b);
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	bench_run(&b, 10);
	assert_true(look(&b, &b.f[0]).wait == SHARE_WAIT_TURN || look(&b, &b.f[1]).wait == SHARE_WAIT_TURN);
	/* The other one's QPs rest. */
	b.f[1].pauses = true;
	bench_run(&b, 2 * DEPTH + WATCHED_TURNS);
	assert_int_equal(b.tp->nb_competing, 1);
	assert_int_equal(look(&b, &b.f[0]).wait, SHARE_WAIT_NOTHING);
	assert_int_equal(look(&b, &b.f[1]).wait, SHARE_WAIT_NOTHING);
	bench_down(&b);
}

static void
light_is_who_was_so_within_its_time(void **state)
{
	static struct transport tp = { .now_ns = 10 * TP_LIGHT_NS };
	struct share s = { .light_ns = 9 * TP_LIGHT_NS + 1 };

	tp.brief_ns = 9 * TP_LIGHT_NS + 1;
	assert_true(share_is_light(&tp, &s));
	s.light_ns--;
	assert_false(share_is_light(&tp, &s));
	s.light_ns++;
	tp.brief_ns--;
	assert_false(share_is_light(&tp, &s));
}

/* ---- Rates ---- */
/* 3 Gb/s: a byte takes 8/3 ns. A bucket that was full lets what it holds go at once. */
static void
a_bucket_is_kept_to_the_nanosecond(void **state)
{
	enum { NOW = 10 * TP_BUCKET_NS };
	struct share_rate r = { .bits = 3000000000 };
	struct share s = { .rate = &r };

	assert_int_equal(share_rate_due(&s, NOW), 0);
	share_rate_charge(&s, 1000, 0, NOW);
	assert_int_equal(atomic_load(&r.bits_due_ns), 0);
	share_rate_charge(&s, 1000, 1, NOW);
	assert_int_equal(atomic_load(&r.bits_due_ns), NOW - TP_BUCKET_NS + 2667);
	share_rate_charge(&s, 374000, 1, NOW);
	assert_int_equal(atomic_load(&r.bits_due_ns), NOW - TP_BUCKET_NS + 2667 + 997334);
	assert_int_equal(share_rate_due(&s, NOW), NOW + 1);
	assert_int_equal(share_rate_due(&s, NOW + 1), 0);
	/* Of two limits the later one counts; without one a bucket is empty, whatever is in it. */
	atomic_store(&r.packets, 1000);
	share_rate_charge(&s, 3, 2, NOW);
	assert_int_equal(atomic_load(&r.packets_due_ns), NOW - TP_BUCKET_NS + 2 * PAIR_MS);
	assert_int_equal(share_rate_due(&s, NOW), NOW + PAIR_MS);
	atomic_store(&r.packets, 0);
	assert_int_equal(share_rate_due(&s, NOW), NOW + 1 + 8);
	atomic_store(&r.bits, 0);
	assert_int_equal(share_rate_due(&s, NOW), 0);
	s.rate = NULL;
	assert_int_equal(share_rate_due(&s, NOW), 0);
}

/* The transport knows when the first of those that wait may go on. */
static void
the_next_one_is_due_when_the_first_is(void **state)
{
	enum { SHARES = 3 };
	struct share_rate rates[SHARES] = { { .bits = 20 * (uint64_t)SLOW_BPS }, { .bits = 4 * (uint64_t)SLOW_BPS }, { .bits = SLOW_BPS } };
	unsigned int two = 0, three = 0;
	struct bench b;

	bench_up(&b);
	for (uint32_t i = 0; i < SHARES; i++)
		flood_add(&b, 1, BIG, &(struct share_params){ .rate = &rates[i] });
	/* The fastest one has two messages and is gone then: who waits longest is last in the list, and not the next. */
	b.f[0].pauses = true;
	post(&b, b.f[0].ends[0], BIG);
	post(&b, b.f[0].ends[0], BIG);
	for (uint32_t i = 0; i < 20 * MANY; i++) {
		uint64_t first = UINT64_MAX;
		unsigned int waiting = 0;

		bench_turn(&b);
		for (uint32_t j = 0; j < SHARES; j++) {
			if (b.f[j].share->on != SHARE_LIMITED)
				continue;
			waiting++;
			first = RTE_MIN(first, b.f[j].share->due_ns);
			assert_true(b.f[j].share->due_ns > b.p->now);
		}
		assert_true(b.tp->limited_next_ns <= first);
		assert_true(waiting == 0 || b.tp->limited_next_ns == first);
		two += waiting == 2;
		three += waiting == 3;
	}
	assert_true(two > MANY && three > 0);
	bench_down(&b);
}

/* It needn't wait for the time of the old limit. */
static void
a_limit_that_is_lifted_holds_nobody(void **state)
{
	struct share_rate rate = { .bits = SLOW_BPS };
	struct bench b;

	bench_up(&b);
	flood_add(&b, 1, BIG, &(struct share_params){ .rate = &rate });
	bench_run(&b, 10);
	assert_int_equal(b.f[0].share->on, SHARE_LIMITED);
	assert_int_equal(share_set(b.tp, b.f[0].share, &(struct share_params){ 0 }), 0);
	assert_int_equal(bench_turn(&b), TP_QP_BUDGET);
	bench_down(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_costs_its_bytes_its_packet_and_its_work),
		cmocka_unit_test(looks_cost_little_and_end),
		cmocka_unit_test(looks_cost_more_with_many_qps),
		cmocka_unit_test(a_read_by_reference_is_paid_once),
		cmocka_unit_test(everybody_begins_with_the_same),
		cmocka_unit_test(rounds_and_waits_are_counted),
		cmocka_unit_test(one_that_is_alone_waits_for_no_turn),
		cmocka_unit_test(light_is_who_was_so_within_its_time),
		cmocka_unit_test(a_bucket_is_kept_to_the_nanosecond),
		cmocka_unit_test(the_next_one_is_due_when_the_first_is),
		cmocka_unit_test(a_limit_that_is_lifted_holds_nobody),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
