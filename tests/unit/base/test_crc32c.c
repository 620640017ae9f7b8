/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/crc32c.h"

static uint8_t bytes[4096];

/* Bit by bit. */
static uint32_t
slowly(uint32_t crc, const uint8_t *p, size_t n)
{
	while (n-- > 0) {
		crc ^= *p++;
		for (int i = 0; i < 8; i++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return crc;
}

static void
it_is_iscsis(void **state)
{
	/* RFC 3720, B.4: 32 bytes of zeros, and 32 of ones. */
	uint8_t ones[32];

	for (uint32_t i = 0; i < sizeof(ones); i++)
		ones[i] = 0xff;
	assert_int_equal(~crc32c(UINT32_MAX, bytes, 32), 0x8a9136aa);
	assert_int_equal(~crc32c(UINT32_MAX, ones, 32), 0x62a8ab43);
}

static void
any_length_and_alignment(void **state)
{
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	for (uint32_t n = 0; n < 1100; n++)
		assert_int_equal(crc32c(UINT32_MAX, bytes + n % 17, n), slowly(UINT32_MAX, bytes + n % 17, n));
	assert_int_equal(crc32c(UINT32_MAX, bytes, sizeof(bytes)), slowly(UINT32_MAX, bytes, sizeof(bytes)));
}

static void
it_goes_on_from_what_was_before(void **state)
{
	assert_int_equal(crc32c(crc32c(UINT32_MAX, bytes, 700), bytes + 700, 600), crc32c(UINT32_MAX, bytes, 1300));
	assert_int_equal(crc32c(17, bytes, 0), 17);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_iscsis),
		cmocka_unit_test(any_length_and_alignment),
		cmocka_unit_test(it_goes_on_from_what_was_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
