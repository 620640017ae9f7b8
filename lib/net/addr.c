/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Addresses and GIDs: parsing, printing, comparing. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/net_priv.h"

enum { ADDR_TEXT_BYTES = 64 };

bool
gid_is_host(const uint8_t gid[16])
{
	static const uint8_t loopback[16] = { [15] = 1 };

	if (gid_is_zero(gid) || gid_is_multicast(gid))
		return false;
	if (gid_is_ipv4(gid))
		return gid[12] != 0 && gid[12] != 127 && gid[12] < 0xe0;
	return memcmp(gid, loopback, sizeof(loopback)) != 0;
}

void
gid_link_local(uint8_t gid[16], const uint8_t mac[6])
{
	memset(gid, 0, 16);
	gid[0] = 0xfe;
	gid[1] = 0x80;
	gid[8] = mac[0] ^ 0x02; /* universal/local bit: inverted in an interface identifier */
	gid[9] = mac[1];
	gid[10] = mac[2];
	gid[11] = 0xff;
	gid[12] = 0xfe;
	gid[13] = mac[3];
	gid[14] = mac[4];
	gid[15] = mac[5];
}

bool
gid_same_subnet(const uint8_t a[16], const uint8_t b[16], unsigned int prefix)
{
	bool v4 = gid_is_ipv4(a);
	unsigned int bits, i;

	if (v4 != gid_is_ipv4(b))
		return false;
	bits = v4 ? 96 + prefix : prefix;
	for (i = 0; i < bits / 8; i++)
		if (a[i] != b[i])
			return false;
	return bits % 8 == 0 || ((a[i] ^ b[i]) & (0xff00 >> bits % 8) & 0xff) == 0;
}

const char *
gid_text(const uint8_t gid[16], char text[GID_TEXT_BYTES])
{
	bool v4 = gid_is_ipv4(gid);

	if (inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? gid + 12 : gid, text, GID_TEXT_BYTES) == NULL)
		text[0] = '\0';
	return text;
}

static int
parse_prefix(const char *text, unsigned int max, uint8_t *prefix)
{
	unsigned long v;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return EINVAL;
	errno = 0;
	v = strtoul(text, &end, 10);
	if (errno != 0 || *end != '\0' || v > max)
		return EINVAL;
	*prefix = (uint8_t)v;
	return 0;
}

static const char *
address_fault(const uint8_t gid[16])
{
	if (gid_is_zero(gid) || (gid_is_ipv4(gid) && gid[12] == 0))
		return "the unspecified address can't be a port's own";
	if (gid_is_multicast(gid))
		return "a multicast address can't be a port's own";
	if (!gid_is_host(gid))
		return "a loopback, broadcast or reserved address can't be a port's own";
	return NULL;
}

int
net_addr_parse(const char *text, struct net_addr *a, char *err, size_t err_bytes)
{
	char host[ADDR_TEXT_BYTES];
	const char *slash = strchr(text, '/');
	const char *fault;
	struct net_addr out;
	uint8_t ip[4];
	size_t len = slash != NULL ? (size_t)(slash - text) : strlen(text);
	bool v4;

	if (len == 0 || len >= sizeof(host)) {
		snprintf(err, err_bytes, "address %s: must be like 198.18.0.1/24 or fd00:18::1/64", text);
		return EINVAL;
	}
	memcpy(host, text, len);
	host[len] = '\0';
	v4 = inet_pton(AF_INET, host, ip) == 1;
	if (v4) {
		gid_from_ipv4(out.gid, ip);
	} else if (inet_pton(AF_INET6, host, out.gid) != 1) {
		snprintf(err, err_bytes,
			 "address %s: %s is neither an IPv4 nor an IPv6 address; must be like 198.18.0.1/24 or "
			 "fd00:18::1/64",
			 text, host);
		return EINVAL;
	} else if (gid_is_ipv4(out.gid)) {
		snprintf(err, err_bytes, "address %s: write an IPv4-mapped address as IPv4, like 198.18.0.1/24", text);
		return EINVAL;
	}
	if (slash == NULL) {
		snprintf(err, err_bytes, "address %s: prefix length is missing; must be like %s%s", text, host,
			 v4 ? "/24" : "/64");
		return EINVAL;
	}
	if (parse_prefix(slash + 1, v4 ? 32 : 128, &out.prefix) != 0) {
		snprintf(err, err_bytes, "address %s: prefix length must be 0 to %u", text, v4 ? 32 : 128);
		return EINVAL;
	}
	fault = address_fault(out.gid);
	if (fault != NULL) {
		snprintf(err, err_bytes, "address %s: %s", text, fault);
		return EINVAL;
	}
	*a = out;
	return 0;
}

int
net_gateway_parse(const char *text, int family, uint8_t *ip, char *err, size_t err_bytes)
{
	bool v4 = family == AF_INET;
	uint8_t out[16], gid[16];

	if (inet_pton(family, text, out) != 1) {
		snprintf(err, err_bytes, "must be an %s address, for example %s", v4 ? "IPv4" : "IPv6",
			 v4 ? "198.18.0.254" : "fd00:18::fe");
		return EINVAL;
	}
	if (v4)
		gid_from_ipv4(gid, out);
	else
		memcpy(gid, out, sizeof(gid));
	if (!gid_is_host(gid) || gid_is_ipv4(gid) != v4) {
		snprintf(err, err_bytes, "must be a router's own %s address: neither unspecified, multicast, loopback nor reserved",
			 v4 ? "IPv4" : "IPv6");
		return EINVAL;
	}
	memcpy(ip, out, v4 ? 4 : 16);
	return 0;
}
