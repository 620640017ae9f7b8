/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram rsockets: the QP of a local address, its queues and its memory, one MR with receives first and sends behind.
 */
#include <sys/epoll.h>
#include <sys/mman.h>

#include "rsocket/rs_dgram.h"

/** The id exists only for its QP: its events don't matter. */
static bool
no_event(struct rs_cm_user *u, struct rdma_cm_event *ev)
{
	return false;
}

static uint32_t
slots(uint32_t queue, uint32_t bytes, uint32_t max)
{
	uint32_t n = bytes / RS_DGRAM_BYTES;

	n = n < queue ? n : queue;
	n = n < max ? n : max;
	return n < RS_QUEUE_MIN ? RS_QUEUE_MIN : n;
}

static int
bind_id(struct rs_dqp *qp)
{
	struct sockaddr_storage any_port = qp->local;
	struct ibv_port_attr port;
	struct ibv_device_attr dev;
	int err;

	if (rdma_create_id(qp->d->cm_channel, &qp->id, &qp->cm, RDMA_PS_UDP))
		return errno;
	/* Peers use the port of the UDP socket; the id's port doesn't matter. */
	if (any_port.ss_family == AF_INET)
		((struct sockaddr_in *)&any_port)->sin_port = 0;
	else
		((struct sockaddr_in6 *)&any_port)->sin6_port = 0;
	if (rdma_bind_addr(qp->id, (struct sockaddr *)&any_port))
		return errno;
	err = ibv_query_port(qp->id->verbs, qp->id->port_num, &port);
	if (!err)
		err = ibv_query_device(qp->id->verbs, &dev);
	if (err)
		return err;
	qp->mtu = 128u << port.active_mtu;
	qp->nb_sends = slots(qp->d->rs.sizes.sq, qp->d->rs.sizes.send_bytes, (uint32_t)dev.max_qp_wr);
	qp->nb_recvs = slots(qp->d->rs.sizes.rq, qp->d->rs.sizes.recv_bytes, (uint32_t)dev.max_qp_wr);
	return 0;
}

static int
make_memory(struct rs_dqp *qp)
{
	size_t recv_bytes = (size_t)qp->nb_recvs * RS_DGRAM_STRIDE;
	void *m;

	qp->memory_bytes = recv_bytes + (size_t)qp->nb_sends * RS_DGRAM_BYTES;
	m = mmap(NULL, qp->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return errno;
	qp->memory = m;
	qp->sends = qp->memory + recv_bytes;
	qp->mr = ibv_reg_mr(qp->id->pd, qp->memory, qp->memory_bytes, IBV_ACCESS_LOCAL_WRITE);
	qp->msgs = calloc(qp->nb_recvs, sizeof(*qp->msgs));
	return !qp->mr ? errno : !qp->msgs ? ENOMEM : 0;
}

static int
make_queues(struct rs_dqp *qp)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct ibv_qp_init_attr attr = { 0 };
	int err = rs_cq_create(&qp->cq, qp->id->verbs, qp->nb_sends + qp->nb_recvs);

	if (err)
		return err;
	attr.send_cq = attr.recv_cq = qp->cq.cq;
	attr.qp_type = IBV_QPT_UD;
	attr.cap.max_send_wr = qp->nb_sends;
	attr.cap.max_recv_wr = qp->nb_recvs;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	if (rdma_create_qp(qp->id, NULL, &attr))
		return errno;
	return epoll_ctl(qp->d->rs.wait_fd, EPOLL_CTL_ADD, qp->cq.channel->fd, &ev) ? errno : 0;
}

static int
post_recv(struct rs_dqp *qp, uint32_t slot)
{
	struct ibv_sge sge = { (uintptr_t)qp->memory + (size_t)slot * RS_DGRAM_STRIDE, RS_GRH_BYTES + RS_DGRAM_BYTES,
			       qp->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = RS_WR_RECV | slot, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_recv(qp->id->qp, &wr, &bad);
}

void
rs_dqp_recv(struct rs_dqp *qp, uint32_t slot)
{
	/* The RQ has room, because this receive was in it before. */
	post_recv(qp, slot);
}

int
rs_dqp_get(struct rs_dgram *d, const struct sockaddr_storage *local, struct rs_dqp **out)
{
	struct rs_dqp *qp;
	int err;

	for (qp = d->qps; qp; qp = qp->next) {
		if (rs_same_addr(&qp->local, local)) {
			*out = qp;
			return 0;
		}
	}
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return ENOMEM;
	qp->d = d;
	qp->cm.event = no_event;
	qp->local = *local;
	rs_dgram_hdr_put(&qp->hdr, (const struct sockaddr *)local);
	err = bind_id(qp);
	if (!err)
		err = make_memory(qp);
	if (!err)
		err = make_queues(qp);
	for (uint32_t i = 0; i < qp->nb_recvs && !err; i++)
		err = post_recv(qp, i);
	if (err) {
		rs_dqp_free(qp);
		return err;
	}
	qp->next = d->qps;
	d->qps = qp;
	/* Sleeping threads haven't armed the new CQ: wake them. */
	rs_kick(&d->rs, RS_EV_ALL);
	*out = qp;
	return 0;
}

void
rs_dqp_free(struct rs_dqp *qp)
{
	if (qp->id && qp->id->qp)
		rdma_destroy_qp(qp->id);
	rs_cq_destroy(&qp->cq);
	if (qp->mr)
		ibv_dereg_mr(qp->mr);
	if (qp->memory)
		munmap(qp->memory, qp->memory_bytes);
	if (qp->id)
		rdma_destroy_id(qp->id);
	free(qp->msgs);
	free(qp);
}

static int
take_recv(struct rs_dqp *qp, const struct ibv_wc *wc)
{
	uint32_t slot = (uint32_t)wc->wr_id;
	struct rs_dmsg *m = &qp->msgs[slot];
	const uint8_t *data = qp->memory + (size_t)slot * RS_DGRAM_STRIDE + RS_GRH_BYTES;
	size_t hdr;

	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return 0;
	if (wc->status == IBV_WC_SUCCESS && wc->byte_len > RS_GRH_BYTES) {
		hdr = rs_dgram_hdr_get(data, wc->byte_len - RS_GRH_BYTES, &m->from);
		m->qp = qp;
		m->slot = slot;
		m->data = data + hdr;
		m->bytes = wc->byte_len - RS_GRH_BYTES - (uint32_t)hdr;
		if (hdr && rs_dgram_queue(qp->d, m))
			return RS_EV_IN;
	}
	rs_dqp_recv(qp, slot);
	return 0;
}

int
rs_dqp_progress(struct rs_dqp *qp)
{
	struct ibv_wc wc[RS_POLL_BATCH];
	int n, events = 0;

	do {
		n = ibv_poll_cq(qp->cq.cq, RS_POLL_BATCH, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id & RS_WR_RECV) {
				events |= take_recv(qp, &wc[i]);
			} else {
				qp->done = (uint32_t)wc[i].wr_id;
				events |= RS_EV_OUT;
			}
		}
	} while (n == RS_POLL_BATCH);
	return events;
}

int
rs_dqp_send(struct rs_dqp *qp, const struct rs_dest *to, const struct iovec *iov, int n, uint32_t bytes)
{
	uint8_t *slot = qp->sends + (size_t)(qp->posted % qp->nb_sends) * RS_DGRAM_BYTES, *at = slot + qp->hdr.length;
	struct ibv_sge sge = { (uintptr_t)slot, qp->hdr.length + bytes, qp->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	int err;

	memcpy(slot, &qp->hdr, qp->hdr.length);
	for (int i = 0; i < n; i++) {
		memcpy(at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	wr.wr.ud.ah = to->ah;
	wr.wr.ud.remote_qpn = to->qpn;
	wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
	wr.wr_id = qp->posted + 1;
	err = ibv_post_send(qp->id->qp, &wr, &bad);
	if (!err)
		qp->posted++;
	return err;
}
