/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Swift (Kumar et al., Swift: Delay is Simple and Effective for Congestion Control in the Datacenter, SIGCOMM 2020,
 * section 3): the window grows by a packet per round trip while round trips are shorter than a target, and shrinks with
 * the excess if they are longer. A window below one packet is turned into a rate.
 *
 * The target follows the length of the path, which only a QP that has seen the path without a queue can know. ECN marks
 * tell the others that they have not: they count against the length, never against the window.
 */
#include <math.h>

#include "transport/cc/cc_priv.h"

/* Section 3.1, algorithm 1. */
#define SWIFT_AI 1.0             /* packets per round trip */
#define SWIFT_BETA 0.8           /* the part of the excess that a decrease takes away */
#define SWIFT_MAX_MDF 0.5        /* the most that one decrease takes away */
#define SWIFT_MIN_CWND 0.01
#define SWIFT_MAX_GAP_NS 4e6     /* ours: between two packets. Round trips of milliseconds come from a peer that is slow, not from queues */
#define SWIFT_TIMEOUTS 5         /* so many timeouts in a row shrink the window to the minimum */
/*
 * The target delay. In the paper it is a constant for the network plus a term per hop. Here the shortest round trip
 * seen stands for the length of the path, so that nothing has to be configured; the constant is a lower bound.
 *
 * A QP that begins while a queue stands takes that queue for a part of the path, aims beyond it and keeps it standing,
 * and those that know better get nothing. So the more of the last round trips had marks in them, the less the shortest
 * one counts; where all had, the target is the constant, the same for all. The queue then becomes as short as the
 * constant wants it, and everyone sees a round trip that is right. A shortest round trip that is longer than any queue
 * is believed nevertheless: that path is long, and would starve beside a queue of others.
 */
#define SWIFT_TARGET_NS 25000.0  /* the paper's base target for a small network */
#define SWIFT_QUEUE_NS 15000.0   /* ours: queueing allowed beyond the shortest round trip */
#define SWIFT_BUFFER_BYTES 2.5e6 /* ours: the longest queue of one port of a switch */
#define SWIFT_MARKED_GAIN 0.5    /* ours: weight of the last round trip */
#define SWIFT_MARKED_NS (2 * UINT64_C(50000)) /* ours: a mark counts for this long, because CNPs come once in 50 us at most */
#define SWIFT_MIN_PERIOD_NS UINT64_C(1000000000) /* ours: the shortest round trip is remembered for one to two periods */
/* Section 3.5: where flows have small windows there are many of them, so they get a larger target. */
#define SWIFT_FS_RANGE_NS 100000.0 /* ours: four times the base target */
#define SWIFT_FS_MIN_CWND 0.1
#define SWIFT_FS_MAX_CWND 100.0
#define SWIFT_START_CWND TP_CWND_MIN

static void
set_window(struct cc *cc, double cwnd)
{
	struct swift *s = &cc->swift;
	double mtu_bits = (double)(UINT64_C(8) << cc->qp->path.mtu_shift);

	s->cwnd = cc_clamp(cwnd, SWIFT_MIN_CWND, TP_CWND_MAX);
	cc->cwnd = s->cwnd < 1 ? 1 : (uint16_t)s->cwnd;
	/* Section 3.4: one packet in so many round trips. But the peer's timeout counts while a response waits. */
	cc->rate_bps = s->cwnd < 1 && s->srtt_ns != 0 ? mtu_bits * 1e9 / RTE_MIN((double)s->srtt_ns / s->cwnd, SWIFT_MAX_GAP_NS) : 0;
}

static void
swift_init(struct cc *cc, uint64_t now_ns)
{
	cc->swift = (struct swift){ .min_ns = UINT64_MAX, .old_min_ns = UINT64_MAX, .period_ns = now_ns };
	set_window(cc, SWIFT_START_CWND);
}

static double
target_ns(const struct cc *cc)
{
	static const double lowest = 0.1; /* 1 / sqrt(SWIFT_FS_MAX_CWND) */
	const struct swift *s = &cc->swift;
	double shortest = (double)RTE_MIN(s->min_ns, s->old_min_ns), path = RTE_MAX(shortest + SWIFT_QUEUE_NS, SWIFT_TARGET_NS);
	double slope = SWIFT_FS_RANGE_NS / (1 / sqrt(SWIFT_FS_MIN_CWND) - lowest);
	double scaled = slope * (1 / sqrt(s->cwnd) - lowest);

	if (shortest <= SWIFT_BUFFER_BYTES * 8e9 / cc->line_bps)
		path -= s->marked * s->marked * (path - SWIFT_TARGET_NS); /* squared: a mark now and then counts for little */
	return path + cc_clamp(scaled, 0, SWIFT_FS_RANGE_NS);
}

static void
note_rtt(struct swift *s, uint64_t rtt_ns, uint64_t now_ns)
{
	if (now_ns - s->period_ns >= SWIFT_MIN_PERIOD_NS) {
		s->old_min_ns = now_ns - s->period_ns < 2 * SWIFT_MIN_PERIOD_NS ? s->min_ns : UINT64_MAX;
		s->min_ns = UINT64_MAX;
		s->period_ns = now_ns;
	}
	s->min_ns = RTE_MIN(s->min_ns, rtt_ns);
	s->marked += ((s->marked_ns != 0 && now_ns - s->marked_ns <= RTE_MAX(rtt_ns, SWIFT_MARKED_NS)) - s->marked) * SWIFT_MARKED_GAIN;
	s->srtt_ns = s->srtt_ns == 0 ? rtt_ns : s->srtt_ns + rtt_ns / 8 - s->srtt_ns / 8;
}

/* At most one decrease per round trip. */
static bool
may_cut(const struct swift *s, uint64_t now_ns)
{
	return now_ns - s->cut_ns >= s->srtt_ns;
}

static void
cut(struct cc *cc, double factor, uint64_t now_ns)
{
	cc->swift.cut_ns = now_ns;
	set_window(cc, cc->swift.cwnd * factor);
}

static void
swift_rtt(struct cc *cc, uint64_t rtt_ns, uint32_t acked, uint64_t now_ns)
{
	struct swift *s = &cc->swift;
	double rtt = (double)rtt_ns, target;

	note_rtt(s, rtt_ns, now_ns);
	s->timeouts = 0;
	target = target_ns(cc);
	if (rtt < target)
		set_window(cc, s->cwnd + (s->cwnd >= 1 ? SWIFT_AI / s->cwnd : SWIFT_AI) * acked);
	else if (may_cut(s, now_ns))
		cut(cc, RTE_MAX(1 - SWIFT_BETA * (rtt - target) / rtt, 1 - SWIFT_MAX_MDF), now_ns);
}

static void
swift_loss(struct cc *cc, bool timeout, uint64_t now_ns)
{
	struct swift *s = &cc->swift;

	if (timeout && ++s->timeouts >= SWIFT_TIMEOUTS)
		cut(cc, 0, now_ns);
	else if (may_cut(s, now_ns))
		cut(cc, 1 - SWIFT_MAX_MDF, now_ns);
}

/* A packet of this QP was marked, in one direction or the other: the round trip has a queue in it. */
static void
swift_marked(struct cc *cc, uint64_t now_ns)
{
	cc->swift.marked_ns = now_ns;
}

const struct cc_ops cc_swift = {
	.name = "swift",
	.services = 1 << (WIRE_RC >> 5),
	.paces_reads = true,
	.init = swift_init,
	.cnp = swift_marked,
	.marked = swift_marked,
	.rtt = swift_rtt,
	.loss = swift_loss,
};
