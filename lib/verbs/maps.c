/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/procmap.h"

enum {
	MAPS_READ_BYTES = 8192, /**< on the caller's stack, which may be small */
	MAPS_LINE_BYTES = 160,  /**< longest part of a line that is used: all fields and the start of the name */
	MAPS_FIRST_ROOM = 16,
};

/* Descriptor of /proc/self/maps for the ioctl. -1: not opened yet. */
static _Atomic int query_fd = -1;
/* 0: not known yet, 1: the kernel has the ioctl, 2: it hasn't. */
static _Atomic int query_known;
static _Atomic bool text_forced;

void
maps_force_text(bool on)
{
	text_forced = on;
}

void
maps_forget(void)
{
	int fd = atomic_exchange(&query_fd, -1);

	if (fd >= 0)
		close(fd);
}

static enum map_name
name_kind(const char *name, size_t len)
{
	static const struct {
		const char *prefix;
		enum map_name kind;
	} known[] = {
		{ "[heap]", MAP_NAME_HEAP },
		{ "[stack", MAP_NAME_STACK }, /* older kernels have [stack:TID] for threads */
		{ "[anon:", MAP_NAME_ANON },
		{ "[", MAP_NAME_SPECIAL },
	};

	if (!len)
		return MAP_NAME_NONE;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		size_t n = strlen(known[i].prefix);

		if (len >= n && !memcmp(name, known[i].prefix, n))
			return known[i].kind;
	}
	return MAP_NAME_FILE;
}

/* Parse a number at *p that is followed by @p stop, which is skipped. */
static bool
take_number(const char **p, const char *end, unsigned int base, char stop, uint64_t *out)
{
	const char *s = *p;
	uint64_t v = 0;

	for (; s < end && *s != stop; s++) {
		unsigned int digit;

		if (*s >= '0' && *s <= '9')
			digit = *s - '0';
		else if (*s >= 'a' && *s <= 'f')
			digit = *s - 'a' + 10;
		else
			return false;
		if (digit >= base || v > (UINT64_MAX - digit) / base)
			return false;
		v = v * base + digit;
	}
	if (s == *p)
		return false;
	/* The inode may be the last field of a line. */
	if (s == end) {
		if (stop != ' ' || base != 10)
			return false;
		*p = s;
	} else {
		*p = s + 1;
	}
	*out = v;
	return true;
}

int
maps_parse_line(const char *line, size_t len, struct map_entry *out)
{
	const char *p = line, *end = line + len;
	uint64_t major, minor;

	memset(out, 0, sizeof(*out));
	if (!take_number(&p, end, 16, '-', &out->start) || !take_number(&p, end, 16, ' ', &out->end))
		return EINVAL;
	if (out->start >= out->end || end - p < 5 || p[4] != ' ')
		return EINVAL;
	if ((p[0] != 'r' && p[0] != '-') || (p[1] != 'w' && p[1] != '-') || (p[2] != 'x' && p[2] != '-') ||
	    (p[3] != 'p' && p[3] != 's'))
		return EINVAL;
	out->prot = (p[0] == 'r' ? PROT_READ : 0) | (p[1] == 'w' ? PROT_WRITE : 0) | (p[2] == 'x' ? PROT_EXEC : 0);
	out->shared = p[3] == 's';
	p += 5;
	if (!take_number(&p, end, 16, ' ', &out->offset) || !take_number(&p, end, 16, ':', &major) ||
	    !take_number(&p, end, 16, ' ', &minor) || !take_number(&p, end, 10, ' ', &out->inode))
		return EINVAL;
	if (major > UINT32_MAX || minor > UINT32_MAX)
		return EINVAL;
	out->dev_major = major;
	out->dev_minor = minor;
	while (p < end && *p == ' ')
		p++;
	out->name = name_kind(p, end - p);
	return 0;
}

/* Reads /proc/self/maps line by line. */
struct maps_reader {
	int fd;
	size_t have, at;
	char buf[MAPS_READ_BYTES];
};

static int
reader_open(struct maps_reader *r)
{
	r->fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	r->have = r->at = 0;
	return r->fd < 0 ? errno : 0;
}

/* @return the next byte; -1 at the end; -2 if reading failed (errno). */
static int
reader_byte(struct maps_reader *r)
{
	ssize_t n;

	if (r->at == r->have) {
		do
			n = read(r->fd, r->buf, sizeof(r->buf));
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			return n < 0 ? -2 : -1;
		r->have = n;
		r->at = 0;
	}
	return (unsigned char)r->buf[r->at++];
}

/* @return 0; ENOENT at the end; another errno value. */
static int
reader_next(struct maps_reader *r, struct map_entry *out)
{
	char line[MAPS_LINE_BYTES];
	size_t len = 0;
	int c;

	while ((c = reader_byte(r)) >= 0 && c != '\n')
		if (len < sizeof(line))
			line[len++] = c;
	if (c == -2)
		return errno;
	if (c == -1 && !len)
		return ENOENT;
	return maps_parse_line(line, len, out);
}

static int
find_in_text(uint64_t addr, struct map_entry *out)
{
	struct maps_reader r;
	int err = reader_open(&r);

	if (err)
		return err;
	do
		err = reader_next(&r, out);
	while (!err && out->end <= addr);
	close(r.fd);
	return err;
}

static int
open_query_fd(void)
{
	int fd = atomic_load(&query_fd), none = -1;

	if (fd >= 0)
		return fd;
	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 && !atomic_compare_exchange_strong(&query_fd, &none, fd)) {
		close(fd);
		fd = none;
	}
	return fd;
}

/* @return 0; ENOENT: no mapping there; ENOTTY: no such ioctl. */
static int
find_by_query(uint64_t addr, struct map_entry *out)
{
	char name[8] = "";
	char full[256];
	struct maps_query q = {
		.size = sizeof(q),
		.query_flags = MAPS_QUERY_COVERING_OR_NEXT,
		.query_addr = addr,
		.vma_name_addr = (uintptr_t)full,
		.vma_name_size = sizeof(full),
	};
	int fd = open_query_fd();
	int rc;

	if (fd < 0)
		return ENOTTY;
	rc = ioctl(fd, MAPS_QUERY, &q);
	if (rc && errno == ENAMETOOLONG) {
		/* Only a path can be that long. */
		q.vma_name_addr = 0;
		q.vma_name_size = 0;
		strcpy(name, "/");
		rc = ioctl(fd, MAPS_QUERY, &q);
	} else if (!rc && q.vma_name_size) {
		memcpy(name, full, q.vma_name_size < sizeof(name) ? q.vma_name_size : sizeof(name) - 1);
		name[sizeof(name) - 1] = 0;
	}
	if (rc)
		return errno == ENOENT ? ENOENT : ENOTTY;
	*out = (struct map_entry){
		.start = q.vma_start,
		.end = q.vma_end,
		.offset = q.vma_offset,
		.inode = q.inode,
		.dev_major = q.dev_major,
		.dev_minor = q.dev_minor,
		.prot = (q.vma_flags & MAPS_QUERY_READABLE ? PROT_READ : 0) |
			(q.vma_flags & MAPS_QUERY_WRITABLE ? PROT_WRITE : 0) |
			(q.vma_flags & MAPS_QUERY_EXECUTABLE ? PROT_EXEC : 0),
		.shared = q.vma_flags & MAPS_QUERY_SHARED,
		.name = name_kind(name, strlen(name)),
	};
	return 0;
}

static bool
reads_text(void)
{
	return atomic_load(&text_forced) || atomic_load(&query_known) == 2;
}

int
maps_find(uint64_t addr, struct map_entry *out)
{
	int err;

	if (!reads_text()) {
		err = find_by_query(addr, out);
		if (err != ENOTTY) {
			atomic_store(&query_known, 1);
			return err;
		}
		if (atomic_load(&query_known) == 0)
			atomic_store(&query_known, 2);
	}
	return find_in_text(addr, out);
}

static int
list_add(struct map_list *l, const struct map_entry *e)
{
	if (l->n == l->room) {
		size_t room = l->room ? l->room * 2 : MAPS_FIRST_ROOM;
		struct map_entry *grown = realloc(l->e, room * sizeof(*grown));

		if (!grown)
			return ENOMEM;
		l->e = grown;
		l->room = room;
	}
	l->e[l->n++] = *e;
	return 0;
}

static int
range_in_text(struct map_list *l, uint64_t start, uint64_t end)
{
	struct maps_reader r;
	struct map_entry e;
	int err = reader_open(&r);

	if (err)
		return err;
	while (!(err = reader_next(&r, &e)) && e.start < end)
		if (e.end > start && (err = list_add(l, &e)))
			break;
	close(r.fd);
	return err == ENOENT ? 0 : err;
}

int
maps_range(struct map_list *l, uint64_t start, uint64_t end)
{
	struct map_entry e;
	int err;

	if (start >= end)
		return 0;
	/* One pass over the text finds all mappings; the ioctl returns one at a time. */
	if (reads_text())
		return range_in_text(l, start, end);
	err = maps_find(start, &e);
	if (!err && reads_text())
		return range_in_text(l, start, end);
	while (!err && e.start < end) {
		err = list_add(l, &e);
		if (err)
			return err;
		start = e.end;
		if (start >= end)
			break;
		err = maps_find(start, &e);
	}
	return err == ENOENT ? 0 : err;
}

bool
maps_covers(const struct map_list *l, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < l->n && start < end; i++) {
		if (l->e[i].start > start)
			return false;
		if (l->e[i].end > start)
			start = l->e[i].end;
	}
	return start >= end;
}

void
maps_free(struct map_list *l)
{
	free(l->e);
	*l = (struct map_list){ 0 };
}
