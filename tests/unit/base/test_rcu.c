/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <rte_rcu_qsbr.h>

#include "base/container_of.h"
#include "base/rcu.h"

enum { READER = 0 };

struct object {
	struct deferred deferred;
	unsigned int *freed; /* gets the order in which it was freed, from 1 */
};

static unsigned int nb_freed;

static void
object_free(struct deferred *d)
{
	struct object *o = container_of(d, struct object, deferred);

	*o->freed = ++nb_freed;
	free(o);
}

static struct deferred *
object_new(unsigned int *freed)
{
	struct object *o = calloc(1, sizeof(*o));

	assert_non_null(o);
	*freed = 0;
	o->freed = freed;
	return &o->deferred;
}

/** An RCU with one reader, online. */
static struct rte_rcu_qsbr *
rcu_new(void)
{
	struct rte_rcu_qsbr *q = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(rte_rcu_qsbr_get_memsize(1), RTE_CACHE_LINE_SIZE));

	assert_non_null(q);
	assert_int_equal(rte_rcu_qsbr_init(q, 1), 0);
	rte_rcu_qsbr_thread_register(q, READER);
	rte_rcu_qsbr_thread_online(q, READER);
	nb_freed = 0;
	return q;
}

static void
an_object_lives_until_the_reader_is_quiescent(void **state)
{
	struct rte_rcu_qsbr *q = rcu_new();
	struct deferred_list l = { .qsbr = q, .free = object_free };
	unsigned int a, b;

	deferred_free(&l, object_new(&a));
	deferred_reap(&l);
	assert_int_equal(a, 0);
	rte_rcu_qsbr_quiescent(q, READER);
	/* b was unpublished after that. */
	deferred_free(&l, object_new(&b));
	assert_int_equal(a, 1);
	assert_int_equal(b, 0);
	rte_rcu_qsbr_quiescent(q, READER);
	deferred_reap(&l);
	assert_int_equal(b, 2);
	assert_null(l.first);
	free(q);
}

static void
objects_are_freed_in_the_order_in_which_they_came(void **state)
{
	struct rte_rcu_qsbr *q = rcu_new();
	struct deferred_list l = { .qsbr = q, .free = object_free };
	unsigned int freed[3];

	for (unsigned int i = 0; i < 3; i++)
		deferred_free(&l, object_new(&freed[i]));
	deferred_free_all(&l);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(freed[i], i + 1);
	free(q);
}

static void
without_readers_objects_are_freed_at_once(void **state)
{
	struct deferred_list l = { .free = object_free };
	unsigned int a;

	nb_freed = 0;
	deferred_free(&l, object_new(&a));
	assert_int_equal(a, 1);
	rcu_wait(NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_object_lives_until_the_reader_is_quiescent),
		cmocka_unit_test(objects_are_freed_in_the_order_in_which_they_came),
		cmocka_unit_test(without_readers_objects_are_freed_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
