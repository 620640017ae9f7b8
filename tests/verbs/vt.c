/* SPDX-License-Identifier: BSD-3-Clause */
#include <poll.h>
#include <time.h>

#include "vt.h"

const char *vt_case_name = "set-up";
bool vt_failed;

void
vt_die(const char *what)
{
	printf("%s: %s: %s\n", vt_case_name, what, strerror(errno));
	exit(1);
}

uint64_t
vt_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * UINT64_C(1000000000) + ts.tv_nsec;
}

void
vt_begin(struct vt *t)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (list == NULL || list[0] == NULL)
		vt_die("no verbs device");
	t->ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	if (t->ctx == NULL)
		vt_die("ibv_open_device");
	t->pd = ibv_alloc_pd(t->ctx);
	t->buf = aligned_alloc(4096, VT_BUFFER_BYTES);
	if (t->pd == NULL || t->buf == NULL)
		vt_die("ibv_alloc_pd");
	memset(t->buf, 0, VT_BUFFER_BYTES);
	t->mr = ibv_reg_mr(t->pd, t->buf, VT_BUFFER_BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND);
	if (t->mr == NULL)
		vt_die("ibv_reg_mr");
}

void
vt_end(struct vt *t)
{
	vt_case_name = "end";
	vt_failed = false;
	/* Whatever a case left behind shows here. */
	VT_OK(ibv_dereg_mr(t->mr));
	VT_OK(ibv_dealloc_pd(t->pd));
	VT_OK(ibv_close_device(t->ctx));
	free(t->buf);
}

int
vt_main(int argc, char **argv, const struct vt_case *cases, unsigned int n)
{
	unsigned int i, nb_failed = 0, nb_run = 0;
	struct vt t;

	setvbuf(stdout, NULL, _IOLBF, 0);
	vt_begin(&t);
	for (i = 0; i < n; i++) {
		if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
			continue;
		vt_case_name = cases[i].name;
		vt_failed = false;
		cases[i].run(&t);
		printf("%s %s\n", vt_failed ? "FAILED" : "ok", cases[i].name);
		nb_failed += vt_failed;
		nb_run++;
	}
	vt_end(&t);
	printf("%u cases, %u failed\n", nb_run, nb_failed);
	return nb_failed > 0 || nb_run == 0 || vt_failed;
}

struct ibv_cq *
vt_cq(struct vt *t, int cqe, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(t->ctx, cqe, NULL, channel, 0);

	if (cq == NULL)
		vt_die("ibv_create_cq");
	return cq;
}

struct ibv_qp *
vt_qp(struct vt *t, enum ibv_qp_type type, struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = type,
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.cap = { .max_send_wr = VT_DEPTH, .max_recv_wr = VT_DEPTH, .max_send_sge = VT_SGES, .max_recv_sge = VT_SGES,
			 .max_inline_data = VT_INLINE_BYTES },
	};
	struct ibv_qp *qp = ibv_create_qp(t->pd, &attr);

	if (qp == NULL)
		vt_die("ibv_create_qp");
	return qp;
}

int
vt_attr_init(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = VT_PORT, .qkey = VT_QKEY };
	if (qp->qp_type == IBV_QPT_UD)
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (qp->qp_type == IBV_QPT_RC)
		attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

void
vt_ah_attr(struct vt *t, struct ibv_ah_attr *attr)
{
	*attr = (struct ibv_ah_attr){
		.is_global = 1,
		.port_num = VT_PORT,
		.grh = { .sgid_index = VT_GID_INDEX, .hop_limit = 64 },
	};
	if (ibv_query_gid(t->ctx, VT_PORT, VT_GID_INDEX, &attr->grh.dgid) != 0)
		vt_die("ibv_query_gid");
}

int
vt_attr_rtr(struct vt *t, struct ibv_qp *qp, uint32_t dest_qpn, struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = dest_qpn,
		.rq_psn = 100,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
	};
	if (qp->qp_type == IBV_QPT_UD)
		return IBV_QP_STATE;
	vt_ah_attr(t, &attr->ah_attr);
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       (qp->qp_type == IBV_QPT_RC ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
}

int
vt_attr_rts(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .sq_psn = 100, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4,
	};
	return IBV_QP_STATE | IBV_QP_SQ_PSN |
	       (qp->qp_type == IBV_QPT_RC ?
			IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
}

void
vt_connect(struct vt *t, struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr attr;
	int mask;

	mask = vt_attr_init(qp, &attr);
	VT_OK(ibv_modify_qp(qp, &attr, mask));
	mask = vt_attr_rtr(t, qp, peer->qp_num, &attr);
	VT_OK(ibv_modify_qp(qp, &attr, mask));
	mask = vt_attr_rts(qp, &attr);
	VT_OK(ibv_modify_qp(qp, &attr, mask));
}

void
vt_destroy_qp(struct ibv_qp *qp)
{
	VT_OK(ibv_destroy_qp(qp));
}

void
vt_destroy_cq(struct ibv_cq *cq)
{
	VT_OK(ibv_destroy_cq(cq));
}

void
vt_send(struct vt *t, struct ibv_qp *qp, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t length, int flags)
{
	struct ibv_sge sge = { .addr = (uintptr_t)t->buf, .length = length, .lkey = t->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.send_flags = flags,
		.wr.rdma = { .remote_addr = (uintptr_t)t->buf + VT_BUFFER_BYTES / 2, .rkey = t->mr->rkey },
	}, *bad;

	VT_OK(ibv_post_send(qp, &wr, &bad));
}

void
vt_recv(struct vt *t, struct ibv_qp *qp, uint64_t wr_id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)t->buf + VT_BUFFER_BYTES / 2, .length = VT_BUFFER_BYTES / 2, .lkey = t->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	VT_OK(ibv_post_recv(qp, &wr, &bad));
}

bool
vt_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	uint64_t end = vt_now_ns() + VT_SECONDS * UINT64_C(1000000000);
	int n;

	do
		n = ibv_poll_cq(cq, 1, wc);
	while (n == 0 && vt_now_ns() < end);
	VT_CHECK(n == 1, "ibv_poll_cq gives %d", n);
	return n == 1;
}

void
vt_expect(struct ibv_cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	if (!vt_poll(cq, &wc))
		return;
	VT_CHECK(wc.status == status, "%s, not %s", ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
	VT_CHECK(wc.wr_id == wr_id, "wr_id %lu, not %lu", (unsigned long)wc.wr_id, (unsigned long)wr_id);
}

bool
vt_readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}
