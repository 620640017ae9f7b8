/* SPDX-License-Identifier: BSD-3-Clause */
/* Paths to peers: from an AV to a MAC address and a path. The reply is deferred while the neighbour is resolved. */
#include "control/obj/obj_path_priv.h"

enum { AV_MAX_SL = 7 }; /* the service level becomes the VLAN priority */

const char *
path_pending_text(const struct pending *p, char *text)
{
	return gid_text(gid_at(p->av.dgid), text);
}

static int
fail(struct request *r, int rc, const struct uroce_ah_attr *av)
{
	char text[GID_TEXT_BYTES];

	gid_text(gid_at(av->dgid), text);
	switch (rc) {
	case ETIMEDOUT:
		return req_fail(r, rc, "%s doesn't answer ARP or ND; is the peer up and on this network?", text);
	case EHOSTUNREACH:
		return req_fail(
			r, rc, "no route to %s; add an address on its network or a gateway to the port's configuration",
			text);
	case EINVAL:
		return req_fail(r, rc, "%s can't be reached from GID index %u: unused, or of another address family",
				text, av->sgid_index);
	case ENOBUFS:
		return req_fail(r, EAGAIN, "too many addresses are being resolved; try again");
	default:
		return req_fail(r, rc, "cannot resolve %s: %s", text, strerror(rc));
	}
}

static int
check(const struct session *s, struct request *r, const struct uroce_ah_attr *av)
{
	const struct gid *sgid = net_gid(s->port, av->sgid_index);

	if (!av->is_global)
		return req_fail(r, EINVAL, "RoCE needs a GRH: is_global must be 1");
	if (av->port_num != 1)
		return req_fail(r, EINVAL, "port %u: must be 1", av->port_num);
	if (av->sl > AV_MAX_SL)
		return req_fail(r, EINVAL, "service level %u: must be 0 to %u", av->sl, AV_MAX_SL);
	if (sgid == NULL)
		return req_fail(r, EINVAL, "GID index %u is not in use on %s; see ibv_devinfo -v", av->sgid_index,
				s->port->conf.name);
	if (gid_is_v4(gid_at(av->dgid)) != gid_is_v4(sgid))
		return fail(r, EINVAL, av);
	return 0;
}

static void
on_resolved(void *arg, int status, const uint8_t mac[6])
{
	struct session *s = arg;
	struct ctl_req req = s->pending.req;
	struct request r = { .req = &req };
	int rc;

	s->pending.active = false;
	if (s->closing)
		return;
	/* It may have gone, or another have its index. */
	if (status == 0 && check(s, &r, &s->pending.av) != 0)
		status = EADDRNOTAVAIL;
	rc = s->pending.resume(s, &r, status != 0 ? fail(&r, status, &s->pending.av) : 0, mac);
	if (rc == EINPROGRESS)
		return;
	session_pause(s, false);
	session_reply(s, &r, rc);
}

int
path_resolve(struct session *s, struct request *r, const struct uroce_ah_attr *av, request_resume_fn resume, uint8_t mac[6])
{
	int rc = check(s, r, av);

	if (rc != 0)
		return rc;
	UROCE_ASSERT(!s->pending.active);
	/* Set this first, since the session is the argument of the callback. */
	s->pending = (struct pending){ .port = s->port, .av = *av, .since_ns = control_now_ns(), .req = *r->req, .resume = resume };
	rc = net_resolve(s->port, av->sgid_index, gid_at(av->dgid), control_now_ns(), mac, on_resolved, s);
	if (rc == EINPROGRESS) {
		s->pending.active = true;
		session_pause(s, true);
		return rc;
	}
	return rc == 0 ? 0 : fail(r, rc, av);
}

void
path_make(struct session *s, const struct uroce_ah_attr *av, const uint8_t mac[6], uint16_t pkey, struct tp_path *out)
{
	uint8_t group[6];

	memset(out, 0, sizeof(*out));
	net_path_addr(s->port, av->sgid_index, av, mac, &out->addr);
	out->port = s->port->index;
	out->pkey = pkey;
	/* Another port of this daemon is a peer like any other, since a QP accepts packets of its own port only. */
	out->loopback = net_port_owns(s->port, gid_at(av->dgid));
	out->multicast = net_multicast_mac(gid_at(av->dgid), group);
}

void
path_cancel(struct session *s)
{
	if (!s->pending.active)
		return;
	s->pending.active = false;
	net_resolve_cancel(s->pending.port, s);
}
