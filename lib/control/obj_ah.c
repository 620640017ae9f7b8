/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>

#include "control_priv.h"

int
op_ah_create(struct session *s, struct request *r)
{
	const struct ctl_ah_create_req *q = &r->req->ah_create;
	uint8_t mac[6];
	int rc;

	if (obj_get(s, OBJ_PD, q->pd, r) == NULL)
		return EINVAL;
	rc = path_resolve(s, r, &q->attr, mac);
	return rc == 0 ? op_ah_create_resolved(s, r, mac) : rc;
}

int
op_ah_create_resolved(struct session *s, struct request *r, const uint8_t mac[6])
{
	const struct ctl_ah_create_req *q = &r->req->ah_create;
	struct obj_pd *pd = obj_get(s, OBJ_PD, q->pd, r);
	struct obj_ah *ah;
	int rc = 0;

	if (pd == NULL)
		return EINVAL;
	ah = obj_new(s, OBJ_AH, sizeof(*ah), r, &rc);
	if (ah == NULL)
		return rc;
	ah->pd = pd;
	pd->obj.users++;
	path_make(s, &q->attr, mac, s->port->conf.pkeys[0], &ah->path);
	r->rsp.handle.handle = ah->obj.handle;
	return 0;
}

void
obj_ah_destroy(struct session *s, struct obj_ah *ah)
{
	ah->pd->obj.users--;
	obj_free(s, OBJ_AH, &ah->obj);
}

int
op_ah_destroy(struct session *s, struct request *r)
{
	struct obj_ah *ah = obj_get(s, OBJ_AH, r->req->handle.handle, r);

	if (ah == NULL)
		return EINVAL;
	obj_ah_destroy(s, ah);
	return 0;
}
