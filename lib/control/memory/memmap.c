/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "control/memory/memmap_priv.h"
#include "control/memory/mounts_priv.h"
#include "control/memory/sigbus_priv.h"

#define PAGE_BYTES UINT64_C(4096)
#define VIEW_BYTES (UINT64_C(1) << SESSION_VIEW_SHIFT)

/* ---- The program's mappings ---- */

/**
 * @return true if the process is still the one that the socket's credentials name, so that we may map its memory. Its
 * directory in /proc belongs to its user, unless it runs with privileges that this user doesn't have.
 */
static bool
may_map(const struct session *s)
{
	struct stat st;

	return s->control->privileged && s->maps_fd >= 0 && fstat(s->proc_fd, &st) == 0 && st.st_uid == s->uid;
}

int
memmap_find_shared(struct map_build *b, const struct ctl_seg *seg, struct seg_plan *plan)
{
	struct session *s = b->session;
	char name[64];

	if (!may_map(s))
		return req_fail(b->request, EOPNOTSUPP, "shared memory of this program can't be mapped");
	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, seg->map_start, seg->map_end);
	/* O_PATH: the file isn't asked anything, and its inode number isn't given to another while we have it. */
	plan->fd = openat(s->proc_fd, name, O_PATH | O_CLOEXEC);
	if (plan->fd < 0)
		return req_fail(b->request, EOPNOTSUPP, "cannot open %s: %s", name, strerror(errno));
	plan->close_fd = true;
	return 0;
}

/**
 * @return true if @p id is of memory: a file of tmpfs or hugetlbfs. All others are asked nothing, since opening a device
 * has side effects, and the file system may be the program's own.
 */
static bool
is_memory(struct map_build *b, const struct file_id *id)
{
	struct session *s = b->session;
	struct file_id own;
	bool known;

	if (!S_ISREG(id->mode))
		return false;
	/* The descriptors of this MR are all open until it is made, so that what was found of one is true for others. */
	if (b->memory_dev_known && b->memory_dev == id->dev)
		return true;
	/* memfd_create(), shmget() and MAP_SHARED | MAP_ANONYMOUS use a file system that is mounted nowhere. */
	known = file_identify(s->mem_fd, "", &own) && own.dev == id->dev;
	for (unsigned int i = 0; i < CONTROL_HUGE_SIZES; i++)
		known = known || s->control->huge_devs[i] == id->dev;
	if (!known && !mount_has_type(s, id->dev, "tmpfs") && !mount_has_type(s, id->dev, "hugetlbfs"))
		return false;
	b->memory_dev_known = true;
	b->memory_dev = id->dev;
	return true;
}

/** Open the file of @p path_fd, which is memory that the program has mapped. @return 0 or an errno value. */
static int
open_memory(int path_fd, bool writable, struct seg_plan *plan)
{
	struct statfs fs;
	char link[32];
	int fd;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
	/* Without O_NONBLOCK a program that holds a lease on the file could block this thread. */
	fd = open(link, (writable ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (fstatfs(fd, &fs) != 0) {
		close(fd);
		return EIO;
	}
	plan->fd = fd;
	plan->page_bytes = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : PAGE_BYTES;
	return 0;
}

/*
 * The link in map_files tells nothing about rights: its mode is that of the mapping for which the kernel once made the
 * link, and the program may map something else at any time. What counts is this: the file that we hold is the one of a
 * mapping that the program had after we got hold of it, and what that mapping allows, the kernel has allowed the program
 * for that file: to map it shared and writable, one must have opened it for writing.
 */
int
memmap_open_shared(struct map_build *b, const struct ctl_seg *seg, struct seg_plan *plan)
{
	struct session *s = b->session;
	int path_fd = plan->fd, rc;
	struct file_id id;
	struct vma vma;

	rc = vma_find(s->maps_fd, &b->vmas, seg->map_start, seg->map_end, &vma);
	if (rc == EOPNOTSUPP)
		return req_fail(b->request, EOPNOTSUPP, "the program's mappings can't be read");
	if (rc != 0 || !vma.shared)
		return req_fail(b->request, EOPNOTSUPP, "%#" PRIx64 "-%#" PRIx64 " is no shared mapping of the program",
				seg->map_start, seg->map_end);
	if (!file_identify(path_fd, "", &id) || id.dev != vma.dev || id.ino != vma.ino)
		return req_fail(b->request, EOPNOTSUPP, "the mapping %#" PRIx64 "-%#" PRIx64 " has changed", seg->map_start,
				seg->map_end);
	if (!is_memory(b, &id))
		return req_fail(b->request, EOPNOTSUPP, "%#" PRIx64 "-%#" PRIx64 " is no shared memory", seg->map_start,
				seg->map_end);
	if (b->writable && !vma.write)
		return req_fail(b->request, EFAULT,
				"the program's mapping at %#" PRIx64 " is read-only, but the MR is to be writable",
				seg->map_start);
	rc = open_memory(path_fd, b->writable, plan);
	if (rc != 0)
		return req_fail(b->request, EOPNOTSUPP, "cannot open what is mapped at %#" PRIx64 ": %s", seg->map_start,
				strerror(rc));
	close(path_fd);
	plan->file_offset = vma.offset + seg->offset;
	/* The process may have run another program meanwhile. */
	return may_map(s) ? 0 : req_fail(b->request, EOPNOTSUPP, "shared memory of this program can't be mapped");
}

/* ---- Our mappings ---- */

/** Add a mapping to the MR's, or unmap it if that fails. @return 0 or ENOMEM. */
static int
keep_map(struct map_build *b, void *base, size_t bytes)
{
	struct mem_maps *m = b->maps;
	struct mem_map *maps;
	int id = -1;

	if (m->nb_maps == b->room_maps) {
		b->room_maps = b->room_maps == 0 ? 4 : b->room_maps * 2;
		maps = realloc(m->maps, b->room_maps * sizeof(*maps));
		if (maps == NULL)
			goto fail;
		m->maps = maps;
	}
	id = sigbus_add(base, bytes, &b->session->victim);
	if (id < 0)
		goto fail;
	m->maps[m->nb_maps++] = (struct mem_map){ .base = base, .bytes = bytes, .sigbus_id = id, .pieces = 1 };
	b->session->nb_maps++;
	return 0;
fail:
	munmap(base, bytes);
	return req_fail(b->request, ENOMEM, "no memory for the MR's mappings");
}

/** @return the number of mappings of all programs' memory. */
static uint32_t
maps_of_all(const struct control *c)
{
	const struct session *s;
	uint32_t n = 0;

	TAILQ_FOREACH(s, &c->sessions, link)
	n += s->nb_maps;
	return n;
}

static int
check_maps(struct map_build *b, uint32_t more)
{
	struct session *s = b->session;

	if (s->nb_maps + more > SESSION_MAX_MAPS)
		memmap_drop_views(s);
	if (s->nb_maps + more > SESSION_MAX_MAPS)
		return req_fail(b->request, ENOMEM, "this program's MRs need more than %d mappings", SESSION_MAX_MAPS);
	if (maps_of_all(s->control) + more > CONTROL_MAX_MAPS)
		return req_fail(b->request, ENOMEM, "all programs' MRs together need more than %d mappings",
				CONTROL_MAX_MAPS);
	return 0;
}

static void
drop_view(struct session *s, struct mem_view *w)
{
	sigbus_remove(w->map.sigbus_id);
	munmap(w->map.base, w->map.bytes);
	LIST_REMOVE(w, link);
	free(w);
	s->nb_maps--;
}

void
memmap_drop_views(struct session *s)
{
	struct mem_view *w, *next;

	for (w = LIST_FIRST(&s->views); w != NULL; w = next) {
		next = LIST_NEXT(w, link);
		if (w->users == 0)
			drop_view(s, w);
	}
}

/** @return the view of @p index, mapped if necessary; NULL, with the request failed. */
static struct mem_view *
get_view(struct map_build *b, uint64_t index)
{
	struct session *s = b->session;
	struct mem_view *w;
	void *base;

	LIST_FOREACH(w, &s->views, link) {
		if (w->index == index)
			return w;
	}
	if (check_maps(b, 1) != 0)
		return NULL;
	w = calloc(1, sizeof(*w));
	base = w == NULL ? MAP_FAILED
			 : mmap(NULL, VIEW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s->mem_fd,
				(off_t)(index << SESSION_VIEW_SHIFT));
	if (base == MAP_FAILED)
		goto fail;
	w->index = index;
	w->map = (struct mem_map){ .base = base, .bytes = VIEW_BYTES };
	w->map.sigbus_id = sigbus_add(base, VIEW_BYTES, &s->victim);
	if (w->map.sigbus_id < 0) {
		munmap(base, VIEW_BYTES);
		goto fail;
	}
	LIST_INSERT_HEAD(&s->views, w, link);
	s->nb_maps++;
	return w;
fail:
	free(w);
	req_fail(b->request, ENOMEM, "cannot map the program's memory: %s", strerror(errno));
	return NULL;
}

/** Map a segment of converted memory that lies inside one view: it needs no mapping of its own. */
static int
map_in_view(struct map_build *b, const struct seg_plan *plan, uint8_t **host)
{
	struct mem_maps *m = b->maps;
	struct mem_view **list, *w;

	w = get_view(b, plan->file_offset >> SESSION_VIEW_SHIFT);
	if (w == NULL)
		return ENOMEM;
	if (m->nb_views == b->room_views) {
		b->room_views = b->room_views == 0 ? 4 : b->room_views * 2;
		list = realloc(m->views, b->room_views * sizeof(*list));
		if (list == NULL)
			return req_fail(b->request, ENOMEM, "no memory for the MR");
		m->views = list;
	}
	m->views[m->nb_views++] = w;
	w->users++;
	*host = (uint8_t *)w->map.base + (plan->file_offset & (VIEW_BYTES - 1));
	return 0;
}

/** Map one segment on its own, in pages of its file. */
static int
map_alone(struct map_build *b, const struct ctl_seg *seg, const struct seg_plan *plan, uint8_t **host)
{
	uint64_t first = plan->file_offset & ~(plan->page_bytes - 1);
	uint64_t end = (plan->file_offset + seg->length + plan->page_bytes - 1) & ~(plan->page_bytes - 1);
	int prot = PROT_READ | (b->writable ? PROT_WRITE : 0);
	void *base;

	if (check_maps(b, 1) != 0)
		return ENOMEM;
	base = mmap(NULL, end - first, prot, MAP_SHARED, plan->fd, (off_t)first);
	if (base == MAP_FAILED)
		return req_fail(b->request, ENOMEM, "cannot map the program's memory: %s", strerror(errno));
	*host = (uint8_t *)base + (plan->file_offset - first);
	return keep_map(b, base, end - first);
}

int
memmap_run(struct map_build *b, const struct ctl_seg *segs, const struct seg_plan *plans, uint32_t n, uint8_t **host)
{
	uint64_t first = segs[0].va & ~(PAGE_BYTES - 1);
	uint64_t end = (segs[n - 1].va + segs[n - 1].length + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	int prot = PROT_READ | (b->writable ? PROT_WRITE : 0);
	uint64_t from, to;
	uint8_t *base;

	if (n == 1 && !plans[0].close_fd &&
	    plans[0].file_offset >> SESSION_VIEW_SHIFT ==
		    (plans[0].file_offset + segs[0].length - 1) >> SESSION_VIEW_SHIFT)
		return map_in_view(b, &plans[0], host);
	if (n == 1)
		return map_alone(b, &segs[0], &plans[0], host);
	if (check_maps(b, n) != 0)
		return ENOMEM;
	base = mmap(NULL, end - first, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return req_fail(b->request, ENOMEM, "cannot map the program's memory: %s", strerror(errno));
	for (uint32_t i = 0; i < n; i++) {
		from = segs[i].va & ~(PAGE_BYTES - 1);
		to = (segs[i].va + segs[i].length + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
		if (mmap(base + (from - first), to - from, prot, MAP_SHARED | MAP_FIXED, plans[i].fd,
			 (off_t)(plans[i].file_offset & ~(PAGE_BYTES - 1))) == MAP_FAILED) {
			munmap(base, end - first);
			return req_fail(b->request, ENOMEM, "cannot map the program's memory: %s", strerror(errno));
		}
	}
	*host = base + (segs[0].va - first);
	if (keep_map(b, base, end - first) != 0)
		return ENOMEM;
	/* The kernel counts each piece as a mapping. */
	b->maps->maps[b->maps->nb_maps - 1].pieces = n;
	b->session->nb_maps += n - 1;
	return 0;
}

void
memmap_release(struct session *s, struct mem_maps *m)
{
	for (uint32_t i = 0; i < m->nb_maps; i++) {
		sigbus_remove(m->maps[i].sigbus_id);
		munmap(m->maps[i].base, m->maps[i].bytes);
		s->nb_maps -= m->maps[i].pieces;
	}
	for (uint32_t i = 0; i < m->nb_views; i++) {
		UROCE_ASSERT(m->views[i]->users > 0);
		m->views[i]->users--;
	}
	free(m->maps);
	free(m->views);
	m->maps = NULL;
	m->views = NULL;
	m->nb_maps = m->nb_views = 0;
}
