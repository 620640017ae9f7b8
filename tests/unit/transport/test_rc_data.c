/* SPDX-License-Identifier: BSD-3-Clause */
/* RC: messages of every kind and size arrive, complete, and look right on the wire. */
#include <stdlib.h>
#include <string.h>

#include <rte_mbuf.h>

#include "rig.h"

static void
write_lands_and_completes(void **state)
{
	struct rig r;
	struct ring_cqe e;

	rig_up(&r, NULL, NULL);
	end_send(r.a, &(struct wr){ .id = 5, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.abuf, 100, r.amr), .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf) + 3, .rkey = r.bmr->key });
	pair_settle(r.p);
	e = expect_cqe(&r.a->scq, 5, UROCE_WC_SUCCESS);
	assert_int_equal(e.opcode, UROCE_WC_RDMA_WRITE);
	assert_int_equal(e.qpn, qp_num(r.a->qp));
	assert_memory_equal(r.bbuf + 3, r.abuf, 100);
	assert_int_equal(r.bbuf[2], 0);
	assert_int_equal(r.bbuf[103], 0);
	expect_no_cqe(&r.b->rcq);
	rig_down(&r);
}

static void
send_fills_receive_in_order(void **state)
{
	struct rig r;
	struct ring_cqe e;

	rig_up(&r, NULL, NULL);
	end_recv(r.b, 1, SGE(r.bbuf, 1000, r.bmr), 1);
	end_recv(r.b, 2, SGE(r.bbuf + 1000, 1000, r.bmr), 1);
	end_send(r.a, &(struct wr){ .id = 11, .op = UROCE_WR_SEND, .sge = SGE(r.abuf, 700, r.amr), .nb_sge = 1 });
	end_send(r.a, &(struct wr){ .id = 12, .op = UROCE_WR_SEND_WITH_IMM, .imm = 0x12345678,
				    .sge = SGE(r.abuf + 700, 33, r.amr), .nb_sge = 1 });
	pair_settle(r.p);
	e = expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(e.byte_len, 700);
	assert_int_equal(e.opcode, UROCE_WC_RECV);
	e = expect_cqe(&r.b->rcq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(e.byte_len, 33);
	assert_int_equal(e.imm, 0x12345678);
	assert_int_equal(((union ring_cqe_ctl){ .word = e.ctl }).wc_flags, UROCE_WC_WITH_IMM);
	assert_memory_equal(r.bbuf, r.abuf, 700);
	assert_memory_equal(r.bbuf + 1000, r.abuf + 700, 33);
	expect_cqe(&r.a->scq, 11, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 12, UROCE_WC_SUCCESS);
	/* Messages are counted, not packets. */
	end_recv(r.b, 3, SGE(r.bbuf, 5000, r.bmr), 1);
	rig_send(&r, 13, 0, 5000);
	pair_settle(r.p);
	expect_cqe(&r.b->rcq, 3, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 1)->rx_send_requests, 3);
	rig_down(&r);
}

static void
write_with_imm_takes_a_receive_at_its_end(void **state)
{
	struct rig r;
	struct ring_cqe e;

	rig_up(&r, NULL, NULL);
	end_recv(r.b, 1, NULL, 0);
	end_send(r.a, &(struct wr){ .id = 9, .op = UROCE_WR_RDMA_WRITE_WITH_IMM, .imm = 77, .remote_addr = ADDR(r.bbuf),
				    .rkey = r.bmr->key, .sge = SGE(r.abuf, 5000, r.amr), .nb_sge = 1 });
	pair_settle(r.p);
	e = expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(e.opcode, UROCE_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(e.byte_len, 5000);
	assert_int_equal(e.imm, 77);
	assert_memory_equal(r.bbuf, r.abuf, 5000);
	expect_cqe(&r.a->scq, 9, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
read_fetches(void **state)
{
	struct rig r;
	struct ring_cqe e;

	rig_up(&r, NULL, NULL);
	fill(r.bbuf, BUF, 99);
	end_send(r.a, &(struct wr){ .id = 3, .op = UROCE_WR_RDMA_READ, .sge = SGE(r.abuf, 10000, r.amr), .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf) + 1, .rkey = r.bmr->key });
	pair_settle(r.p);
	e = expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	assert_int_equal(e.opcode, UROCE_WC_RDMA_READ);
	assert_int_equal(e.byte_len, 10000);
	assert_memory_equal(r.abuf, r.bbuf + 1, 10000);
	assert_int_equal(pair_count(r.p, 0, WIRE_OP_READ_REQUEST), 1);
	assert_int_equal(pair_count(r.p, 1, WIRE_OP_READ_RESP_FIRST), 1);
	assert_int_equal(pair_count(r.p, 1, WIRE_OP_READ_RESP_MIDDLE), 8);
	assert_int_equal(pair_count(r.p, 1, WIRE_OP_READ_RESP_LAST), 1);
	assert_int_equal(pair_count(r.p, 1, -1), 10);
	rig_down(&r);
}

static void
atomics_return_the_old_value(void **state)
{
	struct rig r;
	struct ring_cqe e;
	uint64_t *there, *here;

	rig_up(&r, NULL, NULL);
	there = (uint64_t *)r.bbuf;
	here = (uint64_t *)r.abuf;
	*there = UINT64_C(0x1122334455667788);
	end_send(r.a, &(struct wr){ .id = 1,
				    .op = UROCE_WR_ATOMIC_FETCH_AND_ADD,
				    .sge = SGE(here, 8, r.amr),
				    .nb_sge = 1,
				    .remote_addr = ADDR(there),
				    .rkey = r.bmr->key,
				    .compare_add = 0x10 });
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_ATOMIC_CMP_AND_SWP, .sge = SGE(here + 1, 8, r.amr),
				    .nb_sge = 1, .remote_addr = ADDR(there), .rkey = r.bmr->key,
				    .compare_add = UINT64_C(0x1122334455667798), .swap = 42 });
	end_send(r.a, &(struct wr){ .id = 3, .op = UROCE_WR_ATOMIC_CMP_AND_SWP, .sge = SGE(here + 2, 8, r.amr),
				    .nb_sge = 1, .remote_addr = ADDR(there), .rkey = r.bmr->key, .compare_add = 1,
				    .swap = 43 });
	pair_settle(r.p);
	e = expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(e.opcode, UROCE_WC_FETCH_ADD);
	assert_int_equal(e.byte_len, 8);
	e = expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(e.opcode, UROCE_WC_COMP_SWAP);
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	assert_true(here[0] == UINT64_C(0x1122334455667788));
	assert_true(here[1] == UINT64_C(0x1122334455667798));
	assert_true(here[2] == 42);
	assert_true(*there == 42);
	rig_down(&r);
}

/* Every length around the MTU's multiples, for every MTU, there and back. */
static void
every_mtu_and_length_round_trips(void **state)
{
	for (uint32_t mtu = UROCE_MTU_256; mtu <= UROCE_MTU_4096; mtu++) {
		uint32_t m = 128u << mtu, lens[] = { 0, 1, 2, 3, 4, 5, m - 1, m, m + 1, 2 * m, 3 * m + 7, 70 * m + 1 };
		struct rig r;

		rig_up(&r, NULL, &(struct conn_opts){ .mtu = mtu, .v6 = mtu & 1, .psn = 0xfffff0 });
		for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			uint32_t len = lens[i];

			memset(r.bbuf, 0xee, len + 1);
			end_recv(r.b, i, SGE(r.bbuf, len, r.bmr), 1);
			end_send(r.a,
				 &(struct wr){
					 .id = 1, .op = UROCE_WR_SEND, .sge = SGE(r.abuf, len, r.amr), .nb_sge = 1 });
			pair_settle(r.p);
			expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
			assert_int_equal(expect_cqe(&r.b->rcq, i, UROCE_WC_SUCCESS).byte_len, len);
			assert_memory_equal(r.bbuf, r.abuf, len);
			assert_int_equal(r.bbuf[len], 0xee);

			memset(r.bbuf, 0xee, len + 1);
			end_send(r.a, &(struct wr){ .id = 2,
						    .op = UROCE_WR_RDMA_WRITE,
						    .sge = SGE(r.abuf + 5, len, r.amr),
						    .nb_sge = 1,
						    .remote_addr = ADDR(r.bbuf),
						    .rkey = r.bmr->key });
			end_send(r.a, &(struct wr){ .id = 3,
						    .op = UROCE_WR_RDMA_READ,
						    .sge = SGE(r.abuf + BUF / 2, len, r.amr),
						    .nb_sge = 1,
						    .remote_addr = ADDR(r.bbuf),
						    .rkey = r.bmr->key });
			pair_settle(r.p);
			expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
			expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
			assert_memory_equal(r.bbuf, r.abuf + 5, len);
			assert_int_equal(r.bbuf[len], 0xee);
			assert_memory_equal(r.abuf + BUF / 2, r.abuf + 5, len);
		}
		/* Nothing was lost, so nothing was sent twice. */
		assert_int_equal(transport_counters(r.p->h[0].tp)->retransmitted_packets, 0);
		assert_int_equal(transport_counters(r.p->h[1].tp)->duplicate_request, 0);
		rig_down(&r);
	}
}

static void
sges_are_gathered_and_scattered(void **state)
{
	struct rig r;
	struct ring_sge out[3], in[4];
	uint8_t want[3000];

	rig_up(&r, NULL, NULL);
	out[0] = *SGE(r.abuf, 1000, r.amr);
	out[1] = *SGE(r.abuf + 5000, 0, r.amr);
	out[2] = *SGE(r.abuf + 10000, 2000, r.amr);
	in[0] = *SGE(r.bbuf + 1, 1, r.bmr);
	in[1] = *SGE(r.bbuf + 100, 1023, r.bmr);
	in[2] = *SGE(r.bbuf + 5000, 0, r.bmr);
	in[3] = *SGE(r.bbuf + 9000, 2500, r.bmr);
	memcpy(want, r.abuf, 1000);
	memcpy(want + 1000, r.abuf + 10000, 2000);
	end_recv(r.b, 1, in, 4);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .sge = out, .nb_sge = 3 });
	pair_settle(r.p);
	expect_cqe(&r.b->rcq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(r.bbuf[1], want[0]);
	assert_memory_equal(r.bbuf + 100, want + 1, 1023);
	assert_memory_equal(r.bbuf + 9000, want + 1024, 1976);

	/* A READ into the same pieces. */
	memset(r.abuf + 20000, 0, 5000);
	for (unsigned int i = 0; i < 3; i++)
		out[i].addr += 20000;
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_READ, .sge = out, .nb_sge = 3,
				    .remote_addr = ADDR(r.bbuf) + 100, .rkey = r.bmr->key });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf + 20000, r.bbuf + 100, 1000);
	assert_memory_equal(r.abuf + 30000, r.bbuf + 1100, 2000);
	rig_down(&r);
}

static void
inline_data_needs_no_key(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_send(r.a, &(struct wr){ .id = 1,
				    .op = UROCE_WR_RDMA_WRITE,
				    .inline_data = "hello, world",
				    .inline_bytes = 12,
				    .remote_addr = ADDR(r.bbuf),
				    .rkey = r.bmr->key });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.bbuf, "hello, world", 12);
	rig_down(&r);
}

static void
unsignaled_success_makes_no_cqe(void **state)
{
	struct rig r;
	struct ring_cqe e;
	union ring_cqe_ctl ctl;

	rig_up(&r, NULL, NULL);
	for (unsigned int i = 0; i < 5; i++)
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_RDMA_WRITE, .inline_data = &i, .inline_bytes = 4,
					    .unsignaled = i != 4, .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
	pair_settle(r.p);
	assert_true(cq_poll(&r.a->scq, &e, &ctl));
	assert_int_equal(e.wr_id, 4);
	assert_int_equal(ctl.wqe_counter, 4);
	expect_no_cqe(&r.a->scq);
	rig_down(&r);
}

static void
sq_sig_all_signals_all(void **state)
{
	struct rig r;

	rig_up(&r, &(struct end_opts){ .sig_all = true }, NULL);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .inline_data = "x", .inline_bytes = 1,
				    .unsignaled = true, .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
zero_length_write_and_read_ignore_the_key(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .rkey = 0xdeadbeef });
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_READ, .rkey = 0xdeadbeef });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(pair_count(r.p, 1, WIRE_OP_READ_RESP_ONLY), 1);
	rig_down(&r);
}

/* A fenced WRITE waits for the READ before it; without the fence both would go out together. */
static void
fence_waits_for_reads(void **state)
{
	struct rig r;
	uint32_t read_resp = 0, write_req = 0;

	rig_up(&r, NULL, NULL);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_READ, .sge = SGE(r.abuf, 3000, r.amr), .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_WRITE, .flags = UROCE_SEND_FENCE, .inline_data = "f",
				    .inline_bytes = 1, .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	for (uint32_t i = 0; i < r.p->nb_log; i++) {
		if (r.p->log[i].bth.opcode == WIRE_OP_READ_RESP_LAST)
			read_resp = i;
		if (r.p->log[i].bth.opcode == WIRE_OP_WRITE_ONLY)
			write_req = i;
	}
	assert_true(read_resp < write_req);
	rig_down(&r);
}

static void
outstanding_reads_stay_below_max_rd_atomic(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .rd_atomic = 2, .dest_rd_atomic = 2 });
	for (unsigned int i = 0; i < 8; i++)
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_RDMA_READ, .sge = SGE(r.abuf + i * 8, 8, r.amr),
					    .nb_sge = 1, .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
	host_turn(&r.p->h[0]);
	assert_int_equal(transport_tx(r.p->h[0].tp, 0)->n, 2);
	pair_settle(r.p);
	for (unsigned int i = 0; i < 8; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* Long READs are cut into requests that fit the window, with the same PSNs as one request has. */
static void
long_read_is_asked_for_in_pieces(void **state)
{
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_256 });
	fill(r.bbuf, BUF, 5);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_READ, .sge = SGE(r.abuf, 200000, r.amr), .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_WRITE, .inline_data = "x", .inline_bytes = 1,
				    .remote_addr = ADDR(r.bbuf) + 300000, .rkey = r.bmr->key });
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 200000);
	assert_int_equal(pair_count(r.p, 1, -1), 782 + 1);
	rig_down(&r);
}

static void
one_ack_answers_a_burst(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	for (unsigned int i = 0; i < 10; i++)
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_RDMA_WRITE, .inline_data = &i, .inline_bytes = 4,
					    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
	pair_settle(r.p);
	for (unsigned int i = 0; i < 10; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_int_equal(pair_count(r.p, 1, -1), 1);
	assert_int_equal(r.p->log[r.p->nb_log - 1].msn, 10);
	assert_int_equal(r.p->log[r.p->nb_log - 1].syndrome, WIRE_AETH_ACK);
	rig_down(&r);
}

static void
a_response_acknowledges_what_came_before_it(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	rig_write(&r, 1, 0, 100);
	rig_read(&r, 2, 200, 100);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(pair_count(r.p, 1, -1), 1);
	rig_down(&r);
}

/* What goes to ourselves never sees the wire. */
static void
loopback_stays_inside(void **state)
{
	struct pair *p = pair_new();
	struct end *a = end_new(&p->h[0], NULL), *b = end_new(&p->h[0], NULL);
	uint8_t *buf = calloc(1, 20000);
	struct mr *mr = host_mr(&p->h[0], buf, 20000, ACCESS_ALL);

	fill(buf, 10000, 4);
	ends_connect(a, b, NULL);
	end_send(a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(buf, 10000, mr), .nb_sge = 1,
				  .remote_addr = ADDR(buf) + 10000, .rkey = mr->key });
	host_turn(&p->h[0]);
	assert_int_equal(transport_tx(p->h[0].tp, 0)->n, 0);
	assert_true(transport_loop(p->h[0].tp)->n > 0);
	pair_settle(p);
	expect_cqe(&a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(buf, buf + 10000, 10000);
	end_free(a);
	end_free(b);
	mr_destroy(p->h[0].sh.mrs, mr);
	free(buf);
	pair_free(p);
}

static void
more_wqes_than_the_queue_holds_pass_through(void **state)
{
	struct rig r;
	uint32_t done = 0, posted = 0;
	struct ring_cqe e;

	rig_up(&r, &(struct end_opts){ .sq_depth = 512, .cq_depth = 1024 }, NULL);
	while (done < 5000) {
		while (posted < 5000 && posted - done < 512) {
			end_send(r.a, &(struct wr){ .id = posted,
						    .op = UROCE_WR_RDMA_WRITE,
						    .inline_data = &posted,
						    .inline_bytes = 4,
						    .remote_addr = ADDR(r.bbuf),
						    .rkey = r.bmr->key });
			posted++;
		}
		pair_settle(r.p);
		while (cq_poll(&r.a->scq, &e, NULL)) {
			assert_int_equal(e.wr_id, done);
			assert_int_equal(e.status, UROCE_WC_SUCCESS);
			done++;
		}
	}
	rig_down(&r);
}

static void
armed_cq_raises_one_event(void **state)
{
	struct rig r;

	rig_up(&r, &(struct end_opts){ .channel = true }, NULL);
	end_recv(r.b, 1, SGE(r.bbuf, 10, r.bmr), 1);
	end_recv(r.b, 2, SGE(r.bbuf, 10, r.bmr), 1);
	end_recv(r.b, 3, SGE(r.bbuf, 10, r.bmr), 1);

	/* Not armed: none. */
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .inline_data = "a", .inline_bytes = 1 });
	pair_settle(r.p);
	assert_int_equal(r.b->rcq.events, 0);

	/* Armed for solicited: not by this one ... */
	atomic_store(&r.b->rcq.shared.arm, RING_ARM_SOLICITED);
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_SEND, .inline_data = "b", .inline_bytes = 1 });
	pair_settle(r.p);
	assert_int_equal(r.b->rcq.events, 0);
	/* ... but by this one, and then it's disarmed. */
	end_send(r.a, &(struct wr){ .id = 3, .op = UROCE_WR_SEND, .flags = UROCE_SEND_SOLICITED, .inline_data = "c",
				    .inline_bytes = 1 });
	pair_settle(r.p);
	assert_int_equal(r.b->rcq.events, 1);
	assert_int_equal(atomic_load(&r.b->rcq.shared.arm), RING_ARM_NONE);
	rig_down(&r);
}

/** @return packet @p m with the last @p bytes of it in a second buffer, as NICs deliver frames for which a buffer was too small. */
static struct rte_mbuf *
split(struct rte_mbuf *m, uint16_t bytes)
{
	struct rte_mbuf *rest = rte_pktmbuf_alloc(pair_pool());

	assert_non_null(rest);
	memcpy(rte_pktmbuf_append(rest, bytes), rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len - bytes), bytes);
	assert_int_equal(rte_pktmbuf_trim(m, bytes), 0);
	memset(rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len), 0xee, bytes);
	assert_int_equal(rte_pktmbuf_chain(m, rest), 0);
	return m;
}

static void
packet_in_two_buffers_arrives(void **state)
{
	struct rte_mbuf *m;
	struct tp_txvec *v;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_4096 });
	rig_write(&r, 1, 0, 4096);
	host_turn(&r.p->h[0]);
	v = transport_tx(r.p->h[0].tp, 0);
	assert_int_equal(v->n, 1);
	m = split(v->pkts[0], 70);
	v->n = 0;
	assert_int_equal(transport_rx(r.p->h[1].tp, 0, &m, 1, false, r.p->now), 0);
	assert_int_equal(counters(&r, 1)->rx_multi_segment, 0);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 4096);
	rig_down(&r);
}

static void
packet_whose_rest_just_finds_room_arrives(void **state)
{
	struct rte_mbuf *m;
	struct tp_txvec *v;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_4096 });
	rig_write(&r, 1, 0, 4096);
	host_turn(&r.p->h[0]);
	v = transport_tx(r.p->h[0].tp, 0);
	m = split(v->pkts[0], 70);
	v->n = 0;
	/* What is behind the packet is padding. */
	m->next->data_len = rte_pktmbuf_tailroom(m);
	assert_int_equal(transport_rx(r.p->h[1].tp, 0, &m, 1, false, r.p->now), 0);
	assert_int_equal(counters(&r, 1)->rx_multi_segment, 0);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 4096);
	rig_down(&r);
}

static void
packet_whose_rest_finds_no_room_is_dropped(void **state)
{
	struct rte_mbuf *m;
	struct tp_txvec *v;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_4096 });
	rig_write(&r, 1, 0, 4096);
	host_turn(&r.p->h[0]);
	v = transport_tx(r.p->h[0].tp, 0);
	m = split(v->pkts[0], 70);
	v->n = 0;
	/* A byte more than there is room for. */
	m->next->data_len = (uint16_t)(rte_pktmbuf_tailroom(m) + 1);
	assert_int_equal(transport_rx(r.p->h[1].tp, 0, &m, 1, false, r.p->now), 0);
	assert_int_equal(counters(&r, 1)->rx_multi_segment, 1);
	/* It is lost: sent again, it arrives. */
	pair_advance(r.p, 70 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packet_in_two_buffers_arrives),
		cmocka_unit_test(packet_whose_rest_just_finds_room_arrives),
		cmocka_unit_test(packet_whose_rest_finds_no_room_is_dropped),
		cmocka_unit_test(write_lands_and_completes),
		cmocka_unit_test(send_fills_receive_in_order),
		cmocka_unit_test(write_with_imm_takes_a_receive_at_its_end),
		cmocka_unit_test(read_fetches),
		cmocka_unit_test(atomics_return_the_old_value),
		cmocka_unit_test(every_mtu_and_length_round_trips),
		cmocka_unit_test(sges_are_gathered_and_scattered),
		cmocka_unit_test(inline_data_needs_no_key),
		cmocka_unit_test(unsignaled_success_makes_no_cqe),
		cmocka_unit_test(sq_sig_all_signals_all),
		cmocka_unit_test(zero_length_write_and_read_ignore_the_key),
		cmocka_unit_test(fence_waits_for_reads),
		cmocka_unit_test(outstanding_reads_stay_below_max_rd_atomic),
		cmocka_unit_test(long_read_is_asked_for_in_pieces),
		cmocka_unit_test(one_ack_answers_a_burst),
		cmocka_unit_test(a_response_acknowledges_what_came_before_it),
		cmocka_unit_test(loopback_stays_inside),
		cmocka_unit_test(more_wqes_than_the_queue_holds_pass_through),
		cmocka_unit_test(armed_cq_raises_one_event),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
