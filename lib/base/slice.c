/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

uint64_t
slice_set(uint64_t ns)
{
	/* struct sched_attr, which C libraries don't have yet. */
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} a = { 0 };
	uint64_t before;

	if (ns == 0 || syscall(SYS_sched_getattr, 0, &a, sizeof(a), 0) != 0 || a.policy != SCHED_OTHER)
		return 0;
	before = a.runtime;
	a.runtime = ns;
	syscall(SYS_sched_setattr, 0, &a, 0);
	return before;
}
