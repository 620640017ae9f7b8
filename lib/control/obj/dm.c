/* SPDX-License-Identifier: BSD-3-Clause */
/* MRs that aren't of a program's memory: null MRs, device memory. */
#include <assert.h>
#include <inttypes.h>

#include "control/obj/obj_mr_priv.h"

static_assert((int)UROCE_MAX_DM_BYTES <= (int)SHM_POPULATE_BYTES, "engines take no page faults in device memory");
static_assert(1 << UROCE_MAX_DM_LOG_ALIGN <= SHM_ALIGN, "blocks have every alignment that can be asked for");

/** Publish an MR of @p dm, or a null MR. @return 0 or an errno value, with the request failed. */
static int
publish(struct session *s, struct request *r, struct obj_pd *pd, struct obj_dm *dm, struct mr_params *p)
{
	struct obj_mr *mr;
	int rc;

	mr = obj_new(s, OBJ_MR, sizeof(*mr), r, &rc);
	if (mr == NULL)
		return rc;
	p->pd = pd->id;
	rc = mr_create(s->control->s.sh.mrs, p, &mr->mr);
	if (rc != 0) {
		obj_free(s, OBJ_MR, &mr->obj);
		return rc == EINVAL ? req_fail(r, rc, "access %#x of the MR is not allowed: remote write and atomic need local write", p->access) :
				      req_fail(r, rc, "no key left for the MR");
	}
	mr->session = s;
	mr->pd = pd;
	mr->dm = dm;
	pd->obj.users++;
	if (dm != NULL)
		dm->obj.users++;
	r->rsp.mr_reg.handle = mr->obj.handle;
	r->rsp.mr_reg.lkey = mr->mr->key;
	return 0;
}

int
op_mr_null(struct session *s, struct request *r)
{
	struct mr_params p = { .access = UROCE_ACCESS_LOCAL_WRITE, .null = true };

	return publish(s, r, r->obj, NULL, &p);
}

int
op_dm_alloc(struct session *s, struct request *r)
{
	const struct ctl_dm_alloc_req *q = &r->req->dm_alloc;
	struct obj_dm *dm;
	int rc;

	if (q->length == 0 || q->length > UROCE_MAX_DM_BYTES)
		return req_fail(r, EINVAL, "device memory of %" PRIu64 " bytes: must be 1 to %d", q->length, UROCE_MAX_DM_BYTES);
	if (q->log_align > UROCE_MAX_DM_LOG_ALIGN)
		return req_fail(r, EINVAL, "device memory aligned to 2^%u: must be at most 2^%d", q->log_align, UROCE_MAX_DM_LOG_ALIGN);
	dm = obj_new(s, OBJ_DM, sizeof(*dm), r, &rc);
	if (dm == NULL)
		return rc;
	rc = obj_ring_alloc(s, q->length, "DM", &dm->block, r);
	if (rc != 0)
		goto fail_obj;
	if (dm->block.bytes > UROCE_MAX_DM_BYTES - s->dm_bytes) {
		rc = req_fail(r, ENOMEM, "%" PRIu64 " bytes of device memory are in use: a program has %d at most", s->dm_bytes,
			      UROCE_MAX_DM_BYTES);
		goto fail_block;
	}
	s->dm_bytes += dm->block.bytes;
	dm->length = q->length;
	obj_announce(s, r, &dm->block, &r->rsp.dm_alloc.seg);
	r->rsp.dm_alloc.handle = dm->obj.handle;
	r->rsp.dm_alloc.memory = area_of(&dm->block, 0, q->length);
	return 0;
fail_block:
	obj_ring_free(s, &dm->block);
fail_obj:
	obj_free(s, OBJ_DM, &dm->obj);
	return rc;
}

void
obj_dm_free(struct session *s, struct obj_dm *dm)
{
	s->dm_bytes -= dm->block.bytes;
	obj_ring_free(s, &dm->block);
	obj_free(s, OBJ_DM, &dm->obj);
}

struct dm_record {
	struct record_head head;
	uint64_t length;
	uint32_t handle, reserved;
	struct block_record block;
};

int
obj_dm_save(struct session *s, void *obj, struct stream_out *o)
{
	const struct obj_dm *dm = obj;
	const struct dm_record r = { .length = dm->length, .handle = dm->obj.handle, .block = block_save(&dm->block) };

	stream_put(o, RECORD_OBJ_DM, &r, sizeof(r), NULL, 0);
	return 0;
}

int
obj_dm_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct dm_record *from;
	struct obj_dm *dm;
	int rc = 0;

	while ((from = stream_next(in, RECORD_OBJ_DM, sizeof(*from))) != NULL) {
		dm = obj_new_as(s, OBJ_DM, sizeof(*dm), from->handle, r, &rc);
		if (dm == NULL)
			return rc;
		rc = obj_ring_take(s, &from->block, &dm->block, r);
		if (rc == 0 && (from->length > dm->block.bytes || dm->block.bytes > UROCE_MAX_DM_BYTES - s->dm_bytes)) {
			obj_ring_free(s, &dm->block);
			rc = req_fail(r, EINVAL, "device memory %#x isn't in its block", from->handle);
		}
		if (rc != 0) {
			obj_free(s, OBJ_DM, &dm->obj);
			return rc;
		}
		s->dm_bytes += dm->block.bytes;
		dm->length = from->length;
	}
	return rc;
}

int
op_dm_free(struct session *s, struct request *r)
{
	struct obj_dm *dm = r->obj;

	if (dm->obj.users > 0)
		return req_fail(r, EBUSY, "%u MRs are of this device memory; deregister them first", dm->obj.users);
	obj_dm_free(s, dm);
	return 0;
}

int
op_dm_reg(struct session *s, struct request *r)
{
	const struct ctl_dm_reg_req *q = &r->req->dm_reg;
	struct obj_pd *pd = obj_get(s, OBJ_PD, q->pd, r);
	struct obj_dm *dm = pd != NULL ? obj_get(s, OBJ_DM, q->dm, r) : NULL;
	struct mem_seg seg;
	struct mr_params p = { .access = q->access, .length = q->length, .segs = &seg, .nb_segs = q->length != 0 };

	if (dm == NULL)
		return EINVAL;
	if (q->offset > dm->length || q->length > dm->length - q->offset)
		return req_fail(r, EINVAL, "%" PRIu64 " bytes at %" PRIu64 " are not inside the device memory of %" PRIu64, q->length,
				q->offset, dm->length);
	if (q->access & UROCE_ACCESS_FLUSH_PERSISTENT)
		return req_fail(r, EOPNOTSUPP, "no memory here is persistent: access %#x asks for flushes to it", q->access);
	if (!(q->access & UROCE_ACCESS_ZERO_BASED) || (q->access & UROCE_ACCESS_ON_DEMAND))
		return req_fail(r, EINVAL, "access %#x: an MR of device memory is zero based, and not for on-demand paging", q->access);
	seg = (struct mem_seg){ .length = q->length, .host = dm->block.addr + q->offset };
	return publish(s, r, pd, dm, &p);
}
