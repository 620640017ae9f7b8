/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs that are at one engine together: those of an SRQ, and the targets of an XRC domain. */
#include <rte_common.h>

#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "control/obj/qp_group_priv.h"

struct qp_group
qp_group_of(struct obj_qp *qp)
{
	return (struct qp_group){
		.qp = qp,
		.srq = qp->target == NULL ? qp->srq : NULL,
		.xrcd = qp->target != NULL ? qp->xrcd->xrcd : NULL,
	};
}

/** @return an opening of @p t or of the next target behind it that has a QP; NULL: there is none. */
static struct obj_qp *
first_opening(struct xrc_target *t)
{
	while (t != NULL && t->qp == NULL)
		t = LIST_NEXT(t, link);
	return t != NULL ? LIST_FIRST(&t->openings) : NULL;
}

struct obj_qp *
qp_group_next(const struct qp_group *g, const struct obj_qp *after)
{
	if (g->xrcd != NULL)
		return first_opening(after == NULL ? LIST_FIRST(&g->xrcd->targets) : LIST_NEXT(after->target, link));
	if (g->srq != NULL)
		return after == NULL ? LIST_FIRST(&g->srq->qps) : LIST_NEXT(after, srq_link);
	return after == NULL ? g->qp : NULL;
}

struct obj_srq *
qp_group_next_srq(const struct qp_group *g, const struct obj_srq *after)
{
	if (g->xrcd != NULL)
		return after == NULL ? LIST_FIRST(&g->xrcd->srqs) : LIST_NEXT(after, domain_link);
	return after == NULL ? g->srq : NULL;
}

void
qp_group_count(const struct qp_group *g, unsigned int *nb_qps, unsigned int *nb_srqs)
{
	const struct obj_srq *srq = NULL;
	const struct obj_qp *qp = NULL;

	*nb_qps = *nb_srqs = 0;
	while ((qp = qp_group_next(g, qp)) != NULL)
		++*nb_qps;
	while ((srq = qp_group_next_srq(g, srq)) != NULL)
		++*nb_srqs;
}

bool
qp_group_look(const struct qp_group *g, uint64_t number)
{
	uint64_t *looked = g->xrcd != NULL ? &g->xrcd->looked : g->srq != NULL ? &g->srq->looked : NULL;

	if (looked == NULL)
		return true;
	if (*looked == number)
		return false;
	*looked = number;
	return true;
}

/** All sessions that have a target open have an object of it. */
static void
set_engine(struct obj_qp *qp, unsigned int engine, uint64_t now_ns)
{
	struct obj_qp *o;

	obj_qp_touch(qp);
	if (qp->target == NULL) {
		qp->engine = engine;
		qp->moved_ns = now_ns;
		qp->session->qps_moved = true;
		return;
	}
	LIST_FOREACH(o, &qp->target->openings, opening) {
		o->engine = engine;
		o->moved_ns = now_ns;
	}
}

/** The records of all that have the domain open say at which engine it is. */
static void
touch_domain(struct control *c, const struct xrcd *x)
{
	const struct obj_xrcd *d;
	struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		for (uint32_t pos = 0; saving_is_on(&c->saving) && (d = handles_next(&s->tab[OBJ_XRCD], &pos)) != NULL;)
			if (d->xrcd == x)
				saved_touch(c, d->obj.saved);
}

void
qp_group_set_engine(const struct qp_group *g, unsigned int engine, uint64_t now_ns)
{
	struct obj_srq *srq = NULL;
	struct obj_qp *qp = NULL;

	while ((qp = qp_group_next(g, qp)) != NULL)
		set_engine(qp, engine, now_ns);
	while ((srq = qp_group_next_srq(g, srq)) != NULL) {
		srq->engine = engine;
		saved_touch(g->qp->session->control, srq->obj.saved);
	}
	if (g->xrcd != NULL) {
		g->xrcd->engine = engine;
		touch_domain(g->qp->session->control, g->xrcd);
	}
}
