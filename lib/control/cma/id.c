/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: creating them, their attributes, and which session they are in. */
#include <unistd.h>

#include "control/cma/cma_priv.h"
#include "control/core/quota_priv.h"

static void
begin(struct session *s, struct cma_id *id, uint32_t ps, uint8_t qp_type)
{
	id->session = s;
	id->ps = ps;
	id->qp_type = qp_type;
	LIST_INIT(&id->groups);
	LIST_INIT(&id->requests);
	TAILQ_INIT(&id->events);
}

struct cma_id *
cma_id_new(struct session *s, uint32_t ps, uint8_t qp_type, struct request *r, int *rc)
{
	struct request nobody = { 0 };
	struct cma_id *id;

	if (r == NULL)
		r = &nobody;
	if (s->tab[OBJ_CM_ID].used >= CTL_CM_MAX_IDS) {
		*rc = req_fail(r, ENOMEM, "this event channel has %d ids already", CTL_CM_MAX_IDS);
		return NULL;
	}
	id = obj_new(s, OBJ_CM_ID, sizeof(*id), r, rc);
	if (id != NULL)
		begin(s, id, ps, qp_type);
	return id;
}

struct cma_id *
cma_id_new_as(struct session *s, uint32_t ps, uint8_t qp_type, uint32_t handle, struct request *r, int *rc)
{
	struct cma_id *id = obj_new_as(s, OBJ_CM_ID, sizeof(*id), handle, r, rc);

	if (id != NULL)
		begin(s, id, ps, qp_type);
	return id;
}

struct cma_id *
cma_id_get(struct session *s, uint32_t handle, struct request *r)
{
	if (s->cma == NULL) {
		req_fail(r, EINVAL, "this session has no event channel: CM_OPEN first");
		return NULL;
	}
	return obj_get(s, OBJ_CM_ID, handle, r);
}

void
cma_id_asks(struct cma_id *id, struct cma_id *listener)
{
	id->request_no = ++listener->nb_requests;
	cma_id_asked(id, listener);
}

void
cma_id_asked(struct cma_id *id, struct cma_id *listener)
{
	id->asked = listener;
	LIST_INSERT_HEAD(&listener->requests, id, asked_link);
}

void
cma_id_forget_listener(struct cma_id *id)
{
	if (id->asked == NULL)
		return;
	LIST_REMOVE(id, asked_link);
	id->asked = NULL;
}

int
cma_id_move(struct cma_id *id, struct session *to)
{
	struct session *from = id->session;
	uint32_t handle = handles_add(&to->tab[OBJ_CM_ID], id);

	if (handle == HANDLE_NONE)
		return ENOMEM;
	UROCE_ASSERT(from != to && from->cma != NULL && to->cma != NULL);
	handles_remove(&from->tab[OBJ_CM_ID], id->obj.handle);
	obj_move(from, to, OBJ_CM_ID, &id->obj);
	saved_end(from->control, &id->obj.saved);
	id->obj.saved = saved_new(to->control, &to->saved, OBJ_CM_ID, id);
	if (id->state == CMA_RESOLVING) {
		from->cma->nb_resolving--;
		to->cma->nb_resolving++;
	}
	id->obj.handle = handle;
	id->session = to;
	return 0;
}

/** @return what @p a is on the wire. */
static const struct gid *
real_gid(const struct cma_id *id, const struct ctl_cm_addr *a)
{
	const struct gid *gid = cma_addr_loopback(a) && id->port != NULL ? net_gid(id->port, id->sgid_index) : NULL;

	return gid != NULL ? gid : gid_at(a->gid);
}

const struct gid *
cma_own_gid(const struct cma_id *id)
{
	return real_gid(id, &id->local);
}

const struct gid *
cma_peer_gid(const struct cma_id *id)
{
	return real_gid(id, &id->remote);
}

void
cma_id_info(const struct cma_id *id, struct ctl_cm_id_info *info)
{
	*info = (struct ctl_cm_id_info){
		.local = id->local,
		.remote = id->remote,
		.device = id->port != NULL ? id->port->index : UINT32_MAX,
		.pkey = id->port != NULL ? id->port->conf.pkeys[0] : 0,
		.sgid_index = id->sgid_index,
		.hop_limit = CMA_HOP_LIMIT,
		.traffic_class = id->tos,
		.packet_life = CMA_PACKET_LIFE,
	};
	if (id->port != NULL) {
		info->path_mtu = (uint8_t)id->port->active_mtu;
		memcpy(info->sgid, cma_own_gid(id), 16);
	}
	memcpy(info->dgid, cma_peer_gid(id), 16);
}

int
cma_id_start_psn(struct cma_id *id, struct request *r)
{
	if (getentropy(&id->rq_psn, sizeof(id->rq_psn)) != 0)
		return req_fail(r, EIO, "no random numbers");
	id->rq_psn &= WIRE_PSN_MASK;
	return 0;
}

struct net_port *
cma_port_of(struct control *c, const struct gid *gid, uint8_t *sgid_index)
{
	for (uint16_t i = 0; i < c->s.nb_ports; i++) {
		int index = net_gid_index(c->s.ports[i], gid);

		if (index >= 0) {
			*sgid_index = (uint8_t)index;
			return c->s.ports[i];
		}
	}
	return NULL;
}

void
cma_av(const struct cma_id *id, const struct gid *dgid, struct uroce_ah_attr *av)
{
	*av = (struct uroce_ah_attr){
		.flow_label = id->flow_label,
		.sgid_index = id->sgid_index,
		.hop_limit = CMA_HOP_LIMIT,
		.traffic_class = id->tos,
		.sl = id->tos >> 5,
		.is_global = 1,
		.port_num = 1,
	};
	memcpy(av->dgid, dgid, 16);
}
