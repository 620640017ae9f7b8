/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The format of a checkpoint: what checkpoint.c writes and checkpoint_read.c reads. It never leaves its machine. Owns nothing.
 */
#ifndef UROCE_CONTROL_CHECKPOINT_PRIV_H
#define UROCE_CONTROL_CHECKPOINT_PRIV_H

#include <assert.h>
#include <stdint.h>

#define CHECKPOINT_MAGIC UINT32_C(0x706b4375)
enum { CHECKPOINT_VERSION = 1, CHECKPOINT_PAGE_BYTES = 4096, CHECKPOINT_CHUNK_BYTES = 1 << 20, CHECKPOINT_FIRST_BYTES = 1 << 16 };

/** The memfd begins with it; chunks come behind, each at a multiple of CHECKPOINT_PAGE_BYTES. */
struct checkpoint_page {
	uint32_t magic, version;
	_Atomic uint64_t counts; /**< the number of the last transaction that counts */
};

/** The first page of a chunk; its slots follow. */
struct checkpoint_chunk {
	uint32_t magic, shift; /**< shift: binary logarithm of a slot's size */
	uint64_t slots;
};

/** Behind it: records. */
struct checkpoint_slot {
	uint32_t magic; /**< 0: free */
	uint32_t kind;
	uint64_t transaction; /**< that wrote it; it counts if that one does */
	uint64_t ended;       /**< transaction that ended it; 0: none has */
	uint64_t session, order;
	uint64_t bytes;       /**< of records */
	uint32_t crc, head_crc; /**< of the records; of this, with 0 for magic, ended and itself */
	uint64_t reserved;
};
static_assert(sizeof(struct checkpoint_slot) == 64, "format");

uint32_t checkpoint_head_crc(const struct checkpoint_slot *s);

#endif /* UROCE_CONTROL_CHECKPOINT_PRIV_H */
