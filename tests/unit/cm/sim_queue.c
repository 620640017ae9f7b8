/* SPDX-License-Identifier: BSD-3-Clause */
/* What will happen, ordered by time: a heap. */
#include <stdlib.h>

#include "sim.h"

static bool
before(const struct item *a, const struct item *b)
{
	return a->at != b->at ? a->at < b->at : a->order < b->order;
}

struct item *
plan(struct world *w, uint64_t delay_ns, enum what what)
{
	struct item *it = calloc(1, sizeof(*it));
	uint32_t i = w->nb_queue++;

	if (it == NULL || w->nb_queue > QUEUE_MAX)
		failed(w, "too much to do at once");
	it->at = w->now + delay_ns;
	it->order = w->order++;
	it->what = what;
	for (; i > 0 && before(it, w->queue[(i - 1) / 2]); i = (i - 1) / 2)
		w->queue[i] = w->queue[(i - 1) / 2];
	w->queue[i] = it;
	return it;
}

struct item *
next_item(struct world *w)
{
	struct item *top = w->queue[0], *last = w->queue[--w->nb_queue];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < w->nb_queue) {
		if (child + 1 < w->nb_queue && before(w->queue[child + 1], w->queue[child]))
			child++;
		if (before(last, w->queue[child]))
			break;
		w->queue[i] = w->queue[child];
		i = child;
	}
	w->queue[i] = last;
	return top;
}

void
plan_for(struct world *w, uint64_t max_delay_ns, enum what what, uint32_t pair, unsigned int side)
{
	struct item *it = plan(w, rng_below(&w->rng, max_delay_ns + 1), what);

	it->pair = pair;
	it->side = side;
	it->serial = w->pairs[pair].serial;
}
