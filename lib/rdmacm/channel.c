/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels: the connection to the daemon, its requests, the table of ids. */
#include "rdmacm/rdmacm_priv.h"

#include <sys/socket.h>
#include <unistd.h>

int
cm_result(int err)
{
	if (err == 0)
		return 0;
	errno = err;
	return -1;
}

static int
call_locked(struct cm_channel *ch, struct client_call *c)
{
	bool was_broken = ch->broken;
	int err = was_broken ? EIO : client_exchange(ch->sock, c, &ch->broken);

	if (ch->broken && !was_broken)
		client_complain("rdma_cm: the connection to uroced is lost: it was stopped or died");
	else if (err && !was_broken && c->rsp.message[0] && !c->quiet)
		client_complain("rdma_cm: %.*s", (int)sizeof(c->rsp.message), c->rsp.message);
	return err;
}

int
cm_call(struct cm_channel *ch, struct client_call *c)
{
	int err;

	pthread_mutex_lock(&ch->lock);
	err = call_locked(ch, c);
	pthread_mutex_unlock(&ch->lock);
	client_call_close_fds(c, 0);
	return err;
}

int
cm_call_handle(struct cm_channel *ch, enum ctl_op op, uint32_t handle)
{
	struct client_call c;

	client_call_init(&c, op);
	c.req.handle.handle = handle;
	return cm_call(ch, &c);
}

void
cm_call_destroy(struct cm_channel *ch, uint32_t handle, uint32_t taken)
{
	struct client_call c;

	client_call_init(&c, CTL_CM_DESTROY_ID);
	c.req.cm_destroy.id = handle;
	c.req.cm_destroy.taken = taken;
	c.quiet = true;
	cm_call(ch, &c);
}

static int
enter_locked(struct cm_channel *ch, struct cmid *id)
{
	uint32_t at = id->handle & CMID_INDEX_MASK, n;
	struct cmid **ids;

	if (at >= ch->nb_ids) {
		for (n = ch->nb_ids ? ch->nb_ids : 16; n <= at; n *= 2)
			;
		ids = realloc(ch->ids, n * sizeof(*ids));
		if (!ids)
			return ENOMEM;
		while (ch->nb_ids < n)
			ids[ch->nb_ids++] = NULL;
		ch->ids = ids;
	}
	ch->ids[at] = id;
	return 0;
}

int
cm_enter(struct cm_channel *ch, struct cmid *id)
{
	int err;

	pthread_mutex_lock(&ch->lock);
	err = enter_locked(ch, id);
	pthread_mutex_unlock(&ch->lock);
	return err;
}

int
cm_take_over(struct cm_channel *ch, struct cmid *id)
{
	struct client_call c;
	int err;

	client_call_init(&c, CTL_CM_MIGRATE);
	c.req.cm_migrate.token = id->channel->token;
	c.req.cm_migrate.id = id->handle;
	pthread_mutex_lock(&ch->lock);
	err = call_locked(ch, &c);
	if (!err) {
		id->channel = ch;
		id->handle = c.rsp.handle.handle;
		err = enter_locked(ch, id);
	}
	pthread_mutex_unlock(&ch->lock);
	client_call_close_fds(&c, 0);
	return err;
}

void
cm_leave(struct cm_channel *ch, struct cmid *id)
{
	uint32_t at = id->handle & CMID_INDEX_MASK;

	pthread_mutex_lock(&ch->lock);
	if (at < ch->nb_ids && ch->ids[at] == id)
		ch->ids[at] = NULL;
	pthread_mutex_unlock(&ch->lock);
}

struct cmid *
cm_find_counted(struct cm_channel *ch, uint32_t handle)
{
	uint32_t at = handle & CMID_INDEX_MASK;
	struct cmid *id = NULL;

	pthread_mutex_lock(&ch->lock);
	if (at < ch->nb_ids && ch->ids[at] && ch->ids[at]->handle == handle) {
		id = ch->ids[at];
		pthread_mutex_lock(&id->lock);
		id->events++;
		pthread_mutex_unlock(&id->lock);
	}
	pthread_mutex_unlock(&ch->lock);
	return id;
}

/* The daemon makes the socket on which it sends the events. It alone has the other end: when it ends, ours is at its end. */
static int
open_events(struct cm_channel *ch)
{
	struct client_call c;
	int err;

	client_call_init(&c, CTL_CM_OPEN);
	pthread_mutex_lock(&ch->lock);
	err = call_locked(ch, &c);
	pthread_mutex_unlock(&ch->lock);
	if (!err && c.nb_got != 1)
		err = EPROTO;
	if (err) {
		client_call_close_fds(&c, 0);
		return err;
	}
	ch->ch.fd = c.got[0];
	ch->token = c.rsp.cm_open.token;
	return 0;
}

RDMACM_EXPORT struct rdma_event_channel *
rdma_create_event_channel(void)
{
	struct cm_channel *ch = calloc(1, sizeof(*ch));
	uint32_t nb_devices;
	int err = ENOMEM;

	if (!ch)
		goto fail;
	pthread_mutex_init(&ch->lock, NULL);
	pthread_mutex_init(&ch->reading, NULL);
	err = client_connect(client_socket_path(), &ch->sock, &nb_devices);
	if (err) {
		/* rdma-core reports ENODEV if the kernel module isn't loaded. */
		err = err == ENOENT || err == ECONNREFUSED ? ENODEV : err;
		goto fail;
	}
	err = open_events(ch);
	if (!err)
		return &ch->ch;
	close(ch->sock);
fail:
	free(ch);
	errno = err;
	return NULL;
}

/* ---- Destruction. Some programs destroy a channel while a thread of theirs is still reading it (rping). ---- */
/** @return true if an event of this number was read before. Others may have been read out of order by other threads. */
static bool
was_read(struct cm_channel *ch, uint32_t number)
{
	uint32_t *seen = &ch->seen[number % CM_SEEN_EVENTS];
	bool again;

	pthread_mutex_lock(&ch->lock);
	again = number != 0 && *seen == number;
	*seen = number;
	pthread_mutex_unlock(&ch->lock);
	return again;
}

/**
 * Get the next record, if there is one.
 * @return 0 or an errno value: EAGAIN, or ENODEV if the channel was destroyed or the daemon is gone.
 */
static int
take(struct cm_channel *ch, struct ctl_cm_event *r, int flags)
{
	ssize_t n;

	if (atomic_load(&ch->destroyed))
		return ENODEV;
	n = recv(ch->ch.fd, r, sizeof(*r), MSG_DONTWAIT | flags);
	return n == (ssize_t)sizeof(*r) ? 0 : n < 0 ? errno : ENODEV;
}

static int
read_record(struct cm_channel *ch, struct ctl_cm_event *r)
{
	uint8_t byte;
	int err;

	do {
		pthread_mutex_lock(&ch->reading);
		err = take(ch, r, 0);
		ch->busy += err == 0;
		pthread_mutex_unlock(&ch->reading);
		/* Wait, if the descriptor is one that waits, without the lock and without taking anything. */
	} while (err == EAGAIN && recv(ch->ch.fd, &byte, sizeof(byte), MSG_PEEK) >= 0);
	return err == EAGAIN ? errno : err;
}

int
cm_read_record(struct cm_channel *ch, struct ctl_cm_event *r)
{
	int err;

	atomic_fetch_add(&ch->readers, 1);
	while ((err = read_record(ch, r)) == 0 && was_read(ch, r->number))
		cm_read_done(ch);
	/* A thread that got an error would end its program, so it waits here for ever. */
	while (atomic_load(&ch->destroyed))
		pause();
	atomic_fetch_sub(&ch->readers, 1);
	return err;
}

static bool
has_id(struct cm_channel *ch, uint32_t handle)
{
	uint32_t at = handle & CMID_INDEX_MASK;
	bool has;

	pthread_mutex_lock(&ch->lock);
	has = at < ch->nb_ids && ch->ids[at] && ch->ids[at]->handle == handle;
	pthread_mutex_unlock(&ch->lock);
	return has;
}

/** Take out stale records up to the next one that is not; with `reading`. What is behind that waits until it was read. */
static void
forget_records(struct cm_channel *ch)
{
	struct ctl_cm_event r;

	while (take(ch, &r, MSG_PEEK) == 0) {
		bool request = r.type == CTL_CM_EV_CONNECT_REQUEST;

		if (has_id(ch, request ? r.listener : r.id) || take(ch, &r, 0) != 0)
			return;
		if (request)
			cm_call_destroy(ch, r.id, 0);
	}
	ch->stale = false;
}

void
cm_read_done(struct cm_channel *ch)
{
	pthread_mutex_lock(&ch->reading);
	if (--ch->busy == 0 && ch->stale)
		forget_records(ch);
	pthread_mutex_unlock(&ch->reading);
}

void
cm_forget_records(struct cm_channel *ch)
{
	pthread_mutex_lock(&ch->reading);
	ch->stale = true;
	if (ch->busy == 0)
		forget_records(ch);
	pthread_mutex_unlock(&ch->reading);
}

static void
free_channel(struct cm_channel *ch)
{
	/* A thread waits in it for ever, so it can't be freed. */
	if (ch == NULL || atomic_load(&ch->readers) != 0)
		return;
	pthread_mutex_destroy(&ch->lock);
	pthread_mutex_destroy(&ch->reading);
	free(ch->ids);
	free(ch);
}

RDMACM_EXPORT void
rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	/*
	 * The last destroyed channels are freed later, so that a thread which is just entering rdma_get_cm_event() finds
	 * them marked destroyed.
	 */
	static struct cm_channel *kept[CM_KEPT_CHANNELS];
	static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
	static unsigned int next;
	struct cm_channel *ch = to_channel(channel), *oldest;

	pthread_mutex_lock(&ch->reading);
	atomic_store(&ch->destroyed, true);
	pthread_mutex_unlock(&ch->reading);
	close(ch->sock);
	close(channel->fd);
	pthread_mutex_lock(&kept_lock);
	oldest = kept[next];
	kept[next] = ch;
	next = (next + 1) % CM_KEPT_CHANNELS;
	pthread_mutex_unlock(&kept_lock);
	free_channel(oldest);
}
