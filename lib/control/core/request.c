/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "control/core/request_priv.h"

int
req_fail(struct request *r, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->message, sizeof(r->message), fmt, ap);
	va_end(ap);
	return err;
}

void
req_send_fd(struct request *r, int fd, bool close_it)
{
	UROCE_ASSERT(r->rsp.nb_fds < CTL_MAX_FDS);
	r->out_fds[r->rsp.nb_fds] = fd;
	r->out_close[r->rsp.nb_fds] = close_it;
	r->rsp.nb_fds++;
}

int
req_take_event_pipe(struct request *r, int *out)
{
	static const char kind[] = "pipe:[";
	char link[32], target[sizeof(kind)];
	int flags = r->nb_fds == 1 ? fcntl(r->fds[0], F_GETFL) : -1;

	if (flags < 0 || (flags & O_NONBLOCK) == 0 || (flags & O_ACCMODE) == O_RDONLY)
		return EINVAL;
	/* Recognise a pipe by the name of its link. That asks no file system, which could be the program's own. */
	snprintf(link, sizeof(link), "/proc/self/fd/%d", r->fds[0]);
	if (readlink(link, target, sizeof(target)) < (ssize_t)sizeof(target) ||
	    memcmp(target, kind, sizeof(kind) - 1) != 0)
		return EINVAL;
	*out = open(link, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (*out < 0)
		return errno;
	close(r->fds[0]);
	r->fds[0] = -1;
	return 0;
}

int
send_reply(int sock, const struct ctl_rsp *rsp, const int *fds, uint32_t nb_fds)
{
	char space[CMSG_SPACE(CTL_MAX_FDS * sizeof(int))] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)rsp, .iov_len = sizeof(*rsp) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cmsg;

	if (nb_fds > 0) {
		msg.msg_control = space;
		msg.msg_controllen = CMSG_SPACE(nb_fds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(nb_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, nb_fds * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*rsp) ? 0 : errno;
}
