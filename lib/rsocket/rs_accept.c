/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listeners. A connection request is accepted at once; raccept() returns the connection once it is established. Until
 * then it is on its listener's list of pending connections: the code that removes it from there owns it.
 */
#include "rsocket/rs_priv.h"

static pthread_mutex_t accept_lock = PTHREAD_MUTEX_INITIALIZER;

/** Under accept_lock. */
static void
unlink_pending(struct rs_stream *child)
{
	struct rs_stream **p = &child->listener->pending;

	while (*p != child)
		p = &(*p)->next;
	*p = child->next;
	child->next = NULL;
}

void
rs_accept_ready(struct rs_stream *child)
{
	struct rs_stream *listener;

	pthread_mutex_lock(&accept_lock);
	listener = child->listener;
	if (listener) {
		unlink_pending(child);
		*listener->ready_end = child;
		listener->ready_end = &child->next;
		atomic_fetch_add(&listener->nb_ready, 1);
		pthread_mutex_lock(&listener->rs.lock);
		rs_kick(&listener->rs, RS_EV_IN);
		pthread_mutex_unlock(&listener->rs.lock);
	}
	pthread_mutex_unlock(&accept_lock);
}

bool
rs_accept_failed(struct rs_stream *child)
{
	struct rs_stream *listener;

	pthread_mutex_lock(&accept_lock);
	listener = child->listener;
	if (listener) {
		unlink_pending(child);
		listener->nb_children--;
		child->listener = NULL;
	}
	pthread_mutex_unlock(&accept_lock);
	return listener;
}

/** Set up the requested connection and accept it. */
static int
answer(struct rs_stream *child, const struct rdma_cm_event *ev)
{
	struct rdma_conn_param param = ev->param.conn;
	struct rs_hello peer, hello;
	struct rs_conn_data data;
	int err = rs_hello_get(param.private_data, param.private_data_len, &peer);

	if (!err)
		err = rs_ep_create(child);
	if (!err)
		err = rs_ep_meet(child, &peer);
	if (err)
		return err;
	rs_ep_hello(child, &hello);
	rs_hello_put(&hello, &data);
	param.private_data = &data;
	param.private_data_len = sizeof(data);
	atomic_store(&child->rs.state, RS_ACCEPTING);
	return rdma_accept(child->id, &param) ? errno : 0;
}

static bool
enter_pending(struct rs_stream *listener, struct rs_stream *child)
{
	bool room;

	pthread_mutex_lock(&accept_lock);
	room = listener->nb_children < listener->backlog;
	if (room) {
		listener->nb_children++;
		child->listener = listener;
		child->next = listener->pending;
		listener->pending = child;
	}
	pthread_mutex_unlock(&accept_lock);
	return room;
}

static void
refuse(struct rdma_cm_id *id)
{
	rdma_reject(id, NULL, 0);
	rdma_destroy_id(id);
}

void
rs_accept_request(struct rs_stream *listener, struct rdma_cm_event *ev)
{
	int err;
	struct rs_stream *child = rs_stream_alloc(listener->rs.ops, &listener->cm, listener->rs.domain, &err);

	if (!child) {
		refuse(ev->id);
		return;
	}
	child->rs.sizes = listener->rs.sizes;
	child->rs.tos = listener->rs.tos;
	child->rs.no_delay = listener->rs.no_delay;
	child->id = ev->id;
	ev->id->context = &child->cm;
	if (enter_pending(listener, child)) {
		/*
		 * This same thread reads the child's own events, and closing the listener waits until this event is
		 * acknowledged.
		 */
		if (!answer(child, ev) || !rs_accept_failed(child))
			return;
	}
	rdma_reject(child->id, NULL, 0);
	rs_stream_destroy(child);
}

int
rs_listen(struct rsocket *rs, int backlog)
{
	struct rs_stream *s = to_stream(rs);
	int err = 0;

	if (rs->type != SOCK_STREAM)
		return EOPNOTSUPP;
	if (backlog < RS_BACKLOG_MIN)
		backlog = RS_BACKLOG_MIN;
	if (backlog > RS_BACKLOG_MAX)
		backlog = RS_BACKLOG_MAX;
	pthread_mutex_lock(&rs->lock);
	if (rs_state(rs) == RS_NEW) {
		s->backlog = backlog;
		err = rdma_listen(s->id, backlog) ? rs_port_error(errno) : 0;
		if (!err)
			rs_set_state(s, RS_LISTENING);
	} else if (rs_state(rs) != RS_LISTENING) {
		err = EINVAL;
	}
	pthread_mutex_unlock(&rs->lock);
	return err;
}

static bool
has_ready(struct rsocket *rs)
{
	return atomic_load(&to_stream(rs)->nb_ready) > 0;
}

static struct rs_stream *
take_ready(struct rs_stream *listener)
{
	struct rs_stream *s;

	pthread_mutex_lock(&accept_lock);
	s = listener->ready;
	if (s) {
		listener->ready = s->next;
		if (!listener->ready)
			listener->ready_end = &listener->ready;
		atomic_fetch_sub(&listener->nb_ready, 1);
		listener->nb_children--;
		s->next = NULL;
		s->listener = NULL;
	}
	pthread_mutex_unlock(&accept_lock);
	return s;
}

struct rsocket *
rs_accept(struct rsocket *rs, int *err)
{
	struct rs_stream *s;

	*err = rs->type != SOCK_STREAM ? EOPNOTSUPP : rs_state(rs) != RS_LISTENING ? EINVAL : 0;
	while (!*err) {
		s = take_ready(to_stream(rs));
		if (s) {
			/*
			 * As accept() does. The connection has had a number since its request came, maybe a lower one
			 * than the descriptor under which librspreload keeps it. Up to rdma-core 62 its select() then
			 * reports the wrong one.
			 */
			rs_renumber(&s->rs);
			return &s->rs;
		}
		*err = rs_wait(rs, has_ready, RS_EV_IN, rs_nonblocking(rs, 0), -1);
	}
	return NULL;
}

void
rs_accept_end(struct rs_stream *listener)
{
	struct rs_stream *lists[2], *child;

	pthread_mutex_lock(&accept_lock);
	lists[0] = listener->pending;
	lists[1] = listener->ready;
	listener->pending = listener->ready = NULL;
	for (int i = 0; i < 2; i++)
		for (child = lists[i]; child; child = child->next)
			child->listener = NULL;
	pthread_mutex_unlock(&accept_lock);
	for (int i = 0; i < 2; i++) {
		while ((child = lists[i])) {
			lists[i] = child->next;
			rs_stream_destroy(child);
		}
	}
}

/* The lock may be held by a thread of the parent, which doesn't exist in the child. */
void
rs_accept_fork_child(void)
{
	pthread_mutex_init(&accept_lock, NULL);
}
