/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The responder of RC QPs: requests are admitted in PSN order, executed and answered.
 *
 * Owns: struct qp_receiver, which UC and UD QPs use too (svc/), and struct qp_responder. Called by transport.c and svc/ on the QP's
 * engine. MR pointers are never kept beyond the call that looked them up.
 */
#ifndef UROCE_TP_RESP_H
#define UROCE_TP_RESP_H

#include "transport/core/types_priv.h"

/* ---- responder.c ---- */
/** RESET: forget the connection. What was lent has been given back. */
void receiver_reset(struct qp *qp);
void responder_reset(struct qp *qp);
/** A request packet, admitted, of an RC QP. */
void responder_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** Send responses, and then the ACK or NAK that is owed. @return packets sent, at most @p budget. */
uint32_t responder_run(struct transport *tp, struct qp *qp, uint32_t budget);
/** @return whether there is anything to be sent. */
static inline bool
responder_busy(const struct qp *qp)
{
	return qp->resp.pending != 0 || qp->resp.reply != TP_REPLY_NONE;
}

/* ---- nak.c ---- */
/** The next request needs what there isn't now: RNR NAK (class B errors, 9.9.3), the peer tries again. */
void responder_not_ready(struct transport *tp, struct qp *qp);
/** A request with @p psn came before the expected one: a NAK, once per gap. */
void responder_out_of_sequence(struct transport *tp, struct qp *qp, uint32_t psn);
/** Refuse a request for good (class C errors, 9.9.3): NAK with its PSN, QP to ERR. */
void responder_refuse(struct transport *tp, struct qp *qp, uint8_t syndrome, uint32_t psn);
/**
 * epsn has moved, after a packet beyond it was dropped. If the NAK has not left yet, it now asks for the new epsn, provided a packet
 * from there on was dropped too: the peer has no other way to know. @return true if so.
 */
bool responder_gap_remains(struct qp *qp);

/* ---- message.c: SEND and WRITE, of RC and UC ---- */
/** @return the MR that a peer's @p rkey opens to it, or NULL. @p va becomes the address in that MR. */
static inline struct mr *
key_opens(struct transport *tp, const struct qp *qp, uint32_t rkey, uint32_t access, uint64_t *va, uint32_t len)
{
	return mr_check_remote(tp->c.sh.mrs, rkey, qp->pd, qp->qpn, access, va, len);
}
/** @return whether @p p is the next packet of a message, and its payload as long as its place in the message wants (9.6.1.1.2). */
bool message_continues(const struct qp *qp, const struct wire_pkt *p);
/** Write a WRITE packet's payload to memory. @return 0, or the NAK with which an RC responder refuses it. */
uint8_t message_write(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

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

/* ---- sack_reply.c ---- */
/** Send a SACK when it is the QP's turn, unless a NAK waits to be sent. */
void sack_later(struct transport *tp, struct qp *qp);
/** A request beyond a gap: hold it and say so. @return false: it can't be held. */
bool sack_hold(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** @return false: no room to send it now. */
bool sack_send(struct transport *tp, struct qp *qp);
/** A duplicate WRITE. @return true if it was an offer of selective repeat, which has been taken. */
bool sack_offer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

/* ---- xrc.c ---- */
/** A request with the expected PSN: use the SRQ that it names. @return false: refused. */
bool xrc_admit(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** An XRC_RECV QP no longer uses the SRQ of its last request. */
void xrc_leave(struct qp *qp);
/** @return whether the QP's domain still has an SRQ of this number; its PD. */
bool xrc_pd(const struct transport *tp, const struct qp *qp, uint32_t srqn, uint32_t *pd);
/** @return the number of the SRQ that a request names. */
static inline uint32_t
xrc_srqn(const struct wire_pkt *p)
{
	return wire_get24(p->bthp + p->op->off_xrceth + 1);
}

#endif /* UROCE_TP_RESP_H */
