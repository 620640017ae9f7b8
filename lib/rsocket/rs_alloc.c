/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating and destroying streams. */
#include "rsocket/rs_priv.h"

struct rs_stream *
rs_stream_alloc(const struct rs_ops *ops, const struct rs_cm_user *cm, int domain, int *err)
{
	struct rs_stream *s = calloc(1, sizeof(*s));

	*err = s ? rs_enter(&s->rs, ops, SOCK_STREAM, domain) : ENOMEM;
	if (*err) {
		free(s);
		return NULL;
	}
	s->cm = *cm;
	s->ready_end = &s->ready;
	pthread_mutex_init(&s->slock, NULL);
	pthread_mutex_init(&s->rlock, NULL);
	pthread_mutex_init(&s->map_lock, NULL);
	return s;
}

void
rs_stream_destroy(struct rs_stream *s)
{
	rs_svc_keepalive(s, 0);
	rs_svc_forget(s);
	/* An event that still comes finds a failed stream and does nothing. */
	pthread_mutex_lock(&s->rs.lock);
	atomic_store(&s->rs.state, RS_FAILED);
	pthread_mutex_unlock(&s->rs.lock);
	/*
	 * The id is destroyed before its QP, because librdmacm modifies the QP when it reads an event. When this
	 * returns, no event of the id is in use.
	 */
	if (s->id)
		rdma_destroy_id(s->id);
	rs_ep_destroy(s);
	rs_leave(&s->rs);
	pthread_mutex_destroy(&s->slock);
	pthread_mutex_destroy(&s->rlock);
	pthread_mutex_destroy(&s->map_lock);
	free(s);
}
