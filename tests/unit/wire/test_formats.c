/* SPDX-License-Identifier: BSD-3-Clause */
/* Golden vectors, tables and arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/wire.h"

/** A CNP that a ConnectX-4 Lx sent. */
static const uint8_t cnp_of_connectx4[] = {
	0xe4, 0x1d, 0x2d, 0xab, 0x2b, 0xc2, 0x7c, 0xfe, 0x90, 0x64, 0x3b, 0x32, 0x08, 0x00,
	0x45, 0xc2, 0x00, 0x3c, 0x71, 0x8c, 0x40, 0x00, 0x40, 0x11, 0x91, 0x61,
	0x0a, 0x00, 0x11, 0x01, 0x0a, 0x00, 0x12, 0x01,
	0x00, 0x00, 0x12, 0xb7, 0x00, 0x28, 0x00, 0x00,
	0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0x00, 0x00, 0x00, 0x00,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	0x82, 0xfd, 0x00, 0x2a,
};

static void
cnp_of_hardware_parses(void **state)
{
	struct wire_pkt p;

	assert_int_equal(wire_parse(cnp_of_connectx4, sizeof(cnp_of_connectx4), true, &p), WIRE_OK);
	assert_int_equal(p.bth.opcode, WIRE_OPCODE_CNP);
	assert_true(p.op->flags & WIRE_F_CNP);
	assert_true(p.bth.becn);
	assert_int_equal(p.bth.dqpn, 0x118);
	assert_int_equal(p.payload_bytes, WIRE_CNP_PAYLOAD_BYTES);
}

/** The UC SEND_ONLY of scapy's RoCE tests, from IPv4 to pad. */
static const uint8_t uc_send_only[] = {
	0x45, 0x01, 0x00, 0x40, 0x04, 0x78, 0x40, 0x00, 0x40, 0x11, 0xb4, 0xd5, 192, 168, 0, 7, 192, 168, 0, 7,
	0xc0, 0x00, 0x12, 0xb7, 0x00, 0x2c, 0xac, 0xa2,
	0x24, 0x60, 0xff, 0xff, 0x00, 0x00, 0x00, 0xd3, 0x00, 0xcf, 0x17, 0x10,
	0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9, 0x0e, 0x9a, 0x95, 0x50, 0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50,
	0x00, 0x00,
};

static uint32_t
icrc_state(const uint8_t *l3, size_t len)
{
	size_t hdr = WIRE_IPV4_BYTES + WIRE_UDP_BYTES + WIRE_BTH_BYTES;

	return wire_crc(wire_icrc_headers(l3, 4), l3 + hdr, len - hdr);
}

static void
icrc_of_uc_send_only(void **state)
{
	static const uint8_t want[WIRE_ICRC_BYTES] = { 0x78, 0xf3, 0x53, 0xf3 };
	uint8_t icrc[WIRE_ICRC_BYTES];

	wire_put_icrc(icrc, icrc_state(uc_send_only, sizeof(uc_send_only)));
	assert_memory_equal(icrc, want, sizeof(want));
}

static void
icrc_covers_every_byte_but_the_masked(void **state)
{
	/* TOS, TTL, both checksums, FECN and BECN. */
	static const uint8_t masked[] = { 1, 8, 10, 11, 26, 27, 32 };
	uint8_t bytes[sizeof(uc_send_only)];
	uint32_t want = icrc_state(uc_send_only, sizeof(uc_send_only));

	for (size_t i = 0; i < sizeof(bytes); i++) {
		bool is_masked = memchr(masked, (int)i, sizeof(masked)) != NULL;

		memcpy(bytes, uc_send_only, sizeof(bytes));
		bytes[i] ^= 0x40;
		assert_int_equal(icrc_state(bytes, sizeof(bytes)) == want, is_masked);
	}
}

/** One bit at a time, as the specification defines it. */
static uint32_t
crc_by_definition(uint32_t crc, const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		crc ^= p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return crc;
}

static void
crc_equals_its_definition_at_every_length(void **state)
{
	static const uint8_t ones[8] = { 255, 255, 255, 255, 255, 255, 255, 255 };
	uint8_t data[1100];

	assert_int_equal(crc_by_definition(UINT32_MAX, ones, sizeof(ones)), WIRE_ICRC_SEED);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * i + 3 * i);
	for (size_t len = 0; len <= sizeof(data) - 16; len++) {
		size_t off = len % 16;

		assert_int_equal(wire_crc(WIRE_ICRC_SEED, data + off, len),
				 crc_by_definition(WIRE_ICRC_SEED, data + off, len));
	}
}

static void
crc_continues_over_pieces(void **state)
{
	uint8_t data[300];
	uint32_t whole;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31);
	whole = wire_crc(WIRE_ICRC_SEED, data, sizeof(data));
	for (size_t cut = 0; cut <= sizeof(data); cut++)
		assert_int_equal(wire_crc(wire_crc(WIRE_ICRC_SEED, data, cut), data + cut, sizeof(data) - cut), whole);
}

static void
icrc_over_transport_masks_one_byte(void **state)
{
	uint8_t bytes[WIRE_BTH_BYTES + WIRE_MAX_MTU], masked[sizeof(bytes)];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 13 + (i >> 8));
	memcpy(masked, bytes, sizeof(bytes));
	masked[4] = 0xff;
	for (size_t len = WIRE_BTH_BYTES; len <= sizeof(bytes); len += len < 700 ? 1 : 97)
		assert_int_equal(wire_icrc_transport(0x12345678, bytes, len),
				 crc_by_definition(0x12345678, masked, len));
}

static void
icrc_of_a_packet_is_that_of_its_parts_at_every_length(void **state)
{
	static const struct {
		unsigned int version, bth;
	} ip[] = { { 4, WIRE_IPV4_BYTES + WIRE_UDP_BYTES }, { 6, WIRE_IPV6_BYTES + WIRE_UDP_BYTES } };
	uint8_t bytes[1200];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 13 + (i >> 8));
	for (unsigned int i = 0; i < 2; i++)
		for (size_t len = ip[i].bth + WIRE_BTH_BYTES; len <= sizeof(bytes); len++)
			assert_int_equal(wire_icrc_packet(bytes, ip[i].version, len),
					 wire_icrc_transport(wire_icrc_lower(bytes, ip[i].version), bytes + ip[i].bth, len - ip[i].bth));
}

/* Headers and ICRC states of a template that has written others before are those of a new one. */
static void
a_template_writes_any_size_as_a_new_one_does(void **state)
{
	static const uint16_t sizes[] = { 16, 40, 40, 16, 40, 16, 16, 44, 4112, 16, 44, 40, 40 };
	const struct wire_addr addrs[] = {
		{ .dmac = { 2, 1 }, .smac = { 2, 2 }, .ip_version = 4, .sip = { 10, 0, 0, 1 }, .dip = { 10, 0, 0, 2 }, .ttl = 64, .sport = 0xc001 },
		{ .dmac = { 2, 1 }, .smac = { 2, 2 }, .ip_version = 6, .sip = { 0xfe, 0x80 }, .dip = { 0xfe, 0x81 }, .ttl = 1, .sport = 0xc001 },
		{ .dmac = { 2, 1 }, .smac = { 2, 2 }, .ip_version = 4, .vlan = true, .vlan_tci = 7, .sip = { 10, 0, 0, 1 }, .sport = 0xc001 },
	};

	for (unsigned int a = 0; a < sizeof(addrs) / sizeof(addrs[0]); a++) {
		struct wire_tmpl used;

		wire_tmpl_build(&used, &addrs[a]);
		for (unsigned int i = 0; i < 3 * sizeof(sizes) / sizeof(sizes[0]); i++) {
			uint16_t size = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
			uint8_t frame[2][sizeof(used.hdr)] = { { 0 } };
			struct wire_tmpl fresh;

			wire_tmpl_build(&fresh, &addrs[a]);
			if (i >= sizeof(sizes) / sizeof(sizes[0])) {
				/* The flow changes now and then. */
				wire_tmpl_set_flow(&fresh, 0x12345 + i / 16);
				if (i % 16 == 0 || i == sizeof(sizes) / sizeof(sizes[0]))
					wire_tmpl_set_flow(&used, 0x12345 + i / 16);
			}
			wire_tmpl_write(&used, frame[0], size, 0);
			wire_tmpl_write(&fresh, frame[1], size, 0);
			assert_memory_equal(frame[0], frame[1], used.bth_off);
			assert_int_equal(wire_tmpl_crc(&used, size), wire_icrc_lower(frame[1] + fresh.l3_off, fresh.ip_version));
			/* Another identification is written as well. */
			wire_tmpl_write(&used, frame[0], size, 77);
			wire_tmpl_write(&fresh, frame[1], size, 77);
			assert_memory_equal(frame[0], frame[1], used.bth_off);
		}
	}
}

static void
packets_of_every_length_are_sealed(void **state)
{
	static uint8_t frames[WIRE_SEAL_BATCH][WIRE_MAX_FRAME_BYTES];
	struct wire_sealer sealer = { 0 };
	struct wire_tmpl t;

	wire_tmpl_build(&t, &(struct wire_addr){ .ip_version = 4, .sip = { 10, 0, 0, 1 }, .dip = { 10, 0, 0, 2 }, .ttl = 64, .sport = 0xc001 });
	for (uint32_t i = 0; i < sizeof(frames); i++)
		frames[i / WIRE_MAX_FRAME_BYTES][i % WIRE_MAX_FRAME_BYTES] = (uint8_t)(i * 13 + (i >> 8));
	/* Without a payload the BTH is followed by the ICRC. */
	for (uint16_t l4 = WIRE_BTH_BYTES + WIRE_ICRC_BYTES, n = 0; l4 <= 600; l4 = (uint16_t)(l4 + 4), n++) {
		const uint8_t *bth = frames[n % WIRE_SEAL_BATCH] + t.bth_off;
		uint8_t right[WIRE_ICRC_BYTES];

		wire_seal_later(&sealer, &t, frames[n % WIRE_SEAL_BATCH], l4);
		wire_seal_flush(&sealer);
		wire_put_icrc(right, wire_icrc_transport(wire_tmpl_crc(&t, l4), bth, l4 - WIRE_ICRC_BYTES));
		assert_memory_equal(bth + l4 - WIRE_ICRC_BYTES, right, sizeof(right));
	}
}

/* 9.2: SE, M, PadCnt and TVer; FECN, BECN and six reserved bits; AckReq and seven reserved bits. */
static void
bth_bits_are_where_the_specification_has_them(void **state)
{
	for (unsigned int v = 0; v < 256; v++) {
		uint8_t bytes[WIRE_BTH_BYTES] = { 0x12, (uint8_t)v, 0x34, 0x56, (uint8_t)v, 1, 2, 3, (uint8_t)v, 4, 5, 6 }, again[sizeof(bytes)];
		struct wire_bth b;

		wire_get_bth(bytes, &b);
		assert_int_equal(b.opcode, 0x12);
		assert_int_equal(b.solicited, v >> 7);
		assert_int_equal(b.migreq, v >> 6 & 1);
		assert_int_equal(b.pad, v >> 4 & 3);
		assert_int_equal(b.tver, v & 15);
		assert_int_equal(b.pkey, 0x3456);
		assert_int_equal(b.fecn, v >> 7);
		assert_int_equal(b.becn, v >> 6 & 1);
		assert_int_equal(b.dqpn, 0x010203);
		assert_int_equal(b.ackreq, v >> 7);
		assert_int_equal(b.mark, v & 0x7f);
		assert_int_equal(b.psn, 0x040506);
		wire_put_bth(again, &b);
		bytes[4] &= 0xc0;
		assert_memory_equal(again, bytes, sizeof(bytes));
	}
}

static void
a_bth_made_as_words_has_its_members(void **state)
{
	for (unsigned int v = 0; v < 8; v++) {
		struct wire_bth b = wire_bth_make(0x12, 0x010203, 0x040506, 0x3456, v & 1, v & 2, v & 4, 0x55);

		wire_bth_set_pad(&b, 3 - (v & 3));
		assert_true(b.opcode == 0x12 && b.dqpn == 0x010203 && b.psn == 0x040506 && b.pkey == 0x3456 && b.mark == 0x55);
		assert_true(b.migreq == (v & 1) && b.solicited == (v >> 1 & 1) && b.ackreq == v >> 2 && b.pad == 3 - (v & 3));
		assert_true(b.tver == 0 && b.byte4 == 0);
	}
}

static void
opcode_table_follows_the_specification(void **state)
{
	static const struct { uint8_t opcode, hdr_bytes; uint32_t set, clear; } rows[] = {
		{ 0x00, 12, WIRE_F_START | WIRE_F_RQ | WIRE_F_SEND, WIRE_F_END },
		{ 0x03, 16, WIRE_F_END | WIRE_F_IMM, WIRE_F_START | WIRE_F_RQ },
		{ 0x06, 28, WIRE_F_START | WIRE_F_RETH | WIRE_F_WRITE, WIRE_F_RQ | WIRE_F_END },
		{ 0x07, 12, WIRE_F_WRITE | WIRE_F_PAYLOAD, WIRE_F_START | WIRE_F_END | WIRE_F_RETH },
		{ 0x09, 16, WIRE_F_END | WIRE_F_RQ | WIRE_F_IMM, WIRE_F_RETH },
		{ 0x0b, 32, WIRE_F_START | WIRE_F_END | WIRE_F_RETH | WIRE_F_IMM | WIRE_F_RQ, 0 },
		{ 0x0c, 28, WIRE_F_READ | WIRE_F_RETH | WIRE_F_REQUEST, WIRE_F_PAYLOAD },
		{ 0x0e, 12, WIRE_F_READ_RESP | WIRE_F_RESPONSE, WIRE_F_AETH | WIRE_F_REQUEST },
		{ 0x10, 16, WIRE_F_READ_RESP | WIRE_F_AETH, WIRE_F_REQUEST },
		{ 0x11, 16, WIRE_F_RESPONSE | WIRE_F_AETH, WIRE_F_PAYLOAD | WIRE_F_READ_RESP },
		{ 0x12, 24, WIRE_F_AETH | WIRE_F_ATOMICACKETH, WIRE_F_PAYLOAD },
		{ 0x13, 40, WIRE_F_ATOMIC | WIRE_F_ATOMICETH, WIRE_F_PAYLOAD },
		{ 0x17, 16, WIRE_F_IETH | WIRE_F_RQ, WIRE_F_IMM },
		{ 0x1c, 32, WIRE_F_FETH | WIRE_F_RETH, WIRE_F_PAYLOAD },
		{ 0x1d, 28, WIRE_F_RETH | WIRE_F_PAYLOAD, WIRE_F_WRITE },
		{ 0x65, 24, WIRE_F_DETH | WIRE_F_IMM | WIRE_F_RQ, WIRE_F_AETH },
		{ 0x81, 12, WIRE_F_CNP, WIRE_F_REQUEST | WIRE_F_RESPONSE },
		{ 0xaa, 32, WIRE_F_XRCETH | WIRE_F_RETH, WIRE_F_RQ },
		{ 0xb1, 16, WIRE_F_AETH, WIRE_F_XRCETH },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct wire_opcode *op = &wire_opcodes[rows[i].opcode];

		assert_int_equal(op->hdr_bytes, rows[i].hdr_bytes);
		assert_int_equal(op->flags & (rows[i].set | WIRE_F_VALID), rows[i].set | WIRE_F_VALID);
		assert_int_equal(op->flags & rows[i].clear, 0);
	}
	assert_int_equal(wire_opcodes[0x15].flags, 0); /* reserved */
	assert_int_equal(wire_opcodes[0x36].flags, 0); /* UC has no invalidation */
	assert_int_equal(wire_opcodes[0x40].flags, 0); /* RD is not served */
	/* Extended headers stand one behind the other. */
	assert_int_equal(wire_opcodes[0xaa].off_xrceth, 12);
	assert_int_equal(wire_opcodes[0xaa].off_reth, 16);
	assert_int_equal(wire_opcodes[0x0b].off_reth, 12);
	assert_int_equal(wire_opcodes[0x0b].off_imm, 28);
	assert_int_equal(wire_opcodes[0x65].off_deth, 12);
	assert_int_equal(wire_opcodes[0x65].off_imm, 20);
	assert_int_equal(wire_opcodes[0x12].off_aeth, 12);
	assert_int_equal(wire_opcodes[0x12].off_atomicacketh, 16);
	assert_int_equal(wire_opcodes[0x1c].off_feth, 12);
	assert_int_equal(wire_opcodes[0x1c].off_reth, 16);
	assert_int_equal(wire_opcodes[0x17].off_ieth, 12);
}

static void
psn_comparison_wraps(void **state)
{
	assert_int_equal(wire_psn_diff(5, 3), 2);
	assert_int_equal(wire_psn_diff(3, 5), -2);
	assert_int_equal(wire_psn_diff(0, 0xffffff), 1);
	assert_int_equal(wire_psn_diff(0xffffff, 0), -1);
	assert_int_equal(wire_psn_diff(0x7fffff, 0), 0x7fffff);
	assert_int_equal(wire_psn_diff(0x800000, 0), -0x800000);
	assert_int_equal(wire_psn_add(0xfffffe, 3), 1);
}

static void
messages_have_at_least_one_packet(void **state)
{
	assert_int_equal(wire_packets(0, 10), 1);
	assert_int_equal(wire_packets(1, 10), 1);
	assert_int_equal(wire_packets(1024, 10), 1);
	assert_int_equal(wire_packets(1025, 10), 2);
	assert_int_equal(wire_packets(UINT32_C(1) << 31, 8), 1u << 23);
	assert_int_equal(wire_packets(UINT32_MAX, 12), 1u << 20);
}

static void
rnr_timers(void **state)
{
	assert_int_equal(wire_rnr_timer_ns(0), 655360000);
	assert_int_equal(wire_rnr_timer_ns(1), 10000);
	assert_int_equal(wire_rnr_timer_ns(12), 640000);
	assert_int_equal(wire_rnr_timer_ns(25), 61440000);
	assert_int_equal(wire_rnr_timer_ns(31), 491520000);
	for (uint8_t code = 2; code < 32; code++)
		assert_true(wire_rnr_timer_ns(code) > wire_rnr_timer_ns(code - 1));
}

static void
credit_codes_round_down(void **state)
{
	assert_int_equal(wire_aeth_credits(0), 0);
	assert_int_equal(wire_aeth_credits(5), 6);
	assert_int_equal(wire_aeth_credits(30), 32768);
	for (uint8_t code = 0; code <= 30; code++) {
		assert_int_equal(wire_aeth_credit_code(wire_aeth_credits(code)), code);
		if (code < 30)
			assert_int_equal(wire_aeth_credit_code(wire_aeth_credits(code + 1) - 1), code);
	}
	assert_int_equal(wire_aeth_credit_code(UINT32_MAX), 30);
}

static void
flow_labels_and_source_ports(void **state)
{
	/* Low 14 bits, the upper six folded in. */
	assert_int_equal(wire_flow_label_to_sport(0), 0xc000);
	assert_int_equal(wire_flow_label_to_sport(0x3fff), 0xffff);
	assert_int_equal(wire_flow_label_to_sport(0x04000), 0xc001);
	assert_int_equal(wire_flow_label_to_sport(0xfffff), 0xffc0);
	/* The same for both ends of a connection. */
	assert_int_equal(wire_calc_flow_label(17, 42), 17 * 42);
	assert_int_equal(wire_calc_flow_label(0x123456, 0xabcdef), wire_calc_flow_label(0xabcdef, 0x123456));
	/* 0xffffff squared: all upper bits take part. */
	assert_int_equal(wire_calc_flow_label(0xffffff, 0xffffff), 0xfff1e);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cnp_of_hardware_parses),
		cmocka_unit_test(icrc_of_uc_send_only),
		cmocka_unit_test(icrc_covers_every_byte_but_the_masked),
		cmocka_unit_test(crc_equals_its_definition_at_every_length),
		cmocka_unit_test(crc_continues_over_pieces),
		cmocka_unit_test(icrc_over_transport_masks_one_byte),
		cmocka_unit_test(icrc_of_a_packet_is_that_of_its_parts_at_every_length),
		cmocka_unit_test(a_template_writes_any_size_as_a_new_one_does),
		cmocka_unit_test(packets_of_every_length_are_sealed),
		cmocka_unit_test(bth_bits_are_where_the_specification_has_them),
		cmocka_unit_test(a_bth_made_as_words_has_its_members),
		cmocka_unit_test(opcode_table_follows_the_specification),
		cmocka_unit_test(psn_comparison_wraps),
		cmocka_unit_test(messages_have_at_least_one_packet),
		cmocka_unit_test(rnr_timers),
		cmocka_unit_test(credit_codes_round_down),
		cmocka_unit_test(flow_labels_and_source_ports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
