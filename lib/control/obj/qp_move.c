/* SPDX-License-Identifier: BSD-3-Clause */
/* QPs that move from one engine to another. */
#include <rte_common.h>

#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_xrc_priv.h"

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

/** @return why a QP can't move, whatever happens; NULL: it can. */
static const char *
never(const struct obj_qp *qp)
{
	if (qp->target != NULL || qp->type == UROCE_QPT_XRC_SEND)
		return "XRC QPs stay at their engine";
	return qp->srq != NULL ? "QPs of an SRQ stay at its engine" : NULL;
}

bool
obj_qp_may_move(const struct obj_qp *qp)
{
	return never(qp) == NULL;
}

uint64_t
obj_qp_cost_since(struct obj_qp *qp)
{
	return qp_cost_since(qp->qp, qp->target != NULL ? &qp->target->cost_seen : &qp->cost_seen);
}

static int
move(struct session *s, struct obj_qp *qp, unsigned int engine, uint64_t *pause_ns)
{
	struct engine *const *engines = s->control->s.engines;
	const struct engine_move m = {
		.qp = qp->qp,
		.share = engine_session_share(s->engine_sessions[engine]),
		.home = engines[qp->home],
		.session = s->engine_sessions[qp->home],
		.slot = DB_SLOT(qp->db_slot),
	};
	int rc = engine_move_qps(engines[qp->engine], engines[engine], &m, 1, pause_ns);

	if (rc != 0)
		return rc;
	s->qps_moved = true;
	qp->engine = engine;
	qp->moved_ns = control_now_ns();
	return 0;
}

int
obj_qp_move(struct session *s, struct obj_qp *qp, unsigned int engine, uint64_t *pause_ns, const char **why)
{
	struct moves *n = &s->control->moves;
	int rc;

	*pause_ns = 0;
	if (engine >= s->control->s.nb_engines) {
		*why = "there is no such engine";
		return EINVAL;
	}
	*why = never(qp);
	if (*why != NULL) {
		n->refused++;
		return EOPNOTSUPP;
	}
	if (qp->engine == engine)
		return 0;
	rc = move(s, qp, engine, pause_ns);
	*why = rc == EBUSY ? "memory of its program is being copied: try again" : "no memory, or the other engine can lend nothing";
	n->refused += rc != 0;
	n->done += rc == 0;
	if (rc == 0)
		n->last_ns = *pause_ns;
	n->longest_ns = RTE_MAX(n->longest_ns, *pause_ns);
	return rc;
}

void
obj_qp_leave_home(struct session *s, struct obj_qp *qp)
{
	struct engine *const *engines = s->control->s.engines;

	if (qp->target != NULL || qp->engine == qp->home)
		return;
	engine_session_forget_qp(engines[qp->home], engines[qp->engine], s->engine_sessions[qp->home], DB_SLOT(qp->db_slot));
}
