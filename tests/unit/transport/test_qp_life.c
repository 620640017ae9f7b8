/* SPDX-License-Identifier: BSD-3-Clause */
/* A QP's life: posting rules by state, flushing, draining, events, watching and doorbells, CQ overrun, SRQs. */
#include <errno.h>

#include "rig.h"
#include "transport/core/qp_table_priv.h"
#include "transport/core/sched_priv.h"

static void
posted_in_err_is_flushed(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_recv(r.a, 1, SGE(r.abuf, 10, r.amr), 1);
	assert_int_equal(end_state(r.a, UROCE_QPS_ERR), 0);
	pair_settle(r.p);
	expect_cqe(&r.a->rcq, 1, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(atomic_load(&r.a->shared.sq_watch), 0);
	assert_int_equal(atomic_load(&r.a->shared.rq_watch), 0);
	rig_write(&r, 2, 0, 10);
	end_recv(r.a, 3, SGE(r.abuf, 10, r.amr), 1);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_WR_FLUSH_ERR);
	expect_cqe(&r.a->rcq, 3, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(pair_count(r.p, 0, -1), 0);
	rig_down(&r);
}

static void
in_flight_and_posted_are_flushed_in_order(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->stalled = true;
	for (uint32_t i = 0; i < 40; i++)
		rig_write(&r, i, 0, 2000);
	host_turn(&r.p->h[0]);
	assert_int_equal(end_state(r.a, UROCE_QPS_ERR), 0);
	pair_settle(r.p);
	for (uint32_t i = 0; i < 40; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_WR_FLUSH_ERR);
	expect_no_cqe(&r.a->scq);
	r.p->stalled = false;
	pair_settle(r.p);
	rig_down(&r);
}

static void
posted_before_rts_is_not_sent(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	assert_int_equal(end_state(r.a, UROCE_QPS_RESET), 0);
	end_to_rtr(r.a, r.b, NULL);
	/* The client library refuses this; a hostile one posts all the same. */
	rig_write(&r, 1, 0, 10);
	pair_advance(r.p, 1 * PAIR_MS);
	assert_int_equal(pair_count(r.p, 0, -1), 0);
	end_to_rts(r.a, NULL);
	pair_settle(r.p);
	assert_int_equal(pair_count(r.p, 0, WIRE_OP_WRITE_ONLY), 1);
	rig_down(&r);
}

static void
reset_forgets_everything(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->stalled = true;
	end_recv(r.a, 9, SGE(r.abuf, 10, r.amr), 1);
	for (uint32_t i = 0; i < 50; i++)
		rig_write(&r, i, 0, 5000);
	host_turn(&r.p->h[0]);
	r.p->stalled = false;
	assert_int_equal(end_state(r.a, UROCE_QPS_RESET), 0);
	assert_int_equal(end_state(r.b, UROCE_QPS_RESET), 0);
	pair_advance(r.p, 200 * PAIR_MS);
	expect_no_cqe(&r.a->scq);
	ends_connect(r.a, r.b, &(struct conn_opts){ .psn = 5000 });
	rig_write(&r, 3, 0, 10);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	/* The receive from before isn't there either. */
	assert_int_equal(end_state(r.a, UROCE_QPS_ERR), 0);
	pair_settle(r.p);
	expect_no_cqe(&r.a->rcq);
	rig_down(&r);
}

static int
to_sqd(struct end *e, bool notify)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_SQD, .en_sqd_async_notify = notify };

	return qp_modify(e->host->tp, e->qp, &a, UROCE_QP_STATE | UROCE_QP_EN_SQD_ASYNC_NOTIFY, NULL,
			 e->host->pair->now);
}

static void
sqd_drains_and_then_holds_posts(void **state)
{
	struct uroce_qp_attr q;
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->stalled = true;
	rig_write(&r, 1, 0, 100000);
	rig_write(&r, 2, 0, 10);
	host_turn(&r.p->h[0]);
	assert_int_equal(to_sqd(r.a, true), 0);
	qp_query(r.a->qp, &q);
	assert_int_equal(q.qp_state, UROCE_QPS_SQD);
	assert_int_equal(q.sq_draining, 1);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_SQ_DRAINED), 0);
	r.p->stalled = false;
	pair_advance(r.p, 1 * PAIR_MS);
	/* The message that had begun is finished, the next isn't begun. */
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_no_cqe(&r.a->scq);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_SQ_DRAINED), 1);
	qp_query(r.a->qp, &q);
	assert_int_equal(q.sq_draining, 0);
	rig_write(&r, 3, 0, 10);
	pair_advance(r.p, 1 * PAIR_MS);
	expect_no_cqe(&r.a->scq);
	assert_int_equal(end_state(r.a, UROCE_QPS_RTS), 0);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_SQ_DRAINED), 1);
	rig_down(&r);
}

static void
sqd_of_an_idle_qp_is_drained_at_once(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	assert_int_equal(to_sqd(r.a, true), 0);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_SQ_DRAINED), 1);
	rig_down(&r);
}

static void
sqd_is_told_once_however_often_it_is_set(void **state)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_SQD, .timeout = 15 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	assert_int_equal(to_sqd(r.a, true), 0);
	assert_int_equal(qp_modify(r.p->h[0].tp, r.a->qp, &a, UROCE_QP_STATE | UROCE_QP_TIMEOUT, NULL, r.p->now), 0);
	qp_activate(r.p->h[0].tp, r.a->qp);
	pair_settle(r.p);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_SQ_DRAINED), 1);
	rig_down(&r);
}

/* It would have to be sent again and never could. */
static void
no_reads_at_all_are_refused_while_one_is_under_way(void **state)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_SQD };
	struct loss l = { .from = 1, .opcode = WIRE_OP_READ_RESP_ONLY, .count = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_read(&r, 1, 0, 100);
	pair_settle(r.p);
	assert_int_equal(to_sqd(r.a, true), 0);
	assert_int_equal(qp_modify(r.p->h[0].tp, r.a->qp, &a, UROCE_QP_STATE | UROCE_QP_MAX_QP_RD_ATOMIC, NULL, r.p->now),
			 EINVAL);
	pair_advance(r.p, 1000 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(qp_modify(r.p->h[0].tp, r.a->qp, &a, UROCE_QP_STATE | UROCE_QP_MAX_QP_RD_ATOMIC, NULL, r.p->now), 0);
	rig_down(&r);
}

/* A WQE that was fetched but not begun goes back unharmed. */
static void
sqd_gives_back_what_has_not_begun(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .rd_atomic = 1 });
	r.p->stalled = true;
	rig_read(&r, 1, 0, 100);
	rig_read(&r, 2, 1000, 100);
	host_turn(&r.p->h[0]);
	assert_int_equal(to_sqd(r.a, true), 0);
	r.p->stalled = false;
	pair_advance(r.p, 1 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_no_cqe(&r.a->scq);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_SQ_DRAINED), 1);
	assert_int_equal(end_state(r.a, UROCE_QPS_RTS), 0);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
first_packet_in_rtr_establishes_communication(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], NULL), *b = end_new(&p->h[1], NULL);

	end_to_rtr(a, b, NULL);
	end_to_rts(a, NULL);
	end_to_rtr(b, a, NULL);
	end_send(a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE });
	end_send(a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_WRITE });
	pair_settle(p);
	expect_cqe(&a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(host_events(&p->h[1], UROCE_EVENT_COMM_EST), 1);
	assert_int_equal(p->h[1].events[0].cookie, ADDR(b));
	end_free(a);
	end_free(b);
	pair_free(p);
}

/* Who can name only the QP doesn't know where the connection begins. */
static void
a_packet_of_another_psn_establishes_nothing(void **state)
{
	const struct wire_bth bth = { .opcode = WIRE_RC | WIRE_OP_SEND_ONLY, .pkey = WIRE_PKEY_DEFAULT };
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], NULL), *b = end_new(&p->h[1], NULL);
	struct wire_bth before = bth, behind = bth;

	end_to_rtr(a, b, NULL);
	end_to_rts(a, NULL);
	end_to_rtr(b, a, NULL);
	before.psn = WIRE_PSN_MASK;
	behind.psn = 1;
	pair_inject(p, b, &before, "", 0);
	pair_inject(p, b, &behind, "", 0);
	pair_settle(p);
	assert_int_equal(host_events(&p->h[1], UROCE_EVENT_COMM_EST), 0);
	end_send(a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE });
	pair_settle(p);
	expect_cqe(&a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(host_events(&p->h[1], UROCE_EVENT_COMM_EST), 1);
	end_free(a);
	end_free(b);
	pair_free(p);
}

static void
wrong_transitions_are_refused(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], NULL);

	assert_int_equal(end_state(a, UROCE_QPS_RTS), EINVAL);
	assert_int_equal(end_state(a, UROCE_QPS_RTR), EINVAL);
	assert_int_equal(qp_state(a->qp), UROCE_QPS_RESET);
	end_free(a);
	pair_free(p);
}

static void
query_tells_what_was_set(void **state)
{
	struct uroce_qp_attr q;
	struct rig r;

	rig_up(&r, NULL,
	       &(struct conn_opts){ .mtu = UROCE_MTU_2048,
				    .psn = 777,
				    .timeout = 9,
				    .retry_cnt = 3,
				    .rnr_retry = 5,
				    .min_rnr_timer = 17,
				    .rd_atomic = 3,
				    .dest_rd_atomic = 2 });
	rig_write(&r, 1, 0, 10);
	pair_settle(r.p);
	qp_query(r.a->qp, &q);
	assert_int_equal(q.qp_state, UROCE_QPS_RTS);
	assert_int_equal(q.path_mtu, UROCE_MTU_2048);
	assert_int_equal(q.sq_psn, 778);
	assert_int_equal(q.rq_psn, 777);
	assert_int_equal(q.timeout, 9);
	assert_int_equal(q.retry_cnt, 3);
	assert_int_equal(q.rnr_retry, 5);
	assert_int_equal(q.min_rnr_timer, 17);
	assert_int_equal(q.max_rd_atomic, 3);
	assert_int_equal(q.max_dest_rd_atomic, 2);
	assert_int_equal(q.dest_qp_num, qp_num(r.b->qp));
	assert_int_equal(q.qp_access_flags, ACCESS_ALL);
	assert_int_equal(q.cap.max_send_wr, 64);
	assert_int_equal(q.ah.hop_limit, 64);
	rig_down(&r);
}

/* ---- Watching ---- */
static void
idle_qp_is_left_alone_until_its_client_rings(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	rig_write(&r, 1, 0, 10);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(atomic_load(&r.a->shared.sq_watch), 1);
	pair_advance(r.p, 100 * PAIR_US);
	assert_int_equal(atomic_load(&r.a->shared.sq_watch), 0);
	/* Not even the ACK timer is left, once it has run out for nothing. */
	pair_advance(r.p, 100 * PAIR_MS);
	assert_true(transport_next_timeout(r.p->h[0].tp) == UINT64_MAX);
	assert_true(transport_next_timeout(r.p->h[1].tp) == UINT64_MAX);
	rig_write(&r, 2, 0, 10);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
before_a_sleep_nothing_is_watched_and_no_timer_left(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	rig_write(&r, 1, 0, 10);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(atomic_load(&r.a->shared.sq_watch), 1);
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(transport_rest(r.p->h[i].tp));
		assert_true(transport_next_timeout(r.p->h[i].tp) == UINT64_MAX);
	}
	assert_int_equal(atomic_load(&r.a->shared.sq_watch), 0);
	rig_write(&r, 2, 0, 10);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
who_has_work_does_not_rest(void **state)
{
	struct transport *tp;
	struct rig r;

	rig_up(&r, NULL, NULL);
	tp = r.p->h[0].tp;
	rig_write(&r, 1, 0, 10);
	assert_false(transport_rest(tp));
	/* In flight: nothing is to be done, but the timer goes on. */
	r.p->stalled = true;
	transport_run(tp, r.p->now);
	transport_run(tp, r.p->now);
	assert_true(transport_rest(tp));
	assert_true(transport_next_timeout(tp) < UINT64_MAX);
	r.p->stalled = false;
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* What the QP waited for in its last run has come since. No timer would wake it. */
static void
who_need_not_wait_any_more_does_not_rest(void **state)
{
	uint8_t response[WIRE_AETH_BYTES + 8] = { 0 };
	struct transport *tp;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .rd_atomic = 1, .dest_rd_atomic = 2 });
	tp = r.p->h[0].tp;
	r.p->stalled = true;
	rig_read(&r, 1, 0, 8);
	rig_read(&r, 2, 0, 8);
	host_turn(&r.p->h[0]);
	host_turn(&r.p->h[0]);
	assert_int_equal(r.a->qp->req.wait, REQ_WAIT_RD_ATOMIC);
	wire_put_aeth(response, WIRE_AETH_CREDITS_INVALID, 1);
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_READ_RESP_ONLY, .psn = r.a->qp->req.psn_una }, response, sizeof(response));
	assert_int_equal(r.a->qp->req.rd_out, 0);
	assert_false(transport_rest(tp));
	r.p->stalled = false;
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
without_watching_each_post_needs_a_doorbell(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->h[0].tp->c.no_watch = true;
	for (uint64_t i = 1; i <= 3; i++) {
		rig_write(&r, i, 0, 10);
		pair_settle(r.p);
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
		transport_run(r.p->h[0].tp, r.p->now);
		assert_int_equal(atomic_load(&r.a->shared.sq_watch), 0);
	}
	rig_down(&r);
}

static void
watched_qp_needs_no_doorbell(void **state)
{
	struct ring_sq_wqe *w;
	union ring_sq_ctl ctl = { .opcode = UROCE_WR_RDMA_WRITE, .flags = UROCE_SEND_SIGNALED };
	struct rig r;

	rig_up(&r, NULL, NULL);
	rig_write(&r, 1, 0, 10);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(atomic_load(&r.a->shared.sq_watch), 1);
	w = ring_slot(&r.a->sq, r.a->sq.counter);
	w->wr_id = 2;
	ring_sq_post(&r.a->sq, r.a->sq.counter++, w, ctl);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* ---- CQ ---- */
static void
cq_overrun_ends_cq_and_qp(void **state)
{
	struct rig r;
	struct ring_cqe e;
	uint32_t n = 0;

	rig_up(&r, &(struct end_opts){ .cq_depth = 8 }, NULL);
	for (uint32_t i = 0; i < 9; i++)
		rig_write(&r, i, 0, 10);
	pair_settle(r.p);
	assert_int_equal(atomic_load(&r.a->scq.shared.overrun), 1);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_CQ_ERR), 1);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_QP_FATAL), 1);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_ERR);
	/* What was there is intact. */
	while (cq_poll(&r.a->scq, &e, NULL))
		assert_int_equal(e.wr_id, n++);
	assert_int_equal(n, 8);
	rig_down(&r);
}

static void
full_cq_is_no_overrun(void **state)
{
	struct rig r;

	rig_up(&r, &(struct end_opts){ .cq_depth = 8 }, NULL);
	for (uint32_t round = 0; round < 5; round++) {
		for (uint32_t i = 0; i < 8; i++)
			rig_write(&r, i, 0, 10);
		pair_settle(r.p);
		for (uint32_t i = 0; i < 8; i++)
			expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	}
	assert_int_equal(atomic_load(&r.a->scq.shared.overrun), 0);
	rig_down(&r);
}

/* ---- SRQ ---- */
static void
srq_serves_qps_and_reports_its_limit_once(void **state)
{
	struct pair *p = pair_new();
	struct end_srq *s = srq_new(&p->h[1], 16, 2);
	struct end *a[2], *b[2];
	uint8_t buf[64] = { 0 };
	struct mr *mr = host_mr(&p->h[1], buf, sizeof(buf), ACCESS_ALL);

	for (uint32_t i = 0; i < 2; i++) {
		a[i] = end_new(&p->h[0], NULL);
		b[i] = end_new(&p->h[1], &(struct end_opts){ .srq = s });
		ends_connect(a[i], b[i], NULL);
	}
	for (uint32_t i = 0; i < 4; i++)
		srq_post(s, i, SGE(buf + 8 * i, 8, mr), 1);
	srq_set_limit(s->srq, 3);
	end_send(a[0], &(struct wr){ .id = 0, .op = UROCE_WR_SEND, .inline_data = "one", .inline_bytes = 3 });
	pair_settle(p);
	/* Three are left: not fewer than three. */
	assert_int_equal(host_events(&p->h[1], UROCE_EVENT_SRQ_LIMIT_REACHED), 0);
	end_send(a[1], &(struct wr){ .id = 0, .op = UROCE_WR_SEND, .inline_data = "two", .inline_bytes = 3 });
	pair_settle(p);
	end_send(a[0], &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .inline_data = "six", .inline_bytes = 3 });
	pair_settle(p);
	assert_int_equal(host_events(&p->h[1], UROCE_EVENT_SRQ_LIMIT_REACHED), 1);
	assert_int_equal(srq_limit(s->srq), 0);
	assert_int_equal(atomic_load(&s->shared.head), 3);
	expect_cqe(&b[0]->rcq, 0, UROCE_WC_SUCCESS);
	expect_cqe(&b[1]->rcq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&b[0]->rcq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(buf + 8, "two", 3);
	assert_int_equal(srq_destroy(p->h[1].tp, s->srq), EBUSY);

	/* In ERR a QP leaves the SRQ's WQEs alone and says that it takes no more. */
	assert_int_equal(end_state(b[0], UROCE_QPS_ERR), 0);
	pair_settle(p);
	expect_no_cqe(&b[0]->rcq);
	assert_int_equal(host_events(&p->h[1], UROCE_EVENT_QP_LAST_WQE_REACHED), 1);
	assert_int_equal(atomic_load(&s->shared.head), 3);
	for (uint32_t i = 0; i < 2; i++) {
		end_free(a[i]);
		end_free(b[i]);
	}
	srq_free(&p->h[1], s);
	mr_destroy(p->h[1].sh.mrs, mr);
	pair_free(p);
}

/* A message that the error cut off in the middle: its WQE was taken and is flushed before LAST_WQE_REACHED. */
static void
an_srq_may_have_its_limit_from_the_beginning(void **state)
{
	struct pair *p = pair_new();
	struct end_srq *s = srq_new(&p->h[0], 16, 2);
	struct srq_params sp = { .ring = s->ring, .shared = &s->shared, .pd = PAIR_PD, .max_sge = 2, .limit = 3 };
	struct srq *srq;

	assert_int_equal(srq_limit(s->srq), 0);
	assert_int_equal(srq_create(p->h[0].tp, &sp, &srq), 0);
	assert_int_equal(srq_limit(srq), 3);
	assert_int_equal(srq_destroy(p->h[0].tp, srq), 0);
	srq_free(&p->h[0], s);
	pair_free(p);
}

static void
taken_srq_wqe_is_flushed_before_last_wqe_reached(void **state)
{
	struct pair *p = pair_new();
	struct end_srq *s = srq_new(&p->h[1], 16, 1);
	struct end *a = end_new(&p->h[0], NULL), *b = end_new(&p->h[1], &(struct end_opts){ .srq = s });
	struct loss l = { .from = 0, .opcode = WIRE_OP_SEND_LAST, .nth = 0, .count = UINT32_MAX };
	uint8_t *buf = calloc(1, 8192);
	struct mr *mr = host_mr(&p->h[1], buf, 4096, ACCESS_ALL),
		  *amr = host_mr(&p->h[0], buf + 4096, 4096, ACCESS_ALL);

	ends_connect(a, b, NULL);
	p->lose = lose;
	p->lose_arg = &l;
	srq_post(s, 33, SGE(buf, 4096, mr), 1);
	end_send(a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .sge = SGE(buf + 4096, 4000, amr), .nb_sge = 1 });
	pair_settle(p);
	assert_int_equal(end_state(b, UROCE_QPS_ERR), 0);
	pair_settle(p);
	expect_cqe(&b->rcq, 33, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(host_events(&p->h[1], UROCE_EVENT_QP_LAST_WQE_REACHED), 1);
	end_free(a);
	end_free(b);
	srq_free(&p->h[1], s);
	mr_destroy(p->h[1].sh.mrs, mr);
	mr_destroy(p->h[0].sh.mrs, amr);
	free(buf);
	pair_free(p);
}

/* ---- The table ---- */
static void
qp_numbers_come_back_late(void **state)
{
	struct pair *p = pair_new();
	uint32_t first = 0;

	for (uint32_t i = 0; i < 200; i++) {
		struct end *e = end_new(&p->h[0], NULL);
		uint32_t n = qp_num(e->qp);

		assert_true(n > 1);
		assert_ptr_equal(qp_table_get(p->h[0].sh.qps, n), e->qp);
		if (i == 0)
			first = n;
		else
			assert_int_not_equal(n, first);
		end_free(e);
		assert_null(qp_table_get(p->h[0].sh.qps, n));
	}
	assert_null(qp_table_get(p->h[0].sh.qps, 0xffffff));
	pair_free(p);
}

/* With a daemon's secret they can be any number of 24 bits. */
static void
qp_numbers_have_24_bits(void **state)
{
	enum { QPS = 64 };
	struct qp_table *t = qp_table_create(QPS, NULL, &(struct secret){ .key[0] = 7 });
	struct qp *qp[QPS];
	uint32_t bits = 0;

	for (unsigned int i = 0; i < QPS; i++) {
		qp[i] = calloc(1, sizeof(*qp[i]));
		assert_non_null(qp[i]);
		assert_int_equal(qp_table_add(t, qp[i]), 0);
		bits |= qp[i]->qpn;
	}
	assert_int_equal(bits, 0xffffff);
	for (unsigned int i = 0; i < QPS; i++)
		qp_table_remove(t, qp[i]);
	qp_table_destroy(t);
}

/* What could not be made is not there. */
static void
nothing_is_destroyed_like_anything_else(void **state)
{
	transport_destroy(NULL);
	qp_table_destroy(NULL);
	ah_table_destroy(NULL);
	mcast_table_destroy(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(posted_in_err_is_flushed),
		cmocka_unit_test(in_flight_and_posted_are_flushed_in_order),
		cmocka_unit_test(posted_before_rts_is_not_sent),
		cmocka_unit_test(reset_forgets_everything),
		cmocka_unit_test(sqd_drains_and_then_holds_posts),
		cmocka_unit_test(sqd_of_an_idle_qp_is_drained_at_once),
		cmocka_unit_test(sqd_is_told_once_however_often_it_is_set),
		cmocka_unit_test(no_reads_at_all_are_refused_while_one_is_under_way),
		cmocka_unit_test(sqd_gives_back_what_has_not_begun),
		cmocka_unit_test(first_packet_in_rtr_establishes_communication),
		cmocka_unit_test(a_packet_of_another_psn_establishes_nothing),
		cmocka_unit_test(wrong_transitions_are_refused),
		cmocka_unit_test(query_tells_what_was_set),
		cmocka_unit_test(idle_qp_is_left_alone_until_its_client_rings),
		cmocka_unit_test(before_a_sleep_nothing_is_watched_and_no_timer_left),
		cmocka_unit_test(who_has_work_does_not_rest),
		cmocka_unit_test(who_need_not_wait_any_more_does_not_rest),
		cmocka_unit_test(without_watching_each_post_needs_a_doorbell),
		cmocka_unit_test(watched_qp_needs_no_doorbell),
		cmocka_unit_test(cq_overrun_ends_cq_and_qp),
		cmocka_unit_test(full_cq_is_no_overrun),
		cmocka_unit_test(srq_serves_qps_and_reports_its_limit_once),
		cmocka_unit_test(an_srq_may_have_its_limit_from_the_beginning),
		cmocka_unit_test(taken_srq_wqe_is_flushed_before_last_wqe_reached),
		cmocka_unit_test(qp_numbers_come_back_late),
		cmocka_unit_test(qp_numbers_have_24_bits),
		cmocka_unit_test(nothing_is_destroyed_like_anything_else),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
