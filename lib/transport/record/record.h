/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The state of a transport's objects as records (base/record.h), for a hand-over: an engine stops at the end of a turn, saves what only it knows,
 * and another transport, of another process too, goes on from there. Rings and the words that clients share outlive both.
 *
 * What the caller gives to the new objects is what it gave to the old ones: rings at their places in its own address space, CQs, SRQs, shares,
 * cookies. The rest is in the record. Order: transport, CQs, SRQs, QPs.
 * Tables that engines share (keys of memory, AHs, groups) must have what they had before the first turn.
 *
 * Not in a record, because it is found anew or the peer's and our retries cover it:
 * - congestion control and window, round trips, tail loss probes, the scoreboard: the requester goes back N if it was repairing a loss;
 * - packets held beyond a gap or for a copy, packets built and not sent: as if the network had lost them;
 * - the log of rare events, and how long a share or QP may still send in this round.
 *
 * Everything in a record is hostile until it was checked: a record that is damaged, of another version, or has a field out of its range is refused
 * with a text that begins with the field's name, and nothing has changed.
 *
 * Owns nothing. Thread: as said at each function; [engine stopped] is the control thread while the engine makes no turns.
 */
#ifndef UROCE_TRANSPORT_RECORD_H
#define UROCE_TRANSPORT_RECORD_H

#include "base/record.h"
#include "transport/transport.h"

enum { TRANSPORT_RECORD_VERSION = 1, CQ_RECORD_VERSION = 1, SRQ_RECORD_VERSION = 1, QP_RECORD_VERSION = 3, AH_RECORD_VERSION = 1 };

/* ---- QPs ---- */
/** The addresses of a path, struct wire_addr. */
struct record_addr {
	uint8_t dmac[6], smac[6], sip[16], dip[16];
	uint32_t flow_label;
	uint16_t vlan_tci, sport;
	uint8_t ip_version, traffic_class, ttl, vlan;
};
/** A WQE in flight. */
struct qp_record_wqe {
	uint64_t wr_id;
	uint32_t first_psn, last_psn, length, recvs;
	uint8_t opcode, flags, nb_sge, status, verr, reserved[3];
};
/** A READ or atomic that a duplicate may ask for. */
struct qp_record_res {
	uint64_t value; /**< of an atomic: the result; else mark | length << 32 */
	uint32_t psn;
	uint8_t used, atomic, replay, placed;
};
/** A READ that is being answered. */
struct qp_record_read {
	uint64_t va;
	uint32_t rkey, cur, srqn, again;
	uint8_t begins, run, nth, reserved[5]; /**< nth: of the results */
};
/** An SGE of a receive that was taken from an SRQ. */
struct qp_record_sge {
	uint64_t addr;
	uint32_t length, lkey;
};

/** The result of an atomic that was executed in a turn that didn't count. Its request will come again. */
struct qp_record_kept {
	uint64_t value;
	uint32_t psn, reserved;
};
/** What else was done in a turn that didn't count, and isn't done again: qp_record.kept. */
enum {
	QP_KEPT_PLACED = 1, /**< bytes of WRITEs, ATOMIC_WRITEs and invalidations of all packets before placed_to */
	QP_KEPT_LOCAL = 2,  /**< binds and local invalidations of all WQEs before local_to */
};

/*
 * The members that are copied as they are: name, where they are in struct qp. Each has its check in qp_check.c.
 */
#define QP_RECORD_U64(X) \
	X(pending, resp.pending) X(va, rcv.va) X(rx_bytes, rcv.rx_bytes) X(tx_bytes, sched.tx_bytes) X(tx_packets, sched.tx_packets) \
	X(recv_wr_id, rcv.rwqe.wr_id) X(recv_room, rcv.rwqe.room)
#define QP_RECORD_U32(X) \
	X(pd, pd) X(sq_counter, req.sq.counter) X(sq_tail, req.sq_tail) X(sq_cur, req.sq_cur) X(psn_una, req.psn_una) X(psn_cur, req.psn_cur) \
	X(psn_max, req.psn_max) X(psn_next, req.psn_next) X(recvs_next, req.recvs_next) X(recvs_done, req.recvs_done) \
	X(recvs_limit, req.recvs_limit) X(sack_nonce, req.sack_nonce) X(rq_counter, rcv.rq.counter) X(epsn, rcv.epsn) X(msn, rcv.msn) \
	X(peer_nonce, rcv.sack_nonce) X(rq_seen, rcv.rq_seen) X(psn_dropped, rcv.psn_dropped) X(length, rcv.length) X(left, rcv.left) \
	X(rkey, rcv.rkey) X(recv_sge_off, rcv.rwqe.sge_off) X(reply_psn, resp.reply_psn) X(why_psn, diag.why_psn) \
	X(stuck_psn, diag.stuck_psn) X(losses, diag.losses) X(retransmitted, diag.retransmitted)
#define QP_RECORD_U16(X) \
	X(port, path.port) X(pkey, path.pkey) X(recv_counter, rcv.rwqe.wqe_counter) X(recv_nb_sge, rcv.rwqe.nb_sge) \
	X(recv_sge_cur, rcv.rwqe.sge_cur) X(why_detail, diag.why_detail)
#define QP_RECORD_U8(X) \
	X(state, state) X(rd_out, req.rd_out) X(sack_offers, req.sack_offers) X(request_mark, req.sack_mark) X(retry_left, loss.retry_left) \
	X(rnr_left, loss.rnr_left) X(msg, rcv.msg) X(nak_state, rcv.nak_state) X(own_mark, rcv.sack_mark) X(reply_mark, rcv.reply_mark) \
	X(reply, resp.reply) X(syndrome, resp.syndrome) X(res_max, resp.res_max) X(res_head, resp.res_head) X(res_limit, resp.res_limit) \
	X(mtu_shift, path.mtu_shift) X(mig, path.mig) X(why, diag.why)
#define QP_RECORD_BOOL(X) \
	X(sqd_event, req.sqd_event) X(credits, req.credits) X(out_of_credits, req.out_of_credits) X(sack_peer, req.sack_peer) \
	X(rnr_wait, loss.rnr_wait) X(restarted, loss.restarted) X(sack_on, rcv.sack_on) X(comm_est, rcv.comm_est) \
	X(last_wqe_event, rcv.last_wqe_event) X(recv_valid, rcv.rwqe.valid) X(loopback, path.loopback) X(alt_loaded, path.alt_loaded) \
	X(migrated, path.migrated) X(mig_err_event, path.mig_err_event)

/**
 * The fixed part. Behind it come wqes, results, READs, SGEs and what is kept, as many as it says, in this order. wqes are those in flight, or, from a journal, the
 * oldest of them: qp_restore() fetches the others from the SQ, where they stay until they are complete.
 */
struct qp_record {
	struct record_head head;
#define RECORD_MEMBER(name, member) uint64_t name;
	QP_RECORD_U64(RECORD_MEMBER)
#undef RECORD_MEMBER
	uint64_t timer_ns, giveup_ns; /**< until they fire; UINT64_MAX: they don't run */
	uint64_t stuck_age_ns, nak_age_ns, why_age_ns; /**< UINT64_MAX: never */
	uint64_t cnp_ns;              /**< until another CNP may be sent */
#define RECORD_MEMBER(name, member) uint32_t name;
	QP_RECORD_U32(RECORD_MEMBER)
#undef RECORD_MEMBER
	uint32_t qpn, srqn;           /**< srqn: XRC_RECV: the SRQ of the last request; 0: none */
	uint32_t nb_wqes, nb_res, nb_reads, nb_sges, nb_kept;
	uint32_t placed_to, local_to; /**< if kept says so: a PSN, a counter of the SQ */
	struct uroce_qp_attr attr;
	struct record_addr addr, alt; /**< if has_path, alt_loaded */
	uint16_t alt_port, alt_pkey;
#define RECORD_MEMBER(name, member) uint16_t name;
	QP_RECORD_U16(RECORD_MEMBER)
#undef RECORD_MEMBER
	uint8_t type, has_path, alt_loopback, sq_order, rq_order;
#define RECORD_MEMBER(name, member) uint8_t name;
	QP_RECORD_U8(RECORD_MEMBER)
	QP_RECORD_BOOL(RECORD_MEMBER)
#undef RECORD_MEMBER
	uint8_t kept;                 /**< QP_KEPT_* */
	uint8_t reserved[6];          /**< 0 */
};
static_assert(sizeof(struct record_addr) == 56 && sizeof(struct qp_record_wqe) == 32 && sizeof(struct qp_record_res) == 16 &&
	      sizeof(struct qp_record_read) == 32 && sizeof(struct qp_record_sge) == 16 &&
	      sizeof(struct qp_record_kept) == 16, "format");
static_assert(sizeof(struct uroce_qp_attr) == 132 && sizeof(struct qp_record) == 568, "format");

/** [engine stopped] @return the size of the record that qp_save() would write now. */
uint32_t qp_record_bytes(const struct qp *qp);
/**
 * [engine stopped] Drop what is not in a record, and write the record of @p qp to @p to, aligned to 8. The QP may go on afterwards.
 * @param room  Bytes at @p to.
 * @return 0; EBUSY (a copy for it is under way: let it end, transport_copied()); ENOSPC.
 */
int qp_save(struct transport *tp, struct qp *qp, struct qp_record *to, uint32_t room);
/**
 * [engine stopped] Create a QP as it was saved, in the same state and under the same number; it gets a turn as soon as there is one.
 * @param p  What the QP is made of, as for qp_create().
 * @param why  If not NULL: gets what was wrong, a static string that begins with the field's name.
 * @return 0; EINVAL (the record was refused, or @p p doesn't fit it); EEXIST (the number is in use); ENOMEM (no memory, a pool is empty).
 */
int qp_restore(struct transport *tp, const struct qp_record *r, uint32_t room, const struct qp_params *p, uint64_t now_ns, struct qp **out,
	       const char **why);

/* ---- CQs and SRQs ---- */
/** cq_record.held. */
enum { CQ_RECORD_HELD = 1, CQ_RECORD_HELD_SOLICITED = 2 };
struct cq_record {
	struct record_head head;
	uint32_t prod, cons;        /**< counters: the next CQE, what the client had polled */
	uint32_t reported;          /**< counter of the next CQE at the last event */
	uint32_t moderation;
	uint32_t owed;              /**< events for which the channel had no room */
	uint8_t order, overrun, multi;
	uint8_t held;               /**< an event that moderation holds back: CQ_RECORD_HELD* */
};
static_assert(sizeof(struct cq_record) == 40, "format");
/** [engines stopped] @param tps  All transports whose QPs use it. */
void cq_save(struct transport *const *tps, uint32_t nb, const struct cq *cq, struct cq_record *to);
/**
 * [engine stopped] Create a CQ as it was saved. An event that was held back, or had no room, is raised in a turn of @p tp.
 * @param p  As for cq_create(); the ring is the one in use when the CQ was saved.
 * @return as qp_restore().
 */
int cq_restore(struct transport *tp, const struct cq_record *r, uint32_t room, const struct cq_params *p, uint64_t now_ns, struct cq **out,
	       const char **why);

struct srq_record {
	struct record_head head;
	uint32_t counter;           /**< receives taken so far */
	uint32_t limit, pd, srqn, xrcd;
	uint8_t order, reserved[3];
};
static_assert(sizeof(struct srq_record) == 40, "format");
/** [engine stopped] */
void srq_save(const struct srq *srq, struct srq_record *to);
/** [engine stopped] Create an SRQ as it was saved; p->limit is ignored. @return as qp_restore(). */
int srq_restore(struct transport *tp, const struct srq_record *r, uint32_t room, const struct srq_params *p, struct srq **out,
		const char **why);

/* ---- AHs ---- */
struct ah_record {
	struct record_head head;
	uint32_t handle, pd;
	struct record_addr addr;
	uint16_t port, pkey;
	uint8_t loopback, multicast, reserved[2];
};
static_assert(sizeof(struct ah_record) == 88, "format");
/** [control] @return 0; EINVAL: there is no AH with this handle of this PD. */
int ah_save(const struct ah_table *t, uint32_t handle, uint32_t pd, struct ah_record *to);
/**
 * [control] Create an AH as it was saved, under the same handle.
 * @param nb_ports  Of the transports that will use it.
 * @return as qp_restore().
 */
int ah_restore(struct ah_table *t, const struct ah_record *r, uint32_t room, uint16_t nb_ports, const char **why);

/* ---- Transports ---- */
enum {
#define RECORD_ONE(name) RECORD_COUNTER_##name,
	TP_COUNTERS(RECORD_ONE)
#undef RECORD_ONE
	RECORD_COUNTERS
};
/** What a transport has counted, so that counters don't begin anew. */
struct transport_record {
	struct record_head head;
	uint32_t nb_counters, nb_ports;
	uint64_t counters[RECORD_COUNTERS];
	struct {
		uint64_t bad_pkey, bad_qkey;
	} violations[UROCE_MAX_PORTS];
};
/** [engine stopped] */
void transport_save(const struct transport *tp, struct transport_record *to);
/** [engine stopped] Go on counting in a transport that has had no turn yet. @return 0 or EINVAL. */
int transport_restore(struct transport *tp, const struct transport_record *r, uint32_t room, const char **why);

#endif /* UROCE_TRANSPORT_RECORD_H */
