/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets with one fault, for which the specification has one answer: it shows in one counter. */
#include <inttypes.h>
#include <string.h>

#include "hostile.h"
#include "transport/core/types_priv.h"
#include "transport/rx_priv.h"

#define OFFSET(name) offsetof(struct tp_counters, name)

static uint64_t
counter(const struct tp_counters *c, size_t offset)
{
	uint64_t v;

	memcpy(&v, (const char *)c + offset, sizeof(v));
	return v;
}

/* ---- At QPs of good programs: dropped, counted, no harm done ---- */

enum bad_kind {
	BAD_ADDRESS, BAD_PKEY, BAD_SERVICE, BAD_ICRC, BAD_QPN, BAD_TVER, BAD_QKEY, BAD_GHOST, BAD_OPCODE, BAD_SACK,
	BAD_SACK_OLD, BAD_OFFER, BAD_MIGREQ, BAD_MAD_LENGTH, BAD_MAD_QKEY, BAD_MAD_PKEY, BAD_MAD_SERVICE,
	BAD_GROUP, BAD_GROUP_SERVICE,
	BAD_KINDS,
};

static const struct {
	const char *name;
	size_t counter;
} kinds[BAD_KINDS] = {
#define K(kind, name) [BAD_##kind] = { #name, OFFSET(name) }
	K(ADDRESS, rx_bad_address), K(PKEY, rx_bad_pkey), K(SERVICE, rx_wrong_service), K(ICRC, rx_icrc_encapsulated),
	K(QPN, rx_unknown_qp), K(TVER, rx_bad_tver), K(QKEY, rx_bad_qkey), K(GHOST, rx_ghost_ack),
	K(OPCODE, rx_bad_opcode), K(SACK, rx_sack_ignored), K(SACK_OLD, rx_sack_ignored),
	K(OFFER, duplicate_request), K(MIGREQ, rx_bad_migreq), K(MAD_LENGTH, rx_mad_length), K(MAD_QKEY, rx_bad_qkey),
	K(MAD_PKEY, rx_bad_pkey), K(MAD_SERVICE, rx_wrong_service), K(GROUP, rx_mcast_no_group),
	K(GROUP_SERVICE, rx_wrong_service),
#undef K
};

static bool
receives(const struct sim_qp *q)
{
	enum uroce_qp_state s = qp_state(q->qp);

	/* An XRC initiator takes no requests at all. */
	return s >= UROCE_QPS_RTR && s <= UROCE_QPS_SQE && !(q->conn->xrc && q == &q->conn->qp[0]);
}

static bool
sends(const struct sim_qp *q)
{
	return qp_state(q->qp) == UROCE_QPS_RTS || qp_state(q->qp) == UROCE_QPS_SQD;
}

/* For QP 1. */
static void
make_bad_mad(struct rng *r, enum bad_kind kind, struct forged *f)
{
	enum { QKEY_GSI = 0x80010000, MAD_BYTES = 256 };

	f->bth.dqpn = 1;
	f->bth.opcode = kind == BAD_MAD_SERVICE ? WIRE_UD | WIRE_OP_SEND_ONLY_IMM : WIRE_UD | WIRE_OP_SEND_ONLY;
	f->bth.pkey = kind == BAD_MAD_PKEY ? 0x8001 : WIRE_PKEY_DEFAULT;
	wire_put_deth(f->hdr + WIRE_BTH_BYTES, kind == BAD_MAD_QKEY ? QKEY_GSI ^ 1 : QKEY_GSI, 1);
	f->payload_bytes = kind == BAD_MAD_LENGTH ? (uint32_t)rng_below(r, MAD_BYTES) : MAD_BYTES;
}

/* A packet that would be good but for one thing. @return false: this QP can't get such a one now. */
static bool
make_bad(struct rng *r, const struct sim_qp *q, enum bad_kind kind, struct forged *f)
{
	enum { MIG_ARMED = 2 };
	bool ud = q->params.type == UROCE_QPT_UD;
	uint8_t service = ud ? WIRE_UD : q->params.type == UROCE_QPT_UC ? WIRE_UC : q->conn->xrc ? WIRE_XRC : WIRE_RC,
		syndrome;
	struct uroce_qp_attr a;

	qp_query(q->qp, &a);
	*f = (struct forged){ .from = way_back(&q->path) };
	f->bth = (struct wire_bth){ .opcode = service | WIRE_OP_SEND_ONLY, .dqpn = q->qpn, .psn = a.rq_psn,
				    .pkey = q->peer->pkey, .migreq = a.path_mig_state != MIG_ARMED };
	if (ud)
		wire_put_deth(f->hdr + WIRE_BTH_BYTES, q->attr.qkey, q->peer->qpn);
	switch (kind) {
	case BAD_ADDRESS:
		/* Another host, or the peer's name for us is not ours. */
		*(rng_one_in(r, 2) ? &f->from.sip[f->from.ip_version == 4 ? 3 : 15] :
				     &f->from.dip[f->from.ip_version == 4 ? 3 : 15]) ^= 0x40;
		return !ud && receives(q);
	case BAD_PKEY:
		f->bth.pkey = rng_one_in(r, 2) ? 0x8001 : (uint16_t)rng_below(r, 0x7fff) | 0x8000;
		/* Or both limited members. */
		if ((q->pkey & 0x8000) == 0 && rng_one_in(r, 2))
			f->bth.pkey = q->pkey;
		if (pkeys_meet(f->bth.pkey, q->pkey))
			f->bth.pkey ^= 0x400;
		return receives(q);
	case BAD_SERVICE:
		f->bth.opcode = (service == WIRE_RC ? WIRE_UC : WIRE_RC) | WIRE_OP_SEND_ONLY;
		return true;
	case BAD_ICRC:
		f->bad_icrc = true;
		return true;
	case BAD_QPN:
		f->bth.dqpn ^= 0x800000;
		return true;
	case BAD_TVER:
		f->bth.tver = (uint8_t)rng_between(r, 1, 15);
		return true;
	case BAD_QKEY:
		wire_put_deth(f->hdr + WIRE_BTH_BYTES, q->attr.qkey ^ 1, q->peer->qpn);
		return ud && receives(q);
	case BAD_GHOST:
		f->bth.opcode = WIRE_RC | WIRE_OP_ACK;
		f->bth.psn = (a.sq_psn + (rng_one_in(r, 2) ? 0 : (uint32_t)rng_below(r, 1 << 22))) & WIRE_PSN_MASK;
		syndrome = rng_one_in(r, 2) ? WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID :
					      (uint8_t)rng_between(r, WIRE_NAK_PSN_SEQ, WIRE_NAK_REM_OP);
		wire_put_aeth(f->hdr + WIRE_BTH_BYTES, syndrome, 0);
		return service == WIRE_RC && sends(q);
	case BAD_SACK:
		/* Somebody else's packet of that opcode. */
		forged_sack(r, f);
		f->data[rng_below(r, 4)] ^= (uint8_t)rng_between(r, 1, 255);
		return sends(q);
	case BAD_SACK_OLD:
		/* It answers an offer of another connection, and says that all is there that this one has sent. */
		forged_sack(r, f);
		f->bth.psn = (a.sq_psn - (uint32_t)rng_between(r, 1, 256)) & WIRE_PSN_MASK;
		wire_put24(f->data + 4, q->qp->req.sack_nonce ^ (uint32_t)rng_between(r, 1, 0xffffff));
		return service == WIRE_RC && sends(q) && q->ep->w->cfg.features[q->ep->id].selective_repeat;
	case BAD_OFFER:
		/* Of a connection before this one: a duplicate like others. */
		a = q->attr;
		a.dest_qp_num = q->peer->qpn;
		if (rng_one_in(r, 2))
			a.dest_qp_num ^= 1;
		else
			a.rq_psn ^= 1;
		forged_offer(f, q->qp, &a);
		return service == WIRE_RC && receives(q);
	case BAD_MIGREQ:
		/* The peer has migrated, but not to here. */
		f->bth.migreq = true;
		return a.path_mig_state == MIG_ARMED && receives(q);
	case BAD_MAD_LENGTH:
	case BAD_MAD_QKEY:
	case BAD_MAD_PKEY:
	case BAD_MAD_SERVICE:
		make_bad_mad(r, kind, f);
		return (q->ep->w->cfg.faults & SIM_F_GSI) != 0;
	case BAD_GROUP:
		/* Its address is no group's. */
		f->bth.dqpn = WIRE_QPN_MULTICAST;
		return ud;
	case BAD_GROUP_SERVICE:
		f->bth.dqpn = WIRE_QPN_MULTICAST;
		return !ud;
	default:
		f->bth.opcode = service | 0x1f;
		return true;
	}
}

void
bad_packet_for(struct sim_world *w, struct hostile *h, struct sim_qp *q)
{
	enum bad_kind kind = (enum bad_kind)rng_below(&h->rng, BAD_KINDS);
	struct uroce_qp_attr before, after;
	struct tp_counters old;
	struct forged f;

	moves_finish(w, q->ep);
	/* What waits for a turn isn't this packet's doing. */
	rx_catch_up(q->tp, q->qp);
	/* What waits for memory has others wait behind it. */
	if (!make_bad(&h->rng, q, kind, &f) || q->qp->copy != NULL)
		return;
	q->paths_now.provoked |= kind == BAD_MIGREQ;
	q->old_sacks += kind == BAD_SACK_OLD;
	old = *transport_counters(q->tp);
	qp_query(q->qp, &before);
	forged_deliver(w, q->tp, &f);
	qp_query(q->qp, &after);
	if (transport_counters(q->tp)->rx_packets == old.rx_packets)
		return; /* no mbuf for it */
	if (counter(transport_counters(q->tp), kinds[kind].counter) != counter(&old, kinds[kind].counter) + 1)
		sim_fail(w, "QP %u: a forged packet isn't counted as %s", q->id, kinds[kind].name);
	if (memcmp(&before, &after, sizeof(before)) != 0)
		sim_fail(w, "QP %u: a forged packet (%s) changes it", q->id, kinds[kind].name);
}

/* ---- At victims: refused in the way the specification says ---- */

#define WHOLE HOSTILE_MTU
#define AREA_END (HOSTILE_AREA - 8)

/* A request, or two: the first one is good. Lengths in bytes. */
struct bad_step {
	uint8_t op;
	uint32_t payload /* of FLUSH, which has none, the FETH */, reth_len, reth_off;
};
static const struct bad_case {
	const char *what;
	struct bad_step good, bad;
	bool uc;              /* the same for UC */
	bool bad_key;
	size_t counter;
} cases[] = {
#define INVALID OFFSET(resp_invalid_requests)
#define ACCESS OFFSET(resp_remote_access_errors)
	{ "WRITE longer than its RETH", {}, { WIRE_OP_WRITE_ONLY, 12, 8, 0 }, true, false, INVALID },
	{ "WRITE shorter than its RETH", {}, { WIRE_OP_WRITE_ONLY, 8, 9, 0 }, true, false, INVALID },
	{ "first packet of a WRITE that has one", {}, { WIRE_OP_WRITE_FIRST, WHOLE, WHOLE, 0 }, true, false, INVALID },
	{ "first packet below the MTU", {}, { WIRE_OP_WRITE_FIRST, WHOLE - 4, 2 * WHOLE, 0 }, true, false, INVALID },
	{ "only packet above the MTU", {}, { WIRE_OP_WRITE_ONLY, WHOLE + 4, WHOLE + 4, 0 }, true, false, INVALID },
	{ "WRITE of more than 2^31 bytes", {}, { WIRE_OP_WRITE_FIRST, WHOLE, 0x80000001, 0 }, true, false, INVALID },
	{ "middle of a WRITE with less than the MTU", { WIRE_OP_WRITE_FIRST, WHOLE, 3 * WHOLE, 0 },
	  { WIRE_OP_WRITE_MIDDLE, WHOLE - 4, 0, 0 }, true, false, INVALID },
	{ "end of a WRITE too short", { WIRE_OP_WRITE_FIRST, WHOLE, 2 * WHOLE, 0 },
	  { WIRE_OP_WRITE_LAST, WHOLE - 1, 0, 0 }, true, false, INVALID },
	{ "end of a WRITE without bytes", { WIRE_OP_WRITE_FIRST, WHOLE, 2 * WHOLE, 0 },
	  { WIRE_OP_WRITE_LAST, 0, 0, 0 }, true, false, INVALID },
	{ "SEND in the midst of a WRITE", { WIRE_OP_WRITE_FIRST, WHOLE, 2 * WHOLE, 0 },
	  { WIRE_OP_SEND_LAST, 8, 0, 0 }, true, false, INVALID },
	{ "WRITE in the midst of a WRITE", { WIRE_OP_WRITE_FIRST, WHOLE, 2 * WHOLE, 0 },
	  { WIRE_OP_WRITE_ONLY, 8, 8, 0 }, false, false, INVALID },
	{ "READ in the midst of a WRITE", { WIRE_OP_WRITE_FIRST, WHOLE, 2 * WHOLE, 0 },
	  { WIRE_OP_READ_REQUEST, 0, 8, 0 }, false, false, INVALID },
	{ "end of a SEND without beginning", {}, { WIRE_OP_SEND_LAST, 8, 0, 0 }, false, false, INVALID },
	{ "middle of a WRITE without beginning", {}, { WIRE_OP_WRITE_MIDDLE, WHOLE, 0, 0 }, false, false, INVALID },
	{ "READ of more than 2^31 bytes", {}, { WIRE_OP_READ_REQUEST, 0, 0x80000001, 0 }, false, false, INVALID },
	{ "READ with a wrong key", {}, { WIRE_OP_READ_REQUEST, 0, 8, 0 }, false, true, ACCESS },
	{ "READ beyond its region", {}, { WIRE_OP_READ_REQUEST, 0, 9, AREA_END }, false, false, ACCESS },
	{ "WRITE with a wrong key", {}, { WIRE_OP_WRITE_ONLY, 8, 8, 0 }, true, true, ACCESS },
	{ "WRITE beyond its region", {}, { WIRE_OP_WRITE_ONLY, 9, 9, AREA_END }, true, false, ACCESS },
	{ "WRITE too long for its MR", {}, { WIRE_OP_WRITE_FIRST, WHOLE, HOSTILE_AREA + 1, 0 }, true, false, ACCESS },
	{ "atomic beyond its region", {}, { WIRE_OP_FETCH_ADD, 0, 0, AREA_END + 8 }, false, false, ACCESS },
	{ "atomic at an odd address", {}, { WIRE_OP_CMP_SWAP, 0, 0, 4 }, false, false, INVALID },
	{ "ATOMIC_WRITE at an odd address", {}, { WIRE_OP_ATOMIC_WRITE, 8, 8, 4 }, false, false, INVALID },
	{ "ATOMIC_WRITE of four bytes", {}, { WIRE_OP_ATOMIC_WRITE, 4, 8, 0 }, false, false, INVALID },
	{ "ATOMIC_WRITE whose RETH says four", {}, { WIRE_OP_ATOMIC_WRITE, 8, 4, 0 }, false, false, INVALID },
	{ "ATOMIC_WRITE with a wrong key", {}, { WIRE_OP_ATOMIC_WRITE, 8, 8, 0 }, false, true, ACCESS },
	{ "ATOMIC_WRITE beyond its region", {}, { WIRE_OP_ATOMIC_WRITE, 8, 8, AREA_END + 8 }, false, false, ACCESS },
	{ "FLUSH of no type", {}, { WIRE_OP_FLUSH, 0x00, 8, 0 }, false, false, INVALID },
	{ "FLUSH of an unknown type", {}, { WIRE_OP_FLUSH, 0x05, 8, 0 }, false, false, INVALID },
	{ "FLUSH of an unknown level", {}, { WIRE_OP_FLUSH, 0x21, 8, 0 }, false, false, INVALID },
	{ "FLUSH with a wrong key", {}, { WIRE_OP_FLUSH, 0x01, 8, 0 }, false, true, ACCESS },
	{ "FLUSH to persistence", {}, { WIRE_OP_FLUSH, 0x02, 8, 0 }, false, false, ACCESS },
	{ "FLUSH in the midst of a WRITE", { WIRE_OP_WRITE_FIRST, WHOLE, 2 * WHOLE, 0 },
	  { WIRE_OP_FLUSH, 0x01, 8, 0 }, false, false, INVALID },
	{ "ATOMIC_WRITE in the midst of a WRITE", { WIRE_OP_WRITE_FIRST, WHOLE, 2 * WHOLE, 0 },
	  { WIRE_OP_ATOMIC_WRITE, 8, 8, 0 }, false, false, INVALID },
};

static void
send_step(struct sim_world *w, struct hostile *h, struct victim *v, const struct bad_step *s, uint32_t psn,
	  bool bad_key)
{
	const struct sim_mr *area = &h->eps[v->ep->id].area;
	uint8_t service = v->type == UROCE_QPT_UC       ? WIRE_UC :
			  v->type == UROCE_QPT_XRC_RECV ? WIRE_XRC :
							  WIRE_RC;
	const struct wire_opcode *op = &wire_opcodes[service | s->op];
	struct forged f = { .from = way_back(&v->path), .payload_bytes = op->flags & WIRE_F_FETH ? 0 : s->payload };

	f.bth = (struct wire_bth){ .opcode = service | s->op, .dqpn = qp_num(v->qp), .psn = psn,
				   .pkey = WIRE_PKEY_DEFAULT, .migreq = true };
	/* Always the same: a message stays with its SRQ. */
	if (op->flags & WIRE_F_XRCETH)
		wire_put32(f.hdr + op->off_xrceth, HOSTILE_SRQN + qp_engine(v->qp) * HOSTILE_XSRQS);
	if (op->flags & WIRE_F_FETH)
		wire_put32(f.hdr + op->off_feth, s->payload);
	if (op->flags & WIRE_F_RETH)
		wire_put_reth(f.hdr + op->off_reth, area->iova + s->reth_off, area->key ^ bad_key, s->reth_len);
	else if (op->flags & WIRE_F_ATOMICETH)
		wire_put_atomiceth(f.hdr + op->off_atomiceth, area->iova + s->reth_off, area->key ^ bad_key, 1, 1);
	forged_deliver(w, v->tp, &f);
}

/* One READ more than it has room for, before it could answer any (C9-95). */
static void
too_many_reads(struct sim_world *w, struct hostile *h, struct victim *v)
{
	static const struct bad_step read = { WIRE_OP_READ_REQUEST, 0, 8, 0 };
	struct tp_counters old = *transport_counters(v->tp);
	const struct tp_counters *now;
	uint32_t i;

	for (i = 0; i <= HOSTILE_RD; i++)
		send_step(w, h, v, &read, (v->attr.rq_psn + i) & WIRE_PSN_MASK, false);
	if (transport_counters(v->tp)->rx_packets != old.rx_packets + HOSTILE_RD + 1 || v->qp->copy != NULL)
		return;
	/*
	 * The first one may have found no block of a small pool, if another victim has READs to answer and its engine stalls. Then it gets an
	 * RNR NAK, and those behind it are out of sequence.
	 */
	now = transport_counters(v->tp);
	if (now->read_no_places != old.read_no_places) {
		if (now->read_no_places != old.read_no_places + 1 || now->out_of_sequence != old.out_of_sequence + HOSTILE_RD ||
		    now->resp_rd_atomic_exceeded != old.resp_rd_atomic_exceeded)
			sim_fail(w, "a READ for which there is no block isn't refused alone");
		return;
	}
	if (now->resp_rd_atomic_exceeded != old.resp_rd_atomic_exceeded + 1 || qp_state(v->qp) != UROCE_QPS_ERR)
		sim_fail(w, "%u READs at once are accepted, the limit is %u", HOSTILE_RD + 1, HOSTILE_RD);
}

/* What a QP remembers of its last connection answers nothing in the next one. */
static void
old_atomic(struct sim_world *w, struct hostile *h, struct victim *v)
{
	static const struct bad_step atomic = { WIRE_OP_FETCH_ADD, 0, 0, 0 };
	uint32_t psn = v->attr.rq_psn;
	struct tp_counters old = *transport_counters(v->tp);

	send_step(w, h, v, &atomic, psn, false);
	v->attr.rq_psn = (psn + 1) & WIRE_PSN_MASK;
	victim_to(w, v, UROCE_QPS_RTS);
	send_step(w, h, v, &atomic, psn, false);
	v->attr.rq_psn = psn;
	if (transport_counters(v->tp)->rx_packets != old.rx_packets + 2 || v->qp->copy != NULL)
		return;
	if (transport_counters(v->tp)->rx_duplicate_dropped != old.rx_duplicate_dropped + 1)
		sim_fail(w, "an atomic of the connection before is answered");
}

void
bad_request(struct sim_world *w, struct hostile *h, struct victim *v)
{
	uint32_t n = sizeof(cases) / sizeof(cases[0]), i = (uint32_t)rng_below(&h->rng, n + 2), psn = v->attr.rq_psn;
	uint32_t packets = 1;
	const struct bad_case *c = i < n ? &cases[i] : NULL;
	struct tp_counters old;

	if (v->type == UROCE_QPT_UD || v->type == UROCE_QPT_XRC_SEND ||
	    (v->type == UROCE_QPT_UC && (i >= n || !c->uc)))
		return;
	victim_to(w, v, rng_one_in(&h->rng, 2) ? UROCE_QPS_RTR : UROCE_QPS_RTS);
	world_run_at(w, v->ep->id, w->now_ns);
	if (i >= n) {
		i == n ? too_many_reads(w, h, v) : old_atomic(w, h, v);
		return;
	}
	old = *transport_counters(v->tp);
	if (c->good.payload != 0) {
		send_step(w, h, v, &c->good, psn, false);
		psn = (psn + 1) & WIRE_PSN_MASK;
		packets++;
	}
	send_step(w, h, v, &c->bad, psn, c->bad_key);
	if (transport_counters(v->tp)->rx_packets != old.rx_packets + packets || v->qp->copy != NULL)
		return; /* no mbufs, or it waits for memory */
	if (counter(transport_counters(v->tp), c->counter) != counter(&old, c->counter) + 1)
		sim_fail(w, "%s: %s isn't refused, or not counted", v->type == UROCE_QPT_UC ? "UC" : "RC", c->what);
	else if (v->type != UROCE_QPT_UC && qp_state(v->qp) != UROCE_QPS_ERR)
		sim_fail(w, "RC: after %s the QP is in %s", c->what, qp_state_name(qp_state(v->qp)));
}
