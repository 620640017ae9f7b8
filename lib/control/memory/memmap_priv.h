/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Mapping a program's memory into the daemon.
 *
 * Owns: the mappings of each MR (struct mem_maps), the session's views of its memfd of converted memory. Called by: obj/mr.c. Thread: control.
 */
#ifndef UROCE_MEMMAP_H
#define UROCE_MEMMAP_H

#include "control/core/session_priv.h"

/** One mapping of a program's memory. */
struct mem_map {
	void *base;
	size_t bytes;
	int sigbus_id;
	uint32_t pieces; /**< number of mappings, as the kernel counts them */
};

/** A mapping of 1 << SESSION_VIEW_SHIFT bytes of the memfd for converted memory, shared by MRs. */
struct mem_view {
	LIST_ENTRY(mem_view) link;
	uint64_t index; /**< offset >> SESSION_VIEW_SHIFT */
	uint32_t users;
	struct mem_map map;
};

/** The mappings of an MR: its own, and views. */
struct mem_maps {
	uint32_t nb_maps, nb_views;
	struct mem_map *maps;
	struct mem_view **views;
};

/** A segment while it is being mapped. */
struct seg_plan {
	int fd; /**< file to be mapped, or -1: remote or the process's own */
	bool close_fd;
	uint64_t file_offset;
	uint64_t page_bytes; /**< of the file */
};

/** What an MR is made of, while the files of its shared memory are being opened: session.map_files. */
struct map_files {
	struct session *session;
	struct ctl_req req;
	struct ctl_seg *segs;
	struct seg_plan *plans; /**< one per segment */
	uint32_t n, shared;     /**< segments, and those of kind CTL_SEG_SHARED */
	uint64_t metadata;      /**< charged for this */
	uint32_t next;          /**< the first one that isn't in a batch yet */
	bool writable;
	/** Makes the MR. @param rc  0, or the request has failed. @return the status of the reply. */
	int (*resume)(struct session *s, struct request *r, int rc);
	/* The batch that is being opened. */
	uint32_t which[SHARED_BATCH];
	struct shared_range ranges[SHARED_BATCH];
	unsigned int nb;
};

/** State while the mappings of an MR are made. */
struct map_build {
	struct session *session;
	struct request *request;
	struct mem_maps *maps; /**< receives the mappings */
	bool writable;     /**< the MR may be written */
	uint32_t room_maps, room_views;
	uint32_t key; /**< that the MR had in the daemon before; 0: it gets a new one */
};

/**
 * Open the files of the segments of session.map_files that are of kind CTL_SEG_SHARED, with the rights that the program's mappings have.
 * Their plans are filled in, as far as it gets.
 * @return 0; EOPNOTSUPP (not shared memory, or it has changed, or we have no permission); EFAULT (the program may not
 * write there, but the MR is to be writable), with a message; EINPROGRESS: the request is resumed and answered later.
 */
int memmap_open_shared(struct map_files *f, struct request *r);

/**
 * Map @p n adjacent segments in one piece, so that they are contiguous here as they are in the program.
 * @param host  Receives the address of the first byte.
 * @return 0 or an errno value with a message.
 */
int memmap_run(struct map_build *b, const struct ctl_seg *segs, const struct seg_plan *plans, uint32_t n,
	       uint8_t **host);

/** Unmap the mappings of an MR; no engine may use them any more. */
void memmap_release(struct session *s, struct mem_maps *maps);
/** Unmap views that no MR uses. */
void memmap_drop_views(struct session *s);

#endif /* UROCE_MEMMAP_H */
