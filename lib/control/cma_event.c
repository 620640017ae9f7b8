/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of ids on their way to the program: into its pipe, in order, none lost. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cma.h"

/** @return false: no room now. A program that has closed its end loses them, and its session soon after. */
static bool
put(struct cma_session *cs, const struct ctl_cm_event *ev)
{
	return write(cs->pipe.fd, ev, sizeof(*ev)) == (ssize_t)sizeof(*ev) || errno != EAGAIN;
}

static void
watch(struct cma_session *cs, bool on)
{
	if (on == cs->watching)
		return;
	if (on)
		control_watch(cs->session->control, &cs->pipe, EPOLLOUT);
	else
		control_unwatch(cs->session->control, &cs->pipe);
	cs->watching = on;
}

static void
drop_first(struct cma_session *cs)
{
	struct cma_queued *q = STAILQ_FIRST(&cs->queue);

	STAILQ_REMOVE_HEAD(&cs->queue, link);
	cs->nb_queued--;
	free(q);
}

static void
on_room(struct watch *w, uint32_t events)
{
	struct cma_session *cs = (void *)((char *)w - offsetof(struct cma_session, pipe));

	while (!STAILQ_EMPTY(&cs->queue) && put(cs, &STAILQ_FIRST(&cs->queue)->event))
		drop_first(cs);
	watch(cs, !STAILQ_EMPTY(&cs->queue));
}

void
cma_event_send(struct session *s, const struct ctl_cm_event *ev)
{
	struct cma_session *cs = s->cma;
	struct cma_queued *q;

	if (s->closing || (STAILQ_EMPTY(&cs->queue) && put(cs, ev)))
		return;
	q = malloc(sizeof(*q));
	if (q == NULL) {
		session_close(s, "no memory for its connection events");
		return;
	}
	q->event = *ev;
	STAILQ_INSERT_TAIL(&cs->queue, q, link);
	cs->nb_queued++;
	watch(cs, true);
}

void
cma_event(struct cma_id *id, enum ctl_cm_event_type type, int32_t status)
{
	struct ctl_cm_event ev = { .id = id->obj.handle, .type = type, .status = status };

	cma_event_send(id->session, &ev);
}

void
cma_event_purge(struct session *s, uint32_t handle)
{
	struct cma_session *cs = s->cma;
	struct cma_queued *q, *next;

	for (q = STAILQ_FIRST(&cs->queue); q != NULL; q = next) {
		next = STAILQ_NEXT(q, link);
		if (q->event.id != handle)
			continue;
		STAILQ_REMOVE(&cs->queue, q, cma_queued, link);
		cs->nb_queued--;
		free(q);
	}
}

bool
cma_event_room(const struct session *s)
{
	return s->cma->nb_queued < CTL_CM_MAX_QUEUED;
}

int
op_cm_open(struct session *s, struct request *r)
{
	struct cma_session *cs;
	int rc;

	if (s->cma != NULL)
		return req_fail(r, EINVAL, "this session has an event channel already");
	cs = calloc(1, sizeof(*cs));
	if (cs == NULL)
		return req_fail(r, ENOMEM, "no memory for the event channel");
	rc = take_event_pipe(r, &cs->pipe.fd);
	if (rc != 0 || getentropy(&cs->token, sizeof(cs->token)) != 0) {
		free(cs);
		return req_fail(r, rc != 0 ? rc : EIO,
				"the descriptor must be the write end of a pipe, O_NONBLOCK, that uroced may open");
	}
	cs->pipe.fn = on_room;
	cs->session = s;
	STAILQ_INIT(&cs->queue);
	s->cma = cs;
	r->rsp.cm_open.token = cs->token;
	return 0;
}

void
cma_session_end(struct session *s)
{
	struct cma_session *cs = s->cma;
	struct cma_id *id;
	uint32_t pos;

	if (cs == NULL)
		return;
	for (pos = 0; (id = handles_next(&s->tab[OBJ_CM_ID], &pos)) != NULL;)
		cma_id_free(id);
	watch(cs, false);
	while (!STAILQ_EMPTY(&cs->queue))
		drop_first(cs);
	close(cs->pipe.fd);
	free(cs);
	s->cma = NULL;
}
