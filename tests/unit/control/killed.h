/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A daemon (daemon.h) that is killed, and another one (second.h) that goes on with what its checkpoint has. Both are in this process: the first one stops
 * where it is, without writing anything down.
 */
#ifndef TEST_KILLED_H
#define TEST_KILLED_H

#include "control/core/checkpoint.h"
#include "daemon.h"
#include "second.h"

enum { KILLED_NUMBERS = 4096 };

/** Who keeps descriptors, as uroce-keeper does: for daemon_checkpoint. */
extern const struct checkpoint_host killed_host;
extern struct kept {
	int fds[KILLED_NUMBERS]; /**< duplicates; 0: none */
	int memfd;               /**< the checkpoint */
	uint32_t last;
	_Atomic bool complete;
} kept;

/** Kill the daemon, unless it is killed already. */
void killed_now(void);
/** Have the checkpoint as it is now count after the crash. Any thread; nobody may write it meanwhile. */
void killed_here(void);
/** Kill the daemon, and start another one with its records. */
void killed_go_on(struct second_stream *s);
/** End the other one, and have the first one go on. */
void killed_end(struct second_stream *s);
/** Without another one: have the first one go on. */
void killed_not(void);
/** Damage the journals of all engines; the daemon is killed, and has none afterwards. */
void killed_lose_journals(void);
/** @return a request with a number, as the library's have. */
struct ctl_req killed_numbered(uint32_t op, uint64_t number);

#endif /* TEST_KILLED_H */
