/* SPDX-License-Identifier: BSD-3-Clause */
/* Foreign ends: habits, states, packets in and out, completions. */
#include <stdlib.h>
#include <string.h>

#include "foreign.h"

enum {
	STREAM_FOREIGN = 4096,
	WHOLE_READ_BYTES = 64 * 1024,
	FOREIGN_ONE_IN = 4, /* connections, besides every third one */
	TURN_GAP_NS = 1000,
};
#define PATIENCE_NS (60 * SIM_NS_PER_MS)

/* ---- Habits ---- */

/* Linux's Soft-RoCE, as tests/golden has it. */
static const struct foreign_habits soft_roce = {
	.name = "Soft-RoCE", .ackreq_every = 66, .window = 128, .burst = 64, .timeout_min_ns = 8 * SIM_NS_PER_MS,
	.ack_each = true, .nak_after_rnr = true, .dup_ack_latest = true, .refuses_with_op = true,
	.credits = FOREIGN_UNLIMITED, .answer_ns = 3000, .dup_ns = 3000, .answers_per_turn = 64,
};

/* hfi1: coalesces ACKs, counts credits, keeps silent behind an RNR NAK. */
static const struct foreign_habits hfi1 = {
	.name = "hfi1", .ackreq_every = 16, .window = 64, .burst = 16, .timeout_min_ns = 4 * SIM_NS_PER_MS,
	.obeys_credits = true, .migreq = true, .credits = FOREIGN_HONEST, .answer_ns = 2000, .dup_ns = 2000,
	.answers_per_turn = 16,
};

static struct foreign_habits
habits_draw(const struct sim_world *w, struct rng *r)
{
	struct foreign_habits h = rng_one_in(r, 2) ? soft_roce : hfi1;

	if (!rng_one_in(r, 4)) {
		h.name = "its own";
		h.ackreq_every = (uint32_t)rng_between(r, 1, 100);
		h.ackreq_last_only = rng_one_in(r, 3);
		h.window = (uint32_t)rng_between(r, 1, 200);
		h.burst = (uint32_t)rng_between(r, 1, 64);
		h.timeout_min_ns = rng_between(r, 4, 40) * SIM_NS_PER_MS;
		h.read_whole_again = rng_one_in(r, 3);
		h.obeys_credits = rng_one_in(r, 2);
		h.replays_each_implied = rng_one_in(r, 4);
		h.migreq = rng_one_in(r, 2);
		h.ack_each = rng_one_in(r, 2);
		h.ack_unasked = rng_one_in(r, 2) ? (uint32_t)rng_between(r, 1, 20) : 0;
		h.nak_after_rnr = rng_one_in(r, 2);
		h.dup_ack_latest = rng_one_in(r, 2);
		h.ack_read = rng_one_in(r, 2);
		h.refuses_with_op = rng_one_in(r, 4);
		h.credits = (enum foreign_credits)rng_below(r, FOREIGN_CREDITS);
		h.answer_ns = rng_between(r, 1, 20000);
		h.dup_ns = rng_between(r, 1, 200000);
		h.answers_per_turn = (uint32_t)rng_between(r, 1, 64);
		h.nak_again = rng_one_in(r, 4) ? (uint32_t)rng_between(r, 2, 20) : 0;
		h.nak_each = rng_one_in(r, 4);
		h.rnr_again = rng_one_in(r, 3) ? (uint32_t)rng_between(r, 1, 5) : 0;
	}
	/* A long answer would hardly ever come whole from a network that loses packets. */
	if (!w->cfg.lossless && w->cfg.max_len > WHOLE_READ_BYTES)
		h.read_whole_again = false;
	/* A device that knows nothing of copies that take long has to have patience. */
	if (w->copies)
		h.timeout_min_ns = PATIENCE_NS;
	/* What nothing but a fault of the network should bring about stays away from networks without. */
	if (w->cfg.lossless) {
		h.nak_again = 0;
		h.nak_each = false;
		h.dup_ns = h.answer_ns;
	}
	return h;
}

/* ---- Which ones there are ---- */

bool
foreign_choose(struct sim_world *w, struct sim_conn *c)
{
	struct rng r = rng_stream(w->cfg.seed, STREAM_FOREIGN + c->id);
	unsigned int side;

	if (!(w->cfg.faults & SIM_F_FOREIGN) || c->type != UROCE_QPT_RC || c->loopback ||
	    (c->id % 3 != w->cfg.seed % 3 && !rng_one_in(&r, FOREIGN_ONE_IN)))
		return false;
	side = c->xrc ? 0 : (unsigned int)rng_below(&r, 2);
	c->qp[side].foreign = calloc(1, sizeof(struct foreign));
	if (c->qp[side].foreign == NULL)
		abort();
	c->foreign = true;
	*c->qp[side].foreign = (struct foreign){ .q = &c->qp[side], .rng = r, .run_at = UINT64_MAX };
	c->qp[side].foreign->h = habits_draw(w, &c->qp[side].foreign->rng);
	sim_trace(w, "QP %u is foreign, with the habits of %s", 2 * c->id + side, c->qp[side].foreign->h.name);
	return true;
}

void
foreign_free(struct sim_qp *q)
{
	free(q->foreign);
	q->foreign = NULL;
}

/* ---- States ---- */

uint32_t
foreign_mtu_shift(const struct foreign *f)
{
	return 7 + f->q->attr.path_mtu;
}

void
foreign_run_at(struct sim_world *w, struct foreign *f, uint64_t at)
{
	at = at < w->now_ns ? w->now_ns : at;
	if (at >= f->run_at)
		return;
	f->run_at = at;
	world_event_add(w, at, EV_FOREIGN, f->q->id, NULL);
}

void
foreign_clock_jumps(struct sim_qp *q, uint64_t ns)
{
	if (q->foreign != NULL && q->foreign->run_at != UINT64_MAX)
		q->foreign->run_at += ns;
}

void
foreign_kick(struct sim_world *w, struct sim_qp *q)
{
	if (q->foreign != NULL)
		foreign_run_at(w, q->foreign, w->now_ns + TURN_GAP_NS);
}

static bool
alive(const struct foreign *f)
{
	enum uroce_qp_state s = f->q->qp == NULL || f->q->abandoned ? UROCE_QPS_RESET : qp_state(f->q->qp);

	return s == UROCE_QPS_RTR || s == UROCE_QPS_RTS;
}

static void
begin(struct foreign *f)
{
	f->round = f->q->round + 1;
	wire_tmpl_build(&f->t, &f->q->path.addr);
	foreign_req_begin(f);
	foreign_resp_begin(f);
}

/* All that was posted comes back, and what is posted later. */
static void
flush(struct sim_world *w, struct foreign *f)
{
	struct sim_qp *q = f->q;

	while (!w->failed && f->req.tail < q->nb_posted)
		foreign_sent(w, f, f->req.tail++, UROCE_WC_WR_FLUSH_ERR);
	while (!w->failed && q->rq->nb_done < q->rq->nb_posted)
		foreign_received(w, f, UROCE_WC_WR_FLUSH_ERR, NULL, 0);
}

void
foreign_error(struct sim_world *w, struct foreign *f)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_ERR };

	sim_trace(w, "QP %u fails", f->q->id);
	if (qp_modify(f->q->tp, f->q->qp, &a, UROCE_QP_STATE, NULL, w->now_ns) != 0)
		sim_fail(w, "QP %u: a modify to ERR is refused", f->q->id);
	foreign_run_at(w, f, w->now_ns);
}

void
foreign_turn(struct sim_world *w, uint32_t id)
{
	struct sim_qp *q = &w->conns[id / 2].qp[id & 1];
	struct foreign *f = q->foreign;

	if (f == NULL || w->now_ns < f->run_at)
		return;
	f->run_at = UINT64_MAX;
	if (q->qp == NULL || q->abandoned || q->conn->done)
		return;
	if ((alive(f) || qp_state(q->qp) == UROCE_QPS_ERR) && f->round != q->round + 1)
		begin(f);
	if (qp_state(q->qp) == UROCE_QPS_ERR)
		flush(w, f);
	if (!alive(f))
		return;
	foreign_resp_turn(w, f);
	if (alive(f) && qp_state(q->qp) == UROCE_QPS_RTS)
		foreign_req_turn(w, f);
}

/* ---- Completions ---- */

static uint8_t
wc_opcode(uint8_t opcode)
{
	switch (opcode) {
	case UROCE_WR_RDMA_WRITE:
	case UROCE_WR_RDMA_WRITE_WITH_IMM:
		return UROCE_WC_RDMA_WRITE;
	case UROCE_WR_RDMA_READ:
		return UROCE_WC_RDMA_READ;
	case UROCE_WR_ATOMIC_CMP_AND_SWP:
		return UROCE_WC_COMP_SWAP;
	case UROCE_WR_ATOMIC_FETCH_AND_ADD:
		return UROCE_WC_FETCH_ADD;
	case UROCE_WR_ATOMIC_WRITE:
		return UROCE_WC_ATOMIC_WRITE;
	case UROCE_WR_FLUSH:
		return UROCE_WC_FLUSH;
	default:
		return UROCE_WC_SEND;
	}
}

void
foreign_sent(struct sim_world *w, struct foreign *f, uint32_t i, uint8_t status)
{
	struct sim_qp *q = f->q;
	const struct sim_op *op = &q->ops[i];
	struct ring_cqe e = { .wr_id = op->wr_id, .qpn = q->qpn, .status = status, .opcode = wc_opcode(op->opcode),
			      .byte_len = op->len };
	union ring_cqe_ctl ctl = { .wqe_counter = (uint16_t)(q->sq_base + i) };

	if (status == UROCE_WC_SUCCESS && !(op->flags & UROCE_SEND_SIGNALED) && !q->params.sq_sig_all)
		return;
	model_cqe(w, q->send_cq, &e, ctl);
	w->stats.completions++;
}

void
foreign_received(struct sim_world *w, struct foreign *f, uint8_t status, const struct wire_pkt *p, uint32_t len)
{
	struct sim_qp *q = f->q;
	const struct sim_recv *r = &q->rq->recvs[q->rq->nb_done];
	struct ring_cqe e = { .wr_id = r->wr_id, .qpn = q->qpn, .status = status, .opcode = UROCE_WC_RECV, .byte_len = len };
	union ring_cqe_ctl ctl = { .wqe_counter = (uint16_t)(q->rq->base + q->rq->nb_done), .is_recv = 1 };

	if (p != NULL && status == UROCE_WC_SUCCESS) {
		ctl.solicited = p->bth.solicited;
		if (p->op->flags & WIRE_F_IMM) {
			ctl.wc_flags |= UROCE_WC_WITH_IMM;
			memcpy(&e.imm, p->bthp + p->op->off_imm, sizeof(e.imm));
		}
		if (p->op->flags & WIRE_F_IETH) {
			ctl.wc_flags |= UROCE_WC_WITH_INV;
			e.imm = wire_get32(p->bthp + p->op->off_ieth);
		}
		if (p->op->flags & WIRE_F_WRITE)
			e.opcode = UROCE_WC_RECV_RDMA_WITH_IMM;
	}
	model_cqe(w, q->recv_cq, &e, ctl);
	w->stats.completions++;
}

/* ---- Packets ---- */

void
foreign_send(struct sim_world *w, struct foreign *f, struct foreign_packet *p)
{
	uint8_t op = p->op | sent_service(f->q);
	uint32_t hdr = wire_opcodes[op].hdr_bytes, xrceth = hdr - wire_opcodes[p->op].hdr_bytes, pad = -p->payload_bytes & 3;
	struct wire_bth b = { .opcode = op, .dqpn = f->q->attr.dest_qp_num, .psn = p->psn & WIRE_PSN_MASK,
			      .pkey = f->q->pkey, .pad = (uint8_t)pad, .migreq = f->h.migreq, .ackreq = p->ackreq,
			      .solicited = p->solicited };
	struct rte_mbuf *m = rte_pktmbuf_alloc(sim_pool);
	uint8_t *frame, *bth;
	uint16_t l4;

	if (m == NULL) {
		if (w->cfg.lossless)
			sim_fail(w, "the network has no mbufs left");
		return;
	}
	frame = rte_pktmbuf_mtod(m, uint8_t *);
	bth = frame + f->t.bth_off;
	wire_put_bth(bth, &b);
	if (xrceth != 0)
		wire_put32(bth + wire_opcodes[op].off_xrceth, p->srqn);
	memcpy(bth + WIRE_BTH_BYTES + xrceth, p->hdr, hdr - xrceth - WIRE_BTH_BYTES);
	if (p->payload_bytes != 0)
		memcpy(bth + hdr, p->payload, p->payload_bytes);
	memset(bth + hdr + p->payload_bytes, 0, pad);
	l4 = (uint16_t)(hdr + p->payload_bytes + pad + WIRE_ICRC_BYTES);
	wire_tmpl_write(&f->t, frame, l4, 0);
	wire_tmpl_seal(&f->t, frame, l4);
	m->data_len = (uint16_t)(f->t.bth_off + l4);
	m->pkt_len = m->data_len;
	link_send(w, f->q->ep->id, f->q->port, -1, m);
}

/* What uroce must never send to one that hasn't heard of it. */
static void
check_standard(struct sim_world *w, const struct foreign *f, const struct wire_pkt *p)
{
	if (p->op->flags & WIRE_F_SACK)
		sim_fail(w, "QP %u: sends a SACK to a foreign peer", f->q->peer->id);
	else if (WIRE_OPCODE_SERVICE(p->bth.opcode) != sent_service(f->q))
		sim_fail(w, "QP %u: sends %s to a foreign peer", f->q->peer->id, p->op->name);
	if (p->bth.mark != 0)
		sim_fail(w, "QP %u: marks a packet to a foreign peer", f->q->peer->id);
}

bool
foreign_rx(struct sim_world *w, struct sim_ep *ep, struct rte_mbuf *m)
{
	struct wire_pkt p = { 0 };
	struct sim_qp *q = NULL;
	uint32_t i;

	if (!(w->cfg.faults & SIM_F_FOREIGN))
		return false;
	if (wire_parse(rte_pktmbuf_mtod(m, uint8_t *), rte_pktmbuf_data_len(m), false, &p) != WIRE_OK)
		return false;
	for (i = 0; i < 2 * w->cfg.nb_conns && q == NULL; i++) {
		struct sim_qp *at = &w->conns[i / 2].qp[i & 1];

		if (at->foreign != NULL && at->ep == ep && at->qpn == p.bth.dqpn)
			q = at;
	}
	if (q == NULL || q->qp == NULL)
		return false;
	/* Damaged ones may be anything. */
	if (m->port == q->port && alive(q->foreign) && (!(w->cfg.faults & SIM_F_CORRUPT) || wire_icrc_ok(&p)) && pkeys_meet(p.bth.pkey, q->pkey) &&
	    p.bth.tver == 0 && p.bth.opcode != WIRE_OPCODE_CNP) {
		if (q->foreign->round != q->round + 1)
			begin(q->foreign);
		check_standard(w, q->foreign, &p);
		if (p.op->flags & WIRE_F_RESPONSE)
			foreign_req_rx(w, q->foreign, &p);
		else if (WIRE_OPCODE_SERVICE(p.bth.opcode) == WIRE_RC)
			foreign_resp_rx(w, q->foreign, &p);
	}
	rte_pktmbuf_free(m);
	return true;
}

void
foreign_scatter(const struct sim_piece *pieces, uint32_t nb, uint32_t off, const uint8_t *data, uint32_t len)
{
	uint32_t i, n;

	for (i = 0; i < nb && len != 0; i++) {
		if (off >= pieces[i].len) {
			off -= pieces[i].len;
			continue;
		}
		n = pieces[i].len - off < len ? pieces[i].len - off : len;
		memcpy(pieces[i].p + off, data, n);
		data += n;
		len -= n;
		off = 0;
	}
}
