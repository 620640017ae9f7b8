/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a posted work request: gathering them into a packet, scattering a response.
 */
#include "transport/core/copy_priv.h"
#include "transport/core/qp_states_priv.h"
#include "transport/core/tx_priv.h"
#include "transport/req/send_queue_priv.h"
#include "transport/req/sge_priv.h"

/*
 * Have bytes of a message fetched from @p off on, except those that are mapped or of a null MR: a packet may have some of both, and is built only
 * when all its bytes are there. Those behind the first whose key is wrong are left out; they are looked at when they are due.
 * @return whether all are fetched, and there were some.
 */
static bool
fetch_message(struct transport *tp, struct qp *qp, struct tp_copy_job *job, uint32_t counter, uint32_t off)
{
	const struct tp_swqe *w = qp_inflight(qp, counter);
	const struct ring_sge *sge = wqe_sges(ring_slot(&qp->req.sq, counter), w->opcode);
	uint32_t skip = off, left = w->length - off;
	bool some = false;

	for (uint32_t i = 0; i < w->nb_sge && left > 0; i++) {
		struct ring_sge s = wqe_get_sge(&sge[i]);
		struct mr *mr;
		uint32_t n;

		if (skip >= s.length) {
			skip -= s.length;
			continue;
		}
		n = RTE_MIN(left, s.length - skip);
		mr = mr_check(tp->c.sh.mrs, s.lkey, qp->pd, 0, s.addr + skip, n);
		if (mr == NULL)
			return false;
		/* No further than a job goes: a program may register memory in very many segments. */
		if (mr_is_remote(mr, s.addr + skip, RTE_MIN(n, (uint32_t)TP_COPY_BYTES))) {
			if (!copy_add(job, counter, w->length - left, mr, s.addr + skip, n))
				return false;
			some = true;
		}
		left -= n;
		skip = 0;
	}
	return left == 0 && some;
}

/* @return whether the bytes of a message may be fetched while those before it are still to be sent. */
static bool
fetched_early(struct transport *tp, struct qp *qp, uint32_t counter)
{
	const struct tp_swqe *w;

	/* The caller has pointers into the window of WQEs in flight: it must stay where it is. */
	if (counter == qp->req.sq.counter &&
	    (!qp_does(qp, QP_FETCHES) || counter - qp->req.sq_tail > qp->req.inflight_mask || !sq_fetch(tp, qp)))
		return false;
	w = qp_inflight(qp, counter);
	return w->status == 0 && tp_req_ops[w->opcode].kind == TP_REQ_DATA && !(w->flags & (UROCE_SEND_FENCE | UROCE_SEND_INLINE));
}

/* Have the message fetched from @p off on, and those behind it, as far as a job goes. */
static __rte_noinline uint8_t
fetch(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t off)
{
	struct tp_copy_job *job = copy_begin(tp, qp, COPY_SEND, counter);

	if (job == NULL)
		return COPY_LATER;
	while (fetch_message(tp, qp, job, counter, off) && fetched_early(tp, qp, ++counter))
		off = 0;
	/* A client that rewrites a posted SGE may leave nothing. */
	if (job->m.length == 0) {
		copy_drop(tp, qp, COPY_SEND);
		return COPY_LATER;
	}
	return (uint8_t)copy_fetch(tp, job);
}

/*
 * Gather bytes at @p off of the message, of which some are in memory that isn't mapped. The packet begins at @p first.
 */
static __rte_noinline uint8_t
gather_remote(struct transport *tp, struct qp *qp, struct tp_swqe *w, uint32_t counter, uint32_t first, uint32_t off, uint8_t *dst,
	      uint32_t len)
{
	switch (copy_fetched(qp, COPY_SEND, counter, off, dst, len)) {
	case 0:
		return 0;
	case EFAULT:
		return wqe_error(w, UROCE_WC_LOC_PROT_ERR, TP_VERR_FAULT);
	case ETIMEDOUT:
		return wqe_error(w, UROCE_WC_LOC_PROT_ERR, TP_VERR_COPY_LATE);
	case COPY_LATER:
		return COPY_LATER;
	default:
		return fetch(tp, qp, counter, first);
	}
}

uint8_t
sq_gather_any(struct transport *tp, struct qp *qp, struct tp_swqe *w, uint32_t counter, uint32_t first, uint8_t *dst, uint32_t len)
{
	const struct ring_sq_wqe *slot = ring_slot(&qp->req.sq, counter);
	const struct ring_sge *sge = wqe_sges(slot, w->opcode);
	uint32_t off = first, all = len;

	if (w->flags & UROCE_SEND_INLINE) {
		memcpy(dst, wqe_inline(slot) + off, len);
		return 0;
	}
	for (uint32_t i = 0; len > 0; i++) {
		struct ring_sge s;
		struct mr *mr;
		uint32_t n;
		uint8_t rc;

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
		if (unlikely(mr->host == NULL) && tp->c.copy != NULL && mr_is_remote(mr, s.addr + off, n)) {
			rc = gather_remote(tp, qp, w, counter, first, first + (all - len), dst, n);
			if (rc != 0)
				return rc;
		} else if (unlikely(mr_read(mr, s.addr + off, dst, n) != 0)) {
			return wqe_error(w, UROCE_WC_LOC_PROT_ERR, TP_VERR_FAULT);
		}
		dst += n;
		len -= n;
		off = 0;
	}
	return 0;
}

const uint8_t *
sq_piece(struct transport *tp, struct qp *qp, const struct tp_swqe *w, uint32_t counter, uint32_t off, uint32_t len)
{
	const struct ring_sge *sge = wqe_sges(ring_slot(&qp->req.sq, counter), w->opcode);
	const struct mr *mr;

	/* What is inline is in memory that a program may unmap with its QP. */
	if (w->flags & UROCE_SEND_INLINE)
		return NULL;
	for (uint32_t i = 0; i < w->nb_sge; i++) {
		struct ring_sge s = wqe_get_sge(&sge[i]);

		if (off >= s.length) {
			off -= s.length;
			continue;
		}
		if (len > s.length - off)
			return NULL;
		mr = mr_check(tp->c.sh.mrs, s.lkey, qp->pd, 0, s.addr + off, len);
		return mr != NULL && mr->host != NULL ? mr->host + (s.addr + off - mr->iova) : NULL;
	}
	return NULL;
}

uint8_t
sq_payload(struct transport *tp, struct qp *qp, struct tp_swqe *w, uint32_t counter, uint32_t off, struct tp_out *o, uint32_t len)
{
	const uint8_t *piece = sq_piece(tp, qp, w, counter, off, len);
	uint8_t *room;

	if (likely(piece != NULL)) {
		o->local->p.payload = piece;
		return 0;
	}
	room = tp_room(tp, o, len);
	return room != NULL ? sq_gather(tp, qp, w, ring_slot(&qp->req.sq, counter), counter, off, room, len) : COPY_LATER;
}

uint8_t
sq_scatter_any(struct transport *tp, struct qp *qp, uint32_t counter, uint32_t off, const uint8_t *data, uint32_t len)
{
	const struct tp_swqe *w = qp_inflight(qp, counter);
	const struct ring_sge *sge = wqe_sges(ring_slot(&qp->req.sq, counter), w->opcode);
	int rc;

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
		rc = copy_place(tp, qp, mr, s.addr + off, data, n);
		if (unlikely(rc != 0))
			return rc == COPY_LATER ? COPY_LATER : copy_verr(rc);
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
