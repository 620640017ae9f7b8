/* SPDX-License-Identifier: BSD-3-Clause */
/* Every packet of every capture in tests/golden: parses, its ICRC verifies, and we build the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pcap.h"
#include "rebuild.h"
#include "wire/wire.h"

/** RoCE packets in all captures together (tests/golden/README.md has each capture's). */
#define GOLDEN_ROCE_PACKETS 10095

static bool
has_roce_port(const uint8_t *frame, uint32_t len)
{
	uint16_t type = wire_get16(frame + 12);
	uint32_t udp = WIRE_ETH_BYTES + (type == WIRE_ETHERTYPE_IPV4 ? WIRE_IPV4_BYTES : WIRE_IPV6_BYTES);
	uint32_t proto_off = type == WIRE_ETHERTYPE_IPV4 ? 9 : 6;

	if (type != WIRE_ETHERTYPE_IPV4 && type != WIRE_ETHERTYPE_IPV6)
		return false;
	return len > udp + WIRE_UDP_BYTES && frame[WIRE_ETH_BYTES + proto_off] == 17 &&
	       wire_get16(frame + udp + 2) == WIRE_UDP_PORT;
}

static void
check_parses(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	unsigned int *roce = arg;
	struct wire_pkt p;
	enum wire_verdict v = wire_parse(frame, len, true, &p);
	enum wire_verdict want = has_roce_port(frame, len) ? WIRE_OK : WIRE_NOT_ROCE;

	if (v != want)
		fail_msg("%s, packet %u: %s, expected %s", file, number, wire_verdict_name(v), wire_verdict_name(want));
	if (v == WIRE_OK)
		(*roce)++;
}

static void
every_packet_parses_and_its_icrc_verifies(void **state)
{
	unsigned int roce = 0;

	golden_for_each(check_parses, &roce);
	assert_int_equal(roce, GOLDEN_ROCE_PACKETS);
}

static void
check_rebuild(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	uint8_t out[WIRE_MAX_FRAME_BYTES];
	struct wire_pkt p;
	uint16_t ip_id;
	uint32_t built;

	if (wire_parse(frame, len, true, &p) != WIRE_OK)
		return;
	ip_id = p.ip_version == 4 ? wire_get16(p.l3 + 4) : 0;
	memset(out, 0xa5, sizeof(out));
	built = rebuild(&p, ip_id, out);
	if (built != len)
		fail_msg("%s, packet %u: built %u bytes of %u", file, number, built, len);
	for (uint32_t i = 0; i < len; i++)
		if (out[i] != frame[i])
			fail_msg("%s, packet %u (%s): byte %u is %02x, built %02x", file, number, p.op->name, i,
				 frame[i], out[i]);
	(*(unsigned int *)arg)++;
}

static void
every_packet_is_rebuilt_byte_for_byte(void **state)
{
	unsigned int rebuilt = 0;

	golden_for_each(check_rebuild, &rebuilt);
	assert_int_equal(rebuilt, GOLDEN_ROCE_PACKETS);
}

/** The way uroce sends: IPv4 id 0, ICRC by the template's cached header state. */
static void
check_seal(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	uint8_t out[WIRE_MAX_FRAME_BYTES];
	struct wire_pkt p, q;
	uint32_t built;

	if (wire_parse(frame, len, true, &p) != WIRE_OK)
		return;
	built = rebuild(&p, 0, out);
	if (wire_parse(out, built, true, &q) != WIRE_OK)
		fail_msg("%s, packet %u: sealed frame doesn't parse", file, number);
	assert_int_equal(q.payload_bytes, p.payload_bytes);
	assert_memory_equal(q.bthp, p.bthp, p.op->hdr_bytes + p.payload_bytes + p.bth.pad);
}

static void
sealed_packets_with_ip_id_0_parse(void **state)
{
	golden_for_each(check_seal, NULL);
}

struct later {
	struct wire_sealer sealer;
	uint8_t frames[WIRE_SEAL_BATCH][WIRE_MAX_FRAME_BYTES];
	uint32_t lens[WIRE_SEAL_BATCH];
	unsigned int n, checked;
};

static void
check_sealed(struct later *l)
{
	struct wire_pkt p;

	for (unsigned int i = 0; i < l->n; i++, l->checked++)
		assert_int_equal(wire_parse(l->frames[i], l->lens[i], true, &p), WIRE_OK);
	l->n = 0;
}

/** Spoil the ICRC of a good frame, then have it made again. */
static void
seal_again_later(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	struct later *l = arg;
	uint8_t *copy = l->frames[l->n];
	struct wire_addr addr;
	struct wire_tmpl t;
	struct wire_pkt p;

	if (wire_parse(frame, len, true, &p) != WIRE_OK)
		return;
	l->lens[l->n] = rebuild(&p, 0, copy);
	memset(copy + l->lens[l->n] - WIRE_ICRC_BYTES, 0xa5, WIRE_ICRC_BYTES);
	addr_of_packet(&p, &addr);
	wire_tmpl_build(&t, &addr);
	wire_seal_later(&l->sealer, &t, copy, l4_payload_of_packet(&p));
	if (++l->n == WIRE_SEAL_BATCH) {
		assert_int_equal(l->sealer.n, 0);
		check_sealed(l);
	} else if (number % 5 == 0) {
		wire_seal_flush(&l->sealer);
		check_sealed(l);
	}
}

static void
packets_sealed_later_have_the_same_icrc(void **state)
{
	static struct later l;

	golden_for_each(seal_again_later, &l);
	wire_seal_flush(&l.sealer);
	check_sealed(&l);
	assert_int_equal(l.checked, GOLDEN_ROCE_PACKETS);
}

static void
check_icrc_ok(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	uint8_t copy[WIRE_MAX_FRAME_BYTES];
	struct wire_pkt p;

	if (wire_parse(frame, len, false, &p) != WIRE_OK)
		return;
	assert_true(wire_icrc_ok(&p));
	memcpy(copy, frame, len);
	copy[len - 1 - number % 4] ^= 1 << number % 8;
	assert_int_equal(wire_parse(copy, len, false, &p), WIRE_OK);
	assert_false(wire_icrc_ok(&p));
}

static void
icrc_can_be_checked_after_parsing(void **state)
{
	golden_for_each(check_icrc_ok, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_packet_parses_and_its_icrc_verifies),
		cmocka_unit_test(every_packet_is_rebuilt_byte_for_byte),
		cmocka_unit_test(sealed_packets_with_ip_id_0_parse),
		cmocka_unit_test(packets_sealed_later_have_the_same_icrc),
		cmocka_unit_test(icrc_can_be_checked_after_parsing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
