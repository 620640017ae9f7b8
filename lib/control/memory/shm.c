/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks are allocated first fit from the free extents of each segment, which are sorted by offset and merged when
 * adjacent. The lists are short, since a session has few segments and few, long-lived blocks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/memfd.h>

#include "base/assert.h"
#include "control/memory/shm_priv.h"
#include "control/memory/sigbus_priv.h"

#define PAGE_BYTES 4096u

struct extent {
	uint64_t offset, bytes;
	struct extent *next;
};

struct segment {
	uint8_t *base; /* NULL: unused */
	uint64_t bytes;
	uint64_t used;
	struct extent *free;
	int fd; /* kept for the daemon that comes after this one */
	int sigbus_id;
	bool huge;
	bool announced;
};

struct shm {
	struct segment *segs;
	uint32_t nb_segs;
	uint64_t bytes, max_bytes, used;
	bool hugepages;
	_Atomic uint32_t *victim;
};

static uint64_t
round_up(uint64_t v, uint64_t to)
{
	return (v + to - 1) / to * to;
}

int
shm_memfd(const char *name, uint64_t bytes, unsigned int flags)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags), rc;

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		return fd;
	rc = errno;
	close(fd);
	errno = rc;
	return -1;
}

struct shm *
shm_create(uint64_t max_bytes, bool hugepages, _Atomic uint32_t *victim)
{
	struct shm *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->max_bytes = max_bytes;
	m->hugepages = hugepages;
	m->victim = victim;
	return m;
}

static void
segment_close(struct shm *m, struct segment *s)
{
	struct extent *e;

	sigbus_remove(s->sigbus_id);
	munmap(s->base, s->bytes);
	if (s->fd >= 0)
		close(s->fd);
	while ((e = s->free) != NULL) {
		s->free = e->next;
		free(e);
	}
	m->bytes -= s->bytes;
	*s = (struct segment){ .fd = -1 };
}

void
shm_destroy(struct shm *m)
{
	if (m == NULL)
		return;
	for (uint32_t i = 0; i < m->nb_segs; i++) {
		if (m->segs[i].base != NULL)
			segment_close(m, &m->segs[i]);
	}
	free(m->segs);
	free(m);
}

/** Create and map the memory of a segment. @return 0 or an errno value. */
static int
segment_map(struct segment *s, uint64_t bytes, bool huge)
{
	int fd = shm_memfd("uroce-rings", bytes, huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0), rc;
	void *base;

	if (fd < 0)
		return errno;
	/* Mapping shared hugepages reserves them, so that later accesses can't fail for lack of one. */
	base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED) {
		rc = errno;
		close(fd);
		return rc;
	}
	s->base = base;
	s->bytes = bytes;
	s->fd = fd;
	s->huge = huge;
	return 0;
}

/** @return a slot for a segment; NULL: too many segments, or no memory. */
static struct segment *
segment_slot(struct shm *m)
{
	struct segment *segs;

	for (uint32_t i = 0; i < m->nb_segs; i++) {
		if (m->segs[i].base == NULL)
			return &m->segs[i];
	}
	if (m->nb_segs == SHM_MAX_SEGMENTS)
		return NULL;
	segs = realloc(m->segs, (m->nb_segs + 1) * sizeof(*segs));
	if (segs == NULL)
		return NULL;
	m->segs = segs;
	segs[m->nb_segs] = (struct segment){ .fd = -1 };
	return &segs[m->nb_segs++];
}

static struct segment *
segment_open(struct shm *m, uint64_t need)
{
	uint64_t bytes = round_up(need, SHM_SEGMENT_BYTES);
	struct segment *s;

	if (bytes > m->max_bytes - m->bytes || (s = segment_slot(m)) == NULL)
		return NULL;
	s->free = malloc(sizeof(*s->free));
	if (s->free == NULL)
		return NULL;
	*s->free = (struct extent){ .bytes = bytes };
	if ((!m->hugepages || bytes > SHM_SEGMENT_BYTES || segment_map(s, bytes, true) != 0) &&
	    segment_map(s, bytes, false) != 0)
		goto fail;
	s->sigbus_id = sigbus_add(s->base, s->bytes, m->victim);
	if (s->sigbus_id < 0) {
		munmap(s->base, s->bytes);
		close(s->fd);
		goto fail;
	}
	m->bytes += bytes;
	return s;
fail:
	free(s->free);
	*s = (struct segment){ .fd = -1 };
	return NULL;
}

/** Take @p bytes from a free extent. @return the offset; UINT64_MAX: none is large enough. */
static uint64_t
segment_take(struct segment *s, uint64_t bytes)
{
	struct extent **p, *e;
	uint64_t offset;

	for (p = &s->free; (e = *p) != NULL; p = &e->next) {
		if (e->bytes < bytes)
			continue;
		offset = e->offset;
		e->offset += bytes;
		e->bytes -= bytes;
		if (e->bytes == 0) {
			*p = e->next;
			free(e);
		}
		s->used += bytes;
		return offset;
	}
	return UINT64_MAX;
}

int
shm_alloc(struct shm *m, uint64_t bytes, struct shm_block *b)
{
	struct segment *s = NULL;
	uint64_t offset = UINT64_MAX;

	if (bytes == 0 || bytes > m->max_bytes)
		return ENOMEM;
	/* Large blocks are whole pages, because their pages are returned when they are freed. */
	bytes = round_up(bytes, bytes >= SHM_PUNCH_BYTES ? PAGE_BYTES : SHM_ALIGN);
	for (uint32_t i = 0; i < m->nb_segs && offset == UINT64_MAX; i++) {
		s = &m->segs[i];
		if (s->base != NULL && s->bytes - s->used >= bytes)
			offset = segment_take(s, bytes);
	}
	if (offset == UINT64_MAX) {
		s = segment_open(m, bytes);
		if (s == NULL)
			return ENOMEM;
		offset = segment_take(s, bytes);
	}
	m->used += bytes;
	*b = (struct shm_block){
		.segment = (uint32_t)(s - m->segs),
		.offset = offset,
		.bytes = bytes,
		.addr = s->base + offset,
	};
	if (bytes <= SHM_POPULATE_BYTES)
		memset(b->addr, 0, bytes);
	return 0;
}

/** Zero a block, returning its memory where possible. */
static void
wipe(const struct segment *s, uint8_t *addr, uint64_t bytes)
{
	uint8_t *first = (uint8_t *)round_up((uintptr_t)addr, PAGE_BYTES);
	uint8_t *end = (uint8_t *)((uintptr_t)(addr + bytes) / PAGE_BYTES * PAGE_BYTES);

	if (s->huge || bytes < SHM_PUNCH_BYTES || madvise(first, (size_t)(end - first), MADV_REMOVE) != 0) {
		memset(addr, 0, bytes);
		return;
	}
	memset(addr, 0, (size_t)(first - addr));
	memset(end, 0, (size_t)(addr + bytes - end));
}

void
shm_free(struct shm *m, const struct shm_block *b)
{
	struct segment *s = &m->segs[b->segment];
	struct extent **p = &s->free, *prev = NULL, *e, *next;

	UROCE_ASSERT(b->segment < m->nb_segs && s->base + b->offset == b->addr && s->used >= b->bytes);
	s->used -= b->bytes;
	m->used -= b->bytes;
	if (s->used == 0 && !s->announced) {
		segment_close(m, s);
		return;
	}
	wipe(s, b->addr, b->bytes);
	while ((next = *p) != NULL && next->offset < b->offset) {
		prev = next;
		p = &next->next;
	}
	if (prev != NULL && prev->offset + prev->bytes == b->offset) {
		prev->bytes += b->bytes;
		e = prev;
	} else {
		e = malloc(sizeof(*e));
		if (e == NULL)
			return; /* the space is lost until the session ends; memory has run out anyway */
		*e = (struct extent){ .offset = b->offset, .bytes = b->bytes, .next = next };
		*p = e;
	}
	if (next != NULL && e->offset + e->bytes == next->offset) {
		e->bytes += next->bytes;
		e->next = next->next;
		free(next);
	}
}

int
shm_announce(struct shm *m, const struct shm_block *b, uint64_t *bytes)
{
	struct segment *s = &m->segs[b->segment];

	if (s->announced)
		return -1;
	s->announced = true;
	*bytes = s->bytes;
	return s->fd;
}

int
shm_announce_again(const struct shm *m, const struct shm_block *b, uint64_t *bytes)
{
	*bytes = m->segs[b->segment].bytes;
	return m->segs[b->segment].fd;
}

uint32_t
shm_segments(const struct shm *m)
{
	uint32_t n = 0;

	for (uint32_t i = 0; m != NULL && i < m->nb_segs; i++)
		n += m->segs[i].announced;
	return n;
}

/* ---- A daemon goes, another one comes ---- */
bool
shm_segment_look(const struct shm *m, uint32_t *i, struct shm_segment *out)
{
	while (*i < m->nb_segs && !m->segs[*i].announced)
		++*i;
	if (*i == m->nb_segs)
		return false;
	*out = (struct shm_segment){ .number = *i, .huge = m->segs[*i].huge, .bytes = m->segs[*i].bytes, .fd = m->segs[*i].fd };
	++*i;
	return true;
}

/** @return the slot of segment @p number, made if necessary; NULL: no memory, or it is in use. */
static struct segment *
segment_slot_as(struct shm *m, uint32_t number)
{
	struct segment *segs;

	if (number >= SHM_MAX_SEGMENTS)
		return NULL;
	if (number >= m->nb_segs) {
		segs = realloc(m->segs, (number + 1) * sizeof(*segs));
		if (segs == NULL)
			return NULL;
		m->segs = segs;
		while (m->nb_segs <= number)
			segs[m->nb_segs++] = (struct segment){ .fd = -1 };
	}
	return m->segs[number].base == NULL ? &m->segs[number] : NULL;
}

int
shm_segment_take(struct shm *m, const struct shm_segment *from)
{
	struct segment *s = segment_slot_as(m, from->number);
	struct stat st;
	void *base;

	if (s == NULL)
		return ENOMEM;
	if (from->bytes == 0 || from->bytes % SHM_SEGMENT_BYTES != 0 || fstat(from->fd, &st) != 0 || (uint64_t)st.st_size != from->bytes ||
	    (fcntl(from->fd, F_GET_SEALS) & F_SEAL_SHRINK) == 0)
		return EINVAL;
	base = mmap(NULL, from->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, from->fd, 0);
	if (base == MAP_FAILED)
		return errno;
	s->free = malloc(sizeof(*s->free));
	s->sigbus_id = s->free != NULL ? sigbus_add(base, from->bytes, m->victim) : -1;
	if (s->sigbus_id < 0) {
		free(s->free);
		munmap(base, from->bytes);
		*s = (struct segment){ .fd = -1 };
		return ENOMEM;
	}
	*s->free = (struct extent){ .bytes = from->bytes };
	s->base = base;
	s->bytes = from->bytes;
	s->fd = from->fd;
	s->huge = from->huge;
	s->announced = true;
	m->bytes += from->bytes;
	return 0;
}

/** Split the free extent at *@p p in front of @p offset. @return false: no memory. */
static bool
split(struct extent **p, uint64_t offset)
{
	struct extent *e = *p, *rest;

	if (e->offset == offset)
		return true;
	rest = malloc(sizeof(*rest));
	if (rest == NULL)
		return false;
	*rest = (struct extent){ .offset = offset, .bytes = e->offset + e->bytes - offset, .next = e->next };
	e->bytes = offset - e->offset;
	e->next = rest;
	return true;
}

int
shm_take(struct shm *m, uint32_t segment, uint64_t offset, uint64_t bytes, struct shm_block *b)
{
	struct segment *s = segment < m->nb_segs ? &m->segs[segment] : NULL;
	struct extent **p, *e;

	if (s == NULL || s->base == NULL || bytes == 0 || bytes % SHM_ALIGN != 0 || offset % SHM_ALIGN != 0 || bytes > s->bytes ||
	    offset > s->bytes - bytes)
		return EINVAL;
	p = &s->free;
	while ((e = *p) != NULL && e->offset + e->bytes <= offset)
		p = &e->next;
	/* Blocks don't overlap. */
	if (e == NULL || e->offset > offset || e->offset + e->bytes < offset + bytes)
		return EINVAL;
	if (!split(p, offset))
		return ENOMEM;
	if ((*p)->offset != offset)
		p = &(*p)->next;
	e = *p;
	e->offset += bytes;
	e->bytes -= bytes;
	if (e->bytes == 0) {
		*p = e->next;
		free(e);
	}
	s->used += bytes;
	m->used += bytes;
	*b = (struct shm_block){ .segment = segment, .offset = offset, .bytes = bytes, .addr = s->base + offset };
	return 0;
}

uint64_t
shm_used(const struct shm *m)
{
	return m->used;
}
