/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * XDP program for ports on net_af_xdp: RoCE v2 goes to the daemon's socket, everything else to the kernel.
 *
 * The PMD loads it with devarg xdp_prog=FILE and puts its sockets into the map, which it finds by the name xsks_map.
 * Packets on a queue without a socket are passed to the kernel (the third argument of bpf_redirect_map()).
 *
 * The section is "xdp.frags": the kernel's own traffic on the interface may be larger than a page, and drivers refuse a
 * program without frags support on an interface with a large MTU. Only headers are read here, and they are in the first
 * fragment.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ROCE_V2_PORT 4791
#define XSKS_MAX 64          /* UROCE_MAX_ENGINES: one queue per engine */
#define IPV4_FRAGMENT 0x3fff /* more-fragments flag and offset: a fragment's payload has no UDP header to trust */

struct vlan {
	__be16 tci;
	__be16 proto;
};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, XSKS_MAX);
	__uint(key_size, sizeof(int));
	__uint(value_size, sizeof(int));
} xsks_map SEC(".maps");

static __always_inline int
is_roce(void *l3, void *end, __be16 proto)
{
	struct udphdr *udp;

	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = l3;

		if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
			return 0;
		if (ip->frag_off & bpf_htons(IPV4_FRAGMENT))
			return 0;
		udp = (void *)(ip + 1);
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = l3;

		if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP)
			return 0;
		udp = (void *)(ip + 1);
	} else {
		return 0;
	}
	return (void *)(udp + 1) <= end && udp->dest == bpf_htons(ROCE_V2_PORT);
}

SEC("xdp.frags")
int
uroce_xdp(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	void *l3 = eth + 1;
	__be16 proto;

	if (l3 > end)
		return XDP_PASS;
	proto = eth->h_proto;
	if (proto == bpf_htons(ETH_P_8021Q)) {
		struct vlan *vlan = l3;

		l3 = vlan + 1;
		if (l3 > end)
			return XDP_PASS;
		proto = vlan->proto;
	}
	if (!is_roce(l3, end, proto))
		return XDP_PASS;
	return bpf_redirect_map(&xsks_map, ctx->rx_queue_index, XDP_PASS);
}

char uroce_license[] SEC("license") = "BSD";
