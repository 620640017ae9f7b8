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
