/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/obj/object_priv.h"

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
	r->rsp.handle.handle = pd->obj.handle;
	return 0;
}

void
obj_pd_destroy(struct session *s, struct obj_pd *pd)
{
	handles_remove(&s->control->pd_ids, pd->id);
	obj_free(s, OBJ_PD, &pd->obj);
}

int
op_pd_free(struct session *s, struct request *r)
{
	struct obj_pd *pd = r->obj;

	if (pd->obj.users > 0)
		return req_fail(r, EBUSY, "%u objects use the PD; destroy them first", pd->obj.users);
	obj_pd_destroy(s, pd);
	return 0;
}
