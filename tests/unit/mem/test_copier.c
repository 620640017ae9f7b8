/* SPDX-License-Identifier: BSD-3-Clause */
/* Copiers: a session's copies are made in order, and one that hangs in its memory holds up nobody else. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "mem/copier.h"

enum { PAGE = 4096, WAIT_MS = 5000, USER = 1000, OTHER = 1001 };

static _Atomic uint32_t nb_done, nb_closed;

static void
on_done(struct mem_job *job)
{
	job->engine = (void *)(uintptr_t)(atomic_fetch_add(&nb_done, 1) + 1);
}

static void
on_close(int fd, uid_t uid)
{
	close(fd);
	atomic_fetch_add(&nb_closed, 1);
}

static struct copier_lane *
lane_new(uid_t uid)
{
	struct copier_lane *lane = copier_lane_open(open("/proc/self/mem", O_RDWR | O_CLOEXEC), uid, on_close);

	assert_non_null(lane);
	return lane;
}

static void
job_make(struct mem_job *j, enum mem_job_op op, void *at, void *data, uint32_t bytes)
{
	*j = (struct mem_job){ .op = op, .done = on_done, .data = data, .length = bytes, .nb_pieces = 1,
			       .pieces = { { .va = (uintptr_t)at, .length = bytes } } };
}

static bool
wait_for(_Atomic uint32_t *count, uint32_t n)
{
	for (int i = 0; i < WAIT_MS && atomic_load(count) != n; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return atomic_load(count) == n;
}

static int
begin(void **state)
{
	nb_done = nb_closed = 0;
	return 0;
}

static void
jobs_of_a_lane_run_in_order(void **state)
{
	struct copier_lane *lane = lane_new(USER);
	uint64_t word = 0;
	struct mem_job jobs[COPIER_LANE_JOBS];

	for (uint32_t i = 0; i < COPIER_LANE_JOBS; i++) {
		job_make(&jobs[i], MEM_JOB_FETCH_ADD, &word, NULL, sizeof(word));
		jobs[i].arg1 = 1;
		while (!copier_submit(lane, &jobs[i]))
			;
	}
	assert_true(wait_for(&nb_done, COPIER_LANE_JOBS));
	for (uint32_t i = 0; i < COPIER_LANE_JOBS; i++) {
		assert_int_equal(jobs[i].rc, 0);
		assert_int_equal(jobs[i].old, i);
		assert_int_equal((uintptr_t)jobs[i].engine, i + 1);
	}
	assert_int_equal(word, COPIER_LANE_JOBS);
	copier_lane_close(lane);
	assert_true(wait_for(&nb_closed, 1));
}

static void
atomics_of_two_programs_of_a_user_are_atomic(void **state)
{
	struct copier_lane *lanes[2] = { lane_new(USER), lane_new(USER) };
	static struct mem_job jobs[2][COPIER_LANE_JOBS];
	uint64_t word = 0;

	for (uint32_t round = 1; round <= 20; round++) {
		for (uint32_t i = 0; i < 2 * COPIER_LANE_JOBS; i++) {
			struct mem_job *j = &jobs[i % 2][i / 2];

			job_make(j, MEM_JOB_FETCH_ADD, &word, NULL, sizeof(word));
			j->arg1 = 1;
			assert_true(copier_submit(lanes[i % 2], j));
		}
		assert_true(wait_for(&nb_done, round * 2 * COPIER_LANE_JOBS));
	}
	assert_int_equal(word, 20 * 2 * COPIER_LANE_JOBS);
	copier_lane_close(lanes[0]);
	copier_lane_close(lanes[1]);
	assert_true(wait_for(&nb_closed, 2));
}

static void
memory_that_is_not_there_is_an_error(void **state)
{
	/* Below vm.mmap_min_addr: what was unmapped another thread might map again. */
	void *none = (void *)(uintptr_t)PAGE;
	struct copier_lane *lane = lane_new(USER);
	uint8_t bytes[16];
	struct mem_job job;

	job_make(&job, MEM_JOB_READ, none, bytes, sizeof(bytes));
	assert_true(copier_submit(lane, &job));
	assert_true(wait_for(&nb_done, 1));
	assert_int_equal(job.rc, EFAULT);
	copier_lane_close(lane);
}

static void
what_was_cut_does_not_begin(void **state)
{
	struct copier_lane *lane = lane_new(USER);
	uint8_t at[8] = { 0 }, bytes[8] = { 1 };
	struct mem_job job;

	job_make(&job, MEM_JOB_WRITE, at, bytes, sizeof(bytes));
	assert_true(mem_job_cut(&job));
	assert_true(copier_submit(lane, &job));
	assert_true(wait_for(&nb_done, 1));
	assert_int_equal(job.rc, ECANCELED);
	assert_int_equal(at[0], 0);
	copier_lane_close(lane);
}

/** @return memory whose pages never come, or NULL: this system doesn't let us. @param uffd  To be closed; then they come. */
static uint8_t *
never(int *uffd)
{
	struct uffdio_api api = { .api = UFFD_API };
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register reg = { .range = { (uintptr_t)p, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };

	*uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (*uffd < 0 || ioctl(*uffd, UFFDIO_API, &api) != 0 || ioctl(*uffd, UFFDIO_REGISTER, &reg) != 0)
		return NULL;
	return p;
}

static void
a_copy_that_hangs_holds_up_its_own_session_only(void **state)
{
	struct copier_lane *stuck, *more, *good;
	struct mem_job hangs, behind, others, other;
	uint8_t bytes[8] = { 1 }, at[8] = { 0 }, to[8];
	uint32_t ticket;
	int uffd;
	uint8_t *p = never(&uffd);

	if (p == NULL)
		skip();
	stuck = lane_new(USER);
	more = lane_new(USER);
	good = lane_new(OTHER);
	/* It is the job's own buffer that never comes: for the thread that is all the same. */
	job_make(&hangs, MEM_JOB_WRITE, to, p, sizeof(to));
	job_make(&behind, MEM_JOB_WRITE, at, bytes, sizeof(bytes));
	job_make(&others, MEM_JOB_READ, bytes, at, sizeof(bytes));
	job_make(&other, MEM_JOB_READ, bytes, at, sizeof(bytes));
	assert_true(copier_submit(stuck, &hangs));
	while (atomic_load(&hangs.state) != MEM_JOB_RUNS)
		;
	assert_true(copier_submit(stuck, &behind));
	/* Another program of that user has a thread yet, and another user of course. */
	assert_true(copier_submit(more, &others));
	assert_true(wait_for(&nb_done, 1));
	assert_true(copier_submit(good, &other));
	assert_true(wait_for(&nb_done, 2));
	/* What the program gives up now may still be written, and what is behind never begins. */
	ticket = copier_cut(stuck);
	assert_false(copier_cut_done(stuck, ticket));
	assert_false(mem_job_cut(&hangs));
	copier_lane_close(more);
	copier_lane_close(good);
	copier_lane_close(stuck);
	assert_true(wait_for(&nb_closed, 2));
	close(uffd);
	assert_true(wait_for(&nb_done, 4));
	assert_int_equal(behind.rc, ECANCELED);
	assert_true(wait_for(&nb_closed, 3));
	munmap(p, PAGE);
}

/* A page that the program's library converts: it can be read and not written. */
static uint8_t *
protected_page(int *uffd)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register reg = { .range = { (uintptr_t)p, PAGE }, .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect wp = { .range = { (uintptr_t)p, PAGE }, .mode = UFFDIO_WRITEPROTECT_MODE_WP };

	p[0] = 1;
	*uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (*uffd < 0 || ioctl(*uffd, UFFDIO_API, &api) != 0 || ioctl(*uffd, UFFDIO_REGISTER, &reg) != 0 || ioctl(*uffd, UFFDIO_WRITEPROTECT, &wp) != 0)
		return NULL;
	return p;
}

static void
a_page_that_is_being_converted_is_waited_for(void **state)
{
	struct copier_lane *lane;
	uint8_t bytes[8] = { 7 }, to[8];
	uint64_t sum = 0;
	struct mem_job read, write, add, never_writable;
	int uffd;
	uint8_t *p = protected_page(&uffd);
	struct uffdio_writeprotect wp = { .range = { (uintptr_t)p, PAGE } };

	if (p == NULL)
		skip();
	lane = lane_new(USER);
	job_make(&read, MEM_JOB_READ, p, to, sizeof(to));
	job_make(&write, MEM_JOB_WRITE, p, bytes, sizeof(bytes));
	job_make(&add, MEM_JOB_FETCH_ADD, p, &sum, sizeof(sum));
	add.arg1 = 1;
	assert_true(copier_submit(lane, &read));
	assert_true(wait_for(&nb_done, 1));
	assert_int_equal(read.rc, 0);
	assert_true(copier_submit(lane, &write));
	assert_true(copier_submit(lane, &add));
	nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	assert_int_equal(nb_done, 1);
	assert_int_equal(ioctl(uffd, UFFDIO_WRITEPROTECT, &wp), 0);
	assert_true(wait_for(&nb_done, 3));
	assert_int_equal(write.rc, 0);
	assert_int_equal(add.rc, 0);
	assert_int_equal(add.old, 7);
	assert_int_equal(p[0], 8);
	/* But not for ever, and what isn't there at all is an error at once. */
	wp.mode = UFFDIO_WRITEPROTECT_MODE_WP;
	assert_int_equal(ioctl(uffd, UFFDIO_WRITEPROTECT, &wp), 0);
	job_make(&never_writable, MEM_JOB_WRITE, p, bytes, sizeof(bytes));
	assert_true(copier_submit(lane, &never_writable));
	assert_true(wait_for(&nb_done, 4));
	assert_int_equal(never_writable.rc, EFAULT);
	munmap(p, PAGE);
	job_make(&write, MEM_JOB_WRITE, p, bytes, sizeof(bytes));
	assert_true(copier_submit(lane, &write));
	assert_true(wait_for(&nb_done, 5));
	assert_int_equal(write.rc, EFAULT);
	copier_lane_close(lane);
	assert_true(wait_for(&nb_closed, 1));
	close(uffd);
}

static void
users_whose_copies_hang_hold_up_no_other_user(void **state)
{
	enum { USERS = 40 };
	static struct mem_job hang[USERS][COPIER_USER_THREADS + 1];
	struct copier_lane *lanes[USERS][COPIER_USER_THREADS + 1], *good;
	uint8_t at[8] = { 0 }, to[8];
	struct mem_job job;
	int uffd;
	uint8_t *p = never(&uffd);

	if (p == NULL)
		skip();
	for (uint32_t u = 0; u < USERS; u++) {
		for (uint32_t i = 0; i <= COPIER_USER_THREADS; i++) {
			lanes[u][i] = lane_new(USER + u);
			job_make(&hang[u][i], MEM_JOB_WRITE, to, p, sizeof(to));
			assert_true(copier_submit(lanes[u][i], &hang[u][i]));
		}
	}
	for (uint32_t u = 0; u < USERS; u++)
		for (uint32_t i = 0; i < COPIER_USER_THREADS; i++)
			while (atomic_load(&hang[u][i].state) != MEM_JOB_RUNS)
				;
	assert_int_equal(copier_busy(), USERS * COPIER_USER_THREADS);
	good = lane_new(USER + USERS);
	job_make(&job, MEM_JOB_READ, at, to, sizeof(to));
	assert_true(copier_submit(good, &job));
	assert_true(wait_for(&nb_done, 1));
	copier_lane_close(good);
	assert_true(wait_for(&nb_closed, 1));
	/* Of each user one job hasn't begun. It comes back when its lane is closed, whatever the threads do. */
	for (uint32_t u = 0; u < USERS; u++)
		for (uint32_t i = 0; i <= COPIER_USER_THREADS; i++)
			copier_lane_close(lanes[u][i]);
	assert_true(wait_for(&nb_done, 1 + USERS));
	for (uint32_t u = 0; u < USERS; u++)
		assert_int_equal(hang[u][COPIER_USER_THREADS].rc, ECANCELED);
	close(uffd);
	assert_true(wait_for(&nb_closed, 1 + USERS * (COPIER_USER_THREADS + 1)));
	assert_int_equal(copier_busy(), 0);
	munmap(p, PAGE);
}

static void
jobs_behind_one_that_hangs_come_back_when_the_lane_is_closed(void **state)
{
	struct mem_job hangs, behind[COPIER_LANE_JOBS - 1];
	struct copier_lane *lane;
	uint8_t at[8] = { 0 }, to[8];
	int uffd;
	uint8_t *p = never(&uffd);

	if (p == NULL)
		skip();
	lane = lane_new(USER);
	job_make(&hangs, MEM_JOB_READ, at, p, sizeof(at));
	job_make(&behind[0], MEM_JOB_READ, at, to, sizeof(to));
	/* One that the thread takes along, perhaps, and others that it can't know of. */
	assert_true(copier_submit(lane, &hangs));
	assert_true(copier_submit(lane, &behind[0]));
	while (atomic_load(&hangs.state) != MEM_JOB_RUNS)
		;
	for (uint32_t i = 1; i < COPIER_LANE_JOBS - 1; i++) {
		job_make(&behind[i], MEM_JOB_READ, at, to, sizeof(to));
		assert_true(copier_submit(lane, &behind[i]));
	}
	copier_lane_close(lane);
	assert_int_equal(nb_done, COPIER_LANE_JOBS - 1);
	for (uint32_t i = 0; i < COPIER_LANE_JOBS - 1; i++)
		assert_int_equal(behind[i].rc, ECANCELED);
	assert_int_equal(nb_closed, 0);
	close(uffd);
	assert_true(wait_for(&nb_closed, 1));
	assert_int_equal(nb_done, COPIER_LANE_JOBS);
	munmap(p, PAGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(jobs_of_a_lane_run_in_order, begin),
		cmocka_unit_test_setup(atomics_of_two_programs_of_a_user_are_atomic, begin),
		cmocka_unit_test_setup(memory_that_is_not_there_is_an_error, begin),
		cmocka_unit_test_setup(what_was_cut_does_not_begin, begin),
		cmocka_unit_test_setup(a_copy_that_hangs_holds_up_its_own_session_only, begin),
		cmocka_unit_test_setup(a_page_that_is_being_converted_is_waited_for, begin),
		cmocka_unit_test_setup(users_whose_copies_hang_hold_up_no_other_user, begin),
		cmocka_unit_test_setup(jobs_behind_one_that_hangs_come_back_when_the_lane_is_closed, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
