/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Commands: what may be typed, what it means, what the answer to a mistake is.
 *
 * A family of commands is one file with a table of struct command, which it hands in by COMMANDS() before main() begins.
 * The table says of every argument what it is, so that one place checks all of them, one place completes all of them, and
 * `help` can't be wrong.
 *
 * A line is the command's own words, then values in the order of the table, then words with values in any order:
 *
 *     create qp pd1 cq1 type rc max_send_wr 64
 *
 * Thread: main lcore.
 */
#ifndef UROCE_TEST_COMMAND_H
#define UROCE_TEST_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	COMMAND_MAX_WORDS = 96,  /**< in a line */
	COMMAND_MAX_ARGS = 32,   /**< of a command */
	COMMAND_MAX_CHOICES = 1024, /**< offered for one word */
	COMMAND_MAX = 96,
	COMMAND_WORD_BYTES = 128,
	COMMAND_LINE_BYTES = 4096,
};

enum arg_type {
	ARG_FLAG,   /**< the word alone */
	ARG_NUMBER, /**< min to max; decimal or 0x..., k, m or g behind it are 1024 and its powers */
	ARG_REAL,   /**< min to max, with a fraction */
	ARG_CHOICE, /**< one of words */
	ARG_NAME,   /**< one of what list() knows at the time; where open: or what isn't there yet */
	ARG_TEXT,   /**< anything */
};

/** Where an argument stands. */
enum arg_place {
	ARG_KEYED,    /**< behind its name, anywhere, may be left out */
	ARG_NEEDED,   /**< in its place, without its name */
	ARG_OPTIONAL, /**< in its place, may be left out */
};

struct arg {
	const char *name;
	const char *help;
	enum arg_type type;
	enum arg_place place;
	bool open;  /**< ARG_NAME: other words are good as well; the command judges them */
	bool list;  /**< ARG_NAME, ARG_CHOICE: several, with commas between */
	double min, max;
	const char *const *words; /**< ends with NULL */
	/** @return the @p i-th name there is now, NULL: no more. */
	const char *(*names)(unsigned int i);
};

/** What was typed, taken apart. */
struct call {
	const struct command *command;
	const struct arg *args[COMMAND_MAX_ARGS]; /**< the command's, and those of args_of() */
	unsigned int nb_args;
	const char *text[COMMAND_MAX_ARGS]; /**< NULL: wasn't given */
	uint64_t number[COMMAND_MAX_ARGS];  /**< ARG_NUMBER; index of ARG_CHOICE and ARG_NAME */
	double real[COMMAND_MAX_ARGS];      /**< ARG_REAL */
};

struct command {
	const char *words; /**< "show qp" */
	const char *help;
	const struct arg *args; /**< ends with a NULL name; NULL: none */
	/** More arguments, which hang on the first: of a workload. @return a table, or NULL. */
	const struct arg *(*args_of)(const char *first);
	/** @return 0, or -1 with a message printed. */
	int (*run)(struct call *c);
};

/** Hand a table in, before main(). It ends with an entry without words. */
void command_add(const struct command *table);
#define COMMANDS(table) \
	static void __attribute__((constructor)) commands_##table(void) \
	{ \
		command_add(table); \
	}

/** The @p i-th command, in the order of their words; NULL: no more. */
const struct command *command_at(unsigned int i);

/**
 * Run one line. An empty one, or a comment behind `#`, is nothing.
 * @return 0; -1 with a message printed, which says what was wrong and what would be right.
 */
int command_run(const char *line);
/** Call @p fn before each command. */
void command_before(void (*fn)(void));
/** @return lines that command_run() refused or that failed. */
unsigned int command_failures(void);

/**
 * What may stand behind @p nb_words words.
 * @param out  COMMAND_MAX_CHOICES words; they are good until the next call.
 * @param hint  Gets what is expected, for help; COMMAND_LINE_BYTES.
 * @return how many.
 */
unsigned int command_choices(const char *const *words, unsigned int nb_words, const char **out, char *hint);
/** The grammar of a command in one line. @return @p text. */
char *command_syntax(const struct command *c, char *text, size_t bytes);
/** Print the lines of help that describe @p c's arguments. */
void command_explain(const struct command *c);
/** What @p a may be, in words: "a number from 1 to 4096". @return @p text. */
char *arg_expects(const struct arg *a, char *text, size_t bytes);

/* ---- For commands: what was given. The name must be in the table. ---- */
bool call_has(const struct call *c, const char *name);
/** @return NULL: wasn't given. */
const char *call_text(const struct call *c, const char *name);
uint64_t call_number(const struct call *c, const char *name, uint64_t otherwise);
double call_real(const struct call *c, const char *name, double otherwise);
/** @return index of the word, or @p otherwise. */
int call_choice(const struct call *c, const char *name, int otherwise);

/** Print what is wrong, with the command's words before it. @return -1. */
int call_fail(const struct call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** The same for @p what that failed with errno value @p err. @return -1. */
int call_errno(const struct call *c, const char *what, int err);

#endif /* UROCE_TEST_COMMAND_H */
