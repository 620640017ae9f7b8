/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"

enum { MAX_COLUMNS = 256, TEXT_BYTES = 1024 };

struct cell {
	char *text; /* NULL: nothing */
	char *json; /* NULL: the text, in quotes */
	bool right; /* aligned to the right, for numbers */
};

struct format {
	unsigned int nb_columns, nb_rows, room;
	char *names[MAX_COLUMNS];
	struct cell (*rows)[MAX_COLUMNS];
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
	return must(calloc(1, sizeof(struct format)));
}

void
format_row(struct format *f)
{
	if (f->nb_rows == f->room) {
		f->room = f->room == 0 ? 8 : 2 * f->room;
		f->rows = must(realloc(f->rows, f->room * sizeof(*f->rows)));
	}
	memset(&f->rows[f->nb_rows++], 0, sizeof(*f->rows));
}

static struct cell *
cell(struct format *f, const char *name)
{
	unsigned int i;

	for (i = 0; i < f->nb_columns; i++)
		if (strcmp(f->names[i], name) == 0)
			return &f->rows[f->nb_rows - 1][i];
	if (f->nb_columns == MAX_COLUMNS)
		must(NULL);
	f->names[f->nb_columns++] = must(strdup(name));
	return &f->rows[f->nb_rows - 1][i];
}

static void
put(struct format *f, const char *name, const char *text, const char *json, bool right)
{
	struct cell *c = cell(f, name);

	free(c->text);
	free(c->json);
	*c = (struct cell){ .text = must(strdup(text)), .json = json != NULL ? must(strdup(json)) : NULL, .right = right };
}

void
format_text(struct format *f, const char *name, const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put(f, name, text, NULL, false);
}

void
format_number(struct format *f, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	put(f, name, text, text, true);
}

void
format_hex(struct format *f, const char *name, uint64_t value)
{
	char text[32], json[32];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)value);
	snprintf(json, sizeof(json), "%llu", (unsigned long long)value);
	put(f, name, text, json, true);
}

void
format_real(struct format *f, const char *name, double value, unsigned int decimals)
{
	char text[64];

	snprintf(text, sizeof(text), "%.*f", (int)decimals, value);
	put(f, name, text, text, true);
}

void
format_bool(struct format *f, const char *name, bool value)
{
	put(f, name, value ? "yes" : "no", value ? "true" : "false", false);
}

/* ---- Writing ---- */
static void
write_string(const char *s, FILE *out)
{
	putc('"', out);
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if (*s == '\n')
			fputs("\\n", out);
		else if ((unsigned char)*s < ' ')
			fprintf(out, "\\u%04x", (unsigned char)*s);
		else
			putc(*s, out);
	}
	putc('"', out);
}

static void
write_json(const struct format *f, FILE *out)
{
	putc('[', out);
	for (unsigned int r = 0; r < f->nb_rows; r++) {
		bool first = true;

		fputs(r > 0 ? ",\n {" : "{", out);
		for (unsigned int i = 0; i < f->nb_columns; i++) {
			const struct cell *c = &f->rows[r][i];

			if (c->text == NULL)
				continue;
			if (!first)
				fputs(", ", out);
			first = false;
			write_string(f->names[i], out);
			fputs(": ", out);
			if (c->json != NULL)
				fputs(c->json, out);
			else
				write_string(c->text, out);
		}
		putc('}', out);
	}
	fputs("]\n", out);
}

static void
write_list(const struct format *f, FILE *out)
{
	int width = 0;

	for (unsigned int i = 0; i < f->nb_columns; i++)
		if ((int)strlen(f->names[i]) > width)
			width = (int)strlen(f->names[i]);
	for (unsigned int r = 0; r < f->nb_rows; r++) {
		if (r > 0)
			putc('\n', out);
		for (unsigned int i = 0; i < f->nb_columns; i++)
			if (f->rows[r][i].text != NULL)
				fprintf(out, "%-*s  %s\n", width, f->names[i], f->rows[r][i].text);
	}
}

static void
write_cell(const char *text, int width, bool right, bool last, FILE *out)
{
	if (right)
		fprintf(out, "%*s", width, text);
	else
		fprintf(out, "%-*s", last ? 0 : width, text);
	fputs(last ? "\n" : "  ", out);
}

static void
write_table(const struct format *f, FILE *out)
{
	for (unsigned int r = 0; r <= f->nb_rows; r++)
		for (unsigned int i = 0; i < f->nb_columns; i++) {
			int width = (int)strlen(f->names[i]);
			bool right = false;

			for (unsigned int k = 0; k < f->nb_rows; k++) {
				const struct cell *c = &f->rows[k][i];

				right = right || c->right;
				if (c->text != NULL && (int)strlen(c->text) > width)
					width = (int)strlen(c->text);
			}
			write_cell(r == 0 ? f->names[i] : f->rows[r - 1][i].text != NULL ? f->rows[r - 1][i].text : "-", width,
				   right, i == f->nb_columns - 1, out);
		}
}

void
format_free(struct format *f)
{
	for (unsigned int r = 0; r < f->nb_rows; r++)
		for (unsigned int i = 0; i < f->nb_columns; i++) {
			free(f->rows[r][i].text);
			free(f->rows[r][i].json);
		}
	for (unsigned int i = 0; i < f->nb_columns; i++)
		free(f->names[i]);
	free(f->rows);
	free(f);
}

void
format_end(struct format *f, enum format_style style, const char *empty, FILE *out)
{
	if (style == FORMAT_JSON)
		write_json(f, out);
	else if (f->nb_rows == 0)
		fprintf(out, "%s\n", empty);
	else if (style == FORMAT_LIST)
		write_list(f, out);
	else
		write_table(f, out);
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
