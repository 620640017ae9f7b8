/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * CQs of programs: their rings, channels and resizing.
 *
 * Owns: struct obj_cq; the engines write its completions. Called by: the handlers of requests, session_end.c, observe.
 * Thread: control.
 */
#ifndef UROCE_OBJ_CQ_PRIV_H
#define UROCE_OBJ_CQ_PRIV_H

#include "control/obj/object_priv.h"

struct obj_cq {
	struct obj obj;
	uint64_t number; /**< never reused */
	uint32_t was_journaled;  /**< its number in the journals of the daemon before, plus one; 0: none */
	uint64_t cookie; /**< of its events */
	struct cq *cq;
	struct shm_block block;      /**< struct ring_cq_shared, the ring, the time stamps of completions */
	struct shm_block ring_block; /**< after a resize: the current ring and time stamps */
	struct shm_block old_block;  /**< and the previous ones, from which the client moves its completions */
	struct shm_block next_block; /**< while it is resized: what will be the current ones */
	uint32_t order, next_order;
	/** After a crash: the program doesn't know the current ring yet. The request that brought it comes again. */
	bool unanswered;
	bool untold;                 /**< the answer also has to bring the segment in which that ring, or the next one, lies */
	uint32_t from;               /**< if unanswered: all completions from this counter on are in the current ring */
	bool stamps, moderated;
	struct obj_channel *channel; /**< NULL: it has no events */
};

/** A completion channel. */
struct obj_channel {
	struct obj obj;
	int fd;           /**< the socket on which engines send events */
	uint32_t records; /**< how many of them it has room for */
};

op_fn op_channel_create, op_channel_destroy;
obj_save_fn obj_channel_save;
obj_restore_fn obj_channel_restore;
/** Count one more CQ that sends its events to @p ch, and make room for them. */
void obj_channel_use(struct obj_channel *ch);
/** Destroy a channel that no CQ uses. */
void obj_channel_destroy(struct session *s, struct obj_channel *ch);

op_fn op_cq_create, op_cq_resize, op_cq_modify, op_cq_destroy;
obj_save_fn obj_cq_save;
obj_restore_fn obj_cq_restore;
/** Destroy a CQ that no QP or SRQ uses. Waits for a grace period since the last one did. */
void obj_cq_destroy(struct session *s, struct obj_cq *cq);

#endif /* UROCE_OBJ_CQ_PRIV_H */
