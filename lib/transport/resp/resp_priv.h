/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The responder of RC QPs: accepts requests in PSN order, executes and answers them.
 *
 * Owns: struct qp_receiver, which UC and UD QPs use too (svc/), and struct qp_responder. Called by transport.c and svc/
 * on the QP's engine. MR pointers are not kept after the call that looked them up.
 */
#ifndef UROCE_TP_RESP_H
#define UROCE_TP_RESP_H

#include "transport/core/copy_priv.h"

/* ---- responder.c ---- */
/** The QP goes to RESET: forget the connection. Lent memory must have been returned. */
void receiver_reset(struct qp *qp);
void responder_reset(struct qp *qp);
/** Handle a request packet for an RC QP that has passed the checks. */
void responder_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/**
 * epsn has moved while packets beyond a gap are held, or what one of them waited for is there: execute those that follow in order.
 */
void responder_drain(struct transport *tp, struct qp *qp);
/** Send pending responses, then the ACK or NAK that is owed. @return packets sent, at most @p budget. */
uint32_t responder_run(struct transport *tp, struct qp *qp, uint32_t budget);
/** @return whether there is anything that can be sent. */
static inline bool
responder_busy(const struct qp *qp)
{
	if (qp->resp.pending != 0)
		return !copy_runs(qp, COPY_READ);
	return qp->resp.reply != TP_REPLY_NONE;
}

/* ---- nak.c ---- */
/**
 * The expected request needs a resource that isn't available: send an RNR NAK (class B errors, 9.9.3), the peer tries
 * again.
 */
void responder_not_ready(struct transport *tp, struct qp *qp);
/** A request with @p psn arrived beyond a gap: NAK the missing epsn, once per gap. */
void responder_out_of_sequence(struct transport *tp, struct qp *qp, uint32_t psn);
/** Refuse a request for good (class C errors, 9.9.3): NAK its PSN and move the QP to ERR. */
void responder_refuse(struct transport *tp, struct qp *qp, uint8_t syndrome, uint32_t psn);
/**
 * Call when epsn has moved after a packet beyond it was dropped. If the NAK for the old gap is still unsent and the
 * peer sent packets from the new epsn on that were dropped, the NAK is changed to ask for the new epsn: the peer has no
 * other way to learn of it.
 * @return true if the NAK still has to be sent.
 */
bool responder_gap_remains(struct qp *qp);

/* ---- message.c: SEND and WRITE, of RC and UC ---- */
/** @return the MR that a peer may access with @p rkey, or NULL. @p va becomes the address in that MR. */
static inline struct mr *
key_opens(struct transport *tp, const struct qp *qp, uint32_t rkey, uint32_t access, uint64_t *va, uint32_t len)
{
	return mr_check_remote(tp->c.sh.mrs, rkey, qp->pd, qp->qpn, access, va, len);
}
/**
 * @return whether @p p is a valid next packet of a message, and its payload has the length required at its place
 * (9.6.1.1.2).
 */
static inline bool
message_continues(const struct qp *qp, const struct wire_pkt *p)
{
	uint32_t f = p->op->flags, most = (UINT32_C(1) + p->more) << qp->path.mtu_shift;

	if (qp->rcv.msg == TP_RMSG_NONE) {
		if (!(f & WIRE_F_START))
			return false;
	} else if ((f & WIRE_F_START) || !(f & (qp->rcv.msg == TP_RMSG_SEND ? WIRE_F_SEND : WIRE_F_WRITE))) {
		return false;
	}
	if (!(f & (WIRE_F_SEND | WIRE_F_WRITE)))
		return true;
	if (!(f & WIRE_F_END))
		return p->payload_bytes == most && p->bth.pad == 0;
	return p->payload_bytes <= most && ((f & WIRE_F_START) || p->payload_bytes > 0);
}
/** Write a WRITE packet's payload to memory. @return 0; the NAK syndrome with which an RC responder refuses it; or COPY_LATER. */
uint8_t message_write(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

/* ---- read_atomic.c ---- */
/** Handle a request with the expected PSN: execute it, remember it and answer it later; or refuse it. */
void responder_read(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void responder_atomic(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void responder_atomic_write(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
void responder_flush(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/**
 * Set how many READs and atomics the peer may have outstanding. What is remembered of earlier ones is kept.
 * @return 0 or ENOMEM.
 */
int responder_set_rd_atomic(struct qp *qp, uint8_t n);
/** @return the remembered READ or atomic that @p psn belongs to, or NULL. */
struct tp_res *responder_res_find(struct qp *qp, uint32_t psn);
/**
 * Answer a READ again, all of it or a part.
 * @return false: it isn't the READ that was executed, or no READ block is free.
 */
bool responder_read_again(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** @return the last PSN of a READ or atomic. */
static inline uint32_t
res_last_psn(const struct qp *qp, const struct tp_res *r)
{
	return r->atomic ? r->psn : wire_psn_add(r->psn, wire_packets(r->length, qp->path.mtu_shift) - 1);
}

/* ---- sack_reply.c ---- */
/** Schedule a SACK for the QP's turn, unless a NAK is waiting to be sent. */
void sack_later(struct transport *tp, struct qp *qp);
/** Hold a request that arrived beyond a gap, and schedule a SACK. @return false: it can't be held. */
bool sack_hold(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** Send a SACK now. @return false: no room to send it. */
bool sack_send(struct transport *tp, struct qp *qp);
/** Check a duplicate WRITE. @return true if it was an offer of selective repeat, which has been accepted. */
bool sack_offer_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p);

/* ---- xrc.c ---- */
/**
 * Handle the XRCETH of a request with the expected PSN: use the SRQ that it names.
 * @return false: the request was refused.
 */
bool xrc_admit(struct transport *tp, struct qp *qp, const struct wire_pkt *p);
/** Detach an XRC_RECV QP from the SRQ of its last request. */
void xrc_leave(struct qp *qp);
/** Look up the PD of SRQ @p srqn. @return false: the QP's XRC domain has no such SRQ. */
bool xrc_pd(const struct transport *tp, const struct qp *qp, uint32_t srqn, uint32_t *pd);
/** @return the SRQ number in a request's XRCETH. */
static inline uint32_t
xrc_srqn(const struct wire_pkt *p)
{
	return wire_get24(p->bthp + p->op->off_xrceth + 1);
}

#endif /* UROCE_TP_RESP_H */
