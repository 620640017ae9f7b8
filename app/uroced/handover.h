/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The conversation of a daemon that hands its programs over with the one that takes them (control/handover.h), on the socket on which CTL_HAND_OVER came:
 *
 *  - from the old one a struct handover_begin, with a memfd of the records;
 *  - from the old one struct handover_fds, each with descriptors, until all have been sent;
 *  - from the new one a struct handover_answer. If its status isn't 0, or it ends, the old one goes on;
 *  - the end of the old one's process: its ports are free.
 *
 * Without such a conversation, from a daemon that has ended to one that starts: the same messages of the old one, in a socket that somebody keeps in between (keep.h).
 *
 * Owns: nothing. Called by: upgrade.c, keep.c. Thread: main.
 */
#ifndef UROCED_HANDOVER_H
#define UROCED_HANDOVER_H

#include <stdint.h>

#include "control/core/stream.h"
#include "ring/ctl.h"

enum { HANDOVER_FDS = 64, HANDOVER_TEXT_BYTES = 512 };

struct handover_begin {
	uint32_t magic, op; /**< CTL_MAGIC, CTL_HAND_OVER: as in a reply */
	int32_t status;     /**< 0; otherwise it is a struct ctl_rsp */
	uint32_t nb_fds;    /**< that follow */
	uint64_t bytes;     /**< of records in the memfd */
	int32_t pid;        /**< whose end frees the ports */
	uint32_t reserved;
};
struct handover_fds {
	uint32_t magic, n;
};
struct handover_answer {
	uint32_t magic;
	int32_t status;
	char text[HANDOVER_TEXT_BYTES];
};

/**
 * [old] Send everything and wait for the answer.
 * @param text  Receives why it was refused, HANDOVER_TEXT_BYTES long.
 * @return 0: the other one goes on with it; else an errno value.
 */
int handover_send(int sock, const struct stream_out *o, char *text);

/**
 * [old] Leave everything in a socket for whoever reads its other end, which nobody does yet.
 * @return 0; ETIMEDOUT, ETOOMANYREFS: it doesn't fit in; another errno value.
 */
int handover_store(int sock, const struct stream_out *o);
/**
 * [new] Read what handover_store() has left.
 * @param in  Receives records and descriptors; handover_free() them.
 * @return 0; ENODATA: there is nothing any more; EPROTO: it isn't that; another errno value.
 */
int handover_fetch(int sock, struct stream_in *in);

/** [new] A conversation. */
struct handover_talk {
	int sock;
	int pidfd; /**< of the old daemon */
};
/**
 * [new] Ask the daemon at @p path for its programs.
 * @param t  Is for handover_reply(), which ends it.
 * @param in  Receives records and descriptors; handover_free() them.
 * @param text  Receives what went wrong and what to do, HANDOVER_TEXT_BYTES long.
 * @return 0, or -1 with a text.
 */
int handover_ask(const char *path, struct handover_talk *t, struct stream_in *in, char *text);
/** [new] Answer. With status 0 wait until the old daemon has ended. @return 0, or -1: it doesn't end. */
int handover_reply(struct handover_talk *t, int status, const char *text);
void handover_free(struct stream_in *in);

#endif /* UROCED_HANDOVER_H */
