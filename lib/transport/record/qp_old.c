/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of QPs that an older version has written.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/record/record_priv.h"

/* Version 2 had no nb_kept, placed_to and local_to, which are before attr, and no `kept` at the end. */
#define KEPT_AT offsetof(struct qp_record, nb_kept)
#define ATTR_AT offsetof(struct qp_record, attr)
#define END_AT offsetof(struct qp_record, kept)
enum { V2 = 2, V2_BYTES = 552 };
static_assert(KEPT_AT + (END_AT - ATTR_AT) <= V2_BYTES && KEPT_AT + (END_AT - ATTR_AT) > V2_BYTES - 8, "what version 2 had");
static_assert(QP_RECORD_VERSION == V2 + 1, "another version has come: read the one before, too");

const struct qp_record *
qp_record_renew(const struct qp_record *r, uint32_t room, void **made)
{
	const uint8_t *from = (const uint8_t *)r;
	uint32_t size;
	uint8_t *to;

	*made = NULL;
	if (record_check_versions(r, room, RECORD_QP, V2, V2, V2_BYTES) != NULL)
		return r;
	size = r->head.size + (uint32_t)(sizeof(*r) - V2_BYTES);
	to = calloc(1, size);
	if (to == NULL)
		return NULL;
	memcpy(to, from, KEPT_AT);
	memcpy(to + ATTR_AT, from + KEPT_AT, END_AT - ATTR_AT);
	memcpy(to + sizeof(*r), from + V2_BYTES, r->head.size - V2_BYTES);
	record_seal(to, RECORD_QP, QP_RECORD_VERSION, size);
	*made = to;
	return (const struct qp_record *)(const void *)to;
}
