/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections between hosts, and their programs' ends of the rings. */
#include <stdlib.h>
#include <string.h>

#include "scale.h"
#include "transport/core/types_priv.h"

enum { PD = 1, RD_ATOMIC = 16 };

static void *
grown(void *p, uint32_t n, uint32_t *max, size_t bytes)
{
	if (n < *max)
		return p;
	*max = *max == 0 ? 1024 : 2 * *max;
	p = realloc(p, *max * bytes);
	if (p == NULL)
		abort();
	return p;
}

static struct sc_end *
end_add(uint32_t host, uint32_t peer, uint32_t depth)
{
	struct sc_end *e;

	w.ends = grown(w.ends, w.nb_ends, &w.max_ends, sizeof(*w.ends));
	e = &w.ends[w.nb_ends++];
	*e = (struct sc_end){ .host = host, .peer = peer, .depth = depth, .stream = UINT32_MAX };
	w.hosts[host].nb_qps++;
	w.hosts[host].cq_slots += depth;
	return e;
}

static void
stream_begin(uint32_t src, uint32_t dst, uint32_t first, uint32_t nb)
{
	w.streams = grown(w.streams, w.nb_streams, &w.max_streams, sizeof(*w.streams));
	w.streams[w.nb_streams++] = (struct sc_stream){ .src = src, .dst = dst, .first = first, .nb = nb };
}

/* Both ends of a connection are neighbours: w.ends[i] and w.ends[i ^ 1]. A stream has every second end. */
uint32_t
stream_add(uint32_t src, uint32_t dst, uint32_t qps, uint32_t depth, bool both)
{
	uint32_t first = w.nb_ends, stream = w.nb_streams;

	for (uint32_t i = 0; i < qps; i++) {
		end_add(src, dst, depth)->stream = stream;
		end_add(dst, src, both ? depth : 0)->stream = both ? stream + 1 : UINT32_MAX;
	}
	stream_begin(src, dst, first, qps);
	if (both)
		stream_begin(dst, src, first + 1, qps);
	return stream;
}

/* ---- Connecting ---- */
static bool
end_make(struct sc_end *e)
{
	static uint8_t no_slot[64] __attribute__((aligned(64)));
	struct sc_host *h = &w.hosts[e->host];
	struct qp_params p = { .type = UROCE_QPT_RC, .pd = PD, .send_cq = h->cq, .recv_cq = h->cq, .owner = h, .sq_sig_all = true };
	size_t slots;

	p.cap.max_send_sge = 1;
	p.cap.max_recv_sge = 1;
	while (1u << e->sq.order < e->depth)
		e->sq.order++;
	e->sq.shift = 6;
	e->sq.mask = RING_MASK(e->sq.order);
	slots = (size_t)64 << e->sq.order;
	e->sq.base = e->depth == 0 ? no_slot : aligned_alloc(64, slots);
	e->shared = aligned_alloc(64, sizeof(*e->shared));
	if (e->sq.base == NULL || e->shared == NULL)
		return false;
	memset(e->sq.base, 0, slots);
	memset(e->shared, 0, sizeof(*e->shared));
	p.cap.max_send_wr = 1u << e->sq.order;
	p.sq = e->sq;
	p.shared = e->shared;
	if (e->depth != 0 && (e->msgs = calloc(e->depth, sizeof(*e->msgs))) == NULL)
		return false;
	return qp_create(h->tp, &p, &e->qp) == 0;
}

static void
host_address(uint32_t host, uint8_t ip[16], uint8_t mac[6])
{
	memset(ip, 0, 16);
	wire_put32(ip, 10u << 24 | host);
	mac[0] = 2;
	wire_put32(mac + 2, host);
}

/* The UDP source port is what the transport makes of both QP numbers. */
bool
qp_connect(uint32_t host, struct qp *qp, uint32_t peer_host, const struct qp *peer, uint32_t psn, uint32_t peer_psn)
{
	struct transport *tp = w.hosts[host].tp;
	struct tp_path path = { .pkey = WIRE_PKEY_DEFAULT, .addr = { .ip_version = 4, .ttl = 64 } };
	struct uroce_qp_attr a = {
		.qp_state = UROCE_QPS_INIT, .port_num = 1, .timeout = (uint8_t)w.o.timeout, .retry_cnt = (uint8_t)w.o.retry, .rnr_retry = 7,
		.min_rnr_timer = 12, .max_rd_atomic = RD_ATOMIC, .max_dest_rd_atomic = RD_ATOMIC, .sq_psn = psn, .rq_psn = peer_psn,
		.dest_qp_num = qp_num(peer), .qp_access_flags = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ,
	};

	while (128u << a.path_mtu < w.o.mtu)
		a.path_mtu++;
	host_address(host, path.addr.sip, path.addr.smac);
	host_address(peer_host, path.addr.dip, path.addr.dmac);
	a.ah.is_global = 1;
	a.ah.port_num = 1;
	memcpy(a.ah.dgid, gid_from_ip(4, path.addr.dip).raw, sizeof(a.ah.dgid));
	if (qp_modify(tp, qp, &a, UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS, NULL, w.now) != 0)
		return false;
	a.qp_state = UROCE_QPS_RTR;
	if (qp_modify(tp, qp, &a, UROCE_QP_STATE | UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
		      UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER, &path, w.now) != 0)
		return false;
	a.qp_state = UROCE_QPS_RTS;
	return qp_modify(tp, qp, &a, UROCE_QP_STATE | UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_SQ_PSN |
			 UROCE_QP_MAX_QP_RD_ATOMIC, NULL, w.now) == 0;
}

bool
streams_connect(void)
{
	for (uint32_t i = 0; i < w.nb_ends; i++)
		if (!end_make(&w.ends[i]))
			return false;
	for (uint32_t i = 0; i < w.nb_ends; i++)
		w.ends[i].psn = (uint32_t)rng_below(&w.work_rng, 1 << 24);
	for (uint32_t i = 0; i < w.nb_ends; i++) {
		struct sc_end *e = &w.ends[i], *peer = &w.ends[i ^ 1];

		if (!qp_connect(e->host, e->qp, e->peer, peer->qp, e->psn, peer->psn))
			return false;
		e->rkey = w.hosts[e->peer].mr->key;
	}
	for (uint32_t i = 0; i < w.nb_streams; i++)
		w.streams[i].waits_end = &w.streams[i].waits;
	return true;
}

/* ---- Posting ---- */
static bool
end_room(const struct sc_end *e)
{
	return e->posted - e->done < e->depth && !e->failed;
}

static void
post(struct sc_end *e, struct sc_msg m)
{
	struct ring_sq_wqe *q = ring_slot(&e->sq, e->sq.counter);
	union ring_sq_ctl ctl = { .opcode = m.read ? UROCE_WR_RDMA_READ : UROCE_WR_RDMA_WRITE, .flags = UROCE_SEND_SIGNALED, .count = 1 };

	m.psn = e->psn;
	e->psn = wire_psn_add(e->psn, wire_packets(m.len, e->qp->path.mtu_shift));
	e->msgs[e->posted++ % e->depth] = m;
	q->wr_id = (uint64_t)(e - w.ends);
	wqe_put_remote(q, (uintptr_t)w.region, e->rkey);
	wqe_sges(q, ctl.opcode)[0] = (struct ring_sge){ .addr = (uintptr_t)w.region, .length = m.len, .lkey = w.hosts[e->host].mr->key };
	ring_sq_post(&e->sq, e->sq.counter++, q, ctl);
	qp_doorbell(w.hosts[e->host].tp, e->qp);
	host_run_at(e->host, w.now);
}

void
stream_send(uint32_t stream, uint32_t len, bool read)
{
	struct sc_stream *s = &w.streams[stream];
	struct sc_msg m = { .posted_ns = w.now, .len = len, .read = read };
	struct sc_wait *wait;

	for (uint32_t i = 0; i < s->nb; i++) {
		struct sc_end *e = &w.ends[s->first + 2 * (s->turn++ % s->nb)];

		if (end_room(e)) {
			post(e, m);
			return;
		}
	}
	wait = malloc(sizeof(*wait));
	if (wait == NULL)
		abort();
	*wait = (struct sc_wait){ .m = m };
	*s->waits_end = wait;
	s->waits_end = &wait->next;
}

void
end_fill(struct sc_end *e)
{
	while (end_room(e))
		post(e, (struct sc_msg){ .posted_ns = w.now, .len = w.o.size });
}

/* A connection has room again: what has waited longest goes first. */
static void
go_on(struct sc_end *e)
{
	struct sc_stream *s = &w.streams[e->stream];
	struct sc_wait *wait = s->waits;

	if (wait == NULL || !end_room(e))
		return;
	s->waits = wait->next;
	if (s->waits == NULL)
		s->waits_end = &s->waits;
	post(e, wait->m);
	free(wait);
}

/* ---- Completions ---- */
static void
completed(const struct ring_cqe *c)
{
	struct sc_end *e = &w.ends[c->wr_id];
	struct sc_msg m = e->msgs[e->done % e->depth];

	e->done++;
	if (c->status != UROCE_WC_SUCCESS) {
		e->failed = true;
		w.s.errors++;
		return;
	}
	e->done_bytes += m.len;
	w.s.msgs++;
	report_done(e, &m);
	go_on(e);
	work_done(e);
}

bool
client_polls(uint32_t host)
{
	struct sc_host *h = &w.hosts[host];
	union ring_cqe_ctl ctl;
	uint32_t n = 0;

	while (ring_cq_ready(&h->cq_ring, h->cq_ring.counter, &ctl)) {
		struct ring_cqe c;

		memcpy(&c, ring_slot(&h->cq_ring, h->cq_ring.counter), sizeof(c));
		h->cq_ring.counter++;
		atomic_store_explicit(&h->cq_shared->cons, h->cq_ring.counter, memory_order_release);
		completed(&c);
		n++;
	}
	return n != 0;
}

uint64_t
end_bytes(const struct sc_end *e)
{
	const struct sc_msg *m;
	int32_t packets;

	if (e->done == e->posted || e->failed)
		return e->done_bytes;
	m = &e->msgs[e->done % e->depth];
	packets = wire_psn_diff(e->qp->req.psn_una, m->psn);
	return e->done_bytes + (packets > 0 ? (uint64_t)packets << e->qp->path.mtu_shift : 0);
}
