/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of SEND and WRITE messages, for RC and UC: whether a packet continues the message, and where a WRITE puts its
 * bytes.
 */
#include "base/mark.h"
#include "transport/core/copy_priv.h"
#include "transport/core/journal_place_priv.h"
#include "transport/resp/resp_priv.h"

/* Take over the RETH of the first packet. @return false: its length is impossible. */
static bool
write_begin(struct qp *qp, const struct wire_pkt *p)
{
	const uint8_t *reth = p->bthp + p->op->off_reth;

	qp->rcv.va = wire_get64(reth);
	qp->rcv.rkey = wire_get32(reth + 8);
	qp->rcv.left = wire_get32(reth + 12);
	return qp->rcv.left <= UROCE_MAX_MSG_BYTES;
}

/* @return whether the message that @p p begins may be written. Of the memory of a single packet write_place() says that. */
static inline bool
write_allowed(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint64_t va = qp->rcv.va;

	/* C9-88: with length 0 the rkey isn't checked. */
	if (qp->rcv.left == 0)
		return true;
	return (qp->access & UROCE_ACCESS_REMOTE_WRITE) &&
	       ((p->op->flags & WIRE_F_END) || key_opens(tp, qp, qp->rcv.rkey, UROCE_ACCESS_REMOTE_WRITE, &va, qp->rcv.left) != NULL ||
		journal_needs_no_key(qp, p->bth.psn));
}

/* The rkey is looked up for each packet: it may have been invalidated since the first. @return as message_write(). */
static uint8_t
write_place(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint64_t va = qp->rcv.va;
	struct mr *mr;
	int rc;

	if (p->payload_bytes == 0)
		return 0;
	mr = key_opens(tp, qp, qp->rcv.rkey, UROCE_ACCESS_REMOTE_WRITE, &va, p->payload_bytes);
	if (unlikely(mr == NULL)) {
		if (journal_needs_no_key(qp, p->bth.psn)) {
			qp->rcv.va += p->payload_bytes;
			qp->rcv.left -= p->payload_bytes;
			return 0;
		}
		MARK_IF(!(p->op->flags & WIRE_F_START), "the key of a WRITE goes between two of its packets");
		return WIRE_NAK_REM_ACCESS;
	}
	rc = journal_place(tp, qp, p->bth.psn, mr, va, p->payload, p->payload_bytes);
	if (unlikely(rc != 0))
		return rc == COPY_LATER ? COPY_LATER : WIRE_NAK_REM_ACCESS;
	qp->rcv.va += p->payload_bytes;
	qp->rcv.left -= p->payload_bytes;
	return 0;
}

uint8_t
message_write(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t f = p->op->flags;
	uint8_t rc;

	if (f & WIRE_F_START) {
		tp->counters.rx_write_requests++;
		if (!write_begin(qp, p))
			return WIRE_NAK_INV_REQ;
	}
	/* 9.6.1.1.3: the payloads must add up to the RETH's length, and the last packet must not be superfluous. */
	if (f & WIRE_F_END ? p->payload_bytes != qp->rcv.left : p->payload_bytes >= qp->rcv.left)
		return WIRE_NAK_INV_REQ;
	if ((f & WIRE_F_START) && !write_allowed(tp, qp, p))
		return WIRE_NAK_REM_ACCESS;
	rc = write_place(tp, qp, p);
	tp->counters.rx_write_requests -= unlikely(rc == COPY_LATER) && (f & WIRE_F_START);
	return rc;
}
