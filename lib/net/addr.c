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
int
net_gid_index(const struct net_port *p, const struct gid *gid)
{
	const struct net_gids *g = atomic_load_explicit(&p->gids, memory_order_acquire);

	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++)
		if (gid_equal(&g->addr[i].gid, gid))
			return gid_is_zero(gid) ? -1 : (int)i;
	return -1;
}

bool
net_port_owns(const struct net_port *p, const struct gid *gid)
{
	return net_gid_index(p, gid) >= 0;
}

int
net_addr_on_link(const struct net_port *p, const struct gid *gid)
{
	const struct net_addr *a;

	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++) {
		a = net_addr(p, i);
		if (a != NULL && gid_same_subnet(&a->gid, gid, a->prefix))
			return (int)i;
	}
	return -1;
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
	net_gids_publish(p, g);
	return 0;
}

void
net_gids_publish(struct net_port *p, struct net_gids *g)
{
	struct net_gids *old = atomic_load_explicit(&p->gids, memory_order_relaxed);

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
static int
parse_prefix(const char *text, unsigned int max, uint8_t *prefix)
{
	unsigned long v;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return EINVAL;
	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno != 0 || *end != '\0' || v > max)
		return EINVAL;
	*prefix = (uint8_t)v;
	return 0;
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
	const char *slash = strchr(text, '/');
	const char *fault;
	struct net_addr out = { 0 };
	uint8_t ip[4];
	size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
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
	if (parse_prefix(slash + 1, v4 ? 32 : 128, &out.prefix) != 0) {
		snprintf(err, err_bytes, "address %s: prefix length must be 0 to %u", text, v4 ? 32 : 128);
		return EINVAL;
	}
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
