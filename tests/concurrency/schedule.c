/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The explorer's scheduler: takes every list of choices in turn, depth first, within the bounds.
 *
 * Each execution begins anew and takes the recorded choices first. The state of an execution is what each thread has done and read so far (its
 * history); what remains to be done follows from it. Where an execution comes to a state in which an earlier one has been with at least as
 * many preemptions left it ends. So orders that differ only in operations that don't affect each other are explored once.
 */
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "explore_priv.h"

enum {
	STACK_BYTES = 256 << 10,
	CHOICES = 4096,
	STEPS = 20000,          /* operations of an execution: more and it doesn't end */
	STATES_BITS = 22,
	SITES = 256,
	PREEMPTIONS = 2,        /* default bounds */
	STALE = 2,
};

enum outcome { RUNNING, DONE, FAILED, PRUNED };

struct state {
	uint64_t key;
	uint32_t exploration;
	uint32_t preemptions;
};

struct site {
	const char *func, *what;
};

void explore_copy(void *to, const void *from, size_t n, bool freely_mixed);

static const struct explore_case *the_case;
static const struct explore_mutation *mutation;
static bool mutation_met;
static struct { unsigned int preemptions, stale; } limits, left;

static ucontext_t main_context, contexts[EXPLORE_THREADS];
static uint8_t stacks[EXPLORE_THREADS][STACK_BYTES] __attribute__((aligned(64)));
static unsigned int nb_threads, current;
static enum { READY, BLOCKED, ENDED } thread_states[EXPLORE_THREADS];
static uint64_t histories[EXPLORE_THREADS];
static struct site at_site[EXPLORE_THREADS];
static bool running, tracing;
static enum outcome outcome;
static char failure[512];
static unsigned int steps;

static uint16_t chosen[CHOICES], options[CHOICES];
static unsigned int nb_chosen, position;

static struct state *states;
static uint32_t exploration;
static uint64_t nb_states;

static struct site sites[SITES];
static unsigned int nb_sites;

static bool verbose;

bool
explore_running(void)
{
	return running;
}

unsigned int
explore_thread(void)
{
	return current;
}

void
explore_trace(const char *format, ...)
{
	va_list ap;

	if (!tracing)
		return;
	printf("  thread %u: ", current);
	if (at_site[current].what != NULL)
		printf("%s(): %s: ", at_site[current].func, at_site[current].what);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	printf("\n");
	at_site[current] = (struct site){ 0 };
}

/** Leave the execution for good. */
static void __attribute__((noreturn))
end(enum outcome how)
{
	outcome = how;
	running = false;
	setcontext(&main_context);
	abort();
}

void
explore_fail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(failure, sizeof(failure), format, ap);
	va_end(ap);
	if (the_case == NULL) {
		fprintf(stderr, "%s\n", failure);
		abort();
	}
	end(FAILED);
}

void
explore_site(const char *func, const char *what)
{
	at_site[current] = (struct site){ func, what };
}

static void
remember(const struct site *s)
{
	for (unsigned int i = 0; i < nb_sites; i++)
		if (strcmp(sites[i].func, s->func) == 0 && strcmp(sites[i].what, s->what) == 0)
			return;
	if (nb_sites < SITES)
		sites[nb_sites++] = *s;
}

enum explore_change
explore_mutated(uint64_t *value)
{
	struct site s = at_site[current];

	if (!tracing)
		at_site[current] = (struct site){ 0 };
	if (s.what == NULL)
		return EXPLORE_END;
	if (mutation == NULL) {
		if (verbose)
			remember(&s);
		return EXPLORE_END;
	}
	if (strcmp(s.what, mutation->what) != 0 || strcmp(s.func, mutation->func) != 0)
		return EXPLORE_END;
	mutation_met = true;
	*value = mutation->value;
	return mutation->change;
}

static uint64_t
mix(uint64_t h)
{
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

void
explore_note(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t *h = &histories[current];

	*h = mix(*h + mix(a + mix(b + mix(c + 1))));
}

/** @return true if an earlier execution has been in this state, with as much left of the bounds. */
static bool
known(void)
{
	uint64_t key = memory_hash() + mix(current * 64 + left.stale), i;

	for (unsigned int t = 0; t < nb_threads; t++)
		key += mix(histories[t] + t);
	i = mix(key) >> (64 - STATES_BITS);
	for (;; i = (i + 1) & ((1u << STATES_BITS) - 1)) {
		struct state *s = &states[i];

		if (s->exploration != exploration) {
			if (nb_states++ > (3u << STATES_BITS) / 4)
				return false;
			*s = (struct state){ key, exploration, left.preemptions };
			return false;
		}
		if (s->key != key)
			continue;
		if (s->preemptions >= left.preemptions)
			return true;
		s->preemptions = left.preemptions;
		return false;
	}
}

/** @return the choice of one of @p n for this execution. */
static unsigned int
choose(unsigned int n)
{
	if (n == 1)
		return 0;
	if (position == CHOICES)
		explore_fail("more than %d choices", CHOICES);
	if (position == nb_chosen) {
		chosen[nb_chosen] = 0;
		options[nb_chosen++] = (uint16_t)n;
	}
	return chosen[position++];
}

unsigned int
explore_choose_store(unsigned int n)
{
	unsigned int age;

	if (n == 1 || left.stale == 0)
		return 0;
	age = choose(n);
	left.stale -= age != 0;
	return age;
}

static bool
ready(unsigned int t)
{
	return thread_states[t] == READY || (thread_states[t] == BLOCKED && memory_may_go_on(t));
}

static void
switch_to(unsigned int t)
{
	unsigned int from = current;

	if (t == from)
		return;
	current = t;
	swapcontext(&contexts[from], &contexts[t]);
}

/** Choose one of the threads that can go on; @p self, if it can, is the first of them. @return it. */
static unsigned int
choose_thread(bool self)
{
	unsigned int list[EXPLORE_THREADS], n = 0;

	if (self)
		list[n++] = current;
	for (unsigned int t = 0; t < nb_threads; t++)
		if (t != current && ready(t) && (!self || left.preemptions > 0))
			list[n++] = t;
	if (n == 0)
		return EXPLORE_THREADS;
	if (n > 1 && position == nb_chosen && !tracing && known())
		end(PRUNED);
	return list[choose(n)];
}

void
explore_point(void)
{
	unsigned int t;

	if (++steps > STEPS)
		explore_fail("no end after %d operations", STEPS);
	t = choose_thread(true);
	if (t != current) {
		left.preemptions--;
		switch_to(t);
	}
}

static void
say_stuck(void)
{
	char text[64] = "";

	for (unsigned int t = 0; t < nb_threads; t++)
		if (thread_states[t] == BLOCKED)
			snprintf(text + strlen(text), sizeof(text) - strlen(text), " %u", t);
	explore_fail("these threads wait for ever:%s", text);
}

void
explore_block(void)
{
	unsigned int t;

	if (++steps > STEPS)
		explore_fail("no end after %d operations", STEPS);
	thread_states[current] = BLOCKED;
	if (!memory_may_go_on(current)) {
		t = choose_thread(false);
		if (t == EXPLORE_THREADS)
			say_stuck();
		switch_to(t);
	}
	thread_states[current] = READY;
}

static void
thread_main(void)
{
	unsigned int t, ended = 0;

	the_case->threads[current]();
	thread_states[current] = ENDED;
	explore_trace("ends");
	for (unsigned int i = 0; i < nb_threads; i++)
		ended += thread_states[i] == ENDED;
	if (ended == nb_threads)
		end(DONE);
	t = choose_thread(false);
	if (t == EXPLORE_THREADS)
		say_stuck();
	current = t;
	setcontext(&contexts[t]);
}

static void
prepare(void)
{
	position = steps = current = 0;
	left = limits;
	memory_reset();
	shadow_reset();
	memset(histories, 0, sizeof(histories));
	memset(at_site, 0, sizeof(at_site));
	the_case->setup();
	for (nb_threads = 0; nb_threads < EXPLORE_THREADS && the_case->threads[nb_threads] != NULL; nb_threads++) {
		ucontext_t *c = &contexts[nb_threads];

		thread_states[nb_threads] = READY;
		getcontext(c);
		c->uc_stack.ss_sp = stacks[nb_threads];
		c->uc_stack.ss_size = STACK_BYTES;
		c->uc_link = NULL;
		makecontext(c, thread_main, 0);
	}
}

/** Run one execution with the recorded choices and, after them, the first of each. */
static void
execute(void)
{
	volatile bool begun = false;

	prepare();
	outcome = RUNNING;
	getcontext(&main_context);
	if (!begun) {
		begun = true;
		/* Any thread may be the first; to begin with one isn't a preemption. */
		current = choose(nb_threads);
		running = true;
		setcontext(&contexts[current]);
	}
	if (outcome != DONE || the_case->check == NULL)
		return;
	current = 0;
	outcome = RUNNING;
	begun = false;
	getcontext(&main_context);
	if (!begun && outcome == RUNNING) {
		begun = true;
		the_case->check();
		outcome = DONE;
	}
}

/** @return false: all lists of choices were taken. */
static bool
next(void)
{
	while (nb_chosen > 0 && chosen[nb_chosen - 1] + 1 == options[nb_chosen - 1])
		nb_chosen--;
	if (nb_chosen == 0)
		return false;
	chosen[nb_chosen - 1]++;
	return true;
}

/** Explore the case with the current mutation. @return false: it failed. */
static bool
explore(uint64_t *executions)
{
	exploration++;
	nb_states = 0;
	nb_chosen = 0;
	*executions = 0;
	do {
		execute();
		++*executions;
		if (outcome == FAILED)
			return false;
	} while (next());
	return true;
}

static double
cpu_seconds(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

/** Print the failing execution once more, step by step. */
static void
show_failure(void)
{
	printf("FAILED: %s\n", failure);
	tracing = true;
	nb_chosen = position;
	execute();
	tracing = false;
	printf("  => %s\n", failure);
}

static bool
run_mutation(const struct explore_mutation *m)
{
	static const char *const names[] = { "", "without", "relaxed", "with a fixed value" };
	uint64_t executions;
	bool found;

	mutation = m;
	mutation_met = false;
	found = !explore(&executions);
	mutation = NULL;
	if (found && verbose) {
		mutation = m;
		printf("   %s %s(): %s: found: %s\n", names[m->change], m->func, m->what, failure);
		mutation = NULL;
	}
	if (!found)
		printf("FAILED: %s %s(): %s: %s\n", names[m->change], m->func, m->what,
		       mutation_met ? "not found" : "there is no such operation");
	return found;
}

/** @return the number of failures. */
static int
run_case(const struct explore_case *c, bool bounds_given)
{
	double begin = cpu_seconds();
	uint64_t executions;
	unsigned int n = 0;
	int failed = 0;

	the_case = c;
	if (!bounds_given) {
		limits.preemptions = c->preemptions != 0 ? c->preemptions : PREEMPTIONS;
		limits.stale = c->stale != 0 ? c->stale : STALE;
	}
	if (!explore(&executions)) {
		printf("%s: ", c->name);
		show_failure();
		the_case = NULL;
		return 1;
	}
	printf("%s: %llu executions, %.1f s", c->name, (unsigned long long)executions, cpu_seconds() - begin);
	fflush(stdout);
	if (verbose)
		printf("\n");
	begin = cpu_seconds();
	/* Weaker orders mean nothing to a stronger model. */
	for (const struct explore_mutation *m = c->mutations; m != NULL && m->change != EXPLORE_END; m++)
		if (explore_model == MODEL_C11 || (explore_model == MODEL_TSO && m->change != EXPLORE_RELAX))
			n++, failed += !run_mutation(m);
	printf("; %u mutations found, %.1f s\n", n - (unsigned int)failed, cpu_seconds() - begin);
	the_case = NULL;
	return failed;
}

/** Weaken each operation of a case in turn, and print what doesn't make it fail. */
static void
weaken(const struct explore_case *c)
{
	uint64_t executions;
	bool was = verbose;

	the_case = c;
	limits.preemptions = c->preemptions != 0 ? c->preemptions : PREEMPTIONS;
	limits.stale = c->stale != 0 ? c->stale : STALE;
	nb_sites = 0;
	verbose = true;
	explore(&executions);
	verbose = was;
	for (unsigned int i = 0; i < nb_sites; i++) {
		struct explore_mutation m = { EXPLORE_RELAX, sites[i].func, sites[i].what, 0 };

		if (strstr(m.what, "relaxed") != NULL)
			continue;
		mutation = &m;
		if (explore(&executions))
			printf("%s: not needed here: %s(): %s\n", c->name, m.func, m.what);
		mutation = NULL;
	}
	the_case = NULL;
}

static void
crashed(int sig)
{
	if (the_case == NULL || outcome != RUNNING)
		_exit(128 + sig);
	explore_fail("signal %d", sig);
}

static void
catch_crashes(void)
{
	static uint8_t stack[64 << 10];
	struct sigaction a = { .sa_handler = crashed, .sa_flags = SA_ONSTACK | SA_NODEFER };

	sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = sizeof(stack) }, NULL);
	sigaction(SIGSEGV, &a, NULL);
	sigaction(SIGBUS, &a, NULL);
	sigaction(SIGFPE, &a, NULL);
}

static int
usage(void)
{
	printf("Options:\n"
	       "  --case NAME       only this case\n"
	       "  --preemptions N   threads are interrupted at most N times in an execution\n"
	       "  --stale N         at most N loads of an execution return an older value\n"
	       "  --model NAME      c11 (default), tso: x86, or sc: no reordering\n"
	       "  --weaken          instead: print which orders and fences no case needs\n"
	       "  -v                print how each mutation was found\n");
	return 2;
}

static bool
set_model(const char *name)
{
	static const char *const names[] = { "c11", "tso", "sc" };

	for (unsigned int i = 0; i < 3; i++) {
		if (strcmp(name, names[i]) != 0)
			continue;
		explore_model = (enum explore_model)i;
		return true;
	}
	return false;
}

int
explore_main(int argc, char **argv, const struct explore_case *cases, unsigned int n)
{
	static const struct option longs[] = {
		{ "case", 1, NULL, 'c' }, { "preemptions", 1, NULL, 'p' }, { "stale", 1, NULL, 's' },
		{ "model", 1, NULL, 'm' }, { "weaken", 0, NULL, 'w' }, { NULL, 0, NULL, 0 },
	};
	bool bounds_given = false, weakens = false;
	const char *only = NULL;
	int o, failed = 0;

	limits.preemptions = PREEMPTIONS;
	limits.stale = STALE;
	while ((o = getopt_long(argc, argv, "v", longs, NULL)) != -1) {
		if (o == 'c')
			only = optarg;
		else if (o == 'p')
			limits.preemptions = (unsigned int)atoi(optarg), bounds_given = true;
		else if (o == 's')
			limits.stale = (unsigned int)atoi(optarg), bounds_given = true;
		else if (o == 'v')
			verbose = true;
		else if (o == 'w')
			weakens = true;
		else if (o != 'm' || !set_model(optarg))
			return usage();
	}
	states = calloc((size_t)1 << STATES_BITS, sizeof(*states));
	if (states == NULL)
		return 1;
	catch_crashes();
	for (unsigned int i = 0; i < n; i++) {
		if (only != NULL && strcmp(only, cases[i].name) != 0)
			continue;
		if (weakens)
			weaken(&cases[i]);
		else
			failed += run_case(&cases[i], bounds_given);
	}
	free(states);
	return failed != 0;
}

void *
explore_memcpy(void *to, const void *from, size_t n)
{
	explore_copy(to, from, n, the_case != NULL && the_case->freely_mixed);
	return to;
}
