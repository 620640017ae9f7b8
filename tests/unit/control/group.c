/* SPDX-License-Identifier: BSD-3-Clause */
#include "group.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/core/control_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "transport/core/types_priv.h"

/* ---- Making one ---- */
void
group_begin(struct group *g)
{
	uint8_t buf[CTL_REQ_BYTES + sizeof(struct ctl_seg)] = { 0 };
	struct ctl_req *q = (void *)buf, cq = peer_req(CTL_CQ_CREATE);
	struct ctl_rsp r;
	int fd = -1;

	memset(g, 0, sizeof(*g));
	peer_open(&g->p);
	g->pd = peer_pd(g->p.sock);
	cq.cq_create.cqe = 256;
	peer_must(g->p.sock, &cq, &r, &fd);
	g->cq = r.cq_create;
	peer_segment(&g->p, &g->cq.seg, fd);
	g->cq_ring = (struct ring){ .base = peer_area(&g->p, &g->cq.ring), RING_SIZE(g->cq.order, 5) };
	g->mem = mmap(NULL, GROUP_MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, g->p.mem_fd, 1 << 20);
	assert_ptr_not_equal(g->mem, MAP_FAILED);
	*q = peer_req(CTL_MR_REG);
	q->mr_reg = (struct ctl_mr_reg_req){ .pd = g->pd, .addr = (uintptr_t)g->mem, .iova = (uintptr_t)g->mem, .length = GROUP_MEM_BYTES, .nb_segs = 1,
					     .nb_in_msg = 1, .access = UROCE_ACCESS_LOCAL_WRITE };
	memcpy(buf + CTL_REQ_BYTES, &(struct ctl_seg){ .va = (uintptr_t)g->mem, .length = GROUP_MEM_BYTES, .kind = CTL_SEG_CONVERTED, .offset = 1 << 20 },
	       sizeof(struct ctl_seg));
	assert_int_equal(peer_send(g->p.sock, buf, sizeof(buf), NULL, 0), 0);
	assert_true(peer_recv(g->p.sock, &r, NULL, 0));
	assert_int_equal(r.status, 0);
	g->lkey = r.mr_reg.lkey;
}

/** Its receives name the slot by their wr_id. */
static void
post_slot(struct group *g, uint32_t slot)
{
	struct queue *srq = &g->srq[slot / GROUP_SLOTS];
	struct ring_rq_wqe *w = ring_slot(&srq->ring, srq->ring.counter);

	w->wr_id = slot;
	w->sge[0] = (struct ring_sge){ .addr = (uintptr_t)(g->mem + slot * GROUP_MSG_BYTES), .length = GROUP_MSG_BYTES, .lkey = g->lkey };
	ring_rq_post(&srq->ring, srq->ring.counter++, w, 1);
}

void
group_new_srq(struct group *g, bool xrc)
{
	struct ctl_req q = peer_req(CTL_SRQ_CREATE);
	struct queue *srq = &g->srq[g->nb_srqs];
	struct ctl_rsp r;
	int fd = -1;

	q.srq_create = (struct ctl_srq_create_req){ .pd = g->pd, .max_wr = GROUP_SLOTS, .max_sge = 1, .cookie = 55 + g->nb_srqs, .is_xrc = xrc,
						    .xrcd = g->xrcd, .cq = g->cq.handle };
	peer_must(g->p.sock, &q, &r, &fd);
	srq->made = r.srq_create;
	peer_segment(&g->p, &srq->made.seg, fd);
	srq->ring = (struct ring){ .base = peer_area(&g->p, &srq->made.ring), RING_SIZE(srq->made.order, srq->made.shift) };
	g->nb_srqs++;
}

struct ctl_qp_create_rsp
group_new_qp(struct group *g, uint32_t type, uint32_t srq)
{
	struct ctl_req q = peer_req(CTL_QP_CREATE);
	struct ctl_rsp r;
	int fd = -1;

	q.qp_create = (struct ctl_qp_create_req){ .type = type, .pd = g->pd, .send_cq = g->cq.handle, .recv_cq = g->cq.handle, .srq = srq,
						  .xrcd = g->xrcd, .cap = { 16, 16, 1, 1, 0 } };
	peer_must(g->p.sock, &q, &r, type != UROCE_QPT_XRC_RECV ? &fd : NULL);
	if (fd >= 0)
		peer_segment(&g->p, &r.qp_create.seg, fd);
	return r.qp_create;
}

static void
modify(struct group *g, uint32_t handle, const struct uroce_qp_attr *a, uint32_t mask)
{
	struct ctl_req q = peer_req(CTL_QP_MODIFY);
	struct ctl_rsp r;

	q.qp_modify.handle = handle;
	q.qp_modify.mask = mask | UROCE_QP_STATE;
	q.qp_modify.attr = *a;
	peer_must(g->p.sock, &q, &r, NULL);
}

/** @param responds, requests  What an XRC QP doesn't do it has no attributes for. */
static void
to_rts(struct group *g, uint32_t handle, uint32_t peer_qpn, bool responds, bool requests)
{
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_INIT, .port_num = 1 };

	modify(g, handle, &a, UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS);
	a = (struct uroce_qp_attr){
		.qp_state = UROCE_QPS_RTR,
		.path_mtu = UROCE_MTU_1024,
		.dest_qp_num = peer_qpn,
		.rq_psn = 100,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah = { .dgid = { [10] = 0xff, 0xff, 198, 18, 0, 1 }, .sgid_index = 1, .hop_limit = 64, .is_global = 1, .port_num = 1 },
	};
	modify(g, handle, &a, UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
			      (responds ? UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER : 0));
	a = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_RTS, .sq_psn = 100, .timeout = 17, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4 };
	modify(g, handle, &a, UROCE_QP_SQ_PSN | UROCE_QP_TIMEOUT |
			      (requests ? UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_MAX_QP_RD_ATOMIC : 0));
}

void
group_open_domain(struct group *g, int file)
{
	struct ctl_req q = peer_req(CTL_XRCD_OPEN);
	struct ctl_rsp r;

	q.xrcd_open.oflags = O_CREAT;
	assert_int_equal(peer_call(g->p.sock, &q, &file, file >= 0, &r, NULL, 0), 0);
	g->xrcd = r.handle.handle;
}

void
group_open(struct group *g, bool xrc)
{
	group_begin(g);
	if (xrc)
		group_open_domain(g, -1);
	for (int i = 0; i < (xrc ? GROUP_XRC_SRQS : 1); i++)
		group_new_srq(g, xrc);
	for (int i = 0; i < GROUP_MEMBERS; i++) {
		g->send[i].qp = group_new_qp(g, xrc ? UROCE_QPT_XRC_SEND : UROCE_QPT_RC, UINT32_MAX);
		g->send[i].sq = (struct ring){ .base = peer_area(&g->p, &g->send[i].qp.sq), RING_SIZE(g->send[i].qp.sq_order, g->send[i].qp.sq_shift) };
		g->recv[i] = group_new_qp(g, xrc ? UROCE_QPT_XRC_RECV : UROCE_QPT_RC, g->srq[0].made.handle);
		to_rts(g, g->send[i].qp.handle, g->recv[i].qpn, !xrc, true);
		to_rts(g, g->recv[i].handle, g->send[i].qp.qpn, true, !xrc);
	}
	for (uint32_t i = 0; i < g->nb_srqs * GROUP_SLOTS; i++)
		post_slot(g, i);
}

void
group_forget_memory(struct group *g)
{
	munmap(g->mem, GROUP_MEM_BYTES);
}

void
group_close(struct group *g)
{
	peer_close(&g->p);
	group_forget_memory(g);
	assert_true(daemon_wait_empty());
}

/* ---- Messages ---- */
static uint8_t
byte_of(int sender, uint32_t message, uint32_t at)
{
	return (uint8_t)(sender * 61 + message * 7 + at * 3);
}

static void
send_next(struct group *g, int i)
{
	struct end *e = &g->send[i];
	struct ring_sq_wqe *w = ring_slot(&e->sq, e->sq.counter);
	uint32_t n = g->sent[i]++, slot = GROUP_XRC_SRQS * GROUP_SLOTS + (uint32_t)i * GROUP_IN_FLIGHT + n % GROUP_IN_FLIGHT;
	uint8_t *from = g->mem + slot * GROUP_MSG_BYTES;
	const union ring_sq_ctl c = { .opcode = UROCE_WR_SEND, .flags = UROCE_SEND_SIGNALED, .count = 1,
				      .srqn = g->srq[n % g->nb_srqs].made.srqn };
	struct ring_qp_shared *sh = peer_area(&g->p, &e->qp.shared);
	uint64_t one = 1;

	for (uint32_t k = 0; k < GROUP_MSG_BYTES; k++)
		from[k] = byte_of(i, n, k);
	w->wr_id = 1000 + (uint32_t)i;
	*wqe_sges(w, UROCE_WR_SEND) = (struct ring_sge){ (uintptr_t)from, GROUP_MSG_BYTES, g->lkey };
	ring_sq_post(&e->sq, e->sq.counter++, w, c);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&sh->sq_watch) == 0 && ring_db_ring((void *)(g->p.db + e->qp.engine * g->p.dev.db_stride), e->qp.db_slot))
		assert_int_equal(write(g->p.kick_fd, &one, sizeof(one)), sizeof(one));
}

/** A message of each sender comes once, in the order in which they were sent, with all of its bytes. */
static void
take_receive(struct group *g, const struct ring_cqe *e)
{
	uint32_t slot = (uint32_t)e->wr_id, n;
	int i = 0;

	while (i < GROUP_MEMBERS && g->recv[i].qpn != e->qpn)
		i++;
	assert_in_range(i, 0, GROUP_MEMBERS - 1);
	n = g->came[i]++;
	assert_int_equal(e->byte_len, GROUP_MSG_BYTES);
	assert_int_equal(slot / GROUP_SLOTS, n % g->nb_srqs);
	for (uint32_t k = 0; k < GROUP_MSG_BYTES; k++)
		assert_int_equal(g->mem[slot * GROUP_MSG_BYTES + k], byte_of(i, n, k));
	post_slot(g, slot);
}

void
group_take(struct group *g)
{
	struct ring_cq_shared *sh = peer_area(&g->p, &g->cq.shared);
	union ring_cqe_ctl ctl;
	struct ring_cqe e;

	for (int i = 0; !ring_cq_ready(&g->cq_ring, g->cq_ring.counter, &ctl); i++) {
		assert_in_range(i, 0, 50000);
		usleep(100);
	}
	memcpy(&e, ring_slot(&g->cq_ring, g->cq_ring.counter), sizeof(e));
	atomic_store(&sh->cons, ++g->cq_ring.counter);
	assert_int_equal(e.status, UROCE_WC_SUCCESS);
	if (ctl.is_recv)
		take_receive(g, &e);
	else
		g->acked[e.wr_id - 1000]++;
}

void
group_fill(struct group *g, uint32_t most)
{
	for (int i = 0; i < GROUP_MEMBERS; i++)
		while (g->sent[i] - g->acked[i] < GROUP_IN_FLIGHT && g->sent[i] < most)
			send_next(g, i);
}

bool
group_done(const struct group *g, uint32_t most)
{
	for (int i = 0; i < GROUP_MEMBERS; i++)
		if (g->acked[i] != most || g->came[i] != most)
			return false;
	return true;
}

/* ---- What the daemon says ---- */
void
group_all_are_at(struct control *c, unsigned int engine)
{
	const struct obj_srq *srq;
	const struct obj_qp *qp;
	struct session *s;

	control_lock(c);
	TAILQ_FOREACH(s, &c->sessions, link) {
		for (uint32_t pos = 0; (qp = handles_next(&s->tab[OBJ_QP], &pos)) != NULL;) {
			if (qp->srq == NULL && qp->target == NULL)
				continue;
			assert_int_equal(qp->engine, engine);
			assert_int_equal(qp_engine(qp->qp), engine);
		}
		for (uint32_t pos = 0; (srq = handles_next(&s->tab[OBJ_SRQ], &pos)) != NULL;) {
			assert_int_equal(srq->engine, engine);
			assert_ptr_equal(srq->srq->tp, engine_transport(c->s.engines[engine]));
			assert_true(srq->xrcd == NULL || srq->xrcd->xrcd->engine == engine);
		}
	}
	control_unlock(c);
}
