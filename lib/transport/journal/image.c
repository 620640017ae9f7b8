/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the members of a QP's record are in an image, and what one says. Needed when a journal begins, and when it is read.
 */
#include <stdlib.h>

#include "transport/journal/image_priv.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers of an image have the lowest byte first");

/* @return whether all of a member is in one of the pieces. @param at  Gets its place in the image. */
static bool
place_of(size_t in_qp, size_t bytes, uint16_t *at)
{
	size_t before = 0;

#define PIECE(first, end) \
	if (in_qp >= offsetof(struct qp, first) && in_qp + bytes <= offsetof(struct qp, first) + JOURNAL_PIECE_BYTES(first, end)) { \
		*at = (uint16_t)(before + in_qp - offsetof(struct qp, first)); \
		return true; \
	} \
	before += JOURNAL_PIECE_BYTES(first, end);
	JOURNAL_IMAGE(PIECE)
#undef PIECE
	return false;
}

/* A bool may be a bit of a byte, whose place only an object tells. @param qp  All 0 but for the bool. @return whether it was found. */
static bool
bit_of(const struct qp *qp, struct journal_member *m)
{
	const uint8_t *bytes = (const void *)qp;
	size_t i = 0;

	while (i < sizeof(*qp) - 1 && bytes[i] == 0)
		i++;
	m->bytes = 1;
	m->bit = bytes[i];
	return place_of(i, 1, &m->at);
}

bool
journal_members_write(struct journal_member *table)
{
	struct qp *qp = calloc(1, sizeof(*qp));
	struct journal_member *m = table;
	bool good = qp != NULL;

	memset(table, 0, JOURNAL_MEMBERS * sizeof(*table));
	if (qp == NULL)
		return false;
#define NUMBER(member_name, member) \
	static_assert(sizeof(#member_name) <= sizeof(m->name), "format"); \
	memcpy(m->name, #member_name, sizeof(#member_name)); \
	m->bytes = sizeof(qp->member); \
	good &= place_of(offsetof(struct qp, member), sizeof(qp->member), &m->at); \
	m++;
	JOURNAL_NUMBERS(NUMBER)
#undef NUMBER
#define BOOL(member_name, member) \
	static_assert(sizeof(#member_name) <= sizeof(m->name), "format"); \
	memcpy(m->name, #member_name, sizeof(#member_name)); \
	qp->member = true; \
	good &= bit_of(qp, m); \
	qp->member = false; \
	m++;
	QP_RECORD_BOOL(BOOL)
#undef BOOL
	free(qp);
	return good;
}

static const char *
find(const char *name, bool is_bool, const struct journal_member *table, uint32_t nb, uint32_t bytes, struct journal_member *known)
{
	for (uint32_t i = 0; i < nb; i++) {
		const struct journal_member *m = &table[i];

		if (strncmp(m->name, name, sizeof(m->name)) != 0)
			continue;
		if (m->bytes == 0 || m->bytes > sizeof(uint64_t) || m->at + m->bytes > bytes || is_bool != (m->bit != 0))
			break;
		*known = *m;
		return NULL;
	}
	return name;
}

const char *
journal_members_read(const struct journal_member *table, uint32_t nb, uint32_t bytes, struct journal_member *known)
{
	const char *lacks;

#define FIND(name, is_bool) \
	lacks = find(#name, is_bool, table, nb, bytes, &known[JOURNAL_MEMBER_##name]); \
	if (lacks != NULL) \
		return lacks;
#define NUMBER(name, member) FIND(name, false)
#define BOOL(name, member) FIND(name, true)
	JOURNAL_NUMBERS(NUMBER)
	QP_RECORD_BOOL(BOOL)
#undef BOOL
#undef NUMBER
#undef FIND
	return NULL;
}

bool
journal_image_read(const struct journal_member *known, const uint8_t *image, struct qp_record *r)
{
	uint64_t number;

#define NUMBER(name, member) \
	number = journal_image_get(known, JOURNAL_MEMBER_##name, image); \
	r->name = (__typeof__(r->name))number; \
	if (r->name != number) \
		return false;
	JOURNAL_NUMBERS(NUMBER)
#undef NUMBER
#define BOOL(name, member) \
	r->name = (journal_image_get(known, JOURNAL_MEMBER_##name, image) & known[JOURNAL_MEMBER_##name].bit) != 0;
	QP_RECORD_BOOL(BOOL)
#undef BOOL
	return true;
}
