/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No congestion control: only losses limit a QP's window, and its packets are sent as not ECN-capable.
 */
#include "transport/cc/cc_priv.h"

const struct cc_ops cc_none = {
	.name = "none",
};
