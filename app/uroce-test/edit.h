/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A line typed at a terminal: editing, history and completion, by libedit.
 *
 * The history is kept in $XDG_STATE_HOME/uroce/uroce-test.history (~/.local/state if that variable isn't set), EDIT_HISTORY_LINES lines of it. A
 * history that can't be read or written is no error: the program then has one only as long as it runs.
 *
 * Owns: the terminal, while edit_line() waits. Thread: main lcore.
 */
#ifndef UROCE_TEST_EDIT_H
#define UROCE_TEST_EDIT_H

#include <stdbool.h>
#include <stddef.h>

enum { EDIT_HISTORY_LINES = 1000 };

/** What edit_line() asks while it waits for a key. */
struct edit_hooks {
	/** @return true if there is something to print, which print() then does below the line being typed. */
	bool (*due)(void);
	void (*print)(void);
	/** @return true if the line that is typed shall be given up (Ctrl-C). */
	bool (*interrupted)(void);
	/** @return true if the program shall end. */
	bool (*quitting)(void);
};

/**
 * Begin: @p prompt and @p hooks must last until edit_end().
 * @return 0; -1: this terminal can't be used.
 */
int edit_begin(const char *prompt, const struct edit_hooks *hooks);
/**
 * Wait for a line. One that isn't empty is added to the history.
 * @return the line without its newline, valid until the next call; "" if it was given up; NULL: end of the input, or quitting().
 */
const char *edit_line(void);
/** Give the terminal back. */
void edit_end(void);

#endif /* UROCE_TEST_EDIT_H */
