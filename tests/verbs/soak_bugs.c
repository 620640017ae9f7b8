/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program with bugs, for test_soak.py: it writes to itself through two QPs of its own, and doesn't do what it should if a write fails.
 *
 *   soak_bugs hang      waits for the success of each of 1000 writes, for ever
 *   soak_bugs crash     aborts if one fails
 *   soak_bugs statuses  has no bug: posts 16 writes and prints the status of each completion
 */
#include <unistd.h>

#include "vt.h"

enum { WRITES = 1000, FEW = 16, BYTES = 100, START_US = 500000 };

/* @return the status of the next completion. */
static enum ibv_wc_status
next_status(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 0)
		usleep(10);
	return wc.status;
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
few(struct vt *t, struct ibv_qp *qp)
{
	for (int i = 0; i < FEW; i++)
		vt_send(t, qp, IBV_WR_RDMA_WRITE, i, BYTES, IBV_SEND_SIGNALED);
	printf("statuses:");
	for (int i = 0; i < FEW; i++)
		printf(" %d", next_status(qp->send_cq));
	printf("\n");
}

int
main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct ibv_qp *a, *b;
	struct ibv_cq *cq;
	struct vt t;

	/* It doesn't listen, and a client isn't started if its server has ended before. */
	usleep(START_US);
	vt_begin(&t);
	cq = vt_cq(&t, 2 * VT_DEPTH, NULL);
	a = vt_qp(&t, IBV_QPT_RC, cq, cq);
	b = vt_qp(&t, IBV_QPT_RC, cq, cq);
	vt_connect(&t, a, b);
	vt_connect(&t, b, a);
	if (strcmp(what, "statuses") == 0)
		few(&t, a);
	else
		one_after_the_other(&t, a, strcmp(what, "crash") == 0);
	vt_destroy_qp(a);
	vt_destroy_qp(b);
	vt_destroy_cq(cq);
	vt_end(&t);
	return vt_failed;
}
