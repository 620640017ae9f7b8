/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by everything that sends on a stream: the program's vector, work requests, waiting for room, the sender's
 * lock.
 */
#include <arpa/inet.h>
#include <limits.h>

#include "rsocket/rs_priv.h"

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

void
rs_cursor_copy(struct rs_cursor *c, void *mem, uint32_t bytes, bool to_vector)
{
	uint8_t *m = mem;
	size_t n;

	UROCE_ASSERT(bytes <= c->left);
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
/**
 * Copy @p bytes into the send buffer.
 * @return the number of SGEs
 */
static int
stage(struct rs_stream *s, struct rs_cursor *c, uint32_t bytes, struct ibv_sge *sge)
{
	uint32_t at = s->tx.at, end = s->tx.ring_bytes - at, first = bytes < end ? bytes : end;

	rs_cursor_copy(c, s->send_buf + at, first, false);
	sge[0] = (struct ibv_sge){ (uintptr_t)s->send_buf + at, first, s->send_mr->lkey };
	if (first == bytes)
		return 1;
	rs_cursor_copy(c, s->send_buf, bytes - first, false);
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
			/* Inline data is copied straight from the program's memory. */
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
	wr.wr.rdma.remote_addr = s->tx.chunk.addr;
	wr.wr.rdma.rkey = s->tx.chunk.key;
	rs_tx_use_chunk(&s->tx, bytes);
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

/* ---- The sender's lock ---- */
bool
rs_trylock_sender(struct rs_stream *s)
{
	if (!pthread_mutex_trylock(&s->slock))
		return true;
	/*
	 * A thread is sending. It either sees passed_over after it has unlocked, or it has unlocked already and the
	 * lock is free now.
	 */
	atomic_store_explicit(&s->passed_over, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	return !pthread_mutex_trylock(&s->slock);
}

void
rs_unlock_sender(struct rs_stream *s)
{
	pthread_mutex_unlock(&s->slock);
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&s->passed_over, memory_order_relaxed))
		return;
	pthread_mutex_lock(&s->rs.lock);
	atomic_store_explicit(&s->passed_over, false, memory_order_relaxed);
	rs_kick(&s->rs, RS_EV_OUT);
	pthread_mutex_unlock(&s->rs.lock);
}
