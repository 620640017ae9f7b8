/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of events: a calendar with a list for each nanosecond, and three levels of bitmaps that say which lists have something. In a busy network
 * of 1,024 hosts tens of events happen in each nanosecond, so a heap would be slower by its depth. What happens at the same time happens in the order in
 * which it was added.
 */
#include <stdlib.h>

#include "scale.h"

#define DAYS (UINT32_C(1) << 18) /* what is later than this waits in the last list, and is put where it belongs then */
#define WORDS (DAYS / 64)

static struct { struct sc_event *first, **end; } days[DAYS];
static uint64_t low[WORDS], mid[WORDS / 64], top;
static struct sc_event *spare;
static struct sc_pkt *spare_pkts;

/* Memory for many of a kind, which is never given back. */
static void *
carve(size_t bytes)
{
	static uint8_t *at;
	static size_t left;
	void *p;

	if (left < bytes) {
		left = 1 << 20;
		at = malloc(left);
		if (at == NULL)
			abort();
	}
	p = at;
	at += bytes;
	left -= bytes;
	return p;
}

struct sc_pkt *
pkt_get(void)
{
	struct sc_pkt *p = spare_pkts;

	if (p == NULL)
		return carve((sizeof(*p) + 63) & ~(size_t)63);
	spare_pkts = (struct sc_pkt *)p->ev.next;
	return p;
}

void
pkt_put(struct sc_pkt *p)
{
	p->ev.next = (struct sc_event *)spare_pkts;
	spare_pkts = p;
}

void
event_free(struct sc_event *e)
{
	e->next = spare;
	spare = e;
}

void
event_new(enum sc_kind kind, uint32_t where, uint64_t at)
{
	struct sc_event *e = spare;

	if (e == NULL)
		e = carve(sizeof(*e));
	else
		spare = e->next;
	e->kind = (uint8_t)kind;
	e->where = where;
	event_add(e, at);
}

void
events_init(void)
{
	for (uint32_t i = 0; i < DAYS; i++)
		days[i].end = &days[i].first;
}

void
event_add(struct sc_event *e, uint64_t at)
{
	uint32_t day;

	e->at = at < w.now ? w.now : at;
	day = (uint32_t)(e->at - w.now >= DAYS ? w.now + DAYS - 1 : e->at) & (DAYS - 1);
	e->next = NULL;
	*days[day].end = e;
	days[day].end = &e->next;
	low[day / 64] |= UINT64_C(1) << day % 64;
	mid[day / 4096] |= UINT64_C(1) << day / 64 % 64;
	top |= UINT64_C(1) << day / 4096;
}

/* @return the lowest bit of @p word from @p from on, 64: none. */
static uint32_t
bit_from(uint64_t word, uint32_t from)
{
	word = from < 64 ? word & ~UINT64_C(0) << from : 0;
	return word != 0 ? (uint32_t)__builtin_ctzll(word) : 64;
}

/* @return the first day from @p from on with an event, DAYS: none before the calendar's end. */
static uint32_t
day_from(uint32_t from)
{
	uint32_t i, j, b = bit_from(low[from / 64], from % 64);

	if (b < 64)
		return from / 64 * 64 + b;
	j = bit_from(mid[from / 4096], from / 64 % 64 + 1);
	if (j == 64) {
		i = bit_from(top, from / 4096 + 1);
		if (i == 64)
			return DAYS;
		j = i * 64 + bit_from(mid[i], 0);
	} else {
		j += from / 4096 * 64;
	}
	return j * 64 + bit_from(low[j], 0);
}

struct sc_event *
event_take(uint64_t until)
{
	uint32_t today = (uint32_t)w.now & (DAYS - 1), day;
	struct sc_event *e;
	uint64_t at;

	for (;;) {
		day = day_from(today);
		if (day == DAYS)
			day = day_from(0);
		if (day == DAYS)
			return NULL;
		at = w.now + ((day - today) & (DAYS - 1));
		if (at > until)
			return NULL;
		e = days[day].first;
		days[day].first = e->next;
		if (e->next == NULL) {
			days[day].end = &days[day].first;
			if ((low[day / 64] &= ~(UINT64_C(1) << day % 64)) == 0 && (mid[day / 4096] &= ~(UINT64_C(1) << day / 64 % 64)) == 0)
				top &= ~(UINT64_C(1) << day / 4096);
		}
		w.now = at;
		if (e->at <= at)
			return e;
		event_add(e, e->at);
		today = day;
	}
}
