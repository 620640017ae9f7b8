/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fat tree of switches with k ports (Al-Fares et al., SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches, k^3/4
 * hosts. Switches store and forward. A switch's packets wait in queues, one for each of its outgoing links, that share its memory.
 *
 * A link is known by the time at which it will have sent all that waits for it. So its queue's length is known at any time without an event
 * for each departure, and a packet costs one event for each link.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../sim/ecn.h"
#include "base/mix.h"
#include "scale.h"

/* Outgoing links, H of each kind, those of a switch next to each other. */
enum { FROM_HOST, TO_HOST, EDGE_UP, AGG_DOWN, AGG_UP, CORE_DOWN, LINK_KINDS };
static struct {
	uint64_t *free_ps;      /* when it has sent all that waits */
	uint32_t *to;           /* node: hosts, then edge, aggregation and core switches */
	bool *down, *avoided;   /* avoided: routing knows that it is down */
	uint64_t ps_per_byte, buffer;
	uint32_t far_links[2];  /* from and to a host that is farther away */
	uint64_t far_ns;
	uint32_t edges, nb_down, nb_avoided;
	uint64_t salts[3];      /* of the hashes of edge, aggregation and (for failures) links */
} net;

static uint32_t
link_of(uint32_t kind, uint32_t i)
{
	return kind * w.nb_hosts + i;
}

double
net_ps_per_byte(void)
{
	return (double)net.ps_per_byte;
}

void
net_init(void)
{
	uint32_t h = w.nb_hosts, m = w.m, k = w.o.k, n = LINK_KINDS * h, edge0 = h, agg0, core0;

	net.edges = k * m;
	agg0 = h + net.edges;
	core0 = agg0 + net.edges;
	net.free_ps = calloc(n, sizeof(*net.free_ps));
	net.to = calloc(n, sizeof(*net.to));
	net.down = calloc(n, sizeof(*net.down));
	net.avoided = calloc(n, sizeof(*net.avoided));
	if (net.free_ps == NULL || net.to == NULL || net.down == NULL || net.avoided == NULL)
		abort();
	net.ps_per_byte = 8000 / w.o.gbps;
	net.buffer = (uint64_t)w.o.buffer_kb * 1024 * k;
	for (uint32_t i = 0; i < h; i++) {
		uint32_t sw = i / m, port = i % m; /* of edge and aggregation switches */

		net.to[link_of(FROM_HOST, i)] = edge0 + sw;
		net.to[link_of(TO_HOST, i)] = i;
		net.to[link_of(EDGE_UP, i)] = agg0 + sw / m * m + port;
		net.to[link_of(AGG_DOWN, i)] = edge0 + sw / m * m + port;
		net.to[link_of(AGG_UP, i)] = core0 + sw % m * m + port;
		net.to[link_of(CORE_DOWN, i)] = agg0 + i % k * m + i / k / m;
	}
	for (uint32_t i = 0; i < 3; i++)
		net.salts[i] = rng_next(&w.net_rng);
}

uint32_t
net_hops(uint32_t a, uint32_t b)
{
	return a / w.m == b / w.m ? 2 : a / w.m / w.m == b / w.m / w.m ? 4 : 6;
}

void
net_far(uint32_t host)
{
	net.far_links[0] = link_of(FROM_HOST, host);
	net.far_links[1] = link_of(TO_HOST, host);
	net.far_ns = (uint64_t)(w.o.far_us * 1e3);
}

static uint64_t
queue_bytes(uint32_t link)
{
	uint64_t now_ps = w.now * 1000;

	return net.free_ps[link] > now_ps ? (net.free_ps[link] - now_ps) / net.ps_per_byte : 0;
}

static uint64_t
queues_bytes(uint32_t first, uint32_t n)
{
	uint64_t now_ps = w.now * 1000, ps = 0;

	for (uint32_t i = first; i < first + n; i++)
		ps += net.free_ps[i] > now_ps ? net.free_ps[i] - now_ps : 0;
	return ps / net.ps_per_byte;
}

/* @return bytes in the memory of the switch that has this outgoing link. */
static uint64_t
switch_bytes(uint32_t link)
{
	uint32_t kind = link / w.nb_hosts, i = link % w.nb_hosts;

	if (kind == CORE_DOWN)
		return queues_bytes(link - i % w.o.k, w.o.k);
	i -= i % w.m;
	if (kind == TO_HOST || kind == EDGE_UP)
		return queues_bytes(link_of(TO_HOST, i), w.m) + queues_bytes(link_of(EDGE_UP, i), w.m);
	return queues_bytes(link_of(AGG_DOWN, i), w.m) + queues_bytes(link_of(AGG_UP, i), w.m);
}

static void
leaves(struct sc_pkt *p, uint32_t link)
{
	uint64_t now_ps = w.now * 1000, ps = (p->bytes + SC_WIRE_BYTES) * net.ps_per_byte, wait_ps, at;

	if (net.free_ps[link] < now_ps)
		net.free_ps[link] = now_ps;
	/* What is urgent waits only for the packet that is being sent, and the others wait for it. */
	wait_ps = net.free_ps[link] - now_ps;
	if (p->urgent && wait_ps > (w.o.mtu + 2 * SC_WIRE_BYTES) * net.ps_per_byte)
		wait_ps = (w.o.mtu + 2 * SC_WIRE_BYTES) * net.ps_per_byte;
	net.free_ps[link] += ps;
	at = now_ps + wait_ps + ps;
	p->ev.where = link;
	event_add(&p->ev, (at + 999) / 1000 + w.o.prop_ns + (link == net.far_links[0] || link == net.far_links[1] ? net.far_ns : 0));
}

/* RED on the queue's present length, as in DCQCN's paper (section 3.1). */
static bool
marks(uint64_t queue)
{
	double kb = (double)queue / 1024, prob;

	if (kb <= w.o.kmin_kb)
		return false;
	prob = kb >= w.o.kmax_kb ? 1 : w.o.pmax * (kb - w.o.kmin_kb) / (w.o.kmax_kb - w.o.kmin_kb);
	return rng_chance(&w.net_rng, (uint32_t)(prob * 1e6));
}

/* A queue may be as long as alpha times what is free (dynamic thresholds, Choudhury and Hahne, 1998). */
static void
enqueue(struct sc_pkt *p, uint32_t link)
{
	uint64_t queue = queue_bytes(link), used = switch_bytes(link), left = used < net.buffer ? net.buffer - used : 0;

	if (queue > w.s.max_queue)
		w.s.max_queue = queue;
	if (p->bytes > left || (double)(queue + p->bytes) > w.o.alpha * (double)left) {
		w.s.dropped++;
		pkt_put(p);
		return;
	}
	if (p->ect && marks(queue)) {
		ecn_mark_ce(p->frame);
		w.s.marked++;
	}
	leaves(p, link);
}

/* ---- Routing ---- */
static bool
avoided(uint32_t kind, uint32_t i)
{
	return net.avoided[link_of(kind, i)];
}

/* Whether aggregation switch @p g of a pod leads to host @p dst of another one by core switch @p c of its. */
static bool
core_leads(uint32_t g, uint32_t c, uint32_t dst)
{
	uint32_t pod = dst / w.m / w.m, a = g % w.m;

	return !avoided(AGG_UP, g * w.m + c) && !avoided(CORE_DOWN, (a * w.m + c) * w.o.k + pod) &&
	       !avoided(AGG_DOWN, (pod * w.m + a) * w.m + dst / w.m % w.m);
}

static bool
agg_leads(uint32_t edge, uint32_t a, uint32_t dst)
{
	uint32_t pod = edge / w.m;

	if (avoided(EDGE_UP, edge * w.m + a))
		return false;
	if (dst / w.m / w.m == pod)
		return !avoided(AGG_DOWN, (pod * w.m + a) * w.m + dst / w.m % w.m);
	for (uint32_t c = 0; c < w.m; c++)
		if (core_leads(pod * w.m + a, c, dst))
			return true;
	return false;
}

/* ECMP: which of the ways up. A switch's hash has its own salt, or all flows that meet at a switch would take the same way on. */
static uint32_t
way_up(const struct sc_pkt *p, uint32_t sw, bool agg)
{
	uint32_t hash = w.o.ecmp ? (uint32_t)mix64(p->hash ^ net.salts[agg] ^ (uint64_t)sw << 32) : 0, ways[64], n = 0;

	if (net.nb_avoided == 0)
		return hash % w.m;
	for (uint32_t i = 0; i < w.m; i++)
		if (agg ? core_leads(sw, i, p->dst) : agg_leads(sw, i, p->dst))
			ways[n++] = i;
	return n != 0 ? ways[hash % n] : hash % w.m;
}

static uint32_t
route(const struct sc_pkt *p, uint32_t node)
{
	uint32_t sw = node - w.nb_hosts, m = w.m, to_edge = p->dst / m;

	if (sw < net.edges)
		return to_edge == sw ? link_of(TO_HOST, p->dst) : link_of(EDGE_UP, sw * m + way_up(p, sw, false));
	sw -= net.edges;
	if (sw < net.edges)
		return to_edge / m == sw / m ? link_of(AGG_DOWN, sw * m + to_edge % m) : link_of(AGG_UP, sw * m + way_up(p, sw, true));
	return link_of(CORE_DOWN, (sw - net.edges) * w.o.k + to_edge / m);
}

/* ---- Packets ---- */
uint32_t
net_backlog(uint32_t host)
{
	return (uint32_t)queue_bytes(link_of(FROM_HOST, host));
}

/* The flow of a frame with IPv4: its addresses and UDP source port. */
static void
flow(struct sc_pkt *p)
{
	const uint8_t *ip = p->frame + WIRE_ETH_BYTES, *udp = ip + WIRE_IPV4_BYTES;

	p->src = wire_get32(ip + 12) & 0xffffff;
	p->dst = wire_get32(ip + 16) & 0xffffff;
	p->hash = (uint32_t)mix64((uint64_t)p->src << 40 ^ (uint64_t)p->dst << 16 ^ wire_get16(udp));
}

void
net_send(uint32_t host, const uint8_t *frame, uint16_t bytes)
{
	struct sc_pkt *p = pkt_get();

	p->bytes = bytes;
	p->kept = bytes <= SC_KEPT_BYTES ? bytes : SC_HEAD_BYTES;
	memcpy(p->frame, frame, p->kept);
	flow(p);
	p->ect = ecn_capable(frame);
	p->urgent = frame[WIRE_ETH_BYTES + WIRE_IPV4_BYTES + WIRE_UDP_BYTES] == WIRE_OPCODE_CNP;
	p->ev.kind = SC_ARRIVES;
	w.s.sent++;
	leaves(p, link_of(FROM_HOST, host));
}

void
net_arrives(struct sc_pkt *p)
{
	uint32_t node = net.to[p->ev.where];

	if (net.nb_down != 0 && net.down[p->ev.where]) {
		w.s.dropped_links++;
		pkt_put(p);
	} else if (node >= w.nb_hosts) {
		enqueue(p, route(p, node));
	} else {
		w.s.arrived++;
		host_receives(node, p);
	}
}

/* ---- Failures ---- */
/* Both directions of the i-th failing link between switches. */
static void
failing(struct rng *r, uint32_t link[2])
{
	uint32_t i = (uint32_t)rng_below(r, w.nb_hosts), sw = i / w.m, port = i % w.m;

	if (rng_one_in(r, 2)) {
		link[0] = link_of(EDGE_UP, i);
		link[1] = link_of(AGG_DOWN, (sw / w.m * w.m + port) * w.m + sw % w.m);
	} else {
		link[0] = link_of(AGG_UP, i);
		link[1] = link_of(CORE_DOWN, (sw % w.m * w.m + port) * w.o.k + sw / w.m);
	}
}

void
net_links(uint32_t step)
{
	struct rng r = { .s = net.salts[2] };
	uint32_t link[2];

	for (uint32_t i = 0; i < w.o.fail; i++) {
		failing(&r, link);
		for (uint32_t j = 0; j < 2; j++) {
			if (step % 2 == 0)
				net.down[link[j]] = step == 0;
			else
				net.avoided[link[j]] = step == 1;
		}
	}
	if (step % 2 == 0)
		net.nb_down = step == 0 ? w.o.fail : 0;
	else
		net.nb_avoided = step == 1 ? w.o.fail : 0;
}
