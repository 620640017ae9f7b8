/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables (libsmartcols) and JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libsmartcols.h>

#include "daemon.h"

int
show_json(json_object *value)
{
	int flags = JSON_C_TO_STRING_NOSLASHESCAPE | (target.pretty ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED : JSON_C_TO_STRING_PLAIN);

	puts(json_object_to_json_string_ext(value, flags));
	return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
}

/* Add a line for @p o. @return false: no memory. */
static bool
add_line(struct libscols_table *t, json_object *o, const struct column *columns)
{
	struct libscols_line *line = scols_table_new_line(t, NULL);

	if (line == NULL)
		return false;
	for (size_t i = 0; columns[i].head != NULL; i++) {
		char *text = joined(o, columns[i].member, ",");

		if (text == NULL || scols_line_refer_data(line, i, text) != 0)
			return false;
	}
	return true;
}

static int
show_table(json_object *array, const struct column *columns)
{
	struct libscols_table *t;
	bool good;

	scols_init_debug(0);
	t = scols_new_table();
	good = t != NULL;
	for (size_t i = 0; good && columns[i].head != NULL; i++)
		good = scols_table_new_column(t, columns[i].head, 0, columns[i].right ? SCOLS_FL_RIGHT : 0) != NULL;
	for (size_t i = 0; good && i < json_object_array_length(array); i++)
		good = add_line(t, json_object_array_get_idx(array, i), columns);
	good = good && scols_print_table(t) == 0 && fflush(stdout) == 0;
	scols_unref_table(t);
	return good ? 0 : fail("the table can't be printed");
}

int
show(json_object *array, const struct column *columns)
{
	return target.json ? show_json(array) : show_table(array, columns);
}

const char *
with_prefix(double value, char *text, size_t bytes)
{
	static const char prefixes[] = " kMGT";
	unsigned int i = 0;

	while (fabs(value) >= 999.5 && i < sizeof(prefixes) - 2) {
		value /= 1000;
		i++;
	}
	snprintf(text, bytes, value >= 99.95 || i == 0 ? "%.0f%c" : "%.1f%c", value, i > 0 ? prefixes[i] : '\0');
	return text;
}
