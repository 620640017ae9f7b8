/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "verify.h"

const char *const op_names[OP_KINDS] = {
	[OP_WRITE] = "WRITE", [OP_WRITE_IMM] = "WRITE_WITH_IMM", [OP_SEND] = "SEND", [OP_SEND_IMM] = "SEND_WITH_IMM",
	[OP_READ_SOURCE] = "READ", [OP_READ_TARGET] = "READ of what was written", [OP_FETCH_ADD] = "FETCH_AND_ADD",
	[OP_SHARED_ADD] = "FETCH_AND_ADD to the word of all QPs", [OP_CMP_SWAP] = "CMP_AND_SWAP",
};

/* Of 16 operations. */
static const enum kind mix[16] = {
	OP_WRITE, OP_WRITE, OP_WRITE, OP_WRITE_IMM, OP_WRITE_IMM, OP_SEND, OP_SEND, OP_SEND_IMM, OP_READ_SOURCE,
	OP_READ_SOURCE, OP_READ_TARGET, OP_READ_TARGET, OP_FETCH_ADD, OP_SHARED_ADD, OP_SHARED_ADD, OP_CMP_SWAP,
};

static uint64_t
mix64(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t
draw(struct gen *g)
{
	return mix64(g->rng += UINT64_C(0x9e3779b97f4a7c15));
}

static uint32_t
below(struct gen *g, uint32_t n)
{
	return (uint32_t)(draw(g) % n);
}

void
gen_start(struct gen *g, uint64_t seed, unsigned int end, unsigned int qp)
{
	*g = (struct gen){ .rng = mix64(seed + 1) ^ mix64((uint64_t)end << 32 | (qp + 1)) };
	g->key = draw(g);
}

uint64_t
source_key(uint64_t seed, unsigned int end, unsigned int qp)
{
	return mix64(seed ^ UINT64_C(0x5072ce)) + ((uint64_t)end << 40 | (uint64_t)qp << 20);
}

/* Nothing, a few bytes, about as many as some packets hold, anything. */
static uint32_t
draw_len(struct gen *g)
{
	uint32_t packets;

	switch (below(g, 8)) {
	case 0:
		return 0;
	case 1:
	case 2:
		return below(g, 129);
	case 3:
	case 4:
		packets = 1 + below(g, 9);
		return packets * (256u << below(g, 5)) - 2 + below(g, 5);
	default:
		return below(g, MAX_LEN + 1);
	}
}

static void
draw_atomic(struct gen *g, struct op *op)
{
	op->len = 8;
	op->nb_sge = 1;
	op->local_offset &= ~7u;
	op->old = g->word;
	op->add = op->swap = draw(g);
	if (op->kind == OP_CMP_SWAP) {
		op->compare = below(g, 2) ? g->word : draw(g);
		if (op->compare == g->word)
			g->word = op->swap;
	} else if (op->kind == OP_FETCH_ADD) {
		g->word += op->add;
	} else {
		/* Small and positive, so that the values seen have one order. */
		op->add = 1 + below(g, 1000);
		g->shared_sum += op->add;
	}
}

static bool
is_atomic(enum kind k)
{
	return k == OP_FETCH_ADD || k == OP_SHARED_ADD || k == OP_CMP_SWAP;
}

struct op
gen_next(struct gen *g)
{
	struct op op = { .kind = mix[below(g, 16)], .number = g->number++ };
	uint32_t a, b;

	op.key = g->key + ((uint64_t)op.number << 20);
	op.imm = (uint32_t)draw(g);
	op.len = draw_len(g);
	if (op.len > MAX_LEN)
		op.len = MAX_LEN;
	op.local_offset = below(g, PAD);
	op.nb_sge = 1 + below(g, MAX_SGE);
	a = below(g, op.len + 1);
	b = below(g, op.len + 1);
	op.split[0] = a < b ? a : b;
	op.split[1] = a < b ? b : a;
	op.fence = g->read_target || below(g, 16) == 0;
	op.solicited = below(g, 2);
	op.is_inline = op.kind <= OP_SEND_IMM && op.len <= INLINE_LEN;
	/* The last of a round says that all are done. */
	op.signalled = below(g, 3) == 0 || op.number % 4 == 3;
	if (is_atomic(op.kind))
		draw_atomic(g, &op);
	else if (op.kind == OP_WRITE || op.kind == OP_READ_TARGET)
		op.offset = below(g, TARGET_LEN - op.len + 1);
	else if (op.kind == OP_READ_SOURCE)
		op.offset = below(g, SOURCE_LEN - op.len + 1);
	else
		op.offset = below(g, PAD);
	/* A WRITE may pass a READ before it, unless it is fenced (11.5.2, table of ordering rules). */
	g->read_target = op.kind == OP_READ_TARGET;
	return op;
}

bool
op_takes_receive(const struct op *op)
{
	return op->kind == OP_WRITE_IMM || op->kind == OP_SEND || op->kind == OP_SEND_IMM;
}

void
fill(uint8_t *p, uint64_t key, size_t n)
{
	for (size_t i = 0; i < n; i += 8) {
		uint64_t v = mix64(key + i / 8 + 1);

		memcpy(p + i, &v, n - i < 8 ? n - i : 8);
	}
}

long
differs(const uint8_t *p, const uint8_t *want, size_t n)
{
	if (memcmp(p, want, n) == 0)
		return -1;
	for (size_t i = 0;; i++)
		if (p[i] != want[i])
			return (long)i;
}

long
not_all(const uint8_t *p, uint8_t value, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value)
			return (long)i;
	return -1;
}
