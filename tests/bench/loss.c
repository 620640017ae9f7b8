/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What loss costs: two transports, a link of 100 Gb/s with a round trip of 10 us between them, MTU 4096, under a virtual
 * clock. Prints goodput of 64 KiB messages relative to the same link without loss, and what the loss of one particular
 * packet costs in round trips. Deterministic: the same numbers on any machine.
 *
 *     loss            the tables
 *     loss --check    fewer messages; status 1 if a figure is below what docs/benchmarks.md promises
 */
#include <stdio.h>

#include "rig.h"
#include "transport/core/types_priv.h"

enum {
	GBPS = 100,
	DELAY_NS = 5000,            /* each way */
	RTT_NS = 2 * DELAY_NS,
	FIFO = 4096,                /* packets on a link; a power of two */
	STEP_NS = 250,
	MESSAGE = 64 << 10,
	DEPTH = 16,                 /* messages that a sender keeps posted */
	READS = 16,                 /* that may be outstanding, as on many NICs */
	WARM_UP_NS = 2 * PAIR_MS,
	SETTLE_NS = 20 * PAIR_MS,   /* long enough for any retry */
	BEFORE = 1000,              /* messages */
	NO = 0xff,
	MOST_RTTS = 8,              /* that a lost packet may cost */
};

/* Packets in flight, in order. */
struct fifo {
	struct { uint64_t at; struct rte_mbuf *m; } q[FIFO];
	uint32_t head, tail;
	uint64_t free_at;           /* when the link has sent what was given to it */
};

/* The nth packet from a host with an opcode, to be lost. NO: the first NAK, or the first SACK in its place. */
struct victim {
	const char *name;
	uint32_t len;
	enum uroce_wr_op op;
	struct { unsigned int from; uint8_t opcode, nth; } lost[2];
	unsigned int nb_lost;
};

struct world {
	struct rig r;
	struct fifo link[2];        /* from host 0, from host 1 */
	uint64_t random;
	uint32_t loss_ppm;
	const struct victim *victim;
	uint32_t seen[2];
	uint32_t completed;
};

static bool
is(const uint8_t *bth, uint8_t opcode)
{
	if (opcode == NO)
		return bth[0] == WIRE_OPCODE_SACK ||
		       (bth[0] == WIRE_OP_ACK && bth[WIRE_BTH_BYTES] == WIRE_NAK_PSN_SEQ);
	return bth[0] == opcode;
}

static bool
lost(struct world *w, unsigned int from, const struct rte_mbuf *m)
{
	const uint8_t *bth = rte_pktmbuf_mtod_offset(m, const uint8_t *, WIRE_ETH_BYTES + WIRE_IPV4_BYTES +
						     WIRE_UDP_BYTES);
	bool hit = false;

	if (w->loss_ppm != 0) {
		w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407;
		return (w->random >> 33) % 1000000 < w->loss_ppm;
	}
	for (unsigned int i = 0; w->victim != NULL && i < w->victim->nb_lost; i++) {
		if (w->victim->lost[i].from == from && is(bth, w->victim->lost[i].opcode))
			hit |= w->seen[i]++ == w->victim->lost[i].nth;
	}
	return hit;
}

static void
send_all(struct world *w, unsigned int from, struct tp_txvec *v)
{
	struct fifo *f = &w->link[from];

	for (uint16_t i = 0; i < v->n; i++) {
		struct rte_mbuf *m = v->pkts[i];

		f->free_at = RTE_MAX(f->free_at, w->r.p->now) + m->pkt_len * 8 / GBPS;
		if (lost(w, from, m)) {
			rte_pktmbuf_free(m);
			continue;
		}
		if (f->tail - f->head == FIFO)
			rte_panic("more packets in flight than the windows allow\n");
		f->q[f->tail % FIFO].at = f->free_at + DELAY_NS;
		f->q[f->tail++ % FIFO].m = m;
	}
	v->n = 0;
}

static void
step(struct world *w)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct transport *tp = w->r.p->h[i].tp;
		struct fifo *in = &w->link[!i];

		for (; in->head != in->tail && in->q[in->head % FIFO].at <= w->r.p->now; in->head++)
			transport_rx(tp, 0, &in->q[in->head % FIFO].m, 1, true, w->r.p->now);
		transport_run(tp, w->r.p->now);
		send_all(w, i, transport_tx(tp, 0));
	}
	w->r.p->now += STEP_NS;
}

/* Messages that are on their way at the same time have their own buffers. */
static void
post(struct world *w, enum uroce_wr_op op, uint32_t len, uint32_t nth)
{
	uint32_t at = nth % DEPTH * MESSAGE;

	end_send(w->r.a, &(struct wr){ .op = op, .sge = SGE(w->r.abuf + at, len, w->r.amr), .nb_sge = 1,
				       .remote_addr = ADDR(w->r.bbuf) + at, .rkey = w->r.bmr->key });
}

static void
poll(struct world *w)
{
	struct ring_cqe e;

	while (cq_poll(&w->r.a->scq, &e, NULL)) {
		if (e.status != UROCE_WC_SUCCESS)
			rte_panic("a message ends with status %u\n", e.status);
		w->completed++;
	}
}

static struct world *
world_up(enum uroce_wr_op op, bool selective)
{
	struct world *w = calloc(1, sizeof(*w));
	const struct tp_port_config port = { .mbps = GBPS * 1000, .features = TP_FEATURES_ALL };

	if (w == NULL)
		rte_panic("no memory\n");
	rig_up_cc(&w->r, NULL, &(struct conn_opts){ .mtu = UROCE_MTU_4096, .rd_atomic = READS, .dest_rd_atomic = READS }, &port);
	w->r.p->h[1].tp->c.ports[0].features.selective_repeat = selective;
	fill(op == UROCE_WR_RDMA_READ ? w->r.bbuf : w->r.abuf, BUF, 2);
	w->random = 1;
	return w;
}

static void
world_down(struct world *w)
{
	for (unsigned int i = 0; i < 2; i++)
		for (struct fifo *f = &w->link[i]; f->head != f->tail; f->head++)
			rte_pktmbuf_free(f->q[f->head % FIFO].m);
	rig_down(&w->r);
	free(w);
}

/* ---- Goodput ---- */
static double
goodput(enum uroce_wr_op op, bool selective, uint32_t loss_ppm, uint64_t ns, struct tp_counters *c)
{
	struct world *w = world_up(op, selective);
	uint32_t posted = 0, before;
	uint64_t end;

	w->loss_ppm = loss_ppm;
	for (end = w->r.p->now + WARM_UP_NS; w->r.p->now < end; step(w)) {
		for (poll(w); posted - w->completed < DEPTH; posted++)
			post(w, op, MESSAGE, posted);
	}
	before = w->completed;
	for (end = w->r.p->now + ns; w->r.p->now < end; step(w)) {
		for (poll(w); posted - w->completed < DEPTH; posted++)
			post(w, op, MESSAGE, posted);
	}
	*c = *counters(&w->r, 0);
	if (memcmp(w->r.abuf, w->r.bbuf, BUF) != 0)
		rte_panic("the data is wrong\n");
	posted = w->completed - before;
	world_down(w);
	return (double)posted * MESSAGE * 8 / (double)ns;
}

struct target {
	uint32_t loss_ppm;
	double selective, go_back_n; /* parts of what goes without loss */
	unsigned int weight;         /* of the time: so that there are losses enough */
};

static const struct target targets[] = {
	{ 100, 0.99, 0.97, 4 },
	{ 1000, 0.98, 0.90, 2 },
	{ 10000, 0.90, 0.60, 1 },
};

static bool
table_goodput(enum uroce_wr_op op, const char *name, uint64_t ns)
{
	static const char *const modes[] = { "go-back-N", "selective repeat" };
	struct tp_counters c;
	bool good = true;

	printf("%s of 64 KiB\n\n| loss | | Gb/s | of no loss | promised | sent again | probes | timeouts |\n"
	       "|---|---|---|---|---|---|---|---|\n", name);
	for (int selective = 1; selective >= 0; selective--) {
		double none = goodput(op, selective, 0, ns, &c);

		printf("| 0 | %s | %.1f | | | %lu | %lu | %lu |\n", modes[selective], none, c.retransmitted_packets,
		       c.tail_loss_probes, c.local_ack_timeout_err);
		good &= c.retransmitted_packets == 0 && c.tail_loss_probes == 0;
		for (unsigned int i = 0; i < RTE_DIM(targets); i++) {
			const struct target *t = &targets[i];
			double part = goodput(op, selective, t->loss_ppm, ns * t->weight, &c) / none;
			double least = selective ? t->selective : t->go_back_n;

			printf("| %g | %s | %.1f | %.1f %% | %.0f %% | %lu | %lu | %lu |\n", t->loss_ppm * 1e-6,
			       modes[selective], part * none, 100 * part, 100 * least, c.retransmitted_packets,
			       c.tail_loss_probes, c.local_ack_timeout_err);
			good &= part >= least;
		}
	}
	printf("\n");
	return good;
}

/* ---- One packet ---- */
#define ONE(f, o, n) .lost = { { f, WIRE_OP_##o, n } }, .nb_lost = 1
static const struct victim victims[] = {
	{ "WRITE of 64 KiB: a packet in the middle", MESSAGE, UROCE_WR_RDMA_WRITE, ONE(0, WRITE_MIDDLE, 6) },
	{ "its last packet", MESSAGE, UROCE_WR_RDMA_WRITE, ONE(0, WRITE_LAST, 0) },
	{ "a packet in the middle, and the NAK (SACK) for it", MESSAGE, UROCE_WR_RDMA_WRITE,
	  .lost = { { 0, WIRE_OP_WRITE_MIDDLE, 6 }, { 1, NO, 0 } }, .nb_lost = 2 },
	{ "WRITE of 64 bytes", 64, UROCE_WR_RDMA_WRITE, ONE(0, WRITE_ONLY, 0) },
	{ "its ACK", 64, UROCE_WR_RDMA_WRITE, ONE(1, ACK, 0) },
	{ "READ of 64 KiB: the request", MESSAGE, UROCE_WR_RDMA_READ, ONE(0, READ_REQUEST, 0) },
	{ "its first response packet", MESSAGE, UROCE_WR_RDMA_READ, ONE(1, READ_RESP_FIRST, 0) },
	{ "a response packet in the middle", MESSAGE, UROCE_WR_RDMA_READ, ONE(1, READ_RESP_MIDDLE, 6) },
	{ "the last response packet", MESSAGE, UROCE_WR_RDMA_READ, ONE(1, READ_RESP_LAST, 0) },
};

/* @return how long one message takes after some that were not disturbed. */
static uint64_t
one_message(const struct victim *v, bool selective, bool disturbed)
{
	struct world *w = world_up(v->op, selective);
	uint64_t from, end;
	uint32_t done;

	/* A connection that has lost something, but long ago. */
	for (uint32_t i = 0; i < BEFORE; i++) {
		w->loss_ppm = i < BEFORE / 5 ? 10000 : 0;
		post(w, v->op, v->len, i);
		while (w->completed == i) {
			step(w);
			poll(w);
		}
	}
	w->victim = disturbed ? v : NULL;
	from = w->r.p->now;
	end = from + SETTLE_NS;
	done = w->completed;
	post(w, v->op, v->len, 0);
	while (w->completed == done && w->r.p->now < end) {
		step(w);
		poll(w);
	}
	end = w->r.p->now - from;
	world_down(w);
	return end;
}

static bool
table_costs(void)
{
	bool good = true;

	printf("Round trips that a lost packet costs\n\n| lost | selective repeat | go-back-N |\n|---|---|---|\n");
	for (unsigned int i = 0; i < RTE_DIM(victims); i++) {
		const struct victim *v = &victims[i];
		double cost[2];

		for (int selective = 0; selective < 2; selective++) {
			cost[selective] = ((double)one_message(v, selective, true) -
					   (double)one_message(v, selective, false)) / RTT_NS;
			good &= cost[selective] <= MOST_RTTS;
		}
		printf("| %s | %.1f | %.1f |\n", v->name, cost[1], cost[0]);
	}
	printf("\n");
	return good;
}

int
main(int argc, char **argv)
{
	bool check = argc > 1 && strcmp(argv[1], "--check") == 0, good;
	uint64_t ns = (check ? 40 : 100) * (uint64_t)PAIR_MS;

	if (argc > 2 || (argc == 2 && !check)) {
		fprintf(stderr, "usage: %s [--check]\n", argv[0]);
		return 2;
	}
	if (pair_group_setup(NULL) != 0)
		return 2;
	good = table_goodput(UROCE_WR_RDMA_WRITE, "WRITEs", ns);
	good &= table_goodput(UROCE_WR_RDMA_READ, "READs", ns);
	good &= table_costs();
	if (!good)
		printf("below what is promised\n");
	pair_group_teardown(NULL);
	return check && !good;
}
