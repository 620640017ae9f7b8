/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two ends that lose packets, and know from a loss that both repeat selectively.
 */
#ifndef UROCE_TEST_SELECTIVE_RIG_H
#define UROCE_TEST_SELECTIVE_RIG_H

#include "rig.h"
#include "transport/req/scoreboard_priv.h"

enum { KIB = 1024, OFFER_PSN_AGE = SACK_OFFER_BEHIND };

/** The payload of a SACK for a's offer, with an AETH before it; only @c bits[0] to [3] of the bitmap are left to be set. */
struct hand_sack {
	uint8_t bytes[WIRE_AETH_BYTES + SACK_PAYLOAD_BYTES];
};

static inline void
hand_sack_bits(struct hand_sack *s, uint32_t word, uint64_t bits)
{
	wire_put64(s->bytes + WIRE_AETH_BYTES + SACK_BITMAP + 8 * word, bits);
}

static inline struct hand_sack
hand_sack(const struct rig *r)
{
	struct hand_sack s = { { WIRE_AETH_CREDITS_INVALID } };

	wire_put32(s.bytes + WIRE_AETH_BYTES, SACK_MAGIC);
	wire_put24(s.bytes + WIRE_AETH_BYTES + SACK_NONCE, r->a->qp->req.sack_nonce);
	s.bytes[WIRE_AETH_BYTES + SACK_MARK] = r->b->qp->rcv.sack_mark;
	return s;
}

static inline void
hand_sack_inject(struct rig *r, const struct hand_sack *s, uint32_t psn)
{
	pair_inject(r->p, r->a, &(struct wire_bth){ .opcode = WIRE_OPCODE_SACK, .psn = psn, .migreq = true }, s->bytes,
		    sizeof(s->bytes));
}

static inline void
up(struct rig *r, struct loss *l)
{
	rig_up(r, NULL, NULL);
	r->p->lose = l != NULL ? lose : NULL;
	r->p->lose_arg = l;
}

/* One loss, so that the ends have found each other. */
static inline void
find_each_other(struct rig *r, struct loss *l)
{
	*l = (struct loss){ .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 2, .count = 1 };
	up(r, l);
	rig_write(r, 1, 0, 8 * KIB);
	pair_settle(r->p);
	expect_cqe(&r->a->scq, 1, UROCE_WC_SUCCESS);
	assert_true(r->b->qp->rcv.sack_on);
	r->p->nb_log = 0;
}

#endif /* UROCE_TEST_SELECTIVE_RIG_H */
