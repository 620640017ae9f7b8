/* SPDX-License-Identifier: BSD-3-Clause */
/* Forged packets of every kind. */
#include <string.h>

#include "base/mix.h"
#include "hostile.h"
#include "transport/core/held_priv.h"
#include "transport/rx_priv.h"

enum {
	PSN_NEAR = 6,
	PSN_FAR = 600, /* more than SACKs tell of */
};

struct wire_addr
way_back(const struct tp_path *path)
{
	struct wire_addr a = path->addr;

	memcpy(a.smac, path->addr.dmac, sizeof(a.smac));
	memcpy(a.dmac, path->addr.smac, sizeof(a.dmac));
	memcpy(a.sip, path->addr.dip, sizeof(a.sip));
	memcpy(a.dip, path->addr.sip, sizeof(a.dip));
	return a;
}

void
forged_sack(struct rng *r, struct forged *f)
{
	enum { MAGIC = 0x75726332 };

	f->bth.opcode = WIRE_OPCODE_SACK;
	f->payload_bytes = f->data_bytes = FORGED_DATA;
	memset(f->data, 0, sizeof(f->data));
	wire_put32(f->data, MAGIC);
	wire_put_aeth(f->hdr + WIRE_BTH_BYTES, WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID, 0);
	/* A few PSNs, or any. */
	if (rng_one_in(r, 2))
		f->data[15] = (uint8_t)rng_next(r);
	else
		hostile_fill(r, f->data + 8, FORGED_DATA - 8);
}

void
forged_offer(struct forged *f, const struct qp *qp, const struct uroce_qp_attr *a)
{
	enum { MAGIC = 0x757232, BEHIND = 1 << 22 };
	uint8_t *reth = f->hdr + WIRE_BTH_BYTES;
	struct uroce_qp_attr now;

	qp_query(qp, &now);
	f->bth.opcode = WIRE_RC | WIRE_OP_WRITE_ONLY;
	f->bth.psn = (now.rq_psn - BEHIND) & WIRE_PSN_MASK;
	f->payload_bytes = 0;
	wire_put24(reth, MAGIC);
	wire_put24(reth + 3, (uint32_t)mix64((uint64_t)a->dest_qp_num << 24 | a->rq_psn) & WIRE_PSN_MASK);
	wire_put24(reth + 6, now.rq_psn);
	wire_put24(reth + 9, a->sq_psn);
	wire_put32(reth + 12, 0);
}

void
forged_deliver(struct sim_world *w, struct transport *tp, const struct forged *f)
{
	uint32_t hdr = wire_opcodes[f->bth.opcode].hdr_bytes, pad = -f->payload_bytes & 3;
	struct rte_mbuf *m = rte_pktmbuf_alloc(w->pool);
	struct wire_bth b = f->bth;
	struct wire_tmpl t;
	uint8_t *p, *bth;
	struct qp *qp;
	uint16_t l4;

	if (m == NULL)
		return;
	if (hdr < WIRE_BTH_BYTES)
		hdr = WIRE_BTH_BYTES;
	wire_tmpl_build(&t, &f->from);
	p = rte_pktmbuf_mtod(m, uint8_t *);
	bth = p + t.bth_off;
	b.pad |= (uint8_t)pad;
	wire_put_bth(bth, &b);
	memcpy(bth + WIRE_BTH_BYTES, f->hdr + WIRE_BTH_BYTES, hdr - WIRE_BTH_BYTES);
	memcpy(bth + hdr, sim_pattern + f->bth.psn % (SIM_PATTERN_BYTES / 2), f->payload_bytes + pad);
	memcpy(bth + hdr, f->data, f->data_bytes);
	l4 = (uint16_t)(hdr + f->payload_bytes + pad + WIRE_ICRC_BYTES);
	wire_tmpl_write(&t, p, l4, 0);
	wire_tmpl_seal(&t, p, l4);
	bth[l4 - 1] ^= f->bad_icrc;
	m->data_len = (uint16_t)(t.bth_off + l4);
	m->pkt_len = m->data_len;
	m->port = f->from.dmac[4]; /* setup.c */
	if (transport_rx(tp, m->port, &m, 1, false, w->now_ns) != 0)
		rte_pktmbuf_free(m);
	/* What it does is looked at at once, so it may not wait for a turn. */
	qp = qp_table_get(tp->c.sh.qps, b.dqpn);
	if (qp != NULL && qp_transport(qp) == tp)
		rx_catch_up(tp, qp);
}

/* PSNs at which something happens: the expected one, and a few before and behind. */
static uint32_t
random_psn(struct hostile *h, const struct victim *v, bool response)
{
	struct rng *r = &h->rng;
	struct uroce_qp_attr a;

	qp_query(v->qp, &a);
	if (rng_one_in(r, 16))
		return (uint32_t)rng_next(r) & WIRE_PSN_MASK;
	/* Where what comes next seems to have been before. */
	if (rng_one_in(r, 16))
		return ((response ? a.sq_psn : a.rq_psn) + (1 << 23) + (uint32_t)rng_below(r, 2 * PSN_FAR) - PSN_FAR) &
		       WIRE_PSN_MASK;
	if (!response && rng_one_in(r, 2))
		return a.rq_psn;
	return ((response ? a.sq_psn : a.rq_psn) + (uint32_t)rng_below(r, 2 * PSN_NEAR) - PSN_NEAR) & WIRE_PSN_MASK;
}

/* Extended headers: good addresses and keys mostly, so that packets get far. */
static void
random_headers(struct hostile *h, const struct victim *v, const struct wire_opcode *op, struct forged *f)
{
	const struct sim_mr *area = &h->eps[v->ep->id].area;
	struct rng *r = &h->rng;
	uint64_t va = area->iova + rng_below(r, HOSTILE_AREA);
	uint32_t key = rng_one_in(r, 4) ? hostile_window_key(&h->eps[v->ep->id]) : area->key;
	uint8_t *bth = f->hdr;

	hostile_fill(r, f->hdr, sizeof(f->hdr));
	if ((op->flags & WIRE_F_XRCETH) && !rng_one_in(r, 16))
		wire_put32(bth + op->off_xrceth,
			   rng_one_in(r, 16) ? v->ep->foreign_srqn : hostile_srqn(h, v));
	if (rng_one_in(r, 8))
		return;
	if (op->flags & WIRE_F_RETH)
		wire_put_reth(bth + op->off_reth, va, key,
			      rng_one_in(r, 2) ? f->payload_bytes : (uint32_t)rng_below(r, 4 * HOSTILE_MTU));
	if (op->flags & WIRE_F_ATOMICETH)
		wire_put_atomiceth(bth + op->off_atomiceth, rng_one_in(r, 4) ? va : (va & ~UINT64_C(7)), key,
				   rng_next(r), rng_next(r));
	if (op->flags & WIRE_F_IETH)
		wire_put32(bth + op->off_ieth, hostile_window_key(&h->eps[v->ep->id]));
	if (op->flags & WIRE_F_AETH)
		bth[op->off_aeth] = (uint8_t)rng_next(r);
	if (op->flags & WIRE_F_DETH)
		wire_put32(bth + op->off_deth, HOSTILE_QKEY);
}

/*
 * Every packet leaves a trace: a counter, or the QP has moved on. A request that finds no receive is counted when the
 * RNR NAK is sent.
 */
static void
check_trace(struct sim_world *w, const struct victim *v, const struct forged *f, const struct tp_counters *old,
	    const struct uroce_qp_attr *before)
{
	struct tp_counters now = *transport_counters(v->tp);
	struct uroce_qp_attr after;

	qp_query(v->qp, &after);
	if (now.rx_packets == old->rx_packets || memcmp(before, &after, sizeof(after)) != 0 ||
	    ((v->type == UROCE_QPT_RC || v->type == UROCE_QPT_XRC_RECV) && (wire_opcodes[f->bth.opcode].flags & WIRE_F_RQ)))
		return;
	now.rx_packets = old->rx_packets;
	now.rx_bytes = old->rx_bytes;
	if (memcmp(&now, old, sizeof(now)) == 0)
		sim_fail(
			w,
			"a packet of opcode 0x%02x, PSN %u, %u bytes for a victim (type %u, %s) vanishes without trace",
			f->bth.opcode, f->bth.psn, f->payload_bytes, v->type, qp_state_name(qp_state(v->qp)));
}

/* Mostly one that is believed, so that what is behind it gets held. */
static void
random_sack(struct hostile *h, const struct victim *v, struct forged *f)
{
	struct rng *r = &h->rng;

	if (rng_one_in(r, 2)) {
		forged_offer(f, v->qp, &v->attr);
		if (rng_one_in(r, 4))
			f->hdr[WIRE_BTH_BYTES + rng_below(r, WIRE_RETH_BYTES)] ^= 0x20;
		return;
	}
	f->bth.psn = random_psn(h, v, true);
	forged_sack(r, f);
	/* Most answer the offer that the victim may have made. */
	if (!rng_one_in(r, 4))
		wire_put24(f->data + 4, v->qp->req.sack_nonce);
	if (rng_one_in(r, 4))
		hostile_fill(r, f->data, f->data_bytes);
	if (rng_one_in(r, 8))
		f->payload_bytes = f->data_bytes + 4;
}

void
hostile_packet(struct sim_world *w, struct hostile *h, struct victim *v)
{
	static const uint8_t services[] = {
		[UROCE_QPT_RC] = WIRE_RC,
		[UROCE_QPT_UC] = WIRE_UC,
		[UROCE_QPT_UD] = WIRE_UD,
		[UROCE_QPT_XRC_SEND] = WIRE_XRC,
		[UROCE_QPT_XRC_RECV] = WIRE_XRC,
	};
	struct rng *r = &h->rng;
	const struct wire_opcode *op;
	struct forged f = { .from = way_back(&v->path) };
	struct uroce_qp_attr before;
	struct tp_counters old;

	f.bth.opcode = (uint8_t)rng_next(r);
	if (!rng_one_in(r, 8))
		f.bth.opcode = services[v->type] | (f.bth.opcode & 0x1f);
	op = &wire_opcodes[f.bth.opcode];
	f.bth.dqpn = qp_num(v->qp);
	f.bth.psn = random_psn(h, v, (op->flags & WIRE_F_RESPONSE) != 0);
	f.bth.pkey = rng_one_in(r, 32) ? (uint16_t)rng_next(r) : WIRE_PKEY_DEFAULT;
	f.bth.ackreq = rng_one_in(r, 2);
	f.bth.solicited = rng_one_in(r, 2);
	/* The mark that is kept or placed beyond a gap. */
	if (v->type == UROCE_QPT_RC && !rng_one_in(r, 4))
		f.bth.mark = op->flags & WIRE_F_RESPONSE ? (uint8_t)(1 + v->qp->req.sack_nonce % 127) : v->qp->rcv.sack_mark;
	f.bth.tver = rng_one_in(r, 32);
	f.bth.pad = rng_one_in(r, 32) ? (uint8_t)rng_below(r, 4) : 0;
	if ((op->flags & WIRE_F_PAYLOAD) || rng_one_in(r, 16))
		f.payload_bytes = rng_one_in(r, 2) ? HOSTILE_MTU : (uint32_t)rng_below(r, 2 * HOSTILE_MTU);
	random_headers(h, v, op, &f);
	if (v->type == UROCE_QPT_RC && rng_one_in(r, 8))
		random_sack(h, v, &f);
	old = *transport_counters(v->tp);
	qp_query(v->qp, &before);
	forged_deliver(w, v->tp, &f);
	check_trace(w, v, &f, &old, &before);
	world_run_at(w, v->ep->id, w->now_ns);
}
