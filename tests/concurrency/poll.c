/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that a peer writes while the program looks at it (lib/mem/mem.h, copy.c): the last word of an RDMA WRITE comes last, each word is
 * whole, and atomics of the program and of engines on the same word don't lose each other's.
 */
#include "mem/mem.h"

enum { WORDS = 5 };

static _Alignas(64) _Atomic uint64_t target[WORDS];
static uint64_t source[WORDS];
static _Atomic uint64_t word;
static struct mem_seg segs[1];
static struct mr mr;

static void
setup(void)
{
	memset((void *)target, 0, sizeof(target));
	for (unsigned int i = 0; i < WORDS; i++)
		source[i] = i + 1;
	word = 0;
	segs[0] = (struct mem_seg){ .va = (uintptr_t)&word, .length = sizeof(word), .host = (uint8_t *)&word };
	mr = (struct mr){ .iova = (uintptr_t)target, .addr = (uintptr_t)target, .length = sizeof(target), .host = (uint8_t *)target };
}

static void
setup_atomics(void)
{
	setup();
	mr = (struct mr){ .iova = (uintptr_t)&word, .addr = (uintptr_t)&word, .length = sizeof(word), .segs = segs, .nb_segs = 1,
			  .host = (uint8_t *)&word };
}

/* ---- A WRITE ---- */
static void
writes(void)
{
	mr_write(&mr, (uintptr_t)target, source, sizeof(source));
}

static void
polls_last(void)
{
	while (atomic_load_explicit(&target[WORDS - 1], memory_order_acquire) != WORDS)
		explore_yield();
	for (unsigned int i = 0; i < WORDS; i++)
		explore_check(atomic_load_explicit(&target[i], memory_order_relaxed) == i + 1);
}

/* A word is either as before or as written. */
static void
reads_words(void)
{
	for (unsigned int i = 0; i < WORDS; i++) {
		uint64_t v = atomic_load_explicit(&target[i], memory_order_relaxed);

		explore_check(v == 0 || v == i + 1);
	}
}

static const struct explore_mutation write_mutations[] = {
	{ EXPLORE_RELAX, "mem_copy_tail_last", "store (_Atomic uint64_t *)d, memory_order_release", 0 }, { 0 }
};

/* ---- Atomics ---- */
static void
engine_adds(void)
{
	uint64_t old;

	explore_check(mr_atomic(&mr, (uintptr_t)&word, MR_FETCH_ADD, 1, 0, &old) == 0);
}

static void
engine_swaps(void)
{
	uint64_t old;

	for (uint64_t expected = 0;; expected = old) {
		explore_check(mr_atomic(&mr, (uintptr_t)&word, MR_CMP_SWAP, expected, expected + 1, &old) == 0);
		if (old == expected)
			return;
	}
}

static void
program_adds(void)
{
	atomic_fetch_add_explicit(&word, 1, memory_order_relaxed);
}

static void
check_sum(void)
{
	explore_check(word == 3);
}

static const struct explore_mutation atomic_mutations[] = {
	{ EXPLORE_DROP, "mem_atomic", "add p", 0 }, { EXPLORE_DROP, "mem_atomic", "cas p", 0 }, { 0 }
};

int
main(int argc, char **argv)
{
	static const struct explore_case cases[] = {
		{ .name = "last_word_comes_last", .setup = setup, .threads = { writes, polls_last }, .mutations = write_mutations,
		  .freely_mixed = true },
		{ .name = "words_are_whole", .setup = setup, .threads = { writes, reads_words }, .freely_mixed = true },
		{ .name = "atomics_of_both_sides", .setup = setup_atomics, .threads = { engine_adds, engine_swaps, program_adds },
		  .check = check_sum, .mutations = atomic_mutations },
	};

	return explore_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
