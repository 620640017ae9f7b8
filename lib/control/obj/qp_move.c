/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs that move from one engine to another, with all that they have to be with. */
#include <rte_common.h>

#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "control/obj/qp_group_priv.h"

struct obj_qp *
obj_qp_next_at(struct session *s, unsigned int engine, uint32_t *pos)
{
	struct obj_qp *qp;

	if (!s->qps_moved)
		return handles_next(&s->db_slots[engine], pos);
	do {
		qp = handles_next(&s->tab[OBJ_QP], pos);
	} while (qp != NULL && (qp->target != NULL || qp->engine != engine));
	return qp;
}

uint64_t
obj_qp_cost_since(struct obj_qp *qp)
{
	return qp_cost_since(qp->qp, qp->target != NULL ? &qp->target->cost_seen : &qp->cost_seen);
}

static bool
is_too_large(const struct qp_group *g)
{
	unsigned int nb_qps, nb_srqs;

	qp_group_count(g, &nb_qps, &nb_srqs);
	return nb_qps > ENGINE_MOVE_MOST || nb_srqs > ENGINE_MOVE_MOST;
}

bool
obj_qp_look(struct obj_qp *qp, uint64_t number, struct obj_qp_load *out)
{
	struct qp_group g = qp_group_of(qp);
	struct obj_qp *q = NULL;

	if (!qp_group_look(&g, number))
		return false;
	*out = (struct obj_qp_load){ .may_move = !is_too_large(&g) };
	while ((q = qp_group_next(&g, q)) != NULL) {
		out->cost += obj_qp_cost_since(q);
		out->nb_qps++;
		out->moved_ns = RTE_MAX(out->moved_ns, q->moved_ns);
	}
	return true;
}

/* ---- One move ---- */
/** What moves, as its engine knows it. */
struct parts {
	struct engine_move qps[ENGINE_MOVE_MOST];
	struct srq *srqs[ENGINE_MOVE_MOST];
	struct engine_group g;
};

static struct engine_move
qp_part(const struct obj_qp *qp, unsigned int engine)
{
	struct session *s = qp->session;

	/* What programs share has no doorbell, and no program's share. */
	if (qp->target != NULL)
		return (struct engine_move){ .qp = qp->qp };
	return (struct engine_move){
		.qp = qp->qp,
		.share = engine_session_share(s->engine_sessions[engine]),
		.home = s->control->s.engines[qp->home],
		.session = s->engine_sessions[qp->home],
		.slot = DB_SLOT(qp->db_slot),
	};
}

static void
fill_parts(const struct qp_group *g, unsigned int engine, struct parts *p)
{
	const struct obj_srq *srq = NULL;
	const struct obj_qp *qp = NULL;

	p->g = (struct engine_group){ .qps = p->qps, .srqs = p->srqs };
	while ((qp = qp_group_next(g, qp)) != NULL)
		p->qps[p->g.nb_qps++] = qp_part(qp, engine);
	while ((srq = qp_group_next_srq(g, srq)) != NULL)
		p->srqs[p->g.nb_srqs++] = srq->srq;
}

static int
move(struct control *c, const struct qp_group *g, unsigned int engine, bool brief, struct control_moved *out)
{
	struct parts p;
	int rc;

	fill_parts(g, engine, &p);
	p.g.brief = brief;
	rc = engine_move_qps(c->s.engines[g->qp->engine], c->s.engines[engine], &p.g, &out->pause_ns);
	if (rc != 0)
		return rc;
	out->qps = p.g.nb_qps;
	qp_group_set_engine(g, engine, control_now_ns());
	return 0;
}

static const char *
why_not(int rc)
{
	switch (rc) {
	case E2BIG:
		return "more than " RTE_STR(ENGINE_MOVE_MOST) " QPs or SRQs would have to move with it: those of its SRQ or XRC domain";
	case EBUSY:
		return "memory of its program, or of one whose QPs move with it, is being copied: try again";
	default:
		return "no memory, or the other engine can lend nothing";
	}
}

int
obj_qp_move(struct session *s, struct obj_qp *qp, unsigned int engine, bool brief, struct control_moved *out, const char **why)
{
	struct qp_group g = qp_group_of(qp);
	struct control *c = s->control;
	int rc;

	*out = (struct control_moved){ 0 };
	if (engine >= c->s.nb_engines) {
		*why = "there is no such engine";
		return EINVAL;
	}
	if (qp->engine == engine)
		return 0;
	rc = is_too_large(&g) ? E2BIG : move(c, &g, engine, brief, out);
	if (rc != 0) {
		*why = why_not(rc);
		c->moves.refused++;
		return rc;
	}
	c->moves.done += out->qps;
	c->moves.last_ns = out->pause_ns;
	c->moves.longest_ns = RTE_MAX(c->moves.longest_ns, out->pause_ns);
	return 0;
}

void
obj_qp_leave_home(struct session *s, struct obj_qp *qp)
{
	struct engine *const *engines = s->control->s.engines;

	if (qp->target != NULL || qp->engine == qp->home)
		return;
	engine_session_forget_qp(engines[qp->home], engines[qp->engine], s->engine_sessions[qp->home], DB_SLOT(qp->db_slot));
}
