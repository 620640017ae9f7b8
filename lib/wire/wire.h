/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * RoCE v2 on the wire: headers, opcodes, PSN arithmetic, ICRC, parsing and building of packets.
 *
 * Owns: no state at all. Called by: lib/transport, lib/net, lib/cm, tests, on any thread.
 * Depends on libc, ISA-L and base/isal.h only; the formats are those of the IBTA specification (volume 1, chapter 9, and
 * annex A17 for RoCE v2). Multi-byte fields are read and written bytewise in network order by the inline
 * helpers below; no struct is laid over a packet.
 *
 * A frame: Ethernet [VLAN] IPv4|IPv6 UDP BTH [extended headers] [payload] [pad] ICRC.
 */
#ifndef UROCE_WIRE_H
#define UROCE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/opcode_table.h"

/* ---- Sizes, in bytes ---- */
enum {
	WIRE_ETH_BYTES = 14,
	WIRE_VLAN_BYTES = 4,
	WIRE_IPV4_BYTES = 20,
	WIRE_IPV6_BYTES = 40,
	WIRE_UDP_BYTES = 8,
	WIRE_BTH_BYTES = 12,
	WIRE_DETH_BYTES = 8,
	WIRE_RETH_BYTES = 16,
	WIRE_ATOMICETH_BYTES = 28,
	WIRE_AETH_BYTES = 4,
	WIRE_ATOMICACKETH_BYTES = 8,
	WIRE_IMM_BYTES = 4,
	WIRE_IETH_BYTES = 4,
	WIRE_XRCETH_BYTES = 4,
	WIRE_FETH_BYTES = 4,
	WIRE_ICRC_BYTES = 4,
	WIRE_CNP_PAYLOAD_BYTES = 16,
	WIRE_GRH_BYTES = 40,
	/** Room for everything before the payload: VLAN, IPv6, XRCETH and AtomicETH included. */
	WIRE_MAX_HDR_BYTES = 14 + 4 + 40 + 8 + 12 + 4 + 28 + 4,
	WIRE_MAX_MTU = 4096,
	/** The largest RoCE v2 frame. */
	WIRE_MAX_FRAME_BYTES = WIRE_MAX_HDR_BYTES + WIRE_MAX_MTU + 3 + WIRE_ICRC_BYTES,
};
#define WIRE_UDP_PORT 4791
#define WIRE_ETHERTYPE_IPV4 0x0800
#define WIRE_ETHERTYPE_IPV6 0x86dd
#define WIRE_ETHERTYPE_VLAN 0x8100
#define WIRE_VID 0x0fff /* the VLAN ID in a tag; 0: only the priority counts, the frame is in no VLAN */
#define WIRE_ETHERTYPE_ARP 0x0806
#define WIRE_QPN_GSI 1u
#define WIRE_QPN_MULTICAST 0xffffffu
/** Well-known Q_Key of QP 1 (3.5.3, 10.2.5). */
#define WIRE_QKEY_GSI 0x80010000u
#define WIRE_PKEY_DEFAULT 0xffff

/* ---- Opcodes: service in the upper three bits, operation in the lower five ---- */
enum wire_service {
	WIRE_RC = 0x00,
	WIRE_UC = 0x20,
	WIRE_RD = 0x40,
	WIRE_UD = 0x60,
	WIRE_CNP = 0x80,
	WIRE_XRC = 0xa0,
};
#define WIRE_OP_ENUM(name, number, text, flags) WIRE_OP_##name = number,
enum wire_op { WIRE_OP_TABLE(WIRE_OP_ENUM) };
#undef WIRE_OP_ENUM
#define WIRE_OPCODE_CNP 0x81
/* Of the opcodes that 9.2 leaves to manufacturers: only between uroce endpoints (lib/transport/core/sack.h). */
#define WIRE_OPCODE_SACK 0xc0
#define WIRE_OPCODE_SERVICE(opcode) ((opcode) & 0xe0)
#define WIRE_OPCODE_OP(opcode) ((opcode) & 0x1f)

/** What an opcode is and which headers follow its BTH; wire_opcodes[] has one for each of the 256 values. */
enum {
	WIRE_F_VALID = 1 << 0,    /**< the opcode exists for its service */
	WIRE_F_START = 1 << 1,    /**< first packet of a message (FIRST, ONLY and single-packet requests) */
	WIRE_F_END = 1 << 2,      /**< last packet of a message (LAST, ONLY and single-packet requests) */
	WIRE_F_SEND = 1 << 3,     /**< SEND family */
	WIRE_F_WRITE = 1 << 4,    /**< RDMA WRITE family */
	WIRE_F_READ = 1 << 5,     /**< RDMA READ request */
	WIRE_F_ATOMIC = 1 << 6,   /**< CmpSwap, FetchAdd */
	WIRE_F_REQUEST = 1 << 7,  /**< goes to a responder */
	WIRE_F_RESPONSE = 1 << 8, /**< goes to a requester: ACK, atomic ACK, READ response */
	WIRE_F_READ_RESP = 1 << 9,
	WIRE_F_PAYLOAD = 1 << 10, /**< may carry payload */
	WIRE_F_IMM = 1 << 11,
	WIRE_F_IETH = 1 << 12,
	WIRE_F_RETH = 1 << 13,
	WIRE_F_AETH = 1 << 14,
	WIRE_F_ATOMICETH = 1 << 15,
	WIRE_F_ATOMICACKETH = 1 << 16,
	WIRE_F_DETH = 1 << 17,
	WIRE_F_XRCETH = 1 << 18,
	WIRE_F_FETH = 1 << 19,
	WIRE_F_CNP = 1 << 20,
	WIRE_F_SACK = 1 << 22,    /**< selective acknowledgement */
	WIRE_F_RQ = 1 << 21,      /**< takes a receive WQE (at the first packet of a SEND, at the last of WRITE_IMM) */
};
struct wire_opcode {
	const char *name;   /**< as Wireshark has it, for example "RC RDMA Write First"; NULL if not valid */
	uint32_t flags;     /**< WIRE_F_* */
	uint8_t hdr_bytes;  /**< BTH and all extended headers; 0 if not valid */
	/* Offset of each extended header from the start of the BTH, valid if its flag is set. */
	uint8_t off_xrceth, off_deth, off_reth, off_atomiceth, off_aeth, off_atomicacketh, off_imm, off_ieth, off_feth;
};
extern const struct wire_opcode wire_opcodes[256];

/* ---- PSNs: 24 bits, compared modulo 2^24 within a window of 2^23 ---- */
#define WIRE_PSN_MASK 0xffffffu

/** @return a - b as a signed number in [-2^23, 2^23). */
static inline int32_t
wire_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t
wire_psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & WIRE_PSN_MASK;
}

/** @return packets of a message of @p len_bytes: at least one (9.7.1). @p mtu_shift is log2 of the MTU. */
static inline uint32_t
wire_packets(uint32_t len_bytes, unsigned int mtu_shift)
{
	return ((len_bytes - (len_bytes != 0)) >> mtu_shift) + 1;
}

/* ---- Big-endian access ---- */
static inline uint16_t
wire_get16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap16(v);
}
static inline uint32_t
wire_get32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap32(v);
}
static inline uint32_t
wire_get24(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
}
static inline uint64_t
wire_get64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return __builtin_bswap64(v);
}
static inline void
wire_put16(void *p, uint16_t v)
{
	v = __builtin_bswap16(v);
	memcpy(p, &v, sizeof(v));
}
static inline void
wire_put24(void *p, uint32_t v)
{
	uint8_t *b = p;

	b[0] = v >> 16;
	b[1] = v >> 8;
	b[2] = v;
}
static inline void
wire_put32(void *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, sizeof(v));
}
static inline void
wire_put64(void *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(p, &v, sizeof(v));
}

/* ---- BTH ---- */
/* Bytes of flags and small fields are as on the wire, so that they are read and written whole. */
struct wire_bth {
	union {
		struct {
			uint32_t dqpn; /**< 24 bits */
			uint32_t psn;  /**< 24 bits */
			uint16_t pkey;
			uint8_t opcode;
			union {
				uint8_t byte1;
				struct {
					uint8_t tver : 4; /**< must be 0 */
					uint8_t pad : 2;  /**< 0 to 3 bytes */
					uint8_t migreq : 1, solicited : 1;
				};
			};
			union {
				uint8_t byte4;
				struct {
					uint8_t reserved : 6, becn : 1, fecn : 1; /**< reserved: 0 */
				};
			};
			union {
				uint8_t byte8;
				struct {
					uint8_t mark : 7; /**< reserved bits before the PSN: 0 unless both ends have agreed on something else */
					uint8_t ackreq : 1;
				};
			};
		};
		uint64_t words[2]; /**< all of them, to make or copy a BTH */
	};
};

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first bit-field of a byte has its lowest bits");
_Static_assert(sizeof(struct wire_bth) == 16 && offsetof(struct wire_bth, byte8) == 13, "wire_bth_make() and wire_bth_set_pad() know where they are");

/**
 * @return a BTH, as two words. The CPU forwards what was stored to a load of no more bytes than the store had: a header whose members were stored one by one, and which
 * is then copied, waits until all stores before it have left the store buffer, those to lines of other cores too.
 * @param mark  7 bits
 */
static inline struct wire_bth
wire_bth_make(uint8_t opcode, uint32_t dqpn, uint32_t psn, uint16_t pkey, bool migreq, bool solicited, bool ackreq, uint8_t mark)
{
	uint32_t byte1 = (uint32_t)migreq << 6 | (uint32_t)solicited << 7, byte8 = (mark & 0x7fu) | (uint32_t)ackreq << 7;

	return (struct wire_bth){ .words = { dqpn | (uint64_t)psn << 32, pkey | (uint32_t)opcode << 16 | byte1 << 24 | (uint64_t)byte8 << 40 } };
}

/** Set its pad, which is 0. */
static inline void
wire_bth_set_pad(struct wire_bth *b, uint32_t pad)
{
	b->words[1] |= (uint64_t)pad << 28;
}

/* The bytes of a BTH are the same in memory and on the wire, in another order. A shuffle is one instruction, where there is one for it. */
typedef uint8_t wire_bytes16 __attribute__((vector_size(16)));
typedef uint64_t wire_words16 __attribute__((vector_size(16)));

/** Write the 12 bytes of a BTH, which is loaded as two words: wire_bth_make() says how one that is sent often is made. */
static inline void
wire_put_bth(uint8_t *p, const struct wire_bth *b)
{
	const wire_bytes16 in = (wire_bytes16)(wire_words16){ b->words[0], b->words[1] };
	const wire_words16 out = (wire_words16)__builtin_shufflevector(in, in, 10, 11, 9, 8, 12, 2, 1, 0, 13, 6, 5, 4, -1, -1, -1, -1);
	const uint64_t first = out[0];
	const uint32_t last = (uint32_t)out[1];

	memcpy(p, &first, sizeof(first));
	memcpy(p + sizeof(first), &last, sizeof(last));
}

static inline void
wire_get_bth(const uint8_t *p, struct wire_bth *b)
{
	const wire_bytes16 keep = { 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0xff, 0xc0, 0xff, 0, 0 };
	wire_bytes16 in, out;
	uint64_t first;
	uint32_t last;

	memcpy(&first, p, sizeof(first));
	memcpy(&last, p + sizeof(first), sizeof(last));
	in = (wire_bytes16)(wire_words16){ first, last };
	out = __builtin_shufflevector(in, in, 7, 6, 5, -1, 11, 10, 9, -1, 3, 2, 0, 1, 4, 8, -1, -1) & keep;
	memcpy(b, &out, sizeof(out));
}

/* ---- Extended headers: field offsets; read and write with the helpers above ---- */
static inline void
wire_put_reth(uint8_t *p, uint64_t va, uint32_t rkey, uint32_t len)
{
	wire_put64(p, va);
	wire_put32(p + 8, rkey);
	wire_put32(p + 12, len);
}
/** A19: placement types in bits 3 to 0, selectivity level in bits 5 and 4. */
static inline void
wire_put_feth(uint8_t *p, uint8_t type, uint8_t level)
{
	wire_put32(p, (uint32_t)(level & 3) << 4 | (type & 0xf));
}
static inline uint8_t
wire_feth_type(const uint8_t *p)
{
	return p[3] & 0xf;
}
static inline uint8_t
wire_feth_level(const uint8_t *p)
{
	return p[3] >> 4 & 3;
}
static inline void
wire_put_atomiceth(uint8_t *p, uint64_t va, uint32_t rkey, uint64_t swap_add, uint64_t compare)
{
	wire_put64(p, va);
	wire_put32(p + 8, rkey);
	wire_put64(p + 12, swap_add);
	wire_put64(p + 20, compare);
}
static inline void
wire_put_aeth(uint8_t *p, uint8_t syndrome, uint32_t msn)
{
	wire_put32(p, (uint32_t)syndrome << 24 | (msn & WIRE_PSN_MASK));
}
static inline void
wire_put_deth(uint8_t *p, uint32_t qkey, uint32_t src_qpn)
{
	wire_put32(p, qkey);
	wire_put32(p + 4, src_qpn & WIRE_PSN_MASK);
}

/* ---- AETH syndromes (9.7.5.1) ---- */
#define WIRE_AETH_TYPE(syndrome) ((syndrome) & 0xe0)
enum {
	WIRE_AETH_ACK = 0x00,
	WIRE_AETH_RNR_NAK = 0x20,
	WIRE_AETH_NAK = 0x60,
	WIRE_AETH_CREDITS_INVALID = 0x1f, /**< low bits of an ACK: no end-to-end flow control */
	WIRE_NAK_PSN_SEQ = 0x60,
	WIRE_NAK_INV_REQ = 0x61,
	WIRE_NAK_REM_ACCESS = 0x62,
	WIRE_NAK_REM_OP = 0x63,
	WIRE_NAK_INV_RD = 0x64,
};

/** @return the RNR timer of @p code, 0 to 31, in nanoseconds (9.7.5.2.8, table 45; 0 is the longest). */
uint64_t wire_rnr_timer_ns(uint8_t code);
/** @return receive credits that AETH credit @p code, 0 to 30, stands for (9.7.7.2.1, table 46). */
uint32_t wire_aeth_credits(uint8_t code);
/** @return the largest credit code that stands for at most @p credits. */
uint8_t wire_aeth_credit_code(uint32_t credits);

/* ---- ICRC ---- */
/** State of the ICRC after the eight bytes of ones that stand for the LRH. */
#define WIRE_ICRC_SEED UINT32_C(0xdebb20e3)

/** Continue a CRC over @p len bytes. States are not complemented. */
uint32_t wire_crc(uint32_t state, const void *data, size_t len);

/**
 * The ICRC state after IP header, UDP header and BTH, with their variable fields masked (A17.9.1):
 * TOS, TTL and checksum, or traffic class, flow label and hop limit; UDP checksum; BTH byte 4.
 *
 * @param l3  The IP header; UDP and BTH follow it without a gap.
 * @param ip_version  4 (IHL must be 5) or 6.
 */
uint32_t wire_icrc_headers(const uint8_t *l3, unsigned int ip_version);

/** The first part of wire_icrc_headers(): IP and UDP header only. */
uint32_t wire_icrc_lower(const uint8_t *l3, unsigned int ip_version);

/**
 * Continue from wire_icrc_lower() over what UDP carries.
 *
 * @param bth  The BTH; its variable byte is masked.
 * @param len  Bytes from the BTH to the end of the pad, the ICRC not included; at least WIRE_BTH_BYTES.
 */
uint32_t wire_icrc_transport(uint32_t state, const uint8_t *bth, size_t len);

/** wire_icrc_headers() and on: @p len bytes from the IP header to the end of the pad, at least the three headers. */
uint32_t wire_icrc_packet(const uint8_t *l3, unsigned int ip_version, size_t len);

/** Store the final ICRC of state @p state at @p p (little-endian). */
static inline void
wire_put_icrc(uint8_t *p, uint32_t state)
{
	state = ~state;
	memcpy(p, &state, sizeof(state)); /* the wire has it least significant byte first, as x86 does */
}

/* ---- Addresses and header templates ---- */
/** Everything below the BTH. */
struct wire_addr {
	uint8_t dmac[6], smac[6];
	uint8_t ip_version;     /**< 4 or 6 */
	uint8_t traffic_class;  /**< DSCP and ECN */
	uint8_t ttl;
	bool vlan;
	uint16_t vlan_tci;      /**< PCP, DEI, VID in host order, if vlan */
	uint16_t sport;         /**< UDP source port, host order */
	uint32_t flow_label;    /**< IPv6 */
	uint8_t sip[16], dip[16]; /**< IPv4: the first 4 bytes */
};

/** A ready-made header up to and including UDP, with IPv4 id 0. Lengths and the IPv4 checksum are those of packets of crc_len[0]. */
struct wire_tmpl {
	uint8_t hdr[WIRE_ETH_BYTES + WIRE_VLAN_BYTES + WIRE_IPV6_BYTES + WIRE_UDP_BYTES + 6]; /* 72 */
	uint8_t l3_off;    /**< start of the IP header */
	uint8_t l4_off;    /**< start of the UDP header */
	uint8_t bth_off;   /**< bytes of Ethernet to UDP */
	uint8_t ip_version;
	uint32_t ip_sum;   /**< IPv4: one's complement sum of the header with length, id and checksum 0 */
	/* The ICRC state up to the BTH for the last two sizes of UDP payload with IPv4 id 0; 0: empty. */
	uint16_t crc_len[2];
	uint32_t crc_state[2];
};

/** Fill @p t from @p a. */
void wire_tmpl_build(struct wire_tmpl *t, const struct wire_addr *a);
/** @return what @p t was built from. Unused bytes are 0. */
struct wire_addr wire_tmpl_addr(const struct wire_tmpl *t);

/** Send packets of @p t to another MAC address. */
static inline void
wire_tmpl_set_dmac(struct wire_tmpl *t, const uint8_t mac[6])
{
	memcpy(t->hdr, mac, 6);
}

/** Write Ethernet to UDP at @p frame, with lengths and IPv4 checksum as the template has them. */
static inline void
wire_tmpl_copy(const struct wire_tmpl *t, uint8_t *frame)
{
	/* Headers have 42 to 66 bytes: three moves of fixed size, overlapping, instead of one of variable size. */
	memcpy(frame, t->hdr, 32);
	memcpy(frame + 26, t->hdr + 26, 16);
	memcpy(frame + t->bth_off - 32, t->hdr + t->bth_off - 32, 32);
}

/**
 * Write Ethernet to UDP of a packet at @p frame; the caller has put or will put BTH and what follows behind it.
 *
 * @param l4_payload_bytes  BTH to ICRC, all included.
 * @param ip_id  IPv4 identification; 0 with DF is what uroce sends (RFC 6864).
 */
static inline void
wire_tmpl_write(const struct wire_tmpl *t, uint8_t *frame, uint16_t l4_payload_bytes, uint16_t ip_id)
{
	uint16_t udp_bytes = l4_payload_bytes + WIRE_UDP_BYTES;
	uint8_t *ip = frame + t->l3_off;

	wire_tmpl_copy(t, frame);
	if (t->crc_len[0] == l4_payload_bytes && ip_id == 0)
		return;
	wire_put16(frame + t->l4_off + 4, udp_bytes);
	if (t->ip_version == 4) {
		uint16_t total = udp_bytes + WIRE_IPV4_BYTES;
		uint32_t sum = t->ip_sum + total + ip_id;

		sum = (sum & 0xffff) + (sum >> 16);
		sum = (sum & 0xffff) + (sum >> 16);
		wire_put16(ip + 2, total);
		wire_put16(ip + 4, ip_id);
		wire_put16(ip + 10, (uint16_t)~sum);
	} else {
		wire_put16(ip + 4, udp_bytes);
	}
}

/** @return the UDP source port of flow label @p fl, 20 bits (rdma/ib_verbs.h, rdma_flow_label_to_udp_sport). */
uint16_t wire_flow_label_to_sport(uint32_t fl);

/** Change what tells flows apart: the source port and, of IPv6, the flow label. */
static inline void
wire_tmpl_set_flow(struct wire_tmpl *t, uint32_t flow_label)
{
	uint8_t *ip = t->hdr + t->l3_off;

	wire_put16(t->hdr + t->l4_off, wire_flow_label_to_sport(flow_label));
	if (t->ip_version == 6)
		wire_put32(ip, (wire_get32(ip) & ~UINT32_C(0xfffff)) | flow_label);
	t->crc_len[0] = t->crc_len[1] = 0;
}

/** Slow path of wire_tmpl_crc(): compute the state and remember it. */
uint32_t wire_tmpl_crc_miss(struct wire_tmpl *t, uint16_t l4_payload_bytes);

/** @return the ICRC state of @p t's headers up to UDP, with IPv4 id 0, for packets of this size. */
static inline uint32_t
wire_tmpl_crc(struct wire_tmpl *t, uint16_t l4_payload_bytes)
{
	if (t->crc_len[0] == l4_payload_bytes)
		return t->crc_state[0];
	if (t->crc_len[1] == l4_payload_bytes)
		return t->crc_state[1];
	return wire_tmpl_crc_miss(t, l4_payload_bytes);
}

/**
 * Compute and store the ICRC of the frame at @p frame that wire_tmpl_write() began (ip_id 0) and whose BTH,
 * headers, payload and pad are in place.
 *
 * @param l4_payload_bytes  As given to wire_tmpl_write().
 */
static inline void
wire_tmpl_seal(struct wire_tmpl *t, uint8_t *frame, uint16_t l4_payload_bytes)
{
	uint8_t *bth = frame + t->bth_off;
	size_t len = l4_payload_bytes - WIRE_ICRC_BYTES;

	wire_put_icrc(bth + len, wire_icrc_transport(wire_tmpl_crc(t, l4_payload_bytes), bth, len));
}

/** Packets that a struct wire_sealer holds. */
#define WIRE_SEAL_BATCH 8

/**
 * Packets whose ICRC is to be computed a little later. A packet that was written just now is still on its way to
 * the cache, in pieces smaller than the ICRC reads it, and reading it makes the processor wait for all of them; a few
 * packets later it doesn't wait, and the ICRCs of several packets overlap.
 */
struct wire_sealer {
	uint32_t n;
	struct {
		uint8_t *bth;
		uint32_t state; /**< of the headers before it */
		uint32_t len;   /**< BTH to pad */
	} later[WIRE_SEAL_BATCH];
};

/** Compute and store the ICRCs that are due. */
void wire_seal_flush(struct wire_sealer *s);

/**
 * Like wire_tmpl_seal(), but no later than with the next wire_seal_flush(). Until then @p frame must stay where it is;
 * @p t isn't used any more.
 */
static inline void
wire_seal_later(struct wire_sealer *s, struct wire_tmpl *t, uint8_t *frame, uint16_t l4_payload_bytes)
{
	s->later[s->n].bth = frame + t->bth_off;
	s->later[s->n].state = wire_tmpl_crc(t, l4_payload_bytes);
	s->later[s->n].len = l4_payload_bytes - WIRE_ICRC_BYTES;
	if (++s->n == WIRE_SEAL_BATCH)
		wire_seal_flush(s);
}

/** @return a flow label for QP pair (@p lqpn, @p rqpn), the same for both ends (rdma_calc_flow_label). */
uint32_t wire_calc_flow_label(uint32_t lqpn, uint32_t rqpn);

/* ---- Parsing ---- */
/** Why a frame is not a good RoCE v2 packet. Each has a counter in lib/transport. */
enum wire_verdict {
	WIRE_OK = 0,
	WIRE_NOT_ROCE,      /**< not UDP port 4791: for lib/net */
	WIRE_TRUNCATED,     /**< a length field says more than there is */
	WIRE_BAD_IP,        /**< IP options, fragment, bad header checksum, lengths of IP and UDP disagree */
	WIRE_BAD_UDP_SUM,   /**< non-zero UDP checksum that doesn't fit */
	WIRE_BAD_OPCODE,    /**< unknown opcode */
	WIRE_BAD_TVER,      /**< transport version not 0 */
	WIRE_BAD_LENGTH,    /**< UDP payload shorter than headers, pad and ICRC, or payload where none may be */
	WIRE_BAD_ICRC,
	WIRE_VERDICTS,
};
/** @return a word for each, for counters and messages. */
const char *wire_verdict_name(enum wire_verdict v);

/** A parsed packet. Pointers lead into the frame. */
struct wire_pkt {
	struct wire_bth bth;
	const struct wire_opcode *op;
	const uint8_t *l2;       /**< Ethernet header */
	const uint8_t *l3;       /**< IP header */
	const uint8_t *bthp;     /**< BTH; extended headers at bthp + op->off_... */
	const uint8_t *payload;
	uint32_t payload_bytes;  /**< without pad */
	uint8_t ip_version;
	uint8_t ecn;             /**< 3: congestion experienced */
	uint16_t sport;
	uint16_t vlan_tci;       /**< 0 if untagged */
	uint16_t more;           /**< PSNs that it has after that of its BTH: 0, unless it goes by reference (transport/core/local_priv.h) */
	bool inside; /**< it never left this daemon, so that its tag means nothing; false, unless the caller of
			wire_parse() knows it */
	uint32_t lower_crc;      /**< ICRC state of what is before the BTH; 0: not known */
};

/**
 * Parse and check a frame, in this order: Ethernet, IP, UDP, opcode, lengths, then the ICRC.
 *
 * @param frame,len  One contiguous frame; bytes behind the UDP datagram (Ethernet padding) are ignored.
 * @param check_icrc  False for packets that never left this host's memory.
 * @param p  Filled as far as the checks came.
 */
enum wire_verdict wire_parse(const uint8_t *frame, uint32_t len, bool check_icrc, struct wire_pkt *p);

/** @return true if the ICRC is right of a packet that wire_parse() accepted without looking at it. */
bool wire_icrc_ok(const struct wire_pkt *p);

#endif /* UROCE_WIRE_H */
