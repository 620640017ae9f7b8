/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets by reference that stand for several packets.
 */
#include "transport/core/local_priv.h"

uint32_t
local_more_bytes(const struct wire_tmpl *t, const struct wire_opcode *op, uint32_t more)
{
	uint32_t each = (uint32_t)t->bth_off + WIRE_BTH_BYTES + (op->flags & WIRE_F_XRCETH ? WIRE_XRCETH_BYTES : 0) + WIRE_ICRC_BYTES;
	uint32_t response = WIRE_F_READ_RESP | WIRE_F_START | WIRE_F_END;

	/* The first and the last of several READ responses have an AETH. */
	return more * each + ((op->flags & response) == response ? WIRE_AETH_BYTES : 0);
}

static uint8_t
part_op(uint32_t f, bool start, bool end)
{
	if (f & WIRE_F_READ_RESP)
		return start ? WIRE_OP_READ_RESP_FIRST : end ? WIRE_OP_READ_RESP_LAST : WIRE_OP_READ_RESP_MIDDLE;
	if (!end)
		return f & WIRE_F_SEND ? (start ? WIRE_OP_SEND_FIRST : WIRE_OP_SEND_MIDDLE) : (start ? WIRE_OP_WRITE_FIRST : WIRE_OP_WRITE_MIDDLE);
	if (f & WIRE_F_WRITE)
		return f & WIRE_F_IMM ? WIRE_OP_WRITE_LAST_IMM : WIRE_OP_WRITE_LAST;
	return f & WIRE_F_IMM ? WIRE_OP_SEND_LAST_IMM : f & WIRE_F_IETH ? WIRE_OP_SEND_LAST_INV : WIRE_OP_SEND_LAST;
}

void
local_part(const struct tp_local *l, uint32_t nth, struct local_part *part)
{
	const struct wire_pkt *w = &l->p;
	const struct wire_opcode *from = w->op, *op;
	bool last = nth == w->more;
	struct wire_pkt *p = &part->p;
	uint8_t *bth;

	UROCE_ASSERT(w->more > 0 && nth <= w->more && (from->flags & (WIRE_F_SEND | WIRE_F_WRITE | WIRE_F_READ_RESP)));
	*p = *w;
	p->more = 0;
	p->bth.opcode = (uint8_t)(WIRE_OPCODE_SERVICE(w->bth.opcode) |
				  part_op(from->flags, nth == 0 && (from->flags & WIRE_F_START), last && (from->flags & WIRE_F_END)));
	p->bth.psn = wire_psn_add(w->bth.psn, nth);
	p->bth.ackreq = last && w->bth.ackreq;
	p->bth.solicited = last && w->bth.solicited;
	p->bth.pad = last ? w->bth.pad : 0;
	p->payload = w->payload + (nth << l->mtu_shift);
	p->payload_bytes = last ? w->payload_bytes - (nth << l->mtu_shift) : UINT32_C(1) << l->mtu_shift;
	op = p->op = &wire_opcodes[p->bth.opcode];
	memcpy(part->frame, w->l2, (size_t)(w->bthp - w->l2));
	p->l2 = part->frame;
	p->l3 = part->frame + (w->l3 - w->l2);
	p->bthp = bth = part->frame + (w->bthp - w->l2);
	if (op->flags & WIRE_F_XRCETH)
		memcpy(bth + op->off_xrceth, w->bthp + from->off_xrceth, WIRE_XRCETH_BYTES);
	if (op->flags & WIRE_F_RETH)
		memcpy(bth + op->off_reth, w->bthp + from->off_reth, WIRE_RETH_BYTES);
	if (op->flags & WIRE_F_AETH)
		memcpy(bth + op->off_aeth, w->bthp + from->off_aeth, WIRE_AETH_BYTES);
	if (op->flags & WIRE_F_IMM)
		memcpy(bth + op->off_imm, w->bthp + from->off_imm, WIRE_IMM_BYTES);
	if (op->flags & WIRE_F_IETH)
		memcpy(bth + op->off_ieth, w->bthp + from->off_ieth, WIRE_IETH_BYTES);
}

uint32_t
local_frame(const struct tp_local *l, uint32_t nth, uint8_t frame[WIRE_MAX_FRAME_BYTES])
{
	struct wire_tmpl *t = l->tmpl;
	uint8_t *bth = frame + t->bth_off, *payload;
	const struct wire_pkt *p = &l->p;
	struct local_part part;
	uint16_t l4;

	if (p->more != 0) {
		local_part(l, nth, &part);
		p = &part.p;
	}
	l4 = (uint16_t)(p->op->hdr_bytes + p->payload_bytes + p->bth.pad + WIRE_ICRC_BYTES);
	wire_put_bth(bth, &p->bth);
	memcpy(bth + WIRE_BTH_BYTES, p->bthp + WIRE_BTH_BYTES, p->op->hdr_bytes - WIRE_BTH_BYTES);
	payload = bth + p->op->hdr_bytes;
	if (p->payload_bytes > 0)
		memcpy(payload, p->payload, p->payload_bytes);
	memset(payload + p->payload_bytes, 0, p->bth.pad);
	wire_tmpl_write(t, frame, l4, 0);
	wire_tmpl_seal(t, frame, l4);
	return (uint32_t)t->bth_off + l4;
}

void
locals_drop(struct transport *tp)
{
	for (uint32_t i = 0; i < tp->locals->n; i++)
		if (tp->locals->e[i].m != NULL)
			rte_pktmbuf_free(tp->locals->e[i].m);
	tp->locals->n = 0;
}
