/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Paths to peers: resolving an address vector to a MAC address and a path; and address handles, which are paths
 * with a handle.
 *
 * Owns: session.pending, the request that waits for a MAC address; struct obj_ah. Called by: qp.c and ah.c,
 * session_end.c, observe. Thread: control.
 */
#ifndef UROCE_OBJ_PATH_PRIV_H
#define UROCE_OBJ_PATH_PRIV_H

#include "control/obj/object_priv.h"

struct obj_ah {
	struct obj obj;
	LIST_ENTRY(obj_ah) link;
	struct obj_pd *pd;
	uint32_t wqe_handle; /**< the transport's handle, which the client uses */
	uint8_t sgid_index;  /**< of its own address */
};

/**
 * Resolve the MAC address for an AV.
 * @param resume  Called later if this returns EINPROGRESS; what it returns becomes the status of the reply.
 * @return 0: *@p mac is set; EINPROGRESS: the session accepts no requests until the address is resolved, or doesn't
 * answer; otherwise the request has failed.
 */
int path_resolve(struct session *s, struct request *r, const struct uroce_ah_attr *av, request_resume_fn resume, uint8_t mac[6]);
/** Make the path for a resolved AV. */
void path_make(struct session *s, const struct uroce_ah_attr *av, const uint8_t mac[6], uint16_t pkey,
	       struct tp_path *out);
/** Drop the session's waiting request, if there is one. */
void path_cancel(struct session *s);
/** @return the address that a waiting request needs, as text. @param text  GID_TEXT_BYTES long. */
const char *path_pending_text(const struct pending *p, char *text);

/* ---- Address handles: ah.c ---- */
op_fn op_ah_create, op_ah_destroy;
obj_save_fn obj_ah_save;
obj_restore_fn obj_ah_restore;
void obj_ah_destroy(struct session *s, struct obj_ah *ah);

#endif /* UROCE_OBJ_PATH_PRIV_H */
