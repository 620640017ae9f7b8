/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/obj/obj_path_priv.h"
#include "control/obj/obj_qp_priv.h"
#include "control/obj/own_address_priv.h"
#include "transport/record/record.h"

static void
enter(struct session *s, struct obj_ah *ah, struct obj_pd *pd)
{
	LIST_INSERT_HEAD(&s->ahs[ah->wqe_handle % SESSION_AH_BUCKETS], ah, link);
	ah->pd = pd;
	pd->obj.users++;
}

/** [request_resume_fn] Create the AH once its MAC address is known. */
static int
create(struct session *s, struct request *r, int rc, const uint8_t mac[6])
{
	const struct ctl_ah_create_req *q = &r->req->ah_create;
	struct tp_path path;
	struct obj_pd *pd;
	struct obj_ah *ah;

	if (rc != 0)
		return rc;
	pd = obj_get(s, OBJ_PD, q->pd, r);
	if (pd == NULL)
		return EINVAL;
	ah = obj_new(s, OBJ_AH, sizeof(*ah), r, &rc);
	if (ah == NULL)
		return rc;
	path_make(s, &q->attr, mac, WIRE_PKEY_DEFAULT, &path);
	rc = ah_create(s->control->s.sh.ahs, pd->id, &path, &ah->wqe_handle);
	if (rc != 0) {
		obj_free(s, OBJ_AH, &ah->obj);
		return req_fail(r, rc, "no memory for the AH");
	}
	ah->sgid_index = q->attr.sgid_index;
	enter(s, ah, pd);
	r->rsp.handle.handle = ah->wqe_handle;
	return 0;
}

int
op_ah_create(struct session *s, struct request *r)
{
	const struct ctl_ah_create_req *q = &r->req->ah_create;
	uint8_t mac[6];
	int rc;

	if (obj_get(s, OBJ_PD, q->pd, r) == NULL)
		return EINVAL;
	rc = path_resolve(s, r, &q->attr, create, mac);
	return rc == EINPROGRESS ? rc : create(s, r, rc, mac);
}

void
obj_ah_destroy(struct session *s, struct obj_ah *ah)
{
	ah_destroy(s->control->s.sh.ahs, ah->wqe_handle);
	LIST_REMOVE(ah, link);
	ah->pd->obj.users--;
	obj_free(s, OBJ_AH, &ah->obj);
}

int
op_ah_destroy(struct session *s, struct request *r)
{
	uint32_t handle = r->req->handle.handle;
	struct obj_ah *ah;

	LIST_FOREACH(ah, &s->ahs[handle % SESSION_AH_BUCKETS], link) {
		if (ah->wqe_handle == handle) {
			if (obj_qps_send_posted(s, ah->pd))
				return EALREADY;
			obj_ah_destroy(s, ah);
			return 0;
		}
	}
	return req_fail(r, EINVAL, "%#x is no handle of an AH of this session", handle);
}

/* ---- A daemon goes, another one comes ---- */
struct obj_ah_record {
	struct record_head head;
	uint32_t handle, pd;
};

int
obj_ah_save(struct session *s, void *obj, struct stream_out *o)
{
	const struct obj_ah *ah = obj;
	const struct obj_ah_record r = { .handle = ah->obj.handle, .pd = ah->pd->obj.handle };
	struct ah_record *to;

	stream_put(o, RECORD_OBJ_AH, &r, sizeof(r), NULL, 0);
	to = stream_reserve(o, sizeof(*to));
	return to != NULL ? ah_save(s->control->s.sh.ahs, ah->wqe_handle, ah->pd->id, to) : ENOMEM;
}

int
obj_ah_restore(struct session *s, struct stream_in *in, struct request *r)
{
	const struct obj_ah_record *from;
	const struct ah_record *record;
	const char *why = "its record is missing";
	struct obj_pd *pd;
	struct obj_ah *ah;
	uint32_t room = 0;
	int rc = 0;

	while ((from = stream_next(in, RECORD_OBJ_AH, sizeof(*from))) != NULL) {
		pd = obj_get(s, OBJ_PD, from->pd, r);
		if (pd == NULL)
			return EINVAL;
		ah = obj_new_as(s, OBJ_AH, sizeof(*ah), from->handle, r, &rc);
		if (ah == NULL)
			return rc;
		record = stream_foreign(in, &room);
		rc = record == NULL ? EINVAL : ah_restore(s->control->s.sh.ahs, record, room, s->control->s.nb_ports, &why);
		if (rc != 0) {
			obj_free(s, OBJ_AH, &ah->obj);
			return req_fail(r, rc, "AH: %s", why);
		}
		ah->wqe_handle = record->handle;
		ah->sgid_index = own_address_resumed_ah(s, ah->wqe_handle);
		enter(s, ah, pd);
	}
	return rc;
}
