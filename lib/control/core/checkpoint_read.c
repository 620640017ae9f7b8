/* SPDX-License-Identifier: BSD-3-Clause */
/* A checkpoint as the next daemon reads it. Whoever wrote it has ended in the middle of anything. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "control/core/checkpoint.h"
#include "control/core/checkpoint_priv.h"

/** What is read. */
struct reading {
	uint8_t *bytes;
	uint64_t n;
	uint64_t counts; /**< the last transaction that counts */
	struct checkpoint_slot **slots;
	uint32_t nb_slots, room_slots;
	uint64_t *lost; /**< sessions with a damaged slot */
	uint32_t nb_lost, room_lost;
	struct checkpoint_found *found;
};

/** Copy it: nothing changes it afterwards, whoever has the memfd. @return 0 or an errno value. */
static int
copy(int fd, struct reading *r)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return errno;
	if (!S_ISREG(st.st_mode) || st.st_size < CHECKPOINT_PAGE_BYTES || (uint64_t)st.st_size > CHECKPOINT_BYTES)
		return EPROTO;
	r->n = (uint64_t)st.st_size;
	r->bytes = malloc(r->n);
	if (r->bytes == NULL)
		return ENOMEM;
	for (uint64_t done = 0; done < r->n;) {
		ssize_t n = pread(fd, r->bytes + done, r->n - done, (off_t)done);

		if (n <= 0)
			return n < 0 ? errno : EPROTO;
		done += (uint64_t)n;
	}
	return 0;
}

static int
lose(struct reading *r, uint64_t session)
{
	uint64_t *lost;

	r->found->damaged++;
	if (r->nb_lost == r->room_lost) {
		uint32_t room = r->room_lost == 0 ? 16 : r->room_lost * 2;

		lost = reallocarray(r->lost, room, sizeof(*lost));
		if (lost == NULL)
			return ENOMEM;
		r->lost = lost;
		r->room_lost = room;
	}
	r->lost[r->nb_lost++] = session;
	return 0;
}

/** @param room  Of the slot. */
static int
look(struct reading *r, struct checkpoint_slot *s, uint64_t room)
{
	struct checkpoint_slot **slots;

	if (s->magic != CHECKPOINT_MAGIC || s->transaction > r->counts || (s->ended != 0 && s->ended <= r->counts))
		return 0;
	if (s->head_crc != checkpoint_head_crc(s) || s->bytes == 0 || s->bytes > room - sizeof(*s) || s->bytes % 8 != 0 ||
	    s->crc != crc32c(UINT32_MAX, s + 1, s->bytes))
		return lose(r, s->session);
	if (r->nb_slots == r->room_slots) {
		uint32_t n = r->room_slots == 0 ? 256 : r->room_slots * 2;

		slots = reallocarray(r->slots, n, sizeof(struct checkpoint_slot *));
		if (slots == NULL)
			return ENOMEM;
		r->slots = slots;
		r->room_slots = n;
	}
	r->slots[r->nb_slots++] = s;
	return 0;
}

static int
look_at_all(struct reading *r)
{
	const struct checkpoint_page *page = (const void *)r->bytes;
	uint64_t at = CHECKPOINT_PAGE_BYTES, slot;
	int rc = 0;

	if (page->magic != CHECKPOINT_MAGIC || page->version != CHECKPOINT_VERSION)
		return EPROTO;
	r->counts = page->counts;
	while (rc == 0 && at < r->n) {
		const struct checkpoint_chunk *c = (const void *)(r->bytes + at);

		/* The last one may have been reserved and not begun. */
		if (r->n - at < CHECKPOINT_PAGE_BYTES || (c->magic == 0 && c->slots == 0))
			return 0;
		if (c->magic != CHECKPOINT_MAGIC || c->shift < 8 || c->shift > 32 || c->slots == 0 ||
		    c->slots > (r->n - at - CHECKPOINT_PAGE_BYTES) >> c->shift)
			return EPROTO;
		slot = UINT64_C(1) << c->shift;
		at += CHECKPOINT_PAGE_BYTES;
		for (uint64_t i = 0; i < c->slots && rc == 0; i++, at += slot)
			rc = look(r, (void *)(r->bytes + at), slot);
	}
	return rc;
}

static int
compare(const void *a, const void *b)
{
	const struct checkpoint_slot *x = *(struct checkpoint_slot *const *)a, *y = *(struct checkpoint_slot *const *)b;

	if (x->session != y->session)
		return x->session < y->session ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool
is_lost(const struct reading *r, uint64_t session)
{
	for (uint32_t i = 0; i < r->nb_lost; i++)
		if (r->lost[i] == session)
			return true;
	return false;
}

/** What sessions share has no session that could be left out. */
static bool
is_session(uint64_t id)
{
	return id != 0 && id != UINT64_MAX;
}

static int
write_all(const struct reading *r, struct stream_out *o, void (*told)(void *arg, const char *text), void *arg)
{
	uint64_t last = 0;
	char text[128];
	void *to;

	for (uint32_t i = 0; i < r->nb_slots; i++) {
		const struct checkpoint_slot *s = r->slots[i];

		if (is_session(s->session) && is_lost(r, s->session)) {
			if (s->session != last) {
				r->found->sessions_lost++;
				snprintf(text, sizeof(text), "session %" PRIu64 " is lost: a record of it is damaged", s->session);
				if (told != NULL)
					told(arg, text);
			}
			last = s->session;
			continue;
		}
		to = stream_reserve(o, s->bytes);
		if (to == NULL)
			return ENOMEM;
		memcpy(to, s + 1, s->bytes);
		r->found->slots++;
	}
	return 0;
}

int
checkpoint_read(int fd, struct stream_out *o, struct checkpoint_found *n, void (*told)(void *arg, const char *text), void *arg)
{
	struct reading r = { .found = n };
	int rc = copy(fd, &r);

	*n = (struct checkpoint_found){ 0 };
	if (rc == 0)
		rc = look_at_all(&r);
	if (rc == 0) {
		if (r.nb_slots > 0)
			qsort(r.slots, r.nb_slots, sizeof(*r.slots), compare);
		rc = write_all(&r, o, told, arg);
	}
	free(r.bytes);
	free(r.slots);
	free(r.lost);
	return rc;
}
