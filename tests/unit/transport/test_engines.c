/* SPDX-License-Identifier: BSD-3-Clause */
/* Several engines on one host: packets find the engine of their QP, completions of several engines share a CQ. */
#include <errno.h>

#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>

#include "rig.h"

/* What the second engine of host 1 was given. */
static struct {
	struct transport *second;
	uint32_t packets;
	uint64_t now;
} handed;

static void
hand_over(void *arg, unsigned int engine, uint16_t port, struct rte_mbuf *m, bool trusted)
{
	assert_int_equal(engine, 1);
	assert_false(trusted);
	handed.packets++;
	assert_int_equal(transport_rx(handed.second, port, &m, 1, trusted, handed.now), 0);
}

static struct transport *
engine_new(struct host *h, unsigned int n, bool with_handoff)
{
	struct transport_config c = { .sh = h->sh, .nb_ports = 1,
				      .engine = n, .handoff = with_handoff ? hand_over : NULL,
				      .ports[0] = { .features = TP_FEATURES_ALL } };
	struct transport *tp = transport_create(&c);

	assert_non_null(tp);
	return tp;
}

static void
packets_go_to_the_engine_of_their_qp(void **state)
{
	struct pair *p = pair_new();
	struct host *h = &p->h[1], second = *h;
	struct end *a = end_new(&p->h[0], NULL), *b;
	struct transport *first = h->tp;
	uint8_t buf[64] = { 0 };
	struct mr *mr = host_mr(h, buf, sizeof(buf), ACCESS_ALL);

	/* Engine 0 of host 1 is replaced by one that can hand over; the QP lives on engine 1. */
	h->tp = engine_new(h, 0, true);
	second.tp = handed.second = engine_new(h, 1, true);
	handed.packets = 0;
	handed.now = p->now;
	b = end_new(&second, NULL);
	assert_int_equal(qp_engine(b->qp), 1);
	ends_connect(a, b, NULL);
	end_send(a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .inline_data = "handed", .inline_bytes = 6,
				  .remote_addr = ADDR(buf), .rkey = mr->key });
	pair_settle(p);
	assert_int_equal(handed.packets, 1);
	assert_memory_equal(buf, "handed", 6);
	assert_int_equal(transport_counters(h->tp)->rx_packets, 0);
	assert_int_equal(transport_counters(h->tp)->rx_handoff, 1);
	assert_int_equal(transport_counters(second.tp)->rx_packets, 1);
	/* Its ACK leaves by its own TX vector. */
	transport_run(second.tp, p->now);
	assert_int_equal(transport_tx(second.tp, 0)->n, 1);
	assert_int_equal(transport_rx(p->h[0].tp, 0, transport_tx(second.tp, 0)->pkts, 1, false, p->now), 0);
	transport_tx(second.tp, 0)->n = 0;
	pair_settle(p);
	expect_cqe(&a->scq, 1, UROCE_WC_SUCCESS);
	end_free(a);
	end_free(b);
	transport_destroy(second.tp);
	transport_destroy(h->tp);
	h->tp = first;
	mr_destroy(h->sh.mrs, mr);
	pair_free(p);
}

static void
without_a_way_to_the_other_engine_packets_are_dropped(void **state)
{
	struct pair *p = pair_new();
	struct host *h = &p->h[1], second = *h;
	struct end *a = end_new(&p->h[0], NULL), *b;

	second.tp = engine_new(h, 1, false);
	b = end_new(&second, NULL);
	ends_connect(a, b, NULL);
	end_send(a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE });
	pair_settle(p);
	assert_int_equal(transport_counters(h->tp)->rx_handoff_dropped, 1);
	end_free(a);
	end_free(b);
	transport_destroy(second.tp);
	pair_free(p);
}

/* A destroyed QP's memory stays until every engine has been quiescent; its number is gone at once. */
static void
destroyed_qp_outlives_its_readers(void **state)
{
	struct rte_rcu_qsbr *qsbr = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN(rte_rcu_qsbr_get_memsize(2), 64));
	struct pair *p = pair_new();
	struct qp_table *old = p->h[0].sh.qps;
	struct transport *old_tp = p->h[0].tp;
	struct end *e;
	struct qp *qp;
	uint32_t n;

	assert_non_null(qsbr);
	rte_rcu_qsbr_init(qsbr, 2);
	rte_rcu_qsbr_thread_register(qsbr, 0);
	rte_rcu_qsbr_thread_online(qsbr, 0);
	p->h[0].sh.qps = qp_table_create(8, qsbr, 0);
	p->h[0].tp = engine_new(&p->h[0], 0, false);
	e = end_new(&p->h[0], NULL);
	n = qp_num(e->qp);
	qp = qp_table_get(p->h[0].sh.qps, n);
	end_free(e);
	assert_null(qp_table_get(p->h[0].sh.qps, n));
	/* Still readable: an address sanitizer would complain. */
	assert_int_equal(qp_num(qp), n);
	assert_int_equal(qp_engine(qp), 0);
	rte_rcu_qsbr_quiescent(qsbr, 0);
	transport_destroy(p->h[0].tp);
	qp_table_destroy(p->h[0].sh.qps);
	p->h[0].tp = old_tp;
	p->h[0].sh.qps = old;
	free(qsbr);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_go_to_the_engine_of_their_qp),
		cmocka_unit_test(without_a_way_to_the_other_engine_packets_are_dropped),
		cmocka_unit_test(destroyed_qp_outlives_its_readers),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
