/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram rsockets: peers, and finding their QPs over the UDP socket. */
#include <sys/syscall.h>
#include <unistd.h>

#include "rsocket/rs_dgram.h"

enum { UDP_IOV_MAX = 16 };

static uint32_t
hash(const struct sockaddr_storage *sa)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;
	const uint8_t *p = sa->ss_family == AF_INET ? (const uint8_t *)&in->sin_addr : (const uint8_t *)&in6->sin6_addr;
	uint32_t h = sa->ss_family == AF_INET ? in->sin_port : in6->sin6_port;

	for (int i = 0, n = sa->ss_family == AF_INET ? 4 : 16; i < n; i++)
		h = h * 31 + p[i];
	return (h ^ h >> 16) % RS_DESTS;
}

static bool
is_any(const struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET)
		return ((const struct sockaddr_in *)sa)->sin_addr.s_addr == INADDR_ANY;
	return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)sa)->sin6_addr);
}

static void
set_port(struct sockaddr_storage *sa, const struct sockaddr_storage *of)
{
	if (sa->ss_family == AF_INET)
		((struct sockaddr_in *)sa)->sin_port = ((const struct sockaddr_in *)of)->sin_port;
	else
		((struct sockaddr_in6 *)sa)->sin6_port = ((const struct sockaddr_in6 *)of)->sin6_port;
}

/**
 * Find the source address of packets to @p dest: the one we are bound to, or the one that the kernel's routing chooses.
 */
static int
source_for(struct rs_dgram *d, const struct sockaddr_storage *dest, struct sockaddr_storage *out)
{
	struct sockaddr_storage bound = { 0 };
	socklen_t len = sizeof(bound);
	int s, err = 0;

	if (getsockname(d->udp, (struct sockaddr *)&bound, &len))
		return errno;
	if (!is_any(&bound)) {
		*out = bound;
		return 0;
	}
	/* socket() isn't called because a preload library would make an rsocket of it. */
	s = (int)syscall(SYS_socket, dest->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		return errno;
	len = sizeof(*out);
	memset(out, 0, sizeof(*out));
	if (connect(s, (const struct sockaddr *)dest, rs_addr_len(dest)) || getsockname(s, (struct sockaddr *)out, &len))
		err = errno;
	else
		set_port(out, &bound);
	close(s);
	return err;
}

/* ---- The route to a peer, resolved by an id of its own ---- */
static void
find_way(struct rs_dest *dest)
{
	struct sockaddr_storage from = dest->qp->local, none = { .ss_family = from.ss_family };

	if (dest->resolving || dest->ah)
		return;
	if (!dest->id && rdma_create_id(dest->d->cm_channel, &dest->id, &dest->cm, RDMA_PS_UDP)) {
		dest->id = NULL;
		return;
	}
	set_port(&from, &none);
	dest->resolving = !rdma_resolve_addr(dest->id, (struct sockaddr *)&from, (struct sockaddr *)&dest->addr,
					     RS_RESOLVE_DEST_MS);
}

static int
gid_index(struct rdma_cm_id *id, const union ibv_gid *gid, uint8_t *out)
{
	struct ibv_port_attr port;
	union ibv_gid g;

	if (ibv_query_port(id->verbs, id->port_num, &port))
		return ENODEV;
	for (int i = 0; i < port.gid_tbl_len && i <= UINT8_MAX; i++) {
		if (!ibv_query_gid(id->verbs, id->port_num, i, &g) && !memcmp(&g, gid, sizeof(g))) {
			*out = (uint8_t)i;
			return 0;
		}
	}
	return ENODEV;
}

static void
make_ah(struct rs_dest *dest)
{
	const struct ibv_sa_path_rec *path = dest->id->route.path_rec;
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.sl = path->sl,
		.port_num = dest->id->port_num,
		.grh = {
			.dgid = path->dgid,
			.flow_label = be32toh(path->flow_label),
			.hop_limit = path->hop_limit,
			.traffic_class = path->traffic_class,
		},
	};

	if (!gid_index(dest->id, &path->sgid, &attr.grh.sgid_index))
		dest->ah = ibv_create_ah(dest->qp->id->pd, &attr);
}

static bool
way_event(struct rs_cm_user *u, struct rdma_cm_event *ev)
{
	struct rs_dest *dest = container_of(u, struct rs_dest, cm);

	pthread_mutex_lock(&dest->d->rs.lock);
	if (ev->event == RDMA_CM_EVENT_ADDR_RESOLVED) {
		dest->resolving = !rdma_resolve_route(dest->id, RS_RESOLVE_DEST_MS);
	} else {
		/* If it failed, the next packet tries again. */
		dest->resolving = false;
		if (ev->event == RDMA_CM_EVENT_ROUTE_RESOLVED && !dest->ah)
			make_ah(dest);
	}
	pthread_mutex_unlock(&dest->d->rs.lock);
	return false;
}

int
rs_dest_get(struct rs_dgram *d, const struct sockaddr_storage *addr, struct rs_dest **out)
{
	struct rs_dest **list = &d->dests[hash(addr)], *dest;
	struct sockaddr_storage local;
	struct rs_dqp *qp;
	int err;

	for (dest = *list; dest; dest = dest->next) {
		if (rs_same_addr(&dest->addr, addr)) {
			*out = dest;
			return 0;
		}
	}
	if (d->nb_dests == RS_DESTS_MAX)
		return ENOBUFS;
	err = source_for(d, addr, &local);
	if (!err)
		err = rs_dqp_get(d, &local, &qp);
	if (err)
		return err;
	dest = calloc(1, sizeof(*dest));
	if (!dest)
		return ENOMEM;
	dest->d = d;
	dest->cm.event = way_event;
	dest->addr = *addr;
	dest->qp = qp;
	dest->next = *list;
	*list = dest;
	d->nb_dests++;
	*out = dest;
	return 0;
}

void
rs_dest_free(struct rs_dest *dest)
{
	if (dest->id)
		rdma_destroy_id(dest->id);
	if (dest->ah)
		ibv_destroy_ah(dest->ah);
	free(dest);
}

int
rs_udp_send(struct rs_dgram *d, const struct rs_dest *to, enum rs_op op, const struct iovec *iov, int n, int flags)
{
	struct iovec all[UDP_IOV_MAX + 1];
	struct rs_udp_hdr hdr;
	struct msghdr msg = { .msg_name = (void *)&to->addr, .msg_namelen = rs_addr_len(&to->addr), .msg_iov = all };

	if (n > UDP_IOV_MAX)
		return EMSGSIZE;
	rs_udp_hdr_put(&hdr, op, to->qp->id->qp->qp_num, (const struct sockaddr *)&to->qp->local);
	all[0] = (struct iovec){ &hdr, hdr.length };
	if (n)
		memcpy(&all[1], iov, (size_t)n * sizeof(*iov));
	msg.msg_iovlen = (size_t)n + 1;
	return sendmsg(d->udp, &msg, flags | MSG_NOSIGNAL) < 0 ? errno : 0;
}

/** Queue a datagram that came by UDP. */
static void
keep(struct rs_dgram *d, const struct sockaddr_storage *from, const uint8_t *data, size_t bytes)
{
	struct rs_dmsg *m;
	uint8_t *copy;

	if (d->nb_by_udp == RS_UDP_QUEUED_MAX)
		return;
	m = calloc(1, sizeof(*m) + bytes);
	if (!m)
		return;
	copy = (uint8_t *)(m + 1);
	memcpy(copy, data, bytes);
	m->data = copy;
	m->bytes = (uint32_t)bytes;
	m->from = *from;
	if (!rs_dgram_queue(d, m)) {
		free(m);
		return;
	}
	d->nb_by_udp++;
	rs_kick(&d->rs, RS_EV_IN);
}

static void
take_packet(struct rs_dgram *d, const struct sockaddr_storage *from, const uint8_t *data, size_t bytes)
{
	struct rs_dest *dest;
	uint32_t qpn;
	uint8_t op;
	size_t hdr = rs_udp_hdr_get(data, bytes, from->ss_family, &op, &qpn);

	if (!hdr || rs_dest_get(d, from, &dest))
		return;
	dest->qpn = qpn;
	find_way(dest);
	if (op != RS_OP_DATA)
		return;
	rs_udp_send(d, dest, RS_OP_CTRL, NULL, 0, MSG_DONTWAIT);
	keep(d, from, data + hdr, bytes - hdr);
}

void
rs_udp_readable(struct rs_watch *w)
{
	struct rs_dgram *d = container_of(w, struct rs_dgram, watch);
	struct sockaddr_storage from;
	uint8_t buf[RS_DGRAM_BYTES];
	socklen_t len;
	ssize_t n;

	pthread_mutex_lock(&d->rs.lock);
	for (int i = 0; i < RS_UDP_BURST; i++) {
		len = sizeof(from);
		memset(&from, 0, sizeof(from));
		n = recvfrom(d->udp, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from, &len);
		/* An ICMP error of a peer is reported here as well; only EAGAIN means that the socket is empty. */
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n > 0)
			take_packet(d, &from, buf, (size_t)n);
	}
	pthread_mutex_unlock(&d->rs.lock);
}
