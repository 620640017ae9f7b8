/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_common.h>

#include "base/record.h"
#include "control/core/control_priv.h"
#include "killed.h"

struct kept kept;
static bool killed;
static int then_fd = -1; /* the checkpoint as it was at killed_here(); -1: as it is at the end */

static int
begin(void *arg, int fd)
{
	kept.memfd = fd;
	return 0;
}

static int
keep(void *arg, int fd, uint32_t *number)
{
	do
		*number = ++kept.last % KILLED_NUMBERS;
	while (kept.fds[*number] != 0);
	kept.fds[*number] = fcntl(fd, F_DUPFD_CLOEXEC, 1);
	return 0;
}

static void
forget(void *arg, uint32_t number)
{
	assert_true(kept.fds[number] > 0);
	close(kept.fds[number]);
	kept.fds[number] = 0;
}

static void
complete(void *arg)
{
	kept.complete = true;
}

const struct checkpoint_host killed_host = { .begin = begin, .keep = keep, .forget = forget, .complete = complete };

void
killed_now(void)
{
	if (!killed)
		daemon_kill();
	killed = true;
}

void
killed_here(void)
{
	struct stat st;
	void *from, *to;

	assert_int_equal(fstat(kept.memfd, &st), 0);
	then_fd = memfd_create("checkpoint", MFD_CLOEXEC);
	assert_true(then_fd >= 0);
	assert_int_equal(ftruncate(then_fd, st.st_size), 0);
	from = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, kept.memfd, 0);
	to = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, then_fd, 0);
	assert_true(from != MAP_FAILED && to != MAP_FAILED);
	memcpy(to, from, (size_t)st.st_size);
	munmap(from, (size_t)st.st_size);
	munmap(to, (size_t)st.st_size);
}

static void
crash(struct second_stream *s)
{
	const struct record_head tail = { 0 };
	struct checkpoint_found found;

	killed_now();
	assert_true(kept.complete);
	second_crashed_ns = control_now_ns();
	*s = (struct second_stream){ 0 };
	assert_int_equal(checkpoint_read(then_fd >= 0 ? then_fd : kept.memfd, &s->o, &found, NULL, NULL), 0);
	if (then_fd >= 0)
		close(then_fd);
	then_fd = -1;
	stream_put(&s->o, RECORD_END, &tail, sizeof(tail), NULL, 0);
	s->bytes = aligned_alloc(64, RTE_ALIGN_CEIL(s->o.n, (size_t)64));
	memcpy(s->bytes, s->o.bytes, s->o.n);
	s->in = (struct stream_in){ .bytes = s->bytes, .n = s->o.n, .fds = calloc(KILLED_NUMBERS, sizeof(int)), .nb_fds = KILLED_NUMBERS };
	for (uint32_t i = 0; i < KILLED_NUMBERS; i++)
		s->in.fds[i] = kept.fds[i] > 0 ? fcntl(kept.fds[i], F_DUPFD_CLOEXEC, 1) : -1;
}

void
killed_go_on(struct second_stream *s)
{
	crash(s);
	second_start(s);
}

void
killed_end(struct second_stream *s)
{
	second_end(s);
	killed = false;
}

void
killed_not(void)
{
	daemon_go_on();
	killed = false;
}

void
killed_lose_journals(void)
{
	const struct control *c = daemon_control();

	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, c->s.journals[i], 0);

		assert_true(p != MAP_FAILED);
		memset(p, 0, 64);
		munmap(p, 4096);
	}
}

struct ctl_req
killed_numbered(uint32_t op, uint64_t number)
{
	struct ctl_req q = peer_req(op);

	q.number = number;
	return q;
}
