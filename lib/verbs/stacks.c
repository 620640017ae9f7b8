/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs/stacks.h"

#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t
page_bytes(void)
{
	return sysconf(_SC_PAGESIZE);
}

static int
zone_add(struct stack_zones *zones, uint64_t start, uint64_t end)
{
	if (zones->n == zones->room) {
		size_t room = zones->room ? zones->room * 2 : 16;
		struct stack_zone *z = realloc(zones->z, room * sizeof(*z));

		if (!z)
			return ENOMEM;
		zones->z = z;
		zones->room = room;
	}
	zones->z[zones->n++] = (struct stack_zone){ start, end };
	return 0;
}

/* Find the stack of a thread other than the main one or the caller, if it may be in [from, to). */
static int
thread_zone(struct stack_zones *zones, pid_t tid, uint64_t from, uint64_t to)
{
	struct robust_list_head *head = NULL;
	struct map_entry e;
	uint64_t at;
	size_t len;

	if (syscall(SYS_get_robust_list, tid, &head, &len)) {
		/* The thread has ended meanwhile. */
		if (errno != ESRCH)
			zones->uncertain = true;
		return 0;
	}
	at = (uintptr_t)head;
	/* The stack is below, in the same mapping. */
	if (at && (at < from || at >= to))
		return 0;
	if (!at || maps_find(at, &e) || e.start > at) {
		zones->uncertain = true;
		return 0;
	}
	return zone_add(zones, e.start, (at | (page_bytes() - 1)) + 1);
}

static bool
zones_hold(const struct stack_zones *zones, uint64_t at)
{
	for (size_t i = 0; i < zones->n; i++)
		if (at >= zones->z[i].start && at < zones->z[i].end)
			return true;
	return false;
}

bool
stacks_alone(void)
{
	struct stat st;

	/* This changes nothing (unshare(2)), and is refused if there are more, or if another process has the same memory. */
	if (!unshare(CLONE_VM))
		return true;
	if (errno == EINVAL)
		return false;
	/* A sandbox allows no unshare(). As each directory, this one has a link from its parent, one from itself and one from each that is in it. */
	return !stat("/proc/self/task", &st) && st.st_nlink == 3;
}

int
stacks_find(struct stack_zones *zones, uint64_t sp, uint64_t from, uint64_t to)
{
	bool alone = stacks_alone();
	DIR *dir = alone ? NULL : opendir("/proc/self/task");
	struct map_entry e;
	struct dirent *d;
	int err = 0;

	if (!dir && !alone)
		zones->uncertain = true;
	while (dir && !err && (d = readdir(dir))) {
		pid_t tid = atoi(d->d_name);

		/* The main thread's descriptor isn't on its stack. */
		if (tid > 0 && tid != getpid())
			err = thread_zone(zones, tid, from, to);
	}
	if (dir)
		closedir(dir);
	if (err)
		return err;
	if (zones_hold(zones, sp) || maps_find(sp, &e) || e.start > sp || e.name == MAP_NAME_STACK)
		return 0;
	return zone_add(zones, sp & ~(page_bytes() - 1), sp + STACKS_COROUTINE_BYTES);
}

static bool
has_guard(const struct map_entry *e)
{
	struct map_entry below;

	return e->start && !maps_find(e->start - 1, &below) && below.start < e->start &&
	       !(below.prot & (PROT_READ | PROT_WRITE | PROT_EXEC)) && !below.inode;
}

bool
stacks_next_free(const struct stack_zones *zones, const struct map_entry *e, uint64_t *start, uint64_t end,
		 uint64_t *stop)
{
	bool moved = true;

	if (zones->uncertain && has_guard(e))
		return false;
	while (moved) {
		moved = false;
		for (size_t i = 0; i < zones->n; i++) {
			if (*start >= zones->z[i].start && *start < zones->z[i].end) {
				*start = (zones->z[i].end + page_bytes() - 1) & ~(page_bytes() - 1);
				moved = true;
			}
		}
	}
	*stop = end;
	for (size_t i = 0; i < zones->n; i++)
		if (zones->z[i].start > *start && zones->z[i].start < *stop)
			*stop = zones->z[i].start;
	return *start < *stop;
}

void
stacks_free(struct stack_zones *zones)
{
	free(zones->z);
	*zones = (struct stack_zones){ 0 };
}
