/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Hosts and routers that get another MAC address, and the paths that have to follow. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "util.h"

static const uint8_t first_mac[6] = { 2, 0, 0, 0, 0, 2 }, second_mac[6] = { 2, 0, 0, 0, 0, 3 }, third_mac[6] = { 2, 0, 0, 0, 0, 4 };

/** A port without an ethdev, of either kind, and the kernel of a shared one. */
struct fixture {
	struct net_kernel kernel; /* first: what lib/net believes the kernel to be */
	struct net_port p;
	struct net_gids gids;
	struct net_priv priv;
	struct outcome o;
	struct gid router; /* of the kernel; zero: all hosts are on link */
	uint8_t mac[6];    /* that the kernel has of everybody */
	unsigned int looks;
};

static int
fake_route(void *kernel, const struct gid *sgid, const struct gid *dgid, struct gid *hop)
{
	struct fixture *f = kernel;

	*hop = gid_is_zero(&f->router) ? *dgid : f->router;
	return 0;
}

static int
fake_neigh(void *kernel, const struct gid *hop, uint8_t mac[6])
{
	struct fixture *f = kernel;

	f->looks++;
	memcpy(mac, f->mac, 6);
	return 0;
}

static const struct kernel_ops fake_kernel = { .route = fake_route, .neigh = fake_neigh };

static struct fixture *
make(bool shared)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->kernel.ops = &fake_kernel;
	f->p.priv = &f->priv;
	f->p.shared = shared;
	f->priv.kernel = &f->kernel;
	f->gids.addr[1] = (struct net_addr){ .gid = gid4(198, 18, 0, 1), .prefix = 24 };
	f->p.gids = &f->gids;
	f->priv.neigh = neigh_table_create(shared ? &neigh_kernel_ops : &neigh_own_ops);
	assert_non_null(f->priv.neigh);
	memcpy(f->mac, first_mac, 6);
	return f;
}

static int
own_port(void **state)
{
	*state = make(false);
	return 0;
}

static int
shared_port(void **state)
{
	*state = make(true);
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	neigh_table_destroy(f->priv.neigh);
	free(f);
	return 0;
}

static void
announce(struct fixture *f, const struct gid *gid, const uint8_t mac[6], bool weak)
{
	struct net_learned l = { .gid = *gid, .weak = weak };

	memcpy(l.mac, mac, 6);
	net_learn(&f->p, &l, 0);
}

/** A path to @p dgid is made; @p hop, which is asked, answers. */
static void
make_path(struct fixture *f, const struct gid *dgid, const struct gid *hop, const uint8_t mac[6])
{
	uint8_t now[6];
	int rc = net_resolve(&f->p, 1, dgid, 0, now, done, &f->o);

	if (rc == EINPROGRESS)
		announce(f, hop, mac, false);
	else
		assert_int_equal(rc, 0);
}

/** @return whether a path to @p dgid has to go to another MAC address than @p from: to @p to. */
static bool
follows(const struct fixture *f, const struct gid *dgid, const uint8_t from[6], const uint8_t to[6])
{
	uint8_t mac[6];

	memcpy(mac, from, 6);
	if (!net_neigh_follow(&f->p, &f->gids.addr[1].gid, dgid, mac))
		return false;
	assert_memory_equal(mac, to, 6);
	return true;
}

static unsigned int
pending(const struct fixture *f)
{
	unsigned int n;

	net_neigh_changes(&f->p, &n);
	return n;
}

static void
a_host_that_announces_another_address_takes_its_paths_along(void **state)
{
	struct fixture *f = *state;
	struct gid host = gid4(198, 18, 0, 2), other = gid4(198, 18, 0, 3), gid;
	uint8_t mac[6];

	make_path(f, &host, &host, first_mac);
	make_path(f, &other, &other, first_mac); /* one host may have several addresses */
	announce(f, &host, first_mac, false);
	assert_int_equal(net_neigh_changes(&f->p, NULL), 0);
	announce(f, &host, second_mac, false);
	assert_int_equal(net_neigh_changes(&f->p, NULL), 1);
	assert_int_equal(pending(f), 1);
	assert_true(follows(f, &host, first_mac, second_mac));
	assert_false(follows(f, &host, second_mac, second_mac)); /* made after it */
	assert_false(follows(f, &other, first_mac, second_mac));
	/* Twice before anybody has followed: paths from either follow. */
	announce(f, &host, third_mac, false);
	assert_int_equal(pending(f), 1);
	assert_true(follows(f, &host, first_mac, third_mac));
	assert_true(follows(f, &host, second_mac, third_mac));
	assert_true(net_neigh_followed(&f->p, &gid, mac));
	assert_true(gid_equal(&gid, &host));
	assert_memory_equal(mac, third_mac, 6);
	assert_false(net_neigh_followed(&f->p, &gid, mac));
	assert_int_equal(pending(f), 0);
	assert_false(follows(f, &host, first_mac, third_mac));
	assert_int_equal(net_neigh_changes(&f->p, NULL), 2);
}

static void
a_router_takes_those_behind_it_along(void **state)
{
	struct fixture *f = *state;
	struct gid router = gid4(198, 18, 0, 254), far = gid4(203, 0, 113, 5), further = gid4(203, 0, 114, 5), near = gid4(198, 18, 0, 9);

	memcpy(f->p.conf.gateway4, gid_ip(&router), 4);
	f->router = router;
	make_path(f, &far, &router, first_mac);
	announce(f, &router, second_mac, false);
	assert_true(follows(f, &far, first_mac, second_mac));
	assert_true(follows(f, &further, first_mac, second_mac));
	assert_true(follows(f, &router, first_mac, second_mac));
	assert_false(follows(f, &further, third_mac, second_mac)); /* by another router */
	assert_false(follows(f, &near, first_mac, second_mac));    /* another address of the router, on link */
}

/* Two hosts in two VLANs may have the same address. */
static void
a_host_of_another_vlan_takes_nobody_along(void **state)
{
	struct gid host = gid4(198, 18, 0, 2), far = gid4(203, 0, 113, 5), near = gid4(198, 18, 5, 9);
	struct net_learned l = { .gid = host, .vlan = 5 };
	struct fixture *f = *state;

	memcpy(f->p.conf.gateway4, gid_ip(&host), 4);
	f->gids.addr[2] = (struct net_addr){ .gid = gid4(198, 18, 5, 1), .prefix = 24, .vlan = 5 };
	make_path(f, &far, &host, first_mac);
	memcpy(l.mac, second_mac, 6);
	net_learn(&f->p, &l, 0);
	assert_int_equal(pending(f), 0);
	net_neigh_remember(&f->p, &f->gids.addr[2].gid, &near, first_mac);
	l.gid = near;
	net_learn(&f->p, &l, 0);
	assert_int_equal(pending(f), 1);
	assert_false(follows(f, &l.gid, first_mac, second_mac)); /* from an address of another VLAN */
	assert_false(follows(f, &far, first_mac, second_mac));
}

/* RFC 4861, 7.2.5 */
static void
an_advertisement_without_override_changes_nothing_that_is_known(void **state)
{
	struct fixture *f = *state;
	struct gid host = gid4(198, 18, 0, 2);
	uint8_t mac[6];

	make_path(f, &host, &host, first_mac);
	announce(f, &host, second_mac, true);
	assert_int_equal(pending(f), 0);
	assert_int_equal(net_resolve(&f->p, 1, &host, 0, mac, done, &f->o), 0);
	assert_memory_equal(mac, first_mac, 6);
}

static void
an_advertisement_without_override_answers_who_asks(void **state)
{
	struct fixture *f = *state;
	struct gid host = gid4(198, 18, 0, 2);
	uint8_t mac[6];

	assert_int_equal(net_resolve(&f->p, 1, &host, 0, mac, done, &f->o), EINPROGRESS);
	announce(f, &host, second_mac, true);
	assert_int_equal(f->o.calls, 1);
	assert_memory_equal(f->o.mac, second_mac, 6);
}

/* Its entry in the neighbour table goes; that paths lead there stays known. */
static void
a_host_that_was_silent_for_long_takes_its_paths_along(void **state)
{
	struct fixture *f = *state;
	struct gid host = gid4(198, 18, 0, 2);
	uint64_t now = NEIGH_REACHABLE_NS;
	uint8_t mac[6];

	make_path(f, &host, &host, first_mac);
	assert_int_equal(net_resolve(&f->p, 1, &host, now, mac, done, &f->o), 0);
	for (unsigned int i = 0; i < NET_RESOLVE_TRIES; i++)
		net_port_poll(&f->p, now += NET_RESOLVE_INTERVAL_MS * NEIGH_MS);
	assert_null(neigh_find(f->priv.neigh, &host, 0));
	announce(f, &host, second_mac, false);
	assert_true(follows(f, &host, first_mac, second_mac));
}

static void
strangers_are_not_noted(void **state)
{
	struct fixture *f = *state;

	for (unsigned int i = 2; i < 100; i++) {
		struct gid gid = gid4(198, 18, 0, (uint8_t)i);

		announce(f, &gid, first_mac, false);
		announce(f, &gid, second_mac, false);
	}
	assert_int_equal(f->priv.neigh->hops.nb, 0);
	assert_int_equal(net_neigh_changes(&f->p, NULL), 0);
}

static void
a_full_table_gives_up_who_was_not_used_for_longest(void **state)
{
	struct fixture *f = *state;
	struct gid first = gid4(10, 0, 0, 1), gid = first;

	f->gids.addr[1] = (struct net_addr){ .gid = gid4(10, 0, 0, 0), .prefix = 8 };
	for (unsigned int i = 1; i <= NET_NEIGH_MAX + 1; i++) {
		wire_put32(gid.raw + 12, 10u << 24 | i);
		make_path(f, &gid, &gid, first_mac);
		announce(f, &gid, second_mac, false);
	}
	assert_int_equal(f->priv.neigh->hops.nb, NET_NEIGH_MAX);
	assert_int_equal(pending(f), NET_NEIGH_MAX);
	assert_false(follows(f, &first, first_mac, second_mac));
	assert_true(follows(f, &gid, first_mac, second_mac));
}

static void
paths_of_a_daemon_before_are_remembered(void **state)
{
	struct fixture *f = *state;
	const struct gid *sgid = &f->gids.addr[1].gid;
	struct gid host = gid4(198, 18, 0, 2), far = gid4(203, 0, 113, 5), router = gid4(198, 18, 0, 254), group = gid4(239, 1, 2, 3);

	memcpy(f->p.conf.gateway4, gid_ip(&router), 4);
	net_neigh_remember(&f->p, sgid, &host, first_mac);
	net_neigh_remember(&f->p, sgid, &far, first_mac);
	net_neigh_remember(&f->p, sgid, &group, first_mac);
	net_neigh_remember(&f->p, sgid, sgid, first_mac);
	assert_int_equal(f->priv.neigh->hops.nb, 2);
	announce(f, &host, second_mac, false);
	assert_true(follows(f, &host, first_mac, second_mac));
	assert_false(follows(f, &far, first_mac, second_mac));
	announce(f, &router, third_mac, false);
	assert_true(follows(f, &far, first_mac, third_mac));
}

static void
the_kernel_is_not_asked_about_paths_of_a_daemon_before(void **state)
{
	struct fixture *f = *state;
	struct gid host = gid4(198, 18, 0, 2), far = gid4(203, 0, 113, 5);

	net_neigh_remember(&f->p, &f->gids.addr[1].gid, &host, first_mac);
	net_neigh_remember(&f->p, &f->gids.addr[1].gid, &far, first_mac);
	assert_int_equal(f->looks, 0);
	assert_int_equal(f->priv.neigh->hops.nb, 1);
	hops_mac(&f->priv.neigh->hops, &host, 0, second_mac);
	assert_true(follows(f, &host, first_mac, second_mac));
}

static void
what_the_kernel_reports_counts(void **state)
{
	struct fixture *f = *state;
	struct gid host = gid4(198, 18, 0, 2), router = gid4(198, 18, 0, 254), far = gid4(203, 0, 113, 5);

	make_path(f, &host, NULL, NULL);
	f->router = router;
	make_path(f, &far, NULL, NULL);
	hops_mac(&f->priv.neigh->hops, &host, 0, second_mac);
	assert_true(follows(f, &host, first_mac, second_mac));
	assert_false(follows(f, &far, first_mac, second_mac));
	hops_mac(&f->priv.neigh->hops, &router, 0, third_mac);
	assert_true(follows(f, &far, first_mac, third_mac));
}

static void
after_lost_reports_the_kernel_is_asked_but_not_all_the_time(void **state)
{
	struct fixture *f = *state;
	struct gid host = gid4(198, 18, 0, 2);
	unsigned int looks;

	make_path(f, &host, NULL, NULL);
	looks = f->looks;
	memcpy(f->mac, second_mac, 6);
	assert_true(net_port_poll(&f->p, 0) == UINT64_MAX);
	assert_int_equal(f->looks, looks);
	f->priv.neigh->hops.lost = true;
	assert_true(net_port_poll(&f->p, 0) == UINT64_MAX);
	assert_int_equal(f->looks, looks + 1);
	assert_true(follows(f, &host, first_mac, second_mac));
	f->priv.neigh->hops.lost = true;
	assert_true(net_port_poll(&f->p, NEIGH_MS) == HOPS_LOOK_MS * NEIGH_MS);
	assert_int_equal(f->looks, looks + 1);
	net_port_poll(&f->p, HOPS_LOOK_MS * NEIGH_MS);
	assert_int_equal(f->looks, looks + 2);
	assert_false(f->priv.neigh->hops.lost);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_host_that_announces_another_address_takes_its_paths_along, own_port, teardown),
		cmocka_unit_test_setup_teardown(a_router_takes_those_behind_it_along, own_port, teardown),
		cmocka_unit_test_setup_teardown(a_host_of_another_vlan_takes_nobody_along, own_port, teardown),
		cmocka_unit_test_setup_teardown(an_advertisement_without_override_changes_nothing_that_is_known, own_port, teardown),
		cmocka_unit_test_setup_teardown(an_advertisement_without_override_answers_who_asks, own_port, teardown),
		cmocka_unit_test_setup_teardown(a_host_that_was_silent_for_long_takes_its_paths_along, own_port, teardown),
		cmocka_unit_test_setup_teardown(strangers_are_not_noted, own_port, teardown),
		cmocka_unit_test_setup_teardown(a_full_table_gives_up_who_was_not_used_for_longest, own_port, teardown),
		cmocka_unit_test_setup_teardown(paths_of_a_daemon_before_are_remembered, own_port, teardown),
		cmocka_unit_test_setup_teardown(the_kernel_is_not_asked_about_paths_of_a_daemon_before, shared_port, teardown),
		cmocka_unit_test_setup_teardown(what_the_kernel_reports_counts, shared_port, teardown),
		cmocka_unit_test_setup_teardown(after_lost_reports_the_kernel_is_asked_but_not_all_the_time, shared_port, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
