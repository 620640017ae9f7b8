/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/core/quota_priv.h"
#include "control/obj/object_priv.h"

/** What the engines and lib/cm keep of an object, roughly, and the C library for each piece of memory. */
enum { BYTES_QP = 2560, BYTES_CQ = 512, BYTES_SRQ = 512, BYTES_MR = 192, BYTES_MW = 192, BYTES_AH = 192, BYTES_CM = 1024, BYTES_LITTLE = 64 };

static const struct {
	const char *name;
	const char *limit; /**< the configuration key of the daemon's limit */
	enum quota share;  /**< whose limits are those of programs and users */
	uint32_t bytes;    /**< metadata, in addition to the struct of lib/control */
	uint32_t fds;
} types[OBJ_TYPES] = {
	[OBJ_PD] = { "PD", "max_pd", QUOTA_pd, BYTES_LITTLE },
	[OBJ_MR] = { "MR", "max_mr", QUOTA_mr, BYTES_MR },
	[OBJ_MW] = { "MW", "max_mr", QUOTA_mr, BYTES_MW },
	[OBJ_DM] = { "DM", "max_mr", QUOTA_mr, BYTES_LITTLE },
	[OBJ_CHANNEL] = { "completion channel", "max_cq", QUOTA_channel, BYTES_LITTLE, 1 },
	[OBJ_CQ] = { "CQ", "max_cq", QUOTA_cq, BYTES_CQ },
	[OBJ_SRQ] = { "SRQ", "max_srq", QUOTA_srq, BYTES_SRQ },
	[OBJ_QP] = { "QP", "max_qp", QUOTA_qp, BYTES_QP },
	[OBJ_AH] = { "AH", "max_ah", QUOTA_ah, BYTES_AH },
	[OBJ_XRCD] = { "XRC domain", "max_pd", QUOTA_xrcd, BYTES_LITTLE, 1 },
	[OBJ_CM_ID] = { "CM id", "max_cm_id", QUOTA_cm_id, BYTES_CM },
	[OBJ_CM_GROUP] = { "CM group", "max_cm_id", QUOTA_cm_group, BYTES_LITTLE },
};

/** Charge the session with an object. @return 0, or ENOMEM, with @p r failed. */
static int
take(struct session *s, enum obj_type type, uint32_t bytes, struct request *r)
{
	int rc = quota_take(s, types[type].share, 1, r);

	if (rc != 0)
		return rc;
	rc = quota_take(s, QUOTA_fd, types[type].fds, r);
	if (rc != 0)
		goto fail_share;
	rc = quota_take(s, QUOTA_metadata, bytes, r);
	if (rc != 0)
		goto fail_fds;
	return 0;
fail_fds:
	quota_give(s, QUOTA_fd, types[type].fds);
fail_share:
	quota_give(s, types[type].share, 1);
	return rc;
}

static void
give(struct session *s, enum obj_type type, uint32_t bytes)
{
	quota_give(s, QUOTA_metadata, bytes);
	quota_give(s, QUOTA_fd, types[type].fds);
	quota_give(s, types[type].share, 1);
}

void
obj_move(struct session *from, struct session *to, enum obj_type type, const struct obj *o)
{
	quota_move(from, to, QUOTA_metadata, o->bytes);
	quota_move(from, to, QUOTA_fd, types[type].fds);
	quota_move(from, to, types[type].share, 1);
}

/** @return true: journals know the object by a number. */
static bool
is_numbered(enum obj_type type)
{
	return type == OBJ_CQ || type == OBJ_SRQ;
}

/** Give @p o its handle, and its number. @param as  The handle, or NULL: a new one. @return false: no memory, or the handle is taken. */
static bool
enter(struct session *s, enum obj_type type, struct obj *o, const uint32_t *as)
{
	struct handles *numbers = &s->control->numbers[type];

	o->number = HANDLE_NONE;
	if (is_numbered(type)) {
		o->number = handles_add(numbers, o);
		if (o->number == HANDLE_NONE)
			return false;
	}
	if (as == NULL)
		o->handle = handles_add(&s->tab[type], o);
	else
		o->handle = handles_add_as(&s->tab[type], o, *as) ? *as : HANDLE_NONE;
	if (o->handle == HANDLE_NONE && is_numbered(type))
		handles_remove(numbers, o->number);
	return o->handle != HANDLE_NONE;
}

/** Make an object, with a new handle or with *@p as. @return as obj_new(). */
static void *
make(struct session *s, enum obj_type type, size_t bytes, const uint32_t *as, struct request *r, int *rc)
{
	struct control *c = s->control;
	uint32_t all_bytes = (uint32_t)bytes + types[type].bytes;
	struct obj *o;

	if (c->count[type] >= c->limit[type]) {
		*rc = req_fail(r, ENOMEM, "uroced has %u %ss already; raise daemon.%s", c->count[type],
			       types[type].name, types[type].limit);
		return NULL;
	}
	*rc = take(s, type, all_bytes, r);
	if (*rc != 0)
		return NULL;
	o = calloc(1, bytes);
	if (o == NULL || !enter(s, type, o, as)) {
		free(o);
		give(s, type, all_bytes);
		*rc = req_fail(r, ENOMEM, "no memory for the %s", types[type].name);
		return NULL;
	}
	o->bytes = all_bytes;
	o->saved = saved_new(c, &s->saved, type, o);
	c->count[type]++;
	return o;
}

void *
obj_new(struct session *s, enum obj_type type, size_t bytes, struct request *r, int *rc)
{
	return make(s, type, bytes, NULL, r, rc);
}

void *
obj_new_as(struct session *s, enum obj_type type, size_t bytes, uint32_t handle, struct request *r, int *rc)
{
	return make(s, type, bytes, &handle, r, rc);
}

void
obj_free(struct session *s, enum obj_type type, struct obj *o)
{
	UROCE_ASSERT(handles_get(&s->tab[type], o->handle) == o);
	UROCE_ASSERT(o->users == 0);
	UROCE_ASSERT(s->control->count[type] > 0);
	handles_remove(&s->tab[type], o->handle);
	if (is_numbered(type))
		handles_remove(&s->control->numbers[type], o->number);
	saved_end(s->control, &o->saved);
	s->control->count[type]--;
	give(s, type, o->bytes);
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

int
obj_ring_alloc(struct session *s, uint64_t bytes, const char *what, struct shm_block *b, struct request *r)
{
	int rc;

	if (shm_alloc(s->shm, bytes, b) != 0)
		return req_fail(r, ENOMEM, "no memory for the queues of the %s (daemon.session_max_rings is %u MiB)", what,
				s->control->s.conf->session_max_rings);
	rc = quota_take(s, QUOTA_rings, b->bytes, r);
	if (rc != 0)
		shm_free(s->shm, b);
	return rc;
}

int
obj_ring_take(struct session *s, const struct block_record *from, struct shm_block *b, struct request *r)
{
	int rc = shm_take(s->shm, from->segment, from->offset, from->bytes, b);

	if (rc != 0)
		return req_fail(r, rc, "its queues aren't in the session's memory");
	quota_charge(s, QUOTA_rings, b->bytes);
	return 0;
}

void
obj_ring_free(struct session *s, const struct shm_block *b)
{
	quota_give(s, QUOTA_rings, b->bytes);
	shm_free(s->shm, b);
}

static void
send_segment(struct request *r, const struct shm_block *b, int fd, uint64_t bytes, struct ctl_new_segment *seg)
{
	seg->segment_bytes = bytes;
	seg->segment = b->segment;
	req_send_fd(r, fd, false);
}

bool
obj_announce(struct session *s, struct request *r, const struct shm_block *b, struct ctl_new_segment *seg)
{
	uint64_t bytes;
	int fd = shm_announce(s->shm, b, &bytes);

	if (fd < 0)
		return false;
	send_segment(r, b, fd, bytes, seg);
	/* Too late to refuse it. How many there can be follows from session_max_rings. */
	quota_charge(s, QUOTA_fd, 1);
	saved_new(s->control, &s->saved, SAVED_SEGMENT, (void *)(uintptr_t)b->segment);
	return true;
}

void
obj_announce_again(struct session *s, struct request *r, const struct shm_block *b, struct ctl_new_segment *seg)
{
	uint64_t bytes;
	int fd = shm_announce_again(s->shm, b, &bytes);

	send_segment(r, b, fd, bytes, seg);
}
