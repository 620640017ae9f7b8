/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation and the turn. Calls all other parts but the loop (loop.c), which calls this one. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_malloc.h>
#include <rte_pause.h>

#include "base/evsock.h"
#include "engine/engine_priv.h"
#include "ring/ctl.h"

enum {
	OWN_SPINS = 100,   /* tries to own an engine before its next owner yields its core */
	KICK_TURNS = 64,   /* turns after which kicks are looked for, by a system call, if some session is cold */
};

/** Wait until this thread is the owner. */
void
engine_own_wait(struct engine *e)
{
	for (unsigned int i = 0; !engine_own(e); i++) {
		if (i < OWN_SPINS)
			rte_pause();
		else
			sched_yield();
	}
}

static void
on_event(void *arg, const struct tp_event *ev)
{
	const struct engine_event out = { .kind = ENGINE_EV_ASYNC, .async = *ev };

	event_post(arg, &out);
}

static void
on_failed(void *arg, const struct qp *qp)
{
	struct engine_event out = { .kind = ENGINE_EV_FAILED };
	struct engine *e = arg;
	bool asked_for;

	qp_failure(qp, &out.failed);
	/*
	 * Programs end connections this way. These events have a limit of their own, so that they don't crowd out real
	 * failures.
	 */
	asked_for = out.failed.reason.why == QP_WHY_PROGRAM;
	burst_over(&e->failures[asked_for], e->now_ns);
	if (burst_take(&e->failures[asked_for], ENGINE_FAILURES))
		event_post(e, &out);
	else if (!asked_for)
		e->stats.failures_unsaid++;
}

/** Send a record to the program (lib/ring/ctl.h). @return false: there is no room now. */
static bool
on_completion(void *arg, int channel, uint64_t cookie)
{
	struct ctl_comp_event ev = { .cookie = cookie };

	return evsock_send(channel, &ev, sizeof(ev));
}

/** Allocate everything that needs memory. @return 0 or an errno value. */
static int
parts_create(struct engine *e)
{
	/* Producers may share a core with each other: with RTS a preempted producer doesn't block the others. */
	const unsigned int mpsc = RING_F_MP_RTS_ENQ | RING_F_SC_DEQ;
	const struct engine_config *c = &e->c;
	struct transport_config tc = {
		.sh = c->sh,
		.engine = c->id,
		.nb_ports = c->nb_ports,
		.socket_id = c->socket_id,
		.no_watch = c->nb_cpus > 0, /* doorbells tell which programs are active */
		.by_reference = !c->loop_frames,
		.stamp_ns = clock_read,
		.notify = on_completion,
		.tell_later = true,
		.event = on_event,
		.failed = on_failed,
		.takes = io_takes,
		.mad = event_post_mad,
		.handoff = c->nb_engines > 1 ? io_handoff : NULL,
		.copy = copies_begin,
		.metered = true,
		.journal = c->journal,
		.journal_limits = c->journal_limits,
		.arg = e,
	};
	int rc;

	for (uint16_t i = 0; i < c->nb_ports; i++) {
		tc.ports[i].cc = c->cc[i];
		tc.ports[i].features = c->features[i];
		tc.ports[i].ip_mtu = c->ports[i]->ip_mtu;
		tc.ports[i].mtu_shift = net_port_mtu_shift(c->ports[i]);
		memcpy(tc.ports[i].pkeys, c->ports[i]->conf.pkeys, sizeof(tc.ports[i].pkeys));
		if (c->cc[i] != TP_CC_NONE)
			net_port_link(c->ports[i], &tc.ports[i].mbps);
		/* It has no ethdev yet: the control thread says when it has. */
		if (net_port_is_gone(c->ports[i]))
			e->paused |= UINT32_C(1) << i;
	}
	rc = kicks_create(e);
	if (rc == 0)
		rc = events_create(e);
	if (rc != 0)
		return rc;
	e->hot = calloc(UROCE_MAX_SESSIONS, sizeof(*e->hot));
	e->sessions = calloc(UROCE_MAX_SESSIONS, sizeof(*e->sessions));
	e->kicks = engine_ring("engine_kicks", UROCE_MAX_SESSIONS, c->socket_id, mpsc);
	e->mailbox = engine_ring("engine_mailbox", ENGINE_MAILBOX, c->socket_id, mpsc);
	e->handoff = engine_ring("engine_handoff", ENGINE_HANDOFF, c->socket_id, mpsc);
	if (e->hot == NULL || e->sessions == NULL || e->kicks == NULL || e->mailbox == NULL || e->handoff == NULL)
		return ENOMEM;
	for (uint16_t i = 0; i < c->nb_ports; i++)
		if ((e->send[i] = engine_ring("engine_send", ENGINE_SEND_RING, c->socket_id, mpsc | RING_F_EXACT_SZ)) == NULL)
			return ENOMEM;
	e->tp = transport_create(&tc);
	return e->tp != NULL ? 0 : errno;
}

struct engine *
engine_create(const struct engine_config *c)
{
	struct engine *e;
	int rc;

	if (c->nb_engines == 0 || c->nb_engines > UROCE_MAX_ENGINES || c->id >= c->nb_engines ||
	    c->nb_ports > UROCE_MAX_PORTS || c->sh.mrs == NULL || c->sh.qps == NULL || c->sh.pool == NULL) {
		errno = EINVAL;
		return NULL;
	}
	e = rte_zmalloc_socket("engine", sizeof(*e), RTE_CACHE_LINE_SIZE, c->socket_id);
	if (e == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	e->c = *c;
	for (unsigned int i = 0; i < ENGINE_CPUS_MAX; i++)
		e->kick_fds[i] = -1;
	e->event_fd = -1;
	rc = parts_create(e);
	if (rc == 0 && c->sh.qsbr != NULL && rte_rcu_qsbr_thread_register(c->sh.qsbr, c->id) != 0)
		rc = EINVAL;
	if (rc != 0) {
		e->c.sh.qsbr = NULL;
		engine_destroy(e);
		errno = rc;
		return NULL;
	}
	clock_init(e);
	return e;
}

void
engine_destroy(struct engine *e)
{
	if (e == NULL)
		return;
	if (e->c.sh.qsbr != NULL)
		rte_rcu_qsbr_thread_unregister(e->c.sh.qsbr, e->c.id);
	io_drain(e);
	/* A copier that hangs in a program's memory has a buffer of the transport, and gives it back to the engine. */
	if (e->tp != NULL && !copies_end(e))
		return;
	if (e->tp != NULL)
		transport_destroy(e->tp);
	events_destroy(e);
	kicks_destroy(e);
	free(e->sessions);
	rte_free(e->kicks);
	free(e->hot);
	rte_free(e->mailbox);
	for (uint16_t i = 0; i < e->c.nb_ports; i++)
		rte_free(e->send[i]);
	rte_free(e->handoff);
	rte_free(e);
}

void
engine_connect(struct engine **all, unsigned int nb_engines)
{
	for (unsigned int i = 0; i < nb_engines; i++)
		for (unsigned int j = 0; j < nb_engines; j++)
			all[i]->peers[all[j]->c.id] = all[j];
}

/** Run one turn. @return the work done. */
uint32_t
engine_run_turn(struct engine *e)
{
	uint64_t before = e->tsc, before_ns = e->now_ns, now_ns = engine_now(e);
	uint64_t *cycles = e->worked ? &e->stats.busy_cycles : &e->stats.idle_cycles;
	bool late = now_ns - before_ns > ENGINE_LATE_NS;
	uint32_t work;

	*cycles += e->tsc - before;
	/*
	 * Packets that arrived during the gap are handled first. Otherwise timers would take ACKs for lost that wait in
	 * the RX queues.
	 */
	if (late) {
		e->stats.late_turns++;
		io_was_away(e, now_ns - before_ns - ENGINE_LATE_NS);
	}
	/*
	 * A kick ends the sleep of a loop, but a loop may be busy for long or never sleep, and an application's own loop may
	 * take its turns a millisecond apart.
	 */
	if (unlikely(e->nb_hot != e->nb_sessions) &&
	    (e->stats.turns % KICK_TURNS == 0 || (!e->looping && !e->worked))) {
		for (unsigned int i = 0; i < engine_cpus(e); i++)
			kicks_take(e, i, &(struct timespec){ 0 });
		sessions_kicked(e);
	}
	atomic_store_explicit(&e->in_turn, true, memory_order_relaxed);
	/*
	 * Before packets: a program sees at once what a packet brought, but its acknowledgement is only built at the end of the turn. If the engine lost its
	 * core in between, and the program destroyed its QP meanwhile, nobody would acknowledge the packet.
	 */
	work = mailbox_run(e, now_ns);
	work += io_rx(e, late ? ENGINE_LATE_BURSTS : 1, now_ns);
	transport_serves_nobody(e->tp);
	work += copies_run(e, now_ns);
	io_send(e);
	work += sessions_run(e, now_ns);
	work += transport_run(e->tp, now_ns);
	work += io_tx(e, now_ns);
	if (transport_untold(e->tp) && !e->tells_later)
		transport_tell(e->tp);
	if (e->handed_to != 0)
		io_handoff_done(e);
	if (e->c.sh.qsbr != NULL)
		rte_rcu_qsbr_quiescent(e->c.sh.qsbr, e->c.id);
	e->stats.turns++;
	atomic_store_explicit(&e->in_turn, false, memory_order_relaxed);
	if (work > 0)
		e->stats.busy_turns++;
	else
		e->stats.idle_turns++;
	e->worked = work > 0;
	return work;
}

bool
engine_in_turn(const struct engine *e, uint64_t *turns, const struct qp **serving)
{
	*turns = __atomic_load_n(&e->stats.turns, __ATOMIC_RELAXED);
	*serving = transport_serving(e->tp);
	return atomic_load_explicit(&e->in_turn, memory_order_relaxed);
}

uint32_t
engine_turn(struct engine *e)
{
	uint32_t work;

	engine_own_wait(e);
	work = engine_run_turn(e);
	engine_disown(e);
	return work;
}

uint32_t
engine_try_turn(struct engine *e)
{
	uint32_t work;

	if (!engine_own(e))
		return 0;
	work = engine_run_turn(e);
	engine_disown(e);
	return work;
}

void
engine_stop(struct engine *e)
{
	atomic_store(&e->stop, 1);
	engine_wake(e);
}

struct transport *
engine_transport(struct engine *e)
{
	return e->tp;
}

const struct engine_stats *
engine_stats(const struct engine *e)
{
	return &e->stats;
}

void
engine_depths(const struct engine *e, struct engine_depths *d)
{
	*d = (struct engine_depths){
		.sessions = e->nb_sessions,
		.hot_sessions = e->nb_hot,
		.mailbox = rte_ring_count(e->mailbox),
		.events = rte_ring_count(e->events),
		.mads = ENGINE_MADS - rte_ring_count(e->free_mads),
		.handoff = rte_ring_count(e->handoff),
	};
	for (uint16_t p = 0; p < e->c.nb_ports; p++)
		d->send += rte_ring_count(e->send[p]);
	transport_depths(e->tp, &d->transport);
}

const struct net_counters *
engine_net_counters(const struct engine *e, uint16_t port)
{
	return port < e->c.nb_ports ? &e->net[port] : NULL;
}
