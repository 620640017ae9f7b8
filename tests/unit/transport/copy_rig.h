/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two connected ends whose buffers are in memory that isn't mapped: their hosts make no copy unless a test says so.
 */
#ifndef UROCE_TEST_COPY_RIG_H
#define UROCE_TEST_COPY_RIG_H

#include <fcntl.h>
#include <unistd.h>

#include "mem/job.h"
#include "mem/mem.h"
#include "rig.h"

static struct mem_owner self;

/** rig_up(), with both buffers in memory that isn't mapped. */
static inline void
remote_up_opts(struct rig *r, const struct end_opts *eo, const struct conn_opts *co)
{
	rig_up(r, eo, co);
	mr_destroy(r->p->h[0].sh.mrs, r->amr);
	mr_destroy(r->p->h[1].sh.mrs, r->bmr);
	for (int i = 0; i < 2; i++) {
		uint64_t at = (uintptr_t)(i == 0 ? r->abuf : r->bbuf);
		const struct mem_seg seg = { .va = at, .length = BUF };
		const struct mr_params p = { .pd = PAIR_PD, .access = ACCESS_ALL, .addr = at, .length = BUF, .iova = at, .segs = &seg,
					     .nb_segs = 1, .owner = &self };

		assert_int_equal(mr_create(r->p->h[i].sh.mrs, &p, i == 0 ? &r->amr : &r->bmr), 0);
	}
}

static inline void
remote_up(struct rig *r, const struct conn_opts *co)
{
	remote_up_opts(r, NULL, co);
}

/** Group setup and teardown: this program's memory, as that of a client. */
static int
open_memory(void **state)
{
	self.mem_fd = open("/proc/self/mem", O_RDWR);
	return self.mem_fd < 0 || pair_group_setup(state) != 0;
}

static int
close_memory(void **state)
{
	close(self.mem_fd);
	return pair_group_teardown(state);
}

#endif /* UROCE_TEST_COPY_RIG_H */
