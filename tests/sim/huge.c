/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of up to 2 GiB, the longest there are. Their regions show the same few megabytes again and again: the pattern at
 * the end that they come from, and at the other end one buffer, and another for the last part of the region.
 */
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum {
	STREAM_HUGE_OPS = 49,
	SPAN = SIM_PATTERN_BYTES - 65528, /* of a segment; offsets that differ by a power of two show other bytes */
	SEGS = ((UINT32_C(1) << 31) + SPAN - 1) / SPAN,
	LAST = (SEGS - 1) * SPAN,         /* where the last segment begins */
	TAIL = (UINT32_C(1) << 31) - LAST,
	LEN_MIN = 2 * SPAN + TAIL,        /* no byte of the buffer is left out */
	PACKETS_ORDER = 19,               /* of a message at most */
	SMALLER = 6,
	MOST = 2,                         /* in a seed */
	ONE_IN = 4,                       /* operations, if there may be one */
};
#define HUGE_BYTES (UINT64_C(1) << 31)
#define HUGE_VA (UINT64_C(1) << 44)

/* A region of 2 GiB: @p all again and again, @p last at its end. */
static bool
region_make(struct sim_ep *ep, struct sim_mr *m, uint8_t *all, uint8_t *last, uint32_t access)
{
	static struct mem_seg segs[SEGS];
	struct mr_params p = { .pd = SIM_PD, .access = access, .addr = HUGE_VA, .length = HUGE_BYTES, .iova = HUGE_VA,
			       .segs = segs, .nb_segs = SEGS, .owner = &ep->owner };

	for (uint32_t i = 0; i < SEGS; i++)
		segs[i] = (struct mem_seg){ HUGE_VA + (uint64_t)i * SPAN, i + 1 < SEGS ? SPAN : TAIL, i + 1 < SEGS ? all : last };
	if (mr_create(ep->sh.mrs, &p, &m->mr) != 0)
		return false;
	m->key = m->mr->key;
	m->iova = HUGE_VA;
	return true;
}

bool
huge_make(struct sim_world *w)
{
	struct sim_huge *h = &w->huge;
	struct sim_ep *from, *to;

	if ((w->cfg.faults & SIM_F_HUGE) == 0)
		return true;
	h->rng = rng_stream(w->cfg.seed, STREAM_HUGE_OPS);
	for (uint32_t i = 0; i < w->cfg.nb_conns && h->q == NULL; i++)
		if (w->conns[i].type == UROCE_QPT_RC && !w->conns[i].xrc && !w->conns[i].foreign)
			h->q = &w->conns[i].qp[rng_below(&h->rng, 2)];
	if (h->q == NULL)
		return true;
	h->reads = rng_one_in(&h->rng, 2);
	from = h->reads ? h->q->peer->ep : h->q->ep;
	to = h->reads ? h->q->ep : h->q->peer->ep;
	h->buf = arena_get(w, SPAN);
	h->tail = arena_get(w, TAIL);
	return h->buf != NULL && h->tail != NULL &&
	       region_make(from, &h->from, sim_pattern, sim_pattern, UROCE_ACCESS_REMOTE_READ) &&
	       region_make(to, &h->to, h->buf, h->tail, UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE);
}

void
huge_free(struct sim_world *w)
{
	struct sim_huge *h = &w->huge;

	if (h->from.mr != NULL)
		mr_destroy((h->reads ? h->q->peer : h->q)->ep->sh.mrs, h->from.mr);
	if (h->to.mr != NULL)
		mr_destroy((h->reads ? h->q : h->q->peer)->ep->sh.mrs, h->to.mr);
}

bool
huge_choose(struct sim_world *w, struct sim_qp *q, struct sim_op *op)
{
	struct sim_huge *h = &w->huge;
	uint32_t i = q->nb_posted, need = h->reads ? UROCE_ACCESS_REMOTE_READ : UROCE_ACCESS_REMOTE_WRITE, at;
	uint64_t most = UINT64_C(1) << (PACKETS_ORDER + 7 + q->attr.path_mtu);

	if (h->q != q || h->nb == MOST || !(q->peer->attr.qp_access_flags & need) || !rng_one_in(&h->rng, ONE_IN))
		return false;
	/* One at a time, since they share the buffer; and the last one may be in flight still. */
	for (uint32_t k = 0; k < i; k++)
		if (q->ops[k].huge && !q->ops[k].retired)
			return false;
	h->nb++;
	most = RTE_MIN(most, HUGE_BYTES) >> rng_below(&h->rng, SMALLER);
	op->huge = true;
	op->to = q->peer;
	op->len = most <= LEN_MIN ? LEN_MIN : (uint32_t)(rng_one_in(&h->rng, 4) ? most : rng_between(&h->rng, LEN_MIN, most));
	op->opcode = h->reads ? UROCE_WR_RDMA_READ :
		     rng_one_in(&h->rng, 2) ? UROCE_WR_RDMA_WRITE : UROCE_WR_RDMA_WRITE_WITH_IMM;
	/* Often to the region's end. The same offset in a segment at both ends, so that the bytes are known. */
	op->target_off = rng_one_in(&h->rng, 2) ? (uint32_t)(HUGE_BYTES - op->len) :
						  (uint32_t)rng_below(&h->rng, HUGE_BYTES - op->len + 1);
	at = op->target_off % SPAN;
	h->local_off = op->len + (uint64_t)at > HUGE_BYTES ? op->target_off :
		       at + SPAN * (uint32_t)rng_below(&h->rng, (HUGE_BYTES - op->len - at) / SPAN + 1);
	op->flags = UROCE_SEND_SIGNALED;
	if (op_consumes(op))
		op->consume = q->nb_consume++;
	memset(h->buf, 0, SPAN);
	memset(h->tail, 0, TAIL);
	return true;
}

/* READs and WRITEs swap the roles of the two regions. */
static const struct sim_mr *
local(const struct sim_huge *h)
{
	return h->reads ? &h->to : &h->from;
}

void
huge_put(const struct sim_world *w, const struct sim_op *op, struct ring_sq_wqe *e)
{
	const struct sim_huge *h = &w->huge;
	const struct sim_mr *remote = h->reads ? &h->from : &h->to;
	struct ring_sge *sge = wqe_sges(e, op->opcode);

	wqe_put_remote(e, remote->iova + op->target_off, remote->key);
	*sge = (struct ring_sge){ local(h)->iova + h->local_off, op->len, local(h)->key };
}

/* @return what of the last segment lies before @p off, an offset in the region. */
static uint32_t
of_last(uint64_t off)
{
	return off > LAST ? (uint32_t)(off - LAST) : 0;
}

void
huge_check(struct sim_world *w, struct sim_qp *q, const struct sim_op *op)
{
	const struct sim_huge *h = &w->huge;
	uint64_t begin = h->reads ? h->local_off : op->target_off;
	uint32_t from = of_last(begin), to = of_last(begin + op->len);

	if (memcmp(h->buf, sim_pattern, SPAN) != 0)
		sim_fail(w, "QP %u: a message of %u bytes is not what was sent", q->id, op->len);
	if (!is_zero(h->tail, from) || memcmp(h->tail + from, sim_pattern + from, to - from) != 0 || !is_zero(h->tail + to, TAIL - to))
		sim_fail(w, "QP %u: the end of a message of %u bytes is not what was sent", q->id, op->len);
}
