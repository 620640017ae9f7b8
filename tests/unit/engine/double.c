/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A transport that records. The engine's own rules (who is woken, which doorbell arrives, when it sleeps) need one
 * whose answers the test chooses; test_path.c has the real one. And the engines that use it.
 */
#include <stdlib.h>
#include <string.h>

#include "transport/move.h"
#include "util.h"

struct transport {
	struct transport_config c;
	struct tp_txvec tx[UROCE_MAX_PORTS], loop;
	struct tp_counters counters;
};

enum { POOL_MBUFS = 2047, POOL_DATA = RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES };

struct recorded rec;
const int *rig_cpus;
unsigned int rig_nb_cpus;

static struct tp_event emit_event;
static uint32_t emit_times;
static uint32_t emit_failures;
static uint8_t emit_why;
static struct tp_mad emit_mad;
static uint32_t emit_mads;
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
double_emit_failures(uint8_t why, uint32_t times)
{
	emit_why = why;
	__atomic_store_n(&emit_failures, times, __ATOMIC_RELEASE);
}

void
double_emit_mads(uint32_t first, uint32_t times)
{
	emit_mad.src_qpn = first;
	__atomic_store_n(&emit_mads, times, __ATOMIC_RELEASE);
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
	memcpy(rec.ports, c->ports, sizeof(rec.ports));
	return tp;
}

void
transport_destroy(struct transport *tp)
{
	free(tp);
}

int
share_create(struct transport *tp, const struct share_params *p, struct share **out)
{
	*out = calloc(1, 1);
	return *out != NULL ? 0 : ENOMEM;
}

int
share_set(struct transport *tp, struct share *s, const struct share_params *p)
{
	return 0;
}

uint64_t
share_look(const struct transport *tp, const struct share *s, struct share_view *v)
{
	*v = (struct share_view){ 0 };
	return 0;
}

bool
share_is_light(const struct transport *tp, const struct share *s)
{
	return rec.light;
}

void
share_destroy(struct transport *tp, struct share *s)
{
	free(s);
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
	for (uint16_t i = 0; i < n; i++)
		tp->counters.rx_bytes += pkts[i]->data_len;
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
	for (times = __atomic_exchange_n(&emit_mads, 0, __ATOMIC_ACQUIRE); times > 0; times--, emit_mad.src_qpn++)
		tp->c.mad(tp->c.arg, &emit_mad);
	for (uintptr_t qpn = 1, n = __atomic_exchange_n(&emit_failures, 0, __ATOMIC_ACQUIRE); qpn <= n; qpn++)
		tp->c.failed(tp->c.arg, (const struct qp *)qpn);
	if (__atomic_load_n(&handoff.pending, __ATOMIC_ACQUIRE) && handoff.from == tp->c.engine) {
		handoff.pending = 0;
		tp->c.handoff(tp->c.arg, handoff.to, handoff.port, handoff.m, handoff.trusted);
	}
	if (rec.on_run != NULL)
		rec.on_run(rec.on_run_arg, now_ns);
	rec.last_now_ns = now_ns;
	__atomic_fetch_add(&rec.runs, 1, __ATOMIC_RELEASE);
	return __atomic_load_n(&rec.work, __ATOMIC_RELAXED);
}

void
transport_copied(struct transport *tp, struct mem_job *job, uint64_t now_ns)
{
}

struct qp *
transport_serving(const struct transport *tp)
{
	return NULL;
}

void
transport_serves_nobody(struct transport *tp)
{
}

void
transport_called(struct transport *tp, uint64_t now_ns)
{
	__atomic_fetch_add(&rec.called, 1, __ATOMIC_RELEASE);
}

bool
transport_untold(const struct transport *tp)
{
	return rec.untold != 0;
}

void
transport_tell(struct transport *tp)
{
	rec.told_runs = rec.runs;
	__atomic_fetch_add(&rec.told, rec.untold, __ATOMIC_RELEASE);
	rec.untold = 0;
}

uint32_t
transport_copies(const struct transport *tp)
{
	return 0;
}

bool
transport_rest(struct transport *tp)
{
	return true;
}

uint64_t
transport_next_timeout(const struct transport *tp)
{
	return rec.next_timeout;
}

void
transport_set_tap(struct transport *tp, struct tp_tap *t)
{
	rec.tap = t;
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

void
transport_depths(const struct transport *tp, struct tp_depths *d)
{
	*d = (struct tp_depths){ .tx_waiting = tp->loop.n };
}

const char *
tp_drop_reason(const struct tp_counters *before, const struct tp_counters *after)
{
	return after->rx_unknown_qp != before->rx_unknown_qp ? "rx_unknown_qp" : NULL;
}

void
qp_failure(const struct qp *qp, struct qp_failure *f)
{
	*f = (struct qp_failure){ .qpn = (uint32_t)(uintptr_t)qp, .reason.why = emit_why };
}

const struct tp_counters *
transport_counters(const struct transport *tp)
{
	return &tp->counters;
}

void
qp_doorbell_soon(const struct transport *tp, const struct qp *qp)
{
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

void
rig_up(struct rig *r, unsigned int n, enum engine_idle idle, uint16_t nb_ports, const uint16_t *port_ids)
{
	size_t bytes = rte_rcu_qsbr_get_memsize(n);
	struct engine *all[UROCE_MAX_ENGINES];

	r->sh.qsbr = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(bytes, RTE_CACHE_LINE_SIZE));
	assert_int_equal(rte_rcu_qsbr_init(r->sh.qsbr, n), 0);
	r->sh.pool = rte_pktmbuf_pool_create("pool", POOL_MBUFS, 0, 0, POOL_DATA, SOCKET_ID_ANY);
	assert_non_null(r->sh.pool);
	/* The recording transport looks up nothing: any address will do for the tables. */
	r->sh.mrs = (struct mr_table *)r;
	r->sh.qps = (struct qp_table *)r;
	for (uint16_t p = 0; p < nb_ports; p++) {
		r->port[p] = (struct net_port){ .index = p, .port_id = port_ids[p], .nb_queues = (uint16_t)n };
		r->ports[p] = &r->port[p];
	}
	memset(&rec, 0, sizeof(rec));
	rec.next_timeout = UINT64_MAX;
	for (unsigned int i = 0; i < n; i++) {
		struct engine_config c = { .id = i, .nb_cpus = rig_nb_cpus, .nb_engines = n, .idle = idle, .ports = r->ports,
						 .nb_ports = nb_ports, .sh = r->sh, .socket_id = SOCKET_ID_ANY };

		if (rig_nb_cpus > 0)
			memcpy(c.cpus, rig_cpus, rig_nb_cpus * sizeof(c.cpus[0]));
		r[i].e = engine_create(&c);
		assert_non_null(r[i].e);
		all[i] = r[i].e;
	}
	engine_connect(all, n);
}

void
rig_down(struct rig *r, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		engine_destroy(r[i].e);
	assert_int_equal(rte_mempool_in_use_count(r->sh.pool), 0);
	rte_mempool_free(r->sh.pool);
	free(r->sh.qsbr);
}

/* ---- QPs that move: test_moves.c has them, with the real transport ---- */
bool
qp_is_at(const struct qp *qp, const struct transport *tp)
{
	return true;
}

int
qp_engine_now(const struct qp *qp)
{
	return -1;
}

struct qp_move *
qp_move_create(struct transport *to, uint32_t nb_qps, uint32_t nb_srqs)
{
	return NULL;
}

void
qp_move_add(struct qp_move *m, struct qp *qp, struct share *share)
{
	abort();
}

void
qp_move_add_srq(struct qp_move *m, struct srq *srq)
{
	abort();
}

bool
qp_move_drain(struct qp_move *m, struct transport *from, uint64_t now_ns)
{
	abort();
}

void
qp_move_be_brief(struct qp_move *m)
{
	abort();
}

void
qp_move_stay(struct qp_move *m, struct transport *from, uint64_t now_ns)
{
	abort();
}

int
qp_move_reserve(struct qp_move *m)
{
	abort();
}

int
qp_move_check(struct qp_move *m, struct transport *from, uint64_t now_ns)
{
	abort();
}

void
qp_move_leave(struct qp_move *m, struct transport *from)
{
	abort();
}

void
qp_move_take_held(struct qp_move *m, struct transport *from, uint64_t now_ns)
{
	abort();
}

uint64_t
qp_move_arrives_ns(const struct qp_move *m)
{
	abort();
}

void
qp_move_arrive(struct qp_move *m, uint64_t now_ns)
{
	abort();
}

void
qp_move_run_held(struct qp_move *m, uint64_t now_ns)
{
	abort();
}

void
transport_held_forward(struct transport *tp)
{
	abort();
}

uint64_t
qp_move_pause(const struct qp_move *m)
{
	abort();
}

void
qp_move_end(struct qp_move *m)
{
	abort();
}

void
qp_move_destroy(struct qp_move *m)
{
	if (m != NULL)
		abort();
}
