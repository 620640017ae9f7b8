/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No congestion control: a QP is limited by its window alone, its packets say that they aren't ECN-capable.
 */
#include "transport/cc/cc_priv.h"

const struct cc_ops cc_none = {
	.name = "none",
};
