/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram rsockets. */
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "rsocks.h"

enum { DGRAMS = 50 };

bool
rt_kernel_has(const struct sockaddr_storage *addr, socklen_t len)
{
	int s = socket(addr->ss_family, SOCK_DGRAM, 0), rc = bind(s, (const struct sockaddr *)addr, len);

	close(s);
	return !rc;
}

static void
echo(int from, int to, const struct sockaddr *addr, socklen_t len, size_t bytes)
{
	struct sockaddr_storage peer;
	socklen_t peer_len = sizeof(peer);
	static uint8_t out[4096], in[4096];

	for (size_t i = 0; i < bytes; i++)
		out[i] = rt_byte(i + bytes);
	VT_CHECK(rsendto(from, out, bytes, 0, addr, len) == (ssize_t)bytes, "%zu bytes: %m", bytes);
	VT_CHECK(rt_poll(to, POLLIN, RT_MS) == POLLIN, "%zu bytes did not come", bytes);
	VT_CHECK(rrecvfrom(to, in, sizeof(in), MSG_PEEK, NULL, NULL) == (ssize_t)bytes, "%m");
	VT_CHECK(rrecvfrom(to, in, sizeof(in), 0, (struct sockaddr *)&peer, &peer_len) == (ssize_t)bytes, "%m");
	VT_CHECK(!memcmp(in, out, bytes), "other bytes");
	VT_CHECK(rsendto(to, in, bytes, 0, (struct sockaddr *)&peer, peer_len) == (ssize_t)bytes, "%m");
	VT_CHECK(rt_poll(from, POLLIN, RT_MS) == POLLIN, "%zu bytes did not come back", bytes);
	VT_CHECK(rrecv(from, in, sizeof(in), 0) == (ssize_t)bytes && !memcmp(in, out, bytes), "other bytes");
}

static void
datagrams_of(struct vt *t, int family)
{
	static const size_t sizes[] = { 1, 0, 64, 1000, 1500, 2000 };
	struct sockaddr_storage addr;
	socklen_t len;
	int a = rsocket(family, SOCK_DGRAM, 0), b = rsocket(family, SOCK_DGRAM, 0);
	char big[4096] = { 0 };

	rt_addr(t, family, &addr, &len);
	if (!rt_kernel_has(&addr, len)) {
		printf("%s: skipped: the kernel doesn't have the address\n", vt_case_name);
		goto out;
	}
	VT_CHECK(rsend(a, big, 1, 0) == -1 && errno == EDESTADDRREQ, "%m");
	VT_OK(rbind(b, (struct sockaddr *)&addr, len));
	VT_OK(rgetsockname(b, (struct sockaddr *)&addr, &len));
	for (int i = 0; i < DGRAMS; i++)
		echo(a, b, (struct sockaddr *)&addr, len, sizes[(size_t)i % (sizeof(sizes) / sizeof(sizes[0]))]);
	VT_CHECK(rsendto(a, big, 2048, 0, (struct sockaddr *)&addr, len) == -1 && errno == EMSGSIZE, "%m");
	VT_OK(rconnect(a, (struct sockaddr *)&addr, len));
	VT_CHECK(rsend(a, "cut", 3, 0) == 3 && rt_poll(b, POLLIN, RT_MS) == POLLIN, "%m");
	VT_CHECK(rrecv(b, big, 2, 0) == 2 && rrecv(b, big, 2, MSG_DONTWAIT) == -1 && errno == EAGAIN, "%m");
out:
	VT_OK(rclose(a));
	VT_OK(rclose(b));
}

static void
datagrams(struct vt *t)
{
	datagrams_of(t, AF_INET);
	datagrams_of(t, AF_INET6);
}

static void
what_others_send_to_the_udp_socket_is_ignored(struct vt *t)
{
	static const uint8_t almost[16] = { 0x55, 0x55, 0x55, 0x55, 6, 0, 28 };
	struct sockaddr_storage addr;
	socklen_t len;
	int s = socket(AF_INET, SOCK_DGRAM, 0), r = rsocket(AF_INET, SOCK_DGRAM, 0);
	uint8_t junk[100];

	rt_addr(t, AF_INET, &addr, &len);
	if (rt_kernel_has(&addr, len)) {
		VT_OK(rbind(r, (struct sockaddr *)&addr, len));
		VT_OK(rgetsockname(r, (struct sockaddr *)&addr, &len));
		for (unsigned int i = 0; i < sizeof(junk); i++) {
			memset(junk, (int)i, sizeof(junk));
			sendto(s, junk, i, 0, (struct sockaddr *)&addr, len);
			sendto(s, almost, i % sizeof(almost), 0, (struct sockaddr *)&addr, len);
		}
		VT_CHECK(rt_poll(r, POLLIN, 50) == 0, "taken for a datagram");
	}
	close(s);
	VT_OK(rclose(r));
}

const struct vt_case rt_dgram_cases[] = {
	VT_CASE(datagrams),
	VT_CASE(what_others_send_to_the_udp_socket_is_ignored),
};
const unsigned int rt_nb_dgram_cases = sizeof(rt_dgram_cases) / sizeof(rt_dgram_cases[0]);
