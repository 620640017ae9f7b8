/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/verbs/{device,ctl,channel,async}.c against a daemon that the test plays (fake_daemon.c). Each test runs in a
 * process of its own: what the library says on stderr is said once per process.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "verbs/client_priv.h"
#include "fake_daemon.h"

/* What a child does; 0 is success, else the line that failed. */
typedef int (*scenario)(struct fake_daemon *d);

#define EXPECT(cond) \
	do { \
		if (!(cond)) \
			return __LINE__; \
	} while (0)

enum { CHILD_SECONDS = 10 };

static char said[4096];

/* Run it in a child with its stderr in said[]. */
static void
run(scenario fn, enum fake_fault fault)
{
	int out[2], status;
	size_t have = 0;
	ssize_t n;
	pid_t child;

	assert_int_equal(pipe(out), 0);
	child = fork();
	if (!child) {
		struct fake_daemon d;
		int line;

		dup2(out[1], 2);
		close(out[0]);
		close(out[1]);
		fake_daemon_start(&d, fault);
		line = fn(&d);
		unlink(d.path);
		if (line)
			fprintf(stderr, "FAILED at line %d\n", line);
		_exit(line ? 1 : 0);
	}
	close(out[1]);
	while (have < sizeof(said) - 1 && (n = read(out[0], said + have, sizeof(said) - 1 - have)) > 0)
		have += n;
	said[have] = 0;
	close(out[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (status)
		print_error("%s", said);
	assert_int_equal(status, 0);
}

static void
assert_said(const char *text)
{
	if (!strstr(said, text))
		print_error("expected \"%s\" in: %s", text, said);
	assert_non_null(strstr(said, text));
}

static int
open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static struct ibv_context *
open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list && list[0] ? ibv_open_device(list[0]) : NULL;

	ibv_free_device_list(list);
	return c;
}

static int
lists_nothing(struct fake_daemon *d)
{
	struct ibv_device **list;
	int n = 9;

	list = ibv_get_device_list(&n);
	EXPECT(list && !list[0] && n == 0);
	ibv_free_device_list(list);
	list = ibv_get_device_list(NULL);
	EXPECT(list && !list[0]);
	ibv_free_device_list(list);
	return 0;
}

static int
lists_nothing_at_all(struct fake_daemon *d)
{
	setenv("UROCE_SOCKET", "/nonexistent/uroced.sock", 1);
	return lists_nothing(d);
}

static void
without_a_daemon_the_list_is_empty_and_one_line_says_why(void **state)
{
	run(lists_nothing_at_all, FAKE_HONEST);
	assert_string_equal(said,
			    "uroce: no daemon at /nonexistent/uroced.sock: start uroced, or set UROCE_SOCKET to its "
			    "socket\n");
}

static int
path_too_long(struct fake_daemon *d)
{
	char path[300];

	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	path[sizeof(path) - 1] = 0;
	setenv("UROCE_SOCKET", path, 1);
	return lists_nothing(d);
}

static void
a_socket_path_that_is_too_long_is_named(void **state)
{
	run(path_too_long, FAKE_HONEST);
	assert_said("longer than the 107 bytes");
}

static int
without_permission(struct fake_daemon *d)
{
	chmod(d->path, 0700);
	EXPECT(!setresuid(65534, 65534, 65534));
	return lists_nothing(d);
}

static void
a_socket_without_permission_is_named(void **state)
{
	if (geteuid())
		skip();
	run(without_permission, FAKE_HONEST);
	assert_said("no permission to use /tmp/uroce-fake-");
	assert_said("membership of group root (mode 0700; socket_group and socket_mode in uroced.conf)");
}

static void
another_abi_version_is_named_on_both_sides(void **state)
{
	char text[128];

	run(lists_nothing, FAKE_OTHER_ABI);
	snprintf(text, sizeof(text), "is 99.9 and speaks ABI version %u, this library (" UROCE_VERSION
		 ") version %u: install the same release", UROCE_ABI_VERSION + 41, UROCE_ABI_VERSION);
	assert_said(text);
}

static int
leaks_nothing_over_broken_replies(struct fake_daemon *d)
{
	int before;

	EXPECT(!lists_nothing(d));
	usleep(50000);
	before = open_fds();
	for (int i = 0; i < 20; i++)
		EXPECT(!lists_nothing(d));
	usleep(50000);
	EXPECT(open_fds() == before);
	return 0;
}

static void
broken_replies_are_survived_and_leak_nothing(void **state)
{
	run(leaks_nothing_over_broken_replies, FAKE_HANGS_UP);
	assert_said("closed the connection without an answer");
	run(leaks_nothing_over_broken_replies, FAKE_SHORT_REPLY);
	run(leaks_nothing_over_broken_replies, FAKE_WRONG_MAGIC);
	run(leaks_nothing_over_broken_replies, FAKE_WRONG_COUNT);
}

static int
opens_and_closes(struct fake_daemon *d)
{
	struct ibv_device **list, *dev;
	struct ibv_context *c;
	struct ibv_pd *pd;
	struct ibv_mw *mw;
	int n, before = 0;

	list = ibv_get_device_list(&n);
	EXPECT(list && n == 1 && !list[1]);
	dev = list[0];
	EXPECT(!strcmp(ibv_get_device_name(dev), "uroce7"));
	EXPECT(!strcmp(dev->ibdev_path, "/sys/class/net/lo"));
	EXPECT(dev->node_type == IBV_NODE_CA && dev->transport_type == IBV_TRANSPORT_IB);
	ibv_free_device_list(list);
	for (int i = 0; i < 10; i++) {
		c = ibv_open_device(dev);
		EXPECT(c && c->device == dev && c->num_comp_vectors == 2);
		EXPECT(verbs_get_ctx_op(c, create_qp_ex) && !verbs_get_ctx_op(c, create_wq));
		pd = ibv_alloc_pd(c);
		EXPECT(pd && !ibv_alloc_mw(pd, 3) && errno == EINVAL);
		mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
		EXPECT(mw && mw->context == c && mw->pd == pd && mw->type == IBV_MW_TYPE_2 && mw->rkey == 0x4711);
		EXPECT(!ibv_dealloc_mw(mw) && !ibv_dealloc_pd(pd));
		EXPECT(fcntl(c->async_fd, F_GETFD) & FD_CLOEXEC);
		EXPECT(fcntl(c->cmd_fd, F_GETFD) & FD_CLOEXEC);
		EXPECT(!ibv_close_device(c));
		close(d->async_fd);
		usleep(20000);
		if (i == 1)
			before = open_fds();
	}
	EXPECT(open_fds() == before);
	/* The same device as before: programs compare pointers. */
	list = ibv_get_device_list(NULL);
	EXPECT(list[0] == dev);
	return 0;
}

static void
devices_open_and_close_without_leaks(void **state)
{
	run(opens_and_closes, FAKE_HONEST);
	assert_string_equal(said, "");
}

static int
fails_with_message(struct fake_daemon *d)
{
	struct ibv_context *c = open_first();

	EXPECT(c);
	errno = 0;
	EXPECT(!ibv_alloc_pd(c) && errno == ENOSPC);
	return 0;
}

static void
the_daemons_reason_is_told_with_the_verb(void **state)
{
	run(fails_with_message, FAKE_SILENT_ERROR);
	assert_string_equal(said, "uroce: ibv_alloc_pd: no room; raise the roof\n");
}

static int
asks_a_slow_daemon(struct fake_daemon *d)
{
	struct ibv_context *c = open_first();
	struct ibv_pd *pd;

	EXPECT(c);
	errno = EDOM;
	pd = ibv_alloc_pd(c);
	EXPECT(pd && errno == EDOM);
	EXPECT(!ibv_dealloc_pd(pd) && errno == EDOM);
	EXPECT(!ibv_close_device(c));
	return 0;
}

static void
errno_stays_where_nothing_failed(void **state)
{
	run(asks_a_slow_daemon, FAKE_LATE);
}

#define LOST "the connection to uroced is lost: it was stopped or died. Open the device anew when it runs again\n"

static int
loses_the_daemon(struct fake_daemon *d)
{
	struct ibv_context *c = open_first();
	struct ibv_comp_channel *ch;
	struct ibv_async_event ev;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	void *arg;

	EXPECT(c && (pd = ibv_alloc_pd(c)));
	ch = ibv_create_comp_channel(c);
	EXPECT(ch && (cq = ibv_create_cq(c, 10, NULL, ch, 0)));
	fake_daemon_die(d);
	EXPECT(!ibv_get_async_event(c, &ev) && ev.event_type == IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&ev);
	EXPECT(ibv_get_async_event(c, &ev) == -1 && errno == EIO);
	EXPECT(ibv_get_cq_event(ch, &cq, &arg) == -1 && errno == EIO);
	EXPECT(!ibv_alloc_pd(c) && errno == EIO);
	EXPECT(!ibv_alloc_pd(c) && errno == EIO);
	/* What it had is gone, so it can be taken down. */
	EXPECT(!ibv_destroy_cq(cq));
	EXPECT(!ibv_destroy_comp_channel(ch));
	EXPECT(!ibv_dealloc_pd(pd));
	EXPECT(!ibv_close_device(c));
	return 0;
}

static void
a_lost_daemon_is_told_and_nothing_hangs(void **state)
{
	run(loses_the_daemon, FAKE_HONEST);
	assert_string_equal(said, "uroce: ibv_alloc_pd: " LOST);
}

static int
polls_a_lost_daemon(struct fake_daemon *d)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 10 };
	struct ibv_context *c = open_first();
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_cq_ex *ex;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	int rc = 0;

	EXPECT(c && (cq = ibv_create_cq(c, 10, NULL, NULL, 0)) && (ex = ibv_create_cq_ex(c, &attr)));
	for (unsigned int i = 0; i < 2 * CLIENT_LOST_POLLS; i++)
		EXPECT(ibv_poll_cq(cq, 1, &wc) == 0);
	fake_daemon_die(d);
	errno = EDOM;
	for (unsigned int i = 0; rc == 0 && i < 2 * CLIENT_LOST_POLLS; i++)
		rc = ibv_poll_cq(cq, 1, &wc);
	EXPECT(rc == -1 && errno == EDOM);
	for (unsigned int i = 0; (rc = ibv_start_poll(ex, &none)) == ENOENT && i < 2 * CLIENT_EMPTY_POLLS;)
		i++;
	EXPECT(rc == EIO);
	EXPECT(!ibv_destroy_cq(cq) && !ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
	EXPECT(!ibv_close_device(c));
	return 0;
}

static void
who_only_polls_is_told_that_the_daemon_is_lost(void **state)
{
	run(polls_a_lost_daemon, FAKE_HONEST);
	assert_string_equal(said, "uroce: ibv_poll_cq: " LOST);
}

static int
raise_event(struct fake_daemon *d, uint64_t cookie)
{
	struct ctl_comp_event ev = { cookie };

	return write(d->comp_fd, &ev, sizeof(ev)) == sizeof(ev) ? 0 : -1;
}

static int
readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0);
}

static _Atomic int destroyed;

static void *
destroy_cq(void *cq)
{
	destroyed = ibv_destroy_cq(cq) ? -1 : 1;
	return NULL;
}

static int
takes_events(struct fake_daemon *d)
{
	struct ibv_context *c = open_first();
	struct ibv_comp_channel *ch;
	struct ibv_cq *a, *b, *got;
	uint64_t cookie_a, cookie_b;
	void *arg;
	pthread_t t;

	EXPECT(c && (ch = ibv_create_comp_channel(c)));
	EXPECT((a = ibv_create_cq(c, 16, &cookie_a, ch, 0)));
	cookie_a = d->cq_cookie;
	EXPECT((b = ibv_create_cq(c, 16, &cookie_b, ch, 1)));
	cookie_b = d->cq_cookie;
	EXPECT(a->cqe == 16 && ibv_destroy_comp_channel(ch) == EBUSY);
	EXPECT(!raise_event(d, cookie_a) && !raise_event(d, cookie_b) && !raise_event(d, cookie_a));
	EXPECT(!ibv_get_cq_event(ch, &got, &arg) && got == a && arg == &cookie_a);
	/* Not before the one that was got is acknowledged; the one that wasn't got goes away. */
	EXPECT(!pthread_create(&t, NULL, destroy_cq, a));
	usleep(100000);
	EXPECT(!destroyed);
	ibv_ack_cq_events(a, 1);
	pthread_join(t, NULL);
	EXPECT(destroyed == 1);
	EXPECT(readable(ch->fd));
	EXPECT(!ibv_get_cq_event(ch, &got, &arg) && got == b && arg == &cookie_b);
	ibv_ack_cq_events(b, 1);
	EXPECT(!readable(ch->fd));
	fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK);
	EXPECT(ibv_get_cq_event(ch, &got, &arg) == -1 && errno == EAGAIN);
	/* A straggler of the dead CQ. */
	EXPECT(!raise_event(d, cookie_a));
	EXPECT(ibv_get_cq_event(ch, &got, &arg) == -1 && errno == EAGAIN);
	EXPECT(!ibv_destroy_cq(b) && !ibv_destroy_comp_channel(ch) && !ibv_close_device(c));
	return 0;
}

static void
completion_events_follow_their_cq(void **state)
{
	run(takes_events, FAKE_HONEST);
	assert_string_equal(said, "");
}

static int
refuses_bad_arguments(struct fake_daemon *d)
{
	struct ibv_context *c = open_first();
	struct ibv_cq_init_attr_ex attr = { .cqe = 10, .wc_flags = IBV_WC_EX_WITH_TM_INFO };
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_pd *pd;

	EXPECT(c && (pd = ibv_alloc_pd(c)));
	EXPECT(!ibv_create_cq(c, 0, NULL, NULL, 0) && errno == EINVAL);
	EXPECT(!ibv_create_cq(c, UROCE_MAX_CQE + 1, NULL, NULL, 0) && errno == EINVAL);
	EXPECT(!ibv_create_cq(c, 1, NULL, NULL, 2) && errno == EINVAL);
	EXPECT(!ibv_create_cq_ex(c, &attr) && errno == EOPNOTSUPP);
	EXPECT(___ibv_query_port(c, 2, &port) == EINVAL);
	EXPECT(ibv_query_gid(c, 1, UROCE_MAX_GIDS, &gid) == -1 && errno == EINVAL);
	EXPECT(!ibv_reg_mr(pd, NULL, 8, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT);
	EXPECT(!ibv_reg_mr(pd, &gid, 8, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
	EXPECT(!ibv_reg_mr(pd, &gid, 8, IBV_ACCESS_ON_DEMAND | 1 << 10) && errno == EINVAL);
	EXPECT(!ibv_reg_mr(pd, &gid, SIZE_MAX, 0) && errno == EINVAL);
	return 0;
}

static void
bad_arguments_are_refused_without_asking_the_daemon(void **state)
{
	run(refuses_bad_arguments, FAKE_HONEST);
	assert_string_equal(said, "");
}

/* ---- A program that has no room for another mapping ---- */
static __thread bool refuse_mmap;
static _Atomic int nb_gone;
static _Atomic uint32_t last_gone;

void *__real_mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset);

void *
__wrap_mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (!refuse_mmap)
		return __real_mmap64(addr, length, prot, flags, fd, offset);
	errno = ENOMEM;
	return MAP_FAILED;
}

static void
count_destroyed(const struct ctl_req *req, struct ctl_rsp *rsp, int fd)
{
	if (req->op != CTL_CQ_DESTROY)
		return;
	last_gone = req->handle.handle;
	nb_gone++;
}

static int
cannot_map(struct fake_daemon *d)
{
	struct ibv_context *c = open_first();
	struct ibv_cq *cq;
	int before;

	EXPECT(c);
	d->on_request = count_destroyed;
	d->one_segment = true;
	last_gone = UINT32_MAX;
	before = open_fds();
	refuse_mmap = true;
	for (int i = 0; i < 3; i++) {
		cq = ibv_create_cq(c, 16, NULL, NULL, 0);
		EXPECT(!cq && errno == ENOMEM);
		/* The daemon has no CQ that we don't. */
		EXPECT(nb_gone == i + 1 && last_gone == (uint32_t)i);
	}
	refuse_mmap = false;
	/* Its segment came once. */
	cq = ibv_create_cq(c, 16, NULL, NULL, 0);
	EXPECT(cq);
	EXPECT(to_cq(cq)->ring.base);
	EXPECT(open_fds() == before);
	EXPECT(ibv_destroy_cq(cq) == 0);
	EXPECT(ibv_close_device(c) == 0);
	return 0;
}

static void
an_object_whose_memory_cannot_be_mapped_is_given_back(void **state)
{
	run(cannot_map, FAKE_HONEST);
}

/* ---- A child of a program with a thread that is asking for devices ---- */
static atomic_bool asked, answer_it;

static void
keep_first_waiting(const struct ctl_req *req, struct ctl_rsp *rsp, int fd)
{
	if (req->op != CTL_DEVICE_GET || atomic_exchange(&asked, true))
		return;
	while (!answer_it)
		usleep(1000);
}

static void *
list_devices(void *unused)
{
	ibv_free_device_list(ibv_get_device_list(NULL));
	return NULL;
}

static int
forks_meanwhile(struct fake_daemon *d)
{
	struct ibv_device **list;
	pthread_t th;
	int status;
	pid_t child;

	d->on_request = keep_first_waiting;
	EXPECT(pthread_create(&th, NULL, list_devices, NULL) == 0);
	while (!asked)
		usleep(1000);
	child = fork();
	if (!child) {
		alarm(CHILD_SECONDS);
		list = ibv_get_device_list(NULL);
		_exit(list && list[0] && !strcmp(list[0]->name, "uroce7") ? 0 : 1);
	}
	EXPECT(waitpid(child, &status, 0) == child);
	EXPECT(status == 0);
	answer_it = true;
	EXPECT(pthread_join(th, NULL) == 0);
	return 0;
}

static void
a_child_lists_devices_that_another_thread_was_asking_for(void **state)
{
	run(forks_meanwhile, FAKE_HONEST);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_daemon_the_list_is_empty_and_one_line_says_why),
		cmocka_unit_test(a_socket_path_that_is_too_long_is_named),
		cmocka_unit_test(a_socket_without_permission_is_named),
		cmocka_unit_test(another_abi_version_is_named_on_both_sides),
		cmocka_unit_test(broken_replies_are_survived_and_leak_nothing),
		cmocka_unit_test(devices_open_and_close_without_leaks),
		cmocka_unit_test(the_daemons_reason_is_told_with_the_verb),
		cmocka_unit_test(errno_stays_where_nothing_failed),
		cmocka_unit_test(a_lost_daemon_is_told_and_nothing_hangs),
		cmocka_unit_test(who_only_polls_is_told_that_the_daemon_is_lost),
		cmocka_unit_test(completion_events_follow_their_cq),
		cmocka_unit_test(bad_arguments_are_refused_without_asking_the_daemon),
		cmocka_unit_test(an_object_whose_memory_cannot_be_mapped_is_given_back),
		cmocka_unit_test(a_child_lists_devices_that_another_thread_was_asking_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
