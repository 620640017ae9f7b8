/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * QPs of programs, and the multicast groups that they are attached to.
 *
 * Owns: struct obj_qp; its struct qp belongs to one engine and is changed through that engine's mailbox. Called by: the
 * handlers of requests, session_end.c, cma (alternate paths), observe. Thread: control.
 */
#ifndef UROCE_OBJ_QP_PRIV_H
#define UROCE_OBJ_QP_PRIV_H

#include <assert.h>

#include "control/obj/object_priv.h"
#include "transport/diag/diag.h"

static_assert(UROCE_MAX_GIDS <= 16, "obj_qp.gids has a bit for each");

struct obj_cq;
struct obj_srq;
struct obj_xrcd;
struct xrc_target;

struct obj_qp {
	struct obj obj;
	struct obj_pd *pd;
	struct obj_cq *send_cq, *recv_cq;
	struct obj_srq *srq;
	struct qp *qp;
	uint32_t qpn; /**< of qp; here so that a list of QPs needn't look at each */
	unsigned int engine; /**< where it is now */
	unsigned int home;   /**< the engine where it was made, whose doorbell its client rings */
	uint32_t db_slot; /**< handle in session.db_slots[home] */
	enum uroce_qp_type type;
	uint16_t pkey_index;
	uint16_t gids;    /**< a bit for each GID index that its paths were given; bits of alternate paths stay until the next address vector */
	uint32_t posted_next; /**< the send WQE that was to be executed next when a request began to wait: qp_posted.c */
	struct ctl_qp_create_req made_as; /**< the request that made it */
	uint64_t moved_ns;  /**< when it moved to its engine, CLOCK_MONOTONIC; 0: it has not moved */
	struct qp_costs cost_seen; /**< obj_qp_cost_since() */
	LIST_ENTRY(obj_qp) srq_link; /**< in obj_srq.qps, if it has an SRQ */
	bool done;  /**< after a crash: the daemon before has executed a modify that changed the state, and perhaps not answered it */
	char *note; /**< why the last modify failed, or NULL */
	LIST_HEAD(, mcast_member) groups; /**< multicast groups that it is attached to */
	struct shm_block block; /**< struct ring_qp_shared, SQ, RQ */
	LIST_ENTRY(obj_qp) peer; /**< in control.peers, if it has a peer: identity.c */
	bool has_peer;
	struct gid peer_gid;
	uint32_t peer_qpn;

	/* XRC_RECV: one opening of a target. Of the above it uses only obj, qp, engine and type. */
	LIST_ENTRY(obj_qp) opening;
	struct session *session;
	struct obj_xrcd *xrcd;
	struct xrc_target *target; /**< NULL: the QP has another type */
	uint64_t cookie;
};

/** @return the slot of struct ring_db that obj_qp.db_slot stands for. */
#define DB_SLOT(handle) ((handle) & ((1u << HANDLES_INDEX_BITS) - 1))

op_fn op_qp_create, op_qp_modify, op_qp_query, op_qp_destroy;
obj_restore_fn obj_qp_restore;
/** Writes nothing of an XRC target (obj_xrc_priv.h). */
obj_save_fn obj_qp_save;
/** Write the transport's record of a QP. @return as obj_save_fn. */
int obj_qp_save_state(struct engine *e, struct qp *qp, struct stream_out *o);
/** Count the QP among the users of its parts (@p n 1), or no longer (-1). */
void obj_qp_use_parts(struct obj_qp *qp, int n);
void obj_qp_destroy_all(struct session *s);
/** A QP has changed, for the checkpoint; an XRC target with it. */
void obj_qp_touch(struct obj_qp *qp);
/**
 * Have the engines build what is posted to UD QPs of @p pd, before an AH of the PD is destroyed. A NIC's WQE has the address in it, so programs
 * post datagrams and destroy the AH, and the QP, without waiting for completions (mckey of rdma-core does); our WQEs have the AH's handle. An
 * engine looks at CONTROL_DESTROY_BURST of these QPs and builds CONTROL_POSTED_BUDGET datagrams, within the session's share.
 * @return true: some are left, because their bytes are being copied from memory that isn't mapped, or there is no room. The request should be
 *         handled again; after CONTROL_POSTED_WAIT_MS this is false, and what is left over fails, as it names an AH that doesn't exist.
 */
bool obj_qps_send_posted(struct session *s, const struct obj_pd *pd);
/** The same for one UD QP, before it is destroyed. */
bool obj_qp_send_posted(struct session *s, struct obj_qp *qp);
/**
 * Have the engines execute what is posted to the QPs of @p cq, as far as that needs no answer of a peer, so that its completions are in the CQ
 * when this returns: datagrams, and what QPs in ERR flush. A NIC has completed them by the time that a system call has ended, and programs
 * rely on it (rdma-core's test of ibv_resize_cq() does). Each engine is called CONTROL_POSTED_CALLS times at most and does
 * CONTROL_POSTED_BUDGET WQEs in each, within the session's share; the rest completes as ever.
 * @return true: a UD QP has some left, as for obj_qps_send_posted().
 */
bool obj_qp_complete_posted(struct session *s, const struct obj_cq *cq);
/**
 * Move a QP of @p s to @p state, as at its program's request; the session must be settled.
 * @return 0 or an errno value, with @p r failed; EAGAIN: nothing was done, because a MAC address must be resolved first.
 */
int obj_qp_modify(struct session *s, struct obj_qp *qp, enum uroce_qp_state state, const struct uroce_qp_attr *attr, uint32_t mask, struct request *r);
/**
 * Give a QP of @p s an alternate path, to be armed when both ends have one.
 * @param mac  Of the next hop on the path @p ah.
 * @return 0 or an errno value.
 */
int obj_qp_load_alternate(struct session *s, struct obj_qp *qp, const struct uroce_ah_attr *ah, uint8_t timeout,
			  const uint8_t mac[6]);

/* ---- QPs that move: qp_move.c ---- */
/**
 * Move a QP to another engine, while its program uses it, and with it all QPs of its SRQ, or all targets of its XRC domain (qp_group_priv.h).
 * @param brief  Don't keep this thread waiting for peers' ACKs for longer than a millisecond; some packets may be sent again for that.
 * @param out  Gets how many QPs have moved, none if it is there already, and for how long they sent nothing new.
 * @param why  Gets why not; then nothing has moved.
 * @return 0; EINVAL (no such engine); E2BIG (more than ENGINE_MOVE_MOST QPs or SRQs would have to move); EBUSY (memory that isn't mapped is being copied:
 *         try again); ENOMEM.
 */
int obj_qp_move(struct session *s, struct obj_qp *qp, unsigned int engine, bool brief, struct control_moved *out, const char **why);
/** What moves together with a QP, itself included. */
struct obj_qp_load {
	uint64_t cost;      /**< what its QPs have cost their engine since the last look, as obj_qp_cost_since() */
	uint64_t moved_ns;  /**< when the last of its QPs moved, CLOCK_MONOTONIC; 0: none has */
	uint32_t nb_qps;
	bool may_move;      /**< it is small enough */
};
/** Look at what moves together with @p qp. @return false: somebody has done so in this look, whose number is @p number (from 1). */
bool obj_qp_look(struct obj_qp *qp, uint64_t number, struct obj_qp_load *out);
/** @return what the QP has cost its engine since this was last called for it, or for another opening of the same XRC target; in bytes as qp_cost_since(). */
uint64_t obj_qp_cost_since(struct obj_qp *qp);
/** Have the doorbell of a QP that is about to be destroyed ring for nobody, if the QP isn't at its home. Else whoever destroys it does so. */
void obj_qp_leave_home(struct session *s, struct obj_qp *qp);
/** @return the next QP of @p s at @p engine, as handles_next(). Not the XRC targets, which have no doorbells. */
struct obj_qp *obj_qp_next_at(struct session *s, unsigned int engine, uint32_t *pos);

/* ---- Multicast groups: mcast.c ---- */
op_fn op_mcast_attach, op_mcast_detach;
/** Write down the GIDs of the groups of @p qp. @param to  Room for them, or NULL. @return how many. */
uint32_t obj_mcast_look(const struct obj_qp *qp, struct gid *to);
/** Attach @p qp to a group, as op_mcast_attach() does. @return 0 or an errno value, with @p r failed. */
int obj_mcast_attach(struct session *s, struct obj_qp *qp, const struct gid *mgid, struct request *r);
/** Detach @p qp from all groups, before it is destroyed. */
void obj_mcast_detach_all(struct session *s, struct obj_qp *qp);

#endif /* UROCE_OBJ_QP_PRIV_H */
