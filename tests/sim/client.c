/* SPDX-License-Identifier: BSD-3-Clause */
/* A verbs program's end of the rings: exactly what ring.h says a client does. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

enum { CQ_GROW_MOST = 12, MODERATION_COUNT_MOST = 8, MODERATION_US_MOST = 200, MODERATION_TURNS = 32 };
#define HOLD_SLACK_NS 300000 /* engines stall, and are busy */
#define RESTORED_NS (2 * SIM_NS_PER_MS) /* after a restart a client has had a turn */
#define SOLICITED_WAKE_NS SIM_NS_PER_MS /* a program that waits for solicited completions looks now and then */

bool
client_dead(const struct sim_qp *q)
{
	return q->client_err || q->sq_error || q->rq_error || q->sq_flush || q->rq_flush;
}

bool
client_sends_done(const struct sim_qp *q)
{
	return q->abandoned || (q->nb_posted == q->nb_ops && q->nb_retired == q->nb_posted);
}

/* The region that a piece lies in. */
static const struct sim_mr *
piece_mr(const struct sim_qp *q, const uint8_t *p)
{
	return p >= q->dest_mr.base && p < q->dest_mr.base + q->dest_mr.len ? &q->dest_mr : &q->src_mr;
}

static void
put_send_sges(const struct sim_qp *q, struct ring_sge *sge, struct sim_op *op)
{
	const struct sim_mr *m = NULL;
	unsigned int i;

	for (i = 0; i < op->nsge; i++) {
		m = piece_mr(q, op->pieces[i].p);
		sge[i] = (struct ring_sge){
			.addr = m->iova + (uint64_t)(op->pieces[i].p - m->base),
			.length = op->pieces[i].len,
			.lkey = m->key,
		};
		op->stale |= m->mr == NULL && op->pieces[i].len != 0;
	}
	if (i == 0)
		return;
	sge += i - 1;
	switch (op->plant) {
	case SIM_PLANT_LKEY:
		sge->lkey ^= 1;
		break;
	case SIM_PLANT_LKEY_STALE:
		sge->lkey = q->stale_mr.key;
		sge->addr = q->stale_mr.iova;
		break;
	case SIM_PLANT_LKEY_RANGE:
		sge->addr = m->iova + m->len - sge->length + 1;
		break;
	case SIM_PLANT_LKEY_NOWRITE:
		m = &q->ep->pattern_mr;
		sge->addr = m->iova;
		sge->lkey = m->key;
		break;
	default:
		break;
	}
}

/* Where a one-sided operation goes. */
static void
put_remote(const struct sim_qp *q, struct sim_op *op, struct ring_sq_wqe *e)
{
	bool atomic = op_atomic(op);
	const struct sim_mr *m = atomic ? &q->peer->ep->atomic_mr : &q->peer->target_mr;
	bool eight = atomic || op->opcode == UROCE_WR_ATOMIC_WRITE;
	uint32_t off = atomic ? op->target_off * 8 : op->target_off;

	if (op->go_by.mr != NULL) {
		wqe_put_remote(e, windows_address(op, off), op->go_by.key);
		return;
	}
	switch (op->plant) {
	case SIM_PLANT_RKEY_ACCESS:
		m = &q->peer->noaccess_mr;
		off = 0;
		break;
	case SIM_PLANT_RKEY_STALE:
		m = &q->peer->stale_mr;
		off = 0;
		break;
	case SIM_PLANT_RKEY_PD:
		m = &q->peer->other_pd_mr;
		off = 0;
		break;
	case SIM_PLANT_RKEY_RANGE:
		off = eight ? m->len & ~7u : m->len - op->len + 1;
		break;
	case SIM_PLANT_MISALIGNED:
		off += 4;
		break;
	default:
		break;
	}
	op->stale |= m->mr == NULL && (op->len != 0 || op->opcode == UROCE_WR_FLUSH) && q->conn->type == UROCE_QPT_RC;
	wqe_put_remote(e, m->iova + off, m->key ^ (op->plant == SIM_PLANT_RKEY));
}

/* UD: which way, and to whom. */
static void
put_datagram(const struct sim_qp *q, const struct sim_op *op, struct ring_sq_wqe *e)
{
	uint32_t ah = op->group != 0 ? q->groups[op->group].ah : q->ahs[op->to->id];
	uint32_t qkey = op->group != 0 ? op->qkey : op->to->attr.qkey;

	/* With the high bit set the QP's own is used (10.2.5). */
	if (op->plant == SIM_PLANT_NONE && qkey == q->attr.qkey && (op->imm & 1))
		qkey |= 0x80000000;
	wqe_put_ud(e, ah ^ (op->plant == SIM_PLANT_AH ? 1u << 31 : 0), op->group != 0 ? WIRE_QPN_MULTICAST : op->to->qpn,
		   qkey ^ (op->plant == SIM_PLANT_QKEY));
}

static uint8_t
wrong_opcode(const struct sim_qp *q, const struct sim_op *op)
{
	if (op->imm & 1)
		return (op->imm & 2) ? 13 : 200;
	return q->params.type == UROCE_QPT_UD ? UROCE_WR_RDMA_WRITE :
	       q->params.type == UROCE_QPT_UC ? UROCE_WR_RDMA_READ : 12;
}

/* PSNs are given out in the order of posting, one per packet, to a READ one per packet of its response (9.7.1). */
static void
count_psns(struct sim_qp *q, struct sim_op *op)
{
	uint32_t packets = op_local(op) ? 0 : op_atomic(op) ? 1 : wire_packets(op->len, 7 + q->attr.path_mtu);

	op->last_psn = wire_psn_add(q->psn_next, packets - 1);
	q->psn_next = wire_psn_add(op->last_psn, 1);
	/* A READ may be asked for in any number of parts. */
	q->most_messages += op->opcode == UROCE_WR_RDMA_READ ? packets : !op_local(op);
}

/* A part of the region, or all of it, of which address and length don't count. */
static void
put_flush(const struct sim_qp *q, const struct sim_op *op, struct ring_sq_wqe *e)
{
	bool whole = (op->imm & 1) && op->plant != SIM_PLANT_RKEY_RANGE;

	wqe_put_flush(e, whole ? op->imm >> 1 : op->imm % (q->peer->target_mr.len - op->target_off + 1),
		      UROCE_FLUSH_GLOBAL, whole ? UROCE_FLUSH_MR : UROCE_FLUSH_RANGE);
}

static void
post_send(struct sim_world *w, struct sim_qp *q)
{
	struct sim_op *op = &q->ops[q->nb_posted];
	struct ring_sq_wqe *e = ring_slot(&q->sq, q->sq.counter);
	uint8_t *data = wqe_inline(e);
	union ring_sq_ctl ctl = { .word = 0 };
	unsigned int i;

	program_op(w, q, op);
	count_psns(q, op);
	op->posted_ns = w->now_ns;
	e->wr_id = op->wr_id;
	wqe_put_imm(e, op->imm);
	if (q->params.type == UROCE_QPT_UD)
		put_datagram(q, op, e);
	else if (op->huge)
		huge_put(w, op, e);
	else if (op_one_sided(op))
		put_remote(q, op, e);
	if (op_local(op))
		windows_put(q, op, e);
	if (op_atomic(op))
		wqe_put_atomic(e, op->compare_add, op->swap);
	if (op->opcode == UROCE_WR_FLUSH)
		put_flush(q, op, e);
	ctl.opcode = op->plant == SIM_PLANT_OPCODE ? wrong_opcode(q, op) : op->opcode;
	ctl.flags = op->flags;
	ctl.srqn = op->srqn;
	if (op->huge) {
		ctl.count = 1;
	} else if (op->flags & UROCE_SEND_INLINE) {
		ctl.count = (uint16_t)op->len;
		for (i = 0; i < op->nsge; i++) {
			memcpy(data, op->pieces[i].p, op->pieces[i].len);
			data += op->pieces[i].len;
		}
	} else {
		ctl.count = op->nsge;
		put_send_sges(q, wqe_sges(e, op->opcode), op);
		if (op->plant == SIM_PLANT_SGES)
			ctl.count = (uint16_t)(q->params.cap.max_send_sge + 1);
	}
	if (op->plant == SIM_PLANT_INLINE) {
		ctl.flags |= UROCE_SEND_INLINE;
		ctl.count = (uint16_t)(q->params.cap.max_inline_data + 1 + op->imm % 1000);
	}
	ring_sq_post(&q->sq, q->sq.counter++, e, ctl);
	q->nb_posted++;
	w->stats.ops++;
	sim_trace(w, "QP %u posts %u: opcode %u flags 0x%x len %u target %u%s%s", q->id, q->nb_posted - 1, op->opcode,
		  op->flags, op->len, op->target_off, op->plant ? " plant " : "",
		  op->plant ? plant_name(op->plant) : "");
	if (op->binding != SIM_NO_BINDING || op->go_by.mr != NULL)
		windows_trace(w, q, op);
}

/* After an error that is for good, only one or two more: the last one tells of all before. */
static void
cut_short(struct sim_qp *q)
{
	bool comes_back = q->conn->type != UROCE_QPT_RC && !q->client_err && !q->rq_error && !q->rq_flush;

	if (client_dead(q) && !comes_back && q->nb_ops > q->nb_posted + 2)
		q->nb_ops = q->nb_posted + 1 + (uint32_t)rng_below(&q->rng, 2);
}

/* Post some of what there is room for; ring where the engine isn't looking. */
static void
qp_post(struct sim_world *w, struct sim_qp *q)
{
	uint32_t sends = 0, recvs = 0, room;
	bool ring = false;

	if (q->qp == NULL || q->abandoned || qp_state(q->qp) == UROCE_QPS_RESET)
		return;
	if (q->rq == &q->own_rq && !q->finalized)
		recvs = recvq_post(w, q->rq);
	if (q->ready) {
		cut_short(q);
		room = q->sq_depth - (q->nb_posted - q->nb_retired);
		if (room > q->nb_ops - q->nb_posted)
			room = q->nb_ops - q->nb_posted;
		if (room != 0)
			room = (uint32_t)rng_between(&q->rng, 0, room);
		for (; sends < room; sends++)
			post_send(w, q);
	}
	if (sends + recvs == 0)
		return;
	atomic_thread_fence(memory_order_seq_cst);
	if (sends != 0 && atomic_load_explicit(&q->shared->sq_watch, memory_order_relaxed) == 0)
		ring = true;
	if (recvs != 0 && atomic_load_explicit(&q->shared->rq_watch, memory_order_relaxed) == 0)
		ring = true;
	/* While the QP is on its way nobody hears it. */
	if (ring && !moves_away(q))
		qp_doorbell(q->tp, q->qp);
	world_run_at(w, q->ep->id, w->now_ns);
	foreign_kick(w, q);
}

static uint64_t
stamp_of(const struct sim_cq *c, uint32_t n)
{
	return c->stamps[n & ((1u << c->ring.order) - 1)];
}

/* The time of a completion (ibv_wc_read_completion_ts()); of one engine's they are in order. */
static void
check_stamp(struct sim_world *w, struct sim_cq *c, uint64_t stamp)
{
	if (stamp > w->now_ns || (stamp < c->stamp && c->ep->nb_engines == 1))
		sim_fail(w, "endpoint %u: a completion of %" PRIu64 " ns after one of %" PRIu64 " ns", c->ep->id, stamp,
			 c->stamp);
	c->stamp = stamp;
}

static bool
take_cqe(struct sim_world *w, struct sim_cq *c)
{
	union ring_cqe_ctl ctl;

	if (!ring_cq_ready(&c->ring, c->ring.counter, &ctl))
		return false;
	if (c->stamps != NULL)
		check_stamp(w, c, stamp_of(c, c->ring.counter));
	model_cqe(w, c, ring_slot(&c->ring, c->ring.counter), ctl);
	c->ring.counter++;
	atomic_store_explicit(&c->shared->cons, c->ring.counter, memory_order_release);
	w->stats.completions++;
	return true;
}

void
client_drain(struct sim_world *w, struct sim_cq *c)
{
	c->stray = true;
	while (!w->failed && take_cqe(w, c))
		;
}

/* Of what is there and not polled: how many completions, and the first that counts. @return false: there is none. */
static bool
first_that_counts(const struct sim_cq *c, uint32_t *first, uint32_t *end)
{
	union ring_cqe_ctl ctl;
	const struct ring_cqe *e;
	bool found = false;
	uint32_t n;

	for (n = c->ring.counter; ring_cq_ready(&c->ring, n, &ctl) && n - c->ring.counter < 1u << c->ring.order; n++) {
		e = ring_slot(&c->ring, n);
		if (found || (c->solicited_only && !ctl.solicited && e->status == UROCE_WC_SUCCESS))
			continue;
		*first = n;
		found = true;
	}
	*end = n;
	return found;
}

static bool
moderated(const struct sim_cq *c)
{
	return c->mod_count != 0 || c->mod_us != 0;
}

/* Moderation: enough completions since the last event, or enough time since the first that counts. */
static bool
enough(const struct sim_cq *c, uint32_t completions, uint64_t ns)
{
	return (c->mod_count != 0 && completions >= c->mod_count) || (c->mod_us != 0 && ns >= c->mod_us * UINT64_C(1000));
}

static bool
waits_for_turn(const struct sim_ep *ep)
{
	for (uint32_t i = 0; i < ep->nb_engines; i++)
		if (transport_untold(ep->engines[i].tp))
			return true;
	return false;
}

/* The CQ was empty when it was armed: whatever is there now and counts must have raised the event (11.4.2.2). */
static void
check_no_event_lost(struct sim_world *w, struct sim_cq *c)
{
	uint32_t first, end, completions;
	uint64_t ns = 0;

	/* A host that is about to restart waits for its copies, and does nothing else. */
	if (!first_that_counts(c, &first, &end) || c->ep->stalled_until + HOLD_SLACK_NS > w->now_ns || c->ep->restarting ||
	    c->ep->dark_until + HOLD_SLACK_NS > w->now_ns || w->now_ns < w->jumped_until || waits_for_turn(c->ep))
		return;
	if (moderated(c)) {
		/* Each engine holds back its own events; what it doesn't tell of it doesn't count. */
		completions = c->solicited_only && c->ep->nb_engines > 1 ? 0 : end - c->told;
		if (c->stamps != NULL && w->now_ns - stamp_of(c, first) > HOLD_SLACK_NS)
			ns = w->now_ns - stamp_of(c, first) - HOLD_SLACK_NS;
		if (!enough(c, completions, ns))
			return;
	}
	sim_fail(w, "endpoint %u: QP 0x%06x completed, the CQ is armed, but no event came", c->ep->id,
		 ((const struct ring_cqe *)ring_slot(&c->ring, first))->qpn);
}

/* An event says that there is something, and only what it was armed for; moderation doesn't let it come early. */
static void
check_event_is_due(struct sim_world *w, struct sim_cq *c)
{
	uint32_t first, end, told = atomic_load_explicit(&c->shared->reported, memory_order_acquire);

	if (c->dead)
		return;
	if (!first_that_counts(c, &first, &end))
		sim_fail(w, "endpoint %u: an event of a CQ that has nothing to say", c->ep->id);
	/* Those that can't be held back come at once. */
	else if (moderated(c) && w->cfg.limits.deferred_cqs == 0 && c->stamps != NULL && !enough(c, told - c->told, w->now_ns - stamp_of(c, first)))
		sim_fail(w, "endpoint %u: an event of %u completions after %" PRIu64 " ns, moderation is %u and %u us",
			 c->ep->id, told - c->told, w->now_ns - stamp_of(c, first), c->mod_count, c->mod_us);
}

void
client_let_go(struct sim_cq *c, bool raise)
{
	uint32_t i;

	for (i = 0; i < c->ep->nb_engines; i++)
		cq_release_deferred(c->ep->engines[i].tp, c->cq, raise);
}

void
client_moderate(struct sim_world *w, struct sim_cq *c)
{
	struct rng *r = &c->ep->rng;

	c->mod_count = rng_one_in(r, 3) ? 0 : (uint16_t)rng_between(r, 1, MODERATION_COUNT_MOST);
	c->mod_us = rng_one_in(r, 3) ? 0 : (uint16_t)rng_between(r, 1, MODERATION_US_MOST);
	sim_trace(w, "endpoint %u: a CQ's events for %u completions, or after %u us", c->ep->id, c->mod_count, c->mod_us);
	cq_moderate(c->cq, c->mod_count, c->mod_us);
	/* What the rules before held back is told now. */
	client_let_go(c, true);
	c->loose = false;
}

/*
 * A larger ring: what is in the old one moves, under the same counters. With CQ_SMALL an overrun may come first.
 */
static void
cq_grow(struct sim_world *w, struct sim_cq *c)
{
	uint32_t order = c->ring.order + 1, end, i;
	struct ring to = { .base = arena_get(w, sizeof(struct ring_cqe) << order),
			   RING_SIZE(order, c->ring.shift) };
	union ring_cqe_ctl ctl;

	uint64_t *stamps = c->stamps != NULL ? (void *)arena_get(w, sizeof(*stamps) << order) : NULL;

	if (to.base == NULL || (c->stamps != NULL && stamps == NULL))
		return;
	to.counter = c->ring.counter;
	end = cq_resize(c->cq, &to, stamps);
	sim_trace(w, "endpoint %u: a CQ grows to %u at %u", c->ep->id, 1u << order, end);
	for (i = c->ring.counter; i != end; i++) {
		struct ring_cqe *e = ring_slot(&to, i);

		if (!ring_cq_ready(&c->ring, i, &ctl)) {
			sim_fail(w, "endpoint %u: completion %u isn't in the CQ that it grows from", c->ep->id, i);
			return;
		}
		memcpy(e, ring_slot(&c->ring, i), sizeof(*e));
		ctl.phase = ring_phase(i, order);
		atomic_store_explicit(&e->ctl, ctl.word, memory_order_relaxed);
		if (stamps != NULL)
			stamps[i & ((1u << order) - 1)] = stamp_of(c, i);
	}
	c->ring = to;
	c->stamps = stamps;
}

/* With events: sleep until the channel says so, as a program does in ibv_get_cq_event(). */
static void
poll_cq(struct sim_world *w, struct sim_cq *c)
{
	struct rng *r = &c->ep->rng;

	if (c->armed) {
		if (c->events > 0) {
			c->events = 0;
			/* Of several engines each has its own time to raise it. What was polled while the daemon was replaced is told of, too. */
			if (!c->stray && !c->loose && !c->late && !(moderated(c) && c->ep->nb_engines > 1) &&
			    !(c->ep->restarts != 0 && w->now_ns < c->ep->dark_until + RESTORED_NS))
				check_event_is_due(w, c);
			c->told = atomic_load_explicit(&c->shared->reported, memory_order_acquire);
			c->loose = false;
			c->late &= cq_owes_events(c->cq);
		} else {
			check_no_event_lost(w, c);
			/* Moderation that only counts may wait for ever. */
			if ((!c->solicited_only && (!moderated(c) || c->mod_us != 0)) || w->now_ns < c->wake_at)
				return;
			/* Whoever stops waiting takes back what it asked for; nobody else sends events here meanwhile.
			 */
			atomic_store_explicit(&c->shared->arm, RING_ARM_NONE, memory_order_relaxed);
			/* An engine that tells later may do so for what is polled below. */
			c->loose |= moderated(c) || waits_for_turn(c->ep);
		}
		c->armed = false;
	}
	while (!w->failed && take_cqe(w, c))
		if (!c->channel && rng_one_in(r, 16))
			return;
	if (!c->channel || c->dead)
		return;
	if ((w->cfg.faults & SIM_F_MODERATE) && rng_one_in(r, MODERATION_TURNS))
		client_moderate(w, c);
	c->solicited_only = rng_one_in(r, 3);
	c->wake_at = w->now_ns + SOLICITED_WAKE_NS;
	atomic_store_explicit(&c->shared->arm, c->solicited_only ? RING_ARM_SOLICITED : RING_ARM_ANY,
			      memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	c->armed = true;
	client_drain(w, c);
	c->stray = false;
}

void
client_post(struct sim_world *w, struct sim_ep *ep)
{
	for (uint32_t i = 0; i < 2 * w->cfg.nb_conns && !w->failed; i++) {
		struct sim_qp *q = &w->conns[i / 2].qp[i & 1];

		if (q->ep == ep && !w->conns[i / 2].done)
			qp_post(w, q);
	}
}

bool
client_turn(struct sim_world *w, struct sim_ep *ep)
{
	uint64_t before = w->stats.completions + w->stats.ops + w->stats.recvs;
	uint32_t i;

	for (i = 0; i < ep->nb_cqs && !w->failed; i++) {
		if ((w->cfg.faults & SIM_F_CQ_GROW) && !ep->cqs[i].dead && ep->cqs[i].ring.order < CQ_GROW_MOST &&
		    rng_one_in(&ep->rng, 16))
			cq_grow(w, &ep->cqs[i]);
		poll_cq(w, &ep->cqs[i]);
	}
	if (w->nb_groups != 0)
		mcast_turn(w, ep);
	mads_turn(w, ep);
	for (i = 0; i < ep->nb_srqs && !w->failed; i++)
		srq_turn(w, &ep->srqs[i]);
	for (i = 0; i < ep->nb_xsrqs && !w->failed; i++)
		srq_turn(w, &ep->xsrqs[i]);
	client_post(w, ep);
	return w->stats.completions + w->stats.ops + w->stats.recvs != before;
}
