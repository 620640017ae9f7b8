/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A loop falls asleep: whoever gives an engine work wakes it, or is seen before. The sleep itself is in kick.c.
 */
#include "engine/loop_priv.h"

/** @return true if there is something to do that doesn't depend on time or ports. */
static bool
has_work(const struct engine *e)
{
	return atomic_load_explicit(&e->stop, memory_order_relaxed) != 0 || !rte_ring_empty(e->mailbox) ||
	       io_may_send(e) || !rte_ring_empty(e->handoff) || !rte_ring_empty(e->kicks) ||
	       atomic_load_explicit(&e->copied, memory_order_relaxed) != NULL || sessions_rung(e);
}

/** @return for how long nothing is due, at most @p max_ns. */
static uint64_t
time_left(const struct engine_loop *l, uint64_t max_ns)
{
	uint64_t left = max_ns;

	for (unsigned int i = 0; i < l->n; i++) {
		const struct engine *e = l->engines[i];
		uint64_t next = transport_next_timeout(e->tp);

		if (next <= e->now_ns)
			return 0;
		if (next != UINT64_MAX)
			left = RTE_MIN(left, next - e->now_ns);
		/* No port tells that it has room again. */
		if (io_waits_for_port(e))
			left = RTE_MIN(left, (uint64_t)ENGINE_TX_RETRY_NS);
	}
	return left;
}

/** From here on everybody who gives the engines work wakes a thread; programs only if @p kicks. */
static void
fall_asleep(struct engine_loop *l, bool kicks)
{
	for (unsigned int i = 0; i < l->n; i++) {
		struct engine *e = l->engines[i];

		if (e->c.sh.qsbr != NULL)
			rte_rcu_qsbr_thread_offline(e->c.sh.qsbr, e->c.id);
		atomic_store_explicit(&e->sleeping, 1, memory_order_relaxed);
		if (kicks)
			sessions_arm(e, true);
	}
	/* Either the giver sees that we sleep and kicks, or we see what it gave (Dekker). */
	atomic_thread_fence(memory_order_seq_cst);
}

void
loop_awake(struct engine_loop *l)
{
	for (unsigned int i = 0; i < l->n; i++) {
		struct engine *e = l->engines[i];
		uint64_t tsc = e->tsc, ns = e->now_ns;

		atomic_store_explicit(&e->sleeping, 0, memory_order_relaxed);
		io_disarm(e);
		sessions_arm(e, false);
		if (e->c.sh.qsbr != NULL)
			rte_rcu_qsbr_thread_online(e->c.sh.qsbr, e->c.id);
		l->slept_ns = engine_now(e) - ns;
		/* A full port had its chances between sleeps as short as ENGINE_TX_RETRY_NS. */
		if (l->slept_ns > ENGINE_LATE_NS)
			io_was_away(e, l->slept_ns);
		e->stats.idle_cycles += e->tsc - tsc;
		sessions_kicked(e);
	}
}

/** @return true if packets may arrive at some port without waking anybody. */
static bool
must_poll(const struct engine_loop *l)
{
	for (unsigned int i = 0; i < l->n; i++) {
		const struct engine *e = l->engines[i];
		uint32_t waking = e->waking & atomic_load_explicit(&e->proven, memory_order_relaxed);

		for (uint16_t p = 0; p < e->c.nb_ports; p++)
			if ((!atomic_load_explicit(&e->c.ports[p]->joined, memory_order_relaxed) && ((waking | e->paused) >> p & 1) == 0) ||
			    atomic_load_explicit(&e->c.ports[p]->impaired, memory_order_relaxed))
				return true;
	}
	return false;
}

bool
loop_rest(struct engine_loop *l, uint64_t *ns, bool kicks)
{
	*ns = time_left(l, *ns);
	if (*ns == 0)
		return false;
	fall_asleep(l, kicks);
	for (unsigned int i = 0; i < l->n; i++) {
		if (has_work(l->engines[i]) || !io_arm(l->engines[i])) {
			loop_awake(l);
			return false;
		}
	}
	l->engines[0]->stats.sleeps++;
	return true;
}

/** @return how long naps may become. Without programs only ARP, pings and requests that will be refused wait for their end. */
static uint64_t
longest_nap(const struct engine_loop *l)
{
	for (unsigned int i = 0; i < l->n; i++)
		if (l->engines[i]->nb_sessions > 0)
			return ENGINE_SLEEP_MAX_NS;
	return ENGINE_SLEEP_UNUSED_NS;
}

bool
loop_rest_for_long(struct engine_loop *l, uint64_t *ns)
{
	bool poll = must_poll(l), kicks = !poll || l->by_turns || l->policy == ENGINE_IDLE_INTERRUPT;

	/* Programs that shall kick must ring first: their SQs aren't watched any more. */
	for (unsigned int i = 0; i < l->n && kicks; i++)
		if (!transport_rest(l->engines[i]->tp))
			return false;
	*ns = poll ? RTE_MIN(l->nap_ns, longest_nap(l)) : UINT64_MAX;
	if (!loop_rest(l, ns, kicks))
		return false;
	if (poll)
		l->nap_ns = RTE_MIN(*ns * 2, longest_nap(l));
	return true;
}
