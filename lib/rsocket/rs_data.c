/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: sending and receiving the program's data. */
#include "rsocket/rs_priv.h"

/* ---- Sending. Under slock ---- */
static bool
may_send(struct rsocket *rs)
{
	struct rs_stream *s = to_stream(rs);

	return rs_tx_ready(&s->tx) || !atomic_load_explicit(&s->wr_open, memory_order_relaxed);
}

/*
 * Gathering. If a program sends small pieces of data faster than they are transmitted, they are gathered, like with
 * TCP's autocorking: when RS_GATHER_FROM work requests are in flight, or few messages are left until the peer reads, small data stays in the send buffer until there
 * is enough for one message, or until the rsocket is used in another way or the service's next turn. Gathered data can
 * always be sent at once: data is only gathered if chunk, messages and queue have room for it.
 */
static bool
is_busy(const struct rs_stream *s)
{
	return s->tx.posted - atomic_load_explicit(&s->tx.done, memory_order_acquire) >= RS_GATHER_FROM;
}

/**
 * Gather the rest of the vector.
 * @return false: it must be sent now
 */
static bool
gather(struct rs_stream *s, struct rs_cursor *c)
{
	uint32_t have = atomic_load_explicit(&s->gathered, memory_order_relaxed), bytes = (uint32_t)c->left, at, end;

	if (c->left > RS_GATHER_SMALL || have + bytes > RS_GATHER_BYTES)
		return false;
	if (!have) {
		if (!is_busy(s) && !rs_tx_is_short(&s->tx))
			return false;
		/* Poll completions first: fewer work requests may be in flight than it seems, and the peer may have read. */
		rs_wait(&s->rs, may_send, RS_EV_OUT, true, -1);
		if (!is_busy(s) && !rs_tx_is_short(&s->tx))
			return false;
	}
	if (!rs_tx_ready(&s->tx) || !atomic_load_explicit(&s->wr_open, memory_order_relaxed) ||
	    have + bytes > s->tx.chunk.length || have + bytes > rs_tx_free_bytes(&s->tx))
		return false;
	at = (s->tx.at + have) % s->tx.ring_bytes;
	end = s->tx.ring_bytes - at;
	rs_cursor_copy(c, s->send_buf + at, bytes < end ? bytes : end, false);
	if (bytes > end)
		rs_cursor_copy(c, s->send_buf, bytes - end, false);
	atomic_store_explicit(&s->gathered, have + bytes, memory_order_relaxed);
	if (!s->in_gathering)
		rs_svc_gathering(s);
	return true;
}

static int
post_data(struct rs_stream *s, struct rs_cursor *c, uint32_t bytes)
{
	uint32_t msg = rs_msg(RS_OP_DATA, bytes);
	struct rs_sge where = s->tx.chunk;

	rs_tx_use_chunk(&s->tx, bytes);
	return rs_post_write(s, c, bytes, &where, &msg);
}

ssize_t
rs_stream_send(struct rsocket *rs, const struct iovec *iov, int n, int flags, const struct sockaddr *to,
	       socklen_t tolen)
{
	struct rs_stream *s = to_stream(rs);
	uint32_t bytes, most = RS_TRANSFER_FIRST;
	struct rs_cursor c;
	size_t total;
	int err = rs_cursor_init(&c, iov, n);

	if (!err && (to || tolen))
		err = EISCONN;
	if (!err && rs_state(rs) != RS_CONNECTED)
		err = rs_ready(s, rs_nonblocking(rs, flags));
	if (err)
		return -err;
	total = c.left;
	pthread_mutex_lock(&s->slock);
	if (atomic_load(&s->untold)) {
		err = rs_flush(s);
		if (!err)
			err = rs_iomap_tell(s, flags);
	}
	while (!err && c.left && !gather(s, &c)) {
		if (atomic_load_explicit(&s->gathered, memory_order_relaxed)) {
			/* Data that doesn't fit behind the gathered data is tried again once that is sent. */
			err = rs_flush(s);
			continue;
		}
		err = rs_wait_to_send(s, may_send, flags);
		if (err)
			break;
		/* Start with small messages, so that something is sent while the rest is copied. */
		bytes = rs_tx_fit(&s->tx, c.left < most ? (uint32_t)c.left : most);
		if (most < RS_TRANSFER_MAX)
			most *= 2;
		err = post_data(s, &c, bytes);
	}
	rs_unlock_sender(s);
	return total == c.left && err ? -err : (ssize_t)(total - c.left);
}

/* ---- Receiving. Under rlock ---- */
static bool
may_receive(struct rsocket *rs)
{
	struct rs_stream *s = to_stream(rs);

	return rs_rx_has_data(&s->rx) || !atomic_load_explicit(&s->rd_open, memory_order_relaxed);
}

static void
copy_out(struct rs_stream *s, struct rs_cursor *c, uint32_t at, uint32_t bytes)
{
	uint32_t end = s->rx.ring_bytes - at, first = bytes < end ? bytes : end;

	rs_cursor_copy(c, s->recv_buf + at, first, true);
	if (first < bytes)
		rs_cursor_copy(c, s->recv_buf, bytes - first, true);
}

/** Read the data that is there, as much as the vector holds. */
static void
take_data(struct rs_stream *s, struct rs_cursor *c)
{
	struct rs_rx *rx = &s->rx;
	uint32_t *slot, bytes;

	while (rs_rx_has_data(rx)) {
		slot = &rx->slots[atomic_load_explicit(&rx->head, memory_order_relaxed)];
		bytes = *slot < c->left ? *slot : (uint32_t)c->left;
		/* A message without data is only skipped. */
		if (!bytes && *slot)
			break;
		copy_out(s, c, rx->at, bytes);
		rs_rx_read(rx, bytes);
		*slot -= bytes;
		if (!*slot)
			rs_rx_pop(rx);
	}
}

/** Copy the data that is there without consuming it. */
static void
peek_data(struct rs_stream *s, struct rs_cursor *c)
{
	struct rs_rx *rx = &s->rx;
	uint32_t head = atomic_load_explicit(&rx->head, memory_order_relaxed), at = rx->at, bytes;

	while (c->left && head != atomic_load_explicit(&rx->tail, memory_order_acquire)) {
		bytes = rx->slots[head] < c->left ? rx->slots[head] : (uint32_t)c->left;
		copy_out(s, c, at, bytes);
		at = (at + bytes) % rx->ring_bytes;
		head = rs_rx_next(rx, head);
	}
}

/** Skip messages without data: there is nothing to peek at. */
static void
pass_empty(struct rs_rx *rx)
{
	while (rs_rx_has_data(rx) && !rx->slots[atomic_load_explicit(&rx->head, memory_order_relaxed)])
		rs_rx_pop(rx);
}

/**
 * Wait for data or the end of the stream.
 * @return 0 or an errno value
 */
static int
wait_for_data(struct rs_stream *s, int flags, bool *end)
{
	int err = 0;

	if (!rs_rx_has_data(&s->rx))
		err = rs_wait(&s->rs, may_receive, RS_EV_IN, rs_nonblocking(&s->rs, flags), -1);
	*end = !err && !rs_rx_has_data(&s->rx);
	/* A reader gets the error once, and end of file from then on. */
	if (*end && rs_state(&s->rs) == RS_FAILED)
		err = rs_take_error(&s->rs);
	return err;
}

static void
grant_if_due(struct rs_stream *s)
{
	if (!rs_rx_grant_due(&s->rx))
		return;
	pthread_mutex_lock(&s->rs.lock);
	rs_grant(s);
	pthread_mutex_unlock(&s->rs.lock);
}

ssize_t
rs_stream_recv(struct rsocket *rs, const struct iovec *iov, int n, int flags, struct sockaddr *from, socklen_t *fromlen)
{
	struct rs_stream *s = to_stream(rs);
	struct rs_cursor c;
	size_t total;
	bool end = false;
	int err = rs_cursor_init(&c, iov, n);

	if (!err && rs_state(rs) != RS_CONNECTED)
		err = rs_ready(s, rs_nonblocking(rs, flags));
	if (err)
		return -err;
	total = c.left;
	pthread_mutex_lock(&s->rlock);
	while (c.left) {
		err = wait_for_data(s, flags, &end);
		if (err || end)
			break;
		if (flags & MSG_PEEK) {
			pass_empty(&s->rx);
			peek_data(s, &c);
		} else {
			take_data(s, &c);
		}
		grant_if_due(s);
		if ((flags & (MSG_PEEK | MSG_WAITALL)) != MSG_WAITALL && c.left < total)
			break;
	}
	pthread_mutex_unlock(&s->rlock);
	if (total == c.left && err)
		return -err;
	if (from && fromlen && total > c.left)
		rs->ops->name(rs, true, from, fromlen);
	return (ssize_t)(total - c.left);
}
