/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Events from the engine to the control thread: a ring of events, a ring of free events, an eventfd.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_malloc.h>

#include "engine/engine_priv.h"

enum {
	/** Events reserved for QPs, CQs and SRQs: a flood of ARP or MADs must not cause them to be lost. */
	EVENTS_RESERVED = ENGINE_EVENTS / 2,
};

int
events_create(struct engine *e)
{
	const unsigned int spsc = RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ;
	unsigned int i;

	e->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (e->event_fd < 0)
		return errno;
	e->events = engine_ring("events", ENGINE_EVENTS, e->c.socket_id, spsc);
	e->free_events = engine_ring("free_events", ENGINE_EVENTS, e->c.socket_id, spsc);
	e->event_pool = rte_calloc_socket("engine_events", ENGINE_EVENTS, sizeof(*e->event_pool), 0, e->c.socket_id);
	e->free_mads = engine_ring("free_mads", ENGINE_MADS, e->c.socket_id, spsc);
	e->mad_pool = rte_calloc_socket("engine_mads", ENGINE_MADS, sizeof(*e->mad_pool), 0, e->c.socket_id);
	if (e->events == NULL || e->free_events == NULL || e->event_pool == NULL || e->free_mads == NULL ||
	    e->mad_pool == NULL)
		return ENOMEM;
	for (i = 0; i < ENGINE_EVENTS; i++)
		rte_ring_enqueue(e->free_events, &e->event_pool[i]);
	for (i = 0; i < ENGINE_MADS; i++)
		rte_ring_enqueue(e->free_mads, &e->mad_pool[i]);
	return 0;
}

void
events_destroy(struct engine *e)
{
	if (e->event_fd >= 0)
		close(e->event_fd);
	rte_free(e->events);
	rte_free(e->free_events);
	rte_free(e->event_pool);
	rte_free(e->free_mads);
	rte_free(e->mad_pool);
}

/** @return false: there is no room for the event. */
static bool
post(struct engine *e, const struct engine_event *ev)
{
	const uint64_t one = 1;
	void *slot;

	if ((ev->kind != ENGINE_EV_ASYNC && rte_ring_count(e->free_events) <= EVENTS_RESERVED) ||
	    rte_ring_dequeue(e->free_events, &slot) != 0)
		return false;
	*(struct engine_event *)slot = *ev;
	rte_ring_enqueue(e->events, slot);
	/* A full fence: either we see that the control thread found no event, or it sees this one. */
	if (atomic_exchange(&e->event_signalled, 1) == 0) {
		/* The counter of an eventfd that is 0 or 1 can't overflow, so the write never blocks or fails. */
		while (write(e->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	return true;
}

void
event_post(struct engine *e, const struct engine_event *ev)
{
	if (!post(e, ev))
		e->stats.events_lost++;
}

/*
 * MADs are large, and have a small pool of slots of their own. Only the control thread may put a slot back into
 * free_mads, a ring with one producer. So a slot whose event found no room is kept here for the next MAD.
 */
void
event_post_mad(void *engine, const struct tp_mad *mad)
{
	struct engine *e = engine;
	struct engine_event ev = { .kind = ENGINE_EV_MAD };
	void *slot = e->mad_spare;

	if (slot == NULL && rte_ring_dequeue(e->free_mads, &slot) != 0) {
		e->stats.mads_dropped++;
		return;
	}
	*(struct tp_mad *)slot = *mad;
	ev.mad = slot;
	e->mad_spare = post(e, &ev) ? NULL : slot;
	e->stats.mads_dropped += e->mad_spare != NULL;
}

int
engine_event_fd(struct engine *e)
{
	return e->event_fd;
}

static bool
event_take(struct engine *e, struct engine_event *ev)
{
	void *slot;

	if (rte_ring_dequeue(e->events, &slot) != 0)
		return false;
	*ev = *(struct engine_event *)slot;
	rte_ring_enqueue(e->free_events, slot);
	if (ev->kind == ENGINE_EV_MAD)
		e->mad_lent = (struct tp_mad *)(uintptr_t)ev->mad;
	return true;
}

bool
engine_event_next(struct engine *e, struct engine_event *ev)
{
	uint64_t n;

	if (e->mad_lent != NULL)
		rte_ring_enqueue(e->free_mads, e->mad_lent);
	e->mad_lent = NULL;
	if (event_take(e, ev))
		return true;
	while (read(e->event_fd, &n, sizeof(n)) < 0 && errno == EINTR)
		;
	atomic_exchange(&e->event_signalled, 0);
	return event_take(e, ev);
}
