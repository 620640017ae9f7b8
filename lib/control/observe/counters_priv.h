/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The names of all counters, where they stand in their structs, and what docs/counters.md says of each.
 *
 * Telemetry and the exporter show what these tables have; the texts come from the document, which is read when the
 * project is built, so that a counter that isn't explained there is missed by a test. Thread: any.
 */
#ifndef UROCE_COUNTERS_H
#define UROCE_COUNTERS_H

#include "control/core/control_priv.h"

struct counter {
	const char *name;
	size_t offset; /**< of its uint64_t */
};

/** Counters of one struct. */
struct counter_table {
	const char *group; /**< as it stands in names of metrics: "transport" ... */
	const struct counter *counter;
	unsigned int n;
};
/** By the struct: engine_stats, tp_counters, net_counters, gsi_counters, cm_counters, impair_counters. */
extern const struct counter_table counters_engine, counters_transport, counters_net, counters_gsi, counters_cm, counters_impair;

/** @return counter @p i of @p t in @p base; another thread may be adding to it. */
static inline uint64_t
counter_value(const struct counter_table *t, unsigned int i, const void *base)
{
	return counter_read((const uint64_t *)((const char *)base + t->counter[i].offset));
}

/** A row of the document. */
struct counter_help {
	const char *group, *name, *text;
};
extern const struct counter_help counter_helps[];
extern const unsigned int nb_counter_helps;
/** @return what the document says, or NULL: nothing. */
const char *counter_help(const char *group, const char *name);

#endif /* UROCE_COUNTERS_H */
