/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs/bounce.h"

#include <sys/mman.h>

#include "verbs/client_priv.h"

/* SENDs and WRITEs: their data is read once, and may be read early. */
#define BOUNCED_OPS (WR_OPS_WITH_INLINE)
#define UNSUITED_FLAGS (UROCE_SEND_INLINE | UROCE_SEND_FENCE)

/* The program's memory that SGEs name, and the slot in its place. */
struct pieces {
	uint8_t *slot;
	uint8_t *at[BOUNCE_MAX_SGE];
	struct ring_sge sges[BOUNCE_MAX_SGE];
	uint16_t n;
};

/* A slot in use. */
struct bounce_user {
	struct client_qp *qp; /* NULL: it is free */
	struct ring_rq_wqe *w; /* of a receive: its WQE ... */
	uint32_t counter;      /* ... of this counter */
	bool restored;         /* the WQE has its own SGEs again */
	struct pieces pieces;  /* of a receive */
};

struct bounce_area {
	uint32_t handle, lkey; /* its MR */
	uint8_t *base;
	uint32_t nb_free, nb_restored;
	uint16_t free[BOUNCE_SLOTS];
	struct bounce_user users[BOUNCE_SLOTS];
};

static int
by_key(const struct client_mr *a, const struct client_mr *b)
{
	return a->mr.lkey < b->mr.lkey ? -1 : a->mr.lkey > b->mr.lkey;
}

RB_GENERATE_INTERNAL(bounce_regions, client_mr, bounce.node, by_key, __attribute__((unused)) static);

static struct client_bounce *
bounce_of(const struct ibv_pd *ibpd)
{
	return ((const struct client_pd *)ibpd)->bounce;
}

/* ---- PDs and MRs ---- */
bool
client_bounce_wanted(void)
{
	const char *text = secure_getenv("UROCE_BOUNCE");

	return !text || strcmp(text, "off") != 0;
}

int
client_bounce_begin(struct client_pd *pd)
{
	struct client_bounce *b = calloc(1, sizeof(*b));

	if (!b)
		return ENOMEM;
	b->changes = 1;
	RB_INIT(&b->regions);
	pd->bounce = b;
	return 0;
}

void
client_bounce_end(struct client_pd *pd)
{
	free(pd->bounce);
	pd->bounce = NULL;
}

static const size_t area_bytes = (size_t)BOUNCE_SLOTS * BOUNCE_SLOT_BYTES;

/* New memory of the session's memfd, which needs no conversion: the daemon can map it however many threads the program has. */
static struct bounce_area *
area_new(struct ibv_pd *pd, bounce_register_fn reg)
{
	struct bounce_area *area = calloc(1, sizeof(*area));

	if (!area)
		return NULL;
	area->base = mem_file_map(&to_ctx(pd->context)->mem, area_bytes);
	if (!area->base || reg(pd, area->base, area_bytes, &area->handle, &area->lkey)) {
		if (area->base)
			munmap(area->base, area_bytes);
		free(area);
		return NULL;
	}
	while (area->nb_free < BOUNCE_SLOTS) {
		area->free[area->nb_free] = (uint16_t)(BOUNCE_SLOTS - 1 - area->nb_free);
		area->nb_free++;
	}
	return area;
}

static void
make_area(struct client_bounce *b, struct ibv_pd *pd, bounce_register_fn reg)
{
	struct bounce_area *area;
	bool wanted;

	client_lock(&b->lock);
	wanted = !b->tried;
	b->tried = true;
	client_unlock(&b->lock);
	/* Without it nothing is wrong: everything goes by the copiers. */
	area = wanted ? area_new(pd, reg) : NULL;
	if (!area)
		return;
	client_lock(&b->lock);
	b->area = area;
	atomic_fetch_add(&b->changes, 1);
	atomic_store(&b->active, true);
	client_unlock(&b->lock);
}

void
client_bounce_note(struct client_mr *mr, const struct bounce_reach *reach, bounce_register_fn reg)
{
	struct client_bounce *b = bounce_of(mr->mr.pd);

	/* On-demand paging promises an error, not a signal, for memory that isn't there. */
	if (!reach->needed || (mr->access & UROCE_ACCESS_ON_DEMAND) || !to_ctx(mr->mr.context)->bounce)
		return;
	mr->bounce.reach = *reach;
	client_lock(&b->lock);
	mr->bounce.noted = !RB_INSERT(bounce_regions, &b->regions, mr);
	atomic_fetch_add(&b->changes, 1);
	client_unlock(&b->lock);
	make_area(b, mr->mr.pd, reg);
}

/* Copy what is to be sent into the slot; of a receive, what is in its memory. */
static void
gather(const struct pieces *p)
{
	uint8_t *to = p->slot;

	for (uint16_t i = 0; i < p->n; i++) {
		memcpy(to, p->at[i], p->sges[i].length);
		to += p->sges[i].length;
	}
}

/* Copy the first @p bytes that were received. */
static void
scatter(const struct pieces *p, uint32_t bytes)
{
	const uint8_t *from = p->slot;

	for (uint16_t i = 0; i < p->n && bytes > 0; i++) {
		uint32_t n = bytes < p->sges[i].length ? bytes : p->sges[i].length;

		memcpy(p->at[i], from, n);
		from += n;
		bytes -= n;
	}
}

/*
 * The memory of a posted receive isn't registered any more. What has come so far was for that memory, whether its completion was polled or not, so it goes there;
 * if nothing has come, the slot has the same bytes. What comes from now on is refused by the engine, since the WQE names the old key again.
 * Not noticed is a message of several packets of which some come before and some after.
 */
static void
restore(struct bounce_area *area, struct bounce_user *user)
{
	union ring_rq_ctl ctl = { .word = atomic_load_explicit(&user->w->ctl, memory_order_relaxed) };

	memcpy(user->w->sge, user->pieces.sges, user->pieces.n * sizeof(user->pieces.sges[0]));
	ctl.num_sge = user->pieces.n;
	atomic_store_explicit(&user->w->ctl, ctl.word, memory_order_release);
	scatter(&user->pieces, BOUNCE_SLOT_BYTES);
	user->restored = true;
	area->nb_restored++;
}

static bool
uses(const struct bounce_user *user, uint32_t key)
{
	if (!user->qp || !user->w || user->restored)
		return false;
	for (uint16_t i = 0; i < user->pieces.n; i++)
		if (user->pieces.sges[i].lkey == key)
			return true;
	return false;
}

void
client_bounce_forget(struct client_mr *mr)
{
	struct client_bounce *b = bounce_of(mr->mr.pd);

	if (!mr->bounce.noted)
		return;
	client_lock(&b->lock);
	RB_REMOVE(bounce_regions, &b->regions, mr);
	atomic_fetch_add(&b->changes, 1);
	for (uint32_t slot = 0; b->area && slot < BOUNCE_SLOTS; slot++)
		if (uses(&b->area->users[slot], mr->mr.lkey))
			restore(b->area, &b->area->users[slot]);
	client_unlock(&b->lock);
	mr->bounce.noted = false;
}

int
client_bounce_retire(struct client_pd *pd)
{
	struct client_bounce *b = pd->bounce;
	struct bounce_area *area;

	/* Their slots may be in use. The daemon would say the same. */
	if (b->qps)
		return EBUSY;
	client_lock(&b->lock);
	area = b->area;
	b->area = NULL;
	b->tried = false;
	atomic_store(&b->active, false);
	client_unlock(&b->lock);
	if (area) {
		client_destroy_handle(to_ctx(pd->pd.context), CTL_MR_DEREG, area->handle);
		munmap(area->base, area_bytes);
		free(area);
	}
	return 0;
}

/* ---- Slots ---- */
/* Find the memory of an SGE; lock held. @return the MR; NULL: it isn't one that needs slots, or the SGE is wrong, which is for the engine to say. */
static const struct client_mr *
locate(struct client_bounce *b, const struct ring_sge *s, bool write, uint8_t **at)
{
	struct client_mr key = { .mr.lkey = s->lkey };
	const struct client_mr *mr = RB_FIND(bounce_regions, &b->regions, &key);
	uint64_t off;

	if (!mr || (write && !(mr->access & UROCE_ACCESS_LOCAL_WRITE)))
		return NULL;
	off = s->addr - mr->iova;
	if (off > mr->mr.length || s->length > mr->mr.length - off)
		return NULL;
	*at = (uint8_t *)mr->mr.addr + off;
	return mr;
}

static bool
within(const struct ring_sge *s, uint64_t lo, uint64_t hi)
{
	return s->addr >= lo && s->addr <= hi && s->length <= hi - s->addr;
}

/* Lock held. @return whether a WR with these SGEs needs a slot */
static bool
needs_slot(struct client_bounce *b, struct pieces *p, bool write, struct bounce_clean *clean)
{
	bool needs = false;

	for (uint16_t i = 0; i < p->n; i++) {
		const struct ring_sge *s = &p->sges[i];
		const struct client_mr *mr = locate(b, s, write, &p->at[i]);
		uint64_t lo = mr ? mr->bounce.reach.lo : 0, hi = mr ? mr->bounce.reach.hi : UINT64_MAX;
		bool mapped = lo < hi && within(s, lo, hi);

		if (p->n == 1 && mapped)
			*clean = (struct bounce_clean){ lo, hi, s->lkey, atomic_load_explicit(&b->changes, memory_order_relaxed) };
		if (!mr)
			return false;
		needs |= !mapped;
	}
	return needs;
}

/* Lock held. @return a slot, or BOUNCE_SLOTS: none for this purpose */
static uint32_t
take_slot(struct client_bounce *b, struct client_qp *qp, bool for_recv)
{
	struct bounce_area *area = b->area;
	uint32_t slot;

	if (!area || area->nb_free <= (for_recv ? BOUNCE_KEPT_FOR_SENDS : 0))
		return BOUNCE_SLOTS;
	slot = area->free[--area->nb_free];
	area->users[slot] = (struct bounce_user){ .qp = qp };
	return slot;
}

/* Lock held. */
static void
give_slot(struct bounce_area *area, uint32_t slot)
{
	area->nb_restored -= area->users[slot].restored;
	area->users[slot].qp = NULL;
	area->free[area->nb_free++] = (uint16_t)slot;
}

/* Lock held. @return the slot that the only SGE of a WQE of @p qp names, or BOUNCE_SLOTS */
static uint32_t
slot_of(const struct bounce_area *area, const struct client_qp *qp, const struct ring_sge *s)
{
	uint64_t slot = (s->addr - (uintptr_t)area->base) / BOUNCE_SLOT_BYTES;

	if (s->lkey != area->lkey || slot >= BOUNCE_SLOTS || area->users[slot].qp != qp)
		return BOUNCE_SLOTS;
	return (uint32_t)slot;
}

static bool
is_clean(const struct client_bounce *b, const struct bounce_clean *clean, const struct ring_sge *s)
{
	return clean->lkey == s->lkey && clean->changes == atomic_load_explicit(&b->changes, memory_order_relaxed) &&
	       within(s, clean->lo, clean->hi);
}

/*
 * Give a WR a slot if it needs one: its SGEs become one.
 * @param w  Of a receive, its WQE; else NULL.
 * @return false: nothing was changed
 */
static bool
bounce(struct client_qp *qp, struct ring_sge *sges, uint16_t n, struct ring_rq_wqe *w, uint32_t counter, struct pieces *p)
{
	struct bounce_clean *clean = w ? &qp->rq_clean : &qp->sq_clean;
	struct client_bounce *b = qp->bounce;
	uint32_t slot = BOUNCE_SLOTS;
	uint64_t bytes = 0;

	if (n == 0 || n > BOUNCE_MAX_SGE || (n == 1 && is_clean(b, clean, sges)))
		return false;
	for (uint16_t i = 0; i < n; i++) {
		p->sges[i] = sges[i];
		bytes += sges[i].length;
	}
	p->n = n;
	if (bytes == 0 || bytes > BOUNCE_SLOT_BYTES)
		return false;
	client_lock(&b->lock);
	if (needs_slot(b, p, w != NULL, clean))
		slot = take_slot(b, qp, w != NULL);
	if (slot < BOUNCE_SLOTS) {
		p->slot = b->area->base + (size_t)slot * BOUNCE_SLOT_BYTES;
		sges[0] = (struct ring_sge){ (uintptr_t)p->slot, (uint32_t)bytes, b->area->lkey };
		if (w)
			b->area->users[slot] = (struct bounce_user){ .qp = qp, .w = w, .counter = counter, .pieces = *p };
		atomic_fetch_add_explicit(w ? &qp->rq_bounced : &qp->sq_bounced, 1, memory_order_relaxed);
	}
	client_unlock(&b->lock);
	if (slot < BOUNCE_SLOTS)
		gather(p);
	return slot < BOUNCE_SLOTS;
}

/* ---- Posting ---- */
void
client_bounce_send(struct client_qp *qp, struct ring_sq_wqe *w, union ring_sq_ctl *ctl)
{
	struct pieces p;

	if ((1u << ctl->opcode & BOUNCED_OPS) && !(ctl->flags & UNSUITED_FLAGS) &&
	    bounce(qp, wqe_sges(w, ctl->opcode), ctl->count, NULL, 0, &p))
		ctl->count = 1;
}

uint16_t
client_bounce_recv(struct client_qp *qp, uint32_t counter, struct ring_rq_wqe *w, uint16_t n)
{
	struct pieces p;

	return bounce(qp, w->sge, n, w, counter, &p) ? 1 : n;
}

/* ---- Completions ---- */
static void
send_done(struct client_qp *qp, uint32_t from, uint32_t to)
{
	struct client_bounce *b = qp->bounce;

	client_lock(&b->lock);
	for (uint32_t i = from; i != to && qp->sq_bounced > 0; i++) {
		struct ring_sq_wqe *w = ring_slot(&qp->sq, i);
		union ring_sq_ctl ctl = { .word = atomic_load_explicit(&w->ctl, memory_order_relaxed) };
		uint32_t slot;

		if (!(1u << ctl.opcode & BOUNCED_OPS) || (ctl.flags & UNSUITED_FLAGS) || ctl.count != 1)
			continue;
		slot = slot_of(b->area, qp, wqe_sges(w, ctl.opcode));
		if (slot < BOUNCE_SLOTS) {
			give_slot(b->area, slot);
			atomic_fetch_sub_explicit(&qp->sq_bounced, 1, memory_order_relaxed);
		}
	}
	client_unlock(&b->lock);
}

/* Lock held. @return the slot of a receive's WQE, or BOUNCE_SLOTS */
static uint32_t
find_recv(const struct bounce_area *area, const struct client_qp *qp, uint32_t counter)
{
	const struct ring_rq_wqe *w = ring_slot(&qp->rq, counter);
	union ring_rq_ctl ctl = { .word = atomic_load_explicit(&w->ctl, memory_order_relaxed) };
	uint32_t slot = ctl.num_sge == 1 ? slot_of(area, qp, w->sge) : BOUNCE_SLOTS;

	for (uint32_t i = 0; i < BOUNCE_SLOTS && slot == BOUNCE_SLOTS && area->nb_restored > 0; i++)
		if (area->users[i].restored && area->users[i].qp == qp && area->users[i].counter == counter)
			slot = i;
	return slot;
}

static void
recv_done(struct client_qp *qp, const struct ring_cqe *e, uint32_t counter)
{
	struct client_bounce *b = qp->bounce;
	struct bounce_user user = { 0 };
	uint32_t slot;

	client_lock(&b->lock);
	slot = find_recv(b->area, qp, counter);
	if (slot < BOUNCE_SLOTS)
		user = b->area->users[slot];
	client_unlock(&b->lock);
	if (slot == BOUNCE_SLOTS)
		return;
	/* A WRITE with immediate data puts nothing there. Without the lock: the memory may be swapped out, and others should not wait for that. */
	if (!user.restored && e->status == UROCE_WC_SUCCESS && e->opcode == UROCE_WC_RECV)
		scatter(&user.pieces, e->byte_len);
	client_lock(&b->lock);
	give_slot(b->area, slot);
	client_unlock(&b->lock);
	atomic_fetch_sub_explicit(&qp->rq_bounced, 1, memory_order_relaxed);
}

void
client_bounce_done(struct client_qp *qp, const struct ring_cqe *e, bool is_recv, uint32_t from, uint32_t to)
{
	if (is_recv)
		recv_done(qp, e, to - 1);
	else
		send_done(qp, from, to);
}

void
client_bounce_drop(struct client_qp *qp)
{
	struct client_bounce *b = qp->bounce;

	if (!client_bounces(b))
		return;
	client_lock(&b->lock);
	for (uint32_t slot = 0; slot < BOUNCE_SLOTS; slot++)
		if (b->area->users[slot].qp == qp)
			give_slot(b->area, slot);
	atomic_store(&qp->sq_bounced, 0);
	atomic_store(&qp->rq_bounced, 0);
	client_unlock(&b->lock);
}
