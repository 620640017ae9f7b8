/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory model: what -fsanitize=thread calls in place of atomic operations, and before plain accesses.
 *
 * Of each word with atomic operations all stores of the execution are kept, in order. A thread may read any of them that isn't older than
 * what it knows; what it knows grows by reading, by acquiring from a store what its thread knew, and at fences that are sequentially
 * consistent. This is the view machine of "A promising semantics for relaxed-memory concurrency" (Kang et al., POPL 2017) without promises
 * and with new stores always the newest. So of what C11 and Arm allow it lacks only loads that see stores which another thread
 * executes later because of them.
 */
#include <stdio.h>
#include <string.h>

#include "explore_priv.h"

enum { IGNORED = 4 };

struct message {
	uint64_t value;
	struct view view; /* what an acquiring reader gets to know */
};

struct location {
	uintptr_t addr;
	uint8_t size;
	bool ignored; /* explore_ignore() */
	bool changed_plainly; /* since the last atomic operation */
	uint16_t n;
	struct message msgs[EXPLORE_MESSAGES];
};

struct thread_view {
	struct view now;
	struct view acquired; /* by relaxed loads: an acquire fence makes it known */
	struct view released; /* what was known at the last release fence: relaxed stores carry it */
	uint16_t read[EXPLORE_LOCATIONS]; /* since the thread last yielded: 1 + the newest store read; 0: not read */
	bool stale; /* since then it has read a store that wasn't the newest, or others' stores in between */
};

enum explore_model explore_model = MODEL_C11;
static struct location locations[EXPLORE_LOCATIONS];
static uint16_t nb_locations;
static uintptr_t ignored[IGNORED];
static unsigned int nb_ignored;
static struct thread_view views[EXPLORE_THREADS];
static struct view sc; /* what sequentially consistent operations have made known to each other */

void
memory_reset(void)
{
	nb_locations = nb_ignored = 0;
	memset(views, 0, sizeof(views));
	memset(&sc, 0, sizeof(sc));
	for (unsigned int i = 0; i < EXPLORE_THREADS; i++)
		views[i].now.clock[i] = 1;
}

struct view *
memory_view(unsigned int thread)
{
	return &views[thread].now;
}

void
explore_ignore(const volatile void *p)
{
	if (nb_ignored == IGNORED)
		explore_fail("more than %d words are ignored: IGNORED", IGNORED);
	ignored[nb_ignored++] = (uintptr_t)p;
}

static void
join_seen(struct view *a, const struct view *b)
{
	for (uint16_t i = 0; i < nb_locations; i++)
		a->seen[i] = a->seen[i] > b->seen[i] ? a->seen[i] : b->seen[i];
}

static void
join(struct view *a, const struct view *b)
{
	join_seen(a, b);
	for (unsigned int i = 0; i < EXPLORE_THREADS; i++)
		a->clock[i] = a->clock[i] > b->clock[i] ? a->clock[i] : b->clock[i];
}

uint64_t
memory_hash(void)
{
	uint64_t h = 0;

	for (uint16_t i = 0; i < nb_locations; i++)
		h += (locations[i].addr * UINT64_C(0x9e3779b97f4a7c15) ^ sc.seen[i]) * UINT64_C(0xff51afd7ed558ccd);
	return h;
}

bool
memory_may_go_on(unsigned int t)
{
	if (views[t].stale)
		return true;
	for (uint16_t i = 0; i < nb_locations; i++)
		if (views[t].read[i] != 0 && locations[i].n > views[t].read[i] && !locations[i].ignored)
			return true;
	return false;
}

void
explore_yield(void)
{
	struct thread_view *v;

	if (!explore_running())
		return;
	explore_trace("waits");
	v = &views[explore_thread()];
	explore_block();
	/* What is stored becomes visible some time: a loop that waits for it reads the newest in its next round. */
	for (uint16_t i = 0; i < nb_locations; i++) {
		if (v->read[i] != 0 && v->now.seen[i] < locations[i].n - 1)
			v->now.seen[i] = (uint16_t)(locations[i].n - 1);
		if (v->read[i] != 0)
			explore_note(locations[i].addr, v->now.seen[i], 0);
		v->read[i] = 0;
	}
	v->stale = false;
}

static uint64_t
real_read(uintptr_t addr, uint8_t size)
{
	uint64_t v = 0;

	memcpy(&v, (const void *)addr, size);
	return v;
}

static void
real_write(uintptr_t addr, uint8_t size, uint64_t v)
{
	memcpy((void *)addr, &v, size);
}

static struct message *
append(struct location *l, uint64_t value)
{
	struct message *m = &l->msgs[l->n];

	if (l->n == EXPLORE_MESSAGES)
		explore_fail("more than %d stores to a word: EXPLORE_MESSAGES", EXPLORE_MESSAGES);
	memset(m, 0, sizeof(*m));
	m->value = value;
	l->n++;
	return m;
}

/* What a plain store has written. Nobody may access it without being ordered behind it (shadow.c), so nobody reads anything older. */
static void
append_plain(struct location *l)
{
	append(l, real_read(l->addr, l->size));
	for (unsigned int t = 0; t < EXPLORE_THREADS; t++)
		views[t].now.seen[l - locations] = (uint16_t)(l->n - 1);
	l->changed_plainly = false;
}

static struct location *
find(uintptr_t addr, uint8_t size)
{
	struct location *l;

	for (uint16_t i = 0; i < nb_locations; i++) {
		l = &locations[i];
		if (l->addr == addr && l->size == size) {
			if (l->changed_plainly)
				append_plain(l);
			return l;
		}
		if (l->addr < addr + size && addr < l->addr + l->size)
			explore_fail("atomic operations of %u and %u bytes at the same address", l->size, size);
	}
	if (nb_locations == EXPLORE_LOCATIONS)
		explore_fail("more than %d words: EXPLORE_LOCATIONS", EXPLORE_LOCATIONS);
	l = &locations[nb_locations++];
	l->addr = addr;
	l->size = size;
	l->n = 0;
	l->ignored = l->changed_plainly = false;
	for (unsigned int i = 0; i < nb_ignored; i++)
		l->ignored |= ignored[i] == addr;
	append(l, real_read(addr, size));
	return l;
}

void
memory_plain_write(uintptr_t addr, size_t n)
{
	for (uint16_t i = 0; i < nb_locations; i++)
		if (locations[i].addr < addr + n && addr < locations[i].addr + locations[i].size)
			locations[i].changed_plainly = true;
}

static bool
acquires(int mo)
{
	return mo == __ATOMIC_ACQUIRE || mo == __ATOMIC_CONSUME || mo == __ATOMIC_ACQ_REL || mo == __ATOMIC_SEQ_CST;
}

static bool
releases(int mo)
{
	return mo == __ATOMIC_RELEASE || mo == __ATOMIC_ACQ_REL || mo == __ATOMIC_SEQ_CST;
}

static void
fence(int mo)
{
	struct thread_view *v = &views[explore_thread()];

	if (explore_model != MODEL_C11 && mo != __ATOMIC_SEQ_CST)
		return; /* x86 needs no instruction for it */
	if (acquires(mo))
		join(&v->now, &v->acquired);
	if (mo == __ATOMIC_SEQ_CST) {
		join_seen(&v->now, &sc);
		join_seen(&sc, &v->now);
	}
	if (releases(mo)) {
		v->released = v->now;
		v->now.clock[explore_thread()]++;
	}
}

/** @return the memory order that the model makes of one, for a load or a store. */
static int
as_modelled(int mo, bool store)
{
	if (explore_model == MODEL_C11 || mo == __ATOMIC_SEQ_CST)
		return mo;
	return store ? __ATOMIC_RELEASE : __ATOMIC_ACQUIRE;
}

/** Get to know store @p at. */
static void
see(struct thread_view *v, struct location *l, uint16_t at, int mo)
{
	uint16_t i = (uint16_t)(l - locations);

	v->now.seen[i] = v->now.seen[i] > at ? v->now.seen[i] : at;
	v->stale |= !l->ignored && (at + 1 < l->n || (v->read[i] != 0 && v->read[i] < at + 1));
	if (v->read[i] < at + 1)
		v->read[i] = (uint16_t)(at + 1);
	join(acquires(mo) ? &v->now : &v->acquired, &l->msgs[at].view);
	if (mo == __ATOMIC_SEQ_CST && sc.seen[i] < at)
		sc.seen[i] = at;
}

static void
put(struct thread_view *v, struct location *l, uint64_t value, int mo, const struct message *continues)
{
	uint16_t i = (uint16_t)(l - locations), at = l->n;
	struct message *m = append(l, value);

	v->now.seen[i] = at;
	/* A thread's own store is nothing that it waits for. */
	if (v->read[i] == at)
		v->read[i] = (uint16_t)(at + 1);
	m->view = releases(mo) ? v->now : v->released;
	m->view.seen[i] = at;
	if (continues != NULL)
		join(&m->view, &continues->view);
	v->now.clock[explore_thread()]++;
	if (mo == __ATOMIC_SEQ_CST)
		sc.seen[i] = at;
	real_write(l->addr, l->size, value);
}

/** How a read-modify-write or store gets its value. */
enum rmw { LOAD, STORE, EXCHANGE, ADD, SUB, AND, OR, XOR, CAS };

static const char *const rmw_names[] = { "reads", "stores", "exchanges", "adds", "subtracts", "ands", "ors", "xors", "compares and stores" };

static uint64_t
result(enum rmw op, uint64_t old, uint64_t arg)
{
	switch (op) {
	case ADD:
		return old + arg;
	case SUB:
		return old - arg;
	case AND:
		return old & arg;
	case OR:
		return old | arg;
	case XOR:
		return old ^ arg;
	default:
		return arg;
	}
}

static uint64_t
masked(uint64_t v, uint8_t size)
{
	return size == 8 ? v : v & ((UINT64_C(1) << size * 8) - 1);
}

/** @return which store was read. */
static uint16_t
load(struct thread_view *v, struct location *l, int mo)
{
	uint16_t i = (uint16_t)(l - locations), oldest = v->now.seen[i], at;

	if (explore_model == MODEL_SC)
		oldest = (uint16_t)(l->n - 1);
	if (mo == __ATOMIC_SEQ_CST && sc.seen[i] > oldest)
		oldest = sc.seen[i];
	at = (uint16_t)(l->n - 1 - explore_choose_store((unsigned int)(l->n - oldest)));
	see(v, l, at, mo);
	return at;
}

/**
 * Execute an operation of a running thread.
 * @param expected  CAS: the value to find.
 * @return the value before.
 */
static uint64_t
operate(enum rmw op, uintptr_t addr, uint8_t size, uint64_t arg, int mo, uint64_t expected)
{
	struct thread_view *v;
	enum explore_change change;
	struct location *l;
	uint64_t old, value;
	uint16_t at;

	explore_point();
	v = &views[explore_thread()];
	change = explore_mutated(&value);
	if (change == EXPLORE_VALUE) {
		explore_note(addr, 0, value);
		return value;
	}
	if (change == EXPLORE_RELAX)
		mo = __ATOMIC_RELAXED;
	else
		mo = as_modelled(mo, op == STORE);
	if (change == EXPLORE_DROP)
		op = LOAD;
	shadow_access(addr, size, op == LOAD ? ATOMIC_READ : ATOMIC_WRITE);
	l = find(addr, size);
	if (op == LOAD) {
		at = load(v, l, mo);
		old = l->msgs[at].value;
		explore_trace("%s 0x%llx (store %u of %u)", rmw_names[op], (unsigned long long)old, at, l->n - 1u);
		explore_note(addr, op | (uint64_t)at << 8, old);
		return old;
	}
	if (explore_model != MODEL_C11 && op != STORE)
		fence(__ATOMIC_SEQ_CST);
	at = (uint16_t)(l->n - 1);
	old = l->msgs[at].value;
	if (op == CAS && old != expected) {
		see(v, l, at, acquires(mo) ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED);
		explore_trace("%s 0x%llx, found 0x%llx", rmw_names[op], (unsigned long long)arg, (unsigned long long)old);
		explore_note(addr, op | (uint64_t)at << 8, old);
		return old;
	}
	if (op != STORE)
		see(v, l, at, mo);
	put(v, l, masked(result(op, old, arg), size), mo, op == STORE ? NULL : &l->msgs[at]);
	if (explore_model != MODEL_C11 && (op != STORE || mo == __ATOMIC_SEQ_CST))
		fence(__ATOMIC_SEQ_CST);
	explore_trace("%s 0x%llx (store %u; before it 0x%llx)", rmw_names[op], (unsigned long long)arg, l->n - 1u, (unsigned long long)old);
	explore_note(addr, op | (uint64_t)l->n << 8, op == STORE ? arg : old);
	return old;
}

/* ---- What the compiler calls ---- */
/* Outside of a case's threads there is one thread only. */
static uint64_t
alone(enum rmw op, uintptr_t addr, uint8_t size, uint64_t arg, uint64_t expected)
{
	uint64_t old = real_read(addr, size);

	if (op != LOAD && (op != CAS || old == expected))
		real_write(addr, size, result(op, old, arg));
	return old;
}

static uint64_t
execute(enum rmw op, const volatile void *p, uint8_t size, uint64_t arg, int mo, uint64_t expected)
{
	uintptr_t addr = (uintptr_t)p;

	return explore_running() ? operate(op, addr, size, arg, mo, expected) : alone(op, addr, size, arg, expected);
}

#define FETCH(bits, name, op)                                                                                            \
	uint##bits##_t __tsan_atomic##bits##_fetch_##name(volatile uint##bits##_t *p, uint##bits##_t v, int mo);         \
	uint##bits##_t __tsan_atomic##bits##_fetch_##name(volatile uint##bits##_t *p, uint##bits##_t v, int mo)          \
	{                                                                                                                \
		return (uint##bits##_t)execute(op, p, bits / 8, v, mo, 0);                                               \
	}
#define CAS_OF(bits, name)                                                                                               \
	bool __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *p, uint##bits##_t *e, uint##bits##_t v, int mo, int failed); \
	bool __tsan_atomic##bits##_compare_exchange_##name(volatile uint##bits##_t *p, uint##bits##_t *e, uint##bits##_t v, int mo, int failed)  \
	{                                                                                                                \
		uint##bits##_t want = *e;                                                                                \
                                                                                                                         \
		*e = (uint##bits##_t)execute(CAS, p, bits / 8, v, mo, want);                                             \
		return *e == want;                                                                                       \
	}
#define ATOMICS(bits)                                                                                                    \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int mo);                             \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int mo)                              \
	{                                                                                                                \
		return (uint##bits##_t)execute(LOAD, p, bits / 8, 0, mo, 0);                                             \
	}                                                                                                                \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int mo);                          \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int mo)                           \
	{                                                                                                                \
		execute(STORE, p, bits / 8, v, mo, 0);                                                                   \
	}                                                                                                                \
	uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *p, uint##bits##_t v, int mo);             \
	uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *p, uint##bits##_t v, int mo)              \
	{                                                                                                                \
		return (uint##bits##_t)execute(EXCHANGE, p, bits / 8, v, mo, 0);                                         \
	}                                                                                                                \
	FETCH(bits, add, ADD)                                                                                            \
	FETCH(bits, sub, SUB)                                                                                            \
	FETCH(bits, and, AND)                                                                                            \
	FETCH(bits, or, OR)                                                                                              \
	FETCH(bits, xor, XOR)                                                                                            \
	CAS_OF(bits, strong)                                                                                             \
	CAS_OF(bits, weak)

ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

void __tsan_atomic_thread_fence(int mo);
void
__tsan_atomic_thread_fence(int mo)
{
	enum explore_change change;
	uint64_t value;

	if (!explore_running())
		return;
	explore_point();
	change = explore_mutated(&value);
	/* Each point that has been passed makes another state. */
	if (change == EXPLORE_DROP || change == EXPLORE_RELAX) {
		explore_note(1, 0, 0);
		return;
	}
	fence(mo);
	explore_trace("%s fence", mo == __ATOMIC_SEQ_CST ? "full" : mo == __ATOMIC_ACQUIRE ? "acquire" : "release");
	explore_note(1, (uint64_t)mo, mo == __ATOMIC_SEQ_CST ? memory_hash() : 0);
}

void __tsan_atomic_signal_fence(int mo);
void
__tsan_atomic_signal_fence(int mo)
{
}

static void
plain(const volatile void *p, size_t n, bool write)
{
	if (!explore_running())
		return;
	shadow_access((uintptr_t)p, n, write ? PLAIN_WRITE : PLAIN_READ);
	if (write)
		memory_plain_write((uintptr_t)p, n);
}

#define PLAIN(name, n, write)            \
	void __tsan_##name(void *p);     \
	void __tsan_##name(void *p)      \
	{                                \
		plain(p, n, write);      \
	}
PLAIN(read1, 1, false)
PLAIN(read2, 2, false)
PLAIN(read4, 4, false)
PLAIN(read8, 8, false)
PLAIN(read16, 16, false)
PLAIN(write1, 1, true)
PLAIN(write2, 2, true)
PLAIN(write4, 4, true)
PLAIN(write8, 8, true)
PLAIN(write16, 16, true)
PLAIN(unaligned_read2, 2, false)
PLAIN(unaligned_read4, 4, false)
PLAIN(unaligned_read8, 8, false)
PLAIN(unaligned_read16, 16, false)
PLAIN(unaligned_write2, 2, true)
PLAIN(unaligned_write4, 4, true)
PLAIN(unaligned_write8, 8, true)
PLAIN(unaligned_write16, 16, true)

void __tsan_read_range(void *p, size_t n);
void
__tsan_read_range(void *p, size_t n)
{
	plain(p, n, false);
}

void __tsan_write_range(void *p, size_t n);
void
__tsan_write_range(void *p, size_t n)
{
	plain(p, n, true);
}

void __tsan_init(void);
void
__tsan_init(void)
{
}

void __tsan_func_entry(void *p);
void
__tsan_func_entry(void *p)
{
}

void __tsan_func_exit(void *p);
void
__tsan_func_exit(void *p)
{
}

/* ---- What sites.h leads here ---- */
/* As x86 and Arm copy: aligned words one by one, in no order that others could rely on. */
static void
copy_words(uint8_t *to, const uint8_t *from, size_t n)
{
	while (n > 0) {
		uint8_t size = 8;
		uint64_t v;

		while (size > n || (uintptr_t)to % size != 0)
			size /= 2;
		v = real_read((uintptr_t)from, size);
		explore_site("memcpy", "a word");
		operate(STORE, (uintptr_t)to, size, v, __ATOMIC_RELAXED, 0);
		to += size;
		from += size;
		n -= size;
	}
}

void explore_copy(void *to, const void *from, size_t n, bool freely_mixed);
void
explore_copy(void *to, const void *from, size_t n, bool freely_mixed)
{
	if (n == 0)
		return;
	if (explore_running() && freely_mixed) {
		copy_words(to, from, n);
		return;
	}
	plain(from, n, false);
	plain(to, n, true);
	memcpy(to, from, n);
}
