/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * uroce: the command that shows a running daemon and controls it (common/daemon.h).
 *
 * A command is one file with one function, in the table of main.c. Owns: nothing that outlives the process. Thread: one.
 */
#ifndef UROCE_APP_H
#define UROCE_APP_H

#include "../common/daemon.h"

/** Options that a command takes beside those of all commands: bits of struct command.takes. */
enum {
	TAKES_TOP = 1 << 0,   /**< --batch, --once, --delay, --count, --sort, --view */
	TAKES_PEER = 1 << 1,  /**< --peer */
	TAKES_WRITE = 1 << 2, /**< --write */
};

/** Options of single commands. */
struct options {
	/* top */
	bool batch;
	double delay;         /**< seconds */
	unsigned int count;   /**< how many screens; 0: no limit */
	const char *sort, *view;
	/* setup, doctor */
	const char *peer, *write;
};
extern struct options options;

command_fn cmd_top, cmd_impair, cmd_move, cmd_run, cmd_lab, cmd_doctor, cmd_setup;

#endif /* UROCE_APP_H */
