/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/verbs/maps.c: the parser, and that the two ways of asking the kernel agree. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "verbs/maps.h"

static int
parse(const char *line, struct map_entry *e)
{
	return maps_parse_line(line, strlen(line), e);
}

static void
line_with_a_path_gives_every_field(void **state)
{
	struct map_entry e;

	assert_int_equal(parse("7f0a1000-7f0a3000 r-xp 0001f000 fe:01 1234567                 /usr/lib/a b\\012c.so",
			       &e),
			 0);
	assert_int_equal(e.start, 0x7f0a1000);
	assert_int_equal(e.end, 0x7f0a3000);
	assert_int_equal(e.prot, PROT_READ | PROT_EXEC);
	assert_false(e.shared);
	assert_int_equal(e.offset, 0x1f000);
	assert_int_equal(e.dev_major, 0xfe);
	assert_int_equal(e.dev_minor, 1);
	assert_int_equal(e.inode, 1234567);
	assert_int_equal(e.name, MAP_NAME_FILE);
}

static void
names_in_brackets_are_told_apart(void **state)
{
	static const struct {
		const char *line;
		enum map_name name;
	} cases[] = {
		{ "1000-2000 rw-p 00000000 00:00 0 ", MAP_NAME_NONE },
		{ "1000-2000 rw-p 00000000 00:00 0", MAP_NAME_NONE },
		{ "1000-2000 rw-p 00000000 00:00 0    [heap]", MAP_NAME_HEAP },
		{ "1000-2000 rw-p 00000000 00:00 0    [stack]", MAP_NAME_STACK },
		{ "1000-2000 rw-p 00000000 00:00 0    [stack:77]", MAP_NAME_STACK },
		{ "1000-2000 rw-p 00000000 00:00 0    [anon:glibc: malloc]", MAP_NAME_ANON },
		{ "1000-2000 r--p 00000000 00:00 0    [vvar]", MAP_NAME_SPECIAL },
		{ "1000-2000 rw-s 00000000 00:01 9    /memfd:x (deleted)", MAP_NAME_FILE },
	};
	struct map_entry e;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].line, &e), 0);
		assert_int_equal(e.name, cases[i].name);
	}
	assert_true(e.shared);
}

static void
the_highest_address_fits(void **state)
{
	struct map_entry e;

	assert_int_equal(parse("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0   [vsyscall]", &e), 0);
	assert_int_equal(e.start, 0xffffffffff600000);
	assert_int_equal(e.prot, PROT_EXEC);
}

static void
damaged_lines_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"-",
		"1000",
		"1000-",
		"1000-2000",
		"2000-1000 rw-p 00000000 00:00 0",
		"1000-1000 rw-p 00000000 00:00 0",
		"1000-2000 rw-",
		"1000-2000 rwxq 00000000 00:00 0",
		"1000-2000 zw-p 00000000 00:00 0",
		"1000-2000 rw-p",
		"1000-2000 rw-p 00000000",
		"1000-2000 rw-p 00000000 00:00",
		"1000-2000 rw-p 00000000 00:00 ",
		"1000-2000 rw-p 00000000 0000 0",
		"1000-2000 rw-p 00000000 00:00 12a",
		"10000000000000000-2000 rw-p 00000000 00:00 0",
		"1000-2000 rw-p 00000000 100000000:00 0",
		"1g00-2000 rw-p 00000000 00:00 0",
	};
	struct map_entry e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(parse(bad[i], &e), EINVAL);
}

/* Three pages: shared, hole, private read-only. */
static uint8_t *
three_pages(void)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, 5 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	munmap(p, 5 * page);
	p += page;
	assert_ptr_equal(mmap(p, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0), p);
	assert_ptr_equal(mmap(p + 2 * page, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p + 2 * page);
	return p;
}

static void
check_three_pages(void)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uint8_t *p = three_pages();
	struct map_list l = { 0 };
	struct map_entry e;
	uint64_t at = (uintptr_t)p;

	assert_int_equal(maps_range(&l, at, at + 3 * page), 0);
	assert_true(l.n == 2);
	assert_true(l.e[0].start <= at && l.e[0].end == at + page && l.e[0].shared);
	assert_true(l.e[1].start == at + 2 * page && l.e[1].prot == PROT_READ && !l.e[1].shared);
	assert_int_equal(l.e[1].name, MAP_NAME_NONE);
	assert_true(maps_covers(&l, at, at + page));
	assert_false(maps_covers(&l, at, at + 3 * page));
	assert_true(maps_covers(&l, at + 2 * page + 7, at + 3 * page));
	/* The next one, if nothing covers the address. */
	assert_int_equal(maps_find(at + page, &e), 0);
	assert_true(e.start == at + 2 * page);
	maps_free(&l);
	munmap(p, 3 * page);
}

static void
ranges_with_a_hole_are_seen_by_the_ioctl(void **state)
{
	check_three_pages();
}

static void
ranges_with_a_hole_are_seen_in_the_text(void **state)
{
	maps_force_text(true);
	check_three_pages();
	maps_force_text(false);
}

static void
both_ways_find_the_same_mappings(void **state)
{
	struct map_entry by_ioctl, by_text;
	uint64_t at = 0;
	int n = 0;

	while (!maps_find(at, &by_ioctl)) {
		maps_force_text(true);
		assert_int_equal(maps_find(at, &by_text), 0);
		maps_force_text(false);
		assert_true(by_ioctl.start == by_text.start && by_ioctl.end == by_text.end);
		assert_true(by_ioctl.offset == by_text.offset && by_ioctl.inode == by_text.inode);
		assert_true(by_ioctl.dev_major == by_text.dev_major && by_ioctl.dev_minor == by_text.dev_minor);
		assert_true(by_ioctl.prot == by_text.prot && by_ioctl.shared == by_text.shared);
		assert_int_equal(by_ioctl.name, by_text.name);
		at = by_ioctl.end;
		n++;
	}
	assert_true(n > 10);
}

static void
the_stack_and_the_heap_have_their_names(void **state)
{
	struct map_entry e;
	char *top = sbrk(4096); /* not every malloc() uses it */

	assert_int_equal(maps_find((uintptr_t)__builtin_frame_address(0), &e), 0);
	assert_int_equal(e.name, MAP_NAME_STACK);
	assert_int_equal(maps_find((uintptr_t)top, &e), 0);
	assert_int_equal(e.name, MAP_NAME_HEAP);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(line_with_a_path_gives_every_field),
		cmocka_unit_test(names_in_brackets_are_told_apart),
		cmocka_unit_test(the_highest_address_fits),
		cmocka_unit_test(damaged_lines_are_refused),
		cmocka_unit_test(ranges_with_a_hole_are_seen_by_the_ioctl),
		cmocka_unit_test(ranges_with_a_hole_are_seen_in_the_text),
		cmocka_unit_test(both_ways_find_the_same_mappings),
		cmocka_unit_test(the_stack_and_the_heap_have_their_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
