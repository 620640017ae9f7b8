/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The sockets of net_af_packet, which the PMD keeps to itself, but every process may find among its own descriptors. They get a filter for UDP port 4791, or
 * they would copy all of the kernel's traffic; and while another daemon has the interface, one that takes nothing.
 */
#include <dirent.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include "net/net_priv.h"

/*
 * Accepts received RoCE v2 packets: not outgoing, nor to another's MAC address, IPv4 (no options, no fragment) or IPv6, UDP, destination port 4791.
 * The kernel has removed a VLAN tag before. Jumps are relative to the next line.
 */
static struct sock_filter roce_filter[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
	BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, PACKET_MULTICAST, 16, 0),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 8),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x45, 0, 12),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20),
	BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, 10, 0),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 8),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
	BPF_JUMP(BPF_JMP | BPF_JA, 4, 0, 0),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 0, 5),
	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 3),
	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, WIRE_UDP_PORT, 0, 1),
	BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	BPF_STMT(BPF_RET | BPF_K, 0),
};

/** Takes nothing. */
static struct sock_filter mute_filter[] = { BPF_STMT(BPF_RET | BPF_K, 0) };

/** @return the index of the interface on which @p fd is a packet socket, negative if that has gone; 0: it is none. */
static int
ifindex_of(int fd)
{
	struct sockaddr_ll sa = { 0 };
	socklen_t len = sizeof(sa);

	return getsockname(fd, (struct sockaddr *)&sa, &len) == 0 && sa.sll_family == AF_PACKET ? sa.sll_ifindex : 0;
}

bool
kernel_is_packet_socket(int fd, uint32_t ifindex)
{
	return ifindex != 0 && (uint32_t)ifindex_of(fd) == ifindex;
}

/** @param prog  NULL: count them only. @return how many packet sockets this process has on the interface, and that took the filter. */
static unsigned int
filter_sockets(uint32_t ifindex, const struct sock_fprog *prog)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *d;
	unsigned int found = 0;

	if (dir == NULL)
		return 0;
	while ((d = readdir(dir)) != NULL) {
		int fd = atoi(d->d_name);

		if (d->d_name[0] == '.' || !kernel_is_packet_socket(fd, ifindex))
			continue;
		found += prog == NULL || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, prog, sizeof(*prog)) == 0;
	}
	closedir(dir);
	return found;
}

unsigned int
kernel_filter_packet_sockets(uint32_t ifindex)
{
	const struct sock_fprog prog = { .len = sizeof(roce_filter) / sizeof(roce_filter[0]), .filter = roce_filter };

	return filter_sockets(ifindex, &prog);
}

unsigned int
kernel_mute_packet_sockets(uint32_t ifindex)
{
	const struct sock_fprog prog = { .len = sizeof(mute_filter) / sizeof(mute_filter[0]), .filter = mute_filter };

	return filter_sockets(ifindex, &prog);
}

bool
net_packet_group_is_taken(const char *netdev)
{
	struct sockaddr_ll sa = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(netdev) };
	/* Of a type that the PMD doesn't use: a group that exists has another one, and can't be joined (fanout_add()). */
	int group = ((getpid() ^ sa.sll_ifindex) & UINT16_MAX) | PACKET_FANOUT_LB << 16;
	const struct sock_fprog prog = { .len = sizeof(mute_filter) / sizeof(mute_filter[0]), .filter = mute_filter };
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	bool taken;

	taken = fd < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) != 0 ||
		bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0 || setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &group, sizeof(group)) != 0;
	if (fd >= 0)
		close(fd);
	return taken;
}

bool
net_packet_sockets_mute(const char *netdev)
{
	return kernel_mute_packet_sockets(if_nametoindex(netdev)) != 0;
}

bool
net_packet_sockets_there(const char *netdev)
{
	return filter_sockets(if_nametoindex(netdev), NULL) != 0;
}
