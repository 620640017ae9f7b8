/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * uroce as one endpoint of a capture: its QP, its memory and its program, all inferred from what the endpoint sent and
 * was asked for. Owned by one test; one thread, a clock that moves a microsecond a turn.
 */
#ifndef UROCE_TEST_REPLAY_PLAYER_H
#define UROCE_TEST_REPLAY_PLAYER_H

#include <stdlib.h>
#include <string.h>

#include "pair.h"
#include "replay.h"

enum {
	DEPTH = 1024,
	REGIONS = 8,
	SENT_MAX = 4096,
	ATOMIC_BYTES = 8,
};

/** Memory that the peer reads, writes, or does atomics to. */
struct region {
	uint32_t rkey; /* in the capture */
	uint64_t lo, hi;
	uint8_t *mem;
	struct mr *mr;
};

struct sent {
	uint8_t frame[WIRE_MAX_FRAME_BYTES];
	struct wire_pkt p;
};

struct player {
	const struct capture *c;
	const struct flow *f;
	unsigned int side;
	struct pair *pair;
	struct host *h;
	struct end *e;
	struct region regions[REGIONS];
	uint32_t nb_regions;
	uint8_t *area;           /* what is sent and what READs bring */
	struct mr *area_mr;
	uint32_t area_used;
	uint8_t *in;             /* a slot for each message that is received */
	struct mr *in_mr;
	uint32_t in_slot, received;
	uint32_t ah;
	unsigned int mtu_shift;
	uint32_t next_psn;       /* of the recorded endpoint's requests */
	uint32_t posted;
	uint32_t first_psn[DEPTH], end_psn[DEPTH]; /* of each message posted */
	const uint8_t *buf[DEPTH];
	uint32_t acked_psn;      /* the last PSN that the peer answered */
	uint32_t peer_psn;       /* what the peer sends next, if nothing again */
	bool peer_began;
	uint32_t acked_msn;      /* the last MSN that the peer sent */
	struct sent *sent;
	uint32_t nb_sent, compared;
	uint32_t sent_psn;       /* of our last request */
	uint64_t write_va;       /* where the peer's WRITE goes on */
	struct region *write_region;
};

static inline const struct record *
record(const struct player *pl, uint32_t i)
{
	return &pl->c->records[i];
}

static inline bool
ours(const struct player *pl, const struct record *r)
{
	return r->side == pl->side;
}

/** Everything ready: the QP is in RTS, receives are posted. */
void player_up(struct player *pl);
void player_down(struct player *pl);
/** Let uroce do what it can; what it sends goes to pl->sent. */
void turn(struct player *pl);
/**
 * A packet of the peer's, as it was recorded but for QPN and key.
 * @param psn_msn  Another PSN and MSN of an ACK, or NULL
 */
void inject(struct player *pl, const struct record *r, const uint32_t *psn_msn);
/** Post the message that begins with record @p first. */
void post(struct player *pl, uint32_t first);
/** @return the memory that a key of the capture opens. */
struct region *find_region(struct player *pl, uint32_t rkey);

#endif /* UROCE_TEST_REPLAY_PLAYER_H */
