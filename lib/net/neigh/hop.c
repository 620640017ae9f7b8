/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The hosts and routers to which paths lead, each with its MAC address: whoever gets another one, by failover or with a new card, takes paths that
 * exist along. Unlike the neighbour table it forgets nobody who doesn't answer, and has the kernel's neighbours as well. Only our own requests
 * create entries.
 */
#include <stdlib.h>

#include "net/net_priv.h"

static struct hop_list *
bucket_of(struct hops *t, const struct gid *gid)
{
	return &t->bucket[neigh_hash(gid) % HOP_BUCKETS];
}

static struct hop *
find(const struct hops *t, const struct gid *gid, uint16_t vlan)
{
	struct hop *h;

	TAILQ_FOREACH(h, &t->bucket[neigh_hash(gid) % HOP_BUCKETS], hash_next)
	if (gid_equal(&h->gid, gid) && h->vlan == vlan)
		return h;
	return NULL;
}

static void
unmark(struct hops *t, struct hop *h)
{
	if (!h->changed)
		return;
	TAILQ_REMOVE(&t->changed, h, change_next);
	h->changed = false;
	t->nb_changed--;
}

static void
hop_free(struct hops *t, struct hop *h)
{
	unmark(t, h);
	TAILQ_REMOVE(bucket_of(t, &h->gid), h, hash_next);
	TAILQ_REMOVE(&t->used, h, used_next);
	t->nb--;
	free(h);
}

void
hops_init(struct hops *t)
{
	TAILQ_INIT(&t->used);
	TAILQ_INIT(&t->changed);
	for (unsigned int i = 0; i < HOP_BUCKETS; i++)
		TAILQ_INIT(&t->bucket[i]);
}

void
hops_fini(struct hops *t)
{
	struct hop *h;

	while ((h = TAILQ_FIRST(&t->used)) != NULL)
		hop_free(t, h);
}

/** Without memory nobody is noted: paths then stay where they are if the MAC address changes. */
static struct hop *
create(struct hops *t, const struct gid *gid, uint16_t vlan)
{
	struct hop *h = calloc(1, sizeof(*h));

	if (h == NULL)
		return NULL;
	if (t->nb == NET_NEIGH_MAX)
		hop_free(t, TAILQ_FIRST(&t->used));
	h->gid = *gid;
	h->vlan = vlan;
	TAILQ_INSERT_TAIL(bucket_of(t, gid), h, hash_next);
	TAILQ_INSERT_TAIL(&t->used, h, used_next);
	t->nb++;
	return h;
}

void
hops_use(struct hops *t, const struct gid *gid, uint16_t vlan, const struct gid *dgid)
{
	struct hop *h = find(t, gid, vlan);

	if (h == NULL)
		h = create(t, gid, vlan);
	else {
		TAILQ_REMOVE(&t->used, h, used_next);
		TAILQ_INSERT_TAIL(&t->used, h, used_next);
	}
	if (h != NULL && !gid_equal(gid, dgid))
		h->router = true;
}

void
hops_mac(struct hops *t, const struct gid *gid, uint16_t vlan, const uint8_t mac[6])
{
	struct hop *h = find(t, gid, vlan);

	if (h == NULL || memcmp(h->mac, mac, sizeof(h->mac)) == 0)
		return;
	if (mac_is_unicast(h->mac) && !h->changed) {
		memcpy(h->before, h->mac, sizeof(h->before));
		h->changed = true;
		t->nb_changed++;
		/* Routers first: net_neigh_follow() looks for them. */
		if (h->router)
			TAILQ_INSERT_HEAD(&t->changed, h, change_next);
		else
			TAILQ_INSERT_TAIL(&t->changed, h, change_next);
	}
	if (mac_is_unicast(h->mac))
		t->changes++;
	memcpy(h->mac, mac, sizeof(h->mac));
}

/** @return the VLAN of an address of the port, 0 if it has gone. */
static uint16_t
vlan_of(const struct net_port *p, const struct gid *own)
{
	const struct net_addr *a = net_addr_find(p, own);

	return a != NULL ? a->vlan : 0;
}

void
net_neigh_remember(struct net_port *p, const struct gid *sgid, const struct gid *dgid, const uint8_t mac[6])
{
	struct hops *t = &p->priv->neigh->hops;
	uint16_t vlan = vlan_of(p, sgid);
	struct gid hop = *dgid;

	if (gid_is_multicast(dgid) || !gid_is_host(dgid) || !mac_is_unicast(mac) || net_port_owns(p, dgid))
		return;
	/* On a shared port that would be a question to the kernel for each path. */
	if (!gid_is_link_local(dgid) && net_addr_on_link(p, vlan, dgid) < 0 && (p->shared || !net_router_for(p, vlan, dgid, &hop)))
		return;
	hops_use(t, &hop, vlan, dgid);
	hops_mac(t, &hop, vlan, mac);
}

uint64_t
net_neigh_changes(const struct net_port *p, unsigned int *pending)
{
	const struct hops *t = &p->priv->neigh->hops;

	if (pending != NULL)
		*pending = t->nb_changed;
	return t->changes;
}

bool
net_neigh_follow(const struct net_port *p, const struct gid *sgid, const struct gid *dgid, uint8_t mac[6])
{
	const struct hops *t = &p->priv->neigh->hops;
	uint16_t vlan = vlan_of(p, sgid);
	const struct hop *h = find(t, dgid, vlan);

	if (h == NULL && !gid_is_link_local(dgid) && net_addr_on_link(p, vlan, dgid) < 0) {
		/* By which router a path leads can be told from the MAC address alone. */
		TAILQ_FOREACH(h, &t->changed, change_next)
		if (!h->router || (h->vlan == vlan && memcmp(h->before, mac, sizeof(h->before)) == 0))
			break;
		if (h != NULL && !h->router)
			h = NULL;
	}
	if (h == NULL || !h->changed || memcmp(h->mac, mac, sizeof(h->mac)) == 0)
		return false;
	memcpy(mac, h->mac, sizeof(h->mac));
	return true;
}

bool
net_neigh_followed(struct net_port *p, struct gid *gid, uint8_t mac[6])
{
	struct hops *t = &p->priv->neigh->hops;
	struct hop *h = TAILQ_FIRST(&t->changed);

	if (h == NULL)
		return false;
	*gid = h->gid;
	memcpy(mac, h->mac, sizeof(h->mac));
	unmark(t, h);
	return true;
}
