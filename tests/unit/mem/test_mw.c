/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Memory windows: what may be bound, what a bound window opens and to whom, and what it holds. */
#include <pthread.h>
#include <stdlib.h>

#include "util.h"

#include "mem/mw.h"

enum { QP = 0x1234, OTHER_QP = 0x1235, BYTES = 4096, VA = 0x10000 };
#define READ UROCE_ACCESS_REMOTE_READ
#define WRITE UROCE_ACCESS_REMOTE_WRITE

static uint8_t buf[BYTES];

/** A table with one MR that permits windows and one window. */
struct bed {
	struct mr_table *t;
	struct mr *mr;
	struct mw *mw;
};

static struct mr *
mr_with(struct mr_table *t, uint32_t pd, uint32_t access)
{
	struct mem_seg seg = { .va = VA, .length = BYTES, .host = buf };
	struct mr_params p = { .pd = pd, .access = access, .addr = VA, .iova = VA, .length = BYTES, .segs = &seg,
			       .nb_segs = 1 };
	struct mr *mr;

	assert_int_equal(mr_create(t, &p, &mr), 0);
	return mr;
}

static void
bed_up(struct bed *b, enum mw_type type)
{
	b->t = mr_table_create(8, NULL, 0);
	/* What a window grants need not be granted by the MR's own key. */
	b->mr = mr_with(b->t, PD, LOCAL | UROCE_ACCESS_MW_BIND);
	assert_int_equal(mw_create(b->t, PD, type, &b->mw), 0);
}

static void
bed_down(struct bed *b)
{
	mw_destroy_bulk(b->t, &b->mw, 1);
	assert_true(mr_retire(b->mr));
	mr_destroy(b->t, b->mr);
	assert_int_equal(mr_table_count(b->t), 0);
	mr_table_destroy(b->t);
}

/** A good bind of bytes 100 to 299, with the next key. */
static struct mw_bind
good(const struct bed *b)
{
	uint32_t key = mw_key(b->mw);

	return (struct mw_bind){ .key = (key & ~0xffu) | ((key + 1) & 0xff), .lkey = b->mr->key, .addr = VA + 100,
				 .length = 200, .access = READ | WRITE };
}

static struct mr *
look(const struct bed *b, uint32_t key, uint32_t qpn, uint32_t access, uint64_t va, uint64_t len)
{
	return mr_check_remote(b->t, key, PD, qpn, access, &va, len);
}

static void
unbound_window_opens_nothing(void **state)
{
	struct bed b;

	for (enum mw_type type = MW_TYPE_1; type <= MW_TYPE_2; type++) {
		bed_up(&b, type);
		assert_null(look(&b, mw_key(b.mw), QP, READ, VA, 1));
		assert_null(look(&b, mw_key(b.mw), QP, 0, VA, 0));
		assert_null(look(&b, mw_key(b.mw), QP, 0, 0, 0));
		bed_down(&b);
	}
}

static void
bound_window_opens_its_range_with_its_rights(void **state)
{
	struct mw_bind w;
	struct bed b;

	for (enum mw_type type = MW_TYPE_1; type <= MW_TYPE_2; type++) {
		bed_up(&b, type);
		w = good(&b);
		w.access = READ;
		assert_true(mw_bind(b.t, &w, PD, QP));
		assert_int_equal(mw_key(b.mw), w.key);
		assert_ptr_equal(look(&b, w.key, QP, READ, VA + 100, 200), b.mr);
		assert_ptr_equal(look(&b, w.key, QP, READ, VA + 300, 0), b.mr);
		assert_null(look(&b, w.key, QP, WRITE, VA + 100, 1));
		assert_null(look(&b, w.key, QP, READ | UROCE_ACCESS_REMOTE_ATOMIC, VA + 104, 8));
		assert_null(look(&b, w.key, QP, READ, VA + 99, 1));
		assert_null(look(&b, w.key, QP, READ, VA + 299, 2));
		assert_null(look(&b, w.key, QP, READ, VA + 101, UINT64_MAX));
		/* The MR's own key still grants nothing. */
		assert_null(look(&b, b.mr->key, QP, READ, VA + 100, 1));
		bed_down(&b);
	}
}

/* The key's 8-bit consumer part counts. */
static void
all_eight_chosen_bits_of_the_key_count(void **state)
{
	struct mw_bind w;
	struct bed b;

	bed_up(&b, MW_TYPE_2);
	w = good(&b);
	w.key = (w.key & ~0xffu) | 0xa5;
	assert_true(mw_bind(b.t, &w, PD, QP));
	for (uint32_t low = 0; low < 256; low++)
		assert_int_equal(look(&b, (w.key & ~0xffu) | low, QP, READ, VA + 100, 1) != NULL, low == 0xa5);
	bed_down(&b);
}

static void
window_key_is_no_local_key(void **state)
{
	struct mw_bind w;
	struct bed b;

	bed_up(&b, MW_TYPE_1);
	w = good(&b);
	assert_true(mw_bind(b.t, &w, PD, QP));
	assert_null(mr_get(b.t, w.key));
	assert_null(mr_check(b.t, w.key, PD, 0, VA + 100, 1));
	assert_null(mr_get(b.t, MR_KEY_NONE));
	/* Nor can a window be bound to it. */
	w.lkey = w.key++;
	assert_false(mw_bind(b.t, &w, PD, QP));
	bed_down(&b);
}

/* o10-36.2.2 */
static void
type_1_window_is_never_zero_based(void **state)
{
	struct mw_bind w;
	struct bed b;

	bed_up(&b, MW_TYPE_1);
	w = good(&b);
	w.access |= UROCE_ACCESS_ZERO_BASED;
	assert_false(mw_bind(b.t, &w, PD, QP));
	bed_down(&b);
}

static void
type_1_window_is_for_all_qps_of_its_pd_and_bound_anew_at_will(void **state)
{
	struct mw_bind w, again;
	struct bed b;
	uint64_t va = VA + 100;

	bed_up(&b, MW_TYPE_1);
	w = good(&b);
	assert_true(mw_bind(b.t, &w, PD, QP));
	assert_ptr_equal(look(&b, w.key, OTHER_QP, READ, va, 1), b.mr);
	assert_null(mr_check_remote(b.t, w.key, PD + 1, QP, READ, &va, 1));
	again = good(&b);
	again.addr += 1000;
	assert_true(mw_bind(b.t, &again, PD, OTHER_QP));
	assert_null(look(&b, w.key, QP, READ, VA + 100, 1));
	assert_null(look(&b, again.key, QP, READ, VA + 100, 1));
	assert_ptr_equal(look(&b, again.key, QP, READ, VA + 1100, 1), b.mr);
	/* Length 0 unbinds, whatever the lkey says. */
	w = (struct mw_bind){ .key = again.key + 1, .lkey = 0 };
	assert_true(mw_bind(b.t, &w, PD, QP));
	assert_null(look(&b, w.key, QP, 0, VA + 1100, 0));
	assert_true(mr_retire(b.mr));
	b.mr->nb_windows = 0;
	bed_down(&b);
}

/* o10-37.2.26 */
static void
type_1_window_is_not_invalidated(void **state)
{
	struct mw_bind w;
	struct bed b;

	bed_up(&b, MW_TYPE_1);
	w = good(&b);
	assert_true(mw_bind(b.t, &w, PD, QP));
	assert_false(mw_invalidate(b.t, w.key, PD, QP));
	assert_non_null(look(&b, w.key, QP, READ, VA + 100, 1));
	bed_down(&b);
}

/* o10-37.2.30 */
static void
type_2_window_is_bound_only_when_free(void **state)
{
	struct mw_bind w, again;
	struct bed b;

	bed_up(&b, MW_TYPE_2);
	w = good(&b);
	assert_true(mw_bind(b.t, &w, PD, QP));
	again = good(&b);
	assert_false(mw_bind(b.t, &again, PD, QP));
	assert_non_null(look(&b, w.key, QP, READ, VA + 100, 1));
	assert_true(mw_invalidate(b.t, w.key, PD, QP));
	assert_null(look(&b, w.key, QP, READ, VA + 100, 1));
	assert_true(mw_bind(b.t, &again, PD, OTHER_QP));
	assert_non_null(look(&b, again.key, OTHER_QP, READ, VA + 100, 1));
	bed_down(&b);
}

/* o10-37.2.40 */
static void
type_2_window_is_not_bound_to_nothing(void **state)
{
	struct mw_bind w;
	struct bed b;

	bed_up(&b, MW_TYPE_2);
	w = good(&b);
	w.length = 0;
	assert_false(mw_bind(b.t, &w, PD, QP));
	bed_down(&b);
}

static void
type_2b_window_is_its_qps_alone(void **state)
{
	struct mw_bind w;
	struct bed b;

	bed_up(&b, MW_TYPE_2);
	w = good(&b);
	assert_true(mw_bind(b.t, &w, PD, QP));
	assert_null(look(&b, w.key, OTHER_QP, READ, VA + 100, 1));
	assert_false(mw_invalidate(b.t, w.key, PD, OTHER_QP));
	assert_false(mw_invalidate(b.t, w.key, PD + 1, QP));
	assert_false(mw_invalidate(b.t, w.key + 1, PD, QP));
	assert_true(mw_invalidate(b.t, w.key, PD, QP));
	assert_false(mw_invalidate(b.t, w.key, PD, QP));
	bed_down(&b);
}

static void
zero_based_window_counts_from_its_start(void **state)
{
	struct mw_bind w;
	uint64_t va = 7;
	struct bed b;

	bed_up(&b, MW_TYPE_2);
	w = good(&b);
	w.access |= UROCE_ACCESS_ZERO_BASED;
	assert_true(mw_bind(b.t, &w, PD, QP));
	assert_ptr_equal(mr_check_remote(b.t, w.key, PD, QP, READ, &va, 193), b.mr);
	assert_int_equal(va, VA + 107);
	va = 7;
	assert_null(mr_check_remote(b.t, w.key, PD, QP, READ, &va, 194));
	assert_null(look(&b, w.key, QP, READ, VA + 100, 1));
	bed_down(&b);
}

/* C10-72 */
static void
qp_window_and_mr_are_of_one_pd(void **state)
{
	struct mw_bind w;
	struct mr *other;
	struct bed b;

	for (enum mw_type type = MW_TYPE_1; type <= MW_TYPE_2; type++) {
		bed_up(&b, type);
		w = good(&b);
		assert_false(mw_bind(b.t, &w, PD + 1, QP));
		other = mr_with(b.t, PD + 1, LOCAL | UROCE_ACCESS_MW_BIND);
		w.lkey = other->key;
		assert_false(mw_bind(b.t, &w, PD, QP));
		assert_false(mw_bind(b.t, &w, PD + 1, QP));
		mr_destroy(b.t, other);
		bed_down(&b);
	}
}

/* C10-73 */
static void
mr_must_permit_windows(void **state)
{
	struct mw_bind w;
	struct mr *other;
	struct bed b;

	bed_up(&b, MW_TYPE_2);
	other = mr_with(b.t, PD, ALL_ACCESS);
	w = good(&b);
	w.lkey = other->key;
	assert_false(mw_bind(b.t, &w, PD, QP));
	w.lkey = b.mr->key ^ 1;
	assert_false(mw_bind(b.t, &w, PD, QP));
	mr_destroy(b.t, other);
	bed_down(&b);
}

/* C10-74 */
static void
window_to_write_needs_an_mr_with_local_write(void **state)
{
	static const uint32_t writes[] = { WRITE, UROCE_ACCESS_REMOTE_ATOMIC };
	struct mw_bind w;
	struct mr *other;
	struct bed b;

	bed_up(&b, MW_TYPE_2);
	other = mr_with(b.t, PD, UROCE_ACCESS_MW_BIND);
	w = good(&b);
	w.lkey = other->key;
	for (int i = 0; i < 2; i++) {
		w.access = READ | writes[i];
		assert_false(mw_bind(b.t, &w, PD, QP));
	}
	w.access = READ;
	assert_true(mw_bind(b.t, &w, PD, QP));
	assert_true(mw_invalidate(b.t, w.key, PD, QP));
	mr_destroy(b.t, other);
	bed_down(&b);
}

/* C10-75 */
static void
window_lies_inside_its_mr(void **state)
{
	static const struct {
		uint64_t addr, length;
		bool good;
	} cases[] = {
		{ VA, BYTES, true },
		{ VA + BYTES - 1, 1, true },
		{ VA, BYTES + 1, false },
		{ VA - 1, 1, false },
		{ VA + BYTES, 1, false },
		{ VA + 1, UINT64_MAX, false },
		{ 0, UINT64_MAX, false },
		{ UINT64_MAX, 2, false },
	};
	struct mw_bind w;
	struct bed b;

	bed_up(&b, MW_TYPE_2);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		w = good(&b);
		w.addr = cases[i].addr;
		w.length = cases[i].length;
		assert_int_equal(mw_bind(b.t, &w, PD, QP), cases[i].good);
		assert_int_equal(mw_invalidate(b.t, w.key, PD, QP), cases[i].good);
	}
	bed_down(&b);
}

static void
only_remote_rights_can_be_granted(void **state)
{
	struct mw_bind w;
	struct bed b;

	bed_up(&b, MW_TYPE_2);
	for (int bit = 0; bit < 32; bit++) {
		w = good(&b);
		w.access = 1u << bit;
		assert_int_equal(mw_bind(b.t, &w, PD, QP), (MW_ACCESS_KNOWN >> bit & 1) != 0);
		mw_invalidate(b.t, w.key, PD, QP);
	}
	bed_down(&b);
}

static void
keys_of_mrs_and_of_nothing_are_not_bound_or_invalidated(void **state)
{
	struct mw_bind w;
	struct bed b;

	bed_up(&b, MW_TYPE_2);
	w = good(&b);
	for (uint32_t key = 0; key < 9 << 8; key += 0x7f) {
		if (key >> 8 == mw_key(b.mw) >> 8)
			continue;
		w.key = key;
		assert_false(mw_bind(b.t, &w, PD, QP));
		assert_false(mw_invalidate(b.t, key, PD, QP));
	}
	assert_false(mw_invalidate(b.t, b.mr->key, PD, QP));
	assert_false(mw_invalidate(b.t, UINT32_MAX, PD, QP));
	assert_non_null(mr_get(b.t, b.mr->key));
	bed_down(&b);
}

static void
mr_with_bound_windows_cannot_be_retired(void **state)
{
	struct mw_bind w;
	struct bed b;

	bed_up(&b, MW_TYPE_2);
	w = good(&b);
	assert_true(mw_bind(b.t, &w, PD, QP));
	assert_false(mr_retire(b.mr));
	assert_true(mw_invalidate(b.t, w.key, PD, QP));
	assert_true(mr_retire(b.mr));
	/* A bind on its way comes too late. */
	assert_false(mw_bind(b.t, &w, PD, QP));
	b.mr->nb_windows = 0;
	assert_true(mw_bind(b.t, &w, PD, QP));
	bed_down(&b);
}

static void
key_of_a_freed_window_stays_stale(void **state)
{
	struct mr_table *t = mr_table_create(2, NULL, 0);
	struct mr *mr = mr_with(t, PD, LOCAL | UROCE_ACCESS_MW_BIND), *next;
	struct mw_bind w = { .lkey = mr->key, .addr = VA, .length = 1, .access = READ };
	uint64_t va = VA;
	struct mw *mw;

	assert_int_equal(mw_create(t, PD, MW_TYPE_2, &mw), 0);
	assert_int_equal(mw_create(t, PD, MW_TYPE_2, &(struct mw *){ NULL }), ENOMEM);
	assert_int_equal(mw_create(t, PD, 3, &(struct mw *){ NULL }), EINVAL);
	/* What the table would give out next, if it didn't know what the program chose. */
	w.key = mw_key(mw) + 1;
	assert_true(mw_bind(t, &w, PD, QP));
	mw_destroy_bulk(t, &mw, 1);
	assert_null(mr_check_remote(t, w.key, PD, QP, READ, &va, 1));
	next = mr_with(t, PD, LOCAL | READ);
	assert_int_equal(next->key >> 8, w.key >> 8);
	assert_int_not_equal(next->key, w.key);
	assert_null(mr_check_remote(t, w.key, PD, QP, READ, &va, 1));
	mr_destroy(t, next);
	mr_destroy(t, mr);
	mr_table_destroy(t);
}

/** Engines that bind one type 1 window to one of two places of different lengths, and look. */
struct racer {
	struct bed *b;
	unsigned int id;
	unsigned int torn, refused;
};

enum { RACES = 20000 };

static void *
race(void *arg)
{
	struct racer *r = arg;
	struct mw_bind w = good(r->b);
	/* Place 0: 16 bytes at 0, key 0x10; place 1: 32 bytes at 1024, key 0x11. */
	unsigned int place = r->id;

	w.key = (w.key & ~0xffu) | (0x10 + place);
	w.addr = VA + place * 1024;
	w.length = 16u << place;
	for (int i = 0; i < RACES; i++) {
		r->refused += !mw_bind(r->b->t, &w, PD, QP);
		/* With this key it is bound to this place or not at all. */
		r->torn += look(r->b, w.key, QP, READ, VA + !place * 1024, 1) != NULL;
		r->torn += look(r->b, w.key, QP, READ, w.addr, w.length + 1) != NULL;
	}
	return NULL;
}

static void
engines_that_bind_one_window_at_once_leave_one_of_their_bindings(void **state)
{
	struct racer r[2];
	pthread_t thread[2];
	struct bed b;

	bed_up(&b, MW_TYPE_1);
	for (unsigned int i = 0; i < 2; i++) {
		r[i] = (struct racer){ .b = &b, .id = i };
		assert_int_equal(pthread_create(&thread[i], NULL, race, &r[i]), 0);
	}
	for (unsigned int i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(r[i].torn, 0);
		assert_int_equal(r[i].refused, 0);
	}
	assert_int_equal(b.mr->nb_windows, 1);
	bed_down(&b);
}

static void
windows_are_as_they_were_in_another_table(void **state)
{
	struct mem_seg seg = { .va = VA, .length = BYTES, .host = buf };
	struct mr_params p = { .pd = PD, .access = LOCAL | UROCE_ACCESS_MW_BIND, .addr = VA, .iova = VA, .length = BYTES, .segs = &seg, .nb_segs = 1 };
	struct bed b, to;
	struct mw_state s;
	struct mw_bind w;
	struct mr *other;

	bed_up(&b, MW_TYPE_2);
	w = good(&b);
	assert_true(mw_bind(b.t, &w, PD, QP));
	mw_save(b.mw, &s);
	to.t = mr_table_create(8, NULL, 0);
	/* Without its MR it can't have been bound. */
	assert_int_equal(mw_restore(to.t, &s, &to.mw), EINVAL);
	assert_int_equal(mr_table_count(to.t), 0);
	p.key = b.mr->key;
	assert_int_equal(mr_create(to.t, &p, &to.mr), 0);
	assert_int_equal(to.mr->key, b.mr->key);
	assert_int_equal(mr_create(to.t, &p, &other), EEXIST);
	p.key = 8u << 8 | 1; /* beyond the table */
	assert_int_equal(mr_create(to.t, &p, &other), EEXIST);
	assert_int_equal(mw_restore(to.t, &s, &to.mw), 0);
	assert_int_equal(mw_restore(to.t, &s, &b.mw), EEXIST);
	assert_int_equal(mw_key(to.mw), w.key);
	assert_ptr_equal(look(&to, w.key, QP, READ, VA + 100, 200), to.mr);
	assert_null(look(&to, w.key, QP + 1, READ, VA + 100, 200));
	assert_null(look(&to, w.key, QP, READ, VA + 100, 201));
	assert_false(mr_retire(to.mr));
	s.type = 3;
	assert_int_equal(mw_restore(to.t, &s, &b.mw), EINVAL);
	bed_down(&to);
	bed_down(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unbound_window_opens_nothing),
		cmocka_unit_test(bound_window_opens_its_range_with_its_rights),
		cmocka_unit_test(all_eight_chosen_bits_of_the_key_count),
		cmocka_unit_test(window_key_is_no_local_key),
		cmocka_unit_test(type_1_window_is_never_zero_based),
		cmocka_unit_test(type_1_window_is_for_all_qps_of_its_pd_and_bound_anew_at_will),
		cmocka_unit_test(type_1_window_is_not_invalidated),
		cmocka_unit_test(type_2_window_is_bound_only_when_free),
		cmocka_unit_test(type_2_window_is_not_bound_to_nothing),
		cmocka_unit_test(type_2b_window_is_its_qps_alone),
		cmocka_unit_test(zero_based_window_counts_from_its_start),
		cmocka_unit_test(qp_window_and_mr_are_of_one_pd),
		cmocka_unit_test(mr_must_permit_windows),
		cmocka_unit_test(window_to_write_needs_an_mr_with_local_write),
		cmocka_unit_test(window_lies_inside_its_mr),
		cmocka_unit_test(only_remote_rights_can_be_granted),
		cmocka_unit_test(keys_of_mrs_and_of_nothing_are_not_bound_or_invalidated),
		cmocka_unit_test(mr_with_bound_windows_cannot_be_retired),
		cmocka_unit_test(windows_are_as_they_were_in_another_table),
		cmocka_unit_test(key_of_a_freed_window_stays_stale),
		cmocka_unit_test(engines_that_bind_one_window_at_once_leave_one_of_their_bindings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
