/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/opener.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "control/memory/mounts_priv.h"
#include "control/memory/vmas_priv.h"

#define PAGE_BYTES UINT64_C(4096)

enum { MEMORY_DEVS = 4 };

/**
 * Device numbers of memfds: in ordinary pages, and in hugepages of the system's default size, 2 MiB and 1 GiB; 0: there are none of that size.
 * memfd_create(), shmget() and anonymous shared mappings use file systems that are mounted nowhere.
 */
static dev_t memory_devs[MEMORY_DEVS];
static pthread_once_t prepared = PTHREAD_ONCE_INIT;

static void
prepare(void)
{
	static const unsigned int flags[MEMORY_DEVS] = {
		0, MFD_HUGETLB, MFD_HUGETLB | 21 << 26 /* MFD_HUGE_2MB */, MFD_HUGETLB | 30 << 26 /* MFD_HUGE_1GB */
	};
	struct stat st;
	int fd;

	for (unsigned int i = 0; i < MEMORY_DEVS; i++) {
		fd = memfd_create("uroce-probe", MFD_CLOEXEC | flags[i]);
		if (fd < 0)
			continue;
		if (fstat(fd, &st) == 0)
			memory_devs[i] = st.st_dev;
		close(fd);
	}
}

void
shared_prepare(void)
{
	pthread_once(&prepared, prepare);
}

void
shared_process(pid_t pid, int *dir, int *maps)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	*dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (maps != NULL)
		*maps = *dir >= 0 ? openat(*dir, "maps", O_RDONLY | O_CLOEXEC) : -1;
}

bool
shared_is_process(int dir, int maps)
{
	struct file_id of_maps, want;
	struct statfs fs;
	int flags = fcntl(maps, F_GETFL);

	return fstatfs(dir, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC && flags >= 0 && (flags & O_PATH) == 0 &&
	       file_identify(dir, "maps", &want) && file_identify(maps, "", &of_maps) && want.dev == of_maps.dev && want.ino == of_maps.ino;
}

/** State of a call of shared_open(). */
struct batch {
	int dir, maps;
	struct vma_list vmas;
	bool memory_dev_known;
	dev_t memory_dev; /**< device number of tmpfs or hugetlbfs; valid while the descriptors of the batch are open */
};

/**
 * @return true if @p id is of memory: a file of tmpfs or hugetlbfs. All others are asked nothing, since opening a device
 * has side effects, and the file system may be the program's own.
 */
static bool
is_memory(struct batch *b, const struct file_id *id)
{
	bool known = false;

	if (!S_ISREG(id->mode))
		return false;
	/* The descriptors of this batch are all open until it is done, so that what was found of one is true for others. */
	if (b->memory_dev_known && b->memory_dev == id->dev)
		return true;
	for (unsigned int i = 0; i < MEMORY_DEVS; i++)
		known = known || (memory_devs[i] != 0 && memory_devs[i] == id->dev);
	if (!known && !mount_has_type(b->dir, id->dev, "tmpfs") && !mount_has_type(b->dir, id->dev, "hugetlbfs"))
		return false;
	b->memory_dev_known = true;
	b->memory_dev = id->dev;
	return true;
}

/** Open the file of @p path_fd, which is memory that the program has mapped. @return 0 or an errno value. */
static int
open_memory(int path_fd, bool writable, struct shared_file *out)
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
	out->fd = fd;
	out->page_bytes = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize : PAGE_BYTES;
	return 0;
}

/*
 * The link in map_files tells nothing about rights: its mode is that of the mapping for which the kernel once made the
 * link, and the program may map something else at any time. What counts is this: the file that we hold is the one of a
 * mapping that the program had after we got hold of it, and what that mapping allows, the kernel has allowed the program
 * for that file: to map it shared and writable, one must have opened it for writing.
 */
static enum shared_status
open_held(struct batch *b, int path_fd, const struct shared_range *r, struct shared_file *out)
{
	struct file_id id;
	struct vma vma;
	int rc = vma_find(b->maps, &b->vmas, r->start, r->end, &vma);

	if (rc == EOPNOTSUPP)
		return SHARED_UNREADABLE;
	if (rc != 0 || !vma.shared)
		return SHARED_PRIVATE;
	if (!file_identify(path_fd, "", &id) || id.dev != vma.dev || id.ino != vma.ino)
		return SHARED_CHANGED;
	if (!is_memory(b, &id))
		return SHARED_NO_MEMORY;
	if (r->writable && !vma.write)
		return SHARED_READ_ONLY;
	out->offset = vma.offset;
	out->err = open_memory(path_fd, r->writable, out);
	return out->err == 0 ? SHARED_OK : SHARED_NO_OPEN;
}

void
shared_open(int dir, int maps, const struct shared_range *ranges, unsigned int n, struct shared_file *out)
{
	struct batch b = { .dir = dir, .maps = maps };
	int held[SHARED_BATCH];
	unsigned int i;
	char name[64];

	shared_prepare();
	for (i = 0; i < n; i++) {
		out[i] = (struct shared_file){ .fd = -1 };
		snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, ranges[i].start, ranges[i].end);
		/* O_PATH: the file isn't asked anything, and its inode number isn't given to another while we have it. */
		held[i] = openat(dir, name, O_PATH | O_CLOEXEC);
		if (held[i] < 0)
			out[i] = (struct shared_file){ .fd = -1, .status = SHARED_NO_HOLD, .err = errno };
	}
	for (i = 0; i < n; i++)
		if (held[i] >= 0)
			out[i].status = open_held(&b, held[i], &ranges[i], &out[i]);
	for (i = 0; i < n; i++)
		if (held[i] >= 0)
			close(held[i]);
	vma_list_free(&b.vmas);
}

void
shared_answer_close(struct shared_answer *a)
{
	if (a->dir >= 0)
		close(a->dir);
	if (a->maps >= 0)
		close(a->maps);
	for (uint32_t i = 0; i < a->n; i++)
		if (a->files[i].fd >= 0)
			close(a->files[i].fd);
	a->dir = a->maps = -1;
	a->n = 0;
}

/** @return true if we may open what programs have mapped; tested with a mapping of our own. */
static bool
probe_privilege(void)
{
	bool ok = false;
	char path[96];
	void *p;
	int fd, fd2;

	fd = memfd_create("uroce-probe", MFD_CLOEXEC);
	if (fd < 0)
		return false;
	if (ftruncate(fd, (off_t)PAGE_BYTES) == 0) {
		p = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED) {
			snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)p,
				 (unsigned long)p + PAGE_BYTES);
			fd2 = open(path, O_RDWR | O_CLOEXEC);
			ok = fd2 >= 0;
			if (ok)
				close(fd2);
			munmap(p, PAGE_BYTES);
		}
	}
	close(fd);
	return ok;
}

struct shared_ops
shared_ops_own(void)
{
	return (struct shared_ops){ .fd = -1, .privileged = probe_privilege() };
}
