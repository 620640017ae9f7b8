/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Descriptors by their numbers, and the thread that closes those that aren't needed any more: the end of a file that a program has made may take as long as
 * that program likes.
 *
 * Owns: struct kept, the descriptors in it. Called by: main.c, serve.c. Thread: main, but for the one that closes.
 */
#ifndef UROCE_KEEPER_KEPT_H
#define UROCE_KEEPER_KEPT_H

#include <stdbool.h>
#include <stdint.h>

/** Descriptors by their numbers; -1: none. */
struct kept {
	int *fds;
	uint32_t size; /**< entries */
	uint32_t n;    /**< descriptors */
};

/** Start the thread that closes, and wait until it runs: what the start of a thread takes need not be allowed any more. @return 0 or an errno value. */
int kept_start(void);
/** Have @p fd closed by that thread. */
void close_later(int fd);
/**
 * Keep @p fd under @p number, in place of what is there.
 * @return false: no memory, or no such number; @p fd is still the caller's.
 */
bool kept_add(struct kept *k, uint32_t number, int fd);
/** Have what is kept under @p number closed; a number without a descriptor is left alone. */
void kept_forget(struct kept *k, uint32_t number);
/** Have all closed. */
void kept_forget_all(struct kept *k);
/** The same, and programs see the end of their sockets at once, whatever the end of other files waits for. */
void kept_give_up(struct kept *k);

#endif /* UROCE_KEEPER_KEPT_H */
