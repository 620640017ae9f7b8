/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/core/quota_priv.h"
#include "control/core/settle_priv.h"
#include "control/memory/memmap_priv.h"
#include "control/memory/questions_priv.h"
#include "control/memory/sigbus_priv.h"

#define PAGE_BYTES UINT64_C(4096)
#define VIEW_BYTES (UINT64_C(1) << SESSION_VIEW_SHIFT)

/* ---- The program's mappings ---- */

/**
 * @return true if the process is still the one that the socket's credentials name, so that we may map its memory. Its
 * directory in /proc belongs to its user, unless it runs with privileges that this user doesn't have.
 */
static bool
may_map(const struct session *s)
{
	struct stat st;

	return s->control->shared.privileged && s->maps_fd >= 0 && fstat(s->proc_fd, &st) == 0 && st.st_uid == s->uid;
}

/** Fail the request: mapping @p seg, writable or not, could not be opened as @p f says. @return an errno value. */
static int
fail_shared(struct request *r, const struct ctl_seg *seg, const struct shared_file *f)
{
	switch ((enum shared_status)f->status) {
	case SHARED_OK:
		break;
	case SHARED_NO_HOLD:
		return req_fail(r, EOPNOTSUPP, "cannot open map_files/%" PRIx64 "-%" PRIx64 ": %s", seg->map_start,
				seg->map_end, strerror(f->err));
	case SHARED_UNREADABLE:
		return req_fail(r, EOPNOTSUPP, "the program's mappings can't be read");
	case SHARED_PRIVATE:
		return req_fail(r, EOPNOTSUPP, "%#" PRIx64 "-%#" PRIx64 " is no shared mapping of the program",
				seg->map_start, seg->map_end);
	case SHARED_CHANGED:
		return req_fail(r, EOPNOTSUPP, "the mapping %#" PRIx64 "-%#" PRIx64 " has changed", seg->map_start,
				seg->map_end);
	case SHARED_NO_MEMORY:
		return req_fail(r, EOPNOTSUPP, "%#" PRIx64 "-%#" PRIx64 " is no shared memory", seg->map_start,
				seg->map_end);
	case SHARED_READ_ONLY:
		return req_fail(r, EFAULT,
				"the program's mapping at %#" PRIx64 " is read-only, but the MR is to be writable",
				seg->map_start);
	case SHARED_NO_OPEN:
		return req_fail(r, EOPNOTSUPP, "cannot open what is mapped at %#" PRIx64 ": %s", seg->map_start,
				strerror(f->err));
	case SHARED_NO_ANSWER:
		return req_fail(r, EOPNOTSUPP, "the daemon's broker, which opens shared memory, doesn't answer");
	case SHARED_LATE:
		return req_fail(r, EOPNOTSUPP, "the program's mappings can't be read within %d ms, while it changes them", QUESTION_MS);
	}
	return req_fail(r, EOPNOTSUPP, "shared memory of this program can't be mapped");
}

static int
fail_process(struct request *r)
{
	return req_fail(r, EOPNOTSUPP, "shared memory of this program can't be mapped");
}

/** Make a batch of the next shared segments. @return false: there are none left. */
static bool
next_batch(struct map_files *f)
{
	for (f->nb = 0; f->next < f->n && f->nb < SHARED_BATCH; f->next++) {
		const struct ctl_seg *seg = &f->segs[f->next];

		if (seg->kind != CTL_SEG_SHARED)
			continue;
		f->ranges[f->nb] = (struct shared_range){ .start = seg->map_start, .end = seg->map_end, .writable = f->writable };
		f->which[f->nb++] = f->next;
	}
	return f->nb > 0;
}

/** Take the files of the batch. @return 0 or an errno value with a message. */
static int
take_batch(struct map_files *f, struct request *r, struct shared_answer *a)
{
	int rc = 0;

	UROCE_ASSERT(a->n == f->nb);
	for (unsigned int i = 0; i < f->nb; i++) {
		const struct ctl_seg *seg = &f->segs[f->which[i]];
		struct shared_file *file = &a->files[i];

		if (file->status != SHARED_OK) {
			rc = rc != 0 ? rc : fail_shared(r, seg, file);
			continue;
		}
		f->plans[f->which[i]] = (struct seg_plan){
			.fd = file->fd,
			.close_fd = true,
			.file_offset = file->offset + seg->offset,
			.page_bytes = file->page_bytes,
		};
		file->fd = -1;
	}
	/* The process may have run another program meanwhile. */
	return rc == 0 && !may_map(f->session) ? fail_process(r) : rc;
}

static void
on_batch(struct session *s, struct shared_answer *a)
{
	struct map_files *f = s->map_files;
	struct ctl_req req = f->req;
	struct request r = { .req = &req };
	uint64_t since_ns = control_now_ns();
	int rc = take_batch(f, &r, a);

	if (rc == 0)
		rc = memmap_open_shared(f, &r);
	if (rc == EINPROGRESS)
		return;
	rc = f->resume(s, &r, rc);
	session_took(s, since_ns);
	session_pause(s, false);
	/* The MR that this one replaces is gone. */
	if (rc != 0 || !settle_later(s, &r))
		session_reply(s, &r, rc);
}

int
memmap_open_shared(struct map_files *f, struct request *r)
{
	struct shared_answer a;
	int rc = 0;

	while (rc == 0 && next_batch(f)) {
		if (!may_map(f->session))
			return fail_process(r);
		rc = question_open(f->session, f->ranges, f->nb, &a, on_batch);
		if (rc == EINPROGRESS)
			return rc;
		rc = take_batch(f, r, &a);
		shared_answer_close(&a);
	}
	return rc;
}

/* ---- Our mappings ---- */

/** Add a mapping to the MR's, or unmap it if that fails. @return 0 or ENOMEM. */
static int
keep_map(struct map_build *b, void *base, size_t bytes)
{
	struct mem_maps *m = b->maps;
	struct mem_map *maps;
	int id = -1;

	if (m->nb_maps == b->room_maps) {
		b->room_maps = b->room_maps == 0 ? 4 : b->room_maps * 2;
		maps = realloc(m->maps, b->room_maps * sizeof(*maps));
		if (maps == NULL)
			goto fail;
		m->maps = maps;
	}
	id = sigbus_add(base, bytes, &b->session->victim);
	if (id < 0)
		goto fail;
	m->maps[m->nb_maps++] = (struct mem_map){ .base = base, .bytes = bytes, .sigbus_id = id, .pieces = 1 };
	quota_charge(b->session, QUOTA_map, 1);
	return 0;
fail:
	munmap(base, bytes);
	return req_fail(b->request, ENOMEM, "no memory for the MR's mappings");
}

/** @return the number of mappings of all programs' memory. */
static uint64_t
maps_of_all(const struct control *c)
{
	const struct session *s;
	uint64_t n = 0;

	TAILQ_FOREACH(s, &c->sessions, link)
		n += s->used[QUOTA_map];
	return n;
}

static int
check_maps(struct map_build *b, uint32_t more)
{
	struct session *s = b->session;

	if (!quota_fits(s, QUOTA_map, more))
		memmap_drop_views(s);
	/* They are charged when they are made. */
	if (quota_take(s, QUOTA_map, more, b->request) != 0)
		return ENOMEM;
	quota_give(s, QUOTA_map, more);
	if (maps_of_all(s->control) + more > CONTROL_MAX_MAPS)
		return req_fail(b->request, ENOMEM, "all programs' MRs together need more than %d mappings",
				CONTROL_MAX_MAPS);
	return 0;
}

static void
drop_view(struct session *s, struct mem_view *w)
{
	sigbus_remove(w->map.sigbus_id);
	munmap(w->map.base, w->map.bytes);
	LIST_REMOVE(w, link);
	free(w);
	quota_give(s, QUOTA_map, 1);
}

void
memmap_drop_views(struct session *s)
{
	struct mem_view *w, *next;

	for (w = LIST_FIRST(&s->views); w != NULL; w = next) {
		next = LIST_NEXT(w, link);
		if (w->users == 0)
			drop_view(s, w);
	}
}

/** @return the view of @p index, mapped if necessary; NULL, with the request failed. */
static struct mem_view *
get_view(struct map_build *b, uint64_t index)
{
	struct session *s = b->session;
	struct mem_view *w;
	void *base;

	LIST_FOREACH(w, &s->views, link) {
		if (w->index == index)
			return w;
	}
	if (check_maps(b, 1) != 0)
		return NULL;
	w = calloc(1, sizeof(*w));
	base = w == NULL ? MAP_FAILED
			 : mmap(NULL, VIEW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s->mem_fd,
				(off_t)(index << SESSION_VIEW_SHIFT));
	if (base == MAP_FAILED)
		goto fail;
	w->index = index;
	w->map = (struct mem_map){ .base = base, .bytes = VIEW_BYTES };
	w->map.sigbus_id = sigbus_add(base, VIEW_BYTES, &s->victim);
	if (w->map.sigbus_id < 0) {
		munmap(base, VIEW_BYTES);
		goto fail;
	}
	LIST_INSERT_HEAD(&s->views, w, link);
	quota_charge(s, QUOTA_map, 1);
	return w;
fail:
	free(w);
	req_fail(b->request, ENOMEM, "cannot map the program's memory: %s", strerror(errno));
	return NULL;
}

/** Map a segment of converted memory that lies inside one view: it needs no mapping of its own. */
static int
map_in_view(struct map_build *b, const struct seg_plan *plan, uint8_t **host)
{
	struct mem_maps *m = b->maps;
	struct mem_view **list, *w;

	w = get_view(b, plan->file_offset >> SESSION_VIEW_SHIFT);
	if (w == NULL)
		return ENOMEM;
	if (m->nb_views == b->room_views) {
		b->room_views = b->room_views == 0 ? 4 : b->room_views * 2;
		list = realloc(m->views, b->room_views * sizeof(*list));
		if (list == NULL)
			return req_fail(b->request, ENOMEM, "no memory for the MR");
		m->views = list;
	}
	m->views[m->nb_views++] = w;
	w->users++;
	*host = (uint8_t *)w->map.base + (plan->file_offset & (VIEW_BYTES - 1));
	return 0;
}

/** Map one segment on its own, in pages of its file. */
static int
map_alone(struct map_build *b, const struct ctl_seg *seg, const struct seg_plan *plan, uint8_t **host)
{
	uint64_t first = plan->file_offset & ~(plan->page_bytes - 1);
	uint64_t end = (plan->file_offset + seg->length + plan->page_bytes - 1) & ~(plan->page_bytes - 1);
	int prot = PROT_READ | (b->writable ? PROT_WRITE : 0);
	void *base;

	if (check_maps(b, 1) != 0)
		return ENOMEM;
	base = mmap(NULL, end - first, prot, MAP_SHARED, plan->fd, (off_t)first);
	if (base == MAP_FAILED)
		return req_fail(b->request, ENOMEM, "cannot map the program's memory: %s", strerror(errno));
	*host = (uint8_t *)base + (plan->file_offset - first);
	return keep_map(b, base, end - first);
}

int
memmap_run(struct map_build *b, const struct ctl_seg *segs, const struct seg_plan *plans, uint32_t n, uint8_t **host)
{
	uint64_t first = segs[0].va & ~(PAGE_BYTES - 1);
	uint64_t end = (segs[n - 1].va + segs[n - 1].length + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	int prot = PROT_READ | (b->writable ? PROT_WRITE : 0);
	uint64_t from, to;
	uint8_t *base;

	if (n == 1 && !plans[0].close_fd &&
	    plans[0].file_offset >> SESSION_VIEW_SHIFT ==
		    (plans[0].file_offset + segs[0].length - 1) >> SESSION_VIEW_SHIFT)
		return map_in_view(b, &plans[0], host);
	if (n == 1)
		return map_alone(b, &segs[0], &plans[0], host);
	if (check_maps(b, n) != 0)
		return ENOMEM;
	base = mmap(NULL, end - first, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return req_fail(b->request, ENOMEM, "cannot map the program's memory: %s", strerror(errno));
	for (uint32_t i = 0; i < n; i++) {
		from = segs[i].va & ~(PAGE_BYTES - 1);
		to = (segs[i].va + segs[i].length + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
		if (mmap(base + (from - first), to - from, prot, MAP_SHARED | MAP_FIXED, plans[i].fd,
			 (off_t)(plans[i].file_offset & ~(PAGE_BYTES - 1))) == MAP_FAILED) {
			munmap(base, end - first);
			return req_fail(b->request, ENOMEM, "cannot map the program's memory: %s", strerror(errno));
		}
	}
	*host = base + (segs[0].va - first);
	if (keep_map(b, base, end - first) != 0)
		return ENOMEM;
	/* The kernel counts each piece as a mapping. */
	b->maps->maps[b->maps->nb_maps - 1].pieces = n;
	quota_charge(b->session, QUOTA_map, n - 1);
	return 0;
}

void
memmap_release(struct session *s, struct mem_maps *m)
{
	for (uint32_t i = 0; i < m->nb_maps; i++) {
		sigbus_remove(m->maps[i].sigbus_id);
		munmap(m->maps[i].base, m->maps[i].bytes);
		quota_give(s, QUOTA_map, m->maps[i].pieces);
	}
	for (uint32_t i = 0; i < m->nb_views; i++) {
		UROCE_ASSERT(m->views[i]->users > 0);
		m->views[i]->users--;
	}
	free(m->maps);
	free(m->views);
	m->maps = NULL;
	m->views = NULL;
	m->nb_maps = m->nb_views = 0;
}
