/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of SRQs, AHs, multicast and flows, and those that only convert. */
#include <dlfcn.h>
#include <fcntl.h>

#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include "functions.h"

/* In rdma-core's library, but in no header of its. */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid);
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, const struct ib_uverbs_ah_attr *from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, const struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, const struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, const struct ibv_sa_path_rec *from);

/* ---- SRQs ---- */
static struct ibv_srq *
make_srq(struct vt *t)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	return ibv_create_srq(t->pd, &attr);
}
FN(ibv_create_srq)
{
	struct ibv_srq *srq = make_srq(t);

	OR_ERRNO(srq);
	return ibv_destroy_srq(srq);
}
FN(ibv_destroy_srq) { return call_ibv_create_srq(t); }
FN(ibv_create_srq_ex)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { 4, 1, 0 }, .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
					     .srq_type = IBV_SRQT_BASIC, .pd = t->pd };
	struct ibv_srq *srq = ibv_create_srq_ex(t->ctx, &attr);

	OR_ERRNO(srq);
	return ibv_destroy_srq(srq);
}
FN(ibv_modify_srq)
{
	struct ibv_srq *srq = make_srq(t);
	struct ibv_srq_attr attr = { .srq_limit = 2 };

	NEED(srq != NULL && ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0);
	attr.srq_limit = 0;
	NEED(ibv_query_srq(srq, &attr) == 0 && attr.srq_limit == 2);
	return ibv_destroy_srq(srq);
}
FN(ibv_query_srq) { return call_ibv_modify_srq(t); }
FN(ibv_post_srq_recv)
{
	struct ibv_sge sge = { (uintptr_t)t->buf, 100, t->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_srq *srq = make_srq(t);
	int rc;

	NEED(srq != NULL);
	rc = ibv_post_srq_recv(srq, &wr, &bad);
	NEED(ibv_destroy_srq(srq) == 0);
	return rc;
}
FN(ibv_get_srq_num)
{
	struct ibv_xrcd_init_attr xattr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };
	struct ibv_xrcd *xrcd = ibv_open_xrcd(t->ctx, &xattr);
	struct ibv_srq_init_attr_ex attr = {
		.attr = { 4, 1, 0 }, .srq_type = IBV_SRQT_XRC, .pd = t->pd, .xrcd = xrcd, .cq = cq,
		.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	};
	struct ibv_srq *srq;
	uint32_t num = 0;
	int rc;

	OR_ERRNO(xrcd);
	srq = ibv_create_srq_ex(t->ctx, &attr);
	NEED(srq != NULL);
	rc = ibv_get_srq_num(srq, &num);
	NEED(rc != 0 || num != 0);
	NEED(ibv_destroy_srq(srq) == 0 && ibv_close_xrcd(xrcd) == 0);
	return rc;
}
FN_WHY(ibv_post_srq_ops, "there is no tag matching")
{
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_SYNC }, *bad;
	struct ibv_srq *srq = make_srq(t);
	int rc;

	NEED(srq != NULL);
	rc = ibv_post_srq_ops(srq, &wr, &bad);
	NEED(ibv_destroy_srq(srq) == 0);
	return rc;
}

/* ---- AHs and multicast ---- */
FN(ibv_create_ah)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *h;

	vt_ah_attr(t, &attr);
	h = ibv_create_ah(t->pd, &attr);
	OR_ERRNO(h);
	return ibv_destroy_ah(h);
}
FN(ibv_destroy_ah) { return call_ibv_create_ah(t); }
FN(ibv_init_ah_from_wc)
{
	struct ibv_qp *q = vt_qp(t, IBV_QPT_UD, cq, cq);
	struct ibv_sge sge = { (uintptr_t)t->buf, 8, t->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
				  .wr.ud = { ah, q->qp_num, VT_QKEY } }, *bad;
	struct ibv_wc wc, got = { 0 };
	struct ibv_ah_attr attr;
	union ibv_gid gid;
	struct ibv_ah *back;

	vt_connect(t, q, q);
	vt_recv(t, q, 2);
	NEED(ibv_post_send(q, &wr, &bad) == 0);
	for (int i = 0; i < 2; i++) {
		NEED(vt_poll(cq, &wc) && wc.status == IBV_WC_SUCCESS);
		if (wc.wr_id == 2)
			got = wc;
	}
	NEED(ibv_init_ah_from_wc(t->ctx, VT_PORT, &got, (void *)(t->buf + VT_BUFFER_BYTES / 2), &attr) == 0);
	NEED(ibv_query_gid(t->ctx, VT_PORT, VT_GID_INDEX, &gid) == 0 && memcmp(&attr.grh.dgid, &gid, sizeof(gid)) == 0);
	back = ibv_create_ah_from_wc(t->pd, &got, (void *)(t->buf + VT_BUFFER_BYTES / 2), VT_PORT);
	NEED(back != NULL && ibv_destroy_ah(back) == 0);
	return ibv_destroy_qp(q);
}
FN(ibv_create_ah_from_wc) { return call_ibv_init_ah_from_wc(t); }
FN_WHY(ibv_resolve_eth_l2_from_gid, "Ethernet addresses are the daemon's business")
{
	struct ibv_ah_attr attr;
	uint8_t mac[6];
	uint16_t vid;

	vt_ah_attr(t, &attr);
	return ibv_resolve_eth_l2_from_gid(t->ctx, &attr, mac, &vid);
}
FN_WHY(ibv_attach_mcast, "there is no multicast")
{
	union ibv_gid mgid = { .raw = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, 3 } };
	struct ibv_qp *q = vt_qp(t, IBV_QPT_UD, cq, cq);
	int rc;

	vt_connect(t, q, q);
	rc = ibv_attach_mcast(q, &mgid, 0);
	if (rc == 0)
		NEED(ibv_detach_mcast(q, &mgid, 0) == 0);
	NEED(ibv_destroy_qp(q) == 0);
	return rc;
}
FN_WHY(ibv_detach_mcast, "there is no multicast") { return call_ibv_attach_mcast(t); }

/* ---- Flows, work queues, counters ---- */
FN_WHY(ibv_create_flow, "there are no raw packets")
{
	struct ibv_flow_attr attr = { .type = IBV_FLOW_ATTR_NORMAL, .size = sizeof(attr), .port = 1 };

	return ibv_create_flow(qp, &attr) == NULL ? errno : WRONG;
}
FN_WHY(ibv_destroy_flow, "there are no flows") { return NONE; }
FN_WHY(ibv_create_flow_action_esp, "there are no raw packets")
{
	struct ibv_flow_action_esp_attr attr = { 0 };

	return ibv_create_flow_action_esp(t->ctx, &attr) == NULL ? errno : WRONG;
}
FN_WHY(ibv_modify_flow_action_esp, "there are no flow actions") { return NONE; }
FN_WHY(ibv_destroy_flow_action, "there are no flow actions") { return NONE; }
FN_WHY(ibv_create_wq, "there are no raw packets")
{
	struct ibv_wq_init_attr attr = { .wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = t->pd, .cq = cq };

	return ibv_create_wq(t->ctx, &attr) == NULL ? errno : WRONG;
}
FN_WHY(ibv_modify_wq, "there are no work queues") { return NONE; }
FN_WHY(ibv_destroy_wq, "there are no work queues") { return NONE; }
FN_WHY(ibv_post_wq_recv, "there are no work queues") { return NONE; }
FN_WHY(ibv_create_rwq_ind_table, "there are no work queues")
{
	struct ibv_rwq_ind_table_init_attr attr = { 0 };

	return ibv_create_rwq_ind_table(t->ctx, &attr) == NULL ? errno : WRONG;
}
FN_WHY(ibv_destroy_rwq_ind_table, "there are no work queues") { return NONE; }
FN_WHY(ibv_create_counters, "the daemon's counters are read by DPDK's telemetry")
{
	struct ibv_counters_init_attr attr = { 0 };

	return ibv_create_counters(t->ctx, &attr) == NULL ? errno : WRONG;
}
FN_WHY(ibv_destroy_counters, "there are no counters") { return NONE; }
FN_WHY(ibv_attach_counters_point_flow, "there are no counters") { return NONE; }
FN_WHY(ibv_read_counters, "there are no counters") { return NONE; }

/* ---- Words and numbers ---- */
FN(ibv_wc_status_str) { return strlen(ibv_wc_status_str(IBV_WC_RNR_RETRY_EXC_ERR)) > 0 ? 0 : WRONG; }
/* rdma-core has it from release 46 on, in the header, but with a private symbol version. */
FN(ibv_wr_opcode_str)
{
	const char *(*name)(int opcode) = (const char *(*)(int))dlvsym(RTLD_DEFAULT, "ibv_wr_opcode_str", "IBVERBS_PRIVATE_34");

	NEED(name != NULL);
	return strcmp(name(IBV_WR_RDMA_READ), "rdma-read") == 0 && strcmp(name(12), "unknown") == 0 ? 0 : WRONG;
}
FN(ibv_event_type_str) { return strlen(ibv_event_type_str(IBV_EVENT_CQ_ERR)) > 0 ? 0 : WRONG; }
FN(ibv_node_type_str) { return strlen(ibv_node_type_str(IBV_NODE_CA)) > 0 ? 0 : WRONG; }
FN(ibv_port_state_str) { return strlen(ibv_port_state_str(IBV_PORT_ACTIVE)) > 0 ? 0 : WRONG; }
FN(ibv_rate_to_mbps) { return ibv_rate_to_mbps(IBV_RATE_100_GBPS) == 103125 ? 0 : WRONG; }
FN(mbps_to_ibv_rate) { return mbps_to_ibv_rate(103125) == IBV_RATE_100_GBPS ? 0 : WRONG; }
FN(ibv_rate_to_mult) { return ibv_rate_to_mult(IBV_RATE_10_GBPS) == 4 ? 0 : WRONG; }
FN(mult_to_ibv_rate) { return mult_to_ibv_rate(4) == IBV_RATE_10_GBPS ? 0 : WRONG; }
FN(ibv_flow_label_to_udp_sport) { return ibv_flow_label_to_udp_sport(0) >= 0xc000 ? 0 : WRONG; }
FN(ibv_copy_ah_attr_from_kern)
{
	struct ib_uverbs_ah_attr from = { .sl = 3, .is_global = 1, .grh = { .hop_limit = 9 } };
	struct ibv_ah_attr to;

	ibv_copy_ah_attr_from_kern(&to, &from);
	return to.sl == 3 && to.is_global == 1 && to.grh.hop_limit == 9 ? 0 : WRONG;
}
FN(ibv_copy_qp_attr_from_kern)
{
	struct ib_uverbs_qp_attr from = { .qp_state = 3, .rq_psn = 77, .timeout = 12 };
	struct ibv_qp_attr to;

	ibv_copy_qp_attr_from_kern(&to, &from);
	return to.qp_state == IBV_QPS_RTS && to.rq_psn == 77 && to.timeout == 12 ? 0 : WRONG;
}
FN(ibv_copy_path_rec_from_kern)
{
	struct ib_user_path_rec from = { .pkey = 5, .sl = 2, .mtu = 4 };
	struct ibv_sa_path_rec to;

	ibv_copy_path_rec_from_kern(&to, &from);
	return to.pkey == 5 && to.sl == 2 && to.mtu == 4 ? 0 : WRONG;
}
FN(ibv_copy_path_rec_to_kern)
{
	struct ibv_sa_path_rec from = { .pkey = 5, .sl = 2, .mtu = 4 };
	struct ib_user_path_rec to;

	ibv_copy_path_rec_to_kern(&to, &from);
	return to.pkey == 5 && to.sl == 2 && to.mtu == 4 ? 0 : WRONG;
}
FN(ibv_dontfork_range)
{
	int (*fn)(void *, size_t) = dlsym(RTLD_DEFAULT, "ibv_dontfork_range");

	return fn != NULL && fn(t->buf, 100) == 0 ? 0 : WRONG;
}
FN(ibv_dofork_range)
{
	int (*fn)(void *, size_t) = dlsym(RTLD_DEFAULT, "ibv_dofork_range");

	return fn != NULL && fn(t->buf, 100) == 0 ? 0 : WRONG;
}
