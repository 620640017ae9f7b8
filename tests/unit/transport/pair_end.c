/* SPDX-License-Identifier: BSD-3-Clause */
/* The ends of a pair: QPs, CQs and SRQs, and the client's side of their rings. */
#include <stdlib.h>

#include <rte_mbuf.h>

#include "pair.h"

static uint32_t
log2_up(uint32_t n)
{
	uint32_t order = 0;

	while ((UINT32_C(1) << order) < n)
		order++;
	return order;
}

static void *
ring_make(struct ring *r, uint32_t depth, uint32_t stride)
{
	*r = (struct ring){ RING_SIZE(log2_up(depth), log2_up(stride)) };
	r->base = aligned_alloc(64, RTE_ALIGN((size_t)1 << (r->order + r->shift), 64));
	assert_non_null(r->base);
	memset(r->base, 0, (size_t)1 << (r->order + r->shift));
	return r->base;
}

static void
cq_make(struct host *h, struct end_cq *c, uint32_t depth, bool channel)
{
	struct cq_params cp = { .shared = &c->shared, .channel = channel ? 0 : -1, .cookie = ADDR(c), .number = h->nb_cqs++ };

	c->mem = ring_make(&c->ring, depth, sizeof(struct ring_cqe));
	cp.ring = c->ring;
	assert_int_equal(cq_create(&cp, &c->cq), 0);
}

static void
cq_unmake(struct end_cq *c)
{
	assert_int_equal(cq_users(c->cq), 0);
	cq_destroy(c->cq);
	free(c->mem);
}

struct end_srq *
srq_new(struct host *h, uint32_t depth, uint32_t max_sge)
{
	struct end_srq *s = calloc(1, sizeof(*s));
	struct srq_params sp = { .pd = PAIR_PD, .max_sge = max_sge, .shared = &s->shared, .cookie = ADDR(s), .number = h->nb_srqs++ };

	assert_non_null(s);
	s->mem = ring_make(&s->ring, depth, ring_rq_stride(max_sge));
	sp.ring = s->ring;
	assert_int_equal(srq_create(h->tp, &sp, &s->srq), 0);
	return s;
}

struct end_srq *
xsrq_new(struct host *h, uint32_t pd, uint32_t xrcd, uint32_t srqn, uint32_t depth)
{
	struct end_srq *s = calloc(1, sizeof(*s));
	struct srq_params sp = { .pd = pd, .max_sge = 4, .shared = &s->shared, .cookie = ADDR(s), .xrcd = xrcd,
				 .srqn = srqn, .number = h->nb_srqs++ };

	assert_non_null(s);
	s->mem = ring_make(&s->ring, depth, ring_rq_stride(sp.max_sge));
	cq_make(h, &s->cq, 256, false);
	s->srqn = srqn;
	sp.ring = s->ring;
	sp.cq = s->cq.cq;
	assert_int_equal(srq_create(h->tp, &sp, &s->srq), 0);
	return s;
}

void
srq_free(struct host *h, struct end_srq *s)
{
	assert_int_equal(srq_destroy(h->tp, s->srq), 0);
	if (s->srqn != 0)
		cq_unmake(&s->cq);
	free(s->mem);
	free(s);
}

struct end *
end_new(struct host *h, const struct end_opts *o)
{
	static const struct end_opts none;
	struct end *e = calloc(1, sizeof(*e));
	struct qp_params qp = { .pd = PAIR_PD };

	assert_non_null(e);
	o = o != NULL ? o : &none;
	e->host = h;
	e->srq = o->srq;
	e->type = o->type != 0 ? o->type : UROCE_QPT_RC;
	qp.type = e->type;
	qp.cap = (struct uroce_qp_cap){
		.max_send_wr = o->sq_depth ? o->sq_depth : 64,
		.max_recv_wr = o->rq_depth ? o->rq_depth : 64,
		.max_send_sge = o->max_sge ? o->max_sge : 4,
		.max_recv_sge = o->max_sge ? o->max_sge : 4,
		.max_inline_data = o->max_inline ? o->max_inline : 128,
	};
	e->sq_mem = ring_make(&e->sq, qp.cap.max_send_wr, ring_sq_stride(qp.cap.max_send_sge, qp.cap.max_inline_data));
	e->rq_mem = ring_make(&e->rq, qp.cap.max_recv_wr, ring_rq_stride(qp.cap.max_recv_sge));
	cq_make(h, &e->scq, o->cq_depth ? o->cq_depth : 256, o->channel);
	cq_make(h, &e->rcq, o->cq_depth ? o->cq_depth : 256, o->channel);
	if (e->type != UROCE_QPT_XRC_RECV) {
		qp.sq = e->sq;
		qp.send_cq = e->scq.cq;
	}
	if (e->type != UROCE_QPT_XRC_RECV && e->type != UROCE_QPT_XRC_SEND) {
		qp.recv_cq = e->rcq.cq;
		if (o->srq == NULL)
			qp.rq = e->rq;
		else
			qp.srq = o->srq->srq;
	}
	qp.xrcd = o->xrcd;
	qp.sq_sig_all = o->sig_all;
	qp.max_mtu = o->max_mtu;
	qp.shared = &e->shared;
	qp.cookie = ADDR(e);
	qp.share = o->share;
	assert_int_equal(qp_create(h->tp, &qp, &e->qp), 0);
	return e;
}

void
end_free(struct end *e)
{
	qp_destroy(e->host->tp, e->qp);
	cq_unmake(&e->scq);
	cq_unmake(&e->rcq);
	free(e->sq_mem);
	free(e->rq_mem);
	free(e);
}

static void
modify(struct end *e, const struct uroce_qp_attr *a, uint32_t mask, const struct tp_path *path)
{
	const char *why = "";

	if (qp_modify_check(e->type, qp_state(e->qp), a, mask | UROCE_QP_STATE, UROCE_MTU_4096, &why) != 0)
		fail_msg("modify: %s", why);
	assert_int_equal(qp_modify(e->host->tp, e->qp, a, mask | UROCE_QP_STATE, path, e->host->pair->now), 0);
	assert_int_equal(atomic_load(&e->shared.state), a->qp_state);
}

static const struct conn_opts default_conn;

void
end_to_rtr(struct end *e, const struct end *peer, const struct conn_opts *o)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_INIT, .port_num = 1 };
	struct tp_path path = { .addr = pair_address(e->host->id, o != NULL && o->v6), .pkey = WIRE_PKEY_DEFAULT };
	bool responds = e->type == UROCE_QPT_RC || e->type == UROCE_QPT_XRC_RECV;

	o = o != NULL ? o : &default_conn;
	a.qp_access_flags = o->access ? o->access : ACCESS_ALL;
	if (peer->host == e->host) {
		memcpy(path.addr.dip, path.addr.sip, sizeof(path.addr.dip));
		path.loopback = true;
	}
	modify(e, &a, UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS, NULL);
	a.qp_state = UROCE_QPS_RTR;
	a.ah = (struct uroce_ah_attr){ .is_global = 1, .port_num = 1, .hop_limit = 64, .dgid = { [15] = 1 } };
	a.path_mtu = o->mtu ? o->mtu : UROCE_MTU_1024;
	a.dest_qp_num = qp_num(peer->qp);
	a.rq_psn = o->psn ? o->psn : 100;
	a.max_dest_rd_atomic = o->no_dest_rd_atomic ? 0 : o->dest_rd_atomic ? o->dest_rd_atomic : 4;
	a.min_rnr_timer = o->min_rnr_timer ? o->min_rnr_timer : 1;
	modify(e, &a, UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
	       (responds ? UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER : 0), &path);
}

void
end_to_rts(struct end *e, const struct conn_opts *o)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_RTS };
	bool requests = e->type == UROCE_QPT_RC || e->type == UROCE_QPT_XRC_SEND;

	o = o != NULL ? o : &default_conn;
	a.sq_psn = o->psn ? o->psn : 100;
	a.timeout = o->timeout ? o->timeout : PAIR_TIMEOUT;
	a.retry_cnt = o->no_retry ? 0 : o->retry_cnt ? o->retry_cnt : 7;
	a.rnr_retry = o->no_rnr_retry ? 0 : o->rnr_retry ? o->rnr_retry : 7;
	a.max_rd_atomic = o->no_rd_atomic ? 0 : o->rd_atomic ? o->rd_atomic : 4;
	modify(e, &a,
	       UROCE_QP_SQ_PSN | (e->type == UROCE_QPT_XRC_RECV ? UROCE_QP_TIMEOUT : 0) |
		       (requests ? UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_MAX_QP_RD_ATOMIC :
				   0),
	       NULL);
}

void
ends_connect(struct end *a, struct end *b, const struct conn_opts *o)
{
	end_to_rtr(a, b, o);
	end_to_rtr(b, a, o);
	end_to_rts(a, o);
	end_to_rts(b, o);
}

uint32_t
host_ah(struct host *h, uint32_t pd, bool v6, bool loopback)
{
	struct tp_path path = { .addr = pair_address(h->id, v6), .pkey = WIRE_PKEY_DEFAULT, .loopback = loopback };
	uint32_t handle;

	if (loopback)
		memcpy(path.addr.dip, path.addr.sip, sizeof(path.addr.dip));
	assert_int_equal(ah_create(h->sh.ahs, pd, &path, &handle), 0);
	return handle;
}

const struct gid *
pair_group(bool v6)
{
	static const struct gid groups[2] = { { { [10] = 0xff, 0xff, 239, 18, 0, 1 } }, { { 0xff, 0x0e, [13] = 0x18, [15] = 1 } } };

	return &groups[v6];
}

uint32_t
host_group_ah(struct host *h, uint32_t pd, bool v6)
{
	struct tp_path path = { .addr = pair_address(h->id, v6), .pkey = WIRE_PKEY_DEFAULT, .multicast = true };
	uint32_t handle;

	memcpy(path.addr.dip, gid_ip(pair_group(v6)), gid_ip_bytes(pair_group(v6)));
	assert_int_equal(ah_create(h->sh.ahs, pd, &path, &handle), 0);
	return handle;
}

void
ud_to_rts(struct end *e, uint32_t qkey)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_INIT, .port_num = 1, .qkey = qkey };

	modify(e, &a, UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_QKEY, NULL);
	a.qp_state = UROCE_QPS_RTR;
	modify(e, &a, 0, NULL);
	a.qp_state = UROCE_QPS_RTS;
	modify(e, &a, UROCE_QP_SQ_PSN, NULL);
}

int
end_state(struct end *e, enum uroce_qp_state s)
{
	struct uroce_qp_attr a = { .qp_state = s };

	return qp_modify(e->host->tp, e->qp, &a, UROCE_QP_STATE, NULL, e->host->pair->now);
}

/* ---- The client's side of the rings ---- */
void
end_send(struct end *e, const struct wr *wr)
{
	struct ring_sq_wqe *w = ring_slot(&e->sq, e->sq.counter);
	union ring_sq_ctl ctl = { .opcode = (uint8_t)wr->op, .flags = wr->flags, .count = (uint16_t)wr->nb_sge,
				  .srqn = wr->srqn };

	w->wr_id = wr->id;
	wqe_put_remote(w, wr->remote_addr, wr->rkey);
	wqe_put_imm(w, wr->imm);
	if (wqe_has_block(ctl.opcode))
		wqe_put_atomic(w, wr->compare_add, wr->swap);
	if (wr->inline_data != NULL) {
		memcpy(wqe_inline(w), wr->inline_data, wr->inline_bytes);
		ctl.flags |= UROCE_SEND_INLINE;
		ctl.count = (uint16_t)wr->inline_bytes;
	} else if (wr->nb_sge > 0) {
		memcpy(wqe_sges(w, ctl.opcode), wr->sge, wr->nb_sge * sizeof(*wr->sge));
	}
	if (!wr->unsignaled)
		ctl.flags |= UROCE_SEND_SIGNALED;
	ring_sq_post(&e->sq, e->sq.counter++, w, ctl);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&e->shared.sq_watch) == 0)
		qp_doorbell(e->host->tp, e->qp);
}

static void
post_rq(struct ring *r, uint64_t id, const struct ring_sge *sge, uint32_t nb_sge)
{
	struct ring_rq_wqe *w = ring_slot(r, r->counter);

	w->wr_id = id;
	if (nb_sge > 0)
		memcpy(w->sge, sge, nb_sge * sizeof(*sge));
	ring_rq_post(r, r->counter++, w, (uint16_t)nb_sge);
}

void
end_recv(struct end *e, uint64_t id, const struct ring_sge *sge, uint32_t nb_sge)
{
	post_rq(&e->rq, id, sge, nb_sge);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&e->shared.rq_watch) == 0)
		qp_doorbell(e->host->tp, e->qp);
}

void
srq_post(struct end_srq *s, uint64_t id, const struct ring_sge *sge, uint32_t nb_sge)
{
	post_rq(&s->ring, id, sge, nb_sge);
}

bool
cq_poll(struct end_cq *c, struct ring_cqe *out, union ring_cqe_ctl *ctl)
{
	union ring_cqe_ctl mine;

	if (!ring_cq_ready(&c->ring, c->ring.counter, ctl != NULL ? ctl : &mine))
		return false;
	memcpy(out, ring_slot(&c->ring, c->ring.counter), sizeof(*out));
	atomic_store_explicit(&c->shared.cons, ++c->ring.counter, memory_order_release);
	return true;
}

struct ring_cqe
expect_cqe(struct end_cq *c, uint64_t id, enum uroce_wc_status status)
{
	struct ring_cqe e;

	if (!cq_poll(c, &e, NULL))
		fail_msg("no completion where %llu was expected", (unsigned long long)id);
	if (e.wr_id != id || e.status != status)
		fail_msg("completion of %llu with status %u, expected %llu with %u", (unsigned long long)e.wr_id,
			 (unsigned int)e.status, (unsigned long long)id, (unsigned int)status);
	return e;
}

void
expect_no_cqe(struct end_cq *c)
{
	struct ring_cqe e;

	if (cq_poll(c, &e, NULL))
		fail_msg("unexpected completion of %llu with status %u", (unsigned long long)e.wr_id,
			 (unsigned int)e.status);
}

void
fill(uint8_t *buf, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1103515245u + 12345u;
		buf[i] = (uint8_t)(seed >> 16);
	}
}
