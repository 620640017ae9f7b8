/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * QPs that storm_packets aims at, in a file that both programs map: storm_targets writes it, storm_packets reads it.
 */
#ifndef STORM_TARGETS_H
#define STORM_TARGETS_H

#include <stdatomic.h>
#include <stdint.h>

enum {
	STORM_TARGETS = 32,
	STORM_PEER_QPN = 0x1000, /**< target i is connected to QP STORM_PEER_QPN + i */
	STORM_RQ_PSN = 0x100,
	STORM_SQ_PSN = 0x200,
	STORM_QKEY = 0x1234,
};

struct storm_target {
	_Atomic uint32_t generation; /**< changes when the QP is connected anew, with STORM_RQ_PSN and STORM_SQ_PSN */
	uint32_t service;            /**< enum wire_service */
	uint32_t qpn, rkey;
	uint64_t va;                 /**< memory of rkey */
	uint32_t bytes;
};

struct storm_targets {
	_Atomic uint32_t nb; /**< 0 until all are there */
	struct storm_target t[STORM_TARGETS];
};

#endif /* STORM_TARGETS_H */
