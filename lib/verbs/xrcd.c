/* SPDX-License-Identifier: BSD-3-Clause */
/* XRC domains. Their SRQs and QPs are in srq.c and qp.c. */
#include "verbs/client_priv.h"

#include <fcntl.h>

struct ibv_xrcd *
client_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct client_xrcd *x;
	struct client_call c;
	int err;

	if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED)
		return client_null(EOPNOTSUPP);
	if ((attr->comp_mask & needed) != needed)
		return client_null(EINVAL);
	if (attr->fd != -1 && fcntl(attr->fd, F_GETFD) < 0)
		return NULL;
	x = calloc(1, sizeof(*x));
	if (!x)
		return client_null(ENOMEM);
	client_call_init(&c, CTL_XRCD_OPEN);
	c.req.xrcd_open.oflags = attr->oflags;
	/* Without O_CREAT the domain must exist; with O_EXCL it must not. */
	c.quiet = (attr->oflags & (O_CREAT | O_EXCL)) != O_CREAT;
	if (attr->fd != -1) {
		c.fds[0] = attr->fd;
		c.nb_fds = 1;
	}
	err = client_call(to_ctx(context), &c);
	if (err) {
		free(x);
		return client_null(err);
	}
	x->xrcd.context = context;
	x->handle = c.rsp.handle.handle;
	return &x->xrcd;
}

int
client_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct client_xrcd *x = to_xrcd(xrcd);
	int err = client_destroy_handle(to_ctx(xrcd->context), CTL_XRCD_CLOSE, x->handle);

	if (!err)
		free(x);
	return err;
}
