/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory, which the daemon has and the program maps, and null MRs: regions that aren't of the program's memory. */
#include "verbs/client_priv.h"

/* As on NICs that have such memory: they copy words. */
#define DM_WORD UINT64_C(4)

struct client_dm {
	struct ibv_dm dm;
	uint8_t *memory;
	uint64_t length;
};

/* @return 0 or an errno value. */
static int
check_copy(const struct client_dm *dm, uint64_t offset, size_t length)
{
	if ((offset | length) % DM_WORD != 0 || offset > dm->length || length > dm->length - offset)
		return EINVAL;
	return to_ctx(dm->dm.context)->foreign ? EIO : 0;
}

static int
dm_write(struct ibv_dm *ibdm, uint64_t offset, const void *from, size_t length)
{
	struct client_dm *dm = container_of(ibdm, struct client_dm, dm);
	int err = check_copy(dm, offset, length);

	if (!err)
		memcpy(dm->memory + offset, from, length);
	return err;
}

static int
dm_read(void *to, struct ibv_dm *ibdm, uint64_t offset, size_t length)
{
	struct client_dm *dm = container_of(ibdm, struct client_dm, dm);
	int err = check_copy(dm, offset, length);

	if (!err)
		memcpy(to, dm->memory + offset, length);
	return err;
}

static int
dm_request(struct client_ctx *ctx, struct client_dm *dm, uint32_t log_align)
{
	const struct ctl_dm_alloc_rsp *r;
	struct client_call c;
	int err;

	if (ctx->foreign)
		return EIO;
	client_call_init(&c, CTL_DM_ALLOC);
	c.req.dm_alloc = (struct ctl_dm_alloc_req){ .length = dm->length, .log_align = log_align };
	r = &c.rsp.dm_alloc;
	pthread_mutex_lock(&ctx->ctl_lock);
	err = client_call_locked(ctx, &c);
	if (!err) {
		err = client_segment_add(ctx, &r->seg, &c);
		dm->memory = err ? NULL : client_area(ctx, &r->memory, dm->length);
		if (!dm->memory) {
			err = err ? err : EPROTO;
			client_give_back(ctx, CTL_DM_FREE, r->handle);
		}
	}
	pthread_mutex_unlock(&ctx->ctl_lock);
	client_call_close_fds(&c, 0);
	dm->dm.handle = r->handle;
	return err;
}

struct ibv_dm *
client_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct client_dm *dm;
	int err;

	if (attr->comp_mask)
		return client_null(EINVAL);
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return client_null(ENOMEM);
	dm->length = attr->length;
	dm->dm = (struct ibv_dm){
		.context = context,
		.memcpy_to_dm = dm_write,
		.memcpy_from_dm = dm_read,
		.comp_mask = IBV_DM_MASK_HANDLE,
	};
	err = dm_request(to_ctx(context), dm, attr->log_align_req);
	if (err) {
		free(dm);
		return client_null(err);
	}
	return &dm->dm;
}

int
client_free_dm(struct ibv_dm *dm)
{
	int err = client_destroy_handle(to_ctx(dm->context), CTL_DM_FREE, dm->handle);

	if (!err)
		free(container_of(dm, struct client_dm, dm));
	return err;
}

/* @param length,access  Of the MR. @param c  The request for it. @return the MR, which has an rkey if peers may use it. */
static struct ibv_mr *
region(struct ibv_pd *pd, size_t length, unsigned int access, struct client_call *c, bool has_rkey)
{
	struct client_mr *m = calloc(1, sizeof(*m));
	int err = m ? client_call(to_ctx(pd->context), c) : ENOMEM;

	if (err) {
		free(m);
		return client_null(err);
	}
	m->access = access;
	m->fixed = true;
	m->mr = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.length = length,
		.handle = c->rsp.mr_reg.handle,
		.lkey = c->rsp.mr_reg.lkey,
		.rkey = has_rkey ? c->rsp.mr_reg.lkey : 0,
	};
	return &m->mr;
}

struct ibv_mr *
client_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned int access)
{
	struct client_call c;

	if (!dm || dm->context != pd->context)
		return client_null(EINVAL);
	client_call_init(&c, CTL_DM_REG);
	c.req.dm_reg = (struct ctl_dm_reg_req){
		.pd = pd->handle,
		.dm = dm->handle,
		.offset = offset,
		.length = length,
		.access = access,
	};
	return region(pd, length, access, &c, true);
}

struct ibv_mr *
client_alloc_null_mr(struct ibv_pd *pd)
{
	struct client_call c;

	client_call_init(&c, CTL_MR_NULL);
	c.req.handle.handle = pd->handle;
	return region(pd, SIZE_MAX, UROCE_ACCESS_LOCAL_WRITE, &c, false);
}
