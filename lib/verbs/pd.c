/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains, parent domains and thread domains. */
#include "verbs/client_priv.h"

struct ibv_pd *
client_pd_new(struct ibv_context *context, struct client_call *c)
{
	struct client_pd *pd = calloc(1, sizeof(*pd));
	int err;

	if (!pd || client_bounce_begin(pd)) {
		free(pd);
		return client_null(ENOMEM);
	}
	err = client_call(to_ctx(context), c);
	if (err) {
		client_bounce_end(pd);
		free(pd);
		return client_null(err);
	}
	pd->imported = c->req.op == CTL_PD_IMPORT;
	pd->pd.context = context;
	pd->pd.handle = c->rsp.handle.handle;
	return &pd->pd;
}

CLIENT_EXPORT struct ibv_pd *
ibv_alloc_pd(struct ibv_context *context)
{
	struct client_call c;

	client_call_init(&c, CTL_PD_ALLOC);
	return client_pd_new(context, &c);
}

CLIENT_EXPORT int
ibv_dealloc_pd(struct ibv_pd *ibpd)
{
	struct client_pd *pd = (struct client_pd *)ibpd;
	int err;

	if (pd->imported)
		return EINVAL;
	if (pd->domains)
		return EBUSY;
	if (pd->parent) {
		pd->parent->domains--;
		if (pd->td)
			pd->td->users--;
		free(pd);
		return 0;
	}
	err = client_bounce_retire(pd);
	if (!err)
		err = client_destroy_handle(to_ctx(ibpd->context), CTL_PD_FREE, ibpd->handle);
	if (err)
		return err;
	client_bounce_end(pd);
	free(pd);
	return 0;
}

bool
client_is_parent_domain(const struct ibv_pd *pd)
{
	return pd && ((const struct client_pd *)pd)->parent;
}

/* A parent domain is used like its PD; for the daemon both have the PD's handle. */
struct ibv_pd *
client_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	struct client_pd *parent = (struct client_pd *)attr->pd, *pd;

	if (attr->comp_mask & ~(uint32_t)(IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS))
		return client_null(EOPNOTSUPP);
	if (!parent || parent->parent || parent->pd.context != context)
		return client_null(EINVAL);
	/* Memory that one of the two gave could not be freed without the other. */
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) && (!attr->alloc || !attr->free))
		return client_null(EINVAL);
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return client_null(ENOMEM);
	pd->pd.context = context;
	pd->pd.handle = parent->pd.handle;
	pd->parent = parent;
	pd->bounce = parent->bounce;
	pd->td = (struct client_td *)attr->td;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	parent->domains++;
	if (pd->td)
		pd->td->users++;
	return &pd->pd;
}

/* The upper half names the driver (man ibv_alloc_parent_domain). */
static uint64_t
resource_type(enum client_resource type)
{
	return (uint64_t)RDMA_DRIVER_UNKNOWN << 32 | type;
}

void *
client_object_alloc(struct ibv_pd *ibpd, enum client_resource type, size_t size, struct client_memory *memory)
{
	struct client_pd *pd = (struct client_pd *)ibpd;
	void *p = IBV_ALLOCATOR_USE_DEFAULT;

	/* aligned_alloc() wants a multiple of the alignment. */
	size = (size + CLIENT_CACHE_LINE - 1) & ~(size_t)(CLIENT_CACHE_LINE - 1);
	*memory = (struct client_memory){ .type = type };
	if (pd && pd->alloc)
		p = pd->alloc(ibpd, pd->pd_context, size, CLIENT_CACHE_LINE, resource_type(type));
	if (p == IBV_ALLOCATOR_USE_DEFAULT)
		p = aligned_alloc(CLIENT_CACHE_LINE, size);
	else if (p) {
		memory->pd = pd;
		pd->domains++;
	}
	if (p)
		memset(p, 0, size);
	return p;
}

void
client_object_free(void *p, struct client_memory memory)
{
	if (!memory.pd) {
		free(p);
		return;
	}
	memory.pd->free(&memory.pd->pd, memory.pd->pd_context, p, resource_type(memory.type));
	memory.pd->domains--;
}

struct ibv_td *
client_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct client_td *td;

	if (attr->comp_mask)
		return client_null(EOPNOTSUPP);
	td = calloc(1, sizeof(*td));
	if (!td)
		return client_null(ENOMEM);
	td->td.context = context;
	return &td->td;
}

int
client_dealloc_td(struct ibv_td *ibtd)
{
	struct client_td *td = (struct client_td *)ibtd;

	if (td->users)
		return EBUSY;
	free(td);
	return 0;
}
