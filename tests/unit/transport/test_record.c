/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of QPs: an end goes on from its record as if nothing had happened, each field of a record survives, and what is wrong in one is refused
 * by its name.
 */
#include "record_rig.h"
#include "transport/path/changes.h"

enum { FUZZ_ROUNDS = 4000, NEW_RES = 8 };

static uint64_t memory[2][ROOM / 8];

/* ---- What goes on ---- */
/* Both ends are replaced after every packet or two of messages in both directions: all arrives, once. */
static void
messages_go_on(void **state)
{
	enum { BYTES = 40000 };
	struct rig r;
	uint32_t turns = 0;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_1024, .psn = 0xfffff0 });
	end_recv(r.b, 7, SGE(r.bbuf + 2 * BYTES, BYTES, r.bmr), 1);
	rig_write(&r, 1, 0, BYTES);
	rig_send(&r, 2, 2 * BYTES, BYTES);
	rig_fetch_add(&r, 3, 8 * BYTES, 5);
	for (uint64_t i = 0; i < 4000 && r.a->scq.ring.counter < 1; i++, turns++) {
		union ring_cqe_ctl ctl;

		pair_advance(r.p, 50 * PAIR_US);
		replace(i & 1 ? r.a : r.b, memory[0]);
		if (ring_cq_ready(&r.a->scq.ring, 2, &ctl))
			break;
	}
	pair_advance(r.p, 500 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	expect_no_cqe(&r.a->scq);
	assert_int_equal(expect_cqe(&r.b->rcq, 7, UROCE_WC_SUCCESS).byte_len, BYTES);
	expect_no_cqe(&r.b->rcq);
	assert_memory_equal(r.bbuf + 8, r.abuf + 8, BYTES - 8);
	assert_memory_equal(r.bbuf + 2 * BYTES, r.abuf + 2 * BYTES, BYTES);
	rig_down(&r);
}

/* The new daemon's port may have another MTU. */
static void
the_mtu_of_the_new_port_counts(void **state)
{
	struct end *ud;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_1024 });
	ud = end_new(&r.p->h[0], &(struct end_opts){ .type = UROCE_QPT_UD, .max_mtu = UROCE_MTU_256 });
	ud_to_rts(ud, 1);
	transport_set_mtu(r.p->h[0].tp, 0, 1000, 9);
	replace(r.a, memory[0]);
	assert_int_equal(r.a->qp->path.detour, DETOUR_MTU);
	replace(ud, memory[0]);
	assert_int_equal(ud->qp->path.detour, 0);
	assert_int_equal(ud->qp->path.mtu_shift, 9);
	transport_set_mtu(r.p->h[0].tp, 0, 1500, 10);
	replace(r.a, memory[0]);
	assert_int_equal(r.a->qp->path.detour, 0);
	end_free(ud);
	rig_down(&r);
}

/* No CNP comes earlier after one that was sent just before. */
static void
the_next_cnp_waits_as_long(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	r.b->qp->rcv.cnp_next_ns = r.p->now + 20000;
	replace(r.b, memory[0]);
	assert_int_equal(r.b->qp->rcv.cnp_next_ns, r.p->now + 20000);
	rig_down(&r);
}

/* The answer of an atomic is lost, both ends are replaced: the peer's copy of the result is what the duplicate gets. */
static void
an_atomic_is_not_executed_again(void **state)
{
	struct loss l = { .from = 1, .opcode = WIRE_OP_ATOMIC_ACK, .count = 1 };
	uint64_t word = 40;
	struct rig r;

	rig_up(&r, NULL, NULL);
	memcpy(r.bbuf, &word, sizeof(word));
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_fetch_add(&r, 1, 64, 2);
	pair_settle(r.p);
	replace(r.b, memory[0]);
	replace(r.a, memory[0]);
	pair_advance(r.p, 500 * PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	memcpy(&word, r.bbuf, sizeof(word));
	assert_int_equal(word, 42);
	memcpy(&word, r.abuf + 64, sizeof(word));
	assert_int_equal(word, 40);
	rig_down(&r);
}

/* The RNR timer goes on where it stood: nothing is sent before its end, and something is at its end. */
static void
the_rnr_timer_goes_on(void **state)
{
	uint8_t aeth[4];
	uint32_t sent;
	struct rig r;

	rig_up(&r, NULL, &(struct conn_opts){ .min_rnr_timer = 20 /* 10.24 ms */, .rnr_retry = 1 });
	rig_send(&r, 1, 0, 100);
	pair_settle(r.p);
	pair_advance(r.p, 4 * PAIR_MS);
	sent = pair_count(r.p, 0, -1);
	replace(r.a, memory[0]);
	/* A duplicate of the RNR NAK is still known as one, and uses up no retry. */
	wire_put_aeth(aeth, WIRE_AETH_RNR_NAK | 1, 0);
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OP_ACK, .psn = r.a->qp->req.psn_una }, aeth, sizeof(aeth));
	pair_settle(r.p);
	end_recv(r.b, 7, SGE(r.bbuf, 100, r.bmr), 1);
	pair_advance(r.p, 6 * PAIR_MS);
	assert_int_equal(pair_count(r.p, 0, -1), sent);
	pair_advance(r.p, PAIR_MS);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	expect_cqe(&r.b->rcq, 7, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* ERR: what is left to be flushed is flushed, once; RESET and INIT stay what they are. */
static void
every_state_is_kept(void **state)
{
	static const enum uroce_qp_state states[] = { UROCE_QPS_RESET, UROCE_QPS_ERR };
	struct rig r;

	for (unsigned int i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		rig_up(&r, NULL, NULL);
		r.p->stalled = true;
		rig_write(&r, 1, 0, 100);
		assert_int_equal(end_state(r.a, UROCE_QPS_SQD), 0);
		replace(r.a, memory[0]);
		assert_int_equal(qp_state(r.a->qp), UROCE_QPS_SQD);
		assert_int_equal(end_state(r.a, states[i]), 0);
		replace(r.a, memory[0]);
		assert_int_equal(qp_state(r.a->qp), states[i]);
		assert_int_equal(r.a->shared.state, states[i]);
		r.p->stalled = false;
		pair_advance(r.p, PAIR_MS);
		if (states[i] == UROCE_QPS_ERR)
			expect_cqe(&r.a->scq, 1, UROCE_WC_WR_FLUSH_ERR);
		expect_no_cqe(&r.a->scq);
		rig_down(&r);
	}
}

/* As daemons have written it that left such a timer running. */
static void
a_timer_of_a_qp_in_err_does_nothing(void **state)
{
	struct qp_params p;
	struct qp_record *rec;
	const char *why;
	uint32_t sent;
	struct rig r;

	rig_up(&r, NULL, NULL);
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 1, UROCE_WC_SUCCESS);
	assert_int_equal(end_state(r.a, UROCE_QPS_ERR), 0);
	p = params_of(r.a);
	rec = save_in(r.a, memory[0]);
	assert_int_equal(rec->timer_ns, UINT64_MAX);
	rec->timer_ns = PAIR_MS;
	rec->giveup_ns = 2 * PAIR_MS;
	record_seal(rec, RECORD_QP, QP_RECORD_VERSION, rec->head.size);
	qp_destroy(r.a->host->tp, r.a->qp);
	assert_int_equal(restore(r.a, &p, rec, &why), 0);
	sent = r.p->nb_log;
	pair_advance(r.p, 3 * PAIR_MS);
	assert_int_equal(r.p->nb_log, sent);
	assert_int_equal(r.a->qp->loss.deadline_ns, 0);
	assert_int_equal(counters(&r, 0)->local_ack_timeout_err + counters(&r, 0)->tail_loss_probes, 0);
	expect_no_cqe(&r.a->scq);
	rig_down(&r);
}

/* ---- A QP with something in every field ---- */
static bool
lose_answers(struct pair *p, const struct note *n, void *arg)
{
	return n->from == 1;
}

/* Host 0's end has WQEs in flight; host 1's has results, a READ to be answered and the beginning of a message from an SRQ. */
static void
busy_up(struct rig *r)
{
	struct end_opts o = { .max_sge = 3 };

	rig_up(r, &o, &(struct conn_opts){ .mtu = UROCE_MTU_256, .psn = 100, .rd_atomic = NEW_RES, .dest_rd_atomic = NEW_RES });
	r->p->lose = lose_answers;
	end_recv(r->b, 7, (struct ring_sge[]){ *SGE(r->bbuf + 4096, 300, r->bmr), *SGE(r->bbuf + 8192, 90000, r->bmr) }, 2);
	rig_fetch_add(r, 1, 64, 2);
	rig_read(r, 2, 4096, 5000);
	rig_write(r, 3, 0, 1000);
	pair_settle(r->p);
	rig_send(r, 4, 0, 80000);
	rig_read(r, 5, 4096, 5000);
	host_turn(&r->p->h[0]);
}

#define EACH_FIELD(X) QP_RECORD_U64(X) QP_RECORD_U32(X) QP_RECORD_U16(X) QP_RECORD_U8(X) QP_RECORD_BOOL(X)

static const struct {
	const char *name;
	uint32_t offset, bytes;
} fields[] = {
#define X(n, m) { #n, offsetof(struct qp_record, n), sizeof(((struct qp_record *)0)->n) },
	EACH_FIELD(X)
#undef X
};

static void
seal(struct qp_record *r)
{
	record_seal(r, RECORD_QP, QP_RECORD_VERSION, r->head.size);
}

/* Two records are the same but for heads. */
static void
assert_same(const struct qp_record *a, const struct qp_record *b, const char *field)
{
	assert_int_equal(a->head.size, b->head.size);
	if (memcmp((const uint8_t *)a + sizeof(a->head), (const uint8_t *)b + sizeof(a->head), a->head.size - sizeof(a->head)) != 0)
		fail_msg("%s doesn't survive", field);
}

/* Each field, changed by one bit: the next record has it too, or it was refused. At least most are taken. */
static void
each_field_survives(void **state)
{
	uint32_t taken = 0;
	struct rig r;

	busy_up(&r);
	for (unsigned int side = 0; side < 2; side++) {
		struct end *e = side == 0 ? r.a : r.b;
		struct qp_params p = params_of(e);
		struct qp_record *first = save_in(e, memory[0]);

		for (unsigned int i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
			uint8_t *at = (uint8_t *)first + fields[i].offset;
			const char *why = NULL;
			int rc;

			*at ^= 1;
			seal(first);
			qp_destroy(e->host->tp, e->qp);
			rc = restore(e, &p, first, &why);
			if (rc == 0) {
				taken++;
				assert_same(save_in(e, memory[1]), first, fields[i].name);
			} else {
				assert_int_equal(rc, EINVAL);
				assert_non_null(strchr(why, ':'));
			}
			*at ^= 1;
			seal(first);
			if (rc == 0)
				qp_destroy(e->host->tp, e->qp);
			assert_int_equal(restore(e, &p, first, &why), 0);
			assert_same(save_in(e, memory[1]), first, "what was there before");
		}
	}
	assert_true(taken > sizeof(fields) / sizeof(fields[0]));
	r.p->lose = NULL;
	pair_advance(r.p, 2000 * PAIR_MS);
	for (uint64_t id = 1; id <= 5; id++)
		expect_cqe(&r.a->scq, id, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* ---- What is refused ---- */
static void
damage_is_found(void **state)
{
	struct qp_params p;
	struct qp_record *rec;
	const char *why;
	struct rig r;

	busy_up(&r);
	p = params_of(r.b);
	rec = save_in(r.b, memory[0]);
	for (uint32_t i = 0; i < rec->head.size * 8; i++) {
		struct qp *qp;

		((uint8_t *)rec)[i / 8] ^= (uint8_t)(1u << i % 8);
		assert_int_equal(qp_restore(r.b->host->tp, rec, ROOM, &p, r.p->now, &qp, &why), EINVAL);
		((uint8_t *)rec)[i / 8] ^= (uint8_t)(1u << i % 8);
	}
	for (uint32_t room = 0; room < rec->head.size; room++) {
		struct qp *qp;

		assert_int_equal(qp_restore(r.b->host->tp, rec, room, &p, r.p->now, &qp, &why), EINVAL);
		assert_int_equal(strncmp(why, "size:", 5), 0);
	}
	rig_down(&r);
}

static void
another_version_is_refused(void **state)
{
	struct qp_record *rec;
	struct qp_params p;
	const char *why;
	struct qp *qp;
	struct rig r;

	rig_up(&r, NULL, NULL);
	p = params_of(r.a);
	rec = save_in(r.a, memory[0]);
	record_seal(rec, RECORD_QP, QP_RECORD_VERSION + 1, rec->head.size);
	assert_int_equal(qp_restore(r.a->host->tp, rec, ROOM, &p, r.p->now, &qp, &why), EINVAL);
	assert_int_equal(strncmp(why, "version:", 8), 0);
	record_seal(rec, RECORD_CQ, QP_RECORD_VERSION, rec->head.size);
	assert_int_equal(qp_restore(r.a->host->tp, rec, ROOM, &p, r.p->now, &qp, &why), EINVAL);
	assert_int_equal(strncmp(why, "kind:", 5), 0);
	seal(rec);
	assert_int_equal(qp_restore(r.a->host->tp, rec, ROOM, &p, r.p->now, &qp, &why), EEXIST);
	assert_int_equal(strncmp(why, "qpn:", 4), 0);
	rig_down(&r);
}

/* Each is refused by its own name. */
static void
fields_out_of_range_are_named(void **state)
{
	struct qp_record *rec, good;
	struct qp_params p;
	const char *why;
	struct qp *qp;
	struct rig r;

	busy_up(&r);
	p = params_of(r.a);
	rec = save_in(r.a, memory[0]);
	good = *rec;
#define REFUSED(field, value) \
	do { \
		rec->field = value; \
		seal(rec); \
		assert_int_equal(qp_restore(r.a->host->tp, rec, ROOM, &p, r.p->now, &qp, &why), EINVAL); \
		if (strncmp(why, #field ":", sizeof(#field)) != 0) \
			fail_msg("%s is refused as %s", #field, why); \
		*rec = good; \
	} while (0)
	REFUSED(type, UROCE_QPT_UC);
	REFUSED(state, UROCE_QPS_STATES);
	REFUSED(state, UROCE_QPS_SQE);
	REFUSED(port, 1);
	REFUSED(mtu_shift, 7);
	REFUSED(mtu_shift, 13);
	REFUSED(pd, good.pd + 1);
	REFUSED(sq_order, (uint8_t)(good.sq_order + 1));
	REFUSED(rq_order, (uint8_t)(good.rq_order + 1));
	REFUSED(attr.cap, (struct uroce_qp_cap){ 0 });
	REFUSED(attr.path_mtu, 6);
	REFUSED(attr.timeout, 32);
	REFUSED(attr.alt_timeout, 32);
	REFUSED(attr.min_rnr_timer, 32);
	REFUSED(attr.retry_cnt, 8);
	REFUSED(attr.rnr_retry, 8);
	REFUSED(attr.pkey_index, UROCE_MAX_PKEYS);
	REFUSED(attr.alt_pkey_index, UROCE_MAX_PKEYS);
	REFUSED(attr.max_rd_atomic, UROCE_MAX_RD_ATOMIC + 1);
	REFUSED(attr.max_dest_rd_atomic, UROCE_MAX_RD_ATOMIC + 1);
	REFUSED(attr.dest_qp_num, 1u << 24);
	REFUSED(attr.rq_psn, 1u << 24);
	REFUSED(attr.sq_psn, 1u << 24);
	REFUSED(credits, 2);
	REFUSED(has_path, 0);
	REFUSED(addr, (struct record_addr){ .ip_version = 5 });
	REFUSED(mig, TP_MIG_ARMED);
	REFUSED(sq_tail, good.sq_counter - 1000);
	REFUSED(nb_wqes, TP_INFLIGHT_MAX + 1);
	REFUSED(sq_cur, good.sq_counter + 1);
	REFUSED(psn_una, 1u << 24);
	REFUSED(psn_cur, (good.psn_una - 1) & 0xffffff);
	REFUSED(psn_max, (good.psn_cur - 1) & 0xffffff);
	REFUSED(psn_max, (good.psn_una + TP_CWND_MAX + 1) & 0xffffff);
	REFUSED(psn_next, (good.psn_next + 1) & 0xffffff);
	REFUSED(rd_out, UROCE_MAX_RD_ATOMIC + 1);
	REFUSED(sack_offers, TP_SACK_OFFERS + 1);
	REFUSED(retry_left, 8);
	REFUSED(timer_ns, UINT64_MAX - 1);
	REFUSED(cnp_ns, 50001);
	REFUSED(epsn, 1u << 24);
	REFUSED(msg, TP_RMSG_DROP + 1);
	REFUSED(nak_state, TP_NAK_RNR_SENT + 1);
	REFUSED(left, UROCE_MAX_MSG_BYTES + 1);
	REFUSED(rq_seen, good.rq_counter + 100000);
	REFUSED(srqn, 5);
	REFUSED(res_max, UROCE_MAX_RD_ATOMIC + 1);
	REFUSED(res_head, UROCE_MAX_RD_ATOMIC);
	REFUSED(res_limit, UROCE_MAX_RD_ATOMIC);
	REFUSED(reply, TP_REPLY_FATAL + 1);
	REFUSED(pending, UINT64_C(1) << 63);
	REFUSED(why, QP_WHYS);
	REFUSED(nb_reads, 65);
	REFUSED(nb_sges, UROCE_MAX_SGE + 1);
	/* Before it is connected it has no path to send anything. */
	assert_int_equal(end_state(r.a, UROCE_QPS_RESET), 0);
	rec = save_in(r.a, memory[0]);
	good = *rec;
	REFUSED(reply, TP_REPLY_ACK);
	REFUSED(pending, 1);
	/* Without a queue there is no receive that it could have taken. */
	p.rq = (struct ring){ 0 };
	good.rq_order = 0;
	*rec = good;
	REFUSED(recv_valid, 1);
	rig_down(&r);
}

/* Whatever stands in a record that is well formed: it is refused, or the engine gets along with it. */
static void
garbage_does_no_harm(void **state)
{
	uint64_t taken = 0, x = 1;
	struct rig r;

	busy_up(&r);
	for (uint32_t i = 0; i < FUZZ_ROUNDS; i++) {
		struct end *e = i & 1 ? r.a : r.b;
		struct qp_params p = params_of(e);
		struct qp_record *rec = save_in(e, memory[0]);
		const char *why = NULL;

		memcpy(memory[1], memory[0], rec->head.size);
		for (uint64_t n = i % 3 + 1; n > 0; n--) {
			x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
			((uint8_t *)rec)[sizeof(rec->head) + (x >> 33) % (rec->head.size - sizeof(rec->head))] ^=
				(uint8_t)(1u << (x >> 60 & 7));
		}
		seal(rec);
		qp_destroy(e->host->tp, e->qp);
		if (restore(e, &p, rec, &why) == 0) {
			taken++;
			pair_advance(r.p, 20 * PAIR_US);
			qp_destroy(e->host->tp, e->qp);
		} else {
			assert_non_null(strchr(why, ':'));
		}
		assert_int_equal(restore(e, &p, (struct qp_record *)memory[1], &why), 0);
	}
	assert_true(taken > FUZZ_ROUNDS / 10 && taken < FUZZ_ROUNDS);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_go_on),
		cmocka_unit_test(the_mtu_of_the_new_port_counts),
		cmocka_unit_test(the_next_cnp_waits_as_long),
		cmocka_unit_test(an_atomic_is_not_executed_again),
		cmocka_unit_test(the_rnr_timer_goes_on),
		cmocka_unit_test(every_state_is_kept),
		cmocka_unit_test(a_timer_of_a_qp_in_err_does_nothing),
		cmocka_unit_test(each_field_survives),
		cmocka_unit_test(damage_is_found),
		cmocka_unit_test(another_version_is_refused),
		cmocka_unit_test(fields_out_of_range_are_named),
		cmocka_unit_test(garbage_does_no_harm),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
