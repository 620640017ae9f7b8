/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A sequence of records (base/record.h) and the descriptors that they name by number: what one daemon hands to the next.
 *
 * Owns: the bytes and the numbers of the descriptors, not the descriptors of a stream that is written; those of a stream that is read, until they are
 * taken. Called by: obj, memory, handover. Thread: control.
 */
#ifndef UROCE_CONTROL_STREAM_H
#define UROCE_CONTROL_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/record.h"

/**
 * Of all records of lib/control together. A daemon reads its own version and the two before (stream_next()), and refuses others before anything
 * happens. Who changes a record makes a new version:
 *
 *  - new members go to the end of the fixed part, and 0 in them must mean what was true before they existed;
 *  - the size that the fixed part had goes into the table in stream.c;
 *  - unit/control/versions keeps what each version wrote.
 *
 * Version 2: XRC domains, SRQs and targets. Version 3: CQs that are being resized.
 */
enum { STREAM_VERSION = 3, STREAM_OLDEST = STREAM_VERSION > 2 ? STREAM_VERSION - 2 : 1 };
/** The number of no descriptor. */
#define STREAM_NO_FD UINT32_MAX

/** How many sessions and QPs a control has saved or restored. */
struct handover_counts {
	uint32_t sessions, qps, refused; /**< refused: sessions that ended instead */
};

/** A stream that is written. Zeroes are an empty one. */
struct stream_out {
	uint8_t *bytes;
	size_t n, room;
	int *fds;
	uint32_t nb_fds, room_fds;
	bool failed; /**< there was no memory: what was written is of no use */
	bool live;   /**< engines run: what belongs to them must be asked of them */
	/** Who numbers descriptors; NULL: they go to `fds`. */
	uint32_t (*number)(void *arg, int fd);
	void *number_arg;
};

/**
 * Add a record.
 * @param r  Its fixed part, which begins with struct record_head; padding is zero.
 * @param tail  What follows it, or NULL.
 */
void stream_put(struct stream_out *o, enum record_kind kind, const void *r, size_t bytes, const void *tail, size_t tail_bytes);
/** @return room for a record of @p bytes that another module writes and seals, zeroed; NULL: no memory. The next call moves it. */
void *stream_reserve(struct stream_out *o, size_t bytes);
/** @return the number under which the reader finds @p fd; STREAM_NO_FD for -1. */
uint32_t stream_put_fd(struct stream_out *o, int fd);
/** Free what @p o has. The descriptors stay open. */
void stream_free(struct stream_out *o);

struct stream_grown;

/** A stream that is read. */
struct stream_in {
	const uint8_t *bytes; /**< aligned to 8 */
	size_t n, at;
	int *fds;             /**< -1: was taken */
	uint32_t nb_fds;
	struct stream_grown *grown; /**< records of older versions, as this one would have written them */
};

/**
 * A record of an older version is returned as one of this version: what it has not is 0. stream_done() frees such records.
 * @param least  Size of the fixed part.
 * @return the next record, if it is of this kind and whole; else NULL, and the stream stays where it is.
 */
const void *stream_next(struct stream_in *in, enum record_kind kind, size_t least);
/**
 * As stream_next(), for the record of another module, which checks it.
 * @param room  Receives how many bytes may be read.
 */
const void *stream_foreign(struct stream_in *in, uint32_t *room);
/** @return the kind of the next record, 0: there is none. */
uint16_t stream_kind(const struct stream_in *in);
/** @return the size of what follows the fixed part of @p r. */
size_t stream_tail(const void *r, size_t fixed);
/** Take descriptor @p number. @return -1: there is no such descriptor, or it was taken. */
int stream_take_fd(struct stream_in *in, uint32_t number);
/** Nothing more is read: close the descriptors that nobody took, and free records that stream_next() made. */
void stream_done(struct stream_in *in);

#endif /* UROCE_CONTROL_STREAM_H */
