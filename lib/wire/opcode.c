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

#define ROW(opcode, text, fl) [opcode] = { \
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
},

/* The operations of a service. XRC and UD put a header of their own into every request; responses don't have it (A14). */
#define RC(name, number, text, fl) ROW(WIRE_RC | (number), "RC " text, fl)
#define UC(name, number, text, fl) ROW(WIRE_UC | (number), "UC " text, fl)
#define UD(name, number, text, fl) ROW(WIRE_UD | (number), "UD " text, (fl) | WIRE_F_DETH)
#define XRC(name, number, text, fl) ROW(WIRE_XRC | (number), "XRC " text, (fl) | BYTES(fl, WIRE_F_REQUEST, WIRE_F_XRCETH))

const struct wire_opcode wire_opcodes[256] = {
	WIRE_OPS_ALL(RC) WIRE_OPS_CONNECTED(RC) WIRE_OPS_RELIABLE(RC)
	WIRE_OPS_ALL(UC) WIRE_OPS_CONNECTED(UC)
	WIRE_OPS_ALL(UD)
	WIRE_OPS_ALL(XRC) WIRE_OPS_CONNECTED(XRC) WIRE_OPS_RELIABLE(XRC)
	/* Its 16 reserved bytes count as payload (A17.9.3). */
	ROW(WIRE_OPCODE_CNP, "CNP", WIRE_F_CNP | WIRE_F_PAYLOAD)
	/* lib/transport knows what is in its payload. */
	ROW(WIRE_OPCODE_SACK, "Selective Acknowledge", WIRE_F_SACK | WIRE_F_AETH | WIRE_F_PAYLOAD)
};
