/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What telemetry's commands about objects share: numbers, filters, lists.
 *
 * Thread: as telemetry.h.
 */
#ifndef UROCE_TELEMETRY_OBJECTS_H
#define UROCE_TELEMETRY_OBJECTS_H

#include "control/observe/inspect.h"
#include "control/observe/telemetry_priv.h"

/**
 * Read filters.
 * @param params  Written to; @p f may point into it.
 * @return false: they are wrong, and @p d says so.
 */
bool tel_filter(const struct control *c, enum inspect_kind kind, char *params, struct inspect_filter *f,
		struct rte_tel_data *d);
/** Answer with the numbers of those that the filters in @p params leave. */
int tel_list(struct control *c, enum inspect_kind kind, const char *params, struct rte_tel_data *d);
/** Answer that there is none. */
int tel_gone(struct rte_tel_data *d, const char *what, const char *params);
void tel_cq_view(struct rte_tel_data *d, const struct cq_view *v);

#endif /* UROCE_TELEMETRY_OBJECTS_H */
