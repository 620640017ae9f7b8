/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The command line of uroce-test: options before `--` are EAL's, options after it ours.
 */
#ifndef UROCE_TEST_OPTIONS_H
#define UROCE_TEST_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

enum {
	EXIT_USAGE = 2, /**< a mistake in the command line */
	OPTIONS_MAX = 64,
	OPTIONS_MAX_LOOPBACK = 8,
	OPTIONS_MAX_ENGINES = 16,
};

struct options {
	int eal_argc;
	char **eal_argv;
	unsigned int loopback;  /**< number of hosts joined by wires of ours; 0: others were given */
	const char *configs[OPTIONS_MAX];
	unsigned int nb_configs;
	const char *ports[OPTIONS_MAX]; /**< ETHDEV,ADDRESS/PREFIX,... */
	unsigned int nb_ports;
	const char *sets[OPTIONS_MAX];
	unsigned int nb_sets;
	const char *files[OPTIONS_MAX];
	unsigned int nb_files;
	const char *auto_start[OPTIONS_MAX];
	unsigned int nb_auto_start;
	const char *commands[OPTIONS_MAX]; /**< of -c; if there are any, standard input isn't read */
	unsigned int nb_commands;
	bool echo, json;
	const char *attach; /**< socket of a daemon instead of hosts; "": the one that UROCE_SOCKET or the default names; NULL: no daemon */
	unsigned int engines;      /**< per stack */
	unsigned int stats_period; /**< seconds, 0: no periodic lines */
};

/**
 * Split and parse the command line. Handles --help and --version, and prints messages about mistakes. Without EAL
 * options it uses some that need neither privileges nor hugepages.
 * @return 0: go on; else exit with *@p status.
 */
int options_parse(int argc, char **argv, struct options *o, int *status);

#endif /* UROCE_TEST_OPTIONS_H */
