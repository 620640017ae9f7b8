/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon that goes. */
#include <stdio.h>
#include <sys/epoll.h>

#include "control/cma/cma_priv.h"
#include "control/handover_priv.h"
#include "control/loop_priv.h"
#include "control/memory/shm_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_device_priv.h"
#include "control/obj/obj_mr_priv.h"
#include "control/obj/obj_path_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_srq_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "control/observe/capture.h"
#include "control/observe/exporter_priv.h"
#include "control/observe/stall_priv.h"
#include "control/observe/telemetry_priv.h"
#include "control/observe/telemetry_socket_priv.h"
#include "transport/record/record.h"

const struct handover_kind handover_kinds[HANDOVER_KINDS] = {
	{ OBJ_PD, obj_pd_save, obj_pd_restore },
	{ OBJ_CHANNEL, obj_channel_save, obj_channel_restore },
	{ OBJ_DM, obj_dm_save, obj_dm_restore },
	{ OBJ_MR, obj_mr_save, obj_mr_restore },
	{ OBJ_MW, obj_mw_save, obj_mw_restore },
	{ OBJ_CQ, obj_cq_save, obj_cq_restore },
	{ OBJ_XRCD, obj_xrcd_save, obj_xrcd_restore },
	{ OBJ_SRQ, obj_srq_save, obj_srq_restore },
	{ OBJ_AH, obj_ah_save, obj_ah_restore },
	{ OBJ_QP, obj_qp_save, obj_qp_restore },
	{ OBJ_QP, obj_xrc_opening_save, obj_xrc_openings_restore },
};

static saved_write_fn write_stack, write_session, write_segs, write_segment, write_answer;

const struct saved_kind saved_kinds[SAVED_KINDS] = {
	{ SAVED_STACK, write_stack },
	{ SAVED_SESSION, write_session },
	{ SAVED_MR_SEGS, write_segs },
	{ SAVED_SEGMENT, write_segment },
	{ SAVED_ANSWER, write_answer },
	{ OBJ_PD, obj_pd_save },
	{ OBJ_CHANNEL, obj_channel_save },
	{ OBJ_DM, obj_dm_save },
	{ OBJ_MR, obj_mr_save },
	{ OBJ_MW, obj_mw_save },
	{ OBJ_CQ, obj_cq_save },
	{ OBJ_XRCD, obj_xrcd_save },
	{ OBJ_SRQ, obj_srq_save },
	{ OBJ_AH, obj_ah_save },
	{ OBJ_QP, obj_qp_save },
	{ OBJ_QP, obj_xrc_opening_save },
	{ SAVED_CM_CHANNEL, cma_channel_save },
	{ OBJ_CM_ID, cma_listener_save },
	{ OBJ_CM_ID, cma_id_save },
	{ SAVED_CM_EVENT, cma_event_save },
	{ SAVED_XRC_TARGET, xrc_target_save },
};

void
control_hold(struct control *c, bool hold)
{
	struct session *s, *next;

	control_lock(c);
	if ((c->held_ns != 0) != hold) {
		c->held_ns = hold ? control_now_ns() : 0;
		if (c->listen.fd >= 0 && hold)
			control_unwatch(c, &c->listen);
		else if (c->listen.fd >= 0)
			control_watch(c, &c->listen, EPOLLIN);
		for (s = TAILQ_FIRST(&c->sessions); s != NULL; s = next) {
			next = TAILQ_NEXT(s, link);
			session_pause(s, hold || !session_is_settled(s));
			if (!hold && s->asks_handover)
				session_close(s, NULL);
		}
	}
	control_unlock(c);
}

bool
control_is_settled(const struct control *c)
{
	const struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (!session_is_settled(s))
			return false;
	return TAILQ_EMPTY(&c->closed);
}

/** @return true: it has imported PDs. */
static bool
has_imports(const struct session *s)
{
	const struct obj_pd *pd;

	for (uint32_t pos = 0; (pd = handles_next(&s->tab[OBJ_PD], &pos)) != NULL;)
		if (pd->imported)
			return true;
	return false;
}

/** @return why the session can't be handed over, or NULL. */
static const char *
obstacle(const struct session *s)
{
	if (s->own)
		return "it is one of this process";
	if (!session_is_settled(s))
		return "a new daemon takes over, and a request of it doesn't end";
	if (has_imports(s))
		return "a new daemon takes over, and can't go on with the PDs that it has imported";
	return NULL;
}

bool
control_has_own(struct control *c)
{
	const struct session *s;
	bool own = false;

	control_lock(c);
	TAILQ_FOREACH(s, &c->sessions, link)
		own |= s->own;
	control_unlock(c);
	return own;
}

uint32_t
control_end_unsaved(struct control *c)
{
	struct session *s, *next;
	uint32_t n = 0;

	control_lock(c);
	for (s = TAILQ_FIRST(&c->sessions); s != NULL; s = next) {
		const char *why = obstacle(s);

		next = TAILQ_NEXT(s, link);
		if (why == NULL || s->asks_handover)
			continue;
		session_close(s, why);
		n++;
	}
	sessions_reap(c, true);
	control_unlock(c);
	return n;
}

void
control_leave(struct control *c)
{
	stalls_stop(c->stalls);
	telemetry_socket_stop(c->telemetry);
	telemetry_stop(c);
	exporter_stop(c->exporter);
	control_capture_stop(c, &(struct capture_stats){ 0 });
}

static void
put_stack(const struct control *c, struct stream_out *o)
{
	struct stack_record r = {
		.next_session = c->next_session,
		.next_cq = c->next_cq,
		.held_ns = c->held_ns,
		.daemons = c->taken_over.daemons + 1,
		.crashes = c->taken_over.crashes,
		.nb_engines = c->s.nb_engines,
		.nb_cpus = c->s.nb_cpus,
		.nb_ports = c->s.nb_ports,
		.listen = stream_put_fd(o, c->listen.fd),
	};

	snprintf(r.socket, sizeof(r.socket), "%s", c->s.conf->socket);
	for (uint16_t i = 0; i < c->s.nb_ports; i++)
		snprintf(r.ports[i], sizeof(r.ports[i]), "%s", c->s.ports[i]->conf.name);
	stream_put(o, RECORD_STACK, &r, sizeof(r), NULL, 0);
}

static int
write_stack(struct session *s, void *what, struct stream_out *o)
{
	const struct control *c = what;
	struct journals_record r = { .nb = c->s.nb_engines };

	put_stack(c, o);
	for (uint32_t i = 0; c->s.journals != NULL && i < r.nb; i++)
		r.fds[i] = stream_put_fd(o, c->s.journals[i]);
	if (c->s.journals == NULL)
		return 0;
	r.windows = stream_put_fd(o, c->s.windows);
	stream_put(o, RECORD_JOURNALS, &r, sizeof(r), NULL, 0);
	return 0;
}

static void
save_stack(const struct control *c, struct stream_out *o)
{
	put_stack(c, o);
	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		struct transport_record *to = stream_reserve(o, sizeof(*to));

		if (to != NULL)
			transport_save(engine_transport(c->s.engines[i]), to);
	}
}

/** Asynchronous events that wait for room, in their order. */
static void
save_events(const struct session *s, struct stream_out *o)
{
	const struct async_events *a = &s->async;
	struct record_head head = { 0 };
	struct ctl_async_event *list = a->nb > 0 ? calloc(a->nb, sizeof(*list)) : NULL;

	for (uint32_t i = 0; i < a->nb && list != NULL; i++)
		list[i] = a->waiting[(a->first + i) % ASYNC_WAITING];
	o->failed |= a->nb > 0 && list == NULL;
	if (list != NULL)
		stream_put(o, RECORD_EVENTS, &head, sizeof(head), list, a->nb * sizeof(*list));
	free(list);
}

static void
put_segment(const struct shm_segment *seg, struct stream_out *o)
{
	const struct segment_record r = { .bytes = seg->bytes, .number = seg->number, .huge = seg->huge, .fd = stream_put_fd(o, seg->fd) };

	stream_put(o, RECORD_SEGMENT, &r, sizeof(r), NULL, 0);
}

static void
put_segs(const struct session *s, uint32_t first, struct stream_out *o)
{
	struct record_head head = { 0 };

	if (first < s->nb_segs)
		stream_put(o, RECORD_MR_SEGS, &head, sizeof(head), s->segs + first, (s->nb_segs - first) * sizeof(*s->segs));
}

static void
put_session(struct session *s, struct stream_out *o)
{
	struct device_parts parts;
	struct session_record r;

	device_look(s, &parts);
	r = (struct session_record){
		.id = s->id,
		.pid = s->pid,
		.uid = s->uid,
		.hello = s->hello,
		.port = s->port != NULL ? s->port->index : HANDOVER_NO_PORT,
		.sock = stream_put_fd(o, s->sock.fd),
		.proc = stream_put_fd(o, s->proc_fd),
		.maps = stream_put_fd(o, s->maps_fd),
		.memory = stream_put_fd(o, s->owner.mem_fd),
		.doorbells = stream_put_fd(o, parts.doorbells),
		.converted = stream_put_fd(o, parts.memory),
		.events = stream_put_fd(o, parts.events),
	};
	for (unsigned int i = 0; i < CTL_MAX_KICKS; i++)
		r.kicks[i] = stream_put_fd(o, parts.kicks[i]);
	memcpy(r.program, s->program, sizeof(r.program));
	stream_put(o, RECORD_SESSION, &r, sizeof(r), NULL, 0);
	save_events(s, o);
}

static int
save_objects(struct session *s, const struct handover_kind *k, struct stream_out *o)
{
	void *obj;
	int rc = 0;

	for (uint32_t pos = 0; rc == 0 && (obj = handles_next(&s->tab[k->type], &pos)) != NULL;)
		rc = k->save(s, obj, o);
	return rc;
}

static int
save_session(struct session *s, struct stream_out *o)
{
	struct shm_segment seg;
	uint32_t pos = 0;
	int rc = 0;

	put_session(s, o);
	put_segs(s, 0, o);
	while (s->shm != NULL && shm_segment_look(s->shm, &pos, &seg))
		put_segment(&seg, o);
	for (unsigned int i = 0; i < HANDOVER_KINDS && rc == 0; i++)
		rc = save_objects(s, &handover_kinds[i], o);
	return rc == 0 ? cma_save(s, o) : rc;
}

/* ---- For the checkpoint ---- */
static int
write_session(struct session *s, void *what, struct stream_out *o)
{
	put_session(s, o);
	return 0;
}

static int
write_segs(struct session *s, void *what, struct stream_out *o)
{
	put_segs(s, (uint32_t)(uintptr_t)what, o);
	return 0;
}

static int
write_segment(struct session *s, void *what, struct stream_out *o)
{
	uint32_t pos = (uint32_t)(uintptr_t)what;
	struct shm_segment seg;

	if (shm_segment_look(s->shm, &pos, &seg))
		put_segment(&seg, o);
	return 0;
}

static int
write_answer(struct session *s, void *what, struct stream_out *o)
{
	const struct session_answer *a = &s->answer;
	struct answer_record r = { .rsp = a->rsp };

	for (uint32_t i = 0; i < a->rsp.nb_fds; i++)
		r.fds[i] = stream_put_fd(o, a->fds[i]);
	stream_put(o, RECORD_ANSWER, &r, sizeof(r), NULL, 0);
	return 0;
}

int
control_save(struct control *c, struct stream_out *o, struct handover_counts *n)
{
	struct session *s;
	int rc = 0;

	control_lock(c);
	save_stack(c, o);
	TAILQ_FOREACH(s, &c->sessions, link) {
		if (s->asks_handover)
			continue;
		rc = save_session(s, o);
		if (rc != 0)
			break;
		n->sessions++;
		n->qps += s->tab[OBJ_QP].used;
	}
	if (rc == 0)
		rc = xrc_targets_save(c, o);
	control_unlock(c);
	return rc == 0 && o->failed ? ENOMEM : rc;
}
