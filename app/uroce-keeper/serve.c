/* SPDX-License-Identifier: BSD-3-Clause */
/* No send or receive waits: who doesn't read what it is given within SEND_MS has gone. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/keeper.h"
#include "kept.h"
#include "serve.h"

enum { SEND_MS = 5000, RETRY_MS = 1, GUESTS = 4, POLL_DAEMON = 0, POLL_STANDBY, POLL_LISTENER, POLL_GUESTS, POLL_ALL = POLL_GUESTS + GUESTS };

/** A connection that is neither the daemon's nor the standby's yet. */
struct guest {
	int sock;         /**< -1: none */
	bool waits;       /**< it has said KEEPER_HELLO, and becomes the daemon when the one that is served has gone */
	uint32_t seconds; /**< what it has said */
	uint64_t came;    /**< the order in which they came */
};

static struct {
	struct kept old, now; /* what was committed by the daemon before; what this one keeps */
	bool committed;       /* what this one keeps counts */
	uint32_t room;
	uint32_t seconds, crashes, all_crashes;
	uint64_t committed_ns, ended_ns;
	uint64_t since_ns;    /* for how long it waits for a daemon; 0: for ever */
	bool ended;           /* properly */
	int daemon, process;  /* the daemon's connection and pidfd, -1: none */
	int standby;          /* its connection, -1: none; only beside a daemon */
	uint32_t standby_seconds;
	struct guest guests[GUESTS];
	uint64_t nb_guests;   /* that have come */
} self = { .daemon = -1, .process = -1, .standby = -1 };

/* What the daemon before has left is on its way to the one that is served. */
static struct {
	bool under_way;
	bool too_many;     /* descriptors on their way: no event tells when there are fewer */
	uint32_t next;     /* number */
	uint64_t until_ns;
} giving;

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* ---- Messages ---- */
union space {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(KEEPER_BATCH * sizeof(int))];
};

/** @return 0; EAGAIN, ETOOMANYREFS: not now; another errno value. */
static int
send_with(int sock, const void *data, size_t bytes, const int *fds, uint32_t n)
{
	union space space = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *h;

	if (n > 0) {
		msg.msg_control = space.bytes;
		msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
		h = CMSG_FIRSTHDR(&msg);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(h), fds, n * sizeof(int));
	}
	return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ? 0 : errno;
}

/** @param process  A pidfd that goes with it, or -1. @return 0 or an errno value. */
static int
tell_turn(int sock, enum keeper_whose_turn turn, int process)
{
	const struct keeper_turn t = { .magic = KEEPER_MAGIC, .version = KEEPER_VERSION, .turn = turn };

	return send_with(sock, &t, sizeof(t), &process, process >= 0 ? 1 : 0);
}

enum received { RECEIVED_NOTHING, RECEIVED_MESSAGE, RECEIVED_END };

/**
 * @param fd  Receives the descriptor that came with it, which becomes the caller's, or -1.
 * @return RECEIVED_END: the other side has gone, or it isn't one of this version.
 */
static enum received
receive(int sock, struct keeper_req *q, int *fd)
{
	union space space;
	struct iovec iov = { .iov_base = q, .iov_len = sizeof(*q) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof(space.bytes) };
	ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int fds[KEEPER_BATCH];
	uint32_t nb = 0;

	*fd = -1;
	if (n < 0)
		return errno == EINTR || errno == EAGAIN ? RECEIVED_NOTHING : RECEIVED_END;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&msg); h != NULL; h = CMSG_NXTHDR(&msg, h)) {
		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		nb = (uint32_t)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(h), nb * sizeof(int));
	}
	if (nb == 1)
		*fd = fds[0];
	for (uint32_t i = 0; i < nb && *fd < 0; i++)
		close_later(fds[i]);
	if (n == (ssize_t)sizeof(*q) && q->magic == KEEPER_MAGIC && (msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) == 0)
		return RECEIVED_MESSAGE;
	if (*fd >= 0)
		close_later(*fd);
	*fd = -1;
	return RECEIVED_END;
}

/* ---- A daemon ---- */
/** @return the number behind the last one in @p g. */
static uint32_t
fill_batch(const struct kept *k, uint32_t number, struct keeper_given *g, int *fds)
{
	*g = (struct keeper_given){ .magic = KEEPER_MAGIC };
	for (; number < k->size && g->n < KEEPER_BATCH; number++) {
		if (k->fds[number] < 0)
			continue;
		g->numbers[g->n] = number;
		fds[g->n++] = k->fds[number];
	}
	return number;
}

/** Give the daemon what is left, as much as its socket takes. @return false: it doesn't read, or has gone. */
static bool
give(void)
{
	const struct kept *k = &self.old;
	struct keeper_given g;
	int fds[KEEPER_BATCH], rc;
	uint32_t behind;

	for (; giving.next < k->size; giving.next = behind) {
		behind = fill_batch(k, giving.next, &g, fds);
		rc = g.n > 0 ? send_with(self.daemon, &g, sizeof(g), fds, g.n) : 0;
		/* ETOOMANYREFS: an ordinary user has only so many descriptors on their way. */
		giving.too_many = rc == ETOOMANYREFS;
		if (rc == EAGAIN || rc == ETOOMANYREFS || rc == EINTR)
			return now_ns() < giving.until_ns;
		if (rc != 0)
			return false;
	}
	giving.under_way = false;
	return true;
}

/** @return a pidfd of the process that has connected by @p sock, or -1. */
static int
process_of(int sock)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.pid > 0 ? (int)syscall(SYS_pidfd_open, peer.pid, 0) : -1;
}

/** Serve a daemon. If it has gone, the end of its connection is seen as that of any other. */
static void
begin(int sock, uint32_t seconds)
{
	const struct keeper_state s = { .magic = KEEPER_MAGIC, .version = KEEPER_VERSION, .nb_fds = self.old.n, .room = self.room, .crashes = self.crashes,
					.all_crashes = self.all_crashes, .ended_ns = self.ended_ns };

	self.daemon = sock;
	self.process = process_of(sock);
	self.seconds = seconds;
	giving.under_way = true;
	giving.too_many = false;
	giving.next = 0;
	giving.until_ns = now_ns() + SEND_MS * UINT64_C(1000000);
	if (send_with(sock, &s, sizeof(s), NULL, 0) != 0 || !give())
		shutdown(sock, SHUT_RDWR);
}

/** @param fd  That came with it, or -1; becomes ours. @return false: it is no daemon of this version, or there is no room: the connection ends. */
static bool
execute(const struct keeper_req *q, int fd)
{
	if (q->op == KEEPER_KEEP && fd >= 0 && self.old.n + self.now.n < self.room && kept_add(&self.now, q->number, fd))
		return true;
	if (fd >= 0)
		close_later(fd);
	switch (q->op) {
	case KEEPER_FORGET:
		kept_forget(&self.now, q->number);
		return true;
	case KEEPER_COMMIT:
		kept_forget_all(&self.old);
		self.committed = true;
		self.committed_ns = now_ns();
		return true;
	case KEEPER_END:
		self.ended = true;
		return false;
	default:
		return false;
	}
}

/** @return false: the daemon has gone. */
static bool
serve_daemon(void)
{
	struct keeper_req q;
	int fd;

	if (giving.under_way)
		return give();
	switch (receive(self.daemon, &q, &fd)) {
	case RECEIVED_NOTHING:
		return true;
	case RECEIVED_MESSAGE:
		return execute(&q, fd);
	case RECEIVED_END:
		break;
	}
	return false;
}

/** What is kept after the daemon's connection has ended. */
static void
settle(void)
{
	bool at_once = !self.committed || now_ns() - self.committed_ns < KEEPER_AT_ONCE_S * UINT64_C(1000000000);

	if (self.ended) {
		kept_forget_all(&self.old);
		kept_forget_all(&self.now);
		self.crashes = 0;
	} else {
		self.crashes = at_once ? self.crashes + 1 : 1;
		self.all_crashes++;
		self.ended_ns = self.since_ns = now_ns();
	}
	if (self.committed) {
		self.old = self.now;
		self.now = (struct kept){ 0 };
	}
	kept_forget_all(&self.now);
	self.committed = false;
}

/* ---- Who comes next ---- */
static void
end_standby(void)
{
	close(self.standby);
	self.standby = -1;
}

/** The standby, if there is one, is the daemon from now on. @param process  Of the daemon that has crashed, or -1. */
static void
promote(int process)
{
	int sock = self.standby;

	if (sock < 0)
		return;
	self.standby = -1;
	/* It may have ended a moment ago. */
	if (tell_turn(sock, KEEPER_SERVES, process) != 0)
		close(sock);
	else
		begin(sock, self.standby_seconds);
}

/** The daemon's connection has ended. */
static void
gone(void)
{
	int process = self.process;

	close(self.daemon);
	self.daemon = self.process = -1;
	settle();
	if (self.ended && self.standby >= 0) {
		(void)tell_turn(self.standby, KEEPER_ENDED, -1);
		end_standby();
	}
	promote(process);
	if (process >= 0)
		close(process);
}

/** Serve the daemon that has waited longest, if one waits. */
static void
serve_waiting(void)
{
	struct guest *first = NULL;

	for (struct guest *g = self.guests; g < &self.guests[GUESTS]; g++)
		if (g->sock >= 0 && g->waits && (first == NULL || g->came < first->came))
			first = g;
	if (first == NULL)
		return;
	begin(first->sock, first->seconds);
	first->sock = -1;
}

/** Somebody wants to be the standby. Without a daemon it is the daemon. */
static void
stand_by(int sock, uint32_t seconds)
{
	if (self.standby >= 0)
		(void)tell_turn(sock, KEEPER_TAKEN, -1);
	if (self.standby >= 0 || (self.daemon >= 0 && tell_turn(sock, KEEPER_WAITS, -1) != 0)) {
		close(sock);
		return;
	}
	self.standby = sock;
	self.standby_seconds = seconds;
	if (self.daemon < 0)
		promote(-1);
}

/* ---- Guests ---- */
/** @return a free place; that of the guest who has been silent longest; NULL: all have greeted, and wait. */
static struct guest *
find_place(void)
{
	struct guest *silent = NULL;

	for (struct guest *g = self.guests; g < &self.guests[GUESTS]; g++) {
		if (g->sock < 0)
			return g;
		if (!g->waits && (silent == NULL || g->came < silent->came))
			silent = g;
	}
	if (silent != NULL)
		close(silent->sock);
	return silent;
}

/** Let somebody in who is of root or of our own user. */
static void
admit(int listener, uid_t uid)
{
	int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct guest *g = NULL;
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (sock < 0)
		return;
	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && (peer.uid == 0 || peer.uid == uid))
		g = find_place();
	if (g != NULL)
		*g = (struct guest){ .sock = sock, .came = self.nb_guests++ };
	else
		close(sock);
}

/** A guest has said something, or has gone. */
static void
hear(struct guest *g)
{
	struct keeper_req q;
	int fd = -1;
	enum received r = g->waits ? RECEIVED_END : receive(g->sock, &q, &fd);

	if (r == RECEIVED_NOTHING)
		return;
	if (fd >= 0)
		close_later(fd);
	if (r == RECEIVED_MESSAGE && q.version == KEEPER_VERSION && q.op == KEEPER_HELLO) {
		g->waits = true;
		g->seconds = q.seconds;
		return;
	}
	if (r == RECEIVED_MESSAGE && q.version == KEEPER_VERSION && q.op == KEEPER_STANDBY)
		stand_by(g->sock, q.seconds);
	else
		close(g->sock);
	g->sock = -1;
}

/** The daemon has ended properly. @return whether there is another one already, also if what it has said is still to be read. */
static bool
another_comes(int listener, uid_t uid)
{
	bool comes = false;

	for (unsigned int i = 0; i < GUESTS; i++)
		admit(listener, uid);
	for (struct guest *g = self.guests; g < &self.guests[GUESTS]; g++) {
		if (g->sock >= 0 && !g->waits)
			hear(g);
		comes |= g->sock >= 0 && g->waits;
	}
	return comes || self.daemon >= 0;
}

/* ---- All of them ---- */
/** @return for how long to wait, in ms for poll(): until what is kept is given up; -1: for ever. */
static int
patience(bool stay)
{
	uint64_t until = self.since_ns + self.seconds * UINT64_C(1000000000), now = now_ns();

	if (self.daemon >= 0 && giving.under_way)
		return giving.too_many ? RETRY_MS : SEND_MS;
	if (self.daemon >= 0 || self.since_ns == 0 || (stay && self.old.n == 0))
		return -1;
	return until <= now ? 0 : (int)((until - now + 999999) / 1000000);
}

/** Nobody came in time. */
static void
give_up(void)
{
	if (self.old.n > 0)
		fprintf(stderr, "uroce-keeper: no daemon came within %u s: the programs of the last one end\n", self.seconds);
	kept_give_up(&self.old);
	self.crashes = 0;
	self.since_ns = 0;
}

/** Wait for what happens. */
static void
wait_for(int listener, int ms, struct pollfd *p)
{
	short daemon = !giving.under_way ? POLLIN : giving.too_many ? 0 : POLLOUT;

	p[POLL_DAEMON] = (struct pollfd){ .fd = self.daemon, .events = daemon };
	p[POLL_STANDBY] = (struct pollfd){ .fd = self.standby, .events = POLLIN };
	p[POLL_LISTENER] = (struct pollfd){ .fd = listener, .events = POLLIN };
	/* What a guest that waits says next is for later; its end is seen all the same. */
	for (unsigned int i = 0; i < GUESTS; i++)
		p[POLL_GUESTS + i] = (struct pollfd){ .fd = self.guests[i].sock, .events = self.guests[i].waits ? 0 : POLLIN };
	if (poll(p, POLL_ALL, ms) >= 0)
		return;
	for (unsigned int i = 0; i < POLL_ALL; i++)
		p[i].revents = 0;
}

void
serve(int listener, uid_t uid, uint32_t room, uint32_t first_s, bool stay)
{
	struct pollfd p[POLL_ALL];
	int ms;

	self.room = room;
	self.since_ns = stay ? 0 : now_ns();
	self.seconds = first_s;
	for (unsigned int i = 0; i < GUESTS; i++)
		self.guests[i].sock = -1;
	for (;;) {
		ms = patience(stay);
		if (ms == 0) {
			give_up();
			if (!stay)
				return;
			continue;
		}
		wait_for(listener, ms, p);
		/* A standby only listens. If it has ended it must not take over. */
		if (p[POLL_STANDBY].revents != 0)
			end_standby();
		/* Guests before the daemon: another_comes() hears them, too, and whoever is heard again after HELLO is taken to have gone. */
		for (unsigned int i = 0; i < GUESTS; i++)
			if (p[POLL_GUESTS + i].revents != 0)
				hear(&self.guests[i]);
		if ((p[POLL_DAEMON].revents != 0 || (self.daemon >= 0 && giving.under_way)) && !serve_daemon()) {
			gone();
			if (self.ended && !stay && !another_comes(listener, uid))
				return;
			self.ended = false;
		}
		if (self.daemon < 0)
			serve_waiting();
		if (p[POLL_LISTENER].revents != 0)
			admit(listener, uid);
	}
}
