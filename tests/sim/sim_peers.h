/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The ways between hosts, peers that are not uroce's or not of this connection, time that passes, and daemons that are replaced:
 * paths.c, partitions.c, mads.c, stale.c, foreign.c, clock.c and restart.c. A part of sim.h.
 */
#ifndef SIM_PEERS_H
#define SIM_PEERS_H

/* paths.c */
/** A connection's first path, each time it begins. */
void paths_begin(struct sim_world *w, struct sim_conn *c);
/** Give both ends of a path the addresses of this number. */
void paths_address(struct tp_path *path, struct uroce_ah_attr *ah, uint8_t number);
/** Packets that wait for the turn of @p q are dropped: what they say it won't hear. */
void paths_unheard(struct sim_qp *q);
/** A program loads alternate paths, and migrates. */
void paths_turn(struct sim_world *w, struct sim_qp *q);
/** PATH_MIG and PATH_MIG_ERR. @param may_fail  Its retries may have run out. */
void paths_event(struct sim_world *w, struct sim_qp *q, enum uroce_event type, bool may_fail);
/** @p q sends, and gets. */
void paths_sent(struct sim_world *w, const struct sim_qp *q, const struct wire_pkt *p);
void paths_arrives(const struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p);
/** @return true if a packet came by the path that @p q is on. */
bool paths_current(const struct sim_qp *q, const struct wire_pkt *p);
/** @p q's @p op has succeeded. */
void paths_retired(struct sim_world *w, const struct sim_qp *q, const struct sim_op *op);
/** @return true if a packet goes by a path that has died. */
bool paths_dead(const struct sim_world *w, struct rte_mbuf *m);

/* partitions.c */
/** The P_Key table of a host. */
void partitions_table(struct sim_ep *ep);
/** The partition of a connection, each time it begins. */
void partitions_choose(struct sim_world *w, struct sim_conn *c);
/** Equal but for the membership, and not both limited members (10.9.3). */
bool pkeys_meet(uint16_t a, uint16_t b);

/* mads.c */
void mads_turn(struct sim_world *w, struct sim_ep *ep);
/** transport_config.mad. */
void mads_received(void *arg, const struct tp_mad *m);
void mads_end(struct sim_world *w);

/* stale.c */
void stale_init(struct sim_world *w);
/** A packet is sent to endpoint @p to: it may come again in the next connection. */
void stale_keep(struct sim_world *w, uint32_t to, struct rte_mbuf *m);
/** What was sent to @p q is of a former connection from now on. */
void stale_round(struct sim_qp *q);
/** Perhaps a packet of the former connection comes to @p q. */
void stale_turn(struct sim_world *w, struct sim_qp *q);

/* foreign.c */
/** Make one end of a connection foreign, or not. @return true if it is. */
bool foreign_choose(struct sim_world *w, struct sim_conn *c);
void foreign_free(struct sim_qp *q);
/** Its program has posted something, or changed its state. Nothing happens to an end that is uroce's. */
void foreign_kick(struct sim_world *w, struct sim_qp *q);
/** The time of its next turn has been put off. */
void foreign_clock_jumps(struct sim_qp *q, uint64_t ns);
/** QP @p id has its turn. */
void foreign_turn(struct sim_world *w, uint32_t id);
/** A packet comes to an endpoint. @return true if it was for a foreign end, which has taken it. */
bool foreign_rx(struct sim_world *w, struct sim_ep *ep, struct rte_mbuf *m);

/* clock.c */
void clock_init(struct sim_world *w);
/** @return how long an engine of @p ep does nothing. */
uint64_t clock_stall_ns(struct sim_world *w, struct sim_ep *ep);
/** Perhaps the clocks of all hosts jump, before the next event. */
void clock_may_jump(struct sim_world *w);

/* restart.c */
void restart_init(struct sim_world *w, struct sim_ep *ep);
/** A turn has ended: replace the host's daemon, maybe. @return true if it makes no more turns for now. */
bool restart_may(struct sim_world *w, struct sim_ep *ep);

#endif /* SIM_PEERS_H */
