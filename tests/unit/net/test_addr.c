/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Addresses: what parses, and what a user reads who made a mistake. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/net_priv.h"

static void
ipv4_becomes_a_mapped_gid(void **state)
{
	const uint8_t want[16] = { [10] = 0xff, [11] = 0xff, 198, 18, 0, 1 };
	struct net_addr a;
	char err[200] = "";

	assert_int_equal(net_addr_parse("198.18.0.1/24", &a, err, sizeof(err)), 0);
	assert_memory_equal(a.gid, want, 16);
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
	assert_memory_equal(a.gid, want, 16);
	assert_int_equal(a.prefix, 64);
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

static void
subnets_compare_bit_by_bit(void **state)
{
	struct net_addr a, b;
	char err[200];

	net_addr_parse("10.1.2.3/20", &a, err, sizeof(err));
	net_addr_parse("10.1.15.255/20", &b, err, sizeof(err));
	assert_true(gid_same_subnet(a.gid, b.gid, 20));
	assert_false(gid_same_subnet(a.gid, b.gid, 21));
	assert_true(gid_same_subnet(a.gid, b.gid, 0));
	assert_false(gid_same_subnet(a.gid, b.gid, 32));
	assert_true(gid_same_subnet(a.gid, a.gid, 32));
	net_addr_parse("fd00::1/64", &b, err, sizeof(err));
	assert_false(gid_same_subnet(a.gid, b.gid, 0));
}

static void
link_local_address_of_a_mac(void **state)
{
	const uint8_t mac[6] = { 0x52, 0x54, 0x00, 0x12, 0x34, 0x56 };
	char text[GID_TEXT_BYTES];
	uint8_t gid[16];

	gid_link_local(gid, mac);
	assert_string_equal(gid_text(gid, text), "fe80::5054:ff:fe12:3456");
	assert_true(gid_is_link_local(gid));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ipv4_becomes_a_mapped_gid),
		cmocka_unit_test(ipv6_is_the_gid),
		cmocka_unit_test(prefix_may_be_0_and_the_whole_address),
		cmocka_unit_test(mistakes_say_what_would_be_right),
		cmocka_unit_test(subnets_compare_bit_by_bit),
		cmocka_unit_test(link_local_address_of_a_mac),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
