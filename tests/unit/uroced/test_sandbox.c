/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process can and can't do once it has become another user and entered the sandbox: each rule in a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "identity.h"
#include "sandbox.h"

#define OTHER_USER "nobody"

enum { NO_SANDBOX = 77 };

/** Run @p fn in a process of its own. @return its exit status, or -1. */
static int
status_of(int (*fn)(void))
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		_exit(fn());
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/** A sanitizer's or old kernel's process can't be limited. */
static bool
enter(enum sandbox_kind kind)
{
	return sandbox_enter(kind) == 0;
}

#define REFUSED(call) (errno = 0, (call) == -1 && errno == EPERM)

static int
try_forbidden_calls(void)
{
	static char *argv[] = { (char *)(uintptr_t)"/bin/true", NULL };

	if (!enter(SANDBOX_DAEMON))
		return NO_SANDBOX;
	return !REFUSED(execv(argv[0], argv)) ? 1 :
	       !REFUSED(syscall(SYS_execveat, AT_FDCWD, argv[0], argv, NULL, 0)) ? 2 :
	       !REFUSED(fork()) ? 3 :
	       !REFUSED(ptrace(PTRACE_TRACEME, 0, NULL, NULL)) ? 4 :
	       !REFUSED(mount("none", "/tmp", "tmpfs", 0, NULL)) ? 5 :
	       !REFUSED(unshare(CLONE_NEWUSER)) ? 6 :
	       !REFUSED(setuid(0)) ? 7 :
	       !REFUSED(kill(getpid(), 0)) ? 8 :
	       !REFUSED(syscall(SYS_bpf, 0, NULL, 0)) ? 9 :
	       !REFUSED(syscall(SYS_userfaultfd, 0)) ? 10 :
	       !REFUSED(syscall(SYS_io_uring_setup, 1, NULL)) ? 11 :
	       !REFUSED(syscall(SYS_process_vm_writev, getpid(), NULL, 0, NULL, 0, 0)) ? 12 :
	       !REFUSED(syscall(SYS_setns, 0, 0)) ? 13 :
	       !REFUSED(chroot("/")) ? 14 :
	       !REFUSED(chown("/tmp", 0, 0)) ? 15 : 0;
}

static void *
nothing(void *arg)
{
	return arg;
}

static int
try_allowed_calls(void)
{
	int fds[2], fd, epfd;
	pthread_t thread;
	void *p;

	if (!enter(SANDBOX_DAEMON))
		return NO_SANDBOX;
	if (pthread_create(&thread, NULL, nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
		return 1;
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, 4096) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		return 2;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED || munmap(p, 4096) != 0)
		return 3;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0 || send(fds[0], "x", 1, MSG_DONTWAIT) != 1)
		return 4;
	epfd = epoll_create1(EPOLL_CLOEXEC);
	if (epfd < 0 || epoll_create(1) < 0)
		return 5;
	fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? 0 : 6;
}

/** @return a number that /proc/self/task/TID/status of thread @p tid has after @p key. */
static long
status_line(pid_t tid, const char *key)
{
	char path[64], line[256];
	long value = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)tid);
	f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, key, strlen(key)) == 0)
			value = strtol(line + strlen(key), NULL, strcmp(key, "CapEff:") == 0 ? 16 : 10);
	if (f != NULL)
		fclose(f);
	return value;
}

static pthread_barrier_t barrier;
static pid_t other_tid;

static void *
wait_long(void *arg)
{
	other_tid = gettid();
	pthread_barrier_wait(&barrier);
	for (;;)
		pause(); /* changing the user interrupts it */
	return arg;
}

/** A thread that was there before, and this one. */
static int
look_at_all_threads(void)
{
	struct identity id;
	pthread_t thread;
	char said[256];

	if (identity_find(OTHER_USER, &id, said, sizeof(said)) != 0 || !id.change)
		return 1;
	pthread_barrier_init(&barrier, NULL, 2);
	if (pthread_create(&thread, NULL, wait_long, NULL) != 0)
		return 2;
	pthread_barrier_wait(&barrier);
	if (identity_take(&id) != 0)
		return 3;
	if (!enter(SANDBOX_DAEMON))
		return NO_SANDBOX;
	for (int i = 0; i < 2; i++) {
		pid_t tid = i == 0 ? getpid() : other_tid;

		if (status_line(tid, "Uid:") != (long)id.uid || status_line(tid, "Gid:") != (long)id.gid)
			return 4;
		if (status_line(tid, "CapEff:") != 0 || status_line(tid, "CapPrm:") != 0)
			return 5;
		if (status_line(tid, "NoNewPrivs:") != 1 || status_line(tid, "Seccomp:") != 2)
			return 6;
	}
	return open("/etc/shadow", O_RDONLY | O_CLOEXEC) == -1 && errno == EACCES ? 0 : 7;
}

/** With daemon.seccomp = off. */
static int
look_without_a_list(void)
{
	static char *argv[] = { (char *)(uintptr_t)"/bin/true", NULL };

	if (!enter(SANDBOX_NONE))
		return NO_SANDBOX;
	if (status_line(getpid(), "NoNewPrivs:") != 1)
		return 1;
	execv(argv[0], argv);
	return 2;
}

static void
expect(int (*fn)(void))
{
	int status = status_of(fn);

	if (status == NO_SANDBOX)
		skip();
	assert_int_equal(status, 0);
}

static void
calls_that_are_not_in_the_list_fail(void **state)
{
	expect(try_forbidden_calls);
}

static void
what_the_daemon_needs_is_in_the_list(void **state)
{
	expect(try_allowed_calls);
}

static void
all_threads_are_the_other_user_and_limited(void **state)
{
	if (geteuid() != 0)
		skip();
	expect(look_at_all_threads);
}

static void
without_a_list_no_rights_come_from_files_all_the_same(void **state)
{
	expect(look_without_a_list);
}

static void
only_root_becomes_another_user(void **state)
{
	struct identity id;
	char said[512], own[32];

	assert_int_equal(identity_find("no user has this name", &id, said, sizeof(said)), -1);
	assert_non_null(strstr(said, "no such user"));
	snprintf(own, sizeof(own), "%u", (unsigned int)geteuid());
	assert_int_equal(identity_find(own, &id, said, sizeof(said)), 0);
	assert_false(id.change);
	assert_string_equal(said, "");
	if (geteuid() == 0) {
		assert_int_equal(identity_find("root", &id, said, sizeof(said)), 0);
		assert_false(id.change);
		assert_int_equal(identity_find(OTHER_USER, &id, said, sizeof(said)), 0);
		assert_true(id.change);
		assert_int_not_equal(id.uid, 0);
	} else {
		assert_int_equal(identity_find("root", &id, said, sizeof(said)), -1);
		assert_non_null(strstr(said, "wasn't started as root"));
	}
	/* With or without that user: it goes on, and says so if it goes on as root. */
	assert_int_equal(identity_find("", &id, said, sizeof(said)), 0);
	assert_true(id.change || geteuid() != 0 || strstr(said, "goes on as root") != NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_that_are_not_in_the_list_fail),
		cmocka_unit_test(what_the_daemon_needs_is_in_the_list),
		cmocka_unit_test(all_threads_are_the_other_user_and_limited),
		cmocka_unit_test(without_a_list_no_rights_come_from_files_all_the_same),
		cmocka_unit_test(only_root_becomes_another_user),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
