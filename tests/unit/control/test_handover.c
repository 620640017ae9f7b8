/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One daemon hands its programs to another: what a program has works as before, and records that are damaged harm nobody but their session. Both
 * daemons are in this process; the second has a port of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_common.h>

#include "base/record.h"
#include "control/core/session_priv.h"
#include "control/loop_priv.h"
#include "daemon.h"
#include "engine/engine.h"
#include "pair.h"
#include "program.h"
#include "second.h"
#include "transport/transport.h"
#include "uroce/suspend.h"

enum { DAMAGES = 3000, NOBODY = 65534, WRITES = 15, TURNS = 100 };

static void
another_daemon_goes_on(void **state)
{
	struct second_stream records;
	struct program m;

	program_begin(&m);
	memset(m.memory, 0x5a, PROGRAM_MR_BYTES);
	second_begin(&records, 1, 2);
	program_check(&m);
	program_end(&m);
	second_end(&records);
}

static void
turns(const struct uroce *u, int n)
{
	for (; n > 0; n--)
		for (unsigned int i = 0; i < u->nb_engines; i++)
			engine_turn(u->engines[i]);
}

static uint64_t
copies_begun(const struct uroce *u)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < u->nb_engines; i++)
		n += transport_counters(engine_transport(u->engines[i]))->copies;
	return n;
}

/** Programs go on posting, and nothing of it can be saved while memory is copied for it: so no new copies begin. */
static void
copies_under_way_are_all_that_is_waited_for(void **state)
{
	struct stream_out o = { 0 };
	struct ring_cqe cqe;
	struct uroce *u;
	uint64_t begun;
	struct pair t;

	pair_open(&t, CTL_SEG_REMOTE);
	u = daemon_hold();
	for (int i = 0; i < WRITES; i++)
		pair_post(&t, 0, UROCE_WR_RDMA_WRITE, t.mem, PAIR_BYTES, t.mem + PAIR_BYTES);
	/* The first copy is under way until another turn looks. */
	turns(u, 1);
	assert_int_not_equal(transport_copies(engine_transport(u->engines[t.end[0].qp.engine])), 0);
	begun = copies_begun(u);
	assert_int_equal(suspend_save(&u, 1, &o), 0);
	turns(u, TURNS);
	assert_int_equal(copies_begun(u), begun);
	stream_free(&o);
	/* Nobody takes over. */
	suspend_undo(&u, 1);
	daemon_go_on();
	for (int i = 0; i < WRITES; i++) {
		assert_true(pair_poll(&t, &cqe));
		assert_int_equal(cqe.status, UROCE_WC_SUCCESS);
	}
	pair_close(&t);
}

/** @return the record at @p at, which moves behind it; NULL at the end. */
static struct record_head *
record_at(uint8_t *bytes, size_t n, size_t *at)
{
	struct record_head *r = (void *)(bytes + *at);

	if (*at >= n)
		return NULL;
	*at += (r->size + 7) / 8 * 8;
	return r;
}

static uint32_t
random_next(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/** Change a byte of a record behind its head. @param mend  Its checksum is right nevertheless. */
static void
damage(uint8_t *bytes, size_t n, uint32_t *seed, bool mend)
{
	uint32_t nb = 0, which;
	struct record_head *r;
	size_t at = 0;

	while (record_at(bytes, n, &at) != NULL)
		nb++;
	which = random_next(seed) % nb;
	at = 0;
	do
		r = record_at(bytes, n, &at);
	while (which-- > 0);
	if (r->size == sizeof(*r))
		return;
	((uint8_t *)r)[sizeof(*r) + random_next(seed) % (r->size - sizeof(*r))] ^= (uint8_t)(1u << random_next(seed) % 8);
	if (mend)
		record_seal(r, (enum record_kind)r->kind, r->version, r->size);
}

static void
end_sessions(struct control *c)
{
	struct session *s;

	while ((s = TAILQ_FIRST(&c->sessions)) != NULL)
		session_close(s, NULL);
	sessions_reap(c, true);
}

/** The second daemon reads records that are damaged; it refuses the session or has it, and is well afterwards. */
static void
damaged_records_harm_nobody_else(void **state)
{
	struct handover_counts n;
	struct control_counts left;
	uint32_t seed = 1, refused = 0, taken = 0;
	char err[UROCE_ERR_BYTES];
	struct stream_out o;
	struct stream_in in;
	struct program m;
	uint8_t *bytes;

	program_begin(&m);
	second_save(daemon_hold(), &o, 1, 2);
	bytes = aligned_alloc(64, RTE_ALIGN_CEIL(o.n, (size_t)64));
	second = second_make(NULL);
	for (uint32_t i = 0; i < DAMAGES; i++) {
		in = second_reads(&o, bytes);
		damage(bytes, o.n, &seed, i % 4 != 0);
		n = (struct handover_counts){ 0 };
		if (control_restore(second->control, &in, &n, err) != 0)
			assert_true(err[0] != '\0');
		refused += n.refused;
		taken += n.sessions;
		/* A checksum that is wrong is always found, but not by readers of other records. */
		end_sessions(second->control);
		stream_done(&in);
		free(in.fds);
		control_counts(second->control, &left);
		assert_int_equal(left.sessions + left.pds + left.mrs + left.cqs + left.srqs + left.qps + left.ahs + left.cm_ids, 0);
	}
	assert_true(refused > DAMAGES / 8);
	assert_true(taken > DAMAGES / 8);
	second->bound = false;
	uroce_destroy(second);
	stream_free(&o);
	free(bytes);
	/* The first one goes on with other programs; this one's queues were written to. */
	daemon_take_sigbus();
	program_end(&m);
	daemon_go_on();
	assert_true(daemon_wait_empty());
	daemon_assert_well();
}

static uint32_t
open_domain(struct peer *p, int fd)
{
	struct ctl_req q = peer_req(CTL_XRCD_OPEN);
	struct ctl_rsp r;

	q.xrcd_open.oflags = O_CREAT;
	assert_int_equal(peer_call(p->sock, &q, &fd, fd >= 0, &r, NULL, 0), 0);
	return r.handle.handle;
}

/** Two programs share a domain and a target; one has an XRC SRQ. All of it has moved. The target is there as long as one of them has it. */
static void
xrc_domains_and_targets_go_on(void **state)
{
	int file = memfd_create("xrc", MFD_CLOEXEC), fd = -1;
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	struct ctl_srq_create_rsp srq;
	struct ctl_cq_create_rsp cq;
	uint32_t xrcd[2], qpn, pd, opened;
	struct second_stream records;
	struct control_moved moved;
	const char *why = "";
	struct peer a, b;
	struct ctl_rsp r;

	peer_open(&a);
	peer_open(&b);
	xrcd[0] = open_domain(&a, file);
	xrcd[1] = open_domain(&b, file);
	q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_XRC_RECV, .xrcd = xrcd[0], .cookie = 1 };
	peer_must(a.sock, &q, &r, NULL);
	qpn = r.qp_create.qpn;
	q = peer_req(CTL_QP_OPEN);
	q.qp_open = (struct ctl_qp_open_req){ .xrcd = xrcd[1], .qpn = qpn, .type = UROCE_QPT_XRC_RECV, .cookie = 2 };
	peer_must(b.sock, &q, &r, NULL);
	opened = r.qp_create.handle;
	pd = peer_pd(b.sock);
	cq = peer_cq(&b, 16);
	q = peer_req(CTL_SRQ_CREATE);
	q.srq_create = (struct ctl_srq_create_req){ .pd = pd, .max_wr = 8, .max_sge = 1, .is_xrc = 1, .xrcd = xrcd[1], .cq = cq.handle };
	assert_int_equal(peer_call(b.sock, &q, NULL, 0, &r, &fd, 1), 0);
	srq = r.srq_create;
	if (fd >= 0)
		peer_segment(&b, &srq.seg, fd);
	for (unsigned int engine = 0; engine < 2; engine++)
		assert_int_equal(daemon_move(qpn, engine, &moved), 0);
	second_begin(&records, 2, 2);
	assert_non_null(qp_table_get(second->sh.qps, qpn));
	assert_int_equal(qp_engine(qp_table_get(second->sh.qps, qpn)), 1);
	assert_int_equal(control_move_qp(second->control, qpn, 0, &moved, &why), 0);
	assert_int_equal(moved.qps, 1);
	assert_int_equal(peer_handle(b.sock, CTL_XRCD_CLOSE, xrcd[1]), EBUSY);
	assert_int_equal(peer_handle(b.sock, CTL_CQ_DESTROY, cq.handle), EBUSY);
	/* One more SRQ gets another number, and the first program's end leaves the target to the other one. */
	fd = -1;
	assert_int_equal(peer_call(b.sock, &q, NULL, 0, &r, &fd, 1), 0);
	assert_int_not_equal(r.srq_create.srqn, srq.srqn);
	if (fd >= 0)
		close(fd);
	peer_close(&a);
	assert_int_equal(peer_handle(b.sock, CTL_SRQ_DESTROY, r.srq_create.handle), 0);
	assert_int_equal(peer_handle(b.sock, CTL_SRQ_DESTROY, srq.handle), 0);
	assert_non_null(qp_table_get(second->sh.qps, qpn));
	assert_int_equal(peer_handle(b.sock, CTL_QP_DESTROY, opened), 0);
	assert_null(qp_table_get(second->sh.qps, qpn));
	assert_int_equal(peer_handle(b.sock, CTL_XRCD_CLOSE, xrcd[1]), 0);
	peer_close(&b);
	close(file);
	second_end(&records);
}

/** The test's daemon is part of a program, which can't hand anything over. */
static void
a_daemon_that_cant_says_so(void **state)
{
	struct ctl_req q = peer_req(CTL_HAND_OVER);
	struct ctl_rsp r;
	int sock = peer_connect();

	assert_int_equal(peer_hello(sock), 0);
	assert_int_equal(peer_call(sock, &q, NULL, 0, &r, NULL, 0), EOPNOTSUPP);
	close(sock);
}

/** In a child: ask as somebody else. @return the status of the reply. */
static int
ask_as_nobody(void)
{
	struct ctl_req q = peer_req(CTL_HELLO);
	struct ctl_rsp r;
	int sock;

	if (setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0)
		return 255;
	sock = peer_connect();
	q.hello.abi_version = UROCE_ABI_VERSION;
	if (peer_call(sock, &q, NULL, 0, &r, NULL, 0) != 0)
		return 254;
	q = peer_req(CTL_HAND_OVER);
	return peer_call(sock, &q, NULL, 0, &r, NULL, 0);
}

static void
strangers_dont_get_the_programs(void **state)
{
	int status;
	pid_t pid;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chmod(daemon_socket(), 0666), 0);
	pid = fork();
	if (pid == 0)
		_exit(ask_as_nobody());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), EPERM);
	assert_int_equal(chmod(daemon_socket(), 0600), 0);
	assert_true(daemon_wait_empty());
	daemon_assert_well();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_daemon_that_cant_says_so),
		cmocka_unit_test(strangers_dont_get_the_programs),
		cmocka_unit_test(another_daemon_goes_on),
		cmocka_unit_test(copies_under_way_are_all_that_is_waited_for),
		cmocka_unit_test(xrc_domains_and_targets_go_on),
		cmocka_unit_test(damaged_records_harm_nobody_else),
	};

	daemon_engines = 2;
	return DAEMON_TESTS(tests, 16, 64, NULL);
}
