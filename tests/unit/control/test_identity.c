/* SPDX-License-Identifier: BSD-3-Clause */
/* On this host no user can pass for another one: QP numbers in requests for connections, and the peers of QPs. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "channel.h"
#include "control/core/quota_priv.h"
#include "control/obj/identity_priv.h"
#include "daemon.h"

enum { OTHER_UID = 54321, PEER_QPN = 0x4711 };

/** The last session that began becomes another user's. */
static void
become_another(void)
{
	struct control *c = daemon_control();
	struct session *s;
	struct user *u;

	control_lock(c);
	s = TAILQ_LAST(&c->sessions, session_list);
	u = quota_enter(c, OTHER_UID);
	assert_non_null(u);
	for (unsigned int i = 0; i < QUOTAS; i++) {
		s->user->used[i] -= s->used[i];
		u->used[i] += s->used[i];
	}
	quota_leave(s->user);
	s->user = u;
	control_unlock(c);
}

/** A QP of a session of its own. */
struct mine {
	struct peer p;
	uint32_t handle, qpn, cq, pd;
};

static void
mine_open(struct mine *m, bool another)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	struct ctl_rsp r;
	int fd = -1;

	peer_open(&m->p);
	if (another)
		become_another();
	m->pd = peer_pd(m->p.sock);
	m->cq = peer_cq(&m->p, 1).handle;
	q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_RC, .pd = m->pd, .send_cq = m->cq, .recv_cq = m->cq,
						  .srq = UINT32_MAX, .cap = { 1, 1, 1, 1, 0 } };
	assert_int_equal(peer_call(m->p.sock, &q, NULL, 0, &r, &fd, 1), 0);
	peer_segment(&m->p, &r.qp_create.seg, fd);
	m->handle = r.qp_create.handle;
	m->qpn = r.qp_create.qpn;
}

static int
modify(struct mine *m, uint32_t mask, const struct uroce_qp_attr *attr, struct ctl_rsp *r)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);

	q.qp_modify.handle = m->handle;
	q.qp_modify.mask = mask;
	q.qp_modify.attr = *attr;
	return peer_call(m->p.sock, &q, NULL, 0, r, NULL, 0);
}

static int
to_state(struct mine *m, enum uroce_qp_state state)
{
	const struct uroce_qp_attr a = { .qp_state = state };
	struct ctl_rsp r;

	return modify(m, UROCE_QP_STATE, &a, &r);
}

/** From RESET to INIT and RTR, to QP @p qpn at this host. */
static int
to_rtr(struct mine *m, uint32_t qpn, struct ctl_rsp *r)
{
	const struct uroce_qp_attr init = { .qp_state = UROCE_QPS_INIT, .port_num = 1 };
	struct uroce_qp_attr rtr = { .qp_state = UROCE_QPS_RTR, .path_mtu = UROCE_MTU_1024, .dest_qp_num = qpn,
				     .ah = { .sgid_index = 1, .hop_limit = 64, .is_global = 1, .port_num = 1 } };

	memcpy(rtr.ah.dgid, own, 16);
	assert_int_equal(modify(m, UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS, &init, r), 0);
	return modify(m, UROCE_QP_STATE | UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
		      UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER, &rtr, r);
}

/* ---- Requests for connections ---- */
static void
a_request_names_a_QP_of_its_user(void **state)
{
	struct control *c = daemon_control();
	struct channel server, client;
	struct ctl_cm_event ev;
	struct mine victim;
	uint64_t refused = c->refused_qpns;
	uint32_t id;

	mine_open(&victim, false);
	channel_open(&server);
	channel_listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	channel_open(&client);
	become_another();
	id = channel_routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	/* Another user's QP, and one that nobody has yet. */
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, id, victim.qpn, ""), EINVAL);
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, id, victim.qpn ^ 0x800000, ""), EINVAL);
	assert_int_equal(c->refused_qpns, refused + 2);
	channel_quiet(&server);
	channel_close(&client);
	/* Its owner may, also from another session. */
	channel_open(&client);
	id = channel_routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, id, victim.qpn, ""), 0);
	ev = channel_expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	/* The answer has to name a QP of its user, too. */
	assert_int_equal(channel_connect(&server, CTL_CM_ACCEPT, ev.id, victim.qpn ^ 0x800000, ""), EINVAL);
	assert_int_equal(c->refused_qpns, refused + 3);
	assert_int_equal(channel_connect(&server, CTL_CM_ACCEPT, ev.id, channel_qpn(), ""), 0);
	channel_expect(&client, id, CTL_CM_EV_CONNECT_RESPONSE, 0);
	channel_close(&client);
	channel_close(&server);
	peer_close(&victim.p);
	assert_true(daemon_wait_empty());
}

/* ---- Peers ---- */
static void
a_connected_QP_has_its_peer_for_itself(void **state)
{
	struct control *c = daemon_control();
	struct mine victim, same, stranger;
	uint64_t refused = c->refused_peers;
	struct ctl_rsp r;

	mine_open(&victim, false);
	mine_open(&same, false);
	mine_open(&stranger, true);
	assert_int_equal(to_rtr(&victim, PEER_QPN, &r), 0);
	assert_int_equal(to_rtr(&stranger, PEER_QPN, &r), EADDRINUSE);
	assert_non_null(strstr(r.message, "another user of this host is connected to QP 0x4711 of that peer"));
	assert_int_equal(c->refused_peers, refused + 1);
	/* Another QP of the peer is free; and a program of the same user may do as it likes. */
	assert_int_equal(to_state(&stranger, UROCE_QPS_RESET), 0);
	assert_int_equal(to_rtr(&stranger, PEER_QPN + 1, &r), 0);
	assert_int_equal(to_rtr(&same, PEER_QPN, &r), 0);
	assert_int_equal(to_state(&same, UROCE_QPS_RESET), 0);
	/* Who came first has it as long as it is connected. */
	assert_int_equal(to_state(&stranger, UROCE_QPS_RESET), 0);
	assert_int_equal(to_rtr(&stranger, PEER_QPN, &r), EADDRINUSE);
	assert_int_equal(to_state(&victim, UROCE_QPS_ERR), 0);
	assert_int_equal(to_state(&stranger, UROCE_QPS_RESET), 0);
	assert_int_equal(to_rtr(&stranger, PEER_QPN, &r), 0);
	/* Now it is the stranger's. */
	assert_int_equal(to_state(&victim, UROCE_QPS_RESET), 0);
	assert_int_equal(to_rtr(&victim, PEER_QPN, &r), EADDRINUSE);
	peer_close(&stranger.p);
	for (int i = 0; i < 5000 && daemon_counts().control.sessions > daemon_kept_sessions + 2; i++)
		usleep(1000);
	assert_int_equal(to_state(&victim, UROCE_QPS_RESET), 0);
	assert_int_equal(to_rtr(&victim, PEER_QPN, &r), 0);
	peer_close(&victim.p);
	peer_close(&same.p);
	assert_true(daemon_wait_empty());
}

static void
an_alternate_path_leads_to_nobody_elses_peer(void **state)
{
	const uint32_t mask = UROCE_QP_ALT_PATH | UROCE_QP_PATH_MIG_STATE;
	struct uroce_qp_attr alt = { .path_mig_state = 1, .alt_port_num = 1,
				     .alt_ah = { .sgid_index = 1, .hop_limit = 64, .is_global = 1, .port_num = 1 } };
	struct mine victim, stranger;
	struct ctl_rsp r;

	memcpy(alt.alt_ah.dgid, own, 16);
	mine_open(&victim, false);
	mine_open(&stranger, true);
	assert_int_equal(to_rtr(&stranger, PEER_QPN, &r), 0);
	/* The stranger was first at this peer, but in ERR it has no peer. */
	assert_int_equal(to_state(&stranger, UROCE_QPS_ERR), 0);
	assert_int_equal(to_rtr(&victim, PEER_QPN, &r), 0);
	assert_int_not_equal(modify(&stranger, mask, &alt, &r), 0);
	peer_close(&stranger.p);
	peer_close(&victim.p);
	assert_true(daemon_wait_empty());
}

/* A QP that doesn't know yet that its peer is gone can't keep the peer's next connection from another user. */
static void
who_has_the_agreement_of_the_peer_may_connect(void **state)
{
	struct channel server, client;
	struct ctl_cm_event ev;
	struct mine stale, fresh, theirs;
	struct ctl_rsp r;
	uint32_t id;

	mine_open(&stale, false);
	mine_open(&theirs, false);
	channel_open(&server);
	channel_listener(&server, CTL_CM_PS_TCP, UROCE_QPT_RC, own);
	mine_open(&fresh, true);
	channel_open(&client);
	become_another();
	assert_int_equal(to_rtr(&stale, theirs.qpn, &r), 0);
	id = channel_routed(&client, CTL_CM_PS_TCP, UROCE_QPT_RC, own, CHANNEL_PORT);
	assert_int_equal(channel_connect(&client, CTL_CM_CONNECT, id, fresh.qpn, ""), 0);
	ev = channel_expect(&server, 0, CTL_CM_EV_CONNECT_REQUEST, 0);
	assert_int_equal(to_rtr(&fresh, theirs.qpn, &r), EADDRINUSE);
	assert_int_equal(to_state(&fresh, UROCE_QPS_RESET), 0);
	assert_int_equal(channel_connect(&server, CTL_CM_ACCEPT, ev.id, theirs.qpn, ""), 0);
	channel_expect(&client, id, CTL_CM_EV_CONNECT_RESPONSE, 0);
	assert_int_equal(to_rtr(&fresh, theirs.qpn, &r), 0);
	peer_close(&fresh.p);
	channel_close(&client);
	channel_close(&server);
	peer_close(&stale.p);
	peer_close(&theirs.p);
	assert_true(daemon_wait_empty());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_names_a_QP_of_its_user),
		cmocka_unit_test(a_connected_QP_has_its_peer_for_itself),
		cmocka_unit_test(an_alternate_path_leads_to_nobody_elses_peer),
		cmocka_unit_test(who_has_the_agreement_of_the_peer_may_connect),
	};

	return DAEMON_TESTS(tests, 16, CHANNEL_QPS, channel_begin);
}
