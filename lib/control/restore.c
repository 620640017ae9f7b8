/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon that comes. */
#include <stdio.h>
#include <unistd.h>

#include "control/cma/cma_priv.h"
#include "control/core/closer_priv.h"
#include "control/core/quota_priv.h"
#include "control/handover_priv.h"
#include "control/loop_priv.h"
#include "control/memory/shm_priv.h"
#include "control/obj/obj_device_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "transport/record/record.h"

/** @return the record of a stack like this one, NULL with a message. */
static const struct stack_record *
next_stack(struct stream_in *in, const struct uroced_config *conf, unsigned int nb_engines, unsigned int nb_cpus, char *err)
{
	const struct stack_record *r = stream_next(in, RECORD_STACK, sizeof(*r));

	if (r == NULL) {
		config_fail(err, EINVAL, "%s: the running daemon has sent no record of it, or one of another version", conf->socket);
		return NULL;
	}
	if (strncmp(r->socket, conf->socket, sizeof(r->socket)) != 0) {
		config_fail(err, EINVAL, "the running daemon's socket is %.*s, this one's %s: give the same configuration", CONFIG_SOCKET_BYTES,
			    r->socket, conf->socket);
		return NULL;
	}
	if (r->nb_engines != nb_engines || r->nb_cpus != nb_cpus) {
		config_fail(err, EINVAL, "%s: the running daemon has %u engines and %u CPUs that share one, this one %u and %u: give the same cores",
			    conf->socket, r->nb_engines, r->nb_cpus, nb_engines, nb_cpus);
		return NULL;
	}
	if (r->nb_ports != conf->nb_ports) {
		config_fail(err, EINVAL, "%s: the running daemon has %u ports, this one %u: give the same", conf->socket, r->nb_ports, conf->nb_ports);
		return NULL;
	}
	for (uint16_t i = 0; i < conf->nb_ports; i++)
		if (strncmp(r->ports[i], conf->ports[i].net.name, sizeof(r->ports[i])) != 0) {
			config_fail(err, EINVAL, "%s: port %u of the running daemon is %.*s, of this one %s: give the same in the same order",
				    conf->socket, i, CTL_NAME_BYTES, r->ports[i], conf->ports[i].net.name);
			return NULL;
		}
	return r;
}

/** Pass over records, up to the next session, XRC target or stack. */
static void
pass_objects(struct stream_in *in)
{
	uint32_t room;
	uint16_t kind;

	while ((kind = stream_kind(in)) != 0 && kind != RECORD_SESSION && kind != RECORD_XRC_TARGET && kind != RECORD_STACK && kind != RECORD_END)
		if (stream_foreign(in, &room) == NULL)
			in->at = in->n;
}

int
handover_check(struct stream_in *in, const struct uroced_config *conf, unsigned int nb_engines, unsigned int nb_cpus, char *err)
{
	if (next_stack(in, conf, nb_engines, nb_cpus, err) == NULL)
		return EINVAL;
	pass_objects(in);
	while (stream_next(in, RECORD_SESSION, sizeof(struct session_record)) != NULL)
		pass_objects(in);
	while (stream_next(in, RECORD_XRC_TARGET, sizeof(struct record_head)) != NULL)
		pass_objects(in);
	if (stream_kind(in) != RECORD_STACK && stream_kind(in) != RECORD_END)
		return config_fail(err, EINVAL, "%s: the running daemon has sent damaged records, or such of another version", conf->socket);
	return 0;
}

int
handover_listen_fd(struct stream_in *in)
{
	size_t at = in->at;
	const struct stack_record *r = stream_next(in, RECORD_STACK, sizeof(*r));

	in->at = at;
	return r != NULL ? stream_take_fd(in, r->listen) : -1;
}

static int
restore_segments(struct session *s, struct stream_in *in, struct request *r)
{
	const struct segment_record *from;
	int rc = 0;

	while (rc == 0 && (from = stream_next(in, RECORD_SEGMENT, sizeof(*from))) != NULL) {
		const struct shm_segment seg = { .number = from->number, .huge = from->huge != 0, .bytes = from->bytes,
						 .fd = stream_take_fd(in, from->fd) };

		rc = s->shm != NULL ? shm_segment_take(s->shm, &seg) : EINVAL;
		if (rc == 0) {
			quota_charge(s, QUOTA_fd, 1);
			saved_new(s->control, &s->saved, SAVED_SEGMENT, (void *)(uintptr_t)seg.number);
			continue;
		}
		if (seg.fd >= 0)
			close(seg.fd);
		req_fail(r, rc, "segment %u of its queues can't be mapped: %s", from->number, strerror(rc));
	}
	return rc;
}

/** What the session was in the middle of: events that waited for room, segments of an MR that it was registering. */
static int
restore_waiting(struct session *s, struct stream_in *in, struct request *r)
{
	const struct record_head *head = stream_next(in, RECORD_EVENTS, sizeof(*head));
	const struct ctl_async_event *ev = (const void *)(head + 1);
	size_t n;

	for (n = head != NULL ? stream_tail(head, sizeof(*head)) / sizeof(*ev) : 0; n > 0 && s->async.sock.fd >= 0; n--)
		s->async.lost += !async_keep(s, ev++);
	while ((head = stream_next(in, RECORD_MR_SEGS, sizeof(*head))) != NULL) {
		const size_t bytes = sizeof(*s->segs);
		struct ctl_seg *segs;

		n = stream_tail(head, sizeof(*head)) / bytes;
		segs = n <= UROCE_MAX_MR_SEGS - s->nb_segs ? reallocarray(s->segs, s->nb_segs + n + 1, bytes) : NULL;
		if (segs == NULL)
			return req_fail(r, ENOMEM, "no memory for %zu segments of an MR", n);
		memcpy(segs + s->nb_segs, head + 1, n * bytes);
		s->segs = segs;
		s->nb_segs += (uint32_t)n;
		quota_charge(s, QUOTA_metadata, n * bytes);
	}
	if (s->nb_segs > 0)
		saved_new(s->control, &s->saved, SAVED_MR_SEGS, NULL);
	return 0;
}

/** After a crash: the answer to the last request that changed something, which may be in the socket. */
static void
restore_answer(struct session *s, struct stream_in *in)
{
	const struct answer_record *from = stream_next(in, RECORD_ANSWER, sizeof(*from));
	struct session_answer *a = &s->answer;

	if (from == NULL || from->rsp.nb_fds > CTL_MAX_FDS)
		return;
	a->rsp = from->rsp;
	a->restored = true;
	for (uint32_t i = 0; i < a->rsp.nb_fds; i++)
		a->fds[i] = stream_take_fd(in, from->fds[i]);
	a->saved = saved_new(s->control, &s->saved, SAVED_ANSWER, s);
}

/** Fill in what a session was. @return 0 or an errno value, with @p r failed. */
static int
fill(struct session *s, const struct session_record *from, struct stream_in *in, struct request *r)
{
	struct device_parts parts = { .doorbells = stream_take_fd(in, from->doorbells), .memory = stream_take_fd(in, from->converted),
				      .events = stream_take_fd(in, from->events) };
	int memory = stream_take_fd(in, from->memory), rc;

	for (unsigned int i = 0; i < CTL_MAX_KICKS; i++)
		parts.kicks[i] = stream_take_fd(in, from->kicks[i]);
	/* The process may have gone, and its number be another's. */
	if (s->proc_fd >= 0)
		close(s->proc_fd);
	s->proc_fd = stream_take_fd(in, from->proc);
	s->maps_fd = stream_take_fd(in, from->maps);
	s->id = from->id;
	/* After a crash it isn't in the record of the stack. */
	s->control->next_session = RTE_MAX(s->control->next_session, s->id);
	memcpy(s->program, from->program, sizeof(s->program));
	s->program[sizeof(s->program) - 1] = '\0';
	if (from->hello)
		session_greeted(s);
	rc = quota_session(s, r);
	if (rc == 0)
		rc = memory_restore(s, memory, r);
	else if (memory >= 0)
		close(memory);
	if (rc == 0 && from->port != HANDOVER_NO_PORT)
		rc = from->port < s->control->s.nb_ports ? device_restore(s, s->control->s.ports[from->port], &parts, r) :
							   req_fail(r, EINVAL, "it has port %u", from->port);
	if (rc == 0)
		rc = restore_waiting(s, in, r);
	if (rc == 0)
		rc = restore_segments(s, in, r);
	restore_answer(s, in);
	for (unsigned int i = 0; i < HANDOVER_KINDS && rc == 0; i++)
		rc = handover_kinds[i].restore(s, in, r);
	if (rc == 0)
		rc = cma_restore(s, in, r);
	return rc;
}

static void
restore_session(struct control *c, const struct session_record *from, struct stream_in *in, struct handover_counts *n)
{
	int fd = stream_take_fd(in, from->sock), rc;
	struct session *s = fd >= 0 ? session_new(c, fd, false) : NULL;
	struct request r = { 0 };
	char why[320];

	if (s == NULL) {
		CTL_LOG(ERR, "session of %.*s (pid %d) is lost: it has no socket, or there is no memory", CTL_NAME_BYTES, from->program,
			(int)from->pid);
		if (fd >= 0)
			closer_close_socket(fd, from->uid);
		n->refused++;
		return;
	}
	rc = fill(s, from, in, &r);
	if (rc == 0)
		rc = dispatch_resume(s);
	if (rc == 0) {
		n->sessions++;
		n->qps += s->tab[OBJ_QP].used;
		return;
	}
	snprintf(why, sizeof(why), "it can't be taken over: %s", r.message[0] != '\0' ? r.message : strerror(rc));
	session_close(s, why);
	n->refused++;
}

static int
restore_transports(struct control *c, struct stream_in *in, char *err)
{
	const struct transport_record *from;
	const char *why = "it is missing";
	uint32_t room = 0;

	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		from = stream_kind(in) == RECORD_TRANSPORT ? stream_foreign(in, &room) : NULL;
		/* Counters that can't be read begin anew: no reason to end programs. */
		if (from == NULL || transport_restore(engine_transport(c->s.engines[i]), from, room, &why) != 0)
			CTL_LOG(WARNING, "the counters of engine %u begin anew: %s", i, why);
	}
	return 0;
}

int
control_restore(struct control *c, struct stream_in *in, struct handover_counts *n, char *err)
{
	const struct session_record *from;
	const struct stack_record *stack;
	int rc = 0;

	control_lock(c);
	stack = next_stack(in, c->s.conf, c->s.nb_engines, c->s.nb_cpus, err);
	if (stack == NULL)
		rc = EINVAL;
	else if (c->s.crashed_ns != 0)
		journals_begin(c, stream_next(in, RECORD_JOURNALS, sizeof(struct journals_record)), in);
	else
		rc = restore_transports(c, in, err);
	while (rc == 0 && (from = stream_next(in, RECORD_SESSION, sizeof(*from))) != NULL) {
		restore_session(c, from, in, n);
		pass_objects(in);
	}
	if (rc == 0)
		xrc_targets_restore(c, in, n);
	journals_end(c);
	if (stack != NULL) {
		c->taken_over = (struct taken_over){
			.daemons = stack->daemons,
			.crashes = stack->crashes + (c->s.crashed_ns != 0),
			.qps_lost = c->taken_over.qps_lost,
			.sessions = n->sessions,
			.qps = n->qps,
			.refused = n->refused,
			.held_ns = RTE_MIN(c->s.crashed_ns != 0 ? c->s.crashed_ns : stack->held_ns, control_now_ns()),
		};
		c->next_session = RTE_MAX(c->next_session, stack->next_session);
		c->next_cq = RTE_MAX(c->next_cq, stack->next_cq);
	}
	sessions_reap(c, true);
	/* Engines don't run yet. From here on this daemon's records and journals count: what is done from now on must not be forgotten. */
	if (rc == 0)
		saving_turn(c);
	control_unlock(c);
	return rc;
}
