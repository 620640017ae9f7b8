/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows: allocated by the daemon, bound by work requests that its engines execute. */
#include "verbs/client_priv.h"

/* The access that a memory window can grant; type 1 is never zero based (o10-36.2.2). */
#define MW_ACCESS_TYPE_1 (UROCE_ACCESS_REMOTE_WRITE | UROCE_ACCESS_REMOTE_READ | UROCE_ACCESS_REMOTE_ATOMIC)
#define MW_ACCESS_TYPE_2 (MW_ACCESS_TYPE_1 | UROCE_ACCESS_ZERO_BASED)
#define RKEY_INDEX 0xffffff00u /* the part of an rkey that the program can't choose */

struct ibv_mw *
client_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw;
	struct client_call c;
	int err;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return client_null(EINVAL);
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return client_null(ENOMEM);
	client_call_init(&c, CTL_MW_ALLOC);
	c.req.mw_alloc = (struct ctl_mw_alloc_req){ .pd = pd->handle, .type = type };
	err = client_call(to_ctx(pd->context), &c);
	if (err) {
		free(mw);
		return client_null(err);
	}
	*mw = (struct ibv_mw){
		.context = pd->context,
		.pd = pd,
		.rkey = c.rsp.mw_alloc.rkey,
		.handle = c.rsp.mw_alloc.handle,
		.type = type,
	};
	return mw;
}

int
client_dealloc_mw(struct ibv_mw *mw)
{
	int err = client_destroy_handle(to_ctx(mw->context), CTL_MW_FREE, mw->handle);

	if (!err)
		free(mw);
	return err;
}

int
client_put_bind(struct ring_sq_wqe *w, const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	/* Local write access is a property of the MR. Programs set it here too, and drivers ignore it. */
	uint32_t access = info->mw_access_flags & ~(uint32_t)UROCE_ACCESS_LOCAL_WRITE;
	uint32_t granted = mw->type == IBV_MW_TYPE_1 ? MW_ACCESS_TYPE_1 : MW_ACCESS_TYPE_2;

	if ((rkey ^ mw->rkey) & RKEY_INDEX)
		return EINVAL;
	if (access & ~granted || (info->length && !info->mr))
		return EINVAL;
	wqe_put_remote(w, info->addr, rkey);
	wqe_put_bind(w, info->length, info->mr ? info->mr->lkey : 0, access);
	return 0;
}

/* The memory window's new key is valid once the bind has completed (man ibv_bind_mw). */
int
client_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = { .mw = mw, .rkey = ibv_inc_rkey(mw->rkey), .bind_info = bind->bind_info },
	};
	struct ibv_send_wr *bad;
	int err;

	if (mw->pd->handle != qp->pd->handle)
		return EPERM;
	err = ibv_post_send(qp, &wr, &bad);
	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}
