/* SPDX-License-Identifier: BSD-3-Clause */
/* What is seen of a process that is to end. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include <cmocka.h>

#include "base/process.h"

enum { SOCKETS = 16, STEP_US = 200, STEPS = 50000, LONG_STEPS = 50 };

struct child {
	pid_t pid;
	int pidfd;
};

/* @param body  What it does, to the end, after it has said that it is ready. */
static struct child
begin(void (*body)(int ready))
{
	int ends[2];
	struct child c;
	char byte;

	assert_int_equal(pipe(ends), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		close(ends[0]);
		body(ends[1]);
		_exit(EXIT_FAILURE);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	c.pidfd = (int)syscall(SYS_pidfd_open, c.pid, 0);
	assert_true(c.pidfd >= 0);
	assert_int_equal(process_number(c.pidfd), c.pid);
	return c;
}

static void
reap(const struct child *c)
{
	assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
	assert_int_equal(process_state(c->pidfd), PROCESS_GONE);
	assert_int_equal(process_number(c->pidfd), 0);
	close(c->pidfd);
}

static void
say(int ready)
{
	if (write(ready, "", 1) != 1)
		_exit(EXIT_FAILURE);
}

static void
waits(int ready)
{
	say(ready);
	for (;;)
		pause();
}

static void *
other_thread(void *arg)
{
	for (;;)
		pause();
	return NULL;
}

/* Its name would confuse whoever looks for the first ')' of /proc/PID/stat. */
static void
first_thread_ends(int ready)
{
	pthread_t t;

	if (pthread_create(&t, NULL, other_thread, NULL) != 0)
		_exit(EXIT_FAILURE);
	pthread_setname_np(t, ") Z 1 1");
	say(ready);
	pthread_exit(NULL);
}

/* The kernel takes some milliseconds to close each of these. */
static void
has_packet_sockets(int ready)
{
	struct sockaddr_ll lo = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = 1 };

	if (unshare(CLONE_NEWNET) != 0)
		_exit(EXIT_FAILURE);
	for (unsigned int i = 0; i < SOCKETS; i++)
		if (bind(socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)), (struct sockaddr *)&lo, sizeof(lo)) != 0)
			_exit(EXIT_FAILURE);
	waits(ready);
}

static void
one_that_was_killed_is_gone(void **state)
{
	struct child c = begin(waits);
	struct pollfd p = { .fd = c.pidfd, .events = POLLIN };

	assert_int_equal(process_state(c.pidfd), PROCESS_RUNS);
	kill(c.pid, SIGKILL);
	/* Also as long as its parent hasn't asked for its status. */
	assert_int_equal(poll(&p, 1, 10000), 1);
	assert_int_equal(process_state(c.pidfd), PROCESS_GONE);
	reap(&c);
}

static void
one_without_its_first_thread_runs(void **state)
{
	struct child c = begin(first_thread_ends);

	for (unsigned int i = 0; i < 100; i++) {
		assert_int_equal(process_state(c.pidfd), PROCESS_RUNS);
		usleep(STEP_US);
	}
	kill(c.pid, SIGKILL);
	reap(&c);
}

static void
one_that_closes_its_sockets_ends(void **state)
{
	enum process_state seen = PROCESS_RUNS;
	unsigned int steps = 0;
	bool ends = false;
	struct child c;

	if (geteuid() != 0) /* a network namespace and packet sockets */
		skip();
	c = begin(has_packet_sockets);
	assert_int_equal(process_state(c.pidfd), PROCESS_RUNS);
	kill(c.pid, SIGKILL);
	for (; steps < STEPS && seen != PROCESS_GONE; steps++) {
		seen = process_state(c.pidfd);
		ends |= seen == PROCESS_ENDS;
		/* Never back. */
		assert_false(ends && seen == PROCESS_RUNS);
		usleep(STEP_US);
	}
	assert_int_equal(seen, PROCESS_GONE);
	/* A kernel that closes them at once leaves nothing to see. */
	assert_true(ends || steps < LONG_STEPS);
	reap(&c);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_was_killed_is_gone),
		cmocka_unit_test(one_without_its_first_thread_runs),
		cmocka_unit_test(one_that_closes_its_sockets_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
