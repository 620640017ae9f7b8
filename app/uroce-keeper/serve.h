/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon that is served, the standby that waits for its end, and who has connected and isn't either of them yet (common/keeper.h).
 *
 * Owns: their connections, and what is kept. Called by: main.c. Thread: main.
 */
#ifndef UROCE_KEEPER_SERVE_H
#define UROCE_KEEPER_SERVE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/**
 * Serve one daemon after the other, until one has ended properly or none came in time.
 * @param listener  Nobody blocks it: it is non-blocking.
 * @param uid  Only daemons of this user and of root are served.
 * @param room  For how many descriptors there is room.
 * @param first_s  How long to wait for the first daemon, in seconds.
 * @param stay  Never return.
 */
void serve(int listener, uid_t uid, uint32_t room, uint32_t first_s, bool stay);

#endif /* UROCE_KEEPER_SERVE_H */
