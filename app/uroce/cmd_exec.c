/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce run and lab: other programs of this project. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uroce.h"

enum { CANT_RUN = 126, NOT_FOUND = 127 };

/* Execute the program beside this one, in a build tree where it was built or is, else by PATH. */
static int
execute(const char *name, const char *build, int argc, char **argv)
{
	char own[PATH_BYTES], path[PATH_BYTES + 64], **args = calloc((size_t)argc + 2, sizeof(*args));
	const char *const places[] = { "", build };
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
	char *slash;

	if (args == NULL)
		return fail("no memory");
	args[0] = (char *)(uintptr_t)name;
	memcpy(args + 1, argv, (size_t)argc * sizeof(*args));
	own[n > 0 ? n : 0] = '\0';
	slash = strrchr(own, '/');
	if (slash != NULL)
		*slash = '\0';
	for (size_t i = 0; slash != NULL && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s%s", own, places[i], name);
		if (access(path, X_OK) == 0)
			execv(path, args);
	}
	execvp(name, args);
	fail("%s: %s", name, strerror(errno));
	free(args);
	return errno == ENOENT ? NOT_FOUND : CANT_RUN;
}

int
cmd_run(int argc, char **argv)
{
	const char *path;

	/* The daemon that the options name is the program's. */
	if (target.socket != NULL || target.lab != NULL) {
		path = socket_path();
		if (path == NULL)
			return EXIT_FAILED;
		setenv("UROCE_SOCKET", path, 1);
	}
	return execute("uroce-run", "../uroce-run/", argc, argv);
}

int
cmd_lab(int argc, char **argv)
{
	return execute("uroce-lab", "../../../scripts/", argc, argv);
}
