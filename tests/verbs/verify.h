/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What both ends of `verify` know without asking each other: from a seed, an end and a QP follows the sequence of its
 * operations, and what every byte must be. The end that posts them draws them to post, the other one to check.
 */
#ifndef VERIFY_H
#define VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MAX_LEN = 40000,       /* of a message */
	PAD = 64,              /* beside every buffer: must stay as it is */
	OPS = 32,              /* per QP and round */
	TARGET_LEN = 160000,   /* what WRITEs of a QP overwrite again and again */
	SOURCE_LEN = 100000,   /* what READs of a QP read and nobody writes */
	INLINE_LEN = 64,
	MAX_SGE = 3,
	CANARY = 0xa5,
};

enum kind { OP_WRITE, OP_WRITE_IMM, OP_SEND, OP_SEND_IMM, OP_READ_SOURCE, OP_READ_TARGET, OP_FETCH_ADD, OP_SHARED_ADD,
	    OP_CMP_SWAP, OP_KINDS };

extern const char *const op_names[OP_KINDS];

/* One operation. */
struct op {
	enum kind kind;
	uint32_t number;       /* of the QP's */
	uint32_t len;
	uint32_t offset;       /* at the other end: in the target, the source or the imm slot */
	uint32_t local_offset; /* of the buffer here: odd addresses as well */
	uint32_t split[MAX_SGE - 1]; /* where an SGE ends */
	unsigned int nb_sge;
	uint32_t imm;
	uint64_t key;          /* of the payload */
	uint64_t add, compare, swap;
	uint64_t old;          /* what the atomic must return; unknown for OP_SHARED_ADD */
	bool fence, signalled, is_inline, solicited;
};

/* The operations of one QP of one end. */
struct gen {
	uint64_t rng;
	uint32_t number;
	bool read_target;      /* the last one read what the next one may overwrite */
	uint64_t word;         /* the QP's own word at the other end, after all so far */
	uint64_t shared_sum;   /* what it added to the word of all QPs */
	uint64_t key;
};

void gen_start(struct gen *g, uint64_t seed, unsigned int end, unsigned int qp);
struct op gen_next(struct gen *g);
/* Does the other end get a receive completion? */
bool op_takes_receive(const struct op *op);
/* Bytes [from, from + n) of the stream that @key means. */
void fill(uint8_t *p, uint64_t key, size_t n);
/* What READs find in the source area of a QP. */
uint64_t source_key(uint64_t seed, unsigned int end, unsigned int qp);
/* @return where the first byte of @p that isn't @want's is, or -1. */
long differs(const uint8_t *p, const uint8_t *want, size_t n);
/* @return where the first byte that isn't @value is, or -1. */
long not_all(const uint8_t *p, uint8_t value, size_t n);

#endif
