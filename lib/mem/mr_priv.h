/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The part of the key table that MRs and memory windows share. Included only in lib/mem. Thread: control.
 */
#ifndef UROCE_MR_PRIV_H
#define UROCE_MR_PRIV_H

#include "mem/mem.h"

/** Take the index that has been free for longest; there must be one. @return its next key, never 0. */
uint32_t mr_key_take(struct mr_table *t);
/** Take the index of @p key, which had it in another table. @return false: it is in use, or there is none. */
bool mr_key_take_as(struct mr_table *t, uint32_t key);

#endif /* UROCE_MR_PRIV_H */
