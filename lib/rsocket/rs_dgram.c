/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram rsockets: the program's side. */
#include <sys/epoll.h>
#include <unistd.h>

#include "rsocket/rs_dgram.h"

/** Have the service watch the UDP socket for packets from peers. */
static int
watch(struct rs_dgram *d)
{
	int err;

	if (d->watched)
		return 0;
	d->watch.fd = d->udp;
	d->watch.readable = rs_udp_readable;
	err = rs_svc_watch(&d->watch);
	d->watched = !err;
	return err;
}

static int
dgram_bind(struct rsocket *rs, const struct sockaddr *addr, socklen_t len)
{
	struct rs_dgram *d = to_dgram(rs);

	if (bind(d->udp, addr, len))
		return errno;
	return watch(d);
}

static int
take_addr(const struct sockaddr *addr, socklen_t len, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (addr->sa_family == AF_INET && len >= sizeof(struct sockaddr_in))
		memcpy(out, addr, sizeof(struct sockaddr_in));
	else if (addr->sa_family == AF_INET6 && len >= sizeof(struct sockaddr_in6))
		memcpy(out, addr, sizeof(struct sockaddr_in6));
	else
		return EINVAL;
	return 0;
}

static int
dgram_connect(struct rsocket *rs, const struct sockaddr *addr, socklen_t len)
{
	struct rs_dgram *d = to_dgram(rs);
	struct sockaddr_storage to;
	struct rs_dest *dest = NULL;
	int err = addr->sa_family == AF_UNSPEC ? 0 : take_addr(addr, len, &to);

	if (!err && connect(d->udp, addr, len))
		err = errno;
	if (!err)
		err = watch(d);
	if (err)
		return err;
	pthread_mutex_lock(&rs->lock);
	if (addr->sa_family != AF_UNSPEC)
		err = rs_dest_get(d, &to, &dest);
	d->connected = dest;
	pthread_mutex_unlock(&rs->lock);
	return err;
}

static void
dequeue(struct rs_dgram *d)
{
	struct rs_dmsg *m = d->first;

	d->first = m->next;
	if (!d->first)
		d->end = &d->first;
	if (m->qp) {
		rs_dqp_recv(m->qp, m->slot);
	} else {
		d->nb_by_udp--;
		free(m);
	}
}

static int
dgram_progress(struct rsocket *rs)
{
	int events = 0;

	for (struct rs_dqp *qp = to_dgram(rs)->qps; qp; qp = qp->next)
		events |= rs_dqp_progress(qp);
	return events;
}

static void
dgram_arm(struct rsocket *rs)
{
	for (struct rs_dqp *qp = to_dgram(rs)->qps; qp; qp = qp->next)
		rs_cq_arm(&qp->cq);
}

static void
dgram_fired(struct rsocket *rs)
{
	for (struct rs_dqp *qp = to_dgram(rs)->qps; qp; qp = qp->next)
		rs_cq_fired(&qp->cq);
}

static short
dgram_revents(struct rsocket *rs, short events)
{
	struct rs_dgram *d = to_dgram(rs);
	struct rs_dest *to = d->connected;
	short r = 0;

	if (d->first || d->rd_shut)
		r |= POLLIN | POLLRDNORM;
	if (!to || !to->ah || rs_dqp_room(to->qp))
		r |= POLLOUT | POLLWRNORM;
	return r & events;
}

static bool
has_datagram(struct rsocket *rs)
{
	return to_dgram(rs)->first || to_dgram(rs)->rd_shut;
}

static bool
has_room(struct rsocket *rs)
{
	struct rs_dqp *qp = to_dgram(rs)->send_qp;

	return !qp || rs_dqp_room(qp);
}

static uint32_t
copy_out(const struct rs_dmsg *m, const struct iovec *iov, int n)
{
	uint32_t at = 0, part;

	for (int i = 0; i < n && at < m->bytes; i++) {
		part = iov[i].iov_len < m->bytes - at ? (uint32_t)iov[i].iov_len : m->bytes - at;
		memcpy(iov[i].iov_base, m->data + at, part);
		at += part;
	}
	return at;
}

static ssize_t
dgram_recv(struct rsocket *rs, const struct iovec *iov, int n, int flags, struct sockaddr *from, socklen_t *fromlen)
{
	struct rs_dgram *d = to_dgram(rs);
	ssize_t got = -EAGAIN;
	socklen_t len;
	int err;

	if (!d->watched)
		return -EINVAL;
	while (got == -EAGAIN) {
		err = rs_wait(rs, has_datagram, RS_EV_IN, rs_nonblocking(rs, flags), -1);
		if (err)
			return -err;
		pthread_mutex_lock(&rs->lock);
		/* Another thread may have read it meanwhile. */
		if (d->first) {
			got = copy_out(d->first, iov, n);
			if (from && fromlen) {
				len = rs_addr_len(&d->first->from);
				memcpy(from, &d->first->from, *fromlen < len ? *fromlen : len);
				*fromlen = len;
			}
			if (!(flags & MSG_PEEK))
				dequeue(d);
		} else if (d->rd_shut) {
			got = 0;
		}
		pthread_mutex_unlock(&rs->lock);
	}
	return got;
}

/** Under slock and the lock, which is released while the sender waits. */
static int
send_to(struct rs_dgram *d, struct rs_dest *to, const struct iovec *iov, int n, size_t bytes, int flags)
{
	struct rs_dqp *qp = to->qp;
	int err;

	if (bytes > RS_DGRAM_BYTES - (size_t)qp->hdr.length)
		return EMSGSIZE;
	if (!to->ah || !to->qpn || bytes + qp->hdr.length > qp->mtu) {
		/* The peer doesn't read longer packets from its UDP socket. */
		if (bytes + (to->addr.ss_family == AF_INET ? RS_UDP_V4_BYTES : RS_UDP_V6_BYTES) > RS_DGRAM_BYTES)
			return EMSGSIZE;
		return rs_udp_send(d, to, RS_OP_DATA, iov, n, rs_nonblocking(&d->rs, flags) ? MSG_DONTWAIT : 0);
	}
	if (!rs_dqp_room(qp)) {
		d->send_qp = qp;
		pthread_mutex_unlock(&d->rs.lock);
		err = rs_wait(&d->rs, has_room, RS_EV_OUT, rs_nonblocking(&d->rs, flags), -1);
		pthread_mutex_lock(&d->rs.lock);
		d->send_qp = NULL;
		if (err)
			return err;
	}
	return rs_dqp_send(qp, to, iov, n, (uint32_t)bytes);
}

/** Bind the UDP socket to a port, so that peers can answer. */
static int
need_port(struct rs_dgram *d)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)d->rs.domain };

	if (d->watched)
		return 0;
	if (bind(d->udp, (struct sockaddr *)&any, rs_addr_len(&any)) && errno != EINVAL)
		return errno;
	return watch(d);
}

static ssize_t
dgram_send(struct rsocket *rs, const struct iovec *iov, int n, int flags, const struct sockaddr *to, socklen_t tolen)
{
	struct rs_dgram *d = to_dgram(rs);
	struct sockaddr_storage addr;
	struct rs_dest *dest;
	struct rs_cursor c;
	int err = rs_cursor_init(&c, iov, n);

	if (!err && d->wr_shut)
		err = EPIPE;
	if (!err && to)
		err = take_addr(to, tolen, &addr);
	if (!err)
		err = need_port(d);
	if (err)
		return -err;
	pthread_mutex_lock(&d->slock);
	pthread_mutex_lock(&rs->lock);
	dest = d->connected;
	if (to)
		err = rs_dest_get(d, &addr, &dest);
	else if (!dest)
		err = EDESTADDRREQ;
	if (!err)
		err = send_to(d, dest, iov, n, c.left, flags);
	pthread_mutex_unlock(&rs->lock);
	pthread_mutex_unlock(&d->slock);
	return err ? -err : (ssize_t)c.left;
}

static int
dgram_shutdown(struct rsocket *rs, int how)
{
	struct rs_dgram *d = to_dgram(rs);

	if (!d->connected)
		return ENOTCONN;
	pthread_mutex_lock(&rs->lock);
	d->wr_shut |= how != SHUT_RD;
	d->rd_shut |= how != SHUT_WR;
	rs_kick(rs, RS_EV_ALL);
	pthread_mutex_unlock(&rs->lock);
	return 0;
}

static bool
all_gone(struct rsocket *rs)
{
	for (struct rs_dqp *qp = to_dgram(rs)->qps; qp; qp = qp->next)
		if (qp->posted != qp->done)
			return false;
	return true;
}

static void
dgram_close(struct rsocket *rs)
{
	struct rs_dgram *d = to_dgram(rs);
	struct rs_dest *dest;
	struct rs_dqp *qp;

	rs_svc_unwatch(&d->watch);
	rs_wait(rs, all_gone, RS_EV_OUT, false, RS_CLOSE_MS);
	while (d->first)
		dequeue(d);
	for (int i = 0; i < RS_DESTS; i++) {
		while ((dest = d->dests[i])) {
			d->dests[i] = dest->next;
			rs_dest_free(dest);
		}
	}
	while ((qp = d->qps)) {
		d->qps = qp->next;
		rs_dqp_free(qp);
	}
	close(rs->wait_fd);
	close(d->udp);
	rs_leave(rs);
	pthread_mutex_destroy(&d->slock);
	free(d);
}

static int
dgram_name(struct rsocket *rs, bool peer, struct sockaddr *addr, socklen_t *len)
{
	int fd = to_dgram(rs)->udp;

	return (peer ? getpeername(fd, addr, len) : getsockname(fd, addr, len)) ? errno : 0;
}

static int
dgram_set_option(struct rsocket *rs, int level, int name, const void *value, socklen_t len)
{
	return setsockopt(to_dgram(rs)->udp, level, name, value, len) ? errno : 0;
}

static const struct rs_ops dgram_ops = {
	.bind = dgram_bind,
	.connect = dgram_connect,
	.shutdown = dgram_shutdown,
	.close = dgram_close,
	.send = dgram_send,
	.recv = dgram_recv,
	.name = dgram_name,
	.set_option = dgram_set_option,
	.progress = dgram_progress,
	.arm = dgram_arm,
	.fired = dgram_fired,
	.revents = dgram_revents,
};

struct rsocket *
rs_dgram_new(int domain, int *err)
{
	struct rdma_event_channel *channel = rs_svc_channel();
	struct rs_dgram *d = channel ? calloc(1, sizeof(*d)) : NULL;

	if (!d) {
		*err = channel ? ENOMEM : errno;
		return NULL;
	}
	d->cm_channel = channel;
	d->end = &d->first;
	d->udp = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	*err = d->udp < 0 ? errno : rs_enter(&d->rs, &dgram_ops, SOCK_DGRAM, domain);
	if (*err) {
		if (d->udp >= 0)
			close(d->udp);
		free(d);
		return NULL;
	}
	pthread_mutex_init(&d->slock, NULL);
	d->rs.wait_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->rs.wait_fd < 0) {
		*err = errno;
		dgram_close(&d->rs);
		return NULL;
	}
	return &d->rs;
}
