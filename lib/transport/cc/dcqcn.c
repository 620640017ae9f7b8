/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DCQCN's reaction point (Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 3.1).
 * A CNP cuts the rate by an estimate of how congested the path is; a timer and a byte counter raise it again, first
 * back to where it was, then beyond. No timers run: what they would have done is made up for before each packet.
 */
#include "transport/cc/cc_priv.h"

#define DCQCN_G (1.0 / 256)         /* the paper's deployment: gain of the estimate */
#define DCQCN_ALPHA_NS 55000        /* the same: the estimate decays this often without a CNP */
#define DCQCN_TIMER_NS 55000        /* the same: rate timer */
#define DCQCN_BYTES 10000000        /* the same: byte counter */
#define DCQCN_FAST_RECOVERY 5       /* the same: events of either kind that bring the rate half-way back */
#define DCQCN_AI_BPS 40e6           /* the same: additive increase */
#define DCQCN_HAI_BPS 100e6         /* hyper increase: configurations of the HPCC simulator */
#define DCQCN_MIN_BPS 100e6         /* the same source; no CNP cuts the rate below this */
#define DCQCN_CUT_NS 4000           /* the same source: cuts are at least this far apart */
#define DCQCN_IDLE_PERIODS 1024     /* after so many timer periods without sending the rate is no longer limited */

static void
dcqcn_init(struct cc *cc, uint64_t now_ns)
{
	cc->dcqcn.alpha = 1;
	cc->dcqcn.alpha_ns = cc->dcqcn.timer_ns = now_ns;
}

static void
set_rate(struct cc *cc, double bps)
{
	struct dcqcn *d = &cc->dcqcn;

	d->current = cc_clamp(bps, DCQCN_MIN_BPS, cc->line_bps);
	cc->rate_bps = d->current < cc->line_bps ? d->current : 0;
}

/* The timer or the byte counter had an event: raise the rate. */
static void
increase(struct cc *cc)
{
	struct dcqcn *d = &cc->dcqcn;
	uint32_t most = RTE_MAX(d->timer_events, d->byte_events), least = RTE_MIN(d->timer_events, d->byte_events);

	if (least > DCQCN_FAST_RECOVERY)
		d->target += (least - DCQCN_FAST_RECOVERY) * DCQCN_HAI_BPS;
	else if (most > DCQCN_FAST_RECOVERY)
		d->target += DCQCN_AI_BPS;
	d->target = RTE_MIN(d->target, cc->line_bps);
	set_rate(cc, (d->target + d->current) / 2);
}

static void
dcqcn_advance(struct cc *cc, uint64_t now_ns)
{
	struct dcqcn *d = &cc->dcqcn;

	if (d->current == 0)
		return;
	if (now_ns - d->timer_ns > (uint64_t)DCQCN_IDLE_PERIODS * DCQCN_TIMER_NS) {
		*d = (struct dcqcn){ 0 };
		cc->rate_bps = 0;
		dcqcn_init(cc, now_ns);
		return;
	}
	for (; now_ns - d->alpha_ns >= DCQCN_ALPHA_NS; d->alpha_ns += DCQCN_ALPHA_NS)
		d->alpha *= 1 - DCQCN_G;
	for (; now_ns - d->timer_ns >= DCQCN_TIMER_NS; d->timer_ns += DCQCN_TIMER_NS) {
		d->timer_events++;
		increase(cc);
	}
}

static void
dcqcn_sent(struct cc *cc, uint32_t bytes)
{
	struct dcqcn *d = &cc->dcqcn;

	if (d->current == 0)
		return;
	d->bytes += bytes;
	if (d->bytes < DCQCN_BYTES)
		return;
	d->bytes -= DCQCN_BYTES;
	d->byte_events++;
	increase(cc);
}

static void
dcqcn_cnp(struct cc *cc, uint64_t now_ns)
{
	struct dcqcn *d = &cc->dcqcn;

	dcqcn_advance(cc, now_ns);
	if (d->current == 0)
		d->current = cc->line_bps;
	else if (now_ns - d->cut_ns < DCQCN_CUT_NS)
		return;
	d->cut_ns = now_ns;
	d->target = d->current;
	set_rate(cc, d->current * (1 - d->alpha / 2));
	d->alpha = (1 - DCQCN_G) * d->alpha + DCQCN_G;
	d->alpha_ns = d->timer_ns = now_ns;
	d->timer_events = d->byte_events = 0;
	d->bytes = 0;
}

const struct cc_ops cc_dcqcn = {
	.name = "dcqcn",
	.services = 1 << (WIRE_RC >> 5) | 1 << (WIRE_UC >> 5),
	.init = dcqcn_init,
	.advance = dcqcn_advance,
	.sent = dcqcn_sent,
	.cnp = dcqcn_cnp,
};
