/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs and SRQs that go from one transport of a host to another together: all or none of them, with what they have received so far. */
#include <errno.h>

#include "rig.h"
#include "transport/core/copy_priv.h"
#include "transport/core/srq_priv.h"
#include "transport/move.h"

enum { QPS = 2, MTU = 1024, DEPTH = 16, XRCD = 3, SRQN = 0x120005, SRQN2 = 0x340006, PSN = 100 };

/* Two QPs of host 0, each with a peer at host 1; the peers receive from SRQs. Host 1 has two transports in place of its own. */
struct group {
	struct pair *p;
	struct host *h;
	struct transport *own, *first, *second;
	unsigned int limit_events;
	struct end *a[QPS], *b[QPS];
	struct end_srq *s[2];
	uint32_t nb_srqs;
	uint8_t *buf;
	struct mr *mr, *amr;
};

static void
count_event(void *arg, const struct tp_event *ev)
{
	struct group *g = arg;

	g->limit_events += ev->type == UROCE_EVENT_SRQ_LIMIT_REACHED;
}

static void
hand_over(void *arg, unsigned int engine, uint16_t port, struct rte_mbuf *m, bool trusted)
{
	fail_msg("a packet for engine %u is handed over", engine);
}

static struct transport *
transport_new(struct group *g, unsigned int engine, const struct tp_pool_sizes *pools)
{
	const struct transport_config c = { .nb_ports = 1, .engine = engine, .ports[0] = { .features = TP_FEATURES_ALL }, .sh = g->h->sh,
					    .pools = *pools, .event = count_event, .handoff = hand_over, .arg = g };
	struct transport *tp = transport_create(&c);

	assert_non_null(tp);
	return tp;
}

static void
up(struct group *g, bool xrc, const struct tp_pool_sizes *second)
{
	*g = (struct group){ .p = pair_new() };
	g->h = &g->p->h[1];
	g->own = g->h->tp;
	g->h->tp = g->first = transport_new(g, 0, &(struct tp_pool_sizes){ 0 });
	g->second = transport_new(g, 1, second);
	g->buf = calloc(1, BUF);
	g->amr = host_mr(&g->p->h[0], g->buf, BUF, ACCESS_ALL);
	g->mr = host_mr(g->h, g->buf, BUF, ACCESS_ALL);
	g->nb_srqs = xrc ? 2 : 1;
	g->s[0] = xrc ? xsrq_new(g->h, PAIR_PD, XRCD, SRQN, DEPTH) : srq_new(g->h, DEPTH, 4);
	g->s[1] = xrc ? xsrq_new(g->h, PAIR_PD, XRCD, SRQN2, DEPTH) : NULL;
	for (int i = 0; i < QPS; i++) {
		g->a[i] = end_new(&g->p->h[0], &(struct end_opts){ .type = xrc ? UROCE_QPT_XRC_SEND : UROCE_QPT_RC });
		g->b[i] = xrc ? end_new(g->h, &(struct end_opts){ .type = UROCE_QPT_XRC_RECV, .xrcd = XRCD }) :
				end_new(g->h, &(struct end_opts){ .srq = g->s[0] });
		ends_connect(g->a[i], g->b[i], &(struct conn_opts){ .psn = PSN });
	}
}

static void
down(struct group *g)
{
	for (int i = 0; i < QPS; i++) {
		end_free(g->a[i]);
		end_free(g->b[i]);
	}
	for (uint32_t i = 0; i < g->nb_srqs; i++)
		srq_free(g->h, g->s[i]);
	mr_destroy(g->p->h[0].sh.mrs, g->amr);
	mr_destroy(g->h->sh.mrs, g->mr);
	free(g->buf);
	transport_destroy(g->first);
	transport_destroy(g->second);
	g->h->tp = g->own;
	pair_free(g->p);
}

static struct qp_move *
move_new(struct group *g)
{
	struct qp_move *m = qp_move_create(g->second, QPS, g->nb_srqs);

	assert_non_null(m);
	for (uint32_t i = 0; i < g->nb_srqs; i++)
		qp_move_add_srq(m, g->s[i]->srq);
	for (int i = 0; i < QPS; i++)
		qp_move_add(m, g->b[i]->qp, NULL);
	return m;
}

static void
all_are_at(const struct group *g, const struct transport *tp)
{
	for (int i = 0; i < QPS; i++)
		assert_int_equal(qp_engine_now(g->b[i]->qp), tp == NULL ? -1 : tp == g->second);
	for (uint32_t i = 0; i < g->nb_srqs; i++)
		assert_ptr_equal(g->s[i]->srq->tp, tp);
}

/** From qp_move_check() having said 0 to the end. What arrives for host 1 arrives at the second transport from then on. */
static void
complete(struct group *g, struct qp_move *m)
{
	qp_move_leave(m, g->first);
	all_are_at(g, NULL);
	assert_int_equal(qp_move_pause(m), 0);
	qp_move_take_held(m, g->first, g->p->now);
	assert_int_equal(qp_move_arrives_ns(m), g->p->now + TP_MOVE_QUIET_NS);
	g->p->now += TP_MOVE_QUIET_NS;
	qp_move_arrive(m, g->p->now);
	qp_move_run_held(m, g->p->now);
	qp_move_end(m);
	qp_move_destroy(m);
	all_are_at(g, g->second);
	g->h->tp = g->second;
}

/** Receives of two SGEs: what is taken needs a block of the pool. */
static void
post_receives(struct group *g)
{
	for (uint32_t i = 0; i < QPS; i++) {
		const struct ring_sge sges[2] = { { ADDR(g->buf) + i * 4 * MTU, MTU, g->mr->key }, { ADDR(g->buf) + i * 4 * MTU + MTU, 2 * MTU, g->mr->key } };

		srq_post(g->s[0], 70 + i, sges, 2);
	}
}

static void
packet_comes(struct group *g, int i, uint8_t op, uint32_t psn, uint8_t byte)
{
	const struct wire_bth b = { .opcode = op, .psn = psn, .migreq = true, .ackreq = true };
	uint8_t payload[MTU];

	memset(payload, byte, sizeof(payload));
	pair_inject(g->p, g->b[i], &b, payload, sizeof(payload));
}

static void
message_has_come(struct group *g, uint32_t i)
{
	struct ring_cqe e;
	union ring_cqe_ctl ctl;

	pair_settle(g->p);
	assert_true(cq_poll(&g->b[i]->rcq, &e, &ctl));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_int_equal(e.wr_id, 70 + i);
	assert_int_equal(e.byte_len, 2 * MTU);
	for (uint32_t k = 0; k < 2 * MTU; k++)
		assert_int_equal(g->buf[i * 4 * MTU + k], (k < MTU ? 1 : 2) + 10 * i);
	expect_no_cqe(&g->b[i]->rcq);
}

static void
messages_of_an_srq_that_are_half_received_go_on(void **state)
{
	struct qp_move *m;
	struct group g;

	up(&g, false, &(struct tp_pool_sizes){ 0 });
	post_receives(&g);
	srq_set_limit(g.s[0]->srq, 1);
	for (int i = 0; i < QPS; i++)
		packet_comes(&g, i, WIRE_OP_SEND_FIRST, PSN, (uint8_t)(1 + 10 * i));
	m = move_new(&g);
	assert_int_equal(qp_move_check(m, g.first, g.p->now), EAGAIN);
	assert_int_equal(qp_move_reserve(m), 0);
	assert_int_equal(qp_move_check(m, g.first, g.p->now), 0);
	all_are_at(&g, g.first);
	complete(&g, m);
	for (int i = 0; i < QPS; i++)
		packet_comes(&g, i, WIRE_OP_SEND_LAST, PSN + 1, (uint8_t)(2 + 10 * i));
	for (uint32_t i = 0; i < QPS; i++)
		message_has_come(&g, i);
	/* It was told before they moved, and isn't told again. */
	assert_int_equal(g.limit_events, 1);
	assert_int_equal(srq_limit(g.s[0]->srq), 0);
	down(&g);
}

static void
pool_that_has_too_few_for_a_group_keeps_all_of_it(void **state)
{
	struct qp_move *m;
	struct group g;

	up(&g, false, &(struct tp_pool_sizes){ .sge_blocks = 1 });
	post_receives(&g);
	for (int i = 0; i < QPS; i++)
		packet_comes(&g, i, WIRE_OP_SEND_FIRST, PSN, (uint8_t)(1 + 10 * i));
	m = move_new(&g);
	assert_int_equal(qp_move_check(m, g.first, g.p->now), EAGAIN);
	assert_int_equal(qp_move_reserve(m), ENOMEM);
	assert_int_equal(qp_move_check(m, g.first, g.p->now), EAGAIN);
	qp_move_end(m);
	qp_move_destroy(m);
	all_are_at(&g, g.first);
	packet_comes(&g, 0, WIRE_OP_SEND_LAST, PSN + 1, 2);
	message_has_come(&g, 0);
	/* One is enough now, and was given back. */
	m = move_new(&g);
	assert_int_equal(qp_move_check(m, g.first, g.p->now), EAGAIN);
	assert_int_equal(qp_move_reserve(m), 0);
	assert_int_equal(qp_move_check(m, g.first, g.p->now), 0);
	complete(&g, m);
	packet_comes(&g, 1, WIRE_OP_SEND_LAST, PSN + 1, 12);
	message_has_come(&g, 1);
	down(&g);
}

static void
one_that_copies_keeps_all_of_its_group(void **state)
{
	struct tp_copy busy = { .slots = { [COPY_SEND] = { .running = true } } };
	struct qp_move *m;
	struct group g;

	up(&g, false, &(struct tp_pool_sizes){ .sge_blocks = QPS });
	post_receives(&g);
	for (int i = 0; i < QPS; i++)
		packet_comes(&g, i, WIRE_OP_SEND_FIRST, PSN, (uint8_t)(1 + 10 * i));
	for (int i = 0; i < QPS; i++) {
		m = move_new(&g);
		assert_int_equal(qp_move_check(m, g.first, g.p->now), EAGAIN);
		assert_int_equal(qp_move_reserve(m), 0);
		g.b[i]->qp->copy = &busy;
		assert_int_equal(qp_move_check(m, g.first, g.p->now), EBUSY);
		g.b[i]->qp->copy = NULL;
		all_are_at(&g, g.first);
		/* All that was reserved is given back, and can be reserved again. */
		qp_move_end(m);
		qp_move_destroy(m);
	}
	m = move_new(&g);
	assert_int_equal(qp_move_check(m, g.first, g.p->now), EAGAIN);
	assert_int_equal(qp_move_reserve(m), 0);
	assert_int_equal(qp_move_check(m, g.first, g.p->now), 0);
	complete(&g, m);
	down(&g);
}

static void
write_comes(struct group *g, int i, uint32_t psn)
{
	const struct wire_bth b = { .opcode = WIRE_OP_WRITE_ONLY, .psn = psn & 0xffffff, .migreq = true };
	uint8_t after[WIRE_RETH_BYTES + 4] = { 0 };

	wire_put_reth(after, ADDR(g->buf), g->mr->key, 4);
	pair_inject(g->p, g->b[i], &b, after, sizeof(after));
}

static uint32_t
expected_psn(const struct group *g, int i)
{
	struct uroce_qp_attr a;

	qp_query(g->b[i]->qp, &a);
	return a.rq_psn;
}

/** As many as the peers of 16 QPs send without an acknowledgement: in order, and one more is counted. */
static void
packets_that_come_meanwhile_are_held(void **state)
{
	const uint32_t each = TP_HELD / QPS;
	struct qp_move *m;
	struct group g;

	assert_int_equal(TP_HELD, 16 * TP_CWND_MAX);
	up(&g, false, &(struct tp_pool_sizes){ 0 });
	m = move_new(&g);
	assert_int_equal(qp_move_check(m, g.first, g.p->now), 0);
	qp_move_leave(m, g.first);
	for (uint32_t k = 0; k < each; k++)
		for (int i = 0; i < QPS; i++)
			write_comes(&g, i, PSN + k);
	assert_int_equal(transport_counters(g.first)->rx_moving_held, TP_HELD);
	assert_int_equal(transport_counters(g.first)->rx_moving_dropped, 0);
	write_comes(&g, 0, PSN + each);
	assert_int_equal(transport_counters(g.first)->rx_moving_dropped, 1);
	qp_move_take_held(m, g.first, g.p->now);
	qp_move_arrive(m, g.p->now);
	qp_move_run_held(m, g.p->now);
	qp_move_end(m);
	qp_move_destroy(m);
	g.h->tp = g.second;
	for (int i = 0; i < QPS; i++)
		assert_int_equal(expected_psn(&g, i), PSN + each);
	assert_int_equal(transport_counters(g.second)->out_of_sequence, 0);
	pair_settle(g.p);
	down(&g);
}

static void
xrc_srqs_are_found_where_the_targets_are(void **state)
{
	struct ring_cqe e;
	union ring_cqe_ctl ctl;
	struct qp_move *m;
	struct group g;

	up(&g, true, &(struct tp_pool_sizes){ 0 });
	m = move_new(&g);
	assert_int_equal(qp_move_check(m, g.first, g.p->now), 0);
	complete(&g, m);
	for (int i = 0; i < QPS; i++) {
		assert_null(srq_find(g.first, g.s[i]->srqn));
		assert_ptr_equal(srq_find(g.second, g.s[i]->srqn), g.s[i]->srq);
		srq_post(g.s[i], 80, SGE(g.buf, MTU, g.mr), 1);
		end_send(g.a[!i], &(struct wr){ .id = 9, .op = UROCE_WR_SEND, .sge = SGE(g.buf + 8192, 100, g.amr), .nb_sge = 1, .srqn = g.s[i]->srqn });
		pair_settle(g.p);
		expect_cqe(&g.a[!i]->scq, 9, UROCE_WC_SUCCESS);
		assert_true(cq_poll(&g.s[i]->cq, &e, &ctl));
		assert_int_equal(e.wr_id, 80);
		assert_int_equal(e.qpn, qp_num(g.b[!i]->qp));
	}
	down(&g);
}

/** The QP has still to let go of it, wherever that happens. */
static void
destroyed_xrc_srq_is_freed_with_a_target_that_has_moved(void **state)
{
	struct qp_move *m;
	struct group g;

	up(&g, true, &(struct tp_pool_sizes){ 0 });
	srq_post(g.s[0], 80, SGE(g.buf, MTU, g.mr), 1);
	end_send(g.a[0], &(struct wr){ .id = 9, .op = UROCE_WR_SEND, .sge = SGE(g.buf, 100, g.amr), .nb_sge = 1, .srqn = SRQN });
	pair_settle(g.p);
	assert_ptr_equal(g.b[0]->qp->rcv.srq, g.s[0]->srq);
	(void)expect_cqe(&g.s[0]->cq, 80, UROCE_WC_SUCCESS);
	srq_free(g.h, g.s[0]);
	g.s[0] = g.s[1];
	g.nb_srqs = 1;
	m = move_new(&g);
	assert_int_equal(qp_move_check(m, g.first, g.p->now), 0);
	complete(&g, m);
	down(&g);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_of_an_srq_that_are_half_received_go_on),
		cmocka_unit_test(pool_that_has_too_few_for_a_group_keeps_all_of_it),
		cmocka_unit_test(one_that_copies_keeps_all_of_its_group),
		cmocka_unit_test(packets_that_come_meanwhile_are_held),
		cmocka_unit_test(xrc_srqs_are_found_where_the_targets_are),
		cmocka_unit_test(destroyed_xrc_srq_is_freed_with_a_target_that_has_moved),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
