/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids of librdmacm in the daemon: addresses, connections between two event channels, and what becomes of them. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm.h"
#include "control_priv.h"
#include "daemon.h"

enum { EVENT_MS = 5000, QUIET_MS = 100, PORT = 7471 };

/** 198.18.0.1, the daemon's own, as a GID. */
static const uint8_t own[16] = { [10] = 0xff, 0xff, 198, 18, 0, 1 };
static const uint8_t own6[16] = { 0xfd, 0, 0, 0x18, [15] = 1 };
static const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };
/** On the port's network, and nobody's. */
static const uint8_t nobody[16] = { [10] = 0xff, 0xff, 198, 18, 0, 99 };
static const uint8_t elsewhere[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };

/** The daemon's calls fail. */
static bool no_entropy;

int
getentropy(void *p, size_t n)
{
	if (__atomic_load_n(&no_entropy, __ATOMIC_SEQ_CST)) {
		errno = ENOSYS;
		return -1;
	}
	return syscall(SYS_getrandom, p, n, 0) == (ssize_t)n ? 0 : -1;
}

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

/** An event channel. */
struct channel {
	int sock, events;
	uint64_t token;
};

static void
channel_open(struct channel *ch)
{
	struct ctl_req q = peer_req(CTL_CM_OPEN);
	struct ctl_rsp r;
	int fds[2];

	ch->sock = peer_connect();
	assert_int_equal(peer_hello(ch->sock), 0);
	assert_int_equal(pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0);
	assert_int_equal(peer_call(ch->sock, &q, &fds[1], 1, &r, NULL, 0), 0);
	ch->events = fds[0];
	ch->token = r.cm_open.token;
	close(fds[1]);
}

static void
channel_close(struct channel *ch)
{
	close(ch->sock);
	close(ch->events);
}

static void
set(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_SEQ_CST);
}

static int
call(struct channel *ch, struct ctl_req *q, struct ctl_rsp *r)
{
	return peer_call(ch->sock, q, NULL, 0, r, NULL, 0);
}

static bool
next_event(struct channel *ch, int ms, struct ctl_cm_event *ev)
{
	struct pollfd p = { .fd = ch->events, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && read(ch->events, ev, sizeof(*ev)) == (ssize_t)sizeof(*ev);
}

static struct ctl_cm_event
expect(struct channel *ch, uint32_t id, enum ctl_cm_event_type type, int status)
{
	struct ctl_cm_event ev;

	if (!next_event(ch, EVENT_MS, &ev))
		fail_msg("no event, but type %d was to come", type);
	assert_int_equal(ev.type, type);
	assert_int_equal(ev.status, status);
	if (type != CTL_CM_EV_CONNECT_REQUEST)
		assert_int_equal(ev.id, id);
	return ev;
}

static void
expect_quiet(struct channel *ch)
{
	struct ctl_cm_event ev;

	assert_false(next_event(ch, QUIET_MS, &ev));
}

static uint32_t
create(struct channel *ch, uint32_t ps, uint32_t type)
{
	struct ctl_req q = peer_req(CTL_CM_CREATE_ID);
	struct ctl_rsp r;

	q.cm_create = (struct ctl_cm_create_req){ .ps = ps, .qp_type = type };
	assert_int_equal(call(ch, &q, &r), 0);
	return r.handle.handle;
}

static struct ctl_cm_addr
addr(const uint8_t gid[16], uint16_t port)
{
	struct ctl_cm_addr a = { .family = gid[10] == 0xff ? 4 : 6, .port = port };

	memcpy(a.gid, gid, 16);
	return a;
}

static int
bind_to(struct channel *ch, uint32_t id, struct ctl_cm_addr a, struct ctl_rsp *r)
{
	struct ctl_req q = peer_req(CTL_CM_BIND);

	q.cm_bind = (struct ctl_cm_bind_req){ .id = id, .addr = a };
	return call(ch, &q, r);
}

static int
listen_on(struct channel *ch, uint32_t id, uint32_t backlog)
{
	struct ctl_req q = peer_req(CTL_CM_LISTEN);
	struct ctl_rsp r;

	q.cm_listen = (struct ctl_cm_listen_req){ .id = id, .backlog = backlog };
	return call(ch, &q, &r);
}

static int
resolve(struct channel *ch, uint32_t id, struct ctl_cm_addr dst, uint32_t ms)
{
	struct ctl_req q = peer_req(CTL_CM_RESOLVE_ADDR);
	struct ctl_rsp r;

	q.cm_resolve_addr = (struct ctl_cm_resolve_addr_req){ .id = id, .timeout_ms = ms, .dst = dst };
	return call(ch, &q, &r);
}

/** An id on its way to the daemon's own address. */
static uint32_t
routed(struct channel *ch, uint32_t ps, uint32_t type, const uint8_t gid[16], uint16_t port)
{
	uint32_t id = create(ch, ps, type);

	assert_int_equal(resolve(ch, id, addr(gid, port), 2000), 0);
	expect(ch, id, CTL_CM_EV_ADDR_RESOLVED, 0);
	assert_int_equal(peer_handle(ch->sock, CTL_CM_RESOLVE_ROUTE, id), 0);
	expect(ch, id, CTL_CM_EV_ROUTE_RESOLVED, 0);
	return id;
}

static int
connect_with(struct channel *ch, uint32_t op, uint32_t id, uint32_t qpn, const char *data)
{
	struct ctl_req q = peer_req(op);
	struct ctl_rsp r;

	q.cm_connect = (struct ctl_cm_connect_req){
		.id = id,
		.param = { .qp_num = qpn, .responder_resources = 3, .initiator_depth = 4, .retry_count = 7,
			   .rnr_retry_count = 6, .private_len = (uint8_t)strlen(data) },
	};
	memcpy(q.cm_connect.private_data, data, strlen(data));
	return call(ch, &q, &r);
}

static uint32_t
listener(struct channel *ch, uint32_t ps, uint32_t type, const uint8_t gid[16])
{
	uint32_t id = create(ch, ps, type);
	struct ctl_rsp r;

	assert_int_equal(bind_to(ch, id, addr(gid, PORT), &r), 0);
	assert_int_equal(listen_on(ch, id, 8), 0);
	return id;
}

/** A number that no connection had yet: those that had are kept from others for a while (12.4). */
static uint32_t
new_qpn(void)
{
	static uint32_t last = 0x100;

	return ++last;
}

/** Both ends of a connection, established. */
struct conn {
	struct channel server, client;
	uint32_t listener, s, c;
	uint32_t s_qpn, c_qpn;
};

static void
conn_open(struct conn *t, const uint8_t gid[16])
{
	struct ctl_cm_event ev;

	t->s_qpn = new_qpn();
	t->c_qpn = new_qpn();
	channel_open(&t->server);
	channel_open(&t->client);
	t->listener = listener(&t->server, CTL_CM_PS_TCP, UROCE_QPT_RC, gid);
	t->c = routed(&t->client, CTL_CM_PS_TCP, UROCE_QPT_RC, gid, PORT);
	assert_int_equal(connect_with(&t->client, CTL_CM_CONNECT, t->c, t->c_qpn, "hello"), 0);
	ev = expect(&t->server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	t->s = ev.id;
	assert_int_equal(ev.listener, t->listener);
	assert_int_equal(ev.conn.qp_num, t->c_qpn);
	/* What the peer offers is what this end may use, the other way round. */
	assert_int_equal(ev.conn.responder_resources, 4);
	assert_int_equal(ev.conn.initiator_depth, 3);
	assert_int_equal(ev.conn.private_len, 56);
	assert_memory_equal(ev.private_data, "hello", 6);
	assert_memory_equal(ev.info.remote.gid, gid, 16);
	assert_int_equal(ev.info.local.port, PORT);
	assert_int_equal(connect_with(&t->server, CTL_CM_ACCEPT, t->s, t->s_qpn, "welcome"), 0);
	ev = expect(&t->client, t->c, CTL_CM_EV_CONNECT_RESPONSE, 0);
	assert_int_equal(ev.conn.qp_num, t->s_qpn);
	assert_memory_equal(ev.private_data, "welcome", 8);
	assert_int_equal(connect_with(&t->client, CTL_CM_ACCEPT, t->c, t->c_qpn, ""), 0);
	expect(&t->server, t->s, CTL_CM_EV_ESTABLISHED, 0);
}

static void
conn_close(struct conn *t)
{
	channel_close(&t->client);
	channel_close(&t->server);
	assert_true(daemon_wait_empty());
}

static struct ctl_cm_qp_attr_rsp
attr(struct channel *ch, uint32_t id, uint32_t state)
{
	struct ctl_req q = peer_req(CTL_CM_QP_ATTR);
	struct ctl_rsp r;

	q.cm_qp_attr = (struct ctl_cm_qp_attr_req){ .id = id, .state = state };
	assert_int_equal(call(ch, &q, &r), 0);
	assert_int_equal(r.cm_qp_attr.attr.qp_state, state);
	return r.cm_qp_attr;
}

static void
ends_meet_and_part(void **state)
{
	struct ctl_cm_qp_attr_rsp s, c;
	struct conn t;

	conn_open(&t, own);
	s = attr(&t.server, t.s, UROCE_QPS_RTR);
	c = attr(&t.client, t.c, UROCE_QPS_RTS);
	assert_int_equal(s.attr.dest_qp_num, t.c_qpn);
	assert_int_equal(s.attr.rq_psn, c.attr.sq_psn);
	assert_int_equal(c.attr.rnr_retry, 6);
	s = attr(&t.server, t.s, UROCE_QPS_RTS);
	c = attr(&t.client, t.c, UROCE_QPS_RTR);
	assert_int_equal(c.attr.dest_qp_num, t.s_qpn);
	assert_int_equal(c.attr.rq_psn, s.attr.sq_psn);
	assert_int_equal(s.attr.max_rd_atomic, 4);
	assert_int_equal(s.attr.retry_cnt, 7);
	assert_int_equal(peer_handle(t.client.sock, CTL_CM_DISCONNECT, t.c), 0);
	expect(&t.server, t.s, CTL_CM_EV_DISCONNECTED, 0);
	assert_int_equal(peer_handle(t.server.sock, CTL_CM_DISCONNECT, t.s), 0);
	expect(&t.client, t.c, CTL_CM_EV_DISCONNECTED, 0);
	assert_int_equal(peer_handle(t.client.sock, CTL_CM_DESTROY_ID, t.c), 0);
	assert_int_equal(peer_handle(t.server.sock, CTL_CM_DESTROY_ID, t.s), 0);
	assert_int_equal(peer_handle(t.server.sock, CTL_CM_DESTROY_ID, t.s), EINVAL);
	conn_close(&t);
}

static void
ends_meet_over_ipv6(void **state)
{
	struct conn t;

	conn_open(&t, own6);
	conn_close(&t);
}

static void
peer_of_a_program_that_dies_knows_at_once(void **state)
{
	struct conn t;

	conn_open(&t, own);
	channel_close(&t.client);
	expect(&t.server, t.s, CTL_CM_EV_DISCONNECTED, 0);
	channel_close(&t.server);
	assert_true(daemon_wait_empty());
}

static void
listener_that_dies_rejects_who_waits(void **state)
{
	struct channel server, client;
	uint32_t c;

	channel_open(&server);
	channel_open(&client);
	listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	c = routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, PORT);
	assert_int_equal(connect_with(&client, CTL_CM_CONNECT, c, new_qpn(), ""), 0);
	expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	channel_close(&server);
	expect(&client, c, CTL_CM_EV_REJECTED, CM_REJ_CONSUMER_DEFINED);
	channel_close(&client);
	assert_true(daemon_wait_empty());
}

static void
rejection_brings_its_reason_and_data(void **state)
{
	struct ctl_req q = peer_req(CTL_CM_REJECT);
	struct channel server, client;
	struct ctl_cm_event ev;
	struct ctl_rsp r;
	uint32_t c;

	channel_open(&server);
	channel_open(&client);
	listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	c = routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, PORT);
	assert_int_equal(connect_with(&client, CTL_CM_CONNECT, c, new_qpn(), ""), 0);
	ev = expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	q.cm_reject = (struct ctl_cm_reject_req){ .id = ev.id, .private_len = 3, .private_data = "no" };
	assert_int_equal(call(&server, &q, &r), 0);
	ev = expect(&client, c, CTL_CM_EV_REJECTED, CM_REJ_CONSUMER_DEFINED);
	assert_memory_equal(ev.private_data, "no", 3);
	channel_close(&server);
	channel_close(&client);
	assert_true(daemon_wait_empty());
}

static void
port_nobody_listens_on_is_rejected(void **state)
{
	struct channel client;
	uint32_t c;

	channel_open(&client);
	c = routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, PORT);
	assert_int_equal(connect_with(&client, CTL_CM_CONNECT, c, new_qpn(), ""), 0);
	expect(&client, c, CTL_CM_EV_REJECTED, CM_REJ_INVALID_SERVICE_ID);
	c = routed(&client, CTL_CM_PS_UDP, UROCE_QPT_UD, own, PORT);
	assert_int_equal(connect_with(&client, CTL_CM_CONNECT, c, new_qpn(), ""), 0);
	expect(&client, c, CTL_CM_EV_UNREACHABLE, CM_SIDR_UNSUPPORTED);
	channel_close(&client);
	assert_true(daemon_wait_empty());
}

static void
address_nobody_has_is_an_error_in_time(void **state)
{
	struct channel ch;
	uint32_t id;

	channel_open(&ch);
	id = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(resolve(&ch, id, addr(nobody, PORT), 300), 0);
	expect_quiet(&ch);
	expect(&ch, id, CTL_CM_EV_ADDR_ERROR, -ETIMEDOUT);
	/* And it may try another. */
	assert_int_equal(resolve(&ch, id, addr(own, PORT), 300), 0);
	expect(&ch, id, CTL_CM_EV_ADDR_RESOLVED, 0);
	id = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(resolve(&ch, id, addr(elsewhere, PORT), 300), 0);
	expect(&ch, id, CTL_CM_EV_ADDR_ERROR, -EHOSTUNREACH);
	/* One that goes away while it asks. */
	id = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(resolve(&ch, id, addr(nobody, PORT), 300), 0);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_DESTROY_ID, id), 0);
	id = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(resolve(&ch, id, addr(nobody, PORT), 300), 0);
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

/* One program asks for more dead addresses at a time than the port can ask for; what another gets is an answer in its time. */
static void
who_resolves_much_leaves_room_for_others(void **state)
{
	enum { IDS = 1100, AT_ONCE = 22 };
	struct ctl_req create_req = peer_req(CTL_CM_CREATE_ID), q = peer_req(CTL_CM_RESOLVE_ADDR);
	struct channel greedy, other;
	struct ctl_cm_event ev;
	struct ctl_rsp r;
	uint32_t id, i, k;

	channel_open(&greedy);
	channel_open(&other);
	create_req.cm_create = (struct ctl_cm_create_req){ .ps = CTL_CM_PS_TCP, .qp_type = UROCE_QPT_RC };
	q.cm_resolve_addr = (struct ctl_cm_resolve_addr_req){ .timeout_ms = 60000, .dst = addr(nobody, PORT) };
	for (i = 0; i < IDS; i += AT_ONCE) {
		for (k = 0; k < AT_ONCE; k++)
			assert_int_equal(peer_send(greedy.sock, &create_req, sizeof(create_req), NULL, 0), 0);
		for (k = 0; k < AT_ONCE; k++) {
			assert_true(peer_recv(greedy.sock, &r, NULL, 0));
			assert_int_equal(r.status, 0);
			q.cm_resolve_addr.id = r.handle.handle;
			assert_int_equal(peer_send(greedy.sock, &q, sizeof(q), NULL, 0), 0);
		}
		for (k = 0; k < AT_ONCE; k++) {
			assert_true(peer_recv(greedy.sock, &r, NULL, 0));
			assert_int_equal(r.status, 0);
		}
	}
	id = create(&other, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(resolve(&other, id, addr(nobody, PORT), 100), 0);
	assert_true(next_event(&other, EVENT_MS, &ev));
	assert_int_equal(ev.type, CTL_CM_EV_ADDR_ERROR);
	/* Its own time limit, or nobody is there: not that there was no room. */
	assert_true(ev.status == -ETIMEDOUT || ev.status == -EHOSTUNREACH);
	/* Answered without the wire. */
	assert_int_equal(resolve(&greedy, create(&greedy, CTL_CM_PS_TCP, UROCE_QPT_RC), addr(own, PORT), 100), 0);
	do
		assert_true(next_event(&greedy, EVENT_MS, &ev));
	while (ev.type != CTL_CM_EV_ADDR_RESOLVED);
	channel_close(&greedy);
	channel_close(&other);
	assert_true(daemon_wait_empty());
}

static void
ports_are_given_once(void **state)
{
	static const uint8_t any6[16];
	struct ctl_cm_addr any = { .family = 4, .port = PORT };
	struct ctl_req q = peer_req(CTL_CM_SET_OPTION);
	struct channel ch;
	uint32_t a, b, c, d;
	struct ctl_rsp r;

	channel_open(&ch);
	a = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	b = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	c = create(&ch, CTL_CM_PS_UDP, UROCE_QPT_UD);
	d = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(bind_to(&ch, a, addr(own, PORT), &r), 0);
	assert_int_equal(r.cm_info.device, 0);
	assert_memory_equal(r.cm_info.sgid, own, 16);
	assert_int_equal(bind_to(&ch, a, addr(own, PORT), &r), EINVAL);
	assert_int_equal(bind_to(&ch, b, addr(own, PORT), &r), EADDRINUSE);
	assert_int_equal(bind_to(&ch, b, any, &r), EADDRINUSE);
	assert_int_equal(bind_to(&ch, b, addr(any6, PORT), &r), EADDRINUSE);
	/* Another address, another port space, only IPv6. */
	assert_int_equal(bind_to(&ch, b, addr(own6, PORT), &r), 0);
	assert_int_equal(bind_to(&ch, c, addr(own, PORT), &r), 0);
	assert_int_equal(bind_to(&ch, d, addr(elsewhere, PORT), &r), EADDRNOTAVAIL);
	assert_int_equal(bind_to(&ch, d, addr(own, 0), &r), 0);
	assert_in_range(r.cm_info.local.port, 32768, 60999);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_DESTROY_ID, a), 0);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_DESTROY_ID, b), 0);
	/* Reuse, until one listens. */
	a = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	b = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	q.cm_option = (struct ctl_cm_option_req){ .id = a, .option = CTL_CM_OPT_REUSEADDR, .value = 1 };
	assert_int_equal(call(&ch, &q, &r), 0);
	q.cm_option.id = b;
	assert_int_equal(call(&ch, &q, &r), 0);
	assert_int_equal(bind_to(&ch, a, addr(own, PORT), &r), 0);
	assert_int_equal(bind_to(&ch, b, addr(own, PORT), &r), 0);
	assert_int_equal(listen_on(&ch, a, 1), 0);
	assert_int_equal(listen_on(&ch, b, 1), EADDRINUSE);
	q.cm_option.option = CTL_CM_OPT_AFONLY;
	assert_int_equal(call(&ch, &q, &r), EINVAL);
	q.cm_option.option = 99;
	assert_int_equal(call(&ch, &q, &r), ENOSYS);
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

/* All that share a port allow reuse, and are bound before the first of them listens. */
static void
one_of_those_that_share_a_port_listens(void **state)
{
	static const uint8_t any6[16];
	const struct ctl_cm_addr any4 = { .family = 4, .port = PORT };
	const struct {
		struct ctl_cm_addr first, second;
		bool only6; /**< the second */
		int result;
	} cases[] = {
		{ any4, addr(own, PORT), false, EADDRINUSE },
		{ addr(own, PORT), any4, false, EADDRINUSE },
		{ addr(any6, PORT), addr(own, PORT), false, EADDRINUSE },
		{ addr(own6, PORT), addr(own, PORT), false, 0 },
		{ any4, addr(any6, PORT), false, EADDRINUSE },
		{ any4, addr(any6, PORT), true, 0 },
	};
	struct ctl_req q = peer_req(CTL_CM_SET_OPTION);
	struct channel ch;
	struct ctl_rsp r;
	uint32_t a, b, i;

	channel_open(&ch);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		a = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
		b = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
		q.cm_option = (struct ctl_cm_option_req){ .id = a, .option = CTL_CM_OPT_REUSEADDR, .value = 1 };
		assert_int_equal(call(&ch, &q, &r), 0);
		q.cm_option.id = b;
		assert_int_equal(call(&ch, &q, &r), 0);
		q.cm_option.option = CTL_CM_OPT_AFONLY;
		q.cm_option.value = cases[i].only6;
		assert_int_equal(call(&ch, &q, &r), 0);
		assert_int_equal(bind_to(&ch, b, cases[i].second, &r), 0);
		assert_int_equal(bind_to(&ch, a, cases[i].first, &r), 0);
		assert_int_equal(listen_on(&ch, a, 1), 0);
		assert_int_equal(listen_on(&ch, b, 1), cases[i].result);
		assert_int_equal(peer_handle(ch.sock, CTL_CM_DESTROY_ID, a), 0);
		/* Who listened is gone. */
		assert_int_equal(listen_on(&ch, b, 1), cases[i].result == 0 ? EINVAL : 0);
		assert_int_equal(peer_handle(ch.sock, CTL_CM_DESTROY_ID, b), 0);
	}
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

static void
datagram_ends_find_each_other(void **state)
{
	struct channel server, client;
	struct ctl_cm_event ev;
	struct ctl_req q;
	struct ctl_rsp r;
	uint32_t c;

	channel_open(&server);
	channel_open(&client);
	listener(&server, CTL_CM_PS_UDP, UROCE_QPT_UD, own);
	c = routed(&client, CTL_CM_PS_UDP, UROCE_QPT_UD, own, PORT);
	assert_int_equal(connect_with(&client, CTL_CM_CONNECT, c, 0, "ask"), 0);
	ev = expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	assert_memory_equal(ev.private_data, "ask", 4);
	assert_int_equal(connect_with(&server, CTL_CM_ACCEPT, ev.id, 0x789, "here"), 0);
	ev = expect(&client, c, CTL_CM_EV_ESTABLISHED, 0);
	/* The answer is all there is of a connection: its sender hears no more of it. */
	expect_quiet(&server);
	assert_int_equal(ev.conn.qp_num, 0x789);
	assert_int_equal(ev.conn.qkey, 0x01234567);
	assert_memory_equal(ev.ah.dgid, own, 16);
	assert_memory_equal(ev.private_data, "here", 5);
	q = peer_req(CTL_CM_JOIN);
	q.cm_join = (struct ctl_cm_join_req){ .id = c, .join_flags = 1, .addr = addr(group, 0) };
	assert_int_equal(call(&client, &q, &r), 0);
	ev = expect(&client, c, CTL_CM_EV_MULTICAST_JOIN, 0);
	assert_int_equal(ev.group, r.handle.handle);
	assert_int_equal(ev.conn.qp_num, 0xffffff);
	assert_memory_equal(ev.ah.dgid, group, 16);
	assert_int_equal(call(&client, &q, &r), EADDRINUSE);
	assert_int_equal(peer_handle(client.sock, CTL_CM_LEAVE, ev.group), 0);
	assert_int_equal(peer_handle(client.sock, CTL_CM_LEAVE, ev.group), EINVAL);
	q.cm_join.addr = addr(own, 0);
	assert_int_equal(call(&client, &q, &r), EINVAL);
	channel_close(&server);
	channel_close(&client);
	assert_true(daemon_wait_empty());
}

/* Whoever asks for another kind of QP than the listener is for: its program would make one that can't be connected. */
static void
request_for_another_type_is_refused(void **state)
{
	static const struct {
		uint32_t listener, asks;
	} types[] = {
		{ UROCE_QPT_RC, UROCE_QPT_RC },
		{ UROCE_QPT_UC, UROCE_QPT_UC },
		{ UROCE_QPT_UD, UROCE_QPT_UD },
		{ UROCE_QPT_XRC_RECV, UROCE_QPT_XRC_SEND },
	};
	enum { TYPES = sizeof(types) / sizeof(types[0]) };
	struct channel server, client;
	struct ctl_cm_event ev;
	uint32_t l, c, i, k;

	channel_open(&server);
	channel_open(&client);
	for (i = 0; i < TYPES; i++) {
		l = listener(&server, CTL_CM_PS_TCP, types[i].listener, own);
		for (k = 0; k < TYPES; k++) {
			c = routed(&client, CTL_CM_PS_TCP, types[k].asks, own, PORT);
			assert_int_equal(connect_with(&client, CTL_CM_CONNECT, c, new_qpn(), ""), 0);
			if (i == k) {
				expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
				continue;
			}
			if (types[k].asks == UROCE_QPT_UD)
				expect(&client, c, CTL_CM_EV_UNREACHABLE, CM_SIDR_REJECT);
			else
				expect(&client, c, CTL_CM_EV_REJECTED, CM_REJ_INVALID_TRANSPORT_TYPE);
			assert_false(next_event(&server, 0, &ev));
		}
		/* And the one that asked for the right type, since nobody answers it any more. */
		assert_int_equal(peer_handle(server.sock, CTL_CM_DESTROY_ID, l), 0);
		assert_true(next_event(&client, EVENT_MS, &ev));
		assert_int_equal(ev.type, types[i].asks == UROCE_QPT_UD ? CTL_CM_EV_UNREACHABLE : CTL_CM_EV_REJECTED);
	}
	channel_close(&server);
	channel_close(&client);
	assert_true(daemon_wait_empty());
}

static uint32_t
migrate(struct channel *from, uint32_t id, struct channel *to)
{
	struct ctl_req q = peer_req(CTL_CM_MIGRATE);
	struct ctl_rsp r;

	q.cm_migrate = (struct ctl_cm_migrate_req){ .id = id, .token = from->token };
	assert_int_equal(call(to, &q, &r), 0);
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
	assert_int_equal(call(&other, &q, &r), EINVAL);
	/* To where it is. */
	assert_int_equal(migrate(&t.client, t.c, &t.client), t.c);
	id = migrate(&t.client, t.c, &other);
	/* What was read there isn't told again. */
	expect_quiet(&other);
	channel_close(&t.client);
	assert_int_equal(peer_handle(t.server.sock, CTL_CM_DISCONNECT, t.s), 0);
	expect(&other, id, CTL_CM_EV_DISCONNECTED, 0);
	channel_close(&other);
	channel_close(&t.server);
	assert_true(daemon_wait_empty());
}

/** Wait until an event is in the pipe of @p ch, and leave it there. */
static void
wait_unread(struct channel *ch)
{
	struct pollfd p = { .fd = ch->events, .events = POLLIN };

	assert_int_equal(poll(&p, 1, EVENT_MS), 1);
}

static void
unread_events_move_with_their_id(void **state)
{
	enum { OTHERS = 400 };
	struct channel other;
	struct conn t;
	uint32_t i, id;

	/* From the pipe. */
	conn_open(&t, own);
	channel_open(&other);
	assert_int_equal(peer_handle(t.server.sock, CTL_CM_DISCONNECT, t.s), 0);
	wait_unread(&t.client);
	id = migrate(&t.client, t.c, &other);
	expect(&other, id, CTL_CM_EV_DISCONNECTED, 0);
	expect_quiet(&other);
	channel_close(&other);
	conn_close(&t);
	/* From behind others that the pipe has no room for: they stay, in order. */
	channel_open(&t.client);
	channel_open(&other);
	for (i = 0; i < OTHERS; i++)
		assert_int_equal(resolve(&t.client, create(&t.client, CTL_CM_PS_TCP, UROCE_QPT_RC), addr(elsewhere, PORT), 9), 0);
	t.c = create(&t.client, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(resolve(&t.client, t.c, addr(elsewhere, PORT), 9), 0);
	assert_int_equal(resolve(&t.client, t.c, addr(own, PORT), 9), 0);
	id = migrate(&t.client, t.c, &other);
	expect(&other, id, CTL_CM_EV_ADDR_ERROR, -EHOSTUNREACH);
	assert_memory_equal(expect(&other, id, CTL_CM_EV_ADDR_RESOLVED, 0).info.sgid, own, 16);
	expect_quiet(&other);
	for (i = 0; i < OTHERS; i++)
		expect(&t.client, i, CTL_CM_EV_ADDR_ERROR, -EHOSTUNREACH);
	expect_quiet(&t.client);
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
	l = listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	for (i = 0; i < 3; i++) {
		c[i] = routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, PORT);
		assert_int_equal(connect_with(&client, CTL_CM_CONNECT, c[i], new_qpn(), i == 1 ? "second" : ""), 0);
		if (i == 0)
			read = expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0).id;
	}
	wait_unread(&server);
	l = migrate(&server, l, &other);
	ev = expect(&other, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	assert_int_equal(ev.listener, l);
	assert_memory_equal(ev.private_data, "second", 7);
	assert_int_equal(connect_with(&other, CTL_CM_ACCEPT, ev.id, new_qpn(), ""), 0);
	expect(&client, c[1], CTL_CM_EV_CONNECT_RESPONSE, 0);
	expect(&other, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	assert_int_equal(connect_with(&server, CTL_CM_ACCEPT, read, new_qpn(), ""), 0);
	expect(&client, c[0], CTL_CM_EV_CONNECT_RESPONSE, 0);
	channel_close(&other);
	channel_close(&server);
	channel_close(&client);
	assert_true(daemon_wait_empty());
}

/* What became of a request since, too; and an id that a program can't know of yet, but moves. */
static void
requests_that_move_keep_their_events(void **state)
{
	struct channel server, client, other;
	uint32_t l, c, id, guessed;
	int unread;

	channel_open(&server);
	channel_open(&client);
	channel_open(&other);
	l = listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	c = routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, PORT);
	assert_int_equal(connect_with(&client, CTL_CM_CONNECT, c, new_qpn(), ""), 0);
	wait_unread(&server);
	assert_int_equal(peer_handle(client.sock, CTL_CM_DESTROY_ID, c), 0);
	c = routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, PORT);
	assert_int_equal(connect_with(&client, CTL_CM_CONNECT, c, new_qpn(), ""), 0);
	while (ioctl(server.events, FIONREAD, &unread) == 0 && unread < 3 * (int)sizeof(struct ctl_cm_event))
		usleep(1000);
	l = migrate(&server, l, &other);
	id = expect(&other, 0, CTL_CM_EV_CONNECT_REQUEST, 0).id;
	expect(&other, id, CTL_CM_EV_REJECTED, CM_REJ_TIMEOUT);
	expect(&other, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	assert_int_equal(peer_handle(other.sock, CTL_CM_DESTROY_ID, id), 0);
	/* The next handle that this session gives. */
	guessed = create(&other, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(peer_handle(other.sock, CTL_CM_DESTROY_ID, guessed), 0);
	guessed += 1 << 20;
	c = routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, PORT);
	assert_int_equal(connect_with(&client, CTL_CM_CONNECT, c, new_qpn(), ""), 0);
	wait_unread(&other);
	id = migrate(&other, guessed, &server);
	assert_int_equal(peer_handle(server.sock, CTL_CM_DESTROY_ID, id), 0);
	assert_int_equal(expect(&other, 0, CTL_CM_EV_CONNECT_REQUEST, 0).listener, l);
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
		ids[i] = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
		assert_int_equal(resolve(&ch, ids[i], addr(own, PORT), 100), 0);
	}
	/* One of those that wait goes, and its event with it. */
	assert_int_equal(peer_handle(ch.sock, CTL_CM_DESTROY_ID, ids[IDS - 1]), 0);
	for (i = 0; i < IDS - 1; i++) {
		assert_true(next_event(&ch, EVENT_MS, &ev));
		assert_int_equal(ev.id, ids[i]);
	}
	expect_quiet(&ch);
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

	q.cm_resolve_addr = (struct ctl_cm_resolve_addr_req){ .id = id, .timeout_ms = 9, .dst = addr(elsewhere, PORT) };
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
	routed_id = routed(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC, own, PORT);
	ud = routed(&ch, CTL_CM_PS_UDP, UROCE_QPT_UD, own, PORT);
	resolved_id = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(resolve(&ch, resolved_id, addr(own, PORT), 9), 0);
	expect(&ch, resolved_id, CTL_CM_EV_ADDR_RESOLVED, 0);
	id = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(resolve_until_refused(&ch, id, TRIES), CTL_CM_MAX_QUEUED);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_RESOLVE_ROUTE, resolved_id), EAGAIN);
	assert_int_equal(connect_with(&ch, CTL_CM_CONNECT, routed_id, new_qpn(), ""), EAGAIN);
	q.cm_join = (struct ctl_cm_join_req){ .id = ud, .join_flags = 1, .addr = addr(group, 0) };
	assert_int_equal(call(&ch, &q, &r), EAGAIN);
	/* Who reads goes on. */
	for (i = 0; i < READ; i++)
		assert_true(next_event(&ch, EVENT_MS, &ev));
	assert_int_equal(call(&ch, &q, &r), 0);
	assert_int_equal(resolve(&ch, id, addr(elsewhere, PORT), 9), 0);
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

/* Nothing stays of what can't be begun, and the message is of what was missing. */
static void
without_random_numbers_nothing_begins(void **state)
{
	struct ctl_req q = peer_req(CTL_CM_OPEN);
	unsigned int fds = daemon_counts().fds;
	struct channel ch;
	struct ctl_rsp r;
	int pipe_fds[2];
	uint32_t id;

	ch.sock = peer_connect();
	assert_int_equal(peer_hello(ch.sock), 0);
	assert_int_equal(pipe2(pipe_fds, O_NONBLOCK | O_CLOEXEC), 0);
	set(&no_entropy, true);
	assert_int_equal(peer_call(ch.sock, &q, &pipe_fds[1], 1, &r, NULL, 0), EIO);
	set(&no_entropy, false);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	close(ch.sock);
	assert_true(daemon_wait_empty());
	assert_int_equal(daemon_counts().fds, fds);
	channel_open(&ch);
	id = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	set(&no_entropy, true);
	q = peer_req(CTL_CM_RESOLVE_ADDR);
	q.cm_resolve_addr = (struct ctl_cm_resolve_addr_req){ .id = id, .dst = addr(own, PORT) };
	assert_int_equal(call(&ch, &q, &r), EADDRNOTAVAIL);
	set(&no_entropy, false);
	assert_non_null(strstr(r.message, "port"));
	/* Two families in one request. */
	assert_int_equal(bind_to(&ch, id, addr(own, 0), &r), 0);
	q.cm_resolve_addr.dst = addr(own6, PORT);
	assert_int_equal(call(&ch, &q, &r), EINVAL);
	assert_non_null(strstr(r.message, "family"));
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

/* When its pipe can't be watched for room, a program is told by the end of its session that it misses events. */
static void
session_whose_events_cannot_leave_ends(void **state)
{
	enum { TRIES = 400 };
	struct ctl_req q = peer_req(CTL_CM_RESOLVE_ADDR);
	struct channel ch;
	struct ctl_rsp r;
	int i, rc = 0;

	channel_open(&ch);
	q.cm_resolve_addr.id = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	q.cm_resolve_addr.dst = addr(elsewhere, PORT);
	set(&no_watches, true);
	for (i = 0; i < TRIES && rc == 0; i++)
		rc = call(&ch, &q, &r);
	set(&no_watches, false);
	/* No reply to the one whose event had no room, or none to the next. */
	assert_int_equal(rc, -1);
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

static void
wrong_requests_are_refused(void **state)
{
	struct ctl_req q = peer_req(CTL_CM_CREATE_ID);
	struct channel ch;
	struct ctl_rsp r;
	struct conn t;
	uint32_t id, op;
	int fds[2], sock;

	/* Before there is a channel. */
	sock = peer_connect();
	assert_int_equal(peer_hello(sock), 0);
	for (op = CTL_CM_CREATE_ID; op <= CTL_CM_MIGRATE; op++) {
		q = peer_req(op);
		assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	}
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	q = peer_req(CTL_CM_OPEN);
	assert_int_equal(peer_call(sock, &q, &fds[1], 1, &r, NULL, 0), EINVAL);
	close(fds[0]);
	close(fds[1]);
	close(sock);
	/* Handles of nobody, wrong values, wrong order. */
	channel_open(&ch);
	for (op = CTL_CM_DESTROY_ID; op <= CTL_CM_MIGRATE; op++) {
		q = peer_req(op);
		memset(q.space, 0xff, sizeof(q.space));
		assert_int_not_equal(call(&ch, &q, &r), 0);
	}
	q = peer_req(CTL_CM_CREATE_ID);
	q.cm_create = (struct ctl_cm_create_req){ .ps = 0x999, .qp_type = UROCE_QPT_RC };
	assert_int_equal(call(&ch, &q, &r), EPROTONOSUPPORT);
	q.cm_create = (struct ctl_cm_create_req){ .ps = CTL_CM_PS_TCP, .qp_type = 77 };
	assert_int_equal(call(&ch, &q, &r), EINVAL);
	id = create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_RESOLVE_ROUTE, id), EINVAL);
	assert_int_equal(connect_with(&ch, CTL_CM_CONNECT, id, 0x123, ""), EINVAL);
	assert_int_equal(connect_with(&ch, CTL_CM_ACCEPT, id, 0x123, ""), EINVAL);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_DISCONNECT, id), EINVAL);
	id = routed(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC, own, PORT);
	assert_int_equal(connect_with(&ch, CTL_CM_CONNECT, id, 1, ""), EINVAL);
	assert_int_equal(connect_with(&ch, CTL_CM_CONNECT, id, 0x1000000, ""), EINVAL);
	assert_int_equal(connect_with(&ch, CTL_CM_CONNECT, id, 0x123,
				      "fifty-six bytes are what an REQ has room for, and this has 57"),
			 EINVAL);
	assert_int_equal(listen_on(&ch, id, 1), EINVAL);
	channel_close(&ch);
	conn_open(&t, own);
	assert_int_equal(connect_with(&t.server, CTL_CM_ACCEPT, t.s, 0x456, ""), EINVAL);
	assert_int_equal(connect_with(&t.client, CTL_CM_CONNECT, t.c, 0x123, ""), EINVAL);
	assert_int_equal(peer_handle(t.client.sock, CTL_CM_DISCONNECT, t.s), EINVAL);
	conn_close(&t);
}

static void
limit_connects(uint32_t of_session, uint32_t of_user)
{
	struct uroced_config *conf = daemon_control()->s.conf;

	control_lock(daemon_control());
	conf->session_max_connects = of_session;
	conf->user_max_connects = of_user;
	control_unlock(daemon_control());
}

/** Connect, one id after the other, until that is too fast. @return the id that was refused with these words. */
static uint32_t
connect_too_fast(struct channel *ch, const char *words)
{
	struct ctl_req q = peer_req(CTL_CM_CONNECT);
	struct ctl_rsp r;

	/* A second for each of so many takes longer on no machine. */
	for (int i = 0; i < 20; i++) {
		q.cm_connect = (struct ctl_cm_connect_req){ .id = routed(ch, CTL_CM_PS_TCP, UROCE_QPT_RC, own, PORT),
							    .param = { .qp_num = new_qpn() } };
		if (call(ch, &q, &r) == EAGAIN)
			break;
		assert_int_equal(r.status, 0);
	}
	assert_int_equal(r.status, EAGAIN);
	if (strstr(r.message, words) == NULL)
		fail_msg("'%s' isn't in '%s'", words, r.message);
	return q.cm_connect.id;
}

static void
connections_beyond_the_quota_are_refused_and_may_be_asked_for_later(void **state)
{
	struct channel server, one, other;
	uint32_t id, others;

	/* It answers nobody, so that no event comes between. */
	channel_open(&server);
	listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	channel_open(&one);
	channel_open(&other);
	others = routed(&other, CTL_CM_PS_TCP, UROCE_QPT_RC, own, PORT);
	limit_connects(1, 0);
	id = connect_too_fast(&one, "daemon.session_max_connects is 1");
	/* Another program has a share of its own. */
	assert_int_equal(connect_with(&other, CTL_CM_CONNECT, others, new_qpn(), ""), 0);
	/* The id is as it was. */
	usleep(1100000);
	assert_int_equal(connect_with(&one, CTL_CM_CONNECT, id, new_qpn(), ""), 0);
	/* A user's programs have theirs together. */
	limit_connects(0, 1);
	connect_too_fast(&one, "daemon.user_max_connects is 1");
	id = connect_too_fast(&other, "daemon.user_max_connects is 1");
	limit_connects(0, 0);
	assert_int_equal(connect_with(&other, CTL_CM_CONNECT, id, new_qpn(), ""), 0);
	channel_close(&one);
	channel_close(&other);
	channel_close(&server);
	assert_true(daemon_wait_empty());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_meet_and_part),
		cmocka_unit_test(ends_meet_over_ipv6),
		cmocka_unit_test(peer_of_a_program_that_dies_knows_at_once),
		cmocka_unit_test(listener_that_dies_rejects_who_waits),
		cmocka_unit_test(rejection_brings_its_reason_and_data),
		cmocka_unit_test(port_nobody_listens_on_is_rejected),
		cmocka_unit_test(address_nobody_has_is_an_error_in_time),
		cmocka_unit_test(who_resolves_much_leaves_room_for_others),
		cmocka_unit_test(ports_are_given_once),
		cmocka_unit_test(one_of_those_that_share_a_port_listens),
		cmocka_unit_test(datagram_ends_find_each_other),
		cmocka_unit_test(request_for_another_type_is_refused),
		cmocka_unit_test(id_moves_to_another_channel),
		cmocka_unit_test(unread_events_move_with_their_id),
		cmocka_unit_test(unread_requests_move_with_their_listener),
		cmocka_unit_test(requests_that_move_keep_their_events),
		cmocka_unit_test(no_event_is_lost_while_nobody_reads),
		cmocka_unit_test(events_that_nobody_reads_are_bounded),
		cmocka_unit_test(without_random_numbers_nothing_begins),
		cmocka_unit_test(session_whose_events_cannot_leave_ends),
		cmocka_unit_test(wrong_requests_are_refused),
		cmocka_unit_test(connections_beyond_the_quota_are_refused_and_may_be_asked_for_later),
	};

	return DAEMON_TESTS(tests, 16, 64, NULL);
}
