/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests that are executed before a control call that depends on them. */
#include "control/obj/obj_qp_priv.h"

/** QPs of one engine, whose posted work requests are executed now. */
struct posted_args {
	uint32_t n, budget;
	struct qp *qp[CONTROL_DESTROY_BURST];
};

static int
work_posted_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct posted_args *a = arg;

	a->budget = CONTROL_POSTED_BUDGET;
	for (uint32_t i = 0; i < a->n; i++)
		qp_work_posted(engine_transport(e), a->qp[i], &a->budget, now_ns);
	return 0;
}

/** @return true if an engine is to look at @p qp: the UD QPs of @p pd, or the QPs that complete in @p cq. */
static bool
is_asked(const struct obj_qp *qp, const struct obj_pd *pd, const struct obj_cq *cq)
{
	return pd != NULL ? qp->type == UROCE_QPT_UD && qp->pd == pd : qp->send_cq == cq || qp->recv_cq == cq;
}

/** Collect the next QPs of a session on an engine. @return false: these are the last. */
static bool
next_asked(struct session *s, unsigned int engine, uint32_t *pos, const struct obj_pd *pd, const struct obj_cq *cq, struct posted_args *a)
{
	struct obj_qp *qp;

	a->n = 0;
	while (a->n < CONTROL_DESTROY_BURST) {
		qp = handles_next(&s->db_slots[engine], pos);
		if (qp == NULL)
			return false;
		if (is_asked(qp, pd, cq))
			a->qp[a->n++] = qp->qp;
	}
	return true;
}

void
obj_qp_send_posted(struct session *s, const struct obj_pd *pd)
{
	struct posted_args a;

	for (unsigned int engine = 0; engine < s->control->s.nb_engines; engine++) {
		uint32_t pos = 0;

		next_asked(s, engine, &pos, pd, NULL, &a);
		if (a.n != 0)
			engine_call(s->control->s.engines[engine], work_posted_on_engine, &a);
	}
}

void
obj_qp_complete_posted(struct session *s, const struct obj_cq *cq)
{
	struct posted_args a;

	for (unsigned int engine = 0; engine < s->control->s.nb_engines; engine++) {
		uint32_t pos = 0, calls = CONTROL_POSTED_CALLS;
		bool more = true;

		while (more && calls > 0) {
			more = next_asked(s, engine, &pos, NULL, cq, &a);
			/* In between the engine has turns, in which packets leave and others are served. */
			for (a.budget = 0; a.n != 0 && calls > 0 && a.budget != CONTROL_POSTED_BUDGET; calls--)
				engine_call(s->control->s.engines[engine], work_posted_on_engine, &a);
		}
	}
}
