/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains. */
#include "client.h"

#include <errno.h>
#include <stdlib.h>

CLIENT_EXPORT struct ibv_pd *
ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));
	struct client_call c;
	int err;

	if (!pd) {
		errno = ENOMEM;
		return NULL;
	}
	client_call_init(&c, CTL_PD_ALLOC);
	err = client_call(to_ctx(context), &c);
	client_call_close_fds(&c, 0);
	if (err) {
		free(pd);
		errno = err;
		return NULL;
	}
	pd->context = context;
	pd->handle = c.rsp.handle.handle;
	return pd;
}

CLIENT_EXPORT int
ibv_dealloc_pd(struct ibv_pd *pd)
{
	int err = client_destroy_handle(to_ctx(pd->context), CTL_PD_FREE, pd->handle);

	if (!err)
		free(pd);
	return err;
}
