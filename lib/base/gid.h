/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * GIDs: the addresses of RoCE v2. A GID is an IPv6 address; an IPv4 address is mapped into one, as ::ffff:a.b.c.d.
 *
 * Owns: nothing. Thread: any.
 */
#ifndef UROCE_GID_H
#define UROCE_GID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/** Network byte order. Of bytes only, so that it may lie anywhere in a packet or message (gid_at()). */
struct gid {
	uint8_t raw[16];
};

/** @return the GID that stands at @p bytes, wherever that is. */
static inline const struct gid *
gid_at(const void *bytes)
{
	return bytes;
}

static inline bool
gid_equal(const struct gid *a, const struct gid *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static inline bool
gid_is_zero(const struct gid *g)
{
	static const struct gid zero;

	return gid_equal(g, &zero);
}

/** @return true if @p g is a mapped IPv4 address. */
static inline bool
gid_is_v4(const struct gid *g)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return memcmp(g, mapped, sizeof(mapped)) == 0;
}

/** @return the GID of the IPv4 address whose 4 bytes stand at @p ip. */
static inline struct gid
gid_from_v4(const uint8_t *ip)
{
	struct gid g = { { [10] = 0xff, [11] = 0xff } };

	memcpy(g.raw + 12, ip, 4);
	return g;
}

/** @return the GID of an address in an IP header of version 4 or 6. */
static inline struct gid
gid_from_ip(unsigned int version, const uint8_t *ip)
{
	return version == 4 ? gid_from_v4(ip) : *gid_at(ip);
}

/** @return the bytes of the address as an IP header has it, gid_ip_bytes() of them. */
static inline const uint8_t *
gid_ip(const struct gid *g)
{
	return gid_is_v4(g) ? g->raw + 12 : g->raw;
}

/** @return 4 or 16. */
static inline unsigned int
gid_ip_bytes(const struct gid *g)
{
	return gid_is_v4(g) ? 4 : 16;
}

/** @return true if @p g is a link-local address of IPv6. */
static inline bool
gid_is_link_local(const struct gid *g)
{
	return g->raw[0] == 0xfe && (g->raw[1] & 0xc0) == 0x80;
}

/** @return true if @p g is a multicast address of either family. */
static inline bool
gid_is_multicast(const struct gid *g)
{
	return gid_is_v4(g) ? (g->raw[12] & 0xf0) == 0xe0 : g->raw[0] == 0xff;
}

/** @return true if @p g is a loopback address of either family. */
static inline bool
gid_is_loopback(const struct gid *g)
{
	static const struct gid one = { { [15] = 1 } };

	return gid_is_v4(g) ? g->raw[12] == 127 : gid_equal(g, &one);
}

/** @return true if @p g can be a host's address: neither unspecified, loopback, multicast nor IPv4's class E and broadcast. */
bool gid_is_host(const struct gid *g);
/** @return the link-local address made of a MAC address (RFC 4291, appendix A). */
struct gid gid_link_local(const uint8_t mac[6]);
/** @return true if both are in the same subnet of @p prefix bits (of the family's own address length). */
bool gid_same_subnet(const struct gid *a, const struct gid *b, unsigned int prefix);
enum { GID_TEXT_BYTES = 46 };
/** Print a GID as the address it is. @return @p text. */
const char *gid_text(const struct gid *g, char text[GID_TEXT_BYTES]);

#endif /* UROCE_GID_H */
