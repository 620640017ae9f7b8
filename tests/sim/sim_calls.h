/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the parts of the simulator do for each other, by file. Included by sim.h, which has the structs and says what each file is for.
 */
#ifndef SIM_CALLS_H
#define SIM_CALLS_H

/* leaks.c */
/** @return blocks of memory and mappings in use; 0 if they aren't counted. */
int64_t leaks_in_use(void);

/* world.c */
/** Run one seed. @return true if all was as it must be; else w->why tells. */
bool world_run(struct sim_world *w, const struct sim_config *c, bool verbose);
/** Add an event to the queue. */
void world_event_put(struct sim_world *w, struct sim_event e);
void world_event_add(struct sim_world *w, uint64_t at, enum sim_event_type type, uint32_t ep, struct rte_mbuf *m);
/** Let endpoint @p ep take a turn at @p at at the latest. */
void world_run_at(struct sim_world *w, uint32_t ep, uint64_t at);
/** The first failure of a seed; later ones are consequences. */
void sim_fail(struct sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sim_trace(struct sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Zeroed memory of the arena, until the end of the seed. NULL: it is full. */
uint8_t *arena_get(struct sim_world *w, uint64_t bytes);

/* endpoint.c */
bool endpoint_create(struct sim_world *w, uint32_t id);
void endpoint_destroy(struct sim_ep *ep);
void endpoint_turn(struct sim_world *w, struct sim_ep *ep);
/** A packet arrives. Takes ownership. */
void endpoint_packet(struct sim_world *w, struct sim_ep *ep, struct rte_mbuf *m);
/** It is time for a copy of memory that isn't mapped to end. */
void endpoint_copied(struct sim_world *w, struct sim_ep *ep, struct mem_job *job);
/** Send all that an engine has built, whatever the NIC says. */
void endpoint_flush(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e, uint16_t port);
/** The rest of an engine's turn, after it has received something. */
void endpoint_end_turn(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e);
/** Give an engine all that waits for it. */
void endpoint_drain(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e);
/** Packets that nobody will see. */
void burst_free(struct sim_burst *b);

/* mtus.c */
void mtus_init(struct sim_world *w, struct sim_ep *ep);
/** A turn of an endpoint begins: one of its ports may have another MTU from now on. */
void mtus_turn(struct sim_world *w, struct sim_ep *ep);
/** A packet leaves by a port. */
void mtus_check(struct sim_world *w, const struct sim_ep *ep, uint16_t port, const struct rte_mbuf *m);
/** @return whether a port has had a smaller MTU since @p ns, and packets may have been dropped. */
bool mtus_small_since(const struct sim_ep *ep, uint64_t ns);

/* moves.c */
void moves_init(struct sim_world *w, struct sim_ep *ep);
/**
 * A turn of an endpoint is over: a QP may begin to move, or goes a step further.
 * @param next  When the next turn is due; becomes earlier if a QP has to leave before.
 * @return whether one is on its way.
 */
bool moves_turn(struct sim_world *w, struct sim_ep *ep, uint64_t *next);
/** @return whether a QP has left and not arrived, or its former engine has something to do still. */
bool moves_under_way(const struct sim_ep *ep);
/** End a move that is under way, as it must be before anything else is done with the QP. One that only drains doesn't end. */
void moves_finish(struct sim_world *w, struct sim_ep *ep);
/** The same, and QPs that only drain stay: one may be destroyed. */
void moves_stop(struct sim_world *w, struct sim_ep *ep);
/** @return whether @p q is on its way from one engine to another. */
bool moves_away(const struct sim_qp *q);

/* link.c */
void link_init(struct sim_world *w);
/** @return true if the way between two endpoints ends during this seed, for good. */
bool link_dies(const struct sim_world *w, uint32_t from, uint32_t to);
/** @return when the last packet that endpoint @p from has sent so far leaves it. */
uint64_t link_busy_until(const struct sim_world *w, uint32_t from);
void link_join_lanes(struct sim_world *w, uint32_t from);
/**
 * Takes the packet that endpoint @p from sends out of @p port.
 * @param queue  The engine whose TX queue it comes from; -1: none's.
 */
void link_send(struct sim_world *w, uint32_t from, uint16_t port, int queue, struct rte_mbuf *m);
void link_describe(char *buf, size_t len, struct rte_mbuf *m);

/* sent.c */
/** The RC QP of a good program that has this number, or NULL. */
struct sim_qp *sent_for(struct sim_world *w, uint32_t ep, uint32_t qpn);
/** @return the service of an RC or XRC connection's packets. */
static inline uint8_t
sent_service(const struct sim_qp *q)
{
	return q->conn->xrc ? WIRE_XRC : WIRE_RC;
}
/** Look at a packet that is sent. */
void sent_check(struct sim_world *w, uint32_t from, uint32_t to, struct rte_mbuf *m);
/** ... and that a transport @p tp gets to see. */
void sent_arrives(struct sim_world *w, uint32_t to, const struct transport *tp, struct rte_mbuf *m);
/** At the end of a connection. */
void sent_end(struct sim_world *w, const struct sim_qp *q);

/* credits.c */
/** @p q's peer answers with an AETH. */
void credits_answer(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p);
/** The daemon of @p q's host is killed. */
void credits_killed(const struct sim_world *w, struct sim_qp *q);
/** @p q sends a request for the first time. */
void credits_request(struct sim_world *w, struct sim_qp *q, const struct wire_pkt *p);
/** What comes to @p q: an answer, which it takes for certain if @p taken, or a request of @p psns PSNs. */
void credits_answered(struct sim_qp *q, const struct wire_pkt *p, bool taken);
void credits_requested(struct sim_qp *q, const struct wire_pkt *p, uint32_t psns);

/* setup.c */
bool conn_create(struct sim_world *w, struct sim_conn *c);
/** A way from a port of one endpoint to one of another. */
void path_make(const struct sim_ep *from, uint16_t from_port, const struct sim_ep *to, uint16_t to_port, bool ip6, struct rng *r,
	       struct tp_path *path, struct uroce_ah_attr *ah);
/** Once all are there: ways between those that send to one another. */
bool conns_join(struct sim_world *w);
/** Draw what both ends must agree on. The PSNs to start from stand in sq_psn. */
void conn_attributes(struct sim_world *w, struct sim_conn *c);
int sim_mr_create(struct sim_ep *ep, struct sim_mr *m, uint8_t *base, uint32_t len, uint32_t pd, uint32_t access,
		  struct rng *r);
/** Nothing happens if it is gone already. */
void sim_mr_free(struct sim_ep *ep, struct sim_mr *m);
/** What was deregistered comes again, under another key. */
bool mrs_again(struct sim_qp *q);

/* states.c */
void qp_to_state(struct sim_world *w, struct sim_qp *q, enum uroce_qp_state to);
void qp_to_err(struct sim_world *w, struct sim_qp *q);
/** A send has completed: if it is the last of those that were flushed because SQE was left, the QP is as good as new. */
void qp_sqe_flushed(struct sim_qp *q);
/** A QP on its way to RTS: one state further, if it is time. */
void qp_bring_up(struct sim_world *w, struct sim_qp *q);
/** What happens to a QP that is up: SQD, errors and deregistrations on purpose. */
void qp_disturb(struct sim_world *w, struct sim_qp *q);

/* conn.c */
/** Bring the QPs one state further if it is time; begin and end SQD; end the connection when its programs end. */
void conn_step(struct sim_world *w, struct sim_conn *c);
void conn_destroy(struct sim_world *w, struct sim_conn *c);

/* recvq.c */
void recvq_init(struct sim_world *w, struct sim_recvq *rq, uint64_t wr_id, uint32_t nb_room);
bool recvq_memory(struct sim_world *w, struct sim_recvq *rq, uint32_t depth, uint32_t recv_len);
/** Post some of what there is room for. @return receives posted. */
uint32_t recvq_post(struct sim_world *w, struct sim_recvq *rq);
bool srq_make(struct sim_world *w, struct sim_recvq *rq, struct sim_engine *e, uint32_t id);
/** An SRQ's client: posts, and arms the limit event. */
void srq_turn(struct sim_world *w, struct sim_recvq *rq);
void srq_free(struct sim_ep *ep, struct sim_recvq *rq);
void srq_limit_event(struct sim_world *w, struct sim_recvq *rq);
/** The receive that a CQE is for. @return NULL, and the seed fails, if there is none. */
struct sim_recv *recvq_complete(struct sim_world *w, struct sim_qp *q, const struct ring_cqe *e, uint16_t counter);
/** All that was taken has been completed. */
void srq_check_end(struct sim_world *w, struct sim_recvq *rq);

/* looks.c */
/** Now and then: look at a QP as its administrator does. */
void looks_turn(struct sim_world *w);

/* shares.c */
/** Make the shares of an endpoint's engines. @return false: no memory. */
bool shares_make(struct sim_world *w, struct sim_ep *ep);
/** @return the share of a QP of @p tp, drawn by @p number, or NULL. */
struct share *shares_choose(const struct sim_world *w, struct sim_ep *ep, const struct transport *tp, uint32_t number);
/** A turn has ended. */
void shares_check(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e);
void shares_free(struct sim_ep *ep);

/* client.c */
/** Events for several completions from now on, or again for each. */
void client_moderate(struct sim_world *w, struct sim_cq *c);
/** A CQ's program is through: no event is held back any more. */
void client_let_go(struct sim_cq *c, bool raise);
/** Take all there is in a CQ. */
void client_drain(struct sim_world *w, struct sim_cq *c);
/** @return true if there was something to do. */
bool client_turn(struct sim_world *w, struct sim_ep *ep);
/** Only post. */
void client_post(struct sim_world *w, struct sim_ep *ep);
/** @return true if the QP's program has posted all it will and seen all completions of sends it can get. */
bool client_sends_done(const struct sim_qp *q);
bool client_dead(const struct sim_qp *q);

/* program.c */
void program_init(struct sim_world *w, struct sim_qp *q);
/** Make up the next send work request. */
void program_op(struct sim_world *w, struct sim_qp *q, struct sim_op *op);
void program_recv(struct sim_world *w, struct sim_recvq *rq, struct sim_recv *r);
bool op_consumes(const struct sim_op *op);
bool op_brings(const struct sim_op *op);
bool op_one_sided(const struct sim_op *op);
bool op_atomic(const struct sim_op *op);
/** BIND_MW and LOCAL_INV: nothing is sent. */
bool op_local(const struct sim_op *op);
/** @return true if the mistake is seen by the sender itself. */
bool plant_is_local(enum sim_plant p);

/* model.c */
void model_cqe(struct sim_world *w, struct sim_cq *c, const struct ring_cqe *e, union ring_cqe_ctl ctl);
/** A CQ is in error. */
void model_cq_error(struct sim_world *w, struct sim_cq *c);
void model_event(struct sim_world *w, struct sim_qp *q, enum uroce_event type);
/** After the end of a connection: completions are complete and memory is what it must be. */
void model_conn_end(struct sim_world *w, struct sim_conn *c);
void model_world_end(struct sim_world *w);

/** @return true if one of the QP's CQs is in error. */
bool qp_cq_dead(const struct sim_qp *q);

/* windows.c */
bool windows_make(struct sim_world *w, struct sim_qp *q);
/** The program is over; checks whether the region can be deregistered. */
void windows_end(struct sim_world *w, struct sim_qp *q);
/** Make @p op a bind or an invalidation of an own window, or of the peer's. @return false: not now. */
bool windows_local_op(struct sim_world *w, struct sim_qp *q, struct sim_op *op);
bool windows_send_inv(struct sim_world *w, struct sim_qp *q, struct sim_op *op);
/** Let a one-sided operation of known kind go through a window, if there is one that fits. May shorten it. */
void windows_choose(struct sim_world *w, struct sim_qp *q, struct sim_op *op);
/** The address that @p op, which goes through a window, gives for offset @p off of the region. */
uint64_t windows_address(const struct sim_op *op, uint32_t off);
/** What the WQE of a local operation says. */
void windows_put(const struct sim_qp *q, const struct sim_op *op, struct ring_sq_wqe *e);
/** @p op has completed. */
void windows_retire(struct sim_qp *q, const struct sim_op *op);
/** A SEND_WITH_INV of the peer's has arrived. */
void windows_invalidated(struct sim_qp *q, const struct sim_op *op);
/**
 * READ responses that are paced, or more than a TX vector holds, keep a SEND_WITH_INV behind them waiting: until the peer
 * sends it again. @return true if that can be in this seed.
 */
bool invalidate_may_wait(const struct sim_world *w);
void windows_trace(struct sim_world *w, const struct sim_qp *q, const struct sim_op *op);
/** @return true if the window under @p op may have gone while it was under way. */
bool windows_raced(const struct sim_qp *q, const struct sim_op *op);

/* xrc.c */
bool xrc_make(struct sim_world *w, struct sim_ep *ep);
void xrc_free(struct sim_ep *ep);
/** What a QP of an XRC connection has and lacks. */
void xrc_qp_parts(struct sim_qp *q);
/** @return the number of the SRQ that an operation names. */
uint32_t xrc_choose(struct sim_qp *q, enum sim_plant plant);
/** @return the SRQ whose number has these low 16 bits, or NULL. */
struct sim_recvq *xrc_recvq(struct sim_ep *ep, uint16_t low);
/** @return true if the target has seen message @p i. */
bool xrc_received(const struct sim_qp *q, uint32_t i);
/** @return true if the CQ of one of the endpoint's XRC SRQs is in error. */
bool xrc_cq_dead(const struct sim_ep *ep);
/** @return true if there is nothing left to poll in any of them. */
bool xrc_receives_polled(const struct sim_ep *ep);
/** A target was reset; it may have taken a receive. */
void xrc_receive_lost(struct sim_ep *ep);

/* mcast.c */
/** Groups, members and those who send to them, once all QPs are there. */
bool mcast_make(struct sim_world *w);
/** Before a QP goes. */
void mcast_leave(struct sim_qp *q);
/** Members of an endpoint that come and go. */
void mcast_turn(struct sim_world *w, struct sim_ep *ep);
/** Make @p op a datagram to a group. @return false: not now. */
bool mcast_choose(struct sim_world *w, struct sim_qp *q, struct sim_op *op);
/** @return the longest datagram that all members of a group take. */
uint32_t mcast_mtu(const struct sim_world *w, uint32_t group);
/** @return the number of the group of this address, behind a GRH; 0: it is no group's. */
uint32_t mcast_group_of(const struct sim_world *w, const uint8_t *grh);
/** UD, UC: may a QP get this message? */
bool op_reaches(const struct sim_op *op, const struct sim_qp *q);
/** @return true if the QP was in none, or in the same ones all the time. */
bool mcast_steady(const struct sim_qp *q);
void mcast_world_end(struct sim_world *w);

/* tally.c */
/** A packet leaves an engine's TX vector. */
void tally_sent(struct sim_engine *e, struct rte_mbuf *m);
/** A packet is given to an engine. */
void tally_arrived(struct sim_engine *e, struct rte_mbuf *m);

/* hostile.c */
bool hostile_create(struct sim_world *w);
void hostile_turn(struct sim_world *w);
/** Nothing happens if there is nothing left of it. */
void hostile_destroy(struct sim_world *w);

/* connect.c */
/** A host's CM. @return false: no memory. */
bool connect_make(struct sim_world *w, struct sim_ep *ep);
void connect_free(struct sim_world *w, struct sim_ep *ep);
/** The daemon is replaced: another CM goes on from records. */
/* ---- crash.c ---- */
/** Once: memory for the journals of all hosts. @return false: there is none. */
bool crash_setup(void);
/** Give an engine of a host that will be killed memory for its journal. */
void crash_config(const struct sim_world *w, const struct sim_ep *ep, uint32_t engine, struct transport_config *c);
void crash_hook(const struct sim_world *w, struct sim_ep *ep, struct transport *tp);
/** Before an engine's turn: it may be killed in it. */
void crash_may(struct sim_world *w, struct sim_ep *ep, const struct sim_engine *e);
/** @return whether the host was killed in the turn that is over. Then it has been made again from its journals. */
bool crash_killed(struct sim_world *w, struct sim_ep *ep);
/** An asynchronous event was told. */
void crash_told(struct sim_ep *ep);

void connect_restart(struct sim_world *w, struct sim_ep *ep);
/** Whether the CM makes a connection. */
void connect_choose(struct sim_world *w, struct sim_conn *c);
/** @return false: the MAD isn't one of the CM's. */
bool connect_takes(struct sim_ep *ep, const struct tp_mad *m);
void connect_turn(struct sim_world *w, struct sim_ep *ep);
/** A QP that isn't ready: one step further, if it is time. */
void connect_bring_up(struct sim_world *w, struct sim_qp *q);
void connect_comm_est(struct sim_qp *q);
/** The programs are through. @return true if the connection has ended at both ends. */
bool connect_end(struct sim_world *w, struct sim_conn *c);
/** @return true if TimeWait is over at both ends. */
bool connect_may_begin(const struct sim_conn *c);
void connect_anew(struct sim_conn *c);
/** @return the PSN that the next connection begins with. */
uint32_t connect_next_psn(struct sim_qp *q);
/** Nobody will use the QP any more. */
void connect_leave(struct sim_world *w, struct sim_qp *q);

/* huge.c */
/** Once all connections are there. @return false: no memory. */
bool huge_make(struct sim_world *w);
void huge_free(struct sim_world *w);
/** Make @p op a message of many megabytes. @return false: not now. */
bool huge_choose(struct sim_world *w, struct sim_qp *q, struct sim_op *op);
/** What the WQE says of its memory. */
void huge_put(const struct sim_world *w, const struct sim_op *op, struct ring_sq_wqe *e);
/** It has completed. */
void huge_check(struct sim_world *w, struct sim_qp *q, const struct sim_op *op);

/* atomics.c */
/** Remember a program's atomics; before its operations are forgotten. */
void atomics_note(struct sim_qp *q);

#endif /* SIM_CALLS_H */
