/* SPDX-License-Identifier: BSD-3-Clause */
/* Telemetry: engines. */
#include <stdio.h>

#include "control/observe/counters_priv.h"
#include "control/observe/inspect.h"
#include "control/observe/telemetry_priv.h"

static void
add_load(struct rte_tel_data *d, const struct inspect_engine *e)
{
	if (d == NULL)
		return;
	rte_tel_data_add_dict_uint(d, "load_percent", e->load_percent);
	rte_tel_data_add_dict_uint(d, "stalls", e->stalls);
	rte_tel_data_add_dict_uint(d, "control_stalls", e->control_stalls);
	tel_counters(d, &counters_engine, &e->stats);
}

static void
add_depths(struct rte_tel_data *d, const struct engine_depths *q)
{
	if (d == NULL)
		return;
	rte_tel_data_add_dict_uint(d, "qps", q->transport.qps);
	rte_tel_data_add_dict_uint(d, "active_qps", q->transport.active_qps);
	rte_tel_data_add_dict_uint(d, "sessions", q->sessions);
	rte_tel_data_add_dict_uint(d, "hot_sessions", q->hot_sessions);
	rte_tel_data_add_dict_uint(d, "inflight_blocks", q->transport.inflight_blocks);
	rte_tel_data_add_dict_uint(d, "inflight_blocks_max", q->transport.inflight_blocks_max);
	rte_tel_data_add_dict_uint(d, "reordered", q->transport.reordered);
	rte_tel_data_add_dict_uint(d, "reordered_max", q->transport.reordered_max);
	rte_tel_data_add_dict_uint(d, "tx_waiting", q->transport.tx_waiting);
	rte_tel_data_add_dict_uint(d, "mailbox", q->mailbox);
	rte_tel_data_add_dict_uint(d, "events", q->events);
	rte_tel_data_add_dict_uint(d, "mads", q->mads);
	rte_tel_data_add_dict_uint(d, "handoff", q->handoff);
	rte_tel_data_add_dict_uint(d, "send", q->send);
}

int
tel_engine(struct control *c, const char *params, struct rte_tel_data *d)
{
	struct inspect_engine e;
	unsigned long id;
	char *end, known[32];

	if (params[0] == '\0') {
		rte_tel_data_start_array(d, RTE_TEL_UINT_VAL);
		for (unsigned int i = 0; i < c->s.nb_engines; i++)
			rte_tel_data_add_array_uint(d, i);
		return 0;
	}
	id = strtoul(params, &end, 10);
	if (*end != '\0' || params[0] < '0' || params[0] > '9' || id > UINT32_MAX ||
	    inspect_engine(c, (unsigned int)id, &e) != 0) {
		snprintf(known, sizeof(known), "0 to %u", c->s.nb_engines - 1);
		return tel_unknown(d, "engine", params, known);
	}
	rte_tel_data_start_dict(d);
	add_load(tel_dict(d, "load"), &e);
	add_depths(tel_dict(d, "depths"), &e.depths);
	tel_counters(tel_dict(d, "transport"), &counters_transport, &e.transport);
	return 0;
}
