/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_mbuf.h>

#include "replay_player.h"

enum {
	AREA = 4 << 20,
	RD_ATOMIC = UROCE_MAX_RD_ATOMIC,
};

/* ---- What the capture says about the endpoint ---- */
struct region *
find_region(struct player *pl, uint32_t rkey)
{
	for (uint32_t i = 0; i < pl->nb_regions; i++)
		if (pl->regions[i].rkey == rkey)
			return &pl->regions[i];
	assert_true(pl->nb_regions < REGIONS);
	pl->regions[pl->nb_regions] = (struct region){ .rkey = rkey, .lo = UINT64_MAX };
	return &pl->regions[pl->nb_regions++];
}

static void
note_region(struct player *pl, const struct record *r)
{
	const uint8_t *h;
	struct region *g;
	uint32_t len;

	if ((r->p.op->flags & (WIRE_F_RETH | WIRE_F_ATOMICETH)) == 0)
		return;
	h = r->p.bthp + (r->p.op->flags & WIRE_F_RETH ? r->p.op->off_reth : r->p.op->off_atomiceth);
	len = r->p.op->flags & WIRE_F_RETH ? wire_get32(h + 12) : ATOMIC_BYTES;
	if (len == 0)
		return;
	g = find_region(pl, wire_get32(h + 8));
	g->lo = RTE_MIN(g->lo, wire_get64(h));
	g->hi = RTE_MAX(g->hi, wire_get64(h) + len);
}

static uint32_t
message_bytes(const struct player *pl, uint32_t first)
{
	uint32_t bytes = 0;

	for (uint32_t i = first; i < pl->c->nb_records; i++) {
		const struct record *r = record(pl, i);

		if (!flow_has(pl->f, r) || r->side != record(pl, first)->side || !(r->p.op->flags & WIRE_F_REQUEST))
			continue;
		bytes += r->p.payload_bytes;
		if (r->p.op->flags & WIRE_F_END)
			break;
	}
	return bytes;
}

static void
scan(struct player *pl, uint32_t *rq_psn, uint32_t *sq_psn)
{
	bool seen[2] = { false, false };
	uint32_t largest = 256, full = 0;

	for (uint32_t i = 0; i < pl->c->nb_records; i++) {
		const struct record *r = record(pl, i);

		if (!flow_has(pl->f, r))
			continue;
		largest = RTE_MAX(largest, r->p.payload_bytes);
		if ((r->p.op->flags & (WIRE_F_START | WIRE_F_END)) == WIRE_F_START)
			full = r->p.payload_bytes;
		if (!(r->p.op->flags & WIRE_F_REQUEST))
			continue;
		if (!seen[r->side])
			*(ours(pl, r) ? sq_psn : rq_psn) = r->p.bth.psn;
		seen[r->side] = true;
		if (ours(pl, r))
			continue;
		note_region(pl, r);
		if (r->p.op->flags & WIRE_F_START && r->p.op->flags & (WIRE_F_SEND | WIRE_F_WRITE))
			pl->in_slot = RTE_MAX(pl->in_slot, message_bytes(pl, i));
	}
	pl->mtu_shift = 8;
	while ((1u << pl->mtu_shift) < (full != 0 ? full : largest))
		pl->mtu_shift++;
	pl->next_psn = *sq_psn;
	pl->sent_psn = pl->acked_psn = wire_psn_add(*sq_psn, WIRE_PSN_MASK);
	pl->in_slot += WIRE_GRH_BYTES;
}

/* ---- The endpoint ---- */
static void
modify(struct player *pl, struct uroce_qp_attr *a, enum uroce_qp_state state, uint32_t mask, const struct tp_path *path)
{
	const char *why = "";

	a->qp_state = state;
	if (qp_modify_check(pl->e->type, qp_state(pl->e->qp), a, mask | UROCE_QP_STATE, UROCE_MTU_4096, &why) != 0)
		fail_msg("%s: %s", pl->c->name, why);
	assert_int_equal(qp_modify(pl->h->tp, pl->e->qp, a, mask | UROCE_QP_STATE, path, pl->pair->now), 0);
}

/* The addresses of the recorded endpoint. */
static void
make_path(const struct player *pl, struct tp_path *path)
{
	memset(path, 0, sizeof(*path));
	path->pkey = WIRE_PKEY_DEFAULT;
	path->addr.ttl = 64;
	for (uint32_t i = 0; i < pl->c->nb_records; i++) {
		const struct record *r = record(pl, i);
		uint32_t n = r->p.ip_version == 4 ? 4 : 16, off = r->p.ip_version == 4 ? 12 : 8;

		if (!flow_has(pl->f, r))
			continue;
		path->addr.ip_version = r->p.ip_version;
		memcpy(ours(pl, r) ? path->addr.sip : path->addr.dip, r->p.l3 + off, n);
		memcpy(ours(pl, r) ? path->addr.dip : path->addr.sip, r->p.l3 + off + n, n);
		return;
	}
}

static void
connect_qp(struct player *pl, uint32_t rq_psn, uint32_t sq_psn)
{
	struct uroce_qp_attr a = { .port_num = 1, .qp_access_flags = ACCESS_ALL };
	bool rc = pl->f->service == WIRE_RC;
	struct tp_path path;

	make_path(pl, &path);
	modify(pl, &a, UROCE_QPS_INIT, UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS, NULL);
	a.ah = (struct uroce_ah_attr){ .is_global = 1, .port_num = 1, .hop_limit = 64, .dgid = { [15] = 1 } };
	a.path_mtu = pl->mtu_shift - 7;
	a.dest_qp_num = pl->f->qpn[!pl->side];
	a.rq_psn = rq_psn;
	a.sq_psn = sq_psn;
	a.max_rd_atomic = a.max_dest_rd_atomic = RD_ATOMIC;
	a.min_rnr_timer = 1;
	a.timeout = PAIR_TIMEOUT;
	a.retry_cnt = a.rnr_retry = 7;
	modify(pl, &a, UROCE_QPS_RTR, UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
	       (rc ? UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER : 0), &path);
	modify(pl, &a, UROCE_QPS_RTS, UROCE_QP_SQ_PSN | (rc ? UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY |
	       UROCE_QP_MAX_QP_RD_ATOMIC : 0), NULL);
}

static void
ready_ud(struct player *pl, uint32_t sq_psn)
{
	struct uroce_qp_attr a = { .port_num = 1, .sq_psn = sq_psn };
	struct tp_path path;

	for (uint32_t i = 0; i < pl->c->nb_records; i++)
		if (flow_has(pl->f, record(pl, i)))
			a.qkey = record_qkey(record(pl, i));
	modify(pl, &a, UROCE_QPS_INIT, UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_QKEY, NULL);
	modify(pl, &a, UROCE_QPS_RTR, 0, NULL);
	modify(pl, &a, UROCE_QPS_RTS, UROCE_QP_SQ_PSN, NULL);
	make_path(pl, &path);
	assert_int_equal(ah_create(pl->h->sh.ahs, PAIR_PD, &path, &pl->ah), 0);
}

static struct mr *
region_mr(struct player *pl, struct region *g)
{
	uint64_t len = g->hi - g->lo;
	struct mem_seg seg = { .va = g->lo, .length = len, .host = g->mem };
	struct mr_params mp = { .pd = PAIR_PD, .access = ACCESS_ALL, .addr = g->lo, .length = len, .iova = g->lo,
				.segs = &seg, .nb_segs = 1 };
	struct mr *mr;

	assert_int_equal(mr_create(pl->h->sh.mrs, &mp, &mr), 0);
	return mr;
}

void
player_up(struct player *pl)
{
	const enum uroce_qp_type types[] = { [WIRE_RC >> 5] = UROCE_QPT_RC, [WIRE_UC >> 5] = UROCE_QPT_UC,
					     [WIRE_UD >> 5] = UROCE_QPT_UD };
	uint32_t rq_psn = 0, sq_psn = 0;

	scan(pl, &rq_psn, &sq_psn);
	pl->pair = pair_new();
	pl->h = &pl->pair->h[0];
	pl->e = end_new(pl->h, &(struct end_opts){ .type = types[pl->f->service >> 5], .sq_depth = DEPTH,
						   .rq_depth = DEPTH, .cq_depth = 2 * DEPTH });
	pl->area = calloc(1, AREA);
	pl->area_mr = host_mr(pl->h, pl->area, AREA, ACCESS_ALL);
	pl->in = calloc(DEPTH, pl->in_slot);
	pl->in_mr = host_mr(pl->h, pl->in, (uint64_t)DEPTH * pl->in_slot, ACCESS_ALL);
	pl->sent = calloc(SENT_MAX, sizeof(*pl->sent));
	for (uint32_t i = 0; i < pl->nb_regions; i++) {
		pl->regions[i].mem = calloc(1, pl->regions[i].hi - pl->regions[i].lo);
		pl->regions[i].mr = region_mr(pl, &pl->regions[i]);
	}
	if (pl->f->service == WIRE_UD)
		ready_ud(pl, sq_psn);
	else
		connect_qp(pl, rq_psn, sq_psn);
	for (uint32_t i = 0; i < DEPTH - 1; i++)
		end_recv(pl->e, i, SGE(pl->in + (size_t)i * pl->in_slot, pl->in_slot, pl->in_mr), 1);
}

void
player_down(struct player *pl)
{
	if (pl->ah != 0)
		assert_int_equal(ah_destroy(pl->h->sh.ahs, pl->ah), 0);
	end_free(pl->e);
	for (uint32_t i = 0; i < pl->nb_regions; i++) {
		mr_destroy(pl->h->sh.mrs, pl->regions[i].mr);
		free(pl->regions[i].mem);
	}
	mr_destroy(pl->h->sh.mrs, pl->area_mr);
	mr_destroy(pl->h->sh.mrs, pl->in_mr);
	free(pl->area);
	free(pl->in);
	free(pl->sent);
	pair_free(pl->pair);
}

/* ---- Packets in and out ---- */
void
turn(struct player *pl)
{
	struct tp_txvec *tx = transport_tx(pl->h->tp, 0);
	uint32_t work;

	do {
		pl->pair->now += PAIR_US;
		work = host_turn(pl->h);
		for (uint16_t i = 0; i < tx->n; i++) {
			struct sent *s = &pl->sent[pl->nb_sent++];

			assert_true(pl->nb_sent < SENT_MAX);
			memcpy(s->frame, rte_pktmbuf_mtod(tx->pkts[i], uint8_t *), tx->pkts[i]->data_len);
			assert_int_equal(wire_parse(s->frame, tx->pkts[i]->data_len, true, &s->p), WIRE_OK);
			if (s->p.op->flags & WIRE_F_REQUEST)
				pl->sent_psn = s->p.bth.psn;
			rte_pktmbuf_free(tx->pkts[i]);
		}
		work += tx->n;
		tx->n = 0;
	} while (work > 0);
}

void
inject(struct player *pl, const struct record *r, const uint32_t *psn_msn)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pair_pool());
	uint32_t bth_off = (uint32_t)(r->p.bthp - r->p.l2), l3_off = (uint32_t)(r->p.l3 - r->p.l2), body;
	uint8_t *frame, *bth, *key = NULL;

	assert_non_null(m);
	frame = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)r->frame_bytes);
	memcpy(frame, r->p.l2, r->frame_bytes);
	bth = frame + bth_off;
	wire_put24(bth + 5, qp_num(pl->e->qp));
	if (r->p.op->flags & WIRE_F_RETH)
		key = bth + r->p.op->off_reth + 8;
	else if (r->p.op->flags & WIRE_F_ATOMICETH)
		key = bth + r->p.op->off_atomiceth + 8;
	for (uint32_t i = 0; key != NULL && i < pl->nb_regions; i++)
		if (pl->regions[i].rkey == wire_get32(key)) {
			wire_put32(key, pl->regions[i].mr->key);
			break;
		}
	if (psn_msn != NULL) {
		wire_put24(bth + 9, psn_msn[0]);
		wire_put24(bth + r->p.op->off_aeth + 1, psn_msn[1]);
	}
	body = r->p.op->hdr_bytes + r->p.payload_bytes + r->p.bth.pad;
	wire_put_icrc(bth + body, wire_icrc_packet(frame + l3_off, r->p.ip_version, bth_off - l3_off + body));
	transport_rx(pl->h->tp, 0, &m, 1, false, pl->pair->now);
	turn(pl);
}

/* ---- The recorded endpoint's program ---- */
static enum uroce_wr_op
wr_op(const struct wire_opcode *last, unsigned int op)
{
	if (last->flags & WIRE_F_READ)
		return UROCE_WR_RDMA_READ;
	if (last->flags & WIRE_F_ATOMIC)
		return op == WIRE_OP_CMP_SWAP ? UROCE_WR_ATOMIC_CMP_AND_SWP : UROCE_WR_ATOMIC_FETCH_AND_ADD;
	if (last->flags & WIRE_F_WRITE)
		return last->flags & WIRE_F_IMM ? UROCE_WR_RDMA_WRITE_WITH_IMM : UROCE_WR_RDMA_WRITE;
	return last->flags & WIRE_F_IMM ? UROCE_WR_SEND_WITH_IMM : UROCE_WR_SEND;
}

static void
wr_headers(struct player *pl, struct wr *wr, const struct wire_pkt *first, const struct wire_pkt *last)
{
	const uint8_t *h = first->bthp;

	wr->op = wr_op(last->op, WIRE_OPCODE_OP(last->bth.opcode));
	wr->flags = last->bth.solicited ? UROCE_SEND_SOLICITED : 0;
	if (last->op->flags & WIRE_F_IMM)
		memcpy(&wr->imm, last->bthp + last->op->off_imm, sizeof(wr->imm));
	if (first->op->flags & WIRE_F_RETH) {
		wr->remote_addr = wire_get64(h + first->op->off_reth);
		wr->rkey = wire_get32(h + first->op->off_reth + 8);
	} else if (first->op->flags & WIRE_F_ATOMICETH) {
		uint64_t swap_add = wire_get64(h + first->op->off_atomiceth + 12);
		bool swap = wr->op == UROCE_WR_ATOMIC_CMP_AND_SWP;

		wr->remote_addr = wire_get64(h + first->op->off_atomiceth);
		wr->rkey = wire_get32(h + first->op->off_atomiceth + 8);
		wr->compare_add = swap ? wire_get64(h + first->op->off_atomiceth + 20) : swap_add;
		wr->swap = swap ? swap_add : 0;
	} else if (pl->f->service == WIRE_UD) {
		wr->rkey = wire_get32(h + first->op->off_deth);
		wr->remote_addr = (uint64_t)first->bth.dqpn << 32 | pl->ah;
	}
}

void
post(struct player *pl, uint32_t first)
{
	const struct wire_pkt *p = &record(pl, first)->p, *last = p;
	uint32_t len = 0, psn = p->bth.psn;
	struct wr wr = { .id = pl->posted++ };
	uint8_t *buf = pl->area + pl->area_used;

	for (uint32_t i = first; i < pl->c->nb_records; i++) {
		const struct record *r = record(pl, i);

		if (!flow_has(pl->f, r) || !ours(pl, r) || r->p.bth.psn != psn || !(r->p.op->flags & WIRE_F_REQUEST))
			continue;
		last = &r->p;
		memcpy(buf + len, last->payload, last->payload_bytes);
		len += last->payload_bytes;
		psn = wire_psn_add(psn, 1);
		if (last->op->flags & WIRE_F_END)
			break;
	}
	if (p->op->flags & WIRE_F_READ)
		len = wire_get32(p->bthp + p->op->off_reth + 12);
	else if (p->op->flags & WIRE_F_ATOMIC)
		len = ATOMIC_BYTES;
	wr_headers(pl, &wr, p, last);
	wr.sge = SGE(buf, len, pl->area_mr);
	wr.nb_sge = len > 0;
	pl->area_used += RTE_ALIGN(len, 64);
	assert_true(pl->area_used < AREA && wr.id < DEPTH);
	end_send(pl->e, &wr);
	pl->next_psn = p->op->flags & WIRE_F_READ ? wire_psn_add(p->bth.psn, wire_packets(len, pl->mtu_shift)) : psn;
	pl->first_psn[wr.id] = p->bth.psn;
	pl->buf[wr.id] = buf;
	pl->end_psn[wr.id] = wire_psn_add(pl->next_psn, WIRE_PSN_MASK);
}
