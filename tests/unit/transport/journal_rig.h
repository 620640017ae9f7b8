/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A pair of ends with journals, of which host 1 is killed: what others may see is copied at the chosen step, and the next daemon has that.
 */
#ifndef UROCE_TEST_JOURNAL_RIG_H
#define UROCE_TEST_JOURNAL_RIG_H

#include <sys/mman.h>

#include "record_rig.h"
#include "transport/core/journal_priv.h"
#include "transport/journal/journal.h"
#include "transport/journal/slot_priv.h"
#include "transport/qp_priv.h"

enum { REGIONS = 8 };
static const struct journal_limits journal_limits = { .qps = PAIR_QPS, .cqs = PAIR_QUEUES, .srqs = PAIR_QUEUES };

/** A kill of the host of r->b. */
struct kill {
	struct rig *r;
	uint32_t steps;      /* before it is killed */
	bool killed;
	unsigned int events; /* that the client had been told of */
	uint8_t *journal;    /* as it was then */
	struct {
		void *at;
		size_t bytes;
		uint8_t *was;
	} regions[REGIONS];  /* what the program had in memory */
};

static inline void
kill_region(struct kill *k, unsigned int i, void *at, size_t bytes)
{
	k->regions[i].at = at;
	k->regions[i].bytes = bytes;
	k->regions[i].was = malloc(bytes);
	memcpy(k->regions[i].was, at, bytes);
}

static inline void
kill_now(struct kill *k)
{
	struct end *e = k->r->b;

	k->killed = true;
	k->events = e->host->nb_events;
	k->journal = mmap(NULL, journal_bytes(&journal_limits), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(k->journal, MAP_FAILED);
	memcpy(k->journal, e->host->journal, journal_layout(&journal_limits).slots + 8 * JOURNAL_SLOT_BYTES);
	kill_region(k, 0, &e->shared, sizeof(e->shared));
	kill_region(k, 1, e->scq.mem, sizeof(struct ring_cqe) << e->scq.ring.order);
	kill_region(k, 2, &e->scq.shared, sizeof(e->scq.shared));
	kill_region(k, 3, e->rcq.mem, sizeof(struct ring_cqe) << e->rcq.ring.order);
	kill_region(k, 4, &e->rcq.shared, sizeof(e->rcq.shared));
	kill_region(k, 5, k->r->bbuf, BUF);
	if (e->srq != NULL)
		kill_region(k, 6, &e->srq->shared, sizeof(e->srq->shared));
}

static inline void
kill_step(void *arg)
{
	struct kill *k = arg;

	if (!k->killed && k->steps-- == 0)
		kill_now(k);
}

/** Have the host of @p r->b killed after @p steps steps. */
static inline void
kill_after(struct kill *k, struct rig *r, uint32_t steps)
{
	*k = (struct kill){ .r = r, .steps = steps };
	r->b->host->tp->journal->step = kill_step;
	r->b->host->tp->journal->step_arg = k;
}

static inline struct cq_params
kill_cq(struct end_cq *c)
{
	struct cq_params p = { .ring = c->ring, .shared = &c->shared, .channel = c->cq->channel, .cookie = c->cq->cookie, .number = c->cq->number };

	p.ring.counter = 0;
	return p;
}

static inline void
kill_resume_cq(struct kill *k, struct journals *js, struct end_cq *c, const struct cq_params *p)
{
	const char *why = "";
	struct cq_record rec;

	assert_int_equal(journals_cq(js, p->number, p, NULL, 0, &rec), 0);
	if (cq_restore(k->r->b->host->tp, &rec, sizeof(rec), p, k->r->p->now, &c->cq, &why) != 0)
		fail_msg("%s", why);
}

/** The next daemon of the host goes on: what the killed one has done since then never happened. */
static inline void
kill_resume(struct kill *k)
{
	struct end *e = k->r->b;
	struct host *h = e->host;
	struct qp_params p = params_of(e);
	struct cq_params scq = kill_cq(&e->scq), rcq = kill_cq(&e->rcq);
	struct srq_params sp = { 0 };
	struct journal_memory m = { k->journal, journal_bytes(&journal_limits) };
	static uint64_t record[JOURNAL_QP_BYTES / 8 + 1];
	uint32_t qpn = qp_num(e->qp);
	struct srq_record srq;
	struct journals *js;
	const char *why;

	if (e->srq != NULL)
		sp = (struct srq_params){ .ring = e->srq->srq->ring, .shared = &e->srq->shared, .pd = PAIR_PD, .max_sge = e->srq->srq->max_sge,
					  .cookie = e->srq->srq->cookie, .number = e->srq->srq->number };
	qp_discard(h->tp, e->qp);
	cq_destroy(e->scq.cq);
	cq_destroy(e->rcq.cq);
	if (e->srq != NULL)
		assert_int_equal(srq_destroy(h->tp, e->srq->srq), 0);
	transport_destroy(h->tp);
	munmap(h->journal, journal_bytes(&journal_limits));
	qp_table_destroy(h->sh.qps);
	for (unsigned int i = 0; i < REGIONS; i++) {
		if (k->regions[i].at != NULL)
			memcpy(k->regions[i].at, k->regions[i].was, k->regions[i].bytes);
		free(k->regions[i].was);
	}
	h->nb_events = k->events;
	h->sh.qps = qp_table_create(PAIR_QPS, NULL, 0);
	h->tp = host_transport(h, &(struct tp_port_config){ .features = TP_FEATURES_ALL }, &(struct tp_limits){ 0 });
	assert_int_equal(journals_open(&m, 1, &js, &why), 0);
	if (why != NULL)
		fail_msg("%s", why);
	kill_resume_cq(k, js, &e->scq, &scq);
	kill_resume_cq(k, js, &e->rcq, &rcq);
	p.send_cq = e->scq.cq;
	p.recv_cq = e->rcq.cq;
	if (e->srq != NULL) {
		sp.ring.counter = 0;
		assert_int_equal(journals_srq(js, sp.number, &sp, &srq, NULL), 0);
		assert_int_equal(srq_restore(h->tp, &srq, sizeof(srq), &sp, &e->srq->srq, &why), 0);
		p.srq = e->srq->srq;
	}
	assert_int_equal(journals_qp(js, qpn, h->sh.mrs, k->r->p->now, (struct qp_record *)record, NULL), 0);
	if (qp_restore(h->tp, (struct qp_record *)record, sizeof(record), &p, k->r->p->now, &e->qp, &why) != 0)
		fail_msg("%s", why);
	for (uint32_t i = 0; i < journals_events(js); i++) {
		struct journal_event ev;

		journals_nth_event(js, i, &ev);
		h->events[h->nb_events++].type = ev.type;
	}
	journals_close(js);
	munmap(k->journal, m.bytes);
}

static inline void
journal_rig_up(struct rig *r, uint16_t items, const struct end_opts *eo)
{
	r->p = pair_new_journal(items);
	r->a = end_new(&r->p->h[0], NULL);
	r->b = end_new(&r->p->h[1], eo);
	rig_connect(r, NULL);
}

#endif /* UROCE_TEST_JOURNAL_RIG_H */
