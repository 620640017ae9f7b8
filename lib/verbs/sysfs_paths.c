/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * liburoce-sysfs.so, for LD_PRELOAD (uroce-run --sysfs): redirects accesses to files in /sys/class/infiniband and
 * /dev/infiniband to the directory that uroced maintains next to its socket (lib/control/observe/sysfs.h). UCX, for
 * example, accepts no device without a node in /dev/infiniband, which only root and a kernel module could provide, and
 * takes a GID for RoCE v1 if it can't read its type.
 *
 * Only file names are changed, and only in these two directories; libc's own functions do the work.
 */
/* With the build's off_t these functions would have other names. */
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/ctl.h"

#define EXPORT __attribute__((visibility("default")))

/* @return libc's function of this name. */
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* open() as compiled with _FORTIFY_SOURCE; in no header. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);

/*
 * @return the path, or the path that it is redirected to, in @room. A result that would be too long is not redirected.
 */
static const char *
lead(const char *path, char room[PATH_MAX])
{
	static const char *const ours[] = { "/sys/class/infiniband", "/dev/infiniband" };
	const char *socket;

	for (unsigned int i = 0; path && i < sizeof(ours) / sizeof(ours[0]); i++) {
		size_t n = strlen(ours[i]);

		/* It may be infiniband_verbs, infiniband_mad ... */
		if (strncmp(path, ours[i], n) || (path[n] && path[n] != '/'))
			continue;
		socket = secure_getenv("UROCE_SOCKET");
		if (!socket || !*socket)
			socket = CTL_DEFAULT_SOCKET;
		if (snprintf(room, PATH_MAX, "%s.sys%s", socket, path) < PATH_MAX)
			return room;
	}
	return path;
}

/* ---- Opening: a mode argument follows if the flags say so ---- */
static mode_t
mode_of(int flags, va_list ap)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
}

#define LED_OPEN(name, params, ...) \
	EXPORT int name params \
	{ \
		char room[PATH_MAX]; \
		mode_t mode; \
		va_list ap; \
\
		va_start(ap, flags); \
		mode = mode_of(flags, ap); \
		va_end(ap); \
		path = lead(path, room); \
		return NEXT(name)(__VA_ARGS__, mode); \
	}
LED_OPEN(open, (const char *path, int flags, ...), path, flags)
LED_OPEN(open64, (const char *path, int flags, ...), path, flags)
LED_OPEN(openat, (int dir, const char *path, int flags, ...), dir, path, flags)
LED_OPEN(openat64, (int dir, const char *path, int flags, ...), dir, path, flags)

/* ---- The rest ---- */
#define LED(type, name, params, ...) \
	EXPORT type name params \
	{ \
		char room[PATH_MAX]; \
\
		path = lead(path, room); \
		return NEXT(name)(__VA_ARGS__); \
	}
LED(int, __open_2, (const char *path, int flags), path, flags)
LED(int, __open64_2, (const char *path, int flags), path, flags)
LED(int, __openat_2, (int dir, const char *path, int flags), dir, path, flags)
LED(int, __openat64_2, (int dir, const char *path, int flags), dir, path, flags)
LED(FILE *, fopen, (const char *path, const char *mode), path, mode)
LED(FILE *, fopen64, (const char *path, const char *mode), path, mode)
LED(int, access, (const char *path, int mode), path, mode)
LED(int, faccessat, (int dir, const char *path, int mode, int flags), dir, path, mode, flags)
LED(int, stat, (const char *path, struct stat *st), path, st)
LED(int, stat64, (const char *path, struct stat64 *st), path, st)
LED(int, lstat, (const char *path, struct stat *st), path, st)
LED(int, lstat64, (const char *path, struct stat64 *st), path, st)
LED(int, fstatat, (int dir, const char *path, struct stat *st, int flags), dir, path, st, flags)
LED(int, fstatat64, (int dir, const char *path, struct stat64 *st, int flags), dir, path, st, flags)
LED(int, statx, (int dir, const char *path, int flags, unsigned int mask, struct statx *st), dir, path, flags, mask, st)
LED(DIR *, opendir, (const char *path), path)
LED(int, scandir, (const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
		   int (*compare)(const struct dirent **, const struct dirent **)), path, list, filter, compare)
LED(int, scandir64, (const char *path, struct dirent64 ***list, int (*filter)(const struct dirent64 *),
		     int (*compare)(const struct dirent64 **, const struct dirent64 **)), path, list, filter, compare)
LED(ssize_t, readlink, (const char *path, char *to, size_t size), path, to, size)
LED(ssize_t, readlinkat, (int dir, const char *path, char *to, size_t size), dir, path, to, size)
LED(char *, canonicalize_file_name, (const char *path), path)

/* For this function dlsym() would find libc's older version. */
EXPORT char *
realpath(const char *path, char *to)
{
	__typeof__(&realpath) next = (__typeof__(&realpath))dlvsym(RTLD_NEXT, "realpath", "GLIBC_2.3");
	char room[PATH_MAX];

	return next(lead(path, room), to);
}
