/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * How the daemon accesses each piece of a memory region (enum ctl_seg_kind).
 *
 * Used by: mr.c. Thread: the one that registers.
 */
#ifndef UROCE_CLIENT_SEGMENTS_H
#define UROCE_CLIENT_SEGMENTS_H

#include "verbs/convert.h"
#include "ring/ctl.h"

/** The segments of a region, in ascending order without gaps. */
struct segments {
	struct ctl_seg *s;
	size_t n, room;
	bool any_shared; /**< some are CTL_SEG_SHARED */
};

/** What is to be registered, and how. */
struct segments_want {
	uint64_t addr, length;
	int prot;     /**< PROT_READ, PROT_WRITE: what the mappings must allow */
	bool convert; /**< convert what can be converted */
	bool shared;  /**< CTL_SEG_SHARED may be used */
	bool remote;  /**< one CTL_SEG_REMOTE, whatever is there now (on-demand paging) */
	bool own;     /**< the memory is the daemon's too: one CTL_SEG_OWN */
	uint64_t sp;  /**< the caller's stack pointer */
};

/**
 * Convert what can be converted and list the segments.
 * @return 0; EFAULT: not mapped, or not with that protection; ENOMEM: too many segments or no memory.
 */
int segments_find(struct segments *out, struct mem_file *file, const struct segments_want *want);
void segments_free(struct segments *s);
/**
 * Find out what the daemon has mapped of a region.
 * @param addr,length  The region.
 * @param lo,hi  Receive a part of the region that is mapped, addresses; lo == hi: none.
 * @return whether all of it is
 */
bool segments_mapped(const struct segments *s, uint64_t addr, uint64_t length, uint64_t *lo, uint64_t *hi);

#endif /* UROCE_CLIENT_SEGMENTS_H */
