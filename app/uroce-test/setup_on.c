/* SPDX-License-Identifier: BSD-3-Clause */
/* Workloads on QPs that the user created and connected. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "setup.h"

static int
use_cq(struct lane *l, struct ibv_cq *cq)
{
	for (unsigned int i = 0; i < l->nb_cqs; i++)
		if (l->cqs[i] == cq)
			return 0;
	if (l->nb_cqs == LANE_CQS_MAX) {
		workload_fail(l->w, "%s: the QPs have more than %d CQs", l->host->name, LANE_CQS_MAX);
		return -1;
	}
	l->cqs[l->nb_cqs++] = cq;
	return 0;
}

/** Check that the user named each connection once, by one of its ends. */
static int
check_once(struct workload *w, struct object *const *qps, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (qps[i] == qps[n] || qps[i]->peer.qp == qps[n]) {
			workload_fail(w, "%s is there already, as an end of %s: name one end of each connection, once", qps[n]->name,
				      qps[i]->name);
			return -1;
		}
	return 0;
}

/**
 * Check that a QP can be used; fail the workload if not.
 * @return 0 or -1.
 */
static int
check_qp(struct workload *w, const struct object *o, bool active)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int rc = ibv_query_qp(o->v.qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init);

	if (rc != 0)
		workload_fail(w, "%s: ibv_query_qp: %s", o->name, strerror(rc));
	else if (o->v.qp->qp_type != w->ops->qp_type)
		workload_fail(w, "%s is of type %s, %s needs %s", o->name, qp_type_text(o->v.qp->qp_type), w->ops->name,
			      qp_type_text(w->ops->qp_type));
	else if (attr.qp_state != IBV_QPS_RTS)
		workload_fail(w, "%s is in %s, not in RTS: connect it first", o->name, qp_state_text(attr.qp_state));
	else if (o->busy > 0)
		workload_fail(w, "%s is in use by another workload: stop it first", o->name);
	else if ((active || w->ops->both_post) && init.cap.max_send_wr < w->o.depth)
		workload_fail(w, "%s holds %u send WRs, less than depth %u: create it with a larger max_send_wr or give a smaller "
			      "depth", o->name, init.cap.max_send_wr, w->o.depth);
	else if (setup_recv_depth(w, active) > 0 && (o->srq != NULL || init.cap.max_recv_wr < w->o.depth))
		workload_fail(w, "%s holds %u receives of its own, less than depth %u: create it with a larger max_recv_wr or give "
			      "a smaller depth", o->name, init.cap.max_recv_wr, w->o.depth);
	else if (active && o->peer.qp == NULL && w->ops->both_post)
		workload_fail(w, "%s is connected to a QP of another process: %s needs both ends here", o->name, w->ops->name);
	else if (active && o->peer.qp == NULL && w->ops->reaches_memory && o->peer.rkey == 0)
		workload_fail(w, "%s: nothing is known of its peer's memory: connect it with addr, length and rkey", o->name);
	else if (active && o->peer.qp == NULL && w->ops->reaches_memory && o->peer.length < setup_areas_bytes(w) / w->ops->areas)
		workload_fail(w, "%s: its peer's memory has %llu bytes, %s needs %zu: give a smaller size or depth", o->name,
			      (unsigned long long)o->peer.length, w->ops->name, setup_areas_bytes(w) / w->ops->areas);
	return workload_failing(w) ? -1 : 0;
}

/** Set up @p ep with the QP @p o. */
static int
take_qp(struct endpoint *ep, struct object *o)
{
	ep->object = o;
	ep->qp = o->v.qp;
	o->busy++;
	if (!ep->active || ep->peer != NULL)
		return 0;
	ep->remote = o->peer.addr;
	ep->rkey = o->peer.rkey;
	return 0;
}

/** Register the endpoint's memory in the PD of the user's QP. */
static int
endpoint_mr(struct endpoint *ep)
{
	struct lane *l = ep->lane;

	ep->mr = ibv_reg_mr(ep->qp->pd, ep->mem, setup_bytes(ep) > 0 ? setup_bytes(ep) : 1, connect_defaults.access);
	if (ep->mr == NULL)
		return setup_fail(l->w, "ibv_reg_mr", l->host, errno);
	ep->lkey = ep->mr->lkey;
	if (use_cq(l, ep->qp->send_cq) != 0 || use_cq(l, ep->qp->recv_cq) != 0)
		return -1;
	return 0;
}

/**
 * Find the QPs of @p list.
 * @return how many, 0: failed.
 */
static uint32_t
find_qps(struct workload *w, const char *list, struct object **out)
{
	char name[OBJECT_NAME_BYTES];
	uint32_t n = 0;

	while (n < WORKLOAD_QPS_MAX) {
		size_t len = strcspn(list, ",");

		snprintf(name, sizeof(name), "%.*s", (int)len, list);
		out[n] = object_find(OBJECT_QP, name);
		if (check_once(w, out, n) != 0 || check_qp(w, out[n], true) != 0 ||
		    (out[n]->peer.qp != NULL && check_qp(w, out[n]->peer.qp, false) != 0))
			return 0;
		n++;
		if (list[len] == '\0')
			return n;
		list += len + 1;
	}
	workload_fail(w, "more than %d QPs", WORKLOAD_QPS_MAX);
	return 0;
}

int
workload_build_on(struct workload *w, const char *list)
{
	struct object *qps[WORKLOAD_QPS_MAX];
	uint32_t at[HOSTS_MAX] = { 0 };
	uint32_t n = find_qps(w, list, qps);

	if (n == 0)
		return -1;
	if (w->ops->qp_type == IBV_QPT_UD) {
		workload_fail(w, "datagrams have no connection: leave out on, it makes QPs of its own");
		return -1;
	}
	w->o.qps = n;
	/* Count first: setup_room() moves the endpoints, which mustn't happen once they are linked. */
	for (uint32_t i = 0; i < n; i++)
		if (setup_room(w, qps[i]->host, 1) != 0 ||
		    (qps[i]->peer.qp != NULL && setup_room(w, qps[i]->peer.qp->host, 1) != 0))
			return -1;
	for (uint32_t i = 0; i < n; i++) {
		struct lane *from = setup_lane(w, qps[i]->host), *to;
		struct endpoint *a = &from->eps[at[from->host - host_at(0)]++], *b;

		if (setup_endpoint(a, from, true, i) != 0)
			return -1;
		if (qps[i]->peer.qp != NULL) {
			to = setup_lane(w, qps[i]->peer.qp->host);
			b = &to->eps[at[to->host - host_at(0)]++];
			if (setup_endpoint(b, to, false, i) != 0)
				return -1;
			setup_link(a, b);
			take_qp(b, qps[i]->peer.qp);
		}
		take_qp(a, qps[i]);
	}
	for (unsigned int i = 0; i < w->nb_lanes; i++)
		if (setup_memory(w->lanes[i]) != 0)
			return -1;
	return setup_all(w, endpoint_mr) != 0 || setup_all(w, setup_ready) != 0 ? -1 : 0;
}
