/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices: their attributes, opening, closing. */
#include "verbs/client_priv.h"

#include <grp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

void
client_device_fill(struct client_device *d, const char *name, const char *netdev)
{
	d->dev.node_type = IBV_NODE_CA;
	d->dev.transport_type = IBV_TRANSPORT_IB;
	strlcpy(d->dev.name, name, sizeof(d->dev.name));
	strlcpy(d->dev.dev_name, name, sizeof(d->dev.dev_name));
	snprintf(d->dev.dev_path, sizeof(d->dev.dev_path), "/sys/class/infiniband_verbs/%s", name);
	/* Programs look here for the PCI address and NUMA node, which the kernel interface of the same NIC has. */
	if (netdev[0])
		snprintf(d->dev.ibdev_path, sizeof(d->dev.ibdev_path), "/sys/class/net/%s", netdev);
	else
		snprintf(d->dev.ibdev_path, sizeof(d->dev.ibdev_path), "/sys/class/infiniband/%s", name);
}

CLIENT_EXPORT void
ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

CLIENT_EXPORT const char *
ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

CLIENT_EXPORT int
ibv_get_device_index(struct ibv_device *device)
{
	return ((struct client_device *)device)->index;
}

CLIENT_EXPORT __be64
ibv_get_device_guid(struct ibv_device *device)
{
	return ((struct client_device *)device)->guid;
}

static void
fill_ops(struct client_ctx *ctx)
{
	struct ibv_context *c = &ctx->v.context;

	ctx->v.sz = sizeof(ctx->v);
	ctx->v.query_port = client_query_port;
	ctx->v.query_device_ex = client_query_device_ex;
	ctx->v.query_rt_values = client_query_rt_values;
	ctx->v.modify_cq = client_modify_cq;
	ctx->v.alloc_td = client_alloc_td;
	ctx->v.dealloc_td = client_dealloc_td;
	ctx->v.alloc_parent_domain = client_alloc_parent_domain;
	ctx->v.advise_mr = client_advise_mr;
	ctx->v.alloc_null_mr = client_alloc_null_mr;
	ctx->v.alloc_dm = client_alloc_dm;
	ctx->v.free_dm = client_free_dm;
	ctx->v.reg_dm_mr = client_reg_dm_mr;
	ctx->v.create_cq_ex = client_create_cq_ex;
	ctx->v.create_qp_ex = client_create_qp_ex;
	ctx->v.create_srq_ex = client_create_srq_ex;
	ctx->v.get_srq_num = client_get_srq_num;
	ctx->v.open_xrcd = client_open_xrcd;
	ctx->v.close_xrcd = client_close_xrcd;
	ctx->v.open_qp = client_open_qp;
	c->abi_compat = __VERBS_ABI_IS_EXTENDED;
	c->ops._compat_query_device = ibv_query_device;
	c->ops._compat_query_port = ibv_query_port;
	c->ops.poll_cq = client_poll_cq;
	c->ops.req_notify_cq = client_req_notify_cq;
	c->ops.post_send = client_post_send;
	c->ops.post_recv = client_post_recv;
	c->ops.post_srq_recv = client_post_srq_recv;
	c->ops.alloc_mw = client_alloc_mw;
	c->ops.bind_mw = client_bind_mw;
	c->ops.dealloc_mw = client_dealloc_mw;
}

/* Take over the content of the reply to CTL_DEVICE_OPEN. The caller closes descriptors that aren't kept. */
static int
adopt_session(struct client_ctx *ctx, struct client_call *c)
{
	const struct ctl_device_open_rsp *r = &c->rsp.device_open;
	int *fds = c->got + r->nb_kicks, err;

	if (!r->nb_kicks || r->nb_kicks > CTL_MAX_KICKS || c->nb_got != r->nb_kicks + (r->have_uffd ? 4 : 3) || !r->nb_engines || r->nb_engines > UROCE_MAX_ENGINES ||
	    r->db_stride < sizeof(struct ring_db))
		return EPROTO;
	ctx->nb_engines = r->nb_engines;
	ctx->db_stride = r->db_stride;
	ctx->db_bytes = r->db_stride * r->nb_engines;
	ctx->privileged = r->privileged;
	ctx->v.context.num_comp_vectors = r->num_comp_vectors ? r->num_comp_vectors : 1;
	ctx->doorbells = mmap(NULL, ctx->db_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (ctx->doorbells == MAP_FAILED) {
		ctx->doorbells = NULL;
		return errno;
	}
	err = mem_file_init(&ctx->mem, fds[1], r->mem_bytes);
	if (err)
		return err;
	fds[1] = -1;
	for (ctx->nb_kicks = 0; ctx->nb_kicks < r->nb_kicks; ctx->nb_kicks++) {
		ctx->kick_fds[ctx->nb_kicks] = c->got[ctx->nb_kicks];
		ctx->kick_cpus[ctx->nb_kicks] = r->kick_cpus[ctx->nb_kicks];
		c->got[ctx->nb_kicks] = -1;
	}
	ctx->v.context.async_fd = fds[2];
	fds[2] = -1;
	/* Without the daemon's, what the program has a right to. Memory that is the daemon's too needs no conversion. */
	convert_setup(r->have_uffd ? fds[3] : -1);
	ctx->can_convert = !ctx->wait;
	ctx->bounce = !ctx->wait && client_bounce_wanted();
	return 0;
}

static int
bind_session(struct client_ctx *ctx, const struct client_device *d)
{
	struct client_call c;
	int err;

	client_call_init(&c, CTL_DEVICE_OPEN);
	c.req.device_open.index = d->index;
	/* Nobody else knows the session yet, so no lock is needed. */
	err = client_call_locked(ctx, &c);
	if (!err)
		err = adopt_session(ctx, &c);
	for (uint32_t i = 0; i < c.nb_got; i++)
		if (c.got[i] >= 0)
			close(c.got[i]);
	return err;
}

static void
ctx_free(struct client_ctx *ctx)
{
	client_pds_left(ctx);
	client_segments_free(ctx);
	if (ctx->doorbells)
		munmap(ctx->doorbells, ctx->db_bytes);
	mem_file_fini(&ctx->mem);
	while (ctx->nb_kicks > 0)
		close(ctx->kick_fds[--ctx->nb_kicks]);
	if (ctx->v.context.async_fd >= 0)
		close(ctx->v.context.async_fd);
	if (ctx->sock >= 0)
		close(ctx->sock);
	if (ctx->imported_fd >= 0)
		close(ctx->imported_fd);
	objtab_fini(&ctx->objs);
	pthread_mutex_destroy(&ctx->ctl_lock);
	pthread_mutex_destroy(&ctx->v.context.mutex);
	free(ctx->qps);
	free(ctx);
}

static struct client_ctx *
ctx_new(struct client_device *d)
{
	struct client_ctx *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		return NULL;
	/* Untouched entries cost no memory. */
	ctx->qps = calloc(CLIENT_QPN_SLOTS, sizeof(*ctx->qps));
	if (!ctx->qps) {
		free(ctx);
		return NULL;
	}
	pthread_mutex_init(&ctx->ctl_lock, NULL);
	pthread_mutex_init(&ctx->v.context.mutex, NULL);
	objtab_init(&ctx->objs);
	ctx->sock = -1;
	ctx->imported_fd = -1;
	ctx->mem.fd = -1;
	ctx->v.context.async_fd = -1;
	ctx->v.context.device = &d->dev;
	fill_ops(ctx);
	return ctx;
}

struct ibv_context *
client_open_session(struct client_device *d, int sock, client_wait_fn wait)
{
	struct client_ctx *ctx = ctx_new(d);
	int err;

	if (!ctx) {
		close(sock);
		return client_null(ENOMEM);
	}
	ctx->v.context.cmd_fd = ctx->sock = sock;
	ctx->wait = wait;
	client_fork_setup();
	/* Of programs with a daemon of their own: in an application that embeds the stack, who posts may be who drives it. */
	err = wait ? 0 : client_faults_attach(ctx);
	if (!err)
		err = bind_session(ctx, d);
	if (err) {
		ctx_free(ctx);
		return client_null(err);
	}
	pthread_mutex_lock(&client_contexts_lock);
	ctx->next = client_contexts;
	client_contexts = ctx;
	pthread_mutex_unlock(&client_contexts_lock);
	return &ctx->v.context;
}

CLIENT_EXPORT int
ibv_close_device(struct ibv_context *context)
{
	struct client_ctx *ctx = to_ctx(context), **p;

	pthread_mutex_lock(&client_contexts_lock);
	for (p = &client_contexts; *p; p = &(*p)->next) {
		if (*p == ctx) {
			*p = ctx->next;
			break;
		}
	}
	pthread_mutex_unlock(&client_contexts_lock);
	ctx_free(ctx);
	return 0;
}
