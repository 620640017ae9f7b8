/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A transport that records. The engine's own rules (who is woken, which doorbell arrives, when it sleeps) need one whose
 * answers the test chooses; test_path.c has the real one.
 */
#include <stdlib.h>

#include "util.h"

struct transport {
	struct transport_config c;
	struct tp_txvec tx[UROCE_MAX_PORTS], loop;
	struct tp_counters counters;
};

struct recorded rec;

static struct tp_event emit_event;
static uint32_t emit_times;
static struct {
	uint32_t pending;
	unsigned int from, to;
	uint16_t port;
	struct rte_mbuf *m;
	bool trusted;
} handoff;

void
double_emit(const struct tp_event *ev, uint32_t times)
{
	emit_event = *ev;
	__atomic_store_n(&emit_times, times, __ATOMIC_RELEASE);
}

void
double_handoff(unsigned int from, unsigned int to, uint16_t port, struct rte_mbuf *m, bool trusted)
{
	handoff.from = from;
	handoff.to = to;
	handoff.port = port;
	handoff.m = m;
	handoff.trusted = trusted;
	__atomic_store_n(&handoff.pending, 1, __ATOMIC_RELEASE);
}

struct transport *
transport_create(const struct transport_config *c)
{
	struct transport *tp = calloc(1, sizeof(*tp));

	if (tp != NULL)
		tp->c = *c;
	return tp;
}

void
transport_destroy(struct transport *tp)
{
	free(tp);
}

uint16_t
transport_rx(struct transport *tp, uint16_t port, struct rte_mbuf **pkts, uint16_t n, bool trusted, uint64_t now_ns)
{
	rec.last_rx_port = port;
	rec.last_rx_engine = tp->c.engine;
	if (trusted)
		rec.rx_trusted += n;
	else
		rec.rx_untrusted += n;
	__atomic_fetch_add(&rec.rx_packets, n, __ATOMIC_RELEASE);
	if (rec.rx_gives_back)
		return n;
	rte_pktmbuf_free_bulk(pkts, n);
	return 0;
}

uint32_t
transport_run(struct transport *tp, uint64_t now_ns)
{
	uint32_t times = __atomic_exchange_n(&emit_times, 0, __ATOMIC_ACQUIRE);

	for (; times > 0; times--)
		tp->c.event(tp->c.arg, &emit_event);
	if (__atomic_load_n(&handoff.pending, __ATOMIC_ACQUIRE) && handoff.from == tp->c.engine) {
		handoff.pending = 0;
		tp->c.handoff(tp->c.arg, handoff.to, handoff.port, handoff.m, handoff.trusted);
	}
	rec.last_now_ns = now_ns;
	__atomic_fetch_add(&rec.runs, 1, __ATOMIC_RELEASE);
	return __atomic_load_n(&rec.work, __ATOMIC_RELAXED);
}

uint64_t
transport_next_timeout(const struct transport *tp)
{
	return rec.next_timeout;
}

struct tp_txvec *
transport_tx(struct transport *tp, uint16_t port)
{
	return &tp->tx[port];
}

struct tp_txvec *
transport_loop(struct transport *tp)
{
	return &tp->loop;
}

const struct tp_counters *
transport_counters(const struct transport *tp)
{
	return &tp->counters;
}

void
qp_doorbell(struct transport *tp, struct qp *qp)
{
	__atomic_fetch_add(&qp->rung, 1, __ATOMIC_RELEASE);
}

enum net_action
net_rx(const struct net_port *p, struct rte_mbuf *m, struct net_counters *c, struct net_learned *learned,
       bool *has_learned)
{
	c->rx_arp++;
	learned->port = p->index;
	*has_learned = rec.learned;
	return rec.action;
}
