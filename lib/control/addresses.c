/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses of a port change while programs run, by the kernel or the configuration: GID table, events, QPs, and the files of sysfs.h. */
#include "control/addresses_priv.h"

#include "control/core/session_priv.h"
#include "control/obj/own_address_priv.h"
#include "control/observe/sysfs.h"

/** [net_taken_fn] Another port has it, so that the address would not say which of them is meant. */
static bool
is_taken(void *arg, const struct net_port *p, const struct net_addr *a)
{
	struct control *c = arg;
	const struct gid *gid = &a->gid;
	struct gid *told = &c->ports[p->index].taken;
	char text[GID_TEXT_BYTES];

	for (unsigned int i = 0; i < c->s.nb_ports; i++) {
		const struct net_port *other = c->s.ports[i];
		const struct net_addr *has = net_addr_find(other, gid);

		if (other == p || has == NULL || has->vlan != a->vlan)
			continue;
		if (!gid_equal(told, gid))
			CTL_LOG(WARNING, "%s: %s is an address of %s already, and no GID here: remove it from one of the interfaces, or configure `addresses`",
				p->conf.name, gid_text(gid, text), other->conf.name);
		*told = *gid;
		return true;
	}
	return false;
}

void
addresses_begin(struct control *c, struct net_port *p)
{
	net_port_set_taken(p, is_taken, c);
	if (p->shared && !net_port_is_gone(p))
		addresses_follow(c, p);
}

uint32_t
addresses_busy(const struct control *c, const struct net_port *p)
{
	const struct session *s;
	uint32_t bits = 0;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->port == p)
			bits |= own_address_indices(s);
	return bits;
}

/** Tell the QPs of all programs. @return how many have the address. */
static uint32_t
tell_qps(struct control *c, const struct net_port *p, const struct gid *gid, bool gone)
{
	struct session *s;
	uint32_t n = 0;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->port == p)
			n += own_address_gone(s, gid, gone);
	return n;
}

static void
follow_one(struct control *c, struct net_port *p, unsigned int index, const struct gid *gid, bool gone)
{
	char text[GID_TEXT_BYTES];
	uint32_t users = tell_qps(c, p, gid, gone);

	if (users > 0)
		CTL_LOG(NOTICE, "%s: GID %u, %s, is %s; %u QPs and AHs of programs have it as their own", p->conf.name, index, gid_text(gid, text),
			gone ? "gone" : "back", users);
	else
		CTL_LOG(NOTICE, "%s: GID %u, %s, is %s", p->conf.name, index, gid_text(gid, text), gone ? "gone" : "new");
}

void
addresses_changed(struct control *c, struct net_port *p, const struct addresses_before *before, const struct net_gid_change *change)
{
	const uint32_t changed = change->added | change->removed;
	struct session *s;

	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++) {
		if (change->removed >> i & 1)
			follow_one(c, p, i, &before->gid[i], true);
		if (change->added >> i & 1)
			follow_one(c, p, i, net_gid(p, i), false);
	}
	if (change->left_out > 0 && change->left_out != before->left_out)
		CTL_LOG(WARNING, "%s: %u addresses have no GID: the table has %u entries, and those of addresses that have gone stay taken while programs use them",
			p->conf.name, change->left_out, UROCE_MAX_GIDS);
	if (changed == 0)
		return;
	if (c->sysfs)
		sysfs_write_gids(c, p->index, changed);
	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->port == p && !s->device_gone)
			session_send_async(s, UROCE_EVENT_GID_CHANGE, 1);
}

void
addresses_look(const struct net_port *p, struct addresses_before *before)
{
	for (unsigned int i = 0; i < UROCE_MAX_GIDS; i++) {
		const struct gid *gid = net_gid(p, i);

		before->gid[i] = gid != NULL ? *gid : (struct gid){ { 0 } };
	}
}

void
addresses_follow(struct control *c, struct net_port *p)
{
	struct addresses_before before = { .left_out = c->ports[p->index].gids_left_out };
	struct net_gid_change change;
	int rc;

	addresses_look(p, &before);
	rc = net_port_addrs_follow(p, addresses_busy(c, p), &change);
	if (rc != 0) {
		CTL_LOG(ERR, "%s: the addresses of %s can't be read: %s; its GIDs stay as they are", p->conf.name, p->netdev, strerror(rc));
		return;
	}
	addresses_changed(c, p, &before, &change);
	c->ports[p->index].gids_left_out = change.left_out;
}
