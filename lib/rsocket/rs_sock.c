/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of <rdma/rsocket.h> that are the same for all kinds: they find the rsocket and call its operation. */
#include "rsocket/rs_priv.h"

static void
fork_child(void)
{
	rs_table_fork_child();
	rs_accept_fork_child();
	rs_svc_fork_child();
}

static void
register_fork(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

RS_EXPORT int
rsocket(int domain, int type, int protocol)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK), err = 0;
	struct rsocket *rs = NULL;

	pthread_once(&once, register_fork);
	if (domain != AF_INET && domain != AF_INET6)
		return rs_result(EAFNOSUPPORT);
	if (kind == SOCK_STREAM && (!protocol || protocol == IPPROTO_TCP)) {
		struct rs_stream *s = rs_stream_new(domain, &err);

		rs = s ? &s->rs : NULL;
	} else if (kind == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP)) {
		rs = rs_dgram_new(domain, &err);
	} else {
		err = ENOTSUP;
	}
	if (!rs)
		return rs_result(err);
	if (type & SOCK_NONBLOCK)
		atomic_store(&rs->status_flags, O_NONBLOCK);
	return rs->fd;
}

RS_EXPORT int
rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rsocket *rs = rs_find(socket);

	if (!rs)
		return rs_result(EBADF);
	return rs_result(!addr ? EINVAL : rs->ops->bind(rs, addr, addrlen));
}

RS_EXPORT int
rlisten(int socket, int backlog)
{
	struct rsocket *rs = rs_find(socket);

	return rs_result(rs ? rs_listen(rs, backlog) : EBADF);
}

RS_EXPORT int
raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsocket *rs = rs_find(socket), *new_rs;
	int err = EBADF, before = errno;

	new_rs = rs ? rs_accept(rs, &err) : NULL;
	if (!new_rs)
		return rs_result(err);
	if (addr && addrlen)
		new_rs->ops->name(new_rs, true, addr, addrlen);
	errno = before;
	return new_rs->fd;
}

RS_EXPORT int
rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rsocket *rs = rs_find(socket);
	int before = errno;

	if (!rs)
		return rs_result(EBADF);
	return rs_waited(!addr ? EINVAL : rs->ops->connect(rs, addr, addrlen), before);
}

RS_EXPORT int
rshutdown(int socket, int how)
{
	struct rsocket *rs = rs_find(socket);
	int before = errno;

	if (!rs)
		return rs_result(EBADF);
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return rs_result(EINVAL);
	return rs_waited(rs->ops->shutdown(rs, how), before);
}

RS_EXPORT int
rclose(int socket)
{
	struct rsocket *rs = rs_find_any(socket);
	int before = errno;

	if (!rs)
		return rs_result(EBADF);
	if (rs->foreign)
		rs_table_remove(socket);
	else
		rs->ops->close(rs);
	return rs_waited(0, before);
}

RS_EXPORT int
rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsocket *rs = rs_find(socket);

	return rs_result(rs ? rs->ops->name(rs, true, addr, addrlen) : EBADF);
}

RS_EXPORT int
rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsocket *rs = rs_find(socket);

	return rs_result(rs ? rs->ops->name(rs, false, addr, addrlen) : EBADF);
}

/* ---- Moving data: all of these use one of two operations ---- */
/* Success leaves errno as it was, because programs check it also if they read 0 bytes. */
static ssize_t
moved(ssize_t n, int errno_before)
{
	errno = n < 0 ? (int)-n : errno_before;
	return n < 0 ? -1 : n;
}

static ssize_t
receive(int socket, const struct iovec *iov, int n, int flags, struct sockaddr *from, socklen_t *fromlen)
{
	struct rsocket *rs = rs_find(socket);
	int before = errno;

	return moved(rs ? rs->ops->recv(rs, iov, n, flags, from, fromlen) : -EBADF, before);
}

static ssize_t
transmit(int socket, const struct iovec *iov, int n, int flags, const struct sockaddr *to, socklen_t tolen)
{
	struct rsocket *rs = rs_find(socket);
	int before = errno;

	return moved(rs ? rs->ops->send(rs, iov, n, flags, to, tolen) : -EBADF, before);
}

RS_EXPORT ssize_t
rrecv(int socket, void *buf, size_t len, int flags)
{
	struct iovec iov = { buf, len };

	return receive(socket, &iov, 1, flags, NULL, NULL);
}

RS_EXPORT ssize_t
rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr, socklen_t *addrlen)
{
	struct iovec iov = { buf, len };

	return receive(socket, &iov, 1, flags, src_addr, addrlen);
}

RS_EXPORT ssize_t
rrecvmsg(int socket, struct msghdr *msg, int flags)
{
	socklen_t *len = msg->msg_name ? &msg->msg_namelen : NULL;
	ssize_t n;

	if (msg->msg_control && msg->msg_controllen)
		return rs_result(ENOTSUP);
	n = receive(socket, msg->msg_iov, (int)msg->msg_iovlen, flags, msg->msg_name, len);
	msg->msg_flags = 0;
	return n;
}

RS_EXPORT ssize_t
rread(int socket, void *buf, size_t count)
{
	return rrecv(socket, buf, count, 0);
}

RS_EXPORT ssize_t
rreadv(int socket, const struct iovec *iov, int iovcnt)
{
	return receive(socket, iov, iovcnt, 0, NULL, NULL);
}

RS_EXPORT ssize_t
rsend(int socket, const void *buf, size_t len, int flags)
{
	struct iovec iov = { (void *)buf, len };

	return transmit(socket, &iov, 1, flags, NULL, 0);
}

RS_EXPORT ssize_t
rsendto(int socket, const void *buf, size_t len, int flags, const struct sockaddr *dest_addr, socklen_t addrlen)
{
	struct iovec iov = { (void *)buf, len };

	return transmit(socket, &iov, 1, flags, dest_addr, addrlen);
}

RS_EXPORT ssize_t
rsendmsg(int socket, const struct msghdr *msg, int flags)
{
	if (msg->msg_control && msg->msg_controllen)
		return rs_result(ENOTSUP);
	return transmit(socket, msg->msg_iov, (int)msg->msg_iovlen, flags, msg->msg_name, msg->msg_namelen);
}

RS_EXPORT ssize_t
rwrite(int socket, const void *buf, size_t count)
{
	return rsend(socket, buf, count, 0);
}

RS_EXPORT ssize_t
rwritev(int socket, const struct iovec *iov, int iovcnt)
{
	return transmit(socket, iov, iovcnt, 0, NULL, 0);
}
