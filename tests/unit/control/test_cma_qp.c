/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs that the daemon moves for librdmacm: CTL_CM_ACCEPT_QP and CTL_CM_DISCONNECT_QP. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "channel.h"
#include "control/cma/cma_priv.h"
#include "control/core/session_priv.h"
#include "pair.h"

enum { CLIENT, SERVER, MESSAGE_BYTES = 100, FAREWELLS = 40, WAIT_TRIES = 5000, WAIT_US = 1000 };
/** On the port's network, and nobody's. */
static const uint8_t nobody[16] = { [10] = 0xff, 0xff, 198, 18, 0, 99 };

/** A connection whose REQ has come, between the QPs of a pair, which are in INIT. */
struct asked {
	struct pair pair;
	struct channel server, client;
	uint32_t s, c;
};

static void
asked_open(struct asked *t)
{
	*t = (struct asked){ 0 };
	peer_open(&t->pair.p);
	pair_queues(&t->pair);
	pair_memory(&t->pair, CTL_SEG_CONVERTED);
	pair_init_qp(&t->pair, CLIENT);
	pair_init_qp(&t->pair, SERVER);
	channel_open(&t->server);
	channel_open(&t->client);
	channel_listener(&t->server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	t->c = channel_routed(&t->client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&t->client, CTL_CM_CONNECT, t->c, t->pair.end[CLIENT].qp.qpn, ""), 0);
	t->s = channel_expect(&t->server, 0, CTL_CM_EV_CONNECT_REQUEST, 0).id;
}

static void
asked_close(struct asked *t)
{
	channel_close(&t->client);
	channel_close(&t->server);
	pair_close(&t->pair);
}

/** @return the status. */
static int
accept_qp(struct asked *t, int end, uint32_t handle, uint8_t depth)
{
	struct ctl_req q = peer_req(CTL_CM_ACCEPT_QP);
	struct ctl_rsp r;

	q.cm_connect = (struct ctl_cm_connect_req){
		.id = end == SERVER ? t->s : t->c,
		.qp = handle,
		.param = { .qp_num = t->pair.end[end].qp.qpn, .responder_resources = depth, .initiator_depth = depth, .rnr_retry_count = 7 },
	};
	return channel_call(end == SERVER ? &t->server : &t->client, &q, &r);
}

static int
disconnect_qp(struct asked *t, int end, uint32_t handle)
{
	struct ctl_req q = peer_req(CTL_CM_DISCONNECT_QP);
	struct ctl_rsp r;

	q.cm_disconnect = (struct ctl_cm_disconnect_req){ .id = end == SERVER ? t->s : t->c, .qp = handle, .qp_num = t->pair.end[end].qp.qpn };
	return channel_call(end == SERVER ? &t->server : &t->client, &q, &r);
}

static struct uroce_qp_attr
query(struct asked *t, int end)
{
	struct ctl_req q = peer_req(CTL_QP_QUERY);
	struct ctl_rsp r;

	q.handle.handle = t->pair.end[end].qp.handle;
	assert_int_equal(peer_call(t->pair.p.sock, &q, NULL, 0, &r, NULL, 0), 0);
	return r.qp_query.attr;
}

static void
establish(struct asked *t)
{
	assert_int_equal(accept_qp(t, SERVER, t->pair.end[SERVER].qp.handle, 2), 0);
	channel_expect(&t->client, t->c, CTL_CM_EV_CONNECT_RESPONSE, 0);
	assert_int_equal(accept_qp(t, CLIENT, t->pair.end[CLIENT].qp.handle, UINT8_MAX), 0);
	channel_expect(&t->server, t->s, CTL_CM_EV_ESTABLISHED, 0);
}

static void
qps_are_connected_and_disconnected_with_their_ids(void **state)
{
	struct uroce_qp_attr c, s;
	struct ring_cqe e;
	struct asked t;

	asked_open(&t);
	establish(&t);
	c = query(&t, CLIENT);
	s = query(&t, SERVER);
	assert_int_equal(c.qp_state, UROCE_QPS_RTS);
	assert_int_equal(s.qp_state, UROCE_QPS_RTS);
	assert_int_equal(c.dest_qp_num, t.pair.end[SERVER].qp.qpn);
	assert_int_equal(s.dest_qp_num, t.pair.end[CLIENT].qp.qpn);
	assert_int_equal(c.rq_psn, s.sq_psn);
	assert_int_equal(s.rq_psn, c.sq_psn);
	/* The acceptor's depths are those of its request, the other one's those that it was told. */
	assert_int_equal(s.max_rd_atomic, 2);
	assert_int_equal(s.max_dest_rd_atomic, 2);
	assert_int_equal(c.max_rd_atomic, 2);
	assert_int_equal(c.retry_cnt, 7);
	assert_int_equal(c.rnr_retry, 7);
	assert_true(c.qp_access_flags & UROCE_ACCESS_REMOTE_READ);
	pair_post(&t.pair, CLIENT, UROCE_WR_RDMA_WRITE, t.pair.mem, MESSAGE_BYTES, t.pair.mem + PAIR_BYTES);
	assert_true(pair_poll(&t.pair, &e));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_int_equal(disconnect_qp(&t, CLIENT, t.pair.end[CLIENT].qp.handle), 0);
	assert_int_equal(query(&t, CLIENT).qp_state, UROCE_QPS_ERR);
	channel_expect(&t.server, t.s, CTL_CM_EV_DISCONNECTED, 0);
	assert_int_equal(disconnect_qp(&t, SERVER, t.pair.end[SERVER].qp.handle), 0);
	assert_int_equal(query(&t, SERVER).qp_state, UROCE_QPS_ERR);
	channel_expect(&t.client, t.c, CTL_CM_EV_DISCONNECTED, 0);
	/* One that is in ERR, or in RESET, needn't be moved. */
	assert_int_equal(disconnect_qp(&t, CLIENT, t.pair.end[CLIENT].qp.handle), 0);
	asked_close(&t);
}

/** The program posts a message and disconnects at once: the message is sent first. */
static void
last_message_is_sent_before_its_qp_stops(void **state)
{
	struct ring_cqe e;
	struct asked t;

	for (int i = 0; i < FAREWELLS; i++) {
		asked_open(&t);
		establish(&t);
		pair_post_recv(&t.pair, SERVER, t.pair.mem + PAIR_BYTES, MESSAGE_BYTES);
		pair_post(&t.pair, CLIENT, UROCE_WR_SEND, t.pair.mem, MESSAGE_BYTES, NULL);
		assert_int_equal(disconnect_qp(&t, CLIENT, t.pair.end[CLIENT].qp.handle), 0);
		/* The message, and that it was sent, which the disconnecting program may not learn any more. */
		for (int n = 0; n < 2; n++) {
			assert_true(pair_poll(&t.pair, &e));
			assert_true(e.status == UROCE_WC_SUCCESS || (e.opcode == UROCE_WC_SEND && e.status == UROCE_WC_WR_FLUSH_ERR));
		}
		asked_close(&t);
	}
}

/** The session of the pair. */
static struct session *
session_of(struct asked *t)
{
	struct session *s;
	const struct qp *qp = qp_table_get(daemon_control()->s.sh.qps, t->pair.end[SERVER].qp.qpn);

	assert_non_null(qp);
	s = session_find(daemon_control(), (uintptr_t)qp_owner(qp));
	assert_non_null(s);
	return s;
}

static void
qps_of_others_stay_as_they_are(void **state)
{
	struct control *c = daemon_control();
	struct asked t;
	struct session *s;
	pid_t pid;

	asked_open(&t);
	/* Handle and number of two QPs, a handle of nobody. */
	assert_int_equal(accept_qp(&t, SERVER, t.pair.end[CLIENT].qp.handle, 2), EAGAIN);
	assert_int_equal(accept_qp(&t, SERVER, UINT32_MAX, 2), EAGAIN);
	assert_int_equal(disconnect_qp(&t, SERVER, t.pair.end[CLIENT].qp.handle), EAGAIN);
	/* Another process of the same user. */
	control_lock(c);
	s = session_of(&t);
	pid = s->pid;
	s->pid = 1;
	control_unlock(c);
	assert_int_equal(accept_qp(&t, SERVER, t.pair.end[SERVER].qp.handle, 2), EAGAIN);
	assert_int_equal(disconnect_qp(&t, SERVER, t.pair.end[SERVER].qp.handle), EAGAIN);
	/* One that can't be told apart from others. */
	control_lock(c);
	s->pid = 0;
	control_unlock(c);
	assert_int_equal(accept_qp(&t, SERVER, t.pair.end[SERVER].qp.handle, 2), EAGAIN);
	assert_int_equal(query(&t, CLIENT).qp_state, UROCE_QPS_INIT);
	assert_int_equal(query(&t, SERVER).qp_state, UROCE_QPS_INIT);
	control_lock(c);
	s->pid = pid;
	control_unlock(c);
	establish(&t);
	asked_close(&t);
}

static bool
is_resolving(struct asked *t)
{
	bool active;

	control_lock(daemon_control());
	active = session_of(t)->pending.active;
	control_unlock(daemon_control());
	return active;
}

static void
while_a_request_is_under_way_nothing_is_moved(void **state)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);
	struct asked t;

	asked_open(&t);
	q.qp_modify = (struct ctl_qp_modify_req){ .handle = t.pair.end[CLIENT].qp.handle, .mask = PAIR_RTR_MASK, .attr = pair_rtr_attr(&t.pair, CLIENT, 99) };
	assert_int_equal(send(t.pair.p.sock, &q, sizeof(q), 0), sizeof(q));
	for (int i = 0; i < WAIT_TRIES && !is_resolving(&t); i++)
		usleep(WAIT_US);
	assert_true(is_resolving(&t));
	assert_int_equal(accept_qp(&t, SERVER, t.pair.end[SERVER].qp.handle, 2), EAGAIN);
	assert_int_equal(disconnect_qp(&t, SERVER, t.pair.end[SERVER].qp.handle), EAGAIN);
	assert_true(is_resolving(&t));
	asked_close(&t);
}

/** @return the id of a channel, which is the only one of its session but for listeners. */
static struct cma_id *
id_of(uint32_t handle)
{
	struct session *s;
	struct cma_id *id;

	TAILQ_FOREACH(s, &daemon_control()->sessions, link) {
		id = s->cma != NULL ? handles_get(&s->tab[OBJ_CM_ID], handle) : NULL;
		if (id != NULL && id->passive)
			return id;
	}
	fail_msg("no id %#x", handle);
	return NULL;
}

static void
a_peer_that_must_be_resolved_is_left_to_the_program(void **state)
{
	struct asked t;

	asked_open(&t);
	control_lock(daemon_control());
	memcpy(id_of(t.s)->remote.gid, nobody, sizeof(nobody));
	control_unlock(daemon_control());
	assert_int_equal(accept_qp(&t, SERVER, t.pair.end[SERVER].qp.handle, 2), EAGAIN);
	/* The session goes on at once. */
	assert_false(is_resolving(&t));
	assert_int_equal(query(&t, SERVER).qp_state, UROCE_QPS_INIT);
	control_lock(daemon_control());
	memcpy(id_of(t.s)->remote.gid, own, sizeof(own));
	control_unlock(daemon_control());
	establish(&t);
	asked_close(&t);
}

static void
what_makes_no_sense_is_refused(void **state)
{
	struct asked t;
	uint32_t s;

	asked_open(&t);
	/* More than the QP can have; it stays where it is. */
	assert_int_equal(accept_qp(&t, SERVER, t.pair.end[SERVER].qp.handle, UINT8_MAX - 1), EINVAL);
	assert_int_equal(query(&t, SERVER).qp_state, UROCE_QPS_INIT);
	/* Nothing to accept, and nothing to end. */
	s = t.s;
	t.s = channel_create(&t.server, CTL_CM_PS_TCP, UROCE_QPT_RC);
	assert_int_equal(accept_qp(&t, SERVER, t.pair.end[SERVER].qp.handle, 2), EINVAL);
	assert_int_equal(disconnect_qp(&t, SERVER, t.pair.end[SERVER].qp.handle), EINVAL);
	/* Datagrams have no connection. */
	t.s = channel_create(&t.server, CTL_CM_PS_UDP, UROCE_QPT_UD);
	assert_int_equal(accept_qp(&t, SERVER, t.pair.end[SERVER].qp.handle, 2), EINVAL);
	assert_int_equal(disconnect_qp(&t, SERVER, t.pair.end[SERVER].qp.handle), EINVAL);
	assert_int_equal(query(&t, SERVER).qp_state, UROCE_QPS_INIT);
	t.s = s;
	establish(&t);
	/* There is no request any more. */
	assert_int_equal(accept_qp(&t, SERVER, t.pair.end[SERVER].qp.handle, 2), EINVAL);
	asked_close(&t);
}

/** @return the reply to CTL_QP_CREATE with in_init. */
static struct ctl_qp_create_rsp
create_in_init(struct peer *p, uint32_t type)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	uint32_t cq = peer_cq(p, 1).handle;
	struct ctl_rsp r;
	int fd = -1;

	q.qp_create = (struct ctl_qp_create_req){ .type = type, .pd = peer_pd(p->sock), .send_cq = cq, .recv_cq = cq, .srq = UINT32_MAX, .in_init = 1,
						  .cap = { 1, 1, 1, 1, 0 } };
	assert_int_equal(peer_call(p->sock, &q, NULL, 0, &r, &fd, 1), 0);
	peer_segment(p, &r.qp_create.seg, fd);
	return r.qp_create;
}

static struct uroce_qp_attr
attr_of(struct peer *p, uint32_t handle)
{
	struct ctl_req q = peer_req(CTL_QP_QUERY);
	struct ctl_rsp r;

	q.handle.handle = handle;
	assert_int_equal(peer_call(p->sock, &q, NULL, 0, &r, NULL, 0), 0);
	return r.qp_query.attr;
}

static void
qps_are_made_in_init(void **state)
{
	struct control *c = daemon_control();
	struct ctl_qp_create_rsp r;
	struct peer p;
	uint16_t pkey;

	peer_open(&p);
	r = create_in_init(&p, UROCE_QPT_RC);
	assert_int_equal(((struct ring_qp_shared *)peer_area(&p, &r.shared))->state, UROCE_QPS_INIT);
	assert_int_equal(attr_of(&p, r.handle).qp_state, UROCE_QPS_INIT);
	assert_int_equal(attr_of(&p, r.handle).qp_access_flags, 0);
	r = create_in_init(&p, UROCE_QPT_UD);
	assert_int_equal(attr_of(&p, r.handle).qkey, CTL_CM_UDP_QKEY);
	/* What can't be is left to the program, which learns why. */
	control_lock(c);
	pkey = c->s.ports[0]->conf.pkeys[0];
	c->s.ports[0]->conf.pkeys[0] = 0;
	control_unlock(c);
	r = create_in_init(&p, UROCE_QPT_RC);
	control_lock(c);
	c->s.ports[0]->conf.pkeys[0] = pkey;
	control_unlock(c);
	assert_int_equal(attr_of(&p, r.handle).qp_state, UROCE_QPS_RESET);
	peer_close(&p);
	assert_true(daemon_wait_empty());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qps_are_connected_and_disconnected_with_their_ids),
		cmocka_unit_test(last_message_is_sent_before_its_qp_stops),
		cmocka_unit_test(qps_of_others_stay_as_they_are),
		cmocka_unit_test(while_a_request_is_under_way_nothing_is_moved),
		cmocka_unit_test(a_peer_that_must_be_resolved_is_left_to_the_program),
		cmocka_unit_test(what_makes_no_sense_is_refused),
		cmocka_unit_test(qps_are_made_in_init),
	};

	return DAEMON_TESTS(tests, 16, 64, NULL);
}
