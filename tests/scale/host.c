/* SPDX-License-Identifier: BSD-3-Clause */
/* A host: a transport, its NIC's queues, and the turns of its engine. */
#include <rte_mbuf.h>
#include <stdlib.h>
#include <string.h>

#include "scale.h"

enum { RX_BURST = 32, MR_TABLE = 16, PD = 1 };

static bool
on_notify(void *arg, int channel, uint64_t cookie)
{
	(void)arg, (void)channel, (void)cookie;
	return true;
}

static void
on_event(void *arg, const struct tp_event *ev)
{
	(void)arg;
	if (ev->type != UROCE_EVENT_COMM_EST)
		w.s.errors++;
}

/* Whatever is read and written is one page of memory and its like: the region shows it many times. */
static bool
host_make(uint32_t i)
{
	struct sc_host *h = &w.hosts[i];
	struct mem_seg seg = { .va = (uintptr_t)w.region, .length = SC_REGION_BYTES, .host = w.region };
	static struct mem_owner owner = { .mem_fd = -1 };
	struct mr_params mp = { .pd = PD, .addr = seg.va, .iova = seg.va, .length = seg.length, .segs = &seg, .nb_segs = 1, .owner = &owner,
				.access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ };
	struct transport_config tc = {
		.nb_ports = 1, .no_watch = true, .event = on_event, .notify = on_notify, .arg = h,
		.limits = { .tx_packets = (uint16_t)w.o.tx_packets, .cwnd = (uint16_t)w.o.cwnd },
		.ports[0] = { .cc = w.o.cc, .mbps = w.o.gbps * 1000, .features = TP_FEATURES_ALL },
	};

	h->rng = rng_stream(w.o.seed, 1000 + i);
	h->rx_end = &h->rx;
	h->run_at = UINT64_MAX;
	tc.ports[0].features.selective_repeat = w.o.sack;
	tc.ports[0].features.tail_loss_probe = w.o.tlp;
	h->sh.pool = w.pool;
	h->sh.mrs = mr_table_create(MR_TABLE, NULL, &(struct secret){ .key[0] = rng_next(&h->rng) });
	h->sh.qps = qp_table_create(h->nb_qps + 8, NULL, &(struct secret){ .key[0] = rng_next(&h->rng) });
	h->sh.ahs = ah_table_create(16, NULL);
	h->sh.mcasts = mcast_table_create(NULL);
	tc.sh = h->sh;
	if (h->sh.mrs == NULL || h->sh.qps == NULL || h->sh.ahs == NULL || h->sh.mcasts == NULL || mr_create(h->sh.mrs, &mp, &h->mr) != 0)
		return false;
	h->tp = transport_create(&tc);
	return h->tp != NULL;
}

bool
hosts_make(void)
{
	for (uint32_t i = 0; i < w.nb_hosts; i++)
		if (!host_make(i))
			return false;
	return true;
}

bool
host_cqs_make(void)
{
	for (uint32_t i = 0; i < w.nb_hosts; i++) {
		struct sc_host *h = &w.hosts[i];
		struct cq_params p = { .channel = -1, .owner = h };

		while (1u << h->cq_ring.order < h->cq_slots + 64)
			h->cq_ring.order++;
		h->cq_ring.shift = 5;
		h->cq_ring.mask = RING_MASK(h->cq_ring.order);
		h->cq_ring.base = aligned_alloc(64, sizeof(struct ring_cqe) << h->cq_ring.order);
		h->cq_shared = aligned_alloc(64, sizeof(*h->cq_shared));
		if (h->cq_ring.base == NULL || h->cq_shared == NULL)
			return false;
		memset(h->cq_ring.base, 0, sizeof(struct ring_cqe) << h->cq_ring.order);
		memset(h->cq_shared, 0, sizeof(*h->cq_shared));
		p.ring = h->cq_ring;
		p.shared = h->cq_shared;
		if (cq_create(&p, &h->cq) != 0)
			return false;
	}
	return true;
}

void
host_run_at(uint32_t host, uint64_t at)
{
	struct sc_host *h = &w.hosts[host];

	if (at < h->busy_until)
		at = h->busy_until;
	if (at >= h->run_at)
		return;
	h->run_at = at;
	event_new(SC_RUNS, host, at);
}

void
host_receives(uint32_t host, struct sc_pkt *p)
{
	struct sc_host *h = &w.hosts[host];

	p->ev.next = NULL;
	*h->rx_end = p;
	h->rx_end = (struct sc_pkt **)&p->ev.next;
	host_run_at(host, w.now);
}

/* The rest of a long frame is whatever the mbuf had there. Nobody looks at it: it is trusted, as if its ICRC had been checked. */
static void
receive(struct sc_host *h)
{
	struct rte_mbuf *pkts[RX_BURST];
	uint16_t n = 0, left;
	struct sc_pkt *p;

	while (n < RX_BURST && (p = h->rx) != NULL) {
		pkts[n] = rte_pktmbuf_alloc(w.pool);
		if (pkts[n] == NULL)
			break;
		h->rx = (struct sc_pkt *)p->ev.next;
		memcpy(rte_pktmbuf_mtod(pkts[n], uint8_t *), p->frame, p->kept);
		pkts[n]->data_len = p->bytes;
		pkts[n]->pkt_len = p->bytes;
		pkts[n]->port = 0;
		n++;
		pkt_put(p);
	}
	if (h->rx == NULL)
		h->rx_end = &h->rx;
	if (n == 0)
		return;
	left = transport_rx(h->tp, 0, pkts, n, true, w.now);
	w.s.errors += left;
	rte_pktmbuf_free_bulk(pkts, left);
}

/* A NIC takes packets while it has less than so many bytes to send. */
static void
flush(uint32_t host)
{
	struct tp_txvec *v = transport_tx(w.hosts[host].tp, 0);
	uint16_t n = 0;

	while (n < v->n && net_backlog(host) < w.o.nic_bytes) {
		net_send(host, rte_pktmbuf_mtod(v->pkts[n], uint8_t *), v->pkts[n]->data_len);
		n++;
	}
	rte_pktmbuf_free_bulk(v->pkts, n);
	v->n = (uint16_t)(v->n - n);
	memmove(v->pkts, v->pkts + n, v->n * sizeof(v->pkts[0]));
}

void
host_runs(uint32_t host, uint64_t at)
{
	struct sc_host *h = &w.hosts[host];
	uint64_t next;
	bool again;

	if (at != h->run_at)
		return;
	h->run_at = UINT64_MAX;
	receive(h);
	again = transport_run(h->tp, w.now) != 0;
	flush(host);
	again |= client_polls(host);
	h->busy_until = w.now + w.o.turn_ns;
	if (transport_tx(h->tp, 0)->n != 0) {
		/* More when the NIC has room; what arrives is handled before. */
		next = w.now + (uint64_t)((net_backlog(host) - w.o.nic_bytes / 2) * net_ps_per_byte() / 1000);
		host_run_at(host, h->rx != NULL ? h->busy_until : next);
	} else {
		next = transport_next_timeout(h->tp);
		if (again || h->rx != NULL)
			host_run_at(host, h->busy_until);
		else if (next != UINT64_MAX)
			host_run_at(host, next);
	}
}
