/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * QPs that move from one transport of a process to another while they are in use. docs/internals/moves.md has the whole of it.
 *
 * The struct qp stays where it is in memory, with all that it has: PSNs, windows, round trips, congestion control. Only what is a transport's is
 * changed: places in its lists, timers, and what its pools have lent. So the table of QPs, groups, and the control thread's pointers go on being right,
 * and nothing is sent again.
 *
 * A move, whose steps are functions for different engines, called in this order; there is one move at a time:
 *
 *   qp_move_reserve()          at the new engine: take from its pools what the QP has borrowed at the old one
 *   qp_move_leave()            at the old one: from now on the QP does nothing, and engines hold what arrives for it
 *   (a grace period)           nobody hands packets to the old engine any more
 *   qp_move_take_held()        at the old one, when it has received all of those
 *   qp_move_arrive(), qp_move_run_held()     at the new one: the QP goes on
 *   transport_held_forward()   at all others
 *
 * Owns: struct qp_move, made and freed by the caller, and a QP between leaving and arriving.
 */
#ifndef UROCE_TRANSPORT_MOVE_H
#define UROCE_TRANSPORT_MOVE_H

#include "transport/transport.h"

struct qp_move;

/**
 * [any] Begin a move, which changes nothing yet.
 * @param share  At @p to; NULL: the transport's own.
 * @return NULL: no memory.
 */
struct qp_move *qp_move_create(struct qp *qp, struct transport *to, struct share *share);
/**
 * [engine of @p to] Take what qp_move_check() has found that the QP needs.
 * @return 0; ENOMEM: a pool is empty. What was taken is given back by qp_move_destroy().
 */
int qp_move_reserve(struct qp_move *m);
/**
 * [engine of @p from] Look whether the QP can leave now. It changes nothing that matters.
 * @return 0; EAGAIN: the QP has borrowed more than was reserved, so reserve and try again; EBUSY: a copy of memory that isn't mapped is under way.
 */
int qp_move_check(struct qp_move *m, struct transport *from, uint64_t now_ns);
/** [engine of @p from] The QP leaves; qp_move_check() has just said 0. */
void qp_move_leave(struct qp_move *m, struct transport *from);
/** [engine of @p from] The QP, and others with it, have left: take what is held there. Of those that move together one move does so. */
void qp_move_take_held(struct qp_move *m, struct transport *from);
/** [engine of @p to] @return whether its time has come to when the QP left. Clocks of engines may differ by a little. */
bool qp_move_may_arrive(const struct qp_move *m, uint64_t now_ns);
/** [engine of @p to] The QP goes on. */
void qp_move_arrive(struct qp_move *m, uint64_t now_ns);
/** [engine of @p to] All have arrived: receive what the former engine held, and then what this one holds. */
void qp_move_run_held(struct qp_move *m, uint64_t now_ns);
/** [engine] Hand over what is held for QPs that have arrived elsewhere. */
void transport_held_forward(struct transport *tp);
/** [any engine] @return whether the QP is at @p tp. Only its engine can rely on it. */
bool qp_is_at(const struct qp *qp, const struct transport *tp);
/** [any engine] @return the number of its engine, which may be another one by now; -1: it is on its way. */
int qp_engine_now(const struct qp *qp);
/** [engine of @p to] @return for how long the QP did nothing, ns; 0: it has not moved. */
uint64_t qp_move_pause(const struct qp_move *m);
/** [engine of @p to] End a move, which has not begun or is complete. */
void qp_move_destroy(struct qp_move *m);

#endif /* UROCE_TRANSPORT_MOVE_H */
