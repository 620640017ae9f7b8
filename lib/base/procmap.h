/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Asking /proc/PID/maps for one mapping: PROCMAP_QUERY of Linux 6.11 (include/uapi/linux/fs.h), newer than the headers that Debian 12
 * builds with.
 */
#ifndef UROCE_PROCMAP_H
#define UROCE_PROCMAP_H

#include <stdint.h>
#include <sys/ioctl.h>

struct maps_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size;
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};
#define MAPS_QUERY _IOWR('f', 17, struct maps_query)
enum {
	MAPS_QUERY_READABLE = 0x01,
	MAPS_QUERY_WRITABLE = 0x02,
	MAPS_QUERY_EXECUTABLE = 0x04,
	MAPS_QUERY_SHARED = 0x08,
	MAPS_QUERY_COVERING_OR_NEXT = 0x10,
};

#endif /* UROCE_PROCMAP_H */
