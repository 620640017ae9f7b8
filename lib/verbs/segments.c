/* SPDX-License-Identifier: BSD-3-Clause */
#include "verbs/segments.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "verbs/copied.h"
#include "verbs/stacks.h"

enum { SEGMENTS_FIRST_ROOM = 8 };

/* Private anonymous memory in which a program may have data. Code (PROT_EXEC) is not converted: a memfd may be sealed
 * against execution. */
static bool
is_convertible(const struct map_entry *e)
{
	return !e->shared && !e->inode && (e->prot & PROT_READ) && !(e->prot & PROT_EXEC) &&
	       (e->name == MAP_NAME_NONE || e->name == MAP_NAME_HEAP || e->name == MAP_NAME_ANON);
}

static int
list_mappings(struct map_list *maps, const struct segments_want *want)
{
	uint64_t end = want->addr + want->length;
	int err;

	maps->n = 0;
	err = maps_range(maps, want->addr, end);
	if (err)
		return err;
	if (!maps_covers(maps, want->addr, end))
		return EFAULT;
	for (size_t i = 0; i < maps->n; i++)
		if ((maps->e[i].prot & want->prot) != want->prot)
			return EFAULT;
	return 0;
}

/* Convert memory that copiers don't write to. */
static int
convert_quiet(struct mem_file *file, uint64_t start, uint64_t end, int prot)
{
	uint64_t stop;
	int err = 0;

	if (convert_is_protected())
		return convert_range(file, start, end, prot);
	while (!err && copied_next_free(&start, end, &stop)) {
		err = convert_range(file, start, stop, prot);
		start = stop;
	}
	return err;
}

/*
 * Convert the whole pages inside the range. The partial pages at its ends may contain something else of the program's
 * (malloc's bookkeeping, for example), so they aren't converted. What can't be converted remains as it is.
 * @return true if something may have changed.
 */
static bool
convert_interior(const struct map_list *maps, struct mem_file *file, const struct segments_want *want)
{
	uint64_t page = sysconf(_SC_PAGESIZE);
	uint64_t lo = (want->addr + page - 1) & ~(page - 1);
	uint64_t hi = (want->addr + want->length) & ~(page - 1);
	struct stack_zones zones = { 0 };
	bool have_zones = false, changed = false;

	for (size_t i = 0; i < maps->n; i++) {
		const struct map_entry *e = &maps->e[i];
		uint64_t start = e->start > lo ? e->start : lo;
		uint64_t end = e->end < hi ? e->end : hi;
		uint64_t stop;

		if (start >= end || !is_convertible(e))
			continue;
		if (!have_zones && stacks_find(&zones, want->sp, lo, maps->e[maps->n - 1].end))
			break;
		have_zones = true;
		while (start < end && stacks_next_free(&zones, e, &start, end, &stop)) {
			changed = true;
			if (convert_quiet(file, start, stop, e->prot))
				break;
			start = stop;
		}
	}
	stacks_free(&zones);
	return changed;
}

static bool
continues(const struct ctl_seg *a, const struct ctl_seg *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case CTL_SEG_CONVERTED:
		return a->offset + a->length == b->offset;
	case CTL_SEG_SHARED:
		return false;
	default:
		return true;
	}
}

static int
segment_add(struct segments *out, const struct ctl_seg *seg)
{
	if (out->n && continues(&out->s[out->n - 1], seg)) {
		out->s[out->n - 1].length += seg->length;
		return 0;
	}
	if (out->n == UROCE_MAX_MR_SEGS)
		return ENOMEM;
	if (out->n == out->room) {
		size_t room = out->room ? out->room * 2 : SEGMENTS_FIRST_ROOM;
		struct ctl_seg *s = realloc(out->s, room * sizeof(*s));

		if (!s)
			return ENOMEM;
		out->s = s;
		out->room = room;
	}
	out->s[out->n++] = *seg;
	return 0;
}

static int
segment_of(struct segments *out, const struct mem_file *file, const struct map_entry *e,
	   const struct segments_want *want)
{
	uint64_t end = want->addr + want->length;
	struct ctl_seg seg = { .kind = CTL_SEG_REMOTE };

	seg.va = e->start > want->addr ? e->start : want->addr;
	seg.length = (e->end < end ? e->end : end) - seg.va;
	if (mem_file_is(file, e)) {
		seg.kind = CTL_SEG_CONVERTED;
		seg.offset = e->offset + (seg.va - e->start);
	} else if (e->shared && e->inode && want->shared) {
		seg.kind = CTL_SEG_SHARED;
		seg.offset = seg.va - e->start;
		seg.map_start = e->start;
		seg.map_end = e->end;
		out->any_shared = true;
	}
	return segment_add(out, &seg);
}

int
segments_find(struct segments *out, struct mem_file *file, const struct segments_want *want)
{
	struct map_list maps = { 0 };
	int err;

	*out = (struct segments){ 0 };
	if (want->remote) {
		const struct ctl_seg seg = { .kind = CTL_SEG_REMOTE, .va = want->addr, .length = want->length };

		return want->length ? segment_add(out, &seg) : 0;
	}
	err = list_mappings(&maps, want);
	if (!err && want->own) {
		const struct ctl_seg seg = { .kind = CTL_SEG_OWN, .va = want->addr, .length = want->length };

		err = want->length ? segment_add(out, &seg) : 0;
		maps_free(&maps);
		return err;
	}
	/* Segments are made from what the kernel reports now, whether or not the conversions succeeded. */
	if (!err && want->convert && convert_interior(&maps, file, want))
		err = list_mappings(&maps, want);
	for (size_t i = 0; i < maps.n && !err; i++)
		err = segment_of(out, file, &maps.e[i], want);
	maps_free(&maps);
	if (err)
		segments_free(out);
	return err;
}

bool
segments_mapped(const struct segments *s, uint64_t addr, uint64_t length, uint64_t *lo, uint64_t *hi)
{
	size_t first = 0, end = s->n;
	bool all = true;

	for (size_t i = 0; i < s->n; i++)
		all = all && s->s[i].kind != CTL_SEG_REMOTE;
	/* Most often it is all but the partial pages at the ends. */
	if (end > first && s->s[first].kind == CTL_SEG_REMOTE)
		first++;
	if (end > first && s->s[end - 1].kind == CTL_SEG_REMOTE)
		end--;
	for (size_t i = first; i < end; i++)
		if (s->s[i].kind == CTL_SEG_REMOTE)
			end = first;
	*lo = first < end ? s->s[first].va : addr;
	*hi = first < end ? s->s[end - 1].va + s->s[end - 1].length : addr;
	return all || length == 0;
}

void
segments_free(struct segments *s)
{
	free(s->s);
	*s = (struct segments){ 0 };
}
