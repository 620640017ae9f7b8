/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes beyond the standard's minimum can be switched off, port by port. */
#include "rig.h"
#include "transport/core/types_priv.h"

enum { KIB = 1024 };

static void
up(struct rig *r, const struct tp_features *off, struct loss *l)
{
	struct tp_port_config port = { .features = TP_FEATURES_ALL };

	port.features.selective_repeat &= !off->selective_repeat;
	port.features.tail_loss_probe &= !off->tail_loss_probe;
	port.features.credits &= !off->credits;
	port.features.ack_coalescing &= !off->ack_coalescing;
	rig_up_cc(r, NULL, NULL, &port);
	r->p->lose = l != NULL ? lose : NULL;
	r->p->lose_arg = l;
}

static bool
is_offer(const struct note *n)
{
	return n->bth.opcode == WIRE_OP_WRITE_ONLY && wire_psn_diff(n->bth.psn, 100) < 0;
}

/* Packets are lost in both directions, and nothing but the standard's go-back-N is to be seen. */
static void
without_selective_repeat_neither_offer_nor_sack_leaves(void **state)
{
	struct loss l = { .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 2, .count = 1 };
	struct rig r;

	for (unsigned int from = 0; from < 2; from++) {
		l.from = from;
		l.seen = 0;
		if (from == 1)
			l.opcode = WIRE_OP_READ_RESP_MIDDLE;
		up(&r, &(struct tp_features){ .selective_repeat = true }, &l);
		rig_write(&r, 1, 0, 20 * KIB);
		rig_read(&r, 2, 40 * KIB, 20 * KIB);
		pair_settle(r.p);
		expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
		expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
		assert_true(l.seen > 2);
		assert_true(transport_counters(r.p->h[0].tp)->retransmitted_packets > 0);
		assert_int_equal(pair_count(r.p, 0, WIRE_OPCODE_SACK) + pair_count(r.p, 1, WIRE_OPCODE_SACK), 0);
		for (uint32_t i = 0; i < r.p->nb_log; i++)
			assert_false(is_offer(&r.p->log[i]));
		rig_down(&r);
	}
}

/* As above with it: else the test above says nothing. */
static void
with_selective_repeat_a_loss_makes_an_offer(void **state)
{
	struct loss l = { .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 2, .count = 1 };
	uint32_t offers = 0;
	struct rig r;

	up(&r, &(struct tp_features){ 0 }, &l);
	rig_write(&r, 1, 0, 20 * KIB);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	for (uint32_t i = 0; i < r.p->nb_log; i++)
		offers += is_offer(&r.p->log[i]);
	assert_true(offers > 0);
	assert_true(pair_count(r.p, 1, WIRE_OPCODE_SACK) > 0);
	/* A SACK says nothing of credits. */
	for (uint32_t i = 0; i < r.p->nb_log; i++)
		if (r.p->log[i].bth.opcode == WIRE_OPCODE_SACK)
			assert_int_equal(r.p->log[i].syndrome, WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID);
	rig_down(&r);
}

static uint8_t
credit_code_of_an_ack(bool off)
{
	struct rig r;
	uint8_t code = 0;

	up(&r, &(struct tp_features){ .credits = off }, NULL);
	end_recv(r.b, 1, SGE(r.bbuf, 64, r.bmr), 1);
	end_recv(r.b, 2, SGE(r.bbuf, 64, r.bmr), 1);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .inline_data = "a", .inline_bytes = 1 });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	for (uint32_t i = 0; i < r.p->nb_log; i++)
		if (r.p->log[i].bth.opcode == WIRE_OP_ACK)
			code = r.p->log[i].syndrome & WIRE_AETH_CREDITS_INVALID;
	rig_down(&r);
	return code;
}

static void
without_credits_acks_say_nothing_of_receives(void **state)
{
	assert_int_equal(credit_code_of_an_ack(false), wire_aeth_credit_code(1));
	assert_int_equal(credit_code_of_an_ack(true), WIRE_AETH_CREDITS_INVALID);
}

/* The peer says how many receives it has; this end may not listen. */
static uint64_t
credit_waits(bool off)
{
	struct rig r;
	uint64_t waits;

	up(&r, &(struct tp_features){ 0 }, NULL);
	r.p->h[0].tp->c.ports[0].features.credits = !off;
	for (uint32_t i = 0; i < 3; i++) {
		if (i == 0)
			end_recv(r.b, i, SGE(r.bbuf, 64, r.bmr), 1);
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .inline_data = "a", .inline_bytes = 1 });
		if (i == 0)
			pair_settle(r.p);
	}
	/* The first of two may go, its answer tells of receives; the second has to wait, if this end listens. */
	transport_run(r.p->h[0].tp, r.p->now);
	for (uint32_t i = 1; i < 3; i++)
		end_recv(r.b, i, SGE(r.bbuf, 64, r.bmr), 1);
	pair_settle(r.p);
	for (uint32_t i = 0; i < 3; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	waits = transport_counters(r.p->h[0].tp)->rc_credit_waits;
	rig_down(&r);
	return waits;
}

static void
without_credits_a_requester_does_not_wait_for_receives(void **state)
{
	assert_true(credit_waits(false) > 0);
	assert_int_equal(credit_waits(true), 0);
}

static void
lost_last_packet(bool off, uint64_t *probes, uint64_t *timeouts)
{
	struct loss l = { .opcode = WIRE_OP_WRITE_ONLY, .nth = 1, .count = 1 };
	struct rig r;

	up(&r, &(struct tp_features){ .tail_loss_probe = off }, &l);
	for (uint32_t i = 0; i < 2; i++) {
		rig_write(&r, i, 0, 64);
		pair_advance(r.p, 2 * (UINT64_C(4096) << PAIR_TIMEOUT));
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	}
	*probes = transport_counters(r.p->h[0].tp)->tail_loss_probes;
	*timeouts = transport_counters(r.p->h[0].tp)->local_ack_timeout_err;
	rig_down(&r);
}

static void
without_tail_loss_probes_the_ack_timeout_finds_a_lost_last_packet(void **state)
{
	uint64_t probes, timeouts;

	lost_last_packet(false, &probes, &timeouts);
	assert_true(probes > 0);
	assert_int_equal(timeouts, 0);
	lost_last_packet(true, &probes, &timeouts);
	assert_int_equal(probes, 0);
	assert_true(timeouts > 0);
}

static uint32_t
acks_of_three_writes(bool off)
{
	struct rig r;
	uint32_t n;

	up(&r, &(struct tp_features){ .ack_coalescing = off }, NULL);
	for (uint32_t i = 0; i < 3; i++)
		rig_write(&r, i, i * 64, 64);
	pair_settle(r.p);
	for (uint32_t i = 0; i < 3; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	n = pair_count(r.p, 1, WIRE_OP_ACK);
	rig_down(&r);
	return n;
}

static void
without_ack_coalescing_each_message_gets_an_ack(void **state)
{
	assert_int_equal(acks_of_three_writes(false), 1);
	assert_int_equal(acks_of_three_writes(true), 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_selective_repeat_neither_offer_nor_sack_leaves),
		cmocka_unit_test(with_selective_repeat_a_loss_makes_an_offer),
		cmocka_unit_test(without_credits_acks_say_nothing_of_receives),
		cmocka_unit_test(without_credits_a_requester_does_not_wait_for_receives),
		cmocka_unit_test(without_tail_loss_probes_the_ack_timeout_finds_a_lost_last_packet),
		cmocka_unit_test(without_ack_coalescing_each_message_gets_an_ack),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
