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
#include "transport/diag/diag.h"

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
	LIST_HEAD(, obj_srq) srqs; /**< of all programs */
	uint64_t looked; /**< number of the last look at its targets: qp_group_look() */
};

/** A QP of type XRC_RECV, shared by all sessions that have it open. */
struct xrc_target {
	struct ring_qp_shared shared; /**< in ordinary memory, since the QP has no queues to share */
	LIST_ENTRY(xrc_target) link;
	LIST_HEAD(, obj_qp) openings;
	struct qp *qp; /**< NULL only while it is being made as it was in the daemon before: xrc_record.c */
	uint64_t cookie; /**< handle in control.targets */
	struct qp_costs cost_seen; /**< obj_qp_cost_since(): for all openings */
	uint16_t pkey_index;
	struct saved *saved; /**< for the daemon after a crash, or NULL */
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
/** Give @p srq the number that it had in the daemon before, with that obj_srq.srqn_handle. @return the number; 0: it is taken, or none. */
uint32_t srqn_take(struct control *c, struct obj_srq *srq, uint32_t handle);
void srqn_free(struct control *c, struct obj_srq *srq);

/* ---- For xrc_record.c ---- */
/** Identify the file @p fd of a domain. @return 0 or an errno value, with @p r failed. */
int xrcd_identify(int fd, struct xrcd *x, struct request *r);
/** @return the domain of the same port and file as @p like, or NULL. */
struct xrcd *xrcd_of_file(struct control *c, const struct xrcd *like);
/** @return the domain of this number, or NULL. */
struct xrcd *xrcd_of_id(struct control *c, uint32_t id);
/** Open the domain @p x under @p o, with @p fd, which becomes the opening's. */
void xrcd_opened(struct obj_xrcd *o, struct xrcd *x, int fd);
/** @return a target without a QP; NULL: no memory. */
struct xrc_target *xrc_target_alloc(void);
/** @return what the QP of a target of @p x is made of. */
struct qp_params xrc_target_params(struct xrc_target *t, const struct xrcd *x);
/** Make @p qp an opening of @p t in the domain of @p d. */
void xrc_target_opened(struct session *s, struct obj_qp *qp, struct obj_xrcd *d, struct xrc_target *t, uint64_t cookie);
/** Destroy the QP of a target. */
void xrc_target_end(struct control *c, const struct xrcd *x, struct xrc_target *t);

/* ---- A daemon goes, another one comes: xrc_record.c ---- */
struct handover_counts;
/** The openings are QPs: an opening writes something, other QPs don't. */
obj_save_fn obj_xrcd_save, obj_xrc_opening_save;
/** A target, which belongs to no session. */
obj_save_fn xrc_target_save;
obj_restore_fn obj_xrcd_restore, obj_xrc_openings_restore;
/** Write the targets of all domains, which sessions share: behind the sessions. @return as obj_qp_save(). */
int xrc_targets_save(struct control *c, struct stream_out *o);
/**
 * Make the targets that come next in @p in: their openings and SRQs are there. Sessions that have a target open which can't be made are ended.
 */
void xrc_targets_restore(struct control *c, struct stream_in *in, struct handover_counts *n);

#endif /* UROCE_OBJ_XRC_PRIV_H */
