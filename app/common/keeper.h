/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What uroced and uroce-keeper say to each other, on a SOCK_SEQPACKET unix socket at the daemon's socket path and KEEPER_SUFFIX.
 *
 * The daemon says KEEPER_HELLO and gets a struct keeper_state, and then everything that the daemon before had committed, in struct keeper_given with descriptors
 * each. Everything that it says afterwards has no answer. What it has kept counts from KEEPER_COMMIT on; until then what the daemon before has left does.
 * Beside a daemon that is served another one waits for the state, until that one's connection has ended.
 *
 * A standby says KEEPER_STANDBY in place of KEEPER_HELLO, and then only listens. It gets a struct keeper_turn, and another one if it has to wait. Behind
 * KEEPER_SERVES comes what a daemon gets after KEEPER_HELLO; from then on it is the daemon.
 *
 * Owns: nothing. Thread: any.
 */
#ifndef UROCE_APP_KEEPER_H
#define UROCE_APP_KEEPER_H

#include <stdint.h>

#define KEEPER_SUFFIX ".keeper"
#define KEEPER_MAGIC UINT32_C(0x7065654b)
enum {
	KEEPER_VERSION = 1,
	KEEPER_BATCH = 64,            /**< descriptors in a message */
	KEEPER_NUMBERS = 1 << 20,     /**< numbers of descriptors are below */
	KEEPER_AT_ONCE_S = 3,         /**< a daemon that ends before its first commit, or sooner than this after it, has crashed on what it was given */
	KEEPER_CRASHES = 3,           /**< after so many of them in a row the next one should take nothing */
};

enum keeper_op {
	KEEPER_HELLO = 1, /**< seconds: for how long what is kept waits for the next daemon */
	KEEPER_KEEP,      /**< with a descriptor: keep it under `number` */
	KEEPER_FORGET,    /**< close what is kept under `number` */
	KEEPER_COMMIT,    /**< close what the daemon before has left */
	KEEPER_END,       /**< the daemon ends properly: close everything */
	KEEPER_STANDBY,   /**< as KEEPER_HELLO, of a daemon that waits for the end of the one that is served */
};

/** What a standby has to do. */
enum keeper_whose_turn {
	KEEPER_SERVES = 1, /**< no daemon is served, or the one that was has crashed: be the daemon. With a pidfd of the one that has crashed, if there was one */
	KEEPER_WAITS,      /**< a daemon is served: wait */
	KEEPER_TAKEN,      /**< another standby waits already; the connection ends */
	KEEPER_ENDED,      /**< the daemon has ended properly; the connection ends */
};

struct keeper_turn {
	uint32_t magic, version;
	uint32_t turn; /**< enum keeper_whose_turn */
	uint32_t reserved;
};

struct keeper_req {
	uint32_t magic, op;
	uint32_t number;
	uint32_t seconds;
	uint32_t version; /**< KEEPER_HELLO, KEEPER_STANDBY */
	uint32_t reserved;
};

struct keeper_state {
	uint32_t magic, version;
	uint32_t nb_fds;   /**< that follow */
	uint32_t room;     /**< descriptors that it can keep */
	uint32_t crashes;  /**< daemons that have ended without KEEPER_END, of which all but the first ended at once */
	uint32_t all_crashes;
	uint64_t ended_ns; /**< when the last of them ended, CLOCK_MONOTONIC; 0: none has */
};

struct keeper_given {
	uint32_t magic, n;
	uint32_t numbers[KEEPER_BATCH];
};

#endif /* UROCE_APP_KEEPER_H */
