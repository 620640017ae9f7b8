/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion channels: a pipe of struct ctl_comp_event. Programs poll the read end; engines write.
 *
 * An event counts as reported when ibv_get_cq_event() returned it; ibv_destroy_cq() waits until as many were
 * acknowledged. Both happen under the mutex of the table of objects, so a CQ that is being destroyed gets no more.
 */
#include "verbs/client_priv.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A wake-up takes 3 us on the same core, 20 and more if another core has to be brought out of its sleep. */
enum { SPIN_NS = 50000 };

CLIENT_EXPORT struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *context)
{
	struct client_channel *ch = calloc(1, sizeof(*ch));
	int fds[2];

	if (!ch)
		return client_null(ENOMEM);
	if (pipe2(fds, O_CLOEXEC)) {
		free(ch);
		return NULL;
	}
	/* An engine must never wait for a program that doesn't read its events. The daemon reopens the pipe. */
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	fchmod(fds[1], CLIENT_PIPE_MODE);
	ch->channel.context = context;
	ch->channel.fd = fds[0];
	ch->write_fd = fds[1];
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
	close(channel->fd);
	close(ch->write_fd);
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
		/* The event is of a destroyed CQ, and was written after client_channel_purge() had emptied the pipe. */
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

/*
 * The program's loop may wait until the descriptor is readable and then call ibv_get_cq_event(), so a destroyed CQ's
 * event must not remain. This reads through a file description of its own, as the program's may be blocking.
 */
void
client_channel_purge(struct client_channel *ch, uint64_t cookie)
{
	struct ctl_comp_event *keep = NULL, ev;
	size_t n = 0, room = 0;
	int fd, before = errno;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", ch->channel.fd);
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		goto out;
	while (read(fd, &ev, sizeof(ev)) == sizeof(ev)) {
		if (ev.cookie == cookie)
			continue;
		if (n == room) {
			struct ctl_comp_event *grown = realloc(keep, (room + 64) * sizeof(*keep));

			/* If the pipe can't be read safely, a stale event is better than a lost one. */
			if (!grown) {
				if (write(ch->write_fd, &ev, sizeof(ev)) < 0)
					client_complain("ibv_destroy_cq: a completion event is lost: out of memory");
				break;
			}
			keep = grown;
			room += 64;
		}
		keep[n++] = ev;
	}
	close(fd);
	for (size_t i = 0; i < n; i++)
		if (write(ch->write_fd, &keep[i], sizeof(keep[i])) < 0)
			client_complain("ibv_destroy_cq: a completion event is lost: the channel is full");
	free(keep);
out:
	errno = before;
}
