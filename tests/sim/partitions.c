/* SPDX-License-Identifier: BSD-3-Clause */
/* Partitions (10.9): each host is in some, as full or limited member; connections are made in one of them. */
#include "sim.h"

enum {
	STREAM_PARTITIONS = 1536,
	PARTITIONS = 3,
	PARTITION_FIRST = 0x101,
	FULL_MEMBER = 0x8000,
	ROUNDS = 8,
};

bool
pkeys_meet(uint16_t a, uint16_t b)
{
	return (a & 0x7fff) == (b & 0x7fff) && (a & 0x7fff) != 0 && (a & FULL_MEMBER || b & FULL_MEMBER);
}

void
partitions_table(struct sim_ep *ep)
{
	struct rng r = rng_stream(ep->w->cfg.seed, STREAM_PARTITIONS + ep->id);
	uint16_t first = 0;
	uint32_t i, at;

	ep->pkeys[0] = WIRE_PKEY_DEFAULT;
	for (i = 0; i < PARTITIONS && (ep->w->cfg.faults & SIM_F_PKEYS); i++) {
		do {
			at = (uint32_t)rng_between(&r, 1, UROCE_MAX_PKEYS - 1);
		} while (ep->pkeys[at] != 0);
		ep->pkeys[at] = (uint16_t)((PARTITION_FIRST + i) | (rng_one_in(&r, 3) ? 0 : FULL_MEMBER));
		/* Some are limited and full member of one partition, and not in another. */
		if (i == 0)
			first = ep->pkeys[at];
		else if (i == PARTITIONS - 1 && rng_one_in(&r, 2))
			ep->pkeys[at] = first ^ FULL_MEMBER;
	}
}

/* @return the index of the first entry for a partition; UROCE_MAX_PKEYS: there is none. */
static uint16_t
entry(const struct sim_ep *ep, uint16_t partition)
{
	uint16_t i = 0;

	while (i < UROCE_MAX_PKEYS && (ep->pkeys[i] & 0x7fff) != (partition & 0x7fff))
		i++;
	return i;
}

static uint16_t
pkey_of(const struct sim_ep *ep, uint16_t partition)
{
	uint16_t i = entry(ep, partition);

	return i < UROCE_MAX_PKEYS ? ep->pkeys[i] : 0;
}

void
partitions_choose(struct sim_world *w, struct sim_conn *c)
{
	struct rng r = rng_stream(w->cfg.seed,
				  STREAM_PARTITIONS + SIM_MAX_EPS + c->id * ROUNDS + c->qp[0].round % ROUNDS);
	uint16_t partition = WIRE_PKEY_DEFAULT;
	uint32_t i;

	if ((w->cfg.faults & SIM_F_PKEYS) && !rng_one_in(&r, 3)) {
		partition = (uint16_t)(PARTITION_FIRST + rng_below(&r, PARTITIONS));
		/* Two limited members don't hear each other. */
		if (!pkeys_meet(pkey_of(c->qp[0].ep, partition), pkey_of(c->qp[1].ep, partition)))
			partition = WIRE_PKEY_DEFAULT;
	}
	for (i = 0; i < 2; i++) {
		struct sim_qp *q = &c->qp[i];

		q->attr.pkey_index = entry(q->ep, partition);
		q->pkey = q->path.pkey = q->ep->pkeys[q->attr.pkey_index];
	}
}
