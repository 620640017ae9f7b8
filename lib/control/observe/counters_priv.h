/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The names of all counters, their offsets in their structs, and their descriptions in docs/counters.md.
 *
 * Telemetry and the exporter show what is in these tables. The descriptions are taken from the document when the
 * project is built, so that a test can find counters that aren't described there. Thread: any.
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
	const char *group; /**< as used in names of metrics: "transport" ... */
	const struct counter *counter;
	unsigned int n;
};
/** One per struct: engine_stats, tp_counters, net_counters, gsi_counters, cm_counters, impair_counters. */
extern const struct counter_table counters_engine, counters_transport, counters_net, counters_gsi, counters_cm, counters_impair;

/** @return counter @p i of @p t in struct @p base; another thread may be incrementing it. */
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
/** @return the description of a counter in the document, or NULL. */
const char *counter_help(const char *group, const char *name);

#endif /* UROCE_COUNTERS_H */
