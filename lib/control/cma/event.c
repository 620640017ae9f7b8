/* SPDX-License-Identifier: BSD-3-Clause */
/* Events for the program: sent on its socket in order; none is lost while the session exists. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/cma/cma_priv.h"
#include "control/core/quota_priv.h"
#include "base/evsock.h"

/**
 * Send @p k.
 * @return false: no room now. If the program has closed its end, the event is dropped; its session will end soon.
 */
static bool
put(struct cma_session *cs, const struct cma_kept *k)
{
	struct ctl_cm_event ev = { 0 };

	memcpy(&ev, k->event, k->bytes);
	return evsock_send(cs->sock.fd, &ev, sizeof(ev));
}

static void
watch(struct cma_session *cs, bool on)
{
	if (on == cs->watching)
		return;
	if (!on) {
		control_unwatch(cs->session->control, &cs->sock);
	} else if (control_watch(cs->session->control, &cs->sock, EPOLLOUT) != 0) {
		/* Without it the queued events would never be written. */
		session_close(cs->session, "its event socket can't be watched");
		return;
	}
	cs->watching = on;
}

/** Remove @p k from the events of its id. */
static void
detach(struct cma_kept *k)
{
	if (k->id == NULL)
		return;
	TAILQ_REMOVE(&k->id->events, k, id_link);
	if (k->request != NULL)
		k->request->brought_by = NULL;
	k->id = k->request = NULL;
	saved_touch(k->in->session->control, k->saved);
}

/** Add @p k at the end of the sent or of the queued events. */
static void
append(struct cma_kept *k, bool sent)
{
	TAILQ_INSERT_TAIL(sent ? &k->in->sent : &k->in->queue, k, link);
	*(sent ? &k->in->nb_sent : &k->in->nb_queued) += 1;
	k->sent = sent;
	saved_touch(k->in->session->control, k->saved);
}

/** Remove @p k from the sent or queued events. */
static void
take_out(struct cma_kept *k)
{
	TAILQ_REMOVE(k->sent ? &k->in->sent : &k->in->queue, k, link);
	*(k->sent ? &k->in->nb_sent : &k->in->nb_queued) -= 1;
}

static void
drop(struct cma_kept *k)
{
	detach(k);
	take_out(k);
	saved_end(k->in->session->control, &k->saved);
	quota_give(k->in->session, QUOTA_metadata, sizeof(*k) + k->bytes);
	free(k);
}

/** Free the events that the program has read since the last call. */
static void
trim(struct cma_session *cs)
{
	uint32_t unread = (uint32_t)((evsock_unread(cs->sock.fd) + cs->record_cost - 1) / cs->record_cost);

	while (cs->nb_sent > unread)
		drop(TAILQ_FIRST(&cs->sent));
}

static void
on_room(struct watch *w, uint32_t events)
{
	struct cma_session *cs = container_of(w, struct cma_session, sock);
	struct cma_kept *k;

	trim(cs);
	while ((k = TAILQ_FIRST(&cs->queue)) != NULL && put(cs, k)) {
		take_out(k);
		append(k, true);
	}
	watch(cs, k != NULL);
}

/** @return an event that no id has yet, charged to the session; NULL: no memory. */
static struct cma_kept *
keep(struct cma_session *cs, const void *event, uint32_t bytes)
{
	struct cma_kept *k = calloc(1, sizeof(*k) + bytes);

	if (k == NULL)
		return NULL;
	quota_charge(cs->session, QUOTA_metadata, sizeof(*k) + bytes);
	k->in = cs;
	k->bytes = bytes;
	memcpy(k->event, event, bytes);
	k->saved = saved_new(cs->session->control, &cs->session->saved, SAVED_CM_EVENT, k);
	return k;
}

/** Record that @p k is an event of @p id. */
static void
attach(struct cma_kept *k, struct cma_id *id, struct cma_id *request)
{
	k->id = id;
	TAILQ_INSERT_TAIL(&id->events, k, id_link);
	k->request = request;
	if (request != NULL)
		request->brought_by = k;
}

void
cma_event_send(struct cma_id *id, const struct ctl_cm_event *ev, struct cma_id *request)
{
	struct session *s = id->session;
	struct cma_session *cs = s->cma;
	uint32_t bytes = (uint32_t)offsetof(struct ctl_cm_event, private_data) + ev->conn.private_len;
	struct ctl_cm_event numbered = *ev;
	struct cma_kept *k;

	if (s->closing)
		return;
	trim(cs);
	if (++cs->last_event == 0)
		cs->last_event = 1;
	numbered.number = cs->last_event;
	saved_touch(s->control, cs->saved);
	k = keep(cs, &numbered, bytes);
	if (k == NULL) {
		session_close(s, "no memory for its connection events");
		return;
	}
	attach(k, id, request);
	saved_touch(s->control, id->obj.saved);
	if (request != NULL)
		saved_touch(s->control, request->obj.saved);
	append(k, false);
	/* What the program knows must not be forgotten in a crash. */
	saving_flush(s->control);
	if (TAILQ_FIRST(&cs->queue) == k && put(cs, k)) {
		take_out(k);
		append(k, true);
	} else {
		watch(cs, true);
	}
}

int
cma_event_take(struct session *s, struct cma_id *id, struct cma_id *request, bool sent, const void *event, uint32_t bytes)
{
	struct cma_kept *k = keep(s->cma, event, bytes);

	if (k == NULL)
		return ENOMEM;
	if (id != NULL)
		attach(k, id, request);
	append(k, sent);
	if (!sent)
		watch(s->cma, true);
	return 0;
}

void
cma_event(struct cma_id *id, enum ctl_cm_event_type type, int32_t status)
{
	struct ctl_cm_event ev = { .id = id->obj.handle, .type = type, .status = status };

	cma_event_send(id, &ev, NULL);
}

/**
 * Drop an event that is still queued. One that was sent can't be taken back; the client library ignores it, since
 * it finds no id for it.
 */
static void
forget(struct cma_kept *k)
{
	if (k->sent)
		detach(k);
	else
		drop(k);
}

void
cma_event_known(struct cma_id *id)
{
	if (id->brought_by != NULL)
		forget(id->brought_by);
}

void
cma_event_forget(struct cma_id *id)
{
	while (!TAILQ_EMPTY(&id->events))
		forget(TAILQ_FIRST(&id->events));
	cma_event_known(id);
}

uint32_t
cma_event_requests(const struct cma_id *id)
{
	const struct cma_kept *k;
	uint32_t n = 0;

	TAILQ_FOREACH(k, &id->events, id_link)
		n += k->request != NULL;
	return n;
}

static void move_unread(struct cma_id *id);

/** Send @p k again: its id has moved, and @p k was not read in the old session. */
static void
send_again(struct cma_kept *k)
{
	struct cma_id *id = k->id, *request = k->request;
	struct ctl_cm_event ev = { 0 };

	memcpy(&ev, k->event, k->bytes);
	forget(k);
	/* An id that is in a group can't move, so the group was left again. */
	if (ev.type == CTL_CM_EV_MULTICAST_JOIN)
		return;
	if (request != NULL && cma_id_move(request, id->session) != 0) {
		session_close(id->session, "no memory for its connection requests");
		return;
	}
	ev.id = request != NULL ? request->obj.handle : id->obj.handle;
	ev.listener = request != NULL ? id->obj.handle : 0;
	cma_event_send(id, &ev, request);
	/* The peer may have given up its request, so that the request's id has unread events of its own. */
	if (request != NULL)
		move_unread(request);
}

/**
 * Send the unread events in the new session. They are appended to the list meanwhile, so stop at the current last one.
 */
static void
move_unread(struct cma_id *id)
{
	struct cma_kept *k, *last = TAILQ_LAST(&id->events, cma_events);
	bool more;

	for (more = last != NULL; more;) {
		k = TAILQ_FIRST(&id->events);
		more = k != last;
		send_again(k);
	}
}

void
cma_event_move(struct cma_id *id, struct session *from)
{
	/* Once, at the start: an event that the program reads from the old socket after this is moved all the same. */
	trim(from->cma);
	move_unread(id);
}

bool
cma_event_room(const struct session *s)
{
	struct cma_session *cs = s->cma;

	if (cs->nb_sent + cs->nb_queued >= CTL_CM_MAX_QUEUED)
		trim(cs);
	return cs->nb_sent + cs->nb_queued < CTL_CM_MAX_QUEUED &&
	       quota_fits(s, QUOTA_metadata, sizeof(struct cma_kept) + sizeof(struct ctl_cm_event));
}

int
cma_event_want_room(const struct session *s, struct request *r)
{
	if (cma_event_room(s))
		return 0;
	if (!quota_fits(s, QUOTA_metadata, sizeof(struct cma_kept) + sizeof(struct ctl_cm_event)))
		return req_fail(r, EAGAIN, "events of this channel wait to be read: no more metadata for this program or user "
				"(daemon.session_max_metadata, daemon.user_max_metadata)");
	return req_fail(r, EAGAIN, "%d events of this channel wait to be read", CTL_CM_MAX_QUEUED);
}

/**
 * Find out what the kernel counts for an unread record. It is the same for each, since all have one size.
 * @return bytes; 0: it can't be found out.
 */
static int
measure_record(int ours, int theirs)
{
	struct ctl_cm_event ev = { 0 };
	int cost;

	if (!evsock_send(ours, &ev, sizeof(ev)))
		return 0;
	cost = evsock_unread(ours);
	return recv(theirs, &ev, sizeof(ev), MSG_DONTWAIT) == (ssize_t)sizeof(ev) ? cost : 0;
}

/** The session has an event channel from now on. */
static void
begin(struct session *s, struct cma_session *cs)
{
	cs->sock.fn = on_room;
	cs->session = s;
	cs->saved = saved_new(s->control, &s->saved, SAVED_CM_CHANNEL, cs);
	TAILQ_INIT(&cs->sent);
	TAILQ_INIT(&cs->queue);
	s->cma = cs;
}

int
cma_channel_take(struct session *s, int fd, int record_cost, uint64_t token, struct request *r)
{
	struct cma_session *cs;
	int rc = quota_take(s, QUOTA_fd, 1, r);

	if (rc != 0)
		return rc;
	cs = calloc(1, sizeof(*cs));
	if (cs == NULL) {
		quota_give(s, QUOTA_fd, 1);
		return req_fail(r, ENOMEM, "no memory for the event channel");
	}
	cs->sock.fd = fd;
	cs->record_cost = record_cost;
	cs->token = token;
	begin(s, cs);
	return 0;
}

int
op_cm_open(struct session *s, struct request *r)
{
	struct cma_session *cs;
	int theirs, rc;

	if (s->cma != NULL)
		return req_fail(r, EINVAL, "this session has an event channel already");
	rc = quota_take(s, QUOTA_fd, 1, r);
	if (rc != 0)
		return rc;
	cs = calloc(1, sizeof(*cs));
	rc = cs == NULL ? req_fail(r, ENOMEM, "no memory for the event channel") : evsock_pair(&cs->sock.fd, &theirs);
	if (rc != 0) {
		if (cs != NULL)
			req_fail(r, rc, "no descriptors for the event channel: %s", strerror(rc));
		quota_give(s, QUOTA_fd, 1);
		free(cs);
		return rc;
	}
	cs->record_cost = measure_record(cs->sock.fd, theirs);
	if (cs->record_cost <= 0)
		rc = req_fail(r, ENOMEM, "no memory for the events of the event channel");
	else if (getentropy(&cs->token, sizeof(cs->token)) != 0)
		rc = req_fail(r, EIO, "no random numbers");
	if (rc != 0) {
		close(theirs);
		close(cs->sock.fd);
		quota_give(s, QUOTA_fd, 1);
		free(cs);
		return rc;
	}
	begin(s, cs);
	r->rsp.cm_open.token = cs->token;
	req_send_fd(r, theirs, true);
	return 0;
}

void
cma_channel_end(struct session *s)
{
	struct cma_session *cs = s->cma;
	struct cma_kept *k;

	watch(cs, false);
	while ((k = TAILQ_FIRST(&cs->sent)) != NULL || (k = TAILQ_FIRST(&cs->queue)) != NULL)
		drop(k);
	saved_end(s->control, &cs->saved);
	close(cs->sock.fd);
	quota_give(s, QUOTA_fd, 1);
	free(cs);
	s->cma = NULL;
}
