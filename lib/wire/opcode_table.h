/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Operations on the wire: one row for each, with all that is known of it (9.2, 9.3; annexes A14, A19).
 *
 * Owns: constants only. Used by: wire.h (enum wire_op), opcode.c (wire_opcodes[]). Thread: any.
 */
#ifndef UROCE_OPCODE_TABLE_H
#define UROCE_OPCODE_TABLE_H

/* Column "flags". */
#define WIRE_ONLY (WIRE_F_START | WIRE_F_END)
#define WIRE_SEND (WIRE_F_REQUEST | WIRE_F_SEND | WIRE_F_PAYLOAD)
#define WIRE_WRITE (WIRE_F_REQUEST | WIRE_F_WRITE | WIRE_F_PAYLOAD)
#define WIRE_READ_RESP (WIRE_F_RESPONSE | WIRE_F_READ_RESP | WIRE_F_PAYLOAD)
#define WIRE_ATOMIC (WIRE_F_REQUEST | WIRE_F_ATOMIC | WIRE_F_ATOMICETH | WIRE_ONLY)

/**
 * Calls X(name, number, text, flags) for each operation of WIRE_OPS_ALL (every service), WIRE_OPS_CONNECTED (RC, XRC, UC) and
 * WIRE_OPS_RELIABLE (RC, XRC).
 *
 * name    WIRE_OP_name is the constant
 * number  the lower five bits of the opcode
 * text    as Wireshark has it, behind the service's name
 * flags   WIRE_F_*: what it is, and which extended headers it has. opcode.c adds the headers that every request of a
 *         service has, and derives sizes and offsets
 */
#define WIRE_OPS_ALL(X) \
	X(SEND_ONLY, 0x04, "Send Only", WIRE_SEND | WIRE_ONLY | WIRE_F_RQ) \
	X(SEND_ONLY_IMM, 0x05, "Send Only Immediate", WIRE_SEND | WIRE_ONLY | WIRE_F_RQ | WIRE_F_IMM)
#define WIRE_OPS_CONNECTED(X) \
	X(SEND_FIRST, 0x00, "Send First", WIRE_SEND | WIRE_F_START | WIRE_F_RQ) \
	X(SEND_MIDDLE, 0x01, "Send Middle", WIRE_SEND) \
	X(SEND_LAST, 0x02, "Send Last", WIRE_SEND | WIRE_F_END) \
	X(SEND_LAST_IMM, 0x03, "Send Last Immediate", WIRE_SEND | WIRE_F_END | WIRE_F_IMM) \
	X(WRITE_FIRST, 0x06, "RDMA Write First", WIRE_WRITE | WIRE_F_START | WIRE_F_RETH) \
	X(WRITE_MIDDLE, 0x07, "RDMA Write Middle", WIRE_WRITE) \
	X(WRITE_LAST, 0x08, "RDMA Write Last", WIRE_WRITE | WIRE_F_END) \
	X(WRITE_LAST_IMM, 0x09, "RDMA Write Last Immediate", WIRE_WRITE | WIRE_F_END | WIRE_F_RQ | WIRE_F_IMM) \
	X(WRITE_ONLY, 0x0a, "RDMA Write Only", WIRE_WRITE | WIRE_ONLY | WIRE_F_RETH) \
	X(WRITE_ONLY_IMM, 0x0b, "RDMA Write Only Immediate", \
	  WIRE_WRITE | WIRE_ONLY | WIRE_F_RQ | WIRE_F_RETH | WIRE_F_IMM)
#define WIRE_OPS_RELIABLE(X) \
	X(READ_REQUEST, 0x0c, "RDMA Read Request", WIRE_F_REQUEST | WIRE_F_READ | WIRE_F_RETH | WIRE_ONLY) \
	X(READ_RESP_FIRST, 0x0d, "RDMA Read Response First", WIRE_READ_RESP | WIRE_F_START | WIRE_F_AETH) \
	X(READ_RESP_MIDDLE, 0x0e, "RDMA Read Response Middle", WIRE_READ_RESP) \
	X(READ_RESP_LAST, 0x0f, "RDMA Read Response Last", WIRE_READ_RESP | WIRE_F_END | WIRE_F_AETH) \
	X(READ_RESP_ONLY, 0x10, "RDMA Read Response Only", WIRE_READ_RESP | WIRE_ONLY | WIRE_F_AETH) \
	X(ACK, 0x11, "Acknowledge", WIRE_F_RESPONSE | WIRE_ONLY | WIRE_F_AETH) \
	X(ATOMIC_ACK, 0x12, "Atomic Acknowledge", WIRE_F_RESPONSE | WIRE_ONLY | WIRE_F_AETH | WIRE_F_ATOMICACKETH) \
	X(CMP_SWAP, 0x13, "Compare Swap", WIRE_ATOMIC) \
	X(FETCH_ADD, 0x14, "Fetch Add", WIRE_ATOMIC) \
	X(SEND_LAST_INV, 0x16, "Send Last Invalidate", WIRE_SEND | WIRE_F_END | WIRE_F_IETH) \
	X(SEND_ONLY_INV, 0x17, "Send Only Invalidate", WIRE_SEND | WIRE_ONLY | WIRE_F_RQ | WIRE_F_IETH) \
	X(FLUSH, 0x1c, "Flush", WIRE_F_REQUEST | WIRE_F_FETH | WIRE_F_RETH | WIRE_ONLY) \
	X(ATOMIC_WRITE, 0x1d, "Atomic Write", WIRE_F_REQUEST | WIRE_F_RETH | WIRE_F_PAYLOAD | WIRE_ONLY)
#define WIRE_OP_TABLE(X) WIRE_OPS_ALL(X) WIRE_OPS_CONNECTED(X) WIRE_OPS_RELIABLE(X)

#endif /* UROCE_OPCODE_TABLE_H */
