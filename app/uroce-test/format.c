/* SPDX-License-Identifier: BSD-3-Clause */
/* Rows are kept by json-c, tables drawn by libsmartcols. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>
#include <libsmartcols.h>

#include "format.h"

enum { TEXT_BYTES = 1024 };

/* Rows are JSON objects. A value that a table shows otherwise than JSON has that text as its user data. */
struct format {
	json_object *rows;
	json_object *row; /* the last one */
};

static void *
must(void *p)
{
	if (p == NULL) {
		fputs("uroce-test: no memory for an answer\n", stderr);
		exit(EXIT_FAILURE);
	}
	return p;
}

struct format *
format_new(void)
{
	struct format *f = must(calloc(1, sizeof(*f)));

	f->rows = must(json_object_new_array());
	return f;
}

void
format_row(struct format *f)
{
	f->row = must(json_object_new_object());
	if (json_object_array_add(f->rows, f->row) != 0)
		must(NULL);
}

static void
put(struct format *f, const char *name, json_object *value)
{
	if (json_object_object_add(f->row, name, must(value)) != 0)
		must(NULL);
}

void
format_text(struct format *f, const char *name, const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put(f, name, json_object_new_string(text));
}

void
format_number(struct format *f, const char *name, uint64_t value)
{
	put(f, name, json_object_new_uint64(value));
}

void
format_hex(struct format *f, const char *name, uint64_t value)
{
	json_object *o = must(json_object_new_uint64(value));
	char text[32];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)value);
	json_object_set_userdata(o, must(strdup(text)), json_object_free_userdata);
	put(f, name, o);
}

void
format_real(struct format *f, const char *name, double value, unsigned int decimals)
{
	char text[64];

	snprintf(text, sizeof(text), "%.*f", (int)decimals, value);
	put(f, name, json_object_new_double_s(value, text));
}

void
format_bool(struct format *f, const char *name, bool value)
{
	put(f, name, json_object_new_boolean(value));
}

/* ---- Writing ---- */
static const char *
shown(json_object *value)
{
	switch (json_object_get_type(value)) {
	case json_type_null:
		return "-";
	case json_type_boolean:
		return json_object_get_boolean(value) ? "yes" : "no";
	case json_type_int:
		if (json_object_get_userdata(value) != NULL)
			return json_object_get_userdata(value);
		break;
	default:
		break;
	}
	return json_object_get_string(value);
}

static void
write_json(json_object *rows, FILE *out)
{
	size_t n = json_object_array_length(rows);

	putc('[', out);
	for (size_t r = 0; r < n; r++)
		fprintf(out, "%s%s", r > 0 ? ",\n " : "",
			json_object_to_json_string_ext(json_object_array_get_idx(rows, r),
						       JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE));
	fputs("]\n", out);
}

static void
write_list(json_object *rows, FILE *out)
{
	int width = 0;

	for (size_t r = 0; r < json_object_array_length(rows); r++) {
		json_object_object_foreach(json_object_array_get_idx(rows, r), name, value)
		{
			(void)value;
			if ((int)strlen(name) > width)
				width = (int)strlen(name);
		}
	}
	for (size_t r = 0; r < json_object_array_length(rows); r++) {
		if (r > 0)
			putc('\n', out);
		json_object_object_foreach(json_object_array_get_idx(rows, r), name, value)
		{
			fprintf(out, "%-*s  %s\n", width, name, shown(value));
		}
	}
}

/* A column for each name, in the order in which they were first used; aligned to the right if it has numbers. */
static void
add_columns(struct libscols_table *t, json_object *rows)
{
	json_object *seen = must(json_object_new_object());

	for (size_t r = 0; r < json_object_array_length(rows); r++) {
		json_object_object_foreach(json_object_array_get_idx(rows, r), name, value)
		{
			bool number = json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double);
			json_object *before;

			if (!json_object_object_get_ex(seen, name, &before))
				json_object_object_add(seen, name, json_object_new_boolean(number));
			else if (number)
				json_object_set_boolean(before, true);
		}
	}
	json_object_object_foreach(seen, name, number)
	{
		must(scols_table_new_column(t, name, 0, json_object_get_boolean(number) ? SCOLS_FL_RIGHT : 0));
	}
	json_object_put(seen);
}

static void
write_table(json_object *rows, FILE *out)
{
	struct libscols_table *t;

	scols_init_debug(0);
	t = must(scols_new_table());
	add_columns(t, rows);
	for (size_t r = 0; r < json_object_array_length(rows); r++) {
		struct libscols_line *line = must(scols_table_new_line(t, NULL));

		for (size_t i = 0; i < scols_table_get_ncols(t); i++) {
			const char *name = scols_cell_get_data(scols_column_get_header(scols_table_get_column(t, i)));

			if (scols_line_set_data(line, i, shown(json_object_object_get(json_object_array_get_idx(rows, r), name))) != 0)
				must(NULL);
		}
	}
	scols_table_set_stream(t, out);
	scols_table_set_column_separator(t, "  ");
	scols_table_set_termforce(t, SCOLS_TERMFORCE_NEVER);
	scols_print_table(t);
	scols_unref_table(t);
}

void
format_free(struct format *f)
{
	json_object_put(f->rows);
	free(f);
}

void
format_end(struct format *f, enum format_style style, const char *empty, FILE *out)
{
	if (style == FORMAT_JSON)
		write_json(f->rows, out);
	else if (json_object_array_length(f->rows) == 0)
		fprintf(out, "%s\n", empty);
	else if (style == FORMAT_LIST)
		write_list(f->rows, out);
	else
		write_table(f->rows, out);
	fflush(out);
	format_free(f);
}

char *
format_short(double value, char *text)
{
	static const char units[] = " kMGTPE";
	unsigned int u = 0;

	while (value >= 999.5 && u < sizeof(units) - 2) {
		value /= 1000;
		u++;
	}
	if (u == 0)
		snprintf(text, 16, "%.0f", value);
	else
		snprintf(text, 16, "%.*f%c", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[u]);
	return text;
}

char *
format_time(uint64_t ns, char *text)
{
	if (ns < 1000)
		snprintf(text, 16, "%u ns", (unsigned int)ns);
	else if (ns < 1000000)
		snprintf(text, 16, "%.1f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(text, 16, "%.2f ms", (double)ns / 1e6);
	else
		snprintf(text, 16, "%.2f s", (double)ns / 1e9);
	return text;
}
