/* SPDX-License-Identifier: BSD-3-Clause */
#include "path.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>

enum {
	PD = 9,
	WIRE_SIZE = 1024,
	SQ_ORDER = 4,
	CQ_ORDER = 5,
	MAX_MR = 16,
	MAX_QP = 16,
	POOL_MBUFS = 8191,
};

static uint16_t port_ids[4]; /* by host number; the first two are joined, and the last two */

static void *
zeroed(size_t bytes)
{
	void *p = aligned_alloc(64, RTE_ALIGN_CEIL(bytes, 64));

	assert_non_null(p);
	return memset(p, 0, RTE_ALIGN_CEIL(bytes, 64));
}

/** Two ports back to back. Each queue of a port sends into the other's queue of the same number: there is no order between engines. */
static void
lanes_up(void)
{
	struct rte_ring *cd[ENGINES], *dc[ENGINES];
	char name[8];

	for (unsigned int q = 0; q < ENGINES; q++) {
		snprintf(name, sizeof(name), "cd%u", q);
		cd[q] = rte_ring_create(name, WIRE_SIZE, SOCKET_ID_ANY, 0);
		snprintf(name, sizeof(name), "dc%u", q);
		dc[q] = rte_ring_create(name, WIRE_SIZE, SOCKET_ID_ANY, 0);
	}
	port_ids[2] = (uint16_t)rte_eth_from_rings("c", dc, ENGINES, cd, ENGINES, 0);
	port_ids[3] = (uint16_t)rte_eth_from_rings("d", cd, ENGINES, dc, ENGINES, 0);
}

/**
 * Two ports back to back. All queues of a port send into the first RX queue of the other, so that with two
 * engines a QP's packets arrive at the wrong one half the time; the second RX queue stays empty.
 */
static void
wire_up(void)
{
	struct rte_ring *ab = rte_ring_create("ab", WIRE_SIZE, SOCKET_ID_ANY, 0);
	struct rte_ring *ba = rte_ring_create("ba", WIRE_SIZE, SOCKET_ID_ANY, 0);
	struct rte_ring *none = rte_ring_create("none", WIRE_SIZE, SOCKET_ID_ANY, 0);
	struct rte_ring *a_rx[ENGINES] = { ba, none }, *a_tx[ENGINES] = { ab, ab };
	struct rte_ring *b_rx[ENGINES] = { ab, none }, *b_tx[ENGINES] = { ba, ba };

	port_ids[0] = (uint16_t)rte_eth_from_rings("a", a_rx, ENGINES, a_tx, ENGINES, 0);
	port_ids[1] = (uint16_t)rte_eth_from_rings("b", b_rx, ENGINES, b_tx, ENGINES, 0);
}

static void
port_start(uint16_t port_id, struct rte_mempool *pool)
{
	const struct rte_eth_conf conf = { 0 };

	assert_int_equal(rte_eth_dev_configure(port_id, ENGINES, ENGINES, &conf), 0);
	for (uint16_t q = 0; q < ENGINES; q++) {
		assert_int_equal(rte_eth_rx_queue_setup(port_id, q, WIRE_SIZE, SOCKET_ID_ANY, NULL, pool), 0);
		assert_int_equal(rte_eth_tx_queue_setup(port_id, q, WIRE_SIZE, SOCKET_ID_ANY, NULL), 0);
	}
	assert_int_equal(rte_eth_dev_start(port_id), 0);
}

/* Each host another: they work under a real clock. */
static enum tp_cc
cc_of(uint8_t number)
{
	return number == 1 ? TP_CC_DCQCN : TP_CC_SWIFT;
}

void
host_up(struct host *h, uint8_t number, unsigned int nb_engines)
{
	char name[16];

	memset(h, 0, sizeof(*h));
	h->number = number;
	h->nb_engines = nb_engines;
	h->sh.qsbr = zeroed(rte_rcu_qsbr_get_memsize(nb_engines));
	assert_int_equal(rte_rcu_qsbr_init(h->sh.qsbr, nb_engines), 0);
	h->sh.mrs = mr_table_create(MAX_MR, h->sh.qsbr, 0);
	h->sh.qps = qp_table_create(MAX_QP, h->sh.qsbr, 0);
	snprintf(name, sizeof(name), "pool%u", number);
	h->sh.pool = rte_pktmbuf_pool_create(name, POOL_MBUFS, 0, 0, RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES,
					  SOCKET_ID_ANY);
	assert_non_null(h->sh.pool);
	h->port = (struct net_port){ .port_id = port_ids[number - 1], .nb_queues = (uint16_t)nb_engines,
				     .active_mtu = UROCE_MTU_4096 };
	h->ports[0] = &h->port;
	port_start(h->port.port_id, h->sh.pool);
	for (unsigned int i = 0; i < nb_engines; i++) {
		const struct engine_config c = { .id = i, .nb_engines = nb_engines, .idle = ENGINE_IDLE_ADAPTIVE,
						 .ports = h->ports, .nb_ports = 1, .sh = h->sh,
						 .socket_id = SOCKET_ID_ANY, .cc = { cc_of(number) },
						 .features = { TP_FEATURES_ALL } };

		h->engines[i] = engine_create(&c);
		assert_non_null(h->engines[i]);
	}
	engine_connect(h->engines, nb_engines);
	for (unsigned int i = 0; i < nb_engines; i++)
		run_begin(&h->runners[i], h->engines[i]);
}

static void
host_stop(struct host *h)
{
	for (unsigned int i = 0; i < h->nb_engines; i++)
		run_end(&h->runners[i]);
}

static void
host_down(struct host *h)
{
	assert_int_equal(mr_table_count(h->sh.mrs), 0);
	assert_int_equal(qp_table_count(h->sh.qps), 0);
	for (unsigned int i = 0; i < h->nb_engines; i++)
		engine_destroy(h->engines[i]);
	qp_table_destroy(h->sh.qps);
	mr_table_destroy(h->sh.mrs);
	assert_int_equal(rte_mempool_in_use_count(h->sh.pool), 0);
	rte_mempool_free(h->sh.pool);
	free(h->sh.qsbr);
}

static int
create_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct program *p = arg;
	const struct qp_params q = {
		.type = UROCE_QPT_RC,
		.pd = PD,
		.send_cq = p->cq,
		.recv_cq = p->cq,
		.cap = { .max_send_wr = 1 << SQ_ORDER, .max_send_sge = 1 },
		.sq = p->sq,
		.shared = p->qp_shared,
		.owner = p,
	};
	int rc = qp_create(engine_transport(e), &q, &p->qp);

	if (rc == 0)
		engine_session_set_qp(p->session, 0, p->qp);
	return rc;
}

static int
destroy_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct program *p = arg;

	if (p->engine == p->home)
		engine_session_set_qp(p->session, 0, NULL);
	qp_destroy(engine_transport(e), p->qp);
	return 0;
}

void
program_up(struct program *p, struct host *h, unsigned int engine)
{
	struct cq_params cp = { .channel = -1, .multi = h->nb_engines > 1 };
	struct mem_seg seg;
	struct mr_params mp = { .pd = PD, .access = 15, .segs = &seg, .nb_segs = 1, .length = MEM_BYTES };

	memset(p, 0, sizeof(*p));
	p->host = h;
	p->engine = p->home = h->engines[engine];
	p->db = zeroed(sizeof(*p->db));
	p->kick_fd = eventfd(0, EFD_CLOEXEC);
	assert_true(p->kick_fd >= 0);
	p->session = engine_session_add(p->engine, p->db, 1, &p->kick_fd, false);
	assert_non_null(p->session);
	p->mem = zeroed(MEM_BYTES);
	seg = (struct mem_seg){ .va = (uintptr_t)p->mem, .length = MEM_BYTES, .host = p->mem };
	mp.addr = mp.iova = seg.va;
	assert_int_equal(mr_create(h->sh.mrs, &mp, &p->mr), 0);
	p->qp_shared = zeroed(sizeof(*p->qp_shared));
	p->cq_shared = zeroed(sizeof(*p->cq_shared));
	p->sq = (struct ring){ RING_SIZE(SQ_ORDER, 6), .base = zeroed(64 << SQ_ORDER) };
	p->cq_ring = (struct ring){ RING_SIZE(CQ_ORDER, 5), .base = zeroed(32 << CQ_ORDER) };
	cp.ring = p->cq_ring;
	cp.shared = p->cq_shared;
	assert_int_equal(cq_create(&cp, &p->cq), 0);
	assert_int_equal(engine_call(p->engine, create_msg, p), 0);
	p->qpn = qp_num(p->qp);
}

void
program_down(struct program *p)
{
	if (p->engine != p->home)
		engine_session_forget_qp(p->home, p->engine, p->session, 0);
	engine_call(p->engine, destroy_msg, p);
	engine_session_remove(p->home, p->session);
	rcu_wait(p->host->sh.qsbr);
	assert_int_equal(cq_users(p->cq), 0);
	cq_destroy(p->cq);
	mr_destroy(p->host->sh.mrs, p->mr);
	close(p->kick_fd);
	free(p->db);
	free(p->mem);
	free(p->qp_shared);
	free(p->cq_shared);
	free(p->sq.base);
	free(p->cq_ring.base);
}

struct modify {
	struct qp *qp;
	struct uroce_qp_attr attr;
	uint32_t mask;
	const struct tp_path *path;
};

static int
modify_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct modify *m = arg;

	return qp_modify(engine_transport(e), m->qp, &m->attr, m->mask, m->path, now_ns);
}

void
program_connect(struct program *p, const struct program *peer, bool loopback)
{
	const struct tp_path path = {
		.addr = {
			.dmac = { 2, 0, 0, 0, 0, peer->host->number },
			.smac = { 2, 0, 0, 0, 0, p->host->number },
			.ip_version = 4,
			.ttl = 64,
			.sip = { 198, 18, 0, p->host->number },
			.dip = { 198, 18, 0, peer->host->number },
		},
		.pkey = WIRE_PKEY_DEFAULT,
		.loopback = loopback,
	};
	struct modify m = {
		.qp = p->qp,
		.attr = { .qp_state = UROCE_QPS_INIT, .port_num = 1, .qp_access_flags = 15 },
		.mask = UROCE_QP_STATE | UROCE_QP_PKEY_INDEX | UROCE_QP_PORT | UROCE_QP_ACCESS_FLAGS,
	};

	assert_int_equal(engine_call(p->engine, modify_msg, &m), 0);
	m.attr = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_RTR, .path_mtu = UROCE_MTU_4096, .rq_psn = 0xfffff0,
					 .dest_qp_num = peer->qpn, .max_dest_rd_atomic = 4, .min_rnr_timer = 12 };
	m.attr.ah = (struct uroce_ah_attr){
		.dgid = { [10] = 0xff, [11] = 0xff, [12] = 198, [13] = 18, [15] = peer->host->number },
		.is_global = 1,
		.port_num = 1,
	};
	m.mask = UROCE_QP_STATE | UROCE_QP_AV | UROCE_QP_PATH_MTU | UROCE_QP_DEST_QPN | UROCE_QP_RQ_PSN |
		 UROCE_QP_MAX_DEST_RD_ATOMIC | UROCE_QP_MIN_RNR_TIMER;
	m.path = &path;
	assert_int_equal(engine_call(p->engine, modify_msg, &m), 0);
	m.attr = (struct uroce_qp_attr){ .qp_state = UROCE_QPS_RTS, .timeout = 17, .retry_cnt = 7, .rnr_retry = 7,
					 .sq_psn = 0xfffff0, .max_rd_atomic = 4 };
	m.mask = UROCE_QP_STATE | UROCE_QP_TIMEOUT | UROCE_QP_RETRY_CNT | UROCE_QP_RNR_RETRY | UROCE_QP_SQ_PSN |
		 UROCE_QP_MAX_QP_RD_ATOMIC;
	m.path = NULL;
	assert_int_equal(engine_call(p->engine, modify_msg, &m), 0);
}

void
post_write(struct program *p, const struct program *peer, uint64_t wr_id, size_t off, uint32_t len)
{
	struct ring_sq_wqe *w = ring_slot(&p->sq, p->sq.counter);
	const union ring_sq_ctl ctl = { .opcode = UROCE_WR_RDMA_WRITE, .flags = UROCE_SEND_SIGNALED, .count = 1 };
	const uint64_t one = 1;

	w->wr_id = wr_id;
	wqe_put_remote(w, (uintptr_t)peer->mem + off, peer->mr->key);
	*wqe_sges(w, UROCE_WR_RDMA_WRITE) = (struct ring_sge){ (uintptr_t)p->mem + off, len, p->mr->key };
	ring_sq_post(&p->sq, p->sq.counter++, w, ctl);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&p->qp_shared->sq_watch) == 0 && ring_db_ring(p->db, 0))
		assert_int_equal(write(p->kick_fd, &one, sizeof(one)), sizeof(one));
}

void
expect_success(struct program *p, uint64_t wr_id)
{
	struct ring_cqe *cqe = ring_slot(&p->cq_ring, p->cq_ring.counter);
	uint64_t end = clock_ns() + UINT64_C(10000000000);
	union ring_cqe_ctl ctl;

	while (!ring_cq_ready(&p->cq_ring, p->cq_ring.counter, &ctl)) {
		assert_true(clock_ns() < end);
		sched_yield();
	}
	assert_int_equal(cqe->status, UROCE_WC_SUCCESS);
	assert_int_equal(cqe->opcode, UROCE_WC_RDMA_WRITE);
	assert_int_equal(cqe->wr_id, wr_id);
	assert_int_equal(cqe->qpn, p->qpn);
	p->cq_ring.counter++;
	atomic_store(&p->cq_shared->cons, p->cq_ring.counter);
}

void
writes_arrive(struct program *a, struct program *b)
{
	static const uint32_t lens[] = { 1, 8, 64, 4096, 4097, 100001, MEM_BYTES };

	for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		size_t off = MEM_BYTES - lens[i];
		volatile uint8_t *last = &b->mem[MEM_BYTES - 1];

		for (size_t k = 0; k < lens[i]; k++)
			a->mem[off + k] = (uint8_t)(k * 31 + i + 1);
		a->mem[MEM_BYTES - 1] = (uint8_t)(0x80 + i);
		post_write(a, b, i, off, lens[i]);
		while (*last != 0x80 + i)
			sched_yield();
		assert_memory_equal(a->mem + off, b->mem + off, lens[i]);
		expect_success(a, i);
	}
	for (uint64_t i = 0; i < 200; i++) {
		post_write(a, b, 1000 + i, i * 64, 64);
		if (i >= (1 << SQ_ORDER) - 1)
			expect_success(a, 1000 + i - ((1 << SQ_ORDER) - 1));
	}
	for (uint64_t i = 200 - ((1 << SQ_ORDER) - 1); i < 200; i++)
		expect_success(a, 1000 + i);
}

void
host_end(struct host *h)
{
	host_stop(h);
	assert_int_equal(rte_eth_dev_stop(h->port.port_id), 0);
	host_down(h);
}

void
wires_up(void)
{
	wire_up();
	lanes_up();
}
