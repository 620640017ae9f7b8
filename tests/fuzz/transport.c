/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/transport: packets of every kind in every state of a QP, and between them what makes states: work requests, receives,
 * modifications, lost and repeated packets, time. Pools may have one to three items.
 */
#include "tp_world.h"
#include "transport/core/sack_format_priv.h"

enum op {
	OP_PAIR, OP_UNPAIR, OP_STATE, OP_MODIFY, OP_SEND, OP_RECV, OP_TURN, OP_DELIVER, OP_LOSE, OP_CHANGED, OP_SETTLE, OP_WAIT,
	OP_FORGE, OP_RAW, OP_POLL, OP_CQ, OP_MR, OP_XSRQ, OP_REST, OP_LOOK, OP_SACK, OP_CC, OP_SRQ_LIMIT, OP_SCRIBBLE, OPS
};

enum { SCRIBBLE_MAX = 128, POLL_MAX = 64, EVENTS = 8, TO_GSI = 254, TO_GROUP = 253, OTHER_PKEY = 252, OTHER_SENDER = 255 };

static void
sges(struct world *w, struct ring_sge *sge, uint32_t n, struct fuzz_in *in)
{
	for (uint32_t i = 0; i < n; i++) {
		sge[i].addr = world_address(w, in);
		sge[i].lkey = world_key(w, in);
		sge[i].length = fuzz_u16(in) & 0x1fff;
	}
}

/* ---- What a program does ---- */
static void
send_wr(struct world *w, struct end *e, unsigned int i, struct fuzz_in *in)
{
	struct ring_sq_wqe *q = ring_slot(&e->sq, e->sq.counter);
	union ring_sq_ctl ctl = { .opcode = fuzz_below(in, UROCE_WR_OPS), .flags = fuzz_u8(in) & 15 };
	uint8_t n = fuzz_u8(in);

	if (e->type == UROCE_QPT_XRC_RECV)
		return;
	memset(q, 0, (size_t)1 << e->sq.shift);
	q->wr_id = e->sq.counter;
	ctl.count = n % (WORLD_SGES + 1);
	ctl.srqn = WORLD_SRQN + (n >> 4) % (WORLD_XSRQS + 1);
	wqe_put_remote(q, world_address(w, in), world_key(w, in));
	wqe_put_imm(q, ctl.opcode == UROCE_WR_SEND_WITH_INV || ctl.opcode == UROCE_WR_LOCAL_INV ? world_key(w, in) : n);
	if (e->type == UROCE_QPT_UD)
		wqe_put_ud(q, w->ahs[n / 4 % 4], (n & 64) != 0 ? WIRE_QPN_MULTICAST : qp_num(w->ends[i ^ 1]->qp), WORLD_QKEY);
	if ((ctl.flags & UROCE_SEND_INLINE) != 0) {
		ctl.count = n % (WORLD_INLINE + 2);
		fuzz_bytes(in, wqe_inline(q), WORLD_INLINE);
	} else {
		sges(w, wqe_sges(q, ctl.opcode), WORLD_SGES, in);
	}
	if (ctl.opcode == UROCE_WR_BIND_MW)
		wqe_put_bind(q, fuzz_u16(in), world_key(w, in), fuzz_u8(in) & MW_ACCESS_KNOWN);
	else if (ctl.opcode == UROCE_WR_FLUSH)
		wqe_put_flush(q, fuzz_u16(in), fuzz_u8(in), fuzz_u8(in));
	else if (wqe_has_block(ctl.opcode))
		wqe_put_atomic(q, fuzz_u8(in), fuzz_u8(in));
	ring_sq_post(&e->sq, e->sq.counter++, q, ctl);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&e->shared.sq_watch) == 0)
		qp_doorbell(w->tp, e->qp);
}

static void
recv_wr(struct world *w, struct end *e, struct fuzz_in *in)
{
	uint8_t where = fuzz_u8(in);
	struct ring *r = e->type == UROCE_QPT_XRC_RECV ? &w->xsrqs[where % WORLD_XSRQS]->ring :
			 e->srq != NULL		       ? &e->srq->ring :
							 &e->rq;
	struct ring_rq_wqe *q = ring_slot(r, r->counter);
	uint16_t n = fuzz_below(in, WORLD_SGES + 2);

	q->wr_id = r->counter;
	sges(w, q->sge, n < WORLD_SGES ? n : WORLD_SGES, in);
	ring_rq_post(r, r->counter++, q, n);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&e->shared.rq_watch) == 0)
		qp_doorbell(w->tp, e->qp);
}

static void
poll(struct end_cq *c, unsigned int n)
{
	struct ring_cqe cqe;

	while (n-- > 0 && cq_poll(c, &cqe, NULL))
		;
}

static void
cq_nonsense(struct world *w, struct end *e, struct fuzz_in *in)
{
	struct end_cq *c = fuzz_below(in, 2) ? &e->rcq : &e->scq;

	switch (fuzz_below(in, 4)) {
	case 0:
		atomic_store(&c->shared.arm, fuzz_u8(in) % 4);
		break;
	case 1:
		atomic_store(&c->shared.cons, fuzz_u32(in));
		break;
	case 2:
		cq_moderate(c->cq, fuzz_u8(in), fuzz_u8(in));
		break;
	default:
		atomic_store(&c->shared.cons, c->ring.counter);
		break;
	}
}

/** Any bytes anywhere in what the program shares with the engine. */
static void
scribble(struct world *w, struct end *e, struct fuzz_in *in)
{
	uint16_t at = fuzz_u16(in);
	uint8_t bytes[SCRIBBLE_MAX], *base, which = fuzz_u8(in);
	size_t n = fuzz_bytes(in, bytes, sizeof(bytes)), size;
	struct ring *r = &e->sq;

	switch (which % 5) {
	case 1:
		r = &e->rq;
		break;
	case 2:
		r = &e->scq.ring;
		break;
	case 3:
		r = &w->srq->ring;
		break;
	case 4:
		memcpy(&e->shared, bytes, n < sizeof(e->shared) ? n : sizeof(e->shared));
		return;
	default:
		break;
	}
	base = r->base;
	size = (size_t)1 << (r->order + r->shift);
	for (size_t i = 0; i < n; i++)
		base[(at + i) % size] = bytes[i];
	qp_doorbell(w->tp, e->qp);
}

/** A mask as programs have it: the state, and some of what they may change in the states in which packets flow. */
static uint32_t
likely_mask(uint8_t bits)
{
	static const uint32_t optional[] = { UROCE_QP_CUR_STATE,      UROCE_QP_ACCESS_FLAGS, UROCE_QP_MIN_RNR_TIMER,
					     UROCE_QP_ALT_PATH,	      UROCE_QP_PATH_MIG_STATE, UROCE_QP_EN_SQD_ASYNC_NOTIFY,
					     UROCE_QP_MAX_QP_RD_ATOMIC, UROCE_QP_TIMEOUT };
	uint32_t mask = UROCE_QP_STATE;

	for (unsigned int i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
		if ((bits >> i & 1) != 0)
			mask |= optional[i];
	return mask;
}

static void
modify(struct world *w, struct end *e, unsigned int i, struct fuzz_in *in)
{
	uint8_t how = fuzz_u8(in);
	uint32_t mask = how < 160 ? likely_mask(fuzz_u8(in)) : fuzz_u32(in) & 0x03ffffff;
	struct uroce_qp_attr a = w->attr[i];
	struct tp_path path = w->path[i];
	const char *why = "";
	enum uroce_qp_state from = qp_state(e->qp);
	int checked, rc;

	a.qp_state = fuzz_u8(in) % 9;
	a.cur_qp_state = from;
	a.path_mig_state = fuzz_u8(in);
	a.max_rd_atomic = fuzz_u8(in);
	a.max_dest_rd_atomic = fuzz_u8(in);
	a.timeout = fuzz_u8(in);
	a.retry_cnt = fuzz_u8(in);
	a.rnr_retry = fuzz_u8(in);
	a.min_rnr_timer = fuzz_u8(in);
	a.path_mtu = fuzz_u8(in);
	a.rq_psn = fuzz_u32(in);
	a.sq_psn = fuzz_u32(in);
	a.en_sqd_async_notify = 1;
	a.alt_port_num = 1;
	a.alt_timeout = 10;
	a.alt_ah = a.ah;
	if (how < 160) {
		a.qp_state = how < 128 ? from : a.qp_state % UROCE_QPS_STATES;
		a.path_mig_state %= 3;
		a.max_rd_atomic %= 9;
		a.timeout %= 32;
		a.min_rnr_timer %= 32;
	}
	checked = qp_modify_check(e->type, from, &a, mask, UROCE_MTU_4096, &why);
	rc = qp_modify_paths(w->tp, e->qp, &a, mask, (mask & UROCE_QP_AV) ? &path : NULL,
			     (mask & UROCE_QP_ALT_PATH) ? &path : NULL, w->pair.now);
	FUZZ_CHECK(checked == 0 || rc == checked);
	FUZZ_CHECK(rc == 0 || qp_state(e->qp) == from);
}

/* ---- Packets ---- */
/** From the peer of @p e. */
static void
packet(struct world *w, struct end *e, unsigned int i, struct wire_bth *b, const uint8_t *behind, uint32_t bytes, uint8_t odd)
{
	struct wire_addr a = w->path[i].addr;
	uint16_t l4 = (uint16_t)(WIRE_BTH_BYTES + bytes + WIRE_ICRC_BYTES);
	uint8_t frame[WORLD_FRAME];
	struct wire_tmpl t;

	memcpy(a.smac, w->path[i].addr.dmac, sizeof(a.smac));
	memcpy(a.dmac, w->path[i].addr.smac, sizeof(a.dmac));
	memcpy(a.sip, w->path[i].addr.dip, sizeof(a.sip));
	memcpy(a.dip, w->path[i].addr.sip, sizeof(a.dip));
	a.sport = 0xc000;
	a.traffic_class = odd % 4;
	if (odd == OTHER_SENDER)
		a.sip[0] ^= 1;
	b->dqpn = odd == TO_GSI ? WIRE_QPN_GSI : odd == TO_GROUP ? WIRE_QPN_MULTICAST : qp_num(e->qp);
	b->pkey = odd == OTHER_PKEY ? 0x1234 : WIRE_PKEY_DEFAULT;
	wire_tmpl_build(&t, &a);
	wire_tmpl_write(&t, frame, l4, 0);
	wire_put_bth(frame + t.bth_off, b);
	memcpy(frame + t.bth_off + WIRE_BTH_BYTES, behind, bytes);
	wire_tmpl_seal(&t, frame, l4);
	world_frame(w, frame, t.bth_off + l4, false);
}

static uint8_t
service(const struct end *e)
{
	return e->type == UROCE_QPT_RC ? WIRE_RC : e->type == UROCE_QPT_UC ? WIRE_UC : e->type == UROCE_QPT_UD ? WIRE_UD : WIRE_XRC;
}

/** Good headers with the addresses and keys that there are, and then the input's changes to them. */
static void
put_headers(struct world *w, const struct wire_opcode *op, uint8_t *bth, struct fuzz_in *in)
{
	uint64_t va = world_address(w, in);
	uint32_t key = world_key(w, in);
	uint32_t len = fuzz_u16(in) & 0x3fff;
	uint8_t small = fuzz_u8(in);

	if (op->flags & WIRE_F_XRCETH)
		wire_put32(bth + op->off_xrceth, WORLD_SRQN + small % (WORLD_XSRQS + 1));
	if (op->flags & WIRE_F_RETH)
		wire_put_reth(bth + op->off_reth, va, key, len);
	if (op->flags & WIRE_F_ATOMICETH)
		wire_put_atomiceth(bth + op->off_atomiceth, small & 1 ? va : va & ~UINT64_C(7), key, va, small);
	if (op->flags & WIRE_F_IETH)
		wire_put32(bth + op->off_ieth, key);
	if (op->flags & WIRE_F_AETH)
		wire_put_aeth(bth + op->off_aeth, small, len);
	if (op->flags & WIRE_F_DETH)
		wire_put_deth(bth + op->off_deth, small == 255 ? va : WORLD_QKEY, len);
	if (op->flags & WIRE_F_FETH)
		wire_put_feth(bth + op->off_feth, small, small >> 4);
}

static void
forge(struct world *w, struct end *e, unsigned int i, struct fuzz_in *in)
{
	uint8_t flags = fuzz_u8(in), odd = fuzz_u8(in), opcode = fuzz_u8(in);
	uint8_t bytes[WIRE_BTH_BYTES + 64 + WIRE_MAX_MTU] = { 0 };
	const struct wire_opcode *op;
	struct uroce_qp_attr a;
	struct wire_bth b = { .ackreq = flags & 1, .solicited = (flags & 2) != 0, .migreq = (flags & 4) == 0,
			      .becn = (flags & 8) != 0, .fecn = (flags & 16) != 0 };
	uint32_t payload, hdr;

	b.opcode = opcode < 224 ? (uint8_t)(service(e) | (opcode & 0x1f)) : (uint8_t)(opcode * 8 | (flags & 7));
	op = &wire_opcodes[b.opcode];
	qp_query(e->qp, &a);
	b.psn = ((op->flags & WIRE_F_RESPONSE ? a.sq_psn : a.rq_psn) + (uint32_t)(int8_t)fuzz_u8(in)) & WIRE_PSN_MASK;
	/* What shows that a packet is of this connection (core/sack_format_priv.h). */
	if (flags & 128)
		b.mark = op->flags & WIRE_F_RESPONSE ? sack_mark(e->qp->req.sack_nonce) : e->qp->rcv.sack_mark;
	payload = fuzz_u8(in);
	payload = payload < 128 ? payload % 17 : payload < 192 ? 128u << (w->attr[i].path_mtu) : payload * 16;
	put_headers(w, op, bytes, in);
	hdr = op->hdr_bytes != 0 ? op->hdr_bytes : WIRE_BTH_BYTES;
	if (!(op->flags & WIRE_F_PAYLOAD) && (flags & 32) == 0)
		payload = 0;
	payload = payload > WIRE_MAX_MTU ? WIRE_MAX_MTU : payload;
	if (odd == TO_GSI) {
		b.opcode = WIRE_UD | WIRE_OP_SEND_ONLY;
		hdr = wire_opcodes[b.opcode].hdr_bytes;
		wire_put_deth(bytes + WIRE_BTH_BYTES, WIRE_QKEY_GSI, 1);
		payload = (flags & 128) == 0 ? TP_MAD_BYTES : payload;
	}
	b.pad = (uint8_t)(-payload & 3);
	if (flags & 64) {
		uint8_t at = fuzz_u8(in) % hdr;

		bytes[at] ^= fuzz_u8(in);
	}
	packet(w, e, i, &b, bytes + WIRE_BTH_BYTES, hdr - WIRE_BTH_BYTES + payload + b.pad, odd);
}

/** What uroce endpoints say to each other about lost packets: offers and SACKs (core/sack_format_priv.h). */
static void
say_sack(struct world *w, struct end *e, unsigned int i, struct fuzz_in *in)
{
	uint8_t bytes[64] = { 0 }, kind = fuzz_u8(in), map[8 * SACK_WORDS], *sack;
	struct wire_bth b = { .migreq = true };
	struct uroce_qp_attr a;

	qp_query(e->qp, &a);
	if (kind % 2 == 0) {
		b.opcode = WIRE_RC | WIRE_OP_WRITE_ONLY;
		b.psn = (a.rq_psn - SACK_OFFER_BEHIND + (uint32_t)(int8_t)fuzz_u8(in)) & WIRE_PSN_MASK;
		wire_put24(bytes, SACK_OFFER_MAGIC);
		wire_put24(bytes + 3, sack_origin(w->attr[i].dest_qp_num, w->attr[i].rq_psn));
		wire_put24(bytes + 6, fuzz_u8(in));
		wire_put24(bytes + 9, w->attr[i].sq_psn);
		packet(w, e, i, &b, bytes, WIRE_RETH_BYTES, 0);
		return;
	}
	b.opcode = WIRE_OPCODE_SACK;
	b.psn = (a.sq_psn + (uint32_t)(int8_t)fuzz_u8(in)) & WIRE_PSN_MASK;
	wire_put_aeth(bytes, fuzz_u8(in), 0);
	sack = bytes + WIRE_AETH_BYTES;
	wire_put32(sack, SACK_MAGIC);
	wire_put24(sack + SACK_NONCE, e->qp->req.sack_nonce ^ (kind >> 6));
	sack[SACK_MARK] = kind >> 1;
	fuzz_bytes(in, map, sizeof(map));
	memcpy(sack + SACK_BITMAP, map, sizeof(map));
	packet(w, e, i, &b, bytes, WIRE_AETH_BYTES + SACK_PAYLOAD_BYTES, 0);
}

/* ---- Looking ---- */
static void
look(struct world *w, struct end *e)
{
	struct qp_event events[EVENTS];
	char text[DIAG_TEXT_BYTES];
	struct uroce_qp_attr a;
	struct tp_depths d;
	struct qp_view v;
	uint32_t n;

	qp_look(e->qp, w->pair.now, &v);
	v.load_percent = 50;
	qp_explain(&v, text);
	FUZZ_CHECK(memchr(text, 0, sizeof(text)) != NULL);
	qp_query(e->qp, &a);
	transport_depths(w->tp, &d);
	n = qp_events(w->tp, qp_num(e->qp), events, EVENTS);
	for (uint32_t i = 0; i < n; i++)
		qp_event_text(&events[i], text);
}

static void
pass(struct world *w, struct fuzz_in *in)
{
	uint64_t ns = (uint64_t)fuzz_u8(in) << fuzz_below(in, 32), end = w->pair.now + ns;

	for (unsigned int i = 0; i < 64 && w->pair.now < end; i++) {
		uint64_t next = transport_next_timeout(w->tp);

		w->pair.now = next <= w->pair.now ? w->pair.now + 1 : next < end ? next : end;
		world_turn(w);
	}
	w->pair.now = end;
}

/** Of the wire, of all. */
static void
run_any(struct world *w, enum op op, struct fuzz_in *in)
{
	struct fuzz_in none = { 0 };
	uint8_t n = fuzz_u8(in);

	switch (op) {
	case OP_PAIR:
		world_pair(w, n % WORLD_PAIRS, in);
		break;
	case OP_UNPAIR:
		world_unpair(w, n % WORLD_PAIRS);
		break;
	case OP_TURN:
		world_turn(w);
		break;
	case OP_DELIVER:
		world_deliver(w, n % 64, n >= 192, &none, false);
		break;
	case OP_LOSE:
		world_lose(w, n);
		break;
	case OP_CHANGED:
		world_deliver(w, n % 64, n >= 192, in, n % 8 != 0);
		break;
	case OP_SETTLE:
		world_settle(w);
		break;
	case OP_WAIT:
		pass(w, in);
		break;
	case OP_RAW:
		world_frame(w, in->at, fuzz_left(in), false);
		break;
	case OP_MR:
		world_renew_mr(w, n % WORLD_MRS, n >= 128);
		break;
	case OP_XSRQ:
		world_renew_xsrq(w, n % WORLD_XSRQS);
		break;
	case OP_REST:
		transport_rest(w->tp);
		break;
	case OP_CC:
		transport_set_cc(w->tp, 0, n % TP_CC_ALGORITHMS, n * 100);
		break;
	default:
		srq_set_limit(w->srq->srq, n % (2 * WORLD_DEPTH));
		break;
	}
}

/** Of one end. */
static void
run_end(struct world *w, enum op op, unsigned int i, struct fuzz_in *in)
{
	struct end *e = w->ends[i];

	switch (op) {
	case OP_STATE:
		world_state(w, i, fuzz_below(in, UROCE_QPS_STATES));
		break;
	case OP_MODIFY:
		modify(w, e, i, in);
		break;
	case OP_SEND:
		send_wr(w, e, i, in);
		break;
	case OP_RECV:
		recv_wr(w, e, in);
		break;
	case OP_FORGE:
		forge(w, e, i, in);
		break;
	case OP_SACK:
		say_sack(w, e, i, in);
		break;
	case OP_POLL:
		poll(&e->scq, POLL_MAX);
		poll(&e->rcq, POLL_MAX);
		break;
	case OP_CQ:
		cq_nonsense(w, e, in);
		break;
	case OP_SCRIBBLE:
		scribble(w, e, in);
		break;
	default:
		look(w, e);
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint32_t of_an_end = 1u << OP_STATE | 1u << OP_MODIFY | 1u << OP_SEND | 1u << OP_RECV | 1u << OP_FORGE |
					  1u << OP_SACK | 1u << OP_POLL | 1u << OP_CQ | 1u << OP_SCRIBBLE | 1u << OP_LOOK;
	struct fuzz_in in = fuzz_in(data, size), body;
	static struct world w;
	uint8_t kind;

	if (!fuzz_chunk(&in, &kind, &body))
		return 0;
	world_begin(&w, &body);
	while (fuzz_chunk(&in, &kind, &body)) {
		enum op op = kind % OPS;

		if ((of_an_end >> op & 1) == 0) {
			run_any(&w, op, &body);
		} else {
			unsigned int i = fuzz_below(&body, WORLD_ENDS);

			if (w.ends[i] != NULL)
				run_end(&w, op, i, &body);
		}
	}
	world_end(&w);
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	world_prepare();
	return 0;
}

static size_t
repair(uint8_t kind, uint8_t *body, size_t size, size_t max)
{
	if (kind % OPS == OP_RAW && size > 1)
		fuzz_frame_repair(body + 1, size - 1);
	return size;
}

FUZZ_PROGRAM(16, repair)
