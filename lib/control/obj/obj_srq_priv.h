/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * SRQs of programs, including XRC SRQs.
 *
 * Owns: struct obj_srq; its struct srq belongs to one engine. Called by: the handlers of requests, session_end.c.
 * Thread: control.
 */
#ifndef UROCE_OBJ_SRQ_PRIV_H
#define UROCE_OBJ_SRQ_PRIV_H

#include "control/obj/object_priv.h"

struct obj_srq {
	struct obj obj;
	struct obj_xrcd *xrcd; /**< NULL: no XRC SRQ; then cq is NULL too */
	struct obj_cq *cq;
	uint32_t srqn_handle; /**< in control.srqns */
	uint32_t was_journaled;  /**< its number in the journals of the daemon before, plus one; 0: none */
	struct obj_pd *pd;
	struct srq *srq;
	unsigned int engine;
	struct shm_block block; /**< struct ring_srq_shared, then the ring */
	uint32_t max_wr, max_sge;
	uint64_t cookie; /**< of its events */
	LIST_HEAD(, obj_qp) qps; /**< all that receive from it; none of an XRC SRQ */
	LIST_ENTRY(obj_srq) domain_link; /**< XRC: in xrcd.srqs */
	uint64_t looked; /**< number of the last look at its QPs: qp_group_look() */
};

op_fn op_srq_create, op_srq_modify, op_srq_query, op_srq_destroy;
obj_save_fn obj_srq_save;
obj_restore_fn obj_srq_restore;
/** Destroy an SRQ. @return 0, or the error of srq_destroy(): QPs use it. */
int obj_srq_destroy(struct session *s, struct obj_srq *srq);

#endif /* UROCE_OBJ_SRQ_PRIV_H */
