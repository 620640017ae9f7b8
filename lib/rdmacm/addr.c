/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversion between socket addresses and the addresses of the control protocol. */
#include "rdmacm/rdmacm_priv.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/gid.h"

socklen_t
cm_sockaddr_len(const struct sockaddr *sa)
{
	return sa->sa_family == AF_INET	 ? sizeof(struct sockaddr_in) :
	       sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
					   0;
}

static void
put_v4(struct ctl_cm_addr *out, const void *ip)
{
	static const uint8_t any[4];

	out->family = 4;
	if (!memcmp(ip, any, sizeof(any)))
		return;
	memcpy(out->gid, gid_from_v4(ip).raw, sizeof(out->gid));
}

int
cm_addr_of(const struct sockaddr *sa, struct ctl_cm_addr *out)
{
	const struct sockaddr_in6 *in6 = (const void *)sa;
	const struct sockaddr_in *in = (const void *)sa;

	memset(out, 0, sizeof(*out));
	if (!sa)
		return 0;
	switch (sa->sa_family) {
	case AF_INET:
		out->port = ntohs(in->sin_port);
		put_v4(out, &in->sin_addr);
		return 0;
	case AF_INET6:
		out->port = ntohs(in6->sin6_port);
		if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
			put_v4(out, in6->sin6_addr.s6_addr + 12);
			return 0;
		}
		out->family = 6;
		memcpy(out->gid, &in6->sin6_addr, 16);
		return 0;
	default:
		return EAFNOSUPPORT;
	}
}

void
cm_addr_put(const struct ctl_cm_addr *a, struct sockaddr_storage *out)
{
	struct sockaddr_in6 *in6 = (void *)out;
	struct sockaddr_in *in = (void *)out;

	memset(out, 0, sizeof(*out));
	if (a->family == 4) {
		in->sin_family = AF_INET;
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->gid + 12, 4);
	} else if (a->family == 6) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(a->port);
		memcpy(&in6->sin6_addr, a->gid, 16);
	}
}
