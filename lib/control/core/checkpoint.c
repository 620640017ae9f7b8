/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_common.h>

#include "base/assert.h"
#include "base/crc32c.h"
#include "control/core/checkpoint_priv.h"

enum { LEAST_SHIFT = 8, MOST_SHIFT = 29, CLASSES = MOST_SHIFT + 1 };
static_assert(CHECKPOINT_RECORDS_BYTES + sizeof(struct checkpoint_slot) <= UINT64_C(1) << MOST_SHIFT, "the largest slot has room for the most");

struct chunk {
	uint8_t *addr;
	uint64_t bytes;
};

/** A list that grows. */
struct list {
	void **items;
	uint32_t n, room;
};

struct checkpoint {
	struct checkpoint_host host;
	int fd;
	struct checkpoint_page *page;
	uint64_t bytes; /**< of the memfd */
	struct chunk *chunks;
	uint32_t nb_chunks, room_chunks;
	struct list free[CLASSES]; /**< slots, by the binary logarithm of their size */
	uint64_t next[CLASSES];    /**< bytes of the next chunk of such slots; 0: it is the first one */
	uint64_t transaction;      /**< the one that is being written */
	bool changed;              /**< there is something in it */
	struct list ended;         /**< slots that are free when it counts */
	struct list forgotten;     /**< numbers of descriptors, the same */
	/* The object that is being written. */
	struct checkpoint_entry *entry;
	int rc;                    /**< what went wrong with its descriptors */
};

uint32_t
checkpoint_head_crc(const struct checkpoint_slot *s)
{
	struct checkpoint_slot h = *s;

	h.ended = 0;
	h.magic = h.head_crc = 0;
	return crc32c(UINT32_MAX, &h, sizeof(h));
}

static bool
push(struct list *l, void *item)
{
	if (l->n == l->room) {
		uint32_t room = l->room == 0 ? 64 : l->room * 2;
		void **items = reallocarray(l->items, room, sizeof(*items));

		if (items == NULL)
			return false;
		l->items = items;
		l->room = room;
	}
	l->items[l->n++] = item;
	return true;
}

struct checkpoint *
checkpoint_create(const struct checkpoint_host *host)
{
	struct checkpoint *c = calloc(1, sizeof(*c));
	int rc;

	if (c == NULL)
		return NULL;
	c->host = *host;
	c->transaction = 1;
	c->bytes = CHECKPOINT_PAGE_BYTES;
	c->fd = memfd_create("uroce-checkpoint", MFD_CLOEXEC);
	if (c->fd < 0 || ftruncate(c->fd, (off_t)c->bytes) != 0)
		goto fail;
	c->page = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (c->page == MAP_FAILED)
		goto fail;
	*c->page = (struct checkpoint_page){ .magic = CHECKPOINT_MAGIC, .version = CHECKPOINT_VERSION };
	errno = host->begin(host->arg, c->fd);
	if (errno == 0)
		return c;
	munmap(c->page, CHECKPOINT_PAGE_BYTES);
fail:
	rc = errno;
	if (c->fd >= 0)
		close(c->fd);
	free(c);
	errno = rc;
	return NULL;
}

void
checkpoint_destroy(struct checkpoint *c)
{
	if (c == NULL)
		return;
	for (uint32_t i = 0; i < c->nb_chunks; i++)
		munmap(c->chunks[i].addr, c->chunks[i].bytes);
	munmap(c->page, CHECKPOINT_PAGE_BYTES);
	close(c->fd);
	for (unsigned int i = 0; i < CLASSES; i++)
		free(c->free[i].items);
	free(c->ended.items);
	free(c->forgotten.items);
	free(c->chunks);
	free(c);
}

int
checkpoint_fd(const struct checkpoint *c)
{
	return c->fd;
}

uint64_t
checkpoint_bytes(const struct checkpoint *c)
{
	return c->bytes;
}

/** @return the binary logarithm of the size of a slot for @p bytes of records. */
static unsigned int
class_of(uint64_t bytes)
{
	unsigned int shift = LEAST_SHIFT;

	while (UINT64_C(1) << shift < bytes + sizeof(struct checkpoint_slot))
		shift++;
	return shift;
}

/** Add a chunk of slots. The first ones are small: programs wait for them when a daemon begins. @return 0, ENOSPC or ENOMEM. */
static int
grow(struct checkpoint *c, unsigned int shift)
{
	uint64_t slot = UINT64_C(1) << shift, chunk = RTE_MAX(c->next[shift], (uint64_t)CHECKPOINT_FIRST_BYTES), n = slot >= chunk ? 1 : chunk / slot;
	uint64_t bytes = CHECKPOINT_PAGE_BYTES + slot * n;
	struct checkpoint_chunk *head;
	struct chunk *chunks;
	uint8_t *p;

	if (bytes > CHECKPOINT_BYTES - c->bytes)
		return ENOSPC;
	if (c->nb_chunks == c->room_chunks) {
		uint32_t room = c->room_chunks == 0 ? 64 : c->room_chunks * 2;

		chunks = reallocarray(c->chunks, room, sizeof(*chunks));
		if (chunks == NULL)
			return ENOMEM;
		c->chunks = chunks;
		c->room_chunks = room;
	}
	/* Reserved: without memory a store would be a SIGBUS. */
	if (fallocate(c->fd, 0, (off_t)c->bytes, (off_t)bytes) != 0)
		return errno == ENOSPC ? ENOSPC : ENOMEM;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, (off_t)c->bytes);
	if (p == MAP_FAILED)
		return ENOMEM;
	head = (void *)p;
	*head = (struct checkpoint_chunk){ .magic = CHECKPOINT_MAGIC, .shift = shift, .slots = n };
	c->chunks[c->nb_chunks++] = (struct chunk){ p, bytes };
	c->bytes += bytes;
	c->next[shift] = RTE_MIN(chunk * 2, (uint64_t)CHECKPOINT_CHUNK_BYTES);
	while (n-- > 0)
		if (!push(&c->free[shift], p + CHECKPOINT_PAGE_BYTES + n * slot))
			return ENOMEM;
	return 0;
}

static void
free_slot(struct checkpoint *c, struct checkpoint_slot *s)
{
	unsigned int shift = class_of(s->bytes);

	s->magic = 0;
	/* Without memory for the list the slot is lost, until the next daemon begins anew. */
	(void)push(&c->free[shift], s);
}

/** The records in @p s are replaced, or their object is gone. */
static void
end_slot(struct checkpoint *c, struct checkpoint_slot *s)
{
	if (s == NULL)
		return;
	s->ended = c->transaction;
	(void)push(&c->ended, s);
}

static void
forget(struct checkpoint *c, uint32_t number)
{
	(void)push(&c->forgotten, (void *)(uintptr_t)number);
}

/* ---- Descriptors ---- */
/** [stream_out.number] */
static uint32_t
number_of(void *arg, int fd)
{
	struct checkpoint *c = arg;
	struct checkpoint_entry *e = c->entry;
	struct checkpoint_fd *f, add = { .fd = fd, .used = true };
	struct stat st;

	if (c->rc != 0)
		return STREAM_NO_FD;
	if (fstat(fd, &st) != 0) {
		c->rc = errno;
		return STREAM_NO_FD;
	}
	add.dev = st.st_dev;
	add.ino = st.st_ino;
	for (uint32_t i = 0; i < e->nb_fds; i++) {
		f = &e->fds[i];
		if (f->fd == fd && f->dev == add.dev && f->ino == add.ino) {
			f->used = true;
			return f->number;
		}
	}
	f = e->nb_fds < CHECKPOINT_OBJECT_FDS ? reallocarray(e->fds, e->nb_fds + 1, sizeof(*f)) : NULL;
	if (f == NULL) {
		c->rc = e->nb_fds < CHECKPOINT_OBJECT_FDS ? ENOMEM : ENOSPC;
		return STREAM_NO_FD;
	}
	e->fds = f;
	c->rc = c->host.keep(c->host.arg, fd, &add.number);
	if (c->rc != 0)
		return STREAM_NO_FD;
	e->fds[e->nb_fds++] = add;
	return add.number;
}

/** Forget descriptors that the object doesn't name any more. */
static void
forget_unused(struct checkpoint *c, struct checkpoint_entry *e)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < e->nb_fds; i++) {
		if (e->fds[i].used)
			e->fds[n++] = e->fds[i];
		else
			forget(c, e->fds[i].number);
	}
	e->nb_fds = n;
}

/* ---- A transaction ---- */
void
checkpoint_begin(struct checkpoint *c, struct checkpoint_entry *e, struct stream_out *o)
{
	c->entry = e;
	c->rc = 0;
	for (uint32_t i = 0; i < e->nb_fds; i++)
		e->fds[i].used = false;
	o->n = 0;
	o->nb_fds = 0;
	o->number = number_of;
	o->number_arg = c;
}

static int
take_slot(struct checkpoint *c, uint64_t bytes, struct checkpoint_slot **out)
{
	unsigned int shift = class_of(bytes);
	struct list *l = &c->free[shift];
	int rc = l->n == 0 ? grow(c, shift) : 0;

	if (l->n == 0)
		return rc;
	*out = l->items[--l->n];
	return 0;
}

int
checkpoint_write(struct checkpoint *c, struct checkpoint_entry *e, const struct checkpoint_key *key, struct stream_out *o)
{
	struct checkpoint_slot *s = NULL;
	int rc = c->rc != 0 ? c->rc : o->failed ? ENOMEM : o->n > CHECKPOINT_RECORDS_BYTES ? ENOSPC : take_slot(c, o->n, &s);

	UROCE_ASSERT(c->entry == e);
	if (rc != 0) {
		checkpoint_drop(c, e);
		return rc;
	}
	/* First, so that what is left of the records that were here doesn't count while it is written over. */
	s->transaction = c->transaction;
	atomic_signal_fence(memory_order_seq_cst);
	memcpy(s + 1, o->bytes, o->n);
	*s = (struct checkpoint_slot){
		.kind = key->kind,
		.transaction = c->transaction,
		.session = key->session,
		.order = key->order,
		.bytes = o->n,
		.crc = crc32c(UINT32_MAX, o->bytes, o->n),
	};
	s->head_crc = checkpoint_head_crc(s);
	atomic_signal_fence(memory_order_seq_cst);
	s->magic = CHECKPOINT_MAGIC;
	c->changed = true;
	end_slot(c, e->slot);
	e->slot = s;
	forget_unused(c, e);
	return 0;
}

void
checkpoint_drop(struct checkpoint *c, struct checkpoint_entry *e)
{
	c->changed |= e->slot != NULL || e->nb_fds > 0;
	end_slot(c, e->slot);
	for (uint32_t i = 0; i < e->nb_fds; i++)
		forget(c, e->fds[i].number);
	free(e->fds);
	*e = (struct checkpoint_entry){ 0 };
}

bool
checkpoint_commit(struct checkpoint *c)
{
	bool changed = c->changed;

	c->changed = false;
	if (!changed)
		return false;
	atomic_store_explicit(&c->page->counts, c->transaction, memory_order_release);
	c->transaction++;
	atomic_signal_fence(memory_order_seq_cst);
	while (c->forgotten.n > 0)
		c->host.forget(c->host.arg, (uint32_t)(uintptr_t)c->forgotten.items[--c->forgotten.n]);
	while (c->ended.n > 0)
		free_slot(c, c->ended.items[--c->ended.n]);
	return true;
}
