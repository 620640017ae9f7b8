/* SPDX-License-Identifier: BSD-3-Clause */
/* More QPs than a cache or a TX vector has room for: they are fetched beforehand, and not looked at in vain. */
#include "share_rig.h"

#include "transport/core/prefetch_priv.h"

enum { PAIRS = 6, ROUNDS = 3, BYTES = 3000, FEW = 4, QKEY = 7 };

/* What comes of some messages of each kind, and of packets to QPs that are gone. */
struct outcome {
	struct tp_counters counters[2];
	uint32_t nb_log;
};

static void
post_each_kind(struct end *e, const uint8_t *from, const struct mr *src, const uint8_t *to, const struct mr *dst)
{
	static const enum uroce_wr_op ops[] = { UROCE_WR_SEND, UROCE_WR_RDMA_WRITE, UROCE_WR_RDMA_READ, UROCE_WR_ATOMIC_FETCH_AND_ADD };

	for (uint32_t i = 0; i < RTE_DIM(ops); i++)
		end_send(e, &(struct wr){ .id = i, .op = ops[i], .sge = SGE(from, ops[i] == UROCE_WR_ATOMIC_FETCH_AND_ADD ? 8 : BYTES, src), .nb_sge = 1,
					  .remote_addr = ADDR(to), .rkey = dst->key, .compare_add = 1 });
}

/* @param cached  QPs that are taken to be in a cache. */
static struct outcome
messages(uint16_t cached)
{
	struct pair *p = pair_new();
	struct end *a[PAIRS], *b[PAIRS];
	uint8_t *from = calloc(1, BYTES), *to = calloc(1, BYTES);
	struct mr *src = host_mr(&p->h[0], from, BYTES, ACCESS_ALL), *dst = host_mr(&p->h[1], to, BYTES, ACCESS_ALL);
	struct outcome out;

	for (uint32_t i = 0; i < PAIRS; i++) {
		a[i] = end_new(&p->h[0], NULL);
		b[i] = end_new(&p->h[1], NULL);
		ends_connect(a[i], b[i], &(struct conn_opts){ .mtu = UROCE_MTU_1024, .access = ACCESS_ALL });
	}
	for (uint32_t h = 0; h < 2; h++) {
		p->h[h].tp->c.limits.cached_qps = cached;
		assert_int_equal(prefetch_pays(p->h[h].tp), cached < PAIRS);
	}
	fill(from, BYTES, 1);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < PAIRS; i++) {
			end_recv(b[i], i, SGE(to, BYTES, dst), 1);
			post_each_kind(a[i], from, src, to, dst);
		}
		pair_settle(p);
		for (uint32_t i = 0; i < PAIRS; i++) {
			expect_cqe(&b[i]->rcq, i, UROCE_WC_SUCCESS);
			for (uint32_t id = 0; id < 4; id++)
				expect_cqe(&a[i]->scq, id, UROCE_WC_SUCCESS);
		}
	}
	/* Two of the packets of a batch are for nobody. */
	end_free(b[1]);
	end_free(b[3]);
	for (uint32_t i = 0; i < PAIRS; i++)
		end_send(a[i], &(struct wr){ .id = i, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(from, 8, src), .nb_sge = 1, .remote_addr = ADDR(to), .rkey = dst->key });
	pair_settle(p);
	for (uint32_t i = 0; i < PAIRS; i++) {
		if (i == 1 || i == 3)
			expect_no_cqe(&a[i]->scq);
		else
			expect_cqe(&a[i]->scq, i, UROCE_WC_SUCCESS);
	}
	for (uint32_t h = 0; h < 2; h++)
		out.counters[h] = *transport_counters(p->h[h].tp);
	out.nb_log = p->nb_log;
	for (uint32_t i = 0; i < PAIRS; i++) {
		end_free(a[i]);
		if (i != 1 && i != 3)
			end_free(b[i]);
	}
	mr_destroy(p->h[0].sh.mrs, src);
	mr_destroy(p->h[1].sh.mrs, dst);
	free(from);
	free(to);
	pair_free(p);
	return out;
}

static void
fetching_beforehand_changes_nothing_else(void **state)
{
	struct outcome cached = messages(PAIRS), fetched = messages(1);

	assert_int_equal(cached.nb_log, fetched.nb_log);
	assert_memory_equal(cached.counters, fetched.counters, sizeof(cached.counters));
	assert_true(cached.counters[1].rx_packets > PAIRS * ROUNDS * 4);
}

static void
a_damaged_packet_among_others_is_dropped(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], NULL), *b = end_new(&p->h[1], NULL);
	struct rte_mbuf *pkts[FEW];
	struct tp_txvec *v;

	ends_connect(a, b, NULL);
	p->h[1].tp->c.limits.cached_qps = 0;
	for (uint32_t i = 0; i < FEW; i++) {
		end_recv(b, i, NULL, 0);
		end_send(a, &(struct wr){ .id = i, .op = UROCE_WR_SEND });
	}
	host_turn(&p->h[0]);
	v = transport_tx(p->h[0].tp, 0);
	assert_int_equal(v->n, FEW);
	memcpy(pkts, v->pkts, sizeof(pkts));
	v->n = 0;
	rte_pktmbuf_mtod(pkts[2], uint8_t *)[pkts[2]->data_len - 1] ^= 1;
	assert_int_equal(transport_rx(p->h[1].tp, 0, pkts, FEW, false, p->now), 0);
	assert_int_equal(transport_counters(p->h[1].tp)->rx_icrc_encapsulated, 1);
	for (uint32_t i = 0; i < 2; i++)
		expect_cqe(&b->rcq, i, UROCE_WC_SUCCESS);
	expect_no_cqe(&b->rcq);
	end_free(a);
	end_free(b);
	pair_free(p);
}

/* ---- No room ---- */
static uint32_t
no_room(const struct bench *b)
{
	return (uint32_t)transport_counters(b->tp)->tx_no_room;
}

static void
few_are_looked_at_while_the_port_is_full(void **state)
{
	uint32_t before;
	struct bench b;

	bench_up(&b);
	flood_add(&b, MAX_ENDS, 64, &(struct share_params){ 0 });
	b.tp->c.limits.tx_packets = FEW;
	flood_post(&b, b.f);
	for (uint32_t i = 0; i < 10; i++) {
		before = no_room(&b);
		transport_run(b.tp, b.p->now += STEP_NS);
		assert_int_equal(transport_tx(b.tp, 0)->n, FEW);
		assert_in_range(no_room(&b) - before, 1, TP_VAIN_LOOKS + 1);
	}
	port_send(&b);
	transport_run(b.tp, b.p->now += STEP_NS);
	assert_int_equal(transport_tx(b.tp, 0)->n, FEW);
	port_send(&b);
	bench_down(&b);
}

/* Whatever remains of the number of QPs divided by that of the looks. */
static void
those_without_room_get_it_by_turns(void **state)
{
	for (uint32_t n = 5; n <= MAX_ENDS; n++) {
		uint64_t least = UINT64_MAX, most = 0;
		struct bench b;

		bench_up(&b);
		flood_add(&b, n, 64, &(struct share_params){ 0 });
		b.tp->c.limits.tx_packets = b.room = FEW;
		bench_run(&b, MANY);
		for (uint32_t i = 0; i < n; i++) {
			least = RTE_MIN(least, b.f[0].ends[i]->qp->sched.tx_packets);
			most = RTE_MAX(most, b.f[0].ends[i]->qp->sched.tx_packets);
		}
		if (least * 10 < most * 9)
			fail_msg("%u QPs: one has sent %lu packets, another one %lu", n, (unsigned long)most, (unsigned long)least);
		b.room = 0;
		port_send(&b);
		bench_down(&b);
	}
}

static void
one_whose_packets_stay_here_gets_its_turn_while_the_port_is_full(void **state)
{
	struct bench b;
	struct flood *f;
	struct end *e;
	uint32_t ah;

	bench_up(&b);
	f = flood_add(&b, MAX_ENDS, 64, &(struct share_params){ 0 });
	b.tp->c.limits.tx_packets = FEW;
	flood_post(&b, f);
	transport_run(b.tp, b.p->now += STEP_NS);
	e = end_new(&b.p->h[0], &(struct end_opts){ .type = UROCE_QPT_UD, .share = f->share });
	ah = host_ah(&b.p->h[0], PAIR_PD, false, true);
	ud_to_rts(e, QKEY);
	end_send(e, &(struct wr){ .op = UROCE_WR_SEND, .rkey = QKEY, .remote_addr = (uint64_t)qp_num(e->qp) << 32 | ah });
	for (uint32_t i = 0; i < MAX_ENDS / TP_VAIN_LOOKS + 1; i++)
		transport_run(b.tp, b.p->now += STEP_NS);
	expect_cqe(&e->scq, 0, UROCE_WC_SUCCESS);
	assert_int_equal(transport_tx(b.tp, 0)->n, FEW);
	port_send(&b);
	pair_settle(b.p);
	assert_int_equal(ah_destroy(b.p->h[0].sh.ahs, ah), 0);
	end_free(e);
	bench_down(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fetching_beforehand_changes_nothing_else),
		cmocka_unit_test(a_damaged_packet_among_others_is_dropped),
		cmocka_unit_test(few_are_looked_at_while_the_port_is_full),
		cmocka_unit_test(those_without_room_get_it_by_turns),
		cmocka_unit_test(one_whose_packets_stay_here_gets_its_turn_while_the_port_is_full),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
