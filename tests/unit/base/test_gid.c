/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/gid.h"

static const struct gid v4 = { { [10] = 0xff, 0xff, 198, 18, 0, 1 } }, v6 = { { 0xfd, 0, 0, 0x18, [15] = 1 } };

static void
gids_read_as_addresses(void **state)
{
	char out[GID_TEXT_BYTES];

	assert_string_equal(gid_text(&v4, out), "198.18.0.1");
	assert_string_equal(gid_text(&v6, out), "fd00:18::1");
}

static void
an_address_of_an_ip_header_and_its_gid_are_made_of_each_other(void **state)
{
	struct gid g = gid_from_ip(4, v4.raw + 12);

	assert_true(gid_equal(&g, &v4));
	assert_true(gid_is_v4(&g));
	assert_ptr_equal(gid_ip(&g), g.raw + 12);
	assert_int_equal(gid_ip_bytes(&g), 4);
	g = gid_from_ip(6, v6.raw);
	assert_true(gid_equal(&g, &v6));
	assert_false(gid_is_v4(&g));
	assert_ptr_equal(gid_ip(&g), g.raw);
	assert_int_equal(gid_ip_bytes(&g), 16);
}

static void
subnets_compare_bit_by_bit(void **state)
{
	const struct gid a = { { [10] = 0xff, 0xff, 10, 1, 2, 3 } }, b = { { [10] = 0xff, 0xff, 10, 1, 15, 255 } };

	assert_true(gid_same_subnet(&a, &b, 20));
	assert_false(gid_same_subnet(&a, &b, 21));
	assert_true(gid_same_subnet(&a, &b, 0));
	assert_false(gid_same_subnet(&a, &b, 32));
	assert_true(gid_same_subnet(&a, &a, 32));
	assert_false(gid_same_subnet(&a, &v6, 0));
}

static void
link_local_address_of_a_mac(void **state)
{
	const uint8_t mac[6] = { 0x52, 0x54, 0x00, 0x12, 0x34, 0x56 };
	const struct gid gid = gid_link_local(mac);
	char text[GID_TEXT_BYTES];

	assert_string_equal(gid_text(&gid, text), "fe80::5054:ff:fe12:3456");
	assert_true(gid_is_link_local(&gid));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gids_read_as_addresses),
		cmocka_unit_test(an_address_of_an_ip_header_and_its_gid_are_made_of_each_other),
		cmocka_unit_test(subnets_compare_bit_by_bit),
		cmocka_unit_test(link_local_address_of_a_mac),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
