/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon's GSI: QP 1 of every port, and the connection manager behind it.
 *
 * Owns: struct cm, one for all ports; MADs that wait for a neighbour's MAC address; MADs to ourselves. Engines hand
 * in what comes for QP 1 (ENGINE_EV_MAD); what goes out goes through the first engine. Called by: control.c,
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
	GSI_MAX_WAITING = 256, /**< MADs that wait for a MAC address; well below what lib/net resolves at once */
	GSI_MAX_LOOP = 1024,   /**< MADs sent to ourselves and not yet received */
};

/** Make it, with a connection manager whose events go to cma_cm_event(). @return NULL with errno set. */
struct gsi *gsi_open(struct control *c);
/** End it. Nothing is sent any more; NULL: does nothing. */
void gsi_close(struct gsi *g);
/** A MAD came. */
void gsi_take(struct gsi *g, const struct tp_mad *mad, uint64_t now_ns);
/** What is due. @return when to call again at the latest. */
uint64_t gsi_run(struct gsi *g, uint64_t now_ns);

const struct gsi_counters *gsi_counters(const struct gsi *g);
struct cm *gsi_cm(struct gsi *g);

#endif /* UROCE_CONTROL_GSI_PRIV_H */
