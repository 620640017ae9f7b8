/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format.h"

static char *text;
static size_t bytes;

/** Write what @p f has to text. */
static void
write_it(struct format *f, enum format_style style)
{
	FILE *out;

	free(text);
	text = NULL;
	out = open_memstream(&text, &bytes);
	assert_non_null(out);
	format_end(f, style, "nothing", out);
	fclose(out);
}

static struct format *
two_rows(void)
{
	struct format *f = format_new();

	format_row(f);
	format_text(f, "name", "qp%u", 1);
	format_number(f, "count", 7);
	format_row(f);
	format_text(f, "name", "a longer name");
	format_number(f, "count", 12345);
	format_hex(f, "qpn", 0x11);
	return f;
}

static void
a_table_has_columns_in_line(void **state)
{
	write_it(two_rows(), FORMAT_TABLE);
	assert_string_equal(text, "name           count   qpn\n"
				  "qp1                7     -\n"
				  "a longer name  12345  0x11\n");
}

static void
a_list_has_a_line_for_each_value_there_is(void **state)
{
	write_it(two_rows(), FORMAT_LIST);
	assert_string_equal(text, "name   qp1\ncount  7\n\nname   a longer name\ncount  12345\nqpn    0x11\n");
}

static void
json_has_numbers_without_quotes_and_leaves_out_what_is_not_there(void **state)
{
	write_it(two_rows(), FORMAT_JSON);
	assert_string_equal(text, "[{ \"name\": \"qp1\", \"count\": 7 },\n"
				  " { \"name\": \"a longer name\", \"count\": 12345, \"qpn\": 17 }]\n");
}

static void
json_escapes_what_would_break_it(void **state)
{
	struct format *f = format_new();

	format_row(f);
	format_text(f, "x", "a\"b\\c\nd\te");
	format_bool(f, "yes", true);
	format_bool(f, "no", false);
	format_real(f, "real", 1.25, 1);
	write_it(f, FORMAT_JSON);
	assert_string_equal(text, "[{ \"x\": \"a\\\"b\\\\c\\nd\\te\", \"yes\": true, \"no\": false, \"real\": 1.2 }]\n");
}

static void
no_row_is_said_in_words_or_as_an_empty_array(void **state)
{
	write_it(format_new(), FORMAT_TABLE);
	assert_string_equal(text, "nothing\n");
	write_it(format_new(), FORMAT_LIST);
	assert_string_equal(text, "nothing\n");
	write_it(format_new(), FORMAT_JSON);
	assert_string_equal(text, "[]\n");
}

static void
a_value_given_twice_is_the_last_one(void **state)
{
	struct format *f = format_new();

	format_row(f);
	format_number(f, "a", 1);
	format_text(f, "a", "two");
	write_it(f, FORMAT_JSON);
	assert_string_equal(text, "[{ \"a\": \"two\" }]\n");
}

static void
many_rows_fit(void **state)
{
	struct format *f = format_new();
	unsigned int lines = 0;

	for (unsigned int i = 0; i < 1000; i++) {
		format_row(f);
		format_number(f, "i", i);
	}
	write_it(f, FORMAT_TABLE);
	for (const char *c = text; *c != '\0'; c++)
		lines += *c == '\n';
	assert_int_equal(lines, 1001);
}

static void
short_numbers_have_three_digits(void **state)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = { { 0, "0" }, { 999, "999" }, { 1000, "1.00k" }, { 9996, "10.0k" }, { 12345, "12.3k" }, { 123456, "123k" },
		      { 999500, "1.00M" }, { 7.8e9, "7.80G" } };
	char out[16];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(format_short(cases[i].value, out), cases[i].text);
}

static void
times_have_their_unit(void **state)
{
	char out[16];

	assert_string_equal(format_time(999, out), "999 ns");
	assert_string_equal(format_time(12300, out), "12.3 us");
	assert_string_equal(format_time(4560000, out), "4.56 ms");
	assert_string_equal(format_time(2500000000, out), "2.50 s");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_has_columns_in_line),
		cmocka_unit_test(a_list_has_a_line_for_each_value_there_is),
		cmocka_unit_test(json_has_numbers_without_quotes_and_leaves_out_what_is_not_there),
		cmocka_unit_test(json_escapes_what_would_break_it),
		cmocka_unit_test(no_row_is_said_in_words_or_as_an_empty_array),
		cmocka_unit_test(a_value_given_twice_is_the_last_one),
		cmocka_unit_test(many_rows_fit),
		cmocka_unit_test(short_numbers_have_three_digits),
		cmocka_unit_test(times_have_their_unit),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	free(text);
	return rc;
}
