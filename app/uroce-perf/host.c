/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>

#include "host.h"
#include "transport/journal/journal.h"

enum {
	POOL_MBUFS_PER_ENGINE = 8191,
	POOL_CACHE = 256,
	ERR_BYTES = 512,
	ACK_TIMEOUT = 14, /* 67 ms */
	RNR_TIMER = 1,    /* 10 us */
	MAX_RETRIES = 7,
	FIRST_PSN = 0x0badca,
};

/** The --vdev net_impairN options, and which of them are attached. */
static const struct impair_vdevs *impairs;
static bool impair_used[IMPAIR_VDEVS_MAX];

static bool
complain(const char *what, int err)
{
	fprintf(stderr, "uroce-perf: %s: %s\n", what, strerror(err));
	return false;
}

static bool
tables_create(struct perf_host *h, unsigned int number)
{
	char name[32];
	size_t size = rte_rcu_qsbr_get_memsize(h->nb_engines);
	unsigned int room = RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES;

	h->sh.qsbr = rte_zmalloc("qsbr", size, RTE_CACHE_LINE_SIZE);
	if (h->sh.qsbr == NULL || rte_rcu_qsbr_init(h->sh.qsbr, h->nb_engines) != 0)
		return complain("RCU variable", ENOMEM);
	snprintf(name, sizeof(name), "perf_pool%u", number);
	h->sh.pool = rte_pktmbuf_pool_create(name, POOL_MBUFS_PER_ENGINE * h->nb_engines, POOL_CACHE, 0,
					  (uint16_t)RTE_ALIGN(room, RTE_CACHE_LINE_SIZE), (int)rte_socket_id());
	if (h->sh.pool == NULL)
		return complain("no memory for packet buffers (give EAL more: -m 512, or hugepages)", rte_errno);
	h->sh.mrs = mr_table_create(PERF_MAX_ENGINES * PERF_ENDS_PER_ENGINE, h->sh.qsbr, 0);
	h->sh.qps = qp_table_create(h->o->qps * h->nb_engines * (h->o->role == PERF_SHM ? PERF_ENDS_PER_ENGINE : 1), h->sh.qsbr, 0);
	if (h->sh.mrs == NULL || h->sh.qps == NULL)
		return complain("tables of MRs and QPs", errno);
	return true;
}

static bool
port_open(struct perf_host *h, const char *ethdev, const char *address)
{
	struct net_port_config conf = { .nb_addrs = 1 };
	char err[ERR_BYTES] = "";
	int index;

	snprintf(conf.name, sizeof(conf.name), "uroce0");
	snprintf(conf.ethdev, sizeof(conf.ethdev), "%s", ethdev);
	if (net_addr_parse(address, &conf.addrs[0], err, sizeof(err)) == 0)
		h->port = net_port_open(&conf, 0, (uint16_t)h->nb_engines, &h->sh, err, sizeof(err));
	if (h->port == NULL) {
		fprintf(stderr, "uroce-perf: port %s: %s\n", ethdev, err);
		return false;
	}
	if (128u << h->port->active_mtu < h->o->mtu) {
		fprintf(stderr,
			"uroce-perf: port %s: its largest MTU is %u; give --mtu %u or a port that carries more\n",
			ethdev, 128u << h->port->active_mtu, 128u << h->port->active_mtu);
		return false;
	}
	index = net_gid_index(h->port, &conf.addrs[0].gid);
	if (index < 0) {
		fprintf(stderr, "uroce-perf: port %s: %s isn't in its GID table\n", ethdev, address);
		return false;
	}
	h->sgid_index = (unsigned int)index;
	return true;
}

void
host_set_impairs(const struct impair_vdevs *v)
{
	impairs = v;
}

bool
host_impairs_found(void)
{
	for (unsigned int i = 0; impairs != NULL && i < impairs->n; i++) {
		if (impair_used[i])
			continue;
		fprintf(stderr, "uroce-perf: --vdev %s: port=%s: no host has this ethdev; --role pair has net_memif0 and "
			"net_memif1, server and client have --port ETHDEV\n", impairs->vdev[i].name, impairs->vdev[i].port);
		return false;
	}
	return true;
}

static bool
port_impair(struct perf_host *h)
{
	for (unsigned int i = 0; impairs != NULL && i < impairs->n; i++) {
		const struct impair_vdev *v = &impairs->vdev[i];
		int rc;

		if (strcmp(v->port, h->port->conf.ethdev) != 0)
			continue;
		rc = impair_attach(h->port->port_id, h->port->nb_queues, &v->params, &h->impair);
		if (rc != 0)
			return complain("impairing a port", abs(rc));
		impair_used[i] = true;
	}
	return true;
}

/* Its journal is thrown away when this program ends. */
static bool
journal_map(const struct perf_host *h, struct engine_config *ec)
{
	ec->journal_limits = (struct journal_limits){ .qps = qp_table_slots(h->sh.qps), .cqs = PERF_MAX_ENGINES * PERF_ENDS_PER_ENGINE, .srqs = 1 };
	ec->journal = mmap(NULL, journal_bytes(&ec->journal_limits), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return ec->journal != MAP_FAILED || complain("journal", errno);
}

bool
host_open(struct perf_host *h, const struct perf_opts *o, unsigned int number, const char *ethdev, const char *address)
{
	memset(h, 0, sizeof(*h));
	h->o = o;
	h->nb_engines = o->engines;
	if (!tables_create(h, number) || !port_open(h, ethdev, address) || !port_impair(h))
		return false;
	for (unsigned int i = 0; i < h->nb_engines; i++) {
		struct engine_config ec = {
			.id = i,
			.nb_engines = h->nb_engines,
			.idle = ENGINE_IDLE_POLL,
			.loop_frames = o->loop_frames,
			.ports = &h->port,
			.nb_ports = 1,
			.features = { TP_FEATURES_ALL },
			.sh = h->sh,
			.socket_id = (int)rte_socket_id(),
		};

		if (o->journal && !journal_map(h, &ec))
			return false;
		h->engines[i] = engine_create(&ec);
		if (h->engines[i] == NULL)
			return complain("engine", errno);
	}
	engine_connect(h->engines, h->nb_engines);
	return true;
}

struct qp_call {
	struct perf_host *h;
	struct perf_end *e;
	struct perf_qp *q;
	struct uroce_qp_attr attr;
	uint32_t mask;
	const struct tp_path *path;
	const struct uroce_ah_attr *av;
};

static int
call_qp_create(struct engine *engine, void *arg, uint64_t now_ns)
{
	struct qp_call *c = arg;
	const struct perf_opts *o = c->h->o;
	const struct qp_params p = {
		.type = UROCE_QPT_RC,
		.pd = PERF_PD,
		.send_cq = c->e->engine_cq,
		.recv_cq = c->e->engine_cq,
		.cap = {
			.max_send_wr = o->depth + 1,
			.max_recv_wr = end_rq_depth(o),
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = o->inline_bytes,
		},
		.sq = c->q->sq,
		.rq = c->q->rq,
		.shared = c->q->shared,
	};
	int rc = qp_create(engine_transport(engine), &p, &c->q->qp);

	if (rc == 0)
		c->q->qpn = qp_num(c->q->qp);
	return rc;
}

static int
call_qp_modify(struct engine *engine, void *arg, uint64_t now_ns)
{
	struct qp_call *c = arg;
	const char *why = "refused";
	int rc = qp_modify_check(UROCE_QPT_RC, qp_state(c->q->qp), &c->attr, c->mask, c->h->port->active_mtu, &why);

	if (rc == 0)
		rc = qp_modify(engine_transport(engine), c->q->qp, &c->attr, c->mask, c->path, now_ns);
	if (rc != 0)
		fprintf(stderr, "uroce-perf: QP to %s: %s\n",
			qp_state_name((enum uroce_qp_state)c->attr.qp_state), why);
	return rc;
}

static int
call_qp_destroy(struct engine *engine, void *arg, uint64_t now_ns)
{
	qp_destroy(engine_transport(engine), arg);
	return 0;
}

/** The doorbell if the engine runs on the workload's own thread. */
static void
doorbell_call(struct perf_end *e, struct perf_qp *q)
{
	qp_doorbell_soon(e->doorbell_arg, q->qp);
	qp_doorbell(e->doorbell_arg, q->qp);
}

static const struct perf_workload *
workload(const struct perf_opts *o, bool initiator)
{
	if (o->test == PERF_RATE)
		return initiator ? &rate_initiator : &rate_target;
	return initiator ? &latency_initiator : &latency_target;
}

struct perf_end *
host_add_end(struct perf_host *h, unsigned int engine, bool initiator, uint64_t tsc_hz)
{
	struct perf_end *e = arena_alloc(sizeof(*e), 64);
	struct mem_seg seg;
	struct mr_params mp = {
		.pd = PERF_PD,
		.access = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ |
			  UROCE_ACCESS_REMOTE_ATOMIC,
		.segs = &seg,
		.nb_segs = 1,
	};
	struct cq_params cp = { .channel = -1, .number = h->nb_ends };
	struct qp_call c = { .h = h, .e = e };
	int rc;

	end_init(e, h->o, initiator, tsc_hz);
	e->work = workload(h->o, initiator);
	h->end_engine[h->nb_ends] = h->engines[engine];
	h->ends[h->nb_ends++] = e;
	e->doorbell = doorbell_call;
	e->doorbell_arg = engine_transport(h->engines[engine]);
	seg = (struct mem_seg){ .va = (uintptr_t)e->mem, .length = e->mem_bytes, .host = e->mem };
	mp.addr = mp.iova = seg.va;
	mp.length = seg.length;
	rc = mr_create(h->sh.mrs, &mp, &e->mr);
	if (rc != 0) {
		complain("memory region", rc);
		return NULL;
	}
	e->key = e->mr->key;
	cp.ring = e->cq;
	cp.shared = e->cq_shared;
	rc = cq_create(&cp, &e->engine_cq);
	for (uint32_t i = 0; rc == 0 && i < e->nb_qps; i++) {
		c.q = &e->qps[i];
		rc = engine_call(h->engines[engine], call_qp_create, &c);
	}
	if (rc != 0) {
		complain("creating CQ and QPs", rc);
		return NULL;
	}
	return e;
}

void
host_hello(const struct perf_host *h, struct perf_hello *hello)
{
	const struct perf_opts *o = h->o;

	*hello = (struct perf_hello){
		.op = o->op, .test = o->test, .size = o->size, .mtu = o->mtu, .qps = o->qps, .engines = o->engines,
		.depth = o->depth,
	};
	memcpy(hello->gid, net_gid(h->port, h->sgid_index), 16);
	memcpy(hello->mac, h->port->mac, 6);
}

void
host_peers(const struct perf_host *h, unsigned int i, struct perf_peer *peers)
{
	const struct perf_end *e = h->ends[i];

	for (uint32_t q = 0; q < e->nb_qps; q++)
		peers[q] = (struct perf_peer){
			.addr = (uintptr_t)e->qps[q].mem,
			.qpn = e->qps[q].qpn,
			.psn = FIRST_PSN + q,
			.rkey = e->key,
		};
}

static uint32_t
mtu_code(uint32_t bytes)
{
	uint32_t code = UROCE_MTU_256;

	while (128u << code < bytes)
		code++;
	return code;
}

/**
 * Move a QP from RESET to RTS.
 * @return 0 or an errno value
 */
static int
qp_connect(struct perf_host *h, struct engine *engine, struct qp_call *c, const struct perf_peer *peer, uint32_t my_psn)
{
	struct uroce_qp_attr *a = &c->attr;
	const struct tp_path *path = c->path;
	int rc;

	c->path = NULL;
	*a = (struct uroce_qp_attr){
		.qp_state = UROCE_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC,
	};
	c->mask = UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS;
	rc = engine_call(engine, call_qp_modify, c);
	if (rc != 0)
		return rc;
	c->path = path;
	a->qp_state = UROCE_QPS_RTR;
	a->ah = *c->av;
	a->path_mtu = mtu_code(h->o->mtu);
	a->dest_qp_num = peer->qpn;
	a->rq_psn = peer->psn;
	a->max_dest_rd_atomic = (uint8_t)h->o->rd_atomic;
	a->min_rnr_timer = RNR_TIMER;
	c->mask = UROCE_QP_STATE | UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
		  UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER;
	rc = engine_call(engine, call_qp_modify, c);
	if (rc != 0)
		return rc;
	c->path = NULL;
	a->qp_state = UROCE_QPS_RTS;
	a->sq_psn = my_psn;
	a->timeout = ACK_TIMEOUT;
	a->retry_cnt = MAX_RETRIES;
	a->rnr_retry = MAX_RETRIES;
	a->max_rd_atomic = (uint8_t)h->o->rd_atomic;
	c->mask = UROCE_QP_STATE | UROCE_QP_SQ_PSN | UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY |
		  UROCE_QP_MAX_QP_RD_ATOMIC;
	return engine_call(engine, call_qp_modify, c);
}

bool
host_connect(struct perf_host *h, unsigned int i, const struct perf_hello *hello, const struct perf_peer *peers,
	     bool loopback)
{
	struct perf_end *e = h->ends[i];
	struct tp_path path = { .port = 0, .pkey = WIRE_PKEY_DEFAULT, .loopback = loopback };
	struct uroce_ah_attr av = { .sgid_index = (uint8_t)h->sgid_index, .is_global = 1, .port_num = 1 };
	uint8_t mac[6];

	memcpy(av.dgid, hello->gid, 16);
	memcpy(mac, hello->mac, 6);
	if (h->o->gateway[0] != '\0' && rte_ether_unformat_addr(h->o->gateway, (struct rte_ether_addr *)mac) != 0) {
		fprintf(stderr, "uroce-perf: --gateway-mac %s: write it as 02:00:00:00:00:01\n", h->o->gateway);
		return false;
	}
	net_path_addr(h->port, h->sgid_index, &av, mac, &path.addr);
	for (uint32_t q = 0; q < e->nb_qps; q++) {
		struct qp_call c = { .h = h, .e = e, .q = &e->qps[q], .path = &path, .av = &av };
		int rc;

		c.q->remote = peers[q].addr;
		c.q->rkey = peers[q].rkey;
		rc = qp_connect(h, h->end_engine[i], &c, &peers[q], FIRST_PSN + q);
		if (rc != 0)
			return complain("connecting a QP", rc);
	}
	return true;
}

void
host_print_counters(const struct perf_host *h, const char *name)
{
	struct rte_eth_stats s;

	if (rte_eth_stats_get(h->port->port_id, &s) == 0)
		fprintf(stderr, "%s, port: in %llu, out %llu, no mbuf %llu, out errors %llu; mbufs free %u\n", name,
			(unsigned long long)s.ipackets, (unsigned long long)s.opackets, (unsigned long long)s.rx_nombuf,
			(unsigned long long)s.oerrors, rte_mempool_avail_count(h->sh.pool));
	for (unsigned int i = 0; i < h->nb_engines; i++) {
		const struct tp_counters *c = transport_counters(engine_transport(h->engines[i]));

		fprintf(stderr, "%s, engine %u:", name, i);
#define TP_X(counter) \
		if (c->counter != 0) \
			fprintf(stderr, " " #counter " %llu", (unsigned long long)c->counter);
		TP_COUNTERS(TP_X)
#undef TP_X
		fprintf(stderr, "\n");
	}
}

void
host_close(struct perf_host *h)
{
	for (unsigned int i = 0; i < h->nb_ends; i++) {
		struct perf_end *e = h->ends[i];

		for (uint32_t q = 0; q < e->nb_qps; q++)
			if (e->qps[q].qp != NULL)
				engine_call(h->end_engine[i], call_qp_destroy, e->qps[q].qp);
	}
	for (unsigned int i = 0; i < h->nb_ends; i++) {
		if (h->ends[i]->engine_cq != NULL)
			cq_destroy(h->ends[i]->engine_cq);
		if (h->ends[i]->mr != NULL)
			mr_destroy(h->sh.mrs, h->ends[i]->mr);
	}
	for (unsigned int i = 0; i < h->nb_engines; i++)
		if (h->engines[i] != NULL)
			engine_destroy(h->engines[i]);
	if (h->impair != NULL)
		impair_detach(h->impair);
	if (h->port != NULL)
		net_port_close(h->port);
	if (h->sh.qps != NULL)
		qp_table_destroy(h->sh.qps);
	if (h->sh.mrs != NULL)
		mr_table_destroy(h->sh.mrs);
	rte_mempool_free(h->sh.pool);
	rte_free(h->sh.qsbr);
}
