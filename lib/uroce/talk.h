/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The conversation of a process that hands the programs it serves over to one that takes them (control/handover.h), on the socket on which CTL_HAND_OVER came:
 *
 *  - from the old process a struct talk_begin, with a memfd of the records;
 *  - from the old one struct talk_fds, each with descriptors, until all have been sent;
 *  - from the new process a struct talk_answer. If its status isn't 0, or it ends, the old one goes on;
 *  - the end of the old one's process: its ports are free.
 *
 * Each of the two may be uroced or an application with a stack.
 *
 * Without such a conversation, from a daemon that has ended to one that starts: the same messages of the old one, in a socket that somebody keeps in between
 * (app/uroced/keep.h).
 *
 * Owns: nothing. Called by: suspend.c, app/uroced. Thread: the one that drives the stack's control, which nobody does meanwhile.
 */
#ifndef UROCE_TALK_H
#define UROCE_TALK_H

#include <stdint.h>

#include "control/core/stream.h"
#include "ring/ctl.h"

enum { TALK_FDS = 64, TALK_TEXT_BYTES = 512 };

struct talk_begin {
	uint32_t magic, op; /**< CTL_MAGIC, CTL_HAND_OVER: as in a reply */
	int32_t status;     /**< 0; otherwise it is a struct ctl_rsp */
	uint32_t nb_fds;    /**< that follow */
	uint64_t bytes;     /**< of records in the memfd */
	int32_t pid;        /**< whose end frees the ports */
	uint32_t reserved;
};
struct talk_fds {
	uint32_t magic, n;
};
struct talk_answer {
	uint32_t magic;
	int32_t status;
	char text[TALK_TEXT_BYTES];
};

/**
 * [old] Send everything and wait for the answer.
 * @param text  Receives why it was refused, TALK_TEXT_BYTES long.
 * @return 0: the other one goes on with it; else an errno value.
 */
int talk_send(int sock, const struct stream_out *o, char *text);

/** [old] Answer that the programs can't be had, and why. Doesn't wait for the other one. */
void talk_refuse(int sock, int status, const char *why);

/**
 * [old] Leave everything in a socket for whoever reads its other end, which nobody does yet.
 * @return 0; ETIMEDOUT, ETOOMANYREFS: it doesn't fit in; another errno value.
 */
int talk_store(int sock, const struct stream_out *o);
/**
 * [new] Read what talk_store() has left.
 * @param in  Receives records and descriptors; talk_free() them.
 * @return 0; ENODATA: there is nothing any more; EPROTO: it isn't that; another errno value.
 */
int talk_fetch(int sock, struct stream_in *in);

/** [new] A conversation. */
struct talk {
	int sock;
	int pidfd; /**< of the old daemon */
};
/**
 * [new] Ask the daemon at @p path for its programs.
 * @param t  Is for talk_reply(), which ends it.
 * @param in  Receives records and descriptors; talk_free() them.
 * @param text  Receives what went wrong and what to do, TALK_TEXT_BYTES long.
 * @return 0, or -1 with a text.
 */
int talk_ask(const char *path, struct talk *t, struct stream_in *in, char *text);
/** [new] Answer. With status 0 wait until the old daemon has ended. @return 0, or -1: it doesn't end. */
int talk_reply(struct talk *t, int status, const char *text);
/**
 * [new] Answer that the programs have been taken, and don't wait. @param process  Receives a pidfd of the old daemon, which closes its ports and ends.
 * @return 0, or -1: it can't be told.
 */
int talk_taken(struct talk *t, int *process);
void talk_free(struct stream_in *in);

#endif /* UROCE_TALK_H */
