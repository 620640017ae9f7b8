/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What a transport's turn (turn.c) has done on the receiving side (transport.c). Called on the engine's thread.
 */
#ifndef UROCE_TP_RX_H
#define UROCE_TP_RX_H

#include "transport/core/types_priv.h"

/** Give up copies whose time is over, and try those again that could not begin. */
void rx_run_copies(struct transport *tp);
/** Deliver all packets that wait to go by reference (core/local_priv.h). */
void rx_local(struct transport *tp);

#endif /* UROCE_TP_RX_H */
