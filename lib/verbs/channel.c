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
enum { SPIN_NS = 50000 };

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

/*
 * Look for an event for a while before sleeping, if the last one came soon enough: as long as messages follow each other
 * within SPIN_NS this saves a wake-up on each, which takes longer than the message. The core is yielded all the time.
 * Returns whether there is one.
 */
static bool
spin_event(struct client_channel *ch, uint64_t begin_ns)
{
	struct pollfd p = { .fd = ch->channel.fd, .events = POLLIN };

	if (atomic_load_explicit(&ch->waited_ns, memory_order_relaxed) > SPIN_NS)
		return false;
	do {
		if (poll(&p, 1, 0) == 1)
			return true;
		sched_yield();
	} while (client_now_ns() - begin_ns < SPIN_NS);
	return false;
}

/*
 * Wait for an event, unless the program made the channel non-blocking. The connection is watched too: if the daemon is
 * gone no event will come.
 */
static int
wait_event(struct client_channel *ch)
{
	struct client_ctx *ctx = to_ctx(ch->channel.context);
	struct pollfd p[2] = {
		{ .fd = ch->channel.fd, .events = POLLIN },
		{ .fd = ctx->sock, .events = POLLRDHUP },
	};

	if (fcntl(ch->channel.fd, F_GETFL) & O_NONBLOCK)
		return 0;
	if (ctx->wait) {
		if (ctx->wait(p, 2) < 0)
			return errno;
	} else {
		uint64_t begin_ns = client_now_ns(), waited_ns;

		p[0].revents = spin_event(ch, begin_ns) ? POLLIN : 0;
		if (!p[0].revents && poll(p, 2, -1) < 0)
			return errno;
		waited_ns = client_now_ns() - begin_ns;
		atomic_store_explicit(&ch->waited_ns, waited_ns < UINT32_MAX ? (uint32_t)waited_ns : UINT32_MAX, memory_order_relaxed);
	}
	if (!(p[0].revents & POLLIN) && (p[1].revents & (POLLRDHUP | POLLHUP | POLLERR)))
		return EIO;
	return 0;
}

CLIENT_EXPORT int
ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct client_channel *ch = (struct client_channel *)channel;
	struct client_ctx *ctx = to_ctx(channel->context);
	struct ctl_comp_event ev;
	struct client_cq *found;
	ssize_t n;
	int err;

	for (;;) {
		err = wait_event(ch);
		if (err)
			return client_fail(err);
		n = read(channel->fd, &ev, sizeof(ev));
		if (n != sizeof(ev)) {
			if (n >= 0)
				errno = EIO;
			return -1;
		}
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
