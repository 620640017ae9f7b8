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
	JOURNAL_WQES = 2 * TP_INFLIGHT_MAX, /**< at most: what counts keeps its places while as many again are written */
	JOURNAL_PARTS_BYTES = UROCE_MAX_RD_ATOMIC * (sizeof(struct qp_record_res) + sizeof(struct qp_record_read) + sizeof(struct qp_record_kept)) +
			      UROCE_MAX_SGE * sizeof(struct qp_record_sge),
};

/** One of the two copies of a QP's record. Times in it are those of the clock; its WQEs are in the slot, written once each. */
struct journal_copy {
	_Atomic uint64_t tag;
	uint64_t prev;               /**< tag of the other copy, which counted when this was written; 0: none */
	uint32_t state;              /**< enum journal_state */
	uint32_t parts_bytes;        /**< of results, READs, SGEs and what is kept, in that order */
	uint32_t cold_crc;           /**< of the record's members from attr to alt_pkey */
	uint32_t crc;                /**< of all else and the parts */
	struct qp_record rec;
};
static_assert(offsetof(struct journal_copy, rec) == 32 && sizeof(struct journal_copy) % 8 == 0, "format");

struct journal_slot {
	struct journal_notes notes;
	struct journal_copy copy[2];
	uint8_t parts[2][JOURNAL_PARTS_BYTES] __attribute__((aligned(8)));
	struct qp_record_wqe wqes[JOURNAL_WQES]; /**< by their counters modulo the size, twice that of the SQ at most */
};
/** Their size, a page's multiple. */
#define JOURNAL_SLOT_BYTES (((uint32_t)sizeof(struct journal_slot) + JOURNAL_PAGE - 1) & ~(JOURNAL_PAGE - 1u))

/** One of two copies. */
struct journal_counters {
	_Atomic uint64_t tag;
	struct transport_record rec;
};

static_assert(TP_JOURNAL_ITEMS + JOURNAL_ITEMS_STEP <= JOURNAL_ITEMS, "a step begins below the limit, and finds room");
static_assert(JOURNAL_QP_BYTES == sizeof(struct qp_record) + TP_INFLIGHT_MAX * sizeof(struct qp_record_wqe) + JOURNAL_PARTS_BYTES, "the largest");

/** Where everything is. */
struct journal_layout {
	size_t list, srqs, owed, counters, slots, bytes;
};
struct journal_layout journal_layout(const struct journal_limits *l);

/** @return the CRC-32C of @p bytes, a multiple of 8, at @p at, which is aligned to 8. */
static inline uint32_t
journal_crc(uint32_t crc, const void *at, size_t bytes)
{
#ifdef __SSE4_2__
	const uint8_t *p = at;
	uint64_t c = crc, w;

	for (const uint8_t *end = p + bytes; p != end; p += sizeof(w)) {
		memcpy(&w, p, sizeof(w));
		c = _mm_crc32_u64(c, w);
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

static inline uint32_t
journal_copy_crc(const struct journal_copy *c, uint64_t tag, const void *parts)
{
	const struct {
		uint64_t tag, prev;
		uint32_t state, parts_bytes, cold_crc, reserved;
	} head = { tag, c->prev, c->state, c->parts_bytes, c->cold_crc, 0 };
	uint32_t crc = journal_crc(UINT32_MAX, &head, sizeof(head));

	crc = journal_crc(crc, (const uint8_t *)&c->rec + sizeof(struct record_head), JOURNAL_COLD_AT - sizeof(struct record_head));
	crc = journal_crc(crc, (const uint8_t *)&c->rec + JOURNAL_COLD_END, sizeof(c->rec) - JOURNAL_COLD_END);
	return journal_crc(crc, parts, c->parts_bytes);
}

/** WQEs in flight are in slots whose number is this less one. */
static inline uint32_t
journal_wqe_mask(uint32_t sq_order)
{
	return sq_order >= 8 ? JOURNAL_WQES - 1 : (UINT32_C(2) << sq_order) - 1;
}
static_assert(JOURNAL_WQES == 2 << 8, "the order of the largest");

/** @return the check of a WQE, 24 bits, which its reserved bytes hold; what they hold now doesn't matter. */
static inline uint32_t
journal_wqe_check(const struct qp_record_wqe *w, uint32_t counter)
{
	uint64_t last;
	struct {
		uint64_t first[3], last;
	} x;

	memcpy(&x.first, w, sizeof(x.first));
	memcpy(&last, &w->opcode, sizeof(last));
	x.last = last & UINT64_C(0xffffffffff);
	return journal_crc(counter, &x, sizeof(x)) & 0xffffff;
}

#endif /* UROCE_TP_JOURNAL_SLOT_H */
