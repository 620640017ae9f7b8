/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with bugs, for test_soak.py: it writes to itself through two QPs of its own, and doesn't do what it should if a write fails.
 *
 *   soak_bugs hang      waits for the success of each of 1000 writes, for ever
 *   soak_bugs crash     aborts if one fails
 *
 * These have no bug, and print the status of each completion, -1 where there is no device any more:
 *
 *   soak_bugs statuses  posts 16 writes
 *   soak_bugs events    the same, asleep until there are completions
 *   soak_bugs extended  the same, through an extended CQ
 *   soak_bugs receives  sends 16 messages, each when the one before has completed at both ends
 */
#include <unistd.h>

#include "vt.h"

enum { WRITES = 1000, FEW = 16, BYTES = 100, START_US = 500000 };

/* @return the status of the next completion, -1: there won't be any. */
static int
next_status(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		usleep(10);
	return n < 0 ? -1 : (int)wc.status;
}

/* The same, asleep meanwhile. */
static int
next_status_by_event(struct ibv_cq *cq)
{
	struct ibv_cq *of;
	struct ibv_wc wc;
	void *context;
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) {
		VT_OK(ibv_req_notify_cq(cq, 0));
		n = ibv_poll_cq(cq, 1, &wc);
		if (n != 0)
			break;
		if (ibv_get_cq_event(cq->channel, &of, &context))
			return -1;
		ibv_ack_cq_events(of, 1);
	}
	return n < 0 ? -1 : (int)wc.status;
}

static int
next_status_extended(struct ibv_cq *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq;
	int err, status;

	while ((err = ibv_start_poll(ex, &attr)) == ENOENT)
		usleep(10);
	if (err)
		return -1;
	status = ex->status;
	ibv_end_poll(ex);
	return status;
}

static void
one_after_the_other(struct vt *t, struct ibv_qp *qp, bool crash)
{
	for (int i = 0; i < WRITES; i++) {
		vt_send(t, qp, IBV_WR_RDMA_WRITE, i, BYTES, IBV_SEND_SIGNALED);
		/* The bug: when the QP is in error there is one completion, and never one of success. */
		while (next_status(qp->send_cq) != IBV_WC_SUCCESS)
			if (crash)
				abort();
	}
}

static void
few(struct vt *t, struct ibv_qp *qp, int (*next)(struct ibv_cq *cq))
{
	for (int i = 0; i < FEW; i++)
		vt_send(t, qp, IBV_WR_RDMA_WRITE, i, BYTES, IBV_SEND_SIGNALED);
	printf("statuses:");
	for (int i = 0; i < FEW; i++)
		printf(" %d", next(qp->send_cq));
	printf("\n");
}

static void
receives(struct vt *t, struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_async_event event;
	int sent[FEW], received[FEW];

	for (int i = 0; i < FEW; i++)
		vt_recv(t, to, i);
	for (int i = 0; i < FEW; i++) {
		vt_send(t, from, IBV_WR_SEND, i, BYTES, IBV_SEND_SIGNALED);
		sent[i] = next_status(from->send_cq);
		received[i] = next_status(to->recv_cq);
	}
	printf("statuses:");
	for (int i = 0; i < FEW; i++)
		printf(" %d", sent[i]);
	printf("; received:");
	for (int i = 0; i < FEW; i++)
		printf(" %d", received[i]);
	if (sent[FEW - 1] < 0 && ibv_get_async_event(t->ctx, &event) == 0)
		printf("; event: %s", ibv_event_type_str(event.event_type));
	printf("\n");
}

static struct ibv_cq *
extended_cq(struct vt *t)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 2 * VT_DEPTH };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(t->ctx, &attr);

	if (!cq)
		vt_die("ibv_create_cq_ex");
	return ibv_cq_ex_to_cq(cq);
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct ibv_comp_channel *channel = NULL;
	bool extended = strcmp(what, "extended") == 0, events = strcmp(what, "events") == 0;
	struct ibv_cq *cq, *received;
	struct ibv_qp *a, *b;
	struct vt t;

	/* These don't listen, and a client isn't started if its server has ended before. */
	if (strcmp(what, "hang") == 0 || strcmp(what, "crash") == 0)
		usleep(START_US);
	vt_begin(&t);
	if (events)
		channel = ibv_create_comp_channel(t.ctx);
	cq = extended ? extended_cq(&t) : vt_cq(&t, 2 * VT_DEPTH, channel);
	received = vt_cq(&t, 2 * VT_DEPTH, NULL);
	a = vt_qp(&t, IBV_QPT_RC, cq, received);
	b = vt_qp(&t, IBV_QPT_RC, cq, received);
	vt_connect(&t, a, b);
	vt_connect(&t, b, a);
	if (strcmp(what, "receives") == 0)
		receives(&t, a, b);
	else if (extended || events || strcmp(what, "statuses") == 0)
		few(&t, a, extended ? next_status_extended : events ? next_status_by_event : next_status);
	else
		one_after_the_other(&t, a, strcmp(what, "crash") == 0);
	vt_destroy_qp(a);
	vt_destroy_qp(b);
	vt_destroy_cq(cq);
	vt_destroy_cq(received);
	if (channel)
		VT_OK(ibv_destroy_comp_channel(channel));
	vt_end(&t);
	return vt_failed;
}
