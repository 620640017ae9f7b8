/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * XRC domains and their target QPs, which programs share.
 *
 * Owns: struct xrcd and struct xrc_target, each for as long as a session has it open. Called by: the handlers of
 * requests, qp.c and srq.c, events.c (asynchronous events of targets), session_end.c. Thread: control.
 */
#ifndef UROCE_OBJ_XRC_PRIV_H
#define UROCE_OBJ_XRC_PRIV_H

#include "control/obj/object_priv.h"

struct obj_qp;
struct obj_srq;

/** An XRC domain. It belongs to one session, or to all sessions that opened it through the same file. */
struct xrcd {
	LIST_ENTRY(xrcd) link;
	struct net_port *port;
	uint32_t id;         /**< what the transport compares */
	unsigned int engine; /**< of its SRQs and targets */
	uint32_t opens;      /**< number of struct obj_xrcd that refer to it */
	bool shared;         /**< through the file with this device and inode number: */
	uint64_t dev, ino;
	LIST_HEAD(, xrc_target) targets;
};

/** A QP of type XRC_RECV, shared by all sessions that have it open. */
struct xrc_target {
	struct ring_qp_shared shared; /**< in ordinary memory, since the QP has no queues to share */
	LIST_ENTRY(xrc_target) link;
	LIST_HEAD(, obj_qp) openings;
	struct qp *qp;
	uint64_t cookie; /**< handle in control.targets */
	uint16_t pkey_index;
};
/** The owner of targets, as engines know it. It is not a session. */
#define XRC_TARGET_OWNER ((void *)UINTPTR_MAX)

struct obj_xrcd {
	struct obj obj;
	struct xrcd *xrcd;
	int fd; /**< of its file, or -1 */
};

op_fn op_xrcd_open, op_xrcd_close;
void obj_xrcd_destroy(struct session *s, struct obj_xrcd *o);
/** op_qp_create() for a QP of type XRC_RECV. */
op_fn op_xrc_target_create, op_qp_open;
/** Close one opening of a target; the last one destroys it. */
void obj_xrc_target_close(struct session *s, struct obj_qp *qp);
/** @return a number for an XRC SRQ; 0: there is none left. */
uint32_t srqn_new(struct control *c, struct obj_srq *srq);
void srqn_free(struct control *c, struct obj_srq *srq);

#endif /* UROCE_OBJ_XRC_PRIV_H */
