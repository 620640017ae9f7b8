/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posted receives.
 */
#include "transport/core/prefetch_priv.h"
#include "transport/core/slot_priv.h"

uint64_t
rwqe_room(const struct tp_rwqe *w)
{
	uint64_t room = 0;

	for (uint32_t i = 0; i < w->nb_sge; i++)
		room += wqe_get_sge(&w->sge[i]).length;
	return RTE_MIN(room, (uint64_t)UROCE_MAX_MSG_BYTES);
}

void
rwqe_begin(struct tp_rwqe *w, const struct ring *r, uint32_t counter, const struct ring_sge *sge, uint32_t nb_sge)
{
	const struct ring_rq_wqe *slot = ring_slot(r, counter);

	w->wr_id = slot->wr_id;
	w->wqe_counter = (uint16_t)counter;
	w->sge = sge;
	w->nb_sge = (uint16_t)nb_sge;
	w->sge_cur = 0;
	w->sge_off = 0;
	w->room = rwqe_room(w);
	w->borrowed = false;
	w->valid = true;
	prefetch_rq_ahead(r, counter);
}
