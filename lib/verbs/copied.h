/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory that the daemon's copiers may write to at any time: parts of regions that aren't mapped, such as the partial pages at their ends. Where conversions
 * are not protected (convert_setup()), such a page can't become shared memory: what a copier writes between the copy of the page and its replacement would be lost.
 *
 * Used by: mr.c, segments.c, fork.c. Thread-safe.
 */
#ifndef UROCE_CLIENT_COPIED_H
#define UROCE_CLIENT_COPIED_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

/** Whole pages; start == end: none. */
struct copied_range {
	uint64_t start, end;
	union {
		RB_ENTRY(copied_range) node; /**< of one page */
		LIST_ENTRY(copied_range) link; /**< of several */
	};
};

/** Of a region: in front of what is mapped, and behind it. */
struct copied {
	struct copied_range r[2];
};

/**
 * Copiers write to a region from now on, but for the part of it that is mapped.
 * @param c  Of zeroes.
 * @param addr,length  The region.
 * @param lo,hi  What is mapped of it; lo == hi: nothing.
 */
void copied_note(struct copied *c, uint64_t addr, uint64_t length, uint64_t lo, uint64_t hi);
/** They don't any more. @param c  Noted, or of zeroes; then it is of zeroes. */
void copied_forget(struct copied *c);
/**
 * Find memory that copiers don't write to.
 * @param start  Where to begin; receives where the next such memory begins.
 * @param stop  Receives where it ends.
 * @return false: there is none before @p end.
 */
bool copied_next_free(uint64_t *start, uint64_t end, uint64_t *stop);

/* For fork.c: no other thread is in the functions above. */
void copied_fork_lock(void);
void copied_fork_unlock(void);

#endif /* UROCE_CLIENT_COPIED_H */
