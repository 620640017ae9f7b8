/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Ports that begin, change or end being a bad network while engines run. Used by reload, telemetry and the application.
 */
#ifndef UROCE_CONTROL_IMPAIRING_PRIV_H
#define UROCE_CONTROL_IMPAIRING_PRIV_H

#include "control/core/control_priv.h"

/**
 * [any thread, control_lock() held] Impair a port, and note that in the configuration in force. Waits for the engines' quiescent states.
 * @param p  NULL: no more.
 * @return 0; EINVAL: no such port; ENOTSUP: this control has no impairments; an error of impair_attach().
 */
int impairing_set(struct control *c, unsigned int port, const struct impair_params *p);

/** The device of a port has gone, and no engine uses it: it is impaired again by impairing_set(), with what the configuration has. */
void impairing_device_gone(struct control *c, unsigned int port);

#endif /* UROCE_CONTROL_IMPAIRING_PRIV_H */
