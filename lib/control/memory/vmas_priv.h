/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a program has mapped, as the kernel says.
 *
 * Owns: struct vma_list. Called by: memory/opener.c. Thread: any.
 */
#ifndef UROCE_VMAS_H
#define UROCE_VMAS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** A mapping: one line of /proc/PID/maps. */
struct vma {
	uint64_t start, end, offset;
	dev_t dev;
	ino_t ino;
	bool write, shared;
};

/** The mappings of a program, for kernels that can't be asked for one (PROCMAP_QUERY, Linux 6.11). */
struct vma_list {
	struct vma *v;
	uint32_t n;
	bool loaded;
};

/**
 * Find the mapping [start, end) as it is now or, with @p l loaded, as it was then.
 * @param maps  /proc/PID/maps. It stays with the address space that the process had when it was opened: once the process
 *              executes another program, perhaps with other rights, nothing is found.
 * @return 0; ENOENT: there is none; EOPNOTSUPP: the mappings can't be read.
 */
int vma_find(int maps, struct vma_list *l, uint64_t start, uint64_t end, struct vma *out);
void vma_list_free(struct vma_list *l);

#endif /* UROCE_VMAS_H */
