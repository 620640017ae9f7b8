/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues: several engines write (lib/transport/core/cq.c), the program's threads poll (lib/verbs/cq.c), arm, watch and wait for
 * events (lib/verbs/cq_events.c).
 *
 * A completion that was polled is whole, and each is polled once. A program that waits for events, polls until the CQ is empty and arms it
 * again gets every completion; there are no more events than completions.
 */
#include "transport/core/cq_priv.h"
#include "transport/core/qp_error_priv.h"
#include "verbs/client_priv.h"

enum { ENGINES = 2, QPN = 7 };

static struct transport tps[ENGINES];
static struct cq cq;
static struct ring_cq_shared shared;
static struct ring_cqe slots[4];
static struct client_cq ccq;
static struct client_ctx ctx;
static struct client_qp cqp;
static struct client_qp *_Atomic qps[CLIENT_QPN_SLOTS];
static struct client_channel channel;
static struct qp qp;
static _Atomic uint32_t events; /* unread, in the channel */
static _Atomic uint32_t raised, polled;
static _Atomic uint32_t got[4]; /* how often the completion with this wr_id was polled */

/* ---- What the production files call ---- */
void
qp_error(struct transport *tp, struct qp *q, int event, struct tp_because because)
{
	explore_fail("the CQ has overrun");
}

void
diag_note(struct transport *tp, const struct qp *q, enum qp_event_kind kind, uint8_t a, uint16_t b, uint32_t psn)
{
}

void
client_connection_lost(struct client_ctx *c, const char *what)
{
	explore_fail("%s: the connection is lost", what);
}

void
client_bounce_done(struct client_qp *q, const struct ring_cqe *e, bool is_recv, uint32_t from, uint32_t to)
{
	explore_fail("no WQE has a bounce buffer");
}

ssize_t
client_channel_send(const struct client_channel *ch, const struct ctl_comp_event *ev)
{
	__atomic_fetch_add(&raised, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&events, 1, __ATOMIC_ACQ_REL);
	return sizeof(*ev);
}

static bool
notify(void *arg, int fd, uint64_t cookie)
{
	return client_channel_send(NULL, &(struct ctl_comp_event){ 0 }) > 0;
}

static void
wait_event(void)
{
	while (__atomic_load_n(&events, __ATOMIC_ACQUIRE) == 0)
		explore_yield();
	__atomic_fetch_sub(&events, 1, __ATOMIC_ACQ_REL);
}

/* ---- Setup ---- */
static void
reset(bool multi, uint32_t order)
{
	struct ring ring = { .base = (uint8_t *)slots, RING_SIZE(order, 5) };

	memset(slots, 0, sizeof(slots));
	memset(&shared, 0, sizeof(shared));
	memset(&cq, 0, sizeof(cq));
	memset(&ccq, 0, sizeof(ccq));
	memset(&cqp, 0, sizeof(cqp));
	events = raised = polled = 0;
	memset((void *)got, 0, sizeof(got));
	qp.qpn = QPN;
	for (unsigned int i = 0; i < ENGINES; i++) {
		tps[i].c.engine = i;
		tps[i].c.notify = notify;
		tps[i].nb_touched = tps[i].nb_deferred = tps[i].nb_owed = 0;
		TAILQ_INIT(&tps[i].owed);
	}
	cq.rings[0].ring = ring;
	cq.shared = &shared;
	cq.multi = multi;
	ctx.qps = qps;
	explore_ignore(&ccq.empty_polls);
	cqp.qp.qp_base.qp_num = QPN;
	qps[QPN] = &cqp;
	ccq.cq.context = &ctx.v.context;
	ccq.cq.channel = &channel.channel;
	ccq.ring = ring;
	ccq.shared = &shared;
}

static void
setup_one(void)
{
	reset(false, 2);
}

static void
setup_several(void)
{
	reset(true, 2);
}

static void
setup_armed(void)
{
	reset(true, 2);
	shared.arm = RING_ARM_ANY;
}

/* A CQ with one slot. */
static void
setup_small(void)
{
	reset(false, 0);
}

/* ---- Engines ---- */
/* One completion in a turn of its own. */
static void
complete(unsigned int engine, uint32_t wr_id)
{
	cq_push(&tps[engine], &cq, &qp, &(struct tp_cqe){ .wr_id = wr_id, .byte_len = wr_id + 1, .ctl = { .wqe_counter = (uint16_t)wr_id, .is_recv = true } });
	cq_flush_touched(&tps[engine]);
}

static void
engine_of_two(void)
{
	complete(0, 0);
	complete(0, 1);
}

static void
engine_a(void)
{
	complete(0, 0);
}

static void
engine_b(void)
{
	complete(1, 1);
}

/* Doesn't complete more than the CQ has room for. */
static void
engine_waits_for_room(void)
{
	complete(0, 0);
	for (uint32_t i = 1; i < 3; i++) {
		while (atomic_load_explicit(&shared.cons, memory_order_relaxed) != i)
			explore_yield();
		complete(0, i);
	}
}

/* ---- The program ---- */
static uint32_t
poll_all(void)
{
	struct ibv_wc wc;
	uint32_t n = 0;

	while (client_poll_cq(&ccq.cq, 1, &wc) == 1) {
		explore_check(wc.wr_id < 4 && wc.byte_len == wc.wr_id + 1 && wc.qp_num == QPN);
		explore_check(__atomic_fetch_add(&got[wc.wr_id], 1, __ATOMIC_RELAXED) == 0);
		n++;
	}
	if (n > 0)
		__atomic_fetch_add(&polled, n, __ATOMIC_RELEASE);
	return n;
}

/* Waits, polls until there is nothing, arms, waits: relies on the event for what came in between. */
static void
program_waits(void)
{
	for (uint32_t n = 0; n < 2;) {
		client_req_notify_cq(&ccq.cq, 0);
		wait_event();
		n += poll_all();
	}
}

/* Arms before it polls, and waits only if there was nothing. */
static void
program_arms_first(void)
{
	client_req_notify_cq(&ccq.cq, 0);
	for (uint32_t n = poll_all(); n < 2; n += poll_all()) {
		wait_event();
		client_req_notify_cq(&ccq.cq, 0);
	}
}

/* As ibv_get_cq_event(): watches for a while, then waits for the channel. */
static void
program_watches(void)
{
	for (uint32_t n = 0; n < 2; n += poll_all()) {
		bool watched, taken = false;

		client_req_notify_cq(&ccq.cq, 0);
		watched = client_cq_watch(&ccq);
		if (watched)
			taken = client_cq_watched_event(&ccq);
		if (watched && !taken)
			taken = client_cq_unwatch(&ccq);
		if (taken)
			__atomic_fetch_add(&raised, 1, __ATOMIC_RELAXED);
		else
			wait_event();
	}
}

static void
program_polls(void)
{
	for (;;) {
		uint32_t n = poll_all();

		if (__atomic_load_n(&polled, __ATOMIC_ACQUIRE) == 2)
			return;
		if (n == 0)
			explore_yield();
	}
}

static void
program_polls_three(void)
{
	for (uint32_t n = 0, more; n < 3; n += more) {
		more = poll_all();
		if (more == 0)
			explore_yield();
	}
}

static void
check_two(void)
{
	explore_check(got[0] == 1 && got[1] == 1 && raised <= 2);
}

static void
check_one_event(void)
{
	explore_check(raised == 1 && shared.arm == RING_ARM_NONE);
}

/* ---- Mutations ---- */
#define WRITE_ORDER                                                                                       \
	{ EXPLORE_RELAX, "push", "store &slot->ctl, memory_order_release", 0 },                        \
	{ EXPLORE_RELAX, "ring_cq_ready", "load &e->ctl, memory_order_acquire", 0 }
#define DEKKER                                                                                            \
	{ EXPLORE_DROP, "cq_flush_touched", "fence", 0 }, { EXPLORE_DROP, "take_due", "fence", 0 }

static const struct explore_mutation waits_mutations[] = { WRITE_ORDER, DEKKER, { 0 } };
static const struct explore_mutation first_mutations[] = { WRITE_ORDER, { EXPLORE_DROP, "cq_flush_touched", "fence", 0 }, { 0 } };
static const struct explore_mutation watch_mutations[] = {
	{ EXPLORE_DROP, "cq_flush_touched", "fence", 0 },
	{ EXPLORE_DROP, "client_cq_unwatch", "fence", 0 },
	{ EXPLORE_DROP, "see", "store &cq->shared->seen, memory_order_release", 0 },
	{ 0 }
};
static const struct explore_mutation poll_mutations[] = {
	WRITE_ORDER,
	{ EXPLORE_RELAX, "client_unlock", "store &l->held, memory_order_release", 0 },
	{ EXPLORE_RELAX, "client_lock", "exchange &l->held, memory_order_acquire", 0 },
	{ 0 }
};
static const struct explore_mutation engines_mutations[] = {
	WRITE_ORDER, { EXPLORE_DROP, "cq_reserve", "add &cq->prod, memory_order_acquire", 0 }, { 0 }
};
static const struct explore_mutation room_mutations[] = {
	{ EXPLORE_RELAX, "client_cq_publish", "store &cq->shared->cons, memory_order_release", 0 },
	{ EXPLORE_RELAX, "cq_reserve", "load &cq->shared->cons, memory_order_acquire", 0 },
	{ 0 }
};
static const struct explore_mutation armed_mutations[] = {
	{ EXPLORE_DROP, "cq_raise", "cas &cq->shared->arm", 0 },
	{ 0 }
};

int
main(int argc, char **argv)
{
	static const struct explore_case cases[] = {
		{ .name = "event_of_one_engine", .setup = setup_one, .threads = { engine_of_two, program_waits }, .check = check_two,
		  .mutations = waits_mutations },
		{ .name = "event_of_two_engines", .setup = setup_several, .threads = { engine_a, engine_b, program_waits },
		  .check = check_two, .mutations = waits_mutations },
		{ .name = "armed_before_polled", .setup = setup_several, .threads = { engine_a, engine_b, program_arms_first },
		  .check = check_two, .mutations = first_mutations },
		{ .name = "watched", .setup = setup_several, .threads = { engine_a, engine_b, program_watches }, .check = check_two,
		  .mutations = watch_mutations },
		{ .name = "one_event_for_one_arm", .setup = setup_armed, .threads = { engine_a, engine_b }, .check = check_one_event,
		  .mutations = armed_mutations },
		{ .name = "two_engines", .setup = setup_several, .threads = { engine_a, engine_b, program_polls }, .check = check_two,
		  .mutations = engines_mutations },
		{ .name = "two_pollers", .setup = setup_one, .threads = { engine_of_two, program_polls, program_polls },
		  .preemptions = 1,
		  .check = check_two, .mutations = poll_mutations },
		{ .name = "slot_used_again", .setup = setup_small, .threads = { engine_waits_for_room, program_polls_three },
		  .mutations = room_mutations },
	};

	return explore_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
