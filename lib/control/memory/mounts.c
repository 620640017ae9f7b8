/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/beneath.h"
#include "control/memory/mounts_priv.h"

enum { PROC_ROOT_INO = 1 /**< include/uapi/linux/fs.h */, MOUNTINFO_BYTES = 1 << 18 };

bool
file_identify(int fd, const char *name, struct file_id *id)
{
	struct statx st;

	if (statx(fd, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &st) != 0)
		return false;
	*id = (struct file_id){ .dev = makedev(st.stx_dev_major, st.stx_dev_minor), .ino = st.stx_ino, .mode = st.stx_mode };
	return true;
}

/** @return 1: @p text, a mountinfo(5), says that @p dev is of type @p type; -1: of another; 0: it doesn't say. */
static int
type_in_text(char *text, dev_t dev, const char *type)
{
	unsigned int major_no, minor_no;
	char *line, *rest, *at, found[64];

	for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
		if (sscanf(line, "%*d %*d %u:%u", &major_no, &minor_no) != 2 || makedev(major_no, minor_no) != dev)
			continue;
		/* Spaces in paths are escaped, so this separates the optional fields from the type. */
		at = strstr(line, " - ");
		if (at != NULL && sscanf(at + 3, "%63s", found) == 1)
			return strcmp(found, type) == 0 ? 1 : -1;
	}
	return 0;
}

/** Look into the file "mountinfo" of the directory @p at. */
static int
type_in(int at, const char *path, dev_t dev, const char *type)
{
	char *text = malloc(MOUNTINFO_BYTES + 1);
	int fd = text != NULL ? openat(at, path, O_RDONLY | O_CLOEXEC) : -1, result = 0;
	ssize_t n = 1, have = 0;

	while (fd >= 0 && n > 0 && have < MOUNTINFO_BYTES) {
		n = read(fd, text + have, (size_t)(MOUNTINFO_BYTES - have));
		if (n > 0)
			have += n;
	}
	if (fd >= 0) {
		text[have] = '\0';
		result = type_in_text(text, dev, type);
		close(fd);
	}
	free(text);
	return result;
}

bool
mount_has_type(int proc, dev_t dev, const char *type)
{
	int result = type_in(AT_FDCWD, "/proc/self/mountinfo", dev, type);

	if (result == 0 && proc >= 0)
		result = type_in(proc, "mountinfo", dev, type);
	return result > 0;
}

static bool
same(const struct file_id *a, const struct file_id *b)
{
	return a->dev == b->dev && a->ino == b->ino;
}

/** Identify "PID/mem" below @p dir without following a link or crossing a mount. @return false: it isn't there. */
static bool
identify_mem(int dir, uint32_t pid, struct file_id *id)
{
	char name[32];
	bool ok;
	int fd;

	snprintf(name, sizeof(name), "%u/mem", pid);
	fd = open_beneath(dir, name);
	if (fd < 0)
		return false;
	ok = file_identify(fd, "", id);
	close(fd);
	return ok;
}

/** @return true if @p proc, on device @p dev, is in a procfs. */
static bool
is_procfs(const struct session *s, int proc, dev_t dev)
{
	struct statfs fs;

	if (mount_has_type(s->proc_fd, dev, "proc"))
		return true;
	/* A program whose entry in /proc we can't see has mounts that we can't list: its file system must say what it is. */
	return s->proc_fd < 0 && fstatfs(proc, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
}

bool
proc_mem_check(const struct session *s, int mem, int proc, uint32_t pid)
{
	struct file_id of_mem, of_proc, want;
	int flags = fcntl(mem, F_GETFL);

	if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) != O_RDWR || !file_identify(mem, "", &of_mem) ||
	    !S_ISREG(of_mem.mode))
		return false;
	/* A program that has the same procfs as we: this is its own memory, and no other file. */
	if (s->proc_fd >= 0 && file_identify(s->proc_fd, "mem", &want) && same(&of_mem, &want))
		return true;
	/*
	 * A program in a container has a procfs of its own. The file is the one that a walk from the root of that procfs
	 * finds under the name that only memory has; no mount can be in between.
	 */
	return proc >= 0 && file_identify(proc, "", &of_proc) && S_ISDIR(of_proc.mode) && of_proc.ino == PROC_ROOT_INO &&
	       of_proc.dev == of_mem.dev && is_procfs(s, proc, of_proc.dev) && identify_mem(proc, pid, &want) &&
	       same(&of_mem, &want);
}

void
proc_close(int fd, uid_t uid)
{
	(void)uid;
	close(fd);
}

bool
proc_is_root(int mem, int fd)
{
	struct file_id of_mem, of_fd;

	return file_identify(mem, "", &of_mem) && file_identify(fd, "", &of_fd) && S_ISDIR(of_fd.mode) && of_fd.ino == PROC_ROOT_INO && of_mem.dev == of_fd.dev;
}
