/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues: resize, moderation, overflow, extended polling, times, channels, several threads. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "vt.h"

/* Two RC QPs, of which a sends and b receives. */
struct pair {
	struct ibv_cq *a_cq, *b_cq;
	struct ibv_qp *a, *b;
};

static void
pair_make(struct vt *t, struct pair *p, int a_cqe, struct ibv_comp_channel *b_channel)
{
	p->a_cq = vt_cq(t, a_cqe, NULL);
	p->b_cq = vt_cq(t, 4 * VT_DEPTH, b_channel);
	p->a = vt_qp(t, IBV_QPT_RC, p->a_cq, p->a_cq);
	p->b = vt_qp(t, IBV_QPT_RC, p->b_cq, p->b_cq);
	vt_connect(t, p->a, p->b);
	vt_connect(t, p->b, p->a);
}

static void
pair_unmake(struct pair *p)
{
	vt_destroy_qp(p->a);
	vt_destroy_qp(p->b);
	vt_destroy_cq(p->a_cq);
	vt_destroy_cq(p->b_cq);
}

static void
a_cq_grows_with_completions_in_it(struct vt *t)
{
	struct ibv_wc wc;
	struct pair p;
	uint64_t next = 0, posted = 0;

	pair_make(t, &p, 8, NULL);
	VT_CHECK(p.a_cq->cqe == 8, "%d", p.a_cq->cqe);
	for (int size = 16; size <= 256; size *= 2) {
		/* As many as the CQ takes now: some are still coming when it grows. */
		while (posted - next < (uint64_t)size / 2 && posted - next < VT_DEPTH)
			vt_send(t, p.a, IBV_WR_RDMA_WRITE, posted++, 100, IBV_SEND_SIGNALED);
		VT_OK(ibv_resize_cq(p.a_cq, size));
		VT_CHECK(p.a_cq->cqe == size, "%d, not %d", p.a_cq->cqe, size);
		for (int i = 0; i < size / 4 && next < posted; i++, next++)
			vt_expect(p.a_cq, next, IBV_WC_SUCCESS);
	}
	while (next < posted)
		vt_expect(p.a_cq, next++, IBV_WC_SUCCESS);
	VT_CHECK(ibv_poll_cq(p.a_cq, 1, &wc) == 0, "more than was posted");
	/* Once around the new ring. */
	for (int i = 0; i < 1000; i++) {
		vt_send(t, p.a, IBV_WR_RDMA_WRITE, i, 100, IBV_SEND_SIGNALED);
		vt_expect(p.a_cq, i, IBV_WC_SUCCESS);
	}
	VT_CHECK(ibv_resize_cq(p.a_cq, 0) == EINVAL, "0 entries");
	VT_CHECK(ibv_resize_cq(p.a_cq, -1) == EINVAL, "-1 entries");
	VT_CHECK(ibv_resize_cq(p.a_cq, 1 << 30) == EINVAL, "2^30 entries");
	VT_OK(ibv_resize_cq(p.a_cq, 4));
	VT_CHECK(p.a_cq->cqe >= 4, "%d", p.a_cq->cqe);
	for (int i = 0; i < 5; i++)
		vt_send(t, p.a, IBV_WR_RDMA_WRITE, i, 100, IBV_SEND_SIGNALED);
	for (int i = 0; i < 1000 && ibv_resize_cq(p.a_cq, 4) == 0; i++)
		usleep(1000);
	VT_CHECK(ibv_resize_cq(p.a_cq, 4) == EINVAL, "smaller than what is in it");
	VT_OK(ibv_resize_cq(p.a_cq, 5));
	for (int i = 0; i < 5; i++)
		vt_expect(p.a_cq, i, IBV_WC_SUCCESS);
	pair_unmake(&p);
}

/* What needs no peer is complete when a resize returns: a program counts on what it posted before. */
static void
a_resize_sees_what_was_posted_before(struct vt *t)
{
	enum { FLUSHED = VT_DEPTH };
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc[FLUSHED + 1];
	struct pair p;

	pair_make(t, &p, 512, NULL);
	VT_OK(ibv_modify_qp(p.a, &err, IBV_QP_STATE));
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < FLUSHED; i++)
			vt_send(t, p.a, IBV_WR_RDMA_WRITE, i, 100, IBV_SEND_SIGNALED);
		VT_CHECK(ibv_resize_cq(p.a_cq, FLUSHED - 1) == EINVAL, "smaller than what is in it");
		VT_OK(ibv_resize_cq(p.a_cq, round == 10 ? 2048 : FLUSHED));
		VT_CHECK(ibv_poll_cq(p.a_cq, FLUSHED + 1, wc) == FLUSHED, "some were not complete");
	}
	pair_unmake(&p);
}

/* The same for datagrams from memory that isn't mapped, so that each has to be copied first. */
static void
a_resize_sees_datagrams_posted_before(struct vt *t)
{
	enum { ROUNDS = 200, SENT = 6, BYTES = 100 };
	struct ibv_cq *cq = vt_cq(t, SENT + 1, NULL), *rcq = vt_cq(t, VT_DEPTH, NULL);
	struct ibv_qp *qp = vt_qp(t, IBV_QPT_UD, cq, rcq);
	uint8_t *small = malloc(BYTES);
	struct ibv_mr *mr = small != NULL ? ibv_reg_mr(t->pd, small, BYTES, 0) : NULL;
	struct ibv_sge sge = { (uintptr_t)small, BYTES, mr != NULL ? mr->lkey : 0 };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_ah_attr attr;
	struct ibv_wc wc[SENT];
	struct ibv_ah *ah;

	if (mr == NULL)
		vt_die("ibv_reg_mr of malloc's memory");
	vt_connect(t, qp, qp);
	vt_ah_attr(t, &attr);
	ah = ibv_create_ah(t->pd, &attr);
	if (ah == NULL)
		vt_die("ibv_create_ah");
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qp->qp_num;
	wr.wr.ud.remote_qkey = VT_QKEY;
	for (int round = 0; round < ROUNDS && !vt_failed; round++) {
		for (int i = 0; i < SENT; i++)
			VT_OK(ibv_post_send(qp, &wr, &bad));
		VT_CHECK(ibv_resize_cq(cq, SENT - 1) == EINVAL, "round %d: smaller than what is in it", round);
		VT_CHECK(ibv_poll_cq(cq, SENT, wc) == SENT, "round %d: some were not complete", round);
	}
	VT_OK(ibv_destroy_ah(ah));
	vt_destroy_qp(qp);
	vt_destroy_cq(cq);
	vt_destroy_cq(rcq);
	VT_OK(ibv_dereg_mr(mr));
	free(small);
}

struct poller {
	struct ibv_cq *cq;
	_Atomic uint64_t got, sum;
	uint64_t want;
	_Atomic bool stop;
};

static void *
poll_all(void *arg)
{
	struct poller *p = arg;
	struct ibv_wc wc[4];
	int n;

	while (p->got < p->want && !p->stop) {
		n = ibv_poll_cq(p->cq, 4, wc);
		for (int i = 0; i < n; i++)
			p->sum += wc[i].status == IBV_WC_SUCCESS ? wc[i].wr_id : 1000000000;
		p->got += n > 0 ? n : 0;
		if (n == 0)
			sched_yield();
	}
	return NULL;
}

static void
wait_for(struct poller *p)
{
	uint64_t end = vt_now_ns() + VT_SECONDS * UINT64_C(1000000000);

	while (p->got < p->want && vt_now_ns() < end)
		usleep(1000);
	p->stop = true;
}

static void
a_cq_grows_while_threads_poll_it(struct vt *t)
{
	enum { N = 3000 };
	struct poller poller = { .want = N };
	pthread_t threads[2];
	struct pair p;
	int size = 128;

	pair_make(t, &p, size, NULL);
	poller.cq = p.a_cq;
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, poll_all, &poller);
	for (uint64_t i = 0; i < N; i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)t->buf, .length = 8, .lkey = t->mr->lkey };
		struct ibv_send_wr wr = {
			.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = sge.addr + 4096, .rkey = t->mr->rkey },
		}, *bad;

		while (ibv_post_send(p.a, &wr, &bad) == ENOMEM && !poller.stop)
			sched_yield();
		if (i % 256 == 255)
			VT_OK(ibv_resize_cq(p.a_cq, size *= 2));
	}
	wait_for(&poller);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	VT_CHECK(poller.got == N, "%lu of %d", (unsigned long)poller.got, N);
	VT_CHECK(poller.sum == (uint64_t)N * (N - 1) / 2, "sum of the wr_ids %lu", (unsigned long)poller.sum);
	pair_unmake(&p);
}

struct poster {
	struct vt *t;
	struct ibv_qp *qp;
	bool recv;
	uint64_t first;
	unsigned int n;
	_Atomic bool *stop;
};

static void *
post_all(void *arg)
{
	const struct poster *p = arg;
	struct ibv_sge sge = { .addr = (uintptr_t)p->t->buf, .length = 16, .lkey = p->t->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr rwr = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr *bad;

	for (unsigned int i = 0; i < p->n; i++) {
		wr.wr_id = rwr.wr_id = p->first + i;
		while ((p->recv ? ibv_post_recv(p->qp, &rwr, &bad_recv) : ibv_post_send(p->qp, &wr, &bad)) == ENOMEM && !*p->stop)
			sched_yield();
	}
	return NULL;
}

static void
many_threads_post_and_poll_one_qp_and_cq(struct vt *t)
{
	enum { THREADS = 3, EACH = 700, N = THREADS * EACH };
	struct poller sent = { .want = N }, received = { .want = N };
	pthread_t posting[2 * THREADS], polling[4];
	struct poster posters[2 * THREADS];
	struct pair p;

	pair_make(t, &p, 4 * VT_DEPTH, NULL);
	sent.cq = p.a_cq;
	received.cq = p.b_cq;
	for (int i = 0; i < 4; i++)
		pthread_create(&polling[i], NULL, poll_all, i % 2 ? &sent : &received);
	for (int i = 0; i < 2 * THREADS; i++) {
		posters[i] = (struct poster){ t, i % 2 ? p.a : p.b, i % 2 == 0, (uint64_t)(i / 2) * EACH, EACH, &received.stop };
		pthread_create(&posting[i], NULL, post_all, &posters[i]);
	}
	wait_for(&received);
	wait_for(&sent);
	for (int i = 0; i < 2 * THREADS; i++)
		pthread_join(posting[i], NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(polling[i], NULL);
	VT_CHECK(sent.got == N && received.got == N, "%lu sent, %lu received", (unsigned long)sent.got,
		 (unsigned long)received.got);
	VT_CHECK(sent.sum == (uint64_t)N * (N - 1) / 2 && received.sum == sent.sum, "each once: %lu, %lu",
		 (unsigned long)sent.sum, (unsigned long)received.sum);
	pair_unmake(&p);
}

static struct ibv_comp_channel *
channel_make(struct vt *t)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(t->ctx);

	if (ch == NULL)
		vt_die("ibv_create_comp_channel");
	return ch;
}

/* Take the event that must be there. */
static void
take_event(struct ibv_comp_channel *ch, struct ibv_cq *cq)
{
	struct ibv_cq *got = NULL;
	void *arg;

	VT_CHECK(vt_readable(ch->fd, VT_SECONDS * 1000), "no event");
	if (vt_failed)
		return;
	VT_OK(ibv_get_cq_event(ch, &got, &arg));
	VT_CHECK(got == cq, "of another CQ");
	ibv_ack_cq_events(got, 1);
}

static void
moderation_gathers_completions(struct vt *t)
{
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = { .cq_count = 8, .cq_period = 0 },
	};
	struct ibv_comp_channel *ch = channel_make(t);
	struct pair p;

	pair_make(t, &p, 4 * VT_DEPTH, ch);
	VT_OK(ibv_modify_cq(p.b_cq, &attr));
	for (int i = 0; i < 16; i++)
		vt_recv(t, p.b, i);
	VT_OK(ibv_req_notify_cq(p.b_cq, 0));
	for (int i = 0; i < 7; i++) {
		vt_send(t, p.a, IBV_WR_SEND, i, 10, IBV_SEND_SIGNALED);
		vt_expect(p.a_cq, i, IBV_WC_SUCCESS);
	}
	VT_CHECK(!vt_readable(ch->fd, 50), "an event for 7 of 8 completions");
	vt_send(t, p.a, IBV_WR_SEND, 7, 10, IBV_SEND_SIGNALED);
	take_event(ch, p.b_cq);
	for (int i = 0; i < 8; i++)
		vt_expect(p.b_cq, i, IBV_WC_SUCCESS);
	/* What is held back comes when the rules change. */
	VT_OK(ibv_req_notify_cq(p.b_cq, 0));
	vt_send(t, p.a, IBV_WR_SEND, 8, 10, IBV_SEND_SIGNALED);
	vt_expect(p.a_cq, 7, IBV_WC_SUCCESS);
	vt_expect(p.a_cq, 8, IBV_WC_SUCCESS);
	VT_CHECK(!vt_readable(ch->fd, 50), "an event for 1 of 8 completions");
	attr.moderate.cq_count = 0;
	attr.moderate.cq_period = 30000;
	VT_OK(ibv_modify_cq(p.b_cq, &attr));
	take_event(ch, p.b_cq);
	vt_expect(p.b_cq, 8, IBV_WC_SUCCESS);
	/* And after its time. */
	VT_OK(ibv_req_notify_cq(p.b_cq, 0));
	uint64_t before = vt_now_ns();
	vt_send(t, p.a, IBV_WR_SEND, 9, 10, IBV_SEND_SIGNALED);
	take_event(ch, p.b_cq);
	VT_CHECK(vt_now_ns() - before >= 30000000, "after %lu ns", (unsigned long)(vt_now_ns() - before));
	attr.attr_mask = 0;
	VT_CHECK(ibv_modify_cq(p.b_cq, &attr) == EINVAL, "nothing to modify");
	attr.attr_mask = 1 << 5;
	VT_CHECK(ibv_modify_cq(p.b_cq, &attr) == EOPNOTSUPP, "an attribute that is not known");
	/* Destroyed with an event held back. */
	attr.attr_mask = IBV_CQ_ATTR_MODERATE;
	VT_OK(ibv_modify_cq(p.b_cq, &attr));
	vt_expect(p.b_cq, 9, IBV_WC_SUCCESS);
	VT_OK(ibv_req_notify_cq(p.b_cq, 0));
	vt_send(t, p.a, IBV_WR_SEND, 10, 10, IBV_SEND_SIGNALED);
	vt_expect(p.a_cq, 9, IBV_WC_SUCCESS);
	vt_expect(p.a_cq, 10, IBV_WC_SUCCESS);
	pair_unmake(&p);
	VT_OK(ibv_destroy_comp_channel(ch));
}

static void
one_channel_tells_of_many_cqs(struct vt *t)
{
	enum { CQS = 8 };
	struct ibv_comp_channel *ch = channel_make(t);
	struct pair p[CQS];
	bool told[CQS] = { false };

	for (int i = 0; i < CQS; i++) {
		pair_make(t, &p[i], 16, ch);
		vt_recv(t, p[i].b, i);
		VT_OK(ibv_req_notify_cq(p[i].b_cq, 0));
	}
	for (int i = 0; i < CQS; i++)
		vt_send(t, p[i].a, IBV_WR_SEND, i, 10, IBV_SEND_SIGNALED);
	for (int n = 0; n < CQS && vt_readable(ch->fd, VT_SECONDS * 1000); n++) {
		struct ibv_cq *got;
		void *arg;

		VT_OK(ibv_get_cq_event(ch, &got, &arg));
		for (int i = 0; i < CQS; i++) {
			if (p[i].b_cq == got) {
				VT_CHECK(!told[i], "told twice of CQ %d", i);
				told[i] = true;
				vt_expect(got, i, IBV_WC_SUCCESS);
			}
		}
		ibv_ack_cq_events(got, 1);
	}
	for (int i = 0; i < CQS; i++)
		VT_CHECK(told[i], "CQ %d", i);
	VT_CHECK(ibv_destroy_comp_channel(ch) == EBUSY, "a channel in use");
	for (int i = 0; i < CQS; i++)
		pair_unmake(&p[i]);
	VT_OK(ibv_destroy_comp_channel(ch));
}

static void
solicited_only_waits_for_solicited(struct vt *t)
{
	struct ibv_comp_channel *ch = channel_make(t);
	struct ibv_wc wc;
	struct pair p;

	pair_make(t, &p, 16, ch);
	for (int i = 0; i < 4; i++)
		vt_recv(t, p.b, i);
	VT_OK(ibv_req_notify_cq(p.b_cq, 1));
	vt_send(t, p.a, IBV_WR_SEND, 0, 10, IBV_SEND_SIGNALED);
	vt_expect(p.a_cq, 0, IBV_WC_SUCCESS);
	VT_CHECK(!vt_readable(ch->fd, 50), "woken by an unsolicited message");
	vt_send(t, p.a, IBV_WR_SEND, 1, 10, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	take_event(ch, p.b_cq);
	vt_poll(p.b_cq, &wc);
	vt_poll(p.b_cq, &wc);
	/* Errors count as solicited. */
	VT_OK(ibv_req_notify_cq(p.b_cq, 1));
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	VT_OK(ibv_modify_qp(p.b, &err, IBV_QP_STATE));
	take_event(ch, p.b_cq);
	pair_unmake(&p);
	VT_OK(ibv_destroy_comp_channel(ch));
}

/* A receiver that sleeps between messages: an event that was lost would be a message that never arrives. */
static void
no_event_is_lost_between_polling_and_arming(struct vt *t)
{
	enum { N = 3000 };
	struct ibv_comp_channel *ch = channel_make(t);
	unsigned int got = 0, events = 0;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	struct pair p;
	void *arg;

	pair_make(t, &p, 4 * VT_DEPTH, ch);
	for (int i = 0; i < VT_DEPTH / 2; i++)
		vt_recv(t, p.b, i);
	VT_OK(ibv_req_notify_cq(p.b_cq, 0));
	for (unsigned int i = 0; i < N && !vt_failed; i++) {
		vt_send(t, p.a, IBV_WR_SEND, i, 10, IBV_SEND_SIGNALED);
		while (got <= i && !vt_failed) {
			VT_CHECK(vt_readable(ch->fd, VT_SECONDS * 1000), "message %u: no event", i);
			if (vt_failed)
				break;
			VT_OK(ibv_get_cq_event(ch, &cq, &arg));
			events++;
			/* Poll, arm, poll: as the man page of ibv_get_cq_event has it, the other way around. */
			while (ibv_poll_cq(cq, 1, &wc) == 1) {
				got++;
				vt_recv(t, p.b, got);
			}
			VT_OK(ibv_req_notify_cq(cq, 0));
		}
		vt_expect(p.a_cq, i, IBV_WC_SUCCESS);
	}
	VT_CHECK(got == N, "%u of %u", got, N);
	ibv_ack_cq_events(p.b_cq, events);
	pair_unmake(&p);
	VT_OK(ibv_destroy_comp_channel(ch));
}

static void
a_cq_that_overflows_is_in_error_and_says_so(struct vt *t)
{
	struct ibv_async_event ev = { 0 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct pair p;

	pair_make(t, &p, 8, NULL);
	for (int i = 0; i < 16; i++)
		vt_send(t, p.a, IBV_WR_RDMA_WRITE, i, 10, IBV_SEND_SIGNALED);
	VT_CHECK(vt_readable(t->ctx->async_fd, VT_SECONDS * 1000), "no event");
	for (int n = 0; n < 2 && vt_readable(t->ctx->async_fd, 1000); n++) {
		VT_OK(ibv_get_async_event(t->ctx, &ev));
		VT_CHECK(ev.event_type == IBV_EVENT_CQ_ERR || ev.event_type == IBV_EVENT_QP_FATAL, "%s",
			 ibv_event_type_str(ev.event_type));
		if (ev.event_type == IBV_EVENT_CQ_ERR)
			VT_CHECK(ev.element.cq == p.a_cq, "of another CQ");
		else
			VT_CHECK(ev.element.qp == p.a, "of another QP");
		ibv_ack_async_event(&ev);
	}
	VT_OK(ibv_query_qp(p.a, &attr, IBV_QP_STATE, &init));
	VT_CHECK(attr.qp_state == IBV_QPS_ERR, "state %d", attr.qp_state);
	/* What was there can be polled still. */
	for (int i = 0; i < 8; i++)
		vt_expect(p.a_cq, i, IBV_WC_SUCCESS);
	pair_unmake(&p);
}

static struct ibv_cq_ex *
cq_ex(struct vt *t, uint64_t wc_flags, uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 64, .wc_flags = wc_flags, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = flags,
	};

	return ibv_create_cq_ex(t->ctx, &attr);
}

/* Start polling a CQ that something must come to. */
static bool
start_poll(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };
	uint64_t end = vt_now_ns() + VT_SECONDS * UINT64_C(1000000000);
	int rc;

	do
		rc = ibv_start_poll(cq, &attr);
	while (rc == ENOENT && vt_now_ns() < end);
	VT_CHECK(rc == 0, "%s", strerror(rc));
	return rc == 0;
}

static void
every_reader_of_an_extended_cq_is_true(struct vt *t)
{
	const uint64_t flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	struct ibv_cq_ex *cq = cq_ex(t, flags, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	struct ibv_sge sge = { .addr = (uintptr_t)t->buf, .length = 33, .lkey = t->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 5, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED, .imm_data = htobe32(0xfeed),
	}, *bad;
	struct ibv_values_ex before = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK }, after = before;
	struct ibv_device_attr_ex dev;
	struct ibv_poll_cq_attr pa = { 0 };
	struct ibv_qp *a, *b;
	uint64_t ts, last = 0;
	int64_t wall;

	VT_CHECK(cq != NULL, "%s", strerror(errno));
	if (cq == NULL)
		return;
	VT_OK(ibv_query_device_ex(t->ctx, NULL, &dev));
	VT_CHECK(dev.completion_timestamp_mask != 0 && dev.hca_core_clock != 0, "no clock");
	a = vt_qp(t, IBV_QPT_RC, ibv_cq_ex_to_cq(cq), ibv_cq_ex_to_cq(cq));
	b = vt_qp(t, IBV_QPT_RC, ibv_cq_ex_to_cq(cq), ibv_cq_ex_to_cq(cq));
	vt_connect(t, a, b);
	vt_connect(t, b, a);
	VT_CHECK(ibv_start_poll(cq, &pa) == ENOENT, "an empty CQ");
	for (int round = 0; round < 100 && !vt_failed; round++) {
		vt_recv(t, b, 6);
		VT_OK(ibv_query_rt_values_ex(t->ctx, &before));
		VT_OK(ibv_post_send(a, &wr, &bad));
		if (!start_poll(cq))
			break;
		for (int n = 0; n < 2; n++) {
			bool recv = cq->wr_id == 6;

			VT_CHECK(cq->status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(cq->status));
			VT_CHECK(cq->wr_id == 5 || cq->wr_id == 6, "wr_id %lu", (unsigned long)cq->wr_id);
			VT_CHECK(ibv_wc_read_opcode(cq) == (recv ? IBV_WC_RECV : IBV_WC_SEND), "opcode %d",
				 ibv_wc_read_opcode(cq));
			VT_CHECK(ibv_wc_read_qp_num(cq) == (recv ? b : a)->qp_num, "QP 0x%x", ibv_wc_read_qp_num(cq));
			VT_CHECK(ibv_wc_read_vendor_err(cq) == 0, "vendor error");
			VT_CHECK(ibv_wc_read_slid(cq) == 0 && ibv_wc_read_dlid_path_bits(cq) == 0, "LIDs");
			if (recv) {
				VT_CHECK(ibv_wc_read_byte_len(cq) == 33, "%u bytes", ibv_wc_read_byte_len(cq));
				VT_CHECK(ibv_wc_read_wc_flags(cq) == IBV_WC_WITH_IMM, "flags 0x%x", ibv_wc_read_wc_flags(cq));
				VT_CHECK(ibv_wc_read_imm_data(cq) == htobe32(0xfeed), "immediate");
			}
			VT_OK(ibv_query_rt_values_ex(t->ctx, &after));
			ts = ibv_wc_read_completion_ts(cq);
			/* A millisecond is what the engine's clock may be off while it is being corrected. */
			VT_CHECK(ts + 1000000 >= (uint64_t)before.raw_clock.tv_nsec &&
				 ts <= (uint64_t)after.raw_clock.tv_nsec + 1000000,
				 "completed at %lu, posted at %ld, now %ld", (unsigned long)ts, before.raw_clock.tv_nsec,
				 after.raw_clock.tv_nsec);
			VT_CHECK(ts >= last, "time goes back by %lu", (unsigned long)(last - ts));
			last = ts;
			wall = (int64_t)ibv_wc_read_completion_wallclock_ns(cq) - (int64_t)time(NULL) * 1000000000;
			VT_CHECK(wall > -5000000000 && wall < 5000000000, "wall clock %ld ns off", (long)wall);
			if (n == 0) {
				int rc;

				while ((rc = ibv_next_poll(cq)) == ENOENT)
					;
				VT_OK(rc);
			}
		}
		ibv_end_poll(cq);
	}
	vt_destroy_qp(a);
	vt_destroy_qp(b);
	vt_destroy_cq(ibv_cq_ex_to_cq(cq));
}

static void
an_extended_cq_with_times_grows(struct vt *t)
{
	struct ibv_cq_ex *cq = cq_ex(t, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, 0);
	struct ibv_qp *a, *b;
	uint64_t last = 0, ts;
	uint64_t begin = vt_now_ns();

	VT_CHECK(cq != NULL, "%s", strerror(errno));
	if (cq == NULL)
		return;
	a = vt_qp(t, IBV_QPT_RC, ibv_cq_ex_to_cq(cq), ibv_cq_ex_to_cq(cq));
	b = vt_qp(t, IBV_QPT_RC, ibv_cq_ex_to_cq(cq), ibv_cq_ex_to_cq(cq));
	vt_connect(t, a, b);
	vt_connect(t, b, a);
	for (int i = 0; i < 40; i++)
		vt_send(t, a, IBV_WR_RDMA_WRITE, i, 8, IBV_SEND_SIGNALED);
	usleep(20000);
	VT_OK(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 500));
	for (int i = 0; i < 40 && start_poll(cq); i++) {
		ts = ibv_wc_read_completion_ts(cq);
		VT_CHECK(cq->wr_id == (uint64_t)i, "wr_id %lu, not %d", (unsigned long)cq->wr_id, i);
		VT_CHECK(ts >= last && ts + 1000000 >= begin && ts <= vt_now_ns() + 1000000, "time %lu", (unsigned long)ts);
		last = ts;
		ibv_end_poll(cq);
	}
	vt_destroy_qp(a);
	vt_destroy_qp(b);
	vt_destroy_cq(ibv_cq_ex_to_cq(cq));
}

static void
every_completion_vector_is_served(struct vt *t)
{
	struct ibv_cq *cq;

	VT_CHECK(t->ctx->num_comp_vectors >= 1, "%d", t->ctx->num_comp_vectors);
	for (int v = 0; v < t->ctx->num_comp_vectors; v++) {
		cq = ibv_create_cq(t->ctx, 4, NULL, NULL, v);
		VT_CHECK(cq != NULL, "vector %d: %s", v, strerror(errno));
		if (cq != NULL)
			vt_destroy_cq(cq);
	}
}

int
main(int argc, char **argv)
{
	static const struct vt_case cases[] = {
		VT_CASE(a_cq_grows_with_completions_in_it),
		VT_CASE(a_resize_sees_what_was_posted_before),
		VT_CASE(a_resize_sees_datagrams_posted_before),
		VT_CASE(a_cq_grows_while_threads_poll_it),
		VT_CASE(many_threads_post_and_poll_one_qp_and_cq),
		VT_CASE(moderation_gathers_completions),
		VT_CASE(one_channel_tells_of_many_cqs),
		VT_CASE(solicited_only_waits_for_solicited),
		VT_CASE(no_event_is_lost_between_polling_and_arming),
		VT_CASE(a_cq_that_overflows_is_in_error_and_says_so),
		VT_CASE(every_reader_of_an_extended_cq_is_true),
		VT_CASE(an_extended_cq_with_times_grows),
		VT_CASE(every_completion_vector_is_served),
	};

	return vt_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
