/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two UD QPs, and a buffer whose first half is the sender's.
 */
#ifndef UROCE_TEST_UD_RIG_H
#define UROCE_TEST_UD_RIG_H

#include "rig.h"

enum { QKEY = 0x11111111, UD_HALF = 32768 };

struct ud_rig {
	struct pair *p;
	struct end *a, *b;
	uint8_t *buf;
	struct mr *amr, *bmr;
	uint32_t ah;
};

static inline void
ud_up(struct ud_rig *r, bool v6, uint32_t max_mtu)
{
	r->p = pair_new();
	r->a = end_new(&r->p->h[0], &(struct end_opts){ .type = UROCE_QPT_UD, .max_mtu = max_mtu });
	r->b = end_new(&r->p->h[1], &(struct end_opts){ .type = UROCE_QPT_UD, .max_mtu = max_mtu });
	r->buf = calloc(2, UD_HALF);
	r->amr = host_mr(&r->p->h[0], r->buf, UD_HALF, ACCESS_ALL);
	r->bmr = host_mr(&r->p->h[1], r->buf + UD_HALF, UD_HALF, ACCESS_ALL);
	fill(r->buf, UD_HALF, 6);
	r->ah = host_ah(&r->p->h[0], PAIR_PD, v6, false);
	ud_to_rts(r->a, QKEY);
	ud_to_rts(r->b, QKEY);
}

static inline void
ud_down(struct ud_rig *r)
{
	assert_int_equal(ah_destroy(r->p->h[0].sh.ahs, r->ah), 0);
	end_free(r->a);
	end_free(r->b);
	mr_destroy(r->p->h[0].sh.mrs, r->amr);
	mr_destroy(r->p->h[1].sh.mrs, r->bmr);
	free(r->buf);
	pair_free(r->p);
}

#endif /* UROCE_TEST_UD_RIG_H */
