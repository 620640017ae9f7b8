/* SPDX-License-Identifier: BSD-3-Clause */
/* Every packet of every capture in tests/golden: parses, its ICRC verifies, and we build the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pcap.h"
#include "rebuild.h"
#include "wire.h"

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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_packet_parses_and_its_icrc_verifies),
		cmocka_unit_test(every_packet_is_rebuilt_byte_for_byte),
		cmocka_unit_test(sealed_packets_with_ip_id_0_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
