/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/config/metrics_priv.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

socklen_t
config_metrics_parse(const char *where, union metrics_address *a)
{
	const char *port = strrchr(where, ':');
	unsigned long n;
	char *end;

	memset(a, 0, sizeof(*a));
	if (strncmp(where, "unix:/", 6) == 0) {
		a->un.sun_family = AF_UNIX;
		return strlcpy(a->un.sun_path, where + 5, sizeof(a->un.sun_path)) < sizeof(a->un.sun_path) ? sizeof(a->un) : 0;
	}
	if (port == NULL || port[1] < '0' || port[1] > '9')
		return 0;
	n = strtoul(port + 1, &end, 10);
	if (*end != '\0' || n == 0 || n > UINT16_MAX)
		return 0;
	if (strncmp(where, "127.0.0.1:", 10) == 0 && port == where + 9) {
		a->in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)n),
					      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		return sizeof(a->in);
	}
	if (strncmp(where, "[::1]:", 6) == 0 && port == where + 5) {
		a->in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)n),
						.sin6_addr = in6addr_loopback };
		return sizeof(a->in6);
	}
	return 0;
}
