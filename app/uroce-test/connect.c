/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "objects.h"

enum { HOP_LIMIT = 64 };

/* ACK timeout 67 ms, seven retries; RNR timer 0.64 ms, RNR retries without limit. */
const struct connect_attr connect_defaults = {
	.timeout = 14,
	.retry_cnt = 7,
	.rnr_retry = 7,
	.min_rnr_timer = 12,
	.rd_atomic = 16,
	.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

static int
to_init(struct ibv_qp *qp, const struct connect_attr *a)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (qp->qp_type == IBV_QPT_UD) {
		attr.qkey = OBJECT_UD_QKEY;
		mask |= IBV_QP_QKEY;
	} else {
		attr.qp_access_flags = (unsigned int)a->access;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	return ibv_modify_qp(qp, &attr, mask);
}

static int
to_rtr(struct ibv_qp *qp, const struct connect_attr *a, const struct object_peer *peer)
{
	bool responds = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_RECV;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct ibv_port_attr port;
	int mask = IBV_QP_STATE, rc;

	if (qp->qp_type == IBV_QPT_UD)
		return ibv_modify_qp(qp, &attr, mask);
	rc = a->mtu != 0 ? 0 : ibv_query_port(qp->context, 1, &port);
	if (rc != 0)
		return rc;
	attr.path_mtu = a->mtu != 0 ? a->mtu : port.active_mtu;
	attr.dest_qp_num = peer->qpn;
	attr.rq_psn = peer->psn & PSN_MASK;
	attr.ah_attr = (struct ibv_ah_attr){ .is_global = 1, .port_num = 1 };
	attr.ah_attr.grh.hop_limit = HOP_LIMIT;
	attr.ah_attr.grh.sgid_index = (uint8_t)a->sgid_index;
	memcpy(attr.ah_attr.grh.dgid.raw, &peer->gid, sizeof(peer->gid));
	mask |= IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_AV;
	if (responds) {
		attr.max_dest_rd_atomic = a->rd_atomic;
		attr.min_rnr_timer = a->min_rnr_timer;
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	return ibv_modify_qp(qp, &attr, mask);
}

static int
to_rts(struct ibv_qp *qp, const struct connect_attr *a, uint32_t psn)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .sq_psn = psn & PSN_MASK };
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_XRC_SEND) {
		attr.timeout = a->timeout;
		attr.retry_cnt = a->retry_cnt;
		attr.rnr_retry = a->rnr_retry;
		attr.max_rd_atomic = a->rd_atomic;
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	return ibv_modify_qp(qp, &attr, mask);
}

int
connect_qp(struct ibv_qp *qp, const struct connect_attr *a, uint32_t psn, const struct object_peer *peer, const char **step)
{
	int rc;

	*step = "INIT";
	rc = qp->state == IBV_QPS_RESET ? to_init(qp, a) : 0;
	if (rc != 0)
		return rc;
	*step = "RTR";
	rc = to_rtr(qp, a, peer);
	/* An XRC target QP never sends, so it doesn't have to be in RTS. */
	if (rc != 0 || qp->qp_type == IBV_QPT_XRC_RECV)
		return rc;
	*step = "RTS";
	return to_rts(qp, a, psn);
}
