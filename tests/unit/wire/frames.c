/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "frames.h"

static const struct wire_addr base_addr = {
	.dmac = { 2, 0, 0, 0, 0, 2 },
	.smac = { 2, 0, 0, 0, 0, 1 },
	.traffic_class = 0x6a,
	.ttl = 64,
	.sport = 0xd234,
	.flow_label = 0xabcde,
	.sip = { 198, 18, 0, 1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 },
	.dip = { 198, 18, 0, 2, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36 },
};

void
frame_make(struct frame *f, const struct frame_spec *spec)
{
	const struct wire_opcode *op = &wire_opcodes[spec->opcode];
	struct wire_addr addr = base_addr;
	struct wire_bth bth = {
		.opcode = spec->opcode,
		.pad = -spec->payload_bytes & 3,
		.pkey = WIRE_PKEY_DEFAULT,
		.dqpn = 0x123456,
		.psn = 0xfedcba,
		.migreq = true,
		.ackreq = true,
	};
	uint16_t l4_payload = (uint16_t)(op->hdr_bytes + spec->payload_bytes + bth.pad + WIRE_ICRC_BYTES);
	struct wire_tmpl t;

	addr.ip_version = spec->ip_version;
	addr.vlan = spec->vlan;
	addr.vlan_tci = spec->vlan_tci;
	wire_tmpl_build(&t, &addr);
	wire_tmpl_write(&t, f->bytes, l4_payload, 0);
	f->l3 = t.l3_off;
	f->l4 = t.l4_off;
	f->bth = t.bth_off;
	f->len = f->bth + l4_payload;
	for (uint32_t i = 0; i < l4_payload; i++)
		f->bytes[f->bth + i] = (uint8_t)(i * 7 + 1);
	wire_put_bth(f->bytes + f->bth, &bth);
	wire_tmpl_seal(&t, f->bytes, l4_payload);
}

void
frame_repair(struct frame *f)
{
	uint8_t *l3 = f->bytes + f->l3;
	unsigned int ip_version = l3[0] >> 4 == 6 ? 6 : 4;
	uint32_t sum = 0, state;

	if (ip_version == 4) {
		wire_put16(l3 + 10, 0);
		for (unsigned int i = 0; i < WIRE_IPV4_BYTES; i += 2)
			sum += wire_get16(l3 + i);
		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		wire_put16(l3 + 10, (uint16_t)~sum);
	}
	state = wire_icrc_headers(l3, ip_version);
	state = wire_crc(state, f->bytes + f->bth + WIRE_BTH_BYTES, f->len - f->bth - WIRE_BTH_BYTES - WIRE_ICRC_BYTES);
	wire_put_icrc(f->bytes + f->len - WIRE_ICRC_BYTES, state);
}

enum wire_verdict
frame_parse(const uint8_t *bytes, uint32_t len, bool check_icrc)
{
	uint8_t *copy = malloc(len > 0 ? len : 1);
	struct wire_pkt p;
	enum wire_verdict v;

	if (copy == NULL)
		abort();
	memcpy(copy, bytes, len);
	v = wire_parse(copy, len, check_icrc, &p);
	free(copy);
	return v;
}
