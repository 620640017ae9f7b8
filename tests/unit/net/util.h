/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What tests of neighbours and of ports share: the end of a resolution, and the clock.
 */
#ifndef TEST_NET_UTIL_H
#define TEST_NET_UTIL_H

#include <stdint.h>
#include <string.h>
#include <time.h>

#include "net/net_priv.h"

#define SECOND_NS UINT64_C(1000000000)

/** What a resolution ended with. */
struct outcome {
	unsigned int calls;
	int status;
	uint8_t mac[6];
};

/** net_resolve()'s callback: @p arg is a struct outcome. */
static inline void
done(void *arg, int status, const uint8_t mac[6])
{
	struct outcome *o = arg;

	o->calls++;
	o->status = status;
	memcpy(o->mac, mac, 6);
}

static inline uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

static inline struct gid
gid4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	const uint8_t ip[4] = { a, b, c, d };

	return gid_from_v4(ip);
}

#endif /* TEST_NET_UTIL_H */
