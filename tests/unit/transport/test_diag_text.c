/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What people read about a QP: every state, every wait, every reason and every event has words of its own. */
#include <string.h>

#include <rte_common.h>

#include "transport/core/limits_priv.h"
#include "transport/core/types_priv.h"
#include "transport/diag/diag.h"
#include "pair.h"

/** What is said of a QP that is like @p v. */
static const char *
said(const struct qp_view *v)
{
	static char text[DIAG_TEXT_BYTES];

	return qp_explain(v, text);
}

#define EXPECT_SAID(v, words) assert_non_null(strstr(said(v), words))

static struct qp_view
connected_view(void)
{
	return (struct qp_view){
		.now_ns = 10000000, .type = UROCE_QPT_RC, .state = UROCE_QPS_RTS, .dest_qpn = 0x22, .ip_version = 4, .dip = { 198, 18, 0, 2 },
		.tx = { .depth = 16, .head_op = UROCE_WR_OPS, .next_op = UROCE_WR_OPS, .active = true },
		.rx = { .depth = 16, .posted = 16 }, .inflight_blocks_left = 1, .load_percent = UINT32_MAX,
	};
}

static void
every_wait_is_explained(void **state)
{
	static const struct {
		enum req_wait wait;
		const char *name, *words;
	} waits[] = {
		{ REQ_RUNS, "nothing", NULL },
		{ REQ_WAIT_TX, "tx room", "the port doesn't take packets" },
		{ REQ_WAIT_CWND, "cwnd", "the congestion window is full: 0 packets are in flight" },
		{ REQ_WAIT_CREDITS, "credits", "credits 0" },
		{ REQ_WAIT_RD_ATOMIC, "max_rd_atomic", "RDMA_READ waits: 4 READs and atomics are outstanding, 4 may be" },
		{ REQ_WAIT_FENCE, "fence", "a fenced RDMA_READ waits for 4 READs" },
		{ REQ_WAIT_PACE, "pace", "the next packet in 5.0 us: 100 Mb/s" },
		{ REQ_WAIT_RNR, "rnr timer", NULL },
		{ REQ_WAIT_INFLIGHT, "wqes in flight", "3 WQEs are in flight, no more may be" },
		{ REQ_WAIT_MEMORY, "memory", "RDMA_READ waits for memory of the program that can't be mapped" },
		{ REQ_WAIT_DRAIN, "drain", "RDMA_READ waits until everything before it is complete" },
		{ REQ_WAIT_MOVE, "move", "it moves to another engine: it sends nothing new" },
	};
	struct qp_view v = connected_view();

	v.tx.rd_out = v.tx.max_rd = 4;
	v.tx.in_flight = 3;
	v.tx.next_op = UROCE_WR_RDMA_READ;
	v.tx.cwnd = TP_CWND_START;
	v.tx.pace_ns = v.now_ns + 5000;
	v.tx.rate_bps = 100000000;
	for (unsigned int i = 0; i < RTE_DIM(waits); i++) {
		v.tx.wait = (uint8_t)waits[i].wait;
		assert_string_equal(req_wait_name(v.tx.wait), waits[i].name);
		if (waits[i].words != NULL)
			EXPECT_SAID(&v, waits[i].words);
	}
	assert_string_equal(req_wait_name(RTE_DIM(waits)), "?");

	v.tx.wait = REQ_WAIT_INFLIGHT;
	v.inflight_blocks_left = 0;
	EXPECT_SAID(&v, "the other QPs of its session have as much as it may have");
	v.share_wait = SHARE_WAIT_RATE;
	v.tx.active = true;
	EXPECT_SAID(&v, "its user may send no more at the moment");
	v.share_wait = SHARE_WAIT_NOTHING;
	v.tx.wait = REQ_WAIT_CWND;
	v.tx.cwnd = TP_CWND_MIN;
	EXPECT_SAID(&v, "after losses");
	v.tx.cc = TP_CC_NONE + 1;
	v.tx.cc_cwnd = 1;
	v.tx.loss_cwnd = 2;
	EXPECT_SAID(&v, "congestion control (");
	v.tx.active = false;
	v.tx.posted = 7;
	EXPECT_SAID(&v, "7 sends are posted, but their doorbell hasn't been seen");
	v.load_percent = 99;
	EXPECT_SAID(&v, "its engine is at 99 % load");
}

static void
every_state_is_explained(void **state)
{
	static const struct {
		enum uroce_qp_state state;
		const char *words;
	} states[] = {
		{ UROCE_QPS_RESET, "RESET: the program hasn't begun to connect it" },
		{ UROCE_QPS_INIT, "INIT: it takes no packets" },
		{ UROCE_QPS_RTR, "RTR: it receives" },
		{ UROCE_QPS_SQD, "SQD" },
		{ UROCE_QPS_SQE, "SQE" },
		{ UROCE_QPS_ERR, "ERR" },
	};
	struct qp_view v = connected_view();

	for (unsigned int i = 0; i < RTE_DIM(states); i++) {
		v.state = states[i].state;
		EXPECT_SAID(&v, states[i].words);
	}
}

static void
missing_answers_are_explained(void **state)
{
	struct qp_view v = connected_view();

	v.tx.rnr_wait = true;
	v.tx.rnr_retry = v.tx.rnr_left = TP_RETRY_INFINITE;
	v.tx.since_ns = v.now_ns - 2000000;
	v.tx.deadline_ns = v.now_ns + 500000;
	EXPECT_SAID(&v, "has no receive posted, since 2.0 ms; again in 0.5 ms (RNR retry without end)");
	v.tx.rnr_retry = 3;
	v.tx.rnr_left = 1;
	EXPECT_SAID(&v, "RNR retry 2 of 3");
	v.tx.rnr_wait = false;
	v.tx.packets_in_flight = 1;
	v.tx.head_op = UROCE_WR_RDMA_READ;
	EXPECT_SAID(&v, "waiting for the response of PSN 0 since 2.0 ms (timeout 0: for ever, again in 0.5 ms)");
	v.tx.timeout = 14;
	v.tx.retry_cnt = 7;
	v.tx.retry_left = 5;
	v.tx.lost = 2;
	EXPECT_SAID(&v, "retry 2 of 7");
	EXPECT_SAID(&v, "no answer from 198.18.0.2 QP 0x22");
	EXPECT_SAID(&v, "2 packets were lost and are sent again");
}

static void
what_a_responder_lacks_is_explained(void **state)
{
	struct qp_view v = connected_view();

	v.rx.rnr_nak_sent = true;
	v.rx.nak_sent_ns = v.now_ns - 1000000;
	EXPECT_SAID(&v, "what it lacked is there now");
	v.rx.posted = 0;
	EXPECT_SAID(&v, "no receive is posted in the RQ: RNR NAKs were sent to it since 1.0 ms");
	v.rx.rnr_nak_sent = false;
	EXPECT_SAID(&v, "no receive is posted in the RQ");
	v.rx.seq_nak_sent = true;
	v.rx.reordered = 3;
	EXPECT_SAID(&v, "3 packets behind it are buffered");
	v.rx.midway = true;
	v.rx.message_bytes = 4096;
	EXPECT_SAID(&v, "a message is being received: 4096 bytes so far");
	v.rx.res_pending = 5;
	EXPECT_SAID(&v, "5 READs and atomics of the peer are being answered");
	v.path_mig_state = TP_MIG_ARMED;
	EXPECT_SAID(&v, "an alternate path is armed");
	v.migrated = true;
	EXPECT_SAID(&v, "it has changed to its alternate path");
}

static void
every_reason_has_words(void **state)
{
	static const struct {
		struct qp_reason r;
		const char *words;
	} reasons[] = {
		{ { .why = QP_WHY_PROGRAM }, "the program asked for it" },
		{ { .why = QP_WHY_REFUSED, .psn = 5, .detail = WIRE_NAK_REM_ACCESS }, "remote access error (rkey, range or permission)" },
		{ { .why = QP_WHY_REFUSED, .psn = 5, .detail = WIRE_NAK_INV_REQ }, "PSN 5 was refused: invalid request" },
		{ { .why = QP_WHY_REFUSED, .detail = WIRE_NAK_REM_OP }, "remote operational error" },
		{ { .why = QP_WHY_REFUSED, .detail = WIRE_NAK_PSN_SEQ }, "PSN sequence error" },
		{ { .why = QP_WHY_REFUSED, .detail = 0x7f }, "unknown NAK" },
		{ { .why = QP_WHY_RECEIVE }, "a receive failed: " },
		{ { .why = QP_WHY_INVALIDATE }, "named no memory window" },
		{ { .why = QP_WHY_CQ }, "its CQ overran" },
		{ { .why = 0xff }, "no reason is known" },
	};
	char text[DIAG_LINE_BYTES];

	for (unsigned int i = 0; i < RTE_DIM(reasons); i++)
		assert_non_null(strstr(qp_reason_text(&reasons[i].r, text), reasons[i].words));
}

static void
every_event_has_words(void **state)
{
	static const struct {
		struct qp_event e;
		const char *words;
	} events[] = {
		{ { .kind = QP_EV_STATE, .a = UROCE_QPS_RTS }, "to RTS" },
		{ { .kind = QP_EV_ERROR, .a = QP_WHY_PROGRAM }, "error: the program asked for it" },
		{ { .kind = QP_EV_NAK_SENT, .a = WIRE_NAK_PSN_SEQ, .psn = 3 }, "NAK sent: PSN sequence error, PSN 3" },
		{ { .kind = QP_EV_NAK, .a = WIRE_NAK_REM_OP, .psn = 3 }, "NAK received: remote operational error, PSN 3" },
		{ { .kind = QP_EV_RNR_SENT, .a = 12 }, "RNR NAK sent: no receive posted, PSN 0, timer 0.64 ms" },
		{ { .kind = QP_EV_RNR, .a = 12 }, "RNR NAK received: PSN 0, timer 0.64 ms" },
		{ { .kind = QP_EV_TIMEOUT, .a = 6 }, "6 tries left" },
		{ { .kind = QP_EV_LOST_RESPONSE, .psn = 9 }, "PSN 9 asked for again" },
		{ { .kind = QP_EV_PROBE, .psn = 9 }, "PSN 9 sent again early" },
		{ { .kind = QP_EV_STRANGER, .psn = 9 }, "packet of another connection: all is sent again from PSN 9 on" },
		{ { .kind = QP_EV_SACK, .psn = 9, .a = 2 }, "from PSN 9 on, 2 now" },
		{ { .kind = QP_EV_CNP }, "CNP" },
		{ { .kind = QP_EV_MIGRATED }, "alternate path" },
		{ { .kind = QP_EV_OVERRUN }, "its CQ overran" },
		{ { .kind = 0xee }, "event 238" },
	};
	char text[DIAG_LINE_BYTES];

	for (unsigned int i = 0; i < RTE_DIM(events); i++)
		assert_non_null(strstr(qp_event_text(&events[i].e, text), events[i].words));
}

static void
names_are_those_of_verbs(void **state)
{
	static const struct {
		enum uroce_qp_type type;
		const char *name;
	} types[] = {
		{ UROCE_QPT_GSI, "GSI" }, { UROCE_QPT_RC, "RC" }, { UROCE_QPT_UC, "UC" }, { UROCE_QPT_UD, "UD" },
		{ UROCE_QPT_XRC_SEND, "XRC_SEND" }, { UROCE_QPT_XRC_RECV, "XRC_RECV" }, { 99, "?" },
	};

	for (unsigned int i = 0; i < RTE_DIM(types); i++)
		assert_string_equal(qp_type_name(types[i].type), types[i].name);
	assert_string_equal(qp_mig_name(TP_MIG_MIGRATED), "migrated");
	assert_string_equal(qp_mig_name(TP_MIG_REARM), "rearm");
	assert_string_equal(qp_mig_name(TP_MIG_ARMED), "armed");
	assert_string_equal(qp_mig_name(77), "?");
	assert_string_equal(wr_op_name(UROCE_WR_RDMA_WRITE), "RDMA_WRITE");
	assert_string_equal(wr_op_name(UROCE_WR_OPS), "-");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_wait_is_explained),
		cmocka_unit_test(every_state_is_explained),
		cmocka_unit_test(missing_answers_are_explained),
		cmocka_unit_test(what_a_responder_lacks_is_explained),
		cmocka_unit_test(every_reason_has_words),
		cmocka_unit_test(every_event_has_words),
		cmocka_unit_test(names_are_those_of_verbs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
