/* SPDX-License-Identifier: BSD-3-Clause */
/* A daemon is killed while it executes a request, and another one gets the request once more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_common.h>

#include "control/core/control_priv.h"
#include "killed.h"
#include "pair.h"
#include "transport/transport.h"

enum { SENDS = 3, MESSAGE_BYTES = 64, COMPLETIONS = 4 * SENDS };

/* ---- The point at which the daemon is killed ---- */
static bool kill_in_resize, kill_in_modify;

uint32_t __real_cq_resize(struct cq *cq, const struct ring *ring, uint64_t *stamps);
uint32_t __wrap_cq_resize(struct cq *cq, const struct ring *ring, uint64_t *stamps);
int __real_qp_modify_paths(struct transport *tp, struct qp *qp, const struct uroce_qp_attr *attr, uint32_t mask, const struct tp_path *path,
			   const struct tp_path *alt, uint64_t now_ns);
int __wrap_qp_modify_paths(struct transport *tp, struct qp *qp, const struct uroce_qp_attr *attr, uint32_t mask, const struct tp_path *path,
			   const struct tp_path *alt, uint64_t now_ns);

uint32_t
__wrap_cq_resize(struct cq *cq, const struct ring *ring, uint64_t *stamps)
{
	if (kill_in_resize)
		killed_here();
	kill_in_resize = false;
	return __real_cq_resize(cq, ring, stamps);
}

int
__wrap_qp_modify_paths(struct transport *tp, struct qp *qp, const struct uroce_qp_attr *attr, uint32_t mask, const struct tp_path *path,
		       const struct tp_path *alt, uint64_t now_ns)
{
	if (kill_in_modify)
		killed_here();
	kill_in_modify = false;
	return __real_qp_modify_paths(tp, qp, attr, mask, path, alt, now_ns);
}

/** Have a request executed, whose answer is lost. */
static void
execute(struct peer *p, struct ctl_req *q, struct ctl_rsp *r)
{
	int fd = -1;

	peer_must(p->sock, q, r, &fd);
	if (q->op == CTL_CQ_RESIZE)
		peer_segment(p, &r->cq_resize.seg, fd);
}

/** Kill the daemon. The next one finds the request in the socket. */
static void
again(struct peer *p, const struct ctl_req *q, struct second_stream *records, struct ctl_rsp *r)
{
	int fd = -1;

	killed_now();
	assert_int_equal(peer_send(p->sock, q, sizeof(*q), NULL, 0), 0);
	killed_go_on(records);
	assert_true(peer_recv(p->sock, r, &fd, 1));
	if (r->status != 0)
		fail_msg("%d, %s", r->status, r->message);
	assert_int_equal(r->number, q->number);
	if (q->op == CTL_CQ_RESIZE)
		peer_segment(p, &r->cq_resize.seg, fd);
}

/* ---- A CQ is resized ---- */
static struct ring
ring_of(const struct pair *t, const struct ctl_rsp *r)
{
	return (struct ring){ .base = peer_area(&t->p, &r->cq_resize.ring), RING_SIZE(r->cq_resize.order, 5), .counter = t->cq_ring.counter };
}

static void
wait_for(const struct ring *ring, uint32_t counter)
{
	union ring_cqe_ctl ctl;
	int i = 0;

	while (!ring_cq_ready(ring, counter, &ctl) && i++ < 50000)
		usleep(100);
	assert_true(ring_cq_ready(ring, counter, &ctl));
}

static void
send_some(struct pair *t)
{
	for (int i = 0; i < SENDS; i++)
		pair_post_recv(t, 1, t->mem + PAIR_BYTES, MESSAGE_BYTES);
	for (int i = 0; i < SENDS; i++)
		pair_post(t, 0, UROCE_WR_SEND, t->mem, MESSAGE_BYTES, NULL);
}

/** Go on in the ring of the answer, as the library does. */
static void
adopt(struct pair *t, const struct ctl_rsp *r)
{
	struct ring to = ring_of(t, r);
	union ring_cqe_ctl ctl;

	for (uint32_t i = t->cq_ring.counter; (int32_t)(r->cq_resize.from - i) > 0; i++) {
		struct ring_cqe *e = ring_slot(&to, i);

		assert_true(ring_cq_ready(&t->cq_ring, i, &ctl));
		memcpy(e, ring_slot(&t->cq_ring, i), offsetof(struct ring_cqe, ctl));
		ctl.phase = ring_phase(i, to.order);
		atomic_store(&e->ctl, ctl.word);
	}
	t->cq_ring = to;
}

/** Poll @p n completions of each queue: each WQE has one. @param first  The counter of the first WQE. */
static void
poll_all(struct pair *t, uint32_t first, uint32_t n)
{
	uint32_t next[2] = { first, first };
	struct ring_cqe e;

	for (uint32_t i = 0; i < 2 * n; i++) {
		union ring_cqe_ctl ctl;

		if (!pair_poll(t, &e))
			fail_msg("completion %u of %u is missing", i, 2 * n);
		ctl.word = e.ctl;
		assert_int_equal(e.status, UROCE_WC_SUCCESS);
		assert_int_equal(ctl.wqe_counter, next[ctl.is_recv]);
		next[ctl.is_recv]++;
	}
	assert_int_equal(next[0], first + n);
}

/** Completions before and after the change of rings, none of which was polled. */
static void
resize_and_kill(struct pair *t, uint32_t cqe, struct second_stream *records, bool journals)
{
	struct ctl_req q = killed_numbered(CTL_CQ_RESIZE, 11);
	struct ctl_rsp r, lost;
	struct ring ring;

	pair_open(t, CTL_SEG_CONVERTED);
	q.cq_resize = (struct ctl_cq_resize_req){ .handle = t->cq.handle, .cqe = cqe };
	send_some(t);
	wait_for(&t->cq_ring, 2 * SENDS - 1);
	kill_in_resize = true;
	execute(&t->p, &q, &lost);
	assert_false(kill_in_resize);
	ring = ring_of(t, &lost);
	send_some(t);
	wait_for(&ring, COMPLETIONS - 1);
	killed_now();
	if (!journals)
		killed_lose_journals();
	again(&t->p, &q, records, &r);
	assert_int_equal(r.cq_resize.order, lost.cq_resize.order);
	assert_int_equal(r.cq_resize.seg.segment_bytes, lost.cq_resize.seg.segment_bytes);
	adopt(t, &r);
	poll_all(t, 0, 2 * SENDS);
}

static void
a_cq_is_resized(void **state)
{
	/* In a segment that the program has, and in one that the request has brought. */
	static const uint32_t cqes[] = { 256, 1 << 16 };
	struct second_stream records;
	struct ctl_req q = killed_numbered(CTL_CQ_RESIZE, 12);
	struct ctl_rsp r;
	struct pair t;
	int fd = -1;

	for (unsigned int i = 0; i < RTE_DIM(cqes); i++) {
		resize_and_kill(&t, cqes[i], &records, true);
		assert_int_equal(second->control->taken_over.qps_lost, 0);
		send_some(&t);
		poll_all(&t, 2 * SENDS, SENDS);
		/* It is as large as it was asked for; and it can be resized again. */
		q.cq_resize = (struct ctl_cq_resize_req){ .handle = t.cq.handle, .cqe = cqes[i] };
		peer_must(t.p.sock, &q, &r, NULL);
		assert_int_equal(r.cq_resize.ring.length, 0);
		q.cq_resize.cqe = 2 * cqes[i];
		peer_must(t.p.sock, &q, &r, &fd);
		peer_segment(&t.p, &r.cq_resize.seg, fd);
		adopt(&t, &r);
		send_some(&t);
		poll_all(&t, 3 * SENDS, SENDS);
		peer_close(&t.p);
		killed_end(&records);
	}
}

/** The daemon that goes on hands over to a third one before it has got the request. @return itself, to be destroyed after the third. */
static struct uroce *
hand_over(struct second_stream *to)
{
	struct uroce *from = second;

	uroce_control_stop(from);
	for (unsigned int i = 0; i < daemon_engines; i++)
		uroce_engine_stop(from, i);
	daemon_wait_engines();
	*to = (struct second_stream){ 0 };
	second_save(from, &to->o, 1, 2);
	to->bytes = aligned_alloc(64, RTE_ALIGN_CEIL(to->o.n, (size_t)64));
	to->in = second_reads(&to->o, to->bytes);
	second_crashed_ns = 0;
	second_start(to);
	return from;
}

static void
the_next_daemon_is_replaced(void **state)
{
	struct ctl_req q = killed_numbered(CTL_CQ_RESIZE, 11);
	struct second_stream crashed, handed;
	struct ctl_rsp lost, r;
	struct uroce *between;
	struct pair t;
	int fd = -1;

	pair_open(&t, CTL_SEG_CONVERTED);
	q.cq_resize = (struct ctl_cq_resize_req){ .handle = t.cq.handle, .cqe = 1 << 16 };
	send_some(&t);
	wait_for(&t.cq_ring, 2 * SENDS - 1);
	kill_in_resize = true;
	execute(&t.p, &q, &lost);
	killed_go_on(&crashed);
	between = hand_over(&handed);
	peer_must(t.p.sock, &q, &r, &fd);
	assert_int_equal(r.cq_resize.order, lost.cq_resize.order);
	assert_int_not_equal(r.cq_resize.seg.segment_bytes, 0);
	peer_segment(&t.p, &r.cq_resize.seg, fd);
	adopt(&t, &r);
	send_some(&t);
	poll_all(&t, 0, 2 * SENDS);
	peer_close(&t.p);
	killed_end(&handed);
	between->bound = false;
	uroce_destroy(between);
	stream_free(&crashed.o);
	free(crashed.in.fds);
	free(crashed.bytes);
}

/* ---- An XRC target is modified ---- */
static void
an_xrc_target_is_modified(void **state)
{
	const uint32_t init = UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS;
	struct uroce_qp_attr a = { .qp_state = UROCE_QPS_INIT, .port_num = 1, .qp_access_flags = UROCE_ACCESS_REMOTE_WRITE };
	struct ctl_req q = killed_numbered(CTL_XRCD_OPEN, 1);
	struct second_stream records;
	struct pair t = { 0 };
	struct ctl_rsp r;

	peer_open(&t.p);
	peer_must(t.p.sock, &q, &r, NULL);
	q = killed_numbered(CTL_QP_CREATE, 2);
	q.qp_create = (struct ctl_qp_create_req){ .type = UROCE_QPT_XRC_RECV, .xrcd = r.handle.handle, .cookie = 7 };
	peer_must(t.p.sock, &q, &r, NULL);
	t.end[0].qp = r.qp_create;
	t.end[1].qp.qpn = r.qp_create.qpn;
	assert_int_equal(pair_modify(&t, 0, init, &a, &r), 0);
	q = killed_numbered(CTL_QP_MODIFY, 3);
	q.qp_modify = (struct ctl_qp_modify_req){ .handle = t.end[0].qp.handle, .mask = PAIR_RTR_MASK, .attr = pair_rtr_attr(&t, 0, 1) };
	kill_in_modify = true;
	execute(&t.p, &q, &r);
	assert_false(kill_in_modify);
	again(&t.p, &q, &records, &r);
	/* It is done; another one for the same state is not the same. */
	q.number++;
	assert_int_equal(peer_call(t.p.sock, &q, NULL, 0, &r, NULL, 0), EINVAL);
	peer_close(&t.p);
	killed_end(&records);
}

/* ---- Without journals ---- */
static void
a_cq_is_resized_without_journals(void **state)
{
	struct second_stream records;
	struct pair t;

	resize_and_kill(&t, 256, &records, false);
	assert_int_equal(second->control->taken_over.qps_lost, 2);
	peer_close(&t.p);
	killed_end(&records);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cq_is_resized),
		cmocka_unit_test(the_next_daemon_is_replaced),
		cmocka_unit_test(an_xrc_target_is_modified),
		/* The last one: the daemon of these tests has no journals afterwards. */
		cmocka_unit_test(a_cq_is_resized_without_journals),
	};

	daemon_engines = 2;
	daemon_checkpoint = &killed_host;
	return DAEMON_TESTS(tests, 16, 64, NULL);
}
