/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/core/copy_priv.h"
#include "transport/core/sched_priv.h"

static struct tp_copy *
copy_of(struct transport *tp, struct qp *qp)
{
	struct tp_copy *c = qp->copy;

	if (c != NULL)
		return c;
	c = pool_get(&tp->copy_parts);
	if (c == NULL)
		return NULL;
	memset(c, 0, sizeof(*c));
	STAILQ_INIT(&c->held);
	c->qp = qp;
	qp->copy = c;
	return c;
}

/* ---- Jobs ---- */
/* @return a job in the slot of @p role, in place of what is there; NULL: none is left. */
static struct tp_copy_job *
job_get(struct transport *tp, struct qp *qp, enum copy_role role)
{
	struct tp_copy *c = copy_of(tp, qp);
	struct tp_copy_job *job;

	if (unlikely(c == NULL)) {
		tp->counters.copy_no_room++;
		return NULL;
	}
	job = c->slots[role].job;
	c->slots[role].ready = false;
	if (job == NULL)
		job = pool_get(&tp->copy_jobs);
	c->slots[role].job = job;
	if (unlikely(job == NULL)) {
		tp->counters.copy_no_room++;
		return NULL;
	}
	job->qp = qp;
	job->role = role;
	job->m.nb_pieces = 0;
	job->m.length = 0;
	job->m.data = job->data;
	return job;
}

static void
job_free(struct transport *tp, struct tp_copy_slot *s)
{
	pool_put(&tp->copy_jobs, s->job);
	s->job = NULL;
}

/* Hand the job over. @return false: it can't be now. */
static bool
job_start(struct transport *tp, struct tp_copy_job *job, enum mem_job_op op, struct mem_owner *owner)
{
	struct tp_copy_slot *s = &job->qp->copy->slots[job->role];

	job->m.op = op;
	job->m.owner = owner;
	job->m.rc = 0;
	atomic_store_explicit(&job->m.state, MEM_JOB_WAITS, memory_order_relaxed);
	job->deadline_ns = tp->now_ns + TP_COPY_DEADLINE_NS;
	s->running = true;
	TAILQ_INSERT_TAIL(&tp->copies, job, link);
	tp->nb_copies++;
	if (unlikely(!tp->c.copy(tp->c.arg, &job->m, pool_left(&tp->copy_jobs) + 1))) {
		TAILQ_REMOVE(&tp->copies, job, link);
		tp->nb_copies--;
		s->running = false;
		job_free(tp, s);
		tp->counters.copy_no_room++;
		return false;
	}
	tp->counters.copies++;
	return true;
}

/* Nobody waits for the running job of a slot any more. */
static void
abandon(struct transport *tp, struct tp_copy_slot *s)
{
	TAILQ_REMOVE(&tp->copies, s->job, link);
	s->job->qp = NULL;
	mem_job_cut(&s->job->m);
	s->job = NULL;
	s->running = false;
}

void
copy_drop(struct transport *tp, struct qp *qp, enum copy_role role)
{
	struct tp_copy_slot *s = &qp->copy->slots[role];

	s->ready = false;
	if (s->running)
		abandon(tp, s);
	else if (s->job != NULL)
		job_free(tp, s);
}

/* ---- Received packets ---- */
static void
block(struct transport *tp, struct tp_copy *c)
{
	c->blocked = true;
	TAILQ_INSERT_TAIL(&tp->blocked, c, blocked_link);
	tp->nb_blocked++;
}

static void
unblock(struct transport *tp, struct tp_copy *c)
{
	if (!c->blocked)
		return;
	c->blocked = false;
	TAILQ_REMOVE(&tp->blocked, c, blocked_link);
	tp->nb_blocked--;
}

struct qp *
copy_unblock(struct transport *tp)
{
	struct tp_copy *c = TAILQ_FIRST(&tp->blocked);

	if (c == NULL)
		return NULL;
	unblock(tp, c);
	return c->qp;
}

/*
 * What a packet needs to wait for a copy. An atomic whose packet were lost after it had been executed would be executed twice.
 * @return NULL: there is no room. The packet waits for it, or is lost before anything has happened.
 */
static struct tp_copy_job *
rx_job_get(struct transport *tp, struct qp *qp)
{
	struct tp_copy *c = copy_of(tp, qp);
	struct tp_copy_job *job;

	if (c != NULL && c->spare == NULL)
		c->spare = pool_get(&tp->copy_pkts);
	if (c == NULL || c->spare == NULL) {
		tp->counters.copy_no_room++;
		return NULL;
	}
	job = job_get(tp, qp, COPY_RX);
	if (unlikely(job == NULL))
		block(tp, c);
	return job;
}

static int
rx_job_start(struct transport *tp, struct tp_copy_job *job, enum mem_job_op op, struct mem_owner *owner)
{
	struct tp_copy *c = job->qp->copy;

	if (unlikely(!job_start(tp, job, op, owner)))
		block(tp, c);
	return COPY_LATER;
}

/*
 * The next access of the packet being executed.
 * @return 0: it is done; EFAULT: it has failed; ENOENT: it has to be done.
 */
static int
access_done(struct qp *qp)
{
	struct tp_copy *c = qp->copy;

	if (c == NULL || c->at == c->done)
		return ENOENT;
	/* Only the last one can have failed: the packet didn't come further. */
	return ++c->at == c->done ? c->slots[COPY_RX].rc : 0;
}

int
copy_write(struct transport *tp, struct qp *qp, struct mr *mr, uint64_t va, const uint8_t *data, uint32_t len)
{
	struct tp_copy_job *job;
	int rc;

	if (tp->c.copy == NULL || !mr_is_remote(mr, va, len))
		return mr_write(mr, va, data, len);
	rc = access_done(qp);
	if (rc != ENOENT)
		return rc;
	job = rx_job_get(tp, qp);
	if (unlikely(job == NULL))
		return COPY_LATER;
	copy_add(job, mr, va, len);
	memcpy(job->data, data, len);
	return rx_job_start(tp, job, MEM_JOB_WRITE, mr->owner);
}

int
copy_atomic(struct transport *tp, struct qp *qp, struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2,
	    uint64_t *old)
{
	struct tp_copy_job *job;
	int rc;

	if (likely(mr->host != NULL) || tp->c.copy == NULL || !mr_is_remote(mr, va, sizeof(uint64_t)))
		return mr_atomic(mr, va, op, arg1, arg2, old);
	rc = access_done(qp);
	if (rc == 0)
		*old = qp->copy->old;
	if (rc != ENOENT)
		return rc;
	job = rx_job_get(tp, qp);
	if (unlikely(job == NULL))
		return COPY_LATER;
	copy_add(job, mr, va, sizeof(uint64_t));
	job->m.arg1 = arg1;
	job->m.arg2 = arg2;
	return rx_job_start(tp, job, op == MR_CMP_SWAP ? MEM_JOB_CMP_SWAP : MEM_JOB_FETCH_ADD, mr->owner);
}

static void
repoint(struct tp_copy_pkt *k, const struct wire_pkt *p)
{
	const uint8_t *from = p->l2;

	k->p.l2 = k->bytes;
	k->p.l3 = k->bytes + (p->l3 - from);
	k->p.bthp = k->bytes + (p->bthp - from);
	k->p.payload = k->bytes + (p->payload - from);
}

/*
 * A QP may hold as many packets as are left for others, so that QPs whose memory never comes, however many they are, can't take all of
 * the pool.
 */
void
copy_hold(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p, bool first)
{
	uint64_t bytes = (uint64_t)(p->payload - p->l2) + p->payload_bytes;
	struct tp_copy *c = qp->copy;
	struct tp_copy_pkt *k;

	UROCE_ASSERT(!first || (c->nb_held == 0 && c->spare != NULL));
	if (!first && (bytes > sizeof(k->bytes) || c->nb_held >= TP_COPY_HELD || c->nb_held >= pool_left(&tp->copy_pkts))) {
		tp->counters.rx_copy_dropped++;
		return;
	}
	UROCE_ASSERT(bytes <= sizeof(k->bytes));
	k = first ? c->spare : pool_get(&tp->copy_pkts);
	c->spare = first ? NULL : c->spare;
	k->p = *p;
	k->port = port;
	memcpy(k->bytes, p->l2, bytes);
	repoint(k, p);
	k->admitted = first;
	STAILQ_INSERT_TAIL(&c->held, k, link);
	c->nb_held++;
	tp->counters.rx_copy_held++;
}

struct tp_copy_pkt *
copy_take(struct qp *qp)
{
	struct tp_copy_pkt *k = qp->copy != NULL ? STAILQ_FIRST(&qp->copy->held) : NULL;

	if (k == NULL)
		return NULL;
	STAILQ_REMOVE_HEAD(&qp->copy->held, link);
	qp->copy->nb_held--;
	return k;
}

void
copy_untake(struct qp *qp, struct tp_copy_pkt *k)
{
	k->admitted = true;
	STAILQ_INSERT_HEAD(&qp->copy->held, k, link);
	qp->copy->nb_held++;
}

void
copy_put(struct transport *tp, struct tp_copy_pkt *k)
{
	pool_put(&tp->copy_pkts, k);
}

static void
drop_held(struct transport *tp, struct qp *qp)
{
	struct tp_copy_pkt *k;

	while ((k = copy_take(qp)) != NULL) {
		tp->counters.rx_copy_dropped++;
		copy_put(tp, k);
	}
	qp->copy->in_reorder = false;
	unblock(tp, qp->copy);
}

/* ---- Bytes to send ---- */
int
copy_fetched(const struct qp *qp, enum copy_role role, uint32_t key, uint32_t off, uint8_t *dst, uint32_t len)
{
	const struct tp_copy_slot *s;

	if (qp->copy == NULL)
		return ENOENT;
	s = &qp->copy->slots[role];
	if (s->running)
		return COPY_LATER;
	if (!s->ready || s->key != key || off < s->off || (uint64_t)off + len > (uint64_t)s->off + s->length)
		return ENOENT;
	if (s->rc != 0)
		return s->rc;
	memcpy(dst, s->job->data + (off - s->off), len);
	return 0;
}

struct tp_copy_job *
copy_begin(struct transport *tp, struct qp *qp, enum copy_role role, uint32_t key, uint32_t off)
{
	struct tp_copy_job *job = job_get(tp, qp, role);

	if (job != NULL) {
		qp->copy->slots[role].key = key;
		qp->copy->slots[role].off = off;
	}
	return job;
}

bool
copy_add(struct tp_copy_job *job, const struct mr *mr, uint64_t va, uint32_t len)
{
	struct mem_job *m = &job->m;

	len = RTE_MIN(len, TP_COPY_BYTES - m->length);
	if (len == 0 || m->nb_pieces == RTE_DIM(m->pieces))
		return false;
	m->pieces[m->nb_pieces++] = (struct mem_piece){ .va = mr->addr + (va - mr->iova), .length = len };
	m->length += len;
	return m->length < TP_COPY_BYTES;
}

int
copy_fetch(struct transport *tp, struct tp_copy_job *job, struct mem_owner *owner)
{
	job->qp->copy->slots[job->role].length = job->m.length;
	job_start(tp, job, MEM_JOB_READ, owner);
	return COPY_LATER;
}

/* ---- Ends ---- */
void
copy_stop(struct transport *tp, struct qp *qp)
{
	struct tp_copy_slot *rx;

	if (qp->copy == NULL)
		return;
	rx = &qp->copy->slots[COPY_RX];
	drop_held(tp, qp);
	copy_drop(tp, qp, COPY_SEND);
	/* What has begun goes on, and the program must not get its buffers back before it has ended. */
	if (rx->running && mem_job_cut(&rx->job->m))
		abandon(tp, rx);
}

void
copy_end(struct transport *tp, struct qp *qp)
{
	if (qp->copy == NULL)
		return;
	drop_held(tp, qp);
	for (int i = 0; i < COPY_ROLES; i++)
		copy_drop(tp, qp, i);
	if (qp->copy->spare != NULL)
		pool_put(&tp->copy_pkts, qp->copy->spare);
	pool_put(&tp->copy_parts, qp->copy);
	qp->copy = NULL;
}

void
copy_rest(struct transport *tp, struct qp *qp)
{
	const struct tp_copy *c = qp->copy;

	if (c == NULL || c->nb_held != 0 || c->blocked)
		return;
	for (int i = 0; i < COPY_ROLES; i++)
		if (c->slots[i].running)
			return;
	copy_end(tp, qp);
}

/* A copy has an end: what its QP finds now. */
static void
settle(struct tp_copy *c, enum copy_role role, int rc)
{
	struct tp_copy_slot *s = &c->slots[role];

	s->rc = rc;
	if (role == COPY_RX)
		c->done++;
	else
		s->ready = true;
}

struct qp *
copy_finish(struct transport *tp, struct mem_job *m)
{
	struct tp_copy_job *job = container_of(m, struct tp_copy_job, m);
	struct qp *qp = job->qp;
	struct tp_copy_slot *s;

	tp->nb_copies--;
	if (qp == NULL) {
		pool_put(&tp->copy_jobs, job);
		return NULL;
	}
	s = &qp->copy->slots[job->role];
	TAILQ_REMOVE(&tp->copies, job, link);
	s->running = false;
	if (job->role == COPY_RX)
		qp->copy->old = m->old;
	if (m->rc != ECANCELED)
		settle(qp->copy, job->role, m->rc);
	if (job->role == COPY_RX || m->rc != 0)
		job_free(tp, s);
	return qp;
}

struct qp *
copy_overdue(struct transport *tp)
{
	struct tp_copy_job *job = TAILQ_FIRST(&tp->copies);
	enum copy_role role;
	struct qp *qp;

	if (job == NULL || tp->now_ns < job->deadline_ns)
		return NULL;
	qp = job->qp;
	role = job->role;
	tp->counters.copy_timeouts++;
	abandon(tp, &qp->copy->slots[role]);
	settle(qp->copy, role, EFAULT);
	return qp;
}
