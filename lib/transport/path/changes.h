/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Ports and neighbours that change while QPs use them: MTU, addresses, MAC addresses, the device.
 *
 * Owns: nothing. Called by lib/control. Thread: the QP's engine.
 */
#ifndef UROCE_PATH_CHANGES_H
#define UROCE_PATH_CHANGES_H

#include "transport/transport.h"

/* ---- MTU ---- */
/**
 * [engine] Set the MTU of a port: struct tp_port_config, ip_mtu and mtu_shift. QPs that get a path or arrive from now on heed it; for the others
 * transport_follow_mtu() must be called, once all engines have the new MTU.
 */
void transport_set_mtu(struct transport *tp, uint16_t port, uint32_t ip_mtu, uint8_t mtu_shift);
/**
 * [engine] Have QPs of this transport heed the MTU of their port. Of a QP whose path MTU is too large for it, packets that don't fit are dropped
 * (tx_too_long), as if the network did: its sends fail when their retries are used up, unless the port's MTU is large enough before; then the
 * reason is TP_VERR_MTU. A UD QP may send and receive datagrams as large as the port's MTU permits.
 * @param first  Slot of the QP table; @p n slots from there are looked at, qp_table_slots() in all.
 * @return how many of these QPs have a path MTU that is too large.
 */
uint32_t transport_follow_mtu(struct transport *tp, uint16_t port, uint32_t first, uint32_t n);

/* ---- Addresses ---- */
/** [engine] Get the addresses and the destination's MAC address of a connected QP's path. @return false: it has none. */
bool qp_path_addr(const struct qp *qp, struct wire_addr *addr);
/** [engine] Get the address that a connected QP has as its own. @return false: it has none. */
bool qp_own_gid(const struct qp *qp, struct gid *gid);
/**
 * [engine] Address @p gid is no address of the port any more (@p gone), or again one. A QP that has it as its own loses what it sends from now on, as
 * if the network did, so that it fails when its retries are used up, unless the address is back before; then the reason is TP_VERR_ADDRESS. Another
 * path, by qp_modify() or by migration, ends that too.
 * @return false: it is not the QP's own address, and nothing was changed.
 */
bool qp_address_gone(struct qp *qp, const struct gid *gid, bool gone);

/* ---- MAC addresses of neighbours ---- */
/**
 * [engine] Have connected QPs of this transport follow neighbours whose MAC address has changed; what is sent from now on, again or for the first time,
 * goes there. UD QPs follow their AHs: ah_follow_mac().
 * @param first  Slot of the QP table; @p n slots from there are looked at, qp_table_slots() in all.
 * @return how many QPs have.
 */
uint32_t transport_follow_mac(struct transport *tp, uint16_t port, tp_mac_fn fn, const void *arg, uint32_t first, uint32_t n);

/* ---- Devices ---- */
/** [engine] The port's device has gone: the QP goes to ERR, and what is posted is flushed. */
void qp_device_gone(struct transport *tp, struct qp *qp, uint64_t now_ns);

#endif /* UROCE_PATH_CHANGES_H */
