/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A port that shares its interface with the kernel, on a real kernel: two network namespaces joined by a veth pair.
 *
 * usage: test_shared af_packet|af_xdp UROCE_XDP.O [MTU [EAL-OPTION...]]; EAL options replace --no-huge -m 256.
 * Exits with 77 if the namespaces can't be made (needs root).
 *
 * Host A has the port, host B is the peer (hosts.h).
 */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "hosts.h"
#include "util.h"

enum { BURST = 32, PACKETS = 50, OTHER_PORT = 4792, TCP_PORT = 5000, TCP_BYTES = 4 << 20 };

/** Receive on the port for at most a second. @return packets, freed; the last one's length in @p bytes. */
static unsigned int
port_receive(unsigned int want, uint32_t *bytes)
{
	uint64_t end = now_ns() + SECOND_NS;
	struct rte_mbuf *m[BURST];
	unsigned int n = 0;
	uint16_t i, got;

	while (n < want && now_ns() < end) {
		got = rte_eth_rx_burst(hosts.port->port_id, 0, m, BURST);
		for (i = 0; i < got; i++) {
			*bytes = rte_pktmbuf_pkt_len(m[i]);
			rte_pktmbuf_free(m[i]);
		}
		n += got;
	}
	return n;
}

/** Send UDP datagrams from B to A. @return 0, or the error that A's ICMP answer makes of it. */
static int
udp_to_a(int family, uint16_t port, unsigned int packets, size_t bytes)
{
	static uint8_t data[65536];
	struct sockaddr_storage ss;
	socklen_t len = address(0, family, port, &ss);
	int fd = host_socket(1, family, SOCK_DGRAM, 0);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int err = 0;
	socklen_t err_len = sizeof(err);

	assert_int_equal(connect(fd, (struct sockaddr *)&ss, len), 0);
	while (packets-- > 0 && err == 0)
		err = send(fd, data, bytes, 0) < 0 ? errno : 0; /* tells of the answer to an earlier one */
	if (err == 0) {
		poll(&pfd, 1, 200);
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_len);
	}
	close(fd);
	return err;
}

static void
roce_packets_reach_the_port(void **state)
{
	static const int families[] = { AF_INET, AF_INET6 };
	uint32_t bytes = 0;

	for (size_t i = 0; i < 2; i++) {
		udp_to_a(families[i], WIRE_UDP_PORT, PACKETS, 1000);
		assert_int_equal(port_receive(PACKETS, &bytes), PACKETS);
		assert_int_equal(bytes, 1000 + 8 + 14 + (families[i] == AF_INET ? 20 : 40));
	}
}

/* A bridge that doesn't know where somebody is sends what is for him to everybody. The XDP program doesn't look at it. */
static void
what_is_for_another_host_does_not(void **state)
{
	uint32_t bytes = 0;

	if (hosts.xdp)
		skip();
	enter(1);
	assert_int_equal(sh("ip neigh replace 198.18.0.1 lladdr 02:00:00:00:00:66 dev veB"), 0);
	enter(0);
	udp_to_a(AF_INET, WIRE_UDP_PORT, PACKETS, 1000);
	enter(1);
	assert_int_equal(sh("ip neigh del 198.18.0.1 dev veB"), 0);
	enter(0);
	udp_to_a(AF_INET, WIRE_UDP_PORT, 1, 500);
	assert_int_equal(port_receive(1, &bytes), 1);
	assert_int_equal(bytes, 500 + 8 + 14 + 20);
}

static void
packets_end_the_sleep_of_whoever_handles_the_queue(void **state)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), fd = net_port_wake_fd(hosts.port, 0);
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	uint32_t bytes;

	assert_true(fd >= 0);
	assert_int_equal(net_port_wake_fd(hosts.port, 1), -1); /* the port has one queue */
	assert_int_equal(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev), 0);
	while (epoll_wait(ep, &ev, 1, 0) > 0)
		;
	for (unsigned int i = 0; i < 2; i++) {
		assert_true(net_port_wake_arm(hosts.port, 0));
		udp_to_a(AF_INET, WIRE_UDP_PORT, 1, 1000);
		assert_int_equal(epoll_wait(ep, &ev, 1, 2000), 1);
		net_port_wake_disarm(hosts.port, 0);
		assert_int_equal(port_receive(1, &bytes), 1);
	}
	assert_int_equal(epoll_wait(ep, &ev, 1, 0), 0);
	close(ep);
}

static void
largest_roce_frame_reaches_the_port(void **state)
{
	uint32_t bytes = 0;
	uint32_t udp_bytes = (128u << hosts.port->active_mtu) + NET_ROCE_OVERHEAD_BYTES - WIRE_IPV6_BYTES - WIRE_UDP_BYTES;

	udp_to_a(AF_INET6, WIRE_UDP_PORT, 1, udp_bytes);
	assert_int_equal(port_receive(1, &bytes), 1);
	assert_int_equal(bytes, udp_bytes + WIRE_UDP_BYTES + WIRE_IPV6_BYTES + WIRE_ETH_BYTES);
}

static void
kernel_does_not_answer_roce_with_port_unreachable(void **state)
{
	uint32_t bytes;

	assert_int_equal(udp_to_a(AF_INET, WIRE_UDP_PORT, 3, 100), 0);
	assert_int_equal(udp_to_a(AF_INET6, WIRE_UDP_PORT, 3, 100), 0);
	port_receive(6, &bytes);
	/* The same question to another port is answered: the check above can fail. */
	assert_int_equal(udp_to_a(AF_INET, OTHER_PORT, 3, 100), ECONNREFUSED);
	assert_int_equal(udp_to_a(AF_INET6, OTHER_PORT, 3, 100), ECONNREFUSED);
}

static void
kernel_answers_ping(void **state)
{
	uint8_t echo[16] = { ICMP_ECHO_REQUEST, [4] = 0xab, 0xcd }, reply[256];
	struct sockaddr_storage ss;
	int fd = host_socket(1, AF_INET, SOCK_RAW, IPPROTO_ICMP);
	socklen_t len = address(0, AF_INET, 0, &ss);
	ssize_t n;
	uint32_t bytes;

	wire_put16(echo + 2, pkt_sum_finish(pkt_sum(echo, sizeof(echo), 0)));
	assert_int_equal(sendto(fd, echo, sizeof(echo), 0, (struct sockaddr *)&ss, len), sizeof(echo));
	do
		n = recv(fd, reply, sizeof(reply), 0);
	while (n > 0 && reply[20] != ICMP_ECHO_REPLY);
	close(fd);
	assert_int_equal(n, 20 + sizeof(echo));
	assert_memory_equal(reply + 24, echo + 4, sizeof(echo) - 4);
	assert_int_equal(port_receive(1, &bytes), 0); /* and the port doesn't see it */
}

static void
kernel_answers_ping_over_ipv6(void **state)
{
	uint8_t echo[16] = { ICMP6_ECHO_REQUEST, [4] = 0xab, 0xcd }, reply[256];
	struct sockaddr_storage ss;
	int fd = host_socket(1, AF_INET6, SOCK_RAW, IPPROTO_ICMPV6);
	socklen_t len = address(0, AF_INET6, 0, &ss);
	ssize_t n;

	assert_int_equal(sendto(fd, echo, sizeof(echo), 0, (struct sockaddr *)&ss, len), sizeof(echo));
	do
		n = recv(fd, reply, sizeof(reply), 0);
	while (n > 0 && reply[0] != ICMP6_ECHO_REPLY);
	close(fd);
	assert_int_equal(n, sizeof(echo));
}

static void
kernel_carries_tcp(void **state)
{
	static uint8_t data[65536];
	struct sockaddr_storage ss;
	socklen_t len = address(0, AF_INET, TCP_PORT, &ss);
	int listener = host_socket(0, AF_INET, SOCK_STREAM, 0);
	int client = host_socket(1, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	size_t sent = 0, got = 0;
	uint64_t end = now_ns() + 10 * SECOND_NS;
	uint32_t bytes;
	ssize_t n;
	int server;

	assert_int_equal(bind(listener, (struct sockaddr *)&ss, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_true(connect(client, (struct sockaddr *)&ss, len) == 0 || errno == EINPROGRESS);
	server = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	assert_true(server >= 0);
	while (got < TCP_BYTES && now_ns() < end) {
		if (sent < TCP_BYTES && (n = send(client, data, sizeof(data), 0)) > 0)
			sent += (size_t)n;
		if ((n = recv(server, data, sizeof(data), 0)) > 0)
			got += (size_t)n;
	}
	close(server);
	close(client);
	close(listener);
	assert_true(got >= TCP_BYTES);
	assert_int_equal(port_receive(1, &bytes), 0);
}

/** A frame to B's UDP port 4791, of @p bytes, checksums that B's kernel accepts. */
static struct rte_mbuf *
make_frame(uint32_t bytes)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(hosts.pool);
	const uint8_t ip_a[4] = { 198, 18, 0, 1 };
	uint16_t ip_bytes = (uint16_t)(bytes - WIRE_ETH_BYTES);
	uint8_t *p, *ip;

	assert_non_null(m);
	p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)bytes);
	if (p == NULL)
		fail_msg("no room for %u bytes", bytes);
	memset(p, 0x5a, bytes);
	pkt_put_eth(p, hosts.port, 0, hosts.mac_b, WIRE_ETHERTYPE_IPV4);
	ip = p + WIRE_ETH_BYTES;
	ip[0] = 0x45;
	ip[1] = 0;
	wire_put16(ip + 2, ip_bytes);
	wire_put32(ip + 4, 0);
	ip[8] = 64;
	ip[9] = IPPROTO_UDP;
	wire_put16(ip + 10, 0);
	memcpy(ip + 12, ip_a, 4);
	memcpy(ip + 16, ip_b, 4);
	wire_put16(ip + 10, pkt_sum_finish(pkt_sum(ip, WIRE_IPV4_BYTES, 0)));
	wire_put16(ip + 20, 50000);
	wire_put16(ip + 22, WIRE_UDP_PORT);
	wire_put16(ip + 24, (uint16_t)(ip_bytes - WIRE_IPV4_BYTES));
	wire_put16(ip + 26, 0);
	return m;
}

static void
port_sends_up_to_its_largest_roce_frame(void **state)
{
	const uint32_t largest = (128u << hosts.port->active_mtu) + NET_ROCE_OVERHEAD_BYTES + WIRE_ETH_BYTES;
	const uint32_t sizes[] = { 60, 1000, largest };
	struct sockaddr_storage ss;
	socklen_t len = address(1, AF_INET, WIRE_UDP_PORT, &ss);
	int fd = host_socket(1, AF_INET, SOCK_DGRAM, 0);
	static uint8_t data[65536];
	struct rte_mbuf *m;

	assert_true(largest <= hosts.port->max_frame);
	assert_int_equal(bind(fd, (struct sockaddr *)&ss, len), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		m = make_frame(sizes[i]);
		assert_int_equal(rte_eth_tx_burst(hosts.port->port_id, 0, &m, 1), 1);
		assert_int_equal(recv(fd, data, sizeof(data), 0),
				 sizes[i] - WIRE_ETH_BYTES - WIRE_IPV4_BYTES - WIRE_UDP_BYTES);
		assert_int_equal(data[0], 0x5a);
	}
	close(fd);
}

/** Resolve from GID @p sgid and wait. @return status. */
static int
resolve(unsigned int sgid, const struct gid *gid, uint8_t mac[6])
{
	uint64_t end = now_ns() + 6 * SECOND_NS;
	struct outcome o = { 0 };
	uint64_t next;
	int rc = net_resolve(hosts.port, sgid, gid, now_ns(), mac, done, &o);

	if (rc != EINPROGRESS)
		return rc;
	while (o.calls == 0 && now_ns() < end) {
		next = net_port_poll(hosts.port, now_ns());
		if (o.calls == 0 && next > now_ns())
			usleep((useconds_t)((next - now_ns()) / 1000 + 1));
	}
	assert_int_equal(o.calls, 1);
	memcpy(mac, o.mac, 6);
	return o.status;
}

static void
kernel_resolves_neighbours(void **state)
{
	struct gid gid;
	uint8_t mac[6];

	sh("ip neigh flush dev veA; ip -6 neigh flush dev veA");
	gid = gid_from_v4(ip_b);
	assert_int_equal(resolve(1, &gid, mac), 0);
	assert_memory_equal(mac, hosts.mac_b, 6);
	memset(mac, 0, 6);
	assert_int_equal(resolve(2, gid_at(ip6_b), mac), 0);
	assert_memory_equal(mac, hosts.mac_b, 6);
	/* Now the kernel knows, and the answer comes at once. */
	memset(mac, 0, 6);
	assert_int_equal(net_resolve(hosts.port, 1, &gid, now_ns(), mac, done, NULL), 0);
	assert_memory_equal(mac, hosts.mac_b, 6);
}

static void
kernel_routes_by_its_gateway(void **state)
{
	const uint8_t far[4] = { 203, 0, 113, 5 };
	const uint8_t far6[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 5 };
	struct gid gid;
	uint8_t mac[6];

	gid = gid_from_v4(far);
	assert_int_equal(resolve(1, &gid, mac), EHOSTUNREACH);
	assert_int_equal(resolve(2, gid_at(far6), mac), EHOSTUNREACH);
	assert_int_equal(
		sh("ip route add 203.0.113.0/24 via 198.18.0.2 && ip -6 route add 2001:db8::/32 via fd00:18::2"), 0);
	assert_int_equal(resolve(1, &gid, mac), 0);
	assert_memory_equal(mac, hosts.mac_b, 6);
	memset(mac, 0, 6);
	assert_int_equal(resolve(2, gid_at(far6), mac), 0);
	assert_memory_equal(mac, hosts.mac_b, 6);
}

/** Read what the kernel has reported. @return how many neighbours have another MAC address now. */
static unsigned int
changed_neighbours(void)
{
	unsigned int n;

	net_port_link_read(hosts.port);
	net_neigh_changes(hosts.port, &n);
	return n;
}

/* That of the host, and that of the router behind which another one is. */
static void
kernel_reports_other_mac_addresses_of_those_to_whom_paths_lead(void **state)
{
	static const uint8_t moved[6] = { 2, 0, 0, 0, 0, 0x77 }, far[4] = { 203, 0, 113, 5 };
	struct gid sgid = *net_gid(hosts.port, 1), gid = gid_from_v4(ip_b), behind = gid_from_v4(far), who;
	uint8_t mac[6];

	assert_int_equal(resolve(1, &gid, mac), 0);
	assert_int_equal(resolve(1, &behind, mac), 0);
	assert_int_equal(changed_neighbours(), 0);
	/* Nobody has asked for this one. */
	assert_int_equal(sh("ip neigh replace 198.18.0.55 lladdr 02:00:00:00:00:55 dev veA"), 0);
	assert_int_equal(sh("ip neigh replace 198.18.0.55 lladdr 02:00:00:00:00:56 dev veA"), 0);
	assert_int_equal(changed_neighbours(), 0);
	assert_int_equal(sh("ip neigh replace 198.18.0.2 lladdr 02:00:00:00:00:77 dev veA"), 0);
	assert_int_equal(changed_neighbours(), 1);
	memcpy(mac, hosts.mac_b, 6);
	assert_true(net_neigh_follow(hosts.port, &sgid, &gid, mac));
	assert_memory_equal(mac, moved, 6);
	memcpy(mac, hosts.mac_b, 6);
	assert_true(net_neigh_follow(hosts.port, &sgid, &behind, mac));
	assert_memory_equal(mac, moved, 6);
	assert_true(net_neigh_followed(hosts.port, &who, mac));
	assert_true(gid_equal(&who, &gid));
	assert_int_equal(sh("ip neigh flush all dev veA; ip neigh del 198.18.0.2 dev veA; ip neigh del 198.18.0.55 dev veA; true"), 0);
	assert_int_equal(resolve(1, &gid, mac), 0);
	assert_memory_equal(mac, hosts.mac_b, 6);
	while (net_neigh_followed(hosts.port, &who, mac))
		;
}

static void
host_that_is_not_there_times_out(void **state)
{
	const uint8_t nobody[4] = { 198, 18, 0, 99 };
	struct gid gid;
	uint8_t mac[6];

	gid = gid_from_v4(nobody);
	assert_int_equal(resolve(1, &gid, mac), ETIMEDOUT);
}

static void
port_says_what_it_is(void **state)
{
	unsigned int want = hosts.mtu < 2048 + NET_ROCE_OVERHEAD_BYTES ? UROCE_MTU_1024
			    : hosts.xdp || hosts.mtu < NET_MAX_ROCE_IP_MTU ? UROCE_MTU_2048
								   : UROCE_MTU_4096;
	uint32_t speed;

	assert_true(hosts.port->shared);
	assert_string_equal(hosts.port->netdev, "veA");
	assert_int_equal(hosts.port->active_mtu, want);
	assert_true(net_port_link(hosts.port, &speed));
	assert_true(net_gid(hosts.port, 0) == NULL || gid_is_link_local(net_gid(hosts.port, 0)));
}

static void
send_small(void)
{
	struct rte_mbuf *m = make_frame(60);

	assert_int_equal(rte_eth_tx_burst(hosts.port->port_id, 0, &m, 1), 1);
}

static void
link_goes_down_and_comes_back(void **state)
{
	uint64_t end = now_ns() +
		       3 * SECOND_NS; /* the kernel tells of a carrier at most once a second (net/core/link_watch.c) */
	uint32_t bytes;

	assert_int_equal(sh("ip link set veA down"), 0);
	assert_false(net_port_link(hosts.port, NULL));
	assert_int_equal(sh("ip link set veA up"), 0);
	while (!net_port_link(hosts.port, NULL) && now_ns() < end)
		usleep(10000);
	assert_true(net_port_link(hosts.port, NULL));
	udp_to_a(AF_INET, WIRE_UDP_PORT, PACKETS, 1000);
	assert_int_equal(port_receive(PACKETS, &bytes), PACKETS);
	/* A packet socket's first call after that fails with ENETDOWN, which the PMD hides; its frame goes out with the
	 * next. */
	for (int i = 0; i < 2; i++)
		send_small();
	port_sends_up_to_its_largest_roce_frame(state);
}

/**
 * As an engine sends, the kernel reports and the control thread listens, in any order. The kernel counts the link as up only later, up to a second (above),
 * and by then the interface may have been down again.
 */
static void
frames_go_out_as_soon_as_the_interface_is_up_again(void **state)
{
	enum { WHILE_DOWN, BEFORE_THE_REPORT, AFTER_THE_REPORT, ORDERS, FLAPS = 4 };
	struct sockaddr_storage ss;
	socklen_t len = address(1, AF_INET, WIRE_UDP_PORT, &ss);
	int fd = host_socket(1, AF_INET, SOCK_DGRAM, 0);
	uint8_t data[64];

	if (hosts.xdp) {
		close(fd);
		skip();
	}
	assert_int_equal(bind(fd, (struct sockaddr *)&ss, len), 0);
	for (int i = 0; i < FLAPS * ORDERS; i++) {
		assert_int_equal(sh("ip link set veA down"), 0);
		if (i % ORDERS == WHILE_DOWN)
			send_small();
		net_port_link_read(hosts.port);
		assert_int_equal(sh("ip link set veA up"), 0);
		if (i % ORDERS == BEFORE_THE_REPORT)
			send_small();
		net_port_link_read(hosts.port);
		if (i % ORDERS == AFTER_THE_REPORT)
			send_small();
		if (recv(fd, data, sizeof(data), 0) != 60 - WIRE_ETH_BYTES - WIRE_IPV4_BYTES - WIRE_UDP_BYTES)
			fail_msg("flap %d: the frame is kept back", i);
	}
	close(fd);
}

/* ---- Opening and closing ---- */
static void
expect_refusal(const struct net_port_config *conf, uint16_t nb_queues, const char *says)
{
	char err[512] = "";
	struct net_port *p = net_port_open(conf, 0, nb_queues, &(struct shared){ .pool = hosts.pool }, err, sizeof(err));

	assert_null(p);
	if (strncmp(err, "port uroce0: ", 13) != 0 || strstr(err, says) == NULL)
		fail_msg("message is \"%s\", should say \"%s\"", err, says);
}

static void
mistakes_are_explained(void **state)
{
	struct net_port_config c = hosts.conf;
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(WIRE_UDP_PORT) };
	char err[100];
	int fd;

	strcpy(c.ethdev, "net_memif9");
	expect_refusal(&c, 1, hosts.ethdev);
	c = hosts.conf;
	net_addr_parse("10.9.8.7/24", &c.addrs[0], err, sizeof(err));
	expect_refusal(&c, 1, "ip address add 10.9.8.7/24 dev veA");
	c = hosts.conf;
	c.mtu = 9000;
	if (hosts.mtu < NET_MAX_ROCE_IP_MTU)
		expect_refusal(&c, 1, "ip link set dev veA mtu 9000");
	c.mtu = 100;
	expect_refusal(&c, 1, "needs at least 352");
	c = hosts.conf;
	c.vlan_id = 5;
	expect_refusal(&c, 1, "type vlan id 5");
	c = hosts.conf;
	c.addrs[0].vlan = 5;
	expect_refusal(&c, 1, "can't have a VLAN: make a VLAN interface (ip link add link veA name veA.5 type vlan id 5)");
	c = hosts.conf;
	expect_refusal(&c, 2, hosts.xdp ? "add queue_count=2" : "add qpairs=2");
	fd = host_socket(0, AF_INET6, SOCK_DGRAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	expect_refusal(&hosts.conf, 1, "UDP port 4791 on veA is taken");
	close(fd);
}

/** Leave the program on the interface, as a daemon does that is killed. */
static void
attach_stale_program(void)
{
	struct bpf_object *obj = bpf_object__open_file(hosts.prog, NULL);
	struct bpf_program *prog;

	assert_non_null(obj);
	assert_int_equal(bpf_object__load(obj), 0);
	prog = bpf_object__next_program(obj, NULL);
	assert_int_equal(bpf_xdp_attach((int)if_nametoindex("veA"), bpf_program__fd(prog), 0, NULL), 0);
	bpf_object__close(obj);
}

static void
port_opens(void **state)
{
	char err[512] = "";

	if (hosts.xdp)
		attach_stale_program();
	hosts.port = net_port_open(&hosts.conf, 0, 1, &(struct shared){ .pool = hosts.pool }, err, sizeof(err));
	if (hosts.port == NULL)
		fail_msg("%s", err);
}

static void
second_daemon_is_refused(void **state)
{
	expect_refusal(&hosts.conf, 1, "UDP port 4791 on veA is taken: another uroced");
}

static void
interface_mtu(unsigned int mtu)
{
	enter(0);
	assert_int_equal(sh("ip link set dev veA mtu %u", mtu), 0);
}

static void
mtu_follows_the_interface_as_far_as_buffers_permit(void **state)
{
	static const uint16_t mtus[] = { 1500, 9000, 700, 300, 4400 };
	const uint32_t most = hosts.xdp ? UROCE_MTU_2048 : UROCE_MTU_4096;

	assert_false(net_port_mtu_follow(hosts.port));
	for (unsigned int i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		uint32_t fits = net_roce_mtu(mtus[i]);

		interface_mtu(mtus[i]);
		assert_true(net_port_mtu_follow(hosts.port));
		assert_false(net_port_mtu_follow(hosts.port));
		assert_int_equal(net_port_kernel_mtu(hosts.port), mtus[i]);
		assert_true(hosts.port->ip_mtu <= mtus[i]);
		assert_int_equal(hosts.port->active_mtu, fits == 0 ? UROCE_MTU_256 : fits < most ? fits : most);
		assert_int_equal(net_port_mtu_shift(hosts.port), fits == 0 ? 0 : 7 + hosts.port->active_mtu);
		if (fits > most)
			assert_string_equal(net_port_mtu_lacks(hosts.port), "");
		else
			assert_null(net_port_mtu_lacks(hosts.port));
	}
}

static void
a_configured_mtu_is_an_upper_limit(void **state)
{
	char err[512] = "";

	interface_mtu(1500);
	assert_true(net_port_mtu_follow(hosts.port));
	assert_int_equal(net_port_mtu_configure(hosts.port, 2200, err, sizeof(err)), EINVAL);
	assert_string_equal(err, "port uroce0: mtu is 2200, but veA has 1500: ip link set dev veA mtu 2200");
	assert_int_equal(net_port_mtu_configure(hosts.port, 700, err, sizeof(err)), 0);
	assert_int_equal(hosts.port->ip_mtu, 700);
	assert_int_equal(hosts.port->active_mtu, UROCE_MTU_512);
	assert_int_equal(hosts.port->conf.mtu, 700);
	interface_mtu(650);
	assert_true(net_port_mtu_follow(hosts.port));
	assert_int_equal(hosts.port->ip_mtu, 650);
	interface_mtu(1500);
	assert_true(net_port_mtu_follow(hosts.port));
	assert_int_equal(hosts.port->ip_mtu, 700);
	assert_int_equal(net_port_mtu_configure(hosts.port, 0, err, sizeof(err)), 0);
	assert_int_equal(hosts.port->ip_mtu, 1500);
}

static void
closed_port_leaves_nothing(void **state)
{
	struct sockaddr_storage ss;
	uint32_t ifindex = hosts.port->ifindex, id = 0;
	int fd = host_socket(0, AF_INET, SOCK_DGRAM, 0);
	socklen_t len = address(0, AF_INET, WIRE_UDP_PORT, &ss);

	net_port_close(hosts.port);
	hosts.port = NULL;
	assert_int_equal(bind(fd, (struct sockaddr *)&ss, len), 0);
	close(fd);
	assert_int_equal(kernel_filter_packet_sockets(ifindex), 0);
	assert_int_equal(bpf_xdp_query_id((int)ifindex, 0, &id), 0);
	assert_int_equal(id, 0);
	assert_null(rte_mempool_lookup("net_rx_0"));
	assert_int_equal(rte_mempool_in_use_count(hosts.pool), 0);
}

/* What a standby has before its daemon ends. */
static void
a_device_takes_nothing_until_its_port_is_opened(void **state)
{
	struct net_port_config conf = hosts.conf;
	uint32_t bytes;
	char err[256];

	assert_false(net_packet_sockets_there("veA"));
	assert_false(net_packet_sockets_mute("veA"));
	if (hosts.xdp)
		skip();
	assert_false(net_packet_group_is_taken("veA"));
	strcpy(conf.ethdev, "net_af_packet1");
	conf.nb_addrs = 1; /* with an MTU of 650 the interface has lost those of IPv6 */
	assert_int_equal(rte_dev_probe("net_af_packet1,iface=veA,framesz=4352,blocksz=69632,framecnt=512"), 0);
	assert_true(net_packet_sockets_there("veA"));
	assert_true(net_packet_group_is_taken("veA"));
	assert_false(net_packet_sockets_there("lo"));
	assert_false(net_packet_sockets_there("nosuch"));
	/* Some that it receives before it has a filter, and some after it. */
	udp_to_a(AF_INET, WIRE_UDP_PORT, PACKETS, 700);
	assert_true(net_packet_sockets_mute("veA"));
	udp_to_a(AF_INET, WIRE_UDP_PORT, PACKETS, 800);
	assert_false(net_roce_port_is_taken("veA"));
	hosts.port = net_port_open(&conf, 0, 1, &(struct shared){ .pool = hosts.pool }, err, sizeof(err));
	if (hosts.port == NULL)
		fail_msg("%s", err);
	assert_true(net_roce_port_is_taken("veA"));
	assert_false(net_roce_port_is_taken("lo"));
	assert_int_equal(port_receive(1, &bytes), 0);
	udp_to_a(AF_INET, WIRE_UDP_PORT, PACKETS, 900);
	assert_int_equal(port_receive(PACKETS, &bytes), PACKETS);
	assert_int_equal(bytes, 900 + 8 + 14 + 20);
	net_port_close(hosts.port);
	hosts.port = NULL;
	assert_false(net_packet_sockets_there("veA"));
	assert_int_equal(rte_mempool_in_use_count(hosts.pool), 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mistakes_are_explained),
		cmocka_unit_test(port_opens),
		cmocka_unit_test(second_daemon_is_refused),
		cmocka_unit_test(port_says_what_it_is),
		cmocka_unit_test(kernel_resolves_neighbours),
		cmocka_unit_test(kernel_routes_by_its_gateway),
		cmocka_unit_test(kernel_reports_other_mac_addresses_of_those_to_whom_paths_lead),
		cmocka_unit_test(host_that_is_not_there_times_out),
		cmocka_unit_test(roce_packets_reach_the_port),
		cmocka_unit_test(what_is_for_another_host_does_not),
		cmocka_unit_test(packets_end_the_sleep_of_whoever_handles_the_queue),
		cmocka_unit_test(largest_roce_frame_reaches_the_port),
		cmocka_unit_test(kernel_does_not_answer_roce_with_port_unreachable),
		cmocka_unit_test(kernel_answers_ping),
		cmocka_unit_test(kernel_answers_ping_over_ipv6),
		cmocka_unit_test(kernel_carries_tcp),
		cmocka_unit_test(port_sends_up_to_its_largest_roce_frame),
		cmocka_unit_test(link_goes_down_and_comes_back),
		cmocka_unit_test(frames_go_out_as_soon_as_the_interface_is_up_again),
		cmocka_unit_test(mtu_follows_the_interface_as_far_as_buffers_permit),
		cmocka_unit_test(a_configured_mtu_is_an_upper_limit),
		cmocka_unit_test(closed_port_leaves_nothing),
		cmocka_unit_test(a_device_takes_nothing_until_its_port_is_opened),
	};
	int rc = hosts_up(argc, argv);

	if (rc != 0)
		return rc;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	hosts_down();
	return rc;
}
