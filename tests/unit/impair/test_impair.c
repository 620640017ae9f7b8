/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "impair.h"
#include "wire/wire.h"

static struct rte_mempool *pool;

static struct impair *
make(const char *text)
{
	struct impair_params p;
	char err[256] = "";
	struct impair *im;

	assert_int_equal(impair_parse(text, &p, err, sizeof(err)), 0);
	im = impair_create(2, &p);
	assert_non_null(im);
	return im;
}

/** An IPv4 RoCE v2 frame, ECT(0), whose first payload byte is @p tag. */
static struct rte_mbuf *
packet(uint8_t opcode, uint32_t qpn, uint32_t psn, uint8_t tag)
{
	struct wire_addr a = { .ip_version = 4, .traffic_class = 2, .ttl = 64, .sport = 0xc000, .sip = { 198, 18, 0, 1 }, .dip = { 198, 18, 0, 2 } };
	struct wire_bth bth = { .opcode = opcode, .dqpn = qpn, .psn = psn, .pkey = 0xffff };
	struct wire_tmpl t;
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint8_t *f;

	assert_non_null(m);
	f = (uint8_t *)rte_pktmbuf_append(m, 14 + 20 + 8 + 12 + 4 + 4);
	wire_tmpl_build(&t, &a);
	wire_tmpl_write(&t, f, 12 + 4 + 4, 0);
	wire_put_bth(f + t.bth_off, &bth);
	memset(f + t.bth_off + 12, tag, 4);
	wire_tmpl_seal(&t, f, 12 + 4 + 4);
	return m;
}

static uint8_t
tag_of(struct rte_mbuf *m)
{
	return rte_pktmbuf_mtod(m, uint8_t *)[14 + 20 + 8 + 12];
}

static void
free_all(void **pkts, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		rte_pktmbuf_free(pkts[i]);
}

/** Send @p n packets one by one, free what comes out. */
static void
send_many(struct impair *im, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		void *v[8] = { packet(4, 5, i, 0) };

		free_all(v, impair_burst(im, 0, v, 1, 8, i * 1000));
	}
}

static void
without_settings_everything_passes_in_order(void **state)
{
	struct impair *im = make("");
	void *v[4];

	for (int i = 0; i < 4; i++)
		v[i] = packet(4, 5, i, i);
	assert_int_equal(impair_burst(im, 0, v, 4, 4, 1000), 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(tag_of(v[i]), i);
	free_all(v, 4);
	impair_destroy(im);
}

static void
loss_has_its_rate_and_burst_its_length(void **state)
{
	struct impair_counters c;
	struct impair *im = make("loss=0.1,seed=3");

	send_many(im, 20000);
	impair_counters(im, &c);
	assert_in_range(c.lost, 1800, 2200);
	assert_int_equal(c.passed, 20000 - c.lost);
	impair_destroy(im);
	im = make("loss=0.1,burst=5,seed=3");
	send_many(im, 20000);
	impair_counters(im, &c);
	assert_in_range(c.lost, 1500, 2500);
	impair_destroy(im);
}

static void
one_seed_one_fate(void **state)
{
	struct impair_counters a, b;
	struct impair *im = make("loss=0.2,dup=0.1,corrupt=0.1,seed=9");

	send_many(im, 1000);
	impair_counters(im, &a);
	impair_destroy(im);
	im = make("loss=0.2,dup=0.1,corrupt=0.1,seed=9");
	send_many(im, 1000);
	impair_counters(im, &b);
	impair_destroy(im);
	assert_memory_equal(&a, &b, sizeof(a));
}

static void
duplicates_and_reordering(void **state)
{
	struct impair *im = make("dup=1");
	void *v[8] = { packet(4, 5, 1, 7) };

	assert_int_equal(impair_burst(im, 0, v, 1, 8, 0), 2);
	assert_int_equal(tag_of(v[0]), 7);
	assert_int_equal(tag_of(v[1]), 7);
	free_all(v, 2);
	impair_destroy(im);

	im = make("rule=delay/psn=1,gap=10");
	v[0] = packet(4, 5, 1, 1);
	assert_int_equal(impair_burst(im, 0, v, 1, 8, 0), 0);
	v[0] = packet(4, 5, 2, 2);
	assert_int_equal(impair_burst(im, 0, v, 1, 8, 5000), 1);
	assert_int_equal(tag_of(v[0]), 2);
	free_all(v, 1);
	assert_int_equal(impair_burst(im, 0, v, 0, 8, 9999), 0);
	assert_int_equal(impair_burst(im, 0, v, 0, 8, 10000), 1);
	assert_int_equal(tag_of(v[0]), 1);
	free_all(v, 1);
	impair_destroy(im);
}

static void
corruption_breaks_one_bit(void **state)
{
	struct impair *im = make("corrupt=1,seed=5");
	struct rte_mbuf *good = packet(4, 5, 1, 7);
	void *v[1] = { packet(4, 5, 1, 7) };
	unsigned int bits = 0;

	assert_int_equal(impair_burst(im, 0, v, 1, 1, 0), 1);
	for (uint32_t i = 0; i < rte_pktmbuf_data_len(good); i++)
		bits += (unsigned int)__builtin_popcount(rte_pktmbuf_mtod(good, uint8_t *)[i] ^
							 rte_pktmbuf_mtod((struct rte_mbuf *)v[0], uint8_t *)[i]);
	assert_int_equal(bits, 1);
	free_all(v, 1);
	rte_pktmbuf_free(good);
	impair_destroy(im);
}

static void
ecn_marks_and_the_packet_stays_valid(void **state)
{
	struct impair *im = make("ecn=1");
	void *v[1] = { packet(4, 5, 1, 7) };
	struct wire_pkt p;

	assert_int_equal(impair_burst(im, 0, v, 1, 1, 0), 1);
	assert_int_equal(wire_parse(rte_pktmbuf_mtod((struct rte_mbuf *)v[0], uint8_t *), rte_pktmbuf_data_len((struct rte_mbuf *)v[0]), true, &p),
			 WIRE_OK);
	assert_int_equal(p.ecn, 3);
	free_all(v, 1);
	impair_destroy(im);
}

static void
rate_spaces_packets_and_its_queue_is_bounded(void **state)
{
	struct impair *im = make("rate=1000,queue=4");
	struct impair_counters c;
	void *v[8];
	uint16_t n;

	for (int i = 0; i < 8; i++)
		v[i] = packet(4, 5, i, i);
	assert_int_equal(impair_burst(im, 0, v, 8, 8, 0), 0);
	impair_counters(im, &c);
	assert_int_equal(c.queue_dropped, 4);
	/* 62 bytes and 24 of framing at 1 Gbit/s are 688 ns. */
	assert_int_equal(n = impair_burst(im, 0, v, 0, 8, 687), 0);
	assert_int_equal(n = impair_burst(im, 0, v, 0, 8, 688), 1);
	free_all(v, n);
	assert_int_equal(n = impair_burst(im, 0, v, 0, 8, 688 * 4), 3);
	free_all(v, n);
	impair_destroy(im);
}

static void
rules_hit_what_they_name(void **state)
{
	struct impair *im = make("rule=drop/opcode=0x11/qpn=5/psn=10-20/skip=1/count=2");
	struct impair_counters c;
	static const struct { uint8_t opcode; uint32_t qpn, psn; bool passes; } t[] = {
		{ 0x11, 5, 10, true }, /* skipped */
		{ 0x04, 5, 10, true }, { 0x11, 6, 10, true }, { 0x11, 5, 9, true }, { 0x11, 5, 21, true },
		{ 0x11, 5, 20, false }, { 0x11, 5, 15, false },
		{ 0x11, 5, 15, true }, /* count reached */
	};

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		void *v[1] = { packet(t[i].opcode, t[i].qpn, t[i].psn, 0) };
		uint16_t n = impair_burst(im, 1, v, 1, 1, 0);

		assert_int_equal(n, t[i].passes);
		free_all(v, n);
	}
	impair_counters(im, &c);
	assert_int_equal(c.rule_hits, 2);
	impair_destroy(im);
}

static void
each_queue_keeps_its_own_packets_and_rules_hit_on_all(void **state)
{
	struct impair *im = make("rule=drop/opcode=0x11,rule=delay/qpn=9,rule=dup/psn=100-199/count=2,gap=10");
	struct impair_counters c;
	void *v[8];

	/* Held for queue 0: queue 1 never sees it, however late it is. */
	v[0] = packet(4, 9, 1, 1);
	assert_int_equal(impair_burst(im, 0, v, 1, 8, 0), 0);
	v[0] = packet(4, 5, 2, 2);
	assert_int_equal(impair_burst(im, 1, v, 1, 8, 20000), 1);
	assert_int_equal(tag_of(v[0]), 2);
	free_all(v, 1);
	assert_int_equal(impair_burst(im, 1, v, 0, 8, 20000), 0);
	assert_int_equal(impair_burst(im, 0, v, 0, 8, 20000), 1);
	assert_int_equal(tag_of(v[0]), 1);
	free_all(v, 1);
	/* One opcode, on either. */
	for (uint16_t q = 0; q < 2; q++) {
		v[0] = packet(0x11, 5, 7, 3);
		v[1] = packet(0x0a, 5, 7, 4);
		assert_int_equal(impair_burst(im, q, v, 2, 8, 30000), 1);
		assert_int_equal(tag_of(v[0]), 4);
		free_all(v, 1);
	}
	/* A range of PSNs; the count is the port's. */
	for (uint16_t q = 0; q < 2; q++) {
		v[0] = packet(4, 5, q == 0 ? 100 : 199, 5);
		assert_int_equal(impair_burst(im, q, v, 1, 8, 40000), 2);
		free_all(v, 2);
		v[0] = packet(4, 5, q == 0 ? 99 : 200, 6);
		assert_int_equal(impair_burst(im, q, v, 1, 8, 40000), 1);
		free_all(v, 1);
	}
	v[0] = packet(4, 5, 150, 7);
	assert_int_equal(impair_burst(im, 0, v, 1, 8, 40000), 1);
	free_all(v, 1);
	impair_counters(im, &c);
	assert_int_equal(c.rules[0], 2);
	assert_int_equal(c.rules[1], 1);
	assert_int_equal(c.rules[2], 2);
	assert_int_equal(c.rule_hits, 5);
	impair_destroy(im);
}

enum { PORT_QUEUES = 2, PORT_PACKETS = 20000 };

/** One queue of a port on a thread of its own: a packet into its ring, what comes out of the port. */
struct poller {
	uint16_t port, queue;
	struct rte_ring *ring;
	uint64_t received, foreign;
};

static void *
poll_queue(void *arg)
{
	struct poller *p = arg;

	for (uint32_t i = 0; i < PORT_PACKETS; i++) {
		struct rte_mbuf *m = packet(4, 5 + p->queue, i, (uint8_t)p->queue), *v[8];
		uint16_t n;

		assert_int_equal(rte_ring_sp_enqueue(p->ring, m), 0);
		n = rte_eth_rx_burst(p->port, p->queue, v, 8);
		for (uint16_t k = 0; k < n; k++) {
			p->received++;
			p->foreign += tag_of(v[k]) != p->queue;
		}
		free_all((void **)v, n);
	}
	return NULL;
}

static uint16_t
ring_port(struct rte_ring **rings)
{
	struct rte_eth_conf conf = { 0 };
	int port = rte_eth_from_rings("impair", rings, PORT_QUEUES, rings, PORT_QUEUES, 0);

	assert_true(port >= 0);
	assert_int_equal(rte_eth_dev_configure((uint16_t)port, PORT_QUEUES, PORT_QUEUES, &conf), 0);
	for (uint16_t q = 0; q < PORT_QUEUES; q++) {
		assert_int_equal(rte_eth_rx_queue_setup((uint16_t)port, q, 64, 0, NULL, pool), 0);
		assert_int_equal(rte_eth_tx_queue_setup((uint16_t)port, q, 64, 0, NULL), 0);
	}
	assert_int_equal(rte_eth_dev_start((uint16_t)port), 0);
	return (uint16_t)port;
}

static void
settings_change_while_two_lcores_receive(void **state)
{
	struct impair_params lossy, clean;
	struct rte_ring *rings[PORT_QUEUES];
	struct poller p[PORT_QUEUES];
	pthread_t t[PORT_QUEUES];
	struct impair_counters c;
	struct impair *im;
	char err[256], name[20];
	uint16_t port;

	for (int q = 0; q < PORT_QUEUES; q++) {
		snprintf(name, sizeof(name), "impair%d", q);
		rings[q] = rte_ring_create(name, 64, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
		assert_non_null(rings[q]);
	}
	port = ring_port(rings);
	assert_int_equal(impair_parse("loss=0.5,rule=drop/qpn=6", &lossy, err, sizeof(err)), 0);
	assert_int_equal(impair_parse("", &clean, err, sizeof(err)), 0);
	assert_int_equal(impair_attach(port, PORT_QUEUES, &lossy, &im), 0);
	for (uint16_t q = 0; q < PORT_QUEUES; q++) {
		p[q] = (struct poller){ .port = port, .queue = q, .ring = rings[q] };
		assert_int_equal(pthread_create(&t[q], NULL, poll_queue, &p[q]), 0);
	}
	do
		impair_counters(im, &c);
	while (c.received < PORT_PACKETS / 4 || c.rule_hits == 0);
	impair_set(im, &clean);
	for (int q = 0; q < PORT_QUEUES; q++)
		pthread_join(t[q], NULL);
	impair_counters(im, &c);
	assert_int_equal(c.received, PORT_QUEUES * PORT_PACKETS);
	assert_int_equal(c.passed + c.lost, c.received);
	assert_int_equal(p[0].received + p[1].received, c.passed);
	assert_int_equal(p[0].foreign + p[1].foreign, 0);
	assert_true(c.lost >= PORT_PACKETS / 16 && p[0].received > 0);
	assert_true(p[1].received < PORT_PACKETS);
	impair_detach(im);
	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
	for (int q = 0; q < PORT_QUEUES; q++)
		rte_ring_free(rings[q]);
}

static void
settings_as_text_parse_to_the_same(void **state)
{
	static const char *const texts[] = {
		"", "loss=0.01", "burst=3,seed=18000000000000000000", "gap=10,queue=5,ecn_queue=2,rate=1000",
		"jitter=0.5,rule=drop/opcode=0x04/qpn=0x11/psn=10-20/skip=1/count=3,rule=mark",
	};

	for (unsigned int i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct impair_params a, b;
		char err[256], text[IMPAIR_TEXT_BYTES], again[IMPAIR_TEXT_BYTES];

		assert_int_equal(impair_parse(texts[i], &a, err, sizeof(err)), 0);
		impair_format(&a, text, sizeof(text));
		assert_int_equal(impair_parse(text, &b, err, sizeof(err)), 0);
		assert_string_equal(impair_format(&b, again, sizeof(again)), text);
		assert_int_equal(strlen(text) > 0, strlen(texts[i]) > 0);
	}
	/* Everything at its longest fits. */
	{
		char text[IMPAIR_TEXT_BYTES];
		struct impair_params p = { .loss = 1.0 / 3, .burst = 1000.0 / 3, .dup = 1.0 / 3, .reorder = 1.0 / 3,
					   .corrupt = 1.0 / 3, .ecn = 1.0 / 3, .delay_us = 1e7 / 3, .jitter_us = 1e7 / 3,
					   .gap_us = 1e7 / 3, .rate_mbps = 1e6 / 3, .queue = 8191, .ecn_queue = 8191,
					   .seed = UINT64_MAX, .nb_rules = IMPAIR_RULES_MAX };

		for (unsigned int i = 0; i < IMPAIR_RULES_MAX; i++)
			p.rules[i] = (struct impair_rule){ .action = IMPAIR_CORRUPT, .opcode = 255, .qpn = 0xffffff,
							   .psn_min = 0xfffffe, .psn_max = 0xffffff,
							   .skip = INT64_MAX, .count = INT64_MAX };
		assert_true(strlen(impair_format(&p, text, sizeof(text))) < sizeof(text) - 1);
	}
}

static void
vdevs_are_taken_out_of_eals_arguments(void **state)
{
	char *argv[] = { "uroced", "-l", "0-1", "--vdev", "net_impair0,loss=0.25,port=net_memif0,seed=4", "--vdev",
			 "net_memif0,role=server", "--vdev=net_impair12,port=0000:03:00.0", "--no-pci", NULL };
	struct impair_vdevs v;
	char err[512];
	int argc = 9;

	assert_int_equal(impair_vdevs_take(&argc, argv, &v, err, sizeof(err)), 0);
	assert_int_equal(argc, 6);
	assert_string_equal(argv[3], "--vdev");
	assert_string_equal(argv[4], "net_memif0,role=server");
	assert_string_equal(argv[5], "--no-pci");
	assert_null(argv[6]);
	assert_int_equal(v.n, 2);
	assert_string_equal(v.vdev[0].name, "net_impair0");
	assert_string_equal(v.vdev[0].port, "net_memif0");
	assert_string_equal(v.vdev[0].settings, "loss=0.25,seed=4");
	assert_true(v.vdev[0].params.loss == 0.25 && v.vdev[0].params.seed == 4);
	assert_string_equal(v.vdev[1].port, "0000:03:00.0");
	assert_string_equal(v.vdev[1].settings, "");
}

static void
wrong_vdevs_are_named_with_the_remedy(void **state)
{
	static const struct {
		const char *first, *second, *says;
	} t[] = {
		{ "net_impair0,loss=0.1", NULL, "--vdev net_impair0: port= is missing: name the ethdev" },
		{ "net_impair0,port=,loss=0.1", NULL, "--vdev net_impair0: port=: must be the name of one ethdev" },
		{ "net_impair0,port=a,port=b", NULL, "--vdev net_impair0: port=b: must be the name of one ethdev" },
		{ "net_impair0,port=a,loss=1.5", NULL, "--vdev net_impair0: impair: loss=1.5: must be a number from 0 to 1" },
		{ "net_impair0,port=a,lag=1", NULL, "--vdev net_impair0: impair: unknown key \"lag\": known are" },
		{ "net_impair,port=a", NULL, "--vdev net_impair: must be net_impair and a number" },
		{ "net_impairs,port=a", NULL, "--vdev net_impairs: must be net_impair and a number" },
		{ "net_impair0,port=a", "net_impair0,port=b", "--vdev net_impair0,port=b: net_impair0 impairs a already" },
		{ "net_impair0,port=a", "net_impair1,port=a", "--vdev net_impair1,port=a: net_impair0 impairs a already" },
	};

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char *argv[] = { "uroced", "--vdev", (char *)(uintptr_t)t[i].first, "--vdev",
				 (char *)(uintptr_t)t[i].second, NULL };
		struct impair_vdevs v;
		char err[512] = "";
		int argc = t[i].second != NULL ? 5 : 3;

		assert_int_equal(impair_vdevs_take(&argc, argv, &v, err, sizeof(err)), EINVAL);
		if (strncmp(err, t[i].says, strlen(t[i].says)) != 0)
			fail_msg("%s: got \"%s\", expected \"%s\"", t[i].first, err, t[i].says);
	}
}

static void
more_than_fits_comes_at_the_next_poll(void **state)
{
	struct impair *im = make("dup=1");
	void *v[2] = { packet(4, 5, 1, 1), packet(4, 5, 2, 2) };

	assert_int_equal(impair_burst(im, 0, v, 2, 2, 0), 2);
	free_all(v, 2);
	assert_int_equal(impair_burst(im, 0, v, 0, 2, 0), 2);
	free_all(v, 2);
	assert_int_equal(impair_burst(im, 0, v, 0, 2, 0), 0);
	impair_destroy(im);
}

static void
bad_options_name_the_key_and_the_range(void **state)
{
	static const struct { const char *text, *expect; } t[] = {
		{ "loss=2", "impair: loss=2: must be a number from 0 to 1" },
		{ "loss=-1", "impair: loss=-1: must be a number from 0 to 1" },
		{ "loss=nan", "impair: loss=nan: must be a number from 0 to 1" },
		{ "loss=", "impair: loss=: must be a number from 0 to 1" },
		{ "loss", "impair: \"loss\" has no value: expected KEY=VALUE" },
		{ "lost=1", "impair: unknown key \"lost\"" },
		{ "queue=0", "impair: queue=0: must be a whole number from 1 to 8192 packets" },
		{ "queue=1e2", "impair: queue=1e2: must be a whole number from 1 to 8192 packets" },
		{ "seed=1.5", "impair: seed=1.5: must be a whole number from 0 to" },
		{ "seed=0x10", "impair: seed=0x10: must be a whole number from 0 to" },
		{ "delay=1e9", "impair: delay=1e9: must be a number from 0 to 10000000 us" },
		{ "rule=lose/psn=1", "impair: rule \"lose\": must begin with drop" },
		{ "rule=drop/psn=9-1", "impair: rule: psn=9-1: known are" },
		{ "rule=drop/opcode=256", "impair: rule: opcode=256: known are" },
		{ "rule=drop/qpn", "impair: rule: \"qpn\" has no value" },
	};

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct impair_params p;
		char err[256] = "";

		assert_int_equal(impair_parse(t[i].text, &p, err, sizeof(err)), EINVAL);
		if (strncmp(err, t[i].expect, strlen(t[i].expect)) != 0)
			fail_msg("%s: got \"%s\", expected \"%s\"", t[i].text, err, t[i].expect);
	}
}

int
main(void)
{
	char *eal[] = { "test", "--no-huge", "-m", "64", "--no-pci", "--no-shconf", "--no-telemetry", "--log-level=error", NULL };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_settings_everything_passes_in_order),
		cmocka_unit_test(loss_has_its_rate_and_burst_its_length),
		cmocka_unit_test(one_seed_one_fate),
		cmocka_unit_test(duplicates_and_reordering),
		cmocka_unit_test(corruption_breaks_one_bit),
		cmocka_unit_test(ecn_marks_and_the_packet_stays_valid),
		cmocka_unit_test(rate_spaces_packets_and_its_queue_is_bounded),
		cmocka_unit_test(rules_hit_what_they_name),
		cmocka_unit_test(more_than_fits_comes_at_the_next_poll),
		cmocka_unit_test(bad_options_name_the_key_and_the_range),
		cmocka_unit_test(each_queue_keeps_its_own_packets_and_rules_hit_on_all),
		cmocka_unit_test(settings_change_while_two_lcores_receive),
		cmocka_unit_test(settings_as_text_parse_to_the_same),
		cmocka_unit_test(vdevs_are_taken_out_of_eals_arguments),
		cmocka_unit_test(wrong_vdevs_are_named_with_the_remedy),
	};

	if (rte_eal_init(8, eal) < 0)
		return 1;
	pool = rte_pktmbuf_pool_create("p", 2047, 0, 0, 512 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
	if (pool == NULL)
		return 1;
	return cmocka_run_group_tests_name("impair", tests, NULL, NULL);
}
