/* SPDX-License-Identifier: BSD-3-Clause */
#include "program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "second.h"

enum { QKEY = 0x1234567, CM_PORT = 7471 };

static const uint8_t group[16] = { 0xff, 0x0e, [13] = 0x18, [15] = 1 };


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
					    .addr = va, .length = PROGRAM_MR_BYTES, .iova = va, .nb_segs = 1, .nb_in_msg = 1 };
	msg.q = q;
	msg.seg = (struct ctl_seg){ .va = va, .length = PROGRAM_MR_BYTES, .offset = kind == CTL_SEG_CONVERTED ? va & 4095 : 0, .kind = kind };
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

	m->memory = aligned_alloc(4096, PROGRAM_MR_BYTES);
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

void
program_begin(struct program *m)
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

void
program_end(struct program *m)
{
	peer_close(&m->p);
	close(m->cm_fd);
	close(m->channel_fds[0]);
	close(m->channel_fds[1]);
	free(m->memory);
}

static uint32_t
state_of(struct program *m, uint32_t handle)
{
	struct ctl_req q = peer_req(CTL_QP_QUERY);

	q.handle.handle = handle;
	return simple(m, q).qp_query.attr.qp_state;
}

void
program_check(struct program *m)
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
