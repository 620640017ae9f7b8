/* SPDX-License-Identifier: BSD-3-Clause */
/* The QPs: how they are made and connected, and what is posted to them. */
#include <arpa/inet.h>
#include <errno.h>

#include "verify.h"

static struct ibv_context *ctx;
static struct ibv_pd *pd;
struct ibv_cq *cq;
struct ibv_mr *mr;
struct memory *memory;
struct hello me, peer;
struct conn conns[MAX_QPS];
struct shared_add *adds;

static void *
alloc(size_t n)
{
	void *p = calloc(1, n);

	MUST(p != NULL);
	return p;
}

/* ---- Setting up ---- */
static void
open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	MUST(list != NULL);
	for (i = 0; list[i] != NULL; i++)
		if (o.device == NULL || strcmp(ibv_get_device_name(list[i]), o.device) == 0)
			break;
	if (list[i] == NULL)
		DIE("no device %s", o.device ? o.device : "at all");
	MUST((ctx = ibv_open_device(list[i])) != NULL);
	ibv_free_device_list(list);
	MUST((pd = ibv_alloc_pd(ctx)) != NULL);
	MUST((cq = ibv_create_cq(ctx, (int)(o.qps * (DEPTH + RECEIVES)), NULL, NULL, 0)) != NULL);
}

static void
make_conn(struct conn *c, struct area *area)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = RECEIVES, .max_send_sge = MAX_SGE, .max_recv_sge = 2,
			 .max_inline_data = INLINE_LEN },
	};

	c->area = area;
	c->sent = alloc(sizeof(*c->sent));
	c->got = alloc(sizeof(*c->got));
	for (unsigned int i = 0; i < DEPTH; i++)
		c->expect[i] = alloc(MAX_LEN);
	memset(area, CANARY, sizeof(*area));
	memset(area->target + PAD, 0, TARGET_LEN);
	area->word = 0;
	fill(area->source, source_key(o.seed, o.end, c->index), SOURCE_LEN);
	gen_start(&c->mine, o.seed, o.end, c->index);
	gen_start(&c->theirs, o.seed, !o.end, c->index);
	MUST((c->qp = ibv_create_qp(pd, &attr)) != NULL);
	me.qp[c->index].area = (uintptr_t)area;
	me.qp[c->index].qpn = c->qp->qp_num;
	/* So that PSNs wrap within the run on every other QP. */
	me.qp[c->index].psn = c->index % 2 ? 0xffffff - 50 * c->index : 7 * c->index;
}

static void
connect_conn(struct conn *c)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .path_mtu = o.mtu, .min_rnr_timer = RNR_TIMER,
				 .timeout = (uint8_t)o.timeout, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = MAX_READS,
				 .max_dest_rd_atomic = MAX_READS,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC,
				 .ah_attr = { .is_global = 1, .port_num = PORT,
					      .grh = { .sgid_index = (uint8_t)o.gid_index, .hop_limit = 64,
						       .dgid = peer.gid } } };

	CALL(ibv_modify_qp(c->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a.qp_state = IBV_QPS_RTR;
	a.dest_qp_num = peer.qp[c->index].qpn;
	a.rq_psn = peer.qp[c->index].psn;
	CALL(ibv_modify_qp(c->qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = me.qp[c->index].psn;
	CALL(ibv_modify_qp(c->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	c->remote_area = peer.qp[c->index].area;
}

void
post_receive(struct conn *c)
{
	uint32_t slot = c->receives_posted % RECEIVES, first = 1 + c->receives_posted % 999;
	uint8_t *buf = c->area->recv[slot] + PAD;
	struct ibv_sge sge[2] = { { (uintptr_t)buf, first, mr->lkey },
				  { (uintptr_t)buf + first, MAX_LEN - first, mr->lkey } };
	struct ibv_recv_wr wr = { .wr_id = c->receives_posted, .sg_list = sge, .num_sge = 2 }, *bad;

	memset(c->area->recv[slot], CANARY, BUFFER);
	CALL(ibv_post_recv(c->qp, &wr, &bad));
	c->receives_posted++;
}

void
set_up(void)
{
	size_t n = sizeof(*memory) + o.qps * sizeof(struct area);

	open_device();
	MUST((memory = aligned_alloc(4096, (n + 4095) / 4096 * 4096)) != NULL);
	memory->shared = 0;
	adds = alloc((size_t)o.qps * o.rounds * OPS * sizeof(*adds));
	me.seed = o.seed;
	me.qps = o.qps;
	me.rounds = o.rounds;
	me.mtu = o.mtu;
	CALL(ibv_query_gid(ctx, PORT, o.gid_index, &me.gid));
	for (unsigned int i = 0; i < o.qps; i++) {
		conns[i].index = i;
		make_conn(&conns[i], &memory->areas[i]);
	}
	mr = ibv_reg_mr(pd, memory, n, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC);
	MUST(mr != NULL);
	me.rkey = mr->rkey;
	me.shared = (uintptr_t)&memory->shared;
	exchange(&me, &peer, sizeof(me));
	if (me.seed != peer.seed || me.qps != peer.qps || me.rounds != peer.rounds || me.mtu != peer.mtu)
		DIE("the two ends have other options");
	for (unsigned int i = 0; i < o.qps; i++) {
		connect_conn(&conns[i]);
		while (conns[i].receives_posted < RECEIVES)
			post_receive(&conns[i]);
	}
	barrier();
}

/* ---- Posting ---- */
static uint64_t
remote_address(const struct conn *c, const struct op *op)
{
	switch (op->kind) {
	case OP_WRITE:
	case OP_READ_TARGET:
		return c->remote_area + offsetof(struct area, target) + PAD + op->offset;
	case OP_WRITE_IMM:
		return c->remote_area + offsetof(struct area, imm) + (op->number % OPS) * BUFFER + PAD + op->offset;
	case OP_READ_SOURCE:
		return c->remote_area + offsetof(struct area, source) + op->offset;
	case OP_SHARED_ADD:
		return peer.shared;
	default:
		return c->remote_area + offsetof(struct area, word);
	}
}

static const enum ibv_wr_opcode wr_opcodes[OP_KINDS] = {
	IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ,
	IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
};

static int
make_sges(const struct op *op, uint8_t *buf, struct ibv_sge *sge)
{
	uint32_t ends[MAX_SGE] = { op->len, op->len, op->len }, from = 0;
	int n = 0;

	for (unsigned int i = 0; i + 1 < op->nb_sge; i++)
		ends[i] = op->split[i];
	for (unsigned int i = 0; i < op->nb_sge; i++) {
		/* A length of 0 means 2 GiB to some hardware. */
		if (ends[i] > from)
			sge[n++] = (struct ibv_sge){ (uintptr_t)buf + from, ends[i] - from, mr->lkey };
		from = ends[i];
	}
	return n;
}

/* What is in the buffer before, and what must be in the other's target after. */
static void
prepare(struct conn *c, const struct op *op, uint8_t *buf)
{
	if (op->kind <= OP_SEND_IMM)
		fill(buf, op->key, op->len);
	if (op->kind == OP_WRITE)
		fill(c->sent->target + op->offset, op->key, op->len);
	if (op->kind == OP_READ_TARGET)
		memcpy(c->expect[op->number % DEPTH], c->sent->target + op->offset, op->len);
}

uint8_t *
op_buffer(struct conn *c, const struct op *op)
{
	return c->area->send[op->number % DEPTH] + PAD + op->local_offset;
}

void
post_op(struct conn *c)
{
	struct op *op = &c->ops[c->posted % DEPTH];
	struct ibv_sge sge[MAX_SGE];
	struct ibv_send_wr wr = { .sg_list = sge }, *bad;

	*op = gen_next(&c->mine);
	memset(c->area->send[op->number % DEPTH], CANARY, BUFFER);
	prepare(c, op, op_buffer(c, op));
	wr.wr_id = op->number;
	wr.num_sge = make_sges(op, op_buffer(c, op), sge);
	wr.opcode = wr_opcodes[op->kind];
	wr.imm_data = htonl(op->imm);
	wr.send_flags = (op->signalled ? IBV_SEND_SIGNALED : 0) | (op->fence ? IBV_SEND_FENCE : 0) |
			(op->solicited ? IBV_SEND_SOLICITED : 0) | (op->is_inline ? IBV_SEND_INLINE : 0);
	if (op->kind >= OP_FETCH_ADD) {
		wr.wr.atomic.remote_addr = remote_address(c, op);
		wr.wr.atomic.rkey = peer.rkey;
		wr.wr.atomic.compare_add = op->kind == OP_CMP_SWAP ? op->compare : op->add;
		wr.wr.atomic.swap = op->swap;
	} else {
		wr.wr.rdma.remote_addr = remote_address(c, op);
		wr.wr.rdma.rkey = peer.rkey;
	}
	CALL(ibv_post_send(c->qp, &wr, &bad));
	c->posted++;
}

void
tear_down(void)
{
	for (unsigned int i = 0; i < o.qps; i++)
		CALL(ibv_destroy_qp(conns[i].qp));
	CALL(ibv_dereg_mr(mr));
	CALL(ibv_destroy_cq(cq));
	CALL(ibv_dealloc_pd(pd));
	CALL(ibv_close_device(ctx));
}
