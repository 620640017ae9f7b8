/* SPDX-License-Identifier: BSD-3-Clause */
/* The arena: one shared mapping, of huge pages if the machine has any, allocated front to back. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "perf.h"

#define HUGE_BYTES (UINT64_C(2) << 20)

static struct {
	uint8_t *base;
	size_t bytes, used;
	bool huge;
} arena;

bool
arena_open(size_t bytes)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE;

	arena.bytes = (bytes + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
	arena.base = mmap(NULL, arena.bytes, prot, flags | MAP_HUGETLB, -1, 0);
	arena.huge = arena.base != MAP_FAILED;
	if (!arena.huge)
		arena.base = mmap(NULL, arena.bytes, prot, flags, -1, 0);
	if (arena.base == MAP_FAILED) {
		fprintf(stderr,
			"uroce-perf: no memory for the test, %zu MiB: %s; take a smaller --memory, --depth or --qps\n",
			arena.bytes >> 20, strerror(errno));
		return false;
	}
	return true;
}

void *
arena_alloc(size_t bytes, size_t align)
{
	size_t at = (arena.used + align - 1) & ~(align - 1);

	if (bytes > arena.bytes - at) {
		fprintf(stderr, "uroce-perf: arena_need() is too small: %zu of %zu bytes used, %zu asked for\n",
			arena.used, arena.bytes, bytes);
		abort();
	}
	arena.used = at + bytes;
	return arena.base + at;
}

const char *
arena_pages(void)
{
	return arena.huge ? "2MiB" : "4KiB";
}
