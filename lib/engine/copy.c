/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Copies of memory that isn't mapped: handed over to the copiers (lib/mem/copier.h), which give them back here.
 */
#include "engine/engine_priv.h"
#include "mem/copier.h"
#include "mem/mem.h"

/** [copier] Put a job that has an end where the engine finds it in its next turn. */
static void
give_back(struct mem_job *job)
{
	struct engine *e = job->engine;

	job->next = atomic_load(&e->copied);
	while (!atomic_compare_exchange_weak(&e->copied, &job->next, job))
		;
	engine_wake(e);
}

void
engine_hold_copies(struct engine *e, bool hold)
{
	atomic_store_explicit(&e->holds_copies, hold, memory_order_relaxed);
	engine_wake(e);
}

bool
copies_begin(void *arg, struct mem_job *job)
{
	struct engine *e = arg;

	job->engine = e;
	job->done = give_back;
	return !atomic_load_explicit(&e->holds_copies, memory_order_relaxed) && job->owner->lane != NULL && copier_submit(job->owner->lane, job);
}

uint32_t
copies_run(struct engine *e, uint64_t now_ns)
{
	struct mem_job *newest, *job = NULL, *next;
	uint32_t n = 0;

	if (likely(atomic_load_explicit(&e->copied, memory_order_relaxed) == NULL))
		return 0;
	newest = atomic_exchange(&e->copied, NULL);
	for (; newest != NULL; newest = next) {
		next = newest->next;
		newest->next = job;
		job = newest;
	}
	for (; job != NULL; job = next, n++) {
		next = job->next;
		transport_copied(e->tp, job, now_ns);
	}
	return n;
}

static int
run_copied(struct engine *e, void *arg, uint64_t now_ns)
{
	copies_run(e, now_ns);
	return 0;
}

void
engine_run_copied(struct engine *e)
{
	engine_call(e, run_copied, NULL);
}

bool
copies_end(struct engine *e)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	for (unsigned int i = 0; i < ENGINE_COPIES_END_MS && transport_copies(e->tp) != 0; i++) {
		if (copies_run(e, e->now_ns) == 0)
			nanosleep(&pause, NULL);
	}
	return transport_copies(e->tp) == 0;
}
