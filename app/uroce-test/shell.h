/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Where command lines come from: a terminal (edit.h), a file, a pipe, the options -c; and what stops one of them.
 *
 * A line that nobody types is printed behind the prompt before its answer if the output is a terminal or shell_echo() asks for that; else the
 * output has answers only.
 *
 * Thread: main lcore, unless a function's comment says otherwise.
 */
#ifndef UROCE_TEST_SHELL_H
#define UROCE_TEST_SHELL_H

#include <stdbool.h>

#define SHELL_PROMPT "uroce-test> "

/** Print the lines that nobody types, too. */
void shell_echo(bool on);
/** Run one line. */
void shell_run(const char *line);
/**
 * Run the lines of @p path until the end of the file or `quit`.
 * @return 0; -1: the file can't be read, a message was printed.
 */
int shell_file(const char *path);
/** @return true if a person types the lines: both standard input and output are terminals. [any thread] */
bool shell_interactive(void);
/** Run lines from standard input until its end or `quit`. */
void shell_input(void);

/** [any thread, signal handlers] Quit after the current line. */
void shell_quit(void);
bool shell_quitting(void);
/** [any thread, signal handlers] End the command that runs, or give up the line that is typed. If nobody types, it is shell_quit(). */
void shell_interrupt(void);
/** @return true if the command that runs shall end: shell_interrupt() or shell_quit() was called. */
bool shell_interrupted(void);
/**
 * Sleep @p ms, or until shell_interrupt() or shell_quit().
 * @return false: one of them was called.
 */
bool shell_sleep(unsigned int ms);

/**
 * Set what is to be told while the user types: if @p due returns true, @p print is called when the output is at the beginning of a line.
 */
void shell_idle(bool (*due)(void), void (*print)(void));
/**
 * [any thread] Print @p text, lines that no command asked for. While a line is being typed they appear above it.
 */
void shell_note(const char *text);

/** Have each key read as it is pressed, unseen, or (false) the terminal as it was. Nothing happens if standard input is no terminal. */
void shell_keys(bool on);
/** @return true if a key was pressed, which is read. */
bool shell_key_pressed(void);

#endif /* UROCE_TEST_SHELL_H */
