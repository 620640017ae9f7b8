/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Records: state that outlives the process that wrote it. A record begins with a head that says what it is, in which version, how long it is, and
 * has a checksum over all of it. Integers have fixed widths and the machine's byte order: a record never leaves its machine.
 *
 * The checksum finds damage, not malice. Whoever reads a record checks each field before using it.
 *
 * Owns nothing. Thread: any.
 */
#ifndef UROCE_RECORD_H
#define UROCE_RECORD_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/** What a record describes. Numbers are never used again for something else: new kinds go to the end. */
enum record_kind {
	RECORD_TRANSPORT = 1,
	RECORD_CQ = 2,
	RECORD_SRQ = 3,
	RECORD_QP = 4,
	RECORD_AH = 5,
	RECORD_CM_CONN = 6,
	/* lib/control */
	RECORD_PROCESS = 16,
	RECORD_STACK,
	RECORD_SESSION,
	RECORD_EVENTS,
	RECORD_SEGMENT,
	RECORD_OBJ_PD,
	RECORD_OBJ_CHANNEL,
	RECORD_OBJ_DM,
	RECORD_OBJ_MR,
	RECORD_OBJ_MW,
	RECORD_OBJ_CQ,
	RECORD_OBJ_SRQ,
	RECORD_OBJ_AH,
	RECORD_OBJ_QP,
	RECORD_MR_SEGS,
	RECORD_CM_CHANNEL,
	RECORD_CM_ID,
	RECORD_CM_EVENT,
	RECORD_END,
	RECORD_OBJ_XRCD,
	RECORD_OBJ_XRC_OPENING,
	RECORD_XRC_TARGET,
	RECORD_ANSWER,
	RECORD_JOURNALS,
	RECORD_KINDS, /**< all below are in use */
};

struct record_head {
	uint32_t magic;   /**< RECORD_MAGIC */
	uint32_t size;    /**< of the record in bytes, with its head */
	uint16_t kind;    /**< enum record_kind */
	uint16_t version; /**< of this kind */
	uint32_t crc;     /**< CRC-32C of the record with 0 here */
};
static_assert(sizeof(struct record_head) == 16, "format");
#define RECORD_MAGIC UINT32_C(0x75724331)

/** Fill in the head of the record @p r, which is otherwise complete. Padding must have been zeroed. */
void record_seal(void *r, enum record_kind kind, uint16_t version, uint32_t size);
/**
 * Check the head of a record.
 * @param room  Bytes that may be read at @p r, aligned to 8.
 * @param least  Size of the fixed part of a record of this kind.
 * @return NULL, or which field of the head is wrong (static string).
 */
const char *record_check(const void *r, size_t room, enum record_kind kind, uint16_t version, size_t least);
/** As record_check(), for a reader that knows the versions from @p oldest to @p newest. */
const char *record_check_versions(const void *r, size_t room, enum record_kind kind, uint16_t oldest, uint16_t newest, size_t least);

#endif /* UROCE_RECORD_H */
