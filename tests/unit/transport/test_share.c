/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares: who gets how much of a transport's time, what rates allow, and what pools keep for others. */
#include "share_rig.h"

/* ---- Time ---- */
static void
the_sessions_of_a_user_get_no_more_than_one_of_another(void **state)
{
	struct share_group user;
	struct bench b;

	share_group_init(&user);
	bench_up(&b);
	flood_add(&b, 2, BIG, &(struct share_params){ .group = &user });
	flood_add(&b, 2, BIG, &(struct share_params){ .group = &user });
	flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	bench_run(&b, MANY);
	assert_fair(look(&b, &b.f[0]).stats.cost + look(&b, &b.f[1]).stats.cost, look(&b, &b.f[2]).stats.cost, 1, 1);
	assert_fair(look(&b, &b.f[0]).stats.cost, look(&b, &b.f[1]).stats.cost, 1, 1);
	assert_int_equal(look(&b, &b.f[0]).wait, SHARE_WAIT_TURN);
	/* One that has nothing to do leaves all to the other one. */
	b.f[0].pauses = true;
	bench_run(&b, DEPTH);
	for (int i = 0; i < 3; i++)
		b.f[i].share->stats.cost = 0;
	bench_run(&b, MANY);
	assert_fair(look(&b, &b.f[1]).stats.cost, look(&b, &b.f[2]).stats.cost, 1, 1);
	/* Each for itself again. */
	b.f[0].pauses = false;
	assert_int_equal(share_set(b.tp, b.f[0].share, &(struct share_params){ 0 }), 0);
	assert_int_equal(share_set(b.tp, b.f[1].share, &(struct share_params){ 0 }), 0);
	bench_run(&b, DEPTH);
	for (int i = 0; i < 3; i++)
		b.f[i].share->stats.cost = 0;
	bench_run(&b, MANY);
	assert_fair(look(&b, &b.f[0]).stats.cost, look(&b, &b.f[2]).stats.cost, 1, 1);
	assert_fair(look(&b, &b.f[1]).stats.cost, look(&b, &b.f[2]).stats.cost, 1, 1);
	bench_down(&b);
	assert_null(user.first);
	assert_true(TAILQ_EMPTY(&user.queue));
}

/* A group goes on whatever becomes of the share that stands for it: no room at the port, a rate, its end. */
static void
a_user_s_sessions_do_not_wait_for_one_that_cannot_send(void **state)
{
	struct share_rate rate = { .packets = 100000 };
	struct share_group user;
	struct bench b;
	uint64_t before, users, others;

	share_group_init(&user);
	bench_up(&b);
	b.room = 3;
	flood_add(&b, 1, BIG, &(struct share_params){ .group = &user, .rate = &rate });
	flood_add(&b, 1, BIG, &(struct share_params){ .group = &user });
	flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	bench_run(&b, MANY);
	/* Whoever waits for its rate loses the rest of its group's turn. */
	users = look(&b, &b.f[0]).stats.cost + look(&b, &b.f[1]).stats.cost;
	others = look(&b, &b.f[2]).stats.cost;
	assert_in_range(users, others * 8 / 10, others * 11 / 10);
	assert_true(look(&b, &b.f[0]).stats.limited > 0);
	/* The session of one whose QP still wants turns ends. */
	share_destroy(b.tp, b.f[1].share);
	assert_ptr_not_equal(user.first, b.f[1].share);
	bench_run(&b, MANY);
	end_free(b.f[1].ends[0]);
	before = look(&b, &b.f[0]).stats.cost;
	b.f[1].n = 0;
	bench_run(&b, MANY);
	assert_true(look(&b, &b.f[0]).stats.cost > before);
	b.f[1] = b.f[2];
	b.nb_floods = 2;
	bench_down(&b);
	assert_null(user.first);
}

static void
a_session_with_many_qps_gets_no_more_than_one_with_one(void **state)
{
	struct bench b;

	bench_up(&b);
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	for (uint32_t i = 0; i < MANY; i++) {
		bench_turn(&b);
		/* At every moment, not only in the end. */
		assert_fair(look(&b, &b.f[0]).stats.cost, look(&b, &b.f[1]).stats.cost, 1, 1);
	}
	assert_true(look(&b, &b.f[1]).stats.packets > MANY);
	assert_true(look(&b, &b.f[1]).stats.rounds > 0);
	bench_down(&b);
}

static void
small_packets_get_no_more_time_than_large_ones(void **state)
{
	struct bench b;

	bench_up(&b);
	flood_add(&b, 8, 0, &(struct share_params){ 0 });
	flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	bench_run(&b, MANY);
	assert_fair(look(&b, &b.f[0]).stats.cost, look(&b, &b.f[1]).stats.cost, 1, 1);
	/* A small message costs less than half of a large one: there are twice as many and more. */
	assert_in_range(look(&b, &b.f[0]).stats.packets, 2 * look(&b, &b.f[1]).stats.packets, 3 * look(&b, &b.f[1]).stats.packets);
	bench_down(&b);
}

static void
time_is_divided_by_weights(void **state)
{
	struct bench b;

	bench_up(&b);
	flood_add(&b, 1, BIG, &(struct share_params){ .weight = 300 });
	flood_add(&b, 4, BIG, &(struct share_params){ .weight = 100 });
	bench_run(&b, MANY);
	assert_fair(look(&b, &b.f[0]).stats.cost, look(&b, &b.f[1]).stats.cost, 3, 1);
	assert_int_equal(share_set(b.tp, b.f[0].share, &(struct share_params){ .weight = 100 }), 0);
	b.f[0].share->stats.cost = b.f[1].share->stats.cost = 0;
	bench_run(&b, MANY);
	assert_fair(look(&b, &b.f[0]).stats.cost, look(&b, &b.f[1]).stats.cost, 1, 1);
	bench_down(&b);
}

static void
the_smallest_weight_gets_its_part(void **state)
{
	struct bench b;

	bench_up(&b);
	flood_add(&b, 1, BIG, &(struct share_params){ .weight = SHARE_WEIGHT_MIN });
	flood_add(&b, 1, BIG, &(struct share_params){ .weight = SHARE_WEIGHT_USUAL });
	bench_run(&b, MANY);
	assert_true(look(&b, &b.f[0]).stats.packets > 0);
	assert_fair(look(&b, &b.f[0]).stats.cost, look(&b, &b.f[1]).stats.cost, 1, 100);
	bench_down(&b);
}

static void
weights_beyond_the_limits_are_refused(void **state)
{
	struct share *s;
	struct bench b;

	bench_up(&b);
	assert_int_equal(share_create(b.tp, &(struct share_params){ .weight = SHARE_WEIGHT_MAX + 1 }, &s), EINVAL);
	assert_int_equal(share_create(b.tp, &(struct share_params){ .weight = SHARE_WEIGHT_MAX }, &s), 0);
	assert_int_equal(share_set(b.tp, s, &(struct share_params){ .weight = SHARE_WEIGHT_MAX + 1 }), EINVAL);
	share_destroy(b.tp, s);
	bench_down(&b);
}

static void
a_program_that_sends_little_is_served_in_the_same_turn(void **state)
{
	struct flood *little;
	struct bench b;

	bench_up(&b);
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	little = flood_add(&b, 1, 8, &(struct share_params){ 0 });
	little->pauses = true;
	bench_run(&b, 100);
	for (uint32_t i = 0; i < 5; i++) {
		uint64_t before = look(&b, little).stats.packets;

		post(&b, little->ends[0], 8);
		bench_turn(&b);
		assert_int_equal(look(&b, little).stats.packets, before + 1);
	}
	bench_down(&b);
}

static void
alone_a_share_gets_whole_turns(void **state)
{
	struct bench b;

	bench_up(&b);
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	bench_turn(&b);
	assert_int_equal(bench_turn(&b), TP_TURN_BUDGET);
	assert_int_equal(look(&b, &b.f[0]).stats.rounds, 0);
	assert_int_equal(look(&b, &b.f[0]).wait, SHARE_WAIT_NOTHING);
	bench_down(&b);
}

static void
alone_a_qp_sends_twice_as_many_packets_if_they_are_small(void **state)
{
	enum { HEADERS = 14 + 20 + 8 + 12 + 4 }; /* Ethernet, IPv4, UDP, BTH, ICRC */
	struct bench b;

	for (uint32_t more = 0; more <= 4; more += 4) {
		bench_up(&b);
		flood_add(&b, 1, (TP_SMALL_BYTES - HEADERS) / 4 * 4 + more, &(struct share_params){ 0 });
		bench_turn(&b);
		for (int i = 0; i < 3; i++)
			assert_int_equal(bench_turn(&b), more == 0 ? 2 * TP_QP_BUDGET : TP_QP_BUDGET);
		bench_down(&b);
	}
}

static void
room_at_the_port_is_shared_too(void **state)
{
	struct bench b;

	bench_up(&b);
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	b.room = 5;
	bench_run(&b, MANY);
	assert_fair(look(&b, &b.f[0]).stats.cost - TP_TX_MAX * BIG, look(&b, &b.f[1]).stats.cost - TP_TX_MAX * BIG, 1, 1);
	assert_true(look(&b, &b.f[0]).wait == SHARE_WAIT_TX || look(&b, &b.f[0]).wait == SHARE_WAIT_TURN);
	bench_down(&b);
}

static void
qps_of_a_share_have_equal_parts_of_it(void **state)
{
	struct end *small, *large;
	struct bench b;

	bench_up(&b);
	flood_add(&b, 1, 0, &(struct share_params){ 0 });
	small = b.f[0].ends[0];
	large = end_new(&b.p->h[0], &(struct end_opts){ .type = UROCE_QPT_UC, .share = b.f[0].share, .sq_depth = DEPTH, .cq_depth = DEPTH });
	end_to_rtr(large, b.peer, &(struct conn_opts){ .mtu = UROCE_MTU_4096 });
	end_to_rts(large, NULL);
	for (uint32_t i = 0; i < MANY; i++) {
		struct flood f = { .ends = { large }, .n = 1, .bytes = BIG };

		flood_post(&b, &f);
		bench_turn(&b);
	}
	/* In messages: a small one costs less than half. */
	assert_in_range(small->scq.ring.counter, large->scq.ring.counter * 7 / 4, 3 * large->scq.ring.counter);
	end_free(large);
	bench_down(&b);
}

/* ---- Rates ---- */
static void
a_rate_in_bits_holds(void **state)
{
	struct share_rate rate = { .bits = 1000000000 };
	const uint64_t ns = 20 * PAIR_MS, allowed = ns / 8, bucket = TP_BUCKET_NS / 8;
	uint64_t sent;
	struct bench b;

	bench_up(&b);
	flood_add(&b, 4, BIG, &(struct share_params){ .rate = &rate });
	bench_run(&b, ns / STEP_NS);
	sent = look(&b, &b.f[0]).stats.bytes;
	assert_in_range(sent, allowed, allowed + bucket + TP_QP_BUDGET * (BIG + 100));
	assert_true(look(&b, &b.f[0]).stats.limited > 0);
	assert_int_equal(look(&b, &b.f[0]).wait, SHARE_WAIT_RATE);
	/* The limit is lifted. */
	atomic_store(&rate.bits, 0);
	b.p->now += PAIR_MS;
	assert_true(bench_turn(&b) >= TP_QP_BUDGET);
	bench_down(&b);
}

static void
a_rate_in_packets_holds(void **state)
{
	struct share_rate rate = { .packets = 1000000 };
	const uint64_t ns = 20 * PAIR_MS, allowed = ns / 1000, bucket = TP_BUCKET_NS / 1000;
	struct bench b;

	bench_up(&b);
	flood_add(&b, 4, 0, &(struct share_params){ .rate = &rate });
	bench_run(&b, ns / STEP_NS);
	assert_in_range(look(&b, &b.f[0]).stats.packets, allowed, allowed + bucket + TP_QP_BUDGET);
	bench_down(&b);
}

static void
shares_of_one_user_have_one_rate(void **state)
{
	struct share_rate rate = { .packets = 1000000 };
	const uint64_t ns = 20 * PAIR_MS, allowed = ns / 1000, bucket = TP_BUCKET_NS / 1000;
	struct bench b;

	bench_up(&b);
	flood_add(&b, 1, 0, &(struct share_params){ .rate = &rate });
	flood_add(&b, 4, 0, &(struct share_params){ .rate = &rate });
	bench_run(&b, ns / STEP_NS);
	assert_in_range(look(&b, &b.f[0]).stats.packets + look(&b, &b.f[1]).stats.packets, allowed, allowed + bucket + 2 * TP_QP_BUDGET);
	bench_down(&b);
}

static void
who_waits_for_a_rate_holds_up_nobody(void **state)
{
	struct share_rate rate = { .bits = 1000000 };
	struct bench b;

	bench_up(&b);
	flood_add(&b, 4, BIG, &(struct share_params){ .rate = &rate });
	flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	bench_run(&b, 100);
	assert_int_equal(look(&b, &b.f[0]).wait, SHARE_WAIT_RATE);
	assert_int_equal(bench_turn(&b), TP_QP_BUDGET); /* as if it were alone */
	/* The engine may sleep until the rate allows more. */
	b.f[0].pauses = b.f[1].pauses = true;
	bench_run(&b, 1000);
	assert_true(transport_rest(b.tp));
	assert_in_range(transport_next_timeout(b.tp), b.p->now + 1, b.p->now + 40 * PAIR_MS * TP_QP_BUDGET);
	b.p->now = transport_next_timeout(b.tp);
	transport_run(b.tp, b.p->now);
	assert_true(port_send(&b) > 0);
	bench_down(&b);
}

static void
acks_do_not_wait_for_a_rate(void **state)
{
	struct share_rate rate = { .bits = 50000000 };
	struct end_opts o = { 0 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	assert_int_equal(share_create(r.p->h[1].tp, &(struct share_params){ .rate = &rate }, &o.share), 0);
	end_free(r.b);
	r.b = end_new(&r.p->h[1], &o);
	assert_int_equal(end_state(r.a, UROCE_QPS_RESET), 0);
	ends_connect(r.a, r.b, NULL);
	/* The answer to a READ uses up the rate for a long time ... */
	rig_read(&r, 1, 0, 32768);
	rig_read(&r, 2, 0, 32768);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_no_cqe(&r.a->scq);
	/* ... but not the ACK of a WRITE, when its turn has come. */
	pair_advance(r.p, 40 * PAIR_MS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_write(&r, 3, 0, 1);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	share_destroy(r.p->h[1].tp, o.share);
	rig_down(&r);
}

/* ---- Pools ---- */
/* A pool, and what tests take of it. */
struct taken {
	enum tp_pool id;
	struct pool *pool;
	uint32_t most; /* that a session takes */
};

/* @return how many items @p qp gets, which are put into @p items. */
static uint32_t
take_of(struct transport *tp, struct qp *qp, const struct taken *t, void **items)
{
	uint32_t n = 0;

	while (n < t->most && (items[n] = share_take(tp, qp, t->id, t->pool)) != NULL)
		n++;
	return n;
}

static void
give_of(struct transport *tp, struct qp *qp, const struct taken *t, void **items, uint32_t n)
{
	while (n > 0)
		share_give(tp, qp, t->id, t->pool, items[--n]);
}

static uint32_t
take_all(struct transport *tp, struct qp *qp, void **items)
{
	return take_of(tp, qp, &(struct taken){ TP_POOL_SGES, &tp->sge_blocks, UINT32_MAX }, items);
}

static void
give_all(struct transport *tp, struct qp *qp, void **items, uint32_t n)
{
	give_of(tp, qp, &(struct taken){ TP_POOL_SGES, &tp->sge_blocks, UINT32_MAX }, items, n);
}

/* @param lent  Items that nobody gives back: of odd and of even numbers of items one gets just as many as it leaves. */
static void
check_halves(uint32_t lent)
{
	const uint32_t reserved = TP_SGE_BLOCKS / TP_RESERVE_OF / TP_SHARES * TP_SHARES;
	const uint32_t each = reserved / TP_SHARES, rest = TP_SGE_BLOCKS - reserved - lent;
	static void *items[2][TP_SGE_BLOCKS + 1];
	struct qp *q[2];
	struct bench b;
	uint32_t n[2];

	bench_up(&b);
	for (uint32_t i = 0; i < lent; i++)
		assert_non_null(pool_get(&b.tp->sge_blocks));
	assert_true(each > 0);
	for (uint32_t i = 0; i < 2; i++)
		q[i] = flood_add(&b, 1, 0, &(struct share_params){ 0 })->ends[0]->qp;
	n[0] = take_all(b.tp, q[0], items[0]);
	/* Its own part of the reserve, and of the rest until it has as many as are left, which includes that part. */
	assert_int_equal(n[0], (rest + each + 1) / 2);
	assert_int_equal(look(&b, &b.f[0]).stats.refused, 1);
	n[1] = take_all(b.tp, q[1], items[1]);
	assert_int_equal(n[1], (rest - (n[0] - each) + each + 1) / 2);
	/* What it gives back it gets again, and no more. */
	share_give(b.tp, q[0], TP_POOL_SGES, &b.tp->sge_blocks, items[0][--n[0]]);
	give_all(b.tp, q[1], items[1], n[1]);
	n[0] += take_all(b.tp, q[0], items[0] + n[0]);
	assert_int_equal(n[0], (rest + each + 1) / 2);
	give_all(b.tp, q[0], items[0], n[0]);
	assert_int_equal(b.tp->sge_blocks.left, TP_SGE_BLOCKS - lent);
	assert_int_equal(b.tp->reserve[TP_POOL_SGES].left, reserved);
	bench_down(&b);
}

static void
a_session_gets_as_many_items_as_it_leaves(void **state)
{
	for (uint32_t lent = 0; lent < 4; lent++)
		check_halves(lent);
}

/* The first session takes all of the pool that it can get, the others 16 at most; and yet each of them gets @p each. */
static void
check_reserve(struct bench *b, struct qp *qp, enum tp_pool id, struct pool *pool, uint32_t each)
{
	static void *items[UROCE_MAX_SESSIONS][16];
	static void *all[TP_SGE_BLOCKS + 1];
	static struct share *shares[UROCE_MAX_SESSIONS];
	static uint32_t n[UROCE_MAX_SESSIONS];
	const struct taken t = { id, pool, 16 }, first_takes = { id, pool, UINT32_MAX };
	struct share *first = qp->share, *one_more;
	uint32_t nb, left = pool_left(pool);

	for (uint32_t i = 1; i < UROCE_MAX_SESSIONS; i++)
		assert_int_equal(share_create(b->tp, &(struct share_params){ 0 }, &shares[i]), 0);
	assert_int_equal(share_create(b->tp, &(struct share_params){ 0 }, &one_more), ENOSPC);
	/* The first has half of what isn't reserved, the next half of what is left ... */
	nb = take_of(b->tp, qp, &first_takes, all);
	for (uint32_t i = 1; i < UROCE_MAX_SESSIONS; i++) {
		qp->share = shares[i];
		assert_true(share_may_have(b->tp, shares[i], id, pool));
		n[i] = take_of(b->tp, qp, &t, items[i]);
		assert_int_equal(share_may_have(b->tp, shares[i], id, pool), n[i] == t.most);
		/* ... and the last still gets its part. */
		assert_true(n[i] >= each);
	}
	for (uint32_t i = 1; i < UROCE_MAX_SESSIONS; i++) {
		qp->share = shares[i];
		give_of(b->tp, qp, &t, items[i], n[i]);
	}
	qp->share = first;
	give_of(b->tp, qp, &first_takes, all, nb);
	assert_int_equal(pool_left(pool), left);
	for (uint32_t i = 1; i < UROCE_MAX_SESSIONS; i++)
		share_destroy(b->tp, shares[i]);
}

static void
the_reserve_is_there_whatever_the_others_hold(void **state)
{
	struct bench b;

	bench_up(&b);
	check_reserve(&b, flood_add(&b, 1, 0, &(struct share_params){ 0 })->ends[0]->qp, TP_POOL_SGES, &b.tp->sge_blocks, TP_SGE_BLOCKS / TP_RESERVE_OF / TP_SHARES);
	bench_down(&b);
}

/* A program decides how long they take: for ever, if it likes. */
static void
every_session_has_copies_of_its_own(void **state)
{
	struct bench b;
	struct qp *qp;

	bench_up(&b);
	qp = flood_add(&b, 1, 0, &(struct share_params){ 0 })->ends[0]->qp;
	assert_int_equal(pool_left(&b.tp->copy_jobs), TP_COPY_JOBS);
	check_reserve(&b, qp, TP_POOL_COPY_JOBS, &b.tp->copy_jobs, TP_COPY_JOBS_EACH);
	check_reserve(&b, qp, TP_POOL_COPY_PKTS, &b.tp->copy_pkts, TP_COPY_PKTS_EACH);
	check_reserve(&b, qp, TP_POOL_COPY_PARTS, &b.tp->copy_parts, TP_COPY_PARTS_EACH);
	bench_down(&b);
}

static void
without_sessions_a_qp_gets_the_whole_pool(void **state)
{
	static void *items[TP_SGE_BLOCKS + 1];
	struct rig r;
	uint32_t n;

	rig_up(&r, NULL, NULL);
	n = take_all(r.p->h[0].tp, r.a->qp, items);
	assert_int_equal(n, TP_SGE_BLOCKS);
	assert_int_equal(counters(&r, 0)->share_refused, 1);
	give_all(r.p->h[0].tp, r.a->qp, items, n);
	rig_down(&r);
}

static void
a_share_lives_as_long_as_its_qps(void **state)
{
	struct share_rate rate = { .bits = 1000 };
	struct end *last;
	struct bench b;

	bench_up(&b);
	last = flood_add(&b, 1, BIG, &(struct share_params){ .rate = &rate })->ends[0];
	bench_run(&b, 3);
	assert_int_equal(look(&b, &b.f[0]).wait, SHARE_WAIT_RATE);
	share_destroy(b.tp, b.f[0].share);
	b.nb_floods = 0;
	assert_int_equal(b.tp->nb_shares, 1);
	/* Its rate may be gone, and limits it no more. */
	memset(&rate, 0xff, sizeof(rate));
	b.p->now += STEP_NS;
	assert_true(transport_run(b.tp, b.p->now) > 0);
	port_send(&b);
	end_free(last);
	bench_down(&b);
}

/* What is built out of turn ends at its budget, and where the share has used up what it may send while others want turns. */
static void
what_is_sent_before_its_turn_is_the_shares(void **state)
{
	struct bench b;
	struct flood *f;
	uint32_t budget = 10;

	bench_up(&b);
	f = flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	flood_post(&b, f);
	qp_work_posted(b.tp, f->ends[0]->qp, &budget, b.p->now);
	assert_int_equal(budget, 0);
	assert_int_equal(port_send(&b), 10);
	flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	bench_run(&b, 100);
	flood_post(&b, f);
	for (uint32_t i = 0; i < 2; i++) {
		budget = DEPTH;
		qp_work_posted(b.tp, f->ends[0]->qp, &budget, b.p->now);
		assert_true(f->share->deficit <= 0);
		assert_in_range(port_send(&b), 0, i == 0 ? DEPTH / 4 : 0);
	}
	bench_down(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_sessions_of_a_user_get_no_more_than_one_of_another),
		cmocka_unit_test(a_user_s_sessions_do_not_wait_for_one_that_cannot_send),
		cmocka_unit_test(a_session_with_many_qps_gets_no_more_than_one_with_one),
		cmocka_unit_test(small_packets_get_no_more_time_than_large_ones),
		cmocka_unit_test(time_is_divided_by_weights),
		cmocka_unit_test(the_smallest_weight_gets_its_part),
		cmocka_unit_test(weights_beyond_the_limits_are_refused),
		cmocka_unit_test(a_program_that_sends_little_is_served_in_the_same_turn),
		cmocka_unit_test(alone_a_share_gets_whole_turns),
		cmocka_unit_test(alone_a_qp_sends_twice_as_many_packets_if_they_are_small),
		cmocka_unit_test(room_at_the_port_is_shared_too),
		cmocka_unit_test(qps_of_a_share_have_equal_parts_of_it),
		cmocka_unit_test(a_rate_in_bits_holds),
		cmocka_unit_test(a_rate_in_packets_holds),
		cmocka_unit_test(shares_of_one_user_have_one_rate),
		cmocka_unit_test(who_waits_for_a_rate_holds_up_nobody),
		cmocka_unit_test(acks_do_not_wait_for_a_rate),
		cmocka_unit_test(a_session_gets_as_many_items_as_it_leaves),
		cmocka_unit_test(the_reserve_is_there_whatever_the_others_hold),
		cmocka_unit_test(every_session_has_copies_of_its_own),
		cmocka_unit_test(without_sessions_a_qp_gets_the_whole_pool),
		cmocka_unit_test(a_share_lives_as_long_as_its_qps),
		cmocka_unit_test(what_is_sent_before_its_turn_is_the_shares),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
