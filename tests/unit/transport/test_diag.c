/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a QP doesn't get on, in words; and what is remembered of what has happened to it. */
#include <stdio.h>

#include <rte_common.h>

#include "transport/core/types_priv.h"
#include "transport/diag/diag.h"
#include "rig.h"

enum { QUARTER_TIMEOUT = 17 * PAIR_MS }; /* of PAIR_TIMEOUT, about */

static const char *
explain(const struct end *e)
{
	static char text[DIAG_TEXT_BYTES];
	struct qp_view v;

	qp_look(e->qp, e->host->pair->now, &v);
	return qp_explain(&v, text);
}

static void
expect_text(const char *text, const char *part)
{
	if (strstr(text, part) == NULL)
		fail_msg("'%s' isn't in:\n%s", part, text);
}

/* The sentence is there, and every line has room in a string of telemetry. */
static void
expect_why(const struct end *e, const char *part)
{
	const char *text = explain(e), *line = text, *end;

	expect_text(text, part);
	for (; line != NULL; line = end != NULL ? end + 1 : NULL) {
		end = strchr(line, '\n');
		assert_in_range(end != NULL ? (size_t)(end - line) : strlen(line), 1, DIAG_LINE_BYTES - 1);
	}
}

static void
expect_not(const struct end *e, const char *part)
{
	const char *text = explain(e);

	if (strstr(text, part) != NULL)
		fail_msg("'%s' is in:\n%s", part, text);
}

static void
expect_event(const struct end *e, enum qp_event_kind kind, const char *part)
{
	struct qp_event ev[TP_EVENTS / 64];
	uint32_t n = qp_events(e->host->tp, qp_num(e->qp), ev, RTE_DIM(ev));
	char text[DIAG_LINE_BYTES];

	while (n-- > 0) {
		assert_int_equal(ev[n].qpn, qp_num(e->qp));
		if (ev[n].kind != kind)
			continue;
		expect_text(qp_event_text(&ev[n], text), part);
		return;
	}
	fail_msg("no event of kind %d", kind);
}

static bool
lose_all(struct pair *p, const struct note *n, void *arg)
{
	return true;
}

/* ---- States ---- */
static void
a_qp_that_isnt_connected_says_how_far_it_is(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], NULL), *b = end_new(&p->h[1], NULL);

	expect_why(a, "RESET: the program hasn't begun to connect it");
	end_to_rtr(a, b, NULL);
	expect_why(a, "RTR: it receives; it sends nothing until the program moves it to RTS");
	expect_event(a, QP_EV_STATE, "to RTR");
	end_to_rts(a, NULL);
	expect_why(a, "nothing to send: the program has posted no work");
	end_free(a);
	end_free(b);
	pair_free(p);
}

static void
sqd_says_that_the_program_stopped_it(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	assert_int_equal(end_state(r.a, UROCE_QPS_SQD), 0);
	rig_write(&r, 1, 0, 100);
	rig_write(&r, 2, 0, 100);
	pair_settle(r.p);
	expect_why(r.a, "SQD: the program has stopped the send queue; 2 sends wait, 0 are in flight");
	rig_down(&r);
}

/* ---- What only the peer can give ---- */
static void
lost_packets_say_which_ack_is_missing_since_when_and_which_try_it_is(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .psn = 7000, .retry_cnt = 7 });
	r.p->lose = lose_all;
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	pair_advance(r.p, QUARTER_TIMEOUT);
	expect_why(r.a, "waiting for the ACK of PSN 7000 since 17.0 ms (retry 0 of 7, again in ");
	expect_not(r.a, "no answer from");
	pair_advance(r.p, 4 * QUARTER_TIMEOUT);
	/* Since the first time it was sent. */
	expect_why(r.a, "waiting for the ACK of PSN 7000 since 85.0 ms (retry 1 of 7");
	expect_why(r.a, "no answer from 198.18.0.2 QP ");
	expect_event(r.a, QP_EV_TIMEOUT, "no ACK in time: PSN 7000, 7 tries left");
	r.p->lose = NULL;
	pair_advance(r.p, 1000 * (uint64_t)PAIR_MS);
	expect_not(r.a, "waiting for");
	rig_down(&r);
}

static void
retries_used_up_is_the_reason_of_err(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .psn = 7000, .retry_cnt = 1 });
	r.p->lose = lose_all;
	rig_write(&r, 1, 0, 100);
	pair_advance(r.p, 1000 * (uint64_t)PAIR_MS);
	expect_why(r.a, "ERR since ");
	expect_why(r.a, "no answer from the peer: gave up at PSN 7000 after 1 retries");
	expect_event(r.a, QP_EV_ERROR, "no answer from the peer: gave up at PSN 7000 after 1 retries");
	assert_int_equal(counters(&r, 0)->retry_exceeded_err, 1);
	rig_down(&r);
}

static void
a_read_waits_for_its_response(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .psn = 5 });
	r.p->lose = lose_all;
	rig_read(&r, 1, 0, 100);
	pair_settle(r.p);
	expect_why(r.a, "waiting for the response of PSN 5");
	rig_down(&r);
}

/* The response is lost, but not the ACK of what was posted behind it. */
static void
a_lost_response_is_told(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_READ_RESP_ONLY, .count = UINT32_MAX };
	uint8_t aeth[WIRE_AETH_BYTES];
	struct qp_event ev[8];
	uint32_t n, told = 0;
	struct rig r;

	rig_up_cc(&r, NULL, &(struct conn_opts){ .psn = 5 }, &(struct tp_port_config){ .features = { .credits = true } });
	r.p->now += 7 * PAIR_MS;
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_read(&r, 1, 0, 100);
	rig_write(&r, 2, 200, 100);
	pair_settle(r.p);
	expect_event(r.a, QP_EV_LOST_RESPONSE, "PSN 5");
	n = qp_events(r.a->host->tp, qp_num(r.a->qp), ev, RTE_DIM(ev));
	for (uint32_t i = 0; i < n; i++) {
		if (ev[i].kind != QP_EV_LOST_RESPONSE)
			continue;
		told++;
		assert_int_equal(ev[i].a, 0);
		assert_int_equal(ev[i].b, 0);
	}
	assert_int_equal(told, 1);
	/* It is asked for again because of a NAK, too, and waited for since it was lost. */
	r.p->now += 30 * PAIR_MS;
	wire_put_aeth(aeth, WIRE_NAK_PSN_SEQ, 0);
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = 5 }, aeth, sizeof(aeth));
	pair_settle(r.p);
	assert_int_equal(counters(&r, 0)->packet_seq_err, 1);
	expect_why(r.a, "waiting for the response of PSN 5 since 30.0 ms");
	r.p->lose = NULL;
	pair_advance(r.p, 1000 * (uint64_t)PAIR_MS);
	expect_not(r.a, "waiting for");
	rig_down(&r);
}

static void
rnr_is_told_at_both_ends(void **state)
{
	struct rig r;

	/* 492 ms between tries. */
	rig_up(&r, NULL, &(struct conn_opts){ .rnr_retry = 3, .min_rnr_timer = 31 });
	rig_send(&r, 1, 0, 100);
	pair_settle(r.p);
	pair_advance(r.p, 100 * (uint64_t)PAIR_MS);
	expect_why(r.a, "has no receive posted, since 100.0 ms; again in 391.");
	expect_why(r.a, "(RNR retry 1 of 3)");
	expect_why(r.b, "the peer sends, but no receive is posted in the RQ: RNR NAKs were sent to it since 100.0 ms");
	expect_event(r.a, QP_EV_RNR, "RNR NAK received");
	expect_event(r.b, QP_EV_RNR_SENT, "RNR NAK sent: no receive posted");
	end_recv(r.b, 9, SGE(r.bbuf, 100, r.bmr), 1);
	expect_why(r.b, "what it lacked is there now, it will send again");
	pair_advance(r.p, 1000 * (uint64_t)PAIR_MS);
	expect_not(r.a, "RNR");
	expect_not(r.b, "RNR");
	rig_down(&r);
}

/* What repeats itself is one event, with the latest of it. */
static void
a_repeated_event_says_what_came_last(void **state)
{
	struct qp_event ev[TP_EVENTS / 64];
	uint32_t n;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .rnr_retry = 7, .min_rnr_timer = 1 });
	rig_send(&r, 1, 0, 100);
	pair_settle(r.p);
	r.b->qp->rcv.min_rnr_timer = 12;
	pair_advance(r.p, PAIR_MS);
	n = qp_events(r.p->h[1].tp, qp_num(r.b->qp), ev, RTE_DIM(ev));
	assert_int_equal(ev[n - 1].kind, QP_EV_RNR_SENT);
	assert_true(ev[n - 1].count > 1);
	assert_int_equal(ev[n - 1].a, 12);
	rig_down(&r);
}

static void
rnr_retries_used_up_is_the_reason_of_err(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .rnr_retry = 1, .min_rnr_timer = 1 });
	rig_send(&r, 1, 0, 100);
	pair_advance(r.p, 1000 * (uint64_t)PAIR_MS);
	expect_why(r.a, "the peer posts no receive: gave up at PSN");
	expect_why(r.a, "after 1 RNR retries");
	rig_down(&r);
}

static void
without_credits_sends_wait(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .min_rnr_timer = 20 });
	end_recv(r.b, 0, SGE(r.bbuf, 100, r.bmr), 1);
	rig_send(&r, 1, 0, 100);
	pair_settle(r.p);
	/* Its answer said that none is left. The first of these is the one more that may go. */
	r.p->lose = lose_all;
	rig_send(&r, 2, 0, 100);
	rig_send(&r, 3, 0, 100);
	pair_settle(r.p);
	expect_why(r.a, "no receive WQE is posted at the peer (credits 0): SENDs wait for one");
	rig_down(&r);
}

static void
a_gap_names_the_psn_that_is_missing(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_FIRST, .nth = 0, .count = 100 };
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .psn = 300, .mtu = UROCE_MTU_1024 });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 1, 0, 4096);
	pair_settle(r.p);
	expect_why(r.b, "PSN 300 is missing since ");
	expect_event(r.b, QP_EV_NAK_SENT, "NAK sent: PSN sequence error, PSN 300");
	expect_event(r.a, QP_EV_NAK, "NAK received: PSN sequence error, PSN 300");
	rig_down(&r);
}

/* ---- What keeps the next packet back ---- */
static void
reads_wait_for_places(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .rd_atomic = 2 });
	r.p->lose = lose_all;
	for (uint32_t i = 0; i < 4; i++)
		rig_read(&r, i, 0, 100);
	pair_settle(r.p);
	expect_why(r.a, "RDMA_READ waits: 2 READs and atomics are outstanding, 2 may be (max_rd_atomic)");
	rig_down(&r);
}

static void
a_fence_waits_for_reads(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose_all;
	rig_read(&r, 1, 0, 100);
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_WRITE, .flags = UROCE_SEND_FENCE,
				    .sge = SGE(r.abuf, 8, r.amr), .nb_sge = 1, .remote_addr = ADDR(r.bbuf),
				    .rkey = r.bmr->key });
	pair_settle(r.p);
	expect_why(r.a, "a fenced RDMA_WRITE waits for 1 READs and atomics before it");
	rig_down(&r);
}

static void
a_full_window_is_named(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_1024 });
	r.p->lose = lose_all;
	rig_write(&r, 1, 0, 512 << 10);
	pair_settle(r.p);
	expect_why(r.a, "the congestion window is full: 64 packets are in flight, 64 may be");
	rig_down(&r);
}

static void
congestion_control_is_named_where_it_holds_packets_back(void **state)
{
	struct tp_port_config swift = { .cc = TP_CC_SWIFT, .mbps = 10000, .features = TP_FEATURES_ALL };
	struct rig r;

	rig_up_cc(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_1024 }, &swift);
	r.p->lose = lose_all;
	rig_write(&r, 1, 0, 512 << 10);
	pair_advance(r.p, PAIR_MS);
	expect_why(r.a, "the congestion window is full: congestion control (swift) allows ");
	rig_down(&r);
}

static void
a_port_that_takes_nothing_is_named(void **state)
{
	struct rig r;

	/* UC has no window. */
	rig_up(&r, &(struct end_opts){ .type = UROCE_QPT_UC }, NULL);
	r.p->stalled = true;
	rig_write(&r, 1, 0, BUF);
	rig_write(&r, 2, 0, BUF);
	for (uint32_t i = 0; i < 64; i++)
		host_turn(&r.p->h[0]);
	expect_why(r.a, "the port doesn't take packets as fast as they are made");
	r.p->stalled = false;
	pair_settle(r.p);
	expect_not(r.a, "doesn't take");
	rig_down(&r);
}

/* ---- The program ---- */
static void
a_program_that_doesnt_poll_is_named_before_its_cq_overruns(void **state)
{
	struct rig r;

	rig_up(&r, &(struct end_opts){ .cq_depth = 4 }, NULL);
	for (uint32_t i = 0; i < 3; i++)
		rig_write(&r, i, 0, 100);
	pair_settle(r.p);
	expect_why(r.a, "the program has 3 completions to poll in its send CQ of 4");
	rig_write(&r, 3, 0, 100);
	pair_settle(r.p);
	expect_why(r.a, "its send CQ is full: the program doesn't poll (4 completions)");
	rig_write(&r, 4, 0, 100);
	pair_settle(r.p);
	expect_why(r.a, "its CQ overran: the program doesn't poll, or the CQ is too small");
	expect_why(r.a, "its send CQ has overrun: no completion comes any more");
	expect_event(r.a, QP_EV_OVERRUN, "its CQ overran");
	rig_down(&r);
}

static void
a_wrong_send_is_the_reason_of_err(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .nb_sge = 1,
				    .sge = &(struct ring_sge){ ADDR(r.abuf), 100, r.amr->key ^ 1 } });
	pair_settle(r.p);
	expect_why(r.a, "a send is wrong (status 4): an lkey is unknown, stale, of another PD, or its range is left");
	rig_down(&r);
}

static void
a_refused_request_is_the_reason_at_both_ends(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .psn = 40 });
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.abuf, 100, r.amr), .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key ^ 1 });
	pair_settle(r.p);
	expect_why(r.a, "the peer refused the request of PSN 40: remote access error (rkey, range or permission)");
	expect_why(r.b, "the peer's request of PSN 40 was refused: remote access error (rkey, range or permission)");
	rig_down(&r);
}

static void
a_receive_that_fails_is_told(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], &(struct end_opts){ .type = UROCE_QPT_UC });
	struct end *b = end_new(&p->h[1], &(struct end_opts){ .type = UROCE_QPT_UC });
	uint8_t buf[100] = { 0 };
	struct mr *ma = host_mr(&p->h[0], buf, sizeof(buf), ACCESS_ALL), *mb = host_mr(&p->h[1], buf, sizeof(buf), ACCESS_ALL);

	ends_connect(a, b, NULL);
	end_recv(b, 1, &(struct ring_sge){ .addr = ADDR(buf), .length = 100, .lkey = mb->key + 1 }, 1);
	end_send(a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .sge = SGE(buf, 100, ma), .nb_sge = 1 });
	pair_settle(p);
	expect_why(b, "a receive failed: an lkey is unknown, stale, of another PD, or its range is left");
	end_free(a);
	end_free(b);
	mr_destroy(p->h[0].sh.mrs, ma);
	mr_destroy(p->h[1].sh.mrs, mb);
	pair_free(p);
}

static void
a_program_that_asks_for_err_is_the_reason(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	assert_int_equal(end_state(r.a, UROCE_QPS_ERR), 0);
	expect_why(r.a, "the program asked for it");
	/* A new life. */
	assert_int_equal(end_state(r.a, UROCE_QPS_RESET), 0);
	expect_not(r.a, "asked for it");
	rig_down(&r);
}

static void
who_embeds_hears_of_every_failure_once(void **state)
{
	struct qp_failure f;
	struct rig r;

	rig_up(&r, NULL, NULL);
	assert_int_equal(end_state(r.a, UROCE_QPS_ERR), 0);
	qp_failure(r.a->qp, &f);
	assert_int_equal(f.qpn, qp_num(r.a->qp));
	assert_int_equal(f.dest_qpn, qp_num(r.b->qp));
	assert_int_equal(f.reason.why, QP_WHY_PROGRAM);
	assert_int_equal(f.ip_version, 4);
	assert_memory_equal(f.dip, ((uint8_t[]){ 198, 18, 0, 2 }), 4);
	rig_down(&r);
}

/* ---- Views ---- */
static void
a_view_has_what_the_qp_has(void **state)
{
	struct qp_view v;
	struct cq_view c;
	struct rig r;
	struct end_srq *s;
	struct end *e;

	rig_up(&r, NULL, &(struct conn_opts){ .rd_atomic = 3, .dest_rd_atomic = 5 });
	r.p->lose = lose_all;
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	qp_look(r.a->qp, r.p->now, &v);
	assert_int_equal(v.tx.max_rd, 3);
	assert_int_equal(v.rx.max_dest_rd, 5);
	assert_int_equal(v.tx.packets_in_flight, 1);
	assert_int_equal(v.tx.lost, 0);
	assert_true(v.tx.deadline_ns > r.p->now);
	assert_false(v.rx.srq);
	assert_int_equal(v.rx.srq_depth, 0);
	/* It waits for nothing any more. */
	assert_int_equal(end_state(r.a, UROCE_QPS_ERR), 0);
	qp_look(r.a->qp, r.p->now, &v);
	assert_int_equal(v.tx.deadline_ns, 0);
	s = srq_new(&r.p->h[0], 16, 2);
	e = end_new(&r.p->h[0], &(struct end_opts){ .srq = s, .channel = true });
	cq_look(e->scq.cq, &c);
	assert_true(c.channel);
	cq_look(r.a->scq.cq, &c);
	assert_false(c.channel);
	srq_post(s, 1, SGE(r.abuf, 100, r.amr), 1);
	qp_look(e->qp, r.p->now, &v);
	assert_true(v.rx.srq);
	assert_int_equal(v.rx.srq_depth, 16);
	assert_int_equal(v.rx.srq_posted, 1);
	assert_int_equal(v.rx.depth, 0);
	end_free(e);
	srq_free(&r.p->h[0], s);
	rig_down(&r);
}

/* Of IPv4 addresses there are four bytes and nothing behind them. */
static void
a_view_has_the_addresses_of_the_packets(void **state)
{
	const uint8_t a[16] = { 198, 18, 0, 1 }, b[16] = { 198, 18, 0, 2 };
	struct qp_view v;
	struct rig r;

	rig_up(&r, NULL, NULL);
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	memset(&v, 0, sizeof(v));
	qp_look(r.a->qp, r.p->now, &v);
	assert_int_equal(v.ip_version, 4);
	assert_memory_equal(v.sip, a, sizeof(a));
	assert_memory_equal(v.dip, b, sizeof(b));
	assert_memory_equal(v.dmac, ((uint8_t[]){ 2, 0, 0, 0, 0, 1 }), sizeof(v.dmac));
	assert_int_equal(v.sport, r.p->log[0].sport);
	/* The AV has no flow label: the port is calculated from the two QPs' numbers, as Linux does. */
	assert_int_equal(v.sport, wire_flow_label_to_sport(wire_calc_flow_label(qp_num(r.a->qp), qp_num(r.b->qp))));
	rig_down(&r);
}

/* ---- Costs ---- */
/** Both ends of 10,000 bytes have cost at least that, and less than twice as much: each packet and message costs something, too. */
static void
expect_costs(const struct rig *r, struct qp_costs *seen)
{
	assert_in_range(qp_cost_since(r->a->qp, &seen[0]), 10000, 20000);
	assert_in_range(qp_cost_since(r->b->qp, &seen[1]), 10000, 20000);
	assert_int_equal(qp_cost_since(r->a->qp, &seen[0]) + qp_cost_since(r->b->qp, &seen[1]), 0);
}

static void
what_is_received_costs_as_much_as_what_is_sent(void **state)
{
	for (unsigned int uc = 0; uc < 2; uc++) {
		struct qp_costs seen[2] = { 0 };
		struct rig r;

		rig_up(&r, &(struct end_opts){ .type = uc ? UROCE_QPT_UC : UROCE_QPT_RC }, NULL);
		qp_cost_since(r.a->qp, &seen[0]);
		qp_cost_since(r.b->qp, &seen[1]);
		rig_write(&r, 1, 0, 10000);
		pair_settle(r.p);
		expect_costs(&r, seen);
		end_recv(r.b, 1, SGE(r.bbuf, 10000, r.bmr), 1);
		rig_send(&r, 2, 0, 10000);
		pair_settle(r.p);
		expect_costs(&r, seen);
		if (!uc) {
			rig_read(&r, 3, 0, 10000);
			pair_settle(r.p);
			expect_costs(&r, seen);
		}
		rig_down(&r);
	}
}

/** MSNs have 24 bits, and slots of the SQ 32. */
static void
costs_go_on_when_counters_wrap(void **state)
{
	struct qp_costs seen = { 0 };
	uint64_t cost;
	struct rig r;

	rig_up(&r, NULL, NULL);
	qp_cost_since(r.b->qp, &seen);
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	cost = qp_cost_since(r.b->qp, &(struct qp_costs){ seen.bytes, seen.sends, seen.receives });
	assert_in_range(cost, 100, 10000);
	/* As if there had been two more: one before the counter began anew. */
	seen.receives = (seen.receives - 2) & 0xffffff;
	assert_int_equal(qp_cost_since(r.b->qp, &seen), cost + 2 * TP_COST_WQE);
	rig_down(&r);
}

/* ---- The ring of events ---- */
static void
the_same_event_again_and_again_takes_one_place(void **state)
{
	struct qp_event ev[64];
	uint32_t n, timeouts = 0;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .retry_cnt = 7 });
	r.p->lose = lose_all;
	rig_write(&r, 1, 0, 100);
	pair_advance(r.p, 600 * (uint64_t)PAIR_MS);
	n = qp_events(r.a->host->tp, qp_num(r.a->qp), ev, RTE_DIM(ev));
	for (uint32_t i = 0; i < n; i++) {
		assert_true(i == 0 || ev[i].ns >= ev[i - 1].ns);
		if (ev[i].kind == QP_EV_TIMEOUT) {
			timeouts++;
			assert_true(ev[i].count >= 2);
		}
	}
	assert_int_equal(timeouts, 1);
	rig_down(&r);
}

static void
old_events_make_room_for_new_ones(void **state)
{
	static struct qp_event ev[TP_EVENTS + 1];
	struct rig r;

	rig_up(&r, NULL, NULL);
	/* Each change of state is an event of its own. */
	for (uint32_t i = 0; i < TP_EVENTS; i++) {
		assert_int_equal(end_state(r.a, UROCE_QPS_SQD), 0);
		assert_int_equal(end_state(r.a, UROCE_QPS_RTS), 0);
	}
	assert_int_equal(qp_events(r.a->host->tp, 0, ev, RTE_DIM(ev)), TP_EVENTS);
	assert_int_equal(qp_events(r.a->host->tp, qp_num(r.a->qp), ev, 3), 3);
	assert_int_equal(ev[2].a, UROCE_QPS_RTS);
	assert_int_equal(qp_events(r.a->host->tp, 0xfffffe, ev, 3), 0);
	rig_down(&r);
}

static void
a_cnp_is_remembered(void **state)
{
	static const uint8_t zeros[WIRE_CNP_PAYLOAD_BYTES];
	struct rig r;

	rig_up_cc(&r, NULL, NULL, &(struct tp_port_config){ .cc = TP_CC_DCQCN, .mbps = 40000, .features = TP_FEATURES_ALL });
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OPCODE_CNP, .becn = true }, zeros, sizeof(zeros));
	expect_event(r.a, QP_EV_CNP, "congestion on the path");
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_qp_that_isnt_connected_says_how_far_it_is),
		cmocka_unit_test(sqd_says_that_the_program_stopped_it),
		cmocka_unit_test(lost_packets_say_which_ack_is_missing_since_when_and_which_try_it_is),
		cmocka_unit_test(retries_used_up_is_the_reason_of_err),
		cmocka_unit_test(a_read_waits_for_its_response),
		cmocka_unit_test(a_lost_response_is_told),
		cmocka_unit_test(rnr_is_told_at_both_ends),
		cmocka_unit_test(a_repeated_event_says_what_came_last),
		cmocka_unit_test(rnr_retries_used_up_is_the_reason_of_err),
		cmocka_unit_test(without_credits_sends_wait),
		cmocka_unit_test(a_gap_names_the_psn_that_is_missing),
		cmocka_unit_test(reads_wait_for_places),
		cmocka_unit_test(a_fence_waits_for_reads),
		cmocka_unit_test(a_full_window_is_named),
		cmocka_unit_test(congestion_control_is_named_where_it_holds_packets_back),
		cmocka_unit_test(a_port_that_takes_nothing_is_named),
		cmocka_unit_test(a_program_that_doesnt_poll_is_named_before_its_cq_overruns),
		cmocka_unit_test(a_wrong_send_is_the_reason_of_err),
		cmocka_unit_test(a_refused_request_is_the_reason_at_both_ends),
		cmocka_unit_test(a_receive_that_fails_is_told),
		cmocka_unit_test(a_program_that_asks_for_err_is_the_reason),
		cmocka_unit_test(who_embeds_hears_of_every_failure_once),
		cmocka_unit_test(a_view_has_what_the_qp_has),
		cmocka_unit_test(a_view_has_the_addresses_of_the_packets),
		cmocka_unit_test(what_is_received_costs_as_much_as_what_is_sent),
		cmocka_unit_test(costs_go_on_when_counters_wrap),
		cmocka_unit_test(the_same_event_again_and_again_takes_one_place),
		cmocka_unit_test(old_events_make_room_for_new_ones),
		cmocka_unit_test(a_cnp_is_remembered),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
