/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/settle_priv.h"

#include <limits.h>
#include <stdlib.h>

#include <rte_pause.h>

#include "mem/copier.h"

struct settling {
	TAILQ_ENTRY(settling) link;
	struct session *session;
	uint32_t ticket;
	struct ctl_req req;
	struct request reply;
};

/** @return false: a copy goes on for longer than is worth waiting for. */
static bool
soon_done(const struct copier_lane *lane, uint32_t ticket)
{
	uint64_t until = 0;

	while (!copier_cut_done(lane, ticket)) {
		uint64_t now = control_now_ns();

		until = until != 0 ? until : now + SETTLE_SPIN_NS;
		if (now >= until)
			return false;
		rte_pause();
	}
	return true;
}

bool
settle_later(struct session *s, const struct request *r)
{
	struct settling *p;
	uint32_t ticket;

	if (s->owner.lane == NULL || s->closing)
		return false;
	ticket = copier_cut(s->owner.lane);
	if (soon_done(s->owner.lane, ticket))
		return false;
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return false;
	UROCE_ASSERT(s->settling == NULL && r->rsp.nb_fds == 0);
	p->session = s;
	p->ticket = ticket;
	p->req = *r->req;
	p->reply = *r;
	p->reply.req = &p->req;
	p->reply.nb_fds = 0;
	s->settling = p;
	TAILQ_INSERT_TAIL(&s->control->settling, p, link);
	session_pause(s, true);
	return true;
}

void
settle_cancel(struct session *s)
{
	if (s->settling == NULL)
		return;
	TAILQ_REMOVE(&s->control->settling, s->settling, link);
	free(s->settling);
	s->settling = NULL;
}

int
settle_poll(struct control *c)
{
	struct settling *p, *next;

	for (p = TAILQ_FIRST(&c->settling); p != NULL; p = next) {
		struct session *s = p->session;

		next = TAILQ_NEXT(p, link);
		if (s->closing || !copier_cut_done(s->owner.lane, p->ticket))
			continue;
		session_pause(s, false);
		session_reply(s, &p->reply, 0);
		settle_cancel(s);
	}
	return TAILQ_EMPTY(&c->settling) ? INT_MAX : SETTLE_POLL_MS;
}
