/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The command line of uroced: options before `--` are EAL's, options after it ours.
 */
#ifndef UROCED_OPTIONS_H
#define UROCED_OPTIONS_H

#include <stdbool.h>

#include "control/config/config.h"

enum {
	EXIT_USAGE = 2, /**< a mistake in the command line or the configuration */
	OPTIONS_MAX_SETS = CONFIG_MAX_SETTINGS,
	OPTIONS_MAX_STACKS = 8,
};

/** A stack: a configuration file, and what is set over it. */
struct options_stack {
	const char *config; /**< file, or NULL */
	const char *sets[OPTIONS_MAX_SETS];
	unsigned int nb_sets;
};

struct options {
	int eal_argc;
	char **eal_argv;
	struct options_stack stacks[OPTIONS_MAX_STACKS];
	unsigned int nb_stacks; /**< at least 1 */
	bool one_engine;
	int nice;
	bool check;
	bool keep_programs; /**< with the service manager, at the end */
	const char *survive_crash; /**< the setting of each stack, or NULL */
	bool standby;   /**< for the daemon that runs */
	bool take_over; /**< the programs of the daemon that runs, which ends */
};

/**
 * Split and parse the command line. Handles --help and --version, and prints messages about mistakes.
 * @return 0: go on; else exit with *@p status.
 */
int options_parse(int argc, char **argv, struct options *o, int *status);

#endif /* UROCED_OPTIONS_H */
