/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The wire formats of rsockets, as in rdma-core's librdmacm. This file doesn't depend on verbs, sockets or threads.
 *
 * A stream is an RC connection in port space TCP. Both ends send struct rs_conn_data as the private data of REQ and
 * REP: how many messages may be sent to it, the half of its receive buffer that the peer may write to first, and the
 * list of RS_CHUNKS descriptors to which the peer writes the halves that it grants next. From then on every message is
 * an RDMA WRITE with immediate data; the immediate value says what it is (enum rs_op). Data is written to the chunk
 * (half a buffer) that was granted last, front to back. When half of a receiver's buffer is free again, it writes a
 * descriptor of that half into the next entry of the peer's list, with RS_OP_SGL; the same opcode without data grants
 * only messages.
 *
 * Messages are granted with the low 16 bits of a sequence number: that of the last data message that may be sent. Only
 * data messages count. Control messages also consume receives, but are few; an RC connection waits if there is no
 * receive (RNR).
 *
 * A datagram socket has a UD QP for every local address, and a UDP socket of the kernel by which peers find each other:
 * see struct rs_udp_hdr.
 */
#ifndef UROCE_RS_WIRE_H
#define UROCE_RS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
	RS_VERSION = 1,
	RS_F_BIG_ENDIAN = 1 << 0, /**< the sender is a big-endian machine and wants descriptors in its byte order */
	RS_F_IOMAP = 1 << 1,      /**< it supports mappings: target_iomap_size of them follow its list */
	RS_CHUNKS = 2,           /**< number of descriptors in our list */
	RS_REMOTE_CHUNKS_MAX = 1024, /**< a peer that announces more is rejected */
	RS_MSG_DATA_MASK = 0x1fffffff,
	RS_MSG_OP_SHIFT = 29,
	RS_SEQ_MASK = 0xffff,
	RS_IOMAP_MAX = 127 << 8,  /**< the largest number that fits target_iomap_size */
};

/** Immediate data: the operation in the upper three bits, its operand below. */
enum rs_op {
	RS_OP_DATA = 0,      /**< operand: bytes */
	RS_OP_SGL = 4,       /**< operand: the sequence number up to which data may come */
	RS_OP_IOMAP_SGL = 6, /**< operand: sequence number up to which data may be sent */
	RS_OP_CTRL = 7,      /**< operand: enum rs_ctrl */
};

enum rs_ctrl {
	RS_CTRL_DISCONNECT = 0, /**< the sender will neither send nor read any more */
	RS_CTRL_KEEPALIVE = 1,  /**< never sent as a message: keepalives are empty WRITEs */
	RS_CTRL_SHUTDOWN = 2,   /**< the sender will send nothing more */
};

/** Memory of the sender that the peer may write to. */
struct rs_sge {
	uint64_t addr;
	uint32_t key;
	uint32_t length; /**< bytes; in target_sgl: number of entries in the list */
};

/** Private data of REQ and REP. Big-endian. */
struct rs_conn_data {
	uint8_t version;
	uint8_t flags;
	uint16_t credits;          /**< data messages that the peer may send */
	uint8_t reserved[3];
	uint8_t target_iomap_size; /**< rs_iomap_scale() */
	struct rs_sge target_sgl;  /**< the list of descriptors, which the mappings follow */
	struct rs_sge data_buf;    /**< the first chunk */
};
_Static_assert(sizeof(struct rs_conn_data) == 40, "the peer's size");

/** A mapping: riowrite() to an offset in [offset, offset + sge.length) writes to sge. */
struct rs_iomap {
	uint64_t offset;
	struct rs_sge sge;
};
_Static_assert(sizeof(struct rs_iomap) == 24, "the peer's size");

/** What an end tells about itself (struct rs_conn_data), in host byte order. */
struct rs_hello {
	uint16_t credits;
	bool swap;        /**< the peer wants descriptors in the other byte order */
	uint32_t iomaps;  /**< number of mappings that it has room for */
	struct rs_sge list, chunk;
};

static inline uint32_t
rs_msg(enum rs_op op, uint32_t data)
{
	return (uint32_t)op << RS_MSG_OP_SHIFT | (data & RS_MSG_DATA_MASK);
}
static inline uint32_t
rs_msg_op(uint32_t msg)
{
	return msg >> RS_MSG_OP_SHIFT;
}
static inline uint32_t
rs_msg_data(uint32_t msg)
{
	return msg & RS_MSG_DATA_MASK;
}

/** @return the encoded number of mappings: up to 128 as it is, above in units of 256. */
uint8_t rs_iomap_scale(uint32_t n);
/** @return the number of mappings that @p scaled stands for: rs_iomap_scale() rounds down. */
uint32_t rs_iomap_unscale(uint8_t scaled);

void rs_hello_put(const struct rs_hello *h, struct rs_conn_data *out);
/**
 * Read what a peer tells about itself.
 * @param data, bytes  Private data, perhaps padded.
 * @return 0; EPROTO: not of an rsocket, or values that make no sense
 */
int rs_hello_get(const void *data, size_t bytes, struct rs_hello *out);

/** Convert descriptors to the byte order of the peer. */
struct rs_sge rs_sge_for(const struct rs_sge *s, bool swap);
struct rs_iomap rs_iomap_for(const struct rs_iomap *m, bool swap);

/* ---- Datagrams ---- */
enum {
	RS_DGRAM_V4_BYTES = 8,
	RS_DGRAM_V6_BYTES = 24,
	RS_UDP_V4_BYTES = 16,
	RS_UDP_V6_BYTES = 28,
	RS_UDP_TAG = 0x55555555,
	RS_UDP_QPN_MASK = 0xffffff,
};

/** Precedes every datagram on a UD QP and identifies the sender. Addresses and ports as in socket addresses. */
struct rs_dgram_hdr {
	uint8_t version;  /**< 4 or 6 */
	uint8_t length;   /**< of this header */
	uint16_t port;
	union {
		uint32_t v4;
		struct {
			uint32_t flowinfo;
			uint8_t addr[16];
		} v6;
	} addr;
};
_Static_assert(sizeof(struct rs_dgram_hdr) == RS_DGRAM_V6_BYTES, "the peer's size");

/**
 * Precedes everything sent by UDP. With RS_OP_DATA a datagram follows: to a peer whose QP isn't known, or larger than
 * the QP's MTU; its receiver answers with RS_OP_CTRL. Both tell the sender's QP number.
 */
struct rs_udp_hdr {
	uint32_t tag;     /**< RS_UDP_TAG */
	uint8_t version;  /**< 4 or 6 */
	uint8_t op;
	uint8_t length;   /**< of this header */
	uint8_t reserved;
	uint32_t qpn;
	union {
		uint32_t v4;
		uint8_t v6[16];
	} addr;           /**< the address that the QP is bound to */
};
_Static_assert(sizeof(struct rs_udp_hdr) == RS_UDP_V6_BYTES, "the peer's size");

/** @param sa  AF_INET or AF_INET6 */
void rs_dgram_hdr_put(struct rs_dgram_hdr *h, const struct sockaddr *sa);
/**
 * @param from  Set to the sender's address.
 * @return the header's length, 0: not a datagram
 */
size_t rs_dgram_hdr_get(const void *data, size_t bytes, struct sockaddr_storage *from);

void rs_udp_hdr_put(struct rs_udp_hdr *h, enum rs_op op, uint32_t qpn, const struct sockaddr *local);
/**
 * @param family  Address family of the socket address that it came from.
 * @return the header's length, 0: not such a header
 */
size_t rs_udp_hdr_get(const void *data, size_t bytes, sa_family_t family, uint8_t *op, uint32_t *qpn);

#endif /* UROCE_RS_WIRE_H */
