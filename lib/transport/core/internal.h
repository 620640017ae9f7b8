/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the files of lib/transport share. Nobody else includes it.
 *
 * Ownership, in prose:
 *
 * - A struct transport and every QP and SRQ in it are touched by their engine's thread only. Two fields of a QP
 *   are read by other engines between table look-up and quiescent state: qpn and tp (never written after creation).
 * - A CQ has several producers if it was made `multi`; its fields say which are atomic.
 * - A QP is on the active list while the engine has something to do for it or watches its SQ (sq_watch 1), and on
 *   the ack list while it owes the peer a reply. Whoever gives a QP work calls qp_activate() or qp_reply_later();
 *   nobody else puts it on a list. With work pending that a full TX vector or an empty mempool refused, it stays on.
 * - PSNs are assigned when a WQE is fetched, so a packet can be made again from its PSN alone: the WQE that has
 *   the PSN, and the offset in it. Nothing else is kept for retransmission.
 * - What the engine relies on (opcode, lengths, counts, PSNs) is copied from a posted WQE once, into struct tp_swqe,
 *   and checked. Addresses, keys and inline bytes are read from the slot again for each packet; every use checks
 *   them against the MR table. A client that rewrites a posted slot changes what its own message says, nothing else.
 * - MR pointers are never kept beyond the call that looked them up.
 * - Moving to ERR (qp_error()) only changes the state and wakes the QP; flushing happens in its turn
 *   (qp_flush_run()). So it may be called from anywhere, also while completions are being written.
 */
#ifndef UROCE_TP_INTERNAL_H
#define UROCE_TP_INTERNAL_H

#include "transport/core/types.h"

/* ---- transport.c ---- */
void tp_event(struct transport *tp, enum uroce_event type, uint64_t cookie, void *owner);
void qp_activate(struct transport *tp, struct qp *qp);
void qp_reply_later(struct transport *tp, struct qp *qp);
/** Take @p qp off both lists and stop its timer. */
void qp_unlist(struct transport *tp, struct qp *qp);
struct rte_mbuf *tp_mbuf_refill(struct transport *tp);
/** A packet that is for @p qp, which is this transport's: check it and hand it to the service. */
void transport_to_qp(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p);

/* ---- qp_table.c ---- */
/** @return 0 or ENOMEM. Sets qpn and slot. */
int qp_table_add(struct qp_table *t, struct qp *qp);
/** Unpublish; the memory is freed by qp_free() after the grace period. */
void qp_table_remove(struct qp_table *t, struct qp *qp);
/** What the QPs that are gone still answer. */
struct time_wait_table *qp_table_time_wait(struct qp_table *t);

/* ---- diag.c ---- */
/** @return 0 or ENOMEM. */
int diag_create(struct transport *tp);
void diag_destroy(struct transport *tp);
/** Remember a rare event. Not for what happens packet by packet. */
void diag_note(struct transport *tp, const struct qp *qp, enum qp_event_kind kind, uint8_t a, uint16_t b, uint32_t psn);
/** psn_una doesn't get on, as far as is known since @p since_ns. */
void diag_stuck(struct qp *qp, uint64_t since_ns);
/** Why a QP can't go on. */
struct tp_because {
	uint8_t why;     /**< enum qp_why */
	uint16_t detail;
};
#define TP_BECAUSE(why, detail) ((struct tp_because){ QP_WHY_##why, (uint16_t)(detail) })
/** It has gone to ERR or SQE. */
void diag_failed(struct transport *tp, struct qp *qp, struct tp_because because);

/* ---- qp.c ---- */
void qp_free(struct qp *qp);
/** Move to ERR; @p event or -1. Harmless if it is there already. */
void qp_error(struct transport *tp, struct qp *qp, int event, struct tp_because because);
/** Send error of a UC or UD QP: SQE. */
void qp_send_error(struct transport *tp, struct qp *qp, struct tp_because because);
/** Flush in ERR and SQE. @return WQEs flushed. */
uint32_t qp_flush_run(struct transport *tp, struct qp *qp, uint32_t budget);
/** The SQ stopped moving: in SQD say so once. */
void qp_check_drained(struct transport *tp, struct qp *qp);

/** Send by @p path from now on. No allocation if the QP has a struct cc or needs none. */
void qp_use_path(struct transport *tp, struct qp *qp, const struct tp_path *path);

/* ---- migration.c ---- */
/** An alternate path. @return 0 or ENOMEM. */
int migration_load(struct qp *qp, const struct tp_path *path);
/** May path_mig_state be set to @p to? @p loading: an alternate path comes with it. */
bool migration_may(const struct qp *qp, uint32_t to, bool loading);
void migration_set(struct transport *tp, struct qp *qp, uint32_t to);
void migration_reset(struct qp *qp);
/** Change to the alternate path. @return false: there is none to change to. */
bool migration_go(struct transport *tp, struct qp *qp);
/** A packet for a QP that is REARM or ARMED. @return false: drop it. */
bool migration_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

/* ---- cq.c ---- */
/** Fields of a CQE; ctl without phase. */
struct tp_cqe {
	uint64_t wr_id;
	uint32_t byte_len, imm, src_qp;
	uint8_t status, opcode;
	union ring_cqe_ctl ctl;
};
/** Write a CQE of @p qp. An overrun takes CQ and QP to error. */
void cq_push(struct transport *tp, struct cq *cq, struct qp *qp, const struct tp_cqe *e);
/** End of a turn: one fence, then the channels of armed CQs. */
void cq_flush_touched(struct transport *tp);
/** Raise the events that were held back and are due. */
void cq_run_deferred(struct transport *tp);

/* ---- requester.c ---- */
/** Send what may be sent. @return packets sent and WQEs fetched. */
uint32_t requester_run(struct transport *tp, struct qp *qp, uint32_t budget);
/** @return true if there is something to send and nothing of the peer's to wait for. */
bool requester_pending(const struct qp *qp);
/** Gather @p len bytes at offset @p off of the message. @return 0, or the status that @p w has then too. */
uint8_t requester_gather(struct transport *tp, const struct qp *qp, struct tp_swqe *w, const struct ring_sq_wqe *slot,
			 uint32_t off, uint8_t *dst, uint32_t len);
/** A request of @p psns PSNs has been sent. */
void requester_sent(struct transport *tp, struct qp *qp, const struct tp_swqe *w, uint32_t psns);
/** Go back to the oldest PSN that is not acknowledged. */
void requester_rewind(struct transport *tp, struct qp *qp);
/** Send the oldest packet that is not acknowledged again, and ask for an answer. */
void requester_probe(struct transport *tp, struct qp *qp);
/** Send the packet of @p psn, which is in WQE @p counter, again. @return 1 if sent; 0: not now, or the WQE is bad. */
uint32_t requester_send_again(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t psn);
/** Ask for @p packets packets of a READ again, from @p psn on. @return as requester_send_again(). */
uint32_t requester_read_again(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t psn, uint32_t packets);
/** SQD: give back the WQEs that haven't been started. */
void requester_unfetch(struct qp *qp);
/** Nothing in flight: return a borrowed window. */
void inflight_return(struct transport *tp, struct qp *qp);

/* ---- completer.c ---- */
/** A response packet, admitted. */
void completer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** Everything up to @p psn has arrived. @return false: a READ or atomic before it lacks its response. */
bool completer_acknowledge(struct transport *tp, struct qp *qp, uint32_t psn);
/**
 * Scatter response bytes at offset @p off of the message into the SGEs of WQE @p counter. @return 0 or the vendor error.
 */
uint8_t completer_scatter(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t off, const uint8_t *data,
			  uint32_t len);
/** The next PSN of the READ or atomic at the head has been answered. */
void completer_answered(struct transport *tp, struct qp *qp);
/** A response was lost: ask again. */
void completer_restart(struct transport *tp, struct qp *qp);
/** The peer is there and things arrive, though psn_una stays: the timer starts anew. */
void completer_alive(struct transport *tp, struct qp *qp);
/** How long the ACK timer runs now. */
uint64_t completer_ack_timeout_ns(const struct qp *qp);
/** The timer of a QP. */
void completer_timer(struct transport *tp, struct qp *qp);
/** Start the ACK timer if it isn't running. */
void completer_arm(struct transport *tp, struct qp *qp);
/** Complete the oldest WQE with success. */
void completer_head(struct transport *tp, struct qp *qp);
/** Complete the oldest WQE with an error; the QP goes to ERR, or SQE. */
void completer_fail_head(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr);

/* ---- window.c: how much may be on the way ---- */
/** A connection begins: its window, nothing measured. */
void cwnd_start(struct qp *qp);
/** Round trips and probes of the path before say nothing any more. */
void cwnd_new_path(struct qp *qp);
/** The round trip that is being measured can't be told any more; the next packet's may be. */
static inline void
rtt_untime(struct qp *qp)
{
	qp->loss.rtt_timing = false;
	qp->loss.rtt_next_ns = 0;
}
/** The packet of rtt_psn has arrived. */
void rtt_measured(struct transport *tp, struct qp *qp);
/** psn_una has moved: the window may grow. */
void cwnd_grow(struct qp *qp);
static inline void
cwnd_progress(struct qp *qp)
{
	if (wire_psn_diff(qp->req.psn_una, qp->loss.psn_grow) >= 0)
		cwnd_grow(qp);
}
/** Something was lost, nobody knows how much; @p timeout: nothing came at all. */
void cwnd_loss(struct transport *tp, struct qp *qp, bool timeout);
/** @p n packets that are known one by one were lost. */
void cwnd_lost(struct transport *tp, struct qp *qp, uint32_t n);
/** What limits the window has changed. */
void cwnd_update(struct qp *qp);

/* ---- local.c ---- */
/** BIND_MW and LOCAL_INV. @return 1 if done; 0 if it has to wait or was refused (w->status). */
uint32_t local_run(struct transport *tp, struct qp *qp, struct tp_swqe *w);

/* ---- ah.c ---- */
struct tp_ah {
	uint32_t handle, pd;
	struct tp_path path;
	struct wire_tmpl tmpl;  /**< to be copied: its ICRC cache has one user */
	struct deferred deferred;
};
/** @return the AH, good until the next quiescent state, or NULL. */
const struct tp_ah *ah_get(const struct ah_table *t, uint32_t handle, uint32_t pd);

/* ---- ud.c ---- */
/** Send a UD message. @return packets sent: 0 if it has to wait or the WQE turned out bad. */
uint32_t ud_send(struct transport *tp, struct qp *qp, struct tp_swqe *w);
void ud_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

/* ---- mcast.c ---- */
/** A packet for the multicast QPN whose ICRC is good. */
void mcast_rx(struct transport *tp, uint16_t port, const struct wire_pkt *p);
/** @p qp has sent this to a group: copies for members on this host. */
void mcast_loop(struct transport *tp, const struct qp *qp, const struct rte_mbuf *sent);

/* ---- gsi.c ---- */
/** A packet for QP 1 whose ICRC is good. */
void gsi_rx(struct transport *tp, uint16_t port, const struct wire_pkt *p);

/* ---- read_atomic.c ---- */
/** Requests with the expected PSN: executed, remembered, answered later; or refused. */
void responder_read(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void responder_atomic(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void responder_atomic_write(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void responder_flush(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** @return what was executed with @p psn, or NULL. */
struct tp_res *responder_res_find(struct qp *qp, uint32_t psn);
/** Answer a READ again, all of it or a part. @return false: it is not what was asked for, or there is no place now. */
bool responder_read_again(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** The last PSN of what was executed. */
static inline uint32_t
res_last_psn(const struct qp *qp, const struct tp_res *r)
{
	return r->atomic ? r->psn : wire_psn_add(r->psn, wire_packets(r->length, qp->path.mtu_shift) - 1);
}
/** Nothing is left to be answered: give back what was lent for it. */
static inline void
responder_return_reads(struct transport *tp, struct qp *qp)
{
	if (qp->resp.reads == NULL || qp->resp.pending != 0)
		return;
	tp->read_blocks[tp->nb_read_blocks++] = qp->resp.reads;
	qp->resp.reads = NULL;
}

/** @return what was executed last, or NULL. */
static inline const struct tp_res *
responder_last_res(const struct qp *qp)
{
	const struct tp_res *r = qp->resp.res_max != 0 ? &qp->resp.res[(qp->resp.res_head == 0 ? qp->resp.res_max : qp->resp.res_head) - 1] : NULL;

	return r != NULL && r->used ? r : NULL;
}

/* ---- parted.c ---- */
/** [control] The QPs of a table that are gone and still acknowledge duplicates, for all engines. @return NULL: no memory. */
struct time_wait_table *time_wait_create(void);
/** [control, or its engine] @p qp is about to be destroyed. */
void time_wait_add(struct time_wait_table *t, struct transport *tp, const struct qp *qp);
/**
 * [any engine] A packet, good in itself, for a number that no QP has.
 * @return true: it is a duplicate of what a QP has executed that is gone; acknowledged if the peer asked for that.
 */
bool time_wait_rx(struct time_wait_table *t, struct transport *tp, uint16_t port, const struct wire_pkt *p);

/* ---- responder.c, reply.c, uc.c ---- */
/** Execute the request with the expected PSN. */
void responder_execute(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** A request packet, admitted, of an RC QP. */
void responder_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** Send responses and the reply. @return packets sent. */
uint32_t responder_run(struct transport *tp, struct qp *qp, uint32_t budget);
static inline bool
responder_busy(const struct qp *qp)
{
	return qp->resp.pending != 0 || qp->resp.reply != TP_REPLY_NONE;
}
/** The next request needs what there isn't now: RNR NAK (class B errors, 9.9.3), the peer tries again. */
void responder_not_ready(struct transport *tp, struct qp *qp);
/** Refuse a request for good (class C errors, 9.9.3): NAK with its PSN, QP to ERR. */
void responder_refuse(struct transport *tp, struct qp *qp, uint8_t syndrome, uint32_t psn);
/**
 * epsn has moved, after something beyond it was dropped or refused. If the NAK still waits to be sent it now asks for
 * what comes next, provided that was dropped: the peer has no other way to know. @return true if so.
 */
bool responder_gap_remains(struct qp *qp);
/** What a peer's key opens to it. @p va becomes the address in that MR. */
static inline struct mr *
key_opens(struct transport *tp, const struct qp *qp, uint32_t rkey, uint32_t access, uint64_t *va, uint32_t len)
{
	return mr_check_remote(tp->c.sh.mrs, rkey, qp->pd, qp->qpn, access, va, len);
}
/** Parts that RC and UC share. Statuses: enum uroce_wc_status with *@p verr, 0 is good. */
bool responder_shape_ok(const struct qp *qp, const struct wire_pkt *p);
bool responder_write_begin(struct qp *qp, const struct wire_pkt *p);
bool responder_write_allowed(struct transport *tp, struct qp *qp);
bool responder_write_place(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void uc_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

/* ---- recv.c: receive WQEs ---- */
/** Take the next receive WQE of RQ or SRQ into qp->rcv.rwqe. @return false: none posted. */
bool recv_take(struct transport *tp, struct qp *qp);
/** Put bytes into the receive WQE. @return status; *@p verr says more. */
uint8_t recv_place(struct transport *tp, struct qp *qp, const uint8_t *data, uint32_t len, uint8_t *verr);
/** Complete the receive WQE. @p p: the message's last packet, or NULL without immediate and solicited bit. */
void recv_complete(struct transport *tp, struct qp *qp, uint8_t opcode, const struct wire_pkt *p);
void recv_fail(struct transport *tp, struct qp *qp, uint8_t status, uint8_t verr);
/** Flush one receive WQE of an RQ. @return false: nothing left. */
bool recv_flush_one(struct transport *tp, struct qp *qp);
/** @return the low bits of an AETH that acknowledges: receives that are posted (9.7.7.2.1). */
uint8_t recv_credit_code(struct qp *qp);
/** The receive WQE in use, if there is one, is done with. */
void recv_drop(struct transport *tp, struct qp *qp);
/** Begin to use the slot of @p counter, which has @p nb_sge SGEs at @p sge. */
void rwqe_begin(struct tp_rwqe *w, const struct ring *r, uint32_t counter, const struct ring_sge *sge, uint32_t nb_sge);
/** SGEs of a posted receive. */
static inline uint32_t
rwqe_nb_sge(const struct ring_rq_wqe *slot, uint32_t max_sge)
{
	union ring_rq_ctl ctl = { .word = atomic_load_explicit(&slot->ctl, memory_order_acquire) };

	/* The client library refuses to post more than max_sge; who writes it to the slot gets an empty buffer. */
	return ctl.num_sge <= max_sge ? ctl.num_sge : 0;
}

/* ---- srq.c ---- */
bool srq_take(struct transport *tp, struct srq *srq, struct tp_rwqe *w);
/** A QP lets go of it. */
void srq_release(struct srq *srq);

/* ---- xrc.c ---- */
void xrc_srq_enter(struct transport *tp, struct srq *srq);
/** A request with the expected PSN: turn to the SRQ that it names. @return false: refused. */
bool xrc_admit(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** A QP of type XRC_RECV lets go of the SRQ that it turned to last. */
void xrc_leave(struct qp *qp);
/** @return whether the QP's domain still has an SRQ of this number; its PD. */
bool xrc_pd(const struct transport *tp, const struct qp *qp, uint32_t srqn, uint32_t *pd);
/** Write the XRCETH of a request. */
void xrc_put_eth(uint8_t *eth, const struct ring_sq_wqe *slot);
static inline uint32_t
xrc_srqn(const struct wire_pkt *p)
{
	return wire_get24(p->bthp + p->op->off_xrceth + 1);
}

#include "transport/core/inline.h"

#endif /* UROCE_TP_INTERNAL_H */
