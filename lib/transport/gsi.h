/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The GSI: QP 1, which has no struct qp. Received MADs go to a callback (transport_config.mad); packets to send are only built here.
 */
#ifndef UROCE_TP_GSI_H
#define UROCE_TP_GSI_H

#include <stdint.h>

#include "base/gid.h"
#include "wire/wire.h"

enum { TP_MAD_BYTES = 256 };
/** A MAD received for QP 1 with a valid ICRC, Q_Key and P_Key. Its addresses are not checked. */
struct tp_mad {
	uint16_t port;
	uint16_t pkey;          /**< from the port's table: what an answer must carry */
	uint32_t src_qpn;
	uint32_t flow_label;    /**< of IPv6 */
	struct gid sgid, dgid;
	uint8_t smac[6];
	uint16_t vlan_tci;      /**< 0: untagged */
	uint8_t traffic_class;  /**< without ECN, which belongs to the network */
	uint8_t hop_limit;      /**< as received, after the routers on the path have decremented it */
	uint8_t data[TP_MAD_BYTES];
};
/**
 * [any] Build the packet that carries @p mad from QP 1 to the peer's QP 1 along @p a, whose sport may be 0.
 * @param frame  Room for WIRE_MAX_HDR_BYTES + TP_MAD_BYTES + WIRE_ICRC_BYTES.
 * @param psn  QP 1 numbers its packets like any UD QP.
 * @return size of the frame in bytes.
 */
uint32_t gsi_build(uint8_t *frame, const struct wire_addr *a, uint16_t pkey, uint32_t psn,
		   const uint8_t mad[TP_MAD_BYTES]);

#endif /* UROCE_TP_GSI_H */
