/* SPDX-License-Identifier: BSD-3-Clause */
/* Bad input: each verdict is reached, no length is believed, no changed bit gets past the ICRC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "frames.h"
#include "wire/header_cache.h"

#define WRITE_ONLY (WIRE_RC | WIRE_OP_WRITE_ONLY)
#define SEND_ONLY (WIRE_RC | WIRE_OP_SEND_ONLY)

static const uint8_t versions[] = { 4, 6 };

/** A SEND of 13 bytes: three bytes of pad. */
static void
make(struct frame *f, uint8_t ip_version)
{
	const struct frame_spec spec = { .ip_version = ip_version, .opcode = SEND_ONLY, .payload_bytes = 13 };

	frame_make(f, &spec);
}

static void
expect(const struct frame *f, enum wire_verdict want)
{
	enum wire_verdict v = frame_parse(f->bytes, f->len, true);

	assert_string_equal(wire_verdict_name(v), wire_verdict_name(want));
}

static void
good_frame_gives_all_fields(void **state)
{
	for (unsigned int i = 0; i < sizeof(versions); i++) {
		const struct frame_spec spec = {
			.ip_version = versions[i],
			.vlan = true,
			.vlan_tci = 0xa064,
			.opcode = WRITE_ONLY,
			.payload_bytes = 5,
		};
		struct frame f;
		struct wire_pkt p;

		frame_make(&f, &spec);
		assert_int_equal(wire_parse(f.bytes, f.len, true, &p), WIRE_OK);
		assert_ptr_equal(p.l2, f.bytes);
		assert_ptr_equal(p.l3, f.bytes + f.l3);
		assert_ptr_equal(p.bthp, f.bytes + f.bth);
		assert_ptr_equal(p.op, &wire_opcodes[WRITE_ONLY]);
		assert_ptr_equal(p.payload, f.bytes + f.bth + WIRE_BTH_BYTES + WIRE_RETH_BYTES);
		assert_int_equal(p.payload_bytes, 5);
		assert_int_equal(p.ip_version, versions[i]);
		assert_int_equal(p.ecn, 2);
		assert_int_equal(p.sport, 0xd234);
		assert_int_equal(p.vlan_tci, 0xa064);
		assert_int_equal(p.bth.dqpn, 0x123456);
		assert_int_equal(p.bth.psn, 0xfedcba);
		assert_int_equal(p.bth.pkey, WIRE_PKEY_DEFAULT);
		assert_int_equal(p.bth.pad, 3);
		assert_true(p.bth.migreq && p.bth.ackreq);
		assert_false(p.bth.solicited || p.bth.fecn || p.bth.becn);
	}
}

/** Give a frame a UDP checksum. The ICRC doesn't depend on it. */
static void
set_udp_sum(struct frame *f)
{
	bool v4 = f->bytes[f->l3] >> 4 == 4;
	uint32_t addrs = f->l3 + (v4 ? 12 : 8), addr_bytes = v4 ? 8 : 32, sum = 17 + (f->len - f->l4);

	for (uint32_t off = addrs; off < addrs + addr_bytes; off += 2)
		sum += wire_get16(f->bytes + off);
	for (uint32_t off = f->l4; off < f->len; off += 2)
		sum += wire_get16(f->bytes + off);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	wire_put16(f->bytes + f->l4 + 6, (uint16_t)~sum);
}

/** After so many equal frames their headers are in the cache. */
enum { UNTIL_CACHED = 16 };

static bool
cached(struct wire_header_cache *c, const struct frame *f, enum wire_verdict want)
{
	struct wire_pkt p = { 0 };

	assert_int_equal(wire_parse_cached(c, f->bytes, f->len, true, &p), want);
	return p.lower_crc != 0;
}

static void
headers_are_cached_and_any_other_byte_is_looked_at(void **state)
{
	const struct frame_spec spec = { .ip_version = 4, .opcode = WRITE_ONLY, .payload_bytes = 8 };
	struct wire_header_cache c = { 0 };
	struct frame f, zero = { .len = WIRE_MAX_FRAME_BYTES };
	struct wire_pkt p;

	/* An empty place in it is not a frame of zeros. */
	assert_false(cached(&c, &zero, WIRE_NOT_ROCE));
	frame_make(&f, &spec);
	assert_false(cached(&c, &f, WIRE_OK));
	for (int i = 0; i < UNTIL_CACHED; i++)
		cached(&c, &f, WIRE_OK);
	assert_true(cached(&c, &f, WIRE_OK));

	for (uint32_t at = 0; at < f.bth; at++) {
		enum wire_verdict v;

		f.bytes[at] ^= 4;
		v = frame_parse(f.bytes, f.len, true);
		assert_false(cached(&c, &f, v));
		f.bytes[at] ^= 4;
	}
	/* Headers as before: what follows is looked at as ever. */
	for (int i = 0; i < UNTIL_CACHED; i++)
		cached(&c, &f, WIRE_OK);
	for (uint32_t at = f.bth; at < f.len; at++) {
		if (at == f.bth + 4)
			continue; /* the ICRC doesn't cover it */
		f.bytes[at] ^= 4;
		assert_true(cached(&c, &f, frame_parse(f.bytes, f.len, true)));
		assert_int_not_equal(frame_parse(f.bytes, f.len, true), WIRE_OK);
		f.bytes[at] ^= 4;
	}
	for (uint32_t len = 0; len < f.len; len++)
		assert_int_equal(wire_parse_cached(&c, f.bytes, len, true, &p), frame_parse(f.bytes, len, true));
	assert_true(cached(&c, &f, WIRE_OK));
}

static void
headers_of_other_kinds_are_not_cached(void **state)
{
	const struct frame_spec specs[] = {
		{ .ip_version = 6, .opcode = SEND_ONLY, .payload_bytes = 8 },
		{ .ip_version = 4, .vlan = true, .vlan_tci = 5, .opcode = SEND_ONLY, .payload_bytes = 8 },
		{ .ip_version = 4, .opcode = SEND_ONLY, .payload_bytes = 8 }, /* with a UDP checksum */
	};
	struct wire_header_cache c = { 0 };

	for (unsigned int i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		struct frame f;

		frame_make(&f, &specs[i]);
		if (i == 2) {
			set_udp_sum(&f);
			expect(&f, WIRE_OK);
		}
		for (int n = 0; n < UNTIL_CACHED; n++)
			assert_false(cached(&c, &f, WIRE_OK));
		/* The checksum covers what follows. */
		if (i == 2) {
			f.bytes[f.len - 1] ^= 1;
			assert_false(cached(&c, &f, WIRE_BAD_UDP_SUM));
		}
	}
}

/* More flows than there is room: each is parsed right, even if another one's headers are in its place. */
static void
flows_take_each_others_places(void **state)
{
	const struct frame_spec spec = { .ip_version = 4, .opcode = SEND_ONLY, .payload_bytes = 12 };
	struct wire_header_cache c = { 0 };
	unsigned int hits = 0;
	struct frame f;

	frame_make(&f, &spec);
	for (unsigned int i = 0; i < 100 * WIRE_CACHED_HEADERS; i++) {
		/* One of two packets is of the same flow. */
		unsigned int flow = i % 2 == 0 ? 0 : i * 7 % (4 * WIRE_CACHED_HEADERS);

		wire_put16(f.bytes + f.l4, (uint16_t)(0xc000 + flow));
		frame_repair(&f);
		hits += cached(&c, &f, WIRE_OK);
		f.bytes[f.len - 1] ^= 0x80;
		cached(&c, &f, WIRE_BAD_ICRC);
		f.bytes[f.len - 1] ^= 0x80;
	}
	assert_in_range(hits, 30 * WIRE_CACHED_HEADERS, 90 * WIRE_CACHED_HEADERS);
}

static void
priority_tag_is_accepted(void **state)
{
	const struct frame_spec spec = { .ip_version = 4, .vlan = true, .vlan_tci = 3 << 13, .opcode = SEND_ONLY };
	struct frame f;

	frame_make(&f, &spec);
	expect(&f, WIRE_OK);
}

static void
ethernet_padding_is_ignored(void **state)
{
	struct frame f;

	for (unsigned int i = 0; i < sizeof(versions); i++) {
		make(&f, versions[i]);
		memset(f.bytes + f.len, 0xee, 18);
		f.len += 18;
		expect(&f, WIRE_OK);
	}
}

static void
truncation_at_each_length_is_noticed(void **state)
{
	static const uint8_t opcodes[] = { SEND_ONLY, WRITE_ONLY, WIRE_RC | WIRE_OP_CMP_SWAP, WIRE_OPCODE_CNP };

	for (unsigned int i = 0; i < sizeof(versions); i++)
		for (unsigned int o = 0; o < sizeof(opcodes); o++)
			for (int vlan = 0; vlan < 2; vlan++) {
				struct frame_spec spec = {
					.ip_version = versions[i], .vlan = vlan, .opcode = opcodes[o],
				};
				struct frame f;

				if (wire_opcodes[opcodes[o]].flags & WIRE_F_PAYLOAD)
					spec.payload_bytes = 16;
				frame_make(&f, &spec);
				for (uint32_t len = 0; len < f.len; len++)
					assert_int_equal(frame_parse(f.bytes, len, true), WIRE_TRUNCATED);
				assert_int_equal(frame_parse(f.bytes, f.len, true), WIRE_OK);
			}
}

/** Fields that switches and routers may change and that no checksum covers. */
static bool
is_masked(const struct frame *f, uint32_t byte, unsigned int bit)
{
	uint32_t l3 = byte - f->l3;

	if (byte < 12)
		return true; /* MAC addresses */
	if (byte == f->bth + 4)
		return true; /* FECN, BECN, reserved */
	if (f->bytes[f->l3] >> 4 == 4)
		return false; /* the header checksum covers what the ICRC masks */
	/* Traffic class and flow label; hop limit. */
	return byte >= f->l3 && ((l3 == 0 && bit < 4) || (l3 >= 1 && l3 <= 3) || l3 == 7);
}

static void
check_every_bit(const struct frame_spec *spec)
{
	struct frame f;

	frame_make(&f, spec);
	for (uint32_t byte = 0; byte < f.len; byte++)
		for (unsigned int bit = 0; bit < 8; bit++) {
			enum wire_verdict v;

			f.bytes[byte] ^= 1 << bit;
			v = frame_parse(f.bytes, f.len, true);
			f.bytes[byte] ^= 1 << bit;
			if ((v == WIRE_OK) != is_masked(&f, byte, bit))
				fail_msg("%s, IPv%u: byte %u bit %u flipped: %s", wire_opcodes[spec->opcode].name,
					 spec->ip_version, byte, bit, wire_verdict_name(v));
		}
}

static void
every_flipped_bit_outside_masked_fields_is_noticed(void **state)
{
	for (unsigned int i = 0; i < sizeof(versions); i++)
		for (unsigned int o = 0; o < 256; o++) {
			struct frame_spec spec = { .ip_version = versions[i], .opcode = (uint8_t)o };

			if (!(wire_opcodes[o].flags & WIRE_F_VALID))
				continue;
			if (wire_opcodes[o].flags & WIRE_F_PAYLOAD)
				spec.payload_bytes = 61;
			check_every_bit(&spec);
		}
	check_every_bit(&(struct frame_spec){ .ip_version = 4, .opcode = SEND_ONLY, .payload_bytes = 1024 });
}

static void
other_protocols_are_for_others(void **state)
{
	struct frame f;

	make(&f, 4);
	wire_put16(f.bytes + 12, WIRE_ETHERTYPE_ARP);
	expect(&f, WIRE_NOT_ROCE);
	make(&f, 4);
	f.bytes[f.l3 + 9] = 1; /* ICMP */
	frame_repair(&f);
	expect(&f, WIRE_NOT_ROCE);
	make(&f, 6);
	f.bytes[f.l3 + 6] = 58; /* ICMPv6 */
	expect(&f, WIRE_NOT_ROCE);
	for (unsigned int i = 0; i < sizeof(versions); i++) {
		make(&f, versions[i]);
		wire_put16(f.bytes + f.l4 + 2, 53);
		frame_repair(&f);
		expect(&f, WIRE_NOT_ROCE);
	}
}

static void
second_vlan_tag_is_for_others(void **state)
{
	const struct frame_spec spec = { .ip_version = 4, .vlan = true, .vlan_tci = 100, .opcode = SEND_ONLY };
	struct frame f;

	frame_make(&f, &spec);
	wire_put16(f.bytes + 16, WIRE_ETHERTYPE_VLAN);
	expect(&f, WIRE_NOT_ROCE);
}

static void
ip_options_are_refused_on_our_port_only(void **state)
{
	struct frame f;

	make(&f, 4);
	memmove(f.bytes + f.l4 + 4, f.bytes + f.l4, f.len - f.l4);
	memset(f.bytes + f.l4, 1, 4); /* no-operation options */
	f.len += 4;
	f.bytes[f.l3] = 0x46;
	expect(&f, WIRE_BAD_IP);
	wire_put16(f.bytes + f.l4 + 4 + 2, 53);
	expect(&f, WIRE_NOT_ROCE);
	f.bytes[f.l3] = 0x44; /* shorter than a header can be */
	expect(&f, WIRE_BAD_IP);
	f.bytes[f.l3] = 0x65; /* not version 4 */
	expect(&f, WIRE_BAD_IP);
}

static void
fragments_are_refused(void **state)
{
	struct frame f;

	make(&f, 4);
	wire_put16(f.bytes + f.l3 + 6, 0x2000); /* MF */
	frame_repair(&f);
	expect(&f, WIRE_BAD_IP);
	wire_put16(f.bytes + f.l3 + 6, 0x0001); /* the last one */
	frame_repair(&f);
	expect(&f, WIRE_BAD_IP);
	wire_put16(f.bytes + f.l3 + 6, 0); /* DF clear, whole */
	frame_repair(&f);
	expect(&f, WIRE_OK);
}

static void
wrong_ip_header_is_refused(void **state)
{
	struct frame f;

	make(&f, 4);
	f.bytes[f.l3 + 11] ^= 1;
	expect(&f, WIRE_BAD_IP);
	make(&f, 6);
	f.bytes[f.l3] = 0x40 | (f.bytes[f.l3] & 15);
	expect(&f, WIRE_BAD_IP);
}

/* Words of all ones and of ones at their ends carry from each word to the next. */
static void
ipv4_header_sum_is_verified_whatever_carries(void **state)
{
	static const uint32_t words[] = { 0, 1, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };
	const unsigned int n = sizeof(words) / sizeof(words[0]);

	for (unsigned int i = 0; i < n * n; i++) {
		struct frame f;

		make(&f, 4);
		wire_put32(f.bytes + f.l3 + 12, words[i % n]);
		wire_put32(f.bytes + f.l3 + 16, words[i / n]);
		frame_repair(&f);
		expect(&f, WIRE_OK);
		f.bytes[f.l3 + 10 + i % 2] ^= 1 << i % 8;
		expect(&f, WIRE_BAD_IP);
	}
}

static void
ip_and_udp_lengths_must_agree(void **state)
{
	for (unsigned int i = 0; i < sizeof(versions); i++)
		for (int delta = -4; delta <= 4; delta += 8) {
			struct frame f;
			uint8_t *len;

			make(&f, versions[i]);
			len = f.bytes + f.l4 + 4;
			wire_put16(len, (uint16_t)(wire_get16(len) + delta));
			frame_repair(&f);
			expect(&f, WIRE_BAD_IP);
		}
}

/** Set the UDP length, the IP length to fit it, and end the frame there. */
static void
set_udp_bytes(struct frame *f, uint16_t udp_bytes)
{
	bool v4 = f->bytes[f->l3] >> 4 == 4;

	wire_put16(f->bytes + f->l4 + 4, udp_bytes);
	wire_put16(f->bytes + f->l3 + (v4 ? 2 : 4), udp_bytes + (v4 ? WIRE_IPV4_BYTES : 0));
	frame_repair(f);
	f->len = f->l4 + udp_bytes;
}

static void
udp_shorter_than_its_header_is_refused(void **state)
{
	for (unsigned int i = 0; i < sizeof(versions); i++)
		for (uint16_t udp_bytes = 0; udp_bytes < WIRE_UDP_BYTES; udp_bytes++) {
			struct frame f;
			uint32_t len;

			make(&f, versions[i]);
			len = f.len;
			set_udp_bytes(&f, udp_bytes);
			f.len = len;
			expect(&f, WIRE_BAD_IP);
		}
}

static void
udp_shorter_than_its_content_is_refused(void **state)
{
	for (unsigned int i = 0; i < sizeof(versions); i++)
		for (unsigned int o = 0; o < 256; o++) {
			const struct frame_spec spec = { .ip_version = versions[i], .opcode = (uint8_t)o };
			uint32_t least = wire_opcodes[o].hdr_bytes + WIRE_ICRC_BYTES;

			if (!(wire_opcodes[o].flags & WIRE_F_VALID))
				continue;
			for (uint32_t less = 1; less <= least; less++) {
				struct frame f;

				frame_make(&f, &spec);
				set_udp_bytes(&f, (uint16_t)(WIRE_UDP_BYTES + least - less));
				expect(&f, WIRE_BAD_LENGTH);
			}
		}
}

static void
udp_checksum_is_verified_if_there_is_one(void **state)
{
	for (unsigned int i = 0; i < sizeof(versions); i++) {
		struct frame f;

		make(&f, versions[i]);
		set_udp_sum(&f);
		expect(&f, WIRE_OK);
		f.bytes[f.l4 + 6] ^= 1;
		expect(&f, WIRE_BAD_UDP_SUM);
	}
}

static void
unknown_opcodes_are_refused_before_any_length(void **state)
{
	unsigned int unknown = 0;

	for (unsigned int o = 0; o < 256; o++) {
		struct frame f;

		if (wire_opcodes[o].flags & WIRE_F_VALID)
			continue;
		make(&f, 4);
		f.bytes[f.bth] = (uint8_t)o;
		frame_repair(&f);
		expect(&f, WIRE_BAD_OPCODE);
		unknown++;
	}
	assert_true(unknown > 128);
}

static void
transport_version_must_be_0(void **state)
{
	struct frame f;

	for (uint8_t tver = 1; tver < 16; tver++) {
		make(&f, 4);
		f.bytes[f.bth + 1] |= tver;
		frame_repair(&f);
		expect(&f, WIRE_BAD_TVER);
	}
}

static void
payload_where_none_may_be_is_refused(void **state)
{
	for (unsigned int o = 0; o < 256; o++) {
		struct frame_spec spec = { .ip_version = 4, .opcode = (uint8_t)o };
		struct frame f;

		if (!(wire_opcodes[o].flags & WIRE_F_VALID) || wire_opcodes[o].flags & WIRE_F_PAYLOAD)
			continue;
		spec.payload_bytes = 4;
		frame_make(&f, &spec);
		expect(&f, WIRE_BAD_LENGTH);
		spec.payload_bytes = 0;
		frame_make(&f, &spec);
		expect(&f, WIRE_OK);
		f.bytes[f.bth + 1] |= 1 << 4; /* pad without a byte for it */
		frame_repair(&f);
		expect(&f, WIRE_BAD_LENGTH);
	}
}

static void
content_that_is_no_multiple_of_four_is_refused(void **state)
{
	struct frame f;

	make(&f, 4);
	set_udp_bytes(&f, (uint16_t)(f.len - f.l4 - 1));
	expect(&f, WIRE_BAD_LENGTH);
}

static void
payload_beyond_the_largest_mtu_is_refused(void **state)
{
	static struct { struct frame f; uint8_t more[4]; } big;
	const struct frame_spec spec = { .ip_version = 4, .opcode = SEND_ONLY, .payload_bytes = WIRE_MAX_MTU };

	frame_make(&big.f, &spec);
	expect(&big.f, WIRE_OK);
	set_udp_bytes(&big.f, (uint16_t)(big.f.len - big.f.l4 + 4));
	expect(&big.f, WIRE_BAD_LENGTH);
}

static void
wrong_icrc_is_noticed_unless_not_asked_for(void **state)
{
	struct frame f;

	make(&f, 4);
	f.bytes[f.len - 1] ^= 0x80;
	expect(&f, WIRE_BAD_ICRC);
	assert_int_equal(frame_parse(f.bytes, f.len, false), WIRE_OK);
}

static void
each_verdict_has_a_name(void **state)
{
	for (int v = 0; v < WIRE_VERDICTS; v++) {
		assert_non_null(wire_verdict_name(v));
		for (int w = 0; w < v; w++)
			assert_string_not_equal(wire_verdict_name(v), wire_verdict_name(w));
	}
	assert_non_null(wire_verdict_name(WIRE_VERDICTS));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_frame_gives_all_fields),
		cmocka_unit_test(headers_are_cached_and_any_other_byte_is_looked_at),
		cmocka_unit_test(headers_of_other_kinds_are_not_cached),
		cmocka_unit_test(flows_take_each_others_places),
		cmocka_unit_test(priority_tag_is_accepted),
		cmocka_unit_test(ethernet_padding_is_ignored),
		cmocka_unit_test(truncation_at_each_length_is_noticed),
		cmocka_unit_test(every_flipped_bit_outside_masked_fields_is_noticed),
		cmocka_unit_test(other_protocols_are_for_others),
		cmocka_unit_test(second_vlan_tag_is_for_others),
		cmocka_unit_test(ip_options_are_refused_on_our_port_only),
		cmocka_unit_test(fragments_are_refused),
		cmocka_unit_test(wrong_ip_header_is_refused),
		cmocka_unit_test(ipv4_header_sum_is_verified_whatever_carries),
		cmocka_unit_test(ip_and_udp_lengths_must_agree),
		cmocka_unit_test(udp_shorter_than_its_header_is_refused),
		cmocka_unit_test(udp_shorter_than_its_content_is_refused),
		cmocka_unit_test(udp_checksum_is_verified_if_there_is_one),
		cmocka_unit_test(unknown_opcodes_are_refused_before_any_length),
		cmocka_unit_test(transport_version_must_be_0),
		cmocka_unit_test(payload_where_none_may_be_is_refused),
		cmocka_unit_test(content_that_is_no_multiple_of_four_is_refused),
		cmocka_unit_test(payload_beyond_the_largest_mtu_is_refused),
		cmocka_unit_test(wrong_icrc_is_noticed_unless_not_asked_for),
		cmocka_unit_test(each_verdict_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
