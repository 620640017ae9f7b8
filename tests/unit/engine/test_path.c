/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The whole way of an RDMA WRITE in one process: a program's rings and doorbell, its engine, a wire made of rings,
 * the peer's engine, the peer's memory, and the completion. Real transport, engines on threads of their own.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>

#include "util.h"

enum {
	PD = 9,
	WIRE_SIZE = 1024,
	SQ_ORDER = 4,
	CQ_ORDER = 5,
	MEM_BYTES = 1 << 20,
	MAX_MR = 16,
	MAX_QP = 16,
	POOL_MBUFS = 8191,
	ENGINES = 2,
};

/** What a daemon has: tables, engines, one port. */
struct host {
	struct shared sh;
	struct net_port port, *ports[1];
	struct engine *engines[ENGINES];
	struct runner runners[ENGINES];
	unsigned int nb_engines;
	uint8_t number; /**< last byte of MAC and IP address */
};

/** What a program has, and the daemon's objects for it. */
struct program {
	struct host *host;
	struct engine *engine, *home; /**< home: whose doorbell it rings */
	struct engine_session *session;
	struct ring_db *db;
	int kick_fd;
	struct ring sq, cq_ring;
	struct ring_qp_shared *qp_shared;
	struct ring_cq_shared *cq_shared;
	struct cq *cq;
	struct qp *qp;
	uint32_t qpn;
	struct mr *mr;
	uint8_t *mem;
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

static void
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

static void
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
	p->sq = (struct ring){ .order = SQ_ORDER, .shift = 6, .base = zeroed(64 << SQ_ORDER) };
	p->cq_ring = (struct ring){ .order = CQ_ORDER, .shift = 5, .base = zeroed(32 << CQ_ORDER) };
	cp.ring = p->cq_ring;
	cp.shared = p->cq_shared;
	assert_int_equal(cq_create(&cp, &p->cq), 0);
	assert_int_equal(engine_call(p->engine, create_msg, p), 0);
	p->qpn = qp_num(p->qp);
}

static void
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

/** From RESET to RTS. */
static void
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

/** Post a signalled WRITE of @p len bytes at @p off, to the same place at the peer; ring as a client does. */
static void
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

/** Wait for the next completion. */
static void
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

/** WRITEs of all sizes from @p a to @p b, some together; each is polled by its last byte, then by its completion. */
static void
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

static void
host_end(struct host *h)
{
	host_stop(h);
	assert_int_equal(rte_eth_dev_stop(h->port.port_id), 0);
	host_down(h);
}

static void
write_crosses_the_wire(void **state)
{
	struct program a, b;
	struct host h[2];

	host_up(&h[0], 1, 1);
	host_up(&h[1], 2, 1);
	program_up(&a, &h[0], 0);
	program_up(&b, &h[1], 0);
	program_connect(&a, &b, false);
	program_connect(&b, &a, false);
	writes_arrive(&a, &b);
	writes_arrive(&b, &a);
	/* All data of the longest and of the small ones; how many ACKs there are besides depends on how they coalesce. */
	assert_true(engine_stats(h[0].engines[0])->tx_packets >= MEM_BYTES / 4096 + 200);
	assert_int_equal(engine_stats(h[0].engines[0])->tx_stuck_dropped, 0);
	program_down(&a);
	program_down(&b);
	host_end(&h[0]);
	host_end(&h[1]);
}

static void
write_to_the_same_engine_loops_back(void **state)
{
	struct program a, b;
	struct host h;

	host_up(&h, 1, 1);
	program_up(&a, &h, 0);
	program_up(&b, &h, 0);
	program_connect(&a, &b, true);
	program_connect(&b, &a, true);
	writes_arrive(&a, &b);
	assert_int_equal(engine_stats(h.engines[0])->tx_packets, 0);
	program_down(&a);
	program_down(&b);
	host_end(&h);
}

static void
write_to_another_engine_is_handed_over(void **state)
{
	struct program a, b;
	struct host h;

	host_up(&h, 1, 2);
	program_up(&a, &h, 0);
	program_up(&b, &h, 1);
	program_connect(&a, &b, true);
	program_connect(&b, &a, true);
	writes_arrive(&a, &b);
	writes_arrive(&b, &a);
	assert_true(transport_counters(engine_transport(h.engines[0]))->rx_handoff > 0);
	assert_true(transport_counters(engine_transport(h.engines[1]))->rx_handoff > 0);
	program_down(&a);
	program_down(&b);
	host_end(&h);
}

static void
packets_received_by_the_wrong_engine_are_handed_over(void **state)
{
	struct program a, b;
	struct host h[2];

	host_up(&h[0], 1, 2);
	host_up(&h[1], 2, 2);
	program_up(&a, &h[0], 1);
	program_up(&b, &h[1], 1);
	program_connect(&a, &b, false);
	program_connect(&b, &a, false);
	writes_arrive(&a, &b);
	assert_true(transport_counters(engine_transport(h[1].engines[0]))->rx_handoff > MEM_BYTES / 4096);
	assert_int_equal(engine_stats(h[1].engines[1])->rx_packets, 0);
	program_down(&a);
	program_down(&b);
	host_end(&h[0]);
	host_end(&h[1]);
}

/* ---- QPs that move ---- */
enum { MOVES = 300, PAUSES = 4096, MOVERS_NAP_US = 30, IDLE_NAP_US = 300 };

/** A thread that moves the QPs of two programs to and fro. */
struct mover {
	struct program *p[2];
	bool together;               /**< both in one move; they are at one engine */
	_Atomic bool end;
	_Atomic uint32_t moves, failed;
	uint64_t pauses[PAUSES];     /**< of the first moves, ns */
	uint32_t nb_pauses;
	pthread_t thread;
};

static void
move_some(struct mover *m, struct program *const *p, unsigned int n)
{
	struct host *h = p[0]->host;
	struct engine *from = p[0]->engine, *to = h->engines[from == h->engines[0]];
	struct engine_move qps[2];
	const struct engine_group g = { .qps = qps, .nb_qps = n };
	uint64_t ns;

	for (unsigned int i = 0; i < n; i++)
		qps[i] = (struct engine_move){ .qp = p[i]->qp, .home = p[i]->home, .session = p[i]->session, .slot = 0 };
	if (engine_move_qps(from, to, &g, &ns) != 0) {
		m->failed++;
		return;
	}
	for (unsigned int i = 0; i < n; i++)
		p[i]->engine = to;
	m->moves += n;
	if (m->nb_pauses < PAUSES)
		m->pauses[m->nb_pauses++] = ns;
}

static void
move_once(struct mover *m, struct program *p)
{
	move_some(m, &p, 1);
}

static void *
mover_run(void *arg)
{
	struct mover *m = arg;

	while (!m->end) {
		if (m->together)
			move_some(m, m->p, 2);
		else
			move_once(m, m->p[m->moves & 1]);
		nap_us(MOVERS_NAP_US);
	}
	return NULL;
}

/** Packets that came in another order than they were sent, or were dropped on the way. */
static uint64_t
disorder(const struct host *h)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < h->nb_engines; i++) {
		const struct tp_counters *c = transport_counters(engine_transport(h->engines[i]));

		n += c->out_of_sequence + c->packet_seq_err + c->implied_nak_seq_err + c->rx_held + c->rx_moving_dropped + c->rx_unknown_qp +
		     engine_stats(h->engines[i])->handoff_dropped;
	}
	return n;
}

/** QPs that have left before all that they had sent was acknowledged: their peers' engines didn't get their cores for too long. */
static uint64_t
undrained(const struct host *h)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < h->nb_engines; i++)
		n += transport_counters(engine_transport(h->engines[i]))->qps_undrained;
	return n;
}

static uint64_t
arrived(const struct host *h)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < h->nb_engines; i++)
		n += transport_counters(engine_transport(h->engines[i]))->qps_arrived;
	return n;
}

/** Programs that have nothing to do for a while ring when they post: at the engine where the QP is not. */
static void
doorbells_are_heard(struct program *a, struct program *b)
{
	for (uint64_t i = 0; i < 20; i++) {
		nap_us(IDLE_NAP_US);
		post_write(a, b, i, 0, 64);
		expect_success(a, i);
	}
}

static int
by_ns(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void
move_while_in_use(struct host *ha, struct host *hb, bool loopback, bool together)
{
	struct program a, b;
	struct mover m = { .p = { &a, &b }, .together = together };
	bool lanes = ha->number > 2;
	uint64_t late;

	program_up(&a, ha, 0);
	program_up(&b, hb, !together);
	program_connect(&a, &b, loopback);
	program_connect(&b, &a, loopback);
	assert_int_equal(pthread_create(&m.thread, NULL, mover_run, &m), 0);
	while (m.moves < MOVES && m.failed == 0) {
		writes_arrive(&a, &b);
		writes_arrive(&b, &a);
		memset(a.mem, 0, MEM_BYTES);
		memset(b.mem, 0, MEM_BYTES);
		doorbells_are_heard(&a, &b);
	}
	m.end = true;
	pthread_join(m.thread, NULL);
	assert_int_equal(m.failed, 0);
	assert_int_equal(arrived(ha) + (hb != ha ? arrived(hb) : 0), m.moves);
	late = undrained(ha) + (hb != ha ? undrained(hb) : 0);
	if (late == 0 || !lanes)
		assert_int_equal(disorder(ha) + disorder(hb), 0);
	qsort(m.pauses, m.nb_pauses, sizeof(m.pauses[0]), by_ns);
	print_message("%u moves, %u of them undrained; pauses: the shortest %lu ns, half of them at most %lu ns\n", m.moves, (unsigned int)late,
		      (unsigned long)m.pauses[0], (unsigned long)m.pauses[m.nb_pauses / 2]);
	program_down(&a);
	program_down(&b);
}

static void
qps_move_while_packets_cross_the_wire(void **state)
{
	struct host h[2];

	host_up(&h[0], 1, 2);
	host_up(&h[1], 2, 2);
	move_while_in_use(&h[0], &h[1], false, false);
	host_end(&h[0]);
	host_end(&h[1]);
}

/* What a QP sends from its new engine may overtake what it has sent from the old one, if that wasn't acknowledged. */
static void
qps_move_from_lane_to_lane(void **state)
{
	struct host h[2];

	host_up(&h[0], 3, 2);
	host_up(&h[1], 4, 2);
	move_while_in_use(&h[0], &h[1], false, false);
	host_end(&h[0]);
	host_end(&h[1]);
}

/* They meet at an engine, where their packets go by reference, and part again. */
static void
qps_of_one_host_meet_and_part(void **state)
{
	struct host h;

	host_up(&h, 1, 2);
	move_while_in_use(&h, &h, true, false);
	host_end(&h);
}

/* Their packets go by reference all the time; those under way when they leave are delivered before, or held. */
static void
qps_that_are_connected_move_together(void **state)
{
	struct host h;

	host_up(&h, 1, 2);
	move_while_in_use(&h, &h, true, true);
	host_end(&h);
}

static void
one_that_never_comes_home_is_destroyed(void **state)
{
	struct program a, b;
	struct mover m = { .moves = 0 };
	struct host h;

	host_up(&h, 1, 2);
	program_up(&a, &h, 0);
	program_up(&b, &h, 0);
	program_connect(&a, &b, true);
	program_connect(&b, &a, true);
	move_once(&m, &a);
	assert_int_equal(m.moves, 1);
	assert_ptr_equal(a.engine, h.engines[1]);
	assert_int_equal(qp_engine(a.qp), 1);
	doorbells_are_heard(&a, &b);
	/* Rung, and not heard any more. */
	for (int i = 0; i < 3; i++)
		ring_db_ring(a.db, 0);
	program_down(&a);
	program_down(&b);
	host_end(&h);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_crosses_the_wire),
		cmocka_unit_test(write_to_the_same_engine_loops_back),
		cmocka_unit_test(write_to_another_engine_is_handed_over),
		cmocka_unit_test(packets_received_by_the_wrong_engine_are_handed_over),
		cmocka_unit_test(qps_move_while_packets_cross_the_wire),
		cmocka_unit_test(qps_move_from_lane_to_lane),
		cmocka_unit_test(qps_of_one_host_meet_and_part),
		cmocka_unit_test(qps_that_are_connected_move_together),
		cmocka_unit_test(one_that_never_comes_home_is_destroyed),
	};

	if (eal_up("test_engine_path") != 0)
		return 1;
	wire_up();
	lanes_up();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
