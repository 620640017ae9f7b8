/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * GIDs as addresses: which family they are of, and which of a port's they are.
 *
 * Owns: nothing. Called by: obj, cma. Thread: any.
 */
#ifndef UROCE_CONTROL_GID_PRIV_H
#define UROCE_CONTROL_GID_PRIV_H

#include <stdbool.h>
#include <string.h>

#include "net/net.h"

/** @return true if it is an IPv4 address, mapped into IPv6. */
static inline bool
gid_is_v4(const uint8_t gid[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(gid, mapped, sizeof(mapped)) == 0;
}

static inline bool
gid_is_zero(const uint8_t gid[16])
{
	static const uint8_t zero[16];

	return memcmp(gid, zero, sizeof(zero)) == 0;
}

/** @return the index of @p gid among the GIDs of @p p, or -1. */
static inline int
gid_index(const struct net_port *p, const uint8_t gid[16])
{
	for (int i = 0; i < UROCE_MAX_GIDS; i++) {
		if (p->gid_used[i] && memcmp(p->gid[i], gid, 16) == 0)
			return i;
	}
	return -1;
}

#endif /* UROCE_CONTROL_GID_PRIV_H */
