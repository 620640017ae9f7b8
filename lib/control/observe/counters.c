/* SPDX-License-Identifier: BSD-3-Clause */
#include <assert.h>

#include <rte_common.h>

#include "cm/cm.h"
#include "control/cma/gsi.h"
#include "control/observe/counters_priv.h"
#include "engine/engine.h"
#include "impair.h"

#define TABLE(group, list) const struct counter_table counters_##group = { #group, list, RTE_DIM(list) }
/* Checks that a struct has no counters that its list lacks. */
#define ALL_OF(list, type) \
	static_assert(sizeof(list) / sizeof(list[0]) * sizeof(uint64_t) == sizeof(type), "every counter has a name")

static const struct counter engine_list[] = {
#define E(field) { #field, offsetof(struct engine_stats, field) }
#define B(i, name) { "rx_bursts_" name, offsetof(struct engine_stats, rx_bursts_of) + (i) * sizeof(uint64_t) }
	E(turns), E(busy_turns), E(idle_turns), E(late_turns), E(sleeps), E(busy_cycles), E(idle_cycles), E(rx_bursts), E(rx_packets),
	B(0, "1"), B(1, "2_3"), B(2, "4_7"), B(3, "8_15"), B(4, "16_31"), B(5, "32"),
	E(tx_packets), E(doorbells), E(mailbox), E(events_lost), E(failures_unsaid), E(handoff_dropped),
	E(mads_dropped), E(send_dropped), E(tx_stuck_dropped),
#undef E
#undef B
};
ALL_OF(engine_list, struct engine_stats);
TABLE(engine, engine_list);

/* Structs defined by lists of X(name), and their tables. */
#define TP(field) { #field, offsetof(struct tp_counters, field) },
static const struct counter transport_list[] = { TP_COUNTERS(TP) };
ALL_OF(transport_list, struct tp_counters);
TABLE(transport, transport_list);

#define NET(field) { #field, offsetof(struct net_counters, field) },
static const struct counter net_list[] = { NET_COUNTERS(NET) };
ALL_OF(net_list, struct net_counters);
TABLE(net, net_list);

#define GSI(field) { #field, offsetof(struct gsi_counters, field) },
static const struct counter gsi_list[] = { GSI_COUNTERS(GSI) };
ALL_OF(gsi_list, struct gsi_counters);
TABLE(gsi, gsi_list);

#define CM(field) { #field, offsetof(struct cm_counters, field) },
static const struct counter cm_list[] = { CM_COUNTERS(CM) };
ALL_OF(cm_list, struct cm_counters);
TABLE(cm, cm_list);

#define IMPAIR(field) { #field, offsetof(struct impair_counters, field) },
static const struct counter impair_list[] = { IMPAIR_COUNTERS(IMPAIR) };
TABLE(impair, impair_list);

const struct counter_help counter_helps[] = {
#include "counter_help.inc"
};
const unsigned int nb_counter_helps = RTE_DIM(counter_helps);

const char *
counter_help(const char *group, const char *name)
{
	for (unsigned int i = 0; i < nb_counter_helps; i++)
		if (strcmp(counter_helps[i].group, group) == 0 && strcmp(counter_helps[i].name, name) == 0)
			return counter_helps[i].text;
	return NULL;
}
