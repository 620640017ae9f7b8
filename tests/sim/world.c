/* SPDX-License-Identifier: BSD-3-Clause */
/* A seed from its beginning to its end: the clock and the queue of events. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

enum { STREAM_WORLD = 2 };
#define IDLE_DOUBLINGS 12
#define IDLE_NS_MAX SIM_NS_PER_MS
#define DEADLINE_NS (300 * SIM_NS_PER_S)
#define SETTLE_NS (20 * SIM_NS_PER_S)

void
sim_fail(struct sim_world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->failed || w->quiet)
		return;
	w->failed = true;
	va_start(ap, fmt);
	vsnprintf(w->why, sizeof(w->why), fmt, ap);
	va_end(ap);
	sim_trace(w, "FAILED: %s", w->why);
}

void
sim_trace(struct sim_world *w, const char *fmt, ...)
{
	va_list ap;

	if (!w->verbose)
		return;
	printf("%10.3f us  ", (double)w->now_ns / 1000);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

uint8_t *
arena_get(struct sim_world *w, uint64_t bytes)
{
	uint8_t *p = sim_arena + w->arena_used;

	bytes = (bytes + 127) & ~UINT64_C(63); /* a gap between neighbours */
	if (w->arena_used + bytes > SIM_ARENA_BYTES)
		return NULL;
	w->arena_used += bytes;
	return p;
}

/* ---- The queue: a heap by time, then by the order of adding ---- */

static bool
event_before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

void
world_event_put(struct sim_world *w, struct sim_event e)
{
	uint32_t i = w->nb_heap++, parent;

	e.at = e.at < w->now_ns ? w->now_ns : e.at;
	e.seq = w->seq++;

	if (w->nb_heap > w->max_heap) {
		w->max_heap = w->max_heap == 0 ? 1024 : 2 * w->max_heap;
		w->heap = realloc(w->heap, w->max_heap * sizeof(*w->heap));
		if (w->heap == NULL)
			abort();
	}
	while (i > 0) {
		parent = (i - 1) / 2;
		if (!event_before(&e, &w->heap[parent]))
			break;
		w->heap[i] = w->heap[parent];
		i = parent;
	}
	w->heap[i] = e;
}

void
world_event_add(struct sim_world *w, uint64_t at, enum sim_event_type type, uint32_t ep, struct rte_mbuf *m)
{
	world_event_put(w, (struct sim_event){ .at = at, .type = type, .ep = ep, .m = m });
}

static struct sim_event
event_take(struct sim_world *w)
{
	struct sim_event first = w->heap[0], last = w->heap[--w->nb_heap];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < w->nb_heap) {
		if (child + 1 < w->nb_heap && event_before(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!event_before(&w->heap[child], &last))
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = last;
	return first;
}

void
world_run_at(struct sim_world *w, uint32_t id, uint64_t at)
{
	struct sim_ep *ep = &w->eps[id];

	if (at < ep->busy_until)
		at = ep->busy_until;
	if (at < ep->stalled_until)
		at = ep->stalled_until;
	if (at < ep->dark_until)
		at = ep->dark_until;
	if (at < w->now_ns)
		at = w->now_ns;
	if (at >= ep->run_at)
		return;
	ep->run_at = at;
	world_event_add(w, at, EV_RUN, id, NULL);
}

/* ---- A seed ---- */

/* Clients that find nothing to do look less and less often, so that long waits cost few events. */
static uint64_t
client_pause(struct sim_world *w, struct sim_ep *ep)
{
	uint64_t ns = rng_between(&ep->rng, w->cfg.poll_ns / 2, w->cfg.poll_ns * 3 / 2);

	ns <<= ep->idle_turns < IDLE_DOUBLINGS ? ep->idle_turns : IDLE_DOUBLINGS;
	return ns < IDLE_NS_MAX || ns < 2 * w->cfg.poll_ns ? ns : IDLE_NS_MAX;
}

static void
world_event(struct sim_world *w, const struct sim_event *e)
{
	struct sim_ep *ep = e->type == EV_FOREIGN ? NULL : &w->eps[e->ep];
	uint32_t i;

	switch (e->type) {
	case EV_PACKET:
		if (w->now_ns < ep->dark_until) {
			rte_pktmbuf_free(e->m);
			w->stats.lost++;
			break;
		}
		if (foreign_rx(w, ep, e->m))
			break;
		endpoint_packet(w, ep, e->m);
		break;
	case EV_RUN:
		if (e->at == ep->run_at)
			endpoint_turn(w, ep);
		break;
	case EV_HOSTILE:
		hostile_turn(w);
		break;
	case EV_FOREIGN:
		foreign_turn(w, e->ep);
		break;
	case EV_COPY:
		endpoint_copied(w, ep, e->job);
		break;
	case EV_CLIENT:
		/* Half of the time programs only post while a QP of theirs is on its way. */
		if (moves_under_way(ep) && rng_one_in(&ep->move.rng, 2)) {
			client_post(w, ep);
			world_event_add(w, w->now_ns + client_pause(w, ep), EV_CLIENT, e->ep, NULL);
			break;
		}
		moves_finish(w, ep);
		connect_turn(w, ep);
		ep->idle_turns = client_turn(w, ep) ? 0 : ep->idle_turns + 1;
		for (i = 0; i < w->cfg.nb_conns; i++)
			if (w->conns[i].qp[0].ep == ep) {
				moves_finish(w, w->conns[i].qp[1].ep);
				conn_step(w, &w->conns[i]);
			}
		if (!w->settled)
			world_event_add(w, w->now_ns + client_pause(w, ep), EV_CLIENT, e->ep, NULL);
		break;
	}
}

static bool
all_done(const struct sim_world *w)
{
	uint32_t i;

	for (i = 0; i < w->cfg.nb_conns; i++)
		if (!w->conns[i].done)
			return false;
	return true;
}

static void
stuck(struct sim_world *w, const char *how)
{
	const struct sim_qp *q;
	uint32_t i;

	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		if (!w->conns[i / 2].done)
			break;
	}
	if (i == 2 * w->cfg.nb_conns) {
		sim_fail(w, "%s though all programs have ended", how);
		return;
	}
	q = &w->conns[i / 2].qp[0];
	sim_fail(w,
		 "%s: QP %u (%s) %u of %u sends posted, %u complete, %u receives posted, %u complete; "
		 "QP %u (%s) %u of %u sends posted, %u complete, %u receives posted, %u complete",
		 how, q->id, qp_state_name(qp_state(q->qp)), q->nb_posted, q->nb_ops, q->nb_retired, q->rq->nb_posted,
		 q->rq->nb_done, q->peer->id, qp_state_name(qp_state(q->peer->qp)), q->peer->nb_posted, q->peer->nb_ops,
		 q->peer->nb_retired, q->peer->rq->nb_posted, q->peer->rq->nb_done);
}

static void
world_loop(struct sim_world *w)
{
	struct sim_event e;

	while (!w->failed && w->nb_heap != 0) {
		clock_may_jump(w);
		e = event_take(w);
		w->now_ns = e.at;
		if (++w->stats.events > SIM_MAX_EVENTS) {
			stuck(w, "more events than a seed can need");
			if (e.type == EV_PACKET)
				rte_pktmbuf_free(e.m);
			return;
		}
		if (w->now_ns > w->deadline_ns)
			stuck(w, w->settled ? "no rest" : "no end in time");
		world_event(w, &e);
		if (!w->failed)
			looks_turn(w);
		if (!w->settled && all_done(w)) {
			w->settled = true;
			w->deadline_ns = w->now_ns + SETTLE_NS;
			w->stats.virtual_ns = w->now_ns;
		}
	}
	if (!w->failed && !w->settled)
		stuck(w, "nothing left to happen");
}

static bool
world_create(struct sim_world *w)
{
	uint32_t i;

	for (i = 0; i < w->cfg.nb_eps; i++)
		if (!endpoint_create(w, i))
			return false;
	link_init(w);
	for (i = 0; i < w->cfg.nb_conns; i++) {
		w->conns[i].id = i;
		if (!conn_create(w, &w->conns[i]))
			return false;
	}
	for (i = 0; i < w->cfg.nb_eps; i++)
		world_event_add(w, rng_below(&w->rng, 5000), EV_CLIENT, i, NULL);
	return conns_join(w) && huge_make(w) && hostile_create(w);
}

static void
world_destroy(struct sim_world *w)
{
	uint32_t i;

	hostile_destroy(w);
	huge_free(w);
	for (i = 0; i < w->cfg.nb_conns; i++)
		conn_destroy(w, &w->conns[i]);
	for (i = 0; i < w->cfg.nb_eps; i++)
		endpoint_destroy(&w->eps[i]);
	for (i = 0; i < w->nb_heap; i++)
		if (w->heap[i].type == EV_PACKET)
			rte_pktmbuf_free(w->heap[i].m);
	free(w->heap);
	w->heap = NULL;
	memset(sim_arena, 0, w->arena_used);
}

bool
world_run(struct sim_world *w, const struct sim_config *c, bool verbose)
{
	unsigned int before, after;

	memset(w, 0, sizeof(*w));
	w->pool = (c->faults & SIM_F_NO_MBUF) ? sim_small_pool : sim_pool;
	before = rte_mempool_avail_count(w->pool);
	w->cfg = *c;
	w->verbose = verbose;
	w->rng = rng_stream(c->seed, STREAM_WORLD);
	clock_init(w);
	w->deadline_ns = DEADLINE_NS;
	if (world_create(w)) {
		world_loop(w);
		if (!w->failed)
			model_world_end(w);
	} else {
		sim_fail(w, "the world could not be made");
	}
	for (uint32_t i = 0; i < w->cfg.nb_eps; i++)
		moves_stop(w, &w->eps[i]);
	world_destroy(w);
	after = rte_mempool_avail_count(w->pool);
	if (after != before)
		sim_fail(w, "%d mbufs leaked", (int)before - (int)after);
	return !w->failed;
}
