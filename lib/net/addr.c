/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: publishing those of a port to all readers, and parsing. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/container_of.h"
#include "net/net_priv.h"

enum { ADDR_TEXT_BYTES = 64 };

/* ---- A port's addresses ---- */
static int
find(const struct net_gids *g, const struct gid *gid)
{
	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++)
		if (gid_equal(&g->addr[i].gid, gid))
			return gid_is_zero(gid) ? -1 : (int)i;
	return -1;
}

int
net_gid_index(const struct net_port *p, const struct gid *gid)
{
	return find(atomic_load_explicit(&p->gids, memory_order_acquire), gid);
}

const struct net_addr *
net_addr_find(const struct net_port *p, const struct gid *gid)
{
	const struct net_gids *g = atomic_load_explicit(&p->gids, memory_order_acquire);
	int at = find(g, gid);

	return at >= 0 ? &g->addr[at] : NULL;
}

bool
net_port_owns(const struct net_port *p, const struct gid *gid)
{
	return net_gid_index(p, gid) >= 0;
}

int
net_addr_on_link(const struct net_port *p, uint16_t vlan, const struct gid *gid)
{
	const struct net_addr *a;

	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++) {
		a = net_addr(p, i);
		if (a != NULL && a->vlan == vlan && gid_same_subnet(&a->gid, gid, a->prefix))
			return (int)i;
	}
	return -1;
}

static bool
in_vlan(const struct net_gids *g, uint16_t vlan)
{
	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++)
		if (g->addr[i].vlan == vlan && !gid_is_zero(&g->addr[i].gid))
			return true;
	return false;
}

bool
net_port_in_vlan(const struct net_port *p, uint16_t vlan)
{
	return in_vlan(atomic_load_explicit(&p->gids, memory_order_acquire), vlan);
}

bool
net_port_takes(const struct net_port *p, const struct gid *dgid, uint16_t vlan)
{
	const struct net_gids *g = atomic_load_explicit(&p->gids, memory_order_acquire);
	int at;

	if (p->shared)
		return true;
	if (!g->other_vlans)
		return vlan == p->conf.vlan_id;
	at = find(g, dgid);
	return at >= 0 ? g->addr[at].vlan == vlan : in_vlan(g, vlan);
}

int
net_addr_set(struct net_port *p, unsigned int index, const struct net_addr *a)
{
	struct net_gids *old = atomic_load_explicit(&p->gids, memory_order_relaxed), *g;
	int at;

	if (index >= UROCE_MAX_GIDS || (a != NULL && (gid_is_zero(&a->gid) || gid_is_multicast(&a->gid))))
		return EINVAL;
	at = a != NULL && old != NULL ? net_gid_index(p, &a->gid) : -1;
	if (at >= 0 && at != (int)index)
		return EEXIST;
	g = calloc(1, sizeof(*g));
	if (g == NULL)
		return ENOMEM;
	if (old != NULL)
		*g = *old;
	g->addr[index] = a != NULL ? *a : (struct net_addr){ 0 };
	g->addr[index].vlan = net_addr_vlan(&p->conf, &g->addr[index]);
	net_gids_publish(p, g);
	return 0;
}

void
net_gids_publish(struct net_port *p, struct net_gids *g)
{
	struct net_gids *old = atomic_load_explicit(&p->gids, memory_order_relaxed);

	g->other_vlans = false;
	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++)
		g->other_vlans |= !gid_is_zero(&g->addr[i].gid) && g->addr[i].vlan != p->conf.vlan_id;
	atomic_store_explicit(&p->gids, g, memory_order_release);
	if (old != NULL)
		deferred_free(&p->priv->old_gids, &old->deferred);
}

void
net_gids_free(struct deferred *d)
{
	free(container_of(d, struct net_gids, deferred));
}

/* ---- Parsing ---- */
/** Parse a number that ends at @p end. @return EINVAL: it is none, or more than @p max. */
static int
parse_number(const char *text, const char *end, unsigned int max, unsigned long *v)
{
	char *stop;

	if (!isdigit((unsigned char)text[0]))
		return EINVAL;
	errno = 0;
	*v = strtoul(text, &stop, 10);
	return errno != 0 || stop != end || *v > max ? EINVAL : 0;
}

static const char *
address_fault(const struct gid *gid)
{
	if (gid_is_zero(gid) || (gid_is_v4(gid) && gid->raw[12] == 0))
		return "the unspecified address can't be a port's own";
	if (gid_is_multicast(gid))
		return "a multicast address can't be a port's own";
	if (!gid_is_host(gid))
		return "a loopback, broadcast or reserved address can't be a port's own";
	return NULL;
}

int
net_addr_parse(const char *text, struct net_addr *a, char *err, size_t err_bytes)
{
	char host[ADDR_TEXT_BYTES];
	const char *end = text + strlen(text), *at = strchr(text, '@');
	const char *slash = memchr(text, '/', (size_t)((at != NULL ? at : end) - text));
	const char *fault;
	struct net_addr out = { .vlan = NET_VLAN_OF_PORT };
	unsigned long prefix, vlan;
	uint8_t ip[4];
	size_t len = (size_t)((slash != NULL ? slash : at != NULL ? at : end) - text);
	bool v4;

	if (len == 0 || len >= sizeof(host)) {
		snprintf(err, err_bytes, "address %s: must be like 198.18.0.1/24 or fd00:18::1/64", text);
		return EINVAL;
	}
	memcpy(host, text, len);
	host[len] = '\0';
	v4 = inet_pton(AF_INET, host, ip) == 1;
	if (v4) {
		out.gid = gid_from_v4(ip);
	} else if (inet_pton(AF_INET6, host, &out.gid) != 1) {
		snprintf(err, err_bytes,
			 "address %s: %s is neither an IPv4 nor an IPv6 address; must be like 198.18.0.1/24 or "
			 "fd00:18::1/64",
			 text, host);
		return EINVAL;
	} else if (gid_is_v4(&out.gid)) {
		snprintf(err, err_bytes, "address %s: write an IPv4-mapped address as IPv4, like 198.18.0.1/24", text);
		return EINVAL;
	}
	if (slash == NULL) {
		snprintf(err, err_bytes, "address %s: prefix length is missing; must be like %s%s", text, host,
			 v4 ? "/24" : "/64");
		return EINVAL;
	}
	if (parse_number(slash + 1, at != NULL ? at : end, v4 ? 32 : 128, &prefix) != 0) {
		snprintf(err, err_bytes, "address %s: prefix length must be 0 to %u", text, v4 ? 32 : 128);
		return EINVAL;
	}
	out.prefix = (uint8_t)prefix;
	if (at != NULL && parse_number(at + 1, end, NET_VLAN_MAX, &vlan) != 0) {
		snprintf(err, err_bytes,
			 "address %s: behind @ must be a VLAN ID, 1 to %u, or 0 for untagged, like %s/%u@5", text,
			 NET_VLAN_MAX, host, out.prefix);
		return EINVAL;
	}
	if (at != NULL)
		out.vlan = (uint16_t)vlan;
	fault = address_fault(&out.gid);
	if (fault != NULL) {
		snprintf(err, err_bytes, "address %s: %s", text, fault);
		return EINVAL;
	}
	*a = out;
	return 0;
}

int
net_gateway_parse(const char *text, int family, uint8_t *ip, char *err, size_t err_bytes)
{
	bool v4 = family == AF_INET;
	uint8_t out[16];
	struct gid gid;

	if (inet_pton(family, text, out) != 1) {
		snprintf(err, err_bytes, "must be an %s address, for example %s", v4 ? "IPv4" : "IPv6",
			 v4 ? "198.18.0.254" : "fd00:18::fe");
		return EINVAL;
	}
	gid = gid_from_ip(v4 ? 4 : 6, out);
	if (!gid_is_host(&gid) || gid_is_v4(&gid) != v4) {
		snprintf(err, err_bytes, "must be a router's own %s address: neither unspecified, multicast, loopback nor reserved",
			 v4 ? "IPv4" : "IPv6");
		return EINVAL;
	}
	memcpy(ip, out, v4 ? 4 : 16);
	return 0;
}

/** Parse one of the two addresses of a route. @return EINVAL: it is none. */
static int
route_address(const char *text, size_t len, struct gid *gid)
{
	char host[ADDR_TEXT_BYTES];
	uint8_t ip[4];

	if (len == 0 || len >= sizeof(host))
		return EINVAL;
	memcpy(host, text, len);
	host[len] = '\0';
	if (inet_pton(AF_INET, host, ip) == 1)
		*gid = gid_from_v4(ip);
	else if (inet_pton(AF_INET6, host, gid) != 1 || gid_is_v4(gid))
		return EINVAL;
	return 0;
}

static bool
has_host_bits(const struct net_route *r)
{
	struct gid other = r->net;
	unsigned int bits = r->prefix + (gid_is_v4(&r->net) ? 96 : 0);

	for (unsigned int i = bits; i < 128; i++)
		other.raw[i / 8] &= (uint8_t)~(0x80 >> i % 8);
	return !gid_equal(&other, &r->net);
}

int
net_route_parse(const char *text, struct net_route *r, char *err, size_t err_bytes)
{
	static const char by[] = " via ";
	const char *slash = strchr(text, '/'), *via = strstr(text, by);
	struct net_route out = { 0 };
	char prefix[4] = "";
	unsigned long bits;

	if (slash == NULL || via == NULL || via < slash || (size_t)(via - slash) > sizeof(prefix) || route_address(text, (size_t)(slash - text), &out.net) != 0 ||
	    route_address(via + strlen(by), strlen(via + strlen(by)), &out.router) != 0) {
		snprintf(err, err_bytes, "route %s: must be like 203.0.113.0/24 via 198.18.0.253 or 2001:db8::/32 via fd00:18::fd", text);
		return EINVAL;
	}
	memcpy(prefix, slash + 1, (size_t)(via - slash - 1));
	if (parse_number(prefix, prefix + strlen(prefix), gid_is_v4(&out.net) ? 32 : 128, &bits) != 0) {
		snprintf(err, err_bytes, "route %s: prefix length must be 0 to %u", text, gid_is_v4(&out.net) ? 32 : 128);
		return EINVAL;
	}
	out.prefix = (uint8_t)bits;
	if (has_host_bits(&out)) {
		snprintf(err, err_bytes, "route %s: the network's address has bits behind its first %u; write the network, like 203.0.113.0/24", text, out.prefix);
		return EINVAL;
	}
	if (gid_is_v4(&out.net) != gid_is_v4(&out.router)) {
		snprintf(err, err_bytes, "route %s: the network and its router must both have IPv4 or both have IPv6 addresses", text);
		return EINVAL;
	}
	if (!gid_is_host(&out.router)) {
		snprintf(err, err_bytes, "route %s: the router must have an own address: neither unspecified, multicast, loopback nor reserved", text);
		return EINVAL;
	}
	*r = out;
	return 0;
}

/** @return whether @p router is one of VLAN @p vlan. */
static bool
router_in_vlan(const struct net_port *p, uint16_t vlan, const struct gid *router)
{
	bool known = false;

	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++) {
		const struct net_addr *a = net_addr(p, i);

		if (a == NULL || !gid_same_subnet(&a->gid, router, a->prefix))
			continue;
		if (a->vlan == vlan)
			return true;
		known = true;
	}
	return !known && vlan == p->conf.vlan_id;
}

bool
net_router_for(const struct net_port *p, uint16_t vlan, const struct gid *dgid, struct gid *router)
{
	static const uint8_t none4[4];
	const struct net_port_config *c = &p->conf;
	const struct net_route *best = NULL;
	bool v4 = gid_is_v4(dgid);

	for (unsigned int i = 0; i < c->nb_routes; i++) {
		const struct net_route *r = &c->routes[i];

		if (gid_is_v4(&r->net) == v4 && gid_same_subnet(&r->net, dgid, r->prefix) &&
		    (best == NULL || r->prefix > best->prefix) && router_in_vlan(p, vlan, &r->router))
			best = r;
	}
	if (best != NULL) {
		*router = best->router;
		return true;
	}
	if (v4 ? memcmp(c->gateway4, none4, sizeof(none4)) == 0 : gid_is_zero(gid_at(c->gateway6)))
		return false;
	*router = v4 ? gid_from_v4(c->gateway4) : *gid_at(c->gateway6);
	return router_in_vlan(p, vlan, router);
}
