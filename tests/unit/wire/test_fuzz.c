/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random damage to golden packets: the parser stays inside the frame and what it says is true, and is the same with a cache of headers. Deterministic; worth
 * most under AddressSanitizer, for every frame lies in memory of exactly its size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "frames.h"
#include "pcap.h"
#include "wire/header_cache.h"

#define SEED UINT64_C(0x9e3779b97f4a7c15)
#define MUTATIONS_PER_PACKET 20

struct fuzz {
	uint64_t rng;
	unsigned int verdicts[WIRE_VERDICTS];
	struct wire_header_cache cache;
	unsigned int cached[WIRE_VERDICTS]; /**< of those, with headers from the cache */
};

static uint64_t
next_random(struct fuzz *fz)
{
	fz->rng ^= fz->rng << 13;
	fz->rng ^= fz->rng >> 7;
	fz->rng ^= fz->rng << 17;
	return fz->rng;
}

/** Damage some bytes, the first 80 most often: that is where lengths and types are. @return the new length. */
static uint32_t
mutate(struct fuzz *fz, uint8_t *frame, uint32_t len, uint32_t room)
{
	unsigned int changes = 1 + next_random(fz) % 4;

	for (unsigned int i = 0; i < changes; i++) {
		uint32_t reach = next_random(fz) % 4 != 0 && len > 80 ? 80 : len;
		uint32_t at = (uint32_t)(next_random(fz) % reach);

		switch (next_random(fz) % 4) {
		case 0:
			frame[at] ^= 1 << next_random(fz) % 8;
			break;
		case 1:
			frame[at] = (uint8_t)next_random(fz);
			break;
		case 2:
			frame[at] = next_random(fz) % 2 ? 0xff : 0;
			break;
		default:
			if (at + 1 < len)
				wire_put16(frame + at, (uint16_t)(len - at + next_random(fz) % 9 - 4));
			break;
		}
	}
	switch (next_random(fz) % 4) {
	case 0:
		return (uint32_t)(next_random(fz) % (len + 1));
	case 1:
		return len + (uint32_t)(next_random(fz) % (room - len + 1));
	default:
		return len;
	}
}

/** The same frame with a cache: the same result. */
static void
check_cached(struct fuzz *fz, const uint8_t *copy, uint32_t len, bool check_icrc, enum wire_verdict v, const struct wire_pkt *p)
{
	struct wire_pkt c = { 0 };

	assert_int_equal(wire_parse_cached(&fz->cache, copy, len, check_icrc, &c), v);
	fz->cached[v] += c.lower_crc != 0;
	if (v != WIRE_OK)
		return;
	assert_memory_equal(&c.bth, &p->bth, sizeof(c.bth));
	assert_true(c.op == p->op && c.l2 == p->l2 && c.l3 == p->l3 && c.bthp == p->bthp && c.payload == p->payload);
	assert_true(c.payload_bytes == p->payload_bytes && c.ip_version == p->ip_version && c.ecn == p->ecn && c.sport == p->sport);
	assert_true(c.vlan_tci == p->vlan_tci && c.more == 0 && !c.inside);
	assert_int_equal(wire_icrc_ok(&c), wire_icrc_ok(p));
}

static void
check(struct fuzz *fz, const uint8_t *frame, uint32_t len, bool check_icrc)
{
	uint8_t *copy = malloc(len > 0 ? len : 1);
	struct wire_pkt p;
	enum wire_verdict v;

	assert_non_null(copy);
	memcpy(copy, frame, len);
	v = wire_parse(copy, len, check_icrc, &p);
	assert_in_range(v, 0, WIRE_VERDICTS - 1);
	fz->verdicts[v]++;
	if (v == WIRE_OK) {
		const uint8_t *end = p.payload + p.payload_bytes + p.bth.pad + WIRE_ICRC_BYTES;

		assert_true(p.l2 == copy && p.l3 > p.l2 && p.bthp > p.l3 && p.payload > p.bthp);
		assert_true(end <= copy + len);
		assert_true(p.op->flags & WIRE_F_VALID);
		assert_int_equal(p.payload - p.bthp, p.op->hdr_bytes);
		assert_true(p.payload_bytes <= WIRE_MAX_MTU);
		assert_true(p.ip_version == 4 || p.ip_version == 6);
	}
	check_cached(fz, copy, len, check_icrc, v, &p);
	free(copy);
}

static void
fuzz_packet(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	uint8_t bytes[WIRE_MAX_FRAME_BYTES + 64];
	struct fuzz *fz = arg;

	for (unsigned int i = 0; i < MUTATIONS_PER_PACKET; i++) {
		uint32_t mutated;

		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes, frame, len);
		mutated = mutate(fz, bytes, len, len + 64);
		check(fz, bytes, mutated, true);
		check(fz, bytes, mutated, false);
	}
}

static void
damaged_packets_never_lead_outside_the_frame(void **state)
{
	struct fuzz fz = { .rng = SEED };

	golden_for_each(fuzz_packet, &fz);
	for (int v = 0; v < WIRE_VERDICTS; v++)
		if (fz.verdicts[v] == 0)
			fail_msg("no mutation reached \"%s\"", wire_verdict_name(v));
}

/** Damage, then make every checksum right again: only the checks of lengths are left in the way. */
static void
damaged_headers_with_right_checksums(void **state)
{
	struct fuzz fz = { .rng = ~SEED };

	for (unsigned int i = 0; i < 200000; i++) {
		const struct frame_spec spec = {
			.ip_version = i & 1 ? 4 : 6,
			.vlan = i & 2,
			.opcode = (uint8_t)(WIRE_RC | (next_random(&fz) % (WIRE_OP_FETCH_ADD + 1))),
			.payload_bytes = (uint32_t)(next_random(&fz) % 65),
		};
		struct frame f;
		uint32_t len;

		frame_make(&f, &spec);
		len = mutate(&fz, f.bytes + f.l4, f.len - f.l4, f.len - f.l4) + f.l4;
		if (next_random(&fz) % 2 && len >= f.bth + WIRE_BTH_BYTES + WIRE_ICRC_BYTES) {
			uint16_t udp_bytes = (uint16_t)(len - f.l4);

			wire_put16(f.bytes + f.l4 + 2, WIRE_UDP_PORT);
			wire_put16(f.bytes + f.l4 + 4, udp_bytes);
			wire_put16(f.bytes + f.l4 + 6, 0);
			wire_put16(f.bytes + f.l3 + (i & 1 ? 2 : 4), udp_bytes + (i & 1 ? WIRE_IPV4_BYTES : 0));
			f.len = len;
			frame_repair(&f);
		}
		check(&fz, f.bytes, len, true);
	}
	assert_int_not_equal(fz.cached[WIRE_OK], 0);
	assert_int_not_equal(fz.cached[WIRE_BAD_LENGTH], 0);
	assert_int_not_equal(fz.cached[WIRE_BAD_OPCODE], 0);
	assert_int_not_equal(fz.cached[WIRE_BAD_ICRC], 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damaged_packets_never_lead_outside_the_frame),
		cmocka_unit_test(damaged_headers_with_right_checksums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
