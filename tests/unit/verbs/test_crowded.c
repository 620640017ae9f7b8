/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread that polls in vain: when it yields. sched_yield() is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bed.h"

enum { ROUNDS = 4 };

static unsigned int yields;

int __wrap_sched_yield(void);

int
__wrap_sched_yield(void)
{
	yields++;
	return 0;
}

/* Poll an empty CQ, of a program of two engines, the second of which says @p crowded. @return how often that yielded. */
static unsigned int
poll_in_vain(enum ring_crowded crowded, unsigned int polls)
{
	static struct ring_db dbs[2];
	struct ibv_wc wc;
	struct bed b;

	bed_init(&b, IBV_QPT_RC);
	b.ctx.nb_engines = 2;
	b.ctx.doorbells = (void *)dbs;
	b.ctx.db_stride = sizeof(dbs[0]);
	atomic_store(&dbs[1].crowded, crowded);
	yields = 0;
	for (unsigned int i = 0; i < polls; i++)
		assert_int_equal(client_poll_cq(&b.cq.cq, 1, &wc), 0);
	bed_fini(&b);
	return yields;
}

static void
with_cores_enough_it_does_not_yield(void **state)
{
	assert_int_equal(poll_in_vain(RING_CORES_ENOUGH, ROUNDS * CLIENT_SOON_POLLS), 0);
}

static void
where_cores_are_short_it_yields_at_once(void **state)
{
	assert_int_equal(poll_in_vain(RING_CROWDED, CLIENT_EMPTY_POLLS - 1), 0);
	assert_int_equal(poll_in_vain(RING_CROWDED, ROUNDS * CLIENT_EMPTY_POLLS), ROUNDS);
}

static void
for_what_comes_soon_it_waits_longer(void **state)
{
	assert_int_equal(poll_in_vain(RING_CROWDED_SOON, CLIENT_SOON_POLLS - 1), 0);
	assert_int_equal(poll_in_vain(RING_CROWDED_SOON, ROUNDS * CLIENT_SOON_POLLS), ROUNDS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_cores_enough_it_does_not_yield),
		cmocka_unit_test(where_cores_are_short_it_yields_at_once),
		cmocka_unit_test(for_what_comes_soon_it_waits_longer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
