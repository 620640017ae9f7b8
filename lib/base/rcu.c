/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/rcu.h"

#include <stdbool.h>
#include <time.h>

#include <rte_rcu_qsbr.h>

#include "base/yield.h"

enum {
	WAIT_YIELDS = 100,     /* tries with sched_yield() before rcu_wait() sleeps between tries */
	WAIT_SLEEP_NS = 20000,
};

void
rcu_wait(struct rte_rcu_qsbr *qsbr)
{
	const struct timespec nap = { .tv_nsec = WAIT_SLEEP_NS };
	unsigned int tries = 0;
	uint64_t token;

	if (qsbr == NULL)
		return;
	token = rte_rcu_qsbr_start(qsbr);
	while (!rte_rcu_qsbr_check(qsbr, token, false)) {
		if (++tries >= WAIT_YIELDS || !yield_core())
			nanosleep(&nap, NULL);
	}
}

static void
reap(struct deferred_list *l, bool all)
{
	struct deferred *d;

	/* Grace periods end in the order in which they began. */
	while ((d = l->first) != NULL &&
	       (all || l->qsbr == NULL || rte_rcu_qsbr_check(l->qsbr, d->token, false) == 1)) {
		l->first = d->next;
		l->free(d);
	}
}

void
deferred_free(struct deferred_list *l, struct deferred *d)
{
	d->next = NULL;
	if (l->qsbr != NULL)
		d->token = rte_rcu_qsbr_start(l->qsbr);
	if (l->first == NULL)
		l->first = d;
	else
		l->last->next = d;
	l->last = d;
	reap(l, false);
}

void
deferred_reap(struct deferred_list *l)
{
	reap(l, false);
}

void
deferred_free_all(struct deferred_list *l)
{
	reap(l, true);
}
