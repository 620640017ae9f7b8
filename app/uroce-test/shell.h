/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Input of lines: from a terminal, with editing, history, completion and help of librte_cmdline; from a file; from a
 * pipe.
 *
 * Thread: main lcore.
 */
#ifndef UROCE_TEST_SHELL_H
#define UROCE_TEST_SHELL_H

#include <stdbool.h>

#define SHELL_PROMPT "uroce-test> "

/**
 * Run the lines of @p path until the end of the file or `quit`. Each line is printed with the prompt before its output.
 * @return 0; -1: the file can't be read, a message was printed.
 */
int shell_file(const char *path);
/** Run lines from standard input until its end or `quit`; interactively if it is a terminal. */
void shell_input(void);
/** [any thread, signal handlers] Quit after the current line. */
void shell_quit(void);
bool shell_quitting(void);

/**
 * Sleep @p ms, or until shell_quit().
 * @return false: shell_quit() was called.
 */
bool shell_sleep(unsigned int ms);

#endif /* UROCE_TEST_SHELL_H */
