/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: allocated and freed here; engines bind and invalidate them. */
#include "control/obj/obj_mr_priv.h"

int
op_mw_alloc(struct session *s, struct request *r)
{
	const struct ctl_mw_alloc_req *q = &r->req->mw_alloc;
	struct obj_pd *pd = obj_get(s, OBJ_PD, q->pd, r);
	struct obj_mw *o;
	int rc;

	if (pd == NULL)
		return EINVAL;
	o = obj_new(s, OBJ_MW, sizeof(*o), r, &rc);
	if (o == NULL)
		return rc;
	rc = mw_create(s->control->s.sh.mrs, pd->id, q->type, &o->mw);
	if (rc != 0) {
		obj_free(s, OBJ_MW, &o->obj);
		return rc == EINVAL ? req_fail(r, rc, "memory window type %u: must be 1 or 2", q->type) :
				      req_fail(r, rc, "no key left for the memory window");
	}
	o->pd = pd;
	pd->obj.users++;
	r->rsp.mw_alloc.handle = o->obj.handle;
	r->rsp.mw_alloc.rkey = mw_key(o->mw);
	return 0;
}

int
op_mw_free(struct session *s, struct request *r)
{
	struct obj_mw *o = r->obj;

	o->pd->obj.users--;
	mw_destroy_bulk(s->control->s.sh.mrs, &o->mw, 1);
	obj_free(s, OBJ_MW, &o->obj);
	return 0;
}

void
obj_mw_destroy_all(struct session *s)
{
	uint32_t n = s->tab[OBJ_MW].used, pos = 0, i = 0;
	struct mw **mws = n > 0 ? calloc(n, sizeof(struct mw *)) : NULL;
	struct obj_mw *o;

	while ((o = handles_next(&s->tab[OBJ_MW], &pos)) != NULL) {
		if (mws != NULL)
			mws[i++] = o->mw;
		else
			mw_destroy_bulk(s->control->s.sh.mrs, &o->mw, 1);
		o->pd->obj.users--;
		obj_free(s, OBJ_MW, &o->obj);
	}
	if (mws != NULL)
		mw_destroy_bulk(s->control->s.sh.mrs, mws, i);
	free(mws);
}
