/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Where lines come from: a person, whom librte_cmdline gives editing, history, completion and help; a file; another
 * program's pipe.
 *
 * Thread: main lcore.
 */
#ifndef UROCE_TEST_SHELL_H
#define UROCE_TEST_SHELL_H

#include <stdbool.h>

#define SHELL_PROMPT "uroce-test> "

/**
 * Run the lines of @p path until its end or `quit`. Each is printed behind the prompt before its answer.
 * @return 0; -1: the file can't be read, a message was printed.
 */
int shell_file(const char *path);
/** Take lines from standard input until its end or `quit`: with a person's help if it is a terminal. */
void shell_input(void);
/** [any thread, signal handlers] End what runs, after its present line. */
void shell_quit(void);
bool shell_quitting(void);

/** Sleep @p ms, but not beyond shell_quit(). @return false: it is time to quit. */
bool shell_sleep(unsigned int ms);

#endif /* UROCE_TEST_SHELL_H */
