/* SPDX-License-Identifier: BSD-3-Clause */
/* The files for programs that look into /sys, where a daemon before has left some: they are kept if they are right, and whatever else is there goes. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/core/control_priv.h"
#include "control/observe/sysfs.h"
#include "daemon.h"

#define IB "sys/class/infiniband/"

enum { PATH_BYTES = 512, TEXT_BYTES = 64 };

/** @return the path of @p below in the directory; "%s" in it is the port's name. */
static const char *
path_of(const char *below)
{
	static char path[PATH_BYTES];
	int n = snprintf(path, sizeof(path), "%s.sys/", daemon_socket());

	snprintf(path + n, sizeof(path) - (size_t)n, below, daemon_control()->s.ports[0]->conf.name);
	return path;
}

static ino_t
inode(const char *below)
{
	struct stat st;

	return lstat(path_of(below), &st) == 0 ? st.st_ino : 0;
}

static bool
has(const char *below, const char *text)
{
	char there[TEXT_BYTES] = "";
	FILE *f = fopen(path_of(below), "re");

	if (f == NULL)
		return false;
	if (fgets(there, sizeof(there), f) == NULL)
		there[0] = '\0';
	fclose(f);
	return strcmp(there, text) == 0;
}

static void
put(const char *below, const char *text)
{
	FILE *f = fopen(path_of(below), "we");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

/** What the next daemon does that has the same socket. @return whether the directory is still the same one. */
static bool
written_again(void)
{
	struct control *c = daemon_control();
	struct stat before, after;

	/* An inode that is held isn't given to the next directory. */
	int held = open(path_of(""), O_PATH | O_CLOEXEC);

	assert_int_equal(fstat(held, &before), 0);
	control_lock(c);
	sysfs_write(c);
	control_unlock(c);
	assert_int_equal(stat(path_of(""), &after), 0);
	close(held);
	assert_true(has(IB "%s/node_type", "1: CA\n"));
	assert_true(has(IB "%s/ports/1/pkeys/0", "0xffff\n"));
	assert_true(has(IB "%s/ports/1/pkeys/3", "0x0000\n"));
	assert_int_equal(access(path_of("dev/infiniband/%s"), R_OK | W_OK), 0);
	return before.st_ino == after.st_ino;
}

static void
files_that_are_right_stay(void **state)
{
	static const char *const files[] = { IB "%s/node_type", IB "%s/ports/1/gids/0", IB "%s/ports/1/pkeys/0", IB "%s/ports/1/state", "dev/infiniband/%s" };
	ino_t before[sizeof(files) / sizeof(files[0])];

	for (unsigned int i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		assert_int_not_equal(before[i] = inode(files[i]), 0);
	assert_true(written_again());
	for (unsigned int i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		assert_int_equal(inode(files[i]), before[i]);
}

/** The version of the daemon before, for instance. */
static void
a_file_with_another_text_is_replaced(void **state)
{
	static const char *const files[] = { IB "%s/fw_ver", IB "%s/ports/1/lid", IB "%s/ports/1/pkeys/0" };
	ino_t other = inode(IB "%s/node_type");

	for (unsigned int i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char before[TEXT_BYTES] = "";
		FILE *f = fopen(path_of(files[i]), "re");

		assert_non_null(fgets(before, sizeof(before), f));
		fclose(f);
		/* With the same beginning. */
		before[strlen(before) - 1] = '\0';
		put(files[i], before);
		assert_true(written_again());
		strcat(before, "\n");
		assert_true(has(files[i], before));
		put(files[i], "a text that is longer than what should be there\n");
		assert_true(written_again());
		assert_true(has(files[i], before));
	}
	assert_int_equal(unlink(path_of(IB "%s/ports/1/lid")), 0);
	assert_true(written_again());
	assert_true(has(IB "%s/ports/1/lid", "0x0\n"));
	assert_int_equal(inode(IB "%s/node_type"), other);
}

/** What the link is like isn't known before the control thread runs. */
static void
what_depends_on_links_comes_later(void **state)
{
	char before[TEXT_BYTES] = "";
	FILE *f = fopen(path_of(IB "%s/ports/1/state"), "re");
	struct control *c = daemon_control();
	ino_t right;

	assert_non_null(fgets(before, sizeof(before), f));
	fclose(f);
	put(IB "%s/ports/1/state", "as it was before\n");
	assert_true(written_again());
	assert_true(has(IB "%s/ports/1/state", "as it was before\n"));
	control_lock(c);
	sysfs_write_link(c, 0);
	right = inode(IB "%s/ports/1/state");
	sysfs_write_link(c, 0);
	control_unlock(c);
	assert_true(has(IB "%s/ports/1/state", before));
	assert_int_equal(inode(IB "%s/ports/1/state"), right);
	assert_int_equal(unlink(path_of(IB "%s/ports/1/rate")), 0);
	assert_false(written_again());
	assert_int_not_equal(inode(IB "%s/ports/1/rate"), 0);
}

static void
what_is_there_besides_goes(void **state)
{
	static const char *const files[] = { IB "%s/node_type~", IB "%s/ports/1/gid_attrs/types/9", IB "of_another_port/node_type", "file" };

	for (unsigned int i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		mkdir(path_of(IB "of_another_port"), 0755);
		if (strstr(files[i], "types/9") != NULL) {
			mkdir(path_of(IB "%s/ports/1/gid_attrs"), 0755);
			mkdir(path_of(IB "%s/ports/1/gid_attrs/types"), 0755);
		}
		put(files[i], "text\n");
		assert_false(written_again());
		assert_int_equal(inode(files[i]), 0);
		assert_int_equal(inode(IB "of_another_port"), 0);
	}
	assert_true(written_again());
}

/** Folders of a port are the daemon's user's, and the next daemon writes there as root. */
static void
nothing_in_the_directory_leads_elsewhere(void **state)
{
	char elsewhere[PATH_BYTES], below[PATH_BYTES];
	struct stat st;

	snprintf(elsewhere, sizeof(elsewhere), "%s.elsewhere", daemon_socket());
	assert_int_equal(mkdir(elsewhere, 0755), 0);
	/* Instead of a folder */
	snprintf(below, sizeof(below), "%s", path_of(IB "%s/ports/1/gids"));
	assert_int_equal(rename(below, path_of("gids")), 0);
	assert_int_equal(symlink(elsewhere, below), 0);
	assert_false(written_again());
	assert_true(stat(below, &st) == 0 && lstat(below, &st) == 0 && S_ISDIR(st.st_mode));
	/* Nothing was written there: it can be removed. */
	assert_int_equal(rmdir(elsewhere), 0);
	/* Instead of a file */
	snprintf(below, sizeof(below), "%s", path_of(IB "%s/ports/1/pkeys/0"));
	assert_int_equal(unlink(below), 0);
	assert_int_equal(symlink(elsewhere, below), 0);
	assert_true(written_again());
	assert_true(lstat(below, &st) == 0 && S_ISREG(st.st_mode));
	assert_int_equal(access(elsewhere, F_OK), -1);
	/* Whoever opens it waits for somebody who writes. */
	assert_int_equal(unlink(below), 0);
	assert_int_equal(mkfifo(below, 0600), 0);
	assert_true(written_again());
	assert_true(lstat(below, &st) == 0 && S_ISREG(st.st_mode));
	/* The character device */
	snprintf(below, sizeof(below), "%s", path_of("dev/infiniband/%s"));
	assert_int_equal(unlink(below), 0);
	assert_int_equal(symlink(elsewhere, below), 0);
	assert_false(written_again());
}

static void
a_directory_that_others_may_write_to_is_made_anew(void **state)
{
	assert_int_equal(chmod(path_of(""), 0777), 0);
	assert_false(written_again());
	assert_true(written_again());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_that_are_right_stay),
		cmocka_unit_test(a_file_with_another_text_is_replaced),
		cmocka_unit_test(what_depends_on_links_comes_later),
		cmocka_unit_test(what_is_there_besides_goes),
		cmocka_unit_test(nothing_in_the_directory_leads_elsewhere),
		cmocka_unit_test(a_directory_that_others_may_write_to_is_made_anew),
	};

	return DAEMON_TESTS(tests, 100, 1000, NULL);
}
