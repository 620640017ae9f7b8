/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Messages to and from uroce-keeper (common/keeper.h).
 *
 * Owns: nothing. Called by: survive.c, standby.c. Thread: any.
 */
#ifndef UROCED_KEEPER_TALK_H
#define UROCED_KEEPER_TALK_H

#include <stdint.h>
#include <sys/types.h>

#include "common/keeper.h"

enum { KEEPER_ANSWER_MS = 10000 };

/** @param path  Of the keeper's socket. @return a connection to it, or -1 with errno set. */
int keeper_connect(const char *path);
/** @param fd  Goes with it, or -1. @return 0 or an errno value. */
int keeper_say(int sock, const struct keeper_req *q, int fd);
/**
 * Receive a message, which comes within KEEPER_ANSWER_MS.
 * @param fds  Receives up to KEEPER_BATCH descriptors that came with it.
 * @param nb  Receives how many.
 * @return bytes; 0: the keeper has ended the connection; -1 with errno set: ETIMEDOUT.
 */
ssize_t keeper_hear(int sock, void *data, size_t bytes, int *fds, uint32_t *nb);

#endif /* UROCED_KEEPER_TALK_H */
