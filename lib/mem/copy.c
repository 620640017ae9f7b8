/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Copying to and from regions with several segments or remote ones, and atomics.
 */
#include <rte_spinlock.h>

#include "mem/mem.h"
#include "mem/remote_priv.h"

/** Makes read-modify-write by copying atomic among engines. */
static rte_spinlock_t rmw_lock = RTE_SPINLOCK_INITIALIZER;

/** @return the segment with program address @p va, which is inside the region. */
static const struct mem_seg *
seg_find(const struct mr *mr, uint64_t va)
{
	uint32_t lo = 0, hi = mr->nb_segs - 1;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo + 1) / 2;

		if (mr->segs[mid].va <= va)
			lo = mid;
		else
			hi = mid - 1;
	}
	return &mr->segs[lo];
}

bool
mr_is_remote(const struct mr *mr, uint64_t va, uint64_t len)
{
	uint64_t pva = mr->addr + (va - mr->iova);

	if (mr->host != NULL || mr->null || len == 0)
		return false;
	for (const struct mem_seg *s = seg_find(mr, pva); s < mr->segs + mr->nb_segs && s->va < pva + len; s++)
		if (s->host == NULL)
			return true;
	return false;
}

/** @return @p rc; an error is recorded: the program's memory is gone. */
static int
noted(struct mem_owner *owner, int rc)
{
	if (rc != 0)
		atomic_store_explicit(&owner->dead, 1, memory_order_relaxed);
	return rc;
}

int
mr_read_segs(struct mr *mr, uint64_t va, void *dst, size_t len)
{
	uint64_t pva = mr->addr + (va - mr->iova);
	const struct mem_seg *s;
	uint8_t *d = dst;

	if (len == 0)
		return 0;
	if (mr->null) {
		memset(dst, 0, len);
		return 0;
	}
	for (s = seg_find(mr, pva);; s++) {
		uint64_t off = pva - s->va;
		size_t n = s->length - off < len ? s->length - off : len;

		if (s->host != NULL)
			mem_copy(d, s->host + off, n);
		else if (noted(mr->owner, remote_read(mr->owner->mem_fd, pva, d, n)) != 0)
			return EFAULT;
		len -= n;
		if (len == 0)
			return 0;
		d += n;
		pva += n;
	}
}

/** Write one piece that is inside one segment. @p last: it is the end of the whole write. */
static int
seg_write(struct mr *mr, const struct mem_seg *s, uint64_t pva, const uint8_t *src, size_t len, bool last)
{
	uint8_t *host = s->host != NULL ? s->host + (pva - s->va) : NULL;

	if (host == NULL)
		return noted(mr->owner, last ? remote_write_tail_last(mr->owner->mem_fd, pva, src, len) :
					       remote_write(mr->owner->mem_fd, pva, src, len));
	if (last)
		mem_copy_tail_last(host, src, len);
	else
		mem_copy(host, src, len);
	return 0;
}

int
mr_write_segs(struct mr *mr, uint64_t va, const void *src, size_t len)
{
	uint64_t pva = mr->addr + (va - mr->iova);
	const struct mem_seg *s;
	const uint8_t *from = src;

	if (len == 0 || mr->null)
		return 0;
	/* Write in ascending order, so that the piece with the last byte comes last. */
	for (s = seg_find(mr, pva);; s++) {
		uint64_t room = s->length - (pva - s->va);
		size_t n = room < len ? room : len;

		if (seg_write(mr, s, pva, from, n, n == len) != 0)
			return EFAULT;
		len -= n;
		if (len == 0)
			return 0;
		from += n;
		pva += n;
	}
}

static uint64_t
rmw_result(enum mr_atomic_op op, uint64_t was, uint64_t arg1, uint64_t arg2)
{
	if (op == MR_FETCH_ADD)
		return was + arg1;
	return was == arg1 ? arg2 : was;
}

/** Atomic operation by copying, under a lock. */
static int
atomic_copy(struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2, uint64_t *old)
{
	uint64_t was, now;
	int rc;

	rte_spinlock_lock(&rmw_lock);
	rc = mr_read(mr, va, &was, sizeof(was));
	if (rc == 0) {
		now = rmw_result(op, was, arg1, arg2);
		if (now != was)
			rc = mr_write(mr, va, &now, sizeof(now));
	}
	rte_spinlock_unlock(&rmw_lock);
	if (rc == 0)
		*old = was;
	return rc;
}

int
mr_atomic(struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2, uint64_t *old)
{
	uint64_t pva = mr->addr + (va - mr->iova);
	const struct mem_seg *s;
	_Atomic uint64_t *p;

	if (mr->null) {
		*old = 0;
		return 0;
	}
	s = seg_find(mr, pva);
	if (s->host == NULL || s->length - (pva - s->va) < sizeof(*p))
		return atomic_copy(mr, va, op, arg1, arg2, old);
	p = (_Atomic uint64_t *)(s->host + (pva - s->va));
	if ((uintptr_t)p % sizeof(*p) != 0)
		return atomic_copy(mr, va, op, arg1, arg2, old);
	mem_atomic(p, op, arg1, arg2, old);
	return 0;
}
