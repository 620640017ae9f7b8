/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A stream's flow control, as pure arithmetic: what may be sent and where to (struct rs_tx), what was received and what
 * the peer may be granted (struct rs_rx).
 *
 * Each half has two sides. The sender (or receiver) is one thread at a time, inside rsend() (or rrecv()). The poller is
 * the thread that polls completions, under the socket's lock. Each field has one writer; fields that the other side
 * reads are atomic. All counters only grow, and wrap: only their differences mean something.
 */
#ifndef UROCE_RS_FLOW_H
#define UROCE_RS_FLOW_H

#include <errno.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "rsocket/rs_wire.h"

enum {
	RS_SEND_LOW_BYTES = 2048, /**< less free space than this in the send buffer counts as none */
	RS_SIGNAL_PARTS = 4,      /**< a completion is requested after 1/RS_SIGNAL_PARTS of the buffer was posted */
	RS_SIGNAL_WRS = 8,        /**< and for every so many work requests; fewer than any queue has */
	RS_WR_COUNT_BITS = 24,
	RS_WR_COUNT_MASK = (1 << RS_WR_COUNT_BITS) - 1,
};

/** Flags in a work request's id: RS_WR_CTRL: a message of ours that isn't data; RS_WR_RECV: a receive. */
#define RS_WR_CTRL (UINT64_C(1) << 63)
#define RS_WR_RECV (UINT64_C(1) << 62)

struct rs_tx {
	/* Fixed. */
	uint32_t max_wr;
	uint32_t ring_bytes;
	uint16_t few;                      /**< a quarter of the peer's receive queue */
	/* Written by the sender. */
	uint32_t posted, posted_bytes;
	uint32_t signaled, signaled_bytes; /**< posted when a completion was last requested */
	uint32_t at;                       /**< offset in the send buffer */
	uint16_t seq;
	_Atomic uint32_t nb_taken;         /**< chunks taken from given */
	struct rs_sge chunk;
	/* Written by the poller. */
	_Atomic uint32_t done, done_bytes;
	_Atomic uint16_t seq_limit;
	_Atomic uint32_t nb_given;
	struct rs_sge given[RS_CHUNKS];
};

struct rs_rx {
	/* Fixed. */
	uint32_t ring_bytes;
	uint32_t nb_slots;
	uint16_t queue;                /**< data messages that may be in flight */
	uint32_t *slots;               /**< number of bytes in each message that arrived */
	/* Written by the receiver. */
	uint32_t at;                   /**< offset in the receive buffer */
	_Atomic uint32_t head;
	_Atomic uint32_t read_bytes;
	_Atomic uint16_t seq;          /**< messages read to the end */
	/* Written by the poller. */
	_Atomic uint32_t tail;
	_Atomic uint32_t granted_bytes;
	_Atomic uint16_t granted_seq;  /**< value of seq when messages were last granted */
	uint32_t arrived_bytes;
	uint32_t grant_at;             /**< offset of the half that is granted next */
};

/* ---- Sending ---- */
/**
 * The poller: the peer granted a chunk.
 * @return 0; EPROTO: it can't have read the grants before.
 */
static inline int
rs_tx_give(struct rs_tx *tx, const struct rs_sge *chunk)
{
	uint32_t n = atomic_load_explicit(&tx->nb_given, memory_order_relaxed);

	if (n - atomic_load_explicit(&tx->nb_taken, memory_order_acquire) >= RS_CHUNKS)
		return EPROTO;
	tx->given[n % RS_CHUNKS] = *chunk;
	atomic_store_explicit(&tx->nb_given, n + 1, memory_order_release);
	return 0;
}

static inline void
rs_tx_limit(struct rs_tx *tx, uint32_t seq)
{
	atomic_store_explicit(&tx->seq_limit, (uint16_t)(seq & RS_SEQ_MASK), memory_order_release);
}

/**
 * The sender: only few messages may be sent until the peer reads. A peer that reads what comes gives new ones when half of its queue is used up,
 * so this one reads slowly, or not at all.
 */
static inline bool
rs_tx_is_short(const struct rs_tx *tx)
{
	uint32_t limit = atomic_load_explicit(&tx->seq_limit, memory_order_relaxed);

	return ((limit - tx->seq) & RS_SEQ_MASK) < tx->few;
}

/** The sender: make tx->chunk a chunk with room, if there is one. */
static inline bool
rs_tx_chunk(struct rs_tx *tx)
{
	while (!tx->chunk.length) {
		uint32_t n = atomic_load_explicit(&tx->nb_taken, memory_order_relaxed);

		if (n == atomic_load_explicit(&tx->nb_given, memory_order_acquire))
			return false;
		tx->chunk = tx->given[n % RS_CHUNKS];
		atomic_store_explicit(&tx->nb_taken, n + 1, memory_order_release);
	}
	return true;
}

static inline uint32_t
rs_tx_free_bytes(const struct rs_tx *tx)
{
	return tx->ring_bytes - (tx->posted_bytes - atomic_load_explicit(&tx->done_bytes, memory_order_acquire));
}

/**
 * @return true if there are a free work request and free space in the send buffer: all that a write outside the chunks
 * needs.
 */
static inline bool
rs_tx_has_room(const struct rs_tx *tx)
{
	return tx->posted - atomic_load_explicit(&tx->done, memory_order_acquire) < tx->max_wr &&
	       rs_tx_free_bytes(tx) >= RS_SEND_LOW_BYTES;
}

/** The sender: data may be sent now. */
static inline bool
rs_tx_ready(struct rs_tx *tx)
{
	return rs_tx_has_room(tx) && tx->seq != atomic_load_explicit(&tx->seq_limit, memory_order_acquire) &&
	       rs_tx_chunk(tx);
}

/** @return how many of @p want bytes fit one message now. */
static inline uint32_t
rs_tx_fit(const struct rs_tx *tx, uint32_t want)
{
	uint32_t room = rs_tx_free_bytes(tx);

	if (want > room)
		want = room;
	return want > tx->chunk.length ? tx->chunk.length : want;
}

/**
 * Account for a work request of @p bytes.
 * @param signal  Set to true if it must request a completion.
 * @return its id
 */
static inline uint64_t
rs_tx_post(struct rs_tx *tx, uint32_t bytes, bool *signal)
{
	tx->posted++;
	tx->posted_bytes += bytes;
	tx->at += bytes;
	if (tx->at >= tx->ring_bytes)
		tx->at -= tx->ring_bytes;
	*signal = tx->posted - tx->signaled >= RS_SIGNAL_WRS ||
		  tx->posted_bytes - tx->signaled_bytes >= tx->ring_bytes / RS_SIGNAL_PARTS;
	if (*signal) {
		tx->signaled = tx->posted;
		tx->signaled_bytes = tx->posted_bytes;
	}
	return (uint64_t)(tx->posted & RS_WR_COUNT_MASK) << 32 | tx->posted_bytes;
}

/** The sender: a message of @p bytes is sent to the chunk. */
static inline void
rs_tx_use_chunk(struct rs_tx *tx, uint32_t bytes)
{
	UROCE_ASSERT(bytes <= tx->chunk.length);
	tx->chunk.addr += bytes;
	tx->chunk.length -= bytes;
	tx->seq++;
}

/** The poller: the work request with this id and all before it are complete. */
static inline void
rs_tx_done(struct rs_tx *tx, uint64_t wr_id)
{
	uint32_t done = atomic_load_explicit(&tx->done, memory_order_relaxed);

	done += ((uint32_t)(wr_id >> 32) - done) & RS_WR_COUNT_MASK;
	atomic_store_explicit(&tx->done, done, memory_order_release);
	atomic_store_explicit(&tx->done_bytes, (uint32_t)wr_id, memory_order_release);
}

/* ---- Receiving ---- */
static inline uint32_t
rs_rx_next(const struct rs_rx *rx, uint32_t slot)
{
	return slot + 1 == rx->nb_slots ? 0 : slot + 1;
}

static inline bool
rs_rx_has_data(const struct rs_rx *rx)
{
	return atomic_load_explicit(&rx->head, memory_order_relaxed) !=
	       atomic_load_explicit(&rx->tail, memory_order_acquire);
}

/**
 * The poller: a data message arrived.
 * @return 0; EPROTO: more than was granted.
 */
static inline int
rs_rx_arrived(struct rs_rx *rx, uint32_t bytes)
{
	uint32_t tail = atomic_load_explicit(&rx->tail, memory_order_relaxed), next = rs_rx_next(rx, tail);

	if (bytes > atomic_load_explicit(&rx->granted_bytes, memory_order_relaxed) - rx->arrived_bytes ||
	    next == atomic_load_explicit(&rx->head, memory_order_acquire))
		return EPROTO;
	rx->arrived_bytes += bytes;
	rx->slots[tail] = bytes;
	atomic_store_explicit(&rx->tail, next, memory_order_release);
	return 0;
}

/** The receiver: the message at the head was read to the end. */
static inline void
rs_rx_pop(struct rs_rx *rx)
{
	uint32_t head = atomic_load_explicit(&rx->head, memory_order_relaxed);

	UROCE_ASSERT(rs_rx_has_data(rx));
	atomic_store_explicit(&rx->head, rs_rx_next(rx, head), memory_order_release);
	atomic_store_explicit(&rx->seq, (uint16_t)(atomic_load_explicit(&rx->seq, memory_order_relaxed) + 1),
			      memory_order_release);
}

/** The receiver: @p bytes were read. */
static inline void
rs_rx_read(struct rs_rx *rx, uint32_t bytes)
{
	rx->at += bytes;
	if (rx->at >= rx->ring_bytes)
		rx->at -= rx->ring_bytes;
	atomic_store_explicit(&rx->read_bytes, atomic_load_explicit(&rx->read_bytes, memory_order_relaxed) + bytes,
			      memory_order_release);
}

static inline bool
rs_rx_has_half(const struct rs_rx *rx)
{
	uint32_t out = atomic_load_explicit(&rx->granted_bytes, memory_order_relaxed) -
		       atomic_load_explicit(&rx->read_bytes, memory_order_acquire);

	return rx->ring_bytes - out >= rx->ring_bytes / 2;
}

/** @return true if half of the buffer is free or half of the messages are read, so that a grant should be sent. */
static inline bool
rs_rx_grant_due(const struct rs_rx *rx)
{
	uint16_t since = (uint16_t)(atomic_load_explicit(&rx->seq, memory_order_acquire) -
				    atomic_load_explicit(&rx->granted_seq, memory_order_relaxed));

	return since >= rx->queue / 2 || rs_rx_has_half(rx);
}

/**
 * The poller: grant.
 * @param half  Set to the offset of the granted chunk; -1: only messages are granted.
 * @return the operand of RS_OP_SGL.
 */
static inline uint32_t
rs_rx_grant(struct rs_rx *rx, int64_t *half)
{
	uint16_t seq = atomic_load_explicit(&rx->seq, memory_order_acquire);

	*half = -1;
	if (rs_rx_has_half(rx)) {
		*half = rx->grant_at;
		rx->grant_at = rx->grant_at ? 0 : rx->ring_bytes / 2;
		atomic_store_explicit(&rx->granted_bytes,
				      atomic_load_explicit(&rx->granted_bytes, memory_order_relaxed) + rx->ring_bytes / 2,
				      memory_order_relaxed);
	}
	atomic_store_explicit(&rx->granted_seq, seq, memory_order_relaxed);
	return (uint16_t)(seq + rx->queue);
}

#endif /* UROCE_RS_FLOW_H */
