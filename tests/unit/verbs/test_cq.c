/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/verbs/cq.c: polling and arming, against the engine's end of the rings, played here. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "bed.h"

static void
a_completion_has_every_field(void **state)
{
	struct ibv_wc wc;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	complete(&b, 0, 0x99, true);
	assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 0x99);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.vendor_err, 9);
	assert_int_equal(wc.byte_len, 11);
	assert_int_equal(wc.imm_data, 0x01020304);
	assert_int_equal(wc.qp_num, QPN);
	assert_int_equal(wc.src_qp, 0xabcdef);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(b.cq_shared.cons, 1);
	assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 0);
	bed_fini(&b);
}

static void
completions_of_a_destroyed_qp_are_skipped(void **state)
{
	struct ibv_wc wc[8];
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	complete(&b, 0, 1, false);
	complete(&b, 1, 2, false);
	client_cq_forget(&b.cq, &b.qp);
	complete(&b, 2, 3, false);
	assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 1);
	assert_int_equal(wc[0].wr_id, 3);
	/* And so are those of a QP that nobody knows. */
	complete(&b, 3, 4, false);
	b.ctx.qps[QPN & (CLIENT_QPN_SLOTS - 1)] = NULL;
	b.cq.last_qp = NULL;
	assert_int_equal(client_poll_cq(&b.cq.cq, 8, wc), 0);
	assert_int_equal(b.cq_shared.cons, 4);
	bed_fini(&b);
}

static void
arming_for_solicited_does_not_narrow_arming_for_all(void **state)
{
	struct ibv_comp_channel ch = { 0 };
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_NONE);
	b.cq.cq.channel = &ch;
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 1), 0);
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_SOLICITED);
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_ANY);
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 1), 0);
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_ANY);
	bed_fini(&b);
}

/* What hardware does: a completion between the last poll and the arming isn't lost. */
static void
arming_with_a_completion_waiting_raises_the_event_at_once(void **state)
{
	struct client_channel ch = { 0 };
	struct ctl_comp_event ev;
	struct bed b;
	int fds[2];

	bed_init(&b, IBV_QPT_RC);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
	ch.send_fd = fds[1];
	b.cq.cq.channel = &ch.channel;
	b.cq.cookie = 77;
	complete(&b, 0, 1, true);
	/* It is neither solicited nor an error. */
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 1), 0);
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_SOLICITED);
	assert_int_equal(read(fds[0], &ev, sizeof(ev)), -1);
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_NONE);
	assert_int_equal(read(fds[0], &ev, sizeof(ev)), sizeof(ev));
	assert_int_equal(ev.cookie, 77);
	/* It has been told of: not again, polled or not. */
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_ANY);
	assert_int_equal(read(fds[0], &ev, sizeof(ev)), -1);
	/* The engine's event told of the next one. */
	b.cq_shared.arm = RING_ARM_NONE;
	complete(&b, 0, 3, true);
	b.cq_shared.reported = 2;
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_ANY);
	b.cq_shared.arm = RING_ARM_NONE;
	/* Errors count as solicited. */
	complete(&b, 0, 2, false);
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 1), 0);
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_NONE);
	assert_int_equal(read(fds[0], &ev, sizeof(ev)), sizeof(ev));
	close(fds[0]);
	close(fds[1]);
	bed_fini(&b);
}

/* A bed whose CQ has a channel: what is raised by us arrives at the socket @fds[0]. */
static void
bed_with_channel(struct bed *b, struct client_channel *ch, int *fds)
{
	bed_init(b, IBV_QPT_RC);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
	*ch = (struct client_channel){ .send_fd = fds[1] };
	b->cq.cq.channel = &ch->channel;
	assert_int_equal(client_req_notify_cq(&b->cq.cq, 0), 0);
}

static void
bed_with_channel_fini(struct bed *b, const int *fds)
{
	struct ctl_comp_event ev;

	assert_int_equal(read(fds[0], &ev, sizeof(ev)), -1);
	close(fds[0]);
	close(fds[1]);
	bed_fini(b);
}

static void
a_watched_cq_has_one_event_for_what_came_since_it_was_armed(void **state)
{
	struct client_channel ch;
	struct ibv_wc wc;
	struct bed b;
	int fds[2];

	bed_with_channel(&b, &ch, fds);
	assert_true(client_cq_watch(&b.cq));
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_WATCHED);
	assert_false(client_cq_watched_event(&b.cq));
	complete(&b, 0, 1, true);
	complete(&b, 1, 2, true);
	assert_true(client_cq_watched_event(&b.cq));
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_NONE);
	assert_false(client_cq_watched_event(&b.cq));
	/* Engines have no event to raise for these two, although they find the CQ armed. */
	assert_int_equal(b.cq_shared.seen, 2);
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_ANY);
	/* The program polls a completion before it asks for its event. */
	assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 1);
	assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 1);
	complete(&b, 2, 3, true);
	assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 1);
	assert_true(client_cq_watch(&b.cq));
	assert_true(client_cq_watched_event(&b.cq));
	bed_with_channel_fini(&b, fds);
}

static void
a_cq_that_is_watched_no_more_has_lost_nothing(void **state)
{
	struct client_channel ch;
	struct bed b;
	int fds[2];

	bed_with_channel(&b, &ch, fds);
	assert_true(client_cq_watch(&b.cq));
	assert_false(client_cq_unwatch(&b.cq));
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_ANY);
	assert_true(client_cq_watch(&b.cq));
	/* An engine leaves this to us. */
	complete(&b, 0, 1, true);
	assert_true(client_cq_unwatch(&b.cq));
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_NONE);
	assert_false(client_cq_unwatch(&b.cq));
	bed_with_channel_fini(&b, fds);
}

static void
only_cqs_that_are_armed_for_everything_are_watched(void **state)
{
	struct client_channel ch;
	struct bed b;
	int fds[2];

	bed_with_channel(&b, &ch, fds);
	b.cq_shared.arm = RING_ARM_NONE;
	assert_false(client_cq_watch(&b.cq));
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 1), 0);
	assert_false(client_cq_watch(&b.cq));
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	b.cq.moderated = true;
	assert_false(client_cq_watch(&b.cq));
	b.cq.moderated = false;
	b.cq.single_threaded = true;
	assert_false(client_cq_watch(&b.cq));
	b.cq.single_threaded = false;
	assert_true(client_cq_watch(&b.cq));
	/* Another thread arms it: an engine sees to the event again. */
	assert_int_equal(client_req_notify_cq(&b.cq.cq, 0), 0);
	complete(&b, 0, 1, true);
	assert_false(client_cq_watched_event(&b.cq));
	assert_false(client_cq_unwatch(&b.cq));
	assert_int_equal(ring_arm(b.cq_shared.arm), RING_ARM_ANY);
	bed_with_channel_fini(&b, fds);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_completion_has_every_field),
		cmocka_unit_test(completions_of_a_destroyed_qp_are_skipped),
		cmocka_unit_test(arming_for_solicited_does_not_narrow_arming_for_all),
		cmocka_unit_test(arming_with_a_completion_waiting_raises_the_event_at_once),
		cmocka_unit_test(a_watched_cq_has_one_event_for_what_came_since_it_was_armed),
		cmocka_unit_test(a_cq_that_is_watched_no_more_has_lost_nothing),
		cmocka_unit_test(only_cqs_that_are_armed_for_everything_are_watched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
