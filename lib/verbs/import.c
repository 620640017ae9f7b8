/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PDs and MRs of another program's context. An imported PD is one of our session that is the same as the other's. An imported MR is no more than its
 * key: the memory is the other program's, and the MR lives and ends there. ibv_import_device() is in devlist.c.
 */
#include "verbs/client_priv.h"

CLIENT_EXPORT struct ibv_pd *
ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct client_call c;

	client_call_init(&c, CTL_PD_IMPORT);
	c.req.handle.handle = handle;
	return client_pd_new(context, &c);
}

/* QPs that still use it go on doing so. Then it ends with the context. */
CLIENT_EXPORT void
ibv_unimport_pd(struct ibv_pd *ibpd)
{
	struct client_pd *pd = (struct client_pd *)ibpd;
	struct client_ctx *ctx = to_ctx(ibpd->context);

	if (pd->domains || client_bounce_retire(pd) || client_destroy_handle(ctx, CTL_PD_FREE, ibpd->handle)) {
		pthread_mutex_lock(&ctx->ctl_lock);
		pd->next_left = ctx->left;
		ctx->left = pd;
		pthread_mutex_unlock(&ctx->ctl_lock);
		return;
	}
	client_bounce_end(pd);
	free(pd);
}

void
client_pds_left(struct client_ctx *ctx)
{
	struct client_pd *pd;

	while ((pd = ctx->left)) {
		ctx->left = pd->next_left;
		client_bounce_end(pd);
		free(pd);
	}
}

CLIENT_EXPORT struct ibv_mr *
ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct client_mr *m = calloc(1, sizeof(*m));
	struct client_call c;
	int err;

	client_call_init(&c, CTL_MR_IMPORT);
	c.req.mr_import.pd = pd->handle;
	c.req.mr_import.mr = handle;
	err = m ? client_call(to_ctx(pd->context), &c) : ENOMEM;
	if (err) {
		free(m);
		return client_null(err);
	}
	m->fixed = true;
	m->imported = true;
	m->mr = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.length = c.rsp.mr_import.length,
		.handle = handle,
		.lkey = c.rsp.mr_import.lkey,
		.rkey = c.rsp.mr_import.lkey,
	};
	return &m->mr;
}

CLIENT_EXPORT void
ibv_unimport_mr(struct ibv_mr *mr)
{
	free(mr);
}
