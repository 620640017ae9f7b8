/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Keys, checks and the retirement of MRs. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include <rte_rcu_qsbr.h>

#include "util.h"

static uint8_t buf[4096];

static struct mr_params
params(void)
{
	static struct mem_seg seg;

	seg = (struct mem_seg){ .va = 0x10000, .length = sizeof(buf), .host = buf };
	return (struct mr_params){
		.pd = PD,
		.access = ALL_ACCESS,
		.addr = 0x10000,
		.iova = 0x10000,
		.length = sizeof(buf),
		.segs = &seg,
		.nb_segs = 1,
	};
}

static void
table_refuses_bad_sizes(void **state)
{
	assert_null(mr_table_create(0, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(mr_table_create(UROCE_MAX_MR + 1, NULL, 0));
	assert_int_equal(errno, EINVAL);
}

static void
key_finds_its_mr_until_destroyed(void **state)
{
	struct mr_table *t = mr_table_create(4, NULL, 0);
	struct mr *a = make_mapped(t, 0x1000, buf, 64), *b = make_mapped(t, 0x1000, buf, 64);
	uint32_t ka = a->key, kb = b->key;

	assert_int_not_equal(ka, kb);
	assert_ptr_equal(mr_get(t, ka), a);
	assert_ptr_equal(mr_get(t, kb), b);
	assert_int_equal(mr_table_count(t), 2);
	mr_destroy(t, a);
	assert_null(mr_get(t, ka));
	assert_ptr_equal(mr_get(t, kb), b);
	mr_destroy(t, b);
	assert_null(mr_get(t, kb));
	assert_int_equal(mr_table_count(t), 0);
	mr_table_destroy(t);
}

static void
unknown_keys_find_nothing(void **state)
{
	struct mr_table *t = mr_table_create(4, NULL, 0);
	struct mr *a = make_mapped(t, 0x1000, buf, 64);

	assert_null(mr_get(t, a->key ^ 1));
	assert_null(mr_get(t, 0));
	assert_null(mr_get(t, UINT32_MAX));
	assert_null(mr_get(t, 4 << 8));
	assert_null(mr_get(t, 3 << 8 | 1));
	mr_destroy(t, a);
	mr_table_destroy(t);
}

/* Indices are reused in the order in which they became free, with another variant; index 0 has 255 of them. */
static void
stale_key_stays_stale_for_as_long_as_possible(void **state)
{
	enum { SLOTS = 8 };
	struct mr_table *t = mr_table_create(SLOTS, NULL, 0);
	struct mr *mr = make_mapped(t, 0x1000, buf, 64);
	uint32_t first = mr->key, n;

	mr_destroy(t, mr);
	for (n = 1; n < SLOTS * 255; n++) {
		mr = make_mapped(t, 0x1000, buf, 64);
		assert_int_not_equal(mr->key, first);
		assert_int_not_equal(mr->key, 0);
		assert_int_equal(mr->key >> 8, n % SLOTS);
		assert_null(mr_get(t, first));
		mr_destroy(t, mr);
	}
	mr_table_destroy(t);
}

static void
full_table_gives_enomem_and_recovers(void **state)
{
	enum { SLOTS = 5 };
	struct mr_table *t = mr_table_create(SLOTS, NULL, 0);
	struct mr_params p = params();
	struct mr *mrs[SLOTS], *more = NULL;
	int i;

	for (i = 0; i < SLOTS; i++)
		mrs[i] = make_mapped(t, 0x1000, buf, 64);
	assert_int_equal(mr_create(t, &p, &more), ENOMEM);
	assert_null(more);
	mr_destroy(t, mrs[2]);
	assert_int_equal(mr_create(t, &p, &mrs[2]), 0);
	assert_int_equal(mr_create(t, &p, &more), ENOMEM);
	mr_destroy_bulk(t, mrs, SLOTS);
	assert_int_equal(mr_table_count(t), 0);
	mr_table_destroy(t);
}

static void
check_wants_pd_access_and_range(void **state)
{
	struct mr_table *t = mr_table_create(4, NULL, 0);
	struct mr_params p = params();
	struct mr *mr;
	uint64_t va = p.iova, end = va + p.length;

	p.access = LOCAL | UROCE_ACCESS_REMOTE_READ;
	assert_int_equal(mr_create(t, &p, &mr), 0);
	assert_ptr_equal(mr_check(t, mr->key, PD, 0, va, p.length), mr);
	assert_ptr_equal(mr_check(t, mr->key, PD, LOCAL, va, 1), mr);
	assert_null(mr_check(t, mr->key, PD + 1, 0, va, 1));
	assert_null(mr_check(t, mr->key, PD, UROCE_ACCESS_REMOTE_WRITE, va, 1));
	assert_null(mr_check(t, mr->key, PD, UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_WRITE, va, 1));
	assert_null(mr_check(t, mr->key + 1, PD, 0, va, 1));
	assert_null(mr_check(t, mr->key, PD, 0, va - 1, 1));
	assert_null(mr_check(t, mr->key, PD, 0, va - 1, 2));
	assert_null(mr_check(t, mr->key, PD, 0, va, p.length + 1));
	assert_null(mr_check(t, mr->key, PD, 0, end - 1, 2));
	assert_ptr_equal(mr_check(t, mr->key, PD, 0, end - 1, 1), mr);
	mr_destroy(t, mr);
	mr_table_destroy(t);
}

static void
check_survives_wrap_around(void **state)
{
	struct mr_table *t = mr_table_create(4, NULL, 0);
	struct mr_params p = params();
	struct mr *low, *high;

	assert_int_equal(mr_create(t, &p, &low), 0);
	assert_null(mr_check(t, low->key, PD, 0, p.iova + 1, UINT64_MAX));
	assert_null(mr_check(t, low->key, PD, 0, p.iova + 16, 0 - (uint64_t)8));
	assert_null(mr_check(t, low->key, PD, 0, UINT64_MAX, 2));
	assert_null(mr_check(t, low->key, PD, 0, 0, 1));

	/* A region whose last byte is the last of the address space. */
	p.iova = 0 - p.length;
	assert_int_equal(mr_create(t, &p, &high), 0);
	assert_ptr_equal(mr_check(t, high->key, PD, 0, UINT64_MAX, 1), high);
	assert_null(mr_check(t, high->key, PD, 0, UINT64_MAX, 2));
	assert_null(mr_check(t, high->key, PD, 0, 0, 1));
	assert_null(mr_check(t, high->key, PD, 0, p.iova - 1, 1));

	p.iova++;
	assert_int_equal(mr_create(t, &p, &high), EINVAL);
	mr_destroy(t, low);
	mr_destroy(t, high);
	mr_table_destroy(t);
}

static void
zero_length_is_good_inside_and_at_the_end_only(void **state)
{
	struct mr_table *t = mr_table_create(4, NULL, 0);
	struct mr_params p = params();
	struct mr *mr, *empty;

	assert_int_equal(mr_create(t, &p, &mr), 0);
	assert_ptr_equal(mr_check(t, mr->key, PD, 0, p.iova, 0), mr);
	assert_ptr_equal(mr_check(t, mr->key, PD, 0, p.iova + p.length, 0), mr);
	assert_null(mr_check(t, mr->key, PD, 0, p.iova + p.length + 1, 0));
	assert_null(mr_check(t, mr->key, PD, 0, p.iova - 1, 0));

	p.length = 0;
	p.nb_segs = 0;
	assert_int_equal(mr_create(t, &p, &empty), 0);
	assert_ptr_equal(mr_check(t, empty->key, PD, LOCAL, p.iova, 0), empty);
	assert_null(mr_check(t, empty->key, PD, LOCAL, p.iova, 1));
	assert_int_equal(mr_write(empty, p.iova, buf, 0), 0);
	assert_int_equal(mr_read(empty, p.iova, buf, 0), 0);
	mr_destroy(t, mr);
	mr_destroy(t, empty);
	mr_table_destroy(t);
}

static void
create_refuses_bad_access(void **state)
{
	static const uint32_t bad[] = {
		UROCE_ACCESS_REMOTE_WRITE,
		UROCE_ACCESS_REMOTE_ATOMIC,
		UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC,
		LOCAL | 1u << 10,
		LOCAL | 1u << 31,
	};
	struct mr_table *t = mr_table_create(4, NULL, 0);
	struct mr_params p = params();
	struct mr *mr;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		p.access = bad[i];
		assert_int_equal(mr_create(t, &p, &mr), EINVAL);
	}
	p.access = UROCE_ACCESS_RELAXED_ORDERING;
	assert_int_equal(mr_create(t, &p, &mr), 0);
	mr_destroy(t, mr);
	mr_table_destroy(t);
}

static void
create_refuses_segments_that_dont_cover_the_range(void **state)
{
	static const struct mem_seg bad[][2] = {
		{ { 0x10000, 64, buf }, { 0x10050, 64, buf } },             /* gap */
		{ { 0x10000, 64, buf }, { 0x10030, 64, buf } },             /* overlap */
		{ { 0x10001, 64, buf }, { 0x10041, 64, buf } },             /* begins late */
		{ { 0x10000, 64, buf }, { 0x10040, 63, buf } },             /* too short */
		{ { 0x10000, 64, buf }, { 0x10040, 65, buf } },             /* too long */
		{ { 0x10000, 128, buf }, { 0x10080, 0, buf } },             /* an empty one */
		{ { 0x10000, 64, buf }, { 0x10040, UINT64_MAX - 64, buf } }, /* wraps */
		{ { 0x10040, 64, buf }, { 0x10000, 64, buf } },             /* descending */
		{ { 0x10000, 64, buf }, { 0x10040, 64, NULL } },            /* remote, of nobody */
	};
	static struct mem_seg many[UROCE_MAX_MR_SEGS + 1];
	struct mr_table *t = mr_table_create(4, NULL, 0);
	struct mr_params p = params();
	struct mr *mr;
	size_t i;

	p.length = 128;
	p.nb_segs = 2;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		p.segs = bad[i];
		assert_int_equal(mr_create(t, &p, &mr), EINVAL);
	}
	p.nb_segs = 0;
	assert_int_equal(mr_create(t, &p, &mr), EINVAL);
	/* Of a byte each, and else as they should be. */
	for (i = 0; i <= UROCE_MAX_MR_SEGS; i++)
		many[i] = (struct mem_seg){ 0x10000 + i, 1, buf };
	p.segs = many;
	p.length = p.nb_segs = UROCE_MAX_MR_SEGS + 1;
	assert_int_equal(mr_create(t, &p, &mr), EINVAL);
	assert_int_equal(mr_table_count(t), 0);
	p.length = p.nb_segs = UROCE_MAX_MR_SEGS;
	assert_int_equal(mr_create(t, &p, &mr), 0);
	mr_destroy(t, mr);
	mr_table_destroy(t);
}

static void
pieces_that_continue_each_other_become_one(void **state)
{
	const struct mem_seg joined[] = { { 0x1000, 32, buf }, { 0x1020, 32, buf + 32 }, { 0x1040, 8, buf + 64 } };
	const struct mem_seg apart[] = { { 0x1000, 32, buf }, { 0x1020, 32, buf + 64 }, { 0x1040, 8, buf + 96 } };
	struct mr_table *t = mr_table_create(4, NULL, 0);
	struct mr *a = make_mr(t, joined, 3, NULL), *b = make_mr(t, apart, 3, NULL);

	assert_int_equal(a->nb_segs, 1);
	assert_ptr_equal(a->host, buf);
	assert_int_equal(b->nb_segs, 2);
	assert_null(b->host);
	assert_int_equal(b->segs[1].length, 40);
	mr_destroy(t, a);
	mr_destroy(t, b);
	mr_table_destroy(t);
}

static void
count_release(struct mr *mr, void *arg)
{
	*(int *)arg += mr->length == sizeof(buf) ? 1 : 100;
}

static void
release_is_called_once_per_mr(void **state)
{
	struct mr_table *t = mr_table_create(4, NULL, 0);
	struct mr_params p = params();
	struct mr *mrs[3];
	int released = 0, i;

	p.release = count_release;
	p.release_arg = &released;
	for (i = 0; i < 3; i++)
		assert_int_equal(mr_create(t, &p, &mrs[i]), 0);
	mr_destroy(t, mrs[0]);
	assert_int_equal(released, 1);
	mr_destroy_bulk(t, mrs + 1, 2);
	assert_int_equal(released, 3);
	mr_destroy_bulk(t, mrs, 0);
	mr_table_destroy(t);
}

/** A reader that takes a pointer, says so, and uses it until it is told to stop. */
struct reader {
	struct mr_table *t;
	struct rte_rcu_qsbr *qsbr;
	uint32_t key;
	uint32_t has_mr, let_go, gone, released_early;
	uint64_t length;
};

static void *
reader_main(void *arg)
{
	struct reader *r = arg;
	struct mr *mr;

	rte_rcu_qsbr_thread_register(r->qsbr, 0);
	rte_rcu_qsbr_thread_online(r->qsbr, 0);
	mr = mr_get(r->t, r->key);
	__atomic_store_n(&r->has_mr, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&r->let_go, __ATOMIC_ACQUIRE) == 0) {
		r->length = __atomic_load_n(&mr->length, __ATOMIC_RELAXED);
		sched_yield();
	}
	__atomic_store_n(&r->gone, 1, __ATOMIC_RELEASE);
	rte_rcu_qsbr_quiescent(r->qsbr, 0);
	rte_rcu_qsbr_thread_offline(r->qsbr, 0);
	rte_rcu_qsbr_thread_unregister(r->qsbr, 0);
	return NULL;
}

static void
note_release(struct mr *mr, void *arg)
{
	struct reader *r = arg;

	r->released_early = !__atomic_load_n(&r->gone, __ATOMIC_ACQUIRE);
}

static void *
let_go_later(void *arg)
{
	const struct timespec t = { .tv_nsec = 20000000 };
	struct reader *r = arg;

	nanosleep(&t, NULL);
	/* The key went stale at once, long before the region is released. */
	r->has_mr = mr_get(r->t, r->key) == NULL ? 2 : 3;
	__atomic_store_n(&r->let_go, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void
destroy_waits_until_no_reader_has_it(void **state)
{
	size_t bytes = rte_rcu_qsbr_get_memsize(1);
	struct rte_rcu_qsbr *qsbr = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(bytes, RTE_CACHE_LINE_SIZE));
	struct mr_params p = params();
	struct reader r = { .qsbr = qsbr, .released_early = 2 };
	pthread_t reader, later;
	struct mr *mr;

	assert_int_equal(rte_rcu_qsbr_init(qsbr, 1), 0);
	r.t = mr_table_create(4, qsbr, 0);
	p.release = note_release;
	p.release_arg = &r;
	assert_int_equal(mr_create(r.t, &p, &mr), 0);
	r.key = mr->key;
	assert_int_equal(pthread_create(&reader, NULL, reader_main, &r), 0);
	while (__atomic_load_n(&r.has_mr, __ATOMIC_ACQUIRE) == 0)
		sched_yield();
	assert_int_equal(pthread_create(&later, NULL, let_go_later, &r), 0);
	mr_destroy(r.t, mr);
	assert_int_equal(r.released_early, 0);
	pthread_join(later, NULL);
	pthread_join(reader, NULL);
	assert_int_equal(r.has_mr, 2);
	assert_int_equal(r.length, sizeof(buf));
	mr_table_destroy(r.t);
	free(qsbr);
}

/* Any address is right, also where the range goes beyond 2^64. */
static void
a_null_mr_reads_as_zeros_and_drops_what_is_written(void **state)
{
	const uint64_t addresses[] = { 0, 0x1234, UINT64_MAX - 31, UINT64_MAX - 2, UINT64_MAX };
	const struct mr_params p = { .pd = PD, .access = LOCAL, .null = true };
	struct mr_table *t = mr_table_create(4, NULL, 0);
	uint8_t data[32], zeros[32] = { 0 };
	uint64_t old = 1;
	struct mr *mr;

	assert_int_equal(mr_create(t, &p, &mr), 0);
	for (unsigned int i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
		assert_ptr_equal(mr_check(t, mr->key, PD, LOCAL, addresses[i], sizeof(data)), mr);
		assert_false(mr_is_remote(mr, addresses[i], sizeof(data)));
		memset(data, 0x55, sizeof(data));
		assert_int_equal(mr_write(mr, addresses[i], data, sizeof(data)), 0);
		assert_int_equal(mr_read(mr, addresses[i], data, sizeof(data)), 0);
		assert_memory_equal(data, zeros, sizeof(data));
	}
	assert_int_equal(mr_atomic(mr, 8, MR_FETCH_ADD, 1, 0, &old), 0);
	assert_int_equal(old, 0);
	/* Neither another PD nor a peer nor a window has a right to it. */
	assert_null(mr_check(t, mr->key, PD + 1, LOCAL, 0, 1));
	assert_null(mr_check(t, mr->key, PD, UROCE_ACCESS_REMOTE_READ, 0, 1));
	assert_null(mr_check(t, mr->key, PD, UROCE_ACCESS_REMOTE_WRITE, 0, 1));
	assert_null(mr_check(t, mr->key, PD, UROCE_ACCESS_MW_BIND, 0, 1));
	mr_destroy(t, mr);
	mr_table_destroy(t);
}

static void
a_null_mr_is_nothing_else(void **state)
{
	struct mr_table *t = mr_table_create(4, NULL, 0);
	struct mr_params p = params();
	struct mr *mr;

	p.null = true;
	p.access = LOCAL;
	assert_int_equal(mr_create(t, &p, &mr), EINVAL);
	p = (struct mr_params){ .pd = PD, .access = LOCAL | UROCE_ACCESS_REMOTE_READ, .null = true };
	assert_int_equal(mr_create(t, &p, &mr), EINVAL);
	mr_table_destroy(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_refuses_bad_sizes),
		cmocka_unit_test(key_finds_its_mr_until_destroyed),
		cmocka_unit_test(unknown_keys_find_nothing),
		cmocka_unit_test(stale_key_stays_stale_for_as_long_as_possible),
		cmocka_unit_test(full_table_gives_enomem_and_recovers),
		cmocka_unit_test(check_wants_pd_access_and_range),
		cmocka_unit_test(check_survives_wrap_around),
		cmocka_unit_test(zero_length_is_good_inside_and_at_the_end_only),
		cmocka_unit_test(create_refuses_bad_access),
		cmocka_unit_test(create_refuses_segments_that_dont_cover_the_range),
		cmocka_unit_test(pieces_that_continue_each_other_become_one),
		cmocka_unit_test(release_is_called_once_per_mr),
		cmocka_unit_test(destroy_waits_until_no_reader_has_it),
		cmocka_unit_test(a_null_mr_reads_as_zeros_and_drops_what_is_written),
		cmocka_unit_test(a_null_mr_is_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
