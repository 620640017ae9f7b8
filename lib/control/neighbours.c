/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbours of ports whose MAC address changes while programs run: QPs and AHs follow. */
#include "control/neighbours_priv.h"

#include "control/core/session_priv.h"
#include "control/obj/own_address_priv.h"
#include "transport/path/changes.h"

/** Slots of the QP table that an engine looks at in one message: it does nothing else meanwhile. */
enum { FOLLOW_SLOTS = 4096 };

struct follow_call {
	const struct net_port *port;
	uint32_t first; /**< slot of the QP table */
	uint32_t followed;
};

/** [tp_mac_fn] */
static bool
mac_of(const void *arg, const struct gid *sgid, const struct gid *dgid, uint8_t mac[6])
{
	return net_neigh_follow(arg, sgid, dgid, mac);
}

static int
call_follow(struct engine *e, void *arg, uint64_t now_ns)
{
	struct follow_call *call = arg;

	call->followed += transport_follow_mac(engine_transport(e), call->port->index, mac_of, call->port, call->first, FOLLOW_SLOTS);
	return 0;
}

/** @return how many QPs and AHs have followed. */
static uint32_t
follow_all(struct control *c, struct net_port *p)
{
	struct follow_call call = { .port = p };
	uint32_t slots = qp_table_count(c->s.sh.qps) > 0 ? qp_table_slots(c->s.sh.qps) : 0;
	struct session *s;

	for (unsigned int i = 0; i < c->s.nb_engines; i++)
		for (call.first = 0; call.first < slots; call.first += FOLLOW_SLOTS)
			engine_call(c->s.engines[i], call_follow, &call);
	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->port == p)
			call.followed += own_ahs_follow_mac(s, mac_of, p);
	return call.followed;
}

static void
follow(struct control *c, struct net_port *p, unsigned int nb)
{
	char text[GID_TEXT_BYTES], more[32] = "";
	struct gid gid, next;
	uint8_t mac[6], m[6];
	uint32_t n = follow_all(c, p);

	c->ports[p->index].followed += n;
	net_neigh_followed(p, &gid, mac);
	while (net_neigh_followed(p, &next, m))
		;
	if (nb > 1)
		snprintf(more, sizeof(more), ", and %u others'", nb - 1);
	CTL_LOG(NOTICE, "%s: the MAC address of %s is %02x:%02x:%02x:%02x:%02x:%02x now%s; %u QPs and AHs follow", p->conf.name, gid_text(&gid, text), mac[0],
		mac[1], mac[2], mac[3], mac[4], mac[5], more, n);
}

static uint64_t
follow_port(struct control *c, struct net_port *p, uint64_t now_ns)
{
	struct port_watch *w = &c->ports[p->index];
	unsigned int nb;

	net_neigh_changes(p, &nb);
	if (nb == 0)
		return UINT64_MAX;
	if (now_ns < w->next_follow_ns)
		return w->next_follow_ns;
	follow(c, p, nb);
	w->next_follow_ns = now_ns + NEIGHBOURS_FOLLOW_MS * UINT64_C(1000000);
	return UINT64_MAX;
}

uint64_t
neighbours_poll(struct control *c, uint64_t now_ns)
{
	uint64_t next = UINT64_MAX;

	for (unsigned int i = 0; i < c->s.nb_ports; i++)
		next = RTE_MIN(next, follow_port(c, c->s.ports[i], now_ns));
	return next;
}
