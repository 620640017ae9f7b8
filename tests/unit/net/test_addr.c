/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Addresses: what parses, and what a user reads who made a mistake. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <rte_rcu_qsbr.h>

#include "net/net_priv.h"

static void
ipv4_becomes_a_mapped_gid(void **state)
{
	const uint8_t want[16] = { [10] = 0xff, [11] = 0xff, 198, 18, 0, 1 };
	struct net_addr a;
	char err[200] = "";

	assert_int_equal(net_addr_parse("198.18.0.1/24", &a, err, sizeof(err)), 0);
	assert_memory_equal(&a.gid, want, 16);
	assert_int_equal(a.prefix, 24);
	assert_string_equal(err, "");
}

static void
ipv6_is_the_gid(void **state)
{
	const uint8_t want[16] = { 0xfd, 0, 0, 0x18, [15] = 1 };
	struct net_addr a;
	char err[200];

	assert_int_equal(net_addr_parse("fd00:18::1/64", &a, err, sizeof(err)), 0);
	assert_memory_equal(&a.gid, want, 16);
	assert_int_equal(a.prefix, 64);
}

static void
an_address_may_name_its_vlan(void **state)
{
	static const struct {
		const char *text;
		uint8_t prefix;
		uint16_t vlan;
	} good[] = {
		{ "198.18.0.1/24", 24, NET_VLAN_OF_PORT }, { "198.18.0.1/24@0", 24, 0 }, { "198.18.5.1/32@5", 32, 5 }, { "fd00:5::1/64@4094", 64, 4094 },
	};
	struct net_port_config c = { .vlan_id = 7 };
	struct net_addr a;
	char err[200];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(net_addr_parse(good[i].text, &a, err, sizeof(err)), 0);
		assert_int_equal(a.prefix, good[i].prefix);
		assert_int_equal(a.vlan, good[i].vlan);
		assert_int_equal(net_addr_vlan(&c, &a), i == 0 ? 7 : good[i].vlan);
	}
}

static void
prefix_may_be_0_and_the_whole_address(void **state)
{
	static const char *const good[] = { "10.0.0.1/0", "10.0.0.1/32", "fd00::1/0", "fd00::1/128" };
	struct net_addr a;
	char err[200];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_int_equal(net_addr_parse(good[i], &a, err, sizeof(err)), 0);
}

static void
mistakes_say_what_would_be_right(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "10.0.0.1/33", "address 10.0.0.1/33: prefix length must be 0 to 32" },
		{ "fd00::1/129", "address fd00::1/129: prefix length must be 0 to 128" },
		{ "10.0.0.1/-1", "prefix length must be 0 to 32" },
		{ "10.0.0.1/ 8", "prefix length must be 0 to 32" },
		{ "10.0.0.1/+8", "prefix length must be 0 to 32" },
		{ "10.0.0.1/8x", "prefix length must be 0 to 32" },
		{ "10.0.0.1/", "prefix length must be 0 to 32" },
		{ "10.0.0.1/99999999999999999999", "prefix length must be 0 to 32" },
		{ "10.0.0.1/24@", "address 10.0.0.1/24@: behind @ must be a VLAN ID, 1 to 4094, or 0 for untagged, like 10.0.0.1/24@5" },
		{ "fd00::1/64@4095", "behind @ must be a VLAN ID, 1 to 4094, or 0 for untagged, like fd00::1/64@5" },
		{ "10.0.0.1/24@-1", "behind @ must be a VLAN ID" },
		{ "10.0.0.1/24@5/6", "behind @ must be a VLAN ID" },
		{ "10.0.0.1/24@5@6", "behind @ must be a VLAN ID" },
		{ "10.0.0.1/24@eth0.5", "behind @ must be a VLAN ID" },
		{ "10.0.0.1/24@99999999999999999999", "behind @ must be a VLAN ID" },
		{ "10.0.0.1/33@5", "prefix length must be 0 to 32" },
		{ "10.0.0.1@5", "prefix length is missing; must be like 10.0.0.1/24" },
		{ "10.0.0.1@5/24", "prefix length is missing; must be like 10.0.0.1/24" },
		{ "@5", "must be like 198.18.0.1/24" },
		{ "10.0.0.1", "prefix length is missing; must be like 10.0.0.1/24" },
		{ "fd00::1", "prefix length is missing; must be like fd00::1/64" },
		{ "10.0.0/24", "10.0.0 is neither an IPv4 nor an IPv6 address" },
		{ "10.0.0.256/24", "neither an IPv4 nor an IPv6 address" },
		{ "fd00::g/64", "neither an IPv4 nor an IPv6 address" },
		{ "", "must be like 198.18.0.1/24 or fd00:18::1/64" },
		{ "/24", "must be like 198.18.0.1/24 or fd00:18::1/64" },
		{ "1111111111111111111111111111111111111111111111111111111111111111111/8",
		  "must be like 198.18.0.1/24" },
		{ "::ffff:10.0.0.1/120", "write an IPv4-mapped address as IPv4" },
		{ "0.0.0.0/0", "the unspecified address can't be a port's own" },
		{ "::/0", "the unspecified address can't be a port's own" },
		{ "224.0.0.1/4", "a multicast address can't be a port's own" },
		{ "ff02::1/64", "a multicast address can't be a port's own" },
		{ "127.0.0.1/8", "a loopback, broadcast or reserved address can't be a port's own" },
		{ "::1/128", "a loopback, broadcast or reserved address can't be a port's own" },
		{ "255.255.255.255/32", "a loopback, broadcast or reserved address can't be a port's own" },
	};
	struct net_addr a, before;
	char err[200];

	memset(&before, 0x5a, sizeof(before));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		a = before;
		assert_int_equal(net_addr_parse(bad[i].text, &a, err, sizeof(err)), EINVAL);
		if (strstr(err, bad[i].says) == NULL)
			fail_msg("%s: message is \"%s\"", bad[i].text, err);
		assert_memory_equal(&a, &before, sizeof(a));
	}
}

/* ---- A port's addresses ---- */
static struct net_addr
addr(const char *text)
{
	struct net_addr a;
	char err[200];

	assert_int_equal(net_addr_parse(text, &a, err, sizeof(err)), 0);
	return a;
}

static void
addresses_are_added_replaced_and_removed(void **state)
{
	const struct net_addr a = addr("198.18.0.1/24"), b = addr("fd00:18::1/64"), c = addr("198.18.1.1/24");
	struct net_priv priv = { .old_gids.free = net_gids_free };
	struct net_port p = { .priv = &priv };

	assert_int_equal(net_addr_set(&p, 1, &a), 0);
	assert_int_equal(net_addr_set(&p, 3, &b), 0);
	assert_null(net_gid(&p, 0));
	assert_null(net_gid(&p, 2));
	assert_null(net_gid(&p, UROCE_MAX_GIDS));
	assert_true(gid_equal(net_gid(&p, 1), &a.gid));
	assert_int_equal(net_addr(&p, 3)->prefix, 64);
	assert_int_equal(net_gid_index(&p, &b.gid), 3);
	assert_true(net_port_owns(&p, &a.gid));
	assert_int_equal(net_addr_set(&p, 1, &c), 0);
	assert_false(net_port_owns(&p, &a.gid));
	assert_int_equal(net_gid_index(&p, &c.gid), 1);
	assert_int_equal(net_addr_set(&p, 1, NULL), 0);
	assert_int_equal(net_gid_index(&p, &c.gid), -1);
	assert_int_equal(net_gid_index(&p, &b.gid), 3);
	free(p.gids);
}

static void
addresses_that_cannot_be_are_refused(void **state)
{
	const struct net_addr a = addr("198.18.0.1/24"), none = { 0 }, group = { .gid = { { 0xff, 0x02, [15] = 1 } } };
	struct net_priv priv = { .old_gids.free = net_gids_free };
	struct net_port p = { .priv = &priv };

	assert_int_equal(net_addr_set(&p, 1, &a), 0);
	assert_int_equal(net_addr_set(&p, UROCE_MAX_GIDS, &a), EINVAL);
	assert_int_equal(net_addr_set(&p, 2, &a), EEXIST);
	assert_int_equal(net_addr_set(&p, 1, &a), 0);
	assert_int_equal(net_addr_set(&p, 2, &none), EINVAL);
	assert_int_equal(net_addr_set(&p, 2, &group), EINVAL);
	assert_false(net_port_owns(&p, &none.gid));
	free(p.gids);
}

static void
an_address_is_on_link_in_the_first_subnet_it_fits(void **state)
{
	const struct net_addr a = addr("198.18.0.1/24"), b = addr("198.18.1.1/16"), near = addr("198.18.0.9/32"),
			      wide = addr("198.18.7.9/32"), far = addr("203.0.113.5/32");
	struct net_priv priv = { .old_gids.free = net_gids_free };
	struct net_port p = { .priv = &priv };

	assert_int_equal(net_addr_set(&p, 1, &a), 0);
	assert_int_equal(net_addr_set(&p, 2, &b), 0);
	assert_int_equal(net_addr_on_link(&p, 0, &near.gid), 1);
	assert_int_equal(net_addr_on_link(&p, 0, &wide.gid), 2);
	assert_int_equal(net_addr_on_link(&p, 0, &far.gid), -1);
	free(p.gids);
}

static void
an_address_is_on_link_in_its_vlan_only(void **state)
{
	const struct net_addr a = addr("198.18.0.1/24"), b = addr("198.18.1.1/16@5"), near = addr("198.18.0.9/32");
	struct net_priv priv = { .old_gids.free = net_gids_free };
	struct net_port p = { .priv = &priv, .conf.vlan_id = 7 };

	assert_int_equal(net_addr_set(&p, 1, &a), 0);
	assert_int_equal(net_addr(&p, 1)->vlan, 7);
	assert_int_equal(net_addr_set(&p, 2, &b), 0);
	assert_int_equal(net_addr_on_link(&p, 7, &near.gid), 1);
	assert_int_equal(net_addr_on_link(&p, 5, &near.gid), 2);
	assert_int_equal(net_addr_on_link(&p, 0, &near.gid), -1);
	assert_true(net_port_in_vlan(&p, 5) && net_port_in_vlan(&p, 7) && !net_port_in_vlan(&p, 0));
	free(p.gids);
}

static void
a_port_takes_what_comes_in_the_vlan_of_the_address(void **state)
{
	const struct net_addr a = addr("198.18.0.1/24"), b = addr("198.18.5.1/24@5"), other = addr("198.18.0.9/32");
	const struct gid group = { { [10] = 0xff, 0xff, 239, 1, 1, 1 } };
	struct net_priv priv = { .old_gids.free = net_gids_free };
	struct net_port p = { .priv = &priv };

	assert_int_equal(net_addr_set(&p, 1, &a), 0);
	for (uint16_t vlan = 0; vlan < 7; vlan++) {
		assert_int_equal(net_port_takes(&p, &a.gid, vlan), vlan == 0);
		assert_int_equal(net_port_takes(&p, &group, vlan), vlan == 0);
	}
	assert_int_equal(net_addr_set(&p, 2, &b), 0);
	for (uint16_t vlan = 0; vlan < 7; vlan++) {
		assert_int_equal(net_port_takes(&p, &a.gid, vlan), vlan == 0);
		assert_int_equal(net_port_takes(&p, &b.gid, vlan), vlan == 5);
		assert_int_equal(net_port_takes(&p, &group, vlan), vlan == 0 || vlan == 5);
		assert_int_equal(net_port_takes(&p, &other.gid, vlan), vlan == 0 || vlan == 5);
	}
	/* The kernel has looked at the tag. */
	p.shared = true;
	assert_true(net_port_takes(&p, &a.gid, 6));
	free(p.gids);
}

static void
a_reader_keeps_the_addresses_that_it_has_found(void **state)
{
	const struct net_addr a = addr("198.18.0.1/24"), b = addr("198.18.0.2/24");
	struct rte_rcu_qsbr *q = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(rte_rcu_qsbr_get_memsize(1), RTE_CACHE_LINE_SIZE));
	struct net_priv priv = { .old_gids = { .qsbr = q, .free = net_gids_free } };
	struct net_port p = { .priv = &priv };
	const struct gid *found;

	assert_non_null(q);
	assert_int_equal(rte_rcu_qsbr_init(q, 1), 0);
	rte_rcu_qsbr_thread_register(q, 0);
	rte_rcu_qsbr_thread_online(q, 0);
	assert_int_equal(net_addr_set(&p, 1, &a), 0);
	found = net_gid(&p, 1);
	assert_int_equal(net_addr_set(&p, 1, &b), 0);
	assert_true(gid_equal(found, &a.gid));
	assert_true(gid_equal(net_gid(&p, 1), &b.gid));
	assert_non_null(priv.old_gids.first);
	rte_rcu_qsbr_quiescent(q, 0);
	deferred_reap(&priv.old_gids);
	assert_null(priv.old_gids.first);
	free(p.gids);
	free(q);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ipv4_becomes_a_mapped_gid),
		cmocka_unit_test(ipv6_is_the_gid),
		cmocka_unit_test(an_address_may_name_its_vlan),
		cmocka_unit_test(prefix_may_be_0_and_the_whole_address),
		cmocka_unit_test(mistakes_say_what_would_be_right),
		cmocka_unit_test(addresses_are_added_replaced_and_removed),
		cmocka_unit_test(addresses_that_cannot_be_are_refused),
		cmocka_unit_test(an_address_is_on_link_in_the_first_subnet_it_fits),
		cmocka_unit_test(an_address_is_on_link_in_its_vlan_only),
		cmocka_unit_test(a_port_takes_what_comes_in_the_vlan_of_the_address),
		cmocka_unit_test(a_reader_keeps_the_addresses_that_it_has_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
