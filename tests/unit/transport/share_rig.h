/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A transport whose shares flood its port.
 */
#ifndef UROCE_TEST_SHARE_RIG_H
#define UROCE_TEST_SHARE_RIG_H

#include <rte_mbuf.h>

#include "rig.h"
#include "transport/core/share_priv.h"

enum {
	MAX_ENDS = 8,
	BIG = 4096,  /* one packet of the largest MTU */
	MANY = 2000, /* turns */
	DEPTH = 256, /* of a queue: more than a turn's packets */
	STEP_NS = 1000,
};

/* The QPs of a share, which always have something to send, each message one packet. */
struct flood {
	struct share *share;
	struct end *ends[MAX_ENDS];
	uint32_t n, bytes;
	bool pauses;
};

struct bench {
	struct pair *p;
	struct transport *tp;
	struct end *peer;
	uint8_t *buf;
	struct mr *mr;
	struct flood f[3];
	uint32_t nb_floods, room; /* packets that the port takes in a turn; 0: all */
};

static inline void
bench_up(struct bench *b)
{
	memset(b, 0, sizeof(*b));
	b->p = pair_new();
	b->tp = b->p->h[0].tp;
	b->peer = end_new(&b->p->h[1], &(struct end_opts){ .type = UROCE_QPT_UC });
	b->buf = calloc(1, BIG);
	b->mr = host_mr(&b->p->h[0], b->buf, BIG, ACCESS_ALL);
}

static inline struct flood *
flood_add(struct bench *b, uint32_t n, uint32_t bytes, const struct share_params *params)
{
	struct flood *f = &b->f[b->nb_floods++];

	*f = (struct flood){ .n = n, .bytes = bytes };
	assert_int_equal(share_create(b->tp, params, &f->share), 0);
	for (uint32_t i = 0; i < n; i++) {
		f->ends[i] = end_new(&b->p->h[0], &(struct end_opts){ .type = UROCE_QPT_UC, .share = f->share, .sq_depth = DEPTH, .cq_depth = DEPTH });
		end_to_rtr(f->ends[i], b->peer, &(struct conn_opts){ .mtu = UROCE_MTU_4096 });
		end_to_rts(f->ends[i], NULL);
	}
	return f;
}

static inline void
bench_down(struct bench *b)
{
	for (uint32_t i = 0; i < b->nb_floods; i++) {
		for (uint32_t j = 0; j < b->f[i].n; j++)
			end_free(b->f[i].ends[j]);
		share_destroy(b->tp, b->f[i].share);
	}
	assert_int_equal(b->tp->nb_shares, 0);
	end_free(b->peer);
	mr_destroy(b->p->h[0].sh.mrs, b->mr);
	free(b->buf);
	pair_free(b->p);
}

static inline void
post(struct bench *b, struct end *e, uint32_t bytes)
{
	end_send(e, &(struct wr){ .op = UROCE_WR_SEND, .sge = SGE(b->buf, bytes, b->mr), .nb_sge = bytes != 0 });
}

/* The program posts as much as fits. */
static inline void
flood_post(struct bench *b, struct flood *f)
{
	struct ring_cqe e;

	for (uint32_t i = 0; i < f->n && !f->pauses; i++) {
		while (cq_poll(&f->ends[i]->scq, &e, NULL))
			assert_int_equal(e.status, UROCE_WC_SUCCESS);
		while (f->ends[i]->sq.counter - f->ends[i]->scq.ring.counter < DEPTH)
			post(b, f->ends[i], f->bytes);
	}
}

/* The port sends @p room packets. @return how many it sent. */
static inline uint32_t
port_send(struct bench *b)
{
	struct tp_txvec *v = transport_tx(b->tp, 0);
	uint16_t n = b->room != 0 ? RTE_MIN(v->n, b->room) : v->n;

	rte_pktmbuf_free_bulk(v->pkts, n);
	v->n -= n;
	memmove(v->pkts, v->pkts + n, v->n * sizeof(v->pkts[0]));
	return n;
}

static inline uint32_t
bench_turn(struct bench *b)
{
	for (uint32_t i = 0; i < b->nb_floods; i++)
		flood_post(b, &b->f[i]);
	b->p->now += STEP_NS;
	transport_run(b->tp, b->p->now);
	return port_send(b);
}

static inline void
bench_run(struct bench *b, uint32_t turns)
{
	for (uint32_t i = 0; i < turns; i++)
		bench_turn(b);
}

static inline struct share_view
look(const struct bench *b, const struct flood *f)
{
	struct share_view v;

	share_look(b->tp, f->share, &v);
	return v;
}

/* How far one visit may exceed what a share has: a packet's cost for each packet that share_budget() allows. */
enum { OVERSHOOT = (TP_SHARE_QUANTUM / BIG + 1) * (BIG + 100 + TP_COST_PACKET + TP_COST_WQE) };

static inline void
assert_fair(uint64_t a, uint64_t b, uint64_t parts_a, uint64_t parts_b)
{
	uint64_t x = a * parts_b, y = b * parts_a, d = x > y ? x - y : y - x;

	if (d > 2 * (TP_SHARE_QUANTUM + OVERSHOOT) * parts_a * parts_b)
		fail_msg("%lu and %lu, not %lu to %lu", (unsigned long)a, (unsigned long)b, (unsigned long)parts_a, (unsigned long)parts_b);
}

#endif /* UROCE_TEST_SHARE_RIG_H */
