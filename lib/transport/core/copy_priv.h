/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory that isn't mapped: the copies that an engine has others make (mem/job.h), and what its QPs do meanwhile.
 *
 * - Sending: the requester's next packet, or the responder's next READ response, waits. What is fetched is as much of the message as a job
 *   holds, so that there is one wait for many packets.
 * - Receiving: the packet is kept, with all that come after it for that QP, and nothing of it has happened yet. When the copy is done, the
 *   packet is executed again from the beginning, by the same code, and finds it done. A packet with several pieces does so for each.
 *
 * So every function that moves bytes may say COPY_LATER, and its callers then return without having changed anything that matters to the
 * next time.
 *
 * Owns: struct tp_copy and its parts, lent to a QP while it needs them. Called on the QP's engine.
 */
#ifndef UROCE_TP_COPY_H
#define UROCE_TP_COPY_H

#include "base/container_of.h"
#include "mem/job.h"
#include "transport/core/types_priv.h"

/** What a copy is for. A QP has one of each at most. */
enum copy_role {
	COPY_SEND, /**< bytes of a posted send; the key is the counter of its WQE */
	COPY_READ, /**< bytes that a READ asks for; the key is its PSN */
	COPY_RX,   /**< a received packet */
	COPY_ROLES
};

/** A job of an engine. */
struct tp_copy_job {
	struct mem_job m;
	struct qp *qp;         /**< NULL: nobody waits for it any more */
	uint8_t role;
	uint64_t deadline_ns;
	TAILQ_ENTRY(tp_copy_job) link; /**< in transport.copies, while it runs and a QP waits for it */
	uint8_t data[TP_COPY_BYTES] __attribute__((aligned(8)));
};

/** A packet that waits for a copy. */
struct tp_copy_pkt {
	STAILQ_ENTRY(tp_copy_pkt) link;
	struct wire_pkt p;
	uint16_t port;
	bool admitted;         /**< it has begun to be executed: it isn't checked again whether it may */
	uint8_t bytes[(WIRE_MAX_FRAME_BYTES + 7) & ~7];
};

/** One of a QP's copies. */
struct tp_copy_slot {
	struct tp_copy_job *job; /**< NULL: none */
	bool running;
	bool ready;              /**< SEND, READ: what follows is valid */
	int rc;                  /**< EFAULT: the memory isn't there, or didn't come in time */
	uint32_t key, off, length; /**< SEND, READ: the message, the offset in it of the first byte, bytes */
};

struct tp_copy {
	struct tp_copy_slot slots[COPY_ROLES];
	struct qp *qp;
	bool blocked;            /**< the copy for the first packet held could not begin: in transport.blocked, tried again */
	TAILQ_ENTRY(tp_copy) blocked_link;
	uint8_t done, at;        /**< of the packet being executed: accesses that are done, and that it has come to this time */
	bool in_reorder;         /**< the packet that waits is in the reorder buffer, not the first of held */
	uint64_t old;            /**< result of an atomic */
	struct tp_copy_pkt *spare; /**< for the packet that begins to wait; taken before its copy begins, so that it can't be lost */
	uint32_t nb_held;
	STAILQ_HEAD(, tp_copy_pkt) held;
};

/** @return whether a received packet waits for its copy; those that follow have to be held. */
static inline bool
copy_stalled(const struct qp *qp)
{
	return unlikely(qp->copy != NULL) && (qp->copy->slots[COPY_RX].running || qp->copy->blocked);
}

/** @return whether the copy for @p role is being made. */
static inline bool
copy_runs(const struct qp *qp, enum copy_role role)
{
	return unlikely(qp->copy != NULL) && qp->copy->slots[role].running;
}

/** The packet that was executed is done with: the next one begins anew. */
static inline void
copy_executed(struct qp *qp)
{
	if (unlikely(qp->copy != NULL))
		qp->copy->done = qp->copy->at = 0;
}

/* ---- Received packets ---- */
/** mr_write() for a region that isn't mapped in one piece. @return 0, EFAULT or COPY_LATER. */
int copy_write(struct transport *tp, struct qp *qp, struct mr *mr, uint64_t va, const uint8_t *data, uint32_t len);
/** mr_atomic(). @return 0, EFAULT or COPY_LATER. */
int copy_atomic(struct transport *tp, struct qp *qp, struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2,
		uint64_t *old);
/** Write received bytes that mr_check() has approved. @return 0, EFAULT or COPY_LATER. */
static inline int
copy_place(struct transport *tp, struct qp *qp, struct mr *mr, uint64_t va, const uint8_t *data, uint32_t len)
{
	if (unlikely(mr->host == NULL))
		return copy_write(tp, qp, mr, va, data, len);
	mem_copy_tail_last(mr->host + (va - mr->iova), data, len);
	return 0;
}

/**
 * Hold a packet until the copy that the QP waits for is done. @p first: it is the packet that waits, for which there is room always; else it
 * goes behind all others, or is dropped.
 */
void copy_hold(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p, bool first);
/** Take the first packet held, to be given back with copy_put(). @return NULL: there is none. */
struct tp_copy_pkt *copy_take(struct qp *qp);
/** Hold a taken packet again, as the first. */
void copy_untake(struct qp *qp, struct tp_copy_pkt *k);
void copy_put(struct transport *tp, struct tp_copy_pkt *k);

/* ---- Bytes to send ---- */
/**
 * Copy bytes of a message that have been fetched.
 * @return 0; EFAULT: there is no such memory; COPY_LATER: they are being fetched, or another part is; ENOENT: copy_fetch() them.
 */
int copy_fetched(const struct qp *qp, enum copy_role role, uint32_t key, uint32_t off, uint8_t *dst, uint32_t len);
/** @return a job with a buffer of TP_COPY_BYTES for bytes of a message from @p off on, in place of what was fetched before; or NULL. */
struct tp_copy_job *copy_begin(struct transport *tp, struct qp *qp, enum copy_role role, uint32_t key, uint32_t off);
/** Add a piece of memory, or what has room. @return false: there is no room for more. */
bool copy_add(struct tp_copy_job *job, const struct mr *mr, uint64_t va, uint32_t len);
/** Begin to fetch. @return COPY_LATER. */
int copy_fetch(struct transport *tp, struct tp_copy_job *job, struct mem_owner *owner);

/* ---- Ends ---- */
/** The result of a READ was sent, or a WQE is gone: forget what was fetched. */
void copy_drop(struct transport *tp, struct qp *qp, enum copy_role role);
/** The QP goes to ERR: drop packets held and what has not begun. A WRITE that has begun stays, see copy_writes(). */
void copy_stop(struct transport *tp, struct qp *qp);
/** The QP is reset or destroyed: drop everything. */
void copy_end(struct transport *tp, struct qp *qp);
/** The QP has nothing to do: give back what nothing runs in. */
void copy_rest(struct transport *tp, struct qp *qp);
/**
 * A job has come back. @return the QP that has to go on, or NULL.
 */
struct qp *copy_finish(struct transport *tp, struct mem_job *m);
/** @return the QP for whose packet a copy may be tried again, or NULL. */
struct qp *copy_unblock(struct transport *tp);
/** Give up the oldest copy if its time is over. @return the QP that has to go on with an error, or NULL. */
struct qp *copy_overdue(struct transport *tp);

#endif /* UROCE_TP_COPY_H */
