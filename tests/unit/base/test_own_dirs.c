/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/own_dirs.h"

static char top[] = "/tmp/uroce-own-dirs.XXXXXX";

static const char *
place(const char *fmt, int pid)
{
	static char path[256];
	char name[64];

	snprintf(name, sizeof(name), fmt, pid);
	snprintf(path, sizeof(path), "%s/%s", top, name);
	return path;
}

/** Make a folder with a file "config". */
static void
make(const char *fmt, int pid)
{
	char file[300];
	int fd;

	assert_int_equal(mkdir(place(fmt, pid), 0700), 0);
	snprintf(file, sizeof(file), "%s/config", place(fmt, pid));
	fd = open(file, O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static bool
there(const char *fmt, int pid)
{
	return access(place(fmt, pid), F_OK) == 0;
}

static int
ended_process(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void
folders_of_processes_that_have_ended_go_and_no_others(void **state)
{
	int dead = ended_process();

	make("mine-%d", dead);
	make("mine-%d", getpid());
	make("other-%d", dead);
	make("mine-%d-one", dead);
	make("mine-x%d", dead);
	own_dirs_clean(place("mine-%d", getpid()), "mine-");
	assert_false(there("mine-%d", dead));
	assert_true(there("mine-%d", getpid()));
	assert_true(there("other-%d", dead));
	assert_true(there("mine-%d-one", dead));
	assert_true(there("mine-x%d", dead));
	own_dir_remove(place("mine-%d", getpid()));
	assert_false(there("mine-%d", getpid()));
	own_dir_remove(place("other-%d", dead));
	own_dir_remove(place("mine-%d-one", dead));
	own_dir_remove(place("mine-x%d", dead));
}

static void
a_locked_folder_stays_though_its_process_is_not_seen_here(void **state)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int dead = ended_process(), pipes[2], fd;
	char file[300], byte;
	pid_t pid;

	make("mine-%d", dead);
	snprintf(file, sizeof(file), "%s/config", place("mine-%d", dead));
	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		fd = open(file, O_RDWR);
		byte = fcntl(fd, F_SETLK, &lock) == 0;
		_exit(write(pipes[1], &byte, 1) == 1 ? pause() : 1);
	}
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	assert_int_equal(byte, 1);
	own_dirs_clean(place("mine-%d", getpid()), "mine-");
	assert_true(there("mine-%d", dead));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	own_dirs_clean(place("mine-%d", getpid()), "mine-");
	assert_false(there("mine-%d", dead));
}

/* In /tmp others may have put a link there, to a folder of ours. */
static void
nothing_is_removed_by_links_or_where_others_may_write(void **state)
{
	int dead = ended_process();
	char to[256];

	make("kept-%d", dead);
	snprintf(to, sizeof(to), "%s", place("kept-%d", dead));
	assert_int_equal(symlink(to, place("mine-%d", dead)), 0);
	own_dirs_clean(place("mine-%d", getpid()), "mine-");
	own_dir_remove(place("mine-%d", dead));
	assert_true(there("kept-%d/config", dead));
	assert_int_equal(unlink(place("mine-%d", dead)), 0);
	make("mine-%d", dead);
	assert_int_equal(chmod(top, 01777), 0);
	own_dirs_clean(place("mine-%d", getpid()), "mine-");
	assert_true(there("mine-%d/config", dead));
	assert_int_equal(chmod(top, 0700), 0);
	own_dirs_clean(place("mine-%d", getpid()), "mine-");
	assert_false(there("mine-%d", dead));
	own_dir_remove(place("kept-%d", dead));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(folders_of_processes_that_have_ended_go_and_no_others),
		cmocka_unit_test(a_locked_folder_stays_though_its_process_is_not_seen_here),
		cmocka_unit_test(nothing_is_removed_by_links_or_where_others_may_write),
	};
	int rc;

	if (mkdtemp(top) == NULL)
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(top);
	return rc;
}
