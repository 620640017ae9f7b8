/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Which share of the engines' time a session gets: the section [share NAME] of the configuration that its user belongs to.
 *
 * Owns: the rates of users (struct user.rates). Called by: obj/device.c, reload.c. Thread: control.
 */
#ifndef UROCE_CONTROL_SHARES_PRIV_H
#define UROCE_CONTROL_SHARES_PRIV_H

#include "control/core/session_priv.h"

/** @return the first section that the session's user or one of its groups is named in; NULL: none. */
const struct config_share *shares_section(const struct session *s, const struct uroced_config *conf);
/** Give the session, which has a device, weight and rate as @p conf says. */
void shares_apply(struct session *s, const struct uroced_config *conf);
/** The same for all sessions. */
void shares_apply_all(struct control *c, const struct uroced_config *conf);

#endif /* UROCE_CONTROL_SHARES_PRIV_H */
