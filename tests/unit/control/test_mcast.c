/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast through the whole daemon: attaching, what the network hears of it, datagrams both ways, programs that die. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_mbuf.h>

#include "control/core/session_priv.h"
#include "daemon.h"

enum { QKEY = 0x1234567, ROOM = 512, DEPTH = 4, WAIT_MS = 5000, QUIET_MS = 100, MAX_QP = 600 };

static const uint8_t group4[16] = { [10] = 0xff, 0xff, 239, 18, 0, 1 };
static const uint8_t group6[16] = { 0xff, 0x0e, [13] = 0x18, [15] = 1 };
static const uint8_t host_gid[16] = { 0xfd, [15] = 9 };

/** A session with one UD QP in RTS and DEPTH receives posted. */
struct member {
	struct peer p;
	uint32_t pd, cq_handle, qp_handle, qpn, lkey, ah;
	struct ctl_cq_create_rsp cq;
	struct ctl_qp_create_rsp qp;
	struct ring cq_ring, sq, rq;
	uint8_t *mem;
};

static struct ctl_rsp
must(struct member *m, struct ctl_req *q, int *fd)
{
	struct ctl_rsp r;
	int rc = peer_call(m->p.sock, q, NULL, 0, &r, fd, fd != NULL);

	if (rc != 0)
		fail_msg("request %u: %d, %s", q->op, rc, rc > 0 ? r.message : "connection ended");
	return r;
}

static int
mcast(struct member *m, enum ctl_op op, uint32_t qp, const uint8_t mgid[16])
{
	struct ctl_req q = peer_req(op);
	struct ctl_rsp r;

	q.mcast.qp = qp;
	memcpy(q.mcast.mgid, mgid, 16);
	return peer_call(m->p.sock, &q, NULL, 0, &r, NULL, 0);
}

static uint32_t
new_qp(struct member *m, uint32_t type)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	struct ctl_rsp r;
	int fd = -1;

	q.qp_create = (struct ctl_qp_create_req){ .type = type, .pd = m->pd, .send_cq = m->cq_handle,
						  .recv_cq = m->cq_handle, .srq = UINT32_MAX,
						  .cap = { DEPTH, DEPTH, 1, 1, 0 } };
	r = must(m, &q, &fd);
	m->qp = r.qp_create;
	peer_segment(&m->p, &r.qp_create.seg, fd);
	return r.qp_create.handle;
}

static void
to_rts(struct member *m)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);

	q.qp_modify.handle = m->qp_handle;
	q.qp_modify.mask = UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_QKEY;
	q.qp_modify.attr = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_INIT, .port_num = 1, .qkey = QKEY };
	must(m, &q, NULL);
	q.qp_modify.mask = UROCE_QP_STATE;
	q.qp_modify.attr.qp_state = UROCE_QPS_RTR;
	must(m, &q, NULL);
	q.qp_modify.mask = UROCE_QP_STATE | UROCE_QP_SQ_PSN;
	q.qp_modify.attr.qp_state = UROCE_QPS_RTS;
	must(m, &q, NULL);
}

static void
register_memory(struct member *m)
{
	uint8_t req[CTL_REQ_BYTES + sizeof(struct ctl_seg)] = { 0 };
	struct ctl_req *q = (void *)req;
	struct ctl_seg *seg = (void *)(req + CTL_REQ_BYTES);
	const size_t bytes = (DEPTH + 1) * ROOM;
	struct ctl_rsp r;

	m->mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(m->mem, MAP_FAILED);
	*q = peer_req(CTL_MR_REG);
	q->mr_reg = (struct ctl_mr_reg_req){ .pd = m->pd, .addr = (uintptr_t)m->mem, .iova = (uintptr_t)m->mem,
					     .length = bytes, .nb_segs = 1, .nb_in_msg = 1,
					     .access = UROCE_ACCESS_LOCAL_WRITE };
	*seg = (struct ctl_seg){ .va = (uintptr_t)m->mem, .length = bytes, .kind = CTL_SEG_REMOTE };
	assert_int_equal(peer_send(m->p.sock, req, sizeof(req), NULL, 0), 0);
	assert_true(peer_recv(m->p.sock, &r, NULL, 0));
	assert_int_equal(r.status, 0);
	m->lkey = r.mr_reg.lkey;
}

static void
post_recv(struct member *m)
{
	struct ring_rq_wqe *w = ring_slot(&m->rq, m->rq.counter);

	w->wr_id = m->rq.counter;
	w->sge[0] = (struct ring_sge){ .addr = (uintptr_t)m->mem + m->rq.counter % DEPTH * ROOM, .length = ROOM,
				       .lkey = m->lkey };
	ring_rq_post(&m->rq, m->rq.counter++, w, 1);
}

static void
member_up(struct member *m)
{
	struct ctl_req q = peer_req(CTL_PD_ALLOC);
	int fd = -1;

	memset(m, 0, sizeof(*m));
	peer_open(&m->p);
	m->pd = must(m, &q, NULL).handle.handle;
	q = peer_req(CTL_CQ_CREATE);
	q.cq_create.cqe = 16;
	m->cq = must(m, &q, &fd).cq_create;
	m->cq_handle = m->cq.handle;
	peer_segment(&m->p, &m->cq.seg, fd);
	m->cq_ring = (struct ring){ .base = peer_area(&m->p, &m->cq.ring), RING_SIZE(m->cq.order, 5) };
	m->qp_handle = new_qp(m, UROCE_QPT_UD);
	m->qpn = m->qp.qpn;
	m->sq = (struct ring){ .base = peer_area(&m->p, &m->qp.sq), RING_SIZE(m->qp.sq_order, m->qp.sq_shift) };
	m->rq = (struct ring){ .base = peer_area(&m->p, &m->qp.rq), RING_SIZE(m->qp.rq_order, m->qp.rq_shift) };
	to_rts(m);
	register_memory(m);
	for (int i = 0; i < DEPTH; i++)
		post_recv(m);
}

static void
member_down(struct member *m)
{
	peer_close(&m->p);
	munmap(m->mem, (DEPTH + 1) * ROOM);
}

static bool
poll_cq(struct member *m, struct ring_cqe *out, unsigned int timeout_ms)
{
	struct ring_cq_shared *sh = peer_area(&m->p, &m->cq.shared);
	union ring_cqe_ctl ctl;

	for (unsigned int i = 0; i < 10 * timeout_ms; i++) {
		if (ring_cq_ready(&m->cq_ring, m->cq_ring.counter, &ctl)) {
			memcpy(out, ring_slot(&m->cq_ring, m->cq_ring.counter), sizeof(*out));
			atomic_store(&sh->cons, ++m->cq_ring.counter);
			return true;
		}
		usleep(100);
	}
	return false;
}

static void
send_to_group(struct member *m, const uint8_t mgid[16], uint32_t bytes)
{
	struct ctl_req q = peer_req(CTL_AH_CREATE);
	struct ring_sq_wqe *w = ring_slot(&m->sq, m->sq.counter);
	union ring_sq_ctl c = { .opcode = UROCE_WR_SEND, .flags = UROCE_SEND_SIGNALED, .count = 1 };
	uint64_t one = 1;

	q.ah_create.pd = m->pd;
	q.ah_create.attr = (struct uroce_ah_attr){ .sgid_index = mgid[0] == 0xff ? 2 : 1, .is_global = 1, .port_num = 1,
						   .hop_limit = 1 };
	memcpy(q.ah_create.attr.dgid, mgid, 16);
	m->ah = must(m, &q, NULL).handle.handle;
	w->wr_id = 77;
	wqe_put_ud(w, m->ah, WIRE_QPN_MULTICAST, QKEY);
	*wqe_sges(w, UROCE_WR_SEND) = (struct ring_sge){ (uintptr_t)m->mem + DEPTH * ROOM, bytes, m->lkey };
	ring_sq_post(&m->sq, m->sq.counter++, w, c);
	if (ring_db_ring((void *)m->p.db, m->qp.db_slot))
		assert_int_equal(write(m->p.kick_fd, &one, sizeof(one)), sizeof(one));
}

/** @return the next frame that is RoCE, or that isn't; others are passed over. */
static struct rte_mbuf *
next_frame(bool roce, struct wire_pkt *p, unsigned int timeout_ms)
{
	struct rte_mbuf *m;

	while ((m = daemon_wire_take(timeout_ms)) != NULL) {
		if ((wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, true, p) == WIRE_OK) == roce)
			return m;
		rte_pktmbuf_free(m);
	}
	return NULL;
}

/** The network hears of joining (IGMPv3 record 4) or leaving (3) 239.18.0.1, twice. */
static void
expect_igmp(uint8_t record)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct wire_pkt p;
		struct rte_mbuf *m = next_frame(false, &p, WAIT_MS);
		const uint8_t *f;

		assert_non_null(m);
		f = rte_pktmbuf_mtod(m, const uint8_t *);
		assert_int_equal(m->data_len, 54);
		assert_memory_equal(f, ((const uint8_t[]){ 1, 0, 0x5e, 0, 0, 0x16 }), 6);
		assert_int_equal(f[23], 2);
		assert_int_equal(f[38 + 8], record);
		assert_memory_equal(f + 38 + 12, group4 + 12, 4);
		rte_pktmbuf_free(m);
	}
}

/** A datagram from 198.18.0.9 or fd00:18::9 to a group. */
static void
put_datagram(const uint8_t mgid[16], uint8_t fill)
{
	bool v6 = mgid[0] == 0xff;
	struct wire_addr a = { .dmac = { 0x33, 0x33 }, .smac = { 2, 0, 0, 0, 0, 9 }, .ip_version = v6 ? 6 : 4, .ttl = 1,
			       .sport = 0xc000, .sip = { 198, 18, 0, 9 } };
	const struct wire_opcode *op = &wire_opcodes[WIRE_UD | WIRE_OP_SEND_ONLY];
	struct wire_bth b = { .opcode = WIRE_UD | WIRE_OP_SEND_ONLY, .dqpn = WIRE_QPN_MULTICAST, .pkey = 0xffff };
	uint16_t l4 = (uint16_t)(op->hdr_bytes + 100 + WIRE_ICRC_BYTES);
	uint8_t frame[300] = { 0 };
	struct wire_tmpl t;

	memcpy(a.dip, mgid + (v6 ? 0 : 12), v6 ? 16 : 4);
	wire_tmpl_build(&t, &a);
	wire_tmpl_write(&t, frame, l4, 0);
	wire_put_bth(frame + t.bth_off, &b);
	wire_put_deth(frame + t.bth_off + op->off_deth, QKEY, 0x99);
	memset(frame + t.bth_off + op->hdr_bytes, fill, 100);
	wire_tmpl_seal(&t, frame, l4);
	daemon_wire_put(frame, t.bth_off + l4);
}

static void
expect_datagram(struct member *m, uint8_t fill, uint32_t src_qpn)
{
	struct ring_cqe e;
	const uint8_t *in;

	assert_true(poll_cq(m, &e, WAIT_MS));
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	assert_int_equal(e.byte_len, 140);
	assert_int_equal(e.src_qp, src_qpn);
	in = m->mem + e.wr_id % DEPTH * ROOM + 40;
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(in[i], fill);
	post_recv(m);
}

static void
members_get_what_comes_and_the_network_knows_them(void **state)
{
	struct member a, b;
	struct ring_cqe e;

	member_up(&a);
	member_up(&b);
	assert_int_equal(mcast(&a, CTL_MCAST_ATTACH, a.qp_handle, group4), 0);
	expect_igmp(4);
	/* One member more or less on this host is no news. */
	assert_int_equal(mcast(&b, CTL_MCAST_ATTACH, b.qp_handle, group4), 0);
	assert_int_equal(mcast(&b, CTL_MCAST_ATTACH, b.qp_handle, group4), 0);
	assert_int_equal(daemon_counts().attached, 2);
	put_datagram(group4, 7);
	expect_datagram(&a, 7, 0x99);
	expect_datagram(&b, 7, 0x99);
	put_datagram(group6, 8);
	assert_false(poll_cq(&a, &e, QUIET_MS));
	assert_int_equal(mcast(&a, CTL_MCAST_DETACH, a.qp_handle, group4), 0);
	assert_int_equal(mcast(&a, CTL_MCAST_DETACH, a.qp_handle, group4), EINVAL);
	put_datagram(group4, 9);
	expect_datagram(&b, 9, 0x99);
	assert_false(poll_cq(&a, &e, QUIET_MS));
	/* The last one goes with its session. */
	member_down(&b);
	expect_igmp(3);
	assert_int_equal(daemon_counts().attached, 0);
	member_down(&a);
	assert_true(daemon_wait_empty());
}

static void
what_is_sent_goes_out_and_to_members_here(void **state)
{
	static const uint8_t mac4[6] = { 1, 0, 0x5e, 18, 0, 1 }, mac6[6] = { 0x33, 0x33, 0, 0x18, 0, 1 };

	for (unsigned int v6 = 0; v6 < 2; v6++) {
		const uint8_t *g = v6 ? group6 : group4;
		struct member a, b;
		struct ring_cqe e;
		struct rte_mbuf *m;
		struct wire_pkt p;

		member_up(&a);
		member_up(&b);
		assert_int_equal(mcast(&b, CTL_MCAST_ATTACH, b.qp_handle, g), 0);
		memset(a.mem + DEPTH * ROOM, 0x42, 100);
		send_to_group(&a, g, 100);
		assert_true(poll_cq(&a, &e, WAIT_MS));
		assert_int_equal(e.status, UROCE_WC_SUCCESS);
		assert_int_equal(e.wr_id, 77);
		expect_datagram(&b, 0x42, a.qpn);
		/* Who isn't attached gets none, though it sent it. */
		assert_false(poll_cq(&a, &e, QUIET_MS));
		m = next_frame(true, &p, WAIT_MS);
		assert_non_null(m);
		assert_memory_equal(p.l2, v6 ? mac6 : mac4, 6);
		assert_int_equal(p.bth.dqpn, WIRE_QPN_MULTICAST);
		assert_true(p.sport >= 0xc000);
		assert_int_equal(p.payload_bytes, 100);
		rte_pktmbuf_free(m);
		/* Attached, the sender is a member like any other. */
		assert_int_equal(mcast(&a, CTL_MCAST_ATTACH, a.qp_handle, g), 0);
		send_to_group(&a, g, 100);
		for (unsigned int i = 0; i < 2; i++) {
			assert_true(poll_cq(&a, &e, WAIT_MS));
			assert_int_equal(e.status, UROCE_WC_SUCCESS);
		}
		expect_datagram(&b, 0x42, a.qpn);
		m = next_frame(true, &p, WAIT_MS);
		assert_non_null(m);
		rte_pktmbuf_free(m);
		member_down(&a);
		member_down(&b);
		assert_true(daemon_wait_empty());
	}
}

static void
wrong_attachments_are_refused(void **state)
{
	struct ctl_req q = peer_req(CTL_QP_DESTROY);
	struct member a, b;
	struct ctl_rsp r;
	uint32_t rc_qp;

	member_up(&a);
	member_up(&b);
	rc_qp = new_qp(&a, UROCE_QPT_RC);
	assert_int_equal(mcast(&a, CTL_MCAST_ATTACH, rc_qp, group4), EINVAL);
	assert_int_equal(mcast(&a, CTL_MCAST_ATTACH, a.qp_handle, host_gid), EINVAL);
	assert_int_equal(mcast(&a, CTL_MCAST_ATTACH, 0xffffffff, group4), EINVAL);
	assert_int_equal(mcast(&a, CTL_MCAST_DETACH, a.qp_handle, group4), EINVAL);
	/* Another session's attachment is no business of ours. */
	assert_int_equal(mcast(&b, CTL_MCAST_ATTACH, b.qp_handle, group4), 0);
	assert_int_equal(mcast(&a, CTL_MCAST_DETACH, a.qp_handle, group4), EINVAL);
	assert_int_equal(daemon_counts().attached, 1);
	q.handle.handle = b.qp_handle;
	assert_int_equal(peer_call(b.p.sock, &q, NULL, 0, &r, NULL, 0), EBUSY);
	assert_int_equal(mcast(&b, CTL_MCAST_DETACH, b.qp_handle, group4), 0);
	assert_int_equal(peer_call(b.p.sock, &q, NULL, 0, &r, NULL, 0), 0);
	assert_int_equal(daemon_counts().attached, 0);
	member_down(&a);
	member_down(&b);
	assert_true(daemon_wait_empty());
}

static void
limits_hold_and_everything_goes_with_the_session(void **state)
{
	uint32_t handles[UROCE_MAX_MCAST_ATTACH + 1];
	uint8_t g[16] = { 0xff, 0x01 };
	struct member a;
	uint32_t i;

	/* Here the limits of the table are to be met, not those of the program. */
	daemon_control()->s.conf->session_max_mcast = daemon_control()->s.conf->user_max_mcast = 0;
	member_up(&a);
	for (i = 0; i <= UROCE_MAX_MCAST_ATTACH; i++) {
		handles[i] = new_qp(&a, UROCE_QPT_UD);
		assert_int_equal(mcast(&a, CTL_MCAST_ATTACH, handles[i], g), i == UROCE_MAX_MCAST_ATTACH ? ENOMEM : 0);
	}
	/* One group is there already. */
	for (i = 1; i <= UROCE_MAX_MCAST_GROUPS; i++) {
		wire_put32(g + 12, i);
		assert_int_equal(mcast(&a, CTL_MCAST_ATTACH, handles[0], g), i == UROCE_MAX_MCAST_GROUPS ? ENOMEM : 0);
	}
	assert_int_equal(daemon_counts().attached, UROCE_MAX_MCAST_ATTACH + UROCE_MAX_MCAST_GROUPS - 1);
	member_down(&a);
	assert_true(daemon_wait_empty());
	assert_int_equal(daemon_counts().attached, 0);
	assert_int_equal(daemon_counts().qps, 0);
}

static void
members_that_are_killed_leave_nothing(void **state)
{
	for (unsigned int k = 0; k < 3; k++) {
		struct member a;
		struct rte_mbuf *m;
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			member_up(&a);
			if (mcast(&a, CTL_MCAST_ATTACH, a.qp_handle, group4) != 0 ||
			    mcast(&a, CTL_MCAST_ATTACH, a.qp_handle, group6) != 0)
				_exit(1);
			for (unsigned int i = 0; i < 1000; i++)
				send_to_group(&a, group4, 100);
			kill(getpid(), SIGKILL);
		}
		/* Datagrams arrive all the while. */
		while (waitpid(pid, &status, WNOHANG) == 0) {
			put_datagram(group4, 1);
			while ((m = daemon_wire_take(0)) != NULL)
				rte_pktmbuf_free(m);
			usleep(200);
		}
		assert_true(WIFSIGNALED(status));
		assert_true(daemon_wait_empty());
		assert_int_equal(daemon_counts().attached, 0);
		assert_int_equal(daemon_counts().qps, 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_get_what_comes_and_the_network_knows_them),
		cmocka_unit_test(what_is_sent_goes_out_and_to_members_here),
		cmocka_unit_test(wrong_attachments_are_refused),
		cmocka_unit_test(limits_hold_and_everything_goes_with_the_session),
		cmocka_unit_test(members_that_are_killed_leave_nothing),
	};

	return DAEMON_TESTS(tests, 8, MAX_QP, NULL);
}
