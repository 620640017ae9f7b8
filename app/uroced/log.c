/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_log.h>

#include "log.h"

enum { WRITE_BYTES = 4096 };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more, idle;
	char bytes[LOG_BYTES];
	size_t head, n;     /* the first byte that waits; how many do */
	uint64_t lost;      /* lines that found no room since the log last said so */
	bool writing, stop;
	bool waits;         /* a line of level CRIT has come: the process aborts, and what follows says why */
	int fd;
	FILE *stream;       /* NULL: no thread writes the log */
	pthread_t thread;
} l = { .lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER };

/* What can't be written is lost, as with stderr. */
static void
write_all(const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t done = write(l.fd, bytes, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return;
		bytes += done;
		n -= (size_t)done;
	}
}

/* Take what is to be written next. @return bytes; 0: the log has ended. */
static size_t
take(char out[WRITE_BYTES])
{
	size_t n;

	pthread_mutex_lock(&l.lock);
	l.writing = false;
	if (l.n == 0)
		pthread_cond_broadcast(&l.idle);
	while (l.n == 0 && l.lost == 0 && !l.stop)
		pthread_cond_wait(&l.more, &l.lock);
	n = RTE_MIN(l.n, sizeof(l.bytes) - l.head);
	n = RTE_MIN(n, (size_t)WRITE_BYTES);
	if (n > 0) {
		memcpy(out, l.bytes + l.head, n);
		l.head = (l.head + n) % sizeof(l.bytes);
		l.n -= n;
	} else if (l.lost > 0) {
		n = (size_t)snprintf(out, WRITE_BYTES, "uroced: %llu lines of the log are lost here: what reads it is too slow\n", (unsigned long long)l.lost);
		l.lost = 0;
	}
	l.writing = n > 0;
	pthread_mutex_unlock(&l.lock);
	return n;
}

static void *
write_log(void *arg)
{
	char out[WRITE_BYTES];
	sigset_t all;
	size_t n;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	while ((n = take(out)) > 0)
		write_all(out, n);
	return arg;
}

/* With the lock. After a line that was lost all are, until the log has said so: it is clear where they are missing. */
static void
put(const char *bytes, size_t n)
{
	size_t tail = (l.head + l.n) % sizeof(l.bytes), first = RTE_MIN(n, sizeof(l.bytes) - tail);

	if (n > sizeof(l.bytes) - l.n || l.lost > 0) {
		l.lost++;
		return;
	}
	memcpy(l.bytes + tail, bytes, first);
	memcpy(l.bytes, bytes + first, n - first);
	l.n += n;
}

/* With the lock: wait until all is written. @return whether it is. */
static bool
wait_written(void)
{
	struct timespec until;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LOG_WAIT_MS / 1000;
	while ((l.n > 0 || l.lost > 0 || l.writing) && rc == 0)
		rc = pthread_cond_timedwait(&l.idle, &l.lock, &until);
	return rc == 0;
}

static ssize_t
on_line(void *cookie, const char *bytes, size_t n)
{
	int level = rte_log_cur_msg_loglevel();

	pthread_mutex_lock(&l.lock);
	put(bytes, n);
	pthread_cond_signal(&l.more);
	l.waits |= level > 0 && level <= (int)RTE_LOG_CRIT;
	/* Some drivers use that level though nothing ends. If what reads the log hangs, only one line waits for it. */
	l.waits = l.waits && wait_written();
	pthread_mutex_unlock(&l.lock);
	return (ssize_t)n;
}

int
log_begin(int fd)
{
	FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = on_line });
	pthread_condattr_t clock;
	int rc;

	if (stream == NULL)
		return errno;
	/* One call of on_line() for each line, of whatever length. DPDK flushes after each. */
	setvbuf(stream, NULL, _IOLBF, WRITE_BYTES);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&l.idle, &clock);
	pthread_condattr_destroy(&clock);
	l.fd = fd;
	l.stop = l.waits = false;
	rc = pthread_create(&l.thread, NULL, write_log, NULL);
	if (rc != 0) {
		fclose(stream);
		return rc;
	}
	pthread_setname_np(l.thread, "uroced-log");
	l.stream = stream;
	rte_openlog_stream(stream);
	return 0;
}

FILE *
log_stream(void)
{
	return l.stream != NULL ? l.stream : stderr;
}

void
log_end(void)
{
	bool written;

	if (l.stream == NULL)
		return;
	fflush(l.stream);
	rte_openlog_stream(stderr);
	pthread_mutex_lock(&l.lock);
	l.stop = true;
	pthread_cond_signal(&l.more);
	written = wait_written();
	pthread_mutex_unlock(&l.lock);
	/* The stream stays open: other threads may have begun to use it. */
	l.stream = NULL;
	if (written)
		pthread_join(l.thread, NULL);
}
