/* SPDX-License-Identifier: BSD-3-Clause */
/* SIGHUP: reads the configuration again, checks it as a whole, and applies what can be changed at run time. */
#include <stdio.h>

#include <bsd/string.h>

#include "control/addresses_priv.h"
#include "control/core/control_priv.h"
#include "control/core/impairing_priv.h"
#include "control/core/subuid_priv.h"
#include "control/core/shares_priv.h"
#include "control/mtu_priv.h"

/** A reload in progress. */
struct reload {
	struct control *c;
	const struct uroced_config *new;
	unsigned int applied;
	char *restart;
	char why[CONFIG_ERR_BYTES / 2]; /**< why a key could not be applied; "": its errno value says it */
};

/** A key that can be changed at run time. */
struct live_key {
	const char *name;
	bool of_port;
	/**
	 * Apply the new value. The caller copies values of [daemon], this function those of a port.
	 * @param port  NULL for keys of [daemon].
	 * @return 0, or an errno value: nothing was changed.
	 */
	int (*apply)(struct reload *r, struct config_port *port, const struct config_port *new_port);
};

/* ---- How each key is applied ---- */
/** @return the index of the port that @p p configures. */
static uint16_t
port_index(const struct control *c, const struct config_port *p)
{
	return (uint16_t)(p - c->s.conf->ports);
}

static int
apply_impair(struct reload *r, struct config_port *port, const struct config_port *new_port)
{
	int rc = impairing_set(r->c, port_index(r->c, port), new_port->impaired ? &new_port->impair : NULL);

	if (rc == 0)
		port->impair = new_port->impair;
	return rc;
}

struct cc_call {
	uint16_t port;
	enum tp_cc cc;
	uint32_t mbps;
};

static int
call_set_cc(struct engine *e, void *arg, uint64_t now_ns)
{
	const struct cc_call *call = arg;

	transport_set_cc(engine_transport(e), call->port, call->cc, call->mbps);
	return 0;
}

static int
apply_cc(struct reload *r, struct config_port *port, const struct config_port *new_port)
{
	struct control *c = r->c;
	struct cc_call call = { .port = port_index(c, port), .cc = (enum tp_cc)new_port->cc };

	net_port_link(c->s.ports[call.port], &call.mbps);
	for (unsigned int i = 0; i < c->s.nb_engines; i++)
		engine_call(c->s.engines[i], call_set_cc, &call);
	port->cc = new_port->cc;
	return 0;
}

static int
apply_addresses(struct reload *r, struct config_port *port, const struct config_port *new_port)
{
	struct control *c = r->c;
	struct net_port *p = c->s.ports[port_index(c, port)];
	struct addresses_before before = { .left_out = c->ports[p->index].gids_left_out };
	struct net_gid_change change;
	int rc;

	addresses_look(p, &before);
	rc = net_port_addrs_configure(p, new_port->net.addrs, new_port->net.nb_addrs, addresses_busy(c, p), &change, r->why, sizeof(r->why));
	if (rc != 0)
		return rc;
	addresses_changed(c, p, &before, &change);
	c->ports[p->index].gids_left_out = change.left_out;
	memcpy(port->net.addrs, new_port->net.addrs, sizeof(port->net.addrs));
	port->net.nb_addrs = new_port->net.nb_addrs;
	return 0;
}

/** New paths use it; those that exist stay as they are. */
static int
apply_routers(struct reload *r, struct config_port *port, const struct config_port *new_port)
{
	struct net_port *p = r->c->s.ports[port_index(r->c, port)];

	memcpy(port->net.gateway4, new_port->net.gateway4, sizeof(port->net.gateway4));
	memcpy(port->net.gateway6, new_port->net.gateway6, sizeof(port->net.gateway6));
	memcpy(p->conf.gateway4, port->net.gateway4, sizeof(p->conf.gateway4));
	memcpy(p->conf.gateway6, port->net.gateway6, sizeof(p->conf.gateway6));
	memcpy(port->net.routes, new_port->net.routes, sizeof(port->net.routes));
	memcpy(p->conf.routes, port->net.routes, sizeof(p->conf.routes));
	port->net.nb_routes = p->conf.nb_routes = new_port->net.nb_routes;
	return 0;
}

static int
apply_mtu(struct reload *r, struct config_port *port, const struct config_port *new_port)
{
	struct net_port *p = r->c->s.ports[port_index(r->c, port)];
	int rc = net_port_mtu_configure(p, new_port->net.mtu, r->why, sizeof(r->why));

	if (rc != 0)
		return rc;
	port->net.mtu = new_port->net.mtu;
	mtu_changed(r->c, p);
	return 0;
}

static int
apply_log_level(struct reload *r, struct config_port *port, const struct config_port *new_port)
{
	/* Setting our level has replaced EAL's --log-level, so there is no default to return to. */
	if (r->new->log_level == 0)
		return ENOTSUP;
	rte_log_set_level_pattern("uroce.*", r->new->log_level);
	return 0;
}

/** Apply limits of the daemon, except those of tables with a fixed size: max_qp, max_mr, max_ah. */
static int
apply_limits(struct reload *r, struct config_port *port, const struct config_port *new_port)
{
	r->c->limit[OBJ_PD] = r->new->max_pd;
	r->c->limit[OBJ_CQ] = r->new->max_cq;
	r->c->limit[OBJ_SRQ] = r->new->max_srq;
	return 0;
}

/** Apply limits of programs and users. What they have beyond a new limit they keep. */
static int
apply_quotas(struct reload *r, struct config_port *port, const struct config_port *new_port)
{
	return 0;
}

static int
apply_share_sections(struct reload *r, struct config_port *port, const struct config_port *new_port)
{
	shares_apply_all(r->c, r->new);
	return 0;
}

/** balancing_poll() sees the new value. */
static int
apply_balance(struct reload *r, struct config_port *port, const struct config_port *new_port)
{
	return 0;
}

static const struct live_key live_keys[] = {
	{ "impair", true, apply_impair },
	{ "cc", true, apply_cc },
	{ "addresses", true, apply_addresses },
	{ "gateway4", true, apply_routers },
	{ "gateway6", true, apply_routers },
	{ "routes", true, apply_routers },
	{ "mtu", true, apply_mtu },
	{ "log_level", false, apply_log_level },
	{ "balance", false, apply_balance },
	{ "max_sessions", false, apply_limits },
	{ "max_pd", false, apply_limits },
	{ "max_cq", false, apply_limits },
	{ "max_srq", false, apply_limits },
#define X(kind, session, user, most, unit, plural) \
	{ "session_max_" #kind, false, apply_quotas }, { "user_max_" #kind, false, apply_quotas },
	CONFIG_QUOTAS(X)
#undef X
	{ "user_max_sessions", false, apply_quotas },
	{ "session_max_connects", false, apply_quotas },
	{ "user_max_connects", false, apply_quotas },
	{ "limit_root", false, apply_share_sections },
	{ "hello_timeout", false, apply_quotas },
	{ CONFIG_SHARES, false, apply_share_sections },
};

/* ---- A single setting, changed by the application ---- */
int
control_set_impair(struct control *c, unsigned int port, const struct impair_params *p)
{
	int rc;

	control_lock(c);
	rc = c->s.impairs == NULL ? EINVAL : impairing_set(c, port, p);
	control_unlock(c);
	return rc;
}

int
control_set_cc(struct control *c, unsigned int port, enum tp_cc cc)
{
	struct config_port new = { .cc = cc };
	struct reload r = { .c = c };
	int rc;

	if (port >= c->s.nb_ports)
		return EINVAL;
	control_lock(c);
	rc = apply_cc(&r, &c->s.conf->ports[port], &new);
	control_unlock(c);
	return rc;
}

/* ---- The reload ---- */
static const struct live_key *
find_live(const char *key, bool of_port)
{
	for (unsigned int i = 0; i < RTE_DIM(live_keys); i++)
		if (live_keys[i].of_port == of_port && strcmp(live_keys[i].name, key) == 0)
			return &live_keys[i];
	return NULL;
}

static void
on_difference(void *arg, const struct config_port *old_port, const struct config_port *new_port, const char *key)
{
	struct reload *r = arg;
	const struct config_port *port = old_port != NULL ? old_port : new_port;
	const struct live_key *live = find_live(key, port != NULL);
	char what[CONFIG_ERR_BYTES / 4];
	int rc = ENOTSUP;

	if (strcmp(key, CONFIG_SHARES) == 0)
		snprintf(what, sizeof(what), "%s", key);
	else
		snprintf(what, sizeof(what), "[%s%s]%s%s", port != NULL ? "port " : "daemon", port != NULL ? port->net.name : "",
			 key[0] != '\0' ? " " : "", key);
	r->why[0] = '\0';
	if (live != NULL)
		rc = live->apply(r, (struct config_port *)(uintptr_t)old_port, new_port);
	if (rc == 0) {
		if (port == NULL)
			config_copy(r->c->s.conf, r->new, key);
		r->applied++;
		CTL_LOG(NOTICE, "%s has changed", what);
		return;
	}
	if (rc != ENOTSUP)
		CTL_LOG(ERR, "%s could not be changed: %s", what, r->why[0] != '\0' ? r->why : strerror(rc));
	if (r->restart[0] != '\0')
		strlcat(r->restart, ", ", CONFIG_ERR_BYTES);
	strlcat(r->restart, what, CONFIG_ERR_BYTES);
}

/** @return 0 or an errno value with a message. */
static int
load(const struct control *c, struct uroced_config *new, char *err)
{
	if (c->s.config_file == NULL)
		return config_fail(err, ENOENT, "there is no file to read again: uroced was started without --config");
	return config_load(c->s.config_file, c->s.sets, c->s.nb_sets, new, err);
}

/** Find out whether the ports can have their new addresses, before anything is changed. @return 0 or an errno value with a message. */
static int
check_addresses(struct control *c, const struct uroced_config *new, char *err)
{
	char why[CONFIG_ERR_BYTES / 2];

	for (unsigned int i = 0; i < c->s.nb_ports; i++) {
		const struct net_port_config *old = &c->s.conf->ports[i].net;
		struct net_port *p = c->s.ports[i];

		for (unsigned int k = 0; k < new->nb_ports; k++) {
			const struct net_port_config *n = &new->ports[k].net;
			int rc;

			if (strcmp(old->name, n->name) != 0 || memcmp(old->addrs, n->addrs, sizeof(old->addrs)) == 0)
				continue;
			rc = net_port_addrs_configure(p, n->addrs, n->nb_addrs, addresses_busy(c, p), NULL, why, sizeof(why));
			if (rc != 0)
				return config_fail(err, rc, "[port %s] addresses: %s", n->name, why);
		}
	}
	return 0;
}

int
control_reload(struct control *c)
{
	struct uroced_config *new = malloc(sizeof(*new));
	struct reload r = { .c = c, .new = new, .restart = c->reloads.restart };
	char err[CONFIG_ERR_BYTES] = "no memory";
	int rc = new == NULL ? ENOMEM : load(c, new, err);

	if (rc == 0)
		rc = check_addresses(c, new, err);
	strlcpy(c->reloads.error, rc != 0 ? err : "", sizeof(c->reloads.error));
	if (rc != 0) {
		c->reloads.refused++;
		CTL_LOG(ERR, "configuration not reloaded: %s", err);
	} else {
		c->reloads.restart[0] = '\0';
		config_compare(c->s.conf, new, on_difference, &r);
		subuid_free(c->subuids);
		c->subuids = subuid_read(SUBUID_FILE);
		c->reloads.done++;
		CTL_LOG(NOTICE, "configuration read again: %u key%s changed", r.applied, r.applied == 1 ? "" : "s");
		if (r.restart[0] != '\0')
			CTL_LOG(WARNING, "these keys change when uroced is started anew, not before: %s", r.restart);
	}
	free(new);
	return rc;
}
