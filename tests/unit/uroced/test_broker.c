/* SPDX-License-Identifier: BSD-3-Clause */
/* The broker opens what programs have mapped, and nothing else; at the end it removes what it was told. Only root can try. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker_priv.h"

#define OTHER_USER "nobody"

enum { PAGE = 4096, MARK = 0x5a };

static struct broker *broker;
static struct shared_ops ops;
static char folder[] = "/dev/shm/uroce-test-XXXXXX";

/** A program with memory that only root may open. */
static struct {
	pid_t pid;
	int sock; /**< its daemon's end */
	uint8_t *writable, *read_only, *own, *no_memory;
} program;

static void
make_memory(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/file", folder);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
	program.writable = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	program.read_only = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, PAGE);
	program.own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_true(program.writable != MAP_FAILED && program.read_only != MAP_FAILED && program.own != MAP_FAILED);
	program.writable[0] = MARK;
	close(fd);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	program.no_memory = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(program.no_memory != MAP_FAILED);
	close(fd);
}

/** The program is a child, which has the same mappings. It connects. */
static void
connect_program(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), fd;

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/sock", folder);
	assert_int_equal(bind(listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(listener, 1), 0);
	program.pid = fork();
	if (program.pid == 0) {
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0)
			_exit(1);
		pause();
		_exit(0);
	}
	program.sock = accept(listener, NULL, NULL);
	assert_true(program.sock >= 0);
	close(listener);
}

static int
setup(void **state)
{
	struct identity id;
	char said[256];

	if (geteuid() != 0)
		return 0;
	assert_non_null(mkdtemp(folder));
	broker = broker_start();
	assert_non_null(broker);
	make_memory();
	connect_program();
	assert_int_equal(broker_remove_at_end(broker, folder), 0);
	assert_int_equal(broker_remove_at_end(broker, "/nothing/there"), 0);
	assert_int_equal(broker_remove_at_end(broker, "relative"), EINVAL);
	assert_int_equal(broker_remove_at_end(broker, "/etc/passwd"), EINVAL);
	assert_int_equal(identity_find(OTHER_USER, &id, said, sizeof(said)), 0);
	assert_int_equal(broker_seal(broker, &id, true), 0);
	ops = broker_ops(broker);
	return 0;
}

/** Root of a container may lack the capabilities, too. */
static void
skip_unless_possible(void)
{
	if (geteuid() != 0 || !ops.privileged)
		skip();
}

static struct shared_range
range_of(const uint8_t *start, size_t pages, bool writable)
{
	return (struct shared_range){ .start = (uintptr_t)start, .end = (uintptr_t)start + pages * PAGE, .writable = writable };
}

static void
a_program_s_shared_memory_is_opened_with_its_rights(void **state)
{
	struct shared_range r[5];
	struct shared_file f[5];
	uint8_t byte = 0;
	int dir, maps;

	skip_unless_possible();
	ops.process(ops.arg, program.sock, program.pid, &dir, &maps);
	assert_true(dir >= 0 && maps >= 0);
	r[0] = range_of(program.writable, 2, true);
	r[1] = range_of(program.read_only, 1, false);
	r[2] = range_of(program.read_only, 1, true);
	r[3] = range_of(program.own, 1, false);
	r[4] = range_of(program.no_memory, 1, false);
	ops.open(ops.arg, dir, maps, r, 5, f);
	assert_int_equal(f[0].status, SHARED_OK);
	assert_int_equal(fcntl(f[0].fd, F_GETFL) & O_ACCMODE, O_RDWR);
	assert_int_equal(f[0].offset, 0);
	assert_int_equal(f[0].page_bytes, PAGE);
	assert_int_equal(pread(f[0].fd, &byte, 1, 0), 1);
	assert_int_equal(byte, MARK);
	assert_int_equal(f[1].status, SHARED_OK);
	assert_int_equal(fcntl(f[1].fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(f[1].offset, PAGE);
	assert_int_equal(f[2].status, SHARED_READ_ONLY);
	assert_int_equal(f[2].fd, -1);
	assert_int_equal(f[3].status, SHARED_PRIVATE);
	assert_int_equal(f[4].status, SHARED_NO_MEMORY);
	close(f[0].fd);
	close(f[1].fd);
	close(dir);
	close(maps);
}

static void
many_at_once(void **state)
{
	struct shared_range r[SHARED_BATCH];
	struct shared_file f[SHARED_BATCH];
	int dir, maps;

	skip_unless_possible();
	ops.process(ops.arg, program.sock, program.pid, &dir, &maps);
	for (int i = 0; i < SHARED_BATCH; i++)
		r[i] = i % 2 == 0 ? range_of(program.writable, 2, true) : range_of(program.own, 1, false);
	ops.open(ops.arg, dir, maps, r, SHARED_BATCH, f);
	for (int i = 0; i < SHARED_BATCH; i++) {
		assert_int_equal(f[i].status, i % 2 == 0 ? SHARED_OK : SHARED_PRIVATE);
		assert_int_equal(f[i].fd >= 0, i % 2 == 0);
		if (f[i].fd >= 0)
			close(f[i].fd);
	}
	close(dir);
	close(maps);
}

/** A daemon that somebody has taken over: mappings that he has written himself, or those of another process. */
static void
mappings_of_another_process_don_t_count(void **state)
{
	struct shared_range r;
	struct shared_file f;
	int dir, maps, forged, own;

	skip_unless_possible();
	ops.process(ops.arg, program.sock, program.pid, &dir, &maps);
	r = range_of(program.read_only, 1, true);
	forged = memfd_create("maps", MFD_CLOEXEC);
	assert_true(dprintf(forged, "%lx-%lx rw-s 00001000 00:00 1 /x\n", (unsigned long)r.start, (unsigned long)r.end) > 0);
	own = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	ops.open(ops.arg, dir, forged, &r, 1, &f);
	assert_int_equal(f.status, SHARED_NO_ANSWER);
	ops.open(ops.arg, dir, own, &r, 1, &f);
	assert_int_equal(f.status, SHARED_NO_ANSWER);
	ops.open(ops.arg, maps, maps, &r, 1, &f);
	assert_int_equal(f.status, SHARED_NO_ANSWER);
	/* Then it still answers. */
	r = range_of(program.read_only, 1, false);
	ops.open(ops.arg, dir, maps, &r, 1, &f);
	assert_int_equal(f.status, SHARED_OK);
	close(f.fd);
	close(own);
	close(forged);
	close(dir);
	close(maps);
}

static void
what_is_removed_was_named_before_the_daemon_gave_up_its_rights(void **state)
{
	struct identity root = { .change = true, .name = "root" };

	if (geteuid() != 0)
		skip();
	assert_int_equal(broker_remove_at_end(broker, "/dev/shm"), EPERM);
	assert_int_equal(broker_detach_at_end(broker, 1), EPERM);
	assert_int_equal(broker_seal(broker, &root, false), EPERM);
}

static void
it_goes_with_the_daemon_and_cleans_up(void **state)
{
	struct stat st;

	if (geteuid() != 0)
		skip();
	broker_end(broker);
	assert_int_equal(stat(folder, &st), -1);
	assert_int_equal(errno, ENOENT);
	kill(program.pid, SIGKILL);
	waitpid(program.pid, NULL, 0);
}

/** One that was killed: its questions fail, nothing waits. */
static void
without_it_nothing_is_opened(void **state)
{
	struct shared_range r = { .start = PAGE, .end = 2 * PAGE };
	struct shared_file f;
	int dir, maps, fds[2];
	struct broker *b;
	struct shared_ops o;

	if (geteuid() != 0)
		skip();
	b = broker_start();
	assert_non_null(b);
	o = broker_ops(b);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	o.process(o.arg, fds[0], getpid(), &dir, &maps);
	assert_true(dir >= 0 && maps >= 0);
	close(dir);
	close(maps);
	assert_int_equal(kill(b->pid, SIGKILL), 0);
	assert_int_equal(waitpid(b->pid, NULL, 0), b->pid);
	o.process(o.arg, fds[0], getpid(), &dir, &maps);
	assert_true(dir >= 0 && maps == -1);
	o.open(o.arg, dir, dir, &r, 1, &f);
	assert_int_equal(f.status, SHARED_NO_ANSWER);
	close(dir);
	broker_end(b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_s_shared_memory_is_opened_with_its_rights),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(mappings_of_another_process_don_t_count),
		cmocka_unit_test(what_is_removed_was_named_before_the_daemon_gave_up_its_rights),
		cmocka_unit_test(it_goes_with_the_daemon_and_cleans_up),
		cmocka_unit_test(without_it_nothing_is_opened),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
