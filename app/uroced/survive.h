/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The daemon's side of uroce-keeper: what outlives a crash goes there, and comes from there to the next daemon.
 *
 * Owns: struct survivor, the connection and which numbers of descriptors are in use. Called by: main.c; by controls through struct checkpoint_host. Thread: any.
 */
#ifndef UROCED_SURVIVE_H
#define UROCED_SURVIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/un.h>

#include "common/keeper.h"
#include "control/core/checkpoint.h"
#include "options.h"

struct survivor;

/** Of a stack: checkpoint_host.arg. */
struct survivor_stack {
	struct survivor *survivor;
	unsigned int number;
	struct checkpoint_host host;
};

struct survivor {
	int sock;                /**< -1: there is no keeper */
	_Atomic bool gone;       /**< it has ended meanwhile: nothing of this daemon survives */
	pthread_mutex_t lock;
	uint32_t *free;          /**< numbers that were given back */
	uint32_t nb_free, room_free, next;
	uint32_t used, room;     /**< descriptors that the keeper has, and has room for */
	unsigned int nb_stacks;
	_Atomic unsigned int incomplete; /**< stacks whose checkpoint isn't complete yet */
	struct survivor_stack stacks[OPTIONS_MAX_STACKS];
	struct keeper_state state; /**< of the keeper, when this daemon came */
	int *given;              /**< descriptors of the daemon before, by their numbers; -1: none */
	uint32_t nb_given;       /**< entries */
};

/** Of the path of the keeper's socket: as long as that of any unix socket. */
enum { SURVIVOR_PATH_BYTES = sizeof(((struct sockaddr_un *)NULL)->sun_path) };

/**
 * Tell the keeper, if there is one, that this daemon comes after the one that is served, so that it doesn't end with that. survivor_open() then needn't start one,
 * which takes long. Should the other daemon crash before its programs are this one's, the keeper gives them to its standby, or to this one, which takes no programs in
 * this way: if it ends, that is one crash more.
 */
void survivor_wait(struct survivor *s, const char *socket, uint32_t seconds, unsigned int nb_stacks);
/**
 * Find the keeper, or start one. This forks, so it comes before threads and EAL.
 * @param s  Its sock is -1, or survivor_wait() was called.
 * @param socket  Of the daemon.
 * @param seconds  For how long programs wait for the next daemon.
 * @return 0, or -1 with a message printed: then there is none.
 */
int survivor_open(struct survivor *s, const char *socket, uint32_t seconds, unsigned int nb_stacks);
/**
 * The first part of that, for a standby, which must find a keeper.
 * @param path  Receives the path of the keeper's socket, SURVIVOR_PATH_BYTES long.
 * @return 0, or -1 with a message printed.
 */
int survivor_begin(struct survivor *s, const char *socket, unsigned int nb_stacks, char *path);
/** The last part: receive what the daemon before has left. @return 0 or an errno value. */
int survivor_take(struct survivor *s);
/** @return true: a daemon has crashed, and what it had is there. */
bool survivor_has_programs(const struct survivor *s);
/**
 * Put together what the daemon before had written down, as in a hand-over.
 * @param in  Receives records and descriptors; talk_free() them.
 * @param text  Receives why not, TALK_TEXT_BYTES long.
 * @return 0, or -1 with a text.
 */
int survivor_read(struct survivor *s, struct stream_in *in, char *text);
/** survivor_read() was in vain: take the descriptors out of @p in, for survivor_give_up(). */
void survivor_take_back(struct survivor *s, struct stream_in *in);
/** What the daemon before had ends: its programs see that. */
void survivor_give_up(struct survivor *s);
/** @return what the control of stack @p number gets; NULL: nothing of it survives. */
const struct checkpoint_host *survivor_host(struct survivor *s, unsigned int number);
/**
 * [before other threads use it] Give the connection to the keeper a greater number than other descriptors have: should this process crash, the kernel closes that one first
 * (kernel/task_work.c runs the latest first), and the keeper needn't wait for those that take long.
 */
void survivor_raise(struct survivor *s);
/** The daemon ends properly, or has given its programs to another one. */
void survivor_end(struct survivor *s);

#endif /* UROCED_SURVIVE_H */
