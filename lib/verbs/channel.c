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
enum { SPIN_NS = 50000, SPIN_LOOKS = 4 };

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

/*
 * Look for an event for a while before sleeping, if the last one came soon enough: as long as messages follow each other
 * within SPIN_NS this saves a wake-up on each, which takes longer than the message. The core is yielded now and then.
 * Returns as receive().
 */
static int
spin(const struct client_channel *ch, uint64_t begin_ns, struct ctl_comp_event *ev)
{
	int err = EAGAIN;

	/* If the core is needed, sleeping hands it over at once. */
	if (atomic_load_explicit(&ch->waited_ns, memory_order_relaxed) > SPIN_NS || client_crowded(to_ctx(ch->channel.context)))
		return EAGAIN;
	for (unsigned int i = 1; err == EAGAIN && client_now_ns() - begin_ns < SPIN_NS; i++) {
		if (i % SPIN_LOOKS == 0)
			sched_yield();
		err = receive(ch, ev);
	}
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
