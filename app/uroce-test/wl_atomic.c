/* SPDX-License-Identifier: BSD-3-Clause */
/* FETCH_ADD: each QP counts its operations in the first 8 bytes of its peer's memory, which is compared at the end. */
#include <string.h>

#include "workload.h"

enum { OPERAND_BYTES = 8 };

static void
make(struct endpoint *ep, uint32_t slot, struct ibv_send_wr *wr)
{
	wr->wr.atomic.remote_addr = ep->remote;
	wr->wr.atomic.rkey = ep->rkey;
	wr->wr.atomic.compare_add = 1;
}

static int
check(struct workload *w)
{
	for (unsigned int i = 0; i < w->nb_lanes; i++)
		for (uint32_t k = 0; k < w->lanes[i]->nb_eps; k++) {
			const struct endpoint *ep = &w->lanes[i]->eps[k];
			uint64_t sum;

			if (!ep->active || ep->peer == NULL)
				continue;
			memcpy(&sum, ep->peer->mem, sizeof(sum));
			if (sum != ep->done) {
				workload_fail(w, "QP %u: %llu additions came out as %llu", ep->number, (unsigned long long)ep->done,
					      (unsigned long long)sum);
				return -1;
			}
		}
	return 0;
}

static const struct workload_ops atomic_ops = {
	.name = "atomic",
	.help = "FETCH_ADD on one counter per QP; the sums are checked at the end",
	.qp_type = IBV_QPT_RC,
	.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
	.reaches_memory = true,
	.areas = 1,
	.fixed_size = OPERAND_BYTES,
	.make = make,
	.check = check,
};
WORKLOAD(atomic_ops)
