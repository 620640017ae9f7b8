/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmdline.h>
#include <cmdline_parse.h>
#include <cmdline_rdline.h>
#include <cmdline_socket.h>
#include <rte_common.h>

#include "command.h"
#include "shell.h"

enum { SLEEP_STEP_MS = 20, POLL_MS = 200 };

static atomic_bool quitting;

void
shell_quit(void)
{
	atomic_store(&quitting, true);
}

bool
shell_quitting(void)
{
	return atomic_load(&quitting);
}

bool
shell_sleep(unsigned int ms)
{
	for (; ms > 0 && !shell_quitting(); ms -= RTE_MIN(ms, (unsigned int)SLEEP_STEP_MS))
		usleep(1000 * RTE_MIN(ms, (unsigned int)SLEEP_STEP_MS));
	return !shell_quitting();
}

/* ---- Lines of a file or a pipe ---- */
static void
run_stream(FILE *f)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	while (!shell_quitting() && (n = getline(&line, &room, f)) >= 0) {
		if (n > 0 && line[n - 1] == '\n')
			line[n - 1] = '\0';
		printf(SHELL_PROMPT "%s\n", line);
		fflush(stdout);
		command_run(line);
	}
	free(line);
}

int
shell_file(const char *path)
{
	FILE *f = fopen(path, "r");

	if (f == NULL) {
		fprintf(stderr, "uroce-test: --cmdline-file %s: %s\n", path, strerror(errno));
		return -1;
	}
	run_stream(f);
	fclose(f);
	return 0;
}

/* ---- Interactive: the whole syntax is one cmdline instruction, whose tokens are generated as the line grows ---- */
static struct {
	char text[COMMAND_MAX_WORDS][COMMAND_WORD_BYTES];
	const char *words[COMMAND_MAX_WORDS];
	unsigned int nb;
	bool end; /* the line is complete; false while it is being typed */
	char line[COMMAND_LINE_BYTES];
	const char *choices[COMMAND_MAX_CHOICES];
	unsigned int nb_choices;
	char hint[COMMAND_LINE_BYTES];
} typed;

/** Accept any word: command_run() complains about wrong ones. */
static int
token_parse(cmdline_parse_token_hdr_t *token, const char *src, void *result, unsigned int bytes)
{
	unsigned int n = 0;

	while (!cmdline_isendoftoken(src[n]))
		n++;
	if (n == 0 || n >= COMMAND_WORD_BYTES || typed.nb == COMMAND_MAX_WORDS)
		return -1;
	memcpy(typed.text[typed.nb], src, n);
	typed.text[typed.nb][n] = '\0';
	typed.words[typed.nb] = typed.text[typed.nb];
	typed.nb++;
	src += n + strspn(src + n, " \t");
	typed.end = *src == '\n' || *src == '\r' || *src == '#';
	return (int)n;
}

static int
token_choices(cmdline_parse_token_hdr_t *token)
{
	typed.nb_choices = command_choices(typed.words, typed.nb, typed.choices, typed.hint);
	return (int)typed.nb_choices;
}

static int
token_choice(cmdline_parse_token_hdr_t *token, int i, char *out, unsigned int bytes)
{
	if (i < 0 || (unsigned int)i >= typed.nb_choices)
		return -1;
	snprintf(out, bytes, "%s", typed.choices[i]);
	return 0;
}

static int
token_help(cmdline_parse_token_hdr_t *token, char *out, unsigned int bytes)
{
	typed.nb_choices = command_choices(typed.words, typed.nb, typed.choices, typed.hint);
	snprintf(out, bytes, "%s", typed.hint);
	return 0;
}

static struct cmdline_token_ops token_ops = {
	.parse = token_parse,
	.complete_get_nb = token_choices,
	.complete_get_elt = token_choice,
	.get_help = token_help,
};
static cmdline_parse_token_hdr_t token = { .ops = &token_ops };

static void on_line(void *arg, struct cmdline *cl, void *data);
static cmdline_parse_inst_t instruction = { .f = on_line, .tokens = { NULL } };
static cmdline_parse_ctx_t grammar[] = { &instruction, NULL };

/** Called by cmdline: with @p cl if a line is complete, without to get the next token. */
static void
on_line(void *arg, struct cmdline *cl, void *data)
{
	if (cl != NULL) {
		typed.line[0] = '\0';
		for (unsigned int i = 0; i < typed.nb; i++) {
			strncat(typed.line, typed.words[i], sizeof(typed.line) - strlen(typed.line) - 1);
			strncat(typed.line, " ", sizeof(typed.line) - strlen(typed.line) - 1);
		}
		command_run(typed.line);
		if (shell_quitting())
			cmdline_quit(cl);
		return;
	}
	if ((cmdline_parse_token_hdr_t **)data == instruction.tokens) {
		typed.nb = 0;
		typed.end = false;
	}
	*(cmdline_parse_token_hdr_t **)arg = typed.end ? NULL : &token;
}

static void
run_terminal(void)
{
	struct cmdline *cl = cmdline_stdin_new(grammar, SHELL_PROMPT);
	struct pollfd pfd = { .fd = STDIN_FILENO, .events = POLLIN };
	char c;

	if (cl == NULL) {
		fputs("uroce-test: the terminal can't be used: give commands by --cmdline-file or a pipe\n", stderr);
		return;
	}
	while (!shell_quitting()) {
		int ready = poll(&pfd, 1, POLL_MS);

		if (ready < 0 && errno != EINTR)
			break;
		/* After a signal pfd.revents is of the call before, and read() would wait for a key. */
		if (ready > 0 && (read(STDIN_FILENO, &c, 1) != 1 || cmdline_in(cl, &c, 1) < 0))
			break;
	}
	cmdline_stdin_exit(cl);
	putchar('\n');
}

void
shell_input(void)
{
	if (isatty(STDIN_FILENO))
		run_terminal();
	else
		run_stream(stdin);
}
