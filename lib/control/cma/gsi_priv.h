/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon's GSI: QP 1 of every port, and the connection manager behind it.
 *
 * Owns: struct cm, one for all ports; MADs that wait for a neighbour's MAC address; MADs to this daemon itself. Engines
 * pass on what arrives for QP 1 (ENGINE_EV_MAD); MADs are sent through the first engine. Called by: control.c,
 * events.c, observe. Thread: control.
 */
#ifndef UROCE_CONTROL_GSI_PRIV_H
#define UROCE_CONTROL_GSI_PRIV_H

#include "cm/cm.h"
#include "control/cma/gsi.h"
#include "transport/transport.h"

struct control;
struct gsi;

enum {
	GSI_MAX_WAITING = 256, /**< MADs waiting for a MAC address; well below the number that lib/net resolves at a time */
	GSI_MAX_LOOP = 1024,   /**< MADs to this daemon itself that have not been received yet */
};

/** Create the GSI and a connection manager whose events go to cma_cm_event(). @return NULL with errno set. */
struct gsi *gsi_open(struct control *c);
/** Destroy it; nothing more is sent. NULL is ignored. */
void gsi_close(struct gsi *g);
/** Handle a received MAD. */
void gsi_take(struct gsi *g, const struct tp_mad *mad, uint64_t now_ns);
/** Do what is due: timers, MADs to this daemon itself. @return when to call again at the latest. */
uint64_t gsi_run(struct gsi *g, uint64_t now_ns);

const struct gsi_counters *gsi_counters(const struct gsi *g);
struct cm *gsi_cm(struct gsi *g);

#endif /* UROCE_CONTROL_GSI_PRIV_H */
