/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * WQEs that the requester executes locally, without sending anything: BIND_MW and LOCAL_INV.
 *
 * Both wait until everything posted before them is complete. For LOCAL_INV that is the local-invalidate fence
 * (10.6.5.1), which Linux's rxe makes mandatory too: nothing may still use the key that becomes invalid. For BIND_MW it
 * is stricter than required; it makes sure that no retransmission goes back behind a bind, so none is executed twice.
 * WQEs posted behind them start when they are done.
 */
#include "transport/core/journal_priv.h"
#include "transport/req/complete_priv.h"

/* Read the operands once: what was checked is what is bound, whatever the client writes meanwhile. */
static struct mw_bind
bind_snapshot(const struct ring_sq_wqe *slot)
{
	struct ring_bind b = wqe_get_bind(slot);

	return (struct mw_bind){ .key = wqe_get_rkey(slot), .lkey = b.lkey, .addr = wqe_get_remote_addr(slot),
				 .length = b.length, .access = b.access };
}

static bool
execute(struct transport *tp, struct qp *qp, const struct tp_swqe *w, const struct ring_sq_wqe *slot)
{
	struct mw_bind b;

	if (w->opcode == UROCE_WR_LOCAL_INV) {
		if (!mw_invalidate(tp->c.sh.mrs, wqe_get_imm(slot), qp->pd, qp->qpn))
			return false;
		tp->counters.local_invalidates++;
		return true;
	}
	b = bind_snapshot(slot);
	if (!mw_bind(tp->c.sh.mrs, &b, qp->pd, qp->qpn))
		return false;
	tp->counters.mw_binds++;
	return true;
}

bool
complete_local(struct transport *tp, struct qp *qp, struct tp_swqe *w)
{
	if (!journal_local_before(qp, qp->req.sq_cur) && !execute(tp, qp, w, ring_slot(&qp->req.sq, qp->req.sq_cur))) {
		tp->counters.req_mw_errors++;
		wqe_error(w, UROCE_WC_MW_BIND_ERR, TP_VERR_MW);
		return false;
	}
	journal_note_local(qp, qp->req.sq_cur);
	qp->req.sq_cur++;
	complete_head(tp, qp);
	return true;
}
