/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The timers in a transport's wheel: for the losses of each RC QP, and for the pace of one under congestion control. Owns nothing. Called on the
 * transport's engine.
 */
#ifndef UROCE_TP_TIMERS_H
#define UROCE_TP_TIMERS_H

#include "transport/core/types_priv.h"

/** wheel.due_ns of a transport. */
uint64_t timer_due_ns(const struct wheel_entry *e);
/** For wheel_advance(). @param arg  The transport. */
void timer_fired(struct wheel_entry *e, void *arg);

#endif /* UROCE_TP_TIMERS_H */
