/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The source of settings: lines of an INI file and the command line, with the place of each for error messages.
 *
 * Owns: struct config_source. Called by: config.c. Thread: main, control.
 */
#ifndef UROCE_CONFIG_SOURCE_H
#define UROCE_CONFIG_SOURCE_H

#include "control/config/config.h"

enum { CONFIG_NAME_BYTES = 64, CONFIG_VALUE_BYTES = 256 };

/** One setting. A section without keys is a setting without a key. */
struct config_setting {
	const char *file; /**< NULL: given by --set */
	unsigned int line;
	char section[CONFIG_NAME_BYTES];
	char key[CONFIG_NAME_BYTES];
	char value[CONFIG_VALUE_BYTES];
	bool lost; /**< while the file is read: the section's own line can't be understood */
};

struct config_source {
	struct config_setting settings[CONFIG_MAX_SETTINGS];
	unsigned int nb;
};

/** The mistakes that were found so far. */
struct config_problems {
	config_problem_fn *tell; /**< NULL: nobody wants them all */
	void *arg;
	unsigned int nb;
	char first[CONFIG_ERR_BYTES];
};

/** Add a mistake. @return false: there have been so many that there is no use in going on. */
bool config_problem(struct config_problems *p, const char *text);

/** Put "file:line: [section] key = value: message" into @p err, CONFIG_ERR_BYTES long. @return EINVAL. */
int config_error(char *err, const struct config_setting *s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/** Add the settings of @p file. @return 0, EINVAL if there are mistakes, or the errno of reading, which is added to them. */
int config_source_file(struct config_source *src, const char *file, struct config_problems *problems);

/** Add "section.key=value". @return 0 or EINVAL with a message. */
int config_source_set(struct config_source *src, const char *set, char *err);

#endif /* UROCE_CONFIG_SOURCE_H */
