/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiving side of UD: one packet per message, received with 40 bytes of L3 header in front. Anybody who knows the
 * Q_Key can send here, so no datagram may end the QP.
 */
#include "transport/core/checks_priv.h"
#include "transport/core/qp_error_priv.h"
#include "transport/resp/recv_priv.h"
#include "transport/svc/svc_priv.h"

/* Build what precedes the payload: the IPv6 header, or 20 zero bytes and the IPv4 header (A17.4.5.1). */
static void
make_grh(const struct wire_pkt *p, uint8_t grh[WIRE_GRH_BYTES])
{
	if (p->ip_version == 4) {
		memset(grh, 0, WIRE_GRH_BYTES - WIRE_IPV4_BYTES);
		memcpy(grh + WIRE_GRH_BYTES - WIRE_IPV4_BYTES, p->l3, WIRE_IPV4_BYTES);
	} else {
		memcpy(grh, p->l3, WIRE_IPV6_BYTES);
	}
}

static bool
qkey_match(const struct qp *qp, const struct wire_pkt *p)
{
	return wire_get32(p->bthp + p->op->off_deth) == qp->rcv.qkey;
}

static bool
length_fits(const struct qp *qp, const struct wire_pkt *p)
{
	return p->payload_bytes <= UINT32_C(1) << qp->path.mtu_shift;
}

bool
ud_wanted(const struct qp *qp, const struct wire_pkt *p)
{
	return qkey_match(qp, p) && length_fits(qp, p);
}

uint8_t
ud_place(struct transport *tp, struct qp *qp, const struct wire_pkt *p, uint8_t *verr)
{
	uint8_t grh[WIRE_GRH_BYTES], status;

	make_grh(p, grh);
	status = recv_place(tp, qp, grh, sizeof(grh), verr);
	return status != 0 ? status : recv_place(tp, qp, p->payload, p->payload_bytes, verr);
}

void
ud_rx(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint8_t status, verr = TP_VERR_NONE;

	if (!qkey_match(qp, p)) {
		count_bad_qkey(tp, qp->path.port);
		return;
	}
	if (!length_fits(qp, p)) {
		tp->counters.rx_ud_length++;
		return;
	}
	if (!recv_take(tp, qp)) {
		tp->counters.rx_ud_no_wqe++;
		return;
	}
	/* It is dropped, and the receive waits for the next one (9.9.3, class D). */
	if (WIRE_GRH_BYTES + p->payload_bytes > qp->rcv.rwqe.room) {
		tp->counters.resp_local_length_error++;
		return;
	}
	status = ud_place(tp, qp, p, &verr);
	if (unlikely(status == COPY_LATER))
		return;
	tp->counters.rx_send_requests++;
	/* The program's own mistake: a bad lkey, or an SGE that it shortened after it had posted it. */
	if (unlikely(status != 0)) {
		recv_fail(tp, qp, status, verr);
		qp_error(tp, qp, -1, TP_BECAUSE(RECEIVE, verr));
		return;
	}
	qp->rcv.length = WIRE_GRH_BYTES + p->payload_bytes;
	qp->rcv.msn = wire_psn_add(qp->rcv.msn, 1);
	qp->rcv.rx_bytes += p->payload_bytes;
	recv_complete(tp, qp, UROCE_WC_RECV, p);
}
