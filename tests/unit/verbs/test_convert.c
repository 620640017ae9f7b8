/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/verbs/{convert,segments,stacks,fork}.c against a memfd and a userfaultfd made here. Needs the right to make one
 * that also stops the kernel's own accesses (root, or /dev/userfaultfd); skipped without.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "verbs/client_priv.h"
#include "verbs/segments.h"

enum { EXIT_SKIP = 77, STRESS_SECONDS = 2, STRESS_REGIONS = 400, STRESS_PAGES = 8, STRESS_THREADS = 3 };

static size_t page;
static struct client_ctx *ctx; /* only what conversion and fork look at */

static struct segments
find(void *addr, size_t len, int prot)
{
	struct segments s;
	struct segments_want want = {
		.addr = (uintptr_t)addr,
		.length = len,
		.prot = prot,
		.convert = true,
		.shared = true,
		.sp = (uintptr_t)__builtin_frame_address(0),
	};
	int err = segments_find(&s, &ctx->mem, &want);

	assert_int_equal(err, 0);
	return s;
}

static int
find_error(void *addr, size_t len, int prot)
{
	struct segments s;
	struct segments_want want = { .addr = (uintptr_t)addr, .length = len, .prot = prot, .convert = true };
	int err = segments_find(&s, &ctx->mem, &want);

	if (!err)
		segments_free(&s);
	return err;
}

static uint8_t *
anon(size_t bytes)
{
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

/* The bytes are the same through the memfd, which is what the daemon sees. */
static void
assert_in_file(const struct ctl_seg *s)
{
	uint8_t *copy = malloc(s->length);

	assert_int_equal(s->kind, CTL_SEG_CONVERTED);
	assert_int_equal(pread(ctx->mem.fd, copy, s->length, s->offset), s->length);
	assert_memory_equal(copy, (void *)s->va, s->length);
	free(copy);
}

static void
whole_pages_are_converted_and_keep_their_bytes(void **state)
{
	uint8_t *p = anon(4 * page), byte;
	struct segments s;

	for (size_t i = 0; i < 4 * page; i++)
		p[i] = i * 7;
	s = find(p, 4 * page, PROT_READ | PROT_WRITE);
	assert_int_equal(s.n, 1);
	assert_in_file(&s.s[0]);
	for (size_t i = 0; i < 4 * page; i++)
		assert_int_equal(p[i], (uint8_t)(i * 7));
	/* Both ways from now on. */
	p[5] = 0xa5;
	assert_int_equal(pread(ctx->mem.fd, &byte, 1, s.s[0].offset + 5), 1);
	assert_int_equal(byte, 0xa5);
	byte = 0x5a;
	assert_int_equal(pwrite(ctx->mem.fd, &byte, 1, s.s[0].offset + 6), 1);
	assert_int_equal(p[6], 0x5a);
	segments_free(&s);
	munmap(p, 4 * page);
}

static void
ragged_edges_stay_remote(void **state)
{
	uint8_t *p = anon(4 * page);
	struct segments s = find(p + 100, 4 * page - 300, PROT_READ);

	assert_int_equal(s.n, 3);
	assert_int_equal(s.s[0].kind, CTL_SEG_REMOTE);
	assert_int_equal(s.s[0].length, page - 100);
	assert_int_equal(s.s[1].kind, CTL_SEG_CONVERTED);
	assert_int_equal(s.s[1].length, 2 * page);
	assert_int_equal(s.s[2].kind, CTL_SEG_REMOTE);
	assert_int_equal(s.s[2].length, page - 200);
	assert_int_equal(s.s[2].va, (uintptr_t)p + 3 * page);
	segments_free(&s);
	/* Less than a page is one remote piece. */
	s = find(p + 10, 50, PROT_READ);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.s[0].kind, CTL_SEG_REMOTE);
	segments_free(&s);
	munmap(p, 4 * page);
}

static void
registering_again_converts_nothing_twice(void **state)
{
	uint8_t *p = anon(8 * page);
	struct segments a = find(p + 2 * page, 2 * page, PROT_READ), b;
	uint64_t next = ctx->mem.next;

	b = find(p + 2 * page, 2 * page, PROT_READ);
	assert_int_equal(ctx->mem.next, next);
	assert_int_equal(a.s[0].offset, b.s[0].offset);
	segments_free(&b);
	/* Overlap: only what is new. */
	b = find(p + page, 4 * page, PROT_READ);
	assert_int_equal(ctx->mem.next, next + 2 * page);
	assert_int_equal(b.s[0].va, (uintptr_t)p + page);
	for (size_t i = 0; i < b.n; i++)
		assert_in_file(&b.s[i]);
	segments_free(&a);
	segments_free(&b);
	munmap(p, 8 * page);
}

static void
moved_memory_is_found_where_it_is_now(void **state)
{
	uint8_t *p = anon(2 * page), *q = anon(2 * page);
	struct segments a, b;

	memset(p, 1, 2 * page);
	a = find(p, 2 * page, PROT_READ);
	assert_ptr_equal(mremap(p, 2 * page, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED, q), q);
	p = mmap(p, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(p, 2, 2 * page);
	b = find(q, 2 * page, PROT_READ);
	assert_int_equal(b.s[0].offset, a.s[0].offset);
	segments_free(&b);
	b = find(p, 2 * page, PROT_READ);
	assert_true(b.s[0].offset != a.s[0].offset);
	assert_in_file(&b.s[0]);
	assert_int_equal(q[0], 1);
	segments_free(&a);
	segments_free(&b);
	munmap(p, 2 * page);
	munmap(q, 2 * page);
}

static void
memory_that_is_grown_has_no_byte_in_common_with_other_memory(void **state)
{
	const size_t bytes = 1 << 20;
	uint8_t *p = anon(bytes), *q = anon(bytes);
	struct segments s;

	s = find(p, bytes, PROT_READ);
	segments_free(&s);
	memset(q, 1, bytes);
	s = find(q, bytes, PROT_READ);
	segments_free(&s);
	p = mremap(p, bytes, 2 * bytes, MREMAP_MAYMOVE);
	assert_ptr_not_equal(p, MAP_FAILED);
	for (size_t i = bytes; i < 2 * bytes; i++)
		assert_int_equal(p[i], 0);
	memset(p, 2, 2 * bytes);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(q[i], 1);
	munmap(p, 2 * bytes);
	munmap(q, bytes);
}

static void
what_is_mapped_otherwise_is_not_converted(void **state)
{
	static const uint8_t constant[3 * 4096] = { 1 };
	static uint8_t data[3 * 4096] = { 1 };
	uint8_t *shared = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t next = ctx->mem.next;
	struct segments s = find((void *)constant, sizeof(constant), PROT_READ);

	assert_int_equal(s.n, 1);
	assert_int_equal(s.s[0].kind, CTL_SEG_REMOTE);
	segments_free(&s);
	s = find(data, sizeof(data), PROT_READ | PROT_WRITE);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.s[0].kind, CTL_SEG_REMOTE);
	segments_free(&s);
	s = find(shared + 8, page, PROT_READ | PROT_WRITE);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.s[0].kind, CTL_SEG_SHARED);
	assert_int_equal(s.s[0].offset, (uintptr_t)shared + 8 - s.s[0].map_start);
	assert_true(s.any_shared);
	segments_free(&s);
	assert_int_equal(ctx->mem.next, next);
	munmap(shared, 2 * page);
}

static void
zeroed_static_and_read_only_memory_is_converted(void **state)
{
	/* What was converted once isn't again, for another file neither: one for each group of tests. */
	static uint8_t all[2][4 * 4096];
	static int group;
	uint8_t *bss = all[group++], *ro = anon(page);
	struct segments s;
	size_t converted = 0;

	s = find(bss, sizeof(all[0]), PROT_READ | PROT_WRITE);
	for (size_t i = 0; i < s.n; i++)
		converted += s.s[i].kind == CTL_SEG_CONVERTED ? s.s[i].length : 0;
	assert_true(converted >= 3 * page);
	segments_free(&s);
	ro[0] = 9;
	mprotect(ro, page, PROT_READ);
	s = find(ro, page, PROT_READ);
	assert_in_file(&s.s[0]);
	/* It can be made writable as before. */
	assert_int_equal(mprotect(ro, page, PROT_READ | PROT_WRITE), 0);
	ro[0] = 10;
	assert_in_file(&s.s[0]);
	segments_free(&s);
	munmap(ro, page);
}

static void
holes_and_missing_rights_are_efault(void **state)
{
	uint8_t *p = anon(4 * page);

	munmap(p + 2 * page, page);
	assert_int_equal(find_error(p, 4 * page, PROT_READ), EFAULT);
	mprotect(p, page, PROT_READ);
	assert_int_equal(find_error(p, 16, PROT_READ | PROT_WRITE), EFAULT);
	assert_int_equal(find_error(p, 16, PROT_READ), 0);
	mprotect(p, page, PROT_NONE);
	assert_int_equal(find_error(p, 16, PROT_READ), EFAULT);
	munmap(p, 4 * page);
	assert_int_equal(find_error(NULL, 16, PROT_READ), EFAULT);
}

static void
assert_all_remote(uint8_t *p, size_t bytes)
{
	struct segments s = find(p, bytes, PROT_READ | PROT_WRITE);

	assert_int_equal(s.n, 1);
	assert_int_equal(s.s[0].kind, CTL_SEG_REMOTE);
	segments_free(&s);
}

static void *
register_own_stack(void *arg)
{
	uint8_t buf[8 * 4096];

	memset(buf, 1, sizeof(buf));
	assert_all_remote(buf, sizeof(buf));
	return NULL;
}

static void
own_stacks_are_never_converted(void **state)
{
	pthread_attr_t attr;
	pthread_t t;
	uint8_t *mine = anon(64 * page);

	register_own_stack(NULL);
	assert_int_equal(pthread_create(&t, NULL, register_own_stack, NULL), 0);
	pthread_join(t, NULL);
	/* A stack that the program provides, without a guard page. */
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, mine, 64 * page);
	assert_int_equal(pthread_create(&t, &attr, register_own_stack, NULL), 0);
	pthread_join(t, NULL);
	munmap(mine, 64 * page);
}

struct shown_stack {
	uint8_t *_Atomic buf;
	_Atomic bool done;
};

static void *
show_stack(void *arg)
{
	struct shown_stack *s = arg;
	uint8_t buf[8 * 4096];

	memset(buf, 3, sizeof(buf));
	s->buf = buf;
	while (!s->done)
		usleep(1000);
	return NULL;
}

static void
another_threads_stack_is_not_converted(void **state)
{
	struct shown_stack s = { 0 };
	pthread_t t;
	uint8_t *chunk;
	struct segments found;

	assert_int_equal(pthread_create(&t, NULL, show_stack, &s), 0);
	while (!s.buf)
		usleep(1000);
	assert_all_remote(s.buf, 8 * page);
	/* Memory mapped right below the stack's guard page is no stack. */
	chunk = anon(16 * page);
	found = find(chunk, 16 * page, PROT_READ | PROT_WRITE);
	assert_in_file(&found.s[0]);
	segments_free(&found);
	s.done = true;
	pthread_join(t, NULL);
	munmap(chunk, 16 * page);
}

static void
malloced_memory_can_be_freed_grown_and_used_again(void **state)
{
	for (int round = 0; round < 50; round++) {
		size_t bytes = 10000 + round * 20000;
		uint8_t *p = malloc(bytes), *q = malloc(3000);
		struct segments s;

		memset(p, round, bytes);
		s = find(p, bytes, PROT_READ | PROT_WRITE);
		segments_free(&s);
		for (size_t i = 0; i < bytes; i += 97)
			assert_int_equal(p[i], round);
		p = realloc(p, bytes * 3);
		for (size_t i = 0; i < bytes; i += 97)
			assert_int_equal(p[i], round);
		memset(p, ~round, bytes * 3);
		free(q);
		free(p);
	}
}

/* ---- fork ---- */

static void
a_forked_child_has_its_own_copy(void **state)
{
	uint8_t *p = anon(16 * page), *none = anon(page);
	struct segments s;
	int status;

	memset(p, 1, 16 * page);
	s = find(p, 16 * page, PROT_READ | PROT_WRITE);
	segments_free(&s);
	memset(none, 7, page);
	s = find(none, page, PROT_READ | PROT_WRITE);
	segments_free(&s);
	mprotect(none, page, PROT_NONE);
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();

		if (!child) {
			/* The parent's later stores aren't seen, ours don't reach it. */
			usleep(3000);
			for (size_t j = 0; j < 16 * page; j++)
				if (p[j] != 1)
					_exit(1);
			memset(p, 2, 16 * page);
			if (mprotect(none, page, PROT_READ | PROT_WRITE) || none[5] != 7)
				_exit(2);
			none[5] = 8;
			_exit(ctx->foreign ? 0 : 3);
		}
		memset(p, 4, 16 * page);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		for (size_t j = 0; j < 16 * page; j++)
			assert_int_equal(p[j], 4);
		memset(p, 1, 16 * page);
	}
	mprotect(none, page, PROT_READ);
	assert_int_equal(none[5], 7);
	munmap(p, 16 * page);
	munmap(none, page);
}

/* ---- giving memory back ---- */

static uint64_t
file_blocks(void)
{
	struct stat st;

	assert_int_equal(fstat(ctx->mem.fd, &st), 0);
	return st.st_blocks * UINT64_C(512);
}

static void
unmapped_memory_is_given_back_at_the_second_look(void **state)
{
	const size_t bytes = 1 << 20;
	uint8_t *keep = anon(bytes), *drop = anon(bytes);
	struct segments s;
	uint64_t before;

	memset(keep, 1, bytes);
	memset(drop, 1, bytes);
	s = find(keep, bytes, PROT_READ);
	segments_free(&s);
	s = find(drop, bytes, PROT_READ);
	segments_free(&s);
	mem_file_collect(&ctx->mem);
	mem_file_collect(&ctx->mem);
	before = file_blocks();
	munmap(drop, bytes);
	mem_file_collect(&ctx->mem);
	assert_int_equal(file_blocks(), before);
	mem_file_collect(&ctx->mem);
	assert_int_equal(file_blocks(), before - bytes);
	for (size_t i = 0; i < bytes; i++)
		assert_int_equal(keep[i], 1);
	munmap(keep, bytes);
}

/* ---- mappings ---- */

static void
the_program_keeps_mappings_for_itself(void **state)
{
	const size_t large = 1 << 20;
	uint8_t *p = anon(4 * page), *q = anon(large);
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
	struct segments s;
	uint64_t most;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%" SCNu64, &most), 1);
	fclose(f);
	mem_file_collect(&ctx->mem);
	ctx->mem.nb_mappings = most / 2 + 1;
	memset(p, 1, 4 * page);
	memset(q, 2, large);
	assert_all_remote(p + page, page);
	s = find(q, large, PROT_READ | PROT_WRITE);
	assert_in_file(&s.s[0]);
	segments_free(&s);
	/* Where there are many, they are counted again after a while; and there are few. */
	assert_false(mem_file_is_due(&ctx->mem));
	while (!mem_file_is_due(&ctx->mem))
		assert_all_remote(p + page, page);
	assert_int_equal(ctx->mem.ranges_since_collect, MEM_FILE_COLLECT_MOST_RANGES);
	mem_file_collect(&ctx->mem);
	s = find(p + page, page, PROT_READ | PROT_WRITE);
	assert_in_file(&s.s[0]);
	segments_free(&s);
	munmap(p, 4 * page);
	munmap(q, large);
}

static void
collections_are_rarer_where_there_is_more_to_look_at(void **state)
{
	struct mem_file f = { .fd = -1, .ranges_since_collect = MEM_FILE_COLLECT_LEAST_RANGES };

	assert_true(mem_file_is_due(&f));
	f.nb_mappings = MEM_FILE_COLLECT_LEAST_RANGES + 1;
	assert_false(mem_file_is_due(&f));
	f.ranges_since_collect++;
	assert_true(mem_file_is_due(&f));
	f.nb_mappings = 10 * MEM_FILE_COLLECT_MOST_RANGES;
	assert_false(mem_file_is_due(&f));
	f.ranges_since_collect = MEM_FILE_COLLECT_MOST_RANGES;
	assert_true(mem_file_is_due(&f));
	f.ranges_since_collect = 0;
	f.since_collect = MEM_FILE_COLLECT_BYTES;
	assert_true(mem_file_is_due(&f));
}

/* ---- no store is lost ---- */

static struct {
	uint64_t *regions[STRESS_REGIONS]; /* [page][thread] in each: a slot of its own for every thread */
	_Atomic bool stop;
	_Atomic uint64_t stores, lost, kernel_errors;
} stress;

static volatile uint64_t *
stress_slot(int region, int pg, int thread)
{
	return (volatile uint64_t *)((uint8_t *)stress.regions[region] + pg * page) + thread * 8;
}

static void *
stress_writer(void *arg)
{
	int me = (int)(intptr_t)arg;
	uint64_t *shadow = calloc(STRESS_REGIONS * STRESS_PAGES, sizeof(*shadow)), n = 0;

	while (!stress.stop) {
		for (int r = 0; r < STRESS_REGIONS; r++) {
			for (int pg = 0; pg < STRESS_PAGES; pg++) {
				volatile uint64_t *slot = stress_slot(r, pg, me);
				uint64_t *mine = &shadow[r * STRESS_PAGES + pg];

				if (*slot != *mine)
					stress.lost++;
				*slot = ++*mine;
				if (*slot != *mine)
					stress.lost++;
				n++;
			}
		}
	}
	stress.stores += n;
	free(shadow);
	return NULL;
}

/* The same through system calls, whose stores the kernel makes. */
static void *
stress_kernel_writer(void *arg)
{
	int me = (int)(intptr_t)arg, fds[2];
	uint64_t *shadow = calloc(STRESS_REGIONS * STRESS_PAGES, sizeof(*shadow));

	if (pipe(fds))
		abort();
	while (!stress.stop) {
		for (int r = 0; r < STRESS_REGIONS; r++) {
			for (int pg = 0; pg < STRESS_PAGES; pg++) {
				volatile uint64_t *slot = stress_slot(r, pg, me);
				uint64_t *mine = &shadow[r * STRESS_PAGES + pg];

				if (*slot != *mine)
					stress.lost++;
				++*mine;
				if (write(fds[1], mine, sizeof(*mine)) != sizeof(*mine) ||
				    read(fds[0], (void *)slot, sizeof(*slot)) != sizeof(*slot))
					stress.kernel_errors++;
			}
		}
	}
	close(fds[0]);
	close(fds[1]);
	free(shadow);
	return NULL;
}

static void
no_store_is_lost_while_memory_is_converted(void **state)
{
	pthread_t t[STRESS_THREADS + 1];
	struct timespec pause = { .tv_nsec = STRESS_SECONDS * 1000000000LL / STRESS_REGIONS };
	uint64_t total = 0;

	stress.stop = false;
	for (int r = 0; r < STRESS_REGIONS; r++) {
		uint8_t *p = anon((STRESS_PAGES + 1) * page);

		/* A gap, so that each is a mapping of its own. */
		munmap(p + STRESS_PAGES * page, page);
		stress.regions[r] = (uint64_t *)p;
	}
	for (intptr_t i = 0; i < STRESS_THREADS; i++)
		assert_int_equal(pthread_create(&t[i], NULL, stress_writer, (void *)i), 0);
	assert_int_equal(pthread_create(&t[STRESS_THREADS], NULL, stress_kernel_writer,
					(void *)(intptr_t)STRESS_THREADS),
			 0);
	for (int r = 0; r < STRESS_REGIONS; r++) {
		struct segments s = find(stress.regions[r], STRESS_PAGES * page, PROT_READ | PROT_WRITE);

		assert_int_equal(s.s[0].kind, CTL_SEG_CONVERTED);
		total += s.s[0].length;
		segments_free(&s);
		nanosleep(&pause, NULL);
	}
	stress.stop = true;
	for (int i = 0; i <= STRESS_THREADS; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(total, STRESS_REGIONS * STRESS_PAGES * page);
	assert_int_equal(stress.lost, 0);
	assert_int_equal(stress.kernel_errors, 0);
	assert_true(stress.stores > 100000);
	for (int r = 0; r < STRESS_REGIONS; r++)
		munmap(stress.regions[r], STRESS_PAGES * page);
}

static int
setup(void **state)
{
	int fd = memfd_create("uroce-mr", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, INT64_C(1) << 40))
		return -1;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx || mem_file_init(&ctx->mem, fd, UINT64_C(1) << 40))
		return -1;
	client_contexts = ctx;
	client_fork_setup();
	return 0;
}

static int
teardown(void **state)
{
	client_contexts = NULL;
	mem_file_fini(&ctx->mem);
	free(ctx);
	return 0;
}

static void *
wait_for_end(void *arg)
{
	char c;

	if (read(*(int *)arg, &c, 1) < 0)
		perror("read");
	return NULL;
}

/* Without a right to userfaultfd: nobody else may write to memory while it is copied. */
static void
without_userfaultfd_a_second_thread_stops_conversions(void **state)
{
	uint8_t *p = anon(4 * page);
	struct segments s;
	pthread_t thread;
	struct stat st;
	int fds[2];

	memset(p, 0x5a, 4 * page);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_end, &fds[0]), 0);
	s = find(p, 4 * page, PROT_READ | PROT_WRITE);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.s[0].kind, CTL_SEG_REMOTE);
	segments_free(&s);
	close(fds[1]);
	pthread_join(thread, NULL);
	/* The kernel counts it for a moment more. */
	while (!stat("/proc/self/task", &st) && st.st_nlink > 3)
		usleep(1000);
	s = find(p, 4 * page, PROT_READ | PROT_WRITE);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.s[0].kind, CTL_SEG_CONVERTED);
	assert_in_file(&s.s[0]);
	segments_free(&s);
	for (size_t i = 0; i < 4 * page; i++)
		assert_int_equal(p[i], 0x5a);
	munmap(p, 4 * page);
	close(fds[0]);
}

/* And what a copier writes while a page is copied would be lost, so that its pages are left as they are. */
static void
without_userfaultfd_pages_that_copiers_write_to_stay(void **state)
{
	uint8_t *p = anon(6 * page);
	struct copied c = { 0 };
	struct segments s;

	copied_note(&c, (uintptr_t)p + 2 * page + 100, 50, 0, 0);
	s = find(p, 6 * page, PROT_READ | PROT_WRITE);
	assert_int_equal(s.n, 3);
	assert_int_equal(s.s[0].kind, CTL_SEG_CONVERTED);
	assert_int_equal(s.s[0].length, 2 * page);
	assert_int_equal(s.s[1].kind, CTL_SEG_REMOTE);
	assert_int_equal(s.s[1].length, page);
	assert_int_equal(s.s[2].kind, CTL_SEG_CONVERTED);
	assert_int_equal(s.s[2].length, 3 * page);
	segments_free(&s);
	copied_forget(&c);
	s = find(p, 6 * page, PROT_READ | PROT_WRITE);
	for (size_t i = 0; i < s.n; i++)
		assert_int_equal(s.s[i].kind, CTL_SEG_CONVERTED);
	segments_free(&s);
	munmap(p, 6 * page);
}

/* As an ordinary user where vm.unprivileged_userfaultfd is 0. */
static int
main_without(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_userfaultfd_a_second_thread_stops_conversions),
		cmocka_unit_test(without_userfaultfd_pages_that_copiers_write_to_stay),
		cmocka_unit_test(whole_pages_are_converted_and_keep_their_bytes),
		cmocka_unit_test(ragged_edges_stay_remote),
		cmocka_unit_test(registering_again_converts_nothing_twice),
		cmocka_unit_test(own_stacks_are_never_converted),
	};

	page = sysconf(_SC_PAGESIZE);
	if ((geteuid() == 0 && setresuid(65534, 65534, 65534)) || !convert_setup(-1)) {
		fprintf(stderr, "skipped: this user may have userfaultfd\n");
		return EXIT_SKIP;
	}
	return cmocka_run_group_tests_name("without userfaultfd", tests, setup, teardown);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_pages_are_converted_and_keep_their_bytes),
		cmocka_unit_test(ragged_edges_stay_remote),
		cmocka_unit_test(registering_again_converts_nothing_twice),
		cmocka_unit_test(moved_memory_is_found_where_it_is_now),
		cmocka_unit_test(memory_that_is_grown_has_no_byte_in_common_with_other_memory),
		cmocka_unit_test(what_is_mapped_otherwise_is_not_converted),
		cmocka_unit_test(zeroed_static_and_read_only_memory_is_converted),
		cmocka_unit_test(holes_and_missing_rights_are_efault),
		cmocka_unit_test(own_stacks_are_never_converted),
		cmocka_unit_test(another_threads_stack_is_not_converted),
		cmocka_unit_test(malloced_memory_can_be_freed_grown_and_used_again),
		cmocka_unit_test(the_program_keeps_mappings_for_itself),
		cmocka_unit_test(collections_are_rarer_where_there_is_more_to_look_at),
		cmocka_unit_test(a_forked_child_has_its_own_copy),
		cmocka_unit_test(unmapped_memory_is_given_back_at_the_second_look),
		cmocka_unit_test(no_store_is_lost_while_memory_is_converted),
	};
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	int err;

	if (argc > 1)
		return main_without();
	err = convert_setup(dev);
	page = sysconf(_SC_PAGESIZE);
	if (err) {
		fprintf(stderr, "skipped: no userfaultfd: %s\n", strerror(err));
		return EXIT_SKIP;
	}
	/* As Linux before 6.11 has it, and with the ioctl. */
	maps_force_text(true);
	err = cmocka_run_group_tests_name("maps as text", tests, setup, teardown);
	maps_force_text(false);
	return err + cmocka_run_group_tests_name("maps by ioctl", tests, setup, teardown);
}
