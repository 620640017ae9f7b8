/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Which addresses a port has, and at which index of its GID table: those of its configuration, or of the kernel's interface, when the port is
 * opened and whenever either changes.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/port/port_priv.h"

enum {
	KERNEL_ADDRS = 256, /* addresses of an interface that are read */
	VLAN_TEXT_BYTES = 16,
};

/** What a port's addresses should be. */
struct wanted {
	struct net_addr addrs[KERNEL_ADDRS]; /**< without the link-local one */
	unsigned int nb;
	struct net_addr link_local;          /**< for index 0; zero: none */
};

static int
find(const struct net_addr *addrs, unsigned int nb, const struct gid *gid)
{
	for (unsigned int i = 0; i < nb; i++)
		if (gid_equal(&addrs[i].gid, gid))
			return (int)i;
	return -1;
}

static void
want(struct wanted *w, const struct net_addr *a)
{
	if (w->nb < KERNEL_ADDRS && !gid_equal(&a->gid, &w->link_local.gid) && find(w->addrs, w->nb, &a->gid) < 0)
		w->addrs[w->nb++] = *a;
}

void
net_port_set_taken(struct net_port *p, net_taken_fn taken, void *arg)
{
	p->priv->taken = taken;
	p->priv->taken_arg = arg;
}

static bool
is_taken(const struct net_port *p, const struct net_addr *a)
{
	return p->priv->taken != NULL && !gid_is_link_local(&a->gid) && p->priv->taken(p->priv->taken_arg, p, a);
}

/* ---- What is wanted ---- */
/**
 * Of a shared port. The kernel answers ARP and ND only for its own addresses, so ours must be among them. If none are configured, all of them are.
 * @param missing  Set to the first configured address that the interface lacks, or NULL.
 * @return 0 or an errno value.
 */
static int
want_kernel(struct net_port *p, const struct net_addr *conf, unsigned int nb_conf, struct wanted *w, const struct net_addr **missing)
{
	struct net_addr addrs[KERNEL_ADDRS];
	int nb = rtnl_addrs(p->priv->kernel->rtnl, p->ifindex, addrs, RTE_DIM(addrs)), at;
	const struct gid *now = net_gid(p, 0);

	*missing = NULL;
	if (nb < 0)
		return errno;
	for (int k = nb - 1; k >= 0; k--)
		if (gid_is_link_local(&addrs[k].gid))
			w->link_local = addrs[k];
	/* An interface may have several: stay with the one that was the first. */
	at = now != NULL ? find(addrs, (unsigned int)nb, now) : -1;
	if (at >= 0)
		w->link_local = addrs[at];
	for (int k = 0; nb_conf == 0 && k < nb; k++)
		if (!gid_is_link_local(&addrs[k].gid) && !is_taken(p, &addrs[k]))
			want(w, &addrs[k]);
	for (unsigned int i = 0; i < nb_conf; i++) {
		at = find(addrs, (unsigned int)nb, &conf[i].gid);
		if (at >= 0)
			want(w, &(struct net_addr){ .gid = conf[i].gid,
						    .prefix = conf[i].prefix,
						    .deprecated = addrs[at].deprecated });
		else if (*missing == NULL)
			*missing = &conf[i];
	}
	return 0;
}

static void
want_own(const struct net_port *p, const struct net_addr *conf, unsigned int nb_conf, struct wanted *w)
{
	w->link_local = (struct net_addr){ .gid = gid_link_local(p->mac),
					   .prefix = NET_LINK_LOCAL_PREFIX,
					   .vlan = p->conf.vlan_id };
	for (unsigned int i = 0; i < nb_conf; i++) {
		struct net_addr a = conf[i];

		a.vlan = net_addr_vlan(&p->conf, &conf[i]);
		want(w, &a);
	}
}

static const char *
vlan_text(uint16_t vlan, char text[VLAN_TEXT_BYTES])
{
	if (vlan == 0)
		snprintf(text, VLAN_TEXT_BYTES, "untagged");
	else
		snprintf(text, VLAN_TEXT_BYTES, "in VLAN %u", vlan);
	return text;
}

/** Check that configured addresses can have the VLANs that they name. @return 0, or EINVAL with a message in @p err. */
static int
check_vlans(const struct net_port *p, const struct net_addr *conf, unsigned int nb_conf, uint32_t busy, char *err,
	    size_t err_bytes)
{
	char text[GID_TEXT_BYTES], has[VLAN_TEXT_BYTES], wanted[VLAN_TEXT_BYTES];
	const struct gid link_local = gid_link_local(p->mac);

	for (unsigned int i = 0; i < nb_conf; i++) {
		uint16_t vlan = net_addr_vlan(&p->conf, &conf[i]);
		const struct net_addr *now = net_addr_find(p, &conf[i].gid);
		int last;

		gid_text(&conf[i].gid, text);
		vlan_text(vlan, wanted);
		if (p->shared) {
			if (vlan == 0)
				continue;
			snprintf(err, err_bytes,
				 "%s/%u@%u: an address of a port that shares %s with the kernel can't have a VLAN: "
				 "make a VLAN interface (ip link add "
				 "link %s name %s.%u type vlan id %u) and give that to a port of its own",
				 text, conf[i].prefix, vlan, p->netdev, p->netdev, p->netdev, vlan, vlan);
			return EINVAL;
		}
		if (gid_equal(&conf[i].gid, &link_local) && vlan != p->conf.vlan_id) {
			snprintf(err, err_bytes, "%s is GID 0, whose VLAN is the port's: leave it out", text);
			return EINVAL;
		}
		if (now != NULL && now->vlan != vlan) {
			snprintf(err, err_bytes, "%s is %s; to have it %s, remove it, reload, add it and reload again",
				 text, vlan_text(now->vlan, has), wanted);
			return EINVAL;
		}
		last = find(p->priv->last_addrs, UROCE_MAX_GIDS, &conf[i].gid);
		if (last >= 0 && (busy >> last & 1) != 0 && p->priv->last_addrs[last].vlan != vlan) {
			snprintf(err, err_bytes,
				 "%s can't be %s yet: there are QPs or AHs that were made when it was %s", text, wanted,
				 vlan_text(p->priv->last_addrs[last].vlan, has));
			return EINVAL;
		}
	}
	return 0;
}

/* ---- Where it stands ---- */
/** @return an index for an address that has none, those first that no address ever had; -1: there is none. */
static int
free_index(const struct net_port *p, const struct net_gids *g, uint32_t busy)
{
	for (unsigned int used = 0; used < 2; used++)
		for (unsigned int i = 1; i < UROCE_MAX_GIDS; i++)
			if (gid_is_zero(&g->addr[i].gid) && (busy >> i & 1) == 0 && (used == 1 || gid_is_zero(&p->priv->last_addrs[i].gid)))
				return (int)i;
	return -1;
}

/** Put each wanted address where it is, or was, and the others where nobody is. @return how many have no place. */
static unsigned int
place(const struct net_port *p, const struct wanted *w, uint32_t busy, struct net_gids *g)
{
	unsigned int left_out = 0;
	bool placed[KERNEL_ADDRS] = { false };
	int at;

	g->addr[0] = w->link_local;
	for (unsigned int k = 0; k < w->nb; k++) {
		at = net_gid_index(p, &w->addrs[k].gid);
		placed[k] = at > 0;
		if (at > 0)
			g->addr[at] = w->addrs[k];
	}
	for (unsigned int k = 0; k < w->nb; k++) {
		at = placed[k] ? -1 : find(p->priv->last_addrs, UROCE_MAX_GIDS, &w->addrs[k].gid);
		if (at <= 0 || !gid_is_zero(&g->addr[at].gid))
			continue;
		placed[k] = true;
		g->addr[at] = w->addrs[k];
	}
	for (unsigned int k = 0; k < w->nb; k++) {
		if (placed[k])
			continue;
		at = free_index(p, g, busy);
		if (at >= 0)
			g->addr[at] = w->addrs[k];
		else
			left_out++;
	}
	return left_out;
}

static struct net_gids *
make(const struct net_port *p, const struct wanted *w, uint32_t busy, unsigned int *left_out)
{
	struct net_gids *g = calloc(1, sizeof(*g));

	if (g != NULL)
		*left_out = place(p, w, busy, g);
	return g;
}

/** Make @p g, which is the port's from now on, its GID table. */
static void
adopt(struct net_port *p, struct net_gids *g, struct net_gid_change *change)
{
	const struct net_gids *old = atomic_load_explicit(&p->gids, memory_order_relaxed);

	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++) {
		const struct gid *now = &g->addr[i].gid, *before = &old->addr[i].gid;

		if (!gid_is_zero(now))
			p->priv->last_addrs[i] = g->addr[i];
		if (gid_equal(now, before))
			continue;
		change->added |= (uint32_t)!gid_is_zero(now) << i;
		change->removed |= (uint32_t)!gid_is_zero(before) << i;
	}
	if (memcmp(g->addr, old->addr, sizeof(g->addr)) == 0)
		free(g);
	else
		net_gids_publish(p, g);
}

/* ---- When ---- */
int
gids_open(struct opening *o)
{
	struct net_port *p = o->p;
	const struct net_port_config *c = &p->conf;
	const struct net_addr *missing = NULL;
	struct net_gid_change change = { 0 };
	char text[GID_TEXT_BYTES];
	struct wanted w = { .nb = 0 };
	unsigned int left_out = 0;
	struct net_gids *g;
	char why[256];
	int rc;

	if (c->nb_addrs > UROCE_MAX_GIDS - 1)
		return opening_fail(o, "%u addresses; a port has at most %u", c->nb_addrs, UROCE_MAX_GIDS - 1);
	for (unsigned int i = 0; i < c->nb_addrs; i++)
		if (find(c->addrs, i, &c->addrs[i].gid) >= 0)
			return opening_fail(o, "address %s stands twice", gid_text(&c->addrs[i].gid, text));
	g = calloc(1, sizeof(*g));
	if (g == NULL)
		return opening_fail(o, "out of memory");
	net_gids_publish(p, g); /* empty */
	if (check_vlans(p, c->addrs, c->nb_addrs, 0, why, sizeof(why)) != 0)
		return opening_fail(o, "%s", why);
	rc = p->shared ? want_kernel(p, c->addrs, c->nb_addrs, &w, &missing) : 0;
	if (rc != 0)
		return opening_fail(o, "addresses of %s: %s", p->netdev, strerror(rc));
	if (missing != NULL)
		return opening_fail(o, "%s is not an address of %s, which it shares with the kernel: ip address add %s/%u dev %s",
				    gid_text(&missing->gid, text), p->netdev, text, missing->prefix, p->netdev);
	if (!p->shared)
		want_own(p, c->addrs, c->nb_addrs, &w);
	g = make(p, &w, 0, &left_out);
	if (g == NULL)
		return opening_fail(o, "out of memory");
	adopt(p, g, &change);
	return 0;
}

int
net_port_addrs_follow(struct net_port *p, uint32_t busy, struct net_gid_change *change)
{
	const struct net_addr *missing;
	struct wanted w = { .nb = 0 };
	struct net_gids *g;
	int rc = 0;

	*change = (struct net_gid_change){ 0 };
	if (!p->shared)
		return 0;
	rc = want_kernel(p, p->conf.addrs, p->conf.nb_addrs, &w, &missing);
	if (rc != 0)
		return rc;
	g = make(p, &w, busy, &change->left_out);
	if (g == NULL)
		return ENOMEM;
	adopt(p, g, change);
	return 0;
}

int
net_port_addrs_configure(struct net_port *p, const struct net_addr *addrs, unsigned int nb, uint32_t busy, struct net_gid_change *change,
			 char *err, size_t err_bytes)
{
	const struct net_addr *missing = NULL;
	char text[GID_TEXT_BYTES];
	struct wanted w = { .nb = 0 };
	unsigned int left_out = 0;
	struct net_gids *g;
	int rc = 0;

	if (check_vlans(p, addrs, nb, busy, err, err_bytes) != 0)
		return EINVAL;
	if (p->shared)
		rc = want_kernel(p, addrs, nb, &w, &missing);
	else
		want_own(p, addrs, nb, &w);
	if (rc != 0) {
		snprintf(err, err_bytes, "addresses of %s: %s", p->netdev, strerror(rc));
		return rc;
	}
	if (missing != NULL) {
		snprintf(err, err_bytes, "%s is not an address of %s, which it shares with the kernel: ip address add %s/%u dev %s",
			 gid_text(&missing->gid, text), p->netdev, text, missing->prefix, p->netdev);
		return EADDRNOTAVAIL;
	}
	g = make(p, &w, busy, &left_out);
	if (g == NULL) {
		snprintf(err, err_bytes, "out of memory");
		return ENOMEM;
	}
	if (left_out > 0 && nb > 0) {
		free(g);
		snprintf(err, err_bytes, "no free index in the GID table for %u addresses: QPs or AHs still use addresses that went before", left_out);
		return ENOSPC;
	}
	if (change == NULL) {
		free(g);
		return 0;
	}
	p->conf.nb_addrs = nb;
	memset(p->conf.addrs, 0, sizeof(p->conf.addrs));
	for (unsigned int i = 0; i < nb; i++)
		p->conf.addrs[i] = addrs[i];
	*change = (struct net_gid_change){ .left_out = left_out };
	adopt(p, g, change);
	net_port_filter(p);
	return 0;
}

void
gids_take(struct net_port *p, const struct net_port *from)
{
	struct wanted w = { .nb = 0 };
	struct net_gid_change change = { 0 };
	const struct net_addr *a;
	struct net_gids *g;

	a = net_addr(from, 0);
	if (a != NULL)
		w.link_local = *a;
	for (unsigned int i = 1; i < UROCE_MAX_GIDS; i++)
		if ((a = net_addr(from, i)) != NULL && !is_taken(p, a))
			want(&w, a);
	/* Without memory it stays without addresses, until they change. */
	g = make(p, &w, 0, &change.left_out);
	if (g != NULL)
		adopt(p, g, &change);
}

void
gids_clear(struct net_port *p)
{
	struct net_gids *g = calloc(1, sizeof(*g));

	if (g != NULL)
		net_gids_publish(p, g);
}
