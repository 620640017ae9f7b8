/* SPDX-License-Identifier: BSD-3-Clause */
/* Records of CQs, SRQs and of what a transport has counted. */
#include "rig.h"
#include "transport/core/ah_priv.h"
#include "transport/core/types_priv.h"
#include "transport/record/record.h"

/* Fields that are out of range are refused by their names. */
#define REFUSED(rec, kind, version, restore, field, value) \
	do { \
		good = *(rec); \
		(rec)->field = value; \
		record_seal(rec, kind, version, sizeof(*(rec))); \
		assert_int_equal(restore, EINVAL); \
		if (strncmp(why, #field ":", sizeof(#field)) != 0) \
			fail_msg("%s is refused as %s", #field, why); \
		*(rec) = good; \
	} while (0)

static struct cq_params
cq_params_of(const struct cq *cq)
{
	struct cq_params p = { .ring = cq->rings[0].ring, .shared = cq->shared, .channel = cq->channel, .cookie = cq->cookie,
			       .owner = cq->owner, .multi = cq->multi };

	return p;
}

static void
a_cq_keeps_counters_and_events(void **state)
{
	struct end_opts o = { .channel = true };
	struct cq_record rec, good;
	struct cq_params p;
	struct cq *cq = NULL;
	const char *why;
	struct rig r;

	rig_up(&r, &o, NULL);
	for (uint64_t i = 0; i < 3; i++)
		rig_write(&r, i, 0, 100);
	pair_settle(r.p);
	cq_moderate(r.a->scq.cq, 7, 9);
	atomic_store(&r.a->scq.cq->reported, 2);
	p = cq_params_of(r.a->scq.cq);
	cq_save(&r.p->h[0].tp, 1, r.a->scq.cq, &rec);
	rec.owed = 2;
	record_seal(&rec, RECORD_CQ, CQ_RECORD_VERSION, sizeof(rec));
	assert_int_equal(cq_restore(r.p->h[0].tp, &rec, sizeof(rec), &p, r.p->now, &cq, &why), 0);
	assert_int_equal(atomic_load(&cq->prod) >> 1, 3);
	assert_int_equal(atomic_load(&cq->cons), atomic_load(&r.a->scq.cq->cons));
	assert_int_equal(atomic_load(&cq->reported), 2);
	assert_int_equal(atomic_load(&cq->moderation), 7 << 16 | 9);
	assert_true(cq_owes_events(cq));
	assert_int_equal(r.p->h[0].tp->nb_owed, 1);
	cq_drop_owed(r.p->h[0].tp, cq);
	cq_destroy(cq);
#define CQ_REFUSED(field, value) \
	REFUSED(&rec, RECORD_CQ, CQ_RECORD_VERSION, cq_restore(r.p->h[0].tp, &rec, sizeof(rec), &p, r.p->now, &cq, &why), field, value)
	CQ_REFUSED(order, (uint8_t)(rec.order + 1));
	CQ_REFUSED(overrun, 2);
	CQ_REFUSED(multi, !rec.multi);
	CQ_REFUSED(prod, rec.cons + (1u << rec.order) + 1);
	CQ_REFUSED(held, 4);
	p.channel = -1;
	CQ_REFUSED(owed, 1);
	rig_down(&r);
}

/* Each of them waits for the end of the next turn. */
static void
events_of_cqs_that_go_before_the_first_turn_are_forgotten(void **state)
{
	struct end_opts o = { .channel = true };
	struct end_cq *from[2];
	struct cq *cq[2];
	struct transport *tp;
	const char *why;
	struct rig r;

	rig_up(&r, &o, NULL);
	tp = r.p->h[0].tp;
	from[0] = &r.a->scq;
	from[1] = &r.a->rcq;
	for (unsigned int i = 0; i < RTE_DIM(cq); i++) {
		struct cq_params p = cq_params_of(from[i]->cq);
		struct cq_record rec;

		cq_save(&tp, 1, from[i]->cq, &rec);
		rec.held = TP_TOUCHED;
		rec.prod++;
		record_seal(&rec, RECORD_CQ, CQ_RECORD_VERSION, sizeof(rec));
		assert_int_equal(cq_restore(tp, &rec, sizeof(rec), &p, r.p->now, &cq[i], &why), 0);
		atomic_store(&from[i]->shared.arm, RING_ARM_ANY);
	}
	assert_int_equal(tp->nb_touched, 2);
	cq_drop_owed(tp, cq[1]);
	assert_int_equal(tp->nb_touched, 1);
	assert_ptr_equal(tp->touched[0], cq[0]);
	cq_destroy(cq[1]);
	host_turn(&r.p->h[0]);
	assert_int_equal(from[0]->events, 1);
	assert_int_equal(from[1]->events, 0);
	cq_destroy(cq[0]);
	rig_down(&r);
}

static void
an_srq_keeps_its_place(void **state)
{
	struct srq_record rec, good;
	struct srq_params p;
	struct end_srq *s;
	struct srq *srq;
	const char *why;
	struct pair *pair = pair_new();
	struct transport *tp = pair->h[0].tp;

	s = srq_new(&pair->h[0], 8, 2);
	s->srq->ring.counter = 5;
	srq_set_limit(s->srq, 3);
	p = (struct srq_params){ .ring = s->srq->ring, .shared = s->srq->shared, .pd = s->srq->pd, .max_sge = s->srq->max_sge };
	p.ring.counter = 0;
	srq_save(s->srq, &rec);
	s->shared.head = 0;
	assert_int_equal(srq_restore(tp, &rec, sizeof(rec), &p, &srq, &why), 0);
	assert_int_equal(srq->ring.counter, 5);
	assert_int_equal(srq_limit(srq), 3);
	assert_int_equal(s->shared.head, 5);
	assert_int_equal(srq_destroy(tp, srq), 0);
#define SRQ_REFUSED(field, value) \
	REFUSED(&rec, RECORD_SRQ, SRQ_RECORD_VERSION, srq_restore(tp, &rec, sizeof(rec), &p, &srq, &why), field, value)
	SRQ_REFUSED(order, (uint8_t)(rec.order + 1));
	SRQ_REFUSED(pd, rec.pd + 1);
	SRQ_REFUSED(xrcd, 1);
	SRQ_REFUSED(srqn, 1);
	srq_free(&pair->h[0], s);
	pair_free(pair);
}

static void
a_transport_counts_on(void **state)
{
	struct transport_record rec, good;
	struct tp_counters before;
	struct transport *tp;
	const char *why;
	struct rig r;

	rig_up(&r, NULL, NULL);
	tp = r.p->h[0].tp;
	rig_write(&r, 1, 0, 100);
	pair_settle(r.p);
	tp->violations[0].bad_qkey = 9;
	before = tp->counters;
	transport_save(tp, &rec);
	memset(&tp->counters, 0, sizeof(tp->counters));
	tp->violations[0].bad_qkey = 0;
	assert_int_equal(transport_restore(tp, &rec, sizeof(rec), &why), 0);
	assert_memory_equal(&tp->counters, &before, sizeof(before));
	assert_true(tp->counters.tx_packets != 0);
	assert_int_equal(tp->violations[0].bad_qkey, 9);
#define TP_REFUSED(field, value) \
	REFUSED(&rec, RECORD_TRANSPORT, TRANSPORT_RECORD_VERSION, transport_restore(tp, &rec, sizeof(rec), &why), field, value)
	TP_REFUSED(nb_counters, 1);
	TP_REFUSED(nb_ports, 9);
	rec.counters[0]++;
	assert_int_equal(transport_restore(tp, &rec, sizeof(rec), &why), EINVAL);
	assert_int_equal(strncmp(why, "crc:", 4), 0);
	rig_down(&r);
}

static void
an_ah_keeps_handle_and_path(void **state)
{
	struct tp_path path = { .addr = { .ip_version = 6, .ttl = 5, .flow_label = 0xabcde, .sip = { 1 }, .dip = { 2 }, .dmac = { 3 } }, .port = 1,
				.pkey = 0x8001, .multicast = true };
	struct ah_table *from = ah_table_create(4, NULL), *to = ah_table_create(4, NULL);
	struct ah_record rec, good;
	const struct tp_ah *ah;
	const char *why;
	uint32_t handle;

	for (int i = 0; i < 3; i++)
		assert_int_equal(ah_create(from, 9, &path, &handle), 0);
	assert_int_equal(ah_save(from, handle, 8, &rec), EINVAL);
	assert_int_equal(ah_save(from, handle, 9, &rec), 0);
	assert_int_equal(ah_restore(to, &rec, sizeof(rec), 2, &why), 0);
	ah = ah_get(to, handle, 9);
	assert_non_null(ah);
	assert_memory_equal(&ah->path.addr, &path.addr, sizeof(path.addr));
	assert_true(ah->path.port == 1 && ah->path.pkey == 0x8001 && ah->path.multicast && !ah->path.loopback);
	assert_int_equal(ah_restore(to, &rec, sizeof(rec), 2, &why), EEXIST);
	assert_non_null(strstr(why, "handle:"));
	good = rec;
#define AH_REFUSED(field, value) \
	REFUSED(&rec, RECORD_AH, AH_RECORD_VERSION, ah_restore(to, &rec, sizeof(rec), 2, &why), field, value)
	AH_REFUSED(port, 2);
	AH_REFUSED(loopback, 2);
	rec.addr.ip_version = 5;
	record_seal(&rec, RECORD_AH, AH_RECORD_VERSION, sizeof(rec));
	assert_int_equal(ah_restore(to, &rec, sizeof(rec), 2, &why), EINVAL);
	assert_non_null(strstr(why, "addr: ip_version"));
	ah_table_destroy(from);
	ah_table_destroy(to);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cq_keeps_counters_and_events),
		cmocka_unit_test(events_of_cqs_that_go_before_the_first_turn_are_forgotten),
		cmocka_unit_test(an_srq_keeps_its_place),
		cmocka_unit_test(an_ah_keeps_handle_and_path),
		cmocka_unit_test(a_transport_counts_on),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
