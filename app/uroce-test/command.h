/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Commands: their syntax, what they do, and messages about mistakes.
 *
 * A group of commands is one file with a table of struct command, which COMMANDS() registers before main() starts. The
 * table describes every argument, so that one place checks all arguments, one place completes them, and `help` is
 * always right.
 *
 * A line consists of the command's words, then values in the order of the table, then names with values in any order:
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
	COMMAND_HELP_BYTES = 128,
};

enum arg_type {
	ARG_FLAG,   /**< the word alone */
	ARG_NUMBER, /**< min to max; decimal or 0x...; the suffix k, m or g multiplies by a power of 1024 */
	ARG_REAL,   /**< min to max, with a fraction */
	ARG_CHOICE, /**< one of words */
	ARG_NAME,   /**< one of names(); if open, also other words */
	ARG_TEXT,   /**< anything */
};

/** How an argument is given. */
enum arg_place {
	ARG_KEYED,    /**< after its name, anywhere; may be left out */
	ARG_NEEDED,   /**< at its place, without its name */
	ARG_OPTIONAL, /**< at its place, may be left out */
};

struct arg {
	const char *name;
	const char *help;
	enum arg_type type;
	enum arg_place place;
	bool open;  /**< ARG_NAME: other words are allowed; the command checks them */
	bool list;  /**< ARG_NAME, ARG_CHOICE: several values, separated by commas */
	double min, max;
	const char *const *words; /**< ends with NULL */
	/** @return the @p i-th name that exists now, NULL: no more. */
	const char *(*names)(unsigned int i);
};

/** A line, parsed. */
struct call {
	const struct command *command;
	const struct arg *args[COMMAND_MAX_ARGS]; /**< the command's, and those of args_of() */
	unsigned int nb_args;
	const char *text[COMMAND_MAX_ARGS]; /**< NULL: not given */
	uint64_t number[COMMAND_MAX_ARGS];  /**< ARG_NUMBER; index of ARG_CHOICE and ARG_NAME */
	double real[COMMAND_MAX_ARGS];      /**< ARG_REAL */
};

struct command {
	const char *words; /**< "show qp" */
	const char *help;
	const struct arg *args; /**< ends with a NULL name; NULL: none */
	/**
	 * More arguments, which depend on the first: those of a workload.
	 * @return a table, or NULL.
	 */
	const struct arg *(*args_of)(const char *first);
	/** @return 0, or -1 with a message printed. */
	int (*run)(struct call *c);
};

/** Register a table, before main(). Its last entry has no words. */
void command_add(const struct command *table);
/** Forget all commands but those whose first word is in @p words, separated by spaces. */
void command_only(const char *words);
#define COMMANDS(table) \
	static void __attribute__((constructor)) commands_##table(void) \
	{ \
		command_add(table); \
	}

/** @return the @p i-th command, sorted by their words; NULL: no more. */
const struct command *command_at(unsigned int i);

/**
 * Run one line. An empty line or a comment after `#` does nothing.
 * @return 0; -1 with a message printed that says what was wrong and what would be right.
 */
int command_run(const char *line);
/** Have @p fn called before each command. */
void command_before(void (*fn)(void));
/** @return the number of lines that command_run() refused or that failed. */
unsigned int command_failures(void);

/** Have @p fn describe values of type ARG_NAME for command_choices(): it returns a text that stays valid until its next call, or NULL. */
void command_describe(const char *(*fn)(const char *name));

/** A word that may come next. */
struct command_choice {
	const char *word;
	char help[COMMAND_HELP_BYTES]; /**< "": none */
};
/**
 * List what may follow @p nb_words words.
 * @param out  COMMAND_MAX_CHOICES of them; valid until the next call.
 * @param hint  Set to a description of what is expected; COMMAND_LINE_BYTES.
 * @param list  Set to true if several of the values may be given with commas between.
 * @return how many words there are.
 */
unsigned int command_choices(const char *const *words, unsigned int nb_words, struct command_choice *out, char *hint, bool *list);
/**
 * Write the syntax of a command in one line.
 * @return @p text.
 */
char *command_syntax(const struct command *c, char *text, size_t bytes);
/** Print help for @p c's arguments. */
void command_explain(const struct command *c);
/**
 * Describe the values that @p a may have: "a number from 1 to 4096".
 * @return @p text.
 */
char *arg_expects(const struct arg *a, char *text, size_t bytes);

/* ---- For commands: the arguments given. The name must be in the table. ---- */
bool call_has(const struct call *c, const char *name);
/** @return NULL: not given. */
const char *call_text(const struct call *c, const char *name);
uint64_t call_number(const struct call *c, const char *name, uint64_t otherwise);
double call_real(const struct call *c, const char *name, double otherwise);
/** @return the index of the word, or @p otherwise. */
int call_choice(const struct call *c, const char *name, int otherwise);

/**
 * Print the command's words and a message about what is wrong, to stderr.
 * @return -1.
 */
int call_fail(const struct call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/**
 * As call_fail(), if @p what failed with errno value @p err.
 * @return -1.
 */
int call_errno(const struct call *c, const char *what, int err);

#endif /* UROCE_TEST_COMMAND_H */
