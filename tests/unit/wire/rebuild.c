/* SPDX-License-Identifier: BSD-3-Clause */
#include "rebuild.h"

void
addr_of_packet(const struct wire_pkt *p, struct wire_addr *a)
{
	memset(a, 0, sizeof(*a));
	memcpy(a->dmac, p->l2, 6);
	memcpy(a->smac, p->l2 + 6, 6);
	a->vlan = wire_get16(p->l2 + 12) == WIRE_ETHERTYPE_VLAN;
	a->vlan_tci = p->vlan_tci;
	a->ip_version = p->ip_version;
	a->sport = p->sport;
	if (p->ip_version == 4) {
		a->traffic_class = p->l3[1];
		a->ttl = p->l3[8];
		memcpy(a->sip, p->l3 + 12, 4);
		memcpy(a->dip, p->l3 + 16, 4);
	} else {
		a->traffic_class = wire_get32(p->l3) >> 20 & 0xff;
		a->flow_label = wire_get32(p->l3) & 0xfffff;
		a->ttl = p->l3[7];
		memcpy(a->sip, p->l3 + 8, 16);
		memcpy(a->dip, p->l3 + 24, 16);
	}
}

uint16_t
l4_payload_of_packet(const struct wire_pkt *p)
{
	return (uint16_t)(p->op->hdr_bytes + p->payload_bytes + p->bth.pad + WIRE_ICRC_BYTES);
}

void
rebuild_ext_headers(const struct wire_pkt *p, uint8_t *bth)
{
	const struct wire_opcode *op = p->op;
	const uint8_t *h = p->bthp;

	if (op->flags & WIRE_F_XRCETH)
		wire_put32(bth + op->off_xrceth, wire_get32(h + op->off_xrceth));
	if (op->flags & WIRE_F_DETH)
		wire_put_deth(bth + op->off_deth, wire_get32(h + op->off_deth), wire_get24(h + op->off_deth + 5));
	if (op->flags & WIRE_F_FETH)
		wire_put32(bth + op->off_feth, wire_get32(h + op->off_feth));
	if (op->flags & WIRE_F_RETH)
		wire_put_reth(bth + op->off_reth, wire_get64(h + op->off_reth), wire_get32(h + op->off_reth + 8),
			      wire_get32(h + op->off_reth + 12));
	if (op->flags & WIRE_F_ATOMICETH)
		wire_put_atomiceth(bth + op->off_atomiceth, wire_get64(h + op->off_atomiceth),
				   wire_get32(h + op->off_atomiceth + 8), wire_get64(h + op->off_atomiceth + 12),
				   wire_get64(h + op->off_atomiceth + 20));
	if (op->flags & WIRE_F_AETH)
		wire_put_aeth(bth + op->off_aeth, h[op->off_aeth], wire_get24(h + op->off_aeth + 1));
	if (op->flags & WIRE_F_ATOMICACKETH)
		wire_put64(bth + op->off_atomicacketh, wire_get64(h + op->off_atomicacketh));
	if (op->flags & WIRE_F_IMM)
		wire_put32(bth + op->off_imm, wire_get32(h + op->off_imm));
	if (op->flags & WIRE_F_IETH)
		wire_put32(bth + op->off_ieth, wire_get32(h + op->off_ieth));
}

uint32_t
rebuild(const struct wire_pkt *p, uint16_t ip_id, uint8_t *out)
{
	uint16_t l4_payload = l4_payload_of_packet(p);
	struct wire_addr addr;
	struct wire_tmpl t;
	uint8_t *bth;

	addr_of_packet(p, &addr);
	wire_tmpl_build(&t, &addr);
	wire_tmpl_write(&t, out, l4_payload, ip_id);
	bth = out + t.bth_off;
	wire_put_bth(bth, &p->bth);
	rebuild_ext_headers(p, bth);
	memcpy(bth + p->op->hdr_bytes, p->payload, p->payload_bytes);
	memset(bth + p->op->hdr_bytes + p->payload_bytes, 0, p->bth.pad);
	if (ip_id == 0) {
		wire_tmpl_seal(&t, out, l4_payload);
	} else {
		uint32_t state = wire_icrc_headers(out + t.l3_off, t.ip_version);

		state = wire_crc(state, bth + WIRE_BTH_BYTES, l4_payload - WIRE_BTH_BYTES - WIRE_ICRC_BYTES);
		wire_put_icrc(bth + l4_payload - WIRE_ICRC_BYTES, state);
	}
	return t.bth_off + l4_payload;
}
