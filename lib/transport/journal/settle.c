/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A CQ's ring is settled. Its engines had taken slots by turns, and some of them may not have got so far that what they wrote counts. Their slots are gaps, and what
 * follows moves up: the program, which goes by the order of slots, has seen nothing behind the first gap.
 */
#include <stdlib.h>

#include "transport/journal/read_priv.h"

/* A CQ while it is settled. */
struct settling {
	const struct journals *js;
	uint32_t number;
	const struct cq_params *p;
	const struct cq_params *old; /* its ring before a resize, or NULL */
	uint32_t cons, size;
	uint64_t *listed[2];         /* bitmaps, by counter: listed for the ring, and for the one before */
	bool overrun;
};

static bool
bit(const uint64_t *map, uint32_t n)
{
	return (map[n / 64] >> n % 64 & 1) != 0;
}

static void
mark_listed(struct settling *s, const struct journal_item *it, uint32_t at)
{
	if (at >= s->size)
		return;
	if (it->order == s->p->ring.order)
		s->listed[0][at / 64] |= UINT64_C(1) << at % 64;
	else if (s->old != NULL && it->order == s->old->ring.order)
		s->listed[1][at / 64] |= UINT64_C(1) << at % 64;
}

/* Look what the turns that count have listed. */
static void
find_listed(struct settling *s)
{
	for (unsigned int e = 0; e < s->js->nb; e++) {
		const struct journal *j = &s->js->all[e];

		for (uint32_t i = 0; i < j->nb_items; i++) {
			const struct journal_item *it = &j->list->items[i];

			if (it->number != s->number)
				continue;
			s->overrun |= it->kind == JOURNAL_ITEM_OVERRUN;
			for (uint32_t n = 0; it->kind == JOURNAL_ITEM_CQE && n <= it->of; n++)
				mark_listed(s, it, it->counter + n - s->cons);
		}
	}
}

/* @return whether the slot has a completion that counts. One that is listed and not shown has the phase of the lap before; that of one that has moved up is 0. */
static bool
counts(const struct ring *ring, uint32_t counter, bool listed)
{
	union ring_cqe_ctl ctl;

	return ring_cq_ready(ring, counter, &ctl) || (listed && ctl.phase == (ring_phase(counter, ring->order) ^ RING_PHASES));
}

/* @return the slot of the i-th completion, if it counts. */
static struct ring_cqe *
slot_of(const struct settling *s, uint32_t i)
{
	if (counts(&s->p->ring, s->cons + i, bit(s->listed[0], i)))
		return ring_slot(&s->p->ring, s->cons + i);
	if (s->old != NULL && i < UINT32_C(1) << s->old->ring.order && counts(&s->old->ring, s->cons + i, bit(s->listed[1], i)))
		return ring_slot(&s->old->ring, s->cons + i);
	return NULL;
}

static bool
is_in(const struct ring *ring, const struct ring_cqe *e)
{
	const struct ring_cqe *base = (const void *)ring->base;

	return e >= base && e < base + (UINT32_C(1) << ring->order);
}

static void
set_phase(struct ring_cqe *e, uint8_t phase)
{
	union ring_cqe_ctl ctl = { .word = atomic_load_explicit(&e->ctl, memory_order_relaxed) };

	ctl.phase = phase;
	atomic_store_explicit(&e->ctl, ctl.word, memory_order_release);
}

/* A completion that moves up. */
struct moving {
	struct ring_cqe e;
	uint64_t stamp;
};

/* @return the time stamp of a slot of one of the rings; NULL: the CQ has none. */
static uint64_t *
stamp_of(const struct settling *s, const struct ring_cqe *e)
{
	const struct cq_params *of = is_in(&s->p->ring, e) ? s->p : s->old;

	return of->stamps != NULL ? &of->stamps[e - (const struct ring_cqe *)(const void *)of->ring.base] : NULL;
}

/*
 * Move what counts behind the first gap, at @p n, to there. It is taken away before any of it is shown again, so that a program that polls meanwhile sees none twice.
 * @return the counter behind the last.
 */
static uint32_t
move_up(const struct settling *s, uint32_t n, struct moving *buf)
{
	uint32_t nb = 0, order = s->p->ring.order;
	union ring_cqe_ctl ctl;

	for (uint32_t i = n; i < s->size; i++) {
		const struct ring_cqe *e = slot_of(s, i);

		if (e == NULL)
			continue;
		buf[nb] = (struct moving){ .e = *e, .stamp = stamp_of(s, e) != NULL ? *stamp_of(s, e) : 0 };
		nb++;
	}
	for (uint32_t i = n; i < s->size; i++)
		if (counts(&s->p->ring, s->cons + i, bit(s->listed[0], i)))
			set_phase(ring_slot(&s->p->ring, s->cons + i), 0);
	for (uint32_t k = 0; k < nb; k++, n++) {
		struct ring_cqe *to = ring_slot(&s->p->ring, s->cons + n);

		ctl.word = buf[k].e.ctl;
		ctl.phase = ring_phase(s->cons + n, order) ^ RING_PHASES;
		atomic_store_explicit(&to->ctl, ctl.word, memory_order_relaxed);
		memcpy(to, &buf[k].e, offsetof(struct ring_cqe, ctl));
		if (stamp_of(s, to) != NULL)
			*stamp_of(s, to) = buf[k].stamp;
		set_phase(to, ring_phase(s->cons + n, order));
	}
	return n;
}

/* Show what counts. @return how many completions there are behind the program's counter; UINT32_MAX: no memory. */
static uint32_t
show_all(const struct settling *s)
{
	struct moving *buf;
	uint32_t n = 0, last = 0;

	for (; n < s->size; n++) {
		struct ring_cqe *e = slot_of(s, n);

		if (e == NULL || !is_in(&s->p->ring, e))
			break;
		set_phase(e, ring_phase(s->cons + n, s->p->ring.order));
	}
	for (uint32_t i = n; i < s->size; i++)
		if (slot_of(s, i) != NULL)
			last = i + 1;
	if (last == 0)
		return n;
	buf = calloc(last - n, sizeof(*buf));
	if (buf == NULL)
		return UINT32_MAX;
	n = move_up(s, n, buf);
	free(buf);
	return n;
}

/* @return TP_TOUCHED_* of the completions for which no event may have been raised. */
static uint8_t
held_of(const struct settling *s, uint32_t prod, uint32_t reported)
{
	uint32_t from = reported, seen = atomic_load_explicit(&s->p->shared->seen, memory_order_relaxed);
	uint8_t held = s->overrun ? TP_TOUCHED | TP_TOUCHED_SOLICITED : 0;

	if (s->p->channel < 0)
		return 0;
	if ((int32_t)(seen - from) > 0 && (int32_t)(prod - seen) >= 0)
		from = seen;
	if (prod - from > s->size)
		from = prod - s->size;
	for (; from != prod; from++) {
		const struct ring_cqe *e = ring_slot(&s->p->ring, from);
		union ring_cqe_ctl ctl = { .word = atomic_load_explicit(&e->ctl, memory_order_relaxed) };

		held |= ctl.solicited || e->status != UROCE_WC_SUCCESS ? TP_TOUCHED | TP_TOUCHED_SOLICITED : TP_TOUCHED;
	}
	return held;
}

static uint32_t
owed_of(const struct settling *s)
{
	uint32_t most = 0, n;

	for (unsigned int e = 0; e < s->js->nb && s->p->channel >= 0; e++) {
		const struct journal *j = &s->js->all[e];

		if (j->open && s->number < j->limits.cqs && journal_get_number(atomic_load(&j->owed[s->number]), &n) && n > most)
			most = n;
	}
	return most;
}

static bool
number_ok(const struct journals *js, uint32_t number)
{
	for (unsigned int e = 0; e < js->nb; e++)
		if (js->all[e].open && number >= js->all[e].limits.cqs)
			return false;
	return true;
}

int
journals_cq(struct journals *js, uint32_t number, const struct cq_params *p, const struct cq_params *old, uint32_t moderation, struct cq_record *to)
{
	struct settling s = { .js = js, .number = number, .p = p, .old = old, .size = UINT32_C(1) << p->ring.order };
	size_t words = (s.size + 63) / 64;
	uint32_t n;

	if (!number_ok(js, number) || (old != NULL && old->ring.order >= p->ring.order))
		return EINVAL;
	/* The program may poll meanwhile; it has seen what is before this. */
	s.cons = atomic_load_explicit(&p->shared->cons, memory_order_acquire);
	s.listed[0] = calloc(2 * words, sizeof(uint64_t));
	if (s.listed[0] == NULL)
		return ENOMEM;
	s.listed[1] = s.listed[0] + words;
	find_listed(&s);
	n = show_all(&s);
	free(s.listed[0]);
	if (n == UINT32_MAX)
		return ENOMEM;
	if (s.overrun)
		atomic_store_explicit(&p->shared->overrun, 1, memory_order_release);
	memset(to, 0, sizeof(*to));
	to->prod = s.cons + n;
	to->cons = s.cons;
	to->reported = atomic_load(&p->shared->reported);
	to->moderation = moderation;
	to->order = (uint8_t)p->ring.order;
	to->overrun = atomic_load(&p->shared->overrun) != 0;
	to->multi = p->multi;
	to->held = held_of(&s, to->prod, to->reported);
	to->owed = owed_of(&s);
	/* An event was perhaps raised, and not sent. A program may get one too many. */
	if (to->owed == 0 && p->channel >= 0 && n != 0)
		to->owed = ring_arm(atomic_load_explicit(&p->shared->arm, memory_order_relaxed)) == RING_ARM_NONE;
	record_seal(to, RECORD_CQ, CQ_RECORD_VERSION, sizeof(*to));
	return 0;
}
