/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The prompt of a running daemon instead of hosts in this process: commands that show it, by the code of uroce(1) (app/common).
 *
 * Thread: the only one.
 */
#ifndef UROCE_TEST_ATTACH_H
#define UROCE_TEST_ATTACH_H

#include <stdbool.h>

/**
 * Let there be only commands that ask the daemon, beside help, exit, quit and sleep; and find out whether it answers.
 * @param socket  That for programs; "": the one that UROCE_SOCKET or the default names. It must last.
 * @param json  All answers are JSON.
 * @return 0; -1 with a message printed: it doesn't.
 */
int attach_begin(const char *socket, bool json);
/** Print which daemon it is, its ports, and commands to begin with. */
void attach_banner(void);

#endif /* UROCE_TEST_ATTACH_H */
