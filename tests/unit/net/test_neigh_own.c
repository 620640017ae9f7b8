/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Neighbours by our own ARP and ND, with a fake sender and a virtual clock. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <rte_eal.h>
#include <rte_mbuf.h>

#include "util.h"

#define INTERVAL_NS (NET_RESOLVE_INTERVAL_MS * NEIGH_MS)

static const uint8_t our_mac[6] = { 0x02, 0, 0, 0, 0, 0x01 };
static const uint8_t peer_mac[6] = { 0x02, 0, 0, 0, 0, 0x02 };
static const uint8_t other_mac[6] = { 0x02, 0, 0, 0, 0, 0x03 };

static struct rte_mempool *pool;

/** A port without an ethdev: what lib/net needs of it here. */
struct fixture {
	struct net_port p;
	struct net_gids gids;
	struct net_priv priv;
	unsigned int sent;
	uint8_t frame[NET_SOLICIT_MAX_BYTES];
	uint16_t frame_bytes;
	struct outcome o[3]; /* here, because teardown cancels what is still under way */
};

static void
fake_send(void *arg, struct net_port *p, struct rte_mbuf *m)
{
	struct fixture *f = arg;

	f->sent++;
	f->frame_bytes = rte_pktmbuf_data_len(m);
	assert_in_range(f->frame_bytes, 1, sizeof(f->frame));
	memcpy(f->frame, rte_pktmbuf_mtod(m, void *), f->frame_bytes);
	rte_pktmbuf_free(m);
}

/** A callback that resolves another address for the first outcome of its fixture, and cancels the second one's. */
static void
resolve_and_cancel(void *arg, int status, const uint8_t mac[6])
{
	struct gid gid = gid4(198, 18, 0, 77);
	struct fixture *f = arg;
	uint8_t now_mac[6];

	done(&f->o[0], status, mac);
	assert_int_equal(net_resolve(&f->p, 1, &gid, 0, now_mac, done, &f->o[0]), EINPROGRESS);
	net_resolve_cancel(&f->p, &f->o[1]);
}

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char err[100];

	assert_non_null(f);
	f->p.priv = &f->priv;
	f->p.index = 1;
	memcpy(f->p.mac, our_mac, 6);
	f->gids.addr[0] = (struct net_addr){ .gid = gid_link_local(our_mac), .prefix = 64 };
	net_addr_parse("198.18.0.1/24@0", &f->gids.addr[1], err, sizeof(err));
	net_addr_parse("fd00:18::1/64@0", &f->gids.addr[2], err, sizeof(err));
	f->p.gids = &f->gids;
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

	neigh_table_destroy(f->priv.neigh);
	assert_int_equal(rte_mempool_in_use_count(pool), 0);
	free(f);
	return 0;
}

static void
learn(struct fixture *f, const struct gid *gid, const uint8_t mac[6], uint64_t now_ns)
{
	struct net_learned l = { .port = 1 };

	l.gid = *gid;
	memcpy(l.mac, mac, 6);
	net_learn(&f->p, &l, now_ns);
}

static void
on_link_host_is_asked_for_and_answered(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid;
	uint8_t mac[6];

	gid = gid4(198, 18, 0, 2);
	assert_int_equal(net_resolve(&f->p, 1, &gid, 1000, mac, done, o), EINPROGRESS);
	assert_int_equal(f->sent, 1);
	assert_memory_equal(f->frame + WIRE_ETH_BYTES + 24, gid.raw + 12, 4);
	assert_memory_equal(f->frame + WIRE_ETH_BYTES + 14, f->gids.addr[1].gid.raw + 12, 4);
	learn(f, &gid, peer_mac, 2000);
	assert_int_equal(o->calls, 1);
	assert_int_equal(o->status, 0);
	assert_memory_equal(o->mac, peer_mac, 6);
	assert_true(net_port_poll(&f->p, 3000) == UINT64_MAX);
}

static void
ipv6_host_is_solicited(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid = { { 0xfd, 0, 0, 0x18, [13] = 0xaa, 0xbb, 0xcc } };
	uint8_t mac[6];
	const uint8_t dmac[6] = { 0x33, 0x33, 0xff, 0xaa, 0xbb, 0xcc };

	assert_int_equal(net_resolve(&f->p, 2, &gid, 0, mac, done, o), EINPROGRESS);
	assert_int_equal(f->sent, 1);
	assert_memory_equal(f->frame, dmac, 6);
	assert_int_equal(f->frame[WIRE_ETH_BYTES + 7], 255);
	learn(f, &gid, peer_mac, 0);
	assert_int_equal(o->status, 0);
}

static void
unanswered_requests_are_repeated_then_time_out(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid;
	uint8_t mac[6];
	uint64_t now = 0, next;
	unsigned int i;

	gid = gid4(198, 18, 0, 2);
	assert_int_equal(net_resolve(&f->p, 1, &gid, now, mac, done, o), EINPROGRESS);
	for (i = 1; i < NET_RESOLVE_TRIES; i++) {
		next = net_port_poll(&f->p, now + INTERVAL_NS - 1);
		assert_true(next == now + INTERVAL_NS);
		assert_int_equal(f->sent, i);
		now = next;
		net_port_poll(&f->p, now);
		assert_int_equal(f->sent, i + 1);
	}
	assert_int_equal(o->calls, 0);
	assert_true(net_port_poll(&f->p, now + INTERVAL_NS) == UINT64_MAX);
	assert_int_equal(f->sent, NET_RESOLVE_TRIES);
	assert_int_equal(o->calls, 1);
	assert_int_equal(o->status, ETIMEDOUT);

	/* The failure is not remembered. */
	assert_int_equal(net_resolve(&f->p, 1, &gid, now, mac, done, o), EINPROGRESS);
	assert_int_equal(f->sent, NET_RESOLVE_TRIES + 1);
}

static void
cached_answer_needs_no_wire_until_it_is_old(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid;
	uint8_t mac[6];
	uint64_t old = 1000 + NEIGH_REACHABLE_NS;

	gid = gid4(198, 18, 0, 2);
	net_resolve(&f->p, 1, &gid, 0, mac, done, o);
	learn(f, &gid, peer_mac, 1000);
	memset(mac, 0, 6);
	assert_int_equal(net_resolve(&f->p, 1, &gid, old - 1, mac, done, o), 0);
	assert_memory_equal(mac, peer_mac, 6);
	assert_int_equal(f->sent, 1);

	/* Old: still used, and asked for again. */
	memset(mac, 0, 6);
	assert_int_equal(net_resolve(&f->p, 1, &gid, old, mac, done, o), 0);
	assert_memory_equal(mac, peer_mac, 6);
	assert_int_equal(f->sent, 2);
	assert_int_equal(neigh_find(f->priv.neigh, &gid, 0)->state, NEIGH_PROBE);
	assert_true(net_port_poll(&f->p, old) == old + INTERVAL_NS);

	/* The host has a new card. */
	learn(f, &gid, other_mac, old + 5);
	assert_int_equal(neigh_find(f->priv.neigh, &gid, 0)->state, NEIGH_REACHABLE);
	assert_int_equal(net_resolve(&f->p, 1, &gid, old + 6, mac, done, o), 0);
	assert_memory_equal(mac, other_mac, 6);
	assert_int_equal(f->sent, 2);
	assert_int_equal(o->calls, 1);
}

static void
old_answer_that_nobody_confirms_is_forgotten(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid;
	uint8_t mac[6];
	uint64_t now = NEIGH_REACHABLE_NS;
	unsigned int i;

	gid = gid4(198, 18, 0, 2);
	net_resolve(&f->p, 1, &gid, 0, mac, done, o);
	learn(f, &gid, peer_mac, 0);
	assert_int_equal(net_resolve(&f->p, 1, &gid, now, mac, done, o), 0);
	for (i = 0; i < NET_RESOLVE_TRIES; i++)
		net_port_poll(&f->p, now += INTERVAL_NS);
	assert_null(neigh_find(f->priv.neigh, &gid, 0));
}

static void
several_wait_for_one_answer(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = f->o;
	struct gid gid;
	uint8_t mac[6];

	gid = gid4(198, 18, 0, 2);
	for (int i = 0; i < 3; i++)
		assert_int_equal(net_resolve(&f->p, 1, &gid, 0, mac, done, &o[i]), EINPROGRESS);
	assert_int_equal(f->sent, 1);
	net_resolve_cancel(&f->p, &o[1]);
	learn(f, &gid, peer_mac, 0);
	assert_int_equal(o[0].calls, 1);
	assert_int_equal(o[1].calls, 0);
	assert_int_equal(o[2].calls, 1);
}

static void
callback_may_resolve_and_cancel(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = f->o;
	struct gid gid;
	uint8_t mac[6];

	gid = gid4(198, 18, 0, 2);
	assert_int_equal(net_resolve(&f->p, 1, &gid, 0, mac, resolve_and_cancel, f), EINPROGRESS);
	assert_int_equal(net_resolve(&f->p, 1, &gid, 0, mac, done, &o[1]), EINPROGRESS);
	learn(f, &gid, peer_mac, 0);
	assert_int_equal(o[0].calls, 1);
	assert_int_equal(o[1].calls, 0);
	assert_int_equal(f->sent, 2);
	net_resolve_cancel(&f->p, &o[0]);
	assert_int_equal(f->priv.neigh->nb_waiters, 0);
}

static void
off_link_goes_by_the_gateway(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid far, far6 = { { 0x20, 0x01, 0x0d, 0xb8 } }, gateway;
	const uint8_t gateway6[16] = { 0xfe, 0x80, [15] = 0xfe };
	uint8_t mac[6];

	far = gid4(203, 0, 113, 5);
	assert_int_equal(net_resolve(&f->p, 1, &far, 0, mac, done, o), EHOSTUNREACH);
	assert_int_equal(net_resolve(&f->p, 2, &far6, 0, mac, done, o), EHOSTUNREACH);
	gateway = gid4(198, 18, 0, 254);
	memcpy(f->p.conf.gateway4, gid_ip(&gateway), 4);
	memcpy(f->p.conf.gateway6, gateway6, 16);
	assert_int_equal(net_resolve(&f->p, 1, &far, 0, mac, done, o), EINPROGRESS);
	assert_memory_equal(f->frame + WIRE_ETH_BYTES + 24, gid_ip(&gateway), 4);
	learn(f, &far, other_mac, 0); /* the far host itself can't be on the link: nobody waits for it */
	assert_int_equal(o->calls, 0);
	learn(f, &gateway, peer_mac, 0);
	assert_int_equal(o->calls, 1);
	assert_memory_equal(o->mac, peer_mac, 6);
	assert_int_equal(net_resolve(&f->p, 2, &far6, 0, mac, done, o), EINPROGRESS);
	assert_memory_equal(f->frame + WIRE_ETH_BYTES + WIRE_IPV6_BYTES + 8, gateway6, 16);
}

static void
route(struct fixture *f, const char *text)
{
	char err[256];

	assert_int_equal(net_route_parse(text, &f->p.conf.routes[f->p.conf.nb_routes++], err, sizeof(err)), 0);
}

static void
assert_router(struct fixture *f, const struct gid *far, const struct gid *router)
{
	struct gid found;

	assert_true(net_router_for(&f->p, 0, far, &found));
	assert_memory_equal(found.raw, router->raw, sizeof(found.raw));
}

static void
the_longest_route_counts(void **state)
{
	struct fixture *f = *state;
	struct gid far = gid4(203, 0, 113, 5), further = gid4(203, 0, 114, 5), furthest = gid4(8, 8, 8, 8), on_link = gid4(198, 18, 0, 77);
	struct gid far6 = { { 0x20, 0x01, 0x0d, 0xb8 } }, router6 = { { 0xfd, 0, 0, 0x18, [15] = 0xfd } };
	struct gid one = gid4(198, 18, 0, 251), two = gid4(198, 18, 0, 252), gateway = gid4(198, 18, 0, 254);
	uint8_t mac[6];

	route(f, "203.0.0.0/16 via 198.18.0.252");
	route(f, "203.0.113.0/24 via 198.18.0.251");
	route(f, "2001:db8::/32 via fd00:18::fd");
	route(f, "198.18.0.0/25 via 198.18.0.251");
	assert_router(f, &far, &one);
	assert_router(f, &further, &two);
	assert_router(f, &far6, &router6);
	assert_int_equal(net_resolve(&f->p, 1, &furthest, 0, mac, done, &f->o[0]), EHOSTUNREACH);
	assert_int_equal(net_resolve(&f->p, 1, &further, 0, mac, done, &f->o[0]), EINPROGRESS);
	assert_memory_equal(f->frame + WIRE_ETH_BYTES + 24, gid_ip(&two), 4);
	/* What is on the link needs no router. */
	assert_int_equal(net_resolve(&f->p, 1, &on_link, 0, mac, done, &f->o[1]), EINPROGRESS);
	assert_memory_equal(f->frame + WIRE_ETH_BYTES + 24, gid_ip(&on_link), 4);
	memcpy(f->p.conf.gateway4, gid_ip(&gateway), 4);
	assert_router(f, &furthest, &gateway);
	assert_router(f, &far, &one);
	route(f, "0.0.0.0/0 via 198.18.0.252");
	assert_router(f, &furthest, &two);
}

static void
multicast_and_own_addresses_need_no_wire(void **state)
{
	struct fixture *f = *state;
	const uint8_t group_mac[6] = { 0x01, 0x00, 0x5e, 0x01, 0x02, 0x03 };
	struct gid gid;
	uint8_t mac[6];

	gid = gid4(239, 1, 2, 3);
	assert_int_equal(net_resolve(&f->p, 1, &gid, 0, mac, done, NULL), 0);
	assert_memory_equal(mac, group_mac, 6);
	assert_int_equal(net_resolve(&f->p, 2, &f->gids.addr[0].gid, 0, mac, done, NULL), 0);
	assert_memory_equal(mac, our_mac, 6);
	assert_int_equal(f->sent, 0);
}

static void
wrong_arguments_are_refused(void **state)
{
	struct fixture *f = *state;
	struct gid v4, v6 = { { 0xfd, 0, 0, 0x18, [15] = 9 } }, bad;
	uint8_t mac[6];

	v4 = gid4(198, 18, 0, 2);
	assert_int_equal(net_resolve(&f->p, UROCE_MAX_GIDS, &v4, 0, mac, done, NULL), EINVAL);
	assert_int_equal(net_resolve(&f->p, 5, &v4, 0, mac, done, NULL), EINVAL);
	assert_int_equal(net_resolve(&f->p, 2, &v4, 0, mac, done, NULL), EINVAL);
	assert_int_equal(net_resolve(&f->p, 1, &v6, 0, mac, done, NULL), EINVAL);
	bad = gid4(255, 255, 255, 255);
	assert_int_equal(net_resolve(&f->p, 1, &bad, 0, mac, done, NULL), EINVAL);
	bad = (struct gid){ 0 };
	assert_int_equal(net_resolve(&f->p, 2, &bad, 0, mac, done, NULL), EINVAL);
	assert_int_equal(f->sent, 0);
}

static void
strangers_cannot_fill_the_table(void **state)
{
	struct fixture *f = *state;
	struct gid gid;

	for (unsigned int i = 0; i < 100; i++) {
		gid = gid4(198, 18, 0, (uint8_t)(i + 2));
		learn(f, &gid, peer_mac, 0);
	}
	assert_int_equal(f->priv.neigh->nb_neighs, 0);
}

static void
multicast_mac_is_never_learned(void **state)
{
	const uint8_t group[6] = { 0x01, 0, 0x5e, 0, 0, 1 };
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid;
	uint8_t mac[6];

	gid = gid4(198, 18, 0, 2);
	net_resolve(&f->p, 1, &gid, 0, mac, done, o);
	learn(f, &gid, group, 0);
	assert_int_equal(o->calls, 0);
}

static void
full_table_gives_up_its_oldest_answer(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid = { { 0xfd, 0, 0, 0x18 } }, first;
	uint8_t mac[6];

	for (unsigned int i = 0; i <= NET_NEIGH_MAX; i++) {
		wire_put32(gid.raw + 12, i + 100);
		if (i == 0)
			first = gid;
		assert_int_equal(net_resolve(&f->p, 2, &gid, i, mac, done, o), EINPROGRESS);
		learn(f, &gid, peer_mac, i);
	}
	assert_int_equal(f->priv.neigh->nb_neighs, NET_NEIGH_MAX);
	assert_null(neigh_find(f->priv.neigh, &first, 0));
	assert_non_null(neigh_find(f->priv.neigh, &gid, 0));
	assert_int_equal(o->calls, NET_NEIGH_MAX + 1);
}

static void
too_many_resolutions_are_refused(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid = { { 0xfd, 0, 0, 0x18 } };
	uint8_t mac[6];

	for (unsigned int i = 0; i < NET_NEIGH_PENDING_MAX; i++) {
		wire_put32(gid.raw + 12, i + 100);
		assert_int_equal(net_resolve(&f->p, 2, &gid, 0, mac, done, o), EINPROGRESS);
	}
	assert_int_equal(net_resolve(&f->p, 2, &gid, 0, mac, done, o), ENOBUFS);
	wire_put32(gid.raw + 12, 1);
	wire_put32(gid.raw + 8, 1);
	assert_int_equal(net_resolve(&f->p, 2, &gid, 0, mac, done, o), ENOBUFS);
	net_resolve_cancel(&f->p, o);
	assert_int_equal(net_resolve(&f->p, 2, &gid, 0, mac, done, o), EINPROGRESS);
}

static void
closing_cancels_what_is_under_way(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct gid gid;
	uint8_t mac[6];

	gid = gid4(198, 18, 0, 2);
	net_resolve(&f->p, 1, &gid, 0, mac, done, o);
	neigh_table_destroy(f->priv.neigh);
	assert_int_equal(o->calls, 1);
	assert_int_equal(o->status, ECANCELED);
	f->priv.neigh = neigh_table_create(&neigh_own_ops);
}

static void
request_that_cannot_be_sent_is_tried_again(void **state)
{
	struct fixture *f = *state;
	struct outcome *o = &f->o[0];
	struct rte_mbuf *all[1023];
	struct gid gid;
	uint8_t mac[6];
	unsigned int n = rte_mempool_avail_count(pool);

	gid = gid4(198, 18, 0, 2);
	assert_in_range(n, 1, 1023);
	assert_int_equal(rte_pktmbuf_alloc_bulk(pool, all, n), 0);
	assert_int_equal(net_resolve(&f->p, 1, &gid, 0, mac, done, o), EINPROGRESS);
	assert_int_equal(f->sent, 0);
	rte_pktmbuf_free_bulk(all, n);
	net_port_poll(&f->p, INTERVAL_NS);
	assert_int_equal(f->sent, 1);
}

static void
neighbours_are_listed_with_state_and_waiters(void **state)
{
	struct fixture *f = *state;
	struct net_neigh list[2];
	struct gid gid, other;
	uint8_t mac[6];

	assert_int_equal(net_neigh_list(&f->p, list, 2), 0);
	gid = gid4(198, 18, 0, 9);
	other = gid4(198, 18, 0, 10);
	assert_int_equal(net_resolve(&f->p, 1, &gid, 1000, mac, done, &f->o[0]), EINPROGRESS);
	assert_int_equal(net_neigh_list(&f->p, list, 2), 1);
	assert_true(gid_equal(&list[0].hop, &gid));
	assert_string_equal(list[0].state, "INCOMPLETE");
	assert_int_equal(list[0].waiters, 1);
	assert_int_equal(list[0].confirmed_ns, 0);
	learn(f, &gid, peer_mac, 5000);
	assert_int_equal(net_resolve(&f->p, 1, &other, 6000, mac, done, &f->o[1]), EINPROGRESS);
	/* What is asked for comes first; what there is no room for is counted. */
	assert_int_equal(net_neigh_list(&f->p, list, 1), 2);
	assert_true(gid_equal(&list[0].hop, &other));
	assert_int_equal(net_neigh_list(&f->p, list, 2), 2);
	assert_string_equal(list[1].state, "REACHABLE");
	assert_memory_equal(list[1].mac, peer_mac, 6);
	assert_int_equal(list[1].waiters, 0);
	assert_int_equal(list[1].confirmed_ns, 5000);
	net_resolve_cancel(&f->p, &f->o[1]);
}

/** Give the port an address more, at @p index. */
static void
add(struct fixture *f, unsigned int index, const char *text)
{
	char err[100];

	assert_int_equal(net_addr_parse(text, &f->gids.addr[index], err, sizeof(err)), 0);
}

/** The VLAN of the frame that was sent last; 0: untagged. */
static uint16_t
sent_vlan(const struct fixture *f)
{
	return wire_get16(f->frame + 12) == WIRE_ETHERTYPE_VLAN ? wire_get16(f->frame + 14) : 0;
}

static void
a_neighbour_is_one_of_its_vlan(void **state)
{
	struct fixture *f = *state;
	struct net_learned l = { .port = 1, .vlan = 5 };
	const struct gid gid = gid4(198, 18, 0, 9);
	struct net_neigh list[2];
	uint8_t mac[6];

	add(f, 3, "198.18.0.3/24@5");
	assert_int_equal(net_resolve(&f->p, 1, &gid, 0, mac, done, &f->o[0]), EINPROGRESS);
	assert_int_equal(sent_vlan(f), 0);
	assert_int_equal(net_resolve(&f->p, 3, &gid, 0, mac, done, &f->o[1]), EINPROGRESS);
	assert_int_equal(f->sent, 2);
	assert_int_equal(sent_vlan(f), 5);
	assert_int_equal(net_neigh_list(&f->p, list, 2), 2);
	assert_int_equal(list[0].vlan, 0);
	assert_int_equal(list[1].vlan, 5);
	/* Two hosts of two networks may have one address. */
	learn(f, &gid, peer_mac, 0);
	assert_int_equal(f->o[0].calls, 1);
	assert_int_equal(f->o[1].calls, 0);
	l.gid = gid;
	memcpy(l.mac, other_mac, 6);
	net_learn(&f->p, &l, 0);
	assert_int_equal(f->o[1].calls, 1);
	assert_memory_equal(f->o[1].mac, other_mac, 6);
	assert_int_equal(net_resolve(&f->p, 1, &gid, 1, mac, done, &f->o[2]), 0);
	assert_memory_equal(mac, peer_mac, 6);
	assert_int_equal(net_resolve(&f->p, 3, &gid, 1, mac, done, &f->o[2]), 0);
	assert_memory_equal(mac, other_mac, 6);
}

static void
networks_and_routers_of_other_vlans_do_not_count(void **state)
{
	struct fixture *f = *state;
	struct gid far = gid4(203, 0, 113, 5), near = gid4(198, 18, 0, 9), near5 = gid4(198, 18, 5, 9), gateway = gid4(198, 18, 0, 254),
		   unknown = gid4(192, 0, 2, 1), router5 = gid4(198, 18, 5, 254), found;
	const uint8_t link_local[16] = { 0xfe, 0x80, [15] = 0xfe };
	const struct gid far6 = { { 0x20, 0x01, 0x0d, 0xb8 } };
	uint8_t mac[6];

	add(f, 3, "198.18.5.1/24@5");
	add(f, 4, "fd00:5::1/64@5");
	assert_int_equal(net_resolve(&f->p, 3, &near, 0, mac, done, &f->o[0]), EHOSTUNREACH);
	assert_int_equal(net_resolve(&f->p, 1, &near5, 0, mac, done, &f->o[0]), EHOSTUNREACH);
	assert_int_equal(net_resolve(&f->p, 3, &near5, 0, mac, done, &f->o[0]), EINPROGRESS);
	/* A gateway of another VLAN, then one that is in no known network: the port's own VLAN has that. */
	for (unsigned int i = 0; i < 2; i++) {
		memcpy(f->p.conf.gateway4, gid_ip(i == 0 ? &gateway : &unknown), 4);
		assert_int_equal(net_resolve(&f->p, 3, &far, 0, mac, done, &f->o[0]), EHOSTUNREACH);
		assert_true(net_router_for(&f->p, 0, &far, &found));
	}
	/* The longer route's router is of VLAN 5. */
	route(f, "203.0.113.0/24 via 198.18.5.254");
	route(f, "203.0.0.0/16 via 198.18.0.253");
	assert_true(net_router_for(&f->p, 5, &far, &found));
	assert_memory_equal(found.raw, router5.raw, 16);
	assert_true(net_router_for(&f->p, 0, &far, &found));
	assert_int_equal(found.raw[15], 253);
	assert_int_equal(net_resolve(&f->p, 3, &far, 0, mac, done, &f->o[1]), EINPROGRESS);
	assert_int_equal(sent_vlan(f), 5);
	assert_memory_equal(f->frame + NET_ETH_VLAN_BYTES + 24, gid_ip(&router5), 4);
	/* A link-local router is of the VLAN of GID 0. */
	memcpy(f->p.conf.gateway6, link_local, 16);
	assert_true(net_router_for(&f->p, 0, &far6, &found));
	assert_false(net_router_for(&f->p, 5, &far6, &found));
	assert_int_equal(net_resolve(&f->p, 4, &far6, 0, mac, done, &f->o[2]), EHOSTUNREACH);
	for (unsigned int i = 0; i < 2; i++)
		net_resolve_cancel(&f->p, &f->o[i]);
}

static void
own_addresses_are_near_whatever_their_vlans(void **state)
{
	struct fixture *f = *state;
	uint8_t mac[6];

	add(f, 3, "198.18.5.1/24@5");
	assert_int_equal(net_resolve(&f->p, 3, &f->gids.addr[1].gid, 0, mac, done, &f->o[0]), 0);
	assert_memory_equal(mac, our_mac, 6);
	assert_int_equal(net_resolve(&f->p, 1, &f->gids.addr[3].gid, 0, mac, done, &f->o[0]), 0);
	assert_int_equal(f->sent, 0);
}

int
main(int argc, char **argv)
{
	char *eal[] = { argv[0],          "--no-huge",   "-m",    "32", "--no-pci", "--no-shconf",
			"--no-telemetry", "--log-level", "error", "-l", "0" };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(on_link_host_is_asked_for_and_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(ipv6_host_is_solicited, setup, teardown),
		cmocka_unit_test_setup_teardown(unanswered_requests_are_repeated_then_time_out, setup, teardown),
		cmocka_unit_test_setup_teardown(cached_answer_needs_no_wire_until_it_is_old, setup, teardown),
		cmocka_unit_test_setup_teardown(old_answer_that_nobody_confirms_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(several_wait_for_one_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(callback_may_resolve_and_cancel, setup, teardown),
		cmocka_unit_test_setup_teardown(off_link_goes_by_the_gateway, setup, teardown),
		cmocka_unit_test_setup_teardown(the_longest_route_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(multicast_and_own_addresses_need_no_wire, setup, teardown),
		cmocka_unit_test_setup_teardown(wrong_arguments_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(strangers_cannot_fill_the_table, setup, teardown),
		cmocka_unit_test_setup_teardown(multicast_mac_is_never_learned, setup, teardown),
		cmocka_unit_test_setup_teardown(full_table_gives_up_its_oldest_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(too_many_resolutions_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(closing_cancels_what_is_under_way, setup, teardown),
		cmocka_unit_test_setup_teardown(request_that_cannot_be_sent_is_tried_again, setup, teardown),
		cmocka_unit_test_setup_teardown(neighbours_are_listed_with_state_and_waiters, setup, teardown),
		cmocka_unit_test_setup_teardown(a_neighbour_is_one_of_its_vlan, setup, teardown),
		cmocka_unit_test_setup_teardown(networks_and_routers_of_other_vlans_do_not_count, setup, teardown),
		cmocka_unit_test_setup_teardown(own_addresses_are_near_whatever_their_vlans, setup, teardown),
	};
	int rc;

	if (rte_eal_init(sizeof(eal) / sizeof(eal[0]), eal) < 0)
		return 1;
	pool = rte_pktmbuf_pool_create("test", 255, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	if (pool == NULL)
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	rte_eal_cleanup();
	return rc;
}
