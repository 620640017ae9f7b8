/* SPDX-License-Identifier: BSD-3-Clause */
#include "hosts.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <rte_eal.h>
#include <rte_mbuf.h>

enum { EXIT_SKIP = 77 };

struct hosts hosts;
const uint8_t ip_b[4] = { 198, 18, 0, 2 };
const uint8_t ip6_b[16] = { 0xfd, 0, 0, 0x18, [15] = 2 };

void
enter(int host)
{
	if (setns(hosts.ns[host], CLONE_NEWNET) != 0) {
		perror("setns");
		exit(1);
	}
}

int
sh(const char *format, ...)
{
	char command[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	return system(command);
}

int
host_socket(int host, int family, int type, int protocol)
{
	struct timeval tv = { .tv_sec = 1 };
	int fd;

	enter(host);
	fd = socket(family, type, protocol);
	enter(0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)), 0);
	return fd;
}

socklen_t
address(int host, int family, uint16_t port, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *s6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *s4 = (struct sockaddr_in *)ss;

	memset(ss, 0, sizeof(*ss));
	ss->ss_family = (sa_family_t)family;
	if (family == AF_INET) {
		s4->sin_port = htons(port);
		memcpy(&s4->sin_addr, ip_b, 4);
		((uint8_t *)&s4->sin_addr)[3] = (uint8_t)(host + 1);
		return sizeof(*s4);
	}
	s6->sin6_port = htons(port);
	memcpy(&s6->sin6_addr, ip6_b, 16);
	s6->sin6_addr.s6_addr[15] = (uint8_t)(host + 1);
	return sizeof(*s6);
}

static int
make_hosts(void)
{
	for (int i = 0; i < 2; i++) {
		if (unshare(CLONE_NEWNET) != 0)
			return -1;
		hosts.ns[i] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		if (hosts.ns[i] < 0 || sh("ip link set lo up") != 0)
			return -1;
	}
	enter(0);
	if (sh("ip link add veA mtu %u type veth peer name veB mtu %u netns /proc/%d/fd/%d", hosts.mtu, hosts.mtu, getpid(),
	       hosts.ns[1]) != 0 ||
	    sh("ip addr add 198.18.0.1/24 dev veA && ip addr add fd00:18::1/64 dev veA nodad && ip link set veA up") !=
		    0)
		return -1;
	enter(1);
	if (sh("ip addr add 198.18.0.2/24 dev veB && ip addr add fd00:18::2/64 dev veB nodad && ip link set veB up") !=
	    0)
		return -1;
	enter(0);
	return 0;
}

static void
read_mac_b(void)
{
	struct net_port b = { .netdev = "veB" };
	struct net_kernel *k;
	uint32_t mtu;
	char err[200];

	enter(1);
	k = kernel_open(&b, &mtu, err, sizeof(err));
	enter(0);
	if (k == NULL) {
		fprintf(stderr, "%s\n", err);
		exit(1);
	}
	memcpy(hosts.mac_b, b.mac, 6);
	kernel_close(k);
}

static int
start_eal(char *name, char **options, int nb_options)
{
	char *no_huge[] = { "--no-huge", "-m", "256" };
	char vdev[512];
	char *argv[32] = { name,      "--no-pci", "--no-shconf", "--no-telemetry", "--log-level",
			   "warning", "-l",       "0",           "--vdev",         vdev };
	int argc = 10;

	if (nb_options == 0) {
		options = no_huge;
		nb_options = 3;
	}
	for (int i = 0; i < nb_options && argc < 31; i++)
		argv[argc++] = options[i];
	snprintf(hosts.ethdev, sizeof(hosts.ethdev), "net_%s0", hosts.xdp ? "af_xdp" : "af_packet");
	if (hosts.xdp)
		snprintf(vdev, sizeof(vdev), "%s,iface=veA,xdp_prog=%s,busy_budget=0", hosts.ethdev, hosts.prog);
	else
		snprintf(vdev, sizeof(vdev), "%s,iface=veA,framesz=4352,blocksz=69632,framecnt=512", hosts.ethdev);
	return rte_eal_init(argc, argv);
}

int
hosts_up(int argc, char **argv)
{
	char err[100];

	if (argc < 3) {
		fprintf(stderr, "usage: %s af_packet|af_xdp UROCE_XDP.O [MTU [EAL-OPTION...]]\n", argv[0]);
		return 2;
	}
	hosts.xdp = strcmp(argv[1], "af_xdp") == 0;
	hosts.prog = argv[2];
	hosts.mtu = argc > 3 ? (unsigned int)atoi(argv[3]) : 4500;
	if (geteuid() != 0 || make_hosts() != 0) {
		fprintf(stderr, "skipped: network namespaces need root\n");
		return EXIT_SKIP;
	}
	read_mac_b();
	if (start_eal(argv[0], argv + 4, argc > 4 ? argc - 4 : 0) < 0)
		return 1;
	hosts.pool =
		rte_pktmbuf_pool_create("pool", 4095, 0, 0, RTE_PKTMBUF_HEADROOM + WIRE_MAX_FRAME_BYTES, SOCKET_ID_ANY);
	if (hosts.pool == NULL)
		return 1;
	strcpy(hosts.conf.name, "uroce0");
	strcpy(hosts.conf.ethdev, hosts.ethdev);
	net_addr_parse("198.18.0.1/24", &hosts.conf.addrs[0], err, sizeof(err));
	net_addr_parse("fd00:18::1/64", &hosts.conf.addrs[1], err, sizeof(err));
	hosts.conf.nb_addrs = 2;
	return 0;
}

void
hosts_down(void)
{
	net_port_close(hosts.port);
	rte_eal_cleanup();
}
