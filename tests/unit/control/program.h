/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A program with one object of each kind, or more, that looks for them in another daemon (second.h).
 */
#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include "daemon.h"

enum { PROGRAM_MR_BYTES = 8192 };

/** A program with one object of each kind, or more. */
struct program {
	struct peer p;
	uint32_t pd, other_pd, channel, cq, srq, rc, ud, ah, dm;
	uint32_t ud_qpn, rc_qpn, mw_key;
	uint32_t ud_engine; /**< to which it has moved */
	struct ctl_mr_reg_rsp converted, remote, null, of_dm;
	struct ctl_handle id;
	int channel_fds[2], cm_fd;
	uint64_t cm_token;
	uint8_t *memory;
};

void program_begin(struct program *m);
/** Everything is in the second daemon under its old handle, and can be used and destroyed in the order that users demand. */
void program_check(struct program *m);
void program_end(struct program *m);

#endif /* TEST_PROGRAM_H */
