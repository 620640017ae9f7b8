/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * victim MS [KIND...]: an honest program that does one thing after the other for MS milliseconds each, and prints for each: its name, operations per second, and
 * the 99th percentile of the time between posting and completion in microseconds. Its QPs send to themselves.
 */
#include "stuck.h"
#include "vt.h"

enum {
	US_MAX = 200000, /* longer ones count as this */
	RECEIVES = VT_DEPTH,
	SLOT_NS = 1000,
	NS_PER_MS = 1000000,
};

struct kind {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode op;
	unsigned int bytes, depth; /* depth 0: a QP is made, connected and destroyed */
	bool receives;
};

static const struct kind kinds[] = {
	{ "write-bw", IBV_QPT_RC, IBV_WR_RDMA_WRITE, 32768, 16, false },
	{ "read-bw", IBV_QPT_RC, IBV_WR_RDMA_READ, 32768, 16, false },
	{ "send-bw", IBV_QPT_RC, IBV_WR_SEND, 32768, 16, true },
	{ "write-rate", IBV_QPT_RC, IBV_WR_RDMA_WRITE, 8, 32, false },
	{ "send-rate", IBV_QPT_RC, IBV_WR_SEND, 8, 32, true },
	{ "send-lat", IBV_QPT_RC, IBV_WR_SEND, 8, 1, true },
	{ "atomics", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 16, false },
	{ "ud-rate", IBV_QPT_UD, IBV_WR_SEND, 64, 32, true },
	{ "connect", IBV_QPT_RC, IBV_WR_SEND, 0, 0, false },
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static struct vt t;
static uint32_t histogram[US_MAX + 1];
static uint64_t posted_ns[VT_DEPTH];
static struct ibv_ah *ah;

static void
post(const struct kind *k, struct ibv_qp *qp, unsigned int slot)
{
	struct ibv_sge sge = { (uintptr_t)t.buf, k->bytes, t.mr->lkey };
	struct ibv_send_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1, .opcode = k->op, .send_flags = IBV_SEND_SIGNALED }, *bad;

	if (ah != NULL) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qp->qp_num;
		wr.wr.ud.remote_qkey = VT_QKEY;
	} else if (k->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)t.buf + VT_BUFFER_BYTES / 2;
		wr.wr.atomic.rkey = t.mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)t.buf + VT_BUFFER_BYTES / 2;
		wr.wr.rdma.rkey = t.mr->rkey;
	}
	posted_ns[slot] = vt_now_ns();
	if (ibv_post_send(qp, &wr, &bad) != 0)
		vt_die("ibv_post_send");
}

static void
took(uint64_t ns)
{
	ns /= SLOT_NS;
	histogram[ns < US_MAX ? ns : US_MAX]++;
}

static uint64_t
traffic(const struct kind *k, uint64_t end)
{
	struct ibv_cq *cq = vt_cq(&t, 4 * VT_DEPTH, NULL);
	struct ibv_qp *qp = vt_qp(&t, k->type, cq, cq);
	struct ibv_wc wc[VT_DEPTH];
	struct ibv_ah_attr path;
	uint64_t n = 0, now;

	vt_ah_attr(&t, &path);
	ah = k->type == IBV_QPT_UD ? ibv_create_ah(t.pd, &path) : NULL;
	vt_connect(&t, qp, qp);
	for (unsigned int i = 0; i < RECEIVES && k->receives; i++)
		vt_recv(&t, qp, 0);
	for (unsigned int i = 0; i < k->depth; i++)
		post(k, qp, i);
	while ((now = vt_now_ns()) < end) {
		int got = ibv_poll_cq(cq, VT_DEPTH, wc);

		for (int i = 0; i < got; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				vt_die(ibv_wc_status_str(wc[i].status));
			if ((wc[i].opcode & IBV_WC_RECV) != 0) {
				vt_recv(&t, qp, 0);
				continue;
			}
			took(now - posted_ns[wc[i].wr_id]);
			n++;
			post(k, qp, (unsigned int)wc[i].wr_id);
		}
	}
	vt_destroy_qp(qp);
	vt_destroy_cq(cq);
	if (ah != NULL)
		ibv_destroy_ah(ah);
	return n;
}

static uint64_t
connections(uint64_t end)
{
	struct ibv_cq *cq = vt_cq(&t, VT_DEPTH, NULL);
	uint64_t n = 0, since;

	while ((since = vt_now_ns()) < end) {
		struct ibv_qp *qp = vt_qp(&t, IBV_QPT_RC, cq, cq);

		vt_connect(&t, qp, qp);
		vt_destroy_qp(qp);
		took(vt_now_ns() - since);
		n++;
	}
	vt_destroy_cq(cq);
	return n;
}

static void
measure(const struct kind *k, uint64_t ms)
{
	uint64_t start = vt_now_ns(), n, seen = 0;
	unsigned int us = 0;

	memset(histogram, 0, sizeof(histogram));
	n = k->depth == 0 ? connections(start + ms * NS_PER_MS) : traffic(k, start + ms * NS_PER_MS);
	while (us < US_MAX && seen + histogram[us] < n - n / 100)
		seen += histogram[us++];
	printf("%s %.1f %u\n", k->name, (double)n * 1000 / (double)ms, us);
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	uint64_t ms = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;

	if (ms == 0)
		attack_die("usage: victim MS [KIND...]");
	vt_begin(&t);
	for (int i = 0; i < KINDS; i++) {
		bool chosen = argc == 2;

		for (int j = 2; j < argc; j++)
			chosen |= strcmp(argv[j], kinds[i].name) == 0;
		if (chosen)
			measure(&kinds[i], ms);
	}
	return vt_failed;
}
