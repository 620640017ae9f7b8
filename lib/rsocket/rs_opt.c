/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Options of rsockets: rsetsockopt(), rgetsockopt(), rfcntl(). Most are numbers that are only stored; functions in the
 * table do the rest. Datagram rsockets first pass options other than SOL_RDMA to their UDP socket.
 */
#include <infiniband/sa.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>

#include "rsocket/rs_priv.h"

enum {
	KEEPALIVE_DEFAULT_S = 7200,
	MSS_UNKNOWN = 2048,
	PATH_EXACTLY = 2 << 6, /* selector of an SA path record's MTU, rate and life time */
};

struct option {
	int level, name;
	/** @return 0 or an errno value. NULL: can't be set. */
	int (*set)(struct rsocket *rs, const struct option *o, int value);
	/** NULL: return the stored number */
	int (*get)(struct rsocket *rs, const struct option *o);
	size_t at; /* of the number, in struct rsocket */
};

static int *
number(struct rsocket *rs, const struct option *o)
{
	return (int *)((char *)rs + o->at);
}

static int
keep(struct rsocket *rs, const struct option *o, int value)
{
	*number(rs, o) = value;
	return 0;
}

static int
keep_flag(struct rsocket *rs, const struct option *o, int value)
{
	*number(rs, o) = value != 0;
	return 0;
}

/** Accepted without effect: an RC connection has its own retransmission. */
static int
ignore(struct rsocket *rs, const struct option *o, int value)
{
	return 0;
}

static int
get_one(struct rsocket *rs, const struct option *o)
{
	return 1;
}

static int
set_id_option(struct rsocket *rs, int option, void *value, size_t bytes)
{
	if (rs->type != SOCK_STREAM)
		return 0;
	return rdma_set_option(to_stream(rs)->id, RDMA_OPTION_ID, option, value, bytes) ? errno : 0;
}

static int
set_reuse(struct rsocket *rs, const struct option *o, int value)
{
	int err = set_id_option(rs, RDMA_OPTION_ID_REUSEADDR, &value, sizeof(value));

	/* An error matters only while the id isn't bound. */
	return err && rs_state(rs) == RS_NEW ? err : keep_flag(rs, o, value);
}

static int
set_v6only(struct rsocket *rs, const struct option *o, int value)
{
	int err = set_id_option(rs, RDMA_OPTION_ID_AFONLY, &value, sizeof(value));

	return err ? err : keep_flag(rs, o, value);
}

static int
set_tos(struct rsocket *rs, const struct option *o, int value)
{
	uint8_t tos = (uint8_t)value;
	int err = set_id_option(rs, RDMA_OPTION_ID_TOS, &tos, sizeof(tos));

	return err ? err : keep(rs, o, value);
}

/** Buffers are twice as large as asked for, as in the kernel; the size can't change once they exist. */
static int
set_buffer(struct rsocket *rs, const struct option *o, int value)
{
	uint32_t bytes = value < RS_BUFFER_MIN / 2 ? RS_BUFFER_MIN :
			 value > RS_BUFFER_MAX / 2 ? RS_BUFFER_MAX :
						     2 * (uint32_t)value;

	if (rs_state(rs) == RS_NEW || rs_state(rs) == RS_LISTENING)
		*number(rs, o) = (int)bytes;
	return 0;
}

static int
set_size(struct rsocket *rs, const struct option *o, int value)
{
	if (rs_state(rs) != RS_NEW && rs_state(rs) != RS_LISTENING)
		return EINVAL;
	if (value < 0)
		return EINVAL;
	if (o->name == RDMA_IOMAPSIZE)
		value = (int)rs_iomap_unscale(rs_iomap_scale((uint32_t)value));
	else if (value > RS_QUEUE_MAX)
		value = RS_QUEUE_MAX;
	*number(rs, o) = value;
	return 0;
}

static int
system_keepalive(void)
{
	FILE *f = fopen("/proc/sys/net/ipv4/tcp_keepalive_time", "re");
	int seconds = KEEPALIVE_DEFAULT_S;

	if (!f)
		return seconds;
	if (fscanf(f, "%d", &seconds) != 1 || seconds <= 0)
		seconds = KEEPALIVE_DEFAULT_S;
	fclose(f);
	return seconds;
}

static void
apply_keepalive(struct rsocket *rs)
{
	if (rs->type != SOCK_STREAM)
		return;
	if (rs->keepalive_on && !rs->keepalive_s)
		rs->keepalive_s = system_keepalive();
	rs_svc_keepalive(to_stream(rs), rs->keepalive_on ? rs->keepalive_s : 0);
}

static int
set_keepalive(struct rsocket *rs, const struct option *o, int value)
{
	keep_flag(rs, o, value);
	apply_keepalive(rs);
	return 0;
}

static int
set_keepidle(struct rsocket *rs, const struct option *o, int value)
{
	if (value <= 0)
		return EINVAL;
	keep(rs, o, value);
	if (rs->keepalive_on)
		apply_keepalive(rs);
	return 0;
}

static int
get_error(struct rsocket *rs, const struct option *o)
{
	return rs_take_error(rs);
}

static int
get_type(struct rsocket *rs, const struct option *o)
{
	return rs->type;
}

static int
get_listening(struct rsocket *rs, const struct option *o)
{
	return rs_state(rs) == RS_LISTENING;
}

static int
get_mss(struct rsocket *rs, const struct option *o)
{
	struct rdma_cm_id *id = rs->type == SOCK_STREAM ? to_stream(rs)->id : NULL;

	return id && id->route.num_paths ? 128 << id->route.path_rec->mtu : MSS_UNKNOWN;
}

#define KEPT(field) offsetof(struct rsocket, field)
static const struct option options[] = {
	{ SOL_SOCKET, SO_REUSEADDR, set_reuse, NULL, KEPT(reuse_addr) },
	{ SOL_SOCKET, SO_RCVBUF, set_buffer, NULL, KEPT(sizes.recv_bytes) },
	{ SOL_SOCKET, SO_SNDBUF, set_buffer, NULL, KEPT(sizes.send_bytes) },
	{ SOL_SOCKET, SO_KEEPALIVE, set_keepalive, NULL, KEPT(keepalive_on) },
	{ SOL_SOCKET, SO_OOBINLINE, keep_flag, NULL, KEPT(oob_inline) },
	{ SOL_SOCKET, SO_ERROR, NULL, get_error, 0 },
	{ SOL_SOCKET, SO_TYPE, NULL, get_type, 0 },
	{ SOL_SOCKET, SO_ACCEPTCONN, NULL, get_listening, 0 },
	{ IPPROTO_IP, IP_TOS, set_tos, NULL, KEPT(tos) },
	{ IPPROTO_IPV6, IPV6_V6ONLY, set_v6only, NULL, KEPT(v6only) },
	{ IPPROTO_TCP, TCP_NODELAY, keep_flag, NULL, KEPT(no_delay) },
	{ IPPROTO_TCP, TCP_MAXSEG, ignore, get_mss, 0 },
	{ IPPROTO_TCP, TCP_KEEPIDLE, set_keepidle, NULL, KEPT(keepalive_s) },
	{ IPPROTO_TCP, TCP_KEEPCNT, ignore, get_one, 0 },
	{ IPPROTO_TCP, TCP_KEEPINTVL, ignore, get_one, 0 },
	{ SOL_RDMA, RDMA_SQSIZE, set_size, NULL, KEPT(sizes.sq) },
	{ SOL_RDMA, RDMA_RQSIZE, set_size, NULL, KEPT(sizes.rq) },
	{ SOL_RDMA, RDMA_INLINE, set_size, NULL, KEPT(sizes.inline_bytes) },
	{ SOL_RDMA, RDMA_IOMAPSIZE, set_size, NULL, KEPT(sizes.iomaps) },
};

static const struct option *
find_option(int level, int name)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (options[i].level == level && options[i].name == name)
			return &options[i];
	return NULL;
}

/** Closing always lingers, for at most RS_CLOSE_MS; the program's value is only stored. */
static int
set_linger(struct rsocket *rs, const void *value, socklen_t len)
{
	struct linger l;

	if (len < sizeof(l))
		return EINVAL;
	memcpy(&l, value, sizeof(l));
	rs->linger_on = l.l_onoff != 0;
	rs->linger_s = l.l_linger;
	return 0;
}

RS_EXPORT int
rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	struct rsocket *rs = rs_find(socket);
	const struct option *o = find_option(level, optname);
	int value, err;

	if (!rs)
		return rs_result(EBADF);
	if (!optval)
		return rs_result(EFAULT);
	if (rs->ops->set_option && level != SOL_RDMA) {
		err = rs->ops->set_option(rs, level, optname, optval, optlen);
		if (err || !o || !o->set)
			return rs_result(err);
	}
	if (level == SOL_SOCKET && optname == SO_LINGER)
		return rs_result(set_linger(rs, optval, optlen));
	if (!o || !o->set)
		return rs_result(ENOTSUP);
	if (optlen < sizeof(value))
		return rs_result(EINVAL);
	memcpy(&value, optval, sizeof(value));
	return rs_result(o->set(rs, o, value));
}

/** Return the connection's path in the format of RDMA_ROUTE. */
static int
get_route(struct rsocket *rs, void *value, socklen_t *len)
{
	struct rdma_cm_id *id = rs->type == SOCK_STREAM ? to_stream(rs)->id : NULL;
	const struct ibv_sa_path_rec *p = id ? id->route.path_rec : NULL;
	struct ibv_path_data out = { 0 };

	if (*len < sizeof(out))
		return EINVAL;
	if (!id || !id->route.num_paths) {
		*len = 0;
		return 0;
	}
	out.flags = p->preference;
	out.path.dgid = p->dgid;
	out.path.sgid = p->sgid;
	out.path.dlid = p->dlid;
	out.path.slid = p->slid;
	out.path.flowlabel_hoplimit = htobe32(be32toh(p->flow_label) << 8 | p->hop_limit);
	out.path.tclass = p->traffic_class;
	out.path.reversible_numpath = (uint8_t)(p->reversible << 7 | 1);
	out.path.pkey = p->pkey;
	out.path.qosclass_sl = htobe16(p->sl);
	out.path.mtu = p->mtu | PATH_EXACTLY;
	out.path.rate = p->rate | PATH_EXACTLY;
	out.path.packetlifetime = p->packet_life_time | PATH_EXACTLY;
	memcpy(value, &out, sizeof(out));
	*len = sizeof(out);
	return 0;
}

/** TCP's names for what a connection has; what only the daemon knows (retransmissions, round trips) is 0. */
static int
get_tcp_info(struct rsocket *rs, void *value, socklen_t *len)
{
	struct tcp_info info = { .tcpi_state = TCP_CLOSE };

	if (rs->type != SOCK_STREAM)
		return ENOTSUP;
	if (rs_state(rs) == RS_LISTENING)
		info.tcpi_state = TCP_LISTEN;
	else if (rs_state(rs) == RS_CONNECTED)
		info.tcpi_state = TCP_ESTABLISHED;
	else if (rs_is_opening(rs_state(rs)))
		info.tcpi_state = rs_state(rs) == RS_ACCEPTING ? TCP_SYN_RECV : TCP_SYN_SENT;
	if (info.tcpi_state == TCP_ESTABLISHED) {
		info.tcpi_snd_mss = info.tcpi_rcv_mss = info.tcpi_advmss = info.tcpi_pmtu = (uint32_t)get_mss(rs, NULL);
		info.tcpi_snd_cwnd = rs->sizes.sq;
	}
	/* As TCP: programs that were built with a shorter structure get what fits. */
	if (*len > sizeof(info))
		*len = sizeof(info);
	memcpy(value, &info, *len);
	return 0;
}

static int
put_value(void *to, socklen_t *len, const void *from, socklen_t bytes)
{
	if (*len < bytes)
		return EINVAL;
	memcpy(to, from, bytes);
	*len = bytes;
	return 0;
}

RS_EXPORT int
rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	struct rsocket *rs = rs_find(socket);
	const struct option *o = find_option(level, optname);
	struct linger l;
	int value;

	if (!rs)
		return rs_result(EBADF);
	if (!optval || !optlen)
		return rs_result(EFAULT);
	if (level == SOL_SOCKET && optname == SO_LINGER) {
		l = (struct linger){ rs->linger_on, rs->linger_s };
		return rs_result(put_value(optval, optlen, &l, sizeof(l)));
	}
	if (level == SOL_RDMA && optname == RDMA_ROUTE)
		return rs_result(get_route(rs, optval, optlen));
	if (level == IPPROTO_TCP && optname == TCP_INFO)
		return rs_result(get_tcp_info(rs, optval, optlen));
	if (!o)
		return rs_result(ENOTSUP);
	if (*optlen < sizeof(value))
		return rs_result(EINVAL);
	value = o->get ? o->get(rs, o) : *number(rs, o);
	return rs_result(put_value(optval, optlen, &value, sizeof(value)));
}

RS_EXPORT int
rfcntl(int socket, int cmd, ... /* arg */)
{
	struct rsocket *rs = rs_find(socket);
	int arg = 0;
	va_list args;

	if (!rs)
		return rs_result(EBADF);
	if (cmd == F_SETFL || cmd == F_SETFD) {
		va_start(args, cmd);
		arg = va_arg(args, int);
		va_end(args);
	}
	switch (cmd) {
	case F_GETFL:
		return O_RDWR | atomic_load(&rs->status_flags);
	case F_SETFL:
		atomic_store(&rs->status_flags, arg & O_NONBLOCK);
		return 0;
	case F_GETFD:
		return fcntl(rs->fd, F_GETFD);
	case F_SETFD:
		return fcntl(rs->fd, F_SETFD, arg);
	default:
		return rs_result(ENOTSUP);
	}
}
