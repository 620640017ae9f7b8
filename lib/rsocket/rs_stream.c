/* SPDX-License-Identifier: BSD-3-Clause */
/* Connected streams: completions, poll events, shutdown. */
#include <arpa/inet.h>

#include "rsocket/rs_priv.h"

/* ---- Completions. Under the lock ---- */
/** The peer has written the next entry of our list. */
static int
take_chunk(struct rs_stream *s)
{
	volatile struct rs_sge *place = &s->list[s->list_at];
	struct rs_sge chunk = { place->addr, place->key, place->length };

	s->list_at = (s->list_at + 1) % RS_CHUNKS;
	return chunk.length ? rs_tx_give(&s->tx, &chunk) : 0;
}

static int
peer_control(struct rs_stream *s, uint32_t what)
{
	if (what != RS_CTRL_DISCONNECT && what != RS_CTRL_SHUTDOWN)
		return 0;
	atomic_store(&s->rd_open, false);
	if (what == RS_CTRL_DISCONNECT || !atomic_load(&s->wr_open)) {
		atomic_store(&s->wr_open, false);
		rs_set_state(s, RS_DISCONNECTED);
	}
	return RS_EV_ALL;
}

/**
 * Handle a message.
 * @return RS_EV_*, or a negative errno value.
 */
static int
take_message(struct rs_stream *s, const struct ibv_wc *wc)
{
	uint32_t msg = ntohl(wc->imm_data);

	if (!(wc->wc_flags & IBV_WC_WITH_IMM))
		return -EPROTO;
	switch (rs_msg_op(msg)) {
	case RS_OP_DATA:
		return rs_rx_arrived(&s->rx, rs_msg_data(msg)) ? -EPROTO : RS_EV_IN;
	case RS_OP_SGL:
		if (wc->byte_len && take_chunk(s))
			return -EPROTO;
		rs_tx_limit(&s->tx, rs_msg_data(msg));
		return RS_EV_OUT;
	case RS_OP_IOMAP_SGL:
		rs_iomap_told(s, rs_msg_data(msg));
		return 0;
	case RS_OP_CTRL:
		return peer_control(s, rs_msg_data(msg));
	default:
		return -EPROTO;
	}
}

static int
take_completion(struct rs_stream *s, const struct ibv_wc *wc)
{
	if (wc->wr_id & RS_WR_CTRL)
		s->ctrl.done++;
	else
		rs_tx_done(&s->tx, wc->wr_id);
	switch (wc->status) {
	case IBV_WC_SUCCESS:
		return RS_EV_OUT;
	case IBV_WC_RETRY_EXC_ERR:
		return -ETIMEDOUT;
	default:
		return -ECONNRESET;
	}
}

int
rs_stream_progress(struct rsocket *rs)
{
	struct rs_stream *s = to_stream(rs);
	struct ibv_wc wc[RS_POLL_BATCH];
	int n, r, events = 0, err = 0;
	uint32_t received = 0;

	if (rs_state(rs) < RS_CONNECTED || !s->cq.cq)
		return 0;
	do {
		n = ibv_poll_cq(s->cq.cq, RS_POLL_BATCH, wc);
		for (int i = 0; i < n; i++) {
			if (!(wc[i].wr_id & RS_WR_RECV)) {
				r = take_completion(s, &wc[i]);
			} else if (wc[i].status == IBV_WC_SUCCESS) {
				received++;
				r = take_message(s, &wc[i]);
			} else {
				r = -ECONNRESET;
			}
			if (r >= 0)
				events |= r;
			else if (!err)
				err = -r;
		}
	} while (n == RS_POLL_BATCH);
	if (n < 0 && !err)
		err = EIO;
	if (rs_state(rs) != RS_CONNECTED)
		return events;
	/* If the peer has ended the connection properly, later errors don't matter; so errors are handled last. */
	if (received && !err)
		err = rs_ep_post_recvs(s, received);
	if (err) {
		rs_fail(s, err);
		return RS_EV_ALL;
	}
	rs_grant(s);
	return events;
}

void
rs_stream_arm(struct rsocket *rs)
{
	rs_cq_arm(&to_stream(rs)->cq);
}

void
rs_stream_fired(struct rsocket *rs)
{
	int err = rs_cq_fired(&to_stream(rs)->cq);

	/* EAGAIN: another thread was faster. */
	if (err && err != EAGAIN && err != EINTR)
		rs_fail(to_stream(rs), ENETDOWN);
}

short
rs_stream_revents(struct rsocket *rs, short events)
{
	struct rs_stream *s = to_stream(rs);
	enum rs_state state = rs_state(rs);
	bool data = s->rx.nb_slots && rs_rx_has_data(&s->rx);
	int r = 0;

	if (state == RS_LISTENING)
		return atomic_load(&s->nb_ready) > 0 ? events & POLLIN : 0;
	if (state < RS_CONNECTED)
		return 0;
	if (data || !atomic_load(&s->rd_open))
		r |= POLLIN | POLLRDNORM;
	if (!atomic_load(&s->rd_open))
		r |= POLLRDHUP;
	if (!atomic_load(&s->wr_open)) {
		r |= POLLOUT | POLLWRNORM;
	} else if ((events & (POLLOUT | POLLWRNORM)) && rs_trylock_sender(s)) {
		if (rs_tx_ready(&s->tx))
			r |= POLLOUT | POLLWRNORM;
		pthread_mutex_unlock(&s->slock);
	}
	r &= events;
	if (state == RS_FAILED)
		r |= POLLERR;
	/* Data that came before the end is to be read first. */
	if (state > RS_CONNECTED && !data)
		r |= POLLHUP;
	return (short)r;
}

/* ---- Shutdown ---- */
static bool
may_control(struct rsocket *rs)
{
	return rs_ctrl_room(to_stream(rs)) || rs_state(rs) != RS_CONNECTED;
}

/** @return true if the last control message is complete, and so everything that was sent before it. */
static bool
all_sent(struct rsocket *rs)
{
	struct rs_stream *s = to_stream(rs);

	return s->ctrl.posted == s->ctrl.done || rs_state(rs) != RS_CONNECTED;
}

/** Send @p ctrl to the peer, and wait until it and all data before it have arrived. */
static int
say_goodbye(struct rs_stream *s, enum rs_ctrl ctrl)
{
	struct rsocket *rs = &s->rs;
	int err = rs_wait(rs, may_control, RS_EV_ALL, false, RS_CLOSE_MS);

	if (err)
		return err;
	pthread_mutex_lock(&rs->lock);
	if (rs_state(rs) == RS_CONNECTED)
		err = rs_ctrl_post(s, rs_msg(RS_OP_CTRL, ctrl), NULL, 0);
	pthread_mutex_unlock(&rs->lock);
	return err ? err : rs_wait(rs, all_sent, RS_EV_ALL, false, RS_CLOSE_MS);
}

int
rs_stream_shutdown(struct rsocket *rs, int how)
{
	struct rs_stream *s = to_stream(rs);
	bool was_open, over;
	int err = 0;

	if (rs_state(rs) == RS_DISCONNECTED || (rs_state(rs) == RS_FAILED && s->was_connected))
		return 0;
	if (rs_state(rs) != RS_CONNECTED)
		return ENOTCONN;
	rs_flush_any(s);
	pthread_mutex_lock(&rs->lock);
	was_open = atomic_load(&s->wr_open) || atomic_load(&s->rd_open);
	if (how != SHUT_RD) {
		atomic_store(&s->wr_open, false);
		s->wr_shut = true;
	}
	if (how != SHUT_WR)
		atomic_store(&s->rd_open, false);
	over = !atomic_load(&s->wr_open) && !atomic_load(&s->rd_open);
	rs_kick(rs, RS_EV_ALL);
	pthread_mutex_unlock(&rs->lock);
	/* The peer isn't told about SHUT_RD alone. */
	if (was_open && (over || how == SHUT_WR))
		err = say_goodbye(s, over ? RS_CTRL_DISCONNECT : RS_CTRL_SHUTDOWN);
	if (!over)
		return err;
	pthread_mutex_lock(&rs->lock);
	if (rs_state(rs) == RS_CONNECTED)
		rs_set_state(s, RS_DISCONNECTED);
	pthread_mutex_unlock(&rs->lock);
	return err;
}
