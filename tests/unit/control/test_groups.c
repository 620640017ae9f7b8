/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs that share an SRQ or an XRC domain move as one, while messages arrive for all of them; if one of them can't, none does. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/core/control_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "control/observe/inspect_priv.h"
#include "group.h"
#include "transport/core/copy_priv.h"

enum {
	MESSAGES = 2000,
	MOVE_EVERY = 16,       /* one move in so many messages */
	EVENT_WAIT_MS = 5000,
	MANY = ENGINE_MOVE_MOST,
};

/* ---- What the daemon says ---- */
static unsigned int
engine_of(uint32_t qpn)
{
	struct session *s;
	struct obj_qp *qp;
	unsigned int engine;

	control_lock(daemon_control());
	qp = inspect_find_one(daemon_control(), INSPECT_QP, qpn, &s);
	assert_non_null(qp);
	engine = qp->engine;
	assert_int_equal(qp_engine(qp->qp), engine);
	control_unlock(daemon_control());
	return engine;
}

/** @return what came in another order than it was sent, or was dropped. (An engine that others keep from its core may send a probe.) */
static uint64_t
disorder(void)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < daemon_engines; i++) {
		const struct tp_counters *c = transport_counters(engine_transport(daemon_control()->s.engines[i]));

		n += c->out_of_sequence + c->packet_seq_err + c->implied_nak_seq_err + c->rx_held + c->rx_moving_dropped;
	}
	return n;
}

/** Move the group of a QP and see that all others have moved with it. @return how many have. */
static unsigned int
must_move(uint32_t qpn, unsigned int engine)
{
	bool there = engine_of(qpn) == engine;
	struct control_moved moved;

	assert_int_equal(daemon_move(qpn, engine, &moved), 0);
	assert_int_equal(moved.qps, there ? 0 : GROUP_MEMBERS);
	group_all_are_at(daemon_control(), engine);
	return moved.qps;
}

/** Any receiver moves all of them; senders move one by one. */
static void
messages_go_on_while_it_moves(struct group *g)
{
	const struct moves *n = &daemon_control()->moves;
	uint64_t before = disorder(), moved = 0, done = n->done;
	struct control_moved one;
	uint32_t k = 0;

	for (group_fill(g, MESSAGES); !group_done(g, MESSAGES); group_fill(g, MESSAGES), k++) {
		group_take(g);
		if (k % MOVE_EVERY != 0)
			continue;
		if (k / MOVE_EVERY % 3 == 2) {
			assert_int_equal(daemon_move(g->send[k / MOVE_EVERY % GROUP_MEMBERS].qp.qpn, k / MOVE_EVERY / 5 & 1, &one), 0);
			assert_in_range(one.qps, 0, 1);
			moved += one.qps;
		} else {
			moved += must_move(g->recv[k / MOVE_EVERY % GROUP_MEMBERS].qpn, k / MOVE_EVERY & 1);
		}
	}
	assert_true(moved > GROUP_MEMBERS * MESSAGES / MOVE_EVERY);
	assert_int_equal(n->done - done, moved);
	assert_int_equal(disorder(), before);
}

/* ---- SRQs ---- */
static void
qps_of_an_srq_move_while_messages_arrive(void **state)
{
	struct group g;

	group_open(&g, false);
	messages_go_on_while_it_moves(&g);
	group_close(&g);
}

/** An engine has no way to take a receive of an SRQ that is elsewhere: a QP that is made later is at the SRQ's engine, too. */
static void
qp_made_later_is_where_the_srq_is(void **state)
{
	struct ctl_qp_create_rsp qp;
	struct control_moved moved;
	struct group g;

	group_open(&g, false);
	for (unsigned int k = 0; k < 2; k++) {
		must_move(g.recv[0].qpn, k);
		qp = group_new_qp(&g, UROCE_QPT_RC, g.srq[0].made.handle);
		assert_int_equal(qp.engine, k);
		assert_int_equal(daemon_move(qp.qpn, !k, &moved), 0);
		assert_int_equal(moved.qps, GROUP_MEMBERS + 1);
		assert_int_equal(engine_of(g.recv[1].qpn), !k);
		assert_int_equal(peer_handle(g.p.sock, CTL_QP_DESTROY, qp.handle), 0);
	}
	group_close(&g);
}

static void
set_limit(struct group *g, uint32_t limit)
{
	struct ctl_req q = peer_req(CTL_SRQ_MODIFY);
	struct ctl_rsp r;

	q.srq_modify = (struct ctl_srq_modify_req){ .handle = g->srq[0].made.handle, .mask = 2, .limit = limit };
	peer_must(g->p.sock, &q, &r, NULL);
}

static unsigned int
limit_events(struct group *g, int wait_ms)
{
	struct pollfd fd = { .fd = g->p.async_fd, .events = POLLIN };
	struct ctl_async_event ev;
	unsigned int n = 0;

	while (poll(&fd, 1, n == 0 ? wait_ms : 50) == 1) {
		assert_int_equal(read(g->p.async_fd, &ev, sizeof(ev)), sizeof(ev));
		assert_int_equal(ev.type, UROCE_EVENT_SRQ_LIMIT_REACHED);
		assert_int_equal(ev.cookie, 55);
		n++;
	}
	return n;
}

static void
limit_of_an_srq_that_has_moved_is_told_once(void **state)
{
	struct ctl_req q = peer_req(CTL_SRQ_QUERY);
	struct ctl_rsp r;
	struct group g;

	group_open(&g, false);
	for (uint32_t k = 1; k <= 4; k++) {
		/* All slots are posted again as they complete: the SRQ comes below its limit with the first message. */
		set_limit(&g, GROUP_SLOTS);
		must_move(g.recv[k % GROUP_MEMBERS].qpn, k & 1);
		q.handle.handle = g.srq[0].made.handle;
		peer_must(g.p.sock, &q, &r, NULL);
		assert_int_equal(r.srq_query.limit, GROUP_SLOTS);
		assert_int_equal(limit_events(&g, 0), 0);
		for (group_fill(&g, k * GROUP_IN_FLIGHT); !group_done(&g, k * GROUP_IN_FLIGHT);)
			group_take(&g);
		assert_int_equal(limit_events(&g, EVENT_WAIT_MS), 1);
		peer_must(g.p.sock, &q, &r, NULL);
		assert_int_equal(r.srq_query.limit, 0);
	}
	group_close(&g);
}

static void
sessions_end_with_an_srq_elsewhere(void **state)
{
	struct daemon_counts before, after;
	struct group g;

	assert_true(daemon_wait_empty());
	before = daemon_counts();
	for (unsigned int k = 0; k < 8; k++) {
		group_open(&g, (k & 4) != 0);
		group_fill(&g, GROUP_IN_FLIGHT);
		must_move(g.recv[k % GROUP_MEMBERS].qpn, k & 1);
		if (k & 2)
			must_move(g.recv[0].qpn, !(k & 1));
		group_close(&g);
	}
	after = daemon_counts();
	assert_int_equal(after.qps, before.qps);
	assert_memory_equal(&before.control, &after.control, sizeof(before.control));
}

/* ---- XRC ---- */
static void
xrc_domain_moves_while_messages_arrive(void **state)
{
	struct group g;

	group_open(&g, true);
	messages_go_on_while_it_moves(&g);
	group_close(&g);
}

/** What another program has made of the domain, too, and what is made later. */
static void
parts_of_other_programs_move_with_the_domain(void **state)
{
	int file = memfd_create("xrc", MFD_CLOEXEC);
	struct ctl_req q = peer_req(CTL_QP_OPEN);
	struct ctl_qp_create_rsp target;
	struct control_moved moved;
	struct group a, b;
	struct ctl_rsp r;

	group_begin(&a);
	group_begin(&b);
	group_open_domain(&a, file);
	group_open_domain(&b, file);
	close(file);
	group_new_srq(&b, true);
	target = group_new_qp(&a, UROCE_QPT_XRC_RECV, UINT32_MAX);
	group_new_qp(&a, UROCE_QPT_XRC_RECV, UINT32_MAX);
	q.qp_open = (struct ctl_qp_open_req){ .xrcd = b.xrcd, .qpn = target.qpn, .type = UROCE_QPT_XRC_RECV };
	peer_must(b.p.sock, &q, &r, NULL);
	for (unsigned int k = 0; k < 3; k++) {
		unsigned int to = !engine_of(target.qpn);

		assert_int_equal(daemon_move(target.qpn, to, &moved), 0);
		/* A target that two programs have open is one QP. */
		assert_int_equal(moved.qps, 2);
		group_all_are_at(daemon_control(), to);
		a.nb_srqs = 0;
		group_new_srq(&a, true);
		group_all_are_at(daemon_control(), to);
		if (k != 0)
			assert_int_equal(peer_handle(a.p.sock, CTL_SRQ_DESTROY, a.srq[0].made.handle), 0);
	}
	assert_int_equal(peer_handle(b.p.sock, CTL_QP_DESTROY, r.qp_create.handle), 0);
	assert_int_equal(peer_handle(b.p.sock, CTL_SRQ_DESTROY, b.srq[0].made.handle), 0);
	group_forget_memory(&a);
	group_forget_memory(&b);
	peer_close(&a.p);
	peer_close(&b.p);
	assert_true(daemon_wait_empty());
}

/* ---- None moves ---- */
/** Have a QP look as if a copy for it were under way: one that never ends. */
static int
copy_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	static struct tp_copy busy = { .slots = { [COPY_SEND] = { .running = true } } };
	struct qp *qp = arg;

	qp->copy = qp->copy == NULL ? &busy : NULL;
	return 0;
}

static void
toggle_copy(uint32_t qpn)
{
	struct session *s;
	struct obj_qp *qp;

	control_lock(daemon_control());
	qp = inspect_find_one(daemon_control(), INSPECT_QP, qpn, &s);
	engine_call(daemon_control()->s.engines[qp->engine], copy_msg, qp->qp);
	control_unlock(daemon_control());
}

static void
one_that_can_not_move_keeps_the_others(void **state)
{
	const struct moves *n = &daemon_control()->moves;
	struct control_moved moved;
	struct group g;

	for (int xrc = 0; xrc < 2; xrc++) {
		uint64_t refused = n->refused, done = n->done;

		group_open(&g, xrc);
		must_move(g.recv[0].qpn, 0);
		done = n->done;
		for (int i = 0; i < GROUP_MEMBERS; i++) {
			toggle_copy(g.recv[i].qpn);
			assert_int_equal(daemon_move(g.recv[(i + 1) % GROUP_MEMBERS].qpn, 1, &moved), EBUSY);
			toggle_copy(g.recv[i].qpn);
			assert_int_equal(moved.qps, 0);
			assert_int_equal(n->refused, ++refused);
			for (int k = 0; k < GROUP_MEMBERS; k++)
				assert_int_equal(engine_of(g.recv[k].qpn), 0);
		}
		assert_int_equal(n->done, done);
		for (group_fill(&g, GROUP_IN_FLIGHT); !group_done(&g, GROUP_IN_FLIGHT);)
			group_take(&g);
		must_move(g.recv[0].qpn, 1);
		for (group_fill(&g, 2 * GROUP_IN_FLIGHT); !group_done(&g, 2 * GROUP_IN_FLIGHT);)
			group_take(&g);
		group_close(&g);
	}
}

static void
too_many_stay(void **state)
{
	const struct moves *n = &daemon_control()->moves;
	struct ctl_qp_create_rsp last;
	struct control_moved moved;
	uint64_t refused;
	unsigned int at;
	struct group g;

	group_begin(&g);
	group_open_domain(&g, -1);
	for (uint32_t i = 0; i < MANY; i++)
		last = group_new_qp(&g, UROCE_QPT_XRC_RECV, UINT32_MAX);
	at = engine_of(last.qpn);
	assert_int_equal(daemon_move(last.qpn, !at, &moved), 0);
	assert_int_equal(moved.qps, MANY);
	print_message("%d QPs moved together in %lu us\n", MANY, (unsigned long)moved.pause_ns / 1000);
	refused = n->refused;
	group_new_qp(&g, UROCE_QPT_XRC_RECV, UINT32_MAX);
	assert_int_equal(daemon_move(last.qpn, at, &moved), E2BIG);
	assert_int_equal(n->refused, refused + 1);
	group_all_are_at(daemon_control(), !at);
	group_forget_memory(&g);
	peer_close(&g.p);
	assert_true(daemon_wait_empty());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qps_of_an_srq_move_while_messages_arrive),
		cmocka_unit_test(qp_made_later_is_where_the_srq_is),
		cmocka_unit_test(limit_of_an_srq_that_has_moved_is_told_once),
		cmocka_unit_test(sessions_end_with_an_srq_elsewhere),
		cmocka_unit_test(xrc_domain_moves_while_messages_arrive),
		cmocka_unit_test(parts_of_other_programs_move_with_the_domain),
		cmocka_unit_test(one_that_can_not_move_keeps_the_others),
		cmocka_unit_test(too_many_stay),
	};

	daemon_engines = 2;
	return DAEMON_TESTS(tests, 100, 1000, NULL);
}
