/* SPDX-License-Identifier: BSD-3-Clause */
/* The explorer itself: what its memory model must show, and must not show. */
static _Atomic uint32_t x, y;
static uint32_t data, r[EXPLORE_THREADS];

static void
setup(void)
{
	x = y = 0;
	data = 0;
	memset(r, 0, sizeof(r));
}

/* ---- Store buffering: each thread stores, then loads the other's word ---- */
static void
sb(_Atomic uint32_t *mine, _Atomic uint32_t *other, unsigned int me)
{
	atomic_store_explicit(mine, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	r[me] = atomic_load_explicit(other, memory_order_relaxed);
}

static void
sb0(void)
{
	sb(&x, &y, 0);
}

static void
sb1(void)
{
	sb(&y, &x, 1);
}

static void
sb_check(void)
{
	explore_check(r[0] == 1 || r[1] == 1);
}

static const struct explore_mutation sb_mutations[] = { { EXPLORE_DROP, "sb", "fence", 0 }, { 0 } };

/* ---- The same by sequentially consistent operations ---- */
static void
sc(_Atomic uint32_t *mine, _Atomic uint32_t *other, unsigned int me)
{
	atomic_store(mine, 1);
	r[me] = atomic_load(other);
}

static void
sc0(void)
{
	sc(&x, &y, 0);
}

static void
sc1(void)
{
	sc(&y, &x, 1);
}

static const struct explore_mutation sc_mutations[] = {
	{ EXPLORE_RELAX, "sc", "store mine", 0 }, { EXPLORE_RELAX, "sc", "load other", 0 }, { 0 }
};

/* ---- Message passing ---- */
static void
mp0(void)
{
	data = 42;
	atomic_store_explicit(&x, 1, memory_order_release);
}

static void
mp1(void)
{
	while (atomic_load_explicit(&x, memory_order_acquire) == 0)
		explore_yield();
	explore_check(data == 42);
}

static const struct explore_mutation mp_mutations[] = {
	{ EXPLORE_RELAX, "mp0", "store &x, memory_order_release", 0 },
	{ EXPLORE_RELAX, "mp1", "load &x, memory_order_acquire", 0 },
	{ EXPLORE_DROP, "mp0", "store &x, memory_order_release", 0 },
	{ 0 }
};

/* ---- The same by relaxed operations and fences, with atomic data ---- */
static void
mpf0(void)
{
	atomic_store_explicit(&y, 42, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&x, 1, memory_order_relaxed);
}

static void
mpf1(void)
{
	if (atomic_load_explicit(&x, memory_order_relaxed) == 0)
		return;
	atomic_thread_fence(memory_order_acquire);
	explore_check(atomic_load_explicit(&y, memory_order_relaxed) == 42);
}

static const struct explore_mutation mpf_mutations[] = {
	{ EXPLORE_DROP, "mpf0", "fence", 0 }, { EXPLORE_DROP, "mpf1", "fence", 0 }, { 0 }
};

/* ---- Two increments, one of them interrupted ---- */
static void
add(void)
{
	atomic_fetch_add_explicit(&x, 1, memory_order_relaxed);
}

static void
add_check(void)
{
	explore_check(x == 3);
}

static const struct explore_mutation add_mutations[] = { { EXPLORE_DROP, "add", "add &x, memory_order_relaxed", 0 }, { 0 } };

int
main(int argc, char **argv)
{
	static const struct explore_case cases[] = {
		{ .name = "store_buffering", .setup = setup, .threads = { sb0, sb1 }, .check = sb_check, .mutations = sb_mutations },
		{ .name = "sequential_consistency", .setup = setup, .threads = { sc0, sc1 }, .check = sb_check, .mutations = sc_mutations },
		{ .name = "message_passing", .setup = setup, .threads = { mp0, mp1 }, .mutations = mp_mutations },
		{ .name = "message_passing_by_fences", .setup = setup, .threads = { mpf0, mpf1 }, .mutations = mpf_mutations },
		{ .name = "additions", .setup = setup, .threads = { add, add, add }, .check = add_check, .mutations = add_mutations },
	};

	return explore_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
