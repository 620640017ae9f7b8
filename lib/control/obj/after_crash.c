/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/obj/after_crash_priv.h"

#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "ring/ring.h"

/* ---- CQs ---- */
/** @return the counter of the first slot that has no completion yet. */
static uint32_t
cq_end(const struct ring *ring, uint32_t cons)
{
	union ring_cqe_ctl ctl;
	uint32_t n = 0;

	/* A program never has more unpolled completions than the ring has slots, and cons is its own word: what it says of it harms nobody else. */
	while (n < UINT32_C(1) << ring->order && ring_cq_ready(ring, cons + n, &ctl))
		n++;
	return cons + n;
}

bool
after_crash_cq(struct control *c, const struct obj_cq *cq, const struct cq_record *from, uint32_t room, const struct cq_params *old,
	       const struct cq_params *p, struct cq_record *to, uint32_t *in_ring)
{
	struct journals *js = old_journals(c);

	if (record_check(from, room, RECORD_CQ, CQ_RECORD_VERSION, sizeof(*from)) != NULL)
		return false;
	if (js != NULL && cq->was_journaled != 0 && journals_cq(js, cq->was_journaled - 1, p, old, from->moderation, to) == 0) {
		/* What was in the old ring has been copied. */
		if (old != NULL)
			*in_ring = to->cons;
		return true;
	}
	*to = *from;
	if (from->order != (old != NULL ? old->ring.order : p->ring.order))
		return true;
	to->order = (uint8_t)p->ring.order;
	to->overrun = atomic_load(&p->shared->overrun) != 0;
	to->cons = atomic_load(&p->shared->cons);
	to->reported = atomic_load(&p->shared->reported);
	if (old != NULL)
		*in_ring = cq_end(&old->ring, to->cons);
	to->prod = cq_end(&p->ring, old != NULL ? *in_ring : to->cons);
	to->held = to->owed = 0;
	if (p->channel >= 0 && to->prod != to->cons) {
		/* A completion was perhaps written, and its event not raised; or raised and not sent. A program may get one too many. */
		to->held = CQ_RECORD_HELD | CQ_RECORD_HELD_SOLICITED;
		to->owed = ring_arm(atomic_load(&p->shared->arm)) == RING_ARM_NONE;
	}
	record_seal(to, RECORD_CQ, CQ_RECORD_VERSION, sizeof(*to));
	return true;
}

/* ---- SRQs ---- */
bool
after_crash_srq(struct control *c, const struct obj_srq *srq, const struct srq_record *from, uint32_t room, const struct srq_params *p, struct srq_record *to)
{
	struct journals *js = old_journals(c);

	if (record_check(from, room, RECORD_SRQ, SRQ_RECORD_VERSION, sizeof(*from)) != NULL)
		return false;
	if (js != NULL && srq->was_journaled != 0 && journals_srq(js, srq->was_journaled - 1, p, to, NULL) == 0)
		return true;
	*to = *from;
	to->counter = atomic_load(&p->shared->head);
	record_seal(to, RECORD_SRQ, SRQ_RECORD_VERSION, sizeof(*to));
	return true;
}

/* ---- QPs ---- */
static struct ring
ring_of(const struct obj_cq *cq)
{
	bool resized = cq->ring_block.addr != NULL;

	return (struct ring){ .base = resized ? cq->ring_block.addr : cq->block.addr + sizeof(struct ring_cq_shared), RING_SIZE(cq->order, 5) };
}

/**
 * Find the last completion of a QP's SQ or RQ.
 * @param counter  Receives the low 16 bits of its WQE's counter.
 * @return false: the CQ has none any more.
 */
static bool
last_completion(const struct obj_cq *cq, uint32_t qpn, bool is_recv, uint16_t *counter)
{
	const struct ring_cq_shared *shared = (const void *)cq->block.addr;
	struct ring ring = ring_of(cq);
	uint32_t size = UINT32_C(1) << ring.order, end = cq_end(&ring, atomic_load(&shared->cons));
	union ring_cqe_ctl ctl;

	for (uint32_t n = 1; n <= size; n++) {
		const struct ring_cqe *e = ring_slot(&ring, end - n);

		if (!ring_cq_ready(&ring, end - n, &ctl))
			return false;
		if (e->qpn != qpn || (ctl.is_recv != 0) != is_recv || ctl.xrc != 0)
			continue;
		*counter = ctl.wqe_counter;
		return true;
	}
	return false;
}

typedef bool ready_fn(const struct ring *r, uint32_t counter);

/** @return the counter of the first slot that isn't posted, modulo two laps: phases say no more. */
static uint32_t
posted_end(const struct ring *ring, ready_fn *ready)
{
	uint32_t size = UINT32_C(1) << ring->order, lap = ready(ring, 0) ? 0 : size, n = 0;

	/* Nothing was ever posted. */
	if (!ready(ring, lap))
		return 0;
	while (n < size && ready(ring, lap + n))
		n++;
	return lap + n;
}

/**
 * @return the counter from which a queue goes on: behind the WQE that completed last. If that can't be found, behind all that is posted: to complete
 * nothing a second time matters more than to complete everything.
 */
static uint32_t
next_wqe(const struct obj_cq *cq, uint32_t qpn, bool is_recv, const struct ring *ring, ready_fn *ready)
{
	uint32_t end = posted_end(ring, ready), laps = (UINT32_C(2) << ring->order) - 1, left;
	uint16_t last;

	if (cq == NULL || ring->order > 15 || !last_completion(cq, qpn, is_recv, &last))
		return end;
	left = (end - last - 1) & laps;
	return left <= UINT32_C(1) << ring->order ? (uint32_t)last + 1 : end;
}

/** What a QP had under way is forgotten. */
static void
at_rest(struct qp_record *r)
{
	r->psn_una = r->psn_cur = r->psn_max = r->psn_next;
	r->rd_out = 0;
	r->timer_ns = r->giveup_ns = UINT64_MAX;
	r->rnr_wait = 0;
	r->pending = 0;
	r->reply = 0;
	r->msg = 0;
	r->recv_valid = 0;
	r->srqn = 0;
	r->nb_wqes = r->nb_reads = r->nb_sges = 0;
}

static bool
is_current(const struct qp_record *r)
{
	/* The engine does nothing in these states. */
	return r->state == UROCE_QPS_RESET || r->state == UROCE_QPS_INIT;
}

/**
 * Take the record that the QP's engine has left, which is newer than the checkpoint's, or as new.
 * @return false: there is none, as the QP was destroyed, or it is damaged.
 */
static bool
from_journal(struct control *c, const struct qp_record *from, struct qp_record *to, bool *done)
{
	struct journals *js = old_journals(c);

	if (js == NULL || journals_qp(js, from->qpn, c->s.sh.mrs, control_now_ns(), to, NULL) != 0)
		return false;
	/* The request that did this has no answer, and comes again. */
	*done = to->state != from->state;
	return true;
}

bool
after_crash_qp(struct control *c, const struct obj_qp *qp, const struct qp_record *from, uint32_t room, const struct qp_params *p,
	       union after_crash_record *to, bool *done, bool *lost)
{
	struct qp_record *r = &to->qp.fixed;

	if (record_check(from, room, RECORD_QP, QP_RECORD_VERSION, sizeof(*from)) != NULL || from->nb_res > UROCE_MAX_RD_ATOMIC)
		return false;
	if (!*lost && from_journal(c, from, r, done))
		return true;
	if (is_current(from))
		return false;
	memset(to, 0, sizeof(*to));
	*r = *from;
	at_rest(r);
	*lost = r->state != UROCE_QPS_ERR && r->type != UROCE_QPT_UD;
	if (*lost) {
		r->state = UROCE_QPS_ERR;
		r->mig = r->alt_loaded = 0;
	}
	if (p->sq.base != NULL) {
		r->sq_counter = next_wqe(qp->send_cq, r->qpn, false, &p->sq, ring_sq_ready);
		r->sq_tail = r->sq_cur = r->sq_counter;
	}
	if (p->rq.base != NULL) {
		r->rq_counter = next_wqe(qp->recv_cq, r->qpn, true, &p->rq, ring_rq_ready);
		r->rq_seen = r->rq_counter;
	}
	record_seal(r, RECORD_QP, QP_RECORD_VERSION, (uint32_t)(sizeof(*r) + r->nb_res * sizeof(to->qp.res[0])));
	return true;
}

void
after_crash_tell(struct session *s, const char *type, uint32_t qpn, uint64_t cookie)
{
	CTL_LOG(NOTICE, "QP %#x (%s) of %s (pid %d) can't go on after the crash, as its state was not written down, or isn't what its SQ says: it is in ERR", qpn, type, s->program,
		(int)s->pid);
	s->control->taken_over.qps_lost++;
	session_send_async(s, UROCE_EVENT_QP_FATAL, cookie);
}
