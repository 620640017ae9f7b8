/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: the program's data, into messages and out of them. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "rsocket/rs.h"

/* ---- Vectors ---- */
int
rs_cursor_init(struct rs_cursor *c, const struct iovec *iov, int n)
{
	*c = (struct rs_cursor){ .iov = iov, .n = n };
	if (n < 0 || (n && !iov))
		return EINVAL;
	for (int i = 0; i < n; i++) {
		if (iov[i].iov_len > SSIZE_MAX - c->left)
			return EINVAL;
		c->left += iov[i].iov_len;
	}
	return 0;
}

static void
skip_empty(struct rs_cursor *c)
{
	while (c->n && c->off == c->iov->iov_len) {
		c->iov++;
		c->n--;
		c->off = 0;
	}
}

/** Copy between @p mem and the vector: what is left of that has @p bytes. */
static void
copy(struct rs_cursor *c, void *mem, uint32_t bytes, bool to_vector)
{
	uint8_t *m = mem;
	size_t n;

	c->left -= bytes;
	for (; bytes; bytes -= (uint32_t)n, m += n) {
		skip_empty(c);
		n = c->iov->iov_len - c->off;
		if (n > bytes)
			n = bytes;
		if (to_vector)
			memcpy((uint8_t *)c->iov->iov_base + c->off, m, n);
		else
			memcpy(m, (const uint8_t *)c->iov->iov_base + c->off, n);
		c->off += n;
	}
}

/* ---- Sending. Under slock ---- */
/** Into the send buffer. @return SGEs */
static int
stage(struct rs_stream *s, struct rs_cursor *c, uint32_t bytes, struct ibv_sge *sge)
{
	uint32_t at = s->tx.at, end = s->tx.ring_bytes - at, first = bytes < end ? bytes : end;

	copy(c, s->send_buf + at, first, false);
	sge[0] = (struct ibv_sge){ (uintptr_t)s->send_buf + at, first, s->send_mr->lkey };
	if (first == bytes)
		return 1;
	copy(c, s->send_buf, bytes - first, false);
	sge[1] = (struct ibv_sge){ (uintptr_t)s->send_buf, bytes - first, s->send_mr->lkey };
	return 2;
}

int
rs_post_write(struct rs_stream *s, struct rs_cursor *c, uint32_t bytes, const struct rs_sge *where,
	      const uint32_t *msg)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr *bad, wr = { .sg_list = sge };
	bool signal;

	wr.opcode = msg ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	wr.imm_data = msg ? htonl(*msg) : 0;
	wr.wr.rdma.remote_addr = where->addr;
	wr.wr.rdma.rkey = where->key;
	skip_empty(c);
	if (bytes <= s->rs.sizes.inline_bytes) {
		wr.send_flags = IBV_SEND_INLINE;
		if (c->iov->iov_len - c->off >= bytes) {
			/* Straight from the program's memory. */
			sge[0] = (struct ibv_sge){ (uintptr_t)c->iov->iov_base + c->off, bytes, 0 };
			wr.num_sge = 1;
			c->off += bytes;
			c->left -= bytes;
		} else {
			wr.num_sge = stage(s, c, bytes, sge);
		}
	} else {
		wr.num_sge = stage(s, c, bytes, sge);
	}
	wr.wr_id = rs_tx_post(&s->tx, bytes, &signal);
	if (signal)
		wr.send_flags |= IBV_SEND_SIGNALED;
	return ibv_post_send(s->id->qp, &wr, &bad);
}

static bool
may_send(struct rsocket *rs)
{
	struct rs_stream *s = to_stream(rs);

	return rs_tx_ready(&s->tx) || !atomic_load_explicit(&s->wr_open, memory_order_relaxed);
}

/*
 * Gathering. A program that sends small pieces faster than they go gets them gathered, as TCP's corking does it
 * with what its device is still busy with: when RS_GATHER_FROM work requests are under way, small data stays in the
 * send buffer until there is enough for one message, or the rsocket is used in another way, or the service's next
 * turn. What is gathered can always be sent at once: it was let in only as far as window, messages and queue reach.
 */
int
rs_flush(struct rs_stream *s)
{
	uint32_t bytes = atomic_load_explicit(&s->gathered, memory_order_relaxed), at = s->tx.at;
	uint32_t end = s->tx.ring_bytes - at, first = bytes < end ? bytes : end;
	struct ibv_sge sge[2] = {
		{ (uintptr_t)s->send_buf + at, first, s->send_mr->lkey },
		{ (uintptr_t)s->send_buf, bytes - first, s->send_mr->lkey },
	};
	struct ibv_send_wr *bad, wr = { .sg_list = sge, .num_sge = first < bytes ? 2 : 1 };
	bool signal;

	if (!bytes)
		return 0;
	atomic_store_explicit(&s->gathered, 0, memory_order_relaxed);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = htonl(rs_msg(RS_OP_DATA, bytes));
	wr.wr.rdma.remote_addr = s->tx.window.addr;
	wr.wr.rdma.rkey = s->tx.window.key;
	rs_tx_use_window(&s->tx, bytes);
	wr.wr_id = rs_tx_post(&s->tx, bytes, &signal);
	wr.send_flags = signal ? IBV_SEND_SIGNALED : 0;
	return ibv_post_send(s->id->qp, &wr, &bad);
}

void
rs_stream_idle(struct rsocket *rs)
{
	struct rs_stream *s = to_stream(rs);

	if (!atomic_load_explicit(&s->gathered, memory_order_relaxed) || pthread_mutex_trylock(&s->slock))
		return;
	if (rs_flush(s))
		rs_fail(s, EIO);
	pthread_mutex_unlock(&s->slock);
}

void
rs_flush_any(struct rs_stream *s)
{
	if (!atomic_load_explicit(&s->gathered, memory_order_relaxed))
		return;
	pthread_mutex_lock(&s->rs.lock);
	rs_stream_idle(&s->rs);
	pthread_mutex_unlock(&s->rs.lock);
}

static bool
is_busy(const struct rs_stream *s)
{
	return s->tx.posted - atomic_load_explicit(&s->tx.done, memory_order_acquire) >= RS_GATHER_FROM;
}

/** Keep the rest of the vector for more. @return false: it is to be sent */
static bool
gather(struct rs_stream *s, struct rs_cursor *c)
{
	uint32_t have = atomic_load_explicit(&s->gathered, memory_order_relaxed), bytes = (uint32_t)c->left, at, end;

	if (c->left > RS_GATHER_SMALL || have + bytes > RS_GATHER_BYTES)
		return false;
	if (!have) {
		if (!is_busy(s))
			return false;
		/* So it seems: now from the queue. */
		rs_wait(&s->rs, may_send, RS_EV_OUT, true, -1);
		if (!is_busy(s))
			return false;
	}
	if (!rs_tx_ready(&s->tx) || !atomic_load_explicit(&s->wr_open, memory_order_relaxed) ||
	    have + bytes > s->tx.window.length || have + bytes > rs_tx_free_bytes(&s->tx))
		return false;
	at = (s->tx.at + have) % s->tx.ring_bytes;
	end = s->tx.ring_bytes - at;
	copy(c, s->send_buf + at, bytes < end ? bytes : end, false);
	if (bytes > end)
		copy(c, s->send_buf, bytes - end, false);
	atomic_store_explicit(&s->gathered, have + bytes, memory_order_relaxed);
	if (!s->in_gathering)
		rs_svc_gathering(s);
	return true;
}

static int
post_data(struct rs_stream *s, struct rs_cursor *c, uint32_t bytes)
{
	uint32_t msg = rs_msg(RS_OP_DATA, bytes);
	struct rs_sge where = s->tx.window;

	rs_tx_use_window(&s->tx, bytes);
	return rs_post_write(s, c, bytes, &where, &msg);
}

bool
rs_has_room(struct rsocket *rs)
{
	struct rs_stream *s = to_stream(rs);

	return rs_tx_has_room(&s->tx) || !atomic_load_explicit(&s->wr_open, memory_order_relaxed);
}

int
rs_wait_to_send(struct rs_stream *s, bool (*test)(struct rsocket *rs), int flags)
{
	int err;

	if (!test(&s->rs)) {
		err = rs_wait(&s->rs, test, RS_EV_OUT, rs_nonblocking(&s->rs, flags), -1);
		if (err)
			return err;
	}
	if (atomic_load_explicit(&s->wr_open, memory_order_acquire))
		return 0;
	if (s->wr_shut)
		return EPIPE;
	err = rs_take_error(&s->rs);
	return err ? err : ECONNRESET;
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
			/* What doesn't fit behind it may begin anew. */
			err = rs_flush(s);
			continue;
		}
		err = rs_wait_to_send(s, may_send, flags);
		if (err)
			break;
		/* Small pieces first: the wire has something to do while the rest is copied. */
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

	copy(c, s->recv_buf + at, first, true);
	if (first < bytes)
		copy(c, s->recv_buf, bytes - first, true);
}

/** Take what is there, as much as the vector holds. */
static void
take_data(struct rs_stream *s, struct rs_cursor *c)
{
	struct rs_rx *rx = &s->rx;
	uint32_t *slot, bytes;

	while (rs_rx_has_data(rx)) {
		slot = &rx->slots[atomic_load_explicit(&rx->head, memory_order_relaxed)];
		bytes = *slot < c->left ? *slot : (uint32_t)c->left;
		/* Messages without data are read by passing them. */
		if (!bytes && *slot)
			break;
		copy_out(s, c, rx->at, bytes);
		rs_rx_read(rx, bytes);
		*slot -= bytes;
		if (!*slot)
			rs_rx_pop(rx);
	}
}

/** The same without taking it. */
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

/** Messages without data are nothing that could be peeked at. */
static void
pass_empty(struct rs_rx *rx)
{
	while (rs_rx_has_data(rx) && !rx->slots[atomic_load_explicit(&rx->head, memory_order_relaxed)])
		rs_rx_pop(rx);
}

/** Something that may be read, or the end. @return 0 or an errno value */
static int
wait_for_data(struct rs_stream *s, int flags, bool *end)
{
	int err = 0;

	if (!rs_rx_has_data(&s->rx))
		err = rs_wait(&s->rs, may_receive, RS_EV_IN, rs_nonblocking(&s->rs, flags), -1);
	*end = !err && !rs_rx_has_data(&s->rx);
	/* A reader hears once that the connection broke, then that it is over. */
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
