/* SPDX-License-Identifier: BSD-3-Clause */
/* Setting up a workload on QPs of its own, and tearing down any workload: lanes, endpoints, memory, QPs, connections. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "setup.h"

enum { UD_MIN_RECEIVES = 256, UD_RECV_EXTRA = 64, HOP_LIMIT = 64 };

int
setup_fail(struct workload *w, const char *what, const struct host *h, int err)
{
	workload_fail(w, "%s: %s: %s", h->name, what, strerror(err));
	return -1;
}

/* ---- Lanes ---- */
struct lane *
setup_lane(struct workload *w, struct host *h)
{
	struct lane *l;

	for (unsigned int i = 0; i < w->nb_lanes; i++)
		if (w->lanes[i]->host == h)
			return w->lanes[i];
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return NULL;
	l->job.step = flow_step;
	l->w = w;
	l->host = h;
	w->lanes[w->nb_lanes++] = l;
	return l;
}

int
setup_room(struct workload *w, struct host *h, uint32_t n)
{
	struct lane *l = setup_lane(w, h);
	struct endpoint *eps = l != NULL ? realloc(l->eps, (l->nb_eps + n) * sizeof(*eps)) : NULL;

	if (eps == NULL)
		return setup_fail(w, "endpoints", h, ENOMEM);
	memset(eps + l->nb_eps, 0, n * sizeof(*eps));
	l->eps = eps;
	l->nb_eps += n;
	return 0;
}

uint32_t
setup_recv_depth(const struct workload *w, bool active)
{
	if (active ? !w->ops->both_post : !w->ops->receives && !w->ops->both_post)
		return 0;
	if (w->ops->qp_type == IBV_QPT_UD && w->o.depth < UD_MIN_RECEIVES)
		return UD_MIN_RECEIVES;
	return w->o.depth;
}

size_t
setup_areas_bytes(const struct workload *w)
{
	return w->ops->areas * (size_t)w->o.depth * flow_stride(w);
}

size_t
setup_bytes(const struct endpoint *ep)
{
	const struct workload *w = ep->lane->w;

	return setup_areas_bytes(w) + ep->recv_depth * (flow_stride(w) + (w->ops->qp_type == IBV_QPT_UD ? UD_RECV_EXTRA : 0));
}

int
setup_endpoint(struct endpoint *ep, struct lane *l, bool active, uint32_t number)
{
	struct workload *w = l->w;

	ep->lane = l;
	ep->wr_index = (uint16_t)(ep - l->eps);
	ep->active = active;
	ep->number = number;
	ep->recv_depth = setup_recv_depth(w, active);
	ep->psn = (uint32_t)((w->o.seed + number * 2 + active) * 2654435761u) & PSN_MASK;
	ep->quota = w->o.count == 0 ? UINT64_MAX
				    : w->o.count / w->o.qps + (number < w->o.count % w->o.qps ? 1 : 0);
	ep->stamps = calloc(w->o.depth, sizeof(*ep->stamps));
	ep->phases = calloc(w->o.depth, sizeof(*ep->phases));
	ep->numbers = calloc(w->o.depth, sizeof(*ep->numbers));
	ep->free_slots = calloc(w->o.depth, sizeof(*ep->free_slots));
	if (ep->stamps == NULL || ep->phases == NULL || ep->numbers == NULL || ep->free_slots == NULL)
		return setup_fail(w, "endpoints", l->host, ENOMEM);
	while (ep->nb_free < w->o.depth) {
		ep->free_slots[ep->nb_free] = ep->nb_free;
		ep->nb_free++;
	}
	if (active) {
		l->nb_active++;
		if (ep->quota == 0)
			l->nb_finished++;
	}
	return 0;
}

int
setup_memory(struct lane *l)
{
	struct workload *w = l->w;
	uint8_t *at;

	for (uint32_t i = 0; i < l->nb_eps; i++)
		l->bytes += setup_bytes(&l->eps[i]);
	if (l->bytes > WORKLOAD_MEMORY_MAX) {
		workload_fail(w, "%s: needs %zu MiB of memory, more than the %d MiB that a workload may have: give it a smaller "
			      "size or depth, or fewer QPs", l->host->name, l->bytes >> 20, WORKLOAD_MEMORY_MAX >> 20);
		l->bytes = 0;
		return -1;
	}
	if (l->bytes == 0)
		l->bytes = 64;
	l->memory = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (l->memory == MAP_FAILED) {
		l->memory = NULL;
		return setup_fail(w, "memory", l->host, errno);
	}
	at = l->memory;
	for (uint32_t i = 0; i < l->nb_eps; i++) {
		l->eps[i].mem = at;
		l->eps[i].recv_mem = at + setup_areas_bytes(w);
		at += setup_bytes(&l->eps[i]);
	}
	return 0;
}

/** Create the lane's own verbs objects, unless all its QPs are the user's. */
static int
lane_objects(struct lane *l)
{
	struct workload *w = l->w;
	uint32_t cqes = 1;

	for (uint32_t i = 0; i < l->nb_eps; i++)
		cqes += 2 * w->o.depth + l->eps[i].recv_depth;
	l->pd = ibv_alloc_pd(l->host->ctx);
	if (l->pd == NULL)
		return setup_fail(w, "ibv_alloc_pd", l->host, errno);
	l->mr = ibv_reg_mr(l->pd, l->memory, l->bytes, connect_defaults.access);
	if (l->mr == NULL)
		return setup_fail(w, "ibv_reg_mr", l->host, errno);
	l->cqs[0] = ibv_create_cq(l->host->ctx, (int)cqes, NULL, NULL, 0);
	if (l->cqs[0] == NULL)
		return setup_fail(w, "ibv_create_cq", l->host, errno);
	l->own_cq = true;
	l->nb_cqs = 1;
	return 0;
}

static int
endpoint_qp(struct endpoint *ep)
{
	struct lane *l = ep->lane;
	struct workload *w = l->w;
	struct ibv_qp_init_attr init = {
		.qp_type = w->ops->qp_type,
		.send_cq = l->cqs[0],
		.recv_cq = l->cqs[0],
		.cap = { .max_send_wr = 2 * w->o.depth, .max_recv_wr = ep->recv_depth, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	ep->qp = ibv_create_qp(l->pd, &init);
	if (ep->qp == NULL)
		return setup_fail(w, "ibv_create_qp", l->host, errno);
	ep->lkey = l->mr->lkey;
	return 0;
}

/* ---- Connections ---- */
static int
endpoint_ah(struct endpoint *ep)
{
	struct workload *w = ep->lane->w;
	struct host *h = ep->lane->host, *to = ep->peer->lane->host;
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };

	attr.grh.hop_limit = HOP_LIMIT;
	attr.grh.sgid_index = (uint8_t)host_sgid_index(h, w->o.ipv6);
	memcpy(attr.grh.dgid.raw, host_gid(to, host_sgid_index(to, w->o.ipv6)), 16);
	ep->ah = ibv_create_ah(ep->lane->pd, &attr);
	if (ep->ah == NULL)
		return setup_fail(w, "ibv_create_ah", h, errno);
	ep->remote_qpn = ep->peer->qp->qp_num;
	return 0;
}

static int
endpoint_connect(struct endpoint *ep)
{
	struct workload *w = ep->lane->w;
	struct host *h = ep->lane->host, *to = ep->peer->lane->host;
	struct object_peer peer = { .known = true, .qpn = ep->peer->qp->qp_num, .psn = ep->peer->psn };
	struct connect_attr a = w->o.connect;
	const char *step;
	int rc;

	peer.gid = *host_gid(to, host_sgid_index(to, w->o.ipv6));
	a.sgid_index = host_sgid_index(h, w->o.ipv6);
	rc = connect_qp(ep->qp, &a, ep->psn, &peer, &step);
	if (rc != 0) {
		workload_fail(w, "%s QPN 0x%x: can't be connected: %s: %s", h->name, ep->qp->qp_num, step, strerror(rc));
		return -1;
	}
	if (ep->qp->qp_type == IBV_QPT_UD && ep->active)
		return endpoint_ah(ep);
	return 0;
}

void
setup_link(struct endpoint *a, struct endpoint *b)
{
	a->peer = b;
	b->peer = a;
}

int
setup_ready(struct endpoint *ep)
{
	struct workload *w = ep->lane->w;
	int rc;

	if (ep->peer != NULL) {
		ep->remote = (uintptr_t)ep->peer->mem;
		ep->rkey = ep->peer->lkey;
	}
	rc = flow_prepare(ep);
	return rc == 0 ? 0 : setup_fail(w, "ibv_post_recv", ep->lane->host, rc);
}

int
setup_all(struct workload *w, int (*fn)(struct endpoint *ep))
{
	for (unsigned int i = 0; i < w->nb_lanes; i++)
		for (uint32_t k = 0; k < w->lanes[i]->nb_eps; k++)
			if (fn(&w->lanes[i]->eps[k]) != 0)
				return -1;
	return 0;
}

/* ---- Workloads on QPs of our own ---- */
static bool
is_source(const struct workload *w, const struct host *h)
{
	if (!w->ops->many_to_one)
		return h == w->from;
	return h != w->to || hosts_count() == 1;
}

/** Make the endpoints: o.qps pairs for each source. */
static int
make_pairs(struct workload *w)
{
	uint32_t sources = 0, pairs = w->o.qps, at[HOSTS_MAX] = { 0 }, number = 0;
	struct lane *to;

	for (unsigned int i = 0; i < hosts_count(); i++)
		sources += is_source(w, host_at(i));
	w->o.qps *= sources;
	if (setup_room(w, w->to, w->o.qps) != 0)
		return -1;
	for (unsigned int i = 0; i < hosts_count(); i++)
		if (is_source(w, host_at(i)) && setup_room(w, host_at(i), pairs) != 0)
			return -1;
	to = setup_lane(w, w->to);
	for (unsigned int i = 0; i < hosts_count(); i++) {
		struct lane *from = is_source(w, host_at(i)) ? setup_lane(w, host_at(i)) : NULL;

		for (uint32_t k = 0; from != NULL && k < pairs; k++, number++) {
			/* If a host talks to itself, the passive endpoints come first in its lane. */
			struct endpoint *a = &from->eps[from == to ? w->o.qps + at[i]++ : at[i]++], *b = &to->eps[number];

			if (setup_endpoint(a, from, true, number) != 0 || setup_endpoint(b, to, false, number) != 0)
				return -1;
			setup_link(a, b);
		}
	}
	return 0;
}

int
workload_build(struct workload *w)
{
	if (make_pairs(w) != 0)
		return -1;
	for (unsigned int i = 0; i < w->nb_lanes; i++)
		if (setup_memory(w->lanes[i]) != 0 || lane_objects(w->lanes[i]) != 0)
			return -1;
	return setup_all(w, endpoint_qp) != 0 || setup_all(w, endpoint_connect) != 0 ||
	       setup_all(w, setup_ready) != 0 ? -1 : 0;
}

/* ---- Teardown ---- */
/**
 * Receives that are still posted point to memory that is about to be freed, so the QP is reset and connected again.
 * After a failure it is left in ERR instead, so that the user can inspect it.
 */
static void
restart_qp(struct object *o, bool failed)
{
	struct ibv_qp_attr attr = { .qp_state = failed ? IBV_QPS_ERR : IBV_QPS_RESET };
	const char *step;

	if (ibv_modify_qp(o->v.qp, &attr, IBV_QP_STATE) == 0 && !failed && o->peer.known)
		connect_qp(o->v.qp, &o->connect, o->psn, &o->peer, &step);
}

static void
endpoint_free(struct endpoint *ep)
{
	if (ep->ah != NULL)
		ibv_destroy_ah(ep->ah);
	if (ep->object != NULL) {
		ep->object->busy--;
		if (ep->recv_depth > 0 || (ep->peer != NULL && ep->peer->recv_depth > 0))
			restart_qp(ep->object, workload_failing(ep->lane->w));
	} else if (ep->qp != NULL) {
		ibv_destroy_qp(ep->qp);
	}
	if (ep->mr != NULL)
		ibv_dereg_mr(ep->mr);
	ep->ah = NULL;
	ep->qp = NULL;
	ep->mr = NULL;
	ep->object = NULL;
}

static void
lane_free(struct lane *l)
{
	if (l->mr != NULL)
		ibv_dereg_mr(l->mr);
	if (l->own_cq)
		ibv_destroy_cq(l->cqs[0]);
	if (l->pd != NULL)
		ibv_dealloc_pd(l->pd);
	if (l->memory != NULL)
		munmap(l->memory, l->bytes);
	l->mr = NULL;
	l->nb_cqs = 0;
	l->own_cq = false;
	l->pd = NULL;
	l->memory = NULL;
}

/**
 * Free verbs objects and memory. Lanes and endpoints are kept until the workload is forgotten: they contain its
 * figures.
 */
void
workload_teardown(struct workload *w)
{
	for (unsigned int i = 0; i < w->nb_lanes; i++)
		for (uint32_t k = 0; k < w->lanes[i]->nb_eps; k++)
			endpoint_free(&w->lanes[i]->eps[k]);
	for (unsigned int i = 0; i < w->nb_lanes; i++)
		lane_free(w->lanes[i]);
}
