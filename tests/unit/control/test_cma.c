/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids of librdmacm in the daemon: addresses, connections between two event channels, and who is refused. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "channel.h"
#include "cm/cm.h"
#include "control/core/session_priv.h"
#include "daemon.h"

static const uint8_t group[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };
/** On the port's network, and nobody's. */
static const uint8_t nobody[16] = { [10] = 0xff, 0xff, 198, 18, 0, 99 };

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

static void
set(bool *flag, bool value)
{
	__atomic_store_n(flag, value, __ATOMIC_SEQ_CST);
}

static struct ctl_cm_qp_attr_rsp
attr(struct channel *ch, uint32_t id, uint32_t state)
{
	struct ctl_req q = peer_req(CTL_CM_QP_ATTR);
	struct ctl_rsp r;

	q.cm_qp_attr = (struct ctl_cm_qp_attr_req){ .id = id, .state = state };
	assert_int_equal(channel_call(ch, &q, &r), 0);
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
	channel_expect(&t.server, t.s, CTL_CM_EV_DISCONNECTED, 0);
	assert_int_equal(peer_handle(t.server.sock, CTL_CM_DISCONNECT, t.s), 0);
	channel_expect(&t.client, t.c, CTL_CM_EV_DISCONNECTED, 0);
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

/* As with TCP, a listener on 127.0.0.1 is there for this host. One on an address of a port is there for 127.0.0.1, too, which programs take for "this host". */
static void
ends_meet_by_loopback(void **state)
{
	static const uint8_t loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 }, other[16] = { [10] = 0xff, 0xff, 127, 1, 2, 3 }, loopback6[16] = { [15] = 1 };
	static const struct {
		const uint8_t *listen, *to;
		bool meet;
	} cases[] = {
		{ loopback, loopback, true }, { loopback, other, true }, { other, loopback, true }, { loopback6, loopback6, true }, { own, loopback, true },
		{ loopback, own, false }, { loopback6, loopback, false }, { loopback, loopback6, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct channel server, client;
		struct ctl_cm_event ev;
		uint32_t listener, c;

		channel_open(&server);
		channel_open(&client);
		listener = channel_listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, cases[i].listen);
		c = channel_routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, cases[i].to, CHANNEL_PORT);
		assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, c, channel_qpn(), "hello"), 0);
		if (cases[i].meet) {
			ev = channel_expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
			assert_int_equal(ev.listener, listener);
			/* Programs are told the address that they have asked for; their QPs use the port's. */
			assert_memory_equal(ev.info.local.gid, cases[i].to, 16);
			assert_memory_equal(ev.info.remote.gid, cases[i].to, 16);
			assert_memory_equal(ev.info.sgid, ev.info.local.family == 4 ? own : own6, 16);
			assert_memory_equal(ev.info.dgid, ev.info.sgid, 16);
		} else {
			channel_expect(&client, c, CTL_CM_EV_REJECTED, CM_REJ_INVALID_SERVICE_ID);
			channel_quiet(&server);
		}
		channel_close(&client);
		channel_close(&server);
		assert_true(daemon_wait_empty());
	}
}

static void
ends_that_met_by_loopback_part(void **state)
{
	static const uint8_t loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	struct conn t;

	conn_open(&t, loopback);
	assert_memory_equal(attr(&t.client, t.c, UROCE_QPS_RTR).attr.ah.dgid, own, 16);
	assert_int_equal(peer_handle(t.client.sock, CTL_CM_DISCONNECT, t.c), 0);
	channel_expect(&t.server, t.s, CTL_CM_EV_DISCONNECTED, 0);
	assert_int_equal(peer_handle(t.server.sock, CTL_CM_DISCONNECT, t.s), 0);
	channel_expect(&t.client, t.c, CTL_CM_EV_DISCONNECTED, 0);
	conn_close(&t);
}

static void
peer_of_a_program_that_dies_knows_at_once(void **state)
{
	struct conn t;

	conn_open(&t, own);
	channel_close(&t.client);
	channel_expect(&t.server, t.s, CTL_CM_EV_DISCONNECTED, 0);
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
	channel_listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	c = channel_routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, c, channel_qpn(), ""), 0);
	channel_expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	channel_close(&server);
	channel_expect(&client, c, CTL_CM_EV_REJECTED, CM_REJ_CONSUMER_DEFINED);
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
	channel_listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	c = channel_routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, c, channel_qpn(), ""), 0);
	ev = channel_expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	q.cm_reject = (struct ctl_cm_reject_req){ .id = ev.id, .private_len = 3, .private_data = "no" };
	assert_int_equal(channel_call(&server, &q, &r), 0);
	ev = channel_expect(&client, c, CTL_CM_EV_REJECTED, CM_REJ_CONSUMER_DEFINED);
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
	c = channel_routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, c, channel_qpn(), ""), 0);
	channel_expect(&client, c, CTL_CM_EV_REJECTED, CM_REJ_INVALID_SERVICE_ID);
	c = channel_routed(&client, CTL_CM_PS_UDP, UROCE_QPT_UD, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, c, channel_qpn(), ""), 0);
	channel_expect(&client, c, CTL_CM_EV_UNREACHABLE, CM_SIDR_UNSUPPORTED);
	channel_close(&client);
	assert_true(daemon_wait_empty());
}

static void
address_nobody_has_is_an_error_in_time(void **state)
{
	struct channel ch;
	uint32_t id;

	channel_open(&ch);
	id = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(channel_resolve(&ch, id, channel_addr(nobody, CHANNEL_PORT), 300), 0);
	channel_quiet(&ch);
	channel_expect(&ch, id, CTL_CM_EV_ADDR_ERROR, -ETIMEDOUT);
	/* And it may try another. */
	assert_int_equal(channel_resolve(&ch, id, channel_addr(own, CHANNEL_PORT), 300), 0);
	channel_expect(&ch, id, CTL_CM_EV_ADDR_RESOLVED, 0);
	id = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(channel_resolve(&ch, id, channel_addr(elsewhere, CHANNEL_PORT), 300), 0);
	channel_expect(&ch, id, CTL_CM_EV_ADDR_ERROR, -EHOSTUNREACH);
	/* One that goes away while it asks. */
	id = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(channel_resolve(&ch, id, channel_addr(nobody, CHANNEL_PORT), 300), 0);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_DESTROY_ID, id), 0);
	id = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(channel_resolve(&ch, id, channel_addr(nobody, CHANNEL_PORT), 300), 0);
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

/* One program asks for more dead addresses at a time than the port can ask for; what another gets is an answer in its
 * time. */
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
	q.cm_resolve_addr =
		(struct ctl_cm_resolve_addr_req){ .timeout_ms = 60000, .dst = channel_addr(nobody, CHANNEL_PORT) };
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
	id = channel_create(&other, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(channel_resolve(&other, id, channel_addr(nobody, CHANNEL_PORT), 100), 0);
	assert_true(channel_event(&other, CHANNEL_EVENT_MS, &ev));
	assert_int_equal(ev.type, CTL_CM_EV_ADDR_ERROR);
	/* Its own time limit, or nobody is there: not that there was no room. */
	assert_true(ev.status == -ETIMEDOUT || ev.status == -EHOSTUNREACH);
	/* Answered without the wire. */
	assert_int_equal(channel_resolve(&greedy, channel_create(&greedy, CTL_CM_PS_TCP, UROCE_QPT_RC),
					 channel_addr(own, CHANNEL_PORT), 100),
			 0);
	do
		assert_true(channel_event(&greedy, CHANNEL_EVENT_MS, &ev));
	while (ev.type != CTL_CM_EV_ADDR_RESOLVED);
	channel_close(&greedy);
	channel_close(&other);
	assert_true(daemon_wait_empty());
}

static void
ports_are_given_once(void **state)
{
	static const uint8_t any6[16];
	struct ctl_cm_addr any = { .family = 4, .port = CHANNEL_PORT };
	struct ctl_req q = peer_req(CTL_CM_SET_OPTION);
	struct channel ch;
	uint32_t a, b, c, d;
	struct ctl_rsp r;

	channel_open(&ch);
	a = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	b = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	c = channel_create(&ch, CTL_CM_PS_UDP, UROCE_QPT_UD);
	d = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(channel_bind(&ch, a, channel_addr(own, CHANNEL_PORT), &r), 0);
	assert_int_equal(r.cm_info.device, 0);
	assert_memory_equal(r.cm_info.sgid, own, 16);
	assert_int_equal(channel_bind(&ch, a, channel_addr(own, CHANNEL_PORT), &r), EINVAL);
	assert_int_equal(channel_bind(&ch, b, channel_addr(own, CHANNEL_PORT), &r), EADDRINUSE);
	/* Linux has another error where one of the two is a wildcard. */
	assert_int_equal(channel_bind(&ch, b, any, &r), EADDRNOTAVAIL);
	assert_int_equal(channel_bind(&ch, b, channel_addr(any6, CHANNEL_PORT), &r), EADDRNOTAVAIL);
	/* Another address, another port space, only IPv6. */
	assert_int_equal(channel_bind(&ch, b, channel_addr(own6, CHANNEL_PORT), &r), 0);
	assert_int_equal(channel_bind(&ch, c, channel_addr(own, CHANNEL_PORT), &r), 0);
	assert_int_equal(channel_bind(&ch, d, channel_addr(elsewhere, CHANNEL_PORT), &r), ENODEV);
	assert_int_equal(channel_bind(&ch, d, channel_addr(own, 0), &r), 0);
	assert_in_range(r.cm_info.local.port, 32768, 60999);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_DESTROY_ID, a), 0);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_DESTROY_ID, b), 0);
	/* Reuse, until one listens. */
	a = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	b = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	q.cm_option = (struct ctl_cm_option_req){ .id = a, .option = CTL_CM_OPT_REUSEADDR, .value = 1 };
	assert_int_equal(channel_call(&ch, &q, &r), 0);
	q.cm_option.id = b;
	assert_int_equal(channel_call(&ch, &q, &r), 0);
	assert_int_equal(channel_bind(&ch, a, channel_addr(own, CHANNEL_PORT), &r), 0);
	assert_int_equal(channel_bind(&ch, b, channel_addr(own, CHANNEL_PORT), &r), 0);
	assert_int_equal(channel_listen(&ch, a, 1), 0);
	assert_int_equal(channel_listen(&ch, b, 1), EADDRINUSE);
	q.cm_option.option = CTL_CM_OPT_AFONLY;
	assert_int_equal(channel_call(&ch, &q, &r), EINVAL);
	q.cm_option.option = 99;
	assert_int_equal(channel_call(&ch, &q, &r), ENOSYS);
	channel_close(&ch);
	assert_true(daemon_wait_empty());
}

/* All that share a port allow reuse, and are bound before the first of them listens. */
static void
one_of_those_that_share_a_port_listens(void **state)
{
	static const uint8_t any6[16];
	const struct ctl_cm_addr any4 = { .family = 4, .port = CHANNEL_PORT };
	const struct {
		struct ctl_cm_addr first, second;
		bool only6; /**< the second */
		int result;
	} cases[] = {
		{ any4, channel_addr(own, CHANNEL_PORT), false, EADDRNOTAVAIL },
		{ channel_addr(own, CHANNEL_PORT), any4, false, EADDRNOTAVAIL },
		{ channel_addr(any6, CHANNEL_PORT), channel_addr(own, CHANNEL_PORT), false, EADDRNOTAVAIL },
		{ channel_addr(own, CHANNEL_PORT), channel_addr(own, CHANNEL_PORT), false, EADDRINUSE },
		{ channel_addr(own6, CHANNEL_PORT), channel_addr(own, CHANNEL_PORT), false, 0 },
		{ any4, channel_addr(any6, CHANNEL_PORT), false, EADDRNOTAVAIL },
		{ any4, channel_addr(any6, CHANNEL_PORT), true, 0 },
	};
	struct ctl_req q = peer_req(CTL_CM_SET_OPTION);
	struct channel ch;
	struct ctl_rsp r;
	uint32_t a, b, i;

	channel_open(&ch);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		a = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
		b = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
		q.cm_option = (struct ctl_cm_option_req){ .id = a, .option = CTL_CM_OPT_REUSEADDR, .value = 1 };
		assert_int_equal(channel_call(&ch, &q, &r), 0);
		q.cm_option.id = b;
		assert_int_equal(channel_call(&ch, &q, &r), 0);
		q.cm_option.option = CTL_CM_OPT_AFONLY;
		q.cm_option.value = cases[i].only6;
		assert_int_equal(channel_call(&ch, &q, &r), 0);
		assert_int_equal(channel_bind(&ch, b, cases[i].second, &r), 0);
		assert_int_equal(channel_bind(&ch, a, cases[i].first, &r), 0);
		assert_int_equal(channel_listen(&ch, a, 1), 0);
		assert_int_equal(channel_listen(&ch, b, 1), cases[i].result);
		assert_int_equal(peer_handle(ch.sock, CTL_CM_DESTROY_ID, a), 0);
		/* Who listened is gone. */
		assert_int_equal(channel_listen(&ch, b, 1), cases[i].result == 0 ? EINVAL : 0);
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
	uint32_t c, qpn = channel_qpn();

	channel_open(&server);
	channel_open(&client);
	channel_listener(&server, CTL_CM_PS_UDP, UROCE_QPT_UD, own);
	c = channel_routed(&client, CTL_CM_PS_UDP, UROCE_QPT_UD, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, c, 0, "ask"), 0);
	ev = channel_expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	assert_memory_equal(ev.private_data, "ask", 4);
	assert_int_equal(channel_connect(&server, CTL_CM_ACCEPT, ev.id, qpn, "here"), 0);
	ev = channel_expect(&client, c, CTL_CM_EV_ESTABLISHED, 0);
	/* The answer is all there is of a connection: its sender hears no more of it. */
	channel_quiet(&server);
	assert_int_equal(ev.conn.qp_num, qpn);
	assert_int_equal(ev.conn.qkey, 0x01234567);
	assert_memory_equal(ev.ah.dgid, own, 16);
	assert_memory_equal(ev.private_data, "here", 5);
	q = peer_req(CTL_CM_JOIN);
	q.cm_join = (struct ctl_cm_join_req){ .id = c, .join_flags = 1, .addr = channel_addr(group, 0) };
	assert_int_equal(channel_call(&client, &q, &r), 0);
	ev = channel_expect(&client, c, CTL_CM_EV_MULTICAST_JOIN, 0);
	assert_int_equal(ev.group, r.handle.handle);
	assert_int_equal(ev.conn.qp_num, 0xffffff);
	assert_memory_equal(ev.ah.dgid, group, 16);
	assert_int_equal(channel_call(&client, &q, &r), EADDRINUSE);
	assert_int_equal(peer_handle(client.sock, CTL_CM_LEAVE, ev.group), 0);
	assert_int_equal(peer_handle(client.sock, CTL_CM_LEAVE, ev.group), EINVAL);
	q.cm_join.addr = channel_addr(own, 0);
	assert_int_equal(channel_call(&client, &q, &r), EINVAL);
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
		l = channel_listener(&server, CTL_CM_PS_TCP, types[i].listener, own);
		for (k = 0; k < TYPES; k++) {
			c = channel_routed(&client, CTL_CM_PS_TCP, types[k].asks, own, CHANNEL_PORT);
			assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, c, channel_qpn(), ""), 0);
			if (i == k) {
				channel_expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
				continue;
			}
			if (types[k].asks == UROCE_QPT_UD)
				channel_expect(&client, c, CTL_CM_EV_UNREACHABLE, CM_SIDR_REJECT);
			else
				channel_expect(&client, c, CTL_CM_EV_REJECTED, CM_REJ_INVALID_TRANSPORT_TYPE);
			assert_false(channel_event(&server, 0, &ev));
		}
		/* And the one that asked for the right type, since nobody answers it any more. */
		assert_int_equal(peer_handle(server.sock, CTL_CM_DESTROY_ID, l), 0);
		assert_true(channel_event(&client, CHANNEL_EVENT_MS, &ev));
		assert_int_equal(ev.type, types[i].asks == UROCE_QPT_UD ? CTL_CM_EV_UNREACHABLE : CTL_CM_EV_REJECTED);
	}
	channel_close(&server);
	channel_close(&client);
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
	uint32_t id;

	ch.sock = peer_connect();
	assert_int_equal(peer_hello(ch.sock), 0);
	set(&no_entropy, true);
	assert_int_equal(peer_call(ch.sock, &q, NULL, 0, &r, NULL, 0), EIO);
	set(&no_entropy, false);
	close(ch.sock);
	assert_true(daemon_wait_empty());
	assert_int_equal(daemon_counts().fds, fds);
	channel_open(&ch);
	id = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	set(&no_entropy, true);
	q = peer_req(CTL_CM_RESOLVE_ADDR);
	q.cm_resolve_addr = (struct ctl_cm_resolve_addr_req){ .id = id, .dst = channel_addr(own, CHANNEL_PORT) };
	assert_int_equal(channel_call(&ch, &q, &r), EADDRNOTAVAIL);
	set(&no_entropy, false);
	assert_non_null(strstr(r.message, "port"));
	/* Two families in one request. */
	assert_int_equal(channel_bind(&ch, id, channel_addr(own, 0), &r), 0);
	q.cm_resolve_addr.dst = channel_addr(own6, CHANNEL_PORT);
	assert_int_equal(channel_call(&ch, &q, &r), EINVAL);
	assert_non_null(strstr(r.message, "family"));
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
	/* It takes no descriptors. */
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
		assert_int_not_equal(channel_call(&ch, &q, &r), 0);
	}
	q = peer_req(CTL_CM_CREATE_ID);
	q.cm_create = (struct ctl_cm_create_req){ .ps = 0x999, .qp_type = UROCE_QPT_RC };
	assert_int_equal(channel_call(&ch, &q, &r), EPROTONOSUPPORT);
	q.cm_create = (struct ctl_cm_create_req){ .ps = CTL_CM_PS_TCP, .qp_type = 77 };
	assert_int_equal(channel_call(&ch, &q, &r), EINVAL);
	id = channel_create(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_RESOLVE_ROUTE, id), EINVAL);
	assert_int_equal(channel_connect(&ch, CTL_CM_CONNECT, id, 0x123, ""), EINVAL);
	assert_int_equal(channel_connect(&ch, CTL_CM_ACCEPT, id, 0x123, ""), EINVAL);
	assert_int_equal(peer_handle(ch.sock, CTL_CM_DISCONNECT, id), EINVAL);
	id = channel_routed(&ch, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&ch, CTL_CM_CONNECT, id, 1, ""), EINVAL);
	assert_int_equal(channel_connect(&ch, CTL_CM_CONNECT, id, 0x1000000, ""), EINVAL);
	assert_int_equal(channel_connect(&ch, CTL_CM_CONNECT, id, 0x123,
					 "fifty-six bytes are what an REQ has room for, and this has 57"),
			 EINVAL);
	assert_int_equal(channel_listen(&ch, id, 1), EINVAL);
	channel_close(&ch);
	conn_open(&t, own);
	assert_int_equal(channel_connect(&t.server, CTL_CM_ACCEPT, t.s, 0x456, ""), EINVAL);
	assert_int_equal(channel_connect(&t.client, CTL_CM_CONNECT, t.c, 0x123, ""), EINVAL);
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
	conf->limit_root = of_user != 0;
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
		q.cm_connect = (struct ctl_cm_connect_req){ .id = channel_routed(ch, CTL_CM_PS_TCP, UROCE_QPT_RC, own,
										 CHANNEL_PORT),
							    .param = { .qp_num = channel_qpn() } };
		if (channel_call(ch, &q, &r) == EAGAIN)
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
	channel_listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	channel_open(&one);
	channel_open(&other);
	others = channel_routed(&other, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	limit_connects(1, 0);
	id = connect_too_fast(&one, "daemon.session_max_connects is 1");
	/* Another program has a share of its own. */
	assert_int_equal(channel_connect(&other, CTL_CM_CONNECT, others, channel_qpn(), ""), 0);
	/* The id is as it was. */
	usleep(1100000);
	assert_int_equal(channel_connect(&one, CTL_CM_CONNECT, id, channel_qpn(), ""), 0);
	/* A user's programs have theirs together. */
	limit_connects(0, 1);
	connect_too_fast(&one, "daemon.user_max_connects is 1");
	id = connect_too_fast(&other, "daemon.user_max_connects is 1");
	limit_connects(0, 0);
	assert_int_equal(channel_connect(&other, CTL_CM_CONNECT, id, channel_qpn(), ""), 0);
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
		cmocka_unit_test(ends_meet_by_loopback),
		cmocka_unit_test(ends_that_met_by_loopback_part),
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
		cmocka_unit_test(without_random_numbers_nothing_begins),
		cmocka_unit_test(wrong_requests_are_refused),
		cmocka_unit_test(connections_beyond_the_quota_are_refused_and_may_be_asked_for_later),
	};

	return DAEMON_TESTS(tests, 16, CHANNEL_QPS, channel_begin);
}
