/* SPDX-License-Identifier: BSD-3-Clause */
/* Shares that pay for time: when it is measured, and who pays. The clock is so fast that whatever is measured costs TP_METER_MAX. */
#include "share_rig.h"
#include "transport/core/local_priv.h"
#include "transport/core/meter_priv.h"
#include "transport/rx_priv.h"

enum { METER_TURNS = TP_METER_NS / STEP_NS + 1, BY_BYTES = BIG + 100 + TP_COST_PACKET + TP_COST_WQE + TP_COST_LOOK };

static void
metered_up(struct bench *b)
{
	bench_up(b);
	b->tp->tick_cost = (uint64_t)TP_METER_MAX << TP_TICK_SHIFT;
}

static struct flood *
add_pausing(struct bench *b)
{
	struct flood *f = flood_add(b, 1, BIG, &(struct share_params){ 0 });

	f->pauses = true;
	return f;
}

/* What a turn costs a share that posts a message in it. */
static uint64_t
message_costs(struct bench *b, struct flood *f)
{
	uint64_t before = look(b, f).stats.cost;
	struct ring_cqe e;

	while (cq_poll(&f->ends[0]->scq, &e, NULL))
		assert_int_equal(e.status, UROCE_WC_SUCCESS);
	post(b, f->ends[0], BIG);
	bench_turn(b);
	return look(b, f).stats.cost - before;
}

static void
measured(uint64_t cost)
{
	assert_int_equal(cost % TP_METER_MAX, 0);
	assert_true(cost > 0);
}

static void
the_clock_is_the_CPUs(void **state)
{
	struct pair *p = pair_new();
	uint64_t begin;

	assert_int_equal(p->h[0].tp->tick_cost, 0);
	p->h[0].tp->c.metered = true;
	shares_init(p->h[0].tp);
	/* A millisecond is too long to cost what it takes; 10 us aren't. */
	assert_int_equal(meter_cost(p->h[0].tp, 0, rte_get_tsc_hz() / 1000), TP_METER_MAX);
	begin = rte_rdtsc();
	assert_in_range(meter_cost(p->h[0].tp, begin, begin + rte_get_tsc_hz() / 100000), 10000 * TP_COST_PER_NS - 10, 10000 * TP_COST_PER_NS);
	pair_free(p);
}

static void
who_is_alone_pays_by_bytes(void **state)
{
	struct flood *f;
	struct bench b;

	metered_up(&b);
	f = add_pausing(&b);
	for (int i = 0; i < 3; i++)
		assert_in_range(message_costs(&b, f), BIG, BY_BYTES);
	bench_down(&b);
}

static void
while_others_want_turns_time_is_measured(void **state)
{
	struct flood *one, *two;
	struct bench b;

	metered_up(&b);
	one = add_pausing(&b);
	two = flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	measured(message_costs(&b, one));
	bench_run(&b, METER_TURNS);
	assert_int_equal(look(&b, two).stats.cost % TP_METER_MAX, 0);
	assert_true(look(&b, two).stats.cost > TP_METER_MAX);
	/* Some time after the other one has stopped it isn't any more. */
	two->pauses = true;
	bench_run(&b, TP_WATCH_NS / STEP_NS + DEPTH * 4 + METER_TURNS);
	assert_in_range(message_costs(&b, one), BIG, BY_BYTES);
	bench_down(&b);
}

/* With equal weights each gets the same time, however many bytes it sends in it. */
static void
time_is_shared_by_weight(void **state)
{
	struct flood *light, *heavy;
	struct bench b;

	metered_up(&b);
	light = flood_add(&b, 1, 8, &(struct share_params){ .weight = 100 });
	heavy = flood_add(&b, 4, BIG, &(struct share_params){ .weight = 200 });
	bench_run(&b, MANY);
	assert_in_range(look(&b, heavy).stats.cost, look(&b, light).stats.cost * 19 / 10, look(&b, light).stats.cost * 21 / 10);
	bench_down(&b);
}

/* The time that a READ's responses take is paid when they come. */
static void
a_READ_is_not_paid_when_it_is_asked_for(void **state)
{
	struct flood *other;
	struct bench b;
	struct share *s;
	struct share_view v;
	struct end *e, *peer;

	metered_up(&b);
	other = flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	assert_int_equal(share_create(b.tp, &(struct share_params){ 0 }, &s), 0);
	e = end_new(&b.p->h[0], &(struct end_opts){ .share = s });
	peer = end_new(&b.p->h[1], &(struct end_opts){ 0 });
	ends_connect(e, peer, &(struct conn_opts){ .mtu = UROCE_MTU_4096, .rd_atomic = 1, .dest_rd_atomic = 1 });
	bench_turn(&b);
	share_look(b.tp, s, &v);
	end_send(e, &(struct wr){ .op = UROCE_WR_RDMA_READ, .sge = SGE(b.buf, BIG, b.mr), .nb_sge = 1, .remote_addr = ADDR(b.buf), .rkey = 1 });
	for (uint64_t before = v.stats.cost, i = 0; v.stats.packets == 0; i++) {
		assert_true(i < DEPTH);
		bench_turn(&b);
		share_look(b.tp, s, &v);
		assert_int_equal((v.stats.cost - before) % TP_METER_MAX, 0);
	}
	assert_true(look(&b, other).stats.cost > 0);
	end_free(e);
	end_free(peer);
	share_destroy(b.tp, s);
	bench_down(&b);
}

/* What goes by reference is delivered when the turns are over, so a part is paid before. */
static void
what_goes_by_reference_is_paid_in_advance(void **state)
{
	struct share_view v;
	struct share *s;
	uint64_t before;
	struct bench b;
	struct end *e;
	int64_t owed;

	metered_up(&b);
	b.tp->locals = calloc(1, sizeof(*b.tp->locals));
	flood_add(&b, 1, BIG, &(struct share_params){ 0 });
	assert_int_equal(share_create(b.tp, &(struct share_params){ 0 }, &s), 0);
	e = end_new(&b.p->h[0], &(struct end_opts){ .share = s });
	end_to_rtr(e, e, &(struct conn_opts){ .mtu = UROCE_MTU_4096 });
	end_to_rts(e, NULL);
	bench_turn(&b);
	end_send(e, &(struct wr){ .op = UROCE_WR_RDMA_WRITE, .sge = SGE(b.buf, BIG, b.mr), .nb_sge = 1, .remote_addr = ADDR(b.buf), .rkey = b.mr->key });
	for (uint32_t i = 0; s->advance == 0; i++) {
		assert_true(i < DEPTH);
		share_look(b.tp, s, &v);
		bench_turn(&b);
	}
	assert_in_range(s->advance, BIG / TP_REFERENCE_BYTES + TP_COST_REFERENCE, (BIG + 100) / TP_REFERENCE_BYTES + TP_COST_REFERENCE);
	expect_cqe(&e->scq, 0, UROCE_WC_SUCCESS);
	before = v.stats.cost;
	share_look(b.tp, s, &v);
	/* Its turn, another look at it, the delivery, the ACK, and the delivery of the ACK. */
	measured(v.stats.cost - before);
	assert_int_equal(v.stats.cost - before, 5 * TP_METER_MAX);
	/* It gets back what it has paid in advance, but not in the same turn. */
	owed = s->advance;
	before = (uint64_t)s->deficit;
	meter_advance(b.tp, s, 4000, 1);
	assert_int_equal((int64_t)before - s->deficit, 4000 / TP_REFERENCE_BYTES + TP_COST_REFERENCE);
	meter_settle(b.tp, s);
	assert_int_equal((int64_t)before - s->deficit, 4000 / TP_REFERENCE_BYTES + TP_COST_REFERENCE);
	b.tp->turn++;
	meter_settle(b.tp, s);
	assert_int_equal(s->deficit - (int64_t)before, owed);
	s->deficit = (int64_t)before;
	s->advance = owed;
	for (uint32_t i = 0; s->advance != 0; i++) {
		assert_true(i < DEPTH);
		bench_turn(&b);
	}
	end_free(e);
	share_destroy(b.tp, s);
	bench_down(&b);
}

/* It has moved since the packet was built: its share is another engine's. */
static void
a_QP_of_another_engine_pays_nothing(void **state)
{
	const struct wire_bth bth = { .opcode = WIRE_OP_WRITE_ONLY };
	struct tp_local *l;
	struct flood *f;
	struct bench b;
	struct qp *qp;

	metered_up(&b);
	b.tp->locals = calloc(1, sizeof(*b.tp->locals));
	f = add_pausing(&b);
	qp = f->ends[0]->qp;
	b.tp->meter_until_ns = UINT64_MAX;
	l = local_begin(b.tp, &qp->path.tmpl);
	assert_non_null(l);
	local_add(b.tp, l, qp, &wire_opcodes[bth.opcode], (struct wire_bth){ .opcode = bth.opcode, .dqpn = qp->qpn }, 0, 0);
	qp->tp = b.p->h[1].tp;
	rx_local(b.tp);
	qp->tp = b.tp;
	assert_int_equal(b.tp->counters.rx_unknown_qp, 1);
	assert_int_equal(look(&b, f).stats.cost, 0);
	bench_down(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_clock_is_the_CPUs),
		cmocka_unit_test(who_is_alone_pays_by_bytes),
		cmocka_unit_test(while_others_want_turns_time_is_measured),
		cmocka_unit_test(time_is_shared_by_weight),
		cmocka_unit_test(a_READ_is_not_paid_when_it_is_asked_for),
		cmocka_unit_test(what_goes_by_reference_is_paid_in_advance),
		cmocka_unit_test(a_QP_of_another_engine_pays_nothing),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
