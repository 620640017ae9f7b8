/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <rte_eal.h>
#include <rte_mbuf.h>

#include "impair.h"
#include "wire.h"

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
		{ "queue=0", "impair: queue=0: must be a number from 1 to 8192 packets" },
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
	};

	if (rte_eal_init(8, eal) < 0)
		return 1;
	pool = rte_pktmbuf_pool_create("p", 2047, 0, 0, 512 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
	if (pool == NULL)
		return 1;
	return cmocka_run_group_tests_name("impair", tests, NULL, NULL);
}
