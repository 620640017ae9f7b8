/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side of the control protocol (lib/ring/ctl.h). */
#include "verbs/client_priv.h"

#include <sys/mman.h>
#include <unistd.h>

static const char *const op_names[CTL_OPS] = {
	[CTL_HELLO] = "hello",
	[CTL_MEMORY] = "memory",
	[CTL_DEVICE_GET] = "ibv_get_device_list",
	[CTL_DEVICE_OPEN] = "ibv_open_device",
	[CTL_DEVICE_QUERY] = "ibv_query_device",
	[CTL_PORT_QUERY] = "ibv_query_port",
	[CTL_GID_TABLE] = "ibv_query_gid",
	[CTL_PD_ALLOC] = "ibv_alloc_pd",
	[CTL_PD_FREE] = "ibv_dealloc_pd",
	[CTL_MR_REG] = "ibv_reg_mr",
	[CTL_MR_SEGS] = "ibv_reg_mr",
	[CTL_MR_DEREG] = "ibv_dereg_mr",
	[CTL_CQ_CREATE] = "ibv_create_cq",
	[CTL_CQ_RESIZE] = "ibv_resize_cq",
	[CTL_CQ_MODIFY] = "ibv_modify_cq",
	[CTL_CQ_DESTROY] = "ibv_destroy_cq",
	[CTL_SRQ_CREATE] = "ibv_create_srq",
	[CTL_SRQ_MODIFY] = "ibv_modify_srq",
	[CTL_SRQ_QUERY] = "ibv_query_srq",
	[CTL_SRQ_DESTROY] = "ibv_destroy_srq",
	[CTL_QP_CREATE] = "ibv_create_qp",
	[CTL_QP_MODIFY] = "ibv_modify_qp",
	[CTL_QP_QUERY] = "ibv_query_qp",
	[CTL_QP_DESTROY] = "ibv_destroy_qp",
	[CTL_AH_CREATE] = "ibv_create_ah",
	[CTL_AH_DESTROY] = "ibv_destroy_ah",
	[CTL_MCAST_ATTACH] = "ibv_attach_mcast",
	[CTL_MCAST_DETACH] = "ibv_detach_mcast",
	[CTL_MW_ALLOC] = "ibv_alloc_mw",
	[CTL_MW_FREE] = "ibv_dealloc_mw",
	[CTL_MR_NULL] = "ibv_alloc_null_mr",
	[CTL_DM_ALLOC] = "ibv_alloc_dm",
	[CTL_DM_FREE] = "ibv_free_dm",
	[CTL_DM_REG] = "ibv_reg_dm_mr",
	[CTL_XRCD_OPEN] = "ibv_open_xrcd",
	[CTL_XRCD_CLOSE] = "ibv_close_xrcd",
	[CTL_QP_OPEN] = "ibv_open_qp",
	[CTL_CHANNEL_CREATE] = "ibv_create_comp_channel",
	[CTL_CHANNEL_DESTROY] = "ibv_destroy_comp_channel",
	[CTL_DEVICE_IMPORT] = "ibv_import_device",
	[CTL_PD_IMPORT] = "ibv_import_pd",
	[CTL_MR_IMPORT] = "ibv_import_mr",
};

void
client_connection_lost(struct client_ctx *ctx, const char *what)
{
	if (!atomic_exchange(&ctx->lost, true))
		client_complain("%s: the connection to uroced is lost: it was stopped or died. Open the device anew when it runs again",
				what);
}

int
client_call_locked(struct client_ctx *ctx, struct client_call *c)
{
	bool was_broken = ctx->broken;
	int err;

	/* After fork() the child shares its parent's connection; it must not send requests on its parent's behalf. */
	if (ctx->foreign || ctx->broken)
		return EIO;
	c->wait = ctx->wait;
	err = client_exchange(ctx->sock, c, &ctx->broken);
	if (ctx->broken && !was_broken)
		client_connection_lost(ctx, op_names[c->req.op]);
	else if (err && c->rsp.message[0] && !c->quiet)
		client_complain("%s: %.*s", op_names[c->req.op], (int)sizeof(c->rsp.message), c->rsp.message);
	return err;
}

int
client_call(struct client_ctx *ctx, struct client_call *c)
{
	int err;

	if (ctx->foreign)
		return EIO;
	pthread_mutex_lock(&ctx->ctl_lock);
	err = client_call_locked(ctx, c);
	pthread_mutex_unlock(&ctx->ctl_lock);
	client_call_close_fds(c, 0);
	return err;
}

int
client_call_handle(struct client_ctx *ctx, enum ctl_op op, uint32_t handle)
{
	struct client_call c;

	client_call_init(&c, op);
	c.req.handle.handle = handle;
	return client_call(ctx, &c);
}

int
client_destroy_handle(struct client_ctx *ctx, enum ctl_op op, uint32_t handle)
{
	int err = client_call_handle(ctx, op, handle);

	return ctx->broken ? 0 : err;
}

void
client_give_back(struct client_ctx *ctx, enum ctl_op op, uint32_t handle)
{
	struct client_call c;

	client_call_init(&c, op);
	c.req.handle.handle = handle;
	client_call_locked(ctx, &c);
	client_call_close_fds(&c, 0);
}

/** Record the descriptor of new segment @p n. */
static int
segment_enter(struct client_ctx *ctx, uint32_t n, uint64_t bytes, int fd)
{
	struct client_segment *segs;

	if (n >= ctx->nb_segs) {
		segs = realloc(ctx->segs, (n + 1) * sizeof(*segs));
		if (!segs)
			return ENOMEM;
		memset(segs + ctx->nb_segs, 0, (n + 1 - ctx->nb_segs) * sizeof(*segs));
		ctx->segs = segs;
		ctx->nb_segs = n + 1;
	}
	if (ctx->segs[n].bytes)
		return EPROTO;
	ctx->segs[n] = (struct client_segment){ .bytes = bytes, .fd = fd };
	ctx->nb_unmapped++;
	return 0;
}

static int
map_the_unmapped(struct client_ctx *ctx)
{
	void *base;

	for (struct client_segment *s = ctx->segs; ctx->nb_unmapped && s < ctx->segs + ctx->nb_segs; s++) {
		if (s->base || !s->bytes)
			continue;
		base = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
		if (base == MAP_FAILED)
			return errno;
		close(s->fd);
		s->base = base;
		ctx->nb_unmapped--;
	}
	return 0;
}

int
client_segment_add(struct client_ctx *ctx, const struct ctl_new_segment *seg, struct client_call *c)
{
	int err = 0;

	if (seg->segment_bytes)
		err = c->nb_got == 1 ? segment_enter(ctx, seg->segment, seg->segment_bytes, c->got[0]) : EPROTO;
	if (seg->segment_bytes && !err)
		c->nb_got = 0;
	client_call_close_fds(c, 0);
	return err ? err : map_the_unmapped(ctx);
}

void *
client_area(const struct client_ctx *ctx, const struct ctl_area *a, size_t min_bytes)
{
	const struct client_segment *s;

	if (a->segment >= ctx->nb_segs)
		return NULL;
	s = &ctx->segs[a->segment];
	if (!s->base || a->length < min_bytes || a->offset > s->bytes || a->length > s->bytes - a->offset)
		return NULL;
	return s->base + a->offset;
}

void
client_segments_free(struct client_ctx *ctx)
{
	for (uint32_t i = 0; i < ctx->nb_segs; i++) {
		if (ctx->segs[i].base)
			munmap(ctx->segs[i].base, ctx->segs[i].bytes);
		else if (ctx->segs[i].bytes)
			close(ctx->segs[i].fd);
	}
	free(ctx->segs);
}
