/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The congestion control algorithms: one row of CC_TABLE for each, and the state that each keeps per QP. A new
 * algorithm needs a row and a struct here, and a file of its own with its struct cc_ops (cc_priv.h).
 *
 * Owns: constants and formats only. Used by: transport.h (enum tp_cc), cc_priv.h, lib/control (names in the
 * configuration).
 */
#ifndef UROCE_CC_ALGORITHMS_H
#define UROCE_CC_ALGORITHMS_H

#include <stdint.h>

/** Calls X(NAME, name): TP_CC_NAME, struct name, cc_name, and "name" in the configuration. "none" has no row. */
#define CC_TABLE(X) \
	X(DCQCN, dcqcn) /* reacts to CNPs; RC and UC */ \
	X(SWIFT, swift) /* reacts to round trips, and believes them less where packets are marked; RC */

/** DCQCN's reaction point. Rates in bits per second. */
struct dcqcn {
	double target, current;  /**< current 0: no CNP so far, the rate is not limited */
	double alpha;
	uint64_t alpha_ns, timer_ns; /**< when the current alpha and timer periods began */
	uint64_t cut_ns;             /**< last decrease */
	uint64_t bytes;              /**< sent since the byte counter's last event */
	uint32_t timer_events, byte_events;
};

/** Swift. */
struct swift {
	double cwnd;                 /**< packets, may be less than one */
	uint64_t cut_ns;             /**< last decrease */
	uint64_t srtt_ns;
	uint64_t min_ns, old_min_ns; /**< shortest round trip of this period and of the last */
	uint64_t period_ns;          /**< when this period began */
	uint64_t marked_ns;          /**< when a queue was last known to stand on the path; 0: never */
	double marked;               /**< how much of the last round trips that is true for, 0 to 1 */
	uint32_t timeouts;           /**< in a row */
};

#endif /* UROCE_CC_ALGORITHMS_H */
