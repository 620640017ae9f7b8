/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * CQs of programs: their rings, their channels, and how they grow.
 *
 * Owns: struct obj_cq; its completions are written by the engines. Called by: the handlers of requests,
 * session_end.c, observe. Thread: control.
 */
#ifndef UROCE_OBJ_CQ_PRIV_H
#define UROCE_OBJ_CQ_PRIV_H

#include "control/obj/object_priv.h"

struct obj_cq {
	struct obj obj;
	uint64_t number; /**< never used twice */
	struct cq *cq;
	struct shm_block block;      /**< struct ring_cq_shared, the ring, the completions' times */
	struct shm_block ring_block; /**< after a resize: the ring and the times in use */
	struct shm_block old_block;  /**< and those before it, from which the client moves its completions */
	uint32_t order;
	bool stamps, moderated;
	int channel_fd;
};

op_fn op_cq_create, op_cq_resize, op_cq_modify, op_cq_destroy;
/** Destroy a CQ that no QP or SRQ uses, after a grace period since the last one did. */
void obj_cq_destroy(struct session *s, struct obj_cq *cq);

#endif /* UROCE_OBJ_CQ_PRIV_H */
