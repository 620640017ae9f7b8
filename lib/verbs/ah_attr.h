/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Converting address attributes between verbs.h and the control protocol.
 *
 * Used by: qp.c, ah.c. Thread: any.
 */
#ifndef UROCE_CLIENT_AH_ATTR_H
#define UROCE_CLIENT_AH_ATTR_H

#include <infiniband/verbs.h>

#include "ring/abi.h"

void ah_attr_to_abi(struct uroce_ah_attr *to, const struct ibv_ah_attr *from);
void ah_attr_from_abi(struct ibv_ah_attr *to, const struct uroce_ah_attr *from);

#endif /* UROCE_CLIENT_AH_ATTR_H */
