/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Doorbells of sessions. A hot session costs one load per turn, a cold one nothing, because its client kicks.
 *
 * Nothing in struct ring_db is trusted: only bits are read from it, slots are checked against max_slots, and a session
 * that sets bits faster than we clear them gets only ENGINE_DB_WORDS words per turn.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/tsan.h"
#include "engine/engine_priv.h"

/** [owner] Poll the session's doorbells from now on, so that the client needn't kick. */
static void
session_heat(struct engine *e, struct engine_session *s, uint64_t now_ns)
{
	s->last_ns = now_ns;
	if (s->hot)
		return;
	s->hot = true;
	s->hot_index = e->nb_hot;
	e->hot[e->nb_hot++] = s;
	atomic_store(&s->db->hot, 1);
}

static void
session_unlink(struct engine *e, struct engine_session *s)
{
	struct engine_session *last = e->hot[--e->nb_hot];

	e->hot[s->hot_index] = last;
	last->hot_index = s->hot_index;
	s->hot = false;
}

/**
 * [owner] Stop polling, unless the client is ringing right now (Dekker, see ring.h: the client sets bits, then reads
 * hot; we clear hot, then read the bits).
 * @return true if the session is cold now.
 */
static bool
session_cool(struct engine *e, struct engine_session *s, uint64_t now_ns)
{
	atomic_store_explicit(&s->db->hot, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&s->db->top, memory_order_relaxed) != 0) {
		atomic_store_explicit(&s->db->hot, 1, memory_order_relaxed);
		s->last_ns = now_ns;
		return false;
	}
	session_unlink(e, s);
	return true;
}

/** [owner] Handle all bits of one low word. @return number of doorbells. */
static uint32_t
ring_low(struct engine *e, struct engine_session *s, uint32_t word)
{
	uint64_t bits = atomic_exchange(&s->db->low[word], 0);
	uint32_t n = 0;

	for (uint64_t left = bits; left != 0; left &= left - 1) {
		uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(left);

		if (likely(slot < s->max_slots && s->qps[slot] != NULL))
			qp_doorbell_soon(e->tp, s->qps[slot]);
	}
	for (; bits != 0; bits &= bits - 1) {
		uint32_t slot = word * 64 + (uint32_t)__builtin_ctzll(bits);

		if (slot >= s->max_slots)
			continue;
		if (likely(s->qps[slot] != NULL)) {
			qp_doorbell(e->tp, s->qps[slot]);
			n++;
		} else {
			n += moved_ring(e, s, slot);
		}
	}
	return n;
}

/** [owner] Handle all bits below bit @p t of top, within @p budget. @return number of doorbells. */
static uint32_t
ring_mid(struct engine *e, struct engine_session *s, uint32_t t, uint32_t *budget)
{
	uint64_t bits = atomic_exchange(&s->db->mid[t], 0);
	uint32_t n = 0;

	for (; bits != 0 && *budget > 0; bits &= bits - 1, --*budget)
		n += ring_low(e, s, t * 64 + (uint32_t)__builtin_ctzll(bits));
	if (bits != 0) {
		/* Leave the rest for the next turn. Bits are set from the bottom up, as clients do. */
		atomic_fetch_or(&s->db->mid[t], bits);
		atomic_fetch_or(&s->db->top, UINT64_C(1) << t);
	}
	return n;
}

/** [owner] Handle the session's doorbells from the top down. @return number of doorbells. */
static uint32_t
session_look(struct engine *e, struct engine_session *s)
{
	uint32_t budget = ENGINE_DB_WORDS, n = 0;
	uint64_t bits = atomic_exchange(&s->db->top, 0);

	for (; bits != 0 && budget > 0; bits &= bits - 1)
		n += ring_mid(e, s, (uint32_t)__builtin_ctzll(bits), &budget);
	if (bits != 0)
		atomic_fetch_or(&s->db->top, bits);
	return n;
}

/** [owner] Tell the session's programs whether to yield when they poll in vain. */
static inline void
tell_crowded(const struct engine *e, struct engine_session *s)
{
	enum ring_crowded crowded = RING_CORES_ENOUGH;

	if (e->crowded)
		crowded = share_is_light(e->tp, s->share) ? RING_CROWDED_SOON : RING_CROWDED;
	if (s->crowded == crowded)
		return;
	s->crowded = crowded;
	atomic_store_explicit(&s->db->crowded, crowded, memory_order_relaxed);
}

uint32_t
sessions_run(struct engine *e, uint64_t now_ns)
{
	uint32_t i = 0, n = 0;

	while (i < e->nb_hot) {
		struct engine_session *s = e->hot[i];

		tell_crowded(e, s);
		if (atomic_load_explicit(&s->db->top, memory_order_relaxed) != 0) {
			s->last_ns = now_ns;
			n += session_look(e, s);
		} else if (now_ns - s->last_ns > ENGINE_SESSION_COLD_NS && !s->stays_hot &&
			   session_cool(e, s, now_ns)) {
			continue; /* the list has another session here now */
		}
		i++;
	}
	e->stats.doorbells += n;
	return n;
}

bool
sessions_rung(const struct engine *e)
{
	for (uint32_t i = 0; i < e->nb_hot; i++)
		if (atomic_load_explicit(&e->hot[i]->db->top, memory_order_relaxed) != 0)
			return true;
	return false;
}

void
sessions_arm(struct engine *e, bool armed)
{
	for (uint32_t i = 0; i < e->nb_hot; i++)
		atomic_store_explicit(&e->hot[i]->db->hot, !armed, memory_order_relaxed);
}

void
sessions_kicked(struct engine *e)
{
	struct engine_session *s;
	void *kick;

	while (rte_ring_dequeue(e->kicks, &kick) == 0) {
		tsan_acquire(e->kicks);
		/* The session may be gone, and another have its id. */
		s = e->sessions[KICK_SESSION(kick)];
		if (s == NULL)
			continue;
		s->cpu = KICK_CPU(kick);
		session_heat(e, s, e->now_ns);
	}
	if (likely(atomic_exchange_explicit(&e->kicks_lost, 0, memory_order_acquire) == 0))
		return;
	for (uint32_t i = 0; i < UROCE_MAX_SESSIONS; i++)
		if (e->sessions[i] != NULL && atomic_load(&e->sessions[i]->db->top) != 0)
			session_heat(e, e->sessions[i], e->now_ns);
}

void
sessions_active(const struct engine *e, uint64_t since_ns, uint32_t n[ENGINE_CPUS_MAX])
{
	for (uint32_t i = 0; i < e->nb_hot; i++)
		n[e->hot[i]->cpu] += e->hot[i]->last_ns >= since_ns;
}

static void
unwatch_kicks(struct engine *e, struct engine_session *s)
{
	for (unsigned int i = 0; i < engine_cpus(e); i++)
		if (s->kick_fds[i] >= 0)
			kicks_unwatch(e, i, s->kick_fds[i]);
}

static int
add_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct engine_session *s = arg;
	int rc = 0;

	if (e->nb_sessions == UROCE_MAX_SESSIONS)
		return ENOSPC;
	rc = share_create(e->tp, &(struct share_params){ 0 }, &s->share);
	while (e->sessions[s->id] != NULL)
		s->id++;
	for (unsigned int i = 0; i < engine_cpus(e) && rc == 0; i++)
		if (s->kick_fds[i] >= 0)
			rc = kicks_watch(e, i, s->kick_fds[i], s->id + 1);
	if (rc != 0) {
		unwatch_kicks(e, s);
		share_destroy(e->tp, s->share);
		return rc;
	}
	e->sessions[s->id] = s;
	e->nb_sessions++;
	session_heat(e, s, now_ns);
	return 0;
}

static int
remove_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct engine_session *s = arg;

	unwatch_kicks(e, s);
	e->sessions[s->id] = NULL;
	if (s->hot)
		session_unlink(e, s);
	share_destroy(e->tp, s->share);
	e->nb_sessions--;
	return 0;
}

struct engine_session *
engine_session_add(struct engine *e, struct ring_db *db, uint32_t max_slots, const int *kick_fds, bool stays_hot)
{
	struct engine_session *s;
	int rc;

	if (max_slots == 0 || max_slots > RING_DB_SLOTS) {
		errno = EINVAL;
		return NULL;
	}
	s = calloc(1, sizeof(*s) + max_slots * sizeof(s->qps[0]));
	if (s == NULL)
		return NULL;
	s->db = db;
	s->max_slots = max_slots;
	s->stays_hot = stays_hot;
	for (unsigned int i = 0; i < ENGINE_CPUS_MAX; i++)
		s->kick_fds[i] = kick_fds != NULL && i < engine_cpus(e) ? kick_fds[i] : -1;
	rc = engine_call(e, add_msg, s);
	if (rc != 0) {
		free(s);
		errno = rc;
		return NULL;
	}
	return s;
}

void
engine_session_remove(struct engine *e, struct engine_session *s)
{
	engine_call(e, remove_msg, s);
	free(s->moved);
	free(s);
}

struct share *
engine_session_share(const struct engine_session *s)
{
	return s->share;
}

struct share_msg {
	struct share *share;
	const struct share_params *params;
	struct share_view *view;
	uint64_t all;
};

static int
set_share_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	const struct share_msg *m = arg;

	return share_set(e->tp, m->share, m->params);
}

static int
look_msg(struct engine *e, void *arg, uint64_t now_ns)
{
	struct share_msg *m = arg;

	m->all = share_look(e->tp, m->share, m->view);
	return 0;
}

int
engine_session_set_share(struct engine *e, struct engine_session *s, const struct share_params *p)
{
	return engine_call(e, set_share_msg, &(struct share_msg){ .share = s->share, .params = p });
}

uint64_t
engine_session_look(struct engine *e, struct engine_session *s, struct share_view *v)
{
	struct share_msg m = { .share = s->share, .view = v };

	engine_call(e, look_msg, &m);
	return m.all;
}

void
engine_session_set_qp(struct engine_session *s, uint32_t slot, struct qp *qp)
{
	if (slot < s->max_slots)
		s->qps[slot] = qp;
}
