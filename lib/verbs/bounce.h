/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Bounce buffers: how small messages avoid the daemon's copiers. An engine can't read or write memory that isn't mapped in
 * the daemon (lib/verbs/segments.h); it has a copier do that, and each copy costs wake-ups. So the library itself, in the program's thread, copies
 * what such memory has to send into a slot of shared memory when it is posted, and what was received out of one when the completion is
 * polled. For engines a slot is memory like any other.
 *
 * Only sends and receives of up to BOUNCE_SLOT_BYTES. Not the destinations of READs and atomics, since a later WR may use the data before
 * anything is polled; not SENDs and WRITEs with a fence, since the READ before them may bring what they send; not the receives of an SRQ, whose
 * completions don't name a slot. These, and whatever finds no free slot, go by the copiers.
 *
 * What a program can notice: what is sent is taken when it is posted, as inline data is; what is received arrives when its completion is polled, as
 * with NICs that write small messages into the CQE. Receives of memory that was deregistered fail as they should.
 *
 * Owns: the slots, one area for each PD, made when the first MR is registered that needs it. Lock order: after those of queues and CQs.
 */
#ifndef UROCE_CLIENT_BOUNCE_H
#define UROCE_CLIENT_BOUNCE_H

#include <bsd/sys/tree.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ring/ring.h"
#include "ring/wqe.h"
#include "verbs/lock.h"

enum {
	BOUNCE_SLOT_BYTES = 2048,
	BOUNCE_SLOTS = 128,
	BOUNCE_KEPT_FOR_SENDS = 32, /**< receives take no slot when so few are free: they may hold it for ever */
	BOUNCE_MAX_SGE = 4,         /**< WRs with more SGEs go by the copiers */
};

struct client_mr;
struct ibv_pd;
struct client_pd;
struct client_qp;
struct bounce_area;

RB_HEAD(bounce_regions, client_mr);

/** Which part of an MR the daemon has mapped. */
struct bounce_reach {
	uint64_t lo, hi; /**< SGE addresses; lo == hi: nothing */
	bool needed;     /**< not all of it */
};

/** Of a PD. */
struct client_bounce {
	_Atomic bool active;        /**< there are slots */
	_Atomic uint32_t changes;   /**< of regions and area, never 0 */
	_Atomic uint32_t qps;       /**< QPs of the PD */
	struct client_lock lock;    /**< protects what follows */
	struct bounce_regions regions; /**< MRs that aren't wholly mapped, by lkey */
	struct bounce_area *area;
	bool tried;                 /**< to make the area */
};

/** What one side of a QP was told last: SGEs of this key and in this range need no slot. Under the lock of that side. */
struct bounce_clean {
	uint64_t lo, hi;
	uint32_t lkey;
	uint32_t changes; /**< client_bounce.changes when it was told; 0: never */
};

/** @return whether posting and polling have to ask at all. */
static inline bool
client_bounces(const struct client_bounce *b)
{
	return b != NULL && atomic_load_explicit(&b->active, memory_order_relaxed);
}

/** @return false: the environment variable UROCE_BOUNCE is "off" */
bool client_bounce_wanted(void);
/** Begin with a new PD. @return 0 or ENOMEM. */
int client_bounce_begin(struct client_pd *pd);
/**
 * Give up the area of a PD that is about to be freed.
 * @return 0; EBUSY: it has QPs.
 */
int client_bounce_retire(struct client_pd *pd);
/** Free what client_bounce_begin() made; the daemon has freed the PD. */
void client_bounce_end(struct client_pd *pd);

/** Register memory of the library's own for sends and receives of @p pd. @return 0 or an errno value. */
typedef int (*bounce_register_fn)(struct ibv_pd *pd, void *addr, size_t bytes, uint32_t *handle, uint32_t *lkey);
/** An MR is there, or is there anew: remember it if it isn't wholly mapped. Makes the PD's area if there is none. */
void client_bounce_note(struct client_mr *mr, const struct bounce_reach *reach, bounce_register_fn reg);
/**
 * The daemon has dropped it, or has replaced it by another one with the same key, but its memory is still there and the members of @p mr are still the old ones.
 * Receives that were posted with it are as they would be without bounce buffers.
 */
void client_bounce_forget(struct client_mr *mr);

/**
 * Let a WR of an SQ slot send from a bounce buffer, if that helps: the slot's SGEs and the count are changed. SQ lock held.
 * @param ctl  The WR's control word, which is not stored yet.
 */
void client_bounce_send(struct client_qp *qp, struct ring_sq_wqe *w, union ring_sq_ctl *ctl);
/** The same for the receive of @p counter. RQ lock held. @return the number of SGEs that it has now */
uint16_t client_bounce_recv(struct client_qp *qp, uint32_t counter, struct ring_rq_wqe *w, uint16_t n);
/**
 * Before the completion @p e is returned to the program: copy what was received, and free the slots of the WQEs [from, to), which are
 * completed; a receive is the last of them. CQ lock held.
 */
void client_bounce_done(struct client_qp *qp, const struct ring_cqe *e, bool is_recv, uint32_t from, uint32_t to);
/** Free all slots of a QP that was reset or destroyed: the engine doesn't use them any more. */
void client_bounce_drop(struct client_qp *qp);

#endif /* UROCE_CLIENT_BOUNCE_H */
