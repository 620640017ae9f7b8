/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What is known of a host whose daemon is replaced, in order (restart.c) or after it was killed (crash.c).
 */
#ifndef SIM_RESTART_H
#define SIM_RESTART_H

#include "sim.h"
#include "transport/core/types_priv.h"
#include "transport/record/record.h"

enum {
	RESTARTS_MOST = 2,          /* of a host */
	RESTART_MAX_QPS = 2 * SIM_MAX_CONNS,
	RESTART_QUEUES = SIM_MAX_SRQS + SIM_MAX_XSRQS + 1,
};

/** By the places of its objects in the simulator. */
struct saved {
	struct transport_config config[SIM_MAX_ENGINES];
	struct transport_record tps[SIM_MAX_ENGINES];
	struct cq_record cqs[SIM_MAX_CQS];
	struct cq_params cq_params[SIM_MAX_CQS];
	struct srq_record srqs[RESTART_QUEUES];
	struct srq_params srq_params[RESTART_QUEUES];
	uint32_t srq_engine[RESTART_QUEUES];
	struct qp_record *qps[RESTART_MAX_QPS];
	uint32_t qp_bytes[RESTART_MAX_QPS];
	uint32_t qp_engine[RESTART_MAX_QPS], qp_srq[RESTART_MAX_QPS], qp_share[RESTART_MAX_QPS];
};

/** @return the n-th SRQ of a host, or NULL: it has none there. */
struct srq **restart_srq(struct sim_ep *ep, uint32_t n);
/** @return its n-th QP, or NULL. */
struct sim_qp *restart_qp(struct sim_world *w, const struct sim_ep *ep, uint32_t n);
/** Of what its objects are made, and where they are. */
void restart_look(struct sim_world *w, struct sim_ep *ep, struct saved *s);
/** Throw away its transports, and all that is in them. */
void restart_throw_away(struct sim_world *w, struct sim_ep *ep);
/** Make everything anew from records. Frees those of QPs. */
void restart_make(struct sim_world *w, struct sim_ep *ep, struct saved *s);

#endif /* SIM_RESTART_H */
