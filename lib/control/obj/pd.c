/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/obj/object_priv.h"

/** Begin the ring of a PD that is the only one with its id, or join that of @p same. */
static void
pd_join(struct obj_pd *pd, struct obj_pd *same)
{
	pd->next = pd->before = pd;
	if (same == NULL)
		return;
	pd->id = same->id;
	pd->imported = true;
	pd->next = same->next;
	pd->before = same;
	same->next->before = pd;
	same->next = pd;
}

struct obj_pd *
obj_pd_import(struct session *s, struct obj_pd *same, struct request *r, int *rc)
{
	struct obj_pd *pd = obj_new(s, OBJ_PD, sizeof(*pd), r, rc);

	if (pd != NULL)
		pd_join(pd, same);
	return pd;
}

int
op_pd_alloc(struct session *s, struct request *r)
{
	struct obj_pd *pd;
	int rc = 0;

	pd = obj_new(s, OBJ_PD, sizeof(*pd), r, &rc);
	if (pd == NULL)
		return rc;
	pd->id = handles_add(&s->control->pd_ids, pd);
	if (pd->id == HANDLE_NONE) {
		obj_free(s, OBJ_PD, &pd->obj);
		return req_fail(r, ENOMEM, "no memory for the PD");
	}
	pd_join(pd, NULL);
	r->rsp.handle.handle = pd->obj.handle;
	return 0;
}

void
obj_pd_destroy(struct session *s, struct obj_pd *pd)
{
	if (!obj_pd_is_shared(pd))
		handles_remove(&s->control->pd_ids, pd->id);
	pd->next->before = pd->before;
	pd->before->next = pd->next;
	obj_free(s, OBJ_PD, &pd->obj);
}

struct pd_record {
	struct record_head head;
	uint32_t handle, id;
};

int
obj_pd_save(struct session *s, void *obj, struct stream_out *o)
{
	const struct obj_pd *pd = obj;
	const struct pd_record r = { .handle = pd->obj.handle, .id = pd->id };

	if (pd->imported)
		return EOPNOTSUPP;
	stream_put(o, RECORD_OBJ_PD, &r, sizeof(r), NULL, 0);
	return 0;
}

int
obj_pd_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct pd_record *from;
	struct obj_pd *pd;
	int rc = 0;

	while ((from = stream_next(in, RECORD_OBJ_PD, sizeof(*from))) != NULL) {
		pd = obj_new_as(s, OBJ_PD, sizeof(*pd), from->handle, r, &rc);
		if (pd == NULL)
			return rc;
		pd->id = from->id;
		if (!handles_add_as(&s->control->pd_ids, pd, pd->id)) {
			obj_free(s, OBJ_PD, &pd->obj);
			return req_fail(r, EEXIST, "PD %u: its number is taken", from->id);
		}
		pd_join(pd, NULL);
	}
	return rc;
}

int
op_pd_free(struct session *s, struct request *r)
{
	struct obj_pd *pd = r->obj;

	if (pd->obj.users > 0)
		return req_fail(r, EBUSY, "%u objects use the PD; destroy them first", pd->obj.users);
	/* What others have in a PD that they imported holds it, as what its owner has. */
	for (const struct obj_pd *same = pd->next; !pd->imported && same != pd; same = same->next)
		if (same->obj.users > 0)
			return req_fail(r, EBUSY, "%u objects of a program that imported the PD use it", same->obj.users);
	obj_pd_destroy(s, pd);
	return 0;
}
