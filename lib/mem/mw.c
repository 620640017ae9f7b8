/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows: allocation, binding, invalidation, access checks.
 */
#include <stdlib.h>

#include <rte_pause.h>

#include "base/mark.h"
#include "mem/mr_priv.h"
#include "mem/mw.h"

/** The state that a bind sets and an invalidation clears. */
struct mw_binding {
	uint32_t key;
	uint32_t access;
	uint32_t qpn;    /**< type 2: the QP that bound it */
	struct mr *mr;   /**< NULL: not bound (type 2: free) */
	uint64_t addr, length;
};

/** A window in memory that outlives the process (mw_keep()). */
struct mw_note {
	_Atomic uint64_t counts; /**< which copy does, plus one; 0: there is no window */
	struct mw_state copy[2];
};

struct mw {
	struct mr entry; /**< the table's entry: MR_KEY_NONE and the PD */
	uint32_t index;
	enum mw_type type;
	struct mw_note *note; /**< or NULL; whoever changes the binding writes it */
	_Atomic uint32_t seq; /**< odd: the binding is being changed */
	/** The binding. Each member is loaded and stored separately; seq says whether they are consistent. */
	_Atomic uint32_t key, access, qpn;
	_Atomic(struct mr *) mr;
	_Atomic uint64_t addr, length;
};

/* ---- Reading and changing the binding ---- */
/** Read the binding. @return the sequence counter; even: @p b is consistent; odd: the binding is being changed. */
static uint32_t
mw_look(const struct mw *mw, struct mw_binding *b)
{
	uint32_t seq = atomic_load_explicit(&mw->seq, memory_order_acquire);

	b->key = atomic_load_explicit(&mw->key, memory_order_relaxed);
	b->access = atomic_load_explicit(&mw->access, memory_order_relaxed);
	b->qpn = atomic_load_explicit(&mw->qpn, memory_order_relaxed);
	b->mr = atomic_load_explicit(&mw->mr, memory_order_relaxed);
	b->addr = atomic_load_explicit(&mw->addr, memory_order_relaxed);
	b->length = atomic_load_explicit(&mw->length, memory_order_relaxed);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&mw->seq, memory_order_relaxed) == seq ? seq : seq | 1;
}

/** As mw_look(), but waits for the end of another engine's change. */
static uint32_t
mw_look_wait(const struct mw *mw, struct mw_binding *b)
{
	uint32_t seq;

	while ((seq = mw_look(mw, b)) & 1)
		rte_pause();
	return seq;
}

static struct mw_state
state_of(const struct mw *mw, const struct mw_binding *b)
{
	struct mw_state s = { .type = mw->type, .pd = mw->entry.pd, .key = b->key };

	if (b->mr == NULL)
		return s;
	s.mr_key = b->mr->key;
	s.access = b->access;
	s.qpn = b->qpn;
	s.addr = b->addr;
	s.length = b->length;
	return s;
}

/** Write the binding down. The process may be killed between any two stores. */
static void
note(const struct mw *mw, const struct mw_binding *b)
{
	uint64_t to;

	if (mw->note == NULL)
		return;
	to = atomic_load_explicit(&mw->note->counts, memory_order_relaxed) == 1 ? 1 : 0;
	mw->note->copy[to] = state_of(mw, b);
	atomic_store_explicit(&mw->note->counts, to + 1, memory_order_release);
}

/** Change the binding that mw_look_wait() read. @return false: another engine has changed it; read it again. */
static bool
mw_change(struct mw *mw, uint32_t seq, const struct mw_binding *b)
{
	if (!atomic_compare_exchange_strong_explicit(&mw->seq, &seq, seq + 1, memory_order_acquire, memory_order_relaxed))
		return false;
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&mw->key, b->key, memory_order_relaxed);
	atomic_store_explicit(&mw->access, b->access, memory_order_relaxed);
	atomic_store_explicit(&mw->qpn, b->qpn, memory_order_relaxed);
	atomic_store_explicit(&mw->mr, b->mr, memory_order_relaxed);
	atomic_store_explicit(&mw->addr, b->addr, memory_order_relaxed);
	atomic_store_explicit(&mw->length, b->length, memory_order_relaxed);
	note(mw, b);
	atomic_store_explicit(&mw->seq, seq + 2, memory_order_release);
	return true;
}

/** @return the window that has the index of @p key, or NULL. */
static struct mw *
mw_get(const struct mr_table *t, uint32_t key)
{
	struct mr *entry = gen_table_get(&t->keys, key >> 8);

	return entry != NULL && entry->key == MR_KEY_NONE ? (struct mw *)entry : NULL;
}

/** Count one more window on @p mr. @return false: the MR is being deregistered. */
static bool
mr_hold(struct mr *mr)
{
	uint32_t n = atomic_load_explicit(&mr->nb_windows, memory_order_relaxed);

	do {
		if (n == MR_RETIRED) {
			MARK_UNIT("a window is bound to an MR that is being deregistered", "unit/mem/mw");
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(&mr->nb_windows, &n, n + 1, memory_order_acquire,
							memory_order_relaxed));
	return true;
}

static void
mr_let_go(struct mr *mr)
{
	if (mr != NULL)
		atomic_fetch_sub_explicit(&mr->nb_windows, 1, memory_order_release);
}

/* ---- Allocation ---- */
/** @return a window that isn't published, or NULL. */
static struct mw *
mw_new(uint32_t pd, enum mw_type type)
{
	struct mw *mw = calloc(1, sizeof(*mw));

	if (mw == NULL)
		return NULL;
	mw->entry.key = MR_KEY_NONE;
	mw->entry.pd = pd;
	mw->type = type;
	return mw;
}

static void
mw_publish(struct mr_table *t, struct mw *mw, uint32_t key)
{
	atomic_init(&mw->key, key);
	mw->index = key >> 8;
	mw->note = t->notes != NULL ? &t->notes[mw->index] : NULL;
	note(mw, &(struct mw_binding){ .key = key });
	gen_table_publish(&t->keys, mw->index, &mw->entry);
}

int
mw_create(struct mr_table *t, uint32_t pd, enum mw_type type, struct mw **out)
{
	struct mw *mw;

	if (type != MW_TYPE_1 && type != MW_TYPE_2)
		return EINVAL;
	if (gen_table_full(&t->keys))
		return ENOMEM;
	mw = mw_new(pd, type);
	if (mw == NULL)
		return ENOMEM;
	mw_publish(t, mw, mr_key_take(t));
	*out = mw;
	return 0;
}

void
mw_destroy_bulk(struct mr_table *t, struct mw **mws, uint32_t n)
{
	uint32_t i;

	if (n == 0)
		return;
	for (i = 0; i < n; i++)
		gen_table_publish(&t->keys, mws[i]->index, NULL);
	rcu_wait(t->qsbr);
	for (i = 0; i < n; i++) {
		struct mw *mw = mws[i];

		mr_let_go(mw->mr);
		if (mw->note != NULL)
			atomic_store_explicit(&mw->note->counts, 0, memory_order_release);
		/*
		 * The next owner of the index starts with a low byte that differs from the last one the program chose.
		 */
		t->keys.generation[mw->index] = mw_key(mw) + 1;
		gen_table_give(&t->keys, mw->index);
		free(mw);
	}
}

void
mw_save(const struct mw *mw, struct mw_state *to)
{
	struct mw_binding b;

	mw_look_wait(mw, &b);
	*to = state_of(mw, &b);
}

size_t
mw_notes_bytes(const struct mr_table *t)
{
	return t->keys.size * sizeof(struct mw_note);
}

void
mw_keep(struct mr_table *t, void *notes)
{
	t->notes = notes;
}

bool
mw_noted(const void *notes, size_t bytes, uint32_t key, struct mw_state *to)
{
	const struct mw_note *n = (const struct mw_note *)notes + (key >> 8);
	uint64_t counts;

	if (key >> 8 >= bytes / sizeof(*n))
		return false;
	counts = atomic_load_explicit(&n->counts, memory_order_acquire);
	if (counts != 1 && counts != 2)
		return false;
	*to = n->copy[counts - 1];
	return to->key >> 8 == key >> 8;
}

/** Bind a window as it was. @return false: it can't have been. */
static bool
bind_again(const struct mr_table *t, struct mw *mw, const struct mw_state *from)
{
	const struct mw_bind b = { .key = from->key, .lkey = from->mr_key, .addr = from->addr, .length = from->length, .access = from->access };

	return from->mr_key == 0 || (from->length != 0 && mw_bind(t, &b, from->pd, from->qpn));
}

int
mw_restore(struct mr_table *t, const struct mw_state *from, struct mw **out)
{
	struct mw *mw;

	if (from->type != MW_TYPE_1 && from->type != MW_TYPE_2)
		return EINVAL;
	mw = mw_new(from->pd, (enum mw_type)from->type);
	if (mw == NULL)
		return ENOMEM;
	if (!mr_key_take_as(t, from->key)) {
		free(mw);
		return EEXIST;
	}
	mw_publish(t, mw, from->key);
	if (!bind_again(t, mw, from)) {
		mw_destroy_bulk(t, &mw, 1);
		return EINVAL;
	}
	*out = mw;
	return 0;
}

uint32_t
mw_key(const struct mw *mw)
{
	return atomic_load_explicit(&mw->key, memory_order_relaxed);
}

/* ---- Binding ---- */
/** Check the parts of a bind that don't concern the MR. */
static bool
window_allows(const struct mw *mw, const struct mw_binding *now, const struct mw_bind *b)
{
	if (b->access & ~(uint32_t)MW_ACCESS_KNOWN)
		return false;
	if (mw->type == MW_TYPE_1)
		/*
		 * o10-36.2.2: a type 1 window isn't zero based. It may be bound or unbound whether it is bound or not.
		 */
		return (b->access & UROCE_ACCESS_ZERO_BASED) == 0;
	/* o10-37.2.30: a type 2 window can only be bound while it is free; o10-37.2.40: and not with length 0. */
	return now->mr == NULL && b->length != 0;
}

/** @return the MR for a bind that isn't an unbind, or NULL: refused. */
static struct mr *
mr_to_open(const struct mr_table *t, const struct mw_bind *b, uint32_t pd)
{
	const uint32_t writes = UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_ATOMIC;
	struct mr *mr = mr_get(t, b->lkey);
	uint64_t off;

	if (mr == NULL || mr->pd != pd)
		return NULL;
	/* C10-73: the MR must permit windows. */
	if ((mr->access & UROCE_ACCESS_MW_BIND) == 0)
		return NULL;
	/* C10-74: memory that peers may write must be writable for the program itself. */
	if ((b->access & writes) != 0 && (mr->access & UROCE_ACCESS_LOCAL_WRITE) == 0)
		return NULL;
	/* C10-75: the window must lie inside the MR. */
	off = b->addr - mr->iova;
	if (off > mr->length || b->length > mr->length - off)
		return NULL;
	return mr;
}

bool
mw_bind(const struct mr_table *t, const struct mw_bind *b, uint32_t pd, uint32_t qpn)
{
	struct mw *mw = mw_get(t, b->key);
	struct mw_binding now, next = { .key = b->key };
	uint32_t seq;

	/* C10-72: QP, window and MR must be of the same PD. */
	if (mw == NULL || mw->entry.pd != pd)
		return false;
	if (b->length != 0) {
		next.mr = mr_to_open(t, b, pd);
		if (next.mr == NULL || !mr_hold(next.mr))
			return false;
		next.access = b->access;
		next.qpn = qpn;
		next.addr = b->addr;
		next.length = b->length;
	}
	do {
		seq = mw_look_wait(mw, &now);
		if (!window_allows(mw, &now, b)) {
			mr_let_go(next.mr);
			return false;
		}
	} while (!mw_change(mw, seq, &next));
	mr_let_go(now.mr);
	return true;
}

/** @return true if @p key currently gives access through the window, for QP @p qpn of @p pd. */
static bool
opens(const struct mw *mw, const struct mw_binding *b, uint32_t key, uint32_t pd, uint32_t qpn)
{
	/* The 8 bits that the program chose must match too. */
	if (b->mr == NULL || b->key != key || mw->entry.pd != pd)
		return false;
	/* A 2B window can only be used through its QP. */
	return mw->type == MW_TYPE_1 || b->qpn == qpn;
}

bool
mw_invalidate(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn)
{
	struct mw *mw = mw_get(t, key);
	struct mw_binding now, next = { .key = key };
	uint32_t seq;

	/* o10-37.2.26: a type 1 window is unbound by a bind, never invalidated. */
	if (mw == NULL || mw->type == MW_TYPE_1)
		return false;
	do {
		seq = mw_look_wait(mw, &now);
		if (!opens(mw, &now, key, pd, qpn))
			return false;
	} while (!mw_change(mw, seq, &next));
	mr_let_go(now.mr);
	return true;
}

struct mr *
mw_check(const struct mr_table *t, uint32_t key, uint32_t pd, uint32_t qpn, uint32_t access, uint64_t *va, uint64_t len)
{
	const struct mw *mw = mw_get(t, key);
	struct mw_binding b;
	uint64_t off;

	if (mw == NULL || (mw_look(mw, &b) & 1) != 0 || !opens(mw, &b, key, pd, qpn))
		return NULL;
	if ((b.access & access) != access)
		return NULL;
	off = b.access & UROCE_ACCESS_ZERO_BASED ? *va : *va - b.addr;
	if (off > b.length || len > b.length - off)
		return NULL;
	*va = b.addr + off;
	return b.mr;
}
