/* SPDX-License-Identifier: BSD-3-Clause */
#include <rte_common.h>

#include "control/obj/after_crash_priv.h"
#include "control/obj/obj_cq_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "transport/record/record.h"

static int
check(struct request *r)
{
	const struct ctl_cq_create_req *q = &r->req->cq_create;

	if (q->cqe == 0 || q->cqe > UROCE_MAX_CQE)
		return req_fail(r, EINVAL, "CQ with %u entries: must be 1 to %u", q->cqe, UROCE_MAX_CQE);
	if (q->comp_vector >= SESSION_COMP_VECTORS)
		return req_fail(r, EINVAL, "completion vector %u: must be below %u", q->comp_vector,
				SESSION_COMP_VECTORS);
	if (q->has_channel > 1)
		return req_fail(r, EINVAL, "has_channel %u: must be 0 or 1", q->has_channel);
	if (q->stamps > 1)
		return req_fail(r, EINVAL, "stamps %u: must be 0 or 1", q->stamps);
	return 0;
}

/** @return the size of a ring with its time stamps. */
static uint64_t
ring_bytes(uint32_t order, bool stamps)
{
	return (sizeof(struct ring_cqe) + (stamps ? sizeof(uint64_t) : 0)) << order;
}

/** @return the ring at @p offset of a block; the time stamps follow it. */
static struct ring
lay_out(const struct shm_block *b, uint64_t offset, uint32_t order, bool with_stamps, uint64_t **stamps)
{
	struct ring ring = { .base = b->addr + offset, RING_SIZE(order, 5) };

	*stamps = with_stamps ? (void *)(ring.base + (sizeof(struct ring_cqe) << order)) : NULL;
	return ring;
}

/** Describe ring and time stamps to the client. */
static void
describe(const struct shm_block *b, uint64_t offset, uint32_t order, bool with_stamps, struct ctl_area *ring,
	 struct ctl_area *stamps)
{
	uint64_t bytes = sizeof(struct ring_cqe) << order;

	*ring = area_of(b, offset, bytes);
	if (with_stamps)
		*stamps = area_of(b, offset + bytes, sizeof(uint64_t) << order);
}

int
op_cq_create(struct session *s, struct request *r)
{
	const struct ctl_cq_create_req *q = &r->req->cq_create;
	uint32_t order = order_of(q->cqe);
	struct cq_params p;
	struct obj_channel *ch = NULL;
	struct obj_cq *cq;
	int rc;

	rc = check(r);
	if (rc != 0)
		return rc;
	if (q->has_channel) {
		ch = obj_get(s, OBJ_CHANNEL, q->channel, r);
		if (ch == NULL)
			return EINVAL;
	}
	cq = obj_new(s, OBJ_CQ, sizeof(*cq), r, &rc);
	if (cq == NULL)
		return rc;
	cq->number = ++s->control->next_cq;
	cq->cookie = q->cookie;
	cq->order = order;
	cq->stamps = q->stamps != 0;
	rc = obj_ring_alloc(s, sizeof(struct ring_cq_shared) + ring_bytes(order, cq->stamps), "CQ", &cq->block, r);
	if (rc != 0)
		goto fail_obj;
	p = (struct cq_params){
		.shared = (void *)cq->block.addr,
		.channel = ch != NULL ? ch->fd : -1,
		.cookie = q->cookie,
		.owner = session_owner(s),
		.multi = s->control->s.nb_engines > 1,
		.number = obj_number(&cq->obj),
	};
	p.ring = lay_out(&cq->block, sizeof(struct ring_cq_shared), order, cq->stamps, &p.stamps);
	rc = cq_create(&p, &cq->cq);
	if (rc != 0) {
		req_fail(r, rc, "no memory for the CQ");
		goto fail_block;
	}
	cq->channel = ch;
	if (ch != NULL)
		obj_channel_use(ch);
	obj_announce(s, r, &cq->block, &r->rsp.cq_create.seg);
	r->rsp.cq_create.handle = cq->obj.handle;
	r->rsp.cq_create.order = order;
	r->rsp.cq_create.shared = area_of(&cq->block, 0, sizeof(struct ring_cq_shared));
	describe(&cq->block, sizeof(struct ring_cq_shared), order, cq->stamps, &r->rsp.cq_create.ring,
		 &r->rsp.cq_create.stamps);
	return 0;
fail_block:
	obj_ring_free(s, &cq->block);
fail_obj:
	obj_free(s, OBJ_CQ, &cq->obj);
	return rc;
}

/** What engine_call() passes to the functions that run on an engine. */
struct cq_args {
	struct cq *cq;
	struct ring ring;
	uint64_t *stamps;
	uint32_t from;
	bool raise;
};

static int
resize_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct cq_args *a = arg;

	a->from = cq_resize(a->cq, &a->ring, a->stamps);
	return 0;
}

/** Have the next ring take the place of the current one. */
static void
next_is_current(struct session *s, struct obj_cq *cq)
{
	if (cq->old_block.addr != NULL)
		obj_ring_free(s, &cq->old_block);
	cq->old_block = cq->ring_block;
	cq->ring_block = cq->next_block;
	cq->next_block = (struct shm_block){ 0 };
	cq->order = cq->next_order;
}

/** The answer: the ring, and the counter from which on completions are in it. */
static int
answer_resize(struct obj_cq *cq, struct request *r, uint32_t from)
{
	r->rsp.cq_resize.order = cq->order;
	r->rsp.cq_resize.from = from;
	describe(&cq->ring_block, 0, cq->order, cq->stamps, &r->rsp.cq_resize.ring, &r->rsp.cq_resize.stamps);
	cq->unanswered = cq->untold = false;
	return 0;
}

int
op_cq_resize(struct session *s, struct request *r)
{
	const struct ctl_cq_resize_req *q = &r->req->cq_resize;
	struct obj_cq *cq = r->obj;
	struct cq_args a;
	uint32_t order;
	int rc;

	order = order_of(q->cqe);
	if (q->cqe == 0 || q->cqe > UROCE_MAX_CQE)
		return req_fail(r, EINVAL, "CQ with %u entries: must be 1 to %u", q->cqe, UROCE_MAX_CQE);
	if (obj_qp_complete_posted(s, cq))
		return EALREADY;
	if (order == cq->order && cq->unanswered) {
		if (cq->untold)
			obj_announce_again(s, r, &cq->ring_block, &r->rsp.cq_resize.seg);
		return answer_resize(cq, r, cq->from);
	}
	if (order <= cq->order) {
		r->rsp.cq_resize.order = cq->order;
		return 0;
	}
	rc = obj_ring_alloc(s, ring_bytes(order, cq->stamps), "CQ", &cq->next_block, r);
	if (rc != 0)
		return rc;
	cq->next_order = order;
	cq->untold = obj_announce(s, r, &cq->next_block, &r->rsp.cq_resize.seg);
	/* If this daemon is killed now, the next one has to know where completions are. */
	saved_touch(s->control, cq->obj.saved);
	saving_midway(s);
	a.cq = cq->cq;
	a.ring = lay_out(&cq->next_block, 0, order, cq->stamps, &a.stamps);
	/* Any engine may do it: other engines that write to the CQ see the change of rings atomically. */
	engine_call(s->control->s.engines[0], resize_on_engine, &a);
	/* After this, all completions that got slots in the old ring have been written. */
	rcu_wait(s->control->s.sh.qsbr);
	next_is_current(s, cq);
	return answer_resize(cq, r, a.from);
}

static int
release_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct cq_args *a = arg;

	cq_release_deferred(engine_transport(e), a->cq, a->raise);
	if (!a->raise)
		cq_drop_owed(engine_transport(e), a->cq);
	return 0;
}

/** Release the events that engines hold back for moderation, or drop all that they hold. @param raise  Release them. */
static void
release_held(struct session *s, struct obj_cq *cq, bool raise)
{
	struct cq_args a = { .cq = cq->cq, .raise = raise };

	for (unsigned int i = 0; i < s->control->s.nb_engines; i++)
		engine_call(s->control->s.engines[i], release_on_engine, &a);
}

int
op_cq_modify(struct session *s, struct request *r)
{
	const struct ctl_cq_modify_req *q = &r->req->cq_modify;
	struct obj_cq *cq = r->obj;

	cq->moderated = true;
	cq_moderate(cq->cq, q->count, q->period_us);
	release_held(s, cq, true);
	return 0;
}

static void
free_blocks(struct session *s, struct obj_cq *cq)
{
	const struct shm_block *all[] = { &cq->next_block, &cq->old_block, &cq->ring_block, &cq->block };

	for (unsigned int i = 0; i < RTE_DIM(all); i++)
		if (all[i]->addr != NULL)
			obj_ring_free(s, all[i]);
}

void
obj_cq_destroy(struct session *s, struct obj_cq *cq)
{
	if (cq->moderated || cq_owes_events(cq->cq))
		release_held(s, cq, false);
	cq_destroy(cq->cq);
	if (cq->channel != NULL)
		cq->channel->obj.users--;
	free_blocks(s, cq);
	obj_free(s, OBJ_CQ, &cq->obj);
}

/* ---- A daemon goes, another one comes ---- */
struct obj_cq_record {
	struct record_head head;
	uint64_t number, cookie;
	uint32_t handle, channel; /* HANDLE_NONE: none */
	uint32_t order, stamps, moderated;
	uint32_t journaled; /* its number in journals plus one; 0: none */
	struct block_record block, ring_block, old_block;
	/* Since version 3. */
	struct block_record next_block;
	uint32_t next_order, from;
	uint32_t unanswered, untold;
};

int
obj_cq_save(struct session *s, void *obj, struct stream_out *o)
{
	struct transport *tps[UROCE_MAX_ENGINES];
	struct control *c = s->control;
	const struct obj_cq *cq = obj;
	const struct obj_cq_record r = {
		.number = cq->number,
		.cookie = cq->cookie,
		.handle = cq->obj.handle,
		.channel = cq->channel != NULL ? cq->channel->obj.handle : HANDLE_NONE,
		.order = cq->order,
		.stamps = cq->stamps,
		.moderated = cq->moderated,
		.journaled = obj_number(&cq->obj) + 1,
		.block = block_save(&cq->block),
		.ring_block = block_save(&cq->ring_block),
		.old_block = block_save(&cq->old_block),
		.next_block = block_save(&cq->next_block),
		.next_order = cq->next_order,
		.from = cq->from,
		.unanswered = cq->unanswered,
		.untold = cq->untold,
	};
	struct cq_record *to;

	for (unsigned int i = 0; i < c->s.nb_engines; i++)
		tps[i] = engine_transport(c->s.engines[i]);
	stream_put(o, RECORD_OBJ_CQ, &r, sizeof(r), NULL, 0);
	to = stream_reserve(o, sizeof(*to));
	/* Which events engines hold back only they know, while they run. */
	if (to != NULL)
		cq_save(tps, o->live ? 0 : c->s.nb_engines, cq->cq, to);
	return 0;
}

static int
take_block(struct session *s, const struct block_record *from, struct shm_block *b, struct request *r)
{
	return from->bytes != 0 ? obj_ring_take(s, from, b, r) : 0;
}

/** Find a ring in its block. */
static int
find_ring(const struct obj_cq *cq, const struct shm_block *b, uint32_t order, struct cq_params *p, struct request *r)
{
	uint64_t offset = b == &cq->block ? sizeof(struct ring_cq_shared) : 0;

	if (order > order_of(UROCE_MAX_CQE) || b->bytes < offset + ring_bytes(order, cq->stamps))
		return req_fail(r, EINVAL, "its ring of 2^%u entries isn't in its block", order);
	p->ring = lay_out(b, offset, order, cq->stamps, &p->stamps);
	return 0;
}

/**
 * Take the blocks of a CQ, and find its ring there.
 * @param old  Receives its ring, if the daemon before was about to go on in the one that @p p receives then.
 */
static int
take_blocks(struct session *s, const struct obj_cq_record *from, struct obj_cq *cq, struct cq_params *p, struct cq_params *old, struct request *r)
{
	int rc = obj_ring_take(s, &from->block, &cq->block, r);

	rc = rc != 0 ? rc : take_block(s, &from->ring_block, &cq->ring_block, r);
	rc = rc != 0 ? rc : take_block(s, &from->old_block, &cq->old_block, r);
	rc = rc != 0 ? rc : take_block(s, &from->next_block, &cq->next_block, r);
	rc = rc != 0 ? rc : find_ring(cq, cq->ring_block.addr != NULL ? &cq->ring_block : &cq->block, cq->order, p, r);
	if (rc != 0)
		return rc;
	p->shared = (void *)cq->block.addr;
	if (cq->next_block.addr == NULL)
		return 0;
	*old = *p;
	if (cq->next_order <= cq->order)
		return req_fail(r, EINVAL, "its next ring of 2^%u entries isn't larger than that of 2^%u", cq->next_order, cq->order);
	return find_ring(cq, &cq->next_block, cq->next_order, p, r);
}

struct restore_args {
	const struct cq_record *from;
	uint32_t room;
	struct cq_params params;
	struct cq *cq;
	const char *why;
};

static int
restore_on_engine(struct engine *e, void *arg, uint64_t now_ns)
{
	struct restore_args *a = arg;

	return cq_restore(engine_transport(e), a->from, a->room, &a->params, now_ns, &a->cq, &a->why);
}

static int
restore(struct session *s, const struct obj_cq_record *from, struct stream_in *in, struct request *r)
{
	struct obj_channel *ch = NULL;
	struct restore_args a = { .why = "its record is missing" };
	union after_crash_record now;
	struct cq_params old = { 0 };
	struct obj_cq *cq;
	int rc;

	if (from->channel != HANDLE_NONE && (ch = obj_get(s, OBJ_CHANNEL, from->channel, r)) == NULL)
		return EINVAL;
	cq = obj_new_as(s, OBJ_CQ, sizeof(*cq), from->handle, r, &rc);
	if (cq == NULL)
		return rc;
	cq->number = from->number;
	s->control->next_cq = RTE_MAX(s->control->next_cq, from->number);
	cq->cookie = from->cookie;
	cq->order = from->order;
	cq->stamps = from->stamps != 0;
	cq->moderated = from->moderated != 0;
	cq->next_order = from->next_order;
	cq->from = from->from;
	cq->unanswered = from->unanswered != 0;
	cq->untold = from->untold != 0;
	a.params = (struct cq_params){
		.channel = ch != NULL ? ch->fd : -1,
		.cookie = cq->cookie,
		.owner = session_owner(s),
		.multi = s->control->s.nb_engines > 1,
		.number = obj_number(&cq->obj),
	};
	rc = take_blocks(s, from, cq, &a.params, &old, r);
	if (rc != 0)
		goto fail;
	a.from = stream_foreign(in, &a.room);
	cq->was_journaled = from->journaled;
	if (a.from != NULL && s->control->s.crashed_ns != 0 &&
	    after_crash_cq(s->control, cq, a.from, a.room, old.ring.base != NULL ? &old : NULL, &a.params, &now.cq, &cq->from))
		a.from = &now.cq;
	rc = a.from != NULL ? engine_call(s->control->s.engines[0], restore_on_engine, &a) : EINVAL;
	if (rc != 0) {
		req_fail(r, rc, "CQ %#x: %s", from->handle, a.why);
		goto fail;
	}
	/* Engines may hold back events of it. */
	cq->moderated |= a.from->held != 0 || a.from->owed != 0;
	cq->cq = a.cq;
	cq->channel = ch;
	if (ch != NULL)
		obj_channel_use(ch);
	if (cq->next_block.addr != NULL) {
		next_is_current(s, cq);
		cq->unanswered = true;
	}
	return 0;
fail:
	free_blocks(s, cq);
	obj_free(s, OBJ_CQ, &cq->obj);
	return rc;
}

int
obj_cq_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct obj_cq_record *from;
	int rc = 0;

	while (rc == 0 && (from = stream_next(in, RECORD_OBJ_CQ, sizeof(*from))) != NULL)
		rc = restore(s, from, in, r);
	return rc;
}

int
op_cq_destroy(struct session *s, struct request *r)
{
	struct obj_cq *cq = r->obj;

	if (cq->obj.users > 0)
		return req_fail(r, EBUSY, "%u QPs and SRQs use the CQ; destroy them first", cq->obj.users);
	rcu_wait(s->control->s.sh.qsbr);
	obj_cq_destroy(s, cq);
	return 0;
}
