/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>

#include "base/crc32c.h"
#include "base/record.h"

static uint32_t
record_crc(const void *r, uint32_t size)
{
	struct record_head h = *(const struct record_head *)r;
	uint32_t crc;

	h.crc = 0;
	crc = crc32c(UINT32_MAX, &h, sizeof(h));
	return ~crc32c(crc, (const uint8_t *)r + sizeof(h), size - sizeof(h));
}

void
record_seal(void *r, enum record_kind kind, uint16_t version, uint32_t size)
{
	struct record_head *h = r;

	*h = (struct record_head){ .magic = RECORD_MAGIC, .size = size, .kind = (uint16_t)kind, .version = version };
	h->crc = record_crc(r, size);
}

const char *
record_check_versions(const void *r, size_t room, enum record_kind kind, uint16_t oldest, uint16_t newest, size_t least)
{
	const struct record_head *h = r;

	if (room < sizeof(*h))
		return "size: there is no room for a record's head";
	if (h->magic != RECORD_MAGIC)
		return "magic: this is no record";
	if (h->kind != kind)
		return "kind: the record is of another kind of object";
	if (h->version < oldest || h->version > newest)
		return "version: the record was written by another version";
	if (h->size < least || h->size > room || h->size < sizeof(*h) || h->size > INT_MAX)
		return "size: the record is too short, or longer than what was read";
	if (h->crc != record_crc(r, h->size))
		return "crc: the record is damaged";
	return NULL;
}

const char *
record_check(const void *r, size_t room, enum record_kind kind, uint16_t version, size_t least)
{
	return record_check_versions(r, room, kind, version, version, least);
}
