/* SPDX-License-Identifier: BSD-3-Clause */
/* Weights and rates of sessions. */
#include <sys/socket.h>

#include "control/core/quota_priv.h"
#include "control/core/shares_priv.h"

enum { PEER_GROUPS = 256 }; /* of a program that are looked at */

static bool
listed(const struct config_ids *l, uint32_t id)
{
	for (uint32_t i = 0; i < l->nb; i++)
		if (l->ids[i] == id)
			return true;
	return l->all;
}

/** @return whether the program had one of the groups when it connected, according to the kernel. */
static bool
in_groups(const struct session *s, const struct config_ids *l)
{
	gid_t gids[PEER_GROUPS];
	socklen_t bytes = sizeof(gids);
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (l->all)
		return true;
	if (l->nb == 0)
		return false;
	if (getsockopt(s->sock.fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && listed(l, cred.gid))
		return true;
	if (getsockopt(s->sock.fd, SOL_SOCKET, SO_PEERGROUPS, gids, &bytes) != 0)
		return false;
	for (socklen_t i = 0; i < bytes / sizeof(gids[0]); i++)
		if (listed(l, gids[i]))
			return true;
	return false;
}

const struct config_share *
shares_section(const struct session *s, const struct uroced_config *conf)
{
	for (unsigned int i = 0; i < conf->nb_shares && !s->own; i++)
		if (listed(&conf->shares[i].users, s->uid) || in_groups(s, &conf->shares[i].groups))
			return &conf->shares[i];
	return NULL;
}

void
shares_apply(struct session *s, const struct uroced_config *conf)
{
	const struct config_share *section = shares_section(s, conf);
	struct control *c = s->control;
	struct share_params p = { 0 };

	if (section != NULL) {
		p.weight = section->weight;
		if (section->rate_mbps != 0 || section->rate_packets != 0)
			p.rate = &s->user->rates[section - conf->shares];
	}
	if (p.rate != NULL) {
		atomic_store_explicit(&p.rate->bits, section->rate_mbps * UINT64_C(1000000), memory_order_relaxed);
		atomic_store_explicit(&p.rate->packets, section->rate_packets, memory_order_relaxed);
	}
	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		/* The programs of a user share what one program gets. */
		p.group = !s->own && (s->user->uid != 0 || conf->limit_root) ? &s->user->groups[i] : NULL;
		if (s->engine_sessions[i] != NULL)
			engine_session_set_share(c->s.engines[i], s->engine_sessions[i], &p);
	}
}

void
shares_apply_all(struct control *c, const struct uroced_config *conf)
{
	struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->port != NULL)
			shares_apply(s, conf);
}
