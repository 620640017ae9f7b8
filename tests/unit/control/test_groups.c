/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs that share an SRQ or an XRC domain move as one, while messages arrive for all of them; if one of them can't, none does. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include "control/observe/inspect_priv.h"
#include "transport/core/copy_priv.h"
#include "pair.h"

enum {
	MEMBERS = 4,           /* QPs that receive from the SRQ */
	SLOTS = 32,            /* receives that are posted, */
	MSG_BYTES = 2500,      /* of three packets each */
	IN_FLIGHT = 3,         /* messages of a sender */
	MESSAGES = 2000,
	MOVE_EVERY = 16,       /* one move in so many messages */
	XRC_SRQS = 2,
	EVENT_WAIT_MS = 5000,
	MANY = ENGINE_MOVE_MOST,
	MEM_BYTES = (XRC_SRQS * SLOTS + MEMBERS * IN_FLIGHT) * MSG_BYTES,
};

struct queue {
	struct ctl_srq_create_rsp made;
	struct ring ring;
};

/* Senders, each of which sends to one receiver; one CQ has the completions of all of them. */
struct group {
	struct peer p;
	uint32_t pd, lkey, xrcd;
	struct ctl_cq_create_rsp cq;
	struct ring cq_ring;
	struct queue srq[XRC_SRQS];
	unsigned int nb_srqs;
	struct end send[MEMBERS];
	struct ctl_qp_create_rsp recv[MEMBERS];
	uint8_t *mem;          /* a slot for each receive of each SRQ, then one for each message of each sender */
	uint32_t sent[MEMBERS], acked[MEMBERS], came[MEMBERS];
};

/* ---- Making one ---- */
static void
make_cq_and_memory(struct group *g)
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
	g->cq_ring = (struct ring){ .base = peer_area(&g->p, &g->cq.ring), .order = g->cq.order, .shift = 5 };
	g->mem = mmap(NULL, MEM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, g->p.mem_fd, 1 << 20);
	assert_ptr_not_equal(g->mem, MAP_FAILED);
	*q = peer_req(CTL_MR_REG);
	q->mr_reg = (struct ctl_mr_reg_req){ .pd = g->pd, .addr = (uintptr_t)g->mem, .iova = (uintptr_t)g->mem, .length = MEM_BYTES, .nb_segs = 1,
					     .nb_in_msg = 1, .access = UROCE_ACCESS_LOCAL_WRITE };
	memcpy(buf + CTL_REQ_BYTES, &(struct ctl_seg){ .va = (uintptr_t)g->mem, .length = MEM_BYTES, .kind = CTL_SEG_CONVERTED, .offset = 1 << 20 },
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
	struct queue *srq = &g->srq[slot / SLOTS];
	struct ring_rq_wqe *w = ring_slot(&srq->ring, srq->ring.counter);

	w->wr_id = slot;
	w->sge[0] = (struct ring_sge){ .addr = (uintptr_t)(g->mem + slot * MSG_BYTES), .length = MSG_BYTES, .lkey = g->lkey };
	ring_rq_post(&srq->ring, srq->ring.counter++, w, 1);
}

static void
make_srq(struct group *g, bool xrc)
{
	struct ctl_req q = peer_req(CTL_SRQ_CREATE);
	struct queue *srq = &g->srq[g->nb_srqs];
	struct ctl_rsp r;
	int fd = -1;

	q.srq_create = (struct ctl_srq_create_req){ .pd = g->pd, .max_wr = SLOTS, .max_sge = 1, .cookie = 55 + g->nb_srqs, .is_xrc = xrc,
						    .xrcd = g->xrcd, .cq = g->cq.handle };
	peer_must(g->p.sock, &q, &r, &fd);
	srq->made = r.srq_create;
	peer_segment(&g->p, &srq->made.seg, fd);
	srq->ring = (struct ring){ .base = peer_area(&g->p, &srq->made.ring), .order = srq->made.order, .shift = srq->made.shift };
	g->nb_srqs++;
}

static struct ctl_qp_create_rsp
make_qp(struct group *g, uint32_t type, uint32_t srq)
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

/** @param file  -1: a domain that is the session's own. */
static void
open_domain(struct group *g, int file)
{
	struct ctl_req q = peer_req(CTL_XRCD_OPEN);
	struct ctl_rsp r;

	q.xrcd_open.oflags = O_CREAT;
	assert_int_equal(peer_call(g->p.sock, &q, &file, file >= 0, &r, NULL, 0), 0);
	g->xrcd = r.handle.handle;
}

static void
group_open(struct group *g, bool xrc)
{
	make_cq_and_memory(g);
	if (xrc)
		open_domain(g, -1);
	for (int i = 0; i < (xrc ? XRC_SRQS : 1); i++)
		make_srq(g, xrc);
	for (int i = 0; i < MEMBERS; i++) {
		g->send[i].qp = make_qp(g, xrc ? UROCE_QPT_XRC_SEND : UROCE_QPT_RC, UINT32_MAX);
		g->send[i].sq = (struct ring){ .base = peer_area(&g->p, &g->send[i].qp.sq), .order = g->send[i].qp.sq_order,
					       .shift = g->send[i].qp.sq_shift };
		g->recv[i] = make_qp(g, xrc ? UROCE_QPT_XRC_RECV : UROCE_QPT_RC, g->srq[0].made.handle);
		to_rts(g, g->send[i].qp.handle, g->recv[i].qpn, !xrc, true);
		to_rts(g, g->recv[i].handle, g->send[i].qp.qpn, true, !xrc);
	}
	for (uint32_t i = 0; i < g->nb_srqs * SLOTS; i++)
		post_slot(g, i);
}

static void
forget_memory(struct group *g)
{
	munmap(g->mem, MEM_BYTES);
}

static void
group_close(struct group *g)
{
	peer_close(&g->p);
	forget_memory(g);
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
	uint32_t n = g->sent[i]++, slot = XRC_SRQS * SLOTS + (uint32_t)i * IN_FLIGHT + n % IN_FLIGHT;
	uint8_t *from = g->mem + slot * MSG_BYTES;
	const union ring_sq_ctl c = { .opcode = UROCE_WR_SEND, .flags = UROCE_SEND_SIGNALED, .count = 1,
				      .srqn = g->srq[n % g->nb_srqs].made.srqn };
	struct ring_qp_shared *sh = peer_area(&g->p, &e->qp.shared);
	uint64_t one = 1;

	for (uint32_t k = 0; k < MSG_BYTES; k++)
		from[k] = byte_of(i, n, k);
	w->wr_id = 1000 + (uint32_t)i;
	*wqe_sges(w, UROCE_WR_SEND) = (struct ring_sge){ (uintptr_t)from, MSG_BYTES, g->lkey };
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

	while (i < MEMBERS && g->recv[i].qpn != e->qpn)
		i++;
	assert_in_range(i, 0, MEMBERS - 1);
	n = g->came[i]++;
	assert_int_equal(e->byte_len, MSG_BYTES);
	assert_int_equal(slot / SLOTS, n % g->nb_srqs);
	for (uint32_t k = 0; k < MSG_BYTES; k++)
		assert_int_equal(g->mem[slot * MSG_BYTES + k], byte_of(i, n, k));
	post_slot(g, slot);
}

static void
take_completion(struct group *g)
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

static void
fill(struct group *g, uint32_t most)
{
	for (int i = 0; i < MEMBERS; i++)
		while (g->sent[i] - g->acked[i] < IN_FLIGHT && g->sent[i] < most)
			send_next(g, i);
}

static bool
all_done(const struct group *g, uint32_t most)
{
	for (int i = 0; i < MEMBERS; i++)
		if (g->acked[i] != most || g->came[i] != most)
			return false;
	return true;
}

/* ---- What the daemon says ---- */
static unsigned int
engine_of(uint32_t qpn)
{
	struct session *s;
	struct obj_qp *qp;
	unsigned int engine;

	control_lock(daemon_control());
	qp = inspect_find_one(daemon_control(), INSPECT_QP, qpn, &s);
	assert_non_null(qp);
	engine = qp->engine;
	assert_int_equal(qp_engine(qp->qp), engine);
	control_unlock(daemon_control());
	return engine;
}

/** @return what came in another order than it was sent, or was dropped. (An engine that others keep from its core may send a probe.) */
static uint64_t
disorder(void)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < daemon_engines; i++) {
		const struct tp_counters *c = transport_counters(engine_transport(daemon_control()->s.engines[i]));

		n += c->out_of_sequence + c->packet_seq_err + c->implied_nak_seq_err + c->rx_held + c->rx_moving_dropped;
	}
	return n;
}

/** All that shares an SRQ or a domain, in all programs, is at @p engine, and the control thread knows it. */
static void
all_are_at(unsigned int engine)
{
	struct control *c = daemon_control();
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

/** Move the group of a QP and see that all others have moved with it. @return how many have. */
static unsigned int
must_move(uint32_t qpn, unsigned int engine)
{
	bool there = engine_of(qpn) == engine;
	struct control_moved moved;

	assert_int_equal(daemon_move(qpn, engine, &moved), 0);
	assert_int_equal(moved.qps, there ? 0 : MEMBERS);
	all_are_at(engine);
	return moved.qps;
}

/** Any receiver moves all of them; senders move one by one. */
static void
messages_go_on_while_it_moves(struct group *g)
{
	const struct moves *n = &daemon_control()->moves;
	uint64_t before = disorder(), moved = 0, done = n->done;
	struct control_moved one;
	uint32_t k = 0;

	for (fill(g, MESSAGES); !all_done(g, MESSAGES); fill(g, MESSAGES), k++) {
		take_completion(g);
		if (k % MOVE_EVERY != 0)
			continue;
		if (k / MOVE_EVERY % 3 == 2) {
			assert_int_equal(daemon_move(g->send[k / MOVE_EVERY % MEMBERS].qp.qpn, k / MOVE_EVERY / 5 & 1, &one), 0);
			assert_in_range(one.qps, 0, 1);
			moved += one.qps;
		} else {
			moved += must_move(g->recv[k / MOVE_EVERY % MEMBERS].qpn, k / MOVE_EVERY & 1);
		}
	}
	assert_true(moved > MEMBERS * MESSAGES / MOVE_EVERY);
	assert_int_equal(n->done - done, moved);
	assert_int_equal(disorder(), before);
}

/* ---- SRQs ---- */
static void
qps_of_an_srq_move_while_messages_arrive(void **state)
{
	struct group g;

	group_open(&g, false);
	messages_go_on_while_it_moves(&g);
	group_close(&g);
}

/** An engine has no way to take a receive of an SRQ that is elsewhere: a QP that is made later is at the SRQ's engine, too. */
static void
qp_made_later_is_where_the_srq_is(void **state)
{
	struct ctl_qp_create_rsp qp;
	struct control_moved moved;
	struct group g;

	group_open(&g, false);
	for (unsigned int k = 0; k < 2; k++) {
		must_move(g.recv[0].qpn, k);
		qp = make_qp(&g, UROCE_QPT_RC, g.srq[0].made.handle);
		assert_int_equal(qp.engine, k);
		assert_int_equal(daemon_move(qp.qpn, !k, &moved), 0);
		assert_int_equal(moved.qps, MEMBERS + 1);
		assert_int_equal(engine_of(g.recv[1].qpn), !k);
		assert_int_equal(peer_handle(g.p.sock, CTL_QP_DESTROY, qp.handle), 0);
	}
	group_close(&g);
}

static void
set_limit(struct group *g, uint32_t limit)
{
	struct ctl_req q = peer_req(CTL_SRQ_MODIFY);
	struct ctl_rsp r;

	q.srq_modify = (struct ctl_srq_modify_req){ .handle = g->srq[0].made.handle, .mask = 2, .limit = limit };
	peer_must(g->p.sock, &q, &r, NULL);
}

static unsigned int
limit_events(struct group *g, int wait_ms)
{
	struct pollfd fd = { .fd = g->p.async_fd, .events = POLLIN };
	struct ctl_async_event ev;
	unsigned int n = 0;

	while (poll(&fd, 1, n == 0 ? wait_ms : 50) == 1) {
		assert_int_equal(read(g->p.async_fd, &ev, sizeof(ev)), sizeof(ev));
		assert_int_equal(ev.type, UROCE_EVENT_SRQ_LIMIT_REACHED);
		assert_int_equal(ev.cookie, 55);
		n++;
	}
	return n;
}

static void
limit_of_an_srq_that_has_moved_is_told_once(void **state)
{
	struct ctl_req q = peer_req(CTL_SRQ_QUERY);
	struct ctl_rsp r;
	struct group g;

	group_open(&g, false);
	for (uint32_t k = 1; k <= 4; k++) {
		/* All slots are posted again as they complete: the SRQ comes below its limit with the first message. */
		set_limit(&g, SLOTS);
		must_move(g.recv[k % MEMBERS].qpn, k & 1);
		q.handle.handle = g.srq[0].made.handle;
		peer_must(g.p.sock, &q, &r, NULL);
		assert_int_equal(r.srq_query.limit, SLOTS);
		assert_int_equal(limit_events(&g, 0), 0);
		for (fill(&g, k * IN_FLIGHT); !all_done(&g, k * IN_FLIGHT);)
			take_completion(&g);
		assert_int_equal(limit_events(&g, EVENT_WAIT_MS), 1);
		peer_must(g.p.sock, &q, &r, NULL);
		assert_int_equal(r.srq_query.limit, 0);
	}
	group_close(&g);
}

static void
sessions_end_with_an_srq_elsewhere(void **state)
{
	struct daemon_counts before, after;
	struct group g;

	assert_true(daemon_wait_empty());
	before = daemon_counts();
	for (unsigned int k = 0; k < 8; k++) {
		group_open(&g, (k & 4) != 0);
		fill(&g, IN_FLIGHT);
		must_move(g.recv[k % MEMBERS].qpn, k & 1);
		if (k & 2)
			must_move(g.recv[0].qpn, !(k & 1));
		group_close(&g);
	}
	after = daemon_counts();
	assert_int_equal(after.qps, before.qps);
	assert_memory_equal(&before.control, &after.control, sizeof(before.control));
}

/* ---- XRC ---- */
static void
xrc_domain_moves_while_messages_arrive(void **state)
{
	struct group g;

	group_open(&g, true);
	messages_go_on_while_it_moves(&g);
	group_close(&g);
}

/** What another program has made of the domain, too, and what is made later. */
static void
parts_of_other_programs_move_with_the_domain(void **state)
{
	int file = memfd_create("xrc", MFD_CLOEXEC);
	struct ctl_req q = peer_req(CTL_QP_OPEN);
	struct ctl_qp_create_rsp target;
	struct control_moved moved;
	struct group a, b;
	struct ctl_rsp r;

	make_cq_and_memory(&a);
	make_cq_and_memory(&b);
	open_domain(&a, file);
	open_domain(&b, file);
	close(file);
	make_srq(&b, true);
	target = make_qp(&a, UROCE_QPT_XRC_RECV, UINT32_MAX);
	make_qp(&a, UROCE_QPT_XRC_RECV, UINT32_MAX);
	q.qp_open = (struct ctl_qp_open_req){ .xrcd = b.xrcd, .qpn = target.qpn, .type = UROCE_QPT_XRC_RECV };
	peer_must(b.p.sock, &q, &r, NULL);
	for (unsigned int k = 0; k < 3; k++) {
		unsigned int to = !engine_of(target.qpn);

		assert_int_equal(daemon_move(target.qpn, to, &moved), 0);
		/* A target that two programs have open is one QP. */
		assert_int_equal(moved.qps, 2);
		all_are_at(to);
		a.nb_srqs = 0;
		make_srq(&a, true);
		all_are_at(to);
		if (k != 0)
			assert_int_equal(peer_handle(a.p.sock, CTL_SRQ_DESTROY, a.srq[0].made.handle), 0);
	}
	assert_int_equal(peer_handle(b.p.sock, CTL_QP_DESTROY, r.qp_create.handle), 0);
	assert_int_equal(peer_handle(b.p.sock, CTL_SRQ_DESTROY, b.srq[0].made.handle), 0);
	forget_memory(&a);
	forget_memory(&b);
	peer_close(&a.p);
	peer_close(&b.p);
	assert_true(daemon_wait_empty());
}

/* ---- None moves ---- */
/** Have a QP look as if a copy for it were under way: one that never ends. */
static int
copy_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	static struct tp_copy busy = { .slots = { [COPY_SEND] = { .running = true } } };
	struct qp *qp = arg;

	qp->copy = qp->copy == NULL ? &busy : NULL;
	return 0;
}

static void
toggle_copy(uint32_t qpn)
{
	struct session *s;
	struct obj_qp *qp;

	control_lock(daemon_control());
	qp = inspect_find_one(daemon_control(), INSPECT_QP, qpn, &s);
	engine_call(daemon_control()->s.engines[qp->engine], copy_msg, qp->qp);
	control_unlock(daemon_control());
}

static void
one_that_can_not_move_keeps_the_others(void **state)
{
	const struct moves *n = &daemon_control()->moves;
	struct control_moved moved;
	struct group g;

	for (int xrc = 0; xrc < 2; xrc++) {
		uint64_t refused = n->refused, done = n->done;

		group_open(&g, xrc);
		must_move(g.recv[0].qpn, 0);
		done = n->done;
		for (int i = 0; i < MEMBERS; i++) {
			toggle_copy(g.recv[i].qpn);
			assert_int_equal(daemon_move(g.recv[(i + 1) % MEMBERS].qpn, 1, &moved), EBUSY);
			toggle_copy(g.recv[i].qpn);
			assert_int_equal(moved.qps, 0);
			assert_int_equal(n->refused, ++refused);
			for (int k = 0; k < MEMBERS; k++)
				assert_int_equal(engine_of(g.recv[k].qpn), 0);
		}
		assert_int_equal(n->done, done);
		for (fill(&g, IN_FLIGHT); !all_done(&g, IN_FLIGHT);)
			take_completion(&g);
		must_move(g.recv[0].qpn, 1);
		for (fill(&g, 2 * IN_FLIGHT); !all_done(&g, 2 * IN_FLIGHT);)
			take_completion(&g);
		group_close(&g);
	}
}

static void
too_many_stay(void **state)
{
	const struct moves *n = &daemon_control()->moves;
	struct ctl_qp_create_rsp last;
	struct control_moved moved;
	uint64_t refused;
	unsigned int at;
	struct group g;

	make_cq_and_memory(&g);
	open_domain(&g, -1);
	for (uint32_t i = 0; i < MANY; i++)
		last = make_qp(&g, UROCE_QPT_XRC_RECV, UINT32_MAX);
	at = engine_of(last.qpn);
	assert_int_equal(daemon_move(last.qpn, !at, &moved), 0);
	assert_int_equal(moved.qps, MANY);
	print_message("%d QPs moved together in %lu us\n", MANY, (unsigned long)moved.pause_ns / 1000);
	refused = n->refused;
	make_qp(&g, UROCE_QPT_XRC_RECV, UINT32_MAX);
	assert_int_equal(daemon_move(last.qpn, at, &moved), E2BIG);
	assert_int_equal(n->refused, refused + 1);
	all_are_at(!at);
	forget_memory(&g);
	peer_close(&g.p);
	assert_true(daemon_wait_empty());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(qps_of_an_srq_move_while_messages_arrive),
		cmocka_unit_test(qp_made_later_is_where_the_srq_is),
		cmocka_unit_test(limit_of_an_srq_that_has_moved_is_told_once),
		cmocka_unit_test(sessions_end_with_an_srq_elsewhere),
		cmocka_unit_test(xrc_domain_moves_while_messages_arrive),
		cmocka_unit_test(parts_of_other_programs_move_with_the_domain),
		cmocka_unit_test(one_that_can_not_move_keeps_the_others),
		cmocka_unit_test(too_many_stay),
	};

	daemon_engines = 2;
	return DAEMON_TESTS(tests, 100, 1000, NULL);
}
