/* SPDX-License-Identifier: BSD-3-Clause */
/* The negotiated parameters as QP attributes (Linux, core/cm.c: cm_init_qp_*_attr()). */
#include "control/cma/cma_priv.h"

static uint32_t
access_of(const struct cma_id *id)
{
	return UROCE_ACCESS_REMOTE_WRITE |
	       (id->responder_resources > 0 ? UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC : 0);
}

static void
attr_init(const struct cma_id *id, struct ctl_cm_qp_attr_rsp *a)
{
	a->mask = UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT;
	a->attr.port_num = 1;
	if (cma_is_ud(id)) {
		a->mask |= UROCE_QP_QKEY;
		a->attr.qkey = CMA_UDP_QKEY;
		return;
	}
	a->mask |= UROCE_QP_ACCESS_FLAGS;
	if (id->conn == NULL)
		return;
	a->attr.qp_access_flags = access_of(id);
}

/** Fill in the attributes for RTS. @return their mask. */
static uint32_t
attr_rts(const struct cma_id *id, struct ctl_cm_qp_attr_rsp *a)
{
	const uint32_t mask = UROCE_QP_STATE | UROCE_QP_SQ_PSN;

	a->attr.sq_psn = id->sq_psn;
	if (id->qp_type == UROCE_QPT_UC || cma_is_ud(id))
		return mask;
	a->attr.timeout = id->timeout;
	if (id->qp_type == UROCE_QPT_XRC_RECV)
		return mask | UROCE_QP_TIMEOUT;
	a->attr.retry_cnt = id->retry_count;
	a->attr.rnr_retry = id->rnr_retry_count;
	a->attr.max_rd_atomic = id->initiator_depth;
	return mask | UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_MAX_QP_RD_ATOMIC;
}

static void
attr_rtr(const struct cma_id *id, struct ctl_cm_qp_attr_rsp *a)
{
	a->mask = UROCE_QP_STATE;
	a->rts_mask = attr_rts(id, a);
	if (cma_is_ud(id))
		return;
	a->mask |= UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN;
	cma_av(id, gid_at(id->remote.gid), &a->attr.ah);
	a->attr.qp_access_flags = access_of(id);
	a->attr.path_mtu = id->path_mtu;
	a->attr.dest_qp_num = id->remote_qpn;
	a->attr.rq_psn = id->rq_psn;
	if (id->qp_type == UROCE_QPT_RC || id->qp_type == UROCE_QPT_XRC_RECV) {
		a->mask |= UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER;
		a->attr.max_dest_rd_atomic = id->responder_resources;
		a->attr.min_rnr_timer = 0;
	}
}

int
op_cm_qp_attr(struct session *s, struct request *r)
{
	const struct ctl_cm_qp_attr_req *q = &r->req->cm_qp_attr;
	struct ctl_cm_qp_attr_rsp *a = &r->rsp.cm_qp_attr;
	struct cma_id *id = r->obj;

	if (id->port == NULL)
		return req_fail(r, EINVAL, "this id has no device yet");
	if (q->state != UROCE_QPS_INIT && !cma_is_ud(id) && id->conn == NULL)
		return req_fail(r, EINVAL, "this id has no connection yet");
	if (q->state == UROCE_QPS_INIT)
		attr_init(id, a);
	else if (q->state == UROCE_QPS_RTR)
		attr_rtr(id, a);
	else if (q->state == UROCE_QPS_RTS)
		a->mask = attr_rts(id, a);
	else
		return req_fail(r, EINVAL, "state %u: must be INIT, RTR or RTS", q->state);
	a->attr.qp_state = q->state;
	return 0;
}
