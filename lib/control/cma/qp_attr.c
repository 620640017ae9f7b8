/* SPDX-License-Identifier: BSD-3-Clause */
/* The negotiated parameters as QP attributes (Linux, core/cm.c: cm_init_qp_*_attr()), and QPs that the daemon moves itself. */
#include "control/cma/cma_priv.h"
#include "control/obj/obj_qp_priv.h"

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
		a->attr.qkey = CTL_CM_UDP_QKEY;
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
	cma_av(id, cma_peer_gid(id), &a->attr.ah);
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

/* ---- QPs that the daemon moves ---- */
struct session *
cma_qp_session(const struct cma_id *id, uint32_t qpn, const struct qp **qp)
{
	const struct session *own = id->session;
	struct session *s;

	*qp = qp_table_get(own->control->s.sh.qps, qpn);
	s = *qp != NULL ? session_find(own->control, (uintptr_t)qp_owner(*qp)) : NULL;
	/* Processes in another PID namespace all have number 0, so they can't be told apart. */
	return s != NULL && own->pid != 0 && s->pid == own->pid && s->uid == own->uid && s->port == id->port ? s : NULL;
}

/**
 * @param owner  Receives the QP's session.
 * @return the QP of that handle and number; NULL, with @p r failed: it can't be moved now.
 */
static struct obj_qp *
find_qp(const struct cma_id *id, uint32_t handle, uint32_t qpn, struct session **owner, struct request *r)
{
	const struct qp *qp;
	struct obj_qp *found;

	*owner = cma_qp_session(id, qpn, &qp);
	found = *owner != NULL && session_is_settled(*owner) && !(*owner)->device_gone ? handles_get(&(*owner)->tab[OBJ_QP], handle) : NULL;
	if (found != NULL && found->qp == qp)
		return found;
	req_fail(r, EAGAIN, "QP %#x can't be moved with the id", qpn);
	return NULL;
}

int
op_cm_accept_qp(struct session *s, struct request *r)
{
	const struct ctl_cm_connect_req *q = &r->req->cm_connect;
	struct ctl_cm_qp_attr_rsp a = { 0 };
	struct cma_id *id = r->obj;
	struct session *owner;
	struct obj_qp *qp;
	int rc;

	if (id->conn == NULL || cma_is_ud(id))
		return req_fail(r, EINVAL, "this id has no connection");
	qp = find_qp(id, q->qp, q->param.qp_num, &owner, r);
	if (qp == NULL)
		return EAGAIN;
	attr_rtr(id, &a);
	if (q->param.responder_resources != UINT8_MAX)
		a.attr.max_dest_rd_atomic = q->param.responder_resources;
	if (q->param.initiator_depth != UINT8_MAX)
		a.attr.max_rd_atomic = q->param.initiator_depth;
	rc = obj_qp_modify(owner, qp, UROCE_QPS_RTR, &a.attr, a.mask | UROCE_QP_ACCESS_FLAGS, r);
	if (rc == 0)
		rc = obj_qp_modify(owner, qp, UROCE_QPS_RTS, &a.attr, a.rts_mask, r);
	return rc == 0 ? op_cm_accept(s, r) : rc;
}

int
op_cm_disconnect_qp(struct session *s, struct request *r)
{
	const struct ctl_cm_disconnect_req *q = &r->req->cm_disconnect;
	static const struct uroce_qp_attr none;
	struct cma_id *id = r->obj;
	struct session *owner;
	struct obj_qp *qp;

	if (id->conn == NULL || cma_is_ud(id))
		return req_fail(r, EINVAL, "this id has no connection to end");
	qp = find_qp(id, q->qp, q->qp_num, &owner, r);
	if (qp == NULL)
		return EAGAIN;
	/* A QP that can't be moved needn't be. */
	(void)obj_qp_modify(owner, qp, UROCE_QPS_ERR, &none, 0, r);
	return op_cm_disconnect(s, r);
}
