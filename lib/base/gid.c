/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/gid.h"

#include <arpa/inet.h>

bool
gid_is_host(const struct gid *g)
{
	if (gid_is_zero(g) || gid_is_multicast(g) || gid_is_loopback(g))
		return false;
	return !gid_is_v4(g) || (g->raw[12] != 0 && g->raw[12] < 0xe0);
}

struct gid
gid_link_local(const uint8_t mac[6])
{
	/* The universal/local bit is inverted in an interface identifier. */
	return (struct gid){ { 0xfe, 0x80, [8] = mac[0] ^ 0x02, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5] } };
}

bool
gid_same_subnet(const struct gid *a, const struct gid *b, unsigned int prefix)
{
	unsigned int bits = gid_is_v4(a) ? 96 + prefix : prefix, bytes = bits / 8;

	if (gid_is_v4(a) != gid_is_v4(b) || memcmp(a, b, bytes) != 0)
		return false;
	return bits % 8 == 0 || (a->raw[bytes] ^ b->raw[bytes]) >> (8 - bits % 8) == 0;
}

const char *
gid_text(const struct gid *g, char text[GID_TEXT_BYTES])
{
	if (inet_ntop(gid_is_v4(g) ? AF_INET : AF_INET6, gid_ip(g), text, GID_TEXT_BYTES) == NULL)
		text[0] = '\0';
	return text;
}
