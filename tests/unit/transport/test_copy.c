/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that isn't mapped: nothing happens before its copy is made, everything in order when it is, and nobody else waits. */
#include <sys/mman.h>

#include "copy_rig.h"
#include "transport/core/types_priv.h"

enum { MTU = 1024, LONG = 40 * MTU, ALL = 1000, DEADLINE_MS = 2000, PAGE = 4096 };

static const struct conn_opts plain = { .mtu = UROCE_MTU_1024 };

static const struct tp_counters *
counted(const struct rig *r, unsigned int host)
{
	return transport_counters(r->p->h[host].tp);
}

static void
read_back(struct rig *r, uint64_t id, uint32_t len)
{
	end_send(r->a, &(struct wr){ .id = id, .op = UROCE_WR_RDMA_READ, .sge = SGE(r->abuf, len, r->amr), .nb_sge = 1,
				     .remote_addr = (uintptr_t)r->bbuf, .rkey = r->bmr->key });
	pair_settle(r->p);
}

static void
add(struct rig *r, uint64_t id, uint64_t n)
{
	end_send(r->a, &(struct wr){ .id = id, .op = UROCE_WR_ATOMIC_FETCH_AND_ADD, .sge = SGE(r->abuf, 8, r->amr), .nb_sge = 1,
				     .remote_addr = (uintptr_t)r->bbuf, .rkey = r->bmr->key, .compare_add = n });
	pair_settle(r->p);
}

static void
a_send_waits_until_its_bytes_are_there(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	rig_write(&r, 1, 0, LONG);
	pair_settle(r.p);
	assert_int_equal(r.p->nb_log, 0);
	assert_int_equal(r.p->h[0].nb_copies, 1);
	assert_int_equal(host_copy(&r.p->h[0], 1), 1);
	/* One copy serves as many packets as it holds. */
	assert_true(pair_count(r.p, 0, -1) > 30);
	rig_down(&r);
}

static void
a_write_is_acknowledged_when_it_is_in_memory(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	host_copy(&r.p->h[0], 1);
	assert_int_equal(pair_count(r.p, 0, WIRE_RC | WIRE_OP_WRITE_ONLY), 1);
	expect_no_cqe(&r.a->scq);
	assert_int_equal(pair_count(r.p, 1, -1), 0);
	host_copy(&r.p->h[1], 1);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 100);
	assert_int_equal(counted(&r, 1)->rx_write_requests, 1);
	rig_down(&r);
}

static void
packets_behind_one_that_waits_are_executed_after_it(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	for (uint32_t i = 0; i < 3; i++) {
		end_recv(r.b, i, SGE(r.bbuf + i * LONG, LONG, r.bmr), 1);
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .sge = SGE(r.abuf + i * LONG, LONG, r.amr), .nb_sge = 1 });
	}
	pair_settle(r.p);
	while (host_copy(&r.p->h[0], 1) + host_copy(&r.p->h[1], 1) != 0)
		;
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(expect_cqe(&r.b->rcq, i, UROCE_WC_SUCCESS).byte_len, LONG);
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	}
	assert_memory_equal(r.abuf, r.bbuf, 3 * LONG);
	assert_true(counted(&r, 1)->rx_copy_held > 0);
	assert_int_equal(counted(&r, 1)->rx_copy_dropped, 0);
	assert_int_equal(counted(&r, 0)->retransmitted_packets, 0);
	rig_down(&r);
}

static void
a_read_of_remote_memory_into_remote_memory(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	fill(r.bbuf, LONG, 7);
	read_back(&r, 1, LONG);
	assert_int_equal(pair_count(r.p, 1, -1), 0);
	while (host_copy(&r.p->h[1], 1) + host_copy(&r.p->h[0], 1) != 0)
		;
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, LONG);
	rig_down(&r);
}

static void
an_atomic_is_executed_once_whatever_arrives_meanwhile(void **state)
{
	uint64_t was;
	struct rig r;

	remote_up(&r, &(struct conn_opts){ .mtu = UROCE_MTU_1024, .rd_atomic = 4 });
	r.p->duplicate = true;
	memset(r.bbuf, 0, 8);
	add(&r, 1, 5);
	add(&r, 2, 6);
	/* The requester sends them again, too. */
	pair_advance(r.p, 300 * (uint64_t)PAIR_MS);
	while (host_copy(&r.p->h[1], 1) + host_copy(&r.p->h[0], 1) != 0)
		;
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	memcpy(&was, r.abuf, sizeof(was));
	assert_int_equal(was, 5);
	memcpy(&was, r.bbuf, sizeof(was));
	assert_int_equal(was, 11);
	rig_down(&r);
}

static void
a_response_that_waits_is_not_taken_for_lost(void **state)
{
	struct rig r;

	remote_up(&r, &(struct conn_opts){ .mtu = UROCE_MTU_1024, .retry_cnt = 1 });
	read_back(&r, 1, 100);
	host_copy(&r.p->h[1], 1);
	assert_int_equal(r.p->h[0].nb_copies, 1);
	/* Many times the ACK timeout. */
	pair_advance(r.p, 1500 * (uint64_t)PAIR_MS);
	assert_int_equal(counted(&r, 0)->local_ack_timeout_err, 0);
	host_copy(&r.p->h[0], 1);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
memory_that_never_comes_ends_the_qp_of_its_program(void **state)
{
	struct rig r;

	remote_up(&r, &(struct conn_opts){ .mtu = UROCE_MTU_1024, .timeout = 18 });
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	host_copy(&r.p->h[0], 1);
	assert_int_equal(r.p->h[1].nb_copies, 1);
	pair_advance(r.p, (DEADLINE_MS - 1) * (uint64_t)PAIR_MS);
	assert_int_equal(qp_state(r.b->qp), UROCE_QPS_RTS);
	pair_advance(r.p, 2 * (uint64_t)PAIR_MS);
	assert_int_equal(qp_state(r.b->qp), UROCE_QPS_ERR);
	assert_int_equal(counted(&r, 1)->copy_timeouts, 1);
	expect_cqe(&r.a->scq, 1, UROCE_WC_REM_ACCESS_ERR);
	/* It comes back in the end; it had not begun, and does nothing. */
	assert_int_equal(host_copy(&r.p->h[1], 1), 1);
	assert_int_equal(r.bbuf[0], 0);
	assert_int_equal(transport_copies(r.p->h[1].tp), 0);
	rig_down(&r);
}

static void
bytes_to_send_that_never_come_fail_the_send(void **state)
{
	union ring_cqe_ctl ctl;
	struct ring_cqe e;
	struct rig r;

	remote_up(&r, &plain);
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	pair_advance(r.p, (DEADLINE_MS + 1) * (uint64_t)PAIR_MS);
	assert_true(cq_poll(&r.a->scq, &e, &ctl));
	assert_int_equal(e.status, UROCE_WC_LOC_PROT_ERR);
	assert_int_equal(ctl.vendor_err, TP_VERR_COPY_LATE);
	assert_int_equal(host_copy(&r.p->h[0], ALL), 1);
	rig_down(&r);
}

static void
a_receive_whose_memory_never_comes_fails(void **state)
{
	union ring_cqe_ctl ctl;
	struct ring_cqe e;
	struct rig r;

	remote_up(&r, &(struct conn_opts){ .mtu = UROCE_MTU_1024, .timeout = 18 });
	end_recv(r.b, 9, SGE(r.bbuf, 100, r.bmr), 1);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .sge = SGE(r.abuf, 100, r.amr), .nb_sge = 1 });
	pair_settle(r.p);
	host_copy(&r.p->h[0], 1);
	pair_advance(r.p, (DEADLINE_MS + 1) * (uint64_t)PAIR_MS);
	assert_true(cq_poll(&r.b->rcq, &e, &ctl));
	assert_int_equal(e.status, UROCE_WC_LOC_PROT_ERR);
	assert_int_equal(ctl.vendor_err, TP_VERR_COPY_LATE);
	expect_cqe(&r.a->scq, 1, UROCE_WC_REM_OP_ERR);
	host_copy(&r.p->h[1], ALL);
	rig_down(&r);
}

static void
a_receive_is_flushed_when_the_copy_into_it_has_ended(void **state)
{
	struct mem_job *job;
	struct rig r;

	remote_up(&r, &plain);
	end_recv(r.b, 9, SGE(r.bbuf, 100, r.bmr), 1);
	end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_SEND, .sge = SGE(r.abuf, 100, r.amr), .nb_sge = 1 });
	pair_settle(r.p);
	host_copy(&r.p->h[0], 1);
	job = r.p->h[1].copies[0];
	assert_true(mem_job_begin(job));
	assert_int_equal(end_state(r.b, UROCE_QPS_ERR), 0);
	pair_settle(r.p);
	expect_no_cqe(&r.b->rcq);
	job->rc = 0;
	r.p->h[1].nb_copies = 0;
	transport_copied(r.p->h[1].tp, job, r.p->now);
	pair_settle(r.p);
	expect_cqe(&r.b->rcq, 9, UROCE_WC_WR_FLUSH_ERR);
	rig_down(&r);
}

static void
a_qp_is_destroyed_while_its_copies_are_made(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	rig_write(&r, 1, 0, LONG);
	rig_write(&r, 2, 0, LONG);
	pair_settle(r.p);
	host_copy(&r.p->h[0], 1);
	assert_int_equal(end_state(r.b, UROCE_QPS_RESET), 0);
	assert_int_equal(end_state(r.a, UROCE_QPS_RESET), 0);
	assert_true(transport_copies(r.p->h[0].tp) + transport_copies(r.p->h[1].tp) > 0);
	host_copy(&r.p->h[0], ALL);
	host_copy(&r.p->h[1], ALL);
	assert_int_equal(transport_copies(r.p->h[0].tp) + transport_copies(r.p->h[1].tp), 0);
	assert_int_equal(r.bbuf[0], 0);
	rig_down(&r);
}

static void
a_session_s_share_ends_with_its_last_copy(void **state)
{
	struct end_opts o = { 0 };
	struct transport *tp;
	struct rig r;

	remote_up(&r, &plain);
	tp = r.p->h[0].tp;
	assert_int_equal(share_create(tp, &(struct share_params){ 0 }, &o.share), 0);
	end_free(r.a);
	r.a = end_new(&r.p->h[0], &o);
	assert_int_equal(end_state(r.b, UROCE_QPS_RESET), 0);
	ends_connect(r.a, r.b, &plain);
	rig_write(&r, 1, 0, LONG);
	pair_settle(r.p);
	assert_int_equal(transport_copies(tp), 1);
	end_free(r.a);
	share_destroy(tp, o.share);
	assert_int_equal(tp->nb_shares, 1);
	host_copy(&r.p->h[0], ALL);
	assert_int_equal(tp->nb_shares, 0);
	assert_int_equal(pool_left(&tp->copy_jobs), TP_COPY_JOBS);
	r.a = end_new(&r.p->h[0], &(struct end_opts){ 0 });
	rig_down(&r);
}

static void
a_packet_for_whose_copy_there_is_no_room_waits(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	r.p->h[1].no_copies = true;
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	host_copy(&r.p->h[0], 1);
	pair_advance(r.p, PAIR_MS);
	assert_true(counted(&r, 1)->copy_no_room > 1);
	expect_no_cqe(&r.a->scq);
	r.p->h[1].no_copies = false;
	pair_advance(r.p, PAIR_MS);
	assert_int_equal(host_copy(&r.p->h[1], 1), 1);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(counted(&r, 0)->retransmitted_packets, 0);
	rig_down(&r);
}

/* Leave the host one copy. @return the others, the caller's to give back. */
static unsigned int
one_copy_is_left(struct transport *tp, void **others)
{
	unsigned int n = 0;

	while (pool_left(&tp->copy_jobs) > 1)
		others[n++] = pool_get(&tp->copy_jobs);
	return n;
}

/* The only copy is held by sends that wait for an ACK; their QP also receives. */
static void
a_copy_of_sends_is_taken_back_for_what_is_received(void **state)
{
	static void *others[TP_COPY_JOBS];
	struct loss acks = { .from = 1, .opcode = WIRE_RC | WIRE_OP_ACK, .count = UINT32_MAX };
	struct transport *tp;
	struct rig r;
	unsigned int n;

	remote_up(&r, &plain);
	tp = r.p->h[0].tp;
	n = one_copy_is_left(tp, others);
	r.p->lose = lose;
	r.p->lose_arg = &acks;
	rig_write(&r, 1, 0, LONG);
	pair_settle(r.p);
	assert_int_equal(host_copy(&r.p->h[0], 1), 1);
	while (host_copy(&r.p->h[1], 1) != 0)
		;
	assert_int_equal(pool_left(&tp->copy_jobs), 0);
	end_send(r.b, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.bbuf + LONG, MTU, r.bmr), .nb_sge = 1,
				    .remote_addr = ADDR(r.abuf) + LONG, .rkey = r.amr->key });
	pair_settle(r.p);
	assert_int_equal(host_copy(&r.p->h[1], 1), 1);
	assert_int_equal(host_copy(&r.p->h[0], 1), 1);
	assert_memory_equal(r.abuf + LONG, r.bbuf + LONG, MTU);
	assert_int_equal(counted(&r, 0)->copy_taken_back, 1);
	/* What is sent once more is fetched once more. */
	acks.count = 0;
	for (unsigned int i = 0; i < ALL && counted(&r, 0)->copies < 3; i++)
		pair_advance(r.p, PAIR_MS);
	while (host_copy(&r.p->h[0], 1) + host_copy(&r.p->h[1], 1) != 0)
		;
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.b->scq, 2, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, LONG);
	while (n-- > 0)
		pool_put(&tp->copy_jobs, others[n]);
	rig_down(&r);
}

/* Two QPs with one copy between them, which each needs several times for the READ that it answers. */
static void
qps_that_take_copies_from_each_other_go_on(void **state)
{
	static void *others[TP_COPY_JOBS];
	enum { MESSAGE = BUF / 2 };
	struct end *a, *b;
	struct transport *tp;
	struct rig r;
	unsigned int n, i = 0;

	remote_up(&r, &plain);
	tp = r.p->h[0].tp;
	a = end_new(&r.p->h[0], &(struct end_opts){ 0 });
	b = end_new(&r.p->h[1], &(struct end_opts){ 0 });
	ends_connect(a, b, &plain);
	n = one_copy_is_left(tp, others);
	end_send(r.b, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_READ, .sge = SGE(r.bbuf, MESSAGE, r.bmr), .nb_sge = 1,
				    .remote_addr = ADDR(r.abuf), .rkey = r.amr->key });
	end_send(b, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_READ, .sge = SGE(r.bbuf + MESSAGE, MESSAGE, r.bmr), .nb_sge = 1,
				  .remote_addr = ADDR(r.abuf) + MESSAGE, .rkey = r.amr->key });
	pair_settle(r.p);
	while (memcmp(r.abuf, r.bbuf, BUF) != 0) {
		assert_true(i++ < ALL);
		if (host_copy(&r.p->h[0], 1) + host_copy(&r.p->h[1], 1) == 0)
			pair_advance(r.p, PAIR_MS);
	}
	pair_advance(r.p, PAIR_MS);
	expect_cqe(&r.b->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&b->scq, 2, UROCE_WC_SUCCESS);
	assert_true(counted(&r, 0)->copy_taken_back > 0);
	while (n-- > 0)
		pool_put(&tp->copy_jobs, others[n]);
	end_free(a);
	end_free(b);
	rig_down(&r);
}

static void
what_waits_behind_a_packet_is_written_by_the_same_copy(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	rig_write(&r, 1, 0, LONG);
	pair_settle(r.p);
	host_copy(&r.p->h[0], 1);
	/* The first copy has what came in its turn, the second all that came while it was made. */
	assert_true(host_copy(&r.p->h[1], 2) > 0);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, LONG);
	assert_true(counted(&r, 1)->copies <= 2);
	rig_down(&r);
}

static void
small_messages_share_copies(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	for (uint32_t i = 0; i < 16; i++) {
		end_recv(r.b, i, SGE(r.bbuf + i * 200, 100, r.bmr), 1);
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .sge = SGE(r.abuf + i * 200, 100, r.amr), .nb_sge = 1 });
	}
	pair_settle(r.p);
	while (host_copy(&r.p->h[0], 1) + host_copy(&r.p->h[1], 1) != 0)
		;
	for (uint32_t i = 0; i < 16; i++) {
		expect_cqe(&r.b->rcq, i, UROCE_WC_SUCCESS);
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
		assert_memory_equal(r.abuf + i * 200, r.bbuf + i * 200, 100);
	}
	assert_true(counted(&r, 0)->copies <= 4);
	assert_true(counted(&r, 1)->copies <= 4);
	rig_down(&r);
}

/* The later message stays, though both are for the same bytes and are copied together. */
static void
messages_for_the_same_bytes_are_copied_in_order(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	for (uint32_t i = 0; i < 8; i++)
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.abuf + i * 100, 100, r.amr), .nb_sge = 1,
					    .remote_addr = ADDR(r.bbuf), .rkey = r.bmr->key });
	pair_settle(r.p);
	while (host_copy(&r.p->h[0], 1) + host_copy(&r.p->h[1], 1) != 0)
		;
	for (uint32_t i = 0; i < 8; i++)
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf + 700, r.bbuf, 100);
	rig_down(&r);
}

static void
a_copy_that_fails_fails_the_message_whose_memory_is_missing(void **state)
{
	uint8_t *hole = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mem_seg seg = { .va = ADDR(hole), .length = 3 * PAGE };
	const struct mr_params mp = { .pd = PAIR_PD, .access = ACCESS_ALL, .addr = ADDR(hole), .length = 3 * PAGE, .iova = ADDR(hole),
				      .segs = &seg, .nb_segs = 1, .owner = &self };
	struct rig r;

	remote_up(&r, &plain);
	mr_destroy(r.p->h[1].sh.mrs, r.bmr);
	assert_int_equal(mr_create(r.p->h[1].sh.mrs, &mp, &r.bmr), 0);
	munmap(hole + PAGE, PAGE);
	for (uint32_t i = 0; i < 3; i++)
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.abuf, 100, r.amr), .nb_sge = 1,
					    .remote_addr = ADDR(hole) + i * PAGE, .rkey = r.bmr->key });
	pair_settle(r.p);
	while (host_copy(&r.p->h[0], 1) + host_copy(&r.p->h[1], 1) != 0)
		;
	expect_cqe(&r.a->scq, 0, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_REM_ACCESS_ERR);
	expect_cqe(&r.a->scq, 2, UROCE_WC_WR_FLUSH_ERR);
	assert_memory_equal(hole, r.abuf, 100);
	assert_int_equal(hole[2 * PAGE], 0);
	mr_destroy(r.p->h[1].sh.mrs, r.bmr);
	r.bmr = NULL;
	munmap(hole, PAGE);
	munmap(hole + 2 * PAGE, PAGE);
	rig_down(&r);
}

/* The bytes of several messages are fetched together; those of the second one and the third are side by side. */
static void
a_fetch_that_fails_fails_the_send_whose_memory_is_missing(void **state)
{
	uint8_t *hole = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mem_seg seg = { .va = ADDR(hole), .length = 3 * PAGE };
	const struct mr_params mp = { .pd = PAIR_PD, .access = ACCESS_ALL, .addr = ADDR(hole), .length = 3 * PAGE, .iova = ADDR(hole),
				      .segs = &seg, .nb_segs = 1, .owner = &self };
	const uint64_t from[] = { ADDR(hole) + 2 * PAGE, ADDR(hole), ADDR(hole) + 1000, ADDR(hole) + 2 * PAGE };
	const uint32_t length[] = { 100, 1000, 2 * PAGE - 1000, 100 };
	struct rig r;

	remote_up(&r, &plain);
	mr_destroy(r.p->h[0].sh.mrs, r.amr);
	assert_int_equal(mr_create(r.p->h[0].sh.mrs, &mp, &r.amr), 0);
	fill(hole, 3 * PAGE, 5);
	munmap(hole + PAGE, PAGE);
	for (uint32_t i = 0; i < 4; i++)
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_RDMA_WRITE, .nb_sge = 1,
					    .sge = &(struct ring_sge){ from[i], length[i], r.amr->key },
					    .remote_addr = ADDR(r.bbuf) + i * PAGE, .rkey = r.bmr->key });
	pair_settle(r.p);
	while (host_copy(&r.p->h[0], 1) + host_copy(&r.p->h[1], 1) != 0)
		;
	expect_cqe(&r.a->scq, 0, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_LOC_PROT_ERR);
	expect_cqe(&r.a->scq, 3, UROCE_WC_WR_FLUSH_ERR);
	assert_memory_equal(r.bbuf, hole + 2 * PAGE, 100);
	assert_memory_equal(r.bbuf + PAGE, hole, 1000);
	rig_down(&r);
	munmap(hole, PAGE);
	munmap(hole + 2 * PAGE, PAGE);
}

/* In one packet, with bytes to be fetched before and behind them. */
static void
pieces_that_need_no_copy_are_in_the_same_packet(void **state)
{
	const struct mr_params null = { .pd = PAIR_PD, .access = UROCE_ACCESS_LOCAL_WRITE, .null = true };
	uint8_t mapped[50], expected[250];
	const struct mem_seg seg = { .va = ADDR(mapped), .length = sizeof(mapped), .host = mapped };
	const struct mr_params mp = { .pd = PAIR_PD, .access = ACCESS_ALL, .addr = ADDR(mapped), .length = sizeof(mapped),
				      .iova = ADDR(mapped), .segs = &seg, .nb_segs = 1 };

	for (int i = 0; i < 2; i++) {
		struct ring_sge sge[3];
		struct mr *middle;
		struct rig r;

		remote_up(&r, &plain);
		assert_int_equal(mr_create(r.p->h[0].sh.mrs, i == 0 ? &null : &mp, &middle), 0);
		sge[0] = (struct ring_sge){ .addr = ADDR(r.abuf), .length = 100, .lkey = r.amr->key };
		sge[1] = (struct ring_sge){ .addr = ADDR(mapped), .length = sizeof(mapped), .lkey = middle->key };
		sge[2] = (struct ring_sge){ .addr = ADDR(r.abuf) + 100, .length = 100, .lkey = r.amr->key };
		memset(mapped, 0x77, sizeof(mapped));
		memcpy(expected, r.abuf, 100);
		memset(expected + 100, i == 0 ? 0 : 0x77, sizeof(mapped));
		memcpy(expected + 150, r.abuf + 100, 100);
		end_send(r.a, &(struct wr){ .id = 1, .op = UROCE_WR_RDMA_WRITE, .sge = sge, .nb_sge = 3, .remote_addr = ADDR(r.bbuf),
					    .rkey = r.bmr->key });
		pair_settle(r.p);
		assert_int_equal(host_copy(&r.p->h[0], 1), 1);
		assert_int_equal(host_copy(&r.p->h[0], 1), 0);
		while (host_copy(&r.p->h[1], 1) != 0)
			;
		expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
		assert_memory_equal(r.bbuf, expected, sizeof(expected));
		mr_destroy(r.p->h[0].sh.mrs, middle);
		rig_down(&r);
	}
}

/* The READ's result may be what it is to send. */
static void
bytes_behind_a_fence_are_not_fetched_early(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	rig_write(&r, 1, 0, 100);
	end_send(r.a, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.abuf + 200, 100, r.amr), .nb_sge = 1,
				    .remote_addr = ADDR(r.bbuf) + 200, .rkey = r.bmr->key, .flags = UROCE_SEND_FENCE });
	pair_settle(r.p);
	assert_int_equal(r.p->h[0].copies[0]->length, 100);
	while (host_copy(&r.p->h[0], 1) + host_copy(&r.p->h[1], 1) != 0)
		;
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_down(&r);
}

static void
a_key_that_has_gone_meanwhile_is_refused(void **state)
{
	struct rig r;

	remote_up(&r, &plain);
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	host_copy(&r.p->h[0], 1);
	mr_destroy(r.p->h[1].sh.mrs, r.bmr);
	r.bmr = NULL;
	host_copy(&r.p->h[1], 1);
	expect_cqe(&r.a->scq, 1, UROCE_WC_REM_ACCESS_ERR);
	rig_down(&r);
}

/* A key may become that of a shorter region while a READ of it is being answered. */
static void
nothing_behind_a_region_is_fetched_for_a_read(void **state)
{
	struct tp_txvec *v;
	struct rig r;

	remote_up(&r, &plain);
	rig_read(&r, 1, 0, LONG);
	host_turn(&r.p->h[0]);
	v = transport_tx(r.p->h[0].tp, 0);
	assert_int_equal(transport_rx(r.p->h[1].tp, 0, v->pkts, v->n, false, r.p->now), 0);
	v->n = 0;
	r.bmr->length = 3 * MTU;
	pair_settle(r.p);
	assert_int_equal(r.p->h[1].nb_copies, 1);
	assert_int_equal(r.p->h[1].copies[0]->length, 3 * MTU);
	while (host_copy(&r.p->h[1], 1) + host_copy(&r.p->h[0], 1) != 0)
		;
	expect_cqe(&r.a->scq, 1, UROCE_WC_REM_ACCESS_ERR);
	rig_down(&r);
}

/* A QP that may have two READs outstanding has answered two; the next one takes the place of the first. */
static void
a_read_that_was_answered_is_not_fetched_again(void **state)
{
	struct rig r;

	remote_up(&r, &(struct conn_opts){ .mtu = UROCE_MTU_1024, .rd_atomic = 2, .dest_rd_atomic = 2 });
	for (uint32_t i = 0; i < 3; i++) {
		rig_read(&r, i, i * MTU, 100 + i);
		pair_settle(r.p);
		assert_int_equal(r.p->h[1].nb_copies, 1);
		assert_int_equal(r.p->h[1].copies[0]->length, 100 + i);
		while (host_copy(&r.p->h[1], 1) + host_copy(&r.p->h[0], 1) != 0)
			;
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	}
	rig_down(&r);
}

/* As UCX sends: a header of its own, and the program's bytes behind it. */
static void
a_packet_of_mapped_and_other_memory_is_fetched_at_once(void **state)
{
	enum { PART = 100, PARTS = 4, MESSAGE = PART * PARTS, MESSAGES = 3 };
	static uint8_t mapped[BUF];
	struct rig r;
	struct mr *mr;

	remote_up(&r, &plain);
	mr = host_mr(&r.p->h[0], mapped, BUF, ACCESS_ALL);
	fill(mapped, BUF, 3);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		struct ring_sge sge[PARTS];

		for (uint32_t k = 0; k < PARTS; k++)
			sge[k] = k % 2 == 0 ? *SGE(mapped + i * MESSAGE + k * PART, PART, mr) : *SGE(r.abuf + i * MESSAGE + k * PART, PART, r.amr);
		end_recv(r.b, i, SGE(r.bbuf + i * MESSAGE, MESSAGE, r.bmr), 1);
		end_send(r.a, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .sge = sge, .nb_sge = PARTS });
	}
	pair_settle(r.p);
	while (host_copy(&r.p->h[0], 1) + host_copy(&r.p->h[1], 1) != 0)
		;
	for (uint32_t i = 0; i < MESSAGES; i++) {
		assert_int_equal(expect_cqe(&r.b->rcq, i, UROCE_WC_SUCCESS).byte_len, MESSAGE);
		expect_cqe(&r.a->scq, i, UROCE_WC_SUCCESS);
	}
	for (uint32_t k = 0; k < MESSAGES * PARTS; k++)
		assert_memory_equal(r.bbuf + k * PART, (k % 2 == 0 ? mapped : r.abuf) + k * PART, PART);
	assert_true(counted(&r, 0)->copies <= MESSAGES);
	mr_destroy(r.p->h[0].sh.mrs, mr);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_send_waits_until_its_bytes_are_there),
		cmocka_unit_test(a_write_is_acknowledged_when_it_is_in_memory),
		cmocka_unit_test(packets_behind_one_that_waits_are_executed_after_it),
		cmocka_unit_test(a_read_of_remote_memory_into_remote_memory),
		cmocka_unit_test(an_atomic_is_executed_once_whatever_arrives_meanwhile),
		cmocka_unit_test(a_response_that_waits_is_not_taken_for_lost),
		cmocka_unit_test(memory_that_never_comes_ends_the_qp_of_its_program),
		cmocka_unit_test(bytes_to_send_that_never_come_fail_the_send),
		cmocka_unit_test(a_receive_whose_memory_never_comes_fails),
		cmocka_unit_test(a_receive_is_flushed_when_the_copy_into_it_has_ended),
		cmocka_unit_test(a_qp_is_destroyed_while_its_copies_are_made),
		cmocka_unit_test(a_session_s_share_ends_with_its_last_copy),
		cmocka_unit_test(a_packet_for_whose_copy_there_is_no_room_waits),
		cmocka_unit_test(a_copy_of_sends_is_taken_back_for_what_is_received),
		cmocka_unit_test(qps_that_take_copies_from_each_other_go_on),
		cmocka_unit_test(what_waits_behind_a_packet_is_written_by_the_same_copy),
		cmocka_unit_test(small_messages_share_copies),
		cmocka_unit_test(messages_for_the_same_bytes_are_copied_in_order),
		cmocka_unit_test(a_copy_that_fails_fails_the_message_whose_memory_is_missing),
		cmocka_unit_test(a_fetch_that_fails_fails_the_send_whose_memory_is_missing),
		cmocka_unit_test(pieces_that_need_no_copy_are_in_the_same_packet),
		cmocka_unit_test(bytes_behind_a_fence_are_not_fetched_early),
		cmocka_unit_test(a_key_that_has_gone_meanwhile_is_refused),
		cmocka_unit_test(nothing_behind_a_region_is_fetched_for_a_read),
		cmocka_unit_test(a_read_that_was_answered_is_not_fetched_again),
		cmocka_unit_test(a_packet_of_mapped_and_other_memory_is_fetched_at_once),
	};

	return cmocka_run_group_tests(tests, open_memory, close_memory);
}
