/* SPDX-License-Identifier: BSD-3-Clause */
#include <unistd.h>

#include <rte_common.h>

#include "control/obj/identity_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_path_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"

#define QKEY_CONTROLLED UINT32_C(0x80000000)
#define MIG_REARM 1 /* IBV_MIG_REARM */

/** What engine_call() passes to the functions that run on the QP's engine. */
struct qp_args {
	struct qp *qp;
	const struct uroce_qp_attr *attr;
	uint32_t mask;
	const struct tp_path *path, *alt;
	struct uroce_qp_attr out;
};

/**
 * A program posts its last message and disconnects, or moves its QP to ERR itself. A NIC has sent the message by then, and Linux's Soft-RoCE
 * sends it while it is posted, so that programs rely on it.
 */
static void
send_last(struct engine *e, const struct qp_args *a, uint64_t now_ns)
{
	uint32_t budget = CONTROL_POSTED_BUDGET;

	if ((a->mask & UROCE_QP_STATE) && a->attr->qp_state == UROCE_QPS_ERR && qp_state(a->qp) == UROCE_QPS_RTS)
		qp_work_posted(engine_transport(e), a->qp, &budget, now_ns);
}

static int
modify_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct qp_args *a = arg;

	send_last(e, a, now_ns);
	return qp_modify_paths(engine_transport(e), a->qp, a->attr, a->mask, a->path, a->alt, now_ns);
}

static int
query_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct qp_args *a = arg;

	qp_query(a->qp, &a->out);
	return 0;
}

/** QPs of one engine that are destroyed by one message. */
struct destroy_args {
	struct engine_session *es;
	uint32_t n;
	uint32_t slot[CONTROL_DESTROY_BURST]; /* HANDLE_NONE: its doorbell is another engine's, and rings for nobody any more */
	struct qp *qp[CONTROL_DESTROY_BURST];
};

static int
destroy_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct destroy_args *a = arg;

	for (uint32_t i = 0; i < a->n; i++) {
		if (a->slot[i] != HANDLE_NONE)
			engine_session_set_qp(a->es, a->slot[i], NULL);
		qp_destroy(engine_transport(e), a->qp[i]);
	}
	return 0;
}

/** Add a QP to those that are destroyed. */
static void
add_to(struct session *s, struct destroy_args *a, struct obj_qp *qp)
{
	a->slot[a->n] = qp->engine == qp->home ? DB_SLOT(qp->db_slot) : HANDLE_NONE;
	obj_qp_leave_home(s, qp);
	a->qp[a->n++] = qp->qp;
}

/** @return the P_Key index; all sessions that have an XRC target open share it. */
static uint16_t *
pkey_index_of(struct obj_qp *qp)
{
	return qp->target != NULL ? &qp->target->pkey_index : &qp->pkey_index;
}

/** @return true if the request gives a connected QP the address of its peer. */
static bool
names_peer(const struct obj_qp *qp, uint32_t mask)
{
	return (mask & UROCE_QP_AV) && qp->type != UROCE_QPT_UD;
}

/** @return the number of the peer's QP. */
static uint32_t
peer_qpn(const struct obj_qp *qp, const struct ctl_qp_modify_req *q)
{
	return q->mask & UROCE_QP_DEST_QPN ? q->attr.dest_qp_num : qp->peer_qpn;
}

/** Check that the peers which a request names aren't connected to another user's QPs. */
static int
check_peers(struct session *s, struct request *r, const struct obj_qp *qp)
{
	const struct ctl_qp_modify_req *q = &r->req->qp_modify;
	int rc = 0;

	if (names_peer(qp, q->mask))
		rc = identity_check_peer(s, qp, gid_at(q->attr.ah.dgid), peer_qpn(qp, q));
	if (rc == 0 && (q->mask & UROCE_QP_ALT_PATH))
		rc = identity_check_peer(s, qp, gid_at(q->attr.alt_ah.dgid), peer_qpn(qp, q));
	if (rc != 0)
		return req_fail(r, rc, "modify QP %#x: another user of this host is connected to QP %#x of that peer",
				qp_num(qp->qp), peer_qpn(qp, q));
	return 0;
}

void
obj_qp_touch(struct obj_qp *qp)
{
	struct control *c = qp->session->control;

	saved_touch(c, qp->obj.saved);
	if (qp->target != NULL)
		saved_touch(c, qp->target->saved);
}

/**
 * @param valid  Whether it could be executed now.
 * @return true: the daemon before has executed the request, and crashed before it could answer.
 */
static bool
is_done(const struct obj_qp *qp, const struct ctl_qp_modify_req *q, bool valid)
{
	/* Whose request it was isn't known of an XRC target. What could be another one is executed. */
	return qp->done && (q->mask & UROCE_QP_STATE) && q->attr.qp_state == (uint32_t)qp_state(qp->qp) && !(valid && qp->target != NULL);
}

static int
modify(struct session *s, struct request *r, struct obj_qp *qp, const struct tp_path *path, const struct tp_path *alt, bool done)
{
	const struct ctl_qp_modify_req *q = &r->req->qp_modify;
	struct qp_args a = { .qp = qp->qp, .attr = &q->attr, .mask = q->mask, .path = path, .alt = alt };
	int rc = done ? 0 : engine_call(s->control->s.engines[qp->engine], modify_on_engine, &a);

	qp->done = false;
	if (rc != 0)
		/*
		 * The request was checked before, so the QP's state has changed since, or path migration doesn't allow
		 * it: only the engine knows the migration state.
		 */
		return req_fail(r, rc, "the QP is in state %s%s", qp_state_name(qp_state(qp->qp)),
				q->mask & (UROCE_QP_PATH_MIG_STATE | UROCE_QP_ALT_PATH) ?
					", or has no alternate path, or is ARMED, or that path doesn't fit its port" : "");
	obj_qp_touch(qp);
	if (q->mask & UROCE_QP_PKEY_INDEX)
		*pkey_index_of(qp) = q->attr.pkey_index;
	if (path != NULL)
		qp->gids = (uint16_t)(1u << q->attr.ah.sgid_index);
	if (alt != NULL)
		qp->gids |= (uint16_t)(1u << q->attr.alt_ah.sgid_index);
	if (names_peer(qp, q->mask))
		identity_connected(s, qp, gid_at(q->attr.ah.dgid), peer_qpn(qp, q));
	else if ((q->mask & UROCE_QP_STATE) && q->attr.qp_state == UROCE_QPS_RESET)
		identity_disconnected(qp);
	/* Its counters begin anew. */
	if ((q->mask & UROCE_QP_STATE) && q->attr.qp_state == UROCE_QPS_RESET)
		(void)obj_qp_cost_since(qp);
	return 0;
}

static int
check_pkey(struct session *s, struct request *r, struct obj_qp *qp, uint32_t index)
{
	if (index < UROCE_MAX_PKEYS && s->port->conf.pkeys[index] != 0)
		return 0;
	return req_fail(r, EINVAL, "modify QP %#x: P_Key index %u is not in use", qp_num(qp->qp), index);
}

/** Keep the reason why a modify failed, for inspect_qp(). @param text  NULL: it succeeded. */
static void
keep_note(struct obj_qp *qp, const char *text)
{
	free(qp->note);
	qp->note = text != NULL ? strdup(text) : NULL;
}

/** [request_resume_fn] Start again: the MAC address of this path is known now, that of the other one may not be. */
static int
modify_resumed(struct session *s, struct request *r, int rc, const uint8_t mac[6])
{
	struct obj_qp *qp = handles_get(&s->tab[OBJ_QP], r->req->qp_modify.handle);

	if (rc == 0) {
		/* The QP may have been destroyed in the meantime. */
		r->obj = obj_get(s, OBJ_QP, r->req->qp_modify.handle, r);
		return r->obj != NULL ? op_qp_modify(s, r) : EINVAL;
	}
	if (qp != NULL)
		keep_note(qp, r->message);
	return rc;
}

/** Find the paths that a request names. @return as path_resolve(); after EINPROGRESS the request is handled again. */
static int
find_paths(struct session *s, struct request *r, struct obj_qp *qp, struct tp_path *path, struct tp_path *alt)
{
	const struct ctl_qp_modify_req *q = &r->req->qp_modify;
	uint8_t mac[6];
	uint32_t pkey;
	int rc;

	if (q->mask & UROCE_QP_AV) {
		rc = path_resolve(s, r, &q->attr.ah, modify_resumed, mac);
		if (rc != 0)
			return rc;
		pkey = q->mask & UROCE_QP_PKEY_INDEX ? q->attr.pkey_index : *pkey_index_of(qp);
		path_make(s, &q->attr.ah, mac, s->port->conf.pkeys[pkey], path);
	}
	if (q->mask & UROCE_QP_ALT_PATH) {
		rc = path_resolve(s, r, &q->attr.alt_ah, modify_resumed, mac);
		if (rc != 0)
			return rc;
		path_make(s, &q->attr.alt_ah, mac, s->port->conf.pkeys[q->attr.alt_pkey_index], alt);
	}
	return 0;
}

/** @return true, and the request has failed: the path MTU is too large for the port, perhaps since the port's has changed. */
static bool
mtu_is_too_large(const struct session *s, struct request *r, const struct obj_qp *qp)
{
	const struct ctl_qp_modify_req *q = &r->req->qp_modify;
	const struct net_port *p = s->port;

	if (!(q->mask & UROCE_QP_PATH_MTU) || q->attr.path_mtu <= p->active_mtu || q->attr.path_mtu > UROCE_MTU_4096)
		return false;
	req_fail(r, EINVAL, "modify QP %#x: path_mtu is %u bytes, but the active MTU of %s is %u (IP MTU %u)", qp_num(qp->qp), 128u << q->attr.path_mtu,
		 p->conf.name, 128u << p->active_mtu, p->ip_mtu);
	return true;
}

/** op_qp_modify() for a QP that exists. */
static int
check_and_modify(struct session *s, struct request *r, struct obj_qp *qp)
{
	const struct ctl_qp_modify_req *q = &r->req->qp_modify;
	struct tp_path path, alt;
	const char *why = "";
	int rc = qp_modify_check(qp->type, qp_state(qp->qp), &q->attr, q->mask, s->port->active_mtu, &why);
	bool done = is_done(qp, q, rc == 0);

	if (done)
		rc = 0;
	if (rc != 0 && mtu_is_too_large(s, r, qp))
		return EINVAL;
	if (rc != 0)
		return req_fail(r, rc, "modify QP %#x, %s: %s", qp_num(qp->qp), qp_state_name(qp_state(qp->qp)), why);
	if (q->mask & UROCE_QP_PKEY_INDEX)
		rc = check_pkey(s, r, qp, q->attr.pkey_index);
	if (rc == 0 && (q->mask & UROCE_QP_ALT_PATH))
		rc = check_pkey(s, r, qp, q->attr.alt_pkey_index);
	if (rc != 0)
		return rc;
	/* 10.2.5: only privileged programs may use a controlled Q_Key (highest bit set), like that of QP 1. */
	if ((q->mask & UROCE_QP_QKEY) && (q->attr.qkey & QKEY_CONTROLLED) && s->uid != 0 && s->uid != geteuid())
		return req_fail(r, EPERM, "modify QP %#x: Q_Key %#x is for root only: bit 31 is set", qp_num(qp->qp),
				q->attr.qkey);
	if ((q->mask & UROCE_QP_PORT) && q->attr.port_num != 1)
		return req_fail(r, EINVAL, "modify QP %#x: port %u: must be 1", qp_num(qp->qp), q->attr.port_num);
	rc = find_paths(s, r, qp, &path, &alt);
	/* Last, since other requests may have been handled while a path was being resolved. */
	if (rc == 0)
		rc = check_peers(s, r, qp);
	if (rc != 0)
		return rc;
	return modify(s, r, qp, q->mask & UROCE_QP_AV ? &path : NULL, q->mask & UROCE_QP_ALT_PATH ? &alt : NULL, done);
}

int
obj_qp_load_alternate(struct session *s, struct obj_qp *qp, const struct uroce_ah_attr *ah, uint8_t timeout,
		      const uint8_t mac[6])
{
	const struct uroce_qp_attr attr = { .alt_ah = *ah, .alt_timeout = timeout, .alt_port_num = 1,
					    .path_mig_state = MIG_REARM };
	const uint32_t mask = UROCE_QP_ALT_PATH | UROCE_QP_PATH_MIG_STATE;
	struct tp_path alt;
	struct qp_args a = { .qp = qp->qp, .attr = &attr, .mask = mask, .alt = &alt };
	const char *why;
	int rc = qp_modify_check(qp->type, qp_state(qp->qp), &attr, mask, s->port->active_mtu, &why);

	if (rc == 0)
		rc = identity_check_peer(s, qp, gid_at(ah->dgid), qp->peer_qpn);
	if (rc != 0)
		return rc;
	if (net_gid(s->port, ah->sgid_index) == NULL)
		return EADDRNOTAVAIL; /* it went while the MAC address was being resolved */
	path_make(s, ah, mac, s->port->conf.pkeys[attr.alt_pkey_index], &alt);
	qp->gids |= (uint16_t)(1u << ah->sgid_index);
	obj_qp_touch(qp);
	return engine_call(s->control->s.engines[qp->engine], modify_on_engine, &a);
}

int
op_qp_modify(struct session *s, struct request *r)
{
	struct obj_qp *qp = r->obj;
	int rc;

	rc = check_and_modify(s, r, qp);
	if (rc != EINPROGRESS)
		keep_note(qp, rc != 0 ? r->message : NULL);
	return rc;
}

int
obj_qp_modify(struct session *s, struct obj_qp *qp, enum uroce_qp_state state, const struct uroce_qp_attr *attr, uint32_t mask, struct request *r)
{
	struct ctl_req req = { .op = CTL_QP_MODIFY, .qp_modify = { .handle = qp->obj.handle, .mask = mask | UROCE_QP_STATE, .attr = *attr } };
	struct request modify = { .req = &req, .obj = qp };
	int rc;

	req.qp_modify.attr.qp_state = state;
	rc = op_qp_modify(s, &modify);
	if (rc == 0)
		return 0;
	if (rc != EINPROGRESS)
		return req_fail(r, rc, "%s", modify.message);
	path_cancel(s);
	session_pause(s, false);
	return req_fail(r, EAGAIN, "the MAC address of the peer must be resolved");
}

int
op_qp_query(struct session *s, struct request *r)
{
	struct obj_qp *qp = r->obj;
	struct qp_args a = { 0 };

	a.qp = qp->qp;
	engine_call(s->control->s.engines[qp->engine], query_on_engine, &a);
	r->rsp.qp_query.attr = a.out;
	return 0;
}

/** Free what the control thread has of a QP, after its engine has destroyed it. */
static void
forget(struct session *s, struct obj_qp *qp)
{
	identity_disconnected(qp);
	obj_qp_use_parts(qp, -1);
	handles_remove(&s->db_slots[qp->home], qp->db_slot);
	obj_ring_free(s, &qp->block);
	free(qp->note);
	obj_free(s, OBJ_QP, &qp->obj);
}

int
op_qp_destroy(struct session *s, struct request *r)
{
	struct obj_qp *qp = r->obj;
	struct destroy_args a;

	if (qp->target != NULL) {
		obj_xrc_target_close(s, qp);
		return 0;
	}
	/* As in Linux's uverbs: the program must detach it first. */
	if (!LIST_EMPTY(&qp->groups))
		return req_fail(r, EBUSY, "QP %#x is attached to a multicast group", qp_num(qp->qp));
	if (qp->type == UROCE_QPT_UD && obj_qp_send_posted(s, qp))
		return EALREADY;
	a.es = s->engine_sessions[qp->engine];
	a.n = 0;
	add_to(s, &a, qp);
	engine_call(s->control->s.engines[qp->engine], destroy_on_engine, &a);
	forget(s, qp);
	return 0;
}

void
obj_qp_destroy_all(struct session *s)
{
	struct obj_qp *batch[CONTROL_DESTROY_BURST], *qp;
	struct destroy_args a;
	uint32_t pos, i;

	for (unsigned int engine = 0; engine < s->control->s.nb_engines; engine++) {
		a.es = s->engine_sessions[engine];
		a.n = 0;
		pos = 0;
		do {
			qp = obj_qp_next_at(s, engine, &pos);
			if (qp != NULL) {
				obj_mcast_detach_all(s, qp);
				batch[a.n] = qp;
				add_to(s, &a, qp);
			}
			if (a.n == 0 || (qp != NULL && a.n < CONTROL_DESTROY_BURST))
				continue;
			engine_call(s->control->s.engines[engine], destroy_on_engine, &a);
			for (i = 0; i < a.n; i++)
				forget(s, batch[i]);
			a.n = 0;
		} while (qp != NULL);
	}
	/* XRC targets have no doorbells. */
	for (pos = 0; (qp = handles_next(&s->tab[OBJ_QP], &pos)) != NULL;)
		obj_xrc_target_close(s, qp);
}
