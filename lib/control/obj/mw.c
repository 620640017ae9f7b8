/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: allocated and freed here; engines bind and invalidate them. */
#include "control/core/old_journals_priv.h"
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
	if (obj_pd_is_shared(pd))
		return req_fail(r, EOPNOTSUPP, "the PD is shared with another program: it can have no memory windows");
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

struct mw_record {
	struct record_head head;
	struct mw_state state;
	uint32_t handle, pd;
};

int
obj_mw_save(struct session *s, void *obj, struct stream_out *o)
{
	const struct obj_mw *w = obj;
	struct mw_record r = { .handle = w->obj.handle, .pd = w->pd->obj.handle };

	mw_save(w->mw, &r.state);
	stream_put(o, RECORD_OBJ_MW, &r, sizeof(r), NULL, 0);
	return 0;
}

/** @return what the window was when the daemon before ended: after a crash engines may have bound it since its record was written. */
static struct mw_state
last_state(const struct control *c, const struct mw_record *from)
{
	struct mw_state now;

	if (!old_window(c, from->state.key, &now) || now.pd != from->state.pd || now.type != from->state.type)
		return from->state;
	return now;
}

int
obj_mw_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct mw_record *from;
	struct mw_state state;
	struct obj_pd *pd;
	struct obj_mw *w;
	int rc = 0;

	while ((from = stream_next(in, RECORD_OBJ_MW, sizeof(*from))) != NULL) {
		pd = obj_get(s, OBJ_PD, from->pd, r);
		if (pd == NULL)
			return EINVAL;
		w = obj_new_as(s, OBJ_MW, sizeof(*w), from->handle, r, &rc);
		if (w == NULL)
			return rc;
		state = last_state(s->control, from);
		rc = state.pd == pd->id ? mw_restore(s->control->s.sh.mrs, &state, &w->mw) : EINVAL;
		if (rc != 0) {
			obj_free(s, OBJ_MW, &w->obj);
			return req_fail(r, rc, "memory window of key %#x: it can't have been as its record says, or the key is taken",
					from->state.key);
		}
		w->pd = pd;
		pd->obj.users++;
	}
	return rc;
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
