/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Pools of what a transport lends to its QPs. Called by transport.c when it creates and destroys a transport.
 */
#ifndef UROCE_TP_POOLS_H
#define UROCE_TP_POOLS_H

#include "transport/core/types_priv.h"

/** Set the sizes that the caller has left at 0. */
void pools_default(struct tp_pool_sizes *n);
/** Set the limits that the caller has left at 0, or set too high. */
void limits_default(struct tp_limits *l);
/** Items that are never lent are never touched, so they cost only address space. @return 0 or ENOMEM; pools_destroy() is right after either. */
int pools_create(struct transport *tp);
void pools_destroy(struct transport *tp);

#endif /* UROCE_TP_POOLS_H */
