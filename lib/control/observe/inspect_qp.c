/* SPDX-License-Identifier: BSD-3-Clause */
/* The current state of QPs, obtained from the engines that own them. */
#include <arpa/inet.h>
#include <stdio.h>

#include <bsd/string.h>
#include <rte_common.h>

#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_path_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/observe/inspect_priv.h"

enum { LOOK_BURST = 32 }; /**< QPs queried by one message to an engine, so that traffic goes on in between */

struct look {
	uint32_t n;
	const struct qp *qp[LOOK_BURST];
	struct qp_view *view[LOOK_BURST];
};

static int
look_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct look *l = arg;

	for (uint32_t i = 0; i < l->n; i++)
		qp_look(l->qp[i], now_ns, l->view[i]);
	return 0;
}

static uint64_t
cq_number(const struct obj_cq *cq)
{
	return cq != NULL ? cq->number : 0;
}

/** Add what the control thread knows about the QP. */
static void
add_owner(struct control *c, struct session *s, struct obj_qp *qp, struct inspect_qp *out)
{
	char addr[INET6_ADDRSTRLEN];

	out->session = qp->target != NULL ? 0 : s->id;
	out->pid = s->pid;
	strlcpy(out->program, s->program, sizeof(out->program));
	strlcpy(out->device, s->port != NULL ? s->port->conf.name : "", sizeof(out->device));
	out->send_cq = cq_number(qp->send_cq);
	out->recv_cq = cq_number(qp->recv_cq);
	out->v.load_percent = c->load[qp->engine].percent;
	out->note[0] = '\0';
	if (s->pending.active && s->pending.req.op == CTL_QP_MODIFY && s->pending.req.qp_modify.handle == qp->obj.handle)
		snprintf(out->note, sizeof(out->note), "no ARP or ND answer from %s yet, asked for since %lu ms",
			 path_pending_text(&s->pending, addr),
			 (unsigned long)((control_now_ns() - s->pending.since_ns) / 1000000));
	else if (qp->note != NULL)
		strlcpy(out->note, qp->note, sizeof(out->note));
}

/** Fill @p out for those of @p r that belong to one engine. */
static void
look_at(struct control *c, unsigned int engine, const struct inspect_refs *r, struct inspect_qp *out, uint32_t n)
{
	struct look l = { 0 };

	for (uint32_t i = 0; i < n; i++) {
		const struct obj_qp *qp = r->ref[i].obj;

		if (qp->engine == engine) {
			l.qp[l.n] = qp->qp;
			l.view[l.n++] = &out[i].v;
		}
		if (l.n == LOOK_BURST || (l.n > 0 && i == n - 1)) {
			engine_call(c->s.engines[engine], look_on_engine, &l);
			l.n = 0;
		}
	}
}

/** Filter by the peer's QP number, which only the engines know. */
static uint32_t
keep_fitting(const struct inspect_filter *f, struct inspect_qp *out, uint32_t n)
{
	uint32_t kept = 0;

	if (f->dest_qpn == 0)
		return n;
	for (uint32_t i = 0; i < n; i++)
		if (out[i].v.dest_qpn == f->dest_qpn)
			out[kept++] = out[i];
	return kept;
}

uint32_t
inspect_qps(struct control *c, const struct inspect_filter *f, struct inspect_qp *out, uint32_t max)
{
	struct inspect_refs r;
	uint32_t n;

	control_lock(c);
	inspect_find(c, INSPECT_QP, f, max, &r);
	n = r.n;
	for (unsigned int e = 0; e < c->s.nb_engines; e++)
		look_at(c, e, &r, out, n);
	for (uint32_t i = 0; i < n; i++)
		add_owner(c, r.ref[i].session, r.ref[i].obj, &out[i]);
	control_unlock(c);
	free(r.ref);
	return keep_fitting(f, out, n);
}

int
inspect_qp(struct control *c, uint32_t qpn, struct inspect_qp *out)
{
	struct look l = { .n = 1, .view = { &out->v } };
	struct session *s;
	struct obj_qp *qp;

	memset(out, 0, sizeof(*out));
	control_lock(c);
	qp = inspect_find_one(c, INSPECT_QP, qpn, &s);
	if (qp != NULL) {
		l.qp[0] = qp->qp;
		engine_call(c->s.engines[qp->engine], look_on_engine, &l);
		add_owner(c, s, qp, out);
	}
	control_unlock(c);
	return qp != NULL ? 0 : ENOENT;
}

const char *
inspect_explain(const struct inspect_qp *qp, char *text)
{
	char rest[DIAG_TEXT_BYTES];

	qp_explain(&qp->v, rest);
	if (qp->note[0] == '\0')
		return strcpy(text, rest);
	/* The note, like all other sentences, is shorter than DIAG_LINE_BYTES. */
	snprintf(text, INSPECT_TEXT_BYTES, "%.*s%s%s", DIAG_LINE_BYTES - 1, qp->note, rest[0] != '\0' ? "\n" : "", rest);
	return text;
}

struct events_args {
	uint32_t qpn, max, n;
	struct qp_event *out;
	uint64_t now_ns;
};

static int
events_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct events_args *a = arg;

	a->n = qp_events(engine_transport(e), a->qpn, a->out, a->max);
	a->now_ns = now_ns;
	return 0;
}

uint32_t
inspect_qp_events(struct control *c, uint32_t qpn, struct qp_event *out, uint32_t max, uint64_t *now_ns)
{
	struct events_args a = { .qpn = qpn, .max = max, .out = out };

	control_lock(c);
	/* All events of a QP are on one engine, even when the QP is destroyed. */
	for (unsigned int e = 0; e < c->s.nb_engines && a.n == 0; e++)
		engine_call(c->s.engines[e], events_on_engine, &a);
	control_unlock(c);
	*now_ns = a.now_ns;
	return a.n;
}
