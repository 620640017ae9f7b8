/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "command.h"

/* ---- A grammar of our own ---- */
static struct call seen;
static unsigned int runs;
static char text_seen[64];

static int
remember(struct call *c)
{
	seen = *c;
	runs++;
	/* Texts lie in the line, which goes away. */
	if (c->nb_args > 0 && c->text[0] != NULL)
		snprintf(text_seen, sizeof(text_seen), "%s", c->text[0]);
	return 0;
}

static int
refuse(struct call *c)
{
	return call_fail(c, "never");
}

static const char *
colours(unsigned int i)
{
	static const char *const names[] = { "red", "green" };

	return i < 2 ? names[i] : NULL;
}

static const struct arg *
more_args(const char *first)
{
	static const struct arg more[] = { { "extra", "one more", ARG_NUMBER, ARG_KEYED, .min = 0, .max = 9 }, { 0 } };

	return strcmp(first, "red") == 0 ? more : NULL;
}

static const char *const sizes[] = { "small", "large", NULL };
static const struct arg paint_args[] = {
	{ "colour", "which", ARG_NAME, ARG_NEEDED, .names = colours },
	{ "coats", "how many", ARG_NUMBER, ARG_OPTIONAL, .min = 1, .max = 1e12 },
	{ "size", "of the brush", ARG_CHOICE, ARG_KEYED, .words = sizes },
	{ "share", "of the wall", ARG_REAL, ARG_KEYED, .min = 0, .max = 1 },
	{ .name = "fast", .help = "hurry", .type = ARG_FLAG },
	{ 0 },
};
static const struct arg list_args[] = {
	{ "colours", "some", ARG_NAME, ARG_NEEDED, .list = true, .names = colours },
	{ 0 },
};
static const struct arg open_args[] = {
	{ "colour", "a number", ARG_NAME, ARG_NEEDED, .open = true, .names = colours },
	{ 0 },
};
static const struct command table[] = {
	{ "paint wall", "Paint.", paint_args, more_args, remember },
	{ "paint list", "Paint several.", list_args, NULL, remember },
	{ "paint any", "Paint it so.", open_args, NULL, remember },
	{ "stop", "Stop.", NULL, NULL, remember },
	{ "fail", "Fail.", NULL, NULL, refuse },
	{ 0 },
};
COMMANDS(table)

/* ---- What is said of mistakes, on stderr ---- */
static char printed[2 * COMMAND_LINE_BYTES];

/** Run a line, with what it says on stderr in printed. */
static int
run(const char *line)
{
	int fds[2], saved, rc;
	ssize_t n;

	fflush(stdout);
	assert_int_equal(pipe(fds), 0);
	saved = dup(STDERR_FILENO);
	dup2(fds[1], STDERR_FILENO);
	rc = command_run(line);
	fflush(stdout);
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(fds[1]);
	n = read(fds[0], printed, sizeof(printed) - 1);
	assert_true(n >= 0);
	printed[n] = '\0';
	close(fds[0]);
	return rc;
}

static void
values_arrive(void **state)
{
	assert_int_equal(run("paint wall red 3 share 0.25 size large fast"), 0);
	assert_string_equal(printed, "");
	assert_string_equal(text_seen, "red");
	assert_int_equal(call_number(&seen, "coats", 0), 3);
	assert_int_equal(call_choice(&seen, "size", -1), 1);
	assert_true(call_real(&seen, "share", 0) == 0.25);
	assert_true(call_has(&seen, "fast"));
}

static void
what_is_left_out_has_its_default(void **state)
{
	assert_int_equal(run("paint wall green"), 0);
	assert_false(call_has(&seen, "coats"));
	assert_int_equal(call_number(&seen, "coats", 42), 42);
	assert_int_equal(call_choice(&seen, "size", -1), -1);
	assert_false(call_has(&seen, "fast"));
}

static void
numbers_may_be_hexadecimal_and_have_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t value;
	} cases[] = { { "1", 1 }, { "0x10", 16 }, { "2k", 2048 }, { "3M", 3 << 20 }, { "1g", 1 << 30 } };
	char line[64];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(line, sizeof(line), "paint wall red %s", cases[i].text);
		assert_int_equal(run(line), 0);
		assert_int_equal(call_number(&seen, "coats", 0), cases[i].value);
	}
}

static void
mistakes_are_named_with_what_was_expected(void **state)
{
	static const struct {
		const char *line, *answer;
	} cases[] = {
		{ "dance", "'dance': no such command; expected one of fail, paint, stop\n" },
		{ "paint", "paint: expected one of any, list, wall\n" },
		{ "paint sky", "paint 'sky': no such command; expected one of any, list, wall\n" },
		{ "paint wall", "paint wall: colour is missing: expected one of red, green\n" },
		{ "paint wall blue", "paint wall: colour: 'blue': expected one of red, green\n" },
		{ "paint wall red 0", "paint wall: coats: '0': expected a number from 1 to 1000000000000\n" },
		{ "paint wall red -1", "paint wall: coats: '-1': expected a number from 1 to 1000000000000\n" },
		{ "paint wall red 3x", "paint wall: coats: '3x': expected a number from 1 to 1000000000000\n" },
		{ "paint wall red 99999999999999999999", "paint wall: coats: '99999999999999999999': expected a number from 1 to 1000000000000\n" },
		{ "paint wall red 18446744073709551615g", "paint wall: coats: '18446744073709551615g': expected a number from 1 to 1000000000000\n" },
		{ "paint wall red 1 size", "paint wall: size: expected one of small, large behind it\n" },
		{ "paint wall red 1 size huge", "paint wall: size: 'huge': expected one of small, large\n" },
		{ "paint wall red 1 share 1.5", "paint wall: share: '1.5': expected a number from 0 to 1\n" },
		{ "paint wall red 1 share nan", "paint wall: share: 'nan': expected a number from 0 to 1\n" },
		{ "paint wall red 1 fast fast", "paint wall: fast: given twice\n" },
		{ "paint wall red 1 slow", "paint wall: 'slow': expected one of size, share, fast, extra\n" },
		{ "paint wall green 1 extra 1", "paint wall: 'extra': expected one of size, share, fast\n" },
		{ "paint list red,blue", "paint list: colours: 'red,blue': expected some of red, green\n" },
		{ "pant wall", "'pant': no such command; did you mean 'paint'? `help` lists all\n" },
		{ "paint wal red", "paint 'wal': no such command; did you mean 'wall'? `help` lists all\n" },
		{ "paint wall red 1 sise small", "paint wall: 'sise': did you mean 'size'? Expected one of size, share, fast, extra\n" },
		{ "stop now", "stop: 'now': nothing more was expected\n" },
		{ "fail", "fail: never\n" },
	};
	unsigned int before = command_failures(), ran = runs;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(run(cases[i].line), -1);
		assert_string_equal(printed, cases[i].answer);
	}
	assert_int_equal(command_failures() - before, sizeof(cases) / sizeof(cases[0]));
	assert_int_equal(runs, ran);
}

static void
lists_and_open_names_are_taken(void **state)
{
	assert_int_equal(run("paint list red,green,red"), 0);
	assert_string_equal(text_seen, "red,green,red");
	assert_int_equal(run("paint any 0x77"), 0);
	assert_string_equal(text_seen, "0x77");
}

static void
arguments_may_hang_on_the_first(void **state)
{
	assert_int_equal(run("paint wall red extra 7"), 0);
	assert_int_equal(call_number(&seen, "extra", 0), 7);
}

static void
comments_and_empty_lines_are_nothing(void **state)
{
	unsigned int ran = runs;

	assert_int_equal(run(""), 0);
	assert_int_equal(run("   \t"), 0);
	assert_int_equal(run("# paint wall blue"), 0);
	assert_int_equal(runs, ran);
	assert_int_equal(run("stop # and rest"), 0);
	assert_int_equal(runs, ran + 1);
}

static void
endless_lines_are_refused(void **state)
{
	char line[2 * COMMAND_LINE_BYTES];

	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	assert_int_equal(run(line), -1);
	for (size_t i = 1; i < COMMAND_LINE_BYTES; i += 2)
		line[i] = ' ';
	line[COMMAND_LINE_BYTES - 2] = '\0';
	assert_int_equal(run(line), -1);
	assert_string_equal(printed, "a line has at most 96 words\n");
}

static struct command_choice choices[COMMAND_MAX_CHOICES];
static char hint[COMMAND_LINE_BYTES];
static bool several;

/** @return what is said of @p word, which is offered behind @p nb words; NULL: it isn't offered. */
static const char *
help_of(const char *const *words, unsigned int nb, const char *word)
{
	unsigned int n = command_choices(words, nb, choices, hint, &several);

	for (unsigned int i = 0; i < n; i++)
		if (strcmp(choices[i].word, word) == 0)
			return choices[i].help;
	return NULL;
}

static bool
offered(const char *const *words, unsigned int nb, const char *word)
{
	return help_of(words, nb, word) != NULL;
}

static const char *
about(const char *name)
{
	return strcmp(name, "red") == 0 ? "like blood" : NULL;
}

static void
completion_says_what_each_word_is(void **state)
{
	static const char *const wall[] = { "paint", "wall", "red", "coats" }, *const list[] = { "paint", "list" };

	command_describe(about);
	assert_string_equal(help_of(wall, 0, "stop"), "Stop.");
	assert_string_equal(help_of(wall, 0, "paint"), "any, list, wall");
	assert_string_equal(help_of(wall, 1, "wall"), "Paint.");
	assert_string_equal(help_of(wall, 2, "red"), "like blood");
	assert_string_equal(help_of(wall, 2, "green"), "");
	assert_string_equal(hint, "colour: which");
	assert_false(several);
	assert_string_equal(help_of(wall, 3, "share"), "of the wall");
	assert_string_equal(hint, "coats: how many: a number from 1 to 1000000000000");
	assert_string_equal(help_of(list, 2, "red"), "like blood");
	assert_true(several);
	command_describe(NULL);
}

static void
completion_offers_what_would_be_taken(void **state)
{
	static const char *const words[] = { "paint", "wall", "red", "size", "large" };

	assert_true(offered(words, 0, "paint"));
	assert_true(offered(words, 0, "stop"));
	assert_true(offered(words, 1, "wall"));
	assert_true(offered(words, 1, "list"));
	assert_false(offered(words, 1, "stop"));
	assert_true(offered(words, 2, "green"));
	assert_true(offered(words, 2, "size"));
	assert_true(offered(words, 3, "size"));
	assert_true(offered(words, 3, "extra"));
	assert_true(offered(words, 4, "large"));
	assert_false(offered(words, 4, "share"));
	assert_false(offered(words, 5, "size"));
	assert_true(offered(words, 5, "share"));
}

static void
syntax_tells_needed_optional_and_named_arguments(void **state)
{
	char text[COMMAND_LINE_BYTES];

	for (unsigned int i = 0; command_at(i) != NULL; i++)
		if (strcmp(command_at(i)->words, "paint wall") == 0)
			assert_string_equal(command_syntax(command_at(i), text, sizeof(text)),
					    "paint wall COLOUR [COATS] [size SIZE] [share N] [fast]");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_arrive),
		cmocka_unit_test(what_is_left_out_has_its_default),
		cmocka_unit_test(numbers_may_be_hexadecimal_and_have_units),
		cmocka_unit_test(mistakes_are_named_with_what_was_expected),
		cmocka_unit_test(lists_and_open_names_are_taken),
		cmocka_unit_test(arguments_may_hang_on_the_first),
		cmocka_unit_test(comments_and_empty_lines_are_nothing),
		cmocka_unit_test(endless_lines_are_refused),
		cmocka_unit_test(completion_offers_what_would_be_taken),
		cmocka_unit_test(completion_says_what_each_word_is),
		cmocka_unit_test(syntax_tells_needed_optional_and_named_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
