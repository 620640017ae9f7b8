/* SPDX-License-Identifier: BSD-3-Clause */
/* What is received: who pays for it, which packets wait for turns, and that none of them is lost, late or out of order. */
#include "share_rig.h"
#include "transport/core/rx_wait_priv.h"

enum {
	COST_RX = 768,
	AT_ONCE = 64, /* packets that a peer sends in a turn: more than a share may have executed */
	PART = TP_SHARE_QUANTUM / (BIG + COST_RX) + 1, /* of these a share has executed before the others have to wait */
	/* and of these, if others receive, too, but want no turns. The first round ends at once, as it has lasted for long. */
	LEAD = (2 + TP_RX_LEAD) * TP_SHARE_QUANTUM / (BIG + COST_RX) + 1,
};

/* A QP of a share, and its peer on the other host, which writes to it. */
struct target {
	struct share *share;
	struct end *end, *peer;
	uint8_t *from, *to;
	struct mr *from_mr, *to_mr;
	uint64_t sent;
};

static void
target_up(struct bench *b, struct target *t, enum uroce_qp_type type, const struct share_params *params)
{
	struct end_opts o = { .type = type, .sq_depth = DEPTH, .rq_depth = DEPTH, .cq_depth = 2 * DEPTH };

	*t = (struct target){ .from = malloc(DEPTH * BIG), .to = calloc(DEPTH, BIG) };
	assert_int_equal(share_create(b->tp, params, &t->share), 0);
	t->peer = end_new(&b->p->h[1], &o);
	o.share = t->share;
	t->end = end_new(&b->p->h[0], &o);
	ends_connect(t->peer, t->end, &(struct conn_opts){ .mtu = UROCE_MTU_4096 });
	fill(t->from, DEPTH * BIG, 3);
	t->from_mr = host_mr(&b->p->h[1], t->from, DEPTH * BIG, ACCESS_ALL);
	t->to_mr = host_mr(&b->p->h[0], t->to, DEPTH * BIG, ACCESS_ALL);
}

static void
target_down(struct bench *b, struct target *t)
{
	if (t->end != NULL)
		end_free(t->end);
	end_free(t->peer);
	share_destroy(b->tp, t->share);
	mr_destroy(b->p->h[1].sh.mrs, t->from_mr);
	mr_destroy(b->p->h[0].sh.mrs, t->to_mr);
	free(t->from);
	free(t->to);
}

/* All that host @p from has sent arrives. */
static void
arrive(struct bench *b, unsigned int from)
{
	struct tp_txvec *v = transport_tx(b->p->h[from].tp, 0);

	assert_int_equal(transport_rx(b->p->h[!from].tp, 0, v->pkts, v->n, false, b->p->now), 0);
	v->n = 0;
}

/* The peer sends @p n messages of one packet, which arrive. */
static void
peer_sends(struct bench *b, struct target *t, enum uroce_wr_op op, uint32_t n, uint32_t bytes)
{
	for (; n > 0; n--, t->sent++) {
		uint64_t off = t->sent % DEPTH * BIG;

		end_send(t->peer, &(struct wr){ .id = t->sent, .op = op, .sge = SGE(t->from + off, bytes, t->from_mr), .nb_sge = 1,
						.remote_addr = ADDR(t->to) + off, .rkey = t->to_mr->key });
	}
	for (struct ring_cqe e; cq_poll(&t->peer->scq, &e, NULL);)
		;
	while (host_turn(&b->p->h[1]) != 0)
		arrive(b, 1);
}

static struct share_view
view(const struct bench *b, const struct share *s)
{
	struct share_view v;

	share_look(b->tp, s, &v);
	return v;
}

static uint32_t
waiting(const struct bench *b)
{
	return TP_RX_WAITS - pool_left(&b->tp->rx_waits);
}

static void
a_received_request_costs_its_bytes_and_its_work(void **state)
{
	struct target t;
	struct bench b;
	uint64_t cost;

	bench_up(&b);
	target_up(&b, &t, UROCE_QPT_RC, &(struct share_params){ 0 });
	peer_sends(&b, &t, UROCE_WR_RDMA_WRITE, 1, 1000);
	assert_int_equal(view(&b, t.share).stats.cost, 1000 + COST_RX);
	assert_int_equal(b.tp->cost, 1000 + COST_RX);
	/* The ACK is free. */
	cost = b.p->h[1].tp->cost;
	transport_run(b.tp, b.p->now);
	arrive(&b, 0);
	assert_int_equal(b.p->h[1].tp->counters.acks_received, 1);
	assert_int_equal(b.p->h[1].tp->cost, cost);
	target_down(&b, &t);
	bench_down(&b);
}

/* Host 0 sends to itself: each end pays for its part. */
static void
what_stays_on_the_host_is_paid_by_both_ends(void **state)
{
	struct share *s[2];
	struct end *e[2];
	struct bench b;
	uint64_t cost;

	bench_up(&b);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(share_create(b.tp, &(struct share_params){ 0 }, &s[i]), 0);
		e[i] = end_new(&b.p->h[0], &(struct end_opts){ .type = UROCE_QPT_UC, .share = s[i] });
	}
	ends_connect(e[0], e[1], &(struct conn_opts){ .mtu = UROCE_MTU_4096 });
	e[0]->qp->path.detour = DETOUR_LOOPBACK;
	e[0]->qp->path.loopback = true;
	post(&b, e[0], 1000);
	transport_run(b.tp, b.p->now);
	assert_int_equal(transport_loop(b.tp)->n, 1);
	assert_int_equal(view(&b, s[0]).stats.cost, b.tp->counters.tx_bytes + TP_COST_PACKET + TP_COST_WQE + 2 * TP_COST_LOOK);
	cost = view(&b, s[1]).stats.cost;
	assert_int_equal(transport_rx(b.tp, 0, transport_loop(b.tp)->pkts, 1, true, b.p->now), 0);
	transport_loop(b.tp)->n = 0;
	assert_int_equal(view(&b, s[1]).stats.cost - cost, 1000 + COST_RX);
	for (int i = 0; i < 2; i++) {
		end_free(e[i]);
		share_destroy(b.tp, s[i]);
	}
	bench_down(&b);
}

static void
who_is_sent_much_gets_no_more_than_who_sends_much(void **state)
{
	struct target t;
	uint64_t flood;
	struct bench b;

	bench_up(&b);
	target_up(&b, &t, UROCE_QPT_UC, &(struct share_params){ 0 });
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	for (uint32_t i = 0; i < MANY; i++) {
		/* There is always something that waits, and room for more. */
		if (waiting(&b) < 2 * AT_ONCE)
			peer_sends(&b, &t, UROCE_WR_RDMA_WRITE, AT_ONCE, BIG);
		bench_turn(&b);
	}
	flood = look(&b, &b.f[0]).stats.cost;
	assert_in_range(view(&b, t.share).stats.cost, flood - flood / 20, flood + flood / 20);
	assert_true(t.sent > MANY);
	assert_true(b.tp->counters.rx_waited > MANY);
	target_down(&b, &t);
	bench_down(&b);
}

static void
nothing_waits_when_nobody_else_wants_turns(void **state)
{
	struct target t;
	struct bench b;

	bench_up(&b);
	target_up(&b, &t, UROCE_QPT_UC, &(struct share_params){ 0 });
	for (uint32_t i = 0; i < DEPTH; i++) {
		peer_sends(&b, &t, UROCE_WR_RDMA_WRITE, AT_ONCE, BIG);
		bench_turn(&b);
	}
	assert_int_equal(b.tp->counters.rx_waited, 0);
	target_down(&b, &t);
	bench_down(&b);
}

/* Neither has anything to send: what of the one comes behind the packets of the other doesn't wait for all of them. */
static void
who_receives_little_is_not_behind_who_receives_much(void **state)
{
	struct target much, little;
	struct bench b;

	bench_up(&b);
	target_up(&b, &much, UROCE_QPT_UC, &(struct share_params){ 0 });
	target_up(&b, &little, UROCE_QPT_UC, &(struct share_params){ 0 });
	peer_sends(&b, &little, UROCE_WR_RDMA_WRITE, 1, 8);
	peer_sends(&b, &much, UROCE_WR_RDMA_WRITE, AT_ONCE, BIG);
	assert_int_equal(waiting(&b), AT_ONCE - LEAD);
	peer_sends(&b, &little, UROCE_WR_RDMA_WRITE, 1, 8);
	assert_int_equal(waiting(&b), AT_ONCE - LEAD);
	bench_turn(&b);
	assert_int_equal(waiting(&b), 0);
	target_down(&b, &little);
	target_down(&b, &much);
	bench_down(&b);
}

enum { RECEIVERS = 3 };

/* Each of @p n targets is sent as much as the others, by turns, for some time. @return how many packets have waited meanwhile. */
static uint64_t
receive_by_turns(struct bench *b, struct target *t, unsigned int n)
{
	uint64_t before = b->tp->counters.rx_waited;

	for (uint32_t i = 0; i < DEPTH; i++) {
		peer_sends(b, &t[i % n], UROCE_WR_RDMA_WRITE, PART, BIG);
		bench_turn(b);
	}
	return b->tp->counters.rx_waited - before;
}

static void
who_receive_the_same_wait_for_nothing(void **state)
{
	struct target t[RECEIVERS];
	struct bench b;

	bench_up(&b);
	for (int i = 0; i < RECEIVERS; i++)
		target_up(&b, &t[i], UROCE_QPT_UC, &(struct share_params){ 0 });
	assert_int_equal(receive_by_turns(&b, t, RECEIVERS), 0);
	/* Twice as much of one is too much, sooner or later. */
	for (uint32_t i = 0; i < DEPTH; i++) {
		peer_sends(&b, &t[i % RECEIVERS], UROCE_WR_RDMA_WRITE, PART, BIG);
		peer_sends(&b, &t[0], UROCE_WR_RDMA_WRITE, PART / RECEIVERS, BIG);
		bench_turn(&b);
	}
	assert_true(b.tp->counters.rx_waited > 0);
	assert_int_equal(waiting(&b), 0);
	for (int i = 0; i < RECEIVERS; i++)
		target_down(&b, &t[i]);
	bench_down(&b);
}

/* Those that are left don't wait long for one that receives no more. */
static void
nobody_waits_long_for_who_receives_no_more(void **state)
{
	struct target t[RECEIVERS];
	struct bench b;

	bench_up(&b);
	for (int i = 0; i < RECEIVERS; i++)
		target_up(&b, &t[i], UROCE_QPT_UC, &(struct share_params){ 0 });
	receive_by_turns(&b, t, RECEIVERS);
	assert_true(receive_by_turns(&b, t, RECEIVERS - 1) > 0);
	b.p->now += TP_LIGHT_NS;
	peer_sends(&b, &t[0], UROCE_WR_RDMA_WRITE, 1, BIG);
	peer_sends(&b, &t[1], UROCE_WR_RDMA_WRITE, 1, BIG);
	bench_turn(&b);
	assert_int_equal(receive_by_turns(&b, t, RECEIVERS - 1), 0);
	for (int i = 0; i < RECEIVERS; i++)
		target_down(&b, &t[i]);
	bench_down(&b);
}

/* A program that waits for the ends of its messages will soon send more. */
static void
packets_wait_for_who_will_soon_want_a_turn(void **state)
{
	struct flood *f;
	struct target t;
	struct bench b;

	bench_up(&b);
	target_up(&b, &t, UROCE_QPT_UC, &(struct share_params){ 0 });
	f = flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	f->pauses = true;
	post(&b, f->ends[0], BIG);
	bench_turn(&b);
	peer_sends(&b, &t, UROCE_WR_RDMA_WRITE, AT_ONCE, BIG);
	assert_int_equal(waiting(&b), AT_ONCE - PART);
	bench_run(&b, AT_ONCE);
	b.p->now += TP_LIGHT_NS;
	peer_sends(&b, &t, UROCE_WR_RDMA_WRITE, AT_ONCE, BIG);
	assert_int_equal(waiting(&b), 0);
	target_down(&b, &t);
	bench_down(&b);
}

/* A flood keeps the engine busy, and packets of the target wait. @return the flood. */
static struct flood *
have_packets_wait(struct bench *b, struct target *t, const struct share_params *params, enum uroce_wr_op op)
{
	struct flood *f;

	bench_up(b);
	target_up(b, t, UROCE_QPT_RC, params);
	f = flood_add(b, 8, BIG, &(struct share_params){ 0 });
	bench_turn(b);
	for (uint32_t i = 0; i < AT_ONCE && op == UROCE_WR_SEND; i++)
		end_recv(t->end, i, SGE(t->to + i * BIG, BIG, t->to_mr), 1);
	peer_sends(b, t, op, AT_ONCE, BIG);
	assert_int_equal(waiting(b), AT_ONCE - PART);
	return f;
}

static void
expect_received(struct target *t)
{
	for (uint32_t i = 0; i < AT_ONCE; i++)
		expect_cqe(&t->end->rcq, i, UROCE_WC_SUCCESS);
	assert_memory_equal(t->to, t->from, AT_ONCE * BIG);
}

static void
packets_that_wait_are_executed_in_order(void **state)
{
	struct target t;
	struct bench b;

	have_packets_wait(&b, &t, &(struct share_params){ 0 }, UROCE_WR_SEND);
	bench_run(&b, AT_ONCE);
	assert_int_equal(waiting(&b), 0);
	expect_received(&t);
	assert_int_equal(b.tp->counters.out_of_sequence, 0);
	target_down(&b, &t);
	bench_down(&b);
}

/* A response comes behind what was sent before it. */
static void
responses_do_not_overtake(void **state)
{
	struct target t;
	struct bench b;

	have_packets_wait(&b, &t, &(struct share_params){ 0 }, UROCE_WR_SEND);
	pair_inject(b.p, t.end, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = 0 }, (uint8_t[]){ 0x1f, 0, 0, 0 }, 4);
	assert_int_equal(waiting(&b), AT_ONCE - PART + 1);
	assert_int_equal(b.tp->counters.acks_received, 0);
	bench_run(&b, AT_ONCE);
	assert_int_equal(waiting(&b), 0);
	target_down(&b, &t);
	bench_down(&b);
}

static void
what_has_no_room_to_wait_is_executed_in_order(void **state)
{
	struct target t;
	struct bench b;

	bench_up(&b);
	target_up(&b, &t, UROCE_QPT_UC, &(struct share_params){ 0 });
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	bench_turn(&b);
	for (uint32_t i = 0; i < TP_RX_WAITS / AT_ONCE; i++)
		peer_sends(&b, &t, UROCE_WR_RDMA_WRITE, AT_ONCE, BIG);
	/* It has as many as it leaves. */
	assert_int_equal(waiting(&b), TP_RX_WAITS / 2);
	assert_int_equal(view(&b, t.share).stats.refused, TP_RX_WAITS / 2 - PART);
	bench_run(&b, MANY);
	assert_int_equal(waiting(&b), 0);
	assert_int_equal(b.tp->counters.rx_uc_gap, 0);
	assert_int_equal(b.tp->counters.rx_write_requests, TP_RX_WAITS);
	target_down(&b, &t);
	bench_down(&b);
}

/* Also if the pool is empty and none of the QP's packets waits. */
static void
with_an_empty_pool_nothing_waits(void **state)
{
	static void *items[TP_RX_WAITS];
	struct target t;
	struct bench b;
	uint32_t n = 0;

	bench_up(&b);
	target_up(&b, &t, UROCE_QPT_UC, &(struct share_params){ 0 });
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	bench_turn(&b);
	while (pool_left(&b.tp->rx_waits) > 0)
		items[n++] = pool_get(&b.tp->rx_waits);
	peer_sends(&b, &t, UROCE_WR_RDMA_WRITE, AT_ONCE, BIG);
	assert_memory_equal(t.to, t.from, AT_ONCE * BIG);
	assert_int_equal(b.tp->counters.rx_waited, 0);
	while (n > 0)
		pool_put(&b.tp->rx_waits, items[--n]);
	target_down(&b, &t);
	bench_down(&b);
}

/* While several receive, each pays for the time that its packets take: here TP_METER_MAX, as soon as somebody else's come. */
static void
who_receives_pays_for_the_time(void **state)
{
	struct target t[2];
	struct bench b;

	bench_up(&b);
	b.tp->tick_cost = (uint64_t)TP_METER_MAX << TP_TICK_SHIFT;
	for (int i = 0; i < 2; i++)
		target_up(&b, &t[i], UROCE_QPT_UC, &(struct share_params){ 0 });
	peer_sends(&b, &t[0], UROCE_WR_RDMA_WRITE, 1, BIG);
	assert_int_equal(view(&b, t[0].share).stats.cost, BIG + COST_RX);
	peer_sends(&b, &t[1], UROCE_WR_RDMA_WRITE, 1, BIG);
	peer_sends(&b, &t[0], UROCE_WR_RDMA_WRITE, TP_RX_BATCH, BIG);
	assert_int_equal(view(&b, t[0].share).stats.cost, BIG + COST_RX + TP_METER_MAX);
	/* It is far ahead now. What waits is paid for when a modify has it executed. */
	peer_sends(&b, &t[0], UROCE_WR_RDMA_WRITE, 1, BIG);
	assert_int_equal(waiting(&b), 1);
	assert_int_equal(end_state(t[0].end, UROCE_QPS_ERR), 0);
	assert_int_equal(waiting(&b), 0);
	assert_int_equal(view(&b, t[0].share).stats.cost, BIG + COST_RX + 3 * TP_METER_MAX);
	for (int i = 0; i < 2; i++)
		target_down(&b, &t[i]);
	bench_down(&b);
}

/* Nothing is measured yet when the turn begins in which a waiting packet shows that there are others. */
static void
a_turn_in_which_measuring_begins_is_paid_by_bytes(void **state)
{
	struct target t[2];
	struct flood *f;
	struct bench b;
	uint64_t before;

	bench_up(&b);
	for (int i = 0; i < 2; i++)
		target_up(&b, &t[i], UROCE_QPT_UC, &(struct share_params){ 0 });
	f = flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	f->pauses = true;
	post(&b, f->ends[0], BIG);
	bench_turn(&b);
	peer_sends(&b, &t[0], UROCE_WR_RDMA_WRITE, AT_ONCE, BIG);
	peer_sends(&b, &t[1], UROCE_WR_RDMA_WRITE, 1, BIG);
	assert_true(waiting(&b) > 0);
	b.tp->tick_cost = (uint64_t)TP_METER_MAX << TP_TICK_SHIFT;
	assert_false(transport_rest(b.tp));
	before = view(&b, t[0].share).stats.cost;
	bench_turn(&b);
	assert_true(b.tp->meter_until_ns > b.p->now);
	assert_in_range(view(&b, t[0].share).stats.cost - before, 1, TP_METER_MAX - 1);
	for (int i = 0; i < 2; i++)
		target_down(&b, &t[i]);
	bench_down(&b);
}

/* Whatever a program does with its QP comes after what it has received. */
static void
a_modify_comes_after_what_was_received(void **state)
{
	struct target t;
	struct bench b;

	have_packets_wait(&b, &t, &(struct share_params){ 0 }, UROCE_WR_SEND);
	assert_int_equal(end_state(t.end, UROCE_QPS_ERR), 0);
	assert_int_equal(waiting(&b), 0);
	expect_received(&t);
	target_down(&b, &t);
	bench_down(&b);
}

static void
a_qp_ends_after_what_was_received(void **state)
{
	struct target t;
	struct bench b;

	have_packets_wait(&b, &t, &(struct share_params){ 0 }, UROCE_WR_RDMA_WRITE);
	end_free(t.end);
	t.end = NULL;
	assert_int_equal(waiting(&b), 0);
	assert_memory_equal(t.to, t.from, AT_ONCE * BIG);
	target_down(&b, &t);
	bench_down(&b);
}

/* A rate is for what is sent. */
static void
packets_do_not_wait_for_a_rate(void **state)
{
	struct share_rate rate = { .bits = 1000 };
	struct target t;
	struct bench b;

	have_packets_wait(&b, &t, &(struct share_params){ .rate = &rate }, UROCE_WR_SEND);
	share_rate_charge(t.share, BIG, 1, b.p->now);
	bench_run(&b, AT_ONCE);
	assert_int_equal(waiting(&b), 0);
	expect_received(&t);
	/* What comes while it waits for its rate neither. */
	post(&b, t.end, 8);
	bench_turn(&b);
	assert_int_equal(t.share->on, SHARE_LIMITED);
	peer_sends(&b, &t, UROCE_WR_RDMA_WRITE, AT_ONCE, BIG);
	assert_int_equal(waiting(&b), 0);
	target_down(&b, &t);
	bench_down(&b);
}

/* The ACK that it waits for may be among them. */
static void
a_timer_waits_for_packets_that_wait(void **state)
{
	struct target t;
	struct bench b;

	bench_up(&b);
	target_up(&b, &t, UROCE_QPT_RC, &(struct share_params){ 0 });
	flood_add(&b, 8, BIG, &(struct share_params){ 0 });
	end_send(t.end, &(struct wr){ .op = UROCE_WR_RDMA_WRITE, .sge = SGE(t.to, 8, t.to_mr), .nb_sge = 1, .remote_addr = ADDR(t.from), .rkey = t.from_mr->key });
	bench_turn(&b);
	peer_sends(&b, &t, UROCE_WR_RDMA_WRITE, AT_ONCE, BIG);
	assert_true(waiting(&b) > 0);
	b.p->now += 100 * PAIR_MS;
	bench_turn(&b);
	assert_int_equal(b.tp->counters.local_ack_timeout_err + b.tp->counters.tail_loss_probes, 0);
	target_down(&b, &t);
	bench_down(&b);
}

static void
an_engine_does_not_rest_while_packets_wait(void **state)
{
	struct target t;
	struct flood *f;
	struct bench b;

	f = have_packets_wait(&b, &t, &(struct share_params){ 0 }, UROCE_WR_RDMA_WRITE);
	f->pauses = true;
	assert_false(transport_rest(b.tp));
	assert_int_equal(waiting(&b), AT_ONCE - PART);
	bench_run(&b, 2 * DEPTH);
	assert_int_equal(waiting(&b), 0);
	assert_memory_equal(t.to, t.from, AT_ONCE * BIG);
	target_down(&b, &t);
	bench_down(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_received_request_costs_its_bytes_and_its_work),
		cmocka_unit_test(what_stays_on_the_host_is_paid_by_both_ends),
		cmocka_unit_test(who_is_sent_much_gets_no_more_than_who_sends_much),
		cmocka_unit_test(nothing_waits_when_nobody_else_wants_turns),
		cmocka_unit_test(who_receives_little_is_not_behind_who_receives_much),
		cmocka_unit_test(who_receive_the_same_wait_for_nothing),
		cmocka_unit_test(nobody_waits_long_for_who_receives_no_more),
		cmocka_unit_test(packets_wait_for_who_will_soon_want_a_turn),
		cmocka_unit_test(packets_that_wait_are_executed_in_order),
		cmocka_unit_test(responses_do_not_overtake),
		cmocka_unit_test(what_has_no_room_to_wait_is_executed_in_order),
		cmocka_unit_test(with_an_empty_pool_nothing_waits),
		cmocka_unit_test(who_receives_pays_for_the_time),
		cmocka_unit_test(a_turn_in_which_measuring_begins_is_paid_by_bytes),
		cmocka_unit_test(a_modify_comes_after_what_was_received),
		cmocka_unit_test(a_qp_ends_after_what_was_received),
		cmocka_unit_test(packets_do_not_wait_for_a_rate),
		cmocka_unit_test(a_timer_waits_for_packets_that_wait),
		cmocka_unit_test(an_engine_does_not_rest_while_packets_wait),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
