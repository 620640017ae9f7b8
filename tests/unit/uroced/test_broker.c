/* SPDX-License-Identifier: BSD-3-Clause */
/* The broker opens what programs have mapped, and nothing else; at the end it removes what it was told. Only root can try. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "broker_priv.h"

#define OTHER_USER "nobody"

enum { PAGE = 4096, MARK = 0x5a, ANSWER_MS = 10000 };

static struct broker *broker;
static struct shared_ops ops;
static char folder[] = "/dev/shm/uroce-test-XXXXXX";

/** A program with memory that only root may open. */
static struct {
	pid_t pid;
	int sock; /**< its daemon's end */
	uint8_t *writable, *read_only, *own, *no_memory;
} program;

/** Programs whose mappings can't be looked at: the broker's calls for memory at this address wait for the flag. */
static uint8_t *stuck;
static _Atomic bool *may_go;

/** The broker's call. */
int
openat(int dir, const char *path, int flags, ...)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	char name[64];
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	snprintf(name, sizeof(name), "map_files/%lx-", (unsigned long)stuck);
	while (stuck != NULL && strncmp(path, name, strlen(name)) == 0 && !atomic_load(may_go))
		nanosleep(&ms, NULL);
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

/** Wait for an answer. */
static void
must_answer(struct shared_answer *a, int ms)
{
	struct pollfd p = { .fd = ops.fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, ms), 1);
	assert_int_equal(ops.answer(ops.arg, a), 0);
}

static uint64_t last_number;

static int
process_of(int sock, int *dir, int *maps)
{
	struct shared_answer a;

	assert_int_equal(ops.ask_process(ops.arg, ++last_number, sock), 0);
	must_answer(&a, ANSWER_MS);
	assert_int_equal(a.number, last_number);
	*dir = a.dir;
	*maps = a.maps;
	return a.rc;
}

/** @return what the broker says of the whole question. */
static int
open_of(int dir, int maps, const struct shared_range *r, unsigned int n, struct shared_file *f)
{
	struct shared_answer a;

	assert_int_equal(ops.ask_open(ops.arg, ++last_number, dir, maps, r, n), 0);
	must_answer(&a, ANSWER_MS);
	assert_int_equal(a.number, last_number);
	if (a.rc == 0) {
		assert_int_equal(a.n, n);
		memcpy(f, a.files, n * sizeof(*f));
	}
	return a.rc;
}

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
	stuck = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, PAGE);
	may_go = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(stuck != MAP_FAILED && may_go != MAP_FAILED);
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
	make_memory();
	broker = broker_start();
	assert_non_null(broker);
	connect_program();
	assert_int_equal(broker_ops(broker, &ops), 0);
	assert_int_equal(broker_remove_at_end(broker, folder), 0);
	assert_int_equal(broker_remove_at_end(broker, "/nothing/there"), 0);
	assert_int_equal(broker_remove_at_end(broker, "relative"), EINVAL);
	assert_int_equal(broker_remove_at_end(broker, "/etc/passwd"), EINVAL);
	assert_int_equal(identity_find(OTHER_USER, &id, said, sizeof(said)), 0);
	assert_int_equal(broker_seal(broker, &id, true), 0);
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
	assert_int_equal(process_of(program.sock, &dir, &maps), 0);
	assert_true(dir >= 0 && maps >= 0);
	r[0] = range_of(program.writable, 2, true);
	r[1] = range_of(program.read_only, 1, false);
	r[2] = range_of(program.read_only, 1, true);
	r[3] = range_of(program.own, 1, false);
	r[4] = range_of(program.no_memory, 1, false);
	assert_int_equal(open_of(dir, maps, r, 5, f), 0);
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
	assert_int_equal(process_of(program.sock, &dir, &maps), 0);
	for (int i = 0; i < SHARED_BATCH; i++)
		r[i] = i % 2 == 0 ? range_of(program.writable, 2, true) : range_of(program.own, 1, false);
	assert_int_equal(open_of(dir, maps, r, SHARED_BATCH, f), 0);
	for (int i = 0; i < SHARED_BATCH; i++) {
		assert_int_equal(f[i].status, i % 2 == 0 ? SHARED_OK : SHARED_PRIVATE);
		assert_int_equal(f[i].fd >= 0, i % 2 == 0);
		if (f[i].fd >= 0)
			close(f[i].fd);
	}
	close(dir);
	close(maps);
}

/** As many as may be asked at once, less one, hang; the last one is answered, and the others as soon as that is possible. */
static void
a_program_that_keeps_its_mappings_from_being_read_keeps_nobody_else_waiting(void **state)
{
	bool seen[SHARED_ASKED + 1] = { false };
	struct shared_answer a;
	struct shared_range r;
	struct shared_file f;
	uint64_t first;
	int dir, maps;

	skip_unless_possible();
	assert_int_equal(process_of(program.sock, &dir, &maps), 0);
	r = range_of(stuck, 1, false);
	first = last_number + 1;
	for (int i = 0; i < SHARED_ASKED - 1; i++)
		assert_int_equal(ops.ask_open(ops.arg, ++last_number, dir, maps, &r, 1), 0);
	r = range_of(program.writable, 2, true);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(open_of(dir, maps, &r, 1, &f), 0);
		assert_int_equal(f.status, SHARED_OK);
		close(f.fd);
	}
	atomic_store(may_go, true);
	for (int i = 0; i < SHARED_ASKED - 1; i++) {
		must_answer(&a, ANSWER_MS);
		assert_true(a.number >= first && a.number < first + SHARED_ASKED - 1 && !seen[a.number - first]);
		seen[a.number - first] = true;
		assert_int_equal(a.n, 1);
		assert_int_equal(a.files[0].status, SHARED_OK);
		shared_answer_close(&a);
	}
	atomic_store(may_go, false);
	close(dir);
	close(maps);
}

/** The broker's end doesn't wait for them, either. */
static void
it_ends_while_a_program_hangs(void **state)
{
	struct shared_range r;
	struct shared_ops was = ops;
	struct identity id;
	char said[256];
	struct broker *b;
	int dir, maps;

	skip_unless_possible();
	b = broker_start();
	assert_non_null(b);
	assert_int_equal(broker_ops(b, &ops), 0);
	assert_int_equal(identity_find(OTHER_USER, &id, said, sizeof(said)), 0);
	assert_int_equal(broker_seal(b, &id, true), 0);
	assert_int_equal(process_of(program.sock, &dir, &maps), 0);
	r = range_of(stuck, 1, false);
	assert_int_equal(ops.ask_open(ops.arg, ++last_number, dir, maps, &r, 1), 0);
	broker_end(b);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), 0);
	ops = was;
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
	assert_int_equal(process_of(program.sock, &dir, &maps), 0);
	r = range_of(program.read_only, 1, true);
	forged = memfd_create("maps", MFD_CLOEXEC);
	assert_true(dprintf(forged, "%lx-%lx rw-s 00001000 00:00 1 /x\n", (unsigned long)r.start, (unsigned long)r.end) > 0);
	own = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	assert_int_equal(open_of(dir, forged, &r, 1, &f), EINVAL);
	assert_int_equal(open_of(dir, own, &r, 1, &f), EINVAL);
	assert_int_equal(open_of(maps, maps, &r, 1, &f), EINVAL);
	/* Then it still answers. */
	r = range_of(program.read_only, 1, false);
	assert_int_equal(open_of(dir, maps, &r, 1, &f), 0);
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
	struct shared_answer a;
	struct shared_ops o;
	struct broker *b;

	if (geteuid() != 0)
		skip();
	b = broker_start();
	assert_non_null(b);
	assert_int_equal(broker_ops(b, &o), 0);
	assert_int_equal(o.answer(o.arg, &a), EAGAIN);
	assert_int_equal(kill(b->pid, SIGKILL), 0);
	assert_int_equal(waitpid(b->pid, NULL, 0), b->pid);
	assert_int_equal(o.ask_process(o.arg, 1, o.fd), EPIPE);
	assert_int_equal(o.answer(o.arg, &a), EPIPE);
	assert_int_equal(broker_ops(b, &o), EPIPE);
	broker_end(b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_program_s_shared_memory_is_opened_with_its_rights),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(a_program_that_keeps_its_mappings_from_being_read_keeps_nobody_else_waiting),
		cmocka_unit_test(it_ends_while_a_program_hangs),
		cmocka_unit_test(mappings_of_another_process_don_t_count),
		cmocka_unit_test(what_is_removed_was_named_before_the_daemon_gave_up_its_rights),
		cmocka_unit_test(it_goes_with_the_daemon_and_cleans_up),
		cmocka_unit_test(without_it_nothing_is_opened),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
