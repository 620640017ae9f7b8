/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA WRITE from all hosts to one, and how evenly they share its bandwidth. */
#include <stdio.h>

#include "workload.h"

/** Jain's fairness index: 1 if all QPs got the same, 1/n if one got everything. */
static void
describe(const struct workload *w, char *text, size_t bytes)
{
	double sum = 0, squares = 0;
	unsigned int n = 0;

	for (unsigned int i = 0; i < w->nb_lanes; i++)
		for (uint32_t k = 0; k < w->lanes[i]->nb_eps; k++) {
			const struct endpoint *ep = &w->lanes[i]->eps[k];
			double ops = (double)atomic_load_explicit(&ep->ops, memory_order_relaxed);

			if (!ep->active)
				continue;
			sum += ops;
			squares += ops * ops;
			n++;
		}
	snprintf(text, bytes, "%u QPs, fairness %.3f", n, squares > 0 ? sum * sum / (n * squares) : 1);
}

static const struct workload_ops incast_ops = {
	.name = "incast",
	.help = "RDMA WRITE from all other hosts to one",
	.qp_type = IBV_QPT_RC,
	.opcode = IBV_WR_RDMA_WRITE,
	.many_to_one = true,
	.reaches_memory = true,
	.areas = 1,
	.describe = describe,
};
WORKLOAD(incast_ops)
