/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Planning goes through the packets held in order, as if each were executed, by the code that executes them: only the state of the receiver changes, which
 * is put back in the end, and what would be written is added to the job. It ends at the first packet that does anything else, or that may be refused.
 * So what is written early is what these packets are permitted to write, and is where it belongs if they are executed. If one isn't, because
 * the QP has gone to ERR or a key has gone, its bytes are in memory like those of the beginning of any message that fails.
 *
 * Mapped memory is written when a packet is executed, so not in order with what is in the job. Programs may notice that of a WRITE, so planning ends there; but not of
 * a datagram, which they look at when it is complete.
 */
#include "transport/plan_priv.h"
#include "transport/core/checks_priv.h"
#include "transport/core/copy_priv.h"
#include "transport/core/qp_states_priv.h"
#include "transport/req/send_queue_priv.h"
#include "transport/req/sge_priv.h"
#include "transport/resp/recv_priv.h"
#include "transport/resp/resp_priv.h"
#include "transport/svc/svc_priv.h"

/* Where the requester would be. */
struct requests {
	uint32_t psn;  /* the response it expects next */
	uint32_t wqe;
};

/* @return whether a packet held will pass the checks of transport.c, made again when it is executed, without any other effect. */
static bool
admissible(const struct transport *tp, const struct qp *qp, const struct tp_copy_pkt *k)
{
	bool response = (k->p.op->flags & WIRE_F_RESPONSE) != 0;

	return WIRE_OPCODE_SERVICE(k->p.bth.opcode) == qp->prefix && (response ? qp_sends(qp) : qp_receives(qp)) &&
	       qp->path.mig == TP_MIG_MIGRATED && k->port == qp->path.port && pkey_match(k->p.bth.pkey, qp->path.pkey) &&
	       (qp->service == WIRE_UD ? vlan_match(tp, k->port, &k->p) : qp_path_match(tp, qp, &k->p));
}

/* @return false: planning ends before this packet. */
static bool
plan_request(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint32_t f = p->op->flags;
	uint8_t verr;

	if (!(f & (WIRE_F_SEND | WIRE_F_WRITE)) || (f & WIRE_F_IETH) || p->bth.psn != qp->rcv.epsn || qp->rcv.reorder != NULL ||
	    !message_continues(qp, p))
		return false;
	/* What is taken from an SRQ can't be put back. */
	if ((f & WIRE_F_RQ) && ((qp->rcv.srq != NULL && !qp->rcv.rwqe.valid) || !recv_take(tp, qp)))
		return false;
	if ((f & WIRE_F_SEND ? recv_place(tp, qp, p->payload, p->payload_bytes, &verr) : message_write(tp, qp, p)) != 0)
		return false;
	qp->rcv.epsn = wire_psn_add(qp->rcv.epsn, 1);
	qp->rcv.msg = f & WIRE_F_END ? TP_RMSG_NONE : f & WIRE_F_SEND ? TP_RMSG_SEND : TP_RMSG_WRITE;
	if ((f & WIRE_F_END) && (f & (WIRE_F_SEND | WIRE_F_IMM)))
		qp->rcv.rwqe.valid = false;
	return true;
}

/* The same for a datagram. One that will be dropped ends planning, too. */
static bool
plan_datagram(struct transport *tp, struct qp *qp, const struct wire_pkt *p)
{
	uint8_t verr;

	if (!ud_wanted(qp, p) || (qp->rcv.srq != NULL && !qp->rcv.rwqe.valid) || !recv_take(tp, qp) ||
	    WIRE_GRH_BYTES + p->payload_bytes > qp->rcv.rwqe.room || ud_place(tp, qp, p, &verr) != 0)
		return false;
	qp->rcv.rwqe.valid = false;
	return true;
}

static bool
plan_response(struct transport *tp, struct qp *qp, const struct wire_pkt *p, struct requests *r)
{
	const struct tp_swqe *w;
	uint32_t off;

	/* An ACK writes nothing. What it completes isn't expected any more. */
	if (!(p->op->flags & (WIRE_F_READ_RESP | WIRE_F_ATOMICACKETH)))
		return true;
	if (p->bth.psn != r->psn || !(p->op->flags & WIRE_F_READ_RESP) || r->wqe == qp->req.sq.counter)
		return false;
	w = qp_inflight(qp, r->wqe);
	off = ((r->psn - w->first_psn) & WIRE_PSN_MASK) << qp->path.mtu_shift;
	if (swqe_kind(w) != TP_REQ_READ || p->payload_bytes != RTE_MIN(w->length - off, UINT32_C(1) << qp->path.mtu_shift) ||
	    sq_scatter(tp, qp, r->wqe, off, p->payload, p->payload_bytes) != 0)
		return false;
	r->wqe += r->psn == w->last_psn;
	r->psn = wire_psn_add(r->psn, 1);
	return true;
}

/* What may be added to a job, and taken back. */
struct mark {
	uint32_t parts, length, pieces, of_last;
	bool sealed;
};

static struct mark
mark(const struct tp_copy_job *job)
{
	const struct mem_job *m = &job->m;

	return (struct mark){ .parts = job->nb_parts, .length = m->length, .pieces = m->nb_pieces, .sealed = job->sealed,
			      .of_last = m->pieces[m->nb_pieces - 1].length };
}

static void
take_back(struct tp_copy_job *job, const struct mark *to)
{
	job->nb_parts = to->parts;
	job->sealed = to->sealed;
	job->m.length = to->length;
	job->m.nb_pieces = (uint8_t)to->pieces;
	job->m.pieces[to->pieces - 1].length = to->of_last;
}

/* @return whether planning can go on behind a packet. */
static bool
plan_packet(struct transport *tp, struct qp *qp, const struct tp_copy_pkt *k, struct requests *r)
{
	struct tp_copy_job *job = qp->copy->slots[COPY_RX].job;
	const struct wire_pkt *p = &k->p;
	struct mark before = mark(job);
	bool planned;

	qp->copy->now = p;
	if (qp->service == WIRE_UD)
		planned = plan_datagram(tp, qp, p);
	else
		planned = p->op->flags & WIRE_F_RESPONSE ? plan_response(tp, qp, p, r) : plan_request(tp, qp, p);
	/* If something is left to skip, the program has changed where it wants to have the first packet, and the job is not for that any more. */
	if (!planned || qp->copy->skip != 0) {
		take_back(job, &before);
		return false;
	}
	/* The last bytes of a message are written after all others. */
	job->sealed |= (p->op->flags & WIRE_F_END) != 0;
	return true;
}

void
plan(struct transport *tp, struct qp *qp)
{
	struct requests r = { .psn = qp->req.psn_una, .wqe = qp->req.sq_tail };
	struct tp_copy *c = qp->copy;
	struct qp_receiver rcv = qp->rcv;
	uint64_t writes = tp->counters.rx_write_requests;
	const struct tp_copy_pkt *k = STAILQ_FIRST(&c->held);
	const struct tp_copy_job *job = c->slots[COPY_RX].job;

	/* The SRQ of an XRC packet is looked up when it is executed, and the packet refused if there is none. */
	if (qp->prefix == WIRE_XRC)
		return;
	if (job->m.op != MEM_JOB_WRITE || c->in_reorder || k == NULL)
		return;
	/* The first packet's copy must be all that is missing for it; but of a datagram the L3 header is one access, and the payload another. */
	if ((c->done != 0 || job->m.length != k->p.payload_bytes) && qp->service != WIRE_UD)
		return;
	c->mode = COPY_PLAN;
	c->skip = c->done + 1;
	while (plan_packet(tp, qp, k, &r) && (k = STAILQ_NEXT(k, link)) != NULL && admissible(tp, qp, k))
		;
	c->mode = COPY_EXECUTE;
	c->skip = 0;
	c->now = NULL;
	qp->rcv = rcv;
	tp->counters.rx_write_requests = writes;
}
