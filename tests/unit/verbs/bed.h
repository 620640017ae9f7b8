/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A QP with one CQ, made without a daemon: the tests play the engine at the other end of the rings.
 */
#ifndef BED_H
#define BED_H

#include "verbs/client_priv.h"

enum { SQ_ORDER = 3, SQ_WR = 6, RQ_ORDER = 2, CQ_ORDER = 4, MAX_SGE = 4, MAX_INLINE = 48, QPN = 0x345678 };

/** The QP and its CQ, and the engine's view of both. */
struct bed {
	struct client_ctx ctx;
	struct client_cq cq;
	struct client_qp qp;
	struct ring_qp_shared qp_shared;
	struct ring_cq_shared cq_shared;
	struct ring_db *db;
	struct ring e_sq, e_rq, e_cq;
};

void bed_init(struct bed *b, enum ibv_qp_type type);
void bed_fini(struct bed *b);
/** The engine completes the WQE of @p counter. */
void complete(struct bed *b, uint32_t counter, uint64_t wr_id, bool is_recv);
/** Whether the session's eventfd was written to. */
bool kicked(struct bed *b);
/** Whether the QP's doorbell bit is set. */
bool bell_rung(struct bed *b);
/** A signalled WRITE. */
struct ibv_send_wr write_wr(struct ibv_sge *sge, int n);

#endif /* BED_H */
