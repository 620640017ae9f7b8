/* SPDX-License-Identifier: BSD-3-Clause */
/* show event: prints the asynchronous events of QPs, CQs, SRQs and ports since the last `show event`. */
#include <poll.h>
#include <stdio.h>

#include "args.h"
#include "format.h"
#include "objects.h"

enum { EVENTS_MAX = 1024, WAIT_MAX_MS = 60000 };

/** @return the name of the object that the event belongs to. */
static const char *
object_of(const struct ibv_async_event *ev)
{
	enum object_kind kind = OBJECT_QP;
	const void *what = ev->element.qp;
	struct object *o;

	switch (ev->event_type) {
	case IBV_EVENT_CQ_ERR:
		kind = OBJECT_CQ;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		kind = OBJECT_SRQ;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_DEVICE_FATAL:
		return "port";
	default:
		break;
	}
	for (unsigned int i = 0; (o = object_at(kind, i)) != NULL; i++)
		if (o->v.any == what)
			return o->name;
	return "-";
}

static void
take(struct format *f, const struct host *h)
{
	struct pollfd pfd = { .fd = h->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event ev;

	for (unsigned int n = 0; n < EVENTS_MAX && poll(&pfd, 1, 0) > 0 && ibv_get_async_event(h->ctx, &ev) == 0; n++) {
		format_host_row(f, h);
		format_text(f, "of", "%s", object_of(&ev));
		format_text(f, "event", "%s", ibv_event_type_str(ev.event_type));
		ibv_ack_async_event(&ev);
	}
}

/** Wait until one of the hosts has an event. */
static void
wait_for_one(int ms)
{
	struct pollfd pfds[HOSTS_MAX];

	for (unsigned int i = 0; i < hosts_count(); i++)
		pfds[i] = (struct pollfd){ .fd = host_at(i)->ctx->async_fd, .events = POLLIN };
	poll(pfds, hosts_count(), ms);
}

static int
show_event(struct call *c)
{
	struct format *f = format_new();

	wait_for_one((int)call_number(c, "wait", 0));
	for (unsigned int i = 0; i < hosts_count(); i++)
		take(f, host_at(i));
	return call_answer(c, f, FORMAT_TABLE, "no event");
}

static const struct arg args[] = { ARG_NUM("wait", "milliseconds at most for one (0)", 0, WAIT_MAX_MS), ARG_JSON, { 0 } };
static const struct command table[] = {
	{ "show event", "Asynchronous events since the last look.", args, NULL, show_event },
	{ 0 },
};
COMMANDS(table)
