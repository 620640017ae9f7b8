/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/verbs/copied.c beside a count of each page's regions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "verbs/copied.h"

enum { PAGES = 24, REGIONS = 8, STEPS = 20000 };
#define BASE (UINT64_C(1) << 30)

struct region {
	struct copied c;
	uint64_t addr, length, lo, hi;
	bool noted;
};

static uint64_t page;
static uint32_t count[PAGES];

static uint32_t
random_below(uint32_t n)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (state >> 8) % n;
}

/* Count the pages of [start, end). */
static void
tell(uint64_t start, uint64_t end, uint32_t add)
{
	if (start < end)
		for (uint64_t at = (start - BASE) / page; at <= (end - 1 - BASE) / page; at++)
			count[at] += add;
}

static void
tell_region(const struct region *r, uint32_t add)
{
	bool mapped = r->lo < r->hi;

	tell(r->addr, mapped ? r->lo : r->addr + r->length, add);
	tell(mapped ? r->hi : r->addr + r->length, r->addr + r->length, add);
}

static void
change(struct region *r)
{
	if (r->noted) {
		copied_forget(&r->c);
		tell_region(r, (uint32_t)-1);
	} else {
		r->addr = BASE + random_below((uint32_t)(PAGES * page));
		r->length = random_below((uint32_t)(BASE + PAGES * page - r->addr)) + 1;
		/* The whole pages, nothing, or all of it. */
		r->lo = (r->addr + page - 1) & ~(page - 1);
		r->hi = (r->addr + r->length) & ~(page - 1);
		if (random_below(4) == 0)
			r->lo = r->hi = 0;
		else if (random_below(8) == 0 || r->lo > r->hi)
			r->lo = r->addr, r->hi = r->addr + r->length;
		copied_note(&r->c, r->addr, r->length, r->lo, r->hi);
		tell_region(r, 1);
	}
	r->noted = !r->noted;
}

static void
what_is_free_is_what_nobody_noted(void **state)
{
	struct region regions[REGIONS] = { 0 };

	for (int step = 0; step < STEPS; step++) {
		uint64_t first = random_below(PAGES), end = first + 1 + random_below((uint32_t)(PAGES - first)), at = first, start = BASE + first * page, stop;

		change(&regions[random_below(REGIONS)]);
		while (copied_next_free(&start, BASE + end * page, &stop)) {
			for (; at < (start - BASE) / page; at++)
				assert_int_not_equal(count[at], 0);
			for (; at < (stop - BASE) / page; at++)
				assert_int_equal(count[at], 0);
			start = stop;
		}
		for (; at < end; at++)
			assert_int_not_equal(count[at], 0);
	}
	for (int i = 0; i < REGIONS; i++)
		copied_forget(&regions[i].c);
}

/* An implicit region for on-demand paging. */
static void
all_memory_may_be_noted(void **state)
{
	uint64_t start = BASE, stop;
	struct copied c = { 0 };

	copied_note(&c, 0, UINT64_MAX, 0, 0);
	assert_false(copied_next_free(&start, BASE + page, &stop));
	copied_forget(&c);
	start = BASE;
	assert_true(copied_next_free(&start, BASE + page, &stop));
	assert_int_equal(start, BASE);
	assert_int_equal(stop, BASE + page);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_free_is_what_nobody_noted),
		cmocka_unit_test(all_memory_may_be_noted),
	};

	page = (uint64_t)sysconf(_SC_PAGESIZE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
