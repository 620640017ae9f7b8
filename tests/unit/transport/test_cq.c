/* SPDX-License-Identifier: BSD-3-Clause */
/* CQs that change while they are used: larger rings, times, events that moderation holds back. */
#include <rte_common.h>

#include "rig.h"

#include "transport/core/types_priv.h"

static const struct end_opts with_channel = { .channel = true };

static struct ring
ring_of(uint32_t order, uint64_t **stamps)
{
	struct ring r = { RING_SIZE(order, 5) };

	r.base = calloc(1, sizeof(struct ring_cqe) << order);
	*stamps = calloc(1u << order, sizeof(uint64_t));
	assert_non_null(r.base);
	assert_non_null(*stamps);
	return r;
}

static unsigned int
events_of(struct end_cq *c)
{
	unsigned int n = c->events;

	c->events = 0;
	return n;
}

static void
arm(struct end_cq *c, uint32_t what)
{
	atomic_store(&c->shared.arm, what);
}

static void
write_one(struct rig *r, uint64_t id)
{
	rig_write(r, id, 0, 8);
	pair_settle(r->p);
}

static void
completions_go_to_the_larger_ring_from_a_number_on(void **state)
{
	struct end_opts small = { .cq_depth = 8 };
	struct ring_cqe e;
	union ring_cqe_ctl ctl;
	struct ring larger;
	uint64_t *stamps;
	struct rig r;
	uint32_t from;

	rig_up(&r, &small, NULL);
	larger = ring_of(5, &stamps);
	for (uint64_t i = 0; i < 11; i++) {
		write_one(&r, i);
		if (i < 6)
			expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	}
	from = cq_resize(r.a->scq.cq, &larger, NULL);
	assert_int_equal(from, 11);
	/* More than the old ring has, and around. */
	for (uint64_t i = 11; i < 6 + 32; i++)
		write_one(&r, i);
	for (uint64_t i = 6; i < from; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	expect_no_cqe(&r.a->scq);
	larger.counter = from;
	for (uint64_t i = from; i < 6 + 32; i++) {
		assert_true(ring_cq_ready(&larger, larger.counter, &ctl));
		e = *(struct ring_cqe *)ring_slot(&larger, larger.counter++);
		assert_int_equal(e.wr_id, i);
	}
	assert_false(ring_cq_ready(&larger, larger.counter, &ctl));
	assert_int_equal(counters(&r, 0)->cq_overrun, 0);
	rig_down(&r);
	free(larger.base);
	free(stamps);
}

static void
a_larger_ring_overruns_at_its_own_size(void **state)
{
	struct end_opts small = { .cq_depth = 8 };
	struct ring larger;
	uint64_t *stamps;
	struct rig r;

	rig_up(&r, &small, NULL);
	larger = ring_of(4, &stamps);
	cq_resize(r.a->scq.cq, &larger, NULL);
	for (uint64_t i = 0; i < 16; i++)
		write_one(&r, i);
	assert_int_equal(counters(&r, 0)->cq_overrun, 0);
	write_one(&r, 16);
	assert_int_equal(counters(&r, 0)->cq_overrun, 1);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_ERR);
	rig_down(&r);
	free(larger.base);
	free(stamps);
}

static void
completions_carry_the_time(void **state)
{
	struct ring ring;
	uint64_t *stamps;
	struct rig r;

	rig_up(&r, NULL, NULL);
	ring = ring_of(4, &stamps);
	assert_int_equal(cq_resize(r.a->scq.cq, &ring, stamps), 0);
	for (uint32_t i = 0; i < 40; i++) {
		write_one(&r, i);
		assert_int_equal(stamps[i % 16], r.p->now);
		atomic_store(&r.a->scq.shared.cons, i + 1);
		pair_advance(r.p, PAIR_US);
	}
	rig_down(&r);
	free(ring.base);
	free(stamps);
}

static void
an_event_is_held_back_until_there_are_enough_completions(void **state)
{
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	cq_moderate(r.a->scq.cq, 3, 0);
	for (unsigned int round = 0; round < 4; round++) {
		arm(&r.a->scq, RING_ARM_ANY);
		for (uint64_t i = 0; i < 3; i++) {
			assert_int_equal(events_of(&r.a->scq), 0);
			write_one(&r, i);
			expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
			pair_advance(r.p, PAIR_MS);
		}
		assert_int_equal(events_of(&r.a->scq), 1);
	}
	rig_down(&r);
}

static void
an_event_is_held_back_for_no_longer_than_its_period(void **state)
{
	uint64_t begin;
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	cq_moderate(r.a->scq.cq, 100, 50);
	arm(&r.a->scq, RING_ARM_ANY);
	begin = r.p->now;
	write_one(&r, 1);
	assert_true(transport_next_timeout(r.p->h[0].tp) <= begin + 50 * PAIR_US);
	pair_advance(r.p, 40 * PAIR_US);
	assert_int_equal(events_of(&r.a->scq), 0);
	write_one(&r, 2);
	pair_advance(r.p, 20 * PAIR_US);
	assert_int_equal(events_of(&r.a->scq), 1);
	pair_advance(r.p, PAIR_MS);
	assert_int_equal(events_of(&r.a->scq), 0);
	rig_down(&r);
}

static void
moderation_doesnt_wake_who_waits_for_solicited_completions(void **state)
{
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	cq_moderate(r.a->scq.cq, 0, 50);
	arm(&r.a->scq, RING_ARM_SOLICITED);
	write_one(&r, 1);
	pair_advance(r.p, PAIR_MS);
	assert_int_equal(events_of(&r.a->scq), 0);
	rig_down(&r);
}

static void
what_is_held_back_can_be_raised_or_forgotten(void **state)
{
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	cq_moderate(r.a->scq.cq, 100, 0);
	arm(&r.a->scq, RING_ARM_ANY);
	write_one(&r, 1);
	cq_release_deferred(r.p->h[0].tp, r.a->scq.cq, true);
	assert_int_equal(events_of(&r.a->scq), 1);
	arm(&r.a->scq, RING_ARM_ANY);
	write_one(&r, 2);
	cq_release_deferred(r.p->h[0].tp, r.a->scq.cq, false);
	cq_moderate(r.a->scq.cq, 0, 0);
	pair_advance(r.p, PAIR_MS);
	assert_int_equal(events_of(&r.a->scq), 0);
	write_one(&r, 3);
	assert_int_equal(events_of(&r.a->scq), 1);
	rig_down(&r);
}

/* The event that enough completions raise tells of all; the time of those before has no meaning any more. */
static void
an_event_ends_what_was_held_back(void **state)
{
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	cq_moderate(r.a->scq.cq, 2, 50);
	arm(&r.a->scq, RING_ARM_ANY);
	write_one(&r, 1);
	write_one(&r, 2);
	assert_int_equal(events_of(&r.a->scq), 1);
	arm(&r.a->scq, RING_ARM_ANY);
	pair_advance(r.p, PAIR_MS);
	assert_int_equal(events_of(&r.a->scq), 0);
	rig_down(&r);
}

static void
what_is_forgotten_leaves_no_timer(void **state)
{
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	cq_moderate(r.a->scq.cq, 100, 50);
	arm(&r.a->scq, RING_ARM_ANY);
	write_one(&r, 1);
	cq_release_deferred(r.p->h[0].tp, r.a->scq.cq, false);
	pair_advance(r.p, 10 * PAIR_MS);
	assert_true(transport_next_timeout(r.p->h[0].tp) > r.p->now);
	rig_down(&r);
}

/* Once a solicited completion waits for its event, all that come after it count. */
static void
completions_count_that_raise_no_event_themselves(void **state)
{
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	for (uint64_t i = 0; i < 3; i++)
		end_recv(r.b, i, SGE(r.bbuf, 8, r.bmr), 1);
	cq_moderate(r.b->rcq.cq, 3, 0);
	arm(&r.b->rcq, RING_ARM_SOLICITED);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(events_of(&r.b->rcq), 0);
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .sge = SGE(r.abuf, 8, r.amr), .nb_sge = 1,
					    .flags = i == 0 ? UROCE_SEND_SOLICITED : 0 });
		pair_settle(r.p);
	}
	assert_int_equal(events_of(&r.b->rcq), 1);
	rig_down(&r);
}

static void
an_overrun_is_told_at_once(void **state)
{
	struct end_opts small = { .cq_depth = 4, .channel = true };
	struct rig r;

	rig_up(&r, &small, NULL);
	cq_moderate(r.a->scq.cq, 1000, 0);
	arm(&r.a->scq, RING_ARM_ANY);
	for (uint64_t i = 0; i < 5; i++)
		write_one(&r, i);
	assert_int_equal(counters(&r, 0)->cq_overrun, 1);
	assert_int_equal(events_of(&r.a->scq), 1);
	cq_release_deferred(r.p->h[0].tp, r.a->scq.cq, false);
	rig_down(&r);
}

/* A client that reads nothing loses nothing, and an engine without work sleeps until the next try. */
static void
an_event_without_room_is_raised_later(void **state)
{
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	r.a->scq.no_room = true;
	for (uint64_t i = 0; i < 3; i++) {
		arm(&r.a->scq, RING_ARM_ANY);
		write_one(&r, i);
	}
	assert_int_equal(counters(&r, 0)->cq_events_delayed, 3);
	assert_int_equal(counters(&r, 0)->cq_events, 0);
	assert_true(cq_owes_events(r.a->scq.cq));
	assert_true(transport_next_timeout(r.p->h[0].tp) > r.p->now);
	pair_advance(r.p, 5 * PAIR_MS);
	assert_int_equal(events_of(&r.a->scq), 0);
	r.a->scq.no_room = false;
	pair_advance(r.p, 5 * PAIR_MS);
	assert_int_equal(events_of(&r.a->scq), 3);
	assert_int_equal(counters(&r, 0)->cq_events, 3);
	assert_false(cq_owes_events(r.a->scq.cq));
	/* Later ones need no second try. */
	arm(&r.a->scq, RING_ARM_ANY);
	write_one(&r, 4);
	assert_int_equal(events_of(&r.a->scq), 1);
	assert_int_equal(counters(&r, 0)->cq_events_delayed, 3);
	rig_down(&r);
}

/* Until then the engine may sleep. */
static void
events_without_room_are_tried_again_after_a_while(void **state)
{
	struct end_cq *c[2];
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	c[0] = &r.a->scq;
	c[1] = &r.a->rcq;
	end_recv(r.a, 1, NULL, 0);
	for (unsigned int i = 0; i < RTE_DIM(c); i++) {
		c[i]->no_room = true;
		arm(c[i], RING_ARM_ANY);
	}
	write_one(&r, 1);
	end_send(r.b, &(struct wr){ .id = 2, .op = UROCE_WR_SEND });
	pair_settle(r.p);
	assert_int_equal(counters(&r, 0)->cq_events_delayed, 2);
	for (unsigned int i = 0; i < 3; i++) {
		pair_advance(r.p, PAIR_MS);
		host_turn(&r.p->h[0]);
		assert_true(transport_next_timeout(r.p->h[0].tp) > r.p->now);
	}
	for (unsigned int i = 0; i < RTE_DIM(c); i++)
		c[i]->no_room = false;
	pair_advance(r.p, PAIR_MS);
	assert_int_equal(events_of(c[0]), 1);
	assert_int_equal(events_of(c[1]), 1);
	rig_down(&r);
}

static void
an_event_without_room_is_forgotten_with_its_cq(void **state)
{
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	r.a->scq.no_room = true;
	arm(&r.a->scq, RING_ARM_ANY);
	write_one(&r, 1);
	/* It is of the other host's transport. */
	cq_drop_owed(r.p->h[0].tp, r.b->scq.cq);
	assert_true(cq_owes_events(r.a->scq.cq));
	cq_drop_owed(r.p->h[0].tp, r.a->scq.cq);
	assert_false(cq_owes_events(r.a->scq.cq));
	r.a->scq.no_room = false;
	pair_advance(r.p, 5 * PAIR_MS);
	assert_int_equal(events_of(&r.a->scq), 0);
	rig_down(&r);
}

static void
events_wait_until_the_engine_tells_them(void **state)
{
	struct transport *tp;
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	tp = r.p->h[0].tp;
	tp->c.tell_later = true;
	assert_false(transport_untold(tp));
	arm(&r.a->scq, RING_ARM_ANY);
	write_one(&r, 1);
	/* It is raised, and so the CQ isn't armed any more: no second one. */
	write_one(&r, 2);
	assert_true(transport_untold(tp));
	assert_int_equal(events_of(&r.a->scq), 0);
	transport_tell(tp);
	assert_false(transport_untold(tp));
	assert_int_equal(events_of(&r.a->scq), 1);
	transport_tell(tp);
	assert_int_equal(events_of(&r.a->scq), 0);
	assert_int_equal(counters(&r, 0)->cq_events, 1);
	/* For some there is no room when they are told. */
	r.a->scq.no_room = true;
	arm(&r.a->scq, RING_ARM_ANY);
	write_one(&r, 3);
	assert_int_equal(counters(&r, 0)->cq_events_delayed, 0);
	transport_tell(tp);
	assert_int_equal(counters(&r, 0)->cq_events_delayed, 1);
	r.a->scq.no_room = false;
	pair_advance(r.p, 5 * PAIR_MS);
	assert_int_equal(events_of(&r.a->scq), 1);
	rig_down(&r);
}

static void
an_event_that_waits_is_told_before_its_cq_goes(void **state)
{
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	r.p->h[0].tp->c.tell_later = true;
	arm(&r.a->scq, RING_ARM_ANY);
	write_one(&r, 1);
	cq_drop_owed(r.p->h[0].tp, r.a->scq.cq);
	assert_int_equal(events_of(&r.a->scq), 1);
	assert_false(transport_untold(r.p->h[0].tp));
	rig_down(&r);
}

static void
engines_leave_a_watched_cq_to_its_client(void **state)
{
	struct rig r;

	rig_up(&r, &with_channel, NULL);
	arm(&r.a->scq, RING_ARM_WATCHED);
	write_one(&r, 1);
	assert_int_equal(events_of(&r.a->scq), 0);
	/* The client has taken the event for it, and has armed the CQ for the next one before the engine looked. */
	r.a->scq.shared.seen = 1;
	arm(&r.a->scq, RING_ARM_ANY);
	cq_moderate(r.a->scq.cq, 0, 50);
	write_one(&r, 2);
	r.a->scq.shared.seen = 2;
	pair_advance(r.p, PAIR_MS);
	assert_int_equal(events_of(&r.a->scq), 0);
	assert_int_equal(r.a->scq.shared.arm, RING_ARM_ANY);
	write_one(&r, 3);
	pair_advance(r.p, PAIR_MS);
	assert_int_equal(events_of(&r.a->scq), 1);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(completions_go_to_the_larger_ring_from_a_number_on),
		cmocka_unit_test(a_larger_ring_overruns_at_its_own_size),
		cmocka_unit_test(completions_carry_the_time),
		cmocka_unit_test(an_event_is_held_back_until_there_are_enough_completions),
		cmocka_unit_test(an_event_is_held_back_for_no_longer_than_its_period),
		cmocka_unit_test(moderation_doesnt_wake_who_waits_for_solicited_completions),
		cmocka_unit_test(what_is_held_back_can_be_raised_or_forgotten),
		cmocka_unit_test(an_event_ends_what_was_held_back),
		cmocka_unit_test(what_is_forgotten_leaves_no_timer),
		cmocka_unit_test(completions_count_that_raise_no_event_themselves),
		cmocka_unit_test(an_overrun_is_told_at_once),
		cmocka_unit_test(an_event_without_room_is_raised_later),
		cmocka_unit_test(events_without_room_are_tried_again_after_a_while),
		cmocka_unit_test(an_event_without_room_is_forgotten_with_its_cq),
		cmocka_unit_test(events_wait_until_the_engine_tells_them),
		cmocka_unit_test(an_event_that_waits_is_told_before_its_cq_goes),
		cmocka_unit_test(engines_leave_a_watched_cq_to_its_client),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
