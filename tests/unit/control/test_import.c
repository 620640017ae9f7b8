/* SPDX-License-Identifier: BSD-3-Clause */
/* A program imports the PD and the MRs of another one: what is refused, what it may do with them, what goes when. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "pair.h"

enum { MAX_SESSIONS = 40, MAX_QP = 100 };

/** @return what the daemon says to an import with the descriptor @p fd, or none if it is -1. */
static int
show(int sock, int fd, uint32_t *handle)
{
	struct ctl_req q = peer_req(CTL_DEVICE_IMPORT);
	struct ctl_rsp r;
	int rc = peer_call(sock, &q, &fd, fd >= 0, &r, NULL, 0);

	if (handle != NULL)
		*handle = r.handle.handle;
	return rc;
}

static int
import_pd(int sock, uint32_t handle, uint32_t *pd)
{
	struct ctl_req q = peer_req(CTL_PD_IMPORT);
	struct ctl_rsp r;
	int rc;

	q.handle.handle = handle;
	rc = peer_call(sock, &q, NULL, 0, &r, NULL, 0);
	*pd = r.handle.handle;
	return rc;
}

static int
import_mr(int sock, uint32_t pd, uint32_t mr, struct ctl_mr_import_rsp *out)
{
	struct ctl_req q = peer_req(CTL_MR_IMPORT);
	struct ctl_rsp r;
	int rc;

	q.mr_import = (struct ctl_mr_import_req){ .pd = pd, .mr = mr };
	rc = peer_call(sock, &q, NULL, 0, &r, NULL, 0);
	*out = r.mr_import;
	return rc;
}

static int
window(int sock, uint32_t pd)
{
	struct ctl_req q = peer_req(CTL_MW_ALLOC);
	struct ctl_rsp r;

	q.mw_alloc = (struct ctl_mw_alloc_req){ .pd = pd, .type = 1 };
	return peer_call(sock, &q, NULL, 0, &r, NULL, 0);
}

/** Names are unique in a network namespace only, and everybody may make one. */
static void
same_name_in_another_namespace(const struct peer *a, const struct peer *b)
{
	struct sockaddr_un name;
	socklen_t bytes = sizeof(name);
	int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), fd;

	assert_true(own >= 0);
	assert_int_equal(getsockname(a->sock, (struct sockaddr *)&name, &bytes), 0);
	if (unshare(CLONE_NEWNET) == 0) {
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(fd, (struct sockaddr *)&name, bytes), 0);
		assert_int_equal(show(b->sock, fd, NULL), EINVAL);
		close(fd);
		assert_int_equal(setns(own, CLONE_NEWNET), 0);
	}
	close(own);
}

static void
only_the_descriptor_gives_the_right(void **state)
{
	int pipes[2], sockets[2], inet = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint32_t pd, theirs, index;
	struct peer a, b;

	peer_open(&a);
	peer_open(&b);
	theirs = peer_pd(a.sock);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
	/* Nothing that isn't a socket, nor one without a name, nor a stranger's, nor one's own. */
	assert_int_equal(show(b.sock, -1, NULL), EINVAL);
	assert_int_equal(show(b.sock, pipes[0], NULL), EINVAL);
	assert_int_equal(show(b.sock, sockets[0], NULL), EINVAL);
	assert_int_equal(bind(sockets[0], &(struct sockaddr){ .sa_family = AF_UNIX }, sizeof(sa_family_t)), 0);
	assert_int_equal(show(b.sock, sockets[0], NULL), EINVAL);
	assert_int_equal(show(b.sock, inet, NULL), EINVAL);
	assert_int_equal(show(b.sock, b.sock, NULL), EINVAL);
	same_name_in_another_namespace(&a, &b);
	/* Without the descriptor a handle is one's own. */
	assert_int_equal(import_pd(b.sock, theirs, &pd), EINVAL);
	assert_int_equal(show(b.sock, a.sock, &index), 0);
	assert_int_equal(index, 0);
	assert_int_equal(show(b.sock, a.sock, NULL), EINVAL);
	for (uint32_t h = 1; h != 0; h <<= 1)
		assert_int_equal(import_pd(b.sock, theirs ^ h, &pd), EINVAL);
	assert_int_equal(import_pd(b.sock, theirs, &pd), 0);
	close(inet);
	close(pipes[0]);
	close(pipes[1]);
	close(sockets[0]);
	close(sockets[1]);
	peer_close(&a);
	peer_close(&b);
	daemon_assert_well();
}

static void
what_is_shared_holds_its_owner(void **state)
{
	uint32_t theirs, pd, again, other;
	struct ctl_cq_create_rsp cq;
	struct peer a, b;

	peer_open(&a);
	peer_open(&b);
	theirs = peer_pd(a.sock);
	other = peer_pd(a.sock);
	assert_int_equal(show(b.sock, a.sock, NULL), 0);
	assert_int_equal(window(a.sock, other), 0);
	assert_int_equal(import_pd(b.sock, other, &pd), EOPNOTSUPP);
	assert_int_equal(import_pd(b.sock, theirs, &pd), 0);
	/* Windows of one could be bound to MRs of the other, who may end first. */
	assert_int_equal(window(a.sock, theirs), EOPNOTSUPP);
	assert_int_equal(window(b.sock, pd), EOPNOTSUPP);
	assert_int_equal(import_pd(b.sock, theirs, &again), 0);
	assert_int_equal(peer_handle(b.sock, CTL_PD_FREE, again), 0);
	assert_int_equal(peer_handle(b.sock, CTL_PD_FREE, again), EINVAL);
	cq = peer_cq(&b, 16);
	assert_int_equal(peer_try_qp(&b, UROCE_QPT_RC, pd, cq.handle, 4, 1, 0), 0);
	assert_int_equal(peer_handle(b.sock, CTL_PD_FREE, pd), EBUSY);
	assert_int_equal(peer_handle(a.sock, CTL_PD_FREE, theirs), EBUSY);
	peer_close(&b);
	/* The importer's end takes its objects, and no more. */
	for (int i = 0; i < 1000 && peer_handle(a.sock, CTL_PD_FREE, theirs) == EBUSY; i++)
		usleep(1000);
	assert_int_equal(peer_handle(a.sock, CTL_PD_FREE, theirs), EINVAL);
	peer_close(&a);
	daemon_assert_well();
}

static void
keys_of_an_mr_are_good_until_its_owner_ends_it(void **state)
{
	struct ctl_mr_import_rsp mr;
	uint32_t pd, own, handle;
	struct ring_cqe cqe;
	struct ctl_rsp r;
	struct ctl_req q;
	struct pair t;
	struct peer b;

	pair_open(&t, CTL_SEG_CONVERTED);
	peer_open(&b);
	assert_int_equal(show(b.sock, t.p.sock, NULL), 0);
	own = peer_pd(b.sock);
	assert_int_equal(import_mr(b.sock, own, t.mr, &mr), EINVAL);
	assert_int_equal(import_pd(b.sock, t.pd, &pd), 0);
	assert_int_equal(import_mr(b.sock, pd + 1000, t.mr, &mr), EINVAL);
	assert_int_equal(import_mr(b.sock, pd, t.mr + 1000, &mr), EINVAL);
	assert_int_equal(import_mr(b.sock, pd, t.mr, &mr), 0);
	assert_int_equal(mr.lkey, t.lkey);
	assert_int_equal(mr.length, 2 * PAIR_BYTES);
	/* A null MR has no memory to share. */
	q = peer_req(CTL_MR_NULL);
	q.handle.handle = t.pd;
	peer_must(t.p.sock, &q, &r, NULL);
	handle = r.mr_reg.handle;
	assert_int_equal(import_mr(b.sock, pd, handle, &mr), EINVAL);
	/* The importer has no MR that it could end, and its end leaves the owner's. */
	assert_int_equal(peer_handle(b.sock, CTL_MR_DEREG, t.mr + 1000), EINVAL);
	assert_int_equal(peer_handle(b.sock, CTL_PD_FREE, pd), 0);
	peer_close(&b);
	memset(t.mem, 0x5a, 100);
	pair_post(&t, 0, UROCE_WR_RDMA_WRITE, t.mem, 100, t.mem + PAIR_BYTES);
	assert_true(pair_poll(&t, &cqe));
	assert_int_equal(cqe.status, UROCE_WC_SUCCESS);
	pair_close(&t);
}

static void
nothing_of_an_owner_that_has_ended_is_found(void **state)
{
	struct ctl_mr_import_rsp mr;
	uint32_t pd, theirs, later;
	struct ctl_cq_create_rsp cq;
	struct peer a, b;
	int rc = 0;

	peer_open(&a);
	peer_open(&b);
	theirs = peer_pd(a.sock);
	later = peer_pd(a.sock);
	assert_int_equal(show(b.sock, a.sock, NULL), 0);
	assert_int_equal(import_pd(b.sock, theirs, &pd), 0);
	peer_close(&a);
	for (int i = 0; i < 1000 && (rc = import_mr(b.sock, pd, 0, &mr)) == 0; i++)
		usleep(1000);
	assert_int_not_equal(rc, 0);
	for (int i = 0; i < 1000; i++) {
		rc = import_pd(b.sock, later, &theirs);
		if (rc == ENODEV)
			break;
		usleep(1000);
	}
	assert_int_equal(rc, ENODEV);
	/* What it has is its own now: no other PD gets its number. */
	cq = peer_cq(&b, 16);
	assert_int_equal(peer_try_qp(&b, UROCE_QPT_RC, pd, cq.handle, 4, 1, 0), 0);
	assert_int_equal(window(b.sock, pd), 0);
	peer_close(&b);
	daemon_assert_well();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_descriptor_gives_the_right),
		cmocka_unit_test(what_is_shared_holds_its_owner),
		cmocka_unit_test(keys_of_an_mr_are_good_until_its_owner_ends_it),
		cmocka_unit_test(nothing_of_an_owner_that_has_ended_is_found),
	};

	return DAEMON_TESTS(tests, MAX_SESSIONS, MAX_QP, NULL);
}
