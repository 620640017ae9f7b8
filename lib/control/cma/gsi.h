/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Counters of the daemon's GSI: QP 1 of every port. control_gsi_counters() returns them.
 *
 * Owns: nothing. Called by: observe, apps. Thread: any; the control thread increments them.
 */
#ifndef UROCE_GSI_H
#define UROCE_GSI_H

#include <stdint.h>

/*
 * rx_mads, tx_mads: all MADs received from and sent to the wire; loop_mads: from this daemon to itself. Dropped:
 * rx_not_ours, addressed to an address that the port doesn't have; rx_bad_source, from an address that no peer can
 * have; rx_other_qp, not from QP 1, so that no answer could be sent; tx_no_address, from an address that the port
 * doesn't have; tx_unreachable, no route to the peer or no answer to ARP or ND; tx_waiting, too many MADs wait for a
 * MAC address; tx_no_mbuf; loop_full.
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
