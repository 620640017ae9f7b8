/* SPDX-License-Identifier: BSD-3-Clause */
/* The CM instance: creation, dispatching received messages, timers. */
#include "cm/cm.h"

#include "cm/cm_priv.h"

static cm_handler *const handlers[CM_ATTR_COUNT] = {
	[CM_ATTR_REQ - CM_ATTR_FIRST] = handle_req,
	[CM_ATTR_MRA - CM_ATTR_FIRST] = handle_mra,
	[CM_ATTR_REJ - CM_ATTR_FIRST] = handle_rej,
	[CM_ATTR_REP - CM_ATTR_FIRST] = handle_rep,
	[CM_ATTR_RTU - CM_ATTR_FIRST] = handle_rtu,
	[CM_ATTR_DREQ - CM_ATTR_FIRST] = handle_dreq,
	[CM_ATTR_DREP - CM_ATTR_FIRST] = handle_drep,
	[CM_ATTR_SIDR_REQ - CM_ATTR_FIRST] = handle_sidr_req,
	[CM_ATTR_SIDR_REP - CM_ATTR_FIRST] = handle_sidr_rep,
	[CM_ATTR_LAP - CM_ATTR_FIRST] = handle_lap,
	[CM_ATTR_APR - CM_ATTR_FIRST] = handle_apr,
};

static const char *const event_names[CM_NB_EVENTS] = {
#define CM_X(name) #name,
	CM_EVENTS(CM_X)
#undef CM_X
};

const char *
cm_event_name(enum cm_event_type t)
{
	return (unsigned int)t < CM_NB_EVENTS ? event_names[t] : "unknown";
}

/* ---- Life ---- */
static uint32_t
or_default(uint32_t value, uint32_t dflt)
{
	return value != 0 ? value : dflt;
}

struct cm *
cm_open(const struct cm_config *config, uint64_t now_ns)
{
	uint32_t max_conns;
	struct cm *cm;

	if (config->ops.send == NULL || config->ops.event == NULL || config->max_conns > CM_MAX_CONNS_LIMIT)
		return cm_null(EINVAL);
	max_conns = or_default(config->max_conns, CM_DEFAULT_MAX_CONNS);
	cm = calloc(1, sizeof(*cm) + gen_table_bytes(max_conns));
	if (cm == NULL)
		return NULL;
	cm->cfg = *config;
	cm->cfg.max_conns = max_conns;
	cm->cfg.max_listeners = or_default(config->max_listeners, CM_DEFAULT_MAX_LISTENERS);
	cm->cfg.max_per_peer = or_default(config->max_per_peer, CM_DEFAULT_MAX_PER_PEER);
	cm->cfg.max_half_open = or_default(config->max_half_open, CM_DEFAULT_MAX_HALF_OPEN);
	cm->cfg.max_kept = or_default(config->max_kept, CM_DEFAULT_MAX_KEPT);
	cm_list_init(&cm->kept);
	cm_list_init(&cm->listeners);
	wheel_init(&cm->wheel, now_ns);
	if (table_init(cm) != 0) {
		table_free(cm);
		free(cm);
		return cm_null(ENOMEM);
	}
	return cm;
}

void
cm_close(struct cm *cm)
{
	if (cm == NULL)
		return;
	for (uint32_t i = 0; i < cm->cfg.max_conns; i++) {
		struct cm_conn *c = gen_table_get(&cm->ids, i);

		if (c == NULL)
			continue;
		/* Nodes that share a bucket point to each other: what is freed must not be linked any more. */
		table_del(&c->by_request);
		table_del(&c->by_qpn);
		peer_release(c);
		free(c);
	}
	while (!cm_list_empty(&cm->listeners)) {
		struct cm_listener *l = container_of(cm->listeners.next, struct cm_listener, all);

		cm_list_del(&l->all);
		free(l);
	}
	table_free(cm);
	free(cm);
}

const struct cm_counters *
cm_counters(const struct cm *cm)
{
	return &cm->counters;
}

void
cm_usage(const struct cm *cm, struct cm_usage *u)
{
	*u = (struct cm_usage){
		.conns = gen_table_count(&cm->ids),
		.half_open = cm->nb_half_open,
		.kept = cm->nb_kept,
		.listeners = cm->nb_listeners,
		.peers = cm->nb_peers,
		.timers = cm->nb_timers,
	};
}

/* ---- In ---- */
static void
count_bad_mad(struct cm *cm, enum cm_mad_verdict v)
{
	switch (v) {
	case CM_MAD_BAD_LENGTH:
		CM_COUNT(cm, rx_bad_length);
		break;
	case CM_MAD_BAD_VERSION:
		CM_COUNT(cm, rx_bad_version);
		break;
	case CM_MAD_OTHER_CLASS:
		CM_COUNT(cm, rx_other_class);
		break;
	case CM_MAD_BAD_METHOD:
		CM_COUNT(cm, rx_bad_method);
		break;
	case CM_MAD_BAD_ATTRIBUTE:
		CM_COUNT(cm, rx_bad_attribute);
		break;
	default:
		CM_COUNT(cm, rx_bad_field);
	}
}

void
cm_rx(struct cm *cm, const struct cm_av *av, const uint8_t *mad, size_t len, uint64_t now_ns)
{
	struct cm_event ev = { .type = CM_NB_EVENTS };
	enum cm_mad_verdict v;
	struct cm_msg m;

	CM_COUNT(cm, rx_mads);
	v = cm_mad_decode(mad, len, &m);
	if (v != CM_MAD_OK) {
		count_bad_mad(cm, v);
		return;
	}
	handlers[m.hdr.attr_id - CM_ATTR_FIRST](cm, av, &m, now_ns, &ev);
	cm_event_deliver(cm, &ev);
}

/* ---- Timers ---- */
struct turn {
	struct cm *cm;
	uint64_t now_ns;
};

static void
timer_fired(struct wheel_entry *e, void *arg)
{
	struct cm_conn *c = container_of(e, struct cm_conn, timer);
	struct cm_event ev = { .type = CM_NB_EVENTS };
	struct turn *t = arg;

	t->cm->nb_timers--;
	conn_expired(c, t->now_ns, &ev);
	if (ev.type == CM_NB_EVENTS)
		conn_reap(c);
	else
		cm_event_deliver(t->cm, &ev);
}

void
cm_run(struct cm *cm, uint64_t now_ns)
{
	struct turn t = { cm, now_ns };

	wheel_advance(&cm->wheel, now_ns, timer_fired, &t);
}

uint64_t
cm_next_timeout(const struct cm *cm)
{
	return wheel_next(&cm->wheel);
}
