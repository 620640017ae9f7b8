/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What all verbs objects of programs have in common: handles, limits, use counts; and PDs, which most others refer to.
 *
 * Owns: struct obj, from obj_new() to obj_free(). The tables of handles belong to the session. Called by: obj, cma.
 * Thread: control, or another one that holds control_lock().
 */
#ifndef UROCE_CONTROL_OBJECT_PRIV_H
#define UROCE_CONTROL_OBJECT_PRIV_H

#include "control/core/session_priv.h"
#include "control/core/stream.h"
#include "control/memory/shm_priv.h"

/** First member of every object. */
struct obj {
	uint32_t handle;
	uint32_t number; /**< CQs and SRQs: handle in control.numbers; else HANDLE_NONE */
	uint32_t users; /**< number of objects that refer to it and must be destroyed first */
	uint32_t bytes; /**< charged to the session as metadata */
	struct saved *saved; /**< for the daemon after a crash, or NULL */
};

struct obj_pd {
	struct obj obj;
	uint32_t id; /**< transport and memory compare it; unique in the daemon but for the PDs that are the same by import */
	bool imported;
	struct obj_pd *next, *before; /**< a ring of those that are the same */
};

/**
 * Allocate a zeroed object of @p bytes within the limits, and give it a handle.
 * @return NULL with @p r failed and *@p rc set.
 */
void *obj_new(struct session *s, enum obj_type type, size_t bytes, struct request *r, int *rc);
/** The same, under a handle that the object had in the daemon before. */
void *obj_new_as(struct session *s, enum obj_type type, size_t bytes, uint32_t handle, struct request *r, int *rc);
/** Charge @p to for an object that was charged to @p from. */
void obj_move(struct session *from, struct session *to, enum obj_type type, const struct obj *o);
/** @return the number under which journals know a CQ or SRQ. */
static inline uint32_t
obj_number(const struct obj *o)
{
	return o->number & ((1u << HANDLES_INDEX_BITS) - 1);
}
/** Remove the handle and free the object. */
void obj_free(struct session *s, enum obj_type type, struct obj *o);
/** @return the object, or NULL with @p r failed; use it as `if (p == NULL) return EINVAL`. */
void *obj_get(struct session *s, enum obj_type type, uint32_t handle, struct request *r);

/**
 * Allocate memory for the queues of an object within the limits.
 * @param what  The object, for the message.
 * @return 0, or ENOMEM, with @p r failed.
 */
int obj_ring_alloc(struct session *s, uint64_t bytes, const char *what, struct shm_block *b, struct request *r);
/** A block in a record. bytes 0: there is none. */
struct block_record {
	uint64_t offset, bytes;
	uint32_t segment, reserved;
};
static inline struct block_record
block_save(const struct shm_block *b)
{
	return (struct block_record){ .segment = b->segment, .offset = b->offset, .bytes = b->addr != NULL ? b->bytes : 0 };
}
/** Take the queues of an object that the daemon before had. @return 0 or an errno value, with @p r failed. */
int obj_ring_take(struct session *s, const struct block_record *from, struct shm_block *b, struct request *r);
/** Free it. */
void obj_ring_free(struct session *s, const struct shm_block *b);
/** Send the client the segment of @p b, unless it knows it already. @return whether it is sent. */
bool obj_announce(struct session *s, struct request *r, const struct shm_block *b, struct ctl_new_segment *seg);
/** Send it although the daemon before has, or was about to. */
void obj_announce_again(struct session *s, struct request *r, const struct shm_block *b, struct ctl_new_segment *seg);
/** @return the description of a part of a block for the client. */
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

/**
 * Write an object to @p o: for a hand-over, then engines are stopped, or for the checkpoint, then o->live.
 * @return 0; EBUSY: a copy for it is under way, let the engines have turns and begin anew; another errno value.
 */
typedef saved_write_fn obj_save_fn;
/** [engines stopped] Make the objects of a type that come next in @p in. @return 0, or an errno value with @p r failed. */
typedef int obj_restore_fn(struct session *s, struct stream_in *in, struct request *r);

/* ---- PDs: pd.c ---- */
op_fn op_pd_alloc, op_pd_free;
obj_save_fn obj_pd_save;
obj_restore_fn obj_pd_restore;
/** @return true: it is the same as another one, perhaps of another session. */
static inline bool
obj_pd_is_shared(const struct obj_pd *pd)
{
	return pd->next != pd;
}
/** Make a PD of @p s that is the same as @p same. @return as obj_new(). */
struct obj_pd *obj_pd_import(struct session *s, struct obj_pd *same, struct request *r, int *rc);
/** Destroy a PD that nothing uses. */
void obj_pd_destroy(struct session *s, struct obj_pd *pd);

#endif /* UROCE_CONTROL_OBJECT_PRIV_H */
