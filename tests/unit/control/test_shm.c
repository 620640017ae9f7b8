/* SPDX-License-Identifier: BSD-3-Clause */
/* Session memory: the allocator, sealing, and what a page that goes away does. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/memory/shm_priv.h"
#include "control/memory/sigbus_priv.h"

static _Atomic uint32_t victim;

static bool
all_zero(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static void
blocks_are_aligned_zeroed_and_apart(void **state)
{
	struct shm *m = shm_create(64 << 20, false, &victim);
	struct shm_block b[200];
	unsigned int i, k;

	for (i = 0; i < 200; i++) {
		assert_int_equal(shm_alloc(m, 1 + i * 97, &b[i]), 0);
		assert_int_equal(b[i].offset % SHM_ALIGN, 0);
		assert_true(all_zero(b[i].addr, b[i].bytes));
		memset(b[i].addr, (int)i + 1, b[i].bytes);
	}
	for (i = 0; i < 200; i++) {
		for (k = 0; k < b[i].bytes; k++)
			assert_int_equal(b[i].addr[k], (uint8_t)(i + 1));
	}
	shm_destroy(m);
}

static void
freed_memory_is_used_again_and_clean(void **state)
{
	struct shm *m = shm_create(SHM_SEGMENT_BYTES, false, &victim);
	struct shm_block a, b;
	uint64_t bytes;
	int i;

	assert_int_equal(shm_alloc(m, 64, &a), 0);
	assert_true(shm_announce(m, &a, &bytes) >= 0);
	for (i = 0; i < 1000; i++) {
		assert_int_equal(shm_alloc(m, SHM_SEGMENT_BYTES - 4096, &b), 0);
		assert_true(all_zero(b.addr, b.bytes));
		memset(b.addr, 0xff, i % 10 == 0 ? b.bytes : 100);
		shm_free(m, &b);
	}
	assert_int_equal(shm_used(m), a.bytes);
	shm_destroy(m);
}

/** Random allocations and frees against a simple record of who has what. */
static void
blocks_never_overlap_and_all_memory_comes_back(void **state)
{
	enum { N = 300, STEPS = 20000 };
	struct shm *m = shm_create(32 << 20, false, &victim);
	static struct shm_block b[N];
	static bool live[N];
	static uint8_t tag[N];
	struct shm_block whole;
	unsigned int seed = 7;
	uint64_t bytes;
	int i, step;

	for (step = 0; step < STEPS; step++) {
		i = rand_r(&seed) % N;
		if (live[i]) {
			assert_int_equal(b[i].addr[0], tag[i]);
			assert_int_equal(b[i].addr[b[i].bytes - 1], tag[i]);
			shm_free(m, &b[i]);
			live[i] = false;
			continue;
		}
		if (shm_alloc(m, 1 + rand_r(&seed) % (rand_r(&seed) % 20 == 0 ? 300000 : 5000), &b[i]) != 0)
			continue;
		assert_int_equal(b[i].addr[0], 0);
		assert_int_equal(b[i].addr[b[i].bytes - 1], 0);
		tag[i] = (uint8_t)(1 + rand_r(&seed) % 255);
		memset(b[i].addr, tag[i], b[i].bytes);
		live[i] = true;
		if (shm_announce(m, &b[i], &bytes) >= 0)
			assert_int_equal(bytes % SHM_SEGMENT_BYTES, 0);
	}
	for (i = 0; i < N; i++) {
		if (live[i])
			shm_free(m, &b[i]);
	}
	assert_int_equal(shm_used(m), 0);
	/* The extents have joined again: a segment holds one block of its whole size. */
	assert_int_equal(shm_alloc(m, SHM_SEGMENT_BYTES, &whole), 0);
	assert_int_equal(whole.offset, 0);
	shm_destroy(m);
}

static void
the_limit_holds(void **state)
{
	struct shm *m = shm_create(3 * SHM_SEGMENT_BYTES, false, &victim);
	struct shm_block a, b;

	assert_int_equal(shm_alloc(m, UINT64_MAX, &a), ENOMEM);
	assert_int_equal(shm_alloc(m, 0, &a), ENOMEM);
	assert_int_equal(shm_alloc(m, 4 * SHM_SEGMENT_BYTES, &a), ENOMEM);
	assert_int_equal(shm_alloc(m, 2 * SHM_SEGMENT_BYTES + 1, &a), 0);
	assert_int_equal(shm_alloc(m, SHM_SEGMENT_BYTES, &b), ENOMEM);
	shm_free(m, &a);
	assert_int_equal(shm_alloc(m, SHM_SEGMENT_BYTES, &b), 0);
	shm_destroy(m);
}

static void
a_segment_is_announced_once_and_sealed(void **state)
{
	struct shm *m = shm_create(64 << 20, false, &victim);
	struct shm_block a, b;
	uint64_t bytes = 0;
	struct stat st;
	uint8_t *p;
	int fd;

	assert_int_equal(shm_alloc(m, 100, &a), 0);
	assert_int_equal(shm_alloc(m, 100, &b), 0);
	assert_int_equal(a.segment, b.segment);
	fd = shm_announce(m, &a, &bytes);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, bytes);
	assert_int_equal(shm_announce(m, &b, &bytes), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(ftruncate(fd, (off_t)bytes * 2), -1);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	/* Both ends see the same. */
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	p[b.offset] = 42;
	assert_int_equal(b.addr[0], 42);
	munmap(p, bytes);
	close(fd);
	shm_destroy(m);
}

/** With hugepages wanted, memory comes with or without them and behaves the same. */
static void
hugepages_or_not_makes_no_difference(void **state)
{
	struct shm *m = shm_create(64 << 20, true, &victim);
	struct shm_block b[40];
	uint64_t bytes;
	int round, fd, i;

	for (round = 0; round < 3; round++) {
		for (i = 0; i < 40; i++) {
			assert_int_equal(shm_alloc(m, 100000, &b[i]), 0);
			assert_true(all_zero(b[i].addr, b[i].bytes));
			memset(b[i].addr, 0xee, b[i].bytes);
			fd = shm_announce(m, &b[i], &bytes);
			if (fd < 0)
				continue;
			assert_int_equal(ftruncate(fd, 0), -1);
			close(fd);
		}
		for (i = 0; i < 40; i++)
			shm_free(m, &b[i]);
		assert_int_equal(shm_used(m), 0);
	}
	shm_destroy(m);
}

static void
an_unannounced_segment_goes_with_its_last_block(void **state)
{
	struct shm *m = shm_create(SHM_SEGMENT_BYTES, false, &victim);
	struct shm_block a;
	int i;

	for (i = 0; i < 10; i++) {
		assert_int_equal(shm_alloc(m, SHM_SEGMENT_BYTES, &a), 0);
		shm_free(m, &a);
	}
	assert_int_equal(shm_used(m), 0);
	shm_destroy(m);
}

static void
a_page_pulled_away_becomes_zeros_and_marks_the_victim(void **state)
{
	int efd = eventfd(0, EFD_NONBLOCK), fd = memfd_create("victim", 0), id;
	volatile uint8_t *p;
	uint64_t n = 0;

	victim = 0;
	assert_int_equal(sigbus_install(efd), 0);
	assert_int_equal(ftruncate(fd, 8192), 0);
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	id = sigbus_add((void *)(uintptr_t)p, 8192, &victim);
	assert_true(id >= 0);
	p[5000] = 7;
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(p[5000], 0);
	p[100] = 3;
	assert_int_equal(p[100], 3);
	assert_int_equal(victim, 1);
	assert_int_equal(read(efd, &n, sizeof(n)), sizeof(n));
	sigbus_remove(id);
	sigbus_uninstall(efd);
	munmap((void *)(uintptr_t)p, 8192);
	close(fd);
	close(efd);
}

static void
exit_well(int sig)
{
	_exit(42);
}

/** A fault outside all programs' mappings, with @p before in place when ours comes. @return the child's status. */
static int
fault_elsewhere(void (*before)(int sig))
{
	int fd = memfd_create("elsewhere", 0), status;
	volatile uint8_t *p;
	pid_t pid;

	assert_int_equal(ftruncate(fd, 4096), 0);
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGBUS, before);
		if (sigbus_install(eventfd(0, EFD_NONBLOCK)) == 0 && ftruncate(fd, 0) == 0)
			p[0] = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	munmap((void *)(uintptr_t)p, 4096);
	close(fd);
	return status;
}

static void
a_fault_elsewhere_still_ends_the_process(void **state)
{
	int status = fault_elsewhere(SIG_DFL);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGBUS);
}

static void
a_fault_elsewhere_goes_to_the_handler_that_was_there(void **state)
{
	int status = fault_elsewhere(exit_well);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
}

static void
blocks_are_taken_over_with_what_is_in_them(void **state)
{
	struct shm *old = shm_create(64 << 20, false, &victim), *m = shm_create(64 << 20, false, &victim);
	struct shm_block was[50], now[50], other;
	struct shm_segment seg;
	uint64_t bytes;
	uint32_t n = 0;

	for (unsigned int i = 0; i < 50; i++) {
		assert_int_equal(shm_alloc(old, 100000 + i * 64, &was[i]), 0);
		memset(was[i].addr, (int)i + 1, was[i].bytes);
		shm_announce(old, &was[i], &bytes);
	}
	for (uint32_t i = 0; shm_segment_look(old, &i, &seg); n++) {
		seg.fd = fcntl(seg.fd, F_DUPFD_CLOEXEC, 0);
		assert_int_equal(shm_segment_take(m, &seg), 0);
		assert_int_equal(shm_segment_take(m, &seg), ENOMEM); /* it is there */
	}
	assert_int_equal(n, shm_segments(old));
	assert_int_equal(shm_segments(m), n);
	/* Backwards, every other one. */
	for (unsigned int i = 50; i-- > 0;) {
		if (i % 2 == 0)
			continue;
		assert_int_equal(shm_take(m, was[i].segment, was[i].offset, was[i].bytes, &now[i]), 0);
		assert_memory_equal(now[i].addr, was[i].addr, was[i].bytes);
		assert_int_equal(shm_take(m, was[i].segment, was[i].offset, was[i].bytes, &other), EINVAL);
		assert_int_equal(shm_take(m, was[i].segment, was[i].offset + 64, 64, &other), EINVAL);
	}
	/* New blocks lie between them. */
	for (unsigned int i = 0; i < 20; i++) {
		assert_int_equal(shm_alloc(m, 100000, &other), 0);
		for (unsigned int k = 1; k < 50; k += 2)
			assert_true(other.segment != now[k].segment || other.offset + other.bytes <= now[k].offset ||
				    other.offset >= now[k].offset + now[k].bytes);
	}
	for (unsigned int i = 1; i < 50; i += 2) {
		assert_int_equal(now[i].addr[now[i].bytes - 1], (uint8_t)(i + 1));
		shm_free(m, &now[i]);
	}
	shm_destroy(m);
	shm_destroy(old);
}

static void
blocks_and_segments_that_cant_be_are_refused(void **state)
{
	struct shm *m = shm_create(64 << 20, false, &victim);
	struct shm_segment seg = { .bytes = SHM_SEGMENT_BYTES, .fd = shm_memfd("test", SHM_SEGMENT_BYTES, 0) }, bad;
	struct shm_block b;
	int loose = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(loose, SHM_SEGMENT_BYTES), 0);
	bad = (struct shm_segment){ .bytes = SHM_SEGMENT_BYTES, .fd = loose };
	assert_int_equal(shm_segment_take(m, &bad), EINVAL); /* its size can change */
	bad = seg;
	bad.bytes = 2 * SHM_SEGMENT_BYTES;
	assert_int_equal(shm_segment_take(m, &bad), EINVAL);
	bad = seg;
	bad.number = SHM_MAX_SEGMENTS;
	assert_int_equal(shm_segment_take(m, &bad), ENOMEM);
	assert_int_equal(shm_take(m, 0, 0, 64, &b), EINVAL);
	assert_int_equal(shm_segment_take(m, &seg), 0);
	assert_int_equal(shm_take(m, 0, 0, 0, &b), EINVAL);
	assert_int_equal(shm_take(m, 0, 32, 64, &b), EINVAL);
	assert_int_equal(shm_take(m, 0, 0, 65, &b), EINVAL);
	assert_int_equal(shm_take(m, 0, SHM_SEGMENT_BYTES - 64, 128, &b), EINVAL);
	assert_int_equal(shm_take(m, 0, UINT64_MAX - 63, 128, &b), EINVAL);
	assert_int_equal(shm_take(m, 1, 0, 64, &b), EINVAL);
	assert_int_equal(shm_take(m, 0, SHM_SEGMENT_BYTES - 64, 64, &b), 0);
	assert_int_equal(shm_used(m), 64);
	shm_destroy(m);
	close(loose);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_aligned_zeroed_and_apart),
		cmocka_unit_test(freed_memory_is_used_again_and_clean),
		cmocka_unit_test(blocks_never_overlap_and_all_memory_comes_back),
		cmocka_unit_test(the_limit_holds),
		cmocka_unit_test(a_segment_is_announced_once_and_sealed),
		cmocka_unit_test(hugepages_or_not_makes_no_difference),
		cmocka_unit_test(blocks_are_taken_over_with_what_is_in_them),
		cmocka_unit_test(blocks_and_segments_that_cant_be_are_refused),
		cmocka_unit_test(an_unannounced_segment_goes_with_its_last_block),
		cmocka_unit_test(a_page_pulled_away_becomes_zeros_and_marks_the_victim),
		cmocka_unit_test(a_fault_elsewhere_still_ends_the_process),
		cmocka_unit_test(a_fault_elsewhere_goes_to_the_handler_that_was_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
