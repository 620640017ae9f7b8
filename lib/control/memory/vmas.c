/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/memory/vmas_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Linux 6.11, include/uapi/linux/fs.h; newer than the headers that Debian 12 builds with. */
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
enum { MAPS_QUERY_WRITABLE = 0x02, MAPS_QUERY_SHARED = 0x08 };

/** @return 0; ENOENT; ENOTTY: this kernel can't be asked. */
static int
query(int maps, uint64_t start, struct vma *out)
{
	struct maps_query q = { .size = sizeof(q), .query_addr = start };

	if (ioctl(maps, MAPS_QUERY, &q) != 0)
		return errno == ENOTTY || errno == EINVAL ? ENOTTY : ENOENT;
	*out = (struct vma){
		.start = q.vma_start,
		.end = q.vma_end,
		.offset = q.vma_offset,
		.dev = makedev(q.dev_major, q.dev_minor),
		.ino = q.inode,
		.write = q.vma_flags & MAPS_QUERY_WRITABLE,
		.shared = q.vma_flags & MAPS_QUERY_SHARED,
	};
	return 0;
}

static bool
parse(const char *line, struct vma *v)
{
	unsigned int major_no, minor_no;
	uint64_t ino;
	char perms[5];

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &v->start, &v->end, perms, &v->offset, &major_no,
		   &minor_no, &ino) != 7)
		return false;
	v->dev = makedev(major_no, minor_no);
	v->ino = ino;
	v->write = perms[1] == 'w';
	v->shared = perms[3] == 's';
	return true;
}

static int
load(int maps, struct vma_list *l)
{
	uint32_t room = 0;
	char *line = NULL;
	size_t bytes = 0;
	struct vma v, *p;
	int fd = dup(maps);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");

	if (f == NULL || fseek(f, 0, SEEK_SET) != 0) {
		if (f != NULL)
			fclose(f);
		else if (fd >= 0)
			close(fd);
		return EOPNOTSUPP;
	}
	while (getline(&line, &bytes, f) > 0) {
		if (!parse(line, &v))
			continue;
		if (l->n == room) {
			room = room == 0 ? 256 : room * 2;
			p = realloc(l->v, room * sizeof(*p));
			if (p == NULL)
				break;
			l->v = p;
		}
		l->v[l->n++] = v;
	}
	free(line);
	fclose(f);
	l->loaded = true;
	return 0;
}

int
vma_find(int maps, struct vma_list *l, uint64_t start, uint64_t end, struct vma *out)
{
	uint32_t lo = 0, hi, mid;
	int rc = l->loaded ? ENOTTY : query(maps, start, out);

	if (rc == 0)
		return out->start == start && out->end == end ? 0 : ENOENT;
	if (rc != ENOTTY)
		return rc;
	if (!l->loaded && load(maps, l) != 0)
		return EOPNOTSUPP;
	for (hi = l->n; lo < hi;) {
		mid = (lo + hi) / 2;
		if (l->v[mid].start < start)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == l->n || l->v[lo].start != start || l->v[lo].end != end)
		return ENOENT;
	*out = l->v[lo];
	return 0;
}

void
vma_list_free(struct vma_list *l)
{
	free(l->v);
	*l = (struct vma_list){ 0 };
}
