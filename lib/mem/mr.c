/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The key table: creation, publication and retirement of MRs.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "mem/mr_priv.h"

#define MR_ACCESS_KNOWN                                                                                                \
	(UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC | \
	 UROCE_ACCESS_MW_BIND | UROCE_ACCESS_ZERO_BASED | UROCE_ACCESS_ON_DEMAND | UROCE_ACCESS_HUGETLB |              \
	 UROCE_ACCESS_FLUSH_GLOBAL | UROCE_ACCESS_FLUSH_PERSISTENT | UROCE_ACCESS_OPTIONAL_RANGE)

struct mr_table *
mr_table_create(uint32_t max_mr, struct rte_rcu_qsbr *qsbr, const struct secret *secret)
{
	struct mr_table *t;

	if (max_mr == 0 || max_mr > UROCE_MAX_MR) {
		errno = EINVAL;
		return NULL;
	}
	t = calloc(1, sizeof(*t) + gen_table_bytes(max_mr));
	if (t == NULL)
		return NULL;
	t->qsbr = qsbr;
	if (gen_table_init(&t->keys, max_mr, secret) != 0) {
		mr_table_destroy(t);
		errno = ENOMEM;
		return NULL;
	}
	return t;
}

void
mr_table_destroy(struct mr_table *t)
{
	if (t == NULL)
		return;
	gen_table_fini(&t->keys);
	free(t);
}

uint32_t
mr_table_count(const struct mr_table *t)
{
	return gen_table_count(&t->keys);
}

/** @return false if [start, start + length) wraps around the address space. */
static bool
range_ok(uint64_t start, uint64_t length)
{
	return length == 0 || start + (length - 1) >= start;
}

static int
mr_params_check(const struct mr_params *p)
{
	uint64_t next = p->addr;
	uint32_t i;

	/* The peer has no business with it, and neither has a window. */
	if (p->null)
		return p->access == UROCE_ACCESS_LOCAL_WRITE && p->length == 0 && p->nb_segs == 0 && p->replaces == NULL ? 0 : EINVAL;
	if ((p->access & ~MR_ACCESS_KNOWN) != 0)
		return EINVAL;
	/* IBTA 10.6.3.1 (and rdma-core's man page): remote write and atomics require local write. */
	if ((p->access & (UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_ATOMIC)) != 0 &&
	    (p->access & UROCE_ACCESS_LOCAL_WRITE) == 0)
		return EINVAL;
	if (!range_ok(p->addr, p->length) || !range_ok(p->iova, p->length))
		return EINVAL;
	if (p->nb_segs > UROCE_MAX_MR_SEGS || (p->nb_segs == 0) != (p->length == 0))
		return EINVAL;
	for (i = 0; i < p->nb_segs; i++) {
		const struct mem_seg *s = &p->segs[i];

		if (s->va != next || s->length == 0 || s->length > p->length - (next - p->addr))
			return EINVAL;
		if (s->host == NULL && p->owner == NULL)
			return EINVAL;
		next += s->length;
	}
	return next - p->addr == p->length ? 0 : EINVAL;
}

/** @return true if @p b continues @p a here, as it does in the program. */
static bool
segs_join(const struct mem_seg *a, const struct mem_seg *b)
{
	if (a->host == NULL || b->host == NULL)
		return a->host == b->host;
	return a->host + a->length == b->host;
}

/** Copy the segments, joining those that continue each other. @return the resulting number. */
static uint32_t
segs_copy(struct mem_seg *to, const struct mem_seg *from, uint32_t nb)
{
	uint32_t i, n = 0;

	for (i = 0; i < nb; i++) {
		if (n > 0 && segs_join(&to[n - 1], &from[i]))
			to[n - 1].length += from[i].length;
		else
			to[n++] = from[i];
	}
	return n;
}

uint32_t
mr_key_take(struct mr_table *t)
{
	uint32_t index = gen_table_take(&t->keys), key;

	/* Many programs use key 0 for "no key". */
	do
		key = index << 8 | (uint8_t)gen_table_next(&t->keys, index);
	while (key == 0);
	return key;
}

bool
mr_key_take_as(struct mr_table *t, uint32_t key)
{
	return key != 0 && gen_table_take_as(&t->keys, key >> 8, (uint8_t)key);
}

/** Free an MR that no engine uses any more. */
static void
mr_release(struct mr *mr)
{
	if (mr->release != NULL)
		mr->release(mr, mr->release_arg);
	free(mr);
}

int
mr_create(struct mr_table *t, const struct mr_params *p, struct mr **out)
{
	struct mr *mr;
	int rc = mr_params_check(p);

	if (rc != 0)
		return rc;
	if (p->replaces == NULL && gen_table_full(&t->keys))
		return ENOMEM;
	mr = calloc(1, sizeof(*mr) + p->nb_segs * sizeof(*mr->segs));
	if (mr == NULL)
		return ENOMEM;
	mr->pd = p->pd;
	mr->access = p->access;
	mr->addr = p->addr;
	mr->iova = p->iova;
	mr->null = p->null;
	mr->length = p->null ? UINT64_MAX : p->length;
	mr->owner = p->owner;
	mr->release = p->release;
	mr->release_arg = p->release_arg;
	mr->segs = (struct mem_seg *)(mr + 1);
	mr->nb_segs = segs_copy(mr->segs, p->segs, p->nb_segs);
	if (mr->nb_segs == 1)
		mr->host = mr->segs[0].host;
	if (p->replaces != NULL) {
		if (!mr_retire(p->replaces)) {
			free(mr);
			return EBUSY;
		}
		mr->key = p->replaces->key;
	} else if (p->key != 0) {
		if (!mr_key_take_as(t, p->key)) {
			free(mr);
			return EEXIST;
		}
		mr->key = p->key;
	} else {
		mr->key = mr_key_take(t);
	}
	gen_table_publish(&t->keys, mr->key >> 8, mr);
	if (p->replaces != NULL) {
		rcu_wait(t->qsbr);
		mr_release(p->replaces);
	}
	*out = mr;
	return 0;
}

bool
mr_retire(struct mr *mr)
{
	uint32_t none = 0;

	return atomic_compare_exchange_strong_explicit(&mr->nb_windows, &none, MR_RETIRED, memory_order_acquire,
						       memory_order_relaxed);
}

void
mr_destroy_bulk(struct mr_table *t, struct mr **mrs, uint32_t n)
{
	uint32_t i;

	if (n == 0)
		return;
	for (i = 0; i < n; i++)
		gen_table_publish(&t->keys, mrs[i]->key >> 8, NULL);
	rcu_wait(t->qsbr);
	for (i = 0; i < n; i++) {
		UROCE_ASSERT(mrs[i]->nb_windows == 0 || mrs[i]->nb_windows == MR_RETIRED);
		gen_table_give(&t->keys, mrs[i]->key >> 8);
		mr_release(mrs[i]);
	}
}

void
mr_destroy(struct mr_table *t, struct mr *mr)
{
	mr_destroy_bulk(t, &mr, 1);
}
