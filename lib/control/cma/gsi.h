/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the daemon's GSI counts: QP 1 of every port. control_gsi_counters() returns it.
 *
 * Owns: nothing. Called by: observe, apps. Thread: any; the control thread counts.
 */
#ifndef UROCE_GSI_H
#define UROCE_GSI_H

#include <stdint.h>

/*
 * rx_mads, tx_mads: all that came from and went to the wire; loop_mads: to ourselves. Dropped: rx_not_ours, to an address
 * that isn't the port's; rx_bad_source, from an address that can't be a peer's; rx_other_qp, from another QP than 1, where
 * no answer could go; tx_no_address, from an address that the port doesn't have; tx_unreachable, no route to the peer or no
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

#endif /* UROCE_GSI_H */
