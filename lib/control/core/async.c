/* SPDX-License-Identifier: BSD-3-Clause */
/* A session's asynchronous events: sent on its socket; those for which it has no room wait here. */
#include <sys/epoll.h>
#include <unistd.h>

#include "base/evsock.h"
#include "control/core/session_priv.h"

static void
set_watching(struct session *s, bool on)
{
	struct async_events *a = &s->async;

	if (on == a->watching)
		return;
	if (!on)
		control_unwatch(s->control, &a->sock);
	else if (control_watch(s->control, &a->sock, EPOLLOUT) != 0)
		return;
	a->watching = on;
}

/** The program has read some. */
static void
on_room(struct watch *w, uint32_t events)
{
	struct session *s = container_of(w, struct session, async.sock);
	struct async_events *a = &s->async;

	while (a->nb > 0 && evsock_send(a->sock.fd, &a->waiting[a->first], sizeof(a->waiting[0]))) {
		a->first = (a->first + 1) % ASYNC_WAITING;
		a->nb--;
	}
	saved_touch(s->control, s->record);
	set_watching(s, a->nb > 0);
}

int
async_open(struct session *s, int *theirs)
{
	s->async.sock.fn = on_room;
	return evsock_pair(&s->async.sock.fd, theirs);
}

void
async_take(struct session *s, int fd)
{
	s->async.sock = (struct watch){ on_room, fd };
}

void
async_close(struct session *s)
{
	struct async_events *a = &s->async;

	if (a->sock.fd < 0)
		return;
	set_watching(s, false);
	close(a->sock.fd);
	free(a->waiting);
	*a = (struct async_events){ .sock.fd = -1 };
}

bool
async_keep(struct session *s, const struct ctl_async_event *ev)
{
	struct async_events *a = &s->async;

	if (a->waiting == NULL)
		a->waiting = calloc(ASYNC_WAITING, sizeof(a->waiting[0]));
	if (a->waiting == NULL || a->nb == ASYNC_WAITING)
		return false;
	a->waiting[(a->first + a->nb) % ASYNC_WAITING] = *ev;
	a->nb++;
	saved_touch(s->control, s->record);
	set_watching(s, true);
	return true;
}

void
session_send_async(struct session *s, enum uroce_event type, uint64_t cookie)
{
	struct ctl_async_event ev = { .cookie = cookie, .type = type };
	struct async_events *a = &s->async;

	if (a->sock.fd < 0)
		return;
	if (a->nb == 0 && evsock_send(a->sock.fd, &ev, sizeof(ev)))
		return;
	if (async_keep(s, &ev))
		return;
	if (s->async.lost++ == 0)
		CTL_LOG(WARNING, "%s (pid %d) doesn't read its asynchronous events; further ones are lost", s->program,
			(int)s->pid);
}
