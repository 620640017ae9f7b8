/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A second daemon in the test program, with a port of its own, that goes on with what the first one (daemon.h) has saved.
 */
#ifndef TEST_SECOND_H
#define TEST_SECOND_H

#include "control/handover.h"
#include "uroce/stack.h"

/** The second daemon, while there is one: the caller of second_make() sets it. */
extern struct uroce *second;
/** When the first one "crashed", stack_host.crashed_ns; 0: it didn't. */
extern uint64_t second_crashed_ns;

/** Make it. @param in  What it goes on with; NULL: nothing yet. */
struct uroce *second_make(struct stream_in *in);
/** What it goes on with. */
struct second_stream {
	struct stream_out o;
	struct stream_in in;
	uint8_t *bytes;
};
/** Hold the first daemon, which must have @p sessions with @p qps QPs, and read what it saves. */
void second_read(struct second_stream *s, uint32_t sessions, uint32_t qps);
/** Have the second one go on with it, all of its engines running. */
void second_start(struct second_stream *s);
/** Both. */
void second_begin(struct second_stream *s, uint32_t sessions, uint32_t qps);
/** The second one ends, the first goes on. Programs must have ended. */
void second_end(struct second_stream *s);
/** Save the sessions of @p from, which must be @p sessions with @p qps QPs. */
void second_save(struct uroce *from, struct stream_out *o, uint32_t sessions, uint32_t qps);
/** @return what is in @p o, to be read; the reader has copies of the descriptors. @param bytes  Room for o->n bytes, aligned to 8. */
struct stream_in second_reads(const struct stream_out *o, uint8_t *bytes);

#endif /* TEST_SECOND_H */
