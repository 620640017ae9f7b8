/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast groups of UD ids. The QP attached to a group is the member on the network; an id that joins only learns how
 * to send to the group.
 */
#include "control/cma/cma_priv.h"

void
cma_group_free(struct cma_group *g)
{
	LIST_REMOVE(g, link);
	obj_free(g->id->session, OBJ_CM_GROUP, &g->obj);
}

static bool
is_multicast(const struct ctl_cm_addr *a)
{
	return a->family == 4 ? (a->gid[12] & 0xf0) == 0xe0 : a->family == 6 && a->gid[0] == 0xff;
}

int
op_cm_join(struct session *s, struct request *r)
{
	const struct ctl_cm_join_req *q = &r->req->cm_join;
	const struct gid *mgid = gid_at(q->addr.gid);
	struct cma_id *id = r->obj;
	struct ctl_cm_event ev = { .type = CTL_CM_EV_MULTICAST_JOIN };
	struct cma_group *g;
	int rc = 0;

	if (!cma_is_ud(id) || id->port == NULL)
		return req_fail(r, EINVAL, "to join a group an id needs the UDP port space and a local address");
	if (!is_multicast(&q->addr) || q->addr.family != id->local.family)
		return req_fail(r, EINVAL, "no multicast address of the id's family");
	LIST_FOREACH(g, &id->groups, link) {
		if (gid_equal(&g->mgid, mgid))
			return req_fail(r, EADDRINUSE, "this id has joined that group already");
	}
	rc = cma_event_want_room(s, r);
	if (rc != 0)
		return rc;
	g = obj_new(s, OBJ_CM_GROUP, sizeof(*g), r, &rc);
	if (g == NULL)
		return rc;
	g->id = id;
	g->mgid = *mgid;
	LIST_INSERT_HEAD(&id->groups, g, link);
	ev.id = id->obj.handle;
	ev.group = g->obj.handle;
	ev.conn.qp_num = 0xffffff;
	ev.conn.qkey = CTL_CM_UDP_QKEY;
	cma_av(id, mgid, &ev.ah);
	r->rsp.handle.handle = g->obj.handle;
	cma_event_send(id, &ev, NULL);
	return 0;
}

int
op_cm_leave(struct session *s, struct request *r)
{
	struct cma_group *g = r->obj;

	cma_group_free(g);
	return 0;
}
