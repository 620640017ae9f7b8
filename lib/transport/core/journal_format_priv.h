/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What is in the memory of a journal, apart from the slots of QPs (journal/slot_priv.h), and the checks that find damage in it.
 *
 * Whoever writes may be killed between any two stores, and only then is it read. So stores need to be in the program's order and no more: words that others
 * depend on are atomic, stored with release. Each turn has a number. What was written by turns up to the one in journal_head.turn counts; of the next one, which was being
 * made, only what notes say.
 *
 * Checks are sums that any single wrong bit changes, or CRCs.
 */
#ifndef UROCE_TP_JOURNAL_FORMAT_H
#define UROCE_TP_JOURNAL_FORMAT_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mem/job.h"

#define JOURNAL_MAGIC UINT64_C(0x6c616e72756f6a75)
enum {
	JOURNAL_VERSION = 3,
	JOURNAL_ITEMS = 32768,   /**< things to be shown in a turn */
	JOURNAL_ITEMS_STEP = 16384, /**< what one step may add to them: a batch of packets, each of which may complete all that is in flight, or have all that is held beyond a gap executed */
	JOURNAL_ATOMICS = 8192,  /**< atomics executed in a turn */
	JOURNAL_ATOMICS_STEP = 4352, /**< a batch of packets, each of which may have as many executed as are held beyond a gap */
	JOURNAL_PAGE = 4096,
};

/** At the beginning. */
struct journal_head {
	uint64_t magic;
	uint32_t version;
	uint32_t qps, cqs, srqs;     /**< struct journal_limits */
	uint32_t slot_bytes, items, atomics;
	uint32_t image_bytes;        /**< of a QP, a multiple of 16 (journal/image_priv.h) */
	uint32_t nb_members;         /**< lines of the table that says what is where in it, */
	uint32_t members_crc;        /**< and its CRC */
	uint32_t crc;                /**< of all before it */
	uint8_t pad0[12];
	_Atomic uint64_t turn;       /**< tag of the last turn that counts */
	uint8_t pad1[56];
	_Atomic uint64_t used;       /**< slots of QPs that were ever used, journal_number() */
	uint8_t pad2[56];
};
static_assert(sizeof(struct journal_head) == 192 && offsetof(struct journal_head, crc) % 8 == 0, "format");

/* ---- Numbers with checks ---- */
/** @return the number of a turn, 48 bits, with a check above. No turn has the tag 0. */
static inline uint64_t
journal_tag(uint64_t turn)
{
	return (turn & UINT64_C(0xffffffffffff)) | ((turn ^ turn >> 16 ^ turn >> 32 ^ UINT64_C(0x5aa5)) & 0xffff) << 48;
}

/** @return false: it is damaged, or there is none. */
static inline bool
journal_untag(uint64_t tag, uint64_t *turn)
{
	*turn = tag & UINT64_C(0xffffffffffff);
	return tag == journal_tag(*turn);
}

static inline uint64_t
journal_number(uint32_t n)
{
	return n | (uint64_t)~n << 32;
}

/** From a number to the next one. */
#define JOURNAL_NUMBER_NEXT (1 - (UINT64_C(1) << 32))

/** @return false: it is damaged. */
static inline bool
journal_get_number(uint64_t word, uint32_t *n)
{
	*n = (uint32_t)word;
	return word == journal_number(*n);
}

/* A note of a turn is a bit that makes the number of ones odd, 31 bits of the turn's number, and a value. */
/** @return the note of value 0. */
static inline uint64_t
journal_note_zero(uint64_t turn)
{
	uint64_t x = (turn & 0x7fffffff) << 32;

	return x | (uint64_t)!__builtin_parityll(x) << 63;
}

static inline uint64_t
journal_note_of(uint64_t zero, uint32_t value)
{
	return zero ^ value ^ (uint64_t)__builtin_popcount(value) << 63;
}

/** @return false: it is damaged. No note at all is of no turn. */
static inline bool
journal_get_note(uint64_t note, uint64_t turn, uint32_t *value, bool *now)
{
	*value = (uint32_t)note;
	*now = note != 0 && (note >> 32 & 0x7fffffff) == (turn & 0x7fffffff);
	return note == 0 || __builtin_parityll(note) != 0;
}

/* ---- What a turn shows, and which atomics it executed ---- */
enum journal_item_kind { JOURNAL_ITEM_CQE = 1, JOURNAL_ITEM_OVERRUN, JOURNAL_ITEM_EVENT };
/** What an event is about: enum journal_object. */
enum { JOURNAL_OF_QP = 1, JOURNAL_OF_CQ, JOURNAL_OF_SRQ };
/** CQE: number of the CQ, counter of the first of some CQEs in one lap of its ring, `of` how many more follow, order of the ring. OVERRUN: number of the CQ. EVENT: number, enum uroce_event, JOURNAL_OF_*. */
struct journal_item {
	uint32_t number, counter;
	uint8_t kind, type, of, order;
	uint32_t check;
};
static_assert(sizeof(struct journal_item) == 16, "format");

static inline uint32_t
journal_item_check(const struct journal_item *i, uint64_t turn)
{
	return i->number ^ i->counter ^ ((uint32_t)i->kind | (uint32_t)i->type << 8 | (uint32_t)i->of << 16 | (uint32_t)i->order << 24) ^ (uint32_t)turn ^
	       UINT32_C(0x5aa55aa5);
}

/** An atomic. It was executed if done, or, of the last one, if memory has the value after it. */
struct journal_atomic {
	uint64_t before, after;
	uint64_t va;             /**< as the MR sees it */
	uint32_t key;            /**< of the MR */
	uint32_t qpn;
	union {
		struct {
			uint32_t psn;
			_Atomic uint32_t done; /**< JOURNAL_DONE or 0 */
		};
		uint64_t begun;      /**< PSN of an atomic that isn't done, as one word */
	};
	uint64_t check;
};
static_assert(sizeof(struct journal_atomic) == 48 && offsetof(struct journal_atomic, begun) == 32, "format");
#define JOURNAL_DONE UINT32_C(0x656e6f64)

/** @return what the checks of a turn's atomics begin with. */
static inline uint64_t
journal_atomic_seed(uint64_t turn)
{
	return turn ^ UINT64_C(0x5aa55aa55aa55aa5);
}

/** @param of  Key, above, and QPN. */
static inline uint64_t
journal_atomic_sum(uint64_t before, uint64_t after, uint64_t va, uint64_t of, uint32_t psn, uint64_t seed)
{
	/* What is known last comes last. */
	return (va ^ of ^ psn ^ seed) ^ before ^ (after << 1 | after >> 63);
}

static inline uint64_t
journal_atomic_check(const struct journal_atomic *a, uint64_t turn)
{
	return journal_atomic_sum(a->before, a->after, a->va, (uint64_t)a->key << 32 | a->qpn, a->psn, journal_atomic_seed(turn));
}

struct journal_list {
	_Atomic uint64_t turn;       /**< tag of the turn to which it belongs */
	_Atomic uint64_t nb_items;   /**< journal_number() */
	uint64_t nb_atomics;         /**< not atomic, so that counting one is a single instruction */
	uint8_t pad[40];
	struct journal_item items[JOURNAL_ITEMS];
	struct journal_atomic atomics[JOURNAL_ATOMICS];
};

/* ---- SRQs ---- */
/** What an object was when a copy of its state was written. */
enum journal_state { JOURNAL_NONE = 0, JOURNAL_USED, JOURNAL_LEAVING /**< it moves to another engine */ };
/** SRQs and QPs have two copies, written by turns. The one that counts is the last that doesn't belong to the turn that was being made. */
struct journal_srq_copy {
	_Atomic uint64_t tag;
	uint64_t prev;               /**< tag of the other copy, which counted when this was written; 0: none */
	uint32_t counter, limit;
	uint32_t state;
	uint32_t check;
};
struct journal_srq {
	struct journal_srq_copy copy[2];
	_Atomic uint64_t moved;      /**< JOURNAL_MOVED: it has arrived at another engine */
	uint8_t pad[56];
};
static_assert(sizeof(struct journal_srq) == 128, "format");
#define JOURNAL_MOVED UINT64_C(0x6d6f766564212121)

static inline uint32_t
journal_srq_check(const struct journal_srq_copy *c, uint64_t tag)
{
	uint64_t x = tag ^ (c->prev << 1 | c->prev >> 63);

	return (uint32_t)(x ^ x >> 32) ^ c->counter ^ c->limit ^ c->state ^ UINT32_C(0x5aa55aa5);
}

/* ---- Notes about a QP, outside its copies ---- */
struct journal_notes {
	_Atomic uint64_t placed;     /**< journal_note_of(): WRITEs of packets before this PSN are in memory */
	_Atomic uint64_t local;      /**< local WQEs before this counter are executed */
	_Atomic uint64_t moved;      /**< JOURNAL_MOVED */
	/** The last atomic that a copier was to execute: it is at va of the MR with this key. */
	struct mem_note away;
	uint64_t away_va;
	uint32_t away_key, away_check;
	uint8_t pad[56];
};
static_assert(sizeof(struct journal_notes) == 128, "format");

/** @return mem_note.state of an atomic of packet @p psn. @param done  JOURNAL_AWAY_BEGUN or _DONE. */
enum { JOURNAL_AWAY_BEGUN = 1, JOURNAL_AWAY_DONE = 2 };
static inline uint64_t
journal_away(uint32_t psn, uint32_t done)
{
	return journal_number(psn | done << 24);
}

/** @return false: it is damaged. 0 is none. */
static inline bool
journal_get_away(uint64_t state, uint32_t *psn, uint32_t *done)
{
	uint32_t n;

	*psn = *done = 0;
	if (state == 0)
		return true;
	if (!journal_get_number(state, &n) || (n >> 24 != JOURNAL_AWAY_BEGUN && n >> 24 != JOURNAL_AWAY_DONE))
		return false;
	*psn = n & 0xffffff;
	*done = n >> 24;
	return true;
}

static inline uint32_t
journal_away_check(const struct journal_notes *n)
{
	return (uint32_t)(n->away_va ^ n->away_va >> 32) ^ n->away_key ^ UINT32_C(0x5aa55aa5);
}

#endif /* UROCE_TP_JOURNAL_FORMAT_H */
