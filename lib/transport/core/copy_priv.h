/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory that isn't mapped: the copies that an engine has others make (mem/job.h), and what its QPs do meanwhile.
 *
 * - Sending: the requester's next packet, or the responder's next READ response, waits. What is fetched is as much of this message and those
 *   after it as a job holds, so that there is one wait for many packets.
 * - Receiving: the packet is held, with all that come after it for that QP, and nothing of it has happened yet. When the copy is done, the
 *   packet is executed again from the beginning, by the same code, and finds it done. What the packets behind it will write is written by the
 *   same job, as far as that is known (transport/plan.c): they find it done when it is their turn.
 *
 * So every function that moves bytes may say COPY_LATER, and its callers then return without having changed anything that matters to the
 * next time.
 *
 * Owns: struct tp_copy and its parts, lent to a QP while it needs them. Called on the QP's engine.
 */
#ifndef UROCE_TP_COPY_H
#define UROCE_TP_COPY_H

#include <errno.h>

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

/** What a job copies for one packet or message. */
struct tp_copy_part {
	const struct wire_pkt *pkt; /**< RX: the packet as it is held; NULL: it isn't yet */
	uint64_t va;           /**< RX: in the program's address space */
	uint32_t key, off;     /**< SEND, READ: the message, and the offset in it of the first byte */
	uint32_t length;
	uint32_t at;           /**< where in the job's data; RX: which piece of the job */
};

/** A job of an engine. */
struct tp_copy_job {
	struct mem_job m;
	uint32_t nb_parts;
	bool sealed;           /**< RX: what follows begins a piece of its own, since what comes before is the end of a message */
	struct tp_copy_part parts[TP_COPY_PARTS_OF_JOB];
	struct qp *qp;         /**< NULL: nobody waits for it any more */
	struct share *share;   /**< whose it is, also when the QP has gone */
	uint8_t role;
	bool used;             /**< SEND, READ: some of what it fetched has been sent, so that it may be taken back */
	uint64_t deadline_ns;
	TAILQ_ENTRY(tp_copy_job) link; /**< in transport.copies, while it runs and a QP waits for it; in share.fetched if it is used */
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
	bool ready;              /**< it has an end */
	int rc;                  /**< EFAULT: the memory isn't there; ETIMEDOUT: it didn't come in time */
	uint32_t key;            /**< SEND, READ, if rc is not 0: the message whose memory it was */
};

/** How copy_write() sees the packet that is being executed. */
enum copy_mode {
	COPY_EXECUTE = 0,
	COPY_PLAN, /**< add what it writes to the job, but for the first `skip` accesses */
};

struct tp_copy {
	struct tp_copy_slot slots[COPY_ROLES];
	struct qp *qp;
	bool fresh;              /**< the first packet held has a job that is to be started: in transport.fresh */
	bool blocked;            /**< the copy for the first packet held could not begin: in transport.blocked, tried again */
	uint8_t mode;            /**< enum copy_mode */
	TAILQ_ENTRY(tp_copy) link; /**< fresh or blocked */
	uint32_t done, at;       /**< of the packet being executed: accesses done by earlier jobs, and that it has come to this time */
	uint32_t skip;           /**< of the first packet that is planned: accesses that earlier jobs have done, or that are in the job */
	uint32_t first;          /**< of the job's parts, the first of this packet */
	const struct wire_pkt *now; /**< the packet being executed, if it was held */
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
	return unlikely(qp->copy != NULL) && (qp->copy->slots[COPY_RX].running || qp->copy->fresh || qp->copy->blocked);
}

/** @return whether the copy for @p role is being made. */
static inline bool
copy_runs(const struct qp *qp, enum copy_role role)
{
	return unlikely(qp->copy != NULL) && qp->copy->slots[role].running;
}

/** A packet that is held is executed now. */
static inline void
copy_execute(struct qp *qp, const struct wire_pkt *p)
{
	if (unlikely(qp->copy != NULL)) {
		qp->copy->now = p;
		qp->copy->at = 0;
	}
}

/** The packet that was executed waits, and is held as @p p. */
static inline void
copy_waits(struct qp *qp, const struct wire_pkt *p)
{
	struct tp_copy_job *job = qp->copy->slots[COPY_RX].job;

	if (job != NULL && job->nb_parts > 0 && job->parts[0].pkt == NULL)
		job->parts[0].pkt = p;
}

/** The packet that was executed is done with: the next one begins anew. */
void copy_executed(struct transport *tp, struct qp *qp);

/* ---- Received packets ---- */
/** mr_write() for a region that isn't mapped in one piece, or a QP that has copies. @return 0, EFAULT, ETIMEDOUT or COPY_LATER. */
int copy_write(struct transport *tp, struct qp *qp, struct mr *mr, uint64_t va, const uint8_t *data, uint32_t len);
/** copy_atomic() on a word that isn't mapped, or not aligned in memory. */
int copy_atomic_else(struct transport *tp, struct qp *qp, struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2,
		     uint64_t *old);
/** mr_atomic(). @return 0, EFAULT, ETIMEDOUT or COPY_LATER. */
static inline int
copy_atomic(struct transport *tp, struct qp *qp, struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2, uint64_t *old)
{
	uint64_t was = 0;
	int rc;

	if (likely(mr_atomic_mapped(mr, va, op, arg1, arg2, old)))
		return 0;
	/* Not *old itself, so that it can stay in a register. */
	rc = copy_atomic_else(tp, qp, mr, va, op, arg1, arg2, &was);
	*old = was;
	return rc;
}
/** @return the vendor error of a completion whose bytes were not copied: @p rc is EFAULT or ETIMEDOUT. */
static inline uint8_t
copy_verr(int rc)
{
	return rc == ETIMEDOUT ? TP_VERR_COPY_LATE : TP_VERR_FAULT;
}

/** Write received bytes that mr_check() has approved. @return 0, EFAULT, ETIMEDOUT or COPY_LATER. */
static inline int
copy_place(struct transport *tp, struct qp *qp, struct mr *mr, uint64_t va, const uint8_t *data, uint32_t len)
{
	if (unlikely(mr->host == NULL || qp->copy != NULL))
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
void copy_put(struct transport *tp, struct qp *qp, struct tp_copy_pkt *k);

/* ---- Bytes to send ---- */
/**
 * Copy bytes of a message that have been fetched.
 * @return 0; EFAULT: there is no such memory; ETIMEDOUT: it didn't come in time; COPY_LATER: they are being fetched, or another part is; ENOENT: copy_fetch() them.
 */
int copy_fetched(const struct qp *qp, enum copy_role role, uint32_t key, uint32_t off, uint8_t *dst, uint32_t len);
/** @return a job with a buffer of TP_COPY_BYTES, in place of what was fetched before; or NULL. @p key: the message that waits for it. */
struct tp_copy_job *copy_begin(struct transport *tp, struct qp *qp, enum copy_role role, uint32_t key);
/** Add bytes of message @p key from @p off on, or what has room. @return false: there is no room for more, or it is another program's. */
bool copy_add(struct tp_copy_job *job, uint32_t key, uint32_t off, const struct mr *mr, uint64_t va, uint32_t len);
/** Begin to fetch. @return COPY_LATER. */
int copy_fetch(struct transport *tp, struct tp_copy_job *job);

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
/** @return the QP that has a job to be started, or NULL. */
struct qp *copy_fresh(struct transport *tp);
/** Start it. If that can't be now, the QP is blocked. */
void copy_start(struct transport *tp, struct qp *qp);
/** Give up the oldest copy if its time is over. @return the QP that has to go on with an error, or NULL. */
struct qp *copy_overdue(struct transport *tp);

/** @return whether the pieces of a job are as long as the job. Atomics have none. */
static inline bool
job_adds_up(const struct mem_job *m)
{
	uint32_t length = 0;

	for (uint32_t i = 0; i < m->nb_pieces; i++)
		length += m->pieces[i].length;
	return length == m->length;
}

/** A job is complete, and waits to be begun. */
static inline void
job_waits(struct mem_job *m)
{
	UROCE_ASSERT(m->nb_pieces <= MEM_JOB_PIECES && (m->op > MEM_JOB_WRITE || job_adds_up(m)));
	m->rc = 0;
	atomic_store_explicit(&m->state, MEM_JOB_WAITS, memory_order_relaxed);
}

#endif /* UROCE_TP_COPY_H */
