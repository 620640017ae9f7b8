/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Finding out what is mapped in this process, and where.
 *
 * Uses the PROCMAP_QUERY ioctl (Linux 6.11, 0.3 us per answer) if possible, else reads /proc/self/maps (10 us and
 * more). An answer is true at the moment of the query; the program may change its mappings at any time.
 *
 * Used by: registration of memory (mr.c, convert.c, stacks.c) and the fork handler. Thread: any. Allocates memory only
 * for lists.
 */
#ifndef UROCE_CLIENT_MAPS_H
#define UROCE_CLIENT_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Kinds of names of mappings. */
enum map_name {
	MAP_NAME_NONE,    /**< anonymous */
	MAP_NAME_HEAP,    /**< [heap] */
	MAP_NAME_ANON,    /**< [anon:...]: anonymous memory with a name (PR_SET_VMA_ANON_NAME) */
	MAP_NAME_STACK,   /**< [stack]: the main thread's */
	MAP_NAME_SPECIAL, /**< any other name in brackets: [vdso], [vvar] ... */
	MAP_NAME_FILE,    /**< a path */
};

/** One mapping. */
struct map_entry {
	uint64_t start, end;
	uint64_t offset; /**< into the file */
	uint64_t inode;  /**< 0: no file behind it */
	uint32_t dev_major, dev_minor;
	int prot; /**< PROT_* */
	bool shared;
	enum map_name name;
};

/** Mappings in ascending order. */
struct map_list {
	struct map_entry *e;
	size_t n, room;
};

/**
 * Parse one line of /proc/PID/maps.
 * @param line  The line or its beginning, without the newline; needn't be terminated.
 * @return 0, or EINVAL if it isn't of that form.
 */
int maps_parse_line(const char *line, size_t len, struct map_entry *out);

/**
 * Find the mapping that contains @p addr, or else the next one above.
 * @return 0; ENOENT if there is none; another errno value if the kernel can't be asked.
 */
int maps_find(uint64_t addr, struct map_entry *out);

/**
 * Append all mappings that overlap [start, end).
 * @return 0 or an errno value; nothing mapped is no error.
 */
int maps_range(struct map_list *l, uint64_t start, uint64_t end);

/** @return true if the list's entries cover [start, end) without gaps. */
bool maps_covers(const struct map_list *l, uint64_t start, uint64_t end);

void maps_free(struct map_list *l);

/** Read /proc/self/maps even where the ioctl exists, to test that way. */
void maps_force_text(bool on);

/** In a child after fork: forget the descriptor of the parent's maps. */
void maps_forget(void);

#endif /* UROCE_CLIENT_MAPS_H */
