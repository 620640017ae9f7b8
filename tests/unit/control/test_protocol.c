/* SPDX-License-Identifier: BSD-3-Clause */
/* The control protocol against hostile and careless clients: nothing changes, nothing leaks, others are served. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon.h"

enum { MAX_SESSIONS = 40, MAX_QP = 1000 };

static void
garbage_is_refused_and_the_session_lives(void **state)
{
	static uint8_t junk[200000];
	static const size_t sizes[] = { 1, 7, 8, 11, 12, 263, 265, 1000, 49415, 49416, 49417, 200000 };
	int sock = peer_connect();
	struct ctl_rsp r;
	size_t i;

	memset(junk, 0xa5, sizeof(junk));
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(peer_send(sock, junk, sizes[i], NULL, 0), 0);
		assert_true(peer_recv(sock, &r, NULL, 0));
		assert_int_equal(r.status, EINVAL);
		assert_int_not_equal(r.message[0], '\0');
	}
	assert_int_equal(peer_hello(sock), 0);
	close(sock);
	daemon_assert_well();
}

static void
wrong_sizes_are_refused(void **state)
{
	static uint8_t buf[CTL_REQ_BYTES + (CTL_SEGS_PER_MSG + 1) * sizeof(struct ctl_seg)];
	struct ctl_req *q = (void *)buf;
	struct peer p;
	struct ctl_rsp r;
	uint32_t op;
	size_t n;

	peer_open(&p);
	for (op = CTL_HELLO; op < CTL_OPS; op++) {
		for (n = 12; n <= CTL_REQ_BYTES + 48; n += 12) {
			if (n == CTL_REQ_BYTES)
				continue;
			memset(buf, 0, sizeof(buf));
			*q = peer_req(op);
			q->hello.abi_version = op == CTL_HELLO ? UROCE_ABI_VERSION : 0;
			assert_int_equal(peer_send(p.sock, buf, n, NULL, 0), 0);
			assert_true(peer_recv(p.sock, &r, NULL, 0));
			assert_int_equal(r.status, EINVAL);
		}
	}
	/* More segments than may be in one message, and fewer than it says. */
	memset(buf, 0, sizeof(buf));
	*q = peer_req(CTL_MR_SEGS);
	q->mr_segs.nb_in_msg = CTL_SEGS_PER_MSG + 1;
	assert_int_equal(peer_send(p.sock, buf, sizeof(buf), NULL, 0), 0);
	assert_true(peer_recv(p.sock, &r, NULL, 0));
	assert_int_equal(r.status, EINVAL);
	q->mr_segs.nb_in_msg = 2;
	assert_int_equal(peer_send(p.sock, buf, CTL_REQ_BYTES + sizeof(struct ctl_seg), NULL, 0), 0);
	assert_true(peer_recv(p.sock, &r, NULL, 0));
	assert_int_equal(r.status, EINVAL);
	peer_close(&p);
	daemon_assert_well();
}

static void
another_version_gets_the_daemons_and_the_end(void **state)
{
	int sock = peer_connect();
	struct ctl_req q = peer_req(CTL_HELLO);
	struct ctl_rsp r;

	q.hello.abi_version = UROCE_ABI_VERSION + 1;
	/* Whatever size its requests have. */
	assert_int_equal(peer_send(sock, &q, 100, NULL, 0), 0);
	assert_true(peer_recv(sock, &r, NULL, 0));
	assert_int_equal(r.status, EPROTO);
	assert_int_equal(r.hello.abi_version, UROCE_ABI_VERSION);
	assert_int_not_equal(r.hello.version[0], '\0');
	assert_false(peer_recv(sock, &r, NULL, 0));
	close(sock);
	daemon_assert_well();
}

static void
order_is_kept_hello_then_device(void **state)
{
	int sock = peer_connect();
	struct ctl_req q;
	struct ctl_rsp r;
	uint32_t op;

	for (op = CTL_DEVICE_GET; op < CTL_OPS; op++) {
		q = peer_req(op);
		assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
		assert_non_null(strstr(r.message, "before HELLO"));
	}
	assert_int_equal(peer_hello(sock), 0);
	assert_int_equal(peer_hello(sock), EINVAL);
	for (op = CTL_DEVICE_QUERY; op < CTL_OPS; op++) {
		/* Connections need no device (test_cma.c), and neither does another daemon (test_handover.c), nor importing one (test_import.c). */
		if ((op >= CTL_CM_OPEN && op <= CTL_HAND_OVER) || op == CTL_DEVICE_IMPORT || op >= CTL_CM_ACCEPT_QP)
			continue;
		q = peer_req(op);
		assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
		assert_non_null(strstr(r.message, "before DEVICE_OPEN"));
	}
	q = peer_req(0);
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	q = peer_req(CTL_OPS);
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	q = peer_req(UINT32_MAX);
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	close(sock);
	daemon_assert_well();
}

static void
memory_is_taken_once_and_names_must_end(void **state)
{
	static const char *const paths[] = { "/dev/null", "/proc/self/maps", "/proc/self/status", "/tmp" };
	int sock = peer_connect(), fd;
	struct ctl_req q = peer_req(CTL_HELLO);
	struct ctl_rsp r;
	size_t i;

	q.hello.abi_version = UROCE_ABI_VERSION;
	memset(q.hello.program, 'x', sizeof(q.hello.program));
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	q.hello.program[0] = '\0';
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), 0);
	q = peer_req(CTL_MEMORY);
	for (i = 0; i < 4; i++) {
		fd = open(paths[i], O_RDONLY);
		assert_true(fd >= 0);
		assert_int_equal(peer_call(sock, &q, &fd, 1, &r, NULL, 0), EINVAL);
		close(fd);
	}
	fd = open("/proc/self/mem", O_RDONLY);
	assert_int_equal(peer_call(sock, &q, &fd, 1, &r, NULL, 0), EINVAL);
	close(fd);
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	fd = open("/proc/self/mem", O_RDWR);
	assert_int_equal(peer_call(sock, &q, &fd, 1, &r, NULL, 0), 0);
	/* Once. */
	assert_int_equal(peer_call(sock, &q, &fd, 1, &r, NULL, 0), EINVAL);
	close(fd);
	close(sock);
	daemon_assert_well();
}

static void
descriptors_that_nobody_asked_for_are_closed(void **state)
{
	unsigned int before, i;
	int fds[60], sock;
	struct ctl_req q = peer_req(CTL_PD_ALLOC);
	struct ctl_rsp r;
	struct peer p;

	peer_open(&p);
	for (i = 0; i < 60; i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* An answer to one request says that all of the one before is done. */
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), 0);
	before = daemon_counts().fds;
	for (i = 1; i < 3; i++)
		assert_int_equal(peer_call(p.sock, &q, fds, i, &r, NULL, 0), EINVAL);
	/* No request has so many: that is the end of the session. */
	for (i = 3; i < 60; i++) {
		sock = peer_connect();
		assert_int_equal(peer_hello(sock), 0);
		assert_int_equal(peer_send(sock, &q, sizeof(q), fds, i), 0);
		assert_true(peer_recv(sock, &r, NULL, 0));
		assert_int_equal(r.status, EINVAL);
		assert_false(peer_recv(sock, &r, NULL, 0));
		close(sock);
	}
	q = peer_req(CTL_CQ_CREATE);
	q.cq_create.cqe = 1;
	/* A descriptor too many, no channel of this session, and one too many channels. */
	assert_int_equal(peer_call(p.sock, &q, fds, 1, &r, NULL, 0), EINVAL);
	q.cq_create.has_channel = 1;
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	q.cq_create.has_channel = 2;
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	q = peer_req(CTL_PD_ALLOC);
	assert_int_equal(peer_call(p.sock, &q, NULL, 0, &r, NULL, 0), 0);
	for (i = 0; daemon_counts().fds != before && i < 2000; i++)
		usleep(1000);
	assert_int_equal(daemon_counts().fds, before);
	/* Sent and never taken out of the socket. */
	sock = peer_connect();
	q = peer_req(CTL_HELLO);
	for (i = 0; i < 10; i++)
		peer_send(sock, &q, sizeof(q), fds, 4);
	close(sock);
	peer_close(&p);
	for (i = 0; i < 60; i++)
		close(fds[i]);
	daemon_assert_well();
}

static void
a_thousand_connections_come_and_go(void **state)
{
	unsigned int before = daemon_counts().fds;
	int i, sock;

	for (i = 0; i < 1000; i++) {
		sock = peer_connect();
		if (i % 3 == 0)
			assert_int_equal(peer_hello(sock), 0);
		close(sock);
		if (i % 20 == 19)
			assert_true(daemon_wait_empty());
	}
	daemon_assert_well();
	assert_int_equal(daemon_counts().fds, before);
}

static void
too_many_sessions_are_told_so(void **state)
{
	int socks[MAX_SESSIONS], extra, i;
	struct ctl_rsp r;

	for (i = 0; i < MAX_SESSIONS; i++) {
		socks[i] = peer_connect();
		assert_int_equal(peer_hello(socks[i]), 0);
	}
	extra = peer_connect();
	assert_true(peer_recv(extra, &r, NULL, 0));
	assert_int_equal(r.status, EMFILE);
	assert_non_null(strstr(r.message, "max_sessions"));
	assert_false(peer_recv(extra, &r, NULL, 0));
	close(extra);
	for (i = 0; i < MAX_SESSIONS; i++)
		close(socks[i]);
	assert_true(daemon_wait_empty());
	daemon_assert_well();
}

static void
one_that_never_reads_its_replies_is_cut_off(void **state)
{
	struct ctl_req q = peer_req(CTL_DEVICE_GET);
	int sock = peer_connect(), i, rc = 0;

	assert_int_equal(peer_hello(sock), 0);
	for (i = 0; i < 100000 && rc == 0; i++)
		rc = peer_send(sock, &q, sizeof(q), NULL, 0);
	assert_true(rc == EPIPE || rc == ECONNRESET);
	close(sock);
	daemon_assert_well();
}

/** Requests of valid form and random content. */
static void
random_requests_change_nothing_for_others(void **state)
{
	struct ctl_req q;
	struct ctl_rsp r;
	struct peer p;
	unsigned int seed = 11, i, k;
	int fds[CTL_MAX_FDS], rc;
	uint32_t pd, cq;

	for (k = 0; k < 20; k++) {
		peer_open(&p);
		pd = peer_pd(p.sock);
		cq = peer_cq(&p, 10).handle;
		assert_int_equal(peer_try_qp(&p, UROCE_QPT_RC, pd, cq, 4, 1, 0), 0);
		for (i = 0; i < 500; i++) {
			q = peer_req(1 + rand_r(&seed) % CTL_OPS);
			for (size_t b = 0; b < sizeof(q.space); b++)
				q.space[b] = rand_r(&seed) % 3
						     ? 0
						     : (uint8_t)(rand_r(&seed) % (rand_r(&seed) % 2 ? 4 : 256));
			if (q.op == CTL_HELLO)
				q.hello.abi_version = UROCE_ABI_VERSION;
			memset(fds, 0xff, sizeof(fds));
			rc = peer_call(p.sock, &q, NULL, 0, &r, fds, CTL_MAX_FDS);
			assert_int_not_equal(rc, -1);
			for (int f = 0; f < CTL_MAX_FDS; f++) {
				if (fds[f] >= 0)
					close(fds[f]);
			}
		}
		peer_close(&p);
		assert_true(daemon_wait_empty());
	}
	daemon_assert_well();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(garbage_is_refused_and_the_session_lives),
		cmocka_unit_test(wrong_sizes_are_refused),
		cmocka_unit_test(another_version_gets_the_daemons_and_the_end),
		cmocka_unit_test(order_is_kept_hello_then_device),
		cmocka_unit_test(memory_is_taken_once_and_names_must_end),
		cmocka_unit_test(descriptors_that_nobody_asked_for_are_closed),
		cmocka_unit_test(a_thousand_connections_come_and_go),
		cmocka_unit_test(too_many_sessions_are_told_so),
		cmocka_unit_test(one_that_never_reads_its_replies_is_cut_off),
		cmocka_unit_test(random_requests_change_nothing_for_others),
	};

	return DAEMON_TESTS(tests, MAX_SESSIONS, MAX_QP, NULL);
}
