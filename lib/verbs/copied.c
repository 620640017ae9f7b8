/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs/copied.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

RB_HEAD(pages, copied_range);
LIST_HEAD(ranges, copied_range);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Most regions have one partial page at each end. */
static struct pages pages = RB_INITIALIZER(&pages);
static struct ranges ranges = LIST_HEAD_INITIALIZER(ranges);

static uint64_t
page_bytes(void)
{
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Several regions may have parts of a page. */
static int
by_page(const struct copied_range *a, const struct copied_range *b)
{
	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return (a > b) - (a < b);
}

RB_GENERATE_INTERNAL(pages, copied_range, node, by_page, __attribute__((unused)) static);

static bool
is_page(const struct copied_range *r)
{
	return r->end - r->start == page_bytes();
}

/* [start, end), and what else is in its pages; lock held. */
static void
note(struct copied_range *r, uint64_t start, uint64_t end)
{
	uint64_t page = page_bytes();

	if (start >= end)
		return;
	r->start = start & ~(page - 1);
	r->end = end > UINT64_MAX - page ? UINT64_MAX & ~(page - 1) : (end + page - 1) & ~(page - 1);
	if (is_page(r))
		RB_INSERT(pages, &pages, r);
	else
		LIST_INSERT_HEAD(&ranges, r, link);
}

void
copied_note(struct copied *c, uint64_t addr, uint64_t length, uint64_t lo, uint64_t hi)
{
	uint64_t end = addr + length;

	pthread_mutex_lock(&lock);
	note(&c->r[0], addr, lo < hi ? lo : end);
	note(&c->r[1], lo < hi ? hi : end, end);
	pthread_mutex_unlock(&lock);
}

void
copied_forget(struct copied *c)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < 2; i++) {
		struct copied_range *r = &c->r[i];

		if (r->start == r->end)
			continue;
		if (is_page(r))
			RB_REMOVE(pages, &pages, r);
		else
			LIST_REMOVE(r, link);
	}
	pthread_mutex_unlock(&lock);
	memset(c, 0, sizeof(*c));
}

/* @return the noted range with the lowest address among those that have something of [start, end), or NULL; lock held. */
static const struct copied_range *
first_in(uint64_t start, uint64_t end)
{
	uint64_t page = start & ~(page_bytes() - 1);
	/* In front of all ranges of this page, and behind those of the page before. */
	struct copied_range from = { .start = page != 0 ? page - 1 : 0 };
	const struct copied_range *first = RB_NFIND(pages, &pages, &from), *r;

	if (first != NULL && first->start >= end)
		first = NULL;
	LIST_FOREACH(r, &ranges, link) {
		if (r->start < end && r->end > start && (first == NULL || r->start < first->start))
			first = r;
	}
	return first;
}

bool
copied_next_free(uint64_t *start, uint64_t end, uint64_t *stop)
{
	const struct copied_range *r;

	*stop = end;
	pthread_mutex_lock(&lock);
	while (*start < end && (r = first_in(*start, end)) != NULL) {
		if (r->start > *start) {
			*stop = r->start;
			break;
		}
		*start = r->end;
	}
	pthread_mutex_unlock(&lock);
	return *start < end;
}

void
copied_fork_lock(void)
{
	pthread_mutex_lock(&lock);
}

void
copied_fork_unlock(void)
{
	pthread_mutex_unlock(&lock);
}
