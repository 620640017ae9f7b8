/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel offers to wait for, in terms of the explorer's memory. Compiled as the production files are. */
void
explore_event_write(struct explore_event *e)
{
	__atomic_fetch_add(&e->count, 1, __ATOMIC_ACQ_REL);
}

bool
explore_event_try(struct explore_event *e)
{
	/* The kernel has its own lock for each descriptor: nobody misses a count that was written before. */
	return __atomic_exchange_n(&e->count, 0, __ATOMIC_ACQ_REL) != 0;
}

void
explore_event_read(struct explore_event *e)
{
	while (!explore_event_try(e))
		explore_yield();
}
