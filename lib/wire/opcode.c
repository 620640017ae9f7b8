/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The opcode table. Each row states a packet's nature and headers once, as flags; sizes and offsets follow
 * from the order in which the specification puts the extended headers behind the BTH (9.3, 9.6).
 */
#include "wire/wire.h"

#define BYTES(fl, flag, n) ((fl) & (flag) ? (n) : 0)

/* Offset of each extended header: that of the one before it plus that one's size. */
#define OFF_XRCETH(fl) WIRE_BTH_BYTES
#define OFF_DETH(fl) (OFF_XRCETH(fl) + BYTES(fl, WIRE_F_XRCETH, WIRE_XRCETH_BYTES))
#define OFF_FETH(fl) (OFF_DETH(fl) + BYTES(fl, WIRE_F_DETH, WIRE_DETH_BYTES))
#define OFF_RETH(fl) (OFF_FETH(fl) + BYTES(fl, WIRE_F_FETH, WIRE_FETH_BYTES))
#define OFF_ATOMICETH(fl) (OFF_RETH(fl) + BYTES(fl, WIRE_F_RETH, WIRE_RETH_BYTES))
#define OFF_AETH(fl) (OFF_ATOMICETH(fl) + BYTES(fl, WIRE_F_ATOMICETH, WIRE_ATOMICETH_BYTES))
#define OFF_ATOMICACKETH(fl) (OFF_AETH(fl) + BYTES(fl, WIRE_F_AETH, WIRE_AETH_BYTES))
#define OFF_IMM(fl) (OFF_ATOMICACKETH(fl) + BYTES(fl, WIRE_F_ATOMICACKETH, WIRE_ATOMICACKETH_BYTES))
#define OFF_IETH(fl) (OFF_IMM(fl) + BYTES(fl, WIRE_F_IMM, WIRE_IMM_BYTES))
#define HDR_BYTES(fl) (OFF_IETH(fl) + BYTES(fl, WIRE_F_IETH, WIRE_IETH_BYTES))

#define ROW(opcode, text, fl) [(opcode)] = { \
	.name = (text), \
	.flags = WIRE_F_VALID | (fl), \
	.hdr_bytes = HDR_BYTES(fl), \
	.off_xrceth = OFF_XRCETH(fl), \
	.off_deth = OFF_DETH(fl), \
	.off_feth = OFF_FETH(fl), \
	.off_reth = OFF_RETH(fl), \
	.off_atomiceth = OFF_ATOMICETH(fl), \
	.off_aeth = OFF_AETH(fl), \
	.off_atomicacketh = OFF_ATOMICACKETH(fl), \
	.off_imm = OFF_IMM(fl), \
	.off_ieth = OFF_IETH(fl), \
}

#define FIRST WIRE_F_START
#define LAST WIRE_F_END
#define ONLY (WIRE_F_START | WIRE_F_END)
#define SEND (WIRE_F_REQUEST | WIRE_F_SEND | WIRE_F_PAYLOAD)
#define WRITE (WIRE_F_REQUEST | WIRE_F_WRITE | WIRE_F_PAYLOAD)
#define READ_RESP (WIRE_F_RESPONSE | WIRE_F_READ_RESP | WIRE_F_PAYLOAD)
#define ATOMIC (WIRE_F_REQUEST | WIRE_F_ATOMIC | WIRE_F_ATOMICETH | ONLY)

/* SEND and WRITE without invalidation: all connected services. x: flags of every request of the service. */
#define SEND_AND_WRITE(svc, text, x) \
	ROW((svc) | WIRE_OP_SEND_FIRST, text " Send First", SEND | FIRST | WIRE_F_RQ | (x)), \
	ROW((svc) | WIRE_OP_SEND_MIDDLE, text " Send Middle", SEND | (x)), \
	ROW((svc) | WIRE_OP_SEND_LAST, text " Send Last", SEND | LAST | (x)), \
	ROW((svc) | WIRE_OP_SEND_LAST_IMM, text " Send Last Immediate", SEND | LAST | WIRE_F_IMM | (x)), \
	ROW((svc) | WIRE_OP_SEND_ONLY, text " Send Only", SEND | ONLY | WIRE_F_RQ | (x)), \
	ROW((svc) | WIRE_OP_SEND_ONLY_IMM, text " Send Only Immediate", SEND | ONLY | WIRE_F_RQ | WIRE_F_IMM | (x)), \
	ROW((svc) | WIRE_OP_WRITE_FIRST, text " RDMA Write First", WRITE | FIRST | WIRE_F_RETH | (x)), \
	ROW((svc) | WIRE_OP_WRITE_MIDDLE, text " RDMA Write Middle", WRITE | (x)), \
	ROW((svc) | WIRE_OP_WRITE_LAST, text " RDMA Write Last", WRITE | LAST | (x)), \
	ROW((svc) | WIRE_OP_WRITE_LAST_IMM, text " RDMA Write Last Immediate", \
		WRITE | LAST | WIRE_F_RQ | WIRE_F_IMM | (x)), \
	ROW((svc) | WIRE_OP_WRITE_ONLY, text " RDMA Write Only", WRITE | ONLY | WIRE_F_RETH | (x)), \
	ROW((svc) | WIRE_OP_WRITE_ONLY_IMM, text " RDMA Write Only Immediate", \
		WRITE | ONLY | WIRE_F_RQ | WIRE_F_RETH | WIRE_F_IMM | (x))

/* What the reliable services have besides; responses carry no XRCETH (A14). */
#define RELIABLE(svc, text, x) \
	ROW((svc) | WIRE_OP_READ_REQUEST, text " RDMA Read Request", \
		WIRE_F_REQUEST | WIRE_F_READ | WIRE_F_RETH | ONLY | (x)), \
	ROW((svc) | WIRE_OP_READ_RESP_FIRST, text " RDMA Read Response First", READ_RESP | FIRST | WIRE_F_AETH), \
	ROW((svc) | WIRE_OP_READ_RESP_MIDDLE, text " RDMA Read Response Middle", READ_RESP), \
	ROW((svc) | WIRE_OP_READ_RESP_LAST, text " RDMA Read Response Last", READ_RESP | LAST | WIRE_F_AETH), \
	ROW((svc) | WIRE_OP_READ_RESP_ONLY, text " RDMA Read Response Only", READ_RESP | ONLY | WIRE_F_AETH), \
	ROW((svc) | WIRE_OP_ACK, text " Acknowledge", WIRE_F_RESPONSE | ONLY | WIRE_F_AETH), \
	ROW((svc) | WIRE_OP_ATOMIC_ACK, text " Atomic Acknowledge", \
		WIRE_F_RESPONSE | ONLY | WIRE_F_AETH | WIRE_F_ATOMICACKETH), \
	ROW((svc) | WIRE_OP_CMP_SWAP, text " Compare Swap", ATOMIC | (x)), \
	ROW((svc) | WIRE_OP_FETCH_ADD, text " Fetch Add", ATOMIC | (x)), \
	ROW((svc) | WIRE_OP_SEND_LAST_INV, text " Send Last Invalidate", SEND | LAST | WIRE_F_IETH | (x)), \
	ROW((svc) | WIRE_OP_SEND_ONLY_INV, text " Send Only Invalidate", SEND | ONLY | WIRE_F_RQ | WIRE_F_IETH | (x)), \
	/* Annex A19: memory placement extensions. */ \
	ROW((svc) | WIRE_OP_FLUSH, text " Flush", WIRE_F_REQUEST | WIRE_F_FETH | WIRE_F_RETH | ONLY | (x)), \
	ROW((svc) | WIRE_OP_ATOMIC_WRITE, text " Atomic Write", \
		WIRE_F_REQUEST | WIRE_F_RETH | WIRE_F_PAYLOAD | ONLY | (x))

const struct wire_opcode wire_opcodes[256] = {
	SEND_AND_WRITE(WIRE_RC, "RC", 0),
	RELIABLE(WIRE_RC, "RC", 0),
	SEND_AND_WRITE(WIRE_UC, "UC", 0),
	SEND_AND_WRITE(WIRE_XRC, "XRC", WIRE_F_XRCETH),
	RELIABLE(WIRE_XRC, "XRC", WIRE_F_XRCETH),
	ROW(WIRE_UD | WIRE_OP_SEND_ONLY, "UD Send Only", SEND | ONLY | WIRE_F_RQ | WIRE_F_DETH),
	ROW(WIRE_UD | WIRE_OP_SEND_ONLY_IMM, "UD Send Only Immediate",
		SEND | ONLY | WIRE_F_RQ | WIRE_F_DETH | WIRE_F_IMM),
	/* Its 16 reserved bytes count as payload (A17.9.3). */
	ROW(WIRE_OPCODE_CNP, "CNP", WIRE_F_CNP | WIRE_F_PAYLOAD),
	/* What is in it beyond that is lib/transport's. */
	ROW(WIRE_OPCODE_SACK, "Selective Acknowledge", WIRE_F_SACK | WIRE_F_AETH | WIRE_F_PAYLOAD),
};
