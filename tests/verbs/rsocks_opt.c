/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of rsockets, and the numbers that rsockets have. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "rsocks.h"

static void
options(struct vt *t)
{
	static const int levels[][2] = {
		{ SOL_SOCKET, SO_REUSEADDR }, { SOL_SOCKET, SO_KEEPALIVE }, { SOL_SOCKET, SO_OOBINLINE },
		{ IPPROTO_TCP, TCP_NODELAY }, { SOL_RDMA, RDMA_SQSIZE },    { SOL_RDMA, RDMA_RQSIZE },
		{ SOL_RDMA, RDMA_INLINE },    { SOL_RDMA, RDMA_IOMAPSIZE },
	};
	int s = rsocket(AF_INET6, SOCK_STREAM, 0), got, one = 1;
	socklen_t len = sizeof(got);

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		got = 77;
		VT_OK(rsetsockopt(s, levels[i][0], levels[i][1], &one, sizeof(one)));
		VT_OK(rgetsockopt(s, levels[i][0], levels[i][1], &got, &len));
		VT_CHECK(got == 1, "option %zu: %d", i, got);
	}
	VT_OK(rsetsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)));
	VT_CHECK(rsetsockopt(s, SOL_SOCKET, SO_ATTACH_FILTER, &one, sizeof(one)) == -1 && errno == ENOTSUP, "%m");
	VT_CHECK(rsetsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, 1) == -1 && errno == EINVAL, "%m");
	VT_OK(rclose(s));
}

static int
tcp_state(struct vt *t, int s, struct tcp_info *info)
{
	socklen_t len = sizeof(*info);

	memset(info, 0xff, sizeof(*info));
	VT_OK(rgetsockopt(s, IPPROTO_TCP, TCP_INFO, info, &len));
	VT_CHECK(len == sizeof(*info), "%u bytes", len);
	return info->tcpi_state;
}

/** What iperf3 and others ask of a TCP socket. */
static void
tcp_info_says_what_is_known(struct vt *t)
{
	struct sockaddr_storage addr;
	unsigned char few[5] = { 9, 9, 9, 9, 9 };
	int s[2], sq = 0, mss = 0, l, d = rsocket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len, short_len = 4, four = sizeof(int);
	struct tcp_info info;

	l = rt_listen(t, AF_INET, &addr, &len);
	VT_CHECK(tcp_state(t, l, &info) == TCP_LISTEN, "%d", info.tcpi_state);
	VT_OK(rclose(l));
	l = rsocket(AF_INET, SOCK_STREAM, 0);
	VT_CHECK(tcp_state(t, l, &info) == TCP_CLOSE && !info.tcpi_snd_mss, "%d", info.tcpi_state);
	VT_OK(rclose(l));
	rt_pair(t, AF_INET, s, NULL);
	VT_OK(rgetsockopt(s[0], SOL_RDMA, RDMA_SQSIZE, &sq, &four));
	VT_OK(rgetsockopt(s[0], IPPROTO_TCP, TCP_MAXSEG, &mss, &four));
	VT_CHECK(tcp_state(t, s[0], &info) == TCP_ESTABLISHED, "%d", info.tcpi_state);
	VT_CHECK((int)info.tcpi_snd_mss == mss && (int)info.tcpi_snd_cwnd == sq, "MSS %u, window %u", info.tcpi_snd_mss,
		 info.tcpi_snd_cwnd);
	VT_CHECK(!info.tcpi_total_retrans && !info.tcpi_rtt, "what it can't know");
	/* A shorter structure gets what fits, and nothing behind it is written. */
	VT_OK(rgetsockopt(s[1], IPPROTO_TCP, TCP_INFO, few, &short_len));
	VT_CHECK(short_len == 4 && few[0] == TCP_ESTABLISHED && few[4] == 9, "%u bytes", short_len);
	VT_OK(rshutdown(s[0], SHUT_RDWR));
	VT_CHECK(tcp_state(t, s[0], &info) == TCP_CLOSE, "%d", info.tcpi_state);
	rt_close(s);
	len = sizeof(info);
	VT_CHECK(rgetsockopt(d, IPPROTO_TCP, TCP_INFO, &info, &len) == -1, "of datagrams");
	VT_OK(rclose(d));
}

/** As accept(): the lowest number that is free when it is called, not when the request came. */
static void
accepted_gets_its_number_when_it_is_accepted(struct vt *t)
{
	struct sockaddr_storage addr;
	socklen_t len;
	int l = rt_listen(t, AF_INET, &addr, &len), s = rsocket(AF_INET, SOCK_STREAM, 0), keeper, a;

	VT_OK(rconnect(s, (struct sockaddr *)&addr, len));
	VT_CHECK(rt_poll(l, POLLIN, RT_MS) == POLLIN, "nobody to accept");
	keeper = open("/dev/null", O_RDONLY);
	VT_CHECK(keeper >= 0, "%m");
	a = raccept(l, NULL, NULL);
	VT_CHECK(a > keeper, "%d, although %d was free before", a, keeper);
	VT_CHECK(rsend(s, "x", 1, 0) == 1 && rt_poll(a, POLLIN, RT_MS) == POLLIN, "%m");
	VT_OK(close(keeper));
	VT_OK(rclose(a));
	VT_OK(rclose(s));
	VT_OK(rclose(l));
}

const struct vt_case rt_option_cases[] = {
	VT_CASE(options),
	VT_CASE(tcp_info_says_what_is_known),
	VT_CASE(accepted_gets_its_number_when_it_is_accepted),
};
const unsigned int rt_nb_option_cases = sizeof(rt_option_cases) / sizeof(rt_option_cases[0]);
