/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verify: is what arrives what was sent?
 *
 *   verify [OPTIONS]          one end
 *   verify [OPTIONS] HOST     the other one
 *
 * Both ends post WRITEs, WRITEs with immediate, SENDs, READs and atomics on several RC QPs at once, of many sizes, from and
 * to odd addresses, and check every byte: what arrives and what must not change, completions, their order, lengths and
 * immediates, what atomics return and their sums. It needs libibverbs and nothing else. Status 0: everything was right.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "verify.h"

enum {
	DEPTH = 12,     /* operations under way per QP */
	RECEIVES = 6,   /* posted per QP: fewer than may be on their way, so that some wait for the receiver */
	MAX_QPS = 64,
	MAX_READS = 4,  /* READs and atomics under way per QP */
	POLL = 16,
	PORT = 1,
	IDLE_SECONDS = 40, /* without a completion */
	RNR_TIMER = 8,  /* 160 us */
	BUFFER = PAD + PAD + MAX_LEN + PAD, /* PAD, an offset below PAD, the bytes, PAD */
};

static struct {
	const char *device;
	int gid_index, port, timeout;
	unsigned int qps, rounds;
	enum ibv_mtu mtu;
	uint64_t seed;
	unsigned int end; /* 0: the one that waits, 1: the one that calls */
} o = { .gid_index = 1, .port = 18515, .timeout = 14, .qps = 4, .rounds = 8, .mtu = IBV_MTU_1024, .seed = 1 };

/* Memory that the device reads and writes, per QP. */
struct area {
	uint8_t send[DEPTH][BUFFER], recv[RECEIVES][BUFFER], imm[OPS][BUFFER];
	uint8_t target[PAD + TARGET_LEN + PAD], source[SOURCE_LEN];
	uint64_t word; /* of this QP's atomics */
};

struct memory {
	uint64_t shared; /* the word of all QPs */
	struct area areas[];
};

/* What WRITEs did, or must have done, on a QP. */
struct shadow {
	uint8_t target[TARGET_LEN];
};

/* A QP and what is known of it. */
struct conn {
	unsigned int index;
	struct ibv_qp *qp;
	struct area *area;
	struct gen mine, theirs;
	struct shadow *sent, *got;      /* the target there, and here */
	struct op ops[DEPTH];
	uint8_t *expect[DEPTH];         /* what a READ of the target must find */
	unsigned int posted, complete;  /* operations */
	unsigned int receives_posted, received;
	unsigned int round_end;         /* number of the first operation of the next round */
	unsigned int receives_due;      /* received when the round is over */
	uint64_t remote_area;
};

/* What an end tells the other. Both are machines of one kind. */
struct hello {
	uint64_t seed, shared;
	uint32_t qps, rounds, mtu, rkey;
	union ibv_gid gid;
	struct {
		uint64_t area;
		uint32_t qpn, psn;
	} qp[MAX_QPS];
};

struct shared_add {
	uint64_t old, add;
};

static int sock;
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct memory *memory;
static struct hello me, peer;
static struct conn conns[MAX_QPS];
static struct shared_add *adds;
static unsigned int nb_adds;
static uint64_t bytes, operations;

#define DIE(...) \
	do { \
		printf("verify: "); \
		printf(__VA_ARGS__); \
		printf("\n"); \
		exit(1); \
	} while (0)
#define MUST(cond) \
	do { \
		if (!(cond)) \
			DIE("line %d: " #cond ": %s", __LINE__, strerror(errno)); \
	} while (0)
/* For calls that return an errno value. */
#define CALL(call) \
	do { \
		errno = call; \
		MUST(errno == 0); \
	} while (0)

static void *
alloc(size_t n)
{
	void *p = calloc(1, n);

	MUST(p != NULL);
	return p;
}

/* ---- The other end ---- */
static void
meet(const char *host)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE, .ai_family = AF_INET }, *ai;
	char port[8];
	int rc, one = 1, listener;

	snprintf(port, sizeof(port), "%d", o.port);
	rc = getaddrinfo(host, port, &hints, &ai);
	if (rc != 0)
		DIE("%s: %s", host, gai_strerror(rc));
	MUST((sock = socket(ai->ai_family, ai->ai_socktype, 0)) >= 0);
	if (host != NULL) {
		for (int tries = 0; connect(sock, ai->ai_addr, ai->ai_addrlen) != 0; tries++) {
			MUST(tries < 100);
			usleep(50000);
		}
	} else {
		listener = sock;
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		MUST(bind(listener, ai->ai_addr, ai->ai_addrlen) == 0 && listen(listener, 1) == 0);
		MUST((sock = accept(listener, NULL, NULL)) >= 0);
		close(listener);
	}
	freeaddrinfo(ai);
}

static void
exchange(const void *mine, void *theirs, size_t n)
{
	MUST(send(sock, mine, n, MSG_NOSIGNAL) == (ssize_t)n);
	if (recv(sock, theirs, n, MSG_WAITALL) != (ssize_t)n)
		DIE("the other end is gone");
}

static void
barrier(void)
{
	char c = 0;

	exchange(&c, &c, 1);
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

static void
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

static void
set_up(void)
{
	size_t n = sizeof(*memory) + o.qps * sizeof(struct area);

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

static uint8_t *
op_buffer(struct conn *c, const struct op *op)
{
	return c->area->send[op->number % DEPTH] + PAD + op->local_offset;
}

static void
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

/* ---- Checking ---- */
static void __attribute__((noreturn))
wrong(const struct conn *c, const struct op *op, const char *what, long at)
{
	DIE("QP %u: operation %u, %s of %u bytes: %s (byte %ld)", c->index, op->number, op_names[op->kind], op->len, what, at);
}

/* A buffer of BUFFER bytes holds @n bytes of @want at @at, and nothing else was written. */
static void
check_buffer(const struct conn *c, const struct op *op, const uint8_t *buf, size_t at, const uint8_t *want, size_t n)
{
	long bad = differs(buf + at, want, n);

	if (bad >= 0)
		wrong(c, op, "has another content", bad);
	if (not_all(buf, CANARY, at) >= 0 || not_all(buf + at + n, CANARY, BUFFER - at - n) >= 0)
		wrong(c, op, "wrote beside its buffer", -1);
	bytes += n;
}

static void
check_atomic(struct conn *c, const struct op *op)
{
	uint64_t old;

	memcpy(&old, op_buffer(c, op), sizeof(old));
	if (op->kind == OP_SHARED_ADD)
		adds[nb_adds++] = (struct shared_add){ old, op->add };
	else if (old != op->old)
		DIE("QP %u: operation %u, %s: found %#lx, it must have been %#lx", c->index, op->number, op_names[op->kind],
		    (unsigned long)old, (unsigned long)op->old);
	check_buffer(c, op, c->area->send[op->number % DEPTH], PAD + op->local_offset, (uint8_t *)&old, sizeof(old));
}

static void
check_done(struct conn *c, const struct op *op)
{
	static uint8_t want[MAX_LEN];
	const uint8_t *expect = want;

	operations++;
	if (op->kind >= OP_FETCH_ADD) {
		check_atomic(c, op);
		return;
	}
	if (op->kind == OP_READ_TARGET) {
		expect = c->expect[op->number % DEPTH];
	} else if (op->kind == OP_READ_SOURCE) {
		static uint8_t source[SOURCE_LEN];

		fill(source, source_key(o.seed, !o.end, c->index), SOURCE_LEN);
		expect = source + op->offset;
	} else {
		fill(want, op->key, op->len);
	}
	check_buffer(c, op, c->area->send[op->number % DEPTH], PAD + op->local_offset, expect, op->len);
}

static const enum ibv_wc_opcode wc_opcodes[OP_KINDS] = {
	IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND, IBV_WC_SEND, IBV_WC_RDMA_READ, IBV_WC_RDMA_READ,
	IBV_WC_FETCH_ADD, IBV_WC_FETCH_ADD, IBV_WC_COMP_SWAP,
};

/* A completion stands for the unsignalled operations before it as well. */
static void
take_send(struct conn *c, const struct ibv_wc *wc)
{
	const struct op *op = &c->ops[wc->wr_id % DEPTH];

	if (wc->wr_id < c->complete || wc->wr_id >= c->posted)
		DIE("QP %u: completion of operation %lu, complete were %u, posted %u", c->index, (unsigned long)wc->wr_id,
		    c->complete, c->posted);
	if (wc->opcode != wc_opcodes[op->kind])
		wrong(c, op, "completes with another opcode", wc->opcode);
	for (; c->complete <= wc->wr_id; c->complete++) {
		op = &c->ops[c->complete % DEPTH];
		if (op->signalled && c->complete != wc->wr_id)
			wrong(c, op, "has no completion", -1);
		check_done(c, op);
	}
	if (!op->signalled)
		wrong(c, op, "has a completion that it didn't ask for", -1);
}

/* Draw the other end's operations up to one that takes a receive. @return false: there is none in this round. */
static bool
follow(struct conn *c, struct op *op)
{
	while (c->theirs.number < c->round_end) {
		*op = gen_next(&c->theirs);
		if (op->kind == OP_WRITE)
			fill(c->got->target + op->offset, op->key, op->len);
		if (op_takes_receive(op))
			return true;
	}
	return false;
}

static void
take_receive(struct conn *c, const struct ibv_wc *wc)
{
	static uint8_t want[MAX_LEN];
	bool has_imm = wc->wc_flags & IBV_WC_WITH_IMM;
	uint8_t *buf = c->area->recv[wc->wr_id % RECEIVES];
	struct op op;

	if (wc->wr_id != c->received++)
		DIE("QP %u: receive %lu completes as the %uth", c->index, (unsigned long)wc->wr_id, c->received);
	if (!follow(c, &op))
		DIE("QP %u: a receive completes, but nothing more was sent", c->index);
	if (wc->opcode != (op.kind == OP_WRITE_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV))
		wrong(c, &op, "arrives with another opcode", wc->opcode);
	if (wc->byte_len != op.len)
		wrong(c, &op, "arrives with another length", wc->byte_len);
	if (has_imm != (op.kind != OP_SEND) || (has_imm && ntohl(wc->imm_data) != op.imm))
		wrong(c, &op, "arrives with another immediate", -1);
	fill(want, op.key, op.len);
	if (op.kind == OP_WRITE_IMM) {
		check_buffer(c, &op, buf, PAD, want, 0);
		buf = c->area->imm[op.number % OPS];
		check_buffer(c, &op, buf, PAD + op.offset, want, op.len);
		memset(buf, CANARY, BUFFER);
	} else {
		check_buffer(c, &op, buf, PAD, want, op.len);
	}
	post_receive(c);
}

static void
take(const struct ibv_wc *wc)
{
	struct conn *c = NULL;

	for (unsigned int i = 0; i < o.qps; i++)
		if (conns[i].qp->qp_num == wc->qp_num)
			c = &conns[i];
	if (c == NULL)
		DIE("a completion of QP %#x, which isn't ours", wc->qp_num);
	if (wc->status != IBV_WC_SUCCESS)
		DIE("QP %u: operation %lu: %s, vendor error %u", c->index, (unsigned long)wc->wr_id,
		    ibv_wc_status_str(wc->status), wc->vendor_err);
	if (wc->opcode & IBV_WC_RECV)
		take_receive(c, wc);
	else
		take_send(c, wc);
}

/* ---- A round ---- */
static void
begin_round(struct conn *c)
{
	struct gen ahead = c->theirs;

	c->round_end += OPS;
	while (ahead.number < c->round_end) {
		struct op op = gen_next(&ahead);

		c->receives_due += op_takes_receive(&op);
	}
}

/* Post what there is room for. @return true: everything of this round has been posted, is complete and has arrived. */
static bool
advance(struct conn *c)
{
	while (c->posted < c->round_end && c->posted - c->complete < DEPTH)
		post_op(c);
	return c->complete == c->round_end && c->received == c->receives_due;
}

static void
run_round(void)
{
	time_t last = time(NULL);
	struct ibv_wc wc[POLL];
	bool done = false;
	int n;

	for (unsigned int i = 0; i < o.qps; i++)
		begin_round(&conns[i]);
	while (!done) {
		done = true;
		for (unsigned int i = 0; i < o.qps; i++)
			done &= advance(&conns[i]);
		n = ibv_poll_cq(cq, POLL, wc);
		MUST(n >= 0);
		for (int i = 0; i < n; i++)
			take(&wc[i]);
		if (n > 0)
			last = time(NULL);
		else
			sched_yield();
		for (unsigned int i = 0; i < o.qps && time(NULL) - last > IDLE_SECONDS; i++)
			if (!advance(&conns[i]))
				DIE("QP %u: nothing happens: %u operations posted, %u complete, %u of %u received",
				    conns[i].index, conns[i].posted, conns[i].complete, conns[i].received,
				    conns[i].receives_due);
	}
}

static int
compare_adds(const void *a, const void *b)
{
	const struct shared_add *x = a, *y = b;

	return x->old < y->old ? -1 : x->old > y->old;
}

/* Everything has arrived: what our memory must look like, and what our additions to the shared word saw. */
static void
check_memory(void)
{
	uint64_t sum = 0, seen = 0;
	struct op op;

	for (unsigned int i = 0; i < o.qps; i++) {
		struct conn *c = &conns[i];
		struct area *a = c->area;
		long bad;

		if (follow(c, &op))
			DIE("QP %u: operation %u took no receive", c->index, op.number);
		bad = differs(a->target + PAD, c->got->target, TARGET_LEN);
		if (bad >= 0)
			DIE("QP %u: byte %ld of what was written is wrong", c->index, bad);
		if (not_all(a->target, CANARY, PAD) >= 0 || not_all(a->target + PAD + TARGET_LEN, CANARY, PAD) >= 0)
			DIE("QP %u: something was written beside the target", c->index);
		if (a->word != c->theirs.word)
			DIE("QP %u: its word is %#lx, must be %#lx", c->index, (unsigned long)a->word,
			    (unsigned long)c->theirs.word);
		sum += c->theirs.shared_sum;
	}
	if (memory->shared != sum)
		DIE("the word of all QPs is %lu, the sum of what was added %lu", (unsigned long)memory->shared,
		    (unsigned long)sum);
	qsort(adds, nb_adds, sizeof(*adds), compare_adds);
	for (unsigned int i = 0; i < nb_adds; i++) {
		if (adds[i].old != seen)
			DIE("addition %u to the word of all QPs saw %lu, must have seen %lu", i,
			    (unsigned long)adds[i].old, (unsigned long)seen);
		seen += adds[i].add;
	}
}

/* What nobody may have touched. */
static void
check_sources(void)
{
	static uint8_t want[SOURCE_LEN];

	for (unsigned int i = 0; i < o.qps; i++) {
		fill(want, source_key(o.seed, o.end, i), SOURCE_LEN);
		if (differs(conns[i].area->source, want, SOURCE_LEN) >= 0)
			DIE("QP %u: something was written where only READs go", i);
		for (unsigned int k = 0; k < OPS; k++)
			if (not_all(conns[i].area->imm[k], CANARY, BUFFER) >= 0)
				DIE("QP %u: something was written into an empty buffer", i);
	}
}

static void
tear_down(void)
{
	for (unsigned int i = 0; i < o.qps; i++)
		CALL(ibv_destroy_qp(conns[i].qp));
	CALL(ibv_dereg_mr(mr));
	CALL(ibv_destroy_cq(cq));
	CALL(ibv_dealloc_pd(pd));
	CALL(ibv_close_device(ctx));
}

static const char usage[] =
	"verify [-d DEVICE] [-x GID_INDEX] [-p TCP_PORT] [-q QPS] [-n ROUNDS] [-m MTU] [-s SEED] [-u TIMEOUT] [HOST]\n"
	"  Two of them, the second with the first one's HOST, the same options: each checks what arrives.\n";

static unsigned long
number(const char *option, const char *text, unsigned long min, unsigned long max)
{
	char *end;
	unsigned long v = strtoul(text, &end, 0);

	if (*text == '\0' || *end != '\0' || v < min || v > max)
		DIE("-%s %s: must be a number from %lu to %lu", option, text, min, max);
	return v;
}

static const char *
options(int argc, char **argv)
{
	unsigned long bytes_of_mtu;
	int opt;

	while ((opt = getopt(argc, argv, "d:x:p:q:n:m:s:u:h")) != -1) {
		switch (opt) {
		case 'd': o.device = optarg; break;
		case 'x': o.gid_index = (int)number("x", optarg, 0, 255); break;
		case 'p': o.port = (int)number("p", optarg, 1, 65535); break;
		case 'q': o.qps = (unsigned int)number("q", optarg, 1, MAX_QPS); break;
		case 'n': o.rounds = (unsigned int)number("n", optarg, 1, 100000); break;
		case 's': o.seed = number("s", optarg, 0, UINT32_MAX); break;
		case 'u': o.timeout = (int)number("u", optarg, 1, 31); break;
		case 'm':
			bytes_of_mtu = number("m", optarg, 256, 4096);
			for (o.mtu = IBV_MTU_256; 128ul << o.mtu < bytes_of_mtu; o.mtu++)
				;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	return argv[optind];
}

int
main(int argc, char **argv)
{
	const char *host = options(argc, argv);

	setvbuf(stdout, NULL, _IOLBF, 0);
	o.end = host != NULL;
	meet(host);
	open_device();
	set_up();
	for (unsigned int round = 0; round < o.rounds; round++) {
		run_round();
		barrier(); /* theirs has arrived as well */
		check_memory();
		barrier(); /* nobody writes while somebody looks */
	}
	check_sources();
	tear_down();
	printf("verify: %lu operations of %u QPs were right, %lu bytes compared\n", (unsigned long)operations, o.qps,
	       (unsigned long)bytes);
	return 0;
}
