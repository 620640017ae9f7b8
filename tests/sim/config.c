/* SPDX-License-Identifier: BSD-3-Clause */
/* What a seed means. */
#include <inttypes.h>
#include <string.h>

#include "sim.h"

enum { STREAM_CONFIG = 1, STREAM_CC = 32, STREAM_XRC = 33, STREAM_SELECTIVE = 34, STREAM_MCAST = 35, STREAM_APM = 36, STREAM_MODERATE = 37, STREAM_PKEYS = 38, STREAM_FEATURES = 39, STREAM_POOLS = 40, STREAM_NB_SHARES = 41, STREAM_LATE = 43, STREAM_RESTARTS = 45, STREAM_NB_PORTS = 46, STREAM_HUGE = 47, STREAM_CM = 50, STREAM_LIMITS = 51, STREAM_COPY_POOLS = 52, STREAM_MOVING = 53, STREAM_RX_WAITS = 54, STREAM_CRASHES = 55, STREAM_CACHED_QPS = 56, XRC_ONE_IN = 6,
       APM_ONE_IN = 6, HUGE_ONE_IN = 400, HUGE_RARER = 64, COPY_JOBS_LEAST = 3, COPY_PKTS_LEAST = 4, CM_ONE_IN = 2, CRASH_ONE_IN = 6 };

const char *
fault_name(unsigned int bit)
{
	static const char *const names[SIM_NB_FAULTS] = {
#define X(n) [SIM_FBIT_##n] = #n,
		SIM_FAULTS(X)
#undef X
	};

	return bit < SIM_NB_FAULTS ? names[bit] : "?";
}

const char *
plant_name(enum sim_plant p)
{
	static const char *const names[] = {
#define X(n) [SIM_PLANT_##n] = #n,
		SIM_PLANTS(X)
#undef X
	};

	return p < sizeof(names) / sizeof(names[0]) ? names[p] : "?";
}

/* How often a fault kind is there at all, as one in n seeds; 0: drawn apart. */
static const uint8_t fault_one_in[SIM_NB_FAULTS] = {
	[SIM_FBIT_LOSS] = 2, [SIM_FBIT_BURST] = 5, [SIM_FBIT_REORDER] = 3, [SIM_FBIT_DUP] = 3, [SIM_FBIT_JITTER] = 2,
	[SIM_FBIT_CORRUPT] = 4, [SIM_FBIT_PARTITION] = 8, [SIM_FBIT_ECN] = 6, [SIM_FBIT_SLOW_RECV] = 4,
	[SIM_FBIT_SLOW_POLL] = 4, [SIM_FBIT_SLOW_TX] = 5, [SIM_FBIT_PLANT_LOCAL] = 6, [SIM_FBIT_PLANT_REMOTE] = 6,
	[SIM_FBIT_PLANT_RECV] = 8, [SIM_FBIT_ERR] = 8, [SIM_FBIT_SQD] = 5, [SIM_FBIT_SMALL_RQ] = 6,
	[SIM_FBIT_EVENTS] = 4, [SIM_FBIT_LOOPBACK] = 5, [SIM_FBIT_REMOTE_MEM] = 5, [SIM_FBIT_STALL] = 6,
	[SIM_FBIT_NO_MBUF] = 12, [SIM_FBIT_DEREG] = 10, [SIM_FBIT_RECONNECT] = 4, [SIM_FBIT_ENGINES] = 5,
	[SIM_FBIT_SRQ] = 4, [SIM_FBIT_CQ_SMALL] = 20, [SIM_FBIT_UNRELIABLE] = 3, [SIM_FBIT_HOSTILE] = 12,
	[SIM_FBIT_WINDOWS] = 3, [SIM_FBIT_ANY] = 2, [SIM_FBIT_QUEUE] = 8,
	[SIM_FBIT_DEATH] = 25, [SIM_FBIT_CQ_GROW] = 4,
};

/* Lengths and op counts so that a usual seed moves about a megabyte. */
static const struct {
	uint32_t weight, max_len, ops;
} sizes[] = {
	{ 30, 256, 80 }, { 30, 4 * 1024, 60 }, { 24, 16 * 1024, 40 }, { 12, 64 * 1024, 24 }, { 3, 256 * 1024, 10 },
	{ 1, 1024 * 1024, 4 },
};

/* The endpoints that go without something: each on its own, in one of @p one_in seeds. */
static uint32_t
endpoints_without(struct rng *r, uint32_t one_in)
{
	return rng_one_in(r, one_in) ? (uint32_t)rng_below(r, 1u << SIM_MAX_EPS) : 0;
}

static void
features_draw(struct sim_config *c)
{
	struct rng selective = rng_stream(c->seed, STREAM_SELECTIVE), r = rng_stream(c->seed, STREAM_FEATURES);
	uint32_t selective_off = endpoints_without(&selective, 2), credits_off = endpoints_without(&r, 4);
	uint32_t coalescing_off = endpoints_without(&r, 4), probe_off = endpoints_without(&r, 4);

	for (uint32_t i = 0; i < SIM_MAX_EPS; i++) {
		c->features[i] = (struct tp_features){
			.selective_repeat = (selective_off >> i & 1) == 0,
			.credits = (credits_off >> i & 1) == 0,
			.ack_coalescing = (coalescing_off >> i & 1) == 0,
			.tail_loss_probe = (probe_off >> i & 1) == 0,
		};
	}
}

/*
 * A quarter of the seeds has pools with one to four items, or packets: QPs must go without what others have taken, and get it back
 * in the midst of what they do.
 */
static void
pools_draw(struct sim_config *c)
{
	struct rng r = rng_stream(c->seed, STREAM_POOLS);
	uint32_t *const sizes_of[] = { &c->pools.inflight_blocks, &c->pools.read_blocks, &c->pools.sge_blocks,
				       &c->pools.scoreboards, &c->pools.reorders, &c->pools.reorder_pkts };

	if (!rng_one_in(&r, 4))
		return;
	for (uint64_t n = rng_between(&r, 1, 4); n > 0; n--)
		*sizes_of[rng_below(&r, RTE_DIM(sizes_of))] = (uint32_t)rng_between(&r, 1, 4);
}

/*
 * The same for what copies of memory that isn't mapped need, in half of the seeds that have such memory. A QP may need three copies to go on, one of
 * each kind; of packets that wait there are as many as each share has in any case.
 */
static void
copy_pools_draw(struct sim_config *c)
{
	struct rng r = rng_stream(c->seed, STREAM_COPY_POOLS);

	if (!(c->faults & SIM_F_REMOTE_MEM) || !rng_one_in(&r, 2))
		return;
	if (!rng_one_in(&r, 3))
		c->pools.copy_jobs = (uint32_t)rng_between(&r, COPY_JOBS_LEAST, 2 * COPY_JOBS_LEAST);
	if (!rng_one_in(&r, 3))
		c->pools.copy_pkts = (uint32_t)rng_between(&r, COPY_PKTS_LEAST, 2 * COPY_PKTS_LEAST);
}

/* The same for received packets that wait for turns, in half of the seeds that have several shares. */
static void
rx_waits_draw(struct sim_config *c)
{
	struct rng r = rng_stream(c->seed, STREAM_RX_WAITS);

	if (c->nb_shares > 1 && rng_one_in(&r, 2))
		c->pools.rx_waits = (uint32_t)rng_between(&r, 1, 8);
}

/* A quarter of the seeds fetch QPs from memory before they are needed, as a transport of many QPs does. */
static void
cached_qps_draw(struct sim_config *c)
{
	struct rng r = rng_stream(c->seed, STREAM_CACHED_QPS);

	if (rng_one_in(&r, 4))
		c->limits.cached_qps = (uint16_t)rng_between(&r, 1, 5);
}

/* Half of the seeds have one to four limits of a few packets, QPs, or whatever it is. */
static void
limits_draw(struct sim_config *c)
{
	struct rng r = rng_stream(c->seed, STREAM_LIMITS);
	uint16_t *const limits[] = { &c->limits.tx_packets, &c->limits.local_packets, &c->limits.local_rounds, &c->limits.qp_budget,
				     &c->limits.turn_budget, &c->limits.turn_qps, &c->limits.rx_batch, &c->limits.touched_cqs,
				     &c->limits.deferred_cqs, &c->limits.owed_burst, &c->limits.copy_held, &c->limits.reorder_span,
				     &c->limits.cwnd };

	if (!rng_one_in(&r, 2))
		return;
	for (uint64_t n = rng_between(&r, 1, 4); n > 0; n--)
		*limits[rng_below(&r, RTE_DIM(limits))] = (uint16_t)rng_between(&r, 1, 5);
}

static void
ports_draw(struct sim_config *c)
{
	struct rng r = rng_stream(c->seed, STREAM_NB_PORTS);
	uint32_t i;

	if (rng_one_in(&r, 4))
		c->faults |= SIM_F_PORTS;
	for (i = 0; i < SIM_MAX_EPS; i++)
		c->nb_ports[i] = c->faults & SIM_F_PORTS ? (uint32_t)rng_between(&r, 1, SIM_MAX_PORTS) : 1;
}

/* Hundreds of thousands of packets in a message: what goes wrong with one of them is rarer, or the seed has no end. */
static void
huge_draw(struct sim_config *c)
{
	struct rng r = rng_stream(c->seed, STREAM_HUGE);

	if (!rng_one_in(&r, HUGE_ONE_IN) || c->harsh)
		return;
	c->faults |= SIM_F_HUGE;
	c->faults &= ~(uint64_t)(SIM_F_QUEUE | SIM_F_NO_MBUF);
	c->loss_ppm /= HUGE_RARER;
	c->dup_ppm /= HUGE_RARER;
	c->reorder_ppm /= HUGE_RARER;
	c->corrupt_ppm /= HUGE_RARER;
	c->burst_every_ns *= HUGE_RARER;
	c->partition_every_ns *= HUGE_RARER;
}

/* Where MADs get through in the end: whoever gives up has made a mistake. */
static void
cm_draw(struct sim_config *c)
{
	struct rng r = rng_stream(c->seed, STREAM_CM);

	if (rng_one_in(&r, CM_ONE_IN) && !c->harsh && !(c->faults & (SIM_F_DEATH | SIM_F_CQ_SMALL)))
		c->faults |= SIM_F_CM;
}

/* Hosts that are killed: what these go through is a restart, too. Copies by others, gigabytes and peers without rules are not in their journals. */
static void
crash_draw(struct sim_config *c)
{
	struct rng r = rng_stream(c->seed, STREAM_CRASHES);

	if (!rng_one_in(&r, CRASH_ONE_IN) || (c->faults & (SIM_F_RESTART | SIM_F_HOSTILE | SIM_F_HUGE)))
		return;
	c->faults |= SIM_F_CRASH | SIM_F_RESTART;
	if (rng_one_in(&r, 4))
		c->limits.journal_items = (uint16_t)rng_between(&r, 1, 5);
}

static void
pools_print(const struct sim_config *c, FILE *f)
{
	const struct tp_pool_sizes *p = &c->pools;

	if (p->inflight_blocks != 0 || p->read_blocks != 0 || p->sge_blocks != 0 || p->scoreboards != 0 || p->reorders != 0 ||
	    p->reorder_pkts != 0 || p->copy_jobs != 0 || p->copy_pkts != 0 || p->rx_waits != 0)
		fprintf(f, "  small pools (0: as always): in-flight blocks %u, read blocks %u, SGE blocks %u, scoreboards %u, "
			"reorder buffers %u, their packets %u, copies %u, packets that wait for them %u, for turns %u\n",
			p->inflight_blocks, p->read_blocks, p->sge_blocks, p->scoreboards, p->reorders, p->reorder_pkts, p->copy_jobs,
			p->copy_pkts, p->rx_waits);
}

static void
limits_print(const struct sim_config *c, FILE *f)
{
	const struct tp_limits *l = &c->limits;
	const struct {
		const char *name;
		uint16_t value;
	} all[] = { { "packets in TX vectors", l->tx_packets }, { "by reference", l->local_packets }, { "rounds of these", l->local_rounds },
		    { "a QP's budget", l->qp_budget }, { "a turn's budget", l->turn_budget }, { "QPs in a turn", l->turn_qps },
		    { "packets parsed", l->rx_batch }, { "CQs touched", l->touched_cqs }, { "events deferred", l->deferred_cqs },
		    { "events owed", l->owed_burst }, { "packets held for copies", l->copy_held }, { "PSNs beyond gaps", l->reorder_span },
		    { "packets in flight", l->cwnd },
		    { "QPs in a cache", l->cached_qps },
		    { "packets held for QPs on their way", l->held_packets },
		    { "completions in a journal", l->journal_items } };

	for (uint32_t i = 0; i < RTE_DIM(all); i++)
		if (all[i].value != 0)
			fprintf(f, "  small limit: %s %u\n", all[i].name, all[i].value);
}

static void
features_print(const struct sim_config *c, FILE *f)
{
	for (uint32_t i = 0; i < c->nb_eps; i++) {
		const struct tp_features *t = &c->features[i];

		if (!t->selective_repeat || !t->credits || !t->ack_coalescing || !t->tail_loss_probe)
			fprintf(f, "  endpoint %u without%s%s%s%s\n", i, t->selective_repeat ? "" : " selective repeat",
				t->credits ? "" : " credits", t->ack_coalescing ? "" : " ACK coalescing",
				t->tail_loss_probe ? "" : " tail loss probes");
	}
}

void
config_from_seed(struct sim_config *c, uint64_t seed, const struct sim_override *o)
{
	struct rng r = rng_stream(seed, STREAM_CONFIG), cc = rng_stream(seed, STREAM_CC),
		   xrc = rng_stream(seed, STREAM_XRC),
		   mcast = rng_stream(seed, STREAM_MCAST), apm = rng_stream(seed, STREAM_APM),
		   moderate = rng_stream(seed, STREAM_MODERATE), pkeys = rng_stream(seed, STREAM_PKEYS),
		   shares = rng_stream(seed, STREAM_NB_SHARES), late = rng_stream(seed, STREAM_LATE), restarts = rng_stream(seed, STREAM_RESTARTS),
		   moving = rng_stream(seed, STREAM_MOVING);
	unsigned int i, at;
	uint64_t lost, down_one_in;

	memset(c, 0, sizeof(*c));
	c->seed = seed;
	if (rng_one_in(&cc, 3))
		c->cc = (enum tp_cc)rng_between(&cc, TP_CC_NONE + 1, TP_CC_ALGORITHMS - 1);
	if (rng_one_in(&xrc, XRC_ONE_IN))
		c->faults |= SIM_F_XRC;
	features_draw(c);
	pools_draw(c);
	limits_draw(c);
	ports_draw(c);
	if (rng_one_in(&shares, 2))
		c->nb_shares = (uint32_t)rng_between(&shares, 1, SIM_MAX_SHARES);
	rx_waits_draw(c);
	cached_qps_draw(c);
	for (i = 0; i < SIM_NB_FAULTS; i++)
		if (fault_one_in[i] != 0 && rng_one_in(&r, fault_one_in[i]))
			c->faults |= UINT64_C(1) << i;
	copy_pools_draw(c);
	if ((c->faults & SIM_F_UNRELIABLE) && rng_one_in(&mcast, 2))
		c->faults |= SIM_F_MCAST;
	if ((c->faults & SIM_F_EVENTS) && rng_one_in(&moderate, 2))
		c->faults |= SIM_F_MODERATE;
	if (rng_one_in(&pkeys, 4))
		c->faults |= SIM_F_PKEYS;
	if (rng_one_in(&pkeys, 4))
		c->faults |= SIM_F_GSI;
	if ((c->faults & SIM_F_RECONNECT) && rng_one_in(&late, 2))
		c->faults |= SIM_F_STALE;
	if (rng_one_in(&apm, APM_ONE_IN))
		c->faults |= SIM_F_APM;
	c->faults |= SIM_F_FOREIGN;
	if (rng_one_in(&restarts, 4) && !(c->faults & SIM_F_HOSTILE))
		c->faults |= SIM_F_RESTART;
	if ((c->faults & SIM_F_ENGINES) && !rng_one_in(&moving, 3))
		c->faults |= SIM_F_MOVES;
	if (rng_one_in(&moving, 4))
		c->limits.held_packets = (uint16_t)rng_between(&moving, 1, 4);
	/* One in five is a clean network, so that what must not happen there is seen. */
	if (rng_one_in(&r, 5))
		c->faults &= ~(uint64_t)(SIM_F_LINK | SIM_F_STALL);

	c->nb_eps = (uint32_t)rng_between(&r, 2, SIM_MAX_EPS);
	c->nb_conns = (uint32_t)rng_between(&r, 1, 3);
	if (rng_one_in(&r, 10))
		c->nb_conns = SIM_MAX_CONNS;
	at = (unsigned int)rng_below(&r, 100);
	for (i = 0; at >= sizes[i].weight; i++)
		at -= sizes[i].weight;
	c->max_len = sizes[i].max_len;
	if (c->max_len > 512 * 1024 && c->nb_conns > 3)
		c->nb_conns = 3; /* what the arena holds */
	c->ops = (uint32_t)rng_between(&r, 1, 2 * (uint64_t)sizes[i].ops);
	c->max_mtu = (uint32_t)rng_between(&r, UROCE_MTU_256, UROCE_MTU_4096);

	c->delay_ns = rng_between(&r, 200, 20000);
	c->jitter_ns = (c->faults & SIM_F_JITTER) ? rng_between(&r, 10, 20000) : 0;
	c->gbps = (uint32_t)rng_between(&r, 10, 100);
	c->harsh = rng_one_in(&r, 6);
	/*
	 * Unless harsh: a request and its answer fail together less than one time in six, and down times are far
	 * shorter than the ACK timeout, so that seven retries practically never run out (conn.c has the timeouts).
	 */
	lost = c->harsh ? 200000 : 20000;
	down_one_in = c->harsh ? 4 : 50;
	c->loss_ppm = (uint32_t)rng_between(&r, 100, lost);
	c->dup_ppm = (uint32_t)rng_between(&r, 100, 100000);
	c->reorder_ppm = (uint32_t)rng_between(&r, 100, 100000);
	/* Often no more than a few packets, so that they overtake one another within a turn. */
	c->reorder_ns = rng_between(&r, 100, rng_one_in(&r, 2) ? 2000 : 30000);
	c->corrupt_ppm = (uint32_t)rng_between(&r, 100, lost);
	c->ecn_ppm = (uint32_t)rng_between(&r, 100, 300000);
	c->burst_ns = rng_between(&r, 1000, c->harsh ? 200000 : 40000);
	c->burst_every_ns = c->burst_ns * rng_between(&r, down_one_in, 10 * down_one_in);
	c->partition_ns = rng_between(&r, 10000, c->harsh ? 20 * SIM_NS_PER_MS : 200000);
	c->partition_every_ns = c->partition_ns * rng_between(&r, down_one_in, 10 * down_one_in);
	c->poll_ns = (c->faults & SIM_F_SLOW_POLL) ? rng_between(&r, 20000, 500000) : rng_between(&r, 500, 5000);
	c->wire_check = rng_one_in(&r, 4);
	c->death_ns = rng_between(&r, 10000, 1000000);
	c->dead_ep = (uint32_t)rng_below(&r, c->nb_eps);
	c->port_gbps = 1 + (uint32_t)rng_below(&r, c->gbps);
	/* Up to half a millisecond: full queues don't look like silence. */
	c->queue_bytes = (uint32_t)rng_between(&r, 32 * 1024, 32 * 1024 + c->port_gbps * UINT64_C(62500));
	c->mark_bytes = (uint32_t)rng_below(&r, c->queue_bytes / 2);
	c->reorder_once = !rng_one_in(&r, 4);

	huge_draw(c);
	cm_draw(c);
	crash_draw(c);

	c->faults &= o->faults_mask;
	if (!(c->faults & SIM_F_RESTART))
		c->faults &= ~(uint64_t)SIM_F_CRASH;
	/* What finds no room is lost. */
	if (!(c->faults & SIM_F_LOSS) || !(c->faults & SIM_F_MOVES))
		c->limits.held_packets = 0;
	for (i = 0; i < SIM_MAX_EPS && !(c->faults & SIM_F_PORTS); i++)
		c->nb_ports[i] = 1;
	c->ordered = (c->faults & (SIM_F_REORDER | SIM_F_DUP | SIM_F_STALE)) == 0;
	/* What finds no room while others wait for a copy is lost, and so are copies for members of a group on the sender's host. */
	c->lossless = (c->faults & (SIM_F_LINK | SIM_F_STALL)) == 0 && c->limits.copy_held == 0 && c->pools.copy_pkts == 0 &&
		      (c->limits.tx_packets == 0 || !(c->faults & SIM_F_MCAST));
	if (o->ops != 0 && o->ops < c->ops)
		c->ops = o->ops;
	if (o->conns != 0 && o->conns < c->nb_conns)
		c->nb_conns = o->conns;
}

void
config_print(const struct sim_config *c, FILE *f)
{
	unsigned int i;

	fprintf(f, "  --seed %" PRIu64 " --faults 0x%" PRIx64 " --ops %u --conns %u\n  faults:", c->seed, c->faults,
		c->ops, c->nb_conns);
	for (i = 0; i < SIM_NB_FAULTS; i++)
		if (c->faults & UINT64_C(1) << i)
			fprintf(f, " %s", fault_name(i));
	fprintf(f, "%s\n  %u endpoints, messages to %u bytes, MTU to %u, %u Gb/s, delay %" PRIu64 " ns\n",
		c->faults == 0 ? " none" : "", c->nb_eps, c->max_len, 128u << c->max_mtu, c->gbps, c->delay_ns);
	features_print(c, f);
	pools_print(c, f);
	limits_print(c, f);
	if (c->nb_shares != 0)
		fprintf(f, "  %u shares\n", c->nb_shares);
	if (c->cc != TP_CC_NONE)
		fprintf(f, "  congestion control: %s\n", tp_cc_name(c->cc));
	if (c->faults & SIM_F_LINK)
		fprintf(f, "  ppm: loss %u, dup %u, reorder %u, corrupt %u%s\n", c->loss_ppm, c->dup_ppm,
			c->reorder_ppm, c->corrupt_ppm, c->harsh ? "; harsh: retries may run out" : "");
}
