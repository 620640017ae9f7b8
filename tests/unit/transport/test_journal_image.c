/* SPDX-License-Identifier: BSD-3-Clause */
/* Images of QPs in journals: what is in them is found, also by another build, and a wrong bit is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "transport/core/types_priv.h"
#include "transport/journal/image_priv.h"
#include "transport/record/record_priv.h"

enum { QPS = 50 };

struct image {
	uint8_t at[JOURNAL_IMAGE_ROOM];
	uint64_t sum[2];
};

static struct qp *
random_qp(void)
{
	struct qp *qp = malloc(sizeof(*qp));
	uint8_t *bytes = (void *)qp;

	assert_non_null(qp);
	for (size_t i = 0; i < sizeof(*qp); i++)
		bytes[i] = (uint8_t)rand();
	/* Other values are no bools; orders of rings are small. */
#define BOOL(name, member) qp->member = rand() % 2;
	QP_RECORD_BOOL(BOOL)
#undef BOOL
	qp->req.sq.order = (uint32_t)rand() % 16;
	qp->rcv.rq.order = (uint32_t)rand() % 16;
	return qp;
}

static void
write_image(struct image *i, const struct qp *qp)
{
	struct journal_sum s = { .words = { 5, 7 } };

	memset(i, 0xaa, sizeof(*i));
	journal_image_write(&s, i->at, qp);
	journal_sum_end(&s, i->sum);
}

/* The same members as those that qp_save() writes one by one. */
static void
assert_same(const struct qp *qp, const struct qp_record *r)
{
	struct qp_record saved = { .timer_ns = qp->loss.deadline_ns, .giveup_ns = qp->loss.giveup_ns, .stuck_age_ns = qp->diag.stuck_ns, .nak_age_ns = qp->diag.nak_ns,
				   .why_age_ns = qp->diag.why_ns, .cnp_ns = qp->rcv.cnp_next_ns };

	record_members(qp, &saved);
	assert_memory_equal(r, &saved, sizeof(saved));
}

static void
each_member_is_found(void **state)
{
	struct journal_member table[JOURNAL_MEMBERS], known[JOURNAL_MEMBERS];
	struct qp_record r;
	struct image i;

	(void)state;
	assert_true(journal_members_write(table));
	assert_null(journal_members_read(table, JOURNAL_MEMBERS, JOURNAL_IMAGE_BYTES, known));
	for (unsigned int n = 0; n < QPS; n++) {
		struct qp *qp = random_qp();

		write_image(&i, qp);
		memset(&r, 0, sizeof(r));
		assert_true(journal_image_read(known, i.at, &r));
		assert_same(qp, &r);
		free(qp);
	}
}

/* Another build has its members in another order, with some that nobody here knows. */
static void
another_build_finds_them_too(void **state)
{
	struct journal_member table[JOURNAL_MEMBERS], theirs[JOURNAL_MEMBERS + 1], known[JOURNAL_MEMBERS];
	uint8_t image[JOURNAL_IMAGE_ROOM] = { 0 };
	struct qp *qp = random_qp();
	struct qp_record r = { 0 };
	uint16_t at = 3;
	struct image i;

	(void)state;
	assert_true(journal_members_write(table));
	write_image(&i, qp);
	theirs[0] = (struct journal_member){ .name = "new_member", .at = 1, .bytes = 2 };
	for (uint32_t n = 0; n < JOURNAL_MEMBERS; n++) {
		const struct journal_member *m = &table[JOURNAL_MEMBERS - 1 - n];

		theirs[1 + n] = *m;
		theirs[1 + n].at = at;
		memcpy(image + at, i.at + m->at, m->bytes);
		at = (uint16_t)(at + m->bytes);
	}
	assert_null(journal_members_read(theirs, JOURNAL_MEMBERS + 1, at, known));
	assert_true(journal_image_read(known, image, &r));
	assert_same(qp, &r);
	free(qp);
}

static void
what_is_wrong_is_refused(void **state)
{
	struct journal_member table[JOURNAL_MEMBERS], known[JOURNAL_MEMBERS], *order = &table[JOURNAL_MEMBER_sq_order], *credits = &table[JOURNAL_MEMBER_credits];
	const struct journal_member good_order = { .name = "sq_order", .bytes = 4 };
	struct qp_record r = { 0 };
	struct image i = { .at = { 0 } };
	uint32_t large = 256;
	uint16_t at;

	(void)state;
	assert_true(journal_members_write(table));
	at = order->at;
	assert_string_equal(journal_members_read(table, 0, JOURNAL_IMAGE_BYTES, known), table[0].name);
	order->name[0] = 'x';
	assert_string_equal(journal_members_read(table, JOURNAL_MEMBERS, JOURNAL_IMAGE_BYTES, known), "sq_order");
	*order = good_order;
	order->at = JOURNAL_IMAGE_BYTES - 3;
	assert_string_equal(journal_members_read(table, JOURNAL_MEMBERS, JOURNAL_IMAGE_BYTES, known), "sq_order");
	order->at--;
	assert_null(journal_members_read(table, JOURNAL_MEMBERS, JOURNAL_IMAGE_BYTES, known));
	order->bytes = 0;
	assert_string_equal(journal_members_read(table, JOURNAL_MEMBERS, JOURNAL_IMAGE_BYTES, known), "sq_order");
	order->bytes = 9;
	order->at = 0;
	assert_string_equal(journal_members_read(table, JOURNAL_MEMBERS, JOURNAL_IMAGE_BYTES, known), "sq_order");
	*order = good_order;
	order->at = at;
	order->bit = 1;
	assert_string_equal(journal_members_read(table, JOURNAL_MEMBERS, JOURNAL_IMAGE_BYTES, known), "sq_order");
	order->bit = 0;
	credits->bit = 0;
	assert_string_equal(journal_members_read(table, JOURNAL_MEMBERS, JOURNAL_IMAGE_BYTES, known), "credits");
	credits->bit = 1;
	assert_null(journal_members_read(table, JOURNAL_MEMBERS, JOURNAL_IMAGE_BYTES, known));
	assert_true(journal_image_read(known, i.at, &r));
	/* More than a byte, where the record has a byte. */
	memcpy(i.at + at, &large, sizeof(large));
	assert_false(journal_image_read(known, i.at, &r));
}

static void
each_bit_changes_the_sum(void **state)
{
	struct qp *qp = random_qp();
	uint64_t sum[2];
	struct image i;

	(void)state;
	write_image(&i, qp);
	for (uint32_t bit = 0; bit <= 8 * JOURNAL_IMAGE_BYTES; bit++) {
		struct journal_sum s = { .words = { 5, 7 } };

		/* At last none. */
		if (bit < 8 * JOURNAL_IMAGE_BYTES)
			i.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
		journal_sum_of(&s, i.at, JOURNAL_IMAGE_BYTES);
		journal_sum_end(&s, sum);
		if (bit == 8 * JOURNAL_IMAGE_BYTES) {
			assert_memory_equal(sum, i.sum, sizeof(sum));
			break;
		}
		assert_memory_not_equal(sum, i.sum, sizeof(sum));
		i.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	free(qp);
}

/* Pairs that have changed places, a pair for which another one comes twice. */
static void
the_order_is_in_the_sum(void **state)
{
	const journal_pair pairs[][2] = { { { 1, 2 }, { 3, 4 } }, { { 3, 4 }, { 1, 2 } }, { { 2, 3 }, { 2, 3 } }, { { 0, 0 }, { 4, 6 } } };
	uint64_t sums[RTE_DIM(pairs)][2];

	(void)state;
	for (uint32_t i = 0; i < RTE_DIM(pairs); i++) {
		struct journal_sum s = { 0 };

		journal_sum_pair(&s, pairs[i][0]);
		journal_sum_pair(&s, pairs[i][1]);
		journal_sum_end(&s, sums[i]);
		for (uint32_t other = 0; other < i; other++)
			assert_memory_not_equal(sums[i], sums[other], sizeof(sums[i]));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_member_is_found),
		cmocka_unit_test(another_build_finds_them_too),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test(each_bit_changes_the_sum),
		cmocka_unit_test(the_order_is_in_the_sum),
	};

	srand(2911);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
