/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What MRs and memory windows share of the key table. Nobody else includes it. Thread: control.
 */
#ifndef UROCE_MR_PRIV_H
#define UROCE_MR_PRIV_H

#include "mem/mem.h"

/** Take the index that has been free for longest, which there must be. @return its next key, never 0. */
uint32_t mr_key_take(struct mr_table *t);

#endif /* UROCE_MR_PRIV_H */
