/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints: a stream's QP, completion queue and memory. One mapping contains first the part that the peer may write to
 * (the receive buffer, the list of chunks, the table of mappings), then, registered separately, the send buffer.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "rsocket/rs_priv.h"

static uint32_t
between(uint32_t n, uint32_t min, uint32_t max)
{
	return n < min ? min : n > max ? max : n;
}

static size_t
whole_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

static int
make_queues(struct rs_stream *s)
{
	struct rs_sizes *z = &s->rs.sizes;
	struct ibv_qp_init_attr attr = { 0 };
	struct ibv_device_attr dev;
	uint32_t max;
	int err = ibv_query_device(s->id->verbs, &dev);

	if (err)
		return err;
	max = (uint32_t)dev.max_qp_wr < RS_QUEUE_MAX ? (uint32_t)dev.max_qp_wr : RS_QUEUE_MAX;
	z->sq = between(z->sq, RS_QUEUE_MIN, max);
	z->rq = between(z->rq, RS_QUEUE_MIN, max);
	err = rs_cq_create(&s->cq, s->id->verbs, z->sq + z->rq);
	if (err)
		return err;
	attr.qp_context = s;
	attr.send_cq = attr.recv_cq = s->cq.cq;
	attr.qp_type = IBV_QPT_RC;
	attr.cap.max_send_wr = z->sq;
	attr.cap.max_recv_wr = z->rq;
	attr.cap.max_send_sge = 2;
	attr.cap.max_recv_sge = 1;
	/* Descriptors are always sent inline. */
	attr.cap.max_inline_data = z->inline_bytes > sizeof(struct rs_iomap) ? z->inline_bytes : sizeof(struct rs_iomap);
	if (rdma_create_qp(s->id, NULL, &attr))
		return errno;
	s->qp = s->id->qp;
	if (z->inline_bytes > attr.cap.max_inline_data)
		z->inline_bytes = attr.cap.max_inline_data;
	return 0;
}

static int
make_memory(struct rs_stream *s)
{
	struct rs_sizes *z = &s->rs.sizes;
	size_t list_at;
	void *m;

	z->send_bytes = between(z->send_bytes, RS_BUFFER_MIN, RS_BUFFER_MAX);
	z->recv_bytes = between(z->recv_bytes, RS_BUFFER_MIN, RS_BUFFER_MAX) & ~1u;
	list_at = (z->recv_bytes + 63) & ~(size_t)63;
	s->recv_region = list_at + RS_CHUNKS * sizeof(struct rs_sge) + z->iomaps * sizeof(struct rs_iomap);
	s->recv_region = whole_pages(s->recv_region);
	s->memory_bytes = s->recv_region + whole_pages(z->send_bytes);
	m = mmap(NULL, s->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return errno;
	s->memory = m;
	s->recv_buf = s->memory;
	s->send_buf = s->memory + s->recv_region;
	s->list = (void *)(s->memory + list_at);
	s->table = (void *)(s->memory + list_at + RS_CHUNKS * sizeof(struct rs_sge));
	s->recv_mr = ibv_reg_mr(s->id->pd, s->memory, s->recv_region, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!s->recv_mr)
		return errno;
	s->send_mr = ibv_reg_mr(s->id->pd, s->send_buf, s->memory_bytes - s->recv_region, IBV_ACCESS_LOCAL_WRITE);
	if (!s->send_mr)
		return errno;
	if (z->iomaps) {
		s->peer_maps = calloc(z->iomaps, sizeof(*s->peer_maps));
		if (!s->peer_maps)
			return ENOMEM;
	}
	return 0;
}

static int
init_flow(struct rs_stream *s)
{
	const struct rs_sizes *z = &s->rs.sizes;

	s->tx.max_wr = z->sq - RS_CTRL_WRS;
	s->tx.ring_bytes = z->send_bytes;
	s->rx.ring_bytes = z->recv_bytes;
	s->rx.queue = (uint16_t)z->rq;
	/* One slot more than there may be messages, so that a full ring differs from an empty one. */
	s->rx.nb_slots = z->rq + 1;
	s->rx.slots = calloc(s->rx.nb_slots, sizeof(*s->rx.slots));
	if (!s->rx.slots)
		return ENOMEM;
	/* The first half is granted with the connection. */
	atomic_init(&s->rx.granted_bytes, s->rx.ring_bytes / 2);
	s->rx.grant_at = s->rx.ring_bytes / 2;
	return 0;
}

int
rs_ep_create(struct rs_stream *s)
{
	int err;

	if (s->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return EOPNOTSUPP;
	err = make_queues(s);
	if (!err)
		err = make_memory(s);
	if (!err)
		err = init_flow(s);
	if (!err)
		err = rs_ep_post_recvs(s, s->rs.sizes.rq);
	if (!err)
		s->rs.wait_fd = s->cq.channel->fd;
	return err;
}

void
rs_ep_destroy(struct rs_stream *s)
{
	if (s->qp)
		ibv_destroy_qp(s->qp);
	rs_cq_destroy(&s->cq);
	rs_iomap_free(s);
	if (s->send_mr)
		ibv_dereg_mr(s->send_mr);
	if (s->recv_mr)
		ibv_dereg_mr(s->recv_mr);
	if (s->memory)
		munmap(s->memory, s->memory_bytes);
	free(s->rx.slots);
	free(s->peer_maps);
}

int
rs_ep_post_recvs(struct rs_stream *s, uint32_t n)
{
	struct ibv_recv_wr wr[RS_POLL_BATCH], *bad;
	uint32_t i, batch;
	int err = 0;

	/* Messages carry only an immediate value: their data is written elsewhere. */
	for (i = 0; i < RS_POLL_BATCH; i++)
		wr[i] = (struct ibv_recv_wr){ .wr_id = RS_WR_RECV, .next = &wr[i + 1] };
	for (; n && !err; n -= batch) {
		batch = n < RS_POLL_BATCH ? n : RS_POLL_BATCH;
		wr[batch - 1].next = NULL;
		err = ibv_post_recv(s->id->qp, wr, &bad);
		if (batch < RS_POLL_BATCH)
			wr[batch - 1].next = &wr[batch];
	}
	return err;
}

void
rs_ep_hello(struct rs_stream *s, struct rs_hello *out)
{
	*out = (struct rs_hello){
		.credits = (uint16_t)s->rs.sizes.rq,
		.iomaps = s->rs.sizes.iomaps,
		.list = { (uintptr_t)s->list, s->recv_mr->rkey, RS_CHUNKS },
		.chunk = { (uintptr_t)s->recv_buf, s->recv_mr->rkey, s->rs.sizes.recv_bytes / 2 },
	};
}

int
rs_ep_meet(struct rs_stream *s, const struct rs_hello *peer)
{
	s->peer = *peer;
	/* Both first chunks were exchanged with the hello, as if written to entry 0 of the lists. */
	s->peer_list_at = 1 % peer->list.length;
	s->list_at = 1 % RS_CHUNKS;
	rs_tx_limit(&s->tx, peer->credits);
	s->tx.few = (uint16_t)(peer->credits / 4);
	return rs_tx_give(&s->tx, &peer->chunk);
}
