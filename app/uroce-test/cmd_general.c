/* SPDX-License-Identifier: BSD-3-Clause */
/* help, quit, exit, sleep. */
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "shell.h"
#include "workload.h"

enum { HELP_WORDS = 3, SLEEP_MAX_S = 86400, STEP_MS = 100 };

/**
 * Explain the commands whose words begin with @p words.
 * @return how many there are.
 */
static unsigned int
explain(const char *words)
{
	char text[COMMAND_LINE_BYTES];
	unsigned int n = 0, all = 0;
	size_t len = strlen(words);

	for (unsigned int pass = 0; pass < 2; pass++)
		for (unsigned int i = 0; command_at(i) != NULL; i++) {
			const struct command *c = command_at(i);

			if (strncmp(c->words, words, len) != 0 || (c->words[len] != ' ' && c->words[len] != '\0' && len > 0))
				continue;
			if (pass == 0)
				all++;
			else if (all == 1)
				command_explain(c);
			else
				printf("%s\n    %s\n", command_syntax(c, text, sizeof(text)), c->help);
			n += pass;
		}
	return n;
}

static int
run_help(struct call *c)
{
	static const char *const names[HELP_WORDS] = { "command", "object", "what" };
	char words[HELP_WORDS * COMMAND_WORD_BYTES] = "";

	for (unsigned int i = 0; i < HELP_WORDS && call_has(c, names[i]); i++) {
		if (i > 0)
			strncat(words, " ", sizeof(words) - strlen(words) - 1);
		strncat(words, call_text(c, names[i]), sizeof(words) - strlen(words) - 1);
	}
	if (explain(words) == 0)
		return call_fail(c, "'%s': no such command; `help` lists all", words);
	if (words[0] == '\0')
		puts("\n`help COMMAND` says what its arguments may be. Numbers may be 0x..., and end with k, m or g.\n"
		     "Tab completes, ? lists what may come next, Ctrl-R searches in earlier lines, Ctrl-C ends a command.");
	return 0;
}

static int
run_quit(struct call *c)
{
	shell_quit();
	return 0;
}

static int
run_sleep(struct call *c)
{
	unsigned int ms = (unsigned int)(1000 * call_real(c, "seconds", 1));

	/* Workloads that end meanwhile are announced when they do. */
	for (; ms > STEP_MS && shell_sleep(STEP_MS); ms -= STEP_MS)
		workloads_reap();
	if (shell_sleep(ms))
		workloads_reap();
	return 0;
}

static const struct arg help_args[] = {
	ARG_ANY("command", "its first word", ARG_OPTIONAL),
	ARG_ANY("object", "its second word", ARG_OPTIONAL),
	ARG_ANY("what", "its third word", ARG_OPTIONAL),
	{ 0 },
};
static const struct arg sleep_args[] = {
	{ "seconds", "how long", ARG_REAL, ARG_NEEDED, .min = 0, .max = SLEEP_MAX_S },
	{ 0 },
};
static const struct command table[] = {
	{ "help", "List the commands, or explain one.", help_args, NULL, run_help },
	{ "quit", "Stop all workloads, destroy all objects, end.", NULL, NULL, run_quit },
	{ "exit", "The same as quit.", NULL, NULL, run_quit },
	{ "sleep", "Wait: for scripts. Workloads go on.", sleep_args, NULL, run_sleep },
	{ 0 },
};
COMMANDS(table)
