/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues of streams and datagram QPs, each with a channel that never blocks. */
#include "rsocket/rs_priv.h"

int
rs_cq_create(struct rs_cq *c, struct ibv_context *verbs, uint32_t entries)
{
	c->channel = ibv_create_comp_channel(verbs);
	if (!c->channel || fcntl(c->channel->fd, F_SETFL, O_NONBLOCK))
		return errno;
	c->cq = ibv_create_cq(verbs, (int)entries, c, c->channel, 0);
	return c->cq ? 0 : errno;
}

void
rs_cq_destroy(struct rs_cq *c)
{
	if (c->cq) {
		ibv_ack_cq_events(c->cq, c->events);
		ibv_destroy_cq(c->cq);
	}
	if (c->channel)
		ibv_destroy_comp_channel(c->channel);
}

void
rs_cq_arm(struct rs_cq *c)
{
	if (!c->cq || c->armed)
		return;
	ibv_req_notify_cq(c->cq, 0);
	c->armed = true;
}

int
rs_cq_fired(struct rs_cq *c)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(c->channel, &cq, &context))
		return errno;
	c->armed = false;
	c->events++;
	return 0;
}
