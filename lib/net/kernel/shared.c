/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The kernel interface of a shared port: its index, MAC address and MTU; and what keeps the port and the kernel from
 * interfering with each other.
 *
 * - We bind UDP port 4791 on the interface, so that the kernel has a receiver for RoCE packets and does not answer with
 *   port unreachable. The socket's filter drops them before they are queued. The bound port also tells a second daemon
 *   that there is a first one.
 * - af_xdp: the program stays on the interface when a daemon is killed; the next daemon removes it.
 */
#include <errno.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/filter.h>

#include "net/net_priv.h"

#define XDP_PROG_NAME "uroce_xdp"
enum { DISCARD_PORT = 9 };

/* ---- struct kernel_ops for the real kernel ---- */
static int
ops_route(void *kernel, const struct gid *sgid, const struct gid *dgid, struct gid *hop)
{
	const struct net_kernel *k = kernel;

	return rtnl_route(k->rtnl, k->ifindex, sgid, dgid, hop);
}

static int
ops_neigh(void *kernel, const struct gid *hop, uint8_t mac[6])
{
	const struct net_kernel *k = kernel;

	return rtnl_neigh(k->rtnl, k->ifindex, hop, mac);
}

static void
ops_trigger(void *kernel, const struct gid *dgid)
{
	const struct net_kernel *k = kernel;
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6,
				    .sin6_port = htons(DISCARD_PORT),
				    .sin6_scope_id = k->ifindex };
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(DISCARD_PORT) };
	ssize_t rc;

	/*
	 * It doesn't matter what happens to the datagram; if the kernel couldn't even start, the resolution times out.
	 */
	if (gid_is_v4(dgid)) {
		memcpy(&to4.sin_addr, gid_ip(dgid), 4);
		rc = sendto(k->trigger4, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&to4, sizeof(to4));
	} else {
		memcpy(&to6.sin6_addr, dgid, 16);
		rc = sendto(k->trigger6, NULL, 0, MSG_DONTWAIT, (struct sockaddr *)&to6, sizeof(to6));
	}
	(void)rc;
}

/** Uses a socket per group, because the kernel limits the groups of a socket (net.ipv4.igmp_max_memberships). */
static int
ops_join(void *kernel, const struct gid *mgid)
{
	const struct net_kernel *k = kernel;
	struct ip_mreqn m4 = { .imr_ifindex = (int)k->ifindex };
	struct ipv6_mreq m6 = { .ipv6mr_interface = k->ifindex };
	bool v4 = gid_is_v4(mgid);
	int fd = socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int rc, e;

	if (fd < 0)
		return -1;
	memcpy(&m4.imr_multiaddr, mgid->raw + 12, sizeof(m4.imr_multiaddr));
	memcpy(&m6.ipv6mr_multiaddr, mgid, sizeof(m6.ipv6mr_multiaddr));
	rc = v4 ? setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m4, sizeof(m4))
		: setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &m6, sizeof(m6));
	if (rc != 0) {
		e = errno;
		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

static const struct kernel_ops real_kernel = {
	.route = ops_route,
	.neigh = ops_neigh,
	.trigger = ops_trigger,
	.join = ops_join,
};

/* ---- Sockets ---- */
/** @return a UDP socket bound to the interface, or -1 with errno set. */
static int
udp_on_device(int family, const char *netdev)
{
	int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1, e;

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, netdev, (socklen_t)strlen(netdev)) != 0 ||
	    (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) != 0)) {
		e = errno;
		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

/** Bind UDP port 4791. The filter is attached before binding, so that nothing is ever queued. */
static int
blackhole(int family, const char *netdev)
{
	struct sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog prog = { .len = 1, .filter = &drop_all };
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6, .sin6_port = htons(WIRE_UDP_PORT) };
	struct sockaddr_in any4 = { .sin_family = AF_INET, .sin_port = htons(WIRE_UDP_PORT) };
	struct sockaddr *sa = family == AF_INET ? (struct sockaddr *)&any4 : (struct sockaddr *)&any6;
	socklen_t len = family == AF_INET ? sizeof(any4) : sizeof(any6);
	int fd = udp_on_device(family, netdev);
	int e;

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) != 0 || bind(fd, sa, len) != 0) {
		e = errno;
		close(fd);
		errno = e;
		return -1;
	}
	return fd;
}

bool
net_roce_port_is_taken(const char *netdev)
{
	static const int families[] = { AF_INET, AF_INET6 };

	for (unsigned int i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		int fd = blackhole(families[i], netdev);

		if (fd < 0 && errno == EADDRINUSE)
			return true;
		if (fd >= 0)
			close(fd);
	}
	return false;
}

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void
kernel_release(struct net_kernel *k)
{
	if (k == NULL)
		return;
	close_fd(&k->blackhole4);
	close_fd(&k->blackhole6);
}

void
kernel_close(struct net_kernel *k)
{
	if (k == NULL)
		return;
	kernel_release(k);
	close_fd(&k->rtnl);
	close_fd(&k->links);
	close_fd(&k->trigger4);
	close_fd(&k->trigger6);
	free(k);
}

/** A kernel without IPv6 can't answer IPv6 packets, so no socket is needed. */
static bool
no_ipv6(int e)
{
	return e == EAFNOSUPPORT || e == EADDRNOTAVAIL;
}

static int
open_sockets(struct net_kernel *k, const char *netdev, char *err, size_t err_bytes)
{
	k->links = links_open(); /* without, links are looked at from time to time */
	k->rtnl = rtnl_open();
	k->trigger4 = udp_on_device(AF_INET, netdev);
	k->trigger6 = udp_on_device(AF_INET6, netdev);
	if (k->rtnl < 0 || k->trigger4 < 0 || (k->trigger6 < 0 && !no_ipv6(errno))) {
		snprintf(err, err_bytes, "sockets on %s: %s", netdev, strerror(errno));
		return -1;
	}
	k->blackhole4 = blackhole(AF_INET, netdev);
	if (k->blackhole4 < 0)
		goto taken;
	k->blackhole6 = blackhole(AF_INET6, netdev);
	if (k->blackhole6 < 0 && !no_ipv6(errno))
		goto taken;
	return 0;

taken:
	if (errno == EADDRINUSE)
		snprintf(err, err_bytes,
			 "UDP port %u on %s is taken: another uroced, or Linux's rdma_rxe, runs on this interface; "
			 "stop it, "
			 "or use another interface",
			 WIRE_UDP_PORT, netdev);
	else
		snprintf(err, err_bytes, "UDP port %u on %s: %s", WIRE_UDP_PORT, netdev, strerror(errno));
	return -1;
}

static int
interface_facts(const struct net_kernel *k, struct net_port *p, uint32_t *mtu, char *err, size_t err_bytes)
{
	struct ifreq ifr = { 0 };
	int fd = k->trigger4;

	memcpy(ifr.ifr_name, p->netdev, strnlen(p->netdev, sizeof(ifr.ifr_name) - 1));
	if (ioctl(fd, SIOCGIFHWADDR, &ifr) != 0)
		goto fail;
	if (ifr.ifr_hwaddr.sa_family != ARPHRD_ETHER) {
		snprintf(err, err_bytes, "%s is no Ethernet interface", p->netdev);
		return -1;
	}
	memcpy(p->mac, ifr.ifr_hwaddr.sa_data, sizeof(p->mac));
	if (ioctl(fd, SIOCGIFMTU, &ifr) != 0)
		goto fail;
	*mtu = (uint32_t)ifr.ifr_mtu;
	return 0;

fail:
	snprintf(err, err_bytes, "%s: %s", p->netdev, strerror(errno));
	return -1;
}

struct net_kernel *
kernel_open(struct net_port *p, uint32_t *mtu, char *err, size_t err_bytes)
{
	struct net_kernel *k = calloc(1, sizeof(*k));

	if (k == NULL) {
		snprintf(err, err_bytes, "out of memory");
		return NULL;
	}
	k->rtnl = k->links = k->blackhole4 = k->blackhole6 = k->trigger4 = k->trigger6 = -1;
	k->ops = &real_kernel;
	k->ifindex = strlen(p->netdev) < IF_NAMESIZE ? if_nametoindex(p->netdev) : 0;
	if (k->ifindex == 0) {
		snprintf(err, err_bytes, "there is no network interface %s; ip link lists those there are", p->netdev);
		goto fail;
	}
	p->ifindex = k->ifindex;
	if (open_sockets(k, p->netdev, err, err_bytes) != 0 || interface_facts(k, p, mtu, err, err_bytes) != 0)
		goto fail;
	return k;

fail:
	kernel_close(k);
	return NULL;
}

uint32_t
kernel_mtu(const struct net_port *p)
{
	struct ifreq ifr = { 0 };

	memcpy(ifr.ifr_name, p->netdev, strnlen(p->netdev, sizeof(ifr.ifr_name) - 1));
	return ioctl(p->priv->kernel->trigger4, SIOCGIFMTU, &ifr) == 0 && ifr.ifr_mtu > 0 ? (uint32_t)ifr.ifr_mtu : 0;
}

bool
kernel_link(const struct net_port *p)
{
	struct ifreq ifr = { 0 };

	memcpy(ifr.ifr_name, p->netdev, strnlen(p->netdev, sizeof(ifr.ifr_name) - 1));
	if (ioctl(p->priv->kernel->trigger4, SIOCGIFFLAGS, &ifr) != 0)
		return false;
	return (ifr.ifr_flags & IFF_UP) != 0 && (ifr.ifr_flags & IFF_RUNNING) != 0;
}

/* ---- XDP ---- */
static bool
is_our_program(uint32_t id)
{
	struct bpf_prog_info info = { 0 };
	uint32_t len = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(id);
	bool ours;

	if (fd < 0)
		return false;
	ours = bpf_obj_get_info_by_fd(fd, &info, &len) == 0 && strcmp(info.name, XDP_PROG_NAME) == 0;
	close(fd);
	return ours;
}

void
kernel_detach_xdp(const struct net_port *p)
{
	uint32_t id = 0;

	if (bpf_xdp_query_id((int)p->ifindex, 0, &id) == 0 && id != 0 && is_our_program(id))
		bpf_xdp_detach((int)p->ifindex, 0, NULL);
}

uint32_t
net_xdp_program(uint32_t ifindex)
{
	uint32_t id = 0;

	return bpf_xdp_query_id((int)ifindex, 0, &id) == 0 ? id : 0;
}

void
net_xdp_detach(uint32_t ifindex, uint32_t id)
{
	if (id != 0 && net_xdp_program(ifindex) == id)
		bpf_xdp_detach((int)ifindex, 0, NULL);
}
