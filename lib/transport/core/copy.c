/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mark.h"
#include "transport/core/copy_priv.h"
#include "transport/core/journal_priv.h"
#include "transport/core/local_priv.h"
#include "transport/core/sched_priv.h"
#include "transport/core/share_priv.h"

static struct tp_copy *
copy_of(struct transport *tp, struct qp *qp)
{
	struct tp_copy *c = qp->copy;

	if (c != NULL)
		return c;
	c = share_take(tp, qp, TP_POOL_COPY_PARTS, &tp->copy_parts);
	if (c == NULL)
		return NULL;
	memset(c, 0, sizeof(*c));
	STAILQ_INIT(&c->held);
	c->qp = qp;
	qp->copy = c;
	return c;
}

/* ---- Jobs ---- */
static void
job_unused(struct tp_copy_job *job)
{
	if (job->used)
		TAILQ_REMOVE(&job->share->fetched, job, link);
	job->used = false;
}

/*
 * Take back what a QP of the same share has fetched, though it may need it once more: it may wait for an ACK that comes only after a packet for which
 * this copy is needed. It has sent some of it, so that QPs that take from each other all go on. Only what a peer asks for takes copies
 * back; sends wait until others have been acknowledged, else many QPs would fetch the same bytes again and again.
 */
static struct tp_copy_job *
job_take_back(struct transport *tp, struct share *share)
{
	struct tp_copy_job *job = TAILQ_FIRST(&share->fetched);
	struct tp_copy_slot *s;

	if (job == NULL)
		return NULL;
	job_unused(job);
	s = &job->qp->copy->slots[job->role];
	s->ready = false;
	s->job = NULL;
	tp->counters.copy_taken_back++;
	return job;
}

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
	if (job != NULL)
		job_unused(job);
	else
		job = share_take(tp, qp, TP_POOL_COPY_JOBS, &tp->copy_jobs);
	if (unlikely(job == NULL) && role != COPY_SEND)
		job = job_take_back(tp, qp->share);
	c->slots[role].job = job;
	if (unlikely(job == NULL)) {
		tp->counters.copy_no_room++;
		return NULL;
	}
	job->qp = qp;
	job->share = qp->share;
	job->role = role;
	job->used = false;
	job->nb_parts = 0;
	job->sealed = false;
	job->m.nb_pieces = job->m.nb_done = 0;
	job->m.nb_read = 0;
	job->m.length = 0;
	job->m.data = job->data;
	job->m.owner = NULL;
	return job;
}

static void
job_put(struct transport *tp, struct tp_copy_job *job)
{
	struct share *s = job->share;

	share_return(tp, s, TP_POOL_COPY_JOBS, &tp->copy_jobs, job);
	share_free_unused(tp, s);
}

static void
job_free(struct transport *tp, struct tp_copy_slot *s)
{
	job_unused(s->job);
	job_put(tp, s->job);
	s->job = NULL;
}

/* Hand the job over. @return false: it can't be now. */
static bool
job_start(struct transport *tp, struct tp_copy_job *job)
{
	struct tp_copy_slot *s = &job->qp->copy->slots[job->role];

	job_waits(&job->m);
	job->deadline_ns = tp->now_ns + TP_COPY_DEADLINE_NS;
	s->running = true;
	TAILQ_INSERT_TAIL(&tp->copies, job, link);
	tp->nb_copies++;
	if (unlikely(!tp->c.copy(tp->c.arg, &job->m))) {
		TAILQ_REMOVE(&tp->copies, job, link);
		tp->nb_copies--;
		s->running = false;
		job_free(tp, s);
		tp->counters.copy_no_room++;
		return false;
	}
	tp->counters.copies++;
	share_charge(job->qp, job->m.length);
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
	TAILQ_INSERT_TAIL(&tp->blocked, c, link);
	tp->nb_blocked++;
}

static void
unblock(struct transport *tp, struct tp_copy *c)
{
	if (c->blocked) {
		c->blocked = false;
		TAILQ_REMOVE(&tp->blocked, c, link);
		tp->nb_blocked--;
	}
	if (c->fresh) {
		c->fresh = false;
		TAILQ_REMOVE(&tp->fresh, c, link);
		tp->nb_fresh--;
	}
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

struct qp *
copy_fresh(struct transport *tp)
{
	struct tp_copy *c = TAILQ_FIRST(&tp->fresh);

	return c != NULL ? c->qp : NULL;
}

void
copy_start(struct transport *tp, struct qp *qp)
{
	struct tp_copy *c = qp->copy;

	unblock(tp, c);
	if (unlikely(!job_start(tp, c->slots[COPY_RX].job)))
		block(tp, c);
}

/*
 * What a packet needs to wait for a copy. An atomic whose packet were lost after it had been executed would be executed twice. A packet that is
 * held has its place and keeps it, or those behind it could take all that the share may hold, each time that the peer sends them.
 * @return NULL: there is no room. The packet waits for it, or is lost before anything has happened.
 */
static struct tp_copy_job *
rx_job_get(struct transport *tp, struct qp *qp)
{
	struct tp_copy *c = copy_of(tp, qp);
	struct tp_copy_job *job;

	if (c != NULL && c->now == NULL && c->spare == NULL)
		c->spare = share_take(tp, qp, TP_POOL_COPY_PKTS, &tp->copy_pkts);
	if (c == NULL || (c->now == NULL && c->spare == NULL)) {
		tp->counters.copy_no_room++;
		return NULL;
	}
	/* What this packet had written before is done with. */
	c->done = c->at;
	c->first = 0;
	job = job_get(tp, qp, COPY_RX);
	if (unlikely(job == NULL))
		block(tp, c);
	return job;
}

/* Have the job started at the end of the turn, when more packets have come. */
static int
rx_job_ready(struct transport *tp, struct tp_copy_job *job, enum mem_job_op op)
{
	struct tp_copy *c = job->qp->copy;

	job->m.op = op;
	c->fresh = true;
	TAILQ_INSERT_TAIL(&tp->fresh, c, link);
	tp->nb_fresh++;
	return COPY_LATER;
}

/* @return false: there is no room for it in the job. */
static bool
rx_part(struct tp_copy_job *job, const struct wire_pkt *pkt, const struct mr *mr, uint64_t va, uint32_t len)
{
	uint64_t at = mr->addr + (va - mr->iova);
	struct mem_job *m = &job->m;
	struct mem_piece *last = m->nb_pieces > 0 ? &m->pieces[m->nb_pieces - 1] : NULL;

	if (job->nb_parts == RTE_DIM(job->parts) || len > TP_COPY_BYTES - m->length || (m->owner != NULL && m->owner != mr->owner))
		return false;
	if (last == NULL || job->sealed || last->va + last->length != at) {
		if (m->nb_pieces == RTE_DIM(m->pieces))
			return false;
		m->pieces[m->nb_pieces++] = (struct mem_piece){ .va = at };
		last = &m->pieces[m->nb_pieces - 1];
		job->sealed = false;
	}
	job->parts[job->nb_parts++] =
		(struct tp_copy_part){ .pkt = pkt, .va = at, .length = len, .at = (uint32_t)(last - m->pieces) };
	m->owner = mr->owner;
	m->length += len;
	last->length += len;
	return true;
}

/* The next access of the packet being executed. @return 0: it is done; EFAULT, ETIMEDOUT: it has failed; ENOENT: it has to be done. */
static int
access_done(struct transport *tp, struct qp *qp, const struct mr *mr, uint64_t va, uint32_t len)
{
	struct tp_copy *c = qp->copy;
	struct tp_copy_slot *s;
	uint32_t i;

	if (c == NULL)
		return ENOENT;
	if (c->at < c->done) {
		c->at++;
		return 0;
	}
	s = &c->slots[COPY_RX];
	if (!s->ready)
		return ENOENT;
	i = c->first + c->at - c->done;
	if (s->job != NULL && i < s->job->nb_parts) {
		const struct tp_copy_part *p = &s->job->parts[i];

		/* The program may have changed where it wants to have it. */
		if (p->pkt == c->now && p->va == mr->addr + (va - mr->iova) && p->length == len &&
		    (s->rc == 0 || p->at <= s->job->m.nb_done)) {
			c->at++;
			return p->at == s->job->m.nb_done ? s->rc : 0;
		}
	} else if (s->job == NULL && s->rc != 0) {
		s->ready = false;
		return s->rc;
	}
	copy_drop(tp, qp, COPY_RX);
	return ENOENT;
}

/* What a packet that isn't executed yet will write (transport/plan.c). @return 0; EFAULT: it can't be planned. */
static int
plan_write(struct qp *qp, struct mr *mr, uint64_t va, const uint8_t *data, uint32_t len)
{
	struct tp_copy *c = qp->copy;
	struct tp_copy_job *job = c->slots[COPY_RX].job;

	if (mr->host != NULL || !mr_is_remote(mr, va, len))
		return qp->service == WIRE_UD ? 0 : EFAULT;
	if (c->skip > 0) {
		c->skip--;
		return 0;
	}
	if (!rx_part(job, c->now, mr, va, len))
		return EFAULT;
	memcpy(job->data + job->m.length - len, data, len);
	return 0;
}

int
copy_write(struct transport *tp, struct qp *qp, struct mr *mr, uint64_t va, const uint8_t *data, uint32_t len)
{
	struct tp_copy_job *job;
	int rc;

	if (qp->copy != NULL && qp->copy->mode != COPY_EXECUTE)
		return plan_write(qp, mr, va, data, len);
	if (tp->c.copy == NULL || !mr_is_remote(mr, va, len))
		return mr_write(mr, va, data, len);
	if (local_in_parts(tp)) {
		MARK_UNIT("a packet by reference that stands for several finds memory that isn't mapped", "unit/transport/local_several");
		return COPY_LATER;
	}
	rc = access_done(tp, qp, mr, va, len);
	if (rc != ENOENT)
		return rc;
	job = rx_job_get(tp, qp);
	if (unlikely(job == NULL))
		return COPY_LATER;
	rx_part(job, qp->copy->now, mr, va, len);
	memcpy(job->data, data, len);
	return rx_job_ready(tp, job, MEM_JOB_WRITE);
}

int
copy_atomic_else(struct transport *tp, struct qp *qp, struct mr *mr, uint64_t va, enum mr_atomic_op op, uint64_t arg1, uint64_t arg2, uint64_t *old)
{
	struct tp_copy_job *job;
	int rc;

	if (mr->host != NULL || tp->c.copy == NULL || !mr_is_remote(mr, va, sizeof(uint64_t)))
		return mr_atomic(mr, va, op, arg1, arg2, old);
	rc = access_done(tp, qp, mr, va, sizeof(uint64_t));
	if (rc == 0)
		*old = qp->copy->old;
	if (rc != ENOENT)
		return rc;
	job = rx_job_get(tp, qp);
	if (unlikely(job == NULL))
		return COPY_LATER;
	rx_part(job, qp->copy->now, mr, va, sizeof(uint64_t));
	job->m.arg1 = arg1;
	job->m.arg2 = arg2;
	journal_away_begins(qp, qp->copy->now != NULL ? qp->copy->now->bth.psn : qp->rcv.epsn, mr, va, &job->m);
	return rx_job_ready(tp, job, op == MR_CMP_SWAP ? MEM_JOB_CMP_SWAP : MEM_JOB_FETCH_ADD);
}

void
copy_executed(struct transport *tp, struct qp *qp)
{
	struct tp_copy *c = qp->copy;
	struct tp_copy_slot *s;

	if (c == NULL)
		return;
	s = &c->slots[COPY_RX];
	if (s->job != NULL && s->ready) {
		while (c->first < s->job->nb_parts && s->job->parts[c->first].pkt == c->now)
			c->first++;
		if (c->first == s->job->nb_parts)
			copy_drop(tp, qp, COPY_RX);
	} else if (s->job == NULL) {
		s->ready = false;
	}
	c->done = c->at = 0;
	c->now = NULL;
}

static void
repoint(struct tp_copy_pkt *k, const struct wire_pkt *p)
{
	const uint8_t *from = p->l2;

	k->p.l2 = k->bytes;
	k->p.l3 = k->bytes + (p->l3 - from);
	k->p.bthp = k->bytes + (p->bthp - from);
	k->p.payload = k->p.bthp + p->op->hdr_bytes;
}

/*
 * A share may hold as many packets as are left for others, and so may a QP of it. So QPs whose memory never comes, however many they are,
 * can't take all of the pool.
 */
void
copy_hold(struct transport *tp, struct qp *qp, uint16_t port, const struct wire_pkt *p, bool first)
{
	uint64_t headers = (uint64_t)(p->bthp - p->l2) + p->op->hdr_bytes, bytes = headers + p->payload_bytes;
	struct tp_copy *c = qp->copy;
	struct tp_copy_pkt *k;

	UROCE_ASSERT((!first || (c->nb_held == 0 && c->spare != NULL)) && p->more == 0);
	if (first) {
		k = c->spare;
		c->spare = NULL;
	} else if (bytes > sizeof(k->bytes) || c->nb_held >= tp->c.limits.copy_held ||
		   c->nb_held >= share_common(tp, TP_POOL_COPY_PKTS, &tp->copy_pkts) ||
		   (k = share_take(tp, qp, TP_POOL_COPY_PKTS, &tp->copy_pkts)) == NULL) {
		tp->counters.rx_copy_dropped++;
		return;
	}
	UROCE_ASSERT(bytes <= sizeof(k->bytes));
	k->p = *p;
	k->port = port;
	memcpy(k->bytes, p->l2, headers);
	memcpy(k->bytes + headers, p->payload, p->payload_bytes);
	repoint(k, p);
	k->admitted = first;
	STAILQ_INSERT_TAIL(&c->held, k, link);
	c->nb_held++;
	if (first)
		copy_waits(qp, &k->p);
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
copy_put(struct transport *tp, struct qp *qp, struct tp_copy_pkt *k)
{
	share_give(tp, qp, TP_POOL_COPY_PKTS, &tp->copy_pkts, k);
}

static void
drop_held(struct transport *tp, struct qp *qp)
{
	struct tp_copy_pkt *k;

	while ((k = copy_take(qp)) != NULL) {
		tp->counters.rx_copy_dropped++;
		copy_put(tp, qp, k);
	}
	qp->copy->in_reorder = false;
	unblock(tp, qp->copy);
}

/* ---- Bytes to send ---- */
struct tp_copy_job *
copy_begin(struct transport *tp, struct qp *qp, enum copy_role role, uint32_t key)
{
	struct tp_copy_job *job = job_get(tp, qp, role);

	if (job != NULL)
		qp->copy->slots[role].key = key;
	return job;
}

int
copy_fetch(struct transport *tp, struct tp_copy_job *job)
{
	job->m.op = MEM_JOB_READ;
	job_start(tp, job);
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
	if (!rx->running)
		copy_drop(tp, qp, COPY_RX);
	else if (mem_job_cut(&rx->job->m))
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
		copy_put(tp, qp, qp->copy->spare);
	share_give(tp, qp, TP_POOL_COPY_PARTS, &tp->copy_parts, qp->copy);
	qp->copy = NULL;
}

void
copy_rest(struct transport *tp, struct qp *qp)
{
	const struct tp_copy *c = qp->copy;

	if (c == NULL || c->nb_held != 0 || c->blocked || c->fresh)
		return;
	for (int i = 0; i < COPY_ROLES; i++)
		if (c->slots[i].running)
			return;
	copy_end(tp, qp);
}

/* Memory was missing: what was fetched before it counts, and the message that it belongs to fails. @return false: nothing was fetched. */
static bool
fetched_some(struct tp_copy_slot *s)
{
	uint32_t i = 0;

	while (i + 1 < s->job->nb_parts && s->job->parts[i + 1].at <= s->job->m.nb_read)
		i++;
	s->key = s->job->parts[i].key;
	return s->job->m.nb_read != 0;
}

struct qp *
copy_finish(struct transport *tp, struct mem_job *m)
{
	struct tp_copy_job *job = container_of(m, struct tp_copy_job, m);
	struct qp *qp = job->qp;
	struct tp_copy_slot *s;

	tp->nb_copies--;
	if (qp == NULL) {
		job_put(tp, job);
		return NULL;
	}
	s = &qp->copy->slots[job->role];
	TAILQ_REMOVE(&tp->copies, job, link);
	s->running = false;
	s->rc = m->rc;
	s->ready = m->rc != ECANCELED;
	qp->copy->old = m->old;
	if (m->rc == ECANCELED || (m->rc != 0 && job->role != COPY_RX && !fetched_some(s)))
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
	qp->copy->slots[role].rc = ETIMEDOUT;
	qp->copy->slots[role].ready = true;
	return qp;
}
