/* SPDX-License-Identifier: BSD-3-Clause */
/* What completions say, and what memory holds. */
#include <arpa/inet.h>

#include "verify.h"

unsigned int nb_adds;
uint64_t bytes, operations;

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

void
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

static int
compare_adds(const void *a, const void *b)
{
	const struct shared_add *x = a, *y = b;

	return x->old < y->old ? -1 : x->old > y->old;
}

/* Everything has arrived: what our memory must look like, and what our additions to the shared word saw. */
void
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
void
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
