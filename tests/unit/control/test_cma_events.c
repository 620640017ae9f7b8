/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of librdmacm's ids: those that nobody has read yet, and ids that move to another channel with theirs. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/userfaultfd.h>

#include <cmocka.h>

#include "channel.h"
#include "cm/cm.h"
#include "daemon.h"

static const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };

/** The daemon's call fails. */
static bool no_watches;

int
epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	if (op == EPOLL_CTL_ADD && __atomic_load_n(&no_watches, __ATOMIC_SEQ_CST)) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epfd, op, fd, ev);
}

static void
set(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_SEQ_CST);
}

static uint32_t
migrate(struct channel *from, uint32_t id, struct channel *to)
{
	struct ctl_req q = peer_req(CTL_CM_MIGRATE);
	struct ctl_rsp r;

	q.cm_migrate = (struct ctl_cm_migrate_req){ .id = id, .token = from->token };
	assert_int_equal(channel_call(to, &q, &r), 0);
	return r.handle.handle;
}

static void
id_moves_to_another_channel(void **state)
{
	struct ctl_req q = peer_req(CTL_CM_MIGRATE);
	struct channel other;
	struct ctl_rsp r;
	struct conn t;
	uint32_t id;

	conn_open(&t, own);
	channel_open(&other);
	q.cm_migrate = (struct ctl_cm_migrate_req){ .id = t.c, .token = t.client.token + 1 };
	assert_int_equal(channel_call(&other, &q, &r), EINVAL);
	/* To where it is. */
	assert_int_equal(migrate(&t.client, t.c, &t.client), t.c);
	id = migrate(&t.client, t.c, &other);
	/* What was read there isn't told again. */
	channel_quiet(&other);
	channel_close(&t.client);
	assert_int_equal(peer_handle(t.server.sock, CTL_CM_DISCONNECT, t.s), 0);
	channel_expect(&other, id, CTL_CM_EV_DISCONNECTED, 0);
	channel_close(&other);
	channel_close(&t.server);
	assert_true(daemon_wait_empty());
}

/** Wait until an event is in the socket of @p ch, and leave it there. */
static void
wait_unread(struct channel *ch)
{
	struct pollfd p = { .fd = ch->events, .events = POLLIN };

	assert_int_equal(poll(&p, 1, CHANNEL_EVENT_MS), 1);
}

static void
unread_events_move_with_their_id(void **state)
{
	enum { OTHERS = 400 };
	struct channel other;
	struct conn t;
	uint32_t i, id;

	/* From the socket. */
	conn_open(&t, own);
	channel_open(&other);
	assert_int_equal(peer_handle(t.server.sock, CTL_CM_DISCONNECT, t.s), 0);
	wait_unread(&t.client);
	id = migrate(&t.client, t.c, &other);
	channel_expect(&other, id, CTL_CM_EV_DISCONNECTED, 0);
	channel_quiet(&other);
	channel_close(&other);
	conn_close(&t);
	/* From behind others that the socket has no room for: they stay, in order. */
	channel_open(&t.client);
	channel_open(&other);
	for (i = 0; i < OTHERS; i++)
		assert_int_equal(channel_resolve(&t.client, channel_create(&t.client, CTL_CM_PS_TCP, UROCE_QPT_RC),
						 channel_addr(elsewhere, CHANNEL_PORT), 9),
				 0);
	t.c = channel_create(&t.client, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(channel_resolve(&t.client, t.c, channel_addr(elsewhere, CHANNEL_PORT), 9), 0);
	assert_int_equal(channel_resolve(&t.client, t.c, channel_addr(own, CHANNEL_PORT), 9), 0);
	id = migrate(&t.client, t.c, &other);
	channel_expect(&other, id, CTL_CM_EV_ADDR_ERROR, -EHOSTUNREACH);
	assert_memory_equal(channel_expect(&other, id, CTL_CM_EV_ADDR_RESOLVED, 0).info.sgid, own, 16);
	channel_quiet(&other);
	for (i = 0; i < OTHERS; i++)
		channel_expect(&t.client, i, CTL_CM_EV_ADDR_ERROR, -EHOSTUNREACH);
	channel_quiet(&t.client);
	channel_close(&other);
	channel_close(&t.client);
	assert_true(daemon_wait_empty());
}

/* The ids of requests that nobody has read move with their listener; one that was read is the program's. */
static void
unread_requests_move_with_their_listener(void **state)
{
	struct channel server, client, other;
	uint32_t l, c[3], read = 0, i;
	struct ctl_cm_event ev;

	channel_open(&server);
	channel_open(&client);
	channel_open(&other);
	l = channel_listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	for (i = 0; i < 3; i++) {
		c[i] = channel_routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
		assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, c[i], channel_qpn(), i == 1 ? "second" : ""),
				 0);
		if (i == 0)
			read = channel_expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0).id;
	}
	wait_unread(&server);
	l = migrate(&server, l, &other);
	ev = channel_expect(&other, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	assert_int_equal(ev.listener, l);
	assert_memory_equal(ev.private_data, "second", 7);
	assert_int_equal(channel_connect(&other, CTL_CM_ACCEPT, ev.id, channel_qpn(), ""), 0);
	channel_expect(&client, c[1], CTL_CM_EV_CONNECT_RESPONSE, 0);
	channel_expect(&other, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	assert_int_equal(channel_connect(&server, CTL_CM_ACCEPT, read, channel_qpn(), ""), 0);
	channel_expect(&client, c[0], CTL_CM_EV_CONNECT_RESPONSE, 0);
	channel_close(&other);
	channel_close(&server);
	channel_close(&client);
	assert_true(daemon_wait_empty());
}

/*
 * Nobody is told that a request was withdrawn, but it can't be accepted any more; moved or not. And an id that a program can't know of yet, but moves.
 */
static void
requests_that_were_withdrawn_move_too(void **state)
{
	struct channel server, client, other;
	uint32_t l, c, id, guessed;
	int unread;

	channel_open(&server);
	channel_open(&client);
	channel_open(&other);
	l = channel_listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	c = channel_routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, c, channel_qpn(), ""), 0);
	wait_unread(&server);
	assert_int_equal(peer_handle(client.sock, CTL_CM_DESTROY_ID, c), 0);
	c = channel_routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, c, channel_qpn(), ""), 0);
	while (ioctl(server.events, FIONREAD, &unread) == 0 && unread < 2 * (int)sizeof(struct ctl_cm_event))
		usleep(1000);
	l = migrate(&server, l, &other);
	id = channel_expect(&other, 0, CTL_CM_EV_CONNECT_REQUEST, 0).id;
	channel_expect(&other, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	assert_int_equal(channel_connect(&other, CTL_CM_ACCEPT, id, channel_qpn(), ""), EINVAL);
	assert_int_equal(peer_handle(other.sock, CTL_CM_DESTROY_ID, id), 0);
	/* The next handle that this session gives. */
	guessed = channel_create(&other, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(peer_handle(other.sock, CTL_CM_DESTROY_ID, guessed), 0);
	guessed += 1 << 20;
	c = channel_routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, c, channel_qpn(), ""), 0);
	wait_unread(&other);
	id = migrate(&other, guessed, &server);
	assert_int_equal(peer_handle(server.sock, CTL_CM_DESTROY_ID, id), 0);
	assert_int_equal(channel_expect(&other, 0, CTL_CM_EV_CONNECT_REQUEST, 0).listener, l);
	channel_close(&other);
	channel_close(&server);
	channel_close(&client);
	assert_true(daemon_wait_empty());
}

static void
no_event_is_lost_while_nobody_reads(void **state)
{
	enum { IDS = 400 };
	static uint32_t ids[IDS];
	struct ctl_cm_event ev;
	struct channel ch;
	int i;

	channel_open(&ch);
	for (i = 0; i < IDS; i++) {
		ids[i] = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
		assert_int_equal(channel_resolve(&ch, ids[i], channel_addr(own, CHANNEL_PORT), 100), 0);
	}
	/* One of those that wait goes, and its event with it. */
	assert_int_equal(peer_handle(ch.sock, CTL_CM_DESTROY_ID, ids[IDS - 1]), 0);
	for (i = 0; i < IDS - 1; i++) {
		assert_true(channel_event(&ch, CHANNEL_EVENT_MS, &ev));
		assert_int_equal(ev.id, ids[i]);
	}
	channel_quiet(&ch);
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

/** Resolve again and again, many requests at a time, without reading events. @return how often before EAGAIN. */
static uint32_t
resolve_until_refused(struct channel *ch, uint32_t id, uint32_t tries)
{
	enum { AT_ONCE = 32 };
	struct ctl_req q = peer_req(CTL_CM_RESOLVE_ADDR);
	struct ctl_rsp r = { 0 };
	uint32_t i, k, done = 0;

	q.cm_resolve_addr = (struct ctl_cm_resolve_addr_req){ .id = id,
							      .timeout_ms = 9,
							      .dst = channel_addr(elsewhere, CHANNEL_PORT) };
	for (i = 0; i < tries && r.status == 0; i += AT_ONCE) {
		for (k = 0; k < AT_ONCE; k++)
			assert_int_equal(peer_send(ch->sock, &q, sizeof(q), NULL, 0), 0);
		for (k = 0; k < AT_ONCE; k++) {
			assert_true(peer_recv(ch->sock, &r, NULL, 0));
			done += r.status == 0;
		}
	}
	assert_int_equal(r.status, EAGAIN);
	return done;
}

/* A program that never reads: each answer but the last few of its requests is an event that the daemon has to keep. */
static void
events_that_nobody_reads_are_bounded(void **state)
{
	enum { READ = 1000, TRIES = 100000 };
	struct ctl_req q = peer_req(CTL_CM_JOIN);
	uint32_t id, routed_id, resolved_id, ud, i;
	struct ctl_cm_event ev;
	struct channel ch;
	struct ctl_rsp r;

	channel_open(&ch);
	routed_id = channel_routed(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	ud = channel_routed(&ch, CTL_CM_PS_UDP, UROCE_QPT_UD, own, CHANNEL_PORT);
	resolved_id = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(channel_resolve(&ch, resolved_id, channel_addr(own, CHANNEL_PORT), 9), 0);
	channel_expect(&ch, resolved_id, CTL_CM_EV_ADDR_RESOLVED, 0);
	id = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(resolve_until_refused(&ch, id, TRIES), CTL_CM_MAX_QUEUED);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_RESOLVE_ROUTE, resolved_id), EAGAIN);
	assert_int_equal(channel_connect(&ch, CTL_CM_CONNECT, routed_id, channel_qpn(), ""), EAGAIN);
	q.cm_join = (struct ctl_cm_join_req){ .id = ud, .join_flags = 1, .addr = channel_addr(group, 0) };
	assert_int_equal(channel_call(&ch, &q, &r), EAGAIN);
	/* Who reads goes on. */
	for (i = 0; i < READ; i++)
		assert_true(channel_event(&ch, CHANNEL_EVENT_MS, &ev));
	assert_int_equal(channel_call(&ch, &q, &r), 0);
	assert_int_equal(channel_resolve(&ch, id, channel_addr(elsewhere, CHANNEL_PORT), 9), 0);
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

/* When its socket can't be watched for room, a program is told by the end of its session that it misses events. */
static void
session_whose_events_cannot_leave_ends(void **state)
{
	enum { TRIES = 400 };
	struct ctl_req q = peer_req(CTL_CM_RESOLVE_ADDR);
	struct channel ch;
	struct ctl_rsp r;
	int i, rc = 0;

	channel_open(&ch);
	q.cm_resolve_addr.id = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	q.cm_resolve_addr.dst = channel_addr(elsewhere, CHANNEL_PORT);
	set(&no_watches, true);
	for (i = 0; i < TRIES && rc == 0; i++)
		rc = channel_call(&ch, &q, &r);
	set(&no_watches, false);
	/* No reply to the one whose event had no room, or none to the next. */
	assert_int_equal(rc, -1);
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

struct stuck_reader {
	int fd;
	void *page;
	_Atomic bool reading, done;
};

static void *
read_into_a_page_that_never_comes(void *arg)
{
	struct stuck_reader *r = arg;

	atomic_store(&r->reading, true);
	if (read(r->fd, r->page, sizeof(struct ctl_cm_event)) < 0)
		fprintf(stderr, "read: %s\n", strerror(errno));
	atomic_store(&r->done, true);
	return NULL;
}

/* With a pipe, whose mutex the reader holds meanwhile, the control thread would wait for it for ever. */
static void
reader_whose_page_never_comes_keeps_nobody_waiting(void **state)
{
	enum { EVENTS = 700, PAGE = 4096 };
	struct uffdio_api api = { .api = UFFD_API };
	int uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC), i;
	struct stuck_reader r = { 0 };
	struct channel ch, other;
	pthread_t thread;
	uint32_t id;

	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) != 0)
		skip();
	channel_open(&ch);
	channel_open(&other);
	r.fd = ch.events;
	r.page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(r.page, MAP_FAILED);
	assert_int_equal(ioctl(uffd, UFFDIO_REGISTER, &(struct uffdio_register){ .range = { (uintptr_t)r.page, PAGE },
										 .mode = UFFDIO_REGISTER_MODE_MISSING }),
			 0);
	id = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(channel_resolve(&ch, id, channel_addr(elsewhere, CHANNEL_PORT), 9), 0);
	wait_unread(&ch);
	assert_int_equal(pthread_create(&thread, NULL, read_into_a_page_that_never_comes, &r), 0);
	while (!atomic_load(&r.reading))
		usleep(1000);
	usleep(50000);
	/* More than the socket has room for. */
	for (i = 0; i < EVENTS; i++)
		assert_int_equal(channel_resolve(&ch, id, channel_addr(elsewhere, CHANNEL_PORT), 9), 0);
	assert_int_equal(channel_resolve(&other, channel_create(&other, CTL_CM_PS_TCP, UROCE_QPT_RC),
					 channel_addr(own, CHANNEL_PORT), 9),
			 0);
	channel_expect(&other, 0, CTL_CM_EV_ADDR_RESOLVED, 0);
	assert_false(atomic_load(&r.done));
	/* Now it comes, and the rest is there. */
	assert_int_equal(ioctl(uffd, UFFDIO_ZEROPAGE, &(struct uffdio_zeropage){ .range = { (uintptr_t)r.page, PAGE } }), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(((struct ctl_cm_event *)r.page)->type, CTL_CM_EV_ADDR_ERROR);
	for (i = 0; i < EVENTS; i++)
		channel_expect(&ch, id, CTL_CM_EV_ADDR_ERROR, -EHOSTUNREACH);
	channel_quiet(&ch);
	munmap(r.page, PAGE);
	close(uffd);
	channel_close(&ch);
	channel_close(&other);
	assert_true(daemon_wait_empty());
}

/* UCX waits this way: each event is an edge, the flag is the program's own, and what was read is not there again. */
static void
event_socket_can_be_polled_edge_triggered(void **state)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC), i;
	struct ctl_cm_event ev;
	struct channel ch;
	uint32_t id;

	channel_open(&ch);
	assert_int_equal(fcntl(ch.events, F_SETFL, fcntl(ch.events, F_GETFL) | O_NONBLOCK), 0);
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, ch.events, &e), 0);
	assert_int_equal(epoll_wait(ep, &e, 1, 0), 0);
	id = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	for (i = 0; i < 3; i++) {
		assert_int_equal(channel_resolve(&ch, id, channel_addr(elsewhere, CHANNEL_PORT), 9), 0);
		assert_int_equal(epoll_wait(ep, &e, 1, CHANNEL_EVENT_MS), 1);
		assert_int_equal(e.events, EPOLLIN);
		assert_int_equal(epoll_wait(ep, &e, 1, 0), 0);
	}
	for (i = 0; i < 3; i++)
		assert_int_equal(read(ch.events, &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(read(ch.events, &ev, sizeof(ev)), -1);
	assert_int_equal(errno, EAGAIN);
	close(ep);
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(id_moves_to_another_channel),
		cmocka_unit_test(unread_events_move_with_their_id),
		cmocka_unit_test(unread_requests_move_with_their_listener),
		cmocka_unit_test(requests_that_were_withdrawn_move_too),
		cmocka_unit_test(no_event_is_lost_while_nobody_reads),
		cmocka_unit_test(events_that_nobody_reads_are_bounded),
		cmocka_unit_test(session_whose_events_cannot_leave_ends),
		cmocka_unit_test(reader_whose_page_never_comes_keeps_nobody_waiting),
		cmocka_unit_test(event_socket_can_be_polled_edge_triggered),
	};

	return DAEMON_TESTS(tests, 16, CHANNEL_QPS, channel_begin);
}
