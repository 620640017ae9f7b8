/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of AHs, shared by all engines. WQEs carry handles, and a client can write any value there. So a handle has
 * an index in its low bits and a generation above, and the AH's PD must be the QP's.
 */
#include "base/container_of.h"
#include "base/gen_table.h"
#include "transport/core/ah_priv.h"

enum { AH_INDEX_BITS = 16 };
static_assert(UROCE_MAX_AH <= 1 << AH_INDEX_BITS, "the index fits its bits");

struct ah_table {
	uint64_t created;       /* AHs so far */
	struct deferred_list destroyed;
	struct gen_table handles;
};

static void
ah_free(struct deferred *d)
{
	free(container_of(d, struct tp_ah, deferred));
}

struct ah_table *
ah_table_create(uint32_t max_ah, struct rte_rcu_qsbr *qsbr)
{
	struct ah_table *t;

	if (max_ah == 0 || max_ah > UROCE_MAX_AH) {
		errno = EINVAL;
		return NULL;
	}
	t = calloc(1, sizeof(*t) + gen_table_bytes(max_ah));
	if (t == NULL)
		return NULL;
	t->destroyed = (struct deferred_list){ .qsbr = qsbr, .free = ah_free };
	if (gen_table_init(&t->handles, max_ah, NULL) != 0) {
		ah_table_destroy(t);
		errno = ENOMEM;
		return NULL;
	}
	return t;
}

void
ah_table_destroy(struct ah_table *t)
{
	if (t == NULL)
		return;
	deferred_free_all(&t->destroyed);
	gen_table_fini(&t->handles);
	free(t);
}

uint32_t
ah_table_count(const struct ah_table *t)
{
	return gen_table_count(&t->handles);
}

const struct tp_ah *
ah_get(const struct ah_table *t, uint32_t handle, uint32_t pd)
{
	const struct tp_ah *ah;

	if (t == NULL)
		return NULL;
	ah = gen_table_get(&t->handles, handle & ((1 << AH_INDEX_BITS) - 1));
	return ah != NULL && ah->handle == handle && ah->pd == pd ? ah : NULL;
}

static void
publish(struct ah_table *t, struct tp_ah *ah, uint32_t handle, uint32_t pd, const struct tp_path *path)
{
	ah->handle = handle;
	atomic_store_explicit(&ah->serial, ++t->created, memory_order_relaxed);
	ah->pd = pd;
	ah->path = *path;
	wire_tmpl_build(&ah->tmpl, &path->addr);
	gen_table_publish(&t->handles, handle & ((1 << AH_INDEX_BITS) - 1), ah);
}

int
ah_create_as(struct ah_table *t, uint32_t pd, const struct tp_path *path, uint32_t handle)
{
	struct tp_ah *ah;

	if (handle >> AH_INDEX_BITS == 0)
		return EEXIST;
	ah = calloc(1, sizeof(*ah));
	if (ah == NULL)
		return ENOMEM;
	if (!gen_table_take_as(&t->handles, handle & ((1 << AH_INDEX_BITS) - 1), handle >> AH_INDEX_BITS)) {
		free(ah);
		return EEXIST;
	}
	publish(t, ah, handle, pd, path);
	return 0;
}

int
ah_create(struct ah_table *t, uint32_t pd, const struct tp_path *path, uint32_t *handle)
{
	struct tp_ah *ah;
	uint32_t slot, generation;

	deferred_reap(&t->destroyed);
	if (gen_table_full(&t->handles))
		return ENOMEM;
	ah = calloc(1, sizeof(*ah));
	if (ah == NULL)
		return ENOMEM;
	slot = gen_table_take(&t->handles);
	/* 0 is not a valid handle. */
	do
		generation = gen_table_next(&t->handles, slot) << AH_INDEX_BITS;
	while (generation == 0);
	*handle = generation | slot;
	publish(t, ah, *handle, pd, path);
	return 0;
}

bool
ah_address_gone(struct ah_table *t, uint32_t handle, const struct gid *gid, bool gone)
{
	struct tp_ah *ah = gen_table_get(&t->handles, handle & ((1 << AH_INDEX_BITS) - 1));
	struct gid own;

	if (ah == NULL || ah->handle != handle)
		return false;
	own = gid_from_ip(ah->path.addr.ip_version, ah->path.addr.sip);
	if (!gid_equal(&own, gid))
		return false;
	atomic_store_explicit(&ah->gone, gone, memory_order_relaxed);
	/* QPs that have made their template from it do so again. */
	atomic_store_explicit(&ah->serial, ++t->created, memory_order_release);
	return true;
}

bool
ah_path(const struct ah_table *t, uint32_t handle, struct tp_path *path)
{
	const struct tp_ah *ah = gen_table_get(&t->handles, handle & ((1 << AH_INDEX_BITS) - 1));

	if (ah == NULL || ah->handle != handle)
		return false;
	*path = ah->path;
	return true;
}

bool
ah_follow_mac(struct ah_table *t, uint32_t handle, tp_mac_fn fn, const void *arg)
{
	struct tp_ah *old = gen_table_get(&t->handles, handle & ((1 << AH_INDEX_BITS) - 1)), *ah;
	struct tp_path path;
	struct gid sgid, dgid;

	if (old == NULL || old->handle != handle || old->path.loopback || old->path.multicast)
		return false;
	path = old->path;
	sgid = gid_from_ip(path.addr.ip_version, path.addr.sip);
	dgid = gid_from_ip(path.addr.ip_version, path.addr.dip);
	if (!fn(arg, &sgid, &dgid, path.addr.dmac))
		return false;
	/* Engines may be reading it: another one takes its place. */
	deferred_reap(&t->destroyed);
	ah = calloc(1, sizeof(*ah));
	if (ah == NULL)
		return false;
	atomic_store_explicit(&ah->gone, atomic_load_explicit(&old->gone, memory_order_relaxed), memory_order_relaxed);
	publish(t, ah, handle, old->pd, &path);
	deferred_free(&t->destroyed, &old->deferred);
	return true;
}

int
ah_destroy(struct ah_table *t, uint32_t handle)
{
	uint32_t slot = handle & ((1 << AH_INDEX_BITS) - 1);
	struct tp_ah *ah = gen_table_get(&t->handles, slot);

	if (ah == NULL || ah->handle != handle)
		return EINVAL;
	gen_table_publish(&t->handles, slot, NULL);
	gen_table_give(&t->handles, slot);
	deferred_free(&t->destroyed, &ah->deferred);
	return 0;
}
