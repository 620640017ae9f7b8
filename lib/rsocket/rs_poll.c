/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rpoll() and rselect(), for rsockets together with other descriptors. A thread that has to sleep adds a waiter to
 * every rsocket, arms their completion queues, and sleeps in one poll() of its wake descriptor, the queues' channels
 * and the other descriptors.
 */
#include "rsocket/rs_priv.h"

/** Polling up to so many descriptors needs no allocation. */
enum { POLL_SMALL = 16 };

struct poll_call {
	struct pollfd *fds;        /* the program's */
	nfds_t n;
	struct rsocket **rs;       /* one for each; NULL: some other descriptor */
	struct rs_waiter *waiters;
	struct pollfd *sleep;      /* one for each, after the wake descriptor */
	nfds_t others;
	int wake_fd;
};

static int
rs_events(short events)
{
	int wants = (events & (POLLIN | POLLRDNORM | POLLRDHUP) ? RS_EV_IN : 0) |
		    (events & (POLLOUT | POLLWRNORM) ? RS_EV_OUT : 0);

	/* Errors are always reported. */
	return wants ? wants : RS_EV_ALL;
}

/** Under the lock. */
static short
look(struct rsocket *rs, short events)
{
	int changed = rs->ops->progress(rs);

	if (changed && rs->waiters)
		rs_kick(rs, changed);
	return rs->ops->revents(rs, events);
}

/** Check which rsockets are ready. */
static int
check_rsockets(struct poll_call *c)
{
	int n = 0;

	for (nfds_t i = 0; i < c->n; i++) {
		if (!c->rs[i])
			continue;
		pthread_mutex_lock(&c->rs[i]->lock);
		c->fds[i].revents = look(c->rs[i], c->fds[i].events);
		if (!c->fds[i].revents && c->rs[i]->ops->idle)
			c->rs[i]->ops->idle(c->rs[i]);
		pthread_mutex_unlock(&c->rs[i]->lock);
		n += c->fds[i].revents != 0;
	}
	return n;
}

/** Check which other descriptors are ready. */
static int
check_others(struct poll_call *c)
{
	int n = 0;

	if (!c->others)
		return 0;
	for (nfds_t i = 0; i < c->n; i++)
		c->sleep[i] = (struct pollfd){ .fd = c->rs[i] ? -1 : c->fds[i].fd, .events = c->fds[i].events };
	if (poll(c->sleep, c->n, 0) < 0)
		return -1;
	for (nfds_t i = 0; i < c->n; i++) {
		if (c->rs[i])
			continue;
		c->fds[i].revents = c->sleep[i].revents;
		n += c->sleep[i].revents != 0;
	}
	return n;
}

/**
 * Arm the queues, and check for the last time before sleeping.
 * @return how many are ready
 */
static int
prepare(struct poll_call *c)
{
	struct rsocket *rs;
	int n = 0;

	c->sleep[0] = (struct pollfd){ .fd = c->wake_fd, .events = POLLIN };
	for (nfds_t i = 0; i < c->n; i++) {
		c->sleep[i + 1] = (struct pollfd){ .fd = c->fds[i].fd, .events = c->fds[i].events };
		rs = c->rs[i];
		if (!rs)
			continue;
		pthread_mutex_lock(&rs->lock);
		/* This thread must not wake itself. */
		rs_waiter_remove(rs, &c->waiters[i]);
		rs->ops->arm(rs);
		c->fds[i].revents = look(rs, c->fds[i].events);
		n += c->fds[i].revents != 0;
		c->sleep[i + 1] = (struct pollfd){ .fd = rs->wait_fd, .events = POLLIN };
		rs_waiter_add(rs, &c->waiters[i], rs_events(c->fds[i].events));
		pthread_mutex_unlock(&rs->lock);
	}
	return n;
}

/** Called after waking up: check what is ready. */
static int
collect(struct poll_call *c)
{
	int n = 0;

	if (c->sleep[0].revents)
		rs_wake_drain(c->wake_fd);
	for (nfds_t i = 0; i < c->n; i++) {
		if (!c->rs[i]) {
			c->fds[i].revents = c->sleep[i + 1].revents;
			n += c->fds[i].revents != 0;
		} else if (c->sleep[i + 1].revents) {
			pthread_mutex_lock(&c->rs[i]->lock);
			c->rs[i]->ops->fired(c->rs[i]);
			/* This thread may be done, but others that sleep need the CQ armed. */
			c->rs[i]->ops->arm(c->rs[i]);
			pthread_mutex_unlock(&c->rs[i]->lock);
		}
	}
	return n + check_rsockets(c);
}

static void
forget(struct poll_call *c)
{
	for (nfds_t i = 0; i < c->n; i++) {
		if (!c->rs[i])
			continue;
		pthread_mutex_lock(&c->rs[i]->lock);
		rs_waiter_remove(c->rs[i], &c->waiters[i]);
		pthread_mutex_unlock(&c->rs[i]->lock);
	}
}

/** @return how many are ready, 0: timeout, -1: error */
static int
sleep_for(struct poll_call *c, uint64_t start_us, int timeout)
{
	uint64_t gone_ms;
	int n, left;

	c->wake_fd = rs_wake_fd();
	if (c->wake_fd < 0)
		return -1;
	for (nfds_t i = 0; i < c->n; i++)
		c->waiters[i].wake_fd = c->wake_fd;
	for (;;) {
		n = prepare(c);
		gone_ms = (rs_now_us() - start_us) / 1000;
		left = timeout < 0 ? -1 : gone_ms >= (uint64_t)timeout ? 0 : timeout - (int)gone_ms;
		/* The other descriptors are checked too, without waiting. */
		if (n)
			left = 0;
		if (poll(c->sleep, c->n + 1, left) < 0)
			return -1;
		n = collect(c);
		if (n || !left)
			return n;
	}
}

static int
poll_all(struct poll_call *c, int timeout)
{
	uint64_t start = 0, now;
	int n, others;

	for (nfds_t i = 0; i < c->n; i++) {
		c->fds[i].revents = 0;
		c->rs[i] = c->fds[i].fd < 0 ? NULL : rs_find(c->fds[i].fd);
		c->others += !c->rs[i] && c->fds[i].fd >= 0;
	}
	for (;;) {
		n = check_rsockets(c);
		others = check_others(c);
		if (others < 0)
			return -1;
		if (n + others || !timeout)
			return n + others;
		now = rs_now_us();
		if (!start)
			start = now;
		if (now - start >= rs_polling_us)
			break;
	}
	n = sleep_for(c, start, timeout);
	forget(c);
	return n;
}

/** The same for large sets, with allocated memory. */
static int
poll_many(struct poll_call *c, int timeout)
{
	int n = -1;

	c->rs = calloc(c->n, sizeof(*c->rs));
	c->waiters = calloc(c->n, sizeof(*c->waiters));
	c->sleep = calloc(c->n + 1, sizeof(*c->sleep));
	if (c->rs && c->waiters && c->sleep)
		n = poll_all(c, timeout);
	else
		errno = ENOMEM;
	free(c->rs);
	free(c->waiters);
	free(c->sleep);
	return n;
}

RS_EXPORT int
rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct rs_waiter waiters[POLL_SMALL] = { 0 };
	struct pollfd sleep[POLL_SMALL + 1];
	struct rsocket *rs[POLL_SMALL];
	struct poll_call c = { .fds = fds, .n = nfds, .rs = rs, .waiters = waiters, .sleep = sleep };
	int before = errno, n = nfds <= POLL_SMALL ? poll_all(&c, timeout) : poll_many(&c, timeout);

	if (n >= 0)
		errno = before;
	return n;
}

static bool
in_set(int fd, const fd_set *set)
{
	return set && FD_ISSET(fd, set);
}

/** @return how many bits are set in the sets now */
static int
fill_sets(const struct pollfd *p, nfds_t n, fd_set *sets[3], const short events[3])
{
	static const short means[3] = { POLLIN | POLLHUP | POLLERR | POLLRDHUP, POLLOUT | POLLERR, POLLPRI };
	int members = 0;

	for (int k = 0; k < 3; k++) {
		if (sets[k])
			FD_ZERO(sets[k]);
		for (nfds_t i = 0; sets[k] && i < n; i++) {
			if (!(p[i].events & events[k]) || !(p[i].revents & means[k]))
				continue;
			FD_SET(p[i].fd, sets[k]);
			members++;
		}
	}
	return members;
}

RS_EXPORT int
rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds, struct timeval *timeout)
{
	static const short events[3] = { POLLIN, POLLOUT, POLLPRI };
	fd_set *sets[3] = { readfds, writefds, exceptfds };
	int ms = -1, rc;
	struct pollfd *p;
	nfds_t n = 0;

	if (nfds < 0 || nfds > FD_SETSIZE || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return rs_result(EINVAL);
	p = calloc((size_t)nfds + 1, sizeof(*p));
	if (!p)
		return rs_result(ENOMEM);
	for (int fd = 0; fd < nfds; fd++) {
		short want = 0;

		for (int k = 0; k < 3; k++)
			want |= in_set(fd, sets[k]) ? events[k] : 0;
		if (want)
			p[n++] = (struct pollfd){ .fd = fd, .events = want };
	}
	if (timeout) {
		long long all = (long long)timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000;

		ms = all > INT32_MAX ? INT32_MAX : (int)all;
	}
	rc = rpoll(p, n, ms);
	for (nfds_t i = 0; i < n && rc > 0; i++) {
		if (p[i].revents & POLLNVAL)
			rc = rs_result(EBADF);
	}
	if (rc >= 0)
		rc = fill_sets(p, n, sets, events);
	free(p);
	return rc;
}
