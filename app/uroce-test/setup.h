/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What setup.c and setup_on.c share. Thread: main lcore.
 */
#ifndef UROCE_TEST_SETUP_H
#define UROCE_TEST_SETUP_H

#include "workload.h"

/** Fail the workload for what @p h couldn't do. @return -1. */
int setup_fail(struct workload *w, const char *what, const struct host *h, int err);
/** @return the lane of a host, made if it isn't there; NULL: no memory. */
struct lane *setup_lane(struct workload *w, struct host *h);
/** Room for @p n endpoints more, before any of them is used: they move. @return 0 or -1. */
int setup_room(struct workload *w, struct host *h, uint32_t n);
/** What an endpoint is, but for its QP. @return 0 or -1. */
int setup_endpoint(struct endpoint *ep, struct lane *l, bool active, uint32_t number);
/** Each is the other's peer. */
void setup_link(struct endpoint *a, struct endpoint *b);
/** @return receives that an endpoint keeps posted. */
uint32_t setup_recv_depth(const struct workload *w, bool active);
/** @return bytes of an endpoint's memory in front of its receives. */
size_t setup_areas_bytes(const struct workload *w);
/** @return all bytes of an endpoint's memory. */
size_t setup_bytes(const struct endpoint *ep);
/** Memory for all endpoints of a lane, in one piece, zeroed. @return 0 or -1. */
int setup_memory(struct lane *l);
/** Tell an endpoint where its peer's memory is, and post its receives. @return 0 or -1. */
int setup_ready(struct endpoint *ep);
/** Call @p fn for every endpoint. @return 0, or -1 as soon as it said so. */
int setup_all(struct workload *w, int (*fn)(struct endpoint *ep));

#endif /* UROCE_TEST_SETUP_H */
