/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/settle_priv.h"

#include <limits.h>
#include <stdlib.h>

#include <rte_pause.h>

#include "mem/copier.h"

#define NS_PER_MS UINT64_C(1000000)

struct settling {
	TAILQ_ENTRY(settling) link;
	struct session *session;
	settle_again_fn *again; /**< at due_ns; NULL: the reply is ready, and sent when the copies before the ticket are done */
	uint64_t due_ns;
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
settle_before(struct session *s)
{
	struct control *c = s->control;
	uint64_t until;
	uint32_t n;

	if (s->owner.lane == NULL || s->closing)
		return true;
	n = copier_submitted(s->owner.lane);
	if (!s->settle_waits && n == s->settled_jobs)
		return true;
	/* Not those that are handed over while it waits: there may always be some. */
	if (!s->settle_waits)
		s->settled_jobs = n;
	s->settle_waits = true;
	for (until = control_now_ns() + SETTLE_SPIN_NS; !copier_returned(s->owner.lane, s->settled_jobs);) {
		if (control_now_ns() >= until)
			return false;
		rte_pause();
	}
	s->settle_waits = false;
	for (unsigned int i = 0; i < c->s.nb_engines; i++)
		engine_run_copied(c->s.engines[i]);
	return true;
}

/** Keep a request, and accept no others of its session. @return NULL: no memory. */
static struct settling *
settling_new(struct session *s, const struct request *r)
{
	struct settling *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	UROCE_ASSERT(s->settling == NULL && r->rsp.nb_fds == 0);
	p->session = s;
	p->req = *r->req;
	p->reply = *r;
	p->reply.req = &p->req;
	p->reply.nb_fds = 0;
	s->settling = p;
	TAILQ_INSERT_TAIL(&s->control->settling, p, link);
	session_pause(s, true);
	return p;
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
	p = settling_new(s, r);
	if (p == NULL)
		return false;
	p->ticket = ticket;
	return true;
}

bool
settle_again(struct session *s, const struct request *r, settle_again_fn *again)
{
	struct settling *p;

	UROCE_ASSERT(r->nb_segs == 0);
	p = settling_new(s, r);
	if (p == NULL)
		return false;
	p->again = again;
	p->due_ns = control_now_ns() + SETTLE_POLL_MS * NS_PER_MS;
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

/** The time of a request has come. */
static void
end(struct session *s)
{
	struct ctl_req req = s->settling->req;
	struct request r = s->settling->reply;
	settle_again_fn *again = s->settling->again;

	r.req = &req;
	settle_cancel(s);
	session_pause(s, false);
	if (again != NULL)
		again(s, &r);
	else
		session_reply(s, &r, 0);
}

int
settle_poll(struct control *c)
{
	struct settling *p, *next;

	for (p = TAILQ_FIRST(&c->settling); p != NULL; p = next) {
		struct session *s = p->session;

		next = TAILQ_NEXT(p, link);
		if (s->closing)
			continue;
		if (p->again != NULL ? control_now_ns() >= p->due_ns : copier_cut_done(s->owner.lane, p->ticket))
			end(s);
	}
	return TAILQ_EMPTY(&c->settling) ? INT_MAX : SETTLE_POLL_MS;
}
