/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport, its QPs, and the wire between them. */
#include <stdlib.h>

#include <rte_mbuf.h>

#include "tp_world.h"

enum {
	MBUFS = 1023,
	TABLE = 64,
	SETTLE_TURNS = 200,
	ADDRESS_AROUND = 64,
	MIDDLE = 1 << 10,
	ACCESS = ACCESS_ALL | UROCE_ACCESS_MW_BIND | UROCE_ACCESS_FLUSH_GLOBAL | UROCE_ACCESS_FLUSH_PERSISTENT,
};
#define START_NS UINT64_C(1000000)

static struct rte_mempool *pool;

/** Bytes of a packet that arrives, outside of the pool. */
struct outside {
	struct rte_mbuf_ext_shared_info info;
	uint8_t *bytes;
};

void
world_prepare(void)
{
	pool = fuzz_pool(MBUFS);
}

/* ---- Beginning and end ---- */
static void
on_event(void *arg, const struct tp_event *ev)
{
	FUZZ_CHECK(ev->type <= UROCE_EVENT_GID_CHANGE);
}

static bool
on_completion(void *arg, int channel, uint64_t cookie)
{
	return (cookie & 64) == 0;
}

static void
on_mad(void *arg, const struct tp_mad *mad)
{
	volatile uint8_t last = mad->data[TP_MAD_BYTES - 1];

	(void)last;
}

static void
on_failed(void *arg, const struct qp *qp)
{
	char text[DIAG_LINE_BYTES];
	struct qp_failure f;

	qp_failure(qp, &f);
	qp_reason_text(&f.reason, text);
}

static void
make_mr(struct world *w, unsigned int i, struct mr *replaces)
{
	uint8_t *middle = w->area + MIDDLE;
	struct mem_seg all = { ADDR(w->area), WORLD_AREA, w->area };
	struct mem_seg pieces[2] = { { ADDR(middle), 100, middle },
				     { ADDR(middle) + 100, WORLD_AREA - 2 * MIDDLE - 100, middle + 100 } };
	struct mr_params p = { .pd = PAIR_PD, .access = i == 2 ? UROCE_ACCESS_REMOTE_READ : ACCESS, .addr = ADDR(w->area),
			       .length = WORLD_AREA, .iova = ADDR(w->area), .segs = &all, .nb_segs = 1, .replaces = replaces };
	int rc;

	if (i == 1) {
		p.addr = p.iova = ADDR(middle);
		p.length = WORLD_AREA - 2 * MIDDLE;
		p.segs = pieces;
		p.nb_segs = 2;
	}
	rc = mr_create(w->sh.mrs, &p, &w->mrs[i]);
	/* One to which a window is bound stays. */
	FUZZ_CHECK(rc == 0 || (rc == EBUSY && replaces != NULL && w->mrs[i] == replaces));
}

static void
make_objects(struct world *w)
{
	w->area = malloc(WORLD_AREA);
	FUZZ_CHECK(w->area != NULL);
	memset(w->area, 0x5a, WORLD_AREA);
	for (unsigned int i = 0; i < WORLD_MRS; i++)
		make_mr(w, i, NULL);
	FUZZ_CHECK(mw_create(w->sh.mrs, PAIR_PD, MW_TYPE_1, &w->windows[0]) == 0);
	FUZZ_CHECK(mw_create(w->sh.mrs, PAIR_PD, MW_TYPE_2, &w->windows[1]) == 0);
	w->srq = srq_new(&w->pair.h[0], WORLD_DEPTH, WORLD_SGES);
	for (unsigned int i = 0; i < WORLD_XSRQS; i++)
		w->xsrqs[i] = xsrq_new(&w->pair.h[0], PAIR_PD, WORLD_XRCD, WORLD_SRQN + i, WORLD_DEPTH);
	w->ahs[0] = host_ah(&w->pair.h[0], PAIR_PD, false, false);
	w->ahs[1] = host_ah(&w->pair.h[0], PAIR_PD, true, false);
	w->ahs[2] = host_ah(&w->pair.h[0], PAIR_PD, false, true);
	w->ahs[3] = host_group_ah(&w->pair.h[0], PAIR_PD, false);
}

void
world_begin(struct world *w, struct fuzz_in *in)
{
	struct transport_config c = { .nb_ports = 1, .event = on_event, .notify = on_completion, .mad = on_mad,
				      .failed = on_failed };
	uint8_t pools = fuzz_u8(in), features = fuzz_u8(in);
	uint32_t items = pools % 4;

	memset(w, 0, sizeof(*w));
	c.pools = (struct tp_pool_sizes){ 6, 8, 8, 4, 4, 32 };
	if (items > 0)
		c.pools = (struct tp_pool_sizes){ items, items, items, items, items, 2 * items };
	c.ports[0].features.selective_repeat = (features & 1) == 0;
	c.ports[0].features.tail_loss_probe = (features & 2) == 0;
	c.ports[0].features.credits = (features & 4) == 0;
	c.ports[0].features.ack_coalescing = (features & 8) == 0;
	c.ports[0].cc = (features >> 4) % TP_CC_ALGORITHMS;
	c.ports[0].mbps = (features & 128) != 0 ? 1000 : 0;
	c.no_watch = (pools & 128) != 0;
	c.by_reference = (pools & 64) != 0;
	w->sh = (struct shared){ .pool = pool, .mrs = mr_table_create(TABLE, NULL, &(struct secret){ .key[0] = 1 }), .qps = qp_table_create(TABLE, NULL, &(struct secret){ .key[0] = 2 }),
				 .ahs = ah_table_create(TABLE, NULL), .mcasts = mcast_table_create(NULL) };
	c.sh = w->sh;
	w->tp = transport_create(&c);
	FUZZ_CHECK(w->tp != NULL);
	w->pair.now = START_NS;
	for (unsigned int i = 0; i < 2; i++)
		w->pair.h[i] = (struct host){ .pair = &w->pair, .id = i, .tp = w->tp, .sh = w->sh };
	make_objects(w);
}

void
world_end(struct world *w)
{
	for (unsigned int i = 0; i < WORLD_PAIRS; i++)
		world_unpair(w, i);
	while (w->nb_wire > 0)
		world_lose(w, 0);
	srq_free(&w->pair.h[0], w->srq);
	for (unsigned int i = 0; i < WORLD_XSRQS; i++)
		srq_free(&w->pair.h[0], w->xsrqs[i]);
	mw_destroy_bulk(w->sh.mrs, w->windows, WORLD_WINDOWS);
	for (unsigned int i = 0; i < WORLD_MRS; i++) {
		FUZZ_CHECK(mr_retire(w->mrs[i]));
		mr_destroy(w->sh.mrs, w->mrs[i]);
	}
	for (unsigned int i = 0; i < sizeof(w->ahs) / sizeof(w->ahs[0]); i++)
		FUZZ_CHECK(ah_destroy(w->sh.ahs, w->ahs[i]) == 0);
	transport_destroy(w->tp);
	FUZZ_CHECK(qp_table_count(w->sh.qps) == 0 && mr_table_count(w->sh.mrs) == 0 && mcast_table_attached(w->sh.mcasts) == 0);
	qp_table_destroy(w->sh.qps);
	ah_table_destroy(w->sh.ahs);
	mcast_table_destroy(w->sh.mcasts);
	mr_table_destroy(w->sh.mrs);
	free(w->area);
	FUZZ_CHECK(rte_mempool_in_use_count(pool) == 0 && !fuzz_big_in_use());
}

/* ---- Pairs ---- */
static const struct {
	enum uroce_qp_type type[2];
	bool srq;
} kinds[] = {
	{ { UROCE_QPT_RC, UROCE_QPT_RC }, false },
	{ { UROCE_QPT_RC, UROCE_QPT_RC }, true },
	{ { UROCE_QPT_UC, UROCE_QPT_UC }, false },
	{ { UROCE_QPT_UD, UROCE_QPT_UD }, false },
	{ { UROCE_QPT_XRC_SEND, UROCE_QPT_XRC_RECV }, false },
	{ { UROCE_QPT_UD, UROCE_QPT_UC }, true },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void
describe(struct world *w, unsigned int i, unsigned int peer, const struct conn_opts *o, bool v6)
{
	struct uroce_qp_attr *a = &w->attr[i];

	*a = (struct uroce_qp_attr){
		.path_mtu = o->mtu, .port_num = 1, .qp_access_flags = o->access, .qkey = WORLD_QKEY,
		.max_rd_atomic = o->rd_atomic, .max_dest_rd_atomic = o->dest_rd_atomic, .timeout = o->timeout,
		.min_rnr_timer = o->min_rnr_timer, .retry_cnt = o->retry_cnt, .rnr_retry = o->rnr_retry,
		.dest_qp_num = qp_num(w->ends[peer]->qp), .rq_psn = o->psn, .sq_psn = o->psn,
		.ah = { .is_global = 1, .port_num = 1, .hop_limit = 64, .dgid = { [15] = 1 } },
	};
	w->path[i] = (struct tp_path){ .addr = pair_address(w->ends[i]->host->id, v6), .pkey = WIRE_PKEY_DEFAULT };
	if (w->ends[i]->host == w->ends[peer]->host) {
		memcpy(w->path[i].addr.dip, w->path[i].addr.sip, sizeof(w->path[i].addr.dip));
		w->path[i].loopback = true;
	}
}

void
world_pair(struct world *w, unsigned int i, struct fuzz_in *in)
{
	unsigned int kind = fuzz_below(in, KINDS), where = fuzz_below(in, 8);
	struct conn_opts o = { .v6 = (where & 1) != 0, .mtu = 1 + fuzz_below(in, 5) };
	struct end_opts e = { .sq_depth = WORLD_DEPTH, .rq_depth = WORLD_DEPTH, .cq_depth = 4 << fuzz_below(in, 3),
			      .max_sge = WORLD_SGES, .max_inline = WORLD_INLINE, .srq = kinds[kind].srq ? w->srq : NULL,
			      .channel = true, .xrcd = WORLD_XRCD, .sig_all = (where & 4) != 0 };
	bool loopback = (where & 2) != 0 && fuzz_below(in, 2);

	if (w->ends[2 * i] != NULL)
		return;
	o.psn = (fuzz_u16(in) - 0x4000) & WIRE_PSN_MASK;
	o.access = ACCESS & ~UROCE_ACCESS_MW_BIND;
	o.timeout = fuzz_below(in, 20);
	o.retry_cnt = fuzz_below(in, 8);
	o.rnr_retry = fuzz_below(in, 8);
	o.min_rnr_timer = fuzz_below(in, 32);
	o.rd_atomic = fuzz_below(in, 9);
	o.dest_rd_atomic = fuzz_below(in, 9);
	for (unsigned int k = 0; k < 2; k++) {
		e.type = kinds[kind].type[k];
		w->ends[2 * i + k] = end_new(&w->pair.h[k != 0 && !loopback], &e);
	}
	describe(w, 2 * i, 2 * i + 1, &o, o.v6);
	describe(w, 2 * i + 1, 2 * i, &o, o.v6);
	for (unsigned int k = 0; k < 2; k++) {
		world_state(w, 2 * i + k, UROCE_QPS_INIT);
		world_state(w, 2 * i + k, UROCE_QPS_RTR);
		world_state(w, 2 * i + k, UROCE_QPS_RTS);
		FUZZ_CHECK(qp_state(w->ends[2 * i + k]->qp) == UROCE_QPS_RTS);
		if (e.type == UROCE_QPT_UD)
			mcast_attach(w->sh.mcasts, 0, pair_group(false), qp_num(w->ends[2 * i + k]->qp));
	}
}

void
world_unpair(struct world *w, unsigned int i)
{
	/* As in the daemon a CQ goes at the end of a turn: until then the transport may have an event of it to raise. */
	if (w->ends[2 * i] != NULL)
		world_turn(w);
	for (unsigned int k = 2 * i; k < 2 * i + 2; k++) {
		struct end *e = w->ends[k];

		if (e == NULL)
			continue;
		mcast_detach(w->sh.mcasts, 0, pair_group(false), qp_num(e->qp));
		/* As the control does: events that moderation holds back, or that found no room, refer to the CQ. */
		cq_release_deferred(w->tp, e->scq.cq, false);
		cq_drop_owed(w->tp, e->scq.cq);
		cq_release_deferred(w->tp, e->rcq.cq, false);
		cq_drop_owed(w->tp, e->rcq.cq);
		end_free(e);
		w->ends[k] = NULL;
	}
}

void
world_state(struct world *w, unsigned int i, enum uroce_qp_state to)
{
	const uint32_t rtr_rc = UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER,
		       rtr = UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN,
		       rts_rc = UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_MAX_QP_RD_ATOMIC;
	struct end *e = w->ends[i];
	bool requests = e->type == UROCE_QPT_RC || e->type == UROCE_QPT_XRC_SEND;
	bool responds = e->type == UROCE_QPT_RC || e->type == UROCE_QPT_XRC_RECV;
	enum uroce_qp_state from = qp_state(e->qp);
	struct uroce_qp_attr a = w->attr[i];
	uint32_t mask = UROCE_QP_STATE;
	const char *why = "";
	int rc;

	a.qp_state = to;
	if (from == UROCE_QPS_RESET && to == UROCE_QPS_INIT)
		mask |= UROCE_QP_PKEY_INDEX | UROCE_QP_PORT |
			(e->type == UROCE_QPT_UD ? UROCE_QP_QKEY : UROCE_QP_ACCESS_FLAGS);
	else if (from == UROCE_QPS_INIT && to == UROCE_QPS_RTR && e->type != UROCE_QPT_UD)
		mask |= rtr | (responds ? rtr_rc : 0);
	else if (from == UROCE_QPS_RTR && to == UROCE_QPS_RTS)
		mask |= UROCE_QP_SQ_PSN | (requests ? rts_rc : responds ? UROCE_QP_TIMEOUT : 0);
	rc = qp_modify(w->tp, e->qp, &a, mask, (mask & UROCE_QP_AV) ? &w->path[i] : NULL, w->pair.now);
	/*
	 * RESET skips what is posted; of the client's counters nothing changes. A QP that leaves SQE goes to ERR if the CQ has no room for what is
	 * flushed.
	 */
	FUZZ_CHECK(rc == 0 || (from == UROCE_QPS_SQE && qp_state(e->qp) == UROCE_QPS_ERR) || rc == qp_modify_check(e->type, from, &a, mask, UROCE_MTU_4096, &why));
}

void
world_renew_mr(struct world *w, unsigned int i, bool same_key)
{
	struct mr *old = w->mrs[i];

	if (same_key) {
		make_mr(w, i, old);
	} else if (mr_retire(old)) {
		mr_destroy(w->sh.mrs, old);
		make_mr(w, i, NULL);
	}
}

void
world_renew_xsrq(struct world *w, unsigned int i)
{
	world_turn(w);
	cq_release_deferred(w->tp, w->xsrqs[i]->cq.cq, false);
	cq_drop_owed(w->tp, w->xsrqs[i]->cq.cq);
	srq_free(&w->pair.h[0], w->xsrqs[i]);
	w->xsrqs[i] = xsrq_new(&w->pair.h[0], PAIR_PD, WORLD_XRCD, WORLD_SRQN + i, WORLD_DEPTH);
}

/* ---- The wire ---- */
static void
take(struct world *w, struct tp_txvec *v, bool trusted)
{
	for (uint16_t i = 0; i < v->n; i++) {
		struct rte_mbuf *m = v->pkts[i];
		struct wire_pkt p;

		/* Whatever is sent, is a good packet. */
		FUZZ_CHECK(m->data_len == m->pkt_len);
		FUZZ_CHECK(wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, !trusted, &p) == WIRE_OK);
		if (w->nb_wire == WORLD_WIRE) {
			rte_pktmbuf_free(m);
			continue;
		}
		w->trusted[w->nb_wire] = trusted;
		w->wire[w->nb_wire++] = m;
	}
	v->n = 0;
}

uint32_t
world_turn(struct world *w)
{
	uint32_t work = transport_run(w->tp, w->pair.now);

	take(w, transport_tx(w->tp, 0), false);
	take(w, transport_loop(w->tp), true);
	return work;
}

static void
outside_free(void *addr, void *arg)
{
	struct outside *o = arg;

	free(o->bytes);
	free(o);
}

void
world_frame(struct world *w, const uint8_t *frame, size_t size, bool trusted)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct outside *o = malloc(sizeof(*o));

	if (m == NULL) {
		free(o);
		return;
	}
	FUZZ_CHECK(o != NULL && size <= WORLD_FRAME);
	o->bytes = malloc(size);
	FUZZ_CHECK(o->bytes != NULL || size == 0);
	if (size > 0)
		memcpy(o->bytes, frame, size);
	o->info.free_cb = outside_free;
	o->info.fcb_opaque = o;
	rte_mbuf_ext_refcnt_set(&o->info, 1);
	rte_pktmbuf_attach_extbuf(m, o->bytes, 0, (uint16_t)size, &o->info);
	m->data_off = 0;
	m->data_len = (uint16_t)size;
	m->pkt_len = (uint32_t)size;
	m->port = 0;
	if (transport_rx(w->tp, 0, &m, 1, trusted, w->pair.now) != 0)
		rte_pktmbuf_free(m);
}

void
world_lose(struct world *w, unsigned int i)
{
	if (w->nb_wire == 0)
		return;
	i %= w->nb_wire;
	rte_pktmbuf_free(w->wire[i]);
	w->nb_wire--;
	memmove(&w->wire[i], &w->wire[i + 1], (w->nb_wire - i) * sizeof(w->wire[0]));
	memmove(&w->trusted[i], &w->trusted[i + 1], (w->nb_wire - i) * sizeof(w->trusted[0]));
}

void
world_deliver(struct world *w, unsigned int i, bool copy, struct fuzz_in *changes, bool repair)
{
	uint8_t frame[WORLD_FRAME];
	struct rte_mbuf *m;
	bool trusted;
	size_t size;

	if (w->nb_wire == 0)
		return;
	i %= w->nb_wire;
	m = w->wire[i];
	trusted = w->trusted[i];
	size = m->data_len;
	FUZZ_CHECK(size <= sizeof(frame));
	memcpy(frame, rte_pktmbuf_mtod(m, uint8_t *), size);
	while (fuzz_left(changes) >= 2) {
		uint8_t at = fuzz_u8(changes);

		frame[at % size] ^= fuzz_u8(changes);
		trusted = false;
	}
	if (repair)
		fuzz_frame_repair(frame, size);
	if (!copy)
		world_lose(w, i);
	world_frame(w, frame, size, trusted);
}

void
world_settle(struct world *w)
{
	struct fuzz_in none = { 0 };

	for (unsigned int i = 0; i < SETTLE_TURNS; i++) {
		unsigned int n = w->nb_wire;

		while (n-- > 0)
			world_deliver(w, 0, false, &none, false);
		if (world_turn(w) == 0 && w->nb_wire == 0)
			break;
	}
}

/* ---- What the input names ---- */
uint64_t
world_address(struct world *w, struct fuzz_in *in)
{
	uint16_t at = fuzz_u16(in);

	/* Past the end of 16 KiB there are few addresses of interest. */
	if (at >= 0xff00)
		return fuzz_u64(in);
	return ADDR(w->area) - ADDRESS_AROUND + at % (WORLD_AREA + 2 * ADDRESS_AROUND);
}

uint32_t
world_key(struct world *w, struct fuzz_in *in)
{
	uint8_t k = fuzz_u8(in);

	switch (k % 8) {
	case 4:
	case 5:
		return mw_key(w->windows[k % 2]);
	case 6:
		return mw_key(w->windows[k / 8 % 2]) ^ k >> 4;
	case 7:
		return w->mrs[k / 8 % WORLD_MRS]->key ^ k >> 5;
	default:
		return w->mrs[k % 8 < WORLD_MRS ? k % 8 : 0]->key;
	}
}
