/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * rsockets on the wire: the formats that two ends have to agree on, as rdma-core's librdmacm speaks them. Nothing
 * here knows of verbs, sockets or threads.
 *
 * A stream is an RC connection of port space TCP. Both ends put struct rs_conn_data into the private data of REQ
 * and REP: how many messages may come, where half of a receive buffer is for the peer to write to, and where a list
 * of RS_CHUNKS descriptors is to which the peer writes the halves that follow. From then on every message is an
 * RDMA WRITE with immediate data; the immediate value says what it is (enum rs_op). Data goes to the chunk (half a buffer) that
 * was granted last, front to back. A receiver that has half of its buffer free again writes a descriptor of that half
 * into the next place of the peer's list, with RS_OP_SGL; the same opcode without data grants messages only.
 *
 * Grants of messages are the low 16 bits of a sequence number: that of the last data message that may be sent. Only
 * data counts. Control messages take receives as well, but are few; an RC connection waits for receives that aren't
 * there.
 *
 * A datagram socket is a UD QP for every local address, beside a UDP socket of the kernel's by which peers find each
 * other: see struct rs_udp_hdr.
 */
#ifndef UROCE_RS_WIRE_H
#define UROCE_RS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
	RS_VERSION = 1,
	RS_F_BIG_ENDIAN = 1 << 0, /**< the sender of the data is a big-endian machine: so it wants its descriptors */
	RS_F_IOMAP = 1 << 1,      /**< it knows mappings: its list goes on with target_iomap_size of them */
	RS_CHUNKS = 2,           /**< descriptors in our list */
	RS_REMOTE_CHUNKS_MAX = 1024, /**< a peer that announces more is not believed */
	RS_MSG_DATA_MASK = 0x1fffffff,
	RS_MSG_OP_SHIFT = 29,
	RS_SEQ_MASK = 0xffff,
	RS_IOMAP_MAX = 127 << 8,  /**< the largest number that fits target_iomap_size */
};

/** Immediate data: the operation in the upper three bits, its operand below. */
enum rs_op {
	RS_OP_DATA = 0,      /**< operand: bytes */
	RS_OP_SGL = 4,       /**< operand: the sequence number up to which data may come */
	RS_OP_IOMAP_SGL = 6, /**< operand: index of the mapping that was written */
	RS_OP_CTRL = 7,      /**< operand: enum rs_ctrl */
};

enum rs_ctrl {
	RS_CTRL_DISCONNECT = 0, /**< nothing will be sent, nothing will be read */
	RS_CTRL_KEEPALIVE = 1,  /**< never sent as a message: an empty WRITE does it */
	RS_CTRL_SHUTDOWN = 2,   /**< nothing more will be sent */
};

/** Memory of the sender's that the peer may write to. */
struct rs_sge {
	uint64_t addr;
	uint32_t key;
	uint32_t length; /**< bytes; of target_sgl: places in the list */
};

/** Private data of REQ and REP. Big-endian. */
struct rs_conn_data {
	uint8_t version;
	uint8_t flags;
	uint16_t credits;          /**< data messages that may come */
	uint8_t reserved[3];
	uint8_t target_iomap_size; /**< rs_iomap_scale() */
	struct rs_sge target_sgl;  /**< the list of descriptors, mappings behind it */
	struct rs_sge data_buf;    /**< the first chunk */
};
_Static_assert(sizeof(struct rs_conn_data) == 40, "the peer's size");

/** A mapping: what riowrite() to an offset of [offset, offset + sge.length) writes to. */
struct rs_iomap {
	uint64_t offset;
	struct rs_sge sge;
};
_Static_assert(sizeof(struct rs_iomap) == 24, "the peer's size");

/** The same in host order: what an end tells of itself. */
struct rs_hello {
	uint16_t credits;
	bool swap;        /**< descriptors for this peer are in the other byte order */
	uint32_t iomaps;  /**< mappings that it has room for */
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

/** How a number of mappings is told: up to 128 as it is, above in units of 256. */
uint8_t rs_iomap_scale(uint32_t n);
/** @return the number of mappings that @p scaled stands for: rs_iomap_scale() rounds down. */
uint32_t rs_iomap_unscale(uint8_t scaled);

void rs_hello_put(const struct rs_hello *h, struct rs_conn_data *out);
/**
 * Read what a peer tells of itself.
 * @param data, bytes  private data, perhaps padded
 * @return 0; EPROTO: none of ours, or nothing that could be meant
 */
int rs_hello_get(const void *data, size_t bytes, struct rs_hello *out);

/** Descriptors as the peer's memory has them. */
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

/** In front of every datagram on a UD QP: who sends. Addresses and ports as in socket addresses. */
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
 * In front of what goes by UDP. With RS_OP_DATA follows a datagram, for peers whose QP isn't known or that doesn't
 * fit its MTU; who gets it answers with RS_OP_CTRL. Both tell the sender's QP.
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
	} addr;           /**< that the QP is bound to */
};
_Static_assert(sizeof(struct rs_udp_hdr) == RS_UDP_V6_BYTES, "the peer's size");

/** @param sa  AF_INET or AF_INET6 */
void rs_dgram_hdr_put(struct rs_dgram_hdr *h, const struct sockaddr *sa);
/** @return the header's length, 0: no datagram. @p from gets the sender's address. */
size_t rs_dgram_hdr_get(const void *data, size_t bytes, struct sockaddr_storage *from);

void rs_udp_hdr_put(struct rs_udp_hdr *h, enum rs_op op, uint32_t qpn, const struct sockaddr *local);
/** @return the header's length, 0: none of ours. @p family: of the socket address it came from. */
size_t rs_udp_hdr_get(const void *data, size_t bytes, sa_family_t family, uint8_t *op, uint32_t *qpn);

#endif /* UROCE_RS_WIRE_H */
