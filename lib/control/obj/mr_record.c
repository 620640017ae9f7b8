/* SPDX-License-Identifier: BSD-3-Clause */
/* MRs of a daemon that goes, for the one that comes. */
#include <unistd.h>

#include "control/core/quota_priv.h"
#include "control/obj/obj_mr_priv.h"

/** Behind it: its origins. */
struct mr_record {
	struct record_head head;
	uint64_t addr, length, iova;
	uint64_t dm_offset;
	uint32_t handle, pd, key, access;
	uint32_t dm;   /**< HANDLE_NONE: it isn't of device memory */
	uint32_t null; /**< 1: a null MR */
	uint32_t nb_origins, reserved;
};

int
obj_mr_save(struct session *s, void *obj, struct stream_out *o)
{
	const struct obj_mr *mr = obj;
	struct mr_record r;

	/* It is being made. */
	if (mr->mr == NULL)
		return 0;
	r = (struct mr_record){
		.addr = mr->mr->addr,
		.length = mr->mr->null ? 0 : mr->mr->length,
		.iova = mr->mr->iova,
		.dm_offset = mr->dm != NULL && mr->mr->nb_segs > 0 ? (uint64_t)(mr->mr->segs[0].host - mr->dm->block.addr) : 0,
		.handle = mr->obj.handle,
		.pd = mr->pd->obj.handle,
		.key = mr->mr->key,
		.access = mr->mr->access,
		.dm = mr->dm != NULL ? mr->dm->obj.handle : HANDLE_NONE,
		.null = mr->mr->null,
		.nb_origins = mr->nb_origins,
	};
	stream_put(o, RECORD_OBJ_MR, &r, sizeof(r), mr->origins, mr->nb_origins * sizeof(*mr->origins));
	return 0;
}

/** Check the origins, and make segments of them. @return 0 or an errno value, with @p r failed. */
static int
make_segs(struct session *s, const struct mr_record *from, const struct mr_origin *o, struct map_files *f, struct request *r)
{
	uint64_t va = from->addr;

	for (uint32_t i = 0; i < f->n; i++, o++) {
		bool remote = o->offset == MR_ORIGIN_REMOTE;

		if (o->va != va || o->length == 0 || o->va + o->length < o->va || (remote && s->owner.mem_fd < 0) ||
		    (!remote && (o->offset > UINT64_C(1) << SESSION_MEM_SHIFT || o->length > (UINT64_C(1) << SESSION_MEM_SHIFT) - o->offset ||
				 ((o->offset ^ o->va) & 4095) != 0)))
			return req_fail(r, EINVAL, "MR of key %#x: piece %u isn't where memory can be", from->key, i);
		f->segs[i] = (struct ctl_seg){ .va = o->va, .length = o->length, .offset = remote ? 0 : o->offset,
					       .kind = remote ? CTL_SEG_REMOTE : CTL_SEG_CONVERTED };
		obj_mr_plan(s, &f->segs[i], &f->plans[i]);
		va += o->length;
	}
	return 0;
}

/** Make an MR of a program's memory. */
static int
of_program(struct session *s, const struct mr_record *from, struct obj_mr *mr, struct request *r)
{
	const uint32_t writes = UROCE_ACCESS_LOCAL_WRITE | UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_ATOMIC;
	const struct ctl_req req = { .mr_reg = { .access = from->access, .addr = from->addr, .length = from->length, .iova = from->iova } };
	struct request made = { .req = &req };
	struct map_build b = { .session = s, .request = &made, .writable = (from->access & writes) != 0, .maps = &mr->maps, .key = from->key };
	struct map_files f = { .session = s, .n = from->nb_origins };
	int rc = ENOMEM;

	f.segs = calloc(f.n + 1, sizeof(*f.segs));
	f.plans = calloc(f.n + 1, sizeof(*f.plans));
	if (f.segs != NULL && f.plans != NULL)
		rc = make_segs(s, from, (const void *)(from + 1), &f, &made);
	if (rc == 0)
		rc = obj_mr_create(&b, &f, mr, NULL);
	if (rc != 0) {
		memmap_release(s, &mr->maps);
		req_fail(r, rc, "%s", made.message);
	}
	free(f.segs);
	free(f.plans);
	return rc;
}

/** Make a null MR, or one of device memory. */
static int
of_ours(struct session *s, const struct mr_record *from, struct obj_mr *mr, struct request *r)
{
	struct mem_seg seg;
	struct mr_params p = { .pd = mr->pd->id, .access = from->access, .key = from->key, .null = from->null != 0 };
	int rc;

	if (!p.null) {
		struct obj_dm *dm = obj_get(s, OBJ_DM, from->dm, r);

		if (dm == NULL)
			return EINVAL;
		if (from->dm_offset > dm->length || from->length > dm->length - from->dm_offset)
			return req_fail(r, EINVAL, "MR of key %#x isn't inside its device memory", from->key);
		seg = (struct mem_seg){ .length = from->length, .host = dm->block.addr + from->dm_offset };
		p.segs = &seg;
		p.nb_segs = from->length != 0;
		p.length = from->length;
		mr->dm = dm;
		dm->obj.users++;
	}
	rc = mr_create(s->control->s.sh.mrs, &p, &mr->mr);
	return rc == 0 ? 0 : req_fail(r, rc, "MR of key %#x: %s", from->key, rc == EEXIST ? "the key is taken" : strerror(rc));
}

static int
restore(struct session *s, const struct mr_record *from, struct request *r)
{
	uint64_t charged = from->null != 0 || from->dm != HANDLE_NONE || (from->access & UROCE_ACCESS_ON_DEMAND) ? 0 : from->length;
	struct obj_pd *pd = obj_get(s, OBJ_PD, from->pd, r);
	struct obj_mr *mr;
	int rc;

	if (pd == NULL)
		return EINVAL;
	if (from->nb_origins > UROCE_MAX_MR_SEGS || from->nb_origins * sizeof(struct mr_origin) > stream_tail(from, sizeof(*from)))
		return req_fail(r, EINVAL, "MR of key %#x: %u pieces aren't in its record", from->key, from->nb_origins);
	mr = obj_new_as(s, OBJ_MR, sizeof(*mr), from->handle, r, &rc);
	if (mr == NULL)
		return rc;
	mr->session = s;
	mr->pd = pd;
	mr->charged = charged;
	quota_charge(s, QUOTA_memory, charged);
	rc = from->null != 0 || from->dm != HANDLE_NONE ? of_ours(s, from, mr, r) : of_program(s, from, mr, r);
	if (rc != 0) {
		obj_mr_forget(s, mr);
		return rc;
	}
	pd->obj.users++;
	return 0;
}

int
obj_mr_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct mr_record *from;
	int rc = 0;

	while (rc == 0 && (from = stream_next(in, RECORD_OBJ_MR, sizeof(*from))) != NULL)
		rc = restore(s, from, r);
	return rc;
}
