/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/obj/identity_priv.h"

#include "control/core/quota_priv.h"
#include "control/obj/obj_xrc_priv.h"

/** @return the QP, if @p u has it. */
static const struct qp *
find(struct control *c, const struct user *u, uint32_t qpn)
{
	/* Only this thread has QPs destroyed. */
	const struct qp *qp = qp_table_get(c->s.sh.qps, qpn);
	const struct xrc_target *t;
	const struct session *s;
	const struct obj_qp *o;

	if (qp == NULL)
		return NULL;
	if (qp_owner(qp) != XRC_TARGET_OWNER) {
		s = session_find(c, (uintptr_t)qp_owner(qp));
		return s != NULL && s->user == u ? qp : NULL;
	}
	t = handles_get(&c->targets, (uint32_t)qp_cookie(qp));
	if (t == NULL)
		return NULL;
	LIST_FOREACH(o, &t->openings, opening) {
		if (o->session->user == u)
			return qp;
	}
	return NULL;
}

bool
identity_owns_qp(struct control *c, const struct user *u, uint32_t qpn)
{
	return find(c, u, qpn) != NULL;
}

bool
identity_qp_failed(struct control *c, const struct user *u, uint32_t qpn)
{
	const struct qp *qp = find(c, u, qpn);

	return qp != NULL && qp_state(qp) == UROCE_QPS_ERR;
}

/* ---- Connected QPs by their peers ---- */
static struct peer_list *
bucket(struct control *c, const struct net_port *port, const struct gid *gid, uint32_t qpn)
{
	uint64_t w[2];

	memcpy(w, gid, sizeof(w));
	/* Keyed: programs choose most of it, and must not be able to fill one bucket. */
	w[0] = secret_hash(c->secret.key, w[0]) ^ w[1];
	w[0] = secret_hash(c->secret.key, w[0]) ^ ((uint64_t)port->index << 32 | qpn);
	return &c->peers[secret_hash(c->secret.key, w[0]) % CONTROL_PEER_BUCKETS];
}

static bool
is_connected(const struct qp *qp)
{
	enum uroce_qp_state state = qp_state(qp);

	return state == UROCE_QPS_RTR || state == UROCE_QPS_RTS || state == UROCE_QPS_SQD || state == UROCE_QPS_SQE;
}

int
identity_check_peer(struct session *s, const struct obj_qp *qp, const struct gid *gid, uint32_t qpn)
{
	struct control *c = s->control;
	const struct obj_qp *o;

	LIST_FOREACH(o, bucket(c, s->port, gid, qpn), peer) {
		if (o->session->user == s->user || o->session->port != s->port || o->peer_qpn != qpn || o->qp == qp->qp ||
		    !gid_equal(&o->peer_gid, gid) || !is_connected(o->qp))
			continue;
		/* The peer itself has said that its QP is for this one now. The other one has lost its peer, and will find out. */
		if (c->peer_agreed != NULL && c->peer_agreed(c, s, qp_num(qp->qp), gid, qpn))
			return 0;
		c->refused_peers++;
		return EADDRINUSE;
	}
	return 0;
}

void
identity_connected(struct session *s, struct obj_qp *qp, const struct gid *gid, uint32_t qpn)
{
	identity_disconnected(qp);
	qp->has_peer = true;
	qp->peer_gid = *gid;
	qp->peer_qpn = qpn;
	LIST_INSERT_HEAD(bucket(s->control, s->port, gid, qpn), qp, peer);
}

void
identity_disconnected(struct obj_qp *qp)
{
	if (!qp->has_peer)
		return;
	LIST_REMOVE(qp, peer);
	qp->has_peer = false;
}
