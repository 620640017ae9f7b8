/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What changes of a QP with each turn, as a journal has it: pieces of struct qp as they are in memory, one behind the other. To copy each member by its name, and to read all of that
 * once more for a CRC, takes twice as many instructions.
 *
 * The next daemon may be another build, with another struct qp. So the journal has a table that says, for each member of struct qp_record, where it is in an image.
 *
 * Owns nothing. Called on the engine to write, by one thread to read.
 */
#ifndef UROCE_TP_JOURNAL_IMAGE_H
#define UROCE_TP_JOURNAL_IMAGE_H

#include <string.h>

#include "transport/core/journal_format_priv.h"
#include "transport/core/types_priv.h"
#include "transport/record/record.h"

/* ---- Sums ---- */
/**
 * A sum of pairs of words, and the sum of those sums. A single wrong bit changes the first, words in another order the second. It takes two instructions for 16 bytes,
 * beside those that copy them.
 */
typedef uint64_t journal_pair __attribute__((vector_size(16)));
struct journal_sum {
	journal_pair words, sums;
};

static inline void
journal_sum_pair(struct journal_sum *s, journal_pair pair)
{
	s->words += pair;
	s->sums += s->words;
}

/** Add @p bytes at @p at, a multiple of 16. */
static inline void
journal_sum_of(struct journal_sum *s, const void *at, size_t bytes)
{
	journal_pair pair;

	for (size_t i = 0; i < bytes; i += sizeof(pair)) {
		memcpy(&pair, (const uint8_t *)at + i, sizeof(pair));
		journal_sum_pair(s, pair);
	}
}

/** Copy @p bytes, a constant and a multiple of 16, and add them. */
static __rte_always_inline void
journal_sum_copy(struct journal_sum *s, void *to, const void *from, size_t bytes)
{
	journal_pair pair;

#pragma GCC unroll 16
	for (size_t i = 0; i < bytes; i += sizeof(pair)) {
		memcpy(&pair, (const uint8_t *)from + i, sizeof(pair));
		memcpy((uint8_t *)to + i, &pair, sizeof(pair));
		journal_sum_pair(s, pair);
	}
}

/** @param sum  Gets it, two words. */
static inline void
journal_sum_end(const struct journal_sum *s, uint64_t *sum)
{
	sum[0] = s->words[0] ^ (s->words[1] << 32 | s->words[1] >> 32);
	sum[1] = s->sums[0] ^ (s->sums[1] << 32 | s->sums[1] >> 32);
}

/* ---- Images ---- */
/* The pieces: first member, and the one behind the last. Each is as long as that takes, in units of 16 bytes. */
#define JOURNAL_IMAGE(X) \
	X(qpn, copy) X(sched.tx_bytes, req) X(req.sq.order, req.scoreboard) X(loss.retry_cnt, loss.rtt_psn) X(loss.deadline_ns, loss.timer) \
	X(resp, resp.res) X(rcv.rq.order, rcv.rwqe.own_sge) X(path, path.tmpl_ah) X(diag, attr)
#define JOURNAL_PIECE_BYTES(first, end) ((offsetof(struct qp, end) - offsetof(struct qp, first) + 15) & ~(size_t)15)

#define JOURNAL_PIECE(first, end) + JOURNAL_PIECE_BYTES(first, end)
enum {
	JOURNAL_IMAGE_BYTES = 0 JOURNAL_IMAGE(JOURNAL_PIECE),
	JOURNAL_IMAGE_ROOM = 512, /**< in a slot */
};
#undef JOURNAL_PIECE
static_assert(JOURNAL_IMAGE_BYTES <= JOURNAL_IMAGE_ROOM, "format");

/** Write the image of @p qp to @p to, and add it to @p s. */
static __rte_always_inline void
journal_image_write(struct journal_sum *s, uint8_t *to, const struct qp *qp)
{
#define JOURNAL_PIECE(first, end) \
	journal_sum_copy(s, to, (const uint8_t *)qp + offsetof(struct qp, first), JOURNAL_PIECE_BYTES(first, end)); \
	to += JOURNAL_PIECE_BYTES(first, end);
	JOURNAL_IMAGE(JOURNAL_PIECE)
#undef JOURNAL_PIECE
}

/* ---- Where members are in it ---- */
/* Members of struct qp_record and of struct qp. */
#define JOURNAL_NUMBERS(X) \
	QP_RECORD_U64(X) QP_RECORD_U32(X) QP_RECORD_U16(X) QP_RECORD_U8(X) X(qpn, qpn) X(type, type) X(sq_order, req.sq.order) X(rq_order, rcv.rq.order) \
	X(timer_ns, loss.deadline_ns) X(giveup_ns, loss.giveup_ns) X(stuck_age_ns, diag.stuck_ns) X(nak_age_ns, diag.nak_ns) X(why_age_ns, diag.why_ns) \
	X(cnp_ns, rcv.cnp_next_ns)
enum journal_member_of {
#define JOURNAL_MEMBER(name, member) JOURNAL_MEMBER_##name,
	JOURNAL_NUMBERS(JOURNAL_MEMBER)
	QP_RECORD_BOOL(JOURNAL_MEMBER)
#undef JOURNAL_MEMBER
	JOURNAL_MEMBERS
};

/** A line of the table in a journal. */
struct journal_member {
	char name[20];               /**< of the member of struct qp_record, with a 0 at the end */
	uint16_t at;                 /**< in the image */
	uint8_t bytes;               /**< of a number with the lowest byte first, 1 to 8 */
	uint8_t bit;                 /**< of a bool: its bit in the byte, which may have others; of a number 0 */
};
static_assert(sizeof(struct journal_member) == 24, "format");
/** Room for the table, the same in each build: what comes behind it must be found by another one. */
enum { JOURNAL_MEMBERS_BYTES = JOURNAL_PAGE };
static_assert(JOURNAL_MEMBERS * sizeof(struct journal_member) <= JOURNAL_MEMBERS_BYTES, "format");

/** Write the table, JOURNAL_MEMBERS lines. @return false: no memory, or a member is in none of the pieces. */
bool journal_members_write(struct journal_member *table);
/**
 * Find the lines of the members that this build knows.
 * @param table  @p nb lines of a build that may be another one, with images of @p bytes.
 * @param known  Gets JOURNAL_MEMBERS lines.
 * @return NULL; else the name of a member that the table lacks, or whose line is wrong.
 */
const char *journal_members_read(const struct journal_member *table, uint32_t nb, uint32_t bytes, struct journal_member *known);

/** @return the number that a member has in @p image. */
static inline uint64_t
journal_image_get(const struct journal_member *known, enum journal_member_of which, const uint8_t *image)
{
	uint64_t number = 0;

	memcpy(&number, image + known[which].at, known[which].bytes);
	return number;
}

/** Fill in the members of @p r that are in an image. The rest isn't touched. @return false: a number is too large for its member. */
bool journal_image_read(const struct journal_member *known, const uint8_t *image, struct qp_record *r);

#endif /* UROCE_TP_JOURNAL_IMAGE_H */
