/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts whose daemon is killed, in the midst of a turn: at any store that its journals, its programs or the network may see. What its programs have in memory and what is in
 * the journals is copied at that point. The turn goes on to its end, so that the transports can be taken down in order, but nobody hears of it, and its keys are gone; then programs get
 * back the memory that they had. The next daemon has the journals, and the memory that programs share with it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mark.h"
#include "restart.h"
#include "transport/core/journal_priv.h"
#include "transport/journal/slot_priv.h"

enum {
	TURNS = 60,              /* one turn in so many is the one in which, or after which, a host is killed */
	STEPS_ORDER = 9,         /* after at most 2^this steps */
};
#define DARK_NS_MAX (100 * SIM_NS_PER_MS)

static const struct journal_limits limits = { .qps = SIM_QP_TABLE_SIZE, .cqs = SIM_MAX_CQS, .srqs = RESTART_QUEUES };

static uint8_t *journals;

bool
crash_setup(void)
{
	journals = mmap(NULL, journal_bytes(&limits) * SIM_MAX_EPS * SIM_MAX_ENGINES * 2, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return journals != MAP_FAILED;
}

/* @return memory for a journal: of the daemon that runs, or of the one that was killed. */
static uint8_t *
memory(uint32_t ep, uint32_t engine, bool dead)
{
	return journals + journal_bytes(&limits) * ((ep * SIM_MAX_ENGINES + engine) * 2 + dead);
}

void
crash_config(const struct sim_world *w, const struct sim_ep *ep, uint32_t engine, struct transport_config *c)
{
	if (!(w->cfg.faults & SIM_F_CRASH))
		return;
	c->journal = memory(ep->id, engine, false);
	c->journal_limits = limits;
	madvise(c->journal, journal_bytes(&limits), MADV_DONTNEED);
}

/* ---- The kill ---- */
/* Keep what is in a journal. */
static void
copy_journal(uint8_t *to, const uint8_t *from)
{
	struct journal_layout y = journal_layout(&limits);
	const struct journal_head *h = (const void *)from;
	const struct journal_list *l = (const void *)(from + y.list);
	uint32_t items = (uint32_t)atomic_load(&l->nb_items), atomics = (uint32_t)l->nb_atomics;

	madvise(to, y.bytes, MADV_DONTNEED);
	memcpy(to, from, y.list + offsetof(struct journal_list, items) + items * sizeof(l->items[0]));
	memcpy(to + y.list + offsetof(struct journal_list, atomics), l->atomics, atomics * sizeof(l->atomics[0]));
	memcpy(to + y.srqs, from + y.srqs, y.slots - y.srqs + (uint32_t)atomic_load(&h->used) * JOURNAL_SLOT_BYTES);
}

static void
on_step(void *arg)
{
	struct sim_ep *ep = arg;
	struct sim_world *w = ep->w;

	if (ep->crash.turn == NULL || !ep->crash.armed || ep->crash.killed || ep->crash.steps-- != 0)
		return;
	ep->crash.killed = true;
	ep->crash.arena = malloc(w->arena_used);
	if (ep->crash.arena == NULL)
		abort();
	memcpy(ep->crash.arena, sim_arena, w->arena_used);
	journal_untag(atomic_load(&ep->crash.turn->tp->journal->head->turn), &ep->crash.counted);
	for (uint32_t i = 0; i < ep->nb_engines; i++)
		copy_journal(memory(ep->id, i, true), memory(ep->id, i, false));
	/* Nothing that it does from now on may find memory. */
	for (uint32_t i = 0; i < ep->nb_engines; i++)
		ep->engines[i].tp->c.sh.mrs = mr_table_create(1, NULL, &(struct secret){ .key[0] = 1 });
}

void
crash_hook(const struct sim_world *w, struct sim_ep *ep, struct transport *tp)
{
	if (!(w->cfg.faults & SIM_F_CRASH))
		return;
	tp->journal->step = on_step;
	tp->journal->step_arg = ep;
}

void
crash_may(struct sim_world *w, struct sim_ep *ep, const struct sim_engine *e)
{
	struct sim_crash *c = &ep->crash;

	if (!(w->cfg.faults & SIM_F_CRASH))
		return;
	c->turn = w->settled || ep->move.step != 0 ? NULL : e;
	if (c->turn == NULL || c->armed || ep->restarts == RESTARTS_MOST || !rng_one_in(&ep->restart_rng, TURNS))
		return;
	c->armed = true;
	c->steps = (uint32_t)rng_below(&ep->restart_rng, UINT64_C(1) << rng_below(&ep->restart_rng, STEPS_ORDER + 1));
}

void
crash_told(struct sim_ep *ep)
{
	struct sim_crash *c = &ep->crash;

	if (c->turn == NULL || c->turn->tp->journal == NULL)
		return;
	if (c->tp != c->turn->tp || c->told_turn != c->tp->journal->turn) {
		c->tp = c->turn->tp;
		c->told_turn = c->tp->journal->turn;
		c->told = 0;
	}
	c->told++;
}

/* ---- The next daemon ---- */
static struct journals *
open_journals(struct sim_world *w, const struct sim_ep *ep)
{
	struct journal_memory m[SIM_MAX_ENGINES];
	const char *why[SIM_MAX_ENGINES];
	struct journals *js;

	for (uint32_t i = 0; i < ep->nb_engines; i++)
		m[i] = (struct journal_memory){ memory(ep->id, i, true), journal_bytes(&limits) };
	if (journals_open(m, ep->nb_engines, &js, why) != 0)
		abort();
	for (uint32_t i = 0; i < ep->nb_engines; i++)
		if (why[i] != NULL)
			sim_fail(w, "endpoint %u: the journal of engine %u can't be read: %s", ep->id, i, why[i]);
	return js;
}

static void
read_queues(struct sim_world *w, struct sim_ep *ep, struct journals *js, struct saved *s, const uint32_t *moderation)
{
	unsigned int engine;

	for (uint32_t i = 0; i < ep->nb_engines; i++)
		if (journals_counters(js, i, &s->tps[i]) != 0)
			sim_fail(w, "endpoint %u: counters of engine %u are lost", ep->id, i);
	for (uint32_t i = 0; i < ep->nb_cqs; i++)
		if (journals_cq(js, i, &s->cq_params[i], NULL, moderation[i], &s->cqs[i]) != 0)
			sim_fail(w, "endpoint %u: CQ %u is lost", ep->id, i);
	for (uint32_t i = 0; i < RESTART_QUEUES; i++) {
		if (s->srq_params[i].shared == NULL)
			continue;
		if (journals_srq(js, i, &s->srq_params[i], &s->srqs[i], &engine) != 0 || engine != s->srq_engine[i])
			sim_fail(w, "endpoint %u: SRQ %u is lost", ep->id, i);
	}
}

static void
read_qps(struct sim_world *w, struct sim_ep *ep, const struct journals *js, struct saved *s, const uint32_t *qpns)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < RESTART_MAX_QPS; i++) {
		unsigned int engine = 0;
		int rc;

		if (qpns[i] == 0)
			continue;
		n++;
		s->qps[i] = malloc(JOURNAL_QP_BYTES);
		if (s->qps[i] == NULL)
			abort();
		rc = journals_qp(js, qpns[i], ep->sh.mrs, w->now_ns, s->qps[i], &engine);
		if (rc != 0 || engine != s->qp_engine[i])
			sim_fail(w, "endpoint %u: QP 0x%06x is lost (%s), engine %u", ep->id, qpns[i], strerror(rc), engine);
		s->qp_bytes[i] = rc == 0 ? s->qps[i]->head.size : 0;
	}
	if (n != journals_qps(js))
		sim_fail(w, "endpoint %u: %u QPs are in its journals, but it had %u", ep->id, journals_qps(js), n);
}

/* Events that count and weren't told. Those that were had come first. */
static void
tell_events(struct sim_world *w, struct sim_ep *ep, const struct journals *js, uint32_t told)
{
	for (uint32_t n = told; n < journals_events(js); n++) {
		struct journal_event ev;

		journals_nth_event(js, n, &ev);
		MARK("an event counts that wasn't told");
		if (ev.of == JOURNAL_CQ)
			model_cq_error(w, &ep->cqs[ev.number]);
		else if (ev.of == JOURNAL_SRQ)
			srq_limit_event(w, ev.number < SIM_MAX_SRQS ? &ep->srqs[ev.number] : &ep->xsrqs[ev.number - SIM_MAX_SRQS]);
		for (uint32_t i = 0; i < RESTART_MAX_QPS && ev.of == JOURNAL_QP; i++) {
			struct sim_qp *q = restart_qp(w, ep, i);

			if (q != NULL && q->qp != NULL && qp_num(q->qp) == ev.number)
				model_event(w, q, ev.type);
		}
	}
}

/* Programs have what they had when the host was killed. */
static void
give_back(struct sim_world *w, struct sim_ep *ep, struct mr_table *const *empty)
{
	memcpy(sim_arena, ep->crash.arena, w->arena_used);
	free(ep->crash.arena);
	for (uint32_t i = 0; i < ep->nb_engines; i++)
		mr_table_destroy(empty[i]);
}

bool
crash_killed(struct sim_world *w, struct sim_ep *ep)
{
	uint64_t dark_ns = 0;
	struct mr_table *empty[SIM_MAX_ENGINES];
	uint32_t moderation[SIM_MAX_CQS], qpns[RESTART_MAX_QPS] = { 0 }, told = 0;
	struct journals *js;
	struct saved *s;

	if (!ep->crash.killed) {
		ep->crash.turn = NULL;
		return false;
	}
	/* It was killed while it told of events, or when it had. */
	if (ep->crash.tp == ep->crash.turn->tp && ep->crash.told_turn == ep->crash.counted)
		told = ep->crash.told;
	dark_ns = rng_below(&ep->restart_rng, rng_one_in(&ep->restart_rng, 2) ? DARK_NS_MAX : SIM_NS_PER_MS);
	sim_trace(w, "endpoint %u: its daemon is killed, and dark for %" PRIu64 " us", ep->id, dark_ns / 1000);
	ep->restarts++;
	ep->killed_ns = w->now_ns;
	ep->dark_until = w->now_ns + dark_ns;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		abort();
	for (uint32_t i = 0; i < ep->nb_engines; i++)
		empty[i] = ep->engines[i].tp->c.sh.mrs;
	for (uint32_t i = 0; i < ep->nb_cqs; i++)
		moderation[i] = atomic_load(&ep->cqs[i].cq->moderation);
	for (uint32_t i = 0; i < RESTART_MAX_QPS; i++) {
		struct sim_qp *q = restart_qp(w, ep, i);

		if (q != NULL && q->qp != NULL)
			qpns[i] = qp_num(q->qp);
		if (q != NULL)
			credits_killed(w, q);
		/* A CNP that was about to leave is lost. */
		if (q != NULL)
			q->cnp_due_ns = 0;
	}
	restart_look(w, ep, s);
	connect_restart(w, ep);
	restart_throw_away(w, ep);
	give_back(w, ep, empty);
	js = open_journals(w, ep);
	read_queues(w, ep, js, s, moderation);
	read_qps(w, ep, js, s, qpns);
	ep->crash = (struct sim_crash){ .armed = false };
	restart_make(w, ep, s);
	tell_events(w, ep, js, told);
	journals_close(js);
	free(s);
	return true;
}
