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

/** Of all records of lib/control together: a daemon reads only its own. */
enum { STREAM_VERSION = 1 };
/** The number of no descriptor. */
#define STREAM_NO_FD UINT32_MAX

/** A stream that is written. Zeroes are an empty one. */
struct stream_out {
	uint8_t *bytes;
	size_t n, room;
	int *fds;
	uint32_t nb_fds, room_fds;
	bool failed; /**< there was no memory: what was written is of no use */
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

/** A stream that is read. */
struct stream_in {
	const uint8_t *bytes; /**< aligned to 8 */
	size_t n, at;
	int *fds;             /**< -1: was taken */
	uint32_t nb_fds;
};

/**
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
/** Close the descriptors that nobody took. */
void stream_close_fds(struct stream_in *in);

#endif /* UROCE_CONTROL_STREAM_H */
