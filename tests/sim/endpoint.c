/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: a host, its engines and CQs, and what they give to each other and to the network. */
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "transport/core/copy_priv.h"

enum {
	STREAM_EP = 16,
	STREAM_COPIES = 48,
	STREAM_LOCAL = 80,
	RX_BURST = 32,
	MR_TABLE_SIZE = 512,
	AH_TABLE_SIZE = 256,
	/* Every QP's SQ and RQ, both ends of every connection on one endpoint: 2 * 6 * (64 + 64), and SRQs. */
	CQ_ORDER = 11,
	CQ_ORDER_MIN = 2,
	CQ_ORDER_SMALL = 5,
	SRQ_MAX_LEN = 16 * 1024, /* what the arena holds */
};
#define TURN_NS 200          /* what a turn of an engine costs, and each packet in it */
#define PACKET_NS 40
#define NIC_QUEUE_NS (2 * SIM_NS_PER_MS)
#define TX_BLOCK_NS 100000
#define COPY_NS 5000         /* what a copy of memory that isn't mapped takes, */
#define COPY_SLOW_NS (20 * SIM_NS_PER_MS) /* and one in COPY_SLOW at most */
#define COPY_SLOW 50

/* ---- Packets ---- */

static void
burst_add(struct sim_burst *b, struct rte_mbuf *m)
{
	if (b->n == b->max) {
		b->max = b->max == 0 ? 256 : 2 * b->max;
		b->pkts = realloc(b->pkts, b->max * sizeof(*b->pkts));
		if (b->pkts == NULL)
			abort();
	}
	b->pkts[b->n++] = m;
}

void
burst_free(struct sim_burst *b)
{
	uint32_t i;

	for (i = 0; i < b->n; i++)
		rte_pktmbuf_free(b->pkts[i]);
	free(b->pkts);
	memset(b, 0, sizeof(*b));
}

/* Give up to a burst of what waits to the transport. */
static uint16_t
ep_receive(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e, struct sim_burst *b, bool trusted)
{
	struct transport *tp = e->tp;
	uint16_t n = 0, left, i, port;
	struct rte_mbuf *pkts[RX_BURST];

	if (b->n == 0)
		return 0;
	/* Those that came next by one port; of loopback's the transport looks at each. */
	port = b->pkts[0]->port;
	while (n < RX_BURST && n < b->n && (trusted || b->pkts[n]->port == port))
		n++;
	memcpy(pkts, b->pkts, n * sizeof(pkts[0]));
	b->n -= n;
	memmove(b->pkts, b->pkts + n, b->n * sizeof(pkts[0]));
	for (i = 0; i < n && !trusted; i++) {
		tally_arrived(e, pkts[i]);
		sent_arrives(w, ep->id, tp, pkts[i]);
	}
	left = transport_rx(tp, trusted ? 0 : port, pkts, n, trusted, w->now_ns);
	if (left != 0 && !(w->cfg.faults & SIM_F_CORRUPT))
		sim_fail(w, "endpoint %u: transport_rx() took %u good packets for something else", ep->id, left);
	for (i = 0; i < left; i++)
		rte_pktmbuf_free(pkts[i]);
	return n;
}

void
endpoint_drain(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e)
{
	while (e->rx.n != 0)
		ep_receive(w, ep, e, &e->rx, false);
	while (e->loop.n != 0)
		ep_receive(w, ep, e, &e->loop, true);
}

static uint16_t
port_flush(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e, uint16_t port)
{
	struct tp_txvec *v = transport_tx(e->tp, port);
	uint16_t take = v->n, i;

	if (v->n > TP_TX_MAX) {
		sim_fail(w, "endpoint %u: %u packets in a TX vector of %u", ep->id, v->n, TP_TX_MAX);
		return 0;
	}
	if ((w->cfg.faults & SIM_F_SLOW_TX) && take != 0) {
		take = (uint16_t)rng_between(&ep->rng, 0, take);
		if (rng_one_in(&ep->rng, 100))
			ep->tx_blocked_until = w->now_ns + rng_below(&ep->rng, TX_BLOCK_NS);
		if (w->now_ns < ep->tx_blocked_until)
			take = 0;
	}
	/* A NIC takes no more than it can send soon. */
	if (take != 0 && link_busy_until(w, ep->id) > w->now_ns + NIC_QUEUE_NS)
		take = 0;
	for (i = 0; i < take; i++) {
		tally_sent(e, v->pkts[i]);
		mtus_check(w, ep, port, v->pkts[i]);
		link_send(w, ep->id, port, (int)(e - ep->engines), v->pkts[i]);
	}
	v->n -= take;
	memmove(v->pkts, v->pkts + take, v->n * sizeof(v->pkts[0]));
	if (v->n != 0)
		world_run_at(w, ep->id, w->now_ns + 1000);
	return take;
}

void
endpoint_flush(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e, uint16_t port)
{
	struct tp_txvec *v = transport_tx(e->tp, port);

	for (uint16_t i = 0; i < v->n; i++) {
		tally_sent(e, v->pkts[i]);
		link_send(w, ep->id, port, (int)(e - ep->engines), v->pkts[i]);
	}
	v->n = 0;
}

static uint16_t
ep_flush(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e)
{
	struct tp_txvec *v = transport_loop(e->tp);
	uint16_t take = 0, port, i;

	for (port = 0; port < ep->nb_ports; port++)
		take += port_flush(w, ep, e, port);
	for (i = 0; i < v->n; i++)
		burst_add(&e->loop, v->pkts[i]);
	take += v->n;
	v->n = 0;
	return take;
}

void
endpoint_end_turn(struct sim_world *w, struct sim_ep *ep, struct sim_engine *e)
{
	transport_run(e->tp, w->now_ns);
	ep_flush(w, ep, e);
}

/* ---- Copies of memory that isn't mapped ---- */

static bool
on_copy(void *arg, struct mem_job *job)
{
	struct sim_ep *ep = arg;
	struct sim_world *w = ep->w;
	uint64_t ns = rng_below(&ep->copy_rng, rng_one_in(&ep->copy_rng, COPY_SLOW) ? COPY_SLOW_NS : COPY_NS);

	if (!(w->cfg.faults & SIM_F_UNRELIABLE) && rng_one_in(&ep->copy_rng, COPY_SLOW))
		return false;
	job->fd = job->owner->mem_fd;
	job->epoch = ep->cuts;
	job->engine = container_of(job, struct tp_copy_job, m)->qp->tp;
	if (ep->copies_until < w->now_ns)
		ep->copies_until = w->now_ns;
	ep->copies_until += ns;
	world_event_put(w, (struct sim_event){ .at = ep->copies_until, .type = EV_COPY, .ep = ep->id, .job = job });
	return true;
}

void
endpoint_copied(struct sim_world *w, struct sim_ep *ep, struct mem_job *job)
{
	if (job->op != MEM_JOB_READ && job->epoch != ep->cuts)
		job->rc = ECANCELED;
	else
		mem_job_run(job);
	job->next = NULL;
	*ep->copied_end = job;
	ep->copied_end = &job->next;
	world_run_at(w, ep->id, w->now_ns);
}

static void
take_copied(struct sim_world *w, struct sim_ep *ep)
{
	struct mem_job *job, *next;

	for (job = ep->copied; job != NULL; job = next) {
		next = job->next;
		transport_copied(job->engine, job, w->now_ns);
	}
	ep->copied = NULL;
	ep->copied_end = &ep->copied;
}

void
endpoint_turn(struct sim_world *w, struct sim_ep *ep)
{
	struct sim_engine *e;
	uint32_t packets = 0;
	uint64_t next = UINT64_MAX, t;
	bool again = false;

	ep->run_at = UINT64_MAX;
	if ((w->cfg.faults & SIM_F_STALL) && rng_one_in(&ep->rng, 500)) {
		ep->stalled_until = w->now_ns + clock_stall_ns(w, ep);
		world_run_at(w, ep->id, ep->stalled_until);
		return;
	}
	take_copied(w, ep);
	if (ep->restarting) {
		if (restart_may(w, ep) && !ep->restarting)
			world_run_at(w, ep->id, ep->dark_until);
		return;
	}
	mtus_turn(w, ep);
	/* Loops raise completion events when other engines have had their turn; here that is one turn later. */
	for (e = ep->engines; e < ep->engines + ep->nb_engines; e++)
		transport_tell(e->tp);
	for (e = ep->engines; e < ep->engines + ep->nb_engines; e++) {
		crash_may(w, ep, e);
		packets += ep_receive(w, ep, e, &e->rx, false);
		if (!ep->crash.killed)
			packets += ep_receive(w, ep, e, &e->loop, true);
		if (!ep->crash.killed)
			again |= transport_run(e->tp, w->now_ns) != 0;
		if (crash_killed(w, ep)) {
			world_run_at(w, ep->id, ep->dark_until);
			return;
		}
		shares_check(w, ep, e);
		packets += ep_flush(w, ep, e);
	}
	ep->busy_until = w->now_ns + TURN_NS + PACKET_NS * (uint64_t)packets;
	for (e = ep->engines; e < ep->engines + ep->nb_engines; e++) {
		again |= e->rx.n != 0 || e->loop.n != 0 || transport_untold(e->tp);
		t = transport_next_timeout(e->tp);
		next = t < next ? t : next;
	}
	if (moves_turn(w, ep, &next)) {
		again = true;
	} else if (ep->move.step == 0 && restart_may(w, ep)) {
		if (!ep->restarting)
			world_run_at(w, ep->id, ep->dark_until);
		return;
	}
	world_run_at(w, ep->id, again ? ep->busy_until : next);
}

static bool
on_completion(void *arg, int channel, uint64_t cookie)
{
	struct sim_ep *ep = arg;
	struct sim_cq *c = (struct sim_cq *)(uintptr_t)cookie;

	if (ep->crash.killed)
		return true;
	if (c->ep != ep || !c->channel)
		sim_fail(ep->w, "an event of a CQ that has no channel");
	c->events++;
	return true;
}

static void
on_event(void *arg, const struct tp_event *ev)
{
	struct sim_ep *ep = arg;

	if (ev->cookie == SIM_HOSTILE_COOKIE || ep->crash.killed)
		return;
	crash_told(ep);
	if (ev->owner != ep)
		sim_fail(ep->w, "event %d with a foreign owner", ev->type);
	else if (ev->type == UROCE_EVENT_CQ_ERR)
		model_cq_error(ep->w, (struct sim_cq *)(uintptr_t)ev->cookie);
	else if (ev->type == UROCE_EVENT_SRQ_LIMIT_REACHED)
		srq_limit_event(ep->w, (struct sim_recvq *)(uintptr_t)ev->cookie);
	else
		model_event(ep->w, (struct sim_qp *)(uintptr_t)ev->cookie, ev->type);
}

/* A packet for a QP of another engine. */
static void
on_handoff(void *arg, unsigned int engine, uint16_t port, struct rte_mbuf *m, bool trusted)
{
	struct sim_ep *ep = arg;

	if (ep->crash.killed) {
		rte_pktmbuf_free(m);
		return;
	}
	if (engine >= ep->nb_engines || port >= ep->nb_ports) {
		sim_fail(ep->w, "endpoint %u: a packet for engine %u, port %u", ep->id, engine, port);
		rte_pktmbuf_free(m);
		return;
	}
	m->port = port;
	burst_add(trusted ? &ep->engines[engine].loop : &ep->engines[engine].rx, m);
}

/* What a NIC does that spreads flows over its queues without knowing which QP is whose: by destination QPN. */
static uint32_t
steer(const struct sim_ep *ep, struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t off = WIRE_ETH_BYTES + (p[WIRE_ETH_BYTES] >> 4 == 4 ? WIRE_IPV4_BYTES : WIRE_IPV6_BYTES) +
		       WIRE_UDP_BYTES;

	if (rte_pktmbuf_data_len(m) < off + WIRE_BTH_BYTES)
		return 0;
	return (wire_get24(p + off + 5) ^ (uint32_t)ep->w->cfg.seed) % ep->nb_engines;
}

void
endpoint_packet(struct sim_world *w, struct sim_ep *ep, struct rte_mbuf *m)
{
	burst_add(&ep->engines[steer(ep, m)].rx, m);
	world_run_at(w, ep->id, w->now_ns);
}

static bool
cq_make(struct sim_world *w, struct sim_ep *ep, struct sim_cq *c)
{
	struct cq_params p = { .channel = -1, .cookie = (uintptr_t)c, .owner = ep, .multi = ep->nb_engines > 1,
			       .number = (uint32_t)(c - ep->cqs) };
	uint32_t order = CQ_ORDER;

	if (w->cfg.faults & SIM_F_CQ_GROW)
		order = CQ_ORDER - (w->cfg.nb_conns <= SIM_MAX_CONNS / 2) - (w->cfg.nb_conns == 1);
	if ((w->cfg.faults & SIM_F_CQ_SMALL) && rng_one_in(&ep->rng, 3))
		order = (uint32_t)rng_between(&ep->rng, CQ_ORDER_MIN, CQ_ORDER_SMALL);
	c->ep = ep;
	c->ring = (struct ring){ .base = arena_get(w, sizeof(struct ring_cqe) << order), RING_SIZE(order, 5) };
	c->shared = (void *)arena_get(w, sizeof(*c->shared));
	c->stamps = rng_one_in(&ep->rng, 2) ? (void *)arena_get(w, sizeof(*c->stamps) << order) : NULL;
	if (c->ring.base == NULL || c->shared == NULL)
		return false;
	if ((w->cfg.faults & SIM_F_EVENTS) && !rng_one_in(&ep->rng, 4)) {
		c->channel = true;
		p.channel = 0;
	}
	p.ring = c->ring;
	p.shared = c->shared;
	p.stamps = c->stamps;
	if (cq_create(&p, &c->cq) != 0)
		return false;
	if ((w->cfg.faults & SIM_F_MODERATE) && c->channel)
		client_moderate(w, c);
	return true;
}

static bool
ep_queues(struct sim_world *w, struct sim_ep *ep)
{
	uint32_t i;

	ep->nb_cqs = (uint32_t)rng_between(&ep->rng, 1, SIM_MAX_CQS);
	for (i = 0; i < ep->nb_cqs; i++)
		if (!cq_make(w, ep, &ep->cqs[i]))
			return false;
	if ((w->cfg.faults & SIM_F_XRC) && w->cfg.max_len <= SRQ_MAX_LEN && !xrc_make(w, ep))
		return false;
	if ((w->cfg.faults & SIM_F_SRQ) == 0 || w->cfg.max_len > SRQ_MAX_LEN)
		return true;
	ep->nb_srqs = (uint32_t)rng_below(&ep->rng, SIM_MAX_SRQS + 1);
	for (i = 0; i < ep->nb_srqs; i++) {
		ep->srqs[i].ep = ep;
		if (!srq_make(w, &ep->srqs[i], &ep->engines[rng_below(&ep->rng, ep->nb_engines)], i))
			return false;
	}
	return true;
}

bool
endpoint_create(struct sim_world *w, uint32_t id)
{
	struct sim_ep *ep = &w->eps[id];
	struct transport_config tc = { .nb_ports = (uint16_t)w->cfg.nb_ports[id], .pools = w->cfg.pools, .limits = w->cfg.limits, .event = on_event, .notify = on_completion, .arg = ep };
	struct rng local;
	uint8_t *atomics;
	uint32_t i;

	ep->w = w;
	ep->id = id;
	ep->run_at = UINT64_MAX;
	ep->rng = rng_stream(w->cfg.seed, STREAM_EP + id);
	ep->copy_rng = rng_stream(w->cfg.seed, STREAM_COPIES + id);
	ep->copied_end = &ep->copied;
	restart_init(w, ep);
	moves_init(w, ep);
	mtus_init(w, ep);
	local = rng_stream(w->cfg.seed, STREAM_LOCAL + id);
	tc.by_reference = rng_one_in(&local, 2);
	tc.tell_later = rng_one_in(&local, 2);
	tc.copy = rng_one_in(&ep->copy_rng, 4) || (w->cfg.faults & SIM_F_CRASH) ? NULL : on_copy;
	w->copies |= tc.copy != NULL && (w->cfg.faults & SIM_F_REMOTE_MEM);
	ep->owner.mem_fd = sim_mem_fd;
	ep->sh.pool = w->pool;
	ep->sh.mrs = mr_table_create(MR_TABLE_SIZE, NULL, &(struct secret){ .key[0] = rng_next(&ep->rng) });
	ep->sh.qps = qp_table_create(SIM_QP_TABLE_SIZE, NULL, &(struct secret){ .key[0] = rng_next(&ep->rng) });
	ep->sh.ahs = ah_table_create(AH_TABLE_SIZE, NULL);
	ep->sh.mcasts = mcast_table_create(NULL);
	if (ep->sh.mrs == NULL || ep->sh.qps == NULL || ep->sh.ahs == NULL || ep->sh.mcasts == NULL)
		return false;
	ep->nb_ports = tc.nb_ports;
	partitions_table(ep);
	for (i = 0; i < ep->nb_ports; i++) {
		tc.ports[i] = (struct tp_port_config){ .cc = w->cfg.cc, .mbps = w->cfg.gbps * 1000,
						       .features = w->cfg.features[id] };
		memcpy(tc.ports[i].pkeys, ep->pkeys, sizeof(ep->pkeys));
	}
	tc.mad = (w->cfg.faults & (SIM_F_GSI | SIM_F_CM)) ? mads_received : NULL;
	tc.sh = ep->sh;
	ep->nb_engines = (w->cfg.faults & SIM_F_ENGINES) ? SIM_MAX_ENGINES : 1;
	tc.handoff = ep->nb_engines > 1 ? on_handoff : NULL;
	for (i = 0; i < ep->nb_engines; i++) {
		tc.engine = i;
		crash_config(w, ep, i, &tc);
		ep->engines[i].tp = transport_create(&tc);
		if (ep->engines[i].tp == NULL)
			return false;
		crash_hook(w, ep, ep->engines[i].tp);
	}
	if (!shares_make(w, ep))
		return false;
	atomics = arena_get(w, SIM_ATOMIC_WORDS * sizeof(uint64_t));
	if (atomics == NULL)
		return false;
	return ep_queues(w, ep) && connect_make(w, ep) &&
	       sim_mr_create(ep, &ep->pattern_mr, sim_pattern, SIM_PATTERN_BYTES, 1, 0, &ep->rng) == 0 &&
	       sim_mr_create(ep, &ep->atomic_mr, atomics, SIM_ATOMIC_WORDS * sizeof(uint64_t), 1,
			     UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_ATOMIC | UROCE_ACCESS_MW_BIND,
			     &ep->rng) == 0;
}

void
endpoint_destroy(struct sim_ep *ep)
{
	uint32_t i;

	connect_free(ep->w, ep);
	for (i = 0; i < SIM_MAX_SRQS; i++)
		srq_free(ep, &ep->srqs[i]);
	xrc_free(ep);
	shares_free(ep);
	for (i = 0; i < SIM_MAX_ENGINES; i++) {
		transport_destroy(ep->engines[i].tp);
		burst_free(&ep->engines[i].rx);
		burst_free(&ep->engines[i].loop);
	}
	for (i = 0; i < ep->nb_cqs; i++) {
		if (ep->cqs[i].cq == NULL)
			break;
		cq_destroy(ep->cqs[i].cq);
	}
	ah_table_destroy(ep->sh.ahs);
	mcast_table_destroy(ep->sh.mcasts);
	if (ep->pattern_mr.mr != NULL)
		mr_destroy(ep->sh.mrs, ep->pattern_mr.mr);
	if (ep->atomic_mr.mr != NULL)
		mr_destroy(ep->sh.mrs, ep->atomic_mr.mr);
	if (ep->sh.mrs != NULL)
		mr_table_destroy(ep->sh.mrs);
	if (ep->sh.qps != NULL)
		qp_table_destroy(ep->sh.qps);
}
