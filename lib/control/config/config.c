/* SPDX-License-Identifier: BSD-3-Clause */
/* The keys, their allowed values, and the configuration as a whole. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>
#include <rte_common.h>
#include <rte_log.h>

#include "base/gid.h"
#include "base/near.h"
#include "cm/cm.h"
#include "control/config/config_key_priv.h"
#include "control/config/config_source_priv.h"

static const char *const idle_words[] = {
	[ENGINE_IDLE_POLL] = "poll",
	[ENGINE_IDLE_ADAPTIVE] = "adaptive",
	[ENGINE_IDLE_INTERRUPT] = "interrupt",
	NULL,
};
#define CC_WORD(NAME, name) [TP_CC_##NAME] = #name,
static const char *const cc_words[] = { [TP_CC_NONE] = "none", CC_TABLE(CC_WORD) NULL };
#undef CC_WORD
static const char *const switch_words[] = { "off", "on", NULL };
static const char *const log_words[] = {
	[0] = "default",
	[RTE_LOG_EMERG] = "emergency",
	[RTE_LOG_ALERT] = "alert",
	[RTE_LOG_CRIT] = "critical",
	[RTE_LOG_ERR] = "error",
	[RTE_LOG_WARNING] = "warning",
	[RTE_LOG_NOTICE] = "notice",
	[RTE_LOG_INFO] = "info",
	[RTE_LOG_DEBUG] = "debug",
	NULL,
};

#define D(field) offsetof(struct uroced_config, field), sizeof(((struct uroced_config *)NULL)->field)
static const struct config_key daemon_keys[] = {
	{ "socket", D(socket), config_parse_path, 0, CONFIG_SOCKET_BYTES, NULL },
	{ "socket_mode", D(socket_mode), config_parse_mode, 0, 0777, NULL },
	{ "socket_group", D(socket_group), config_parse_group, 0, CONFIG_GROUP_BYTES, NULL },
	{ "user", D(user), config_parse_user, 0, CONFIG_GROUP_BYTES, NULL },
	{ "seccomp", D(seccomp), config_parse_switch, 0, 0, switch_words },
	{ "idle", D(idle), config_parse_word, 0, 0, idle_words },
	{ "balance", D(balance), config_parse_switch, 0, 0, switch_words },
	{ "mbufs", D(mbufs), config_parse_u32, 1024, 1 << 24, NULL },
	{ "log_level", D(log_level), config_parse_word, 0, 0, log_words },
	{ "max_sessions", D(max_sessions), config_parse_u32, 1, UROCE_MAX_SESSIONS, NULL },
	{ "max_pd", D(max_pd), config_parse_u32, 1, UROCE_MAX_PD, NULL },
	{ "max_mr", D(max_mr), config_parse_u32, 1, UROCE_MAX_MR, NULL },
	{ "max_cq", D(max_cq), config_parse_u32, 1, UROCE_MAX_CQ, NULL },
	{ "max_srq", D(max_srq), config_parse_u32, 1, UROCE_MAX_SRQ, NULL },
	{ "max_qp", D(max_qp), config_parse_u32, 1, UROCE_MAX_QP, NULL },
	{ "max_ah", D(max_ah), config_parse_u32, 1, UROCE_MAX_AH, NULL },
	{ "max_cm_id", D(max_cm_id), config_parse_u32, 1, UROCE_MAX_CM_ID, NULL },
	{ "max_peer_connections", D(max_peer_connections), config_parse_u32, 1, CM_DEFAULT_MAX_CONNS, NULL },
	{ "max_half_open", D(max_half_open), config_parse_u32, 1, CM_DEFAULT_MAX_CONNS, NULL },
#define X(kind, session, user, most, unit, plural) \
	{ "session_max_" #kind, D(session_max_##kind), config_parse_u32, 0, most, NULL }, \
	{ "user_max_" #kind, D(user_max_##kind), config_parse_u32, 0, most, NULL },
	CONFIG_QUOTAS(X)
#undef X
	{ "user_max_sessions", D(user_max_sessions), config_parse_u32, 0, UROCE_MAX_SESSIONS, NULL },
	{ "session_max_connects", D(session_max_connects), config_parse_u32, 0, UINT32_MAX, NULL },
	{ "user_max_connects", D(user_max_connects), config_parse_u32, 0, UINT32_MAX, NULL },
	{ "by_reference", D(by_reference), config_parse_switch, 0, 0, switch_words },
	{ "limit_root", D(limit_root), config_parse_switch, 0, 0, switch_words },
	{ "hello_timeout", D(hello_timeout), config_parse_u32, 1, 3600, NULL },
	{ "survive_crash", D(survive_crash), config_parse_u32, 0, 3600, NULL },
	{ "metrics", D(metrics), config_parse_metrics, 0, CONFIG_METRICS_BYTES, NULL },
	{ "telemetry", D(telemetry), config_parse_switch, 0, 0, switch_words },
	{ "userfaultfd", D(userfaultfd), config_parse_switch, 0, 0, switch_words },
	{ .name = NULL },
};
#undef D
#define P(field) offsetof(struct config_port, field), sizeof(((struct config_port *)NULL)->field)
static const struct config_key port_keys[] = {
	{ "ethdev", P(net.ethdev), config_parse_text, 0, NET_NAME_BYTES, NULL },
	{ "addresses", P(net.addrs), config_parse_addresses, 0, UROCE_MAX_GIDS - 1, NULL },
	{ "gateway4", P(net.gateway4), config_parse_gateway, 0, 4, NULL },
	{ "gateway6", P(net.gateway6), config_parse_gateway, 0, 16, NULL },
	{ "routes", P(net.routes), config_parse_routes, 0, NET_MAX_ROUTES, NULL },
	{ "vlan", P(net.vlan_id), config_parse_u16, 0, 4094, NULL },
	{ "mtu", P(net.mtu), config_parse_u16, 576, 9600, NULL },
	{ "pkeys", P(net.pkeys), config_parse_pkeys, 0, UROCE_MAX_PKEYS, NULL },
	{ "rx_desc", P(net.rx_desc), config_parse_u16, 32, 32768, NULL },
	{ "tx_desc", P(net.tx_desc), config_parse_u16, 32, 32768, NULL },
	{ "cc", P(cc), config_parse_word, 0, 0, cc_words },
	{ "selective_repeat", P(features.selective_repeat), config_parse_switch, 0, 0, switch_words },
	{ "tail_loss_probe", P(features.tail_loss_probe), config_parse_switch, 0, 0, switch_words },
	{ "credits", P(features.credits), config_parse_switch, 0, 0, switch_words },
	{ "ack_coalescing", P(features.ack_coalescing), config_parse_switch, 0, 0, switch_words },
	{ "impair", P(impair), config_parse_impair, 0, 0, NULL },
	{ .name = NULL },
};
#undef P
#define S(field) offsetof(struct config_share, field), sizeof(((struct config_share *)NULL)->field)
static const struct config_key share_keys[] = {
	{ "users", S(users), config_parse_ids, 0, 0, NULL },
	{ "groups", S(groups), config_parse_ids, 0, 1, NULL },
	{ "weight", S(weight), config_parse_u32, SHARE_WEIGHT_MIN, SHARE_WEIGHT_MAX, NULL },
	{ "rate_mbps", S(rate_mbps), config_parse_u32, 0, 4000000, NULL },
	{ "rate_packets", S(rate_packets), config_parse_u32, 0, UINT32_MAX, NULL },
	{ .name = NULL },
};
#undef S

/** @return the MiB of queues that a user may have: an eighth of the host's memory, at least what programs of ordinary size need. */
static uint32_t
default_user_rings(void)
{
	const uint64_t mib = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / CONFIG_MIB;

	return mib / 8 < 512 ? 512 : (uint32_t)RTE_MIN(mib / 8, (uint64_t)UINT32_MAX);
}

void
config_defaults(struct uroced_config *c)
{
	*c = (struct uroced_config){
		.socket = CTL_DEFAULT_SOCKET,
		.socket_mode = 0660,
		.seccomp = true,
		.idle = ENGINE_IDLE_ADAPTIVE,
		.by_reference = true,
		.max_sessions = UROCE_MAX_SESSIONS,
		.max_pd = UROCE_MAX_PD,
		.max_mr = UROCE_MAX_MR,
		.max_cq = UROCE_MAX_CQ,
		.max_srq = UROCE_MAX_SRQ,
		.max_qp = UROCE_MAX_QP,
		.max_ah = UROCE_MAX_AH,
		.max_cm_id = UROCE_MAX_CM_ID,
		.max_peer_connections = CM_DEFAULT_MAX_PER_PEER,
		.max_half_open = CM_DEFAULT_MAX_HALF_OPEN,
#define X(kind, session, user, most, unit, plural) .session_max_##kind = session, .user_max_##kind = user,
		CONFIG_QUOTAS(X)
#undef X
		.user_max_sessions = UROCE_MAX_SESSIONS / 4,
		.session_max_connects = 16384,
		.user_max_connects = 16384,
		.hello_timeout = 5,
		.telemetry = true,
	};
	c->user_max_rings = default_user_rings();
}

static const struct config_port *
find_port(const struct uroced_config *c, const char *name)
{
	for (unsigned int i = 0; i < c->nb_ports; i++)
		if (strcmp(c->ports[i].net.name, name) == 0)
			return &c->ports[i];
	return NULL;
}

/** @return the port that the section of @p s is about, added if it is new; NULL with a message. */
static struct config_port *
port_of_section(struct uroced_config *c, const struct config_setting *s, char *err)
{
	const char *name = s->section + strlen("port ");
	struct config_port *p;
	uint64_t number;

	if (strncmp(name, "uroce", 5) != 0 || config_number(name + 5, 10, &number) != 0 || number >= UROCE_MAX_PORTS ||
	    (name[5] == '0' && name[6] != '\0')) {
		config_error(err, s, "a port is named uroce0 to uroce%d", UROCE_MAX_PORTS - 1);
		return NULL;
	}
	p = (struct config_port *)(uintptr_t)find_port(c, name);
	if (p != NULL)
		return p;
	/* Names are distinct and their numbers below UROCE_MAX_PORTS, so there is room. */
	p = &c->ports[c->nb_ports++];
	*p = (struct config_port){ .net.pkeys = { 0xffff }, .features = TP_FEATURES_ALL };
	strlcpy(p->net.name, name, sizeof(p->net.name));
	return p;
}

/** The keys of CONFIG_QUOTAS, as a message lists them. */
#define X(kind, session, user, most, unit, plural) " " #kind
static const char quota_keys[] = ", and session_max_KIND and user_max_KIND with a KIND of" CONFIG_QUOTAS(X);
#undef X

static bool
is_quota(const struct config_key *k)
{
#define X(kind, session, user, most, unit, plural) \
	if (strcmp(k->name, "session_max_" #kind) == 0 || strcmp(k->name, "user_max_" #kind) == 0) \
		return true;
	CONFIG_QUOTAS(X)
#undef X
	return false;
}

/** @return the share that the section of @p s is about, added if it is new; NULL with a message. */
static struct config_share *
share_of_section(struct uroced_config *c, const struct config_setting *s, char *err)
{
	const char *name = s->section + strlen("share ");
	struct config_share *share;

	for (unsigned int i = 0; i < c->nb_shares; i++)
		if (strcmp(c->shares[i].name, name) == 0)
			return &c->shares[i];
	if (name[0] == '\0' || strlen(name) >= sizeof(share->name)) {
		config_error(err, s, "the name of a share must have 1 to %d characters", CONFIG_SHARE_BYTES - 1);
		return NULL;
	}
	if (c->nb_shares == CONFIG_MAX_SHARES) {
		config_error(err, s, "at most %d sections [share ...]", CONFIG_MAX_SHARES);
		return NULL;
	}
	share = &c->shares[c->nb_shares++];
	memset(share, 0, sizeof(*share));
	share->weight = SHARE_WEIGHT_USUAL;
	strlcpy(share->name, name, sizeof(share->name));
	return share;
}

static int
apply(struct uroced_config *c, const struct config_setting *s, char *err)
{
	const struct config_key *keys, *k;
	char why[CONFIG_ERR_BYTES / 2], known[CONFIG_ERR_BYTES] = "";
	struct near near = { 0 };
	void *base;

	if (strcmp(s->section, "daemon") == 0) {
		keys = daemon_keys;
		base = c;
	} else if (strncmp(s->section, "port ", 5) == 0) {
		keys = port_keys;
		base = port_of_section(c, s, err);
		if (base == NULL)
			return EINVAL;
	} else if (strncmp(s->section, "share ", 6) == 0) {
		keys = share_keys;
		base = share_of_section(c, s, err);
		if (base == NULL)
			return EINVAL;
	} else {
		return config_error(err, s, "unknown section; there are [daemon], [port uroceN] and [share NAME]");
	}
	if (s->key[0] == '\0')
		return 0; /* the section's own line */
	for (k = keys; k->name != NULL && strcmp(k->name, s->key) != 0; k++) {
		near_look(&near, s->key, k->name);
		if (is_quota(k))
			continue;
		strlcat(known, k == keys ? "" : ", ", sizeof(known));
		strlcat(known, k->name, sizeof(known));
	}
	if (k->name == NULL && near.word != NULL)
		return config_error(err, s, "unknown key; did you mean %s?", near.word);
	if (k->name == NULL)
		return config_error(err, s, "unknown key; there are %s%s", known, keys == daemon_keys ? quota_keys : "");
	if (k->parse(k, s->value, (char *)base + k->offset, why, sizeof(why)) != 0)
		return config_error(err, s, "%s", why);
	return 0;
}

/** Apply all settings. A section with a wrong name is told once, and its keys are left out. */
static void
apply_all(struct uroced_config *c, const struct config_source *src, struct config_problems *problems)
{
	const struct config_setting *wrong = NULL;
	char err[CONFIG_ERR_BYTES];

	for (unsigned int i = 0; i < src->nb; i++) {
		const struct config_setting *s = &src->settings[i];

		if (wrong != NULL && s->file != NULL && strcmp(wrong->section, s->section) == 0)
			continue;
		if (apply(c, s, err) == 0)
			continue;
		if (s->key[0] == '\0')
			wrong = s;
		if (!config_problem(problems, err))
			return;
	}
}

/** @return whether one of the networks contains the other. Every port has the one of link-local addresses. */
static bool
overlap(const struct net_addr *a, const struct net_addr *b)
{
	return gid_is_v4(&a->gid) == gid_is_v4(&b->gid) && !gid_is_link_local(&a->gid) && !gid_is_link_local(&b->gid) &&
	       gid_same_subnet(&a->gid, &b->gid, RTE_MIN(a->prefix, b->prefix));
}

/** Check that two ports don't have the same address, or addresses of the same network, in one VLAN. */
static int
check_addresses(const struct net_port_config *a, const struct net_port_config *b, const char *where, char *err)
{
	char text[GID_TEXT_BYTES], other[GID_TEXT_BYTES];

	for (unsigned int i = 0; i < a->nb_addrs; i++) {
		for (unsigned int j = 0; j < b->nb_addrs; j++) {
			const struct net_addr *x = &a->addrs[i], *y = &b->addrs[j];

			if (net_addr_vlan(a, x) != net_addr_vlan(b, y))
				continue;
			if (gid_equal(&x->gid, &y->gid))
				return config_fail(err, EINVAL,
						   "%s: [port %s] and [port %s] have the same address %s; give each its own, or put them into "
						   "different VLANs",
						   where, a->name, b->name, gid_text(&x->gid, text));
			if (overlap(x, y))
				return config_fail(err, EINVAL,
						   "%s: [port %s] with %s/%u and [port %s] with %s/%u are in one network, so that a peer there could be "
						   "reached through either; give each a network of its own, or put them into different VLANs",
						   where, a->name, gid_text(&x->gid, text), x->prefix, b->name, gid_text(&y->gid, other),
						   y->prefix);
		}
	}
	return 0;
}

/** Make the checks that need the complete configuration. */
static int
check_whole(const struct uroced_config *c, const char *file, char *err)
{
	const char *where = file != NULL ? file : "command line";
	unsigned int i, j;

	if (c->nb_ports == 0)
		return config_fail(err, EINVAL,
			        "%s: no port; add a section [port uroce0] with a key ethdev, or give "
			    "--set 'port uroce0.ethdev=NAME'",
			    where);
	for (i = 0; i < c->nb_ports; i++) {
		if (c->ports[i].net.ethdev[0] == '\0')
			return config_fail(err, EINVAL,
			        "%s: [port %s] has no ethdev; name the DPDK port, for example ethdev = net_memif0 "
				    "or ethdev = 0000:03:00.0",
				    where, c->ports[i].net.name);
		for (j = 0; j < i; j++) {
			if (strcmp(c->ports[i].net.ethdev, c->ports[j].net.ethdev) == 0)
				return config_fail(err, EINVAL,
			        "%s: [port %s] and [port %s] have the same ethdev %s; give each its own",
					    where, c->ports[j].net.name, c->ports[i].net.name, c->ports[i].net.ethdev);
			if (check_addresses(&c->ports[j].net, &c->ports[i].net, where, err) != 0)
				return EINVAL;
		}
	}
	for (i = 0; i < c->nb_shares; i++) {
		const struct config_share *s = &c->shares[i];

		if (s->users.nb == 0 && !s->users.all && s->groups.nb == 0 && !s->groups.all)
			return config_fail(err, EINVAL, "%s: [share %s] is for nobody; give it users or groups, or users = * for all", where,
					   s->name);
	}
	return 0;
}

static int
load(const char *file, const char *const *sets, unsigned int nb_sets, struct uroced_config *c, struct config_problems *problems)
{
	struct config_source *src = calloc(1, sizeof(*src));
	char err[CONFIG_ERR_BYTES];
	int rc;

	config_defaults(c);
	if (src == NULL) {
		config_problem(problems, "no memory for the configuration");
		return ENOMEM;
	}
	rc = file != NULL ? config_source_file(src, file, problems) : 0;
	if (rc == 0 || rc == EINVAL) {
		for (unsigned int i = 0; i < nb_sets; i++)
			if (config_source_set(src, sets[i], err) != 0)
				config_problem(problems, err);
		apply_all(c, src, problems);
		/* What is missing may be what has a mistake. */
		if (problems->nb == 0 && check_whole(c, file, err) != 0)
			config_problem(problems, err);
		rc = problems->nb > 0 ? EINVAL : 0;
	}
	free(src);
	return rc;
}

int
config_load_telling(const char *file, const char *const *sets, unsigned int nb_sets, struct uroced_config *c, config_problem_fn *tell,
		    void *arg)
{
	struct config_problems problems = { .tell = tell, .arg = arg };

	return load(file, sets, nb_sets, c, &problems);
}

int
config_load(const char *file, const char *const *sets, unsigned int nb_sets, struct uroced_config *c, char *err)
{
	struct config_problems problems = { .nb = 0 };
	int rc = load(file, sets, nb_sets, c, &problems);

	if (rc != 0)
		strlcpy(err, problems.first, CONFIG_ERR_BYTES);
	return rc;
}

static void
compare_keys(const struct config_key *keys, const void *old, const void *new, const struct config_port *old_port,
	     const struct config_port *new_port, config_differs_fn differs, void *arg)
{
	for (const struct config_key *k = keys; k->name != NULL; k++)
		if (memcmp((const char *)old + k->offset, (const char *)new + k->offset, k->bytes) != 0)
			differs(arg, old_port, new_port, k->name);
}

void
config_compare(const struct uroced_config *old, const struct uroced_config *new, config_differs_fn differs, void *arg)
{
	const struct config_port *other;

	compare_keys(daemon_keys, old, new, NULL, NULL, differs, arg);
	if (old->nb_shares != new->nb_shares || memcmp(old->shares, new->shares, sizeof(old->shares)) != 0)
		differs(arg, NULL, NULL, CONFIG_SHARES);
	for (unsigned int i = 0; i < old->nb_ports; i++) {
		other = find_port(new, old->ports[i].net.name);
		if (other == NULL)
			differs(arg, &old->ports[i], NULL, "");
		else
			compare_keys(port_keys, &old->ports[i], other, &old->ports[i], other, differs, arg);
	}
	for (unsigned int i = 0; i < new->nb_ports; i++)
		if (find_port(old, new->ports[i].net.name) == NULL)
			differs(arg, NULL, &new->ports[i], "");
}

void
config_copy(struct uroced_config *to, const struct uroced_config *from, const char *key)
{
	for (const struct config_key *k = daemon_keys; k->name != NULL; k++)
		if (strcmp(k->name, key) == 0)
			memcpy((char *)to + k->offset, (const char *)from + k->offset, k->bytes);
	if (strcmp(key, CONFIG_SHARES) == 0) {
		memcpy(to->shares, from->shares, sizeof(to->shares));
		to->nb_shares = from->nb_shares;
	}
}
