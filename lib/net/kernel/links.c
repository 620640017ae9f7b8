/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the kernel reports about its interfaces, their addresses and neighbours (rtnetlink(7), RTNLGRP_LINK, _IPV4_IFADDR, _IPV6_IFADDR, _NEIGH). */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include <libmnl/libmnl.h>

#include "net/kernel/kernel_priv.h"

enum { LINKS_BYTES = 32768, LINKS_READS = 64 /* at a time: others' interfaces may change without end */ };

struct links_seen {
	uint32_t ifindex;
	struct kernel_report report;
	kernel_neigh_fn on_neigh;
	void *arg;
};

int
links_open(void)
{
	struct sockaddr_nl sa = { .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_NEIGH };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static void
on_address(const struct nlmsghdr *nlh, struct links_seen *seen)
{
	const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);

	if (mnl_nlmsg_get_payload_len(nlh) >= sizeof(*ifa) && ifa->ifa_index == seen->ifindex)
		seen->report.addrs = true;
}

static int
on_message(const struct nlmsghdr *nlh, void *arg)
{
	struct links_seen *seen = arg;
	const struct ifinfomsg *ifi;
	enum kernel_link_event ev = KERNEL_LINK_CHANGED;
	struct gid gid;
	uint8_t mac[6];

	if (rtnl_neigh_report(nlh, seen->ifindex, &gid, mac))
		seen->on_neigh(seen->arg, &gid, mac);
	if (nlh->nlmsg_type == RTM_NEWADDR || nlh->nlmsg_type == RTM_DELADDR)
		on_address(nlh, seen);
	if ((nlh->nlmsg_type != RTM_NEWLINK && nlh->nlmsg_type != RTM_DELLINK) || mnl_nlmsg_get_payload_len(nlh) < sizeof(*ifi))
		return MNL_CB_OK;
	ifi = mnl_nlmsg_get_payload(nlh);
	/* Messages of another family are about a bridge's or bond's ports. */
	if (ifi->ifi_family != AF_UNSPEC || (uint32_t)ifi->ifi_index != seen->ifindex)
		return MNL_CB_OK;
	if (nlh->nlmsg_type == RTM_DELLINK)
		ev = KERNEL_LINK_REMOVED;
	else if ((ifi->ifi_flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING))
		ev = KERNEL_LINK_WENT_DOWN;
	if (ev > seen->report.event)
		seen->report.event = ev;
	return MNL_CB_OK;
}

struct kernel_report
links_read(int fd, uint32_t ifindex, kernel_neigh_fn on_neigh, void *arg)
{
	uint8_t buf[LINKS_BYTES] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct links_seen seen = { .ifindex = ifindex, .on_neigh = on_neigh, .arg = arg };
	struct kernel_report *r = &seen.report;
	struct sockaddr_nl from;
	socklen_t len;
	ssize_t n;

	for (unsigned int i = 0; i < LINKS_READS; i++) {
		len = sizeof(from);
		n = recvfrom(fd, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&from, &len);
		if (n < 0 && errno != ENOBUFS)
			break;
		if (n < 0) { /* some were lost */
			r->event = r->event == KERNEL_LINK_SAME ? KERNEL_LINK_CHANGED : r->event;
			r->addrs = r->lost = true;
		} else if (len == sizeof(from) && from.nl_pid == 0) { /* the kernel's */
			mnl_cb_run(buf, (size_t)n, 0, 0, on_message, &seen);
		}
	}
	return *r;
}
