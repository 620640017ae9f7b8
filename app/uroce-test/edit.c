/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#include "command.h"
#include "edit.h"

enum {
	POLL_MS = 100,    /* until hooks are asked again */
	PATH_BYTES = 1024,
	LISTED_MAX = 60,  /* words that Tab lists; the screen has no more */
	LISTED_WIDTH = 80,
};

static EditLine *editor;
static History *history_list;
static char history_path[PATH_BYTES];
static const char *prompt_text;
static const struct edit_hooks *hooks;
static bool given_up;
static int input = STDIN_FILENO; /* the terminal */
static atomic_bool resized, continued;

/* ---- The file of the history ---- */
/** Find its name and make its folders. @return false: there is no place for one. */
static bool
find_history(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	size_t n;

	if (state != NULL && state[0] == '/')
		n = (size_t)snprintf(history_path, sizeof(history_path), "%s/uroce/uroce-test.history", state);
	else if (home != NULL && home[0] == '/')
		n = (size_t)snprintf(history_path, sizeof(history_path), "%s/.local/state/uroce/uroce-test.history", home);
	else
		return false;
	if (n >= sizeof(history_path))
		return false;
	for (char *slash = strchr(history_path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		/* Without the folder there is no file to load or save, which nobody needs to be told. */
		mkdir(history_path, 0700);
		*slash = '/';
	}
	return true;
}

static int
begin_history(void)
{
	HistEvent ev;

	history_list = history_init();
	if (history_list == NULL)
		return -1;
	history(history_list, &ev, H_SETSIZE, EDIT_HISTORY_LINES);
	history(history_list, &ev, H_SETUNIQUE, 1);
	if (find_history())
		history(history_list, &ev, H_LOAD, history_path);
	else
		history_path[0] = '\0';
	el_set(editor, EL_HIST, history, history_list);
	return 0;
}

static void
remember(const char *line)
{
	HistEvent ev;

	history(history_list, &ev, H_ENTER, line);
	if (history_path[0] != '\0')
		history(history_list, &ev, H_SAVE, history_path);
}

/* ---- The line on the screen ---- */
static char *
prompt(EditLine *el)
{
	return (char *)(uintptr_t)prompt_text;
}

/** Take the line that is being typed off the screen. */
static void
hide_line(void)
{
	const LineInfo *li = el_line(editor);
	struct winsize size = { 0 };
	size_t at = strlen(prompt_text) + (size_t)(li->cursor - li->buffer), columns = 80;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		columns = size.ws_col;
	putchar('\r');
	for (size_t row = at / columns; row > 0; row--)
		fputs("\033[A", stdout);
	fputs("\033[J", stdout);
}

/** Draw it again below what was printed. */
static void
show_line(void)
{
	fflush(stdout);
	el_set(editor, EL_REFRESH);
}

static void
on_signal(int sig)
{
	atomic_store(sig == SIGWINCH ? &resized : &continued, true);
}

static void
follow_terminal(void)
{
	if (atomic_exchange(&resized, false))
		el_resize(editor);
	if (atomic_exchange(&continued, false)) {
		/* The shell that stopped the program has set the terminal as it likes it. */
		el_set(editor, EL_PREP_TERM, 0);
		el_set(editor, EL_PREP_TERM, 1);
		show_line();
	}
}

/** Called by libedit for the next character. @return 1; 0: end of the input. */
static int
read_character(EditLine *el, wchar_t *c)
{
	struct pollfd pfd = { .fd = input, .events = POLLIN };
	mbstate_t state = { 0 };
	ssize_t n;
	char byte;

	while (!hooks->quitting()) {
		int ready = poll(&pfd, 1, POLL_MS);

		if (ready < 0 && errno != EINTR)
			return 0;
		follow_terminal();
		if (hooks->interrupted()) {
			/* A newline also ends a search in the history. */
			given_up = true;
			*c = L'\n';
			return 1;
		}
		if (hooks->due()) {
			hide_line();
			hooks->print();
			show_line();
		}
		/* After a signal pfd.revents is of the call before. */
		if (ready <= 0)
			continue;
		n = read(input, &byte, 1);
		/* With Ctrl-C the terminal throws away what was typed before. */
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n != 1)
			return 0;
		switch (mbrtowc(c, &byte, 1, &state)) {
		case 0:
		case 1:
			return 1;
		case (size_t)-2:
			continue;
		default:
			*c = L'?';
			return 1;
		}
	}
	return 0;
}

/* ---- Completion ---- */
/** Split the line up to the cursor. @return the number of whole words; @p last receives the one that is being typed. */
static unsigned int
words_typed(char *line, const char **words, const char **last)
{
	unsigned int n = 0;

	for (char *at = line + strspn(line, " \t"); n < COMMAND_MAX_WORDS; at += strspn(at, " \t")) {
		size_t length = strcspn(at, " \t");

		if (at[length] == '\0') {
			*last = at;
			return n;
		}
		at[length] = '\0';
		words[n++] = at;
		at += length + 1;
	}
	*last = "";
	return 0;
}

/** Keep the choices that begin with @p typed, of a list behind its last comma. @return how many; @p typed moves behind the comma. */
static unsigned int
matching(struct command_choice *choices, unsigned int n, bool list, const char **typed)
{
	const char *comma = list ? strrchr(*typed, ',') : NULL;
	unsigned int kept = 0;

	if (comma != NULL)
		*typed = comma + 1;
	for (unsigned int i = 0; i < n; i++)
		if (strncmp(choices[i].word, *typed, strlen(*typed)) == 0)
			choices[kept++] = choices[i];
	return kept;
}

static void
list_choices(const struct command_choice *choices, unsigned int n, const char *hint)
{
	bool helps = false;
	int width = 0, column = 0;

	printf("\n  %s\n", hint);
	for (unsigned int i = 0; i < n; i++) {
		helps |= choices[i].help[0] != '\0';
		if ((int)strlen(choices[i].word) > width)
			width = (int)strlen(choices[i].word);
	}
	for (unsigned int i = 0; i < n && i < LISTED_MAX; i++) {
		if (helps) {
			printf("    %-*s  %s\n", width, choices[i].word, choices[i].help);
			continue;
		}
		printf("    %-*s", width, choices[i].word);
		column += 4 + width;
		if (column + 4 + width > LISTED_WIDTH || i + 1 == n || i + 1 == LISTED_MAX) {
			putchar('\n');
			column = 0;
		}
	}
	if (n > LISTED_MAX)
		printf("    ... and %u more\n", n - LISTED_MAX);
}

/** Insert what all choices have in common behind @p typed. @return true if that was anything. */
static bool
insert_common(EditLine *el, const struct command_choice *choices, unsigned int n, const char *typed)
{
	char text[COMMAND_WORD_BYTES + 1];
	size_t common = strlen(choices[0].word);

	for (unsigned int i = 1; i < n; i++)
		for (size_t k = 0; k < common; k++)
			if (choices[i].word[k] != choices[0].word[k])
				common = k;
	snprintf(text, sizeof(text), "%.*s%s", (int)(common - strlen(typed)), choices[0].word + strlen(typed), n == 1 ? " " : "");
	return text[0] != '\0' && el_insertstr(el, text) == 0;
}

static unsigned char
choose(EditLine *el, bool only_list)
{
	static struct command_choice choices[COMMAND_MAX_CHOICES];
	const LineInfo *li = el_line(el);
	char line[COMMAND_LINE_BYTES], hint[COMMAND_LINE_BYTES];
	const char *words[COMMAND_MAX_WORDS], *typed;
	unsigned int nb, n;
	bool list;

	snprintf(line, sizeof(line), "%.*s", (int)(li->cursor - li->buffer), li->buffer);
	nb = words_typed(line, words, &typed);
	n = command_choices(words, nb, choices, hint, &list);
	n = matching(choices, n, list, &typed);
	if (!only_list && n > 0 && insert_common(el, choices, n, typed))
		return CC_REFRESH;
	list_choices(choices, n, hint);
	show_line();
	return CC_NORM;
}

static unsigned char
on_tab(EditLine *el, int key)
{
	return choose(el, false);
}

static unsigned char
on_question(EditLine *el, int key)
{
	return choose(el, true);
}

/* ---- Begin and end ---- */
/**
 * Open the terminal of stdin once more, so that reading it never blocks; stdin itself we share with the program that has started us. Where that
 * isn't allowed (su), it is stdin, and after Ctrl-C the prompt may wait for the next key.
 */
static int
open_input(void)
{
	char name[PATH_BYTES];
	int fd = -1;

	if (ttyname_r(STDIN_FILENO, name, sizeof(name)) == 0)
		fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 ? fd : STDIN_FILENO;
}

int
edit_begin(const char *text, const struct edit_hooks *h)
{
	prompt_text = text;
	hooks = h;
	/* For what is typed; numbers are written as in C. */
	setlocale(LC_CTYPE, "");
	editor = el_init("uroce-test", stdin, stdout, stderr);
	if (editor == NULL)
		return -1;
	el_set(editor, EL_PROMPT, prompt);
	el_set(editor, EL_SIGNAL, 0);
	el_set(editor, EL_EDITOR, "emacs");
	el_set(editor, EL_GETCFN, read_character);
	el_set(editor, EL_ADDFN, "uroce-complete", "complete the word", on_tab);
	el_set(editor, EL_ADDFN, "uroce-choices", "list what may come next", on_question);
	el_set(editor, EL_BIND, "\t", "uroce-complete", NULL);
	el_set(editor, EL_BIND, "?", "uroce-choices", NULL);
	el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
	if (begin_history() != 0) {
		edit_end();
		return -1;
	}
	/* The user's own bindings, as in editrc(5). */
	el_source(editor, NULL);
	input = open_input();
	signal(SIGWINCH, on_signal);
	signal(SIGCONT, on_signal);
	return 0;
}

const char *
edit_line(void)
{
	static char line[COMMAND_LINE_BYTES + 1]; /* longer ones are refused by command_run() */
	const char *got;
	int n = 0;

	given_up = false;
	/* el_gets() would do it behind the prompt: a Ctrl-D typed at once would still get the terminal's own meaning, and be lost. */
	el_set(editor, EL_PREP_TERM, 1);
	got = el_gets(editor, &n);
	if (given_up) {
		puts("^C");
		return hooks->quitting() ? NULL : "";
	}
	if (got == NULL || n <= 0 || hooks->quitting())
		return NULL;

	snprintf(line, sizeof(line), "%.*s", (int)strcspn(got, "\r\n"), got);
	if (line[strspn(line, " \t")] != '\0')
		remember(line);
	return line;
}

void
edit_end(void)
{
	if (history_list != NULL)
		history_end(history_list);
	history_list = NULL;
	el_end(editor);
	editor = NULL;
	if (input != STDIN_FILENO)
		close(input);
	input = STDIN_FILENO;
	signal(SIGWINCH, SIG_DFL);
	signal(SIGCONT, SIG_DFL);
}
