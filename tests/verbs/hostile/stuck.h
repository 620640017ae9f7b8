/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What hostile programs share: files and memory that never answer.
 *
 * Any user can make them: in a user namespace of one's own, a FUSE file system can be mounted whose server answers what
 * it likes. Programs are run as an ordinary user beside a victim (test_hostile.py).
 */
#ifndef HOSTILE_STUCK_H
#define HOSTILE_STUCK_H

#include <stddef.h>

enum { STUCK_BYTES = 1 << 20, STUCK_SKIPPED = 77 /**< status of a program that lacks what it needs */ };

/** Enter a user and mount namespace. Call it while the process has one thread. Exits if it can't. */
void enter_namespaces(void);
/** Say what this machine lacks for the attack, and exit. */
void attack_skip(const char *what) __attribute__((noreturn));
/**
 * enter_namespaces(), and mount a file system that has one file, STUCK_BYTES long. Its server
 * answers open, but neither read, write, fsync nor flush.
 */
void stuck_mount(void);
/** @return a descriptor of the file. close() on it never ends. */
int stuck_open(int flags);
/** @return memory whose pages never come: whoever touches it waits for ever. */
void *stuck_memory(void);

/** Say that the attack is going on. The test then looks at the victims, and kills this process in the end. */
void attack_begun(void);
/** Say what can't go on, and exit. */
void attack_die(const char *what) __attribute__((noreturn));

#endif /* HOSTILE_STUCK_H */
