/* SPDX-License-Identifier: BSD-3-Clause */
/* Automatic path migration of RC and UC (17.2.8). */
#include <errno.h>

#include <rte_common.h>

#include "transport/cc/cc_priv.h"
#include "rig.h"
#include "transport/core/sack_format_priv.h"
#include "transport/path/changes.h"

/* Way number @p nr from one host to the other: 0 is the one that ends are connected by. */
static struct tp_path
way(const struct end *e, uint8_t nr)
{
	uint8_t me = (uint8_t)e->host->id;
	struct tp_path path = {
		.addr = { .dmac = { 2, 0, 0, 0, 0, !me }, .smac = { 2, 0, 0, 0, 0, me }, .ip_version = 4, .ttl = 64 },
		.pkey = WIRE_PKEY_DEFAULT,
	};

	memcpy(path.addr.sip, (uint8_t[]){ 198, 18, nr, me + 1 }, 4);
	memcpy(path.addr.dip, (uint8_t[]){ 198, 18, nr, !me + 1 }, 4);
	return path;
}

static const struct uroce_ah_attr alt_av = {
	.is_global = 1, .port_num = 1, .hop_limit = 63, .sgid_index = 1, .dgid = { [15] = 2 },
};

static int
load(struct end *e, uint8_t nr)
{
	struct uroce_qp_attr a = { .alt_ah = alt_av, .alt_port_num = 1, .alt_timeout = 12,
				   .path_mig_state = 1 /* IBV_MIG_REARM */ };
	struct tp_path alt = way(e, nr);

	return qp_modify_paths(e->host->tp, e->qp, &a, UROCE_QP_ALT_PATH | UROCE_QP_PATH_MIG_STATE, NULL, &alt,
			       e->host->pair->now);
}

static int
set_mig(struct end *e, uint32_t state)
{
	struct uroce_qp_attr a = { .path_mig_state = state };

	return qp_modify(e->host->tp, e->qp, &a, UROCE_QP_PATH_MIG_STATE, NULL, e->host->pair->now);
}

static uint32_t
mig(const struct end *e)
{
	struct uroce_qp_attr a;

	qp_query(e->qp, &a);
	return a.path_mig_state;
}
enum { MIGRATED, REARM, ARMED };

static void
write_and_settle(struct rig *r, uint64_t id)
{
	rig_write(r, id, 0, 1000);
	pair_settle(r->p);
	expect_cqe(&r->a->scq, id, UROCE_WC_SUCCESS);
}

/* Both ends have an alternate path and know it of each other. */
static void
rig_up_armed(struct rig *r, const struct conn_opts *co)
{
	rig_up(r, NULL, co);
	assert_int_equal(load(r->a, 1), 0);
	assert_int_equal(load(r->b, 1), 0);
	write_and_settle(r, 1);
	assert_int_equal(mig(r->a), ARMED);
	assert_int_equal(mig(r->b), ARMED);
	r->p->nb_log = 0;
}

/* What a wire of several ways would do: packets of way 0 are lost. */
static bool
lose_unmigrated(struct pair *p, const struct note *n, void *arg)
{
	(void)p;
	(void)arg;
	return !n->bth.migreq;
}

static void
a_qp_says_migrated_until_it_has_an_alternate_path(void **state)
{
	struct rig r;

	rig_up(&r, NULL, NULL);
	write_and_settle(&r, 1);
	assert_true(r.p->log[0].bth.migreq);
	assert_int_equal(mig(r.a), MIGRATED);
	assert_int_equal(load(r.a, 1), 0);
	assert_int_equal(mig(r.a), REARM);
	r.p->nb_log = 0;
	write_and_settle(&r, 2);
	assert_false(r.p->log[0].bth.migreq);
	/* The peer isn't ready: its packets say 1. */
	assert_true(r.p->log[1].bth.migreq);
	assert_int_equal(mig(r.a), REARM);
	assert_int_equal(load(r.b, 1), 0);
	write_and_settle(&r, 3);
	assert_int_equal(mig(r.b), ARMED);
	assert_int_equal(mig(r.a), ARMED);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_PATH_MIG), 0);
	rig_down(&r);
}

/* The new path leads through the same port. */
static void
the_ports_mtu_counts_on_the_alternate_path_too(void **state)
{
	struct rig r;

	rig_up_armed(&r, &(struct conn_opts){ .retry_cnt = 1 });
	transport_set_mtu(r.p->h[0].tp, 0, 900, 9);
	assert_int_equal(set_mig(r.a, MIGRATED), 0);
	rig_write(&r, 2, 0, 1024);
	pair_settle(r.p);
	assert_true(counters(&r, 0)->tx_too_long > 0);
	expect_no_cqe(&r.a->scq);
	rig_down(&r);
}

static void
retries_that_are_used_up_migrate_both_ends(void **state)
{
	struct uroce_qp_attr a;
	struct rig r;

	rig_up_armed(&r, &(struct conn_opts){ .retry_cnt = 2 });
	r.p->lose = lose_unmigrated;
	rig_write(&r, 2, 0, 5000);
	rig_read(&r, 3, 8192, 5000);
	pair_advance(r.p, 3000 * (uint64_t)PAIR_MS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	assert_memory_equal(r.abuf, r.bbuf, 5000);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(mig(i == 0 ? r.a : r.b), MIGRATED);
		assert_int_equal(host_events(&r.p->h[i], UROCE_EVENT_PATH_MIG), 1);
		assert_int_equal(host_events(&r.p->h[i], UROCE_EVENT_PATH_MIG_ERR), 0);
	}
	assert_int_equal(counters(&r, 0)->retry_exceeded_err, 0);
	qp_query(r.a->qp, &a);
	assert_memory_equal(&a.ah, &alt_av, sizeof(alt_av));
	assert_int_equal(a.timeout, 12);
	rig_down(&r);
}

static void
an_alternate_path_that_is_dead_too_ends_in_the_usual_error(void **state)
{
	struct loss l = { .from = 0, .opcode = -1, .count = UINT32_MAX };
	struct rig r;

	rig_up_armed(&r, &(struct conn_opts){ .retry_cnt = 2 });
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 2, 0, 100);
	pair_advance(r.p, 5000 * (uint64_t)PAIR_MS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_RETRY_EXC_ERR);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_PATH_MIG), 1);
	rig_down(&r);
}

static void
a_program_may_migrate_and_the_peer_follows(void **state)
{
	struct rig r;

	rig_up_armed(&r, NULL);
	assert_int_equal(set_mig(r.a, MIGRATED), 0);
	assert_int_equal(mig(r.a), MIGRATED);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_PATH_MIG), 1);
	write_and_settle(&r, 2);
	assert_int_equal(mig(r.b), MIGRATED);
	assert_int_equal(host_events(&r.p->h[1], UROCE_EVENT_PATH_MIG), 1);
	assert_true(r.p->log[0].bth.migreq && r.p->log[1].bth.migreq);
	/* And back again by the way they came. */
	assert_int_equal(load(r.a, 0), 0);
	assert_int_equal(load(r.b, 0), 0);
	write_and_settle(&r, 3);
	assert_int_equal(set_mig(r.b, MIGRATED), 0);
	rig_write(&r, 4, 0, 100);
	pair_advance(r.p, 500 * PAIR_MS);
	expect_cqe(&r.a->scq, 4, UROCE_WC_SUCCESS);
	assert_int_equal(mig(r.a), MIGRATED);
	rig_down(&r);
}

static void
a_uc_receiver_follows_too(void **state)
{
	struct rig r;

	rig_up(&r, &(struct end_opts){ .type = UROCE_QPT_UC }, NULL);
	assert_int_equal(load(r.a, 1), 0);
	assert_int_equal(load(r.b, 1), 0);
	write_and_settle(&r, 1);
	assert_int_equal(mig(r.b), ARMED);
	/* Nothing comes back in UC but what its peer sends itself. */
	assert_int_equal(mig(r.a), REARM);
	end_send(r.b, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.bbuf, 8, r.bmr), .nb_sge = 1,
				    .remote_addr = ADDR(r.abuf), .rkey = r.amr->key });
	pair_settle(r.p);
	assert_int_equal(mig(r.a), ARMED);
	assert_int_equal(set_mig(r.a, MIGRATED), 0);
	memset(r.bbuf, 0, 1000);
	write_and_settle(&r, 3);
	assert_memory_equal(r.abuf, r.bbuf, 1000);
	assert_int_equal(mig(r.b), MIGRATED);
	rig_down(&r);
}

static void
a_migration_to_another_path_is_refused_and_told_once(void **state)
{
	struct rig r;

	rig_up_armed(&r, NULL);
	for (uint32_t i = 0; i < 3; i++)
		pair_inject(r.p, r.b, &(struct wire_bth){ .opcode = WIRE_OP_WRITE_ONLY, .psn = 101, .migreq = true },
			    (uint8_t[WIRE_RETH_BYTES]){ 0 }, WIRE_RETH_BYTES);
	assert_int_equal(host_events(&r.p->h[1], UROCE_EVENT_PATH_MIG_ERR), 1);
	assert_int_equal(counters(&r, 1)->rx_bad_migreq, 3);
	assert_int_equal(mig(r.b), ARMED);
	write_and_settle(&r, 2);
	rig_down(&r);
}

/* The offer of selective repeat is a packet like others: to an armed peer MigReq 1 would be a migration to elsewhere. */
static void
an_offer_of_selective_repeat_asks_for_no_migration(void **state)
{
	struct loss l = { .from = 0, .opcode = WIRE_OP_WRITE_MIDDLE, .nth = 2, .count = 1 };
	struct rig r;

	rig_up_armed(&r, NULL);
	r.p->lose = lose;
	r.p->lose_arg = &l;
	rig_write(&r, 2, 0, 8192);
	pair_settle(r.p);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(counters(&r, 0)->sack_offers_sent, 1);
	assert_int_equal(counters(&r, 1)->sack_offers_received, 1);
	for (uint32_t i = 0; i < r.p->nb_log; i++)
		assert_false(r.p->log[i].bth.migreq);
	assert_int_equal(host_events(&r.p->h[1], UROCE_EVENT_PATH_MIG_ERR), 0);
	rig_down(&r);
}

static void
a_sack_asks_for_a_migration_as_any_packet_does(void **state)
{
	uint8_t sack[WIRE_AETH_BYTES + SACK_PAYLOAD_BYTES] = { WIRE_AETH_CREDITS_INVALID };
	struct rig r;

	rig_up_armed(&r, NULL);
	wire_put32(sack + WIRE_AETH_BYTES, SACK_MAGIC);
	pair_inject(r.p, r.a, &(struct wire_bth){ .opcode = WIRE_OPCODE_SACK, .psn = r.a->qp->req.psn_una, .migreq = true }, sack,
		    sizeof(sack));
	assert_int_equal(counters(&r, 0)->rx_bad_migreq, 1);
	assert_int_equal(counters(&r, 0)->sacks_received, 0);
	rig_down(&r);
}

/* What it has sent by the dead path before the peer changed has as many tries by the new one as anything else. */
static void
who_follows_has_all_its_retries_again(void **state)
{
	struct rig r;

	rig_up_armed(&r, &(struct conn_opts){ .retry_cnt = 1 });
	r.p->lose = lose_unmigrated;
	end_send(r.b, &(struct wr){ .id = 2, .op = UROCE_WR_RDMA_WRITE, .sge = SGE(r.bbuf, 8, r.bmr), .nb_sge = 1,
				    .remote_addr = ADDR(r.abuf), .rkey = r.amr->key });
	while (counters(&r, 1)->local_ack_timeout_err == 0)
		pair_advance(r.p, PAIR_MS);
	assert_int_equal(set_mig(r.a, MIGRATED), 0);
	rig_write(&r, 3, 0, 100);
	pair_advance(r.p, 5000 * (uint64_t)PAIR_MS);
	expect_cqe(&r.a->scq, 3, UROCE_WC_SUCCESS);
	expect_cqe(&r.b->scq, 2, UROCE_WC_SUCCESS);
	assert_int_equal(mig(r.b), MIGRATED);
	rig_down(&r);
}

/* Its time was the old path's: nobody else would wake it. */
static void
a_qp_that_waits_for_its_time_goes_on_by_the_new_path(void **state)
{
	enum { SLOW_BPS = 1000000 };
	struct rig r;

	rig_up_cc(&r, NULL, NULL, &(struct tp_port_config){ .cc = TP_CC_DCQCN, .mbps = 40000, .features = TP_FEATURES_ALL });
	assert_int_equal(load(r.a, 1), 0);
	assert_int_equal(load(r.b, 1), 0);
	write_and_settle(&r, 1);
	r.a->qp->req.cc->rate_bps = SLOW_BPS;
	r.a->qp->req.cc->next_ns = r.p->now + 100 * (uint64_t)PAIR_MS;
	rig_write(&r, 2, 0, 1000);
	/* Until nobody looks at its SQ any more. */
	pair_advance(r.p, PAIR_MS);
	assert_int_equal(set_mig(r.a, MIGRATED), 0);
	pair_advance(r.p, PAIR_MS);
	expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
	rig_down(&r);
}

/* With this timeout a packet is sent as a probe only if it is known how long a round trip takes. */
static void
round_trips_of_the_old_path_say_nothing_about_the_new_one(void **state)
{
	struct loss all = { .from = 0, .opcode = -1, .count = UINT32_MAX };

	for (int migrate = 0; migrate < 2; migrate++) {
		struct rig r;

		rig_up_armed(&r, &(struct conn_opts){ .timeout = 14 });
		if (migrate)
			assert_int_equal(set_mig(r.a, MIGRATED), 0);
		r.p->lose = lose;
		r.p->lose_arg = &all;
		rig_write(&r, 2, 0, 100);
		pair_advance(r.p, 10 * PAIR_MS);
		assert_int_equal(counters(&r, 0)->tail_loss_probes != 0, !migrate);
		r.p->lose = NULL;
		pair_advance(r.p, 1000 * (uint64_t)PAIR_MS);
		expect_cqe(&r.a->scq, 2, UROCE_WC_SUCCESS);
		rig_down(&r);
	}
}

/* After a migration the old way is a stranger's. */
static void
packets_of_the_old_path_are_dropped(void **state)
{
	struct rig r;

	rig_up_armed(&r, NULL);
	assert_int_equal(set_mig(r.b, MIGRATED), 0);
	pair_inject(r.p, r.b, &(struct wire_bth){ .opcode = WIRE_OP_WRITE_ONLY, .psn = 101 },
		    (uint8_t[WIRE_RETH_BYTES]){ 0 }, WIRE_RETH_BYTES);
	assert_int_equal(counters(&r, 1)->rx_bad_address, 1);
	rig_down(&r);
}

static void
states_of_migration_follow_each_other_as_they_may(void **state)
{
	struct tp_path alt;
	struct uroce_qp_attr a = { .alt_ah = alt_av, .alt_port_num = 1 };
	struct rig r;

	rig_up(&r, NULL, NULL);
	/* No path to change to. */
	assert_int_equal(set_mig(r.a, REARM), EINVAL);
	assert_int_equal(set_mig(r.a, ARMED), EINVAL);
	assert_int_equal(set_mig(r.a, MIGRATED), 0);
	alt = way(r.a, 1);
	alt.loopback = true;
	assert_int_equal(qp_modify_paths(r.a->host->tp, r.a->qp, &a, UROCE_QP_ALT_PATH, NULL, &alt, r.p->now), EINVAL);
	assert_int_equal(qp_modify_paths(r.a->host->tp, r.a->qp, &a, UROCE_QP_ALT_PATH, NULL, NULL, r.p->now), EINVAL);
	assert_int_equal(load(r.a, 1), 0);
	/* Given up before it was armed: nothing has changed. */
	assert_int_equal(set_mig(r.a, MIGRATED), 0);
	assert_int_equal(host_events(&r.p->h[0], UROCE_EVENT_PATH_MIG), 0);
	write_and_settle(&r, 1);
	assert_int_equal(set_mig(r.a, REARM), 0);
	assert_int_equal(load(r.b, 1), 0);
	write_and_settle(&r, 2);
	assert_int_equal(set_mig(r.a, REARM), EINVAL);
	/* A new connection knows of no alternate path. */
	assert_int_equal(end_state(r.a, UROCE_QPS_RESET), 0);
	assert_int_equal(end_state(r.b, UROCE_QPS_RESET), 0);
	ends_connect(r.a, r.b, NULL);
	assert_int_equal(mig(r.a), MIGRATED);
	assert_int_equal(set_mig(r.a, REARM), EINVAL);
	write_and_settle(&r, 3);
	rig_down(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_qp_says_migrated_until_it_has_an_alternate_path),
		cmocka_unit_test(the_ports_mtu_counts_on_the_alternate_path_too),
		cmocka_unit_test(retries_that_are_used_up_migrate_both_ends),
		cmocka_unit_test(an_alternate_path_that_is_dead_too_ends_in_the_usual_error),
		cmocka_unit_test(a_program_may_migrate_and_the_peer_follows),
		cmocka_unit_test(a_uc_receiver_follows_too),
		cmocka_unit_test(a_migration_to_another_path_is_refused_and_told_once),
		cmocka_unit_test(an_offer_of_selective_repeat_asks_for_no_migration),
		cmocka_unit_test(a_sack_asks_for_a_migration_as_any_packet_does),
		cmocka_unit_test(who_follows_has_all_its_retries_again),
		cmocka_unit_test(a_qp_that_waits_for_its_time_goes_on_by_the_new_path),
		cmocka_unit_test(round_trips_of_the_old_path_say_nothing_about_the_new_one),
		cmocka_unit_test(packets_of_the_old_path_are_dropped),
		cmocka_unit_test(states_of_migration_follow_each_other_as_they_may),
	};

	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
