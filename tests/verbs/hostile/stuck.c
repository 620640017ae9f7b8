/* SPDX-License-Identifier: BSD-3-Clause */
#include "stuck.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/fuse.h>

enum { FILE_NODE = 2, REQUEST_BYTES = 1 << 18 };

static char folder[] = "/tmp/uroce-stuck-XXXXXX";

void
attack_die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

void
attack_begun(void)
{
	puts("attacking");
	fflush(stdout);
}

void
attack_skip(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(STUCK_SKIPPED);
}

static void
write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		attack_skip(path);
	close(fd);
}

static void
answer(int dev, const struct fuse_in_header *in, int error, const void *data, size_t bytes)
{
	struct fuse_out_header out = { .len = (uint32_t)(sizeof(out) + bytes), .error = -error, .unique = in->unique };
	struct iovec v[2] = { { &out, sizeof(out) }, { (void *)(uintptr_t)data, bytes } };

	if (writev(dev, v, bytes > 0 ? 2 : 1) < 0 && errno != ENOENT)
		_exit(1);
}

static struct fuse_attr
attributes(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node,
		.size = node == FILE_NODE ? STUCK_BYTES : 0,
		.mode = node == FILE_NODE ? S_IFREG | 0666 : S_IFDIR | 0777,
		.nlink = 1,
		.blksize = 4096,
	};
}

static void
serve_one(int dev, const struct fuse_in_header *in)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096 };
	struct fuse_entry_out entry = { .nodeid = FILE_NODE, .entry_valid = 1000, .attr_valid = 1000 };
	struct fuse_attr_out attr = { .attr_valid = 1000, .attr = attributes(in->nodeid) };
	struct fuse_open_out opened = { .fh = 1 };

	switch (in->opcode) {
	case FUSE_INIT:
		answer(dev, in, 0, &init, sizeof(init));
		return;
	case FUSE_LOOKUP:
		entry.attr = attributes(FILE_NODE);
		answer(dev, in, 0, &entry, sizeof(entry));
		return;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		answer(dev, in, 0, &attr, sizeof(attr));
		return;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		answer(dev, in, 0, &opened, sizeof(opened));
		return;
	case FUSE_READ:
	case FUSE_WRITE:
	case FUSE_FSYNC:
	case FUSE_FLUSH:
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	default:
		answer(dev, in, ENOSYS, NULL, 0);
	}
}

static void
serve(int dev)
{
	static char request[REQUEST_BYTES];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(dev, request, sizeof(request)) > 0 || errno == EINTR || errno == ENOENT)
		serve_one(dev, (const void *)request);
	_exit(0);
}

void
enter_namespaces(void)
{
	unsigned int uid = getuid(), gid = getgid();
	char text[128];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		attack_skip("no user namespaces");
	write_file("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "0 %u 1", uid);
	write_file("/proc/self/uid_map", text);
	snprintf(text, sizeof(text), "0 %u 1", gid);
	write_file("/proc/self/gid_map", text);
}

void
stuck_mount(void)
{
	char text[128];
	int dev;

	if (mkdtemp(folder) == NULL)
		attack_die(folder);
	enter_namespaces();
	dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		attack_skip("/dev/fuse");
	snprintf(text, sizeof(text), "fd=%d,rootmode=40000,user_id=0,group_id=0", dev);
	if (mount("stuck", folder, "fuse", MS_NOSUID | MS_NODEV, text) != 0)
		attack_skip("no FUSE in a user namespace");
	switch (fork()) {
	case -1:
		attack_die("fork");
	case 0:
		serve(dev);
	}
	close(dev);
}

int
stuck_open(int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/file", folder);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0)
		attack_die(path);
	return fd;
}

void *
stuck_memory(void)
{
	void *p = mmap(NULL, STUCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, stuck_open(O_RDWR), 0);

	if (p == MAP_FAILED)
		attack_die("mmap");
	return p;
}
