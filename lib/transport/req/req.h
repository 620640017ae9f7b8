/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The requester: work requests become packets; what answers them completes work requests.
 *
 * Owns: struct qp_requester and struct qp_loss of each QP. Called by transport.c, qp.c and path/ on the QP's engine.
 *
 * PSNs are assigned when a WQE is fetched, so a packet can be made again from its PSN alone: the WQE that has the PSN, and the offset in
 * it. Nothing else is kept for retransmission. What is relied on of a posted WQE (opcode, lengths, counts) is copied once, into struct
 * tp_swqe, and checked. Addresses, keys and inline bytes are read from the slot again for each packet, and every use checks them
 * against the MR table: a client that rewrites a posted slot changes what its own message says, nothing else.
 */
#ifndef UROCE_TP_REQ_H
#define UROCE_TP_REQ_H

#include "transport/core/slot.h"
#include "transport/core/types.h"

/* ---- WQEs in flight ---- */
/** The first SGE, or inline byte, of an SQ slot. */
static inline const struct ring_sge *
slot_sges(const struct ring_sq_wqe *slot, uint8_t opcode)
{
	const uint8_t *p = (const uint8_t *)(slot + 1);

	return (const void *)(p + (ring_op_has_operands(opcode) ? sizeof(struct ring_atomic) : 0));
}

static inline uint8_t
wqe_error(struct tp_swqe *w, uint8_t status, uint8_t verr)
{
	w->status = status;
	w->verr = verr;
	return status;
}

static inline struct tp_swqe *
qp_inflight(struct qp *qp, uint32_t counter)
{
	return &qp->req.inflight[counter & qp->req.inflight_mask];
}

/** Write the XRCETH of a request. */
static inline void
xrc_put_eth(uint8_t *eth, const struct ring_sq_wqe *slot)
{
	union ring_sq_ctl ctl = { .word = atomic_load_explicit(&slot->ctl, memory_order_relaxed) };

	wire_put32(eth, ctl.srqn);
}

/* ---- start.c ---- */
/** RESET: forget the connection. What was lent has been given back, and the timer is stopped. */
void requester_reset(struct qp *qp);
/** A connection begins, or goes on after SQE: the first PSN that is sent is @p psn. */
void requester_start(struct qp *qp, uint32_t psn);

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

/* ---- cwnd.c: how much may be in flight ---- */
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

/* ---- ud_send.c ---- */
/** Send a UD message. @return packets sent: 0 if it has to wait or the WQE turned out bad. */
uint32_t ud_send(struct transport *tp, struct qp *qp, struct tp_swqe *w);

#endif /* UROCE_TP_REQ_H */
