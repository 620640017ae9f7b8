/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "transport/transport.h"

#define ATTR_BITS 26
#define MTU UROCE_MTU_1024 /* the port's */

static const enum uroce_qp_type types[] = { UROCE_QPT_RC, UROCE_QPT_UC, UROCE_QPT_UD,
					    UROCE_QPT_GSI, UROCE_QPT_XRC_SEND, UROCE_QPT_XRC_RECV };
enum { NB_TYPES = sizeof(types) / sizeof(types[0]) };

/*
 * The legal paths as words: type letters, from, to, required attributes, optional ones. Attributes are
 * the letters of attr_letters below. A second rendering of the specification's table, by hand from the
 * man page and Linux's documentation, to compare the one in qp_state.c with.
 */
#define S UROCE_QPS_RESET
#define I UROCE_QPS_INIT
#define R UROCE_QPS_RTR
#define T UROCE_QPS_RTS
#define D UROCE_QPS_SQD
#define Q UROCE_QPS_SQE

static const struct {
	const char *types; /* r RC, u UC, d UD, g GSI, s XRC send, v XRC recv */
	int from, to;
	const char *req, *opt;
} legal[] = {
	{ "rusv", S, I, "pPa", "" },
	{ "d", S, I, "pPk", "" },
	{ "g", S, I, "pk", "" },
	{ "rusv", I, I, "", "pPa" },
	{ "d", I, I, "", "pPk" },
	{ "g", I, I, "", "pk" },
	{ "rv", I, R, "AMqreN", "lap" },
	{ "us", I, R, "AMqr", "lap" },
	{ "dg", I, R, "", "pk" },
	{ "r", R, T, "tcnsE", "ClaNm" },
	{ "s", R, T, "tcnsE", "Clam" },
	{ "v", R, T, "ts", "ClaNm" },
	{ "u", R, T, "s", "Clam" },
	{ "dg", R, T, "s", "Ck" },
	{ "rv", T, T, "", "ClaNm" },
	{ "us", T, T, "", "Clam" },
	{ "dg", T, T, "", "Ck" },
	{ "rudgsv", T, D, "", "d" },
	{ "rv", D, T, "", "ClaNm" },
	{ "us", D, T, "", "Clam" },
	{ "dg", D, T, "", "Ck" },
	{ "r", D, D, "", "PAtcnEelapNm" },
	{ "u", D, D, "", "Alapm" },
	{ "dg", D, D, "", "pk" },
	{ "s", D, D, "", "PAtcnElapm" },
	{ "v", D, D, "", "PAtelapNm" },
	{ "u", Q, T, "", "Ca" },
	{ "dg", Q, T, "", "Ck" },
};

static const struct {
	char letter;
	uint32_t bit;
} attr_letters[] = {
	{ 'C', UROCE_QP_CUR_STATE }, { 'c', UROCE_QP_RETRY_CNT },
	{ 'd', UROCE_QP_EN_SQD_ASYNC_NOTIFY }, { 'a', UROCE_QP_ACCESS_FLAGS }, { 'p', UROCE_QP_PKEY_INDEX },
	{ 'P', UROCE_QP_PORT }, { 'k', UROCE_QP_QKEY }, { 'A', UROCE_QP_AV }, { 'M', UROCE_QP_PATH_MTU },
	{ 't', UROCE_QP_TIMEOUT }, { 'n', UROCE_QP_RNR_RETRY }, { 'r', UROCE_QP_RQ_PSN },
	{ 'E', UROCE_QP_MAX_QP_RD_ATOMIC }, { 'l', UROCE_QP_ALT_PATH }, { 'N', UROCE_QP_MIN_RNR_TIMER },
	{ 's', UROCE_QP_SQ_PSN }, { 'e', UROCE_QP_MAX_DEST_RD_ATOMIC }, { 'm', UROCE_QP_PATH_MIG_STATE },
	{ 'q', UROCE_QP_DEST_QPN },
};

static uint32_t
letters(const char *s)
{
	uint32_t mask = 0;
	size_t i;

	for (; *s != 0; s++) {
		for (i = 0; i < sizeof(attr_letters) / sizeof(attr_letters[0]); i++)
			if (attr_letters[i].letter == *s)
				mask |= attr_letters[i].bit;
	}
	return mask;
}

/* @return true if the transition exists for the type; what it needs and may have. */
static bool
expected(enum uroce_qp_type type, int from, int to, uint32_t *req, uint32_t *opt)
{
	static const char type_letters[] = { [UROCE_QPT_RC] = 'r', [UROCE_QPT_UC] = 'u', [UROCE_QPT_UD] = 'd',
					     [UROCE_QPT_GSI] = 'g', [UROCE_QPT_XRC_SEND] = 's',
					     [UROCE_QPT_XRC_RECV] = 'v' };
	size_t i;

	*req = *opt = 0;
	if (to == UROCE_QPS_RESET || to == UROCE_QPS_ERR)
		return true;
	for (i = 0; i < sizeof(legal) / sizeof(legal[0]); i++) {
		if (legal[i].from == from && legal[i].to == to && strchr(legal[i].types, type_letters[type]) != NULL) {
			*req = letters(legal[i].req);
			*opt = letters(legal[i].opt);
			return true;
		}
	}
	return false;
}

/* Attributes that are good everywhere. */
static struct uroce_qp_attr
good(int from, int to)
{
	return (struct uroce_qp_attr){
		.qp_state = (uint32_t)to,
		.cur_qp_state = (uint32_t)from,
		.path_mtu = MTU,
		.qkey = 0x80010000,
		.rq_psn = 0xffffff,
		.sq_psn = 0xffffff,
		.dest_qp_num = 0xffffff,
		.qp_access_flags = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ |
				   UROCE_ACCESS_REMOTE_ATOMIC,
		.ah = { .dgid = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 },
			.flow_label = 0xfffff,
			.sgid_index = UROCE_MAX_GIDS - 1,
			.hop_limit = 255,
			.traffic_class = 255,
			.sl = 7,
			.is_global = 1,
			.port_num = 1 },
		.alt_ah = { .dgid = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2 }, .is_global = 1, .port_num = 1 },
		.alt_pkey_index = UROCE_MAX_PKEYS - 1,
		.alt_port_num = 1,
		.alt_timeout = 31,
		.pkey_index = UROCE_MAX_PKEYS - 1,
		.en_sqd_async_notify = 1,
		.max_rd_atomic = UROCE_MAX_RD_ATOMIC,
		.max_dest_rd_atomic = UROCE_MAX_RD_ATOMIC,
		.min_rnr_timer = 31,
		.port_num = 1,
		.timeout = 31,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
}

static int
check(enum uroce_qp_type type, int from, const struct uroce_qp_attr *attr, uint32_t mask)
{
	const char *why = NULL;
	int rc = qp_modify_check(type, (enum uroce_qp_state)from, attr, mask, MTU, &why);

	if (rc == 0) {
		assert_null(why);
	} else {
		assert_int_equal(rc, EINVAL);
		assert_non_null(why);
		assert_true(why[0] != 0);
	}
	return rc;
}

static const char *
why_not(enum uroce_qp_type type, int from, const struct uroce_qp_attr *attr, uint32_t mask)
{
	const char *why = "accepted";

	qp_modify_check(type, (enum uroce_qp_state)from, attr, mask, MTU, &why);
	return why;
}

/* Each type, each pair of states, each single attribute left out of or added to what is right. */
static void
every_transition_takes_exactly_its_attributes(void **state)
{
	int t, from, to, bit;

	for (t = 0; t < NB_TYPES; t++) {
		for (from = 0; from < UROCE_QPS_STATES; from++) {
			for (to = 0; to < UROCE_QPS_STATES; to++) {
				struct uroce_qp_attr attr = good(from, to);
				uint32_t req, opt, all;
				bool exists = expected(types[t], from, to, &req, &opt);

				all = UROCE_QP_STATE | req | opt;
				assert_int_equal(check(types[t], from, &attr, UROCE_QP_STATE | req), exists ? 0 : EINVAL);
				assert_int_equal(check(types[t], from, &attr, all), exists ? 0 : EINVAL);
				for (bit = 1; bit < ATTR_BITS; bit++) {
					uint32_t one = 1u << bit;
					int want = !exists || (req & one) ? EINVAL : 0;

					assert_int_equal(check(types[t], from, &attr, all & ~one), want);
					want = exists && (all & one) ? 0 : EINVAL;
					assert_int_equal(check(types[t], from, &attr, UROCE_QP_STATE | req | one), want);
				}
			}
		}
	}
}

static void
without_a_state_the_qp_stays_where_it_is(void **state)
{
	struct uroce_qp_attr attr = good(T, UROCE_QPS_STATES);

	assert_int_equal(check(UROCE_QPT_RC, T, &attr, UROCE_QP_ACCESS_FLAGS), 0);
	assert_int_equal(check(UROCE_QPT_RC, T, &attr, UROCE_QP_TIMEOUT), EINVAL);
	assert_int_equal(check(UROCE_QPT_RC, D, &attr, UROCE_QP_TIMEOUT), 0);
	assert_int_equal(check(UROCE_QPT_RC, R, &attr, UROCE_QP_ACCESS_FLAGS), EINVAL);
	assert_int_equal(check(UROCE_QPT_UD, S, &attr, UROCE_QP_QKEY), EINVAL);
}

static void
cur_state_must_be_true(void **state)
{
	struct uroce_qp_attr attr = good(T, T);

	assert_int_equal(check(UROCE_QPT_UD, T, &attr, UROCE_QP_STATE | UROCE_QP_CUR_STATE), 0);
	assert_int_equal(check(UROCE_QPT_UD, Q, &attr, UROCE_QP_STATE | UROCE_QP_CUR_STATE), EINVAL);
	attr.cur_qp_state = Q;
	assert_int_equal(check(UROCE_QPT_UD, Q, &attr, UROCE_QP_STATE | UROCE_QP_CUR_STATE), 0);
	assert_int_equal(check(UROCE_QPT_RC, Q, &attr, UROCE_QP_STATE | UROCE_QP_CUR_STATE), EINVAL);
}

static void
unknown_types_states_and_bits_are_refused(void **state)
{
	struct uroce_qp_attr attr = good(S, UROCE_QPS_STATES);
	int type;

	assert_int_equal(check(UROCE_QPT_RC, S, &attr, UROCE_QP_STATE), EINVAL);
	attr.qp_state = UINT32_MAX;
	assert_int_equal(check(UROCE_QPT_RC, S, &attr, UROCE_QP_STATE), EINVAL);
	attr.qp_state = S;
	assert_int_equal(check(UROCE_QPT_RC, UROCE_QPS_STATES, &attr, UROCE_QP_STATE), EINVAL);
	assert_int_equal(check(UROCE_QPT_RC, S, &attr, UROCE_QP_STATE | 1u << 21), EINVAL);
	assert_int_equal(check(UROCE_QPT_RC, S, &attr, UROCE_QP_STATE | 1u << 31), EINVAL);
	for (type = -1; type < 12; type++)
		if (type < 1 || (type > 4 && type < 9) || type > 10)
			assert_int_equal(check((enum uroce_qp_type)type, S, &attr, UROCE_QP_STATE), EINVAL);
}

#define AT(member) offsetof(struct uroce_qp_attr, member), sizeof(((struct uroce_qp_attr *)0)->member)

/* One wrong value of each attribute, in a transition where it is allowed. */
static const struct {
	uint32_t bit;
	int from, to;
	size_t offset, size;
	uint32_t last_good, first_bad;
	const char *says;
} ranges[] = {
	{ UROCE_QP_EN_SQD_ASYNC_NOTIFY, T, D, AT(en_sqd_async_notify), 1, 2, "en_sqd_async_notify" },
	{ UROCE_QP_ACCESS_FLAGS, T, T, AT(qp_access_flags), 0x3ff003ff, 1 << 10, "qp_access_flags" },
	{ UROCE_QP_ACCESS_FLAGS, T, T, AT(qp_access_flags), 0, UINT32_C(1) << 31, "qp_access_flags" },
	{ UROCE_QP_PKEY_INDEX, D, D, AT(pkey_index), UROCE_MAX_PKEYS - 1, UROCE_MAX_PKEYS, "pkey_index" },
	{ UROCE_QP_PKEY_INDEX, S, I, AT(pkey_index), 0, 0xffff, "pkey_index" },
	{ UROCE_QP_PORT, S, I, AT(port_num), 1, 0, "port_num" },
	{ UROCE_QP_PORT, S, I, AT(port_num), 1, 2, "port_num" },
	{ UROCE_QP_PATH_MTU, I, R, AT(path_mtu), MTU, MTU + 1, "path_mtu" },
	{ UROCE_QP_PATH_MTU, I, R, AT(path_mtu), UROCE_MTU_256, 0, "path_mtu" },
	{ UROCE_QP_TIMEOUT, R, T, AT(timeout), 0, 32, "timeout" },
	{ UROCE_QP_RETRY_CNT, R, T, AT(retry_cnt), 0, 8, "retry_cnt" },
	{ UROCE_QP_RNR_RETRY, R, T, AT(rnr_retry), 0, 8, "rnr_retry" },
	{ UROCE_QP_RQ_PSN, I, R, AT(rq_psn), 0, 1 << 24, "rq_psn" },
	{ UROCE_QP_SQ_PSN, R, T, AT(sq_psn), 0, UINT32_MAX, "sq_psn" },
	{ UROCE_QP_MAX_QP_RD_ATOMIC, R, T, AT(max_rd_atomic), 0, UROCE_MAX_RD_ATOMIC + 1, "max_rd_atomic" },
	{ UROCE_QP_MAX_DEST_RD_ATOMIC, I, R, AT(max_dest_rd_atomic), 0, UROCE_MAX_RD_ATOMIC + 1,
	  "max_dest_rd_atomic" },
	{ UROCE_QP_MIN_RNR_TIMER, I, R, AT(min_rnr_timer), 0, 32, "min_rnr_timer" },
	{ UROCE_QP_DEST_QPN, I, R, AT(dest_qp_num), 2, 1 << 24, "dest_qp_num" },
	{ UROCE_QP_PATH_MIG_STATE, T, T, AT(path_mig_state), 1, 2, "path_mig_state" },
	{ UROCE_QP_ALT_PATH, T, T, AT(alt_ah.is_global), 1, 0, "alt_ah_attr" },
	{ UROCE_QP_ALT_PATH, T, T, AT(alt_ah.sgid_index), 0, UROCE_MAX_GIDS, "alt_ah_attr" },
	{ UROCE_QP_ALT_PATH, T, T, AT(alt_pkey_index), 0, UROCE_MAX_PKEYS, "alt_pkey_index" },
	{ UROCE_QP_ALT_PATH, T, T, AT(alt_port_num), 1, 2, "alt_port_num" },
	{ UROCE_QP_ALT_PATH, T, T, AT(alt_timeout), 31, 32, "alt_timeout" },
	{ UROCE_QP_AV, I, R, AT(ah.is_global), 1, 0, "is_global" },
	{ UROCE_QP_AV, I, R, AT(ah.port_num), 1, 0, "port_num" },
	{ UROCE_QP_AV, I, R, AT(ah.port_num), 1, 2, "port_num" },
	{ UROCE_QP_AV, I, R, AT(ah.sgid_index), 0, UROCE_MAX_GIDS, "sgid_index" },
	{ UROCE_QP_AV, I, R, AT(ah.sl), 0, 8, "sl" },
};

static void
set(struct uroce_qp_attr *attr, size_t offset, size_t size, uint32_t value)
{
	memcpy((char *)attr + offset, &value, size); /* little-endian */
}

static void
every_attribute_has_its_range(void **state)
{
	uint32_t req, opt;
	size_t i;

	for (i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		struct uroce_qp_attr attr = good(ranges[i].from, ranges[i].to);
		uint32_t mask;

		expected(UROCE_QPT_RC, ranges[i].from, ranges[i].to, &req, &opt);
		mask = UROCE_QP_STATE | req | ranges[i].bit;
		set(&attr, ranges[i].offset, ranges[i].size, ranges[i].last_good);
		assert_int_equal(check(UROCE_QPT_RC, ranges[i].from, &attr, mask), 0);
		set(&attr, ranges[i].offset, ranges[i].size, ranges[i].first_bad);
		assert_int_equal(check(UROCE_QPT_RC, ranges[i].from, &attr, mask), EINVAL);
		assert_non_null(strstr(why_not(UROCE_QPT_RC, ranges[i].from, &attr, mask), ranges[i].says));
		/* A wrong value that the mask doesn't name is nobody's business. */
		if (!(req & ranges[i].bit))
			assert_int_equal(check(UROCE_QPT_RC, ranges[i].from, &attr, mask & ~ranges[i].bit), 0);
	}
}

static void
a_zero_dgid_is_refused(void **state)
{
	struct uroce_qp_attr attr = good(I, R);
	uint32_t req, opt;

	expected(UROCE_QPT_UC, I, R, &req, &opt);
	memset(attr.ah.dgid, 0, sizeof(attr.ah.dgid));
	assert_int_equal(check(UROCE_QPT_UC, I, &attr, UROCE_QP_STATE | req), EINVAL);
}

static void
why_names_what_is_wrong(void **state)
{
	struct uroce_qp_attr attr = good(S, R);

	assert_string_equal(why_not(UROCE_QPT_RC, S, &attr, UROCE_QP_STATE), "RESET to RTR is not a legal transition");
	attr.qp_state = I;
	assert_string_equal(why_not(UROCE_QPT_RC, S, &attr, UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT),
			    "IBV_QP_ACCESS_FLAGS is required for this transition");
	assert_string_equal(why_not(UROCE_QPT_UD, S, &attr, UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT |
				    UROCE_QP_QKEY | UROCE_QP_SQ_PSN),
			    "IBV_QP_SQ_PSN is not allowed in this transition");
	assert_string_equal(why_not(UROCE_QPT_RC, S, &attr, UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT |
				    UROCE_QP_ACCESS_FLAGS | 1 << 25),
			    "IBV_QP_RATE_LIMIT is not allowed in this transition");
	attr.qp_state = T;
	attr.cur_qp_state = T;
	attr.alt_port_num = 2;
	assert_string_equal(why_not(UROCE_QPT_RC, T, &attr, UROCE_QP_STATE | UROCE_QP_ALT_PATH),
			    "alt_port_num must be 1: a device has one port, an alternate path other addresses");
}

static void
why_may_be_left_out(void **state)
{
	struct uroce_qp_attr attr = good(S, T);

	assert_int_equal(qp_modify_check(UROCE_QPT_RC, UROCE_QPS_RESET, &attr, UROCE_QP_STATE, MTU, NULL), EINVAL);
}

static void
states_have_names(void **state)
{
	assert_string_equal(qp_state_name(UROCE_QPS_RESET), "RESET");
	assert_string_equal(qp_state_name(UROCE_QPS_SQE), "SQE");
	assert_string_equal(qp_state_name(UROCE_QPS_ERR), "ERR");
	assert_non_null(qp_state_name(UROCE_QPS_STATES));
	assert_non_null(qp_state_name((enum uroce_qp_state)-1));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_transition_takes_exactly_its_attributes),
		cmocka_unit_test(without_a_state_the_qp_stays_where_it_is),
		cmocka_unit_test(cur_state_must_be_true),
		cmocka_unit_test(unknown_types_states_and_bits_are_refused),
		cmocka_unit_test(every_attribute_has_its_range),
		cmocka_unit_test(a_zero_dgid_is_refused),
		cmocka_unit_test(why_names_what_is_wrong),
		cmocka_unit_test(why_may_be_left_out),
		cmocka_unit_test(states_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
