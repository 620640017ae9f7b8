/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "channel.h"
#include "daemon.h"

enum { QUIET_MS = 100 };

void
channel_open(struct channel *ch)
{
	struct ctl_req q = peer_req(CTL_CM_OPEN);
	struct ctl_rsp r;

	ch->sock = peer_connect();
	assert_int_equal(peer_hello(ch->sock), 0);
	assert_int_equal(peer_call(ch->sock, &q, NULL, 0, &r, &ch->events, 1), 0);
	ch->token = r.cm_open.token;
}

void
channel_close(struct channel *ch)
{
	close(ch->sock);
	close(ch->events);
}

int
channel_call(struct channel *ch, struct ctl_req *q, struct ctl_rsp *r)
{
	return peer_call(ch->sock, q, NULL, 0, r, NULL, 0);
}

bool
channel_event(struct channel *ch, int ms, struct ctl_cm_event *ev)
{
	struct pollfd p = { .fd = ch->events, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && read(ch->events, ev, sizeof(*ev)) == (ssize_t)sizeof(*ev);
}

struct ctl_cm_event
channel_expect(struct channel *ch, uint32_t id, enum ctl_cm_event_type type, int status)
{
	struct ctl_cm_event ev;

	if (!channel_event(ch, CHANNEL_EVENT_MS, &ev))
		fail_msg("no event, but type %d was to come", type);
	assert_int_equal(ev.type, type);
	assert_int_equal(ev.status, status);
	if (type != CTL_CM_EV_CONNECT_REQUEST)
		assert_int_equal(ev.id, id);
	return ev;
}

void
channel_quiet(struct channel *ch)
{
	struct ctl_cm_event ev;

	assert_false(channel_event(ch, QUIET_MS, &ev));
}

uint32_t
channel_create(struct channel *ch, uint32_t ps, uint32_t type)
{
	struct ctl_req q = peer_req(CTL_CM_CREATE_ID);
	struct ctl_rsp r;

	q.cm_create = (struct ctl_cm_create_req){ .ps = ps, .qp_type = type };
	assert_int_equal(channel_call(ch, &q, &r), 0);
	return r.handle.handle;
}

struct ctl_cm_addr
channel_addr(const uint8_t gid[16], uint16_t port)
{
	struct ctl_cm_addr a = { .family = gid[10] == 0xff ? 4 : 6, .port = port };

	memcpy(a.gid, gid, 16);
	return a;
}

int
channel_bind(struct channel *ch, uint32_t id, struct ctl_cm_addr a, struct ctl_rsp *r)
{
	struct ctl_req q = peer_req(CTL_CM_BIND);

	q.cm_bind = (struct ctl_cm_bind_req){ .id = id, .addr = a };
	return channel_call(ch, &q, r);
}

int
channel_listen(struct channel *ch, uint32_t id, uint32_t backlog)
{
	struct ctl_req q = peer_req(CTL_CM_LISTEN);
	struct ctl_rsp r;

	q.cm_listen = (struct ctl_cm_listen_req){ .id = id, .backlog = backlog };
	return channel_call(ch, &q, &r);
}

int
channel_resolve(struct channel *ch, uint32_t id, struct ctl_cm_addr dst, uint32_t ms)
{
	struct ctl_req q = peer_req(CTL_CM_RESOLVE_ADDR);
	struct ctl_rsp r;

	q.cm_resolve_addr = (struct ctl_cm_resolve_addr_req){ .id = id, .timeout_ms = ms, .dst = dst };
	return channel_call(ch, &q, &r);
}

uint32_t
channel_routed(struct channel *ch, uint32_t ps, uint32_t type, const uint8_t gid[16], uint16_t port)
{
	uint32_t id = channel_create(ch, ps, type);

	assert_int_equal(channel_resolve(ch, id, channel_addr(gid, port), 2000), 0);
	channel_expect(ch, id, CTL_CM_EV_ADDR_RESOLVED, 0);
	assert_int_equal(peer_handle(ch->sock, CTL_CM_RESOLVE_ROUTE, id), 0);
	channel_expect(ch, id, CTL_CM_EV_ROUTE_RESOLVED, 0);
	return id;
}

int
channel_connect(struct channel *ch, uint32_t op, uint32_t id, uint32_t qpn, const char *data)
{
	struct ctl_req q = peer_req(op);
	struct ctl_rsp r;

	q.cm_connect = (struct ctl_cm_connect_req){
		.id = id,
		.param = { .qp_num = qpn,
			   .responder_resources = 3,
			   .initiator_depth = 4,
			   .retry_count = 7,
			   .rnr_retry_count = 6,
			   .private_len = (uint8_t)strlen(data) },
	};
	memcpy(q.cm_connect.private_data, data, strlen(data));
	return channel_call(ch, &q, &r);
}

uint32_t
channel_listener(struct channel *ch, uint32_t ps, uint32_t type, const uint8_t gid[16])
{
	uint32_t id = channel_create(ch, ps, type);
	struct ctl_rsp r;

	assert_int_equal(channel_bind(ch, id, channel_addr(gid, CHANNEL_PORT), &r), 0);
	assert_int_equal(channel_listen(ch, id, 8), 0);
	return id;
}

uint32_t
channel_qpn(void)
{
	static uint32_t last = 0x100;

	return ++last;
}

void
conn_open(struct conn *t, const uint8_t gid[16])
{
	struct ctl_cm_event ev;

	t->s_qpn = channel_qpn();
	t->c_qpn = channel_qpn();
	channel_open(&t->server);
	channel_open(&t->client);
	t->listener = channel_listener(&t->server, CTL_CM_PS_TCP, UROCE_QPT_RC, gid);
	t->c = channel_routed(&t->client, CTL_CM_PS_TCP, UROCE_QPT_RC, gid, CHANNEL_PORT);
	assert_int_equal(channel_connect(&t->client, CTL_CM_CONNECT, t->c, t->c_qpn, "hello"), 0);
	ev = channel_expect(&t->server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	t->s = ev.id;
	assert_int_equal(ev.listener, t->listener);
	assert_int_equal(ev.conn.qp_num, t->c_qpn);
	/* What the peer offers is what this end may use, the other way round. */
	assert_int_equal(ev.conn.responder_resources, 4);
	assert_int_equal(ev.conn.initiator_depth, 3);
	assert_int_equal(ev.conn.private_len, 56);
	assert_memory_equal(ev.private_data, "hello", 6);
	assert_memory_equal(ev.info.remote.gid, gid, 16);
	assert_int_equal(ev.info.local.port, CHANNEL_PORT);
	assert_int_equal(channel_connect(&t->server, CTL_CM_ACCEPT, t->s, t->s_qpn, "welcome"), 0);
	ev = channel_expect(&t->client, t->c, CTL_CM_EV_CONNECT_RESPONSE, 0);
	assert_int_equal(ev.conn.qp_num, t->s_qpn);
	assert_memory_equal(ev.private_data, "welcome", 8);
	assert_int_equal(channel_connect(&t->client, CTL_CM_ACCEPT, t->c, t->c_qpn, ""), 0);
	channel_expect(&t->server, t->s, CTL_CM_EV_ESTABLISHED, 0);
}

void
conn_close(struct conn *t)
{
	channel_close(&t->client);
	channel_close(&t->server);
	assert_true(daemon_wait_empty());
}
