/* SPDX-License-Identifier: BSD-3-Clause */
/* Telemetry: sessions, CQs and MRs, and the filters for all objects. */
#include <stdio.h>

#include <bsd/string.h>
#include <rte_common.h>

#include "control/observe/telemetry_priv.h"

/* ---- Filters ---- */
static bool
filter_from(const struct control *c, struct inspect_filter *f, const char *value)
{
	return tel_number(value, &f->from);
}

static bool
filter_session(const struct control *c, struct inspect_filter *f, const char *value)
{
	return tel_number(value, &f->session) && f->session != 0;
}

static bool
filter_port(const struct control *c, struct inspect_filter *f, const char *value)
{
	f->port = tel_port_index(c, value);
	return f->port >= 0;
}

static bool
filter_program(const struct control *c, struct inspect_filter *f, const char *value)
{
	f->program = value;
	return true;
}

static bool
filter_state(const struct control *c, struct inspect_filter *f, const char *value)
{
	for (int i = 0; i < UROCE_QPS_STATES; i++)
		if (strcasecmp(qp_state_name((enum uroce_qp_state)i), value) == 0)
			f->state = i;
	return f->state >= 0;
}

static bool
filter_type(const struct control *c, struct inspect_filter *f, const char *value)
{
	for (int i = UROCE_QPT_RC; i <= UROCE_QPT_XRC_RECV; i++)
		if (strcasecmp(qp_type_name((enum uroce_qp_type)i), value) == 0)
			f->type = i;
	return f->type >= 0;
}

static bool
filter_peer(const struct control *c, struct inspect_filter *f, const char *value)
{
	uint64_t n;

	if (!tel_number(value, &n) || n == 0 || n > UINT32_MAX)
		return false;
	f->dest_qpn = (uint32_t)n;
	return true;
}

static const struct {
	const char *name;
	unsigned int kinds; /* bit 1 << enum inspect_kind */
	bool (*set)(const struct control *c, struct inspect_filter *f, const char *value);
} filters[] = {
	{ "from", ~0u, filter_from },
	{ "port", ~0u, filter_port },
	{ "program", ~0u, filter_program },
	{ "session", ~(1u << INSPECT_SESSION), filter_session },
	{ "state", 1u << INSPECT_QP, filter_state },
	{ "type", 1u << INSPECT_QP, filter_type },
	{ "peer", 1u << INSPECT_QP, filter_peer },
};

/** List the names of the filters of @p kind. @return @p text. */
static const char *
filter_names(enum inspect_kind kind, char *text, size_t bytes)
{
	text[0] = '\0';
	for (unsigned int i = 0; i < RTE_DIM(filters); i++) {
		if ((filters[i].kinds & (1u << kind)) == 0)
			continue;
		strlcat(text, text[0] != '\0' ? ", " : "", bytes);
		strlcat(text, filters[i].name, bytes);
	}
	return text;
}

/** @return NULL, or what is wrong with @p item. */
static const char *
set_filter(const struct control *c, enum inspect_kind kind, char *item, struct inspect_filter *f)
{
	char *value = strchr(item, '=');

	if (value == NULL)
		return "neither a number nor key=value";
	*value++ = '\0';
	for (unsigned int i = 0; i < RTE_DIM(filters); i++) {
		if ((filters[i].kinds & (1u << kind)) == 0 || strcmp(filters[i].name, item) != 0)
			continue;
		return filters[i].set(c, f, value) ? NULL : "no value of that key here";
	}
	return "no such key";
}

/** Read filters from @p params; @p f may point into it. @return false: they are wrong, and @p d says why. */
static bool
read_filters(const struct control *c, enum inspect_kind kind, char *params, struct inspect_filter *f, struct rte_tel_data *d)
{
	char text[CONFIG_ERR_BYTES], names[CONFIG_ERR_BYTES / 4], shown[CONFIG_ERR_BYTES / 4];
	const char *wrong;
	char *item;

	*f = INSPECT_ALL;
	while (params[0] != '\0' && (item = strsep(&params, ",")) != NULL) {
		strlcpy(shown, item, sizeof(shown));
		wrong = set_filter(c, kind, item, f);
		if (wrong != NULL) {
			snprintf(text, sizeof(text), "'%s': %s; give a number, or filters of: %s", shown, wrong,
				 filter_names(kind, names, sizeof(names)));
			tel_error(d, text);
			return false;
		}
		if (params == NULL)
			break;
	}
	return true;
}

int
tel_list(struct control *c, enum inspect_kind kind, const char *params, struct rte_tel_data *d)
{
	uint64_t numbers[TEL_LIST_MAX];
	char copy[CONFIG_ERR_BYTES];
	struct inspect_filter f;
	uint32_t all;

	strlcpy(copy, params, sizeof(copy));
	if (!read_filters(c, kind, copy, &f, d))
		return 0;
	all = inspect_list(c, kind, &f, numbers, TEL_LIST_MAX);
	tel_number_list(d, numbers, RTE_MIN(all, (uint32_t)TEL_LIST_MAX), all);
	return 0;
}

int
tel_gone(struct rte_tel_data *d, const char *what, const char *params)
{
	char text[CONFIG_ERR_BYTES];

	snprintf(text, sizeof(text), "there is no %s %s (any more)", what, params);
	return tel_error(d, text);
}

/* ---- Sessions ---- */
static void
add_share(struct rte_tel_data *d, const struct inspect_session *s)
{
	if (d == NULL)
		return;
	rte_tel_data_add_dict_uint(d, "weight", s->share.weight);
	rte_tel_data_add_dict_uint(d, "percent", s->share_percent);
	rte_tel_data_add_dict_string(d, "waits_for", share_wait_name(s->share.wait));
	rte_tel_data_add_dict_uint(d, "cost", s->share.stats.cost);
	rte_tel_data_add_dict_uint(d, "bytes", s->share.stats.bytes);
	rte_tel_data_add_dict_uint(d, "packets", s->share.stats.packets);
	rte_tel_data_add_dict_uint(d, "rounds", s->share.stats.rounds);
	rte_tel_data_add_dict_uint(d, "rate_waits", s->share.stats.limited);
	rte_tel_data_add_dict_uint(d, "refused", s->share.stats.refused);
	rte_tel_data_add_dict_uint(d, "active_qps", s->share.active_qps);
	rte_tel_data_add_dict_uint(d, "inflight_blocks", s->share.inflight_blocks);
	rte_tel_data_add_dict_uint(d, "read_blocks", s->share.read_blocks);
	rte_tel_data_add_dict_uint(d, "reordered", s->share.reordered);
}

int
tel_session(struct control *c, const char *params, struct rte_tel_data *d)
{
	struct inspect_session s;
	uint64_t number;

	if (!tel_number(params, &number))
		return tel_list(c, INSPECT_SESSION, params, d);
	if (inspect_session(c, number, &s) != 0)
		return tel_gone(d, "session", params);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "number", s.number);
	rte_tel_data_add_dict_string(d, "program", s.program);
	rte_tel_data_add_dict_uint(d, "pid", (uint64_t)s.pid);
	rte_tel_data_add_dict_uint(d, "uid", s.uid);
	rte_tel_data_add_dict_string(d, "device", s.device);
	rte_tel_data_add_dict_string(d, "kind", s.event_channel ? "rdma_cm" : "verbs");
	rte_tel_data_add_dict_uint(d, "qps", s.qps);
	rte_tel_data_add_dict_uint(d, "cqs", s.cqs);
	rte_tel_data_add_dict_uint(d, "srqs", s.srqs);
	rte_tel_data_add_dict_uint(d, "mrs", s.mrs);
	rte_tel_data_add_dict_uint(d, "mws", s.mws);
	rte_tel_data_add_dict_uint(d, "dms", s.dms);
	rte_tel_data_add_dict_uint(d, "pds", s.pds);
	rte_tel_data_add_dict_uint(d, "ahs", s.ahs);
	rte_tel_data_add_dict_uint(d, "xrcds", s.xrcds);
	rte_tel_data_add_dict_uint(d, "cm_ids", s.cm_ids);
	rte_tel_data_add_dict_uint(d, "ring_bytes", s.ring_bytes);
	rte_tel_data_add_dict_uint(d, "registered_bytes", s.registered_bytes);
	rte_tel_data_add_dict_uint(d, "maps", s.maps);
	rte_tel_data_add_dict_uint(d, "events_lost", s.events_lost);
	add_share(tel_dict(d, "share"), &s);
	tel_text(d, "waits", s.waits);
	return 0;
}

/* ---- CQs ---- */
void
tel_cq_view(struct rte_tel_data *d, const struct cq_view *v)
{
	static const char *const arms[] = { [RING_ARM_NONE] = "no",
					    [RING_ARM_ANY] = "any",
					    [RING_ARM_SOLICITED] = "solicited",
					    [RING_ARM_WATCHED] = "watched" };

	if (d == NULL)
		return;
	rte_tel_data_add_dict_uint(d, "entries", v->size);
	rte_tel_data_add_dict_uint(d, "unpolled", v->unpolled);
	rte_tel_data_add_dict_uint(d, "users", v->users);
	rte_tel_data_add_dict_string(d, "channel", v->channel ? "yes" : "no");
	/* The program can write any value to this word. */
	rte_tel_data_add_dict_string(d, "armed", v->armed < RTE_DIM(arms) ? arms[v->armed] : "?");
	rte_tel_data_add_dict_uint(d, "moderation_count", v->moderation >> 16);
	rte_tel_data_add_dict_uint(d, "moderation_us", v->moderation & UINT16_MAX);
	rte_tel_data_add_dict_string(d, "overrun", v->overrun ? "yes" : "no");
}

int
tel_cq(struct control *c, const char *params, struct rte_tel_data *d)
{
	struct inspect_cq cq;
	uint64_t number;

	if (!tel_number(params, &number))
		return tel_list(c, INSPECT_CQ, params, d);
	if (inspect_cq(c, number, &cq) != 0)
		return tel_gone(d, "CQ", params);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "number", cq.number);
	rte_tel_data_add_dict_uint(d, "session", cq.session);
	rte_tel_data_add_dict_string(d, "program", cq.program);
	tel_cq_view(d, &cq.v);
	return 0;
}

/* ---- MRs ---- */
static const struct {
	uint32_t bit;
	const char *name;
} access_bits[] = {
	{ UROCE_ACCESS_LOCAL_WRITE, "local_write" },
	{ UROCE_ACCESS_REMOTE_WRITE, "remote_write" },
	{ UROCE_ACCESS_REMOTE_READ, "remote_read" },
	{ UROCE_ACCESS_REMOTE_ATOMIC, "remote_atomic" },
	{ UROCE_ACCESS_MW_BIND, "mw_bind" },
	{ UROCE_ACCESS_ZERO_BASED, "zero_based" },
	{ UROCE_ACCESS_ON_DEMAND, "on_demand" },
	{ UROCE_ACCESS_FLUSH_GLOBAL, "flush_global" },
};

int
tel_mr(struct control *c, const char *params, struct rte_tel_data *d)
{
	struct rte_tel_data *a;
	struct inspect_mr mr;
	uint64_t number;

	if (!tel_number(params, &number))
		return tel_list(c, INSPECT_MR, params, d);
	if (number > UINT32_MAX || inspect_mr(c, (uint32_t)number, &mr) != 0)
		return tel_gone(d, "MR", params);
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_uint(d, "key", mr.key);
	rte_tel_data_add_dict_uint(d, "session", mr.session);
	rte_tel_data_add_dict_string(d, "program", mr.program);
	rte_tel_data_add_dict_uint(d, "pd", mr.pd);
	rte_tel_data_add_dict_uint(d, "addr", mr.addr);
	rte_tel_data_add_dict_uint(d, "iova", mr.iova);
	rte_tel_data_add_dict_uint(d, "length", mr.length);
	rte_tel_data_add_dict_uint(d, "mapped_bytes", mr.mapped_bytes);
	rte_tel_data_add_dict_uint(d, "segments", mr.segments);
	rte_tel_data_add_dict_uint(d, "windows", mr.windows);
	a = tel_array(d, "access", RTE_TEL_STRING_VAL);
	for (unsigned int i = 0; a != NULL && i < RTE_DIM(access_bits); i++)
		if (mr.access & access_bits[i].bit)
			rte_tel_data_add_array_string(a, access_bits[i].name);
	return 0;
}
