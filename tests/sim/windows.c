/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows as programs use them: who has them binds them over the area that its peer writes and reads, and
 * lets the peer know once a bind has completed; who knows of one goes through it, until one of both sides ends it.
 *
 * What the model knows: through a binding that was complete when an operation was posted and that nobody ended before
 * the operation completed it must go; through one whose end was complete before, it must not. In between both may be.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { BINDINGS_GROW = 16, MIN_BYTES = 16 };
#define GRANTS (UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ)

bool
windows_make(struct sim_world *w, struct sim_qp *q)
{
	uint32_t i;

	q->nb_windows = q->nb_bindings = 0;
	q->hurried = q->planted_inv = false;
	/* Those of an XRC target nobody could bind, and nobody comes to an initiator. */
	if ((w->cfg.faults & SIM_F_WINDOWS) == 0 || q->params.type == UROCE_QPT_UD || q->conn->xrc || q->foreign != NULL)
		return true;
	q->nb_windows = (uint32_t)rng_between(&q->rng, 1, SIM_MAX_WINDOWS);
	for (i = 0; i < q->nb_windows; i++) {
		struct sim_window *v = &q->windows[i];

		*v = (struct sim_window){ .type = rng_one_in(&q->rng, 3) ? MW_TYPE_1 : MW_TYPE_2,
					  .now = SIM_NO_BINDING,
					  .ending = SIM_NO_BINDING };
		if (mw_create(q->ep->sh.mrs, SIM_PD, v->type, &v->mw) != 0)
			return false;
		v->key = mw_key(v->mw);
	}
	return true;
}

/* Is anything bound to the regions that windows of q may open? 0: no, 1: yes, -1: can't be known. */
static int
bound(const struct sim_qp *q)
{
	int sure = 0;
	uint32_t i;

	for (i = 0; i < q->nb_bindings; i++) {
		const struct sim_binding *b = &q->bindings[i];

		if (b->mr != &q->window_mr || b->state == SIM_BIND_ENDED || (b->state == SIM_BIND_FAILED && !b->unsure))
			continue;
		if (b->state != SIM_BIND_BOUND || b->unsure)
			return -1;
		sure = 1;
	}
	return sure;
}

void
windows_end(struct sim_world *w, struct sim_qp *q)
{
	struct mw *mws[SIM_MAX_WINDOWS];
	int is = bound(q);
	uint32_t i, n = 0;

	if (q->window_mr.mr != NULL && is == 1 && mr_retire(q->window_mr.mr))
		sim_fail(w, "QP %u: a region could be deregistered though a window is bound to it", q->id);
	for (i = 0; i < q->nb_windows; i++)
		if (q->windows[i].mw != NULL)
			mws[n++] = q->windows[i].mw;
	if (is == 0 && q->window_mr.mr != NULL && !w->failed) {
		if (!mr_retire(q->window_mr.mr))
			sim_fail(w, "QP %u: a region can't be deregistered though no window is bound to it", q->id);
		sim_mr_free(q->ep, &q->window_mr);
	}
	mw_destroy_bulk(q->ep->sh.mrs, mws, n);
	q->nb_windows = 0;
	sim_mr_free(q->ep, &q->window_mr);
	free(q->bindings);
	q->bindings = NULL;
	q->nb_bindings = q->max_bindings = 0;
}

/* ---- What programs do with them ---- */

static struct sim_binding *
new_binding(struct sim_qp *q)
{
	if (q->nb_bindings == q->max_bindings) {
		q->max_bindings += BINDINGS_GROW;
		q->bindings = realloc(q->bindings, q->max_bindings * sizeof(*q->bindings));
		if (q->bindings == NULL)
			abort();
	}
	q->bindings[q->nb_bindings] = (struct sim_binding){ 0 };
	return &q->bindings[q->nb_bindings++];
}

/* May q, whose window it is, end this binding? Unless it is rude it waits for the peer's operations. */
static bool
may_end(const struct sim_world *w, struct sim_qp *q, struct sim_binding *b)
{
	if (b->state != SIM_BIND_BOUND)
		return false;
	/* What an unreliable sender's completion means is that it has been sent. */
	if (b->users == 0 && q->params.type == UROCE_QPT_RC)
		return true;
	return (w->cfg.faults & SIM_F_DEREG) && rng_one_in(&q->rng, 4);
}

static void
end_binding(struct sim_qp *q, struct sim_binding *b)
{
	b->state = SIM_BIND_ENDING;
	b->raced = b->users != 0 || q->params.type != UROCE_QPT_RC;
	q->conn->raced |= b->raced;
}

static void
plan_bind(struct sim_world *w, struct sim_qp *q, struct sim_op *op, uint32_t window, bool nothing)
{
	struct sim_window *v = &q->windows[window];
	struct rng *r = &q->rng;
	struct sim_binding *b = new_binding(q);
	bool atomic = q->params.type == UROCE_QPT_RC && rng_one_in(r, 5);
	const struct sim_mr *m = atomic ? &q->ep->atomic_mr : &q->window_mr;

	op->opcode = UROCE_WR_BIND_MW;
	op->binding = q->nb_bindings - 1;
	op->replaces = v->now;
	if (v->now != SIM_NO_BINDING)
		end_binding(q, &q->bindings[v->now]);
	v->now = SIM_NO_BINDING;
	b->window = window;
	b->type = v->type;
	b->key = v->key = (v->key & ~UINT32_C(0xff)) | ((v->key + 1) & 0xff);
	b->state = SIM_BIND_BINDING;
	b->mr = m;
	if (nothing)
		return;
	v->now = op->binding;
	b->len = atomic ? 8 * (uint32_t)rng_between(r, 1, SIM_ATOMIC_WORDS)
			: (uint32_t)rng_between(r, MIN_BYTES, rng_one_in(r, 2) ? m->len : m->len / 2);
	b->off = (uint32_t)rng_below(r, m->len - b->len + 1);
	if (atomic || rng_one_in(r, 2))
		b->off &= ~7u;
	b->access = atomic             ? UROCE_ACCESS_REMOTE_ATOMIC
		    : rng_one_in(r, 3) ? (rng_one_in(r, 2) ? UROCE_ACCESS_REMOTE_WRITE : UROCE_ACCESS_REMOTE_READ)
				       : GRANTS;
	if (v->type == MW_TYPE_2 && rng_one_in(r, 3))
		b->access |= UROCE_ACCESS_ZERO_BASED;
}

/* A bind or an invalidation that must be refused. */
static void
plant(struct sim_qp *q, struct sim_op *op, uint32_t window)
{
	op->plant = SIM_PLANT_BIND;
	op->opcode = rng_one_in(&q->rng, 3) ? UROCE_WR_LOCAL_INV : UROCE_WR_BIND_MW;
	op->window = window;
	q->windows[window].spoiled = true;
	q->planted_local = true;
}

bool
windows_local_op(struct sim_world *w, struct sim_qp *q, struct sim_op *op)
{
	uint32_t window;
	struct sim_window *v;

	if (q->nb_windows == 0 || !rng_one_in(&q->rng, 6))
		return false;
	window = (uint32_t)rng_below(&q->rng, q->nb_windows);
	v = &q->windows[window];
	if ((w->cfg.faults & SIM_F_PLANT_LOCAL) && !q->planted_local && rng_one_in(&q->rng, 6)) {
		plant(q, op, window);
		return true;
	}
	if (v->spoiled)
		return false;
	if (v->now == SIM_NO_BINDING) {
		if (v->ending != SIM_NO_BINDING && q->bindings[v->ending].state != SIM_BIND_ENDED)
			return false;
		plan_bind(w, q, op, window, v->type == MW_TYPE_1 && rng_one_in(&q->rng, 8));
		return true;
	}
	if (!may_end(w, q, &q->bindings[v->now]))
		return false;
	if (v->type == MW_TYPE_1) {
		plan_bind(w, q, op, window, rng_one_in(&q->rng, 3));
		return true;
	}
	op->opcode = UROCE_WR_LOCAL_INV;
	op->binding = v->now;
	end_binding(q, &q->bindings[v->now]);
	v->now = SIM_NO_BINDING;
	return true;
}

bool
windows_send_inv(struct sim_world *w, struct sim_qp *q, struct sim_op *op)
{
	struct sim_qp *p = q->peer;
	struct sim_binding *b;
	struct sim_window *v;

	if (p->nb_windows == 0 || q->params.type != UROCE_QPT_RC || !rng_one_in(&q->rng, 6))
		return false;
	v = &p->windows[rng_below(&q->rng, p->nb_windows)];
	if ((w->cfg.faults & SIM_F_PLANT_REMOTE) && !q->planted_remote && rng_one_in(&q->rng, 20)) {
		op->opcode = UROCE_WR_SEND_WITH_INV;
		op->plant = SIM_PLANT_INV;
		op->imm = rng_one_in(&q->rng, 3) ? p->target_mr.key : v->type == MW_TYPE_1 ? v->key : v->key ^ 0x80;
		q->planted_remote = q->planted_inv = true;
		return true;
	}
	if (v->type == MW_TYPE_1 || v->spoiled || v->now == SIM_NO_BINDING ||
	    p->bindings[v->now].state != SIM_BIND_BOUND)
		return false;
	b = &p->bindings[v->now];
	op->opcode = UROCE_WR_SEND_WITH_INV;
	op->binding = v->now;
	op->imm = b->key;
	b->state = SIM_BIND_ENDING;
	b->ended_by_peer = true;
	v->ending = v->now;
	v->now = SIM_NO_BINDING;
	/* READs whose responses get lost find the key gone: who wants to be sure fences (responder.c). */
	if (b->readers != 0 && rng_one_in(&q->rng, 4))
		q->hurried = true;
	else if (b->readers != 0)
		op->fenced = true;
	return true;
}

static bool
grants(const struct sim_op *op, const struct sim_binding *b)
{
	uint32_t need = op_atomic(op)                      ? UROCE_ACCESS_REMOTE_ATOMIC
			: op->opcode == UROCE_WR_RDMA_READ ? UROCE_ACCESS_REMOTE_READ
							   : UROCE_ACCESS_REMOTE_WRITE;

	return (b->access & need) != 0;
}

/* A window of another QP of the peer's: type 2 opens it to its own QP's peer only. */
static const struct sim_binding *
somebody_elses(const struct sim_world *w, const struct sim_qp *q)
{
	uint32_t i, k;

	for (i = 0; i < 2 * w->cfg.nb_conns; i++) {
		const struct sim_qp *o = &w->conns[i / 2].qp[i & 1];

		if (o == q->peer || o->ep != q->peer->ep)
			continue;
		for (k = 0; k < o->nb_bindings; k++)
			if (o->bindings[k].type == MW_TYPE_2 && o->bindings[k].state == SIM_BIND_BOUND)
				return &o->bindings[k];
	}
	return NULL;
}

/* Whether what op wants through b, and b itself, make a mistake of kind p; if so op becomes that mistake. */
static bool
plant_remote(const struct sim_world *w, struct sim_qp *q, struct sim_op *op, const struct sim_binding *b)
{
	const struct sim_binding *other;
	bool eight = op_atomic(op) || op->opcode == UROCE_WR_ATOMIC_WRITE;
	bool gone = b->state == SIM_BIND_ENDED || (b->state == SIM_BIND_ENDING && b->ended_by_peer);

	/* What is refused for another reason shows nothing. */
	if (b->len == 0 || (eight && ((b->off | b->len) & 7) != 0))
		return false;
	op->go_by = *b;
	if (gone && !b->unsure) {
		op->plant = SIM_PLANT_WINDOW_STALE;
	} else if (b->state != SIM_BIND_BOUND) {
		op->go_by.mr = NULL;
		return false;
	} else if (!grants(op, b)) {
		op->plant = SIM_PLANT_WINDOW_ACCESS;
	} else if ((other = somebody_elses(w, q)) != NULL && grants(op, other) && other->len >= op->len &&
		   !(eight && (other->off & 7) != 0) && rng_one_in(&q->rng, 2)) {
		op->plant = SIM_PLANT_WINDOW_QP;
		op->go_by = *other;
	} else {
		op->plant = SIM_PLANT_WINDOW_RANGE;
	}
	if (op->len > op->go_by.len && op->plant != SIM_PLANT_WINDOW_RANGE)
		op->len = op->go_by.len;
	q->planted_remote = true;
	return true;
}

static bool
fits(const struct sim_op *op, const struct sim_binding *b)
{
	return grants(op, b) && (b->access & UROCE_ACCESS_REMOTE_ATOMIC ? op_atomic(op) : !op_atomic(op)) &&
	       b->len != 0 && (op->opcode != UROCE_WR_ATOMIC_WRITE || ((b->off & 7) == 0 && b->len >= 8));
}

void
windows_choose(struct sim_world *w, struct sim_qp *q, struct sim_op *op)
{
	struct sim_qp *p = q->peer;
	struct sim_binding *b;
	uint32_t k;

	if (p->nb_bindings == 0 || op->plant != SIM_PLANT_NONE || !op_one_sided(op) || op_local(op) ||
	    op->opcode == UROCE_WR_FLUSH || rng_one_in(&q->rng, 4))
		return;
	b = &p->bindings[rng_below(&q->rng, p->nb_bindings)];
	if ((w->cfg.faults & SIM_F_PLANT_REMOTE) && !q->planted_remote && op->len != 0 && rng_one_in(&q->rng, 2) &&
	    plant_remote(w, q, op, b))
		return;
	/* Mostly the latest ones, which are likely to be good. */
	k = p->nb_bindings - 1 - (uint32_t)rng_below(&q->rng, p->nb_bindings < 4 ? p->nb_bindings : 4);
	b = &p->bindings[k];
	if (b->state != SIM_BIND_BOUND || b->unsure || !fits(op, b))
		return;
	if (op->len > b->len)
		op->len = (uint32_t)rng_between(&q->rng, 1, b->len);
	op->binding = k;
	op->go_by = *b;
	if (op_atomic(op))
		op->target_off = b->off / 8 + (uint32_t)rng_below(&q->rng, b->len / 8);
	else
		op->target_off = b->off + (uint32_t)rng_below(&q->rng, b->len - op->len + 1);
	if (op->opcode == UROCE_WR_ATOMIC_WRITE)
		op->target_off &= ~7u;
	b->users++;
	b->readers += op->opcode == UROCE_WR_RDMA_READ;
}

/* ---- Work requests ---- */

uint64_t
windows_address(const struct sim_op *op, uint32_t off)
{
	const struct sim_binding *b = &op->go_by;

	uint32_t step = op_atomic(op) || op->opcode == UROCE_WR_ATOMIC_WRITE ? 8 : 1;

	/* One byte too far, or one too early. */
	if (op->plant == SIM_PLANT_WINDOW_RANGE)
		off = op->imm & 1 ? b->off + b->len + step - op->len : b->off - step;
	else if (op->plant != SIM_PLANT_NONE)
		off = b->off;
	return b->access & UROCE_ACCESS_ZERO_BASED ? (uint64_t)off - b->off : b->mr->iova + off;
}

/* What must not be bound, or not so. */
static void
put_plant(const struct sim_qp *q, const struct sim_op *op, struct ring_sq_wqe *e, struct ring_bind *bind)
{
	const struct sim_window *v = &q->windows[op->window];
	bool free = v->now == SIM_NO_BINDING;

	*bind = (struct ring_bind){ .length = 8, .lkey = q->window_mr.key, .access = GRANTS };
	e->remote_addr = q->window_mr.iova;
	e->rkey = v->key;
	/* Type 1 is never invalidated; type 2 not with another key. */
	e->imm = v->type == MW_TYPE_1 ? v->key : v->key ^ 0x40;
	switch (op->imm % 8) {
	case 0: /* C10-75 */
		bind->length = q->window_mr.len + 1;
		break;
	case 1:
		e->remote_addr--;
		break;
	case 2: /* C10-73 */
		bind->lkey = q->target_mr.key;
		e->remote_addr = q->target_mr.iova;
		break;
	case 3: /* C10-72 */
		bind->lkey = q->other_pd_mr.key;
		e->remote_addr = q->other_pd_mr.iova;
		break;
	case 4:
		bind->access = UROCE_ACCESS_MW_BIND;
		break;
	case 5: /* o10-36.2.2, o10-37.2.40 */
		if (v->type == MW_TYPE_1)
			bind->access |= UROCE_ACCESS_ZERO_BASED;
		else
			bind->length = 0;
		break;
	case 6: /* C10-74 */
		bind->lkey = q->src_mr.key;
		e->remote_addr = q->src_mr.iova;
		break;
	default: /* o10-37.2.30, or an MR for a window */
		if (free || v->type == MW_TYPE_1)
			e->rkey = q->window_mr.key;
		break;
	}
}

void
windows_put(const struct sim_qp *q, const struct sim_op *op, struct ring_sq_wqe *e)
{
	struct ring_bind bind = { 0 };
	const struct sim_binding *b;

	if (op->plant == SIM_PLANT_BIND) {
		put_plant(q, op, e, &bind);
	} else {
		b = &q->bindings[op->binding];
		wqe_put_imm(e, b->key); /* LOCAL_INV's */
		wqe_put_remote(e, b->mr->iova + b->off, b->key);
		bind = (struct ring_bind){ .length = b->len,
					   .lkey = b->len == 0 ? 0 : b->mr->key,
					   .access = b->access };
	}
	if (op->opcode == UROCE_WR_BIND_MW)
		wqe_put_bind(e, bind.length, bind.lkey, bind.access);
}

/* ---- Completions ---- */

static void
set(struct sim_binding *b, enum sim_bind_state s, bool sure)
{
	b->state = s;
	b->unsure |= !sure;
}

void
windows_retire(struct sim_qp *q, const struct sim_op *op)
{
	bool ok = op->status == UROCE_WC_SUCCESS;
	/* It may have been executed in a turn that didn't count, and flushed afterwards. */
	bool sure = op->status != UROCE_WC_WR_FLUSH_ERR || q->ep->restarts == 0 || !(q->ep->w->cfg.faults & SIM_F_CRASH);
	struct sim_binding *b;

	if (op->binding == SIM_NO_BINDING)
		return;
	if (op->opcode == UROCE_WR_BIND_MW) {
		b = &q->bindings[op->binding];
		if (b->state == SIM_BIND_BINDING)
			set(b, !ok ? SIM_BIND_FAILED : b->len == 0 ? SIM_BIND_ENDED : SIM_BIND_BOUND, sure);
		if (op->replaces != SIM_NO_BINDING)
			set(&q->bindings[op->replaces], ok ? SIM_BIND_ENDED : SIM_BIND_ENDING, ok);
		/* Who knows what is bound: a UC program that goes on after an error leaves it alone. */
		q->windows[b->window].spoiled |= !ok;
	} else if (op->opcode == UROCE_WR_LOCAL_INV) {
		q->windows[q->bindings[op->binding].window].spoiled |= !ok;
		set(&q->bindings[op->binding], ok ? SIM_BIND_ENDED : SIM_BIND_ENDING, ok);
	} else if (op->opcode == UROCE_WR_SEND_WITH_INV) {
		set(&q->peer->bindings[op->binding], ok ? SIM_BIND_ENDED : SIM_BIND_ENDING, ok);
	} else {
		b = &q->peer->bindings[op->binding];
		b->users--;
		b->readers -= op->opcode == UROCE_WR_RDMA_READ;
	}
}

void
windows_invalidated(struct sim_qp *q, const struct sim_op *op)
{
	if (op->opcode == UROCE_WR_SEND_WITH_INV)
		set(&q->bindings[op->binding], SIM_BIND_ENDED, true);
}

bool
invalidate_may_wait(const struct sim_world *w)
{
	return (w->cfg.faults & SIM_F_WINDOWS) &&
	       (w->cfg.limits.tx_packets != 0 || w->cfg.limits.local_packets != 0 || w->cfg.limits.qp_budget != 0 ||
		((w->cfg.faults & (SIM_F_ECN | SIM_F_QUEUE)) && w->cfg.cc != TP_CC_NONE) ||
		w->cfg.max_len * UROCE_MAX_RD_ATOMIC >= TP_TX_MAX * 256);
}

bool
windows_raced(const struct sim_qp *q, const struct sim_op *op)
{
	return op->binding != SIM_NO_BINDING && op_one_sided(op) && !op_local(op) &&
	       q->peer->bindings[op->binding].raced;
}

void
windows_trace(struct sim_world *w, const struct sim_qp *q, const struct sim_op *op)
{
	const struct sim_binding *b = op_local(op) ? &q->bindings[op->binding] : &op->go_by;

	if (op->opcode == UROCE_WR_SEND_WITH_INV)
		b = &q->peer->bindings[op->binding];
	sim_trace(w, "  window: type %u key 0x%x bytes %u at %u, access 0x%x, state %d", b->type, b->key, b->len,
		  b->off, b->access, b->state);
}
