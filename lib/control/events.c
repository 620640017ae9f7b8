/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of engines, and periodic work: ports, neighbours, connections, the heap. */
#include <arpa/inet.h>
#include <malloc.h>

#include <rte_common.h>
#include <rte_mbuf.h>

#include "control/cma/cma_priv.h"
#include "control/cma/gsi_priv.h"
#include "control/loop_priv.h"
#include "control/memory/questions_priv.h"
#include "control/neighbours_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/obj_xrc_priv.h"
#include "control/observe/inspect_priv.h"

enum { TRIM_MIN_CONNS = 4096 /**< connections at once, a few MB; for fewer, trimming isn't worth it */ };

/** Forward an event to the object's session, which may have ended, or to all sessions that have an XRC target open. */
static void
forward_async(struct control *c, const struct tp_event *ev)
{
	struct xrc_target *t;
	struct session *s;
	struct obj_qp *qp;

	if (ev->owner == XRC_TARGET_OWNER) {
		t = handles_get(&c->targets, (uint32_t)ev->cookie);
		if (t == NULL)
			return;
		LIST_FOREACH(qp, &t->openings, opening)
			session_send_async(qp->session, ev->type, qp->cookie);
		return;
	}
	s = session_find(c, (uintptr_t)ev->owner);
	if (s != NULL)
		session_send_async(s, ev->type, ev->cookie);
}

/** Log how many QPs failed without an event of their own. */
static void
log_unsaid(struct control *c)
{
	for (unsigned int i = 0; i < c->s.nb_engines; i++) {
		uint64_t unsaid = engine_stats(c->s.engines[i])->failures_unsaid, more = unsaid - c->failures_unsaid[i];

		c->failures_unsaid[i] = unsaid;
		if (more > 0)
			CTL_LOG(NOTICE, "%lu more QPs of engine %u failed; /uroce/qp,NUMBER says why", (unsigned long)more, i);
	}
}

/**
 * Log that a QP went to ERR or SQE. Engines send an event for the first few in a second and count the rest
 * (log_unsaid()).
 */
static void
log_failure(struct control *c, const struct qp_failure *f)
{
	const struct session *s = session_find(c, (uintptr_t)f->owner);
	char why[DIAG_LINE_BYTES], peer[INET6_ADDRSTRLEN] = "?";
	/* A program that moves its QP to ERR ends a connection, which is normal. */
	uint32_t level = f->reason.why == QP_WHY_PROGRAM ? RTE_LOG_DEBUG : RTE_LOG_NOTICE;

	if (f->ip_version != 0)
		inet_ntop(f->ip_version == 4 ? AF_INET : AF_INET6, f->dip, peer, sizeof(peer));
	rte_log(level, control_logtype, "uroced: QP %#x (%s, %s pid %d) to %s QP %#x: %s: %s\n", f->qpn,
		qp_type_name((enum uroce_qp_type)f->type), s != NULL ? s->program : "of several sessions, or one that is gone,",
		s != NULL ? (int)s->pid : 0, peer, f->dest_qpn, qp_state_name((enum uroce_qp_state)f->state),
		qp_reason_text(&f->reason, why));
}

void
events_engine(struct watch *w, uint32_t events)
{
	struct engine_watch *src = container_of(w, struct engine_watch, watch);
	struct control *c = src->control;
	struct engine_event ev;

	/* The descriptor stays readable while events are left, so the rest is handled in the next turn. */
	for (unsigned int i = 0; i < CONTROL_EVENT_BURST && engine_event_next(src->engine, &ev); i++) {
		switch (ev.kind) {
		case ENGINE_EV_ASYNC:
			forward_async(c, &ev.async);
			break;
		case ENGINE_EV_LEARNED:
			if (ev.learned.port < c->s.nb_ports)
				net_learn(c->s.ports[ev.learned.port], &ev.learned, control_now_ns());
			break;
		case ENGINE_EV_FAILED:
			log_failure(c, &ev.failed);
			break;
		case ENGINE_EV_MAD:
			if (ev.mad->port < c->s.nb_ports)
				gsi_take(c->gsi, ev.mad, control_now_ns());
			break;
		}
	}
}

/** Packets of lib/net itself are sent through the first engine. */
static void
send_packet(void *arg, struct net_port *p, struct rte_mbuf *m)
{
	struct control *c = arg;

	engine_send(c->s.engines[0], p->index, m);
}

void
events_start(struct control *c)
{
	for (unsigned int i = 0; i < c->s.nb_ports; i++)
		net_port_set_sender(c->s.ports[i], send_packet, c, c->s.sh.pool);
	ports_start(c);
}

/**
 * Update the highest number of connections. Called in every turn, since thousands may come and go between two calls of
 * trim_heap().
 * @return the current number.
 */
static uint32_t
count_conns(struct control *c)
{
	struct cm_usage u;

	cm_usage(gsi_cm(c->gsi), &u);
	c->most_conns = RTE_MAX(c->most_conns, u.conns);
	return u.conns;
}

/**
 * Return memory to the system when most connections of a burst are gone (each is kept for some seconds after its end).
 * Not done in an application that serves no other programs: malloc_trim() would search the application's own heap.
 */
static void
trim_heap(struct control *c, uint32_t conns)
{
	if (c->listen.fd < 0 || c->most_conns < TRIM_MIN_CONNS || conns > c->most_conns / 2)
		return;
	malloc_trim(0);
	c->most_conns = conns;
}

static int
call_nothing(struct engine *e, void *arg, uint64_t now_ns)
{
	return 0;
}

/** Say that this thread and the engines are well. An engine that doesn't turn any more doesn't answer, so that nothing is said. */
static void
tell_alive(struct control *c, uint64_t now)
{
	if (c->s.alive == NULL || now < c->next_alive_ns)
		return;
	c->next_alive_ns = now + (uint64_t)c->s.alive_ms * 1000000;
	for (unsigned int i = 0; i < c->s.nb_engines; i++)
		engine_call(c->s.engines[i], call_nothing, NULL);
	c->s.alive(c->s.alive_arg);
}

int
events_poll(struct control *c)
{
	uint64_t now = control_now_ns(), next;
	uint64_t ports_ns = ports_poll(c, now);
	uint32_t conns = count_conns(c);

	if (now >= c->next_tick_ns) {
		inspect_tick(c);
		log_unsaid(c);
		sessions_log_ended(c);
		trim_heap(c, conns);
		c->next_tick_ns = now + (uint64_t)CONTROL_LINK_POLL_MS * 1000000;
	}
	tell_alive(c, now);
	next = RTE_MIN(c->next_tick_ns, ports_ns);
	for (unsigned int i = 0; i < c->s.nb_ports; i++)
		next = RTE_MIN(next, net_port_poll(c->s.ports[i], now));
	next = RTE_MIN(next, neighbours_poll(c, now));
	next = RTE_MIN(next, questions_poll(c, now));
	next = RTE_MIN(next, balancing_poll(c, now));
	next = RTE_MIN(next, sessions_close_strangers(c, now));
	next = RTE_MIN(next, cma_poll(c->cma, now));
	next = RTE_MIN(next, gsi_run(c->gsi, now));
	return next <= now ? 0 : (int)((next - now + 999999) / 1000000);
}
