/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for rsockets. A thread that sleeps has added a struct rs_waiter to every rsocket it waits for before it
 * checks their state for the last time. A thread that changes the state after that check writes to the sleeper's wake
 * descriptor.
 */
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "rsocket/rs_priv.h"

static pthread_key_t wake_key;
static pthread_once_t wake_once = PTHREAD_ONCE_INIT;
static __thread int wake_fd = -1;
static __thread pid_t wake_pid;

uint64_t
rs_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void
close_wake_fd(void *unused)
{
	close(wake_fd);
	wake_fd = -1;
}

static void
make_key(void)
{
	pthread_key_create(&wake_key, close_wake_fd);
}

int
rs_wake_fd(void)
{
	/* After fork() the descriptor is shared with the parent's thread, which must not be woken by the child. */
	if (wake_fd >= 0 && wake_pid == getpid())
		return wake_fd;
	if (wake_fd >= 0)
		close(wake_fd);
	pthread_once(&wake_once, make_key);
	wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	wake_pid = getpid();
	pthread_setspecific(wake_key, &wake_fd);
	return wake_fd;
}

void
rs_wake_drain(int fd)
{
	uint64_t n;

	while (read(fd, &n, sizeof(n)) < 0 && errno == EINTR)
		;
}

void
rs_waiter_add(struct rsocket *rs, struct rs_waiter *w, int events)
{
	w->events = events;
	w->next = rs->waiters;
	rs->waiters = w;
}

void
rs_waiter_remove(struct rsocket *rs, struct rs_waiter *w)
{
	struct rs_waiter **p = &rs->waiters;

	while (*p && *p != w)
		p = &(*p)->next;
	if (*p)
		*p = w->next;
}

void
rs_kick(struct rsocket *rs, int events)
{
	uint64_t one = 1;

	for (struct rs_waiter *w = rs->waiters; w; w = w->next) {
		/* If the counter is full the descriptor is readable, which is enough. */
		if ((w->events & events) && write(w->wake_fd, &one, sizeof(one)) < 0)
			continue;
	}
}

/** Poll completions, and wake other threads that wait for what happened. Under the lock. */
static bool
look(struct rsocket *rs, bool (*test)(struct rsocket *rs))
{
	int events = rs->ops->progress(rs);

	if (events && rs->waiters)
		rs_kick(rs, events);
	return test(rs);
}

static int
ms_left(uint64_t start_us, int timeout_ms)
{
	uint64_t gone = (rs_now_us() - start_us) / 1000;

	if (timeout_ms < 0)
		return -1;
	return gone >= (uint64_t)timeout_ms ? 0 : timeout_ms - (int)gone;
}

/** Sleep until @p test holds. Under the lock, which is released while the thread sleeps. */
static int
sleep_until(struct rsocket *rs, bool (*test)(struct rsocket *rs), struct rs_waiter *self, uint64_t start_us,
	    int timeout_ms)
{
	struct pollfd p[2] = { { .fd = self->wake_fd, .events = POLLIN }, { .events = POLLIN } };
	int left, n, err, events = self->events;

	for (;;) {
		rs->ops->arm(rs);
		/* This thread must not wake itself. */
		rs_waiter_remove(rs, self);
		if (look(rs, test))
			return 0;
		rs_waiter_add(rs, self, events);
		left = ms_left(start_us, timeout_ms);
		if (!left)
			return ETIMEDOUT;
		p[1].fd = rs->wait_fd;
		pthread_mutex_unlock(&rs->lock);
		n = poll(p, 2, left);
		err = errno;
		if (n > 0 && p[0].revents)
			rs_wake_drain(self->wake_fd);
		pthread_mutex_lock(&rs->lock);
		if (n < 0)
			return err;
		if (n > 0 && p[1].revents)
			rs->ops->fired(rs);
	}
}

int
rs_wait(struct rsocket *rs, bool (*test)(struct rsocket *rs), int events, bool once, int timeout_ms)
{
	struct rs_waiter self;
	uint64_t start = 0, now;
	bool ok;
	int err;

	for (;;) {
		pthread_mutex_lock(&rs->lock);
		ok = look(rs, test);
		if (!ok && rs->ops->idle)
			rs->ops->idle(rs);
		pthread_mutex_unlock(&rs->lock);
		if (ok || once)
			return ok ? 0 : EAGAIN;
		now = rs_now_us();
		if (!start)
			start = now;
		if (now - start >= rs_polling_us)
			break;
	}
	self.wake_fd = rs_wake_fd();
	if (self.wake_fd < 0)
		return errno;
	pthread_mutex_lock(&rs->lock);
	rs_waiter_add(rs, &self, events);
	err = sleep_until(rs, test, &self, start, timeout_ms);
	rs_waiter_remove(rs, &self);
	pthread_mutex_unlock(&rs->lock);
	return err;
}
