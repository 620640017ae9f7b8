/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets from a program's side. Written for rdma-core; what differs there is in docs/rsockets.md. */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rsocks.h"

enum {
	STREAM_BYTES = 4 << 20,
	MANY = 40,
	HASTY = 300,
	HASTY_STEPS = 30,
	HASTY_STEP_US = 100,
	PIECE_BYTES = 10,
	PIECES = 5000,
};

void
rt_addr(struct vt *t, int family, struct sockaddr_storage *out, socklen_t *len)
{
	struct sockaddr_in6 *in6 = (void *)out;
	struct sockaddr_in *in = (void *)out;
	struct ibv_port_attr port;
	union ibv_gid gid;

	memset(out, 0, sizeof(*out));
	VT_OK(ibv_query_port(t->ctx, VT_PORT, &port));
	for (int i = 0; i < port.gid_tbl_len; i++) {
		bool v4;

		if (ibv_query_gid(t->ctx, VT_PORT, i, &gid) || gid.raw[0] == 0xfe)
			continue;
		v4 = IN6_IS_ADDR_V4MAPPED((struct in6_addr *)&gid);
		if (v4 && family == AF_INET) {
			in->sin_family = AF_INET;
			memcpy(&in->sin_addr, gid.raw + 12, 4);
			*len = sizeof(*in);
			return;
		}
		if (!v4 && family == AF_INET6 && gid.raw[0]) {
			in6->sin6_family = AF_INET6;
			memcpy(&in6->sin6_addr, gid.raw, 16);
			*len = sizeof(*in6);
			return;
		}
	}
	vt_die("no address");
}

int
rt_listen(struct vt *t, int family, struct sockaddr_storage *addr, socklen_t *len)
{
	int l = rsocket(family, SOCK_STREAM, 0);

	if (l < 0)
		vt_die("rsocket");
	rt_addr(t, family, addr, len);
	if (rbind(l, (struct sockaddr *)addr, *len) || rlisten(l, 10))
		vt_die("rlisten");
	VT_CHECK(!rgetsockname(l, (struct sockaddr *)addr, len), "%m");
	return l;
}

void
rt_pair(struct vt *t, int family, int s[2], void (*set)(int s))
{
	struct sockaddr_storage addr;
	socklen_t len;
	int l = rt_listen(t, family, &addr, &len);

	s[0] = rsocket(family, SOCK_STREAM, 0);
	if (set) {
		set(l);
		set(s[0]);
	}
	if (rconnect(s[0], (struct sockaddr *)&addr, len))
		vt_die("rconnect");
	s[1] = raccept(l, NULL, NULL);
	if (s[1] < 0)
		vt_die("raccept");
	VT_OK(rclose(l));
}

void
rt_close(const int s[2])
{
	VT_OK(rclose(s[0]));
	VT_OK(rclose(s[1]));
}

int
rt_poll(int s, int events, int ms)
{
	struct pollfd p = { .fd = s, .events = (short)events };

	return rpoll(&p, 1, ms) < 0 ? -1 : p.revents;
}

/* ---- Data ---- */
struct flow {
	int s;
	unsigned int seed;
	uint64_t start;
	bool bad;
};

static void *
writer(void *arg)
{
	struct flow *f = arg;
	uint8_t *buf = malloc(200000);
	size_t at = 0;

	while (at < STREAM_BYTES && !f->bad) {
		size_t n = (size_t)rand_r(&f->seed) % (rand_r(&f->seed) % 8 ? 3000 : 200000) + 1;
		ssize_t sent;

		n = n < STREAM_BYTES - at ? n : STREAM_BYTES - at;
		for (size_t i = 0; i < n; i++)
			buf[i] = rt_byte(f->start + at + i);
		sent = rsend(f->s, buf, n, 0);
		if (sent <= 0)
			f->bad = true;
		else
			at += (size_t)sent;
	}
	free(buf);
	return NULL;
}

static void *
reader(void *arg)
{
	struct flow *f = arg;
	uint8_t *buf = malloc(100000);
	size_t at = 0;

	while (at < STREAM_BYTES && !f->bad) {
		ssize_t n = rrecv(f->s, buf, (size_t)rand_r(&f->seed) % 100000 + 1, 0);

		if (n <= 0)
			f->bad = true;
		for (ssize_t i = 0; i < n; i++)
			f->bad |= buf[i] != rt_byte(f->start + at + (size_t)i);
		at += n > 0 ? (size_t)n : 0;
	}
	free(buf);
	return NULL;
}

static void
small_buffers(int s)
{
	int bytes = 5000, queue = 16, none = 0;

	VT_OK(rsetsockopt(s, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)));
	VT_OK(rsetsockopt(s, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)));
	VT_OK(rsetsockopt(s, SOL_RDMA, RDMA_SQSIZE, &queue, sizeof(queue)));
	VT_OK(rsetsockopt(s, SOL_RDMA, RDMA_RQSIZE, &queue, sizeof(queue)));
	VT_OK(rsetsockopt(s, SOL_RDMA, RDMA_INLINE, &none, sizeof(none)));
}

static void
both_ways_at_once(struct vt *t, int family, void (*set)(int s))
{
	struct flow f[4];
	pthread_t th[4];
	int s[2];

	rt_pair(t, family, s, set);
	for (int i = 0; i < 4; i++) {
		/* 0 and 1 write and read one direction, 2 and 3 the other. */
		f[i] = (struct flow){ .s = s[i == 1 || i == 2], .seed = (unsigned int)i, .start = i / 2 * 77777 };
		pthread_create(&th[i], NULL, i % 2 ? reader : writer, &f[i]);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(th[i], NULL);
		VT_CHECK(!f[i].bad, "thread %d", i);
	}
	rt_close(s);
}

static void
one_thread_writes_while_another_reads(struct vt *t)
{
	both_ways_at_once(t, AF_INET, NULL);
	both_ways_at_once(t, AF_INET6, NULL);
}

static void
the_smallest_buffers_and_queues_are_enough(struct vt *t)
{
	both_ways_at_once(t, AF_INET, small_buffers);
}

static void
flags_of_receiving(struct vt *t)
{
	char b[16];
	int s[2];

	rt_pair(t, AF_INET, s, NULL);
	VT_CHECK(rrecv(s[1], b, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN, "%m");
	VT_CHECK(rsend(s[0], "abcdef", 6, 0) == 6, "%m");
	VT_CHECK(rt_poll(s[1], POLLIN, RT_MS) == POLLIN, "nothing");
	VT_CHECK(rrecv(s[1], b, 3, MSG_PEEK) == 3 && !memcmp(b, "abc", 3), "%.3s", b);
	VT_CHECK(rrecv(s[1], b, sizeof(b), MSG_PEEK) == 6 && !memcmp(b, "abcdef", 6), "%.6s", b);
	VT_CHECK(rrecv(s[1], b, 2, 0) == 2 && !memcmp(b, "ab", 2), "%.2s", b);
	VT_CHECK(rsend(s[0], "ghij", 4, 0) == 4, "%m");
	VT_CHECK(rrecv(s[1], b, 8, MSG_WAITALL) == 8 && !memcmp(b, "cdefghij", 8), "%.8s", b);
	VT_CHECK(rrecv(s[1], b, 0, 0) == 0, "%m");
	VT_OK(rfcntl(s[1], F_SETFL, O_NONBLOCK));
	VT_CHECK(rrecv(s[1], b, 1, 0) == -1 && errno == EAGAIN, "%m");
	rt_close(s);
}

static void
small_pieces_arrive_without_another_call(struct vt *t)
{
	uint8_t b[PIECE_BYTES * PIECES];
	int s[2];

	rt_pair(t, AF_INET, s, NULL);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(b); i++)
			b[i] = rt_byte(i);
		for (size_t i = 0; i < PIECES; i++)
			VT_CHECK(rsend(s[0], b + i * PIECE_BYTES, PIECE_BYTES, 0) == PIECE_BYTES, "%m");
		memset(b, 0, sizeof(b));
		/* Nobody touches s[0] any more. */
		VT_CHECK(rrecv(s[1], b, sizeof(b), MSG_WAITALL) == sizeof(b), "%m");
		for (size_t i = 0; i < sizeof(b); i++)
			VT_CHECK(b[i] == rt_byte(i), "byte %zu", i);
		usleep(20000);
	}
	rt_close(s);
}

/* So slowly that each piece is a message of its own, until few messages are left; nobody reads meanwhile. */
static void
slow_pieces_do_not_use_up_the_messages(struct vt *t)
{
	enum { SLOW = 300, QUICK = 800, QUICK_NS = 5000 };
	uint8_t b[PIECE_BYTES];
	uint64_t until;
	int s[2];

	rt_pair(t, AF_INET, s, NULL);
	for (int i = 0; i < SLOW + QUICK; i++) {
		memset(b, i, sizeof(b));
		VT_CHECK(rsend(s[0], b, sizeof(b), 0) == sizeof(b), "%m");
		if (i < SLOW)
			usleep(200);
		for (until = vt_now_ns() + QUICK_NS; i >= SLOW && vt_now_ns() < until;)
			;
	}
	for (int i = 0; i < SLOW + QUICK; i++) {
		VT_CHECK(rrecv(s[1], b, sizeof(b), MSG_WAITALL) == sizeof(b), "%m");
		VT_CHECK(b[0] == (uint8_t)i && b[PIECE_BYTES - 1] == (uint8_t)i, "piece %d", i);
	}
	rt_close(s);
}

static void
vectors(struct vt *t)
{
	char a[3], b[1], c[10];
	struct iovec out[4] = { { "ab", 2 }, { NULL, 0 }, { "cdefg", 5 }, { "h", 1 } };
	struct iovec in[3] = { { a, 3 }, { b, 1 }, { c, 10 } };
	struct msghdr msg = { .msg_iov = in, .msg_iovlen = 3 };
	int s[2];

	rt_pair(t, AF_INET, s, NULL);
	VT_CHECK(rwritev(s[0], out, 4) == 8, "%m");
	VT_CHECK(rreadv(s[1], in, 3) == 8, "%m");
	VT_CHECK(!memcmp(a, "abc", 3) && b[0] == 'd' && !memcmp(c, "efgh", 4), "other bytes");
	VT_CHECK(rwritev(s[1], out, 4) == 8, "%m");
	VT_CHECK(rrecvmsg(s[0], &msg, 0) == 8, "%m");
	VT_CHECK(!memcmp(a, "abc", 3) && b[0] == 'd' && !memcmp(c, "efgh", 4), "other bytes");
	rt_close(s);
}

/* ---- The end ---- */
static void
one_direction_ends_and_the_other_goes_on(struct vt *t)
{
	char b[8];
	int s[2];

	rt_pair(t, AF_INET, s, NULL);
	VT_CHECK(rsend(s[0], "last", 4, 0) == 4, "%m");
	VT_OK(rshutdown(s[0], SHUT_WR));
	VT_CHECK(rsend(s[0], "x", 1, 0) == -1 && errno == EPIPE, "%m");
	VT_CHECK(rrecv(s[1], b, 8, MSG_WAITALL) == 4, "%m");
	VT_CHECK(rrecv(s[1], b, 8, 0) == 0, "%m");
	VT_CHECK(rsend(s[1], "answer", 6, 0) == 6, "%m");
	VT_CHECK(rrecv(s[0], b, 8, 0) == 6, "%m");
	VT_OK(rshutdown(s[1], SHUT_WR));
	VT_CHECK(rrecv(s[0], b, 8, 0) == 0, "%m");
	rt_close(s);
}

static void
what_was_sent_is_read_before_the_end(struct vt *t)
{
	char b[8];
	int s[2];

	rt_pair(t, AF_INET, s, NULL);
	VT_CHECK(rsend(s[0], "bye", 3, 0) == 3, "%m");
	VT_OK(rclose(s[0]));
	VT_CHECK(rt_poll(s[1], POLLIN, RT_MS) == POLLIN, "a hang-up before the data");
	VT_CHECK(rrecv(s[1], b, 8, 0) == 3, "%m");
	VT_CHECK(rrecv(s[1], b, 8, 0) == 0, "%m");
	VT_CHECK(rt_poll(s[1], POLLIN, RT_MS) == (POLLIN | POLLHUP), "no hang-up");
	VT_CHECK(rsend(s[1], b, 1, 0) == -1 && errno == ECONNRESET, "%m");
	VT_OK(rclose(s[1]));
}

static void *
shut_down(void *s)
{
	usleep(50000);
	rshutdown(*(int *)s, SHUT_RDWR);
	return NULL;
}

static void
shutting_down_wakes_who_waits(struct vt *t)
{
	pthread_t th;
	int s[2];
	char b;

	rt_pair(t, AF_INET, s, NULL);
	pthread_create(&th, NULL, shut_down, &s[0]);
	VT_CHECK(rrecv(s[0], &b, 1, 0) == 0, "%m");
	pthread_join(th, NULL);
	VT_CHECK(rrecv(s[1], &b, 1, 0) == 0, "%m");
	rt_close(s);
}

/* ---- Connecting ---- */
static void
nonblocking_connections(struct vt *t)
{
	struct sockaddr_storage addr, name;
	socklen_t len, name_len = sizeof(name), four = sizeof(int);
	int l = rt_listen(t, AF_INET, &addr, &len), s = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), a, err = -1;

	VT_OK(rfcntl(l, F_SETFL, O_NONBLOCK));
	VT_CHECK(rfcntl(l, F_GETFL) & O_NONBLOCK, "flags");
	VT_CHECK(raccept(l, NULL, NULL) == -1 && errno == EAGAIN, "%m");
	VT_CHECK(rconnect(s, (struct sockaddr *)&addr, len) == -1 && errno == EINPROGRESS, "%m");
	VT_CHECK(rt_poll(s, POLLOUT, RT_MS) == POLLOUT, "not connected");
	VT_CHECK(!rgetsockopt(s, SOL_SOCKET, SO_ERROR, &err, &four) && !err, "%s", strerror(err));
	VT_CHECK(rt_poll(l, POLLIN, RT_MS) == POLLIN, "nobody to accept");
	a = raccept(l, (struct sockaddr *)&name, &name_len);
	VT_CHECK(a >= 0 && name_len == sizeof(struct sockaddr_in), "%m");
	VT_CHECK(((struct sockaddr_in *)&name)->sin_addr.s_addr == ((struct sockaddr_in *)&addr)->sin_addr.s_addr, "who?");
	VT_OK(rclose(s));
	VT_OK(rclose(a));
	VT_OK(rclose(l));
	/* Nobody listens there any more. */
	s = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	VT_CHECK(rconnect(s, (struct sockaddr *)&addr, len) == -1 && errno == EINPROGRESS, "%m");
	VT_CHECK(rt_poll(s, POLLOUT, RT_MS) & POLLERR, "connected");
	VT_CHECK(!rgetsockopt(s, SOL_SOCKET, SO_ERROR, &err, &four) && err == ECONNREFUSED, "%s", strerror(err));
	VT_OK(rclose(s));
}

static void
a_listener_ends_with_those_it_did_not_accept(struct vt *t)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int l = rt_listen(t, AF_INET, &addr, &len), s = rsocket(AF_INET, SOCK_STREAM, 0);
	char b;

	VT_OK(rconnect(s, (struct sockaddr *)&addr, len));
	VT_CHECK(rt_poll(l, POLLIN, RT_MS) == POLLIN, "nobody to accept");
	VT_OK(rclose(l));
	VT_CHECK(rrecv(s, &b, 1, 0) == 0, "%m");
	VT_OK(rclose(s));
}

static int
open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void
connections_leave_nothing(struct vt *t)
{
	int s[2], before;

	rt_pair(t, AF_INET, s, NULL);
	rt_close(s);
	before = open_fds();
	for (int i = 0; i < MANY; i++) {
		rt_pair(t, AF_INET, s, NULL);
		VT_CHECK(rsend(s[0], "x", 1, 0) == 1, "%m");
		rt_close(s);
	}
	VT_CHECK(open_fds() == before, "%d descriptors were %d", open_fds(), before);
}

/** At every stage of the way there. */
static void
closing_while_connecting_leaves_nothing(struct vt *t)
{
	struct sockaddr_storage addr;
	int s[2], l, before;
	uint64_t end;
	socklen_t len;

	rt_pair(t, AF_INET, s, NULL);
	rt_close(s);
	before = open_fds();
	l = rt_listen(t, AF_INET, &addr, &len);
	for (int i = 0; i < HASTY; i++) {
		s[0] = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		/* It may be connected by the time that the call ends, or refused: nobody accepts those that wait at the listener. */
		VT_CHECK(rconnect(s[0], (struct sockaddr *)&addr, len) == 0 || errno == EINPROGRESS || errno == ECONNREFUSED, "%m");
		usleep((useconds_t)(i % HASTY_STEPS * HASTY_STEP_US));
		VT_OK(rclose(s[0]));
	}
	VT_OK(rclose(l));
	/* Those that the listener refused, the library's thread closes. */
	end = vt_now_ns() + RT_MS * UINT64_C(1000000);
	while (open_fds() != before && vt_now_ns() < end)
		usleep(1000);
	VT_CHECK(open_fds() == before, "%d descriptors were %d", open_fds(), before);
}

static void
numbers_that_are_no_rsocket(struct vt *t)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	int wrong[] = { -1, 0, 9999, INT32_MAX };
	char b;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		VT_CHECK(rrecv(wrong[i], &b, 1, 0) == -1 && errno == EBADF, "%m");
		VT_CHECK(rclose(wrong[i]) != 0, "closed");
		VT_CHECK(rbind(wrong[i], (struct sockaddr *)&sin, sizeof(sin)) == -1 && errno == EBADF, "%m");
	}
	VT_CHECK(rsocket(AF_UNIX, SOCK_STREAM, 0) == -1, "of AF_UNIX");
	VT_CHECK(rsocket(AF_INET, SOCK_RAW, 0) == -1, "raw");
	VT_CHECK(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP) == -1, "streams of UDP");
}

/* As sockets say it, also where rdma_cm makes a difference: one of the two is a wildcard. */
static void
a_port_that_is_taken(struct vt *t)
{
	struct sockaddr_in own, any = { .sin_family = AF_INET }, foreign = { .sin_family = AF_INET };
	struct sockaddr_storage addr;
	socklen_t len;
	int l = rt_listen(t, AF_INET, &addr, &len), s = rsocket(AF_INET, SOCK_STREAM, 0), on = 1;

	memcpy(&own, &addr, sizeof(own));
	any.sin_port = own.sin_port;
	foreign.sin_addr.s_addr = htonl(0xc0000201);
	VT_CHECK(rbind(s, (struct sockaddr *)&own, sizeof(own)) == -1 && errno == EADDRINUSE, "%m");
	VT_CHECK(rbind(s, (struct sockaddr *)&any, sizeof(any)) == -1 && errno == EADDRINUSE, "%m");
	VT_CHECK(rbind(s, (struct sockaddr *)&foreign, sizeof(foreign)) == -1 && errno == EADDRNOTAVAIL, "%m");
	VT_OK(rclose(s));
	VT_OK(rclose(l));
	/* Both may have it, and one may listen. */
	l = rsocket(AF_INET, SOCK_STREAM, 0);
	s = rsocket(AF_INET, SOCK_STREAM, 0);
	VT_OK(rsetsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	VT_OK(rsetsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
	VT_OK(rbind(l, (struct sockaddr *)&own, sizeof(own)));
	VT_OK(rbind(s, (struct sockaddr *)&any, sizeof(any)));
	VT_OK(rlisten(l, 1));
	VT_CHECK(rlisten(s, 1) == -1 && errno == EADDRINUSE, "%m");
	VT_OK(rclose(s));
	VT_OK(rclose(l));
}

/* ---- Waiting ---- */
static void
rsockets_and_others_are_polled_together(struct vt *t)
{
	struct pollfd p[4];
	fd_set in;
	struct timeval tv = { 0, 1000 };
	int s[2], fds[2];
	char b;

	rt_pair(t, AF_INET, s, NULL);
	VT_OK(pipe(fds));
	p[0] = (struct pollfd){ .fd = s[0], .events = POLLIN };
	p[1] = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	p[2] = (struct pollfd){ .fd = s[1], .events = POLLIN };
	p[3] = (struct pollfd){ .fd = -1, .events = POLLIN };
	VT_CHECK(rpoll(p, 4, 0) == 0 && rpoll(p, 4, 20) == 0, "something");
	VT_CHECK(write(fds[1], "x", 1) == 1 && rpoll(p, 4, RT_MS) == 1 && p[1].revents == POLLIN, "not the pipe");
	VT_CHECK(rsend(s[0], "y", 1, 0) == 1, "%m");
	VT_CHECK(rt_poll(s[1], POLLIN, RT_MS) == POLLIN, "not the rsocket");
	VT_CHECK(rpoll(p, 4, RT_MS) == 2 && p[1].revents == POLLIN && p[2].revents == POLLIN && !p[0].revents, "not both");
	VT_CHECK(read(fds[0], &b, 1) == 1 && b == 'x', "%m");
	FD_ZERO(&in);
	FD_SET(s[0], &in);
	FD_SET(s[1], &in);
	FD_SET(fds[0], &in);
	VT_CHECK(rselect(FD_SETSIZE, &in, NULL, NULL, NULL) == 1 && FD_ISSET(s[1], &in) && !FD_ISSET(s[0], &in), "select");
	VT_CHECK(rrecv(s[1], &b, 1, 0) == 1 && b == 'y', "%m");
	VT_CHECK(rselect(FD_SETSIZE, &in, NULL, NULL, &tv) == 0 && !FD_ISSET(s[1], &in), "select");
	close(fds[0]);
	close(fds[1]);
	rt_close(s);
}

static void *
send_later(void *s)
{
	usleep(30000);
	return (void *)(intptr_t)(rsend(*(int *)s, "z", 1, 0) == 1);
}

static void
many_threads_wait_for_one_message(struct vt *t)
{
	pthread_t th;
	int s[2];
	char b;

	rt_pair(t, AF_INET, s, NULL);
	for (int i = 0; i < 5; i++) {
		pthread_create(&th, NULL, send_later, &s[0]);
		VT_CHECK(rt_poll(s[1], POLLIN, RT_MS) == POLLIN, "asleep");
		VT_CHECK(rrecv(s[1], &b, 1, 0) == 1, "%m");
		pthread_join(th, NULL);
	}
	rt_close(s);
}

/* ---- Mappings ---- */
static void
two_mappings(int s)
{
	int n = 2;

	VT_OK(rsetsockopt(s, SOL_RDMA, RDMA_IOMAPSIZE, &n, sizeof(n)));
}

static void
mapped_memory_is_written_by_offset(struct vt *t)
{
	static uint8_t mem[3][10000], data[10000];
	int s[2];
	char b;

	rt_pair(t, AF_INET, s, two_mappings);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = rt_byte(i);
	VT_CHECK(riomap(s[1], mem[0], sizeof(mem[0]), PROT_WRITE, 0, 1000) == 1000, "%m");
	VT_CHECK(riomap(s[1], mem[1], sizeof(mem[1]), PROT_WRITE, 0, -1) == (off_t)(uintptr_t)mem[1], "%m");
	VT_CHECK(riomap(s[1], mem[2], sizeof(mem[2]), PROT_WRITE, 0, 0) == -1 && errno == ENOMEM, "a third of two");
	VT_CHECK(rsend(s[1], "m", 1, 0) == 1 && rrecv(s[0], &b, 1, 0) == 1, "%m");
	VT_CHECK(riowrite(s[0], data, sizeof(data), 1000, 0) == sizeof(data), "%m");
	VT_CHECK(riowrite(s[0], data, 100, (off_t)(uintptr_t)mem[1] + 50, 0) == 100, "%m");
	VT_CHECK(riowrite(s[0], data, 1, 999, 0) == (size_t)-1, "outside");
	VT_CHECK(riowrite(s[0], data, 100, 1000 + sizeof(mem[0]) - 40, 0) == 40, "past the end");
	VT_CHECK(rsend(s[0], "w", 1, 0) == 1 && rrecv(s[1], &b, 1, 0) == 1, "%m");
	VT_CHECK(!memcmp(mem[0], data, sizeof(data) - 40) && !memcmp(mem[0] + sizeof(data) - 40, data, 40), "other bytes");
	VT_CHECK(!mem[1][49] && !memcmp(mem[1] + 50, data, 100) && !mem[1][150], "other bytes");
	VT_OK(riounmap(s[1], mem[0], sizeof(mem[0])));
	VT_CHECK(riounmap(s[1], mem[0], sizeof(mem[0])) == -1 && errno == EINVAL, "twice");
	VT_CHECK(riomap(s[1], mem[2], sizeof(mem[2]), PROT_WRITE, 0, 0) == 0, "%m");
	VT_OK(riounmap(s[1], mem[2], sizeof(mem[2])));
	rt_close(s);
}

/* ---- fork() ---- */
/** A connection of the child's own. @p addr: of any port */
static bool
child_talks(const struct sockaddr_storage *addr, socklen_t len)
{
	struct sockaddr_storage at = *addr;
	int l = rsocket(AF_INET, SOCK_STREAM, 0), s = rsocket(AF_INET, SOCK_STREAM, 0), a;
	char b = 0;

	if (l < 0 || s < 0 || rbind(l, (struct sockaddr *)&at, len) || rlisten(l, 1) ||
	    rgetsockname(l, (struct sockaddr *)&at, &len) || rconnect(s, (struct sockaddr *)&at, len))
		return false;
	a = raccept(l, NULL, NULL);
	return a >= 0 && rsend(s, "o", 1, 0) == 1 && rrecv(a, &b, 1, 0) == 1 && b == 'o' && !rclose(s) && !rclose(a) &&
	       !rclose(l);
}

static void
a_child_has_its_own(struct vt *t)
{
	struct sockaddr_storage addr;
	int s[2], status;
	socklen_t len;
	pid_t child;
	char b;

	rt_addr(t, AF_INET, &addr, &len);
	rt_pair(t, AF_INET, s, NULL);
	child = fork();
	if (!child) {
		bool ok = rsend(s[0], "c", 1, 0) == -1 && errno == EBADF && !rclose(s[0]);

		_exit(!(ok && child_talks(&addr, len)));
	}
	VT_CHECK(waitpid(child, &status, 0) == child && status == 0, "status %#x", status);
	VT_CHECK(rsend(s[0], "p", 1, 0) == 1 && rrecv(s[1], &b, 1, 0) == 1 && b == 'p', "%m");
	rt_close(s);
}

int
main(int argc, char **argv)
{
	static const struct vt_case own[] = {
		VT_CASE(one_thread_writes_while_another_reads),
		VT_CASE(the_smallest_buffers_and_queues_are_enough),
		VT_CASE(flags_of_receiving),
		VT_CASE(small_pieces_arrive_without_another_call),
		VT_CASE(slow_pieces_do_not_use_up_the_messages),
		VT_CASE(vectors),
		VT_CASE(one_direction_ends_and_the_other_goes_on),
		VT_CASE(what_was_sent_is_read_before_the_end),
		VT_CASE(shutting_down_wakes_who_waits),
		VT_CASE(nonblocking_connections),
		VT_CASE(a_listener_ends_with_those_it_did_not_accept),
		VT_CASE(connections_leave_nothing),
		VT_CASE(closing_while_connecting_leaves_nothing),
		VT_CASE(numbers_that_are_no_rsocket),
		VT_CASE(a_port_that_is_taken),
		VT_CASE(rsockets_and_others_are_polled_together),
		VT_CASE(many_threads_wait_for_one_message),
		VT_CASE(mapped_memory_is_written_by_offset),
		VT_CASE(a_child_has_its_own),
	};
	const unsigned int n = sizeof(own) / sizeof(own[0]);
	struct vt_case all[sizeof(own) / sizeof(own[0]) + 32];

	memcpy(all, own, sizeof(own));
	memcpy(all + n, rt_raw_cases, rt_nb_raw_cases * sizeof(all[0]));
	memcpy(all + n + rt_nb_raw_cases, rt_wake_cases, rt_nb_wake_cases * sizeof(all[0]));
	memcpy(all + n + rt_nb_raw_cases + rt_nb_wake_cases, rt_dgram_cases, rt_nb_dgram_cases * sizeof(all[0]));
	memcpy(all + n + rt_nb_raw_cases + rt_nb_wake_cases + rt_nb_dgram_cases, rt_option_cases, rt_nb_option_cases * sizeof(all[0]));
	return vt_main(argc, argv, all, n + rt_nb_raw_cases + rt_nb_wake_cases + rt_nb_dgram_cases + rt_nb_option_cases);
}
