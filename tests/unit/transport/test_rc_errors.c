/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: what is wrong is refused, reported on the side that must know, and everything behind it is flushed in order. */
#include "rig.h"

static uint8_t
next_error(struct end_cq *c, uint64_t id, enum uroce_wc_status status)
{
	struct ring_cqe e;
	union ring_cqe_ctl ctl;

	assert_true(cq_poll(c, &e, &ctl));
	assert_int_equal(e.wr_id, id);
	assert_int_equal(e.status, status);
	return ctl.vendor_err;
}

/* ---- The requester's own mistakes ---- */
static void
bad_lkey_completes_with_prot_err(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	rig_write(&r, 1, 0, 100);
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_WRITE, .nb_sge = 1, .remote_addr = ADDR(r.bbuf),
				    .rkey = r.bmr->key, .unsignaled = true,
				    .sge = &(struct ring_sge){ ADDR(r.abuf), 10, r.amr->key + 1 } });
	rig_write(&r, 3, 0, 100);
	pair_settle(r.p);
	/* What was before it isn't harmed. */
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(next_error(&r.a->scq, 2, UROCE_WC_LOC_PROT_ERR), TP_VERR_LKEY);
	expect_cqe(&r.a->scq, 3, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_ERR);
	assert_int_equal(pair_count(r.p, 0, -1), 1);
	rig_down(&r);
}

static void
range_beyond_the_mr_completes_with_prot_err(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .nb_sge = 1, .remote_addr = ADDR(r.bbuf),
				    .rkey = r.bmr->key, .sge = SGE(r.abuf + BUF - 5000, 5001, r.amr) });
	pair_settle(r.p);
	assert_int_equal(next_error(&r.a->scq, 1, UROCE_WC_LOC_PROT_ERR), TP_VERR_LKEY);
	/* A message of several packets is checked before it begins. */
	assert_int_equal(pair_count(r.p, 0, -1), 0);
	rig_down(&r);
}

static void
read_into_read_only_memory_completes_with_prot_err(void **state)
{
	struct mr *ro;
	struct rig r;

	rig_up(&r, NULL, NULL);
	ro = host_mr(&r.p->h[0], r.abuf, 1000, 0);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_READ, .nb_sge = 1, .remote_addr = ADDR(r.bbuf),
				    .rkey = r.bmr->key, .sge = SGE(r.abuf, 100, ro) });
	pair_settle(r.p);
	assert_int_equal(next_error(&r.a->scq, 1, UROCE_WC_LOC_PROT_ERR), TP_VERR_LACCESS);
	mr_destroy(r.p->h[0].sh.mrs, ro);
	rig_down(&r);
}

/* Each WQE alone: what it is, status, reason. */
static void
wrong_wqes_complete_with_their_error(void **state)
{
	struct ring_sge big[2] = { { 0, UINT32_C(1) << 31, 0 }, { 0, 1, 0 } };
	static const struct ring_sge many[32];
	static const uint8_t inline_bytes[1024];
	const struct {
		struct wr wr;
		enum uroce_wc_status status;
		enum tp_vendor_err verr;
	} cases[] = {
		{ { .op = 12 }, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_OPCODE },
		{ { .op = 200 }, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_OPCODE },
		{ { .op = UROCE_WR_LOCAL_INV }, UROCE_WC_MW_BIND_ERR, TP_VERR_MW },
		{ { .op = UROCE_WR_BIND_MW }, UROCE_WC_MW_BIND_ERR, TP_VERR_MW },
		/* Neither has data. */
		{ { .op = UROCE_WR_LOCAL_INV, .sge = many, .nb_sge = 1 }, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES },
		{ { .op = UROCE_WR_BIND_MW, .inline_data = inline_bytes, .inline_bytes = 1 }, UROCE_WC_LOC_QP_OP_ERR,
		  TP_VERR_WQE_SGES },
		/* Nothing in verbs.h has this number; a FLUSH of no type. */
		{ { .op = (enum uroce_wr_op)13 }, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_OPCODE },
		{ { .op = UROCE_WR_OPS }, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_OPCODE },
		{ { .op = UROCE_WR_FLUSH }, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_FLUSH },
		/* Room for 6 in the slot, 4 were granted. */
		{ { .op = UROCE_WR_SEND, .sge = many, .nb_sge = 5 }, UROCE_WC_LOC_QP_OP_ERR, TP_VERR_WQE_SGES },
		{ { .op = UROCE_WR_SEND, .inline_data = inline_bytes, .inline_bytes = 129 }, UROCE_WC_LOC_QP_OP_ERR,
		  TP_VERR_WQE_SGES },
		{ { .op = UROCE_WR_RDMA_READ, .inline_data = inline_bytes, .inline_bytes = 8 }, UROCE_WC_LOC_QP_OP_ERR,
		  TP_VERR_WQE_SGES },
		{ { .op = UROCE_WR_SEND, .sge = big, .nb_sge = 2 }, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH },
		{ { .op = UROCE_WR_ATOMIC_FETCH_AND_ADD, .sge = &big[1], .nb_sge = 1 }, UROCE_WC_LOC_LEN_ERR,
		  TP_VERR_WQE_LENGTH },
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rig r;

		rig_up(&r, NULL, NULL);
		end_send(r.a, &cases[i].wr);
		pair_settle(r.p);
		assert_int_equal(next_error(&r.a->scq, 0, cases[i].status), cases[i].verr);
		assert_int_equal(qp_state(r.a->qp), UROCE_QPS_ERR);
		rig_down(&r);
	}
}

/* A client that writes an absurd count into a slot's control word. */
static void
hostile_sge_count_is_refused(void **state)
{
	struct ring_sq_wqe *w;
	union ring_sq_ctl ctl = { .opcode = UROCE_WR_SEND, .count = 0xffff, .phase = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	w = ring_slot(&r.a->sq, r.a->sq.counter++);
	atomic_store(&w->ctl, ctl.word);
	qp_doorbell(r.p->h[0].tp, r.a->qp);
	pair_settle(r.p);
	assert_int_equal(next_error(&r.a->scq, 0, UROCE_WC_LOC_QP_OP_ERR), TP_VERR_WQE_SGES);
	rig_down(&r);
}

/* SGEs that change between fetching and sending harm nobody but their owner. */
static void
rewritten_sges_are_checked_again(void **state)
{
	struct ring_sge *sge;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_256 });
	rig_write(&r, 1, 0, 20000);
	host_turn(&r.p->h[0]);
	sge = wqe_sges(ring_slot(&r.a->sq, 0), UROCE_WR_RDMA_WRITE);
	sge->length = 100;
	/* What is behind it in the slot is none of the message's. */
	sge[1] = *SGE(r.abuf, 20000, r.amr);
	pair_settle(r.p);
	assert_int_equal(next_error(&r.a->scq, 1, UROCE_WC_LOC_LEN_ERR), TP_VERR_WQE_LENGTH);
	rig_down(&r);
	/* A READ's response arrives. */
	rig_up(&r, NULL, NULL);
	memset(r.bbuf, 9, 200);
	rig_read(&r, 2, 0, 200);
	host_turn(&r.p->h[0]);
	sge = wqe_sges(ring_slot(&r.a->sq, 0), UROCE_WR_RDMA_READ);
	sge->length = 100;
	sge[1] = *SGE(r.abuf + 4096, 200, r.amr);
	r.abuf[4096] = 0;
	pair_settle(r.p);
	assert_int_equal(next_error(&r.a->scq, 2, UROCE_WC_LOC_PROT_ERR), TP_VERR_WQE_LENGTH);
	assert_int_equal(r.abuf[4096], 0);
	rig_down(&r);
}

/* ---- Refused by the responder ---- */
static void
refused_by_the_peer(struct rig *r, enum uroce_wc_status status, uint8_t syndrome, enum uroce_event event)
{
	rig_write(r, 98, 4096, 10);
	pair_settle(r->p);
	assert_int_equal(next_error(&r->a->scq, 1, status), TP_VERR_REMOTE_NAK);
	expect_cqe(&r->a->scq, 98, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(pair_count_syndrome(r->p, 1, syndrome), 1);
	assert_int_equal(qp_state(r->a->qp), UROCE_QPS_ERR);
	assert_int_equal(qp_state(r->b->qp), UROCE_QPS_ERR);
	assert_int_equal(atomic_load(&r->b->shared.state), UROCE_QPS_ERR);
	assert_int_equal(host_events(&r->p->h[1], event), 1);
	assert_int_equal(r->p->h[1].events[r->p->h[1].nb_events - 1].cookie, ADDR(r->b));
	rig_down(r);
}

static void
bad_rkey_completes_with_remote_access_err(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .inline_data = "x", .inline_bytes = 1,
				    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key ^ 1 });
	refused_by_the_peer(&r, UROCE_WC_REM_ACCESS_ERR, WIRE_NAK_REM_ACCESS, UROCE_EVENT_QP_ACCESS_ERR);
}

static void
write_beyond_the_region_is_refused_before_its_first_byte(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.abuf, 5001, r.amr), .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf) + BUF - 5000, .rkey = r.bmr->key });
	pair_settle(r.p);
	assert_int_equal(r.bbuf[BUF - 5000], 0);
	refused_by_the_peer(&r, UROCE_WC_REM_ACCESS_ERR, WIRE_NAK_REM_ACCESS, UROCE_EVENT_QP_ACCESS_ERR);
}

static void
read_without_qp_access_is_refused(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .access = UROCE_ACCESS_REMOTE_WRITE });
	rig_read(&r, 1, 0, 100);
	refused_by_the_peer(&r, UROCE_WC_REM_ACCESS_ERR, WIRE_NAK_REM_ACCESS, UROCE_EVENT_QP_ACCESS_ERR);
}

static void
atomic_without_qp_access_is_refused(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .access = UROCE_ACCESS_REMOTE_WRITE });
	rig_fetch_add(&r, 1, 0, 1);
	refused_by_the_peer(&r, UROCE_WC_REM_ACCESS_ERR, WIRE_NAK_REM_ACCESS, UROCE_EVENT_QP_ACCESS_ERR);
}

static void
unaligned_atomic_is_an_invalid_request(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_send(r.a, &(struct wr){ .id = 1,
				    .op = UROCE_WR_ATOMIC_FETCH_AND_ADD,
				    .sge = SGE(r.abuf, 8, r.amr),
				    .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf) + 4,
				    .rkey = r.bmr->key });
	refused_by_the_peer(&r, UROCE_WC_REM_INV_REQ_ERR, WIRE_NAK_INV_REQ, UROCE_EVENT_QP_REQ_ERR);
}

static void
read_with_no_resources_is_an_invalid_request(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .no_dest_rd_atomic = true });
	rig_read(&r, 1, 0, 8);
	refused_by_the_peer(&r, UROCE_WC_REM_INV_REQ_ERR, WIRE_NAK_INV_REQ, UROCE_EVENT_QP_REQ_ERR);
}

static void
a_read_on_a_qp_that_may_have_none_outstanding_fails_at_once(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .no_rd_atomic = true });
	rig_read(&r, 1, 0, 8);
	pair_settle(r.p);
	assert_int_equal(next_error(&r.a->scq, 1, UROCE_WC_LOC_QP_OP_ERR), TP_VERR_NO_RD_ATOMIC);
	rig_down(&r);
}

static void
reads_beyond_max_dest_rd_atomic_are_refused(void **state)
{
	struct rig r;

	/* The requester was promised more than the responder has. */
	rig_up(&r, NULL, &(struct conn_opts){ .rd_atomic = 4, .dest_rd_atomic = 2 });
	for (uint32_t i = 0; i < 4; i++)
		rig_read(&r, i, 0, 8);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 0, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_REM_INV_REQ_ERR);
	expect_cqe(&r.a->scq, 3, UROCE_WC_WR_FLUSH_ERR);
	assert_int_equal(counters(&r, 1)->resp_rd_atomic_exceeded, 1);
	rig_down(&r);
}

static void
receive_too_small_fails_on_both_sides(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_recv(r.b, 50, SGE(r.bbuf, 1500, r.bmr), 1);
	end_recv(r.b, 51, SGE(r.bbuf, 1500, r.bmr), 1);
	rig_send(&r, 1, 0, 1501);
	pair_settle(r.p);
	assert_int_equal(next_error(&r.b->rcq, 50, UROCE_WC_LOC_LEN_ERR), TP_VERR_RECV_LENGTH);
	expect_cqe(&r.b->rcq, 51, UROCE_WC_WR_FLUSH_ERR);
	refused_by_the_peer(&r, UROCE_WC_REM_INV_REQ_ERR, WIRE_NAK_INV_REQ, UROCE_EVENT_QP_REQ_ERR);
}

static void
receive_with_bad_lkey_is_a_remote_op_err(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_recv(r.b, 50, &(struct ring_sge){ ADDR(r.bbuf), 100, 0x1234 }, 1);
	rig_send(&r, 1, 0, 10);
	pair_settle(r.p);
	assert_int_equal(next_error(&r.b->rcq, 50, UROCE_WC_LOC_PROT_ERR), TP_VERR_LKEY);
	refused_by_the_peer(&r, UROCE_WC_REM_OP_ERR, WIRE_NAK_REM_OP, UROCE_EVENT_QP_FATAL);
}

static void
memory_gone_in_the_middle_of_a_read_stops_it(void **state)
{
	struct tp_txvec *v;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_256 });
	rig_read(&r, 1, 0, 60000);
	host_turn(&r.p->h[0]);
	/* The responder's first turn sends its budget's worth; then the key goes. */
	v = transport_tx(r.p->h[0].tp, 0);
	assert_int_equal(transport_rx(r.p->h[1].tp, 0, v->pkts, v->n, false, r.p->now), 0);
	v->n = 0;
	host_turn(&r.p->h[1]);
	assert_true(transport_tx(r.p->h[1].tp, 0)->n > 0);
	assert_true(transport_tx(r.p->h[1].tp, 0)->n < 235);
	mr_destroy(r.p->h[1].sh.mrs, r.bmr);
	r.bmr = NULL;
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_REM_ACCESS_ERR);
	assert_int_equal(qp_state(r.b->qp), UROCE_QPS_ERR);
	rig_down(&r);
}

/* The reads before the refused request are answered first. */
static void
nak_comes_after_the_responses_before_it(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	fill(r.bbuf, BUF, 3);
	rig_read(&r, 0, 0, 40000);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .inline_data = "x", .inline_bytes = 1,
				    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key ^ 1 });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 0, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 40000);
	refused_by_the_peer(&r, UROCE_WC_REM_ACCESS_ERR, WIRE_NAK_REM_ACCESS, UROCE_EVENT_QP_ACCESS_ERR);
}

/* ---- Hand-made packets ---- */
static void
inject_data(struct rig *r, uint8_t opcode, uint32_t psn, uint32_t len, const void *eth, uint32_t eth_len)
{
	uint8_t after[4096 + 64] = { 0 };

	if (eth_len > 0)
		memcpy(after, eth, eth_len);
	pair_inject(r->p, r->b, &(struct wire_bth){ .opcode = opcode, .psn = psn, .ackreq = true }, after,
		    eth_len + len);
	pair_settle(r->p);
}

static void
broken_message_sequences_are_invalid_requests(void **state)
{
	uint8_t reth[16];
	struct rig r;

	/* Middle without first; first of the wrong size; a send in the middle of a write; a read in the middle of a
	 * write. */
	for (unsigned int i = 0; i < 6; i++) {
		rig_up(&r, NULL, NULL);
		wire_put_reth(reth, ADDR(r.bbuf), r.bmr->key, 3000);
		end_recv(r.b, 1, SGE(r.bbuf, 10000, r.bmr), 1);
		if (i == 0)
			inject_data(&r, WIRE_OP_WRITE_MIDDLE, 100, 1024, NULL, 0);
		else if (i == 1)
			inject_data(&r, WIRE_OP_WRITE_FIRST, 100, 1000, reth, 16);
		else
			inject_data(&r, WIRE_OP_WRITE_FIRST, 100, 1024, reth, 16);
		if (i == 2)
			inject_data(&r, WIRE_OP_SEND_MIDDLE, 101, 1024, NULL, 0);
		if (i == 3)
			inject_data(&r, WIRE_OP_READ_REQUEST, 101, 0, reth, 16);
		if (i == 4)
			inject_data(&r, WIRE_OP_WRITE_LAST, 101, 1000, NULL, 0);
		if (i == 5)
			inject_data(&r, WIRE_OP_WRITE_FIRST, 101, 1024, reth, 16);
		assert_int_equal(pair_count_syndrome(r.p, 1, WIRE_NAK_INV_REQ), 1);
		assert_int_equal(qp_state(r.b->qp), UROCE_QPS_ERR);
		assert_int_equal(host_events(&r.p->h[1], UROCE_EVENT_QP_REQ_ERR), 1);
		expect_cqe(&r.b->rcq, 1, UROCE_WC_WR_FLUSH_ERR);
		rig_down(&r);
	}
}

static void
ghost_and_stale_acks_are_ignored(void **state)
{
	uint8_t aeth[4];
	struct rig r;

	rig_up(&r, NULL, NULL);
	rig_write(&r, 1, 0, 10);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	for (uint32_t i = 0; i < 3; i++) {
		static const uint8_t syndromes[] = { WIRE_AETH_ACK | 0x1f, WIRE_NAK_REM_ACCESS, WIRE_AETH_RNR_NAK };

		wire_put_aeth(aeth, syndromes[i], 0);
		pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = 101 }, aeth, 4);
		pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = 100 }, aeth, 4);
		pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = 0x800100 }, aeth, 4);
	}
	assert_int_equal(qp_state(r.a->qp), UROCE_QPS_RTS);
	assert_int_equal(counters(&r, 0)->rx_ghost_ack, 3);
	assert_int_equal(counters(&r, 0)->rx_response_ignored, 6);
	rig_write(&r, 2, 0, 10);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
unknown_nak_codes_are_ignored(void **state)
{
	uint8_t aeth[4];
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->stalled = true;
	rig_write(&r, 1, 0, 10);
	pair_settle(r.p);
	for (uint32_t s = 0x40; s < 0x100; s++) {
		if (s >= WIRE_NAK_PSN_SEQ && s <= WIRE_NAK_REM_OP)
			continue;
		wire_put_aeth(aeth, (uint8_t)s, 0);
		pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = 100 }, aeth, 4);
	}
	assert_int_equal(counters(&r, 0)->rx_nak_ignored, 0xc0 - 4);
	r.p->stalled = false;
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
response_of_the_wrong_size_is_a_bad_response(void **state)
{
	uint8_t after[4 + 100] = { WIRE_AETH_ACK | 0x1f };
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.p->stalled = true;
	rig_read(&r, 1, 0, 64);
	pair_settle(r.p);
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_READ_RESP_ONLY, .psn = 100 }, after, sizeof(after));
	pair_settle(r.p);
	assert_int_equal(next_error(&r.a->scq, 1, UROCE_WC_BAD_RESP_ERR), TP_VERR_BAD_RESPONSE);
	r.p->stalled = false;
	pair_settle(r.p);
	rig_down(&r);
}

static void
strangers_are_dropped_and_counted(void **state)
{
	uint8_t data[8] = { 0 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	/* UC packet for an RC QP. */
	pair_inject(r.p, r.b, &(struct wire_bth){ .opcode = WIRE_UC | WIRE_OP_SEND_ONLY, .psn = 100 }, data, 8);
	assert_int_equal(counters(&r, 1)->rx_wrong_service, 1);
	/* From an address that isn't the peer's: what A sends is addressed to B, let A have it itself. */
	r.p->stalled = true;
	rig_write(&r, 1, 0, 10);
	pair_settle(r.p);
	assert_int_equal(qp_num(r.a->qp), qp_num(r.b->qp));
	assert_int_equal(transport_rx(r.p->h[0].tp, 0, transport_tx(r.p->h[0].tp, 0)->pkts, 1, false, r.p->now), 0);
	transport_tx(r.p->h[0].tp, 0)->n = 0;
	assert_int_equal(counters(&r, 0)->rx_bad_address, 1);
	r.p->stalled = false;
	pair_advance(r.p, 70 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(end_state(r.b, UROCE_QPS_ERR), 0);
	pair_inject(r.p, r.b, &(struct wire_bth){ .opcode = WIRE_OP_SEND_ONLY, .psn = 101 }, data, 8);
	assert_int_equal(counters(&r, 1)->rx_wrong_state, 1);
	rig_down(&r);
}

/*
 * Requests 1 and 2 are lost on their way, then the memory of the second goes: sent again, it is found bad and waits for
 * the first.
 */
static void
rig_up_bad_second(struct rig *r, enum uroce_wr_op op)
{
	struct loss l = { .from = 0, .opcode = -1, .count = UINT32_MAX };
	struct mr *mr;

	rig_up(r, NULL, NULL);
	r->p->lose = lose;
	r->p->lose_arg = &l;
	mr = host_mr(&r->p->h[0], r->abuf + 4096, 8, 0);
	rig_write(r, 1, 0, 8);
	end_send(r->a, &(struct wr){ .id = 2, .op = op, .nb_sge = 1, .sge = SGE(r->abuf + 4096, 8, mr),
				     .remote_addr = ADDR(r->bbuf) + 4096, .rkey = r->bmr->key });
	pair_settle(r->p);
	assert_int_equal(pair_count(r->p, 0, -1), 2);
	mr_destroy(r->p->h[0].sh.mrs, mr);
	pair_advance(r->p, 100 * (uint64_t)PAIR_MS);
	/* Only the first: the second can't be sent any more, and doesn't complete before it. */
	assert_int_equal(pair_count(r->p, 0, -1), 3);
	expect_no_cqe(&r->a->scq);
	r->p->lose = NULL;
}

/* The peer has got both after all, and says so late. */
static void
an_ack_of_a_message_that_turned_out_bad_is_no_lost_response(void **state)
{
	uint8_t aeth[WIRE_AETH_BYTES];
	struct rig r;

	rig_up_bad_second(&r, UROCE_WR_RDMA_WRITE);
	wire_put_aeth(aeth, WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID, 2);
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = 101 }, aeth, sizeof(aeth));
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(next_error(&r.a->scq, 2, UROCE_WC_LOC_PROT_ERR), TP_VERR_LKEY);
	assert_int_equal(counters(&r, 0)->rx_response_ignored, 1);
	assert_int_equal(counters(&r, 0)->implied_nak_seq_err, 0);
	assert_int_equal(counters(&r, 0)->sack_offers_sent, 0);
	rig_down(&r);
}

static void
a_response_to_a_request_that_turned_out_bad_is_no_bad_response(void **state)
{
	uint8_t aeth[WIRE_AETH_BYTES];
	struct rig r;

	rig_up_bad_second(&r, UROCE_WR_ATOMIC_WRITE);
	wire_put_aeth(aeth, WIRE_AETH_ACK | WIRE_AETH_CREDITS_INVALID, 2);
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = 100 }, aeth, sizeof(aeth));
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_READ_RESP_ONLY, .psn = 101 }, aeth, sizeof(aeth));
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(next_error(&r.a->scq, 2, UROCE_WC_LOC_PROT_ERR), TP_VERR_LKEY);
	assert_int_equal(counters(&r, 0)->rx_bad_response, 0);
	assert_int_equal(counters(&r, 0)->rx_response_ignored, 1);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_lkey_completes_with_prot_err),
		cmocka_unit_test(range_beyond_the_mr_completes_with_prot_err),
		cmocka_unit_test(read_into_read_only_memory_completes_with_prot_err),
		cmocka_unit_test(wrong_wqes_complete_with_their_error),
		cmocka_unit_test(hostile_sge_count_is_refused),
		cmocka_unit_test(rewritten_sges_are_checked_again),
		cmocka_unit_test(bad_rkey_completes_with_remote_access_err),
		cmocka_unit_test(write_beyond_the_region_is_refused_before_its_first_byte),
		cmocka_unit_test(read_without_qp_access_is_refused),
		cmocka_unit_test(atomic_without_qp_access_is_refused),
		cmocka_unit_test(unaligned_atomic_is_an_invalid_request),
		cmocka_unit_test(read_with_no_resources_is_an_invalid_request),
		cmocka_unit_test(a_read_on_a_qp_that_may_have_none_outstanding_fails_at_once),
		cmocka_unit_test(reads_beyond_max_dest_rd_atomic_are_refused),
		cmocka_unit_test(receive_too_small_fails_on_both_sides),
		cmocka_unit_test(receive_with_bad_lkey_is_a_remote_op_err),
		cmocka_unit_test(memory_gone_in_the_middle_of_a_read_stops_it),
		cmocka_unit_test(nak_comes_after_the_responses_before_it),
		cmocka_unit_test(broken_message_sequences_are_invalid_requests),
		cmocka_unit_test(ghost_and_stale_acks_are_ignored),
		cmocka_unit_test(unknown_nak_codes_are_ignored),
		cmocka_unit_test(response_of_the_wrong_size_is_a_bad_response),
		cmocka_unit_test(an_ack_of_a_message_that_turned_out_bad_is_no_lost_response),
		cmocka_unit_test(a_response_to_a_request_that_turned_out_bad_is_no_bad_response),
		cmocka_unit_test(strangers_are_dropped_and_counted),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
