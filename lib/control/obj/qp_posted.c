/* SPDX-License-Identifier: BSD-3-Clause */
/* Work requests that are executed before a control call that depends on them. */
#include "control/obj/obj_qp_priv.h"

/** QPs of one engine, whose posted work requests are executed now. */
struct posted_args {
	uint32_t n, budget;
	bool first, left; /**< it is asked for the first time; a QP has something left */
	struct obj_qp *qp[CONTROL_DESTROY_BURST];
};

static int
work_posted_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct posted_args *a = arg;

	a->budget = CONTROL_POSTED_BUDGET;
	a->left = false;
	for (uint32_t i = 0; i < a->n; i++) {
		struct obj_qp *qp = a->qp[i];

		if (a->first)
			qp->posted_next = qp_posted_next(qp->qp);
		qp_work_posted(engine_transport(e), qp->qp, &a->budget, now_ns);
		/* Others may have to wait for their peers. */
		a->left |= qp->type == UROCE_QPT_UD && qp_posted_left(qp->qp, qp->posted_next);
	}
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
		qp = obj_qp_next_at(s, engine, pos);
		if (qp == NULL)
			return false;
		if (is_asked(qp, pd, cq))
			a->qp[a->n++] = qp;
	}
	return true;
}

/** @return true if a request should wait for what is left. */
static bool
wait_for(struct session *s, bool left)
{
	uint64_t now_ns = control_now_ns();

	if (left && s->posted_until_ns == 0)
		s->posted_until_ns = now_ns + CONTROL_POSTED_WAIT_MS * UINT64_C(1000000);
	if (left && now_ns < s->posted_until_ns)
		return true;
	s->posted_until_ns = 0;
	return false;
}

bool
obj_qps_send_posted(struct session *s, const struct obj_pd *pd)
{
	struct posted_args a = { .first = s->posted_until_ns == 0 };
	bool left = false;

	for (unsigned int engine = 0; engine < s->control->s.nb_engines; engine++) {
		uint32_t pos = 0;

		next_asked(s, engine, &pos, pd, NULL, &a);
		if (a.n == 0)
			continue;
		engine_call(s->control->s.engines[engine], work_posted_on_engine, &a);
		left |= a.left;
	}
	return wait_for(s, left);
}

bool
obj_qp_send_posted(struct session *s, struct obj_qp *qp)
{
	struct posted_args a = { .first = s->posted_until_ns == 0, .n = 1, .qp = { qp } };

	engine_call(s->control->s.engines[qp->engine], work_posted_on_engine, &a);
	return wait_for(s, a.left);
}

bool
obj_qp_complete_posted(struct session *s, const struct obj_cq *cq)
{
	bool first = s->posted_until_ns == 0, left = false;
	struct posted_args a = { 0 };

	for (unsigned int engine = 0; engine < s->control->s.nb_engines; engine++) {
		uint32_t pos = 0, calls = CONTROL_POSTED_CALLS;
		bool more = true;

		while (more && calls > 0) {
			more = next_asked(s, engine, &pos, NULL, cq, &a);
			/* In between the engine has turns, in which packets leave and others are served. */
			a.first = first;
			a.left = false;
			for (a.budget = 0; a.n != 0 && calls > 0 && a.budget != CONTROL_POSTED_BUDGET; calls--) {
				engine_call(s->control->s.engines[engine], work_posted_on_engine, &a);
				a.first = false;
			}
			left |= a.left;
		}
	}
	return wait_for(s, left);
}
