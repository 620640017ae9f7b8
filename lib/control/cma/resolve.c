/* SPDX-License-Identifier: BSD-3-Clause */
/* Resolving an id's destination: our own address, the port and the MAC address of the next hop. */
#include <unistd.h>

#include <rte_common.h>

#include "control/cma/cma_priv.h"

static bool
has_router(const struct net_port *p, uint16_t vlan, const struct gid *to)
{
	struct gid router;

	/* A port that shares its interface with the kernel uses the kernel's routes. */
	return p->shared || net_router_for(p, vlan, to, &router);
}

/**
 * @param router  Look for a port with a router for it, rather than an address on the network of @p dst.
 * @return the GID index of an address of @p p from which @p dst can be reached, one that isn't deprecated if there is one (RFC 6724, 5, rule 3); or -1. Link-local
 * peers are assumed to be on the first port.
 */
static int
source_on(const struct net_port *p, const struct ctl_cm_addr *dst, bool router)
{
	const struct gid *to = gid_at(dst->gid);
	bool v4 = dst->family == 4;
	int deprecated = -1;

	if (!v4 && gid_is_link_local(to) && net_gid(p, 0) != NULL)
		return 0;
	for (int i = 1; i < UROCE_MAX_GIDS; i++) {
		const struct net_addr *a = net_addr(p, (unsigned int)i);

		if (a == NULL || gid_is_v4(&a->gid) != v4 ||
		    !(router ? has_router(p, a->vlan, to) : gid_same_subnet(&a->gid, to, a->prefix)))
			continue;
		if (!a->deprecated)
			return i;
		if (deprecated < 0)
			deprecated = i;
	}
	return deprecated;
}

/**
 * Choose our address for the path to @p dst: @p dst itself if it is ours, else as in source_on().
 * @return false: no route.
 */
static bool
choose_source(struct control *c, const struct ctl_cm_addr *dst, struct net_port **port, uint8_t *sgid_index)
{
	*port = cma_port_of(c, gid_at(dst->gid), sgid_index);
	for (unsigned int i = 0; *port == NULL && i < 2u * c->s.nb_ports; i++) {
		struct net_port *p = c->s.ports[i % c->s.nb_ports];
		int index = source_on(p, dst, i >= c->s.nb_ports);

		if (index >= 0) {
			*port = p;
			*sgid_index = (uint8_t)index;
		}
	}
	return *port != NULL;
}

/**
 * Replace a destination that means this host by the first address of its family, of @p port if that isn't NULL.
 * @return false: there is none.
 */
static bool
own_address(struct control *c, const struct net_port *port, struct ctl_cm_addr *a)
{
	for (unsigned int i = 0; i < c->s.nb_ports; i++) {
		const struct net_port *p = c->s.ports[i];

		for (unsigned int k = 1; k < UROCE_MAX_GIDS && (port == NULL || port == p); k++) {
			const struct gid *gid = net_gid(p, k);

			if (gid != NULL && gid_is_v4(gid) == (a->family == 4)) {
				memcpy(a->gid, gid, sizeof(a->gid));
				return true;
			}
		}
	}
	return false;
}

/** Record that the id's MAC address is being resolved. */
static void
resolving_begins(struct cma_id *id)
{
	struct cma *cma = id->session->control->cma;

	id->state = CMA_RESOLVING;
	TAILQ_INSERT_TAIL(&cma->resolving, id, resolving);
	cma->nb_resolving++;
	id->session->cma->nb_resolving++;
}

static void
resolving_ends(struct cma_id *id)
{
	struct cma *cma = id->session->control->cma;

	id->state = CMA_BOUND;
	TAILQ_REMOVE(&cma->resolving, id, resolving);
	cma->nb_resolving--;
	id->session->cma->nb_resolving--;
}

void
cma_resolve_stop(struct cma_id *id)
{
	if (id->state != CMA_RESOLVING)
		return;
	net_resolve_cancel(id->port, id);
	resolving_ends(id);
}

/** Send an event that includes the addresses known now, so that the program needs no CM_QUERY. */
static void
resolved(struct cma_id *id, enum ctl_cm_event_type type)
{
	struct ctl_cm_event ev = { .id = id->obj.handle, .type = type };

	cma_id_info(id, &ev.info);
	cma_event_send(id, &ev, NULL);
}

static void
resolve_failed(struct cma_id *id, int status)
{
	cma_event(id, CTL_CM_EV_ADDR_ERROR, -status);
}

static void
on_resolved(void *arg, int status, const uint8_t mac[6])
{
	struct cma_id *id = arg;

	resolving_ends(id);
	if (status != 0) {
		resolve_failed(id, status);
		return;
	}
	memcpy(id->mac, mac, 6);
	id->state = CMA_RESOLVED;
	resolved(id, CTL_CM_EV_ADDR_RESOLVED);
}

/** Start resolving the id's MAC address. @return as net_resolve(). */
static int
ask(struct cma_id *id, uint64_t now_ns)
{
	const struct session *s = id->session;
	int rc = net_resolve(id->port, id->sgid_index, cma_peer_gid(id), now_ns, id->mac, on_resolved, id);

	if (rc != EINPROGRESS || s->control->cma->nb_resolving < CMA_RESOLVING_CROWD ||
	    s->cma->nb_resolving < CMA_RESOLVING_SHARE)
		return rc;
	/* A program that asks for many hosts that don't answer must not take all resolutions. */
	net_resolve_cancel(id->port, id);
	return ENOBUFS;
}

/**
 * Determine both addresses.
 * @return 0; EHOSTUNREACH, which becomes the status of the event; or an errno value, with @p r failed.
 */
static int
resolve_ends(struct cma_id *id, const struct ctl_cm_addr *dst, struct request *r)
{
	struct control *c = id->session->control;
	struct ctl_cm_addr to = *dst, src = { .family = dst->family };
	struct net_port *port = id->port;
	uint8_t sgid_index = id->sgid_index;
	bool loopback = cma_addr_loopback(dst);
	int rc;

	if ((gid_is_zero(gid_at(dst->gid)) || loopback) && !own_address(c, port, &to))
		return EHOSTUNREACH;
	/* A loopback address is told as such; packets go to the port's own. */
	id->remote = loopback ? *dst : to;
	if (port == NULL && !choose_source(c, &to, &port, &sgid_index))
		return EHOSTUNREACH;
	memcpy(src.gid, loopback && id->port == NULL ? dst->gid : net_gid(port, sgid_index)->raw, sizeof(src.gid));
	if (id->state == CMA_IDLE) {
		rc = cma_bind_id(id, &src, r);
		if (rc != 0)
			return rc;
	} else if (id->local.family != dst->family) {
		return req_fail(r, EINVAL, "source and destination must be of one address family");
	}
	id->port = port;
	id->sgid_index = sgid_index;
	memcpy(id->local.gid, src.gid, sizeof(src.gid));
	return 0;
}

void
cma_resolve_begin(struct cma_id *id, uint64_t now_ns)
{
	int rc = ask(id, now_ns);

	if (rc == EINPROGRESS) {
		resolving_begins(id);
	} else if (rc != 0) {
		resolve_failed(id, rc);
	} else {
		id->state = CMA_RESOLVED;
		resolved(id, CTL_CM_EV_ADDR_RESOLVED);
	}
}

int
op_cm_resolve_addr(struct session *s, struct request *r)
{
	const struct ctl_cm_resolve_addr_req *q = &r->req->cm_resolve_addr;
	struct cma_id *id = r->obj;
	uint64_t now = control_now_ns();
	int rc = 0;

	if (id->state != CMA_IDLE && id->state != CMA_BOUND)
		return req_fail(r, EINVAL, "this id has a destination already, or listens");
	if (!cma_addr_ok(&q->dst))
		return req_fail(r, EINVAL, "no IPv4 or IPv6 address");
	rc = cma_event_want_room(s, r);
	if (rc != 0)
		return rc;
	if (q->src.family != 0 && id->state == CMA_IDLE) {
		rc = cma_bind_id(id, &q->src, r);
		if (rc != 0)
			return rc;
	}
	rc = resolve_ends(id, &q->dst, r);
	if (rc != 0 && rc != EHOSTUNREACH)
		return rc;
	if (getentropy(&id->flow_label, sizeof(id->flow_label)) != 0)
		return req_fail(r, EIO, "no random numbers");
	id->flow_label &= 0xfffff;
	if (rc != 0) {
		resolve_failed(id, rc);
		return 0;
	}
	id->deadline_ns = now + (uint64_t)q->timeout_ms * 1000000;
	cma_resolve_begin(id, now);
	return 0;
}

uint64_t
cma_poll(struct cma *cma, uint64_t now_ns)
{
	struct cma_id *id, *next_id;
	uint64_t next = UINT64_MAX;

	for (id = TAILQ_FIRST(&cma->resolving); id != NULL; id = next_id) {
		next_id = TAILQ_NEXT(id, resolving);
		if (id->deadline_ns > now_ns) {
			next = RTE_MIN(next, id->deadline_ns);
			continue;
		}
		cma_resolve_stop(id);
		resolve_failed(id, ETIMEDOUT);
	}
	return next;
}

/** RoCE has no subnet manager to ask: resolving the address has resolved the route. */
int
op_cm_resolve_route(struct session *s, struct request *r)
{
	struct cma_id *id = r->obj;
	int rc;

	if (id->state != CMA_RESOLVED)
		return req_fail(r, EINVAL, "resolve the address first");
	rc = cma_event_want_room(s, r);
	if (rc != 0)
		return rc;
	id->state = CMA_ROUTED;
	resolved(id, CTL_CM_EV_ROUTE_RESOLVED);
	return 0;
}
