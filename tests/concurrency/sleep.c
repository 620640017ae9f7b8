/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A loop that sleeps (lib/engine/loop.c, loop_sleep.c) and the mailbox between control thread and engine (mailbox.c, core.c): a message is
 * executed once, by one thread at a time, and its sender goes on, whether the engine runs, falls asleep or has no thread.
 */

#include "engine/engine_priv.h"
#include "transport/transport.h"

static struct engine engine;
static _Alignas(64) uint8_t mailbox[4096], handoff[4096], kicks[4096];
static struct explore_event kick;
static uint32_t executed;

/* ---- What the production files call ---- */
uint32_t
engine_run_turn(struct engine *e)
{
	return mailbox_run(e, 0);
}

void
engine_own_wait(struct engine *e)
{
	while (!engine_own(e))
		explore_yield();
}

uint64_t
engine_now(struct engine *e)
{
	return 0;
}

void
transport_called(struct transport *tp, uint64_t now_ns)
{
}

uint64_t
transport_next_timeout(const struct transport *tp)
{
	return UINT64_MAX;
}

bool
transport_untold(const struct transport *tp)
{
	return false;
}

void
transport_tell(struct transport *tp)
{
}

bool
transport_rest(struct transport *tp)
{
	return true;
}

bool
io_arm(const struct engine *e)
{
	return true;
}

void
io_disarm(const struct engine *e)
{
}

bool
io_may_send(const struct engine *e)
{
	return false;
}

bool
io_waits_for_port(const struct engine *e)
{
	return false;
}

void
io_was_away(struct engine *e, uint64_t ns)
{
}

void
sessions_arm(struct engine *e, bool armed)
{
}

bool
sessions_rung(const struct engine *e)
{
	return false;
}

void
sessions_kicked(struct engine *e)
{
}

void
sessions_active(const struct engine *e, uint64_t since_ns, uint32_t n[ENGINE_CPUS_MAX])
{
}

bool
kicks_take(struct engine *e, unsigned int cpu, const struct timespec *timeout)
{
	if (timeout == NULL)
		explore_event_read(&kick);
	return true;
}

int
kicks_share(struct engine *e, struct engine *with)
{
	return 0;
}

int
kicks_watch_loop(struct engine *e, unsigned int cpu, int fd)
{
	return 0;
}

long
explore_write(int fd, const void *p, size_t n)
{
	explore_event_write(&kick);
	return (long)n;
}

/* ---- Setup ---- */
static struct rte_ring *
ring(uint8_t *memory, unsigned int flags)
{
	rte_ring_init((struct rte_ring *)(void *)memory, "ring", 4, flags);
	return (struct rte_ring *)(void *)memory;
}

static struct engine_loop *loop;

static void
setup(void)
{
	struct engine *e = &engine;

	memset(&engine, 0, sizeof(engine));
	memset(&kick, 0, sizeof(kick));
	/* Producers wait for each other here, unlike those of lib/engine/engine.c: the explorer has no words of two sizes. */
	engine.mailbox = ring(mailbox, RING_F_SC_DEQ);
	engine.handoff = ring(handoff, RING_F_SP_ENQ | RING_F_SC_DEQ);
	engine.kicks = ring(kicks, RING_F_SP_ENQ | RING_F_SC_DEQ);
	engine.c.idle = ENGINE_IDLE_INTERRUPT;
	executed = 0;
	loop = engine_loop_create(&e, 1);
	explore_check(loop != NULL);
}

/* ---- Threads ---- */
static int
message(struct engine *e, void *arg, uint64_t now_ns)
{
	/* Not atomic: only the engine's owner is here. */
	executed++;
	return 5;
}

static int
stop_message(struct engine *e, void *arg, uint64_t now_ns)
{
	executed++;
	atomic_store(&e->stop, 1);
	return 5;
}

static void
runs(void)
{
	engine_loop_run(loop, 0);
}

static void
calls(void)
{
	explore_check(engine_call(&engine, message, NULL) == 5);
}

static void
calls_and_stops(void)
{
	explore_check(engine_call(&engine, stop_message, NULL) == 5);
}

/* Another thread that runs the engine for a moment, as engine_turn() does. */
static void
turns(void)
{
	if (!engine_own(&engine))
		return;
	mailbox_run(&engine, 0);
	engine_disown(&engine);
}

static void
check_one(void)
{
	explore_check(executed == 1);
}

static const struct explore_mutation sleep_mutations[] = {
	{ EXPLORE_DROP, "fall_asleep", "fence", 0 },
	{ EXPLORE_DROP, "engine_wake", "fence", 0 },
	{ EXPLORE_VALUE, "engine_wake", "load &e->sleeping, memory_order_relaxed", 0 },
	{ EXPLORE_RELAX, "mailbox_run", "exchange &m->state, memory_order_acq_rel", 0 },
	{ EXPLORE_RELAX, "engine_call", "load &msg.state, memory_order_acquire", 0 },
	{ 0 }
};
static const struct explore_mutation own_mutations[] = {
	{ EXPLORE_RELAX, "engine_disown", "store &e->owner, memory_order_release", 0 },
	{ EXPLORE_RELAX, "engine_own", "cas &e->owner, memory_order_acquire", 0 },
	{ 0 }
};

int
main(int argc, char **argv)
{
	static const struct explore_case cases[] = {
		{ .name = "message_to_a_sleeper", .setup = setup, .threads = { runs, calls_and_stops }, .check = check_one,
		  .mutations = sleep_mutations },
		{ .name = "nobody_runs_the_engine", .setup = setup, .threads = { calls, turns },
		  .check = check_one, .mutations = own_mutations },
	};

	return explore_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
