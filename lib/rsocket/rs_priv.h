/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Inside rsockets: what their files call of each other. The formats are in rs_wire.h, the arithmetic in rs_flow.h.
 *
 * An rsocket is a struct rsocket, of which struct rs_stream and struct rs_dgram are kinds, found by its number in a
 * table (rs_table.c). The number is a descriptor that the kernel gave out, so that it is nobody else's. Above verbs
 * and rdma_cm an rsocket is an ordinary program: it does not talk to the daemon itself.
 *
 * Threads. A program's threads: one may send, one receive and any number poll the same rsocket at once. They
 * progress the connection themselves, by taking completions under the rsocket's lock; who has to wait spins a
 * little, then arms the completion queue and sleeps in poll() on its channel and on a descriptor of the thread's
 * own (rs_wait.c), by which whoever changes something wakes it. One thread of the library's (rs_svc.c) has the
 * event channel that all rsockets share, keepalives, and the UDP sockets of datagram rsockets.
 *
 * Locks, in the order in which they are taken: rs_stream's slock or rlock (a call to send or to receive); the
 * service's; accept_lock (rs_accept.c); the table's (rs_table.c); the rsocket's lock; those of rdma_cm and verbs. Who
 * isn't a call to send only tries slock, and does so under the rsocket's lock.
 *
 * Functions return 0 or an errno value unless they say otherwise; those that move data return bytes or a negative
 * one.
 */
#ifndef UROCE_RS_PRIV_H
#define UROCE_RS_PRIV_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/container_of.h"
#include "rsocket/rs_flow.h"
#include "rsocket/rs_wire.h"

#define RS_EXPORT __attribute__((visibility("default")))

enum {
	RS_QUEUE_MIN = 16,          /**< work requests per queue */
	RS_QUEUE_MAX = 0xfffe,
	RS_BUFFER_MIN = 2 * RS_SEND_LOW_BYTES,
	RS_BUFFER_MAX = 1 << 29,    /**< a message's length has 29 bits */
	RS_CTRL_WRS = 4,            /**< of the send queue, beside data */
	RS_TRANSFER_FIRST = 2048,   /**< first transfer of a call: it is on the wire while the rest is copied */
	RS_TRANSFER_MAX = 65536,
	RS_RESOLVE_MS = 1000,       /**< the first try; every further one twice as long */
	RS_RESOLVE_TRIES = 3,
	RS_BACKLOG_MIN = 8,
	RS_BACKLOG_MAX = 4096,
	RS_GATHER_FROM = 16,        /**< work requests in flight from which on small data is gathered */
	RS_GATHER_SMALL = 1024,     /**< larger data is sent as it is */
	RS_GATHER_BYTES = 4096,     /**< so much is sent at once */
	RS_GATHER_US = 100,         /**< the longest that it is kept for more */
	RS_CLOSE_MS = 10000,        /**< rshutdown() and rclose(): for what was sent to arrive */
	RS_POLL_BATCH = 16,
};

enum rs_state {
	RS_NEW,
	RS_LISTENING,
	RS_RESOLVING_ADDR,
	RS_RESOLVING_ROUTE,
	RS_CONNECTING,
	RS_ACCEPTING,
	RS_CONNECTED,
	RS_DISCONNECTED, /**< by the peer, or by rshutdown() */
	RS_FAILED,       /**< rsocket.err says why */
};

/** What a waiting thread is interested in, and what happened. */
enum { RS_EV_IN = 1, RS_EV_OUT = 2, RS_EV_ALL = 3 };

struct rs_waiter {
	struct rs_waiter *next;
	int wake_fd;
	int events;
};

/** Defaults, then what rsetsockopt() said; inherited by accepted connections. */
struct rs_sizes {
	uint32_t send_bytes, recv_bytes;
	uint32_t sq, rq, inline_bytes, iomaps;
};

/** Who gets an id's events: the id's context. Called by the service's thread. */
struct rs_cm_user {
	/** @return true: call @c gone when the event is acknowledged */
	bool (*event)(struct rs_cm_user *u, struct rdma_cm_event *ev);
	void (*gone)(struct rs_cm_user *u);
};

struct rsocket;

struct rs_ops {
	int (*bind)(struct rsocket *rs, const struct sockaddr *addr, socklen_t len);
	int (*connect)(struct rsocket *rs, const struct sockaddr *addr, socklen_t len);
	int (*shutdown)(struct rsocket *rs, int how);
	void (*close)(struct rsocket *rs);
	ssize_t (*send)(struct rsocket *rs, const struct iovec *iov, int n, int flags, const struct sockaddr *to,
			socklen_t tolen);
	ssize_t (*recv)(struct rsocket *rs, const struct iovec *iov, int n, int flags, struct sockaddr *from,
			socklen_t *fromlen);
	int (*name)(struct rsocket *rs, bool peer, struct sockaddr *addr, socklen_t *len);
	/** Apply a socket option before it is stored. NULL: nothing to do */
	int (*set_option)(struct rsocket *rs, int level, int name, const void *value, socklen_t len);
	/** Take completions. Under the lock. @return RS_EV_*: what changed */
	int (*progress)(struct rsocket *rs);
	/** The program is going to wait: send what was gathered. Under the lock. NULL: nothing is kept */
	void (*idle)(struct rsocket *rs);
	/** Have the next completion make wait_fd readable. Under the lock. */
	void (*arm)(struct rsocket *rs);
	/** wait_fd is readable. Under the lock. */
	void (*fired)(struct rsocket *rs);
	/** @return POLL*. Under the lock. */
	short (*revents)(struct rsocket *rs, short events);
};

struct rsocket {
	const struct rs_ops *ops;
	int fd;                    /**< its number */
	int type, domain;
	bool foreign;              /**< of the process that this one was forked from */
	_Atomic int status_flags;  /**< O_NONBLOCK */
	pthread_mutex_t lock;
	struct rs_waiter *waiters;
	int wait_fd;               /**< readable when completions came, once armed; -1: none yet */
	_Atomic int state;         /**< enum rs_state */
	int err;                   /**< until SO_ERROR asks for it */
	struct rs_sizes sizes;
	/* What rsetsockopt() was told. */
	int reuse_addr, oob_inline, no_delay, v6only, tos, linger_on, linger_s;
	int keepalive_on, keepalive_s;
};

struct rs_ctrl_queue {
	uint32_t posted, done;
};

/** A completion queue with a channel (rs_cq.c). */
struct rs_cq {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	unsigned int events; /**< read and not acknowledged */
	bool armed;
};

/** A mapping of ours (rs_iomap.c). */
struct rs_mapping {
	struct rs_mapping *next;
	struct ibv_mr *mr;
	uint64_t offset;
	int32_t index;     /**< in the peer's table; -1: for ourselves */
	bool told;         /**< the peer has it */
};

struct rs_stream {
	struct rsocket rs;
	struct rs_cm_user cm;
	struct rdma_cm_id *id;
	struct sockaddr_storage to;        /**< whom rconnect() named; the id's copy may change meanwhile */
	uint8_t tries;                     /**< to resolve */
	_Atomic bool rd_open, wr_open;
	bool wr_shut;                      /**< by rshutdown() */
	bool was_connected;
	/* rs_ep.c */
	struct rs_cq cq;
	struct ibv_qp *qp;                 /**< the id's */
	uint8_t *memory;                   /**< receive buffer, list of chunks, table of mappings; send buffer */
	size_t recv_region, memory_bytes;  /**< what the peer may write to comes first */
	struct ibv_mr *recv_mr, *send_mr;
	uint8_t *recv_buf, *send_buf;
	volatile struct rs_sge *list;      /**< the peer writes it */
	volatile struct rs_iomap *table;
	uint32_t list_at;                  /**< where the peer writes next */
	/* rs_stream.c, rs_data.c */
	pthread_mutex_t slock, rlock;
	atomic_bool passed_over;           /**< a poller couldn't look because a thread was sending */
	struct rs_tx tx;
	_Atomic uint32_t gathered;         /**< bytes in the send buffer that aren't posted yet. Under slock. */
	bool in_gathering;                 /**< on the service's list of those. Under slock, and the service's lock to set */
	uint8_t idle_turns;                /**< of the service, without a byte. Under the service's lock. */
	struct rs_stream *gathering_next;
	struct rs_rx rx;
	struct rs_ctrl_queue ctrl;
	struct rs_hello peer;
	uint32_t peer_list_at;             /**< where in its list we write next */
	/* rs_iomap.c; under map_lock, taken inside of slock */
	pthread_mutex_t map_lock;
	struct rs_mapping *mappings;
	_Atomic int untold;                /**< mappings that the peer is still to be told of */
	struct rs_iomap *peer_maps;        /**< copies of what the peer wrote to the table. Under the lock. */
	/* rs_accept.c; under accept_lock */
	struct rs_stream *listener;
	struct rs_stream *pending, *ready, **ready_end; /**< a listener's: connections that come, and that may be accepted */
	struct rs_stream *next;
	int backlog, nb_children;
	_Atomic int nb_ready;
	/* rs_svc.c */
	struct rs_stream *alive_next;
	uint64_t alive_at_us;
};

static inline struct rs_stream *
to_stream(struct rsocket *rs)
{
	return container_of(rs, struct rs_stream, rs);
}
static inline enum rs_state
rs_state(struct rsocket *rs)
{
	return (enum rs_state)atomic_load_explicit(&rs->state, memory_order_acquire);
}
static inline bool
rs_is_opening(enum rs_state s)
{
	return s >= RS_RESOLVING_ADDR && s <= RS_ACCEPTING;
}
static inline bool
rs_nonblocking(struct rsocket *rs, int flags)
{
	return (atomic_load_explicit(&rs->status_flags, memory_order_relaxed) & O_NONBLOCK) || (flags & MSG_DONTWAIT);
}

/* ---- rs_conf.c ---- */
extern uint32_t rs_polling_us;
/** Defaults: built in, then of /etc/rdma/rsocket. */
const struct rs_sizes *rs_conf_sizes(void);

/* ---- rs_table.c ---- */
/** @return the rsocket with that number, NULL: none */
struct rsocket *rs_find(int fd);
/** The same, also of a process that this one was forked from. */
struct rsocket *rs_find_any(int fd);
/** Set up what all kinds share, with a number, and enter it. */
int rs_enter(struct rsocket *rs, const struct rs_ops *ops, int type, int domain);
/** The reverse, without freeing @p rs. */
void rs_leave(struct rsocket *rs);
/** Its number alone. */
void rs_table_remove(int fd);
/** @return -1 with errno set, or 0 */
int rs_result(int err);
/** The same of a call that may have waited: success leaves errno as it was before. */
int rs_waited(int err, int errno_before);
/** Call @p f with every rsocket; none leaves meanwhile. It may take the rsocket's lock, but end none. */
void rs_each(void (*f)(struct rsocket *rs));
/** In the child. */
void rs_table_fork_child(void);

/* ---- rs_wait.c ---- */
uint64_t rs_now_us(void);
/** Descriptor of this thread that others wake it by; -1: none, errno is set. */
int rs_wake_fd(void);
void rs_wake_drain(int fd);
/** Under the lock. */
void rs_waiter_add(struct rsocket *rs, struct rs_waiter *w, int events);
void rs_waiter_remove(struct rsocket *rs, struct rs_waiter *w);
/** Wake the threads that wait for any of @p events. Under the lock. */
void rs_kick(struct rsocket *rs, int events);
/**
 * Wait until @p test holds, which is called under the lock.
 * @param flags  MSG_DONTWAIT: look once
 * @param timeout_ms  -1: none
 * @return 0, EAGAIN, ETIMEDOUT, EINTR
 */
int rs_wait(struct rsocket *rs, bool (*test)(struct rsocket *rs), int events, bool once, int timeout_ms);

/* ---- rs_svc.c ---- */
/** The channel of all ids; starts the thread. @return NULL with errno set */
struct rdma_event_channel *rs_svc_channel(void);
/** A descriptor that the thread looks after. */
struct rs_watch {
	int fd;
	void (*readable)(struct rs_watch *w); /**< under the service's lock */
	struct rs_watch *next;
};
int rs_svc_watch(struct rs_watch *w);
/** When this returns, readable() is not running and isn't called any more. */
void rs_svc_unwatch(struct rs_watch *w);
/** Send something every @p seconds; 0: no more, also when this returns. */
void rs_svc_keepalive(struct rs_stream *s, int seconds);
/** Have the thread send what the stream gathered if nobody else does. Under slock. */
void rs_svc_gathering(struct rs_stream *s);
/** The stream is being destroyed. */
void rs_svc_forget(struct rs_stream *s);
/** In the child. */
void rs_svc_fork_child(void);

/* ---- rs_cq.c ---- */
/** @return 0 or an errno value; rs_cq_destroy() is to be called either way. */
int rs_cq_create(struct rs_cq *c, struct ibv_context *verbs, uint32_t entries);
void rs_cq_destroy(struct rs_cq *c);
/** Have the next completion raise an event. */
void rs_cq_arm(struct rs_cq *c);
/** Read an event. @return 0; EAGAIN if there is none; another errno value if none will come any more */
int rs_cq_fired(struct rs_cq *c);

/* ---- rs_ep.c: QP, queue and buffers of a stream whose device is known ---- */
int rs_ep_create(struct rs_stream *s);
/** When the id is gone. */
void rs_ep_destroy(struct rs_stream *s);
int rs_ep_post_recvs(struct rs_stream *s, uint32_t n);
/** What the peer is told of us. */
void rs_ep_hello(struct rs_stream *s, struct rs_hello *out);
/** What the peer told. */
int rs_ep_meet(struct rs_stream *s, const struct rs_hello *peer);

/* ---- rs_alloc.c ---- */
/** @return a stream without an id */
struct rs_stream *rs_stream_alloc(const struct rs_ops *ops, const struct rs_cm_user *cm, int domain, int *err);
/** Free the stream and everything it has; the peer is disconnected. */
void rs_stream_destroy(struct rs_stream *s);

/* ---- rs_state.c ---- */
/** Under the lock. */
void rs_set_state(struct rs_stream *s, enum rs_state state);
/** The connection can't go on: it ends with @p err. Under the lock. */
void rs_fail(struct rs_stream *s, int err);
/** @return why it failed, and forget it */
int rs_take_error(struct rsocket *rs);
/** @return 0: it is, or was, connected; ENOTCONN, EAGAIN, or why not */
int rs_ready(struct rs_stream *s, bool once);

/* ---- rs_ctrl.c ---- */
/** Whether a message that isn't data may be posted. Under the lock. */
bool rs_ctrl_room(const struct rs_stream *s);
/** Post one. Under the lock. @param sge  What is written to @p addr first, inline; NULL: nothing */
int rs_ctrl_post(struct rs_stream *s, uint32_t msg, struct ibv_sge *sge, uint64_t addr);
/** Grant the peer chunks and messages if enough have become free. Under the lock. */
void rs_grant(struct rs_stream *s);
/** An empty WRITE: a peer that is gone doesn't acknowledge it. */
void rs_ctrl_keepalive(struct rs_stream *s);

/* ---- rs_conn.c ---- */
struct rs_stream *rs_stream_new(int domain, int *err);

/* ---- rs_accept.c ---- */
int rs_listen(struct rsocket *rs, int backlog);
struct rsocket *rs_accept(struct rsocket *rs, int *err);
/* Called by the service's thread. */
void rs_accept_request(struct rs_stream *listener, struct rdma_cm_event *ev);
/** @p child is established. */
void rs_accept_ready(struct rs_stream *child);
/**
 * @p child failed before it was established. @return true if it is the caller's to destroy; false also for any other
 * stream
 */
bool rs_accept_failed(struct rs_stream *child);
/** The listener is being closed: connections that were not accepted are destroyed. */
void rs_accept_end(struct rs_stream *listener);
/** In the child. */
void rs_accept_fork_child(void);

/* ---- rs_stream.c ---- */
int rs_stream_progress(struct rsocket *rs);
void rs_stream_arm(struct rsocket *rs);
void rs_stream_fired(struct rsocket *rs);
short rs_stream_revents(struct rsocket *rs, short events);
int rs_stream_shutdown(struct rsocket *rs, int how);

/* ---- rs_tx.c ---- */
/** What is left of a program's vector. */
struct rs_cursor {
	const struct iovec *iov;
	int n;
	size_t off;
	size_t left;
};
/** @return 0 or EINVAL: that is no vector */
int rs_cursor_init(struct rs_cursor *c, const struct iovec *iov, int n);
/** Copy between @p mem and the vector, of which at least @p bytes are left. */
void rs_cursor_copy(struct rs_cursor *c, void *mem, uint32_t bytes, bool to_vector);
/**
 * Post an RDMA WRITE of the next @p bytes. Under slock, and only if rs_tx_has_room().
 * @param where  what to write to
 * @param msg    NULL: no immediate data; else a message, whose data goes to the current chunk
 */
int rs_post_write(struct rs_stream *s, struct rs_cursor *c, uint32_t bytes, const struct rs_sge *where,
		  const uint32_t *msg);
/** Send what is gathered. Under slock. */
int rs_flush(struct rs_stream *s);
/** The same for any thread; if another thread is sending, it is left to that thread. */
void rs_flush_any(struct rs_stream *s);
/** The same, under the lock. */
void rs_stream_idle(struct rsocket *rs);
/** Wait until @p test holds or nothing can be sent any more. Under slock. @return 0, EAGAIN, EPIPE, ECONNRESET, ... */
int rs_wait_to_send(struct rs_stream *s, bool (*test)(struct rsocket *rs), int flags);
/** A test for it: rs_tx_has_room(). */
bool rs_has_room(struct rsocket *rs);
/** Take slock to look at what is the sender's. @return false: a thread is sending, and wakes pollers when it has sent */
bool rs_trylock_sender(struct rs_stream *s);
/** A program's thread has sent: let slock go. Pollers that it kept from looking look again. */
void rs_unlock_sender(struct rs_stream *s);

/* ---- rs_data.c ---- */
ssize_t rs_stream_send(struct rsocket *rs, const struct iovec *iov, int n, int flags, const struct sockaddr *to,
		       socklen_t tolen);
ssize_t rs_stream_recv(struct rsocket *rs, const struct iovec *iov, int n, int flags, struct sockaddr *from,
		       socklen_t *fromlen);

/* ---- rs_iomap.c ---- */
/** Tell the peer of new mappings. Under slock. */
int rs_iomap_tell(struct rs_stream *s, int flags);
/** The peer wrote the mapping at @p index. Under the lock. */
void rs_iomap_told(struct rs_stream *s, uint32_t index);
void rs_iomap_free(struct rs_stream *s);

/* ---- rs_dgram.c ---- */
struct rsocket *rs_dgram_new(int domain, int *err);

#endif /* UROCE_RS_PRIV_H */
