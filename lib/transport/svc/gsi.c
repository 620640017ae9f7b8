/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of the GSI (13.5.3): received ones are checked on the engine and passed on, packets to send from QP 1 are
 * built.
 */
#include "transport/core/checks_priv.h"
#include "transport/svc/svc_priv.h"

/* @return the entry of the port's P_Key table that matches @p pkey, preferably a full member; 0: none. */
static uint16_t
own_pkey(const struct tp_port_config *port, uint16_t pkey)
{
	uint16_t found = 0;

	/* QP 1 is in every partition of its port (10.9.2). */
	for (unsigned int i = 0; i < UROCE_MAX_PKEYS; i++) {
		if (pkey_match(pkey, port->pkeys[i]) && port->pkeys[i] > found)
			found = port->pkeys[i];
	}
	return found;
}

static void
fill_mad(struct tp_mad *m, const struct wire_pkt *p)
{
	memcpy(m->smac, p->l2 + 6, sizeof(m->smac));
	m->vlan_tci = p->vlan_tci;
	m->src_qpn = wire_get24(p->bthp + p->op->off_deth + 5);
	if (p->ip_version == 4) {
		m->sgid = gid_from_v4(p->l3 + 12);
		m->dgid = gid_from_v4(p->l3 + 16);
		m->flow_label = 0;
		m->traffic_class = p->l3[1] & 0xfc;
		m->hop_limit = p->l3[8];
	} else {
		m->sgid = *gid_at(p->l3 + 8);
		m->dgid = *gid_at(p->l3 + 24);
		m->flow_label = wire_get32(p->l3) & 0xfffff;
		m->traffic_class = wire_get32(p->l3) >> 20 & 0xfc;
		m->hop_limit = p->l3[7];
	}
	memcpy(m->data, p->payload, sizeof(m->data));
}

void
gsi_rx(struct transport *tp, uint16_t port, const struct wire_pkt *p)
{
	struct tp_mad m = { .port = port };

	if (p->bth.opcode != (WIRE_UD | WIRE_OP_SEND_ONLY)) {
		tp->counters.rx_wrong_service++;
		return;
	}
	m.pkey = own_pkey(&tp->c.ports[port], p->bth.pkey);
	if (m.pkey == 0) {
		count_bad_pkey(tp, port);
		return;
	}
	if (wire_get32(p->bthp + p->op->off_deth) != WIRE_QKEY_GSI) {
		count_bad_qkey(tp, port);
		return;
	}
	if (p->payload_bytes != TP_MAD_BYTES) {
		tp->counters.rx_mad_length++;
		return;
	}
	tp->counters.rx_mads++;
	fill_mad(&m, p);
	tp->c.mad(tp->c.arg, &m);
}

uint32_t
gsi_build(uint8_t *frame, const struct wire_addr *a, uint16_t pkey, uint32_t psn, const uint8_t mad[TP_MAD_BYTES])
{
	const struct wire_opcode *op = &wire_opcodes[WIRE_UD | WIRE_OP_SEND_ONLY];
	const struct wire_bth b = { .opcode = WIRE_UD | WIRE_OP_SEND_ONLY, .dqpn = WIRE_QPN_GSI, .pkey = pkey,
				    .psn = psn & WIRE_PSN_MASK, .migreq = true };
	const uint16_t l4 = (uint16_t)(op->hdr_bytes + TP_MAD_BYTES + WIRE_ICRC_BYTES);
	struct wire_addr addr = *a;
	struct wire_tmpl t;
	uint8_t *bth;

	if (addr.sport == 0)
		addr.sport = wire_flow_label_to_sport(wire_calc_flow_label(WIRE_QPN_GSI, WIRE_QPN_GSI));
	wire_tmpl_build(&t, &addr);
	wire_tmpl_write(&t, frame, l4, 0);
	bth = frame + t.bth_off;
	wire_put_bth(bth, &b);
	wire_put_deth(bth + op->off_deth, WIRE_QKEY_GSI, WIRE_QPN_GSI);
	memcpy(bth + op->hdr_bytes, mad, TP_MAD_BYTES);
	wire_tmpl_seal(&t, frame, l4);
	return t.bth_off + l4;
}
