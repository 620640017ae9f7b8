/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams: binding, connecting, closing. The service's thread drives a connection from event to event; a program's
 * thread that waits for a connection waits for its state to change.
 */
#include "rsocket/rs_priv.h"

static struct rs_stream *
of_cm(struct rs_cm_user *u)
{
	return container_of(u, struct rs_stream, cm);
}

static bool
addr_ok(const struct sockaddr *addr, socklen_t len)
{
	return (addr->sa_family == AF_INET && len >= sizeof(struct sockaddr_in)) ||
	       (addr->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6));
}

static int
stream_bind(struct rsocket *rs, const struct sockaddr *addr, socklen_t len)
{
	struct rs_stream *s = to_stream(rs);
	int err;

	if (!addr_ok(addr, len))
		return EINVAL;
	pthread_mutex_lock(&rs->lock);
	if (rs_state(rs) != RS_NEW)
		err = EINVAL;
	else
		err = rdma_bind_addr(s->id, (struct sockaddr *)addr) ? errno : 0;
	pthread_mutex_unlock(&rs->lock);
	return rs_port_error(err);
}

/* ---- Connecting ---- */
/** Under the lock. */
static int
resolve(struct rs_stream *s, enum rs_state what)
{
	int ms = RS_RESOLVE_MS << s->tries++;
	int rc = what == RS_RESOLVING_ADDR ?
			 rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&s->to, ms) :
			 rdma_resolve_route(s->id, ms);

	if (rc)
		return errno;
	rs_set_state(s, what);
	return 0;
}

/** Send the connection request. Under the lock, once the route is resolved. */
static int
ask(struct rs_stream *s)
{
	struct rdma_conn_param param = {
		.private_data_len = sizeof(struct rs_conn_data),
		.flow_control = 1,
		.retry_count = 7,
		/* Retry without limit: a peer that is busy isn't dead. */
		.rnr_retry_count = 7,
	};
	struct rs_conn_data data;
	struct rs_hello hello;
	int err = rs_ep_create(s);

	if (err)
		return err;
	rs_ep_hello(s, &hello);
	rs_hello_put(&hello, &data);
	param.private_data = &data;
	if (rdma_connect(s->id, &param))
		return errno;
	rs_set_state(s, RS_CONNECTING);
	return 0;
}

/** Under the lock. */
static void
connected(struct rs_stream *s)
{
	atomic_store(&s->rd_open, true);
	atomic_store(&s->wr_open, true);
	s->was_connected = true;
	rs_set_state(s, RS_CONNECTED);
}

/** Handle the peer's reply. Under the lock. */
static int
meet_acceptor(struct rs_stream *s, const struct rdma_cm_event *ev)
{
	struct rs_hello peer;
	int err = rs_hello_get(ev->param.conn.private_data, ev->param.conn.private_data_len, &peer);

	if (!err)
		err = rs_ep_meet(s, &peer);
	if (!err)
		connected(s);
	return err;
}

static int
why(const struct rdma_cm_event *ev)
{
	if (ev->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	return ev->status < 0 ? -ev->status : EIO;
}

/**
 * Handle an event. Under the lock.
 * @return 0, or the errno value that the connection fails with
 */
static int
advance(struct rs_stream *s, struct rdma_cm_event *ev)
{
	enum rs_state state = rs_state(&s->rs);

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		s->tries = 0;
		return state == RS_RESOLVING_ADDR ? resolve(s, RS_RESOLVING_ROUTE) : 0;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return state == RS_RESOLVING_ROUTE ? ask(s) : 0;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		if (why(ev) == ETIMEDOUT && rs_is_opening(state) && s->tries < RS_RESOLVE_TRIES)
			return resolve(s, state);
		return why(ev);
	case RDMA_CM_EVENT_ESTABLISHED:
		if (state == RS_CONNECTING)
			return meet_acceptor(s, ev);
		if (state == RS_ACCEPTING)
			connected(s);
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		if (state != RS_CONNECTED)
			return rs_is_opening(state) ? ECONNRESET : 0;
		/* The program must still be able to read data that arrived before. */
		rs_stream_progress(&s->rs);
		if (rs_state(&s->rs) == RS_CONNECTED) {
			atomic_store(&s->rd_open, false);
			atomic_store(&s->wr_open, false);
			rs_set_state(s, RS_DISCONNECTED);
		}
		return 0;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return why(ev);
	default:
		return 0;
	}
}

static void
stream_gone(struct rs_cm_user *u)
{
	rs_stream_destroy(of_cm(u));
}

static bool
stream_event(struct rs_cm_user *u, struct rdma_cm_event *ev)
{
	struct rs_stream *s = of_cm(u);
	bool ready;
	int err;

	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		rs_accept_request(s, ev);
		return false;
	}
	pthread_mutex_lock(&s->rs.lock);
	ready = ev->event == RDMA_CM_EVENT_ESTABLISHED && rs_state(&s->rs) == RS_ACCEPTING;
	err = advance(s, ev);
	if (err)
		rs_fail(s, err);
	pthread_mutex_unlock(&s->rs.lock);
	if (ready)
		rs_accept_ready(s);
	return err && rs_accept_failed(s);
}

/* ---- The program's side ---- */
static int
stream_connect(struct rsocket *rs, const struct sockaddr *addr, socklen_t len)
{
	struct rs_stream *s = to_stream(rs);
	enum rs_state state;
	int err = 0;

	if (!addr_ok(addr, len))
		return EINVAL;
	pthread_mutex_lock(&rs->lock);
	state = rs_state(rs);
	if (state == RS_NEW) {
		memcpy(&s->to, addr,
		       addr->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
		s->tries = 0;
		err = resolve(s, RS_RESOLVING_ADDR);
		if (err)
			rs_fail(s, err);
	} else if (state == RS_LISTENING) {
		err = EOPNOTSUPP;
	}
	pthread_mutex_unlock(&rs->lock);
	if (err)
		return err;
	err = rs_ready(s, rs_nonblocking(rs, 0));
	return err == EAGAIN ? EINPROGRESS : err;
}

static void
stream_close(struct rsocket *rs)
{
	struct rs_stream *s = to_stream(rs);

	if (rs_state(rs) == RS_CONNECTED)
		rs_stream_shutdown(rs, SHUT_RDWR);
	if (rs_state(rs) == RS_LISTENING) {
		/* No more requests come; rdma_destroy_id() waits until one that is being handled is done. */
		rdma_destroy_id(s->id);
		s->id = NULL;
		rs_accept_end(s);
	}
	rs_stream_destroy(s);
}

static int
stream_name(struct rsocket *rs, bool peer, struct sockaddr *addr, socklen_t *len)
{
	struct rdma_addr *a = &to_stream(rs)->id->route.addr;
	struct sockaddr_storage sa = { 0 };
	socklen_t bytes;

	if (!len)
		return EFAULT;
	if (peer && rs_state(rs) <= RS_LISTENING)
		return ENOTCONN;
	memcpy(&sa, peer ? &a->dst_storage : &a->src_storage, sizeof(sa));
	if (!sa.ss_family)
		sa.ss_family = (sa_family_t)rs->domain;
	bytes = sa.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	if (addr && *len)
		memcpy(addr, &sa, *len < bytes ? *len : bytes);
	*len = bytes;
	return 0;
}

static const struct rs_ops stream_ops = {
	.bind = stream_bind,
	.connect = stream_connect,
	.shutdown = rs_stream_shutdown,
	.close = stream_close,
	.send = rs_stream_send,
	.recv = rs_stream_recv,
	.name = stream_name,
	.progress = rs_stream_progress,
	.idle = rs_stream_idle,
	.arm = rs_stream_arm,
	.fired = rs_stream_fired,
	.revents = rs_stream_revents,
};

static const struct rs_cm_user stream_cm = { .event = stream_event, .gone = stream_gone };

struct rs_stream *
rs_stream_new(int domain, int *err)
{
	struct rdma_event_channel *channel = rs_svc_channel();
	struct rs_stream *s;

	if (!channel) {
		*err = errno;
		return NULL;
	}
	s = rs_stream_alloc(&stream_ops, &stream_cm, domain, err);
	if (!s)
		return NULL;
	if (rdma_create_id(channel, &s->id, &s->cm, RDMA_PS_TCP)) {
		*err = errno;
		s->id = NULL;
		rs_stream_destroy(s);
		return NULL;
	}
	return s;
}
