/* SPDX-License-Identifier: BSD-3-Clause */
/* Telemetry: engines. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_common.h>

#include "inspect.h"
#include "telemetry.h"

static const struct {
	const char *name;
	size_t offset;
} engine_counters[] = {
#define E(field) { #field, offsetof(struct engine_stats, field) }
#define B(i, name) { "rx_bursts_" name, offsetof(struct engine_stats, rx_bursts_of) + (i) * sizeof(uint64_t) }
	E(turns), E(busy_turns), E(idle_turns), E(late_turns), E(sleeps), E(busy_cycles), E(idle_cycles), E(rx_bursts), E(rx_packets),
	B(0, "1"), B(1, "2_3"), B(2, "4_7"), B(3, "8_15"), B(4, "16_31"), B(5, "32"),
	E(tx_packets), E(doorbells), E(mailbox), E(events_lost), E(failures_unsaid), E(handoff_dropped),
	E(mads_dropped), E(send_dropped), E(tx_stuck_dropped),
#undef E
#undef B
};
static_assert(sizeof(engine_counters) / sizeof(engine_counters[0]) * sizeof(uint64_t) == sizeof(struct engine_stats),
	      "every counter of an engine is shown");

static void
add_load(struct rte_tel_data *d, const struct inspect_engine *e)
{
	if (d == NULL)
		return;
	rte_tel_data_add_dict_u64(d, "load_percent", e->load_percent);
	for (unsigned int i = 0; i < RTE_DIM(engine_counters); i++)
		rte_tel_data_add_dict_u64(d, engine_counters[i].name,
					  *(const uint64_t *)((const char *)&e->stats + engine_counters[i].offset));
}

static void
add_depths(struct rte_tel_data *d, const struct engine_depths *q)
{
	if (d == NULL)
		return;
	rte_tel_data_add_dict_u64(d, "qps", q->transport.qps);
	rte_tel_data_add_dict_u64(d, "active_qps", q->transport.active_qps);
	rte_tel_data_add_dict_u64(d, "sessions", q->sessions);
	rte_tel_data_add_dict_u64(d, "hot_sessions", q->hot_sessions);
	rte_tel_data_add_dict_u64(d, "windows", q->transport.windows);
	rte_tel_data_add_dict_u64(d, "windows_max", q->transport.windows_max);
	rte_tel_data_add_dict_u64(d, "held", q->transport.held);
	rte_tel_data_add_dict_u64(d, "held_max", q->transport.held_max);
	rte_tel_data_add_dict_u64(d, "tx_waiting", q->transport.tx_waiting);
	rte_tel_data_add_dict_u64(d, "mailbox", q->mailbox);
	rte_tel_data_add_dict_u64(d, "events", q->events);
	rte_tel_data_add_dict_u64(d, "mads", q->mads);
	rte_tel_data_add_dict_u64(d, "handoff", q->handoff);
	rte_tel_data_add_dict_u64(d, "send", q->send);
}

int
tel_engine(struct control *c, const char *params, struct rte_tel_data *d)
{
	struct rte_tel_data *in;
	struct inspect_engine e;
	unsigned long id;
	char *end, known[32];

	if (params[0] == '\0') {
		rte_tel_data_start_array(d, RTE_TEL_U64_VAL);
		for (unsigned int i = 0; i < c->s.nb_engines; i++)
			rte_tel_data_add_array_u64(d, i);
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
	in = tel_dict(d, "transport");
#define TP_X(name) \
	if (in != NULL) \
		rte_tel_data_add_dict_u64(in, #name, e.transport.name);
	TP_COUNTERS(TP_X)
#undef TP_X
	return 0;
}
