/* SPDX-License-Identifier: BSD-3-Clause */
/* Port spaces: the addresses and port numbers that ids are bound to. */
#include <unistd.h>

#include "control/cma/cma_priv.h"

bool
cma_addr_ok(const struct ctl_cm_addr *a)
{
	return (a->family == 4 && (gid_is_zero(gid_at(a->gid)) || gid_is_v4(gid_at(a->gid)))) ||
	       (a->family == 6 && !gid_is_v4(gid_at(a->gid)));
}

bool
cma_addr_loopback(const struct ctl_cm_addr *a)
{
	return gid_is_loopback(gid_at(a->gid));
}

static unsigned int
bucket(uint32_t ps, uint16_t port)
{
	return (ps * 31 + port) % CMA_BIND_BUCKETS;
}

static struct cma_bind *
bind_find(struct cma *cma, uint32_t ps, uint16_t port)
{
	struct cma_bind *b;

	LIST_FOREACH(b, &cma->binds[bucket(ps, port)], link) {
		if (b->ps == ps && b->port == port)
			return b;
	}
	return NULL;
}

/**
 * @return 0, or an errno value if @p a, bound to @p addr, could get requests meant for @p b, or the other way round. It is Linux's for each case:
 * EADDRNOTAVAIL if one of them is a wildcard, EADDRINUSE if both are the same address.
 */
static int
overlap(const struct cma_id *a, const struct cma_id *b, const struct ctl_cm_addr *addr)
{
	bool any_a = gid_is_zero(gid_at(addr->gid)), any_b = gid_is_zero(gid_at(b->local.gid));

	if (addr->family != b->local.family) {
		/* An IPv6 wildcard covers IPv4 too, unless it is for IPv6 only. */
		return (any_a && addr->family == 6 && !a->af_only) || (any_b && b->local.family == 6 && !b->af_only) ? EADDRNOTAVAIL : 0;
	}
	if (any_a || any_b)
		return EADDRNOTAVAIL;
	return gid_equal(gid_at(addr->gid), gid_at(b->local.gid)) ? EADDRINUSE : 0;
}

/** @return 0 if both may use the port: their addresses differ, or both allow reuse and @p b doesn't listen. Otherwise an errno value. */
static int
conflict(const struct cma_id *a, const struct cma_id *b, const struct ctl_cm_addr *addr)
{
	return a->reuse && b->reuse && b->state != CMA_LISTENING ? 0 : overlap(a, b, addr);
}

int
cma_may_listen(const struct cma_id *id)
{
	const struct cma_id *other;
	int rc;

	LIST_FOREACH(other, &id->bind->ids, bind_link) {
		rc = other != id && other->state == CMA_LISTENING ? overlap(id, other, &id->local) : 0;
		if (rc != 0)
			return rc;
	}
	return 0;
}

/** @return 0, or an errno value if another id has the port. */
static int
port_check(struct cma *cma, const struct cma_id *id, const struct ctl_cm_addr *addr, uint16_t port)
{
	struct cma_bind *b = bind_find(cma, id->ps, port);
	struct cma_id *other;
	int rc;

	if (b == NULL)
		return 0;
	LIST_FOREACH(other, &b->ids, bind_link) {
		rc = conflict(id, other, addr);
		if (rc != 0)
			return rc;
	}
	return 0;
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
		if (bind_find(cma, id->ps, port) == NULL && port_check(cma, id, addr, port) == 0)
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

int
cma_bind_take(struct cma_id *id)
{
	return port_take(id->session->control->cma, id, id->local.port);
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

	if (!cma_addr_ok(addr))
		return req_fail(r, EINVAL, "no IPv4 or IPv6 address");
	if (!gid_is_zero(gid_at(addr->gid)) && !cma_addr_loopback(addr)) {
		port = cma_port_of(c, gid_at(addr->gid), &sgid_index);
		if (port == NULL)
			return req_fail(r, ENODEV, "no port of uroced has this address");
	}
	if (number == 0)
		number = port_choose(c->cma, id, addr);
	if (number == 0)
		return req_fail(r, EADDRNOTAVAIL, "all port numbers are taken");
	rc = port_check(c->cma, id, addr, number);
	if (rc != 0)
		return req_fail(r, rc, "port %u is taken", number);
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
	struct cma_id *id = r->obj;
	int rc;

	if (id->state != CMA_IDLE)
		return req_fail(r, EINVAL, "this id has an address already");
	rc = cma_bind_id(id, &r->req->cm_bind.addr, r);
	if (rc == 0)
		cma_id_info(id, &r->rsp.cm_info);
	return rc;
}
