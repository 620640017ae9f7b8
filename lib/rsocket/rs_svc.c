/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service: one thread of the library, started with the first rsocket. It reads the events of the channel that all
 * ids of rsockets share, sends keepalives, and watches the UDP sockets of datagram rsockets.
 *
 * An id's events stop when rdma_destroy_id() returns, which waits until the last is acknowledged; so code that destroys
 * a socket must never be called from an event of its own id. (A refused connection is destroyed in an event of its
 * listener.) Watches and keepalives are called under svc.lock; code that ends them locks it.
 */
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rsocket/rs_priv.h"

enum {
	SVC_WATCHES_FIRST = 16,
	SVC_FIXED_FDS = 2,
	SVC_IDLE_TURNS = 20, /* turns without gathered data before a stream is removed from the list */
};

static struct {
	pthread_mutex_t lock;
	struct rdma_event_channel *channel;
	int wake_fd;
	bool running;
	bool lost;                 /* the connection to the daemon is lost */
	struct rs_watch *watches;
	struct rs_stream *alive;   /* streams with keepalives */
	struct rs_stream *gathering; /* streams that gather small data */
} svc = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake_fd = -1 };

static void
wake(void)
{
	uint64_t one = 1;

	/* If the counter is full, the descriptor is readable already. */
	if (write(svc.wake_fd, &one, sizeof(one)) < 0)
		return;
}

static void
lost_daemon(struct rsocket *rs)
{
	if (rs->type != SOCK_STREAM)
		return;
	pthread_mutex_lock(&rs->lock);
	rs_fail(to_stream(rs), ENETDOWN);
	pthread_mutex_unlock(&rs->lock);
}

static void
cm_events(void)
{
	struct rdma_cm_event *ev;
	struct rs_cm_user *user;
	bool gone;

	while (!rdma_get_cm_event(svc.channel, &ev)) {
		/* The id of a connection request has its listener's context. */
		user = ev->listen_id ? ev->listen_id->context : ev->id->context;
		gone = user->event(user, ev);
		rdma_ack_cm_event(ev);
		if (gone)
			user->gone(user);
	}
	if (errno == EAGAIN || errno == EINTR)
		return;
	svc.lost = true;
	rs_each(lost_daemon);
}

/**
 * Clear in_gathering if nothing is gathered and no thread is sending, which might rely on it. Under the service's lock.
 * @return true if it was cleared: the caller removes the stream from the list
 */
static bool
stops_gathering(struct rs_stream *s)
{
	bool off;

	/*
	 * slock is tried only under the rsocket's lock, as everywhere: so a thread that destroys the stream finds slock
	 * free or held by a sender. If the rsocket's lock is held, the stream isn't idle.
	 */
	if (pthread_mutex_trylock(&s->rs.lock))
		return false;
	off = !pthread_mutex_trylock(&s->slock);
	if (off) {
		off = !atomic_load(&s->gathered);
		if (off)
			s->in_gathering = false;
		pthread_mutex_unlock(&s->slock);
	}
	pthread_mutex_unlock(&s->rs.lock);
	return off;
}

/** Send the gathered data of all streams. Under the lock. */
static void
flush_gathered(void)
{
	struct rs_stream **p = &svc.gathering, *s;

	while ((s = *p)) {
		s->idle_turns = atomic_load(&s->gathered) ? 0 : s->idle_turns + 1;
		rs_flush_any(s);
		if (s->idle_turns >= SVC_IDLE_TURNS && stops_gathering(s))
			*p = s->gathering_next;
		else
			p = &s->gathering_next;
	}
}

void
rs_svc_gathering(struct rs_stream *s)
{
	pthread_mutex_lock(&svc.lock);
	s->idle_turns = 0;
	s->in_gathering = true;
	s->gathering_next = svc.gathering;
	svc.gathering = s;
	/* While the list isn't empty the thread checks it every RS_GATHER_US. */
	if (!s->gathering_next)
		wake();
	pthread_mutex_unlock(&svc.lock);
}

void
rs_svc_forget(struct rs_stream *s)
{
	struct rs_stream **p = &svc.gathering;

	pthread_mutex_lock(&svc.lock);
	while (*p && *p != s)
		p = &(*p)->gathering_next;
	if (*p)
		*p = s->gathering_next;
	pthread_mutex_unlock(&svc.lock);
}

/**
 * Send the keepalives that are due. Under the lock.
 * @return milliseconds until the next one, -1: none
 */
static int
keepalives(void)
{
	uint64_t now = rs_now_us(), next = UINT64_MAX;

	for (struct rs_stream *s = svc.alive; s; s = s->alive_next) {
		if (s->alive_at_us <= now) {
			s->alive_at_us = now + (uint64_t)s->rs.keepalive_s * 1000000;
			rs_ctrl_keepalive(s);
		}
		if (s->alive_at_us < next)
			next = s->alive_at_us;
	}
	return next == UINT64_MAX ? -1 : (int)((next - now) / 1000 + 1);
}

static bool
is_watched(const struct rs_watch *w)
{
	const struct rs_watch *p = svc.watches;

	while (p && p != w)
		p = p->next;
	return p;
}

struct poll_set {
	struct pollfd *fds;
	struct rs_watch **watches; /* the watch of fds[SVC_FIXED_FDS + i] */
	size_t n, room;
};

/** Collect the descriptors to poll. Under the lock. If memory runs out, the remaining ones are left to a later turn. */
static void
collect(struct poll_set *set)
{
	set->n = 0;
	for (struct rs_watch *w = svc.watches; w; w = w->next) {
		if (set->n == set->room) {
			size_t room = set->room ? set->room * 2 : SVC_WATCHES_FIRST;
			struct pollfd *fds = realloc(set->fds, (room + SVC_FIXED_FDS) * sizeof(*fds));
			struct rs_watch **watches;

			if (!fds)
				return;
			set->fds = fds;
			watches = realloc(set->watches, room * sizeof(*watches));
			if (!watches)
				return;
			set->watches = watches;
			set->room = room;
		}
		set->watches[set->n] = w;
		set->fds[SVC_FIXED_FDS + set->n++] = (struct pollfd){ .fd = w->fd, .events = POLLIN };
	}
}

static void *
run(void *arg)
{
	struct poll_set set = { .fds = arg };
	struct timespec t, *timeout;
	int ms;

	for (;;) {
		pthread_mutex_lock(&svc.lock);
		ms = keepalives();
		t = (struct timespec){ ms / 1000, ms % 1000 * 1000000L };
		timeout = ms < 0 ? NULL : &t;
		flush_gathered();
		if (svc.gathering) {
			t = (struct timespec){ 0, RS_GATHER_US * 1000L };
			timeout = &t;
		}
		collect(&set);
		pthread_mutex_unlock(&svc.lock);
		set.fds[0] = (struct pollfd){ .fd = svc.wake_fd, .events = POLLIN };
		set.fds[1] = (struct pollfd){ .fd = svc.lost ? -1 : svc.channel->fd, .events = POLLIN };
		if (ppoll(set.fds, set.n + SVC_FIXED_FDS, timeout, NULL) <= 0)
			continue;
		if (set.fds[0].revents)
			rs_wake_drain(svc.wake_fd);
		if (set.fds[1].revents)
			cm_events();
		pthread_mutex_lock(&svc.lock);
		for (size_t i = 0; i < set.n; i++)
			if (set.fds[SVC_FIXED_FDS + i].revents && is_watched(set.watches[i]))
				set.watches[i]->readable(set.watches[i]);
		pthread_mutex_unlock(&svc.lock);
	}
	return NULL;
}

/** Under the lock. The thread blocks all signals: they are for the program's threads. */
static int
start_thread(void)
{
	struct pollfd *fds = calloc(SVC_FIXED_FDS, sizeof(*fds));
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	if (!fds)
		return ENOMEM;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, &attr, run, fds);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (err)
		free(fds);
	return err;
}

static int
start(void)
{
	int err;

	if (svc.running)
		return 0;
	svc.channel = rdma_create_event_channel();
	if (!svc.channel)
		return errno;
	svc.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	err = svc.wake_fd < 0 ? errno : 0;
	/* The channel may be readable and yet empty: its event was for an id that has been destroyed. */
	if (!err && fcntl(svc.channel->fd, F_SETFL, O_NONBLOCK))
		err = errno;
	if (!err)
		err = start_thread();
	if (!err) {
		svc.running = true;
		return 0;
	}
	if (svc.wake_fd >= 0)
		close(svc.wake_fd);
	rdma_destroy_event_channel(svc.channel);
	return err;
}

struct rdma_event_channel *
rs_svc_channel(void)
{
	int err;

	pthread_mutex_lock(&svc.lock);
	err = start();
	pthread_mutex_unlock(&svc.lock);
	if (!err)
		return svc.channel;
	errno = err;
	return NULL;
}

int
rs_svc_watch(struct rs_watch *w)
{
	int err;

	pthread_mutex_lock(&svc.lock);
	err = start();
	if (!err) {
		w->next = svc.watches;
		svc.watches = w;
		wake();
	}
	pthread_mutex_unlock(&svc.lock);
	return err;
}

void
rs_svc_unwatch(struct rs_watch *w)
{
	struct rs_watch **p = &svc.watches;

	pthread_mutex_lock(&svc.lock);
	while (*p && *p != w)
		p = &(*p)->next;
	if (*p)
		*p = w->next;
	pthread_mutex_unlock(&svc.lock);
}

void
rs_svc_keepalive(struct rs_stream *s, int seconds)
{
	struct rs_stream **p = &svc.alive;

	pthread_mutex_lock(&svc.lock);
	while (*p && *p != s)
		p = &(*p)->alive_next;
	if (*p)
		*p = s->alive_next;
	if (seconds > 0) {
		s->alive_at_us = rs_now_us() + (uint64_t)seconds * 1000000;
		s->alive_next = svc.alive;
		svc.alive = s;
		wake();
	}
	pthread_mutex_unlock(&svc.lock);
}

/*
 * The child doesn't have the thread, nor needs what it did. The locks may be held by threads that don't exist in the
 * child, so they are initialized again; the channel's descriptors are left alone.
 */
void
rs_svc_fork_child(void)
{
	pthread_mutex_init(&svc.lock, NULL);
	if (svc.running) {
		close(svc.wake_fd);
		svc.wake_fd = -1;
	}
	svc.channel = NULL;
	svc.running = svc.lost = false;
	svc.watches = NULL;
	svc.alive = NULL;
	svc.gathering = NULL;
}
