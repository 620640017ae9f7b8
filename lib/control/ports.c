/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of each port: what its driver and the kernel report goes in, engines and programs are told what follows (net/port/track.h). */
#include <sys/epoll.h>

#include <rte_common.h>

#include "control/addresses_priv.h"
#include "control/cma/cma_priv.h"
#include "control/core/impairing_priv.h"
#include "control/loop_priv.h"
#include "control/mtu_priv.h"
#include "control/obj/own_address_priv.h"
#include "control/observe/sysfs.h"

#define POPULATE_NS UINT64_C(1000000000)

static struct net_port *
port_of(const struct port_watch *w)
{
	return w->control->s.ports[w->index];
}

static void on_links(struct watch *watch, uint32_t events);

/** Listen to what the kernel reports about the port's interface. Without it the link is looked at from time to time. */
static void
follow_links(struct port_watch *w)
{
	w->links = (struct watch){ on_links, net_port_link_fd(port_of(w)) };
	if (w->links.fd >= 0 && control_watch(w->control, &w->links, EPOLLIN) != 0)
		w->links.fd = -1;
}

static void
use(const struct port_watch *w, bool on)
{
	const struct control *c = w->control;

	for (unsigned int i = 0; i < c->s.nb_engines; i++)
		engine_use_port(c->s.engines[i], w->index, on);
}

/** Tell the programs of this port, but for those whose device it was before it went. */
static void
tell(const struct port_watch *w, enum uroce_event type)
{
	struct session *s;

	TAILQ_FOREACH(s, &w->control->sessions, link)
		if (s->port == port_of(w) && !s->device_gone)
			session_send_async(s, type, 1);
}

/* ---- Descriptors ---- */
static void
on_links(struct watch *watch, uint32_t events)
{
	struct port_watch *w = container_of(watch, struct port_watch, links);

	net_port_link_read(port_of(w)); /* ports_poll() handles it in the next turn */
}

/* ---- What follows ---- */
static void
restart(struct port_watch *w, bool reset)
{
	if (!w->track.needs_peer)
		CTL_LOG(NOTICE, "%s: %s", port_of(w)->conf.name, reset ? "its device asks for a reset; it starts again" : "it starts again");
	net_port_restart(port_of(w), reset);
}

/** A restart failed: say why, once. */
static void
log_failure(struct port_watch *w)
{
	if (!w->told_why)
		CTL_LOG(NOTICE, "%s; tried again from time to time", net_port_restart_error(port_of(w)));
	w->told_why = true;
}

static void
link_changed(struct port_watch *w, bool up)
{
	struct control *c = w->control;

	c->link_up[w->index] = up;
	if (up)
		w->told_why = false;
	if (c->sysfs)
		sysfs_write_link(c, w->index);
	CTL_LOG(NOTICE, "%s: link %s", port_of(w)->conf.name, up ? "up" : "down");
	tell(w, up ? UROCE_EVENT_PORT_ACTIVE : UROCE_EVENT_PORT_ERR);
}

/** The device is gone: its programs can only go. */
static void
device_gone(struct port_watch *w)
{
	struct control *c = w->control;
	struct net_port *p = port_of(w);
	struct session *s;

	CTL_LOG(ERR, "%s: its device is gone", p->conf.name);
	if (w->links.fd >= 0)
		control_unwatch(c, &w->links);
	w->links.fd = -1;
	impairing_device_gone(c, w->index);
	tell(w, UROCE_EVENT_DEVICE_FATAL);
	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->port == p && !s->device_gone)
			own_device_gone(s);
	net_port_abandon(p);
	if (c->sysfs)
		sysfs_write_gids(c, w->index, UINT32_MAX);
	cma_device_gone(c, p);
}

/** It is there again, perhaps another one of the same name. */
static void
device_back(struct port_watch *w)
{
	struct control *c = w->control;
	const struct config_port *conf = &c->s.conf->ports[w->index];
	struct net_port *p = port_of(w);

	CTL_LOG(NOTICE, "%s: its device is there", p->conf.name);
	w->told_why = false;
	w->track.needs_peer = net_port_needs_peer(p);
	follow_links(w);
	mtu_changed(c, p);
	if (conf->impaired && impairing_set(c, w->index, &conf->impair) != 0)
		CTL_LOG(ERR, "%s: it can't be impaired any more", p->conf.name);
	if (c->sysfs)
		sysfs_write_gids(c, w->index, UINT32_MAX);
}

static void
came_up(struct port_watch *w)
{
	net_port_came_up(port_of(w));
	if (w->polled)
		net_port_populate(port_of(w));
	else
		w->populate_ns = 1;
}

/** enum port_action, in its order. */
static void
act(struct port_watch *w, uint32_t todo)
{
	if (todo & PORT_DO_PAUSE)
		use(w, false);
	if (todo & PORT_SAY_BACK)
		device_back(w);
	if (todo & PORT_DO_RESTART)
		restart(w, (todo & PORT_DO_RESET) != 0);
	if (todo & PORT_SAY_UP)
		came_up(w);
	if (todo & PORT_DO_RESUME)
		use(w, true);
	if (todo & PORT_SAY_DOWN)
		link_changed(w, false);
	if (todo & PORT_SAY_UP)
		link_changed(w, true);
	if (todo & PORT_SAY_GONE)
		device_gone(w);
	if (todo & PORT_DO_REOPEN)
		net_port_reopen(port_of(w));
}

/** @param look  At the link, even if nothing was reported. */
static void
run(struct port_watch *w, bool look, uint64_t now_ns)
{
	uint32_t events = net_port_events(port_of(w));
	bool link;

	if (w->track.state == PORT_GONE && now_ns >= port_track_due(&w->track) && net_port_present(port_of(w)))
		events |= PORT_EV_PRESENT;
	if (!look && events == 0 && now_ns < port_track_due(&w->track))
		return;
	if (w->track.state != PORT_GONE)
		mtu_follow(w->control, port_of(w));
	if ((events & PORT_EV_ADDRS) && w->track.state != PORT_GONE)
		addresses_follow(w->control, port_of(w));
	link = net_port_link(port_of(w), NULL);
	act(w, port_track_step(&w->track, events, link, now_ns));
	if (events & (PORT_EV_RESTART_FAILED | PORT_EV_REOPEN_FAILED))
		log_failure(w);
}

void
ports_start(struct control *c)
{
	uint64_t now_ns = control_now_ns();

	/* The last one first: an address that two ports have stays the first one's. */
	for (uint16_t i = c->s.nb_ports; i > 0; i--)
		addresses_begin(c, c->s.ports[i - 1]);
	for (uint16_t i = 0; i < c->s.nb_ports; i++) {
		struct net_port *p = c->s.ports[i];
		struct port_watch *w = &c->ports[i];

		w->control = c;
		w->index = i;
		mtu_begin(c, p);
		follow_links(w);
		port_track_init(&w->track, net_port_needs_peer(p), net_port_is_gone(p), now_ns);
		net_port_notify(p, c->wake.fd);
		run(w, true, now_ns);
	}
}

void
ports_stop(struct control *c)
{
	for (uint16_t i = 0; i < c->s.nb_ports; i++) {
		struct port_watch *w = &c->ports[i];

		if (w->control == NULL)
			continue; /* the control thread has not started */
		net_port_notify(c->s.ports[i], -1);
		if (w->links.fd >= 0)
			control_unwatch(c, &w->links);
	}
}

/** Programs are served from now on. */
static void
begin_polling(struct port_watch *w, uint64_t now_ns)
{
	w->polled = true;
	/* Those that have waited for this daemon go on first. What their packets need before that is populated by page faults. */
	if (w->populate_ns != 0 && w->control->taken_over.daemons != 0)
		w->populate_ns = now_ns + POPULATE_NS;
	/* The daemon before may have left others. */
	if (w->control->sysfs)
		sysfs_write_link(w->control, w->index);
}

uint64_t
ports_poll(struct control *c, uint64_t now_ns)
{
	bool look = now_ns >= c->next_links_ns;
	uint64_t next;

	if (look)
		c->next_links_ns = now_ns + CONTROL_LINK_POLL_MS * UINT64_C(1000000);
	next = c->next_links_ns;
	for (unsigned int i = 0; i < c->s.nb_ports; i++) {
		struct port_watch *w = &c->ports[i];

		if (!w->polled)
			begin_polling(w, now_ns);
		if (w->populate_ns != 0 && now_ns >= w->populate_ns) {
			net_port_populate(port_of(w));
			w->populate_ns = 0;
		}
		run(w, look, now_ns);
		next = RTE_MIN(next, port_track_due(&w->track));
	}
	return next;
}
