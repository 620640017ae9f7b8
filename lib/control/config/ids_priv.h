/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Lists of users and groups in the configuration: the keys users and groups of a section [share NAME].
 *
 * Owns: nothing. Called by: config.c. Thread: any.
 */
#ifndef UROCE_CONTROL_IDS_PRIV_H
#define UROCE_CONTROL_IDS_PRIV_H

#include "control/config/config.h"

/**
 * Parse names and numbers, with commas or spaces between them; "*" are all.
 * @param groups  They are groups, not users.
 * @return 0, or EINVAL with what would be right in @p err.
 */
int config_ids_parse(const char *value, bool groups, struct config_ids *l, char *err, size_t err_bytes);

#endif /* UROCE_CONTROL_IDS_PRIV_H */
