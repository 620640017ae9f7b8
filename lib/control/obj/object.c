/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/quota_priv.h"
#include "control/obj/object_priv.h"

static const struct {
	const char *name;
	const char *limit; /**< the configuration key of the limit */
} types[OBJ_TYPES] = {
	[OBJ_PD] = { "PD", "max_pd" },
	[OBJ_MR] = { "MR", "max_mr" },
	[OBJ_MW] = { "MW", "max_mr" },
	[OBJ_CHANNEL] = { "completion channel", "max_cq" },
	[OBJ_CQ] = { "CQ", "max_cq" },
	[OBJ_SRQ] = { "SRQ", "max_srq" },
	[OBJ_QP] = { "QP", "max_qp" },
	[OBJ_AH] = { "AH", "max_ah" },
	[OBJ_XRCD] = { "XRC domain", "max_pd" },
	[OBJ_CM_ID] = { "CM id", "max_cm_id" },
	[OBJ_CM_GROUP] = { "CM group", "max_cm_id" },
};

void *
obj_new(struct session *s, enum obj_type type, size_t bytes, struct request *r, int *rc)
{
	struct control *c = s->control;
	struct obj *o;

	if (c->count[type] >= c->limit[type]) {
		*rc = req_fail(r, ENOMEM, "uroced has %u %ss already; raise daemon.%s", c->count[type],
			       types[type].name, types[type].limit);
		return NULL;
	}
	*rc = quota_object(s, type, types[type].name, r);
	if (*rc != 0)
		return NULL;
	o = calloc(1, bytes);
	if (o != NULL)
		o->handle = handles_add(&s->tab[type], o);
	if (o == NULL || o->handle == HANDLE_NONE) {
		free(o);
		*rc = req_fail(r, ENOMEM, "no memory for the %s", types[type].name);
		return NULL;
	}
	c->count[type]++;
	s->user->count[type]++;
	return o;
}

void
obj_free(struct session *s, enum obj_type type, struct obj *o)
{
	UROCE_ASSERT(handles_get(&s->tab[type], o->handle) == o);
	UROCE_ASSERT(o->users == 0);
	UROCE_ASSERT(s->control->count[type] > 0 && s->user->count[type] > 0);
	handles_remove(&s->tab[type], o->handle);
	s->control->count[type]--;
	s->user->count[type]--;
	free(o);
}

void *
obj_get(struct session *s, enum obj_type type, uint32_t handle, struct request *r)
{
	void *o = handles_get(&s->tab[type], handle);

	if (o == NULL)
		req_fail(r, EINVAL, "%#x is no handle of a %s of this session", handle, types[type].name);
	return o;
}

void
obj_announce(struct session *s, struct request *r, const struct shm_block *b, struct ctl_new_segment *seg)
{
	uint64_t bytes;
	int fd = shm_announce(s->shm, b, &bytes);

	if (fd < 0)
		return;
	seg->segment_bytes = bytes;
	seg->segment = b->segment;
	req_send_fd(r, fd, true);
}
