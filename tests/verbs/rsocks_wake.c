/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that wait for the same rsocket, for different things: what one of them finds must not keep another
 * asleep. Sleeps here give threads the time to fall asleep; a case that they are too short for finds nothing, but
 * doesn't fail.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rsocks.h"

enum {
	WAKE_MS = 10000,      /* until a thread that has reason to wake up does */
	ASLEEP_US = 20000,    /* until a thread sleeps */
	FULL_ROUNDS = 150,
	ERRNO_ROUNDS = 150,
	POLLERS = 8,
	SLOW_BYTES = 4096,
	QP_FOUND_US = 200000, /* until two datagram rsockets know each other's QPs */
};

/** A call in a thread. */
struct call {
	pthread_t th;
	int s;
	short events;
	atomic_bool done;
	ssize_t result;
};

static void *
receive_one(void *arg)
{
	struct call *c = arg;
	char b;

	c->result = rrecv(c->s, &b, 1, 0);
	atomic_store(&c->done, true);
	return NULL;
}

static void *
poll_one(void *arg)
{
	struct call *c = arg;

	c->result = rt_poll(c->s, c->events, RT_MS);
	atomic_store(&c->done, true);
	return NULL;
}

static void
call_start(struct call *c, void *(*f)(void *), int s, short events)
{
	c->s = s;
	c->events = events;
	c->result = -1;
	atomic_store(&c->done, false);
	pthread_create(&c->th, NULL, f, c);
}

/** @return whether it ended by itself */
static bool
call_ends(const struct call *c)
{
	uint64_t end = vt_now_ns() + WAKE_MS * UINT64_C(1000000);

	while (!atomic_load(&c->done) && vt_now_ns() < end)
		usleep(100);
	return atomic_load(&c->done);
}

/** Threads that should have woken up are woken by whoever looks at the rsocket. */
static void
call_end(struct call *c, int s)
{
	while (!atomic_load(&c->done)) {
		rt_poll(s, POLLIN | POLLOUT, 0);
		usleep(1000);
	}
	pthread_join(c->th, NULL);
}

static void
small_buffers(int s)
{
	int bytes = 5000;

	VT_OK(rsetsockopt(s, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)));
	VT_OK(rsetsockopt(s, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)));
}

/** As much as goes. */
static size_t
fill(int s)
{
	static const char data[1000];
	size_t sent = 0;
	ssize_t n;

	while ((n = rsend(s, data, sizeof(data), MSG_DONTWAIT)) > 0)
		sent += (size_t)n;
	return sent;
}

static bool
drain(int s, size_t bytes)
{
	char data[1000];
	ssize_t n = 1;

	for (; bytes && n > 0; bytes -= (size_t)n)
		n = rrecv(s, data, bytes < sizeof(data) ? bytes : sizeof(data), 0);
	return n > 0;
}

/** A completion wakes both; the one that polls may be the first to take its event. */
static void
a_reader_wakes_up_though_a_poller_took_the_event(struct vt *t)
{
	struct call reader, poller;
	int s[2];

	rt_pair(t, AF_INET, s, small_buffers);
	for (int i = 0; i < FULL_ROUNDS && !vt_failed; i++) {
		size_t bytes = fill(s[0]);

		call_start(&reader, receive_one, s[0], 0);
		call_start(&poller, poll_one, s[0], POLLOUT);
		usleep(200);
		VT_CHECK(drain(s[1], bytes), "%m");
		VT_CHECK(call_ends(&poller) && poller.result == POLLOUT, "round %d: not writable", i);
		VT_CHECK(rsend(s[1], "x", 1, 0) == 1, "%m");
		VT_CHECK(call_ends(&reader), "round %d: the reader sleeps", i);
		call_end(&poller, s[0]);
		call_end(&reader, s[0]);
		VT_CHECK(reader.result == 1, "%zd", reader.result);
	}
	rt_close(s);
}

static void *
poll_with_errno(void *arg)
{
	struct call *c = arg;

	errno = EUCLEAN;
	c->result = rt_poll(c->s, POLLIN, RT_MS) == POLLIN ? errno : -1;
	atomic_store(&c->done, true);
	return NULL;
}

/** Those that wake up find that one of them took the event. */
static void
polling_leaves_errno_alone(struct vt *t)
{
	struct call c[POLLERS];
	int s[2];
	char b;

	rt_pair(t, AF_INET, s, NULL);
	for (int i = 0; i < ERRNO_ROUNDS && !vt_failed; i++) {
		for (int k = 0; k < POLLERS; k++)
			call_start(&c[k], poll_with_errno, s[1], POLLIN);
		usleep(200);
		VT_CHECK(rsend(s[0], "x", 1, 0) == 1, "%m");
		for (int k = 0; k < POLLERS; k++) {
			pthread_join(c[k].th, NULL);
			VT_CHECK(c[k].result == EUCLEAN, "round %d: %s", i, strerror((int)c[k].result));
		}
		VT_CHECK(rrecv(s[1], &b, 1, 0) == 1, "%m");
	}
	rt_close(s);
}

/** The reader fell asleep when there was no QP that its datagram could come by. */
static void
a_reader_hears_of_a_qp_made_meanwhile(struct vt *t)
{
	struct sockaddr_storage addr[2];
	socklen_t len[2];
	struct call reader;
	int s[2];
	char b;

	for (int i = 0; i < 2; i++) {
		s[i] = rsocket(AF_INET, SOCK_DGRAM, 0);
		rt_addr(t, AF_INET, &addr[i], &len[i]);
		if (!rt_kernel_has(&addr[i], len[i])) {
			printf("%s: skipped: the kernel doesn't have the address\n", vt_case_name);
			return;
		}
		VT_OK(rbind(s[i], (struct sockaddr *)&addr[i], len[i]));
		VT_OK(rgetsockname(s[i], (struct sockaddr *)&addr[i], &len[i]));
	}
	call_start(&reader, receive_one, s[0], 0);
	usleep(ASLEEP_US);
	VT_CHECK(rsendto(s[0], "q", 1, 0, (struct sockaddr *)&addr[1], len[1]) == 1, "%m");
	VT_CHECK(rrecv(s[1], &b, 1, 0) == 1 && b == 'q', "%m");
	usleep(QP_FOUND_US);
	VT_CHECK(rsendto(s[1], "a", 1, 0, (struct sockaddr *)&addr[0], len[0]) == 1, "%m");
	VT_CHECK(call_ends(&reader), "the reader sleeps");
	call_end(&reader, s[0]);
	VT_CHECK(reader.result == 1, "%zd", reader.result);
	rt_close(s);
}

/* ---- A sender that is in the middle of it: its data can't be read before it is told to go on ---- */
static char *slow_page;
static int slow_entered[2], slow_go[2];

/** In the sender's thread. */
static void
slow_read(int sig)
{
	char c = 0;

	if (write(slow_entered[1], &c, 1) != 1 || read(slow_go[0], &c, 1) != 1 ||
	    mprotect(slow_page, SLOW_BYTES, PROT_READ))
		_exit(1);
}

static void *
send_slowly(void *arg)
{
	struct call *c = arg;

	c->result = rsend(c->s, slow_page, SLOW_BYTES, 0);
	atomic_store(&c->done, true);
	return NULL;
}

/** What it sends is too little for a completion, which would wake the poller anyway. */
static void
a_poller_hears_when_a_sender_is_done(struct vt *t)
{
	struct sigaction slow = { .sa_handler = slow_read }, before;
	struct call sender, poller;
	int s[2];
	char b;

	slow_page = mmap(NULL, SLOW_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (slow_page == MAP_FAILED || pipe(slow_entered) || pipe(slow_go) || sigaction(SIGSEGV, &slow, &before))
		vt_die("a page");
	rt_pair(t, AF_INET, s, NULL);
	call_start(&sender, send_slowly, s[0], 0);
	VT_CHECK(read(slow_entered[0], &b, 1) == 1, "%m");
	call_start(&poller, poll_one, s[0], POLLOUT);
	usleep(ASLEEP_US);
	VT_CHECK(!atomic_load(&poller.done), "writable while a thread is sending");
	VT_CHECK(write(slow_go[1], &b, 1) == 1, "%m");
	VT_CHECK(call_ends(&poller) && poller.result == POLLOUT, "the poller sleeps");
	call_end(&sender, s[0]);
	call_end(&poller, s[0]);
	VT_CHECK(sender.result == SLOW_BYTES, "%zd", sender.result);
	rt_close(s);
	sigaction(SIGSEGV, &before, NULL);
	munmap(slow_page, SLOW_BYTES);
	for (int i = 0; i < 2; i++) {
		close(slow_entered[i]);
		close(slow_go[i]);
	}
}

const struct vt_case rt_wake_cases[] = {
	VT_CASE(a_reader_wakes_up_though_a_poller_took_the_event),
	VT_CASE(polling_leaves_errno_alone),
	VT_CASE(a_reader_hears_of_a_qp_made_meanwhile),
	VT_CASE(a_poller_hears_when_a_sender_is_done),
};
const unsigned int rt_nb_wake_cases = sizeof(rt_wake_cases) / sizeof(rt_wake_cases[0]);
