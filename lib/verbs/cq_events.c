/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a CQ raises an event, and who sees to it: an engine, or a thread that waits in ibv_get_cq_event() and watches the CQ.
 *
 * The arm word says what is wanted. Whoever swaps it to NONE after a completion has the event: an engine sends it through
 * the channel's socket, at the cost of a system call on its side and one or more on ours. A watching thread sets the word
 * to WATCHED, so that engines leave the CQ to it, and takes the event without either.
 */
#include "verbs/client_priv.h"

#define ANY_REQUEST UINT32_MAX /* in place of a RING_ARM_* */

/* @return the counter of the first CQE that isn't there yet. Lock held. */
static uint32_t
first_missing(const struct client_cq *cq)
{
	uint32_t i = (int32_t)(cq->ring.counter - cq->seen) > 0 ? cq->ring.counter : cq->seen;
	union ring_cqe_ctl ctl;

	while (ring_cq_ready(&cq->ring, i, &ctl))
		i++;
	return i;
}

/* Engines raise no event for CQEs before @i any more, only for later ones. Lock held. */
static void
see(struct client_cq *cq, uint32_t i)
{
	cq->seen = i;
	atomic_store_explicit(&cq->shared->seen, i, memory_order_release);
}

/*
 * @return true if there is a completion that was neither polled nor present when the last event was raised, and that
 * would have raised one; errors count as solicited. All present completions count as reported afterwards.
 */
static bool
cq_due(struct client_cq *cq, bool solicited_only)
{
	uint32_t reported = atomic_load_explicit(&cq->shared->reported, memory_order_acquire), i;
	union ring_cqe_ctl ctl;
	bool due = false;

	client_cq_lock(cq);
	if ((int32_t)(reported - cq->reported) > 0)
		cq->reported = reported;
	if ((int32_t)(cq->ring.counter - cq->reported) > 0)
		cq->reported = cq->ring.counter;
	for (i = cq->reported; ring_cq_ready(&cq->ring, i, &ctl); i++) {
		const struct ring_cqe *e = ring_slot(&cq->ring, i);

		due |= !ctl.dead && (!solicited_only || ctl.solicited || e->status != UROCE_WC_SUCCESS);
	}
	if (due)
		cq->reported = i;
	/* Not what has arrived since the loop above: the engine that wrote it would raise no event for it either. */
	see(cq, i);
	client_cq_unlock(cq);
	return due;
}

/*
 * Change what the arm word asks for from @from, or from anything but NONE if that is ANY_REQUEST, to @to.
 * @return false: it asks for something else.
 */
static bool
arm_change(struct client_cq *cq, uint32_t from, uint32_t to)
{
	uint32_t arm = atomic_load_explicit(&cq->shared->arm, memory_order_relaxed);

	do {
		if (from == ANY_REQUEST ? ring_arm(arm) == RING_ARM_NONE : ring_arm(arm) != from)
			return false;
	} while (!atomic_compare_exchange_weak(&cq->shared->arm, &arm, ring_arm_as(arm, to)));
	return true;
}

/* Ask for an event. A request for any completion isn't replaced by one for solicited completions. */
static void
arm_set(struct client_cq *cq, uint32_t what)
{
	uint32_t arm = atomic_load_explicit(&cq->shared->arm, memory_order_relaxed);

	do {
		if (what == RING_ARM_SOLICITED && ring_arm(arm) != RING_ARM_NONE)
			return;
	} while (!atomic_compare_exchange_weak(&cq->shared->arm, &arm, ring_arm_next(arm, what)));
}

/* Take the event of a CQ that was just armed, if it is due. @return false: it isn't, or an engine has it. */
static bool
take_due(struct client_cq *cq, bool solicited_only)
{
	/* Either we see the CQE, or the engine, which writes it and then reads the arm, sees that the CQ is armed. */
	atomic_thread_fence(memory_order_seq_cst);
	return cq_due(cq, solicited_only) && arm_change(cq, ANY_REQUEST, RING_ARM_NONE);
}

/*
 * The next completion raises an event; one that arrived since the last event and wasn't polled raises it at once, as
 * with adapters, so that none is lost between the last poll and arming. A completion reported by an event raises no
 * second one, polled or not: programs that arm before they poll rely on that (ib_send_lat -e).
 */
int
client_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	const struct client_channel *ch = (const struct client_channel *)ibcq->channel;
	struct client_cq *cq = to_cq(ibcq);
	struct ctl_comp_event ev = { .cookie = cq->cookie };

	/* A CQ without a channel has no events. */
	if (!ch)
		return 0;
	arm_set(cq, solicited_only ? RING_ARM_SOLICITED : RING_ARM_ANY);
	if (take_due(cq, solicited_only) && client_channel_send(ch, &ev) < 0)
		return errno;
	return 0;
}

bool
client_cq_watch(struct client_cq *cq)
{
	return !cq->single_threaded && !atomic_load_explicit(&cq->moderated, memory_order_relaxed) &&
	       arm_change(cq, RING_ARM_ANY, RING_ARM_WATCHED);
}

/*
 * Take the event of a CQ that is armed for any completion, if one has arrived since it was armed. A program that has
 * polled that already gets the event all the same.
 * @from: what the arm word must be; ANY_REQUEST: anything but NONE.
 */
static bool
take_event(struct client_cq *cq, uint32_t from)
{
	bool taken = false;
	uint32_t i;

	client_cq_lock(cq);
	i = first_missing(cq);
	if (i != cq->seen)
		taken = arm_change(cq, from, RING_ARM_NONE);
	if (taken) {
		if ((int32_t)(i - cq->reported) > 0)
			cq->reported = i;
		see(cq, i);
	}
	client_cq_unlock(cq);
	return taken;
}

bool
client_cq_watched_event(struct client_cq *cq)
{
	return take_event(cq, RING_ARM_WATCHED);
}

bool
client_cq_unwatch(struct client_cq *cq)
{
	if (!arm_change(cq, RING_ARM_WATCHED, RING_ARM_ANY))
		return false;
	/* As in take_due(). */
	atomic_thread_fence(memory_order_seq_cst);
	return take_event(cq, ANY_REQUEST);
}
