/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The layout of a journal's memory, and the slots of QPs in it. core/journal_format_priv.h has the rest.
 *
 * In this order: head, list, SRQs, events owed per CQ, counters, slots, each at a page of its own.
 */
#ifndef UROCE_TP_JOURNAL_SLOT_H
#define UROCE_TP_JOURNAL_SLOT_H

#include <string.h>

#ifdef __SSE4_2__
#include <nmmintrin.h>
#else
#include <isa-l/crc.h>
#endif

#include "transport/core/journal_format_priv.h"
#include "transport/core/limits_priv.h"
#include "transport/journal/journal.h"

enum {
	JOURNAL_PARTS_BYTES = UROCE_MAX_RD_ATOMIC * (sizeof(struct tp_res) + sizeof(struct qp_record_read) + sizeof(struct qp_record_kept)) +
			      UROCE_MAX_SGE * sizeof(struct qp_record_sge),
};

/** One of the two copies of a QP's record. Times in it are those of the clock. */
struct journal_copy {
	_Atomic uint64_t tag;
	uint64_t prev;               /**< tag of the other copy, which counted when this was written; 0: none */
	uint32_t state;              /**< enum journal_state */
	uint32_t parts_bytes;        /**< of results (struct tp_res), READs, SGEs and what is kept, in that order */
	uint32_t cold_crc;           /**< of the record's members from attr to alt_pkey */
	uint32_t crc;                /**< of all else and the parts */
	struct qp_record_wqe oldest; /**< of those in flight, if there are some */
	struct qp_record rec;
};
static_assert(offsetof(struct journal_copy, oldest) == 32 && sizeof(struct journal_copy) % 8 == 0, "format");

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
	size_t list, srqs, owed, counters, slots, bytes;
};
struct journal_layout journal_layout(const struct journal_limits *l);

/** @return the bytes of @p nb results in the parts of a copy. */
static inline uint32_t
journal_results_bytes(uint32_t nb)
{
	return (nb * (uint32_t)sizeof(struct tp_res) + 7) & ~7u;
}

/* As 64 bits, of which the upper half is 0, it need not be extended between two words. */
static inline uint64_t
journal_crc_word(uint64_t crc, uint64_t word)
{
#ifdef __SSE4_2__
	return _mm_crc32_u64(crc, word);
#else
	return crc32_iscsi((unsigned char *)&word, sizeof(word), (uint32_t)crc);
#endif
}

/** @return the CRC-32C of @p bytes, a multiple of 8, at @p at, which is aligned to 8. */
static inline uint32_t
journal_crc(uint32_t crc, const void *at, size_t bytes)
{
#ifdef __SSE4_2__
	const uint8_t *p = at;
	uint64_t c = crc, w;

#pragma GCC unroll 8
	for (size_t i = 0; i < bytes / sizeof(w); i++) {
		memcpy(&w, p + i * sizeof(w), sizeof(w));
		c = journal_crc_word(c, w);
	}
	return (uint32_t)c;
#else
	return crc32_iscsi((unsigned char *)(uintptr_t)at, (int)bytes, crc);
#endif
}

/* The record in three pieces; the one in the middle seldom changes. */
#define JOURNAL_COLD_AT offsetof(struct qp_record, attr)
#define JOURNAL_COLD_END (offsetof(struct qp_record, alt_pkey) + sizeof(uint16_t))
static_assert(JOURNAL_COLD_AT % 8 == 0 && JOURNAL_COLD_END % 8 == 0 && sizeof(struct qp_record) % 8 == 0, "format");

static inline uint32_t
journal_copy_cold_crc(const struct journal_copy *c)
{
	return journal_crc(UINT32_MAX, (const uint8_t *)&c->rec + JOURNAL_COLD_AT, JOURNAL_COLD_END - JOURNAL_COLD_AT);
}

/* Of four pieces, and then of their CRCs: a CPU works on them side by side. */
static inline uint32_t
journal_copy_crc(const struct journal_copy *c, uint64_t tag, const void *parts)
{
	uint64_t head = journal_crc_word(journal_crc_word(UINT32_MAX, tag), c->prev), first, last, rest;

	head = journal_crc_word(journal_crc_word(head, c->state | (uint64_t)c->parts_bytes << 32), c->cold_crc);
	head = journal_crc((uint32_t)head, &c->oldest, sizeof(c->oldest));
	first = journal_crc(UINT32_MAX, (const uint8_t *)&c->rec + sizeof(struct record_head), JOURNAL_COLD_AT - sizeof(struct record_head));
	last = journal_crc(UINT32_MAX, (const uint8_t *)&c->rec + JOURNAL_COLD_END, sizeof(c->rec) - JOURNAL_COLD_END);
	rest = journal_crc(UINT32_MAX, parts, c->parts_bytes);
	return (uint32_t)journal_crc_word(journal_crc_word(UINT32_MAX, head | first << 32), last | rest << 32);
}

#endif /* UROCE_TP_JOURNAL_SLOT_H */
