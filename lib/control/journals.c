/* SPDX-License-Identifier: BSD-3-Clause */
/* What the engines of a daemon that has crashed have left: counters, and events that their programs may not know of. Objects read the rest (obj/after_crash.c). */
#include "control/core/old_journals_priv.h"
#include "control/handover_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"

static void
restore_counters(struct control *c)
{
	const char *why = "they are lost";
	struct transport_record r;

	for (unsigned int i = 0; i < c->s.nb_engines; i++)
		if (journals_counters(old_journals(c), i, &r) != 0 ||
		    transport_restore(engine_transport(c->s.engines[i]), &r, sizeof(r), &why) != 0)
			CTL_LOG(WARNING, "the counters of engine %u begin anew: %s", i, why);
}

void
journals_begin(struct control *c, const struct journals_record *from, struct stream_in *in)
{
	const char *why[UROCE_MAX_ENGINES] = { NULL };

	if (from == NULL || from->nb != c->s.nb_engines) {
		CTL_LOG(WARNING, "the daemon before has left no journals: connected QPs can't go on");
		return;
	}
	if (old_journals_open(c, from, in, why) != 0) {
		CTL_LOG(WARNING, "no memory for the journals of the daemon before: connected QPs can't go on");
		return;
	}
	for (unsigned int i = 0; i < from->nb; i++)
		if (why[i] != NULL)
			CTL_LOG(WARNING, "the journal of engine %u can't be used, its QPs can't go on: %s", i, why[i]);
	restore_counters(c);
}

/* ---- Events ---- */
/** Tell a session that has the object. */
static void
tell(struct session *s, const struct journal_event *ev)
{
	const struct obj_qp *qp;
	const struct obj_cq *cq;
	const struct obj_srq *srq;

	for (uint32_t pos = 0; ev->of == JOURNAL_QP && (qp = handles_next(&s->tab[OBJ_QP], &pos)) != NULL;) {
		if (qp->qp == NULL || qp_num(qp->qp) != ev->number)
			continue;
		session_send_async(s, ev->type, qp->target != NULL ? qp->cookie : qp->made_as.cookie);
		return;
	}
	for (uint32_t pos = 0; ev->of == JOURNAL_CQ && (cq = handles_next(&s->tab[OBJ_CQ], &pos)) != NULL;) {
		if (cq->was_journaled != ev->number + 1)
			continue;
		session_send_async(s, ev->type, cq->cookie);
		return;
	}
	for (uint32_t pos = 0; ev->of == JOURNAL_SRQ && (srq = handles_next(&s->tab[OBJ_SRQ], &pos)) != NULL;) {
		if (srq->was_journaled != ev->number + 1)
			continue;
		session_send_async(s, ev->type, srq->cookie);
		return;
	}
}

void
journals_end(struct control *c)
{
	struct journals *js = old_journals(c);
	struct journal_event ev;
	struct session *s;

	for (uint32_t i = 0, n = js != NULL ? journals_events(js) : 0; i < n; i++) {
		journals_nth_event(js, i, &ev);
		/* Several sessions may have an XRC target open. */
		TAILQ_FOREACH(s, &c->sessions, link)
			tell(s, &ev);
	}
	old_journals_close(c);
}
