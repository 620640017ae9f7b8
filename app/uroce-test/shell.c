/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include <rte_common.h>

#include "command.h"
#include "edit.h"
#include "shell.h"

enum {
	SLEEP_STEP_MS = 20,
	NOTES_BYTES = 16384, /* of notes that wait; what doesn't fit is counted */
};

static atomic_bool quitting, interrupted, typing;
static bool echo;
static bool (*idle_due)(void);
static void (*idle_print)(void);

/* ---- The end of a command, and of the program ---- */
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
shell_interactive(void)
{
	return atomic_load(&typing);
}

void
shell_interrupt(void)
{
	if (shell_interactive())
		atomic_store(&interrupted, true);
	else
		shell_quit();
}

bool
shell_interrupted(void)
{
	return atomic_load(&interrupted) || shell_quitting();
}

bool
shell_sleep(unsigned int ms)
{
	for (; ms > 0 && !shell_interrupted(); ms -= RTE_MIN(ms, (unsigned int)SLEEP_STEP_MS))
		usleep(1000 * RTE_MIN(ms, (unsigned int)SLEEP_STEP_MS));
	return !shell_interrupted();
}

/* ---- Notes ---- */
static struct {
	pthread_mutex_t lock;
	char text[NOTES_BYTES];
	size_t bytes;
	unsigned int lost;
	bool wait; /* a line is being typed */
} notes = { .lock = PTHREAD_MUTEX_INITIALIZER };

void
shell_note(const char *text)
{
	size_t n = strlen(text);

	pthread_mutex_lock(&notes.lock);
	if (!notes.wait) {
		fputs(text, stdout);
		fflush(stdout);
	} else if (n < sizeof(notes.text) - notes.bytes) {
		memcpy(notes.text + notes.bytes, text, n);
		notes.bytes += n;
	} else {
		notes.lost++;
	}
	pthread_mutex_unlock(&notes.lock);
}

/** Print the notes that wait. @param wait  Whether those to come shall wait. */
static void
print_notes(bool wait)
{
	pthread_mutex_lock(&notes.lock);
	fwrite(notes.text, 1, notes.bytes, stdout);
	if (notes.lost > 0)
		printf("(%u more lines)\n", notes.lost);
	notes.bytes = 0;
	notes.lost = 0;
	notes.wait = wait;
	pthread_mutex_unlock(&notes.lock);
	fflush(stdout);
}

static bool
notes_due(void)
{
	bool due;

	pthread_mutex_lock(&notes.lock);
	due = notes.bytes > 0;
	pthread_mutex_unlock(&notes.lock);
	return due || (idle_due != NULL && idle_due());
}

static void
notes_print(void)
{
	print_notes(true);
	if (idle_print != NULL)
		idle_print();
}

void
shell_idle(bool (*due)(void), void (*print)(void))
{
	idle_due = due;
	idle_print = print;
}

/* ---- Lines of a file, a pipe or an option ---- */
void
shell_echo(bool on)
{
	echo = on;
}

void
shell_run(const char *line)
{
	if (echo || isatty(STDOUT_FILENO))
		printf(SHELL_PROMPT "%s\n", line);
	fflush(stdout);
	command_run(line);
}

static void
run_stream(FILE *f)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t n;

	while (!shell_quitting() && (n = getline(&line, &room, f)) >= 0) {
		if (n > 0 && line[n - 1] == '\n')
			line[n - 1] = '\0';
		shell_run(line);
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

/* ---- Lines of a terminal ---- */
static bool
was_interrupted(void)
{
	return atomic_exchange(&interrupted, false);
}

static void
run_terminal(void)
{
	static const struct edit_hooks hooks = { notes_due, notes_print, was_interrupted, shell_quitting };
	const char *line;

	if (edit_begin(SHELL_PROMPT, &hooks) != 0) {
		fputs("uroce-test: the terminal can't be used: give commands by -c, --cmdline-file or a pipe\n", stderr);
		return;
	}
	atomic_store(&typing, true);
	while (!shell_quitting()) {
		print_notes(true);
		line = edit_line();
		print_notes(false);
		if (line == NULL)
			break;
		command_run(line);
		if (was_interrupted())
			puts("interrupted");
	}
	atomic_store(&typing, false);
	edit_end();
	putchar('\n');
}

void
shell_input(void)
{
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		run_terminal();
	else
		run_stream(stdin);
}

void
shell_keys(bool on)
{
	static struct termios before;
	static bool changed;
	struct termios now;

	if (!on && changed)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	if (!on || changed || tcgetattr(STDIN_FILENO, &before) != 0) {
		changed = changed && on;
		return;
	}
	now = before;
	now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	now.c_cc[VMIN] = 1;
	now.c_cc[VTIME] = 0;
	changed = tcsetattr(STDIN_FILENO, TCSADRAIN, &now) == 0;
}

bool
shell_key_pressed(void)
{
	struct pollfd pfd = { .fd = STDIN_FILENO, .events = POLLIN };
	char key;

	return isatty(STDIN_FILENO) && poll(&pfd, 1, 0) > 0 && read(STDIN_FILENO, &key, 1) >= 0;
}
