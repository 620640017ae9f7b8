/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>

#include "net/port/track.h"

#define MS UINT64_C(1000000)

static const char *const names[] = PORT_STATE_NAMES;
static_assert(sizeof(names) / sizeof(names[0]) == PORT_STATES, "each state has a name");

const char *
port_state_name(enum port_state s)
{
	return names[s];
}

void
port_track_init(struct port_track *t, bool needs_peer, bool gone, uint64_t now_ns)
{
	*t = (struct port_track){
		.state = gone ? PORT_GONE : PORT_DOWN,
		.needs_peer = needs_peer,
		.due_ns = now_ns + (gone ? PORT_RETRY_MS : PORT_CONNECT_MS) * MS,
	};
}

/** @return whether engines use the ethdev. */
static bool
in_use(const struct port_track *t)
{
	return t->state == PORT_UP || t->state == PORT_DOWN;
}

/** Enter @p to. @return the actions that follow for engines and programs. */
static uint32_t
enter(struct port_track *t, enum port_state to)
{
	bool used = in_use(t), was_up = t->state == PORT_UP;
	uint32_t todo = 0;

	t->state = to;
	if (used != in_use(t))
		todo |= used ? PORT_DO_PAUSE : PORT_DO_RESUME;
	if (was_up && to != PORT_UP) {
		t->downs++;
		todo |= PORT_SAY_DOWN;
	}
	if (!was_up && to == PORT_UP)
		todo |= PORT_SAY_UP;
	return todo;
}

static uint32_t
restart(struct port_track *t)
{
	t->again = false;
	return enter(t, PORT_RESTARTING) | PORT_DO_RESTART | (t->reset ? PORT_DO_RESET : 0);
}

/** It has started: the link is looked at from now on. */
static uint32_t
started(struct port_track *t, uint64_t now_ns)
{
	t->due_ns = now_ns + PORT_CONNECT_MS * MS;
	return enter(t, PORT_DOWN);
}

/** RESTARTING, and what happened. */
static uint32_t
restart_ended(struct port_track *t, uint32_t events, uint64_t now_ns)
{
	if (events & PORT_EV_RESTART_FAILED) {
		t->restart_failures++;
		t->due_ns = now_ns + PORT_RETRY_MS * MS;
		return enter(t, PORT_WAITING);
	}
	if (!(events & PORT_EV_RESTARTED))
		return 0;
	t->restarts++;
	if (t->again)
		return restart(t);
	t->reset = false;
	return started(t, now_ns);
}

/** The device is no more. */
static uint32_t
gone(struct port_track *t)
{
	t->busy = true; /* until it is closed */
	t->reset = t->again = false;
	return enter(t, PORT_GONE) | PORT_SAY_GONE;
}

/** GONE, and what happened. */
static uint32_t
come_back(struct port_track *t, uint32_t events, uint64_t now_ns)
{
	if (events & PORT_EV_REOPENED) {
		t->busy = false;
		t->returns++;
		return PORT_SAY_BACK | started(t, now_ns);
	}
	if (events & (PORT_EV_CLOSED | PORT_EV_REOPEN_FAILED)) {
		t->busy = false;
		t->due_ns = now_ns + (events & PORT_EV_CLOSED ? PORT_RETRY_MS : PORT_REOPEN_MS) * MS;
	}
	if (t->busy || now_ns < t->due_ns)
		return 0;
	t->due_ns = now_ns + PORT_RETRY_MS * MS;
	t->busy = (events & PORT_EV_PRESENT) != 0;
	return t->busy ? PORT_DO_REOPEN : 0;
}

/** DOWN or UP: follow the link. */
static uint32_t
follow_link(struct port_track *t, uint32_t events, bool up, uint64_t now_ns)
{
	if (t->state == PORT_UP && !up)
		return t->needs_peer ? restart(t) : enter(t, PORT_DOWN);
	if (t->state == PORT_UP && (events & PORT_EV_WENT_DOWN)) {
		t->downs++;
		return PORT_SAY_DOWN | PORT_SAY_UP;
	}
	if (t->state == PORT_DOWN && up)
		return enter(t, PORT_UP);
	if (t->state == PORT_DOWN && t->needs_peer && now_ns >= t->due_ns)
		return restart(t);
	return 0;
}

uint32_t
port_track_step(struct port_track *t, uint32_t events, bool up, uint64_t now_ns)
{
	uint32_t todo = 0;

	if (t->state == PORT_GONE)
		todo = come_back(t, events, now_ns);
	else if (events & PORT_EV_REMOVED)
		return gone(t);
	if (t->state == PORT_GONE)
		return todo;
	if (events & PORT_EV_RESET)
		t->reset = t->again = true;
	if (t->state == PORT_RESTARTING)
		todo |= restart_ended(t, events, now_ns);
	else if (t->again || (t->state == PORT_WAITING && now_ns >= t->due_ns))
		todo |= restart(t);
	else if ((events & PORT_EV_RECOVERING) && t->state != PORT_WAITING)
		todo |= enter(t, PORT_RECOVERING);
	/* Both: the driver was faster than we looked. */
	if ((events & PORT_EV_RECOVERED) && t->state == PORT_RECOVERING)
		todo |= started(t, now_ns);
	if (t->state == PORT_DOWN || t->state == PORT_UP)
		todo |= follow_link(t, events, up, now_ns);
	return todo;
}

uint64_t
port_track_due(const struct port_track *t)
{
	if (t->state == PORT_GONE)
		return t->busy ? UINT64_MAX : t->due_ns;
	return t->state == PORT_WAITING || (t->state == PORT_DOWN && t->needs_peer) ? t->due_ns : UINT64_MAX;
}
