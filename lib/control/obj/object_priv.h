/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Verbs objects of programs as such: handles, limits, counts of users; and PDs, which most others refer to.
 *
 * Owns: struct obj, from obj_new() to obj_free(); the tables of handles are the session's. Called by: obj, cma.
 * Thread: control, or another one that holds control_lock().
 */
#ifndef UROCE_CONTROL_OBJECT_PRIV_H
#define UROCE_CONTROL_OBJECT_PRIV_H

#include "control/core/session_priv.h"
#include "control/memory/shm_priv.h"

/** First member of every object. */
struct obj {
	uint32_t handle;
	uint32_t users; /**< objects that refer to it; it can't go before them */
};

struct obj_pd {
	struct obj obj;
	uint32_t id; /**< unique in the daemon: what transport and memory compare */
};

/**
 * Allocate an object of @p bytes, zeroed, and give it a handle, within the limits.
 * @return NULL with @p r failed as *@p rc says.
 */
void *obj_new(struct session *s, enum obj_type type, size_t bytes, struct request *r, int *rc);
/** Remove the handle and free the object. */
void obj_free(struct session *s, enum obj_type type, struct obj *o);
/** @return the object, or NULL with the request failed: call as `if (p == NULL) return EINVAL`. */
void *obj_get(struct session *s, enum obj_type type, uint32_t handle, struct request *r);

/** Tell the client of the segment of @p b, if it doesn't know it yet. */
void obj_announce(struct session *s, struct request *r, const struct shm_block *b, struct ctl_new_segment *seg);
/** @return part of a block as the client finds it. */
static inline struct ctl_area
area_of(const struct shm_block *b, uint64_t offset, uint64_t bytes)
{
	return (struct ctl_area){ .segment = b->segment, .offset = b->offset + offset, .length = bytes };
}

/** @return the smallest order, up to 31, with 1 << order >= @p n. */
static inline uint32_t
order_of(uint32_t n)
{
	uint32_t order = 0;

	while (order < 31 && (UINT32_C(1) << order) < n)
		order++;
	return order;
}

/* ---- PDs: pd.c ---- */
op_fn op_pd_alloc, op_pd_free;
/** Destroy a PD that nothing uses. */
void obj_pd_destroy(struct session *s, struct obj_pd *pd);

#endif /* UROCE_CONTROL_OBJECT_PRIV_H */
