/* SPDX-License-Identifier: BSD-3-Clause */
/* The current state of sessions, CQs, MRs and engines, and lists of objects. */
#include <arpa/inet.h>
#include <stdio.h>

#include <bsd/string.h>

#include "control/cma/cma_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_mr_priv.h"
#include "control/obj/obj_path_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "control/observe/inspect_priv.h"
#include "control/observe/stall_priv.h"

/* ---- Lists of objects ---- */
static const enum obj_type type_of[INSPECT_KINDS] = {
	[INSPECT_QP] = OBJ_QP, [INSPECT_CQ] = OBJ_CQ, [INSPECT_MR] = OBJ_MR,
	[INSPECT_PD] = OBJ_PD, [INSPECT_SRQ] = OBJ_SRQ, [INSPECT_CM_ID] = OBJ_CM_ID,
};

static uint64_t
number_of(enum inspect_kind kind, const struct session *s, const void *obj)
{
	switch (kind) {
	case INSPECT_QP:
		return ((const struct obj_qp *)obj)->qpn;
	case INSPECT_CQ:
		return ((const struct obj_cq *)obj)->number;
	case INSPECT_PD:
		return ((const struct obj_pd *)obj)->id;
	case INSPECT_MR:
		return ((const struct obj_mr *)obj)->mr->key;
	default:
		return s->id << 32 | ((const struct obj *)obj)->handle; /* the first member of all objects */
	}
}

static bool
session_fits(const struct session *s, const struct inspect_filter *f)
{
	if (f->session != 0 && s->id != f->session)
		return false;
	if (f->port >= 0 && (s->port == NULL || s->port->index != f->port))
		return false;
	return f->program == NULL || strcmp(s->program, f->program) == 0;
}

/** @return true if the QP matches. Its state is read without asking its engine, and may change a moment later. */
static bool
qp_fits(const struct obj_qp *qp, const struct inspect_filter *f)
{
	if (f->type >= 0 && (int)qp->type != f->type)
		return false;
	return f->state < 0 || (int)qp_state(qp->qp) == f->state;
}

static bool
add_ref(struct inspect_refs *r, uint64_t number, struct session *s, void *obj)
{
	struct inspect_ref *more;

	if (r->n == r->room) {
		r->room = r->room == 0 ? 64 : 2 * r->room;
		more = reallocarray(r->ref, r->room, sizeof(*r->ref));
		if (more == NULL) {
			r->room = r->n;
			return false;
		}
		r->ref = more;
	}
	r->ref[r->n++] = (struct inspect_ref){ number, s, obj };
	return true;
}

static int
by_number(const void *a, const void *b)
{
	uint64_t x = ((const struct inspect_ref *)a)->number, y = ((const struct inspect_ref *)b)->number;

	return x < y ? -1 : x > y;
}

/** An XRC target is listed by each session that has it open: true for all but the first that matches. */
static bool
is_listed(const struct obj_qp *qp, const struct inspect_filter *f)
{
	const struct obj_qp *o;

	if (qp->target == NULL)
		return false;
	LIST_FOREACH(o, &qp->target->openings, opening) {
		if (o == qp)
			return false;
		if (session_fits(o->session, f) && qp_fits(o, f))
			return true;
	}
	return false;
}

/** Move the @p most smallest to the front, in any order (Hoare's selection). @p most is less than @p n. */
static void
select_first(struct inspect_ref *ref, uint32_t n, uint32_t most)
{
	uint32_t low = 0, high = n;

	while (high - low > 1) {
		uint64_t pivot = ref[low + (high - low) / 2].number;
		uint32_t below = low, at = low, above = high;

		while (at < above) {
			struct inspect_ref r = ref[at];

			if (r.number < pivot) {
				ref[at++] = ref[below];
				ref[below++] = r;
			} else if (r.number > pivot) {
				ref[at] = ref[--above];
				ref[above] = r;
			} else {
				at++;
			}
		}
		if (most < below)
			high = below;
		else if (most > above)
			low = above;
		else
			return;
	}
}

void
inspect_find(struct control *c, enum inspect_kind kind, const struct inspect_filter *f, uint32_t most, struct inspect_refs *r)
{
	struct session *s;
	uint32_t pos;
	uint64_t number;
	void *obj;

	*r = (struct inspect_refs){ 0 };
	TAILQ_FOREACH(s, &c->sessions, link) {
		if (!session_fits(s, f))
			continue;
		if (kind == INSPECT_SESSION) {
			if (s->id >= f->from && !add_ref(r, s->id, s, s))
				break;
			continue;
		}
		for (pos = 0; (obj = handles_next(&s->tab[type_of[kind]], &pos)) != NULL;) {
			number = number_of(kind, s, obj);
			if (number < f->from || (kind == INSPECT_QP && !qp_fits(obj, f)))
				continue;
			if (kind == INSPECT_QP && is_listed(obj, f))
				continue;
			if (!add_ref(r, number, s, obj))
				break;
		}
	}
	r->all = r->n;
	if (r->n > most) {
		select_first(r->ref, r->n, most);
		r->n = most;
	}
	if (r->n > 0)
		qsort(r->ref, r->n, sizeof(r->ref[0]), by_number);
}

uint32_t
inspect_list(struct control *c, enum inspect_kind kind, const struct inspect_filter *f, uint64_t *numbers, uint32_t max)
{
	struct inspect_refs r;

	control_lock(c);
	inspect_find(c, kind, f, max, &r);
	control_unlock(c);
	for (uint32_t i = 0; i < r.n; i++)
		numbers[i] = r.ref[i].number;
	free(r.ref);
	return r.all;
}

void *
inspect_find_one(struct control *c, enum inspect_kind kind, uint64_t number, struct session **owner)
{
	struct session *s;
	void *obj;

	TAILQ_FOREACH(s, &c->sessions, link) {
		for (uint32_t pos = 0; (obj = handles_next(&s->tab[type_of[kind]], &pos)) != NULL;) {
			if (number_of(kind, s, obj) != number)
				continue;
			*owner = s;
			return obj;
		}
	}
	return NULL;
}

/* ---- One object ---- */
/** Sum up the session's shares of all engines. */
static void
look_at_shares(struct session *s, struct inspect_session *out)
{
	struct control *c = s->control;
	struct share_view v, *sum = &out->share;
	uint64_t all = 0;

	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		if (s->engine_sessions[i] == NULL)
			continue;
		all += engine_session_look(c->s.engines[i], s->engine_sessions[i], &v);
		sum->stats.cost += v.stats.cost;
		sum->stats.bytes += v.stats.bytes;
		sum->stats.packets += v.stats.packets;
		sum->stats.rounds += v.stats.rounds;
		sum->stats.limited += v.stats.limited;
		sum->stats.refused += v.stats.refused;
		sum->weight = v.weight;
		sum->qps += v.qps;
		sum->active_qps += v.active_qps;
		sum->inflight_blocks += v.inflight_blocks;
		sum->read_blocks += v.read_blocks;
		sum->reordered += v.reordered;
		sum->wait = RTE_MAX(sum->wait, v.wait);
	}
	if (all > s->all_cost_seen)
		out->share_percent = (uint32_t)((sum->stats.cost - s->cost_seen) * 100 / (all - s->all_cost_seen));
	s->cost_seen = sum->stats.cost;
	s->all_cost_seen = all;
}

int
inspect_session(struct control *c, uint64_t number, struct inspect_session *out)
{
	char addr[INET6_ADDRSTRLEN];
	struct session *s;

	memset(out, 0, sizeof(*out));
	control_lock(c);
	s = session_find(c, number);
	if (s == NULL) {
		control_unlock(c);
		return ENOENT;
	}
	*out = (struct inspect_session){
		.number = s->id,
		.pid = s->pid,
		.uid = s->uid,
		.event_channel = s->cma != NULL,
		.pds = s->tab[OBJ_PD].used,
		.mrs = s->tab[OBJ_MR].used,
		.mws = s->tab[OBJ_MW].used,
		.dms = s->tab[OBJ_DM].used,
		.cqs = s->tab[OBJ_CQ].used,
		.srqs = s->tab[OBJ_SRQ].used,
		.qps = s->tab[OBJ_QP].used,
		.ahs = s->tab[OBJ_AH].used,
		.xrcds = s->tab[OBJ_XRCD].used,
		.cm_ids = s->tab[OBJ_CM_ID].used,
		.ring_bytes = s->shm != NULL ? shm_used(s->shm) : 0,
		.registered_bytes = s->used[QUOTA_memory],
		.maps = (uint32_t)s->used[QUOTA_map],
		.events_lost = s->async.lost,
	};
	look_at_shares(s, out);
	strlcpy(out->program, s->program, sizeof(out->program));
	if (s->port != NULL)
		strlcpy(out->device, s->port->conf.name, sizeof(out->device));
	if (s->pending.active)
		snprintf(out->waits, sizeof(out->waits), "for the MAC address of %s, since %lu ms",
			 path_pending_text(&s->pending, addr),
			 (unsigned long)((control_now_ns() - s->pending.since_ns) / 1000000));
	if (s->question.kind != QUESTION_NONE)
		snprintf(out->waits, sizeof(out->waits), "for the list of its mappings, which it keeps from being read");
	control_unlock(c);
	return 0;
}

int
inspect_cq(struct control *c, uint64_t number, struct inspect_cq *out)
{
	struct session *s;
	struct obj_cq *cq;

	memset(out, 0, sizeof(*out));
	control_lock(c);
	cq = inspect_find_one(c, INSPECT_CQ, number, &s);
	if (cq != NULL) {
		out->number = number;
		out->session = s->id;
		strlcpy(out->program, s->program, sizeof(out->program));
		cq_look(cq->cq, &out->v);
	}
	control_unlock(c);
	return cq != NULL ? 0 : ENOENT;
}

int
inspect_mr(struct control *c, uint32_t key, struct inspect_mr *out)
{
	struct session *s;
	struct obj_mr *o;

	memset(out, 0, sizeof(*out));
	control_lock(c);
	o = inspect_find_one(c, INSPECT_MR, key, &s);
	if (o != NULL) {
		const struct mr *mr = o->mr;
		uint32_t windows = atomic_load_explicit(&mr->nb_windows, memory_order_relaxed);

		*out = (struct inspect_mr){
			.key = key,
			.session = s->id,
			.pd = mr->pd,
			.access = mr->access,
			.addr = mr->addr,
			.iova = mr->iova,
			.length = mr->length,
			.segments = mr->nb_segs,
			.windows = windows != MR_RETIRED ? windows : 0,
		};
		for (uint32_t i = 0; i < mr->nb_segs; i++)
			out->mapped_bytes += mr->segs[i].host != NULL ? mr->segs[i].length : 0;
		strlcpy(out->program, s->program, sizeof(out->program));
	}
	control_unlock(c);
	return o != NULL ? 0 : ENOENT;
}

/* ---- Engines and ports ---- */
void
inspect_net_counters(const struct control *c, unsigned int port, struct net_counters *sum)
{
	*sum = (struct net_counters){ 0 };
	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		const struct net_counters *n = engine_net_counters(c->s.engines[i], (uint16_t)port);

#define NET_X(name) sum->name += counter_read(&n->name);
		NET_COUNTERS(NET_X)
#undef NET_X
	}
}

void
inspect_tick(struct control *c)
{
	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		const struct engine_stats *s = engine_stats(c->s.engines[i]);
		uint64_t busy = counter_read(&s->busy_cycles);
		uint64_t idle = counter_read(&s->idle_cycles);
		struct engine_load *l = &c->load[i];
		uint64_t b = busy - l->busy_cycles, all = b + idle - l->idle_cycles;

		l->percent = all > 0 ? (uint32_t)(100 * b / all) : 0;
		l->busy_cycles = busy;
		l->idle_cycles = idle;
	}
}

static int
look_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct inspect_engine *out = arg;

	out->now_ns = now_ns;
	out->stats = *engine_stats(e);
	out->transport = *transport_counters(engine_transport(e));
	engine_depths(e, &out->depths);
	return 0;
}

int
inspect_engine(struct control *c, unsigned int id, struct inspect_engine *out)
{
	memset(out, 0, sizeof(*out));
	if (id >= c->s.nb_engines)
		return ENOENT;
	out->stalls = stalls_counts(c->stalls).engines[id];
	out->control_stalls = stalls_counts(c->stalls).control;
	control_lock(c);
	out->id = id;
	out->load_percent = c->load[id].percent;
	engine_call(c->s.engines[id], look_on_engine, out);
	control_unlock(c);
	return 0;
}
