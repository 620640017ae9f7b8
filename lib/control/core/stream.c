/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/stream.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGN = 8, FIRST_ROOM = 64 << 10 };

/** Records whose fixed part is longer since a version. */
static const struct {
	enum record_kind kind;
	uint16_t since;  /**< the first version in which it is */
	uint16_t before; /**< its size before that */
} growths[] = {
	{ RECORD_OBJ_SRQ, 2, 72 },
	{ RECORD_OBJ_CQ, 3, 128 },
};

struct stream_grown {
	struct stream_grown *next;
	uint64_t record[]; /**< aligned as records are */
};

static size_t
aligned(size_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

void *
stream_reserve(struct stream_out *o, size_t bytes)
{
	size_t need = aligned(bytes), room = o->room != 0 ? o->room : FIRST_ROOM;
	uint8_t *p;

	if (o->failed || need > INT_MAX)
		goto fail;
	while (room - o->n < need)
		room *= 2;
	if (room != o->room) {
		p = realloc(o->bytes, room);
		if (p == NULL)
			goto fail;
		o->bytes = p;
		o->room = room;
	}
	p = memset(o->bytes + o->n, 0, need);
	o->n += need;
	return p;
fail:
	o->failed = true;
	return NULL;
}

void
stream_put(struct stream_out *o, enum record_kind kind, const void *r, size_t bytes, const void *tail, size_t tail_bytes)
{
	uint8_t *p = stream_reserve(o, bytes + tail_bytes);

	if (p == NULL)
		return;
	memcpy(p, r, bytes);
	if (tail_bytes > 0)
		memcpy(p + bytes, tail, tail_bytes);
	record_seal(p, kind, STREAM_VERSION, (uint32_t)aligned(bytes + tail_bytes));
}

uint32_t
stream_put_fd(struct stream_out *o, int fd)
{
	uint32_t room = o->room_fds;
	int *fds;

	if (fd < 0 || o->failed)
		return STREAM_NO_FD;
	if (o->number != NULL)
		return o->number(o->number_arg, fd);
	if (o->nb_fds == room) {
		room = room == 0 ? 64 : room * 2;
		fds = reallocarray(o->fds, room, sizeof(*fds));
		if (fds == NULL) {
			o->failed = true;
			return STREAM_NO_FD;
		}
		o->fds = fds;
		o->room_fds = room;
	}
	o->fds[o->nb_fds] = fd;
	return o->nb_fds++;
}

void
stream_free(struct stream_out *o)
{
	free(o->bytes);
	free(o->fds);
	*o = (struct stream_out){ 0 };
}

/** @return the size of the fixed part in @p version, if it is @p now in this one. */
static size_t
fixed_in(enum record_kind kind, uint16_t version, size_t now)
{
	size_t fixed = now;

	for (size_t i = 0; i < sizeof(growths) / sizeof(growths[0]); i++)
		if (growths[i].kind == kind && growths[i].since > version && growths[i].before < fixed)
			fixed = growths[i].before;
	return fixed;
}

/** @return the record @p h as this version would have written it; NULL: no memory. */
static const void *
grow(struct stream_in *in, const struct record_head *h, size_t fixed, size_t now)
{
	struct stream_grown *g = calloc(1, sizeof(*g) + aligned(h->size + (now - fixed)));
	struct record_head head;
	uint8_t *to;

	if (g == NULL)
		return NULL;
	to = (uint8_t *)g->record;
	memcpy(to, h, fixed);
	memcpy(to + now, (const uint8_t *)h + fixed, h->size - fixed);
	head = *h;
	head.size += (uint32_t)(now - fixed);
	memcpy(to, &head, sizeof(head));
	g->next = in->grown;
	in->grown = g;
	return to;
}

const void *
stream_next(struct stream_in *in, enum record_kind kind, size_t least)
{
	const struct record_head *h = (const void *)(in->bytes + in->at);
	size_t fixed = in->n - in->at >= sizeof(*h) ? fixed_in(kind, h->version, least) : least;
	const void *p = h;

	if (record_check_versions(h, in->n - in->at, kind, STREAM_OLDEST, STREAM_VERSION, fixed) != NULL)
		return NULL;
	if (fixed < least)
		p = grow(in, h, fixed, least);
	if (p != NULL)
		in->at += h->size;
	return p;
}

const void *
stream_foreign(struct stream_in *in, uint32_t *room)
{
	const struct record_head *p = (const void *)(in->bytes + in->at);
	size_t left = in->n - in->at;

	if (left < sizeof(*p) || p->magic != RECORD_MAGIC || p->size < sizeof(*p) || aligned(p->size) > left)
		return NULL;
	*room = p->size;
	in->at += aligned(p->size);
	return p;
}

uint16_t
stream_kind(const struct stream_in *in)
{
	const struct record_head *p = (const void *)(in->bytes + in->at);

	return in->n - in->at >= sizeof(*p) && p->magic == RECORD_MAGIC ? p->kind : 0;
}

size_t
stream_tail(const void *r, size_t fixed)
{
	return ((const struct record_head *)r)->size - fixed;
}

int
stream_take_fd(struct stream_in *in, uint32_t number)
{
	int fd = number < in->nb_fds ? in->fds[number] : -1;

	if (fd >= 0)
		in->fds[number] = -1;
	return fd;
}

void
stream_done(struct stream_in *in)
{
	struct stream_grown *g;

	for (uint32_t i = 0; i < in->nb_fds; i++)
		if (in->fds[i] >= 0)
			close(in->fds[i]);
	in->nb_fds = 0;
	while ((g = in->grown) != NULL) {
		in->grown = g->next;
		free(g);
	}
}
