/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Import: a program shares PDs and MRs of another one. It shows that it may by a descriptor of the other's end of its socket, which the other has
 * passed to it. The library binds each socket to a name that the kernel chooses (unix(7), autobind), which no other socket in its network namespace
 * has as long as it is open. What the kernel is asked about a stranger's descriptor needs no lock, and asks nobody else.
 */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "control/obj/obj_mr_priv.h"

/** What no two clients' sockets have in common. */
struct identity {
	struct sockaddr_un name;
	socklen_t bytes;
	uint64_t netns;
};

static bool
netns_of(int fd, struct identity *id)
{
	socklen_t len = sizeof(id->netns);

	return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &id->netns, &len) == 0 && len == sizeof(id->netns);
}

static bool
is_named(const struct identity *id)
{
	return id->bytes > offsetof(struct sockaddr_un, sun_path) && id->bytes <= sizeof(id->name);
}

/** @return false: it isn't a unix socket that has a name. Of other sockets some would wait for a lock before they tell theirs. */
static bool
identity_of(int fd, struct identity *id)
{
	int domain = 0;
	socklen_t len = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 || domain != AF_UNIX || !netns_of(fd, id))
		return false;
	id->bytes = sizeof(id->name);
	return getsockname(fd, (struct sockaddr *)&id->name, &id->bytes) == 0 && is_named(id);
}

/** @return whether the client's end of the session's socket is @p id. */
static bool
is_of(const struct session *s, const struct identity *id)
{
	struct identity peer = { .bytes = sizeof(peer.name) };

	return getpeername(s->sock.fd, (struct sockaddr *)&peer.name, &peer.bytes) == 0 && netns_of(s->sock.fd, &peer) &&
	       peer.bytes == id->bytes && peer.netns == id->netns && memcmp(&peer.name, &id->name, id->bytes) == 0;
}

static const struct session *
find_shown(struct control *c, const struct identity *id)
{
	const struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (is_of(s, id))
			return s;
	return NULL;
}

static struct session *
find(struct control *c, uint64_t id)
{
	struct session *s;

	TAILQ_FOREACH(s, &c->sessions, link)
		if (s->id == id)
			return s;
	return NULL;
}

int
op_device_import(struct session *s, struct request *r)
{
	const struct session *of;
	struct identity id;

	if (s->imported != 0)
		return req_fail(r, EINVAL, "this session has imported a device already");
	if (r->nb_fds == 0 || !identity_of(r->fds[0], &id))
		return req_fail(r, EINVAL, "the descriptor must be of the socket of an open device");
	of = find_shown(s->control, &id);
	if (of == NULL || of == s || of->port == NULL)
		return req_fail(r, EINVAL, "the descriptor is of no other session with an open device");
	if (of->device_gone)
		return req_fail(r, EIO, "the device has gone");
	s->imported = of->id;
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
