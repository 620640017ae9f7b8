/* SPDX-License-Identifier: BSD-3-Clause */
/* What is bounded stays within its bound: arrays of a turn, sizes given at creation, tables; and what happens at the bound. */
#include "rig.h"

#include <errno.h>
#include <sys/mman.h>

#include "transport/core/srq_priv.h"
#include "transport/core/types_priv.h"

enum {
	MANY_ENDS = TP_TOUCHED_CQS / 2 + 1, /* with two CQs each: more CQs than a turn can note */
	SMALL_CQ = 8,
	MTU = 1024,
};
static_assert(2 * MANY_ENDS > TP_TOUCHED_CQS && 2 * MANY_ENDS > TP_DEFERRED_CQS && 2 * MANY_ENDS < TP_TURN_BUDGET,
	      "a turn can complete one WQE for each CQ");

/* Ends of host 0 that have one send and one receive each to be flushed. */
struct crowd {
	struct pair *p;
	struct end *peer, *e[MANY_ENDS];
};

static void
crowd_up(struct crowd *c, uint16_t moderation)
{
	c->p = pair_new();
	c->peer = end_new(&c->p->h[1], NULL);
	for (unsigned int i = 0; i < MANY_ENDS; i++) {
		struct end *e = end_new(&c->p->h[0], &(struct end_opts){ .channel = true });

		c->e[i] = e;
		end_to_rtr(e, c->peer, NULL);
		end_recv(e, i, NULL, 0);
		cq_moderate(e->scq.cq, moderation, 0);
		cq_moderate(e->rcq.cq, moderation, 0);
		atomic_store(&e->scq.shared.arm, RING_ARM_ANY);
		atomic_store(&e->rcq.shared.arm, RING_ARM_ANY);
		end_send(e, &(struct wr){ .id = i, .op = UROCE_WR_SEND });
		assert_int_equal(end_state(e, UROCE_QPS_ERR), 0);
	}
}

static unsigned int
crowd_events(const struct crowd *c)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < MANY_ENDS; i++)
		n += c->e[i]->scq.events + c->e[i]->rcq.events;
	return n;
}

static void
crowd_down(struct crowd *c)
{
	for (unsigned int i = 0; i < MANY_ENDS; i++) {
		cq_release_deferred(c->p->h[0].tp, c->e[i]->scq.cq, false);
		cq_release_deferred(c->p->h[0].tp, c->e[i]->rcq.cq, false);
		end_free(c->e[i]);
	}
	end_free(c->peer);
	pair_free(c->p);
}

static void
every_cq_of_a_turn_gets_its_event(void **state)
{
	struct crowd c;

	crowd_up(&c, 0);
	host_turn(&c.p->h[0]);
	assert_int_equal(crowd_events(&c), 2 * MANY_ENDS);
	for (unsigned int i = 0; i < MANY_ENDS; i++) {
		assert_int_equal(c.e[i]->scq.events, 1);
		assert_int_equal(c.e[i]->rcq.events, 1);
	}
	crowd_down(&c);
}

static void
events_that_wait_are_told_if_there_are_more_than_have_room(void **state)
{
	struct crowd c;

	crowd_up(&c, 0);
	c.p->h[0].tp->c.tell_later = true;
	host_turn(&c.p->h[0]);
	assert_int_equal(crowd_events(&c), TP_TOUCHED_CQS);
	transport_tell(c.p->h[0].tp);
	assert_int_equal(crowd_events(&c), 2 * MANY_ENDS);
	crowd_down(&c);
}

/* The others are raised at once. */
static void
moderation_holds_back_no_more_events_than_it_has_room_for(void **state)
{
	struct crowd c;

	crowd_up(&c, 100);
	host_turn(&c.p->h[0]);
	assert_int_equal(c.p->h[0].tp->nb_deferred, TP_DEFERRED_CQS);
	assert_int_equal(crowd_events(&c), 2 * MANY_ENDS - TP_DEFERRED_CQS);
	crowd_down(&c);
}

static struct transport *
transport_with(const struct pair *p, unsigned int engine, uint16_t nb_ports)
{
	struct transport_config c = { .sh = p->h[0].sh, .engine = engine, .nb_ports = nb_ports };

	return transport_create(&c);
}

static void
engines_and_ports_have_their_limits(void **state)
{
	struct pair *p = pair_new();
	struct transport *tp;

	assert_null(transport_with(p, UROCE_MAX_ENGINES, 1));
	assert_null(transport_with(p, 0, 0));
	assert_null(transport_with(p, 0, UROCE_MAX_PORTS + 1));
	tp = transport_with(p, UROCE_MAX_ENGINES - 1, UROCE_MAX_PORTS);
	assert_non_null(tp);
	transport_destroy(tp);
	pair_free(p);
}

static void
tables_have_their_limits(void **state)
{
	struct qp_table *qps;
	struct ah_table *ahs;

	assert_null(qp_table_create(0, NULL, NULL));
	assert_null(qp_table_create(UROCE_MAX_QP + 1, NULL, NULL));
	qps = qp_table_create(UROCE_MAX_QP, NULL, NULL);
	assert_non_null(qps);
	qp_table_destroy(qps);
	assert_null(ah_table_create(0, NULL));
	assert_null(ah_table_create(UROCE_MAX_AH + 1, NULL));
	ahs = ah_table_create(UROCE_MAX_AH, NULL);
	assert_non_null(ahs);
	ah_table_destroy(ahs);
}

static int
create(struct pair *p, const struct qp_params *q)
{
	struct qp *qp = NULL;
	int rc = qp_create(p->h[0].tp, q, &qp);

	if (rc == 0)
		qp_destroy(p->h[0].tp, qp);
	return rc;
}

/* A QP for which there is no number leaves nothing behind. */
static void
a_full_table_of_qps_refuses_another_one(void **state)
{
	enum { QPS = 64 }; /* of a host of the pair */
	struct pair *p = pair_new();
	struct transport *tp = p->h[0].tp;
	struct end *e[QPS];
	struct share *s;
	struct qp *qp;
	struct qp_params q;
	uint32_t users;

	assert_int_equal(share_create(tp, &(struct share_params){ 0 }, &s), 0);
	for (unsigned int i = 0; i < QPS; i++)
		e[i] = end_new(&p->h[0], &(struct end_opts){ .share = s });
	users = s->users;
	assert_int_equal(users, QPS);
	q = (struct qp_params){ .type = UROCE_QPT_RC, .pd = PAIR_PD, .send_cq = e[0]->qp->send_cq, .recv_cq = e[0]->qp->recv_cq,
				.sq = e[0]->sq, .rq = e[0]->rq, .shared = &e[0]->shared, .cap = e[0]->qp->attr.cap, .share = s };
	q.sq.counter = q.rq.counter = 0;
	assert_int_equal(qp_create(tp, &q, &qp), ENOMEM);
	assert_int_equal(s->users, users);
	for (unsigned int i = 0; i < QPS; i++)
		end_free(e[i]);
	share_destroy(tp, s);
	pair_free(p);
}

static void
pools_have_the_sizes_that_are_given_or_else_their_own(void **state)
{
	struct tp_pool_sizes sizes[2] = { { 0 }, { 3, 4, 5, 6, 7, 8, 9, 10, 11 } }, want;
	struct pair *p = pair_new();

	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		struct transport_config c = p->h[0].tp->c;
		struct transport *tp;

		want = i == 1 ? sizes[i] : (struct tp_pool_sizes){ .inflight_blocks = TP_INFLIGHT_BLOCKS, .read_blocks = TP_READ_BLOCKS, .sge_blocks = TP_SGE_BLOCKS,
								   .scoreboards = TP_SCOREBOARDS, .reorders = TP_SCOREBOARDS, .reorder_pkts = TP_REORDER_PKTS,
								   .copy_jobs = TP_COPY_JOBS, .copy_pkts = TP_COPY_PKTS, .rx_waits = TP_RX_WAITS };
		c.pools = sizes[i];
		tp = transport_create(&c);
		assert_non_null(tp);
		assert_int_equal(tp->inflight_blocks.left, want.inflight_blocks);
		assert_int_equal(tp->read_blocks.left, want.read_blocks);
		assert_int_equal(tp->sge_blocks.left, want.sge_blocks);
		assert_int_equal(tp->scoreboards.left, want.scoreboards);
		assert_int_equal(tp->reorders.left, want.reorders);
		assert_int_equal(tp->reorder_pkts.left, want.reorder_pkts);
		assert_int_equal(tp->copy_jobs.left, want.copy_jobs);
		assert_int_equal(tp->copy_pkts.left, want.copy_pkts);
		assert_int_equal(tp->rx_waits.left, want.rx_waits);
		transport_destroy(tp);
	}
	pair_free(p);
}

/* What the pools had from the kernel goes back to it with the transport. */
static void
a_transport_leaves_no_memory_behind(void **state)
{
	struct pair *p = pair_new();
	struct transport *tp = p->h[0].tp;
	void *const mem[] = { tp->inflight_blocks.mem, tp->read_blocks.mem, tp->sge_blocks.mem, tp->scoreboards.mem, tp->reorders.mem,
			      tp->reorder_pkts.mem, tp->copy_parts.mem, tp->copy_jobs.mem, tp->copy_pkts.mem, tp->rx_waits.mem };

	static_assert(sizeof(mem) / sizeof(mem[0]) == TP_POOLS, "all of them");
	for (unsigned int i = 0; i < TP_POOLS; i++)
		assert_int_equal(msync(mem[i], 1, MS_ASYNC), 0);
	pair_free(p);
	for (unsigned int i = 0; i < TP_POOLS; i++) {
		assert_int_equal(msync(mem[i], 1, MS_ASYNC), -1);
		assert_int_equal(errno, ENOMEM);
	}
}

static void
a_qp_has_no_more_sges_inline_bytes_and_ports_than_there_are(void **state)
{
	const struct end_opts most = { .max_sge = UROCE_MAX_SGE, .max_inline = UROCE_MAX_INLINE };
	struct pair *p = pair_new();
	struct end *e = end_new(&p->h[0], &most);
	struct qp_params good = { .type = UROCE_QPT_RC, .pd = PAIR_PD, .send_cq = e->scq.cq, .recv_cq = e->rcq.cq, .sq = e->sq,
				  .rq = e->rq, .shared = &e->shared, .cap = { .max_send_sge = UROCE_MAX_SGE,
				  .max_recv_sge = UROCE_MAX_SGE, .max_inline_data = UROCE_MAX_INLINE } };
	struct qp_params bad;

	assert_int_equal(create(p, &good), 0);
	/* With slots that are large enough for more. */
	good.sq.shift++;
	good.rq.shift++;
	bad = good;
	bad.cap.max_send_sge++;
	assert_int_equal(create(p, &bad), EINVAL);
	bad = good;
	bad.cap.max_recv_sge++;
	assert_int_equal(create(p, &bad), EINVAL);
	bad = good;
	bad.cap.max_inline_data++;
	assert_int_equal(create(p, &bad), EINVAL);
	bad = good;
	bad.port = 1;
	assert_int_equal(create(p, &bad), EINVAL);
	end_free(e);
	pair_free(p);
}

/* Slots that are too short would make the engine read and write those behind them. */
static void
slots_hold_what_a_wqe_may_have(void **state)
{
	struct pair *p = pair_new();
	struct end *e = end_new(&p->h[0], NULL);
	struct qp_params good = { .type = UROCE_QPT_RC, .pd = PAIR_PD, .send_cq = e->scq.cq, .recv_cq = e->rcq.cq, .sq = e->sq,
				  .rq = e->rq, .shared = &e->shared,
				  .cap = { .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 128 } };
	struct qp_params bad = good;

	bad.sq.shift--;
	assert_int_equal(create(p, &bad), EINVAL);
	bad = good;
	bad.rq.shift--;
	assert_int_equal(create(p, &bad), EINVAL);
	assert_int_equal(create(p, &good), 0);
	end_free(e);
	pair_free(p);
}

static void
a_path_leads_through_a_port_that_exists(void **state)
{
	const uint32_t mask = UROCE_QP_STATE | UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
			      UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER;
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_INIT, .port_num = 1 };
	struct tp_path path = { .addr = pair_address(0, false), .pkey = WIRE_PKEY_DEFAULT, .port = 1 };
	struct pair *p = pair_new();
	struct end *e = end_new(&p->h[0], NULL);

	assert_int_equal(qp_modify(p->h[0].tp, e->qp, &a, UROCE_QP_STATE | UROCE_QP_PORT | UROCE_QP_PKEY_INDEX | UROCE_QP_ACCESS_FLAGS,
				   NULL, p->now), 0);
	a = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_RTR, .path_mtu = UROCE_MTU_1024, .dest_qp_num = 100,
				    .ah = { .is_global = 1, .port_num = 1, .hop_limit = 64, .dgid = { [15] = 1 } } };
	assert_int_not_equal(qp_modify(p->h[0].tp, e->qp, &a, mask, &path, p->now), 0);
	path.port = 0;
	assert_int_equal(qp_modify(p->h[0].tp, e->qp, &a, mask, &path, p->now), 0);
	end_free(e);
	pair_free(p);
}

static void
xrc_srqs_whose_numbers_share_a_bucket_are_told_apart(void **state)
{
	const uint32_t numbers[] = { 5, TP_XRC_BUCKETS + 5, TP_XRC_BUCKETS - 1, 2 * TP_XRC_BUCKETS - 1, WIRE_PSN_MASK };
	struct end_srq *s[RTE_DIM(numbers)];
	struct pair *p = pair_new();

	for (unsigned int i = 0; i < RTE_DIM(numbers); i++)
		s[i] = xsrq_new(&p->h[0], PAIR_PD, 1, numbers[i], 4);
	for (unsigned int i = 0; i < RTE_DIM(numbers); i++)
		assert_ptr_equal(srq_find(p->h[0].tp, numbers[i]), s[i]->srq);
	assert_null(srq_find(p->h[0].tp, 2 * TP_XRC_BUCKETS + 5));
	for (unsigned int i = 0; i < RTE_DIM(numbers); i++)
		srq_free(&p->h[0], s[i]);
	pair_free(p);
}

/* The NAK of the tenth request acknowledges nine, for which the CQ has no room: nothing more is completed. */
static void
a_nak_completes_nothing_after_an_overrun(void **state)
{
	struct rig r;

	rig_up(&r, &(struct end_opts){ .cq_depth = SMALL_CQ }, NULL);
	for (uint32_t i = 0; i < SMALL_CQ + 1; i++)
		rig_write(&r, i, 0, 10);
	end_send(r.a, &(struct wr){ .id = 100, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.abuf, 10, r.amr), .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key ^ 1 });
	pair_settle(r.p);
	assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_NAK_REM_ACCESS), 1);
	for (uint32_t i = 0; i < SMALL_CQ; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	expect_no_cqe(&r.a->scq);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_ERR);
	assert_int_equal(counters(&r, 0)->req_remote_access_errors, 0);
	rig_down(&r);
}

/* An ACK that passes a READ whose response was lost completes the WRITEs before it, for which the CQ has no room: nothing is asked for again. */
static void
a_lost_response_is_not_missed_after_an_overrun(void **state)
{
	struct loss answers = { .from = 1, .opcode = -1, .nth = 0, .count = 1 };
	struct rig r;

	rig_up(&r, &(struct end_opts){ .cq_depth = SMALL_CQ }, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &answers;
	for (uint32_t i = 0; i < SMALL_CQ + 1; i++)
		rig_write(&r, i, 0, 10);
	rig_read(&r, 100, 0, 10);
	rig_write(&r, 101, 0, 10);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 0)->cq_overrun, 1);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_ERR);
	assert_int_equal(counters(&r, 0)->implied_nak_seq_err, 0);
	assert_int_equal(counters(&r, 0)->retransmitted_packets, 0);
	rig_down(&r);
}

/* What was sent behind it is not waited for: a timer would wake the engine for nothing. */
static void
after_an_overrun_no_timer_runs(void **state)
{
	struct loss last = { .from = 0, .opcode = -1, .nth = SMALL_CQ + 1, .count = UINT32_MAX };
	struct rig r;

	rig_up(&r, &(struct end_opts){ .cq_depth = SMALL_CQ }, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &last;
	for (uint32_t i = 0; i < SMALL_CQ + 2; i++)
		rig_write(&r, i, 0, 10);
	pair_settle(r.p);
	assert_int_equal(counters(&r, 0)->cq_overrun, 1);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_ERR);
	assert_int_equal(r.a->qp->loss.deadline_ns, 0);
	assert_false(wheel_pending(&r.a->qp->loss.timer));
	rig_down(&r);
}

/* Nor after an error amid a message, of which some is on its way. */
static void
after_an_error_no_timer_runs(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_1024 });
	rig_write(&r, 1, 0, 2 * TP_QP_BUDGET * MTU);
	host_turn(&r.p->h[0]);
	assert_true(r.a->qp->req.psn_cur != r.a->qp->req.psn_una);
	mr_destroy(r.p->h[0].sh.mrs, r.amr);
	host_turn(&r.p->h[0]);
	expect_cqe(&r.a->scq, 1, UROCE_WC_LOC_PROT_ERR);
	assert_int_equal(r.a->qp->loss.deadline_ns, 0);
	assert_false(wheel_pending(&r.a->qp->loss.timer));
	pair_settle(r.p);
	r.amr = host_mr(&r.p->h[0], r.abuf, BUF, ACCESS_ALL);
	rig_down(&r);
}

/* The response to the READ uses up what the QP may send in a turn. */
static void
a_nak_that_a_turn_has_no_budget_for_is_sent_in_the_next(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_1024 });
	rig_read(&r, 1, 0, TP_QP_BUDGET * MTU);
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.abuf, 10, r.amr), .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key ^ 1 });
	pair_settle(r.p);
	assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_NAK_REM_ACCESS), 1);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_REM_ACCESS_ERR);
	rig_down(&r);
}

/* It would find the key gone with which the READ before it is still to be answered. */
static void
a_send_with_inv_waits_for_responses_that_find_no_room(void **state)
{
	uint8_t reth[WIRE_RETH_BYTES], ieth[WIRE_IETH_BYTES] = { 0 };
	struct wire_bth b = { .migreq = true };
	struct rig r;

	rig_up(&r, &(struct end_opts){ .sq_depth = 512 }, &(struct conn_opts){ .mtu = UROCE_MTU_1024 });
	end_recv(r.b, 1, SGE(r.bbuf, 64, r.bmr), 1);
	pair_settle(r.p);
	r.p->stalled = true;
	transport_tx(r.p->h[1].tp, 0)->n = 0;
	while (transport_tx(r.p->h[1].tp, 0)->n < TP_TX_MAX) {
		struct tp_txvec *v = transport_tx(r.p->h[1].tp, 0);

		v->pkts[v->n] = rte_pktmbuf_alloc(pair_pool());
		assert_non_null(v->pkts[v->n]);
		v->n++;
	}
	wire_put64(reth, ADDR(r.bbuf));
	wire_put32(reth + 8, r.bmr->key);
	wire_put32(reth + 12, MTU);
	b.opcode = WIRE_OP_READ_REQUEST;
	b.psn = r.b->qp->rcv.epsn;
	pair_inject(r.p, r.b, &b, reth, sizeof(reth));
	assert_int_equal(r.b->qp->rcv.epsn, wire_psn_add(b.psn, 1));
	b.opcode = WIRE_OP_SEND_ONLY_INV;
	b.psn = r.b->qp->rcv.epsn;
	pair_inject(r.p, r.b, &b, ieth, sizeof(ieth));
	assert_int_equal(r.b->qp->rcv.epsn, b.psn);
	assert_int_equal(r.b->qp->rcv.nak_state, TP_NAK_SEQ_SENT);
	assert_int_equal(counters(&r, 1)->resp_invalidate_errors, 0);
	expect_no_cqe(&r.b->rcq);
	/* With room, the response goes first, and then the key is looked at (it is none). */
	rte_pktmbuf_free_bulk(transport_tx(r.p->h[1].tp, 0)->pkts, TP_TX_MAX);
	transport_tx(r.p->h[1].tp, 0)->n = 0;
	pair_inject(r.p, r.b, &b, ieth, sizeof(ieth));
	assert_int_equal(r.b->qp->resp.pending, 0);
	assert_int_equal(counters(&r, 1)->resp_invalidate_errors, 1);
	expect_cqe(&r.b->rcq, 1, UROCE_WC_REM_INV_REQ_ERR);
	r.p->stalled = false;
	pair_settle(r.p);
	rig_down(&r);
}

/* What three QPs of one share hold beyond gaps is bounded before the pool is empty. */
static void
a_share_holds_a_bounded_part_of_the_packets_beyond_gaps(void **state)
{
	static const uint8_t payload[MTU];
	struct wire_bth b = { .opcode = WIRE_OP_WRITE_MIDDLE, .migreq = true };
	struct pair *p = pair_new();
	struct transport *tp = p->h[1].tp;
	struct end *a[4], *e[4];
	uint64_t refused;
	struct share *s;

	assert_int_equal(share_create(tp, &(struct share_params){ 0 }, &s), 0);
	for (unsigned int i = 0; i < RTE_DIM(e); i++) {
		a[i] = end_new(&p->h[0], NULL);
		e[i] = end_new(&p->h[1], &(struct end_opts){ .share = s });
		ends_connect(a[i], e[i], NULL);
		e[i]->qp->rcv.sack_on = true;
		b.mark = e[i]->qp->rcv.sack_mark;
		for (uint32_t psn = 1; psn < TP_SACK_SPAN; psn++) {
			b.psn = wire_psn_add(e[i]->qp->rcv.epsn, psn);
			pair_inject(p, e[i], &b, payload, sizeof(payload));
		}
	}
	refused = transport_counters(tp)->share_refused;
	assert_true(refused > 0);
	assert_true(tp->reorder_pkts.left >= TP_REORDER_PKTS / TP_RESERVE_OF);
	/* Who could hold nothing holds no buffer for it, either. */
	assert_null(e[RTE_DIM(e) - 1]->qp->rcv.reorder);
	/* Another share has its part of the reserve all the same. */
	assert_true(tp->reserve[TP_POOL_REORDER_PKTS].left > 0);
	for (unsigned int i = 0; i < RTE_DIM(e); i++) {
		end_free(a[i]);
		end_free(e[i]);
	}
	assert_int_equal(tp->reorder_pkts.left, TP_REORDER_PKTS);
	share_destroy(tp, s);
	pair_free(p);
}

static void
a_qp_holds_as_many_packets_beyond_a_gap_as_are_left_for_others(void **state)
{
	enum { LEFT = 10 };
	static void *others[TP_REORDER_PKTS];
	static const uint8_t payload[MTU];
	struct wire_bth b = { .opcode = WIRE_OP_WRITE_MIDDLE, .migreq = true };
	struct transport *tp;
	unsigned int n = 0;
	struct rig r;

	rig_up(&r, NULL, NULL);
	tp = r.p->h[1].tp;
	while (pool_left(&tp->reorder_pkts) > LEFT)
		others[n++] = pool_get(&tp->reorder_pkts);
	r.b->qp->rcv.sack_on = true;
	b.mark = r.b->qp->rcv.sack_mark;
	for (uint32_t psn = 1; psn <= LEFT; psn++) {
		b.psn = wire_psn_add(r.b->qp->rcv.epsn, psn);
		pair_inject(r.p, r.b, &b, payload, sizeof(payload));
	}
	assert_int_equal(counters(&r, 1)->rx_held, LEFT / 2);
	assert_int_equal(counters(&r, 1)->rx_not_held, LEFT / 2);
	assert_int_equal(pool_left(&tp->reorder_pkts), LEFT / 2);
	while (n > 0)
		pool_put(&tp->reorder_pkts, others[--n]);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cq_of_a_turn_gets_its_event),
		cmocka_unit_test(events_that_wait_are_told_if_there_are_more_than_have_room),
		cmocka_unit_test(moderation_holds_back_no_more_events_than_it_has_room_for),
		cmocka_unit_test(engines_and_ports_have_their_limits),
		cmocka_unit_test(tables_have_their_limits),
		cmocka_unit_test(a_full_table_of_qps_refuses_another_one),
		cmocka_unit_test(pools_have_the_sizes_that_are_given_or_else_their_own),
		cmocka_unit_test(a_transport_leaves_no_memory_behind),
		cmocka_unit_test(a_qp_has_no_more_sges_inline_bytes_and_ports_than_there_are),
		cmocka_unit_test(slots_hold_what_a_wqe_may_have),
		cmocka_unit_test(a_path_leads_through_a_port_that_exists),
		cmocka_unit_test(xrc_srqs_whose_numbers_share_a_bucket_are_told_apart),
		cmocka_unit_test(a_nak_completes_nothing_after_an_overrun),
		cmocka_unit_test(a_lost_response_is_not_missed_after_an_overrun),
		cmocka_unit_test(after_an_overrun_no_timer_runs),
		cmocka_unit_test(after_an_error_no_timer_runs),
		cmocka_unit_test(a_nak_that_a_turn_has_no_budget_for_is_sent_in_the_next),
		cmocka_unit_test(a_send_with_inv_waits_for_responses_that_find_no_room),
		cmocka_unit_test(a_share_holds_a_bounded_part_of_the_packets_beyond_gaps),
		cmocka_unit_test(a_qp_holds_as_many_packets_beyond_a_gap_as_are_left_for_others),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
