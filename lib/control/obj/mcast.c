/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast: attaching QPs to groups, which makes their port join them. */
#include <arpa/inet.h>

#include "control/core/quota_priv.h"
#include "control/obj/obj_qp_priv.h"

/** The attachment of a QP to a group. */
struct mcast_member {
	LIST_ENTRY(mcast_member) link;
	struct gid mgid;
};

static struct mcast_member *
member_find(const struct obj_qp *qp, const struct gid *mgid)
{
	struct mcast_member *m;

	LIST_FOREACH(m, &qp->groups, link) {
		if (gid_equal(&m->mgid, mgid))
			return m;
	}
	return NULL;
}

/** Find the QP and check the group. @return 0 or an errno value, with the request failed. */
static int
check(struct session *s, struct request *r, struct obj_qp **qp)
{
	const struct ctl_mcast_req *q = &r->req->mcast;
	char text[INET6_ADDRSTRLEN] = "?";
	uint8_t mac[6];

	*qp = obj_get(s, OBJ_QP, q->qp, r);
	if (*qp == NULL)
		return EINVAL;
	if ((*qp)->type != UROCE_QPT_UD)
		return req_fail(r, EINVAL, "only UD QPs can be attached to multicast groups");
	if (!net_multicast_mac(gid_at(q->mgid), mac)) {
		inet_ntop(AF_INET6, q->mgid, text, sizeof(text));
		return req_fail(r, EINVAL,
				"GID %s is no multicast address: must be an IPv6 one (ff..::) or an IPv4 one, mapped "
				"(::ffff:224.0.0.0 to ::ffff:239.255.255.255)",
				text);
	}
	return 0;
}

static void
member_remove(struct session *s, struct obj_qp *qp, struct mcast_member *m)
{
	mcast_detach(s->control->s.sh.mcasts, s->port->index, &m->mgid, qp_num(qp->qp));
	net_group_leave(s->port, &m->mgid, control_now_ns());
	LIST_REMOVE(m, link);
	free(m);
	quota_give(s, QUOTA_mcast, 1);
}

int
op_mcast_attach(struct session *s, struct request *r)
{
	struct obj_qp *qp;
	int rc = check(s, r, &qp);

	return rc != 0 ? rc : obj_mcast_attach(s, qp, gid_at(r->req->mcast.mgid), r);
}

uint32_t
obj_mcast_look(const struct obj_qp *qp, struct gid *to)
{
	const struct mcast_member *m;
	uint32_t n = 0;

	LIST_FOREACH(m, &qp->groups, link) {
		if (to != NULL)
			to[n] = m->mgid;
		n++;
	}
	return n;
}

int
obj_mcast_attach(struct session *s, struct obj_qp *qp, const struct gid *mgid, struct request *r)
{
	struct mcast_member *m;
	int rc;

	/* As in Linux's uverbs, attaching a second time succeeds and changes nothing. */
	if (member_find(qp, mgid) != NULL)
		return 0;
	rc = quota_take(s, QUOTA_mcast, 1, r);
	if (rc != 0)
		return rc;
	m = calloc(1, sizeof(*m));
	if (m == NULL) {
		rc = req_fail(r, ENOMEM, "no memory for the attachment");
		goto fail_share;
	}
	m->mgid = *mgid;
	rc = mcast_attach(s->control->s.sh.mcasts, s->port->index, &m->mgid, qp_num(qp->qp));
	if (rc != 0) {
		req_fail(r, rc, "no memory, more than %d multicast groups, or more than %d QPs in this one",
				UROCE_MAX_MCAST_GROUPS, UROCE_MAX_MCAST_ATTACH);
		goto fail_member;
	}
	rc = net_group_join(s->port, &m->mgid, control_now_ns());
	if (rc != 0) {
		mcast_detach(s->control->s.sh.mcasts, s->port->index, &m->mgid, qp_num(qp->qp));
		req_fail(r, rc, "%s can't join the group: %s", s->port->conf.name, strerror(rc));
		goto fail_member;
	}
	LIST_INSERT_HEAD(&qp->groups, m, link);
	saved_touch(s->control, qp->obj.saved);
	return 0;
fail_member:
	free(m);
fail_share:
	quota_give(s, QUOTA_mcast, 1);
	return rc;
}

int
op_mcast_detach(struct session *s, struct request *r)
{
	struct mcast_member *m;
	struct obj_qp *qp;
	int rc = check(s, r, &qp);

	if (rc != 0)
		return rc;
	m = member_find(qp, gid_at(r->req->mcast.mgid));
	if (m == NULL)
		return req_fail(r, EINVAL, "QP %#x is not attached to this group", qp_num(qp->qp));
	member_remove(s, qp, m);
	saved_touch(s->control, qp->obj.saved);
	return 0;
}

void
obj_mcast_detach_all(struct session *s, struct obj_qp *qp)
{
	struct mcast_member *m;

	while ((m = LIST_FIRST(&qp->groups)) != NULL)
		member_remove(s, qp, m);
}
