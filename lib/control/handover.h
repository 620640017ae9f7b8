/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * One daemon hands its programs to the next: sessions with their sockets, objects and queues are written to a stream, and another control, of
 * another process, goes on from there. Programs notice a pause.
 *
 * The one that goes:  control_hold(), control_turn() until control_is_settled(), control_end_unsaved(); engines stopped; control_save().
 * The one that comes: control_restore(), before its engines run for the first time.
 * If the other one refuses, control_hold() again and engines that run again go on as if nothing had happened.
 *
 * What can't be handed over ends as at the daemon's end: sessions whose request under way doesn't end.
 * Memory that was shared memory of the program's own is reached through /proc/PID/mem afterwards.
 *
 * Owns: nothing. Called by: lib/uroce, app/uroced. Thread: control.
 */
#ifndef UROCE_HANDOVER_H
#define UROCE_HANDOVER_H

#include "control/config/config.h"
#include "control/core/stream.h"

struct control;

/** Accept no requests and no programs any more, but finish what is under way; or accept them again. */
void control_hold(struct control *c, bool hold);
/** @return true: no request of any session is under way. */
bool control_is_settled(const struct control *c);
/** End the sessions that can't be handed over. The log says why. @return how many. */
uint32_t control_end_unsaved(struct control *c);
/**
 * [engines stopped] Write all sessions to @p o.
 * @return 0; EBUSY: copies are under way, let the engines have turns and begin anew; ENOMEM.
 */
int control_save(struct control *c, struct stream_out *o, struct handover_counts *n);

/** After control_save(), before the process ends: give up what only one daemon can have, telemetry and metrics. The sessions stay as they are. */
void control_leave(struct control *c);

/**
 * Check whether a stack with this configuration can go on from the records that come next in @p in, and pass over them.
 * @param err  Receives what is wrong and what would be right, CONFIG_ERR_BYTES long.
 * @return 0 or EINVAL.
 */
int handover_check(struct stream_in *in, const struct uroced_config *conf, unsigned int nb_engines, unsigned int nb_cpus, char *err);
/** @return the descriptor of the listening socket of the stack whose records come next in @p in, -1: there is none. */
int handover_listen_fd(struct stream_in *in);
/**
 * [engines stopped] Make the sessions that come next in @p in. One that can't be made is ended, and the log says why.
 * @return 0, or EINVAL with a message: these are no records of a stack like this one.
 */
int control_restore(struct control *c, struct stream_in *in, struct handover_counts *n, char *err);

#endif /* UROCE_HANDOVER_H */
