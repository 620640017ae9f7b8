/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shares: creation and end, reserves of pools, rates.
 */
#include <rte_cycles.h>

#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"

void
share_group_init(struct share_group *g)
{
	g->owed = (struct share_owed){ 0 };
	g->first = NULL;
	TAILQ_INIT(&g->queue);
}

/* Put a share into another group, or none. What it wants it still wants. */
static void
share_regroup(struct transport *tp, struct share *s, struct share_group *g)
{
	uint8_t was = s->on;

	if (s->group == g)
		return;
	if (was != SHARE_ASLEEP)
		share_move(tp, s, SHARE_ASLEEP);
	s->group = g;
	if (was != SHARE_ASLEEP)
		share_move(tp, s, was == SHARE_QUEUED ? SHARE_BACKLOG : was);
}

static void
share_init(struct share *s, uint32_t weight, struct share_rate *rate)
{
	s->weight = weight;
	s->quantum = RTE_MAX((int64_t)TP_SHARE_QUANTUM * weight / SHARE_WEIGHT_USUAL, INT64_C(1));
	s->deficit = RTE_MIN(s->deficit, s->quantum);
	s->rate = rate;
}

/* Decide what every share can have of a pool. @param each  Wanted, if the pool has as many; 0: the usual part. */
static void
reserve_init(struct tp_reserve *r, const struct pool *pool, uint32_t each)
{
	if (each == 0 || pool_left(pool) < each * TP_SHARES)
		each = pool_left(pool) / TP_RESERVE_OF / TP_SHARES;
	r->each = each;
	r->left = each * TP_SHARES;
}

void
shares_init(struct transport *tp)
{
	const struct pool *pools[TP_POOLS] = {
		[TP_POOL_INFLIGHT] = &tp->inflight_blocks,	 [TP_POOL_READS] = &tp->read_blocks,
		[TP_POOL_SGES] = &tp->sge_blocks,		 [TP_POOL_SCOREBOARDS] = &tp->scoreboards,
		[TP_POOL_REORDERS] = &tp->reorders,		 [TP_POOL_REORDER_PKTS] = &tp->reorder_pkts,
		[TP_POOL_COPY_PARTS] = &tp->copy_parts,	 [TP_POOL_COPY_JOBS] = &tp->copy_jobs,
		[TP_POOL_COPY_PKTS] = &tp->copy_pkts,		 [TP_POOL_RX_WAIT] = &tp->rx_waits,
	};
	static const uint32_t each[TP_POOLS] = {
		[TP_POOL_COPY_PARTS] = TP_COPY_PARTS_EACH,
		[TP_POOL_COPY_JOBS] = TP_COPY_JOBS_EACH,
		[TP_POOL_COPY_PKTS] = TP_COPY_PKTS_EACH,
	};

	for (unsigned int i = 0; i < TP_POOLS; i++)
		reserve_init(&tp->reserve[i], pools[i], each[i]);
	for (unsigned int i = 0; i < SHARE_LISTS; i++)
		TAILQ_INIT(&tp->shares[i]);
	tp->limited_next_ns = UINT64_MAX;
	tp->rx_round.number = 1;
	if (tp->c.metered)
		tp->tick_cost = ((uint64_t)TP_COST_PER_NS << TP_TICK_SHIFT) * (uint64_t)NS_PER_S / rte_get_tsc_hz();
	TAILQ_INIT(&tp->own_share.active);
	TAILQ_INIT(&tp->own_share.fetched);
	tp->own_share.on = SHARE_ASLEEP;
	tp->own_share.deficit = INT64_MAX;
	share_init(&tp->own_share, SHARE_WEIGHT_USUAL, NULL);
}

/* @return the weight of @p p, or 0 if it is none. */
static uint32_t
weight_of(const struct share_params *p)
{
	if (p->weight > SHARE_WEIGHT_MAX)
		return 0;
	return p->weight != 0 ? p->weight : SHARE_WEIGHT_USUAL;
}

int
share_create(struct transport *tp, const struct share_params *p, struct share **out)
{
	struct share *s;

	if (weight_of(p) == 0)
		return EINVAL;
	if (tp->nb_shares == UROCE_MAX_SESSIONS)
		return ENOSPC;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return ENOMEM;
	TAILQ_INIT(&s->active);
	TAILQ_INIT(&s->fetched);
	s->on = SHARE_ASLEEP;
	s->deficit = INT64_MAX;
	share_init(s, weight_of(p), p->rate);
	s->group = p->group;
	tp->nb_shares++;
	*out = s;
	return 0;
}

int
share_set(struct transport *tp, struct share *s, const struct share_params *p)
{
	if (weight_of(p) == 0)
		return EINVAL;
	share_init(s, weight_of(p), p->rate);
	share_regroup(tp, s, p->group);
	/* It may send sooner now: the next turn looks. */
	if (s->on == SHARE_LIMITED)
		tp->limited_next_ns = 0;
	return 0;
}

void
share_free_unused(struct transport *tp, struct share *s)
{
	if (!s->gone || s->users > 0 || s->held[TP_POOL_COPY_JOBS] > 0)
		return;
	UROCE_ASSERT(s->on == SHARE_ASLEEP && tp->nb_shares > 0);
	tp->nb_shares--;
	free(s);
}

void
share_destroy(struct transport *tp, struct share *s)
{
	if (s == NULL)
		return;
	s->gone = true;
	s->rate = NULL;
	share_regroup(tp, s, NULL);
	if (s->on == SHARE_LIMITED)
		tp->limited_next_ns = 0;
	share_free_unused(tp, s);
}

void
share_enter(struct transport *tp, struct qp *qp, struct share *s)
{
	qp->share = s != NULL ? s : &tp->own_share;
	qp->share->users++;
	qp->sched.deficit = TP_QP_QUANTUM;
}

void
share_leave(struct qp *qp)
{
	struct share *s = qp->share;

	UROCE_ASSERT(s->users > 0 && !qp->sched.on_active);
	s->users--;
	share_free_unused(qp->tp, s);
}

/* ---- Rates ---- */
/* Something takes @p ns of a bucket's time. */
static void
bucket_charge(_Atomic uint64_t *due_ns, uint64_t ns, uint64_t now_ns)
{
	uint64_t was = atomic_load_explicit(due_ns, memory_order_relaxed), from;

	do {
		/* A bucket that has been full for longer doesn't hold more for that. */
		from = RTE_MAX(was, now_ns > TP_BUCKET_NS ? now_ns - TP_BUCKET_NS : 0);
	} while (!atomic_compare_exchange_weak_explicit(due_ns, &was, from + ns, memory_order_relaxed, memory_order_relaxed));
}

void
share_rate_charge(struct share *s, uint64_t bytes, uint64_t packets, uint64_t now_ns)
{
	struct share_rate *r = s->rate;
	uint64_t bits_per_s = atomic_load_explicit(&r->bits, memory_order_relaxed);
	uint64_t packets_per_s = atomic_load_explicit(&r->packets, memory_order_relaxed);

	if (packets == 0)
		return;
	if (bits_per_s != 0)
		bucket_charge(&r->bits_due_ns, (bytes * 8 * (uint64_t)NS_PER_S + bits_per_s - 1) / bits_per_s, now_ns);
	if (packets_per_s != 0)
		bucket_charge(&r->packets_due_ns, (packets * (uint64_t)NS_PER_S + packets_per_s - 1) / packets_per_s, now_ns);
}

/* @return when a bucket has something again; 0: it has. */
static uint64_t
bucket_due(const _Atomic uint64_t *per_s, const _Atomic uint64_t *due_ns, uint64_t now_ns)
{
	uint64_t due = atomic_load_explicit(due_ns, memory_order_relaxed);

	return atomic_load_explicit(per_s, memory_order_relaxed) == 0 || due <= now_ns ? 0 : due;
}

uint64_t
share_rate_due(const struct share *s, uint64_t now_ns)
{
	const struct share_rate *r = s->rate;

	if (likely(r == NULL))
		return 0;
	return RTE_MAX(bucket_due(&r->bits, &r->bits_due_ns, now_ns), bucket_due(&r->packets, &r->packets_due_ns, now_ns));
}

/* ---- Views ---- */
static enum share_wait
share_waits_for(const struct transport *tp, const struct share *s)
{
	if (s->on == SHARE_LIMITED)
		return SHARE_WAIT_RATE;
	if (s->on != SHARE_BACKLOG && s->on != SHARE_QUEUED)
		return SHARE_WAIT_NOTHING;
	if (s->no_room)
		return SHARE_WAIT_TX;
	return tp->nb_competing > 1 ? SHARE_WAIT_TURN : SHARE_WAIT_NOTHING;
}

uint64_t
share_look(const struct transport *tp, const struct share *s, struct share_view *v)
{
	*v = (struct share_view){
		.stats = s->stats,
		.weight = s->weight,
		.qps = s->users,
		.active_qps = s->nb_active,
		.wait = share_waits_for(tp, s),
		.inflight_blocks = s->held[TP_POOL_INFLIGHT],
		.read_blocks = s->held[TP_POOL_READS],
		.reordered = s->held[TP_POOL_REORDER_PKTS],
	};
	return tp->cost;
}

bool
share_is_light(const struct transport *tp, const struct share *s)
{
	return tp->now_ns - s->light_ns < TP_LIGHT_NS && tp->now_ns - tp->brief_ns < TP_LIGHT_NS;
}

const char *
share_wait_name(enum share_wait w)
{
	static const char *const names[SHARE_WAITS] = { "nothing", "turn", "tx room", "rate" };

	return w < SHARE_WAITS ? names[w] : "?";
}
