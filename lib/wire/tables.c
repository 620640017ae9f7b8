/* SPDX-License-Identifier: BSD-3-Clause */
/* Encoded values of the AETH, and entropy of the UDP source port. */
#include "wire/wire.h"

#define RNR_TIMER_UNIT_NS UINT64_C(10000)
#define CREDIT_CODES 31
#define FLOW_LABEL_MASK 0xfffffu
#define SPORT_MIN 0xc000u

/* RNR NAK timers in units of 10 us (table 45). */
static const uint32_t rnr_timer[32] = {
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

/* End-to-end flow control credits (table 46). */
static const uint16_t credits_of[CREDIT_CODES] = {
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

uint64_t
wire_rnr_timer_ns(uint8_t code)
{
	return rnr_timer[code & 31] * RNR_TIMER_UNIT_NS;
}

uint32_t
wire_aeth_credits(uint8_t code)
{
	return code < CREDIT_CODES ? credits_of[code] : credits_of[CREDIT_CODES - 1];
}

uint8_t
wire_aeth_credit_code(uint32_t credits)
{
	uint8_t low = 0, high = CREDIT_CODES - 1;

	/* Who only reads and writes posts none, and each response says so. */
	if (credits == 0)
		return 0;
	while (low < high) {
		uint8_t mid = (uint8_t)((low + high + 1) / 2);

		if (credits_of[mid] <= credits)
			low = mid;
		else
			high = mid - 1;
	}
	return low;
}

uint16_t
wire_flow_label_to_sport(uint32_t fl)
{
	uint32_t low = fl & 0x3fff, high = (fl & 0xfc000) >> 14;

	return (uint16_t)(SPORT_MIN | (low ^ high));
}

uint32_t
wire_calc_flow_label(uint32_t lqpn, uint32_t rqpn)
{
	uint64_t v = (uint64_t)lqpn * rqpn;

	v ^= v >> 20;
	v ^= v >> 40;
	return (uint32_t)v & FLOW_LABEL_MASK;
}
