/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hosts whose daemon is replaced: at the end of a turn everything that a transport knows is saved in records, the transports, CQs, SRQs, QPs and
 * the table of QPs are thrown away, and new ones go on from the records. What is on its way to the host for a while is lost; its clients go on
 * posting. Nothing else may come of it: the model makes no exceptions.
 */
#include <stdlib.h>
#include <string.h>

#include "restart.h"

enum {
	STREAM_RESTART = 8192,
	TURNS = 60,                 /* one turn in so many is the last before a restart */
};
#define DARK_NS_MAX (100 * SIM_NS_PER_MS)

void
restart_init(struct sim_world *w, struct sim_ep *ep)
{
	ep->restart_rng = rng_stream(w->cfg.seed, STREAM_RESTART + ep->id);
}

struct srq **
restart_srq(struct sim_ep *ep, uint32_t n)
{
	if (n < SIM_MAX_SRQS)
		return &ep->srqs[n].srq;
	if (n < SIM_MAX_SRQS + SIM_MAX_XSRQS)
		return &ep->xsrqs[n - SIM_MAX_SRQS].srq;
	return &ep->foreign_srq;
}

struct sim_qp *
restart_qp(struct sim_world *w, const struct sim_ep *ep, uint32_t n)
{
	struct sim_qp *q = &w->conns[n / 2].qp[n & 1];

	return n < 2 * w->cfg.nb_conns && q->ep == ep ? q : NULL;
}

static uint32_t
engine_of(const struct sim_ep *ep, const struct transport *tp)
{
	uint32_t i = 0;

	while (ep->engines[i].tp != tp)
		i++;
	return i;
}

static uint32_t
place_of_srq(struct sim_ep *ep, const struct srq *srq)
{
	uint32_t i = 0;

	while (i < RESTART_QUEUES && *restart_srq(ep, i) != srq)
		i++;
	return i;
}

static uint32_t
place_of_share(const struct sim_ep *ep, uint32_t engine, const struct share *share)
{
	uint32_t i = 0;

	while (i < SIM_MAX_SHARES && (share == NULL || ep->engines[engine].shares[i].share != share))
		i++;
	return i;
}

/* ---- Saving ---- */
static void
look_at_queues(struct sim_ep *ep, struct saved *s)
{
	uint32_t i;

	for (i = 0; i < ep->nb_engines; i++)
		s->config[i] = ep->engines[i].tp->c;
	for (i = 0; i < ep->nb_cqs; i++) {
		const struct cq *cq = ep->cqs[i].cq;
		const struct cq_ring *ring = &cq->rings[atomic_load(&cq->prod) & 1];

		s->cq_params[i] = (struct cq_params){ .ring = ring->ring, .shared = cq->shared, .stamps = ring->stamps, .channel = cq->channel,
						      .cookie = cq->cookie, .owner = cq->owner, .multi = cq->multi, .number = cq->number };
	}
	for (i = 0; i < RESTART_QUEUES; i++) {
		const struct srq *srq = *restart_srq(ep, i);

		if (srq == NULL)
			continue;
		s->srq_params[i] = (struct srq_params){ .ring = srq->ring, .shared = srq->shared, .pd = srq->pd, .max_sge = srq->max_sge,
							.cookie = srq->cookie, .owner = srq->owner, .xrcd = srq->xrcd, .srqn = srq->srqn, .number = srq->number };
		s->srq_params[i].ring.counter = 0;
		s->srq_engine[i] = engine_of(ep, srq->tp);
	}
}

void
restart_look(struct sim_world *w, struct sim_ep *ep, struct saved *s)
{
	look_at_queues(ep, s);
	for (uint32_t i = 0; i < RESTART_MAX_QPS; i++) {
		const struct sim_qp *q = restart_qp(w, ep, i);

		if (q == NULL)
			continue;
		s->qp_engine[i] = engine_of(ep, q->tp);
		s->qp_srq[i] = place_of_srq(ep, q->params.srq);
		s->qp_share[i] = place_of_share(ep, s->qp_engine[i], q->params.share);
	}
}

static void
save(struct sim_world *w, struct sim_ep *ep, struct saved *s)
{
	struct transport *tps[SIM_MAX_ENGINES];

	for (uint32_t i = 0; i < ep->nb_engines; i++) {
		tps[i] = ep->engines[i].tp;
		transport_tell(tps[i]);
		transport_save(tps[i], &s->tps[i]);
	}
	for (uint32_t i = 0; i < ep->nb_cqs; i++)
		cq_save(tps, ep->nb_engines, ep->cqs[i].cq, &s->cqs[i]);
	for (uint32_t i = 0; i < RESTART_QUEUES; i++)
		if (*restart_srq(ep, i) != NULL)
			srq_save(*restart_srq(ep, i), &s->srqs[i]);
	for (uint32_t i = 0; i < RESTART_MAX_QPS; i++) {
		struct sim_qp *q = restart_qp(w, ep, i);
		uint32_t room;

		if (q == NULL || q->qp == NULL)
			continue;
		paths_unheard(q);
		room = qp_record_bytes(q->qp);
		s->qps[i] = malloc(room);
		if (s->qps[i] == NULL)
			abort();
		if (qp_save(q->tp, q->qp, s->qps[i], room) != 0)
			sim_fail(w, "QP %u can't be saved", q->id);
		s->qp_bytes[i] = s->qps[i]->head.size;
	}
}

/* ---- The end of the old ones ---- */
void
restart_throw_away(struct sim_world *w, struct sim_ep *ep)
{
	uint32_t i;

	for (i = 0; i < RESTART_MAX_QPS; i++) {
		struct sim_qp *q = restart_qp(w, ep, i);

		if (q != NULL && q->qp != NULL)
			qp_destroy(q->tp, q->qp);
	}
	for (i = 0; i < RESTART_QUEUES; i++) {
		struct srq **srq = restart_srq(ep, i);

		if (*srq != NULL)
			srq_destroy((*srq)->tp, *srq);
	}
	shares_free(ep);
	for (i = 0; i < ep->nb_engines; i++) {
		transport_destroy(ep->engines[i].tp);
		burst_free(&ep->engines[i].rx);
		burst_free(&ep->engines[i].loop);
	}
	for (i = 0; i < ep->nb_cqs; i++)
		cq_destroy(ep->cqs[i].cq);
	qp_table_destroy(ep->sh.qps);
}

/* ---- New ones ---- */
static bool
make_transports(struct sim_world *w, struct sim_ep *ep, struct saved *s)
{
	const char *why = "";
	uint32_t i;

	ep->sh.qps = qp_table_create(SIM_QP_TABLE_SIZE, NULL, &(struct secret){ .key[0] = rng_next(&ep->restart_rng) });
	if (ep->sh.qps == NULL)
		return false;
	for (i = 0; i < ep->nb_engines; i++) {
		s->config[i].sh = ep->sh;
		crash_config(w, ep, i, &s->config[i]);
		ep->engines[i].tp = transport_create(&s->config[i]);
		if (ep->engines[i].tp == NULL || transport_restore(ep->engines[i].tp, &s->tps[i], sizeof(s->tps[i]), &why) != 0) {
			sim_fail(w, "endpoint %u: its transport isn't restored: %s", ep->id, why);
			return false;
		}
		crash_hook(w, ep, ep->engines[i].tp);
		memset(ep->engines[i].shares, 0, sizeof(ep->engines[i].shares));
	}
	return shares_make(w, ep);
}

static bool
restore_queues(struct sim_world *w, struct sim_ep *ep, struct saved *s)
{
	const char *why = "";
	uint32_t i;

	for (i = 0; i < ep->nb_cqs; i++) {
		s->cq_params[i].ring.counter = 0;
		if (cq_restore(ep->engines[0].tp, &s->cqs[i], sizeof(s->cqs[i]), &s->cq_params[i], w->now_ns, &ep->cqs[i].cq, &why) != 0) {
			sim_fail(w, "endpoint %u: a CQ isn't restored: %s", ep->id, why);
			return false;
		}
		/* What is held back is due by a clock that began anew. */
		ep->cqs[i].loose |= s->cqs[i].held != 0;
		ep->cqs[i].late |= s->cqs[i].owed != 0;
	}
	for (i = 0; i < RESTART_QUEUES; i++) {
		struct transport *tp = ep->engines[s->srq_engine[i]].tp;

		if (s->srqs[i].head.size == 0)
			continue;
		if (s->srq_params[i].xrcd != 0)
			s->srq_params[i].cq = (i < RESTART_QUEUES - 1 ? ep->xsrqs[i - SIM_MAX_SRQS].cq : &ep->cqs[0])->cq;
		if (srq_restore(tp, &s->srqs[i], sizeof(s->srqs[i]), &s->srq_params[i], restart_srq(ep, i), &why) != 0) {
			sim_fail(w, "endpoint %u: an SRQ isn't restored: %s", ep->id, why);
			return false;
		}
		if (i < SIM_MAX_SRQS)
			ep->srqs[i].tp = tp;
		else if (i < RESTART_QUEUES - 1)
			ep->xsrqs[i - SIM_MAX_SRQS].tp = tp;
	}
	return true;
}

static bool
restore_qps(struct sim_world *w, struct sim_ep *ep, struct saved *s)
{
	const char *why = "";

	for (uint32_t i = 0; i < RESTART_MAX_QPS; i++) {
		struct sim_qp *q = restart_qp(w, ep, i);
		struct qp_params *p;

		if (q == NULL)
			continue;
		p = &q->params;
		q->tp = ep->engines[s->qp_engine[i]].tp;
		if (p->send_cq != NULL)
			p->send_cq = q->send_cq->cq;
		if (p->recv_cq != NULL)
			p->recv_cq = q->recv_cq->cq;
		if (p->srq != NULL)
			p->srq = *restart_srq(ep, s->qp_srq[i]);
		p->share = s->qp_share[i] < SIM_MAX_SHARES ? ep->engines[s->qp_engine[i]].shares[s->qp_share[i]].share : NULL;
		if (s->qps[i] == NULL)
			continue;
		q->qp = NULL;
		if (qp_restore(q->tp, s->qps[i], s->qp_bytes[i], p, w->now_ns, &q->qp, &why) != 0) {
			sim_fail(w, "QP %u isn't restored: %s", q->id, why);
			return false;
		}
	}
	return true;
}

/* ---- Nothing has changed ---- */
static void
same(struct sim_world *w, const struct sim_ep *ep, const char *what, uint32_t number, const void *before, const void *after, uint32_t bytes)
{
	const uint8_t *b = before, *a = after;

	for (uint32_t i = sizeof(struct record_head); i < bytes; i++)
		if (a[i] != b[i]) {
			sim_fail(w, "endpoint %u: %s %u is another one after it was restored: byte %u of its record is 0x%02x, was 0x%02x", ep->id, what,
				 number, i, a[i], b[i]);
			return;
		}
}

/* What was restored is saved again: the records are the same. */
static void
check_restored(struct sim_world *w, struct sim_ep *ep, const struct saved *s)
{
	struct transport *tps[SIM_MAX_ENGINES];
	struct transport_record t;
	struct srq_record srq;
	struct cq_record cq;
	uint32_t i;

	for (i = 0; i < ep->nb_engines; i++) {
		tps[i] = ep->engines[i].tp;
		transport_save(tps[i], &t);
		same(w, ep, "transport", i, &s->tps[i], &t, sizeof(t));
	}
	for (i = 0; i < ep->nb_cqs; i++) {
		cq_save(tps, ep->nb_engines, ep->cqs[i].cq, &cq);
		same(w, ep, "CQ", i, &s->cqs[i], &cq, sizeof(cq));
	}
	for (i = 0; i < RESTART_QUEUES; i++) {
		if (s->srqs[i].head.size == 0)
			continue;
		srq_save(*restart_srq(ep, i), &srq);
		same(w, ep, "SRQ", i, &s->srqs[i], &srq, sizeof(srq));
	}
	for (i = 0; i < RESTART_MAX_QPS; i++) {
		struct sim_qp *q = restart_qp(w, ep, i);
		struct qp_record *r;

		if (q == NULL || s->qps[i] == NULL)
			continue;
		r = malloc(s->qp_bytes[i]);
		if (r == NULL)
			abort();
		if (qp_record_bytes(q->qp) != s->qp_bytes[i] || qp_save(q->tp, q->qp, r, s->qp_bytes[i]) != 0)
			sim_fail(w, "QP %u has another record after it was restored", q->id);
		else
			same(w, ep, "QP", q->id, s->qps[i], r, s->qp_bytes[i]);
		free(r);
	}
}

void
restart_make(struct sim_world *w, struct sim_ep *ep, struct saved *s)
{
	if (!make_transports(w, ep, s) || !restore_queues(w, ep, s) || !restore_qps(w, ep, s)) {
		sim_fail(w, "endpoint %u: no memory", ep->id);
		/* Half a host can't be taken down in order. */
		fprintf(stderr, "seed %lu: %s\n", (unsigned long)w->cfg.seed, w->why);
		abort();
	}
	if (!(w->cfg.faults & SIM_F_CRASH))
		check_restored(w, ep, s);
	for (uint32_t i = 0; i < RESTART_MAX_QPS; i++) {
		struct sim_qp *q = restart_qp(w, ep, i);

		/* Its scoreboard is gone: it sends again what the peer has said that it holds, and must be told once more what the peer lacks. */
		if (q != NULL) {
			memset(q->sacked, 0, sizeof(q->sacked));
			q->lacked = 0;
		}
		free(s->qps[i]);
	}
}

static void
restart(struct sim_world *w, struct sim_ep *ep)
{
	struct saved *s = calloc(1, sizeof(*s));
	uint64_t dark_ns = rng_below(&ep->restart_rng, rng_one_in(&ep->restart_rng, 2) ? DARK_NS_MAX : SIM_NS_PER_MS);

	if (s == NULL)
		abort();
	sim_trace(w, "endpoint %u: its daemon is replaced, and dark for %lu us", ep->id, (unsigned long)dark_ns / 1000);
	ep->restarts++;
	ep->dark_until = w->now_ns + dark_ns;
	restart_look(w, ep, s);
	save(w, ep, s);
	connect_restart(w, ep);
	restart_throw_away(w, ep);
	restart_make(w, ep, s);
	free(s);
}

bool
restart_may(struct sim_world *w, struct sim_ep *ep)
{
	uint32_t i;

	if (!(w->cfg.faults & SIM_F_RESTART) || (w->cfg.faults & SIM_F_CRASH) || w->settled)
		return false;
	ep->restarting |= ep->restarts < RESTARTS_MOST && rng_one_in(&ep->restart_rng, TURNS);
	if (!ep->restarting)
		return false;
	/* Copies of memory that isn't mapped end first: the packets that wait for them are executed, or not, but never half. */
	for (i = 0; i < ep->nb_engines; i++)
		if (transport_copies(ep->engines[i].tp) != 0)
			return true;
	ep->restarting = false;
	restart(w, ep);
	return true;
}
