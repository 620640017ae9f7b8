/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a turn: what has changed is written down, one word makes it count, and then it is shown.
 */
#include "transport/core/async_priv.h"
#include "transport/core/cq_priv.h"
#include "transport/core/qp_error_priv.h"
#include "transport/core/qp_table_priv.h"
#include "transport/journal/journal_priv.h"
#include "transport/journal/slot_priv.h"
#include "transport/record/record_priv.h"

static void
store(_Atomic uint64_t *at, uint64_t word)
{
	atomic_store_explicit(at, word, memory_order_release);
}

static struct journal_slot *
slot_at(const struct tp_journal *j, uint32_t n)
{
	return (void *)(j->slots + (size_t)n * JOURNAL_SLOT_BYTES);
}

static void
begin_turn(struct tp_journal *j, uint64_t turn)
{
	j->turn = turn;
	j->tag = journal_tag(turn);
	j->note_zero = journal_note_zero(turn);
	j->atomic_seed = journal_atomic_seed(turn);
	j->atomic = j->list->atomics;
	store(&j->list->turn, j->tag);
}

/* ---- What changes is written down ---- */
/* Results of READs and atomics, READs that are answered, SGEs of a receive, what is kept. @param added  Gets what is said of them. */
static __rte_noinline void
write_parts(const struct qp *qp, uint8_t *parts, struct journal_added *added)
{
	uint32_t results = journal_results_bytes(qp->resp.res_max), bytes;
	struct qp_record r;

	r.nb_reads = r.nb_sges = r.nb_kept = r.placed_to = r.local_to = 0;
	r.kept = 0;
	/* An odd number of them leaves four bytes at the end. */
	if (qp->resp.res_max % 2 != 0)
		memset(parts + results - 4, 0, 4);
	if (qp->resp.res_max != 0)
		memcpy(parts, qp->resp.res, qp->resp.res_max * sizeof(*qp->resp.res));
	bytes = (uint32_t)((uint8_t *)record_parts(qp, &r, parts + results) - parts);
	added->words[0] = bytes | (uint64_t)journal_crc(UINT32_MAX, parts, bytes) << 32;
	added->words[2] = r.placed_to | (uint64_t)r.local_to << 32;
	added->words[3] = (uint64_t)r.kept << 16 | (uint64_t)qp->resp.res_max << 24 | (uint64_t)r.nb_reads << 32 | (uint64_t)r.nb_sges << 40 |
			  (uint64_t)r.nb_kept << 48;
}

static __rte_noinline void
write_cold(struct journal_copy *c, const struct qp *qp)
{
	struct qp_record r = { 0 };

	record_cold(qp, &r);
	memset(&c->cold, 0, sizeof(c->cold));
	c->cold.attr = r.attr;
	c->cold.addr = r.addr;
	c->cold.alt = r.alt;
	c->cold.alt_port = r.alt_port;
	c->cold.alt_pkey = r.alt_pkey;
	c->cold.has_path = r.has_path;
	c->cold.alt_loopback = r.alt_loopback;
	c->cold_crc = journal_cold_crc(c);
}

/* What the image lacks. */
static inline void
write_added(struct journal_sum *s, struct journal_copy *c, uint32_t copy, struct tp_journal_qp *q, const struct qp *qp, uint8_t *parts)
{
	const struct qp_responder *resp = &qp->resp;
	bool receives = record_receives(qp);
	uint32_t flags = (receives ? JOURNAL_RECEIVES : 0) | (unlikely(qp->req.scoreboard != NULL) && qp_sends(qp) ? JOURNAL_REPAIRS : 0);
	journal_pair first = { 0 }, second = { 0, q->state | (uint64_t)flags << 8 };

	if (unlikely(q->cold_of[copy] != q->cold)) {
		write_cold(c, qp);
		q->cold_of[copy] = q->cold;
	}
	/* The newest result is before the head: if it is none, there are none. */
	if ((resp->res_max != 0 && resp->res[(resp->res_head == 0 ? resp->res_max : resp->res_head) - 1].used) || (receives && qp->rcv.srq != NULL) ||
	    q->kept != NULL) {
		struct journal_added of_parts;

		write_parts(qp, parts, &of_parts);
		first[0] = of_parts.words[0];
		second[0] = of_parts.words[2];
		second[1] |= of_parts.words[3];
	}
	first[1] = c->cold_crc | (uint64_t)record_srqn(qp) << 32;
	/* Never member by member: what is summed up from there would wait for all stores before (docs/benchmarks.md). */
	memcpy((uint8_t *)c + JOURNAL_ADDED_AT, &first, sizeof(first));
	memcpy((uint8_t *)c + JOURNAL_ADDED_AT + sizeof(first), &second, sizeof(second));
	journal_sum_pair(s, first);
	journal_sum_pair(s, second);
}

/* The oldest WQE in flight says with which PSN they begin. The others are fetched from the SQ again, where they stay until they are complete. */
static inline void
write_oldest(struct journal_sum *s, struct journal_copy *c, const struct qp *qp)
{
	static const struct tp_swqe none;
	const struct tp_swqe *oldest = qp->req.sq.counter != qp->req.sq_tail ? &qp->req.inflight[qp->req.sq_tail & qp->req.inflight_mask] : &none;

	journal_sum_copy(s, &c->oldest, oldest, sizeof(c->oldest));
}

/* Forget the atomic of a copier that counts. PSNs come again. */
static __rte_noinline void
forget_away(const struct tp_journal *j, struct tp_journal_qp *q, uint64_t state)
{
	const struct journal_slot *s = (const void *)q->slot;
	uint32_t epsn;

	if (!q->counts)
		return;
	memcpy(&epsn, s->copy[q->copy].image + j->epsn_at, sizeof(epsn));
	if (wire_psn_diff((uint32_t)state & WIRE_PSN_MASK, epsn) < 0)
		store(&q->slot->away.state, 0);
}

/* What the copy had before says no more than its number. */
static __rte_noinline void
save_end(const struct tp_journal *j, struct journal_copy *c)
{
	journal_copy_sum(c, j->tag, JOURNAL_IMAGE_BYTES, c->sum);
	journal_step(j);
}

static inline void
save(struct tp_journal *j, struct tp_journal_qp *q)
{
	struct journal_slot *s = (void *)q->slot;
	uint64_t away = atomic_load_explicit(&q->slot->away.state, memory_order_relaxed);
	uint32_t to = q->copy ^ 1;
	struct journal_copy *c = &s->copy[to];
	struct journal_sum sum;

	if (unlikely(away != 0))
		forget_away(j, q, away);
	store(&c->tag, j->tag);
	journal_step(j);
	c->prev = q->tag;
	if (unlikely(q->qp == NULL)) {
		c->state = q->state;
		save_end(j, c);
		return;
	}
	if (unlikely(q->kept != NULL))
		journal_forget_kept(q->qp, false);
	journal_step(j);
	sum = journal_sum_begin(j->tag, q->tag);
	write_added(&sum, c, to, q, q->qp, s->parts[to]);
	write_oldest(&sum, c, q->qp);
	journal_image_write(&sum, c->image, q->qp);
	journal_sum_end(&sum, c->sum);
	journal_step(j);
}

static __rte_noinline void
save_srq(struct tp_journal *j, const struct tp_journal_dirty_srq *d)
{
	uint8_t now = j->srq_copy[d->number];
	struct journal_srq_copy *copies = j->srqs[d->number].copy, *c = &copies[now == TP_JOURNAL_NO_COPY ? 0 : now ^ 1];

	store(&c->tag, j->tag);
	journal_step(j);
	c->prev = now == TP_JOURNAL_NO_COPY ? 0 : atomic_load_explicit(&copies[now].tag, memory_order_relaxed);
	c->state = d->srq == NULL ? JOURNAL_NONE : d->srq->leaving ? JOURNAL_LEAVING : JOURNAL_USED;
	c->counter = d->srq != NULL ? d->srq->ring.counter : 0;
	c->limit = d->srq != NULL ? d->srq->limit : 0;
	c->check = journal_srq_check(c, j->tag);
	journal_step(j);
}

static __rte_noinline void
save_counters(struct transport *tp, struct tp_journal *j)
{
	struct journal_counters *c = (struct journal_counters *)(void *)j->counters + j->counters_copy;

	j->counters_ns = tp->now_ns + JOURNAL_COUNTERS_NS;
	j->counters_copy ^= 1;
	store(&c->tag, j->tag);
	transport_save(tp, &c->rec);
}

/* Finish the list of what will be shown. */
static void
save_items(struct tp_journal *j)
{
	journal_run_ends(j);
	for (uint32_t i = 0; i < j->nb_items; i++) {
		struct journal_item *it = &j->list->items[i];

		if (it->kind == JOURNAL_ITEM_CQE)
			it->of = j->told[i].more;
		it->check = journal_item_check(it, j->turn);
	}
	store(&j->list->nb_items, journal_number(j->nb_items));
}

/* ---- It is shown ---- */
static void
show_cqes(const struct tp_journal *j, const struct tp_told *t)
{
	const union ring_cqe_ctl shown = { .phase = RING_PHASES };
	_Atomic uint64_t *ctl = t->what;

#pragma GCC unroll 4
	for (uint32_t left = t->more + 1u; left != 0; left--, ctl += JOURNAL_CTL_STEP) {
		atomic_store_explicit(ctl, atomic_load_explicit(ctl, memory_order_relaxed) ^ shown.word, memory_order_release);
		journal_step(j);
	}
}

static __rte_noinline void
show_other(struct transport *tp, const struct tp_told *t)
{
	if (t->kind == JOURNAL_ITEM_OVERRUN) {
		atomic_store_explicit(&t->cq->shared->overrun, 1, memory_order_release);
		cq_shown(tp, t->cq, TP_TOUCHED | TP_TOUCHED_SOLICITED);
	} else {
		tp_event_now(tp, (enum uroce_event)t->type, t->cookie, t->what);
	}
}

static inline void
show(struct transport *tp, const struct tp_told *t)
{
	if (unlikely(t->kind != JOURNAL_ITEM_CQE)) {
		show_other(tp, t);
		return;
	}
	show_cqes(tp->journal, t);
	if (t->cq->channel >= 0)
		cq_shown(tp, t->cq, t->type);
}

/* A QP without one has ended, or goes on elsewhere. */
static __rte_noinline void
show_end(struct tp_journal *j, struct tp_journal_qp *q)
{
	if (q->state == JOURNAL_LEAVING)
		return;
	/* Its end counts. */
	j->slot_copy[q->n] = q->copy;
	j->free_slots[j->nb_free++] = q->n;
	free(q);
}

static void
show_qp(struct tp_journal *j, struct tp_journal_qp *q)
{
	q->copy ^= 1;
	q->tag = j->tag;
	q->counts = true;
	if (unlikely(q->qp == NULL)) {
		show_end(j, q);
		return;
	}
	if (unlikely(q->state_shown != q->qp->state)) {
		q->state_shown = q->qp->state;
		shared_store(&q->qp->shared->state, q->qp->state);
	}
	if (unlikely(q->state == JOURNAL_LEAVING)) {
		q->qp->journal = NULL;
		q->qp = NULL;
		return;
	}
	q->qp->sched.unnoted = true;
}

static __rte_noinline void
show_srq(struct tp_journal *j, const struct tp_journal_dirty_srq *d)
{
	uint8_t *copy = &j->srq_copy[d->number];

	*copy = *copy == TP_JOURNAL_NO_COPY ? 0 : *copy ^ 1;
	if (d->srq == NULL)
		return;
	d->srq->dirty = false;
	journal_step(j);
	atomic_store_explicit(&d->srq->shared->head, d->srq->ring.counter, memory_order_release);
}

static void
commit(struct transport *tp)
{
	struct tp_journal *j = tp->journal;
	uint32_t i;

	for (i = 0; i < j->nb_dirty; i++)
		save(j, j->dirty[i]);
	for (i = 0; i < j->nb_srqs; i++)
		save_srq(j, &j->dirty_srqs[i]);
	/* They may be a little old. */
	if (unlikely(tp->now_ns >= j->counters_ns))
		save_counters(tp, j);
	save_items(j);
	journal_step(j);
	store(&j->head->turn, j->tag);
	journal_step(j);
	for (i = 0; i < j->nb_srqs; i++)
		show_srq(j, &j->dirty_srqs[i]);
	for (i = 0; i < j->nb_dirty; i++)
		show_qp(j, j->dirty[i]);
	/* Last, as whoever is told of something may look at the rest. */
	for (i = 0; i < j->nb_items; i++) {
		show(tp, &j->told[i]);
		journal_step(j);
	}
	j->nb_items = j->nb_dirty = j->nb_srqs = 0;
	store(&j->list->nb_items, journal_number(0));
	journal_count_atomics(j, 0);
	begin_turn(j, j->turn + 1);
	journal_step(j);
}

void
transport_commit(struct transport *tp)
{
	journal_commit(tp);
}

/* ---- QPs come and go ---- */
/* Take back the slots of QPs that have arrived elsewhere. What is in them must not be taken for the next QP's. */
static void
reap(struct tp_journal *j)
{
	struct tp_journal_qp *q, *next;

	for (q = SLIST_FIRST(&j->leaving); q != NULL; q = next) {
		struct journal_slot *s = (void *)q->slot;

		next = SLIST_NEXT(q, leaving_link);
		if (!atomic_load_explicit(&q->moved, memory_order_acquire))
			continue;
		SLIST_REMOVE(&j->leaving, q, tp_journal_qp, leaving_link);
		store(&s->copy[0].tag, 0);
		store(&s->copy[1].tag, 0);
		store(&s->notes.moved, 0);
		j->slot_copy[q->n] = TP_JOURNAL_NO_COPY;
		j->free_slots[j->nb_free++] = q->n;
		free(q);
	}
}

struct tp_journal_qp *
journal_entry(void)
{
	return calloc(1, sizeof(struct tp_journal_qp));
}

/* There is a slot for each QP of the table, and one that leaves has its place in that until it has arrived. */
static void
enter(struct tp_journal *j, struct qp *qp, struct tp_journal_qp *q)
{
	reap(j);
	UROCE_ASSERT(j->nb_free != 0 || j->nb_slots < j->head->qps);
	q->n = j->nb_free != 0 ? j->free_slots[--j->nb_free] : j->nb_slots++;
	q->journal = j;
	q->qp = qp;
	q->slot = &slot_at(j, q->n)->notes;
	q->counts = j->slot_copy[q->n] != TP_JOURNAL_NO_COPY;
	q->copy = q->counts ? j->slot_copy[q->n] : 1;
	q->tag = q->counts ? atomic_load_explicit(&slot_at(j, q->n)->copy[q->copy].tag, memory_order_relaxed) : 0;
	q->state = JOURNAL_USED;
	q->state_shown = UROCE_QPS_STATES;
	q->cold = 1;
	/* The QP that had the slot before has ended. */
	store(&q->slot->placed, 0);
	store(&q->slot->local, 0);
	store(&q->slot->away.state, 0);
	store(&j->head->used, journal_number(j->nb_slots));
	qp->journal = q;
	journal_kept_set(qp, NULL);
	journal_dirty(q);
}

int
journal_enter(struct transport *tp, struct qp *qp)
{
	struct tp_journal_qp *q;

	if (tp->journal == NULL)
		return 0;
	q = journal_entry();
	if (q == NULL)
		return ENOMEM;
	enter(tp->journal, qp, q);
	return 0;
}

void
journal_arrive(struct transport *to, struct qp *qp, struct tp_journal_qp *entry, struct tp_journal_qp *from)
{
	enter(to->journal, qp, entry);
	if (from == NULL)
		return;
	journal_kept_set(qp, from->kept);
	from->kept = NULL;
}

void
journal_leave(struct transport *tp, struct qp *qp)
{
	struct tp_journal_qp *q = qp->journal;

	if (q == NULL)
		return;
	/* It may have completed something in this turn. */
	journal_touch(qp);
	journal_commit(tp);
	journal_forget_kept(qp, true);
	qp->sched.unnoted = false;
	qp->journal = NULL;
	q->qp = NULL;
	q->state = JOURNAL_NONE;
	journal_dirty(q);
	journal_commit(tp);
}

struct tp_journal_qp *
journal_depart(struct transport *from, struct qp *qp)
{
	struct tp_journal_qp *q = qp->journal;

	if (q == NULL)
		return NULL;
	q->state = JOURNAL_LEAVING;
	journal_touch(qp);
	SLIST_INSERT_HEAD(&from->journal->leaving, q, leaving_link);
	return q;
}

void
journal_arrived(struct tp_journal_qp *q)
{
	if (q == NULL)
		return;
	store(&q->slot->moved, JOURNAL_MOVED);
	atomic_store_explicit(&q->moved, true, memory_order_release);
}

bool
journal_keep(struct qp *qp, const struct qp_record *r, const struct qp_record_kept *kept)
{
	struct tp_kept *k;

	if (r->kept == 0 && r->nb_kept == 0)
		return true;
	k = calloc(1, sizeof(*k));
	if (k == NULL)
		return false;
	k->placed = (r->kept & QP_KEPT_PLACED) != 0;
	k->placed_to = r->placed_to;
	k->local = (r->kept & QP_KEPT_LOCAL) != 0;
	k->local_to = r->local_to;
	for (; k->nb < r->nb_kept; k->nb++) {
		k->atomics[k->nb].old = kept[k->nb].value;
		k->atomics[k->nb].psn = kept[k->nb].psn;
	}
	journal_kept_set(qp, k);
	return true;
}

/* ---- Begin and end ---- */
static size_t
page_up(size_t n)
{
	return (n + JOURNAL_PAGE - 1) & ~(size_t)(JOURNAL_PAGE - 1);
}

struct journal_layout
journal_layout(const struct journal_limits *l)
{
	struct journal_layout y;

	y.members = page_up(sizeof(struct journal_head));
	y.list = y.members + JOURNAL_MEMBERS_BYTES;
	y.srqs = y.list + page_up(sizeof(struct journal_list));
	y.owed = y.srqs + page_up(l->srqs * sizeof(struct journal_srq));
	y.counters = y.owed + page_up(l->cqs * sizeof(uint64_t));
	y.slots = y.counters + page_up(2 * sizeof(struct journal_counters));
	y.bytes = y.slots + (size_t)l->qps * JOURNAL_SLOT_BYTES;
	return y;
}

size_t
journal_bytes(const struct journal_limits *l)
{
	if (l->qps == 0 || l->cqs == 0 || l->srqs == 0 || l->qps > UROCE_MAX_QP || l->cqs > UROCE_MAX_CQ || l->srqs > UROCE_MAX_SRQ)
		return 0;
	return journal_layout(l).bytes;
}

/* @return false: as journal_members_write(). */
static bool
begin(struct tp_journal *j, const struct journal_limits *l, uint8_t *at, uint32_t room)
{
	struct journal_layout y = journal_layout(l);
	struct journal_member *members = (void *)(at + y.members);

	if (!journal_members_write(members))
		return false;
	j->epsn_at = members[JOURNAL_MEMBER_epsn].at;

	j->head = (void *)at;
	j->list = (void *)(at + y.list);
	j->srqs = (void *)(at + y.srqs);
	j->owed = (void *)(at + y.owed);
	j->counters = at + y.counters;
	j->slots = at + y.slots;
	j->room = room;
	j->atomics_room = j->list->atomics + JOURNAL_ATOMICS - JOURNAL_ATOMICS_STEP;
	j->commit = commit;
	SLIST_INIT(&j->leaving);
	memset(j->srq_copy, TP_JOURNAL_NO_COPY, l->srqs);
	memset(j->slot_copy, TP_JOURNAL_NO_COPY, l->qps);
	store(&j->list->nb_items, journal_number(0));
	journal_count_atomics(j, 0);
	begin_turn(j, 2);
	store(&j->head->turn, journal_tag(1));
	store(&j->head->used, journal_number(0));
	j->head->version = JOURNAL_VERSION;
	j->head->qps = l->qps;
	j->head->cqs = l->cqs;
	j->head->srqs = l->srqs;
	j->head->slot_bytes = JOURNAL_SLOT_BYTES;
	j->head->items = JOURNAL_ITEMS;
	j->head->atomics = JOURNAL_ATOMICS;
	j->head->image_bytes = JOURNAL_IMAGE_BYTES;
	j->head->nb_members = JOURNAL_MEMBERS;
	j->head->members_crc = journal_crc(UINT32_MAX, members, JOURNAL_MEMBERS * sizeof(*members));
	atomic_thread_fence(memory_order_release);
	j->head->magic = JOURNAL_MAGIC;
	j->head->crc = journal_crc(UINT32_MAX, j->head, offsetof(struct journal_head, crc));
	return true;
}

int
journal_create(struct transport *tp)
{
	const struct journal_limits *l = &tp->c.journal_limits;
	struct tp_journal *j;

	if (tp->c.journal == NULL)
		return 0;
	if (journal_bytes(l) == 0 || ((uintptr_t)tp->c.journal & (JOURNAL_PAGE - 1)) != 0 || l->qps < qp_table_slots(tp->c.sh.qps) ||
	    ((const struct journal_head *)tp->c.journal)->magic != 0)
		return EINVAL;
	j = calloc(1, sizeof(*j));
	if (j == NULL)
		return ENOMEM;
	tp->journal = j;
	j->told = calloc(JOURNAL_ITEMS, sizeof(*j->told));
	j->dirty = calloc(l->qps, sizeof(struct tp_journal_qp *));
	j->dirty_srqs = calloc(2 * (size_t)l->srqs, sizeof(*j->dirty_srqs));
	j->srq_copy = malloc(l->srqs);
	j->free_slots = calloc(l->qps, sizeof(*j->free_slots));
	j->slot_copy = malloc(l->qps);
	if (j->told == NULL || j->dirty == NULL || j->dirty_srqs == NULL || j->srq_copy == NULL || j->free_slots == NULL ||
	    j->slot_copy == NULL || !begin(j, l, tp->c.journal, tp->c.limits.journal_items)) {
		journal_destroy(tp);
		return ENOMEM;
	}
	save_counters(tp, j);
	return 0;
}

void
journal_destroy(struct transport *tp)
{
	struct tp_journal *j = tp->journal;
	struct tp_journal_qp *q;

	if (j == NULL)
		return;
	while ((q = SLIST_FIRST(&j->leaving)) != NULL) {
		SLIST_REMOVE_HEAD(&j->leaving, leaving_link);
		free(q);
	}
	free(j->told);
	free(j->dirty);
	free(j->dirty_srqs);
	free(j->srq_copy);
	free(j->free_slots);
	free(j->slot_copy);
	free(j);
	tp->journal = NULL;
}
