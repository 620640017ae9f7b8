/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Random requests of the control protocol, of which most are what a program could have sent.
 *
 * The numbers come from a generator with a seed, so that a run can be repeated (as far as the daemon's answers are the same).
 * Thread: one.
 */
#ifndef STORM_RANDOM_H
#define STORM_RANDOM_H

#include <stdbool.h>

#include "requests.h"

enum {
	STORM_SEGS_MAX = 6,
	STORM_BYTES_MAX = sizeof(struct ctl_req) + STORM_SEGS_MAX * sizeof(struct ctl_seg),
	STORM_AREA_BYTES = 1 << 16, /**< of each of the two areas that requests register */
};

/** xorshift64*. */
struct storm_random {
	uint64_t state; /**< not 0 */
};
uint64_t storm_random(struct storm_random *r);
/** @return a number below @p n, which isn't 0. */
uint32_t storm_below(struct storm_random *r, uint32_t n);

/** What requests name. */
struct storm_world {
	uint8_t *shared, *private; /**< STORM_AREA_BYTES each */
	uint8_t local[4], peer[4]; /**< IPv4 addresses of the port and of somebody behind it */
	bool cm;                   /**< the session is one of rdma_cm: most requests are */
};

/** How a request was made. */
enum storm_kind { STORM_VALID, STORM_MUTATED, STORM_RANDOM, STORM_GARBAGE, STORM_KINDS };

/**
 * Make a request.
 * @param h    Objects that the session has made.
 * @param out  Receives it.
 * @return its bytes, 1 to STORM_BYTES_MAX.
 */
size_t storm_request(struct storm_random *r, const struct storm_world *w, const struct request_handles *h,
		     uint8_t out[STORM_BYTES_MAX], enum storm_kind *kind);

#endif /* STORM_RANDOM_H */
