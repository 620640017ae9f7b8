/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of ids: port spaces, which of our ports leads to a peer, its MAC address. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_common.h>

#include "control/cma/cma.h"

/** @return true if @p a is an address of its family, or any of it. */
static bool
addr_ok(const struct ctl_cm_addr *a)
{
	return (a->family == 4 && (gid_is_zero(gid_at(a->gid)) || gid_is_v4(gid_at(a->gid)))) ||
	       (a->family == 6 && !gid_is_v4(gid_at(a->gid)));
}

static bool
is_loopback(const struct ctl_cm_addr *a)
{
	return gid_is_loopback(gid_at(a->gid));
}

struct net_port *
cma_port_of(struct control *c, const uint8_t gid[16], uint8_t *sgid_index)
{
	for (uint16_t i = 0; i < c->s.nb_ports; i++) {
		int k = net_gid_index(c->s.ports[i], gid_at(gid));

		if (k >= 0) {
			*sgid_index = (uint8_t)k;
			return c->s.ports[i];
		}
	}
	return NULL;
}

/* ---- Port spaces ---- */
static unsigned int
bucket(uint32_t ps, uint16_t port)
{
	return (ps * 31 + port) % CMA_BIND_BUCKETS;
}

static struct cma_bind *
bind_find(struct cma *cma, uint32_t ps, uint16_t port)
{
	struct cma_bind *b;

	LIST_FOREACH(b, &cma->binds[bucket(ps, port)], link)
	{
		if (b->ps == ps && b->port == port)
			return b;
	}
	return NULL;
}

/** Would @p a, with the address @p addr, and @p b get each other's requests? */
static bool
overlap(const struct cma_id *a, const struct cma_id *b, const struct ctl_cm_addr *addr)
{
	bool any_a = gid_is_zero(gid_at(addr->gid)), any_b = gid_is_zero(gid_at(b->local.gid));

	if (addr->family != b->local.family) {
		/* A wildcard of IPv6 takes IPv4 too, unless it was told not to. */
		return (any_a && addr->family == 6 && !a->af_only) || (any_b && b->local.family == 6 && !b->af_only);
	}
	return any_a || any_b || memcmp(addr->gid, b->local.gid, 16) == 0;
}

/** May both have the port? Different addresses may; those that allow reuse may, until one listens. */
static bool
compatible(const struct cma_id *a, const struct cma_id *b, const struct ctl_cm_addr *addr)
{
	return (a->reuse && b->reuse && b->state != CMA_LISTENING) || !overlap(a, b, addr);
}

bool
cma_may_listen(const struct cma_id *id)
{
	const struct cma_id *other;

	LIST_FOREACH(other, &id->bind->ids, bind_link)
	{
		if (other != id && other->state == CMA_LISTENING && overlap(id, other, &id->local))
			return false;
	}
	return true;
}

static bool
port_free(struct cma *cma, const struct cma_id *id, const struct ctl_cm_addr *addr, uint16_t port)
{
	struct cma_bind *b = bind_find(cma, id->ps, port);
	struct cma_id *other;

	if (b == NULL)
		return true;
	LIST_FOREACH(other, &b->ids, bind_link)
	{
		if (!compatible(id, other, addr))
			return false;
	}
	return true;
}

static uint16_t
port_choose(struct cma *cma, const struct cma_id *id, const struct ctl_cm_addr *addr)
{
	const uint32_t span = CMA_EPHEMERAL_LAST - CMA_EPHEMERAL_FIRST + 1;
	uint32_t start, i;
	uint16_t port;

	if (getentropy(&start, sizeof(start)) != 0)
		return 0;
	for (i = 0; i < span; i++) {
		port = (uint16_t)(CMA_EPHEMERAL_FIRST + (start % span + i) % span);
		if (bind_find(cma, id->ps, port) == NULL && port_free(cma, id, addr, port))
			return port;
	}
	return 0;
}

static int
port_take(struct cma *cma, struct cma_id *id, uint16_t port)
{
	struct cma_bind *b = bind_find(cma, id->ps, port);

	if (b == NULL) {
		b = calloc(1, sizeof(*b));
		if (b == NULL)
			return ENOMEM;
		b->ps = id->ps;
		b->port = port;
		LIST_INIT(&b->ids);
		LIST_INSERT_HEAD(&cma->binds[bucket(id->ps, port)], b, link);
	}
	LIST_INSERT_HEAD(&b->ids, id, bind_link);
	id->bind = b;
	return 0;
}

void
cma_unbind(struct cma_id *id)
{
	struct cma_bind *b = id->bind;

	if (b == NULL)
		return;
	id->bind = NULL;
	LIST_REMOVE(id, bind_link);
	if (LIST_EMPTY(&b->ids)) {
		LIST_REMOVE(b, link);
		free(b);
	}
}

int
cma_bind_id(struct cma_id *id, const struct ctl_cm_addr *addr, struct request *r)
{
	struct control *c = id->session->control;
	struct net_port *port = NULL;
	uint8_t sgid_index = 0;
	uint16_t number = addr->port;
	int rc;

	if (!addr_ok(addr))
		return req_fail(r, EINVAL, "no IPv4 or IPv6 address");
	if (!gid_is_zero(gid_at(addr->gid)) && !is_loopback(addr)) {
		port = cma_port_of(c, addr->gid, &sgid_index);
		if (port == NULL)
			return req_fail(r, EADDRNOTAVAIL, "no port of uroced has this address");
	}
	if (number == 0)
		number = port_choose(c->cma, id, addr);
	if (number == 0)
		return req_fail(r, EADDRNOTAVAIL, "all port numbers are taken");
	if (addr->port != 0 && !port_free(c->cma, id, addr, number))
		return req_fail(r, EADDRINUSE, "port %u is taken", number);
	rc = port_take(c->cma, id, number);
	if (rc != 0)
		return req_fail(r, rc, "no memory");
	id->local = *addr;
	id->local.port = number;
	id->port = port;
	id->sgid_index = sgid_index;
	id->state = CMA_BOUND;
	return 0;
}

int
op_cm_bind(struct session *s, struct request *r)
{
	struct cma_id *id = cma_id_get(s, r->req->cm_bind.id, r);
	int rc;

	if (id == NULL)
		return EINVAL;
	if (id->state != CMA_IDLE)
		return req_fail(r, EINVAL, "this id has an address already");
	rc = cma_bind_id(id, &r->req->cm_bind.addr, r);
	if (rc == 0)
		cma_id_info(id, &r->rsp.cm_info);
	return rc;
}

/* ---- The way to a peer ---- */
static bool
has_gateway(const struct net_port *p, bool v4)
{
	static const uint8_t none[4];

	/* A port that shares its interface has the kernel's routes. */
	return p->shared || (v4 ? memcmp(p->conf.gateway4, none, 4) != 0 : !gid_is_zero(gid_at(p->conf.gateway6)));
}

/**
 * Choose our own address for the way to @p dst: its own (loopback), one on its network, one of a port with a gateway. Link-local peers
 * are on the first port. @return false: no way.
 */
static bool
choose_source(struct control *c, const struct ctl_cm_addr *dst, struct net_port **port, uint8_t *sgid_index)
{
	bool v4 = dst->family == 4, link_local = !v4 && gid_is_link_local(gid_at(dst->gid));
	unsigned int i, k, pass;

	*port = cma_port_of(c, dst->gid, sgid_index);
	if (*port != NULL)
		return true;
	for (pass = 0; pass < 2; pass++) {
		for (i = 0; i < c->s.nb_ports; i++) {
			const struct net_port *p = c->s.ports[i];

			if (link_local && net_gid(p, 0) != NULL) {
				*port = c->s.ports[i];
				*sgid_index = 0;
				return true;
			}
			for (k = 1; k < UROCE_MAX_GIDS; k++) {
				const struct net_addr *a = net_addr(p, k);

				if (a == NULL || gid_is_v4(&a->gid) != v4)
					continue;
				if (pass == 0 ? !gid_same_subnet(&a->gid, gid_at(dst->gid), a->prefix) : !has_gateway(p, v4))
					continue;
				*port = c->s.ports[i];
				*sgid_index = (uint8_t)k;
				return true;
			}
		}
	}
	return false;
}

/** A destination that means this host: the first address of its family, of @p port if that isn't NULL. */
static bool
own_address(struct control *c, const struct net_port *port, struct ctl_cm_addr *a)
{
	unsigned int i, k;

	for (i = 0; i < c->s.nb_ports; i++) {
		const struct net_port *p = c->s.ports[i];

		for (k = 1; k < UROCE_MAX_GIDS && (port == NULL || port == p); k++) {
			const struct gid *gid = net_gid(p, k);

			if (gid != NULL && gid_is_v4(gid) == (a->family == 4)) {
				memcpy(a->gid, gid, sizeof(a->gid));
				return true;
			}
		}
	}
	return false;
}

void
cma_av(const struct cma_id *id, const uint8_t dgid[16], struct uroce_ah_attr *av)
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

/** The id's MAC address is being asked for, from now on. */
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

/** With what is known now, so that nobody has to ask. */
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
	/* As ip-neigh says it: nobody answered. */
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

/** Ask for the id's MAC address. @return as net_resolve(). */
static int
ask(struct cma_id *id, uint64_t now_ns)
{
	const struct session *s = id->session;
	int rc = net_resolve(id->port, id->sgid_index, gid_at(id->remote.gid), now_ns, id->mac, on_resolved, id);

	if (rc != EINPROGRESS || s->control->cma->nb_resolving < CMA_RESOLVING_CROWD ||
	    s->cma->nb_resolving < CMA_RESOLVING_SHARE)
		return rc;
	/* Or one that asks for hosts that aren't there would leave none for others. */
	net_resolve_cancel(id->port, id);
	return ENOBUFS;
}

/** Where to, and from where. @return 0, EHOSTUNREACH, which becomes the event's, or an errno value with the request failed. */
static int
resolve_ends(struct cma_id *id, const struct ctl_cm_addr *dst, struct request *r)
{
	struct control *c = id->session->control;
	struct ctl_cm_addr src;
	struct net_port *port = id->port;
	uint8_t sgid_index = id->sgid_index;

	id->remote = *dst;
	if ((gid_is_zero(gid_at(dst->gid)) || is_loopback(dst)) && !own_address(c, port, &id->remote))
		return EHOSTUNREACH;
	if (port == NULL && !choose_source(c, &id->remote, &port, &sgid_index))
		return EHOSTUNREACH;
	if (id->state == CMA_IDLE) {
		src = (struct ctl_cm_addr){ .family = dst->family };
		memcpy(src.gid, net_gid(port, sgid_index), 16);
		return cma_bind_id(id, &src, r);
	}
	if (id->local.family != dst->family)
		return req_fail(r, EINVAL, "source and destination must be of one address family");
	id->port = port;
	id->sgid_index = sgid_index;
	memcpy(id->local.gid, net_gid(port, sgid_index), 16);
	return 0;
}

int
op_cm_resolve_addr(struct session *s, struct request *r)
{
	const struct ctl_cm_resolve_addr_req *q = &r->req->cm_resolve_addr;
	struct cma_id *id = cma_id_get(s, q->id, r);
	uint64_t now = control_now_ns();
	int rc = 0;

	if (id == NULL)
		return EINVAL;
	if (id->state != CMA_IDLE && id->state != CMA_BOUND)
		return req_fail(r, EINVAL, "this id has a destination already, or listens");
	if (!addr_ok(&q->dst))
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
	if (rc == 0) {
		id->deadline_ns = now + (uint64_t)q->timeout_ms * 1000000;
		rc = ask(id, now);
	}
	if (rc == EINPROGRESS) {
		resolving_begins(id);
	} else if (rc != 0) {
		resolve_failed(id, rc);
	} else {
		id->state = CMA_RESOLVED;
		resolved(id, CTL_CM_EV_ADDR_RESOLVED);
	}
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

/* RoCE has no subnet manager to ask: the address is the route. */
int
op_cm_resolve_route(struct session *s, struct request *r)
{
	struct cma_id *id = cma_id_get(s, r->req->cm_resolve_route.id, r);
	int rc;

	if (id == NULL)
		return EINVAL;
	if (id->state != CMA_RESOLVED)
		return req_fail(r, EINVAL, "resolve the address first");
	rc = cma_event_want_room(s, r);
	if (rc != 0)
		return rc;
	id->state = CMA_ROUTED;
	resolved(id, CTL_CM_EV_ROUTE_RESOLVED);
	return 0;
}
