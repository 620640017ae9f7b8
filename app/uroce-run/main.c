/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroce-run [--no-sysfs] [--socket PATH] PROGRAM [ARGUMENT ...]
 *
 * Runs a verbs program on uroce: puts the directory of our libibverbs.so.1 before all others on the library path, preloads
 * liburoce-sysfs.so, sets UROCE_SOCKET if asked to, and executes the program. The exit status is as for env(1): 125 for an error of its own,
 * 126 if the program can't be executed, 127 if it isn't found.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "look.h"

enum { EXIT_OWN_ERROR = 125, EXIT_CANT_RUN = 126, EXIT_NOT_FOUND = 127 };

#define LIBRARY "libibverbs.so.1"
#define SYSFS_LIBRARY "liburoce-sysfs.so"

static const char usage[] = "usage: uroce-run [--no-sysfs] [--socket PATH] PROGRAM [ARGUMENT ...]\n"
			    "\n"
			    "Runs a verbs program on uroce instead of on RDMA hardware.\n"
			    "\n"
			    "  --no-sysfs     don't show it uroced's files when it looks into /sys/class/infiniband and\n"
			    "                 /dev/infiniband, which UCX and MPI need and takes LD_PRELOAD\n"
			    "  --sysfs        the default\n"
			    "  --socket PATH  uroced's socket (default: $UROCE_SOCKET, else /run/uroce/uroced.sock)\n"
			    "  --help         this text\n"
			    "  --version      the version\n";

/* The directory of this executable, without a trailing slash. */
static int
own_folder(char *out, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", out, size - 1);
	char *slash;

	if (n < 0)
		return -1;
	out[n] = 0;
	slash = strrchr(out, '/');
	if (!slash)
		return -1;
	*slash = 0;
	return 0;
}

/* Find the library where it was installed or, in a build tree, where it was built. */
static int
find_library(char *out, size_t size)
{
	char own[PATH_MAX], path[PATH_MAX];
	const char *const folders[] = { "/" UROCE_LIB_FROM_BIN, "/../../lib", NULL };

	if (own_folder(own, sizeof(own)))
		return -1;
	for (int i = 0; folders[i]; i++) {
		if ((size_t)snprintf(path, sizeof(path), "%s%s/" LIBRARY, own, folders[i]) >= sizeof(path))
			continue;
		if (access(path, R_OK))
			continue;
		*strrchr(path, '/') = 0;
		if (!realpath(path, own))
			return -1;
		return (size_t)snprintf(out, size, "%s", own) < size ? 0 : -1;
	}
	return -1;
}

static int
set_library_path(const char *folder)
{
	const char *before = getenv("LD_LIBRARY_PATH");
	char *value;
	int rc;

	if (before && *before)
		rc = asprintf(&value, "%s:%s", folder, before);
	else
		rc = asprintf(&value, "%s", folder);
	if (rc < 0)
		return -1;
	rc = setenv("LD_LIBRARY_PATH", value, 1);
	free(value);
	return rc;
}

/* Our library comes before other preloaded ones, so that our functions are called first. */
static int
preload(const char *folder)
{
	const char *before = getenv("LD_PRELOAD");
	char *value;
	int rc;

	if (asprintf(&value, "%s/" SYSFS_LIBRARY, folder) < 0)
		return -1;
	rc = access(value, R_OK);
	free(value);
	if (rc != 0)
		return 0;
	rc = asprintf(&value, "%s/" SYSFS_LIBRARY "%s%s", folder, before && *before ? ":" : "", before ? before : "");
	if (rc < 0)
		return -1;
	rc = setenv("LD_PRELOAD", value, 1);
	free(value);
	return rc;
}

/* AddressSanitizer refuses to run behind another preloaded library, though ours is harmless to it. */
static int
tell_sanitizer(void)
{
	const char *before = getenv("ASAN_OPTIONS");
	char *value;
	int rc;

	rc = asprintf(&value, "%s%sverify_asan_link_order=0", before && *before ? before : "", before && *before ? ":" : "");
	if (rc < 0)
		return -1;
	rc = setenv("ASAN_OPTIONS", value, 1);
	free(value);
	return rc;
}

/* Say what keeps the program from loading our libraries. It is executed all the same: programs that it starts may load them. */
static bool
can_run(const char *program)
{
	struct look l;

	look_at(program, &l);
	if (l.reason != LOOK_FINE)
		fprintf(stderr, "uroce-run: %s does not load uroce's libraries: %s\n", l.file, l.text);
	return l.reason != LOOK_MACHINE;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "sysfs", no_argument, NULL, 'y' }, /* the default; once it had to be asked for */
		{ "no-sysfs", no_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	char folder[PATH_MAX];
	const char *socket = NULL;
	bool sysfs = true;
	int c;

	/* "+" stops at the first non-option: the program's options follow it. */
	while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
		switch (c) {
		case 's':
			socket = optarg;
			break;
		case 'y':
			sysfs = true;
			break;
		case 'n':
			sysfs = false;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'V':
			puts("uroce-run " UROCE_VERSION);
			return 0;
		default:
			fputs(usage, stderr);
			return EXIT_OWN_ERROR;
		}
	}
	if (optind == argc) {
		fprintf(stderr, "uroce-run: no program named\n%s", usage);
		return EXIT_OWN_ERROR;
	}
	if (find_library(folder, sizeof(folder))) {
		fprintf(stderr, "uroce-run: " LIBRARY " of uroce is neither in the build tree nor installed: "
				"build it (ninja) or install it (meson install)\n");
		return EXIT_OWN_ERROR;
	}
	if (!can_run(argv[optind]))
		return EXIT_CANT_RUN;
	if (set_library_path(folder) || (sysfs && (preload(folder) || tell_sanitizer())) ||
	    (socket && setenv("UROCE_SOCKET", socket, 1))) {
		fprintf(stderr, "uroce-run: can't set the environment: %s\n", strerror(errno));
		return EXIT_OWN_ERROR;
	}
	execvp(argv[optind], argv + optind);
	c = errno;
	fprintf(stderr, "uroce-run: %s: %s\n", argv[optind], strerror(c));
	return c == ENOENT ? EXIT_NOT_FOUND : EXIT_CANT_RUN;
}
