/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat, searched exhaustively: a few small programs on a network that may lose two packets, deliver one twice, put one
 * off, and deliver one packet of an earlier connection, each at every place. The transport is the real one; what may happen next is
 * chosen in turn from all that may, run by run, until there is nothing left to choose (stateless search).
 *
 * In the unit tests a run has three of these at most, in sim/sack_search, of suite long, all five.
 *
 * Whatever happens, each message must be executed once, with its own bytes, and complete. What a stale packet brings is never seen.
 * (One with the very PSN that is expected would be taken by every implementation of the standard; it is not among those tried.)
 */
#include <rte_mbuf.h>

#include "selective_rig.h"

enum {
	MTU = 256,
	PSN = 1000,
	WINDOW = 4,           /* packets of each program */
	DEPTH = 256,          /* choices of a run */
	QUEUE = 64,
	LOSSES = 2,           /* in one run; of the other faults one each */
	FAULTS = 3,           /* of all kinds in one run, unless the command line says more */
	PATIENCE_MS = 3000,
	AREA = 16 * MTU,
	SENT = 0, WRITTEN = AREA, READ = 2 * AREA, RECEIVED = 3 * AREA, WORD = 4 * AREA, /* offsets in both buffers */
	ALL = 5 * AREA,
	STALE = 0xee,         /* byte of stale payloads; no other payload has it */
};

static uint32_t faults = FAULTS;

/* ---- Choices ---- */
struct search {
	uint8_t made[DEPTH], of[DEPTH];
	uint32_t n, at;
	uint64_t runs;
};

/* @return 0 to @p n - 1; each of them once for all that was chosen before. */
static uint32_t
choose(struct search *s, uint32_t n)
{
	if (n < 2)
		return 0;
	assert_true(s->at < DEPTH);
	if (s->at == s->n) {
		s->made[s->n] = 0;
		s->of[s->n++] = (uint8_t)n;
	}
	assert_int_equal(s->of[s->at], n);
	return s->made[s->at++];
}

/* @return false: every choice has been made. */
static bool
search_next(struct search *s)
{
	s->runs++;
	while (s->n > 0 && s->made[s->n - 1] + 1 == s->of[s->n - 1])
		s->n--;
	if (s->n == 0)
		return false;
	s->made[s->n - 1]++;
	s->at = 0;
	return true;
}

/* ---- The network ---- */
struct net {
	struct rig r;
	struct search s;
	struct rte_mbuf *queue[2][QUEUE]; /* by sender */
	uint32_t n[2];
	uint32_t lost, repeated, put_off, staled;
	bool faulty;                      /* otherwise it does what it should */
};

static void
collect(struct net *n, unsigned int from)
{
	struct tp_txvec *v = transport_tx(n->r.p->h[from].tp, 0);

	for (uint16_t i = 0; i < v->n; i++) {
		assert_true(n->n[from] < QUEUE);
		n->queue[from][n->n[from]++] = v->pkts[i];
	}
	v->n = 0;
}

static struct rte_mbuf *
take(struct net *n, unsigned int from, uint32_t at)
{
	struct rte_mbuf *m = n->queue[from][at];

	n->n[from]--;
	memmove(&n->queue[from][at], &n->queue[from][at + 1], (n->n[from] - at) * sizeof(m));
	return m;
}

static void
arrive(struct net *n, unsigned int from, struct rte_mbuf *m)
{
	assert_int_equal(transport_rx(n->r.p->h[!from].tp, 0, &m, 1, false, n->r.p->now), 0);
}

/* ---- What an earlier connection has left behind ---- */
static uint8_t
mark_before(uint8_t mark)
{
	return (uint8_t)(mark == 1 ? SACK_MARKS : mark - 1);
}

struct stale {
	enum { STALE_WRITE, STALE_SEND, STALE_RESPONSE, STALE_SACK, STALE_OFFER } kind;
	uint32_t ahead;    /* PSNs beyond the expected one */
	bool unmarked;     /* of a connection that had lost nothing, or of another implementation */
};
static const struct stale stales[] = {
	{ STALE_WRITE, 1, false }, { STALE_WRITE, 2, false }, { STALE_WRITE, 3, false }, { STALE_WRITE, 1, true },
	{ STALE_SEND, 1, false }, { STALE_SEND, 2, true }, { STALE_RESPONSE, 1, false }, { STALE_RESPONSE, 2, false },
	{ STALE_RESPONSE, 3, true }, { STALE_SACK, 0, false }, { STALE_OFFER, 0, false },
};

static void
stale_to_responder(struct net *n, const struct stale *s, uint8_t opcode)
{
	struct wire_bth b = { .opcode = opcode, .migreq = true, .ackreq = true };
	uint8_t at[WIRE_RETH_BYTES + MTU];
	uint32_t eth = opcode == WIRE_OP_WRITE_ONLY ? WIRE_RETH_BYTES : 0;

	b.psn = wire_psn_add(n->r.b->qp->rcv.epsn, s->ahead);
	b.mark = s->unmarked ? 0 : mark_before(n->r.b->qp->rcv.sack_mark);
	if (eth != 0)
		wire_put_reth(at, ADDR(n->r.bbuf) + WRITTEN, n->r.bmr->key, MTU);
	memset(at + eth, STALE, MTU);
	pair_inject(n->r.p, n->r.b, &b, at, eth + MTU);
}

static void
stale_response(struct net *n, const struct stale *s)
{
	struct wire_bth b = { .opcode = WIRE_OP_READ_RESP_MIDDLE, .migreq = true };
	struct qp *qp = n->r.a->qp;
	uint8_t at[MTU];

	/* Else it acknowledges the SENDs and WRITEs before it, as any stale ACK does with any implementation. */
	if (qp->req.sq_tail == qp->req.sq.counter || swqe_kind(qp_inflight(qp, qp->req.sq_tail)) != TP_REQ_READ)
		return;
	b.psn = wire_psn_add(n->r.a->qp->req.psn_una, s->ahead);
	b.mark = s->unmarked ? 0 : mark_before(sack_mark(n->r.a->qp->req.sack_nonce));
	memset(at, STALE, MTU);
	pair_inject(n->r.p, n->r.a, &b, at, MTU);
}

/* It says that all is there but the next. */
static void
stale_sack(struct net *n)
{
	struct hand_sack s = hand_sack(&n->r);

	wire_put24(s.bytes + WIRE_AETH_BYTES + SACK_NONCE, (n->r.a->qp->req.sack_nonce - 1) & SACK_NONCE_MASK);
	s.bytes[WIRE_AETH_BYTES + SACK_MARK] = mark_before(n->r.b->qp->rcv.sack_mark);
	hand_sack_bits(&s, 0, 0xe);
	hand_sack_inject(&n->r, &s, wire_psn_add(n->r.a->qp->req.psn_una, WIRE_PSN_MASK));
}

static void
stale_offer(struct net *n)
{
	const struct qp *qp = n->r.a->qp;
	struct wire_bth b = { .opcode = WIRE_OP_WRITE_ONLY, .migreq = true };
	uint8_t reth[WIRE_RETH_BYTES] = { 0 };

	b.psn = (qp->req.psn_una - SACK_OFFER_BEHIND) & WIRE_PSN_MASK;
	wire_put24(reth, SACK_OFFER_MAGIC);
	wire_put24(reth + 3, sack_origin(qp->qpn, qp->attr.sq_psn));
	wire_put24(reth + 6, (qp->req.sack_nonce - 1) & SACK_NONCE_MASK);
	wire_put24(reth + 9, qp->attr.rq_psn);
	pair_inject(n->r.p, n->r.b, &b, reth, sizeof(reth));
}

static void
inject(struct net *n, const struct stale *s)
{
	switch (s->kind) {
	case STALE_WRITE:
		stale_to_responder(n, s, WIRE_OP_WRITE_ONLY);
		break;
	case STALE_SEND:
		stale_to_responder(n, s, WIRE_OP_SEND_ONLY);
		break;
	case STALE_RESPONSE:
		stale_response(n, s);
		break;
	case STALE_SACK:
		stale_sack(n);
		break;
	case STALE_OFFER:
		stale_offer(n);
		break;
	}
}

static bool
may_go_wrong(const struct net *n)
{
	return n->faulty && n->lost + n->repeated + n->put_off + n->staled < faults;
}

/* A stale packet arrives now, or none. */
static void
maybe_stale(struct net *n)
{
	uint32_t which;

	if (!may_go_wrong(n) || n->staled != 0)
		return;
	which = choose(&n->s, 1 + RTE_DIM(stales));
	if (which == 0)
		return;
	n->staled++;
	inject(n, &stales[which - 1]);
}

/* Deliver the packet that @p from sent first, or do something else with it. */
static void
step(struct net *n, unsigned int from)
{
	enum { DELIVER, LOSE, REPEAT, PUT_OFF } can[4], does;
	uint32_t nb = 0;
	struct rte_mbuf *m;

	can[nb++] = DELIVER;
	if (may_go_wrong(n)) {
		if (n->lost < LOSSES)
			can[nb++] = LOSE;
		if (n->repeated == 0)
			can[nb++] = REPEAT;
		if (n->put_off == 0 && n->n[from] > 1)
			can[nb++] = PUT_OFF;
	}
	does = can[choose(&n->s, nb)];
	m = take(n, from, does == PUT_OFF ? 1 : 0);
	n->lost += does == LOSE;
	n->put_off += does == PUT_OFF;
	if (does == LOSE) {
		rte_pktmbuf_free(m);
		return;
	}
	if (does == REPEAT) {
		n->repeated++;
		n->queue[from][n->n[from]++] = rte_pktmbuf_copy(m, pair_pool(), 0, UINT32_MAX);
	}
	arrive(n, from, m);
}

static void
pass_time(struct pair *p)
{
	uint64_t next = RTE_MIN(transport_next_timeout(p->h[0].tp), transport_next_timeout(p->h[1].tp));

	p->now = next > p->now ? next : p->now + 1;
}

/* Let packets flow, and time pass, until a's program has its completions, and then until nothing moves. */
static void
run_until(struct net *n, uint32_t completions)
{
	struct pair *p = n->r.p;
	uint64_t end = p->now + PATIENCE_MS * (uint64_t)PAIR_MS;
	bool moved;

	while (p->now < end) {
		do {
			moved = false;
			for (unsigned int i = 0; i < 2; i++) {
				moved |= host_turn(&p->h[i]) != 0;
				collect(n, i);
				if (n->n[i] == 0)
					continue;
				maybe_stale(n);
				step(n, i);
				moved = true;
			}
		} while (moved);
		if (atomic_load(&n->r.a->scq.cq->prod) >> 1 >= completions)
			return;
		pass_time(p);
	}
	fail_msg("run %llu: no completion within %u ms", (unsigned long long)n->s.runs, PATIENCE_MS);
}

/* ---- Programs: what a does, of WINDOW packets ---- */
struct program {
	const char *name;
	void (*post)(struct rig *r);
	uint32_t completions, receives;
	bool late;        /* the receives are posted when the first RNR NAK has been sent */
	bool known;       /* the ends have found each other before */
};

static void
write_part(struct rig *r, uint64_t id, uint32_t packet, uint32_t packets)
{
	end_send(r->a, &(struct wr){ .id = id, .op = UROCE_WR_RDMA_WRITE, .nb_sge = 1,
				     .sge = SGE(r->abuf + SENT + packet * MTU, packets * MTU, r->amr),
				     .remote_addr = ADDR(r->bbuf) + WRITTEN + packet * MTU, .rkey = r->bmr->key });
}

static void
read_part(struct rig *r, uint64_t id, uint32_t packet, uint32_t packets)
{
	end_send(r->a, &(struct wr){ .id = id, .op = UROCE_WR_RDMA_READ, .nb_sge = 1,
				     .sge = SGE(r->abuf + READ + packet * MTU, packets * MTU, r->amr),
				     .remote_addr = ADDR(r->bbuf) + READ + packet * MTU, .rkey = r->bmr->key });
}

static void
send_part(struct rig *r, uint64_t id, uint32_t packet)
{
	rig_send(r, id, SENT + packet * MTU, MTU);
}

static void
four_writes(struct rig *r)
{
	for (uint32_t i = 0; i < WINDOW; i++)
		write_part(r, i, i, 1);
}

static void
long_and_short_write(struct rig *r)
{
	write_part(r, 0, 0, 3);
	write_part(r, 1, 3, 1);
}

static void
sends_around_a_write(struct rig *r)
{
	send_part(r, 0, 4);
	write_part(r, 1, 0, 1);
	send_part(r, 2, 5);
	send_part(r, 3, 6);
}

static void
read_write_and_atomic(struct rig *r)
{
	read_part(r, 0, 0, 2);
	write_part(r, 1, 0, 1);
	end_send(r->a, &(struct wr){ .id = 2, .op = UROCE_WR_ATOMIC_FETCH_AND_ADD, .sge = SGE(r->abuf + WORD, 8, r->amr),
				     .nb_sge = 1, .remote_addr = ADDR(r->bbuf) + WORD, .rkey = r->bmr->key, .compare_add = 5 });
}

static void
two_reads(struct rig *r)
{
	read_part(r, 0, 0, 3);
	read_part(r, 1, 3, 1);
}

static const struct program programs[] = {
	{ "four WRITEs", four_writes, 4, 0, false, true },
	{ "a WRITE of three packets, one of one", long_and_short_write, 2, 0, false, true },
	{ "SENDs around a WRITE, receives come late", sends_around_a_write, 4, 3, true, true },
	{ "READ, WRITE, atomic", read_write_and_atomic, 3, 0, false, true },
	{ "two READs", two_reads, 2, 0, false, true },
	{ "four WRITEs, the ends don't know each other", four_writes, 4, 0, false, false },
	{ "two READs, the ends don't know each other", two_reads, 2, 0, false, false },
};

/* ---- A run ---- */
static void
post_receives(struct rig *r, const struct program *g)
{
	for (uint32_t i = 0; i < g->receives; i++)
		end_recv(r->b, 100 + i, SGE(r->bbuf + RECEIVED + i * MTU, MTU, r->bmr), 1);
}

static void
cq_restart(struct end_cq *c)
{
	struct ring_cqe e;

	while (cq_poll(c, &e, NULL))
		;
}

/* A new connection of the same QPs, with the same PSNs. */
static void
connect_anew(struct net *n)
{
	struct rig *r = &n->r;

	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(end_state(i == 0 ? r->a : r->b, UROCE_QPS_RESET), 0);
		for (uint32_t k = 0; k < n->n[i]; k++)
			rte_pktmbuf_free(n->queue[i][k]);
		n->n[i] = 0;
	}
	r->p->h[0].nb_events = r->p->h[1].nb_events = 0;
	ends_connect(r->a, r->b, &(struct conn_opts){ .psn = PSN, .mtu = UROCE_MTU_256 });
}

static uint32_t
done_so_far(const struct net *n)
{
	return (uint32_t)(atomic_load(&n->r.a->scq.cq->prod) >> 1);
}

/* One loss, after which both ends repeat selectively. */
static void
find(struct net *n)
{
	struct rig *r = &n->r;
	uint32_t done = done_so_far(n);

	n->faulty = false;
	write_part(r, 90, 8, 1);
	write_part(r, 91, 9, 1);
	host_turn(&r->p->h[0]);
	collect(n, 0);
	rte_pktmbuf_free(take(n, 0, 0));
	run_until(n, done + 2);
	expect_cqe(&r->a->scq, 90, UROCE_WC_SUCCESS);
	expect_cqe(&r->a->scq, 91, UROCE_WC_SUCCESS);
	assert_int_equal(r->a->qp->req.sack_mark, r->b->qp->rcv.sack_mark);
	memset(r->bbuf + WRITTEN, 0, AREA);
}

static void
expect_bytes(const struct net *n, const struct program *g, const uint8_t *is, const uint8_t *ought, const char *what)
{
	for (uint32_t i = 0; i < AREA; i++) {
		if (is[i] != ought[i])
			fail_msg("%s, run %llu: byte %u of %s is %02x, not %02x", g->name, (unsigned long long)n->s.runs, i, what,
				 is[i], ought[i]);
	}
}

static void
check(struct net *n, const struct program *g)
{
	uint8_t ought[AREA];
	struct rig *r = &n->r;
	uint64_t word;

	for (uint32_t i = 0; i < g->completions; i++)
		expect_cqe(&r->a->scq, i, UROCE_WC_SUCCESS);
	expect_no_cqe(&r->a->scq);
	for (uint32_t i = 0; i < g->receives; i++)
		expect_cqe(&r->b->rcq, 100 + i, UROCE_WC_SUCCESS);
	expect_no_cqe(&r->b->rcq);
	memset(ought, 0, AREA);
	if (g->post == four_writes || g->post == long_and_short_write)
		memcpy(ought, r->abuf + SENT, WINDOW * MTU);
	else if (g->post != two_reads)
		memcpy(ought, r->abuf + SENT, MTU);
	expect_bytes(n, g, r->bbuf + WRITTEN, ought, "what is written");
	memset(ought, 0, AREA);
	if (g->receives != 0)
		memcpy(ought, r->abuf + SENT + 4 * MTU, 3 * MTU);
	expect_bytes(n, g, r->bbuf + RECEIVED, ought, "what is received");
	memset(ought, 0, AREA);
	if (g->post == two_reads || g->post == read_write_and_atomic)
		memcpy(ought, r->bbuf + READ, (g->post == two_reads ? 4 : 2) * MTU);
	expect_bytes(n, g, r->abuf + READ, ought, "what is read");
	memcpy(&word, r->bbuf + WORD, sizeof(word));
	assert_int_equal(word, g->post == read_write_and_atomic ? 5 : 0);
}

static void
run(struct net *n, const struct program *g)
{
	struct rig *r = &n->r;
	uint64_t rnrs = counters(r, 1)->rnr_nak_sent;
	uint32_t done;

	connect_anew(n);
	memset(r->bbuf + WRITTEN, 0, AREA);
	memset(r->bbuf + RECEIVED, 0, AREA);
	memset(r->bbuf + WORD, 0, 8);
	memset(r->abuf + READ, 0, AREA);
	if (g->known)
		find(n);
	n->lost = n->repeated = n->put_off = n->staled = 0;
	n->faulty = true;
	done = done_so_far(n);
	/* While nothing is under way it does the most harm: the real packets all come later. */
	maybe_stale(n);
	if (!g->late)
		post_receives(r, g);
	g->post(r);
	if (g->late) {
		/* All but the first completion waits for receives. */
		while (counters(r, 1)->rnr_nak_sent == rnrs) {
			host_turn(&r->p->h[0]);
			collect(n, 0);
			host_turn(&r->p->h[1]);
			collect(n, 1);
			if (n->n[0] != 0)
				step(n, 0);
			else if (n->n[1] != 0)
				step(n, 1);
			else
				pass_time(r->p);
		}
		post_receives(r, g);
	}
	run_until(n, done + g->completions);
	n->faulty = false;
	check(n, g);
	cq_restart(&r->b->rcq);
}

static void
search(const struct program *g)
{
	struct net n = { .faulty = false };

	rig_up(&n.r, NULL, NULL);
	fill(n.r.bbuf + READ, AREA, 3);
	for (uint32_t i = 0; i < ALL; i++) {
		n.r.abuf[i] = n.r.abuf[i] == STALE ? 1 : n.r.abuf[i];
		n.r.bbuf[i] = n.r.bbuf[i] == STALE ? 1 : n.r.bbuf[i];
	}
	do
		run(&n, g);
	while (search_next(&n.s));
	print_message("%s: %llu runs\n", g->name, (unsigned long long)n.s.runs);
	connect_anew(&n);
	rig_down(&n.r);
}

static void
nothing_stale_is_executed_and_nothing_is_lost(void **state)
{
	for (unsigned int i = 0; i < RTE_DIM(programs); i++)
		search(&programs[i]);
}

/* With a number as argument so many faults are tried in one run: up to 5. */
int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_stale_is_executed_and_nothing_is_lost),
	};

	if (argc > 1)
		faults = (uint32_t)atoi(argv[1]);
	return cmocka_run_group_tests(tests, pair_group_setup, pair_group_teardown);
}
