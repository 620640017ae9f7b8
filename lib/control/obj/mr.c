/* SPDX-License-Identifier: BSD-3-Clause */
/* MRs: checking and mapping their segments, joining adjacent ones, publishing the MR; and undoing all that. */
#include <inttypes.h>
#include <unistd.h>

#include "control/core/quota_priv.h"
#include "control/obj/obj_mr_priv.h"

#define PAGE_MASK UINT64_C(4095)
#define ACCESS_WRITE (UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_ATOMIC)

static int
check_seg(struct map_build *b, const struct ctl_seg *seg, uint64_t va)
{
	struct request *r = b->request;

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
		if (b->session->owner.mem_fd < 0)
			return req_fail(r, EOPNOTSUPP, "remote memory needs the descriptor of /proc/self/mem");
		return 0;
	case CTL_SEG_OWN:
		if (!b->session->own)
			break;
		return 0;
	}
	return req_fail(r, EINVAL, "segment kind %u: must be 1 to 3", seg->kind);
}

/** Find the file from which a segment has to be mapped. */
static int
plan_seg(struct map_build *b, const struct ctl_seg *seg, struct seg_plan *plan)
{
	*plan = (struct seg_plan){ .fd = -1 };
	if (seg->kind == CTL_SEG_CONVERTED)
		*plan = (struct seg_plan){
			.fd = b->session->mem_fd,
			.file_offset = seg->offset,
			.page_bytes = PAGE_MASK + 1,
		};
	else if (seg->kind == CTL_SEG_SHARED)
		return memmap_find_shared(b, seg, plan);
	return 0;
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
	};

	switch (mr_create(b->session->control->s.sh.mrs, &p, &mr->mr)) {
	case 0:
		return 0;
	case EINVAL:
		return req_fail(b->request, EINVAL,
				"access %#x or the range of the MR is not allowed: remote write and atomic need local "
				"write, and the segments must cover the range",
				q->access);
	case EBUSY:
		return req_fail(b->request, EBUSY, "memory windows are bound to the MR; invalidate, unbind or free them first");
	default:
		return req_fail(b->request, ENOMEM, "no key left for the MR");
	}
}

/** Check and map the segments, publish the MR. @return 0 or an errno value, with the request failed. */
static int
create(struct map_build *b, const struct ctl_seg *segs, uint32_t n, struct obj_mr *mr, struct obj_mr *replaces)
{
	struct seg_plan *plans = calloc(n + 1, sizeof(*plans));
	struct mem_seg *out = calloc(n + 1, sizeof(*out));
	uint64_t va = b->request->req->mr_reg.addr;
	uint32_t planned = 0, shared = 0, i, nb_out;
	int rc = 0;

	if (plans == NULL || out == NULL)
		rc = req_fail(b->request, ENOMEM, "no memory for the MR");
	for (; planned < n && rc == 0; planned++) {
		rc = check_seg(b, &segs[planned], va);
		/* Each planned segment has a descriptor open, so their number is limited before they are mapped. */
		if (rc == 0 && segs[planned].kind == CTL_SEG_SHARED && ++shared > SESSION_MAX_MAPS)
			rc = req_fail(b->request, ENOMEM, "the MR needs more than %d mappings", SESSION_MAX_MAPS);
		if (rc == 0)
			rc = plan_seg(b, &segs[planned], &plans[planned]);
		if (rc != 0)
			break;
		va += segs[planned].length;
	}
	for (i = 0; i < n && rc == 0; i++) {
		if (segs[i].kind == CTL_SEG_SHARED)
			rc = memmap_open_shared(b, &segs[i], &plans[i]);
	}
	if (rc == 0)
		rc = map_segs(b, segs, plans, n, out, &nb_out);
	if (rc == 0)
		rc = publish(b, out, nb_out, mr, replaces);
	while (planned > 0) {
		planned--;
		if (plans[planned].close_fd)
			close(plans[planned].fd);
	}
	free(plans);
	free(out);
	return rc;
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

int
op_mr_reg(struct session *s, struct request *r)
{
	const struct ctl_mr_reg_req *q = &r->req->mr_reg;
	struct map_build b = { .session = s, .request = r, .writable = (q->access & ACCESS_WRITE) != 0 };
	struct ctl_seg *segs = collect(s, r);
	struct obj_mr *mr = NULL, *old = NULL;
	struct obj_pd *pd;
	int rc = 0;

	if (segs == NULL)
		return EINVAL;
	if (q->access & UROCE_ACCESS_FLUSH_PERSISTENT) {
		free(segs);
		return req_fail(r, EOPNOTSUPP, "no memory here is persistent: access %#x asks for flushes to it", q->access);
	}
	pd = obj_get(s, OBJ_PD, q->pd, r);
	if (pd != NULL && q->replace != 0)
		old = obj_get(s, OBJ_MR, q->old, r);
	if (pd == NULL || (old == NULL && q->replace != 0))
		rc = EINVAL;
	else
		rc = quota_register(s, q->length, old != NULL ? old->length : 0, r);
	if (rc == 0)
		mr = obj_new(s, OBJ_MR, sizeof(*mr), r, &rc);
	if (rc == 0) {
		mr->session = s;
		mr->pd = pd;
		mr->length = q->length;
		b.maps = &mr->maps;
		rc = create(&b, segs, q->nb_segs, mr, old);
		if (rc != 0) {
			memmap_release(s, &mr->maps);
			obj_free(s, OBJ_MR, &mr->obj);
		}
	}
	free(segs);
	vma_list_free(&b.vmas);
	if (rc != 0)
		return rc;
	pd->obj.users++;
	quota_registered(s, q->length, old != NULL ? old->length : 0);
	if (old != NULL) {
		old->pd->obj.users--;
		obj_free(s, OBJ_MR, &old->obj);
	}
	r->rsp.mr_reg.handle = mr->obj.handle;
	r->rsp.mr_reg.lkey = mr->mr->key;
	return 0;
}

int
op_mr_segs(struct session *s, struct request *r)
{
	struct ctl_seg *segs;

	if (s->nb_segs + r->nb_segs > UROCE_MAX_MR_SEGS)
		return req_fail(r, EINVAL, "more than %u segments", UROCE_MAX_MR_SEGS);
	segs = reallocarray(s->segs, s->nb_segs + r->nb_segs + 1, sizeof(*segs));
	if (segs == NULL)
		return req_fail(r, ENOMEM, "no memory for the MR");
	memcpy(segs + s->nb_segs, r->segs, r->nb_segs * sizeof(*segs));
	s->segs = segs;
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
	quota_registered(s, 0, mr->length);
	mr_destroy(s->control->s.sh.mrs, mr->mr);
	obj_free(s, OBJ_MR, &mr->obj);
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
		quota_registered(s, 0, o->length);
		obj_free(s, OBJ_MR, &o->obj);
	}
	memmap_drop_views(s);
}
