/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsockets by their numbers, and the functions of <rdma/rsocket.h> that are the same for all kinds: they find the
 * rsocket and call its operation.
 *
 * The table has two levels; entries are read without a lock. Who closes an rsocket that another thread uses has
 * made a mistake, as with descriptors. The library's own thread, which visits all, keeps them from leaving meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rsocket/rs.h"

enum { TABLE_BITS = 10, TABLE_PAGE = 1 << TABLE_BITS, TABLE_PAGES = 1 << TABLE_BITS };

typedef struct rsocket *_Atomic table_entry;

static table_entry *_Atomic table[TABLE_PAGES];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

int
rs_result(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

int
rs_waited(int err, int errno_before)
{
	errno = err ? err : errno_before;
	return err ? -1 : 0;
}

static table_entry *
entry_of(int fd)
{
	table_entry *page;

	if (fd < 0 || fd >> TABLE_BITS >= TABLE_PAGES)
		return NULL;
	page = atomic_load_explicit(&table[fd >> TABLE_BITS], memory_order_acquire);
	return page ? &page[fd & (TABLE_PAGE - 1)] : NULL;
}

static struct rsocket *
at(int fd)
{
	table_entry *e = entry_of(fd);

	return e ? atomic_load_explicit(e, memory_order_acquire) : NULL;
}

struct rsocket *
rs_find(int fd)
{
	struct rsocket *rs = at(fd);

	return rs && !rs->foreign ? rs : NULL;
}

/** Under table_lock. */
static void
each_locked(void (*f)(struct rsocket *rs))
{
	for (int i = 0; i < TABLE_PAGES; i++) {
		table_entry *page = atomic_load_explicit(&table[i], memory_order_acquire);

		for (int j = 0; page && j < TABLE_PAGE; j++) {
			struct rsocket *rs = atomic_load_explicit(&page[j], memory_order_acquire);

			if (rs && !rs->foreign)
				f(rs);
		}
	}
}

void
rs_each(void (*f)(struct rsocket *rs))
{
	pthread_mutex_lock(&table_lock);
	each_locked(f);
	pthread_mutex_unlock(&table_lock);
}

static void
disown(struct rsocket *rs)
{
	rs->foreign = true;
}

static void
fork_child(void)
{
	pthread_mutex_init(&table_lock, NULL);
	rs_each(disown);
	rs_accept_fork_child();
	rs_svc_fork_child();
}

static void
register_fork(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

static int
enter_fd(int fd, struct rsocket *rs)
{
	table_entry *page;
	int err = 0;

	if (fd >> TABLE_BITS >= TABLE_PAGES)
		return EMFILE;
	pthread_mutex_lock(&table_lock);
	page = atomic_load_explicit(&table[fd >> TABLE_BITS], memory_order_relaxed);
	if (!page) {
		page = calloc(TABLE_PAGE, sizeof(*page));
		atomic_store_explicit(&table[fd >> TABLE_BITS], page, memory_order_release);
	}
	if (page)
		atomic_store_explicit(&page[fd & (TABLE_PAGE - 1)], rs, memory_order_release);
	else
		err = ENOMEM;
	pthread_mutex_unlock(&table_lock);
	return err;
}

int
rs_enter(struct rsocket *rs, const struct rs_ops *ops, int type, int domain)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int err;

	pthread_once(&once, register_fork);
	rs->ops = ops;
	rs->type = type;
	rs->domain = domain;
	rs->wait_fd = -1;
	rs->sizes = *rs_conf_sizes();
	rs->linger_on = 1;
	rs->fd = eventfd(0, EFD_CLOEXEC);
	if (rs->fd < 0)
		return errno;
	pthread_mutex_init(&rs->lock, NULL);
	err = enter_fd(rs->fd, rs);
	if (err) {
		pthread_mutex_destroy(&rs->lock);
		close(rs->fd);
	}
	return err;
}

static void
leave_fd(int fd)
{
	pthread_mutex_lock(&table_lock);
	atomic_store_explicit(entry_of(fd), NULL, memory_order_release);
	pthread_mutex_unlock(&table_lock);
	close(fd);
}

void
rs_leave(struct rsocket *rs)
{
	leave_fd(rs->fd);
	pthread_mutex_destroy(&rs->lock);
}

RS_EXPORT int
rsocket(int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK), err = 0;
	struct rsocket *rs = NULL;

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
	struct rsocket *rs = at(socket);
	int before = errno;

	if (!rs)
		return rs_result(EBADF);
	if (rs->foreign)
		leave_fd(socket);
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

/* ---- Moving data: all of these are one of two operations ---- */
/* Programs look at errno when there is nothing to read, too: success leaves it as it was. */
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
