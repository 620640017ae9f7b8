/* SPDX-License-Identifier: BSD-3-Clause */
/* A stack in an application: what it refuses, who may drive it, and that several live in one process. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_ring.h>

#include "base/own_dirs.h"
#include "ring/ctl.h"
#include "uroce.h"

enum { WIRE_PACKETS = 1024, WORKER = 1 };

static char socket_path[64];
static struct rte_ring *wires[2]; /* what even ports receive, what odd ones do */

/** A stack on net_ring_wire@p n, made of @p p, with @p more settings or none. */
static struct uroce *
make_stack_of(struct uroce_params p, unsigned int n, const char *more, char *err)
{
	char ethdev[64], addresses[64], path[96];
	const char *sets[] = { ethdev, addresses, "daemon.mbufs=8191", path, more };

	p.sets = sets;
	p.nb_sets = more != NULL ? 5 : 4;
	snprintf(ethdev, sizeof(ethdev), "port uroce0.ethdev=net_ring_wire%u", n);
	snprintf(addresses, sizeof(addresses), "port uroce0.addresses=198.18.0.%u/24", n + 1);
	snprintf(path, sizeof(path), "daemon.socket=%s", socket_path);
	return uroce_create(&p, err);
}

static struct uroce *
make_stack(unsigned int n, bool serve, const char *more, char *err)
{
	return make_stack_of((struct uroce_params){ .serve = serve }, n, more, err);
}

/** A stack on a new port; two that are made one after the other are each other's peer. */
static struct uroce *
good_stack_of(struct uroce_params p)
{
	static unsigned int n;
	char err[UROCE_ERR_BYTES] = "";
	char name[32];
	struct uroce *u;

	snprintf(name, sizeof(name), "wire%u", n);
	assert_true(rte_eth_from_rings(name, &wires[n % 2], 1, &wires[!(n % 2)], 1, 0) >= 0);
	u = make_stack_of(p, n++, NULL, err);
	if (u == NULL)
		fail_msg("%s", err);
	return u;
}

static struct uroce *
good_stack(bool serve)
{
	return good_stack_of((struct uroce_params){ .serve = serve });
}

/** One that serves, and can be asked for its programs. */
static struct uroce *
served_stack(void (*asked)(void *arg), void *arg)
{
	return good_stack_of((struct uroce_params){ .serve = true, .asked_for = asked, .asked_arg = arg });
}

static int
try_connect(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), rc;

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", socket_path);
	rc = connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0 ? 0 : errno;
	close(fd);
	return rc;
}

static void
mistakes_are_refused_with_their_place(void **state)
{
	const char *no_port[] = { "daemon.mbufs=8191" };
	struct uroce_params p = { .sets = no_port, .nb_sets = 1 };
	char err[UROCE_ERR_BYTES] = "";

	assert_null(uroce_create(&p, err));
	assert_non_null(strstr(err, "port"));
	assert_null(make_stack(99, false, "port uroce0.mtu=17", err));
	assert_non_null(strstr(err, "mtu"));
	assert_null(make_stack(99, false, NULL, err));
	assert_non_null(strstr(err, "net_ring_wire99"));
	assert_non_null(strstr(err, "no ethdev"));
	p.nb_engines = 1000;
	p.sets = (const char *[]){ "port uroce0.ethdev=net_ring_wire0", "port uroce0.addresses=198.18.0.1/24" };
	p.nb_sets = 2;
	assert_null(uroce_create(&p, err));
	assert_non_null(strstr(err, "1000 engines"));
	uroce_destroy(NULL);
}

static int
run_engine(void *u)
{
	return uroce_engine_run(u, 0);
}

static void
an_engine_has_one_driver(void **state)
{
	struct uroce *u = good_stack(false);
	int rc = 0;

	assert_int_equal(uroce_engine_count(u), 1);
	assert_int_equal(uroce_engine_poll(u, 1), -EINVAL);
	assert_int_equal(uroce_engine_run(u, 1), -EINVAL);
	assert_true(uroce_engine_poll(u, 0) >= 0);
	assert_int_equal(rte_eal_remote_launch(run_engine, u, WORKER), 0);
	for (int i = 0; i < 10000 && (rc = uroce_engine_poll(u, 0)) >= 0; i++)
		usleep(100);
	assert_int_equal(rc, -EBUSY);
	assert_int_equal(uroce_engine_run(u, 0), -EBUSY);
	uroce_engine_stop(u, 7);
	uroce_engine_stop(u, 0);
	assert_int_equal(rte_eal_wait_lcore(WORKER), 0);
	assert_true(uroce_engine_poll(u, 0) >= 0);
	/* Asked to stop before it began: it ends, and doesn't run for ever. */
	uroce_engine_stop(u, 0);
	assert_int_equal(uroce_engine_run(u, 0), 0);
	uroce_destroy(u);
}

struct run_control {
	struct uroce *u;
	int rc;
};

static void *
run_control(void *arg)
{
	struct run_control *r = arg;
	char err[UROCE_ERR_BYTES];

	r->rc = uroce_control_run(r->u, err);
	return NULL;
}

static void
the_control_has_one_driver(void **state)
{
	struct run_control r = { .u = good_stack(false), .rc = 1 };
	struct uroce *u = r.u;
	char err[UROCE_ERR_BYTES] = "";
	pthread_t t;
	int rc = 0;

	assert_true(uroce_control_poll(u) >= 0);
	uroce_control_stop(u); /* there is nothing to stop */
	assert_int_equal(uroce_control_start(u, err), 0);
	assert_int_equal(uroce_control_poll(u), -EBUSY);
	assert_int_equal(uroce_control_run(u, err), -EBUSY);
	assert_int_equal(uroce_control_start(u, err), -EBUSY);
	assert_non_null(strstr(err, "already"));
	uroce_control_stop(u);
	assert_true(uroce_control_poll(u) >= 0);
	assert_int_equal(pthread_create(&t, NULL, run_control, &r), 0);
	for (int i = 0; i < 10000 && (rc = uroce_control_poll(u)) >= 0; i++)
		usleep(100);
	assert_int_equal(rc, -EBUSY);
	uroce_control_stop(u);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(r.rc, 0);
	uroce_shutdown(u);
	assert_int_equal(uroce_control_poll(u), -ESHUTDOWN);
	uroce_shutdown(u);
	uroce_destroy(u);
}

static void
programs_are_served_only_if_asked_for(void **state)
{
	struct uroce *u = good_stack(false);

	assert_true(uroce_control_poll(u) >= 0);
	assert_int_equal(try_connect(), ENOENT);
	uroce_destroy(u);
	u = good_stack(true);
	/* Found only when somebody is there to answer. */
	assert_int_equal(try_connect(), ENOENT);
	assert_true(uroce_control_poll(u) >= 0);
	assert_int_equal(try_connect(), 0);
	uroce_shutdown(u);
	assert_int_equal(try_connect(), ENOENT);
	uroce_destroy(u);
}

static void
two_stacks_live_in_one_process(void **state)
{
	struct uroce *a = good_stack(false), *b = good_stack(false);
	char err[UROCE_ERR_BYTES];

	assert_int_equal(uroce_control_start(a, err), 0);
	for (int i = 0; i < 100; i++) {
		assert_true(uroce_engine_poll(a, 0) >= 0);
		assert_true(uroce_engine_poll(b, 0) >= 0);
		assert_true(uroce_control_poll(b) >= 0);
	}
	uroce_destroy(a);
	assert_true(uroce_control_poll(b) >= 0);
	a = good_stack(false);
	uroce_destroy(b);
	uroce_destroy(a);
}

static void
note(void *arg)
{
	++*(unsigned int *)arg;
}

/** A connection to the socket that has asked for the programs. */
static int
ask(struct uroce *u)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct ctl_req q = { .magic = CTL_MAGIC, .op = CTL_HELLO, .hello = { .abi_version = UROCE_ABI_VERSION, .program = "test" } };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct ctl_rsp r;

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", socket_path);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(send(fd, &q, sizeof(q), 0), sizeof(q));
	for (int i = 0; i < 100; i++)
		assert_true(uroce_control_poll(u) >= 0);
	assert_int_equal(recv(fd, &r, sizeof(r), MSG_DONTWAIT), sizeof(r));
	assert_int_equal(r.status, 0);
	q = (struct ctl_req){ .magic = CTL_MAGIC, .op = CTL_HAND_OVER };
	assert_int_equal(send(fd, &q, sizeof(q), 0), sizeof(q));
	for (int i = 0; i < 100; i++)
		assert_true(uroce_control_poll(u) >= 0);
	return fd;
}

/** @return the status of what has come on @p fd, with its message in @p why; 0: nothing. */
static int
answer(int fd, char *why, size_t bytes)
{
	struct ctl_rsp r;

	if (recv(fd, &r, sizeof(r), MSG_DONTWAIT) != (ssize_t)sizeof(r))
		return 0;
	snprintf(why, bytes, "%s", r.message);
	close(fd);
	return r.status;
}

static void
a_stack_that_serves_nobody_is_not_replaced(void **state)
{
	struct uroce *u = good_stack(false);
	struct uroce_params p = { .nb_sets = 0 };
	char err[UROCE_ERR_BYTES] = "";

	assert_int_equal(uroce_suspend(u, err), -EAGAIN);
	assert_non_null(strstr(err, "nobody has asked"));
	assert_null(uroce_resume(&p, NULL, NULL, err));
	assert_non_null(strstr(err, "serve"));
	uroce_shutdown(u);
	assert_int_equal(uroce_suspend(u, err), -ESHUTDOWN);
	uroce_destroy(u);
}

static void
an_application_that_is_not_prepared_is_not_asked(void **state)
{
	struct uroce *u = good_stack(true);
	char err[UROCE_ERR_BYTES] = "", why[256];

	assert_true(uroce_control_poll(u) >= 0);
	assert_int_equal(answer(ask(u), why, sizeof(why)), EOPNOTSUPP);
	assert_non_null(strstr(why, "asked_for"));
	assert_int_equal(uroce_suspend(u, err), -EAGAIN);
	uroce_destroy(u);
}

static void
who_asks_is_told_why_not(void **state)
{
	unsigned int times = 0;
	struct uroce *u = served_stack(note, &times), *other;
	char err[UROCE_ERR_BYTES] = "", why[256];
	int fd, second;

	assert_true(uroce_control_poll(u) >= 0);
	fd = ask(u);
	assert_int_equal(times, 1);
	second = ask(u); /* one at a time */
	assert_int_equal(answer(second, why, sizeof(why)), EBUSY);
	assert_int_equal(times, 1);
	assert_int_equal(uroce_control_start(u, err), 0);
	assert_int_equal(uroce_suspend(u, err), -EBUSY);
	assert_non_null(strstr(err, "uroce_control_stop"));
	assert_int_equal(answer(fd, why, sizeof(why)), EBUSY);
	assert_string_equal(why, err);
	uroce_control_stop(u);
	/* Another stack would lose its ports with the process. */
	other = good_stack(false);
	fd = ask(u);
	assert_int_equal(times, 2);
	assert_int_equal(uroce_suspend(u, err), -EOPNOTSUPP);
	assert_int_equal(answer(fd, why, sizeof(why)), EOPNOTSUPP);
	uroce_destroy(other);
	/* Who has gone doesn't stand in the way of the next one. */
	close(ask(u));
	fd = ask(u);
	assert_int_equal(times, 4);
	close(fd);
	assert_int_equal(uroce_suspend(u, err), -EPIPE);
	assert_non_null(strstr(err, "This one goes on"));
	assert_true(uroce_engine_poll(u, 0) >= 0);
	assert_true(uroce_control_poll(u) >= 0);
	assert_int_equal(try_connect(), 0);
	assert_int_equal(uroce_suspend(u, err), -EAGAIN);
	uroce_destroy(u);
}

static int
setup(void **state)
{
	char prefix[32];
	char *argv[] = { "test_stack", "--lcores", "0@0,1@0", "--no-huge", "-m", "300", "--no-pci", "--no-telemetry",
			 "--log-level", "error", "--file-prefix", prefix, NULL };

	snprintf(prefix, sizeof(prefix), "uroce-test-%d", (int)getpid());
	snprintf(socket_path, sizeof(socket_path), "/tmp/uroce-test-%d.sock", (int)getpid());
	if (rte_eal_init(12, argv) < 0)
		return -1;
	wires[0] = rte_ring_create("a", WIRE_PACKETS, SOCKET_ID_ANY, 0);
	wires[1] = rte_ring_create("b", WIRE_PACKETS, SOCKET_ID_ANY, 0);
	if (wires[0] == NULL || wires[1] == NULL)
		return -1;
	return 0;
}

static int
teardown(void **state)
{
	int rc = rte_eal_cleanup();

	own_dir_remove(rte_eal_get_runtime_dir());
	return rc;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mistakes_are_refused_with_their_place),
		cmocka_unit_test(an_engine_has_one_driver),
		cmocka_unit_test(the_control_has_one_driver),
		cmocka_unit_test(programs_are_served_only_if_asked_for),
		cmocka_unit_test(two_stacks_live_in_one_process),
		cmocka_unit_test(a_stack_that_serves_nobody_is_not_replaced),
		cmocka_unit_test(an_application_that_is_not_prepared_is_not_asked),
		cmocka_unit_test(who_asks_is_told_why_not),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
