/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Address handles, as a sender of datagrams sees them.
 *
 * Owns: struct tp_ah, in a table that the control thread writes and engines read under RCU. Called on any engine.
 */
#ifndef UROCE_TP_AH_H
#define UROCE_TP_AH_H

#include "transport/core/types_priv.h"

struct tp_ah {
	uint32_t handle, pd;
	_Atomic uint64_t serial; /**< no other AH ever has it: unlike the handle, it doesn't wrap; never 0. Another one when gone changes */
	_Atomic bool gone;      /**< its own address has gone from the port */
	struct tp_path path;
	struct wire_tmpl tmpl;  /**< copy it before use: its ICRC cache has one user */
	struct deferred deferred; /**< destroyed: freed after a grace period */
};
/** @return the AH, good until the next quiescent state, or NULL. */
const struct tp_ah *ah_get(const struct ah_table *t, uint32_t handle, uint32_t pd);

/** [control] As ah_create(), with the handle that the AH had in another table. @return 0; EEXIST: the handle is in use, or can't be one; ENOMEM. */
int ah_create_as(struct ah_table *t, uint32_t pd, const struct tp_path *path, uint32_t handle);

#endif /* UROCE_TP_AH_H */
