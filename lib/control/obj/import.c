/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Import: a program shares PDs and MRs of another one. It shows that it may by a descriptor of the other's end of its socket, which the other has
 * passed to it. Sockets are compared by the numbers that the kernel gives them: that asks nobody, whatever the descriptor is of.
 */
#include <sys/socket.h>

#include "control/obj/obj_mr_priv.h"

/** @return the kernel's number for the socket that came with a request; 0, with the request failed: none has come. */
static uint64_t
cookie_of(struct request *r)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);

	if (r->nb_fds == 0 || getsockopt(r->fds[0], SOL_SOCKET, SO_COOKIE, &cookie, &len) != 0 || len != sizeof(cookie)) {
		req_fail(r, EINVAL, "the descriptor must be of the socket of an open device");
		return 0;
	}
	return cookie;
}

static struct session *
find(struct control *c, uint64_t cookie)
{
	struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->cookie == cookie)
			return s;
	return NULL;
}

int
op_device_export(struct session *s, struct request *r)
{
	uint64_t cookie = cookie_of(r);

	if (cookie == 0)
		return EINVAL;
	if (s->cookie != 0 || find(s->control, cookie) != NULL)
		return req_fail(r, EINVAL, "this session, or one with that socket, can be imported already");
	s->cookie = cookie;
	return 0;
}

int
op_device_import(struct session *s, struct request *r)
{
	uint64_t cookie = cookie_of(r);
	const struct session *of = cookie != 0 ? find(s->control, cookie) : NULL;

	if (cookie == 0)
		return EINVAL;
	if (s->imported != 0)
		return req_fail(r, EINVAL, "this session has imported a device already");
	if (of == NULL || of == s || of->port == NULL)
		return req_fail(r, EINVAL, "the descriptor is of no other session with an open device");
	if (of->device_gone)
		return req_fail(r, EIO, "the device has gone");
	s->imported = cookie;
	r->rsp.handle.handle = of->port->index;
	return 0;
}

/** @return the session whose objects @p s imports: itself, unless it has imported a device; NULL, with the request failed. */
static struct session *
exporter(struct session *s, struct request *r)
{
	struct session *of = s->imported != 0 ? find(s->control, s->imported) : s;

	if (of == NULL)
		req_fail(r, ENODEV, "the session that was imported has ended");
	else if (of->port != s->port)
		req_fail(r, EINVAL, "the session that was imported has another device");
	else
		return of;
	return NULL;
}

/** @return true: windows that belong to the PD might be bound to the MRs of somebody who ends before. */
static bool
has_windows(const struct session *s, const struct obj_pd *pd)
{
	const struct obj_mw *mw;

	for (uint32_t pos = 0; (mw = handles_next(&s->tab[OBJ_MW], &pos)) != NULL;)
		if (mw->pd == pd)
			return true;
	return false;
}

int
op_pd_import(struct session *s, struct request *r)
{
	struct session *of = exporter(s, r);
	struct obj_pd *same = of != NULL ? obj_get(of, OBJ_PD, r->req->handle.handle, r) : NULL, *pd;
	int rc;

	if (same == NULL)
		return of != NULL || s->imported == 0 ? EINVAL : ENODEV;
	if (has_windows(of, same))
		return req_fail(r, EOPNOTSUPP, "the PD has memory windows: it can't be shared");
	pd = obj_pd_import(s, same, r, &rc);
	if (pd == NULL)
		return rc;
	r->rsp.handle.handle = pd->obj.handle;
	return 0;
}

int
op_mr_import(struct session *s, struct request *r)
{
	const struct ctl_mr_import_req *q = &r->req->mr_import;
	const struct obj_pd *pd = obj_get(s, OBJ_PD, q->pd, r);
	struct session *of = pd != NULL ? exporter(s, r) : NULL;
	const struct obj_mr *mr = of != NULL ? obj_get(of, OBJ_MR, q->mr, r) : NULL;

	if (mr == NULL)
		return EINVAL;
	if (mr->pd->id != pd->id || mr->mr->null)
		return req_fail(r, EINVAL, "the MR is of another PD, or of no memory");
	r->rsp.mr_import.lkey = mr->mr->key;
	r->rsp.mr_import.length = mr->mr->length;
	return 0;
}
