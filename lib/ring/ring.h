/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The shared-memory ABI between a verbs program (client) and an engine.
 *
 * A queue is an array of slots; their number and stride are powers of two. A slot says itself whether it is valid: by a
 * phase byte that alternates 1, 2, 1, 2 ... with each lap (0: never written), stored last, with release order, together
 * with the rest of its control word. There is no shared index.
 *
 *   SQ   client writes, engine reads. A slot is free again when the client has polled the CQE
 *        of that WQE or of a later one (a CQE has the low 16 bits of the WQE's counter).
 *   RQ   client writes, engine reads. A slot is free again when its CQE was polled.
 *        An SRQ's slots complete out of order; its engine returns them by ring_srq_shared.head.
 *   CQ   engine writes, client reads; the client publishes its consumer counter so that the
 *        engine can detect an overrun before it happens.
 *
 * A QP that goes to RESET keeps its counters and slots: the engine skips what is posted, the client considers every
 * slot free and removes the QP's CQEs. So the phases remain right without anything being cleared.
 *
 * Of a slot, the engine copies what it relies on (opcode, flags, counts, lengths) once and checks the copy. SGEs, keys,
 * addresses and inline bytes of an SQ slot are read again for each packet, once per use, and checked then: a client
 * that rewrites a posted slot changes its own message, nothing else. No offset, handle or length in a slot is trusted.
 *
 * Doorbells: a client rings only if the engine isn't watching. Each of these rules has a store, a full fence and a load
 * on both sides (Dekker), so that at least one side always sees the other's store:
 *   client: write WQE; fence; load watch; if 0, ring       engine: watch = 0; fence; look again
 *   client: set doorbell bits; fence; load hot; if 0, kick  engine: hot = 0; fence; look again
 *   client: set arm; fence; look for a CQE                  engine: write CQE; fence; load arm
 *
 * Order. Everything here holds under C11's memory model, whatever the processor. Each word that one side writes and the other reads, with
 * the order of the store and that of the load, and what they order ("fence": a seq_cst fence of its own; "relaxed, fence": the fence comes
 * between this access and what follows on the same side):
 *
 *   word                      written by                           read by                              what it orders
 *   ring_sq_wqe.ctl           client, ring_sq_post(): release      engine, ring_sq_ready(), sq_fetch(): the slot before its control word.
 *                                                                  acquire; later looks: relaxed        ibv_wr_*() store it relaxed before
 *                                                                                                       that, with phase 0: not posted
 *   ring_rq_wqe.ctl           client, ring_rq_post(), and          engine, ring_rq_ready(),             the slot before its control word. What
 *                             restore() in bounce.c: release       rwqe_nb_sge(): acquire               restore() changes may be seen in part
 *   ring_cqe.ctl              engine, cq_push(): release           client, ring_cq_ready(): acquire     CQE, time stamp and received data before it;
 *                                                                                                       the engine's last look at the WQE, too, so
 *                                                                                                       its slot may be written again
 *   ring_cqe.ctl: dead        client: relaxed, under the CQ's lock client, under the lock               nothing: engines write the slot again only
 *                                                                                                       when cons is past it
 *   ring_qp_shared.sq_watch   engine, qp_watch(),                  client, client_sq_ring():            first rule above
 *                             qp_stop_watching(): release, fence   fence, relaxed
 *   ring_qp_shared.rq_watch   engine, qp_stop_watching():          client, client_post_recv():          the same for receives of a QP that flushes
 *                             release, fence                       fence, relaxed
 *   ring_qp_shared.state      engine, qp_set_state(): release      client, posting: relaxed             nothing: a change that the client asked for
 *                                                                                                       comes before the daemon's reply; others may be
 *                                                                                                       seen late, and what is posted is then flushed
 *   ring_srq_shared.head      engine, srq_take(): release          client, client_post_srq_recv():      the engine has copied the slot before it is
 *                                                                  acquire                              written again
 *   ring_cq_shared.arm        client and engine, by                engine, cq_wants(): fence, relaxed;  third rule above. Who swaps it to NONE has
 *                             compare-and-exchange: seq_cst;       cq_raise(): acquire                  the event, with what was known when it was read
 *                             client then: fence
 *   ring_cq_shared.cons       client, client_cq_publish():         engine, cq_reserve(),                CQEs were read before their slots are written
 *                             release                              first_unwritten(): acquire           again
 *   ring_cq_shared.seen       client, see(): release               engine, cq_raise(): relaxed,         the next request: who has loaded that arm sees it;
 *                                                                  between load and swap of arm         if arm was older, the swap fails
 *   ring_cq_shared.reported   engine, cq_raise(): release          client, cq_due(): acquire;           CQEs before it are seen by who sees it
 *                                                                  cq_grow(): seq_cst
 *   ring_cq_shared.overrun    engine, cq_fail(): release           nobody: the event CQ_ERR tells
 *   ring_db.hot               engine, session_heat(): seq_cst;     client, ring_db_ring():              second rule above. That it is 1 may be seen
 *                             session_cool(), sessions_arm():      fence, relaxed                       late: a kick too many
 *                             relaxed, fence
 *   ring_db.low, mid, top     client, ring_db_ring(), from the     engine, from the top down:           what was posted before the bit
 *                             bottom up: seq_cst; engine, what     exchange, seq_cst; whether there is
 *                             it leaves for later: the same        anything, top: relaxed
 *   ring_db.crowded           engine: relaxed                      client: relaxed                      nothing: advice
 *
 * Programs' own memory has no such words: mem_copy_tail_last() writes the last up to eight bytes of what arrives by one store, with release order, for
 * programs that poll it, and atomics are seq_cst. Requests to the daemon and events are messages of sockets, which the kernel orders.
 * tests/concurrency runs these rules; docs/internals/ordering.md has the words that threads of the daemon share.
 *
 * Cache lines are taken to have 64 bytes, on every processor: sizes and offsets are part of the ABI. Where lines have 128 bytes, words of both sides
 * share some of them, which costs time and changes nothing else.
 *
 * Used by: lib/verbs (producer of SQ and RQ, consumer of CQ), lib/transport (the other ends),
 * lib/engine (doorbells). Everything is inline, libc only, position-independent.
 */
#ifndef UROCE_RING_H
#define UROCE_RING_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "ring/abi.h"
#include "ring/wqe.h"

#define RING_CACHE_LINE 64

/** @return the phase of a slot written in the lap of @p counter, in a ring of 1 << @p order slots. */
static inline uint8_t
ring_phase(uint32_t counter, unsigned int order)
{
	return 1 + ((counter >> order) & 1);
}

/** The phases of two laps, one after the other, differ in these bits. */
#define RING_PHASES 3

/** Last word of a CQE; stored last. */
union ring_cqe_ctl {
	struct {
		uint16_t wqe_counter; /**< low 16 bits of the WQE's counter; xrc: of the SRQ's number */
		uint8_t vendor_err;   /**< enum in lib/transport/transport.h; 0 on success */
		uint8_t wc_flags;     /**< UROCE_WC_* flags */
		uint8_t sl;           /**< UD: 0xA IPv4, 0x9 IPv6 (bit 3: RoCE v2, as mlx5 sets it and UCX reads it) */
		uint8_t pkey_index;
		uint8_t is_recv : 1;  /**< the WQE was on an RQ or SRQ */
		uint8_t solicited : 1;
		uint8_t dead : 1;     /**< set by the client: the QP is destroyed, skip the CQE */
		uint8_t xrc : 1;      /**< a receive from an XRC SRQ: the QP may be another program's */
		uint8_t reserved : 4;
		uint8_t phase;        /**< ring_phase() */
	};
	uint64_t word;
};

/** Bits of union ring_cqe_ctl, for ring_cqe_ctl_make(). */
#define RING_CQE_IS_RECV   0x1
#define RING_CQE_SOLICITED 0x2
#define RING_CQE_XRC       0x8

/**
 * @return a control word without its phase. It is made as one word: if its bytes were stored one by one, to load all of them would take until every store
 * before that has left the store buffer, those to lines of other cores too.
 * @param bits  RING_CQE_*
 */
static inline union ring_cqe_ctl
ring_cqe_ctl_make(uint16_t wqe_counter, uint8_t vendor_err, uint8_t wc_flags, uint8_t sl, uint8_t pkey_index, uint8_t bits)
{
	return (union ring_cqe_ctl){ .word = wqe_counter | (uint32_t)vendor_err << 16 | (uint32_t)wc_flags << 24 | (uint64_t)sl << 32 | (uint64_t)pkey_index << 40 |
					     (uint64_t)bits << 48 };
}

/** @return @p word, which has no phase, with @p phase: control words of CQEs, RQ and SRQ slots. */
static inline uint64_t
ring_with_phase(uint64_t word, uint8_t phase)
{
	return word | (uint64_t)phase << 56;
}

/** A completion. */
struct ring_cqe {
	uint64_t wr_id;
	uint32_t byte_len;
	uint32_t imm;          /**< network byte order; with WITH_INV the invalidated rkey, host byte order */
	union {
		struct {
			uint32_t qpn : 24;
			uint32_t status : 8; /**< enum uroce_wc_status */
		};
		uint32_t qpn_status;         /**< both at once: to store one alone, the CPU would first load the other from the client's cache */
	};
	union {
		struct {
			uint32_t src_qp : 24;
			uint32_t opcode : 8; /**< enum uroce_wc_op */
		};
		uint32_t src_qp_opcode;      /**< both at once, as above */
	};
	_Atomic uint64_t ctl;  /**< union ring_cqe_ctl */
};

/** Memory of a QP that both sides share, besides its rings. */
struct ring_qp_shared {
	/* Written by the engine. */
	_Atomic uint32_t sq_watch; /**< 1: the engine watches the SQ; 0: ring after posting */
	_Atomic uint32_t rq_watch; /**< 1: no need to ring after posting a receive; 0: ring, because the QP flushes */
	_Atomic uint32_t state;    /**< current enum uroce_qp_state */
	uint8_t pad[RING_CACHE_LINE - 12];
};

/** Memory of an SRQ that both sides share, besides its ring. */
struct ring_srq_shared {
	/* Written by the engine. */
	_Atomic uint32_t head; /**< number of WQEs taken so far: slots before are free, as WQEs are copied when taken */
	uint8_t pad[RING_CACHE_LINE - 4];
};

/** What ring_cq_shared.arm asks for: its low bits, ring_arm(). */
enum {
	RING_ARM_NONE = 0,
	RING_ARM_ANY = 1,
	RING_ARM_SOLICITED = 2,
	RING_ARM_WATCHED = 3, /**< as ANY, but a thread of the client looks for completions itself: engines raise nothing */
	RING_ARM_MASK = 3,
};

/** @return RING_ARM_* of a value of ring_cq_shared.arm. */
static inline uint32_t
ring_arm(uint32_t word)
{
	return word & RING_ARM_MASK;
}

/** @return @p word with RING_ARM_* @p what, and the number of the request that it had. */
static inline uint32_t
ring_arm_as(uint32_t word, uint32_t what)
{
	return (word & ~(uint32_t)RING_ARM_MASK) | what;
}

/** @return the value of ring_cq_shared.arm for a new request after @p word. */
static inline uint32_t
ring_arm_next(uint32_t word, uint32_t what)
{
	return ring_arm_as(word + RING_ARM_MASK + 1, what);
}

/** Memory of a CQ that both sides share, besides its ring. */
struct ring_cq_shared {
	/*
	 * Written by the client, except that whoever raises the event swaps arm back to NONE first. The bits above RING_ARM_MASK count the
	 * client's requests: an engine that has looked at one and found an event to raise must not answer a later one with it.
	 */
	_Atomic uint32_t arm;
	_Atomic uint32_t cons; /**< CQEs polled so far */
	_Atomic uint32_t seen; /**< counter of the next CQE when the client last armed the CQ or took an event itself; not for those before */
	uint8_t pad0[RING_CACHE_LINE - 12];
	/* Written by the engine. */
	_Atomic uint32_t overrun;  /**< 1: the CQ is in error and gets no more CQEs */
	_Atomic uint32_t reported; /**< counter of the next CQE when the last event was raised */
	uint8_t pad1[RING_CACHE_LINE - 8];
};

/** Whether programs that poll in vain should yield their cores. */
enum ring_crowded {
	RING_CORES_ENOUGH = 0,
	RING_CROWDED,      /**< yes: other threads need the cores of the engine or of the program */
	RING_CROWDED_SOON, /**< seldom: others need the cores, but this program sends little, and what it waits for comes soon */
};

/** Doorbells of a session for one engine: three levels of 64, so that the engine can check them with one load. */
#define RING_DB_SLOTS (64 * 64 * 64)
struct ring_db {
	_Atomic uint32_t hot; /**< by the engine: 1: it polls top; 0: write to the kick eventfd after ringing */
	/** By the engine: enum ring_crowded. */
	_Atomic uint32_t crowded;
	uint8_t pad0[RING_CACHE_LINE - 8];
	_Atomic uint64_t top;
	uint8_t pad1[RING_CACHE_LINE - 8];
	_Atomic uint64_t mid[64];
	_Atomic uint64_t low[64 * 64]; /**< bits: doorbell slots of QPs */
};

static_assert(sizeof(struct ring_cqe) == 32, "ABI");
static_assert(sizeof(struct ring_qp_shared) == 64, "ABI");
static_assert(sizeof(struct ring_cq_shared) == 128, "ABI");
static_assert(sizeof(struct ring_srq_shared) == 64, "ABI");
static_assert(offsetof(struct ring_cqe, ctl) == 24, "ABI");
static_assert(offsetof(struct ring_cq_shared, overrun) == 64, "ABI");
static_assert(offsetof(struct ring_db, top) == 64 && offsetof(struct ring_db, mid) == 128, "ABI");
static_assert(offsetof(struct ring_db, low) == 640 && sizeof(struct ring_db) == 640 + 64 * 64 * 8, "ABI");
static_assert(ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_LLONG_LOCK_FREE == 2, "a lock in a process of one side orders nothing for the other");

/** One side's view of a queue. The struct is private to that side, the slots are shared. */
struct ring {
	uint8_t *base;     /**< first slot */
	uint32_t order;    /**< log2 of the number of slots */
	uint32_t shift;    /**< log2 of the stride */
	uint32_t counter;  /**< this side's next slot; not reduced modulo the ring's size */
	uint32_t mask;     /**< the number of slots minus one */
};
#define RING_MASK(order_) ((UINT32_C(1) << (order_)) - 1)
/** Members of an initializer: 1 << @p order_ slots of 1 << @p shift_ bytes. */
#define RING_SIZE(order_, shift_) .order = (order_), .shift = (shift_), .mask = RING_MASK(order_)

/** Give @p r other slots. Its counter stays. */
static inline void
ring_set_slots(struct ring *r, void *base, uint32_t order, uint32_t shift)
{
	r->base = base;
	r->order = order;
	r->shift = shift;
	r->mask = RING_MASK(order);
}

/** @return the slot of @p counter. */
static inline void *
ring_slot(const struct ring *r, uint32_t counter)
{
	return r->base + ((size_t)(counter & r->mask) << r->shift);
}

/** Client: post SQ slot @p w of @p counter, which is filled in except for its control word. Release. */
static inline void
ring_sq_post(const struct ring *r, uint32_t counter, struct ring_sq_wqe *w, union ring_sq_ctl ctl)
{
	UROCE_ASSERT((void *)w == ring_slot(r, counter));
	atomic_store_explicit(&w->ctl, (ctl.word & ~(UINT64_C(0xff) << RING_SQ_PHASE_SHIFT)) | (uint64_t)ring_phase(counter, r->order) << RING_SQ_PHASE_SHIFT,
			      memory_order_release);
}

/** Client: post RQ or SRQ slot @p w of @p counter, with @p num_sge SGEs. Release. */
static inline void
ring_rq_post(const struct ring *r, uint32_t counter, struct ring_rq_wqe *w, uint16_t num_sge)
{
	UROCE_ASSERT((void *)w == ring_slot(r, counter));
	atomic_store_explicit(&w->ctl, ring_with_phase(num_sge, ring_phase(counter, r->order)), memory_order_release);
}

/** Engine: @return true if the SQ slot of @p counter has been posted. Acquire. */
static inline bool
ring_sq_ready(const struct ring *r, uint32_t counter)
{
	struct ring_sq_wqe *w = ring_slot(r, counter);
	union ring_sq_ctl c = { .word = atomic_load_explicit(&w->ctl, memory_order_acquire) };

	return c.phase == ring_phase(counter, r->order);
}

/** Engine: @return true if the RQ slot of @p counter has been posted. Acquire. */
static inline bool
ring_rq_ready(const struct ring *r, uint32_t counter)
{
	struct ring_rq_wqe *w = ring_slot(r, counter);
	union ring_rq_ctl c = { .word = atomic_load_explicit(&w->ctl, memory_order_acquire) };

	return c.phase == ring_phase(counter, r->order);
}

/** Client: @return true if the CQE of @p counter has been written; *@p ctl gets its control word. Acquire. */
static inline bool
ring_cq_ready(const struct ring *r, uint32_t counter, union ring_cqe_ctl *ctl)
{
	struct ring_cqe *e = ring_slot(r, counter);

	ctl->word = atomic_load_explicit(&e->ctl, memory_order_acquire);
	return ctl->phase == ring_phase(counter, r->order);
}

/**
 * Client: ring doorbell @p slot.
 *
 * @return true if the engine is cold and the caller must write to the session's kick eventfd.
 */
static inline bool
ring_db_ring(struct ring_db *db, uint32_t slot)
{
	/*
	 * The client sets the levels from the bottom up, the engine clears them from the top down. If a bit was set
	 * already, another thread is about to set the levels above it.
	 */
	if (atomic_fetch_or(&db->low[slot >> 6], UINT64_C(1) << (slot & 63)) == 0 &&
	    atomic_fetch_or(&db->mid[slot >> 12], UINT64_C(1) << (slot >> 6 & 63)) == 0)
		atomic_fetch_or(&db->top, UINT64_C(1) << (slot >> 12));
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&db->hot, memory_order_relaxed) == 0;
}

#endif /* UROCE_RING_H */
