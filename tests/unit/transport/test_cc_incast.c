/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eight senders into one receiver over a bottleneck: a switch port with a queue that marks ECN between two
 * thresholds and drops when it is full. Everything under a virtual clock.
 */
#include "rig.h"
#include "transport/core/types_priv.h"

enum {
	SENDERS = 8,
	GBPS = 100,                 /* of every link */
	DELAY_NS = 2500,            /* each of two links, each way: 10 us round trip */
	FIFO = 8192,                /* packets on a link; a power of two */
	BUFFER_BYTES = 16 << 20,
	/* Of the HPCC simulator at 100 Gb/s. */
	K_MIN_BYTES = 400 << 10,
	K_MAX_BYTES = 1600 << 10,
	P_MAX_PERMILLE = 200,
	STEP_NS = 500,
	WARM_UP_NS = 10 * PAIR_MS,
	RUN_NS = 40 * PAIR_MS,
	MESSAGE = 64 << 10,
	DEPTH = 8,                  /* messages that a sender keeps posted */
};

/* Packets in flight, in order. */
struct fifo {
	struct { uint64_t at; struct rte_mbuf *m; } q[FIFO];
	uint32_t head, tail;
	uint64_t free_at; /* when the link has sent what was given to it */
};

struct incast {
	struct pair *p[SENDERS];       /* each with its sending host; the receiver is the first one's second */
	struct end *idle[SENDERS][SENDERS], *from[SENDERS], *to[SENDERS];
	struct mr *from_mr[SENDERS], *to_mr;
	uint8_t *from_buf, *to_buf;
	struct fifo access[SENDERS], bottleneck, back[SENDERS];
	uint64_t now, random;
	uint64_t queue_max, delivered[SENDERS], bytes, dropped, marked;
	bool counting;
};

static void
fifo_put(struct fifo *f, uint64_t at, struct rte_mbuf *m)
{
	assert_true(f->tail - f->head < FIFO);
	f->q[f->tail % FIFO].at = at;
	f->q[f->tail++ % FIFO].m = m;
}

static uint64_t
serialize(struct fifo *f, uint64_t at, const struct rte_mbuf *m)
{
	f->free_at = RTE_MAX(f->free_at, at) + m->pkt_len * 8 / GBPS;
	return f->free_at;
}

static uint32_t
random_permille(struct incast *w)
{
	w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(w->random >> 33) % 1000;
}

static struct host *
receiver(struct incast *w)
{
	return &w->p[0]->h[1];
}

static void
world_up(struct incast *w, enum tp_cc cc)
{
	const struct tp_port_config port = { .cc = cc, .mbps = GBPS * 1000, .features = TP_FEATURES_ALL };
	const struct conn_opts conn = { .mtu = UROCE_MTU_4096 };

	memset(w, 0, sizeof(*w));
	w->from_buf = calloc(1, MESSAGE);
	w->to_buf = calloc(1, MESSAGE);
	for (uint32_t i = 0; i < SENDERS; i++)
		w->p[i] = pair_new_cc(&port);
	w->now = w->p[0]->now;
	w->to_mr = host_mr(receiver(w), w->to_buf, MESSAGE, ACCESS_ALL);
	for (uint32_t i = 0; i < SENDERS; i++) {
		/* So that no two senders have the same QPN: it leads answers back. */
		for (uint32_t k = 0; k < i; k++)
			w->idle[i][k] = end_new(&w->p[i]->h[0], NULL);
		w->from_mr[i] = host_mr(&w->p[i]->h[0], w->from_buf, MESSAGE, ACCESS_ALL);
		w->from[i] = end_new(&w->p[i]->h[0], NULL);
		w->to[i] = end_new(receiver(w), NULL);
		ends_connect(w->from[i], w->to[i], &conn);
	}
}

static void
fifo_empty(struct fifo *f)
{
	for (; f->head != f->tail; f->head++)
		rte_pktmbuf_free(f->q[f->head % FIFO].m);
}

static void
world_down(struct incast *w)
{
	for (uint32_t i = 0; i < SENDERS; i++) {
		fifo_empty(&w->access[i]);
		fifo_empty(&w->back[i]);
		for (uint32_t k = 0; k < i; k++)
			end_free(w->idle[i][k]);
		end_free(w->from[i]);
		end_free(w->to[i]);
		mr_destroy(w->p[i]->h[0].sh.mrs, w->from_mr[i]);
	}
	fifo_empty(&w->bottleneck);
	mr_destroy(receiver(w)->sh.mrs, w->to_mr);
	free(w->from_buf);
	free(w->to_buf);
}

static void
post(struct incast *w, uint32_t i)
{
	end_send(w->from[i], &(struct wr){ .op = UROCE_WR_RDMA_WRITE, .sge = SGE(w->from_buf, MESSAGE, w->from_mr[i]),
					   .nb_sge = 1, .remote_addr = ADDR(w->to_buf), .rkey = w->to_mr->key });
}

/* A packet reaches the switch. */
static void
enqueue(struct incast *w, uint64_t at, struct rte_mbuf *m)
{
	struct fifo *f = &w->bottleneck;
	uint64_t queue = f->free_at > at ? (f->free_at - at) * GBPS / 8 : 0;

	if (w->counting)
		w->queue_max = RTE_MAX(w->queue_max, queue);
	if (queue + m->pkt_len > BUFFER_BYTES) {
		w->dropped++;
		rte_pktmbuf_free(m);
		return;
	}
	if (queue > K_MAX_BYTES ||
	    (queue > K_MIN_BYTES &&
	     random_permille(w) < (queue - K_MIN_BYTES) * P_MAX_PERMILLE / (K_MAX_BYTES - K_MIN_BYTES))) {
		packet_mark_ce(m);
		w->marked++;
	}
	fifo_put(f, serialize(f, at, m) + DELAY_NS, m);
}

/* All access links into the switch, in the order of arrival. */
static void
switch_run(struct incast *w)
{
	for (;;) {
		struct fifo *first = NULL;

		for (uint32_t i = 0; i < SENDERS; i++) {
			struct fifo *f = &w->access[i];

			if (f->head != f->tail && f->q[f->head % FIFO].at <= w->now &&
			    (first == NULL || f->q[f->head % FIFO].at < first->q[first->head % FIFO].at))
				first = f;
		}
		if (first == NULL)
			return;
		enqueue(w, first->q[first->head % FIFO].at, first->q[first->head % FIFO].m);
		first->head++;
	}
}

static void
count(struct incast *w, struct rte_mbuf *m)
{
	uint32_t qpn = wire_get24(rte_pktmbuf_mtod_offset(m, uint8_t *, WIRE_ETH_BYTES + WIRE_IPV4_BYTES +
							  WIRE_UDP_BYTES + 5));

	w->bytes += m->pkt_len;
	for (uint32_t i = 0; i < SENDERS; i++)
		w->delivered[i] += qpn == qp_num(w->to[i]->qp) ? m->pkt_len : 0;
}

static void
receiver_run(struct incast *w)
{
	struct fifo *f = &w->bottleneck;
	struct tp_txvec *v = transport_tx(receiver(w)->tp, 0);

	for (; f->head != f->tail && f->q[f->head % FIFO].at <= w->now; f->head++) {
		struct rte_mbuf *m = f->q[f->head % FIFO].m;

		if (w->counting)
			count(w, m);
		assert_int_equal(transport_rx(receiver(w)->tp, 0, &m, 1, true, w->now), 0);
	}
	transport_run(receiver(w)->tp, w->now);
	for (uint16_t k = 0; k < v->n; k++) {
		uint32_t qpn = wire_get24(rte_pktmbuf_mtod_offset(v->pkts[k], uint8_t *, WIRE_ETH_BYTES +
								  WIRE_IPV4_BYTES + WIRE_UDP_BYTES + 5));
		uint32_t i = 0;

		while (qp_num(w->from[i]->qp) != qpn)
			i++;
		fifo_put(&w->back[i], serialize(&w->back[i], w->now, v->pkts[k]) + 2 * DELAY_NS, v->pkts[k]);
	}
	v->n = 0;
}

static void
sender_run(struct incast *w, uint32_t i)
{
	struct transport *tp = w->p[i]->h[0].tp;
	struct tp_txvec *v = transport_tx(tp, 0);
	struct fifo *f = &w->back[i];
	struct ring_cqe e;

	for (; f->head != f->tail && f->q[f->head % FIFO].at <= w->now; f->head++) {
		struct rte_mbuf *m = f->q[f->head % FIFO].m;

		assert_int_equal(transport_rx(tp, 0, &m, 1, true, w->now), 0);
	}
	while (cq_poll(&w->from[i]->scq, &e, NULL)) {
		assert_int_equal(e.status, UROCE_WC_SUCCESS);
		post(w, i);
	}
	transport_run(tp, w->now);
	for (uint16_t k = 0; k < v->n; k++)
		fifo_put(&w->access[i], serialize(&w->access[i], w->now, v->pkts[k]) + DELAY_NS, v->pkts[k]);
	v->n = 0;
}

static void
run(struct incast *w, uint64_t ns)
{
	for (uint64_t end = w->now + ns; w->now < end; w->now += STEP_NS) {
		for (uint32_t i = 0; i < SENDERS; i++)
			sender_run(w, i);
		switch_run(w);
		receiver_run(w);
	}
}

static uint64_t
sum_probes(struct incast *w)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < SENDERS; i++)
		n += transport_counters(w->p[i]->h[0].tp)->tail_loss_probes;
	return n;
}

static double
measure(struct incast *w, const char *name)
{
	double share, smallest = 1e9, use;

	for (uint32_t i = 0; i < SENDERS; i++)
		for (uint32_t k = 0; k < DEPTH; k++)
			post(w, i);
	run(w, WARM_UP_NS);
	w->counting = true;
	run(w, RUN_NS);
	use = (double)w->bytes * 8 / GBPS / RUN_NS;
	for (uint32_t i = 0; i < SENDERS; i++) {
		share = (double)w->delivered[i] * SENDERS / (double)w->bytes;
		smallest = RTE_MIN(smallest, share);
	}
	print_message("%s: utilisation %.3f, smallest part of a fair share %.2f, longest queue %lu KiB, %lu marked, "
		      "%lu dropped, %lu probes\n", name, use, smallest, (unsigned long)w->queue_max >> 10,
		      (unsigned long)w->marked, (unsigned long)w->dropped, (unsigned long)sum_probes(w));
	assert_true(use >= 0.9);
	assert_int_equal(w->dropped, 0);
	return smallest;
}

/* @return the longest queue. */
static uint64_t
incast(enum tp_cc cc)
{
	struct incast *w = calloc(1, sizeof(*w));
	uint64_t queue;

	assert_non_null(w);
	world_up(w, cc);
	assert_true(measure(w, tp_cc_name(cc)) >= 0.5 || cc == TP_CC_NONE);
	queue = w->queue_max;
	world_down(w);
	/* The mempool is shared: until the first pair goes, the others' caches hold mbufs too. */
	for (uint32_t i = SENDERS - 1; i > 0; i--) {
		w->p[i]->mbufs_before = pair_mbufs_in_use() - w->p[i]->h[0].tp->nb_mbufs - w->p[i]->h[1].tp->nb_mbufs;
		pair_free(w->p[i]);
	}
	pair_free(w->p[0]);
	free(w);
	return queue;
}

static void
dcqcn_shares_a_bottleneck(void **state)
{
	assert_true(incast(TP_CC_DCQCN) <= K_MAX_BYTES);
}

static void
swift_shares_a_bottleneck(void **state)
{
	/* Its delay target, not the marks, keeps the queue: 50 us at this speed. */
	assert_true(incast(TP_CC_SWIFT) <= 50 * 1000 * GBPS / 8);
}

static void
without_control_the_queue_is_what_the_senders_have(void **state)
{
	assert_true(incast(TP_CC_NONE) > K_MAX_BYTES);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dcqcn_shares_a_bottleneck),
		cmocka_unit_test(swift_shares_a_bottleneck),
		cmocka_unit_test(without_control_the_queue_is_what_the_senders_have),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
