/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_mbuf.h>

#include "mem/job.h"
#include "pair.h"
#include "transport/journal/journal.h"

enum { PAIR_MBUFS = 8191, PAIR_BURST = 32, PAIR_SETTLE_MAX = 1000000 };

static struct rte_mempool *pool;

int
pair_group_setup(void **state)
{
	char *argv[] = { "test", "--no-huge", "-m", "128", "--no-pci", "--no-telemetry", "--no-shconf", "-l", "0",
			 "--log-level", "3", NULL, NULL };
	char name[64];

	(void)state;
	snprintf(name, sizeof(name), "--file-prefix=uroce-test-%d", (int)getpid());
	argv[11] = name;
	if (rte_eal_init(12, argv) < 0)
		return -1;
	pool = rte_pktmbuf_pool_create("pair", PAIR_MBUFS, 256, 0, RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES, 0);
	return pool == NULL ? -1 : 0;
}

int
pair_group_teardown(void **state)
{
	(void)state;
	rte_mempool_free(pool);
	return rte_eal_cleanup() == 0 ? 0 : -1;
}

struct rte_mempool *
pair_pool(void)
{
	return pool;
}

uint32_t
pair_mbufs_in_use(void)
{
	return rte_mempool_in_use_count(pool);
}

/* ---- Hosts ---- */
static void
on_event(void *arg, const struct tp_event *ev)
{
	struct host *h = arg;

	assert_true(h->nb_events < PAIR_MAX_EVENTS);
	h->events[h->nb_events++] = *ev;
}

static bool
on_completion(void *arg, int channel, uint64_t cookie)
{
	struct end_cq *c = (void *)(uintptr_t)cookie;

	if (c->no_room)
		return false;
	c->events++;
	return true;
}

unsigned int
host_events(const struct host *h, enum uroce_event type)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < h->nb_events; i++)
		n += h->events[i].type == type;
	return n;
}

struct pair *
pair_new(void)
{
	return pair_new_cc(&(struct tp_port_config){ .features = TP_FEATURES_ALL });
}

static bool
on_copy(void *arg, struct mem_job *job)
{
	struct host *h = arg;

	if (h->no_copies || h->nb_copies == PAIR_MAX_COPIES)
		return false;
	job->fd = job->owner->mem_fd;
	h->copies[h->nb_copies++] = job;
	return true;
}

unsigned int
host_copy(struct host *h, unsigned int n)
{
	unsigned int done = 0;

	for (; done < n && h->nb_copies > 0; done++) {
		struct mem_job *job = h->copies[0];

		memmove(h->copies, h->copies + 1, --h->nb_copies * sizeof(h->copies[0]));
		mem_job_run(job);
		transport_copied(h->tp, job, h->pair->now);
		pair_settle(h->pair);
	}
	return done;
}

struct transport *
host_transport(struct host *h, const struct tp_port_config *port, const struct tp_limits *limits)
{
	struct transport_config c = { .nb_ports = 1, .event = on_event, .notify = on_completion, .copy = on_copy, .arg = h, .sh = h->sh, .limits = *limits,
				      .journal_limits = { .qps = PAIR_QPS, .cqs = PAIR_QUEUES, .srqs = PAIR_QUEUES } };
	struct transport *tp;

	c.ports[0] = *port;
	if (h->pair->journals) {
		c.copy = NULL;
		c.journal = mmap(NULL, journal_bytes(&c.journal_limits), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		assert_ptr_not_equal(c.journal, MAP_FAILED);
		h->journal = c.journal;
	}
	tp = transport_create(&c);
	assert_non_null(tp);
	return tp;
}

static struct pair *
make(const struct tp_port_config *port, const struct tp_limits *limits, bool journals)
{
	struct pair *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->journals = journals;
	p->now = 1000000;
	p->mbufs_before = pair_mbufs_in_use();
	for (unsigned int i = 0; i < 2; i++) {
		struct host *h = &p->h[i];

		h->pair = p;
		h->id = i;
		h->sh.pool = pool;
		h->sh.mrs = mr_table_create(64, NULL, 0);
		h->sh.qps = qp_table_create(PAIR_QPS, NULL, 0);
		h->sh.ahs = ah_table_create(16, NULL);
		h->sh.mcasts = mcast_table_create(NULL);
		assert_non_null(h->sh.mrs);
		assert_non_null(h->sh.qps);
		assert_non_null(h->sh.ahs);
		assert_non_null(h->sh.mcasts);
		h->tp = host_transport(h, port, limits);
	}
	return p;
}

struct pair *
pair_new_cc(const struct tp_port_config *port)
{
	return make(port, &(struct tp_limits){ 0 }, false);
}

struct pair *
pair_new_journal(uint16_t items)
{
	return make(&(struct tp_port_config){ .features = TP_FEATURES_ALL }, &(struct tp_limits){ .journal_items = items }, true);
}

void
pair_free(struct pair *p)
{
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(qp_table_count(p->h[i].sh.qps), 0);
		transport_destroy(p->h[i].tp);
		qp_table_destroy(p->h[i].sh.qps);
		ah_table_destroy(p->h[i].sh.ahs);
		mcast_table_destroy(p->h[i].sh.mcasts);
		mr_table_destroy(p->h[i].sh.mrs);
		if (p->journals)
			munmap(p->h[i].journal, journal_bytes(&(struct journal_limits){ .qps = PAIR_QPS, .cqs = PAIR_QUEUES, .srqs = PAIR_QUEUES }));
	}
	assert_int_equal(pair_mbufs_in_use(), p->mbufs_before);
	free(p);
}

struct mr *
host_mr(struct host *h, void *buf, uint64_t len, uint32_t access)
{
	struct mem_seg seg = { .va = ADDR(buf), .length = len, .host = buf };
	struct mr_params mp = { .pd = PAIR_PD, .access = access, .addr = ADDR(buf), .length = len, .iova = ADDR(buf),
				.segs = &seg, .nb_segs = 1 };
	struct mr *mr;

	assert_int_equal(mr_create(h->sh.mrs, &mp, &mr), 0);
	return mr;
}

/* ---- The wire ---- */
void
packet_mark_ce(struct rte_mbuf *m)
{
	uint8_t *l3 = rte_pktmbuf_mtod_offset(m, uint8_t *, WIRE_ETH_BYTES);
	uint32_t sum = 0;

	if (l3[0] >> 4 == 6) {
		l3[1] |= 3 << 4;
		return;
	}
	l3[1] |= 3;
	wire_put16(l3 + 10, 0);
	for (unsigned int i = 0; i < WIRE_IPV4_BYTES; i += 2)
		sum += wire_get16(l3 + i);
	sum = (sum & 0xffff) + (sum >> 16);
	wire_put16(l3 + 10, (uint16_t)~((sum & 0xffff) + (sum >> 16)));
}

static void
note_packet(struct pair *p, unsigned int from, struct rte_mbuf *m, bool trusted, struct note *n)
{
	struct wire_pkt pkt;

	memset(n, 0, sizeof(*n));
	/* Whatever a transport sends is a good packet. */
	assert_int_equal(wire_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, !trusted, &pkt), WIRE_OK);
	assert_int_equal(m->pkt_len, m->data_len);
	n->from = from;
	n->bth = pkt.bth;
	n->payload = pkt.payload_bytes;
	memcpy(n->dmac, pkt.l2, sizeof(n->dmac));
	n->sport = pkt.sport;
	n->flow_label = pkt.ip_version == 6 ? wire_get32(pkt.l3) & 0xfffff : 0;
	n->syndrome = 0xff;
	if (pkt.op->flags & WIRE_F_AETH) {
		n->syndrome = pkt.bthp[pkt.op->off_aeth];
		n->msn = wire_get24(pkt.bthp + pkt.op->off_aeth + 1);
	}
	if (pkt.op->flags & WIRE_F_RETH)
		n->reth_len = wire_get32(pkt.bthp + pkt.op->off_reth + 12);
	n->lost = p->lose != NULL && p->lose(p, n, p->lose_arg);
	if (p->nb_log < PAIR_MAX_LOG)
		p->log[p->nb_log++] = *n;
}

/* Move what @p from has sent to its peer (or itself). @return packets. */
static uint32_t
deliver(struct pair *p, struct host *from, struct tp_txvec *v, bool loop)
{
	struct host *to = loop ? from : &p->h[!from->id];
	struct rte_mbuf *burst[PAIR_BURST];
	uint32_t moved = v->n;
	uint16_t n = 0;

	for (uint16_t i = 0; i < v->n; i++) {
		struct note nt;

		note_packet(p, from->id, v->pkts[i], loop, &nt);
		if (nt.lost) {
			rte_pktmbuf_free(v->pkts[i]);
			continue;
		}
		if (p->duplicate) {
			struct rte_mbuf *copy = rte_pktmbuf_copy(v->pkts[i], pool, 0, UINT32_MAX);

			assert_non_null(copy);
			copy->port = v->pkts[i]->port;
			burst[n++] = copy;
		}
		burst[n++] = v->pkts[i];
		if (n >= PAIR_BURST - 1 || p->singly) {
			assert_int_equal(transport_rx(to->tp, 0, burst, n, loop, p->now), 0);
			n = 0;
			if (p->singly)
				host_turn(to);
		}
	}
	v->n = 0;
	if (n > 0)
		assert_int_equal(transport_rx(to->tp, 0, burst, n, loop, p->now), 0);
	return moved;
}

uint32_t
host_turn(struct host *h)
{
	return transport_run(h->tp, h->pair->now);
}

static uint32_t
step(struct pair *p)
{
	uint32_t work = 0;

	for (unsigned int i = 0; i < 2; i++) {
		struct host *h = &p->h[i];

		work += host_turn(h);
		if (!p->stalled) {
			work += deliver(p, h, transport_tx(h->tp, 0), false);
			work += deliver(p, h, transport_loop(h->tp), true);
		}
	}
	return work;
}

void
pair_settle(struct pair *p)
{
	for (unsigned int i = 0; i < PAIR_SETTLE_MAX; i++) {
		if (step(p) == 0)
			return;
	}
	fail_msg("the hosts never come to rest");
}

void
pair_advance(struct pair *p, uint64_t ns)
{
	uint64_t end = p->now + ns;

	pair_settle(p);
	while (p->now < end) {
		uint64_t next = RTE_MIN(transport_next_timeout(p->h[0].tp), transport_next_timeout(p->h[1].tp));

		p->now = next <= p->now ? p->now + 1 : RTE_MIN(next, end);
		pair_settle(p);
	}
}

uint32_t
pair_count(const struct pair *p, unsigned int from, int opcode)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->nb_log; i++)
		n += p->log[i].from == from && (opcode < 0 || p->log[i].bth.opcode == opcode);
	return n;
}

uint32_t
pair_count_syndrome(const struct pair *p, unsigned int from, uint8_t syndrome)
{
	uint8_t mask = WIRE_AETH_TYPE(syndrome) == WIRE_AETH_NAK ? 0xff : 0xe0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < p->nb_log; i++)
		n += p->log[i].from == from && WIRE_OPCODE_OP(p->log[i].bth.opcode) == WIRE_OP_ACK &&
		     (p->log[i].syndrome & mask) == (syndrome & mask);
	return n;
}

struct wire_addr
pair_address(unsigned int from, bool v6)
{
	struct wire_addr a = {
		.dmac = { 2, 0, 0, 0, 0, (uint8_t)!from },
		.smac = { 2, 0, 0, 0, 0, (uint8_t)from },
		.ip_version = v6 ? 6 : 4,
		.ttl = 64,
	};

	if (v6) {
		a.sip[0] = a.dip[0] = 0xfd;
		a.sip[15] = (uint8_t)(from + 1);
		a.dip[15] = (uint8_t)(!from + 1);
	} else {
		memcpy(a.sip, (uint8_t[]){ 198, 18, 0, (uint8_t)(from + 1) }, 4);
		memcpy(a.dip, (uint8_t[]){ 198, 18, 0, (uint8_t)(!from + 1) }, 4);
	}
	return a;
}

void
pair_inject(struct pair *p, struct end *e, const struct wire_bth *b, const void *after_bth, uint32_t len)
{
	struct wire_addr a = pair_address(!e->host->id, false);
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint16_t l4 = (uint16_t)(WIRE_BTH_BYTES + len + WIRE_ICRC_BYTES);
	struct wire_bth bth = *b;
	struct wire_tmpl t;
	uint8_t *frame;

	assert_non_null(m);
	bth.dqpn = qp_num(e->qp);
	bth.pkey = WIRE_PKEY_DEFAULT;
	a.sport = 0xc000;
	wire_tmpl_build(&t, &a);
	frame = rte_pktmbuf_mtod(m, uint8_t *);
	wire_tmpl_write(&t, frame, l4, 0);
	wire_put_bth(frame + t.bth_off, &bth);
	memcpy(frame + t.bth_off + WIRE_BTH_BYTES, after_bth, len);
	wire_tmpl_seal(&t, frame, l4);
	m->data_len = (uint16_t)(t.bth_off + l4);
	m->pkt_len = m->data_len;
	transport_rx(e->host->tp, 0, &m, 1, false, p->now);
}
