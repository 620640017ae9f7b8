/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/wire: a frame is parsed, and once more with a cache of headers; what is good is built again from what was parsed, and parsed again. The input is the
 * frame.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "wire/header_cache.h"

enum { REPAIR_OF = 8, REPAIR_NOT = 2 };

/** What wire_parse() says of a good packet is true. */
static void
check(const uint8_t *frame, size_t size, const struct wire_pkt *p)
{
	const uint8_t *end = p->payload + p->payload_bytes + p->bth.pad + WIRE_ICRC_BYTES;

	FUZZ_CHECK(p->l2 == frame && p->l3 > p->l2 && p->bthp > p->l3 && p->payload > p->bthp);
	FUZZ_CHECK(end <= frame + size);
	FUZZ_CHECK(p->op == &wire_opcodes[p->bth.opcode] && (p->op->flags & WIRE_F_VALID) != 0);
	FUZZ_CHECK(p->payload - p->bthp == p->op->hdr_bytes);
	FUZZ_CHECK(p->payload_bytes <= WIRE_MAX_MTU && p->bth.pad <= 3);
	FUZZ_CHECK(p->ip_version == 4 || p->ip_version == 6);
}

static struct wire_addr
address_of(const struct wire_pkt *p)
{
	struct wire_addr a = { .ip_version = p->ip_version, .sport = p->sport, .vlan = p->l3 - p->l2 > WIRE_ETH_BYTES,
			       .vlan_tci = p->vlan_tci };

	memcpy(a.dmac, p->l2, sizeof(a.dmac));
	memcpy(a.smac, p->l2 + 6, sizeof(a.smac));
	if (p->ip_version == 4) {
		a.traffic_class = p->l3[1];
		a.ttl = p->l3[8];
		memcpy(a.sip, p->l3 + 12, 4);
		memcpy(a.dip, p->l3 + 16, 4);
	} else {
		a.traffic_class = (uint8_t)(wire_get16(p->l3) >> 4);
		a.ttl = p->l3[7];
		a.flow_label = wire_get32(p->l3) & 0xfffff;
		memcpy(a.sip, p->l3 + 8, sizeof(a.sip));
		memcpy(a.dip, p->l3 + 24, sizeof(a.dip));
	}
	return a;
}

/** The same packet built by our own functions is a good one, with the same fields. */
static void
build_again(const struct wire_pkt *p)
{
	uint32_t behind = p->op->hdr_bytes - WIRE_BTH_BYTES + p->payload_bytes + p->bth.pad;
	uint16_t l4_bytes = (uint16_t)(WIRE_BTH_BYTES + behind + WIRE_ICRC_BYTES);
	struct wire_addr a = address_of(p);
	uint8_t frame[WIRE_MAX_FRAME_BYTES];
	struct wire_tmpl t;
	struct wire_pkt q;

	memset(&q, 0, sizeof(q));
	wire_tmpl_build(&t, &a);
	FUZZ_CHECK(t.bth_off + l4_bytes <= sizeof(frame));
	wire_tmpl_write(&t, frame, l4_bytes, 0);
	wire_put_bth(frame + t.bth_off, &p->bth);
	memcpy(frame + t.bth_off + WIRE_BTH_BYTES, p->bthp + WIRE_BTH_BYTES, behind);
	wire_tmpl_seal(&t, frame, l4_bytes);
	FUZZ_CHECK(wire_parse(frame, t.bth_off + l4_bytes, true, &q) == WIRE_OK);
	FUZZ_CHECK(memcmp(&q.bth, &p->bth, sizeof(q.bth)) == 0 && q.payload_bytes == p->payload_bytes);
	FUZZ_CHECK(q.sport == p->sport && q.vlan_tci == p->vlan_tci && q.ecn == p->ecn);
	FUZZ_CHECK(memcmp(q.payload, p->payload, p->payload_bytes) == 0);
}

/** Whatever frames were parsed before, a cache of their headers makes no difference. */
static void
parse_cached(const uint8_t *frame, size_t size, bool check_icrc, enum wire_verdict v, const struct wire_pkt *p)
{
	static struct wire_header_cache cache;
	struct wire_pkt q;

	memset(&q, 0, sizeof(q));
	FUZZ_CHECK(wire_parse_cached(&cache, frame, (uint32_t)size, check_icrc, &q) == v);
	if (v != WIRE_OK)
		return;
	FUZZ_CHECK(wire_icrc_ok(&q) == wire_icrc_ok(p));
	q.lower_crc = p->lower_crc;
	FUZZ_CHECK(memcmp(&q, p, sizeof(q)) == 0);
}

static void
one(const uint8_t *frame, size_t size, bool check_icrc)
{
	struct wire_pkt p;
	enum wire_verdict v;

	memset(&p, 0, sizeof(p));
	v = wire_parse(frame, (uint32_t)size, check_icrc, &p);
	parse_cached(frame, size, check_icrc, v, &p);
	FUZZ_CHECK(v < WIRE_VERDICTS && wire_verdict_name(v) != NULL);
	if (v != WIRE_OK)
		return;
	check(frame, size, &p);
	/* It says whether the ICRC is right, whoever asks. */
	FUZZ_CHECK(!check_icrc || wire_icrc_ok(&p));
	if (check_icrc)
		build_again(&p);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = fuzz_in(data, size);
	uint8_t *frame = fuzz_copy(&in, &size);

	one(frame, size, true);
	one(frame, size, false);
	free(frame);
	return 0;
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	size = LLVMFuzzerMutate(data, size, max_size);
	if (seed % REPAIR_OF >= REPAIR_NOT)
		fuzz_frame_repair(data, size);
	return size;
}
