/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Doorbells (lib/ring/ring.h, lib/engine/session.c) and posting (lib/verbs/post.c): what a program posts is fetched, whether the engine
 * watches the queue, polls the doorbells, or sleeps and has to be kicked.
 */
#include "engine/engine_priv.h"
#include "verbs/client_priv.h"

enum { SLOTS = 128, QPS = 2, ORDER = 2 };

static struct engine engine;
static struct engine_session *session;
static struct engine_session *hot[1], *sessions[UROCE_MAX_SESSIONS];
static _Alignas(64) uint8_t kicks[4096];
static struct ring_db db;
static struct explore_event kick;
static struct client_ctx ctx;
static struct client_qp qps[QPS];
static struct ring_qp_shared shared[QPS];
static _Alignas(64) uint8_t slots[QPS][256];
static uint32_t fetched[QPS];
static uint32_t wanted;

/* ---- What the production files call ---- */
/* Fetches what was posted. No queue is watched here. */
void
qp_doorbell_soon(const struct transport *tp, const struct qp *qp)
{
}

void
qp_doorbell(struct transport *tp, struct qp *qp)
{
	unsigned int i = (unsigned int)((uintptr_t)qp - 1);
	struct ring ring = { .base = slots[i], RING_SIZE(ORDER, 6) };

	while (ring_sq_ready(&ring, fetched[i]))
		fetched[i]++;
}

int
client_put_bind(struct ring_sq_wqe *w, const struct ibv_mw *ibmw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	return EINVAL;
}

void
client_bounce_send(struct client_qp *qp, struct ring_sq_wqe *w, union ring_sq_ctl *ctl)
{
	explore_fail("the QP has no bounce buffers");
}

uint16_t
client_bounce_recv(struct client_qp *qp, uint32_t counter, struct ring_rq_wqe *w, uint16_t n)
{
	return n;
}

bool
share_is_light(const struct transport *tp, const struct share *s)
{
	return false;
}

int
engine_call(struct engine *e, int (*fn)(struct engine *e, void *arg, uint64_t now_ns), void *arg)
{
	return 0;
}

bool
moved_ring(struct engine *e, struct engine_session *s, uint32_t slot)
{
	return false;
}

long
explore_write(int fd, const void *p, size_t n)
{
	explore_event_write(&kick);
	return (long)n;
}

/* ---- Setup ---- */
static void
setup(void)
{
	static _Alignas(64) uint8_t memory[sizeof(struct engine_session) + SLOTS * sizeof(struct qp *)];

	memset(&db, 0, sizeof(db));
	memset(&kick, 0, sizeof(kick));
	memset(memory, 0, sizeof(memory));
	memset(qps, 0, sizeof(qps));
	memset(shared, 0, sizeof(shared));
	memset(slots, 0, sizeof(slots));
	memset(fetched, 0, sizeof(fetched));
	rte_ring_init((struct rte_ring *)kicks, "kicks", 4, RING_F_SP_ENQ | RING_F_SC_DEQ);
	session = (struct engine_session *)(void *)memory;
	session->db = &db;
	session->max_slots = SLOTS;
	memset(&engine, 0, offsetof(struct engine, stats));
	engine.kicks_lost = 0;
	engine.kicks = (struct rte_ring *)kicks;
	engine.hot = hot;
	engine.sessions = sessions;
	engine.nb_hot = 1;
	engine.nb_sessions = 1;
	hot[0] = sessions[0] = session;
	session->hot = true;
	db.hot = 1;
	ctx.nb_kicks = 1;
	for (unsigned int i = 0; i < QPS; i++) {
		struct client_qp *q = &qps[i];

		q->ctx = &ctx;
		q->shared = &shared[i];
		q->db = &db;
		q->db_slot = i * 64; /* other words, but one bit of the level above each */
		q->sq = (struct ring){ .base = slots[i], RING_SIZE(ORDER, 6) };
		q->sq_max = 1 << ORDER;
		q->cap.max_send_sge = 1;
		q->type_bit = 1u << UROCE_QPT_RC;
		shared[i].state = UROCE_QPS_RTS;
		session->qps[q->db_slot] = (struct qp *)(uintptr_t)(i + 1);
	}
	wanted = QPS;
}

/* ---- Threads ---- */
static void
post(unsigned int i)
{
	struct ibv_send_wr wr = { .wr_id = i, .opcode = IBV_WR_SEND }, *bad;

	explore_check(client_post_send(&qps[i].qp.qp_base, &wr, &bad) == 0);
}

static void
program0(void)
{
	post(0);
}

static void
program1(void)
{
	post(1);
}

static void
program_posts_two(void)
{
	post(0);
	post(0);
}

/* Turns; after one without doorbells the session goes cold, and the engine sleeps until it is kicked. */
static void
engine_runs(void)
{
	uint64_t now_ns = 0;

	while (fetched[0] + fetched[1] < wanted) {
		now_ns += ENGINE_SESSION_COLD_NS + 1;
		if (session->hot) {
			sessions_run(&engine, now_ns);
			continue;
		}
		explore_event_read(&kick);
		engine.now_ns = now_ns;
		rte_ring_enqueue(engine.kicks, KICK(0, 0));
		sessions_kicked(&engine);
	}
}

#define BELL                                                                                          \
	{ EXPLORE_DROP, "session_cool", "fence", 0 },                                                 \
	{ EXPLORE_VALUE, "session_cool", "load &s->db->top, memory_order_relaxed", 0 },               \
	{ EXPLORE_DROP, "ring_db_ring", "fence", 0 },                                                 \
	{ EXPLORE_DROP, "ring_db_ring", "or &db->top", 0 }
static const struct explore_mutation two_mutations[] = { BELL, { 0 } };
static const struct explore_mutation twice_mutations[] = {
	BELL, { EXPLORE_RELAX, "ring_low", "exchange &s->db->low[word]", 0 }, { 0 }
};

int
main(int argc, char **argv)
{
	static const struct explore_case cases[] = {
		{ .name = "two_programs_ring", .setup = setup, .threads = { engine_runs, program0, program1 },
		  .mutations = two_mutations },
		{ .name = "rings_twice", .setup = setup, .threads = { engine_runs, program_posts_two },
		  .mutations = twice_mutations },
	};

	return explore_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
