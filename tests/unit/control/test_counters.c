/* SPDX-License-Identifier: BSD-3-Clause */
/* docs/counters.md and the counters: none is missing on either side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include <rte_common.h>

#include "control/observe/counters_priv.h"

static const struct counter_table *const tables[] = { &counters_engine, &counters_transport, &counters_net,
						       &counters_gsi,    &counters_cm,        &counters_impair };

static void
every_counter_is_explained(void **state)
{
	for (unsigned int i = 0; i < RTE_DIM(tables); i++) {
		assert_true(tables[i]->n > 0);
		for (unsigned int k = 0; k < tables[i]->n; k++) {
			const char *text = counter_help(tables[i]->group, tables[i]->counter[k].name);

			if (text == NULL || text[0] == '\0')
				fail_msg("docs/counters.md has no row for %s of group %s", tables[i]->counter[k].name,
					 tables[i]->group);
		}
	}
}

static bool
is_counter(const struct counter_help *h)
{
	for (unsigned int i = 0; i < RTE_DIM(tables); i++) {
		for (unsigned int k = 0; k < tables[i]->n; k++)
			if (strcmp(tables[i]->group, h->group) == 0 && strcmp(tables[i]->counter[k].name, h->name) == 0)
				return true;
	}
	return false;
}

static void
every_row_is_of_a_counter_and_the_only_one(void **state)
{
	for (unsigned int i = 0; i < nb_counter_helps; i++) {
		const struct counter_help *h = &counter_helps[i];

		if (!is_counter(h))
			fail_msg("docs/counters.md explains %s, which group %s doesn't have", h->name, h->group);
		if (counter_help(h->group, h->name) != h->text)
			fail_msg("docs/counters.md explains %s of group %s twice", h->name, h->group);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_counter_is_explained),
		cmocka_unit_test(every_row_is_of_a_counter_and_the_only_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
