/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Queries of the kernel's routes, neighbours and addresses (rtnetlink(7)). The kernel answers within the system
 * call, so none of them blocks. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "net/kernel/kernel_priv.h"
#include "net/pkt_priv.h"

enum {
	RTNL_REPLY_BYTES = 32768, /* the largest dump message of the kernel */
	RTNL_ATTRS = 64,
	RTNL_TIMEOUT_S = 1, /* a lost reply must not stop the daemon */
};

struct rtnl_req {
	struct nlmsghdr nlh;
	union {
		struct rtmsg rt;
		struct ndmsg nd;
		struct ifaddrmsg ifa;
	};
	uint8_t attrs[128];
};

int
rtnl_open(void)
{
	struct timeval tv = { .tv_sec = RTNL_TIMEOUT_S };
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static void
req_attr(struct rtnl_req *r, uint16_t type, const void *data, uint16_t len)
{
	struct rtattr *a = (struct rtattr *)((uint8_t *)r + NLMSG_ALIGN(r->nlh.nlmsg_len));

	a->rta_type = type;
	a->rta_len = RTA_LENGTH(len);
	memcpy(RTA_DATA(a), data, len);
	r->nlh.nlmsg_len = NLMSG_ALIGN(r->nlh.nlmsg_len) + RTA_ALIGN(a->rta_len);
}

static void
req_addr(struct rtnl_req *r, uint16_t type, const struct gid *gid)
{
	req_attr(r, type, gid_ip(gid), (uint16_t)gid_ip_bytes(gid));
}

static void
req_init(struct rtnl_req *r, uint16_t type, uint16_t flags, size_t body)
{
	static uint32_t seq;

	memset(r, 0, sizeof(*r));
	r->nlh.nlmsg_type = type;
	r->nlh.nlmsg_flags = NLM_F_REQUEST | flags;
	r->nlh.nlmsg_seq = ++seq;
	r->nlh.nlmsg_len = NLMSG_LENGTH(body);
}

/** Called for each message of the answer. @return 0: continue; otherwise stop. */
typedef int (*reply_fn)(const struct nlmsghdr *nlh, void *arg);

/** Handle the messages of one datagram. @return -1: more will follow. */
static int
walk_reply(const struct rtnl_req *r, const uint8_t *buf, ssize_t len, reply_fn fn, void *arg)
{
	const struct nlmsghdr *nlh;
	int rc;

	for (nlh = (const struct nlmsghdr *)buf; NLMSG_OK(nlh, len); nlh = NLMSG_NEXT(nlh, len)) {
		if (nlh->nlmsg_seq != r->nlh.nlmsg_seq)
			continue; /* it answers a query that was given up */
		if (nlh->nlmsg_type == NLMSG_DONE)
			return 0;
		if (nlh->nlmsg_type == NLMSG_ERROR)
			return -((const struct nlmsgerr *)NLMSG_DATA(nlh))->error;
		rc = fn(nlh, arg);
		if (rc != 0)
			return rc;
		if ((nlh->nlmsg_flags & NLM_F_MULTI) == 0)
			return 0;
	}
	return -1;
}

/** @return 0, the kernel's errno value or our own. */
static int
rtnl_ask(int fd, struct rtnl_req *r, reply_fn fn, void *arg)
{
	static uint8_t buf[RTNL_REPLY_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	ssize_t len;
	int rc;

	if (send(fd, r, r->nlh.nlmsg_len, 0) < 0)
		return errno;
	do {
		len = recv(fd, buf, sizeof(buf), 0);
		if (len < 0 && errno != EINTR)
			return errno;
		rc = len < 0 ? -1 : walk_reply(r, buf, len, fn, arg);
	} while (rc == -1);
	return rc;
}

static void
parse_attrs(const struct rtattr *tb[RTNL_ATTRS], const struct rtattr *a, int len)
{
	memset(tb, 0, RTNL_ATTRS * sizeof(*tb));
	for (; RTA_OK(a, len); a = RTA_NEXT(a, len))
		if ((a->rta_type & NLA_TYPE_MASK) < RTNL_ATTRS)
			tb[a->rta_type & NLA_TYPE_MASK] = a;
}

/** @return true if @p a contains an address of 4 or 16 bytes, which is put into @p gid. */
static bool
attr_gid(const struct rtattr *a, struct gid *gid)
{
	if (a == NULL)
		return false;
	if (RTA_PAYLOAD(a) != 4 && RTA_PAYLOAD(a) != 16)
		return false;
	*gid = gid_from_ip(RTA_PAYLOAD(a) == 4 ? 4 : 6, RTA_DATA(a));
	return true;
}

/* ---- Routes ---- */
struct route_reply {
	struct gid hop;
	uint32_t oif;
	uint8_t type;
	bool gateway;
};

static int
route_reply(const struct nlmsghdr *nlh, void *arg)
{
	const struct rtmsg *rt = NLMSG_DATA(nlh);
	const struct rtattr *tb[RTNL_ATTRS];
	const struct rtvia *via;
	struct route_reply *out = arg;

	if (nlh->nlmsg_type != RTM_NEWROUTE)
		return 0;
	parse_attrs(tb, RTM_RTA(rt), (int)RTM_PAYLOAD(nlh));
	out->type = rt->rtm_type;
	if (tb[RTA_OIF] != NULL)
		memcpy(&out->oif, RTA_DATA(tb[RTA_OIF]), sizeof(out->oif));
	out->gateway = attr_gid(tb[RTA_GATEWAY], &out->hop);
	if (!out->gateway && tb[RTA_VIA] != NULL) { /* IPv4 through an IPv6 gateway (RFC 5549) */
		via = RTA_DATA(tb[RTA_VIA]);
		if (via->rtvia_family == AF_INET6 && RTA_PAYLOAD(tb[RTA_VIA]) == sizeof(*via) + 16) {
			out->hop = *gid_at(via->rtvia_addr);
			out->gateway = true;
		}
	}
	return 0;
}

static int
route_ask(int fd, uint32_t oif, const struct gid *sgid, const struct gid *dgid, struct route_reply *out)
{
	struct rtnl_req r;
	bool v4 = gid_is_v4(dgid);

	memset(out, 0, sizeof(*out));
	req_init(&r, RTM_GETROUTE, 0, sizeof(r.rt));
	r.rt.rtm_family = v4 ? AF_INET : AF_INET6;
	r.rt.rtm_dst_len = v4 ? 32 : 128;
	r.rt.rtm_src_len = v4 ? 32 : 128;
	req_addr(&r, RTA_DST, dgid);
	req_addr(&r, RTA_SRC, sgid);
	if (oif != 0)
		req_attr(&r, RTA_OIF, &oif, sizeof(oif));
	return rtnl_ask(fd, &r, route_reply, out);
}

int
rtnl_route(int fd, uint32_t ifindex, const struct gid *sgid, const struct gid *dgid, struct gid *hop)
{
	struct route_reply via, any;

	if (route_ask(fd, ifindex, sgid, dgid, &via) != 0 || via.type != RTN_UNICAST || via.oif != ifindex)
		return EHOSTUNREACH;
	if (via.gateway) {
		*hop = via.hop;
		return 0;
	}
	/*
	 * If asked for a route through a given interface, the kernel's IPv4 considers a destination without a route to
	 * be on link (net/ipv4/route.c, ip_route_output_key_hash_rcu). So first ask without the interface whether there
	 * is a route at all.
	 */
	if (gid_is_v4(dgid) && route_ask(fd, 0, sgid, dgid, &any) != 0)
		return EHOSTUNREACH;
	*hop = *dgid;
	return 0;
}

/* ---- Neighbours ---- */
struct neigh_reply {
	uint16_t state;
	bool has_mac;
	uint8_t mac[6];
};

static int
neigh_reply(const struct nlmsghdr *nlh, void *arg)
{
	const struct ndmsg *nd = NLMSG_DATA(nlh);
	const struct rtattr *tb[RTNL_ATTRS];
	struct neigh_reply *out = arg;

	if (nlh->nlmsg_type != RTM_NEWNEIGH)
		return 0;
	parse_attrs(tb, (const struct rtattr *)((const uint8_t *)nd + NLMSG_ALIGN(sizeof(*nd))),
		    (int)(nlh->nlmsg_len - NLMSG_LENGTH(sizeof(*nd))));
	out->state = nd->ndm_state;
	if (tb[NDA_LLADDR] != NULL && RTA_PAYLOAD(tb[NDA_LLADDR]) == sizeof(out->mac)) {
		memcpy(out->mac, RTA_DATA(tb[NDA_LLADDR]), sizeof(out->mac));
		out->has_mac = true;
	}
	return 0;
}

int
rtnl_neigh(int fd, uint32_t ifindex, const struct gid *hop, uint8_t mac[6])
{
	/*
	 * The states in which Linux itself sends (net/neighbour.h, NUD_VALID): an old answer is valid until proved
	 * wrong.
	 */
	const uint16_t valid = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY;
	struct neigh_reply out = { 0 };
	struct rtnl_req r;

	req_init(&r, RTM_GETNEIGH, 0, sizeof(r.nd));
	r.nd.ndm_family = gid_is_v4(hop) ? AF_INET : AF_INET6;
	r.nd.ndm_ifindex = (int)ifindex;
	req_addr(&r, NDA_DST, hop);
	if (rtnl_ask(fd, &r, neigh_reply, &out) != 0)
		return ENOENT;
	if ((out.state & valid) != 0 && out.has_mac && mac_is_unicast(out.mac)) {
		memcpy(mac, out.mac, sizeof(out.mac));
		return 0;
	}
	return (out.state & NUD_FAILED) != 0 ? EHOSTUNREACH : EAGAIN;
}

/* ---- Addresses ---- */
struct addr_reply {
	struct net_addr *addrs;
	unsigned int nb, max;
	uint32_t ifindex;
};

static int
addr_reply(const struct nlmsghdr *nlh, void *arg)
{
	const struct ifaddrmsg *ifa = NLMSG_DATA(nlh);
	const struct rtattr *tb[RTNL_ATTRS];
	struct addr_reply *out = arg;
	struct gid gid;

	if (nlh->nlmsg_type != RTM_NEWADDR || ifa->ifa_index != out->ifindex || out->nb == out->max)
		return 0;
	if (ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6)
		return 0;
	parse_attrs(tb, IFA_RTA(ifa), (int)IFA_PAYLOAD(nlh));
	/* IFA_LOCAL is the own address; on point-to-point links IFA_ADDRESS is the peer's. IPv6 usually has only the
	 * latter. */
	if (!attr_gid(tb[IFA_LOCAL], &gid) && !attr_gid(tb[IFA_ADDRESS], &gid))
		return 0;
	out->addrs[out->nb++] = (struct net_addr){ gid, ifa->ifa_prefixlen };
	return 0;
}

int
rtnl_addrs(int fd, uint32_t ifindex, struct net_addr *addrs, unsigned int max)
{
	struct addr_reply out = { .addrs = addrs, .max = max, .ifindex = ifindex };
	struct rtnl_req r;
	int rc;

	req_init(&r, RTM_GETADDR, NLM_F_DUMP, sizeof(r.ifa));
	r.ifa.ifa_family = AF_UNSPEC;
	rc = rtnl_ask(fd, &r, addr_reply, &out);
	if (rc != 0) {
		errno = rc;
		return -1;
	}
	return (int)out.nb;
}
