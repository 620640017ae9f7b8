/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Work request opcodes: one row for each, with all its properties. A new opcode is a row here; everything else that has
 * an entry per opcode expands this table.
 *
 * Owns: constants only. Used by: abi.h (enum uroce_wr_op), wqe.h, lib/verbs (what may be posted), lib/transport (how it
 * is sent, its name). Thread: any.
 */
#ifndef UROCE_WR_OP_H
#define UROCE_WR_OP_H

/* Columns "types": the QP types that have the opcode (man ibv_post_send), bits 1 << enum uroce_qp_type. */
#define WR_RELIABLE (1u << UROCE_QPT_RC | 1u << UROCE_QPT_XRC_SEND)
#define WR_CONNECTED (WR_RELIABLE | 1u << UROCE_QPT_UC)
#define WR_ALL (WR_CONNECTED | 1u << UROCE_QPT_UD)

/**
 * Calls X(name, number, types, kind, operands, can_inline, recvs, wc, wire) for each opcode.
 *
 * name        UROCE_WR_name is the constant, "name" the text; IBV_WR_name has the same number
 * types       WR_RELIABLE, WR_CONNECTED or WR_ALL
 * kind        how the requester executes it:
 *             DATA     one or more packets with data, acknowledged
 *             READ     requests for data
 *             ATOMIC   one packet, answered with eight bytes
 *             PLACE    one packet, answered by an empty READ response (annex A19)
 *             LOCAL    nothing is sent
 * operands    what a WQE has besides its SGEs, enum wr_operands
 * can_inline  1: data may be inline (man ibv_post_send: SEND and WRITE; ATOMIC_WRITE's eight bytes)
 * recvs       receives that a message takes from the peer's RQ or SRQ
 * wc          UROCE_WC_wc is the completion's opcode
 * wire        opcodes on the wire: WR_WIRE(first, middle, last, only), WR_WIRE_ONE(op) or WR_WIRE_NONE; lib/transport
 *             defines these three, other users ignore the column
 */
#define WR_OP_TABLE(X) \
	X(RDMA_WRITE, 0, WR_CONNECTED, DATA, REMOTE, 1, 0, RDMA_WRITE, \
	  WR_WIRE(WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_ONLY)) \
	X(RDMA_WRITE_WITH_IMM, 1, WR_CONNECTED, DATA, REMOTE, 1, 1, RDMA_WRITE, \
	  WR_WIRE(WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST_IMM, WRITE_ONLY_IMM)) \
	X(SEND, 2, WR_ALL, DATA, NONE, 1, 1, SEND, WR_WIRE(SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY)) \
	X(SEND_WITH_IMM, 3, WR_ALL, DATA, NONE, 1, 1, SEND, \
	  WR_WIRE(SEND_FIRST, SEND_MIDDLE, SEND_LAST_IMM, SEND_ONLY_IMM)) \
	X(RDMA_READ, 4, WR_RELIABLE, READ, REMOTE, 0, 0, RDMA_READ, WR_WIRE_ONE(READ_REQUEST)) \
	X(ATOMIC_CMP_AND_SWP, 5, WR_RELIABLE, ATOMIC, ATOMIC, 0, 0, COMP_SWAP, WR_WIRE_ONE(CMP_SWAP)) \
	X(ATOMIC_FETCH_AND_ADD, 6, WR_RELIABLE, ATOMIC, ATOMIC, 0, 0, FETCH_ADD, WR_WIRE_ONE(FETCH_ADD)) \
	X(LOCAL_INV, 7, WR_CONNECTED, LOCAL, NONE, 0, 0, LOCAL_INV, WR_WIRE_NONE) \
	X(BIND_MW, 8, WR_CONNECTED, LOCAL, BIND, 0, 0, BIND_MW, WR_WIRE_NONE) \
	X(SEND_WITH_INV, 9, WR_RELIABLE, DATA, NONE, 1, 1, SEND, \
	  WR_WIRE(SEND_FIRST, SEND_MIDDLE, SEND_LAST_INV, SEND_ONLY_INV)) \
	X(FLUSH, 14, WR_RELIABLE, PLACE, FLUSH, 0, 0, FLUSH, WR_WIRE_ONE(FLUSH)) \
	X(ATOMIC_WRITE, 15, WR_RELIABLE, PLACE, REMOTE, 1, 0, ATOMIC_WRITE, WR_WIRE_ONE(ATOMIC_WRITE))

/** Opcodes: enum ibv_wr_opcode. */
#define WR_OP_ENUM(name, number, types, kind, operands, can_inline, recvs, wc, wire) UROCE_WR_##name = number,
enum uroce_wr_op { WR_OP_TABLE(WR_OP_ENUM) UROCE_WR_OPS = 16 };
#undef WR_OP_ENUM

/**
 * What a WQE has besides its SGEs. From WR_OPERANDS_ATOMIC on: remote address and key, and a block of 16 bytes between
 * header and SGEs.
 */
enum wr_operands {
	WR_OPERANDS_NONE = 0, /**< nothing; but SENDs of a UD QP have their destination, *_INV the key */
	WR_OPERANDS_REMOTE,   /**< remote address and key */
	WR_OPERANDS_ATOMIC,   /**< struct ring_atomic */
	WR_OPERANDS_BIND,     /**< struct ring_bind */
	WR_OPERANDS_FLUSH,    /**< struct ring_flush */
};

/** Sets of opcodes, bits 1 << enum uroce_wr_op. */
#define WR_OP_BLOCK(name, number, types, kind, operands, can_inline, recvs, wc, wire) \
	| (WR_OPERANDS_##operands >= WR_OPERANDS_ATOMIC) << number
#define WR_OP_INLINE(name, number, types, kind, operands, can_inline, recvs, wc, wire) | can_inline << number
enum {
	WR_OPS_WITH_BLOCK = 0 WR_OP_TABLE(WR_OP_BLOCK),
	WR_OPS_WITH_INLINE = 0 WR_OP_TABLE(WR_OP_INLINE),
};
#undef WR_OP_BLOCK
#undef WR_OP_INLINE

#endif /* UROCE_WR_OP_H */
