/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/record.h"

#define CRC32C_POLY UINT32_C(0x82f63b78) /* Castagnoli, reflected */

static uint32_t
crc32c(uint32_t crc, const uint8_t *p, size_t n)
{
	static const uint32_t nibble[16] = {
#define BIT(v) ((v) >> 1 ^ ((v) & 1 ? CRC32C_POLY : 0))
#define NIBBLE(i) BIT(BIT(BIT(BIT(UINT32_C(i)))))
		NIBBLE(0), NIBBLE(1), NIBBLE(2), NIBBLE(3), NIBBLE(4), NIBBLE(5), NIBBLE(6), NIBBLE(7),
		NIBBLE(8), NIBBLE(9), NIBBLE(10), NIBBLE(11), NIBBLE(12), NIBBLE(13), NIBBLE(14), NIBBLE(15),
#undef NIBBLE
#undef BIT
	};

	for (size_t i = 0; i < n; i++) {
		crc ^= p[i];
		crc = crc >> 4 ^ nibble[crc & 15];
		crc = crc >> 4 ^ nibble[crc & 15];
	}
	return crc;
}

static uint32_t
record_crc(const void *r, uint32_t size)
{
	struct record_head h = *(const struct record_head *)r;
	uint32_t crc;

	h.crc = 0;
	crc = crc32c(UINT32_MAX, (const uint8_t *)&h, sizeof(h));
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
record_check(const void *r, size_t room, enum record_kind kind, uint16_t version, size_t least)
{
	const struct record_head *h = r;

	if (room < sizeof(*h))
		return "size: there is no room for a record's head";
	if (h->magic != RECORD_MAGIC)
		return "magic: this is no record";
	if (h->kind != kind)
		return "kind: the record is of another kind of object";
	if (h->version != version)
		return "version: the record was written by another version";
	if (h->size < least || h->size > room || h->size < sizeof(*h))
		return "size: the record is too short, or longer than what was read";
	if (h->crc != record_crc(r, h->size))
		return "crc: the record is damaged";
	return NULL;
}
