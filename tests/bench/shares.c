/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a session gets of an engine beside another one: the victims and the busiest attackers of tests/verbs/hostile/matrix in one thread, whose programs react at once.
 * Only the engine's turns count, in processor time, so that a busy machine changes little: what is missing here is the engine's fault, and what is missing
 * in the matrix only is that of the CPU on which the programs run.
 *
 *   build/tests/bench/bench_shares [MS [ATTACKER...]]
 *
 * Prints what each victim does in a second, as part of half of what it does alone: 1 is fair.
 */
#include <stdio.h>
#include <time.h>

#include "rig.h"
#include "transport/core/local_priv.h"
#include "transport/core/share_priv.h"

enum {
	QPS = 512,
	DEPTH = 64,
	BYTES = 65536, /* half of a program's buffer */
	TURN_NS = 150, /* the rest of an engine's turn */
	MS = 50,
	NS_PER_MS = 1000000,
};

struct kind {
	const char *name;
	enum uroce_wr_op op;
	uint32_t qps, bytes, depth;
	bool receives;
};

static const struct kind victims[] = {
	{ "write-bw", UROCE_WR_RDMA_WRITE, 1, 32768, 16, false },
	{ "read-bw", UROCE_WR_RDMA_READ, 1, 32768, 16, false },
	{ "send-bw", UROCE_WR_SEND, 1, 32768, 16, true },
	{ "write-rate", UROCE_WR_RDMA_WRITE, 1, 8, 32, false },
	{ "send-rate", UROCE_WR_SEND, 1, 8, 32, true },
	{ "send-lat", UROCE_WR_SEND, 1, 8, 1, true },
	{ "atomics", UROCE_WR_ATOMIC_FETCH_AND_ADD, 1, 8, 16, false },
};

static const struct kind attackers[] = {
	{ "write-large", UROCE_WR_RDMA_WRITE, 1, 32768, 32, false },
	{ "write-large-many", UROCE_WR_RDMA_WRITE, 32, 32768, 32, false },
	{ "write-small", UROCE_WR_RDMA_WRITE, 4, 8, 32, false },
	{ "write-many-qps", UROCE_WR_RDMA_WRITE, QPS, 8, 2, false },
	{ "send-large", UROCE_WR_SEND, 4, 32768, 32, true },
	{ "read-large", UROCE_WR_RDMA_READ, 4, 32768, 32, false },
	{ "atomics", UROCE_WR_ATOMIC_FETCH_AND_ADD, 4, 8, 32, false },
	{ "rnr", UROCE_WR_SEND, 64, 4096, 32, false },
};

struct program {
	const struct kind *k;
	struct share *share;
	struct end *ends[QPS];
	uint8_t *buf;
	struct mr *mr;
	uint64_t done;
};

static struct pair *p;

static uint64_t
thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * (uint64_t)NS_PER_S + (uint64_t)t.tv_nsec;
}

static void
post(struct program *g, struct end *e)
{
	end_send(e, &(struct wr){ .op = g->k->op, .sge = SGE(g->buf, g->k->bytes, g->mr), .nb_sge = 1, .remote_addr = ADDR(g->buf) + BYTES, .rkey = g->mr->key });
}

static void
receive(struct program *g, struct end *e)
{
	end_recv(e, 0, SGE(g->buf + BYTES, BYTES, g->mr), 1);
}

/* Its QPs send to themselves. */
static void
program_up(struct program *g, const struct kind *k)
{
	const struct conn_opts o = { .mtu = UROCE_MTU_4096, .rd_atomic = 16, .dest_rd_atomic = 16, .min_rnr_timer = 1 };

	memset(g, 0, sizeof(*g));
	g->k = k;
	g->buf = calloc(2, BYTES);
	g->mr = host_mr(&p->h[0], g->buf, 2 * BYTES, ACCESS_ALL);
	assert_int_equal(share_create(p->h[0].tp, &(struct share_params){ 0 }, &g->share), 0);
	for (uint32_t i = 0; i < k->qps; i++) {
		struct end *e = end_new(&p->h[0], &(struct end_opts){ .share = g->share, .sq_depth = DEPTH, .rq_depth = DEPTH, .cq_depth = 4 * DEPTH });

		g->ends[i] = e;
		end_to_rtr(e, e, &o);
		end_to_rts(e, &o);
		for (uint32_t j = 0; j < DEPTH && k->receives; j++)
			receive(g, e);
		for (uint32_t j = 0; j < k->depth; j++)
			post(g, e);
	}
}

static void
program_down(struct program *g)
{
	for (uint32_t i = 0; i < g->k->qps; i++)
		end_free(g->ends[i]);
	share_destroy(p->h[0].tp, g->share);
	mr_destroy(p->h[0].sh.mrs, g->mr);
	free(g->buf);
}

static void
program_run(struct program *g)
{
	struct ring_cqe c;

	for (uint32_t i = 0; i < g->k->qps; i++) {
		while (cq_poll(&g->ends[i]->rcq, &c, NULL)) {
			assert_int_equal(c.status, UROCE_WC_SUCCESS);
			receive(g, g->ends[i]);
		}
		while (cq_poll(&g->ends[i]->scq, &c, NULL)) {
			assert_int_equal(c.status, UROCE_WC_SUCCESS);
			g->done++;
			post(g, g->ends[i]);
		}
	}
}

/* @return what @p victim does in a second of the engine, beside @p attacker unless that is NULL. */
static double
measure(const struct kind *victim, const struct kind *attacker, uint64_t ns)
{
	static struct program v, a;
	struct qp_table *few;
	uint64_t used = 0, since = 0, start;

	p = pair_new();
	/* Its own table has room for 64 QPs. */
	few = p->h[0].tp->c.sh.qps;
	p->h[0].sh.qps = p->h[0].tp->c.sh.qps = qp_table_create(2 * QPS, NULL, 0);
	p->h[0].tp->locals = calloc(1, sizeof(*p->h[0].tp->locals)); /* what by_reference makes */
	p->h[0].tp->c.metered = true;
	shares_init(p->h[0].tp);
	program_up(&v, victim);
	if (attacker != NULL)
		program_up(&a, attacker);
	while (used < ns + since) {
		program_run(&v);
		if (attacker != NULL)
			program_run(&a);
		if (since == 0 && used > ns / 10) {
			since = used;
			v.done = 0;
		}
		start = thread_ns();
		transport_run(p->h[0].tp, p->now + used);
		used += thread_ns() - start + TURN_NS;
	}
	program_down(&v);
	if (attacker != NULL)
		program_down(&a);
	pair_free(p);
	qp_table_destroy(few);
	return (double)v.done * (double)NS_PER_S / (double)(used - since);
}

static bool
chosen(const char *name, char **names, int n)
{
	bool is = n <= 0;

	for (int i = 0; i < n; i++)
		is |= strcmp(names[i], name) == 0;
	return is;
}

int
main(int argc, char **argv)
{
	uint64_t ns = (argc > 1 ? strtoull(argv[1], NULL, 0) : MS) * NS_PER_MS;
	double alone[RTE_DIM(victims)];

	if (ns == 0) {
		fprintf(stderr, "usage: bench_shares [MS [ATTACKER...]]\n");
		return 2;
	}
	pair_group_setup(NULL);
	printf("| attacker |");
	for (uint32_t i = 0; i < RTE_DIM(victims); i++) {
		alone[i] = measure(&victims[i], NULL, ns);
		printf(" %s |", victims[i].name);
	}
	printf("\n");
	for (uint32_t j = 0; j < RTE_DIM(attackers); j++) {
		if (!chosen(attackers[j].name, argv + 2, argc - 2))
			continue;
		printf("| %s |", attackers[j].name);
		for (uint32_t i = 0; i < RTE_DIM(victims); i++) {
			printf(" %.2f |", measure(&victims[i], &attackers[j], ns) / (alone[i] / 2));
			fflush(stdout);
		}
		printf("\n");
	}
	return 0;
}
