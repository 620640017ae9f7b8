/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keys that engines look up while others change them: memory windows (lib/mem/mw.c), regions (mr.c) and the grace period between
 * unpublishing and freeing (lib/base/rcu.c).
 *
 * Who looks at a window finds one whole binding or none. A region is not released while an engine may use it, nor while a window is bound
 * to it, and no window is bound to one that is being released.
 */
#include <rte_rcu_qsbr.h>

#include "mem/mw.h"

enum { ENGINES = 2, PD = 3, QPN = 9, BYTES = 64, MR_BYTES = 4096 };

static _Alignas(64) uint8_t qsbr_mem[4096];
static struct rte_rcu_qsbr *qsbr = (struct rte_rcu_qsbr *)qsbr_mem;
static struct mr_table *table;
static struct mr *mr;
static struct mw *mw;
static uint8_t memory[MR_BYTES];

static struct mr *
create(uint64_t iova)
{
	struct mem_seg seg = { .va = iova, .length = sizeof(memory), .host = memory };
	struct mr_params p = { .pd = PD, .access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_MW_BIND,
			       .addr = iova, .length = sizeof(memory), .iova = iova, .segs = &seg, .nb_segs = 1 };
	struct mr *m;

	explore_check(mr_create(table, &p, &m) == 0);
	return m;
}

static void
setup(void)
{
	memset(qsbr_mem, 0, sizeof(qsbr_mem));
	rte_rcu_qsbr_init(qsbr, ENGINES);
	for (unsigned int i = 0; i < ENGINES; i++) {
		rte_rcu_qsbr_thread_register(qsbr, i);
		rte_rcu_qsbr_thread_online(qsbr, i);
	}
	table = mr_table_create(4, qsbr, NULL);
	mr = create(MR_BYTES);
	explore_check(mw_create(table, PD, MW_TYPE_1, &mw) == 0);
}

/* ---- The sequence lock ---- */
static void
binds(uint64_t n)
{
	struct mw_bind b = { .key = mw_key(mw), .lkey = mr->key, .access = UROCE_ACCESS_REMOTE_WRITE,
			     .addr = MR_BYTES + n * BYTES, .length = n * 8 };

	explore_check(mw_bind(table, &b, PD, QPN));
}

static void
setup_bound(void)
{
	setup();
	binds(1);
}

static void
binds_two(void)
{
	binds(2);
}

static void
binds_three(void)
{
	binds(3);
}

/* Binding n begins at n * BYTES and has n * 8 bytes. */
static void
looks(void)
{
	for (uint64_t n = 1; n <= 3; n++) {
		uint64_t inside = MR_BYTES + n * BYTES, last = n * 8, va = inside;

		mw_check(table, mw_key(mw), PD, QPN, UROCE_ACCESS_REMOTE_WRITE, &va, last);
		va = inside;
		explore_check(mw_check(table, mw_key(mw), PD, QPN, UROCE_ACCESS_REMOTE_WRITE, &va, last + 1) == NULL);
	}
}

static void
check_bound(void)
{
	uint64_t va = MR_BYTES + 2 * BYTES;
	bool two = mw_check(table, mw_key(mw), PD, QPN, UROCE_ACCESS_REMOTE_WRITE, &va, 16) != NULL;

	va = MR_BYTES + 3 * BYTES;
	explore_check(two != (mw_check(table, mw_key(mw), PD, QPN, UROCE_ACCESS_REMOTE_WRITE, &va, 24) != NULL));
	explore_check(mr->nb_windows == 1);
}

/* ---- Grace periods ---- */
static uint32_t key;

static void
turn(unsigned int engine)
{
	struct mr *m = mr_get(table, key);

	if (m != NULL)
		explore_check(m->pd == PD && m->length == MR_BYTES && m->segs[0].host == memory);
	rte_rcu_qsbr_quiescent(qsbr, engine);
}

static void
engine0(void)
{
	turn(0);
	turn(0);
	rte_rcu_qsbr_thread_offline(qsbr, 0);
}

static void
engine1(void)
{
	turn(1);
	rte_rcu_qsbr_thread_offline(qsbr, 1);
}

static void
setup_key(void)
{
	setup();
	key = mr->key;
}

static void
destroys(void)
{
	mr_destroy(table, mr);
}

static void
replaces(void)
{
	struct mem_seg seg = { .va = MR_BYTES, .length = sizeof(memory), .host = memory };
	struct mr_params p = { .pd = PD, .addr = MR_BYTES, .length = sizeof(memory), .iova = MR_BYTES, .segs = &seg, .nb_segs = 1,
			       .replaces = mr };
	struct mr *m;

	explore_check(mr_create(table, &p, &m) == 0);
}

/* ---- A window is bound while the region is released ---- */
static bool retired, bound;

static void
retires(void)
{
	retired = mr_retire(mr);
	if (retired)
		mr_destroy(table, mr);
}

static void
engine_binds(void)
{
	struct mw_bind b = { .key = mw_key(mw), .lkey = key, .access = UROCE_ACCESS_REMOTE_WRITE, .addr = MR_BYTES, .length = 8 };

	bound = mw_bind(table, &b, PD, QPN);
	rte_rcu_qsbr_quiescent(qsbr, 0);
	rte_rcu_qsbr_thread_offline(qsbr, 0);
}

static void
setup_retire(void)
{
	setup_key();
	retired = bound = false;
	rte_rcu_qsbr_thread_offline(qsbr, 1);
}

static void
check_retired(void)
{
	explore_check(retired != bound);
}

static const struct explore_mutation seq_mutations[] = {
	{ EXPLORE_DROP, "mw_look", "fence", 0 },
	{ EXPLORE_DROP, "mw_change", "fence", 0 },
	{ EXPLORE_RELAX, "mw_look", "load &mw->seq, memory_order_acquire", 0 },
	{ EXPLORE_RELAX, "mw_change", "store &mw->seq, memory_order_release", 0 },
	{ EXPLORE_DROP, "mw_change", "cas &mw->seq, memory_order_acquire", 0 },
	{ 0 }
};
static const struct explore_mutation rcu_mutations[] = {
	{ EXPLORE_DROP, "gen_table_publish", "store &t->slots[slot], memory_order_release", 0 }, { 0 }
};
static const struct explore_mutation replace_mutations[] = {
	{ EXPLORE_RELAX, "gen_table_publish", "store &t->slots[slot], memory_order_release", 0 },
	{ EXPLORE_RELAX, "gen_table_get", "load &t->slots[slot], memory_order_acquire", 0 },
	{ 0 }
};
static const struct explore_mutation retire_mutations[] = {
	{ EXPLORE_DROP, "mr_hold", "cas &mr->nb_windows, memory_order_acquire", 0 },
	{ EXPLORE_DROP, "mr_retire", "cas &mr->nb_windows, memory_order_acquire", 0 },
	{ 0 }
};

int
main(int argc, char **argv)
{
	static const struct explore_case cases[] = {
		{ .name = "binding_is_whole", .setup = setup_bound, .threads = { binds_two, looks }, .mutations = seq_mutations },
		{ .name = "two_binds", .setup = setup_bound, .threads = { binds_two, binds_three }, .check = check_bound },
		{ .name = "region_is_destroyed", .setup = setup_key, .threads = { engine0, engine1, destroys }, .mutations = rcu_mutations },
		{ .name = "region_is_replaced", .setup = setup_key, .threads = { engine0, engine1, replaces },
		  .mutations = replace_mutations },
		{ .name = "bound_while_released", .setup = setup_retire, .threads = { engine_binds, retires }, .check = check_retired,
		  .mutations = retire_mutations },
	};

	return explore_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
