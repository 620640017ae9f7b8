/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flood N BYTES: N UC QPs that always have something to send, messages of BYTES bytes to themselves.
 */
#include "stuck.h"
#include "vt.h"

enum { QPS_MAX = 64 };

int
main(int argc, char **argv)
{
	unsigned int n = argc > 1 ? (unsigned int)atoi(argv[1]) : 16, bytes = argc > 2 ? (unsigned int)atoi(argv[2]) : 4096;
	struct ibv_cq *cqs[QPS_MAX];
	struct ibv_qp *qps[QPS_MAX];
	struct ibv_wc wc[VT_DEPTH];
	unsigned int rounds = 0;
	struct vt t;

	if (n > QPS_MAX || bytes > VT_BUFFER_BYTES / 2)
		attack_die("too many");
	vt_begin(&t);
	for (unsigned int i = 0; i < n; i++) {
		cqs[i] = vt_cq(&t, VT_DEPTH, NULL);
		qps[i] = vt_qp(&t, IBV_QPT_UC, cqs[i], cqs[i]);
		if (qps[i] == NULL)
			attack_die("no QP");
		vt_connect(&t, qps[i], qps[i]);
		for (unsigned int j = 0; j < VT_DEPTH / 2; j++)
			vt_send(&t, qps[i], IBV_WR_RDMA_WRITE, j, bytes, IBV_SEND_SIGNALED);
	}
	for (;; rounds++) {
		if (rounds == 1000)
			attack_begun();
		for (unsigned int i = 0; i < n; i++)
			for (int got = ibv_poll_cq(cqs[i], VT_DEPTH, wc); got > 0; got--)
				vt_send(&t, qps[i], IBV_WR_RDMA_WRITE, 0, bytes, IBV_SEND_SIGNALED);
	}
}
