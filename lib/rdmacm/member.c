/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The multicast groups that an id is a member of. The QP is attached when the event is returned to the program, as in
 * rdma-core.
 */
#include "rdmacm/rdmacm_priv.h"

void
cm_member_free(struct cmid *id, struct cm_member *m)
{
	if (m->attached && id->id.qp)
		ibv_detach_mcast(id->id.qp, &m->mgid, 0);
	free(m);
}

void
cmid_leave_all(struct cmid *id)
{
	struct cm_member *m;

	while ((m = id->members)) {
		id->members = m->next;
		cm_member_free(id, m);
	}
}

void
cmid_joined(struct cmid *id, const struct ctl_cm_event *r, struct cm_happening *h)
{
	struct cm_member *m;
	int err = 0;

	pthread_mutex_lock(&id->members_lock);
	for (m = id->members; m && m->handle != r->group; m = m->next)
		;
	if (m) {
		h->event.param.ud.private_data = m->context;
		if (id->id.qp && !m->send_only && !h->event.status)
			err = ibv_attach_mcast(id->id.qp, &m->mgid, 0);
		m->attached = !err && id->id.qp && !m->send_only && !h->event.status;
	}
	pthread_mutex_unlock(&id->members_lock);
	if (!err)
		return;
	h->event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
	h->event.status = -err;
}
