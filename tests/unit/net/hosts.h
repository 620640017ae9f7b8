/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two hosts, A and B: network namespaces joined by a veth pair, veA to veB, and EAL with a port on veA. The namespaces have no name and end with
 * the process. One thread is at home in both: a socket stays in the namespace that it was made in.
 */
#ifndef TEST_NET_HOSTS_H
#define TEST_NET_HOSTS_H

#include <sys/socket.h>

#include "net/net_priv.h"

/** What a test has: options, hosts, and the port of A as far as it is configured and open. */
struct hosts {
	bool xdp;
	const char *prog;
	unsigned int mtu;
	int ns[2]; /* hosts A and B */
	uint8_t mac_b[6];
	struct rte_mempool *pool;
	struct net_port_config conf;
	struct net_port *port; /**< the test opens it */
	char ethdev[32];
};
extern struct hosts hosts;
extern const uint8_t ip_b[4], ip6_b[16];

/** For main(): make hosts and EAL from its arguments. @return 0, or the status to exit with. */
int hosts_up(int argc, char **argv);
/** Close the port, if it is open, and EAL. */
void hosts_down(void);

/** Go to host 0, A, or 1, B. */
void enter(int host);
int sh(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** @return a socket made on @p host. */
int host_socket(int host, int family, int type, int protocol);
/** Address of a host, in a form that socket calls take. @return its length. */
socklen_t address(int host, int family, uint16_t port, struct sockaddr_storage *ss);

#endif /* TEST_NET_HOSTS_H */
