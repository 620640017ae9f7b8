/* SPDX-License-Identifier: BSD-3-Clause */
/* Before QPs move, all that they have sent is acknowledged: what they send from their new transport overtakes nothing then. */
#include <errno.h>

#include "rig.h"
#include "transport/core/rx_wait_priv.h"
#include "transport/move.h"

enum {
	QPS = 2,
	MTU = 1024,
	PSN = 96,                    /* a multiple of TP_ACKREQ_PACKETS: the packet that asks for an ACK by its number is far away */
	TURN = 5,                    /* packets of a QP's turn */
	PACKETS = 20,                /* of a message */
};

/* QPs of host 1, which has two transports in place of its own; their peers are at host 0. */
struct movers {
	struct pair *p;
	struct host *h;
	struct transport *own, *first, *second;
	struct end *peers[QPS], *e[QPS];
	uint8_t *buf;
	struct mr *mr, *peer_mr;
	unsigned int lost;           /* packets that the filter has lost */
};

static void
hand_over(void *arg, unsigned int engine, uint16_t port, struct rte_mbuf *m, bool trusted)
{
	fail_msg("a packet for engine %u is handed over", engine);
}

static struct transport *
transport_new(struct movers *g, unsigned int engine)
{
	const struct transport_config c = { .nb_ports = 1, .engine = engine, .ports[0] = { .features = TP_FEATURES_ALL }, .sh = g->h->sh,
					    .limits.qp_budget = TURN, .handoff = hand_over, .arg = g };
	struct transport *tp = transport_create(&c);

	assert_non_null(tp);
	return tp;
}

static void
up_as(struct movers *g, enum uroce_qp_type type)
{
	*g = (struct movers){ .p = pair_new() };
	g->h = &g->p->h[1];
	g->own = g->h->tp;
	g->h->tp = g->first = transport_new(g, 0);
	g->second = transport_new(g, 1);
	g->buf = calloc(1, BUF);
	g->mr = host_mr(g->h, g->buf, BUF, ACCESS_ALL);
	g->peer_mr = host_mr(&g->p->h[0], g->buf, BUF, ACCESS_ALL);
	for (int i = 0; i < QPS; i++) {
		g->peers[i] = end_new(&g->p->h[0], &(struct end_opts){ .type = type });
		g->e[i] = end_new(g->h, &(struct end_opts){ .type = type });
		ends_connect(g->peers[i], g->e[i], &(struct conn_opts){ .psn = PSN });
	}
}

static void
up(struct movers *g)
{
	up_as(g, UROCE_QPT_RC);
}

static void
down(struct movers *g)
{
	for (int i = 0; i < QPS; i++) {
		end_free(g->peers[i]);
		g->h->tp = g->e[i]->qp->tp;
		end_free(g->e[i]);
	}
	mr_destroy(g->p->h[0].sh.mrs, g->peer_mr);
	mr_destroy(g->h->sh.mrs, g->mr);
	free(g->buf);
	transport_destroy(g->first);
	transport_destroy(g->second);
	g->h->tp = g->own;
	pair_free(g->p);
}

static void
post(struct movers *g, int i, uint64_t id, enum uroce_wr_op op, uint32_t packets)
{
	end_send(g->e[i], &(struct wr){ .id = id, .op = op, .sge = SGE(g->buf, packets * MTU, g->mr), .nb_sge = 1,
					.remote_addr = ADDR(g->buf) + BUF / 2, .rkey = g->peer_mr->key });
}

/** A message that is sent by several turns: so far only a turn's packets, of which none asks for an ACK. */
static void
send_half(struct movers *g, int i)
{
	post(g, i, 7, UROCE_WR_RDMA_WRITE, PACKETS);
	host_turn(g->h);
}

static struct qp_move *
move_new(struct movers *g, int nb_qps)
{
	struct qp_move *m = qp_move_create(g->second, (uint32_t)nb_qps, 0);

	assert_non_null(m);
	for (int i = 0; i < nb_qps; i++)
		qp_move_add(m, g->e[i]->qp, NULL);
	return m;
}

static bool
drained(struct movers *g, struct qp_move *m)
{
	return qp_move_drain(m, g->first, g->p->now);
}

/** The QPs leave, and arrive @p pause later. */
static void
complete(struct movers *g, struct qp_move *m, uint64_t pause)
{
	int rc = qp_move_check(m, g->first, g->p->now);

	if (rc == EAGAIN) {
		assert_int_equal(qp_move_reserve(m), 0);
		rc = qp_move_check(m, g->first, g->p->now);
	}
	assert_int_equal(rc, 0);
	qp_move_leave(m, g->first);
	qp_move_take_held(m, g->first, g->p->now);
	g->p->now += pause;
	qp_move_arrive(m, g->p->now);
	qp_move_run_held(m, g->p->now);
	qp_move_end(m);
	g->h->tp = g->second;
}

static void
give_up(struct movers *g, struct qp_move *m)
{
	qp_move_stay(m, g->first, g->p->now);
	qp_move_end(m);
	qp_move_destroy(m);
}

static uint32_t
sent(const struct movers *g)
{
	return pair_count(g->p, 1, -1);
}

static struct wire_bth
last_sent(const struct movers *g)
{
	for (uint32_t i = g->p->nb_log; i > 0; i--)
		if (g->p->log[i - 1].from == 1)
			return g->p->log[i - 1].bth;
	fail_msg("nothing was sent");
	return (struct wire_bth){ 0 };
}

static void
nothing_was_sent_again(const struct movers *g)
{
	const struct transport *tps[] = { g->first, g->second };

	for (unsigned int i = 0; i < RTE_DIM(tps); i++) {
		assert_int_equal(transport_counters(tps[i])->retransmitted_packets, 0);
		assert_int_equal(transport_counters(tps[i])->packet_seq_err, 0);
	}
	assert_int_equal(transport_counters(g->p->h[0].tp)->out_of_sequence, 0);
	assert_int_equal(transport_counters(g->p->h[0].tp)->duplicate_request, 0);
}

/* ---- Filters ---- */
/** The answers of the QPs' peers don't arrive. */
static bool
lose_answers(struct pair *p, const struct note *n, void *arg)
{
	return n->from == 0;
}

/** The answers of the second QP's peer don't. */
static bool
lose_answers_to_the_second(struct pair *p, const struct note *n, void *arg)
{
	const struct movers *g = arg;

	return n->from == 0 && n->bth.dqpn == qp_num(g->e[1]->qp);
}

/** The packet that asks for an ACK doesn't arrive the first time. */
static bool
lose_who_asks(struct pair *p, const struct note *n, void *arg)
{
	struct movers *g = arg;

	return n->from == 1 && n->bth.ackreq && g->lost++ == 0;
}

static void
filter(struct movers *g, bool (*loses)(struct pair *p, const struct note *n, void *arg))
{
	g->p->lose = loses;
	g->p->lose_arg = g;
}

/* ---- Tests ---- */
static void
qp_leaves_when_all_that_it_has_sent_is_acknowledged(void **state)
{
	struct qp_move *m;
	struct movers g;

	up(&g);
	send_half(&g, 0);
	m = move_new(&g, 1);
	assert_false(drained(&g, m));
	assert_int_equal(sent(&g), 0);
	pair_settle(g.p);
	/* One packet more than it had sent: none of them had asked for an ACK. */
	assert_int_equal(sent(&g), TURN + 1);
	assert_int_equal(last_sent(&g).psn, PSN + TURN);
	assert_true(last_sent(&g).ackreq);
	assert_true(drained(&g, m));
	g.p->now += 5 * PAIR_US;
	complete(&g, m, 2 * PAIR_US);
	/* A QP that drains sends nothing new, so that counts. */
	assert_int_equal(qp_move_pause(m), 7 * PAIR_US);
	qp_move_destroy(m);
	pair_settle(g.p);
	assert_int_equal(sent(&g), PACKETS);
	expect_cqe(&g.e[0]->scq, 7, UROCE_WC_SUCCESS);
	assert_int_equal(transport_counters(g.first)->qps_undrained, 0);
	nothing_was_sent_again(&g);
	down(&g);
}

static void
last_packet_of_a_message_has_asked(void **state)
{
	struct qp_move *m;
	struct movers g;

	up(&g);
	post(&g, 0, 7, UROCE_WR_RDMA_WRITE, TURN);
	host_turn(g.h);
	m = move_new(&g, 1);
	assert_false(drained(&g, m));
	/* What is posted meanwhile waits. */
	post(&g, 0, 8, UROCE_WR_RDMA_WRITE, TURN);
	pair_settle(g.p);
	assert_int_equal(sent(&g), TURN);
	expect_cqe(&g.e[0]->scq, 7, UROCE_WC_SUCCESS);
	assert_true(drained(&g, m));
	assert_int_equal(g.e[0]->qp->req.wait, REQ_WAIT_MOVE);
	complete(&g, m, 0);
	qp_move_destroy(m);
	pair_settle(g.p);
	expect_cqe(&g.e[0]->scq, 8, UROCE_WC_SUCCESS);
	nothing_was_sent_again(&g);
	down(&g);
}

static void
qp_that_has_nothing_in_flight_leaves_at_once(void **state)
{
	struct qp_move *m;
	struct movers g;

	up(&g);
	post(&g, 0, 7, UROCE_WR_RDMA_WRITE, PACKETS);
	m = move_new(&g, QPS);
	assert_true(drained(&g, m));
	complete(&g, m, 0);
	qp_move_destroy(m);
	pair_settle(g.p);
	expect_cqe(&g.e[0]->scq, 7, UROCE_WC_SUCCESS);
	assert_int_equal(pair_count(g.p, 1, -1), PACKETS);
	nothing_was_sent_again(&g);
	down(&g);
}

static void
answers_to_reads_come_before_the_qp_leaves(void **state)
{
	struct qp_move *m;
	struct movers g;

	up(&g);
	post(&g, 0, 7, UROCE_WR_RDMA_READ, PACKETS);
	post(&g, 0, 8, UROCE_WR_RDMA_READ, PACKETS);
	host_turn(g.h);
	m = move_new(&g, 1);
	assert_false(drained(&g, m));
	post(&g, 0, 9, UROCE_WR_RDMA_READ, PACKETS);
	pair_settle(g.p);
	assert_int_equal(sent(&g), 2);
	expect_cqe(&g.e[0]->scq, 7, UROCE_WC_SUCCESS);
	expect_cqe(&g.e[0]->scq, 8, UROCE_WC_SUCCESS);
	expect_no_cqe(&g.e[0]->scq);
	assert_true(drained(&g, m));
	complete(&g, m, 0);
	qp_move_destroy(m);
	pair_settle(g.p);
	expect_cqe(&g.e[0]->scq, 9, UROCE_WC_SUCCESS);
	nothing_was_sent_again(&g);
	down(&g);
}

/** No clock has to move, and no program to ring. */
static void
qp_that_stays_goes_on_at_once(void **state)
{
	uint64_t now;
	struct qp_move *m;
	struct movers g;

	up(&g);
	now = g.p->now;
	send_half(&g, 0);
	m = move_new(&g, QPS);
	assert_false(drained(&g, m));
	/* The other one has had no work so far. */
	post(&g, 1, 9, UROCE_WR_RDMA_WRITE, 1);
	pair_settle(g.p);
	expect_no_cqe(&g.e[1]->scq);
	/* Long enough for its SQ to be watched no more. */
	pair_advance(g.p, 10 * TP_WATCH_NS);
	assert_true(drained(&g, m));
	now = g.p->now;
	give_up(&g, m);
	pair_settle(g.p);
	expect_cqe(&g.e[0]->scq, 7, UROCE_WC_SUCCESS);
	expect_cqe(&g.e[1]->scq, 9, UROCE_WC_SUCCESS);
	assert_int_equal(g.p->now, now);
	nothing_was_sent_again(&g);
	/* And it may be asked for once more: also before all is acknowledged. */
	send_half(&g, 0);
	m = move_new(&g, 1);
	assert_false(drained(&g, m));
	give_up(&g, m);
	pair_settle(g.p);
	expect_cqe(&g.e[0]->scq, 7, UROCE_WC_SUCCESS);
	assert_int_equal(sent(&g), 2 * PACKETS + 1);
	nothing_was_sent_again(&g);
	down(&g);
}

/** ... and only once, however long it takes. */
static void
qp_without_answers_leaves_in_the_end(void **state)
{
	struct qp_move *m;
	struct movers g;

	up(&g);
	filter(&g, lose_answers);
	send_half(&g, 0);
	m = move_new(&g, 1);
	assert_false(drained(&g, m));
	/* No round trip is known. */
	pair_advance(g.p, TP_DRAIN_MAX_NS - 1);
	assert_false(drained(&g, m));
	g.p->now++;
	assert_true(drained(&g, m));
	assert_int_equal(sent(&g), TURN + 1);
	complete(&g, m, 0);
	assert_int_equal(qp_move_pause(m), TP_DRAIN_MAX_NS);
	qp_move_destroy(m);
	assert_int_equal(transport_counters(g.first)->qps_undrained, 1);
	filter(&g, NULL);
	pair_settle(g.p);
	assert_int_equal(sent(&g), PACKETS);
	expect_cqe(&g.e[0]->scq, 7, UROCE_WC_SUCCESS);
	down(&g);
}

/** Who has short round trips needn't wait for long. */
static void
limit_follows_round_trips(void **state)
{
	static const struct {
		uint64_t pto, limit;
		bool brief;
	} cases[] = {
		{ TP_PROBE_MIN_NS, TP_DRAIN_MIN_NS, false },
		{ 3 * PAIR_MS, TP_DRAIN_PTOS * 3 * PAIR_MS, false },
		{ 500 * PAIR_MS, TP_DRAIN_MAX_NS, false },
		{ 500 * PAIR_MS, TP_DRAIN_MIN_NS, true },
	};

	for (unsigned int i = 0; i < RTE_DIM(cases); i++) {
		struct qp_move *m;
		struct movers g;

		up(&g);
		filter(&g, lose_answers);
		send_half(&g, 0);
		g.e[0]->qp->loss.pto_ns = (uint32_t)cases[i].pto;
		m = move_new(&g, 1);
		if (cases[i].brief)
			qp_move_be_brief(m);
		assert_false(drained(&g, m));
		g.p->now += cases[i].limit - 1;
		assert_false(drained(&g, m));
		g.p->now++;
		assert_true(drained(&g, m));
		give_up(&g, m);
		down(&g);
	}
}

/** What it has sent behind the packet that was refused is dropped, and comes again anyway. */
static void
qp_waits_for_a_peer_that_is_not_ready_wherever_it_is(void **state)
{
	struct qp_move *m;
	struct movers g;

	up(&g);
	post(&g, 0, 7, UROCE_WR_SEND, 1);
	pair_settle(g.p);
	assert_true(g.e[0]->qp->loss.rnr_wait);
	m = move_new(&g, 1);
	assert_true(drained(&g, m));
	assert_int_equal(host_turn(g.h), 0);
	assert_int_equal(g.e[0]->qp->req.wait, REQ_WAIT_RNR);
	complete(&g, m, 0);
	qp_move_destroy(m);
	assert_int_equal(transport_counters(g.first)->qps_undrained, 0);
	end_recv(g.peers[0], 8, SGE(g.buf, MTU, g.peer_mr), 1);
	pair_settle(g.p);
	expect_no_cqe(&g.e[0]->scq);
	pair_advance(g.p, 1000 * PAIR_MS);
	expect_cqe(&g.e[0]->scq, 7, UROCE_WC_SUCCESS);
	down(&g);
}

/** The others of a group wait for the last one, and send nothing either. */
static void
group_leaves_together(void **state)
{
	struct qp_move *m;
	struct movers g;

	up(&g);
	filter(&g, lose_answers_to_the_second);
	send_half(&g, 1);
	m = move_new(&g, QPS);
	assert_false(drained(&g, m));
	post(&g, 0, 8, UROCE_WR_RDMA_WRITE, 1);
	pair_settle(g.p);
	assert_int_equal(sent(&g), TURN + 1);
	assert_false(drained(&g, m));
	/* The ACK that was lost comes, since the packet is sent again. */
	filter(&g, NULL);
	pair_advance(g.p, 30 * PAIR_MS + 200 * PAIR_MS);
	assert_true(drained(&g, m));
	complete(&g, m, 0);
	qp_move_destroy(m);
	assert_int_equal(transport_counters(g.first)->qps_undrained, 0);
	pair_settle(g.p);
	expect_cqe(&g.e[0]->scq, 8, UROCE_WC_SUCCESS);
	expect_cqe(&g.e[1]->scq, 7, UROCE_WC_SUCCESS);
	down(&g);
}

/** What is lost is sent again while the QP drains: as far as it had come, and nothing beyond. */
static void
loss_is_repaired_meanwhile(void **state)
{
	struct qp_move *m;
	struct movers g;

	up(&g);
	filter(&g, lose_who_asks);
	send_half(&g, 0);
	m = move_new(&g, 1);
	assert_false(drained(&g, m));
	pair_settle(g.p);
	assert_int_equal(g.lost, 1);
	assert_false(drained(&g, m));
	pair_advance(g.p, 1000 * PAIR_MS);
	assert_true(drained(&g, m));
	assert_true(transport_counters(g.first)->retransmitted_packets > 0);
	assert_int_equal(g.e[0]->qp->req.psn_max, PSN + TURN + 1);
	complete(&g, m, 0);
	qp_move_destroy(m);
	assert_int_equal(transport_counters(g.first)->qps_undrained, 0);
	pair_settle(g.p);
	expect_cqe(&g.e[0]->scq, 7, UROCE_WC_SUCCESS);
	down(&g);
}

/** QPs that don't send any more have nothing to wait for. */
static void
state_that_ends_sending_ends_draining(void **state)
{
	static const enum uroce_qp_state ends[] = { UROCE_QPS_ERR, UROCE_QPS_RESET };

	for (unsigned int i = 0; i < RTE_DIM(ends); i++) {
		struct qp_move *m;
		struct movers g;

		up(&g);
		filter(&g, lose_answers);
		send_half(&g, 0);
		m = move_new(&g, 1);
		assert_false(drained(&g, m));
		pair_settle(g.p);
		assert_int_equal(end_state(g.e[0], ends[i]), 0);
		assert_true(drained(&g, m));
		complete(&g, m, 0);
		qp_move_destroy(m);
		pair_settle(g.p);
		if (ends[i] == UROCE_QPS_ERR)
			expect_cqe(&g.e[0]->scq, 7, UROCE_WC_WR_FLUSH_ERR);
		assert_int_equal(transport_counters(g.first)->qps_undrained, 0);
		down(&g);
	}
}

/** ... or ends before its message does. */
static void
qp_that_stays_may_be_destroyed(void **state)
{
	struct qp_move *m;
	struct movers g;

	up(&g);
	send_half(&g, 0);
	m = move_new(&g, 1);
	assert_false(drained(&g, m));
	give_up(&g, m);
	down(&g);
}

/** In SQD a message that has begun goes on to its end, at the new transport, too. */
static void
message_goes_on_in_sqd(void **state)
{
	struct qp_move *m;
	struct movers g;

	up(&g);
	send_half(&g, 0);
	post(&g, 0, 8, UROCE_WR_RDMA_WRITE, 1);
	m = move_new(&g, 1);
	assert_false(drained(&g, m));
	assert_int_equal(end_state(g.e[0], UROCE_QPS_SQD), 0);
	pair_settle(g.p);
	assert_int_equal(sent(&g), TURN + 1);
	assert_true(drained(&g, m));
	complete(&g, m, 0);
	qp_move_destroy(m);
	pair_settle(g.p);
	assert_int_equal(sent(&g), PACKETS);
	expect_cqe(&g.e[0]->scq, 7, UROCE_WC_SUCCESS);
	expect_no_cqe(&g.e[0]->scq);
	assert_int_equal(end_state(g.e[0], UROCE_QPS_RTS), 0);
	pair_settle(g.p);
	expect_cqe(&g.e[0]->scq, 8, UROCE_WC_SUCCESS);
	nothing_was_sent_again(&g);
	down(&g);
}

/** They are executed before the QP leaves. */
static void
packets_that_wait_for_a_turn_do_not_stay_behind(void **state)
{
	struct wire_pkt p = { 0 };
	struct rte_mbuf *packet;
	struct tp_txvec *tx;
	struct qp_move *m;
	struct movers g;

	up(&g);
	end_send(g.peers[0], &(struct wr){ .id = 5, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(g.buf, 1, g.peer_mr), .nb_sge = 1,
					   .remote_addr = ADDR(g.buf) + 1, .rkey = g.mr->key });
	g.buf[0] = 77;
	host_turn(&g.p->h[0]);
	tx = transport_tx(g.p->h[0].tp, 0);
	assert_int_equal(tx->n, 1);
	tx->n = 0;
	packet = tx->pkts[0];
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(packet, uint8_t *), packet->data_len, true, &p), WIRE_OK);
	assert_true(rx_wait_add(g.first, g.e[0]->qp, 0, packet, &p));
	m = move_new(&g, 1);
	assert_true(drained(&g, m));
	assert_int_equal(g.buf[1], 0);
	complete(&g, m, 0);
	qp_move_destroy(m);
	assert_int_equal(g.buf[1], 77);
	pair_settle(g.p);
	expect_cqe(&g.peers[0]->scq, 5, UROCE_WC_SUCCESS);
	down(&g);
}

/** Nothing is acknowledged. */
static void
uc_has_nothing_to_wait_for(void **state)
{
	struct qp_move *m;
	struct movers g;

	up_as(&g, UROCE_QPT_UC);
	send_half(&g, 0);
	m = move_new(&g, 1);
	assert_true(drained(&g, m));
	assert_int_equal(host_turn(g.h), 0);
	give_up(&g, m);
	pair_settle(g.p);
	expect_cqe(&g.e[0]->scq, 7, UROCE_WC_SUCCESS);
	assert_int_equal(sent(&g), PACKETS);
	down(&g);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qp_leaves_when_all_that_it_has_sent_is_acknowledged),
		cmocka_unit_test(last_packet_of_a_message_has_asked),
		cmocka_unit_test(qp_that_has_nothing_in_flight_leaves_at_once),
		cmocka_unit_test(answers_to_reads_come_before_the_qp_leaves),
		cmocka_unit_test(qp_that_stays_goes_on_at_once),
		cmocka_unit_test(qp_without_answers_leaves_in_the_end),
		cmocka_unit_test(limit_follows_round_trips),
		cmocka_unit_test(qp_waits_for_a_peer_that_is_not_ready_wherever_it_is),
		cmocka_unit_test(group_leaves_together),
		cmocka_unit_test(loss_is_repaired_meanwhile),
		cmocka_unit_test(state_that_ends_sending_ends_draining),
		cmocka_unit_test(qp_that_stays_may_be_destroyed),
		cmocka_unit_test(message_goes_on_in_sqd),
		cmocka_unit_test(packets_that_wait_for_a_turn_do_not_stay_behind),
		cmocka_unit_test(uc_has_nothing_to_wait_for),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
