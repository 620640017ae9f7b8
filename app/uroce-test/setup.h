/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Shared by setup.c and setup_on.c. Thread: main lcore.
 */
#ifndef UROCE_TEST_SETUP_H
#define UROCE_TEST_SETUP_H

#include "workload.h"

/**
 * Fail the workload because @p what failed on @p h.
 * @return -1.
 */
int setup_fail(struct workload *w, const char *what, const struct host *h, int err);
/**
 * Find the lane of a host, or make one.
 * @return NULL: no memory.
 */
struct lane *setup_lane(struct workload *w, struct host *h);
/**
 * Make room for @p n more endpoints. This moves the endpoints, so do it before any of them is used.
 * @return 0 or -1.
 */
int setup_room(struct workload *w, struct host *h, uint32_t n);
/**
 * Initialize an endpoint, except for its QP.
 * @return 0 or -1.
 */
int setup_endpoint(struct endpoint *ep, struct lane *l, bool active, uint32_t number);
/** Make two endpoints each other's peer. */
void setup_link(struct endpoint *a, struct endpoint *b);
/** @return the number of receives that an endpoint keeps posted. */
uint32_t setup_recv_depth(const struct workload *w, bool active);
/** @return the size of an endpoint's memory before its receive buffers. */
size_t setup_areas_bytes(const struct workload *w);
/** @return the size of all of an endpoint's memory. */
size_t setup_bytes(const struct endpoint *ep);
/**
 * Allocate zeroed memory for all endpoints of a lane, in one block.
 * @return 0 or -1.
 */
int setup_memory(struct lane *l);
/**
 * Set the address and rkey of the peer's memory, and post the endpoint's receives.
 * @return 0 or -1.
 */
int setup_ready(struct endpoint *ep);
/**
 * Call @p fn for every endpoint until it fails.
 * @return 0 or -1.
 */
int setup_all(struct workload *w, int (*fn)(struct endpoint *ep));

#endif /* UROCE_TEST_SETUP_H */
