/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attack KIND: a program that takes what it can get of an engine or of the control thread, in one way, until it is killed. Its QPs send to themselves.
 * `attack` prints the kinds.
 */
#include <arpa/inet.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stuck.h"
#include "vt.h"

enum {
	QPS_MAX = 512,
	BEGUN_MS = 200, /* until the attack is going on */
	NS_PER_MS = 1000000,
	NOBODY = 0xfffff0,
	MANY_SGES = 16,
	HUGE_BYTES = 256 << 20,
	TINY_TIMEOUT = 1, /* 8.2 us */
	TINY_RNR = 1,     /* 10 us */
};

/** A row of the table: QPs that always have something to send. */
struct flood {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode op;
	unsigned int qps, bytes, depth;
	int flags;
	uint32_t dest;    /* 0: itself */
	bool receives;    /* receive WQEs are posted */
	bool bad_key, bad_lkey, beyond, odd, many_sges, no_poll;
};

static const struct flood floods[] = {
#define RC IBV_QPT_RC
#define WRITE IBV_WR_RDMA_WRITE
	{ .name = "write-large", .type = RC, .op = WRITE, .qps = 1, .bytes = 32768 },
	{ .name = "write-large-many", .type = RC, .op = WRITE, .qps = 32, .bytes = 32768 },
	{ .name = "write-small", .type = RC, .op = WRITE, .qps = 4, .bytes = 8 },
	{ .name = "write-inline", .type = RC, .op = WRITE, .qps = 4, .bytes = 32, .flags = IBV_SEND_INLINE },
	{ .name = "write-empty", .type = RC, .op = WRITE, .qps = 4, .bytes = 0 },
	{ .name = "write-unaligned", .type = RC, .op = WRITE, .qps = 4, .bytes = 4093, .odd = true },
	{ .name = "write-sges", .type = RC, .op = WRITE, .qps = 4, .bytes = MANY_SGES, .many_sges = true },
	{ .name = "write-immediate", .type = RC, .op = IBV_WR_RDMA_WRITE_WITH_IMM, .qps = 4, .bytes = 8, .receives = true },
	{ .name = "write-many-qps", .type = RC, .op = WRITE, .qps = QPS_MAX, .bytes = 8, .depth = 2 },
	{ .name = "send-large", .type = RC, .op = IBV_WR_SEND, .qps = 4, .bytes = 32768, .receives = true },
	{ .name = "send-small", .type = RC, .op = IBV_WR_SEND, .qps = 4, .bytes = 8, .receives = true },
	{ .name = "read-large", .type = RC, .op = IBV_WR_RDMA_READ, .qps = 4, .bytes = 32768 },
	{ .name = "read-small", .type = RC, .op = IBV_WR_RDMA_READ, .qps = 4, .bytes = 8 },
	{ .name = "atomics", .type = RC, .op = IBV_WR_ATOMIC_FETCH_AND_ADD, .qps = 4, .bytes = 8 },
	{ .name = "rnr", .type = RC, .op = IBV_WR_SEND, .qps = 64, .bytes = 4096 },
	{ .name = "dead-peers", .type = RC, .op = WRITE, .qps = 256, .bytes = 4096, .dest = NOBODY },
	{ .name = "bad-rkey", .type = RC, .op = WRITE, .qps = 8, .bytes = 64, .bad_key = true },
	{ .name = "bad-lkey", .type = RC, .op = WRITE, .qps = 8, .bytes = 64, .bad_lkey = true },
	{ .name = "bad-length", .type = RC, .op = WRITE, .qps = 8, .bytes = 4096, .beyond = true },
	{ .name = "cq-overrun", .type = RC, .op = WRITE, .qps = 8, .bytes = 8, .no_poll = true },
	{ .name = "uc-large", .type = IBV_QPT_UC, .op = WRITE, .qps = 16, .bytes = 32768 },
	{ .name = "uc-small", .type = IBV_QPT_UC, .op = WRITE, .qps = 16, .bytes = 8 },
	{ .name = "ud-small", .type = IBV_QPT_UD, .op = IBV_WR_SEND, .qps = 8, .bytes = 8, .receives = true },
	{ .name = "ud-no-receive", .type = IBV_QPT_UD, .op = IBV_WR_SEND, .qps = 8, .bytes = 1024 },
	{ .name = "ud-nobody", .type = IBV_QPT_UD, .op = IBV_WR_SEND, .qps = 8, .bytes = 1024, .dest = NOBODY },
};

static struct vt t;
static struct ibv_cq *cqs[QPS_MAX];
static struct ibv_qp *qps[QPS_MAX];
static struct ibv_ah *ah;

/** Call it again and again. */
static void
going_on(void)
{
	static uint64_t since;
	static bool said;

	if (said)
		return;
	if (since == 0)
		since = vt_now_ns();
	if (vt_now_ns() - since < BEGUN_MS * (uint64_t)NS_PER_MS)
		return;
	attack_begun();
	said = true;
}

static struct ibv_qp *
make_qp(enum ibv_qp_type type, struct ibv_cq *cq, unsigned int sges)
{
	struct ibv_qp_init_attr attr = { .qp_type = type, .send_cq = cq, .recv_cq = cq,
					 .cap = { VT_DEPTH, VT_DEPTH, sges, 1, VT_INLINE_BYTES } };
	struct ibv_qp *qp = ibv_create_qp(t.pd, &attr);

	if (qp == NULL)
		attack_die("no QP");
	return qp;
}

static void
up(struct ibv_qp *qp, uint32_t dest)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
	int mask;

	ibv_modify_qp(qp, &a, IBV_QP_STATE);
	ibv_modify_qp(qp, &a, vt_attr_init(qp, &a));
	mask = vt_attr_rtr(&t, qp, dest, &a);
	a.path_mtu = IBV_MTU_4096;
	a.min_rnr_timer = TINY_RNR;
	ibv_modify_qp(qp, &a, mask);
	mask = vt_attr_rts(qp, &a);
	if (dest == NOBODY)
		a.timeout = TINY_TIMEOUT;
	ibv_modify_qp(qp, &a, mask);
}

static int
post(const struct flood *f, struct ibv_qp *qp)
{
	struct ibv_sge sge[MANY_SGES];
	unsigned int n = f->many_sges ? MANY_SGES : f->bytes > 0;
	struct ibv_send_wr wr = { .sg_list = sge, .num_sge = (int)n, .opcode = f->op, .send_flags = IBV_SEND_SIGNALED | f->flags }, *bad;
	uint64_t remote = (uintptr_t)t.buf + VT_BUFFER_BYTES / 2 + f->odd;
	uint32_t rkey = t.mr->rkey + f->bad_key;

	for (unsigned int i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)t.buf + 97 * i + f->odd, f->bytes / n, t.mr->lkey + f->bad_lkey };
	if (f->beyond)
		remote = (uintptr_t)t.buf + VT_BUFFER_BYTES - 8;
	if (f->type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = f->dest != 0 ? f->dest : qp->qp_num;
		wr.wr.ud.remote_qkey = VT_QKEY;
	} else if (f->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(qp, &wr, &bad);
}

static void
flood(const struct flood *f)
{
	unsigned int depth = f->depth != 0 ? f->depth : VT_DEPTH / 2;
	struct ibv_ah_attr path;
	struct ibv_wc wc[VT_DEPTH];

	vt_ah_attr(&t, &path);
	ah = ibv_create_ah(t.pd, &path);
	for (unsigned int i = 0; i < f->qps; i++) {
		cqs[i] = vt_cq(&t, f->no_poll ? 1 : VT_DEPTH, NULL);
		qps[i] = make_qp(f->type, cqs[i], f->many_sges ? MANY_SGES : 1);
		up(qps[i], f->dest != 0 ? f->dest : qps[i]->qp_num);
		for (unsigned int j = 0; j < VT_DEPTH && f->receives; j++)
			vt_recv(&t, qps[i], 0);
		for (unsigned int j = 0; j < depth; j++)
			post(f, qps[i]);
	}
	for (;;) {
		going_on();
		for (unsigned int i = 0; i < f->qps; i++) {
			bool failed = false;
			int got = f->no_poll ? 0 : ibv_poll_cq(cqs[i], VT_DEPTH, wc);

			for (int j = 0; j < got; j++) {
				failed |= wc[j].status != IBV_WC_SUCCESS;
				if (failed)
					continue;
				if ((wc[j].opcode & IBV_WC_RECV) != 0)
					vt_recv(&t, qps[i], 0);
				else
					post(f, qps[i]);
			}
			if (f->no_poll)
				failed = post(f, qps[i]) != 0;
			/* As fast as errors come, the QP is there again. */
			if (failed) {
				up(qps[i], f->dest != 0 ? f->dest : qps[i]->qp_num);
				for (unsigned int j = 0; j < depth; j++)
					post(f, qps[i]);
			}
		}
	}
}

/* ---- Requests of the control thread ---- */
static void
qp_churn(void)
{
	struct ibv_qp *qp;

	if (cqs[0] == NULL)
		cqs[0] = vt_cq(&t, VT_DEPTH, NULL);
	qp = make_qp(IBV_QPT_RC, cqs[0], 1);
	up(qp, qp->qp_num);
	ibv_destroy_qp(qp);
}

static void
cq_churn(void)
{
	ibv_destroy_cq(vt_cq(&t, 4096, NULL));
}

static void
mr_churn(void)
{
	struct ibv_mr *mr = ibv_reg_mr(t.pd, t.buf, VT_BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE);

	if (mr != NULL)
		ibv_dereg_mr(mr);
}

static void
huge_churn(void)
{
	static void *huge;
	struct ibv_mr *mr;

	if (huge == NULL)
		huge = mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	mr = ibv_reg_mr(t.pd, huge, HUGE_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (mr != NULL)
		ibv_dereg_mr(mr);
}

static void
ah_churn(void)
{
	struct ibv_ah_attr path;
	struct ibv_ah *one;

	vt_ah_attr(&t, &path);
	one = ibv_create_ah(t.pd, &path);
	if (one != NULL)
		ibv_destroy_ah(one);
}

static void
pd_churn(void)
{
	ibv_dealloc_pd(ibv_alloc_pd(t.ctx));
}

static void
queries(void)
{
	struct ibv_port_attr a;

	ibv_query_port(t.ctx, VT_PORT, &a);
}

static void
open_churn(void)
{
	struct ibv_context *ctx = ibv_open_device(t.ctx->device);

	if (ctx != NULL)
		ibv_close_device(ctx);
}

static void
multicast_churn(void)
{
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 1, 2, 3 } };

	if (qps[0] == NULL) {
		qps[0] = make_qp(IBV_QPT_UD, vt_cq(&t, VT_DEPTH, NULL), 1);
		up(qps[0], 0);
	}
	ibv_attach_mcast(qps[0], &group, 0);
	ibv_detach_mcast(qps[0], &group, 0);
}

static const struct {
	const char *name;
	void (*once)(void);
} churns[] = { { "qp-churn", qp_churn },     { "cq-churn", cq_churn }, { "mr-churn", mr_churn }, { "mr-huge-churn", huge_churn },
	       { "ah-churn", ah_churn },     { "pd-churn", pd_churn }, { "queries", queries },	 { "open-churn", open_churn },
	       { "multicast-churn", multicast_churn } };

enum { FLOODS = sizeof(floods) / sizeof(floods[0]), CHURNS = sizeof(churns) / sizeof(churns[0]) };

int
main(int argc, char **argv)
{
	if (argc != 2) {
		for (unsigned int i = 0; i < FLOODS; i++)
			printf("%s\n", floods[i].name);
		for (unsigned int i = 0; i < CHURNS; i++)
			printf("%s\n", churns[i].name);
		return 0;
	}
	vt_begin(&t);
	for (unsigned int i = 0; i < FLOODS; i++)
		if (strcmp(floods[i].name, argv[1]) == 0)
			flood(&floods[i]);
	for (unsigned int i = 0; i < CHURNS; i++)
		if (strcmp(churns[i].name, argv[1]) == 0)
			for (;;) {
				going_on();
				churns[i].once();
			}
	attack_die("no such attack");
}
