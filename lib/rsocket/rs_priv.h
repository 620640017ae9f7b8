/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Internals of rsockets: the functions that their files share. The formats are in rs_wire.h, the arithmetic in
 * rs_flow.h.
 *
 * An rsocket is a struct rsocket, the base of struct rs_stream and struct rs_dgram. A table finds it by its number
 * (rs_table.c). The number is a file descriptor from the kernel, so that nothing else in the process has it. To verbs
 * and rdma_cm an rsocket is an ordinary program: it doesn't talk to the daemon itself.
 *
 * Threads. Of a program's threads one may send, one may receive and any number may poll the same rsocket at the same
 * time. They progress the connection themselves, by polling completions under the rsocket's lock. A thread that has to
 * wait spins a little, then arms the completion queue and sleeps in poll() on the queue's channel and on a descriptor
 * of its own (rs_wait.c), to which other threads write to wake it. One thread of the library (rs_svc.c) handles the
 * event channel that all rsockets share, keepalives, and the UDP sockets of datagram rsockets.
 *
 * Lock order: rs_stream's slock or rlock (held during a call to send or to receive); the service's; accept_lock
 * (rs_accept.c); the table's (rs_table.c); the rsocket's lock; those of rdma_cm and verbs. Code other than the calls to
 * send only tries to lock slock, and does so under the rsocket's lock.
 *
 * Functions return 0 or an errno value unless they say otherwise; functions that move data return a number of bytes or
 * a negative errno value.
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
	RS_CTRL_WRS = 4,            /**< work requests in the send queue for control messages */
	RS_TRANSFER_FIRST = 2048,   /**< first transfer of a call: it is sent while the rest is copied */
	RS_TRANSFER_MAX = 65536,
	RS_RESOLVE_MS = 1000,       /**< timeout of the first try; doubled for every further one */
	RS_RESOLVE_TRIES = 3,
	RS_BACKLOG_MIN = 8,
	RS_BACKLOG_MAX = 4096,
	RS_GATHER_FROM = 16,        /**< small data is gathered if so many work requests are in flight */
	RS_GATHER_SMALL = 1024,     /**< larger data isn't gathered */
	RS_GATHER_BYTES = 4096,     /**< gathered data is sent when it is this large */
	RS_GATHER_US = 100,         /**< and after this time at the latest */
	RS_CLOSE_MS = 10000,        /**< rshutdown() and rclose(): how long to wait for sent data to arrive */
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

/** Events that a thread waits for, and events that happened. */
enum { RS_EV_IN = 1, RS_EV_OUT = 2, RS_EV_ALL = 3 };

struct rs_waiter {
	struct rs_waiter *next;
	int wake_fd;
	int events;
};

/** Sizes: the defaults or what rsetsockopt() set; inherited by accepted connections. */
struct rs_sizes {
	uint32_t send_bytes, recv_bytes;
	uint32_t sq, rq, inline_bytes, iomaps;
};

/** Receiver of an id's events; the id's context points to it. Called by the service's thread. */
struct rs_cm_user {
	/** @return true: @c gone is to be called when the event is acknowledged */
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
	/**
	 * Poll completions. Under the lock.
	 * @return RS_EV_*: what changed
	 */
	int (*progress)(struct rsocket *rs);
	/** The program is going to wait: send the gathered data. Under the lock. NULL: this kind doesn't gather */
	void (*idle)(struct rsocket *rs);
	/** Make wait_fd readable on the next completion. Under the lock. */
	void (*arm)(struct rsocket *rs);
	/** wait_fd has become readable. Under the lock. */
	void (*fired)(struct rsocket *rs);
	/** @return POLL*. Under the lock. */
	short (*revents)(struct rsocket *rs, short events);
};

struct rsocket {
	const struct rs_ops *ops;
	int fd;                    /**< its number */
	int type, domain;
	bool foreign;              /**< created by the process that this one was forked from */
	_Atomic int status_flags;  /**< O_NONBLOCK */
	pthread_mutex_t lock;
	struct rs_waiter *waiters;
	int wait_fd;               /**< readable when completions came, once armed; -1: none yet */
	_Atomic int state;         /**< enum rs_state */
	int err;                   /**< kept until SO_ERROR reads it */
	struct rs_sizes sizes;
	/* Set by rsetsockopt(). */
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
	unsigned int events; /**< read and not yet acknowledged */
	bool armed;
};

/** A mapping of our memory (rs_iomap.c). */
struct rs_mapping {
	struct rs_mapping *next;
	struct ibv_mr *mr;
	uint64_t offset;
	int32_t index;     /**< in the peer's table; -1: not sent to the peer */
	bool told;         /**< the peer was told of it */
};

struct rs_stream {
	struct rsocket rs;
	struct rs_cm_user cm;
	struct rdma_cm_id *id;
	struct sockaddr_storage to;        /**< address given to rconnect(); the id's copy may change meanwhile */
	uint8_t tries;                     /**< tries to resolve it */
	_Atomic bool rd_open, wr_open;
	bool wr_shut;                      /**< by rshutdown() */
	bool was_connected;
	/* rs_ep.c */
	struct rs_cq cq;
	struct ibv_qp *qp;                 /**< the id's */
	uint8_t *memory;                   /**< receive buffer, list of chunks, table of mappings; send buffer */
	size_t recv_region, memory_bytes;  /**< the part that the peer may write to comes first */
	struct ibv_mr *recv_mr, *send_mr;
	uint8_t *recv_buf, *send_buf;
	volatile struct rs_sge *list;      /**< the peer writes it */
	volatile struct rs_iomap *table;
	uint32_t list_at;                  /**< index that the peer writes next */
	/* rs_stream.c, rs_data.c */
	pthread_mutex_t slock, rlock;
	atomic_bool passed_over;           /**< a poller couldn't check for room because a thread was sending */
	struct rs_tx tx;
	_Atomic uint32_t gathered;         /**< bytes in the send buffer that aren't posted yet. Under slock. */
	bool in_gathering;                 /**< on the service's list. Under slock; setting it needs the service's lock too */
	uint8_t idle_turns;                /**< turns of the service without gathered data. Under the service's lock. */
	struct rs_stream *gathering_next;
	struct rs_rx rx;
	struct rs_ctrl_queue ctrl;
	struct rs_hello peer;
	uint32_t peer_list_at;             /**< index in its list that we write next */
	/* rs_iomap.c; under map_lock, taken inside of slock */
	pthread_mutex_t map_lock;
	struct rs_mapping *mappings;
	_Atomic int untold;                /**< mappings that the peer is yet to be told of */
	struct rs_iomap *peer_maps;        /**< copies of what the peer wrote to the table. Under the lock. */
	/* rs_accept.c; under accept_lock */
	struct rs_stream *listener;
	struct rs_stream *pending, *ready, **ready_end; /**< a listener's: being set up, and ready to be accepted */
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
/** The built-in defaults, changed by the files in /etc/rdma/rsocket. */
const struct rs_sizes *rs_conf_sizes(void);

/* ---- rs_table.c ---- */
/** @return the rsocket with that number, NULL: none */
struct rsocket *rs_find(int fd);
/** As rs_find(), but also finds rsockets of the process that this one was forked from. */
struct rsocket *rs_find_any(int fd);
/** Set up the members that all kinds share, get a number, and enter the rsocket in the table. */
int rs_enter(struct rsocket *rs, const struct rs_ops *ops, int type, int domain);
/** Undo rs_enter(). Doesn't free @p rs. */
void rs_leave(struct rsocket *rs);
/**
 * Give it the lowest number that is free now. It keeps its number if none is free.
 * Only for an rsocket whose number the program doesn't know yet.
 */
void rs_renumber(struct rsocket *rs);
/** Remove only the number from the table. */
void rs_table_remove(int fd);
/** @return -1 with errno set, or 0 */
int rs_result(int err);
/** As rs_result(), for a call that may have waited: success leaves errno as it was before. */
int rs_waited(int err, int errno_before);
/**
 * Call @p f with every rsocket; none leaves the table meanwhile. @p f may lock the rsocket, but must not destroy it.
 */
void rs_each(void (*f)(struct rsocket *rs));
/** Called in the child after fork(). */
void rs_table_fork_child(void);

/* ---- rs_wait.c ---- */
uint64_t rs_now_us(void);
/** @return this thread's descriptor, which other threads write to wake it; -1 with errno set */
int rs_wake_fd(void);
void rs_wake_drain(int fd);
/** Under the lock. */
void rs_waiter_add(struct rsocket *rs, struct rs_waiter *w, int events);
void rs_waiter_remove(struct rsocket *rs, struct rs_waiter *w);
/** Wake the threads that wait for any of @p events. Under the lock. */
void rs_kick(struct rsocket *rs, int events);
/**
 * Wait until @p test holds; it is called under the lock.
 * @param once  Test only once, don't wait.
 * @param timeout_ms  -1: no timeout
 * @return 0, EAGAIN, ETIMEDOUT, EINTR
 */
int rs_wait(struct rsocket *rs, bool (*test)(struct rsocket *rs), int events, bool once, int timeout_ms);

/* ---- rs_svc.c ---- */
/**
 * Start the thread if it isn't running.
 * @return the channel of all ids, or NULL with errno set
 */
struct rdma_event_channel *rs_svc_channel(void);
/** A descriptor that the thread polls. */
struct rs_watch {
	int fd;
	void (*readable)(struct rs_watch *w); /**< under the service's lock */
	struct rs_watch *next;
};
int rs_svc_watch(struct rs_watch *w);
/** When this returns, readable() isn't running and won't be called again. */
void rs_svc_unwatch(struct rs_watch *w);
/** Send a keepalive every @p seconds; 0: stop. When this returns none is being sent. */
void rs_svc_keepalive(struct rs_stream *s, int seconds);
/** Let the thread send what the stream gathered if no other thread does. Under slock. */
void rs_svc_gathering(struct rs_stream *s);
/** The stream is being destroyed: remove it from all lists. */
void rs_svc_forget(struct rs_stream *s);
/** Called in the child after fork(). */
void rs_svc_fork_child(void);

/* ---- rs_cq.c ---- */
/** @return 0 or an errno value; rs_cq_destroy() must be called in both cases. */
int rs_cq_create(struct rs_cq *c, struct ibv_context *verbs, uint32_t entries);
void rs_cq_destroy(struct rs_cq *c);
/** Request an event for the next completion. */
void rs_cq_arm(struct rs_cq *c);
/**
 * Read an event.
 * @return 0; EAGAIN if there is none; another errno value if there will be none any more
 */
int rs_cq_fired(struct rs_cq *c);

/* ---- rs_ep.c: QP, queue and buffers of a stream whose device is known ---- */
int rs_ep_create(struct rs_stream *s);
/** Call this after the id is destroyed. */
void rs_ep_destroy(struct rs_stream *s);
int rs_ep_post_recvs(struct rs_stream *s, uint32_t n);
/** Fill in what the peer is told about us. */
void rs_ep_hello(struct rs_stream *s, struct rs_hello *out);
/** Take over what the peer told us about itself. */
int rs_ep_meet(struct rs_stream *s, const struct rs_hello *peer);

/* ---- rs_alloc.c ---- */
/** @return a stream without an id */
struct rs_stream *rs_stream_alloc(const struct rs_ops *ops, const struct rs_cm_user *cm, int domain, int *err);
/** Free the stream and everything it has; the peer is disconnected. */
void rs_stream_destroy(struct rs_stream *s);

/* ---- rs_state.c ---- */
/** Under the lock. */
void rs_set_state(struct rs_stream *s, enum rs_state state);
/** End the connection with @p err. Under the lock. */
void rs_fail(struct rs_stream *s, int err);
/**
 * Clear the error.
 * @return the errno value that the connection failed with
 */
int rs_take_error(struct rsocket *rs);
/** @return 0: it is, or was, connected; ENOTCONN, EAGAIN, or the errno value that it failed with */
int rs_ready(struct rs_stream *s, bool once);

/* ---- rs_ctrl.c ---- */
/** @return true if a control message may be posted. Under the lock. */
bool rs_ctrl_room(const struct rs_stream *s);
/**
 * Post a control message. Under the lock.
 * @param sge  Written to @p addr first, inline; NULL: nothing
 */
int rs_ctrl_post(struct rs_stream *s, uint32_t msg, struct ibv_sge *sge, uint64_t addr);
/** Grant the peer chunks and messages if enough are free. Under the lock. */
void rs_grant(struct rs_stream *s);
/** Send an empty WRITE: if the peer is gone it isn't acknowledged. */
void rs_ctrl_keepalive(struct rs_stream *s);

/* ---- rs_conn.c ---- */
struct rs_stream *rs_stream_new(int domain, int *err);

/**
 * @return what sockets say where rdma_bind_addr() or rdma_listen() said @p err: EADDRNOTAVAIL is for an address that no device has, and each port that is
 * taken is EADDRINUSE.
 */
static inline int
rs_port_error(int err)
{
	return err == ENODEV ? EADDRNOTAVAIL : err == EADDRNOTAVAIL ? EADDRINUSE : err;
}

/* ---- rs_accept.c ---- */
int rs_listen(struct rsocket *rs, int backlog);
struct rsocket *rs_accept(struct rsocket *rs, int *err);
/* Handle a connection request. Called by the service's thread. */
void rs_accept_request(struct rs_stream *listener, struct rdma_cm_event *ev);
/** @p child is established. */
void rs_accept_ready(struct rs_stream *child);
/**
 * @p child failed before it was established.
 * @return true if the caller has to destroy it; false also for any other stream
 */
bool rs_accept_failed(struct rs_stream *child);
/** The listener is being closed: destroy the connections that were not accepted. */
void rs_accept_end(struct rs_stream *listener);
/** Called in the child after fork(). */
void rs_accept_fork_child(void);

/* ---- rs_stream.c ---- */
int rs_stream_progress(struct rsocket *rs);
void rs_stream_arm(struct rsocket *rs);
void rs_stream_fired(struct rsocket *rs);
short rs_stream_revents(struct rsocket *rs, short events);
int rs_stream_shutdown(struct rsocket *rs, int how);

/* ---- rs_tx.c ---- */
/** The rest of a program's vector. */
struct rs_cursor {
	const struct iovec *iov;
	int n;
	size_t off;
	size_t left;
};
/** @return 0, or EINVAL if the vector isn't valid */
int rs_cursor_init(struct rs_cursor *c, const struct iovec *iov, int n);
/** Copy @p bytes between @p mem and the vector, which must have as many left. */
void rs_cursor_copy(struct rs_cursor *c, void *mem, uint32_t bytes, bool to_vector);
/**
 * Post an RDMA WRITE of the next @p bytes. Under slock, and only if rs_tx_has_room().
 * @param where  Memory to write to.
 * @param msg  NULL: no immediate data; else a message, whose data goes to the current chunk.
 */
int rs_post_write(struct rs_stream *s, struct rs_cursor *c, uint32_t bytes, const struct rs_sge *where,
		  const uint32_t *msg);
/** Send the gathered data. Under slock. */
int rs_flush(struct rs_stream *s);
/** As rs_flush(), for any thread; if another thread is sending, that thread will do it. */
void rs_flush_any(struct rs_stream *s);
/** As rs_flush_any(), under the lock. */
void rs_stream_idle(struct rsocket *rs);
/**
 * Wait until @p test holds or nothing can be sent any more. Under slock.
 * @return 0, EAGAIN, EPIPE, ECONNRESET, ...
 */
int rs_wait_to_send(struct rs_stream *s, bool (*test)(struct rsocket *rs), int flags);
/** A test for rs_wait_to_send(): rs_tx_has_room(). */
bool rs_has_room(struct rsocket *rs);
/**
 * Lock slock to read what belongs to the sender.
 * @return false: a thread is sending, and will wake pollers when it has sent
 */
bool rs_trylock_sender(struct rs_stream *s);
/** A program's thread has sent: unlock slock. Pollers that couldn't check meanwhile check again. */
void rs_unlock_sender(struct rs_stream *s);

/* ---- rs_data.c ---- */
ssize_t rs_stream_send(struct rsocket *rs, const struct iovec *iov, int n, int flags, const struct sockaddr *to,
		       socklen_t tolen);
ssize_t rs_stream_recv(struct rsocket *rs, const struct iovec *iov, int n, int flags, struct sockaddr *from,
		       socklen_t *fromlen);

/* ---- rs_iomap.c ---- */
/** Tell the peer about new mappings. Under slock. */
int rs_iomap_tell(struct rs_stream *s, int flags);
/** The peer wrote the mapping at @p index. Under the lock. */
void rs_iomap_told(struct rs_stream *s, uint32_t index);
void rs_iomap_free(struct rs_stream *s);

/* ---- rs_dgram.c ---- */
struct rsocket *rs_dgram_new(int domain, int *err);

#endif /* UROCE_RS_PRIV_H */
