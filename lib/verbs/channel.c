/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion channels: records of struct ctl_comp_event on a socket. Programs poll the receiving end; engines send.
 *
 * An event counts as reported when ibv_get_cq_event() returned it; ibv_destroy_cq() waits until as many were
 * acknowledged. Both happen under the mutex of the table of objects, so a CQ that is being destroyed gets no more.
 */
#include "verbs/client_priv.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

/* A wake-up takes 3 us on the same core, 20 and more if another core has to be brought out of its sleep. */
enum {
	WATCH_NS = 50000,
	WATCHED_CQS = 8, /**< a channel of more has its socket looked at only */
	LOOKS = 64,      /**< at the CQs, between two looks into the socket and yields */
	RECEIVES = 4,    /**< between two yields, if no CQ is watched */
};

CLIENT_EXPORT struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *context)
{
	struct client_channel *ch = calloc(1, sizeof(*ch));
	struct client_ctx *ctx = to_ctx(context);
	struct client_call c;
	int err;

	if (!ch)
		return client_null(ENOMEM);
	client_call_init(&c, CTL_CHANNEL_CREATE);
	pthread_mutex_lock(&ctx->ctl_lock);
	err = client_call_locked(ctx, &c);
	pthread_mutex_unlock(&ctx->ctl_lock);
	if (!err && c.nb_got != 2)
		err = EPROTO;
	if (err) {
		client_call_close_fds(&c, 0);
		free(ch);
		return client_null(err);
	}
	ch->channel.context = context;
	ch->channel.fd = c.got[0];
	ch->send_fd = c.got[1];
	ch->handle = c.rsp.handle.handle;
	pthread_mutex_init(&ch->mutex, NULL);
	pthread_mutex_init(&ch->watch_mutex, NULL);
	return &ch->channel;
}

CLIENT_EXPORT int
ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct client_channel *ch = (struct client_channel *)channel;
	bool busy;

	pthread_mutex_lock(&ch->mutex);
	busy = channel->refcnt;
	pthread_mutex_unlock(&ch->mutex);
	if (busy)
		return EBUSY;
	client_destroy_handle(to_ctx(channel->context), CTL_CHANNEL_DESTROY, ch->handle);
	close(channel->fd);
	close(ch->send_fd);
	pthread_mutex_destroy(&ch->mutex);
	pthread_mutex_destroy(&ch->watch_mutex);
	free(ch);
	return 0;
}

/* Take an event if there is one. Returns 0, EAGAIN or another errno value. */
static int
receive(const struct client_channel *ch, struct ctl_comp_event *ev)
{
	ssize_t n = recv(ch->channel.fd, ev, sizeof(*ev), MSG_DONTWAIT);

	if (n == sizeof(*ev))
		return 0;
	return n < 0 ? errno : EIO;
}

void
client_channel_add(struct client_channel *ch, struct client_cq *cq)
{
	pthread_mutex_lock(&ch->watch_mutex);
	cq->next = ch->cqs;
	ch->cqs = cq;
	ch->nb_cqs++;
	pthread_mutex_unlock(&ch->watch_mutex);
}

void
client_channel_remove(struct client_channel *ch, struct client_cq *cq)
{
	pthread_mutex_lock(&ch->watch_mutex);
	for (struct client_cq **p = &ch->cqs; *p; p = &(*p)->next) {
		if (*p == cq) {
			*p = cq->next;
			ch->nb_cqs--;
			break;
		}
	}
	pthread_mutex_unlock(&ch->watch_mutex);
}

/* Watch those CQs whose events may be left to us. */
static void
watch(struct client_channel *ch)
{
	for (struct client_cq *cq = ch->cqs; cq; cq = cq->next)
		cq->watched = client_cq_watch(cq);
}

/* @return 0: a watched CQ has an event; or EAGAIN. */
static int
look(struct client_channel *ch, struct ctl_comp_event *ev)
{
	for (struct client_cq *cq = ch->cqs; cq; cq = cq->next) {
		if (!cq->watched || !client_cq_watched_event(cq))
			continue;
		cq->watched = false;
		ev->cookie = cq->cookie;
		return 0;
	}
	return EAGAIN;
}

/* Leave the CQs to the engines again. One event is the caller's, if he has none; the others go to the socket. */
static int
unwatch(struct client_channel *ch, int err, struct ctl_comp_event *ev)
{
	for (struct client_cq *cq = ch->cqs; cq; cq = cq->next) {
		struct ctl_comp_event due = { .cookie = cq->cookie };

		if (!cq->watched || !client_cq_unwatch(cq))
			continue;
		if (err == EAGAIN) {
			*ev = due;
			err = 0;
		} else if (client_channel_send(ch, &due) < 0) {
			client_complain("ibv_get_cq_event: a completion event is lost: the channel is full");
		}
	}
	return err;
}

/*
 * Look for an event until begin_ns + WATCH_NS: at the CQs, if they can be watched, and now and then into the socket. The
 * core is yielded as often. Returns as receive().
 */
static int
look_for_a_while(struct client_channel *ch, uint64_t begin_ns, bool watching, bool crowded, struct ctl_comp_event *ev)
{
	int err = receive(ch, ev); /* what came before the CQs were watched */

	for (unsigned int i = 1; err == EAGAIN && client_now_ns() - begin_ns < WATCH_NS; i++) {
		if (watching)
			err = look(ch, ev);
		if (err == EAGAIN && crowded)
			sched_yield();
		if (err != EAGAIN || (watching && i % LOOKS != 0))
			continue;
		if (watching || i % RECEIVES == 0)
			sched_yield();
		err = receive(ch, ev);
	}
	return err;
}

/*
 * Look for an event for a while before sleeping, if the last one came soon enough: as long as messages follow each other
 * within WATCH_NS this saves a wake-up on each, which takes longer than the message. Returns as receive().
 */
static int
spin(struct client_channel *ch, uint64_t begin_ns, struct ctl_comp_event *ev)
{
	bool watching, crowded = client_crowded(to_ctx(ch->channel.context)) == RING_CROWDED;
	int err, state;

	/* If the core is needed, sleeping hands it over at once. */
	if (atomic_load_explicit(&ch->waited_ns, memory_order_relaxed) > WATCH_NS)
		return EAGAIN;
	/* recv() is a cancellation point. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	watching = pthread_mutex_trylock(&ch->watch_mutex) == 0;
	if (watching && ch->nb_cqs > WATCHED_CQS) {
		pthread_mutex_unlock(&ch->watch_mutex);
		watching = false;
	}
	if (watching)
		watch(ch);
	err = look_for_a_while(ch, begin_ns, watching, crowded, ev);
	if (watching) {
		err = unwatch(ch, err, ev);
		pthread_mutex_unlock(&ch->watch_mutex);
	}
	pthread_setcancelstate(state, NULL);
	return err;
}

/* Sleep until there is an event. The connection is watched too: if the daemon is gone no event will come. */
static int
sleep_for_event(const struct client_channel *ch)
{
	struct client_ctx *ctx = to_ctx(ch->channel.context);
	struct pollfd p[2] = {
		{ .fd = ch->channel.fd, .events = POLLIN },
		{ .fd = ctx->sock, .events = POLLRDHUP },
	};

	if ((ctx->wait ? ctx->wait(p, 2) : poll(p, 2, -1)) < 0)
		return errno;
	if (!(p[0].revents & POLLIN) && (p[1].revents & (POLLRDHUP | POLLHUP | POLLERR)))
		return EIO;
	return 0;
}

/* Take an event; wait for one, unless the program made the channel non-blocking. Returns 0 or an errno value. */
static int
next_event(struct client_channel *ch, struct ctl_comp_event *ev)
{
	int err = receive(ch, ev), rc;
	uint64_t begin_ns, ns;

	if (err != EAGAIN || (fcntl(ch->channel.fd, F_GETFL) & O_NONBLOCK))
		return err;
	begin_ns = client_now_ns();
	if (!to_ctx(ch->channel.context)->wait)
		err = spin(ch, begin_ns, ev);
	while (err == EAGAIN) {
		rc = sleep_for_event(ch);
		/* Another thread may take the event first. */
		err = rc ? rc : receive(ch, ev);
	}
	ns = client_now_ns() - begin_ns;
	atomic_store_explicit(&ch->waited_ns, ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX, memory_order_relaxed);
	return err;
}

CLIENT_EXPORT int
ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct client_channel *ch = (struct client_channel *)channel;
	struct client_ctx *ctx = to_ctx(channel->context);
	struct ctl_comp_event ev;
	struct client_cq *found;
	int err;

	for (;;) {
		err = next_event(ch, &ev);
		if (err)
			return client_fail(err);
		pthread_mutex_lock(&ctx->objs.mutex);
		found = objtab_get(&ctx->objs, ev.cookie);
		if (found)
			found->comp_events_reported++;
		pthread_mutex_unlock(&ctx->objs.mutex);
		/* The event is of a destroyed CQ, and was sent after client_channel_purge() had emptied the channel. */
		if (!found)
			continue;
		*cq = &found->cq;
		*cq_context = found->cq.cq_context;
		return 0;
	}
}

CLIENT_EXPORT void
ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

ssize_t
client_channel_send(const struct client_channel *ch, const struct ctl_comp_event *ev)
{
	return send(ch->send_fd, ev, sizeof(*ev), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/*
 * The program's loop may wait until the descriptor is readable and then call ibv_get_cq_event(), so a destroyed CQ's
 * event must not remain.
 */
void
client_channel_purge(struct client_channel *ch, uint64_t cookie)
{
	struct ctl_comp_event *keep = NULL, ev;
	size_t n = 0, room = 0;
	int before = errno;

	while (recv(ch->channel.fd, &ev, sizeof(ev), MSG_DONTWAIT) == sizeof(ev)) {
		if (ev.cookie == cookie)
			continue;
		if (n == room) {
			struct ctl_comp_event *grown = realloc(keep, (room + 64) * sizeof(*keep));

			/* If the others can't be read safely, a stale event is better than a lost one. */
			if (!grown) {
				if (client_channel_send(ch, &ev) < 0)
					client_complain("ibv_destroy_cq: a completion event is lost: out of memory");
				break;
			}
			keep = grown;
			room += 64;
		}
		keep[n++] = ev;
	}
	for (size_t i = 0; i < n; i++)
		if (client_channel_send(ch, &keep[i]) < 0)
			client_complain("ibv_destroy_cq: a completion event is lost: the channel is full");
	free(keep);
	errno = before;
}
