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
#include "second.h"

enum { MR_BYTES = 8192, DAMAGES = 3000, QKEY = 0x1234567, CM_PORT = 7471, NOBODY = 65534 };

static const uint8_t group[16] = { 0xff, 0x0e, [13] = 0x18, [15] = 1 };

/** A program with one object of each kind, or more. */
struct program {
	struct peer p;
	uint32_t pd, other_pd, channel, cq, srq, rc, ud, ah, dm;
	uint32_t ud_qpn, rc_qpn, mw_key;
	uint32_t ud_engine; /**< to which it has moved */
	struct ctl_mr_reg_rsp converted, remote, null, of_dm;
	struct ctl_handle id;
	int channel_fds[2], cm_fd;
	uint64_t cm_token;
	uint8_t *memory;
};

static void
must(struct program *m, struct ctl_req *q, struct ctl_rsp *r)
{
	int fds[2] = { -1, -1 };
	int rc = peer_call(m->p.sock, q, NULL, 0, r, fds, 2);

	if (rc != 0)
		fail_msg("request %u: %d, %s", q->op, rc, rc > 0 ? r->message : "connection ended");
	if (q->op == CTL_CHANNEL_CREATE)
		memcpy(m->channel_fds, fds, sizeof(fds));
	else if (q->op == CTL_CM_OPEN)
		m->cm_fd = fds[0];
	else if (fds[0] >= 0)
		peer_segment(&m->p, &r->cq_create.seg, fds[0]);
}

static struct ctl_mr_reg_rsp
new_mr(struct program *m, uint32_t kind)
{
	struct ctl_req q = peer_req(CTL_MR_REG);
	struct {
		struct ctl_req q;
		struct ctl_seg seg;
	} msg;
	struct ctl_rsp r;
	uint64_t va = (uintptr_t)m->memory;

	q.mr_reg = (struct ctl_mr_reg_req){ .pd = m->pd, .access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_MW_BIND,
					    .addr = va, .length = MR_BYTES, .iova = va, .nb_segs = 1, .nb_in_msg = 1 };
	msg.q = q;
	msg.seg = (struct ctl_seg){ .va = va, .length = MR_BYTES, .offset = kind == CTL_SEG_CONVERTED ? va & 4095 : 0, .kind = kind };
	assert_int_equal(peer_send(m->p.sock, &msg, sizeof(msg), NULL, 0), 0);
	assert_true(peer_recv(m->p.sock, &r, NULL, 0));
	if (r.status != 0)
		fail_msg("%s", r.message);
	return r.mr_reg;
}

static struct ctl_rsp
simple(struct program *m, struct ctl_req q)
{
	struct ctl_rsp r;

	must(m, &q, &r);
	return r;
}

static void
begin_memory(struct program *m)
{
	struct ctl_req q = peer_req(CTL_MR_NULL);

	m->memory = aligned_alloc(4096, MR_BYTES);
	m->converted = new_mr(m, CTL_SEG_CONVERTED);
	m->remote = new_mr(m, CTL_SEG_REMOTE);
	q.handle.handle = m->pd;
	m->null = simple(m, q).mr_reg;
	q = peer_req(CTL_DM_ALLOC);
	q.dm_alloc.length = 4096;
	m->dm = simple(m, q).dm_alloc.handle;
	q = peer_req(CTL_DM_REG);
	q.dm_reg = (struct ctl_dm_reg_req){ .pd = m->pd, .dm = m->dm, .offset = 1024, .length = 512, .access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_ZERO_BASED };
	m->of_dm = simple(m, q).mr_reg;
	q = peer_req(CTL_MW_ALLOC);
	q.mw_alloc = (struct ctl_mw_alloc_req){ .pd = m->pd, .type = 1 };
	m->mw_key = simple(m, q).mw_alloc.rkey;
}

static struct ctl_rsp
new_qp(struct program *m, uint32_t type, uint32_t srq)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);

	q.qp_create = (struct ctl_qp_create_req){ .type = type, .pd = m->pd, .send_cq = m->cq, .recv_cq = m->cq, .srq = srq, .cookie = 77,
						  .cap = { 8, 8, 2, 2, 64 } };
	return simple(m, q);
}

static void
ud_to(struct program *m, uint32_t state)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);

	q.qp_modify.handle = m->ud;
	q.qp_modify.mask = UROCE_QP_STATE;
	q.qp_modify.attr = (struct uroce_qp_attr){ .qp_state = state, .port_num = 1, .qkey = QKEY };
	if (state == UROCE_QPS_INIT)
		q.qp_modify.mask |= UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_QKEY;
	if (state == UROCE_QPS_RTS)
		q.qp_modify.mask |= UROCE_QP_SQ_PSN;
	simple(m, q);
}

static void
begin_queues(struct program *m)
{
	struct ctl_req q = peer_req(CTL_CHANNEL_CREATE);
	struct ctl_rsp r;

	m->channel = simple(m, q).handle.handle;
	q = peer_req(CTL_CQ_CREATE);
	q.cq_create = (struct ctl_cq_create_req){ .cqe = 16, .has_channel = 1, .channel = m->channel, .cookie = 5 };
	m->cq = simple(m, q).cq_create.handle;
	q = peer_req(CTL_CQ_RESIZE);
	q.cq_resize = (struct ctl_cq_resize_req){ .handle = m->cq, .cqe = 64 };
	simple(m, q);
	q = peer_req(CTL_SRQ_CREATE);
	q.srq_create = (struct ctl_srq_create_req){ .pd = m->pd, .max_wr = 16, .max_sge = 2, .limit = 3 };
	m->srq = simple(m, q).srq_create.handle;
	r = new_qp(m, UROCE_QPT_RC, m->srq);
	m->rc = r.qp_create.handle;
	m->rc_qpn = r.qp_create.qpn;
	r = new_qp(m, UROCE_QPT_UD, UINT32_MAX);
	m->ud = r.qp_create.handle;
	m->ud_qpn = r.qp_create.qpn;
	m->ud_engine = !r.qp_create.engine;
	for (uint32_t state = UROCE_QPS_INIT; state <= UROCE_QPS_RTS; state++)
		ud_to(m, state);
	q = peer_req(CTL_MCAST_ATTACH);
	q.mcast.qp = m->ud;
	memcpy(q.mcast.mgid, group, 16);
	simple(m, q);
	q = peer_req(CTL_AH_CREATE);
	q.ah_create.pd = m->pd;
	q.ah_create.attr = (struct uroce_ah_attr){ .is_global = 1, .port_num = 1, .sgid_index = 2, .hop_limit = 4 };
	memcpy(q.ah_create.attr.dgid, group, 16);
	m->ah = simple(m, q).handle.handle;
}

static void
begin_cm(struct program *m)
{
	struct ctl_req q = peer_req(CTL_CM_OPEN);

	m->cm_token = simple(m, q).cm_open.token;
	q = peer_req(CTL_CM_CREATE_ID);
	q.cm_create = (struct ctl_cm_create_req){ .ps = CTL_CM_PS_TCP, .qp_type = UROCE_QPT_RC };
	m->id = simple(m, q).handle;
	q = peer_req(CTL_CM_BIND);
	q.cm_bind = (struct ctl_cm_bind_req){ .id = m->id.handle, .addr = { .family = 4, .port = CM_PORT } };
	simple(m, q);
	q = peer_req(CTL_CM_LISTEN);
	q.cm_listen = (struct ctl_cm_listen_req){ .id = m->id.handle, .backlog = 3 };
	simple(m, q);
}

static void
begin(struct program *m)
{
	struct control_moved moved;

	*m = (struct program){ .cm_fd = -1 };
	peer_open(&m->p);
	m->other_pd = peer_pd(m->p.sock);
	m->pd = peer_pd(m->p.sock);
	/* Handles need not be those that a new table would give first. */
	assert_int_equal(peer_handle(m->p.sock, CTL_PD_FREE, m->other_pd), 0);
	begin_memory(m);
	begin_queues(m);
	assert_int_equal(daemon_move(m->ud_qpn, m->ud_engine, &moved), 0);
	begin_cm(m);
}

static void
end(struct program *m)
{
	peer_close(&m->p);
	close(m->cm_fd);
	close(m->channel_fds[0]);
	close(m->channel_fds[1]);
	free(m->memory);
}

/* ---- Tests ---- */
static uint32_t
state_of(struct program *m, uint32_t handle)
{
	struct ctl_req q = peer_req(CTL_QP_QUERY);

	q.handle.handle = handle;
	return simple(m, q).qp_query.attr.qp_state;
}

/** Everything is there under its old handle, and can be used and destroyed in the order that users demand. */
static void
check_objects(struct program *m)
{
	struct ctl_req q = peer_req(CTL_CM_QUERY);
	struct ctl_rsp r;

	q.handle = m->id;
	assert_int_equal(simple(m, q).cm_info.local.port, CM_PORT);
	assert_int_equal(peer_handle(m->p.sock, CTL_CM_DESTROY_ID, m->id.handle), 0);
	assert_int_equal(state_of(m, m->ud), UROCE_QPS_RTS);
	assert_int_equal(state_of(m, m->rc), UROCE_QPS_RESET);
	q = peer_req(CTL_SRQ_QUERY);
	q.handle.handle = m->srq;
	assert_int_equal(simple(m, q).srq_query.limit, 3);
	assert_int_equal(mcast_table_attached(second->sh.mcasts), 1);
	assert_int_equal(qp_engine(qp_table_get(second->sh.qps, m->ud_qpn)), m->ud_engine);
	assert_non_null(qp_table_get(second->sh.qps, m->rc_qpn));
	assert_non_null(mr_get(second->sh.mrs, m->converted.lkey)->host);
	assert_null(mr_get(second->sh.mrs, m->remote.lkey)->host);
	assert_true(mr_get(second->sh.mrs, m->null.lkey)->null);
	assert_non_null(mr_get(second->sh.mrs, m->of_dm.lkey));
	assert_int_equal(peer_handle(m->p.sock, CTL_PD_FREE, m->pd), EBUSY);
	assert_int_equal(peer_handle(m->p.sock, CTL_DM_FREE, m->dm), EBUSY);
	assert_int_equal(peer_handle(m->p.sock, CTL_CQ_DESTROY, m->cq), EBUSY);
	assert_int_equal(peer_handle(m->p.sock, CTL_CHANNEL_DESTROY, m->channel), EBUSY);
	/* What is new gets other handles than what is there. */
	assert_int_not_equal(peer_pd(m->p.sock), m->pd);
	assert_int_equal(peer_handle(m->p.sock, CTL_AH_DESTROY, m->ah), 0);
	q = peer_req(CTL_MCAST_DETACH);
	q.mcast.qp = m->ud;
	memcpy(q.mcast.mgid, group, 16);
	must(m, &q, &r);
	assert_int_equal(peer_handle(m->p.sock, CTL_QP_DESTROY, m->ud), 0);
	assert_int_equal(peer_handle(m->p.sock, CTL_QP_DESTROY, m->rc), 0);
	assert_int_equal(peer_handle(m->p.sock, CTL_SRQ_DESTROY, m->srq), 0);
	assert_int_equal(peer_handle(m->p.sock, CTL_CQ_DESTROY, m->cq), 0);
	assert_int_equal(peer_handle(m->p.sock, CTL_CHANNEL_DESTROY, m->channel), 0);
	assert_int_equal(peer_handle(m->p.sock, CTL_MR_DEREG, m->of_dm.handle), 0);
	assert_int_equal(peer_handle(m->p.sock, CTL_DM_FREE, m->dm), 0);
}

static void
another_daemon_goes_on(void **state)
{
	struct second_stream records;
	struct program m;

	begin(&m);
	memset(m.memory, 0x5a, MR_BYTES);
	second_begin(&records, 1, 2);
	check_objects(&m);
	end(&m);
	second_end(&records);
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

	begin(&m);
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
	end(&m);
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
		cmocka_unit_test(xrc_domains_and_targets_go_on),
		cmocka_unit_test(damaged_records_harm_nobody_else),
	};

	daemon_engines = 2;
	return DAEMON_TESTS(tests, 16, 64, NULL);
}
