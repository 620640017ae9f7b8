/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parsing. Nothing here trusts a length before it was compared with what there is; the order of the checks is
 * part of the interface, for each has a counter.
 */
#include "wire/header_cache.h"

#define IPV4_VERSION_IHL 0x45
#define IPV4_MF_OFFSET_MASK 0x3fff
#define IPV4_OFFSET_MASK 0x1fff
#define IPPROTO_UDP_BYTE 17

/** How far parsing has come: what is left of the frame, or of the datagram once its length is known. */
struct cursor {
	const uint8_t *p;
	uint32_t left;
};

static const char *const verdict_names[WIRE_VERDICTS] = {
	[WIRE_OK] = "ok",
	[WIRE_NOT_ROCE] = "not RoCE v2",
	[WIRE_TRUNCATED] = "truncated",
	[WIRE_BAD_IP] = "bad IP header",
	[WIRE_BAD_UDP_SUM] = "bad UDP checksum",
	[WIRE_BAD_OPCODE] = "unknown opcode",
	[WIRE_BAD_TVER] = "bad transport version",
	[WIRE_BAD_LENGTH] = "bad length",
	[WIRE_BAD_ICRC] = "bad ICRC",
};

const char *
wire_verdict_name(enum wire_verdict v)
{
	return (unsigned int)v < WIRE_VERDICTS ? verdict_names[v] : "unknown verdict";
}

static inline void
skip(struct cursor *c, uint32_t bytes)
{
	c->p += bytes;
	c->left -= bytes;
}

/** One's complement sum of big-endian words, folded. */
static uint16_t
sum16(const uint8_t *p, uint32_t len, uint64_t sum)
{
	while (len >= 4) {
		sum += wire_get32(p);
		p += 4;
		len -= 4;
	}
	if (len >= 2) {
		sum += wire_get16(p);
		p += 2;
		len -= 2;
	}
	if (len > 0)
		sum += (uint32_t)*p << 8;
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/** The sum needs no byte order (RFC 1071, 2.B): the header is right if it comes to all ones. */
static inline bool
ipv4_sum_ok(const uint8_t *ip)
{
	uint64_t sum, next;
	uint32_t last;

	memcpy(&sum, ip, 8);
	memcpy(&next, ip + 8, 8);
	memcpy(&last, ip + 16, 4);
	sum += next;
	sum += sum < next; /* the carry, which counts as 1 */
	sum = (sum & 0xffffffff) + (sum >> 32) + last;
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16) == 0xffff;
}

static inline enum wire_verdict
parse_ether(struct cursor *c, struct wire_pkt *p)
{
	uint16_t type;

	if (c->left < WIRE_ETH_BYTES)
		return WIRE_TRUNCATED;
	p->l2 = c->p;
	type = wire_get16(c->p + 12);
	skip(c, WIRE_ETH_BYTES);
	p->vlan_tci = 0;
	p->more = 0;
	p->inside = false;
	p->lower_crc = 0;
	if (type == WIRE_ETHERTYPE_VLAN) {
		if (c->left < WIRE_VLAN_BYTES)
			return WIRE_TRUNCATED;
		p->vlan_tci = wire_get16(c->p);
		type = wire_get16(c->p + 2);
		skip(c, WIRE_VLAN_BYTES);
	}
	if (type == WIRE_ETHERTYPE_IPV4)
		p->ip_version = 4;
	else if (type == WIRE_ETHERTYPE_IPV6)
		p->ip_version = 6;
	else
		return WIRE_NOT_ROCE;
	p->l3 = c->p;
	return WIRE_OK;
}

/** IP with options or in fragments is refused, but only if it is for us. */
static enum wire_verdict
refuse_ipv4(const struct cursor *c)
{
	uint32_t ihl = (uint32_t)(c->p[0] & 15) * 4;

	if (c->p[0] >> 4 != 4 || ihl < WIRE_IPV4_BYTES)
		return WIRE_BAD_IP;
	if (wire_get16(c->p + 6) & IPV4_OFFSET_MASK)
		return WIRE_BAD_IP; /* a later fragment: its port can't be known, and nobody here reassembles */
	if (c->left < ihl + 4)
		return WIRE_TRUNCATED;
	return wire_get16(c->p + ihl + 2) == WIRE_UDP_PORT ? WIRE_BAD_IP : WIRE_NOT_ROCE;
}

/** @param l4_bytes  Set to the length of the UDP datagram as IP has it. */
static enum wire_verdict
parse_ipv4(struct cursor *c, struct wire_pkt *p, uint32_t *l4_bytes)
{
	uint16_t total;

	if (c->left < WIRE_IPV4_BYTES)
		return WIRE_TRUNCATED;
	if (c->p[9] != IPPROTO_UDP_BYTE)
		return WIRE_NOT_ROCE;
	if (c->p[0] != IPV4_VERSION_IHL || wire_get16(c->p + 6) & IPV4_MF_OFFSET_MASK)
		return refuse_ipv4(c);
	p->ecn = c->p[1] & 3;
	total = wire_get16(c->p + 2);
	*l4_bytes = total > WIRE_IPV4_BYTES ? total - WIRE_IPV4_BYTES : 0;
	return WIRE_OK;
}

/** UDP must follow at once: RoCE v2 knows no extension headers (A17.3). */
static enum wire_verdict
parse_ipv6(struct cursor *c, struct wire_pkt *p, uint32_t *l4_bytes)
{
	if (c->left < WIRE_IPV6_BYTES)
		return WIRE_TRUNCATED;
	if (c->p[6] != IPPROTO_UDP_BYTE)
		return WIRE_NOT_ROCE;
	if (c->p[0] >> 4 != 6)
		return WIRE_BAD_IP;
	p->ecn = c->p[1] >> 4 & 3;
	*l4_bytes = wire_get16(c->p + 4);
	return WIRE_OK;
}

/** A UDP checksum of 0 means none, over IPv6 too (A17.3.1); one that is there must be right, as this says. */
static bool
udp_sum_ok(const struct wire_pkt *p, const uint8_t *udp, uint32_t udp_bytes)
{
	const uint8_t *addrs = p->ip_version == 4 ? p->l3 + 12 : p->l3 + 8;
	uint32_t addr_bytes = p->ip_version == 4 ? 8 : 32;

	return sum16(udp, udp_bytes, (uint64_t)sum16(addrs, addr_bytes, 0) + IPPROTO_UDP_BYTE + udp_bytes) == 0xffff;
}

/** IP and UDP. @param v4  IPv4; a constant, so that each version has code of its own. */
__attribute__((always_inline)) static inline enum wire_verdict
parse_udp(struct cursor *c, struct wire_pkt *p, const bool v4)
{
	uint32_t l4_bytes = 0, udp_bytes;
	enum wire_verdict v;

	v = v4 ? parse_ipv4(c, p, &l4_bytes) : parse_ipv6(c, p, &l4_bytes);
	if (v != WIRE_OK)
		return v;
	skip(c, v4 ? WIRE_IPV4_BYTES : WIRE_IPV6_BYTES);
	if (c->left < WIRE_UDP_BYTES)
		return WIRE_TRUNCATED;
	if (wire_get16(c->p + 2) != WIRE_UDP_PORT)
		return WIRE_NOT_ROCE;
	if (v4 && !ipv4_sum_ok(p->l3))
		return WIRE_BAD_IP;
	udp_bytes = wire_get16(c->p + 4);
	if (l4_bytes != udp_bytes || udp_bytes < WIRE_UDP_BYTES)
		return WIRE_BAD_IP;
	if (udp_bytes > c->left)
		return WIRE_TRUNCATED;
	if (wire_get16(c->p + 6) != 0 && !udp_sum_ok(p, c->p, udp_bytes))
		return WIRE_BAD_UDP_SUM;
	p->sport = wire_get16(c->p);
	c->left = udp_bytes; /* what is behind is Ethernet padding */
	skip(c, WIRE_UDP_BYTES);
	return WIRE_OK;
}

static enum wire_verdict
parse_transport(struct cursor *c, struct wire_pkt *p)
{
	const struct wire_opcode *op;
	uint32_t fixed, pad;

	if (c->left < WIRE_BTH_BYTES + WIRE_ICRC_BYTES)
		return WIRE_BAD_LENGTH;
	p->bthp = c->p;
	wire_get_bth(c->p, &p->bth);
	/* Read from the frame: p->bth has only just been stored, and a load of it takes longer. */
	op = p->op = &wire_opcodes[c->p[0]];
	pad = c->p[1] >> 4 & 3;
	if (!(op->flags & WIRE_F_VALID))
		return WIRE_BAD_OPCODE;
	if ((c->p[1] & 0xf) != 0)
		return WIRE_BAD_TVER;
	fixed = op->hdr_bytes + pad + WIRE_ICRC_BYTES;
	/* Headers are multiples of four bytes, and PadCnt makes the payload one (9.2.3). */
	if (c->left < fixed || c->left & 3)
		return WIRE_BAD_LENGTH;
	p->payload = c->p + op->hdr_bytes;
	p->payload_bytes = c->left - fixed;
	if (p->payload_bytes > WIRE_MAX_MTU)
		return WIRE_BAD_LENGTH;
	if (!(op->flags & WIRE_F_PAYLOAD) && p->payload_bytes + pad != 0)
		return WIRE_BAD_LENGTH;
	return WIRE_OK;
}

bool
wire_icrc_ok(const struct wire_pkt *p)
{
	const uint8_t *icrc = p->payload + p->payload_bytes + p->bth.pad;
	uint8_t right[WIRE_ICRC_BYTES];

	if (p->lower_crc != 0)
		wire_put_icrc(right, wire_icrc_transport(p->lower_crc, p->bthp, (size_t)(icrc - p->bthp)));
	else
		wire_put_icrc(right, wire_icrc_packet(p->l3, p->ip_version, (size_t)(icrc - p->l3)));
	return memcmp(right, icrc, WIRE_ICRC_BYTES) == 0;
}

enum wire_verdict
wire_parse(const uint8_t *frame, uint32_t len, bool check_icrc, struct wire_pkt *p)
{
	struct cursor c = { frame, len };
	enum wire_verdict v;

	v = parse_ether(&c, p);
	if (v == WIRE_OK)
		v = p->ip_version == 4 ? parse_udp(&c, p, true) : parse_udp(&c, p, false);
	if (v == WIRE_OK)
		v = parse_transport(&c, p);
	if (v == WIRE_OK && check_icrc && !wire_icrc_ok(p))
		v = WIRE_BAD_ICRC;
	return v;
}

/* ---- With a cache ---- */
/** One of so many packets whose headers aren't in the cache puts them there. If each did, more flows than there is room for would cost more than the cache saves. */
#define MISSES_PER_ENTRY 8

typedef uint64_t two_words __attribute__((vector_size(16)));

static inline two_words
differ(const uint8_t *a, const uint8_t *b)
{
	two_words x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return x ^ y;
}

static inline bool
same_headers(const uint8_t *a, const uint8_t *b)
{
	const size_t last = WIRE_CACHED_BYTES - sizeof(two_words);
	two_words d = differ(a, b) | differ(a + 16, b + 16) | differ(a + last, b + last);

	return (d[0] | d[1]) == 0;
}

/** Flows differ in their source ports, and packets of a flow in their lengths. */
static inline struct wire_cached_headers *
cached_at(struct wire_header_cache *c, const uint8_t *frame)
{
	const uint8_t *udp = frame + WIRE_ETH_BYTES + WIRE_IPV4_BYTES;

	return &c->at[(udp[1] ^ udp[5] >> 2) & (WIRE_CACHED_HEADERS - 1)];
}

__attribute__((noinline)) static void
remember(struct wire_header_cache *c, const uint8_t *frame)
{
	struct wire_cached_headers *h = cached_at(c, frame);
	const uint8_t *udp = frame + WIRE_ETH_BYTES + WIRE_IPV4_BYTES;

	memcpy(h->bytes, frame, WIRE_CACHED_BYTES);
	h->udp_bytes = wire_get16(udp + 4);
	h->crc = wire_icrc_lower(frame + WIRE_ETH_BYTES, 4);
}

/** Parse behind headers that are known to be right. */
static inline enum wire_verdict
parse_behind(const struct wire_cached_headers *h, const uint8_t *frame, uint32_t len, bool check_icrc, struct wire_pkt *p)
{
	const uint8_t *ip = frame + WIRE_ETH_BYTES, *udp = ip + WIRE_IPV4_BYTES;
	struct cursor c = { udp + WIRE_UDP_BYTES, (uint32_t)h->udp_bytes - WIRE_UDP_BYTES };
	enum wire_verdict v;

	p->l2 = frame;
	p->l3 = ip;
	p->ip_version = 4;
	p->ecn = ip[1] & 3;
	p->sport = wire_get16(udp);
	p->vlan_tci = 0;
	p->more = 0;
	p->inside = false;
	p->lower_crc = h->crc;
	if (h->udp_bytes > len - (WIRE_ETH_BYTES + WIRE_IPV4_BYTES))
		return WIRE_TRUNCATED;
	v = parse_transport(&c, p);
	if (v == WIRE_OK && check_icrc && !wire_icrc_ok(p))
		v = WIRE_BAD_ICRC;
	return v;
}

enum wire_verdict
wire_parse_cached(struct wire_header_cache *c, const uint8_t *frame, uint32_t len, bool check_icrc, struct wire_pkt *p)
{
	enum wire_verdict v;

	if (__builtin_expect(len >= WIRE_CACHED_BYTES, 1)) {
		const struct wire_cached_headers *h = cached_at(c, frame);

		if (__builtin_expect(h->udp_bytes != 0 && same_headers(h->bytes, frame), 1))
			return parse_behind(h, frame, len, check_icrc, p);
	}
	v = wire_parse(frame, len, check_icrc, p);
	if (v == WIRE_OK && p->bthp == frame + WIRE_CACHED_BYTES && wire_get16(p->bthp - 2) == 0 && c->misses++ % MISSES_PER_ENTRY == 0)
		remember(c, frame);
	return v;
}
