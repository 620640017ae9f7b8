/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Multicast groups: what routers are told, when, and what the kernel is asked for. A fake sender, a virtual clock. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_eal.h>
#include <rte_mbuf.h>

#include "net/net_priv.h"

enum { SENT_MAX = 4096, FRAME_MAX = 256 };
#define SECOND_NS UINT64_C(1000000000)

static const uint8_t our_mac[6] = { 0x52, 0x54, 0x00, 0x18, 0x00, 0x01 };
static const struct gid group4 = { { [10] = 0xff, 0xff, 239, 18, 0, 1 } };
static const struct gid group6 = { { 0xff, 0x0e, [13] = 0x18, [15] = 1 } };

static struct rte_mempool *pool;

/** What Linux 6.1 sends for these groups from this MAC address, by IGMPv3 and MLDv2, and when told to use the old versions. */
static const struct {
	bool v6, old;
	enum group_record record;
	const char *frame;
} linux_frames[] = {
	{ false, false, GROUP_JOINED, "01005e000016525400180001080046c000280000400001023de6c6120001e000001694040000"
				      "2200eaea0000000104000000ef120001" },
	{ false, false, GROUP_LEFT, "01005e000016525400180001080046c000280000400001023de6c6120001e000001694040000"
				    "2200ebea0000000103000000ef120001" },
	{ true, false, GROUP_JOINED, "33330000001652540018000186dd6000000000240001fe80000000000000505400fffe180001"
				     "ff0200000000000000000000000000163a000502000001008f0020790000000104000000"
				     "ff0e0000000000000000000000180001" },
	{ true, false, GROUP_LEFT, "33330000001652540018000186dd6000000000240001fe80000000000000505400fffe180001"
				   "ff0200000000000000000000000000163a000502000001008f0021790000000103000000"
				   "ff0e0000000000000000000000180001" },
	{ false, true, GROUP_JOINED, "01005e120001525400180001080046c000200000400001022ef1c6120001ef12000194040000"
				     "1600faebef120001" },
	{ false, true, GROUP_LEFT, "01005e000002525400180001080046c000200000400001023e02c6120001e000000294040000"
				   "1700f9ebef120001" },
	{ true, true, GROUP_JOINED, "33330018000152540018000186dd6000000000200001fe80000000000000505400fffe180001"
				    "ff0e00000000000000000000001800013a000502000001008300306f00000000"
				    "ff0e0000000000000000000000180001" },
	{ true, true, GROUP_LEFT, "33330000000252540018000186dd6000000000200001fe80000000000000505400fffe180001"
				  "ff0200000000000000000000000000023a0005020000010084002f9200000000"
				  "ff0e0000000000000000000000180001" },
};
enum { LINUX_FRAMES = sizeof(linux_frames) / sizeof(linux_frames[0]) };

/** A port without an ethdev; its first member is what lib/net believes the kernel to be. */
struct fixture {
	struct net_kernel kernel;
	struct net_port p;
	struct net_gids gids;
	struct net_priv priv;
	uint64_t now;
	unsigned int nb_sent;
	struct {
		uint64_t at;
		uint16_t len;
		uint8_t frame[FRAME_MAX];
	} sent[SENT_MAX];
	unsigned int kernel_joins;
	int kernel_errno;
	struct gid kernel_group;
};

static void
fake_send(void *arg, struct net_port *p, struct rte_mbuf *m)
{
	struct fixture *f = arg;

	assert_in_range(f->nb_sent, 0, SENT_MAX - 1);
	f->sent[f->nb_sent].at = f->now;
	f->sent[f->nb_sent].len = rte_pktmbuf_data_len(m);
	memcpy(f->sent[f->nb_sent++].frame, rte_pktmbuf_mtod(m, void *), rte_pktmbuf_data_len(m));
	rte_pktmbuf_free(m);
}

static int
fake_join(void *kernel, const struct gid *mgid)
{
	struct fixture *f = kernel;

	if (f->kernel_errno != 0) {
		errno = f->kernel_errno;
		return -1;
	}
	f->kernel_joins++;
	f->kernel_group = *mgid;
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static const struct kernel_ops fake_kernel = { .join = fake_join };

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const uint8_t ip[4] = { 198, 18, 0, 1 };

	assert_non_null(f);
	f->now = 1000 * SECOND_NS;
	f->p.priv = &f->priv;
	f->p.index = 2;
	memcpy(f->p.mac, our_mac, 6);
	f->gids.addr[0] = (struct net_addr){ .gid = gid_link_local(our_mac), .prefix = 64 };
	f->gids.addr[1] = (struct net_addr){ .gid = gid_from_v4(ip), .prefix = 24 };
	f->p.gids = &f->gids;
	f->kernel.ops = &fake_kernel;
	f->priv.kernel = &f->kernel;
	f->priv.neigh = neigh_table_create(&neigh_own_ops);
	assert_non_null(f->priv.neigh);
	net_port_set_sender(&f->p, fake_send, f, pool);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	groups_clear(&f->p);
	neigh_table_destroy(f->priv.neigh);
	free(f);
	assert_int_equal(rte_mempool_in_use_count(pool), 0);
	return 0;
}

static uint16_t
unhex(const char *text, uint8_t *out)
{
	uint16_t n = 0;
	unsigned int v;

	for (; sscanf(text, "%2x", &v) == 1; text += 2)
		out[n++] = (uint8_t)v;
	return n;
}

/** Let the clock run. @return when the port wants to be called next. */
static uint64_t
pass(struct fixture *f, uint64_t ns)
{
	uint64_t end = f->now + ns, next;

	for (;;) {
		next = net_port_poll(&f->p, f->now);
		assert_true(next > f->now);
		if (next > end)
			break;
		f->now = next;
	}
	f->now = end;
	return next;
}

static void
join(struct fixture *f, const struct gid *mgid)
{
	assert_int_equal(net_group_join(&f->p, mgid, f->now), 0);
}

static void
leave(struct fixture *f, const struct gid *mgid)
{
	assert_int_equal(net_group_leave(&f->p, mgid, f->now), 0);
}

/** Packet @p i is the one of linux_frames for this. */
static void
expect_frame(const struct fixture *f, unsigned int i, bool v6, bool old, enum group_record record)
{
	uint8_t want[FRAME_MAX];
	uint16_t len;

	assert_in_range(i, 0, f->nb_sent - 1);
	for (unsigned int k = 0; k < LINUX_FRAMES; k++) {
		if (linux_frames[k].v6 != v6 || linux_frames[k].old != old || linux_frames[k].record != record)
			continue;
		len = unhex(linux_frames[k].frame, want);
		assert_int_equal(f->sent[i].len, len);
		assert_memory_equal(f->sent[i].frame, want, len);
		return;
	}
	fail();
}

/* ---- Formats ---- */
static void
reports_are_byte_for_byte_linuxs(void **state)
{
	struct fixture *f = *state;
	uint8_t want[FRAME_MAX], frame[FRAME_MAX];

	for (unsigned int k = 0; k < LINUX_FRAMES; k++) {
		uint16_t len = unhex(linux_frames[k].frame, want);

		assert_in_range(len, 1, GROUP_FRAME_MAX_BYTES);
		assert_int_equal(group_build(&f->p, 0, linux_frames[k].v6 ? &group6 : &group4, linux_frames[k].record,
					     linux_frames[k].old, frame),
				 len);
		assert_memory_equal(frame, want, len);
	}
}

static void
without_an_ipv4_address_igmp_comes_from_zero(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[FRAME_MAX];

	f->gids.addr[1] = (struct net_addr){ 0 };
	group_build(&f->p, 0, &group4, GROUP_JOINED, false, frame);
	assert_int_equal(wire_get32(frame + 14 + 12), 0);
	assert_int_equal(pkt_sum_finish(pkt_sum(frame + 14, 24, 0)), 0);
}

/** Report @p i went into VLAN @p vlan, 0: untagged, and came from @p source. */
static void
expect_report(const struct fixture *f, unsigned int i, uint16_t vlan, const struct gid *source)
{
	const uint8_t *frame = f->sent[i].frame, *ip = frame + (vlan != 0 ? NET_ETH_VLAN_BYTES : WIRE_ETH_BYTES);

	assert_int_equal(wire_get16(frame + 12) == WIRE_ETHERTYPE_VLAN ? wire_get16(frame + 14) : 0, vlan);
	assert_memory_equal(ip + (gid_is_v4(source) ? 12 : 8), gid_ip(source), gid_ip_bytes(source));
}

static void
reports_go_into_each_vlan(void **state)
{
	static const struct { const char *text; uint16_t vlan; } more[] = {
		{ "198.18.5.1/24@5", 5 }, { "198.18.6.1/24@5", 5 }, { "fd00:7::1/64@7", 7 }, { "fe80::7/64@9", 9 },
	};
	const uint8_t zero4[4] = { 0 };
	const struct gid none = gid_from_v4(zero4);
	struct fixture *f = *state;
	char err[100];

	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(net_addr_parse(more[i].text, &f->gids.addr[2 + i], err, sizeof(err)), 0);
	join(f, &group4);
	assert_int_equal(f->nb_sent, 4);
	expect_frame(f, 0, false, false, GROUP_JOINED);
	expect_report(f, 1, 5, &f->gids.addr[2].gid);
	expect_report(f, 2, 7, &none);
	expect_report(f, 3, 9, &none);
	f->nb_sent = 0;
	join(f, &group6);
	assert_int_equal(f->nb_sent, 4);
	expect_frame(f, 0, true, false, GROUP_JOINED);
	/* Routers want a link-local source. */
	expect_report(f, 1, 5, &f->gids.addr[0].gid);
	expect_report(f, 2, 7, &f->gids.addr[0].gid);
	expect_report(f, 3, 9, &f->gids.addr[5].gid);
}

/* ---- Joining and leaving ---- */
static void
joining_is_said_twice_and_so_is_leaving(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = f->now;

	for (unsigned int v6 = 0; v6 < 2; v6++) {
		const struct gid *g = v6 ? &group6 : &group4;

		f->nb_sent = 0;
		begin = f->now;
		join(f, g);
		assert_int_equal(f->nb_sent, 1);
		assert_true(pass(f, 10 * SECOND_NS) == UINT64_MAX);
		assert_int_equal(f->nb_sent, 2);
		assert_true(f->sent[1].at > begin && f->sent[1].at <= begin + SECOND_NS + 1);
		leave(f, g);
		assert_int_equal(f->nb_sent, 3);
		assert_true(pass(f, 10 * SECOND_NS) == UINT64_MAX);
		assert_int_equal(f->nb_sent, 4);
		expect_frame(f, 0, v6, false, GROUP_JOINED);
		expect_frame(f, 1, v6, false, GROUP_JOINED);
		expect_frame(f, 2, v6, false, GROUP_LEFT);
		expect_frame(f, 3, v6, false, GROUP_LEFT);
		assert_true(LIST_EMPTY(&f->priv.groups.list));
	}
}

static void
joins_are_counted(void **state)
{
	struct fixture *f = *state;

	join(f, &group4);
	join(f, &group4);
	pass(f, 5 * SECOND_NS);
	assert_int_equal(f->nb_sent, 2);
	leave(f, &group4);
	pass(f, 5 * SECOND_NS);
	assert_int_equal(f->nb_sent, 2);
	leave(f, &group4);
	/* Back before the second report that it was left: that isn't sent any more. */
	join(f, &group4);
	pass(f, 5 * SECOND_NS);
	assert_int_equal(f->nb_sent, 5);
	expect_frame(f, 2, false, false, GROUP_LEFT);
	expect_frame(f, 3, false, false, GROUP_JOINED);
	expect_frame(f, 4, false, false, GROUP_JOINED);
	leave(f, &group4);
	pass(f, 5 * SECOND_NS);
	assert_int_equal(net_group_leave(&f->p, &group4, f->now), EINVAL);
	assert_int_equal(net_group_leave(&f->p, &group6, f->now), EINVAL);
}

static void
groups_that_stay_on_the_link_are_not_reported(void **state)
{
	static const struct gid quiet[] = {
		{ { [10] = 0xff, 0xff, 224, 0, 0, 1 } }, { { 0xff, 0x02, [15] = 1 } }, { { 0xff, 0x01, [15] = 9 } },
		{ { 0xff, 0x10, [15] = 9 } },
	};
	struct fixture *f = *state;

	for (unsigned int i = 0; i < sizeof(quiet) / sizeof(quiet[0]); i++) {
		join(f, &quiet[i]);
		assert_true(pass(f, 2 * SECOND_NS) == UINT64_MAX);
		leave(f, &quiet[i]);
		assert_true(LIST_EMPTY(&f->priv.groups.list));
	}
	assert_int_equal(f->nb_sent, 0);
}

static void
only_multicast_addresses_and_not_too_many(void **state)
{
	static const struct gid host = { { 0xfd, [15] = 1 } };
	struct fixture *f = *state;
	struct gid g = { { 0xff, 0x01 } };

	assert_int_equal(net_group_join(&f->p, &host, f->now), EINVAL);
	assert_int_equal(net_group_join(&f->p, &f->gids.addr[1].gid, f->now), EINVAL);
	for (uint32_t i = 0; i <= NET_GROUPS_MAX; i++) {
		wire_put32(g.raw + 12, i);
		assert_int_equal(net_group_join(&f->p, &g, f->now), i == NET_GROUPS_MAX ? ENOSPC : 0);
	}
	wire_put32(g.raw + 12, 0);
	assert_int_equal(net_group_join(&f->p, &g, f->now), 0);
}

/* ---- Queries, as they come from the wire ---- */
struct query {
	bool v6, old;
	uint8_t group[16]; /* zero: all */
	uint16_t code;
	uint8_t ttl;
	uint32_t len; /* of the message; 0: what is right */
};

static uint16_t
build_query(const struct query *q, uint8_t *f)
{
	static const uint8_t router[16] = { 0xfe, 0x80, [15] = 0xfe };
	uint32_t len = q->len != 0 ? q->len : q->v6 ? (q->old ? 24 : 28) : (q->old ? 8 : 12);
	uint8_t *ip = f + 14, *m;

	memset(f, 0, 200);
	memcpy(f + 6, (const uint8_t[]){ 2, 9, 9, 9, 9, 9 }, 6);
	if (q->v6) {
		memcpy(f, (const uint8_t[]){ 0x33, 0x33, 0, 0, 0, 1 }, 6);
		wire_put16(f + 12, WIRE_ETHERTYPE_IPV6);
		ip[0] = 0x60;
		wire_put16(ip + 4, (uint16_t)(8 + len));
		ip[7] = q->ttl != 0 ? q->ttl : 1;
		memcpy(ip + 8, router, 16);
		ip[24] = 0xff;
		ip[25] = 0x02;
		ip[39] = 1;
		memcpy(ip + 40, (const uint8_t[]){ 58, 0, 5, 2, 0, 0, 1, 0 }, 8);
		m = ip + 48;
		m[0] = MLD_QUERY;
		wire_put16(m + 4, q->code);
		memcpy(m + 8, q->group, 16);
		wire_put16(m + 2, pkt_sum_finish(pkt_sum(m, len, pkt_sum_pseudo6(ip, len, 58))));
		return (uint16_t)(14 + 48 + len);
	}
	memcpy(f, (const uint8_t[]){ 1, 0, 0x5e, 0, 0, 1 }, 6);
	wire_put16(f + 12, WIRE_ETHERTYPE_IPV4);
	ip[0] = 0x46;
	wire_put16(ip + 2, (uint16_t)(24 + len));
	ip[8] = q->ttl != 0 ? q->ttl : 1;
	ip[9] = 2;
	memcpy(ip + 12, (const uint8_t[]){ 198, 18, 0, 254, 224, 0, 0, 1, 0x94, 4, 0, 0 }, 12);
	wire_put16(ip + 10, pkt_sum_finish(pkt_sum(ip, 24, 0)));
	m = ip + 24;
	m[0] = IGMP_QUERY;
	m[1] = (uint8_t)q->code;
	memcpy(m + 4, q->group + 12, 4);
	wire_put16(m + 2, pkt_sum_finish(pkt_sum(m, len, 0)));
	return (uint16_t)(14 + 24 + len);
}

/** A frame arrives. @return true if it was a query for the control thread, which gets it. */
static bool
arrive(struct fixture *f, const uint8_t *frame, uint16_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct net_counters c = { 0 };
	struct net_learned l;
	bool learned;

	memcpy(rte_pktmbuf_append(m, len), frame, len);
	assert_int_equal(net_rx(&f->p, m, &c, &l, &learned), NET_DROP);
	rte_pktmbuf_free(m);
	assert_int_equal(c.rx_mcast_query, learned);
	assert_int_equal(c.rx_ignored + c.rx_malformed, !learned);
	if (!learned)
		return false;
	assert_int_equal(l.kind, NET_LEARNED_QUERY);
	assert_int_equal(l.port, 2);
	net_learn(&f->p, &l, f->now);
	return true;
}

static bool
ask(struct fixture *f, const struct query *q)
{
	uint8_t frame[FRAME_MAX];
	uint16_t len = build_query(q, frame);

	return arrive(f, frame, len);
}

static void
quiet_members(struct fixture *f)
{
	join(f, &group4);
	join(f, &group6);
	pass(f, 10 * SECOND_NS);
	f->nb_sent = 0;
}

static void
queries_are_answered_within_their_time(void **state)
{
	static const struct {
		struct query q;
		uint64_t within_ms;
	} cases[] = {
		{ { .v6 = false, .code = 20 }, 2000 },
		{ { .v6 = false, .code = 0x8a }, (16 + 10) << 3 << 0 }, /* a floating-point number, in tenths of seconds */
		{ { .v6 = false, .code = 20, .group = { [12] = 239, 18, 0, 1 } }, 2000 },
		{ { .v6 = true, .code = 3000 }, 3000 },
		{ { .v6 = true, .code = 0x8001 }, 0x1001 << 3 },
		{ { .v6 = true, .code = 3000, .group = { 0xff, 0x0e, [13] = 0x18, [15] = 1 } }, 3000 },
		{ { .v6 = true, .code = 0 }, GROUP_MIN_DELAY_MS },
	};
	struct fixture *f = *state;

	quiet_members(f);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t begin = f->now, within = cases[i].within_ms * NEIGH_MS;
		const uint8_t *frame;

		if (i == 1)
			within *= 100;
		f->nb_sent = 0;
		assert_true(ask(f, &cases[i].q));
		assert_int_equal(f->nb_sent, 0);
		assert_true(pass(f, 60 * SECOND_NS) == UINT64_MAX);
		assert_int_equal(f->nb_sent, 1);
		assert_true(f->sent[0].at > begin && f->sent[0].at <= begin + within + 1);
		frame = f->sent[0].frame;
		/* The record says what is, not what changed. */
		assert_int_equal(cases[i].q.v6 ? frame[14 + 48 + 8] : frame[14 + 24 + 8], GROUP_IS_MEMBER);
	}
}

static void
queries_that_do_not_concern_us_are_not_answered(void **state)
{
	static const struct query others = { .group = { [12] = 239, 18, 0, 2 }, .code = 10 };
	static const struct query others6 = { .v6 = true, .group = { 0xff, 0x0e, [15] = 7 }, .code = 10 };
	struct fixture *f = *state;

	quiet_members(f);
	assert_true(ask(f, &others));
	assert_true(ask(f, &others6));
	assert_true(pass(f, 30 * SECOND_NS) == UINT64_MAX);
	assert_int_equal(f->nb_sent, 0);
	/* Left meanwhile. */
	assert_true(ask(f, &(struct query){ .code = 100 }));
	leave(f, &group4);
	pass(f, 30 * SECOND_NS);
	assert_int_equal(f->nb_sent, 2);
	expect_frame(f, 0, false, false, GROUP_LEFT);
	expect_frame(f, 1, false, false, GROUP_LEFT);
}

/* One answer for as many questions as come before it: nobody makes us send more than ten per second and group. */
static void
many_queries_get_one_answer(void **state)
{
	struct fixture *f = *state;

	quiet_members(f);
	for (unsigned int i = 0; i < 1000; i++)
		assert_true(ask(f, &(struct query){ .v6 = true, .code = 0 }));
	pass(f, 30 * SECOND_NS);
	assert_int_equal(f->nb_sent, 1);
}

static void
older_routers_are_spoken_to_in_their_version(void **state)
{
	struct fixture *f = *state;

	for (unsigned int v6 = 0; v6 < 2; v6++) {
		const struct gid *g = v6 ? &group6 : &group4;

		f->nb_sent = 0;
		join(f, g);
		pass(f, 5 * SECOND_NS);
		assert_int_equal(f->nb_sent, 2);
		assert_true(ask(f, &(struct query){ .v6 = v6, .old = true, .code = v6 ? 1000 : 10 }));
		pass(f, 5 * SECOND_NS);
		assert_int_equal(f->nb_sent, 3);
		expect_frame(f, 2, v6, true, GROUP_JOINED);
		leave(f, g);
		pass(f, 5 * SECOND_NS);
		assert_int_equal(f->nb_sent, 5);
		expect_frame(f, 3, v6, true, GROUP_LEFT);
		/* Some time after the last old query the new version is spoken again. */
		pass(f, GROUP_OLD_QUERIER_MS * NEIGH_MS);
		join(f, g);
		expect_frame(f, 5, v6, false, GROUP_JOINED);
		pass(f, 5 * SECOND_NS);
	}
	/* IGMPv1 asks without saying for how long it will wait. */
	f->nb_sent = 0;
	assert_true(ask(f, &(struct query){ .old = true, .code = 0 }));
	pass(f, 11 * SECOND_NS);
	assert_int_equal(f->nb_sent, 1);
}

static void
wrong_queries_are_dropped_and_counted(void **state)
{
	static const struct query wrong[] = {
		{ .ttl = 2 }, { .v6 = true, .ttl = 255 },                       /* forwarded, or not by a router */
		{ .len = 9 }, { .len = 11 }, { .v6 = true, .len = 23 }, { .v6 = true, .len = 27 }, /* of no version */
		{ .group = { [12] = 10, 0, 0, 1 } }, { .v6 = true, .group = { 0xfd, [15] = 1 } },  /* about no group */
	};
	struct fixture *f = *state;
	uint8_t frame[FRAME_MAX];
	uint16_t len;

	quiet_members(f);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(ask(f, &wrong[i]));
	for (unsigned int v6 = 0; v6 < 2; v6++) {
		/* Damaged, and cut off anywhere. */
		len = build_query(&(struct query){ .v6 = v6, .code = 10 }, frame);
		frame[len - 1] ^= 1;
		assert_false(arrive(f, frame, len));
		frame[len - 1] ^= 1;
		for (uint16_t n = 1; n < len; n++)
			assert_false(arrive(f, frame, n));
		assert_true(arrive(f, frame, len));
	}
	/* Not from a router on the link. */
	len = build_query(&(struct query){ .v6 = true, .code = 10 }, frame);
	frame[14 + 8] = 0xfd;
	wire_put16(frame + 14 + 48 + 2, 0);
	wire_put16(frame + 14 + 48 + 2, pkt_sum_finish(pkt_sum(frame + 14 + 48, 28, pkt_sum_pseudo6(frame + 14, 28, 58))));
	assert_false(arrive(f, frame, len));
}

/* Whatever a stranger sends changes nothing but timers. */
static void
random_bytes_do_no_harm(void **state)
{
	struct fixture *f = *state;
	uint8_t frame[FRAME_MAX];
	unsigned int seed = 7;

	quiet_members(f);
	for (unsigned int i = 0; i < 100000; i++) {
		uint16_t len = build_query(&(struct query){ .v6 = i & 1, .old = i & 2, .code = (uint16_t)rand_r(&seed) }, frame);

		for (unsigned int k = 0; k < 1 + (i & 3); k++)
			frame[12 + (unsigned int)rand_r(&seed) % (len - 12u)] = (uint8_t)rand_r(&seed);
		arrive(f, frame, (uint16_t)(14 + (unsigned int)rand_r(&seed) % (len - 13u)));
	}
	pass(f, 3600 * SECOND_NS);
	assert_in_range(f->nb_sent, 0, 2 * 2);
}

/* ---- Shared ports ---- */
static void
shared_ports_join_by_the_kernel(void **state)
{
	struct fixture *f = *state;

	f->p.shared = true;
	join(f, &group6);
	join(f, &group6);
	assert_int_equal(f->kernel_joins, 1);
	assert_true(gid_equal(&f->kernel_group, &group6));
	assert_true(pass(f, 10 * SECOND_NS) == UINT64_MAX);
	leave(f, &group6);
	assert_int_equal(f->priv.groups.nb, 1);
	leave(f, &group6);
	assert_true(LIST_EMPTY(&f->priv.groups.list));
	f->kernel_errno = ENOBUFS;
	assert_int_equal(net_group_join(&f->p, &group4, f->now), ENOBUFS);
	assert_true(LIST_EMPTY(&f->priv.groups.list));
	assert_int_equal(f->priv.groups.nb, 0);
	assert_int_equal(f->nb_sent, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(reports_are_byte_for_byte_linuxs),
		TEST(without_an_ipv4_address_igmp_comes_from_zero),
		TEST(reports_go_into_each_vlan),
		TEST(joining_is_said_twice_and_so_is_leaving),
		TEST(joins_are_counted),
		TEST(groups_that_stay_on_the_link_are_not_reported),
		TEST(only_multicast_addresses_and_not_too_many),
		TEST(queries_are_answered_within_their_time),
		TEST(queries_that_do_not_concern_us_are_not_answered),
		TEST(many_queries_get_one_answer),
		TEST(older_routers_are_spoken_to_in_their_version),
		TEST(wrong_queries_are_dropped_and_counted),
		TEST(random_bytes_do_no_harm),
		TEST(shared_ports_join_by_the_kernel),
	};
	char *argv[] = { "test_group", "--no-huge", "-m", "64", "--no-pci", "--no-telemetry", "--no-shconf",
			 "--log-level=error" };

	if (rte_eal_init(sizeof(argv) / sizeof(argv[0]), argv) < 0)
		return 1;
	pool = rte_pktmbuf_pool_create("pool", 63, 0, 0, 2048 + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
	if (pool == NULL)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
