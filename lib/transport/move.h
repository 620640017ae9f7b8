/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * QPs that move from one transport of a process to another while they are in use, alone or as a group with the SRQs that they receive from.
 * docs/internals/moves.md has the whole of it.
 *
 * The struct qp stays where it is in memory, with all that it has: PSNs, windows, round trips, congestion control. Only what is a transport's is
 * changed: places in its lists, timers, and what its pools have lent. So the table of QPs, groups, and the control thread's pointers go on being right,
 * and nothing is sent again. An SRQ has even less: its transport, and for XRC its place in the table of SRQs.
 *
 * A move, whose steps are functions for different engines, called in this order; there is one move at a time. Each step is for all QPs and SRQs of the
 * move, within one message, so no engine ever sees a part of them gone or come:
 *
 *   qp_move_drain()            at the old engine, several times: they send nothing new until all that they have sent is acknowledged
 *   qp_move_check()            at the old engine: can all leave, and what have they borrowed?
 *   qp_move_reserve()          at the new engine: take from its pools as much; then check again
 *   qp_move_leave()            at the old one: from now on the QPs do nothing, and engines hold what arrives for them
 *   (a grace period)           nobody hands packets to the old engine any more
 *   qp_move_take_held()        at the old one, when it has received all of those
 *   qp_move_arrive(), qp_move_run_held()     at the new one: the QPs go on
 *   transport_held_forward()   at all others
 *
 * Up to qp_move_leave() it may be given up: qp_move_stay() at the old engine.
 *
 * Owns: struct qp_move, made and freed by the caller, and QPs and SRQs between leaving and arriving.
 */
#ifndef UROCE_TRANSPORT_MOVE_H
#define UROCE_TRANSPORT_MOVE_H

#include "transport/transport.h"

struct qp_move;

/**
 * [any] Begin a move, which changes nothing yet.
 * @param nb_qps, nb_srqs  How many will be added.
 * @return NULL: no memory.
 */
struct qp_move *qp_move_create(struct transport *to, uint32_t nb_qps, uint32_t nb_srqs);
/**
 * [any] Add a QP. All QPs of an SRQ move together, and so do all XRC targets and XRC SRQs of a domain.
 * @param share  At the new transport; NULL: the transport's own.
 */
void qp_move_add(struct qp_move *m, struct qp *qp, struct share *share);
/** [any] Add an SRQ that moves with its QPs. */
void qp_move_add_srq(struct qp_move *m, struct srq *srq);
/**
 * [engine of @p to] Take what qp_move_check() has found that the QPs need.
 * @return 0; ENOMEM: a pool is empty. What was taken is given back by qp_move_destroy().
 */
int qp_move_reserve(struct qp_move *m);
/** [any] QPs don't wait for ACKs longer than TP_DRAIN_MIN_NS: who waits with them has others to serve. */
void qp_move_be_brief(struct qp_move *m);
/**
 * [engine of @p from] Have the QPs send nothing new. From the first call on they only send again what gets lost, and a packet that asks for an ACK if the last
 * one may not have done so. Doorbells, packets and timers are handled as ever.
 * @return whether they may leave: each has an answer to all that it has sent, or has waited long enough for it (TP_DRAIN_*). QPs that get no answers (UC, UD),
 * or don't send, may at once. What a QP that leaves has in flight may be overtaken by what it sends from the new engine.
 */
bool qp_move_drain(struct qp_move *m, struct transport *from, uint64_t now_ns);
/** [engine of @p from] The QPs don't leave: they go on sending at once. */
void qp_move_stay(struct qp_move *m, struct transport *from, uint64_t now_ns);
/**
 * [engine of @p from] Look whether all QPs can leave now. It changes nothing that matters.
 * @return 0; EAGAIN: a QP has borrowed more than was reserved, so reserve and try again; EBUSY: a copy of memory that isn't mapped is under way for one.
 */
int qp_move_check(struct qp_move *m, struct transport *from, uint64_t now_ns);
/** [engine of @p from] QPs and SRQs leave; qp_move_check() has just said 0. */
void qp_move_leave(struct qp_move *m, struct transport *from);
/** [engine of @p from] They have left, and the ports have taken all that they had built: take what is held there. */
void qp_move_take_held(struct qp_move *m, struct transport *from, uint64_t now_ns);
/**
 * [engine of @p to] What a QP sends from its new engine has a TX queue of its own and would overtake what the old one has still got, so it waits a little
 * (TP_MOVE_QUIET_NS) after qp_move_take_held().
 * @return when they may arrive, at the earliest.
 */
uint64_t qp_move_arrives_ns(const struct qp_move *m);
/** [engine of @p to] They go on. */
void qp_move_arrive(struct qp_move *m, uint64_t now_ns);
/** [engine of @p to] All have arrived: receive what the former engine held, and then what this one holds. */
void qp_move_run_held(struct qp_move *m, uint64_t now_ns);
/** [engine] Hand over what is held for QPs that have arrived elsewhere. */
void transport_held_forward(struct transport *tp);
/** [any engine] @return whether the QP is at @p tp. Only its engine can rely on it. */
bool qp_is_at(const struct qp *qp, const struct transport *tp);
/** [any engine] @return the number of its engine, which may be another one by now; -1: it is on its way. */
int qp_engine_now(const struct qp *qp);
/** [engine of @p to] @return for how long the QPs sent nothing new, ns, from the first qp_move_drain() on; 0: they have not moved. */
uint64_t qp_move_pause(const struct qp_move *m);
/** [engine of @p to] End a move, which has not begun or is complete: give back what was reserved and is not needed. */
void qp_move_end(struct qp_move *m);
/** [any] Free a move that has ended, or that was only created. @param m  Or NULL. */
void qp_move_destroy(struct qp_move *m);

#endif /* UROCE_TRANSPORT_MOVE_H */
