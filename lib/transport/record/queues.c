/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of CQs, SRQs and of what a transport has counted.
 */
#include "transport/core/cq_priv.h"
#include "transport/core/qp_error_priv.h"
#include "transport/core/srq_priv.h"
#include "transport/record/record_priv.h"

/* ---- CQs ---- */
static_assert((int)CQ_RECORD_HELD == (int)TP_TOUCHED && (int)CQ_RECORD_HELD_SOLICITED == (int)TP_TOUCHED_SOLICITED, "what a CQ's record says is held");

void
cq_save(struct transport *const *tps, uint32_t nb, const struct cq *cq, struct cq_record *to)
{
	uint64_t prod = atomic_load(&cq->prod);

	memset(to, 0, sizeof(*to));
	to->prod = (uint32_t)(prod >> 1);
	to->cons = atomic_load(&cq->cons);
	to->reported = atomic_load(&cq->reported);
	to->moderation = atomic_load(&cq->moderation);
	to->owed = atomic_load(&cq->owed);
	to->order = (uint8_t)cq->rings[prod & 1].ring.order;
	to->overrun = atomic_load(&cq->overrun);
	to->multi = cq->multi;
	for (uint32_t i = 0; i < nb; i++) {
		UROCE_ASSERT(tps[i]->nb_untold == 0);
		to->held |= cq_held(tps[i], cq);
	}
	record_seal(to, RECORD_CQ, CQ_RECORD_VERSION, sizeof(*to));
}

static const char *
cq_check(const struct cq_record *r, uint32_t room, const struct cq_params *p)
{
	const char *wrong = record_check(r, room, RECORD_CQ, CQ_RECORD_VERSION, sizeof(*r));

	if (wrong != NULL)
		return wrong;
	if (r->head.size != sizeof(*r))
		return "size: isn't that of a CQ's record";
	if (r->order != p->ring.order)
		return "order: the CQ had another size";
	if (r->overrun > 1)
		return "overrun: must be 0 or 1";
	if (r->multi != p->multi)
		return "multi: must be as the CQ was created";
	if (!r->overrun && r->prod - r->cons > UINT32_C(1) << r->order)
		return "prod: more completions are in the CQ than it has room for";
	if (r->held > (TP_TOUCHED | TP_TOUCHED_SOLICITED))
		return "held: has unknown bits";
	if (p->channel < 0 && (r->held != 0 || r->owed != 0))
		return "owed: a CQ without a channel has no events";
	return NULL;
}

int
cq_restore(struct transport *tp, const struct cq_record *r, uint32_t room, const struct cq_params *p, uint64_t now_ns, struct cq **out,
	   const char **why)
{
	const char *wrong = cq_check(r, room, p);
	struct cq *cq;

	if (wrong != NULL)
		return refused(why, wrong, EINVAL);
	if (cq_create(p, &cq) != 0)
		return refused(why, "size: there is no memory for another CQ", ENOMEM);
	tp->now_ns = RTE_MAX(tp->now_ns, now_ns);
	atomic_store(&cq->prod, (uint64_t)r->prod << 1);
	atomic_store(&cq->cons, r->cons);
	atomic_store(&cq->reported, r->reported);
	atomic_store(&cq->moderation, r->moderation);
	atomic_store(&cq->overrun, r->overrun != 0);
	cq_tell_again(tp, cq, r->held, r->owed);
	*out = cq;
	return 0;
}

/* ---- SRQs ---- */
void
srq_save(const struct srq *srq, struct srq_record *to)
{
	memset(to, 0, sizeof(*to));
	to->counter = srq->ring.counter;
	to->limit = srq->limit;
	to->pd = srq->pd;
	to->srqn = srq->srqn;
	to->xrcd = srq->xrcd;
	to->order = (uint8_t)srq->ring.order;
	record_seal(to, RECORD_SRQ, SRQ_RECORD_VERSION, sizeof(*to));
}

static const char *
srq_check(const struct transport *tp, const struct srq_record *r, uint32_t room, const struct srq_params *p)
{
	const char *wrong = record_check(r, room, RECORD_SRQ, SRQ_RECORD_VERSION, sizeof(*r));

	if (wrong != NULL)
		return wrong;
	if (r->head.size != sizeof(*r))
		return "size: isn't that of an SRQ's record";
	if (r->order != p->ring.order)
		return "order: the SRQ had another size";
	if (r->pd != p->pd)
		return "pd: the SRQ was of another PD";
	if (r->xrcd != p->xrcd)
		return "xrcd: the SRQ was of another XRC domain";
	if (r->srqn != p->srqn || (r->xrcd != 0 && srq_find(tp, r->srqn) != NULL))
		return "srqn: the SRQ had another number, or another one has it";
	return NULL;
}

int
srq_restore(struct transport *tp, const struct srq_record *r, uint32_t room, const struct srq_params *p, struct srq **out, const char **why)
{
	const char *wrong = srq_check(tp, r, room, p);
	struct srq_params as;
	int rc;

	if (wrong != NULL)
		return refused(why, wrong, EINVAL);
	as = *p;
	as.ring.counter = r->counter;
	as.limit = r->limit;
	rc = srq_create(tp, &as, out);
	if (rc != 0)
		return refused(why, rc == EINVAL ? "srqn: an XRC SRQ has a number and a CQ" : "size: there is no memory for another SRQ", rc);
	shared_store(&(*out)->shared->head, r->counter);
	return 0;
}

/* ---- Transports ---- */
void
transport_save(const struct transport *tp, struct transport_record *to)
{
	memset(to, 0, sizeof(*to));
	to->nb_counters = RECORD_COUNTERS;
	to->nb_ports = tp->c.nb_ports;
	memcpy(to->counters, &tp->counters, sizeof(to->counters));
	for (uint32_t i = 0; i < tp->c.nb_ports; i++) {
		to->violations[i].bad_pkey = tp->violations[i].bad_pkey;
		to->violations[i].bad_qkey = tp->violations[i].bad_qkey;
	}
	record_seal(to, RECORD_TRANSPORT, TRANSPORT_RECORD_VERSION, sizeof(*to));
}

int
transport_restore(struct transport *tp, const struct transport_record *r, uint32_t room, const char **why)
{
	const char *wrong = record_check(r, room, RECORD_TRANSPORT, TRANSPORT_RECORD_VERSION, sizeof(*r));

	static_assert(sizeof(r->counters) == sizeof(tp->counters), "every counter is in the record");
	if (wrong != NULL)
		return refused(why, wrong, EINVAL);
	if (r->head.size != sizeof(*r))
		return refused(why, "size: isn't that of a transport's record", EINVAL);
	if (r->nb_counters != RECORD_COUNTERS)
		return refused(why, "nb_counters: the transport counted other things", EINVAL);
	if (r->nb_ports != tp->c.nb_ports)
		return refused(why, "nb_ports: the transport had other ports", EINVAL);
	memcpy(&tp->counters, r->counters, sizeof(r->counters));
	for (uint32_t i = 0; i < tp->c.nb_ports; i++)
		tp->violations[i] = (struct tp_violations){ .bad_pkey = r->violations[i].bad_pkey, .bad_qkey = r->violations[i].bad_qkey };
	return 0;
}
