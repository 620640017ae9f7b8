/* SPDX-License-Identifier: BSD-3-Clause */
#include "requests.h"

#include <string.h>

const struct request_shape request_shapes[REQUEST_SHAPES] = {
#define AT(member) offsetof(struct ctl_req, member)
	{ CTL_HELLO, 0, { { 0, 0 } } },
	{ CTL_MEMORY, 0, { { 0, 0 } } },
	{ CTL_DEVICE_GET, 0, { { 0, 0 } } },
	{ CTL_DEVICE_OPEN, 0, { { 0, 0 } } },
	{ CTL_DEVICE_QUERY, 0, { { 0, 0 } } },
	{ CTL_PORT_QUERY, 0, { { 0, 0 } } },
	{ CTL_GID_TABLE, 0, { { 0, 0 } } },
	{ CTL_PD_ALLOC, 0, { { 0, 0 } } },
	{ CTL_PD_FREE, 1, { { AT(handle), H_PD } } },
	{ CTL_MR_DEREG, 1, { { AT(handle), H_MR } } },
	{ CTL_CQ_CREATE, 1, { { AT(cq_create.channel), H_CHANNEL } } },
	{ CTL_CQ_RESIZE, 1, { { AT(cq_resize.handle), H_CQ } } },
	{ CTL_CQ_MODIFY, 1, { { AT(cq_modify.handle), H_CQ } } },
	{ CTL_CQ_DESTROY, 1, { { AT(handle), H_CQ } } },
	{ CTL_SRQ_CREATE, 3, { { AT(srq_create.pd), H_PD }, { AT(srq_create.xrcd), H_XRCD }, { AT(srq_create.cq), H_CQ } } },
	{ CTL_SRQ_MODIFY, 1, { { AT(srq_modify.handle), H_SRQ } } },
	{ CTL_SRQ_QUERY, 1, { { AT(handle), H_SRQ } } },
	{ CTL_SRQ_DESTROY, 1, { { AT(handle), H_SRQ } } },
	{ CTL_QP_CREATE, 4, { { AT(qp_create.pd), H_PD }, { AT(qp_create.send_cq), H_CQ }, { AT(qp_create.recv_cq), H_CQ },
			      { AT(qp_create.xrcd), H_XRCD } } },
	{ CTL_QP_MODIFY, 1, { { AT(qp_modify.handle), H_QP } } },
	{ CTL_QP_QUERY, 1, { { AT(handle), H_QP } } },
	{ CTL_QP_DESTROY, 1, { { AT(handle), H_QP } } },
	{ CTL_AH_CREATE, 1, { { AT(ah_create.pd), H_PD } } },
	{ CTL_AH_DESTROY, 1, { { AT(handle), H_AH } } },
	{ CTL_MCAST_ATTACH, 1, { { AT(mcast.qp), H_QP } } },
	{ CTL_MCAST_DETACH, 1, { { AT(mcast.qp), H_QP } } },
	{ CTL_MW_ALLOC, 1, { { AT(mw_alloc.pd), H_PD } } },
	{ CTL_MW_FREE, 1, { { AT(handle), H_MW } } },
	{ CTL_MR_NULL, 1, { { AT(handle), H_PD } } },
	{ CTL_DM_ALLOC, 0, { { 0, 0 } } },
	{ CTL_DM_FREE, 1, { { AT(handle), H_DM } } },
	{ CTL_DM_REG, 2, { { AT(dm_reg.pd), H_PD }, { AT(dm_reg.dm), H_DM } } },
	{ CTL_XRCD_OPEN, 0, { { 0, 0 } } },
	{ CTL_XRCD_CLOSE, 1, { { AT(handle), H_XRCD } } },
	{ CTL_QP_OPEN, 1, { { AT(qp_open.xrcd), H_XRCD } } },
	{ CTL_CHANNEL_CREATE, 0, { { 0, 0 } } },
	{ CTL_CHANNEL_DESTROY, 1, { { AT(handle), H_CHANNEL } } },
	{ CTL_CM_OPEN, 0, { { 0, 0 } } },
	{ CTL_CM_CREATE_ID, 0, { { 0, 0 } } },
	{ CTL_CM_DESTROY_ID, 1, { { AT(cm_destroy.id), H_ID } } },
	{ CTL_CM_BIND, 1, { { AT(cm_bind.id), H_ID } } },
	{ CTL_CM_RESOLVE_ADDR, 1, { { AT(cm_resolve_addr.id), H_ID } } },
	{ CTL_CM_RESOLVE_ROUTE, 1, { { AT(cm_resolve_route.id), H_ID } } },
	{ CTL_CM_QUERY, 1, { { AT(handle), H_ID } } },
	{ CTL_CM_LISTEN, 1, { { AT(cm_listen.id), H_ID } } },
	{ CTL_CM_CONNECT, 2, { { AT(cm_connect.id), H_ID }, { AT(cm_connect.param.qp_num), H_QPN } } },
	{ CTL_CM_ACCEPT, 2, { { AT(cm_connect.id), H_ID }, { AT(cm_connect.param.qp_num), H_QPN } } },
	{ CTL_CM_REJECT, 1, { { AT(cm_reject.id), H_ID } } },
	{ CTL_CM_ESTABLISH, 1, { { AT(handle), H_ID } } },
	{ CTL_CM_DISCONNECT, 1, { { AT(handle), H_ID } } },
	{ CTL_CM_QP_ATTR, 1, { { AT(cm_qp_attr.id), H_ID } } },
	{ CTL_CM_SET_OPTION, 1, { { AT(cm_option.id), H_ID } } },
	{ CTL_CM_JOIN, 1, { { AT(cm_join.id), H_ID } } },
	{ CTL_CM_LEAVE, 1, { { AT(handle), H_GROUP } } },
	{ CTL_CM_MIGRATE, 1, { { AT(cm_migrate.id), H_ID } } },
	{ CTL_DEVICE_IMPORT, 0, { { 0, 0 } } },
	{ CTL_PD_IMPORT, 1, { { AT(handle), H_PD } } },
	{ CTL_MR_IMPORT, 2, { { AT(mr_import.pd), H_PD }, { AT(mr_import.mr), H_MR } } },
	{ CTL_CM_ACCEPT_QP, 3, { { AT(cm_connect.id), H_ID }, { AT(cm_connect.qp), H_QP }, { AT(cm_connect.param.qp_num), H_QPN } } },
	{ CTL_CM_DISCONNECT_QP, 3, { { AT(cm_disconnect.id), H_ID }, { AT(cm_disconnect.qp), H_QP }, { AT(cm_disconnect.qp_num), H_QPN } } },
#undef AT
};

void
request_put_handle(const struct request_handles *h, struct ctl_req *q, uint16_t at, enum request_kind kind)
{
	uint8_t *bytes = (uint8_t *)q;
	unsigned int n = h->nb[kind] < REQUEST_HANDLES ? h->nb[kind] : REQUEST_HANDLES;

	if (bytes[at] < REQUEST_HANDLE_ANY && n > 0)
		memcpy(bytes + at, &h->of[kind][bytes[at] % n], sizeof(uint32_t));
}

void
request_remember(struct request_handles *h, enum request_kind kind, uint32_t handle)
{
	h->of[kind][h->nb[kind]++ % REQUEST_HANDLES] = handle;
}

void
request_note(struct request_handles *h, const struct ctl_rsp *r)
{
	static const struct {
		uint32_t op;
		enum request_kind kind;
	} makers[] = { { CTL_PD_ALLOC, H_PD }, { CTL_PD_IMPORT, H_PD },	  { CTL_MR_REG, H_MR },	      { CTL_MW_ALLOC, H_MW },  { CTL_MR_NULL, H_MR }, { CTL_DM_REG, H_MR }, { CTL_AH_CREATE, H_AH },
		       { CTL_XRCD_OPEN, H_XRCD }, { CTL_CM_CREATE_ID, H_ID }, { CTL_CM_MIGRATE, H_ID }, { CTL_CM_JOIN, H_GROUP },
		       { CTL_CHANNEL_CREATE, H_CHANNEL } };

	if (r->op == CTL_DM_ALLOC)
		request_remember(h, H_DM, r->dm_alloc.handle);
	else if (r->op == CTL_CQ_CREATE)
		request_remember(h, H_CQ, r->cq_create.handle);
	else if (r->op == CTL_SRQ_CREATE)
		request_remember(h, H_SRQ, r->srq_create.handle);
	else if (r->op == CTL_QP_CREATE || r->op == CTL_QP_OPEN) {
		request_remember(h, H_QP, r->qp_create.handle);
		request_remember(h, H_QPN, r->qp_create.qpn);
	}
	for (unsigned int i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
		if (r->op == makers[i].op)
			request_remember(h, makers[i].kind, r->handle.handle);
}
