/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a stream: changing it, and waiting until it is connected. */
#include "rsocket/rs_priv.h"

void
rs_set_state(struct rs_stream *s, enum rs_state state)
{
	atomic_store_explicit(&s->rs.state, state, memory_order_release);
	rs_kick(&s->rs, RS_EV_ALL);
}

void
rs_fail(struct rs_stream *s, int err)
{
	enum rs_state was = rs_state(&s->rs);

	if (was < RS_RESOLVING_ADDR || was > RS_CONNECTED)
		return;
	s->rs.err = err;
	atomic_store(&s->rd_open, false);
	atomic_store(&s->wr_open, false);
	rs_set_state(s, RS_FAILED);
	/* Tell the peer that the connection has ended. */
	if (was == RS_CONNECTED)
		rdma_disconnect(s->id);
}

static bool
is_settled(struct rsocket *rs)
{
	return !rs_is_opening(rs_state(rs));
}

int
rs_take_error(struct rsocket *rs)
{
	int err;

	pthread_mutex_lock(&rs->lock);
	err = rs->err;
	rs->err = 0;
	pthread_mutex_unlock(&rs->lock);
	return err;
}

int
rs_ready(struct rs_stream *s, bool once)
{
	int err;

	if (rs_is_opening(rs_state(&s->rs))) {
		err = rs_wait(&s->rs, is_settled, RS_EV_ALL, once, -1);
		if (err)
			return err;
	}
	switch (rs_state(&s->rs)) {
	case RS_CONNECTED:
	case RS_DISCONNECTED:
		return 0;
	case RS_FAILED:
		/* A stream that was connected may have data left to read. */
		if (s->was_connected)
			return 0;
		err = rs_take_error(&s->rs);
		return err ? err : ENOTCONN;
	default:
		return ENOTCONN;
	}
}
