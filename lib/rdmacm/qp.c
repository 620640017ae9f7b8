/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs and SRQs of ids, and their state transitions. */
#include "rdmacm/rdmacm_priv.h"

void
cm_ah_attr(const struct uroce_ah_attr *av, struct ibv_ah_attr *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->grh.dgid.raw, av->dgid, sizeof(av->dgid));
	out->grh.flow_label = av->flow_label;
	out->grh.sgid_index = av->sgid_index;
	out->grh.hop_limit = av->hop_limit;
	out->grh.traffic_class = av->traffic_class;
	out->sl = av->sl;
	out->is_global = 1;
	out->port_num = av->port_num;
}

/** Ask the daemon for the attributes of the transition to @p state. */
static int
ask_attr(struct cmid *id, enum ibv_qp_state state, struct ctl_cm_qp_attr_rsp *rsp)
{
	struct client_call c;
	int err;

	client_call_init(&c, CTL_CM_QP_ATTR);
	c.req.cm_qp_attr.id = id->handle;
	c.req.cm_qp_attr.state = state;
	err = cm_call(id->channel, &c);
	if (!err)
		*rsp = c.rsp.cm_qp_attr;
	return err;
}

static void
take_attr(const struct ctl_cm_qp_attr_rsp *rsp, struct ibv_qp_attr *attr)
{
	const struct uroce_qp_attr *a = &rsp->attr;

	attr->port_num = a->port_num;
	attr->pkey_index = a->pkey_index;
	attr->qkey = a->qkey;
	attr->qp_access_flags = a->qp_access_flags;
	attr->path_mtu = (enum ibv_mtu)a->path_mtu;
	attr->dest_qp_num = a->dest_qp_num;
	attr->rq_psn = a->rq_psn;
	attr->sq_psn = a->sq_psn;
	attr->max_dest_rd_atomic = a->max_dest_rd_atomic;
	attr->max_rd_atomic = a->max_rd_atomic;
	attr->min_rnr_timer = a->min_rnr_timer;
	attr->timeout = a->timeout;
	attr->retry_cnt = a->retry_cnt;
	attr->rnr_retry = a->rnr_retry;
	if (rsp->mask & UROCE_QP_AV)
		cm_ah_attr(&a->ah, &attr->ah_attr);
}

RDMACM_EXPORT int
rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
	struct ctl_cm_qp_attr_rsp rsp;
	int err = ask_attr(to_cmid(id), qp_attr->qp_state, &rsp);

	if (err)
		return cm_result(err);
	take_attr(&rsp, qp_attr);
	*qp_attr_mask = (int)rsp.mask;
	return 0;
}

int
cmid_qp_ready(struct cmid *id, uint8_t responder_resources, uint8_t initiator_depth)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct ctl_cm_qp_attr_rsp rsp;
	int mask, err;

	if (!id->id.qp)
		return EINVAL;
	err = ask_attr(id, IBV_QPS_RTR, &rsp);
	if (err)
		return err;
	take_attr(&rsp, &attr);
	if (responder_resources != RDMA_MAX_RESP_RES)
		attr.max_dest_rd_atomic = responder_resources;
	if (initiator_depth != RDMA_MAX_INIT_DEPTH)
		attr.max_rd_atomic = initiator_depth;
	mask = (int)rsp.mask;
	/* The access flags are known only now. */
	if (id->id.qp_type != IBV_QPT_UD)
		mask |= IBV_QP_ACCESS_FLAGS;
	err = ibv_modify_qp(id->id.qp, &attr, mask);
	if (err)
		return err;
	attr.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(id->id.qp, &attr, (int)rsp.rts_mask);
}

/** @return whether the library has to do itself what the daemon was asked to do with a QP: it can't, or is older and doesn't know the request. */
static bool
is_ours_to_do(int err)
{
	return err == EAGAIN || err == EINVAL;
}

int
cmid_accept_qp(struct cmid *id, struct client_call *c)
{
	struct ctl_cm_connect_req *q = &c->req.cm_connect;
	int err;

	c->req.op = CTL_CM_ACCEPT_QP;
	c->quiet = true;
	q->qp = id->id.qp->handle;
	q->param.qp_num = id->id.qp->qp_num;
	err = cm_call(id->channel, c);
	if (!err)
		id->id.qp->state = IBV_QPS_RTS;
	if (is_ours_to_do(err)) {
		c->req.op = CTL_CM_ACCEPT;
		c->quiet = false;
		err = cmid_qp_ready(id, q->param.responder_resources, q->param.initiator_depth);
		/* The program may try again with other depths. */
		if (err)
			return err;
		err = cm_call(id->channel, c);
	}
	if (err)
		cmid_qp_error(id);
	return err;
}

int
cmid_disconnect_qp(struct cmid *id)
{
	struct client_call c;
	int err;

	client_call_init(&c, CTL_CM_DISCONNECT_QP);
	c.req.cm_disconnect = (struct ctl_cm_disconnect_req){ .id = id->handle, .qp = id->id.qp->handle, .qp_num = id->id.qp->qp_num };
	c.quiet = true;
	err = cm_call(id->channel, &c);
	if (!err)
		id->id.qp->state = IBV_QPS_ERR;
	if (!is_ours_to_do(err))
		return err;
	cmid_qp_error(id);
	return cm_call_handle(id->channel, CTL_CM_DISCONNECT, id->handle);
}

void
cmid_qp_error(struct cmid *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	if (id->id.qp && id->id.qp_type != IBV_QPT_UD)
		ibv_modify_qp(id->id.qp, &attr, IBV_QP_STATE);
}

static int
init_qp(struct cmid *id)
{
	/* As the daemon answers for INIT. What the peer may access is set on the way to RTR. */
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = RDMA_UDP_QKEY };
	bool ud = id->id.qp_type == IBV_QPT_UD;
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS), err = 0;

	if (id->id.qp->state != IBV_QPS_INIT)
		err = ibv_modify_qp(id->id.qp, &attr, mask);
	/* A UD QP needs no peer, so it goes to RTS at once. */
	return err || !ud ? err : cmid_qp_ready(id, RDMA_MAX_RESP_RES, RDMA_MAX_INIT_DEPTH);
}

/* ---- CQs for programs that pass none ---- */
static int
make_cq(struct cmid *id, uint32_t entries, struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	*channel = ibv_create_comp_channel(id->id.verbs);
	if (!*channel)
		return errno;
	*cq = ibv_create_cq(id->id.verbs, entries ? (int)entries : 1, &id->id, *channel, 0);
	return *cq ? 0 : errno;
}

static void
free_cq(struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	if (*cq)
		ibv_destroy_cq(*cq);
	if (*channel)
		ibv_destroy_comp_channel(*channel);
	*cq = NULL;
	*channel = NULL;
}

static void
free_cqs(struct cmid *id)
{
	/* CQs passed by the program have no channel in the id. */
	if (id->id.send_cq_channel)
		free_cq(&id->id.send_cq_channel, &id->id.send_cq);
	if (id->id.recv_cq_channel && !id->id.srq)
		free_cq(&id->id.recv_cq_channel, &id->id.recv_cq);
}

static int
make_cqs(struct cmid *id, struct ibv_qp_init_attr_ex *attr)
{
	int err = 0;

	if ((id->id.recv_cq_channel && attr->recv_cq) || (id->id.send_cq_channel && attr->send_cq))
		return EINVAL;
	if (!attr->recv_cq && !id->id.recv_cq)
		err = make_cq(id, attr->cap.max_recv_wr, &id->id.recv_cq_channel, &id->id.recv_cq);
	if (!err && !attr->send_cq && !id->id.send_cq)
		err = make_cq(id, attr->cap.max_send_wr, &id->id.send_cq_channel, &id->id.send_cq);
	if (!attr->send_cq)
		attr->send_cq = id->id.send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = id->id.recv_cq;
	return err;
}

/* Make a QP that is in INIT already, if the daemon is able to. */
static struct ibv_qp *
make_qp(struct cmid *id, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr_ex in_init = { 0 };
	struct ibv_qp *qp;

	/* Of another type it has other attributes in INIT. With other members it could have flags, too. */
	if (attr->qp_type != id->id.qp_type || (attr->comp_mask & ~(uint32_t)(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD)))
		return ibv_create_qp_ex(id->id.verbs, attr);
	/* In older programs the struct ends before the flags. */
	memcpy(&in_init, attr, offsetof(struct ibv_qp_init_attr_ex, create_flags));
	in_init.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	in_init.create_flags = CLIENT_CREATE_IN_INIT;
	qp = ibv_create_qp_ex(id->id.verbs, &in_init);
	attr->cap = in_init.cap;
	return qp;
}

RDMACM_EXPORT int
rdma_create_qp_ex(struct rdma_cm_id *rid, struct ibv_qp_init_attr_ex *attr)
{
	struct cmid *id = to_cmid(rid);
	struct ibv_qp *qp;
	int err;

	if (rid->qp || !rid->verbs)
		return cm_result(EINVAL);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD)) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = rid->pd;
	} else if (!attr->pd) {
		attr->pd = rid->pd;
	} else if (attr->pd->context != rid->verbs) {
		return cm_result(EINVAL);
	}
	/* A target QP without an XRC domain gets the process's domain, as its SRQs do (rdma_create_srq_ex()). */
	if (attr->qp_type == IBV_QPT_XRC_RECV && !(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD)) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
		attr->xrcd = NULL;
	}
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) && !attr->xrcd) {
		err = cm_device_xrcd(id->dev, &attr->xrcd);
		if (err)
			return cm_result(err);
	}
	if (rid->srq && !attr->srq)
		attr->srq = rid->srq;
	err = attr->qp_type == IBV_QPT_XRC_RECV ? 0 : make_cqs(id, attr);
	if (err)
		goto fail;
	qp = make_qp(id, attr);
	if (!qp) {
		err = errno;
		goto fail;
	}
	rid->qp = qp;
	err = init_qp(id);
	if (!err) {
		rid->pd = attr->pd;
		return 0;
	}
	rid->qp = NULL;
	ibv_destroy_qp(qp);
fail:
	free_cqs(id);
	return cm_result(err);
}

RDMACM_EXPORT int
rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd ? pd : id->pd,
	};
	int rc = rdma_create_qp_ex(id, &ex);

	if (rc == 0)
		attr->cap = ex.cap;
	return rc;
}

RDMACM_EXPORT void
rdma_destroy_qp(struct rdma_cm_id *id)
{
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	free_cqs(to_cmid(id));
}

RDMACM_EXPORT int
rdma_create_srq_ex(struct rdma_cm_id *rid, struct ibv_srq_init_attr_ex *attr)
{
	struct cmid *id = to_cmid(rid);
	struct ibv_srq *srq;
	int err = 0;

	if (!rid->verbs || rid->srq)
		return cm_result(EINVAL);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		attr->pd = rid->pd;
		attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
	}
	if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type == IBV_SRQT_XRC) {
		if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) || !attr->xrcd) {
			err = cm_device_xrcd(id->dev, &attr->xrcd);
			attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD;
		}
		if (!err && (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) || !attr->cq)) {
			if (!rid->recv_cq)
				err = make_cq(id, attr->attr.max_wr, &rid->recv_cq_channel, &rid->recv_cq);
			attr->cq = rid->recv_cq;
			attr->comp_mask |= IBV_SRQ_INIT_ATTR_CQ;
		}
	}
	srq = err ? NULL : ibv_create_srq_ex(rid->verbs, attr);
	if (!srq) {
		err = err ? err : errno;
		if (rid->recv_cq_channel)
			free_cq(&rid->recv_cq_channel, &rid->recv_cq);
		return cm_result(err);
	}
	if (!rid->pd)
		rid->pd = attr->pd;
	rid->srq = srq;
	return 0;
}

RDMACM_EXPORT int
rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex ex = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
		.pd = pd,
	};
	int rc = rdma_create_srq_ex(id, &ex);

	if (rc == 0)
		attr->attr = ex.attr;
	return rc;
}

RDMACM_EXPORT void
rdma_destroy_srq(struct rdma_cm_id *id)
{
	ibv_destroy_srq(id->srq);
	id->srq = NULL;
	if (id->recv_cq_channel && !id->qp)
		free_cq(&id->recv_cq_channel, &id->recv_cq);
}
