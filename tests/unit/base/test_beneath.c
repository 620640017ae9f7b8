/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/beneath.h"

static char top[] = "/tmp/uroce-beneath.XXXXXX";
static int top_fd;

static int
set_up(void **state)
{
	(void)state;
	if (mkdtemp(top) == NULL)
		return -1;
	top_fd = open(top, O_PATH | O_DIRECTORY);
	return top_fd < 0 || mkdirat(top_fd, "a", 0700) != 0 || mkdirat(top_fd, "a/b", 0700) != 0 || mkdirat(top_fd, "m", 0700) != 0 ||
	       mknodat(top_fd, "a/b/file", S_IFREG | 0600, 0) != 0 || symlinkat("a", top_fd, "link") != 0 ||
	       symlinkat("file", top_fd, "a/b/last") != 0;
}

static int
tear_down(void **state)
{
	char command[64];

	(void)state;
	close(top_fd);
	snprintf(command, sizeof(command), "rm -r %s", top);
	return system(command);
}

/** @return 0 if @p fd is the file @p path, which isn't followed if it is a link. */
static int
is_not(int fd, const char *path)
{
	struct stat a, b;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &a), 0);
	assert_int_equal(fstatat(top_fd, path, &b, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	return a.st_dev != b.st_dev || a.st_ino != b.st_ino;
}

static void
opens_what_is_below(void **state)
{
	(void)state;
	assert_int_equal(is_not(open_beneath(top_fd, "a/b/file"), "a/b/file"), 0);
	assert_int_equal(is_not(open_beneath(top_fd, "a"), "a"), 0);
	assert_int_equal(is_not(open_beneath(top_fd, "a/b/last"), "a/b/last"), 0);
}

static void
refuses(int dir, const char *path, int rc)
{
	errno = 0;
	assert_int_equal(open_beneath(dir, path), -1);
	assert_int_equal(errno, rc);
}

static void
refuses_what_leads_elsewhere(void **state)
{
	char longest[300];

	(void)state;
	refuses(top_fd, "link/b/file", ELOOP);
	refuses(top_fd, "a/b/last/x", ELOOP);
	refuses(top_fd, "a/../a/b/file", EINVAL);
	refuses(top_fd, "../x", EINVAL);
	refuses(top_fd, "./a", EINVAL);
	refuses(top_fd, "a/none/file", ENOENT);
	refuses(top_fd, "a/b/file/x", ENOTDIR);
	refuses(-1, "a", EBADF);
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	refuses(top_fd, longest, EINVAL);
}

/** In a mount namespace of its own, where the directory "m" and the file "a/b/file" are other mounts of the same file system. */
static int
errors_behind_mounts(void)
{
	char from[64], to[64];

	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return 2;
	snprintf(from, sizeof(from), "%s/a", top);
	snprintf(to, sizeof(to), "%s/m", top);
	if (mount(from, to, NULL, MS_BIND, NULL) != 0)
		return 2;
	snprintf(to, sizeof(to), "%s/a/b/file", top);
	if (mount(to, to, NULL, MS_BIND, NULL) != 0)
		return 2;
	/* The descriptor was opened in the namespace before, whose mounts don't count. */
	top_fd = open(top, O_PATH | O_DIRECTORY);
	return open_beneath(top_fd, "m/b/last") != -1 || errno != EXDEV || open_beneath(top_fd, "m") != -1 || errno != EXDEV ||
	       open_beneath(top_fd, "a/b/file") != -1 || errno != EXDEV || open_beneath(top_fd, "a/b/last") < 0;
}

static void
refuses_mounts(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	if (geteuid() != 0)
		skip();
	pid = fork();
	if (pid == 0)
		_exit(errors_behind_mounts());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_what_is_below),
		cmocka_unit_test(refuses_what_leads_elsewhere),
		cmocka_unit_test(refuses_mounts),
	};

	return cmocka_run_group_tests_name("base/beneath", tests, set_up, tear_down);
}
