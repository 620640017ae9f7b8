/* SPDX-License-Identifier: BSD-3-Clause */
/* MRs: checking and mapping their segments, joining adjacent ones, publishing the MR; and undoing all that. */
#include <inttypes.h>
#include <unistd.h>

#include "control/core/quota_priv.h"
#include "control/obj/obj_mr_priv.h"

#define PAGE_MASK UINT64_C(4095)
#define ACCESS_WRITE (UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_ATOMIC)

static int
check_seg(const struct session *s, struct request *r, const struct ctl_seg *seg, uint64_t va)
{
	if (seg->va != va || seg->length == 0 || seg->va + seg->length < seg->va)
		return req_fail(r, EINVAL,
				"segment at %#" PRIx64 ", %" PRIu64
				" bytes: segments must follow each other from %#" PRIx64,
				seg->va, seg->length, va);
	switch (seg->kind) {
	case CTL_SEG_CONVERTED:
		if (seg->offset + seg->length < seg->offset ||
		    seg->offset + seg->length > UINT64_C(1) << SESSION_MEM_SHIFT ||
		    ((seg->offset ^ seg->va) & PAGE_MASK) != 0)
			return req_fail(r, EINVAL,
					"segment at %#" PRIx64 ": offset %#" PRIx64
					" is not in the memfd or off its page",
					seg->va, seg->offset);
		return 0;
	case CTL_SEG_SHARED:
		if (seg->map_start >= seg->map_end || ((seg->map_start | seg->map_end) & PAGE_MASK) != 0 ||
		    seg->va < seg->map_start || seg->va + seg->length > seg->map_end ||
		    seg->offset != seg->va - seg->map_start)
			return req_fail(r, EINVAL,
					"segment at %#" PRIx64 " is not inside its mapping %#" PRIx64 "-%#" PRIx64,
					seg->va, seg->map_start, seg->map_end);
		return 0;
	case CTL_SEG_REMOTE:
		if (s->owner.mem_fd < 0)
			return req_fail(r, EOPNOTSUPP, "remote memory needs the descriptor of /proc/self/mem");
		return 0;
	case CTL_SEG_OWN:
		if (!s->own)
			break;
		return 0;
	}
	return req_fail(r, EINVAL, "segment kind %u: must be 1 to 3", seg->kind);
}

void
obj_mr_plan(const struct session *s, const struct ctl_seg *seg, struct seg_plan *plan)
{
	*plan = (struct seg_plan){ .fd = -1 };
	if (seg->kind == CTL_SEG_CONVERTED)
		*plan = (struct seg_plan){
			.fd = s->mem_fd,
			.file_offset = seg->offset,
			.page_bytes = PAGE_MASK + 1,
		};
}

/**
 * @return true if @p next, planned as @p b, can be mapped right behind @p a: both are in ordinary pages, and @p next
 * starts at a page boundary.
 */
static bool
joins(const struct seg_plan *a, const struct ctl_seg *next, const struct seg_plan *b)
{
	return a->fd >= 0 && b->fd >= 0 && a->page_bytes == PAGE_MASK + 1 && b->page_bytes == PAGE_MASK + 1 &&
	       (next->va & PAGE_MASK) == 0;
}

/**
 * Map all segments; adjacent ones are joined.
 * @param nb_out  Receives the number of segments in @p out.
 * @return 0 or an errno value, with the request failed.
 */
static int
map_segs(struct map_build *b, const struct ctl_seg *segs, const struct seg_plan *plans, uint32_t n, struct mem_seg *out,
	 uint32_t *nb_out)
{
	uint32_t i, end;
	uint8_t *host;
	int rc;

	*nb_out = 0;
	for (i = 0; i < n; i = end) {
		end = i + 1;
		host = NULL;
		if (plans[i].fd >= 0) {
			while (end < n && joins(&plans[end - 1], &segs[end], &plans[end]))
				end++;
			rc = memmap_run(b, &segs[i], &plans[i], end - i, &host);
			if (rc != 0)
				return rc;
		} else {
			while (end < n && plans[end].fd < 0 && segs[end].kind == segs[i].kind)
				end++;
			if (segs[i].kind == CTL_SEG_OWN)
				host = (uint8_t *)(uintptr_t)segs[i].va;
		}
		out[(*nb_out)++] = (struct mem_seg){
			.va = segs[i].va,
			.length = segs[end - 1].va + segs[end - 1].length - segs[i].va,
			.host = host,
		};
	}
	return 0;
}

/** Called by lib/mem when no engine can use the MR any more. */
static void
on_release(struct mr *mr, void *arg)
{
	struct obj_mr *o = arg;

	memmap_release(o->session, &o->maps);
}

/** @return what an MR of @p nb_segs segments costs the daemon, in addition to its structs. */
static uint64_t
metadata_of(const struct obj_mr *mr, uint32_t nb_segs)
{
	const struct mem_maps *maps = &mr->maps;

	return mr->nb_origins * sizeof(*mr->origins) + nb_segs * sizeof(struct mem_seg) + maps->nb_maps * sizeof(*maps->maps) + maps->nb_views * sizeof(*maps->views);
}

/** Publish the MR. @param out  Its @p nb_out segments. @return 0 or an errno value, with the request failed. */
static int
publish(struct map_build *b, const struct mem_seg *out, uint32_t nb_out, struct obj_mr *mr, struct obj_mr *replaces)
{
	const struct ctl_mr_reg_req *q = &b->request->req->mr_reg;
	const struct mr_params p = {
		.pd = mr->pd->id,
		.access = q->access,
		.addr = q->addr,
		.length = q->length,
		.iova = q->iova,
		.segs = out,
		.nb_segs = nb_out,
		.owner = &b->session->owner,
		.release = on_release,
		.release_arg = mr,
		.replaces = replaces != NULL ? replaces->mr : NULL,
		.key = b->key,
	};

	switch (mr_create(b->session->control->s.sh.mrs, &p, &mr->mr)) {
	case 0:
		return 0;
	case EINVAL:
		return req_fail(b->request, EINVAL,
				"access %#x or the range of the MR is not allowed: remote write and atomic need local "
				"write, and the segments must cover the range",
				q->access);
	case EEXIST:
		return req_fail(b->request, EEXIST, "the key %#x of the MR is taken", b->key);
	case EBUSY:
		return req_fail(b->request, EBUSY, "memory windows are bound to the MR; invalidate, unbind or free them first");
	default:
		return req_fail(b->request, ENOMEM, "no key left for the MR");
	}
}

/**
 * Keep where the segments are, those joined that follow each other there too. Shared memory is mapped from a file that is closed again: another
 * daemon reaches it through the program. @return false: no memory.
 */
static bool
keep_origins(struct obj_mr *mr, const struct ctl_seg *segs, uint32_t n)
{
	struct mr_origin *o = n > 0 && segs[0].kind != CTL_SEG_OWN ? calloc(n, sizeof(*o)) : NULL, *last = NULL, *fit;

	if (o == NULL)
		return n == 0 || segs[0].kind == CTL_SEG_OWN;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t offset = segs[i].kind == CTL_SEG_CONVERTED ? segs[i].offset : MR_ORIGIN_REMOTE;

		if (last != NULL && (offset == MR_ORIGIN_REMOTE ? last->offset == offset : last->offset + last->length == offset)) {
			last->length += segs[i].length;
			continue;
		}
		last = &o[mr->nb_origins++];
		*last = (struct mr_origin){ .va = segs[i].va, .length = segs[i].length, .offset = offset };
	}
	fit = reallocarray(o, mr->nb_origins, sizeof(*o));
	mr->origins = fit != NULL ? fit : o;
	return true;
}

int
obj_mr_create(struct map_build *b, const struct map_files *f, struct obj_mr *mr, struct obj_mr *replaces)
{
	struct mem_seg *out = calloc(f->n + 1, sizeof(*out));
	uint32_t nb_out;
	int rc;

	if (out == NULL || !keep_origins(mr, f->segs, f->n)) {
		free(out);
		return req_fail(b->request, ENOMEM, "no memory for the MR");
	}
	rc = map_segs(b, f->segs, f->plans, f->n, out, &nb_out);
	if (rc == 0)
		rc = quota_take(b->session, QUOTA_metadata, metadata_of(mr, nb_out), b->request);
	if (rc == 0) {
		mr->metadata = metadata_of(mr, nb_out);
		rc = publish(b, out, nb_out, mr, replaces);
	}
	free(out);
	return rc;
}

/** Charge for @p bytes of registered memory. @param old  The MR that will be replaced and given back, or NULL. */
static int
take_memory(struct session *s, uint64_t bytes, const struct obj_mr *old, struct request *r)
{
	uint64_t less = old != NULL ? old->charged : 0;
	int rc;

	quota_give(s, QUOTA_memory, less);
	rc = quota_take(s, QUOTA_memory, bytes, r);
	quota_charge(s, QUOTA_memory, less);
	return rc;
}

void
obj_mr_forget(struct session *s, struct obj_mr *mr)
{
	quota_give(s, QUOTA_memory, mr->charged);
	quota_give(s, QUOTA_metadata, mr->metadata);
	if (mr->dm != NULL)
		mr->dm->obj.users--;
	free(mr->origins);
	obj_free(s, OBJ_MR, &mr->obj);
}

/**
 * Combine the segments of earlier CTL_MR_SEGS with those of this message.
 * @return them, to be freed by the caller; NULL, with the request failed.
 */
static struct ctl_seg *
collect(struct session *s, struct request *r)
{
	const struct ctl_mr_reg_req *q = &r->req->mr_reg;
	struct ctl_seg *segs = s->segs;
	uint32_t before = s->nb_segs;

	s->segs = NULL;
	s->nb_segs = 0;
	if (before > 0)
		saved_end_all(s->control, &s->saved, SAVED_MR_SEGS);
	quota_give(s, QUOTA_metadata, before * sizeof(*segs));
	if (q->nb_segs > UROCE_MAX_MR_SEGS || q->nb_segs != before + r->nb_segs) {
		free(segs);
		req_fail(r, EINVAL, "MR of %u segments, but %u were sent before and %u now: must be all of them, at most %u",
			 q->nb_segs, before, r->nb_segs, UROCE_MAX_MR_SEGS);
		return NULL;
	}
	segs = reallocarray(segs, q->nb_segs + 1, sizeof(*segs));
	if (segs == NULL) {
		req_fail(r, ENOMEM, "no memory for the MR");
		return NULL;
	}
	memcpy(segs + before, r->segs, r->nb_segs * sizeof(*segs));
	return segs;
}

/** Check the segments, and find what has to be opened. @return 0 or an errno value, with the request failed. */
static int
plan(struct map_files *f, struct request *r)
{
	struct session *s = f->session;
	uint64_t va = r->req->mr_reg.addr;
	uint32_t shared = 0;
	int rc;

	if ((r->req->mr_reg.access & UROCE_ACCESS_ON_DEMAND) && f->n > 0 && (f->n > 1 || f->segs[0].kind != CTL_SEG_REMOTE))
		return req_fail(r, EINVAL, "MR for on-demand paging of %u segments, the first of kind %u: must be one of kind %u", f->n,
				f->segs[0].kind, CTL_SEG_REMOTE);
	for (uint32_t i = 0; i < f->n; i++) {
		rc = check_seg(s, r, &f->segs[i], va);
		if (rc != 0)
			return rc;
		obj_mr_plan(s, &f->segs[i], &f->plans[i]);
		shared += f->segs[i].kind == CTL_SEG_SHARED;
		va += f->segs[i].length;
	}
	/* Each has a descriptor open until the MR is made, so their number is limited before. */
	if (shared > CONTROL_MAX_SHARED_SEGS)
		return req_fail(r, ENOMEM, "the MR needs more than %d mappings", CONTROL_MAX_SHARED_SEGS);
	if (s->user->opening + shared > CONTROL_USER_OPENING || s->control->opening + shared > CONTROL_ALL_OPENING)
		return req_fail(r, EOPNOTSUPP, "too many files of shared memory are being opened: %u of this user, %u of all; at most %d and %d",
				s->user->opening, s->control->opening, CONTROL_USER_OPENING, CONTROL_ALL_OPENING);
	/* Requests that wait cost memory. */
	if (shared > 0) {
		rc = quota_take(s, QUOTA_metadata, f->n * (sizeof(*f->segs) + sizeof(*f->plans)), r);
		if (rc != 0)
			return rc;
		f->metadata = f->n * (sizeof(*f->segs) + sizeof(*f->plans));
	}
	f->shared = shared;
	s->user->opening += shared;
	s->control->opening += shared;
	return 0;
}

void
obj_mr_cancel(struct session *s)
{
	struct map_files *f = s->map_files;

	if (f == NULL)
		return;
	for (uint32_t i = 0; i < f->n && f->plans != NULL; i++)
		if (f->plans[i].close_fd)
			close(f->plans[i].fd);
	quota_give(s, QUOTA_metadata, f->metadata);
	s->user->opening -= f->shared;
	s->control->opening -= f->shared;
	s->map_files = NULL;
	free(f->plans);
	free(f->segs);
	free(f);
}

/** Make the MR of what session.map_files has. @return 0 or an errno value, with the request failed. */
static int
make(struct session *s, struct request *r)
{
	const struct ctl_mr_reg_req *q = &r->req->mr_reg;
	struct map_build b = { .session = s, .request = r, .writable = s->map_files->writable };
	struct obj_pd *pd = obj_get(s, OBJ_PD, q->pd, r);
	/* What needn't be there isn't held, and not charged. */
	uint64_t charged = q->access & UROCE_ACCESS_ON_DEMAND ? 0 : q->length;
	struct obj_mr *mr, *old = q->replace != 0 ? obj_get(s, OBJ_MR, q->old, r) : NULL;
	int rc;

	if (pd == NULL || (old == NULL && q->replace != 0))
		return EINVAL;
	if (old != NULL && (old->dm != NULL || old->mr->null))
		return req_fail(r, EINVAL, "a null MR, or one of device memory, can't be registered anew");
	rc = take_memory(s, charged, old, r);
	if (rc != 0)
		return rc;
	mr = obj_new(s, OBJ_MR, sizeof(*mr), r, &rc);
	if (mr == NULL) {
		quota_give(s, QUOTA_memory, charged);
		return rc;
	}
	mr->session = s;
	mr->pd = pd;
	mr->charged = charged;
	b.maps = &mr->maps;
	rc = obj_mr_create(&b, s->map_files, mr, old);
	if (rc != 0) {
		memmap_release(s, &mr->maps);
		obj_mr_forget(s, mr);
		return rc;
	}
	pd->obj.users++;
	if (old != NULL) {
		old->pd->obj.users--;
		obj_mr_forget(s, old);
	}
	r->rsp.mr_reg.handle = mr->obj.handle;
	r->rsp.mr_reg.lkey = mr->mr->key;
	return 0;
}

/** The files are open, or the request has failed with @p rc. */
static int
finish(struct session *s, struct request *r, int rc)
{
	if (rc == 0)
		rc = make(s, r);
	obj_mr_cancel(s);
	return rc;
}

int
op_mr_reg(struct session *s, struct request *r)
{
	const struct ctl_mr_reg_req *q = &r->req->mr_reg;
	struct ctl_seg *segs = collect(s, r);
	struct map_files *f;
	int rc = 0;

	if (segs == NULL)
		return EINVAL;
	f = calloc(1, sizeof(*f));
	if (f == NULL) {
		free(segs);
		return req_fail(r, ENOMEM, "no memory for the MR");
	}
	*f = (struct map_files){ .session = s, .req = *r->req, .segs = segs, .n = q->nb_segs, .resume = finish };
	f->writable = (q->access & ACCESS_WRITE) != 0;
	f->plans = calloc(f->n + 1, sizeof(*f->plans));
	UROCE_ASSERT(s->map_files == NULL);
	s->map_files = f;
	if (f->plans == NULL)
		rc = req_fail(r, ENOMEM, "no memory for the MR");
	else if (q->access & UROCE_ACCESS_FLUSH_PERSISTENT)
		rc = req_fail(r, EOPNOTSUPP, "no memory here is persistent: access %#x asks for flushes to it", q->access);
	else if (obj_get(s, OBJ_PD, q->pd, r) == NULL || (q->replace != 0 && obj_get(s, OBJ_MR, q->old, r) == NULL))
		rc = EINVAL;
	else
		rc = plan(f, r);
	if (rc == 0)
		rc = memmap_open_shared(f, r);
	if (rc != EINPROGRESS)
		return finish(s, r, rc);
	session_pause(s, true);
	return rc;
}

int
op_mr_segs(struct session *s, struct request *r)
{
	struct ctl_seg *segs;
	int rc;

	if (s->nb_segs + r->nb_segs > UROCE_MAX_MR_SEGS)
		return req_fail(r, EINVAL, "more than %u segments", UROCE_MAX_MR_SEGS);
	rc = quota_take(s, QUOTA_metadata, r->nb_segs * sizeof(*segs), r);
	if (rc != 0)
		return rc;
	segs = reallocarray(s->segs, s->nb_segs + r->nb_segs + 1, sizeof(*segs));
	if (segs == NULL) {
		quota_give(s, QUOTA_metadata, r->nb_segs * sizeof(*segs));
		return req_fail(r, ENOMEM, "no memory for the MR");
	}
	memcpy(segs + s->nb_segs, r->segs, r->nb_segs * sizeof(*segs));
	s->segs = segs;
	saved_new(s->control, &s->saved, SAVED_MR_SEGS, (void *)(uintptr_t)s->nb_segs);
	s->nb_segs += r->nb_segs;
	return 0;
}

int
op_mr_dereg(struct session *s, struct request *r)
{
	struct obj_mr *mr = r->obj;

	if (!mr_retire(mr->mr))
		return req_fail(r, EBUSY, "memory windows are bound to the MR; invalidate, unbind or free them first");
	mr->pd->obj.users--;
	mr_destroy(s->control->s.sh.mrs, mr->mr);
	obj_mr_forget(s, mr);
	return 0;
}

void
obj_mr_destroy_all(struct session *s)
{
	uint32_t n = s->tab[OBJ_MR].used, pos = 0, i = 0;
	struct mr **mrs = n > 0 ? calloc(n, sizeof(*mrs)) : NULL;
	struct obj_mr *o;

	while ((o = handles_next(&s->tab[OBJ_MR], &pos)) != NULL) {
		if (mrs != NULL)
			mrs[i++] = o->mr;
		else
			mr_destroy(s->control->s.sh.mrs, o->mr);
	}
	if (mrs != NULL)
		mr_destroy_bulk(s->control->s.sh.mrs, mrs, i);
	free(mrs);
	for (pos = 0; (o = handles_next(&s->tab[OBJ_MR], &pos)) != NULL;) {
		o->pd->obj.users--;
		obj_mr_forget(s, o);
	}
	memmap_drop_views(s);
}
