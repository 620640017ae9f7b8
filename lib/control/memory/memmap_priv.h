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
#include "control/memory/vmas_priv.h"

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

/** State while the mappings of an MR are made. */
struct map_build {
	struct session *session;
	struct request *request;
	struct mem_maps *maps; /**< receives the mappings */
	bool writable;     /**< the MR may be written */
	struct vma_list vmas;
	bool memory_dev_known;
	dev_t memory_dev; /**< device number of tmpfs or hugetlbfs; valid while the descriptors of the plans are open */
	uint32_t room_maps, room_views;
};

/**
 * Get hold of the file that segment @p seg of kind CTL_SEG_SHARED maps.
 * @param plan  Receives a descriptor that allows nothing (O_PATH).
 * @return 0 or EOPNOTSUPP with a message: the program's files can't be opened.
 */
int memmap_find_shared(struct map_build *b, const struct ctl_seg *seg, struct seg_plan *plan);
/**
 * Open that file with the rights that the program's mapping has. To be called when memmap_find_shared() was called for all
 * segments of the MR.
 * @return 0; EOPNOTSUPP (not shared memory, or it has changed, or we have no permission); EFAULT (the program may not
 * write there, but the MR is to be writable), with a message.
 */
int memmap_open_shared(struct map_build *b, const struct ctl_seg *seg, struct seg_plan *plan);

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
