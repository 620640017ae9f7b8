/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events: records of struct ctl_async_event on a socket, sent by the daemon's control thread. */
#include "verbs/client_priv.h"

#include <fcntl.h>
#include <unistd.h>

/* The kind of object that an event's cookie identifies. */
enum event_of { EVENT_OF_CQ, EVENT_OF_QP, EVENT_OF_SRQ, EVENT_OF_PORT };

static enum event_of
event_of(uint32_t type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return EVENT_OF_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return EVENT_OF_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return EVENT_OF_SRQ;
	default:
		return EVENT_OF_PORT;
	}
}

/* Find the object and count the event as reported; false if the object is gone. objs.mutex held. */
static bool
event_take(struct client_ctx *ctx, const struct ctl_async_event *rec, struct ibv_async_event *out)
{
	void *obj;

	out->event_type = rec->type;
	if (event_of(rec->type) == EVENT_OF_PORT) {
		out->element.port_num = rec->cookie;
		return true;
	}
	obj = objtab_get(&ctx->objs, rec->cookie);
	if (!obj)
		return false;
	switch (event_of(rec->type)) {
	case EVENT_OF_CQ:
		((struct client_cq *)obj)->async_events_reported++;
		out->element.cq = &((struct client_cq *)obj)->cq;
		break;
	case EVENT_OF_QP:
		((struct client_qp *)obj)->events_reported++;
		out->element.qp = &((struct client_qp *)obj)->qp.qp_base;
		break;
	default:
		((struct client_srq *)obj)->events_reported++;
		out->element.srq = &((struct client_srq *)obj)->srq;
		break;
	}
	return true;
}

CLIENT_EXPORT int
ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct client_ctx *ctx = to_ctx(context);
	struct pollfd p = { .fd = context->async_fd, .events = POLLIN };
	struct ctl_async_event rec;
	bool found;
	ssize_t n;

	for (;;) {
		if (ctx->wait && !(fcntl(p.fd, F_GETFL) & O_NONBLOCK) && ctx->wait(&p, 1) < 0)
			return -1;
		n = read(context->async_fd, &rec, sizeof(rec));
		if (n == 0 && !ctx->fatal_reported) {
			/*
			 * Only the daemon has the other end, so end of file means that it has ended, and the device
			 * with it.
			 */
			ctx->fatal_reported = true;
			*event = (struct ibv_async_event){ .event_type = IBV_EVENT_DEVICE_FATAL };
			return 0;
		}
		if (n != sizeof(rec)) {
			if (n >= 0)
				errno = EIO;
			return -1;
		}
		pthread_mutex_lock(&ctx->objs.mutex);
		found = event_take(ctx, &rec, event);
		pthread_mutex_unlock(&ctx->objs.mutex);
		if (found)
			return 0;
	}
}

static void
count_ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed)
{
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

CLIENT_EXPORT void
ibv_ack_async_event(struct ibv_async_event *event)
{
	switch (event_of(event->event_type)) {
	case EVENT_OF_CQ:
		count_ack(&event->element.cq->mutex, &event->element.cq->cond,
			  &event->element.cq->async_events_completed);
		break;
	case EVENT_OF_QP:
		count_ack(&event->element.qp->mutex, &event->element.qp->cond, &event->element.qp->events_completed);
		break;
	case EVENT_OF_SRQ:
		count_ack(&event->element.srq->mutex, &event->element.srq->cond, &event->element.srq->events_completed);
		break;
	case EVENT_OF_PORT:
		break;
	}
}
