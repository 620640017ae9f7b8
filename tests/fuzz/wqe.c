/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program shares with an engine: the input writes any bytes into send, receive and completion queues, their shared
 * blocks and the doorbells of a session, posts work requests of its own choice, modifies and destroys QPs in between, and the
 * engine of a real daemon (daemon.h) takes its turns. The QPs are connected to each other by the daemon's own address.
 *
 * The session and its MRs live as long as the process, the queues as long as an input.
 */
#include <stddef.h>
#include <sys/mman.h>

#include "control/core/control_priv.h"
#include "daemon.h"
#include "wire/wire.h"

enum op { OP_SCRIBBLE, OP_SEND, OP_RECV, OP_RING, OP_TURNS, OP_CONS, OP_MODIFY, OP_RENEW, OP_WAIT, OP_DEREG, OP_RING_ANY, OPS };

enum {
	QPS = 6,
	MRS = 3, /* converted, shared, remote */
	DEPTH = 8,
	CQES = 16,
	SGES = 2,
	INLINE = 64,
	PAGE = 4096,
	OWN_GID = 1,
	SRQ_QP = 1,  /* the QP that has the SRQ */
	AROUND = 32,
	WAIT_STEPS = 250, /* into which the longest wait for an answer is divided */
	MODIFY_MASK = 0x03ffffff,
};

struct queue_pair {
	bool made;
	uint32_t handle, qpn, slot;
	struct ring sq, rq;
	struct ring_qp_shared *shared;
};

static const enum uroce_qp_type types[QPS] = { UROCE_QPT_RC, UROCE_QPT_RC, UROCE_QPT_UC, UROCE_QPT_UC, UROCE_QPT_UD, UROCE_QPT_UD };
static const uint8_t own_gid[16] = { [10] = 0xff, 0xff, 198, 18, 0, 1 };

static struct daemon_client client = { .sock = -1, .events = -1 };
static uint32_t pd, ah, mr_handles[MRS], mr_keys[MRS];
static uint8_t *areas[MRS];
static struct queue_pair qps[QPS];
static struct {
	uint32_t handle;
	struct ring ring;
	struct ring_cq_shared *shared;
} cq;
static struct {
	uint32_t handle;
	struct ring ring;
} srq;

/*
 * A request may wait until datagrams that were posted before it have been sent: until the port takes them, or for
 * CONTROL_POSTED_WAIT_MS.
 */
static const struct ctl_rsp *
call(struct ctl_req *q, size_t size)
{
	int rc = client_call(&client, q, size, NULL, 0);
	size_t bytes;

	for (unsigned int i = 0; i < 2 * WAIT_STEPS && rc < 0 && client.sock >= 0; i++) {
		daemon_sent(NULL, &bytes, 0);
		daemon_pass(CONTROL_POSTED_WAIT_MS * (uint64_t)DAEMON_MS / WAIT_STEPS);
		rc = client_take(&client);
	}
	return rc == 0 ? &client.rsp : NULL;
}

/* ---- Memory ---- */
static void
register_mr(unsigned int i)
{
	static const uint32_t kinds[MRS] = { CTL_SEG_CONVERTED, CTL_SEG_SHARED, CTL_SEG_REMOTE };
	struct {
		struct ctl_req q;
		struct ctl_seg seg;
	} m = { .q = client_req(CTL_MR_REG) };
	uint64_t va = (uintptr_t)areas[i];

	m.q.mr_reg = (struct ctl_mr_reg_req){ .pd = pd, .access = 0x1f, .addr = va, .length = DAEMON_MEM_BYTES, .iova = va, .nb_segs = 1,
					      .nb_in_msg = 1 };
	m.seg = (struct ctl_seg){ .va = va, .length = DAEMON_MEM_BYTES, .kind = kinds[i], .map_start = va,
				  .map_end = va + DAEMON_MEM_BYTES };
	if (call(&m.q, sizeof(m)) == NULL)
		return; /* who isn't root maps no memory of others */
	mr_handles[i] = client.rsp.mr_reg.handle;
	mr_keys[i] = client.rsp.mr_reg.lkey;
}

static void
session_begin(void)
{
	struct ctl_req q = client_req(CTL_PD_ALLOC);

	client_begin(&client);
	client_open(&client);
	FUZZ_CHECK(call(&q, sizeof(q)) != NULL);
	pd = client.rsp.handle.handle;
	areas[0] = client.mem;
	for (unsigned int i = 0; i < MRS; i++)
		register_mr(i);
	FUZZ_CHECK(mr_keys[0] != 0);
	q = client_req(CTL_AH_CREATE);
	q.ah_create.pd = pd;
	q.ah_create.attr = (struct uroce_ah_attr){ .sgid_index = OWN_GID, .hop_limit = 64, .is_global = 1, .port_num = 1 };
	memcpy(q.ah_create.attr.dgid, own_gid, sizeof(own_gid));
	FUZZ_CHECK(call(&q, sizeof(q)) != NULL);
	ah = client.rsp.handle.handle;
}

/* ---- Queues ---- */
static struct ring
ring_of(const struct ctl_area *a, uint32_t order, uint32_t shift)
{
	return (struct ring){ .base = client_area(&client, a), RING_SIZE(order, shift) };
}

static void
make_cq_and_srq(void)
{
	struct ctl_req q = client_req(CTL_CQ_CREATE);
	const struct ctl_rsp *r;

	q.cq_create.cqe = CQES;
	r = call(&q, sizeof(q));
	FUZZ_CHECK(r != NULL);
	cq.handle = r->cq_create.handle;
	cq.ring = ring_of(&r->cq_create.ring, r->cq_create.order, 5);
	cq.shared = client_area(&client, &r->cq_create.shared);
	q = client_req(CTL_SRQ_CREATE);
	q.srq_create.pd = pd;
	q.srq_create.max_wr = DEPTH;
	q.srq_create.max_sge = SGES;
	r = call(&q, sizeof(q));
	FUZZ_CHECK(r != NULL);
	srq.handle = r->srq_create.handle;
	srq.ring = ring_of(&r->srq_create.ring, r->srq_create.order, r->srq_create.shift);
	FUZZ_CHECK(cq.ring.base != NULL && cq.shared != NULL && srq.ring.base != NULL);
}

static void
make_qp(unsigned int i)
{
	struct ctl_req q = client_req(CTL_QP_CREATE);
	const struct ctl_rsp *r;

	q.qp_create = (struct ctl_qp_create_req){ .type = types[i], .pd = pd, .send_cq = cq.handle, .recv_cq = cq.handle,
						  .srq = i == SRQ_QP ? srq.handle : UINT32_MAX, .sq_sig_all = i & 1,
						  .cap = { DEPTH, DEPTH, SGES, SGES, INLINE } };
	r = call(&q, sizeof(q));
	if (r == NULL)
		return;
	qps[i] = (struct queue_pair){ .made = true, .handle = r->qp_create.handle, .qpn = r->qp_create.qpn,
				      .slot = r->qp_create.db_slot,
				      .sq = ring_of(&r->qp_create.sq, r->qp_create.sq_order, r->qp_create.sq_shift),
				      .rq = ring_of(&r->qp_create.rq, r->qp_create.rq_order, r->qp_create.rq_shift) };
	qps[i].shared = client_area(&client, &r->qp_create.shared);
	if (i == SRQ_QP)
		qps[i].rq = srq.ring;
	FUZZ_CHECK(qps[i].sq.base != NULL && qps[i].rq.base != NULL && qps[i].shared != NULL);
}

static void
destroy(uint32_t op, uint32_t handle)
{
	struct ctl_req q = client_req(op);

	q.handle.handle = handle;
	call(&q, sizeof(q));
}

/** @param mask  What is modified besides the state. */
static void
modify(unsigned int i, uint32_t state, uint32_t mask, uint8_t odd)
{
	struct ctl_req q = client_req(CTL_QP_MODIFY);
	struct uroce_qp_attr *a = &q.qp_modify.attr;

	q.qp_modify.handle = qps[i].handle;
	q.qp_modify.mask = mask | UROCE_QP_STATE;
	*a = (struct uroce_qp_attr){ .qp_state = state, .path_mtu = UROCE_MTU_256, .qkey = 1, .rq_psn = 100, .sq_psn = 100,
				     .dest_qp_num = qps[i ^ 1].qpn, .qp_access_flags = 15, .max_rd_atomic = 4, .max_dest_rd_atomic = 4,
				     .min_rnr_timer = 1, .port_num = 1, .timeout = 10, .retry_cnt = 3, .rnr_retry = 3 };
	a->ah = (struct uroce_ah_attr){ .sgid_index = OWN_GID, .hop_limit = 64, .is_global = 1, .port_num = 1 };
	memcpy(a->ah.dgid, own_gid, sizeof(own_gid));
	a->max_rd_atomic ^= odd & 3;
	a->timeout ^= odd >> 2;
	call(&q, sizeof(q));
}

static void
connect_qp(unsigned int i)
{
	uint32_t rtr = UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN;
	uint32_t rts = UROCE_QP_SQ_PSN;

	if (types[i] == UROCE_QPT_RC) {
		rtr |= UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER;
		rts |= UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_MAX_QP_RD_ATOMIC;
	}
	modify(i, UROCE_QPS_INIT, UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | (types[i] == UROCE_QPT_UD ? UROCE_QP_QKEY : UROCE_QP_ACCESS_FLAGS), 0);
	modify(i, UROCE_QPS_RTR, types[i] == UROCE_QPT_UD ? 0 : rtr, 0);
	modify(i, UROCE_QPS_RTS, rts, 0);
}

static void
make_pair(unsigned int i)
{
	make_qp(i);
	make_qp(i ^ 1);
	if (!qps[i].made || !qps[i ^ 1].made)
		return;
	connect_qp(i);
	connect_qp(i ^ 1);
}

static void
unmake_pair(unsigned int i)
{
	for (unsigned int k = 0; k < 2; k++, i ^= 1) {
		if (qps[i].made)
			destroy(CTL_QP_DESTROY, qps[i].handle);
		qps[i].made = false;
	}
}

/* ---- What the input does ---- */
static void
put_sge(struct ring_sge *sge, struct fuzz_in *in)
{
	uint8_t which = fuzz_u8(in);
	uint16_t at = fuzz_u16(in);

	sge->addr = (uintptr_t)areas[which % MRS] - AROUND + at;
	sge->lkey = mr_keys[which % MRS] ^ (which >= 224 ? which : 0);
	sge->length = fuzz_u16(in) & 0x3fff;
}

static void
ring_doorbell(uint32_t slot)
{
	ring_db_ring((struct ring_db *)client.db, slot % RING_DB_SLOTS);
}

static void
send_wr(struct queue_pair *qp, unsigned int i, struct fuzz_in *in)
{
	struct ring_sq_wqe *w = ring_slot(&qp->sq, qp->sq.counter);
	union ring_sq_ctl ctl = { .opcode = fuzz_below(in, UROCE_WR_OPS), .flags = fuzz_u8(in) };
	struct ring_sge remote;

	ctl.count = fuzz_u8(in);
	ctl.count = (ctl.flags & UROCE_SEND_INLINE) != 0 ? ctl.count : ctl.count % (SGES + 2);
	put_sge(&remote, in);
	wqe_put_remote(w, remote.addr, remote.lkey);
	wqe_put_imm(w, remote.lkey);
	if (types[i] == UROCE_QPT_UD)
		wqe_put_ud(w, ah, qps[i ^ 1].qpn, 1);
	for (unsigned int k = 0; k < SGES; k++)
		put_sge(&wqe_sges(w, ctl.opcode)[k], in);
	if (ctl.opcode == UROCE_WR_BIND_MW)
		wqe_put_bind(w, remote.length, remote.lkey, 7);
	else if (wqe_has_block(ctl.opcode))
		wqe_put_atomic(w, fuzz_u8(in), 1);
	ring_sq_post(&qp->sq, qp->sq.counter++, w, ctl);
	ring_doorbell(qp->slot);
}

static void
recv_wr(struct queue_pair *qp, struct fuzz_in *in)
{
	struct ring_rq_wqe *w = ring_slot(&qp->rq, qp->rq.counter);
	uint8_t n = fuzz_u8(in);

	for (unsigned int k = 0; k < SGES; k++)
		put_sge(&w->sge[k], in);
	ring_rq_post(&qp->rq, qp->rq.counter++, w, n % (SGES + 2) + (n >= 224 ? n << 4 : 0));
}

static void
scribble(struct queue_pair *qp, struct fuzz_in *in)
{
	uint8_t which = fuzz_u8(in), *base;
	uint32_t at = fuzz_u16(in);
	size_t size;

	switch (which % 6) {
	case 0:
		base = qp->sq.base;
		size = (size_t)1 << (qp->sq.order + qp->sq.shift);
		break;
	case 1:
		base = qp->rq.base;
		size = (size_t)1 << (qp->rq.order + qp->rq.shift);
		break;
	case 2:
		base = cq.ring.base;
		size = (size_t)1 << (cq.ring.order + cq.ring.shift);
		break;
	case 3:
		base = (uint8_t *)qp->shared;
		size = sizeof(*qp->shared);
		break;
	case 4:
		base = (uint8_t *)cq.shared;
		size = sizeof(*cq.shared);
		break;
	default:
		base = client.db;
		size = sizeof(struct ring_db);
		break;
	}
	while (fuzz_left(in) > 0)
		base[at++ % size] = fuzz_u8(in);
}

/** Poll the CQ, or say that it was polled; arm it. */
static void
consume(struct fuzz_in *in)
{
	union ring_cqe_ctl ctl;
	uint8_t how = fuzz_u8(in);

	while (ring_cq_ready(&cq.ring, cq.ring.counter, &ctl))
		cq.ring.counter++;
	atomic_store(&cq.shared->cons, how < 224 ? cq.ring.counter : fuzz_u32(in));
	atomic_store(&cq.shared->arm, how % 4);
}

static void
run_qp(enum op op, unsigned int i, struct fuzz_in *in)
{
	struct queue_pair *qp = &qps[i];
	uint32_t state;

	switch (op) {
	case OP_SCRIBBLE:
		scribble(qp, in);
		break;
	case OP_SEND:
		send_wr(qp, i, in);
		break;
	case OP_RECV:
		recv_wr(qp, in);
		break;
	case OP_RING:
		ring_doorbell(qp->slot);
		break;
	default:
		state = fuzz_below(in, UROCE_QPS_STATES);
		if (state == UROCE_QPS_RTS && fuzz_below(in, 2)) {
			modify(i, UROCE_QPS_RESET, 0, 0);
			connect_qp(i);
		} else {
			modify(i, state, fuzz_u32(in) & MODIFY_MASK, fuzz_u8(in));
		}
		break;
	}
}

static void
run(enum op op, struct fuzz_in *in)
{
	unsigned int i = fuzz_below(in, QPS);

	switch (op) {
	case OP_TURNS:
		daemon_turns(1 + fuzz_below(in, 8));
		break;
	case OP_CONS:
		consume(in);
		break;
	case OP_RENEW:
		unmake_pair(i);
		make_pair(i & ~1u);
		break;
	case OP_WAIT:
		daemon_pass((uint64_t)fuzz_u16(in) * 1000);
		break;
	case OP_DEREG:
		i %= MRS;
		destroy(CTL_MR_DEREG, mr_handles[i]);
		register_mr(i);
		break;
	case OP_RING_ANY:
		ring_doorbell(fuzz_u32(in));
		break;
	default:
		if (qps[i].made)
			run_qp(op, i, in);
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_in in = fuzz_in(data, size), body;
	uint8_t kind;

	if (client.sock < 0)
		session_begin();
	make_cq_and_srq();
	if (!fuzz_chunk(&in, &kind, &body))
		body = in;
	/* Pairs of other types come when the program wants them (OP_RENEW): each costs ten requests. */
	make_pair(2 * fuzz_below(&body, QPS / 2));
	while (client.sock >= 0 && fuzz_chunk(&in, &kind, &body)) {
		run(kind % OPS, &body);
		daemon_turns(1);
	}
	for (unsigned int i = 0; i < QPS; i += 2)
		unmake_pair(i);
	destroy(CTL_SRQ_DESTROY, srq.handle);
	destroy(CTL_CQ_DESTROY, cq.handle);
	/* Who has done nothing but scribble keeps the session. */
	FUZZ_CHECK(client.sock >= 0 && qp_table_count(daemon_stack->sh.qps) == 0);
	memset(client.db, 0, sizeof(struct ring_db));
	daemon_turns(2);
	daemon_sent(NULL, &size, 0);
	return 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	daemon_begin();
	for (unsigned int i = 1; i < MRS; i++) {
		areas[i] = mmap(NULL, DAEMON_MEM_BYTES, PROT_READ | PROT_WRITE, (i == 1 ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
		FUZZ_CHECK(areas[i] != MAP_FAILED);
	}
	return 0;
}

FUZZ_PROGRAM(20, NULL)
