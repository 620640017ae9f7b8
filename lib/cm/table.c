/* SPDX-License-Identifier: BSD-3-Clause */
/* Communication IDs, the hash table of everything that is looked up, and the count of connections per peer. */
#include "base/mix.h"
#include "cm/cm_priv.h"

/* ---- Keys ---- */
struct cm_key
cm_key(enum cm_key_kind kind, const struct gid *gid, uint64_t num, uint32_t id)
{
	return (struct cm_key){ .gid = *gid, .num = num, .id = id, .kind = kind };
}

/* The hash is keyed, because senders choose most of a key and must not be able to fill one bucket. */
static uint64_t
key_hash(const struct cm_table *t, const struct cm_key *k)
{
	uint64_t h = t->secret[0], w[sizeof(*k) / sizeof(uint64_t)];

	memcpy(w, k, sizeof(w));
	for (unsigned int i = 0; i < sizeof(w) / sizeof(w[0]); i++)
		h = mix64(h ^ w[i]) + t->secret[1];
	return h;
}

struct cm_node *
table_find(const struct cm *cm, const struct cm_key *key)
{
	struct cm_node *n = cm->table.buckets[key_hash(&cm->table, key) & cm->table.mask];

	while (n != NULL && memcmp(&n->key, key, sizeof(*key)) != 0)
		n = n->next;
	return n;
}

void
table_add(struct cm *cm, struct cm_node *n, const struct cm_key *key)
{
	struct cm_node **head = &cm->table.buckets[key_hash(&cm->table, key) & cm->table.mask];

	table_del(n);
	n->key = *key;
	n->next = *head;
	if (n->next != NULL)
		n->next->pprev = &n->next;
	n->pprev = head;
	*head = n;
}

void
table_del(struct cm_node *n)
{
	if (n->pprev == NULL)
		return;
	*n->pprev = n->next;
	if (n->next != NULL)
		n->next->pprev = n->pprev;
	n->pprev = NULL;
}

/* ---- IDs: (generation, slot) xor a secret, so that they are hard to guess and not reused soon ---- */
int
table_init(struct cm *cm)
{
	uint64_t r = cm->cfg.seed, buckets = 1;
	uint32_t n = cm->cfg.max_conns;

	while (buckets < 2 * (uint64_t)n + cm->cfg.max_listeners)
		buckets <<= 1;
	cm->table.mask = buckets - 1;
	cm->table.buckets = calloc(buckets, sizeof(cm->table.buckets[0]));
	if (gen_table_init(&cm->ids, n, mix64(r += MIX_STEP)) != 0 || cm->table.buckets == NULL)
		return ENOMEM;
	cm->table.secret[0] = mix64(r += MIX_STEP);
	cm->table.secret[1] = mix64(r += MIX_STEP);
	cm->id_key = (uint32_t)mix64(r += MIX_STEP);
	cm->tid_hi = (uint32_t)mix64(r += MIX_STEP);
	return 0;
}

void
table_free(struct cm *cm)
{
	free(cm->table.buckets);
	gen_table_fini(&cm->ids);
}

bool
id_take(struct cm *cm, struct cm_conn *c)
{
	uint32_t slot;

	if (gen_table_full(&cm->ids))
		return false;
	slot = gen_table_take(&cm->ids);
	/* 0 means "not known" in messages. */
	do {
		uint64_t generation = gen_table_next(&cm->ids, slot);

		c->local_id = (uint32_t)(generation << cm->ids.slot_bits | slot) ^ cm->id_key;
	} while (c->local_id == 0);
	gen_table_publish(&cm->ids, slot, c);
	return true;
}

void
id_release(struct cm *cm, struct cm_conn *c)
{
	uint32_t slot = (c->local_id ^ cm->id_key) & cm->ids.slot_mask;

	gen_table_publish(&cm->ids, slot, NULL);
	gen_table_give(&cm->ids, slot);
}

struct cm_conn *
id_find(const struct cm *cm, uint32_t local_id)
{
	struct cm_conn *c = gen_table_get(&cm->ids, (local_id ^ cm->id_key) & cm->ids.slot_mask);

	return c != NULL && c->local_id == local_id ? c : NULL;
}

/* ---- Peers ---- */
int
peer_take(struct cm *cm, struct cm_conn *c)
{
	struct cm_key key = cm_key(CM_KEY_PEER, &c->av.remote_gid, 0, 0);
	struct cm_node *n = table_find(cm, &key);
	struct cm_peer *p;

	if (n != NULL) {
		p = container_of(n, struct cm_peer, node);
		if (p->conns >= cm->cfg.max_per_peer)
			return EDQUOT;
	} else {
		p = calloc(1, sizeof(*p));
		if (p == NULL)
			return ENOMEM;
		table_add(cm, &p->node, &key);
		cm->nb_peers++;
	}
	p->conns++;
	c->peer = p;
	return 0;
}

void
peer_release(struct cm_conn *c)
{
	struct cm_peer *p = c->peer;

	c->peer = NULL;
	if (p == NULL || --p->conns > 0)
		return;
	table_del(&p->node);
	free(p);
	c->cm->nb_peers--;
}
