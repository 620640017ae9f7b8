/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Journals: a host that is killed at any step goes on from its journal as if nothing had happened.
 */
#include "journal_rig.h"

enum { LEN = 3000, OFF_WRITE = 4096, OFF_RECV = 16384, OFF_SENT = 32768, OFF_READ = 49152, NOT_THERE = 0xee };

/* What a host that is dead sends is lost. */
static bool
dead(struct pair *p, const struct note *n, void *arg)
{
	const struct kill *k = arg;

	(void)p;
	return k->killed && n->from == 1;
}

static uint64_t
word(const uint8_t *at)
{
	uint64_t w;

	memcpy(&w, at, sizeof(w));
	return w;
}

/* Messages of all kinds, in both directions. */
static void
post_all(struct rig *r)
{
	uint64_t w = 40;

	memcpy(r->bbuf, &w, sizeof(w));
	if (r->b->srq != NULL)
		srq_post(r->b->srq, 7, SGE(r->bbuf + OFF_RECV, LEN, r->bmr), 1);
	else
		end_recv(r->b, 7, SGE(r->bbuf + OFF_RECV, LEN, r->bmr), 1);
	end_recv(r->a, 8, SGE(r->abuf + OFF_SENT, LEN, r->amr), 1);
	fill(r->bbuf + OFF_SENT, LEN, 3);
	fill(r->bbuf + OFF_READ, LEN, 4);
	rig_write(r, 1, OFF_WRITE, LEN);
	rig_fetch_add(r, 2, 64, 2);
	rig_send(r, 3, OFF_RECV, LEN);
	rig_fetch_add(r, 4, 72, 5);
	rig_read(r, 5, OFF_READ, LEN);
	end_send(r->b, &(struct wr){ .id = 6, .op = UROCE_WR_SEND, .sge = SGE(r->bbuf + OFF_SENT, LEN, r->bmr), .nb_sge = 1 });
}

/* All of it happened once, and in order. @param written  What is where the WRITE went. */
static void
check_all(struct rig *r, const uint8_t *written)
{
	for (uint64_t id = 1; id <= 5; id++)
		expect_cqe(&r->a->scq, id, UROCE_WC_SUCCESS);
	expect_no_cqe(&r->a->scq);
	expect_cqe(&r->b->scq, 6, UROCE_WC_SUCCESS);
	expect_no_cqe(&r->b->scq);
	assert_int_equal(expect_cqe(&r->b->rcq, 7, UROCE_WC_SUCCESS).byte_len, LEN);
	expect_no_cqe(&r->b->rcq);
	expect_cqe(&r->a->rcq, 8, UROCE_WC_SUCCESS);
	expect_no_cqe(&r->a->rcq);
	assert_int_equal(word(r->bbuf), 47);
	assert_int_equal(word(r->abuf + 64), 40);
	assert_int_equal(word(r->abuf + 72), 42);
	assert_memory_equal(r->bbuf + OFF_WRITE, written, LEN);
	assert_memory_equal(r->bbuf + OFF_RECV, r->abuf + OFF_RECV, LEN);
	assert_memory_equal(r->abuf + OFF_SENT, r->bbuf + OFF_SENT, LEN);
	assert_memory_equal(r->abuf + OFF_READ, r->bbuf + OFF_READ, LEN);
}

/* @param twice  The next daemon is killed, too, before anything arrives. @return false: it came to its end before. */
static bool
killed_at(uint32_t steps, uint16_t items, bool srq, bool twice)
{
	uint8_t written[LEN];
	struct end_srq *s = NULL;
	struct kill k;
	struct rig r;
	bool killed;

	journal_rig_up(&r, items, NULL);
	if (srq) {
		end_free(r.b);
		s = srq_new(&r.p->h[1], 16, 4);
		end_free(r.a);
		r.a = end_new(&r.p->h[0], NULL);
		r.b = end_new(&r.p->h[1], &(struct end_opts){ .srq = s });
		ends_connect(r.a, r.b, NULL);
	}
	kill_after(&k, &r, steps);
	r.p->lose = dead;
	r.p->lose_arg = &k;
	post_all(&r);
	pair_settle(r.p);
	killed = k.killed;
	if (killed) {
		memcpy(written, r.abuf + OFF_WRITE, LEN);
		kill_resume(&k);
		/* The program has seen the whole WRITE, and goes on to write there itself. */
		if (r.b->qp->journal->kept != NULL && r.b->qp->journal->kept->placed && wire_psn_diff(r.b->qp->journal->kept->placed_to, 102) > 0) {
			memset(r.bbuf + OFF_WRITE, NOT_THERE, LEN);
			memset(written, NOT_THERE, LEN);
		}
		if (twice) {
			kill_after(&k, &r, UINT32_MAX);
			kill_now(&k);
			kill_resume(&k);
		}
		k.killed = false;
		pair_advance(r.p, 500 * PAIR_MS);
		check_all(&r, written);
		assert_int_equal(r.b->qp->journal->kept, NULL);
	}
	if (s != NULL) {
		/* Its receive was taken once, and its slot is free. */
		assert_int_equal(atomic_load(&s->shared.head), 1);
		end_free(r.b);
		r.b = end_new(&r.p->h[1], NULL);
		srq_free(&r.p->h[1], s);
	}
	rig_down(&r);
	return killed;
}

static void
a_host_is_killed_at_every_step(void **state)
{
	uint32_t steps = 0;

	(void)state;
	while (killed_at(steps, 0, false, false))
		steps++;
	assert_in_range(steps, 25, 2000);
}

/* What was done in a turn that didn't count isn't forgotten by the second kill. */
static void
a_host_is_killed_twice_at_every_step(void **state)
{
	uint32_t steps = 0;

	(void)state;
	while (killed_at(steps, 0, false, true))
		steps++;
	assert_in_range(steps, 25, 2000);
}

/* A turn that shows one thing ends after the step that brought it. */
static void
turns_end_when_their_list_is_full(void **state)
{
	uint32_t steps = 0;

	(void)state;
	while (killed_at(steps, 1, false, false))
		steps++;
	assert_in_range(steps, 25, 4000);
}

static void
a_host_with_an_srq_is_killed_at_every_step(void **state)
{
	uint32_t steps = 0;

	(void)state;
	while (killed_at(steps, 0, true, false))
		steps++;
	assert_in_range(steps, 25, 2000);
}

/* Nothing is shown before the word that makes it count: completions, events, states, heads of SRQs. */
static void
nothing_is_shown_within_a_turn(void **state)
{
	struct rig r;

	(void)state;
	journal_rig_up(&r, 0, NULL);
	end_recv(r.b, 7, SGE(r.bbuf, 64, r.bmr), 1);
	rig_send(&r, 1, 0, 128);
	host_turn(&r.p->h[0]);
	/* It is too long for the receive: an error, an event, a state. */
	r.p->stalled = true;
	{
		struct tp_txvec *v = transport_tx(r.p->h[0].tp, 0);

		assert_int_equal(transport_rx(r.p->h[1].tp, 0, v->pkts, v->n, false, r.p->now), 0);
		v->n = 0;
	}
	expect_no_cqe(&r.b->rcq);
	assert_int_equal(r.p->h[1].nb_events, 0);
	assert_int_equal(r.b->shared.state, UROCE_QPS_RTS);
	assert_int_equal(qp_state(r.b->qp), UROCE_QPS_ERR);
	host_turn(&r.p->h[1]);
	expect_cqe(&r.b->rcq, 7, UROCE_WC_LOC_LEN_ERR);
	assert_int_equal(r.p->h[1].nb_events, 1);
	assert_int_equal(r.b->shared.state, UROCE_QPS_ERR);
	r.p->stalled = false;
	pair_settle(r.p);
	rig_down(&r);
}

/* A QP that rests is written no more, and a turn in which nothing happens writes nothing. */
static void
rest_costs_nothing(void **state)
{
	struct journal_layout y = journal_layout(&journal_limits);
	static uint8_t before[64 << 20];
	size_t bytes = y.slots + 8 * JOURNAL_SLOT_BYTES;
	struct rig r;

	(void)state;
	journal_rig_up(&r, 0, NULL);
	rig_write(&r, 1, 0, 64);
	pair_advance(r.p, 10 * PAIR_MS);
	assert_true(bytes <= sizeof(before));
	memcpy(before, r.p->h[1].journal, bytes);
	for (uint32_t i = 0; i < 100; i++)
		host_turn(&r.p->h[1]);
	assert_memory_equal(before, r.p->h[1].journal, bytes);
	rig_down(&r);
}

/* A journal that is wrong is refused. */
static void
memory_must_fit(void **state)
{
	struct transport_config c = { .nb_ports = 1, .journal_limits = journal_limits };
	struct rig r;

	(void)state;
	journal_rig_up(&r, 0, NULL);
	c.sh = r.p->h[0].sh;
	c.journal = r.p->h[0].journal;
	/* In use. */
	assert_null(transport_create(&c));
	assert_int_equal(errno, EINVAL);
	/* Less than the table of QPs. */
	c.journal = mmap(NULL, journal_bytes(&journal_limits), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	c.journal_limits.qps = PAIR_QPS - 1;
	assert_null(transport_create(&c));
	assert_int_equal(errno, EINVAL);
	/* Not at a page. */
	c.journal_limits.qps = PAIR_QPS;
	c.journal = (uint8_t *)c.journal + 64;
	assert_null(transport_create(&c));
	assert_int_equal(errno, EINVAL);
	munmap((uint8_t *)c.journal - 64, journal_bytes(&journal_limits));
	assert_int_equal(journal_bytes(&(struct journal_limits){ .qps = UROCE_MAX_QP + 1, .cqs = 1, .srqs = 1 }), 0);
	assert_int_equal(journal_bytes(&(struct journal_limits){ .qps = 1, .cqs = 0, .srqs = 1 }), 0);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_is_killed_at_every_step),
		cmocka_unit_test(a_host_is_killed_twice_at_every_step),
		cmocka_unit_test(turns_end_when_their_list_is_full),
		cmocka_unit_test(a_host_with_an_srq_is_killed_at_every_step),
		cmocka_unit_test(nothing_is_shown_within_a_turn),
		cmocka_unit_test(rest_costs_nothing),
		cmocka_unit_test(memory_must_fit),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
