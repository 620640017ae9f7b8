/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * What the kernel lets the daemon and its broker ask for once they have started: a list of system calls (seccomp).
 *
 * A system call that isn't in the list fails with EPERM and is logged by the kernel (audit, or its log: "type=1326"). It doesn't end the process: a
 * call that this list lacks, perhaps of a driver or a new C library, should cost a function of the daemon, not all connections.
 *
 * Owns nothing. Called by: main.c, broker.c. Thread: main; applies to all threads of the process.
 */
#ifndef UROCED_SANDBOX_H
#define UROCED_SANDBOX_H

enum sandbox_kind {
	SANDBOX_NONE,   /**< all system calls; only no_new_privs */
	SANDBOX_DAEMON,
	SANDBOX_BROKER,
};

/**
 * Limit all threads of the process, those there are and those to come, for good. No thread can get rights by executing a file any more (no_new_privs).
 * @return 0 or an errno value: the kernel has no seccomp, or refuses.
 */
int sandbox_enter(enum sandbox_kind kind);

#endif /* UROCED_SANDBOX_H */
