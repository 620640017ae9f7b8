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

#include <libmnl/libmnl.h>

#include "net/kernel/kernel_priv.h"
#include "net/pkt_priv.h"

enum {
	RTNL_REPLY_BYTES = 32768, /* the largest dump message of the kernel */
	RTNL_REQ_BYTES = 256,     /* a header and two addresses */
	RTNL_ATTRS = 64,
	RTNL_DUMP_TRIES = 4,
	RTNL_TIMEOUT_S = 1, /* a lost reply must not stop the daemon */
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

/* Begin a request in @p buf, of RTNL_REQ_BYTES bytes, with a copy of @p body, the header of its family. */
static struct nlmsghdr *
req_init(void *buf, uint16_t type, uint16_t flags, const void *body, size_t bytes)
{
	static uint32_t seq;
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);

	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	nlh->nlmsg_seq = ++seq;
	memcpy(mnl_nlmsg_put_extra_header(nlh, bytes), body, bytes);
	return nlh;
}

static void
req_addr(struct nlmsghdr *nlh, uint16_t type, const struct gid *gid)
{
	mnl_attr_put(nlh, type, gid_ip_bytes(gid), gid_ip(gid));
}

/**
 * Send a request; @p fn gets each message of the answer and returns MNL_CB_OK.
 * @return 0, the kernel's errno value or our own
 */
static int
rtnl_ask(int fd, const struct nlmsghdr *req, mnl_cb_t fn, void *arg)
{
	static uint8_t buf[RTNL_REPLY_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	const struct nlmsghdr *first = (const struct nlmsghdr *)buf;
	bool more = true;
	ssize_t len;

	if (send(fd, req, req->nlmsg_len, 0) < 0)
		return errno;
	while (more) {
		len = recv(fd, buf, sizeof(buf), 0);
		if (len < 0 && errno == EINTR)
			continue;
		if (len < 0)
			return errno;
		if (!mnl_nlmsg_ok(first, (int)len))
			return EPROTO;
		if (first->nlmsg_seq != req->nlmsg_seq)
			continue; /* it answers a query that was given up */
		more = (first->nlmsg_flags & NLM_F_MULTI) != 0;
		switch (mnl_cb_run(buf, (size_t)len, req->nlmsg_seq, 0, fn, arg)) {
		case MNL_CB_ERROR:
			return errno;
		case MNL_CB_STOP: /* the end of a dump */
			return 0;
		default:
			break;
		}
	}
	return 0;
}

struct attrs {
	const struct nlattr *tb[RTNL_ATTRS];
};

static int
take_attr(const struct nlattr *a, void *arg)
{
	struct attrs *attrs = arg;

	if (mnl_attr_get_type(a) < RTNL_ATTRS)
		attrs->tb[mnl_attr_get_type(a)] = a;
	return MNL_CB_OK;
}

static struct attrs
parse_attrs(const struct nlmsghdr *nlh, size_t body)
{
	struct attrs attrs = { 0 };

	mnl_attr_parse(nlh, (unsigned int)body, take_attr, &attrs);
	return attrs;
}

/** @return true if @p a contains an address of 4 or 16 bytes, which is put into @p gid. */
static bool
attr_gid(const struct nlattr *a, struct gid *gid)
{
	if (a == NULL)
		return false;
	if (mnl_attr_get_payload_len(a) != 4 && mnl_attr_get_payload_len(a) != 16)
		return false;
	*gid = gid_from_ip(mnl_attr_get_payload_len(a) == 4 ? 4 : 6, mnl_attr_get_payload(a));
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
	const struct rtmsg *rt = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *oif, *via_attr;
	const struct rtvia *via;
	struct route_reply *out = arg;
	struct attrs attrs;

	if (nlh->nlmsg_type != RTM_NEWROUTE || mnl_nlmsg_get_payload_len(nlh) < sizeof(*rt))
		return MNL_CB_OK;
	attrs = parse_attrs(nlh, sizeof(*rt));
	oif = attrs.tb[RTA_OIF];
	via_attr = attrs.tb[RTA_VIA];
	out->type = rt->rtm_type;
	if (oif != NULL && mnl_attr_validate(oif, MNL_TYPE_U32) == 0)
		out->oif = mnl_attr_get_u32(oif);
	out->gateway = attr_gid(attrs.tb[RTA_GATEWAY], &out->hop);
	if (!out->gateway && via_attr != NULL) { /* IPv4 through an IPv6 gateway (RFC 5549) */
		via = mnl_attr_get_payload(via_attr);
		if (mnl_attr_get_payload_len(via_attr) == sizeof(*via) + 16 && via->rtvia_family == AF_INET6) {
			out->hop = *gid_at(via->rtvia_addr);
			out->gateway = true;
		}
	}
	return MNL_CB_OK;
}

static int
route_ask(int fd, uint32_t oif, const struct gid *sgid, const struct gid *dgid, struct route_reply *out)
{
	uint8_t buf[RTNL_REQ_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	bool v4 = gid_is_v4(dgid);
	struct rtmsg rt = {
		.rtm_family = v4 ? AF_INET : AF_INET6,
		.rtm_dst_len = v4 ? 32 : 128,
		.rtm_src_len = v4 ? 32 : 128,
	};
	struct nlmsghdr *nlh = req_init(buf, RTM_GETROUTE, 0, &rt, sizeof(rt));

	memset(out, 0, sizeof(*out));
	req_addr(nlh, RTA_DST, dgid);
	req_addr(nlh, RTA_SRC, sgid);
	if (oif != 0)
		mnl_attr_put_u32(nlh, RTA_OIF, oif);
	return rtnl_ask(fd, nlh, route_reply, out);
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

/*
 * The states in which Linux itself sends (net/neighbour.h, NUD_VALID): an old answer is valid until proved
 * wrong.
 */
#define NEIGH_VALID (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

static int
neigh_reply(const struct nlmsghdr *nlh, void *arg)
{
	const struct ndmsg *nd = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *mac;
	struct neigh_reply *out = arg;

	if (nlh->nlmsg_type != RTM_NEWNEIGH || mnl_nlmsg_get_payload_len(nlh) < sizeof(*nd))
		return MNL_CB_OK;
	mac = parse_attrs(nlh, sizeof(*nd)).tb[NDA_LLADDR];
	out->state = nd->ndm_state;
	if (mac != NULL && mnl_attr_get_payload_len(mac) == sizeof(out->mac)) {
		memcpy(out->mac, mnl_attr_get_payload(mac), sizeof(out->mac));
		out->has_mac = true;
	}
	return MNL_CB_OK;
}

int
rtnl_neigh(int fd, uint32_t ifindex, const struct gid *hop, uint8_t mac[6])
{
	uint8_t buf[RTNL_REQ_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct ndmsg nd = { .ndm_family = gid_is_v4(hop) ? AF_INET : AF_INET6, .ndm_ifindex = (int)ifindex };
	struct nlmsghdr *nlh = req_init(buf, RTM_GETNEIGH, 0, &nd, sizeof(nd));
	struct neigh_reply out = { 0 };

	req_addr(nlh, NDA_DST, hop);
	if (rtnl_ask(fd, nlh, neigh_reply, &out) != 0)
		return ENOENT;
	if ((out.state & NEIGH_VALID) != 0 && out.has_mac && mac_is_unicast(out.mac)) {
		memcpy(mac, out.mac, sizeof(out.mac));
		return 0;
	}
	return (out.state & NUD_FAILED) != 0 ? EHOSTUNREACH : EAGAIN;
}

bool
rtnl_neigh_report(const struct nlmsghdr *nlh, uint32_t ifindex, struct gid *gid, uint8_t mac[6])
{
	const struct ndmsg *nd = mnl_nlmsg_get_payload(nlh);
	struct neigh_reply r = { 0 };

	if (nlh->nlmsg_type != RTM_NEWNEIGH || mnl_nlmsg_get_payload_len(nlh) < sizeof(*nd) || (uint32_t)nd->ndm_ifindex != ifindex)
		return false;
	neigh_reply(nlh, &r);
	if ((r.state & NEIGH_VALID) == 0 || !r.has_mac || !mac_is_unicast(r.mac) || !attr_gid(parse_attrs(nlh, sizeof(*nd)).tb[NDA_DST], gid))
		return false;
	memcpy(mac, r.mac, sizeof(r.mac));
	return true;
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
	const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);
	struct addr_reply *out = arg;
	struct attrs attrs;
	struct gid gid;

	if (nlh->nlmsg_type != RTM_NEWADDR || mnl_nlmsg_get_payload_len(nlh) < sizeof(*ifa) || ifa->ifa_index != out->ifindex ||
	    out->nb == out->max)
		return MNL_CB_OK;
	if (ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6)
		return MNL_CB_OK;
	/* Another host has it: the kernel doesn't answer for it. */
	if ((ifa->ifa_flags & IFA_F_DADFAILED) != 0)
		return MNL_CB_OK;
	attrs = parse_attrs(nlh, sizeof(*ifa));
	/* IFA_LOCAL is the own address; on point-to-point links IFA_ADDRESS is the peer's. IPv6 usually has only the
	 * latter. */
	if (!attr_gid(attrs.tb[IFA_LOCAL], &gid) && !attr_gid(attrs.tb[IFA_ADDRESS], &gid))
		return MNL_CB_OK;
	out->addrs[out->nb++] = (struct net_addr){ .gid = gid,
						   .prefix = ifa->ifa_prefixlen,
						   .deprecated = (ifa->ifa_flags & IFA_F_DEPRECATED) != 0 };
	return MNL_CB_OK;
}

int
rtnl_addrs(int fd, uint32_t ifindex, struct net_addr *addrs, unsigned int max)
{
	struct addr_reply out = { .addrs = addrs, .max = max, .ifindex = ifindex };
	uint8_t buf[RTNL_REQ_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct ifaddrmsg ifa = { .ifa_family = AF_UNSPEC };
	int rc = EINTR;

	/* An address came or went meanwhile: the list may lack others. */
	for (unsigned int i = 0; rc == EINTR && i < RTNL_DUMP_TRIES; i++) {
		out.nb = 0;
		rc = rtnl_ask(fd, req_init(buf, RTM_GETADDR, NLM_F_DUMP, &ifa, sizeof(ifa)), addr_reply, &out);
	}
	if (rc != 0) {
		errno = rc;
		return -1;
	}
	return (int)out.nb;
}
