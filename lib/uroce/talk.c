/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_common.h>

#include "uroce/talk.h"

enum {
	WAIT_MS = 20000, /* for the other daemon's next message; it may be a busy machine */
	NO_WAIT = 0,
	FDS_MAX = 1 << 20,
};
#define BYTES_MAX (UINT64_C(1) << 32)

/* ---- Messages with descriptors ---- */
union control_space {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(TALK_FDS * sizeof(int))];
};

/** @return 0, or an errno value: ETIMEDOUT. */
static int
wait_for(int sock, short events, int ms)
{
	struct pollfd p = { .fd = sock, .events = events };
	int rc;

	do
		rc = poll(&p, 1, ms);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? errno : rc == 0 ? ETIMEDOUT : 0;
}

/** @param wait_ms  For the other side to read; NO_WAIT: it doesn't read yet. @return 0 or an errno value. */
static int
send_message(int sock, const void *data, size_t bytes, const int *fds, uint32_t nb, int wait_ms)
{
	union control_space space = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *h;
	ssize_t n;
	int rc;

	if (nb > 0) {
		msg.msg_control = space.bytes;
		msg.msg_controllen = CMSG_SPACE(nb * sizeof(int));
		h = CMSG_FIRSTHDR(&msg);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(nb * sizeof(int));
		memcpy(CMSG_DATA(h), fds, nb * sizeof(int));
	}
	for (;;) {
		n = sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n >= 0)
			return 0;
		/* ETOOMANYREFS: an ordinary user has only so many descriptors on their way; the other side takes them from there. */
		if (errno == ETOOMANYREFS && wait_ms != NO_WAIT)
			usleep(1000);
		else if (errno == EAGAIN && (rc = wait_for(sock, POLLOUT, wait_ms)) != 0)
			return rc;
		else if (errno != EINTR && errno != EAGAIN)
			return errno;
	}
}

/** @param nb  Receives how many descriptors came; NULL: none may. @return bytes, 0 at the end of the connection, or -1 with errno set. */
static ssize_t
receive_message(int sock, void *data, size_t bytes, int *fds, uint32_t *nb)
{
	union control_space space;
	struct iovec iov = { .iov_base = data, .iov_len = bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = nb != NULL ? sizeof(space.bytes) : 0 };
	struct cmsghdr *h;
	ssize_t n;
	int rc = wait_for(sock, POLLIN, WAIT_MS);

	if (rc != 0) {
		errno = rc;
		return -1;
	}
	do
		n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0 || nb == NULL)
		return n;
	*nb = 0;
	for (h = CMSG_FIRSTHDR(&msg); h != NULL; h = CMSG_NXTHDR(&msg, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		*nb = (uint32_t)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(h), *nb * sizeof(int));
	}
	if ((msg.msg_flags & MSG_CTRUNC) == 0)
		return n;
	while (*nb > 0)
		close(fds[--*nb]);
	errno = EMFILE;
	return -1;
}

/* ---- The daemon that goes ---- */
/** @return a memfd of the records, or -1 with errno set. */
static int
records_fd(const struct stream_out *o)
{
	int fd = memfd_create("uroce-handover", MFD_CLOEXEC), rc;
	size_t done = 0;
	ssize_t n;

	while (fd >= 0 && done < o->n) {
		n = write(fd, o->bytes + done, o->n - done);
		if (n < 0 && errno != EINTR) {
			rc = errno;
			close(fd);
			errno = rc;
			return -1;
		}
		done += n > 0 ? (size_t)n : 0;
	}
	return fd;
}

static int
send_all(int sock, const struct stream_out *o, int wait_ms)
{
	const struct talk_begin begin = { .magic = CTL_MAGIC, .op = CTL_HAND_OVER, .nb_fds = o->nb_fds, .bytes = o->n,
					       .pid = getpid() };
	int fd = records_fd(o), rc;

	if (fd < 0)
		return errno;
	rc = send_message(sock, &begin, sizeof(begin), &fd, 1, wait_ms);
	close(fd);
	for (uint32_t i = 0; i < o->nb_fds && rc == 0; i += TALK_FDS) {
		const struct talk_fds m = { .magic = CTL_MAGIC, .n = RTE_MIN(o->nb_fds - i, (uint32_t)TALK_FDS) };

		rc = send_message(sock, &m, sizeof(m), o->fds + i, m.n, wait_ms);
	}
	return rc;
}

int
talk_send(int sock, const struct stream_out *o, char *text)
{
	struct talk_answer a;
	int rc = send_all(sock, o, WAIT_MS);

	if (rc == 0) {
		ssize_t n = receive_message(sock, &a, sizeof(a), NULL, NULL);

		if (n == (ssize_t)sizeof(a) && a.magic == CTL_MAGIC) {
			snprintf(text, TALK_TEXT_BYTES, "%.*s", TALK_TEXT_BYTES - 1, a.text);
			return a.status < 0 ? EPROTO : a.status;
		}
		rc = n < 0 ? errno : EPIPE;
	}
	snprintf(text, TALK_TEXT_BYTES, "%s", rc == EPIPE || rc == ECONNRESET ? "it has ended" : strerror(rc));
	return rc;
}

void
talk_refuse(int sock, int status, const char *why)
{
	struct ctl_rsp r = { .magic = CTL_MAGIC, .op = CTL_HAND_OVER, .status = status };

	snprintf(r.message, sizeof(r.message), "%s", why);
	(void)send_message(sock, &r, sizeof(r), NULL, 0, NO_WAIT);
}

int
talk_store(int sock, const struct stream_out *o)
{
	return send_all(sock, o, NO_WAIT);
}

/* ---- The daemon that comes ---- */
static int
fail(char *text, const char *path, const char *what)
{
	snprintf(text, TALK_TEXT_BYTES, "the daemon at %s: %s", path, what);
	return -1;
}

/** Send a request and receive what comes first. @return its size, 0 or -1 as receive_message(). */
static ssize_t
call(int sock, const struct ctl_req *q, struct ctl_rsp *r, int *fds, uint32_t *nb)
{
	int rc = send_message(sock, q, sizeof(*q), NULL, 0, WAIT_MS);

	if (rc != 0) {
		errno = rc;
		return -1;
	}
	return receive_message(sock, r, sizeof(*r), fds, nb);
}

static int
connect_to(const char *path, int *sock, char *text)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	*sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (*sock >= 0 && connect(*sock, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		return 0;
	fail(text, path, errno == ENOENT || errno == ECONNREFUSED ? "there is none; start without --take-over, or by uroce_create()" : strerror(errno));
	if (*sock >= 0)
		close(*sock);
	return -1;
}

static int
say_hello(const char *path, int sock, char *text)
{
	struct ctl_req q = { .magic = CTL_MAGIC, .op = CTL_HELLO, .hello = { .abi_version = UROCE_ABI_VERSION, .pid = (uint32_t)getpid() } };
	struct ctl_rsp r;
	ssize_t n;

	snprintf(q.hello.program, sizeof(q.hello.program), "%s", program_invocation_short_name);
	n = call(sock, &q, &r, NULL, NULL);
	if (n == (ssize_t)sizeof(r) && r.status == 0)
		return 0;
	if (n == (ssize_t)sizeof(r) && r.status == EPROTO)
		return fail(text, path, "it is of another version, whose programs this one can't serve; stop it and start this one");
	return fail(text, path, n == (ssize_t)sizeof(r) ? r.message : n == 0 ? "it closed the connection" : strerror(errno));
}

/** Receive the descriptors. @return 0 or an errno value. */
static int
receive_fds(int sock, struct stream_in *in, uint32_t all)
{
	struct talk_fds m;
	uint32_t nb;
	ssize_t n;

	in->fds = calloc((size_t)all + TALK_FDS, sizeof(*in->fds));
	if (in->fds == NULL)
		return ENOMEM;
	while (in->nb_fds < all) {
		n = receive_message(sock, &m, sizeof(m), in->fds + in->nb_fds, &nb);
		if (n < 0)
			return errno;
		in->nb_fds += nb;
		if (n != (ssize_t)sizeof(m) || m.magic != CTL_MAGIC || m.n != nb || nb == 0 || in->nb_fds > all)
			return EPROTO;
	}
	return 0;
}

/** Map the records for good: nobody else writes to them any more. @return 0 or an errno value. */
static int
read_records(int fd, uint64_t bytes, struct stream_in *in)
{
	struct stat st;
	uint8_t *p;

	if (bytes == 0 || bytes > BYTES_MAX || fstat(fd, &st) != 0 || (uint64_t)st.st_size != bytes)
		return EPROTO;
	p = malloc(bytes);
	if (p == NULL)
		return ENOMEM;
	for (uint64_t done = 0; done < bytes;) {
		ssize_t n = pread(fd, p + done, bytes - done, (off_t)done);

		if (n <= 0) {
			free(p);
			return n < 0 ? errno : EPROTO;
		}
		done += (uint64_t)n;
	}
	in->bytes = p;
	in->n = bytes;
	return 0;
}

/** Receive what follows the first message. @param n,fds,nb  Its size and its descriptors. @return 0 or an errno value: EPROTO. */
static int
receive_rest(int sock, const struct talk_begin *begin, ssize_t n, const int *fds, uint32_t nb, struct stream_in *in)
{
	int rc = EPROTO;

	if (n == (ssize_t)sizeof(*begin) && begin->magic == CTL_MAGIC && begin->op == CTL_HAND_OVER && nb == 1 && begin->nb_fds <= FDS_MAX)
		rc = read_records(fds[0], begin->bytes, in);
	while (nb > 0)
		close(fds[--nb]);
	return rc == 0 ? receive_fds(sock, in, begin->nb_fds) : rc;
}

static int
receive_all(const char *path, struct talk *t, struct stream_in *in, char *text)
{
	const struct ctl_req q = { .magic = CTL_MAGIC, .op = CTL_HAND_OVER };
	struct talk_begin begin;
	int fds[TALK_FDS], rc;
	struct ctl_rsp r;
	uint32_t nb = 0;
	ssize_t n = call(t->sock, &q, &r, fds, &nb);

	if (n < 0)
		return fail(text, path, strerror(errno));
	if (n == (ssize_t)sizeof(r) && r.status != 0)
		return fail(text, path, r.message[0] != '\0' ? r.message : strerror(r.status));
	memcpy(&begin, &r, sizeof(begin));
	rc = receive_rest(t->sock, &begin, n, fds, nb, in);
	/* It waits for our answer, so this number is still its own. */
	if (rc == 0 && (t->pidfd = (int)syscall(SYS_pidfd_open, begin.pid, 0)) < 0)
		rc = errno;
	if (rc == EPROTO)
		return fail(text, path, n == 0 ? "it closed the connection" : "it doesn't know how to hand its programs over");
	return rc == 0 ? 0 : fail(text, path, strerror(rc));
}

static void
end_talk(struct talk *t)
{
	close(t->sock);
	if (t->pidfd >= 0)
		close(t->pidfd);
}

int
talk_ask(const char *path, struct talk *t, struct stream_in *in, char *text)
{
	*in = (struct stream_in){ 0 };
	t->pidfd = -1;
	if (connect_to(path, &t->sock, text) != 0)
		return -1;
	if (say_hello(path, t->sock, text) == 0 && receive_all(path, t, in, text) == 0)
		return 0;
	end_talk(t);
	talk_free(in);
	return -1;
}

static int
answer(const struct talk *t, int status, const char *text)
{
	struct talk_answer a = { .magic = CTL_MAGIC, .status = status };

	snprintf(a.text, sizeof(a.text), "%s", text);
	return send_message(t->sock, &a, sizeof(a), NULL, 0, WAIT_MS);
}

int
talk_reply(struct talk *t, int status, const char *text)
{
	int rc = answer(t, status, text);

	/* Until its last descriptor is closed, some drivers still have a socket there, or a program attached to the interface. */
	if (rc == 0 && status == 0)
		rc = wait_for(t->pidfd, POLLIN, WAIT_MS);
	end_talk(t);
	return rc == 0 ? 0 : -1;
}

int
talk_taken(struct talk *t, int *process)
{
	int rc = answer(t, 0, "");

	*process = t->pidfd;
	t->pidfd = -1;
	end_talk(t);
	if (rc != 0)
		close(*process);
	return rc == 0 ? 0 : -1;
}

int
talk_fetch(int sock, struct stream_in *in)
{
	struct talk_begin begin = { 0 };
	int fds[TALK_FDS], rc;
	uint32_t nb = 0;
	ssize_t n;

	*in = (struct stream_in){ 0 };
	n = receive_message(sock, &begin, sizeof(begin), fds, &nb);
	rc = n < 0 ? errno : n == 0 ? ENODATA : receive_rest(sock, &begin, n, fds, nb, in);
	if (rc != 0)
		talk_free(in);
	return rc;
}

void
talk_free(struct stream_in *in)
{
	stream_done(in);
	free(in->fds);
	free((void *)(uintptr_t)in->bytes);
	*in = (struct stream_in){ 0 };
}
