/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon's GSI: QP 1 of every port, and the connection manager behind it.
 *
 * Owns: struct cm, one for all ports; MADs that wait for a neighbour's MAC address; MADs to ourselves. Engines hand in what
 * comes for QP 1 (ENGINE_EV_MAD), what goes out goes through the first engine. Called by: the control loop. Thread: control.
 */
#ifndef UROCE_GSI_H
#define UROCE_GSI_H

#include <stdint.h>

#include "cm/cm.h"
#include "transport/transport.h"

struct control;
struct gsi;

enum {
	GSI_MAX_WAITING = 256, /**< MADs that wait for a MAC address: well below what lib/net resolves at once */
	GSI_MAX_LOOP = 1024,   /**< MADs on their way from us to us */
};

/*
 * rx_mads, tx_mads: all that came from and went to the wire; loop_mads: to ourselves. Dropped: rx_not_ours, to an address
 * that isn't the port's; rx_bad_source, from an address that can't be a peer's; rx_other_qp, from another QP than 1, where
 * no answer could go; tx_no_address, from an address that the port doesn't have; tx_unreachable, no way to the peer or no
 * answer to ARP or ND; tx_waiting, too many wait for that; tx_no_mbuf; loop_full.
 */
#define GSI_COUNTERS(X) \
	X(rx_mads) X(tx_mads) X(loop_mads) \
	X(rx_not_ours) X(rx_bad_source) X(rx_other_qp) \
	X(tx_no_address) X(tx_unreachable) X(tx_waiting) X(tx_no_mbuf) X(loop_full)
struct gsi_counters {
#define GSI_X(name) uint64_t name;
	GSI_COUNTERS(GSI_X)
#undef GSI_X
};

/** @return NULL with errno set. */
struct gsi *gsi_open(struct control *c);
/** Nothing is sent any more. */
void gsi_close(struct gsi *g);
/** A MAD came. */
void gsi_take(struct gsi *g, const struct tp_mad *mad, uint64_t now_ns);
/** What is due. @return when to call again at the latest. */
uint64_t gsi_run(struct gsi *g, uint64_t now_ns);

const struct gsi_counters *gsi_counters(const struct gsi *g);
struct cm *gsi_cm(struct gsi *g);

#endif /* UROCE_GSI_H */
