/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that end because a timer expired, or because their owner left. */

#include "base/assert.h"
#include "cm/cm_priv.h"

static void
conn_give_up(struct cm_conn *c, uint64_t now_ns, struct cm_event *ev)
{
	CM_COUNT(c->cm, timeouts);
	switch (c->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
		reject_send_timeout(c);
		conn_set_state(c, CM_IDLE);
		cm_event_set(ev, CM_EV_UNREACHABLE, c);
		ev->failed_attr = CM_ATTR_REQ;
		break;
	case CM_SIDR_REQ_SENT:
		conn_set_state(c, CM_IDLE);
		cm_event_set(ev, CM_EV_UNREACHABLE, c);
		ev->failed_attr = CM_ATTR_SIDR_REQ;
		break;
	case CM_DREQ_SENT:
		conn_enter_timewait(c, now_ns);
		CM_COUNT(c->cm, disconnected);
		cm_event_set(ev, CM_EV_DISCONNECTED, c);
		ev->timed_out = true;
		break;
	default:
		UROCE_ASSERT(c->state == CM_REP_SENT || c->state == CM_MRA_REP_RCVD);
		reject_send_timeout(c);
		conn_enter_timewait(c, now_ns);
		cm_event_set(ev, CM_EV_UNREACHABLE, c);
		ev->failed_attr = CM_ATTR_REP;
	}
}

void
conn_expired(struct cm_conn *c, uint64_t now_ns, struct cm_event *ev)
{
	switch (c->state) {
	case CM_TIMEWAIT:
		conn_set_state(c, CM_IDLE);
		cm_event_set(ev, CM_EV_TIMEWAIT_EXIT, c);
		break;
	case CM_SIDR_REP_SENT:
		conn_set_state(c, CM_IDLE);
		break;
	case CM_ESTABLISHED:
		stale_expired(c, now_ns);
		break;
	default:
		if (c->retries_left == 0) {
			conn_give_up(c, now_ns, ev);
			break;
		}
		c->retries_left--;
		conn_resend(c);
		conn_timer(c, now_ns + c->interval_ns);
	}
}

/* ---- The owner leaves ---- */
static void
conn_end(struct cm_conn *c, uint64_t now_ns)
{
	static const struct cm_private none;
	static const struct cm_sidr_reply_param refused = { .status = CM_SIDR_REJECT };

	switch (c->state) {
	case CM_REQ_SENT:
	case CM_MRA_REQ_RCVD:
		reject_send_timeout(c);
		conn_set_state(c, CM_IDLE);
		break;
	case CM_SIDR_REQ_SENT:
		conn_set_state(c, CM_IDLE);
		break;
	case CM_SIDR_REQ_RCVD:
		sidr_send_reply(c, &refused, now_ns);
		break;
	case CM_REQ_RCVD:
	case CM_MRA_REQ_SENT:
	case CM_REP_RCVD:
	case CM_MRA_REP_SENT:
		reject_and_end(c, CM_REJ_CONSUMER_DEFINED, &none, &none, now_ns);
		break;
	case CM_REP_SENT:
	case CM_MRA_REP_RCVD:
		/*
		 * The peer may be waiting for the REP, and then understands only a REJ; or it may be established
		 * already, and would remain so if the REJ is lost. So send both, and repeat the DREQ until it is
		 * answered.
		 */
		reject_send(c, CM_MSG_OF_OTHER, CM_REJ_CONSUMER_DEFINED, &none, &none);
		disconnect_send_dreq(c, &none, now_ns);
		break;
	case CM_ESTABLISHED:
		disconnect_send_dreq(c, &none, now_ns);
		break;
	case CM_DREQ_RCVD:
		disconnect_send_drep(c, &none);
		conn_enter_timewait(c, now_ns);
		break;
	default: /* IDLE, DREQ_SENT, TIMEWAIT, SIDR_REP_SENT: on its way out */
		break;
	}
}

void
cm_destroy(struct cm_conn *c, uint64_t now_ns)
{
	UROCE_ASSERT(!c->orphan);
	conn_end(c, now_ns);
	c->orphan = true;
	c->owner = NULL;
	if (conn_reap(c))
		return;
	/* A passive connection without a peer's QP is a refused request, or SIDR. Only its answer is still needed. */
	if (c->passive && c->by_qpn.pprev == NULL)
		conn_keep(c);
}
