/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/job.h"

#include <time.h>
#include <unistd.h>

#include "mem/mem.h"
#include "mem/remote_priv.h"

enum {
	BUSY_FIRST_NS = 50000,      /* the first wait for a page that can't be written now; each further one is as long as all before it, */
	BUSY_MOST_NS = 5000000,     /* but at most this, */
	BUSY_ALL_NS = 1000000000,   /* and this in all */
};

/* @return how many bytes there are. */
static size_t
read_some(int fd, uint64_t va, uint8_t *dst, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, dst + done, len - done, (off_t)(va + done));

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			break;
	}
	return done;
}

int
remote_read(int fd, uint64_t va, uint8_t *dst, size_t len)
{
	return read_some(fd, va, dst, len) == len ? 0 : EFAULT;
}

/*
 * The program's library converts the page for another region (lib/verbs/convert.c): it is there, but protected by userfaultfd until it was copied, and the kernel
 * doesn't wait for that when it writes for another process: it says EIO. A page can be protected for as long as it takes to copy 64 MiB.
 * @return whether it makes sense to try again, after a rest.
 */
static bool
may_become_writable(int fd, uint64_t va, long *waited_ns)
{
	long ns = *waited_ns < BUSY_FIRST_NS ? BUSY_FIRST_NS : *waited_ns < BUSY_MOST_NS ? *waited_ns : BUSY_MOST_NS;
	uint8_t byte;

	if (errno != EIO || *waited_ns >= BUSY_ALL_NS || read_some(fd, va, &byte, sizeof(byte)) == 0)
		return false;
	*waited_ns += ns;
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
	return true;
}

int
remote_write(int fd, uint64_t va, const uint8_t *src, size_t len)
{
	long waited_ns = 0;

	while (len > 0) {
		ssize_t n = pwrite(fd, src, len, (off_t)va);

		if (n <= 0) {
			if (n < 0 && (errno == EINTR || may_become_writable(fd, va, &waited_ns)))
				continue;
			return EFAULT;
		}
		va += (size_t)n;
		src += n;
		len -= (size_t)n;
	}
	return 0;
}

int
remote_write_tail_last(int fd, uint64_t va, const uint8_t *src, size_t len)
{
	size_t body = len - mem_tail_bytes(va + len, len);
	int rc = remote_write(fd, va, src, body);

	return rc != 0 ? rc : remote_write(fd, va + body, src + body, len - body);
}

/* The process may be killed between any two instructions. */
static void
note_begun(const struct mem_job *job, uint64_t before, uint64_t after)
{
	struct mem_note *n = job->note;

	if (n == NULL)
		return;
	n->before = before;
	n->after = after;
	n->check = mem_note_check(n, job->note_begun);
	atomic_store_explicit(&n->state, job->note_begun, memory_order_release);
}

static void
note_done(const struct mem_job *job)
{
	if (job->note != NULL)
		atomic_store_explicit(&job->note->state, job->note_done, memory_order_release);
}

static int
atomic_run(struct mem_job *job)
{
	bool swap = job->op == MEM_JOB_CMP_SWAP;
	uint64_t va = job->pieces[0].va, was, now;
	int rc = remote_read(job->fd, va, (uint8_t *)&was, sizeof(was));

	if (rc != 0)
		return rc;
	now = swap ? (was == job->arg1 ? job->arg2 : was) : was + job->arg1;
	job->old = was;
	note_begun(job, was, now);
	rc = now == was ? 0 : remote_write(job->fd, va, (const uint8_t *)&now, sizeof(now));
	if (rc == 0)
		note_done(job);
	return rc;
}

static int
read_run(struct mem_job *job)
{
	for (uint32_t i = 0; i < job->nb_pieces; i++) {
		const struct mem_piece *p = &job->pieces[i];
		size_t n = read_some(job->fd, p->va, job->data + job->nb_read, p->length);

		job->nb_read += (uint32_t)n;
		if (n != p->length)
			return EFAULT;
	}
	return 0;
}

static int
write_run(struct mem_job *job)
{
	const uint8_t *from = job->data;

	for (; job->nb_done < job->nb_pieces; job->nb_done++) {
		const struct mem_piece *p = &job->pieces[job->nb_done];
		int rc = remote_write_tail_last(job->fd, p->va, from, p->length);

		if (rc != 0)
			return rc;
		from += p->length;
	}
	return 0;
}

void
mem_job_run(struct mem_job *job)
{
	if (!mem_job_begin(job))
		job->rc = ECANCELED;
	else if (job->op == MEM_JOB_READ)
		job->rc = read_run(job);
	else if (job->op == MEM_JOB_WRITE)
		job->rc = write_run(job);
	else
		job->rc = atomic_run(job);
}
