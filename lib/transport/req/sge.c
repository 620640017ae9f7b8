/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a posted work request: gathering them into a packet, scattering a response.
 */
#include "transport/req/send_queue_priv.h"
#include "transport/req/sge_priv.h"

uint8_t
sq_gather(struct transport *tp, const struct qp *qp, struct tp_swqe *w, const struct ring_sq_wqe *slot,
		 uint32_t off, uint8_t *dst, uint32_t len)
{
	const struct ring_sge *sge = wqe_sges(slot, w->opcode);

	if (w->flags & UROCE_SEND_INLINE) {
		memcpy(dst, wqe_inline(slot) + off, len);
		return 0;
	}
	for (uint32_t i = 0; len > 0; i++) {
		struct ring_sge s;
		struct mr *mr;
		uint32_t n;

		/* Only a client that shortens a posted SGE gets here with i out of range. */
		if (unlikely(i == w->nb_sge))
			return wqe_error(w, UROCE_WC_LOC_LEN_ERR, TP_VERR_WQE_LENGTH);
		s = wqe_get_sge(&sge[i]);
		if (off >= s.length) {
			off -= s.length;
			continue;
		}
		n = RTE_MIN(len, s.length - off);
		mr = mr_check(tp->c.sh.mrs, s.lkey, qp->pd, 0, s.addr + off, n);
		if (unlikely(mr == NULL))
			return wqe_error(w, UROCE_WC_LOC_PROT_ERR, TP_VERR_LKEY);
		if (unlikely(mr_read(mr, s.addr + off, dst, n) != 0))
			return wqe_error(w, UROCE_WC_LOC_PROT_ERR, TP_VERR_FAULT);
		dst += n;
		len -= n;
		off = 0;
	}
	return 0;
}

uint8_t
sq_scatter(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t off, const uint8_t *data, uint32_t len)
{
	const struct tp_swqe *w = qp_inflight(qp, counter);
	const struct ring_sge *sge = wqe_sges(ring_slot(&qp->req.sq, counter), w->opcode);

	for (uint32_t i = 0; len > 0; i++) {
		struct ring_sge s;
		struct mr *mr;
		uint32_t n;

		if (unlikely(i == w->nb_sge))
			return TP_VERR_WQE_LENGTH;
		s = wqe_get_sge(&sge[i]);
		if (off >= s.length) {
			off -= s.length;
			continue;
		}
		n = RTE_MIN(len, s.length - off);
		mr = mr_check(tp->c.sh.mrs, s.lkey, qp->pd, UROCE_ACCESS_LOCAL_WRITE, s.addr + off, n);
		if (unlikely(mr == NULL))
			return lkey_verr(tp, s.lkey, qp->pd, s.addr + off, n);
		if (unlikely(mr_write(mr, s.addr + off, data, n) != 0))
			return TP_VERR_FAULT;
		data += n;
		len -= n;
		off = 0;
	}
	return 0;
}

/* ---- Overlaps ---- */
struct range {
	uint64_t from, to;
};

static struct range
local_range(const struct qp *qp, uint32_t counter, const struct tp_swqe *w)
{
	const struct ring_sge *sge = wqe_sges(ring_slot(&qp->req.sq, counter), w->opcode);
	struct range r = { UINT64_MAX, 0 };

	for (uint32_t i = 0; i < w->nb_sge; i++) {
		struct ring_sge s = wqe_get_sge(&sge[i]);

		r.from = RTE_MIN(r.from, s.addr);
		r.to = RTE_MAX(r.to, s.addr + s.length);
	}
	return r;
}

bool
sq_read_overlaps(struct qp *qp, uint32_t counter)
{
	struct range mine = local_range(qp, counter, qp_inflight(qp, counter));

	for (uint32_t c = qp->req.sq_tail; c != counter; c++) {
		const struct tp_swqe *w = qp_inflight(qp, c);
		struct range r;

		if (tp_req_ops[w->opcode].kind != TP_REQ_READ && tp_req_ops[w->opcode].kind != TP_REQ_ATOMIC)
			continue;
		r = local_range(qp, c, w);
		if (r.from < mine.to && mine.from < r.to)
			return true;
	}
	return false;
}
