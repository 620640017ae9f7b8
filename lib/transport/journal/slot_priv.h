/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The layout of a journal's memory, and the slots of QPs in it. core/journal_format_priv.h has the rest.
 *
 * In this order: head, table of members, list, SRQs, events owed per CQ, counters, slots, each at a page of its own.
 */
#ifndef UROCE_TP_JOURNAL_SLOT_H
#define UROCE_TP_JOURNAL_SLOT_H

#include <string.h>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#endif

#include "base/crc32c.h"
#include "transport/core/journal_format_priv.h"
#include "transport/core/limits_priv.h"
#include "transport/journal/image_priv.h"
#include "transport/journal/journal.h"

enum {
	JOURNAL_PARTS_BYTES = UROCE_MAX_RD_ATOMIC * (sizeof(struct tp_res) + sizeof(struct qp_record_read) + sizeof(struct qp_record_kept)) +
			      UROCE_MAX_SGE * sizeof(struct qp_record_sge),
};

/** What seldom changes of a QP: record_cold(). */
struct journal_cold {
	struct uroce_qp_attr attr;
	struct record_addr addr, alt;
	uint16_t alt_port, alt_pkey;
	uint8_t has_path, alt_loopback, reserved[6];
};
static_assert(sizeof(struct journal_cold) % 8 == 0, "format");

/** journal_copy.flags. */
enum {
	JOURNAL_RECEIVES = 1, /**< a receive is being filled */
	JOURNAL_REPAIRS = 2,  /**< a loss is being repaired. What the scoreboard knows isn't written: go back to what isn't acknowledged */
};

/** One of the two copies of what is known of a QP. Times in it are those of the clock. */
struct journal_copy {
	_Atomic uint64_t tag;
	uint64_t prev;               /**< tag of the other copy, which counted when this was written; 0: none */
	uint64_t sum[2];             /**< of all else up to the end of the image: struct journal_sum */
	/* The beginning of what is added, after tag and prev: struct journal_added. */
	uint32_t parts_bytes, parts_crc; /**< results (struct tp_res), READs, SGEs and what is kept, in that order */
	uint32_t cold_crc;
	uint32_t srqn;               /**< qp_record.srqn */
	uint32_t placed_to, local_to; /**< if kept says so */
	uint8_t state;               /**< enum journal_state */
	uint8_t flags;
	uint8_t kept;                /**< QP_KEPT_* */
	uint8_t nb_res, nb_reads, nb_sges, nb_kept, reserved;
	struct qp_record_wqe oldest; /**< of those in flight, if there are some */
	uint8_t image[JOURNAL_IMAGE_ROOM];
	struct journal_cold cold;
	uint8_t pad[32];
};
enum { JOURNAL_ADDED_AT = offsetof(struct journal_copy, parts_bytes), JOURNAL_ADDED_BYTES = offsetof(struct journal_copy, oldest) - JOURNAL_ADDED_AT };
/** The members from parts_bytes to reserved, as words. */
struct journal_added {
	uint64_t words[4];
};
static_assert(sizeof(struct journal_added) == JOURNAL_ADDED_BYTES && offsetof(struct journal_copy, parts_crc) == JOURNAL_ADDED_AT + 4 &&
	      offsetof(struct journal_copy, cold_crc) == JOURNAL_ADDED_AT + 8 && offsetof(struct journal_copy, srqn) == JOURNAL_ADDED_AT + 12 &&
	      offsetof(struct journal_copy, placed_to) == JOURNAL_ADDED_AT + 16 && offsetof(struct journal_copy, local_to) == JOURNAL_ADDED_AT + 20 &&
	      offsetof(struct journal_copy, state) == JOURNAL_ADDED_AT + 24 && offsetof(struct journal_copy, flags) == JOURNAL_ADDED_AT + 25 &&
	      offsetof(struct journal_copy, kept) == JOURNAL_ADDED_AT + 26 && offsetof(struct journal_copy, nb_res) == JOURNAL_ADDED_AT + 27 &&
	      offsetof(struct journal_copy, nb_reads) == JOURNAL_ADDED_AT + 28 && offsetof(struct journal_copy, nb_sges) == JOURNAL_ADDED_AT + 29 &&
	      offsetof(struct journal_copy, nb_kept) == JOURNAL_ADDED_AT + 30, "write_added()");
static_assert(JOURNAL_ADDED_BYTES == 32 && offsetof(struct journal_copy, image) == 96 && sizeof(struct journal_copy) % 64 == 0, "format");
static_assert(UROCE_MAX_RD_ATOMIC <= UINT8_MAX && UROCE_MAX_SGE <= UINT8_MAX, "format");
/* A WQE in flight is written as it is. */
static_assert(sizeof(struct tp_swqe) == sizeof(struct qp_record_wqe) && offsetof(struct tp_swqe, first_psn) == offsetof(struct qp_record_wqe, first_psn) &&
	      offsetof(struct tp_swqe, last_psn) == offsetof(struct qp_record_wqe, last_psn) && offsetof(struct tp_swqe, length) == offsetof(struct qp_record_wqe, length) &&
	      offsetof(struct tp_swqe, recvs) == offsetof(struct qp_record_wqe, recvs) && offsetof(struct tp_swqe, opcode) == offsetof(struct qp_record_wqe, opcode) &&
	      offsetof(struct tp_swqe, flags) == offsetof(struct qp_record_wqe, flags) && offsetof(struct tp_swqe, nb_sge) == offsetof(struct qp_record_wqe, nb_sge) &&
	      offsetof(struct tp_swqe, status) == offsetof(struct qp_record_wqe, status) && offsetof(struct tp_swqe, verr) == offsetof(struct qp_record_wqe, verr),
	      "format");

struct journal_slot {
	struct journal_notes notes;
	struct journal_copy copy[2];
	uint8_t parts[2][JOURNAL_PARTS_BYTES] __attribute__((aligned(8)));
};
/** Their size, a page's multiple. */
#define JOURNAL_SLOT_BYTES (((uint32_t)sizeof(struct journal_slot) + JOURNAL_PAGE - 1) & ~(JOURNAL_PAGE - 1u))

/** One of two copies. */
struct journal_counters {
	_Atomic uint64_t tag;
	struct transport_record rec;
};

static_assert(TP_JOURNAL_ITEMS + JOURNAL_ITEMS_STEP <= JOURNAL_ITEMS, "a step begins below the limit, and finds room");
static_assert(JOURNAL_QP_BYTES == sizeof(struct qp_record) + sizeof(struct qp_record_wqe) + JOURNAL_PARTS_BYTES +
	      UROCE_MAX_RD_ATOMIC * (sizeof(struct qp_record_res) - sizeof(struct tp_res)), "the largest");
static_assert(UROCE_MAX_RD_ATOMIC % 2 == 0, "journal_results_bytes() of the most is within JOURNAL_PARTS_BYTES");

/** Where everything is. */
struct journal_layout {
	size_t members, list, srqs, owed, counters, slots, bytes;
};
struct journal_layout journal_layout(const struct journal_limits *l);

/** @return the bytes of @p nb results in the parts of a copy. */
static inline uint32_t
journal_results_bytes(uint32_t nb)
{
	return (nb * (uint32_t)sizeof(struct tp_res) + 7) & ~7u;
}

enum { JOURNAL_CRC_LONG = 256 }; /**< from so many bytes on ISA-L is faster, a call included */
/** @return the CRC-32C of @p bytes, a multiple of 8, at @p at, which is aligned to 8. */
static inline uint32_t
journal_crc(uint32_t crc, const void *at, size_t bytes)
{
#ifdef __SSE4_2__
	/* Each word waits three cycles for the one before: fast enough for few of them. */
	if (bytes < JOURNAL_CRC_LONG) {
		const uint8_t *p = at;
		uint64_t c = crc, w;

		for (size_t i = 0; i < bytes / sizeof(w); i++) {
			memcpy(&w, p + i * sizeof(w), sizeof(w));
			c = _mm_crc32_u64(c, w);
		}
		return (uint32_t)c;
	}
#endif
	return crc32c(crc, at, bytes);
}

/** @return the CRC of what seldom changes. */
static inline uint32_t
journal_cold_crc(const struct journal_copy *c)
{
	return journal_crc(UINT32_MAX, &c->cold, sizeof(c->cold));
}

/** @return the sum of a copy that is written in the turn @p tag, so far. What is added afterwards is added in the order in which it is in the copy. */
static inline struct journal_sum
journal_sum_begin(uint64_t tag, uint64_t prev)
{
	return (struct journal_sum){ .words = { tag, prev }, .sums = { tag, prev } };
}

/** Add up a copy that was written. @param image_bytes  How long its image is, a multiple of 16. @param sum  Gets what journal_copy.sum should have. */
static inline void
journal_copy_sum(const struct journal_copy *c, uint64_t tag, uint32_t image_bytes, uint64_t *sum)
{
	struct journal_sum s = journal_sum_begin(tag, c->prev);

	journal_sum_of(&s, (const uint8_t *)c + JOURNAL_ADDED_AT, JOURNAL_ADDED_BYTES + sizeof(c->oldest) + image_bytes);
	journal_sum_end(&s, sum);
}

#endif /* UROCE_TP_JOURNAL_SLOT_H */
