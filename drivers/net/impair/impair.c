/* SPDX-License-Identifier: BSD-3-Clause */
#include "impair.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_spinlock.h>

#include "wire/wire.h"

/** A packet under way. */
struct held {
	uint64_t due_ns;
	uint64_t order; /**< of arrival: packets due at the same time stay in order */
	struct rte_mbuf *m;
};

/** Packets under way to one queue: a binary heap, earliest first. */
struct held_queue {
	uint32_t n;
	struct held heap[IMPAIR_HELD_MAX];
};

struct impair {
	rte_spinlock_t lock;
	struct impair_params p;
	struct impair_counters c;
	uint64_t rng;
	bool losing;           /**< inside a run of losses */
	uint64_t order;
	uint64_t link_free_ns; /**< when the rate-limited link has sent what it has */
	uint64_t rule_matches[IMPAIR_RULES_MAX];
	uint64_t tsc_hz;
	uint16_t port_id, nb_queues;
	bool hooked;
	const struct rte_eth_rxtx_callback *cb[IMPAIR_QUEUES_MAX];
	struct held_queue queues[];
};

/** splitmix64: small, and every seed is good, 0 too. */
static uint64_t
rng_next(struct impair *im)
{
	uint64_t z = im->rng += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static double
rng_unit(struct impair *im)
{
	return (double)(rng_next(im) >> 11) * 0x1p-53;
}

static bool
chance(struct impair *im, double probability)
{
	return probability > 0 && rng_unit(im) < probability;
}

static bool
before(const struct held *a, const struct held *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void
heap_push(struct held_queue *q, struct held h)
{
	uint32_t i = q->n++;

	while (i > 0 && before(&h, &q->heap[(i - 1) / 2])) {
		q->heap[i] = q->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	q->heap[i] = h;
}

static struct rte_mbuf *
heap_pop(struct held_queue *q)
{
	struct rte_mbuf *m = q->heap[0].m;
	struct held last = q->heap[--q->n];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < q->n) {
		if (child + 1 < q->n && before(&q->heap[child + 1], &q->heap[child]))
			child++;
		if (!before(&q->heap[child], &last))
			break;
		q->heap[i] = q->heap[child];
		i = child;
	}
	q->heap[i] = last;
	return m;
}

/** @return the IP header of a frame, *@p left its bytes and *@p version 4 or 6; NULL if it isn't IP. */
static uint8_t *
find_ip(uint8_t *frame, uint32_t len, uint32_t *left, unsigned int *version)
{
	uint32_t off = WIRE_ETH_BYTES;
	uint16_t type;

	if (len < WIRE_ETH_BYTES + WIRE_VLAN_BYTES)
		return NULL;
	type = wire_get16(frame + 12);
	if (type == WIRE_ETHERTYPE_VLAN) {
		type = wire_get16(frame + 16);
		off += WIRE_VLAN_BYTES;
	}
	*left = len - off;
	*version = type == WIRE_ETHERTYPE_IPV4 ? 4 : type == WIRE_ETHERTYPE_IPV6 ? 6 : 0;
	if ((*version == 4 && *left >= WIRE_IPV4_BYTES) || (*version == 6 && *left >= WIRE_IPV6_BYTES))
		return frame + off;
	return NULL;
}

/** @return the BTH of a RoCE v2 frame or NULL. */
static const uint8_t *
find_bth(uint8_t *frame, uint32_t len)
{
	uint32_t left, ip_bytes;
	unsigned int version;
	uint8_t *ip = find_ip(frame, len, &left, &version);

	if (ip == NULL)
		return NULL;
	ip_bytes = version == 4 ? WIRE_IPV4_BYTES : WIRE_IPV6_BYTES;
	if (left < ip_bytes + WIRE_UDP_BYTES + WIRE_BTH_BYTES || ip[version == 4 ? 9 : 6] != 17 ||
	    wire_get16(ip + ip_bytes + 2) != WIRE_UDP_PORT)
		return NULL;
	return ip + ip_bytes + WIRE_UDP_BYTES;
}

/** Set congestion experienced, if the packet says it is ECN-capable. @return true if it was marked. */
static bool
mark_ce(struct rte_mbuf *m)
{
	uint32_t left, sum;
	unsigned int version;
	uint8_t *ip = find_ip(rte_pktmbuf_mtod(m, uint8_t *), rte_pktmbuf_data_len(m), &left, &version);

	if (ip == NULL)
		return false;
	if (version == 6) {
		if ((ip[1] >> 4 & 3) == 0)
			return false;
		ip[1] |= 0x30;
		return true;
	}
	if ((ip[1] & 3) == 0)
		return false;
	/* RFC 1624: HC' = ~(~HC + ~m + m') */
	sum = (uint16_t)~wire_get16(ip + 10) + (uint16_t)~wire_get16(ip);
	ip[1] |= 3;
	sum += wire_get16(ip);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	wire_put16(ip + 10, (uint16_t)~sum);
	return true;
}

static void
flip_bit(struct impair *im, struct rte_mbuf *m)
{
	uint32_t bits = rte_pktmbuf_data_len(m) * 8;
	uint32_t bit;

	if (bits == 0)
		return;
	bit = (uint32_t)(rng_next(im) % bits);
	rte_pktmbuf_mtod(m, uint8_t *)[bit / 8] ^= (uint8_t)(1 << (bit % 8));
	im->c.corrupted++;
}

/** @return the actions, one bit each, of the rules that hit this packet. */
static unsigned int
match_rules(struct impair *im, struct rte_mbuf *m)
{
	const uint8_t *bth = im->p.nb_rules > 0 ? find_bth(rte_pktmbuf_mtod(m, uint8_t *), rte_pktmbuf_data_len(m)) : NULL;
	unsigned int hit = 0;

	for (unsigned int i = 0; bth != NULL && i < im->p.nb_rules; i++) {
		const struct impair_rule *r = &im->p.rules[i];
		int64_t psn = wire_get24(bth + 9);
		uint64_t match;

		if ((r->opcode >= 0 && r->opcode != bth[0]) || (r->qpn >= 0 && r->qpn != wire_get24(bth + 5)) ||
		    (r->psn_min >= 0 && (psn < r->psn_min || psn > r->psn_max)))
			continue;
		match = im->rule_matches[i]++;
		if (match < r->skip || (r->count > 0 && match >= r->skip + r->count))
			continue;
		hit |= 1u << r->action;
		im->c.rule_hits++;
		im->c.rules[i]++;
	}
	return hit;
}

/** Gilbert: runs of losses of mean length `burst`, so that `loss` of all packets are lost. */
static bool
is_lost(struct impair *im)
{
	const struct impair_params *p = &im->p;

	if (p->burst <= 1 || p->loss >= 1)
		return chance(im, p->loss);
	if (im->losing)
		im->losing = !chance(im, 1 / p->burst);
	else
		im->losing = chance(im, p->loss / (p->burst * (1 - p->loss)));
	return im->losing;
}

/** Put a packet on the link. */
static void
transmit(struct impair *im, struct held_queue *q, struct rte_mbuf *m, bool extra_delay, uint64_t now_ns)
{
	const struct impair_params *p = &im->p;
	uint64_t due = now_ns;

	if (p->rate_mbps > 0) {
		uint64_t bits = (rte_pktmbuf_pkt_len(m) + 24) * 8; /* preamble, FCS, gap */
		double packet_ns = (double)bits * 1000 / p->rate_mbps;
		uint64_t waiting;

		if (im->link_free_ns < now_ns)
			im->link_free_ns = now_ns;
		waiting = (uint64_t)((double)(im->link_free_ns - now_ns) / packet_ns);
		if (waiting >= p->queue) {
			im->c.queue_dropped++;
			rte_pktmbuf_free(m);
			return;
		}
		if (p->ecn_queue > 0 && waiting >= p->ecn_queue && mark_ce(m))
			im->c.ecn_marked++;
		im->link_free_ns += (uint64_t)packet_ns;
		due = im->link_free_ns;
	}
	due += (uint64_t)(p->delay_us * 1000);
	if (p->jitter_us > 0)
		due += (uint64_t)(p->jitter_us * 1000 * rng_unit(im));
	if (extra_delay) {
		due += (uint64_t)(p->gap_us * 1000);
		im->c.reordered++;
	}
	if (due > now_ns)
		im->c.delayed++;
	if (q->n == IMPAIR_HELD_MAX) {
		im->c.held_dropped++;
		rte_pktmbuf_free(m);
		return;
	}
	heap_push(q, (struct held){ .due_ns = due, .order = im->order++, .m = m });
}

static void
take(struct impair *im, struct held_queue *q, struct rte_mbuf *m, uint64_t now_ns)
{
	const struct impair_params *p = &im->p;
	unsigned int hit = match_rules(im, m);
	struct rte_mbuf *copy = NULL;

	im->c.received++;
	if (is_lost(im) || hit & 1u << IMPAIR_DROP) {
		im->c.lost++;
		rte_pktmbuf_free(m);
		return;
	}
	if (chance(im, p->dup) || hit & 1u << IMPAIR_DUP) {
		copy = rte_pktmbuf_copy(m, m->pool, 0, UINT32_MAX);
		if (copy == NULL)
			im->c.copy_failed++;
		else
			im->c.duplicated++;
	}
	if (chance(im, p->corrupt) || hit & 1u << IMPAIR_CORRUPT)
		flip_bit(im, m);
	if ((chance(im, p->ecn) || hit & 1u << IMPAIR_MARK) && mark_ce(m))
		im->c.ecn_marked++;
	transmit(im, q, m, chance(im, p->reorder) || hit & 1u << IMPAIR_DELAY, now_ns);
	if (copy != NULL)
		transmit(im, q, copy, chance(im, p->reorder), now_ns);
}

uint16_t
impair_burst(struct impair *im, uint16_t queue, void **pkts, uint16_t nb, uint16_t max, uint64_t now_ns)
{
	struct held_queue *q = &im->queues[queue];
	uint16_t out = 0;

	rte_spinlock_lock(&im->lock);
	for (uint16_t i = 0; i < nb; i++)
		take(im, q, pkts[i], now_ns);
	while (out < max && q->n > 0 && q->heap[0].due_ns <= now_ns)
		pkts[out++] = heap_pop(q);
	im->c.passed += out;
	rte_spinlock_unlock(&im->lock);
	return out;
}

static uint16_t
on_rx(uint16_t port_id, uint16_t queue, struct rte_mbuf *pkts[], uint16_t nb, uint16_t max, void *arg)
{
	struct impair *im = arg;
	uint64_t tsc = rte_rdtsc();
	uint64_t now_ns = tsc / im->tsc_hz * 1000000000 + tsc % im->tsc_hz * 1000000000 / im->tsc_hz;

	(void)port_id;
	return impair_burst(im, queue, (void **)pkts, nb, max, now_ns);
}

static void
start(struct impair *im, const struct impair_params *p)
{
	im->p = *p;
	im->rng = p->seed;
	im->losing = false;
	memset(im->rule_matches, 0, sizeof(im->rule_matches));
	memset(im->c.rules, 0, sizeof(im->c.rules));
}

struct impair *
impair_create(uint16_t nb_queues, const struct impair_params *p)
{
	struct impair *im;

	if (nb_queues == 0 || nb_queues > IMPAIR_QUEUES_MAX) {
		errno = EINVAL;
		return NULL;
	}
	im = rte_zmalloc("impair", sizeof(*im) + nb_queues * sizeof(im->queues[0]), RTE_CACHE_LINE_SIZE);
	if (im == NULL) {
		errno = ENOMEM;
		return NULL;
	}
	rte_spinlock_init(&im->lock);
	im->nb_queues = nb_queues;
	im->tsc_hz = rte_get_tsc_hz();
	start(im, p);
	return im;
}

void
impair_destroy(struct impair *im)
{
	for (uint16_t i = 0; i < im->nb_queues; i++)
		while (im->queues[i].n > 0)
			rte_pktmbuf_free(heap_pop(&im->queues[i]));
	rte_free(im);
}

int
impair_attach(uint16_t port_id, uint16_t nb_queues, const struct impair_params *p, struct impair **out)
{
	struct impair *im = impair_create(nb_queues, p);

	if (im == NULL)
		return errno;
	im->port_id = port_id;
	im->hooked = true;
	for (uint16_t i = 0; i < nb_queues; i++) {
		im->cb[i] = rte_eth_add_rx_callback(port_id, i, on_rx, im);
		if (im->cb[i] == NULL) {
			int rc = rte_errno;

			impair_detach(im);
			return rc != 0 ? rc : ENOTSUP;
		}
	}
	*out = im;
	return 0;
}

void
impair_set(struct impair *im, const struct impair_params *p)
{
	rte_spinlock_lock(&im->lock);
	start(im, p);
	rte_spinlock_unlock(&im->lock);
}

void
impair_unhook(struct impair *im)
{
	for (uint16_t i = 0; i < im->nb_queues; i++)
		if (im->cb[i] != NULL)
			rte_eth_remove_rx_callback(im->port_id, i, im->cb[i]);
	im->hooked = false;
}

void
impair_detach(struct impair *im)
{
	if (im->hooked)
		impair_unhook(im);
	/* Left to us by rte_eth_remove_rx_callback(), which can't know when the last lcore is out. */
	for (uint16_t i = 0; i < im->nb_queues; i++)
		rte_free((void *)(uintptr_t)im->cb[i]);
	impair_destroy(im);
}

void
impair_counters(const struct impair *im, struct impair_counters *out)
{
	const _Atomic uint64_t *from = (const _Atomic uint64_t *)&im->c;
	uint64_t *to = (uint64_t *)out;

	static_assert(sizeof(*out) % sizeof(*to) == 0, "counters of 64 bits and nothing else");
	for (size_t i = 0; i < sizeof(*out) / sizeof(*to); i++)
		to[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
}
