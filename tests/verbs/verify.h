/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of `verify` share, and what both ends know without asking each other: from a seed, an end and a QP follows
 * the sequence of its operations, and what every byte must be. The end that posts them draws them to post, the other one to
 * check.
 *
 * verify.c        options, the other end, rounds
 * verify_ops.c    the operations, and what bytes are
 * verify_qp.c     QPs and posting
 * verify_check.c  completions and memory
 */
#ifndef VERIFY_H
#define VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

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

/* The options. */
struct options {
	const char *device;
	int gid_index, port, timeout;
	unsigned int qps, rounds;
	enum ibv_mtu mtu;
	uint64_t seed;
	unsigned int end; /* 0: the one that waits, 1: the one that calls */
};

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

extern struct options o;
extern struct ibv_cq *cq;
extern struct ibv_mr *mr;
extern struct memory *memory;
extern struct hello me, peer;
extern struct conn conns[MAX_QPS];
/* Our additions to the other end's shared word. */
extern struct shared_add *adds;
extern unsigned int nb_adds;
/* What was found right. */
extern uint64_t bytes, operations;

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

/* verify.c */
void exchange(const void *mine, void *theirs, size_t n);
bool barrier(void);

/* verify_qp.c */
void set_up(void);
void tear_down(void);
void post_receive(struct conn *c);
void post_op(struct conn *c);
uint8_t *op_buffer(struct conn *c, const struct op *op);

/* verify_check.c */
/* Check a completion and what it stands for. */
void take(const struct ibv_wc *wc);
/* Everything of this round has arrived: what our memory must look like, and what our additions to the shared word saw. */
void check_memory(void);
/* What nobody may have touched. */
void check_sources(void);

#endif
