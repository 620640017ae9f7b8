/* SPDX-License-Identifier: BSD-3-Clause */
/* Random packets with a good ICRC and random bytes in the rings: nothing crashes, hangs, or touches foreign memory. */
#include "rig.h"
#include "transport/core/types_priv.h"

enum { PACKETS = 30000, WQES = 20000, GUARD = 4096 };

static uint64_t seed;

static uint32_t
rnd(uint32_t below)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33) % below;
}

/* Opcodes that exist, PSNs and keys that nearly fit. */
static void
random_packet(struct rig *r, struct end *e, uint32_t psn)
{
	static const uint16_t lens[] = { 0, 4, 16, 28, 256, 260, 272, 1024, 1028, 1040, 2000 };
	static uint8_t after[4096];
	uint32_t len = lens[rnd(sizeof(lens) / sizeof(lens[0]))];
	struct wire_bth b = { .opcode = (uint8_t)rnd(0x20), .psn = (psn + rnd(5) - 2) & WIRE_PSN_MASK, .ackreq = rnd(2),
			      .pad = rnd(8) == 0 ? rnd(4) : 0, .solicited = rnd(2) };

	fill(after, sizeof(after), rnd(1u << 30));
	if (len >= 16)
		wire_put_reth(after, ADDR(r->bbuf) + GUARD + rnd(BUF), rnd(3) ? r->bmr->key : rnd(1000),
			      rnd(8) ? len - 16 : rnd(99999));
	if (len >= 4 && rnd(2))
		wire_put_aeth(after, (uint8_t)(rnd(2) ? 0x1f : rnd(256)), rnd(100));
	pair_inject(r->p, e, &b, after, len);
}

static void
revive(struct rig *r, struct end *a, struct end *b)
{
	struct ring_cqe e;

	if (qp_state(a->qp) == UROCE_QPS_RTS && qp_state(b->qp) == UROCE_QPS_RTS)
		return;
	pair_settle(r->p);
	while (cq_poll(&a->scq, &e, NULL) || cq_poll(&a->rcq, &e, NULL) || cq_poll(&b->scq, &e, NULL) ||
	       cq_poll(&b->rcq, &e, NULL))
		;
	assert_int_equal(end_state(a, UROCE_QPS_RESET), 0);
	assert_int_equal(end_state(b, UROCE_QPS_RESET), 0);
	ends_connect(a, b, NULL);
	r->p->h[0].nb_events = r->p->h[1].nb_events = 0;
}

static void
random_packets_do_no_harm(void **state)
{
	struct uroce_qp_attr q;
	struct mr *window;
	struct rig r;

	seed = 11;
	rig_up(&r, NULL, NULL);
	/* Peers may write the middle of the buffer only. */
	window = host_mr(&r.p->h[1], r.bbuf + GUARD, BUF - 2 * GUARD, ACCESS_ALL);
	mr_destroy(r.p->h[1].sh.mrs, r.bmr);
	r.bmr = window;
	for (uint32_t i = 0; i < PACKETS; i++) {
		if (rnd(4) == 0)
			end_recv(r.b, i, SGE(r.bbuf + GUARD, 2000, r.bmr), 1);
		if (rnd(8) == 0)
			rig_write(&r, i, GUARD, rnd(3000));
		if (rnd(8) == 0)
			rig_read(&r, i, GUARD, rnd(3000));
		qp_query(r.b->qp, &q);
		random_packet(&r, r.b, q.rq_psn);
		qp_query(r.a->qp, &q);
		random_packet(&r, r.a, q.sq_psn);
		pair_settle(r.p);
		revive(&r, r.a, r.b);
	}
	for (uint32_t i = 0; i < GUARD; i++) {
		assert_int_equal(r.bbuf[i], 0);
		assert_int_equal(r.bbuf[BUF - 1 - i], 0);
	}
	rig_down(&r);
}

static void
random_rings_do_no_harm(void **state)
{
	struct rig r;
	struct ring_cqe e;
	uint8_t *guard = calloc(1, BUF);

	seed = 12;
	rig_up(&r, NULL, NULL);
	memcpy(guard, r.bbuf, BUF);
	for (uint32_t i = 0; i < WQES; i++) {
		struct ring_sq_wqe *w = ring_slot(&r.a->sq, r.a->sq.counter);
		struct ring_rq_wqe *rw = ring_slot(&r.a->rq, r.a->rq.counter);
		union ring_sq_ctl ctl;
		union ring_rq_ctl rctl;

		fill((uint8_t *)w, (size_t)1 << r.a->sq.shift, rnd(1u << 30));
		fill((uint8_t *)rw, (size_t)1 << r.a->rq.shift, rnd(1u << 30));
		ctl.word = w->ctl;
		ctl.opcode &= rnd(2) ? 7 : 255;
		if (rnd(2))
			ctl.count &= 3;
		ring_sq_post(&r.a->sq, r.a->sq.counter++, w, ctl);
		rctl.word = rw->ctl;
		rctl.phase = ring_phase(r.a->rq.counter++, r.a->rq.order);
		atomic_store(&rw->ctl, rctl.word);
		qp_doorbell(r.p->h[0].tp, r.a->qp);
		end_send(r.b, &(struct wr){ .id = i, .op = UROCE_WR_SEND, .inline_data = &i, .inline_bytes = 4 });
		/* The client writes where it shouldn't, too. */
		atomic_store(&r.a->shared.sq_watch, rnd(3));
		atomic_store(&r.a->shared.state, rnd(99));
		pair_settle(r.p);
		revive(&r, r.a, r.b);
		while (cq_poll(&r.a->scq, &e, NULL) || cq_poll(&r.a->rcq, &e, NULL))
			;
	}
	/* No key that it can have guessed reaches the peer's memory. */
	assert_memory_equal(guard, r.bbuf, BUF);
	free(guard);
	rig_down(&r);
}

/* A peer may send on and on: byte_len has 32 bits. */
static void
no_message_is_longer_than_the_longest(void **state)
{
	uint8_t payload[1024] = { 0 };
	struct ring_sge sge[2];
	struct rig r;

	rig_up(&r, NULL, NULL);
	for (int i = 0; i < 2; i++)
		sge[i] = (struct ring_sge){ .addr = ADDR(r.bbuf), .length = UINT32_C(1) << 31, .lkey = r.bmr->key };
	end_recv(r.b, 1, sge, 2);
	pair_inject(r.p, r.b, &(struct wire_bth){ .opcode = WIRE_OP_SEND_FIRST, .psn = r.b->qp->rcv.epsn, .migreq = true }, payload,
		    sizeof(payload));
	assert_int_equal(r.b->qp->rcv.rwqe.room, UROCE_MAX_MSG_BYTES - sizeof(payload));
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_packets_do_no_harm),
		cmocka_unit_test(random_rings_do_no_harm),
		cmocka_unit_test(no_message_is_longer_than_the_longest),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
