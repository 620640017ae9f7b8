/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The neighbour table: entries, resolutions waiting for them, timers. neigh_own.c and neigh_kernel.c send the requests.
 * Only our own requests create entries, answers just update them: nothing from the wire can make the table grow.
 */
#include <errno.h>
#include <stdlib.h>

#include <rte_tailq.h>

#include "net/net_priv.h"

static const char *const state_names[NEIGH_STATES] = {
	[NEIGH_INCOMPLETE] = "INCOMPLETE",
	[NEIGH_REACHABLE] = "REACHABLE",
	[NEIGH_PROBE] = "PROBE",
};

const char *
neigh_state_name(enum neigh_state s)
{
	return s < NEIGH_STATES ? state_names[s] : "?";
}

struct neigh_table *
neigh_table_create(const struct neigh_ops *ops)
{
	struct neigh_table *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->ops = ops;
	hops_init(&t->hops);
	TAILQ_INIT(&t->active);
	TAILQ_INIT(&t->idle);
	TAILQ_INIT(&t->completed);
	for (unsigned int i = 0; i < NEIGH_BUCKETS; i++)
		TAILQ_INIT(&t->bucket[i]);
	return t;
}

uint32_t
neigh_hash(const struct gid *gid)
{
	uint32_t h = wire_get32(gid->raw + 12) ^ wire_get32(gid->raw + 8) ^ wire_get32(gid->raw);

	return h * UINT32_C(2654435761);
}

static struct neigh_list *
bucket_of(struct neigh_table *t, const struct gid *hop)
{
	return &t->bucket[neigh_hash(hop) % NEIGH_BUCKETS];
}

struct neigh *
neigh_find(struct neigh_table *t, const struct gid *hop, uint16_t vlan)
{
	struct neigh *n;

	TAILQ_FOREACH(n, bucket_of(t, hop), hash_next)
	if (gid_equal(&n->hop, hop) && n->vlan == vlan)
		return n;
	return NULL;
}

static unsigned int
list_neighs(const struct neigh_list *list, struct net_neigh *out, unsigned int n, unsigned int max)
{
	const struct neigh_waiter *w;
	const struct neigh *e;

	TAILQ_FOREACH(e, list, list_next)
	{
		if (n < max) {
			out[n] = (struct net_neigh){ .hop = e->hop, .vlan = e->vlan, .state = neigh_state_name(e->state),
						     .confirmed_ns = e->confirmed_ns };
			memcpy(out[n].mac, e->mac, sizeof(out[n].mac));
			TAILQ_FOREACH(w, &e->waiters, next)
			out[n].waiters++;
		}
		n++;
	}
	return n;
}

unsigned int
net_neigh_list(const struct net_port *p, struct net_neigh *out, unsigned int max)
{
	const struct neigh_table *t = p->priv->neigh;

	return list_neighs(&t->idle, out, list_neighs(&t->active, out, 0, max), max);
}

static struct neigh_list *
list_of(struct neigh_table *t, const struct neigh *n)
{
	return n->state == NEIGH_REACHABLE ? &t->idle : &t->active;
}

static void
neigh_set_state(struct neigh_table *t, struct neigh *n, enum neigh_state state)
{
	TAILQ_REMOVE(list_of(t, n), n, list_next);
	n->state = state;
	TAILQ_INSERT_TAIL(list_of(t, n), n, list_next);
}

static void
neigh_free(struct neigh_table *t, struct neigh *n)
{
	TAILQ_REMOVE(bucket_of(t, &n->hop), n, hash_next);
	TAILQ_REMOVE(list_of(t, n), n, list_next);
	t->nb_neighs--;
	free(n);
}

/** Create an entry; in a full table it replaces the one with the oldest answer. */
static struct neigh *
neigh_create(struct neigh_table *t, const struct gid *hop, const struct net_addr *from, const struct gid *dgid,
	     uint64_t now_ns)
{
	struct neigh *n;

	if (t->nb_neighs == NET_NEIGH_MAX) {
		n = TAILQ_FIRST(&t->idle);
		if (n == NULL)
			return NULL;
		neigh_free(t, n);
	}
	n = calloc(1, sizeof(*n));
	if (n == NULL)
		return NULL;
	n->hop = *hop;
	n->sgid = from->gid;
	n->vlan = from->vlan;
	n->dgid = *dgid;
	n->state = NEIGH_INCOMPLETE;
	n->began_ns = now_ns;
	TAILQ_INIT(&n->waiters);
	TAILQ_INSERT_TAIL(bucket_of(t, hop), n, hash_next);
	TAILQ_INSERT_TAIL(&t->active, n, list_next);
	t->nb_neighs++;
	return n;
}

/** Move all resolutions that wait for @p n to the completed list. */
static void
complete_waiters(struct neigh_table *t, struct neigh *n, int status)
{
	struct neigh_waiter *w;

	while ((w = TAILQ_FIRST(&n->waiters)) != NULL) {
		TAILQ_REMOVE(&n->waiters, w, next);
		w->status = status;
		memcpy(w->mac, n->mac, sizeof(w->mac));
		TAILQ_INSERT_TAIL(&t->completed, w, next);
	}
}

/**
 * Call the callbacks of the completed list. A callback may start and cancel resolutions, so no pointer is kept across
 * the call.
 */
static void
call_completed(struct neigh_table *t)
{
	struct neigh_waiter *w;

	while ((w = TAILQ_FIRST(&t->completed)) != NULL) {
		TAILQ_REMOVE(&t->completed, w, next);
		t->nb_waiters--;
		w->done(w->arg, w->status, w->mac);
		free(w);
	}
}

/** The resolution has ended with @p status: cache the answer or remove the entry. */
static void
neigh_end(struct neigh_table *t, struct neigh *n, int status, uint64_t now_ns)
{
	complete_waiters(t, n, status);
	if (status == 0)
		hops_mac(&t->hops, &n->hop, n->vlan, n->mac);
	if (status == 0 && t->ops->cache) {
		n->confirmed_ns = now_ns;
		neigh_set_state(t, n, NEIGH_REACHABLE);
	} else {
		neigh_free(t, n);
	}
}

void
neigh_table_destroy(struct neigh_table *t)
{
	struct neigh *n;

	if (t == NULL)
		return;
	while ((n = TAILQ_FIRST(&t->active)) != NULL) {
		complete_waiters(t, n, ECANCELED);
		neigh_free(t, n);
	}
	while ((n = TAILQ_FIRST(&t->idle)) != NULL)
		neigh_free(t, n);
	call_completed(t);
	hops_fini(&t->hops);
	free(t);
}

static int
waiter_add(struct neigh_table *t, struct neigh *n, net_resolved_fn done, void *arg)
{
	struct neigh_waiter *w;

	if (t->nb_waiters == NET_NEIGH_PENDING_MAX)
		return ENOBUFS;
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		return ENOBUFS;
	w->done = done;
	w->arg = arg;
	TAILQ_INSERT_TAIL(&n->waiters, w, next);
	t->nb_waiters++;
	return 0;
}

/** Use a cached answer at once, and confirm it if it is old. */
static void
neigh_use_cached(struct net_port *p, struct neigh *n, uint64_t now_ns, uint8_t mac[6])
{
	struct neigh_table *t = p->priv->neigh;

	memcpy(mac, n->mac, sizeof(n->mac));
	if (n->state != NEIGH_REACHABLE || now_ns - n->confirmed_ns < NEIGH_REACHABLE_NS)
		return;
	neigh_set_state(t, n, NEIGH_PROBE);
	n->tries = 0;
	n->began_ns = now_ns;
	t->ops->step(p, n, now_ns);
}

static int
neigh_ask(struct net_port *p, const struct gid *hop, const struct net_addr *from, const struct gid *dgid, uint64_t now_ns,
	  uint8_t mac[6], net_resolved_fn done, void *arg)
{
	struct neigh_table *t = p->priv->neigh;
	struct neigh *n = neigh_find(t, hop, from->vlan);
	int rc;

	hops_use(&t->hops, hop, from->vlan, dgid);
	if (n != NULL && n->state != NEIGH_INCOMPLETE) {
		neigh_use_cached(p, n, now_ns, mac);
		return 0;
	}
	if (n == NULL) {
		if (t->nb_waiters == NET_NEIGH_PENDING_MAX)
			return ENOBUFS;
		n = neigh_create(t, hop, from, dgid, now_ns);
		if (n == NULL)
			return ENOBUFS;
		rc = t->ops->step(p, n, now_ns);
		if (rc == 0)
			memcpy(mac, n->mac, sizeof(n->mac));
		if (rc != EINPROGRESS) {
			neigh_end(t, n, rc, now_ns);
			return rc;
		}
	}
	rc = waiter_add(t, n, done, arg);
	return rc != 0 ? rc : EINPROGRESS;
}

int
net_resolve(struct net_port *p, unsigned int sgid_index, const struct gid *dgid, uint64_t now_ns, uint8_t mac[6],
	    net_resolved_fn done, void *arg)
{
	const struct net_addr *from = net_addr(p, sgid_index);
	struct gid hop;
	int rc;

	if (from == NULL || gid_is_v4(&from->gid) != gid_is_v4(dgid))
		return EINVAL;
	if (net_multicast_mac(dgid, mac))
		return 0;
	if (net_port_owns(p, dgid)) {
		memcpy(mac, p->mac, sizeof(p->mac));
		return 0;
	}
	if (!gid_is_host(dgid))
		return EINVAL;
	rc = p->priv->neigh->ops->next_hop(p, from, dgid, &hop);
	if (rc != 0)
		return rc;
	return neigh_ask(p, &hop, from, dgid, now_ns, mac, done, arg);
}

static void
cancel_in(struct neigh_table *t, struct neigh_waiters *q, const void *arg)
{
	struct neigh_waiter *w, *tmp;

	RTE_TAILQ_FOREACH_SAFE(w, q, next, tmp)
	{
		if (w->arg != arg)
			continue;
		TAILQ_REMOVE(q, w, next);
		t->nb_waiters--;
		free(w);
	}
}

void
net_resolve_cancel(struct net_port *p, void *arg)
{
	struct neigh_table *t = p->priv->neigh;
	struct neigh *n;

	cancel_in(t, &t->completed, arg);
	TAILQ_FOREACH(n, &t->active, list_next)
	cancel_in(t, &n->waiters, arg);
}

void
net_learn(struct net_port *p, const struct net_learned *l, uint64_t now_ns)
{
	struct neigh_table *t = p->priv->neigh;
	struct neigh *n;

	if (l->kind == NET_LEARNED_QUERY) {
		groups_query(p, l, now_ns);
		return;
	}
	if (p->shared || !mac_is_unicast(l->mac))
		return;
	n = neigh_find(t, &l->gid, l->vlan);
	if (l->weak && n != NULL && n->state != NEIGH_INCOMPLETE && memcmp(n->mac, l->mac, sizeof(n->mac)) != 0)
		return;
	if (!l->weak)
		hops_mac(&t->hops, &l->gid, l->vlan, l->mac);
	if (n == NULL)
		return;
	memcpy(n->mac, l->mac, sizeof(n->mac));
	neigh_end(t, n, 0, now_ns);
	call_completed(t);
}

uint64_t
net_port_poll(struct net_port *p, uint64_t now_ns)
{
	struct neigh_table *t = p->priv->neigh;
	struct neigh *n, *tmp;
	uint64_t next = groups_poll(p, now_ns);
	int rc;

	RTE_TAILQ_FOREACH_SAFE(n, &t->active, list_next, tmp)
	{
		if (n->next_ns <= now_ns) {
			rc = t->ops->step(p, n, now_ns);
			if (rc != EINPROGRESS)
				neigh_end(t, n, rc, now_ns);
		}
	}
	call_completed(t);
	TAILQ_FOREACH(n, &t->active, list_next)
	if (n->next_ns < next)
		next = n->next_ns;
	return RTE_MIN(next, neigh_kernel_look(p, now_ns));
}

void
net_port_set_sender(struct net_port *p, net_send_fn send, void *arg, struct rte_mempool *pool)
{
	p->priv->send = send;
	p->priv->send_arg = arg;
	p->priv->send_pool = pool;
}
