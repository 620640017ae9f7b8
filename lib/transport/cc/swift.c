/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Swift (Kumar et al., Swift: Delay is Simple and Effective for Congestion Control in the Datacenter, SIGCOMM 2020,
 * section 3): the window grows by a packet per round trip while round trips are shorter than a target, and shrinks with
 * the excess if they are longer. A window below one packet is turned into a rate. ECN marks are ignored.
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
 */
#define SWIFT_TARGET_NS 25000.0  /* the paper's base target for a small network */
#define SWIFT_QUEUE_NS 15000.0   /* ours: queueing allowed beyond the shortest round trip */
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
target_ns(const struct swift *s)
{
	static const double lowest = 0.1; /* 1 / sqrt(SWIFT_FS_MAX_CWND) */
	double path = (double)RTE_MIN(s->min_ns, s->old_min_ns) + SWIFT_QUEUE_NS;
	double slope = SWIFT_FS_RANGE_NS / (1 / sqrt(SWIFT_FS_MIN_CWND) - lowest);
	double scaled = slope * (1 / sqrt(s->cwnd) - lowest);

	return RTE_MAX(path, SWIFT_TARGET_NS) + cc_clamp(scaled, 0, SWIFT_FS_RANGE_NS);
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
	target = target_ns(s);
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

const struct cc_ops cc_swift = {
	.name = "swift",
	.services = 1 << (WIRE_RC >> 5),
	.paces_reads = true,
	.init = swift_init,
	.rtt = swift_rtt,
	.loss = swift_loss,
};
