/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the tests of lib/mem share. Included by each of them, after their system headers.
 */
#ifndef TEST_MEM_UTIL_H
#define TEST_MEM_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "mem/mem.h"

enum { PD = 7, LOCAL = UROCE_ACCESS_LOCAL_WRITE };
#define ALL_ACCESS (LOCAL | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC)

/** Create an MR of segments that lie one after the other from segs[0].va; iova is addr. */
static inline struct mr *
make_mr(struct mr_table *t, const struct mem_seg *segs, uint32_t nb_segs, struct mem_owner *owner)
{
	struct mr_params p = { .pd = PD, .access = ALL_ACCESS, .segs = segs, .nb_segs = nb_segs, .owner = owner };
	struct mr *mr = NULL;
	uint32_t i;

	for (i = 0; i < nb_segs; i++)
		p.length += segs[i].length;
	p.addr = nb_segs > 0 ? segs[0].va : 0;
	p.iova = p.addr;
	assert_int_equal(mr_create(t, &p, &mr), 0);
	return mr;
}

/** An MR of one mapped piece at @p va. */
static inline struct mr *
make_mapped(struct mr_table *t, uint64_t va, void *host, uint64_t length)
{
	struct mem_seg s = { .va = va, .length = length, .host = host };

	return make_mr(t, &s, 1, NULL);
}

#endif /* TEST_MEM_UTIL_H */
