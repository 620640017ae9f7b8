/* SPDX-License-Identifier: BSD-3-Clause */
/* SEND; the receiver keeps a receive posted for every message. */
#include "workload.h"

static const struct workload_ops send_ops = {
	.name = "send",
	.help = "SEND into receives that are posted again at once",
	.qp_type = IBV_QPT_RC,
	.opcode = IBV_WR_SEND,
	.receives = true,
	.areas = 1,
};
WORKLOAD(send_ops)
